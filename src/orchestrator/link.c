/* link.c - slow path: which tasks does this one wait for?
 *
 * The map returns the tasks that conflict with an access. Each becomes an edge (edge.h). Edges are
 * only stored here. The thread that resolves the task adds it to the waiter lists
 * (scheduler/step.h).
 *
 * All accesses are looked up before the first is recorded, so a task never waits for itself. After
 * the first is recorded nothing can fail.
 */
#include <string.h>

#include "orchestrator/link.h"

#include "orchestrator/buffer.h"
#include "orchestrator/handle.h"
#include "orchestrator/map/access.h"
#include "orchestrator/params.h"
#include "orchestrator/poison.h"
#include "orchestrator/room.h"

static void add_after(ptoi_slow *d)
{
    for (size_t i = 0; i < d->n_params; i++) {
        if (d->params[i].kind != PTO_PARAM_AFTER) {
            continue;
        }
        ptoi_ref ref = ptoi_handle_ref(d->params[i].task);
        uint32_t level = ptoi_ref_level(ref);
        uint64_t seq = ptoi_ref_seq(ref);
        if (seq < d->rt->rings[level].completed) {
            d->poisoned |= ptoi_poison_is_bad(d->rt, level, seq, NULL);
        } else if (!ptoi_is_marked_complete(&d->rt->view, ptoi_slot_of(&d->rt->view, level, seq))) {
            ptoi_edge_add(d->rt, &d->edges, level, seq, PTOI_REASON_AFTER);
        }
    }
}

typedef struct emit_context {
    ptoi_slow *d;
    uint32_t access;
} emit_context;

static void emit(void *context, uint64_t seq, uint32_t level, uint32_t entry, pto_map_access met,
                 bool live)
{
    const emit_context *c = context;
    pto_runtime *rt = c->d->rt;
    const uint32_t kind = c->d->kinds[c->access];
    (void)entry;
    if (!live) {
        return;
    }
    if (PTOI_UNLIKELY(rt->map->doubt[0] != NULL) && met == PTO_MAP_WRITE &&
        kind != PTO_PARAM_OUTPUT && !ptoi_access_is_shared(rt->map)) {
        /* They share no byte. The budget did not suffice to see that, so it orders. */
        ptoi_edge_put(rt, &c->d->edges, level, seq, PTOI_REASON_RAW, false);
        return;
    }
    ptoi_edge_met(rt, &c->d->edges, level, seq, kind, met);
}

/* The parameter of an access: the first one with its tensor. */
static size_t param_of(const ptoi_slow *d, size_t access)
{
    size_t i = 0;
    while (d->params[i].kind > PTO_PARAM_INOUT ||
           d->params[i].tensor != d->accesses[access].tensor) {
        i++;
    }
    return i;
}

/* Looks up all accesses, then records all. Waiting for edges in between may add and remove regions,
 * so each region is found twice. */
static pto_status find_and_record(ptoi_slow *d)
{
    pto_runtime *rt = d->rt;
    ptoi_found found;
    size_t entries = 0;
    for (size_t i = 0; i < d->n_accesses; i++) {
        pto_status sound = ptoi_access_find(rt->map, d->accesses[i].tensor, &found);
        if (PTOI_UNLIKELY(sound != PTO_OK)) {
            return ptoi_slow_accuse(param_of(d, i), sound);
        }
        entries += !found.empty;
        emit_context context = {d, (uint32_t)i};
        ptoi_access_ask(rt->map, &found, d->accesses[i].access, emit, &context);
    }
    add_after(d);
    PTO_TRY(ptoi_slow_reserve_edges(d));
    if (!d->barrier && entries) {
        /* ptoi_slow_reserve has found room for them, and room only grows as tasks complete. */
        PTO_TRY(ptoi_entry_reserve(rt->map, d->level, entries));
        const pto_map_task task = {d->seq, d->level};
        for (size_t i = 0; i < d->n_accesses; i++) {
            (void)ptoi_access_find(rt->map, d->accesses[i].tensor,
                                   &found); /* cannot fail: it succeeded above */
            if (!found.empty) {
                ptoi_access_record(rt->map, &found, d->accesses[i].access, task);
            }
        }
        ptoi_map_debug_check(rt->map);
    }
    memcpy(rt->view.level[d->level].deps + d->deps.at, d->edges.refs,
           d->edges.count * sizeof *d->edges.refs);
    return PTO_OK;
}

/* Records the memory that the task brings. No earlier task can conflict with it, so it was not
 * looked up. */
static void record_fresh(const ptoi_slow *d)
{
    const pto_runtime *rt = d->rt;
    for (size_t i = 0, left = d->n_fresh; left; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind != PTO_PARAM_OUTPUT || !p->tensor->owner) {
            continue;
        }
        ptoi_buffer *b = ptoi_buffer_of(d->rt, p->tensor);
        if (b->attempt == rt->attempt && b->maps_whole) {
            b->maps_whole = false; /* recorded once, even if two parameters name it */
            left--;
            ptoi_access_record_fresh(rt->map, p->tensor, (pto_map_task){d->seq, d->level});
        }
    }
}

/* A task that reads bad memory is poisoned. Memory that it writes is no longer bad on account of
 * older tasks: if this task turns out bad, it is recorded when `completed` passes it. */
static __attribute__((noinline, cold)) void judge(ptoi_slow *d)
{
    for (size_t i = 0; i < d->n_accesses; i++) {
        if (d->kinds[i] != PTO_PARAM_OUTPUT) {
            d->poisoned |= ptoi_poison_meets(d->rt, d->accesses[i].tensor);
        }
    }
    for (size_t i = 0; i < d->n_accesses; i++) {
        if (d->kinds[i] != PTO_PARAM_INPUT) {
            ptoi_poison_cover(d->rt, d->accesses[i].tensor, d->rt->order);
        }
    }
}

pto_status ptoi_slow_link(ptoi_slow *d)
{
    PTO_TRY(find_and_record(d));
    if (d->n_fresh && !d->barrier) {
        record_fresh(d);
    }
    if (PTOI_UNLIKELY(ptoi_poison_any(d->rt))) {
        judge(d);
    }
    return PTO_OK;
}
