/* submit.c - one task: check, reserve, ask the map, write, publish.
 *
 * Everything that can be refused or has to wait comes first, with nothing changed: parameters are
 * checked, then there is room in every ring, then the map is asked. Only then is anything taken,
 * recorded or linked, and from there on nothing can fail.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/mutant.h"
#include "submit/runtime.h"

#define FEW 32  /* parameters that need no memory beyond the stack */
#define HITS 64 /* answers of the map that are taken the fast way */
#define RETIRE_EVERY 32

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Why one task waits for another. */
typedef enum reason { REASON_RAW, REASON_WAR, REASON_WAW, REASON_AFTER, REASONS } reason;

/* A task in the making. */
typedef struct draft {
    pto_runtime *rt;
    const pto_param *params;
    size_t n_params;
    ptoi_track *track;
    uint32_t level;
    uint64_t seq;
    uint32_t base, scopes; /* its lifetime: scopes from `base` on */

    uint64_t heap_bytes; /* of fresh outputs, packed */
    uint64_t units;      /* of arguments */
    uint32_t n_args;
    bool managed;  /* some parameter is */
    bool homeless; /* it would bring memory to a buffer of an outer lifetime */
    bool has_after;
    bool poisoned; /* it will be skipped */
    bool barrier;  /* alone: all before it are complete, and it will be before submit returns */

    pto_map_param *accesses; /* that take part in ordering */
    uint8_t *kinds;          /* pto_param_kind of each */
    size_t n_accesses;
    size_t n_fresh; /* outputs in memory that the task brings */

    uint64_t heap_at; /* where its block would lie */
    ptoi_piece args, deps;
    ptoi_ref *refs; /* whom it waits for */
    uint32_t fanin;
    uint32_t edges[REASONS]; /* by reason */
} draft;

/* ---- Parameters ---- */

/* Says which parameter it was, if something is wrong with it. */
static inline pto_status blame(size_t i, pto_status status)
{
    if (status == PTO_OK) {
        return PTO_OK;
    }
    const char *words = pto_error_detail();
    static const char who[] = "submit: ";
    words += strncmp(words, who, sizeof who - 1) == 0 ? sizeof who - 1 : 0;
    return ptoi_fail(status, "submit: parameter %zu: %s", i, words);
}

static uint64_t block_bytes(const ptoi_buffer *b)
{
    return (b->bytes + 63) & ~UINT64_C(63);
}

/* *fresh: the task brings the memory and the map will be told of all of it at once, so that nobody is
 * to be asked about this parameter. */
static pto_status plan_managed(draft *d, const pto_param *p, size_t i, bool *fresh)
{
    pto_runtime *rt = d->rt;
    const pto_tensor *t = p->tensor;
    ptoi_buffer *b = ptoi_buffer_find(rt, "submit", t);
    if (!b) {
        return blame(i, PTO_STALE);
    }
    if (t->storage_bytes != b->bytes) {
        return ptoi_fail(PTO_OUT_OF_BOUNDS,
                         "submit: parameter %zu says its buffer has %" PRIu64 " bytes; it has "
                         "%" PRIu64,
                         i, t->storage_bytes, b->bytes);
    }
    bool next = p->kind == PTO_PARAM_OUTPUT && b->seq && t->version == b->version + 1;
    if (t->version != b->version && !next) {
        return ptoi_fail(PTO_BAD_VERSION,
                         "submit: parameter %zu is version %" PRIu32 " of a buffer that is at "
                         "version %" PRIu32,
                         i, t->version, b->version);
    }
    d->managed = true;
    if (b->seq || (b->fresh == rt->attempt && p->kind == PTO_PARAM_OUTPUT)) {
        *fresh = !b->seq && b->told == rt->attempt;
        return PTO_OK;
    }
    if (p->kind != PTO_PARAM_OUTPUT) {
        return ptoi_fail(PTO_NOT_WRITTEN,
                         "submit: parameter %zu reads a buffer of %" PRIu64
                         " bytes that nothing has written",
                         i, b->bytes);
    }
    PTO_TRY(blame(i, ptoi_buffer_check_first(b, "submit", t)));
    if (b->base != rt->scopes[rt->depth - 1].base) {
        /* The buffer will outlive this task's lifetime: the memory must not be the task's own. */
        d->homeless = true;
        return PTO_OK;
    }
    b->fresh = rt->attempt;
    b->at = d->heap_bytes; /* in the block; where that lies is not known yet */
    d->heap_bytes += block_bytes(b);
    if (b->bytes && !p->nodep) {
        b->told = rt->attempt;
        d->n_fresh++;
        *fresh = true;
    }
    return PTO_OK;
}

