/* tensor.c - the tensor value: creates, checks and describes tensors. */
#include "tensor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <pto/pto.h>

#include "base/error.h"

/* ---- Text ------------------------------------------------------------------------------- */

/* A line written like snprintf does: `length` continues to grow when `text` is full. */
typedef struct line {
    char *text;
    size_t size;
    size_t length;
} line;

static void put(line *l, const char *format, ...) PTO_PRINTF(2, 3);

static void put(line *l, const char *format, ...)
{
    size_t room = l->length < l->size ? l->size - l->length : 0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(room ? l->text + l->length : NULL, room, format, args);
    va_end(args);
    if (n > 0) {
        l->length += (size_t)n;
    }
}

static void put_dims(line *l, char open, int32_t ndim, const int64_t *dims, char close)
{
    put(l, "%c", open);
    for (int32_t d = 0; d < ndim; d++) {
        put(l, "%s%" PRId64, d ? ", " : "", dims[d]);
    }
    put(l, "%c", close);
}

const char *ptoi_dims_text(int32_t ndim, const int64_t *dims, char text[PTOI_DIMS_TEXT])
{
    line l = {text, PTOI_DIMS_TEXT, 0};
    put_dims(&l, '[', ndim, dims, ']');
    return text;
}

static const char *kind_text(pto_extraction kind)
{
    switch (kind) {
    case PTO_RAW:
        return "raw";
    case PTO_SHALLOW_VIEW:
        return "shallow view";
    case PTO_SHALLOW_RESHAPE:
        return "shallow reshape";
    case PTO_SHALLOW_TRANSPOSE:
        return "shallow transpose";
    case PTO_DEEP_VIEW:
        return "deep view";
    case PTO_DEEP_CONTIGUOUS:
        return "deep contiguous";
    }
    return NULL;
}

/* Reads only the struct, and only dims that exist: garbage prints as garbage. It does not call the
 * check, which would replace the detail that the caller may be reporting. */
size_t pto_tensor_format(const pto_tensor *t, char *text, size_t size)
{
    line l = {text, text ? size : 0, 0};
    if (!t) {
        put(&l, "(no tensor)");
        return l.length;
    }
    if (pto_dtype_size(t->dtype)) {
        put(&l, "%s", pto_dtype_name(t->dtype));
    } else {
        put(&l, "(invalid dtype %u)", (unsigned)t->dtype);
    }
    if (t->ndim >= 0 && t->ndim <= PTO_MAX_DIMS) {
        put_dims(&l, '[', t->ndim, t->shape, ']');
        put(&l, " strides ");
        put_dims(&l, '(', t->ndim, t->strides, ')');
    } else {
        put(&l, "[invalid ndim %" PRId32 "]", t->ndim);
    }
    put(&l, " offset %" PRId64 " of %" PRIu64 " bytes at 0x%" PRIxPTR " %s:%" PRId32, t->offset,
        t->storage_bytes, (uintptr_t)t->storage, pto_device_name(t->device.type), t->device.index);
    if (t->owner) {
        put(&l, " block %" PRIu64 " generation %" PRIu32, t->owner, t->generation);
    }
    if (t->version) {
        put(&l, " version %" PRIu32, t->version);
    }
    if (!kind_text(t->kind)) {
        put(&l, " (invalid kind %u)", (unsigned)t->kind);
    } else if (t->kind != PTO_RAW) {
        put(&l, " (%s)", kind_text(t->kind));
    }
    return l.length;
}

/* ---- Checks ----------------------------------------------------------------------------- */

pto_status ptoi_storage_check(const char *what, const void *storage, uint64_t storage_bytes)
{
    uint64_t end;
    if (storage_bytes > INT64_MAX) {
        return ptoi_fail(PTO_OVERFLOW, "%s: storage_bytes %" PRIu64 " is more than %" PRId64, what,
                         storage_bytes, INT64_MAX);
    }
    if (!storage && storage_bytes) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: storage is NULL with storage_bytes %" PRIu64, what,
                         storage_bytes);
    }
    if (__builtin_add_overflow((uint64_t)(uintptr_t)storage, storage_bytes, &end)) {
        return ptoi_fail(PTO_OVERFLOW,
                         "%s: storage 0x%" PRIxPTR " with storage_bytes %" PRIu64
                         " goes past the end of the address space",
                         what, (uintptr_t)storage, storage_bytes);
    }
    return PTO_OK;
}

