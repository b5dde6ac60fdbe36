/* known.h - the task that is hoped for, in one go; a part of submit.c.
 *
 * Most tasks of a program that runs for a while have few parameters, all of them regions that the
 * map knows and that nothing else overlaps, or buffers that they bring themselves; and there is
 * room. For these the steps of draft.h come down to two walks over the parameters:
 *
 *     ask     find each region, and whom it makes the task wait for; edges and arguments go
 *             straight to where they stay, which counts only if the task does
 *     tell    each region that the task came
 *
 * Up to the end of the first nothing is changed but marks that mean nothing to the next call, so
 * whatever is unusual (a first use, a part of something, an `after`, an error) leaves here with
 * `false`, and the draft does it. That there is room, and nothing else to be looked at, is found out
 * for some tasks at once: track.quick says up to which.
 */
#ifndef PTOI_KNOWN_H
#define PTOI_KNOWN_H

#include "orchestrator/draft.h"
#include "orchestrator/edge.h"
#include "orchestrator/map/answer.h"
#include "orchestrator/map/near.h"
#include "orchestrator/map/recall.h"
#include "orchestrator/write.h"

/* In place of a region, of which there are at most 2^29. */
#define BROUGHT 0x80000000u
#define SCALAR 0xffffffffu

static inline ptoi_buffer *buffer_of(const pto_runtime *rt, const pto_tensor *t)
{
    return &rt->buffers[(uint32_t)t->owner - 1];
}

/* The number of the form of a tensor that is all of the buffer, in order; 0 if it is anything else, or
 * has none. It may be any nonsense. */
static uint32_t form_of_whole(pto_runtime *rt, const ptoi_buffer *b, const pto_tensor *t)
{
    if (t->storage_bytes != b->bytes || b->bytes == 0 || t->offset != 0 || t->storage ||
        (uint32_t)t->ndim > PTO_MAX_DIMS) {
        return 0;
    }
    const char *records = rt->map->forms.records;
    const uint32_t form = ptoi_form_is(ptoi_form_record(records, rt->temp_form), t)
                              ? rt->temp_form
                              : ptoi_form_find(&rt->map->forms, t);
    return ptoi_form_record(records, form)->dense == b->bytes ? form : 0;
}

/* The region of a tensor, if the map knows it and nothing else overlaps it; else PTOI_NONE. */
static inline uint32_t known_region(const pto_tensormap *map, const pto_tensor *t)
{
    const uint32_t region = ptoi_recall(map, t);
    return region != PTOI_NONE && map->regions[region].near == PTOI_NEAR_NONE ? region : PTOI_NONE;
}

/* A parameter that is a tensor of the map's: neither a scalar nor an `after`, and ordered. Its head is
 * one word. */
_Static_assert(offsetof(pto_param, nodep) == 4 && offsetof(pto_param, dtype) == 6 &&
                   offsetof(pto_param, tensor) == 8 && PTO_PARAM_INPUT == 1 && PTO_PARAM_INOUT == 3,
               "kind, nodep and dtype are looked at at once");

static inline uint64_t head_of(const pto_param *p)
{
    uint64_t head;
    memcpy(&head, p, sizeof head);
    return head;
}

typedef struct asking {
    pto_runtime *rt;
    ptoi_edges *edges;
    uint32_t kind;
    bool many;
} asking;

static inline void met_reader(void *context, uint64_t seq, uint32_t level, uint32_t entry,
                              pto_map_access met, bool live)
{
    asking *a = context;
    (void)entry;
    (void)live;
    if (a->edges->count == PTOI_KNOWN_EDGES) {
        a->many = true;
    } else {
        ptoi_edge_met(a->rt, a->edges, level, seq, a->kind, met);
    }
}

/* The readers that a write waits for, apart: it leaves the walk all its registers. Says whether they
 * fit. */
static __attribute__((noinline)) bool ask_readers(pto_runtime *rt, const ptoi_region *r,
                                                  ptoi_edges *edges, uint32_t kind)
{
    asking a = {rt, edges, kind, false};
    (void)ptoi_answer_readers(rt->map, r, met_reader, &a);
    return !a.many;
}

/* Submits the task, if it is of the usual kind and there is room for it. Otherwise says false, and
 * has done nothing. Kernel and type are right; the runtime is not cancelled. */
