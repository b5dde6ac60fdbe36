/* inline.h - when does submit run a task inline? Orchestrator's side.
 *
 * Offloading a task moves a few cache lines to another core and back. That takes as long as a
 * kernel of 50 ns, or of 200 ns if the two cores are far apart. So kernels are timed now and then
 * (worker/kernel_time.c). A task with a short kernel (config.inline_ns) runs inside submit if it
 * waits for no other task. Where tasks with medium kernels run is found out by trial
 * (inline_trial.c): in submit, like short ones; on workers; or in submit while workers have enough to claim,
 * since the orchestrating thread has nothing better to do then.
 */
#ifndef PTOI_INLINE_H
#define PTOI_INLINE_H

#include "orchestrator/runtime.h"

#define PTOI_CLAIMED_EVERY                                                                         \
    8 /* tasks between two loads of inbox_claimed. Workers own its cache line */
#define PTOI_CLOCK_EVERY 8 /* inline tasks between two checks of the clock */

/* Whether submit should run a task of this kernel inline, if it waits for no other task. */
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
        return false; /* a newer value of inbox_claimed makes the difference smaller */
    }
    if (rt->order >= rt->inlining.claimed_at) {
        rt->inlining.claimed = ptoi_get64(&rt->view.sched->inbox_claimed);
        rt->inlining.claimed_at = rt->order + PTOI_CLAIMED_EVERY;
    }
    return head - rt->inlining.claimed >= enough;
}

/* A trial may have to end, or begin. Out of line: called once for PTOI_TRIAL_LOOK tasks, or fewer. */
void ptoi_inline_look(pto_runtime *rt);

static inline ptoi_inline_wish ptoi_inline_wanted(pto_runtime *rt, uint32_t kernel)
{
    const uint32_t length = ptoi_get32(&rt->view.times[kernel].length);
    if (ptoi_is_short(length)) {
        return PTOI_INLINE_SHORT;
    }
    if (length != PTOI_LENGTH_MEDIUM) {
        return PTOI_INLINE_NO;
    }
    if (PTOI_UNLIKELY(rt->order >= rt->inlining.trial.at)) {
        ptoi_inline_look(rt);
    }
    const uint32_t mode = rt->inlining.trial.mode;
    return mode == PTOI_MODE_ALL                                 ? PTOI_INLINE_SHORT
           : mode == PTOI_MODE_MIXED && ptoi_inline_is_ahead(rt) ? PTOI_INLINE_MEDIUM
                                                                 : PTOI_INLINE_NO;
}

/* A task that submit wanted to run inline waits for others. Runs some of them. True: rings and map
 * may have changed, so the task must be resolved again. */
bool ptoi_inline_blocked(pto_runtime *rt, ptoi_inline_wish wish);

/* Checks whether the last PTOI_CLOCK_EVERY inline tasks took far longer than short kernels should.
 * If so, the next calls are timed. */
void ptoi_inline_check_clock(pto_runtime *rt);

/* Calibrates the tick counter, once enough time has passed: how many ticks a short kernel may
 * take. */
void ptoi_inline_learn_ticks(pto_runtime *rt);

#endif /* PTOI_INLINE_H */
