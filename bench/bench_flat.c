/* bench_flat.c - whether the cost of a task or an edge stays the same as programs grow.
 *
 * By the length of a run, the tiles of a matrix, the size of the task ring, the depth of scopes,
 * and the width of fan-out and fan-in.
 *
 * Each row is one program at several sizes (flat_rows.h), run by one thread alone and with workers.
 * Alone, no task runs before the program waits or a ring is full. So as many tasks as possible are
 * alive, every edge is real, and every run is the same. With workers, the figures are what users
 * see. One thread alone is measured by its CPU time, several threads by wall-clock time. Sizes take
 * turns; a figure is the median of all runs of one size.
 *
 * A row is flat if no size costs much more than another. The figure is the ratio of the highest
 * cost to the lowest. If more edges share the fixed cost of a task at larger sizes, a larger size
 * may cost less; then each size is compared only with smaller ones.
 *
 * Many tiles do not fit into the caches, and no runtime can change that. Rows about tiles measure
 * beside it what a walk over the same cache lines costs without a runtime. That is taken off, and each
 * size is compared with the smallest.
 */
#include "bench.h"

#include <string.h>

#include "flat_rows.h"

enum { ROUNDS = 5, MAX_RUNS = 256 };
#define WANT_RATIO 1.5

typedef struct options {
    int row, place; /* -1: all */
    uint64_t size;  /* 0: all */
    bool quick, full, json;
} options;

typedef struct measure {
    double ns[MAX_RUNS]; /* per task or edge */
    size_t runs;
    double median;
    double walk[ROUNDS]; /* what the cache lines alone cost, one for each round */
    size_t walks;
    double lines; /* their median; 0: not measured */
} measure;

typedef struct series {
    bool wanted;
    measure size[MAX_SIZES];
    double ratio;
} series;

static series all[ROWS][MODES];

static bool chosen(int only, int i)
{
    return only < 0 || only == i;
}

/* ---- Is it right? --------------------------------------------------------------------------- */

/* The programs that are timed leave what the serial programs leave. (Also, each row counts its
 * tasks and edges in every run.) */
static bool check(const pattern *p)
{
    enum { TASKS = 5000 };
    data serial = serial_data(p, TASKS), ours = p->make(TASKS);
    pto_runtime *rt = runtime_make(0, 0);
    sink s;
    sink_init(&s, rt, MIX);
    (void)timed(p, &s, &ours, TASKS);
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    const bool right = data_hash(&serial) == data_hash(&ours);
    if (!right) {
        fprintf(stderr, "bench_flat: %s: not what the serial program leaves\n", p->text);
    }
    data_free(&serial);
    data_free(&ours);
    return right;
}

/* ---- How much? ------------------------------------------------------------------------------ */

static bool is_wanted(const options *o, int row, int size)
{
    const row_info *r = &rows[row];
    const uint64_t n = r->sizes[size];
    if (o->size) {
        return n == o->size;
    }
    return n && n <= (o->full ? UINT64_MAX : o->quick ? r->quick_most : r->most);
}

/* One round of one size: a new runtime, warmed up, and enough runs that a disturbance of a
 * millisecond does not dominate. */
static void visit(const options *o, int row, int mode, int size, size_t round)
{
    const row_info *r = &rows[row];
    measure *m = &all[row][mode].size[size];
    run_info run = {.mode = mode, .size = r->sizes[size], .quick = o->quick};
    if (round >= (o->quick ? 3 : ROUNDS) || (r->is_long(&run) && round >= 3)) {
        return;
    }
    run.samples = m->ns + m->runs;
    run.room = MAX_RUNS - m->runs;
    r->run(r, &run);
    m->runs += run.n_samples;
    if (run.walk > 0) {
        m->walk[m->walks++] = run.walk;
    }
}

static bool has_walks(const series *s)
{
    for (int i = 0; i < MAX_SIZES; i++) {
        if (s->size[i].walks) {
            return true;
        }
    }
    return false;
}

