/* device.h - devices as operators see them: which ones there can be, and the way back from one. */
#ifndef PTOI_OP_DEVICE_H
#define PTOI_OP_DEVICE_H

#include <pto/device.h>

/* Device types count from 0 without a gap. */
#define PTOI_DEVICE_ONE(name, value, text) +1
enum { PTOI_DEVICE_TYPES = 0 PTO_DEVICE_MAP(PTOI_DEVICE_ONE) };
#undef PTOI_DEVICE_ONE

extern const pto_device_ops ptoi_device_host; /* cpu:0 */

static inline bool ptoi_device_equal(pto_device a, pto_device b)
{
    return a.type == b.type && a.index == b.index;
}

/* Whether there can be such a device: a known type, no negative index, and of the cpu only 0. */
static inline bool ptoi_device_sound(pto_device device)
{
    return device.type == PTO_DEVICE_CPU
               ? device.index == 0
               : (uint32_t)device.type < PTOI_DEVICE_TYPES && device.index >= 0;
}

/* The same, in words: PTO_BAD_DEVICE if not. `what` begins the detail: "rearrange: outputs[0]". */
pto_status ptoi_device_check(const char *what, pto_device device);

/* What is current on this thread. `as` is what was known when it became so: told something new, it
 * is made current again. */
typedef struct ptoi_device_now {
    pto_device device;
    const void *as;
} ptoi_device_now;

extern _Thread_local ptoi_device_now ptoi_device_here __attribute__((tls_model("initial-exec")));

/* pto_device_set_current, without a call for what needs none. */
static inline pto_status ptoi_device_go(pto_device device)
{
    if (device.type == PTO_DEVICE_CPU && ptoi_device_equal(device, ptoi_device_here.device)) {
        return PTO_OK;
    }
    return pto_device_set_current(device);
}

/* Makes `before` current again, after something that ended with `status`. If that was a failure it
 * stays the one that counts, in its own words; else it is whether the way back failed. */
pto_status ptoi_device_go_back(pto_device before, pto_status status);

static inline pto_status ptoi_device_return(pto_device before, pto_status status)
{
    return ptoi_device_equal(ptoi_device_here.device, before) ? status
                                                              : ptoi_device_go_back(before, status);
}

#endif /* PTOI_OP_DEVICE_H */
