/* look.h - with many workers, one of them looks into the inbox for all.
 *
 * Submit writes inbox_head for every task. Each worker that reads it takes its cache line away, and submit
 * waits to get it back: with 15 workers that is most of what an offloaded task costs. So only one look is
 * allowed in each microsecond, by whoever comes first, and what it saw is passed on in a word that submit does
 * not write.
 *
 *     submit ── inbox_head (W1) ──> the worker that looks ── seen (L1) ──> the others
 *
 *   L1  seen   released by the worker that looked, after it acquired inbox_head; acquired by the others.
 *              So they see everything of the tasks below it, as if they had looked themselves. It may fall
 *              behind if two look at almost the same time: then it is lower than it could be.
 *
 * Nobody holds the right to look, so nobody can be stopped while holding it. The orchestrating thread looks
 * as often as it likes: the line is its own. The last check before a worker sleeps reads inbox_head itself
 * (W10).
 */
#ifndef PTOI_LOOK_H
#define PTOI_LOOK_H

#include "window/window.h"

#define PTOI_LOOK_WORKERS 7 /* from so many on: 7 workers gain, 3 lose (docs/performance.md) */
#define PTOI_LOOK_NS 1000

typedef struct ptoi_look {
    _Alignas(PTOI_LINE) ptoi_a64 seen; /* L1: tasks that were published */
    _Alignas(
        PTOI_LINE) ptoi_a64 next; /* when the next look is allowed, ns. Relaxed: it only decides who
                                          looks */
} ptoi_look;

/* How many tasks are published, as far as this worker may know; at `at`, or above it. */
static inline uint64_t ptoi_look_head(ptoi_look *look, const ptoi_a64 *inbox_head, uint64_t at,
                                      uint64_t now)
{
    const uint64_t seen = ptoi_acquire64(&look->seen); /* pairs L1 */
    if ((int64_t)(seen - at) > 0) {
        return seen;
    }
    uint64_t next = ptoi_get64(&look->next);
    if ((int64_t)(now - next) < 0 || !ptoi_cas64(&look->next, &next, now + PTOI_LOOK_NS)) {
        return at;
    }
    const uint64_t head = ptoi_acquire64(inbox_head); /* pairs W1 */
    if ((int64_t)(head - at) <= 0) {
        return at;
    }
    ptoi_release64(&look->seen, head); /* L1 */
    return head;
}

#endif /* PTOI_LOOK_H */
