/* blas.c - BLAS and LAPACK routines for kernels, on one thread: OpenBLAS, and our own code where it
 * is clearly faster (`./dev bench blas`, docs/workloads.md):
 *
 *   dtrsm      OpenBLAS solves at half the speed of its own products. A recursion that halves the
 *              triangle until a few rows are left does nearly all of the work in products:
 *
 *                  b / | L11     |' :   b1 = b1 / L11';  b2 -= b1 L21';  b2 = b2 / L22'
 *                      | L21 L22 |
 *
 *   dpotrf     the same recursion, with dtrsm and dsyrk.
 *
 * dgetrf without row exchanges is in no library. Without OpenBLAS, and under the sanitizers, which
 * cannot see into it, simple loops replace its products: correct, and slow.
 */
#include "blas.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Compiled for several instruction sets, of which the loader chooses. The sanitizers cannot run that
 * early, and clang 14 gives such functions another name. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&                            \
    !defined(WORKLOADS_SANITIZED)
#define BLAS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BLAS_CLONES
#endif

/* Recursions end at this number of rows. */
#define BLAS_LEAF 8

/* ---- OpenBLAS, or simple loops, on one thread ------------------------------------------------ */

#if defined(WORKLOADS_OPENBLAS)

/* Declared here because the place of its headers differs between systems, and these names never
 * change. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TURNED = 112, LOWER = 122 };
void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
void cblas_dgemm(int order, int turn_a, int turn_b, int m, int n, int k, double alpha,
                 const double *a, int lda, const double *b, int ldb, double beta, double *c,
                 int ldc);
void cblas_dsyrk(int order, int uplo, int turn, int n, int k, double alpha, const double *a,
                 int lda, double beta, double *c, int ldc);
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t length);
void openblas_set_num_threads(int threads);
char *openblas_get_config(void);
char *openblas_get_corename(void);

const char *blas_name(void)
{
    static char who[160];
    char version[16] = "";
    const char *core = openblas_get_corename();
    (void)sscanf(openblas_get_config(), "%*s %15s", version);
    /* OpenBLAS treats a processor newer than itself as one of 2004, at a fifth of the speed. */
    snprintf(who, sizeof who, "OpenBLAS %s (%s)%s", version, core,
             strcmp(core, "Prescott") != 0 ? ""
                                           : ", SLOW: it does not know this processor; try "
                                             "OPENBLAS_CORETYPE=Haswell or SkylakeX");
    return who;
}

const char *blas_start(void)
{
    /* Several threads may call it at the same time if each call uses only its own thread. */
    openblas_set_num_threads(1);
    return blas_name();
}

void blas_sgemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                int64_t ldb, float beta, float *c, int64_t ldc)
{
    cblas_sgemm(ROW_MAJOR, AS_IT_IS, AS_IT_IS, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb,
                beta, c, (int)ldc);
}

void blas_dgemm(bool turn_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    cblas_dgemm(ROW_MAJOR, AS_IT_IS, turn_b ? TURNED : AS_IT_IS, (int)m, (int)n, (int)k, alpha, a,
                (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

void blas_dsyrk(int64_t n, int64_t k, const double *a, int64_t lda, double *c, int64_t ldc)
{
    cblas_dsyrk(ROW_MAJOR, LOWER, AS_IT_IS, (int)n, (int)k, -1, a, (int)lda, 1, c, (int)ldc);
}

int64_t blas_library_dpotrf(int64_t n, double *a, int64_t lda)
{
    /* In column-major order the same memory is the transposed matrix, and its upper factor is our
     * lower one. */
    const int rows = (int)n, ld = (int)lda;
    int info = 0;
    dpotrf_("U", &rows, a, &ld, &info, 1);
    return info;
}

#else

const char *blas_name(void)
{
#if defined(WORKLOADS_SANITIZED)
    return "simple loops, SLOW: built with sanitizers, which cannot see into OpenBLAS";
#else
    return "simple loops, SLOW: built without OpenBLAS (Debian: libopenblas-dev)";
#endif
}

const char *blas_start(void)
{
    return blas_name();
}

BLAS_CLONES void blas_sgemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                            const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
        }
        for (int64_t p = 0; p < k; p++) {
            for (int64_t j = 0; j < n; j++) {
                c[i * ldc + j] += a[i * lda + p] * b[p * ldb + j];
            }
        }
    }
}

BLAS_CLONES void blas_dgemm(bool turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                            const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                            double *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
        }
        for (int64_t p = 0; p < k; p++) {
            const double factor = alpha * a[i * lda + p];
            for (int64_t j = 0; j < n; j++) {
                c[i * ldc + j] += factor * (turn_b ? b[j * ldb + p] : b[p * ldb + j]);
            }
        }
    }
}

void blas_dsyrk(int64_t n, int64_t k, const double *a, int64_t lda, double *c, int64_t ldc)
{
    for (int64_t i = 0; i < n; i++) {
        blas_dgemm(true, 1, i + 1, k, -1, a + i * lda, lda, a, lda, 1, c + i * ldc, ldc);
    }
}

int64_t blas_library_dpotrf(int64_t n, double *a, int64_t lda)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = a[i * lda + j];
            for (int64_t p = 0; p < j; p++) {
                sum -= a[i * lda + p] * a[j * lda + p];
            }
            if (i == j && !(sum > 0)) {
                return i + 1;
            }
            a[i * lda + j] = i == j ? sqrt(sum) : sum / a[j * lda + j];
        }
    }
    return 0;
}

#endif

/* ---- Recursions ----------------------------------------------------------------------------- */

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
