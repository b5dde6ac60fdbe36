/* room.c - slow path: room for a slot, a heap block, arguments, map entries, and later edges.
 *
 * Room is found here, not taken. So a wait for room, here or in block.c, happens with nothing half
 * done, and with all earlier tasks published.
 *
 * Blocks come back in order, and an open scope may hold them: stall.c proves whether waiting can
 * help. Everything else comes back as tasks complete, so there waiting always helps.
 */
#include "orchestrator/room.h"

#include <inttypes.h>

#include "base/error.h"
#include "orchestrator/device.h"
#include "orchestrator/map/grow.h"
#include "orchestrator/poison.h"
#include "orchestrator/retire.h"
#include "orchestrator/rings.h"
#include "orchestrator/stall.h"
#include "orchestrator/stall_report.h"
#include "orchestrator/trace.h"
#include "orchestrator/wait.h"

ptoi_shortage ptoi_slow_shortage(ptoi_slow *d)
{
    const ptoi_rings *t = d->rings;
    if (PTOI_UNLIKELY(t->head - t->retired > t->mask && !d->memory_only)) {
        return PTOI_SHORT_TASKS;
    }
    if (PTOI_UNLIKELY(d->brings && !ptoi_blocks_room(&t->blocks))) {
        return PTOI_SHORT_BUFFERS;
    }
    if (PTOI_UNLIKELY(!ptoi_heap_fits(d->heap, d->heap_bytes, &d->heap_at))) {
        return PTOI_SHORT_HEAP;
    }
    if (PTOI_UNLIKELY(!ptoi_ring_fits(&t->args, d->units, &d->args)) && d->units) {
        return PTOI_SHORT_ARGS;
    }
    if (PTOI_UNLIKELY(ptoi_entry_room(&d->rt->map->level[d->level]) < d->n_accesses + d->n_fresh) &&
        !d->barrier) {
        return PTOI_SHORT_MAP;
    }
    return PTOI_SHORT_NOTHING;
}

uint64_t ptoi_fast_room(const pto_runtime *rt, uint32_t level)
{
    const ptoi_rings *t = &rt->rings[level];
    const uint64_t free_slots = t->mask + UINT64_C(1) - (t->head - t->retired);
    const uint64_t free_blocks = ptoi_blocks_room(&t->blocks);
    const uint64_t slots = free_slots < free_blocks ? free_slots : free_blocks;
    const uint64_t entries = ptoi_entry_room(&rt->map->level[level]) / PTOI_FAST_PARAMS;
    const uint64_t args = t->args.here / PTOI_FAST_PARAMS;
    const uint64_t edges = t->deps.here / PTOI_FAST_EDGES;
    const uint64_t a = slots < entries ? slots : entries, b = args < edges ? args : edges;
    return ptoi_poison_any(rt) ? 0 : a < b ? a : b;
}

static __attribute__((noinline, cold)) pto_status refuse_size(const ptoi_slow *d)
{
    const ptoi_rings *t = d->rings;
    if (d->heap_bytes > d->heap->size) {
        (void)ptoi_stall_too_large(d->rt, d->level, d->device, PTOI_SHORT_HEAP, d->heap_bytes,
                                   d->heap_bytes);
        return ptoi_fail(PTO_TOO_LARGE,
                         "submit: outputs of %" PRIu64
                         " bytes do not fit into the heap of level %u%s, "
                         "which has %" PRIu64 ": raise %s to at least %" PRIu64,
                         d->heap_bytes, d->level, ptoi_device_where(d->rt, d->device).s,
                         d->heap->size, ptoi_heap_option(d->device), d->heap_bytes);
    }
    (void)ptoi_stall_too_large(d->rt, d->level, 0, PTOI_SHORT_ARGS, d->units * 16, d->units * 16);
    return ptoi_fail(PTO_TOO_LARGE,
                     "submit: %u arguments take %" PRIu64 " bytes of the %" PRIu64 " that level %u "
                     "has for them: raise arg_bytes (PTO_ARGS) to at least %" PRIu64,
                     d->n_args, d->units * 16, t->args.size * 16, d->level, d->units * 16);
}

/* ---- Map entries ---- */

/* Whether the map may forget a task of the level: it is complete and not bad. A bad one is recorded
 * when `completed` passes it, and that needs the map. */
static bool is_over(const void *context, uint64_t seq, uint32_t region)
{
    (void)region;
    const ptoi_slow *d = context;
    const ptoi_rings *t = d->rings;
    const uint64_t waiters = ptoi_acquire64(&t->states[(uint32_t)seq & t->mask].waiters);
    const uint32_t lap = ptoi_lap(&d->rt->view, d->level, seq);
    return seq < t->completed || waiters == ptoi_list_word(lap, PTOI_LIST_CLOSED);
}

/* Whether the map has room for the task once entries are recycled and the level has grown. */
static bool grow_entries(const ptoi_slow *d)
{
    ptoi_entry_recycle(d->rt->map, d->level);
    return ptoi_grow_entries(d->rt->map, d->level, d->n_accesses + d->n_fresh);
}

/* In-order recycling of entries is free. Entries behind an unfinished task come back only by
 * compaction, which is not free: it happens only when there is no task to run. */
