/* atomic.cuh - atomic.h for code that runs on an NVIDIA device (sm_70 and newer), in PTX.
 *
 * States and queues are in memory of the device, and only its own threads touch them: these operations
 * have the scope of the device. Words that the host touches as well are far (atomic.h): those have
 * system scope. Nobody on the device sleeps, so nobody needs Dekker's pattern: an exchange and a
 * fetch_add are acquire-release, and there are no loads and stores that are sequentially consistent.
 */
#ifndef PTOI_ATOMIC_CUH
#define PTOI_ATOMIC_CUH

#ifdef __CUDACC_RTC__
#error "device code of this project is compiled by nvcc or clang"
#endif
#ifndef __NVCC__ /* clang without a toolkit */
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
typedef struct __attribute__((aligned(16))) ulonglong2 {
    unsigned long long x, y;
} ulonglong2;
#endif

#define PTOI_INLINE static inline __device__
#define PTOI_COLD static __device__ __noinline__ __attribute__((unused))
#define PTOI_OUTLINE PTOI_COLD
#define _Static_assert static_assert
#define _Alignas alignas
#define PTOI_SCOPE "gpu"

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
    PTOI_INLINE uint##bits##_t ptoi_own##bits(const ptoi_a##bits *a)                               \
    {                                                                                              \
        return a->value;                                                                           \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_glance##bits(const ptoi_a##bits *a)                            \
    {                                                                                              \
        return ptoi_get##bits(a);                                                                  \
    }                                                                                              \
    PTOI_INLINE void ptoi_follow##bits(ptoi_a##bits *a, uint##bits##_t value)                      \
    {                                                                                              \
        ptoi_set##bits(a, value);                                                                  \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_exchange##bits(ptoi_a##bits *a, uint##bits##_t value)          \
    {                                                                                              \
        uint##bits##_t before;                                                                     \
        asm volatile("fence.acq_rel." PTOI_SCOPE ";\n\t" /* also for ptoi_follow */                \
                     "atom.acquire." PTOI_SCOPE ".exch.b" #bits " %0, [%1], %2;"                   \
                     : "=" reg(before)                                                             \
                     : "l"(&a->value), reg(value)                                                  \
                     : "memory");                                                                  \
        return before;                                                                             \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_fetch_add##bits(ptoi_a##bits *a, uint##bits##_t amount)        \
    {                                                                                              \
        uint##bits##_t before;                                                                     \
        asm volatile("atom.acq_rel." PTOI_SCOPE ".add.u" #bits " %0, [%1], %2;"                    \
                     : "=" reg(before)                                                             \
                     : "l"(&a->value), reg(amount)                                                 \
                     : "memory");                                                                  \
        return before;                                                                             \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_draw##bits(ptoi_a##bits *a, uint##bits##_t amount)             \
    {                                                                                              \
        uint##bits##_t before;                                                                     \
        asm volatile("atom.relaxed." PTOI_SCOPE ".add.u" #bits " %0, [%1], %2;"                    \
                     : "=" reg(before)                                                             \
                     : "l"(&a->value), reg(amount)                                                 \
                     : "memory");                                                                  \
        return before;                                                                             \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_far_get##bits(const ptoi_a##bits *a)                           \
    {                                                                                              \
        uint##bits##_t value;                                                                      \
        asm volatile("ld.relaxed.sys.u" #bits " %0, [%1];"                                         \
                     : "=" reg(value)                                                              \
                     : "l"(&a->value)                                                              \
                     : "memory");                                                                  \
        return value;                                                                              \
    }                                                                                              \
    PTOI_INLINE void ptoi_far_set##bits(ptoi_a##bits *a, uint##bits##_t value)                     \
    {                                                                                              \
        asm volatile("st.relaxed.sys.u" #bits " [%0], %1;" ::"l"(&a->value), reg(value)            \
                     : "memory");                                                                  \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_far_acquire##bits(const ptoi_a##bits *a)                       \
    {                                                                                              \
        return ptoi_far_get##bits(a);                                                              \
    }                                                                                              \
    PTOI_INLINE uint##bits##_t ptoi_far_await##bits(const ptoi_a##bits *a)                         \
    {                                                                                              \
        uint##bits##_t value;                                                                      \
        asm volatile("ld.acquire.sys.u" #bits " %0, [%1];"                                         \
                     : "=" reg(value)                                                              \
                     : "l"(&a->value)                                                              \
                     : "memory");                                                                  \
        return value;                                                                              \
    }                                                                                              \
    PTOI_INLINE void ptoi_far_release##bits(ptoi_a##bits *a, uint##bits##_t value)                 \
    {                                                                                              \
        asm volatile("st.release.sys.u" #bits " [%0], %1;" ::"l"(&a->value), reg(value)            \
                     : "memory");                                                                  \
    }                                                                                              \
    PTOI_INLINE void ptoi_far_follow##bits(ptoi_a##bits *a, uint##bits##_t value)                  \
    {                                                                                              \
        ptoi_far_set##bits(a, value);                                                              \
    }                                                                                              \
    PTOI_INLINE bool ptoi_cas##bits(ptoi_a##bits *a, uint##bits##_t *expected,                     \
                                    uint##bits##_t desired)                                        \
    {                                                                                              \
        uint##bits##_t before;                                                                     \
        asm volatile("fence.acq_rel." PTOI_SCOPE ";\n\t" /* also for ptoi_glance */                \
                     "atom.acquire." PTOI_SCOPE ".cas.b" #bits " %0, [%1], %2, %3;"                \
                     : "=" reg(before)                                                             \
                     : "l"(&a->value), reg(*expected), reg(desired)                                \
                     : "memory");                                                                  \
        const bool done = before == *expected;                                                     \
        *expected = before;                                                                        \
        return done;                                                                               \
    }

PTOI_ATOMIC_OF(32, "r")
PTOI_ATOMIC_OF(64, "l")

PTOI_INLINE void ptoi_fence(void)
{
    asm volatile("fence.acq_rel." PTOI_SCOPE ";" ::: "memory");
}

PTOI_INLINE void ptoi_far_fence(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

PTOI_INLINE uint64_t ptoi_far_word(const uint64_t *from)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}

PTOI_INLINE uint32_t ptoi_far_half(const uint32_t *from)
{
    uint32_t value;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

/* Two words at a multiple of 16 bytes. */
PTOI_INLINE ulonglong2 ptoi_far_pair(const uint64_t *from)
{
    ulonglong2 pair;
    asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];"
                 : "=l"(pair.x), "=l"(pair.y)
                 : "l"(from)
                 : "memory");
    return pair;
}

/* Hint to the multiprocessor: this thread spins. */
PTOI_INLINE void ptoi_relax(void)
{
    asm volatile("nanosleep.u32 20;" ::: "memory");
}

#endif /* PTOI_ATOMIC_CUH */
