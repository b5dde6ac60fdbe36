/* guard.c - guards of managed memory on the orchestrator's side: set as a task takes memory, looked
 * at again when everything is complete and as memory is recycled. What is found then was done by
 * nobody who was to write there, or a worker would have said so. */
#include <stdio.h>

#include "orchestrator/runtime.h"
#include "worker/guard.h"

void ptoi_guard_task(pto_runtime *rt, uint32_t level, uint64_t seq, uint64_t unit,
                     const pto_param *params, size_t n_params)
{
    ptoi_guard *guard = rt->sched.guard;
    const ptoi_packed *args = rt->view.level[level].args, *next = args + unit;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        if (p->kind == PTO_PARAM_AFTER) {
            continue;
        }
        uint64_t *begin = &guard->level[level].begins[next - args];
        *begin = 0;
        next = ptoi_packed_next(next);
        if (p->kind == PTO_PARAM_SCALAR || !p->tensor->owner) {
            continue;
        }
        const ptoi_buffer *b = &rt->buffers[(uint32_t)p->tensor->owner - 1];
        const uint64_t at = ptoi_guard_unplace(guard, b->at);
        if (!b->bytes) {
            continue;
        }
        *begin = at + 1;
        if (b->seq == seq && b->level == level) { /* it brings the memory */
            ptoi_guard_arm(guard, level, at, b->bytes);
        }
    }
}

void ptoi_guard_memory(pto_runtime *rt, const ptoi_buffer *b)
{
    ptoi_guard *guard = rt->sched.guard;
    if (guard && b->bytes) {
        ptoi_guard_arm(guard, b->level, ptoi_guard_unplace(guard, b->at), b->bytes);
    }
}

/* The buffers in the block of a complete task. */
static void look(pto_runtime *rt, uint32_t level, uint64_t seq, bool bury)
{
    ptoi_guard *guard = rt->sched.guard;
    const ptoi_track *t = &rt->track[level];
    const ptoi_note *note = ptoi_note_of(t, seq);
    const uint64_t end = note->heap_at + note->heap_size;
    for (uint64_t at = note->heap_at, bytes; at < end; at += (bytes + 63) & ~UINT64_C(63)) {
        ptoi_damage damage;
        bytes = ptoi_guard_size(guard, level, at);
        if (!ptoi_guard_is_told(guard, level, at) &&
            ptoi_guard_broken(guard, 0, level, at, &damage)) {
            char where[128], text[200];
            ptoi_guard_describe(&damage, bytes, where);
            snprintf(text, sizeof text, "somebody who was not to write there wrote %s", where);
            ptoi_guard_tell(guard, level, at);
            ptoi_worker_report(&rt->sched, &t->slots[(uint32_t)seq & t->mask], PTO_OUT_OF_BOUNDS,
                               text);
        }
        if (bury) {
            ptoi_guard_bury(guard, level, at);
        }
    }
}

void ptoi_guard_recycle(pto_runtime *rt, uint32_t level, uint64_t seq)
{
    look(rt, level, seq, true);
}

void ptoi_guard_sweep(pto_runtime *rt)
{
    for (uint32_t l = 0; l < rt->levels; l++) {
        for (uint64_t n = rt->track[l].retired; n != rt->track[l].head; n++) {
            look(rt, l, n, false);
        }
    }
}
