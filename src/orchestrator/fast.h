/* fast.h - the fast path of submit: a walk over the parameters of a task, then publishing.
 *
 * For the common task: few parameters, room in every ring, and each parameter is a region that the
 * map knows, or a buffer whose memory the task brings. One walk finds everything: region, layout,
 * address, and the tasks to wait for. Edges and arguments are written to their final place. They are
 * taken from the rings only when the task is committed.
 *
 * The walk changes nothing but marks that are void in the next call (`attempt`). So anything
 * unusual (a first use, an error) can abandon the walk and start the slow path (slow.h). The walk of many.c for tasks
 * that run also makes views known to the map, for reads or for writes.
 * Room is checked for many tasks ahead: rings.fast_until says up to which order.
 *
 * Three files have walks of their own, compiled for them: submit.c for tasks of the host, route.c for those of other
 * devices, many.c for those that are less common.
 */
#ifndef PTOI_FAST_H
#define PTOI_FAST_H

#include "base/probe.h"
#include "orchestrator/buffer.h"
#include "orchestrator/device.h"
#include "orchestrator/first_use.h"
#include "orchestrator/handle.h"
#include "orchestrator/map/access.h"
#include "orchestrator/map/desc_cache.h"
#include "orchestrator/map/keep.h"
#include "orchestrator/map/links.h"
#include "orchestrator/names.h"
#include "orchestrator/poison.h"
#include "orchestrator/room.h"
#include "orchestrator/slow.h"
#include "orchestrator/watch.h"
#include "orchestrator/write.h"

/* ---- The walk ---- */

/* In found[], for a scalar and for a tensor that is not ordered. Region numbers are below 2^29. */
#define PTOI_FAST_SCALAR 0xffffffffu
#define PTOI_FAST_ASIDE 0xfffffffeu

/* Parameters that a set has bits for. */
#define PTOI_FAST_SET 64

/* What the walk finds. Bit i of a set stands for parameter i. */
typedef struct ptoi_resolved {
    uint64_t heap_at, heap_bytes; /* heap block of the task */
    uint64_t fresh;               /* set: buffers whose memory it brings */
    uint64_t managed;             /* set: buffers that have memory already. For tasks that run */
    uint32_t afters;              /* parameters that are no arguments of the kernel */
} ptoi_resolved;

/* Kind, nodep and dtype of a parameter in one word. For a tensor that the map orders the word
 * equals the kind, 1 to 3. */
_Static_assert(offsetof(pto_param, nodep) == 4 && offsetof(pto_param, dtype) == 6 &&
                   offsetof(pto_param, tensor) == 8 && PTO_PARAM_INPUT == 1 && PTO_PARAM_INOUT == 3,
               "one word says that a parameter is an ordinary tensor");

