/* at_once.h - a brief task that nothing keeps from running is run by submit itself; a part of
 * submit.c.
 *
 * A task that another thread runs costs a few lines of cache which go there and come back: as long as
 * a kernel of some 50 ns takes, or one of 200 if the two cores are far apart. So kernels are timed
 * now and then, by whoever runs them, and those that are brief (config.brief_ns) are not handed over
 * if the map says that nobody they would have to wait for is left. Those that are somewhat longer
 * are not either, as long as workers have enough to do: the orchestrating thread has nothing better to
 * do than to run them, and again nothing is handed over.
 *
 * When such a task is submitted it is complete. So nobody will ever wait for it, and nothing about
 * it has to be remembered: no entries in the map, no arguments, no edges, no place in the inbox. It
 * has a number, and its slot says that it is complete. If it is the first to write a buffer it owns
 * the memory, as ever; the map does not hear of that buffer before it is used in another way.
 *
 *     ask     each parameter: does it meet anybody who is not complete?    yes: submit_known does it
 *     run     the kernel, on the orchestrating thread
 *     pass    the number
 *
 * If the kernel returns anything but PTO_OK, the task is recorded after all, as if it had been
 * handed over and had just returned (rt->at_once.ran): nothing has changed meanwhile that anybody could see.
 */
#ifndef PTOI_AT_ONCE_H
#define PTOI_AT_ONCE_H

#include "base/error.h"
#include "orchestrator/known.h"

/* How often, in tasks, it is looked how many were claimed: the line is another core's. */
#define CLAIMED_EVERY 8

#define CATCH_UP_TICKS 10000 /* to wait for others that are brief: some microseconds */

/* How often, in tasks, the clock is looked at; and how many calls are timed if there is reason to. */
#define CLOCK_EVERY 8
#define WARY 64

/* Did the last few tasks take far longer than if their kernels were brief, or short? Then one is not
 * what it was, or the program does other things; the next calls will tell. */
static __attribute__((noinline)) void look_at_clock(pto_runtime *rt)
{
    const uint64_t now = ptoi_ticks(), brief = ptoi_get32(&rt->sched.brief_ticks);
    if (now - rt->at_once.looked > brief * CLOCK_EVERY * PTOI_SHORT) {
        rt->caller->wary = WARY;
        rt->caller->untimed = 0;
    }
    rt->at_once.looked = now;
}

/* Whether workers have enough to do. */
static inline bool is_ahead(pto_runtime *rt)
{
    const ptoi_header *h = rt->view.header;
    const uint64_t head = ptoi_get64(&h->inbox_head), enough = rt->at_once.ahead;
    if (head - rt->at_once.claimed < enough) {
        return false; /* and what was claimed since makes it less still */
    }
    if (rt->order >= rt->at_once.claimed_at) {
        rt->at_once.claimed = ptoi_get64(&h->inbox_claimed);
        rt->at_once.claimed_at = rt->order + CLAIMED_EVERY;
    }
    return head - rt->at_once.claimed >= enough;
}

/* Whether nobody is left that an access of this kind would have to wait for. */
static inline bool is_free(pto_tensormap *map, ptoi_region *r, uint64_t kind)
{
    if (PTOI_MUTANT(AT_ONCE)) {
        return true;
    }
    if (r->writer >= map->level[r->writer_level].watermark) {
        return false;
    }
    if (kind == PTO_PARAM_INPUT || !r->read_levels) {
        return true;
    }
    if (!ptoi_region_idle(map, r)) {
        return false;
    }
    r->read_levels = 0; /* all of them are gone: the next one need not look */
    return true;
}

/* A managed parameter: the number of its form, and where it begins in the heap; 0 if it is not for
 * here. A buffer that the task brings gets its place in the block of the task, which so far ends at
 * *heap_end. */
