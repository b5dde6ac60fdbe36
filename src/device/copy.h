/* copy.h - copies between any two tensors, on any two devices, with any strides.
 *
 *     host <-> host          the calling thread
 *     host <-> device        the copy function of the device, unless it returns
 *                            PTO_NOT_IMPLEMENTED; or copy_in and copy_out, with dense memory of the
 *                            host in between where the layout is not dense
 *     device <-> same        the copy function of the device; or the operator Rearrange, if the
 *                            device has it; or through the host
 *     device <-> another     through the host, unless both are of one type: then the copy function of
 *                            the destination may know how
 *
 * A copy is begun on one thread and may end on another. Tensors have addresses, and do not overlap.
 */
#ifndef PTOI_DEVICE_COPY_H
#define PTOI_DEVICE_COPY_H

#include <pthread.h>

#include <pto/device.h>

/* Begins a copy of tensors of equal shape and dtype. After PTO_OK, `done` is called once, possibly
 * before the return. The tensors are only valid during the call. */
pto_status ptoi_device_copy(const pto_tensor *to, const pto_tensor *from, pto_device_done done,
                            void *context);

/* The same, and waits for the end. Dense copies, and those within a device, are made by the calling
 * thread where the device can be waited for. */
pto_status ptoi_device_copy_wait(const pto_tensor *to, const pto_tensor *from);

/* ptoi_device_fill, and waits for the end. */
pto_status ptoi_device_fill_wait(const pto_tensor *to, const void *element);

/* Copies bytes between a device (`there`) and the host (`here`), and waits. `in`: to the device. */
pto_status ptoi_device_copy_bytes(pto_device device, void *there, void *here, uint64_t bytes,
                                  bool in);

/* Waiting for one operation of a device: its `done` is ptoi_device_wake, with this as context. */
typedef struct ptoi_device_wait {
    pthread_mutex_t lock; /* protects all that follows */
    pthread_cond_t ended;
    bool over;
    pto_status status;
    char detail[512]; /* of its error */
} ptoi_device_wait;

#define PTOI_DEVICE_WAIT                                                                           \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER                       \
    }

void ptoi_device_wake(void *context, pto_status status);

/* Waits, and returns the status of the operation with its detail. */
pto_status ptoi_device_wait_for(ptoi_device_wait *w);

/* Begins to set all elements to the value whose bytes are at `element`. */
pto_status ptoi_device_fill(const pto_tensor *to, const void *element, pto_device_done done,
                            void *context);

#endif /* PTOI_DEVICE_COPY_H */
