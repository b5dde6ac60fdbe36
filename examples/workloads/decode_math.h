/* decode_math.h - what the kernels of decode_block.h are made of, in C and in CUDA: products of a few rows
 * with a matrix, and rows in shared memory.
 *
 * One block of threads runs a task. decode.cu includes this header and makes device functions of it;
 * decode_block.c makes C functions of it, for which a block is one thread. So a simulated device runs the
 * same source as the GPU.
 *
 * A product of a few rows with a matrix is limited by reading the matrix. Here each number of it is read once
 * for up to 8 rows, whole lines at a time:
 *
 *     thread          (4 columns, every S-th row of the matrix) for all rows of x. Its loads do not depend on each
 *                     other: while 8 of 16 bytes are used, the next 8 are under way
 *     x               in shared memory, transposed: the 8 numbers of a column are adjacent
 *     sums            of the S threads of a column are added in order, so a result repeats bit for bit. Where
 *                     there is room, it does not depend on the number of rows either
 *     normalised x    only multiplied by the weight: a row of the product is scaled, when the squares are known
 */
#ifndef DECODE_MATH_H
#define DECODE_MATH_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <pto/kernel.h>

#include "decode_stages.h"

#ifdef __cplusplus /* CUDA, or its emulation */
#define BLOCK_FUNCTION static __device__ __forceinline__
#define BLOCK_ME (static_cast<int>(threadIdx.x))
#define BLOCK_SIZE (static_cast<int>(blockDim.x))
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
static _Thread_local _Alignas(64) float block_shared[28160];
#define BLOCK_FUNCTION static inline
#define BLOCK_ME 0
#define BLOCK_SIZE 1
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
#define BLOCK_IS_SHARED(at) __builtin_assume(__isShared(at))
#define BLOCK_RSQRT(x) rsqrtf(x)
#define BLOCK_UNROLL _Pragma("unroll")
#define BLOCK_ROLLED _Pragma("unroll 1") /* of loops that most threads go through once */
#define BLOCK_UNROLL_8 _Pragma("unroll 8")
#define BLOCK_UNROLL_16 _Pragma("unroll 16")
#else
#ifdef __cplusplus
#define BLOCK_OUTLINE static inline __device__
#else
#define BLOCK_OUTLINE static inline
#endif
#define BLOCK_IS_SHARED(at) ((void)0)
#define BLOCK_RSQRT(x) (1 / sqrtf(x))
#define BLOCK_UNROLL
#define BLOCK_ROLLED
#define BLOCK_UNROLL_8
#define BLOCK_UNROLL_16
#endif

#define BLOCK_ROWS 8 /* rows of x at a time */

/* Shared memory, in floats: rows of x, transposed, and sums behind them; what else a kernel needs; squares. It is less
 * than could be had, since the rest of that memory is the first-level cache, through which a matrix comes. */
#define BLOCK_ARENA DECODE_ARENA
#define BLOCK_MORE 7424 /* of kernels that route or turn */
#define BLOCK_LANES 32  /* sums of squares of a row */
#define BLOCK_MOST 256  /* threads */
#define BLOCK_SQUARES (BLOCK_ROWS * (BLOCK_LANES + BLOCK_MOST))
#define BLOCK_FLOATS (BLOCK_ARENA + BLOCK_MORE + BLOCK_SQUARES)
#ifndef __cplusplus
_Static_assert(sizeof block_shared == BLOCK_FLOATS * sizeof(float), "all of it");
#endif

#define BLOCK_EPSILON 1e-5f /* DECODE_EPSILON */

BLOCK_FUNCTION int64_t block_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Products ------------------------------------------------------------------------------- */

/* A matrix of `k` rows that lie `ld` apart. */
typedef struct block_matrix {
    const float *at;
    int64_t k, ld, columns;
} block_matrix;

/* Four floats at a multiple of 16 bytes, by one load; or one. once: they are read once, so they are the first that the
 * second-level cache gives up. */
BLOCK_FUNCTION void block_load_of(const int q, const bool once, const float *from, float *to)
{
#ifdef __CUDA_ARCH__
    if (q == 4) {
        const float4 *at = reinterpret_cast<const float4 *>(from);
        const float4 four = once ? __ldcs(at) : *at;
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
        return;
    }
#else
    (void)once;
#endif
    BLOCK_UNROLL
    for (int i = 0; i < q; i++) {
        to[i] = from[i];
    }
}

