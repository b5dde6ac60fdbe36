/* device.h - the devices of the process: which are valid, and how to switch between them. Operators,
 * the orchestrator and workers use the one table. */
#ifndef PTOI_DEVICE_H
#define PTOI_DEVICE_H

#include <pto/device.h>
#include <pto/sim.h>

#include "tensor/tensor.h"

extern const pto_device_ops ptoi_device_host; /* cpu:0 */

static inline bool ptoi_device_equal(pto_device a, pto_device b)
{
    return a.type == b.type && a.index == b.index;
}

static inline bool ptoi_device_is_host(pto_device device)
{
    return !((uint32_t)device.type | (uint32_t)device.index);
}

/* Whether the device is valid: a known type and a non-negative index; the cpu has only index 0, and
 * simulated devices have few. */
static inline bool ptoi_device_sound(pto_device device)
{
    return device.type == PTO_DEVICE_CPU
               ? device.index == 0
               : (uint32_t)device.type < PTOI_DEVICE_TYPES && device.index >= 0 &&
                     (device.type != PTO_DEVICE_SIM || device.index < PTO_SIM_DEVICES);
}

/* The same with a detail: PTO_BAD_DEVICE. `what` begins the detail: "rearrange: outputs[0]". */
pto_status ptoi_device_check(const char *what, pto_device device);

/* Adds an NVIDIA device, unless there is one of that index already. */
pto_status ptoi_device_add_nvidia(int32_t index, const pto_device_ops *ops);

/* The current device of this thread. `as` is the registration under which it was made current. With
 * a newer registration it is made current again. */
typedef struct ptoi_device_now {
    pto_device device;
    const void *as;
} ptoi_device_now;

extern _Thread_local ptoi_device_now ptoi_device_here __attribute__((tls_model("initial-exec")));

/* pto_device_set_current, without a call if nothing changes. */
static inline pto_status ptoi_device_go(pto_device device)
{
    if (device.type == PTO_DEVICE_CPU && ptoi_device_equal(device, ptoi_device_here.device)) {
        return PTO_OK;
    }
    return pto_device_set_current(device);
}

/* Makes `before` current again after an operation that ended with `status`. Returns `status` and
 * keeps its detail if it is a failure; otherwise returns whether the switch failed. */
pto_status ptoi_device_go_back(pto_device before, pto_status status);

static inline pto_status ptoi_device_return(pto_device before, pto_status status)
{
    return ptoi_device_equal(ptoi_device_here.device, before) ? status
                                                              : ptoi_device_go_back(before, status);
}

#endif /* PTOI_DEVICE_H */
