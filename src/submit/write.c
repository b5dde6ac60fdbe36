/* write.c - writing a task down: rings, buffers, arguments, note and slot.
 *
 * All of it was found to fit, and nothing was taken since. Nobody looks at what is written here
 * before W1, but for two words of the slot: some may still refer to the task that was there before.
 */
#include <string.h>

#include "submit/draft.h"
#include "tensor/tensor.h"

/* ---- Managed memory ---- */

/* The task names memory that another one owns: that one stays until it is complete. */
static void hold(ptoi_draft *d, const ptoi_buffer *b)
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
static void settle_managed(ptoi_draft *d)
{
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind > PTO_PARAM_INOUT || !p->tensor->owner) {
            continue;
        }
        ptoi_buffer *b = ptoi_draft_buffer(d, p);
        if (!b->seq) {
            b->seq = d->seq;
            b->level = d->level;
            b->at += d->heap_at;
        } else if (b->seq != d->seq || b->level != d->level) {
            hold(d, b);
        }
        if (p->tensor->version == b->version + 1) {
            b->version++;
        }
    }
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

static void pack(const ptoi_draft *d)
{
    ptoi_packed *at = d->rt->view.level[d->level].args + d->args.at;
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
        uint64_t offset = (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
        at->dtype = (uint8_t)t->dtype;
        at->ndim = (uint8_t)t->ndim;
        at->access = (uint8_t)((uint32_t)p->kind | (p->nodep ? PTOI_PACKED_NODEP : 0));
        if (t->owner) {
            const ptoi_buffer *b = ptoi_draft_buffer(d, p);
            at->value = b->at + offset;
            at->buffer = (uint32_t)t->owner;
            at->segment = (uint8_t)b->level;
        } else {
            at->value = (uint64_t)(uintptr_t)t->storage + offset;
            at->buffer = 0;
            at->segment = PTOI_SEGMENT_USER;
        }
        if (PTOI_UNLIKELY(copy_dims((int64_t *)(void *)(at + 1), t))) { /* it is nowhere */
            at->value = 0;
            at->segment = PTOI_SEGMENT_USER;
        }
        at += ptoi_packed_units(t->ndim);
    }
}

/* ---- Rings, note, slot ---- */

/* What is taken is noted, so that retire knows what comes back with the task. */
static inline void take(ptoi_draft *d)
{
    ptoi_track *t = d->track;
    ptoi_note *note = ptoi_note_of(t, d->seq);
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
}

static inline void advance(const ptoi_draft *d)
{
    pto_runtime *rt = d->rt;
    ptoi_track *t = d->track;
    ptoi_progress *progress = &rt->view.header->progress[d->level];
    t->head = d->seq + 1;
    if (rt->depth == 0) {
        t->released = t->head;
    }
    if (t->head - t->retired > ptoi_get64(&progress->tasks_peak)) {
        ptoi_set64(&progress->tasks_peak, t->head - t->retired);
    }
    ptoi_release64(&progress->head, t->head);
    rt->last = ptoi_ref_task(ptoi_ref_make(d->seq, d->level, false));
}

ptoi_slot *ptoi_draft_write(ptoi_draft *d, uint32_t kernel, uint32_t type, uint32_t site,
                            uint32_t list)
{
    pto_runtime *rt = d->rt;
    ptoi_slot *slot = &d->track->slots[(uint32_t)d->seq & d->track->mask];
    take(d);
    if (d->managed) {
        settle_managed(d);
    }
    pack(d);

    ptoi_set64(&slot->order, rt->order++);
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
    /* Released after `seq`: who still refers to the task that was here before, and takes the new
     * word for its own, sees by `seq` that it is not. */
    ptoi_release64(&slot->waiters, ptoi_list_tag(&rt->view, d->level, d->seq) | list);

    advance(d);
    return slot;
}
