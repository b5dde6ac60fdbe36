/* write.h - writing a task down: rings, arguments, note and slot.
 *
 * All of it was found to fit, and nothing was taken since. Nobody looks at what is written here
 * before W1, but for two words of the slot: some may still refer to the task that was there before.
 */
#ifndef PTOI_WRITE_H
#define PTOI_WRITE_H

#include <string.h>

#include "submit/runtime.h"
#include "tensor/tensor.h"

/* ---- Managed memory ---- */

/* The task names memory that another one owns: that one stays until it is complete. */
static inline void ptoi_buffer_hold(pto_runtime *rt, const ptoi_buffer *b, uint32_t level,
                                    uint64_t seq)
{
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
    until[level] = seq + 1;
}

/* ---- Arguments ---- */

/* Shape and strides, one after the other. Returns whether a size is 0. */
static inline bool copy_dims(int64_t *to, const pto_tensor *t)
{
    if (t->ndim == 2) { /* as most are */
        memcpy(to, t->shape, 2 * sizeof *to);
        memcpy(to + 2, t->strides, 2 * sizeof *to);
        return t->shape[0] == 0 || t->shape[1] == 0;
    }
    if (t->ndim == 1) {
        to[0] = t->shape[0];
        to[1] = t->strides[0];
        return t->shape[0] == 0;
    }
    bool zero = false;
    for (int32_t k = 0; k < t->ndim; k++) {
        to[k] = t->shape[k];
        to[t->ndim + k] = t->strides[k];
        zero |= t->shape[k] == 0;
    }
    return zero;
}

static inline ptoi_packed *ptoi_pack_scalar(ptoi_packed *at, const pto_param *p)
{
    *at = (ptoi_packed){.value = p->u64,
                        .segment = PTOI_SEGMENT_USER,
                        .dtype = (uint8_t)p->dtype,
                        .access = PTO_PARAM_SCALAR};
    return at + 1;
}

/* `b` is the buffer of a managed tensor, which has its memory by now. */
static inline ptoi_packed *ptoi_pack_tensor(ptoi_packed *at, const pto_param *p,
                                            const ptoi_buffer *b)
{
    const pto_tensor *t = p->tensor;
    const uint64_t offset = (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
    /* The small fields in one store, as the layout of the structure has them. */
    uint64_t small = (uint64_t)PTOI_SEGMENT_USER << 32, value = (uint64_t)(uintptr_t)t->storage;
    if (b) {
        small = (uint32_t)t->owner | (uint64_t)b->level << 32;
        value = b->at;
    }
    small |= (uint64_t)t->dtype << 40 | (uint64_t)(uint32_t)t->ndim << 48 | (uint64_t)p->kind << 56;
    if (__builtin_expect(p->nodep != 0, 0)) {
        small |= (uint64_t)PTOI_PACKED_NODEP << 56;
    }
    at->value = value + offset;
    memcpy(&at->buffer, &small, sizeof small);
    if (__builtin_expect(copy_dims((int64_t *)(void *)(at + 1), t), 0)) { /* it is nowhere */
        at->value = 0;
        at->segment = PTOI_SEGMENT_USER;
    }
    return at + ptoi_packed_units(t->ndim);
}

/* ---- Rings, note, slot ---- */

/* A task whose arguments and edges are where they stay. */
typedef struct ptoi_written {
    uint32_t level;
    uint64_t seq;
    uint32_t base, scopes; /* its lifetime */
    uint64_t heap_at, heap_bytes;
    ptoi_piece args;
    uint64_t units;
    uint32_t n_args;
    ptoi_piece deps;
    uint32_t fanin;
    uint32_t kernel, type, site;
    bool poisoned;
    uint32_t list; /* the state of its list */
} ptoi_written;

/* Takes all that was reserved, and notes it, so that retire knows what comes back with the task; then
 * writes the slot. */
static inline ptoi_slot *ptoi_write(pto_runtime *rt, const ptoi_written *w)
{
    ptoi_track *t = &rt->track[w->level];
    ptoi_note *note = ptoi_note_of(t, w->seq);
    note->heap_at = w->heap_at;
    note->heap_size = w->heap_bytes;
    ptoi_heap_take(&t->heap, w->heap_at, w->heap_bytes);
    note->args_end = ptoi_ring_take(&t->args, w->args, w->units);
    note->deps_end = ptoi_ring_take(&t->deps, w->deps, w->fanin);
    note->linked = 0;
    note->held = 0;
    note->holders = 0;
    note->base = w->base;
    note->scopes = w->scopes;

    ptoi_slot *slot = &t->slots[(uint32_t)w->seq & t->mask];
    ptoi_set64(&slot->order, rt->order++);
    slot->next = PTOI_LIST_EMPTY;
    slot->cursor = 0;
    slot->deps = (uint32_t)w->deps.at;
    slot->fanin = w->fanin;
    slot->args = (uint32_t)w->args.at;
    slot->n_args = w->n_args;
    ptoi_set32(&slot->kernel, w->kernel);
    slot->level = (uint8_t)w->level;
    slot->type = (uint8_t)w->type;
    slot->poisoned = w->poisoned;
    slot->outcome = PTOI_DONE;
    slot->site = w->site;
    ptoi_set32(&slot->phase, 0);
    ptoi_release64(&slot->seq, w->seq);
    /* Released after `seq`: who still refers to the task that was here before, and takes the new
     * word for its own, sees by `seq` that it is not. */
    ptoi_release64(&slot->waiters, ptoi_list_tag(&rt->view, w->level, w->seq) | w->list);

    t->head = w->seq + 1;
    if (rt->depth == 0) {
        t->released = t->head;
    }
    ptoi_release64(&rt->view.header->progress[w->level].head, t->head);
    rt->last = ptoi_ref_task(ptoi_ref_make(w->seq, w->level, false));
    return slot;
}

#endif /* PTOI_WRITE_H */
