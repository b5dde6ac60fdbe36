/* decode_block.h - the kernels of a decode step that is cut for a GPU (decode_block.c), in C and in CUDA.
 *
 * One block of threads runs a task. gpu.cu includes this header and makes device functions of it;
 * decode_block.c makes C functions of it, for which a block is one thread. So a simulated device runs the
 * same source as the GPU.
 *
 * A product of a few rows with a matrix is limited by reading the matrix. Here each number of it is read once
 * for up to 8 rows, whole lines at a time:
 *
 *     thread          (4 columns, every S-th row of the matrix) for all rows of x
 *     x               in shared memory, transposed: the 8 numbers of a column are adjacent
 *     sums            of the S threads of a column are added in order, so a result repeats bit for bit. It
 *                     does not depend on the number of rows either
 */
#ifndef DECODE_BLOCK_H
#define DECODE_BLOCK_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include <pto/kernel.h>

#ifdef __cplusplus /* CUDA, or its emulation */
#define BLOCK_FUNCTION static __device__ __forceinline__
#define BLOCK_ME (static_cast<int64_t>(threadIdx.x))
#define BLOCK_SIZE (static_cast<int64_t>(blockDim.x))
#define BLOCK_SYNC() __syncthreads()
#define BLOCK_KERNEL(name) PTO_GPU_KERNEL(decode_##name)
#define BLOCK_SHARED call.shared<float>()
#define ARG(type, i) (call.arg<type>(i))
#define SHAPE(i, d) (call.shape((i), (d)))
#define STRIDE(i, d) (call.stride((i), (d)))
#define NDIM(i) (call.ndim(i))
#define INTEGER(i) (call.scalar<int64_t>(i))
#else
/* Beyond the stack, as on a GPU. Of the thread that runs the kernel. */
static _Thread_local _Alignas(64) float block_shared[36864];
#define BLOCK_FUNCTION static inline
#define BLOCK_ME INT64_C(0)
#define BLOCK_SIZE INT64_C(1)
#define BLOCK_SYNC() ((void)0)
#define BLOCK_KERNEL(name) static void run_##name(const pto_call *call)
#define BLOCK_SHARED block_shared
#define ARG(type, i) ((type *)call->args[i].data)
#define SHAPE(i, d) (call->args[i].shape[d])
#define STRIDE(i, d) (call->args[i].strides[d])
#define NDIM(i) (call->args[i].ndim)
#define INTEGER(i) (pto_arg_i64(&call->args[i]))
#endif

#ifdef __CUDA_ARCH__
#define BLOCK_OUTLINE static __device__ __noinline__
#define BLOCK_UNROLL _Pragma("unroll")
#define BLOCK_UNROLL_8 _Pragma("unroll 8")
#define BLOCK_UNROLL_32 _Pragma("unroll 32")
#elif defined(__cplusplus)
#define BLOCK_OUTLINE static inline __device__
#define BLOCK_UNROLL
#define BLOCK_UNROLL_8
#define BLOCK_UNROLL_32
#else
#define BLOCK_OUTLINE static inline
#define BLOCK_UNROLL
#define BLOCK_UNROLL_8
#define BLOCK_UNROLL_32
#endif

/* Shared memory, in floats: rows of x, transposed; sums. */
#define BLOCK_X INT64_C(16384)
#define BLOCK_SUMS INT64_C(20480)
#define BLOCK_FLOATS (BLOCK_X + BLOCK_SUMS)
#ifndef __cplusplus
_Static_assert(sizeof block_shared == BLOCK_FLOATS * sizeof(float), "all of it");
#endif

#define BLOCK_ROWS 8        /* rows of x at a time */
#define BLOCK_EPSILON 1e-5f /* DECODE_EPSILON */

BLOCK_FUNCTION int64_t block_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Products ------------------------------------------------------------------------------- */

/* A matrix of `k` rows that lie `ld` apart. Its columns are in two runs: the second begins `gap` after the
 * first. If `run` is the number of columns there is one. */
typedef struct block_matrix {
    const float *at;
    int64_t k, ld, columns, run, gap;
} block_matrix;

/* Four floats at a multiple of 16 bytes, by one load; or one. */
BLOCK_FUNCTION void block_load(const int q, const float *from, float *to)
{
#ifdef __CUDA_ARCH__
    if (q == 4) {
        const float4 four = *reinterpret_cast<const float4 *>(from);
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
        return;
    }
#endif
    BLOCK_UNROLL
    for (int i = 0; i < q; i++) {
        to[i] = from[i];
    }
}

/* sums[c * r + i] = row i of x times column c, for r rows and q adjacent columns a thread. x is [k][r]. The
 * block begins and ends together. */
