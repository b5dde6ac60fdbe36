/* submit_op.c - pto_submit_op: an operator as a task of a built-in kernel (worker/op.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/op.h>

#include "base/error.h"
#include "device/device.h"
#include "orchestrator/device.h"
#include "orchestrator/names.h"
#include "orchestrator/refusal.h"
#include "orchestrator/submit_op.h"
#include "window/builtin.h"

enum { FEW_PARAMS = 64 }; /* kept on the stack */

pto_status ptoi_op_register_kernels(pto_runtime *rt)
{
    if (rt->settings.config.place == PTO_PLACE_PROCESS) {
        return PTO_OK; /* worker processes do not know the program's operators */
    }
    PTO_TRY(pto_kernel_register(rt, "operator", PTO_VECTOR, ptoi_kernel_op, NULL, &rt->op_kernel));
    ptoi_kernel_is_everywhere(rt, rt->op_kernel);
    return PTO_OK;
}

/* All tensors are on one device, and the operator has an implementation for it. */
static pto_status check(const pto_op *op, const pto_tensor *outputs, size_t n_outputs,
                        const pto_tensor *inputs, size_t n_inputs)
{
    const pto_tensor *first = n_outputs ? &outputs[0] : n_inputs ? &inputs[0] : NULL;
    const pto_device device = first ? first->device : (pto_device){PTO_DEVICE_CPU, 0};
    pto_op_fn fn;
    for (size_t i = 0; i < n_outputs + n_inputs; i++) {
        const pto_tensor *t = i < n_outputs ? &outputs[i] : &inputs[i - n_outputs];
        if (!ptoi_device_equal(t->device, device)) {
            return ptoi_fail(PTO_DEVICES_DIFFER,
                             "submit op: %s: %s is on %s, %s[%zu] on %s: copy one of them first "
                             "(pto_copy)",
                             pto_op_name(op), n_outputs ? "outputs[0]" : "inputs[0]",
                             ptoi_device_words(device).s, i < n_outputs ? "outputs" : "inputs",
                             i < n_outputs ? i : i - n_outputs, ptoi_device_words(t->device).s);
        }
    }
    PTO_TRY(ptoi_device_check("submit op", device));
    return pto_op_lookup(op, device.type, &fn);
}

static pto_status submit_op(pto_runtime *rt, const pto_op *op, const pto_tensor *outputs,
                            size_t n_outputs, const pto_tensor *inputs, size_t n_inputs,
                            const void *params, size_t params_bytes, pto_task *task,
                            const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "submit op"));
    if (!op || (!outputs && n_outputs) || (!inputs && n_inputs) || (!params && params_bytes)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit op: %s: %s is NULL", pto_op_name(op),
                         !op                     ? "op"
                         : !outputs && n_outputs ? "outputs"
                         : !inputs && n_inputs   ? "inputs"
                                                 : "params");
    }
    if (params_bytes > PTO_OP_PARAMS) {
        return ptoi_fail(PTO_TOO_LARGE, "submit op: %s: params of %zu bytes, at most %d",
                         pto_op_name(op), params_bytes, PTO_OP_PARAMS);
    }
    if (n_outputs + n_inputs > FEW_PARAMS - PTOI_OP_TENSORS) {
        return ptoi_fail(PTO_TOO_LARGE, "submit op: %s: %zu outputs and %zu inputs, at most %d",
                         pto_op_name(op), n_outputs, n_inputs, FEW_PARAMS - PTOI_OP_TENSORS);
    }
    if (rt->processes) {
        return ptoi_fail(PTO_NOT_IMPLEMENTED,
                         "submit op: %s: worker processes (PTO_SCHEDULER=process) do not know the "
                         "program's operators",
                         pto_op_name(op));
    }
    PTO_TRY(check(op, outputs, n_outputs, inputs, n_inputs));
    uint64_t words[PTO_OP_PARAMS / 8] = {0};
    pto_param list[FEW_PARAMS];
    if (params_bytes) {
        memcpy(words, params, params_bytes);
    }
    list[PTOI_OP_OP] = pto_scalar_u64((uint64_t)(uintptr_t)op);
    list[PTOI_OP_OUTPUTS] = pto_scalar_u64(n_outputs);
    list[PTOI_OP_BYTES] = pto_scalar_u64(params_bytes);
    for (uint32_t i = 0; i < PTO_OP_PARAMS / 8; i++) {
        list[PTOI_OP_PARAMS + i] = pto_scalar_u64(words[i]);
    }
    pto_param *at = &list[PTOI_OP_TENSORS];
    for (size_t i = 0; i < n_outputs; i++) {
        *at++ = pto_output(&outputs[i]);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        *at++ = pto_input(&inputs[i]);
    }
    return ptoi_submit_for(rt, rt->op_kernel, PTO_VECTOR, list, (size_t)(at - list), task, file,
                           line);
}

pto_status pto_submit_op_at(pto_runtime *rt, const pto_op *op, const pto_tensor *outputs,
                            size_t n_outputs, const pto_tensor *inputs, size_t n_inputs,
                            const void *params, size_t params_bytes, pto_task *task,
                            const char *file, int line)
{
    return ptoi_refusal_note(rt,
                             submit_op(rt, op, outputs, n_outputs, inputs, n_inputs, params,
                                       params_bytes, task, file, line),
                             "pto_submit_op", file, line);
}
