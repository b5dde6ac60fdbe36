/* inline.h - when does submit run a task itself?
 *
 * Offloading a task moves a few cache lines to another core and back. That takes as long as a kernel
 * of 50 ns, or of 200 ns if the two cores are far apart. So kernels are timed now and then
 * (worker/kernel_time.h). A task whose kernel is brief (config.inline_ns) runs inside of submit if
 * nothing it would have to wait for is left. So does a task whose kernel is short, while workers
 * have enough to do: the orchestrating thread has nothing better to do, and nothing is offloaded.
 */
#ifndef PTOI_INLINE_H
#define PTOI_INLINE_H

#include "orchestrator/runtime.h"

#define PTOI_CLAIMED_EVERY 8 /* tasks between two looks at inbox_claimed: workers own its line */
#define PTOI_CLOCK_EVERY 8   /* inline tasks between two looks at the clock */

/* Whether submit should run a task of this kernel, if nothing keeps it. */
typedef enum ptoi_inline_wish {
    PTOI_INLINE_NO,
    PTOI_INLINE_SHORT,
    PTOI_INLINE_MEDIUM
} ptoi_inline_wish;

/* Whether workers have enough to do. */
static inline bool ptoi_inline_is_ahead(pto_runtime *rt)
{
    const uint64_t head = ptoi_get64(&rt->view.header->inbox_head), enough = rt->inlining.ahead;
    if (head - rt->inlining.claimed < enough) {
        return false; /* what was claimed since makes it less still */
    }
    if (rt->order >= rt->inlining.claimed_at) {
        rt->inlining.claimed = ptoi_get64(&rt->view.sched->inbox_claimed);
        rt->inlining.claimed_at = rt->order + PTOI_CLAIMED_EVERY;
    }
    return head - rt->inlining.claimed >= enough;
}

static inline ptoi_inline_wish ptoi_inline_wanted(pto_runtime *rt, uint32_t kernel)
{
    const uint32_t length = ptoi_get32(&rt->view.times[kernel].length);
    return ptoi_is_short(length)                                      ? PTOI_INLINE_SHORT
           : length == PTOI_LENGTH_MEDIUM && ptoi_inline_is_ahead(rt) ? PTOI_INLINE_MEDIUM
                                                                      : PTOI_INLINE_NO;
}

/* A task that submit wanted to run has to wait for others. Helps, so that there is less to wait for.
 * True: rings and map may have changed, and the task is to be checked at anew. */
bool ptoi_inline_blocked(pto_runtime *rt, ptoi_inline_wish wish);

/* After every few inline tasks: did they take far longer than their kernels should? */
void ptoi_inline_check_clock(pto_runtime *rt);

/* Works out how many ticks a brief kernel may take, once enough time has passed. */
void ptoi_inline_learn_ticks(pto_runtime *rt);

#endif /* PTOI_INLINE_H */
