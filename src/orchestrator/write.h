/* write.h - writes a task (arguments, record, slot) and publishes it. Orchestrator's side.
 *
 * There is room for all of it, and nothing was taken since that was checked. The scheduler's side
 * reads none of it before W1, except the atomic fields of the slot: a thread may still refer to the
 * previous task in that slot.
 */
#ifndef PTOI_WRITE_H
#define PTOI_WRITE_H

#include <string.h>

#include "orchestrator/mirror.h"
#include "orchestrator/slow.h"
#include "tensor/tensor.h"

/* ---- Managed memory ---- */

static inline uint64_t *ptoi_block_held_until(const pto_runtime *rt, const ptoi_blocks *blocks,
                                              uint64_t number)
{
    return blocks->held_until + ((uint32_t)number & blocks->mask) * (size_t)rt->levels;
}

/* Writes the record of a new block at this place of the heap, and takes its memory. The caller
 * sets live, device, ran_on, has_task, kernel and site. */
static inline ptoi_heap_block *ptoi_write_block(pto_runtime *rt, ptoi_rings *t, ptoi_heap *heap,
                                                uint64_t at, uint64_t bytes, uint32_t base,
                                                uint32_t scopes)
{
    ptoi_blocks *blocks = &t->blocks;
    ptoi_heap_block *block = ptoi_block_at(blocks, blocks->head++);
    ptoi_heap_take(heap, at, bytes);
    *block = (ptoi_heap_block){.at = at,
                               .bytes = bytes,
                               .life = ++rt->lives,
                               .order = rt->order,
                               .until = blocks->until,
                               .scopes = scopes,
                               .base = base};
    return block;
}

/* The same for the block that task `seq` of the level brings, with `live` buffers. */
static inline ptoi_heap_block *ptoi_write_task_block(pto_runtime *rt, ptoi_rings *t,
                                                     ptoi_heap *heap, uint64_t seq, uint64_t at,
                                                     uint64_t bytes, uint32_t live, uint32_t kernel,
                                                     uint32_t site)
{
    t->blocks.until = seq + 1;
    ptoi_heap_block *block = ptoi_write_block(rt, t, heap, at, bytes, rt->base,
                                              rt->depth - rt->base);
    block->live = live & PTOI_MOST_LIVE;
    block->has_task = true;
    block->kernel = (uint16_t)kernel;
    block->site = (uint16_t)site;
    return block;
}

/* Counts that the task names a block that was there before it. */
static inline ptoi_heap_block *ptoi_write_name(pto_runtime *rt, const ptoi_buffer *b)
{
    ptoi_heap_block *block = ptoi_block_at(&rt->rings[b->level].blocks, b->block);
    if (block->named_by != (uint32_t)rt->attempt) {
        block->named_by = (uint32_t)rt->attempt;
        block->holders += (block->holders & PTOI_HOLDERS) != PTOI_HOLDERS;
    }
    return block;
}

/* The same for an offloaded task: the block is not recycled before the task is complete. */
static inline void ptoi_write_hold(pto_runtime *rt, ptoi_buffer *b, uint32_t level, uint64_t seq)
{
    ptoi_heap_block *block = ptoi_write_name(rt, b);
    ptoi_blocks *blocks = &rt->rings[b->level].blocks;
    uint64_t *until = ptoi_block_held_until(rt, blocks, b->block);
    b->unmapped = false;
    if (!(block->holders & PTOI_HELD)) {
        memset(until, 0, rt->levels * sizeof *until);
        block->holders |= PTOI_HELD;
        blocks->n_held++;
    }
    until[level] = seq + 1;
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

/* The argument descriptor of a nonempty tensor on the host, without its access. `b` is its buffer if
 * it is managed, and has memory; `desc` is the number of its layout, or 0. */
static inline ptoi_arg_desc ptoi_write_place(const pto_runtime *rt, const pto_tensor *t,
                                             const ptoi_buffer *b, uint32_t desc)
{
    const uint64_t offset = (uint64_t)t->offset * ptoi_dtype_bytes(t->dtype);
    return (ptoi_arg_desc){
        .value = (b ? b->at : (uint64_t)((uintptr_t)t->storage - rt->user_base)) + offset,
        .buffer = b ? (uint32_t)t->owner : 0,
        .desc = (uint16_t)desc,
        .segment = (uint8_t)(b ? b->level : rt->user_segment),
    };
}

/* The same for a tensor on any device that is in use. */
ptoi_arg_desc ptoi_write_place_on(pto_runtime *rt, const pto_tensor *t, const ptoi_buffer *b,
                                  uint32_t desc);

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
 * need not be cleared: it holds an earlier attempt, and `attempt` only rises. */
static inline void ptoi_write_record(ptoi_rings *t, uint64_t seq)
{
    ptoi_record *record = ptoi_record_of(t, seq);
    record->args_end = t->args.head;
    record->deps_end = t->deps.head;
    t->head = seq + 1;
}

/* Counts a task whose slot is written. */
static inline void ptoi_write_count(pto_runtime *rt, uint32_t level, uint64_t seq)
{
    rt->last = ptoi_task_make(seq, level);
    rt->order++;
}

/* ---- Slow path, last step ---- */

/* Takes everything that was reserved. Writes arguments, task record and slot. */
ptoi_slot *ptoi_slow_write(ptoi_slow *d, uint32_t kernel, uint32_t lane, uint32_t site);

/* ---- Publishing ---- */

/* How an inline task ended whose kernel did not return PTO_OK. */
typedef struct ptoi_inline_end {
    pto_status status;
    uint64_t errors_before; /* ptoi_error_serial before the kernel */
} ptoi_inline_end;

/* Publishes a task that is completely written. If it ran inline already (`ran`), ends it
 * instead. */
static inline void ptoi_publish(pto_runtime *rt, const ptoi_slot *slot, const ptoi_edges *edges,
                                const ptoi_inline_end *ran)
{
    ptoi_header *h = rt->view.header;
    const uint32_t index = ptoi_slot_index(&rt->view, slot);
    for (int why = 0; why < PTOI_REASONS; why++) {
        rt->why[why] += edges->why[why];
    }
    if (PTOI_UNLIKELY(ran != NULL)) {
        ptoi_count64(&h->inlined_kept, 1);
        ptoi_caller_end(rt->scheduler, index, ran->status, ran->errors_before);
        return;
    }
    const uint64_t at = ptoi_get64(&h->inbox_head);
    ptoi_set32(&rt->view.inbox[(uint32_t)at & rt->view.inbox_mask], index);
    if (PTOI_UNLIKELY(rt->mirrored)) {
        ptoi_mirror_publish(rt, slot);
    }
    ptoi_store_asym64(&h->inbox_head, at + 1, h->asymmetric); /* W1 */
    if (PTOI_UNLIKELY(ptoi_load_sc32(rt->sleepers))) {        /* pairs W10 */
        ptoi_scheduler_rouse(rt->scheduler, index);
    }
}

#endif /* PTOI_WRITE_H */
