/* work.c - submits work requests. Their kernel is in worker/work.c. */
#include "orchestrator/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/device.h"
#include "device/engines.h"
#include "orchestrator/device.h"
#include "orchestrator/names.h"
#include "orchestrator/refusal.h"
#include "orchestrator/runtime.h"
#include "tensor/tensor.h"
#include "window/builtin.h"

enum { FEW_PARAMS = 64 }; /* kept on the stack */

const char *pto_work_opcode_name(uint32_t opcode)
{
    switch (opcode) {
#define WORK_NAME(name, value, text, inputs, outputs, inouts)                                      \
    case PTO_WORK_##name:                                                                          \
        return text;
        PTO_WORK_MAP(WORK_NAME)
#undef WORK_NAME
    default:
        return "invalid";
    }
}

/* An operation in messages: "strided copy", or "opcode 1031" for one of the user's. */
typedef struct words {
    char s[24];
} words;

static words words_of(uint32_t opcode)
{
    words w;
    if (opcode < PTO_WORK_USER) {
        snprintf(w.s, sizeof w.s, "%s", pto_work_opcode_name(opcode));
    } else {
        snprintf(w.s, sizeof w.s, "opcode %" PRIu32, opcode);
    }
    return w;
}

/* Appends the tensors of one kind. Returns the place after them. */
static pto_param *put_tensors(pto_param *at, pto_param_kind kind, const pto_tensor *tensors,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        *at++ = (pto_param){.kind = kind, .tensor = &tensors[i]};
    }
    return at;
}

/* Whether there is a list of tensors where one is promised. */
static pto_status check_list(const pto_work *work, const char *name, const pto_tensor *tensors,
                             uint32_t n)
{
    return tensors || n == 0
               ? PTO_OK
               : ptoi_fail(PTO_NULL_ARGUMENT, "submit work: %s: %s is NULL, but n_%s is %" PRIu32,
                           words_of(work->opcode).s, name, name, n);
}

/* The device that a request runs on: that of the first tensor that is not on the host. */
static pto_device device_of(const pto_work *work)
{
    const struct {
        const pto_tensor *tensors;
        uint32_t n;
    } lists[] = {{work->outputs, work->n_outputs},
                 {work->inouts, work->n_inouts},
                 {work->inputs, work->n_inputs}};
    for (int l = 0; l < 3; l++) {
        for (uint32_t i = 0; i < lists[l].n; i++) {
            if (!ptoi_device_is_host(lists[l].tensors[i].device)) {
                return lists[l].tensors[i].device;
            }
        }
    }
    return (pto_device){PTO_DEVICE_CPU, 0};
}

/* Whether somebody can execute the request. */
static pto_status check_opcode(const pto_work *work)
{
    const pto_device device = device_of(work);
    const pto_engine *engine = ptoi_engine_find(device, work->opcode);
    if (engine) {
        const uint64_t before = ptoi_error_serial();
        const pto_status s = engine->check ? engine->check(engine->self, work) : PTO_OK;
        return s ? ptoi_fail(s, "submit work: %s: the engine of %s refuses it: %s",
                             words_of(work->opcode).s, ptoi_device_words(device).s,
                             ptoi_error_serial() != before
                                 ? pto_error_detail()
                                 : "no message: its check did not call pto_fail")
                 : PTO_OK;
    }
    switch (work->opcode) {
#define WORK_KNOWN(name, value, text, inputs, outputs, inouts) case PTO_WORK_##name:
        PTO_WORK_MAP(WORK_KNOWN)
#undef WORK_KNOWN
        return PTO_OK;
    default:
        return ptoi_fail(PTO_BAD_OPCODE,
                         "submit work: opcode %" PRIu32
                         " is not in 1 .. 5, and %s has no engine for it (pto_engine_register)",
                         work->opcode, ptoi_device_words(device).s);
    }
}

/* The error of a task names a parameter by its number. Names it as the caller knows it: by its list, or
 * as a side of a copy. */
static pto_status name_parameter(const pto_work *work, bool is_copy, pto_status s)
{
    static const char begins[] = "submit: parameter ";
    const char *detail = pto_error_detail();
    char *rest;
    if (strncmp(detail, begins, sizeof begins - 1) != 0) {
        return s;
    }
    uint64_t i = strtoull(detail + sizeof begins - 1, &rest, 10);
    if (i < PTOI_WORK_TENSORS) {
        return s;
    }
    i -= PTOI_WORK_TENSORS;
    if (is_copy) {
        return ptoi_fail(s, "copy: %s%s", i ? "dst" : "src", rest);
    }
    const char *list = "inputs";
    if (i >= work->n_inputs) {
        i -= work->n_inputs;
        list = i < work->n_outputs ? "outputs" : "inouts";
        i -= i < work->n_outputs ? 0 : work->n_outputs;
    }
    return ptoi_fail(s, "submit work: %s: %s[%" PRIu64 "]%s", words_of(work->opcode).s, list, i,
                     rest);
}

