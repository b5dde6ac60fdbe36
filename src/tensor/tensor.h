/* tensor.h - what the files of this folder share about tensors: the one check, and its by-products.
 *
 * Every public function but the questions about bytes (see layout.h) begins with ptoi_tensor_extent
 * on each tensor it is given. What holds after that, and saves overflow checks later on:
 *   E1  numel fits in 63 bits, and so does every product of some of the sizes (unless numel == 0)
 *   E2  if numel > 0: every element index offset + sum(i * stride) lies in 0 .. 2^63 - 1, in
 *       elements and in bytes; for a dim of two or more elements (size - 1) * |stride| does, too
 *   E3  if numel == 0, and for dims of one element, strides are free: any value at all
 */
#ifndef PTOI_TENSOR_H
#define PTOI_TENSOR_H

#include <pto/tensor.h>

/* Bytes of one element of a sound tensor, without a call: four bits for each dtype. */
#define PTOI_DTYPE_BITS(name, value, text, bytes) | (uint64_t)(bytes) << (4 * (value))
static inline uint64_t ptoi_dtype_bytes(pto_dtype dtype)
{
    return (UINT64_C(0) PTO_DTYPE_MAP(PTOI_DTYPE_BITS)) >> (4 * ((uint32_t)dtype & 15)) & 15;
}

/* What a sound tensor comes to. low and end count bytes from `storage`; equal if it is empty. */
typedef struct ptoi_extent {
    int64_t numel;
    uint64_t low;
    uint64_t end;
    uint64_t size; /* bytes of one element */
} ptoi_extent;

/* Checks all that pto_tensor_check promises. `what` begins the detail: "slice: src". */
pto_status ptoi_tensor_extent(const char *what, const pto_tensor *t, ptoi_extent *out);

/* The number of elements of a shape. PTO_BAD_SHAPE for a negative size, PTO_OVERFLOW. */
pto_status ptoi_shape_numel(const char *what, int32_t ndim, const int64_t *shape, int64_t *numel);

/* Row-major strides of a shape that ptoi_shape_numel has passed. Never fails: where the shape is
 * empty a stride that does not fit is 0. */
void ptoi_dense_strides(int32_t ndim, const int64_t *shape, int64_t *strides);

/* Whether `storage` may be the memory of the user: NULL only with 0 bytes, no wrap. */
pto_status ptoi_storage_check(const char *what, const void *storage, uint64_t storage_bytes);

/* A copy of `src` of another kind, tidied: zero past ndim. */
pto_tensor ptoi_tensor_derive(const pto_tensor *src, pto_extraction kind);

/* "[4, 8]", for details. Returns `text`. */
#define PTOI_DIMS_TEXT 192
const char *ptoi_dims_text(int32_t ndim, const int64_t *dims, char text[PTOI_DIMS_TEXT]);

#endif /* PTOI_TENSOR_H */
