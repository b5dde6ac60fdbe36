/* copy.c - dense copies into memory of the caller: clone and contiguous.
 *
 * Both give the destination dense strides, in an order of the dims that they choose, and walk the
 * elements in that order: the destination is then written from its first byte to its last, and
 * only the source jumps.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "tensor.h"

/* The source as the destination sees it: loops from the outermost to the innermost, those that
 * chain in the source merged (in the destination all do), single elements left out. */
typedef struct walk {
    int32_t ndim;
    int64_t count[PTO_MAX_DIMS];
    int64_t step[PTO_MAX_DIMS]; /* bytes in the source */
} walk;

/* order[0 .. ndim-1] are the dims, the outermost in memory first. */
static void plan_walk(const pto_tensor *src, const int32_t *order, int64_t size, walk *w)
{
    w->ndim = 0;
    for (int32_t i = 0; i < src->ndim; i++) {
        int64_t n = src->shape[order[i]], chained;
        if (n == 1) {
            continue;
        }
        int64_t step = src->strides[order[i]] * size; /* fits, by E2 */
        int32_t last = w->ndim - 1;
        if (last >= 0 && !__builtin_mul_overflow(step, n, &chained) && w->step[last] == chained) {
            w->count[last] *= n;
            w->step[last] = step;
        } else {
            w->count[w->ndim] = n;
            w->step[w->ndim] = step;
            w->ndim++;
        }
    }
}

/* Moves of a fixed size become one load and one store, aligned or not. */
#define DEFINE_GATHER(size)                                                                        \
    static void gather_##size(char *to, const char *from, int64_t count, int64_t step)             \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            memcpy(to + i * (size), from + i * step, (size));                                      \
        }                                                                                          \
    }
DEFINE_GATHER(1)
DEFINE_GATHER(2)
DEFINE_GATHER(4)
DEFINE_GATHER(8)
#undef DEFINE_GATHER

static void gather(char *to, const char *from, int64_t count, int64_t step, int64_t size)
{
    if (step == size) {
        memcpy(to, from, (size_t)(count * size));
        return;
    }
    switch (size) {
    case 1:
        gather_1(to, from, count, step);
        break;
    case 2:
        gather_2(to, from, count, step);
        break;
    case 4:
        gather_4(to, from, count, step);
        break;
    default:
        gather_8(to, from, count, step);
        break;
    }
}

static void run_walk(const walk *w, char *to, const char *from, int64_t size)
{
    if (!w->ndim) {
        gather(to, from, 1, size, size);
        return;
    }
    int32_t inner = w->ndim - 1;
    int64_t index[PTO_MAX_DIMS] = {0}, at = 0;
    for (;;) {
        gather(to, from + at, w->count[inner], w->step[inner], size);
        to += w->count[inner] * size;
        int32_t d = inner - 1;
        while (d >= 0 && index[d] == w->count[d] - 1) {
            at -= index[d] * w->step[d];
            index[d--] = 0;
        }
        if (d < 0) {
            return;
        }
        index[d]++;
        at += w->step[d];
    }
}

/* Whether the source touches a byte of the first `bytes` of the destination. Of managed memory the
 * address counts here, as it does to the CPU. The search may take as many steps as the copy; a
 * source so tangled that they do not suffice counts as sharing memory. */
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
    pto_status s = ptoi_storage_check(op, storage, storage_bytes);
    if (s) {
        return s;
    }
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
        s = check_apart(op, src, extent, storage, bytes);
        if (s) {
            return s;
        }
    }

    /* New memory of the user: neither block nor version of the source carries over. */
    pto_tensor made = ptoi_tensor_derive(src, kind);
    made.storage = storage;
    made.storage_bytes = storage_bytes;
    made.offset = 0;
    made.owner = 0;
    made.generation = 0;
    made.version = 0;
    ptoi_dense_strides(made.ndim, made.shape, made.strides);
    if (bytes) {
        int64_t size = (int64_t)extent->size, stride = 1;
        for (int32_t i = made.ndim - 1; i >= 0; i--) {
            made.strides[order[i]] = stride;
            stride *= made.shape[order[i]]; /* fits, by E1 */
        }
        walk w;
        plan_walk(src, order, size, &w);
        run_walk(&w, storage, (const char *)src->storage + src->offset * size, size);
    }
    *out = made;
    return PTO_OK;
}

/* The dims by falling |stride|; those of equal stride, and single elements, stay where they are
 * among their neighbours. */
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
    pto_status s = ptoi_tensor_extent("clone: src", src, &extent);
    if (s) {
        return s;
    }
    memory_order(src, order);
    return copy_in_order("clone", src, &extent, order, PTO_DEEP_VIEW, storage, storage_bytes, out);
}

pto_status pto_tensor_contiguous(const pto_tensor *src, void *storage, uint64_t storage_bytes,
                                 pto_tensor *out)
{
    ptoi_extent extent;
    int32_t order[PTO_MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
    pto_status s = ptoi_tensor_extent("contiguous: src", src, &extent);
    if (s) {
        return s;
    }
    return copy_in_order("contiguous", src, &extent, order, PTO_DEEP_CONTIGUOUS, storage,
                         storage_bytes, out);
}
