/* wait.c - waiting for tasks, while running others (window/caller.h). */
#include "orchestrator/wait.h"

#include "base/error.h"
#include "orchestrator/check.h"
#include "orchestrator/failure.h"
#include "orchestrator/handle.h"
#include "orchestrator/poison.h"
#include "orchestrator/retire.h"
#include "orchestrator/trace.h"

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

static void wait_until(pto_runtime *rt, const ptoi_goal *goal)
{
    ptoi_waiting *w = &rt->view.header->waiting;
    if (ptoi_goal_is_reached(&rt->view, goal)) {
        return;
    }
    ptoi_set64(&w->task, ptoi_ref_task(goal->ref));
    ptoi_count64(&w->serial, 1);
    rt->inside = true;
    ptoi_count64(&rt->helped, ptoi_caller_wait(rt->scheduler, goal));
    rt->inside = false;
    ptoi_count64(&w->serial, 1);
}

void ptoi_wait_for(pto_runtime *rt, ptoi_ref ref)
{
    wait_until(rt, &(ptoi_goal){.ref = ref});
}

void ptoi_wait_any(pto_runtime *rt, uint64_t complete)
{
    ptoi_goal goal = any_task(rt);
    goal.complete = complete;
    wait_until(rt, &goal);
}

uint64_t ptoi_help(pto_runtime *rt, uint64_t tasks, uint32_t longest, bool *longer)
{
    bool ignored;
    rt->inside = true;
    const uint64_t helped = ptoi_caller_help(rt->scheduler, tasks, longest,
                                             longer ? longer : &ignored);
    rt->inside = false;
    ptoi_count64(&rt->helped, helped);
    return helped;
}

void ptoi_wait_level(pto_runtime *rt, uint32_t level)
{
    const ptoi_rings *t = &rt->rings[level];
    ptoi_retire_completed(rt, level);
    if (t->completed != t->head) {
        ptoi_retire_publish(rt, level); /* for outside readers during the wait */
    }
    while (t->completed != t->head) {
        ptoi_wait_for(rt, ptoi_ref_make(t->completed, level, false));
        ptoi_retire_completed(rt, level);
    }
}

void ptoi_wait_all(pto_runtime *rt)
{
    ptoi_wait_reason(rt, PTOI_WHY_ALL);
    const uint64_t since = ptoi_trace_waits(rt);
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_wait_level(rt, l);
    }
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire(rt, l);
    }
    ptoi_trace_wait(rt, 0, since);
    if (rt->guarded) {
        ptoi_guard_sweep(rt);
    }
    ptoi_debug_check(rt);
}

pto_status pto_wait(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "wait"));
    ptoi_wait_all(rt);
    return ptoi_failure_verdict(rt);
}

pto_status pto_wait_task(pto_runtime *rt, pto_task task)
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
        ptoi_wait_for(rt, ref);
        ptoi_trace_wait(rt, task, since);
        bad = ptoi_list_bad(ptoi_acquire64(&ptoi_state_of(&rt->view, level, seq)->waiters),
                            ptoi_lap(&rt->view, level, seq));
    } else {
        bad = ptoi_poison_is_bad(rt, level, seq);
    }
    if (!bad) {
        return PTO_OK;
    }
    /* The verdict names this failure, or an earlier one. */
    const pto_status why = ptoi_failure_verdict(rt);
    return why == PTO_CANCELLED ? why : PTO_TASK_FAILED;
}
