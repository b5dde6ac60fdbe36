/* gpu.c - kernels of a device that schedules for itself (pto/gpu.h). */
#include <pto/gpu.h>
#include <pto/pto.h>

#include <string.h>

#include "base/error.h"
#include "orchestrator/mirror.h"
#include "orchestrator/runtime.h"

/* The kernel of the host. No task is given to it: it is no variant for cpu:0. */
static pto_status not_on_the_host(const pto_call *call)
{
    (void)call;
    return ptoi_fail(PTO_NOT_IMPLEMENTED, "this kernel is for a GPU");
}

/* The variant for the device: kernel number `at` of its module. */
static pto_status add_variant(pto_runtime *rt, pto_kernel kernel, uint32_t number, uint32_t at)
{
    const pto_device_type device = rt->settings.config.device.type;
    PTO_TRY(pto_kernel_variant(rt, kernel, device, not_on_the_host, NULL));
    const uint32_t variant = rt->kernels[number].variant[device];
    rt->view.codes[variant].address = at + UINT64_C(1);
    return ptoi_mirror_log_kernel(rt, variant);
}

pto_status pto_gpu_kernel(pto_runtime *rt, const char *name, pto_worker_type type,
                          pto_kernel *kernel)
{
    PTO_TRY(ptoi_runtime_enter(rt, "register a kernel of a GPU"));
    const struct pto_gpu_module *module = rt->settings.config.gpu_module;
    if (!name || !kernel) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "register a kernel of a GPU: %s is NULL",
                         name ? "kernel" : "name");
    }
    /* On a simulated device the grid calls C functions: the variant that the program adds. */
    const bool of_threads = rt->mirrored && !rt->devices[rt->home].ops.grid_launch;
    if (!rt->mirrored || (!module && !of_threads)) {
        return ptoi_fail(
            PTO_BAD_CONFIG,
            "register a kernel of a GPU: '%s': the runtime has no module: create it with "
            "place = PTO_PLACE_GPU and gpu_module (pto/gpu.h)",
            name);
    }
    if (type != PTO_CUBE && type != PTO_VECTOR) {
        return ptoi_fail(PTO_BAD_WORKER,
                         "register a kernel of a GPU: '%s': type %d: blocks of a grid are cube and "
                         "vector workers",
                         name, (int)type);
    }
    uint32_t at = 0;
    while (module && at < module->n_kernels && strcmp(module->kernels[at], name) != 0) {
        at++;
    }
    if (module && at == module->n_kernels) {
        return ptoi_fail(
            PTO_BAD_KERNEL,
            "register a kernel of a GPU: the module has no '%s' among its %u kernels: add "
            "it to PTO_GPU_MODULE",
            name, module->n_kernels);
    }
    PTO_TRY(pto_kernel_register(rt, name, type, not_on_the_host, NULL, kernel));
    const uint32_t number = (uint32_t)(*kernel ^ rt->first_kernel);
    if (!of_threads) {
        PTO_TRY(add_variant(rt, *kernel, number, at));
    }
    rt->kernels[number].variant[PTO_DEVICE_CPU] = 0;
    return PTO_OK;
}
