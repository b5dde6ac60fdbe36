/* workloads_peer.h - the program around a peer of bench_workloads.
 *
 *   workloads_NAME cholesky|bgemm N TILE CHECK
 *
 * prints the seconds of one run, from the first task until all are done. With CHECK 1 the result is
 * checked, and if it is wrong a second line says how. bgemm is BGEMM_BATCH products of matrices of
 * N x N, stored one below the other. The file of a peer defines what is declared below; its main
 * calls peer_main.
 */
#ifndef PTO_PEERS_WORKLOADS_PEER_H
#define PTO_PEERS_WORKLOADS_PEER_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/workloads/blas.h"
#include "../../examples/workloads/workload.h"
#include "../workloads_shared.h"

typedef struct problem {
    bool is_bgemm;
    int64_t n, tile;
    double *a, *b, *c; /* A = L L', in place; C += A B */
    bool is_turned;    /* L' was written, above the diagonal */
} problem;

/* Of the peer: what it does once, with the data in place; one run, until all is done; the end. */
static void peer_begin(const problem *p);
static void peer_run(const problem *p);
static void peer_end(void);

static void *must_alloc(int64_t count, size_t size)
{
    void *memory = workload_alloc((uint64_t)count, size);
    if (!memory) {
        fprintf(stderr, "%s\n", pto_error_detail());
        exit(2);
    }
    return memory;
}

/* Element [i, j] of what: random bits, the same in every peer. */
static uint64_t bits(uint64_t what, int64_t i, int64_t j)
{
    uint64_t x = (what << 56) + ((uint64_t)i << 28) + (uint64_t)j;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* ---- Cholesky ------------------------------------------------------------------------------- */

/* Symmetric, from -1/2 to 1/2, and n more on the diagonal. */
static double element(int64_t n, int64_t i, int64_t j)
{
    const double noise = (double)(bits(1, i > j ? i : j, i > j ? j : i) >> 11) * 0x1p-53 - 0.5;
    return i == j ? noise + (double)n : noise;
}

/* L (L' x) against A x for a random x. Rounding leaves a difference of at most about n eps |A| |x|
 * / 2, and |A x| is nearly |A| |x| here, for the diagonal outweighs the rest. */
static bool cholesky_check(const problem *p)
{
    const int64_t n = p->n, row = p->is_turned ? 1 : n, step = p->is_turned ? n : 1;
    const double *l = p->a;
    double *x = must_alloc(n, sizeof *x), *y = must_alloc(n, sizeof *y);
    double wrong = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        x[i] = (double)(int64_t)(bits(2, i, 0) % 1024) - 512;
        for (int64_t j = 0; j <= i; j++) {
            y[j] += l[i * row + j * step] * x[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double got = 0, want = 0;
        for (int64_t j = 0; j <= i; j++) {
            got += l[i * row + j * step] * y[j];
        }
        for (int64_t j = 0; j < n; j++) {
            want += element(n, i, j) * x[j];
        }
        wrong += (got - want) * (got - want);
        size += want * want;
    }
    workload_free(x);
    workload_free(y);
    const double quotient = sqrt(wrong / size) / ((double)n * DBL_EPSILON);
    if (!(quotient <= 1)) {
        printf("wrong: |L L' x - A x| / (n eps |A x|) is %.3g (allowed 1)\n", quotient);
    }
    return quotient <= 1;
}

/* ---- Batched products ----------------------------------------------------------------------- */

/* C x against A (B x) for a random x. All numbers are whole, and below 2^53 up to n = 4096: every
 * sum is exact, and so must be the answer. */
static bool bgemm_check(const problem *p)
{
    const int64_t n = p->n;
    double *x = must_alloc(n, sizeof *x), *y = must_alloc(n, sizeof *y);
    bool good = true;
    for (int64_t l = 0; l < BGEMM_BATCH && good; l++) {
        const double *a = p->a + l * n * n, *b = p->b + l * n * n, *c = p->c + l * n * n;
        for (int64_t i = 0; i < n; i++) {
            x[i] = (double)(int64_t)(bits(5, i, l) % 1024) - 512;
        }
        for (int64_t i = 0; i < n; i++) {
            y[i] = 0;
            for (int64_t j = 0; j < n; j++) {
                y[i] += b[i * n + j] * x[j];
            }
        }
        for (int64_t i = 0; i < n && good; i++) {
            double got = 0, want = 0;
            for (int64_t j = 0; j < n; j++) {
                got += c[i * n + j] * x[j];
                want += a[i * n + j] * y[j];
            }
            if (!(got == want)) {
                printf("wrong: row %lld of C[%lld] x is %.17g, not %.17g\n", (long long)i,
                       (long long)l, got, want);
                good = false;
            }
        }
    }
    workload_free(x);
    workload_free(y);
    return good;
}

/* ---- The program ---------------------------------------------------------------------------- */

static void fill_whole(double *matrix, int64_t count, uint64_t what)
{
    for (int64_t i = 0; i < count; i++) {
        matrix[i] = (double)(int64_t)(bits(what, i, 0) % 1025) - 512;
    }
}

static void restore(const problem *p)
{
    if (p->is_bgemm) {
        memset(p->c, 0, (size_t)(BGEMM_BATCH * p->n * p->n) * sizeof(double));
        return;
    }
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            p->a[i * p->n + j] = element(p->n, i, j);
        }
    }
}

static int peer_main(int argc, char **argv, bool is_turned)
{
    problem p = {.is_turned = is_turned};
    timing t = {.n = 0};
    if (argc == 5) {
        p.is_bgemm = !strcmp(argv[1], "bgemm");
        p.n = strtoll(argv[2], NULL, 10);
        p.tile = strtoll(argv[3], NULL, 10);
    }
    if (p.n < 1 || p.tile < 1) {
        fprintf(stderr, "usage: %s cholesky|bgemm N TILE CHECK\n", argv[0]);
        return 2;
    }
    const int64_t all = (p.is_bgemm ? BGEMM_BATCH : 1) * p.n * p.n;
    p.a = must_alloc(all, sizeof(double));
    if (p.is_bgemm) {
        p.b = must_alloc(all, sizeof(double));
        p.c = must_alloc(all, sizeof(double));
        fill_whole(p.a, all, 3);
        fill_whole(p.b, all, 4);
    }
    peer_begin(&p);
    while (timing_goes_on(&t)) {
        restore(&p);
        const double start = bench_now_ns();
        peer_run(&p);
        timing_add(&t, start);
    }
    peer_end();
    printf("%.9f\n", timing_result(&t));
    const bool good = argv[4][0] != '1' || (p.is_bgemm ? bgemm_check(&p) : cholesky_check(&p));
    workload_free(p.a);
    workload_free(p.b);
    workload_free(p.c);
    return good ? 0 : 1;
}

#endif /* PTO_PEERS_WORKLOADS_PEER_H */
