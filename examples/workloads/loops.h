/* loops.h - all computations of blas.c that do not call OpenBLAS, for one instruction set. It is
 * included once for each set, with these macros:
 *
 *     LOOPS_SET     its name
 *     LOOPS_BYTES   bytes of a vector
 *     LOOPS_ROWS    rows of a product that are computed together
 *     LOOPS_TARGET  the attribute that enables the instructions, or nothing
 *
 * Products are in gemm.h. The functions here are the leaves of the recursions in blas.c: diagonal
 * blocks of at most BLAS_LEAF rows. Each block is copied into an array of constant size and padded
 * with harmless values, so that inner loops always have BLAS_LEAF iterations and can be vectorized.
 */
#define LOOPS_JOIN_(a, b) a##_##b
#define LOOPS_JOIN(a, b) LOOPS_JOIN_(a, b)
#define LOOPS_(name) LOOPS_JOIN(name, LOOPS_SET)

/* Eight numbers: one or more vectors. */
typedef double LOOPS_(row) __attribute__((vector_size(64), aligned(8), may_alias));

/* Transposes eight rows of eight in registers: pairs, pairs of pairs, halves. */
LOOPS_TARGET static inline __attribute__((always_inline)) void
LOOPS_(turn)(const double *from, int64_t from_row, double *to, int64_t to_row)
{
    LOOPS_(row) x[8], y[8];
    for (int i = 0; i < 8; i++) {
        x[i] = *(const LOOPS_(row) *)(const void *)(from + i * from_row);
    }
    for (int i = 0; i < 8; i += 2) {
        y[i] = BLAS_SHUFFLE(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        y[i + 1] = BLAS_SHUFFLE(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int j = i; j < i + 2; j++) {
            x[j] = BLAS_SHUFFLE(y[j], y[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            x[j + 2] = BLAS_SHUFFLE(y[j], y[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int i = 0; i < 4; i++) {
        *(LOOPS_(row) *)(void *)(to + i * to_row) = BLAS_SHUFFLE(x[i], x[i + 4], 0, 1, 2, 3, 8, 9,
                                                                 10, 11);
        *(LOOPS_(row) *)(void *)(to + (i + 4) * to_row) = BLAS_SHUFFLE(x[i], x[i + 4], 4, 5, 6, 7,
                                                                       12, 13, 14, 15);
    }
}

#define GEMM_NAME LOOPS_(sgemm)
#define GEMM_REAL float
#include "gemm.h"

#define GEMM_NAME LOOPS_(dgemm)
#define GEMM_REAL double
#define GEMM_TURN LOOPS_(turn)
#include "gemm.h"

/* y (m) = alpha * a (m x n) * x (n) + beta * y. Four rows at a time share the loads of x. */
LOOPS_TARGET static void LOOPS_(sgemv)(int64_t m, int64_t n, float alpha, const float *a,
                                       int64_t lda, const float *x, float beta, float *y)
{
    typedef float vector __attribute__((vector_size(LOOPS_BYTES), aligned(4), may_alias));
    enum { LANES = LOOPS_BYTES / sizeof(float), ROWS = 4 };
    for (int64_t i = 0; i < m; i += ROWS) {
        const int64_t rows = m - i < ROWS ? m - i : ROWS;
        const float *row[ROWS];
        for (int r = 0; r < ROWS; r++) {
            row[r] = a + (i + (r < rows ? r : 0)) * lda;
        }
        vector sum[ROWS] = {{0}};
        int64_t j = 0;
        for (; j + LANES <= n; j += LANES) {
            for (int r = 0; r < ROWS; r++) {
                sum[r] += *(const vector *)(const void *)(row[r] + j) *
                          *(const vector *)(const void *)(x + j);
            }
        }
        for (int64_t r = 0; r < rows; r++) {
            float lane[LANES], total;
            memcpy(lane, &sum[r], sizeof lane);
            for (int step = LANES / 2; step; step /= 2) {
                for (int v = 0; v < step; v++) {
                    lane[v] += lane[v + step];
                }
            }
            total = lane[0];
            for (int64_t rest = j; rest < n; rest++) {
                total += row[r][rest] * x[rest];
            }
            y[i + r] = alpha * total + (beta == 0 ? 0 : beta * y[i + r]);
        }
    }
}

/* b (m x n) = b * inverse(t'), t lower triangular with element [i, j] at t[i * t_row + j *
 * t_step]. */
LOOPS_TARGET static void LOOPS_(right)(int64_t m, int64_t n, const double *t, int64_t t_row,
                                       int64_t t_step, double *b, int64_t ldb)
{
    double block[BLAS_LEAF][BLAS_LEAF] = {{0}}, inverse[BLAS_LEAF];
    for (int64_t j = 0; j < BLAS_LEAF; j++) {
        for (int64_t p = 0; p < j && j < n; p++) {
            block[j][p] = t[j * t_row + p * t_step];
        }
        inverse[j] = j < n ? t[j * t_row + j * t_step] : 1;
    }
    for (int64_t j = 0; j < BLAS_LEAF; j++) {
        inverse[j] = 1 / inverse[j];
    }
    for (int64_t i = 0; i < m; i += BLAS_LEAF) {
        /* Transposed, so that the independent rows of b lie along vectors. */
        double x[BLAS_LEAF][BLAS_LEAF] = {{0}};
        LOOPS_(row) y[BLAS_LEAF];
        const int64_t rows = m - i < BLAS_LEAF ? m - i : BLAS_LEAF;
        double *from = b + i * ldb;
        if (rows == BLAS_LEAF && n == BLAS_LEAF) {
            LOOPS_(turn)(from, ldb, x[0], BLAS_LEAF);
        } else {
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t j = 0; j < n; j++) {
                    x[j][r] = from[r * ldb + j];
                }
            }
        }
        memcpy(y, x, sizeof y);
        for (int j = 0; j < BLAS_LEAF; j++) {
            for (int p = 0; p < j; p++) {
                y[j] -= block[j][p] * y[p];
            }
            y[j] *= inverse[j];
        }
        memcpy(x, y, sizeof y);
        if (rows == BLAS_LEAF && n == BLAS_LEAF) {
            LOOPS_(turn)(x[0], BLAS_LEAF, from, ldb);
        } else {
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t j = 0; j < n; j++) {
                    from[r * ldb + j] = x[j][r];
                }
            }
        }
    }
}

/* b (m x n) = inverse(l) * b, l unit lower triangular. */
LOOPS_TARGET static void LOOPS_(lower)(int64_t m, int64_t n, const double *l, int64_t ldl,
                                       double *b, int64_t ldb)
{
    for (int64_t j = 0; j < n; j += BLAS_LEAF) {
        double x[BLAS_LEAF][BLAS_LEAF];
        const int64_t columns = n - j < BLAS_LEAF ? n - j : BLAS_LEAF;
        for (int64_t i = 0; i < m; i++) {
            if (columns == BLAS_LEAF) {
                memcpy(x[i], b + i * ldb + j, sizeof x[i]);
            } else {
                memset(x[i], 0, sizeof x[i]);
                memcpy(x[i], b + i * ldb + j, (size_t)columns * sizeof(double));
            }
            for (int64_t p = 0; p < i; p++) {
                for (int64_t c = 0; c < BLAS_LEAF; c++) {
                    x[i][c] -= l[i * ldl + p] * x[p][c];
                }
            }
            if (columns == BLAS_LEAF) {
                memcpy(b + i * ldb + j, x[i], sizeof x[i]);
            } else {
                memcpy(b + i * ldb + j, x[i], (size_t)columns * sizeof(double));
            }
        }
    }
}

/* The Cholesky factor of a small block. Returns 0, or 1 + the row whose pivot is not positive. */
LOOPS_TARGET static int64_t LOOPS_(potrf)(int64_t n, double *a, int64_t lda)
{
    /* By columns, so that the elements below a pivot lie along a vector. The elements above it are
     * computed, too, and ignored. */
    double x[BLAS_LEAF][BLAS_LEAF] = {{0}};
    if (n == BLAS_LEAF) {
        LOOPS_(turn)(a, lda, x[0], BLAS_LEAF);
    } else {
        for (int64_t i = 0; i < BLAS_LEAF; i++) {
            for (int64_t j = 0; j <= i && i < n; j++) {
                x[j][i] = a[i * lda + j];
            }
            x[i][i] = i < n ? x[i][i] : 1;
        }
    }
    LOOPS_(row) y[BLAS_LEAF];
    int64_t bad = 0;
    memcpy(y, x, sizeof y);
    for (int j = 0; j < BLAS_LEAF; j++) {
        bad = bad || y[j][j] > 0 ? bad : j + 1; /* NaN is not positive either */
        y[j] *= 1 / sqrt(y[j][j]);
        for (int c = j + 1; c < BLAS_LEAF; c++) {
            y[c] -= y[j][c] * y[j];
        }
    }
    memcpy(x, y, sizeof y);
    for (int64_t i = 0; i < n && !bad; i++) {
        for (int64_t j = 0; j <= i; j++) {
            a[i * lda + j] = x[j][i];
        }
    }
    return bad;
}

/* LU of a small block. Returns 0, or 1 + the row whose pivot is zero. */
LOOPS_TARGET static int64_t LOOPS_(getrf)(int64_t n, double *a, int64_t lda)
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
            for (int64_t c = j + 1; c < n; c++) {
                row[c] -= row[j] * pivot[c];
            }
        }
    }
    return 0;
}

#undef LOOPS_
#undef LOOPS_JOIN
#undef LOOPS_JOIN_
#undef LOOPS_SET
#undef LOOPS_BYTES
#undef LOOPS_ROWS
#undef LOOPS_TARGET
