/* cuda_runtime.h - CUDA for a CPU, as far as <pto/cuda.cuh> and the grid need it: a block is a thread of the process,
 * and its threads are fibers (fibers.cc), so that all that lanes of a warp do together is what they do on a GPU.
 * Fibers take turns at random, also at any atomic access. Blocks are real threads.
 *
 * Memory orders are those of the CPU: what this shows is the work of 32 lanes, not missing fences. */
#ifndef LANES_CUDA_RUNTIME_H
#define LANES_CUDA_RUNTIME_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ thread_local
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(threads, blocks)

struct lanes_index {
    unsigned x;
};

extern thread_local lanes_index threadIdx, blockDim;

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

typedef struct alignas(16) ulonglong2 {
    unsigned long long x, y;
} ulonglong2;

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}

static inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y)
{
    return {x, y};
}

/* ---- Fibers (fibers.cc) ---- */

void lanes_relax();     /* lets others run */
void lanes_point();     /* the same, now and then */
uint64_t lanes_clock(); /* ns */

/* All lanes of `mask` meet. Each gives a value, and has all of them afterwards. */
void lanes_meet(uint32_t mask, uint64_t value, uint64_t values[32]);

void __syncthreads();

static inline void __syncwarp(uint32_t mask = 0xffffffffu)
{
    uint64_t values[32];
    lanes_meet(mask, 0, values);
}

template <class T> static inline T lanes_of(const uint64_t values[32], uint32_t lane)
{
    T value;
    std::memcpy(&value, &values[lane % 32], sizeof value);
    return value;
}

template <class T> static inline void lanes_give(uint32_t mask, T value, uint64_t values[32])
{
    static_assert(sizeof value <= sizeof(uint64_t), "a value is one word");
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    lanes_meet(mask, word, values);
}

template <class T> static inline T __shfl_sync(uint32_t mask, T value, int lane)
{
    uint64_t values[32];
    lanes_give(mask, value, values);
    return lanes_of<T>(values, static_cast<uint32_t>(lane));
}

template <class T> static inline T __shfl_xor_sync(uint32_t mask, T value, uint32_t apart)
{
    uint64_t values[32];
    lanes_give(mask, value, values);
    return lanes_of<T>(values, threadIdx.x % 32 ^ apart);
}

static inline uint32_t __ballot_sync(uint32_t mask, bool value)
{
    uint64_t values[32];
    uint32_t votes = 0;
    lanes_meet(mask, value, values);
    for (uint32_t i = 0; i < 32; i++) {
        votes |= (mask >> i & 1 && values[i] ? 1u : 0u) << i;
    }
    return votes;
}

static inline bool __any_sync(uint32_t mask, bool value)
{
    return __ballot_sync(mask, value) != 0;
}

static inline bool __all_sync(uint32_t mask, bool value)
{
    return __ballot_sync(mask, value) == mask;
}

template <class T> static inline uint32_t __match_any_sync(uint32_t mask, T value)
{
    uint64_t values[32];
    uint32_t same = 0;
    lanes_give(mask, value, values);
    for (uint32_t i = 0; i < 32; i++) {
        same |= (mask >> i & 1 && values[i] == values[threadIdx.x % 32] ? 1u : 0u) << i;
    }
    return same;
}

static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

static inline int __clz(int bits)
{
    return bits ? __builtin_clz(static_cast<unsigned>(bits)) : 32;
}

static inline double __longlong_as_double(long long bits)
{
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int atomicCAS(int *at, int expected, int desired)
{
    lanes_point();
    __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

/* ---- The runtime ---- */

typedef int cudaError_t;
typedef void *cudaStream_t;
enum { cudaDevAttrMultiProcessorCount, cudaFuncAttributeMaxDynamicSharedMemorySize };

struct cudaFuncAttributes {
    int unused;
};

struct dim3 {
    unsigned x;
    explicit dim3(unsigned n) : x(n)
    {
    }
};

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *code);
cudaError_t cudaFuncSetAttribute(const void *code, int attribute, int value);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *fit, const void *code, int threads,
                                                          size_t shared);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
cudaError_t cudaLaunchCooperativeKernel(const void *code, dim3 blocks, dim3 threads,
                                        void **arguments, size_t shared, cudaStream_t stream);
