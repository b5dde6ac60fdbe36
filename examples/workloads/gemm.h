/* gemm.h - matrix multiplication for one element type and one instruction set. loops.h includes it
 * for each pair; it sets the type:
 *
 *     GEMM_NAME    name of the function
 *     GEMM_REAL    float or double
 *
 * Rows of b lie along vectors. A row of c is a sum of rows of b, each multiplied by one element of
 * a:
 *
 *             b   p-th row:   [ vector ][ vector ][ vector ]      GEMM_COLUMNS of them
 *     a [i, p] *                  +=
 *             c   i-th row:   [ vector ][ vector ][ vector ]      LOOPS_ROWS rows stay in registers
 *
 * If b is transposed, or its rows conflict in the cache, or its last vector is not full, it is
 * first copied into panels. Large products should use a library: here only the panel of b is
 * blocked for the caches.
 */
#define GEMM_LANES ((int64_t)(LOOPS_BYTES / sizeof(GEMM_REAL)))
#define GEMM_COLUMNS 3
#define GEMM_PANEL (GEMM_COLUMNS * GEMM_LANES)
#define GEMM_DEPTH 256
#define GEMM_JOIN_(a, b) a##_##b
#define GEMM_JOIN(a, b) GEMM_JOIN_(a, b)
#define GEMM_(name) GEMM_JOIN(GEMM_NAME, name)

/* Aligned like its elements, because tiles start anywhere. */
typedef GEMM_REAL GEMM_(vector)
    __attribute__((vector_size(LOOPS_BYTES), aligned(sizeof(GEMM_REAL)), may_alias));

/* Constant during one call. */
typedef struct GEMM_(job) {
    const GEMM_REAL *a;
    int64_t a_row, a_step; /* strides of op(a): between rows, between columns */
    GEMM_REAL alpha, beta;
    GEMM_REAL *c;
    int64_t ldc;
} GEMM_(job);

/* A block of `rows` x (`columns` vectors) of c. Both are constants after inlining. */
LOOPS_TARGET static inline __attribute__((always_inline)) void
GEMM_(block)(const GEMM_(job) * job, int rows, int columns, int64_t i, int64_t j, int64_t width,
             int64_t depth, int64_t p, const GEMM_REAL *b, int64_t ldb)
{
    GEMM_(vector) sum[LOOPS_ROWS][GEMM_COLUMNS];
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < columns; v++) {
            sum[r][v] = (GEMM_(vector)){0};
        }
    }
    const GEMM_REAL *a = job->a + i * job->a_row + p * job->a_step;
    for (int64_t q = 0; q < depth; q++) {
        for (int r = 0; r < rows; r++) {
            for (int v = 0; v < columns; v++) {
                sum[r][v] += a[r * job->a_row] *
                             *(const GEMM_(vector) *)(const void *)(b + v * GEMM_LANES);
            }
        }
        a += job->a_step;
        b += ldb;
    }
    /* If the last vectors of c are not full, they are computed in a separate buffer. */
    GEMM_REAL *c = job->c + i * job->ldc + j, *to = c, edge[LOOPS_ROWS * GEMM_PANEL];
    const bool full = width == columns * GEMM_LANES;
    int64_t to_row = job->ldc;
    if (!full) {
        to = edge;
        to_row = GEMM_PANEL;
        for (int r = 0; r < rows; r++) {
            memcpy(edge + r * GEMM_PANEL, c + r * job->ldc, (size_t)width * sizeof *c);
        }
    }
    const GEMM_REAL alpha = job->alpha, beta = p ? 1 : job->beta;
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < columns; v++) {
            GEMM_(vector) *place = (GEMM_(vector) *)(void *)(to + r * to_row + v * GEMM_LANES);
            *place = beta == 0 ? alpha * sum[r][v] : alpha * sum[r][v] + beta * *place;
        }
    }
    if (!full) {
        for (int r = 0; r < rows; r++) {
            memcpy(c + r * job->ldc, edge + r * GEMM_PANEL, (size_t)width * sizeof *c);
        }
    }
}

