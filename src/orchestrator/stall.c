/* stall.c - is waiting for room hopeless?
 *
 * Slots and arguments come back as tasks complete, so waiting for them always helps.
 *
 * A heap returns blocks in order, so its oldest block B decides. Waiting is hopeless if and only if
 * an open scope holds B: only the caller could end that scope or give up what is in B, and the
 * caller is here. (It does not matter whether tasks use B as well: the scope would still hold it.)
 * In every other case some submitted task can still end and make room, so we run tasks until it
 * has.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/source.h"
#include "orchestrator/device.h"
#include "orchestrator/poison.h"
#include "orchestrator/retire.h"
#include "orchestrator/rings.h"
#include "orchestrator/runtime.h"
#include "orchestrator/stall.h"
#include "orchestrator/stall_report.h"
#include "orchestrator/wait.h"

/* The first buffer in the block that was not given up, or NULL. */
static const ptoi_buffer *find_buffer(const pto_runtime *rt, uint32_t level, uint64_t number)
{
    for (uint32_t i = 0; i < rt->n_buffers; i++) {
        const ptoi_buffer *b = &rt->buffers[i];
        if (b->life && b->block == number && b->level == level) {
            return b;
        }
    }
    return NULL;
}

/* Bytes that were given up (pto_release) and wait behind the oldest block. */
static uint64_t count_given_up(const ptoi_blocks *blocks)
{
    uint64_t bytes = 0;
    for (uint64_t n = blocks->tail; n != blocks->head; n++) {
        bytes += ptoi_block_at(blocks, n)->live ? 0 : ptoi_block_at(blocks, n)->bytes;
    }
    return bytes;
}

/* "task 7 (kernel 'gemm', submitted at a.c:12)", or "the memory asked for at a.c:12" */
static void describe(const pto_runtime *rt, const ptoi_heap_block *block, char *text, size_t size)
{
    const ptoi_view *view = &rt->view;
    const ptoi_site *site = &view->sites[block->site];
    const ptoi_source at = ptoi_source_of(ptoi_string(view, site->file), site->line);
    if (block->has_task) {
        snprintf(text, size, "of task %" PRIu64 " (kernel '%s', submitted at %s)", block->order,
                 ptoi_kernel_name(view, block->kernel), at.text);
    } else {
        snprintf(text, size, "asked for at %s", at.text);
    }
}

/* Reports the stall, which is proved. */
static pto_status hopeless(pto_runtime *rt, const char *who, uint32_t level, uint32_t device,
                           ptoi_shortage what, uint64_t wanted)
{
    const ptoi_rings *t = &rt->rings[level];
    const ptoi_view *view = &rt->view;
    const ptoi_heap_block *block = ptoi_block_at(&t->blocks, t->blocks.tail);
    const ptoi_scope *scope = &rt->scopes[block->base];
    const ptoi_buffer *b = find_buffer(rt, level, t->blocks.tail);
    const ptoi_ring_fill fill = ptoi_rings_read_on(rt, level, device, (pto_ring)what);
    const ptoi_ring_names *ring = ptoi_rings_names((pto_ring)what);
    bool shared = rt->scopes[rt->depth - 1].boundaries >= rt->levels;
    pto_stall_report r = {
        .kind = shared ? PTO_STALL_LEVELS : PTO_STALL_SCOPE,
        .ring = (pto_ring)what,
        .level = level,
        .device = ptoi_device_at(rt, device),
        .size = fill.size,
        .used = fill.used,
        .wanted = wanted,
        .oldest = block->has_task ? ptoi_task_make(block->until - 1, level) : 0,
        .order = block->order,
        .output = b ? b->output : 0,
        .output_bytes = b ? b->bytes : 0,
        .given_up = count_given_up(&t->blocks),
    };
    ptoi_stall_keep(rt, &r, block->kernel, block->site, scope->site);
    char oldest[512], state[128];
    describe(rt, block, oldest, sizeof oldest);
    if (r.size - r.used >= wanted) { /* enough, but not in one piece */
        snprintf(state, sizeof state,
                 "has no gap of %" PRIu64 " %s (%" PRIu64 " of %" PRIu64 " are in use)", wanted,
                 ring->unit, r.used, r.size);
    } else {
        snprintf(state, sizeof state, "is full (%" PRIu64 " %s, %" PRIu64 " wanted)", r.size,
                 ring->unit, wanted);
    }
    const ptoi_site *opened = &view->sites[scope->site];
    return ptoi_fail(PTO_STALLED,
                     "%s: the %s of level %u%s %s, and no task that ends can make room: its oldest "
                     "block, %" PRIu64 " bytes %s, is held by the scope opened at %s. End that "
                     "scope, %s, or raise %s",
                     who, ring->name, level, ptoi_device_where(rt, device).s, state, block->bytes,
                     oldest, ptoi_source_of(ptoi_string(view, opened->file), opened->line).text,
                     shared ? "raise levels (PTO_LEVELS): boundary scopes share the last ring here"
                     : r.given_up
                         ? "give up what is in that block, too (pto_release)"
                         : "put repeated work into PTO_BOUNDARY scopes, give up what is in "
                           "that block (pto_release)",
                     device ? ptoi_heap_option(device) : ring->option);
}