static pto_status wait_for_entries(ptoi_slow *d)
{
    pto_runtime *rt = d->rt;
    ptoi_wait_reason_room(rt, d->level, PTOI_SHORT_MAP, d->n_accesses + d->n_fresh);
    if (d->n_accesses + d->n_fresh > rt->map->level[d->level].limit) {
        /* The map can never hold it. It runs alone, so no other task has to find it in the map. */
        for (uint32_t l = 0; l < rt->levels; l++) {
            PTO_TRY(ptoi_wait_level(rt, l));
        }
        d->barrier = true;
        return PTO_OK;
    }
    uint64_t complete = ptoi_count_complete(
        rt); /* read first, so that no later completion is missed */
    ptoi_retire(rt, d->level);
    if (grow_entries(d)) {
        return PTO_OK;
    }
    uint64_t helped;
    PTO_TRY(ptoi_help_or_stop(rt, d->level, 1 + (d->rings->mask + 1) / 16, &helped));
    if (helped) {
        return PTO_OK;
    }
    ptoi_entry_compact(rt->map, d->level, is_over, d);
    return ptoi_slow_shortage(d) == PTOI_SHORT_MAP ? ptoi_wait_any(rt, complete) : PTO_OK;
}

/* ---- All but edges ---- */

static uint64_t wanted_of(const ptoi_slow *d, ptoi_shortage what)
{
    return what == PTOI_SHORT_HEAP   ? d->heap_bytes
           : what == PTOI_SHORT_ARGS ? d->units * 16
           : what == PTOI_SHORT_MAP  ? d->n_accesses + d->n_fresh
                                     : 1;
}

static __attribute__((noinline)) pto_status wait_for_room(ptoi_slow *d)
{
    pto_runtime *rt = d->rt;
    bool counted[PTOI_SHORT_NOTHING] = {false};
    for (ptoi_shortage what; (what = ptoi_slow_shortage(d)) != PTOI_SHORT_NOTHING;) {
        ptoi_retire(rt, d->level);
        if (ptoi_slow_shortage(d) != what || (what == PTOI_SHORT_MAP && grow_entries(d))) {
            continue;
        }
        if (!counted[what]) {
            counted[what] = true;
            ptoi_rings_count_wait(rt, d->level, what);
        }
        const uint64_t since = ptoi_trace_now(rt), wanted = wanted_of(d, what);
        const pto_status status = what == PTOI_SHORT_MAP
                                      ? wait_for_entries(d)
                                      : ptoi_stall(rt, d->who, d->level, d->device, what, wanted);
        ptoi_trace_room(rt, d->level, what, wanted, since);
        PTO_TRY(status);
    }
    return PTO_OK;
}

pto_status ptoi_slow_reserve(ptoi_slow *d)
{
    if (PTOI_UNLIKELY(d->heap_bytes > d->heap->size || d->units > d->rings->args.size)) {
        return refuse_size(d);
    }
    return ptoi_slow_shortage(d) == PTOI_SHORT_NOTHING ? PTO_OK : wait_for_room(d);
}

/* ---- Edges: their number is known after the lookup in the map ---- */

bool ptoi_edges_drop_complete(const pto_runtime *rt, ptoi_edges *edges)
{
    const ptoi_view *view = &rt->view;
    uint32_t left = 0;
    bool poisoned = false;
    for (uint32_t i = 0; i < edges->count; i++) {
        ptoi_ref ref = edges->refs[i];
        uint64_t waiters;
        if (!ptoi_is_complete(view, ref, &waiters)) {
            edges->refs[left++] = ref;
        } else {
            /* The slot is still that of the task: nothing is recycled meanwhile. */
            poisoned |= ptoi_ref_poisons(ref) && ptoi_list_bad(waiters, ptoi_lap_of_ref(view, ref));
        }
    }
    edges->count = left;
    return poisoned;
}

/* Recycles nothing but edges, so that every reference stays valid. */
pto_status ptoi_slow_reserve_edges(ptoi_slow *d)
{
    ptoi_rings *t = d->rings;
    bool counted = false;
    if (ptoi_edges_run_short(t)) {
        d->poisoned |= ptoi_edges_drop_complete(d->rt, &d->edges);
    }
    while (!ptoi_ring_fits(&t->deps, d->edges.count, &d->deps)) {
        /* In this order. A bad task that is passed now is kept for submitted tasks, not for this
         * one. */
        ptoi_retire_completed(d->rt, d->level);
        d->poisoned |= ptoi_edges_drop_complete(d->rt, &d->edges);
        if (ptoi_ring_fits(&t->deps, d->edges.count, &d->deps)) {
            break;
        }
        if (!counted) {
            counted = true;
            ptoi_rings_count_wait(d->rt, d->level, PTOI_SHORT_DEPS);
        }
        /* As tasks complete, older ones return edges and this one needs fewer. */
        ptoi_wait_reason_room(d->rt, d->level, PTOI_SHORT_DEPS, d->edges.count);
        const uint64_t since = ptoi_trace_now(d->rt);
        uint64_t helped;
        pto_status status = ptoi_help_or_stop(d->rt, d->level, 1 + (t->mask + 1) / 16, &helped);
        if (status == PTO_OK && !helped) {
            /* Not for any task: looking for that visits all of them, each time. */
            status = ptoi_wait_oldest_or(d->rt, d->level, &d->edges);
        }
        ptoi_trace_room(d->rt, d->level, PTOI_SHORT_DEPS, d->edges.count, since);
        PTO_TRY(status);
    }
    return PTO_OK;
}