/* All rows of one panel. */
#define GEMM_BLOCKS(columns)                                                                       \
    for (; i + LOOPS_ROWS <= m; i += LOOPS_ROWS) {                                                 \
        GEMM_(block)(job, LOOPS_ROWS, columns, i, j, width, depth, p, b, ldb);                     \
    }                                                                                              \
    for (; i + 4 <= m; i += 4) {                                                                   \
        GEMM_(block)(job, 4, columns, i, j, width, depth, p, b, ldb);                              \
    }                                                                                              \
    for (; i < m; i++) {                                                                           \
        GEMM_(block)(job, 1, columns, i, j, width, depth, p, b, ldb);                              \
    }

LOOPS_TARGET static void GEMM_(panel)(const GEMM_(job) * job, int64_t m, int64_t j, int64_t width,
                                      int64_t depth, int64_t p, const GEMM_REAL *b, int64_t ldb)
{
    int64_t i = 0;
    if (width > 2 * GEMM_LANES) {
        GEMM_BLOCKS(3)
    } else if (width > GEMM_LANES) {
        GEMM_BLOCKS(2)
    } else {
        GEMM_BLOCKS(1)
    }
}

LOOPS_TARGET static void GEMM_NAME(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k,
                                   GEMM_REAL alpha, const GEMM_REAL *a, int64_t lda,
                                   const GEMM_REAL *b, int64_t ldb, GEMM_REAL beta, GEMM_REAL *c,
                                   int64_t ldc)
{
    GEMM_REAL packed[GEMM_DEPTH * GEMM_PANEL] __attribute__((aligned(64)));
    const GEMM_(job) job = {a, turn_a ? 1 : lda, turn_a ? lda : 1, alpha, beta, c, ldc};
    const int64_t b_row = turn_b ? 1 : ldb, b_step = turn_b ? ldb : 1;
    /* Rows whose distance is a power of two share few cache sets and evict each other. */
    const bool crowded = m > INT64_C(2) * LOOPS_ROWS &&
                         (uint64_t)ldb * sizeof(GEMM_REAL) % 2048 == 0;
    int64_t p = 0;
    do { /* at least once: even with k = 0, beta must be applied */
        const int64_t depth = k - p < GEMM_DEPTH ? k - p : GEMM_DEPTH;
        for (int64_t j = 0; j < n; j += GEMM_PANEL) {
            const int64_t width = n - j < GEMM_PANEL ? n - j : GEMM_PANEL;
            const GEMM_REAL *from = b + p * b_row + j * b_step;
            if (!turn_b && !crowded && width % GEMM_LANES == 0) {
                GEMM_(panel)(&job, m, j, width, depth, p, from, ldb);
                continue;
            }
            const int64_t full = (width + GEMM_LANES - 1) / GEMM_LANES * GEMM_LANES;
            int64_t q = 0;
#if defined(GEMM_TURN)
            for (; turn_b && width % 8 == 0 && q + 8 <= depth; q += 8) {
                for (int64_t v = 0; v < width; v += 8) {
                    GEMM_TURN(from + q + v * ldb, ldb, packed + q * full + v, full);
                }
            }
#endif
            for (; q < depth; q++) {
                for (int64_t v = 0; v < full; v++) {
                    packed[q * full + v] = v < width ? from[q * b_row + v * b_step] : 0;
                }
            }
            GEMM_(panel)(&job, m, j, width, depth, p, packed, full);
        }
        p += depth;
    } while (p < k);
}

#undef GEMM_BLOCKS
#undef GEMM_
#undef GEMM_JOIN
#undef GEMM_JOIN_
#undef GEMM_DEPTH
#undef GEMM_PANEL
#undef GEMM_COLUMNS
#undef GEMM_LANES
#undef GEMM_NAME
#undef GEMM_REAL
#undef GEMM_TURN
