/* dlpack.c - imports and exports tensors as DLPack structs. */
#include <pto/dlpack.h>

#include <inttypes.h>
#include <stdlib.h>

#include <pto/pto.h>

#include "base/error.h"
#include "tensor.h"

/* DLPack fixes the ABI: every field must be at its offset there. */
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(pto_dl_device) == 8, "DLDevice");
_Static_assert(sizeof(pto_dl_dtype) == 4, "DLDataType");
_Static_assert(offsetof(pto_dl_dtype, bits) == 1 && offsetof(pto_dl_dtype, lanes) == 2,
               "DLDataType");
_Static_assert(sizeof(pto_dl_tensor) == 48, "DLTensor");
_Static_assert(offsetof(pto_dl_tensor, data) == 0, "DLTensor.data");
_Static_assert(offsetof(pto_dl_tensor, device) == 8, "DLTensor.device");
_Static_assert(offsetof(pto_dl_tensor, ndim) == 16, "DLTensor.ndim");
_Static_assert(offsetof(pto_dl_tensor, dtype) == 20, "DLTensor.dtype");
_Static_assert(offsetof(pto_dl_tensor, shape) == 24, "DLTensor.shape");
_Static_assert(offsetof(pto_dl_tensor, strides) == 32, "DLTensor.strides");
_Static_assert(offsetof(pto_dl_tensor, byte_offset) == 40, "DLTensor.byte_offset");
_Static_assert(sizeof(pto_dl_managed) == 64, "DLManagedTensor");
_Static_assert(offsetof(pto_dl_managed, manager) == 48, "DLManagedTensor.manager_ctx");
_Static_assert(offsetof(pto_dl_managed, deleter) == 56, "DLManagedTensor.deleter");
_Static_assert(sizeof(pto_dl_versioned) == 80, "DLManagedTensorVersioned");
_Static_assert(offsetof(pto_dl_versioned, version) == 0, "DLManagedTensorVersioned.version");
_Static_assert(offsetof(pto_dl_versioned, manager) == 8, "DLManagedTensorVersioned.manager_ctx");
_Static_assert(offsetof(pto_dl_versioned, deleter) == 16, "DLManagedTensorVersioned.deleter");
_Static_assert(offsetof(pto_dl_versioned, flags) == 24, "DLManagedTensorVersioned.flags");
_Static_assert(offsetof(pto_dl_versioned, tensor) == 32, "DLManagedTensorVersioned.dl_tensor");
#endif

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static const struct {
    pto_dtype ours;
    uint8_t code;
    uint8_t bits;
} dtypes[] = {
    {PTO_FLOAT32, DL_FLOAT, 32},   {PTO_FLOAT16, DL_FLOAT, 16}, {PTO_INT32, DL_INT, 32},
    {PTO_INT16, DL_INT, 16},       {PTO_INT8, DL_INT, 8},       {PTO_UINT8, DL_UINT, 8},
    {PTO_BFLOAT16, DL_BFLOAT, 16}, {PTO_INT64, DL_INT, 64},     {PTO_UINT64, DL_UINT, 64},
    {PTO_FLOAT64, DL_FLOAT, 64},   {PTO_BOOL, DL_BOOL, 8},
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* ---- Import ----------------------------------------------------------------------------- */

static pto_status import_dtype(const char *op, pto_dl_dtype dl, pto_dtype *dtype)
{
    if (dl.lanes != 1) {
        return ptoi_fail(PTO_BAD_DLPACK, "%s: dtype has %u lanes, only 1 is supported", op,
                         (unsigned)dl.lanes);
    }
    for (int i = 0; i < DTYPES; i++) {
        if (dtypes[i].code == dl.code && dtypes[i].bits == dl.bits) {
            *dtype = dtypes[i].ours;
            return PTO_OK;
        }
    }
    return ptoi_fail(PTO_BAD_DLPACK, "%s: dtype code %u with %u bits has no pto_dtype", op,
                     (unsigned)dl.code, (unsigned)dl.bits);
}

static pto_status import_device(const char *op, pto_dl_device dl, pto_device *device)
{
    if (dl.device_type < DL_CPU || dl.device_type > DL_CUDA_HOST) {
        return ptoi_fail(PTO_BAD_DEVICE,
                         "%s: device_type %" PRId32 ", only 1 (CPU), 2 (CUDA) and 3 (CUDA host) "
                         "are supported",
                         op, dl.device_type);
    }
    if (dl.device_id < 0) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: device_id %" PRId32 " is negative", op, dl.device_id);
    }
    device->type = dl.device_type == DL_CUDA ? PTO_DEVICE_NVIDIA : PTO_DEVICE_CPU;
    /* For pinned memory, device_id names the GPU that pinned it. */
    device->index = dl.device_type == DL_CUDA_HOST ? 0 : dl.device_id;
    return PTO_OK;
}

