#include "where.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <pto/device.h>
#include <pto/gpu.h>

#ifdef WORKLOADS_EMULATED
/* A test has compiled gpu.cu and decode.cu for the CPU (tests/tools/emulated). NULL: no such kernel. */
pto_kernel_fn workloads_module_emulated(const char *name);
pto_kernel_fn decode_module_emulated(const char *name);
#endif

pto_status workload_device(workload_job *job, const char *text, bool launched)
{
    job->elsewhere = strcmp(text, "none") != 0;
    if (!job->elsewhere) {
        return job->gpu ? pto_fail(PTO_BAD_PARAM, "--place gpu: which? --device names it") : PTO_OK;
    }
    PTO_TRY(pto_device_parse(text, &job->device));
    if (job->device.type == PTO_DEVICE_NVIDIA && !job->gpu && !launched) {
        return pto_fail(PTO_NOT_IMPLEMENTED, "--device %s: %s runs there with --place gpu only",
                        text, job->what->name);
    }
    return PTO_OK;
}

bool workload_other_kernels(const workload_job *job)
{
#ifdef WORKLOADS_EMULATED
    (void)job;
    return true;
#else
    return job->elsewhere && job->device.type == PTO_DEVICE_NVIDIA;
#endif
}

/* Finds a symbol of libpto-cuda.so. */
static pto_status find(pto_device device, const char *symbol, void **found)
{
    pto_device_ops ops;
    PTO_TRY(pto_device_get(device, &ops)); /* loads the library, or says why it cannot */
    void *library = dlopen("libpto-cuda.so", RTLD_NOW | RTLD_NOLOAD);
    *found = library ? dlsym(library, symbol) : NULL;
    return *found ? PTO_OK : pto_fail(PTO_NOT_IMPLEMENTED, "libpto-cuda.so has no %s", symbol);
}

static pto_status add_launcher(const workload_job *job, const char *name, pto_kernel kernel)
{
    typedef pto_kernel_fn find_fn(const char *, pto_status (*)(pto_status, const char *, ...));
    void *found;
    PTO_TRY(find(job->device, "pto_cuda_workload_kernel", &found));
    const pto_kernel_fn fn = ((find_fn *)(uintptr_t)found)(name, pto_fail);
    if (!fn) {
        return pto_fail(PTO_NOT_IMPLEMENTED, "kernel '%s': libpto-cuda.so has no variant of it",
                        name);
    }
    return pto_kernel_variant(job->rt, kernel, PTO_DEVICE_NVIDIA, fn, NULL);
}

pto_status workload_kernel(workload_job *job, const char *name, pto_worker_type type,
                           pto_kernel_fn fn, pto_kernel *kernel)
{
    const bool nvidia = job->elsewhere && job->device.type == PTO_DEVICE_NVIDIA;
    char full[80];
    (void)snprintf(full, sizeof full, "%s_%s", job->what->name, name);
    if (nvidia && job->gpu) {
        return pto_gpu_kernel(job->rt, full, type, kernel);
    }
#ifdef WORKLOADS_EMULATED
    fn = workloads_module_emulated(full) ? workloads_module_emulated(full)
         : decode_module_emulated(full)  ? decode_module_emulated(full)
                                         : fn;
#endif
    PTO_TRY(pto_kernel_register(job->rt, name, type, fn, NULL, kernel));
    if (job->elsewhere) { /* kernels of a simulated device are plain C, too */
        PTO_TRY(pto_kernel_variant(job->rt, *kernel, PTO_DEVICE_SIM, fn, NULL));
    }
    return nvidia ? add_launcher(job, full, *kernel) : PTO_OK;
}

pto_status workload_place_process(const workload_job *job)
{
    const char *remedy = "";
    for (size_t i = 0; i < job->what->n_options; i++) {
        if (!strcmp(job->what->options[i].name, "device")) {
            if (strcmp(job->text[i], "none") != 0) {
                return PTO_OK;
            }
            remedy = ": use --device cpu:0";
        }
    }
    return pto_fail(PTO_BAD_CONFIG,
                    "worker processes (place process) cannot reach the memory of %s%s",
                    job->what->name, remedy);
}

pto_status workload_place_gpu(const workload_job *job, pto_config *config)
{
    if (!job->elsewhere) {
        return pto_fail(PTO_BAD_CONFIG, "pto run %s does not run in place gpu", job->what->name);
    }
    config->device = job->device;
    if (job->device.type == PTO_DEVICE_NVIDIA) {
        const bool own = !strcmp(job->what->name, "decode"); /* examples/workloads/decode.cu */
        void *module;
        PTO_TRY(find(job->device, own ? "decode_module" : "workloads_module", &module));
        config->gpu_module = module;
    }
    return PTO_OK;
}
