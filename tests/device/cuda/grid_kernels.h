/* grid_kernels.h - modules of kernels for tests and benches of place gpu, in a library that is loaded
 * (grid_kernels.cu). */
#ifndef PTO_TEST_GRID_KERNELS_H
#define PTO_TEST_GRID_KERNELS_H

#include <pto/gpu.h>

#ifndef __cplusplus
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* "grid_module" or "grid_small_module". Ends the program if it cannot be loaded. */
static inline const pto_gpu_module *grid_module_load(const char *name)
{
    void *handle = dlopen("libpto-gpu-grid.so", RTLD_NOW);
    const pto_gpu_module *module = handle ? (const pto_gpu_module *)dlsym(handle, name) : NULL;
    if (!module) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return module;
}
#endif

#endif /* PTO_TEST_GRID_KERNELS_H */
