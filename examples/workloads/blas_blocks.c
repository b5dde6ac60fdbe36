/* blas_blocks.c - triangular solves and factorizations by recursion, so that nearly all of the work is products.
 *
 *   dtrsm      OpenBLAS solves at half the speed of its own products. A recursion that halves the
 *              triangle until a few rows are left does nearly all of the work in products:
 *
 *                  b / | L11     |' :   b1 = b1 / L11';  b2 -= b1 L21';  b2 = b2 / L22'
 *                      | L21 L22 |
 *
 *   dpotrf     the same recursion, with dtrsm and dsyrk
 *   dgetrf     the same; without row exchanges it is in no library
 */
#include <math.h>

#include "blas.h"
#include "blas_clones.h"

/* Recursions end at this number of rows. */
#define BLAS_LEAF 8

/* Where to split n rows: near the middle, at a multiple of the leaf size. */
static int64_t half(int64_t n)
{
    return (n / 2 + BLAS_LEAF - 1) / BLAS_LEAF * BLAS_LEAF;
}

/* b (m x n) = b * inverse(t') for n <= BLAS_LEAF. A few rows of b at a time are transposed, so that
 * the independent rows lie along vectors. What is beyond m and n is computed in vain, so that the
 * sizes of all loops but the copies are constants, and the compiler uses vectors. */
BLAS_CLONES static void right_leaf(int64_t m, int64_t n, const double *t, int64_t t_row,
                                   int64_t t_step, double *b, int64_t ldb)
{
    enum { ROWS = 8 };
    double block[BLAS_LEAF][BLAS_LEAF] = {{0}}, inverse[BLAS_LEAF] = {0};
    for (int64_t j = 0; j < n; j++) {
        for (int64_t p = 0; p < j; p++) {
            block[j][p] = t[j * t_row + p * t_step];
        }
        inverse[j] = 1 / t[j * t_row + j * t_step];
    }
    for (int64_t i = 0; i < m; i += ROWS) {
        double x[BLAS_LEAF][ROWS] = {{0}};
        const int64_t rows = m - i < ROWS ? m - i : ROWS;
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t j = 0; j < n; j++) {
                x[j][r] = b[(i + r) * ldb + j];
            }
        }
        for (int j = 0; j < BLAS_LEAF; j++) {
            for (int p = 0; p < j; p++) {
                for (int r = 0; r < ROWS; r++) {
                    x[j][r] -= block[j][p] * x[p][r];
                }
            }
            for (int r = 0; r < ROWS; r++) {
                x[j][r] *= inverse[j];
            }
        }
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t j = 0; j < n; j++) {
                b[(i + r) * ldb + j] = x[j][r];
            }
        }
    }
}

/* b (m x n) = b * inverse(t'), t lower triangular. Both strides of t are given, so it may be
 * transposed. */
static void solve_right(int64_t m, int64_t n, const double *t, int64_t t_row, int64_t t_step,
                        double *b, int64_t ldb)
{
    if (n <= BLAS_LEAF) {
        right_leaf(m, n, t, t_row, t_step, b, ldb);
        return;
    }
    const int64_t left = half(n);
    const bool turn = t_step == 1;
    solve_right(m, left, t, t_row, t_step, b, ldb);
    blas_dgemm(turn, m, n - left, left, -1, b, ldb, t + left * t_row, turn ? t_row : t_step, 1,
               b + left, ldb);
    solve_right(m, n - left, t + left * (t_row + t_step), t_row, t_step, b + left, ldb);
}

void blas_dtrsm_right(int64_t m, int64_t n, const double *l, int64_t ldl, double *b, int64_t ldb)
{
    solve_right(m, n, l, ldl, 1, b, ldb);
}

void blas_dtrsm_upper(int64_t m, int64_t n, const double *u, int64_t ldu, double *b, int64_t ldb)
{
    solve_right(m, n, u, 1, ldu, b, ldb);
}

