/* rearrange_cases.h - the copies of bench_rearrange, and what has to come out of each. */
#ifndef PTO_REARRANGE_CASES_H
#define PTO_REARRANGE_CASES_H

#include <pto/tensor.h>

#include "support.h"

enum { MAX_RANK = 6, MAX_SETS = 8, MAX_SAMPLES = 64, SMALL = 0 };

enum { MEMCPY, OURS, UNCACHED, MEMCPY_CREW, OURS_CREW, OPENBLAS, NUMPY, FIGURES };

typedef struct samples {
    double ns[MAX_SAMPLES];
    size_t count;
    double median; /* 0: not measured */
} samples;

typedef struct bench_case {
    const char *name;
    pto_dtype dtype;
    int32_t ndim;
    int64_t shape[MAX_RANK];
    int32_t perm[MAX_RANK];
    double
        want; /* of memcpy's speed on one thread; SMALL: it is a matter of calls, not of memory */

    bool chosen;
    size_t size, bytes;  /* of an element, of the whole */
    char shape_text[64]; /* "4096,4096" */
    char perm_text[32];  /* "1,0" */
    pto_tensor to, from; /* the dense one, and the permuted view */
    samples figure[FIGURES];
    samples memcpy_of[MAX_SETS], ours_of[MAX_SETS]; /* --isa: of each instruction set */
} bench_case;

#define F32 PTO_FLOAT32
static bench_case cases[] = {
    {"transpose", F32, 2, {4096, 4096}, {1, 0}, .want = 0.85},
    {"nchw-nhwc", F32, 4, {32, 64, 112, 112}, {0, 2, 3, 1}, .want = 0.85},
    {"nhwc-nchw", F32, 4, {32, 112, 112, 64}, {0, 3, 1, 2}, .want = 0.85},
    {"reverse", F32, 3, {256, 256, 256}, {2, 1, 0}, .want = 0.85},
    {"six-dims", F32, 6, {16, 8, 24, 16, 24, 24}, {5, 2, 0, 4, 1, 3}, .want = 0.70},
    {"attention", F32, 4, {8, 512, 16, 128}, {0, 2, 1, 3}, .want = 0.85},
    {"transpose-f16", PTO_FLOAT16, 2, {4096, 4096}, {1, 0}, .want = 0.6},
    {"transpose-u8", PTO_UINT8, 2, {4096, 4096}, {1, 0}, .want = 0.6},
    {"transpose-u8-8k", PTO_UINT8, 2, {8192, 8192}, {1, 0}, .want = 0.6},
    {"square-64", F32, 2, {8, 8}, {1, 0}, .want = SMALL},
    {"square-256", F32, 2, {16, 16}, {1, 0}, .want = SMALL},
    {"square-1024", F32, 2, {32, 32}, {1, 0}, .want = SMALL},
    {"square-4096", F32, 2, {64, 64}, {1, 0}, .want = SMALL},
    {"cube-64", F32, 3, {4, 4, 4}, {2, 1, 0}, .want = SMALL},
    {"cube-256", F32, 3, {4, 8, 8}, {2, 1, 0}, .want = SMALL},
    {"cube-1024", F32, 3, {8, 8, 16}, {2, 1, 0}, .want = SMALL},
    {"cube-4096", F32, 3, {16, 16, 16}, {2, 1, 0}, .want = SMALL},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool is_large(const bench_case *c)
{
    return c->want != SMALL;
}

/* The largest one's bytes. */
static size_t describe_cases(void)
{
    size_t most = 0;
    for (int i = 0; i < CASES; i++) {
        bench_case *c = &cases[i];
        c->size = c->bytes = pto_dtype_size(c->dtype);
        size_t at_shape = 0, at_perm = 0;
        for (int32_t d = 0; d < c->ndim; d++) {
            const char *comma = d ? "," : "";
            c->bytes *= (size_t)c->shape[d];
            at_shape += (size_t)snprintf(c->shape_text + at_shape, sizeof c->shape_text - at_shape,
                                         "%s%d", comma, (int)c->shape[d]);
            at_perm += (size_t)snprintf(c->perm_text + at_perm, sizeof c->perm_text - at_perm,
                                        "%s%d", comma, (int)c->perm[d]);
        }
        most = c->chosen && c->bytes > most ? c->bytes : most;
    }
    return most;
}

/* Anything, but floats that are neither tiny nor infinite: OpenBLAS multiplies them by one. */
static void fill(char *memory, size_t bytes)
{
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < bytes; i += 4) {
        const uint32_t word = ((uint32_t)test_next(&rng) | UINT32_C(1) << 30) &
                              ~(UINT32_C(1) << 29);
        memcpy(memory + i, &word, 4);
    }
}

/* What has to come out, from shape and permutation alone. */
static void copy_plainly(const bench_case *c, char *to, const char *from)
{
    int64_t stride[MAX_RANK] = {0}, index[MAX_RANK] = {0}, dense = 1, at = 0;
    for (int32_t d = c->ndim - 1; d >= 0; d--) {
        stride[d] = dense;
        dense *= c->shape[d];
    }
    for (int64_t n = 0; n < dense; n++) {
        memcpy(to + n * (int64_t)c->size, from + at * (int64_t)c->size, c->size);
        for (int32_t d = c->ndim - 1; d >= 0; d--) {
            const int64_t step = stride[c->perm[d]];
            at += step;
            if (++index[d] < c->shape[c->perm[d]]) {
                break;
            }
            at -= index[d] * step;
            index[d] = 0;
        }
    }
}

#endif /* PTO_REARRANGE_CASES_H */
