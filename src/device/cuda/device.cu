/* device.cu - NVIDIA GPUs as devices: opening, memory, order between streams, errors. Runs on the
 * host, on any thread. */
#include "device/cuda/device.cuh"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "op/rearrange/kernels.cuh"
#include "op/rearrange/launches.h"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            return error_;                                                                         \
        }                                                                                          \
    } while (0)

/* ---- Errors ------------------------------------------------------------------------------------ */

/* After these errors the context of the process is broken: nothing works on the device any more. */
static bool is_lost(cudaError_t error)
{
    switch (error) {
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

static void name_suspect(const suspect *s, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "%s", s->what);
    if (s->bytes) {
        snprintf(text + at, size - at, " of %" PRIu64 " bytes", s->bytes);
        return;
    }
    for (int32_t d = 0; d < s->tensor.ndim && at < size; d++) {
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, d ? ", " : " of [",
                               s->tensor.shape[d]);
    }
    if (at < size && s->tensor.ndim) {
        snprintf(text + at, size - at, "]");
    }
}

static void note_lost(ptoi_cuda *device, cudaError_t error)
{
    char suspects[240] = "", first[160];
    if (device->suspects) {
        name_suspect(&device->first, first, sizeof first);
        snprintf(suspects, sizeof suspects, "; %" PRIu64 " operation%s in progress, the first suspect "
                                            "is %s",
                 device->suspects, device->suspects == 1 ? " was" : "s were", first);
    }
    snprintf(device->lost, sizeof device->lost, "nvidia:%" PRId32 " is lost: %s (%s)%s",
             device->index, cudaGetErrorString(error), cudaGetErrorName(error), suspects);
}

pto_status ptoi_cuda_error(ptoi_cuda *device, cudaError_t error, const char *what)
{
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        size_t free_bytes = 0, all = 0;
        (void)cudaMemGetInfo(&free_bytes, &all);
        return device->fail(PTO_OUT_OF_MEMORY,
                            "nvidia:%" PRId32 ": %s: %zu of %zu bytes of the device are free",
                            device->index, what, free_bytes, all);
    }
    (void)cudaGetLastError();
    if (!device->lost[0] && is_lost(error)) {
        note_lost(device, error);
    }
    if (device->lost[0]) {
        return device->fail(PTO_DEVICE_LOST, "%s", device->lost);
    }
    return device->fail(PTO_KERNEL_FAILED, "nvidia:%" PRId32 ": %s: %s (%s)", device->index, what,
                        cudaGetErrorString(error), cudaGetErrorName(error));
}

pto_status ptoi_cuda_report(void *self, cudaError_t error, const char *what)
{
    ptoi_cuda *device = static_cast<ptoi_cuda *>(self);
    pthread_mutex_lock(&device->lock);
    const pto_status s = ptoi_cuda_error(device, error, what);
    pthread_mutex_unlock(&device->lock);
    return s;
}

pto_status ptoi_cuda_begin(ptoi_cuda *device, const char *what, const pto_tensor *tensor,
                           uint64_t bytes)
{
    if (device->lost[0]) {
        return device->fail(PTO_DEVICE_LOST, "%s", device->lost);
    }
    device->started++;
    if (device->suspects++ == 0) {
        device->first.what = what;
        device->first.bytes = bytes;
        if (tensor) {
            device->first.tensor = *tensor;
        }
    }
    return PTO_OK;
}

/* ---- Order ------------------------------------------------------------------------------------- */

cudaError_t ptoi_cuda_order(ptoi_cuda *device, int s)
{
    for (int other = 0; other < STREAMS; other++) {
        bool matters = s == WORK || other == WORK;
        if (other == s || !matters || device->seen[s][other]) {
            continue;
        }
        CHECK(cudaEventRecord(device->event[other], device->stream[other]));
        CHECK(cudaStreamWaitEvent(device->stream[s], device->event[other], 0));
        device->seen[s][other] = true;
    }
    device->busy[s] = true;
    for (int other = 0; other < STREAMS; other++) {
        device->seen[other][s] = false;
    }
    return cudaSuccess;
}

/* ---- The functions of a device ----------------------------------------------------------------- */

static pto_status alloc(void *self, uint64_t bytes, void **memory)
{
    ptoi_cuda *device = static_cast<ptoi_cuda *>(self);
    char what[64];
    pthread_mutex_lock(&device->lock);
    pto_status s = device->lost[0] ? device->fail(PTO_DEVICE_LOST, "%s", device->lost) : PTO_OK;
    if (!s) {
        cudaError_t e = cudaMalloc(memory, bytes);
        snprintf(what, sizeof what, "no %" PRIu64 " bytes", bytes);
        s = e ? ptoi_cuda_error(device, e, what) : PTO_OK;
    }
    pthread_mutex_unlock(&device->lock);
    return s;
}

static void release(void *self, void *memory, uint64_t bytes)
{
    (void)self;
    (void)bytes;
    (void)cudaFree(memory); /* waits for what is using it; of a lost device nothing is left to free */
    (void)cudaGetLastError();
}

