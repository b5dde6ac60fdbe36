/* arg_desc.h - an argument in the window. This header compiles as C11 and as CUDA C++. */
#ifndef PTOI_ARG_DESC_H
#define PTOI_ARG_DESC_H

#include <pto/pto.h>

#include "tensor/desc_record.h"
#include "window/task.h"

/* An argument descriptor. The layout of a tensor is a numbered record (tensor/desc.h), or follows
 * the descriptor if it has no number. */
typedef struct ptoi_arg_desc {
    uint64_t value;  /* a scalar, or the place of the first element in its segment */
    uint32_t buffer; /* record of a managed tensor, plus one; 0: user memory */
    uint16_t desc;   /* of a tensor: number of its layout, 0: it follows; of a scalar: its dtype */
    uint8_t segment; /* what `value` is an offset in: task.h */
    uint8_t access;  /* pto_param_kind, and PTOI_ARG_NODEP */
} ptoi_arg_desc;

_Static_assert(sizeof(ptoi_arg_desc) == 16, "arguments come in units of 16 bytes");
_Static_assert(offsetof(ptoi_arg_desc, buffer) == 8 && offsetof(ptoi_arg_desc, desc) == 12 &&
                   offsetof(ptoi_arg_desc, segment) == 14 &&
                   offsetof(ptoi_arg_desc, access) == 15 &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "submit writes the small fields as one word");
_Static_assert(sizeof(ptoi_desc) % sizeof(ptoi_arg_desc) == 0, "a layout that follows fills units");

#define PTOI_ARG_NODEP 128u
#define PTOI_ARG_DESC_SHIFT 32 /* in the word of the small fields */
#define PTOI_ARG_SEGMENT_SHIFT 48
#define PTOI_ARG_ACCESS_SHIFT 56

/* Where a place in a segment is, in this mapping. */
PTOI_INLINE char *ptoi_address(const ptoi_view *view, uint32_t segment, uint64_t value)
{
    return (char *)((uintptr_t)view->base[segment] + value);
}

/* The most units that a tensor of `ndim` dims takes. */
PTOI_INLINE uint64_t ptoi_arg_units(int32_t ndim)
{
    return 1 + ptoi_desc_bytes(ndim) / sizeof(ptoi_arg_desc);
}

/* The layout of an argument that is a tensor. */
PTOI_INLINE const ptoi_desc *ptoi_arg_layout(const ptoi_view *view, const ptoi_arg_desc *arg)
{
    return arg->desc ? ptoi_desc_at(view->descs, arg->desc)
                     : (const ptoi_desc *)(const void *)(arg + 1);
}

PTOI_INLINE bool ptoi_arg_is_scalar(const ptoi_arg_desc *arg)
{
    return arg->access == PTO_PARAM_SCALAR;
}

PTOI_INLINE const ptoi_arg_desc *ptoi_arg_next(const ptoi_arg_desc *arg)
{
    if (arg->desc || ptoi_arg_is_scalar(arg)) {
        return arg + 1;
    }
    return arg + ptoi_arg_units(((const ptoi_desc *)(const void *)(arg + 1))->ndim);
}

#endif /* PTOI_ARG_DESC_H */