BLOCK_FUNCTION void block_load(const int q, const float *from, float *to)
{
    block_load_of(q, false, from, to);
}

BLOCK_FUNCTION void block_store(const int q, const float *from, float *to)
{
#ifdef __CUDA_ARCH__
    if (q == 4) {
        *reinterpret_cast<float4 *>(to) = make_float4(from[0], from[1], from[2], from[3]);
        return;
    }
#endif
    BLOCK_UNROLL
    for (int i = 0; i < q; i++) {
        to[i] = from[i];
    }
}

/* Loads of a matrix that are under way; while these are used, as many more. */
#define BLOCK_AHEAD 8

/* Adds number j of row k of a matrix, times number i of column k of x, to sum[i][j]. */
BLOCK_FUNCTION void block_add_row(const int r, const int q, const float *x, int k,
                                  const float *number, float (*sum)[4])
{
    float mine[BLOCK_ROWS];
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

/* What a thread adds: rows part, part + split ... of q columns. */
BLOCK_FUNCTION void block_add_rows(const int r, const int q, const float *x, const float *from,
                                   int64_t ld, int part, int split, int k_end, float (*sum)[4])
{
    const int batch = BLOCK_AHEAD * split;
    const int64_t step = split * ld;
    float now[BLOCK_AHEAD][4], next[BLOCK_AHEAD][4];
    int k = part;
    from += part * ld;
    if (k + batch - split < k_end) {
        BLOCK_UNROLL
        for (int a = 0; a < BLOCK_AHEAD; a++) {
            block_load_of(q, true, from + a * step, now[a]);
        }
        BLOCK_ROLLED
        for (; k + 2 * batch - split < k_end; k += batch) {
            from += BLOCK_AHEAD * step;
            BLOCK_UNROLL
            for (int a = 0; a < BLOCK_AHEAD; a++) {
                block_load_of(q, true, from + a * step, next[a]);
            }
            BLOCK_UNROLL
            for (int a = 0; a < BLOCK_AHEAD; a++) {
                block_add_row(r, q, x, k + a * split, now[a], sum);
                BLOCK_UNROLL
                for (int j = 0; j < q; j++) {
                    now[a][j] = next[a][j];
                }
            }
        }
        BLOCK_UNROLL
        for (int a = 0; a < BLOCK_AHEAD; a++) {
            block_add_row(r, q, x, k + a * split, now[a], sum);
        }
        from += BLOCK_AHEAD * step;
        k += batch;
    }
    if (k < k_end) { /* fewer are left */
        BLOCK_UNROLL
        for (int a = 0; a < BLOCK_AHEAD; a++) {
            block_load_of(q, true, k + a * split < k_end ? from + a * step : from, now[a]);
        }
        BLOCK_UNROLL
        for (int a = 0; a < BLOCK_AHEAD; a++) {
            if (k + a * split < k_end) {
                block_add_row(r, q, x, k + a * split, now[a], sum);
            }
        }
    }
}

/* By what row i is multiplied so that the mean of its `columns` squares is 1. */
BLOCK_FUNCTION float block_scale(const float *squares, int i, int columns)
{
    float sum[4] = {0, 0, 0, 0};
    BLOCK_UNROLL
    for (int lane = 0; lane < BLOCK_LANES; lane += 4) {
        float some[4];
        block_load(4, squares + i * BLOCK_LANES + lane, some);
        BLOCK_UNROLL
        for (int j = 0; j < 4; j++) {
            sum[j] += some[j];
        }
    }
    return BLOCK_RSQRT((sum[0] + sum[1] + (sum[2] + sum[3])) / (float)columns + BLOCK_EPSILON);
}

/* sums[i * columns + c] = row i of x times column c, for r rows and q adjacent columns a thread. x is [k][r]. With
 * squares (block_take), rows of x are normalised: a row of the product is scaled instead. The
 * block ends together. (Neighbours store next to each other, 16 bytes each: by column, all would store to one bank.) */
BLOCK_FUNCTION void block_product_of(const int r, const int q, const float *x, block_matrix w,
                                     const float *squares, float *sums)
{
    BLOCK_IS_SHARED(x);
    BLOCK_IS_SHARED(sums);
    const int columns = (int)w.columns, groups = columns / q, all = columns * r, k_end = (int)w.k;
    const int room = (int)(x + BLOCK_ARENA - sums);
    int split = (int)block_least(block_least(BLOCK_SIZE / groups, room / all), w.k);
    split = split > 64 ? 64 : split > 1 ? split : 1; /* more would take long to add */
    BLOCK_ROLLED
    for (int unit = BLOCK_ME; unit < groups * split; unit += BLOCK_SIZE) {
        const int c = unit % groups * q, part = unit / groups;
        float sum[BLOCK_ROWS][4];
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            BLOCK_UNROLL
            for (int j = 0; j < q; j++) {
                sum[i][j] = 0;
            }
        }
        block_add_rows(r, q, x, w.at + c, w.ld, part, split, k_end, sum);
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            block_store(q, sum[i], sums + part * all + i * columns + c);
        }
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int at = BLOCK_ME * q; (split > 1 || squares) && at < all; at += BLOCK_SIZE * q) {
        float sum[4];
        block_load(q, sums + at, sum);
        BLOCK_UNROLL_8
        for (int part = 1; part < split; part++) {
            float more[4];
            block_load(q, sums + part * all + at, more);
            BLOCK_UNROLL
            for (int j = 0; j < q; j++) {
                sum[j] += more[j];
            }
        }
        const float scale = squares ? block_scale(squares, at / columns, k_end) : 1;
        BLOCK_UNROLL
        for (int j = 0; j < q; j++) {
            sum[j] *= scale;
        }
        block_store(q, sum, sums + at);
    }
    BLOCK_SYNC();
}