static pto_status memory(void *self, uint64_t *bytes, uint64_t *used)
{
    ptoi_cuda *device = static_cast<ptoi_cuda *>(self);
    size_t free_bytes = 0, all = 0;
    pthread_mutex_lock(&device->lock);
    const cudaError_t e = cudaMemGetInfo(&free_bytes, &all); /* of the current device */
    const pto_status s = e ? ptoi_cuda_error(device, e, "cudaMemGetInfo") : PTO_OK;
    pthread_mutex_unlock(&device->lock);
    *bytes = all;
    *used = all - free_bytes;
    return s;
}

static pto_status set_current(void *self)
{
    ptoi_cuda *device = static_cast<ptoi_cuda *>(self);
    cudaError_t e = cudaSetDevice(device->index);
    return e && !device->lost[0] ? ptoi_cuda_error(device, e, "cudaSetDevice") : PTO_OK;
}

static pto_status synchronize(void *self)
{
    ptoi_cuda *device = static_cast<ptoi_cuda *>(self);
    bool busy[STREAMS];
    cudaError_t e = cudaSuccess;
    pthread_mutex_lock(&device->lock);
    if (device->lost[0]) {
        pto_status lost = device->fail(PTO_DEVICE_LOST, "%s", device->lost);
        pthread_mutex_unlock(&device->lock);
        return lost;
    }
    const uint64_t started = device->started;
    memcpy(busy, device->busy, sizeof busy);
    pthread_mutex_unlock(&device->lock);
    for (int s = 0; s < STREAMS && !e; s++) { /* without the lock: others may go on */
        e = busy[s] ? cudaStreamSynchronize(device->stream[s]) : cudaSuccess;
    }
    pthread_mutex_lock(&device->lock);
    pto_status status = e ? ptoi_cuda_error(device, e, "synchronize") : PTO_OK;
    const bool others = started != device->started; /* something was started meanwhile */
    if (!e && !others) {
        device->suspects = 0;
        memset(device->busy, 0, sizeof device->busy);
    }
    if (!e) {
        e = ptoi_cuda_land(device, others);
        status = e ? ptoi_cuda_error(device, e, "synchronize") : PTO_OK;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- Operators --------------------------------------------------------------------------------- */

struct launch {
    ptoi_cuda *device;
    cudaStream_t stream;
    char *to;
    const char *from;
    uint64_t element;
    const char *what;
    const pto_tensor *dst;
};

static pto_status launch_one(void *context, const ptoi_grid *grid, int64_t to, int64_t from)
{
    launch *l = static_cast<launch *>(context);
    cudaError_t e = ptoi_kernels_launch(grid, l->to + to, l->from ? l->from + from : nullptr,
                                        l->element, l->device->facts.major >= 9,
                                        l->stream);
    return e ? ptoi_cuda_error(l->device, e, l->what) : PTO_OK;
}

static pto_status start(ptoi_cuda *device, void *stream, const ptoi_grid_plan *plan, launch *l)
{
    pthread_mutex_lock(&device->lock);
    l->stream = stream ? static_cast<cudaStream_t>(stream) : device->stream[WORK];
    pto_status s = !stream          ? ptoi_cuda_begin(device, l->what, l->dst, 0)
                   : device->lost[0] ? device->fail(PTO_DEVICE_LOST, "%s", device->lost)
                                     : PTO_OK; /* of tasks the launcher knows the suspects */
    cudaError_t e = s || stream ? cudaSuccess : ptoi_cuda_order(device, WORK);
    s = s ? s : e ? ptoi_cuda_error(device, e, l->what) : PTO_OK;
    s = s ? s : ptoi_launch_all(plan, launch_one, l);
    pthread_mutex_unlock(&device->lock);
    return s;
}

static pto_status move(ptoi_cuda *device, void *stream, const ptoi_grid_plan *plan, void *to,
                       const void *from, const pto_tensor *dst)
{
    launch l = {device, nullptr, static_cast<char *>(to), static_cast<const char *>(from), 0,
                "rearrange", dst};
    return start(device, stream, plan, &l);
}

static pto_status fill(ptoi_cuda *device, void *stream, const ptoi_grid_plan *plan, void *to,
                       uint64_t element, const pto_tensor *dst)
{
    launch l = {device, nullptr, static_cast<char *>(to), nullptr, element, "fill", dst};
    return start(device, stream, plan, &l);
}

/* ---- Opening ----------------------------------------------------------------------------------- */

/* Says what is missing. */
static pto_status no_devices(ptoi_cuda_fail *fail, cudaError_t e)
{
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0) {
        return fail(PTO_BAD_DEVICE, "there is no NVIDIA driver here (libcuda.so.1): install one for "
                                    "CUDA %d.%d or newer",
                    runtime / 1000, runtime % 1000 / 10);
    }
    if (e == cudaErrorInsufficientDriver) {
        return fail(PTO_BAD_DEVICE,
                    "the NVIDIA driver is for CUDA %d.%d, and libpto-cuda.so needs %d.%d: install a "
                    "newer driver",
                    driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
    return fail(PTO_BAD_DEVICE, "the NVIDIA driver shows no GPU: %s (%s)", cudaGetErrorString(e),
                cudaGetErrorName(e));
}

static pto_status count(ptoi_cuda_fail *fail, int32_t *number)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    (void)cudaGetLastError();
    *number = n;
    return e || n == 0 ? no_devices(fail, e ? e : cudaErrorNoDevice) : PTO_OK;
}

static cudaError_t get_facts(int32_t index, ptoi_cuda_facts *facts)
{
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, index));
    snprintf(facts->name, sizeof facts->name, "%.120s", properties.name);
    facts->sms = (uint32_t)properties.multiProcessorCount;
    facts->bytes = properties.totalGlobalMem;
    facts->major = properties.major;
    facts->minor = properties.minor;
    return cudaSuccess;
}

