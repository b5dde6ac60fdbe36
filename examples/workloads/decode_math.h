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
 *                     other: 8 of 16 bytes are under way at a time
 *     x               in shared memory, transposed: the 8 numbers of a column are adjacent
 *     sums            of the S threads of a column are added in order, so a result repeats bit for bit. It
 *                     does not depend on the number of rows either
 */
#ifndef DECODE_MATH_H
#define DECODE_MATH_H

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
static _Thread_local _Alignas(64) float block_shared[49664];
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
#define BLOCK_IS_SHARED(at) __builtin_assume(__isShared(at))
#define BLOCK_UNROLL _Pragma("unroll")
#define BLOCK_ROLLED _Pragma("unroll 1") /* of loops that most threads go through once */
#define BLOCK_UNROLL_4 _Pragma("unroll 4")
#define BLOCK_UNROLL_8 _Pragma("unroll 8")
#define BLOCK_UNROLL_16 _Pragma("unroll 16")
#else
#ifdef __cplusplus
#define BLOCK_OUTLINE static inline __device__
#else
#define BLOCK_OUTLINE static inline
#endif
#define BLOCK_IS_SHARED(at) ((void)0)
#define BLOCK_UNROLL
#define BLOCK_ROLLED
#define BLOCK_UNROLL_4
#define BLOCK_UNROLL_8
#define BLOCK_UNROLL_16
#endif

/* Shared memory, in floats: rows of x, transposed; sums; what else a kernel needs. */
#define BLOCK_X INT64_C(16384)
#define BLOCK_SUMS INT64_C(20480)
#define BLOCK_MORE INT64_C(12800) /* of kernels that route */
#define BLOCK_FLOATS (BLOCK_X + BLOCK_SUMS + BLOCK_MORE)
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

