/* submit.c - one task, from the call to the inbox.
 *
 *     check ──> walk over the parameters ──┬── run inline   it waits for no task, and is short
 *                                          ├── publish      it goes to the scheduler
 *                                          └── slow path    anything unusual: slow.h
 *
 * Fast path for the common task: few parameters, room in every ring, and each parameter is a region
 * that the map knows and that overlaps no other, or a buffer whose memory the task brings. One walk
 * finds everything: region, layout, address, and the tasks to wait for. Edges and arguments are
 * written to their final place. They are taken from the rings only when the task is committed.
 *
 * The walk changes nothing but marks that are void in the next call (`attempt`). So anything
 * unusual (a first use, a part of a region, an `after`, an error) can abandon the walk and start
 * the slow path. Room is checked for many tasks ahead: rings.fast_until says up to which order.
 */
#include <inttypes.h>

#include "base/error.h"
#include "orchestrator/buffer.h"
#include "orchestrator/check.h"
#include "orchestrator/inline.h"
#include "orchestrator/map/answer.h"
#include "orchestrator/map/desc_cache.h"
#include "orchestrator/map/links.h"
#include "orchestrator/names.h"
#include "orchestrator/retire.h"
#include "orchestrator/slow.h"
#include "orchestrator/trace.h"
#include "orchestrator/wait.h"
#include "orchestrator/watch.h"
#include "orchestrator/write.h"

/* Tasks between two retires, if all rings have room. Recycled memory is then still in cache. */
#define RETIRE_EVERY 32

/* What is submitted. Kernel and type are checked. */
typedef struct request {
    const pto_param *params;
    size_t n_params;
    uint32_t kernel, type;
    const char *file;
    int line;
} request;

/* ---- The walk ---- */

/* In found[], for a scalar. Region numbers are below 2^29. */
#define SCALAR 0xffffffffu

/* What the walk finds. Bit i of a set stands for parameter i. */
typedef struct resolved {
    uint64_t heap_at, heap_bytes; /* heap block of the task */
    uint32_t fresh;               /* set: buffers whose memory it brings */
    uint32_t managed;             /* set: buffers whose memory other tasks own */
    uint32_t n_args;              /* argument descriptors written */
} resolved;

/* Kind, nodep and dtype of a parameter in one word. For a tensor that the map orders the word
 * equals the kind, 1 to 3. */
_Static_assert(offsetof(pto_param, nodep) == 4 && offsetof(pto_param, dtype) == 6 &&
                   offsetof(pto_param, tensor) == 8 && PTO_PARAM_INPUT == 1 && PTO_PARAM_INOUT == 3,
               "one word says that a parameter is an ordinary tensor");

