/* blas_small_block.h - a part of blas_small.c, for vectors of LANES numbers. */

typedef double NAME(vector) __attribute__((vector_size(8 * LANES)));
#define VECTOR NAME(vector)
#define VECTORS 2
#define COLUMNS (VECTORS * LANES)

/* to[p][0..3] = from[0..3][p], for four p. */
TARGET INLINE void NAME(turn_4x4)(const double *from, int64_t ld, double *to, int64_t to_ld)
{
    quad r[4], s[4];
    for (int i = 0; i < 4; i++) {
        memcpy(&r[i], from + i * ld, sizeof r[i]);
    }
    s[0] = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6);
    s[1] = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
    s[2] = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6);
    s[3] = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
    r[0] = __builtin_shufflevector(s[0], s[2], 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(s[1], s[3], 0, 1, 4, 5);
    r[2] = __builtin_shufflevector(s[0], s[2], 2, 3, 6, 7);
    r[3] = __builtin_shufflevector(s[1], s[3], 2, 3, 6, 7);
    for (int i = 0; i < 4; i++) {
        memcpy(to + i * to_ld, &r[i], sizeof r[i]);
    }
}

/* A panel of b', where b has `columns` rows of k numbers. */
TARGET INLINE void NAME(pack_turned)(int64_t columns, int64_t k, const double *b, int64_t ldb,
                                     double *panel)
{
    for (int64_t j = 0; j < COLUMNS; j += 4) {
        int64_t p = 0;
        for (; j + 4 <= columns && p + 4 <= k; p += 4) {
            NAME(turn_4x4)(b + j * ldb + p, ldb, panel + p * COLUMNS + j, COLUMNS);
        }
        for (; p < k; p++) {
            for (int64_t l = j; l < j + 4; l++) {
                panel[p * COLUMNS + l] = l < columns ? b[l * ldb + p] : 0;
            }
        }
    }
}

/* A panel of b, `columns` of whose columns are wanted. */
TARGET INLINE void NAME(pack)(int64_t columns, int64_t k, const double *b, int64_t ldb,
                              double *panel)
{
    for (int64_t p = 0; p < k; p++, panel += COLUMNS, b += ldb) {
        if (columns == COLUMNS) {
            memcpy(panel, b, COLUMNS * sizeof *b);
        } else {
            memset(panel, 0, COLUMNS * sizeof *b);
            memcpy(panel, b, (size_t)columns * sizeof *b);
        }
    }
}

/* ROWS x COLUMNS sums of k products; the rows of a are given one by one. */
TARGET INLINE void NAME(sum)(int64_t k, const double *const *a, const double *panel,
                             VECTOR (*x)[VECTORS])
{
    for (int r = 0; r < ROWS; r++) {
        for (int v = 0; v < VECTORS; v++) {
            x[r][v] = (VECTOR){0};
        }
    }
    for (int64_t p = 0; p < k; p++) {
        VECTOR b[VECTORS];
        memcpy(b, panel + p * COLUMNS, sizeof b);
        for (int r = 0; r < ROWS; r++) {
            for (int v = 0; v < VECTORS; v++) {
                x[r][v] += a[r][p] * b[v];
            }
        }
    }
}

/* A whole block: c = alpha * x + beta * c. */
TARGET INLINE void NAME(store)(VECTOR (*x)[VECTORS], double alpha, double beta, double *c,
                               int64_t ldc)
{
    for (int r = 0; r < ROWS; r++) {
        for (int v = 0; v < VECTORS; v++) {
            VECTOR y = {0};
            if (beta != 0) {
                memcpy(&y, c + r * ldc + v * LANES, sizeof y);
                y *= beta;
            }
            y += alpha * x[r][v];
            memcpy(c + r * ldc + v * LANES, &y, sizeof y);
        }
    }
}

/* Of row r only the first columns[r] columns. */
TARGET INLINE void NAME(store_part)(VECTOR (*x)[VECTORS], const int64_t *columns, double alpha,
                                    double beta, double *c, int64_t ldc)
{
    double sums[ROWS][COLUMNS];
    memcpy(sums, x, sizeof sums);
    for (int r = 0; r < ROWS; r++) {
        for (int64_t j = 0; j < columns[r]; j++) {
            c[r * ldc + j] = alpha * sums[r][j] + (beta != 0 ? beta * c[r * ldc + j] : 0);
        }
    }
}

/* blas_small_product for k <= DEPTH. */
TARGET static __attribute__((noinline)) void NAME(product)(bool turn_b, bool lower, int64_t m,
                                                           int64_t n, int64_t k, double alpha,
                                                           const double *a, int64_t lda,
                                                           const double *b, int64_t ldb,
                                                           double beta, double *c, int64_t ldc)
{
    _Alignas(64) double panel[DEPTH * COLUMNS];
    for (int64_t j = 0; j < n; j += COLUMNS) {
        const int64_t width = n - j < COLUMNS ? n - j : COLUMNS;
        if (turn_b) {
            NAME(pack_turned)(width, k, b + j * ldb, ldb, panel);
        } else {
            NAME(pack)(width, k, b + j, ldb, panel);
        }
        for (int64_t i = lower ? j : 0; i < m; i += ROWS) {
            const double *rows[ROWS];
            int64_t columns[ROWS];
            bool whole = true;
            for (int r = 0; r < ROWS; r++) {
                const int64_t row = i + r < m ? i + r : m - 1; /* beyond the edge: the last one */
                const int64_t below = row - j + 1;             /* columns up to the diagonal */
                rows[r] = a + row * lda;
                columns[r] = i + r >= m ? 0 : !lower || below > width ? width : below;
                whole &= columns[r] == COLUMNS;
            }
            VECTOR x[ROWS][VECTORS];
            NAME(sum)(k, rows, panel, x);
            if (whole) {
                NAME(store)(x, alpha, beta, c + i * ldc + j, ldc);
            } else {
                NAME(store_part)(x, columns, alpha, beta, c + i * ldc + j, ldc);
            }
        }
    }
}

#undef VECTOR
#undef VECTORS
#undef COLUMNS
