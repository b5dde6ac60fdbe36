/* write.h - writing a task down: rings, arguments, note and slot.
 *
 * All of it was found to fit, and nothing was taken since. Nobody looks at what is written here
 * before W1, but for two words of the slot: some may still refer to the task that was there before.
 */
#ifndef PTOI_WRITE_H
#define PTOI_WRITE_H

#include <string.h>

#include "orchestrator/edge.h"
#include "tensor/tensor.h"

/* ---- Managed memory ---- */

/* The task names memory that another one owns, whose note is returned; NULL if it did so before. */
static inline ptoi_note *ptoi_buffer_name(pto_runtime *rt, const ptoi_buffer *b)
{
    ptoi_note *note = ptoi_note_of(&rt->track[b->level], b->seq);
    if (note->held == rt->attempt) {
        return NULL;
    }
    note->held = rt->attempt;
    note->holders += (note->holders & PTOI_HOLDERS) != PTOI_HOLDERS;
    return note;
}

/* And is handed over: the owner stays until it is complete. */
static inline void ptoi_buffer_hold(pto_runtime *rt, ptoi_buffer *b, uint32_t level, uint64_t seq)
{
    ptoi_note *note = ptoi_buffer_name(rt, b);
    b->unmapped = false;
    if (note) {
        const ptoi_track *owner = &rt->track[b->level];
        uint64_t *until = owner->held_until + ((uint32_t)b->seq & owner->mask) * (size_t)rt->levels;
        if (!(note->holders & PTOI_HELD)) {
            memset(until, 0, rt->levels * sizeof *until);
            note->holders |= PTOI_HELD;
            rt->track[b->level].held++;
        }
        until[level] = seq + 1;
    }
}

/* ---- Arguments ---- */

static inline ptoi_packed *ptoi_pack_scalar(ptoi_packed *at, const pto_param *p)
{
    *at = (ptoi_packed){.value = p->u64,
                        .segment = PTOI_SEGMENT_USER,
                        .form = (uint16_t)p->dtype,
                        .access = PTO_PARAM_SCALAR};
    return at + 1;
}

/* A tensor with elements as an argument, but for its access. `b` is the buffer of a managed one, which
 * has its memory by now; `form` the number of its form, or 0. */
static inline ptoi_packed ptoi_pack_place(const pto_tensor *t, const ptoi_buffer *b, uint32_t form)
{
    const uint64_t offset = (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
    return (ptoi_packed){
        .value = (b ? b->at : (uint64_t)(uintptr_t)t->storage) + offset,
        .buffer = b ? (uint32_t)t->owner : 0,
        .form = (uint16_t)form,
        .segment = b ? (uint8_t)b->level : PTOI_SEGMENT_USER,
    };
}

/* The same for any tensor, with its access, and its form if that has no number. */
ptoi_packed *ptoi_pack_tensor(ptoi_packed *at, const pto_param *p, const ptoi_buffer *b,
                              uint32_t form);

/* ---- Rings, note, slot ---- */

/* A task whose arguments and edges are where they stay, with all room taken. */
typedef struct ptoi_written {
    uint32_t level;
    uint64_t seq;
    uint32_t base, scopes; /* its lifetime */
    uint64_t heap_at, heap_bytes;
    uint64_t args_at, args_end; /* where they lie, and the head of their ring after them */
    uint32_t n_args;
    uint64_t deps_at, deps_end;
    uint32_t fanin;
    uint32_t kernel, type, site;
    bool poisoned;
} ptoi_written;

/* Notes what was taken, so that retire knows what comes back with the task; then writes the slot.
 * (`linked` and `held` of the note are numbers of submits, and none is as large as those to come.) */
static inline ptoi_slot *ptoi_write(pto_runtime *rt, const ptoi_written *w)
{
    ptoi_track *t = &rt->track[w->level];
    ptoi_note *note = ptoi_note_of(t, w->seq);
    note->heap_at = w->heap_at;
    note->heap_size = w->heap_bytes;
    note->args_end = w->args_end;
    note->deps_end = w->deps_end;
    note->holders = 0;
    note->base = w->base;
    note->scopes = w->scopes;

    ptoi_slot *slot = &t->slots[(uint32_t)w->seq & t->mask];
    /* See ptoi_what_of. */
    ptoi_release64(&slot->what, ptoi_what_word(w->kernel, w->site, w->level, w->type, w->poisoned));
    slot->deps = (uint32_t)w->deps_at;
    slot->fanin = w->fanin;
    slot->args = (uint32_t)w->args_at;
    slot->n_args = w->n_args;
    ptoi_release64(&t->orders[(uint32_t)w->seq & t->mask], rt->order++);
    /* Last: who finds it sees the rest; and who refers to the task that was here before sees that it
     * is gone, and all that it did. */
    ptoi_release64(&slot->seq, w->seq);

    t->head = w->seq + 1;
    if (rt->depth == 0) {
        t->released = t->head;
    }
    ptoi_set64(&t->progress->completed, t->completed); /* what was run at once did not tell */
    ptoi_set64(&t->progress->retired, t->retired);
    ptoi_release64(&t->progress->head, t->head);
    rt->last = ptoi_ref_task(ptoi_ref_make(w->seq, w->level, false));
    return slot;
}

/* ---- Publishing ---- */

/* Somebody watches, or the run is traced (submit.c): the task is written, and not published yet. */
void ptoi_tell_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                         size_t n_params);

/* The task is whole: it goes to the scheduler. */
static inline void ptoi_publish(pto_runtime *rt, const ptoi_slot *slot, const ptoi_edges *edges)
{
    ptoi_header *h = rt->view.header;
    for (int why = 0; why < PTOI_REASONS; why++) {
        rt->why[why] += edges->why[why];
    }
    if (__builtin_expect(rt->at_once.ran, 0)) { /* or it has been there already: at_once.h */
        rt->at_once.ran = false;
        ptoi_worker_end(rt->caller, ptoi_slot_number(&rt->view, slot), rt->at_once.status,
                        rt->at_once.words);
        return;
    }
    uint64_t at = ptoi_get64(&h->inbox_head);
    ptoi_set32(&rt->view.inbox[(uint32_t)at & rt->view.inbox_mask],
               ptoi_slot_number(&rt->view, slot));
    ptoi_tell64(&h->inbox_head, at + 1, rt->sched.lopsided); /* W1 */
    ptoi_sched_notify(&rt->sched);
}

#endif /* PTOI_WRITE_H */
