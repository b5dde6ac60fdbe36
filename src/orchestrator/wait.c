/* wait.c - waiting for tasks, while running others (window/caller.h). */
#include "orchestrator/wait.h"

#include "base/error.h"
#include "orchestrator/check.h"
#include "orchestrator/failure.h"
#include "orchestrator/handle.h"
#include "orchestrator/poison.h"
#include "orchestrator/process.h"
#include "orchestrator/refusal.h"
#include "orchestrator/retire.h"
#include "orchestrator/trace.h"
#include "orchestrator/watch.h"

/* All tasks from `completed` on, on every level. */
static ptoi_goal any_task(const pto_runtime *rt)
{
    ptoi_goal goal = {.levels = rt->levels};
    for (uint32_t l = 0; l < rt->levels; l++) {
        goal.open[l].from = rt->rings[l].completed;
        goal.open[l].to = rt->rings[l].head;
    }
    return goal;
}

uint64_t ptoi_count_complete(const pto_runtime *rt)
{
    const ptoi_goal goal = any_task(rt);
    return ptoi_goal_count(&rt->view, &goal);
}

void ptoi_wait_reason_room(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted)
{
    ptoi_waiting *w = &rt->view.header->waiting;
    ptoi_set32(&w->level, level);
    ptoi_set32(&w->ring, what);
    ptoi_set64(&w->wanted, wanted);
    ptoi_wait_reason(rt, PTOI_WHY_ROOM);
}

/* From here on this thread runs other tasks, or sleeps. */
static void go_inside(pto_runtime *rt)
{
    rt->inside = true;
    if (PTOI_UNLIKELY(rt->wait_hooks.begin != NULL)) {
        rt->wait_hooks.begin(rt->wait_hooks.user);
    }
}

static void come_back(pto_runtime *rt)
{
    if (PTOI_UNLIKELY(rt->wait_hooks.end != NULL)) {
        rt->wait_hooks.end(rt->wait_hooks.user);
    }
    rt->inside = false;
}

static pto_status interrupted(void)
{
    return ptoi_fail(PTO_INTERRUPTED,
                     "the wait was ended by the function given to pto_set_interrupt");
}

/* NULL: the program wants no call during a wait. */
static ptoi_interrupt *calls(ptoi_interrupt *stop)
{
    return stop->fn || stop->poll ? stop : NULL;
}

static pto_status wait_until(pto_runtime *rt, const ptoi_goal *goal)
{
    ptoi_interrupt stop = rt->interrupt;
    ptoi_waiting *w = &rt->view.header->waiting;
    if (ptoi_goal_is_reached(&rt->view, goal)) {
        return PTO_OK;
    }
    ptoi_set64(&w->task, goal->n_some ? 0 : ptoi_ref_task(goal->ref));
    ptoi_count64(&w->serial, 1);
    go_inside(rt);
    ptoi_count64(&rt->helped, ptoi_caller_wait(rt->scheduler, goal, calls(&stop)));
    come_back(rt);
    ptoi_count64(&w->serial, 1);
    return stop.stopped                            ? interrupted()
           : ptoi_goal_is_reached(&rt->view, goal) ? PTO_OK
                                                   : ptoi_process_lost(rt);
}

pto_status ptoi_wait_for(pto_runtime *rt, ptoi_ref ref)
{
    return wait_until(rt, &(ptoi_goal){.ref = ref});
}

pto_status ptoi_wait_any(pto_runtime *rt, uint64_t complete)
{
    ptoi_goal goal = any_task(rt);
    goal.complete = complete;
    return wait_until(rt, &goal);
}

pto_status ptoi_wait_oldest_or(pto_runtime *rt, uint32_t level, const ptoi_edges *edges)
{
    const ptoi_rings *t = &rt->rings[level];
    ptoi_goal goal = {.some = edges->refs, .n_some = edges->count};
    if (t->completed != t->head) {
        goal.ref = ptoi_ref_make(t->completed, level, false);
    }
    return wait_until(rt, &goal);
}

uint64_t ptoi_help(pto_runtime *rt, uint64_t tasks, uint32_t longest, bool *longer)
{
    bool ignored;
    rt->inside = true; /* too short for the hooks of waits */
    const uint64_t helped = ptoi_caller_help(rt->scheduler, tasks, longest,
                                             longer ? longer : &ignored);
    rt->inside = false;
    ptoi_count64(&rt->helped, helped);
    return helped;
}

/* Pauses of about a microsecond each. */
#define TURN_PAUSES 16
#define TURN_RELAXES 64

/* Leaves the workers of other processes alone until the first `tasks` unfinished tasks of the level are
 * complete, but not for long. Whoever waits for one task at a time takes the cache lines of a few tasks
 * from the workers for each task that it submits. Returns whether the oldest has ended meanwhile. */
