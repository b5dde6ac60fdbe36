/* blas_own.c - what the workloads of `pto run` compute without a BLAS, for float64: products of tiles, triangular solves
 * and Cholesky. Their loops over vectors have to be unrolled, so that all sums stay in registers. */
#if !defined(__clang__)
#pragma GCC optimize("O3", "tree-slp-vectorize")
#endif
#include "../../examples/workloads/blas_blocks.c"
#include "../../examples/workloads/blas_small.c"