static inline uint64_t kind_of(const pto_param *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static __attribute__((noinline)) uint32_t find_whole(const pto_runtime *rt, const ptoi_buffer *b,
                                                     const pto_tensor *t)
{
    if ((uint32_t)t->ndim > PTO_MAX_DIMS || b->bytes == 0) {
        return 0;
    }
    const uint32_t desc = ptoi_desc_find(&rt->map->descs, t);
    return ptoi_desc_at(rt->map->descs.records, desc)->dense == b->bytes ? desc : 0;
}

/* The layout number of a tensor that is its whole buffer, densely. 0 if it is not, or if its layout
 * has no number. The tensor is not checked before. */
static inline uint32_t whole_desc(const pto_runtime *rt, const ptoi_buffer *b, const pto_tensor *t)
{
    if (PTOI_UNLIKELY(t->storage_bytes != b->bytes || t->offset != 0 || t->storage)) {
        return 0;
    }
    return b->desc && ptoi_desc_matches(ptoi_desc_at(rt->map->descs.records, b->desc), t)
               ? b->desc
               : find_whole(rt, b, t);
}

typedef struct meeting {
    pto_runtime *rt;
    ptoi_edges *edges;
    uint32_t kind;
    bool many;
} meeting;

static inline void meet_reader(void *context, uint64_t seq, uint32_t level, uint32_t entry,
                               pto_map_access met, bool live)
{
    meeting *m = context;
    (void)entry;
    (void)live;
    if (m->edges->count == PTOI_FAST_EDGES) {
        m->many = true;
    } else {
        ptoi_edge_met(m->rt, m->edges, level, seq, m->kind, met);
    }
}

/* Adds edges to the readers that a write waits for. Out of line, so that the walk keeps its
 * registers. Returns whether they fit into PTOI_FAST_EDGES. */
static __attribute__((noinline)) bool meet_readers(pto_runtime *rt, const ptoi_region *r,
                                                   ptoi_edges *edges, uint32_t kind)
{
    meeting m = {rt, edges, kind, false};
    (void)ptoi_answer_readers(rt->map, r, meet_reader, &m);
    return !m.many;
}

/* A buffer that the task is the first to write. Returns its layout, or 0 if the case is unusual. */
static inline uint32_t resolve_fresh(const pto_runtime *rt, const pto_tensor *t, ptoi_buffer *b,
                                     uint64_t kind, uint64_t block_at, resolved *f)
{
    const uint32_t desc = whole_desc(rt, b, t);
    if (PTOI_UNLIKELY(kind != PTO_PARAM_OUTPUT || b->fresh == rt->attempt || b->base != rt->base)) {
        return 0;
    }
    b->fresh = rt->attempt;
    b->desc = (uint16_t)desc;
    b->at = block_at + f->heap_bytes;
    b->level = (uint8_t)rt->level;
    f->heap_bytes += ptoi_buffer_block(b);
    return desc;
}

/* Stores an output of an inline task: pto_task_get_output may ask for it later. */
static inline ptoi_arg_desc *keep_output(ptoi_arg_desc *at, uint64_t kind, const uint64_t words[2])
{
    if (kind == PTO_PARAM_INPUT) {
        return at;
    }
    const uint64_t kept[2] = {words[0], words[1] | kind << PTOI_ARG_ACCESS_SHIFT};
    memcpy(at, kept, sizeof kept);
    return at + 1;
}

/* Whether a task that is not complete writes the region. */
static inline bool is_written(const pto_tensormap *map, const ptoi_region *r)
{
    return r->writer >= map->level[r->writer_level].watermark;
}

/* Whether an unfinished task reads the region. If none does, clears read_levels to spare the next
 * task the check. */
static inline bool is_read(const pto_tensormap *map, ptoi_region *r)
{
    if (!ptoi_region_idle(map, r)) {
        return true;
    }
    r->read_levels = 0;
    return false;
}

typedef enum verdict { RESOLVED, UNUSUAL, BLOCKED } verdict;

/* The walk. It is compiled twice, once for each ending: `run` is a constant in every call.
 *
 *   to publish  writes edges, argument descriptors and found[]: the region of a parameter, the
 *               layout of a fresh buffer, or SCALAR
 *   to run      prepares the arguments of the kernel, and stores outputs. BLOCKED: the task waits
 *               for another one
 *
 * UNUSUAL: the task needs the slow path, or there is no room. Only marks have changed then. */
static inline __attribute__((always_inline)) verdict resolve(pto_runtime *rt, const request *q,
                                                             const bool run, resolved *f,
                                                             uint32_t *found, ptoi_edges *edges)
{
    pto_tensormap *map = rt->map;
    ptoi_rings *rings = rt->ring;
    ptoi_arg_desc *out = rings->arg_descs + rings->args.at;
    pto_arg *arg = rt->calls->args;
    const uint64_t block_at = ptoi_heap_newest(&rings->heap)->end; /* the usual place of a block */
    rt->attempt++;
    *f = (resolved){.heap_at = block_at};
    for (size_t i = 0; i < q->n_params; i++, arg++) {
        const pto_param *p = &q->params[i];
        const uint64_t kind = kind_of(p);
        if (PTOI_UNLIKELY(kind - PTO_PARAM_INPUT > PTO_PARAM_INOUT - PTO_PARAM_INPUT)) {
            if (p->kind != PTO_PARAM_SCALAR) {
                return UNUSUAL;
            }
            if (run) {
                ptoi_arg_scalar(arg, (pto_dtype)p->dtype, p->u64);
            } else {
                out = ptoi_write_scalar(out, p);
                found[i] = SCALAR;
            }
            continue;
        }
        const pto_tensor *t = p->tensor;
        if (PTOI_UNLIKELY(!t)) {
            return UNUSUAL;
        }
        const ptoi_buffer *managed = NULL;
        uint64_t words[2]; /* the argument descriptor, without its access */
        if (t->owner) {
            ptoi_buffer *b = ptoi_buffer_of(rt, t);
            if (PTOI_UNLIKELY(!ptoi_buffer_is(rt, t->owner, t->generation) ||
                              t->version != b->version)) {
                return UNUSUAL;
            }
            managed = b;
            if (!b->seq || b->unmapped) {
                const bool fresh = !b->seq;
                const uint32_t desc = fresh ? resolve_fresh(rt, t, b, kind, run ? block_at : 0, f)
                                            : whole_desc(rt, b, t);
                if (PTOI_UNLIKELY(!desc || (!run && !fresh))) {
                    return UNUSUAL;
                }
                f->fresh |= (uint32_t)fresh << i;
                f->managed |= (uint32_t)!fresh << i;
                if (!run) {
                    found[i] = desc;
                    out++; /* written once the block has its place */
                    continue;
                }
                words[0] = b->at;
                words[1] = (uint32_t)t->owner | (uint64_t)desc << PTOI_ARG_DESC_SHIFT |
                           (uint64_t)b->level << PTOI_ARG_SEGMENT_SHIFT;
                ptoi_arg_tensor(arg, ptoi_desc_at(map->descs.records, desc),
                                rt->calls->view->level[b->level].heap + b->at);
                out = keep_output(out, kind, words);
                continue;
            }
            f->managed |= 1u << i;
        }
        const uint32_t region = ptoi_desc_cache_find(map, t);
        if (PTOI_UNLIKELY(region == PTOI_NONE)) {
            return UNUSUAL;
        }
        ptoi_region *r = &map->regions[region];
        if (PTOI_UNLIKELY(r->links != PTOI_LINKS_NONE)) {
            return UNUSUAL;
        }
        if (run) {
            if (PTOI_UNLIKELY((is_written(map, r) ||
                               (kind != PTO_PARAM_INPUT && r->read_levels && is_read(map, r))) &&
                              !PTOI_MUTANT(INLINE))) {
                return BLOCKED;
            }
        } else {
            found[i] = region;
            if (is_written(map, r)) {
                if (PTOI_UNLIKELY(edges->count == PTOI_FAST_EDGES)) {
                    return UNUSUAL;
                }
                ptoi_edge_met(rt, edges, r->writer_level, r->writer, (uint32_t)kind, PTO_MAP_WRITE);
            }
            if (kind != PTO_PARAM_INPUT && r->read_levels &&
                PTOI_UNLIKELY(!meet_readers(rt, r, edges, (uint32_t)kind))) {
                return UNUSUAL;
            }
        }
        if (PTOI_UNLIKELY(!r->arg[1])) {
            const ptoi_arg_desc place = ptoi_write_place(t, managed, r->desc);
            memcpy(r->arg, &place, sizeof place);
        }
        if (run) {
            ptoi_arg_tensor(arg, ptoi_desc_at(map->descs.records, r->desc),
                            managed ? rt->calls->view->level[managed->level].heap + r->arg[0]
                                    : (char *)(uintptr_t)r->arg[0]);
            out = keep_output(out, kind, r->arg);
        } else {
            words[0] = r->arg[0];
            words[1] = r->arg[1] | kind << PTOI_ARG_ACCESS_SHIFT;
            memcpy(out++, words, sizeof words);
        }
    }
    f->n_args = (uint32_t)(out - (rings->arg_descs + rings->args.at));
    if (!f->fresh) {
        return RESOLVED;
    }
    if (PTOI_UNLIKELY(!ptoi_heap_fits(&rings->heap, f->heap_bytes, &f->heap_at))) {
        return UNUSUAL;
    }
    /* The arguments of an inline task assume the usual place of the block. */
    return PTOI_UNLIKELY(run && f->heap_at != block_at) ? UNUSUAL : RESOLVED;
}

/* The block of a task to be published has its place: so have the fresh buffers in it. */
static inline void place_fresh(pto_runtime *rt, const request *q, const resolved *f)
{
    for (uint32_t left = f->fresh; left; left &= left - 1) {
        ptoi_buffer *b = ptoi_buffer_of(rt, q->params[__builtin_ctz(left)].tensor);
        b->at = ptoi_guard_place(rt->guarded, b->at + f->heap_at);
    }
}

/* Counts a task whose slot is written. */
static inline void count_task(pto_runtime *rt, uint32_t level, uint64_t seq)
{
    rt->last = ptoi_task_make(seq, level);
    rt->order++;
}

/* ---- Ending 1: run inline ----
 *
 * The task is complete when submit returns. So no task ever waits for it, and it needs no map
 * entries, no edges and no cell of the inbox. It has a number, and its slot says that it is
 * complete. It owns the memory of the buffers it brings, like any task. Such a buffer is
 * `unmapped`: it is not in the map before an offloaded task uses it.
 */

/* Commits a task whose kernel returned PTO_OK. It is recycled immediately if all before it are and
 * no scope is open. Otherwise it keeps its slot, arguments and memory until retire. */
static inline void commit_inline(pto_runtime *rt, const request *q, const resolved *f,
                                 uint32_t n_args)
{
    ptoi_rings *rings = rt->ring;
    const uint64_t seq = rings->head;
    if (rings->completed == seq) {
        rings->completed = seq + 1;
        ptoi_set64(&rings->progress->completed, seq + 1);
    }
    if (rings->retired == seq && rt->depth == 0) {
        rings->head = rings->retired = rings->released = seq + 1;
        ptoi_set64(&rings->progress->retired, seq + 1);
        if (PTOI_UNLIKELY(rt->trace != NULL)) {
            ptoi_trace_retired(rt, rt->level, seq, seq + 1);
        }
        return;
    }
    for (uint32_t left = f->fresh; left; left &= left - 1) {
        ptoi_buffer *b = ptoi_buffer_of(rt, q->params[__builtin_ctz(left)].tensor);
        b->seq = seq;
        b->unmapped = true;
    }
    for (uint32_t left = f->managed; left; left &= left - 1) {
        (void)ptoi_write_name(rt, ptoi_buffer_of(rt, q->params[__builtin_ctz(left)].tensor));
    }
    ptoi_heap_take(&rings->heap, f->heap_at, f->heap_bytes);
    (void)ptoi_ring_take_here(&rings->args, n_args);
    ptoi_write_record(rt, rings, seq, rt->base, rt->depth - rt->base, f->heap_at, f->heap_bytes);
}

/* Writes all arguments of an inline task, not only its outputs: watchers and the trace need
 * them. */
static __attribute__((noinline, cold)) uint32_t describe_all(pto_runtime *rt,
                                                             const pto_param *params, size_t n)
{
    ptoi_arg_desc *at = rt->ring->arg_descs + rt->ring->args.at;
    for (size_t i = 0; i < n; i++, at++) {
        const pto_tensor *t = params[i].tensor;
        if (params[i].kind == PTO_PARAM_SCALAR) {
            ptoi_write_scalar(at, &params[i]);
            continue;
        }
        *at = ptoi_write_place(t, t->owner ? ptoi_buffer_of(rt, t) : NULL,
                               ptoi_desc_find(&rt->map->descs, t));
        at->access = (uint8_t)params[i].kind;
    }
    return (uint32_t)n;
}

/* The kernel of an inline task did not return PTO_OK. */
static __attribute__((noinline, cold)) void
ran_badly(pto_runtime *rt, uint32_t task, uint32_t kernel, uint32_t phase, pto_status status)
{
    rt->inside = false;
    if (status != PTO_PENDING) {
        ptoi_call_over(rt->calls, task, phase);
    }
    /* The kernel counts as long until it is timed again: not inline. */
    ptoi_call_set_length(rt->calls, kernel, PTOI_LENGTH_LONG);
}

/* Runs the task. False: its kernel did not return PTO_OK. Then the slow path records the task like
 * an offloaded one, and *end says how it ends. */
static inline bool run_inline(pto_runtime *rt, const request *q, const resolved *f,
                              ptoi_inline_end *end)
{
    ptoi_rings *rings = rt->ring;
    const uint64_t seq = rings->head;
    const uint64_t header = ptoi_slot_header_word(q->kernel, ptoi_site_of(rt, q->file, q->line),
                                                  rt->level, q->type, false);
    const pto_task self = ptoi_task_make(seq, rt->level);
    const uint32_t n_args = PTOI_UNLIKELY(rt->watched) ? describe_all(rt, q->params, q->n_params)
                                                       : f->n_args;
    const ptoi_slot *slot = ptoi_write_slot(rings, seq, rt->order, header, rings->args.at, n_args,
                                            0, 0);
    if (PTOI_UNLIKELY(rt->watched)) {
        ptoi_watch_submitted(rt, slot, q->params, q->n_params);
    }
    rt->inside = true;
    const uint32_t task = ptoi_slot_number(&rt->view, slot);
    const uint32_t phase = ptoi_phase_begin(ptoi_lap(&rt->view, rt->level, seq));
    end->status = ptoi_call_kernel(rt->calls, task, q->kernel, q->type, self, (uint32_t)q->n_params,
                                   phase, &end->words);
    if (PTOI_UNLIKELY(end->status != PTO_OK)) {
        ran_badly(rt, task, q->kernel, phase, end->status);
        return false;
    }
    if (PTOI_UNLIKELY(rt->watched)) {
        ptoi_caller_log(rt->scheduler, task);
    }
    rt->inside = false;
    ptoi_write_complete(rings, seq, rt->order);
    commit_inline(rt, q, f, n_args);
    rt->last = self;
    rt->order++;
    ptoi_header *h = rt->view.header;
    ptoi_release64(&h->inlined, ptoi_get64(&h->inlined) + 1); /* W7 */
    if (rt->order % PTOI_CLOCK_EVERY == 0) {
        ptoi_inline_check_clock(rt);
    }
    return true;
}

/* ---- Ending 2: publish ---- */

static inline void publish(pto_runtime *rt, const request *q, const resolved *f,
                           const uint32_t *found, ptoi_edges *edges)
{
    pto_tensormap *map = rt->map;
    ptoi_rings *rings = rt->ring;
    const uint32_t level = rt->level;
    const uint64_t seq = rings->head;
    const pto_map_task task = {seq, level};
    ptoi_level *entries = &map->level[level];
    uint32_t entry = entries->head;
    const uint32_t first = entry;
    place_fresh(rt, q, f);
    for (size_t i = 0; i < q->n_params; i++) {
        if (PTOI_UNLIKELY(found[i] == SCALAR || f->fresh >> i & 1)) {
            continue;
        }
        ptoi_region *r = &map->regions[found[i]];
        ptoi_entry_write(entries, entry++, r, found[i],
                         q->params[i].kind == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE, task);
        if (r->kind != PTOI_SPACE_USER) {
            ptoi_write_hold(rt, &rt->buffers[(uint32_t)r->a - 1], level, seq);
        }
    }
    /* A new region may replace an idle one. So new regions come last: the other regions of this
     * task have live entries by then. */
    entries->head = entry;
    for (uint32_t left = f->fresh; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(left);
        const pto_tensor *t = q->params[i].tensor;
        ptoi_buffer *b = ptoi_buffer_of(rt, t);
        b->seq = seq;
        b->unmapped = false;
        const uint32_t region = ptoi_unindexed_create(map, t, found[i]);
        ptoi_region *r = &map->regions[region];
        ptoi_entry_write(entries, entry++, r, region, PTO_MAP_WRITE, task);
        ptoi_arg_desc arg = ptoi_write_place(t, b, found[i]);
        memcpy(r->arg, &arg, sizeof r->arg);
        arg.access = PTO_PARAM_OUTPUT;
        rings->arg_descs[rings->args.at + i] = arg;
    }
    entries->head = entry;
    map->hot.params += entry - first;

    if (PTOI_UNLIKELY(rt->guarded)) {
        ptoi_guard_task(rt, level, seq, rings->args.at, q->params, q->n_params);
    }
    const bool poisoned = PTOI_UNLIKELY(rings->edges_short) && ptoi_edges_drop_complete(rt, edges);
    const uint64_t args_at = rings->args.at, deps_at = rings->deps.at;
    ptoi_heap_take(&rings->heap, f->heap_at, f->heap_bytes);
    (void)ptoi_ring_take_here(&rings->args, q->n_params);
    (void)ptoi_ring_take_here(&rings->deps, edges->count);
    ptoi_write_record(rt, rings, seq, rt->base, rt->depth - rt->base, f->heap_at, f->heap_bytes);
    const ptoi_slot *slot = ptoi_write_slot(
        rings, seq, rt->order,
        ptoi_slot_header_word(q->kernel, ptoi_site_of(rt, q->file, q->line), level, q->type,
                              poisoned),
        args_at, (uint32_t)q->n_params, deps_at, edges->count);
    count_task(rt, level, seq);
    if (PTOI_UNLIKELY(rt->watched)) {
        ptoi_watch_submitted(rt, slot, q->params, q->n_params);
    }
    ptoi_publish(rt, slot, edges, NULL);
    ptoi_map_debug_check(map);
}

/* ---- Ending 3: the slow path ---- */

#define FEW 32 /* parameters that the stack has room for */

/* Too many accesses for the stack: the runtime has memory for one such task. */
static __attribute__((noinline, cold)) pto_status borrow_accesses(ptoi_slow *d)
{
    pto_runtime *rt = d->rt;
    if (d->n_params > rt->max_accesses) {
        return ptoi_fail(PTO_TOO_LARGE,
                         "submit: %zu parameters for the %" PRIu64 " bytes of arguments of level "
                         "%u: raise arg_bytes (PTO_ARGS) to at least %zu; a task has at most a "
                         "million parameters",
                         d->n_params, d->rings->args.size * 16, d->level, d->n_params * 16);
    }
    d->accesses = rt->accesses;
    d->kinds = (uint8_t *)(rt->accesses + rt->max_accesses);
    return PTO_OK;
}

/* Any task, step by step. `ran`: it ran inline, and its kernel did not return PTO_OK. */
static __attribute__((noinline)) pto_status submit_slowly(pto_runtime *rt, request q,
                                                          const ptoi_inline_end *ran)
{
    ptoi_slow d;
    pto_map_param accesses[FEW];
    uint8_t kinds[FEW];
    ptoi_slow_begin(&d, rt, rt->level, q.params, q.n_params);
    d.accesses = accesses;
    d.kinds = kinds;
    if (PTOI_UNLIKELY(q.n_params > FEW)) {
        PTO_TRY(borrow_accesses(&d));
    }
    PTO_TRY(ptoi_slow_read(&d));
    if (PTOI_UNLIKELY(d.needs_owner)) {
        PTO_TRY(ptoi_slow_give_owners(&d, q.file, q.line));
    }
    PTO_TRY(ptoi_slow_reserve(&d));
    PTO_TRY(ptoi_slow_link(&d));
    const ptoi_slot *slot = ptoi_slow_write(&d, q.kernel, q.type, ptoi_site_of(rt, q.file, q.line));
    count_task(rt, d.level, d.seq);
    if (PTOI_UNLIKELY(rt->watched && !ran)) {
        ptoi_watch_submitted(rt, slot, q.params, q.n_params);
    }
    ptoi_publish(rt, slot, &d.edges, ran);
    if (PTOI_UNLIKELY(d.barrier)) { /* it is not in the map: it must end before the next submit */
        rt->unmapped = rt->last;
        ptoi_wait_level(rt, d.level);
        rt->unmapped = 0;
    }
    return PTO_OK;
}

/* ---- Submit ---- */

/* Whether the task may try the fast path: few parameters, and room in every ring. */
static inline bool is_fast(const pto_runtime *rt, const request *q)
{
    return PTOI_LIKELY(q->n_params <= PTOI_FAST_PARAMS && rt->order < rt->ring->fast_until);
}

/* The walk, then one of the three endings. A task that should run inline but turns out to wait for
 * others is walked again, to be published. */
static inline pto_status submit(pto_runtime *rt, const request *q)
{
    const ptoi_inline_wish wish = ptoi_inline_wanted(rt, q->kernel);
    resolved f;
    if (wish != PTOI_INLINE_NO) {
        verdict v;
        do {
            v = is_fast(rt, q) ? resolve(rt, q, true, &f, NULL, NULL) : UNUSUAL;
            if (v == RESOLVED) {
                ptoi_inline_end end;
                return run_inline(rt, q, &f, &end) ? PTO_OK : submit_slowly(rt, *q, &end);
            }
        } while (v == BLOCKED && ptoi_inline_blocked(rt, wish));
    }
    uint32_t found[PTOI_FAST_PARAMS];
    ptoi_edges edges = {.refs = rt->ring->refs + rt->ring->deps.at}; /* in their final place */
    if (!is_fast(rt, q) || resolve(rt, q, false, &f, found, &edges) != RESOLVED) {
        return submit_slowly(rt, *q, NULL);
    }
    publish(rt, q, &f, found, &edges);
    return PTO_OK;
}

/* Renews state.waiters before a word is 2^32 laps old: see ptoi_scheduler_refresh. */
static inline void refresh(pto_runtime *rt, ptoi_rings *rings)
{
    const uint32_t lap = ptoi_lap(&rt->view, rt->level, rings->head);
    if (PTOI_UNLIKELY(lap - rings->fresh_lap >= PTOI_REFRESH_LAPS)) {
        ptoi_scheduler_refresh(rt->scheduler, rt->level, lap - 1);
        rings->fresh_lap = lap;
    }
}

/* Runs after a submit once fast_until is reached: retires tasks, and finds room for the next
 * fast-path tasks. During the first RETIRE_EVERY tasks the state is published at orders that are
 * powers of two, so that outside readers see a short program, too. */
static __attribute__((noinline)) void refill(pto_runtime *rt)
{
    ptoi_rings *rings = rt->ring;
    if (PTOI_UNLIKELY(rt->order < RETIRE_EVERY)) {
        if ((rt->order & (rt->order - 1)) == 0) {
            ptoi_retire_publish(rt, rt->level);
        }
        rt->retire_at = rt->order + 1;
    } else if (rt->order >= rt->retire_at) {
        if (PTOI_UNLIKELY(rt->inlining.types && !ptoi_get32(&rt->view.header->inline_ticks))) {
            ptoi_inline_learn_ticks(rt);
        }
        ptoi_retire(rt, rt->level);
        refresh(rt, rings);
        rt->retire_at = rt->order + RETIRE_EVERY;
    }
    const uint64_t until = rt->order + ptoi_fast_room(rt, rt->level);
    rings->fast_until = until < rt->retire_at ? until : rt->retire_at;
    rings->edges_short = ptoi_edges_run_short(rings);
}

static __attribute__((noinline, cold)) pto_status
refuse_kernel(const pto_runtime *rt, pto_kernel kernel, pto_worker_type type)
{
    if (kernel == 0 || kernel >= rt->n_kernels) {
        return ptoi_fail(PTO_BAD_KERNEL,
                         "submit: kernel %" PRIu32 " is none of the %" PRIu32
                         " that this runtime knows",
                         kernel ^ rt->first_kernel, rt->n_kernels - 1);
    }
    const ptoi_kernel_entry *entry = &rt->view.kernels[kernel];
    const char *name = ptoi_string(&rt->view, entry->name);
    if (type != PTO_KERNEL_TYPE && (uint32_t)type != entry->type) {
        return ptoi_fail(PTO_BAD_WORKER, "submit: kernel '%s' is for %s workers, not for %s", name,
                         pto_worker_type_name((pto_worker_type)entry->type),
                         pto_worker_type_name(type));
    }
    return ptoi_fail(PTO_BAD_WORKER, "submit: kernel '%s' needs a worker of type %s: there is none",
                     name, pto_worker_type_name((pto_worker_type)entry->type));
}

pto_status pto_submit_task_at(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                              const pto_param *params, size_t n_params, pto_task *task,
                              const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "submit"));
    if (PTOI_UNLIKELY(rt->watched)) {
        ptoi_trace_called(rt);
    }
    const uint32_t number = kernel ^ rt->first_kernel;
    if (PTOI_UNLIKELY(number - 1 >= rt->n_kernels - 1)) {
        return refuse_kernel(rt, number, type);
    }
    const uint32_t own_type = rt->view.kernels[number].type;
    if (PTOI_UNLIKELY((type != PTO_KERNEL_TYPE && (uint32_t)type != own_type) ||
                      !(rt->served >> own_type & 1))) {
        return refuse_kernel(rt, number, type);
    }
    if (PTOI_UNLIKELY(!params && n_params)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit: %zu parameters, but params is NULL", n_params);
    }
    if (PTOI_UNLIKELY(ptoi_is_cancelled(&rt->view))) {
        return ptoi_fail(PTO_CANCELLED, "submit: the runtime was cancelled");
    }
    const request q = {params, n_params, number, own_type, file, line};
    PTO_TRY(submit(rt, &q));
    if (task) {
        *task = rt->last;
    }
    if (rt->order >= rt->ring->fast_until) {
        refill(rt);
    }
    ptoi_debug_check(rt);
    return PTO_OK;
}
