/* atomic.h - the one place that spells memory orders.
 *
 * Code elsewhere names what it needs, and the reason why an order suffices stands here.
 */
#ifndef PTOI_ATOMIC_H
#define PTOI_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

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

#endif /* PTOI_ATOMIC_H */
