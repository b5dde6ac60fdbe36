/* rearranges.h - what the tests of Rearrange share: memory that a naive loop works on beside the
 * library, and views of it. */
#ifndef PTO_TEST_REARRANGES_H
#define PTO_TEST_REARRANGES_H

#include "../tensor/tensors.h"

#include <pto/rearrange.h>

enum { REGION = 8192, REGIONS = 2, ARENA = REGION * REGIONS, MOST = 300 };

static _Alignas(64) unsigned char arena[ARENA], naive[ARENA];

static inline void scramble(test_rng *rng)
{
    for (size_t i = 0; i < ARENA; i += sizeof(uint64_t)) {
        uint64_t word = test_next(rng);
        memcpy(arena + i, &word, sizeof word);
    }
    memcpy(naive, arena, ARENA);
}

/* All of it: elements are where they should be, and nothing else was touched. */
static inline void expect_same(void)
{
    assert_memory_equal(arena, naive, ARENA);
}

/* Where an element lies in the arena, as a byte. */
static inline size_t byte_of(const pto_tensor *t, const int64_t *index)
{
    int64_t from = (unsigned char *)t->storage - arena;
    return (size_t)(from + place_of(t, index) * (int64_t)pto_dtype_size(t->dtype));
}

/* How many of the tensor's elements touch each byte of the arena. */
static inline void count_touches(const pto_tensor *t, unsigned *touched)
{
    int64_t index[PTO_MAX_DIMS] = {0};
    if (!count_of(t->ndim, t->shape)) {
        return;
    }
    do {
        size_t at = byte_of(t, index), size = pto_dtype_size(t->dtype);
        for (size_t i = 0; i < size; i++) {
            touched[at + i]++;
        }
    } while (next_index(t->ndim, t->shape, index));
}

static inline bool meets_itself(const pto_tensor *t)
{
    static unsigned touched[ARENA];
    memset(touched, 0, sizeof touched);
    count_touches(t, touched);
    for (size_t i = 0; i < ARENA; i++) {
        if (touched[i] > 1) {
            return true;
        }
    }
    return false;
}

static inline bool share_bytes(const pto_tensor *a, const pto_tensor *b)
{
    static unsigned one[ARENA], other[ARENA];
    memset(one, 0, sizeof one);
    memset(other, 0, sizeof other);
    count_touches(a, one);
    count_touches(b, other);
    for (size_t i = 0; i < ARENA; i++) {
        if (one[i] && other[i]) {
            return true;
        }
    }
    return false;
}

static inline bool same_elements(const pto_tensor *a, const pto_tensor *b)
{
    int64_t index[PTO_MAX_DIMS] = {0};
    do {
        if (byte_of(a, index) != byte_of(b, index)) {
            return false;
        }
    } while (next_index(a->ndim, a->shape, index));
    return true;
}

/* What should come of it, in the other memory. */
static inline void naive_copy(const pto_tensor *dst, const pto_tensor *src)
{
    int64_t index[PTO_MAX_DIMS] = {0};
    if (!count_of(dst->ndim, dst->shape)) {
        return;
    }
    do {
        memcpy(naive + byte_of(dst, index), naive + byte_of(src, index),
               pto_dtype_size(dst->dtype));
    } while (next_index(dst->ndim, dst->shape, index));
}

/* A tensor of that shape somewhere in a region, with strides of all kinds; false if it does not
 * fit. */
static inline bool place(test_rng *rng, int region, pto_dtype dtype, int32_t ndim,
                         const int64_t *shape, pto_tensor *t)
{
    pto_tensor made = {.storage = arena + (size_t)region * REGION, .dtype = dtype, .ndim = ndim};
    int64_t low = 0, high = 0, size = (int64_t)pto_dtype_size(dtype);
    memcpy(made.shape, shape, (size_t)ndim * sizeof *shape);
    random_strides(rng, ndim, shape, made.strides);
    for (int32_t d = 0; d < ndim; d++) {
        int64_t reach = shape[d] > 1 ? (shape[d] - 1) * made.strides[d] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    int64_t room = REGION / size - (high - low + 1);
    if (room < 0) {
        return false;
    }
    made.offset = -low + test_between(rng, 0, room);
    made.storage_bytes = REGION;
    expect_ok(pto_tensor_check(&made));
    *t = made;
    return true;
}

/* Dense elements at the start of a region. */
static inline pto_tensor dense_at(int region, pto_dtype dtype, int32_t ndim, const int64_t *shape)
{
    pto_tensor t;
    expect_ok(
        pto_tensor_init(&t, arena + (size_t)region * REGION, REGION, dtype, ndim, shape, NULL, 0));
    return t;
}

/* A view of a region by hand. */
static inline pto_tensor view_at(int region, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                                 const int64_t *strides, int64_t offset)
{
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, arena + (size_t)region * REGION, REGION, dtype, ndim, shape,
                              strides, offset));
    return t;
}

#endif /* PTO_TEST_REARRANGES_H */
