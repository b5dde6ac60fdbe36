/* tasks_compare.h - ours compared with the peers: each pattern with empty bodies, and METG on P3.
 *
 * METG is the length of the bodies, in ns, at which the cores spend half of their time in them:
 * tasks * length / (cores * time from the first submit until all are complete) = 0.5. The length is
 * measured beside each run, as the time that one thread needs for the same bodies in a plain loop.
 *
 * First each setting of each peer is checked against the serial program, and tried; the best one
 * then takes turns with ours. Every figure is the median over the rounds.
 */
#ifndef PTO_TASKS_COMPARE_H
#define PTO_TASKS_COMPARE_H

#include "tasks_ours.h"

#include "peers/tasks_children.h"

enum { RUNTIMES = PLACES + PEERS, ROWS = PATTERNS + 1, METG = PATTERNS };
enum { COMPARE_TIMES = 3, COMPARE_ROUNDS = 5, TRY_TASKS = 20000, TRY_TIMES = 3 };
enum { METG_TASKS = 50000, METG_FEWEST = 1000, METG_WORK = 10000000 /* ns */ };
enum { METG_MOST = 1000000 }; /* ns; longer bodies are not tried */

typedef struct entry {
    double figures[COMPARE_ROUNDS]; /* Mtasks/s; ns for METG */
    size_t n;
    double median;      /* 0: not available */
    const setting *set; /* of a peer: the best */
} entry;

typedef struct comparison {
    uint64_t tasks;
    uint32_t cores;
    size_t rounds;
    bool rows[ROWS], runtimes[RUNTIMES]; /* which are wanted */
    const char *why_not[RUNTIMES];       /* NULL: available */
    entry all[RUNTIMES][ROWS];
} comparison;

static const char *runtime_name(int r)
{
    return r < PLACES ? place_names[r] : peers[r - PLACES].name;
}

static const char *row_name(int row)
{
    return row == METG ? "METG" : patterns[row].name;
}

/* A line on the terminal that the next one replaces. */
static void progress(const char *text, const char *name, const char *more)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s %s %s", text, name, more);
    }
}

/* ---- One measurement ------------------------------------------------------------------------ */

static double spin_seconds(uint64_t tasks, uint64_t steps)
{
    const double start = bench_now_ns();
    for (uint64_t i = 0; steps && i < tasks; i++) {
        body_spin(steps);
    }
    return (bench_now_ns() - start) * 1e-9;
}

/* The same as child_time for ours. */
static uint64_t ours_time(int place, const pattern *p, uint64_t tasks, uint64_t steps, size_t times,
                          double *seconds, double *serial)
{
    static const uint64_t warm_up = 20000;
    pto_runtime *rt = runtime_make(place, place_inline_ns[place]);
    data d = p->make(tasks);
    sink s;
    sink_init(&s, rt, steps ? SPIN : EMPTY);
    timed(p, &s, &d, tasks < warm_up ? tasks : warm_up);
    s.numbers[KINDS] = steps;
    for (size_t i = 0; i < times; i++) {
        s.tasks = 0;
        seconds[i] = timed(p, &s, &d, tasks) * 1e-9;
        serial[i] = spin_seconds(s.tasks, steps);
    }
    data_free(&d);
    tiles_of = NULL;
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    return s.tasks;
}

static uint64_t time_of(const comparison *c, int r, const setting *set, const pattern *p,
                        uint64_t tasks, uint64_t steps, size_t times, double *seconds,
                        double *serial)
{
    return r < PLACES ? ours_time(r, p, tasks, steps, times, seconds, serial)
                      : child_time(set, c->cores, p->name, tasks, steps, times, seconds, serial);
}

/* Mtasks/s; 0: it failed. */
static double rate_of(const comparison *c, int r, const setting *set, const pattern *p,
                      uint64_t tasks, size_t times)
{
    double seconds[COMPARE_TIMES + TRY_TIMES], serial[COMPARE_TIMES + TRY_TIMES];
    const uint64_t really = time_of(c, r, set, p, tasks, 0, times, seconds, serial);
    return really ? (double)really / bench_median(seconds, times) * 1e-6 : 0;
}