static bool let_run(const pto_runtime *rt, uint32_t level, uint64_t tasks)
{
    const ptoi_rings *t = &rt->rings[level];
    const uint64_t open = t->head - t->completed;
    if (!open) {
        return false;
    }
    const uint64_t last = t->completed + (tasks < open ? tasks : open) - 1;
    for (uint32_t i = 0; i < TURN_PAUSES && !ptoi_goal_task_is_closed(&rt->view, level, last);
         i++) {
        for (uint32_t k = 0; k < TURN_RELAXES; k++) {
            ptoi_relax();
        }
    }
    return ptoi_goal_task_is_closed(&rt->view, level, t->completed);
}

pto_status ptoi_help_or_stop(pto_runtime *rt, uint32_t level, uint64_t tasks, uint64_t *helped)
{
    if (PTOI_UNLIKELY(rt->settings.config.place >= PTO_PLACE_PROCESS)) { /* it runs no kernel */
        *helped = let_run(rt, level, tasks);
        return PTO_OK;
    }
    ptoi_interrupt stop = rt->interrupt;
    go_inside(rt);
    *helped = ptoi_caller_help_or_stop(rt->scheduler, tasks, calls(&stop));
    come_back(rt);
    ptoi_count64(&rt->helped, *helped);
    return stop.stopped ? interrupted() : PTO_OK;
}

pto_status ptoi_wait_level(pto_runtime *rt, uint32_t level)
{
    const ptoi_rings *t = &rt->rings[level];
    ptoi_retire_completed(rt, level);
    if (t->completed != t->head) {
        ptoi_retire_publish(rt, level); /* for outside readers during the wait */
    }
    while (t->completed != t->head) {
        PTO_TRY(ptoi_wait_for(rt, ptoi_ref_make(t->completed, level, false)));
        ptoi_retire_completed(rt, level);
    }
    return PTO_OK;
}

pto_status ptoi_wait_unmapped(pto_runtime *rt)
{
    if (rt->unmapped) {
        PTO_TRY(ptoi_wait_level(rt, ptoi_ref_level(ptoi_handle_ref(rt->unmapped))));
        rt->unmapped = 0;
        ptoi_watch_update(rt);
    }
    return PTO_OK;
}

pto_status ptoi_wait_all(pto_runtime *rt)
{
    ptoi_wait_reason(rt, PTOI_WHY_ALL);
    const uint64_t since = ptoi_trace_waits(rt);
    for (uint32_t l = 0; l < rt->levels; l++) {
        PTO_TRY(ptoi_wait_level(rt, l));
    }
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire(rt, l);
    }
    ptoi_trace_wait(rt, 0, since);
    if (rt->guarded) {
        ptoi_guard_sweep(rt);
    }
    ptoi_debug_check(rt);
    return PTO_OK;
}

pto_status pto_wait(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "wait"));
    PTO_TRY(ptoi_wait_all(rt));
    PTO_TRY(ptoi_failure_verdict(rt));
    return ptoi_refusal_verdict(rt, "wait");
}

static pto_status wait_task(pto_runtime *rt, pto_task task)
{
    PTO_TRY(ptoi_runtime_enter(rt, "wait for a task"));
    PTO_TRY(ptoi_handle_check(rt, "wait", task));
    const ptoi_ref ref = ptoi_handle_ref(task);
    const uint32_t level = ptoi_ref_level(ref);
    const uint64_t seq = ptoi_ref_seq(ref);
    bool bad = false;
    if (seq >= rt->rings[level].completed) {
        ptoi_wait_reason(rt, PTOI_WHY_TASK);
        const uint64_t since = ptoi_trace_waits(rt);
        PTO_TRY(ptoi_wait_for(rt, ref));
        ptoi_trace_wait(rt, task, since);
        bad = ptoi_list_bad(ptoi_acquire64(&ptoi_state_of(&rt->view, level, seq)->waiters),
                            ptoi_lap(&rt->view, level, seq));
    } else {
        ptoi_trace_wait(rt, task, ptoi_trace_now(rt)); /* it orders the program all the same */
        bad = ptoi_poison_is_bad(rt, level, seq, NULL);
    }
    if (!bad) {
        return ptoi_refusal_verdict(rt, "wait for a task");
    }
    /* The verdict names this failure, or an earlier one. */
    const pto_status why = ptoi_failure_verdict(rt);
    return why == PTO_CANCELLED ? why : PTO_TASK_FAILED;
}

pto_status pto_wait_task_at(pto_runtime *rt, pto_task task, const char *file, int line)
{
    return ptoi_refusal_note_wait(rt, wait_task(rt, task), "pto_wait_task", file, line);
}
