/* scope.c - scopes: the lifetime of managed memory.
 *
 * The scopes around a task, from the innermost boundary inwards, are its lifetime. The memory of
 * the task stays until all of them have ended, so only the outermost matters. When it ends, one
 * store releases every task of the lifetime, however many there are and however deep. pto_task_info
 * computes its reference counts on demand.
 */
#include <inttypes.h>

#include "base/error.h"
#include "base/mutant.h"
#include "orchestrator/names.h"
#include "orchestrator/runtime.h"
#include "orchestrator/trace.h"

pto_status pto_scope_begin_at(pto_runtime *rt, uint32_t flags, const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "begin a scope"));
    if (flags & ~PTO_SCOPE_BOUNDARY) {
        return ptoi_fail(PTO_BAD_PARAM,
                         "begin a scope: flags %#" PRIx32 ", of which only %#x is known", flags,
                         PTO_SCOPE_BOUNDARY);
    }
    if (rt->depth == PTOI_MAX_SCOPES) {
        return ptoi_fail(PTO_FULL, "begin a scope: %" PRIu32 " are open", rt->depth);
    }
    static const ptoi_scope none;
    const ptoi_scope *outer = rt->depth ? &rt->scopes[rt->depth - 1] : &none;
    ptoi_scope *scope = &rt->scopes[rt->depth];
    uint32_t boundaries = outer->boundaries;
    scope->base = outer->base;
    if (flags & PTO_SCOPE_BOUNDARY) {
        boundaries++;
        scope->base = rt->depth;
    }
    scope->boundaries = boundaries;
    scope->level = boundaries < rt->levels ? boundaries : rt->levels - 1;
    scope->order = rt->order;
    scope->seq = rt->rings[scope->level].head;
    scope->pinned = 0;
    scope->buffers = rt->n_buffers;
    scope->site = ptoi_site_of(rt, file, line);
    rt->level = scope->level;
    rt->base = scope->base;
    rt->ring = &rt->rings[rt->level];
    rt->depth++;
    if (rt->trace && rt->depth == 1) {
        ptoi_trace_life(rt, PTRACE_SCOPED, 0, 0, 0, 0);
    }
    ptoi_set64(&rt->view.header->scope_depth, rt->depth);
    return PTO_OK;
}

/* The first task on the level that an open lifetime still holds, where it shares the ring with the
 * lifetime that has just ended. The head of the level if there is none. */
static uint64_t first_pinned(const pto_runtime *rt, uint32_t level)
{
    uint64_t first = rt->rings[level].head;
    for (uint32_t depth = rt->depth; depth;) {
        const ptoi_scope *base = &rt->scopes[rt->scopes[depth - 1].base];
        if (base->level != level) {
            break;
        }
        if (base->pinned && base->pinned < first) {
            first = base->pinned;
        }
        depth = (uint32_t)(base - rt->scopes);
    }
    return first;
}

/* Records in the trace up to which task the end of a lifetime has released the level. */
static __attribute__((noinline, cold)) void trace_release(pto_runtime *rt, uint32_t level)
{
    const uint64_t released = rt->rings[level].released;
    ptoi_trace_life(rt, PTRACE_RELEASED, level,
                    ptoi_ref_task(ptoi_ref_make(released, level, false)), 0, 0);
    if (rt->depth == 0) {
        ptoi_trace_life(rt, PTRACE_UNSCOPED, 0, 0, 0, 0);
    }
}

pto_status pto_scope_end(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "end a scope"));
    if (rt->depth == 0) {
        return ptoi_fail(PTO_BAD_SCOPE, "end a scope: none is open");
    }
    const ptoi_scope *scope = &rt->scopes[--rt->depth];
    if (scope->base == rt->depth) {
        /* The lifetime ends. Its tasks wait for older tasks of an outer lifetime on the same
         * ring. */
        ptoi_rings *t = &rt->rings[scope->level];
        t->pins -= scope->pinned != 0;
        if (t->released >= scope->seq) {
            t->released = t->pins ? first_pinned(rt, scope->level) : t->head;
        }
        rt->n_buffers = scope->buffers;
        ptoi_set64(&rt->view.header->buffers, rt->n_buffers);
    }
    if (PTOI_MUTANT(SCOPE_TWICE) && scope->base != rt->depth) {
        rt->rings[scope->level].released = rt->rings[scope->level].head;
    }
    if (rt->trace && scope->base == rt->depth) {
        trace_release(rt, scope->level);
    }
    rt->level = rt->base = 0;
    if (rt->depth) {
        rt->level = rt->scopes[rt->depth - 1].level;
        rt->base = rt->scopes[rt->depth - 1].base;
    }
    rt->ring = &rt->rings[rt->level];
    ptoi_set64(&rt->view.header->scope_depth, rt->depth);
    return PTO_OK;
}

uint32_t pto_get_scope_depth(const pto_runtime *rt)
{
    return rt ? (uint32_t)ptoi_get64(&rt->view.header->scope_depth) : 0;
}
