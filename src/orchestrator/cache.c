#include "orchestrator/cache.h"

#include <inttypes.h>

#include "base/error.h"
#include "device/device.h"
#include "orchestrator/device.h"

bool ptoi_cache_drop(pto_runtime *rt, uint32_t device)
{
    ptoi_rt_device *d = &rt->devices[device];
    const pto_device before = pto_device_current();
    bool any = false;
    for (uint32_t i = 0; i < PTOI_CACHED; i++) {
        if (d->cached[i].memory && !d->cached[i].used) {
            any = true;
            PTO_IGNORE(ptoi_device_go(d->device));
            d->ops.free(d->ops.self, d->cached[i].memory, d->cached[i].bytes);
            d->cached[i].memory = NULL;
        }
    }
    PTO_IGNORE(ptoi_device_return(before, PTO_OK));
    return any;
}

static pto_status allocate(const ptoi_rt_device *d, uint64_t bytes, void **memory)
{
    const pto_device before = pto_device_current();
    PTO_TRY(ptoi_device_go(d->device));
    const uint64_t serial = ptoi_error_serial();
    pto_status s = d->ops.alloc(d->ops.self, bytes, memory);
    if (s) {
        *memory = NULL; /* whatever it wrote there */
    }
    if (!s && !*memory) {
        s = ptoi_fail(PTO_OUT_OF_MEMORY, "it returned NULL");
    } else if (s && ptoi_error_serial() == serial) {
        s = ptoi_fail(s, "%s", pto_status_text(s));
    }
    return ptoi_device_return(before, s);
}

pto_status ptoi_cache_take(pto_runtime *rt, uint32_t device, uint64_t bytes, void **memory)
{
    ptoi_rt_device *d = &rt->devices[device];
    uint32_t best = PTOI_CACHED;
    for (uint32_t i = 0; i < PTOI_CACHED; i++) {
        const uint64_t size = d->cached[i].bytes;
        if (d->cached[i].memory && !d->cached[i].used && size >= bytes && size / 2 <= bytes &&
            (best == PTOI_CACHED || size < d->cached[best].bytes)) {
            best = i;
        }
    }
    if (best < PTOI_CACHED) {
        d->cached[best].used = true;
        *memory = d->cached[best].memory;
        return PTO_OK;
    }
    pto_status s = allocate(d, bytes, memory);
    if (s == PTO_OUT_OF_MEMORY && ptoi_cache_drop(rt, device)) {
        s = allocate(d, bytes, memory);
    }
    PTO_TRY(s);
    for (uint32_t i = 0; i < PTOI_CACHED; i++) {
        if (!d->cached[i].memory) {
            d->cached[i].memory = *memory;
            d->cached[i].bytes = bytes;
            d->cached[i].used = true;
            break;
        }
    }
    return PTO_OK;
}

void ptoi_cache_give_back(pto_runtime *rt, uint32_t device, void *memory, uint64_t bytes)
{
    ptoi_rt_device *d = &rt->devices[device];
    for (uint32_t i = 0; i < PTOI_CACHED; i++) {
        if (d->cached[i].memory == memory) {
            d->cached[i].used = false;
            return;
        }
    }
    const pto_device before = pto_device_current(); /* there was no place to keep it */
    PTO_IGNORE(ptoi_device_go(d->device));
    d->ops.free(d->ops.self, memory, bytes);
    PTO_IGNORE(ptoi_device_return(before, PTO_OK));
}
