/* load.h - NVIDIA GPUs, through a library that is loaded when one is first asked for. */
#ifndef PTOI_CUDA_LOAD_H
#define PTOI_CUDA_LOAD_H

#include <stdint.h>

#include <pto/status.h>

struct ptoi_cuda;
struct ptoi_cuda_api;

/* Loads libpto-cuda.so, adds the device nvidia:index unless the program has added one of that name,
 * and registers rearrange and fill for NVIDIA devices unless the program has. PTO_BAD_DEVICE if that is
 * not possible; the detail says what is missing. Any thread may call, any number of times. */
pto_status ptoi_cuda_load(int32_t index);

/* The functions of the loaded library, and an open device of it, for benches and tests; NULL if
 * nvidia:index is not open. */
const struct ptoi_cuda_api *ptoi_cuda_loaded(int32_t index, struct ptoi_cuda **device);

#endif /* PTOI_CUDA_LOAD_H */
