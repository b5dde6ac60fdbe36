/* arg.h - the arguments of a kernel: made from the window, and turned back into tensors. */
#ifndef PTOI_ARG_H
#define PTOI_ARG_H

#include <pto/device.h>

#include "base/likely.h"
#include "device/device.h"
#include "window/window.h"

/* Builds the arguments of a kernel from the argument descriptors in the window. */
static inline void ptoi_args_resolve(const ptoi_view *view, const ptoi_arg_desc *from, uint32_t n,
                                     pto_arg *args)
{
    for (pto_arg *arg = args, *end = args + n; arg != end; arg++) {
        if (PTOI_UNLIKELY(ptoi_arg_is_scalar(from))) {
            ptoi_arg_scalar(arg, (pto_dtype)from->desc, from->value);
            from++;
            continue;
        }
        const ptoi_desc *desc = ptoi_arg_layout(view, from);
        ptoi_arg_tensor(arg, desc, ptoi_address(view, from->segment, from->value));
        from += PTOI_LIKELY(from->desc != 0) ? 1 : ptoi_arg_units(desc->ndim);
    }
}

/* The storage of the tensor is exactly the bytes that it spans. Submit has checked the tensor, so
 * nothing overflows. */
static inline pto_tensor ptoi_tensor_of_arg(const pto_arg *arg)
{
    pto_tensor t = {.dtype = arg->dtype, .ndim = arg->ndim, .device = arg->device};
    int64_t size = (int64_t)pto_dtype_size(arg->dtype), low = 0, high = 0;
    bool empty = false;
    for (int32_t d = 0; d < arg->ndim; d++) {
        t.shape[d] = arg->shape[d];
        t.strides[d] = arg->strides[d];
        empty |= arg->shape[d] == 0;
    }
    for (int32_t d = 0; d < arg->ndim && !empty; d++) {
        int64_t reach = arg->shape[d] > 1 ? (arg->shape[d] - 1) * arg->strides[d] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    if (!empty) {
        t.storage = (char *)arg->data + low * size;
        t.storage_bytes = (uint64_t)((high - low + 1) * size);
        t.offset = -low;
    }
    return t;
}

/* The same, for functions of a device: they know memory by its address on the host. */
static inline pto_status ptoi_tensor_for_device(const pto_arg *arg, pto_tensor *t)
{
    *t = ptoi_tensor_of_arg(arg);
    if (t->storage && !ptoi_device_is_host(arg->device)) {
        pto_device_ops ops;
        const pto_status s = pto_device_get(arg->device, &ops);
        if (s) {
            return s;
        }
        t->storage = (char *)t->storage - ops.shift;
    }
    return PTO_OK;
}

#endif /* PTOI_ARG_H */
