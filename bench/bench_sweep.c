/* bench_sweep.c - does the default choose well between running tasks inline and offloading them?
 *
 * Eight shapes of programs (sweep_patterns.h), five widths, bodies from 50 ns to 10 us. Each cell runs
 * the default, everything inline, everything offloaded, and the default once more, in a runtime each.
 * The four take turns, and what counts is the ratio of two times of the same round. The fourth is the
 * control: how far two equal runtimes differ is what the machine adds to every other ratio.
 *
 * The default must not lose to the better of the other two, whatever the program looks like. METG is the
 * shortest body at which half of the time of all cores is spent in bodies.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "bench.h"

#include <math.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "tasks_ours.h"

#include "cores_choose.h"
#include "sweep_patterns.h"

enum { DEFAULT, INLINE_ALL, OFFLOAD_ALL, CONTROL, WAYS };
enum { WIDTHS = 5, BODIES = 8, MOST_ROUNDS = 64 };
enum { WARM_UP = 1000, WARM_AGAIN = 64, PARK_US = 200 };

static const uint32_t way_inline_ns[WAYS] = {0, 1000000000, PTO_NO_INLINE, 0};
static const int widths[WIDTHS] = {2, 4, 8, 32, 128};
static const double bodies[BODIES] = {50, 100, 200, 500, 1000, 2000, 5000, 10000};

typedef struct options {
    int shape;      /* -1: all */
    int rounds;     /* of each cell */
    double work;    /* ns that a run should take */
    bool cells;     /* print every cell */
    uint32_t cores; /* to use; 0: all */
} options;

typedef struct cell {
    double length;                         /* of a body, ns, as measured */
    double times[WAYS];                    /* ns per task, medians */
    double to_inline, to_offload, control; /* medians of ratios within a round */
} cell;

static cell cells[ALL_SHAPES][WIDTHS][BODIES];
static double step_ns; /* what a step of body_spin takes here */
static uint32_t cores;

/* The default's time divided by that of the better of the other two. */
static double loss_of(const cell *c)
{
    return c->to_inline > c->to_offload ? c->to_inline : c->to_offload;
}

static void use_cores(uint32_t n)
{
    cpu_set_t set;
    cores = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        set = cores_choose(&set, n);
        cores = (uint32_t)CPU_COUNT(&set);
    }
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("bench_sweep: sched_setaffinity");
        exit(2);
    }
}

/* ---- One cell ------------------------------------------------------------------------------- */

static void submit_all(sink *s, const sweep_program *p, const data *d, uint64_t tasks)
{
    uint32_t at = 0;
    for (uint64_t i = 0; i < tasks; i++) {
        const sweep_task *t = &p->tasks[at];
        pto_param params[SWEEP_READS + 2];
        for (uint32_t r = 0; r < t->reads; r++) {
            params[r] = pto_input(&d->tiles[t->from[r]]);
        }
        params[t->reads] = pto_inout(&d->tiles[t->writes]);
        submit(s, CHAIN, params, t->reads + (size_t)1);
        at = at + 1 < p->n ? at + 1 : 0;
    }
}

static double run_once(sink *s, const sweep_program *p, const data *d, uint64_t tasks)
{
    submit_all(s, p, d, WARM_AGAIN); /* workers are awake afterwards */
    must(pto_wait(s->rt));
    const double start = bench_now_ns();
    submit_all(s, p, d, tasks);
    must(pto_wait(s->rt));
    const double ns = bench_now_ns() - start;
    usleep(PARK_US); /* workers sleep before the next runtime has its turn */
    return ns / (double)tasks;
}

static double body_ns(uint64_t steps)
{
    double times[5];
    const uint64_t n = 20000 / (steps + 1) + 1;
    for (int i = 0; i < 5; i++) {
        const double start = bench_now_ns();
        for (uint64_t k = 0; k < n; k++) {
            body_spin(steps);
        }
        times[i] = (bench_now_ns() - start) / (double)n;
    }
    return bench_median(times, 5);
}

static double median_ratio(const double *a, const double *b, int n)
{
    double ratios[MOST_ROUNDS];
    for (int i = 0; i < n; i++) {
        ratios[i] = a[i] / b[i];
    }
    return bench_median(ratios, (size_t)n);
}