#define BLOCK_PRODUCT(r, q)                                                                        \
    BLOCK_OUTLINE void block_product_##r##_##q(const float *x, block_matrix w,                     \
                                               const float *squares, float *sums)                  \
    {                                                                                              \
        block_product_of(r, q, x, w, squares, sums);                                               \
    }
BLOCK_PRODUCT(1, 1)
BLOCK_PRODUCT(1, 4)
BLOCK_PRODUCT(4, 1)
BLOCK_PRODUCT(4, 4)
BLOCK_PRODUCT(8, 1)
BLOCK_PRODUCT(8, 4)

BLOCK_OUTLINE void block_product(int64_t r, const float *x, block_matrix w, const float *squares,
                                 float *sums)
{
    const bool four = (w.columns | w.ld) % 4 == 0 && (uintptr_t)w.at % 16 == 0;
    if (r == 8) {
        if (four) {
            block_product_8_4(x, w, squares, sums);
        } else {
            block_product_8_1(x, w, squares, sums);
        }
    } else if (r == 4) {
        if (four) {
            block_product_4_4(x, w, squares, sums);
        } else {
            block_product_4_1(x, w, squares, sums);
        }
    } else {
        if (four) {
            block_product_1_4(x, w, squares, sums);
        } else {
            block_product_1_1(x, w, squares, sums);
        }
    }
}

/* How many of `rows` rows to take at a time, for products of k numbers and so many columns: 1, 4 or 8. There is room for
 * one (decode_cut.c). */
BLOCK_FUNCTION int64_t block_rows(int64_t rows, int64_t k, int64_t columns)
{
    int64_t r = rows > 4 ? 8 : rows > 1 ? 4 : 1;
    while (r > 1 && (k + columns) * r > BLOCK_ARENA) {
        r = r == 8 ? 4 : 1;
    }
    return r;
}

/* ---- Memory that is read later ---- */

/* Asks for `floats` floats at a multiple of 16 bytes: they are on their way to the second-level cache while the block
 * does something else. They are read once, so they do not displace others there. One thread, the last one, does it. */
BLOCK_FUNCTION void block_expect(const float *from, int64_t floats)
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    if (BLOCK_ME == BLOCK_SIZE - 1 && floats >= 4) {
        uint64_t policy;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(
                         __cvta_generic_to_global(from)),
                     "r"((uint32_t)(floats / 4 * 16)), "l"(policy)
                     : "memory");
    }
#else
    (void)from;
    (void)floats;
#endif
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* Where block_take leaves sums of squares, in the shared memory of a kernel. */
BLOCK_FUNCTION float *block_squares(float *x)
{
    return x + BLOCK_ARENA + BLOCK_MORE;
}

/* What follows r rows of x with k numbers each: sums. */
BLOCK_FUNCTION float *block_behind(float *x, int64_t r, int64_t k)
{
    return x + (r * k + 3) / 4 * 4; /* at a multiple of 16 bytes */
}

