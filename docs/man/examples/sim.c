/* Simulated devices. */
#include "example.h"

#include <pto/sim.h>

/* example: pto_sim_launch */
static void double_it(void *args) /* on the stream, when it is its turn */
{
    float *x = *(float **)args;
    *x *= 2;
}

static pto_status double_kernel(const pto_call *call) /* the variant for PTO_DEVICE_SIM */
{
    return pto_sim_launch(call->stream, double_it, &call->args[0].data, sizeof(void *));
}
/* end */

static pto_status on_host(const pto_call *call)
{
    *(float *)call->args[0].data *= 2;
    return PTO_OK;
}

static pto_status run_on_streams(pto_runtime *rt)
{
    const pto_sim_config config = {.size = sizeof config, .streams = 4};
    const pto_device sim = {PTO_DEVICE_SIM, 1};
    pto_kernel kernel;
    pto_tensor x;
    float value = 3;
    PTO_TRY(pto_sim_configure(1, &config));
    PTO_TRY(pto_kernel_register(rt, "double", PTO_VECTOR, on_host, NULL, &kernel));
    PTO_TRY(pto_kernel_variant(rt, kernel, PTO_DEVICE_SIM, double_kernel, NULL));
    PTO_SCOPE(rt) {
        PTO_TRY(pto_alloc_on(rt, sim, PTO_FLOAT32, 1, (int64_t[]){1}, &x));
        PTO_TRY(pto_write(rt, &x, &value, sizeof value));
        PTO_TRY(pto_submit(rt, kernel, pto_inout(&x)));
        PTO_TRY(pto_submit(rt, kernel, pto_inout(&x)));
        PTO_TRY(pto_read(rt, &x, &value, sizeof value));
    }
    CHECK(value == 12);
    return PTO_OK;
}

static pto_status run(pto_runtime *rt)
{
    PTO_TRY(run_on_streams(rt));
    /* example: pto_sim_configure pto_sim_stats_get */
    pto_sim_config config = {.size = sizeof config, .latency_ns = 20000, .bandwidth = 8000000000};
    pto_sim_stats stats;
    PTO_TRY(pto_sim_configure(0, &config)); /* sim:0: copies take 20 us and 8 GB/s */
    PTO_TRY(pto_sim_stats_get(0, &stats));
    /* end */
    CHECK(stats.memory > 0);
    /* example: pto_sim_fail pto_sim_repair */
    PTO_TRY(pto_sim_fail(0, PTO_SIM_FAIL_COPY, 3)); /* the third copy from now on fails */
    PTO_TRY(pto_sim_fail(0, PTO_SIM_FAIL_LOST, 1)); /* the device is lost at once */
    PTO_TRY(pto_sim_repair(0));                     /* all is well again */
    /* end */
    return PTO_OK;
}
