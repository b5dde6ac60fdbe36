/* kernels.h - kernels for tests and benches of tasks on NVIDIA GPUs, in a library that is loaded
 * (kernels.cu). */
#ifndef PTO_TEST_GPU_KERNELS_H
#define PTO_TEST_GPU_KERNELS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <pto/kernel.h>

typedef struct gpu_kernels {
    /* Variants of kernels. */
    pto_kernel_fn mix;     /* tests/device/launches.h */
    pto_kernel_fn nothing; /* an empty kernel */
    pto_kernel_fn spin;    /* the last argument: for how many ns */
    pto_kernel_fn wild;    /* writes where nothing is */
    pto_kernel_fn too_big; /* cannot be launched */
    /* By hand, on streams of its own: ns for each launch. */
    double (*launches)(int streams, int count);      /* of `nothing` */
    double (*spins)(int streams, int count, int ns); /* of `spin` */
    /* A chain on one stream, as a program would launch it: each launch is checked. */
    double (*chain)(int count, int ns);
    /* ns for each launch of `nothing` on one stream, with an event recorded every `record` launches and
     * queried every `query`, and another stream that waits for it every `wait`; 0: never. */
    double (*events)(int count, int record, int query, int wait);
} gpu_kernels;

/* The functions of the library that loads it. */
typedef struct gpu_kernels_need {
    pto_status (*fail)(pto_status status, const char *format, ...);
    pto_status (*complete)(pto_runtime *rt, pto_task task, pto_status status);
} gpu_kernels_need;

typedef const gpu_kernels *gpu_kernels_get_fn(const gpu_kernels_need *need);

#ifndef __cplusplus
/* Ends the program if it cannot be loaded. */
static inline const gpu_kernels *gpu_kernels_load(const char *library)
{
    static const gpu_kernels_need need = {pto_fail, pto_task_complete};
    void *handle = dlopen(library, RTLD_NOW);
    gpu_kernels_get_fn *get = handle ? (gpu_kernels_get_fn *)(uintptr_t)dlsym(handle,
                                                                              "gpu_kernels_get")
                                     : NULL;
    if (!get) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return get(&need);
}
#endif

#endif /* PTO_TEST_GPU_KERNELS_H */