BLOCK_FUNCTION void block_product_of(const int r, const int q, const float *x, block_matrix w,
                                     float *sums)
{
    const int64_t groups = w.columns / q, all = w.columns * r;
    int64_t split = block_least(block_least(BLOCK_SIZE / groups, BLOCK_SUMS / all), w.k);
    split = split > 1 ? split : 1;
    for (int64_t unit = BLOCK_ME; unit < groups * split; unit += BLOCK_SIZE) {
        const int64_t c = unit % groups * q, part = unit / groups;
        const float *from = w.at + (c < w.run ? c : c - w.run + w.gap);
        float sum[BLOCK_ROWS][4];
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            BLOCK_UNROLL
            for (int j = 0; j < q; j++) {
                sum[i][j] = 0;
            }
        }
        BLOCK_UNROLL_8
        for (int64_t k = part; k < w.k; k += split) {
            float number[4], mine[BLOCK_ROWS];
            block_load(q, from + k * w.ld, number);
            BLOCK_UNROLL
            for (int i = 0; i < r; i += 4) {
                block_load(r < 4 ? r : 4, x + k * r + i, mine + i);
            }
            BLOCK_UNROLL
            for (int i = 0; i < r; i++) {
                BLOCK_UNROLL
                for (int j = 0; j < q; j++) {
                    sum[i][j] += mine[i] * number[j];
                }
            }
        }
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            BLOCK_UNROLL
            for (int j = 0; j < q; j++) {
                sums[part * all + (c + j) * r + i] = sum[i][j];
            }
        }
    }
    BLOCK_SYNC();
    for (int64_t at = BLOCK_ME; split > 1 && at < all; at += BLOCK_SIZE) {
        float sum = sums[at];
        BLOCK_UNROLL_8
        for (int64_t part = 1; part < split; part++) {
            sum += sums[part * all + at];
        }
        sums[at] = sum;
    }
    BLOCK_SYNC();
}

#define BLOCK_PRODUCT(r, q)                                                                        \
    BLOCK_OUTLINE void block_product_##r##_##q(const float *x, block_matrix w, float *sums)        \
    {                                                                                              \
        block_product_of(r, q, x, w, sums);                                                        \
    }
BLOCK_PRODUCT(1, 1)
BLOCK_PRODUCT(1, 4)
BLOCK_PRODUCT(4, 1)
BLOCK_PRODUCT(4, 4)
BLOCK_PRODUCT(8, 1)
BLOCK_PRODUCT(8, 4)

BLOCK_FUNCTION void block_product(int64_t r, const float *x, block_matrix w, float *sums)
{
    const bool four = (w.columns | w.run | w.gap | w.ld) % 4 == 0 && (uintptr_t)w.at % 16 == 0;
    if (r == 8) {
        if (four) {
            block_product_8_4(x, w, sums);
        } else {
            block_product_8_1(x, w, sums);
        }
    } else if (r == 4) {
        if (four) {
            block_product_4_4(x, w, sums);
        } else {
            block_product_4_1(x, w, sums);
        }
    } else {
        if (four) {
            block_product_1_4(x, w, sums);
        } else {
            block_product_1_1(x, w, sums);
        }
    }
}

