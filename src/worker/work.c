/* work.c - the kernel that executes work requests on the CPU.
 *
 * Each operation first checks the whole request, and only then writes. So a request that fails has
 * changed nothing. The plans of Rearrange move the elements. A fill is a copy from a source with
 * strides of 0. A gather and a scatter copy one row for each index. A scatter may name a row more
 * than once: then the last copy wins.
 */

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "device/device.h"
#include "device/engines.h"
#include "op/rearrange/plan.h"
#include "tensor/tensor.h"
#include "window/builtin.h"
#include "worker/arg.h"
#include "worker/engine.h"

/* ---- Arguments ---------------------------------------------------------------------------- */

/* A request as its operation gets it. The numbers of tensors are those of the table `takes`. */
typedef struct request {
    const char *name;
    const pto_arg *inputs, *outputs, *inouts;
    const pto_arg *params;
} request;

/* Bytes from one element to the next along a dim; 0 if the dim has fewer than two elements. */
static int64_t step_of(const pto_arg *arg, int32_t dim)
{
    return arg->shape[dim] > 1 ? arg->strides[dim] * (int64_t)pto_dtype_size(arg->dtype) : 0;
}

/* Whether both have the same number of dims, and the same sizes from dim `first` on. */
static bool same_shape(const pto_arg *a, const pto_arg *b, int32_t first)
{
    bool same = a->ndim == b->ndim;
    for (int32_t d = first; same && d < a->ndim; d++) {
        same = a->shape[d] == b->shape[d];
    }
    return same;
}

/* Whether each element of `a` lies at the same address as that element of `b`. */
static bool same_place(const pto_arg *a, const pto_arg *b)
{
    if (a->data != b->data || a->dtype != b->dtype || !same_shape(a, b, 0)) {
        return false;
    }
    for (int32_t d = 0; d < a->ndim; d++) {
        if (step_of(a, d) != step_of(b, d)) {
            return false;
        }
    }
    return true;
}

/* ---- Checks ------------------------------------------------------------------------------- */

static pto_status check_dtypes(const request *r, const pto_arg *from, const pto_arg *to)
{
    if (from->dtype != to->dtype) {
        return ptoi_fail(PTO_BAD_DTYPE, "%s: from %s (dtype %u) to %s (dtype %u)", r->name,
                         pto_dtype_name(from->dtype), (unsigned)from->dtype,
                         pto_dtype_name(to->dtype), (unsigned)to->dtype);
    }
    return PTO_OK;
}

/* Checks that no byte is both read and written. The overlap search may take as many steps as the
 * request moves elements, and at least PTO_OVERLAP_BUDGET. If they do not suffice, the two count as
 * overlapping. */
static pto_status check_apart(const request *r, const char *what, const pto_arg *read,
                              const pto_arg *written)
{
    pto_tensor a = ptoi_tensor_of_arg(read), b = ptoi_tensor_of_arg(written);
    uint64_t budget = PTO_OVERLAP_BUDGET, steps = (uint64_t)pto_tensor_numel(&a);
    pto_overlap_result result;
    PTO_TRY(pto_tensor_overlaps_ex(&a, &b, steps > budget ? steps : budget, &result));
    if (result.yes) {
        return ptoi_fail(PTO_OVERLAP,
                         "%s: %s, %" PRIu64 " bytes from 0x%" PRIxPTR
                         " on, and what is written, %" PRIu64 " bytes from 0x%" PRIxPTR
                         " on, share memory%s",
                         r->name, what, a.storage_bytes, (uintptr_t)a.storage, b.storage_bytes,
                         (uintptr_t)b.storage,
                         result.stage == PTO_STAGE_BUDGET ? " (not proved within the budget)" : "");
    }
    return PTO_OK;
}