static pto_status plan_after(draft *d, const pto_param *p, size_t i)
{
    const pto_runtime *rt = d->rt;
    uint32_t level = (uint32_t)p->task & 7;
    uint64_t seq = p->task >> 3;
    if (level >= rt->levels || seq == 0 || seq >= rt->track[level].head ||
        seq < rt->settings.config.first_task) {
        return ptoi_fail(PTO_BAD_TASK,
                         "submit: parameter %zu waits for task handle %" PRIu64 ", which never was",
                         i, p->task);
    }
    d->has_after = true;
    return PTO_OK;
}

/* Whether the memory of a user's tensor may reach into a heap; to be looked at closely if so. */
static bool near_heap(const pto_runtime *rt, const pto_tensor *t)
{
    /* A sum that wraps is of an unsound tensor, which the map refuses. */
    uintptr_t low = (uintptr_t)t->storage;
    return low < rt->heap_end && low + t->storage_bytes > rt->heap_begin;
}

static pto_status plan(draft *d)
{
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        switch (p->kind) {
        case PTO_PARAM_INPUT:
        case PTO_PARAM_OUTPUT:
        case PTO_PARAM_INOUT: {
            const pto_tensor *t = p->tensor;
            if (UNLIKELY(!t)) {
                return ptoi_fail(PTO_NULL_ARGUMENT, "submit: the tensor of parameter %zu is NULL",
                                 i);
            }
            if (UNLIKELY((uint32_t)t->ndim > PTO_MAX_DIMS || p->nodep)) {
                PTO_TRY(blame(i, pto_tensor_check(t)));
            }
            bool fresh = false;
            if (t->owner) {
                PTO_TRY(plan_managed(d, p, i, &fresh));
            } else if (UNLIKELY(near_heap(d->rt, t))) {
                PTO_TRY(blame(i, ptoi_buffer_check_external(d->rt, "submit", t)));
            }
            d->units += ptoi_packed_units(t->ndim);
            d->n_args++;
            if (!p->nodep && !fresh) {
                d->accesses[d->n_accesses].tensor = t;
                d->accesses[d->n_accesses].access = p->kind == PTO_PARAM_INPUT ? PTO_MAP_READ
                                                                               : PTO_MAP_WRITE;
                d->kinds[d->n_accesses++] = (uint8_t)p->kind;
            }
            break;
        }
        case PTO_PARAM_SCALAR:
            d->units++;
            d->n_args++;
            break;
        case PTO_PARAM_AFTER:
            PTO_TRY(plan_after(d, p, i));
            break;
        case PTO_PARAM_NONE:
        default:
            return ptoi_fail(PTO_BAD_PARAM, "submit: parameter %zu is of kind %d", i, (int)p->kind);
        }
    }
    return PTO_OK;
}

/* ---- Room ---- */

static ptoi_shortage find_room(draft *d)
{
    const ptoi_track *t = d->track;
    if (UNLIKELY(t->head - t->retired > t->mask)) {
        return PTOI_SHORT_WINDOW;
    }
    if (UNLIKELY(!ptoi_heap_fits(&t->heap, d->heap_bytes, &d->heap_at))) {
        return PTOI_SHORT_HEAP;
    }
    if (UNLIKELY(!ptoi_ring_fits(&t->args, d->units, &d->args)) && d->units) {
        return PTOI_SHORT_ARGS;
    }
    if (UNLIKELY(ptoi_entry_room(&d->rt->map->level[d->level]) < d->n_accesses + d->n_fresh) &&
        !d->barrier) {
        return PTOI_SHORT_MAP;
    }
    return PTOI_SHORT_NOTHING;
}

