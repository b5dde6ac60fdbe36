/* options.c - parses the command line of `pto run NAME`. */
#include "options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "run.h"
#include "words.h"

#define NUMBER_(n) #n
#define NUMBER(n) NUMBER_(n)

/* ---- The table ----------------------------------------------------------------------------- */

typedef enum common_id {
    COMMON_WORKERS,
    COMMON_PLACE,
    COMMON_RINGS,
    COMMON_RING_TASKS,
    COMMON_HEAP,
    COMMON_LEVELS,
    COMMON_SEED,
    COMMON_REPEAT,
    COMMON_SMALL,
    COMMON_CHECK,
    COMMON_NO_CHECK,
    COMMON_PROFILE,
    COMMON_NO_PROFILE,
    COMMON_MPI,
    COMMON_JSON,
    COMMON_QUIET,
    COMMON_HELP,
    COMMON_COUNT,
} common_id;

typedef struct common {
    const char *name, *value, *help;
    int64_t low, high;
} common;

static const common commons[COMMON_COUNT] = {
    [COMMON_WORKERS] = {"workers", "N", "worker threads; with 0 the caller does all the work", 0,
                        PTO_MAX_WORKERS},
    [COMMON_PLACE] = {"place", "PLACE",
                      "of the scheduler: inline, thread (a dedicated one), process (worker\n"
                      "                     processes; --device is cpu:0 then) or gpu (--device)",
                      0, 0},
    [COMMON_RINGS] = {"rings", "KIND", "default, or tight: close to the smallest that work", 0, 0},
    [COMMON_RING_TASKS] = {"ring-tasks", "N", "live tasks per level", 2, 1 << 22},
    [COMMON_HEAP] = {"heap", "BYTES", "memory for temporaries, per level", 64, INT64_C(1) << 46},
    [COMMON_LEVELS] = {"levels", "N", "ring levels", 1, PTO_MAX_LEVELS},
    [COMMON_SEED] = {"seed", "N", "random seed of the data (1)", 0, INT64_MAX},
    [COMMON_REPEAT] = {"repeat", "N", "number of timed runs; the median is reported (1)", 1,
                       100000},
    [COMMON_SMALL] = {"small", NULL, "use the small sizes of the tests as defaults", 0, 0},
    [COMMON_CHECK] = {"check", NULL, "compare the result with a reference (the default)", 0, 0},
    [COMMON_NO_CHECK] = {"no-check", NULL, "do not compare the result", 0, 0},
    [COMMON_PROFILE] = {"profile", NULL,
                        "profile one more run: kernels, threads, critical path (the default\n"
                        "                     for at most " NUMBER(
                            RUN_PROFILE_TASKS) " tasks in " NUMBER(RUN_PROFILE_SECONDS) " seconds)",
                        0, 0},
    [COMMON_NO_PROFILE] = {"no-profile", NULL, "do not profile", 0, 0},
    [COMMON_MPI] = {"mpi", NULL, "one rank of several, started by mpirun: see docs/mpi.md", 0, 0},
    [COMMON_JSON] = {"json", NULL, "print the summary as one JSON object", 0, 0},
    [COMMON_QUIET] = {"quiet", NULL, "print nothing but errors", 0, 0},
    [COMMON_HELP] = {"help", NULL, "print this help", 0, 0},
};

/* ---- Help ---------------------------------------------------------------------------------- */

static void print_option(FILE *out, const char *name, const char *value, const char *help)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", name, value ? " " : "", value ? value : "");
    if (strlen(left) <= 18) {
        fprintf(out, "  %-18s %s", left, help);
    } else {
        fprintf(out, "  %s\n%21s%s", left, "", help);
    }
}

void options_print_common(FILE *out)
{
    for (size_t i = 0; i < COMMON_COUNT; i++) {
        print_option(out, commons[i].name, commons[i].value, commons[i].help);
        fputc('\n', out);
    }
    fprintf(out,
            "\nThe suffixes k, m, g and t multiply a number by 1024, 1024^2, 1024^3 and 1024^4. "
            "All other\nsettings of the runtime are environment variables such as "
            "PTO_WORKERS: see pto options.\n");
}

