/* guard.c - arming and checking guards on the orchestrator's side. Damage that is found here comes
 * from a task without write access to the buffer: a worker would have reported any other. On a device
 * it may also come from a pending task (window/guard.h). */
#include "orchestrator/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "device/copy.h"
#include "orchestrator/device.h"
#include "orchestrator/failure.h"
#include "orchestrator/runtime.h"

/* Recycled memory is filled with this byte. A float of such bytes is huge and negative; as an
 * integer or an address they are recognisably meaningless. */
#define BURIED 0xdb

/* Bytes filled in one buffer at most: the rest of a large one may never have been touched. */
#define MOST_BURIED (UINT64_C(1) << 20)

/* Larger buffers are not hidden: the sanitizer's shadow memory would become resident. */
#define MOST_HIDDEN (UINT64_C(1) << 20)

/* Hides a range in both mappings of a heap: kernels use the scheduler's. */
static void hide(pto_runtime *rt, uint32_t level, uint64_t from, uint64_t to, uint64_t bytes)
{
    if (bytes <= MOST_HIDDEN) {
        uint64_t *below = &rt->hidden.below[level];
        char *heap = rt->view.base[level];
        ptoi_os_hide(heap + from, to - from);
        ptoi_os_hide(heap + (rt->heap_low[1] - rt->heap_low[0]) + from, to - from);
        *below = *below < to ? to : *below;
    }
}

static void show(pto_runtime *rt, uint32_t level, uint64_t from, uint64_t to)
{
    const uint64_t below = rt->hidden.below[level];
    to = to < below ? to : below;
    if (from < to) {
        char *heap = rt->view.base[level];
        ptoi_os_show(heap + from, to - from);
        ptoi_os_show(heap + (rt->heap_low[1] - rt->heap_low[0]) + from, to - from);
    }
}

void ptoi_guard_show_all(pto_runtime *rt)
{
    for (uint32_t l = 0; l < rt->levels; l++) {
        show(rt, l, 0, UINT64_MAX);
    }
}

/* ---- Arming ---- */

/* Writes the guards on a device, whose memory nobody uses. They are there when it returns. */
static pto_status write_on_device(pto_runtime *rt, const ptoi_buffer *b)
{
    const ptoi_rt_device *d = &rt->devices[b->device];
    const uint64_t begin = b->at, end = begin + b->bytes, last = ptoi_guard_end(begin, b->bytes);
    char before[PTOI_GUARD_LINE], behind[2 * PTOI_GUARD_LINE], *heap = d->memory[b->level];
    for (uint64_t i = 0; i < sizeof before; i++) {
        before[i] = ptoi_guard_byte(begin - sizeof before + i);
    }
    for (uint64_t i = end; i < last; i++) {
        behind[i - end] = ptoi_guard_byte(i);
    }
    PTO_TRY(ptoi_device_copy_bytes(d->device, heap + begin - sizeof before, before, sizeof before,
                                   true));
    return ptoi_device_copy_bytes(d->device, heap + end, behind, last - end, true);
}

static void write_on_host(pto_runtime *rt, const ptoi_buffer *b)
{
    const uint64_t begin = b->at, end = begin + b->bytes;
    const uint64_t first = begin - PTOI_GUARD_LINE, last = ptoi_guard_end(begin, b->bytes);
    char *heap = rt->view.base[b->level];
    show(rt, b->level, first, last);
    for (uint64_t i = first; i < begin; i++) {
        heap[i] = ptoi_guard_byte(i);
    }
    for (uint64_t i = end; i < last; i++) {
        heap[i] = ptoi_guard_byte(i);
    }
    hide(rt, b->level, first, begin, b->bytes);
    hide(rt, b->level, end, last, b->bytes);
}

/* Memory that cannot be checked is reported once, and left alone from then on. */
static void give_up(pto_runtime *rt, uint32_t level, const ptoi_heap_block *block,
                    ptoi_guard *guard, pto_status status, const char *what)
{
    char why[200], text[256];
    snprintf(why, sizeof why, "%s", pto_error_detail());
    snprintf(text, sizeof text, "the guards of its memory could not be %s: %s", what, why);
    ptoi_set64(&guard->arming, ptoi_get64(&guard->arming) | PTOI_GUARD_SEEN);
    ptoi_failure_add(rt, level, block, status, text);
}

static void arm(pto_runtime *rt, const ptoi_buffer *b)
{
    const uint32_t segment = ptoi_segment_heap(b->device, b->level);
    ptoi_guard *guard = ptoi_guard_of(&rt->view, segment, ptoi_guard_unplace(true, b->at));
    ptoi_set64(&guard->size, b->bytes);
    ptoi_set64(&guard->arming, ++rt->hidden.armings);
    if (!b->device) {
        write_on_host(rt, b);
        return;
    }
    const pto_status s = write_on_device(rt, b);
    if (s) {
        give_up(rt, b->level, ptoi_block_at(&rt->rings[b->level].blocks, b->block), guard, s,
                "written");
    }
}