/* How busy the cores are with bodies of about so many steps; *length is what they take, in ns. */
static double efficiency_of(const comparison *c, int r, const setting *set, uint64_t steps,
                            double wanted, double *length)
{
    double seconds[COMPARE_TIMES], serial[COMPARE_TIMES];
    const double fitting = METG_WORK / wanted;
    const uint64_t tasks = fitting > METG_TASKS    ? METG_TASKS
                           : fitting < METG_FEWEST ? METG_FEWEST
                                                   : (uint64_t)fitting;
    const uint64_t really = time_of(c, r, set, &patterns[METG_PATTERN], tasks, steps, COMPARE_TIMES,
                                    seconds, serial);
    if (!really) {
        return -1;
    }
    for (int i = 0; i < COMPARE_TIMES; i++) {
        seconds[i] = serial[i] / seconds[i] / c->cores;
    }
    *length = bench_median(serial, COMPARE_TIMES) / (double)really * 1e9;
    return bench_median(seconds, COMPARE_TIMES);
}

/* Doubles or halves the bodies until efficiency crosses one half, then interpolates. 0: failed. */
static double metg_of(const comparison *c, int r, const setting *set)
{
    static double step_ns; /* what a step of body_spin takes here */
    const double rate = rate_of(c, r, set, &patterns[METG_PATTERN], METG_TASKS, COMPARE_TIMES);
    if (step_ns == 0) {
        step_ns = spin_seconds(1000, 10000) * 1e2;
    }
    if (rate <= 0) {
        return 0;
    }
    /* Half of the time goes at least to managing the tasks, as measured with empty bodies. */
    double wanted = 250 / rate * c->cores, before = 0, before_length = 0;
    while (wanted <= METG_MOST) {
        double length;
        const uint64_t steps = (uint64_t)(wanted / step_ns) + 1;
        const double now = efficiency_of(c, r, set, steps, wanted, &length);
        if (now < 0) {
            return 0;
        }
        if (before_length > 0 && (now >= 0.5) != (before >= 0.5)) {
            const double part = (0.5 - before) / (now - before);
            return before_length + (length - before_length) * part;
        }
        if (steps <= 4) {
            return length; /* shorter bodies cannot be measured */
        }
        before = now;
        before_length = length;
        wanted = now >= 0.5 ? wanted / 2 : wanted * 2;
    }
    return 0;
}

static double figure_of(const comparison *c, int r, const setting *set, int row, uint64_t tasks,
                        size_t times)
{
    return row == METG ? metg_of(c, r, set) : rate_of(c, r, set, &patterns[row], tasks, times);
}

