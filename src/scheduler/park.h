/* park.h - lets a thread sleep while there is no work, without a lost wake-up.
 *
 * Dekker's pattern (base/atomic.h): a thread announces that it sleeps (`idle`, then `parked`) and
 * then checks for work once more. A thread that makes work publishes it and then checks `idle`. At
 * least one of the two sees the other. Work is published very often, with a plain release
 * (store_asym). So the sleeper pays for both, with a barrier on every core. If the system refuses
 * the barrier, neither may see the other: then the sleeper naps and checks again.
 *
 *   W10  line->parked is set to ASLEEP by its own thread. A compare-and-swap sets it back to AWAKE,
 *        by a waker or by the thread itself. The one that succeeds subtracts one from `idle`.
 */
#ifndef PTOI_PARK_H
#define PTOI_PARK_H

#include "base/mutant.h"
#include "base/os.h"
#include "window/window.h"

#define PTOI_BACKOFF 12        /* pauses at first: the time of two or three submits */
#define PTOI_BACKOFF_MOST 96   /* about a microsecond */
#define PTOI_BACKOFF_ENOUGH 16 /* tasks that are worth a read */
#define PTOI_UNSURE_US 1000    /* a nap of a sleeper that may have missed a wake-up */

typedef struct ptoi_parker {
    ptoi_wake_line *line; /* of its thread, in the window */
    ptoi_a32 *idle;       /* number of threads of its group that sleep or are about to */
    bool asymmetric;      /* work is published by store_asym: the sleeper makes the barrier */
    bool shared;          /* threads of other processes publish work, too */
    bool unsure;          /* the barrier was refused; only its own thread uses this */
} ptoi_parker;

/* Pauses after poll number `idle` that found no work. If there are more threads than cores, the
 * thread that has the work may be waiting for this core, so yield now and then. */
static inline void ptoi_park_spin(uint32_t idle)
{
    if (idle % 16 == 15) {
        ptoi_os_yield();
    } else {
        /* Short pauses at first: new work may be about to arrive. */
        for (uint32_t i = 0; i < (idle < 32 ? 1 : PTOI_BACKOFF / 2); i++) {
            ptoi_relax();
        }
    }
}

/* Backoff before the next read of inbox_head. Submit writes that word for every task. A thread that
 * polls it takes the cache line away from submit each time, and the lines of the tasks too. That
 * costs more than the tasks. So wait until some tasks have come: the pause grows while there are
 * too few, and ends when there are none. */
static inline void ptoi_park_back_off(uint32_t pauses)
{
    for (uint32_t i = 0; i < pauses; i++) {
        ptoi_relax();
    }
}

static inline uint32_t ptoi_park_next_backoff(uint32_t pauses, uint64_t came)
{
    if (came == 0) {
        return 0;
    }
    if (came < PTOI_BACKOFF_ENOUGH) {
        return pauses < PTOI_BACKOFF_MOST ? pauses + pauses / 2 : pauses;
    }
    return came > 2 * PTOI_BACKOFF_ENOUGH && pauses > PTOI_BACKOFF ? pauses - pauses / 4 : pauses;
}

static inline void ptoi_park_announce(ptoi_parker *parker)
{
    ptoi_fetch_add32(parker->idle, 1); /* first, so that idle >= number of sleepers */
    ptoi_store_sc32(&parker->line->parked, PTOI_ASLEEP);
    if (parker->asymmetric && !PTOI_MUTANT(NO_BARRIER)) {
        parker->unsure = !ptoi_os_barrier(parker->shared);
    }
}

/* Wakes the thread if it sleeps. Returns whether this call woke it. */
static inline bool ptoi_park_wake(ptoi_parker *parker)
{
    uint32_t asleep = PTOI_ASLEEP;
    if (ptoi_load_sc32(&parker->line->parked) != PTOI_ASLEEP ||
        !ptoi_cas32(&parker->line->parked, &asleep, PTOI_AWAKE)) {
        return false;
    }
    ptoi_fetch_add32(parker->idle, (uint32_t)-1);
    ptoi_os_wake(&parker->line->parked);
    return true;
}

/* Withdraws the announcement: there is work after all. */
static inline void ptoi_park_withdraw(ptoi_parker *parker)
{
    uint32_t asleep = PTOI_ASLEEP;
    if (ptoi_cas32(&parker->line->parked, &asleep, PTOI_AWAKE)) {
        ptoi_fetch_add32(parker->idle, (uint32_t)-1);
    }
}

static inline void ptoi_park_count(ptoi_parker *parker)
{
    ptoi_count64(&parker->line->parks, 1);
    ptoi_set64(&parker->line->since, ptoi_os_clock());
}

/* Sleeps for `us` microseconds at most, and returns early after a signal. */
static inline void ptoi_park_nap(ptoi_parker *parker, uint32_t us)
{
    ptoi_park_count(parker);
    ptoi_os_nap(&parker->line->parked, PTOI_ASLEEP,
                parker->unsure && us > PTOI_UNSURE_US ? PTOI_UNSURE_US : us);
    ptoi_park_withdraw(parker);
}

static inline void ptoi_park_sleep(ptoi_parker *parker)
{
    ptoi_wake_line *line = parker->line;
    if (PTOI_UNLIKELY(parker->unsure) && !PTOI_MUTANT(NO_NAP)) {
        ptoi_park_nap(parker, PTOI_UNSURE_US);
        return;
    }
    ptoi_park_count(parker);
    while (ptoi_acquire32(&line->parked) == PTOI_ASLEEP) {
        ptoi_os_sleep(&line->parked, PTOI_ASLEEP);
    }
}

#endif /* PTOI_PARK_H */