void ptoi_guard_task(pto_runtime *rt, uint32_t level, bool brings, uint64_t unit,
                     const pto_param *params, size_t n_params)
{
    const ptoi_arg_desc *args = rt->view.level[level].args, *next = args + unit;
    const uint64_t own = rt->rings[level].blocks.head - 1;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        if (p->kind == PTO_PARAM_AFTER) {
            continue;
        }
        uint64_t *begin = &rt->view.level[level].begins[next - args];
        *begin = 0;
        next = ptoi_arg_next(next);
        if (p->kind == PTO_PARAM_SCALAR || !p->tensor->owner) {
            continue;
        }
        const ptoi_buffer *b = &rt->buffers[(uint32_t)p->tensor->owner - 1];
        if (!b->bytes || !ptoi_guard_is_on(rt, b->device)) {
            continue;
        }
        *begin = ptoi_guard_unplace(true, b->at) + 1;
        if (brings && b->block == own && b->level == level) {
            arm(rt, b);
        }
    }
}

void ptoi_guard_memory(pto_runtime *rt, const ptoi_buffer *b)
{
    if (b->bytes && ptoi_guard_is_on(rt, b->device)) {
        arm(rt, b);
    }
}

/* ---- Checking ---- */

/* Fills a buffer that is recycled with a pattern. On a device it is a help and no promise: an error
 * there is that of the next one who uses it. */
static void bury(pto_runtime *rt, uint32_t level, uint32_t device, uint64_t begin, uint64_t bytes)
{
    const uint64_t most = bytes < MOST_BURIED ? bytes : MOST_BURIED;
    if (!device) {
        memset(rt->view.base[level] + begin, BURIED, most);
        hide(rt, level, begin, begin + bytes, bytes);
        return;
    }
    const unsigned char value = BURIED;
    pto_tensor t;
    PTO_IGNORE(pto_tensor_init(&t, rt->devices[device].memory[level] + begin, most, PTO_UINT8, 1,
                               (int64_t[]){(int64_t)most}, NULL, 0));
    t.device = ptoi_device_at(rt, device);
    PTO_IGNORE(ptoi_device_fill_wait(&t, &value));
}

/* Checks the buffers in a block that no unfinished task uses. */
static void check(pto_runtime *rt, uint32_t level, const ptoi_heap_block *block, bool buries)
{
    const ptoi_view *view = &rt->view;
    const uint32_t segment = ptoi_segment_heap(block->device, level);
    const uint64_t end = block->at + block->bytes;
    for (uint64_t at = block->at, bytes; at < end; at += (bytes + 63) & ~UINT64_C(63)) {
        ptoi_guard *guard = ptoi_guard_of(view, segment, at);
        ptoi_damage damage;
        bool broken = false;
        bytes = ptoi_get64(&guard->size);
        const pto_status s = ptoi_guard_is_reported(view, segment, at)
                                 ? PTO_OK
                                 : ptoi_scheduler_inspect(rt->scheduler, segment, at, &broken,
                                                          &damage);
        if (s) {
            give_up(rt, level, block, guard, s, "read");
        } else if (broken) {
            char where[128], text[256];
            ptoi_guard_describe(&damage, bytes, where);
            snprintf(text, sizeof text, "written by a task without write access%s: %s%s",
                     block->device ? ", or by one that was pending" : "", where,
                     ptoi_device_where(rt, block->device).s);
            ptoi_set64(&guard->arming, ptoi_get64(&guard->arming) | PTOI_GUARD_SEEN);
            ptoi_failure_add(rt, level, block, PTO_OUT_OF_BOUNDS, text);
        }
        if (buries) {
            bury(rt, level, block->device, ptoi_guard_place(true, at), bytes);
        }
    }
}

void ptoi_guard_recycle(pto_runtime *rt, uint32_t level, const ptoi_heap_block *block)
{
    check(rt, level, block, true);
}

void ptoi_guard_sweep(pto_runtime *rt)
{
    for (uint32_t l = 0; l < rt->levels; l++) {
        const ptoi_blocks *blocks = &rt->rings[l].blocks;
        for (uint64_t n = blocks->tail; n != blocks->head; n++) {
            if (ptoi_guard_is_on(rt, ptoi_block_at(blocks, n)->device)) {
                check(rt, l, ptoi_block_at(blocks, n), false);
            }
        }
    }
}

/* ---- The guards of a device ---- */

uint64_t ptoi_guard_bytes(const pto_runtime *rt)
{
    return rt->settings.config.device_heap_bytes / PTOI_GUARD_LINE *
           (sizeof(ptoi_guard) + sizeof(ptoi_a64));
}

pto_status ptoi_guard_add_heap(pto_runtime *rt, uint32_t device, uint32_t level)
{
    const uint32_t segment = ptoi_segment_heap(device, level);
    const uint64_t lines = rt->settings.config.device_heap_bytes / PTOI_GUARD_LINE;
    if (!ptoi_guard_is_on(rt, device)) {
        return PTO_OK;
    }
    ptoi_guard *guards = ptoi_os_reserve(ptoi_guard_bytes(rt));
    if (!guards) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "the guards of %" PRIu64 " lines", lines);
    }
    rt->devices[device].guards[level] = rt->view.guards[segment] = guards;
    rt->view.reported[segment] = (ptoi_a64 *)(guards + lines);
    return PTO_OK;
}