static void print_help(const workload *what)
{
    printf("usage: pto run %s [OPTIONS]\n\n%s\n\n", what->name, what->summary);
    for (size_t i = 0; i < what->n_options; i++) {
        const workload_option *o = &what->options[i];
        print_option(stdout, o->name, o->text ? "TEXT" : "N", o->help);
        if (o->text) {
            printf(" (%s)\n", *o->text ? o->text : "none");
        } else {
            printf(" (%s; %s to %s)\n", words_option(o->number).s, words_option(o->low).s,
                   words_option(o->high).s);
        }
    }
    puts("");
    options_print_common(stdout);
}

/* ---- Reading ------------------------------------------------------------------------------- */

static options_answer refuse_number(const workload *what, const char *name, int64_t low,
                                    int64_t high, const char *text)
{
    fprintf(stderr, "pto run %s: --%s takes a number from %s to %s, not '%s'\n", what->name, name,
            words_option(low).s, words_option(high).s, text);
    return OPTIONS_BAD;
}

static options_answer read_own(options *o, size_t i, const char *text)
{
    const workload_option *option = &o->what->options[i];
    if (option->text) {
        if (!*text) { /* a variable of the shell that is not set */
            fprintf(stderr, "pto run %s: --%s takes a text, not ''\n", o->what->name, option->name);
            return OPTIONS_BAD;
        }
        o->text[i] = text;
        return OPTIONS_RUN;
    }
    return words_number(text, option->low, option->high, &o->number[i])
               ? OPTIONS_RUN
               : refuse_number(o->what, option->name, option->low, option->high, text);
}

/* Reads a choice of two words. */
static options_answer read_choice(const options *o, const char *name, const char *text,
                                  const char *first, const char *second, bool *is_second)
{
    *is_second = !strcmp(text, second);
    if (*is_second || !strcmp(text, first)) {
        return OPTIONS_RUN;
    }
    fprintf(stderr, "pto run %s: --%s takes %s or %s, not '%s'\n", o->what->name, name, first,
            second, text);
    return OPTIONS_BAD;
}

static options_answer read_place(options *o, const char *text)
{
    o->place = options_place_named(text);
    if (o->place != PTO_PLACE_DEFAULT) {
        return OPTIONS_RUN;
    }
    fprintf(stderr, "pto run %s: --place takes inline, thread, process or gpu, not '%s'\n",
            o->what->name, text);
    return OPTIONS_BAD;
}

static options_answer read_common(options *o, common_id id, const char *text)
{
    const common *c = &commons[id];
    options_answer answer = OPTIONS_RUN;
    int64_t number = 0;
    if (c->high && !words_number(text, c->low, c->high, &number)) {
        return refuse_number(o->what, c->name, c->low, c->high, text);
    }
    switch (id) {
    case COMMON_WORKERS:
        o->workers = number;
        break;
    case COMMON_PLACE:
        answer = read_place(o, text);
        break;
    case COMMON_RINGS:
        answer = read_choice(o, c->name, text, "default", "tight", &o->tight);
        break;
    case COMMON_RING_TASKS:
        o->ring_tasks = number;
        break;
    case COMMON_HEAP:
        o->heap = number;
        break;
    case COMMON_LEVELS:
        o->levels = number;
        break;
    case COMMON_SEED:
        o->seed = (uint64_t)number;
        break;
    case COMMON_REPEAT:
        o->repeat = number;
        break;
    case COMMON_CHECK:
    case COMMON_NO_CHECK:
        o->check = id == COMMON_CHECK;
        break;
    case COMMON_PROFILE:
        o->profile = PROFILE_YES;
        break;
    case COMMON_NO_PROFILE:
        o->profile = PROFILE_NO;
        break;
    case COMMON_MPI:
        o->mpi = true;
        if (!o->what->mpi) {
            fprintf(stderr, "pto run %s: --mpi: this workload runs in one process only\n",
                    o->what->name);
            answer = OPTIONS_BAD;
        }
        break;
    case COMMON_JSON:
        o->json = true;
        break;
    case COMMON_QUIET:
        o->quiet = true;
        break;
    case COMMON_HELP:
        print_help(o->what);
        answer = OPTIONS_DONE;
        break;
    case COMMON_SMALL: /* handled before all others */
    case COMMON_COUNT:
        break;
    }
    return answer;
}

