/* retire.c - recycling tasks in order.
 *
 * The scheduler's side reports that a task is complete by closing its waiter list (W2). The
 * orchestrator reads that word when it needs room, and every few tasks. The two sides share nothing
 * else, so recycling takes no lock and no atomic read-modify-write.
 *
 * A task is recycled when it and all before it on its level are complete: slot, arguments, edges
 * and map entries come back. (A failed one is kept while unfinished tasks may ask about it.) Its
 * memory comes back on its own: block.h.
 */
#include "orchestrator/retire.h"
#include "base/mutant.h"
#include "orchestrator/device.h"
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
    PTO_IGNORE(pto_tensormap_sync_validity(rt->map, level, n)); /* cannot fail: n only rises */
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
    ptoi_ref by;
    return ptoi_poison_is_asked_about(rt, level, seq, &by);
}

static void retire(pto_runtime *rt, uint32_t level, bool exactly)
{
    ptoi_rings *t = &rt->rings[level];
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire_completed(rt, l);
    }
    uint64_t n = t->retired;
    while (n != t->completed && !is_asked_about(rt, level, n)) {
        n = rt->poison.n_bad[level] ? n + 1 : t->completed;
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
    ptoi_blocks_recycle(rt, level, exactly);
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
    if (PTOI_UNLIKELY(rt->n_devices > 1)) {
        ptoi_devices_publish(rt, level);
    }
    ptoi_set64(&rt->view.header->budget_hits, rt->map->stats.budget_hits);
    for (int why = 0; why < PTOI_REASONS; why++) {
        ptoi_set64(&rt->view.header->edges[why], rt->why[why]);
    }
}
