/* header_examples.h - the names that the examples in the public headers use and do not declare.
 *
 * header_examples.sh compiles each example after this file. An example declares what it is about; a
 * runtime, tensors, kernels and plain numbers are here.
 */
#include <stdlib.h>

#include <pto/cache.h>
#include <pto/device.h>
#include <pto/dlpack.h>
#include <pto/embed.h>
#include <pto/execute.h>
#include <pto/gpu.h>
#include <pto/op.h>
#include <pto/process.h>
#include <pto/pto.h>
#include <pto/rearrange.h>
#include <pto/sim.h>
#include <pto/tensormap.h>
#include <pto/trace.h>
#include <pto/work.h>

extern pto_runtime *rt;
extern const pto_gpu_module my_module;
extern pto_kernel kernel, heat;
extern pto_task task;
extern const pto_call *call;
extern pto_tensor a, b, c, x, y, sum, whole, tile, old[], next[];
extern void *address;
extern int64_t n;
extern int k, step, tiles;

pto_status add_fn(const pto_call *), gemm(const pto_call *);
pto_status gemm_cpu(const pto_call *), gemm_sim(const pto_call *), scale_in_c(const pto_call *);
extern pto_map_visitor print_hit;
