/* retire.c - recycling tasks in order.
 *
 * The scheduler's side reports that a task is complete by closing its waiter list (W2). The
 * orchestrator reads that word when it needs room, and every few tasks. The two sides share nothing
 * else, so recycling takes no lock and no atomic read-modify-write.
 *
 * A task is recycled when it is complete, no scope holds it (released), and no unfinished task uses
 * its memory. Its row of held_until bounds the users: held_until[l] is one past the last one on
 * level l. If held_until[l] <= completed on every level, it is free. Otherwise the unfinished task
 * may be one that does not use the memory. Only if room is short are all tasks checked one by one.
 */
#include "orchestrator/retire.h"
#include "base/mutant.h"
#include "orchestrator/poison.h"
#include "orchestrator/rings.h"
#include "orchestrator/trace.h"

void ptoi_retire_completed(pto_runtime *rt, uint32_t level)
{
    ptoi_rings *t = &rt->rings[level];
    uint64_t n = t->completed;
    uint32_t lap = ptoi_lap(&rt->view, level, n);
    for (; n != t->head; n++) {
        const ptoi_state *state = &t->states[(uint32_t)n & t->mask];
        __builtin_prefetch(&t->states[(uint32_t)(n + 16) & t->mask]);
        if (((n - rt->view.first) & t->mask) == 0) {
            lap = ptoi_lap(&rt->view, level, n);
        }
        if (ptoi_get64(&t->orders[(uint32_t)n & t->mask]) & 1) { /* complete when submit returned */
            continue;
        }
        const uint64_t waiters = ptoi_acquire64(&state->waiters); /* pairs W2 */
        if (!ptoi_list_closed(waiters, lap)) {
            break;
        }
        if (ptoi_list_bad(waiters, lap)) {
            ptoi_poison_record(rt, level, n);
        }
    }
    if (n == t->completed) {
        return;
    }
    t->completed = n;
    ptoi_ring_give_back(&t->deps, ptoi_record_of(t, n - 1)->deps_end);
    if (PTOI_MUTANT(DEPS_EARLY) && n != t->head) {
        ptoi_ring_give_back(&t->deps, ptoi_record_of(t, n)->deps_end);
    }
    (void)pto_tensormap_sync_validity(rt->map, level, n); /* cannot fail: n only rises */
}

ptoi_ref ptoi_retire_holder(const pto_runtime *rt, uint32_t level, uint64_t seq, uint32_t *count)
{
    const ptoi_rings *owner = &rt->rings[level];
    const ptoi_record *record = ptoi_record_of(owner, seq);
    const uint64_t stretch = rt->guarded ? PTOI_GUARD_STRETCH : 1;
    uint64_t size = stretch * record->heap_size, at = stretch * record->heap_at;
    ptoi_ref found = 0;
    for (uint32_t l = 0; l < rt->levels; l++) {
        const ptoi_rings *t = &rt->rings[l];
        for (uint64_t n = t->completed; n != t->head; n++) {
            ptoi_ref ref = ptoi_ref_make(n, l, false);
            const ptoi_slot *slot = &t->slots[(uint32_t)n & t->mask];
            const ptoi_arg_desc *arg = rt->view.level[l].args + slot->args;
            if ((l == level && n == seq) || ptoi_task_is_complete(&rt->view, ref)) {
                continue;
            }
            for (uint32_t i = 0; i < slot->n_args; i++) {
                if (arg->segment == level && arg->value - at < size) {
                    if (!count) {
                        return ref;
                    }
                    found = ref;
                    ++*count;
                    break;
                }
                arg = ptoi_arg_next(arg);
            }
        }
    }
    return found;
}

/* Whether an unfinished task may use the memory of the task, judged by held_until alone. */
static bool seems_held(const pto_runtime *rt, const ptoi_rings *t, uint64_t seq)
{
    if (!(ptoi_record_of(t, seq)->holders & PTOI_HELD)) {
        return false;
    }
    const uint64_t *until = t->held_until + ((uint32_t)seq & t->mask) * (size_t)rt->levels;
    for (uint32_t l = 0; l < rt->levels; l++) {
        if (until[l] > rt->rings[l].completed) {
            return true;
        }
    }
    return false;
}