static inline uint32_t find_managed(pto_runtime *rt, const pto_tensor *t, ptoi_buffer *b,
                                    uint64_t kind, uint64_t *heap_end, uint64_t *at)
{
    if (PTOI_UNLIKELY(!ptoi_buffer_is(rt, t->owner, t->generation) || t->version != b->version)) {
        return 0;
    }
    const bool whole = b->form && t->storage_bytes == b->bytes && !t->offset && !t->storage &&
                       ptoi_form_is(ptoi_form_record(rt->map->forms.records, b->form), t);
    if (!b->seq) {
        if (PTOI_UNLIKELY(kind != PTO_PARAM_OUTPUT || b->fresh == rt->attempt ||
                          b->base != rt->base)) {
            return 0;
        }
        b->fresh = rt->attempt;
        *at = b->at = *heap_end;
        *heap_end += ptoi_draft_block(b);
        b->form = whole ? b->form : (uint16_t)form_of_whole(rt, b, t);
        return b->form;
    }
    *at = b->at;
    if (b->unmapped) {
        return whole ? b->form : form_of_whole(rt, b, t);
    }
    const uint32_t region = known_region(rt->map, t);
    if (region == PTOI_NONE) {
        return 0;
    }
    if (!is_free(rt->map, &rt->map->regions[region], kind)) {
        rt->at_once.waits = true;
        return 0;
    }
    *at += (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
    return rt->map->regions[region].form;
}

/* What is known of a task once it has been asked about. */
typedef struct asked {
    ptoi_packed *outputs, *output; /* what it writes, packed as ever, up to there: if it stays for a
                                      while somebody may ask for its outputs */
    uint64_t heap_at, heap_end;    /* its block */
    uint32_t brought, managed;     /* a bit for each parameter: in its block; in that of another */
} asked;

/* Resolves the arguments. False if the task is not of the usual kind, or something keeps it. */
static inline bool ask(pto_runtime *rt, const pto_param *params, size_t n_params, asked *task)
{
    pto_tensormap *map = rt->map;
    const ptoi_track *track = rt->now;
    pto_arg *arg = rt->caller->args;
    uint32_t bit = 1;
    task->output = task->outputs = track->packed + track->args.at;
    task->heap_end = task->heap_at = ptoi_heap_newest(&rt->now->heap)->end;
    task->brought = task->managed = 0;
    rt->attempt++;
    for (const pto_param *p = params, *end = params + n_params; p != end; p++, arg++, bit <<= 1) {
        const uint64_t kind = head_of(p);
        if (PTOI_UNLIKELY(kind - PTO_PARAM_INPUT > PTO_PARAM_INOUT - PTO_PARAM_INPUT)) {
            if (p->kind != PTO_PARAM_SCALAR) {
                return false;
            }
            *arg = (pto_arg){.dtype = (pto_dtype)p->dtype};
            arg->u64 = p->u64;
            continue;
        }
        const pto_tensor *t = p->tensor;
        if (PTOI_UNLIKELY(!t)) {
            return false;
        }
        uint64_t at, form, segment = PTOI_SEGMENT_USER;
        if (t->owner) {
            ptoi_buffer *b = buffer_of(rt, t);
            form = find_managed(rt, t, b, kind, &task->heap_end, &at);
            if (PTOI_UNLIKELY(form == 0)) {
                return false;
            }
            segment = b->seq ? b->level : rt->level;
            task->managed |= b->seq ? bit : 0;
            task->brought |= b->seq ? 0 : bit;
            arg->data = rt->sched.view.level[segment].heap + at;
        } else {
            const uint32_t region = known_region(map, t);
            if (PTOI_UNLIKELY(region == PTOI_NONE)) {
                return false;
            }
            ptoi_region *r = &map->regions[region];
            if (PTOI_UNLIKELY(!is_free(map, r, kind))) {
                rt->at_once.waits = true;
                return false;
            }
            at = (uint64_t)(uintptr_t)t->storage + (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
            arg->data = (char *)(uintptr_t)at;
            form = r->form;
        }
        if (kind != PTO_PARAM_INPUT) {
            const uint64_t packed[2] = {at, (uint32_t)t->owner | form << PTOI_PACKED_FORM_SHIFT |
                                                segment << PTOI_PACKED_SEGMENT_SHIFT |
                                                kind << PTOI_PACKED_ACCESS_SHIFT};
            memcpy(task->output++, packed, sizeof packed);
        }
        const ptoi_form *record = ptoi_form_record(map->forms.records, (uint32_t)form);
        arg->shape = record->dims;
        arg->strides = record->dims + record->ndim;
        memcpy(&arg->ndim, &record->ndim, 8); /* and dtype */
        arg->u64 = 0;
    }
    uint64_t at = task->heap_at;
    return !task->brought || (ptoi_heap_fits(&track->heap, task->heap_end - task->heap_at, &at) &&
                              at == task->heap_at);
}

/* Runs it, as the task `self`, with a slot in which whoever looks in sees it running; and closes it, if
 * that was all. */
static inline bool run(pto_runtime *rt, uint32_t number, uint32_t type, size_t n_params,
                       uint32_t site, pto_task self)
{
    ptoi_track *track = rt->now;
    ptoi_worker *caller = rt->caller;
    const uint64_t seq = track->head;
    const uint32_t at = (uint32_t)seq & track->mask, lap = ptoi_lap(&rt->view, rt->level, seq);
    ptoi_slot *slot = &track->slots[at];
    ptoi_state *state = &track->states[at];
    const uint32_t running = ptoi_phase_begin(lap) | PTOI_PHASE_RUNNING;
    slot->deps = slot->fanin = slot->args = slot->n_args = 0;
    ptoi_release64(&slot->what, ptoi_what_word(number, site, rt->level, type, false));
    ptoi_release64(&track->orders[at], rt->order);
    ptoi_set32(&state->phase, running);
    state->poisoned = 0;
    ptoi_release64(&slot->seq, seq);
    ptoi_set64(&caller->line->task, self);
    ptoi_count64(&rt->view.header->at_once, 1);
    ptoi_release64(&track->progress->head, seq + 1);
    ptoi_kernel *kernel = &rt->sched.kernels[number];
    const pto_call call = {
        .args = caller->args,
        .n_args = (uint32_t)n_params,
        .worker = caller->id,
        .worker_type = (pto_worker_type)type,
        .task = self,
        .user = kernel->user,
        .rt = rt,
    };
    const uint64_t words = ptoi_error_serial();
    caller->running = true;
    pto_status status = ptoi_worker_call(caller, kernel, &call);
    caller->running = false;
    if (status == PTO_OK) { /* unless pto_task_complete said otherwise, which it should not */
        status = ptoi_phase_status(ptoi_get32(&state->phase));
    }
    if (PTOI_UNLIKELY(status != PTO_OK)) {
        if (status != PTO_PENDING) {
            ptoi_set32(&state->phase, running | PTOI_PHASE_COMPLETED);
        }
        ptoi_set32(&kernel->length, PTOI_LENGTH_LONG); /* not again, for a while */
        rt->at_once.ran = true;
        rt->at_once.status = status;
        rt->at_once.words = words;
        return false;
    }
    ptoi_set32(&state->phase, running | PTOI_PHASE_COMPLETED);
    state->outcome = PTOI_DONE;
    ptoi_release64(&state->waiters, ptoi_list_word(lap, PTOI_LIST_CLOSED));
    return true;
}

/* It is complete: gone, if nothing came before it that is not and no scope holds it; else there for as
 * long as that. */
static inline void pass(pto_runtime *rt, const pto_param *params, const asked *task)
{
    ptoi_track *track = rt->now;
    const uint64_t seq = track->head;
    track->head = seq + 1;
    if (track->completed == seq) {
        track->completed = seq + 1;
        ptoi_set64(&track->progress->completed, seq + 1);
    }
    if (track->retired == seq && rt->depth == 0) {
        track->retired = track->released = seq + 1;
        ptoi_set64(&track->progress->retired, seq + 1);
        return;
    }
    for (uint32_t left = task->brought; left; left &= left - 1) {
        ptoi_buffer *b = buffer_of(rt, params[__builtin_ctz(left)].tensor);
        b->seq = seq;
        b->level = (uint8_t)rt->level;
        b->unmapped = true;
    }
    for (uint32_t left = task->managed; left; left &= left - 1) {
        (void)ptoi_buffer_name(rt, buffer_of(rt, params[__builtin_ctz(left)].tensor));
    }
    ptoi_heap_take(&track->heap, task->heap_at, task->heap_end - task->heap_at);
    ptoi_slot *slot = &track->slots[(uint32_t)seq & track->mask];
    slot->args = (uint32_t)track->args.at;
    slot->n_args = (uint32_t)(task->output - task->outputs);
    (void)ptoi_ring_take_here(&track->args, slot->n_args);
    ptoi_note *note = ptoi_note_of(track, seq);
    note->heap_at = task->heap_at;
    note->heap_size = task->heap_end - task->heap_at;
    note->args_end = track->args.head;
    note->deps_end = track->deps.head;
    note->holders = 0;
    note->base = rt->base;
    note->scopes = rt->depth - rt->base;
    if (rt->depth == 0) {
        track->released = seq + 1;
    }
}

/* Runs the task and passes it, if it is of the usual kind and nothing keeps it. Otherwise says false,
 * and has done nothing; or it ran, and did not just end well: then rt->at_once.ran says so. */
static inline bool submit_at_once(pto_runtime *rt, uint32_t number, uint32_t type,
                                  const pto_param *params, size_t n_params, const char *file,
                                  int line)
{
    asked task;
    if (PTOI_UNLIKELY(n_params > PTOI_KNOWN_PARAMS || rt->order >= rt->now->quick ||
                      rt->sched.watched) ||
        !ask(rt, params, n_params, &task)) {
        return false;
    }
    const pto_task self = ptoi_ref_task(ptoi_ref_make(rt->now->head, rt->level, false));
    if (!run(rt, number, type, n_params, ptoi_site_of(rt, file, line), self)) {
        return false;
    }
    pass(rt, params, &task);
    ptoi_worker_line *told = rt->caller->line;
    rt->last = self;
    rt->order++;
    if (rt->order % CLOCK_EVERY == 0) {
        look_at_clock(rt);
    }
    ptoi_release64(&told->tally.completed, ptoi_get64(&told->tally.completed) + 1);
    return true;
}

/* A task was not for here, or has to wait for somebody: is it to be tried again?
 *
 * A brief one, if those are brief as well: they are run now, or awaited. Else one that was handed over,
 * for whatever reason, would draw all after it that depend on each other. Not so often, and ever more
 * seldom if it is in vain. A short one is not tried again, but since others have enough to do, one of
 * theirs is run, so that there is less to wait for. */
static __attribute__((noinline)) bool is_worth_another(pto_runtime *rt, bool brief)
{
    const bool waits = rt->at_once.waits;
    rt->at_once.waits = false;
    if (!waits) {
        return false;
    }
    if (!brief) {
        ptoi_help_short(rt);
        return false;
    }
    if (rt->order < rt->at_once.catch_at) {
        return false;
    }
    const bool done = ptoi_catch_up(rt, CATCH_UP_TICKS);
    uint64_t patience = done ? rt->at_once.least : 2 * rt->at_once.patience;
    patience = patience < rt->at_once.most ? patience : rt->at_once.most;
    rt->at_once.patience = patience;
    rt->at_once.catch_at = rt->order + patience;
    return done;
}

/* Whether the task was run at once; see submit_at_once. */
static inline bool try_at_once(pto_runtime *rt, uint32_t number, uint32_t type,
                               const pto_param *params, size_t n_params, const char *file, int line)
{
    const uint32_t length = ptoi_get32(&rt->sched.kernels[number].length);
    const bool brief = ptoi_is_brief(length);
    if (!(rt->at_once.types >> type & 1) ||
        !(brief || (length == PTOI_LENGTH_SHORT && is_ahead(rt)))) {
        return false;
    }
    while (!submit_at_once(rt, number, type, params, n_params, file, line)) {
        if (!is_worth_another(rt, brief)) {
            return false;
        }
    }
    return true;
}

#endif /* PTOI_AT_ONCE_H */
