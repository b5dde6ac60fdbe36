/* view.c - other shapes over the same memory: view, slice, permute, reshape, broadcast.
 *
 * Each function checks its source, then builds the result in a local variable (pto_tensor_view checks all, then
 * writes). So `out` may be the source, and stays as it was on failure. A result without elements keeps the offset
 * and the strides of the source, which are valid; the start of an empty box might lie outside the storage.
 * Sums without an overflow check rely on E1 and E2 of tensor.h.
 */
#include <inttypes.h>

#include <pto/pto.h>

#include "base/error.h"
#include "tensor.h"

static pto_status null_argument(const char *op, const char *name)
{
    return ptoi_fail(PTO_NULL_ARGUMENT, "%s: %s is NULL", op, name);
}

static pto_status check_ndim(const char *op, int32_t ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > PTO_MAX_DIMS) {
        return ptoi_fail(PTO_BAD_NDIM, "%s: ndim %" PRId32 " is not in 0 .. %d", op, ndim,
                         PTO_MAX_DIMS);
    }
    return ndim && !shape ? null_argument(op, "shape") : PTO_OK;
}

static pto_status check_dim(const char *op, const char *name, int32_t dim, int32_t ndim)
{
    if (dim < 0 || dim >= ndim) {
        return ptoi_fail(PTO_BAD_DIM, "%s: %s %" PRId32 " of a tensor with %" PRId32 " dims", op,
                         name, dim, ndim);
    }
    return PTO_OK;
}

/* ---- Boxes ------------------------------------------------------------------------------ */

pto_status pto_tensor_view(const pto_tensor *src, const int64_t *start, const int64_t *shape,
                           pto_tensor *out)
{
    if (!out) {
        return null_argument("view", "out");
    }
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent("view: src", src, &extent));
    if (src->ndim && (!start || !shape)) {
        return null_argument("view", start ? "shape" : "start");
    }
    const int32_t ndim = src->ndim;
    bool empty = false;
    uint64_t moved = 0; /* modulo 2^64: an empty box may lie anywhere */
    for (int32_t d = 0; d < ndim; d++) {
        int64_t end;
        if (shape[d] < 0) {
            return ptoi_fail(PTO_BAD_SHAPE, "view: shape[%" PRId32 "] is %" PRId64, d, shape[d]);
        }
        if (start[d] < 0) {
            return ptoi_fail(PTO_OUT_OF_BOUNDS, "view: start[%" PRId32 "] is %" PRId64, d,
                             start[d]);
        }
        if (__builtin_add_overflow(start[d], shape[d], &end)) {
            return ptoi_fail(PTO_OVERFLOW,
                             "view: start %" PRId64 " plus size %" PRId64 " of dim %" PRId32,
                             start[d], shape[d], d);
        }
        if (end > src->shape[d]) {
            return ptoi_fail(PTO_OUT_OF_BOUNDS,
                             "view: start %" PRId64 " and size %" PRId64 " of dim %" PRId32
                             ", which has %" PRId64 " elements",
                             start[d], shape[d], d, src->shape[d]);
        }
        empty |= shape[d] == 0;
        moved += (uint64_t)start[d] * (uint64_t)src->strides[d];
    }
    /* In place, since most programs make a view of each tensor of each task. `shape` may be that of `out`:
     * it is read before anything is written there. */
    for (int32_t d = 0; d < ndim; d++) {
        out->shape[d] = shape[d];
        out->strides[d] = src->strides[d];
    }
    ptoi_tensor_clear_past(out, ndim);
    if (out != src) {
        memcpy(out, src, offsetof(pto_tensor, shape));
    }
    out->offset += empty ? 0 : (int64_t)moved;
    out->kind = PTO_SHALLOW_VIEW;
    out->reserved = 0;
    return PTO_OK;
}

/* How many of start, start + step, ... come before stop. */
static int64_t slice_count(int64_t start, int64_t stop, int64_t step)
{
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    int64_t way = step > 0 ? stop - start : start - stop;
    return way <= 0 ? 0 : (int64_t)(((uint64_t)way - 1) / stride) + 1;
}

pto_status pto_tensor_slice(const pto_tensor *src, int32_t dim, int64_t start, int64_t stop,
                            int64_t step, pto_tensor *out)
{
    if (!out) {
        return null_argument("slice", "out");
    }
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent("slice: src", src, &extent));
    PTO_TRY(check_dim("slice", "dim", dim, src->ndim));
    if (step == 0) {
        return ptoi_fail(PTO_BAD_STEP, "slice: step 0 of dim %" PRId32, dim);
    }
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? src->shape[dim] : src->shape[dim] - 1;
    bool start_bad = start < low || start > high;
    if (start_bad || stop < low || stop > high) {
        return ptoi_fail(PTO_OUT_OF_BOUNDS,
                         "slice: %s %" PRId64 " of dim %" PRId32 ", which has %" PRId64
                         " elements (step %" PRId64 " allows %" PRId64 " .. %" PRId64 ")",
                         start_bad ? "start" : "stop", start_bad ? start : stop, dim,
                         src->shape[dim], step, low, high);
    }
    pto_tensor made = ptoi_tensor_derive(src, PTO_SHALLOW_VIEW);
    made.shape[dim] = slice_count(start, stop, step);
    if (extent.numel && made.shape[dim]) {
        made.offset += start * src->strides[dim];
    }
    if (extent.numel && made.shape[dim] > 1) {
        /* With two elements or more, elements lie `step` apart in the source, so the product fits.
         * A single element keeps its stride: a large step times an arbitrary stride need not
         * fit. */
        made.strides[dim] *= step;
    }
    *out = made;
    return PTO_OK;
}

