/* check.c - checks every invariant that the headers of a runtime state. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "orchestrator/check.h"
#include "orchestrator/device.h"
#include "orchestrator/room.h"
#include "orchestrator/runtime.h"

static pto_status broken(uint32_t level, const char *what, uint64_t a, uint64_t b)
{
    return ptoi_fail(PTO_CORRUPT, "check: level %u: %s (%" PRIu64 ", %" PRIu64 ")", level, what, a,
                     b);
}

/* B1 to B4. */
static pto_status check_blocks(const pto_runtime *rt, uint32_t l)
{
    const ptoi_rings *t = &rt->rings[l];
    const ptoi_blocks *blocks = &t->blocks;
    if (blocks->head - blocks->tail > blocks->mask + UINT64_C(1)) {
        return broken(l, "more blocks than records", blocks->tail, blocks->head);
    }
    uint64_t used[PTOI_DEVICES] = {0}, held = 0;
    for (uint64_t n = blocks->tail; n != blocks->head; n++) {
        const ptoi_heap_block *block = ptoi_block_at(blocks, n),
                              *next = ptoi_block_at(blocks, n + 1);
        if (n + 1 != blocks->head && (next->until < block->until || next->order < block->order ||
                                      next->life <= block->life)) {
            return broken(l, "a block is older than the one before it", n, next->life);
        }
        used[block->device] += block->bytes;
        held += (block->holders & PTOI_HELD) != 0;
    }
    if (held != blocks->n_held) {
        return broken(l, "blocks with PTOI_HELD and n_held differ", held, blocks->n_held);
    }
    for (uint32_t d = 0; d < rt->n_devices; d++) {
        const ptoi_heap *heap = ptoi_heap_of(rt, l, d);
        if (used[d] != heap->used) {
            return broken(l, "the bytes of all blocks and heap.used differ", used[d], heap->used);
        }
        if (heap->size && !ptoi_heap_check(heap)) {
            return broken(l, "an invariant of the heap of a device", d, heap->used);
        }
    }
    return PTO_OK;
}

static pto_status check_level(const pto_runtime *rt, uint32_t l)
{
    const ptoi_rings *t = &rt->rings[l];
    if (t->retired > t->completed || t->completed > t->head) {
        return broken(l, "retired <= completed <= head", t->retired, t->completed);
    }
    if (t->head - t->retired > t->mask + UINT64_C(1)) {
        return broken(l, "more tasks than slots", t->head - t->retired, t->mask + UINT64_C(1));
    }
    if (!ptoi_heap_check(&t->heap) || !ptoi_ring_check(&t->args) || !ptoi_ring_check(&t->deps)) {
        return broken(l, "an invariant of the heap, the argument ring or the edge ring",
                      t->args.head, t->deps.head);
    }
    if (t->fast_until > rt->order && t->fast_until - rt->order > ptoi_fast_room(rt, l)) {
        return broken(l, "more fast-path tasks than there is room for", t->fast_until - rt->order,
                      ptoi_fast_room(rt, l));
    }
    uint64_t args_end = 0; /* pieces of length 0 may lie before the tail */
    for (uint64_t n = t->retired; n != t->head; n++) {
        const ptoi_slot *slot = &t->slots[(uint32_t)n & t->mask];
        const ptoi_record *record = ptoi_record_of(t, n);
        const uint32_t lap = ptoi_lap(&rt->view, l, n);
        uint64_t waiters = ptoi_acquire64(&t->states[(uint32_t)n & t->mask].waiters);
        if (ptoi_get64(&slot->seq) != n || ptoi_slot_header_of(slot).level != l ||
            lap - (uint32_t)(waiters >> 32) > 2 * PTOI_REFRESH_LAPS) {
            return broken(l, "a slot belongs to another task", ptoi_get64(&slot->seq), n);
        }
        if (n < t->completed && !ptoi_is_marked_complete(&rt->view, slot) &&
            !ptoi_list_closed(waiters, lap)) {
            return broken(l, "a task below `completed` is open", n, t->completed);
        }
        if (record->args_end < args_end) {
            return broken(l, "args_end falls", n, record->args_end);
        }
        args_end = record->args_end;
    }
    if (args_end > t->args.head) {
        return broken(l, "args_end is behind the head of the ring", args_end, t->args.head);
    }
    return check_blocks(rt, l);
}

/* B5, and what the records of buffers say. */
static pto_status check_buffers(const pto_runtime *rt)
{
    for (uint32_t i = 0; i < rt->n_buffers; i++) {
        const ptoi_buffer *b = &rt->buffers[i];
        if (b->life > rt->lives) {
            return broken(0, "a buffer that was never created", i, b->life);
        }
        if (!b->life || !b->block) {
            continue;
        }
        if (b->base >= rt->depth || rt->scopes[b->base].lives >= b->life) {
            return broken(b->level, "a buffer outlives its scope", i, b->life);
        }
        const ptoi_rings *t = &rt->rings[b->level];
        if (b->block < t->blocks.tail || b->block >= t->blocks.head ||
            !ptoi_block_at(&t->blocks, b->block)->live) {
            return broken(b->level, "the block of a living buffer is gone", b->block,
                          t->blocks.tail);
        }
        const uint64_t at = ptoi_guard_unplace(ptoi_guard_is_on(rt, b->device), b->at);
        const ptoi_heap *heap = ptoi_heap_of(rt, b->level, b->device);
        if (at > heap->size || b->bytes > heap->size - at) {
            return broken(b->level, "a buffer lies outside its heap", b->at, b->bytes);
        }
    }
    return PTO_OK;
}

static pto_status check_scopes(const pto_runtime *rt)
{
    for (uint32_t i = 0; i < rt->depth; i++) {
        const ptoi_scope *s = &rt->scopes[i];
        if (s->base > i || s->level >= rt->levels || s->buffers > rt->n_buffers ||
            (i && (s->lives < s[-1].lives || s->buffers < s[-1].buffers))) {
            return broken(s->level, "the stack of scopes is inconsistent", i, s->base);
        }
    }
    return PTO_OK;
}

static pto_status check_all(const pto_runtime *rt)
{
    for (uint32_t l = 0; l < rt->levels; l++) {
        PTO_TRY(check_level(rt, l));
    }
    PTO_TRY(check_buffers(rt));
    return check_scopes(rt);
}

pto_status pto_check(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "check"));
    PTO_TRY(check_all(rt));
    return pto_tensormap_check(rt->map);
}

#ifdef PTO_DEBUG_CHECKS
/* Every 64th call: a check visits everything. */
void ptoi_debug_check(pto_runtime *rt)
{
    if (rt->attempt % 64 == 0 && check_all(rt) != PTO_OK) {
        fprintf(stderr, "pto: %s\n", pto_error_detail());
        abort();
    }
}
#endif
