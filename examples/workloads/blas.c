/* blas.c - BLAS and LAPACK routines for kernels, on one thread: OpenBLAS, and our own code where it
 * is clearly faster (`./dev bench blas`, docs/workloads.md):
 *
 *   dgemm, dsyrk            products of tiles: blas_small.c
 *   dtrsm, dpotrf, dgetrf   recursions whose work is products: blas_blocks.c
 *
 * Without OpenBLAS, and under the sanitizers, which cannot see into it, simple loops replace what it does of the
 * products: correct, and slow.
 */
#include "blas.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "blas_clones.h"
#include "blas_small.h"

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
    if (blas_small_product(turn_b, false, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) {
        return;
    }
    cblas_dgemm(ROW_MAJOR, AS_IT_IS, turn_b ? TURNED : AS_IT_IS, (int)m, (int)n, (int)k, alpha, a,
                (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

void blas_dsyrk(int64_t n, int64_t k, const double *a, int64_t lda, double *c, int64_t ldc)
{
    if (blas_small_product(true, true, n, n, k, -1, a, lda, a, lda, 1, c, ldc)) {
        return;
    }
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

BLAS_CLONES static void large_dgemm(bool turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                                    const double *a, int64_t lda, const double *b, int64_t ldb,
                                    double beta, double *c, int64_t ldc)
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

void blas_dgemm(bool turn_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    if (!blas_small_product(turn_b, false, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) {
        large_dgemm(turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
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