static __attribute__((noinline, cold)) pto_status refuse_size(const draft *d)
{
    const ptoi_track *t = d->track;
    if (d->heap_bytes > t->heap.size) {
        return ptoi_fail(PTO_TOO_LARGE,
                         "submit: outputs of %" PRIu64 " bytes for the heap of level %u, which has "
                         "%" PRIu64 ": it takes heap_bytes (PTO_HEAP) of at least %" PRIu64,
                         d->heap_bytes, d->level, t->heap.size, d->heap_bytes);
    }
    return ptoi_fail(PTO_TOO_LARGE,
                     "submit: %u arguments take %" PRIu64 " bytes of the %" PRIu64 " that level %u "
                     "has for them: it takes arg_bytes (PTO_ARGS) of at least %" PRIu64,
                     d->n_args, d->units * 16, t->args.size * 16, d->level, d->units * 16);
}

/* Whether the map may forget a task of the level: it is complete, and not bad (bad ones are written
 * down when they are passed, and the map is asked then). */
static bool is_over(const void *context, uint64_t seq)
{
    const draft *d = context;
    const ptoi_track *t = d->track;
    return seq < t->completed ||
           ptoi_list_first(ptoi_acquire64(&t->slots[(uint32_t)seq & t->mask].waiters)) ==
               PTOI_LIST_CLOSED;
}

/* Map entries are short. They come back as tasks complete: in order for nothing, and behind a slow
 * task by closing gaps, which takes time; so only when there is nothing better to do. */
static void wait_for_entries(draft *d)
{
    pto_runtime *rt = d->rt;
    if (d->n_accesses + d->n_fresh > (size_t)rt->map->level[d->level].mask + 1) {
        /* It could never be remembered. So it runs alone: nobody has to know of it. */
        for (uint32_t l = 0; l < rt->levels; l++) {
            ptoi_wait_level(rt, l);
        }
        d->barrier = true;
        return;
    }
    uint64_t complete = ptoi_count_complete(rt); /* before looking: what comes after is news */
    ptoi_retire(rt, d->level);
    ptoi_entry_recycle(rt->map, d->level);
    if (find_room(d) != PTOI_SHORT_MAP || ptoi_help(rt, 1 + (d->track->mask + 1) / 16)) {
        return;
    }
    ptoi_entry_compact(rt->map, d->level, is_over, d);
    if (find_room(d) == PTOI_SHORT_MAP) {
        ptoi_wait_any(rt, complete);
    }
}

static __attribute__((noinline)) pto_status wait_for_room(draft *d)
{
    pto_runtime *rt = d->rt;
    bool counted[PTOI_SHORT_NOTHING] = {false};
    for (ptoi_shortage what; (what = find_room(d)) != PTOI_SHORT_NOTHING;) {
        ptoi_retire(rt, d->level);
        if (find_room(d) != what) {
            continue;
        }
        if (!counted[what]) {
            counted[what] = true;
            ptoi_count64(&rt->view.header->progress[d->level].stalls[what], 1);
        }
        if (what == PTOI_SHORT_MAP) {
            wait_for_entries(d);
        } else {
            PTO_TRY(ptoi_stall(rt, d->level, what,
                               what == PTOI_SHORT_HEAP ? d->heap_bytes : d->units * 16));
        }
    }
    return PTO_OK;
}

static inline pto_status make_room(draft *d)
{
    if (UNLIKELY(d->heap_bytes > d->track->heap.size || d->units > d->track->args.size)) {
        return refuse_size(d);
    }
    return find_room(d) == PTOI_SHORT_NOTHING ? PTO_OK : wait_for_room(d);
}

/* ---- Edges ---- */

static inline void add_edge(draft *d, uint32_t level, uint64_t seq, reason why)
{
    pto_runtime *rt = d->rt;
    if (seq < rt->track[level].completed) {
        return;
    }
    ptoi_note *note = ptoi_note_of(&rt->track[level], seq);
    bool poisons = why == REASON_RAW || why == REASON_AFTER;
    if (note->linked == rt->attempt) { /* known: at most it poisons now */
        d->refs[note->link] |= poisons;
        return;
    }
    note->linked = rt->attempt;
    note->link = d->fanin;
    d->refs[d->fanin++] = ptoi_ref_make(seq, level, poisons);
    d->edges[why]++;
}

static inline void add_hit(draft *d, uint64_t seq, uint32_t level, uint32_t param,
                           pto_map_access met)
{
    reason why = met == PTO_MAP_READ                   ? REASON_WAR
                 : d->kinds[param] == PTO_PARAM_OUTPUT ? REASON_WAW
                                                       : REASON_RAW;
    if ((PTOI_MUTANT(NO_WAR) && why == REASON_WAR) || (PTOI_MUTANT(NO_WAW) && why == REASON_WAW) ||
        (PTOI_MUTANT(NO_RAW) && why == REASON_RAW && d->kinds[param] == PTO_PARAM_INPUT)) {
        return;
    }
    add_edge(d, level, seq, why);
}

