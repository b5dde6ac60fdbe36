/* rearrange.c - pto_submit_rearrange: a copy between layouts, as tasks.
 *
 * A large copy is cut into parts. Each part is a task with dependences of its own. Its arguments
 * are the destination, the source, and a scalar that names their device.
 */
#include <inttypes.h>

#include "base/error.h"
#include "op/rearrange/rearrange.h"
#include "orchestrator/buffer.h"
#include "orchestrator/device.h"
#include "orchestrator/map/access.h"
#include "orchestrator/names.h"
#include "orchestrator/poison.h"
#include "orchestrator/rearrange.h"
#include "orchestrator/refusal.h"
#include "window/builtin.h"

static const ptoi_who who = PTOI_WHO("submit a rearrange");

pto_status ptoi_rearrange_register(pto_runtime *rt)
{
    PTO_TRY(pto_kernel_register(rt, PTOI_KERNEL_REARRANGE, PTO_VECTOR, ptoi_kernel_rearrange, NULL,
                                &rt->rearrange_vector));
    PTO_TRY(pto_kernel_register(rt, PTOI_KERNEL_REARRANGE, PTO_ACCELERATOR, ptoi_kernel_rearrange,
                                NULL, &rt->rearrange_accelerator));
    ptoi_kernel_is_everywhere(rt, rt->rearrange_vector);
    ptoi_kernel_is_everywhere(rt, rt->rearrange_accelerator);
    return PTO_OK;
}

/* ---- Cutting ------------------------------------------------------------------------------- */

/* A part takes some hundred microseconds. That is far longer than the overhead of a task, and short
 * enough that workers finish at about the same time. */
#define PART_BYTES (UINT64_C(1) << 20)

enum {
    MOST_PARTS = 64,
    WINDOW_SHARE = 16, /* the parts take at most 1/16 of the task ring */
};

/* Both tensors are cut along the same dim. Part i has elements at[i] .. at[i + 1] of it. */
typedef struct cuts {
    int32_t dim;
    uint32_t parts;
    int64_t at[MOST_PARTS + 1];
} cuts;

/* The dim that keeps a part contiguous in the destination: the one with the largest stride, of
 * those that can be cut into `parts` parts. If there is none, the longest dim. */
static int32_t dim_to_cut(const pto_tensor *dst, uint64_t parts)
{
    int32_t longest = 0, best = -1;
    uint64_t reach = 0;
    for (int32_t d = 0; d < dst->ndim; d++) {
        int64_t s = dst->strides[d];
        uint64_t way = s < 0 ? 0 - (uint64_t)s : (uint64_t)s;
        longest = dst->shape[d] > dst->shape[longest] ? d : longest;
        if ((uint64_t)dst->shape[d] >= parts && way > reach) {
            best = d;
            reach = way;
        }
    }
    return best >= 0 ? best : longest;
}

/* Whether a cut at `at` falls on a cache line boundary of the destination, so that two parts share
 * no line there. Blocks of managed memory are aligned to lines. */
static bool is_between_lines(const pto_tensor *dst, int32_t dim, int64_t at)
{
    uint64_t size = pto_dtype_size(dst->dtype), step = (uint64_t)dst->strides[dim] * size;
    uint64_t first = (uint64_t)(uintptr_t)dst->storage + (uint64_t)dst->offset * size;
    /* With a negative stride, element at - 1 begins where the later elements end. */
    uint64_t border = dst->strides[dim] < 0 ? (uint64_t)at - 1 : (uint64_t)at;
    return (first + border * step) % PTOI_LINE == 0;
}

static void cut(const pto_runtime *rt, const pto_tensor *dst, cuts *c)
{
    uint64_t bytes = (uint64_t)pto_tensor_numel(dst) * pto_dtype_size(dst->dtype);
    uint64_t parts = (bytes + PART_BYTES - 1) / PART_BYTES;
    uint64_t most = ((uint64_t)rt->rings[rt->level].mask + 1) / WINDOW_SHARE;
    most = most < MOST_PARTS ? most : MOST_PARTS;
    parts = parts < most ? parts : most;
    c->dim = 0;
    c->parts = 1;
    if (parts <= 1 || dst->device.type != PTO_DEVICE_CPU) {
        return;
    }
    c->dim = dim_to_cut(dst, parts);
    int64_t n = dst->shape[c->dim];
    c->parts = (uint64_t)n < parts ? (uint32_t)n : (uint32_t)parts;
    c->at[0] = 0;
    for (uint32_t i = 1; i < c->parts; i++) {
        int64_t even = n / c->parts * i + n % c->parts * i / c->parts, at = even;
        while (at > c->at[i - 1] && at > even - PTOI_LINE && !is_between_lines(dst, c->dim, at)) {
            at--;
        }
        bool found = at > c->at[i - 1] && is_between_lines(dst, c->dim, at);
        c->at[i] = found ? at : even;
    }
    c->at[c->parts] = n;
}

/* ---- Submitting ---------------------------------------------------------------------------- */

