/* grid.cu - what a GPU that schedules for itself needs of the host (pto/gpu.h): memory that both sides
 * use, and the launches of its grid. The grid itself is code of the program's module, which has a CUDA
 * runtime of its own; both use the primary context of the device. Runs on the host. */
#include "device/cuda/device.cuh"

#include <cinttypes>

#include <pto/gpu.h>

/* The stream of the grid, by the number of the device. It is made once, by the thread that prepares the first
 * grid, and read by others that this thread has started. There is one grid at a time on a device: a second one
 * would wait until the first is idle, and neither would see its own end. */
enum { MOST_GRIDS = 64 };
static cudaStream_t streams[MOST_GRIDS];
static bool taken[MOST_GRIDS]; /* by a runtime */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

/* ---- Memory of both sides ---- */

static pto_status share(void *self, void *memory, uint64_t bytes, void **there)
{
    cudaError_t e = cudaHostRegister(memory, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (e) {
        return ptoi_cuda_report(self, e, "memory of the host that the grid uses (cudaHostRegister)");
    }
    e = cudaHostGetDevicePointer(there, memory, 0);
    if (e) {
        (void)cudaHostUnregister(memory);
        return ptoi_cuda_report(self, e, "memory of the host that the grid uses (cudaHostGetDevicePointer)");
    }
    return PTO_OK;
}

static void unshare(void *, void *memory, uint64_t)
{
    (void)cudaHostUnregister(memory);
    (void)cudaGetLastError(); /* of a lost device nothing is left */
}

/* ---- The grid ---- */

/* Whether the module is one that this library can use. */
static pto_status check(const ptoi_cuda *device, const pto_gpu_module *module)
{
    if (module->size != sizeof *module || module->version != PTO_GPU_GRID_VERSION) {
        return device->fail(PTO_BAD_CONFIG,
                            "config.gpu_module: it was compiled with another pto/cuda.cuh (%zu bytes, "
                            "grid version %" PRIu32 "; here %zu and %" PRIu32 "): compile it again",
                            module->size, module->version, sizeof *module, PTO_GPU_GRID_VERSION);
    }
    if (module->threads % 32 || module->threads == 0 || module->threads > 1024 ||
        module->n_kernels == 0 || !module->kernels || !module->prepare || !module->launch ||
        !module->explain) {
        return device->fail(PTO_BAD_CONFIG,
                            "config.gpu_module: blocks of %" PRIu32 " threads and %" PRIu32
                            " kernels: it was not made by PTO_GPU_MODULE",
                            module->threads, module->n_kernels);
    }
    return PTO_OK;
}

static pto_status refused(const ptoi_cuda *device, const pto_gpu_module *module, int e)
{
    if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction) {
        return device->fail(PTO_BAD_DEVICE,
                            "config.gpu_module was not compiled for %s, compute capability %" PRId32
                            ".%" PRId32 ": nvcc -arch=sm_%" PRId32 "%" PRId32,
                            device->facts.name, device->facts.major, device->facts.minor,
                            device->facts.major, device->facts.minor);
    }
    return device->fail(PTO_BAD_DEVICE, "config.gpu_module cannot be loaded on nvidia:%" PRId32 ": %s",
                        device->index, module->explain(e));
}

/* The same for a device that no runtime has. */
static pto_status prepare(ptoi_cuda *device, const pto_gpu_module *module, uint32_t *blocks)
{
    int cooperative = 0;
    cudaError_t e = cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device->index);
    if (!e && !cooperative) {
        return device->fail(PTO_BAD_DEVICE, "nvidia:%" PRId32 ": %s has no cooperative launch",
                            device->index, device->facts.name);
    }
    if (!e && !streams[device->index]) {
        e = cudaStreamCreateWithFlags(&streams[device->index], cudaStreamNonBlocking);
    }
    if (e) {
        return ptoi_cuda_report(device, e, "the stream of the grid");
    }
    const int refusal = module->prepare(blocks);
    if (refusal) {
        return refused(device, module, refusal);
    }
    if (*blocks == 0) {
        return device->fail(PTO_BAD_CONFIG,
                            "config.gpu_module: a block of %" PRIu32 " threads does not fit on a "
                            "multiprocessor of %s: it needs fewer registers or less shared memory",
                            module->threads, device->facts.name);
    }
    return PTO_OK;
}

static pto_status grid_prepare(void *self, const pto_gpu_module *module, uint32_t *blocks)
{
    ptoi_cuda *device = static_cast<ptoi_cuda *>(self);
    pto_status s = check(device, module);
    if (s) {
        return s;
    }
    (void)pthread_mutex_lock(&taking);
    s = taken[device->index]
            ? device->fail(PTO_BAD_DEVICE,
                           "nvidia:%" PRId32 " already schedules for another runtime of this process: destroy "
                           "that one first, or use another device",
                           device->index)
            : prepare(device, module, blocks);
    taken[device->index] = taken[device->index] || !s;
    (void)pthread_mutex_unlock(&taking);
    return s;
}

static void grid_release(void *self)
{
    (void)pthread_mutex_lock(&taking);
    taken[static_cast<const ptoi_cuda *>(self)->index] = false;
    (void)pthread_mutex_unlock(&taking);
}

static pto_status grid_launch(void *self, const pto_gpu_module *module, const void *grid,
                              uint32_t blocks)
{
    const ptoi_cuda *device = static_cast<const ptoi_cuda *>(self);
    const int e = module->launch(grid, blocks, streams[device->index]);
    return e ? ptoi_cuda_report(self, static_cast<cudaError_t>(e), "the launch of the grid") : PTO_OK;
}

static pto_status grid_ended(void *self, bool *ended)
{
    const ptoi_cuda *device = static_cast<const ptoi_cuda *>(self);
    const cudaError_t e = cudaStreamQuery(streams[device->index]);
    *ended = e == cudaSuccess;
    if (e == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return PTO_OK;
    }
    return e ? ptoi_cuda_report(self, e, "the grid") : PTO_OK;
}

void ptoi_cuda_add_grid(pto_device_ops *ops)
{
    ops->share = share;
    ops->unshare = unshare;
    ops->grid_prepare = grid_prepare;
    ops->grid_launch = grid_launch;
    ops->grid_ended = grid_ended;
    ops->grid_release = grid_release;
}
