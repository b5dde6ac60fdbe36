/* blas_small.h - products of matrices up to some hundred rows, on nothing but the stack of the caller.
 *
 * Each call of OpenBLAS takes a buffer from a table of the process, under a lock, and gives it back. One
 * thread hardly notices. With two threads a product of tiles of 16 takes a third longer if their cores are
 * near each other, and three times as long if they are far apart (`./dev bench blas`). Besides, OpenBLAS takes
 * a processor that it does not know for an older one.
 */
#ifndef WORKLOAD_BLAS_SMALL_H
#define WORKLOAD_BLAS_SMALL_H

#include <stdbool.h>
#include <stdint.h>

#define BLAS_SMALL 256 /* rows, columns and depth that pay */

/* c (m x n) = alpha * a (m x k) * b (k x n), or b' if it is turned (n x k), + beta * c. With `lower` only
 * the part of c on and below the diagonal is read and written. False, and nothing is done: it is larger
 * than BLAS_SMALL, or this processor has neither AVX-512 nor AVX2 with FMA. */
bool blas_small_product(bool turn_b, bool lower, int64_t m, int64_t n, int64_t k, double alpha,
                        const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                        double *c, int64_t ldc);

/* For tests: 4 leaves AVX-512 out, 8 is the default. */
void blas_small_set_lanes(int most);

#endif /* WORKLOAD_BLAS_SMALL_H */
