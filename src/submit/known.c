/* known.c - the task that is hoped for, in one go.
 *
 * Most tasks of a program that runs for a while have few parameters, all of them regions that the
 * map knows and that nothing else overlaps, or buffers that they bring themselves; and there is
 * room. For these the steps of draft.h come down to three walks over the parameters:
 *
 *     find the bucket of each      so that what comes from afar comes at the same time
 *     ask each region              edges go straight to where they stay
 *     tell each region, and pack
 *
 * Up to the end of the second nothing is changed but marks that mean nothing to the next call, so
 * whatever is unusual (a first use, a part of something, an `after`, an error, no room) leaves here
 * with `false`, and the draft does it.
 */
#include "submit/known.h"
#include "map/answer.h"
#include "map/near.h"
#include "map/recall.h"
#include "submit/write.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define FEW 16   /* parameters */
#define EDGES 64 /* that are sure to fit */

/* In place of a region. */
#define SCALAR (PTOI_NONE - 1)
#define BROUGHT (PTOI_NONE - 2)

static inline ptoi_buffer *buffer_of(const pto_runtime *rt, const pto_tensor *t)
{
    return &rt->buffers[(uint32_t)t->owner - 1];
}

/* Whether the tensor is all of the buffer, in order. It may be any nonsense. */
static bool is_whole(const ptoi_buffer *b, const pto_tensor *t)
{
    if (t->storage_bytes != b->bytes || b->bytes == 0 || t->offset != 0 || t->storage ||
        (uint32_t)t->ndim > PTO_MAX_DIMS || (uint32_t)t->dtype > 15 ||
        ptoi_dtype_bytes(t->dtype) == 0) {
        return false;
    }
    const uint64_t size = ptoi_dtype_bytes(t->dtype), numel = b->bytes / size;
    uint64_t step = 1; /* of a dense tensor */
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        if ((uint64_t)t->strides[d] != step ||
            __builtin_mul_overflow(step, (uint64_t)t->shape[d], &step) || step > numel) {
            return false;
        }
    }
    return step * size == b->bytes;
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
    if (a->edges->count == EDGES) {
        a->many = true;
    } else {
        ptoi_edge_met(a->rt, a->edges, level, seq, a->kind, met);
    }
}

/* The readers that a write waits for, apart: it leaves the walk all its registers. Says how many;
 * more than fit are as many as can be. */
static __attribute__((noinline)) size_t ask_readers(pto_runtime *rt, const ptoi_region *r,
                                                    ptoi_edges *edges, uint32_t kind)
{
    asking a = {rt, edges, kind, false};
    size_t count = ptoi_answer_readers(rt->map, r, met_reader, &a);
    return a.many ? SIZE_MAX : count;
}

