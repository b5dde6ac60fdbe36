/* load.c - loads libpto-cuda.so, and its operators: checks and plans here, kernels there. */
#define _GNU_SOURCE /* dladdr */
#include "device/cuda/load.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <pto/pto.h>
#include <pto/rearrange.h>

#include "base/atomic.h"
#include "base/error.h"
#include "device/cuda/api.h"
#include "device/transfer.h"
#include "op/fill.h"
#include "op/op.h"
#include "op/rearrange/rearrange.h"

static const char library[] = "libpto-cuda.so";

/* An open device. */
typedef struct gpu {
    ptoi_cuda *device;
    pto_device_ops ops;
    ptoi_cuda_facts facts;
    ptoi_transfer *copies;
} gpu;

enum { MOST_GPUS = 64 };

/* Written under the lock; a gpu is complete before `ready` is stored (release), and read after it was
 * loaded (acquire). */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const ptoi_cuda_api *api;
static gpu gpus[MOST_GPUS];
static ptoi_a64 ready[MOST_GPUS];

/* ---- Operators --------------------------------------------------------------------------------- */

/* The GPU of a call. The operators are registered for all NVIDIA devices, but one that the program
 * added is not ours. */
static pto_status find_gpu(const pto_op_call *call, const gpu **found)
{
    int32_t index = call->device.index;
    if (index >= MOST_GPUS || !ptoi_acquire64(&ready[index])) {
        PTO_TRY(ptoi_cuda_load(index));
    }
    pto_device_ops ops;
    PTO_TRY(pto_device_get(call->device, &ops));
    if (ops.self != gpus[index].ops.self) {
        return ptoi_fail(PTO_NOT_IMPLEMENTED,
                         "%s: no implementation for nvidia:%" PRId32
                         ": the program has added that device itself",
                         pto_op_name(call->op), index);
    }
    *found = &gpus[index];
    return pto_device_set_current(call->device);
}

static const gpu *gpu_of(const void *self)
{
    return &gpus[api->index(self)];
}

/* A task works on its own stream. Otherwise it is that of the device: NULL. */
static void *stream_of(const pto_op_call *call)
{
    return call->rt ? call->stream : NULL;
}

/* Starts a copy within a GPU. */
static pto_status move_within(const gpu *g, void *stream, const pto_tensor *to,
                              const pto_tensor *from)
{
    static const ptoi_who who = PTOI_WHO("rearrange");
    ptoi_move move;
    PTO_TRY(ptoi_rearrange_prepare_gpu(&who, to, from, g->facts.sms, &move));
    if (!move.plan) {
        return PTO_OK;
    }
    const ptoi_gpu_plan *plan = (const ptoi_gpu_plan *)move.plan; /* its first member */
    return api->move(g->device, stream, &plan->grid, move.to, move.from, to);
}

static pto_status rearrange_nvidia(const pto_op_call *call)
{
    const gpu *g = NULL;
    if (call->n_outputs != 1 || call->n_inputs != 1) {
        return ptoi_fail(PTO_BAD_PARAM, "rearrange: %zu outputs and %zu inputs; it takes 1 and 1",
                         call->n_outputs, call->n_inputs);
    }
    PTO_TRY(find_gpu(call, &g));
    return move_within(g, stream_of(call), call->outputs, call->inputs);
}

/* Starts a fill. The bytes of `element` are the low ones. */
static pto_status fill_within(const gpu *g, void *stream, const pto_tensor *dst, uint64_t element)
{
    const uint32_t size = (uint32_t)pto_dtype_size(dst->dtype);
    ptoi_grid_plan plan;
    for (uint32_t bits = size * 8; bits < 64; bits *= 2) {
        element |= element << bits; /* repeated to 8 bytes */
    }
    char *to = (char *)dst->storage + dst->offset * (int64_t)size;
    ptoi_grid_make_fill(&plan, dst->ndim, dst->shape, dst->strides, size, (uintptr_t)to);
    return api->fill(g->device, stream, &plan, to, element, dst);
}

static pto_status fill_nvidia(const pto_op_call *call)
{
    const gpu *g = NULL;
    ptoi_extent extent;
    uint64_t element;
    PTO_TRY(find_gpu(call, &g));
    PTO_TRY(ptoi_fill_check(call, &element, &extent));
    return extent.numel ? fill_within(g, stream_of(call), call->outputs, element) : PTO_OK;
}

/* ---- Copies that go on by themselves ----------------------------------------------------------- */

static pto_status lane_rearrange(void *self, void *stream, const pto_tensor *to,
                                 const pto_tensor *from)
{
    return move_within(gpu_of(self), stream, to, from);
}

static pto_status lane_fill(void *self, void *stream, const pto_tensor *to, const void *element)
{
    uint64_t value = 0;
    memcpy(&value, element, pto_dtype_size(to->dtype)); /* little endian */
    return fill_within(gpu_of(self), stream, to, value);
}

