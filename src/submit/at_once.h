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
 * handed over and had just returned (rt->ran): nothing has changed meanwhile that anybody could see.
 */
#ifndef PTOI_AT_ONCE_H
#define PTOI_AT_ONCE_H

#include "base/error.h"
#include "submit/known.h"

/* How often, in tasks, it is looked how many were claimed: the line is another core's. */
#define CLAIMED_EVERY 8

/* Whether workers have enough to do. */
static inline bool is_ahead(pto_runtime *rt)
{
    const ptoi_header *h = rt->view.header;
    const uint64_t head = ptoi_get64(&h->inbox_head), enough = rt->ahead;
    if (head - rt->claimed < enough) {
        return false; /* and what was claimed since makes it less still */
    }
    if (rt->order >= rt->claimed_at) {
        rt->claimed = ptoi_get64(&h->inbox_claimed);
        rt->claimed_at = rt->order + CLAIMED_EVERY;
    }
    return head - rt->claimed >= enough;
}

/* Whether a task with this kernel is to be run at once, if it can be. */
static inline bool is_for_here(pto_runtime *rt, uint32_t number, uint32_t type)
{
    const uint32_t length = ptoi_get32(&rt->sched.kernels[number].length);
    return (rt->at_once >> type & 1) &&
           (length == PTOI_LENGTH_BRIEF || (length == PTOI_LENGTH_SHORT && is_ahead(rt)));
}