static void add_after(draft *d)
{
    for (size_t i = 0; i < d->n_params; i++) {
        if (d->params[i].kind == PTO_PARAM_AFTER) {
            uint32_t level = (uint32_t)d->params[i].task & 7;
            uint64_t seq = d->params[i].task >> 3;
            if (seq < d->rt->track[level].completed) {
                d->poisoned |= ptoi_poison_is_bad(d->rt, level, seq);
            } else {
                add_edge(d, level, seq, REASON_AFTER);
            }
        }
    }
}

typedef struct emit_context {
    draft *d;
    uint32_t param;
} emit_context;

static void emit(void *context, uint64_t seq, uint32_t level, uint32_t entry, pto_map_access access,
                 bool live)
{
    const emit_context *c = context;
    (void)entry;
    if (live) {
        add_hit(c->d, seq, level, c->param, access);
    }
}

/* Drops producers that are complete by now. */
static void drop_complete(draft *d)
{
    const ptoi_view *view = &d->rt->view;
    uint32_t left = 0;
    for (uint32_t i = 0; i < d->fanin; i++) {
        ptoi_ref ref = d->refs[i];
        uint64_t waiters;
        if (!ptoi_is_complete(view, ptoi_slot_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref)), ref,
                              &waiters)) {
            d->refs[left++] = ref;
        } else if (ptoi_ref_poisons(ref) && ptoi_list_first(waiters) == PTOI_LIST_CLOSED_BAD) {
            d->poisoned = true; /* the slot is still its own: nothing retires meanwhile */
        }
    }
    d->fanin = left;
}

/* Whether edges are getting short: then none is kept for a producer that is complete already. */
static inline bool edges_are_few(const draft *d)
{
    return ptoi_ring_used(&d->track->deps) >= d->track->deps.size / 2;
}

/* Room for the edges: waits for producers if there is none. Nothing is recycled but edges, so that
 * every reference keeps its meaning. */
static void room_for_edges(draft *d)
{
    ptoi_track *t = d->track;
    bool counted = false;
    if (edges_are_few(d)) {
        drop_complete(d);
    }
    while (!ptoi_ring_fits(&t->deps, d->fanin, &d->deps)) {
        uint64_t complete = ptoi_count_complete(d->rt);
        /* In this order: a bad task that is passed now stays only for those submitted before. */
        ptoi_retire_completed(d->rt, d->level);
        drop_complete(d);
        if (ptoi_ring_fits(&t->deps, d->fanin, &d->deps)) {
            break;
        }
        if (!counted) {
            counted = true;
            ptoi_count64(&d->rt->view.header->progress[d->level].stalls[PTOI_SHORT_DEPS], 1);
        }
        /* Older tasks of the level give edges back, or fewer are needed. */
        ptoi_wait_any(d->rt, complete);
    }
}

/* The parameter that an access belongs to: the first with that tensor. */
static size_t param_of(const draft *d, size_t access)
{
    size_t i = 0;
    while (d->params[i].kind > PTO_PARAM_INOUT ||
           d->params[i].tensor != d->accesses[access].tensor) {
        i++;
    }
    return i;
}

/* The way of any task: all is asked, then all is recorded. Regions may come and go meanwhile. */
static __attribute__((noinline)) pto_status link_any(draft *d)
{
    pto_runtime *rt = d->rt;
    ptoi_found found;
    size_t entries = 0;
    d->refs = rt->edges;
    d->fanin = 0;
    for (size_t i = 0; i < d->n_accesses; i++) {
        pto_status sound = ptoi_access_find(rt->map, d->accesses[i].tensor, &found);
        if (UNLIKELY(sound != PTO_OK)) {
            return blame(param_of(d, i), sound);
        }
        entries += !found.empty;
        emit_context context = {d, (uint32_t)i};
        ptoi_access_ask(rt->map, &found, d->accesses[i].access, emit, &context);
    }
    add_after(d);
    room_for_edges(d);
    if (!d->barrier && entries) {
        /* There is room for as many, and what is complete by now has only made more. */
        PTO_TRY(ptoi_entry_reserve(rt->map, d->level, entries));
        const pto_map_task task = {d->seq, d->level};
        for (size_t i = 0; i < d->n_accesses; i++) {
            (void)ptoi_access_find(rt->map, d->accesses[i].tensor, &found); /* sound, as before */
            if (!found.empty) {
                ptoi_access_record(rt->map, &found, d->accesses[i].access, task);
            }
        }
        ptoi_map_debug_check(rt->map);
    }
    memcpy(rt->view.level[d->level].deps + d->deps.at, d->refs, d->fanin * sizeof *d->refs);
    return PTO_OK;
}

