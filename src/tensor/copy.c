/* copy.c - elements from one strided place to another, and the dense copies of the public header:
 * clone and contiguous.
 *
 * A copy walks the destination upwards in memory wherever it may, and lets the source jump. The
 * dense destinations of clone and contiguous are so written from the first byte to the last.
 */
#include "copy.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "tensor.h"

/* One loop of a copy; steps count bytes. */
typedef struct loop {
    int64_t count, to, from;
} loop;

static uint64_t reach_of(int64_t step)
{
    return step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
}

/* Puts the loops into the order in which the destination lies in memory, upwards, if they are free
 * to take it: if no two elements of the destination meet, which is certain where each step moves
 * past all that the loops inside of it touch. Else nothing changes. */
static void sort_loops(loop *loops, int32_t n, ptoi_copy *copy)
{
    loop sorted[PTO_MAX_DIMS];
    for (int32_t i = 0; i < n; i++) {
        int32_t at = i;
        for (; at > 0 && reach_of(sorted[at - 1].to) < reach_of(loops[i].to); at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = loops[i];
    }
    uint64_t span = (uint64_t)copy->size; /* fits, by E2 */
    for (int32_t i = n - 1; i >= 0; i--) {
        if (reach_of(sorted[i].to) < span) {
            return;
        }
        span += (uint64_t)(sorted[i].count - 1) * reach_of(sorted[i].to);
    }
    for (int32_t i = 0; i < n; i++) {
        loops[i] = sorted[i];
        if (loops[i].to < 0) {
            copy->to_start += (loops[i].count - 1) * loops[i].to;
            copy->from_start += (loops[i].count - 1) * loops[i].from;
            loops[i].to = -loops[i].to;
            loops[i].from = -loops[i].from;
        }
    }
}

/* Whether `outer` goes on where `inner` ends, so that one loop does for both. */
static bool chains(int64_t outer, int64_t inner, int64_t count)
{
    int64_t end;
    return !__builtin_mul_overflow(inner, count, &end) && outer == end;
}

void ptoi_copy_plan(ptoi_copy *copy, int32_t ndim, const int64_t *shape, const int64_t *to_strides,
                    const int64_t *from_strides, uint64_t size)
{
    loop loops[PTO_MAX_DIMS];
    int32_t n = 0;
    *copy = (ptoi_copy){.size = (int64_t)size};
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] == 0) {
            copy->empty = true;
            return;
        }
    }
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] > 1) {
            /* fit, by E2 */
            loops[n++] = (loop){shape[d], to_strides[d] * copy->size, from_strides[d] * copy->size};
        }
    }
    sort_loops(loops, n, copy);
    for (int32_t i = 0; i < n; i++) {
        int32_t last = copy->ndim - 1;
        int64_t count = loops[i].count;
        if (last >= 0 && chains(copy->to[last], loops[i].to, count) &&
            chains(copy->from[last], loops[i].from, count)) {
            count *= copy->count[last]; /* fits, by E1 */
        } else {
            last = copy->ndim++;
        }
        copy->count[last] = count;
        copy->to[last] = loops[i].to;
        copy->from[last] = loops[i].from;
    }
}

/* Moves of a fixed size become one load and one store, aligned or not; a step known to be the size
 * lets stores go together. */
static inline __attribute__((always_inline)) void
move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t size)
{
    if (!from_step) {
        uint64_t element = 0;
        memcpy(&element, from, size);
        for (int64_t i = 0; i < count; i++) {
            memcpy(to + i * to_step, &element, size);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + i * to_step, from + i * from_step, size);
    }
}

#define DEFINE_MOVE(size)                                                                          \
    static void move_##size(char *to, int64_t to_step, const char *from, int64_t from_step,        \
                            int64_t count)                                                         \
    {                                                                                              \
        if (to_step == (size)) {                                                                   \
            move(to, (size), from, from_step, count, (size));                                      \
        } else {                                                                                   \
            move(to, to_step, from, from_step, count, (size));                                     \
        }                                                                                          \
    }
DEFINE_MOVE(1)
DEFINE_MOVE(2)
DEFINE_MOVE(4)
DEFINE_MOVE(8)
#undef DEFINE_MOVE

/* One row: `count` elements on each side. */
static void move_row(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                     int64_t size)
{
    if (to_step == size && from_step == size) {
        memcpy(to, from, (size_t)(count * size));
        return;
    }
    switch (size) {
    case 1:
        move_1(to, to_step, from, from_step, count);
        break;
    case 2:
        move_2(to, to_step, from, from_step, count);
        break;
    case 4:
        move_4(to, to_step, from, from_step, count);
        break;
    default:
        move_8(to, to_step, from, from_step, count);
        break;
    }
}

void ptoi_copy_run(const ptoi_copy *copy, void *to, const void *from)
{
    if (copy->empty) {
        return;
    }
    char *target = (char *)to + copy->to_start;
    const char *source = (const char *)from + copy->from_start;
    if (!copy->ndim) {
        move_row(target, copy->size, source, copy->size, 1, copy->size);
        return;
    }
    int32_t inner = copy->ndim - 1;
    int64_t index[PTO_MAX_DIMS] = {0};
    for (;;) {
        move_row(target, copy->to[inner], source, copy->from[inner], copy->count[inner],
                 copy->size);
        int32_t d = inner - 1;
        while (d >= 0 && index[d] == copy->count[d] - 1) {
            target -= index[d] * copy->to[d];
            source -= index[d] * copy->from[d];
            index[d--] = 0;
        }
        if (d < 0) {
            return;
        }
        index[d]++;
        target += copy->to[d];
        source += copy->from[d];
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
        ptoi_copy copy;
        ptoi_copy_plan(&copy, made.ndim, made.shape, made.strides, src->strides, extent->size);
        ptoi_copy_run(&copy, storage, (const char *)src->storage + src->offset * size);
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