/* Whether the buffer of the tensor permits a task to read it now. */
static bool is_readable(const pto_runtime *rt, const pto_tensor *t)
{
    if (!t->owner) {
        return true;
    }
    if (!ptoi_buffer_is(rt, t->owner, t->generation)) {
        return false;
    }
    const ptoi_buffer *b = &rt->buffers[(uint32_t)t->owner - 1];
    return b->block && b->bytes == t->storage_bytes && b->version == t->version;
}

/* Parts can only write a destination that has memory, so it gets some before them. *given is false
 * if the copy must be a single task: that task brings the memory, or is refused with the right
 * error. So no memory is given for a copy that is refused. */
static pto_status give_memory(pto_runtime *rt, const pto_tensor *dst, const pto_tensor *src,
                              pto_worker_type type, const char *file, int line, bool *given)
{
    *given = true;
    if (!dst->owner) {
        return PTO_OK;
    }
    if (dst->owner == src->owner && dst->version != src->version) {
        *given = false; /* the first part would begin a version that makes the source stale */
        return PTO_OK;
    }
    if (!ptoi_buffer_is(rt, dst->owner, dst->generation)) {
        *given = false;
        return PTO_OK;
    }
    ptoi_buffer *b = &rt->buffers[(uint32_t)dst->owner - 1];
    if (b->block) {
        return PTO_OK;
    }
    *given = b->bytes == dst->storage_bytes && b->version == dst->version &&
             ptoi_buffer_check_first(b, who.op, dst) == PTO_OK && is_readable(rt, src) &&
             ptoi_device_serves(rt, dst->device, (uint32_t)type) && !pto_is_cancelled(rt);
    return *given ? ptoi_block_give(rt, PTOI_KERNEL_REARRANGE, b, file, line) : PTO_OK;
}

static pto_status submit_rearrange(pto_runtime *rt, const pto_tensor *dst, const pto_tensor *src,
                                   pto_worker_type type, const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, who.op));
    if (!dst || !src) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: %s is NULL", who.op, dst ? "src" : "dst");
    }
    if (type != PTO_VECTOR && type != PTO_ACCELERATOR) {
        return ptoi_fail(PTO_BAD_WORKER, "%s: for %s workers (type %d); it runs on %s and %s ones",
                         who.op, pto_worker_type_name(type), (int)type,
                         pto_worker_type_name(PTO_VECTOR), pto_worker_type_name(PTO_ACCELERATOR));
    }
    bool same, given = false;
    cuts c = {.parts = 1};
    PTO_TRY(ptoi_rearrange_check(&who, dst, src, &same));
    const pto_tensor *both[] = {dst, src};
    for (int side = 0; side < 2; side++) {
        if (!both[side]->owner) { /* the whole tensor: a part checks only itself */
            PTO_TRY(ptoi_buffer_check_external(rt, who.op, both[side]));
        }
    }
    if (!same) {
        cut(rt, dst, &c);
    }
    if (c.parts > 1) {
        PTO_TRY(give_memory(rt, dst, src, type, file, line, &given));
        c.parts = given ? c.parts : 1;
    }
    pto_kernel kernel = type == PTO_VECTOR ? rt->rearrange_vector : rt->rearrange_accelerator;
    const pto_map_task first = {rt->rings[rt->level].head, rt->level};
    const uint64_t order = rt->order;
    for (uint32_t i = 0; i < c.parts; i++) {
        pto_tensor to = *dst, from = *src;
        if (c.parts > 1) {
            PTO_TRY(pto_tensor_slice(dst, c.dim, c.at[i], c.at[i + 1], 1, &to));
            PTO_TRY(pto_tensor_slice(src, c.dim, c.at[i], c.at[i + 1], 1, &from));
        }
        const pto_param params[PTOI_REARRANGE_ARGS] = {
            [PTOI_REARRANGE_SRC] = pto_input(&from),
            [PTOI_REARRANGE_DST] = pto_output(&to),
        };
        pto_status s = ptoi_submit_for(rt, kernel, type, params, PTOI_REARRANGE_ARGS, NULL, file,
                                       line);
        if (s && i > 0) {
            return ptoi_fail(s, "%s: %" PRIu32 " of %" PRIu32 " parts were submitted: %s", who.op,
                             i, c.parts, pto_error_detail());
        }
        PTO_TRY(s);
    }
    if (c.parts > 1) { /* together the parts cover what no single one does */
        ptoi_access_cover(rt->map, dst, first);
        if (ptoi_poison_any(rt)) {
            ptoi_poison_cover(rt, dst, order); /* parts may have failed by now */
        }
    }
    return PTO_OK;
}

pto_status pto_submit_rearrange_at(pto_runtime *rt, const pto_tensor *dst, const pto_tensor *src,
                                   pto_worker_type type, const char *file, int line)
{
    return ptoi_refusal_note(rt, submit_rearrange(rt, dst, src, type, file, line),
                             "pto_submit_rearrange", file, line);
}
