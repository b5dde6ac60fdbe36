/* block.c - blocks of managed memory: taking and recycling them. block.h says who holds a block. */
#include "orchestrator/block.h"

#include "base/error.h"
#include "base/mutant.h"
#include "orchestrator/buffer.h"
#include "orchestrator/check.h"
#include "orchestrator/device.h"
#include "orchestrator/names.h"
#include "orchestrator/params.h"
#include "orchestrator/retire.h"
#include "orchestrator/rings.h"
#include "orchestrator/room.h"
#include "orchestrator/stall.h"
#include "orchestrator/trace.h"
#include "orchestrator/write.h"

/* ---- Taking ---- */

/* How many lifetimes are open up to the one that begins at `base`, for the trace. */
static uint32_t lifetime_number(const pto_runtime *rt, uint32_t base)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i <= base; i++) {
        number += rt->scopes[i].base == i;
    }
    return number;
}

/* Gives a buffer a block of its own. There is room for it. */
static void take_memory(pto_runtime *rt, ptoi_buffer *b, uint32_t site)
{
    const uint32_t level = rt->scopes[b->base].level;
    ptoi_rings *rings = &rt->rings[level];
    uint32_t scopes = 1;
    while (b->base + scopes < rt->depth && rt->scopes[b->base + scopes].base == b->base) {
        scopes++;
    }
    uint64_t at;
    ptoi_heap *heap = ptoi_heap_of(rt, level, b->device);
    (void)ptoi_heap_fits(heap, ptoi_buffer_block(b), &at); /* it fits: checked before */
    ptoi_heap_block *block = ptoi_write_block(rt, rings, heap, at, ptoi_buffer_block(b), b->base,
                                              scopes);
    block->site = (uint16_t)site;
    block->live = 1;
    block->device = b->device;
    b->block = rings->blocks.head - 1;
    b->level = (uint8_t)level;
    b->at = ptoi_guard_place(ptoi_guard_is_on(rt, b->device), at);
    ptoi_guard_memory(rt, b);
    rings->fast_until = 0;
    if (rt->trace) {
        ptoi_trace_life(rt, PTRACE_MEMORY, level, lifetime_number(rt, b->base), (uint32_t)b->life,
                        b->bytes);
    }
}

pto_status ptoi_block_give(pto_runtime *rt, const char *who, ptoi_buffer *b, const char *file,
                           int line)
{
    ptoi_slow d;
    const uint32_t level = rt->scopes[b->base].level;
    PTO_TRY(ptoi_device_heap(rt, who, b->device, level));
    ptoi_slow_begin(&d, rt, level, NULL, 0);
    d.device = b->device;
    d.heap = ptoi_heap_of(rt, level, b->device);
    d.heap_bytes = ptoi_buffer_block(b);
    d.brings = 1;
    d.memory_only = true;
    d.who = who;
    PTO_TRY(ptoi_slow_reserve(&d));
    take_memory(rt, b, ptoi_site_of(rt, file, line));
    ptoi_debug_check(rt);
    return PTO_OK;
}

/* The buffer, if this parameter is the first write to one of an outer lifetime; else NULL. Each
 * buffer is returned once per mark. */
static ptoi_buffer *outer_buffer(const ptoi_slow *d, size_t i, uint64_t mark)
{
    const pto_param *p = &d->params[i];
    if (p->kind != PTO_PARAM_OUTPUT || !p->tensor->owner) {
        return NULL;
    }
    ptoi_buffer *b = ptoi_buffer_of(d->rt, p->tensor);
    if (b->block || b->attempt == mark || b->base == d->rt->base) {
        return NULL;
    }
    b->attempt = mark;
    return b;
}

/* Finds out whether all blocks and the task itself fit, taken one after the other. Returns the ring
 * without room, and its level. The heaps are tried on copies. *wanted is the number of bytes asked
 * of that heap or ring in all. */
