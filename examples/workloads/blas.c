/* blas.c - BLAS and LAPACK routines for kernels: our own loops for small and medium sizes, OpenBLAS
 * for large products.
 *
 * Everything but multiplication is a recursion that halves the matrix until a few rows are left. So
 * nearly all of the work is in products, and in large ones:
 *
 *     potrf | A11     |  =  potrf A11;  A21 = A21 / L11';  A22 -= A21 A21';  potrf A22
 *           | A21 A22 |
 *
 * The trsm, syrk and potrf of the library are made for matrices of thousands of rows. On tiles of 8
 * to 256 rows the routines here take a third to nine tenths of their time. So the runtime, not the
 * library, determines the cost of a small task.
 */
#include "blas.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Recursions end at this number of rows. Syrk computes a square there and keeps half of it. */
#define BLAS_LEAF 8
#define SYRK_LEAF 16

/* BLAS_SHUFFLE(x, y, 0, 8, ...): a vector of eight elements of x and y, indexed through both. */
#if defined(__clang__) || __GNUC__ >= 12
#define BLAS_SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int64_t blas_mask __attribute__((vector_size(64)));
#define BLAS_SHUFFLE(x, y, ...) __builtin_shuffle(x, y, (blas_mask){__VA_ARGS__})
#endif

/* ---- Loops, for each instruction set -------------------------------------------------------- */

typedef struct loops {
    const char *name;
    void (*sgemm)(bool, bool, int64_t, int64_t, int64_t, float, const float *, int64_t,
                  const float *, int64_t, float, float *, int64_t);
    void (*dgemm)(bool, bool, int64_t, int64_t, int64_t, double, const double *, int64_t,
                  const double *, int64_t, double, double *, int64_t);
    void (*sgemv)(int64_t, int64_t, float, const float *, int64_t, const float *, float, float *);
    void (*right)(int64_t, int64_t, const double *, int64_t, int64_t, double *, int64_t);
    void (*lower)(int64_t, int64_t, const double *, int64_t, double *, int64_t);
    int64_t (*potrf)(int64_t, double *, int64_t);
    int64_t (*getrf)(int64_t, double *, int64_t);
} loops;

#define LOOPS(text, set)                                                                           \
    {                                                                                              \
        text, sgemm_##set, dgemm_##set, sgemv_##set, right_##set, lower_##set, potrf_##set,        \
            getrf_##set                                                                            \
    }

#if defined(__x86_64__)

#define LOOPS_SET avx512
#define LOOPS_BYTES 64
#define LOOPS_ROWS 8
#define LOOPS_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,fma")))
#include "loops.h"

#define LOOPS_SET avx2
#define LOOPS_BYTES 32
#define LOOPS_ROWS 4
#define LOOPS_TARGET __attribute__((target("avx2,fma")))
#include "loops.h"

static const loops with_avx512 = LOOPS("AVX-512", avx512), with_avx2 = LOOPS("AVX2", avx2);

#endif

#define LOOPS_SET portable
#define LOOPS_BYTES 16
#define LOOPS_ROWS 4
#define LOOPS_TARGET
#include "loops.h"

static const loops with_any = LOOPS("portable", portable);

/* Written only before there are workers. */
static const loops *own = &with_any;
static double library_from = INFINITY; /* products with a larger m * n * k use the library */

/* The loops that this machine can run, fastest first, then NULL. */
static const loops *loops_at(size_t index)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && index-- == 0) {
        return &with_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && index-- == 0) {
        return &with_avx2;
    }
#endif
    return index == 0 ? &with_any : NULL;
}

const char *blas_use_loops(size_t index)
{
    const loops *found = loops_at(index);
    if (!found) {
        return NULL;
    }
    own = found;
    library_from = INFINITY;
    return found->name;
}

/* ---- OpenBLAS, or simple loops, on one thread ------------------------------------------------ */

#if defined(WORKLOADS_OPENBLAS)

/* Declared here because the place of its headers differs between systems, and these names never
 * change. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TURNED = 112 };
void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
void cblas_dgemm(int order, int turn_a, int turn_b, int m, int n, int k, double alpha,
                 const double *a, int lda, const double *b, int ldb, double beta, double *c,
                 int ldc);
void cblas_sgemv(int order, int turn_a, int m, int n, float alpha, const float *a, int lda,
                 const float *x, int x_step, float beta, float *y, int y_step);
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t length);
void openblas_set_num_threads(int threads);
char *openblas_get_config(void);
char *openblas_get_corename(void);

const char *blas_start(void)
{
    static char who[128];
    char version[16] = "";
    own = loops_at(0);
    /* Several threads may call it at the same time if each call uses only its own thread. */
    openblas_set_num_threads(1);
    (void)sscanf(openblas_get_config(), "%*s %15s", version);
    /* OpenBLAS treats a processor newer than itself as one of 2004, at a fifth of the speed of our
     * loops. */
    const char *core = openblas_get_corename();
    if (own != &with_any && !strcmp(core, "Prescott")) {
        snprintf(who, sizeof who, "%s loops (OpenBLAS %s does not know this processor)", own->name,
                 version);
    } else {
        library_from = 256.0 * 256 * 256;
        snprintf(who, sizeof who, "%s loops, and OpenBLAS %s (%s) on one thread", own->name,
                 version, core);
    }
    return who;
}