static void measure(const options *o, const sweep_program *p, int width, double ns, cell *c)
{
    static double times[WAYS][MOST_ROUNDS];
    const uint64_t steps = (uint64_t)(ns / step_ns + 0.5) + 1;
    const double at_once = width < (int)cores ? width : (int)cores;
    const uint64_t tasks = (uint64_t)(o->work / (ns / at_once + 100)) + 200;
    data d = data_make(SWEEP_TILES, 0);
    sink s[WAYS];
    for (int w = 0; w < WAYS; w++) {
        sink_init(&s[w], runtime_make(0, way_inline_ns[w]), SPIN);
        s[w].numbers[KINDS] = steps;
        submit_all(&s[w], p, &d, WARM_UP + tasks); /* kernels are timed, and modes tried */
        must(pto_wait(s[w].rt));
    }
    for (int round = 0; round < o->rounds; round++) {
        for (int turn = 0; turn < WAYS; turn++) {
            const int w = (round + turn) % WAYS;
            times[w][round] = run_once(&s[w], p, &d, tasks);
        }
    }
    c->length = body_ns(steps);
    c->to_inline = median_ratio(times[DEFAULT], times[INLINE_ALL], o->rounds);
    c->to_offload = median_ratio(times[DEFAULT], times[OFFLOAD_ALL], o->rounds);
    c->control = median_ratio(times[DEFAULT], times[CONTROL], o->rounds);
    for (int w = 0; w < WAYS; w++) {
        c->times[w] = bench_median(times[w], (size_t)o->rounds);
        must(pto_runtime_destroy(&s[w].rt, PTO_WAIT));
    }
    data_free(&d);
}

/* ---- Is it right? --------------------------------------------------------------------------- */

static bool check(shape which, int width, int way)
{
    static sweep_program p;
    sweep_make(&p, which, width);
    data serial = data_make(SWEEP_TILES, 0), ours = data_make(SWEEP_TILES, 0);
    sink a, b;
    sink_init(&a, NULL, MIX);
    sink_init(&b, runtime_make(0, way_inline_ns[way]), MIX);
    submit_all(&a, &p, &serial, p.n);
    submit_all(&b, &p, &ours, p.n);
    must(pto_wait(b.rt));
    must(pto_runtime_destroy(&b.rt, PTO_WAIT));
    const bool same = memcmp(serial.memory, ours.memory, ours.bytes) == 0;
    if (!same) {
        fprintf(stderr,
                "bench_sweep: %s, %d wide: the memory is not what the serial program leaves\n",
                shape_names[which], width);
    }
    data_free(&serial);
    data_free(&ours);
    return same;
}

/* ---- Figures -------------------------------------------------------------------------------- */

/* How far apart equal runtimes are: of all cells the 95th of 100. */
static double control_spread(const options *o)
{
    static double all[ALL_SHAPES * WIDTHS * BODIES];
    size_t n = 0;
    for (int i = 0; i < SHAPES * WIDTHS * BODIES; i++) {
        const double r = cells[i / BODIES / WIDTHS][i / BODIES % WIDTHS][i % BODIES].control;
        if (r > 0 && (o->shape < 0 || o->shape == i / BODIES / WIDTHS)) {
            all[n++] = r > 1 ? r : 1 / r;
        }
    }
    if (!n) {
        return 1;
    }
    (void)bench_median(all, n); /* sorts */
    return all[(n * 95 + 99) / 100 - 1];
}

static double geometric_mean(int which, double (*of)(const cell *c))
{
    double sum = 0;
    for (int i = 0; i < WIDTHS * BODIES; i++) {
        sum += log(of(&cells[which][i / BODIES][i % BODIES]));
    }
    return exp(sum / (WIDTHS * BODIES));
}

static double inline_of(const cell *c)
{
    return c->to_inline;
}

static double offload_of(const cell *c)
{
    return c->to_offload;
}

static double control_of(const cell *c)
{
    return c->control;
}

/* 0: not reached; -1: below the shortest body. */
static double metg_of(const cell *row, int way)
{
    double before = 0;
    for (int b = 0; b < BODIES; b++) {
        const double now = row[b].length / row[b].times[way] / cores;
        if (now >= 0.5 && b == 0) {
            return -1;
        }
        if (now >= 0.5) {
            const double part = (0.5 - before) / (now - before);
            return row[b - 1].length * pow(row[b].length / row[b - 1].length, part);
        }
        before = now;
    }
    return 0;
}