/* DLPack has no storage, only the address of element [0, 0, ...]. So the bytes from the lowest to
 * the highest element become the storage, and that element is `offset` elements into it. */
static pto_status span_storage(const char *op, const pto_dl_tensor *dl, int64_t numel,
                               pto_tensor *t)
{
    if (numel && !dl->data) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: data is NULL with %" PRId64 " elements", op,
                         numel);
    }
    int64_t low = 0, high = 0, count = 0, down = 0;
    uint64_t first;
    bool wrapped = __builtin_add_overflow((uintptr_t)dl->data, dl->byte_offset, &first) ||
                   dl->byte_offset > INT64_MAX;
    for (int32_t d = 0; d < t->ndim && numel; d++) {
        int64_t reach; /* 0 for a single element, for any stride */
        wrapped |= __builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &reach);
        wrapped |= reach < 0 ? __builtin_add_overflow(low, reach, &low)
                             : __builtin_add_overflow(high, reach, &high);
    }
    int64_t size = (int64_t)pto_dtype_size(t->dtype), bytes = 0;
    if (numel) {
        wrapped |= __builtin_sub_overflow(high, low, &count);
        wrapped |= __builtin_add_overflow(count, 1, &count);
        wrapped |= __builtin_mul_overflow(count, size, &bytes);
        wrapped |= __builtin_mul_overflow(low, size, &down);
        /* An address below 0 is a wrap too. */
        wrapped |= !wrapped && first < 0 - (uint64_t)down;
    }
    if (wrapped) {
        char shape[PTOI_DIMS_TEXT], strides[PTOI_DIMS_TEXT];
        return ptoi_fail(PTO_OVERFLOW,
                         "%s: data 0x%" PRIxPTR " with byte_offset %" PRIu64
                         ", shape %s and strides %s leaves the address space",
                         op, (uintptr_t)dl->data, dl->byte_offset,
                         ptoi_dims_text(t->ndim, t->shape, shape),
                         ptoi_dims_text(t->ndim, t->strides, strides));
    }
    /* Two additions, since neither may be applied to NULL. */
    t->storage = dl->data ? (char *)dl->data + dl->byte_offset + down : NULL;
    t->storage_bytes = (uint64_t)bytes;
    t->offset = numel ? -low : 0;
    return PTO_OK;
}

static pto_status import_tensor(const char *op, const pto_dl_tensor *dl, pto_tensor *out)
{
    pto_tensor made = {.ndim = dl->ndim};
    int64_t numel = 0;
    if (dl->ndim < 0 || dl->ndim > PTO_MAX_DIMS) {
        return ptoi_fail(PTO_BAD_NDIM, "%s: ndim %" PRId32 " is not in 0 .. %d", op, dl->ndim,
                         PTO_MAX_DIMS);
    }
    if (dl->ndim && !dl->shape) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: shape is NULL with ndim %" PRId32, op, dl->ndim);
    }
    PTO_TRY(import_dtype(op, dl->dtype, &made.dtype));
    PTO_TRY(import_device(op, dl->device, &made.device));
    PTO_TRY(ptoi_shape_numel(op, dl->ndim, dl->shape, &numel));
    for (int32_t d = 0; d < dl->ndim; d++) {
        made.shape[d] = dl->shape[d];
        made.strides[d] = dl->strides ? dl->strides[d] : 0;
    }
    if (!dl->strides) {
        ptoi_dense_strides(made.ndim, made.shape, made.strides);
    }
    ptoi_extent extent;
    PTO_TRY(span_storage(op, dl, numel, &made));
    PTO_TRY(ptoi_tensor_extent(op, &made, &extent));
    *out = made;
    return PTO_OK;
}

pto_status pto_dlpack_import(const pto_dl_managed *managed, pto_tensor *out)
{
    if (!managed || !out) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "dlpack_import: %s is NULL",
                         managed ? "out" : "managed");
    }
    return import_tensor("dlpack_import", &managed->tensor, out);
}

pto_status pto_dlpack_import_versioned(const pto_dl_versioned *managed, pto_tensor *out,
                                       bool *read_only)
{
    static const char op[] = "dlpack_import_versioned";
    if (!managed || !out) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: %s is NULL", op, managed ? "out" : "managed");
    }
    /* Checked first: another major version may have another layout. */
    if (managed->version.major != PTO_DLPACK_MAJOR) {
        return ptoi_fail(PTO_BAD_DLPACK, "%s: version %" PRIu32 ".%" PRIu32 ", not %d.x", op,
                         managed->version.major, managed->version.minor, PTO_DLPACK_MAJOR);
    }
    pto_status s = import_tensor(op, &managed->tensor, out);
    if (!s && read_only) {
        *read_only = (managed->flags & PTO_DL_FLAG_READ_ONLY) != 0;
    }
    return s;
}

