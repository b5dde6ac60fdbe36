/* pto/cuda.cuh - kernels for a GPU that schedules for itself (pto/gpu.h), in CUDA C++17.
 *
 * A kernel is a device function that all threads of one block carry out. There is no launch: a block of
 * the grid takes the next task that is ready, calls its kernel, and takes another.
 *
 *     #include <pto/cuda.cuh>
 *
 *     PTO_GPU_KERNEL(scale)                            // inout float32[1] x, scalar factor
 *     {
 *         float *x = call.arg<float>(0);
 *         const float factor = call.scalar<float>(1);
 *         for (int64_t i = threadIdx.x; i < call.shape(0, 0); i += blockDim.x) {
 *             x[i * call.stride(0, 0)] *= factor;
 *         }
 *     }
 *
 *     PTO_GPU_MODULE(my_module, scale)                 // once, after all kernels that it lists
 *
 * nvcc compiles the file with -std=c++17; the program links it, or loads it as a shared object, and sets
 * config.gpu_module = &my_module. In C: extern const pto_gpu_module my_module.
 *
 * What a kernel may do: anything that a block can, and __syncthreads as long as all threads of the block
 * reach it. Threads may return early. blockIdx and gridDim mean nothing to it. Other blocks write the
 * memory that it reads, before it begins and not in another launch, so it must not read tensors through
 * __ldg or ld.global.nc. A task needs no synchronization with others beyond its arguments.
 *
 * Registers, shared memory and the size of a block are those of the module, so of its most demanding
 * kernel: put kernels of different kinds into modules of different programs.
 */
#ifndef PTO_CUDA_CUH
#define PTO_CUDA_CUH

#include <cuda_runtime.h>
#include <type_traits>
#include <pto/gpu.h>

#if defined(__cplusplus) && __cplusplus < 201703L
#error "pto/cuda.cuh needs C++17: nvcc -std=c++17"
#endif

/* Arguments that are kept in shared memory. Further ones are found in slower memory at each use. */
#define PTO_GPU_ARGS 16

/* ---- The task of a block ---- */

/* The layout of an argument, as the grid has it. */
struct pto_gpu_layout {
    int32_t ndim;
    pto_dtype dtype;
    pto_device device;
    uint64_t dense, unused;
    int64_t dims[2 * PTO_MAX_DIMS]; /* ndim sizes, then ndim strides */
};

/* In shared memory. Written by the first warp before the kernel begins. */
struct pto_gpu_box {
    uint64_t value[PTO_GPU_ARGS]; /* address of a tensor, or a scalar */
    alignas(16) pto_gpu_layout layout[PTO_GPU_ARGS];
    const void *grid, *args; /* for further arguments */
    uint64_t task;
    uint32_t n_args;
    uint32_t kernel; /* its number in the module */
    uint32_t state;  /* of the block: scheduler/grid.cuh */
    int status;      /* call.fail; 0: the kernel did not call it */
    alignas(8) char text[256];
};

static __device__ __forceinline__ pto_gpu_box &pto_gpu_block()
{
    __shared__ pto_gpu_box box;
    return box;
}

/* An argument as the grid has it; layout NULL: a scalar of that dtype. */
struct pto_gpu_found {
    uint64_t value;
    const pto_gpu_layout *layout;
    pto_dtype dtype;
};

static __device__ __noinline__ pto_gpu_found pto_gpu_find(uint32_t i);
static __device__ __forceinline__ bool pto_gpu_is_cancelled();

/* The parameter `call` of a kernel. */
class pto_gpu_call
{
  public:
    /* The first element of a tensor. */
    template <class T> __device__ __forceinline__ T *arg(uint32_t i) const
    {
        return reinterpret_cast<T *>(value(i));
    }

    __device__ __forceinline__ int32_t ndim(uint32_t i) const
    {
        return i < PTO_GPU_ARGS ? pto_gpu_block().layout[i].ndim : further(i).ndim;
    }

    __device__ __forceinline__ pto_dtype dtype(uint32_t i) const
    {
        return i < PTO_GPU_ARGS ? pto_gpu_block().layout[i].dtype : pto_gpu_find(i).dtype;
    }

    /* Size of dimension d, and the distance between neighbours there, both in elements. */
    __device__ __forceinline__ int64_t shape(uint32_t i, int32_t d) const
    {
        return i < PTO_GPU_ARGS ? pto_gpu_block().layout[i].dims[d] : further(i).dims[d];
    }

    __device__ __forceinline__ int64_t stride(uint32_t i, int32_t d) const
    {
        return shape(i, ndim(i) + d);
    }

