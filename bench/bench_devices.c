/* bench_devices.c - do copies and kernels of a device run at the same time?
 *
 * A stream of pieces on sim:0: copy in, compute, copy out. The engine takes `copy` for each copy and
 * a kernel `2 * copy`, so both are always busy if they overlap. Kernels and copies sleep, so the
 * figure is that of the runtime, not of the machine:
 *
 *     copy in   |1|2|3| |4| ...            ideal = copy + pieces * 2 * copy + copy
 *     compute     | 1 | 2 | 3 | ...
 *     copy out        |1| |2| ...
 */
#include "bench.h"

#include <string.h>
#include <time.h>

#include <pto/pto.h>
#include <pto/sim.h>
#include <pto/work.h>

enum { PIECES = 64, ROUNDS = 5, ELEMENTS = 1024, DEEP = 4 };
#define COPY_NS UINT64_C(2000000)

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PTO_OK) {                                                                    \
            fprintf(stderr, "%s: %s\n", #call, pto_error_detail());                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static pto_status compute(const pto_call *call)
{
    const uint64_t until = clock_ns() + 2 * COPY_NS;
    const struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
                                .tv_nsec = (long)(until % 1000000000)};
    float *x = call->args[0].data;
    x[0] += 1;
    while (clock_ns() < until) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    return PTO_OK;
}

/* Milliseconds of one stream. */
static double stream(pto_runtime *rt, pto_kernel kernel, const pto_tensor *in,
                     const pto_tensor *out)
{
    const pto_device sim0 = {PTO_DEVICE_SIM, 0};
    const int64_t shape[] = {ELEMENTS};
    const uint64_t begin = clock_ns();
    PTO_SCOPE(rt) {
        pto_tensor there[DEEP];
        for (int i = 0; i < DEEP; i++) {
            MUST(pto_alloc_on(rt, sim0, PTO_FLOAT32, 1, shape, &there[i]));
        }
        for (int i = 0; i < PIECES + 2; i++) { /* out follows two pieces behind in */
            if (i < PIECES) {
                MUST(pto_copy(rt, &there[i % DEEP], &in[i]));
                MUST(pto_submit(rt, kernel, pto_inout(&there[i % DEEP])));
            }
            if (i >= 2) {
                MUST(pto_copy(rt, &out[i - 2], &there[(i - 2) % DEEP]));
            }
        }
        MUST(pto_wait(rt));
    }
    return (double)(clock_ns() - begin) * 1e-6;
}

int main(void)
{
    static float from[PIECES][ELEMENTS], to[PIECES][ELEMENTS];
    const int64_t shape[] = {ELEMENTS};
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_tensor in[PIECES], out[PIECES];
    MUST(pto_sim_configure(
        0, &(pto_sim_config){.size = sizeof(pto_sim_config), .latency_ns = COPY_NS}));
    MUST(pto_runtime_create(&rt, NULL));
    MUST(pto_kernel_register(rt, "compute", PTO_CUBE, compute, NULL, &kernel));
    MUST(pto_kernel_variant(rt, kernel, PTO_DEVICE_SIM, compute, NULL));
    for (int i = 0; i < PIECES; i++) {
        from[i][0] = (float)i;
        MUST(pto_external_tensor(rt, from[i], PTO_FLOAT32, 1, shape, &in[i]));
        MUST(pto_external_tensor(rt, to[i], PTO_FLOAT32, 1, shape, &out[i]));
    }
    const double copy = (double)COPY_NS * 1e-6, ideal = copy * (2 + 2 * PIECES);
    double best = 0;
    printf("%d pieces on sim:0: copy in %.1f ms, compute %.1f ms, copy out %.1f ms\n", PIECES, copy,
           2 * copy, copy);
    printf("ideal %.1f ms, one after the other %.1f ms\n", ideal, 4 * copy * PIECES);
    for (int round = 0; round < ROUNDS; round++) {
        memset(to, 0, sizeof to);
        const double ms = stream(rt, kernel, in, out);
        for (int i = 0; i < PIECES; i++) {
            if (to[i][0] != (float)(i + 1)) {
                fprintf(stderr, "piece %d is wrong\n", i);
                return 1;
            }
        }
        printf("  round %d  %.1f ms, %.2f of the ideal\n", round + 1, ms, ideal / ms);
        best = ideal / ms > best ? ideal / ms : best;
    }
    MUST(pto_runtime_destroy(&rt, PTO_WAIT));
    return bench_bar_at_least("overlap of copies and kernels, best round", best, "of the ideal",
                              0.9)
               ? 0
               : 1;
}