static pto_status copy_nvidia(void *self, const pto_tensor *to, const pto_tensor *from,
                              pto_device_done done, void *context)
{
    return ptoi_transfer_copy(gpu_of(self)->copies, to, from, done, context);
}

static pto_status fill_elements(void *self, const pto_tensor *to, const void *element,
                                pto_device_done done, void *context)
{
    return ptoi_transfer_fill(gpu_of(self)->copies, to, element, done, context);
}

/* The sizes: 8 slots of 1 MiB are 150 us of the bus, longer than the thread sleeps. Before and after
 * each piece of a stage the bus waits for a kernel, about 10 us of 300 for 16 MiB. */
static pto_status add_copies(gpu *g, int32_t index)
{
    if (g->copies) {
        return PTO_OK;
    }
    PTO_TRY(ptoi_transfer_create(&(ptoi_transfer_ops){.device = g->ops,
                                                      .id = {PTO_DEVICE_NVIDIA, index},
                                                      .slot_bytes = UINT64_C(1) << 20,
                                                      .stage_bytes = UINT64_C(16) << 20,
                                                      .direct_bytes = UINT64_C(1) << 16,
                                                      .pin = api->pin,
                                                      .is_pinned = api->is_pinned,
                                                      .follow = api->follow,
                                                      .carry = api->carry,
                                                      .rearrange = lane_rearrange,
                                                      .fill = lane_fill},
                                 &g->copies));
    g->ops.copy = copy_nvidia;
    g->ops.fill = fill_elements;
    return PTO_OK;
}

/* ---- Loading ----------------------------------------------------------------------------------- */

/* Beside this library, or beside the program that it is a part of; then where the system looks. */
static void *open_library(void)
{
    Dl_info here;
    char path[4096];
    void *handle = NULL;
    const char *slash = NULL;
    if (dladdr((void *)(uintptr_t)open_library, &here) && here.dli_fname) {
        slash = strrchr(here.dli_fname, '/');
    }
    if (slash && (size_t)(slash - here.dli_fname) + sizeof library + 1 < sizeof path) {
        snprintf(path, sizeof path, "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname,
                 library);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle ? handle : dlopen(library, RTLD_NOW | RTLD_LOCAL);
}

/* The lock is held. */
static pto_status load_library(void)
{
    if (api) {
        return PTO_OK;
    }
    void *handle = open_library();
    if (!handle) {
        const char *why = dlerror();
        return ptoi_fail(PTO_BAD_DEVICE,
                         "NVIDIA devices need %s, which is built where nvcc is found and installed "
                         "beside libpto: %s",
                         library, why ? why : "it cannot be loaded");
    }
    ptoi_cuda_api_fn *get = (ptoi_cuda_api_fn *)(uintptr_t)dlsym(handle, PTOI_CUDA_SYMBOL);
    const ptoi_cuda_api *loaded = get ? get() : NULL;
    if (!loaded || loaded->size != sizeof *loaded || loaded->grid_size != sizeof(ptoi_grid_plan) ||
        strcmp(loaded->version, PTO_VERSION) != 0) {
        pto_status s = ptoi_fail(PTO_BAD_DEVICE,
                                 "%s is of version %s, and this is %s: install both from one build",
                                 library, loaded ? loaded->version : "(none)", PTO_VERSION);
        (void)dlclose(handle);
        return s;
    }
    api = loaded; /* stays until the process ends */
    return PTO_OK;
}

/* The lock is held. */
static pto_status open_gpu(int32_t index)
{
    PTO_TRY(load_library());
    gpu *g = &gpus[index];
    PTO_TRY(api->open(ptoi_fail, index, &g->device, &g->ops, &g->facts));
    g->ops.description = g->facts.name;
    PTO_TRY(add_copies(g, index));
    PTO_TRY(ptoi_device_add_nvidia(index, &g->ops));
    PTO_TRY(pto_op_register(pto_rearrange_op(), PTO_DEVICE_NVIDIA, rearrange_nvidia, false));
    PTO_TRY(pto_op_register(pto_fill_op(), PTO_DEVICE_NVIDIA, fill_nvidia, false));
    ptoi_release64(&ready[index], 1);
    return PTO_OK;
}

pto_status ptoi_cuda_load(int32_t index)
{
    if (index < 0 || index >= MOST_GPUS) {
        return ptoi_fail(PTO_BAD_DEVICE, "nvidia:%" PRId32 ": there are at most %d", index,
                         MOST_GPUS);
    }
    pthread_mutex_lock(&lock);
    pto_status s = ptoi_acquire64(&ready[index]) ? PTO_OK : open_gpu(index);
    pthread_mutex_unlock(&lock);
    return s;
}

const ptoi_cuda_api *ptoi_cuda_loaded(int32_t index, ptoi_cuda **device)
{
    if (index < 0 || index >= MOST_GPUS || !ptoi_acquire64(&ready[index])) {
        return NULL;
    }
    *device = gpus[index].device;
    return api;
}
