/* bench_tasks.c - tasks per second through the whole runtime, by the shape of the program.
 *
 * Six patterns (tasks_patterns.h) with empty kernels, all defaults, from the first submit until
 * pto_wait returns, for each place where the scheduler can run. Before anything is timed, each
 * pattern runs with bodies that mix their inputs into their outputs, and must leave exactly the
 * memory that the serial program leaves.
 *
 * The patterns take turns, so that other load on the machine disturbs a few runs of each rather
 * than all runs of one; figures are medians. A visit runs all sizes of a pattern in one runtime,
 * smallest first, with all data allocated before. If more memory is resident after the largest size
 * than after the one before it, the runtime keeps memory of completed tasks.
 *
 * Then the same programs, and METG, on other runtimes (tasks_compare.h).
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "tasks_compare.h"
#include "tasks_instructions.h"
#include "tasks_picture.h"

enum { SIZES = 3, ROUNDS = 5, TIMES = 5, MAX_BARS = 3 * PATTERNS + 5 };
enum { P4 = 3 }; /* in patterns */
enum { CHECKED_TASKS = 20000, CALLGRIND_TASKS = 20000, WARM_UP_TASKS = 20000 };

typedef struct options {
    int pattern;       /* -1: all */
    int place;         /* -1: all */
    uint64_t tasks;    /* 0: the usual sizes */
    const char *svg;   /* file for a picture of the comparison; NULL: none */
    bool peers[PEERS]; /* which are wanted */
    bool quick, json, callgrind;
    bool plain; /* our own columns only, one line per figure */
    bool bare;  /* a single run of `tasks` tasks, on this thread alone */
} options;

typedef struct measure {
    double rate[ROUNDS * TIMES]; /* Mtasks/s */
    size_t runs;
    double median;
    uint64_t tasks;  /* tasks that really ran */
    double resident; /* MB, after the run, in the first round */
} measure;

typedef struct series {
    bool wanted;
    measure size[SIZES];
    double edges; /* per task */
} series;

static series all[PLACES][PATTERNS];
static uint64_t sizes[SIZES] = {100000, 1000000, 10000000};
static size_t rounds[PLACES][SIZES] = {
    {ROUNDS, ROUNDS, 3}, {ROUNDS, ROUNDS, 1}, {3, 3, 1}, {3, 3, 1}};
static int n_sizes = SIZES;
static comparison compared;

static bool chosen(int only, int i)
{
    return only < 0 || only == i;
}

/* With --plain, the scheduler thread is only measured on request: it may be one thread too many.
 * Worker processes always, and then with `offloaded` beside them. */
static bool chosen_place(const options *o, int i)
{
    if (o->place == PROCESS) {
        return i == PROCESS || i == OFFLOADED;
    }
    return i != PROCESS && chosen(o->place, i) &&
           !(o->plain && o->place < 0 && places[i] == PTO_PLACE_THREAD);
}

