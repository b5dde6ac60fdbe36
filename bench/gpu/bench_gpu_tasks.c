/* bench_gpu_tasks.c - tasks on an NVIDIA GPU: how fast they are launched, beside kernels that are
 * launched by hand, and how many run at once.
 *
 * Each time is from the first submit until pto_wait returns. Ours and by hand take turns in one
 * process. Figures are medians.
 */
#include "bench.h"

#include <string.h>

#include <pto/device.h>
#include <pto/pto.h>

#include "../../tests/device/cuda/kernels.h"

enum { ROUNDS = 7, TASKS = 20000, CELLS = 4096, WIDTH = 64 };

static const pto_device gpu = {PTO_DEVICE_NVIDIA, 0};
static const gpu_kernels *kernels;
static pto_runtime *rt;
static pto_kernel nothing, spin;
static pto_tensor a, b, cells[CELLS];

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_gpu_tasks: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

static pto_status on_host(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

/* ---- Patterns ---- */

static void independent(int count)
{
    for (int i = 0; i < count; i++) {
        must(pto_submit(rt, nothing, pto_input(&a), pto_input(&b), pto_output(&cells[i % CELLS])));
    }
}

static void chain(int count)
{
    for (int i = 0; i < count; i++) {
        must(pto_submit(rt, nothing, pto_inout(&cells[0])));
    }
}

/* A row of cells, each from three of the row before. */
static void stencil(int count)
{
    for (int i = 0; i < count; i++) {
        const int at = i % WIDTH, row = i / WIDTH % 2;
        const pto_tensor *from = &cells[row * WIDTH], *to = &cells[(1 - row) * WIDTH];
        must(pto_submit(rt, nothing, pto_input(&from[(at + WIDTH - 1) % WIDTH]),
                        pto_input(&from[at]), pto_input(&from[(at + 1) % WIDTH]),
                        pto_output(&to[at])));
    }
}

static uint64_t spin_ns;

static void spin_chain(int count)
{
    for (int i = 0; i < count; i++) {
        must(pto_submit(rt, spin, pto_inout(&cells[0]), pto_scalar(spin_ns)));
    }
}

static void spin_apart(int count)
{
    for (int i = 0; i < count; i++) {
        must(pto_submit(rt, spin, pto_inout(&cells[i]), pto_scalar(spin_ns)));
    }
}

/* ns for each task; *submitted: until the last was submitted. */
static double time_pattern(void (*pattern)(int), int count, double *submitted)
{
    const double begin = bench_now_ns();
    pattern(count);
    *submitted = (bench_now_ns() - begin) / count;
    must(pto_wait(rt));
    return (bench_now_ns() - begin) / count;
}

/* ---- Bars ---- */

static bool bench_rates(void)
{
    static const struct {
        const char *name;
        void (*pattern)(int);
        int streams; /* by hand */
        bool bar;
    } rows[] = {{"independent", independent, 8, true},
                {"chain", chain, 1, true},
                {"stencil, 3 edges", stencil, 8, false}};
    enum { ROWS = sizeof rows / sizeof *rows };
    double raw[ROUNDS], ours[ROWS][ROUNDS], submits[ROWS][ROUNDS], hand[ROWS][ROUNDS];
    bool ok = true;
    for (int k = -1; k < ROUNDS; k++) {
        const int at = k < 0 ? 0 : k;
        raw[at] = kernels->launches(1, TASKS);
        for (int i = 0; i < ROWS; i++) {
            ours[i][at] = time_pattern(rows[i].pattern, TASKS, &submits[i][at]);
            hand[i][at] = kernels->launches(rows[i].streams, TASKS);
        }
    }
    const double launch = bench_median(raw, ROUNDS);
    printf("an empty kernel on one stream, by hand: %.2f us, %.0f /s\n", launch / 1000,
           1e9 / launch);
    printf("%-18s %10s %12s %12s %10s\n", "us a task", "ours", "submit alone", "by hand", "of raw");
    for (int i = 0; i < ROWS; i++) {
        const double mine = bench_median(ours[i], ROUNDS);
        printf("%-18s %10.2f %12.2f %12.2f %10.2f\n", rows[i].name, mine / 1000,
               bench_median(submits[i], ROUNDS) / 1000, bench_median(hand[i], ROUNDS) / 1000,
               launch / mine);
    }
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].bar) {
            char name[64];
            snprintf(name, sizeof name, "dispatch, %s", rows[i].name);
            ok &= bench_bar_at_least(name, launch / bench_median(ours[i], ROUNDS),
                                     "of the raw launch rate", 0.85);
        }
    }
    return ok;
}

