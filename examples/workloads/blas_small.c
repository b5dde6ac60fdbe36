/* blas_small.c - products of small matrices, with the widest vectors that there are.
 *
 *     b ──pack──> a panel: DEPTH rows and COLUMNS columns, with zeros beyond the last one
 *     c, ROWS x COLUMNS at a time: all sums stay in registers while p counts up
 *
 * Blocks at the edge of c, and on its diagonal if only the lower part is wanted, are computed whole and
 * stored in part. blas_small_block.h is compiled once for each length of vectors.
 */
#include "blas_small.h"

#include <string.h>

enum { ROWS = 4, DEPTH = 128 }; /* a panel is half of a first cache, or less */

#if defined(__x86_64__)

#define INLINE static inline __attribute__((always_inline))

typedef double quad __attribute__((vector_size(32)));

/* GCC takes long vectors apart before it inlines a function, unless that has the attribute, too. */
#define TARGET __attribute__((target("avx512f,fma")))
#define LANES 8
#define NAME(name) name##_8
#include "blas_small_block.h"
#undef TARGET
#undef LANES
#undef NAME

#define TARGET __attribute__((target("avx2,fma")))
#define LANES 4
#define NAME(name) name##_4
#include "blas_small_block.h"

static int most_lanes = 8;

void blas_small_set_lanes(int most)
{
    most_lanes = most;
}

bool blas_small_product(bool turn_b, bool lower, int64_t m, int64_t n, int64_t k, double alpha,
                        const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                        double *c, int64_t ldc)
{
    const bool fma = __builtin_cpu_supports("fma");
    const bool is_long = fma && most_lanes == 8 && __builtin_cpu_supports("avx512f");
    if (m > BLAS_SMALL || n > BLAS_SMALL || k > BLAS_SMALL ||
        !(is_long || (fma && __builtin_cpu_supports("avx2")))) {
        return false;
    }
    int64_t p = 0;
    do { /* also if k is 0 */
        const int64_t depth = k - p < DEPTH ? k - p : DEPTH;
        (is_long ? product_8 : product_4)(turn_b, lower, m, n, depth, alpha, a + p, lda,
                                          b + (turn_b ? p : p * ldb), ldb, p ? 1 : beta, c, ldc);
        p += DEPTH;
    } while (p < k);
    return true;
}

#else

void blas_small_set_lanes(int most)
{
    (void)most;
}

bool blas_small_product(bool turn_b, bool lower, int64_t m, int64_t n, int64_t k, double alpha,
                        const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                        double *c, int64_t ldc)
{
    (void)turn_b, (void)lower, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda;
    (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
    return false;
}

#endif
