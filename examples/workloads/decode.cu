/* decode.cu - kernels of `decode` for a GPU that schedules for itself (pto/gpu.h): decode_block.h as CUDA.
 *
 * A module of its own: these kernels read much and compute little, so they want many threads in a block, each with
 * several loads under way.
 *
 * Pointers are not __restrict__: the compiler must not use the read-only cache, which knows nothing of
 * what other blocks have written since the launch.
 */
#include <pto/cuda.cuh>

#include "decode_block.h"

#ifndef THREADS
#define THREADS 256
#endif
#define SHARED_BYTES (110 * 1024)

static_assert(BLOCK_FLOATS * sizeof(float) <= SHARED_BYTES, "the kernels need more");
static_assert(THREADS <= BLOCK_MOST, "sums of squares have a place for each thread");

PTO_GPU_MODULE_OF(decode_module, THREADS, SHARED_BYTES, 1, decode_join, decode_embed, decode_project,
                  decode_attend, decode_mix, decode_feed, decode_feed_expert, decode_sum,
                  decode_sum_experts, decode_logits, decode_pick)
