/* bench_latency.c - how long single steps take: the start of a task, a wake-up, a call.
 *
 * Latencies, each with its median and tail: from the call of submit until the kernel starts, from
 * the end of a task until a task that waits for it starts, from room in a full task ring until the
 * waiting submit returns. Then the cost of calls, of creating and destroying a runtime, and of an
 * idle one. For each place where the scheduler can run.
 *
 * There is one worker besides the submitting thread, on its own core if the machine has two. With
 * the scheduler on a thread there are three threads; on two cores these figures depend on how the
 * system shares the cores. Cases take turns, so that other load disturbs only a part of each.
 */
#define _GNU_SOURCE /* sched_getaffinity, usleep */
#include "bench.h"

#include <string.h>

#include "latency_costs.h"

enum { ROUNDS = 5, SAMPLES = 4000, BATCHES = 20, LIVES = 20, LIFE_ROWS = 3 };
#define WANT_IDLE 1.0

typedef struct options {
    int place; /* -1: all */
    bool quick, json;
} options;

typedef struct figures {
    size_t n;
    double p50, p99, p999;
} figures;

static samples latencies[PLACES][CASES][OUTPUTS];
static samples costs[PLACES][N_CALLS];
static samples lives[PLACES][LIFE_ROWS];
static idleness idles[PLACES];
static const char *const life_names[LIFE_ROWS] = {"pto_runtime_create", "pto_runtime_destroy",
                                                  "create, one task, destroy"};

static bool chosen(int only, int i)
{
    return only < 0 || only == i;
}

/* A quantile; sorts the array. */
static figures figures_of(samples *s)
{
    figures f = {.n = s->n};
    if (s->n) {
        const size_t last = s->n - 1;
        f.p50 = bench_median(s->ns, s->n);
        f.p99 = s->ns[last - last / 100];
        f.p999 = s->ns[last - last / 1000];
    }
    return f;
}

static void measure_place(const options *o, int place)
{
    const size_t n = o->quick ? SAMPLES / 8 : SAMPLES;
    for (int i = 0; i < CASES; i++) {
        cases[i].run(place, n, latencies[place][i]);
    }
    stand *s = stand_begin(place);
    for (int i = 0; i < N_CALLS; i++) {
        for (int batch = -1; batch < BATCHES; batch++) { /* the first one warms up */
            const double start = bench_now_ns();
            calls[i].run(s);
            if (batch >= 0) {
                add(&costs[place][i], (bench_now_ns() - start) / CALLS);
            }
        }
    }
    must(pto_runtime_destroy(&s->rt, PTO_WAIT));
    life(place, o->quick ? LIVES / 4 : LIVES, lives[place]);
}

static void measure_all(const options *o)
{
    for (int round = 0; round < (o->quick ? 2 : ROUNDS); round++) {
        for (int place = 0; place < PLACES; place++) {
            if (chosen(o->place, place)) {
                measure_place(o, place);
            }
        }
    }
    for (int place = 0; place < PLACES; place++) {
        if (chosen(o->place, place)) {
            idles[place] = idle(place, o->quick ? 0.3 : 1);
        }
    }
}

/* ---- Output --------------------------------------------------------------------------------- */

static void print_figures(const char *name, int place, samples *s, const char *unit)
{
    const figures f = figures_of(s);
    printf("%-50s %-7s %9.0f %9.0f %9.0f %3s %8zu\n", name, place_names[place], f.p50, f.p99,
           f.p999, unit, f.n);
}

static void print_table(const options *o)
{
    printf("times by %s, one look included\n\n",
           ptoi_ticks_by_counter ? "the processor's counter, calibrated" : "clock_gettime");
    printf("%-50s %-7s %9s %9s %9s %3s %8s\n", "latency", "place", "p50", "p99", "p99.9", "",
           "samples");
    for (int i = 0; i < CASES * OUTPUTS * PLACES; i++) {
        const int place = i % PLACES, output = i / PLACES % OUTPUTS, c = i / PLACES / OUTPUTS;
        if (cases[c].names[output] && chosen(o->place, place)) {
            print_figures(cases[c].names[output], place, &latencies[place][c][output], "ns");
        }
    }
    printf("\n%-50s %-7s %9s\n", "cost of a call, many in a row", "place", "median");
    for (int i = 0; i < N_CALLS * PLACES; i++) {
        samples *s = &costs[i % PLACES][i / PLACES];
        if (s->n) {
            printf("%-50s %-7s %9.1f ns\n", calls[i / PLACES].name, place_names[i % PLACES],
                   bench_median(s->ns, s->n));
        }
    }
    printf("\n%-50s %-7s %9s %9s %9s\n", "life", "place", "p50", "p99", "p99.9");
    for (int i = 0; i < LIFE_ROWS * PLACES; i++) {
        if (chosen(o->place, i % PLACES)) {
            print_figures(life_names[i / PLACES], i % PLACES, &lives[i % PLACES][i / PLACES], "us");
        }
    }
    printf("\n");
    for (int place = 0; place < PLACES; place++) {
        if (chosen(o->place, place)) {
            printf("idle, %s: %.0f us of processor time after the last task, then %.3f %% of one\n",
                   place_names[place], idles[place].settle_us, idles[place].percent);
        }
    }
    printf("\n");
}

