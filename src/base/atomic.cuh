/* atomic.cuh - atomic.h for code that runs on an NVIDIA device (sm_70 and newer), in PTX.
 *
 * The other side may be the host, so every operation has system scope. PTX has no sequentially
 * consistent loads and exchanges: each is a fence.sc and then an acquire, or acquire-release,
 * operation.
 */
#ifndef PTOI_ATOMIC_CUH
#define PTOI_ATOMIC_CUH

#ifdef __CUDACC_RTC__
#error "device code of this project is compiled by nvcc or clang"
#endif
#ifndef __NVCC__ /* clang without a toolkit */
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#endif

#define PTOI_INLINE static inline __device__
#define _Static_assert static_assert
#define PTOI_SCOPE "sys"

#define PTOI_ATOMIC_OF(bits, reg)                                                                  \
    typedef struct ptoi_a##bits {                                                                  \
        uint##bits##_t value;                                                                      \
    } ptoi_a##bits;                                                                                \
                                                                                                   \
    PTOI_INLINE uint##bits##_t ptoi_get##bits(const ptoi_a##bits *a)                               \
    {                                                                                              \
        uint##bits##_t value;                                                                      \
        asm volatile("ld.relaxed." PTOI_SCOPE ".u" #bits " %0, [%1];"                              \
                     : "=" reg(value)                                                              \
                     : "l"(&a->value)                                                              \
                     : "memory");                                                                  \
        return value;                                                                              \
    }                                                                                              \
    PTOI_INLINE void ptoi_set##bits(ptoi_a##bits *a, uint##bits##_t value)                         \
    {                                                                                              \
        asm volatile("st.relaxed." PTOI_SCOPE ".u" #bits " [%0], %1;" ::"l"(&a->value), reg(value) \
                     : "memory");                                                                  \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_acquire##bits(const ptoi_a##bits *a)                           \
    {                                                                                              \
        uint##bits##_t value;                                                                      \
        asm volatile("ld.acquire." PTOI_SCOPE ".u" #bits " %0, [%1];"                              \
                     : "=" reg(value)                                                              \
                     : "l"(&a->value)                                                              \
                     : "memory");                                                                  \
        return value;                                                                              \
    }                                                                                              \
    PTOI_INLINE void ptoi_release##bits(ptoi_a##bits *a, uint##bits##_t value)                     \
    {                                                                                              \
        asm volatile("st.release." PTOI_SCOPE ".u" #bits " [%0], %1;" ::"l"(&a->value), reg(value) \
                     : "memory");                                                                  \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_load_sc##bits(const ptoi_a##bits *a)                           \
    {                                                                                              \
        asm volatile("fence.sc." PTOI_SCOPE ";" ::: "memory");                                     \
        return ptoi_acquire##bits(a);                                                              \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_exchange##bits(ptoi_a##bits *a, uint##bits##_t value)          \
    {                                                                                              \
        uint##bits##_t before;                                                                     \
        asm volatile("fence.sc." PTOI_SCOPE ";\n\t"                                                \
                     "atom.acq_rel." PTOI_SCOPE ".exch.b" #bits " %0, [%1], %2;"                   \
                     : "=" reg(before)                                                             \
                     : "l"(&a->value), reg(value)                                                  \
                     : "memory");                                                                  \
        return before;                                                                             \
    }                                                                                              \
    PTOI_INLINE bool ptoi_cas##bits(ptoi_a##bits *a, uint##bits##_t *expected,                     \
                                    uint##bits##_t desired)                                        \
    {                                                                                              \
        uint##bits##_t before;                                                                     \
        asm volatile("atom.acq_rel." PTOI_SCOPE ".cas.b" #bits " %0, [%1], %2, %3;"                \
                     : "=" reg(before)                                                             \
                     : "l"(&a->value), reg(*expected), reg(desired)                                \
                     : "memory");                                                                  \
        const bool done = before == *expected;                                                     \
        *expected = before;                                                                        \
        return done;                                                                               \
    }

PTOI_ATOMIC_OF(32, "r")
PTOI_ATOMIC_OF(64, "l")

/* Hint to the multiprocessor: this thread spins. */
PTOI_INLINE void ptoi_relax(void)
{
    asm volatile("nanosleep.u32 20;" ::: "memory");
}

#endif /* PTOI_ATOMIC_CUH */
