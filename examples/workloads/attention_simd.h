/* attention_simd.h - a block of queries attends to a block of keys, in vectors of LANES floats.
 *
 * Included by attention_kernels.c, once for each instruction set, with
 *
 *     LANES     floats in a vector
 *     TARGET    the attribute of functions that use the set
 *     SIMD(x)   the name x for this set
 *
 * The steps, for up to TILE keys and 4 queries at a time:
 *
 *     scores = q k'     keys across the lanes; k is first transposed if it is not already
 *     softmax           turns scores into weights, and computes how much the state shrinks
 *     state += p v      dims of the head across the lanes
 *
 * Both products use one small kernel, which keeps 4 rows by 2 vectors in registers. Every sum goes
 * from first to last, whatever the shape of the small kernel, so edges are computed like the rest.
 */
typedef float SIMD(vector) __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t SIMD(integers) __attribute__((vector_size(LANES * sizeof(float))));
/* The same vector in memory, aligned to a float. */
typedef float SIMD(floats)
    __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

#define vector SIMD(vector)
#define integers SIMD(integers)
#define INLINE static inline __attribute__((always_inline)) TARGET

INLINE vector SIMD(load)(const float *from)
{
    return *(const SIMD(floats) *)from;
}

INLINE void SIMD(store)(float *to, vector x)
{
    *(SIMD(floats) *)to = x;
}

INLINE vector SIMD(select)(integers where, vector yes, vector no)
{
    return (vector)((where & (integers)yes) | (~where & (integers)no));
}

/* exp(x) for x <= 0, accurate to one or two units in the last place. 0 where the result would be
 * subnormal, and for -inf. NaN stays NaN. */
INLINE vector SIMD(exponential)(vector x)
{
    const vector zero = {0}, least = zero - 87.0F;
    const integers tiny = x < least;
    x = SIMD(select)(tiny, least, x);
    /* exp(x) = 2^n exp(r), |r| <= ln(2) / 2. Adding and subtracting 1.5 * 2^23 rounds. ln(2) is
     * split into two parts, so that n times the first part is exact. */
    const vector n = (x * 1.44269504F + 12582912.0F) - 12582912.0F;
    const vector r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
    vector y = zero + 1.0F / 5040;
    y = y * r + 1.0F / 720;
    y = y * r + 1.0F / 120;
    y = y * r + 1.0F / 24;
    y = y * r + 1.0F / 6;
    y = y * r + 0.5F;
    y = y * r + 1.0F;
    y = y * r + 1.0F;
    const integers power = __builtin_convertvector(n, integers);
    return SIMD(select)(tiny, zero, y * (vector)((power + 127) << 23));
}

/* c[r] = c[r] * shrink[r] + the sum over x of a[r][x] * b[x], for vectors of c and of rows of b.
 * Without `shrink`, c need not be initialized. */
INLINE void SIMD(product)(const int rows, const int vectors, const float *const *a, int64_t count,
                          const float *b, int64_t b_row, float *const *c, int64_t at,
                          const float *shrink)
{
    vector sum[4][2];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t u = 0; u < vectors; u++) {
            sum[r][u] = (vector){0};
            if (shrink) {
                sum[r][u] = SIMD(load)(c[r] + at + u * LANES) * shrink[r];
            }
        }
    }
    for (int64_t x = 0; x < count; x++) {
        for (int64_t u = 0; u < vectors; u++) {
            const vector row = SIMD(load)(b + x * b_row + at + u * LANES);
            for (int64_t r = 0; r < rows; r++) {
                sum[r][u] = sum[r][u] + row * a[r][x];
            }
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t u = 0; u < vectors; u++) {
            SIMD(store)(c[r] + at + u * LANES, sum[r][u]);
        }
    }
}

/* The same for rows of c of any width. */
INLINE void SIMD(rows)(const int rows, const float *const *a, int64_t count, const float *b,
                       int64_t b_row, float *const *c, int64_t width, const float *shrink)
{
    int64_t at = 0;
    for (; at + INT64_C(2) * LANES <= width; at += INT64_C(2) * LANES) {
        SIMD(product)(rows, 2, a, count, b, b_row, c, at, shrink);
    }
    for (; at + LANES <= width; at += LANES) {
        SIMD(product)(rows, 1, a, count, b, b_row, c, at, shrink);
    }
    for (; at < width; at++) {
        for (int64_t r = 0; r < rows; r++) {
            float sum = shrink ? c[r][at] * shrink[r] : 0;
            for (int64_t x = 0; x < count; x++) {
                sum = sum + b[x * b_row + at] * a[r][x];
            }
            c[r][at] = sum;
        }
    }
}

