/* tensor.h - the check of tensors that this folder shares, and its results.
 *
 * Every public function, except the questions about bytes (see layout.h), first calls
 * ptoi_tensor_extent on each tensor it is given. What holds after that saves overflow checks later:
 *   E1  numel fits in 63 bits, and so does every product of some of the sizes (unless numel == 0)
 *   E2  if numel > 0: every element index offset + sum(i * stride) lies in 0 .. 2^63 - 1, in
 *       elements and in bytes; for a dim of two or more elements so does (size - 1) * |stride|
 *   E3  if numel == 0, and for dims of one element, strides may have any value
 */
#ifndef PTOI_TENSOR_H
#define PTOI_TENSOR_H

#include <string.h>

#include <pto/tensor.h>

/* Device types count from 0 without gaps. */
#define PTOI_DEVICE_ONE(name, value, text) +1
enum { PTOI_DEVICE_TYPES = 0 PTO_DEVICE_MAP(PTOI_DEVICE_ONE) };
#undef PTOI_DEVICE_ONE

/* Bytes of one element of a valid tensor, without a call: four bits for each dtype. */
#define PTOI_DTYPE_BITS(name, value, text, bytes) | (uint64_t)(bytes) << (4 * (value))
static inline uint64_t ptoi_dtype_bytes(pto_dtype dtype)
{
    return (UINT64_C(0) PTO_DTYPE_MAP(PTOI_DTYPE_BITS)) >> (4 * ((uint32_t)dtype & 15)) & 15;
}

/* The extent of a valid tensor. low and end count bytes from `storage`; they are equal if it is
 * empty. */
typedef struct ptoi_extent {
    int64_t numel;
    uint64_t low;
    uint64_t end;
    uint64_t size; /* bytes of one element */
} ptoi_extent;

/* Checks everything that pto_tensor_check promises. `what` begins the error detail: "slice:
 * src". */
pto_status ptoi_tensor_extent(const char *what, const pto_tensor *t, ptoi_extent *out);

/* The number of elements of a shape. PTO_BAD_SHAPE for a negative size; PTO_OVERFLOW. */
pto_status ptoi_shape_numel(const char *what, int32_t ndim, const int64_t *shape, int64_t *numel);

/* Row-major strides of a shape that ptoi_shape_numel has accepted. Never fails: in an empty shape,
 * a stride that does not fit is 0. */
void ptoi_dense_strides(int32_t ndim, const int64_t *shape, int64_t *strides);

/* Whether `storage` may be user memory: NULL only with 0 bytes, and no wrap. */
pto_status ptoi_storage_check(const char *what, const void *storage, uint64_t storage_bytes);

/* Clears the dims from `ndim` on: up to two, the usual number, without a loop. */
static inline void ptoi_tensor_clear_past(pto_tensor *t, int32_t ndim)
{
    if (ndim <= 2) {
        memset(&t->shape[2], 0, sizeof t->shape - 2 * sizeof t->shape[0]);
        memset(&t->strides[2], 0, sizeof t->strides - 2 * sizeof t->strides[0]);
    }
    for (int32_t d = ndim, end = ndim <= 2 ? 2 : PTO_MAX_DIMS; d < end; d++) {
        t->shape[d] = t->strides[d] = 0;
    }
}

/* A copy of `src` with another kind. Fields past ndim are zero. */
static inline pto_tensor ptoi_tensor_derive(const pto_tensor *src, pto_extraction kind)
{
    pto_tensor t = *src;
    t.kind = kind;
    t.reserved = 0;
    ptoi_tensor_clear_past(&t, t.ndim);
    return t;
}

/* The same, dense in new user memory: block and version of the source do not apply to it. */
pto_tensor ptoi_tensor_derive_dense(const pto_tensor *src, pto_extraction kind, void *storage,
                                    uint64_t storage_bytes);

/* "[4, 8]", for error details. Returns `text`. */
#define PTOI_DIMS_TEXT 192
const char *ptoi_dims_text(int32_t ndim, const int64_t *dims, char text[PTOI_DIMS_TEXT]);

#endif /* PTOI_TENSOR_H */