/* b (m x n) = inverse(l) * b for m <= BLAS_LEAF. The columns of b lie along vectors as they are. */
BLAS_CLONES static void lower_leaf(int64_t m, int64_t n, const double *l, int64_t ldl, double *b,
                                   int64_t ldb)
{
    for (int64_t i = 1; i < m; i++) {
        for (int64_t p = 0; p < i; p++) {
            const double factor = l[i * ldl + p];
            for (int64_t j = 0; j < n; j++) {
                b[i * ldb + j] -= factor * b[p * ldb + j];
            }
        }
    }
}

void blas_dtrsm_lower(int64_t m, int64_t n, const double *l, int64_t ldl, double *b, int64_t ldb)
{
    if (m <= BLAS_LEAF) {
        lower_leaf(m, n, l, ldl, b, ldb);
        return;
    }
    const int64_t top = half(m);
    blas_dtrsm_lower(top, n, l, ldl, b, ldb);
    blas_dgemm(false, m - top, n, top, -1, l + top * ldl, ldl, b, ldb, 1, b + top * ldb, ldb);
    blas_dtrsm_lower(m - top, n, l + top * (ldl + 1), ldl, b + top * ldb, ldb);
}

/* The Cholesky factor of a small block: column by column, from the left. */
static int64_t potrf_leaf(int64_t n, double *a, int64_t lda)
{
    for (int64_t j = 0; j < n; j++) {
        double *pivot = a + j * lda;
        for (int64_t i = j; i < n; i++) {
            for (int64_t p = 0; p < j; p++) {
                a[i * lda + j] -= a[i * lda + p] * pivot[p];
            }
        }
        if (!(pivot[j] > 0)) { /* nor is NaN */
            return j + 1;
        }
        pivot[j] = sqrt(pivot[j]);
        const double inverse = 1 / pivot[j];
        for (int64_t i = j + 1; i < n; i++) {
            a[i * lda + j] *= inverse;
        }
    }
    return 0;
}

int64_t blas_dpotrf(int64_t n, double *a, int64_t lda)
{
    if (n <= BLAS_LEAF) {
        return potrf_leaf(n, a, lda);
    }
    const int64_t top = half(n);
    double *below = a + top * lda, *rest = below + top;
    int64_t bad = blas_dpotrf(top, a, lda);
    if (bad) {
        return bad;
    }
    blas_dtrsm_right(n - top, top, a, lda, below, lda);
    blas_dsyrk(n - top, top, below, lda, rest, lda);
    bad = blas_dpotrf(n - top, rest, lda);
    return bad ? bad + top : 0;
}

static int64_t getrf_leaf(int64_t n, double *a, int64_t lda)
{
    for (int64_t j = 0; j < n; j++) {
        const double *pivot = a + j * lda;
        if (!(pivot[j] < 0 || pivot[j] > 0)) {
            return j + 1;
        }
        const double inverse = 1 / pivot[j];
        for (int64_t i = j + 1; i < n; i++) {
            double *row = a + i * lda;
            row[j] *= inverse;
            for (int64_t p = j + 1; p < n; p++) {
                row[p] -= row[j] * pivot[p];
            }
        }
    }
    return 0;
}

int64_t blas_dgetrf(int64_t n, double *a, int64_t lda)
{
    if (n <= BLAS_LEAF) {
        return getrf_leaf(n, a, lda);
    }
    const int64_t top = half(n);
    double *below = a + top * lda, *rest = below + top;
    int64_t bad = blas_dgetrf(top, a, lda);
    if (bad) {
        return bad;
    }
    blas_dtrsm_lower(top, n - top, a, lda, a + top, lda);
    blas_dtrsm_upper(n - top, top, a, lda, below, lda);
    blas_dgemm(false, n - top, n - top, top, -1, below, lda, a + top, lda, 1, rest, lda);
    bad = blas_dgetrf(n - top, rest, lda);
    return bad ? bad + top : 0;
}
