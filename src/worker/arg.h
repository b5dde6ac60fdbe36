/* arg.h - turns an argument of a kernel back into a tensor. */
#ifndef PTOI_ARG_H
#define PTOI_ARG_H

#include <pto/kernel.h>

/* The storage of the tensor is exactly the bytes that it spans. Submit has checked the tensor, so
 * nothing overflows. */
static inline pto_tensor ptoi_tensor_of_arg(const pto_arg *arg)
{
    pto_tensor t = {.dtype = arg->dtype, .ndim = arg->ndim};
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

#endif /* PTOI_ARG_H */
