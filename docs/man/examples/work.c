/* Work requests. */
#include "example.h"

#include <pto/work.h>

static pto_status negate(void *self, const pto_work_call *call)
{
    const pto_tensor *t = &call->work->inouts[0];
    float *x = (float *)t->storage + t->offset;
    (void)self;
    for (int64_t i = 0; i < t->shape[0]; i++) {
        x[i * t->strides[0]] = -x[i * t->strides[0]];
    }
    return PTO_OK; /* or PTO_PENDING, and pto_task_complete later */
}

static pto_status run(pto_runtime *rt)
{
    /* example: pto_submit_work */
    pto_work fill = {.opcode = PTO_WORK_FILL, .n_outputs = 1, .outputs = &tc, .params = {0}};
    PTO_TRY(pto_submit_work(rt, &fill, NULL));
    PTO_TRY(pto_submit_work(
        rt,
        &(pto_work){
            .opcode = PTO_WORK_COPY, .n_inputs = 1, .inputs = &ta, .n_outputs = 1, .outputs = &tb},
        NULL));
    /* end */
    PTO_TRY(pto_wait(rt));
    CHECK(b[7] == 7 && c[7] == 0);
    /* example: pto_work_opcode_name */
    printf("%s\n", pto_work_opcode_name(PTO_WORK_STRIDED_COPY)); /* "strided copy" */
    /* end */
    /* example: pto_copy pto_temp_on pto_kernel_variant */
    const pto_device sim0 = {PTO_DEVICE_SIM, 0};
    const int64_t shape[] = {N};
    PTO_TRY(pto_kernel_variant(rt, scale, PTO_DEVICE_SIM, scale_fn, NULL));
    PTO_SCOPE(rt) {
        pto_tensor there;
        PTO_TRY(pto_temp_on(rt, sim0, PTO_FLOAT32, 1, shape, &there));
        PTO_TRY(pto_copy(rt, &there, &ta));                                 /* a -> sim:0 */
        PTO_TRY(pto_submit(rt, scale, pto_inout(&there), pto_scalar(3.0))); /* there */
        PTO_TRY(pto_copy(rt, &tc, &there));                                 /* sim:0 -> c */
    }
    PTO_TRY(pto_wait(rt));
    /* end */
    CHECK(c[7] == 21);
    /* example: pto_engine_register */
    enum { NEGATE = PTO_WORK_USER };
    const pto_device cpu = {PTO_DEVICE_CPU, 0};
    PTO_TRY(pto_engine_register(cpu, NEGATE,
                                &(pto_engine){.size = sizeof(pto_engine), .start = negate}));
    PTO_TRY(pto_submit_work(rt, &(pto_work){.opcode = NEGATE, .n_inouts = 1, .inouts = &tc}, NULL));
    /* end */
    PTO_TRY(pto_wait(rt));
    CHECK(c[7] == -21);
    return PTO_OK;
}
