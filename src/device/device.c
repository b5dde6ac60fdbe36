/* device.c - the devices of the process, and the current device of a thread. */
#include "device/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/error.h"
#include "device/cuda/load.h"
#include "device/sim/sim.h"

#include <pto/pto.h>
#include <pto/sim.h>

/* ---- The host ----------------------------------------------------------------------------- */

enum { HOST_ALIGNMENT = 64 };

static pto_status host_alloc(void *self, uint64_t bytes, void **memory)
{
    (void)self;
    uint64_t rounded = (bytes + HOST_ALIGNMENT - 1) & ~(uint64_t)(HOST_ALIGNMENT - 1);
    *memory = rounded < bytes ? NULL : aligned_alloc(HOST_ALIGNMENT, rounded);
    if (!*memory) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "cannot allocate %" PRIu64 " bytes on the host", bytes);
    }
    return PTO_OK;
}

static void host_free(void *self, void *memory, uint64_t bytes)
{
    (void)self;
    (void)bytes;
    free(memory);
}

static pto_status host_copy(void *self, void *to, const void *from, uint64_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
    return PTO_OK;
}

const pto_device_ops ptoi_device_host = {
    .size = sizeof(pto_device_ops),
    .alloc = host_alloc,
    .free = host_free,
    .copy_in = host_copy,
    .copy_out = host_copy,
};

/* ---- The table ---------------------------------------------------------------------------- */

/* One registration of a device. It never changes and is never freed, so a reader may keep using it
 * while others are added. */
typedef struct known {
    pto_device_ops ops;
    const struct known *next; /* older, of the same type */
    int32_t index;
} known;

/* The newest registration of each type, as a pointer. Adding: cas. Reading: acquire, so a node is
 * complete when it is visible. */
static ptoi_a64 latest[PTOI_DEVICE_TYPES];

static const known *newest(pto_device_type type)
{
    return (const known *)(uintptr_t)ptoi_acquire64(&latest[type]);
}

/* A newer registration comes first, so it hides older ones of the same index. */
static const known *find(const known *from, int32_t index)
{
    const known *k = from;
    while (k && k->index != index) {
        k = k->next;
    }
    return k;
}

pto_status ptoi_device_check(const char *what, pto_device device)
{
    if ((uint32_t)device.type >= PTOI_DEVICE_TYPES) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: device type %u is not in 0 .. %d", what,
                         (unsigned)device.type, PTOI_DEVICE_TYPES - 1);
    }
    if (device.index < 0) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: device index %" PRId32 " is negative", what,
                         device.index);
    }
    if (device.type == PTO_DEVICE_CPU && device.index != 0) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: cpu:%" PRId32 ", but the cpu has only index 0", what,
                         device.index);
    }
    if (device.type == PTO_DEVICE_SIM && device.index >= PTO_SIM_DEVICES) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: sim:%" PRId32 ", but there are sim:0 to sim:%d", what,
                         device.index, PTO_SIM_DEVICES - 1);
    }
    return PTO_OK;
}

static pto_status check_ops(const pto_device_ops *ops)
{
    if (ops->size != sizeof *ops) {
        return ptoi_fail(PTO_BAD_CONFIG, "device add: ops->size is %zu, expected %zu", ops->size,
                         sizeof *ops);
    }
    if (!ops->alloc != !ops->free) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "device add: ops->%s is NULL, ops->%s is not",
                         ops->alloc ? "free" : "alloc", ops->alloc ? "alloc" : "free");
    }
    return PTO_OK;
}

pto_status pto_device_add(pto_device device, const pto_device_ops *ops)
{
    if (!ops) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "device add: ops is NULL");
    }
    if (!ptoi_device_sound(device)) {
        return ptoi_device_check("device add", device);
    }
    if (device.type == PTO_DEVICE_CPU || device.type == PTO_DEVICE_SIM) {
        return ptoi_fail(PTO_BAD_DEVICE, "device add: %s:%" PRId32 " is built in",
                         pto_device_name(device.type), device.index);
    }
    PTO_TRY(check_ops(ops));
    uint64_t head = ptoi_acquire64(&latest[device.type]);
    const known *old = find((const known *)(uintptr_t)head, device.index);
    if (old && memcmp(&old->ops, ops, sizeof *ops) == 0) {
        return PTO_OK; /* programs that register before each use must not grow the list */
    }
    known *k = malloc(sizeof *k);
    if (!k) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "device add: no %zu bytes for %s:%" PRId32, sizeof *k,
                         pto_device_name(device.type), device.index);
    }
    k->ops = *ops;
    k->index = device.index;
    do {
        k->next = (const known *)(uintptr_t)head;
    } while (!ptoi_cas64(&latest[device.type], &head, (uint64_t)(uintptr_t)k));
    return PTO_OK;
}

