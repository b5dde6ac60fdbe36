/* A device that schedules for itself. The runtime of the example has no module of kernels. */
#include "example.h"

#include <pto/gpu.h>

static pto_status run(pto_runtime *rt)
{
    /* example: pto_gpu_kernel */
    pto_kernel scale;
    const pto_status s = pto_gpu_kernel(rt, "scale", PTO_VECTOR, &scale);
    if (s) {
        puts(pto_error_detail()); /* which kernels the module has, or that there is no module */
    }
    /* end */
    CHECK(s == PTO_BAD_CONFIG);
    return PTO_OK;
}
