/* api.h - what libpto-cuda.so offers to libpto. The library is loaded when a device nvidia:N is first
 * asked for (op/backend.c). It knows nothing of libpto but these structs, so that it works with the
 * shared and with the static library.
 *
 * A device has three streams of its own, none of which waits for the default stream:
 *
 *     work    operators, in the order of the calls
 *     in      copies to the device
 *     out     copies to the host
 *
 * An operator waits, on the device, for all copies that were started before it, and a copy for all
 * operators before it. Copies in and copies out do not wait for each other. `synchronize` waits for
 * all three. Tasks use other streams, and so do copies that are tasks.
 *
 * Any thread may call, with the device current. Functions that fail set the detail by `fail`.
 */
#ifndef PTOI_CUDA_API_H
#define PTOI_CUDA_API_H

#include <pto/device.h>

#include "op/rearrange/grid.h"

/* One device; its memory is never given back. */
typedef struct ptoi_cuda ptoi_cuda;

/* ptoi_fail of the calling library. */
typedef pto_status ptoi_cuda_fail(pto_status status, const char *format, ...) PTO_PRINTF(2, 3);

/* Facts about a device. */
typedef struct ptoi_cuda_facts {
    char name[128];
    uint32_t sms; /* multiprocessors */
    uint64_t bytes;
    int32_t major, minor; /* compute capability */
} ptoi_cuda_facts;

typedef struct ptoi_cuda_api {
    uint64_t size;       /* of this struct */
    uint64_t grid_size;  /* of ptoi_grid_plan */
    const char *version; /* PTO_VERSION that it was built with */

    /* The number of devices that the driver shows. PTO_BAD_DEVICE if there is no driver, or it is too
     * old, or it shows none. */
    pto_status (*count)(ptoi_cuda_fail *fail, int32_t *count);

    /* Opens a device and fills in the functions that every device has. A second call gives the same
     * device again. */
    pto_status (*open)(ptoi_cuda_fail *fail, int32_t index, ptoi_cuda **device, pto_device_ops *ops,
                       ptoi_cuda_facts *facts);

    int32_t (*index)(const void *self); /* of an open device: the N of nvidia:N */

    /* Starts a copy, or a fill with an element that is repeated to 8 bytes. A NULL stream is that of
     * the device. `dst` names the operation if the device is lost. */
    pto_status (*move)(ptoi_cuda *device, void *stream, const ptoi_grid_plan *plan, void *to,
                       const void *from, const pto_tensor *dst);
    pto_status (*fill)(ptoi_cuda *device, void *stream, const ptoi_grid_plan *plan, void *to,
                       uint64_t element, const pto_tensor *dst);

    /* For copies on streams of their own (device/transfer.h): see there. `self` is the device. */
    pto_status (*pin)(void *self, uint64_t bytes, void **memory);
    bool (*is_pinned)(void *self, const void *memory);
    pto_status (*follow)(void *self, void *stream);
    pto_status (*carry)(void *self, void *stream, void *to, const void *from, uint64_t bytes,
                        bool in);
} ptoi_cuda_api;

/* The one symbol of libpto-cuda.so. */
#define PTOI_CUDA_SYMBOL "pto_cuda_api"
typedef const ptoi_cuda_api *ptoi_cuda_api_fn(void);

#endif /* PTOI_CUDA_API_H */
