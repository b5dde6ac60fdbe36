/* guard.c - arming and checking guards on the orchestrator's side. Damage that is found here comes
 * from a task without write access to the buffer: a worker would have reported any other. */
#include "orchestrator/guard.h"

#include <stdio.h>
#include <string.h>

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
        char *heap = rt->view.level[level].heap;
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
        char *heap = rt->view.level[level].heap;
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

static void arm(pto_runtime *rt, uint32_t level, uint64_t at, uint64_t bytes)
{
    ptoi_guard *guard = ptoi_guard_of(&rt->view, level, at);
    const uint64_t begin = ptoi_guard_place(true, at), end = begin + bytes;
    const uint64_t first = begin - PTOI_GUARD_LINE, last = ptoi_guard_end(begin, bytes);
    char *heap = rt->view.level[level].heap;
    ptoi_set64(&guard->size, bytes);
    ptoi_set64(&guard->arming, ++rt->hidden.armings);
    show(rt, level, first, last);
    for (uint64_t i = first; i < begin; i++) {
        heap[i] = ptoi_guard_byte(i);
    }
    for (uint64_t i = end; i < last; i++) {
        heap[i] = ptoi_guard_byte(i);
    }
    hide(rt, level, first, begin, bytes);
    hide(rt, level, end, last, bytes);
}

void ptoi_guard_task(pto_runtime *rt, uint32_t level, uint64_t seq, uint64_t unit,
                     const pto_param *params, size_t n_params)
{
    const ptoi_arg_desc *args = rt->view.level[level].args, *next = args + unit;
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
        const uint64_t at = ptoi_guard_unplace(true, b->at);
        if (!b->bytes) {
            continue;
        }
        *begin = at + 1;
        if (b->seq == seq && b->level == level) { /* the task brings the memory */
            arm(rt, level, at, b->bytes);
        }
    }
}

void ptoi_guard_memory(pto_runtime *rt, const ptoi_buffer *b)
{
    if (rt->guarded && b->bytes) {
        arm(rt, b->level, ptoi_guard_unplace(true, b->at), b->bytes);
    }
}

/* Checks the buffers in the block of a complete task. */
static void check(pto_runtime *rt, uint32_t level, uint64_t seq, bool bury)
{
    const ptoi_view *view = &rt->view;
    const ptoi_rings *t = &rt->rings[level];
    const ptoi_record *record = ptoi_record_of(t, seq);
    const uint64_t end = record->heap_at + record->heap_size;
    for (uint64_t at = record->heap_at, bytes; at < end; at += (bytes + 63) & ~UINT64_C(63)) {
        ptoi_guard *guard = ptoi_guard_of(view, level, at);
        ptoi_damage damage;
        bytes = ptoi_get64(&guard->size);
        if (!ptoi_guard_is_reported(view, level, at) &&
            ptoi_guard_broken(view, level, at, &damage)) {
            char where[128], text[200];
            ptoi_guard_describe(&damage, bytes, where);
            snprintf(text, sizeof text, "written by a task without write access: %s", where);
            ptoi_set64(&guard->arming, ptoi_get64(&guard->arming) | PTOI_GUARD_SEEN);
            ptoi_failure_add(rt, &t->slots[(uint32_t)seq & t->mask], PTO_OUT_OF_BOUNDS, text);
        }
        if (bury) {
            const uint64_t begin = ptoi_guard_place(true, at);
            memset(view->level[level].heap + begin, BURIED,
                   bytes < MOST_BURIED ? bytes : MOST_BURIED);
            hide(rt, level, begin, begin + bytes, bytes);
        }
    }
}

void ptoi_guard_recycle(pto_runtime *rt, uint32_t level, uint64_t seq)
{
    check(rt, level, seq, true);
}

void ptoi_guard_sweep(pto_runtime *rt)
{
    for (uint32_t l = 0; l < rt->levels; l++) {
        for (uint64_t n = rt->rings[l].retired; n != rt->rings[l].head; n++) {
            check(rt, l, n, false);
        }
    }
}
