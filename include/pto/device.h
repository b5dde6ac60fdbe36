/* pto/device.h - how to use a device: its memory, its copies, and which one is current. */
#ifndef PTO_DEVICE_H
#define PTO_DEVICE_H

#include <pto/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of one device. `self` is handed to each of them. Those that may be NULL do nothing
 * then. One that fails may say why with pto_fail. None is ever called about 0 bytes. */
typedef struct pto_device_ops {
    size_t size; /* sizeof(pto_device_ops) */
    void *self;
    pto_status (*alloc)(void *self, uint64_t bytes, void **memory); /* aligned to 64 bytes */
    void (*free)(void *self, void *memory, uint64_t bytes);
    /* To the device, and back to the host. A copy may be under way when the function returns, until
     * the next `synchronize`: both sides stay as they are until then. */
    pto_status (*copy_in)(void *self, void *to, const void *from, uint64_t bytes);
    pto_status (*copy_out)(void *self, void *to, const void *from, uint64_t bytes);
    pto_status (*set_current)(void *self); /* on the thread about to use it; may be NULL */
    pto_status (*synchronize)(void *self); /* copies begun so far are done; may be NULL */
    void *stream;                          /* for the kernels of the device; may be NULL */
} pto_device_ops;

/* ---- Devices of operators ----------------------------------------------------------------- */

/* A runtime has devices of its own (pto_device_register of pto/execute.h). Operators (pto/op.h)
 * work without one, so theirs are known to the whole process. cpu:0 is built in and stays as it
 * is; any other index of the cpu, an unknown type or a negative index is PTO_BAD_DEVICE to all of
 * them. Any thread may call these. */

/* Says how to use a device. `ops` is copied, and stays as long as the process: what it points to
 * must do so too. All of its functions may be NULL; `alloc` and `free`, both or none, are needed
 * only for results that an operator allocates. Adding a device again replaces what was said
 * before, for those who look from then on. */
PTO_API pto_status pto_device_add(pto_device device, const pto_device_ops *ops);

/* What pto_device_add said about a device; PTO_BAD_DEVICE if it was never added. */
PTO_API pto_status pto_device_get(pto_device device, pto_device_ops *ops);

/* The device that is current on the calling thread: cpu:0 at first. */
PTO_API pto_device pto_device_current(void);

/* Makes a device current on the calling thread. That calls its `set_current`; the cpu has none, nor
 * has a device that was never added, which can be current all the same. If it is current already
 * nothing is called, unless it was added anew since. On failure the old one stays current. */
PTO_API pto_status pto_device_set_current(pto_device device);

#ifdef __cplusplus
}
#endif

#endif /* PTO_DEVICE_H */
