/* bench_workloads.c - cholesky, bgemm and decode compared with OpenBLAS and other runtimes.
 *
 * cholesky and bgemm are those of examples/workloads, for several tile sizes. They are compared
 * with the same tasks and kernels on libgomp and StarPU, with the kernels alone (a serial loop on
 * each core, which no runtime can beat), and with the threaded dpotrf or dgemm of OpenBLAS on the
 * whole matrix. decode is compared with its kernels in a plain loop, where each product is one
 * threaded call of OpenBLAS.
 *
 * Every run is a separate process (workloads_children.h). They take turns, so that other load
 * disturbs a few runs of each rather than all of one; figures are medians over the rounds. Before
 * the first round, each setting of each contender is checked and tried.
 *
 * With small tiles a large matrix would have millions of tasks. So the number of tile rows is
 * limited, and the table says how large the matrix is.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "bench.h"

#include <errno.h>
#include <sched.h>

#include "workloads_ours.h"
#include "workloads_report.h"

typedef struct options {
    bool wanted[WORKLOADS];
    bool quick, json;
    size_t rounds;
    int64_t tiles[MAX_TILES]; /* from small to large */
    size_t n_tiles;
} options;

/* ---- The command line ----------------------------------------------------------------------- */

static const char usage[] =
    "usage: ./dev bench workloads [OPTIONS]\n"
    "  --only NAME    cholesky, bgemm or decode alone\n"
    "  --tiles LIST   these tile sizes, like 32,64,256 (default 8,16,32,64,128,192,256,384,512)\n"
    "  --rounds N     runs of each, 1 to 5 (default 5)\n"
    "  --quick        small matrices, tiles of 16 to 256, three rounds\n"
    "  --json         for a program to read\n"
    "  --help\n"
    "The environment variables of the runtime (PTO_WORKERS and so on) are honoured.\n";

static _Noreturn void refuse(const char *what, const char *value)
{
    fprintf(stderr, "bench_workloads: %s '%s'\n\n%s", what, value, usage);
    exit(2);
}

static int64_t parse_number(const char *what, const char *text, int64_t most)
{
    errno = 0;
    const long long value = strtoll(text, NULL, 10);
    if (!*text || text[strspn(text, "0123456789")] || errno || value < 1 || value > most) {
        refuse(what, text);
    }
    return value;
}

static int compare_tiles(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void parse_tiles(options *o, const char *value)
{
    char list[256], *rest;
    snprintf(list, sizeof list, "%s", value);
    o->n_tiles = 0;
    for (char *t = strtok_r(list, ",", &rest); t; t = strtok_r(NULL, ",", &rest)) {
        if (o->n_tiles == MAX_TILES) {
            refuse("--tiles takes at most 16 of them, not", value);
        }
        o->tiles[o->n_tiles++] = parse_number("a tile is 1 to 800 large, not", t, 800);
    }
    if (!o->n_tiles) {
        refuse("--tiles takes a list like 32,64,256, not", value);
    }
    qsort(o->tiles, o->n_tiles, sizeof *o->tiles, compare_tiles);
}

static void parse_only(options *o, const char *value)
{
    static const char *const names[WORKLOADS] = {"cholesky", "bgemm", "decode"};
    bool any = false;
    for (int w = 0; w < WORKLOADS; w++) {
        any |= o->wanted[w] = !strcmp(value, names[w]);
    }
    if (!any) {
        refuse("no such workload:", value);
    }
}

static options parse(int argc, char **argv)
{
    options o = {.wanted = {true, true, true}};
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        const bool has_value = !strcmp(option, "--only") || !strcmp(option, "--tiles") ||
                               !strcmp(option, "--rounds");
        const char *value = has_value ? argv[++i] : "";
        if (!value) {
            refuse("a value is missing after", option);
        }
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(option, "--only")) {
            parse_only(&o, value);
        } else if (!strcmp(option, "--tiles")) {
            parse_tiles(&o, value);
        } else if (!strcmp(option, "--rounds")) {
            o.rounds = (size_t)parse_number("--rounds takes a number from 1 to 5, not", value,
                                            MAX_ROUNDS);
        } else if (!strcmp(option, "--quick")) {
            o.quick = true;
        } else if (!strcmp(option, "--json")) {
            o.json = true;
        } else {
            refuse("unknown option", option);
        }
    }
    if (!o.n_tiles) {
        parse_tiles(&o, o.quick ? "16,32,64,128,256" : "8,16,32,64,128,192,256,384,512");
    }
    o.rounds = o.rounds ? o.rounds : o.quick ? 3 : MAX_ROUNDS;
    return o;
}

static void lay_out(const options *o)
{
    decoding.tokens = o->quick ? 16 : 64;
    for (int w = 0; w < PROBLEMS; w++) {
        problem *p = &problems[w];
        p->full = o->quick ? p->quick : p->full;
        p->n_rows = o->wanted[w] ? o->n_tiles : 0;
        for (size_t i = 0; i < p->n_rows; i++) {
            row *r = &p->rows[i];
            r->tile = o->tiles[i];
            r->n = r->tile * p->most < p->full ? r->tile * p->most : p->full;
            r->flops = flops_of(w, r->n);
            r->tasks = tasks_of(w, r->n, r->tile);
        }
    }
}

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int mine = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return mine > 0 ? (uint32_t)mine : online > 0 ? (uint32_t)online : 1;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[0], "workloads_child")) {
        return ours_main(argv);
    }
    const options o = parse(argc, argv);
    bool held = true;
    cores = usable_cores();
    lay_out(&o);
    if (!measure_all(o.wanted, o.rounds)) {
        return 2;
    }
    for (int w = 0; w < PROBLEMS; w++) {
        find_bars(&problems[w]);
    }
    find_decode_bar();
    if (o.json) {
        print_json();
    } else {
        for (int w = 0; w < WORKLOADS; w++) {
            if (o.wanted[w]) {
                w == DECODE ? print_decode() : print_problem(w);
            }
        }
        print_missing();
    }
    for (size_t i = 0; i < n_bars; i++) {
        const bar *b = &bars[i];
        held &= o.json ? bar_holds(b) : bench_bar_at_least(b->name, b->figure, b->unit, b->want);
    }
    return held ? 0 : 1;
}