static int64_t index_at(const pto_arg *indices, int64_t step, int64_t i)
{
    const char *at = (const char *)indices->data + i * step;
    int64_t wide;
    int32_t narrow;
    if (indices->dtype == PTO_INT64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

/* Checks a gather or a scatter. The indices select rows of `indexed`: the source of a gather, the
 * destination of a scatter. `lined_up` is the other tensor, which has one row for each index. */
static pto_status check_indexed(const request *r, const pto_arg *indices, const pto_arg *indexed,
                                const pto_arg *lined_up)
{
    char one[PTOI_DIMS_TEXT], other[PTOI_DIMS_TEXT];
    if (indices->dtype != PTO_INT32 && indices->dtype != PTO_INT64) {
        return ptoi_fail(PTO_BAD_DTYPE, "%s: indices of %s (dtype %u), not int32 or int64", r->name,
                         pto_dtype_name(indices->dtype), (unsigned)indices->dtype);
    }
    if (indices->ndim != 1) {
        return ptoi_fail(PTO_BAD_SHAPE, "%s: indices of %" PRId32 " dims, not 1", r->name,
                         indices->ndim);
    }
    if (indexed->ndim < 1 || !same_shape(indexed, lined_up, 1)) {
        return ptoi_fail(PTO_BAD_SHAPE, "%s: rows of %s and rows of %s", r->name,
                         ptoi_dims_text(indexed->ndim, indexed->shape, one),
                         ptoi_dims_text(lined_up->ndim, lined_up->shape, other));
    }
    if (lined_up->shape[0] != indices->shape[0]) {
        return ptoi_fail(PTO_BAD_SHAPE, "%s: %" PRId64 " indices for the %" PRId64 " rows of %s",
                         r->name, indices->shape[0], lined_up->shape[0],
                         ptoi_dims_text(lined_up->ndim, lined_up->shape, one));
    }
    int64_t step = step_of(indices, 0);
    for (int64_t i = 0; i < indices->shape[0]; i++) {
        int64_t index = index_at(indices, step, i);
        if (index < 0 || index >= indexed->shape[0]) {
            return ptoi_fail(PTO_BAD_INDEX,
                             "%s: index %" PRId64 " at position %" PRId64 " of %" PRId64
                             ", dim 0 has size %" PRId64,
                             r->name, index, i, indices->shape[0], indexed->shape[0]);
        }
    }
    return PTO_OK;
}

/* ---- The operations ----------------------------------------------------------------------- */

static pto_status run_copy(const request *r)
{
    const pto_arg *args[] = {r->inputs, r->outputs};
    uint64_t bytes[2] = {0};
    for (int i = 0; i < 2; i++) {
        char shape[PTOI_DIMS_TEXT], strides[PTOI_DIMS_TEXT];
        pto_tensor t = ptoi_tensor_of_arg(args[i]);
        if (!pto_tensor_is_contiguous(&t)) {
            return ptoi_fail(PTO_NOT_CONTIGUOUS,
                             "%s: the %s has shape %s and strides %s: not dense", r->name,
                             i ? "output" : "input", ptoi_dims_text(t.ndim, t.shape, shape),
                             ptoi_dims_text(t.ndim, t.strides, strides));
        }
        bytes[i] = t.storage_bytes;
    }
    if (bytes[0] != bytes[1]) {
        return ptoi_fail(PTO_BAD_SHAPE, "%s: from %" PRIu64 " bytes to %" PRIu64, r->name, bytes[0],
                         bytes[1]);
    }
    if (bytes[0]) {
        memmove(r->outputs[0].data, r->inputs[0].data, bytes[0]);
    }
    return PTO_OK;
}

static pto_status run_strided_copy(const request *r)
{
    const pto_arg *from = &r->inputs[0], *to = &r->outputs[0];
    char one[PTOI_DIMS_TEXT], other[PTOI_DIMS_TEXT];
    PTO_TRY(check_dtypes(r, from, to));
    if (!same_shape(from, to, 0)) {
        return ptoi_fail(PTO_BAD_SHAPE, "%s: from %s to %s", r->name,
                         ptoi_dims_text(from->ndim, from->shape, one),
                         ptoi_dims_text(to->ndim, to->shape, other));
    }
    if (same_place(from, to)) {
        return PTO_OK;
    }
    PTO_TRY(check_apart(r, "the input", from, to));
    ptoi_copy(to->ndim, to->shape, to->data, to->strides, from->data, from->strides,
              (uint32_t)pto_dtype_size(to->dtype));
    return PTO_OK;
}

static pto_status run_fill(const request *r)
{
    static const int64_t zeros[PTO_MAX_DIMS] = {0};
    const pto_arg *to = &r->outputs[0];
    uint64_t size = pto_dtype_size(to->dtype), value = r->params[0].u64;
    /* The low bytes of the value, as a number of the element size. Correct for any byte order. */
    const union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } element[] = {
        {.u8 = (uint8_t)value}, {.u16 = (uint16_t)value}, {.u32 = (uint32_t)value}, {.u64 = value}};
    ptoi_copy(to->ndim, to->shape, to->data, to->strides, &element[__builtin_ctzll(size)], zeros,
              (uint32_t)size);
    return PTO_OK;
}

/* For each index, a gather reads the row that it selects, and a scatter writes it. */
static pto_status move_rows(const request *r, const pto_arg *to, bool scatters)
{
    const pto_arg *from = &r->inputs[0], *indices = &r->inputs[1];
    PTO_TRY(check_dtypes(r, from, to));
    PTO_TRY(check_indexed(r, indices, scatters ? to : from, scatters ? from : to));
    PTO_TRY(check_apart(r, "the input", from, to));
    PTO_TRY(check_apart(r, "the indices", indices, to));

    ptoi_plan row; /* all dims but dim 0 */
    ptoi_plan_make(&row, to->ndim - 1, to->shape + 1, to->strides + 1, from->strides + 1,
                   (uint32_t)pto_dtype_size(to->dtype), (uintptr_t)to->data);
    int64_t to_step = step_of(to, 0), from_step = step_of(from, 0), step = step_of(indices, 0);
    for (int64_t i = 0; i < indices->shape[0] && row.way != PTOI_WAY_NOTHING; i++) {
        int64_t index = index_at(indices, step, i);
        ptoi_plan_run(&row, (char *)to->data + (scatters ? index : i) * to_step,
                      (const char *)from->data + (scatters ? i : index) * from_step);
    }
    return PTO_OK;
}

static pto_status run_gather(const request *r)
{
    return move_rows(r, &r->outputs[0], false);
}

static pto_status run_scatter(const request *r)
{
    return move_rows(r, &r->inouts[0], true);
}

/* ---- The kernel --------------------------------------------------------------------------- */

static pto_status (*const operations[])(const request *r) = {
    [PTO_WORK_COPY] = run_copy,       [PTO_WORK_STRIDED_COPY] = run_strided_copy,
    [PTO_WORK_FILL] = run_fill,       [PTO_WORK_GATHER] = run_gather,
    [PTO_WORK_SCATTER] = run_scatter,
};

/* How many tensors each operation takes. */
static const struct {
    uint32_t inputs, outputs, inouts;
} takes[] = {
#define WORK_TAKES(name, value, text, inputs, outputs, inouts) [value] = {inputs, outputs, inouts},
    PTO_WORK_MAP(WORK_TAKES)
#undef WORK_TAKES
};

enum { OPCODES = sizeof operations / sizeof *operations };
_Static_assert(OPCODES == sizeof takes / sizeof *takes, "an opcode without an operation");

pto_status ptoi_kernel_work(const pto_call *call)
{
    const pto_arg *args = call->args;
    if (call->n_args < PTOI_WORK_TENSORS) {
        return ptoi_fail(PTO_BAD_PARAM, "work: %" PRIu32 " arguments, a request has at least %d",
                         call->n_args, PTOI_WORK_TENSORS);
    }
    for (uint32_t i = 0; i < call->n_args; i++) {
        if ((args[i].shape == NULL) != (i < PTOI_WORK_TENSORS)) {
            return ptoi_fail(PTO_BAD_PARAM, "work: argument %" PRIu32 " is a %s", i,
                             i < PTOI_WORK_TENSORS ? "tensor" : "scalar");
        }
    }
    const uint64_t opcode = args[PTOI_WORK_OPCODE].u64;
    const pto_engine *engine = ptoi_engine_find(call->device, (uint32_t)opcode);
    if (engine && opcode <= UINT32_MAX) {
        return ptoi_work_start(call, engine);
    }
    if (opcode >= OPCODES || !operations[opcode]) {
        return ptoi_fail(PTO_BAD_OPCODE, "work: opcode %" PRIu64 " is not in 1 .. %d", opcode,
                         OPCODES - 1);
    }
    const char *name = pto_work_opcode_name((uint32_t)opcode);
    uint64_t n_inputs = args[PTOI_WORK_INPUTS].u64, n_outputs = args[PTOI_WORK_OUTPUTS].u64,
             n_inouts = args[PTOI_WORK_INOUTS].u64;
    uint32_t n_tensors = call->n_args - PTOI_WORK_TENSORS, inputs = takes[opcode].inputs,
             outputs = takes[opcode].outputs, inouts = takes[opcode].inouts;
    if (n_inputs != inputs || n_outputs != outputs || n_inouts != inouts ||
        n_tensors != inputs + outputs + inouts) {
        return ptoi_fail(PTO_BAD_PARAM,
                         "%s: %" PRIu64 " inputs, %" PRIu64 " outputs, %" PRIu64
                         " inouts in %" PRIu32 " tensors; it takes %" PRIu32 ", %" PRIu32
                         " and %" PRIu32,
                         name, n_inputs, n_outputs, n_inouts, n_tensors, inputs, outputs, inouts);
    }
    const pto_arg *tensors = args + PTOI_WORK_TENSORS;
    if (!ptoi_device_is_host(call->device)) {
        return ptoi_work_elsewhere(call, (uint32_t)opcode, tensors);
    }
    return operations[opcode](&(request){.name = name,
                                         .inputs = tensors,
                                         .outputs = tensors + inputs,
                                         .inouts = tensors + inputs + outputs,
                                         .params = args + PTOI_WORK_PARAMS});
}
