/* desc_record.h - the record of a layout descriptor (desc.h). This header compiles as C11 and as CUDA
 * C++. */
#ifndef PTOI_DESC_RECORD_H
#define PTOI_DESC_RECORD_H

#include <pto/tensor.h>

#include "base/atomic.h"

#define PTOI_DESC_UNIT UINT64_C(64)

typedef struct ptoi_desc {
    int32_t ndim; /* ndim, dtype and device are adjacent here as in pto_tensor and pto_arg */
    pto_dtype dtype;
    pto_device device;
    uint64_t dense; /* size in bytes if the layout is dense and row-major, else 0 */
    uint64_t unused;
    int64_t dims[]; /* ndim sizes, then ndim strides */
} ptoi_desc;

/* Bytes of a layout descriptor with `ndim` dims. */
PTOI_INLINE uint64_t ptoi_desc_bytes(int32_t ndim)
{
    return sizeof(ptoi_desc) + 16 * (uint64_t)(uint32_t)ndim;
}

PTOI_INLINE const ptoi_desc *ptoi_desc_at(const char *records, uint32_t id)
{
    return (const ptoi_desc *)(const void *)(records + id * PTOI_DESC_UNIT);
}

#endif /* PTOI_DESC_RECORD_H */
