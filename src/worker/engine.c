#include "worker/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mutant.h"
#include "device/copy.h"
#include "op/elsewhere.h"
#include "tensor/tensor.h"
#include "window/builtin.h"
#include "worker/arg.h"
#include "worker/end.h"

/* ---- Engines of the user ---- */

pto_status ptoi_work_start(const pto_call *call, const pto_engine *engine)
{
    const pto_arg *args = call->args;
    const uint32_t n = call->n_args - PTOI_WORK_TENSORS;
    pto_work work = {.opcode = (uint32_t)args[PTOI_WORK_OPCODE].u64,
                     .n_inputs = (uint32_t)args[PTOI_WORK_INPUTS].u64,
                     .n_outputs = (uint32_t)args[PTOI_WORK_OUTPUTS].u64,
                     .n_inouts = (uint32_t)args[PTOI_WORK_INOUTS].u64};
    for (uint32_t i = 0; i < PTO_WORK_PARAMS; i++) {
        work.params[i] = args[PTOI_WORK_PARAMS + i].u64;
    }
    pto_tensor *tensors = malloc((n ? n : 1) * sizeof *tensors);
    if (!tensors) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "work: no memory for %" PRIu32 " tensors", n);
    }
    pto_status s = PTO_OK;
    for (uint32_t i = 0; i < n && !s; i++) {
        s = ptoi_tensor_for_device(&args[PTOI_WORK_TENSORS + i], &tensors[i]);
    }
    work.inputs = tensors;
    work.outputs = tensors + work.n_inputs;
    work.inouts = tensors + work.n_inputs + work.n_outputs;
    if (!s) {
        const pto_work_call request = {.work = &work,
                                       .task = call->task,
                                       .rt = call->rt,
                                       .device = call->device,
                                       .stream = call->stream};
        s = engine->start(engine->self, &request);
    }
    free(tensors);
    return s;
}

/* ---- Built-in operations ---- */

/* A task that is complete when its copy is. */
typedef struct ending {
    pto_runtime *rt;
    pto_task task;
} ending;

static void end(void *context, pto_status status)
{
    const ending e = *(const ending *)context;
    free(context);
    if (status) {
        ptoi_end_explain(e.rt, e.task, pto_error_detail());
    }
    PTO_IGNORE(pto_task_complete(e.rt, e.task, PTOI_MUTANT(COPY_LOST) ? PTO_OK : status));
}

static pto_status begin(const pto_call *call, ending **made)
{
    *made = malloc(sizeof **made);
    if (!*made) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "work: no %zu bytes on the host", sizeof **made);
    }
    **made = (ending){call->rt, call->task};
    return PTO_OK;
}

/* The task is pending if its copy was begun. */
static pto_status begun(ending *e, pto_status status)
{
    if (status) {
        free(e);
        return status;
    }
    return PTOI_MUTANT(COPY_EARLY) ? PTO_OK : PTO_PENDING;
}

static pto_status copy(const pto_call *call, const pto_tensor *to, const pto_tensor *from)
{
    ending *e;
    PTO_TRY(begin(call, &e));
    return begun(e, ptoi_device_copy(to, from, end, e));
}

pto_status ptoi_work_begin_op(const pto_call *call, const pto_op_call *op, pto_op_fn fn)
{
    ending *e;
    PTO_TRY(begin(call, &e));
    return begun(e, ptoi_op_begin(op, fn, end, e));
}

/* Checks two tensors of a copy like the CPU does. *nothing: they are the same place. */
static pto_status check_copy(const char *name, const pto_tensor *to, const pto_tensor *from,
                             bool *nothing)
{
    char one[PTOI_DIMS_TEXT], other[PTOI_DIMS_TEXT];
    bool same = to->ndim == from->ndim, place = to->storage == from->storage;
    for (int32_t d = 0; same && d < to->ndim; d++) {
        same = to->shape[d] == from->shape[d];
        place = place && (to->strides[d] == from->strides[d] || to->shape[d] == 1);
    }
    *nothing = false;
    if (to->dtype != from->dtype) {
        return ptoi_fail(PTO_BAD_DTYPE, "%s: from %s to %s", name, pto_dtype_name(from->dtype),
                         pto_dtype_name(to->dtype));
    }
    if (!same) {
        return ptoi_fail(PTO_BAD_SHAPE, "%s: from %s to %s", name,
                         ptoi_dims_text(from->ndim, from->shape, one),
                         ptoi_dims_text(to->ndim, to->shape, other));
    }
    *nothing = place && to->offset == from->offset;
    if (!*nothing && pto_tensor_overlaps(to, from)) {
        return ptoi_fail(PTO_OVERLAP,
                         "%s: what is read, at %p, and what is written, at %p, share "
                         "memory",
                         name, from->storage, to->storage);
    }
    return PTO_OK;
}

/* Dense tensors as bytes: shapes and dtypes may differ. */
static pto_status as_bytes(const char *name, const char *what, pto_tensor *t)
{
    uint64_t bytes;
    char shape[PTOI_DIMS_TEXT];
    PTO_TRY(pto_tensor_nbytes(t, &bytes));
    if (!pto_tensor_is_contiguous(t)) {
        return ptoi_fail(PTO_NOT_CONTIGUOUS, "%s: the %s has shape %s: not dense", name, what,
                         ptoi_dims_text(t->ndim, t->shape, shape));
    }
    const pto_device device = t->device;
    void *first = (char *)t->storage + t->offset * (int64_t)pto_dtype_size(t->dtype);
    PTO_TRY(pto_tensor_init(t, bytes ? first : NULL, bytes, PTO_UINT8, 1,
                            (int64_t[]){(int64_t)bytes}, NULL, 0));
    t->device = device;
    return PTO_OK;
}