pto_status ptoi_shape_numel(const char *what, int32_t ndim, const int64_t *shape, int64_t *numel)
{
    int64_t product = 1;
    bool wrapped = false, empty = false;
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] < 0) {
            return ptoi_fail(PTO_BAD_SHAPE, "%s: shape[%" PRId32 "] is %" PRId64, what, d,
                             shape[d]);
        }
        empty |= shape[d] == 0;
        /* After a wrap the product is garbage, but only a size of 0 can make it valid again. */
        wrapped |= __builtin_mul_overflow(product, shape[d], &product);
    }
    if (wrapped && !empty) {
        char text[PTOI_DIMS_TEXT];
        return ptoi_fail(PTO_OVERFLOW, "%s: shape %s has more than %" PRId64 " elements", what,
                         ptoi_dims_text(ndim, shape, text), INT64_MAX);
    }
    *numel = empty ? 0 : product;
    return PTO_OK;
}

/* The elements of a non-empty tensor reach further than 63 bits allow. Finds the dim to blame. */
static pto_status reach_overflow(const char *what, const pto_tensor *t)
{
    int64_t low = t->offset, high = t->offset;
    for (int32_t d = 0; d < t->ndim; d++) {
        int64_t reach = 0;
        if (__builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &reach) ||
            (reach < 0 ? __builtin_add_overflow(low, reach, &low)
                       : __builtin_add_overflow(high, reach, &high))) {
            return ptoi_fail(PTO_OVERFLOW,
                             "%s: dim %" PRId32 " of size %" PRId64 " with stride %" PRId64
                             " from offset %" PRId64 " reaches past 64 bits",
                             what, d, t->shape[d], t->strides[d], t->offset);
        }
    }
    return ptoi_fail(PTO_OVERFLOW, "%s: element %" PRId64 " of %zu bytes ends past 64 bits", what,
                     high, pto_dtype_size(t->dtype));
}

/* Checks everything that does not depend on where the elements are. */
static pto_status check_fields(const char *what, const pto_tensor *t)
{
    if (t->ndim < 0 || t->ndim > PTO_MAX_DIMS) {
        return ptoi_fail(PTO_BAD_NDIM, "%s: ndim %" PRId32 " is not in 0 .. %d", what, t->ndim,
                         PTO_MAX_DIMS);
    }
    if (!pto_dtype_size(t->dtype)) {
        return ptoi_fail(PTO_BAD_DTYPE, "%s: dtype %u is unknown", what, (unsigned)t->dtype);
    }
    if ((uint32_t)t->device.type >= PTOI_DEVICE_TYPES) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: device type %u is not in 0 .. %d", what,
                         (unsigned)t->device.type, PTOI_DEVICE_TYPES - 1);
    }
    if (t->device.index < 0) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: device index %" PRId32 " is negative", what,
                         t->device.index);
    }
    if ((uint32_t)t->kind > PTO_DEEP_CONTIGUOUS) {
        return ptoi_fail(PTO_BAD_CONFIG, "%s: kind %u is not in 0 .. %d", what, (unsigned)t->kind,
                         (int)PTO_DEEP_CONTIGUOUS);
    }
    if (t->offset < 0) {
        return ptoi_fail(PTO_OUT_OF_BOUNDS, "%s: offset %" PRId64 " is negative", what, t->offset);
    }
    /* Managed memory may have no address yet. */
    if (t->owner && !t->storage && t->storage_bytes <= INT64_MAX) {
        return PTO_OK;
    }
    return ptoi_storage_check(what, t->storage, t->storage_bytes);
}

