/* cholesky.h - what the three programs of the Cholesky comparison share: the matrix, the kernels, the output.
 *
 *     cholesky_pto, cholesky_starpu, cholesky_scalapack   N TILE REPEATS
 *
 * Each factors the same matrix on all ranks and prints one line: GFlop/s of the best repeat, and the last
 * element of the factor, by which ./dev bench mpi sees that all did the same. */
#ifndef BENCH_MPI_CHOLESKY_H
#define BENCH_MPI_CHOLESKY_H

#include <cblas.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);

typedef struct cholesky_job {
    int n, tile, repeats;
    double best; /* seconds */
    double last; /* element of the factor */
} cholesky_job;

static inline cholesky_job cholesky_arguments(int argc, char **argv)
{
    cholesky_job j = {.n = argc > 1 ? atoi(argv[1]) : 2048,
                      .tile = argc > 2 ? atoi(argv[2]) : 256,
                      .repeats = argc > 3 ? atoi(argv[3]) : 3};
    if (j.n < 1 || j.tile < 1 || j.n % j.tile || j.repeats < 1) {
        fprintf(stderr, "usage: %s N TILE REPEATS, where TILE divides N\n", argv[0]);
        exit(2);
    }
    return j;
}

static inline double cholesky_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Symmetric, and positive definite because of its diagonal. */
static inline double cholesky_element(int i, int j, int n)
{
    const int d = i > j ? i - j : j - i;
    return i == j ? n + 1.0 : 1.0 / (1 + d);
}

static inline void cholesky_fill(double *tile, int i, int j, int size, int n)
{
    for (int r = 0; r < size; r++) {
        for (int c = 0; c < size; c++) {
            tile[(size_t)r * (size_t)size + (size_t)c] = cholesky_element(i * size + r,
                                                                          j * size + c, n);
        }
    }
}

/* Tiles are dense, by rows; the lower triangle counts. */
static inline int cholesky_potrf(double *a, int n)
{
    int info = 0;
    dpotrf_("U", &n, a, &n, &info); /* LAPACK counts columns first */
    return info;
}

static inline void cholesky_trsm(const double *l, double *a, int n)
{
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, n, n, 1, l, n, a,
                n);
}

static inline void cholesky_syrk(const double *a, double *c, int n)
{
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, n, n, -1, a, n, 1, c, n);
}

static inline void cholesky_gemm(const double *a, const double *b, double *c, int n)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, -1, a, n, b, n, 1, c, n);
}

static inline void cholesky_time(cholesky_job *j, double seconds)
{
    j->best = j->best == 0 || seconds < j->best ? seconds : j->best;
}

static inline void cholesky_print(const char *name, const cholesky_job *j)
{
    const double n = j->n;
    printf("%-10s n %5d tile %4d %8.2f GFlop/s   last %.12e\n", name, j->n, j->tile,
           n * n * n / 3 / j->best * 1e-9, j->last);
}

#endif