/* Whether nobody is left that an access of this kind would have to wait for. */
static inline bool is_free(pto_tensormap *map, ptoi_region *r, uint64_t kind)
{
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

/* A managed parameter: the number of its form, and where it lies; 0 if it is not for here. A buffer that
 * the task brings gets its place in the block of the task, of which *heap_bytes is what others have;
 * the address follows. */
static inline uint32_t find_managed(pto_runtime *rt, const pto_tensor *t, uint64_t kind,
                                    uint64_t *heap_bytes, void **data)
{
    ptoi_buffer *b = buffer_of(rt, t);
    if (PTOI_UNLIKELY(!ptoi_buffer_is(rt, t->owner, t->generation) || t->version != b->version)) {
        return 0;
    }
    if (!b->seq) {
        if (PTOI_UNLIKELY(kind != PTO_PARAM_OUTPUT || b->fresh == rt->attempt ||
                          b->base != rt->scopes[rt->depth - 1].base)) {
            return 0;
        }
        b->fresh = rt->attempt;
        b->at = *heap_bytes;
        *heap_bytes += (b->bytes + 63) & ~UINT64_C(63);
        *data = NULL;
        return b->form = form_of_whole(rt, b, t);
    }
    *data = rt->sched.view.level[b->level].heap + b->at;
    if (b->unmapped) {
        const bool same = t->storage_bytes == b->bytes && !t->offset && !t->storage &&
                          ptoi_form_is(ptoi_form_record(rt->map->forms.records, b->form), t);
        return same ? b->form : form_of_whole(rt, b, t);
    }
    const uint32_t region = ptoi_recall(rt->map, t);
    if (region == PTOI_NONE || rt->map->regions[region].near != PTOI_NEAR_NONE ||
        !is_free(rt->map, &rt->map->regions[region], kind)) {
        return 0;
    }
    *data = (char *)*data + (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
    return rt->map->regions[region].form;
}

/* Runs the task and passes it, if it is of the usual kind and nothing keeps it. Otherwise says false,
 * and has done nothing; or it ran, and did not just end well: then rt->ran says so. */
static inline bool submit_at_once(pto_runtime *rt, uint32_t number, uint32_t type,
                                  const pto_param *params, size_t n_params, const char *file,
                                  int line)
{
    pto_tensormap *map = rt->map;
    const uint32_t level = rt->level;
    ptoi_track *track = &rt->track[level];
    if (PTOI_UNLIKELY(n_params > PTOI_KNOWN_PARAMS || rt->order >= track->quick ||
                      rt->sched.watched)) {
        return false;
    }
    ptoi_worker *caller = rt->caller;
    pto_arg *arg = caller->args;
    uint64_t heap_bytes = 0, heap_at = 0;
    uint32_t brought = 0; /* a bit for each parameter whose buffer the task brings */
    rt->attempt++;
    for (const pto_param *p = params, *end = params + n_params; p != end; p++, arg++) {
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
        uint32_t number_of_form;
        if (t->owner) {
            number_of_form = find_managed(rt, t, kind, &heap_bytes, &arg->data);
            if (PTOI_UNLIKELY(number_of_form == 0)) {
                return false;
            }
            brought |= (uint32_t)!arg->data << (p - params);
        } else {
            const uint32_t region = ptoi_recall(map, t);
            if (PTOI_UNLIKELY(region == PTOI_NONE)) {
                return false;
            }
            ptoi_region *r = &map->regions[region];
            if (PTOI_UNLIKELY(r->near != PTOI_NEAR_NONE || !is_free(map, r, kind))) {
                return false;
            }
            arg->data = (char *)t->storage + (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
            number_of_form = r->form;
        }
        const ptoi_form *form = ptoi_form_record(map->forms.records, number_of_form);
        arg->shape = form->dims;
        arg->strides = form->dims + form->ndim;
        memcpy(&arg->ndim, &form->ndim, 8); /* and dtype */
        arg->u64 = 0;
    }
    if (brought) {
        if (!ptoi_heap_fits(&track->heap, heap_bytes, &heap_at)) {
            return false;
        }
        for (uint32_t left = brought; left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            caller->args[i].data = rt->sched.view.level[level].heap + heap_at +
                                   buffer_of(rt, params[i].tensor)->at;
        }
    }

    /* It runs, and whoever looks in sees it running. */
    const uint64_t seq = track->head;
    const uint32_t at = (uint32_t)seq & track->mask, lap = ptoi_lap(&rt->view, level, seq);
    ptoi_slot *slot = &track->slots[at];
    ptoi_state *state = &track->states[at];
    const pto_task self = ptoi_ref_task(ptoi_ref_make(seq, level, false));
    slot->deps = slot->fanin = slot->args = slot->n_args = 0;
    ptoi_slot_begin(slot, (ptoi_what){.kernel = (uint16_t)number,
                                      .site = (uint16_t)ptoi_site_of(rt, file, line),
                                      .level = (uint8_t)level,
                                      .type = (uint8_t)type});
    ptoi_release64(&track->orders[at], rt->order);
    ptoi_release64(&slot->seq, seq);
    const uint32_t running = ptoi_phase_begin(lap) | PTOI_PHASE_RUNNING;
    ptoi_set32(&state->phase, running);
    state->poisoned = 0;
    ptoi_set64(&caller->line->task, self);
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
        rt->ran.is = true;
        rt->ran.status = status;
        rt->ran.words = words;
        return false;
    }
    ptoi_set32(&state->phase, running | PTOI_PHASE_COMPLETED);
    state->outcome = PTOI_DONE;
    ptoi_release64(&state->waiters, ptoi_list_word(lap, PTOI_LIST_CLOSED));

    /* It is complete, and gone if nothing came before it that is not. */
    const bool passes = track->retired == seq && rt->depth == 0;
    if (track->completed == seq) {
        track->completed = seq + 1;
    }
    track->head = seq + 1;
    if (passes) {
        track->retired = track->released = seq + 1;
    } else {
        for (uint32_t left = brought; left; left &= left - 1) {
            ptoi_buffer *b = buffer_of(rt, params[__builtin_ctz(left)].tensor);
            b->at += heap_at;
            b->seq = seq;
            b->level = level;
            b->unmapped = true;
        }
        ptoi_heap_take(&track->heap, heap_at, heap_bytes);
        const uint32_t base = rt->depth ? rt->scopes[rt->depth - 1].base : 0;
        ptoi_note *note = ptoi_note_of(track, seq);
        note->heap_at = heap_at;
        note->heap_size = heap_bytes;
        note->args_end = track->args.head;
        note->deps_end = track->deps.head;
        note->holders = 0;
        note->base = base;
        note->scopes = rt->depth - base;
        if (rt->depth == 0) {
            track->released = seq + 1;
        }
    }
    rt->order++;
    rt->last = self;
    ptoi_count64(&rt->view.header->at_once, 1);
    ptoi_release64(&caller->line->tally.completed, ptoi_get64(&caller->line->tally.completed) + 1);
    return true;
}

#endif /* PTOI_AT_ONCE_H */