static inline uint64_t ptoi_fast_kind(const pto_param *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Whether the parameter is a scalar of one of the three types. */
_Static_assert(PTO_UINT64 == PTO_INT64 + 1 && PTO_FLOAT64 == PTO_INT64 + 2,
               "the types of scalars are adjacent");

/* Whether the parameter is a tensor that the map does not order. */
static inline bool ptoi_fast_is_aside(const pto_param *p)
{
    return p->nodep && (uint32_t)p->kind - PTO_PARAM_INPUT <= PTO_PARAM_INOUT - PTO_PARAM_INPUT &&
           p->tensor;
}

static inline bool ptoi_fast_is_scalar(const pto_param *p)
{
    return p->kind == PTO_PARAM_SCALAR &&
           (uint16_t)(p->dtype - PTO_INT64) <= PTO_FLOAT64 - PTO_INT64;
}

static __attribute__((noinline)) uint32_t
ptoi_fast_find_whole(const pto_runtime *rt, const ptoi_buffer *b, const pto_tensor *t)
{
    if ((uint32_t)t->ndim > PTO_MAX_DIMS || b->bytes == 0) {
        return 0;
    }
    const uint32_t desc = ptoi_desc_find(&rt->map->descs, t);
    return ptoi_desc_at(rt->map->descs.records, desc)->dense == b->bytes ? desc : 0;
}

/* The layout number of a tensor that is its whole buffer, densely. 0 if it is not, or if its layout
 * has no number. The tensor is not checked before. */
static inline uint32_t ptoi_fast_whole_desc(const pto_runtime *rt, const ptoi_buffer *b,
                                            const pto_tensor *t)
{
    if (PTOI_UNLIKELY(t->storage_bytes != b->bytes || t->offset != 0 || t->storage)) {
        return 0;
    }
    return b->desc && ptoi_desc_matches(ptoi_desc_at(rt->map->descs.records, b->desc), t)
               ? b->desc
               : ptoi_fast_find_whole(rt, b, t);
}

typedef struct ptoi_fast_meeting {
    pto_runtime *rt;
    ptoi_edges *edges;
    uint32_t kind;
    uint32_t most; /* edges that there may be */
    bool many;     /* there are more */
} ptoi_fast_meeting;

static inline void ptoi_fast_meet_reader(void *context, uint64_t seq, uint32_t level,
                                         uint32_t entry, pto_map_access met, bool live)
{
    ptoi_fast_meeting *m = context;
    (void)entry;
    (void)live;
    if (m->edges->count == m->most) {
        m->many = true;
    } else {
        ptoi_edge_met(m->rt, m->edges, level, seq, m->kind, met);
    }
}

/* Adds edges to the readers that a write waits for. Out of line, so that the walk keeps its
 * registers. Returns whether there are at most `most` edges. */
static __attribute__((noinline)) bool ptoi_fast_meet_readers(pto_runtime *rt, const ptoi_region *r,
                                                             ptoi_edges *edges, uint32_t kind,
                                                             uint32_t most)
{
    ptoi_fast_meeting m = {rt, edges, kind, most, false};
    (void)ptoi_access_ask_readers(rt->map, r, ptoi_fast_meet_reader, &m);
    return !m.many;
}

/* A buffer that the task is the first to write. Returns its layout, or 0 if the case is unusual. */
static inline uint32_t ptoi_fast_fresh(const pto_runtime *rt, const pto_tensor *t, ptoi_buffer *b,
                                       uint64_t kind, uint64_t block_at, ptoi_resolved *f)
{
    const uint32_t desc = ptoi_fast_whole_desc(rt, b, t);
    if (PTOI_UNLIKELY(kind != PTO_PARAM_OUTPUT || b->attempt == rt->attempt ||
                      b->base != rt->base)) {
        return 0;
    }
    b->attempt = rt->attempt;
    b->desc = (uint16_t)desc;
    b->at = block_at + f->heap_bytes;
    b->level = (uint8_t)rt->level;
    f->heap_bytes += ptoi_buffer_block(b);
    return desc;
}

/* Whether a task that is not complete writes the region. */
static inline bool ptoi_fast_is_written(const pto_tensormap *map, const ptoi_region *r)
{
    return r->writer >= map->level[r->writer_level].watermark;
}

/* Whether an unfinished task reads the region. If none does, clears read_levels to spare the next
 * task the check. */
static inline bool ptoi_fast_is_read(const pto_tensormap *map, ptoi_region *r)
{
    if (!ptoi_region_idle(map, r)) {
        return true;
    }
    r->read_levels = 0;
    return false;
}

/* PTOI_MANY: a walk of many.c may take the task. PTOI_ELSEWHERE: a tensor is on another device than it was said. */
typedef enum ptoi_fast_verdict {
    PTOI_RESOLVED,
    PTOI_UNUSUAL,
    PTOI_BLOCKED,
    PTOI_MANY,
    PTOI_ELSEWHERE
} ptoi_fast_verdict;

/* The device of a tensor as one word; 0 is cpu:0. */
static inline uint64_t ptoi_fast_where(const pto_tensor *t)
{
    uint64_t word;
    _Static_assert(sizeof word == sizeof t->device, "a device is one word");
    memcpy(&word, &t->device, sizeof word);
    return word;
}

/* The argument of a tensor in a known region, without its access, is kept with the region. */
static inline void ptoi_fast_place(pto_runtime *rt, const uint32_t device, const pto_tensor *t,
                                   const ptoi_buffer *managed, ptoi_region *r)
{
    if (PTOI_UNLIKELY(!r->arg[1])) {
        const ptoi_arg_desc place = device ? ptoi_write_place_on(rt, t, managed, r->desc)
                                           : ptoi_write_place(rt, t, managed, r->desc);
        memcpy(r->arg, &place, sizeof place);
    }
}

/* ---- Regions that overlap others ---- */

/* Whether the walk may follow one more link, after so many. The slow path evicts idle regions if it may not. */
static inline bool ptoi_fast_may_follow(pto_tensormap *map, uint32_t links)
{
    return PTOI_LIKELY(links == 0 || links % PTOI_LINKS_FREE != 0) ||
           ptoi_keep_pay(map, PTOI_LINKS_FREE);
}

/* Whether a task that is not complete is in the way of a task that runs inline. */
static __attribute__((noinline)) ptoi_fast_verdict
ptoi_fast_try_links(pto_tensormap *map, const ptoi_region *r, uint64_t kind)
{
    uint32_t links = 0;
    if (r->links & PTOI_LINKS_INCOMPLETE) {
        return PTOI_UNUSUAL;
    }
    for (uint32_t end = r->links; end != PTOI_LINKS_NONE; end = map->link_ends[end].next) {
        ptoi_region *other = &map->regions[map->link_ends[end].region];
        if (!ptoi_fast_may_follow(map, links++)) {
            return PTOI_UNUSUAL;
        }
        if ((ptoi_fast_is_written(map, other) ||
             (kind != PTO_PARAM_INPUT && other->read_levels && ptoi_fast_is_read(map, other))) &&
            !PTOI_MUTANT(INLINE_LINKS)) {
            return PTOI_BLOCKED;
        }
    }
    return PTOI_RESOLVED;
}

/* A region that was only read is written from now on: it gets the rest of its links, and these are tried. */
static __attribute__((noinline)) ptoi_fast_verdict ptoi_fast_begin_writes(pto_tensormap *map,
                                                                          const ptoi_region *r)
{
    ptoi_region_begin_writes(map, (uint32_t)(r - map->regions));
    return ptoi_fast_try_links(map, r, PTO_PARAM_OUTPUT);
}

/* Adds edges to the tasks that use regions which overlap this one. */
static __attribute__((noinline)) ptoi_fast_verdict
ptoi_fast_meet_links(pto_runtime *rt, const ptoi_region *r, ptoi_edges *edges, uint32_t kind,
                     uint32_t most)
{
    pto_tensormap *map = rt->map;
    uint32_t links = 0;
    if (r->links & PTOI_LINKS_INCOMPLETE) {
        return PTOI_UNUSUAL;
    }
    for (uint32_t end = r->links, next; end != PTOI_LINKS_NONE; end = next) {
        ptoi_region *other = &map->regions[map->link_ends[end].region];
        next = map->link_ends[end].next;
        if (!ptoi_fast_may_follow(map, links++)) {
            return PTOI_UNUSUAL;
        }
        if (ptoi_fast_is_written(map, other) && !PTOI_MUTANT(FAST_LINKS)) {
            if (edges->count == most) {
                return PTOI_MANY;
            }
            ptoi_edge_met(rt, edges, other->writer_level, other->writer, kind, PTO_MAP_WRITE);
        }
        if (kind != PTO_PARAM_INPUT && other->read_levels && ptoi_fast_is_read(map, other) &&
            !ptoi_fast_meet_readers(rt, other, edges, kind, most)) {
            return PTOI_MANY;
        }
    }
    return PTOI_RESOLVED;
}

/* ---- Tensors that are not ordered ---- */

/* Finds the argument of a `pto_nodep` tensor, without its access, and its layout. `run`: of a task that
 * runs, for which a buffer may stay unmapped, and a layout gets a number. False: the case is unusual. */
static __attribute__((noinline)) bool ptoi_fast_aside(pto_runtime *rt, const uint32_t device,
                                                      bool run, const pto_param *p,
                                                      ptoi_arg_desc *arg)
{
    const pto_tensor *t = p->tensor;
    const ptoi_buffer *b = NULL;
    if (run && ptoi_fast_where(t)) {
        return false;
    }
    if (t->owner) {
        b = ptoi_buffer_of(rt, t);
        if (!ptoi_buffer_is(rt, t->owner, t->generation) || t->version != b->version || !b->block ||
            (b->unmapped && !run) || t->storage_bytes != b->bytes || b->device != device) {
            return false;
        }
    }
    const uint32_t region = ptoi_desc_cache_find(rt->map, t);
    if (region != PTOI_NONE) { /* as valid as it was then */
        ptoi_region *r = &rt->map->regions[region];
        ptoi_fast_place(rt, device, t, b, r);
        memcpy(arg, r->arg, sizeof *arg);
        return true;
    }
    /* In user memory it may reach into a heap, or out of shared memory: the slow path checks that. */
    const uintptr_t low = (uintptr_t)t->storage;
    if (!b && (rt->processes || (low < rt->heap_end && low + t->storage_bytes > rt->heap_begin))) {
        return false;
    }
    if (pto_tensor_check(t) != PTO_OK || pto_tensor_numel(t) == 0) {
        return false; /* the slow path says what is wrong */
    }
    const uint32_t desc = run ? ptoi_desc_intern(&rt->map->descs, t)
                              : ptoi_desc_find(&rt->map->descs, t);
    if (!desc) {
        return false;
    }
    *arg = device ? ptoi_write_place_on(rt, t, b, desc) : ptoi_write_place(rt, t, b, desc);
    return true;
}

/* ---- Tasks that it comes after ---- */

/* What an `after` asks for: nothing, if that task is complete and not bad; or an edge (PTOI_BLOCKED).
 * PTOI_UNUSUAL: the task is bad, or unknown. */
static __attribute__((noinline)) ptoi_fast_verdict ptoi_fast_after(const pto_runtime *rt,
                                                                   pto_task task)
{
    if (!ptoi_handle_is(rt, task)) {
        return PTOI_UNUSUAL;
    }
    const uint32_t level = ptoi_ref_level(ptoi_handle_ref(task));
    const uint64_t seq = ptoi_ref_seq(ptoi_handle_ref(task));
    if (seq < rt->rings[level].completed) {
        return rt->poison.n_bad[level] && ptoi_poison_is_bad(rt, level, seq, NULL) ? PTOI_UNUSUAL
                                                                                   : PTOI_RESOLVED;
    }
    return ptoi_is_marked_complete(&rt->view, ptoi_slot_of(&rt->view, level, seq)) ||
                   PTOI_MUTANT(FAST_AFTER)
               ? PTOI_RESOLVED
               : PTOI_BLOCKED;
}

/* Adds edges to the tasks that it comes after. They follow all others, since the first reason of an edge counts. */
static __attribute__((noinline)) ptoi_fast_verdict
ptoi_fast_meet_afters(pto_runtime *rt, const ptoi_request *q, ptoi_edges *edges, uint32_t most)
{
    for (size_t i = 0; i < q->n_params; i++) {
        const pto_task task = q->params[i].task;
        const ptoi_fast_verdict v = q->params[i].kind != PTO_PARAM_AFTER
                                        ? PTOI_RESOLVED
                                        : ptoi_fast_after(rt, task);
        if (v == PTOI_UNUSUAL || (v == PTOI_BLOCKED && edges->count == most)) {
            return PTOI_UNUSUAL;
        }
        if (v == PTOI_BLOCKED) {
            const ptoi_ref ref = ptoi_handle_ref(task);
            ptoi_edge_to(rt, edges, ptoi_ref_level(ref), ptoi_ref_seq(ref), PTOI_REASON_AFTER);
        }
    }
    return PTOI_RESOLVED;
}

/* ---- The walk itself ---- */

/* What a walk is for. `run`, `many` and mostly `device` are constants in every call, and the walk is compiled for
 * each. The walks of many.c take more: to run, views that the map does not know; to publish, `after`, and parameters
 * that sets have no bits for. */
typedef struct ptoi_fast_walk {
    bool run; /* prepares the arguments of a kernel that submit calls; otherwise it is to publish */
    bool many;       /* see above */
    uint32_t device; /* of the task; 0: the host */
    uint64_t where; /* the device that all tensors must be on (ptoi_fast_where); 0: that is known */
    uint32_t most;  /* edges that there is room for */
} ptoi_fast_walk;

/* The heap that a task on a device brings memory from. */
static inline ptoi_heap *ptoi_fast_heap(const pto_runtime *rt, const uint32_t device)
{
    return device ? ptoi_heap_of(rt, rt->level, device) : &rt->ring->heap;
}

/* Whom the task waits for at a region: edges, or PTOI_BLOCKED if it should run now. */
static inline __attribute__((always_inline)) ptoi_fast_verdict
ptoi_fast_meet(pto_runtime *rt, const ptoi_fast_walk w, ptoi_region *r, const uint64_t kind,
               ptoi_edges *edges)
{
    pto_tensormap *map = rt->map;
    if (w.run) {
        if (PTOI_UNLIKELY(r->links != PTOI_LINKS_NONE)) {
            const ptoi_fast_verdict v = ptoi_fast_try_links(map, r, kind);
            if (PTOI_UNLIKELY(v != PTOI_RESOLVED)) {
                return v;
            }
        }
        bool waits = ptoi_fast_is_written(map, r);
        if (kind != PTO_PARAM_INPUT && ptoi_region_may_delay_write(r)) {
            if (PTOI_UNLIKELY(ptoi_region_only_read(r))) {
                const ptoi_fast_verdict v = w.many ? ptoi_fast_begin_writes(map, r) : PTOI_MANY;
                if (v != PTOI_RESOLVED) {
                    return v;
                }
            }
            waits |= ptoi_fast_is_read(map, r);
        }
        if (PTOI_UNLIKELY(waits && !PTOI_MUTANT(INLINE))) {
            return PTOI_BLOCKED;
        }
        return PTOI_RESOLVED;
    }
    if (ptoi_fast_is_written(map, r)) {
        if (PTOI_UNLIKELY(edges->count == w.most)) {
            return PTOI_MANY;
        }
        ptoi_edge_met(rt, edges, r->writer_level, r->writer, (uint32_t)kind, PTO_MAP_WRITE);
    }
    if (kind != PTO_PARAM_INPUT && ptoi_region_may_delay_write(r)) {
        if (PTOI_UNLIKELY(ptoi_region_only_read(r))) {
            return PTOI_UNUSUAL; /* it has no links yet */
        }
        if (PTOI_UNLIKELY(!ptoi_fast_meet_readers(rt, r, edges, (uint32_t)kind, w.most))) {
            return PTOI_MANY;
        }
    }
    /* Links come after the region itself: the first reason of an edge counts. */
    return PTOI_UNLIKELY(r->links != PTOI_LINKS_NONE)
               ? ptoi_fast_meet_links(rt, r, edges, (uint32_t)kind, w.most)
               : PTOI_RESOLVED;
}

/* A buffer that no region stands for: one whose memory the task brings, or one that an inline task has
 * written. Returns its layout, or 0 if the case is unusual. */
static inline __attribute__((always_inline)) uint32_t
ptoi_fast_unmapped(const pto_runtime *rt, const ptoi_fast_walk w, const pto_tensor *t,
                   ptoi_buffer *b, size_t i, const uint64_t kind, const uint64_t block_at,
                   ptoi_resolved *f)
{
    const bool fresh = !b->block;
    if ((w.device && b->device != w.device) || /* of a kernel that copies */
        (w.many && i >= PTOI_FAST_SET)) {
        return 0;
    }
    const uint32_t desc = fresh ? ptoi_fast_fresh(rt, t, b, kind, block_at, f)
                                : ptoi_fast_whole_desc(rt, b, t);
    if (PTOI_UNLIKELY(!desc || (!w.run && !fresh))) {
        return 0;
    }
    f->fresh |= (uint64_t)fresh << i;
    f->managed |= (uint64_t)!fresh << i;
    return desc;
}

/* A parameter that the map does not order, and no scalar. Writes its argument. */
static inline __attribute__((always_inline)) ptoi_fast_verdict
ptoi_fast_unordered(pto_runtime *rt, const ptoi_fast_walk w, const pto_param *p, size_t i,
                    ptoi_resolved *f, pto_arg *arg, ptoi_arg_desc *out)
{
    ptoi_arg_desc aside;
    if (!ptoi_fast_is_aside(p)) {
        return PTOI_UNUSUAL;
    }
    if (w.where && ptoi_fast_where(p->tensor) != w.where) {
        return PTOI_ELSEWHERE;
    }
    if (!ptoi_fast_aside(rt, w.device, w.run, p, &aside)) {
        return PTOI_UNUSUAL;
    }
    if (w.run) {
        const bool managed = p->tensor->owner != 0;
        f->managed |= (uint64_t)managed << i;
        ptoi_arg_tensor(arg, ptoi_desc_at(rt->map->descs.records, aside.desc),
                        managed ? rt->calls->view->base[aside.segment] + aside.value
                                : (char *)(uintptr_t)aside.value);
        return PTOI_RESOLVED;
    }
    aside.access = (uint8_t)((uint32_t)p->kind | PTOI_ARG_NODEP);
    *out = aside;
    return PTOI_RESOLVED;
}

/* The walk over the parameters.
 *
 *   to publish  writes edges, argument descriptors and found[]: the region of a parameter, the
 *               layout of a fresh buffer, PTOI_FAST_SCALAR or PTOI_FAST_ASIDE
 *   to run      prepares the arguments of the kernel. PTOI_BLOCKED: the task waits for another one
 *
 * PTOI_UNUSUAL: the task needs the slow path, or there is no room. Only marks have changed then. */
static inline __attribute__((always_inline)) ptoi_fast_verdict
ptoi_fast_resolve(pto_runtime *rt, const ptoi_request *q, const ptoi_fast_walk w, ptoi_resolved *f,
                  uint32_t *found, ptoi_edges *edges)
{
    pto_tensormap *map = rt->map;
    ptoi_rings *rings = rt->ring;
    ptoi_arg_desc *out = rings->arg_descs + rings->args.at;
    pto_arg *arg = rt->calls->args;
    /* The usual place of a block: the arguments of a kernel that runs now assume it. */
    const uint64_t block_at = w.run ? ptoi_heap_newest(&rings->heap)->end : 0;
    rt->attempt++;
    *f = (ptoi_resolved){0};
    for (size_t i = 0; i < q->n_params; i++, arg++) {
        const pto_param *p = &q->params[i];
        const uint64_t kind = ptoi_fast_kind(p);
        if (PTOI_UNLIKELY(kind - PTO_PARAM_INPUT > PTO_PARAM_INOUT - PTO_PARAM_INPUT)) {
            if (PTOI_UNLIKELY(p->kind == PTO_PARAM_AFTER)) {
                if (!w.run && !w.many) {
                    return PTOI_MANY;
                }
                f->afters++;
                if (w.run) {
                    const ptoi_fast_verdict v = ptoi_fast_after(rt, p->task);
                    if (v != PTOI_RESOLVED) {
                        return v;
                    }
                    arg--;
                } else {
                    found[i] = PTOI_FAST_SCALAR; /* nothing is recorded for it */
                }
            } else if (PTOI_UNLIKELY(!ptoi_fast_is_scalar(p))) {
                const ptoi_fast_verdict v = ptoi_fast_unordered(rt, w, p, i, f, arg, out);
                if (v != PTOI_RESOLVED) {
                    return v;
                }
                if (!w.run) {
                    out++;
                    found[i] = PTOI_FAST_ASIDE;
                }
            } else if (w.run) {
                ptoi_arg_scalar(arg, (pto_dtype)p->dtype, p->u64);
            } else {
                out = ptoi_write_scalar(out, p);
                found[i] = PTOI_FAST_SCALAR;
            }
            continue;
        }
        const pto_tensor *t = p->tensor;
        if (PTOI_UNLIKELY(!t)) {
            return PTOI_UNUSUAL;
        }
        if (PTOI_UNLIKELY(w.where && ptoi_fast_where(t) != w.where)) {
            return PTOI_ELSEWHERE;
        }
        ptoi_buffer *b = NULL;
        if (t->owner) {
            b = ptoi_buffer_of(rt, t);
            if (PTOI_UNLIKELY(!ptoi_buffer_is(rt, t->owner, t->generation) ||
                              t->version != b->version)) {
                return PTOI_UNUSUAL;
            }
            if (!b->block || b->unmapped) {
                const uint32_t desc = ptoi_fast_unmapped(rt, w, t, b, i, kind, block_at, f);
                if (PTOI_LIKELY(desc)) {
                    if (w.run) {
                        ptoi_arg_tensor(arg, ptoi_desc_at(map->descs.records, desc),
                                        rt->calls->view->base[b->level] + b->at);
                    } else {
                        found[i] = desc;
                        out++; /* written once the block has its place */
                    }
                    continue;
                }
                if (!w.run || !w.many || !b->block) {
                    return w.run && b->block ? PTOI_MANY : PTOI_UNUSUAL;
                }
            }
            f->managed |= w.run ? UINT64_C(1) << i : 0;
        }
        const uint32_t region = ptoi_desc_cache_find(map, t);
        if (PTOI_UNLIKELY(region == PTOI_NONE)) {
            if (!w.run || !w.many) {
                return w.run ? PTOI_MANY : PTOI_UNUSUAL;
            }
            const ptoi_first first = ptoi_first_use(rt, t, b, kind, arg);
            if (first != PTOI_FIRST_FREE) {
                return first == PTOI_FIRST_WAITS ? PTOI_BLOCKED : PTOI_UNUSUAL;
            }
            continue;
        }
        ptoi_region *r = &map->regions[region];
        /* Programs come back to tiles in the order in which they first used them, so the next region is likely to
         * be wanted by the next task. With thousands of tiles it is not in the cache. */
        __builtin_prefetch(&r[1]);
        __builtin_prefetch(&r[1].cached);
        const ptoi_fast_verdict v = ptoi_fast_meet(rt, w, r, kind, edges);
        if (PTOI_UNLIKELY(v != PTOI_RESOLVED)) {
            return v;
        }
        ptoi_fast_place(rt, w.device, t, b, r);
        if (w.run) {
            ptoi_arg_tensor(arg, ptoi_desc_at(map->descs.records, r->desc),
                            b ? rt->calls->view->base[b->level] + r->arg[0]
                              : (char *)(uintptr_t)r->arg[0]);
        } else {
            found[i] = region;
            const uint64_t words[2] = {r->arg[0], r->arg[1] | kind << PTOI_ARG_ACCESS_SHIFT};
            memcpy(out++, words, sizeof words);
        }
    }
    if (w.many && !w.run && f->afters) {
        const ptoi_fast_verdict v = ptoi_fast_meet_afters(rt, q, edges, w.most);
        if (v != PTOI_RESOLVED) {
            return v;
        }
    }
    if (!f->fresh) {
        return PTOI_RESOLVED;
    }
    if (w.device && !ptoi_fast_heap(rt, w.device)->size) {
        return PTOI_UNUSUAL;
    }
    if (PTOI_UNLIKELY(!ptoi_heap_fits(ptoi_fast_heap(rt, w.device), f->heap_bytes, &f->heap_at))) {
        return PTOI_UNUSUAL;
    }
    return PTOI_UNLIKELY(w.run && f->heap_at != block_at) ? PTOI_UNUSUAL : PTOI_RESOLVED;
}

/* many.c: the walk of a task that should run, after PTOI_MANY. It may retire tasks, and make views known. */
ptoi_fast_verdict ptoi_many_walk(pto_runtime *rt, const ptoi_request *q, ptoi_resolved *f);

/* How many of the first i parameters are no arguments. */
static inline uint32_t ptoi_fast_afters_before(const pto_param *params, uint32_t i)
{
    uint32_t afters = 0;
    for (uint32_t k = 0; k < i; k++) {
        afters += params[k].kind == PTO_PARAM_AFTER;
    }
    return afters;
}

/* Which output of the task parameter i is. */
static inline uint32_t ptoi_fast_output_number(const pto_param *params, uint32_t i)
{
    uint32_t outputs = 0;
    for (uint32_t k = 0; k < i; k++) {
        outputs += params[k].kind == PTO_PARAM_OUTPUT || params[k].kind == PTO_PARAM_INOUT;
    }
    return outputs;
}

/* Takes the block that the task brings, for its fresh buffers. `inlined`: the map has no entry for
 * them. */
static inline void ptoi_fast_take_block(pto_runtime *rt, const ptoi_request *q,
                                        const uint32_t device, const ptoi_resolved *f, uint64_t seq,
                                        uint32_t site, const bool inlined)
{
    uint32_t live = 0;
    for (uint64_t left = f->fresh; left; left &= left - 1, live++) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        ptoi_buffer *b = ptoi_buffer_of(rt, q->params[i].tensor);
        b->block = rt->ring->blocks.head;
        b->output = ptoi_fast_output_number(q->params, i);
        b->unmapped = inlined;
        if (!inlined) { /* an inline task has found the usual place of its block already */
            b->at = ptoi_guard_place(ptoi_guard_is_on(rt, device), b->at + f->heap_at);
        }
    }
    ptoi_heap_block *block = ptoi_write_task_block(rt, rt->ring, ptoi_fast_heap(rt, device), seq,
                                                   f->heap_at, f->heap_bytes, live, q->kernel,
                                                   site);
    if (device) {
        block->device = block->ran_on = device & 15;
    }
}