/* The check step by step: finds what to report, and the extent of an empty tensor. */
static pto_status find_fault(const char *what, const pto_tensor *t, ptoi_extent *out)
{
    PTO_TRY(check_fields(what, t));
    int64_t numel = 0;
    PTO_TRY(ptoi_shape_numel(what, t->ndim, t->shape, &numel));
    uint64_t size = pto_dtype_size(t->dtype);
    if (!numel) {
        uint64_t at;
        if (__builtin_mul_overflow((uint64_t)t->offset, size, &at)) {
            return ptoi_fail(PTO_OVERFLOW, "%s: offset %" PRId64 " times %" PRIu64 " bytes", what,
                             t->offset, size);
        }
        if (at > t->storage_bytes) {
            return ptoi_fail(PTO_OUT_OF_BOUNDS,
                             "%s: offset %" PRId64 " (byte %" PRIu64
                             ") is past storage_bytes %" PRIu64,
                             what, t->offset, at, t->storage_bytes);
        }
        *out = (ptoi_extent){0, at, at, size};
        return PTO_OK;
    }

    /* Negative strides extend below the offset, positive ones above it. Both sums only move away
     * from the offset, so if a partial sum wraps, the end is out of range too. */
    int64_t low = t->offset, high = t->offset, count;
    bool wrapped = false;
    for (int32_t d = 0; d < t->ndim; d++) {
        int64_t reach; /* 0 for a single element, for any stride */
        wrapped |= __builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &reach);
        if (reach < 0) {
            wrapped |= __builtin_add_overflow(low, reach, &low);
        } else {
            wrapped |= __builtin_add_overflow(high, reach, &high);
        }
    }
    uint64_t end;
    wrapped |= __builtin_add_overflow(high, 1, &count);
    wrapped |= __builtin_mul_overflow((uint64_t)count, size, &end);
    if (wrapped) {
        return reach_overflow(what, t);
    }
    if (low < 0) {
        return ptoi_fail(PTO_OUT_OF_BOUNDS,
                         "%s: strides lead from offset %" PRId64 " down to element %" PRId64, what,
                         t->offset, low);
    }
    if (end > t->storage_bytes) {
        return ptoi_fail(PTO_OUT_OF_BOUNDS,
                         "%s: elements %" PRId64 " .. %" PRId64 " end at byte %" PRIu64
                         ", storage_bytes is %" PRIu64,
                         what, low, high, end, t->storage_bytes);
    }
    *out = (ptoi_extent){numel, (uint64_t)low * size, end, size};
    return PTO_OK;
}

/* The same check of a tensor with elements, in one pass. False: it is empty, or find_fault decides. Programs make
 * a view of each tile for each task, so this is short. */
static inline bool is_valid(const pto_tensor *t, ptoi_extent *out)
{
    const uint64_t size = (uint32_t)t->dtype < 16 ? ptoi_dtype_bytes(t->dtype) : 0;
    int64_t numel = 1, low = t->offset, high = t->offset;
    uint64_t end;
    if ((uint32_t)t->ndim > PTO_MAX_DIMS || !size ||
        (uint32_t)t->device.type >= PTOI_DEVICE_TYPES || (t->device.index | low) < 0 ||
        (uint32_t)t->kind > PTO_DEEP_CONTIGUOUS || t->storage_bytes > INT64_MAX ||
        (!t->owner && !t->storage) ||
        __builtin_add_overflow((uint64_t)(uintptr_t)t->storage, t->storage_bytes, &end)) {
        return false;
    }
    for (int32_t d = 0; d < t->ndim; d++) {
        const int64_t n = t->shape[d];
        int64_t reach;
        if (n <= 0 || __builtin_mul_overflow(numel, n, &numel) ||
            __builtin_mul_overflow(n - 1, t->strides[d], &reach) ||
            (reach < 0 ? __builtin_add_overflow(low, reach, &low)
                       : __builtin_add_overflow(high, reach, &high))) {
            return false;
        }
    }
    if (low < 0 || __builtin_mul_overflow((uint64_t)high + 1, size, &end) ||
        end > t->storage_bytes) {
        return false;
    }
    *out = (ptoi_extent){numel, (uint64_t)low * size, end, size};
    return true;
}