/* What events cost, by hand: on top of an empty launch. */
static void bench_events(void)
{
    const double plain = kernels->events(TASKS, 0, 0, 0);
    printf("on top of a launch of %.2f us: record %.2f us, query %.2f us, wait %.2f us; 1 record "
           "in 32 "
           "and 1 query in 8: %.2f us\n",
           plain / 1000, (kernels->events(TASKS, 1, 0, 0) - plain) / 1000,
           (kernels->events(TASKS, 0, 1, 0) - plain) / 1000,
           (kernels->events(TASKS, 0, 0, 1) - plain) / 1000,
           (kernels->events(TASKS, 32, 8, 0) - plain) / 1000);
}

static bool bench_chains(void)
{
    static const int lengths[] = {0, 2000, 10000};
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        double mine[ROUNDS], hand[ROUNDS], submitted;
        const int count = 5000;
        spin_ns = (uint64_t)lengths[i];
        for (int k = -1; k < ROUNDS; k++) {
            const int at = k < 0 ? 0 : k;
            hand[at] = kernels->chain(count, lengths[i]);
            mine[at] = time_pattern(lengths[i] ? spin_chain : chain, count, &submitted);
        }
        const double ours = bench_median(mine, ROUNDS), theirs = bench_median(hand, ROUNDS);
        char name[64];
        printf("a chain of kernels of %d us: %.2f us a task, by hand %.2f\n", lengths[i] / 1000,
               ours / 1000, theirs / 1000);
        snprintf(name, sizeof name, "chain of %d us, time of one by hand", lengths[i] / 1000);
        const bool holds = ours / theirs <= 1.1;
        printf("BAR %s: %.2f (want <= 1.1) %s\n", name, ours / theirs, holds ? "ok" : "short");
        ok &= holds;
    }
    return ok;
}

static bool bench_at_once(void)
{
    enum { AT_ONCE = 8 };
    double one[ROUNDS], many[ROUNDS], submitted;
    spin_ns = 2000000;
    for (int k = -1; k < ROUNDS; k++) {
        const int at = k < 0 ? 0 : k;
        one[at] = time_pattern(spin_apart, 1, &submitted);
        many[at] = time_pattern(spin_apart, AT_ONCE, &submitted) * AT_ONCE;
    }
    const double single = bench_median(one, ROUNDS), all = bench_median(many, ROUNDS);
    printf("a task of 2 ms takes %.2f ms, %d of them %.2f ms\n", single / 1e6, AT_ONCE, all / 1e6);
    return bench_bar_at_least("tasks at once", AT_ONCE * single / all, "of 8", 7.5);
}

static void bench_latency(void)
{
    enum { TIMES = 501 };
    static double waits[TIMES];
    for (int k = 0; k < TIMES; k++) {
        double submitted;
        waits[k] = time_pattern(chain, 1, &submitted);
    }
    printf("one task, until pto_wait returns: %.1f us\n", bench_median(waits, TIMES) / 1000);
}

static void start(const pto_config *config)
{
    must(pto_runtime_create(&rt, config));
    must(pto_kernel_register(rt, "nothing", PTO_VECTOR, on_host, NULL, &nothing));
    must(pto_kernel_variant(rt, nothing, PTO_DEVICE_NVIDIA, kernels->nothing, NULL));
    must(pto_kernel_register(rt, "spin", PTO_VECTOR, on_host, NULL, &spin));
    must(pto_kernel_variant(rt, spin, PTO_DEVICE_NVIDIA, kernels->spin, NULL));
}

int main(void)
{
    pto_device_ops ops;
    must(pto_device_get(gpu, &ops));
    must(pto_device_set_current(gpu));
    kernels = gpu_kernels_load("libpto-gpu-kernels.so");
    must(pto_tensor_empty(gpu, PTO_FLOAT32, 1, (int64_t[]){64}, &a));
    must(pto_tensor_empty(gpu, PTO_FLOAT32, 1, (int64_t[]){64}, &b));
    pto_tensor all;
    must(pto_tensor_empty(gpu, PTO_FLOAT32, 2, (int64_t[]){CELLS, 64}, &all));
    for (int i = 0; i < CELLS; i++) {
        must(pto_tensor_select(&all, 0, i, &cells[i]));
    }
    start(NULL);
    bool ok = bench_rates();
    ok &= bench_chains();
    ok &= bench_at_once();
    bench_latency();
    bench_events();
    must(pto_runtime_destroy(&rt, PTO_WAIT));

    /* For comparison: submit never waits for room, and no other thread claims tasks. */
    pto_config wide = PTO_CONFIG_INIT;
    wide.workers = 1;
    wide.ring_tasks = 32768;
    wide.deps = 131072;
    wide.map_entries = 131072;
    start(&wide);
    printf("with rings of %u tasks and one worker of the host:\n", wide.ring_tasks);
    (void)bench_rates();
    (void)bench_chains();
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    return !ok;
}