/* Rows of numbers in memory: row i is that of the matrix at list[i], or without a list at i. */
typedef struct block_source {
    const float *at;
    int64_t stride, rows, columns;
    const int32_t *list;
} block_source;

/* Rows first .. first + r - 1 into shared memory, transposed; zeros where there is none. With a weight each number is
 * multiplied by it, and sums of squares of what it was are left in `squares`: BLOCK_LANES of each row, not before the
 * block has come together once more. */
BLOCK_FUNCTION void block_take_of(const int r, const block_source *s, int64_t first,
                                  const float *weight, float *x, float *squares)
{
    BLOCK_IS_SHARED(x);
    BLOCK_IS_SHARED(squares);
    enum { EACH = 2 }; /* columns of a thread that are under way */
    const int n = (int)block_least(r, s->rows - first), columns = (int)s->columns,
              size = BLOCK_SIZE, me = BLOCK_ME;
    float *mine = squares + BLOCK_ROWS * BLOCK_LANES;
    const float *row[BLOCK_ROWS];
    float square[BLOCK_ROWS];
    BLOCK_UNROLL
    for (int i = 0; i < r; i++) {
        const int64_t number = first + (i < n ? i : 0);
        row[i] = s->at + (s->list ? s->list[number] : number) * s->stride;
        square[i] = 0;
    }
    BLOCK_SYNC(); /* the last product was read */
    BLOCK_ROLLED
    for (int c = me; c < columns; c += EACH * size) {
        float factor[EACH], number[EACH][BLOCK_ROWS];
        BLOCK_UNROLL
        for (int e = 0; e < EACH; e++) {
            const int at = c + e * size < columns ? c + e * size : c;
            factor[e] = weight ? weight[at] : 1;
            BLOCK_UNROLL
            for (int i = 0; i < r; i++) {
                number[e][i] = i < n ? row[i][at] : 0;
            }
        }
        BLOCK_UNROLL
        for (int e = 0; e < EACH; e++) {
            if (c + e * size >= columns) {
                continue;
            }
            BLOCK_UNROLL
            for (int i = 0; i < r; i++) {
                square[i] += number[e][i] * number[e][i];
                number[e][i] *= factor[e];
            }
            BLOCK_UNROLL
            for (int i = 0; i < r; i += 4) {
                block_store(r < 4 ? r : 4, number[e] + i, x + (c + e * size) * r + i);
            }
        }
    }
    if (weight) {
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            mine[i * size + me] = square[i];
        }
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int at = me; weight && at < r * BLOCK_LANES; at += size) {
        const float *its = mine + at / BLOCK_LANES * size;
        float sum = 0;
        BLOCK_UNROLL_8
        for (int thread = at % BLOCK_LANES; thread < size; thread += BLOCK_LANES) {
            sum += its[thread];
        }
        squares[at] = sum;
    }
}

#define BLOCK_TAKE(r)                                                                              \
    BLOCK_OUTLINE void block_take_##r(const block_source *s, int64_t first, const float *weight,   \
                                      float *x, float *squares)                                    \
    {                                                                                              \
        block_take_of(r, s, first, weight, x, squares);                                            \
    }
BLOCK_TAKE(1)
BLOCK_TAKE(4)
BLOCK_TAKE(8)

BLOCK_OUTLINE void block_take(const block_source *s, int64_t first, int64_t r, const float *weight,
                              float *x, float *squares)
{
    if (r == 8) {
        block_take_8(s, first, weight, x, squares);
    } else if (r == 4) {
        block_take_4(s, first, weight, x, squares);
    } else {
        block_take_1(s, first, weight, x, squares);
    }
}

/* ---- Sums of parts -------------------------------------------------------------------------- */

/* How many threads share a group of adjacent elements of a sum over `count` parts. */
BLOCK_FUNCTION int64_t block_split(int64_t groups, int64_t elements, int64_t count)
{
    const int64_t split = block_least(
        block_least(BLOCK_SIZE / (int)groups, BLOCK_ARENA / (int)elements), count);
    return split > 1 ? split : 1;
}

/* The largest of numbers and the first index that has it, of one lane after the other. */
BLOCK_FUNCTION void block_better(float number, int32_t index, float *best, int32_t *which)
{
    if (*which < 0 || number > *best || (number == *best && index < *which)) {
        *best = number;
        *which = index;
    }
}

#endif /* DECODE_MATH_H */
