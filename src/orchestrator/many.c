/* many.c - the walk of fast.h for a task with many parameters or edges. Room is not known ahead, so it is
 * looked for here. */
#include "orchestrator/many.h"

#include "orchestrator/fast.h"
#include "orchestrator/poison.h"

/* Whether there is room for the task, wherever that is known before the walk. */
static bool has_room(const pto_runtime *rt, size_t n_params)
{
    const ptoi_rings *t = rt->ring;
    return n_params <= rt->view.header->max_params && t->head - t->retired <= t->mask &&
           ptoi_blocks_room(&t->blocks) && t->args.here >= n_params &&
           ptoi_entry_room(&rt->map->level[rt->level]) >= n_params && !ptoi_poison_any(rt);
}

bool ptoi_many_submit(pto_runtime *rt, const ptoi_request *q, uint32_t device)
{
    ptoi_rings *t = rt->ring;
    uint32_t few[PTOI_FAST_PARAMS];
    /* The runtime has memory for the accesses of one task, which the slow path uses. */
    uint32_t *found = q->n_params > PTOI_FAST_PARAMS ? (uint32_t *)(void *)rt->accesses : few;
    ptoi_edges edges = {.refs = t->refs + t->deps.at};
    ptoi_resolved f;
    if (!has_room(rt, q->n_params) ||
        ptoi_fast_resolve(rt, q, false, true, device, 0, (uint32_t)t->deps.here, &f, found,
                          &edges) != PTOI_RESOLVED) {
        return false;
    }
    edges.count -= PTOI_MUTANT(MANY_EDGES) && edges.count > 1;
    ptoi_fast_publish(rt, q, true, device, &f, found, &edges);
    if (q->n_params > PTOI_FAST_PARAMS || edges.count > PTOI_FAST_EDGES) {
        t->fast_until = 0; /* it has taken more than a task of the fast path */
    }
    return true;
}