pto_status pto_tensor_select(const pto_tensor *src, int32_t dim, int64_t index, pto_tensor *out)
{
    if (!out) {
        return null_argument("select", "out");
    }
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent("select: src", src, &extent));
    PTO_TRY(check_dim("select", "dim", dim, src->ndim));
    if (index < 0 || index >= src->shape[dim]) {
        return ptoi_fail(PTO_OUT_OF_BOUNDS,
                         "select: index %" PRId64 " of dim %" PRId32 ", which has %" PRId64
                         " elements",
                         index, dim, src->shape[dim]);
    }
    pto_tensor made = ptoi_tensor_derive(src, PTO_SHALLOW_VIEW);
    if (extent.numel && index) { /* a dim of one element may have any stride */
        made.offset += index * src->strides[dim];
    }
    made.ndim--;
    for (int32_t d = dim; d < made.ndim; d++) {
        made.shape[d] = made.shape[d + 1];
        made.strides[d] = made.strides[d + 1];
    }
    made.shape[made.ndim] = made.strides[made.ndim] = 0;
    *out = made;
    return PTO_OK;
}

/* ---- Order of the dims ------------------------------------------------------------------ */

pto_status pto_tensor_permute(const pto_tensor *src, const int32_t *perm, pto_tensor *out)
{
    if (!out) {
        return null_argument("permute", "out");
    }
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent("permute: src", src, &extent));
    if (src->ndim && !perm) {
        return null_argument("permute", "perm");
    }
    pto_tensor made = ptoi_tensor_derive(src, PTO_SHALLOW_TRANSPOSE);
    int32_t where[PTO_MAX_DIMS] = {0}; /* 1 + the position that named the dim */
    for (int32_t d = 0; d < src->ndim; d++) {
        int32_t from = perm[d];
        if (from < 0 || from >= src->ndim) {
            return ptoi_fail(PTO_BAD_PERMUTATION,
                             "permute: perm[%" PRId32 "] is %" PRId32 " with %" PRId32 " dims", d,
                             from, src->ndim);
        }
        if (where[from]) {
            return ptoi_fail(PTO_BAD_PERMUTATION,
                             "permute: perm[%" PRId32 "] and perm[%" PRId32 "] are both %" PRId32,
                             where[from] - 1, d, from);
        }
        where[from] = d + 1;
        made.shape[d] = src->shape[from];
        made.strides[d] = src->strides[from];
    }
    *out = made;
    return PTO_OK;
}

pto_status pto_tensor_transpose(const pto_tensor *src, int32_t d0, int32_t d1, pto_tensor *out)
{
    if (!out) {
        return null_argument("transpose", "out");
    }
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent("transpose: src", src, &extent));
    PTO_TRY(check_dim("transpose", "d0", d0, src->ndim));
    PTO_TRY(check_dim("transpose", "d1", d1, src->ndim));
    pto_tensor made = ptoi_tensor_derive(src, PTO_SHALLOW_TRANSPOSE);
    made.shape[d0] = src->shape[d1];
    made.shape[d1] = src->shape[d0];
    made.strides[d0] = src->strides[d1];
    made.strides[d1] = src->strides[d0];
    *out = made;
    return PTO_OK;
}

/* ---- Reshape ---------------------------------------------------------------------------- */

/* The sizes that `shape` stands for, with its -1 resolved. */
static pto_status resolve_shape(int64_t numel, int32_t ndim, const int64_t *shape, int64_t *sizes)
{
    char text[PTOI_DIMS_TEXT];
    int32_t open = -1;
    for (int32_t d = 0; d < ndim; d++) {
        sizes[d] = shape[d];
        if (shape[d] != -1) {
            continue;
        }
        if (open >= 0) {
            return ptoi_fail(PTO_BAD_SHAPE,
                             "reshape: shape[%" PRId32 "] and shape[%" PRId32 "] are both -1", open,
                             d);
        }
        open = d;
        sizes[d] = 1;
    }
    int64_t product = 0;
    PTO_TRY(ptoi_shape_numel("reshape", ndim, sizes, &product));
    if (open >= 0) {
        if (!product) {
            return ptoi_fail(PTO_BAD_SHAPE,
                             "reshape: shape %s: any size would do for the -1 of dim %" PRId32,
                             ptoi_dims_text(ndim, shape, text), open);
        }
        sizes[open] = numel / product;
        product *= sizes[open];
    }
    if (product != numel) {
        return ptoi_fail(PTO_BAD_SHAPE, "reshape: %" PRId64 " elements do not fill shape %s", numel,
                         ptoi_dims_text(ndim, shape, text));
    }
    return PTO_OK;
}

