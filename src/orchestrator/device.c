/* device.c - the table of devices of a runtime. It contains the host from the start. */
#include "orchestrator/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "op/device.h"
#include "orchestrator/runtime.h"

static ptoi_device *find(const struct ptoi_devices *devices, pto_device device)
{
    for (size_t i = 0; i < devices->n; i++) {
        ptoi_device *entry = &devices->entries[i];
        if (entry->device.type == device.type && entry->device.index == device.index) {
            return entry;
        }
    }
    return NULL;
}

static pto_status put(struct ptoi_devices *devices, pto_device device, const pto_device_ops *ops)
{
    ptoi_device *entry = find(devices, device);
    if (!entry && devices->n == devices->room) {
        size_t room = devices->room ? 2 * devices->room : 8;
        ptoi_device *entries = realloc(devices->entries, room * sizeof *entries);
        if (!entries) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "device register: no memory for %zu devices", room);
        }
        devices->entries = entries;
        devices->room = room;
    }
    if (!entry) {
        entry = &devices->entries[devices->n++];
    }
    *entry = (ptoi_device){device, *ops};
    return PTO_OK;
}

pto_status ptoi_devices_create(struct ptoi_devices **out)
{
    struct ptoi_devices *devices = calloc(1, sizeof *devices);
    if (!devices) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "devices: no %zu bytes for the table", sizeof *devices);
    }
    pto_status s = put(devices, (pto_device){PTO_DEVICE_CPU, 0}, &ptoi_device_host);
    if (s) {
        ptoi_devices_destroy(devices);
        return s;
    }
    *out = devices;
    return PTO_OK;
}

void ptoi_devices_destroy(struct ptoi_devices *devices)
{
    if (devices) {
        free(devices->entries);
        free(devices);
    }
}

/* ---- Public functions -------------------------------------------------------------------- */

static pto_status check_ops(const pto_device_ops *ops)
{
    if (ops->size != sizeof *ops) {
        return ptoi_fail(PTO_BAD_CONFIG, "device register: size of ops is %zu, it should be %zu",
                         ops->size, sizeof *ops);
    }
    const char *missing = !ops->alloc      ? "alloc"
                          : !ops->free     ? "free"
                          : !ops->copy_in  ? "copy_in"
                          : !ops->copy_out ? "copy_out"
                                           : NULL;
    if (missing) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "device register: ops->%s is NULL", missing);
    }
    return PTO_OK;
}

pto_status pto_device_register(pto_runtime *rt, pto_device device, const pto_device_ops *ops)
{
    if (!rt || !ops) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "device register: %s is NULL", rt ? "ops" : "rt");
    }
    PTO_TRY(ptoi_runtime_enter(rt, "device register"));
    PTO_TRY(check_ops(ops));
    /* pto_tensor_check knows which devices are valid. */
    PTO_TRY(pto_tensor_check(&(pto_tensor){.dtype = PTO_UINT8, .ndim = 1, .device = device}));
    return put(rt->devices, device, ops);
}

pto_status pto_device_find(pto_runtime *rt, pto_device device, pto_device_ops *ops)
{
    if (!rt || !ops) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "device find: %s is NULL", rt ? "ops" : "rt");
    }
    PTO_TRY(ptoi_runtime_enter(rt, "device find"));
    const ptoi_device *entry = find(rt->devices, device);
    if (!entry) {
        return ptoi_fail(PTO_BAD_DEVICE,
                         "device find: %s:%" PRId32 " (type %u) is not in the table",
                         pto_device_name(device.type), device.index, (unsigned)device.type);
    }
    *ops = entry->ops;
    return PTO_OK;
}