/* A matrix of `k` rows that lie `ld` apart. */
typedef struct block_matrix {
    const float *at;
    int64_t k, ld, columns;
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

/* sums[i * columns + c] = row i of x times column c, for r rows and q adjacent columns a thread. x is [k][r]. The
 * block begins and ends together. (Neighbours store next to each other, 16 bytes each: by column, all would store to
 * one bank.) */
BLOCK_FUNCTION void block_product_of(const int r, const int q, const float *x, block_matrix w,
                                     float *sums)
{
    BLOCK_IS_SHARED(x);
    BLOCK_IS_SHARED(sums);
    const int columns = (int)w.columns, groups = columns / q, all = columns * r, k_end = (int)w.k;
    int split = (int)block_least(block_least(BLOCK_SIZE / groups, BLOCK_SUMS / all), w.k);
    split = split > 64 ? 64 : split > 1 ? split : 1; /* more would take long to add */
    BLOCK_ROLLED
    for (int unit = (int)BLOCK_ME; unit < groups * split; unit += (int)BLOCK_SIZE) {
        const int c = unit % groups * q, part = unit / groups;
        const float *from = w.at + c + part * w.ld;
        const int64_t step = split * w.ld;
        float sum[BLOCK_ROWS][4];
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            BLOCK_UNROLL
            for (int j = 0; j < q; j++) {
                sum[i][j] = 0;
            }
        }
        BLOCK_UNROLL_8
        for (int k = part; k < k_end; k += split) {
            float number[4], mine[BLOCK_ROWS];
            block_load(q, from, number);
            from += step;
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
            block_store(q, sum[i], sums + part * all + i * columns + c);
        }
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int at = (int)BLOCK_ME * q; split > 1 && at < all; at += (int)BLOCK_SIZE * q) {
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
        block_store(q, sum, sums + at);
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

BLOCK_OUTLINE void block_product(int64_t r, const float *x, block_matrix w, float *sums)
{
    const bool four = (w.columns | w.ld) % 4 == 0 && (uintptr_t)w.at % 16 == 0;
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

/* Rows of numbers in memory: row i is that of the matrix at list[i], or without a list at i. */
typedef struct block_source {
    const float *at;
    int64_t stride, rows, columns;
    const int32_t *list;
} block_source;

/* Row i of x in shared memory is scaled so that its mean square is 1. Each thread has left the sum of its squares of
 * row i in sums[i * BLOCK_SIZE + its number]. */
BLOCK_FUNCTION void block_normalise(const int r, int columns, float *x, float *sums)
{
    enum { LANES = 32 };
    const int me = (int)BLOCK_ME, size = (int)BLOCK_SIZE;
    float *some = sums + r * size, *scale = some + r * LANES;
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int at = me; at < r * LANES; at += size) {
        const float *row = sums + at / LANES * size;
        float square = 0;
        BLOCK_UNROLL_8
        for (int i = at % LANES; i < size; i += LANES) {
            square += row[i];
        }
        some[at % LANES * r + at / LANES] = square;
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int i = me; i < r; i += size) {
        float square = 0;
        BLOCK_UNROLL_8
        for (int lane = 0; lane < LANES; lane++) {
            square += some[lane * r + i];
        }
        scale[i] = 1 / sqrtf(square / (float)columns + BLOCK_EPSILON);
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int c = me; c < columns; c += size) {
        BLOCK_UNROLL
        for (int i = 0; i < r; i += 4) {
            const int q = r < 4 ? r : 4;
            float number[4];
            block_load(q, x + c * r + i, number);
            BLOCK_UNROLL
            for (int j = 0; j < q; j++) {
                number[j] *= scale[i + j];
            }
            block_store(q, number, x + c * r + i);
        }
    }
    BLOCK_SYNC();
}

/* Rows first .. first + r - 1 into shared memory, transposed; zeros where there is none. With a weight they
 * are normalised, and multiplied by it. */
BLOCK_FUNCTION void block_take_of(const int r, const block_source *s, int64_t first,
                                  const float *weight, float *x, float *sums)
{
    BLOCK_IS_SHARED(x);
    BLOCK_IS_SHARED(sums);
    const int n = (int)block_least(r, s->rows - first), columns = (int)s->columns;
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
    for (int c = (int)BLOCK_ME; c < columns; c += (int)BLOCK_SIZE) {
        const float factor = weight ? weight[c] : 1;
        float number[BLOCK_ROWS];
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            number[i] = i < n ? row[i][c] : 0;
        }
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            square[i] += number[i] * number[i];
            number[i] *= factor;
        }
        BLOCK_UNROLL
        for (int i = 0; i < r; i += 4) {
            block_store(r < 4 ? r : 4, number + i, x + c * r + i);
        }
    }
    if (weight) {
        BLOCK_UNROLL
        for (int i = 0; i < r; i++) {
            sums[i * (int)BLOCK_SIZE + (int)BLOCK_ME] = square[i];
        }
        block_normalise(r, columns, x, sums);
        return;
    }
    BLOCK_SYNC();
}

#define BLOCK_TAKE(r)                                                                              \
    BLOCK_OUTLINE void block_take_##r(const block_source *s, int64_t first, const float *weight,   \
                                      float *x, float *sums)                                       \
    {                                                                                              \
        block_take_of(r, s, first, weight, x, sums);                                               \
    }
BLOCK_TAKE(1)
BLOCK_TAKE(4)
BLOCK_TAKE(8)

BLOCK_OUTLINE void block_take(const block_source *s, int64_t first, int64_t r, const float *weight,
                              float *x, float *sums)
{
    if (r == 8) {
        block_take_8(s, first, weight, x, sums);
    } else if (r == 4) {
        block_take_4(s, first, weight, x, sums);
    } else {
        block_take_1(s, first, weight, x, sums);
    }
}

/* ---- Sums of parts -------------------------------------------------------------------------- */

/* How many threads share a group of adjacent elements of a sum over `count` parts. */
BLOCK_FUNCTION int64_t block_split(int64_t groups, int64_t elements, int64_t count)
{
    const int64_t split = block_least(block_least(BLOCK_SIZE / groups, BLOCK_SUMS / elements),
                                      count);
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