/* How many of `rows` rows to take at a time, for products of k numbers and so many columns: 1, 4 or 8. */
BLOCK_FUNCTION int64_t block_rows(int64_t rows, int64_t k, int64_t columns)
{
    int64_t r = rows > 4 ? 8 : rows > 1 ? 4 : 1;
    while (r > 1 && (k * r > BLOCK_X || columns * r > BLOCK_SUMS)) {
        r = r == 8 ? 4 : 1;
    }
    return r;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* Rows of numbers in memory: row i is the one of the matrix at list[i] / share, or without a list row i. */
typedef struct block_source {
    const float *at;
    int64_t stride, rows, columns;
    const int32_t *list;
    int64_t share;
} block_source;

BLOCK_FUNCTION const float *block_row(const block_source *s, int64_t i)
{
    return s->at + (s->list ? s->list[i] / s->share : i) * s->stride;
}

/* Rows first .. first + r - 1 into shared memory, transposed; zeros where there is none. With a weight they
 * are normalised: divided by the root of their mean square, times the weight. */
BLOCK_FUNCTION void block_take(const block_source *s, int64_t first, int64_t r, const float *weight,
                               float *x, float *sums)
{
    enum { LANES = 32 };
    const int64_t n = block_least(r, s->rows - first);
    BLOCK_SYNC(); /* the last product was read */
    for (int64_t i = 0; i < r; i++) {
        const float *row = block_row(s, i < n ? first + i : first);
        float square = 0;
        for (int64_t c = BLOCK_ME; c < s->columns; c += BLOCK_SIZE) {
            const float number = i < n ? row[c] : 0;
            x[c * r + i] = number;
            square += number * number;
        }
        sums[i * BLOCK_SIZE + BLOCK_ME] = square;
    }
    BLOCK_SYNC();
    if (!weight) {
        return;
    }
    float *some = sums + r * BLOCK_SIZE, *scale = some + r * LANES;
    for (int64_t at = BLOCK_ME; at < r * LANES; at += BLOCK_SIZE) {
        float square = 0;
        for (int64_t i = at % LANES; i < BLOCK_SIZE; i += LANES) {
            square += sums[at / LANES * BLOCK_SIZE + i];
        }
        some[at] = square;
    }
    BLOCK_SYNC();
    for (int64_t i = BLOCK_ME; i < r; i += BLOCK_SIZE) {
        float square = 0;
        for (int64_t lane = 0; lane < LANES; lane++) {
            square += some[i * LANES + lane];
        }
        scale[i] = 1 / sqrtf(square / (float)s->columns + BLOCK_EPSILON);
    }
    BLOCK_SYNC();
    for (int64_t at = BLOCK_ME; at < s->columns * r; at += BLOCK_SIZE) {
        x[at] = x[at] * scale[at % r] * weight[at / r];
    }
    BLOCK_SYNC();
}

/* The largest of numbers and the first index that has it, of one lane after the other. */
BLOCK_FUNCTION void block_better(float number, int32_t index, float *best, int32_t *which)
{
    if (*which < 0 || number > *best || (number == *best && index < *which)) {
        *best = number;
        *which = index;
    }
}

/* ---- The kernels ---------------------------------------------------------------------------- */

/* info: [rows, 1 + pages of the longest sequence]. The first number, plus that of the pass, is the position of
 * the token of each row; below 0: there is no token in this row yet. Then its pages. */

/* Nothing: it stands for all tasks that it needs. */
BLOCK_KERNEL(join)
{
    (void)call;
}

/* x = rows of the embedding.        0 tokens [rows], 1 embedding, 2 output x */
BLOCK_KERNEL(embed)
{
    const int64_t rows = SHAPE(2, 0), width = SHAPE(2, 1), from_row = STRIDE(1, 0),
                  to_row = STRIDE(2, 0);
    const int32_t *tokens = ARG(int32_t, 0);
    const float *from = ARG(float, 1);
    float *to = ARG(float, 2);
    for (int64_t at = BLOCK_ME; at < rows * width; at += BLOCK_SIZE) {
        const int64_t r = at / width, c = at % width;
        to[r * to_row + c] = tokens[r] < 0 ? 0 : from[tokens[r] * from_row + c];
    }
}

/* Some columns c, and those half a head further, of normalise(x) w: turned by RoPE, and stored as queries or
 * in pages. 0 x: its first columns; the others follow, 1 weight of the norm, 2 w [width, 2, columns], 3 angles
 * [positions, dim], 4 info, 5 output: [rows, 2, columns], or pages [pages, 2, columns, tokens of a page],
 * 6 scalar: the first of the columns in its half, or -1: not turned, 7 scalar: pass, then the other pieces of x */
BLOCK_KERNEL(project)
{
    const block_source from = {ARG(float, 0), STRIDE(0, 0), SHAPE(0, 0), SHAPE(2, 0), NULL, 1};
    const int64_t t = SHAPE(2, 2), dim = SHAPE(3, 1), half = dim / 2, info_row = STRIDE(4, 0),
                  at_column = INTEGER(6), pass = INTEGER(7);
    const block_matrix w = {ARG(float, 2), from.columns, STRIDE(2, 0), 2 * t, t, STRIDE(2, 1)};
    const float *weight = ARG(float, 1), *angles = ARG(float, 3);
    const int32_t *info = ARG(int32_t, 4);
    const bool pages = NDIM(5) == 4;
    const int64_t row = STRIDE(5, 0), other = STRIDE(5, 1), column = STRIDE(5, 2),
                  page = pages ? SHAPE(5, 3) : 1, slot = pages ? STRIDE(5, 3) : 0;
    float *x = BLOCK_SHARED, *sums = x + BLOCK_X, *to = ARG(float, 5);
    const int64_t r = block_rows(from.rows, w.k, w.columns);
    for (int64_t first = 0; first < from.rows; first += r) {
        block_take(&from, first, r, weight, x, sums);
        block_product(r, x, w, sums);
        for (int64_t at = BLOCK_ME; at < t * block_least(r, from.rows - first); at += BLOCK_SIZE) {
            const int64_t i = at / t, c = at % t;
            const int32_t *mine = info + (first + i) * info_row;
            const float a = sums[c * r + i], b = sums[(t + c) * r + i];
            const int64_t position = mine[0] + pass;
            if (position < 0) {
                continue;
            }
            const float *angle = angles + position * dim + at_column + c;
            const float cosine = at_column < 0 ? 1 : angle[0],
                        sine = at_column < 0 ? 0 : angle[half];
            float *out = to + c * column +
                         (pages ? mine[1 + position / page] * row + position % page * slot
                                : (first + i) * row);
            out[0] = a * cosine - b * sine;
            out[other] = b * cosine + a * sine;
        }
    }
}

/* The attention of one head of one row to all tokens of its sequence, times the rows of w for this head. Of q,
 * keys and values it gets the first piece of the head: the others follow in memory.
 * 0 q [rows, 2, columns], 1 keys [pages, 2, columns, tokens], 2 values, the same, 3 info, 4 w [dim, width],
 * 5 output [width], 6 scalar: pass, 7 scalar: row, then the other pieces */
BLOCK_KERNEL(attend)
{
    enum { KEYS = 4096, LANES = 32 }; /* keys at a time */
    const int64_t dim = SHAPE(4, 0), page = SHAPE(1, 3), width = SHAPE(5, 0), row = INTEGER(7);
    const int64_t k_page = STRIDE(1, 0), k_dim = page, k_key = 1, v_page = STRIDE(2, 0),
                  v_key = dim;
    const float *query = ARG(float, 0) + row * STRIDE(0, 0), *keys = ARG(float, 1),
                *values = ARG(float, 2);
    const int32_t *info = ARG(int32_t, 3) + row * STRIDE(3, 0);
    const int64_t all = info[0] + INTEGER(6) + 1;
    float *x = BLOCK_SHARED, *q = x, *seen = q + dim, *scores = seen + dim, *lanes = scores + KEYS,
          *sums = x + BLOCK_X, *to = ARG(float, 5);
    const float scale = 1 / sqrtf((float)dim);
    float top = -INFINITY, weight = 0;
    for (int64_t d = BLOCK_ME; d < dim; d += BLOCK_SIZE) {
        q[d] = query[d] * scale;
        seen[d] = 0;
    }
    for (int64_t first = 0; first < all; first += KEYS) {
        const int64_t n = block_least(KEYS, all - first);
        float largest = -INFINITY, sum = 0;
        BLOCK_SYNC();
        for (int64_t j = BLOCK_ME; j < n; j += BLOCK_SIZE) {
            const float *key = keys + info[1 + (first + j) / page] * k_page +
                               (first + j) % page * k_key;
            float dot = 0;
            BLOCK_UNROLL_8
            for (int64_t d = 0; d < dim; d++) {
                dot += q[d] * key[d * k_dim];
            }
            scores[j] = dot;
        }
        BLOCK_SYNC();
        for (int64_t lane = BLOCK_ME; lane < LANES; lane += BLOCK_SIZE) {
            float most = -INFINITY;
            for (int64_t j = lane; j < n; j += LANES) {
                most = scores[j] > most ? scores[j] : most;
            }
            lanes[lane] = most;
        }
        BLOCK_SYNC();
        for (int64_t lane = 0; lane < LANES; lane++) {
            largest = lanes[lane] > largest ? lanes[lane] : largest;
        }
        largest = largest > top ? largest : top;
        BLOCK_SYNC();
        for (int64_t j = BLOCK_ME; j < n; j += BLOCK_SIZE) {
            scores[j] = expf(scores[j] - largest);
        }
        BLOCK_SYNC();
        for (int64_t lane = BLOCK_ME; lane < LANES; lane += BLOCK_SIZE) {
            float some = 0;
            for (int64_t j = lane; j < n; j += LANES) {
                some += scores[j];
            }
            lanes[lane] = some;
        }
        BLOCK_SYNC();
        for (int64_t lane = 0; lane < LANES; lane++) {
            sum += lanes[lane];
        }
        const float shrink = expf(top - largest); /* 0 at first */
        weight = weight * shrink + sum;
        top = largest;
        /* The sum of values: a thread has one dim and every split-th key. */
        const int64_t split = block_least(BLOCK_SIZE / dim > 1 ? BLOCK_SIZE / dim : 1,
                                          BLOCK_SUMS / dim);
        for (int64_t unit = BLOCK_ME; unit < dim * split; unit += BLOCK_SIZE) {
            const int64_t d = unit % dim;
            float some = 0;
            BLOCK_UNROLL_8
            for (int64_t j = unit / dim; j < n; j += split) {
                some +=
                    scores[j] *
                    values[info[1 + (first + j) / page] * v_page + (first + j) % page * v_key + d];
            }
            sums[unit] = some;
        }
        BLOCK_SYNC();
        for (int64_t d = BLOCK_ME; d < dim; d += BLOCK_SIZE) {
            float some = seen[d] * shrink;
            for (int64_t part = 0; part < split; part++) {
                some += sums[part * dim + d];
            }
            seen[d] = some;
        }
    }
    for (int64_t d = BLOCK_ME; d < dim; d += BLOCK_SIZE) { /* each its own */
        seen[d] = weight > 0 ? seen[d] / weight : 0;
    }
    BLOCK_SYNC();
    const block_matrix w = {ARG(float, 4), dim, STRIDE(4, 0), width, width, 0};
    block_product(1, seen, w, sums);
    for (int64_t c = BLOCK_ME; c < width; c += BLOCK_SIZE) {
        to[c] = sums[c];
    }
}

/* x1 = x + the parts of all heads, and normalise(x1). Arguments 0 to 4 of mix and mix_route. Leaves rows
 * first .. first + r - 1 of the latter in shared memory. */
#define BLOCK_MIX(first, r)                                                                        \
    do {                                                                                           \
        const int64_t rows_ = SHAPE(0, 0), width_ = SHAPE(0, 1), heads_ = SHAPE(1, 0);             \
        const int64_t n_ = block_least((r), rows_ - (first));                                      \
        const float *from_ = ARG(float, 0), *parts_ = ARG(float, 1);                               \
        float *to_ = ARG(float, 3), *normed_ = ARG(float, 4);                                      \
        for (int64_t at_ = BLOCK_ME; at_ < n_ * width_; at_ += BLOCK_SIZE) {                       \
            const int64_t i_ = (first) + at_ / width_, c_ = at_ % width_;                          \
            float sum_ = from_[i_ * STRIDE(0, 0) + c_];                                            \
            BLOCK_UNROLL_8                                                                         \
            for (int64_t head_ = 0; head_ < heads_; head_++) {                                     \
                sum_ += parts_[head_ * STRIDE(1, 0) + i_ * STRIDE(1, 1) + c_];                     \
            }                                                                                      \
            to_[i_ * STRIDE(3, 0) + c_] = sum_;                                                    \
        }                                                                                          \
        BLOCK_SYNC();                                                                              \
        const block_source mixed_ = {to_, STRIDE(3, 0), rows_, width_, NULL, 1};                   \
        block_take(&mixed_, (first), (r), ARG(float, 2), x, sums);                                 \
        for (int64_t at_ = BLOCK_ME; at_ < n_ * width_; at_ += BLOCK_SIZE) {                       \
            const int64_t i_ = at_ / width_, c_ = at_ % width_;                                    \
            normed_[((first) + i_) * STRIDE(4, 0) + c_] = x[c_ * (r) + i_];                        \
        }                                                                                          \
    } while (0)

/* 0 x, 1 parts [heads, rows, width], 2 weight, 3 output x1, 4 output normed */
BLOCK_KERNEL(mix)
{
    float *x = BLOCK_SHARED, *sums = x + BLOCK_X;
    const int64_t rows = SHAPE(0, 0), r = block_rows(rows, SHAPE(0, 1), 1);
    for (int64_t first = 0; first < rows; first += r) {
        BLOCK_MIX(first, r);
    }
}

/* The `chosen` largest of the scores of row i, which are r apart, largest first; the first of equal ones; and
 * the softmax over them. */
BLOCK_FUNCTION void block_choose(const float *scores, int64_t r, int32_t experts, int64_t chosen,
                                 int32_t *choice, float *shares)
{
    float sum = 0;
    for (int64_t c = 0; c < chosen; c++) {
        int32_t best = -1;
        for (int32_t e = 0; e < experts; e++) {
            bool taken = false;
            for (int64_t before = 0; before < c; before++) {
                taken = taken || choice[before] == e;
            }
            if (!taken && (best < 0 || scores[e * r] > scores[best * r])) {
                best = e;
            }
        }
        choice[c] = best;
        shares[c] = expf(scores[best * r] - scores[choice[0] * r]);
        sum += shares[c];
    }
    for (int64_t c = 0; c < chosen; c++) {
        shares[c] /= sum;
    }
}

/* Sorts the choices by expert. `counts` has room for a number of each expert. */
BLOCK_FUNCTION void block_group(const int32_t *choice, int64_t choices, int64_t rows,
                                int32_t experts, int32_t *groups, int64_t n_groups,
                                int64_t group_row, int32_t *places, int32_t *counts)
{
    BLOCK_SYNC(); /* all choices are written */
    for (int64_t e = BLOCK_ME; e < experts; e += BLOCK_SIZE) {
        int32_t count = 0;
        for (int64_t j = 0; j < choices; j++) {
            count += choice[j] == e;
        }
        counts[e] = count;
    }
    for (int64_t j = BLOCK_ME; j < choices; j += BLOCK_SIZE) {
        if (choice[j] < 0) {
            places[j] = -1;
        }
    }
    BLOCK_SYNC();
    for (int64_t e = BLOCK_ME; e < experts; e += BLOCK_SIZE) {
        int64_t group = 0;
        int32_t index = 0;
        for (int64_t before = 0; before < e; before++) {
            group += counts[before] > 0;
        }
        for (int64_t j = 0; counts[e] && j < choices; j++) {
            if (choice[j] == e) {
                places[j] = (int32_t)(group * rows) + index;
                groups[group * group_row + 2 + index++] = (int32_t)j;
            }
        }
        if (counts[e]) {
            groups[group * group_row] = (int32_t)e;
            groups[group * group_row + 1] = counts[e];
        }
    }
    int64_t used = 0;
    for (int32_t e = 0; e < experts; e++) {
        used += counts[e] > 0;
    }
    for (int64_t group = used + BLOCK_ME; group < n_groups; group += BLOCK_SIZE) {
        groups[group * group_row + 1] = 0;
    }
}

/* mix, and the experts of each row. Groups are the experts that were chosen, in their order: expert, number
 * of rows, and for each the index of its choice. A place is the number of the group, times the number of rows,
 * plus the index in the group; -1: the row has no token.
 * ... 5 router [width, experts], 6 info, 7 output choice [rows, chosen], 8 output shares [rows, chosen],
 * 9 output groups [groups, 2 + rows], 10 output places [rows, chosen]: these four are dense, 11 scalar: pass */
BLOCK_KERNEL(mix_route)
{
    float *x = BLOCK_SHARED, *sums = x + BLOCK_X, *shares = ARG(float, 8);
    const int64_t rows = SHAPE(0, 0), width = SHAPE(0, 1), experts = SHAPE(5, 1),
                  chosen = SHAPE(7, 1), info_row = STRIDE(6, 0), pass = INTEGER(11);
    const int64_t r = block_rows(rows, width, experts);
    const block_matrix router = {ARG(float, 5), width, STRIDE(5, 0), experts, experts, 0};
    const int32_t *info = ARG(int32_t, 6);
    int32_t *choice = ARG(int32_t, 7);
    for (int64_t first = 0; first < rows; first += r) {
        BLOCK_MIX(first, r);
        BLOCK_SYNC();
        block_product(r, x, router, sums);
        for (int64_t i = first + BLOCK_ME; i < block_least(first + r, rows); i += BLOCK_SIZE) {
            if (info[i * info_row] + pass >= 0) {
                block_choose(sums + i - first, r, (int32_t)experts, chosen, choice + i * chosen,
                             shares + i * chosen);
                continue;
            }
            for (int64_t c = 0; c < chosen; c++) {
                choice[i * chosen + c] = -1;
                shares[i * chosen + c] = 0;
            }
        }
    }
    block_group(choice, rows * chosen, rows, (int32_t)experts, ARG(int32_t, 9), SHAPE(9, 0),
                STRIDE(9, 0), ARG(int32_t, 10), (int32_t *)(void *)x);
}

/* part = (silu(x gate) * (x up)) down: gate and up are two runs of `both`. */
BLOCK_FUNCTION void block_feed(const block_source *from, block_matrix both, block_matrix down,
                               float *part, int64_t part_row, float *x)
{
    float *sums = x + BLOCK_X;
    const int64_t t = both.run,
                  r = block_rows(from->rows, both.k > t ? both.k : t,
                                 both.columns > down.columns ? both.columns : down.columns);
    for (int64_t first = 0; first < from->rows; first += r) {
        block_take(from, first, r, NULL, x, sums);
        block_product(r, x, both, sums);
        for (int64_t at = BLOCK_ME; at < t * r; at += BLOCK_SIZE) {
            const float gate = sums[at], up = sums[t * r + at];
            x[at] = gate / (1 + expf(-gate)) * up;
        }
        BLOCK_SYNC();
        block_product(r, x, down, sums);
        for (int64_t at = BLOCK_ME; at < block_least(r, from->rows - first) * down.columns;
             at += BLOCK_SIZE) {
            const int64_t i = at / down.columns, c = at % down.columns;
            part[(first + i) * part_row + c] = sums[c * r + i];
        }
    }
}

/* A part of the feed-forward block, for some of the hidden columns.
 * 0 x, 1 gate [width, columns], 2 up, 3 down [columns, width], 4 output part [rows, width] */
BLOCK_KERNEL(feed)
{
    const block_source from = {ARG(float, 0), STRIDE(0, 0), SHAPE(0, 0), SHAPE(0, 1), NULL, 1};
    const int64_t t = SHAPE(1, 1);
    const float *gate = ARG(float, 1), *up = ARG(float, 2);
    const block_matrix both = {gate, from.columns, STRIDE(1, 0), 2 * t, t, up - gate},
                       down = {ARG(float, 3), t, STRIDE(3, 0), SHAPE(3, 1), SHAPE(3, 1), 0};
    block_feed(&from, both, down, ARG(float, 4), STRIDE(4, 0), BLOCK_SHARED);
}

/* The same for the rows of a group, with the weights of its expert; nothing if it has none.
 * 0 x, 1 groups [groups, 2 + rows], 2 gate [experts, width, columns], 3 up, 4 down [experts, columns, width],
 * 5 output part [rows, width], 6 scalar: experts of a row, 7 scalar: group */
BLOCK_KERNEL(feed_expert)
{
    const int32_t *group = ARG(int32_t, 1) + INTEGER(7) * STRIDE(1, 0);
    if (group[1] == 0) {
        return;
    }
    const block_source from = {ARG(float, 0), STRIDE(0, 0), group[1],
                               SHAPE(0, 1),   group + 2,    INTEGER(6)};
    const int64_t t = SHAPE(2, 2);
    const float *gate = ARG(float, 2) + group[0] * STRIDE(2, 0),
                *up = ARG(float, 3) + group[0] * STRIDE(3, 0);
    const block_matrix both = {gate, from.columns, STRIDE(2, 1), 2 * t, t, up - gate},
                       down = {ARG(float, 4) + group[0] * STRIDE(4, 0),
                               t,
                               STRIDE(4, 1),
                               SHAPE(4, 2),
                               SHAPE(4, 2),
                               0};
    block_feed(&from, both, down, ARG(float, 5), STRIDE(5, 0), BLOCK_SHARED);
}

/* How many threads share an element of a sum over `count` parts. */
BLOCK_FUNCTION int64_t block_split(int64_t elements, int64_t count)
{
    const int64_t split = block_least(block_least(BLOCK_SIZE / elements, BLOCK_SUMS / elements),
                                      count);
    return split > 1 ? split : 1;
}

/* Some columns of x2 = x1 + the sum of the parts.
 * 0 x1, 1 the first part [rows, width]; the others follow, 2 output: the columns of x2, 3 scalar: the first of them,
 * 4 scalar: number of parts */
BLOCK_KERNEL(sum)
{
    const int64_t columns = SHAPE(2, 1), slices = INTEGER(4), all = SHAPE(2, 0) * columns,
                  row = SHAPE(1, 1), slice = SHAPE(1, 0) * row, split = block_split(all, slices),
                  start = INTEGER(3);
    const float *from = ARG(float, 0) + start, *parts = ARG(float, 1) + start;
    float *sums = BLOCK_SHARED, *to = ARG(float, 2);
    for (int64_t unit = BLOCK_ME; unit < all * split; unit += BLOCK_SIZE) {
        const int64_t at = unit % all, i = at / columns, c = at % columns;
        const float *part = parts + i * row + c;
        float sum = unit < all ? from[i * STRIDE(0, 0) + c] : 0;
        BLOCK_UNROLL_32
        for (int64_t s = unit / all; s < slices; s += split) {
            sum += part[s * slice];
        }
        if (split == 1) {
            to[i * STRIDE(2, 0) + c] = sum;
        } else {
            sums[unit] = sum;
        }
    }
    BLOCK_SYNC();
    for (int64_t at = BLOCK_ME; split > 1 && at < all; at += BLOCK_SIZE) {
        float sum = sums[at];
        for (int64_t s = 1; s < split; s++) {
            sum += sums[s * all + at];
        }
        to[at / columns * STRIDE(2, 0) + at % columns] = sum;
    }
}

/* Some columns of x2 = x1 + the parts of the experts of each row, times their shares.
 * 0 x1, 1 the first part [rows, width] of [groups, slices], 2 places, 3 shares, 4 output: the columns of x2, 5 scalar: the
 * first of them */
BLOCK_KERNEL(sum_experts)
{
    const int64_t rows = SHAPE(4, 0), columns = SHAPE(4, 1), slices = INTEGER(6),
                  all = rows * columns, chosen = SHAPE(2, 1), row = SHAPE(1, 1), slice = rows * row,
                  group = slices * slice, split = block_split(all, slices), start = INTEGER(5);
    const float *from = ARG(float, 0) + start, *parts = ARG(float, 1) + start,
                *shares = ARG(float, 3);
    const int32_t *places = ARG(int32_t, 2);
    float *sums = BLOCK_SHARED, *to = ARG(float, 4);
    for (int64_t unit = BLOCK_ME; unit < all * split; unit += BLOCK_SIZE) {
        const int64_t at = unit % all, i = at / columns, c = at % columns;
        float sum = unit < all ? from[i * STRIDE(0, 0) + c] : 0;
        for (int64_t j = i * chosen; j < (i + 1) * chosen; j++) {
            if (places[j] < 0) {
                continue;
            }
            const float *part = parts + places[j] / rows * group + places[j] % rows * row + c;
            float some = 0;
            BLOCK_UNROLL_32
            for (int64_t s = unit / all; s < slices; s += split) {
                some += part[s * slice];
            }
            sum += shares[j] * some;
        }
        if (split == 1) {
            to[i * STRIDE(4, 0) + c] = sum;
        } else {
            sums[unit] = sum;
        }
    }
    BLOCK_SYNC();
    for (int64_t at = BLOCK_ME; split > 1 && at < all; at += BLOCK_SIZE) {
        float sum = sums[at];
        for (int64_t s = 1; s < split; s++) {
            sum += sums[s * all + at];
        }
        to[at / columns * STRIDE(4, 0) + at % columns] = sum;
    }
}

/* Some columns of normalise(x) w, and for each row the largest of them and its index.
 * 0 x: its first columns, 1 weight, 2 w [width, columns], 3 output logits [rows, columns], 4 output largest
 * [rows], 5 output index [rows], 6 scalar: the first of the columns, then the other pieces of x */
BLOCK_KERNEL(logits)
{
    enum { LANES = 8 };
    const block_source from = {ARG(float, 0), STRIDE(0, 0), SHAPE(0, 0), SHAPE(2, 0), NULL, 1};
    const int64_t t = SHAPE(2, 1), r = block_rows(from.rows, from.columns, t), start = INTEGER(6);
    const block_matrix w = {ARG(float, 2), from.columns, STRIDE(2, 0), t, t, 0};
    float *x = BLOCK_SHARED, *sums = x + BLOCK_X, *to = ARG(float, 3), *largest = ARG(float, 4),
          *best = x;
    int32_t *index = ARG(int32_t, 5), *which = (int32_t *)(void *)(x + LANES * BLOCK_ROWS);
    for (int64_t first = 0; first < from.rows; first += r) {
        const int64_t n = block_least(r, from.rows - first);
        block_take(&from, first, r, ARG(float, 1), x, sums);
        block_product(r, x, w, sums);
        for (int64_t at = BLOCK_ME; at < n * t; at += BLOCK_SIZE) {
            to[(first + at / t) * STRIDE(3, 0) + at % t] = sums[at % t * r + at / t];
        }
        for (int64_t at = BLOCK_ME; at < n * LANES; at += BLOCK_SIZE) {
            float number = 0;
            int32_t column = -1;
            for (int64_t c = at % LANES; c < t; c += LANES) {
                block_better(sums[c * r + at / LANES], (int32_t)(start + c), &number, &column);
            }
            best[at] = number;
            which[at] = column;
        }
        BLOCK_SYNC();
        for (int64_t i = BLOCK_ME; i < n; i += BLOCK_SIZE) {
            float number = 0;
            int32_t column = -1;
            for (int64_t at = i * LANES; at < (i + 1) * LANES; at++) {
                if (which[at] >= 0) {
                    block_better(best[at], which[at], &number, &column);
                }
            }
            largest[first + i] = number;
            index[first + i] = column;
        }
    }
}

/* The best column of each row.   0 largest [tiles, rows], 1 index [tiles, rows], 2 output tokens [rows] */
BLOCK_KERNEL(pick)
{
    enum { LANES = 16 };
    const int64_t tiles = SHAPE(0, 0), rows = SHAPE(0, 1), largest_row = STRIDE(0, 0),
                  index_row = STRIDE(1, 0);
    const float *largest = ARG(float, 0);
    const int32_t *index = ARG(int32_t, 1);
    int32_t *tokens = ARG(int32_t, 2);
    float *best = BLOCK_SHARED;
    int32_t *which = (int32_t *)(void *)(best + LANES * BLOCK_ROWS);
    for (int64_t first = 0; first < rows; first += BLOCK_ROWS) {
        const int64_t n = block_least(BLOCK_ROWS, rows - first);
        BLOCK_SYNC();
        for (int64_t at = BLOCK_ME; at < n * LANES; at += BLOCK_SIZE) {
            float number = 0;
            int32_t column = -1;
            for (int64_t tile = at / n; tile < tiles; tile += LANES) {
                block_better(largest[tile * largest_row + first + at % n],
                             index[tile * index_row + first + at % n], &number, &column);
            }
            best[at] = number;
            which[at] = column;
        }
        BLOCK_SYNC();
        for (int64_t i = BLOCK_ME; i < n; i += BLOCK_SIZE) {
            float number = 0;
            int32_t column = -1;
            for (int64_t at = i; at < n * LANES; at += n) {
                if (which[at] >= 0) {
                    block_better(best[at], which[at], &number, &column);
                }
            }
            tokens[first + i] = column;
        }
    }
}

/* X(name, worker type) */
#define DECODE_BLOCK_KERNELS(X)                                                                    \
    X(join, PTO_VECTOR)                                                                            \
    X(embed, PTO_VECTOR)                                                                           \
    X(project, PTO_CUBE)                                                                           \
    X(attend, PTO_VECTOR)                                                                          \
    X(mix, PTO_VECTOR)                                                                             \
    X(mix_route, PTO_VECTOR)                                                                       \
    X(feed, PTO_CUBE)                                                                              \
    X(feed_expert, PTO_CUBE)                                                                       \
    X(sum, PTO_VECTOR)                                                                             \
    X(sum_experts, PTO_VECTOR)                                                                     \
    X(logits, PTO_CUBE)                                                                            \
    X(pick, PTO_VECTOR)

#endif /* DECODE_BLOCK_H */