/* The first dim from `d` outwards that has more than one element; -1 if there is none. */
static int32_t next_outer(const pto_tensor *t, int32_t d)
{
    while (d >= 0 && t->shape[d] == 1) {
        d--;
    }
    return d;
}

/* A view exists exactly if no new dim crosses a break of the old strides: a place where the stride
 * of a dim is not size * stride of the next inner one. (Elements on both sides of a break are not
 * evenly spaced, and a new dim across it would need them to be.) So this goes from the innermost
 * dims outwards: it gathers old dims into a run as long as their strides chain, then splits that
 * run into new dims. Sizes of 1 are skipped in both.
 *
 *     old  [ 2,   3, | 4,   5 ]      run of 20 elements, then run of 6
 *     new  [    6,   | 2, 2, 5 ]     fits; [ 12, 2, 5 ] would not
 */
static pto_status cut_runs(const pto_tensor *src, pto_tensor *made)
{
    int32_t to = made->ndim - 1;
    for (int32_t from = next_outer(src, src->ndim - 1); from >= 0;) {
        int64_t stride = src->strides[from], run = src->shape[from], chained = 0;
        int32_t inner = from;
        for (;;) {
            from = next_outer(src, inner - 1);
            bool fits = !__builtin_mul_overflow(src->strides[inner], src->shape[inner], &chained);
            if (from < 0 || !fits || src->strides[from] != chained) {
                break;
            }
            run *= src->shape[from]; /* fits, by E1 */
            inner = from;
        }
        int64_t cut = 1;
        for (; to >= 0 && cut < run; to--) {
            made->strides[to] = stride;
            cut *= made->shape[to];
            /* Past the end of the run the next stride may not fit. Only a size of 1 can follow
             * there, and its stride may have any value. */
            if (__builtin_mul_overflow(stride, made->shape[to], &stride)) {
                stride = 0;
            }
        }
        if (cut != run) {
            return ptoi_fail(PTO_NEEDS_COPY,
                             "reshape: new dim %" PRId32 " of size %" PRId64 " spans dims %" PRId32
                             " (stride %" PRId64 ") and %" PRId32 " (size %" PRId64
                             ", stride %" PRId64 "), which do not chain",
                             to + 1, made->shape[to + 1], from, src->strides[from], inner,
                             src->shape[inner], src->strides[inner]);
        }
        for (; to >= 0 && made->shape[to] == 1; to--) {
            made->strides[to] = stride;
        }
    }
    return PTO_OK;
}

pto_status pto_tensor_reshape(const pto_tensor *src, int32_t ndim, const int64_t *shape,
                              pto_tensor *out)
{
    if (!out) {
        return null_argument("reshape", "out");
    }
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent("reshape: src", src, &extent));
    PTO_TRY(check_ndim("reshape", ndim, shape));
    pto_tensor made = *src;
    made.ndim = ndim;
    PTO_TRY(resolve_shape(extent.numel, ndim, shape, made.shape));
    made = ptoi_tensor_derive(&made, PTO_SHALLOW_RESHAPE);
    /* Right for no elements and for one, where strides may have any value. */
    ptoi_dense_strides(ndim, made.shape, made.strides);
    if (extent.numel > 1) {
        PTO_TRY(cut_runs(src, &made));
    }
    *out = made;
    return PTO_OK;
}

/* ---- Broadcast -------------------------------------------------------------------------- */

pto_status pto_tensor_broadcast(const pto_tensor *src, int32_t ndim, const int64_t *shape,
                                pto_tensor *out)
{
    if (!out) {
        return null_argument("broadcast", "out");
    }
    ptoi_extent extent;
    int64_t numel = 0;
    PTO_TRY(ptoi_tensor_extent("broadcast: src", src, &extent));
    PTO_TRY(check_ndim("broadcast", ndim, shape));
    PTO_TRY(ptoi_shape_numel("broadcast", ndim, shape, &numel));
    int32_t added = ndim - src->ndim;
    if (added < 0) {
        return ptoi_fail(PTO_NOT_BROADCASTABLE,
                         "broadcast: %" PRId32 " dims from a source with %" PRId32, ndim,
                         src->ndim);
    }
    pto_tensor made = *src;
    made.ndim = ndim;
    for (int32_t d = 0; d < ndim; d++) {
        int32_t from = d - added;
        int64_t had = from < 0 ? 1 : src->shape[from];
        if (had != shape[d] && had != 1) {
            return ptoi_fail(PTO_NOT_BROADCASTABLE,
                             "broadcast: size %" PRId64 " of dim %" PRId32 " from size %" PRId64
                             " of source dim %" PRId32,
                             shape[d], d, had, from);
        }
        made.shape[d] = shape[d];
        made.strides[d] = from < 0 || had != shape[d] ? 0 : src->strides[from];
    }
    *out = ptoi_tensor_derive(&made, PTO_SHALLOW_VIEW);
    return PTO_OK;
}
