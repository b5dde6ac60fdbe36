/* work.c - submits work requests. Their kernel is in worker/work.c. */
#include "orchestrator/work.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "orchestrator/runtime.h"
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

/* Appends the tensors of one kind. Returns the place after them. */
static pto_param *put_tensors(pto_param *at, pto_param_kind kind, const pto_tensor *tensors,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        *at++ = (pto_param){.kind = kind, .tensor = &tensors[i]};
    }
    return at;
}

pto_status pto_submit_work_at(pto_runtime *rt, const pto_work *work, pto_task *task,
                              const char *file, int line)
{
    if (!rt || !work) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit work: %s is NULL", rt ? "work" : "rt");
    }
    if ((work->n_inputs && !work->inputs) || (work->n_outputs && !work->outputs) ||
        (work->n_inouts && !work->inouts)) {
        return ptoi_fail(PTO_NULL_ARGUMENT,
                         "submit work: %s: inputs %p of %" PRIu32 ", outputs %p of %" PRIu32
                         ", inouts %p of %" PRIu32,
                         pto_work_opcode_name(work->opcode), (const void *)work->inputs,
                         work->n_inputs, (const void *)work->outputs, work->n_outputs,
                         (const void *)work->inouts, work->n_inouts);
    }
    size_t n = (size_t)PTOI_WORK_TENSORS + work->n_inputs + work->n_outputs + work->n_inouts;
    pto_param few[FEW_PARAMS], *params = few;
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
    pto_status s = pto_submit_task_at(rt, rt->work_kernel, PTO_ACCELERATOR, params, n, task, file,
                                      line);
    if (params != few) {
        free(params);
    }
    return s;
}

pto_status ptoi_work_register(pto_runtime *rt, pto_kernel *kernel)
{
    return pto_kernel_register(rt, "work", PTO_ACCELERATOR, ptoi_kernel_work, NULL, kernel);
}
