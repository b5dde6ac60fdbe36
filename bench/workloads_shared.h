/* workloads_shared.h - what bench_workloads and its peers must agree on: fixed sizes, and what one
 * measurement is. */
#ifndef PTO_WORKLOADS_SHARED_H
#define PTO_WORKLOADS_SHARED_H

#include "bench.h"

enum {
    BGEMM_BATCH = 4, /* products of two matrices */
    BGEMM_MEMORY =
        1 << 20, /* bytes for temporaries, or eight of them: examples/workloads/bgemm.c */
    DECODE_SEQUENCES = 8,
};

/* One measurement is one long run, or the median of several short runs after a warm-up run. */
enum { TIMING_RUNS = 6 };
#define TIMING_SECONDS 0.5

typedef struct timing {
    double seconds[TIMING_RUNS];
    double all;
    size_t n;
} timing;

static inline bool timing_goes_on(const timing *t)
{
    return t->all < TIMING_SECONDS && t->n < TIMING_RUNS;
}

/* A run that began at `start` (bench_now_ns) is over. */
static inline void timing_add(timing *t, double start)
{
    t->seconds[t->n] = (bench_now_ns() - start) * 1e-9;
    t->all += t->seconds[t->n++];
}

static inline double timing_result(timing *t)
{
    return t->n == 1 ? t->seconds[0] : bench_median(t->seconds + 1, t->n - 1);
}

#endif /* PTO_WORKLOADS_SHARED_H */