static void print_metg(const cell *row, int way)
{
    const double ns = metg_of(row, way);
    if (ns > 0) {
        printf(" %5.0f", ns);
    } else {
        printf(" %5s", ns < 0 ? "<50" : "-");
    }
}

static const cell *worst_of(int which, int *width, int *number)
{
    const cell *worst = NULL;
    for (int i = 0; i < WIDTHS * BODIES; i++) {
        const cell *c = &cells[which][i / BODIES][i % BODIES];
        if (!worst || loss_of(c) > loss_of(worst)) {
            worst = c;
            *width = i / BODIES;
            *number = i % BODIES;
        }
    }
    return worst;
}

static bool wanted(const options *o, int which)
{
    return o->shape < 0 || o->shape == which;
}

/* For each cell the loss, and which of the other two was better. */
static void print_cells(const options *o)
{
    printf("default divided by the better: i inline, o offloaded\n%-11s %5s", "pattern", "width");
    for (int b = 0; b < BODIES; b++) {
        printf(" %5.0fns", bodies[b]);
    }
    printf("\n");
    for (int i = 0; i < ALL_SHAPES * WIDTHS; i++) {
        const int which = i / WIDTHS, w = i % WIDTHS;
        if (!wanted(o, which) || (which == SHAPE_P3 && w > 0)) {
            continue;
        }
        printf("%-11s %5d", shape_names[which], which == SHAPE_P3 ? SWEEP_P3 : widths[w]);
        for (int b = 0; b < BODIES; b++) {
            const cell *c = &cells[which][w][b];
            printf(" %6.2f%c", loss_of(c), c->to_inline > c->to_offload ? 'i' : 'o');
        }
        printf("\n");
    }
    printf("\n");
}

static void print_table(const options *o)
{
    printf(
        "the default's time divided by that of everything inline, everything offloaded, the "
        "better\n"
        "of the two, and the default again: geometric means of %d widths x %d bodies, %d rounds,\n"
        "%u cores. METG in ns, default / offloaded, for %d, %d, %d, %d, %d wide.\n\n",
        WIDTHS, BODIES, o->rounds, cores, widths[0], widths[1], widths[2], widths[3], widths[4]);
    printf("%-11s %5s %5s %6s %5s  %-17s  %s\n", "pattern", "inl.", "offl.", "better", "A/A",
           "worst cell", "METG");
    for (int s = 0; s < ALL_SHAPES; s++) {
        if (!wanted(o, s)) {
            continue;
        }
        if (s == SHAPE_P3) {
            printf("%-11s %*s", shape_names[s], 44, "");
            print_metg(cells[s][0], DEFAULT);
            printf(" /");
            print_metg(cells[s][0], OFFLOAD_ALL);
            printf("\n");
            continue;
        }
        int w = 0, b = 0;
        const cell *worst = worst_of(s, &w, &b);
        printf("%-11s %5.2f %5.2f %6.2f %5.2f  %4.2f %3dx %5.0fns ", shape_names[s],
               geometric_mean(s, inline_of), geometric_mean(s, offload_of),
               geometric_mean(s, loss_of), geometric_mean(s, control_of), loss_of(worst), widths[w],
               bodies[b]);
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < WIDTHS; k++) {
                print_metg(cells[s][k], i ? OFFLOAD_ALL : DEFAULT);
            }
            printf("%s", i ? "\n" : " /");
        }
    }
    printf("\n");
}

static bool print_bars(const options *o)
{
    const double spread = control_spread(o);
    bool held = true;
    double worst = 0;
    int beyond = 0;
    char name[64];
    for (int s = 0; s < SHAPES; s++) {
        if (!wanted(o, s)) {
            continue;
        }
        const double mean = geometric_mean(s, loss_of);
        const bool ok = mean <= 1.05;
        printf("BAR sweep %s: %.3f of the better (want <= 1.05) %s\n", shape_names[s], mean,
               ok ? "ok" : "short");
        held &= ok;
        for (int i = 0; i < WIDTHS * BODIES; i++) {
            const double loss = loss_of(&cells[s][i / BODIES][i % BODIES]) / spread;
            if (loss > worst) {
                worst = loss;
                snprintf(name, sizeof name, "%s, %d wide, %.0f ns", shape_names[s],
                         widths[i / BODIES], bodies[i % BODIES]);
            }
            beyond += loss > 1.15;
        }
    }
    if (worst > 0) {
        const bool ok = worst <= 1.15;
        printf(
            "BAR sweep worst cell: %.3f of the better beyond the A/A spread of %.3f (%s; %d cells "
            "above) (want <= 1.15) %s\n",
            worst, spread, name, beyond, ok ? "ok" : "short");
        held &= ok;
    }
    if (wanted(o, SHAPE_P3) && cores == 2) {
        const double ns = metg_of(cells[SHAPE_P3][0], DEFAULT);
        held &= bench_bar_at_most("sweep METG P3", ns > 0 ? ns : ns < 0 ? 50 : 1e6, "ns", 250);
    }
    return held;
}