bool ptoi_submit_known(pto_runtime *rt, uint32_t kernel, uint32_t type, const pto_param *params,
                       size_t n_params, const char *file, int line)
{
    pto_tensormap *map = rt->map;
    const uint32_t level = rt->level;
    ptoi_track *track = &rt->track[level];
    ptoi_level *entries = &map->level[level];
    const uint64_t seq = track->head;
    ptoi_piece deps, args;
    if (UNLIKELY(n_params > FEW || seq - track->retired > track->mask ||
                 ptoi_entry_room(entries) < n_params ||
                 !ptoi_ring_fits_here(&track->deps, EDGES, &deps) || ptoi_poison_any(rt))) {
        return false;
    }
    const uint64_t attempt = ++rt->attempt;

    uint32_t found[FEW];
    uint64_t heap_bytes = 0, heap_at = 0;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        if (UNLIKELY((uint32_t)p->kind - PTO_PARAM_INPUT > PTO_PARAM_INOUT - PTO_PARAM_INPUT)) {
            if (p->kind != PTO_PARAM_SCALAR) {
                return false;
            }
            found[i] = SCALAR;
            continue;
        }
        const pto_tensor *t = p->tensor;
        if (UNLIKELY(!t || p->nodep)) {
            return false;
        }
        if (t->owner) {
            ptoi_buffer *b = buffer_of(rt, t);
            if (UNLIKELY(!ptoi_buffer_is(rt, t->owner, t->generation) ||
                         t->version != b->version)) {
                return false;
            }
            if (!b->seq) {
                if (UNLIKELY(p->kind != PTO_PARAM_OUTPUT || b->fresh == attempt ||
                             b->base != rt->scopes[rt->depth - 1].base || !is_whole(b, t))) {
                    return false;
                }
                b->fresh = attempt;
                b->at = heap_bytes;
                heap_bytes += (b->bytes + 63) & ~UINT64_C(63);
                found[i] = BROUGHT;
                continue;
            }
        }
        uint32_t at = ptoi_recall_begin(map, t);
        if (UNLIKELY(at == PTOI_NONE)) {
            return false;
        }
        found[i] = at;
        __builtin_prefetch(&map->regions[at]);
        __builtin_prefetch(&map->regions[at].alias);
    }

    ptoi_edges edges = {.refs = rt->view.level[level].deps + deps.at};
    uint64_t units = 0;
    size_t hits = 0, superseded = 0, brought = 0;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        if (UNLIKELY(found[i] >= BROUGHT)) {
            brought += found[i] == BROUGHT;
            units += found[i] == SCALAR ? 1 : ptoi_packed_units(p->tensor->ndim);
            continue;
        }
        uint32_t region = ptoi_recall_end(map, p->tensor, found[i]);
        const ptoi_region *r = &map->regions[region];
        if (UNLIKELY(region == PTOI_NONE || r->near != PTOI_NEAR_NONE || edges.count == EDGES)) {
            return false;
        }
        found[i] = region;
        units += ptoi_packed_units(p->tensor->ndim);
        size_t met = 0;
        if (r->writer >= map->level[r->writer_level].watermark) {
            ptoi_edge_met(rt, &edges, r->writer_level, r->writer, (uint32_t)p->kind, PTO_MAP_WRITE);
            met = 1;
        }
        if (p->kind != PTO_PARAM_INPUT) {
            if (r->read_levels) {
                size_t readers = ask_readers(rt, r, &edges, (uint32_t)p->kind);
                if (UNLIKELY(readers == SIZE_MAX)) {
                    return false;
                }
                met += readers;
            }
            superseded += met;
        }
        hits += met;
    }
    if (UNLIKELY(!ptoi_ring_fits_here(&track->args, units, &args) ||
                 (heap_bytes && !ptoi_heap_fits(&track->heap, heap_bytes, &heap_at)))) {
        return false;
    }

    /* From here on nothing can fail. */
    const pto_map_task who = {seq, level};
    uint32_t entry = entries->head;
    const uint32_t first = entry;
    if (n_params) {
        ptoi_entry_begin(map, who);
    }
    ptoi_packed *at = rt->view.level[level].args + args.at;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        if (UNLIKELY(found[i] == SCALAR)) {
            at = ptoi_pack_scalar(at, p);
            continue;
        }
        ptoi_buffer *b = p->tensor->owner ? buffer_of(rt, p->tensor) : NULL;
        if (found[i] == BROUGHT) {
            b->seq = seq;
            b->level = level;
            b->at = ptoi_guard_place(rt->sched.guard, b->at + heap_at);
        } else {
            ptoi_entry_write(entries, entry++, first, &map->regions[found[i]], found[i],
                             p->kind == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE, who);
            if (b) {
                ptoi_buffer_hold(rt, b, level, seq);
            }
        }
        at = ptoi_pack_tensor(at, p, b);
    }
    /* What is new after all that is known, which counts from here on: a new one may take the place of
     * something idle. */
    entries->head = entry;
    for (size_t i = 0; brought; i++) {
        if (found[i] == BROUGHT) {
            uint32_t region = ptoi_loose_create(map, params[i].tensor);
            ptoi_entry_write(entries, entry++, first, &map->regions[region], region, PTO_MAP_WRITE,
                             who);
            brought--;
        }
    }
    entries->head = entry;
    map->hot.params += entry - first;
    map->hot.hits += hits;
    map->hot.superseded += superseded;

    if (UNLIKELY(rt->sched.guard)) {
        ptoi_guard_task(rt, level, seq, args.at, params, n_params);
    }
    const bool poisoned = UNLIKELY(ptoi_edges_are_few(track)) &&
                          ptoi_edges_drop_complete(rt, &edges);
    const uint32_t base = rt->depth ? rt->scopes[rt->depth - 1].base : 0;
    const ptoi_written task = {
        .level = level,
        .seq = seq,
        .base = base,
        .scopes = rt->depth - base,
        .heap_at = heap_at,
        .heap_bytes = heap_bytes,
        .args = args,
        .units = units,
        .n_args = (uint32_t)n_params,
        .poisoned = poisoned,
        .deps = deps,
        .fanin = edges.count,
        .kernel = kernel,
        .type = type,
        .site = ptoi_site_of(rt, file, line),
        .list = PTOI_LIST_EMPTY,
    };
    const ptoi_slot *slot = ptoi_write(rt, &task);
    if (UNLIKELY(rt->sched.watched)) {
        ptoi_tell_submitted(rt, slot, params, n_params);
    }
    ptoi_publish(rt, slot, &edges);
    ptoi_map_debug_check(map);
    return true;
}
