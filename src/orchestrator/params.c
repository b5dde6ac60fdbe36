/* params.c - slow path: are the parameters valid, and what do they need?
 *
 * Nothing changes here but the ptoi_slow, and three fields of buffers that the task is the first to
 * write. They are valid only during one attempt to submit, so a task that is refused later leaves
 * nothing behind:
 *
 *   attempt     the number of that attempt (rt->attempt)
 *   at          offset of the buffer in the block of the task
 *   maps_whole  the whole buffer will be recorded in the map (link.c), so it is not looked up
 *
 * Each tensor is checked once: here, or by the map if it looks the tensor up (link.c).
 */
#include "orchestrator/params.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "device/device.h"
#include "orchestrator/buffer.h"
#include "orchestrator/device.h"
#include "orchestrator/handle.h"
#include "orchestrator/shared.h"

pto_status ptoi_slow_accuse(size_t param, pto_status status)
{
    const char *detail = pto_error_detail();
    static const char who[] = "submit: ";
    detail += strncmp(detail, who, sizeof who - 1) == 0 ? sizeof who - 1 : 0;
    return ptoi_fail(status, "submit: parameter %zu: %s", param, detail);
}

/* The task brings memory on another device than the host. All of it is on one device. */
static pto_status choose_heap(ptoi_slow *d, const ptoi_buffer *b, size_t i)
{
    pto_runtime *rt = d->rt;
    if (d->brings || d->needs_outer) {
        return ptoi_fail(
            PTO_DEVICES_DIFFER,
            "submit: parameter %zu is to get memory on %s, others on %s: a task brings "
            "memory on one device",
            i, ptoi_device_words(ptoi_device_at(rt, b->device)).s,
            ptoi_device_words(ptoi_device_at(rt, d->device)).s);
    }
    PTO_TRY(ptoi_device_heap(rt, "submit", b->device, d->level));
    d->device = b->device;
    d->heap = ptoi_heap_of(rt, d->level, d->device);
    return PTO_OK;
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
    if (PTOI_UNLIKELY(!ptoi_device_equal(t->device, ptoi_device_at(rt, b->device)))) {
        return ptoi_fail(
            PTO_BAD_DEVICE, "submit: parameter %zu says it is on %s; its buffer is on %s", i,
            ptoi_device_words(t->device).s, ptoi_device_words(ptoi_device_at(rt, b->device)).s);
    }
    if (t->storage_bytes != b->bytes) {
        return ptoi_fail(PTO_OUT_OF_BOUNDS,
                         "submit: parameter %zu says its buffer has %" PRIu64 " bytes; it has "
                         "%" PRIu64,
                         i, t->storage_bytes, b->bytes);
    }
    bool next = p->kind == PTO_PARAM_OUTPUT && b->block && t->version == b->version + 1;
    if (t->version != b->version && !next) {
        return ptoi_fail(PTO_BAD_VERSION,
                         "submit: parameter %zu is version %" PRIu32 " of a buffer that is at "
                         "version %" PRIu32,
                         i, t->version, b->version);
    }
    d->managed = true;
    if (b->block || (b->attempt == rt->attempt && p->kind == PTO_PARAM_OUTPUT)) {
        *fresh = !b->block && b->maps_whole;
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
    if (PTOI_UNLIKELY(b->device != d->device)) {
        PTO_TRY(choose_heap(d, b, i));
    }
    if (b->base != rt->base) {
        /* The buffer outlives the lifetime of this task, so its memory is not part of the task's block. */
        PTO_TRY(ptoi_device_heap(rt, "submit", b->device, rt->scopes[b->base].level));
        d->needs_outer = true;
        return PTO_OK;
    }
    b->attempt = rt->attempt;
    b->maps_whole = false;
    b->at = d->heap_bytes; /* offset in the block, which has no place yet */
    d->heap_bytes += ptoi_buffer_block(b);
    d->brings++;
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
    } else {
        if (PTOI_UNLIKELY(may_reach_heap(d->rt, t))) {
            PTO_TRY(ptoi_slow_blame(i, ptoi_buffer_check_external(d->rt, "submit", t)));
        }
        if (PTOI_UNLIKELY(d->rt->processes != NULL)) {
            PTO_TRY(ptoi_slow_blame(i, ptoi_shared_check(d->rt, "submit", t)));
        }
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

static pto_status read_scalar(ptoi_slow *d, const pto_param *p, size_t i)
{
    if (PTOI_UNLIKELY(p->dtype != PTO_INT64 && p->dtype != PTO_UINT64 && p->dtype != PTO_FLOAT64)) {
        return ptoi_fail(PTO_BAD_DTYPE,
                         "submit: parameter %zu is a scalar of type %u (%s); it must be int64, "
                         "uint64 or float64, as pto_scalar makes it",
                         i, (unsigned)p->dtype, pto_dtype_name((pto_dtype)p->dtype));
    }
    d->units++;
    d->n_args++;
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
            PTO_TRY(read_scalar(d, p, i));
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