/* The way that is hoped for: see ptoi_access_submit. Edges go straight to where they stay. */
static inline pto_status link_task(draft *d)
{
    pto_runtime *rt = d->rt;
    pto_map_hit hits[HITS];
    size_t n_hits = 0;
    if (UNLIKELY(d->has_after || d->barrier || !ptoi_ring_fits(&d->track->deps, HITS, &d->deps) ||
                 (d->n_accesses &&
                  !ptoi_access_submit(rt->map, d->accesses, d->n_accesses,
                                      (pto_map_task){d->seq, d->level}, hits, HITS, &n_hits)))) {
        return link_any(d);
    }
    d->refs = rt->view.level[d->level].deps + d->deps.at;
    for (size_t i = 0; i < n_hits; i++) {
        add_hit(d, hits[i].task.id, hits[i].task.level, hits[i].param, hits[i].access);
    }
    if (UNLIKELY(edges_are_few(d))) {
        drop_complete(d);
    }
    return PTO_OK;
}

/* What the task brings itself: nobody has to be asked, everybody has to know. */
static void record_fresh(const draft *d)
{
    const pto_runtime *rt = d->rt;
    for (size_t i = 0, left = d->n_fresh; left; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind != PTO_PARAM_OUTPUT || !p->tensor->owner) {
            continue;
        }
        ptoi_buffer *b = &rt->buffers[(uint32_t)p->tensor->owner - 1];
        if (b->told == rt->attempt) {
            b->told = 0; /* once, if it is named twice */
            left--;
            ptoi_access_record_fresh(rt->map, p->tensor, (pto_map_task){d->seq, d->level});
        }
    }
}

/* Reading what went bad makes the task bad; writing it makes it good, or the writer is bad itself
 * and says so when it is passed. */
static __attribute__((noinline, cold)) void judge(draft *d)
{
    for (size_t i = 0; i < d->n_accesses; i++) {
        if (d->kinds[i] != PTO_PARAM_OUTPUT) {
            d->poisoned |= ptoi_poison_meets(d->rt, d->accesses[i].tensor);
        }
    }
    for (size_t i = 0; i < d->n_accesses; i++) {
        if (d->kinds[i] != PTO_PARAM_INPUT) {
            ptoi_poison_cover(d->rt, d->accesses[i].tensor);
        }
    }
}

/* ---- Writing it down ---- */

/* The task names memory that another one owns: that one stays until it is complete. */
static void hold(draft *d, const ptoi_buffer *b)
{
    pto_runtime *rt = d->rt;
    ptoi_track *owner = &rt->track[b->level];
    ptoi_note *note = ptoi_note_of(owner, b->seq);
    if (note->held == rt->attempt) {
        return;
    }
    uint64_t *until = owner->held_until + ((uint32_t)b->seq & owner->mask) * (size_t)rt->levels;
    if (note->holders == 0) {
        memset(until, 0, rt->levels * sizeof *until);
    }
    note->holders += note->holders != UINT32_MAX;
    note->held = rt->attempt;
    until[d->level] = d->seq + 1;
}

/* Every managed parameter gets its memory, its version, and holds its owner. */
static void settle_managed(draft *d, uint64_t block)
{
    pto_runtime *rt = d->rt;
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind > PTO_PARAM_INOUT || !p->tensor->owner) {
            continue;
        }
        ptoi_buffer *b = &rt->buffers[(uint32_t)p->tensor->owner - 1];
        if (!b->seq) {
            b->seq = d->seq;
            b->level = d->level;
            b->at += block;
        } else if (b->seq != d->seq || b->level != d->level) {
            hold(d, b);
        }
        if (p->tensor->version == b->version + 1) {
            b->version++;
        }
    }
}

