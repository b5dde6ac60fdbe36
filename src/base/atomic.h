/* atomic.h - the one place that spells memory orders.
 *
 * Code elsewhere names what it needs, and the reason why an order suffices stands here or beside
 * the field. Shared fields are ptoi_a32 and ptoi_a64, so that nobody touches one by accident.
 *
 *   get, set          relaxed: the value alone matters, or another edge orders it
 *   acquire, release  a pair: what was written before `release` is seen after `acquire` has read it
 *   see, put, swap,   sequentially consistent, for Dekker's pattern: one side puts A and then sees
 *   add               B, the other puts B and then sees A; at least one of them sees. (An exchange
 *                     rather than a fence: it costs the same, and thread sanitizer follows it.)
 *   tell              the same pattern with all its cost on the other side: a release, for somebody
 *                     who does this often; whoever does it seldom calls ptoi_os_barrier between
 *                     his put and his see. That runs a fence on every core that runs a thread of
 *                     ours, so a store that it finds still on its way has arrived when it returns,
 *                     and whoever tells after that sees what was put before. Where the system has
 *                     no such call, tell is a put; where it stops to have it, see park.h.
 *   cas               acquire and release on success, acquire on failure
 *
 * Counters with a single writer are raised by get and set: no locked instruction.
 *
 * Code for an NVIDIA device has the same names from atomic.cuh.
 */
#ifndef PTOI_ATOMIC_H
#define PTOI_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDA_ARCH__
#include "base/atomic.cuh"
#else

#include <stdatomic.h>

/* A function in a header that the host and a device share. */
#define PTOI_INLINE static inline

#define PTOI_ATOMIC_OF(bits)                                                                       \
    typedef struct ptoi_a##bits {                                                                  \
        _Atomic uint##bits##_t value;                                                              \
    } ptoi_a##bits;                                                                                \
                                                                                                   \
    static inline uint##bits##_t ptoi_get##bits(const ptoi_a##bits *a)                             \
    {                                                                                              \
        return atomic_load_explicit(&a->value, memory_order_relaxed);                              \
    }                                                                                              \
    static inline void ptoi_set##bits(ptoi_a##bits *a, uint##bits##_t value)                       \
    {                                                                                              \
        atomic_store_explicit(&a->value, value, memory_order_relaxed);                             \
    }                                                                                              \
    static inline uint##bits##_t ptoi_acquire##bits(const ptoi_a##bits *a)                         \
    {                                                                                              \
        return atomic_load_explicit(&a->value, memory_order_acquire);                              \
    }                                                                                              \
    static inline void ptoi_release##bits(ptoi_a##bits *a, uint##bits##_t value)                   \
    {                                                                                              \
        atomic_store_explicit(&a->value, value, memory_order_release);                             \
    }                                                                                              \
    static inline uint##bits##_t ptoi_load_sc##bits(const ptoi_a##bits *a)                         \
    {                                                                                              \
        return atomic_load_explicit(&a->value, memory_order_seq_cst);                              \
    }                                                                                              \
    static inline void ptoi_store_sc##bits(ptoi_a##bits *a, uint##bits##_t value)                  \
    {                                                                                              \
        (void)atomic_exchange_explicit(&a->value, value, memory_order_seq_cst);                    \
    }                                                                                              \
    static inline void ptoi_store_asym##bits(ptoi_a##bits *a, uint##bits##_t value,                \
                                             bool asymmetric)                                      \
    {                                                                                              \
        if (asymmetric) {                                                                          \
            atomic_store_explicit(&a->value, value, memory_order_release);                         \
            atomic_signal_fence(memory_order_seq_cst); /* for the compiler */                      \
        } else {                                                                                   \
            ptoi_store_sc##bits(a, value);                                                         \
        }                                                                                          \
    }                                                                                              \
    static inline uint##bits##_t ptoi_exchange##bits(ptoi_a##bits *a, uint##bits##_t value)        \
    {                                                                                              \
        return atomic_exchange_explicit(&a->value, value, memory_order_seq_cst);                   \
    }                                                                                              \
    static inline uint##bits##_t ptoi_fetch_add##bits(ptoi_a##bits *a, uint##bits##_t amount)      \
    {                                                                                              \
        return atomic_fetch_add_explicit(&a->value, amount, memory_order_seq_cst);                 \
    }                                                                                              \
    static inline bool ptoi_cas##bits(ptoi_a##bits *a, uint##bits##_t *expected,                   \
                                      uint##bits##_t desired)                                      \
    {                                                                                              \
        return atomic_compare_exchange_strong_explicit(                                            \
            &a->value, expected, desired, memory_order_acq_rel, memory_order_acquire);             \
    }                                                                                              \
    /* One more, by the only writer. */                                                            \
    static inline void ptoi_count##bits(ptoi_a##bits *a, uint##bits##_t amount)                    \
    {                                                                                              \
        ptoi_set##bits(a, ptoi_get##bits(a) + amount);                                             \
    }

PTOI_ATOMIC_OF(32)
PTOI_ATOMIC_OF(64)

/* A number that many threads raise and anybody reads. Relaxed: nothing else is published through
 * it, so a reader needs no more than that no increment is lost. */
typedef struct ptoi_counter {
    _Atomic uint64_t value;
} ptoi_counter;

static inline void ptoi_counter_add(ptoi_counter *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(&counter->value, amount, memory_order_relaxed);
}

static inline uint64_t ptoi_counter_read(const ptoi_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

/* Tells the core that we wait in a loop. */
static inline void ptoi_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif /* __CUDA_ARCH__ */

#endif /* PTOI_ATOMIC_H */