/* Whether one thread runs everything: such a peer does not count and has no METG. */
static bool is_alone(int r)
{
    return r >= PLACES + COUNTED;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static bool is_better(int row, double a, double b)
{
    return a > 0 && (b <= 0 || (row == METG ? a < b : a > b));
}

/* The best setting of a peer for a row. A setting with a wrong result does not count. */
static const setting *choose(const comparison *c, int r, int row, uint64_t hash)
{
    const peer *p = &peers[r - PLACES];
    const setting *best = NULL;
    double best_figure = 0;
    for (int i = 0; i < MAX_SETTINGS && p->settings[i].text; i++) {
        const setting *set = &p->settings[i];
        progress(row_name(row), p->name, set->text);
        if (row != METG && !child_check(set, c->cores, row_name(row), TRY_TASKS, hash)) {
            fprintf(stderr, "\nbench_tasks: %s, %s (%s): not what the serial program leaves\n",
                    row_name(row), p->name, set->text);
            continue;
        }
        const double figure = figure_of(c, r, set, row, TRY_TASKS, TRY_TIMES);
        if (is_better(row, figure, best_figure)) {
            best_figure = figure;
            best = set;
        }
    }
    return best;
}

static void choose_all(comparison *c)
{
    for (int r = PLACES; r < RUNTIMES; r++) {
        c->why_not[r] = !c->runtimes[r]                      ? "not asked for"
                        : child_is_there(&peers[r - PLACES]) ? NULL
                                                             : "not built";
    }
    for (int row = 0; row < ROWS; row++) {
        uint64_t hash = 0;
        if (c->rows[row] && row != METG) {
            data d = serial_data(&patterns[row], TRY_TASKS);
            hash = data_hash(&d);
            data_free(&d);
        }
        for (int r = PLACES; r < RUNTIMES; r++) {
            if (c->rows[row] && !c->why_not[r] && !(row == METG && is_alone(r))) {
                c->all[r][row].set = choose(c, r, row, hash);
            }
        }
    }
}

static void compare_all(comparison *c)
{
    choose_all(c);
    for (size_t i = 0; i < c->rounds * ROWS * RUNTIMES; i++) {
        const int r = (int)(i % RUNTIMES), row = (int)(i / RUNTIMES % ROWS);
        entry *e = &c->all[r][row];
        if (!c->rows[row] || !c->runtimes[r] || (r >= PLACES && !e->set)) {
            continue;
        }
        progress(row_name(row), runtime_name(r), "");
        const double figure = figure_of(c, r, e->set, row, c->tasks, COMPARE_TIMES);
        if (figure > 0) {
            e->figures[e->n++] = figure;
        }
    }
    progress("", "", "");
    for (int i = 0; i < RUNTIMES * ROWS; i++) {
        entry *e = &c->all[i / ROWS][i % ROWS];
        e->median = e->n ? bench_median(e->figures, e->n) : 0;
    }
}

/* ---- Output --------------------------------------------------------------------------------- */

/* -1: there is none. */
static int best_peer(const comparison *c, int row)
{
    int best = -1;
    for (int r = PLACES; r < RUNTIMES; r++) {
        if (!is_alone(r) &&
            is_better(row, c->all[r][row].median, best < 0 ? 0 : c->all[best][row].median)) {
            best = r;
        }
    }
    return best;
}

/* One of our columns divided by the best peer, or the inverse for METG; 0: nothing to compare. */
static double ratio_of(const comparison *c, int place, int row)
{
    const int best = best_peer(c, row);
    const double ours = c->all[place][row].median;
    if (best < 0 || ours <= 0) {
        return 0;
    }
    const double theirs = c->all[best][row].median;
    return row == METG ? theirs / ours : ours / theirs;
}

static void compare_print(const comparison *c)
{
    printf("compared: Mtasks/s, %llu tasks with empty bodies, %u cores, from the first submit "
           "until all are complete\n\n",
           (unsigned long long)c->tasks, c->cores);
    printf("%-16s", "pattern");
    for (int r = 0; r < RUNTIMES; r++) {
        printf(" %9s", runtime_name(r));
    }
    printf(" %9s  %s\n", "ratio", "best peer, its setting");
    for (int row = 0; row < ROWS; row++) {
        if (!c->rows[row]) {
            continue;
        }
        const int best = best_peer(c, row);
        printf(row == METG ? "METG on P3, ns  " : "%-3s%-13s", row_name(row),
               row == METG ? "" : patterns[row].text);
        for (int r = 0; r < RUNTIMES; r++) {
            const double median = c->all[r][row].median;
            if (median > 0) {
                printf(row == METG ? " %9.0f" : " %9.2f", median);
            } else {
                printf(" %9s", "-");
            }
        }
        if (best < 0 || ratio_of(c, 0, row) <= 0) {
            printf(" %9s\n", "-");
        } else {
            printf(" %9.2f  %s: %s\n", ratio_of(c, 0, row), runtime_name(best),
                   c->all[best][row].set->text);
        }
    }
    printf(
        "\ninline: the submitting thread runs short tasks, so all empty bodies; offloaded: it does "
        "not.\nlibomp-1 and TBB-light run every task on that thread, however long it is, so they "
        "do "
        "not count.\n");
    for (int r = PLACES; r < RUNTIMES; r++) {
        if (c->why_not[r] && c->runtimes[r]) {
            printf("%s is not available (Debian: %s)\n", runtime_name(r),
                   peers[r - PLACES].packages);
        }
    }
    printf("\n");
}

/* A line for each figure of ours: bench/against.sh reads them. */
static void compare_plain(const comparison *c)
{
    for (int i = 0; i < ROWS * PLACES; i++) {
        const int r = i % PLACES, row = i / PLACES;
        const double median = c->all[r][row].median;
        if (median > 0) {
            printf("figure %s/%s %.4f %s\n", row_name(row), runtime_name(r), median,
                   row == METG ? "ns" : "Mtasks/s");
        }
    }
}

static void compare_json(const comparison *c)
{
    const char *comma = "";
    printf("  \"compared\": [");
    for (int i = 0; i < ROWS * RUNTIMES; i++) {
        const int r = i % RUNTIMES, row = i / RUNTIMES;
        const entry *e = &c->all[r][row];
        if (!c->rows[row] || e->median <= 0) {
            continue;
        }
        printf("%s\n    {\"pattern\": \"%s\", \"runtime\": \"%s\", \"setting\": \"%s\", "
               "\"tasks\": %llu, \"%s\": %.4f, \"rounds\": %zu}",
               comma, row == METG ? patterns[METG_PATTERN].name : row_name(row), runtime_name(r),
               e->set ? e->set->text : "", (unsigned long long)c->tasks,
               row == METG ? "metg_ns" : "mtasks_per_s", e->median, e->n);
        comma = ",";
    }
    printf("\n  ],\n");
}

#endif /* PTO_TASKS_COMPARE_H */
