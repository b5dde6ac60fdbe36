/* Operators and the devices of the process. */
#include "example.h"

#include <pto/op.h>

/* example: pto_op_create pto_op_register pto_op_run */
static pto_status negate_cpu(const pto_op_call *call)
{
    const pto_tensor *in = &call->inputs[0], *out = &call->outputs[0];
    if (!pto_tensor_is_contiguous(in) || !pto_tensor_is_contiguous(out)) {
        return pto_fail(PTO_NOT_CONTIGUOUS, "%s: dense tensors only", pto_op_name(call->op));
    }
    const float *x = (const float *)in->storage + in->offset;
    float *y = (float *)out->storage + out->offset;
    for (int64_t i = 0; i < pto_tensor_numel(out); i++) {
        y[i] = -x[i];
    }
    return PTO_OK;
}

static pto_status negate_c(void)
{
    pto_op *negate;
    PTO_TRY(pto_op_create("negate", &negate));
    PTO_TRY(pto_op_register(negate, PTO_DEVICE_CPU, negate_cpu, false));
    PTO_TRY(pto_op_run(negate, &tc, 1, &ta, 1, NULL));
    pto_op_destroy(negate);
    return PTO_OK;
}
/* end */

static pto_status run(pto_runtime *rt)
{
    PTO_TRY(negate_c());
    CHECK(c[7] == -7);
    /* example: pto_op_lookup */
    pto_op_fn fn;
    if (pto_op_lookup(pto_fill_op(), PTO_DEVICE_NVIDIA, &fn) == PTO_NOT_IMPLEMENTED) {
        printf("%s\n", pto_error_detail()); /* "fill: no implementation for nvidia" */
    }
    /* end */
    /* example: pto_fill */
    PTO_TRY(pto_fill(&tc, 0.5));
    /* end */
    CHECK(c[0] == 0.5f);
    /* example: pto_fill_op */
    double value = 1;
    PTO_TRY(pto_op_run(pto_fill_op(), &tc, 1, NULL, 0, &value)); /* as pto_fill */
    /* end */
    CHECK(c[0] == 1);
    /* example: pto_submit_op */
    double two = 2;
    PTO_TRY(pto_submit_op(rt, pto_fill_op(), &tc, 1, NULL, 0, &two, sizeof two, NULL));
    /* end */
    PTO_TRY(pto_wait(rt));
    CHECK(c[7] == 2);
    return PTO_OK;
}