/* Prints why getopt refused argv[optind - 1]. */
static options_answer refuse(const workload *what, const struct option *longs, size_t n_longs,
                             int answer, const char *word)
{
    const char *names[OPTIONS_MOST + COMMON_COUNT];
    char name[64] = "";
    for (size_t i = 0; i < n_longs; i++) {
        names[i] = longs[i].name;
    }
    fprintf(stderr, "pto run %s: ", what->name);
    if (answer == ':') {
        fprintf(stderr, "%s needs a value", word);
    } else if (optopt && !strncmp(word, "--", 2)) {
        fprintf(stderr, "%.*s takes no value", (int)strcspn(word, "="), word);
    } else {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word + strspn(word, "-"), "="),
                 word + strspn(word, "-"));
        const char *nearest = words_nearest(name, names, n_longs);
        fprintf(stderr, "unknown option '%s'%s%s%s", word, nearest ? "; did you mean --" : "",
                nearest ? nearest : "", nearest ? "?" : "");
    }
    fprintf(stderr, "\n(pto run %s --help lists them)\n", what->name);
    return OPTIONS_BAD;
}

static void set_defaults(options *o, const workload *what, int argc, char **argv)
{
    const char *place = getenv("PTO_SCHEDULER");
    bool small = false;
    for (int i = 1; i < argc; i++) {
        small |= !strcmp(argv[i], "--small");
        if (!strcmp(argv[i], "--place") && i + 1 < argc) {
            place = argv[i + 1];
        } else if (!strncmp(argv[i], "--place=", 8)) {
            place = argv[i] + 8;
        }
    }
    const pto_place where = place ? options_place_named(place) : PTO_PLACE_DEFAULT;
    const bool gpu = where == PTO_PLACE_GPU, process = where == PTO_PLACE_PROCESS;
    *o = (options){.what = what,
                   .seed = 1,
                   .repeat = 1,
                   .check = true,
                   .workers = -1,
                   .gpu = gpu,
                   .process = process};
    for (size_t i = 0; i < what->n_options; i++) {
        const workload_option *option = &what->options[i];
        o->number[i] = small ? option->small : gpu && option->gpu ? option->gpu : option->number;
        /* Worker processes do not see the memory of a workload: it has to be copied. */
        o->text[i] = process && !strcmp(option->name, "device") ? "cpu:0" : option->text;
    }
}

options_answer options_parse(options *o, const workload *what, int argc, char **argv)
{
    enum { OWN = 1000, COMMON = 2000 }; /* result of getopt_long, plus the index in the table */
    struct option longs[OPTIONS_MOST + COMMON_COUNT + 1] = {{0}};
    size_t n = 0;
    if (what->n_options > OPTIONS_MOST) {
        fprintf(stderr, "pto run %s: more than %d options\n", what->name, OPTIONS_MOST);
        return OPTIONS_BAD;
    }
    set_defaults(o, what, argc, argv);
    for (size_t i = 0; i < what->n_options; i++) {
        longs[n++] = (struct option){what->options[i].name, required_argument, NULL, OWN + (int)i};
    }
    for (int i = 0; i < COMMON_COUNT; i++) {
        longs[n++] = (struct option){
            commons[i].name, commons[i].value ? required_argument : no_argument, NULL, COMMON + i};
    }
    opterr = 0;
    for (int answer; (answer = getopt_long(argc, argv, ":h", longs, NULL)) != -1;) {
        options_answer read;
        if (answer == 'h') {
            answer = COMMON + COMMON_HELP;
        }
        if (answer == '?' || answer == ':') {
            read = refuse(what, longs, n, answer, argv[optind - 1]);
        } else if (answer >= COMMON) {
            read = read_common(o, (common_id)(answer - COMMON), optarg);
        } else {
            read = read_own(o, (size_t)(answer - OWN), optarg);
        }
        if (read != OPTIONS_RUN) {
            return read;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "pto run %s: unexpected argument '%s'\n", what->name, argv[optind]);
        return OPTIONS_BAD;
    }
    return OPTIONS_RUN;
}
