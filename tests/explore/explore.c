/* explore.c - the explorer from the command line. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mutant.h"
#include "world.h"

typedef struct options {
    const char *scenario; /* NULL: all */
    const char *replay;
    uint64_t schedules; /* of each scenario, by each strategy */
    uint64_t seed;
} options;

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: explore [SCENARIO] [--schedules N] [--seed N] [--replay SEED]\n"
        "               [--mutant NAME] [--orders device]\n\n"
        "  --schedules N   of each scenario, half of them drawn (default 40000)\n"
        "  --seed N        the first seed (default 1)\n"
        "  --replay WHAT   one schedule again, step by step: a seed, or a list of changes\n"
        "                  as a failure prints it\n"
        "  --mutant NAME   with something broken on purpose\n"
        "  --orders device code of a device has the memory orders that it has there\n"
        "  --relax FIELD:KIND,...    operations on a field (names as schedules show them, * for\n"
        "                  a number; load store swap add cas cas-fails) are taken for relaxed\n"
        "  --weaken FIELD:KIND,...   or sequentially consistent ones for acquire and release\n\n"
        "scenarios:\n");
    for (const scenario *const *s = scenarios; *s; s++) {
        fprintf(out, "  %-16s %s\n", (*s)->name, (*s)->text);
    }
    fprintf(out, "\nmutants:\n");
    for (const mutation *m = mutations; m->name; m++) {
        fprintf(out, "  %-24s %s\n", m->name, m->text);
    }
}

static uint64_t number(const char *text)
{
    if (!*text || text[strspn(text, "0123456789")]) {
        fprintf(stderr, "explore: '%s' is no number\n", text);
        exit(2);
    }
    return strtoull(text, NULL, 10);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char broken[64]; /* the mutation given on the command line */

static void report(const scenario *s, search_result *r)
{
    printf("\n%s FAILED at schedule %" PRIu64 ": %s\n", s->name, r->at, r->why);
    if (r->seed) {
        printf("  again: ./dev explore %s --replay %" PRIu64 "%s\n", s->name, r->seed, broken);
    }
    search_shorten(r);
    printf("  shortest: ./dev explore %s --replay '%s'%s\n", s->name, r->replay, broken);
    search_print();
}

/* FIELD:KIND,KIND...: weakens a memory order of the sources. */
static bool weaken(char *what, mutation_action action)
{
    static const struct {
        const char *name;
        op_kind kind;
    } kinds[] = {{"load", OP_LOAD}, {"store", OP_STORE}, {"swap", OP_SWAP},
                 {"add", OP_ADD},   {"cas", OP_CAS},     {"cas-fails", OP_CAS_FAILED}};
    static mutation made;
    char *list = strrchr(what, ':');
    if (!list) {
        return false;
    }
    *list++ = 0;
    made = (mutation){.name = what, .action = action, .field = what};
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            made.kinds |= strcmp(word, kinds[i].name) == 0 ? 1u << kinds[i].kind : 0;
        }
    }
    mutation_now = &made;
    return made.kinds != 0;
}

/* Applies a mutation, in the scenario that should detect it unless another is named. */
static bool break_it(const char *name, options *o)
{
    for (const mutation *m = mutations; m->name; m++) {
        if (strcmp(m->name, name) == 0) {
            mutation_now = m;
            snprintf(broken, sizeof broken, " --mutant %s", name);
            ptoi_mutant = (ptoi_mutant_name)m->code;
            explore_device_orders |= mutation_needs_orders(m);
            o->scenario = o->scenario ? o->scenario : m->caught_by;
            return true;
        }
    }
    return false;
}

static bool order_it(const char *what)
{
    explore_device_orders = strcmp(what, "device") == 0;
    snprintf(broken, sizeof broken, " --orders device");
    return explore_device_orders;
}

/* Parses the command line; exits if it is wrong or asks for help. */
static options parse(int argc, char **argv)
{
    options o = {.schedules = 40000, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (name[0] != '-' && !o.scenario) {
            o.scenario = name;
            continue;
        }
        if (strcmp(name, "--help") == 0) {
            usage(stdout);
            exit(0);
        }
        char *value = i + 1 < argc ? argv[++i] : NULL;
        if (value && strcmp(name, "--schedules") == 0) {
            o.schedules = number(value);
        } else if (value && strcmp(name, "--seed") == 0) {
            o.seed = number(value);
        } else if (value && strcmp(name, "--replay") == 0) {
            o.replay = value;
        } else if (!value || !((strcmp(name, "--mutant") == 0 && break_it(value, &o)) ||
                               (strcmp(name, "--orders") == 0 && order_it(value)) ||
                               (strcmp(name, "--relax") == 0 && weaken(value, MUTATE_RELAX)) ||
                               (strcmp(name, "--weaken") == 0 && weaken(value, MUTATE_WEAKEN)))) {
            fprintf(stderr, "explore: cannot parse '%s'; see --help\n", name);
            exit(2);
        }
    }
    return o;
}

/* Runs one scenario; returns whether it passed. */
static bool explore(const scenario *s, const options *o, search_result *all)
{
    search_result r = {0};
    search_bound bound;
    const double begin = now();
    search_open(s);
    if (o->replay) {
        search_replay(o->replay, &r);
        search_print();
    } else {
        char complete[32];
        search_all(o->schedules, o->seed, &r, &bound);
        snprintf(complete, sizeof complete, "%u+%u", bound.preemptions, bound.surprises);
        printf("%-16s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %8s %7.1f\n", s->name,
               r.schedules, r.distinct, r.orders, r.cut, complete, now() - begin);
        if (r.failed) {
            report(s, &r);
        }
        fflush(stdout);
    }
    search_close();
    all->distinct += r.distinct;
    all->orders += r.orders;
    return !r.failed;
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    search_result all = {0};
    bool good = true, found = false;
    if (!o.replay) {
        printf("%-16s %10s %10s %10s %10s %8s %7s\n", "scenario", "schedules", "distinct", "orders",
               "cut short", "complete", "s");
    }
    for (const scenario *const *s = scenarios; *s; s++) {
        if (!o.scenario || strcmp(o.scenario, (*s)->name) == 0) {
            good &= explore(*s, &o, &all);
            found = true;
        }
    }
    if (!found) {
        fprintf(stderr, "explore: no scenario '%s'; --help lists them\n", o.scenario);
        return 2;
    }
    if (!o.replay) {
        printf("(orders: schedules that differ in more than the order of independent steps; "
               "complete: all with so many\npreemptions + surprises, which are older values read "
               "and sleepers that wake for no reason)\n"
               "explore: %" PRIu64 " distinct schedules, %" PRIu64 " distinct orders, %s\n",
               all.distinct, all.orders, good ? "all good" : "FAILED");
    }
    return !good;
}