static double resident_mb(void)
{
    unsigned long whole = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu %lu", &whole, &resident) != 2) { // NOLINT(cert-err34-c)
        resident = 0;
    }
    if (file) {
        fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* ---- Is it right? --------------------------------------------------------------------------- */

/* With `inlined`, the orchestrating thread runs all tasks that it can, although these bodies are
 * not short. */
static bool check(const pattern *p, int place, bool inlined)
{
    data serial = serial_data(p, CHECKED_TASKS);
    data before = p->make(CHECKED_TASKS);
    pto_runtime *rt = runtime_make(place, inlined ? 1000000000 : place_inline_ns[place]);
    data ours = p->make(CHECKED_TASKS);
    sink s;
    sink_init(&s, rt, MIX);
    p->run(&s, &ours, CHECKED_TASKS);
    must(pto_wait(rt));
    const bool same = memcmp(serial.memory, ours.memory, ours.bytes) == 0;
    const bool vacuous = memcmp(before.memory, ours.memory, ours.bytes) == 0;
    if (!same || vacuous) {
        fprintf(stderr, "bench_tasks: %s (%s), scheduler %s: %s\n", p->name, p->text,
                place_names[place],
                same ? "no task did anything" : "the memory is not what the serial program leaves");
    }
    data_free(&ours);
    tiles_of = NULL;
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    data_free(&serial);
    data_free(&before);
    return same && !vacuous;
}

/* ---- How fast? ------------------------------------------------------------------------------ */

static void visit(const pattern *p, int place, series *result, size_t round)
{
    data d[SIZES];
    sink s;
    pto_runtime_stats stats;
    pto_runtime *rt = runtime_make(place, place_inline_ns[place]);
    for (int i = 0; i < n_sizes; i++) {
        d[i] = p->make(sizes[i]);
        if (i > 0 && d[i].n_tiles == d[i - 1].n_tiles) { /* reuse the same tiles */
            data_free(&d[i]);
            d[i] = d[i - 1];
        }
    }
    sink_init(&s, rt, EMPTY);
    timed(p, &s, &d[0], sizes[0] < WARM_UP_TASKS ? sizes[0] : WARM_UP_TASKS);
    for (int i = 0; i < n_sizes; i++) {
        measure *m = &result->size[i];
        if (round >= rounds[place][i]) {
            continue;
        }
        /* Short runs are easily disturbed. */
        const size_t times = sizes[i] <= 100000 ? TIMES : 1;
        for (size_t n = 0; n < times; n++) {
            s.tasks = 0;
            const double ns = timed(p, &s, &d[i], sizes[i]);
            m->tasks = s.tasks;
            m->rate[m->runs++] = (double)s.tasks * 1e3 / ns;
        }
        if (round == 0) {
            m->resident = resident_mb();
        }
    }
    must(pto_stats(rt, &stats));
    result->edges = (double)(stats.raw + stats.war + stats.waw + stats.after) /
                    (double)stats.submitted;
    if (stats.completed != stats.submitted || stats.failed || stats.skipped) {
        fprintf(stderr, "bench_tasks: %s: not every task was run\n", p->name);
        exit(2);
    }
    for (int i = 0; i < n_sizes; i++) {
        if (i == 0 || d[i].memory != d[i - 1].memory) {
            data_free(&d[i]);
        }
    }
    tiles_of = NULL;
    must(pto_runtime_destroy(&rt, PTO_WAIT));
}

static void measure_all(const options *o)
{
    for (size_t round = 0; round < ROUNDS; round++) {
        for (int p = 0; p < PATTERNS; p++) {
            for (int place = 0; place < PLACES; place++) {
                if (chosen(o->pattern, p) && chosen_place(o, place)) {
                    all[place][p].wanted = true;
                    visit(&patterns[p], place, &all[place][p], round);
                }
            }
        }
    }
    for (int i = 0; i < PLACES * PATTERNS * n_sizes; i++) {
        measure *m = &all[i / n_sizes / PATTERNS][i / n_sizes % PATTERNS].size[i % n_sizes];
        m->median = m->runs ? bench_median(m->rate, m->runs) : 0;
    }
}

/* ---- What is promised ----------------------------------------------------------------------- */

typedef struct bar {
    char name[32];
    const char *unit;
    double figure, want;
    bool at_most, is_ratio;
} bar;

static bar bars[MAX_BARS];
static size_t n_bars;

static void add_bar(const char *format, const char *name, double figure, const char *unit,
                    double want, bool at_most)
{
    bar *b = &bars[n_bars++];
    *b = (bar){.unit = unit, .figure = figure, .want = want, .at_most = at_most};
    snprintf(b->name, sizeof b->name, format, name);
}

static void find_bars(void)
{
    double slowest[PATTERNS], fastest[PATTERNS], grown = 0;
    bool any = false;
    for (int p = 0; p < PATTERNS; p++) {
        const series *r = &all[0][p];
        slowest[p] = fastest[p] = r->size[0].median;
        for (int i = 1; i < n_sizes; i++) {
            const double rate = r->size[i].median;
            slowest[p] = rate < slowest[p] ? rate : slowest[p];
            fastest[p] = rate > fastest[p] ? rate : fastest[p];
        }
        if (r->wanted) {
            add_bar("tasks rate %s", patterns[p].name, slowest[p], "Mtasks/s", 2, false);
        }
    }
    for (int p = 0; p < PATTERNS && n_sizes > 1; p++) {
        if (all[0][p].wanted) {
            add_bar("tasks flat %s", patterns[p].name, slowest[p] / fastest[p], "", 0.7, false);
        }
    }
    /* Only the two largest sizes: the smaller ones of P5 have smaller matrices, so the map
     * grows. */
    for (int i = 0; i < PLACES * PATTERNS && n_sizes == SIZES; i++) {
        const series *r = &all[i / PATTERNS][i % PATTERNS];
        if (r->wanted) {
            const double more = r->size[n_sizes - 1].resident - r->size[n_sizes - 2].resident;
            grown = any && grown > more ? grown : more;
            any = true;
        }
    }
    if (any) {
        add_bar("tasks memory%s", "", grown, "MB more at the largest size", 1, true);
    }
}

/* Worker processes beside threads: the same work, offloaded. */
static void find_process_bar(void)
{
    double worst = 0;
    bool any = false;
    for (int p = 0; p < PATTERNS; p++) {
        for (int i = 0; i < n_sizes && all[PROCESS][p].wanted; i++) {
            const double ratio = all[PROCESS][p].size[i].median / all[OFFLOADED][p].size[i].median;
            worst = any && worst < ratio ? worst : ratio;
            any = true;
        }
    }
    if (any) {
        add_bar("tasks process%s", "", worst, "of offloaded, the worst", 0.8, false);
    }
}

static void add_ratio(const char *format, const char *name, double figure, const char *unit,
                      double want)
{
    add_bar(format, name, figure, unit, want, false);
    bars[n_bars - 1].is_ratio = true;
}

/* Only the inline scheduler counts: the other one has one thread more than there are cores. P4 was the closest to
 * 3: it has to be further away, so that no run misses that. Offloaded tasks have a bar of their own, without METG. */
static void find_ratios(const comparison *c)
{
    double worst = 0, offloaded = 0;
    bool all_rows = true;
    for (int row = 0; row < ROWS; row++) {
        const double ratio = ratio_of(c, 0, row);
        const double apart = row == METG ? 0 : ratio_of(c, OFFLOADED, row);
        all_rows &= c->rows[row];
        if (apart > 0 && (offloaded <= 0 || apart < offloaded)) {
            offloaded = apart;
        }
        if (!c->rows[row] || ratio <= 0) {
            continue;
        }
        worst = worst > 0 && worst < ratio ? worst : ratio;
        add_ratio("tasks %s", row_name(row), ratio, "ratio", row == P4 ? 3.3 : 3);
    }
    if (offloaded > 0) {
        add_ratio("tasks offloaded%s", "", offloaded, "worst ratio", 2);
    }
    if (all_rows) {
        add_ratio("tasks%s", "", worst,
                  worst > 0 ? "worst ratio" : "nothing to compare with: ratio", 3);
    }
}

static bool bar_print(const bar *b)
{
    return b->is_ratio  ? bench_bar_ratio(b->name, b->unit, b->figure, b->want)
           : b->at_most ? bench_bar_at_most(b->name, b->figure, b->unit, b->want)
                        : bench_bar_at_least(b->name, b->figure, b->unit, b->want);
}

static bool bar_holds(const bar *b)
{
    return b->at_most ? b->figure <= b->want : b->figure >= b->want;
}

/* ---- Output --------------------------------------------------------------------------------- */

static void print_table(void)
{
    printf("tasks with empty kernels, from the first submit until all are complete\n\n");
    printf("%-26s %*s %12s %*s\n", "", 9 * n_sizes, "Mtasks/s at", "edges a", 10 * n_sizes,
           "MB resident after");
    printf("%-16s %-9s", "pattern", "place");
    for (int i = 0; i < n_sizes; i++) {
        printf(" %8.0e", (double)sizes[i]);
    }
    printf(" %12s", "task");
    for (int i = 0; i < n_sizes; i++) {
        printf(" %9.0e", (double)sizes[i]);
    }
    printf("\n");
    for (int p = 0; p < PATTERNS; p++) {
        for (int place = 0; place < PLACES; place++) {
            const series *r = &all[place][p];
            if (!r->wanted) {
                continue;
            }
            printf("%-3s%-13s %-9s", patterns[p].name, patterns[p].text, place_names[place]);
            for (int i = 0; i < n_sizes; i++) {
                printf(" %8.2f", r->size[i].median);
            }
            printf(" %12.2f", r->edges);
            for (int i = 0; i < n_sizes; i++) {
                printf(" %9.1f", r->size[i].resident);
            }
            printf("\n");
        }
    }
    printf("\n");
}

static void print_json(bool with_comparison)
{
    const char *comma = "";
    printf("{\n  \"bench\": \"tasks\",\n  \"version\": \"%s\",\n  \"results\": [", pto_version());
    for (int i = 0; i < PLACES * PATTERNS * n_sizes; i++) {
        const int place = i / n_sizes % PLACES, p = i / n_sizes / PLACES;
        const series *r = &all[place][p];
        const measure *m = &r->size[i % n_sizes];
        if (r->wanted) {
            printf("%s\n    {\"pattern\": \"%s\", \"text\": \"%s\", \"place\": \"%s\", "
                   "\"tasks\": %llu, \"mtasks_per_s\": %.4f, \"runs\": %zu, "
                   "\"edges_per_task\": %.3f, \"resident_mb\": %.2f}",
                   comma, patterns[p].name, patterns[p].text, place_names[place],
                   (unsigned long long)m->tasks, m->median, m->runs, r->edges, m->resident);
            comma = ",";
        }
    }
    printf("\n  ],\n");
    if (with_comparison) {
        compare_json(&compared);
    }
    printf("  \"bars\": [");
    for (size_t i = 0; i < n_bars; i++) {
        printf("%s\n    {\"name\": \"%s\", \"figure\": %.4f, \"unit\": \"%s\", \"want_%s\": %g, "
               "\"ok\": %s}",
               i ? "," : "", bars[i].name, bars[i].figure, bars[i].unit,
               bars[i].at_most ? "at_most" : "at_least", bars[i].want,
               bar_holds(&bars[i]) ? "true" : "false");
    }
    printf("\n  ]\n}\n");
}

/* ---- The command line ----------------------------------------------------------------------- */

static const char usage[] =
    "usage: ./dev bench tasks [OPTIONS]\n"
    "  --pattern P1..P6        only this one\n"
    "  --tasks N               only this many tasks, instead of 1e5, 1e6 and 1e7\n"
    "  --place inline|thread   only with the scheduler there; offloaded: inline, without inline\n"
    "          |offloaded      execution of short tasks; process: worker processes, and\n"
    "          |process        offloaded beside them\n"
    "  --peers none|NAME,...   compare only with these: libgomp, libomp, starpu, tbb,\n"
    "                          libomp-1, tbb-light (default: all)\n"
    "  --svg FILE              draw the comparison\n"
    "  --quick                 three runs each of 1e5 and 1e6, and of the comparison\n"
    "  --callgrind             instructions per task on one thread, inline and offloaded,\n"
    "                          instead of time; needs valgrind\n"
    "  --json                  JSON output\n"
    "  --plain                 only inline, offloaded and their METG: one line per figure\n"
    "  --help\n"
    "The environment variables of the runtime (PTO_WORKERS and so on) are honoured.\n";

static void refuse(const char *what, const char *value)
{
    fprintf(stderr, "bench_tasks: %s '%s'\n\n%s", what, value, usage);
    exit(2);
}

static int find_name(const char *what, const char *value, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(value, names[i])) {
            return i;
        }
    }
    refuse(what, value);
    return -1;
}

