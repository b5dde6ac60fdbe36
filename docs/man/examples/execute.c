/* Execution with host data. */
#include "example.h"

#include <pto/execute.h>

/* example: pto_execute */
static pto_status double_all(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                             void *params)
{
    const pto_kernel *kernel = params;
    return pto_submit(rt, *kernel, pto_input(&inputs[0]), pto_input(&inputs[0]),
                      pto_output(&outputs[0]));
}

static pto_status double_host_data(pto_runtime *rt)
{
    return pto_execute(rt, double_all, &ta, 1, &tc, 1, &add); /* c is complete when it returns */
}
/* end */

static pto_status run(pto_runtime *rt)
{
    PTO_TRY(double_host_data(rt));
    CHECK(c[7] == 14);
    /* example: pto_execute_ex */
    pto_execute_options options = {.size = sizeof options, .device = {PTO_DEVICE_SIM, 0}};
    PTO_TRY(pto_kernel_variant(rt, add, PTO_DEVICE_SIM, add_fn, NULL));
    PTO_TRY(pto_execute_ex(rt, double_all, &ta, 1, &tc, 1, &add, &options)); /* on sim:0 */
    /* end */
    CHECK(c[7] == 14);
    return PTO_OK;
}