static void measure_all(const options *o)
{
    for (size_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROWS * MODES * MAX_SIZES; i++) {
            const int size = i % MAX_SIZES, mode = i / MAX_SIZES % MODES;
            const int row = i / MAX_SIZES / MODES;
            if (chosen(o->row, row) && chosen(o->place, mode) && is_wanted(o, row, size)) {
                all[row][mode].wanted = true;
                visit(o, row, mode, size, round);
            }
        }
    }
    for (int i = 0; i < ROWS * MODES; i++) {
        series *s = &all[i / MODES][i % MODES];
        double least = 0, grown = 0, most = 0, first = 0;
        for (int size = 0; size < MAX_SIZES; size++) {
            measure *m = &s->size[size];
            if (m->runs) {
                m->median = bench_median(m->ns, m->runs);
                m->lines = m->walks ? bench_median(m->walk, m->walks) : 0;
                const double own = m->median - m->lines;
                first = first > 0 ? first : own;
                least = least > 0 && least < own ? least : own;
                most = most > own ? most : own;
                grown = grown > own / least ? grown : own / least;
            }
        }
        s->ratio = rows[i / MODES].shares ? grown
                   : has_walks(s)         ? most / first
                   : s->wanted            ? most / least
                                          : 0;
    }
}

/* ---- Output --------------------------------------------------------------------------------- */

static const char *short_number(uint64_t n, char *text, size_t room)
{
    if (n >= 100000) {
        snprintf(text, room, "%.0e", (double)n);
    } else {
        snprintf(text, room, "%llu", (unsigned long long)n);
    }
    return text;
}

static void print_row(int row)
{
    const row_info *r = &rows[row];
    bool headed = false;
    for (int mode = 0; mode < MODES; mode++) {
        const series *s = &all[row][mode];
        if (!s->wanted) {
            continue;
        }
        if (!headed) {
            char text[24];
            headed = true;
            printf("%s: ns per %s, by %s\n  %-9s", r->text, r->unit, r->by, "");
            for (int i = 0; i < MAX_SIZES; i++) {
                if (s->size[i].runs) {
                    printf(" %8s", short_number(r->sizes[i], text, sizeof text));
                }
            }
            printf("    ratio\n");
        }
        printf("  %-9s", mode_names[mode]);
        for (int i = 0; i < MAX_SIZES; i++) {
            if (s->size[i].runs) {
                printf(" %8.1f", s->size[i].median);
            }
        }
        printf(" %8.2f\n", s->ratio);
        if (!has_walks(s)) {
            continue;
        }
        printf("  %-9s", "- lines");
        for (int i = 0; i < MAX_SIZES; i++) {
            if (s->size[i].runs) {
                printf(" %8.1f", s->size[i].lines);
            }
        }
        printf("    taken off for the ratio\n");
    }
}

static void print_json(void)
{
    const char *comma = "";
    printf("{\n  \"bench\": \"flat\",\n  \"version\": \"%s\",\n  \"want_at_most\": %g,\n"
           "  \"rows\": [",
           pto_version(), WANT_RATIO);
    for (int i = 0; i < ROWS * MODES; i++) {
        const row_info *r = &rows[i / MODES];
        const series *s = &all[i / MODES][i % MODES];
        if (!s->wanted) {
            continue;
        }
        printf("%s\n    {\"name\": \"%s\", \"threads\": \"%s\", \"unit\": \"ns per %s\", "
               "\"by\": \"%s\", \"ratio\": %.3f, \"ok\": %s, \"sizes\": [",
               comma, r->name, mode_names[i % MODES], r->unit, r->by, s->ratio,
               s->ratio <= WANT_RATIO ? "true" : "false");
        comma = ",";
        const char *inner = "";
        for (int size = 0; size < MAX_SIZES; size++) {
            const measure *m = &s->size[size];
            if (m->runs) {
                printf("%s{\"size\": %llu, \"ns\": %.2f, \"lines_ns\": %.2f, \"runs\": %zu}", inner,
                       (unsigned long long)r->sizes[size], m->median, m->lines, m->runs);
                inner = ", ";
            }
        }
        printf("]}");
    }
    printf("\n  ]\n}\n");
}