bool ptoi_retire_is_held(pto_runtime *rt, uint32_t level, uint64_t seq)
{
    ptoi_rings *t = &rt->rings[level];
    if (!seems_held(rt, t, seq)) {
        return false;
    }
    if (t->blocker == 0 || ptoi_task_is_complete(&rt->view, t->blocker)) {
        t->blocker = ptoi_retire_holder(rt, level, seq, NULL);
    }
    return t->blocker != 0;
}

/* Whether an unfinished task may still ask if this one was bad. Bad tasks are kept until then. */
static bool is_asked_about(const pto_runtime *rt, uint32_t level, uint64_t seq)
{
    const ptoi_rings *t = &rt->rings[level];
    if (!rt->poison.n_bad[level]) {
        return false;
    }
    const uint64_t waiters = ptoi_get64(&t->states[(uint32_t)seq & t->mask].waiters);
    if (!ptoi_list_bad(waiters, ptoi_lap(&rt->view, level, seq))) {
        return false;
    }
    for (uint32_t l = 0; l < rt->levels; l++) {
        if (rt->rings[l].completed < rt->poison.fence[l]) {
            return true;
        }
    }
    return false;
}

static void retire(pto_runtime *rt, uint32_t level, bool exactly)
{
    ptoi_rings *t = &rt->rings[level];
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire_completed(rt, l);
    }
    const ptoi_record *block = NULL; /* the last recycled task with a heap block */
    uint64_t n = t->retired;
    uint64_t end = t->completed < t->released || PTOI_MUTANT(NO_SCOPE_REF) ? t->completed
                                                                           : t->released;
    if (t->n_held == 0 && !rt->poison.n_bad[level] && !rt->guarded && n < end) {
        /* Nothing holds any of them. Returning the last block returns all blocks before it. */
        for (uint64_t last = end; t->heap.used && !block && last-- != n;) {
            block = ptoi_record_of(t, last)->heap_size ? ptoi_record_of(t, last) : NULL;
        }
        n = end;
        t->blocker = 0;
    }
    for (; n < end; n++) {
        bool held = exactly ? ptoi_retire_is_held(rt, level, n) : seems_held(rt, t, n);
        if (held && !PTOI_MUTANT(NO_LIFETIME)) {
            break;
        }
        if (is_asked_about(rt, level, n)) {
            break;
        }
        t->blocker = 0;
        t->n_held -= (ptoi_record_of(t, n)->holders & PTOI_HELD) != 0;
        if (ptoi_record_of(t, n)->heap_size) {
            block = ptoi_record_of(t, n);
            if (PTOI_UNLIKELY(rt->guarded)) {
                ptoi_guard_recycle(rt, level, n);
            }
        }
    }
    if (PTOI_MUTANT(HEAP_EARLY) && n != t->head && n != t->retired &&
        ptoi_record_of(t, n)->heap_size) {
        block = ptoi_record_of(t, n);
    }
    if (block) {
        ptoi_heap_give_back(&t->heap, block->heap_at,
                            block->heap_size); /* and all blocks before it */
    }
    ptoi_a64 *peak = &t->progress->ring[PTO_RING_TASKS].peak;
    if (t->head - t->retired > ptoi_get64(peak)) { /* before head - retired falls */
        ptoi_set64(peak, t->head - t->retired);
    }
    if (n != t->retired) {
        const uint64_t begin = t->retired;
        ptoi_ring_give_back(&t->args, ptoi_record_of(t, n - 1)->args_end);
        t->retired = n;
        if (PTOI_UNLIKELY(rt->trace != NULL)) {
            ptoi_trace_retired(rt, level, begin, n);
        }
    }
    ptoi_retire_publish(rt, level);
}

void ptoi_retire(pto_runtime *rt, uint32_t level)
{
    retire(rt, level, false);
}

void ptoi_retire_exactly(pto_runtime *rt, uint32_t level)
{
    retire(rt, level, true);
}

void ptoi_retire_publish(pto_runtime *rt, uint32_t level)
{
    const ptoi_rings *t = &rt->rings[level];
    ptoi_set64(&t->progress->published, t->head);
    ptoi_set64(&t->progress->completed, t->completed);
    ptoi_set64(&t->progress->retired, t->retired);
    ptoi_rings_publish(rt, level);
    ptoi_set64(&rt->view.header->budget_hits, rt->map->stats.budget_hits);
    for (int why = 0; why < PTOI_REASONS; why++) {
        ptoi_set64(&rt->view.header->edges[why], rt->why[why]);
    }
}
