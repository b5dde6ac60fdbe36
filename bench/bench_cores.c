/* bench_cores.c - what more cores are good for: tasks of 100 ns, and METG, on 1, 2, 4, 8 and 16 cores.
 *
 * A stencil of 128 cells and independent tasks (cores_patterns.h), on our runtime with all defaults and
 * on its peers. Each measurement is a process of its own that may use the first so many cores; all of
 * them take turns. METG is the shortest body at which half of the time of all cores is spent in bodies:
 * what one thread submits has to feed all of them, so it grows with the cores.
 *
 * --with NAME=PROGRAM: one more column, this bench as it was built with another library.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include "bench.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "tasks_ours.h"

#include "cores_choose.h"
#include "cores_patterns.h"
#include "peers/tasks_children.h"

enum { COUNTS = 5, TIMES = 3, MOST_ROUNDS = 16, MORE = 6 };
enum { OURS = 0, FIRST_PEER = 1 + MORE, COMPARED = 3, RUNTIMES = FIRST_PEER + COMPARED };
enum { CHECKED_TASKS = 20000, WARM_UP_TASKS = 20000 };
#define BODY_NS 100.0
#define METG_MOST 50000.0 /* ns; longer bodies are not tried */
#define RUN_NS 8e6        /* a run should take so long */

static const uint32_t counts[COUNTS] = {1, 2, 4, 8, 16};
static const int compared[COMPARED] = {0, 1, 3}; /* of peers[]: libgomp, libomp, oneTBB */

typedef struct options {
    int rounds;
    double seconds; /* no round is begun that would probably end later; 0: no limit */
    uint32_t only;  /* cores; 0: all */
    bool quick, peers;
    const char *names[MORE];
    setting more[MORE];
} options;

typedef struct figure {
    double rate[MOST_ROUNDS], metg[MOST_ROUNDS]; /* Mtasks/s; ns, or METG_MOST if it is more */
    size_t n;
    const setting *set; /* NULL: not measured */
} figure;

static figure figures[CORES_PATTERNS][COUNTS][RUNTIMES];
static double step_ns;
static cpu_set_t mine;
static setting ours;

/* ---- A child: ours, called like a peer (peers/tasks_peer.h) ---------------------------------- */

static int child_main(int argc, char **argv)
{
    const pattern *p = NULL;
    for (int i = 0; argc > 3 && i < CORES_PATTERNS; i++) {
        p = strcmp(argv[2], cores_patterns[i].name) == 0 ? &cores_patterns[i] : p;
    }
    if (!p || argc < 4) {
        return 2;
    }
    const bool checks = !strcmp(argv[1], "check");
    const uint64_t tasks = strtoull(argv[3], NULL, 10);
    const uint64_t steps = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    const uint64_t times = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    pto_runtime *rt = runtime_make(0, 0);
    data d = p->make(tasks);
    sink s;
    sink_init(&s, rt, checks ? MIX : SPIN);
    s.numbers[KINDS] = steps;
    if (checks) {
        p->run(&s, &d, tasks);
        must(pto_wait(rt));
        printf("%016llx\n", (unsigned long long)data_hash(&d));
    } else {
        timed(p, &s, &d, tasks < WARM_UP_TASKS ? tasks : WARM_UP_TASKS);
    }
    for (uint64_t i = 0; !checks && i < times; i++) {
        s.tasks = 0;
        const double seconds = timed(p, &s, &d, tasks) * 1e-9, begin = bench_now_ns();
        const uint64_t some = bodies_alone(s.tasks, steps);
        const double alone = (bench_now_ns() - begin) * 1e-9 * (double)s.tasks / (double)some;
        printf("%.9f %llu %.9f\n", seconds, (unsigned long long)s.tasks, alone);
    }
    data_free(&d);
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    return 0;
}

/* ---- One measurement ------------------------------------------------------------------------ */