/* And for any number of rows, up to 4. */
TARGET static void SIMD(multiply)(int64_t rows, const float *const *a, int64_t count,
                                  const float *b, int64_t b_row, float *const *c, int64_t width,
                                  const float *shrink)
{
    switch (rows) {
    case 4:
        SIMD(rows)(4, a, count, b, b_row, c, width, shrink);
        break;
    case 3:
        SIMD(rows)(3, a, count, b, b_row, c, width, shrink);
        break;
    case 2:
        SIMD(rows)(2, a, count, b, b_row, c, width, shrink);
        break;
    default:
        SIMD(rows)(1, a, count, b, b_row, c, width, shrink);
        break;
    }
}

/* Turns scores into weights; those from `seen` on become zero. Updates m and l of the state.
 * Returns the factor for the sum of values. */
TARGET static float SIMD(softmax)(float *scores, int64_t seen, int64_t width, float scale, float *m,
                                  float *l)
{
    const vector zero = {0}, huge = zero + FLT_MAX;
    vector largest = zero - INFINITY, sums = zero;
    float top = *m, sum = 0;
    for (int64_t j = seen; j < width; j++) {
        scores[j] = -INFINITY;
    }
    for (int64_t j = 0; j < width; j += LANES) {
        /* A score that overflows is clamped to the largest number, because inf - inf would be NaN.
         * Masked scores must stay -inf, whatever the scale. */
        vector x = SIMD(load)(scores + j);
        x = SIMD(select)(x == zero - INFINITY, x, x * scale);
        x = SIMD(select)(x > huge, huge, x);
        largest = SIMD(select)(x > largest, x, largest);
        SIMD(store)(scores + j, x);
    }
    for (int i = 0; i < LANES; i++) {
        top = largest[i] > top ? largest[i] : top;
    }
    const float base = top > -INFINITY ? top : 0; /* no key seen so far: all weights are zero */
    for (int64_t j = 0; j < width; j += LANES) {
        const vector weight = SIMD(exponential)(SIMD(load)(scores + j) - base);
        sums = sums + weight;
        SIMD(store)(scores + j, weight);
    }
    for (int i = 0; i < LANES; i++) {
        sum += sums[i];
    }
    const float shrink = expf(*m - base);
    *l = *l * shrink + sum;
    *m = top;
    return shrink;
}

/* Queries row .. row + rows - 1 attend to keys from .. from + keys - 1. `k` holds these keys
 * transposed: one row for each dim of the head. */
TARGET static void SIMD(meet)(const attention_block *b, int64_t row, int64_t rows, int64_t from,
                              int64_t keys, const float *k, int64_t k_row)
{
    _Alignas(64) float scores[4][TILE];
    const int64_t width = (keys + LANES - 1) / LANES * LANES, end = attention_width(b->dim);
    const float *q[4], *weights[4];
    float *to[4], *state[4], shrink[4] = {1, 1, 1, 1};
    int64_t seen[4], most = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t position = (row + r) / b->heads, head = (row + r) % b->heads;
        const int64_t visible = b->visible - from + position; /* cannot overflow: see attend */
        q[r] = b->q + position * b->q_position + head * b->q_head;
        state[r] = b->state + (row + r) * b->state_row;
        weights[r] = to[r] = scores[r];
        seen[r] = visible < 0 ? 0 : visible < keys ? visible : keys;
        most = seen[r] > most ? seen[r] : most;
    }
    if (most == 0) {
        return;
    }
    SIMD(multiply)(rows, q, b->dim, k, k_row, to, width, NULL);
    for (int64_t r = 0; r < rows; r++) {
        shrink[r] = SIMD(softmax)(scores[r], seen[r], width, b->scale, &state[r][end - 2],
                                  &state[r][end - 1]);
    }
    SIMD(multiply)(rows, weights, most, b->v + from * b->v_key, b->v_key, state, b->dim, shrink);
}

TARGET static void SIMD(attend)(const attention_block *b)
{
    _Alignas(64) float turned[ATTENTION_MAX_DIM * TILE];
    const int64_t rows = b->positions * b->heads;
    for (int64_t from = 0; from < b->keys; from += TILE) {
        const int64_t keys = b->keys - from < TILE ? b->keys - from : TILE;
        const float *k = b->k + from * b->k_key;
        int64_t k_row = b->k_dim;
        /* Lanes past the last key must not even be read: another task may be writing there. */
        if (b->k_key != 1 || keys % LANES != 0) {
            const int64_t width = (keys + LANES - 1) / LANES * LANES;
            for (int64_t j = 0; j < width; j++) {
                for (int64_t d = 0; d < b->dim; d++) {
                    turned[d * TILE + j] = j < keys ? k[j * b->k_key + d * b->k_dim] : 0;
                }
            }
            k = turned;
            k_row = TILE;
        }
        for (int64_t row = 0; row < rows; row += 4) {
            SIMD(meet)(b, row, rows - row < 4 ? rows - row : 4, from, keys, k, k_row);
        }
    }
}

#undef vector
#undef integers
#undef INLINE
#undef SIMD
#undef TARGET
#undef LANES
