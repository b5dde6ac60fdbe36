/* cuda.cuh - pto/cuda.cuh for a CPU: a block is BLOCK_THREADS threads of the process. It has what gpu.cu
 * uses, so that its kernels are tested without a GPU: their arithmetic, and whether they work with any
 * number of threads. (What a warp does in step is not the same: threads here are slower and less alike.) */
#ifndef EMULATED_CUDA_CUH
#define EMULATED_CUDA_CUH

#include <pto/pto.h>

#include <pthread.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

#ifndef BLOCK_THREADS
#define BLOCK_THREADS 3 /* divides nothing */
#endif

#define __device__
#define __forceinline__ inline

struct block_index {
    unsigned x;
};

static thread_local block_index threadIdx;
static const block_index blockDim = {BLOCK_THREADS};

/* The block that a thread belongs to. */
struct block {
    pthread_barrier_t barrier;
    const pto_call *call;
    std::vector<unsigned char> shared;
    pto_status status = PTO_OK;
    const char *text = "";
};

static thread_local block *current;

static inline void __syncthreads()
{
    (void)pthread_barrier_wait(&current->barrier);
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fmul_rn(float a, float b)
{
    return a * b;
}

class pto_gpu_call
{
  public:
    template <class T> T *arg(uint32_t i) const { return static_cast<T *>(at(i).data); }
    int64_t shape(uint32_t i, int32_t d) const { return at(i).shape[d]; }
    int64_t stride(uint32_t i, int32_t d) const { return at(i).strides[d]; }
    int32_t ndim(uint32_t i) const { return at(i).ndim; }
    uint32_t n_args() const { return current->call->n_args; }

    template <class T> T scalar(uint32_t i) const
    {
        return std::is_floating_point<T>::value ? static_cast<T>(pto_arg_f64(&at(i)))
                                                : static_cast<T>(pto_arg_i64(&at(i)));
    }

    template <class T = unsigned char> T *shared() const
    {
        return reinterpret_cast<T *>(current->shared.data());
    }

    void fail(pto_status status, const char *text) const
    {
        current->status = status;
        current->text = text;
    }

  private:
    static const pto_arg &at(uint32_t i) { return current->call->args[i]; }
};

#define PTO_GPU_KERNEL(name_)                                                                      \
    struct name_ {                                                                                 \
        static constexpr const char *name = #name_;                                                \
        static void run(const pto_gpu_call &call);                                                 \
    };                                                                                             \
    inline void name_::run([[maybe_unused]] const pto_gpu_call &call)

/* A task: all threads of the block run the kernel. */
template <class kernel, uint32_t shared_bytes> static pto_status run_block(const pto_call *call)
{
    block b;
    b.call = call;
    b.shared.assign(shared_bytes, 0xff); /* NaN: nothing is there yet */
    (void)pthread_barrier_init(&b.barrier, nullptr, BLOCK_THREADS);
    const auto run = [&b](unsigned i) {
        threadIdx.x = i;
        current = &b;
        kernel::run(pto_gpu_call());
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < BLOCK_THREADS; i++) {
        others.emplace_back(run, i);
    }
    run(0);
    for (std::thread &other : others) {
        other.join();
    }
    (void)pthread_barrier_destroy(&b.barrier);
    return b.status ? pto_fail(b.status, "%s", b.text) : PTO_OK;
}

template <uint32_t shared_bytes, class... kernels> struct emulated_module {
    static pto_kernel_fn find(const char *name)
    {
        pto_kernel_fn found = nullptr;
        (void)((!strcmp(name, kernels::name) && (found = run_block<kernels, shared_bytes>)) || ...);
        return found;
    }
};

/* Instead of a module: the kernel of a name. See where.c. */
#define PTO_GPU_MODULE_OF(name_, threads, shared_bytes, blocks_per_sm, ...)                        \
    extern "C" pto_kernel_fn name_##_emulated(const char *name);                                   \
    extern "C" pto_kernel_fn name_##_emulated(const char *name)                                    \
    {                                                                                              \
        return emulated_module<shared_bytes, __VA_ARGS__>::find(name);                             \
    }

#endif /* EMULATED_CUDA_CUH */
