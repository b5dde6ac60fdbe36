/* empty.c - tensors in memory of a device that belongs to the program. */
#include <inttypes.h>

#include <pto/pto.h>

#include "base/error.h"
#include "device/device.h"

/* The functions of a device that gives memory. */
static pto_status find(const char *who, pto_device device, pto_device_ops *ops)
{
    PTO_TRY(ptoi_device_check(who, device));
    PTO_TRY(pto_device_get(device, ops));
    return ops->alloc ? PTO_OK
                      : ptoi_fail(PTO_BAD_DEVICE, "%s: %s:%" PRId32 " has no function alloc", who,
                                  pto_device_name(device.type), device.index);
}

pto_status pto_tensor_empty(pto_device device, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                            pto_tensor *t)
{
    pto_device_ops ops;
    pto_tensor made;
    uint64_t bytes;
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "tensor empty: t is NULL");
    }
    /* With the largest possible storage only dtype or shape can be wrong. */
    PTO_TRY(pto_tensor_init(&made, (void *)64, INT64_MAX - 64, dtype, ndim, shape, NULL, 0));
    PTO_TRY(pto_tensor_nbytes(&made, &bytes));
    PTO_TRY(find("tensor empty", device, &ops));
    made.storage = NULL;
    made.storage_bytes = bytes;
    made.device = device;
    if (bytes) {
        const pto_device before = pto_device_current();
        PTO_TRY(ptoi_device_go(device));
        const uint64_t serial = ptoi_error_serial();
        pto_status s = ops.alloc(ops.self, bytes, &made.storage);
        if (!s && !made.storage) {
            s = ptoi_fail(PTO_OUT_OF_MEMORY, "alloc gave no memory");
        }
        if (s) {
            s = ptoi_fail(s, "tensor empty: %" PRIu64 " bytes on %s:%" PRId32 ": %s", bytes,
                          pto_device_name(device.type), device.index,
                          ptoi_error_serial() == serial ? pto_status_text(s) : pto_error_detail());
        }
        PTO_TRY(ptoi_device_return(before, s));
    }
    *t = made;
    return PTO_OK;
}

pto_status pto_tensor_free(pto_tensor *t)
{
    pto_device_ops ops;
    if (!t) {
        return PTO_OK;
    }
    if (t->owner) {
        return ptoi_fail(PTO_BAD_MEMORY, "tensor free: managed memory belongs to its scope: use "
                                         "pto_release");
    }
    if (t->storage) {
        const pto_device before = pto_device_current();
        PTO_TRY(find("tensor free", t->device, &ops));
        PTO_TRY(ptoi_device_go(t->device));
        const uint64_t serial = ptoi_error_serial();
        ops.free(ops.self, t->storage, t->storage_bytes);
        pto_status s = PTO_OK;
        if (ptoi_error_serial() != serial) { /* `free` has no status, but it may have said why */
            s = ptoi_fail(PTO_BAD_MEMORY, "tensor free: %s", pto_error_detail());
        }
        PTO_TRY(ptoi_device_return(before, s));
    }
    t->storage = NULL;
    t->storage_bytes = 0;
    return PTO_OK;
}