/* Lets this thread, and so its children, use the first `n` cores; 0: all. */
static void use_cores(uint32_t n)
{
    const cpu_set_t set = cores_choose(&mine, n);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("bench_cores: sched_setaffinity");
        exit(2);
    }
}

typedef struct shot {
    double ns;     /* per task */
    double length; /* of a body, ns */
} shot;

static bool measure(const setting *set, uint32_t cores, const pattern *p, double body_ns,
                    double expected, shot *result)
{
    double seconds[TIMES], serial[TIMES];
    const double fitting = RUN_NS / expected;
    const uint64_t tasks = fitting > 50000 ? 50000 : fitting < 1000 ? 1000 : (uint64_t)fitting;
    use_cores(cores);
    const uint64_t really = child_time(set, cores, p->name, tasks,
                                       (uint64_t)(body_ns / step_ns) + 1, TIMES, seconds, serial);
    use_cores(0);
    if (!really) {
        return false;
    }
    *result = (shot){bench_median(seconds, TIMES) / (double)really * 1e9,
                     bench_median(serial, TIMES) / (double)really * 1e9};
    return true;
}

/* Doubles or halves the bodies until half of the time is spent in them, then interpolates. */
static double metg_of(const setting *set, uint32_t cores, const pattern *p, double managing)
{
    double wanted = managing * cores / 2, before = 0, before_length = 0;
    while (wanted <= METG_MOST) {
        shot s;
        const double expected = wanted / cores > managing ? wanted / cores : managing;
        if (!measure(set, cores, p, wanted, expected, &s)) {
            return METG_MOST;
        }
        const double now = s.length / s.ns / cores;
        if (before_length > 0 && (now >= 0.5) != (before >= 0.5)) {
            return before_length + (s.length - before_length) * (0.5 - before) / (now - before);
        }
        if (wanted < 4 * step_ns) {
            return s.length;
        }
        before = now;
        before_length = s.length;
        wanted = now >= 0.5 ? wanted / 2 : wanted * 2;
    }
    return METG_MOST;
}