static void pack(draft *d)
{
    const pto_runtime *rt = d->rt;
    ptoi_packed *at = rt->view.level[d->level].args + d->args.at;
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind == PTO_PARAM_AFTER) {
            continue;
        }
        if (p->kind == PTO_PARAM_SCALAR) {
            *at++ = (ptoi_packed){.value = p->u64,
                                  .segment = PTOI_SEGMENT_USER,
                                  .dtype = (uint8_t)p->dtype,
                                  .access = PTO_PARAM_SCALAR};
            continue;
        }
        const pto_tensor *t = p->tensor;
        uint64_t offset = (uint64_t)t->offset * pto_dtype_size(t->dtype);
        at->dtype = (uint8_t)t->dtype;
        at->ndim = (uint8_t)t->ndim;
        at->access = (uint8_t)((uint32_t)p->kind | (p->nodep ? PTOI_PACKED_NODEP : 0));
        if (t->owner) {
            const ptoi_buffer *b = &rt->buffers[(uint32_t)t->owner - 1];
            at->value = b->at + offset;
            at->buffer = (uint32_t)t->owner;
            at->segment = (uint8_t)b->level;
        } else {
            at->value = (uint64_t)(uintptr_t)t->storage + offset;
            at->buffer = 0;
            at->segment = PTOI_SEGMENT_USER;
        }
        int64_t *sizes = (int64_t *)(void *)(at + 1);
        bool empty = false;
        for (int32_t k = 0; k < t->ndim; k++) {
            sizes[k] = t->shape[k];
            sizes[t->ndim + k] = t->strides[k];
            empty |= t->shape[k] == 0;
        }
        if (UNLIKELY(empty)) { /* it is nowhere */
            at->value = 0;
            at->segment = PTOI_SEGMENT_USER;
        }
        at += ptoi_packed_units(t->ndim);
    }
}

/* Takes everything that was reserved, and writes slot and note. `list` is the state of its list. */
static ptoi_slot *take(draft *d, uint32_t kernel, uint32_t type, uint32_t site, uint32_t list)
{
    pto_runtime *rt = d->rt;
    ptoi_track *t = d->track;
    ptoi_slot *slot = &t->slots[(uint32_t)d->seq & t->mask];
    ptoi_note *note = ptoi_note_of(t, d->seq);
    uint64_t order = rt->order++;

    note->heap_at = d->heap_at;
    note->heap_size = d->heap_bytes;
    ptoi_heap_take(&t->heap, d->heap_at, d->heap_bytes);
    note->args_end = ptoi_ring_take(&t->args, d->args, d->units);
    note->deps_end = ptoi_ring_take(&t->deps, d->deps, d->fanin);
    note->linked = 0;
    note->held = 0;
    note->holders = 0;
    note->base = d->base;
    note->scopes = d->scopes;
    if (d->managed) {
        settle_managed(d, d->heap_at);
    }

    ptoi_set64(&slot->order, order);
    slot->next = PTOI_LIST_EMPTY;
    slot->cursor = 0;
    slot->deps = (uint32_t)d->deps.at;
    slot->fanin = d->fanin;
    slot->args = (uint32_t)d->args.at;
    slot->n_args = d->n_args;
    ptoi_set32(&slot->kernel, kernel);
    slot->level = (uint8_t)d->level;
    slot->type = (uint8_t)type;
    slot->poisoned = d->poisoned;
    slot->outcome = PTOI_DONE;
    slot->site = site;
    ptoi_set32(&slot->phase, 0);
    ptoi_release64(&slot->seq, d->seq);
    /* Released after `seq`: who still has a reference to the task that was here before, and takes
     * the new word for its own, sees by `seq` that it is not. */
    ptoi_release64(&slot->waiters, ptoi_list_tag(&rt->view, d->level, d->seq) | list);

    t->head = d->seq + 1;
    if (rt->depth == 0) {
        t->released = t->head;
    }
    if (t->head - t->retired > ptoi_get64(&rt->view.header->progress[d->level].tasks_peak)) {
        ptoi_set64(&rt->view.header->progress[d->level].tasks_peak, t->head - t->retired);
    }
    ptoi_release64(&rt->view.header->progress[d->level].head, t->head);
    rt->last = ptoi_ref_task(ptoi_ref_make(d->seq, d->level, false));
    return slot;
}