static void print_json_row(const char **comma, const char *name, int place, samples *s,
                           const char *unit)
{
    const figures f = figures_of(s);
    name += strspn(name, " ");
    printf("%s\n    {\"name\": \"%s\", \"place\": \"%s\", \"unit\": \"%s\", \"p50\": %.2f, "
           "\"p99\": %.2f, \"p99.9\": %.2f, \"samples\": %zu}",
           *comma, name, place_names[place], unit, f.p50, f.p99, f.p999, f.n);
    *comma = ",";
}

static void print_json(const options *o)
{
    const char *comma = "";
    printf("{\n  \"bench\": \"latency\",\n  \"version\": \"%s\",\n  \"clock\": \"%s\",\n"
           "  \"results\": [",
           pto_version(), ptoi_ticks_by_counter ? "counter" : "clock_gettime");
    for (int place = 0; place < PLACES; place++) {
        if (!chosen(o->place, place)) {
            continue;
        }
        for (int i = 0; i < CASES * OUTPUTS; i++) {
            if (cases[i / OUTPUTS].names[i % OUTPUTS]) {
                print_json_row(&comma, cases[i / OUTPUTS].names[i % OUTPUTS], place,
                               &latencies[place][i / OUTPUTS][i % OUTPUTS], "ns");
            }
        }
        for (int i = 0; i < N_CALLS; i++) {
            print_json_row(&comma, calls[i].name, place, &costs[place][i], "ns");
        }
        for (int i = 0; i < LIFE_ROWS; i++) {
            print_json_row(&comma, life_names[i], place, &lives[place][i], "us");
        }
    }
    printf("\n  ],\n  \"idle\": [");
    comma = "";
    for (int place = 0; place < PLACES; place++) {
        if (chosen(o->place, place)) {
            printf("%s\n    {\"place\": \"%s\", \"settle_us\": %.1f, \"percent\": %.4f, "
                   "\"want_at_most\": %g, \"ok\": %s}",
                   comma, place_names[place], idles[place].settle_us, idles[place].percent,
                   WANT_IDLE, idles[place].percent <= WANT_IDLE ? "true" : "false");
            comma = ",";
        }
    }
    printf("\n  ]\n}\n");
}

/* ---- The command line ----------------------------------------------------------------------- */

static const char usage[] = "usage: ./dev bench latency [OPTIONS]\n"
                            "  --place inline|thread   only with the scheduler there\n"
                            "  --quick                 a twentieth of the samples\n"
                            "  --json                  for a program to read\n"
                            "  --help\n";

static _Noreturn void refuse(const char *what, const char *value)
{
    fprintf(stderr, "bench_latency: %s '%s'\n\n%s", what, value, usage);
    exit(2);
}

static options parse(int argc, char **argv)
{
    options o = {.place = -1};
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(option, "--quick")) {
            o.quick = true;
        } else if (!strcmp(option, "--json")) {
            o.json = true;
        } else if (!strcmp(option, "--place")) {
            const char *value = argv[++i];
            for (int p = 0; value && p < PLACES; p++) {
                o.place = !strcmp(value, place_names[p]) ? p : o.place;
            }
            if (!value || strcmp(value, place_names[o.place < 0 ? 0 : o.place]) != 0) {
                refuse("no such place:", value ? value : "");
            }
        } else {
            refuse("unknown option", option);
        }
    }
    return o;
}

static void samples_free(samples *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(s[i].ns);
    }
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    bool held = true;
    clock_calibrate();
    measure_all(&o);
    if (o.json) {
        print_json(&o);
    } else {
        print_table(&o);
    }
    for (int place = 0; place < PLACES; place++) {
        if (chosen(o.place, place)) {
            char name[32];
            snprintf(name, sizeof name, "latency idle %s", place_names[place]);
            held &= o.json ? idles[place].percent <= WANT_IDLE
                           : bench_bar_at_most(name, idles[place].percent, "% of a processor",
                                               WANT_IDLE);
        }
    }
    samples_free(&latencies[0][0][0], (size_t)PLACES * CASES * OUTPUTS);
    samples_free(&costs[0][0], (size_t)PLACES * N_CALLS);
    samples_free(&lives[0][0], (size_t)PLACES * LIFE_ROWS);
    return held ? 0 : 1;
}