static uint64_t parse_count(const char *text)
{
    errno = 0;
    const uint64_t value = strtoull(text, NULL, 10);
    if (!*text || text[strspn(text, "0123456789")] || errno || value == 0 || value > 1000000000) {
        refuse("--tasks takes a number from 1 to 1000000000, not", text);
    }
    return value;
}

static void parse_peers(options *o, const char *value)
{
    const char *names[PEERS];
    char list[256];
    for (int i = 0; i < PEERS; i++) {
        names[i] = peers[i].option;
        o->peers[i] = false;
    }
    if (!strcmp(value, "none")) {
        return;
    }
    if (!*value) {
        refuse("no such peer:", value);
    }
    snprintf(list, sizeof list, "%s", value);
    for (char *rest, *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        o->peers[find_name("no such peer:", name, names, PEERS)] = true;
    }
}

static options parse(int argc, char **argv)
{
    options o = {.pattern = -1, .place = -1};
    for (int i = 0; i < PEERS; i++) {
        o.peers[i] = true;
    }
    const char *names[PATTERNS];
    for (int p = 0; p < PATTERNS; p++) {
        names[p] = patterns[p].name;
    }
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        const bool has_value = !strcmp(option, "--pattern") || !strcmp(option, "--tasks") ||
                               !strcmp(option, "--place") || !strcmp(option, "--peers") ||
                               !strcmp(option, "--svg");
        const char *value = has_value ? argv[++i] : NULL;
        if (has_value && !value) {
            refuse("a value is missing after", option);
        }
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(option, "--pattern")) {
            o.pattern = find_name("no such pattern:", value, names, PATTERNS);
        } else if (!strcmp(option, "--place")) {
            o.place = find_name("no such place:", value, place_names, PLACES);
        } else if (!strcmp(option, "--peers")) {
            parse_peers(&o, value);
        } else if (!strcmp(option, "--svg")) {
            o.svg = value;
        } else if (!strcmp(option, "--tasks")) {
            o.tasks = parse_count(value);
        } else if (!strcmp(option, "--quick")) {
            o.quick = true;
        } else if (!strcmp(option, "--json")) {
            o.json = true;
        } else if (!strcmp(option, "--plain")) {
            o.plain = true;
        } else if (!strcmp(option, "--callgrind")) {
            o.callgrind = true;
        } else if (!strcmp(option, "--bare")) {
            o.bare = true;
        } else {
            refuse("unknown option", option);
        }
    }
    return o;
}

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int mine = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return mine > 0 ? (uint32_t)mine : online > 0 ? (uint32_t)online : 1;
}

