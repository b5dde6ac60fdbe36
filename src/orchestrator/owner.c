/* owner.c - owner tasks: they own memory and run nothing.
 *
 * A task owns the memory of the buffers that it is the first to write, and the memory is recycled
 * with its owner. That owner would be recycled too early for a buffer of an outer lifetime, and it
 * does not exist for a buffer that needs memory before a task writes it. Such a buffer gets an
 * owner task: it runs nothing, is complete from the start, and is on the level and in the lifetime
 * of the buffer.
 *
 * Room for everything is found before anything is taken.
 */
#include "orchestrator/owner.h"

#include "orchestrator/buffer.h"
#include "orchestrator/check.h"
#include "orchestrator/names.h"
#include "orchestrator/retire.h"
#include "orchestrator/rings.h"
#include "orchestrator/slow.h"
#include "orchestrator/stall.h"
#include "orchestrator/trace.h"
#include "orchestrator/write.h"

/* Gives the buffer an owner task. There is room for it. */
static void take_memory(pto_runtime *rt, ptoi_buffer *b, uint32_t site)
{
    ptoi_slow d;
    ptoi_scope *lifetime = &rt->scopes[b->base];
    ptoi_slow_begin(&d, rt, lifetime->level, NULL, 0);
    d.base = b->base;
    d.scopes = 1;
    while (d.base + d.scopes < rt->depth && rt->scopes[d.base + d.scopes].base == d.base) {
        d.scopes++;
    }
    d.heap_bytes = ptoi_buffer_block(b);
    (void)ptoi_slow_shortage(&d); /* sets heap_at: there is room */
    if (d.base + d.scopes < rt->depth && lifetime->level == rt->level && !lifetime->pinned) {
        lifetime->pinned = d.seq;
        rt->rings[lifetime->level].pins++;
    }
    (void)ptoi_slow_write(&d, 0, 0, site);
    ptoi_write_complete(d.rings, d.seq, rt->order);
    rt->last = ptoi_task_make(d.seq, d.level);
    b->seq = d.seq;
    b->level = (uint8_t)d.level;
    if (rt->trace) {
        ptoi_trace_life(rt, PTRACE_MEMORY, d.level, rt->last, (uint32_t)b->life, b->bytes);
    }
    b->at = ptoi_guard_place(rt->guarded, d.heap_at);
    ptoi_guard_memory(rt, b);
}

pto_status ptoi_owner_give(pto_runtime *rt, ptoi_buffer *b, const char *file, int line)
{
    ptoi_slow d;
    ptoi_slow_begin(&d, rt, rt->scopes[b->base].level, NULL, 0);
    d.heap_bytes = ptoi_buffer_block(b);
    PTO_TRY(ptoi_slow_reserve(&d));
    take_memory(rt, b, ptoi_site_of(rt, file, line));
    rt->order++;
    ptoi_debug_check(rt);
    return PTO_OK;
}

/* ---- The first writer of a buffer of an outer lifetime ---- */

/* The buffer, if this parameter is the first write to one of an outer lifetime; else NULL. Each
 * buffer is returned once per mark. */
static ptoi_buffer *needs_owner(const ptoi_slow *d, size_t i, uint64_t mark)
{
    const pto_param *p = &d->params[i];
    if (p->kind != PTO_PARAM_OUTPUT || !p->tensor->owner) {
        return NULL;
    }
    ptoi_buffer *b = ptoi_buffer_of(d->rt, p->tensor);
    if (b->seq || b->fresh == mark || b->base == d->rt->base) {
        return NULL;
    }
    b->fresh = mark;
    return b;
}

/* Finds out whether all blocks and the task itself fit, taken one after the other. Returns the ring
 * without room, and its level. The heaps are tried on copies. *wanted is the number of bytes asked
 * of that heap or ring in all. */
static ptoi_shortage find_all_room(ptoi_slow *d, uint32_t *level, uint64_t *wanted)
{
    pto_runtime *rt = d->rt;
    ptoi_heap heap[PTO_MAX_LEVELS];
    uint64_t tasks[PTO_MAX_LEVELS], bytes_of[PTO_MAX_LEVELS] = {0}, at;
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_heap_copy(&heap[l], &rt->rings[l].heap,
                       rt->rings[l].heap.runs + 2 * (size_t)rt->view.header->slots);
        tasks[l] = rt->rings[l].head - rt->rings[l].retired;
    }
    uint64_t mark = ++rt->attempt;
    for (size_t i = 0; i <= d->n_params; i++) {
        const ptoi_buffer *b = i < d->n_params ? needs_owner(d, i, mark) : NULL;
        uint64_t bytes = b ? ptoi_buffer_block(b) : d->heap_bytes;
        if (!b && i < d->n_params) {
            continue;
        }
        *level = b ? rt->scopes[b->base].level : d->level;
        *wanted = bytes_of[*level] += bytes;
        if (tasks[*level]++ > rt->rings[*level].mask) {
            return PTOI_SHORT_TASKS;
        }
        if (!ptoi_heap_fits(&heap[*level], bytes, &at)) {
            return PTOI_SHORT_HEAP;
        }
        ptoi_heap_take(&heap[*level], at, bytes);
    }
    ptoi_shortage what = ptoi_slow_shortage(d);
    *wanted = what == PTOI_SHORT_ARGS ? d->units * 16 : bytes_of[d->level];
    return what;
}

pto_status ptoi_slow_give_owners(ptoi_slow *d, const char *file, int line)
{
    pto_runtime *rt = d->rt;
    for (size_t i = 0; i < d->n_params; i++) {
        /* Checked here, not by the map: once an owner has memory the task must not be refused. */
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
            const pto_status status = ptoi_stall(rt, level, what, wanted);
            ptoi_trace_room(rt, level, what, wanted, since);
            PTO_TRY(status);
        }
    }
    uint64_t mark = ++rt->attempt;
    for (size_t i = 0; i < d->n_params; i++) {
        ptoi_buffer *b = needs_owner(d, i, mark);
        if (b) {
            take_memory(rt, b, ptoi_site_of(rt, file, line));
            rt->rings[b->level].fast_until = 0;
        }
    }
    ptoi_slow_begin(d, rt, d->level, d->params, d->n_params);
    return ptoi_slow_read(d);
}
