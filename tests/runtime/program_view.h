/* program_view.h - views of views from a seed, and the bytes of a view one by one. */
#ifndef PTO_TEST_PROGRAM_VIEW_H
#define PTO_TEST_PROGRAM_VIEW_H

#include "program_data.h"

static inline int64_t program_roll(test_rng *rng, int64_t low, int64_t high)
{
    return test_between(rng, low, high);
}

static inline bool program_one_in(test_rng *rng, int64_t n)
{
    return test_between(rng, 1, n) == 1;
}

/* ---- Making views -------------------------------------------------------------------------- */

/* Elements start, start + step ... of one dim, backwards as often as forwards; rarely none. */
static inline pto_status view_slice(test_rng *rng, pto_tensor *t)
{
    const int32_t dim = (int32_t)program_roll(rng, 0, t->ndim - 1);
    const int64_t size = t->shape[dim];
    int64_t step = program_one_in(rng, 2) ? 1 : program_roll(rng, 1, 3);
    if (size == 0 || program_one_in(rng, 40)) {
        return pto_tensor_slice(t, dim, 0, 0, step, t);
    }
    const int64_t a = program_roll(rng, 0, size - 1), b = program_roll(rng, 0, size - 1);
    const int64_t low = a < b ? a : b, high = a < b ? b : a;
    if (program_one_in(rng, 3)) {
        return pto_tensor_slice(t, dim, high, low - 1, -step, t);
    }
    return pto_tensor_slice(t, dim, low, high + 1, step, t);
}

static inline pto_status view_box(test_rng *rng, pto_tensor *t)
{
    int64_t start[PTO_MAX_DIMS], shape[PTO_MAX_DIMS];
    for (int32_t d = 0; d < t->ndim; d++) {
        shape[d] = t->shape[d] ? program_roll(rng, 1, t->shape[d]) : 0;
        start[d] = program_roll(rng, 0, t->shape[d] - shape[d]);
    }
    return pto_tensor_view(t, start, shape, t);
}

/* Flattened, or the last dim split in two; unchanged if that would need a copy. */
static inline pto_status view_reshape(test_rng *rng, pto_tensor *t)
{
    int64_t shape[PTO_MAX_DIMS] = {pto_tensor_numel(t), 1};
    int32_t ndim = 1;
    if (t->ndim && t->ndim < PROGRAM_DIMS && t->shape[t->ndim - 1] % 2 == 0 &&
        program_one_in(rng, 2)) {
        memcpy(shape, t->shape, sizeof shape);
        ndim = t->ndim + 1;
        shape[ndim - 1] = t->shape[t->ndim - 1] / 2;
        shape[ndim - 2] = 2;
    }
    const pto_status status = pto_tensor_reshape(t, ndim, shape, t);
    return status == PTO_NEEDS_COPY ? PTO_OK : status;
}

static inline pto_status view_broadcast(test_rng *rng, pto_tensor *t)
{
    int64_t shape[PTO_MAX_DIMS];
    shape[0] = program_roll(rng, 1, 3);
    memcpy(&shape[1], t->shape, (size_t)t->ndim * sizeof *shape);
    return pto_tensor_broadcast(t, t->ndim + 1, shape, t);
}

/* A view of a view of ... `root`. Elements that are written do not share an address. */
static inline pto_tensor view_make(const pto_tensor *root, uint64_t seed, bool written)
{
    test_rng rng = test_rng_make(seed);
    pto_tensor t = *root;
    for (int64_t steps = program_roll(&rng, 1, 3); steps > 0; steps--) {
        const int64_t which = program_roll(&rng, 0, 9);
        pto_status status = PTO_OK;
        if (t.ndim && which < 4) {
            status = view_slice(&rng, &t);
        } else if (t.ndim && which < 6) {
            status = view_box(&rng, &t);
        } else if (t.ndim > 1 && which < 8) {
            status = pto_tensor_transpose(&t, 0, t.ndim - 1, &t);
        } else if (which < 9) {
            status = view_reshape(&rng, &t);
        } else if (!written && t.ndim < PROGRAM_DIMS) {
            status = view_broadcast(&rng, &t);
        }
        program_must(status == PTO_OK, "a view");
    }
    return t;
}