    /* A scalar, whatever type it was submitted as. */
    template <class T> __device__ __forceinline__ T scalar(uint32_t i) const
    {
        const uint64_t bits = value(i);
        const pto_dtype type = dtype(i);
        if (type == PTO_FLOAT64) {
            return static_cast<T>(__longlong_as_double(static_cast<long long>(bits)));
        }
        if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(bits); /* signed or not, the lower bits are the same */
        }
        return type == PTO_UINT64 ? static_cast<T>(bits) : static_cast<T>(static_cast<int64_t>(bits));
    }

    __device__ __forceinline__ uint32_t n_args() const
    {
        return pto_gpu_block().n_args;
    }

    /* The shared memory that the module asked for, at a multiple of 1024 bytes. */
    template <class T = unsigned char> __device__ __forceinline__ T *shared() const
    {
        extern __shared__ __align__(1024) unsigned char pto_gpu_dynamic[];
        return reinterpret_cast<T *>(pto_gpu_dynamic);
    }

    __device__ __forceinline__ uint64_t task() const
    {
        return pto_gpu_block().task;
    }

    /* Whether the runtime was cancelled: a long kernel may end early, with fail(PTO_CANCELLED, ""). */
    __device__ __forceinline__ bool cancelled() const
    {
        return pto_gpu_is_cancelled();
    }

    /* The task fails when the kernel has returned; tasks that depend on it are skipped. Any thread may
     * call it. Of several calls in a task, one counts. Of the text, 255 characters are kept. */
    __device__ __noinline__ void fail(pto_status status, const char *text) const
    {
        pto_gpu_box &box = pto_gpu_block();
        if (status && atomicCAS(&box.status, 0, static_cast<int>(status)) == 0) {
            uint32_t i = 0;
            for (; text[i] && i < sizeof box.text - 1; i++) {
                box.text[i] = text[i];
            }
            for (; i < sizeof box.text; i++) { /* it is copied as words */
                box.text[i] = '\0';
            }
        }
    }

  private:
    __device__ __forceinline__ uint64_t value(uint32_t i) const
    {
        return i < PTO_GPU_ARGS ? pto_gpu_block().value[i] : pto_gpu_find(i).value;
    }

    __device__ __forceinline__ const pto_gpu_layout &further(uint32_t i) const
    {
        return *pto_gpu_find(i).layout;
    }
};

/* ---- Kernels and modules ---- */

/* Defines a kernel. Its name is also that of a type. */
#define PTO_GPU_KERNEL(name_)                                                                      \
    struct name_ {                                                                                 \
        static constexpr const char *name = #name_;                                                \
        static __device__ void run(const pto_gpu_call &call);                                      \
    };                                                                                             \
    __device__ __forceinline__ void name_::run([[maybe_unused]] const pto_gpu_call &call)

/* Defines a module with these kernels: blocks of 256 threads, one on each multiprocessor, without shared
 * memory for kernels. */
#define PTO_GPU_MODULE(name, ...) PTO_GPU_MODULE_OF(name, 256, 0, 1, __VA_ARGS__)

/* The same with blocks of so many threads (a multiple of 32, up to 1024), so many bytes of shared memory
 * for the kernel that runs on a block, and so many blocks on each multiprocessor. */
#define PTO_GPU_MODULE_OF(name, threads, shared_bytes, blocks_per_sm, ...)                         \
    extern "C" {                                                                                   \
    extern PTO_API const pto_gpu_module name;                                                      \
    const pto_gpu_module name =                                                                    \
        pto_gpu_module_of<threads, shared_bytes, blocks_per_sm, __VA_ARGS__>::module;              \
    }

/* ---- The grid ---- */

/* Code of the device alone: the host's compiler sees none of it. */
#ifdef __CUDA_ARCH__
#include <pto/grid.cuh>
#else
static __device__ __noinline__ pto_gpu_found pto_gpu_find(uint32_t)
{
    return {};
}
static __device__ __forceinline__ bool pto_gpu_is_cancelled()
{
    return false;
}
#endif

/* Calls the kernel of a number in the list. */
template <class... kernels> struct pto_gpu_kernels {
    static __device__ __forceinline__ void run(uint32_t number)
    {
        const pto_gpu_call call;
        uint32_t at = 0;
        (void)((number == at++ && (kernels::run(call), true)) || ...);
    }
};

template <uint32_t threads, uint32_t blocks_per_sm, class... kernels>
__global__ void __launch_bounds__(threads, blocks_per_sm) pto_gpu_grid([[maybe_unused]] const void *grid)
{
#ifdef __CUDA_ARCH__
    ptoi_block_run<pto_gpu_kernels<kernels...>>(grid);
#endif
}

template <uint32_t threads, uint32_t shared_bytes, uint32_t blocks_per_sm, class... kernels>
struct pto_gpu_module_of {
    static_assert(threads % 32 == 0 && threads >= 32 && threads <= 1024,
                  "a block has 32 to 1024 threads, in whole warps");
    static_assert(blocks_per_sm >= 1, "a multiprocessor has a block at least");
    static_assert(sizeof...(kernels) >= 1, "a module has a kernel at least");

    static const void *code()
    {
        return reinterpret_cast<const void *>(&pto_gpu_grid<threads, blocks_per_sm, kernels...>);
    }

    static int prepare(uint32_t *blocks)
    {
        cudaFuncAttributes attributes;
        int fit = 0, device = 0, sms = 0;
        cudaError_t e = cudaFuncGetAttributes(&attributes, code()); /* loads the code */
        e = e ? e : cudaFuncSetAttribute(code(), cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
        e = e ? e : cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, code(), threads, shared_bytes);
        e = e ? e : cudaGetDevice(&device);
        e = e ? e : cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
        const uint32_t each = static_cast<uint32_t>(fit);
        *blocks = (each < blocks_per_sm ? each : blocks_per_sm) * static_cast<uint32_t>(sms);
        return e;
    }

    static int launch(const void *grid, uint32_t blocks, void *stream)
    {
        void *arguments[] = {&grid};
        return cudaLaunchCooperativeKernel(code(), dim3(blocks), dim3(threads), arguments, shared_bytes,
                                           static_cast<cudaStream_t>(stream));
    }

    static const char *explain(int error)
    {
        return cudaGetErrorString(static_cast<cudaError_t>(error));
    }

    static constexpr const char *names[] = {kernels::name...};
    static constexpr pto_gpu_module module = {sizeof(pto_gpu_module), PTO_GPU_GRID_VERSION,
                                              sizeof...(kernels),     names,
                                              threads,                prepare,
                                              launch,                 explain};
};

#endif /* PTO_CUDA_CUH */