static pto_status too_large(pto_runtime *rt, const char *who, uint32_t level, uint32_t device,
                            ptoi_shortage what, uint64_t wanted)
{
    (void)ptoi_stall_too_large(rt, level, device, what, wanted, 0);
    return ptoi_fail(PTO_TOO_LARGE,
                     "%s: the %s of level %u%s is empty, and still too small: raise %s", who,
                     pto_ring_name((pto_ring)what), level, ptoi_device_where(rt, device).s,
                     device ? ptoi_heap_option(device) : ptoi_rings_names((pto_ring)what)->option);
}

/* Waits for the oldest unfinished task of the level. */
static pto_status wait_for_oldest(pto_runtime *rt, uint32_t level)
{
    ptoi_rings *t = &rt->rings[level];
    PTO_TRY(ptoi_wait_for(rt, ptoi_ref_make(t->completed, level, false)));
    /* Room for one task would bring the next submit straight back here. So run a few more tasks, if
     * there are any, but wait for none. */
    uint64_t helped;
    return ptoi_help_or_stop(rt, level, (t->mask + 1) / 16, &helped);
}

/* Waits until slots or arguments come back. */
static pto_status wait_for_tasks(pto_runtime *rt, const char *who, uint32_t level,
                                 ptoi_shortage what, uint64_t wanted)
{
    const ptoi_rings *t = &rt->rings[level];
    if (t->retired == t->head) {
        return too_large(rt, who, level, 0, what, wanted);
    }
    if (t->retired == t->completed) {
        return wait_for_oldest(rt, level);
    }
    /* The oldest is bad, and unfinished tasks may still ask about it. */
    ptoi_ref by;
    return ptoi_poison_is_asked_about(rt, level, t->retired, &by) ? ptoi_wait_for(rt, by) : PTO_OK;
}

/* Waits until blocks come back. */
static pto_status wait_for_blocks(pto_runtime *rt, const char *who, uint32_t level, uint32_t device,
                                  ptoi_shortage what, uint64_t wanted)
{
    const ptoi_rings *t = &rt->rings[level];
    if (t->blocks.tail == t->blocks.head) {
        return too_large(rt, who, level, device, what, wanted);
    }
    const ptoi_heap_block *oldest = ptoi_block_at(&t->blocks, t->blocks.tail);
    if (ptoi_block_is_scoped(rt, oldest)) {
        return hopeless(rt, who, level, device, what, wanted);
    }
    if (oldest->until > t->completed) {
        return wait_for_oldest(rt, level);
    }
    /* If it is not used, the task that used it has just ended. */
    return ptoi_block_is_used(rt, level) ? ptoi_wait_for(rt, t->blocks.blocker) : PTO_OK;
}

pto_status ptoi_stall(pto_runtime *rt, const char *who, uint32_t level, uint32_t device,
                      ptoi_shortage what, uint64_t wanted)
{
    const ptoi_rings *t = &rt->rings[level];
    const bool memory = what == PTOI_SHORT_HEAP || what == PTOI_SHORT_BUFFERS;
    const uint64_t before = memory ? t->blocks.recycled : t->retired;
    ptoi_retire_exactly(rt, level);
    if ((memory ? t->blocks.recycled : t->retired) != before) {
        return PTO_OK;
    }
    ptoi_wait_reason_room(rt, level, what, wanted);
    device = what == PTOI_SHORT_HEAP ? device : 0;
    return memory ? wait_for_blocks(rt, who, level, device, what, wanted)
                  : wait_for_tasks(rt, who, level, what, wanted);
}