static ptoi_shortage find_all_room(ptoi_slow *d, uint32_t *level, uint64_t *wanted)
{
    pto_runtime *rt = d->rt;
    ptoi_heap heap[PTO_MAX_LEVELS];
    uint64_t room[PTO_MAX_LEVELS], bytes_of[PTO_MAX_LEVELS] = {0}, at;
    for (uint32_t l = 0; l < rt->levels; l++) {
        const ptoi_heap *there = ptoi_heap_of(rt, l, d->device);
        if (there->size) { /* else no buffer of the task is to lie there */
            ptoi_heap_copy(&heap[l], there, ptoi_heap_trial(rt, l, d->device));
        }
        room[l] = ptoi_blocks_room(&rt->rings[l].blocks);
    }
    uint64_t mark = ++rt->attempt;
    for (size_t i = 0; i <= d->n_params; i++) {
        const ptoi_buffer *b = i < d->n_params ? outer_buffer(d, i, mark) : NULL;
        uint64_t bytes = b ? ptoi_buffer_block(b) : d->heap_bytes;
        if (!b && (i < d->n_params || !d->brings)) {
            continue;
        }
        *level = b ? rt->scopes[b->base].level : d->level;
        *wanted = bytes_of[*level] += bytes;
        if (room[*level]-- == 0) {
            return PTOI_SHORT_BUFFERS;
        }
        if (!ptoi_heap_fits(&heap[*level], bytes, &at)) {
            return PTOI_SHORT_HEAP;
        }
        ptoi_heap_take(&heap[*level], at, bytes);
    }
    ptoi_shortage what = ptoi_slow_shortage(d);
    *level = d->level;
    *wanted = what == PTOI_SHORT_ARGS ? d->units * 16 : bytes_of[d->level];
    return what;
}

pto_status ptoi_block_give_outer(ptoi_slow *d, const char *file, int line)
{
    pto_runtime *rt = d->rt;
    for (size_t i = 0; i < d->n_params; i++) {
        /* Checked here, not by the map: once memory is taken the task must not be refused. */
        if (d->params[i].kind <= PTO_PARAM_INOUT) {
            PTO_TRY(ptoi_slow_blame(i, pto_tensor_check(d->params[i].tensor)));
        }
    }
    uint32_t level = d->level;
    uint64_t wanted;
    PTO_TRY(ptoi_slow_reserve(d)); /* first what the task itself needs */
    while (find_all_room(d, &level, &wanted) != PTOI_SHORT_NOTHING) {
        ptoi_retire(rt, level);
        ptoi_shortage what = find_all_room(d, &level, &wanted);
        if (what != PTOI_SHORT_NOTHING) {
            ptoi_rings_count_wait(rt, level, what);
            const uint64_t since = ptoi_trace_now(rt);
            const pto_status status = ptoi_stall(rt, d->who, level, d->device, what, wanted);
            ptoi_trace_room(rt, level, what, wanted, since);
            PTO_TRY(status);
        }
    }
    uint64_t mark = ++rt->attempt;
    for (size_t i = 0; i < d->n_params; i++) {
        ptoi_buffer *b = outer_buffer(d, i, mark);
        if (b) {
            take_memory(rt, b, ptoi_site_of(rt, file, line));
        }
    }
    ptoi_slow_begin(d, rt, d->level, d->params, d->n_params);
    return ptoi_slow_read(d);
}

/* ---- Who holds a block ---- */

/* The scope that begins the lifetime of a block is still open if and only if the scope at its place
 * in the stack is older than the block. */
static inline bool is_scoped(const pto_runtime *rt, const ptoi_heap_block *block)
{
    if (PTOI_MUTANT(SCOPE_TWICE) && ptoi_block_scopes(rt, block) < block->scopes) {
        return false;
    }
    return block->live && block->base < rt->depth && rt->scopes[block->base].lives < block->life &&
           !PTOI_MUTANT(NO_SCOPE_REF);
}

bool ptoi_block_is_scoped(const pto_runtime *rt, const ptoi_heap_block *block)
{
    return is_scoped(rt, block);
}

uint32_t ptoi_block_scopes(const pto_runtime *rt, const ptoi_heap_block *block)
{
    uint32_t count = 0;
    while (block->live && count < block->scopes && block->base + count < rt->depth &&
           rt->scopes[block->base + count].lives < block->life) {
        count++;
    }
    return count;
}

/* An unfinished task that uses the block, not counting the one that brought it; 0 if there is
 * none. If `count` is given, adds how many there are. */
static ptoi_ref find_user(const pto_runtime *rt, uint32_t level, uint64_t number, uint32_t *count)
{
    const ptoi_heap_block *block = ptoi_block_at(&rt->rings[level].blocks, number);
    const uint64_t stretch = ptoi_guard_is_on(rt, block->device) ? PTOI_GUARD_STRETCH : 1;
    const uint32_t segment = ptoi_segment_heap(block->device, level);
    const uint64_t size = stretch * block->bytes, at = stretch * block->at;
    ptoi_ref found = 0;
    for (uint32_t l = 0; l < rt->levels; l++) {
        const ptoi_rings *t = &rt->rings[l];
        for (uint64_t n = t->completed; n != t->head; n++) {
            ptoi_ref ref = ptoi_ref_make(n, l, false);
            const ptoi_slot *slot = &t->slots[(uint32_t)n & t->mask];
            const ptoi_arg_desc *arg = rt->view.level[l].args + slot->args;
            if ((l == level && block->has_task && n == block->until - 1) ||
                ptoi_task_is_complete(&rt->view, ref)) {
                continue;
            }
            for (uint32_t i = 0; i < slot->n_args; i++) {
                if (arg->segment == segment && arg->value - at < size) {
                    if (!count) {
                        return ref;
                    }
                    found = ref;
                    ++*count;
                    break;
                }
                arg = ptoi_arg_next(arg);
            }
        }
    }
    return found;
}