const char *cudaGetErrorString(cudaError_t error);

/* ---- Atomic words, instead of those of base/atomic.cuh ---- */

#define PTOI_ATOMIC_CUH
#define PTOI_INLINE static inline
#define PTOI_COLD static __attribute__((noinline, unused))
#define PTOI_OUTLINE PTOI_COLD
#define _Static_assert static_assert
#define _Alignas alignas

#define PTOI_ATOMIC_OF(bits)                                                                       \
    typedef struct ptoi_a##bits {                                                                  \
        uint##bits##_t value;                                                                      \
    } ptoi_a##bits;                                                                                \
                                                                                                   \
    PTOI_INLINE uint##bits##_t ptoi_get##bits(const ptoi_a##bits *a)                               \
    {                                                                                              \
        lanes_point();                                                                             \
        return __atomic_load_n(&a->value, __ATOMIC_SEQ_CST);                                       \
    }                                                                                              \
    PTOI_INLINE void ptoi_set##bits(ptoi_a##bits *a, uint##bits##_t value)                         \
    {                                                                                              \
        lanes_point();                                                                             \
        __atomic_store_n(&a->value, value, __ATOMIC_SEQ_CST);                                      \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_exchange##bits(ptoi_a##bits *a, uint##bits##_t value)          \
    {                                                                                              \
        lanes_point();                                                                             \
        return __atomic_exchange_n(&a->value, value, __ATOMIC_SEQ_CST);                            \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_fetch_add##bits(ptoi_a##bits *a, uint##bits##_t amount)        \
    {                                                                                              \
        lanes_point();                                                                             \
        return __atomic_fetch_add(&a->value, amount, __ATOMIC_SEQ_CST);                            \
    }                                                                                              \
    PTOI_INLINE bool ptoi_cas##bits(ptoi_a##bits *a, uint##bits##_t *expected,                     \
                                    uint##bits##_t desired)                                        \
    {                                                                                              \
        lanes_point();                                                                             \
        return __atomic_compare_exchange_n(&a->value, expected, desired, false, __ATOMIC_SEQ_CST,  \
                                           __ATOMIC_SEQ_CST);                                      \
    }

PTOI_ATOMIC_OF(32)
PTOI_ATOMIC_OF(64)

#define ptoi_acquire32 ptoi_get32
#define ptoi_acquire64 ptoi_get64
#define ptoi_release32 ptoi_set32
#define ptoi_release64 ptoi_set64
#define ptoi_own32 ptoi_get32
#define ptoi_own64 ptoi_get64
#define ptoi_glance64 ptoi_get64
#define ptoi_follow32 ptoi_set32
#define ptoi_follow64 ptoi_set64
#define ptoi_draw32 ptoi_fetch_add32
#define ptoi_far_get32 ptoi_get32
#define ptoi_far_get64 ptoi_get64
#define ptoi_far_set32 ptoi_set32
#define ptoi_far_set64 ptoi_set64
#define ptoi_far_acquire32 ptoi_get32
#define ptoi_far_acquire64 ptoi_get64
#define ptoi_far_await32 ptoi_get32
#define ptoi_far_await64 ptoi_get64
#define ptoi_far_release32 ptoi_set32
#define ptoi_far_release64 ptoi_set64
#define ptoi_far_follow64 ptoi_set64

PTOI_INLINE void ptoi_fence(void)
{
    lanes_point();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

PTOI_INLINE void ptoi_far_fence(void)
{
    ptoi_fence();
}

PTOI_INLINE uint64_t ptoi_far_word(const uint64_t *from)
{
    lanes_point();
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

PTOI_INLINE uint32_t ptoi_far_half(const uint32_t *from)
{
    lanes_point();
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

PTOI_INLINE ulonglong2 ptoi_far_pair(const uint64_t *from)
{
    lanes_point();
    return make_ulonglong2(__atomic_load_n(from, __ATOMIC_RELAXED),
                           __atomic_load_n(from + 1, __ATOMIC_RELAXED));
}

PTOI_INLINE void ptoi_relax(void)
{
    lanes_relax();
}

#endif /* LANES_CUDA_RUNTIME_H */
