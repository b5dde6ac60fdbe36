/* atomic.h - atomic words. This is the only file that names memory orders.
 *
 * A shared field has type ptoi_a32 or ptoi_a64, so a plain access to it does not compile. The name
 * of a function says its order. The comment at the field says why that order suffices.
 *
 *   get, set           Relaxed load and store. Only the value matters, or another pair orders it.
 *   acquire, release   An acquire that reads what a release stored also sees everything written
 *                      before that release.
 *   load_sc, store_sc, Sequentially consistent, for Dekker's pattern: one thread stores A and then
 *   exchange,          loads B, the other stores B and then loads A. At least one of the two sees
 *   fetch_add          the other's store. (store_sc is an exchange, not a store and a fence: it
 *                      costs the same, and thread sanitizer understands it.)
 *   store_asym         Dekker's pattern where one side runs often and the other seldom. This is the
 *                      store of the frequent side, a plain release. The rare side pays for both: it
 *                      calls ptoi_os_barrier between its store and its load. The barrier runs a
 *                      fence on every core that runs a thread of this process. So a store_asym made
 *                      before the barrier is visible when the barrier returns, and a thread that
 *                      makes one later sees the store of the rare side. On a system without this
 *                      barrier, store_asym is store_sc. If the system refuses it later, see
 *                      scheduler/park.h.
 *   cas                Compare-and-swap. Acquire and release on success, acquire on failure.
 *   count              Raises a counter that has one writer: get and set, no locked instruction.
 *   draw               A relaxed fetch_add: a number that nobody else gets.
 *   own                Loads a word that nobody writes now, because the caller owns what it is in.
 *   follow             A release after an exchange, another release or a fence on the same thread
 *                      (far_follow: after ptoi_far_fence), which publishes nothing that was written
 *                      since. On a device that has paid for it already.
 *   glance             An acquire, if ptoi_fence comes before what it publishes is read: several words
 *                      share one fence.
 *
 *   far_...            The same for memory behind a bus: memory of the host, as a device sees it.
 *                      After far_acquire, ptoi_far_fence must come before what it publishes is read:
 *                      several words share one fence. far_await needs none, but nothing else is under
 *                      way meanwhile.
 *
 * atomic.cuh has the same names for code that runs on an NVIDIA device.
 */
#ifndef PTOI_ATOMIC_H
#define PTOI_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDA_ARCH__
#include "base/atomic.cuh"
#else

#include <stdatomic.h>

#include "base/mutant.h"

/* For functions in headers that host and device code share. COLD ones are rarely called: they stay out
 * of line, so that they cost their callers nothing. */
#define PTOI_INLINE static inline
#define PTOI_COLD static __attribute__((noinline, cold, unused))
#define PTOI_OUTLINE static inline /* on a device: a call, so that the code is there once */

/* The explorer can give glance, follow and far_acquire the orders that they have on a device: relaxed, so that
 * only fences order them. */
#ifdef PTO_EXPLORE
extern bool explore_device_orders;
void explore_fence(void);
#define PTOI_DEVICE_ORDERS explore_device_orders
#define PTOI_DEVICE_FENCE() (explore_device_orders ? explore_fence() : (void)0)
#else
#define PTOI_DEVICE_ORDERS false
#define PTOI_DEVICE_FENCE() ((void)0)
#endif

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
    static inline uint##bits##_t ptoi_own##bits(const ptoi_a##bits *a)                             \
    {                                                                                              \
        return ptoi_get##bits(a);                                                                  \
    }                                                                                              \
    static inline uint##bits##_t ptoi_glance##bits(const ptoi_a##bits *a)                          \
    {                                                                                              \
        return PTOI_DEVICE_ORDERS ? ptoi_get##bits(a) : ptoi_acquire##bits(a);                     \
    }                                                                                              \
    static inline void ptoi_follow##bits(ptoi_a##bits *a, uint##bits##_t value)                    \
    {                                                                                              \
        if (PTOI_DEVICE_ORDERS) {                                                                  \
            ptoi_set##bits(a, value);                                                              \
        } else {                                                                                   \
            ptoi_release##bits(a, value);                                                          \
        }                                                                                          \
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
            atomic_signal_fence(memory_order_seq_cst); /* stops the compiler only */               \
        } else {                                                                                   \
            ptoi_store_sc##bits(a, value);                                                         \
        }                                                                                          \
    }                                                                                              \
    static inline uint##bits##_t ptoi_exchange##bits(ptoi_a##bits *a, uint##bits##_t value)        \
    {                                                                                              \
        PTOI_DEVICE_FENCE();                                                                       \
        return atomic_exchange_explicit(&a->value, value, memory_order_seq_cst);                   \
    }                                                                                              \
    static inline uint##bits##_t ptoi_fetch_add##bits(ptoi_a##bits *a, uint##bits##_t amount)      \
    {                                                                                              \
        return atomic_fetch_add_explicit(&a->value, amount, memory_order_seq_cst);                 \
    }                                                                                              \
    static inline uint##bits##_t ptoi_draw##bits(ptoi_a##bits *a, uint##bits##_t amount)           \
    {                                                                                              \
        return atomic_fetch_add_explicit(&a->value, amount, memory_order_relaxed);                 \
    }                                                                                              \
    static inline bool ptoi_cas##bits(ptoi_a##bits *a, uint##bits##_t *expected,                   \
                                      uint##bits##_t desired)                                      \
    {                                                                                              \
        PTOI_DEVICE_FENCE();                                                                       \
        return atomic_compare_exchange_strong_explicit(                                            \
            &a->value, expected, desired, memory_order_acq_rel, memory_order_acquire);             \
    }                                                                                              \
    /* Only for the one thread that writes the word. */                                            \
    static inline void ptoi_count##bits(ptoi_a##bits *a, uint##bits##_t amount)                    \
    {                                                                                              \
        ptoi_set##bits(a, ptoi_get##bits(a) + amount);                                             \
    }

PTOI_ATOMIC_OF(32)
PTOI_ATOMIC_OF(64)

/* Code that runs on the host, or simulates a device there, has no bus in between. */
#define ptoi_far_get32 ptoi_get32
#define ptoi_far_set32 ptoi_set32
#define ptoi_far_set64 ptoi_set64
#define ptoi_far_acquire32 ptoi_glance32
#define ptoi_far_acquire64 ptoi_glance64
#define ptoi_far_await32 ptoi_acquire32
#define ptoi_far_await64 ptoi_acquire64
#define ptoi_far_release32 ptoi_release32
#define ptoi_far_release64 ptoi_release64
#define ptoi_far_follow64 ptoi_follow64

static inline void ptoi_fence(void)
{
    if (!PTOI_MUTANT(NO_FENCES)) {
        PTOI_DEVICE_FENCE();
    }
}

static inline void ptoi_far_fence(void)
{
    if (!PTOI_MUTANT(NO_FAR_FENCES)) {
        PTOI_DEVICE_FENCE();
    }
}

/* Plain memory behind the bus. */
static inline uint64_t ptoi_far_word(const uint64_t *from)
{
    return *from;
}

static inline uint32_t ptoi_far_half(const uint32_t *from)
{
    return *from;
}

/* A counter that many threads raise and any thread reads. Relaxed: it publishes nothing else, so it
 * is enough that no increment is lost. */
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

/* Hint to the core: this thread spins. */
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
