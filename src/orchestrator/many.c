/* many.c - the walks of fast.h for tasks that are less common. Room is not known ahead, so it is looked for here.
 *
 *     to run      more parameters, a view that the map does not know, or a task ring that is full
 *     to publish  more parameters or edges, or tasks that it comes after
 */
#include "orchestrator/many.h"

#include "orchestrator/fast.h"
#include "orchestrator/retire.h"

static bool has_slot(const ptoi_rings *t)
{
    return t->head - t->retired <= t->mask;
}

/* Whether there is room for the task, wherever that is known before the walk. A task that runs needs all of it if its
 * kernel does not return PTO_OK. */
static bool has_room(const pto_runtime *rt, size_t n_params)
{
    const ptoi_rings *t = rt->ring;
    return n_params <= rt->view.header->max_params && has_slot(t) && ptoi_blocks_room(&t->blocks) &&
           t->args.here >= n_params && ptoi_entry_room(&rt->map->level[rt->level]) >= n_params &&
           !ptoi_poison_any(rt);
}

/* A task that waits for a slot is offloaded into it, so a full ring of short tasks would stay full. Hence complete
 * tasks are retired here. If none is, those in the ring are in the way like producers: submit runs short ones first. */
ptoi_fast_verdict ptoi_many_walk(pto_runtime *rt, const ptoi_request *q, ptoi_resolved *f)
{
    if (!has_slot(rt->ring)) {
        ptoi_retire(rt, rt->level);
        if (!has_slot(rt->ring)) {
            return PTOI_BLOCKED;
        }
    }
    return q->n_params <= PTOI_FAST_SET && has_room(rt, q->n_params)
               ? ptoi_fast_resolve(rt, q, (ptoi_fast_walk){.run = true, .many = true}, f, NULL,
                                   NULL)
               : PTOI_UNUSUAL;
}

bool ptoi_many_submit(pto_runtime *rt, const ptoi_request *q, uint32_t device)
{
    ptoi_rings *t = rt->ring;
    uint32_t few[PTOI_FAST_PARAMS];
    /* The runtime has memory for the accesses of one task, which the slow path uses. */
    uint32_t *found = q->n_params > PTOI_FAST_PARAMS ? (uint32_t *)(void *)rt->accesses : few;
    ptoi_edges edges = {.refs = t->refs + t->deps.at};
    const ptoi_fast_walk walk = {.many = true, .device = device, .most = (uint32_t)t->deps.here};
    ptoi_resolved f;
    if (!has_room(rt, q->n_params) ||
        ptoi_fast_resolve(rt, q, walk, &f, found, &edges) != PTOI_RESOLVED) {
        return false;
    }
    edges.count -= PTOI_MUTANT(MANY_EDGES) && edges.count > 1;
    ptoi_fast_publish(rt, q, walk, &f, found, &edges);
    if (q->n_params > PTOI_FAST_PARAMS || edges.count > PTOI_FAST_EDGES) {
        t->fast_until = 0; /* it has taken more than a task of the fast path */
    }
    return true;
}
