/* pto/device.h - devices: memory, copies, and the current device. */
#ifndef PTO_DEVICE_H
#define PTO_DEVICE_H

#include <pto/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of one device. Each receives `self`. A function that may be NULL then does nothing.
 * A function that fails can say why with pto_fail. None is called for 0 bytes. */
typedef struct pto_device_ops {
    size_t size; /* sizeof(pto_device_ops) */
    void *self;
    pto_status (*alloc)(void *self, uint64_t bytes, void **memory); /* aligned to 64 bytes */
    void (*free)(void *self, void *memory, uint64_t bytes);
    /* Copy to the device, and back to the host. A copy may still be in progress when the function
     * returns, until the next `synchronize`. Both sides stay unchanged until then. */
    pto_status (*copy_in)(void *self, void *to, const void *from, uint64_t bytes);
    pto_status (*copy_out)(void *self, void *to, const void *from, uint64_t bytes);
    pto_status (*set_current)(void *self); /* called on the thread that is about to use the device;
                                              may be NULL */
    pto_status (*synchronize)(void *self); /* waits for all copies started so far; may be NULL */
    void *stream;                          /* for kernels of the device; may be NULL */
} pto_device_ops;

/* ---- Devices of operators ----------------------------------------------------------------- */

/* A runtime has its own devices (pto_device_register in pto/execute.h). Operators (pto/op.h) work
 * without a runtime, so their devices are known to the whole process. cpu:0 is built in and cannot
 * be changed. Any other CPU index, an unknown type or a negative index is PTO_BAD_DEVICE. Any
 * thread may call these functions. */

/* Adds a device. `ops` is copied and kept until the process ends, so what it points to must stay
 * valid for as long. Each function may be NULL. `alloc` and `free`, both or neither, are needed
 * only for results that an operator allocates. Adding a device again replaces its functions for
 * later lookups. */
PTO_API pto_status pto_device_add(pto_device device, const pto_device_ops *ops);

/* Gets the functions of a device. PTO_BAD_DEVICE if it was never added. */
PTO_API pto_status pto_device_get(pto_device device, pto_device_ops *ops);

/* Returns the current device of the calling thread. At first it is cpu:0. */
PTO_API pto_device pto_device_current(void);

/* Makes a device current on the calling thread. This calls its `set_current`, if it has one. A
 * device that was never added can be current, too. Nothing is called if the device is already
 * current and was not added again since. On failure the old device stays current. */
PTO_API pto_status pto_device_set_current(pto_device device);

#ifdef __cplusplus
}
#endif

#endif /* PTO_DEVICE_H */
