/* params.c - slow path: are the parameters valid, and what do they need?
 *
 * Nothing changes here but the ptoi_slow, and three fields of buffers that the task is the first to
 * write. They are valid only while `fresh` equals `attempt`, so a task that is refused later leaves
 * nothing behind:
 *
 *   fresh       the attempt that brings its memory
 *   at          offset of the buffer in the block of the task
 *   maps_whole  the whole buffer will be recorded in the map (link.c), so it is not looked up
 *
 * Each tensor is checked once: here, or by the map if it looks the tensor up (link.c).
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "orchestrator/buffer.h"
#include "orchestrator/handle.h"
#include "orchestrator/slow.h"

pto_status ptoi_slow_accuse(size_t param, pto_status status)
{
    const char *words = pto_error_detail();
    static const char who[] = "submit: ";
    words += strncmp(words, who, sizeof who - 1) == 0 ? sizeof who - 1 : 0;
    return ptoi_fail(status, "submit: parameter %zu: %s", param, words);
}

/* *fresh: the map does not look this parameter up, for no earlier task can conflict with it. */
static pto_status read_managed(ptoi_slow *d, const pto_param *p, size_t i, bool *fresh)
{
    pto_runtime *rt = d->rt;
    const pto_tensor *t = p->tensor;
    ptoi_buffer *b = ptoi_buffer_find(rt, "submit", t);
    if (!b) {
        return ptoi_slow_accuse(i, PTO_STALE);
    }
    if (t->storage_bytes != b->bytes) {
        return ptoi_fail(PTO_OUT_OF_BOUNDS,
                         "submit: parameter %zu says its buffer has %" PRIu64 " bytes; it has "
                         "%" PRIu64,
                         i, t->storage_bytes, b->bytes);
    }
    bool next = p->kind == PTO_PARAM_OUTPUT && b->seq && t->version == b->version + 1;
    if (t->version != b->version && !next) {
        return ptoi_fail(PTO_BAD_VERSION,
                         "submit: parameter %zu is version %" PRIu32 " of a buffer that is at "
                         "version %" PRIu32,
                         i, t->version, b->version);
    }
    d->managed = true;
    if (b->seq || (b->fresh == rt->attempt && p->kind == PTO_PARAM_OUTPUT)) {
        *fresh = !b->seq && b->maps_whole;
        return *fresh ? ptoi_slow_blame(i, pto_tensor_check(t))
                      : PTO_OK; /* the map does not check it */
    }
    if (p->kind != PTO_PARAM_OUTPUT) {
        return ptoi_fail(PTO_NOT_WRITTEN,
                         "submit: parameter %zu reads a buffer of %" PRIu64
                         " bytes that nothing has written",
                         i, b->bytes);
    }
    PTO_TRY(ptoi_slow_blame(i, ptoi_buffer_check_first(b, "submit", t)));
    if (b->base != rt->base) {
        /* The buffer outlives the lifetime of this task, so the task must not own its memory. */
        d->needs_owner = true;
        return PTO_OK;
    }
    b->fresh = rt->attempt;
    b->maps_whole = false;
    b->at = d->heap_bytes; /* offset in the block, which has no place yet */
    d->heap_bytes += ptoi_buffer_block(b);
    if (b->bytes && !p->nodep) {
        b->maps_whole = true;
        d->n_fresh++;
        *fresh = true;
    }
    return PTO_OK;
}

/* Whether a tensor in user memory may reach into a heap. If so it is checked exactly. */
static bool may_reach_heap(const pto_runtime *rt, const pto_tensor *t)
{
    /* The sum wraps only for an invalid tensor, which the map refuses. */
    uintptr_t low = (uintptr_t)t->storage;
    return low < rt->heap_end && low + t->storage_bytes > rt->heap_begin;
}

static inline pto_status read_tensor(ptoi_slow *d, const pto_param *p, size_t i)
{
    const pto_tensor *t = p->tensor;
    if (PTOI_UNLIKELY(!t)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit: the tensor of parameter %zu is NULL", i);
    }
    if (PTOI_UNLIKELY((uint32_t)t->ndim > PTO_MAX_DIMS || p->nodep)) {
        PTO_TRY(ptoi_slow_blame(i, pto_tensor_check(t)));
    }
    bool fresh = false;
    if (t->owner) {
        PTO_TRY(read_managed(d, p, i, &fresh));
    } else if (PTOI_UNLIKELY(may_reach_heap(d->rt, t))) {
        PTO_TRY(ptoi_slow_blame(i, ptoi_buffer_check_external(d->rt, "submit", t)));
    }
    d->units += PTOI_UNLIKELY(d->descs_may_run_out) && !ptoi_desc_find(&d->rt->map->descs, t)
                    ? ptoi_arg_units(t->ndim)
                    : 1;
    d->n_args++;
    if (!p->nodep && !fresh) {
        pto_map_param *access = &d->accesses[d->n_accesses];
        access->tensor = t;
        access->access = p->kind == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE;
        d->kinds[d->n_accesses++] = (uint8_t)p->kind;
    }
    return PTO_OK;
}

pto_status ptoi_slow_read(ptoi_slow *d)
{
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        switch (p->kind) {
        case PTO_PARAM_INPUT:
        case PTO_PARAM_OUTPUT:
        case PTO_PARAM_INOUT:
            PTO_TRY(read_tensor(d, p, i));
            break;
        case PTO_PARAM_SCALAR:
            d->units++;
            d->n_args++;
            break;
        case PTO_PARAM_AFTER:
            PTO_TRY(ptoi_slow_blame(i, ptoi_handle_check(d->rt, "submit", p->task)));
            d->has_after = true;
            break;
        case PTO_PARAM_NONE:
        default:
            return ptoi_fail(PTO_BAD_PARAM, "submit: parameter %zu is of kind %d", i, (int)p->kind);
        }
    }
    return PTO_OK;
}
