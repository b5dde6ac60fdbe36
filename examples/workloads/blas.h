/* blas.h - the few BLAS and LAPACK routines that kernels use: row-major, single-threaded.
 *
 * A matrix is a pointer and the distance between rows in elements, so a tile of a larger matrix is
 * a matrix, too. All routines are thread-safe and give the same bits on every thread.
 */
#ifndef WORKLOAD_BLAS_H
#define WORKLOAD_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What computes the products: "OpenBLAS 0.3.21 (Cooperlake)", or simple loops and why. */
const char *blas_name(void);

/* Call it before the first routine, while there is one thread. Returns blas_name. */
const char *blas_start(void);

/* c (m x n) = alpha * a (m x k) * b (k x n), or b' if it is turned (n x k), + beta * c. */
void blas_dgemm(bool turn_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc);

/* c (m x n) = a (m x k) * b (k x n) + beta * c */
void blas_sgemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                int64_t ldb, float beta, float *c, int64_t ldc);

/* The lower triangle of c (n x n) = c - a (n x k) * a'. */
void blas_dsyrk(int64_t n, int64_t k, const double *a, int64_t lda, double *c, int64_t ldc);

/* b (m x n) = b * inverse(l'), l lower triangular n x n: tiles below the diagonal in Cholesky. */
void blas_dtrsm_right(int64_t m, int64_t n, const double *l, int64_t ldl, double *b, int64_t ldb);

/* For LU: b (m x n) = inverse(l) * b with l unit lower m x m; b (m x n) = b * inverse(u), u upper
 * n x n. */
void blas_dtrsm_lower(int64_t m, int64_t n, const double *l, int64_t ldl, double *b, int64_t ldb);
void blas_dtrsm_upper(int64_t m, int64_t n, const double *u, int64_t ldu, double *b, int64_t ldb);

/* In-place factorizations: the lower Cholesky factor of a (n x n), without touching the part above
 * the diagonal; LU without pivoting. They return 0, or 1 + the row whose pivot is not positive
 * (Cholesky) or zero (LU). */
int64_t blas_dpotrf(int64_t n, double *a, int64_t lda);
int64_t blas_dgetrf(int64_t n, double *a, int64_t lda);

/* For comparison: dpotrf of OpenBLAS. Without OpenBLAS, textbook loops. */
int64_t blas_library_dpotrf(int64_t n, double *a, int64_t lda);

#endif /* WORKLOAD_BLAS_H */
