/* pto/gpu.h - a GPU that schedules for itself (place gpu).
 *
 * With config.place = PTO_PLACE_GPU, or PTO_SCHEDULER=gpu in the environment, one persistent grid on the
 * device takes the tasks that the program submits, resolves their dependencies and runs their kernels: no
 * kernel is launched for a task, and nothing on the host stands between a task and the next. The program
 * is the same as ever. Its kernels for the GPU are device functions of one block, in a file that nvcc
 * compiles; PTO_GPU_MODULE(my_module, scale) there lists them (pto/cuda.cuh). That module is part of the
 * configuration (docs/gpu.md has a whole program, and how it is compiled):
 *
 *     pto_config config = PTO_CONFIG_INIT;
 *     pto_kernel scale;
 *     config.place = PTO_PLACE_GPU;
 *     config.device = (pto_device){PTO_DEVICE_NVIDIA, 0};
 *     config.gpu_module = &my_module;
 *     PTO_TRY(pto_runtime_create(&rt, &config));
 *     PTO_TRY(pto_gpu_kernel(rt, "scale", PTO_VECTOR, &scale));
 *     PTO_TRY(pto_submit(rt, scale, pto_inout(&x), pto_scalar(2.0)));
 *
 * Tasks whose tensors are on cpu:0 run on workers of the host, in the same graph, and so do copies. The
 * orchestrating thread runs no kernel.
 *
 * On a simulated device (pto/sim.h) the grid is made of threads, from the same source, and kernels are the
 * ordinary C functions of pto_kernel_variant. No module is needed then, and pto_gpu_kernel registers a
 * kernel that has no variant yet:
 *
 *     PTO_TRY(pto_gpu_kernel(rt, "scale", PTO_VECTOR, &scale));
 *     PTO_TRY(pto_kernel_variant(rt, scale, PTO_DEVICE_SIM, scale_in_c, NULL));
 *
 * Every block runs CUBE and VECTOR tasks. With gpu_cube_workers (PTO_GPU_CUBE_WORKERS) so many blocks run
 * CUBE tasks only and the others VECTOR tasks only, so that long tasks of one type leave blocks to the
 * other.
 *
 * A GPU schedules for one runtime of the process at a time: PTO_BAD_DEVICE if there is another. (A simulated
 * device schedules for any number.)
 *
 * The grid leaves the GPU when it had nothing to do for a while (gpu_idle_us, PTO_GPU_IDLE_US), and comes
 * back with the next task. While it is there, calls that synchronize the whole device (cudaFree,
 * cudaDeviceSynchronize and others) wait until it leaves.
 */
#ifndef PTO_GPU_H
#define PTO_GPU_H

#include <pto/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels of a program, and the grid that runs them. PTO_GPU_MODULE (pto/cuda.cuh) makes one. The
 * functions belong to the module, so that they use the CUDA runtime that it was linked with. They return
 * 0, or a cudaError_t. */
typedef struct pto_gpu_module {
    size_t size;      /* sizeof(pto_gpu_module) */
    uint32_t version; /* of the grid: PTO_GPU_GRID_VERSION when the module was compiled */
    uint32_t n_kernels;
    const char *const *kernels; /* their names */
    uint32_t threads;           /* of a block: a multiple of 32 */
    /* Loads the code on the current device; *blocks: how many can be there at a time. */
    int (*prepare)(uint32_t *blocks);
    int (*launch)(const void *grid, uint32_t blocks, void *stream);
    const char *(*explain)(int error);
} pto_gpu_module;

#define PTO_GPU_GRID_VERSION 2u

/* Registers a kernel of config.gpu_module by its name. PTO_BAD_KERNEL: the module has none of that name.
 * pto_kernel_variant may add variants for other devices, and for a simulated one it has to. */
PTO_API PTO_MUST_CHECK pto_status pto_gpu_kernel(pto_runtime *rt, const char *name,
                                                 pto_worker_type type, pto_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif /* PTO_GPU_H */