/* ---- Memory of the user --------------------------------------------------------------------- */

/* Strides of any kind within the area; shapes shrink to fit. Elements may share addresses. */
static inline void view_stride(uint64_t seed, int64_t room, int32_t ndim, int64_t *shape,
                               int64_t *strides, int64_t *offset)
{
    test_rng rng = test_rng_make(seed);
    int64_t low = 0, high = 0;
    for (int32_t d = 0; d < ndim; d++) {
        strides[d] = program_roll(&rng, -9, 9);
        const int64_t step = strides[d] < 0 ? -strides[d] : strides[d];
        const int64_t left = room - 1 - (high - low);
        if (step && shape[d] > 1 && (shape[d] - 1) * step > left) {
            shape[d] = 1 + left / step;
        }
        if (shape[d] > 0) {
            low += strides[d] < 0 ? (shape[d] - 1) * strides[d] : 0;
            high += strides[d] > 0 ? (shape[d] - 1) * strides[d] : 0;
        }
    }
    *offset = -low;
}

/* The tensor of an EXTERNAL, in the area that lies at `area`. */
static inline pto_tensor view_external(const program_op *op, uint8_t *area)
{
    const uint64_t bytes = program_area_bytes[op->area] - op->at;
    int64_t shape[PROGRAM_DIMS], strides[PROGRAM_DIMS], offset = 0;
    pto_tensor t;
    memcpy(shape, op->shape, sizeof shape);
    if (op->seed) {
        view_stride(op->seed, (int64_t)(bytes / pto_dtype_size(op->dtype)), op->ndim, shape,
                    strides, &offset);
    }
    program_must(pto_tensor_init(&t, area + op->at, bytes, op->dtype, op->ndim, shape,
                                 op->seed ? strides : NULL, offset) == PTO_OK,
                 "a tensor");
    t.device = program_device(program_area_device(op->area));
    return t;
}

/* Two views that are copied get the same shape: leading dims of 1, then the smaller size of each. */
static inline void view_fit(pto_tensor *a, pto_tensor *b)
{
    int64_t shape[PTO_MAX_DIMS], start[PTO_MAX_DIMS] = {0};
    pto_tensor *const both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        pto_tensor *t = both[i];
        const int32_t more = both[1 - i]->ndim - t->ndim;
        if (more > 0) {
            for (int32_t d = 0; d < more + t->ndim; d++) {
                shape[d] = d < more ? 1 : t->shape[d - more];
            }
            program_must(pto_tensor_broadcast(t, more + t->ndim, shape, t) == PTO_OK, "more dims");
        }
    }
    for (int32_t d = 0; d < a->ndim; d++) {
        shape[d] = a->shape[d] < b->shape[d] ? a->shape[d] : b->shape[d];
    }
    for (int i = 0; i < 2; i++) {
        if (memcmp(both[i]->shape, shape, (size_t)a->ndim * sizeof *shape) != 0) {
            program_must(pto_tensor_view(both[i], start, shape, both[i]) == PTO_OK, "a part");
        }
    }
}

/* ---- Walking ------------------------------------------------------------------------------- */

/* for (view_walk w = view_begin(...); w.more; view_next(&w)) visits the elements in order, last dim
 * fastest; w.at counts elements from the first one. */
typedef struct view_walk {
    const int64_t *shape, *strides;
    int32_t ndim;
    bool more;
    int64_t at;
    int64_t index[PTO_MAX_DIMS];
} view_walk;

static inline view_walk view_begin(int32_t ndim, const int64_t *shape, const int64_t *strides)
{
    view_walk w = {shape, strides, ndim, true, 0, {0}};
    for (int32_t d = 0; d < ndim; d++) {
        w.more = w.more && shape[d] > 0;
    }
    return w;
}

static inline void view_next(view_walk *w)
{
    int32_t d = w->ndim - 1;
    for (; d >= 0; d--) {
        w->at += w->strides[d];
        if (++w->index[d] < w->shape[d]) {
            return;
        }
        w->at -= w->index[d] * w->strides[d];
        w->index[d] = 0;
    }
    w->more = false;
}

#endif /* PTO_TEST_PROGRAM_VIEW_H */
