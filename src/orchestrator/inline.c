/* inline.c - inline execution: catching up with blocked tasks, and checking the clock. */
#include "orchestrator/inline.h"

#include "observe/log.h"
#include "orchestrator/retire.h"
#include "orchestrator/wait.h"

#define CATCH_UP_TICKS 10000 /* longest wait for other short tasks, at first: some microseconds */
#define WARY 64              /* calls that are timed after a suspicious delay */
#define LEARN_NS 20000       /* since the runtime was created: enough to calibrate ticks */

/* Runs short tasks until all tasks of the level are complete, or it takes too long. Returns whether
 * all are. */
static bool catch_up(pto_runtime *rt)
{
    const ptoi_rings *t = rt->ring;
    const bool mediums = rt->inlining.trial.mode == PTOI_MODE_ALL;
    const uint64_t since = ptoi_ticks();
    const uint64_t limit = (mediums ? PTOI_MEDIUM : UINT64_C(1)) * CATCH_UP_TICKS *
                           (rt->inlining.patience / rt->inlining.least);
    bool longer = false;
    do {
        (void)ptoi_help(rt, UINT64_MAX, mediums ? PTOI_LENGTH_MEDIUM : PTOI_LENGTH_SHORT, &longer);
        ptoi_retire_completed(rt, rt->level);
    } while (!longer && t->completed != t->head && ptoi_ticks() - since < limit);
    return t->completed == t->head;
}

/* One offloaded task would force its whole chain off this thread. So submit runs the other tasks
 * first if they are short, too. After each failed attempt the distance to the next one doubles, up
 * to a limit, and so does the time that it may take: a full ring is worked off, and yet the attempts never take more
 * than a part of all time. A medium task is not tried again; since workers have enough to do, one of their tasks
 * is run here. */
bool ptoi_inline_blocked(pto_runtime *rt, ptoi_inline_wish wish)
{
    if (wish == PTOI_INLINE_MEDIUM) {
        (void)ptoi_help(rt, 1, PTOI_LENGTH_MEDIUM, NULL);
        return false;
    }
    if (rt->order < rt->inlining.catch_at) {
        return false;
    }
    uint64_t patience = catch_up(rt) ? rt->inlining.least : 2 * rt->inlining.patience;
    if (rt->inlining.trial.mode == PTOI_MODE_ALL) {
        patience = rt->inlining.least; /* it is known to pay, once the others are out of the way */
    }
    patience = patience < rt->inlining.most ? patience : rt->inlining.most;
    rt->inlining.patience = patience;
    rt->inlining.catch_at = rt->order + patience;
    return true;
}

void ptoi_inline_look(pto_runtime *rt)
{
    ptoi_trial *t = &rt->inlining.trial;
    const uint32_t before = t->mode;
    uint64_t open = 0;
    for (uint32_t l = 0; l < rt->levels; l++) {
        open += rt->rings[l].head - rt->rings[l].completed;
    }
    ptoi_trial_look(t, &(ptoi_trial_sight){.ticks = ptoi_ticks(),
                                           .order = rt->order,
                                           .completed = rt->order - open});
    if (t->mode == PTOI_MODE_ALL && before != PTOI_MODE_ALL) { /* tasks on workers are in the way */
        rt->inlining.catch_at = rt->order;
        rt->inlining.patience = rt->inlining.least;
    }
}

void ptoi_inline_check_clock(pto_runtime *rt)
{
    const uint64_t now = ptoi_ticks(), limit = ptoi_get32(&rt->view.header->inline_ticks);
    if (now - rt->inlining.checked > limit * PTOI_CLOCK_EVERY * PTOI_MEDIUM) {
        ptoi_call_be_wary(rt->calls, WARY);
    }
    rt->inlining.checked = now;
}

void ptoi_inline_learn_ticks(pto_runtime *rt)
{
    const uint64_t ns = ptoi_os_clock() - rt->inlining.created_ns;
    const double ticks = (double)(ptoi_ticks() - rt->inlining.created_ticks);
    if (ns >= LEARN_NS) {
        const double most = (double)rt->settings.config.inline_ns * ticks / (double)ns + 1;
        ptoi_set32(&rt->view.header->inline_ticks, most < UINT32_MAX ? (uint32_t)most : UINT32_MAX);
    }
}