/* Returns whether there was anything to compare with. */
static bool compare(const options *o)
{
    bool any = false;
    compared.tasks = sizes[0];
    compared.cores = usable_cores();
    compared.rounds = o->plain   ? 1
                      : o->quick ? 3
                                 : COMPARE_ROUNDS; /* bench/against.sh repeats --plain itself */
    for (int i = 0; i < PLACES; i++) {
        compared.runtimes[i] = chosen_place(o, i);
    }
    for (int i = 0; i < PEERS; i++) {
        any |= compared.runtimes[PLACES + i] = o->peers[i] && !o->plain;
    }
    for (int row = 0; row < ROWS; row++) {
        compared.rows[row] = chosen(o->pattern, row == METG ? METG_PATTERN : row);
    }
    if (any || o->plain) {
        compare_all(&compared);
        find_ratios(&compared);
    }
    return any;
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    bool right = true, held = true;
    if (o.bare && o.pattern >= 0 && o.tasks) {
        return run_bare(&patterns[o.pattern], o.place < 0 ? 0 : o.place, o.tasks);
    }
    if (o.callgrind) {
        return run_callgrind(o.pattern, o.place, o.tasks ? o.tasks : CALLGRIND_TASKS,
                             o.plain  ? PLAIN
                             : o.json ? JSON
                                      : TABLE);
    }
    if (o.quick) {
        n_sizes = 2;
        for (int place = 0; place < PLACES; place++) {
            rounds[place][0] = rounds[place][1] = 3;
        }
    }
    if (o.tasks) {
        n_sizes = 1;
        sizes[0] = o.tasks;
    }
    for (int i = 0; i < PATTERNS * PLACES; i++) {
        if (chosen(o.pattern, i / PLACES) && chosen_place(&o, i % PLACES)) {
            right &= check(&patterns[i / PLACES], i % PLACES, false) &&
                     check(&patterns[i / PLACES], i % PLACES, true);
        }
    }
    if (!right) {
        return 2;
    }
    if (o.plain) {
        compare(&o);
        compare_plain(&compared);
        return 0;
    }
    measure_all(&o);
    find_bars();
    find_process_bar();
    const bool with_comparison = compare(&o);
    if (o.json) {
        print_json(with_comparison);
    } else {
        print_table();
        if (with_comparison) {
            compare_print(&compared);
        }
    }
    if (o.svg && !with_comparison) {
        fprintf(stderr, "bench_tasks: nothing to draw: --svg needs peers\n");
        return 2;
    }
    if (o.svg && !picture_write(&compared, o.svg)) {
        fprintf(stderr, "bench_tasks: cannot write %s\n", o.svg);
        return 2;
    }
    for (size_t i = 0; i < n_bars; i++) {
        held &= o.json ? bar_holds(&bars[i]) : bar_print(&bars[i]);
    }
    return held ? 0 : 1;
}
