/* grid_kernels.cu - a module of kernels for tests and benches of place gpu (grid_kernels.h). */
#include "grid_kernels.h"

#include <pto/cuda.cuh>

static __device__ __forceinline__ uint64_t clock_ns()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Elements of a dense or strided tensor of any number of dims, spread over the threads of the block. */
static __device__ __forceinline__ int64_t count_of(const pto_gpu_call &call, uint32_t i)
{
    int64_t n = 1;
    for (int32_t d = 0; d < call.ndim(i); d++) {
        n *= call.shape(i, d);
    }
    return n;
}

static __device__ __forceinline__ int64_t place_of(const pto_gpu_call &call, uint32_t i, int64_t element)
{
    int64_t at = 0;
    for (int32_t d = call.ndim(i) - 1; d >= 0; d--) {
        at += element % call.shape(i, d) * call.stride(i, d);
        element /= call.shape(i, d);
    }
    return at;
}

/* Nothing: for dispatch alone. */
PTO_GPU_KERNEL(grid_empty)
{
}

/* out float32 x, scalar value */
PTO_GPU_KERNEL(grid_set)
{
    float *x = call.arg<float>(0);
    const float value = call.scalar<float>(1);
    for (int64_t i = threadIdx.x, n = count_of(call, 0); i < n; i += blockDim.x) {
        x[place_of(call, 0, i)] = value;
    }
}

/* in float32 a, in float32 b, out float32 c */
PTO_GPU_KERNEL(grid_add)
{
    const float *a = call.arg<const float>(0), *b = call.arg<const float>(1);
    float *c = call.arg<float>(2);
    for (int64_t i = threadIdx.x, n = count_of(call, 2); i < n; i += blockDim.x) {
        c[place_of(call, 2, i)] = a[place_of(call, 0, i)] + b[place_of(call, 1, i)];
    }
}

/* inout float32 y, in float32 x, scalar a: y += a x */
PTO_GPU_KERNEL(grid_axpy)
{
    float *y = call.arg<float>(0);
    const float *x = call.arg<const float>(1);
    const float a = call.scalar<float>(2);
    for (int64_t i = threadIdx.x, n = count_of(call, 0); i < n; i += blockDim.x) {
        y[place_of(call, 0, i)] += a * x[place_of(call, 1, i)];
    }
}

/* scalar salt, scalar keep, scalar fails, out or inout uint64 x, then up to 28 inputs of the same size:
 * each element depends on all that was read and on the order in which tasks ran. Fails afterwards if it
 * was told to. */
static __device__ __forceinline__ uint64_t mixed(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

PTO_GPU_KERNEL(grid_mix)
{
    uint64_t *x = call.arg<uint64_t>(3);
    const uint64_t salt = call.scalar<uint64_t>(0), keep = call.scalar<uint64_t>(1);
    const int64_t n = count_of(call, 3);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        uint64_t *mine = &x[place_of(call, 3, i)];
        uint64_t h = mixed(salt, keep ? *mine : static_cast<uint64_t>(i));
        for (uint32_t k = 4; k < call.n_args(); k++) {
            h = mixed(h, call.arg<const uint64_t>(k)[place_of(call, k, i)]);
        }
        *mine = h;
    }
    if (call.scalar<uint64_t>(2) && threadIdx.x == blockDim.x - 1) {
        call.fail(PTO_KERNEL_FAILED, "was to fail");
    }
}

/* scalar status: fails with it */
PTO_GPU_KERNEL(grid_fail)
{
    if (threadIdx.x == 33 % blockDim.x) {
        call.fail(static_cast<pto_status>(call.scalar<int32_t>(call.n_args() - 1)),
                  "this kernel always fails");
    }
}

/* ..., scalar ns: runs so long, or until the runtime is cancelled */
PTO_GPU_KERNEL(grid_spin)
{
    const uint64_t begin = clock_ns(), ns = call.scalar<uint64_t>(call.n_args() - 1);
    while (clock_ns() - begin < ns) {
        if (call.cancelled()) {
            call.fail(PTO_CANCELLED, "");
            return;
        }
    }
}

/* ..., scalar address: stores a number in memory of the host that the device can write */
PTO_GPU_KERNEL(grid_flag)
{
    if (threadIdx.x == 0) {
        const uint32_t last = call.n_args() - 1;
        uint64_t *flag = reinterpret_cast<uint64_t *>(call.scalar<uint64_t>(last - 1));
        const uint64_t number = call.scalar<uint64_t>(last);
        asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(flag), "l"(number) : "memory");
    }
}

/* Writes where nothing is: the device is lost. */
PTO_GPU_KERNEL(grid_wild)
{
    *reinterpret_cast<volatile uint64_t *>(0x10000) = 1;
}

PTO_GPU_MODULE(grid_module, grid_empty, grid_set, grid_add, grid_axpy, grid_mix, grid_fail, grid_spin,
               grid_flag, grid_wild)

/* Small blocks, several on each multiprocessor, and shared memory. */
PTO_GPU_KERNEL(grid_reverse) /* inout float32[1] x, of at most 8192 elements, dense */
{
    float *x = call.arg<float>(0), *copy = call.shared<float>();
    const int64_t n = call.shape(0, 0);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        copy[i] = x[i];
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        x[i] = copy[n - 1 - i];
    }
}

PTO_GPU_MODULE_OF(grid_small_module, 64, 8192 * sizeof(float), 2, grid_empty, grid_set, grid_mix,
                  grid_reverse)
