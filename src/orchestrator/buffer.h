/* buffer.h - managed memory: buffers, their versions, and tensors in them. Orchestrator's side. */
#ifndef PTOI_BUFFER_H
#define PTOI_BUFFER_H

#include "orchestrator/runtime.h"

/* The record of a managed tensor. NULL, with the error set, if its buffer is gone. */
ptoi_buffer *ptoi_buffer_find(pto_runtime *rt, const char *who, const pto_tensor *t);

/* Whether the buffer is alive, if the handle is not forged. */
static inline bool ptoi_buffer_is(const pto_runtime *rt, uint64_t owner, uint32_t generation)
{
    const uint32_t record = (uint32_t)owner - 1;
    return record < rt->n_buffers && rt->buffers[record].life == (owner >> 32 << 32 | generation);
}

/* The record of a managed tensor whose buffer is alive. */
static inline ptoi_buffer *ptoi_buffer_of(const pto_runtime *rt, const pto_tensor *t)
{
    return &rt->buffers[(uint32_t)t->owner - 1];
}

static inline uint64_t ptoi_buffer_owner(const pto_runtime *rt, const ptoi_buffer *b)
{
    return b->life >> 32 << 32 | ((uint64_t)(b - rt->buffers) + 1);
}

/* Bytes that a buffer takes in its heap: whole lines. */
static inline uint64_t ptoi_buffer_block(const ptoi_buffer *b)
{
    return (b->bytes + 63) & ~UINT64_C(63);
}

/* Rebuilds a tensor with the same bytes from an argument of the task. False if the argument is
 * managed memory whose buffer is gone. */
bool ptoi_buffer_unpack(const pto_runtime *rt, const ptoi_slot *slot, const ptoi_arg_desc *arg,
                        pto_tensor *t);

/* The first writer of a buffer brings its memory, so it must write all of it, densely.
 * PTO_NOT_CONTIGUOUS if it does not. */
pto_status ptoi_buffer_check_first(const ptoi_buffer *b, const char *who, const pto_tensor *t);

/* Widens the range that is compared with memory of the program (rt->heap_begin). */
void ptoi_buffer_note_range(pto_runtime *rt, const void *memory, uint64_t bytes);

/* PTO_BAD_MEMORY if user memory reaches into a heap, or is refused. */
pto_status ptoi_buffer_check_external(const pto_runtime *rt, const char *who, const pto_tensor *t);

#endif /* PTOI_BUFFER_H */