static void publish(const draft *d, const ptoi_slot *slot)
{
    pto_runtime *rt = d->rt;
    ptoi_header *h = rt->view.header;
    uint64_t at = ptoi_get64(&h->inbox_head);
    ptoi_set32(&rt->view.inbox[(uint32_t)at & rt->view.inbox_mask],
               ptoi_slot_number(&rt->view, slot));
    for (int why = 0; d->fanin && why < REASONS; why++) {
        ptoi_count64(&h->edges[why], d->edges[why]);
    }
    ptoi_put64(&h->inbox_head, at + 1); /* W1 */
    ptoi_sched_notify(&rt->sched);
}

static void begin(draft *d, pto_runtime *rt, uint32_t level)
{
    d->rt = rt;
    d->level = level;
    d->track = &rt->track[level];
    d->seq = d->track->head;
    d->base = rt->depth ? rt->scopes[rt->depth - 1].base : 0;
    d->scopes = rt->depth - d->base;
    d->heap_bytes = d->heap_at = d->units = 0;
    d->n_args = d->fanin = 0;
    d->n_accesses = d->n_fresh = 0;
    d->managed = d->homeless = d->has_after = d->poisoned = d->barrier = false;
    d->deps = (ptoi_piece){0, 0};
    memset(d->edges, 0, sizeof d->edges);
    rt->attempt++;
}

/* A task that is complete from the start and owns the memory of a buffer, on the level of the
 * lifetime that the buffer belongs to. There is room. */
static void take_memory(pto_runtime *rt, ptoi_buffer *b, uint32_t site)
{
    draft d;
    ptoi_scope *home = &rt->scopes[b->base];
    begin(&d, rt, home->level);
    d.base = b->base;
    d.scopes = 1;
    while (d.base + d.scopes < rt->depth && rt->scopes[d.base + d.scopes].base == d.base) {
        d.scopes++;
    }
    d.heap_bytes = block_bytes(b);
    (void)find_room(&d);
    if (d.base + d.scopes < rt->depth && home->level == rt->level && !home->pinned) {
        home->pinned = d.seq;
    }
    (void)take(&d, 0, 0, site, PTOI_LIST_CLOSED);
    b->seq = d.seq;
    b->level = d.level;
    b->at = d.heap_at;
}

pto_status ptoi_submit_memory(pto_runtime *rt, ptoi_buffer *b, const char *file, int line)
{
    draft d;
    begin(&d, rt, rt->scopes[b->base].level);
    d.heap_bytes = block_bytes(b);
    PTO_TRY(make_room(&d));
    take_memory(rt, b, ptoi_site_of(rt, file, line));
    ptoi_debug_check(rt);
    return PTO_OK;
}

/* ---- The first writer of a buffer of an outer lifetime ---- */

/* Whether this parameter brings memory to such a buffer: the record, once for each submit. */
static ptoi_buffer *homeless(const draft *d, size_t i, uint64_t mark)
{
    const pto_param *p = &d->params[i];
    if (p->kind != PTO_PARAM_OUTPUT || !p->tensor->owner) {
        return NULL;
    }
    ptoi_buffer *b = &d->rt->buffers[(uint32_t)p->tensor->owner - 1];
    if (b->seq || b->fresh == mark || b->base == d->rt->scopes[d->rt->depth - 1].base) {
        return NULL;
    }
    b->fresh = mark;
    return b;
}

/* Whether all blocks and the task itself fit, each taken after the other: what is short, and where.
 * The heaps are played through on copies. */
static ptoi_shortage find_all_room(draft *d, uint32_t *level)
{
    pto_runtime *rt = d->rt;
    ptoi_heap heap[PTO_MAX_LEVELS];
    uint64_t tasks[PTO_MAX_LEVELS], at;
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_heap_copy(&heap[l], &rt->track[l].heap,
                       rt->track[l].heap.runs + 2 * (size_t)rt->view.header->slots);
        tasks[l] = rt->track[l].head - rt->track[l].retired;
    }
    uint64_t mark = ++rt->attempt;
    for (size_t i = 0; i <= d->n_params; i++) {
        const ptoi_buffer *b = i < d->n_params ? homeless(d, i, mark) : NULL;
        uint64_t bytes = b ? block_bytes(b) : d->heap_bytes;
        if (!b && i < d->n_params) {
            continue;
        }
        *level = b ? rt->scopes[b->base].level : d->level;
        if (tasks[*level]++ > rt->track[*level].mask) {
            return PTOI_SHORT_WINDOW;
        }
        if (!ptoi_heap_fits(&heap[*level], bytes, &at)) {
            return PTOI_SHORT_HEAP;
        }
        ptoi_heap_take(&heap[*level], at, bytes);
    }
    return find_room(d);
}