/* Copies the indices to the host and checks them. */
static pto_status fetch_indices(const char *name, const pto_tensor *indices, int64_t rows,
                                int64_t **made)
{
    const int64_t n = indices->ndim == 1 ? indices->shape[0] : 0;
    if (indices->ndim != 1 || (indices->dtype != PTO_INT32 && indices->dtype != PTO_INT64)) {
        return ptoi_fail(indices->ndim != 1 ? PTO_BAD_SHAPE : PTO_BAD_DTYPE,
                         "%s: indices of %s with %" PRId32 " dims, not int32 or int64 with 1", name,
                         pto_dtype_name(indices->dtype), indices->ndim);
    }
    const uint64_t size = pto_dtype_size(indices->dtype);
    pto_tensor host;
    int64_t *list = malloc((size_t)(n + 1) * sizeof *list);
    if (!list) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "%s: no memory for %" PRId64 " indices", name, n);
    }
    *made = list;
    if (n == 0) {
        return PTO_OK;
    }
    PTO_TRY(pto_tensor_init(&host, list, (uint64_t)n * size, indices->dtype, 1, &n, NULL, 0));
    PTO_TRY(ptoi_device_copy_wait(&host, indices));
    for (int64_t i = n - 1; i >= 0; i--) { /* widened in place, from the end */
        int32_t narrow;
        if (size == sizeof narrow) {
            memcpy(&narrow, (const char *)list + (uint64_t)i * size, sizeof narrow);
            list[i] = narrow;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        if (list[i] < 0 || list[i] >= rows) {
            return ptoi_fail(PTO_BAD_INDEX,
                             "%s: index %" PRId64 " at position %" PRId64 " of %" PRId64
                             ", dim 0 has size %" PRId64,
                             name, list[i], i, n, rows);
        }
    }
    return PTO_OK;
}

/* A gather or a scatter: one copy for each index, in order. */
static pto_status move_rows(const char *name, pto_tensor *to, pto_tensor *from,
                            const pto_tensor *indices, bool scatters)
{
    const pto_tensor *indexed = scatters ? to : from, *lined_up = scatters ? from : to;
    bool fits = indexed->ndim >= 1 && indexed->ndim == lined_up->ndim;
    for (int32_t d = 1; fits && d < to->ndim; d++) {
        fits = to->shape[d] == from->shape[d];
    }
    if (to->dtype != from->dtype) {
        return ptoi_fail(PTO_BAD_DTYPE, "%s: from %s to %s", name, pto_dtype_name(from->dtype),
                         pto_dtype_name(to->dtype));
    }
    if (!fits || (indices->ndim == 1 && lined_up->shape[0] != indices->shape[0])) {
        char one[PTOI_DIMS_TEXT], other[PTOI_DIMS_TEXT];
        return ptoi_fail(PTO_BAD_SHAPE, "%s: rows of %s and rows of %s, and %" PRId64 " indices",
                         name, ptoi_dims_text(indexed->ndim, indexed->shape, one),
                         ptoi_dims_text(lined_up->ndim, lined_up->shape, other),
                         indices->ndim == 1 ? indices->shape[0] : -1);
    }
    if (pto_tensor_overlaps(to, from) || pto_tensor_overlaps(to, indices)) {
        return ptoi_fail(PTO_OVERLAP, "%s: what is read and what is written, at %p, share memory",
                         name, to->storage);
    }
    int64_t *list = NULL;
    pto_status s = fetch_indices(name, indices, indexed->shape[0], &list);
    for (int64_t i = 0; i < indices->shape[0] && !s; i++) {
        pto_tensor a, b;
        s = pto_tensor_select(to, 0, scatters ? list[i] : i, &a);
        s = s ? s : pto_tensor_select(from, 0, scatters ? i : list[i], &b);
        s = s ? s : ptoi_device_copy_wait(&a, &b);
    }
    free(list);
    return s;
}

static pto_status fill(const pto_call *call, const pto_tensor *to)
{
    ending *e;
    const uint64_t value = call->args[PTOI_WORK_PARAMS].u64; /* its low bytes: little endian */
    PTO_TRY(begin(call, &e));
    return begun(e, ptoi_device_fill(to, &value, end, e));
}

pto_status ptoi_work_elsewhere(const pto_call *call, uint32_t opcode, const pto_arg *tensors)
{
    const char *name = pto_work_opcode_name(opcode);
    const uint32_t n = call->n_args - PTOI_WORK_TENSORS;
    pto_tensor t[3];
    bool nothing;
    for (uint32_t i = 0; i < n; i++) {
        PTO_TRY(ptoi_tensor_for_device(&tensors[i], &t[i]));
    }
    switch (opcode) {
    case PTO_WORK_COPY:
        PTO_TRY(as_bytes(name, "input", &t[0]));
        PTO_TRY(as_bytes(name, "output", &t[1])); /* then as below */
        __attribute__((fallthrough));
    case PTO_WORK_STRIDED_COPY:
        PTO_TRY(check_copy(name, &t[1], &t[0], &nothing));
        return nothing ? PTO_OK : copy(call, &t[1], &t[0]);
    case PTO_WORK_FILL:
        return fill(call, &t[0]);
    case PTO_WORK_GATHER:
        return move_rows(name, &t[2], &t[0], &t[1], false);
    default:
        return move_rows(name, &t[2], &t[0], &t[1], true);
    }
}