pto_status ptoi_tensor_extent(const char *what, const pto_tensor *t, ptoi_extent *out)
{
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s is NULL", what);
    }
    return is_valid(t, out) ? PTO_OK : find_fault(what, t, out);
}

pto_status pto_tensor_check(const pto_tensor *t)
{
    ptoi_extent extent;
    return ptoi_tensor_extent("tensor", t, &extent);
}

/* ---- Creating --------------------------------------------------------------------------- */

void ptoi_dense_strides(int32_t ndim, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t d = ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        if (shape[d] > 1 && __builtin_mul_overflow(stride, shape[d], &stride)) {
            stride = 0;
        }
    }
}

pto_tensor ptoi_tensor_derive_dense(const pto_tensor *src, pto_extraction kind, void *storage,
                                    uint64_t storage_bytes)
{
    pto_tensor t = ptoi_tensor_derive(src, kind);
    t.storage = storage;
    t.storage_bytes = storage_bytes;
    t.offset = 0;
    t.owner = t.generation = t.version = 0;
    ptoi_dense_strides(t.ndim, t.shape, t.strides);
    return t;
}

pto_status pto_tensor_init(pto_tensor *t, void *storage, uint64_t storage_bytes, pto_dtype dtype,
                           int32_t ndim, const int64_t *shape, const int64_t *strides,
                           int64_t offset)
{
    pto_tensor made = {.storage = storage,
                       .storage_bytes = storage_bytes,
                       .offset = offset,
                       .ndim = ndim,
                       .dtype = dtype};
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "init: t is NULL");
    }
    if (ndim < 0 || ndim > PTO_MAX_DIMS) {
        return ptoi_fail(PTO_BAD_NDIM, "init: ndim %" PRId32 " is not in 0 .. %d", ndim,
                         PTO_MAX_DIMS);
    }
    if (ndim && !shape) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "init: shape is NULL with ndim %" PRId32, ndim);
    }
    int64_t numel = 0;
    PTO_TRY(ptoi_shape_numel("init", ndim, shape, &numel));
    for (int32_t d = 0; d < ndim; d++) {
        made.shape[d] = shape[d];
        made.strides[d] = strides ? strides[d] : 0;
    }
    if (!strides) {
        ptoi_dense_strides(ndim, made.shape, made.strides);
    }
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent("init", &made, &extent));
    *t = made;
    return PTO_OK;
}

/* ---- Questions -------------------------------------------------------------------------- */

int64_t pto_tensor_numel(const pto_tensor *t)
{
    ptoi_extent extent;
    return ptoi_tensor_extent("numel: t", t, &extent) ? -1 : extent.numel;
}

pto_status pto_tensor_nbytes(const pto_tensor *t, uint64_t *bytes)
{
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent("nbytes: t", t, &extent));
    if (!bytes) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "nbytes: bytes is NULL");
    }
    uint64_t product;
    if (__builtin_mul_overflow((uint64_t)extent.numel, extent.size, &product)) {
        return ptoi_fail(PTO_OVERFLOW, "nbytes: %" PRId64 " elements of %" PRIu64 " bytes",
                         extent.numel, extent.size);
    }
    *bytes = product;
    return PTO_OK;
}

bool pto_tensor_is_contiguous(const pto_tensor *t)
{
    ptoi_extent extent;
    if (ptoi_tensor_extent("is_contiguous: t", t, &extent)) {
        return false;
    }
    int64_t want = 1;
    for (int32_t d = t->ndim - 1; d >= 0 && extent.numel; d--) {
        if (t->shape[d] != 1 && t->strides[d] != want) {
            return false;
        }
        want *= t->shape[d]; /* fits, by E1 */
    }
    return true;
}

pto_status pto_tensor_byte_range(const pto_tensor *t, uint64_t *low, uint64_t *end)
{
    ptoi_extent extent = {0};
    if (!low || !end) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "byte_range: %s is NULL", low ? "end" : "low");
    }
    PTO_TRY(ptoi_tensor_extent("byte_range: t", t, &extent));
    *low = extent.low;
    *end = extent.end;
    return PTO_OK;
}