pto_status ptoi_device_add_nvidia(int32_t index, const pto_device_ops *ops)
{
    return find(newest(PTO_DEVICE_NVIDIA), index)
               ? PTO_OK
               : pto_device_add((pto_device){PTO_DEVICE_NVIDIA, index}, ops);
}

static pto_status load_nvidia(int32_t index, const known **k)
{
    pto_status s = ptoi_cuda_load(index);
    if (s) {
        char why[400];
        snprintf(why, sizeof why, "%s", pto_error_detail());
        return ptoi_fail(s, "device get: nvidia:%" PRId32 " cannot be used: %s", index, why);
    }
    *k = find(newest(PTO_DEVICE_NVIDIA), index);
    return PTO_OK;
}

pto_status pto_device_get(pto_device device, pto_device_ops *ops)
{
    if (!ops) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "device get: ops is NULL");
    }
    if (!ptoi_device_sound(device)) {
        return ptoi_device_check("device get", device);
    }
    if (device.type == PTO_DEVICE_CPU) {
        *ops = ptoi_device_host;
        return PTO_OK;
    }
    if (device.type == PTO_DEVICE_SIM) {
        const pto_device_ops *sim;
        PTO_TRY(ptoi_sim_get(device.index, &sim));
        *ops = *sim;
        return PTO_OK;
    }
    const known *k = find(newest(device.type), device.index);
    if (!k && device.type == PTO_DEVICE_NVIDIA) {
        PTO_TRY(load_nvidia(device.index, &k));
    }
    if (!k) {
        return ptoi_fail(PTO_BAD_DEVICE, "device get: %s:%" PRId32 " was never added",
                         pto_device_name(device.type), device.index);
    }
    *ops = k->ops;
    return PTO_OK;
}

static void list_type(pto_device_type type, pto_device *devices, size_t most, size_t *n)
{
    /* Each index once, in rising order: the smallest that was not listed yet. There are few. */
    const known *all = newest(type);
    for (int64_t last = -1;;) {
        int64_t next = INT64_MAX;
        for (const known *k = all; k; k = k->next) {
            next = k->index > last && k->index < next ? k->index : next;
        }
        if (next == INT64_MAX) {
            return;
        }
        if (*n < most) {
            devices[*n] = (pto_device){type, (int32_t)next};
        }
        ++*n;
        last = next;
    }
}

pto_status pto_device_list(pto_device *devices, size_t most, size_t *count)
{
    if ((!devices && most) || !count) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "device list: %s is NULL", count ? "devices" : "count");
    }
    size_t n = 1;
    if (most) {
        devices[0] = (pto_device){PTO_DEVICE_CPU, 0};
    }
    for (uint32_t type = PTO_DEVICE_CPU + 1; type < PTOI_DEVICE_TYPES; type++) {
        list_type((pto_device_type)type, devices, most, &n);
    }
    for (int32_t i = 0; i < PTO_SIM_DEVICES; i++) {
        if (i == 0 || ptoi_sim_exists(i)) {
            if (n < most) {
                devices[n] = (pto_device){PTO_DEVICE_SIM, i};
            }
            n++;
        }
    }
    *count = n;
    return PTO_OK;
}

/* ---- The current device ------------------------------------------------------------------- */

_Thread_local ptoi_device_now ptoi_device_here;

pto_device pto_device_current(void)
{
    return ptoi_device_here.device;
}

static pto_status switch_to(pto_device device, const known *k)
{
    if (k && k->ops.set_current) {
        uint64_t serial = ptoi_error_serial();
        pto_status s = k->ops.set_current(k->ops.self);
        if (s) {
            return ptoi_fail(
                s, "set_current of %s:%" PRId32 ": %s", pto_device_name(device.type), device.index,
                ptoi_error_serial() == serial ? pto_status_text(s) : pto_error_detail());
        }
    }
    ptoi_device_here.device = device;
    ptoi_device_here.as = k;
    return PTO_OK;
}

pto_status pto_device_set_current(pto_device device)
{
    if (!ptoi_device_sound(device)) {
        return ptoi_device_check("device set current", device);
    }
    const known *k = NULL;
    if (device.type != PTO_DEVICE_CPU) {
        k = find(newest(device.type), device.index);
    }
    if (k == ptoi_device_here.as && ptoi_device_equal(device, ptoi_device_here.device)) {
        return PTO_OK;
    }
    return switch_to(device, k);
}

pto_status ptoi_device_go_back(pto_device before, pto_status status)
{
    if (!status) {
        return pto_device_set_current(before);
    }
    char detail[512];
    snprintf(detail, sizeof detail, "%s", pto_error_detail());
    return pto_device_set_current(before) ? ptoi_fail(status, "%s", detail) : status;
}
