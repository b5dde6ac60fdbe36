/* memory.c - copies into newly allocated memory. */
#define _GNU_SOURCE /* MADV_HUGEPAGE */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "device/device.h"
#include "op/op.h"
#include "op/rearrange/rearrange.h"
#include "tensor/tensor.h"

/* From this size on, memory consists of whole huge pages if the system has them. Transposing a
 * matrix touches a page for each row, which is more small pages than the TLB holds. */
#define HUGE_PAGE (UINT64_C(2) << 20)
#define HUGE_FROM (2 * HUGE_PAGE)

/* Allocates at most INT64_MAX bytes. */
static pto_status allocate_cpu(uint64_t bytes, void **memory)
{
    bool huge = bytes >= HUGE_FROM;
    uint64_t unit = huge ? HUGE_PAGE : 1, rounded = (bytes + unit - 1) / unit * unit;
    if (posix_memalign(memory, huge ? HUGE_PAGE : PTOI_LINE, rounded) != 0) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "rearrange: no memory for %" PRIu64 " bytes", bytes);
    }
    if (huge) {
        (void)madvise(*memory, rounded, MADV_HUGEPAGE); /* slower without, but correct */
    }
    return PTO_OK;
}

static pto_status allocate(pto_device device, uint64_t bytes, void **memory)
{
    if (device.type == PTO_DEVICE_CPU) {
        return allocate_cpu(bytes, memory);
    }
    pto_device_ops ops;
    PTO_TRY(pto_device_get(device, &ops));
    if (!ops.alloc || !ops.free) {
        return ptoi_fail(PTO_BAD_DEVICE, "rearrange: %s:%" PRId32 " was added without %s",
                         pto_device_name(device.type), device.index, ops.alloc ? "free" : "alloc");
    }
    uint64_t serial = ptoi_error_serial();
    pto_status s = ops.alloc(ops.self, bytes, memory);
    if (!s && !*memory) {
        s = ptoi_fail(PTO_OUT_OF_MEMORY, "it gave NULL");
    }
    if (s) {
        return ptoi_fail(s, "rearrange: %" PRIu64 " bytes of %s:%" PRId32 ": %s", bytes,
                         pto_device_name(device.type), device.index,
                         ptoi_error_serial() == serial ? pto_status_text(s) : pto_error_detail());
    }
    return PTO_OK;
}

static void release(pto_device device, void *memory, uint64_t bytes)
{
    pto_device_ops ops;
    if (device.type == PTO_DEVICE_CPU) {
        free(memory);
    } else if (memory && pto_device_get(device, &ops) == PTO_OK && ops.free) {
        ops.free(ops.self, memory, bytes);
    }
}

/* The device is current. */
static pto_status make(const pto_tensor *src, uint64_t bytes, pto_tensor *dst)
{
    pto_tensor made = ptoi_tensor_derive_dense(src, PTO_DEEP_CONTIGUOUS, NULL, bytes);
    if (bytes) {
        PTO_TRY(allocate(made.device, bytes, &made.storage));
    }
    pto_status s = pto_rearrange(&made, src);
    if (s) {
        release(made.device, made.storage, bytes);
        return s;
    }
    *dst = made;
    return PTO_OK;
}

pto_status pto_rearrange_new(const pto_tensor *src, pto_tensor *dst)
{
    ptoi_extent extent;
    if (!dst) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "rearrange: dst is NULL");
    }
    PTO_TRY(ptoi_tensor_extent("rearrange: src", src, &extent));
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)extent.numel, extent.size, &bytes) || bytes > INT64_MAX) {
        return ptoi_fail(PTO_OVERFLOW, "rearrange: %" PRId64 " elements of %" PRIu64 " bytes",
                         extent.numel, extent.size);
    }
    pto_op_fn fn; /* checked up before anything is allocated */
    PTO_TRY(ptoi_device_check("rearrange: src", src->device));
    PTO_TRY(ptoi_op_find(pto_rearrange_op(), src->device, &fn));
    pto_device before = pto_device_current();
    PTO_TRY(pto_device_set_current(src->device));
    return ptoi_device_return(before, make(src, bytes, dst));
}

void pto_rearrange_free(pto_tensor *dst)
{
    if (!dst) {
        return;
    }
    pto_device before = pto_device_current();
    if (dst->storage) {
        /* A device that cannot be made current may still free its memory. */
        PTO_IGNORE(pto_device_set_current(dst->device));
        release(dst->device, dst->storage, dst->storage_bytes);
        PTO_IGNORE(pto_device_set_current(before));
    }
    memset(dst, 0, sizeof *dst);
}