void pto_dlpack_release(pto_dl_managed **managed)
{
    pto_dl_managed *m = managed ? *managed : NULL;
    if (m) {
        *managed = NULL;
        if (m->deleter) {
            m->deleter(m);
        }
    }
}

/* For any version: the deleter is at the same offset in all of them. */
void pto_dlpack_release_versioned(pto_dl_versioned **managed)
{
    pto_dl_versioned *m = managed ? *managed : NULL;
    if (m) {
        *managed = NULL;
        if (m->deleter) {
            m->deleter(m);
        }
    }
}

/* ---- Export ----------------------------------------------------------------------------- */

/* An exported tensor: the struct that the other library sees, and what belongs to it. */
typedef struct exported {
    union {
        pto_dl_managed legacy;
        pto_dl_versioned versioned;
    } seen; /* first, so that the deleters can cast back to this struct */
    void (*done)(void *context);
    void *context;
    int64_t shape[PTO_MAX_DIMS];
    int64_t strides[PTO_MAX_DIMS];
} exported;

static void finish(exported *e)
{
    if (e->done) {
        e->done(e->context);
    }
    free(e);
}

static void delete_legacy(pto_dl_managed *self)
{
    finish(self->manager);
}

static void delete_versioned(pto_dl_versioned *self)
{
    finish(self->manager);
}

/* Fills all fields that both structs have. */
static pto_status export_tensor(const char *op, const pto_tensor *t, void (*done)(void *),
                                void *context, exported **out, pto_dl_tensor *dl)
{
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent(op, t, &extent));
    if (t->device.type != PTO_DEVICE_CPU && t->device.type != PTO_DEVICE_NVIDIA) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: device %s:%" PRId32 " (type %u) has no DLPack type",
                         op, pto_device_name(t->device.type), t->device.index,
                         (unsigned)t->device.type);
    }
    if (extent.numel && !t->storage) {
        return ptoi_fail(PTO_NULL_ARGUMENT,
                         "%s: t is in managed block %" PRIu64 ", which has no address yet", op,
                         t->owner);
    }
    exported *e = calloc(1, sizeof *e);
    if (!e) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "%s: %zu bytes", op, sizeof *e);
    }
    e->done = done;
    e->context = context;
    for (int32_t d = 0; d < t->ndim; d++) {
        e->shape[d] = t->shape[d];
        e->strides[d] = t->strides[d];
    }
    *dl = (pto_dl_tensor){
        /* The offset is separate, so that `data` is as aligned as the storage. */
        .data = t->storage,
        .device = {t->device.type == PTO_DEVICE_CPU ? DL_CPU : DL_CUDA, t->device.index},
        .ndim = t->ndim,
        .shape = e->shape,
        .strides = e->strides,
        .byte_offset = (uint64_t)t->offset * extent.size,
    };
    for (int i = 0; i < DTYPES; i++) {
        if (dtypes[i].ours == t->dtype) {
            dl->dtype = (pto_dl_dtype){dtypes[i].code, dtypes[i].bits, 1};
        }
    }
    *out = e;
    return PTO_OK;
}

pto_status pto_dlpack_export(const pto_tensor *t, void (*done)(void *context), void *context,
                             pto_dl_managed **out)
{
    exported *e = NULL;
    pto_dl_tensor dl;
    if (!out) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "dlpack_export: out is NULL");
    }
    pto_status s = export_tensor("dlpack_export: t", t, done, context, &e, &dl);
    if (!e) {
        return s;
    }
    e->seen.legacy = (pto_dl_managed){.tensor = dl, .manager = e, .deleter = delete_legacy};
    *out = &e->seen.legacy;
    return PTO_OK;
}

pto_status pto_dlpack_export_versioned(const pto_tensor *t, uint64_t flags,
                                       void (*done)(void *context), void *context,
                                       pto_dl_versioned **out)
{
    exported *e = NULL;
    pto_dl_tensor dl;
    if (!out) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "dlpack_export_versioned: out is NULL");
    }
    pto_status s = export_tensor("dlpack_export_versioned: t", t, done, context, &e, &dl);
    if (!e) {
        return s;
    }
    e->seen.versioned = (pto_dl_versioned){.version = {PTO_DLPACK_MAJOR, PTO_DLPACK_MINOR},
                                           .manager = e,
                                           .deleter = delete_versioned,
                                           .flags = flags,
                                           .tensor = dl};
    *out = &e->seen.versioned;
    return PTO_OK;
}
