/* clone.c - dense copies of tensors into the caller's memory: clone and contiguous. */
#include <inttypes.h>

#include <pto/pto.h>

#include "base/error.h"
#include "op/rearrange/plan.h"
#include "tensor/tensor.h"

/* Whether the source touches one of the first `bytes` bytes of the destination. For managed memory
 * too, the address counts here, since the CPU copies by address. The search may take as many steps
 * as the copy has elements. If they do not suffice, the two count as sharing memory. */
static pto_status check_apart(const char *op, const pto_tensor *src, const ptoi_extent *extent,
                              void *storage, uint64_t bytes)
{
    char *base = src->storage;
    uintptr_t low = (uintptr_t)(base + extent->low), end = (uintptr_t)(base + extent->end);
    uintptr_t to = (uintptr_t)storage;
    if (end <= to || to + bytes <= low) {
        return PTO_OK;
    }
    pto_tensor from = *src, target;
    pto_overlap_result result;
    uint64_t numel = (uint64_t)extent->numel;
    from.owner = 0;
    pto_status s = pto_tensor_init(&target, storage, bytes, PTO_UINT8, 1,
                                   (const int64_t[]){(int64_t)bytes}, NULL, 0);
    if (!s) {
        target.device = src->device;
        s = pto_tensor_overlaps_ex(
            &from, &target, numel > PTO_OVERLAP_BUDGET ? numel : PTO_OVERLAP_BUDGET, &result);
    }
    if (!s && result.yes) {
        s = ptoi_fail(PTO_OVERLAP,
                      "%s: the %" PRIu64 " bytes at 0x%" PRIxPTR
                      " share memory with src, which spans bytes 0x%" PRIxPTR " to 0x%" PRIxPTR,
                      op, bytes, to, low, end);
    }
    return s;
}

static pto_status copy_in_order(const char *op, const pto_tensor *src, const ptoi_extent *extent,
                                const int32_t *order, pto_extraction kind, void *storage,
                                uint64_t storage_bytes, pto_tensor *out)
{
    uint64_t bytes;
    if (!out) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: out is NULL", op);
    }
    if (src->device.type != PTO_DEVICE_CPU) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: src is on %s:%" PRId32 ", not in memory of the cpu",
                         op, pto_device_name(src->device.type), src->device.index);
    }
    PTO_TRY(ptoi_storage_check(op, storage, storage_bytes));
    if (__builtin_mul_overflow((uint64_t)extent->numel, extent->size, &bytes)) {
        return ptoi_fail(PTO_OVERFLOW, "%s: %" PRId64 " elements of %" PRIu64 " bytes", op,
                         extent->numel, extent->size);
    }
    if (storage_bytes < bytes) {
        return ptoi_fail(PTO_BUFFER_TOO_SMALL,
                         "%s: storage_bytes is %" PRIu64 ", %" PRIu64 " are needed", op,
                         storage_bytes, bytes);
    }
    if (bytes && !src->storage) {
        return ptoi_fail(PTO_NULL_ARGUMENT,
                         "%s: src is in managed block %" PRIu64 ", which has no address yet", op,
                         src->owner);
    }
    if (bytes) {
        PTO_TRY(check_apart(op, src, extent, storage, bytes));
    }

    pto_tensor made = ptoi_tensor_derive_dense(src, kind, storage, storage_bytes);
    if (bytes) {
        int64_t stride = 1;
        for (int32_t i = made.ndim - 1; i >= 0; i--) {
            made.strides[order[i]] = stride;
            stride *= made.shape[order[i]]; /* fits, by E1 */
        }
        const char *from = (const char *)src->storage + src->offset * (int64_t)extent->size;
        ptoi_copy(made.ndim, made.shape, storage, made.strides, from, src->strides,
                  (uint32_t)extent->size);
    }
    *out = made;
    return PTO_OK;
}

/* Sorts the dims by falling |stride|. Dims of equal stride, and those of one element, keep their
 * positions relative to their neighbours. */
static void memory_order(const pto_tensor *t, int32_t *order)
{
    uint64_t reach[PTO_MAX_DIMS] = {0};
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        uint64_t stride = (uint64_t)t->strides[d];
        reach[d] = t->strides[d] < 0 ? 0 - stride : stride;
        if (t->shape[d] == 1) {
            reach[d] = d + 1 < t->ndim ? reach[d + 1] : 0;
        }
    }
    for (int32_t d = 0; d < t->ndim; d++) {
        int32_t i = d;
        for (; i > 0 && reach[order[i - 1]] < reach[d]; i--) {
            order[i] = order[i - 1];
        }
        order[i] = d;
    }
}

pto_status pto_tensor_clone(const pto_tensor *src, void *storage, uint64_t storage_bytes,
                            pto_tensor *out)
{
    ptoi_extent extent;
    int32_t order[PTO_MAX_DIMS];
    PTO_TRY(ptoi_tensor_extent("clone: src", src, &extent));
    memory_order(src, order);
    return copy_in_order("clone", src, &extent, order, PTO_DEEP_VIEW, storage, storage_bytes, out);
}

pto_status pto_tensor_contiguous(const pto_tensor *src, void *storage, uint64_t storage_bytes,
                                 pto_tensor *out)
{
    ptoi_extent extent;
    int32_t order[PTO_MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
    PTO_TRY(ptoi_tensor_extent("contiguous: src", src, &extent));
    return copy_in_order("contiguous", src, &extent, order, PTO_DEEP_CONTIGUOUS, storage,
                         storage_bytes, out);
}
