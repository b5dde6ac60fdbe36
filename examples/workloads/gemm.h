/* gemm.h - matrix multiplication for one type of element and one instruction set. loops.h includes
 * it for each pair, after saying which type; the rest is the set's:
 *
 *     GEMM_NAME    name of the function
 *     GEMM_REAL    float or double
 *
 * Rows of b run along vectors, so one row of c is a sum of rows of b, each times one number of a:
 *
 *             b   p-th row:   [ vector ][ vector ][ vector ]      GEMM_COLUMNS of them
 *     a [i, p] *                  +=
 *             c   i-th row:   [ vector ][ vector ][ vector ]      LOOPS_ROWS rows stay in registers
 *
 * A b that is turned, or crowded, or whose last vector is not full is copied into panels first.
 * Large products are better left to a library: here the panel of b is all that is blocked for
 * the caches.
 */
#define GEMM_LANES ((int64_t)(LOOPS_BYTES / sizeof(GEMM_REAL)))
#define GEMM_COLUMNS 3
#define GEMM_PANEL (GEMM_COLUMNS * GEMM_LANES)
#define GEMM_DEPTH 256
#define GEMM_JOIN_(a, b) a##_##b
#define GEMM_JOIN(a, b) GEMM_JOIN_(a, b)
#define GEMM_(name) GEMM_JOIN(GEMM_NAME, name)

/* Aligned like its elements: tiles begin anywhere. */
typedef GEMM_REAL GEMM_(vector)
    __attribute__((vector_size(LOOPS_BYTES), aligned(sizeof(GEMM_REAL)), may_alias));

/* What does not change within one call. */
typedef struct GEMM_(job) {
    const GEMM_REAL *a;
    int64_t a_row, a_step; /* from one row of op(a) to the next, from one column to the next */
    GEMM_REAL alpha, beta;
    GEMM_REAL *c;
    int64_t ldc;
} GEMM_(job);

/* A block of `rows` x (`columns` vectors) of c; both are constants where this ends up. */
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
    /* The last vectors of c may not be full: then they are put together beside it. */
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
    /* Rows a power of two apart share a few lines of the cache and throw each other out of it. */
    const bool crowded = m > INT64_C(2) * LOOPS_ROWS &&
                         (uint64_t)ldb * sizeof(GEMM_REAL) % 2048 == 0;
    int64_t p = 0;
    do { /* at least once: without any depth there is still beta */
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
