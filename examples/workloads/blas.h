/* blas.h - the few routines of BLAS and LAPACK that kernels use, row-major, on one thread.
 *
 * Matrices are given as a pointer and the elements from one row to the next, so a tile of a larger
 * matrix is one. All may run on several threads at once, and give the same bits on every one.
 */
#ifndef WORKLOAD_BLAS_H
#define WORKLOAD_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before the first call, while there is one thread. Returns who will do the work: "AVX-512
 * loops, and OpenBLAS 0.3.21 (Cooperlake) on one thread"; "AVX2 loops, no OpenBLAS" where it was
 * not found, and under the sanitizers, which cannot see into it. */
const char *blas_start(void);

/* For tests, instead: the loops for the instruction set number `index` of those that this machine
 * has, fastest first, and no library. Returns its name; NULL: there are no so many. */
const char *blas_use_loops(size_t index);

/* c (m x n) = alpha * op(a) (m x k) * op(b) (k x n) + beta * c; op turns where asked. */
void blas_sgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha,
                const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                int64_t ldc);
void blas_dgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                int64_t ldc);

/* y (m) = alpha * a (m x n) * x (n) + beta * y */
void blas_sgemv(int64_t m, int64_t n, float alpha, const float *a, int64_t lda, const float *x,
                float beta, float *y);

/* The lower triangle of c (n x n) = c - a (n x k) * a'. */
void blas_dsyrk(int64_t n, int64_t k, const double *a, int64_t lda, double *c, int64_t ldc);

/* b (m x n) = b * inverse(l'), l lower triangular n x n: the step below the diagonal of
 * Cholesky. */
void blas_dtrsm_right(int64_t m, int64_t n, const double *l, int64_t ldl, double *b, int64_t ldb);

/* For LU: b (m x n) = inverse(l) * b with l unit lower m x m; b (m x n) = b * inverse(u), u upper
 * n x n. */
void blas_dtrsm_lower(int64_t m, int64_t n, const double *l, int64_t ldl, double *b, int64_t ldb);
void blas_dtrsm_upper(int64_t m, int64_t n, const double *u, int64_t ldu, double *b, int64_t ldb);

/* The lower Cholesky factor of a (n x n) in place, what is above the diagonal left alone; LU
 * without pivoting in place. Return 0, or 1 + the row whose pivot is not positive, or is zero. */
int64_t blas_dpotrf(int64_t n, double *a, int64_t lda);
int64_t blas_dgetrf(int64_t n, double *a, int64_t lda);

/* To compare with: OpenBLAS's own routines, which share nothing with those above; without it, the
 * loops of the textbook. */
void blas_library_dgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                        const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                        double *c, int64_t ldc);
int64_t blas_library_dpotrf(int64_t n, double *a, int64_t lda);

#endif /* WORKLOAD_BLAS_H */
