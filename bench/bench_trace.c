/* bench_trace.c - the cost of recording a task in a trace.
 *
 * The programs of bench_tasks, with empty bodies, on two new runtimes in turn: one records and the
 * other does not, and the order alternates from round to round. The figure is the additional time
 * per task, from the first submit until all tasks are complete: the median of the differences of
 * all rounds. The end of the runtime (which computes edges and writes the file) is shown
 * separately, because the program does not wait for it.
 */
#include <string.h>
#include <unistd.h>

#include <pto/trace.h>

#include "tasks_ours.h"

#define ROUNDS 21
#define WANT_NS 80

static char path[256];

/* A recorded run leaves what the serial program leaves. */
static bool check(const pattern *p)
{
    enum { TASKS = 2000 };
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt;
    sink s;
    data serial = serial_data(p, TASKS), ours = p->make(TASKS);
    config.trace = path;
    must(pto_runtime_create(&rt, &config));
    sink_init(&s, rt, MIX);
    (void)timed(p, &s, &ours, TASKS);
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    const bool right = data_hash(&ours) == data_hash(&serial);
    if (!right) {
        fprintf(stderr, "bench_trace: %s: not what the serial program leaves\n", p->text);
    }
    data_free(&serial);
    data_free(&ours);
    return right;
}

typedef struct figures {
    double run, end; /* ns per task */
} figures;

static figures measure(const pattern *p, const data *d, uint64_t tasks, uint32_t workers,
                       bool traced)
{
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt;
    sink s;
    figures f;
    config.trace = traced ? path : NULL;
    config.inline_ns = PTO_NO_INLINE; /* every task is offloaded, so both threads record */
    config.workers = workers;
    must(pto_runtime_create(&rt, &config));
    sink_init(&s, rt, EMPTY);
    const double ns = timed(p, &s, d, tasks);
    const double before = bench_now_ns();
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    f.run = ns / (double)s.tasks;
    f.end = (bench_now_ns() - before) / (double)s.tasks;
    return f;
}

/* Returns the cost of recording, in ns per task. */
static double compare(const pattern *p, uint64_t tasks, uint32_t workers)
{
    double plain[ROUNDS], difference[ROUNDS], end[ROUNDS];
    data d = p->make(tasks);
    for (int round = -1; round < ROUNDS; round++) {
        const bool first = round % 2 != 0;
        const figures a = measure(p, &d, tasks, workers, first);
        const figures b = measure(p, &d, tasks, workers, !first);
        if (round >= 0) { /* the first one warms up */
            plain[round] = first ? b.run : a.run;
            difference[round] = first ? a.run - b.run : b.run - a.run;
            end[round] = first ? a.end : b.end;
        }
    }
    const double cost = bench_median(difference, ROUNDS);
    printf("  %-13s %-9s %9.1f %12.1f %14.1f\n", p->text, workers == 1 ? "1 worker" : "alone",
           bench_median(plain, ROUNDS), cost, bench_median(end, ROUNDS));
    fflush(stdout);
    data_free(&d);
    return cost;
}

int main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    double costs[2][PATTERNS];
    const char *folder = getenv("TMPDIR");
    (void)unsetenv("PTO_TRACE"); /* this program decides which run is recorded */
    snprintf(path, sizeof path, "%s/bench_trace.%ld.ptrace", folder ? folder : "/tmp",
             (long)getpid());
    printf("ns per task              not traced  traced: more     at the end\n");
    for (int i = 0; i < PATTERNS; i++) {
        if (!check(&patterns[i])) {
            return 2;
        }
        const uint64_t tasks = quick ? 10000 : 50000;
        costs[0][i] = compare(&patterns[i], tasks, PTO_NO_WORKERS);
        costs[1][i] = compare(&patterns[i], tasks, 1);
    }
    (void)unlink(path);
    const bool alone = bench_bar_at_most("trace: a task, on one thread",
                                         bench_median(costs[0], PATTERNS), "ns", WANT_NS);
    const bool beside = bench_bar_at_most("trace: a task, with a worker",
                                          bench_median(costs[1], PATTERNS), "ns", WANT_NS);
    return alone && beside ? 0 : 1;
}