/* ---- Ending 2: publish ---- */

static inline void ptoi_fast_publish(pto_runtime *rt, const ptoi_request *q, const ptoi_fast_walk w,
                                     const ptoi_resolved *f, const uint32_t *found,
                                     ptoi_edges *edges)
{
    pto_tensormap *map = rt->map;
    ptoi_rings *rings = rt->ring;
    const uint32_t level = rt->level;
    const uint64_t seq = rings->head;
    const pto_map_task task = {seq, level};
    ptoi_level *entries = &map->level[level];
    uint32_t entry = entries->head;
    const uint32_t first = entry;
    const uint32_t site = ptoi_site_of(rt, q->file, q->line);
    if (f->fresh) {
        ptoi_fast_take_block(rt, q, w.device, f, seq, site, false);
    }
    for (size_t i = 0; i < q->n_params; i++) {
        if (PTOI_UNLIKELY(found[i] >= PTOI_FAST_ASIDE ||
                          ((!w.many || i < PTOI_FAST_SET) && f->fresh >> i & 1))) {
            if (found[i] == PTOI_FAST_ASIDE && q->params[i].tensor->owner) {
                ptoi_write_hold(rt, ptoi_buffer_of(rt, q->params[i].tensor), level, seq);
            }
            continue;
        }
        ptoi_region *r = &map->regions[found[i]];
        if (PTOI_UNLIKELY(r->links != PTOI_LINKS_NONE) && q->params[i].kind != PTO_PARAM_INPUT) {
            entries->head = entry;                /* it may drop an access of this task, too */
            ptoi_region_supersede(map, found[i]); /* what it covers is of no use any more */
        }
        ptoi_entry_write(entries, entry++, r, found[i],
                         q->params[i].kind == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE, task);
        if (r->kind != PTOI_SPACE_USER) {
            ptoi_write_hold(rt, &rt->buffers[(uint32_t)r->a - 1], level, seq);
        }
    }
    /* A new region may replace an idle one. So new regions come last: the other regions of this
     * task have live entries by then. */
    entries->head = entry;
    for (uint64_t left = f->fresh; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        const pto_tensor *t = q->params[i].tensor;
        const ptoi_buffer *b = ptoi_buffer_of(rt, t);
        const uint32_t region = ptoi_unindexed_create(map, t, found[i]);
        ptoi_region *r = &map->regions[region];
        ptoi_entry_write(entries, entry++, r, region, PTO_MAP_WRITE, task);
        ptoi_arg_desc arg = w.device ? ptoi_write_place_on(rt, t, b, found[i])
                                     : ptoi_write_place(rt, t, b, found[i]);
        memcpy(r->arg, &arg, sizeof r->arg);
        arg.access = PTO_PARAM_OUTPUT;
        const uint32_t number = w.many && f->afters ? i - ptoi_fast_afters_before(q->params, i) : i;
        rings->arg_descs[rings->args.at + number] = arg;
    }
    entries->head = entry;
    map->hot.params += entry - first;

    if (PTOI_UNLIKELY(rt->guarded)) {
        ptoi_guard_task(rt, level, f->fresh != 0, rings->args.at, q->params, q->n_params);
    }
    const bool poisoned = PTOI_UNLIKELY(rings->edges_short) && ptoi_edges_drop_complete(rt, edges);
    const uint64_t args_at = rings->args.at, deps_at = rings->deps.at;
    const size_t n_args = q->n_params - (w.many ? f->afters : 0);
    (void)ptoi_ring_take_here(&rings->args, n_args);
    (void)ptoi_ring_take_here(&rings->deps, edges->count);
    ptoi_write_record(rings, seq);
    const ptoi_slot *slot = ptoi_write_slot(
        rings, seq, rt->order, ptoi_slot_header_word(q->kernel, site, level, q->lane, poisoned),
        args_at, (uint32_t)n_args, deps_at, edges->count);
    const pto_task self = ptoi_task_make(seq, level);
    PTOI_PROBE(submit, self, ptoi_kernel_name(&rt->view, q->kernel), rt->order);
    ptoi_write_count(rt, level, seq);
    if (PTOI_UNLIKELY(rt->watched)) {
        ptoi_watch_submitted(rt, slot, q->params, q->n_params);
    }
    ptoi_publish(rt, slot, edges, NULL);
    ptoi_map_debug_check(map);
}

/* Whether the task may try the fast path: few parameters, and room in every ring. */
static inline bool ptoi_fast_may(const pto_runtime *rt, const ptoi_request *q)
{
    return PTOI_LIKELY(q->n_params <= PTOI_FAST_PARAMS && rt->order < rt->ring->fast_until);
}

#endif /* PTOI_FAST_H */