static void library_sgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha,
                          const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                          float *c, int64_t ldc)
{
    cblas_sgemm(ROW_MAJOR, turn_a ? TURNED : AS_IT_IS, turn_b ? TURNED : AS_IT_IS, (int)m, (int)n,
                (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

static void library_sgemv(int64_t m, int64_t n, float alpha, const float *a, int64_t lda,
                          const float *x, float beta, float *y)
{
    cblas_sgemv(ROW_MAJOR, AS_IT_IS, (int)m, (int)n, alpha, a, (int)lda, x, 1, beta, y, 1);
}

void blas_library_dgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                        const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                        double *c, int64_t ldc)
{
    cblas_dgemm(ROW_MAJOR, turn_a ? TURNED : AS_IT_IS, turn_b ? TURNED : AS_IT_IS, (int)m, (int)n,
                (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
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

const char *blas_start(void)
{
    static char who[64];
    own = loops_at(0);
    snprintf(who, sizeof who, "%s loops, no OpenBLAS", own->name);
    return who;
}

static void library_sgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha,
                          const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                          float *c, int64_t ldc)
{
    own->sgemm(turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void library_sgemv(int64_t m, int64_t n, float alpha, const float *a, int64_t lda,
                          const float *x, float beta, float *y)
{
    own->sgemv(m, n, alpha, a, lda, x, beta, y);
}

void blas_library_dgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                        const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                        double *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
        }
        for (int64_t p = 0; p < k; p++) {
            const double factor = alpha * (turn_a ? a[p * lda + i] : a[i * lda + p]);
            for (int64_t j = 0; j < n; j++) {
                c[i * ldc + j] += factor * (turn_b ? b[j * ldb + p] : b[p * ldb + j]);
            }
        }
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

/* ---- Products ------------------------------------------------------------------------------- */

static bool is_large(int64_t m, int64_t n, int64_t k)
{
    return (double)m * (double)n * (double)k > library_from;
}

void blas_sgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha,
                const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                int64_t ldc)
{
    (is_large(m, n, k) ? library_sgemm : own->sgemm)(turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb,
                                                     beta, c, ldc);
}

void blas_dgemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                int64_t ldc)
{
    (is_large(m, n, k) ? blas_library_dgemm : own->dgemm)(turn_a, turn_b, m, n, k, alpha, a, lda, b,
                                                          ldb, beta, c, ldc);
}

void blas_sgemv(int64_t m, int64_t n, float alpha, const float *a, int64_t lda, const float *x,
                float beta, float *y)
{
    (library_from < INFINITY ? library_sgemv : own->sgemv)(m, n, alpha, a, lda, x, beta, y);
}

/* ---- Recursions ----------------------------------------------------------------------------- */

/* Where to split n rows: near the middle, at a multiple of the leaf size. */
static int64_t half(int64_t n)
{
    return (n / 2 + BLAS_LEAF - 1) / BLAS_LEAF * BLAS_LEAF;
}

void blas_dsyrk(int64_t n, int64_t k, const double *a, int64_t lda, double *c, int64_t ldc)
{
    if (n > SYRK_LEAF) {
        const int64_t top = half(n);
        blas_dsyrk(top, k, a, lda, c, ldc);
        blas_dgemm(false, true, n - top, top, k, -1, a + top * lda, lda, a, lda, 1, c + top * ldc,
                   ldc);
        blas_dsyrk(n - top, k, a + top * lda, lda, c + top * (ldc + 1), ldc);
        return;
    }
    double product[SYRK_LEAF * SYRK_LEAF];
    own->dgemm(false, true, n, n, k, 1, a, lda, a, lda, 0, product, SYRK_LEAF);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            c[i * ldc + j] -= product[i * SYRK_LEAF + j];
        }
    }
}

/* b = b * inverse(t'), t lower triangular. Both strides of t are given, so it may be transposed. */
static void solve_right(int64_t m, int64_t n, const double *t, int64_t t_row, int64_t t_step,
                        double *b, int64_t ldb)
{
    if (n <= BLAS_LEAF) {
        own->right(m, n, t, t_row, t_step, b, ldb);
        return;
    }
    const int64_t left = half(n);
    const bool turn = t_step == 1;
    solve_right(m, left, t, t_row, t_step, b, ldb);
    blas_dgemm(false, turn, m, n - left, left, -1, b, ldb, t + left * t_row, turn ? t_row : t_step,
               1, b + left, ldb);
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

void blas_dtrsm_lower(int64_t m, int64_t n, const double *l, int64_t ldl, double *b, int64_t ldb)
{
    if (m <= BLAS_LEAF) {
        own->lower(m, n, l, ldl, b, ldb);
        return;
    }
    const int64_t top = half(m);
    blas_dtrsm_lower(top, n, l, ldl, b, ldb);
    blas_dgemm(false, false, m - top, n, top, -1, l + top * ldl, ldl, b, ldb, 1, b + top * ldb,
               ldb);
    blas_dtrsm_lower(m - top, n, l + top * (ldl + 1), ldl, b + top * ldb, ldb);
}

int64_t blas_dpotrf(int64_t n, double *a, int64_t lda)
{
    if (n <= BLAS_LEAF) {
        return own->potrf(n, a, lda);
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

int64_t blas_dgetrf(int64_t n, double *a, int64_t lda)
{
    if (n <= BLAS_LEAF) {
        return own->getrf(n, a, lda);
    }
    const int64_t top = half(n);
    double *below = a + top * lda, *rest = below + top;
    int64_t bad = blas_dgetrf(top, a, lda);
    if (bad) {
        return bad;
    }
    blas_dtrsm_lower(top, n - top, a, lda, a + top, lda);
    blas_dtrsm_upper(n - top, top, a, lda, below, lda);
    blas_dgemm(false, false, n - top, n - top, top, -1, below, lda, a + top, lda, 1, rest, lda);
    bad = blas_dgetrf(n - top, rest, lda);
    return bad ? bad + top : 0;
}
