/* write.h - writes a task (arguments, record, slot) and publishes it. Orchestrator's side.
 *
 * There is room for all of it, and nothing was taken since that was checked. The scheduler's side
 * reads none of it before W1, except the atomic fields of the slot: a thread may still refer to the
 * previous task in that slot.
 */
#ifndef PTOI_WRITE_H
#define PTOI_WRITE_H

#include <string.h>

#include "orchestrator/edge.h"
#include "tensor/tensor.h"

/* ---- Managed memory ---- */

/* Counts that the task names memory of another one, whose record is returned. NULL if this attempt
 * has counted it already. */
static inline ptoi_record *ptoi_write_name(pto_runtime *rt, const ptoi_buffer *b)
{
    ptoi_record *record = ptoi_record_of(&rt->rings[b->level], b->seq);
    if (record->named_by == rt->attempt) {
        return NULL;
    }
    record->named_by = rt->attempt;
    record->holders += (record->holders & PTOI_HOLDERS) != PTOI_HOLDERS;
    return record;
}

/* The same for an offloaded task: the owner is not recycled before the task is complete. */
static inline void ptoi_write_hold(pto_runtime *rt, ptoi_buffer *b, uint32_t level, uint64_t seq)
{
    ptoi_record *record = ptoi_write_name(rt, b);
    b->unmapped = false;
    if (record) {
        const ptoi_rings *owner = &rt->rings[b->level];
        uint64_t *until = owner->held_until + ((uint32_t)b->seq & owner->mask) * (size_t)rt->levels;
        if (!(record->holders & PTOI_HELD)) {
            memset(until, 0, rt->levels * sizeof *until);
            record->holders |= PTOI_HELD;
            rt->rings[b->level].n_held++;
        }
        until[level] = seq + 1;
    }
}

/* ---- Arguments ---- */

static inline ptoi_arg_desc *ptoi_write_scalar(ptoi_arg_desc *at, const pto_param *p)
{
    *at = (ptoi_arg_desc){.value = p->u64,
                          .segment = PTOI_SEGMENT_USER,
                          .desc = (uint16_t)p->dtype,
                          .access = PTO_PARAM_SCALAR};
    return at + 1;
}

/* The argument descriptor of a nonempty tensor, without its access. `b` is its buffer if it is
 * managed, and has memory; `desc` is the number of its layout, or 0. */
static inline ptoi_arg_desc ptoi_write_place(const pto_tensor *t, const ptoi_buffer *b,
                                             uint32_t desc)
{
    const uint64_t offset = (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
    return (ptoi_arg_desc){
        .value = (b ? b->at : (uint64_t)(uintptr_t)t->storage) + offset,
        .buffer = b ? (uint32_t)t->owner : 0,
        .desc = (uint16_t)desc,
        .segment = b ? (uint8_t)b->level : PTOI_SEGMENT_USER,
    };
}

/* ---- Slot ---- */

/* The only function that writes a slot. */
static inline ptoi_slot *ptoi_write_slot(ptoi_rings *t, uint64_t seq, uint64_t order,
                                         uint64_t header, uint64_t args, uint32_t n_args,
                                         uint64_t deps, uint32_t fanin)
{
    const uint32_t at = (uint32_t)seq & t->mask;
    ptoi_slot *slot = &t->slots[at];
    ptoi_release64(&slot->header, header); /* W5 */
    slot->deps = (uint32_t)deps;
    slot->fanin = fanin;
    slot->args = (uint32_t)args;
    slot->n_args = n_args;
    if (PTOI_MUTANT(MARK_EARLY)) {
        ptoi_release64(&t->orders[at], ptoi_order_word(order, false));
    }
    ptoi_release64(&slot->seq, seq); /* W4 */
    /* After `seq`: an old task that was marked complete here stays complete for outside readers. */
    ptoi_release64(&t->orders[at], ptoi_order_word(order, false)); /* W5 */
    ptoi_release64(&t->progress->head, seq + 1);                   /* W6 */
    return slot;
}

/* Marks a task as complete that the scheduler's side never sees. */
static inline void ptoi_write_complete(ptoi_rings *t, uint64_t seq, uint64_t order)
{
    ptoi_release64(&t->orders[(uint32_t)seq & t->mask], ptoi_order_word(order, true)); /* W5 */
}

/* ---- Task record ---- */

/* Records what the newest task has taken, so that retire can return it. Advances the head. `linked`
 * and `named_by` need not be cleared: they hold earlier attempts, and `attempt` only rises. */
static inline void ptoi_write_record(const pto_runtime *rt, ptoi_rings *t, uint64_t seq,
                                     uint32_t base, uint32_t scopes, uint64_t heap_at,
                                     uint64_t heap_bytes)
{
    ptoi_record *record = ptoi_record_of(t, seq);
    record->heap_at = heap_at;
    record->heap_size = heap_bytes;
    record->args_end = t->args.head;
    record->deps_end = t->deps.head;
    record->holders = 0;
    record->base = base;
    record->scopes = scopes;
    t->head = seq + 1;
    if (rt->depth == 0) {
        t->released = t->head;
    }
}

/* ---- Publishing ---- */

/* How an inline task ended whose kernel did not return PTO_OK. */
typedef struct ptoi_inline_end {
    pto_status status;
    uint64_t words; /* ptoi_error_serial before the kernel */
} ptoi_inline_end;

/* Publishes a task that is completely written. If it ran inline already (`ran`), ends it
 * instead. */
static inline void ptoi_publish(pto_runtime *rt, const ptoi_slot *slot, const ptoi_edges *edges,
                                const ptoi_inline_end *ran)
{
    ptoi_header *h = rt->view.header;
    const uint32_t task = ptoi_slot_number(&rt->view, slot);
    for (int why = 0; why < PTOI_REASONS; why++) {
        rt->why[why] += edges->why[why];
    }
    if (PTOI_UNLIKELY(ran != NULL)) {
        ptoi_count64(&h->inlined_kept, 1);
        ptoi_caller_end(rt->scheduler, task, ran->status, ran->words);
        return;
    }
    const uint64_t at = ptoi_get64(&h->inbox_head);
    ptoi_set32(&rt->view.inbox[(uint32_t)at & rt->view.inbox_mask], task);
    ptoi_store_asym64(&h->inbox_head, at + 1, rt->asymmetric); /* W1 */
    if (PTOI_UNLIKELY(ptoi_load_sc32(rt->sleepers))) {         /* pairs W10 */
        ptoi_scheduler_rouse(rt->scheduler);
    }
}

#endif /* PTOI_WRITE_H */
