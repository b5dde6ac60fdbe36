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
    ptoi_written task = {.level = level, .seq = seq, .list = PTOI_LIST_EMPTY};
    if (UNLIKELY(n_params > FEW || seq - track->retired > track->mask ||
                 ptoi_entry_room(entries) < n_params ||
                 !ptoi_ring_fits(&track->deps, EDGES, &task.deps) || ptoi_poison_any(rt))) {
        return false;
    }
    const uint64_t attempt = ++rt->attempt;

    uint32_t found[FEW];
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
                b->at = task.heap_bytes;
                task.heap_bytes += (b->bytes + 63) & ~UINT64_C(63);
                found[i] = BROUGHT;
                continue;
            }
        }
        found[i] = ptoi_recall_begin(map, t);
        if (UNLIKELY(found[i] == PTOI_NONE)) {
            return false;
        }
        __builtin_prefetch(&map->regions[found[i]]);
        __builtin_prefetch(&map->regions[found[i]].alias);
    }

    ptoi_edges edges = {.refs = rt->view.level[level].deps + task.deps.at};
    size_t hits = 0, superseded = 0;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        if (UNLIKELY(found[i] >= BROUGHT)) {
            task.units += found[i] == SCALAR ? 1 : ptoi_packed_units(p->tensor->ndim);
            continue;
        }
        found[i] = ptoi_recall_end(map, p->tensor, found[i]);
        const ptoi_region *r = &map->regions[found[i]];
        if (UNLIKELY(found[i] == PTOI_NONE || r->near != PTOI_NEAR_NONE || edges.count == EDGES)) {
            return false;
        }
        task.units += ptoi_packed_units(p->tensor->ndim);
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
    uint64_t heap_at = 0;
    if (UNLIKELY(!ptoi_ring_fits(&track->args, task.units, &task.args) ||
                 (task.heap_bytes && !ptoi_heap_fits(&track->heap, task.heap_bytes, &heap_at)))) {
        return false;
    }
    task.heap_at = heap_at;

    /* From here on nothing can fail. First those that are known: telling the map of a new one may
     * cost an idle one its place. */
    const pto_map_task who = {seq, level};
    uint32_t entry = entries->head;
    if (n_params) {
        ptoi_entry_begin(map, who);
    }
    const uint32_t first = entry;
    size_t brought = 0;
    for (size_t i = 0; i < n_params; i++) {
        if (UNLIKELY(found[i] >= BROUGHT)) {
            brought += found[i] == BROUGHT;
            continue;
        }
        ptoi_entry_write(entries, entry++, first, &map->regions[found[i]], found[i],
                         params[i].kind == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE, who);
    }
    for (size_t i = 0; brought; i++) {
        if (found[i] == BROUGHT) {
            uint32_t region = ptoi_loose_create(map, params[i].tensor);
            ptoi_entry_write(entries, entry++, first, &map->regions[region], region, PTO_MAP_WRITE,
                             who);
            ptoi_buffer *b = buffer_of(rt, params[i].tensor);
            b->seq = seq;
            b->level = level;
            b->at += heap_at;
            brought--;
        }
    }
    entries->head = entry;
    map->hot.params += entry - first;
    map->hot.hits += hits;
    map->hot.superseded += superseded;

    ptoi_packed *at = rt->view.level[level].args + task.args.at;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        if (UNLIKELY(found[i] == SCALAR)) {
            at = ptoi_pack_scalar(at, p);
            continue;
        }
        const ptoi_buffer *b = NULL;
        if (p->tensor->owner) {
            b = buffer_of(rt, p->tensor);
            if (found[i] != BROUGHT) {
                ptoi_buffer_hold(rt, b, level, seq);
            }
        }
        at = ptoi_pack_tensor(at, p, b);
    }
    if (UNLIKELY(ptoi_edges_are_few(track))) {
        task.poisoned = ptoi_edges_drop_complete(rt, &edges);
    }
    task.fanin = edges.count;
    task.n_args = (uint32_t)n_params;
    task.base = rt->depth ? rt->scopes[rt->depth - 1].base : 0;
    task.scopes = rt->depth - task.base;
    task.kernel = kernel;
    task.type = type;
    task.site = ptoi_site_of(rt, file, line);
    ptoi_publish(rt, ptoi_write(rt, &task), &edges);
    ptoi_map_debug_check(map);
    return true;
}