/* `is_copy`: for pto_copy. */
static pto_status submit_work(pto_runtime *rt, const pto_work *work, bool is_copy, pto_task *task,
                              const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "submit work"));
    if (!work) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit work: work is NULL");
    }
    PTO_TRY(check_list(work, "inputs", work->inputs, work->n_inputs));
    PTO_TRY(check_list(work, "outputs", work->outputs, work->n_outputs));
    PTO_TRY(check_list(work, "inouts", work->inouts, work->n_inouts));
    size_t n = (size_t)PTOI_WORK_TENSORS + work->n_inputs + work->n_outputs + work->n_inouts;
    pto_param few[FEW_PARAMS], *params = few;
    if (n > rt->view.header->max_params) { /* before anything is allocated for it, or read */
        return ptoi_fail(PTO_TOO_LARGE,
                         "submit work: %s: %" PRIu32 " inputs, %" PRIu32 " outputs and %" PRIu32
                         " inouts; with its params a request has at most %" PRIu32 " parameters",
                         words_of(work->opcode).s, work->n_inputs, work->n_outputs, work->n_inouts,
                         rt->view.header->max_params);
    }
    PTO_TRY(check_opcode(work));
    if (n > FEW_PARAMS) {
        params = malloc(n * sizeof *params);
        if (!params) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "submit work: no memory for %zu parameters", n);
        }
    }
    params[PTOI_WORK_OPCODE] = pto_scalar_u64(work->opcode);
    params[PTOI_WORK_INPUTS] = pto_scalar_u64(work->n_inputs);
    params[PTOI_WORK_OUTPUTS] = pto_scalar_u64(work->n_outputs);
    params[PTOI_WORK_INOUTS] = pto_scalar_u64(work->n_inouts);
    for (uint32_t i = 0; i < PTO_WORK_PARAMS; i++) {
        params[PTOI_WORK_PARAMS + i] = pto_scalar_u64(work->params[i]);
    }
    pto_param *at = &params[PTOI_WORK_TENSORS];
    at = put_tensors(at, PTO_PARAM_INPUT, work->inputs, work->n_inputs);
    at = put_tensors(at, PTO_PARAM_OUTPUT, work->outputs, work->n_outputs);
    put_tensors(at, PTO_PARAM_INOUT, work->inouts, work->n_inouts);
    pto_status s = ptoi_submit_for(rt, rt->work_kernel, PTO_ACCELERATOR, params, n, task, file,
                                   line);
    if (params != few) {
        free(params);
    }
    return s ? name_parameter(work, is_copy, s) : PTO_OK;
}

pto_status pto_submit_work_at(pto_runtime *rt, const pto_work *work, pto_task *task,
                              const char *file, int line)
{
    return ptoi_refusal_note(rt, submit_work(rt, work, false, task, file, line), "pto_submit_work",
                             file, line);
}

static pto_status check_side(const char *name, const pto_tensor *t)
{
    const pto_status s = pto_tensor_check(t);
    return s ? ptoi_fail(s, "copy: %s: %s", name, pto_error_detail()) : PTO_OK;
}

pto_status ptoi_copy_for(pto_runtime *rt, const pto_tensor *dst, const pto_tensor *src,
                         const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "copy"));
    if (!dst || !src) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "copy: %s is NULL", dst ? "src" : "dst");
    }
    PTO_TRY(check_side("dst", dst));
    PTO_TRY(check_side("src", src));
    bool same = dst->ndim == src->ndim;
    for (int32_t d = 0; same && d < dst->ndim; d++) {
        same = dst->shape[d] == src->shape[d];
    }
    if (!same) {
        char one[PTOI_DIMS_TEXT], other[PTOI_DIMS_TEXT];
        return ptoi_fail(PTO_BAD_SHAPE, "copy: from %s to %s",
                         ptoi_dims_text(src->ndim, src->shape, one),
                         ptoi_dims_text(dst->ndim, dst->shape, other));
    }
    if (dst->dtype != src->dtype) {
        return ptoi_fail(PTO_BAD_DTYPE, "copy: from %s to %s", pto_dtype_name(src->dtype),
                         pto_dtype_name(dst->dtype));
    }
    const pto_work work = {.opcode = PTO_WORK_STRIDED_COPY,
                           .inputs = src,
                           .n_inputs = 1,
                           .outputs = dst,
                           .n_outputs = 1};
    return submit_work(rt, &work, true, NULL, file, line);
}

pto_status pto_copy_at(pto_runtime *rt, const pto_tensor *dst, const pto_tensor *src,
                       const char *file, int line)
{
    return ptoi_refusal_note(rt, ptoi_copy_for(rt, dst, src, file, line), "pto_copy", file, line);
}

pto_status ptoi_work_register(pto_runtime *rt, pto_kernel *kernel)
{
    PTO_TRY(
        pto_kernel_register(rt, PTOI_KERNEL_WORK, PTO_ACCELERATOR, ptoi_kernel_work, NULL, kernel));
    ptoi_kernel_is_everywhere(rt, *kernel);
    return pto_kernel_copies(rt, *kernel);
}