/* Gives them memory that is not the task's own, and plans the task anew. As always everything is
 * checked, and there is room for all, before anything is taken. */
static __attribute__((noinline)) pto_status find_homes(draft *d, const char *file, int line)
{
    pto_runtime *rt = d->rt;
    for (size_t i = 0; i < d->n_params; i++) {
        if (d->params[i].kind <= PTO_PARAM_INOUT) {
            PTO_TRY(blame(i, pto_tensor_check(d->params[i].tensor)));
        }
    }
    uint32_t level = d->level;
    PTO_TRY(make_room(d)); /* what it needs itself, first */
    while (find_all_room(d, &level) != PTOI_SHORT_NOTHING) {
        ptoi_retire(rt, level);
        ptoi_shortage what = find_all_room(d, &level);
        if (what != PTOI_SHORT_NOTHING) {
            ptoi_count64(&rt->view.header->progress[level].stalls[what], 1);
            PTO_TRY(ptoi_stall(rt, level, what, d->heap_bytes));
        }
    }
    uint64_t mark = ++rt->attempt;
    for (size_t i = 0; i < d->n_params; i++) {
        ptoi_buffer *b = homeless(d, i, mark);
        if (b) {
            take_memory(rt, b, ptoi_site_of(rt, file, line));
            rt->order--; /* it belongs to the task that follows */
        }
    }
    begin(d, rt, d->level);
    return plan(d);
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
    uint32_t number = kernel ^ rt->first_kernel;
    if (UNLIKELY(number == 0 || number >= rt->n_kernels)) {
        return refuse_kernel(rt, number, type);
    }
    uint32_t own_type = rt->view.kernels[number].type;
    if (UNLIKELY((type != PTO_KERNEL_TYPE && (uint32_t)type != own_type) ||
                 !(rt->served >> own_type & 1))) {
        return refuse_kernel(rt, number, type);
    }
    if (UNLIKELY(n_params && !params)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit: %zu parameters at NULL", n_params);
    }
    if (UNLIKELY(ptoi_get32(&rt->view.header->cancelled))) {
        return ptoi_fail(PTO_CANCELLED, "submit: the runtime was cancelled");
    }

    draft d;
    pto_map_param accesses[FEW];
    uint8_t kinds[FEW];
    begin(&d, rt, rt->level);
    d.params = params;
    d.n_params = n_params;
    d.accesses = accesses;
    d.kinds = kinds;
    if (UNLIKELY(n_params > FEW)) {
        if (n_params > rt->max_accesses) {
            return ptoi_fail(
                PTO_TOO_LARGE,
                "submit: %zu parameters for the %" PRIu64 " bytes of arguments of level "
                "%u: it takes arg_bytes (PTO_ARGS) of at least %zu, and a task has at "
                "most a million",
                n_params, rt->track[rt->level].args.size * 16, rt->level, n_params * 16);
        }
        d.accesses = rt->accesses;
        d.kinds = (uint8_t *)(rt->accesses + rt->max_accesses);
    }
    PTO_TRY(plan(&d));
    if (UNLIKELY(d.homeless)) {
        PTO_TRY(find_homes(&d, file, line));
    }
    PTO_TRY(make_room(&d));
    PTO_TRY(link_task(&d));
    if (d.n_fresh && !d.barrier) {
        record_fresh(&d);
    }
    if (UNLIKELY(ptoi_poison_any(rt))) {
        judge(&d);
    }
    ptoi_slot *slot = take(&d, number, own_type, ptoi_site_of(rt, file, line), PTOI_LIST_EMPTY);
    pack(&d);
    publish(&d, slot);
    if (task) {
        *task = rt->last;
    }
    if (UNLIKELY(d.barrier)) {
        rt->unmapped = rt->last;
        ptoi_wait_level(rt, d.level);
        rt->unmapped = 0;
    }
    if (rt->order % RETIRE_EVERY == 0) {
        ptoi_retire(rt, d.level);
    }
    ptoi_debug_check(rt);
    return PTO_OK;
}
