/* kernels.cuh - launches grid plans (grid.h) on a stream. For the device library only. */
#ifndef PTOI_KERNELS_CUH
#define PTOI_KERNELS_CUH

#include <cuda_runtime.h>

#include "op/rearrange/grid.h"

/* Prepares the kernels for the current device: loads them, and allows the shared memory that they
 * need. cudaErrorNoKernelImageForDevice: they were not compiled for this architecture. */
cudaError_t ptoi_kernels_prepare(void);

/* Starts one launch of a plan. `to` and `from` are the addresses of element [0, 0, ...]; FILL takes
 * `element`, repeated to 8 bytes, instead of `from`. `overlap`: blocks may
 * start before the launch before it on the stream ends (compute capability 9.0 and newer). */
cudaError_t ptoi_kernels_launch(const ptoi_grid *grid, char *to, const char *from,
                                uint64_t element, bool overlap, cudaStream_t stream);

#endif /* PTOI_KERNELS_CUH */
