/* scope.c - scopes: the lifetime of managed memory.
 *
 * The scopes around a block, from the innermost boundary inwards, are its lifetime. The block stays
 * until all of them have ended, so only the outermost matters. Ending it visits no block, however
 * many there are and however deep: recycling compares the age of a block with that of the open
 * scopes (ptoi_block_is_scoped). pto_task_info computes its reference counts on demand.
 */
#include <inttypes.h>

#include "base/error.h"
#include "base/mutant.h"
#include "orchestrator/names.h"
#include "orchestrator/refusal.h"
#include "orchestrator/runtime.h"
#include "orchestrator/scope.h"
#include "orchestrator/trace.h"

static pto_status begin(pto_runtime *rt, uint32_t flags, const char *file, int line)
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
    scope->lives = rt->lives;
    scope->first_free = scope->n_free = 0;
    scope->buffers = rt->n_buffers;
    scope->site = ptoi_site_of(rt, file, line);
    rt->level = scope->level;
    rt->base = scope->base;
    rt->ring = &rt->rings[rt->level];
    rt->depth++;
    if (PTOI_UNLIKELY(rt->trace != NULL) && scope->base == rt->depth - 1) {
        ptoi_trace_life(rt, PTRACE_BEGUN, scope->level, 0, 0, 0);
    }
    ptoi_set64(&rt->view.header->scope_depth, rt->depth);
    return PTO_OK;
}

/* Remembers where a lifetime ended in which something was born. A loop whose body is a lifetime takes
 * one entry: lifetimes that end at one place, one after the other, are the same to a reader. */
static void remember_end(pto_runtime *rt, uint64_t before, uint32_t site, bool is_block)
{
    ptoi_end *newest = &rt->ends[(rt->n_ends - 1) % PTOI_ENDS];
    if (rt->n_ends && newest->site == site && newest->last == before) {
        newest->last = rt->lives;
        return;
    }
    ptoi_end *oldest = &rt->ends[rt->n_ends++ % PTOI_ENDS];
    rt->forgotten = oldest->last;
    *oldest = (ptoi_end){before, rt->lives, site, is_block};
}

static pto_status end(pto_runtime *rt, const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "end a scope"));
    if (rt->depth == 0) {
        return ptoi_fail(PTO_BAD_SCOPE, "end a scope: none is open");
    }
    const ptoi_scope *scope = &rt->scopes[--rt->depth];
    if (scope->base == rt->depth) { /* the lifetime ends */
        if (rt->lives != scope->lives) {
            const uint32_t site = ptoi_site_of(rt, file, line);
            remember_end(rt, scope->lives, site, site == scope->site);
        }
        rt->n_buffers = scope->buffers;
        rt->n_free -= scope->n_free;
        ptoi_set64(&rt->view.header->buffers, rt->n_buffers - rt->n_free);
        if (PTOI_UNLIKELY(rt->trace != NULL)) {
            ptoi_trace_life(rt, PTRACE_ENDED, scope->level, 0, 0, 0);
        }
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

pto_status pto_scope_begin_at(pto_runtime *rt, uint32_t flags, const char *file, int line)
{
    return ptoi_refusal_note(rt, begin(rt, flags, file, line), "pto_scope_begin", file, line);
}

pto_status pto_scope_end_at(pto_runtime *rt, const char *file, int line)
{
    return ptoi_refusal_note(rt, end(rt, file, line), "pto_scope_end", file, line);
}

/* Lifetimes that are inside of another end first. So the first that contains the life is its own,
 * unless its own is forgotten. */
const ptoi_end *ptoi_scope_end_of(const pto_runtime *rt, uint64_t life)
{
    const uint64_t kept = rt->n_ends < PTOI_ENDS ? rt->n_ends : PTOI_ENDS;
    for (uint64_t n = rt->n_ends - kept; n != rt->n_ends && life > rt->forgotten; n++) {
        const ptoi_end *end = &rt->ends[n % PTOI_ENDS];
        if (end->before < life && life <= end->last) {
            return end;
        }
    }
    return NULL;
}

uint32_t pto_get_scope_depth(const pto_runtime *rt)
{
    return rt ? (uint32_t)ptoi_get64(&rt->view.header->scope_depth) : 0;
}