/* The device is current. */
static cudaError_t prepare(ptoi_cuda *device)
{
    CHECK(ptoi_kernels_prepare());
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cudaStreamCreateWithFlags(&device->stream[s], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&device->event[s], cudaEventDisableTiming));
        for (int other = 0; other < STREAMS; other++) {
            device->seen[s][other] = true;
        }
    }
    return cudaSuccess;
}

static pto_status cannot_open(const ptoi_cuda *device, cudaError_t e)
{
    if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction) {
        return device->fail(PTO_BAD_DEVICE,
                            "nvidia:%" PRId32 ": this libpto-cuda.so was not compiled for %s, compute "
                            "capability %" PRId32 ".%" PRId32 ": build it with "
                            "-DPTO_CUDA_ARCHITECTURES=%" PRId32 "%" PRId32,
                            device->index, device->facts.name, device->facts.major,
                            device->facts.minor, device->facts.major, device->facts.minor);
    }
    return device->fail(PTO_BAD_DEVICE, "nvidia:%" PRId32 " cannot be opened: %s (%s)",
                        device->index, cudaGetErrorString(e), cudaGetErrorName(e));
}

enum { MOST_DEVICES = 64 };
static ptoi_cuda *opened[MOST_DEVICES];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static pto_status open_new(ptoi_cuda_fail *fail, int32_t index, ptoi_cuda **out)
{
    ptoi_cuda *device = static_cast<ptoi_cuda *>(calloc(1, sizeof *device));
    if (!device) {
        return fail(PTO_OUT_OF_MEMORY, "nvidia:%" PRId32 ": no %zu bytes", index, sizeof *device);
    }
    device->index = index;
    device->fail = fail;
    pthread_mutex_init(&device->lock, nullptr);
    int before = 0;
    (void)cudaGetDevice(&before);
    cudaError_t e = get_facts(index, &device->facts);
    e = e ? e : cudaSetDevice(index);
    e = e ? e : prepare(device);
    (void)cudaSetDevice(before);
    (void)cudaGetLastError();
    if (e) {
        pto_status s = cannot_open(device, e);
        free(device);
        return s;
    }
    *out = device;
    return PTO_OK;
}

static pto_status open_device(ptoi_cuda_fail *fail, int32_t index, ptoi_cuda **out,
                              pto_device_ops *ops, ptoi_cuda_facts *facts)
{
    int32_t n = 0;
    pto_status s = count(fail, &n);
    if (s) {
        return s;
    }
    if (index < 0 || index >= n || index >= MOST_DEVICES) {
        return fail(PTO_BAD_DEVICE, "nvidia:%" PRId32 ": the driver shows %" PRId32 " GPU%s, from "
                                    "nvidia:0 on",
                    index, n, n == 1 ? "" : "s");
    }
    pthread_mutex_lock(&opening);
    s = opened[index] ? PTO_OK : open_new(fail, index, &opened[index]);
    *out = opened[index];
    pthread_mutex_unlock(&opening);
    if (!s) {
        *facts = (*out)->facts;
        memset(ops, 0, sizeof *ops);
        ops->size = sizeof *ops;
        ops->self = *out;
        ops->alloc = alloc;
        ops->free = release;
        ops->copy_in = ptoi_cuda_copy_in;
        ops->copy_out = ptoi_cuda_copy_out;
        ops->set_current = set_current;
        ops->synchronize = synchronize;
        ops->memory = memory;
        ops->stream = (*out)->stream[WORK];
        ptoi_cuda_add_streams(ops);
        ptoi_cuda_add_grid(ops);
    }
    return s;
}

static int32_t get_index(const void *self)
{
    return static_cast<const ptoi_cuda *>(self)->index;
}

extern "C" __attribute__((visibility("default"))) const ptoi_cuda_api *pto_cuda_api(void)
{
    static const ptoi_cuda_api api = {sizeof(ptoi_cuda_api), sizeof(ptoi_grid_plan), PTO_VERSION,
                                      count, open_device, get_index, move, fill,
                                      ptoi_cuda_pin, ptoi_cuda_is_pinned, ptoi_cuda_follow,
                                      ptoi_cuda_carry};
    return &api;
}