static inline bool submit_known(pto_runtime *rt, uint32_t kernel, uint32_t type,
                                const pto_param *params, size_t n_params, const char *file,
                                int line)
{
    pto_tensormap *map = rt->map;
    const uint32_t level = rt->level;
    ptoi_track *track = rt->now;
    if (PTOI_UNLIKELY(n_params > PTOI_KNOWN_PARAMS || rt->order >= track->quick)) {
        return false;
    }
    const uint64_t seq = track->head;
    const uint64_t attempt = ++rt->attempt;

    uint32_t
        found[PTOI_KNOWN_PARAMS]; /* regions; or SCALAR; or BROUGHT and the number of the form */
    ptoi_edges edges = {.refs = track->refs + track->deps.at};
    ptoi_packed *const at = track->packed + track->args.at;
    uint64_t heap_bytes = 0, heap_at = 0;
    uint32_t brought = 0;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        const uint64_t kind = head_of(p);
        if (PTOI_UNLIKELY(kind - PTO_PARAM_INPUT > PTO_PARAM_INOUT - PTO_PARAM_INPUT)) {
            if (p->kind != PTO_PARAM_SCALAR) {
                return false;
            }
            ptoi_pack_scalar(&at[i], p);
            found[i] = SCALAR;
            continue;
        }
        const pto_tensor *t = p->tensor;
        if (PTOI_UNLIKELY(!t)) {
            return false;
        }
        const ptoi_buffer *b = NULL;
        if (t->owner) {
            ptoi_buffer *its = buffer_of(rt, t);
            if (PTOI_UNLIKELY(!ptoi_buffer_is(rt, t->owner, t->generation) ||
                              t->version != its->version)) {
                return false;
            }
            if (!its->seq) {
                const uint32_t form = form_of_whole(rt, its, t);
                if (PTOI_UNLIKELY(!form || kind != PTO_PARAM_OUTPUT || its->fresh == attempt ||
                                  its->base != rt->base)) {
                    return false;
                }
                its->fresh = attempt;
                its->at = heap_bytes;
                heap_bytes += ptoi_draft_block(its);
                found[i] = BROUGHT | form;
                brought++;
                continue;
            }
            b = its;
        }
        const uint32_t region = known_region(map, t);
        if (PTOI_UNLIKELY(region == PTOI_NONE)) {
            return false;
        }
        ptoi_region *r = &map->regions[region];
        found[i] = region;
        if (r->writer >= map->level[r->writer_level].watermark) {
            if (PTOI_UNLIKELY(edges.count == PTOI_KNOWN_EDGES)) {
                return false;
            }
            ptoi_edge_met(rt, &edges, r->writer_level, r->writer, (uint32_t)kind, PTO_MAP_WRITE);
        }
        if (kind != PTO_PARAM_INPUT && r->read_levels &&
            PTOI_UNLIKELY(!ask_readers(rt, r, &edges, (uint32_t)kind))) {
            return false;
        }
        if (PTOI_UNLIKELY(!r->packed[1])) {
            const ptoi_packed packed = ptoi_pack_place(t, b, r->form);
            memcpy(r->packed, &packed, sizeof packed);
        }
        const uint64_t packed[2] = {r->packed[0], r->packed[1] | kind << PTOI_PACKED_ACCESS_SHIFT};
        memcpy(&at[i], packed, sizeof packed);
    }
    if (PTOI_UNLIKELY(heap_bytes && !ptoi_heap_fits(&track->heap, heap_bytes, &heap_at))) {
        return false;
    }

    /* From here on nothing can fail. */
    const pto_map_task who = {seq, level};
    ptoi_level *entries = &map->level[level];
    uint32_t entry = entries->head;
    const uint32_t first = entry;
    for (size_t i = 0; i < n_params; i++) {
        if (PTOI_UNLIKELY(found[i] >= BROUGHT)) {
            continue;
        }
        ptoi_region *r = &map->regions[found[i]];
        ptoi_entry_write(entries, entry++, r, found[i],
                         params[i].kind == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE, who);
        if (r->kind != PTOI_SPACE_USER) {
            ptoi_buffer_hold(rt, &rt->buffers[(uint32_t)r->a - 1], level, seq);
        }
    }
    /* What is new after all that is known, which counts from here on: a new one may take the place of
     * something idle. */
    entries->head = entry;
    for (size_t i = 0; brought; i++) {
        if (found[i] < BROUGHT || found[i] == SCALAR) {
            continue;
        }
        const pto_tensor *t = params[i].tensor;
        ptoi_buffer *b = buffer_of(rt, t);
        b->seq = seq;
        b->level = (uint8_t)level;
        b->at = ptoi_guard_place(rt->sched.guard, b->at + heap_at);
        b->unmapped = false;
        const uint32_t form = found[i] & ~BROUGHT;
        const uint32_t region = ptoi_loose_create(map, t, form);
        ptoi_region *r = &map->regions[region];
        ptoi_entry_write(entries, entry++, r, region, PTO_MAP_WRITE, who);
        at[i] = ptoi_pack_place(t, b, form);
        memcpy(r->packed, &at[i], sizeof r->packed);
        at[i].access = PTO_PARAM_OUTPUT;
        brought--;
    }
    entries->head = entry;
    map->hot.params += entry - first;

    if (PTOI_UNLIKELY(rt->sched.guard)) {
        ptoi_guard_task(rt, level, seq, track->args.at, params, n_params);
    }
    const bool poisoned = PTOI_UNLIKELY(track->few) && ptoi_edges_drop_complete(rt, &edges);
    const uint32_t base = rt->base;
    ptoi_heap_take(&track->heap, heap_at, heap_bytes);
    const uint64_t args_at = track->args.at, deps_at = track->deps.at;
    const ptoi_written task = {
        .level = level,
        .seq = seq,
        .base = base,
        .scopes = rt->depth - base,
        .heap_at = heap_at,
        .heap_bytes = heap_bytes,
        .args_at = args_at,
        .args_end = ptoi_ring_take_here(&track->args, n_params),
        .n_args = (uint32_t)n_params,
        .deps_at = deps_at,
        .deps_end = ptoi_ring_take_here(&track->deps, edges.count),
        .fanin = edges.count,
        .kernel = kernel,
        .type = type,
        .site = ptoi_site_of(rt, file, line),
        .poisoned = poisoned,
    };
    const ptoi_slot *slot = ptoi_write(rt, &task);
    if (PTOI_UNLIKELY(rt->sched.watched)) {
        ptoi_tell_submitted(rt, slot, params, n_params);
    }
    ptoi_publish(rt, slot, &edges);
    ptoi_map_debug_check(map);
    return true;
}

#endif /* PTOI_KNOWN_H */
