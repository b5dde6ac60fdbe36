/* park.h - sleeping when there is nothing to do, without missing the moment when there is.
 *
 * Dekker's pattern (see atomic.h): a thread announces that it sleeps (`idle`, then state) and then
 * looks for work once more; whoever makes work publishes it and then looks at `idle`. At least one
 * of them sees the other. The sleeper waits until somebody sets its state back. Those who make work
 * do it all the time, and only tell; so the sleeper makes the barrier. Where that is refused, work may
 * have been told without either having seen the other: then it only naps, and looks again.
 *
 *   P1  state, put to ASLEEP by its thread; taken to AWAKE by compare-and-swap, by one waker or by
 *       the thread itself: who wins takes one off `idle`.
 */
#ifndef PTOI_PARK_H
#define PTOI_PARK_H

#include "base/atomic.h"
#include "base/mutant.h"
#include "base/os.h"
#include "window/window.h"

enum { PTOI_AWAKE, PTOI_ASLEEP };

#define PTOI_BREATH 12        /* pauses at first: about as long as two or three submits take */
#define PTOI_BREATH_MOST 96   /* about a microsecond */
#define PTOI_BREATH_ENOUGH 16 /* tasks that are worth a look */

typedef struct ptoi_parker {
    _Alignas(PTOI_LINE) ptoi_a32 state;
    ptoi_a32 *idle; /* how many of a group sleep, or are about to */
    bool lopsided;  /* some of those who make work only tell */
    bool unsure;    /* the barrier was refused; its own thread's */
    ptoi_a64 parks; /* times it slept; for people */
} ptoi_parker;

/* One more look in vain. Where threads outnumber cores, the one that has the work may be waiting for
 * this core: now and then it is offered. */
static inline void ptoi_park_spin(uint32_t idle)
{
    if (idle % 16 == 15) {
        ptoi_os_yield();
    } else {
        /* Often at first: what it waits for may be a few steps away. */
        for (uint32_t i = 0; i < (idle < 32 ? 1 : PTOI_BREATH / 2); i++) {
            ptoi_relax();
        }
    }
}

/* Whoever looks all the time at a word that another one writes for every task takes its line of cache
 * away as often, and those of the tasks as well, while their neighbours are being written; and that
 * costs more than the tasks. So some are let come together: before the next look it waits a breath,
 * which grows as long as too few have come by then, and ends when there are none. */
static inline void ptoi_park_breathe(uint32_t pauses)
{
    for (uint32_t i = 0; i < pauses; i++) {
        ptoi_relax();
    }
}

static inline uint32_t ptoi_park_next_breath(uint32_t pauses, uint64_t came)
{
    if (came == 0) {
        return 0;
    }
    if (came < PTOI_BREATH_ENOUGH) {
        return pauses < PTOI_BREATH_MOST ? pauses + pauses / 2 : pauses;
    }
    return came > 2 * PTOI_BREATH_ENOUGH && pauses > PTOI_BREATH ? pauses - pauses / 4 : pauses;
}

static inline void ptoi_park_announce(ptoi_parker *parker)
{
    ptoi_add32(parker->idle, 1); /* first: `idle` is never less than the number of sleepers */
    ptoi_put32(&parker->state, PTOI_ASLEEP);
    if (parker->lopsided && !PTOI_MUTANT(NO_BARRIER)) {
        parker->unsure = !ptoi_os_barrier();
    }
}

/* Wakes the thread if it sleeps. Says whether it was this call that did. */
static inline bool ptoi_park_wake(ptoi_parker *parker)
{
    uint32_t asleep = PTOI_ASLEEP;
    if (ptoi_see32(&parker->state) != PTOI_ASLEEP ||
        !ptoi_cas32(&parker->state, &asleep, PTOI_AWAKE)) {
        return false;
    }
    ptoi_add32(parker->idle, (uint32_t)-1);
    ptoi_os_wake(&parker->state);
    return true;
}

/* There is work after all. */
static inline void ptoi_park_withdraw(ptoi_parker *parker)
{
    uint32_t asleep = PTOI_ASLEEP;
    if (ptoi_cas32(&parker->state, &asleep, PTOI_AWAKE)) {
        ptoi_add32(parker->idle, (uint32_t)-1);
    }
}

static inline void ptoi_park_sleep(ptoi_parker *parker)
{
    ptoi_count64(&parker->parks, 1);
    if (__builtin_expect(parker->unsure, 0) && !PTOI_MUTANT(NO_NAP)) {
        ptoi_os_nap(&parker->state, PTOI_ASLEEP);
        ptoi_park_withdraw(parker);
        return;
    }
    while (ptoi_acquire32(&parker->state) == PTOI_ASLEEP) {
        ptoi_os_sleep(&parker->state, PTOI_ASLEEP);
    }
}

#endif /* PTOI_PARK_H */