uint32_t ptoi_block_users(const pto_runtime *rt, uint32_t level, uint64_t number)
{
    uint32_t count = 0;
    (void)find_user(rt, level, number, &count);
    return count;
}

/* Whether an unfinished task may use the block, judged by held_until alone. */
static bool seems_used(const pto_runtime *rt, const ptoi_blocks *blocks, uint64_t number)
{
    if (!(ptoi_block_at(blocks, number)->holders & PTOI_HELD)) {
        return false;
    }
    const uint64_t *until = ptoi_block_held_until(rt, blocks, number);
    for (uint32_t l = 0; l < rt->levels; l++) {
        if (until[l] > rt->rings[l].completed) {
            return true;
        }
    }
    return false;
}

bool ptoi_block_is_used(pto_runtime *rt, uint32_t level)
{
    ptoi_blocks *blocks = &rt->rings[level].blocks;
    if (!seems_used(rt, blocks, blocks->tail)) {
        return false;
    }
    if (blocks->blocker == 0 || ptoi_task_is_complete(&rt->view, blocks->blocker)) {
        blocks->blocker = find_user(rt, level, blocks->tail, NULL);
    }
    return blocks->blocker != 0;
}

ptoi_heap_block *ptoi_block_of_task(const pto_runtime *rt, uint32_t level, uint64_t seq,
                                    uint64_t *number)
{
    /* B3: the first block whose `until` is above seq. */
    const ptoi_blocks *blocks = &rt->rings[level].blocks;
    uint64_t low = blocks->tail, high = blocks->head;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (ptoi_block_at(blocks, middle)->until <= seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    ptoi_heap_block *block = ptoi_block_at(blocks, low);
    *number = low;
    return low != blocks->head && block->has_task && block->until == seq + 1 ? block : NULL;
}

/* ---- Recycling ---- */

/* Recycles the oldest block of the level, which tasks have used or which has guards. False if one
 * of the tasks may not be complete. */
static __attribute__((noinline)) bool recycle_used(pto_runtime *rt, uint32_t level, bool exactly)
{
    ptoi_blocks *blocks = &rt->rings[level].blocks;
    const ptoi_heap_block *block = ptoi_block_at(blocks, blocks->tail);
    const bool used = exactly ? ptoi_block_is_used(rt, level)
                              : seems_used(rt, blocks, blocks->tail);
    if (used && !PTOI_MUTANT(NO_LIFETIME)) {
        return false;
    }
    blocks->blocker = 0;
    blocks->n_held -= (block->holders & PTOI_HELD) != 0;
    if (ptoi_guard_is_on(rt, block->device) && block->bytes) {
        ptoi_guard_recycle(rt, level, block);
    }
    return true;
}

void ptoi_blocks_recycle(pto_runtime *rt, uint32_t level, bool exactly)
{
    ptoi_rings *t = &rt->rings[level];
    ptoi_blocks *blocks = &t->blocks;
    const ptoi_heap_block *last = NULL; /* the last recycled block with memory */
    const uint64_t begin = blocks->tail, head = blocks->head, completed = t->completed;
    uint64_t n = begin;
    for (; n != head; n++) {
        const ptoi_heap_block *block = ptoi_block_at(blocks, n);
        if (block->until > completed || is_scoped(rt, block)) {
            break;
        }
        blocks->tail = n;
        if (PTOI_UNLIKELY(block->holders & PTOI_HELD || rt->guarded) &&
            !recycle_used(rt, level, exactly)) {
            break;
        }
        if (PTOI_UNLIKELY(block->device)) {
            if (block->bytes) {
                ptoi_heap_give_back(ptoi_heap_of(rt, level, block->device), block->at,
                                    block->bytes);
            }
        } else {
            last = block->bytes ? block : last;
        }
    }
    blocks->tail = n;
    blocks->recycled += n - begin;
    if (PTOI_MUTANT(HEAP_EARLY) && last && n != head && ptoi_block_at(blocks, n)->bytes &&
        !ptoi_block_at(blocks, n)->device) {
        last = ptoi_block_at(blocks, n);
    }
    if (last) {
        ptoi_heap_give_back(&t->heap, last->at, last->bytes); /* and all blocks before it */
    }
    if (n == head) { /* no buffer names a block: numbers can start over */
        blocks->tail = blocks->head = 1;
    }
}