static void measure_one(figure *f, uint32_t cores, const pattern *p, bool first)
{
    shot s;
    if (!f->set || f->n == MOST_ROUNDS || !measure(f->set, cores, p, BODY_NS, 200, &s)) {
        return;
    }
    const double all = BODY_NS / cores;
    f->rate[f->n] = 1e3 / s.ns;
    f->metg[f->n] = first || f->metg[0] < METG_MOST
                        ? metg_of(f->set, cores, p, s.ns > 2 * all ? s.ns : 2 * all)
                        : METG_MOST;
    f->n++;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static const char *runtime_name(const options *o, int r)
{
    return r == OURS        ? "PTO"
           : r < FIRST_PEER ? o->names[r - 1]
                            : peers[compared[r - FIRST_PEER]].name;
}

/* The best setting of a peer that leaves what the serial program leaves; with --quick the first one. */
static const setting *choose(const options *o, const peer *which, const pattern *p, uint32_t cores,
                             uint64_t hash)
{
    const setting *best = NULL;
    double least = 0;
    for (int i = 0; i < MAX_SETTINGS && which->settings[i].text; i++) {
        const setting *set = &which->settings[i];
        shot s;
        use_cores(cores);
        const bool right = child_check(set, cores, p->name, CHECKED_TASKS, hash);
        use_cores(0);
        if (!right) {
            fprintf(stderr, "bench_cores: %s, %s (%s): not what the serial program leaves\n",
                    p->text, which->name, set->text);
            continue;
        }
        if (o->quick) {
            return set;
        }
        if (measure(set, cores, p, BODY_NS, 1000, &s) && (!best || s.ns < least)) {
            best = set;
            least = s.ns;
        }
    }
    return best;
}

static bool choose_all(const options *o, uint32_t available)
{
    bool right = true;
    for (int i = 0; i < CORES_PATTERNS * COUNTS; i++) {
        const pattern *p = &cores_patterns[i / COUNTS];
        const uint32_t cores = counts[i % COUNTS];
        figure *f = figures[i / COUNTS][i % COUNTS];
        if (cores > available || (o->only && o->only != cores)) {
            continue;
        }
        data d = serial_data(p, CHECKED_TASKS);
        const uint64_t hash = data_hash(&d);
        data_free(&d);
        use_cores(cores);
        right &= child_check(&ours, cores, p->name, CHECKED_TASKS, hash);
        use_cores(0);
        f[OURS].set = &ours;
        for (int r = 1; r < RUNTIMES; r++) {
            if (r < FIRST_PEER) {
                f[r].set = o->names[r - 1] ? &o->more[r - 1] : NULL;
            } else if (o->peers && child_is_there(&peers[compared[r - FIRST_PEER]])) {
                f[r].set = choose(o, &peers[compared[r - FIRST_PEER]], p, cores, hash);
            }
        }
    }
    return right;
}

/* Returns how many rounds were done; `start` is when the bench began. */
static int measure_all(const options *o, double start)
{
    int round = 0;
    for (double longest = 0; round < o->rounds; round++) {
        const double begin = bench_now_ns();
        if (round > 0 && o->seconds > 0 && (begin - start + longest) * 1e-9 > o->seconds) {
            break;
        }
        for (int i = 0; i < CORES_PATTERNS * COUNTS * RUNTIMES; i++) {
            const int p = i / RUNTIMES / COUNTS, c = i / RUNTIMES % COUNTS, r = i % RUNTIMES;
            if (r >= FIRST_PEER && o->quick && round > 0) {
                continue; /* once will do: they are far off */
            }
            measure_one(&figures[p][c][r], counts[c], &cores_patterns[p], round == 0);
        }
        if (round > 0 || !o->quick) { /* the first of --quick has the peers, too */
            const double took = bench_now_ns() - begin;
            longest = took > longest ? took : longest;
        }
    }
    return round;
}

/* ---- Output --------------------------------------------------------------------------------- */

static double median_of(const double *values, size_t n)
{
    double copy[MOST_ROUNDS];
    memcpy(copy, values, n * sizeof *copy);
    return n ? bench_median(copy, n) : 0;
}

static void print_table(const options *o, int rounds, uint32_t available)
{
    printf("Mtasks/s with bodies of %.0f ns, and METG in us; medians of %d%s; this machine has %u "
           "cores\n",
           BODY_NS, rounds, o->quick && o->peers ? " (peers: one round)" : "", available);
    for (int p = 0; p < CORES_PATTERNS; p++) {
        printf("\n%-19s", cores_patterns[p].text);
        for (int c = 0; c < COUNTS; c++) {
            printf(" %8u %-5s", counts[c], counts[c] == 1 ? "core" : "cores");
        }
        printf("\n");
        for (int r = 0; r < RUNTIMES; r++) {
            if ((r > OURS && r < FIRST_PEER && !o->names[r - 1]) ||
                (r >= FIRST_PEER && !o->peers)) {
                continue;
            }
            printf("  %-17s", runtime_name(o, r));
            for (int c = 0; c < COUNTS; c++) {
                const figure *f = &figures[p][c][r];
                const double metg = median_of(f->metg, f->n) * 1e-3;
                if (!f->n) {
                    printf("   not measured");
                } else if (metg >= METG_MOST * 1e-3) {
                    printf("  %6.2f  >%-3.0f ", median_of(f->rate, f->n), METG_MOST * 1e-3);
                } else {
                    printf("  %6.2f %5.2f ", median_of(f->rate, f->n), metg);
                }
            }
            printf("\n");
        }
    }
    printf("\n");
}

static bool print_bars(uint32_t available)
{
    const int c = COUNTS - 1;
    const figure *stencil = &figures[CORES_STENCIL][c][OURS];
    const figure *independent = &figures[CORES_INDEPENDENT][c][OURS];
    if (!stencil->n || !independent->n) {
        printf("BAR cores: not measured: %u cores are wanted, and there are %u\n", counts[c],
               available);
        return true;
    }
    bool held = bench_bar_at_least("cores stencil", median_of(stencil->rate, stencil->n),
                                   "Mtasks/s", 6);
    held &= bench_bar_at_least("cores independent", median_of(independent->rate, independent->n),
                               "Mtasks/s", 9);
    held &= bench_bar_at_most("cores METG stencil", median_of(stencil->metg, stencil->n), "ns",
                              1300);
    return held;
}

/* ---- The command line ----------------------------------------------------------------------- */

static const char usage[] =
    "usage: ./dev bench cores [OPTIONS]\n"
    "  --cores N              only with 1, 2, 4, 8 or 16 cores\n"
    "  --rounds N             1 to 16 (default: 5)\n"
    "  --seconds N            fewer rounds if they would take longer in all; at least one\n"
    "  --peers none           only ours; default: libgomp, libomp and oneTBB, as far as they are "
    "built\n"
    "  --with NAME=PROGRAM    this bench as it was built with another library\n"
    "  --quick                2 rounds; one for peers, with their first setting\n"
    "  --help\n"
    "The environment variables of the runtime are honoured, but for the number of workers.\n";

static void refuse(const char *what, const char *value)
{
    fprintf(stderr, "bench_cores: %s '%s'\n\n%s", what, value, usage);
    exit(2);
}

static void parse_with(options *o, const char *value)
{
    static char names[MORE][32];
    const char *equals = strchr(value, '=');
    int n = 0;
    while (n < MORE && o->names[n]) {
        n++;
    }
    if (!equals || n == MORE) {
        refuse("--with takes NAME=PROGRAM, six times at most, not", value);
    }
    snprintf(names[n], sizeof names[n], "%.*s", (int)(equals - value), value);
    o->names[n] = names[n];
    o->more[n] = (setting){"", realpath(equals + 1, NULL), {"TASKS_CHILD=1"}};
    if (!o->more[n].program) {
        refuse("no such program:", equals + 1);
    }
}

static options parse(int argc, char **argv)
{
    options o = {.rounds = 5, .peers = true};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        const long number = strtol(value, NULL, 10);
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(argv[i], "--quick")) {
            o.quick = true;
            o.rounds = 2;
            continue;
        } else if (!strcmp(argv[i], "--rounds") && number >= 1 && number <= MOST_ROUNDS) {
            o.rounds = (int)number;
        } else if (!strcmp(argv[i], "--seconds") && number >= 1 && number <= 100000) {
            o.seconds = (double)number;
        } else if (!strcmp(argv[i], "--cores") && number >= 1 && number <= 16) {
            o.only = (uint32_t)number;
        } else if (!strcmp(argv[i], "--peers") && !strcmp(value, "none")) {
            o.peers = false;
        } else if (!strcmp(argv[i], "--with")) {
            parse_with(&o, value);
        } else {
            refuse("not understood:", argv[i]);
        }
        i++;
    }
    return o;
}

int main(int argc, char **argv)
{
    if (getenv("TASKS_CHILD")) {
        return child_main(argc, argv);
    }
    const options o = parse(argc, argv);
    static char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0 || sched_getaffinity(0, sizeof mine, &mine) != 0) {
        perror("bench_cores");
        return 2;
    }
    const char *program = getenv("TASKS_SELF"); /* in a pack, a script starts this program */
    ours = (setting){"", program ? program : self, {"TASKS_CHILD=1"}};
    unsetenv("PTO_WORKERS");
    const uint32_t available = (uint32_t)CPU_COUNT(&mine);
    const double start = bench_now_ns();
    body_spin(1000000); /* its time is the length of a step */
    step_ns = (bench_now_ns() - start) * 1e-6;
    if (!choose_all(&o, available)) {
        fprintf(stderr, "bench_cores: the memory is not what the serial program leaves\n");
        return 2;
    }
    const int rounds = measure_all(&o, start);
    print_table(&o, rounds, available);
    return print_bars(available) ? 0 : 1;
}
