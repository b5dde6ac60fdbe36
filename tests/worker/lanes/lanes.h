/* lanes.h - a device that has the grid of an NVIDIA GPU on threads of the process: the code that nvcc compiles, with
 * 32 lanes in a warp (cuda_runtime.h), and the modules of tests/device/cuda/grid_kernels.cu. For one runtime at a time. */
#ifndef LANES_H
#define LANES_H

#include <pto/device.h>
#include <pto/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const pto_gpu_module grid_module, grid_small_module;

pto_status lanes_add_device(pto_device device);

#ifdef __cplusplus
}
#endif

#endif /* LANES_H */