/* ---- The command line ----------------------------------------------------------------------- */

static const char usage[] =
    "usage: ./dev bench sweep [OPTIONS]\n"
    "  --pattern NAME   only chain, stencil, fft, tree, dominator, nearest5, random, independent "
    "or\n"
    "                   P3\n"
    "  --cores N        use only so many cores (default: all)\n"
    "  --rounds N       of each cell, 1 to 64 (default: 15)\n"
    "  --quick          5 shorter rounds: less than a minute\n"
    "  --cells          every cell, not only the worst\n"
    "  --help\n"
    "The environment variables of the runtime (PTO_WORKERS and so on) are honoured.\n";

static options parse(int argc, char **argv)
{
    options o = {.shape = -1, .rounds = 15, .work = 3e6};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(argv[i], "--quick")) {
            o.rounds = 5;
            o.work = 2e6;
        } else if (!strcmp(argv[i], "--cells")) {
            o.cells = true;
        } else if (!strcmp(argv[i], "--rounds") && atoi(value) > 0 && // NOLINT(cert-err34-c)
                   atoi(value) <= MOST_ROUNDS) {                      // NOLINT(cert-err34-c)
            o.rounds = atoi(value);                                   // NOLINT(cert-err34-c)
            i++;
        } else if (!strcmp(argv[i], "--cores") && atoi(value) > 0) { // NOLINT(cert-err34-c)
            o.cores = (uint32_t)atoi(value);                         // NOLINT(cert-err34-c)
            i++;
        } else if (!strcmp(argv[i], "--pattern")) {
            for (int s = 0; s < ALL_SHAPES; s++) {
                o.shape = strcmp(value, shape_names[s]) == 0 ? s : o.shape;
            }
            if (o.shape < 0) {
                fprintf(stderr, "bench_sweep: no pattern '%s'\n\n%s", value, usage);
                exit(2);
            }
            i++;
        } else {
            fprintf(stderr, "bench_sweep: '%s'\n\n%s", argv[i], usage);
            exit(2);
        }
    }
    return o;
}

int main(int argc, char **argv)
{
    static sweep_program p;
    const options o = parse(argc, argv);
    bool right = true;
    use_cores(o.cores);
    step_ns = body_ns(100000) / 100000;
    for (int i = 0; i < ALL_SHAPES * WAYS; i++) {
        right &= !wanted(&o, i / WAYS) ||
                 check((shape)(i / WAYS), i / WAYS == SHAPE_P3 ? SWEEP_P3 : 8, i % WAYS);
    }
    if (!right) {
        return 2;
    }
    for (int i = 0; i < ALL_SHAPES * WIDTHS * BODIES; i++) {
        const int s = i / BODIES / WIDTHS, w = i / BODIES % WIDTHS;
        if (!wanted(&o, s) || (s == SHAPE_P3 && w > 0)) {
            continue;
        }
        if (i % BODIES == 0) {
            sweep_make(&p, (shape)s, s == SHAPE_P3 ? SWEEP_P3 : widths[w]);
            if (isatty(STDERR_FILENO)) {
                fprintf(stderr, "\r\033[K%s %d", shape_names[s], widths[w]);
            }
        }
        measure(&o, &p, s == SHAPE_P3 ? SWEEP_P3 : widths[w], bodies[i % BODIES],
                &cells[s][w][i % BODIES]);
    }
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K");
    }
    if (o.cells) {
        print_cells(&o);
    }
    print_table(&o);
    return print_bars(&o) ? 0 : 1;
}