/* Whether all bars hold; a row with a single size has none. */
static bool tell_bars(bool print)
{
    bool held = true;
    for (int i = 0; i < ROWS * MODES; i++) {
        const series *s = &all[i / MODES][i % MODES];
        char name[64];
        size_t n = 0;
        for (int size = 0; size < MAX_SIZES; size++) {
            n += s->size[size].runs > 0;
        }
        if (n < 2) {
            continue;
        }
        const bool ok = s->ratio <= WANT_RATIO;
        held &= ok;
        snprintf(name, sizeof name, "flat %s%s", rows[i / MODES].name,
                 i % MODES == ALONE     ? ""
                 : i % MODES == WORKERS ? ", workers"
                                        : ", thread");
        if (print) { /* one digit more than bench_bar_at_most */
            printf("BAR %s: ratio %.2f (want <= %g) %s\n", name, s->ratio, WANT_RATIO,
                   ok ? "ok" : "short");
        }
    }
    return held;
}

/* ---- The command line ----------------------------------------------------------------------- */

static const char usage[] =
    "usage: ./dev bench flat [OPTIONS]\n"
    "  --row NAME                    only this one; a wrong name lists them\n"
    "  --size N                      only this size, of those that rows have\n"
    "  --place alone|inline|thread   one thread; with workers; and a thread that schedules\n"
    "                                (default: the first two)\n"
    "  --full                        the largest sizes, too: 1e8 tasks, which takes minutes\n"
    "  --quick                       up to 1e6 tasks, 100 tiles a side, and fewer rounds\n"
    "  --json                        for a program to read\n"
    "  --help\n"
    "The environment variables of the runtime (PTO_WORKERS and so on) are honoured where a row\n"
    "does not set them.\n";

static _Noreturn void refuse(const char *what, const char *value)
{
    fprintf(stderr, "bench_flat: %s '%s'\n\n%s", what, value, usage);
    exit(2);
}

static int find_row(const char *value)
{
    for (int i = 0; i < ROWS; i++) {
        if (!strcmp(value, rows[i].name)) {
            return i;
        }
    }
    fprintf(stderr, "bench_flat: no row '%s'; there are:", value);
    for (int i = 0; i < ROWS; i++) {
        fprintf(stderr, "%s '%s'", i ? "," : "", rows[i].name);
    }
    fprintf(stderr, "\n");
    exit(2);
}

static int find_place(const char *value)
{
    for (int i = 0; i < MODES; i++) {
        if (!strcmp(value, mode_names[i])) {
            return i;
        }
    }
    refuse("no such place:", value);
}

/* What comes after option *i. */
static const char *next_value(char **argv, int *i)
{
    const char *value = argv[*i + 1];
    if (!value) {
        refuse("a value is missing after", argv[*i]);
    }
    ++*i;
    return value;
}

static options parse(int argc, char **argv)
{
    options o = {.row = -1, .place = -1};
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(option, "--row")) {
            o.row = find_row(next_value(argv, &i));
        } else if (!strcmp(option, "--place")) {
            o.place = find_place(next_value(argv, &i));
        } else if (!strcmp(option, "--size")) {
            const char *value = next_value(argv, &i);
            o.size = strtoull(value, NULL, 10);
            if (!o.size || value[strspn(value, "0123456789")]) {
                refuse("--size takes a number, not", value);
            }
        } else if (!strcmp(option, "--quick")) {
            o.quick = true;
        } else if (!strcmp(option, "--full")) {
            o.full = true;
        } else if (!strcmp(option, "--json")) {
            o.json = true;
        } else {
            refuse("unknown option", option);
        }
    }
    return o;
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);
    bool any = false;
    for (int i = 0; i < PATTERNS; i++) {
        if (!check(&patterns[i])) {
            return 2;
        }
    }
    if (o.place < 0) { /* more threads than cores would measure the machine, not the library */
        o.place = ALONE;
        measure_all(&o);
        o.place = WORKERS;
    }
    measure_all(&o);
    for (int i = 0; i < ROWS * MODES; i++) {
        any |= all[i / MODES][i % MODES].wanted;
    }
    if (!any) {
        fprintf(stderr, "bench_flat: no row has such a size\n");
        return 2;
    }
    if (o.json) {
        print_json();
    } else {
        for (int row = 0; row < ROWS; row++) {
            print_row(row);
        }
        printf("\n");
    }
    return tell_bars(!o.json) ? 0 : 1;
}
