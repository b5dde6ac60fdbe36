/* reshapes.h - reshape against the places of all elements: a view exists exactly when strides do. */
#ifndef PTO_TEST_RESHAPES_H
#define PTO_TEST_RESHAPES_H

#include "tensors.h"

/* Some shape of `count` elements, with sizes of 1 strewn in. */
static inline int32_t reshape_factors(test_rng *rng, int64_t count, int64_t *shape)
{
    int32_t ndim = (int32_t)test_between(rng, count > 1, PTO_MAX_DIMS);
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = 1;
    }
    for (int64_t p = 2; count > 1; p++) {
        for (; count % p == 0; count /= p) {
            shape[test_between(rng, 0, ndim - 1)] *= p;
        }
    }
    return ndim;
}

/* Strides that chain more often than not, so that views exist about as often as they do not. */
static inline void reshape_strides(test_rng *rng, int32_t ndim, const int64_t *shape,
                                   int64_t *strides)
{
    int64_t stride = test_between(rng, -1, 2);
    for (int32_t d = ndim - 1; d >= 0; d--) {
        if (shape[d] > 1 && test_chance(rng, 25)) {
            stride = test_chance(rng, 30)   ? 0
                     : test_chance(rng, 30) ? -stride
                                            : stride + test_between(rng, -2, 2);
        }
        strides[d] = stride;
        if (shape[d] == 1) {
            strides[d] = test_chance(rng, 50) ? stride : test_between(rng, -9, 9);
        } else {
            stride *= shape[d];
        }
    }
}

/* The strides follow from the neighbours of the first element; then every place must fit them. (The
 * stride of a single element is free, and plays no part.) */
static inline bool reshape_exists(const int64_t *at, int32_t ndim, const int64_t *shape)
{
    int64_t strides[PTO_MAX_DIMS] = {0}, index[PTO_MAX_DIMS] = {0}, inner = 1, k = 0;
    for (int32_t d = ndim - 1; d >= 0; d--) {
        strides[d] = shape[d] > 1 ? at[inner] - at[0] : 0;
        inner *= shape[d];
    }
    do {
        int64_t want = at[0];
        for (int32_t d = 0; d < ndim; d++) {
            want += index[d] * strides[d];
        }
        if (at[k++] != want) {
            return false;
        }
    } while (next_index(ndim, shape, index));
    return true;
}

/* One tensor and one shape; returns whether the view exists, which pto_tensor_reshape must know. */
static inline bool reshape_case(test_rng *rng)
{
    static const int64_t counts[] = {1, 2, 4, 6, 8, 12, 16, 24, 36, 48, 60, 64, 72, 96};
    pto_tensor src = {.storage = NULL, .owner = 1, .dtype = PTO_UINT8}, out;
    const int64_t count = counts[test_between(rng, 0, 13)];
    src.ndim = reshape_factors(rng, count, src.shape);
    if (test_chance(rng, 80)) {
        reshape_strides(rng, src.ndim, src.shape, src.strides);
    } else {
        random_strides(rng, src.ndim, src.shape, src.strides);
    }
    /* Places far from either end of a storage that is as large as can be. */
    src.storage_bytes = INT64_MAX;
    src.offset = INT64_C(1) << 62;

    int64_t at[96] = {0}, index[PTO_MAX_DIMS] = {0}, k = 0;
    do {
        at[k++] = place_of(&src, index);
    } while (next_index(src.ndim, src.shape, index));

    int64_t shape[PTO_MAX_DIMS] = {0}, asked[PTO_MAX_DIMS];
    const int32_t ndim = reshape_factors(rng, count, shape);
    const bool exists = reshape_exists(at, ndim, shape);
    /* Asked with one size left open, now and then. */
    memcpy(asked, shape, sizeof asked);
    if (ndim && test_chance(rng, 30)) {
        asked[test_between(rng, 0, ndim - 1)] = -1;
    }
    assert_int_equal(pto_tensor_reshape(&src, ndim, asked, &out), exists ? PTO_OK : PTO_NEEDS_COPY);
    if (!exists) {
        return false;
    }
    k = 0;
    assert_int_equal(out.ndim, ndim);
    assert_memory_equal(out.shape, shape, (size_t)ndim * sizeof shape[0]);
    expect_ok(pto_tensor_check(&out));
    memset(index, 0, sizeof index);
    do {
        assert_int_equal(place_of(&out, index), at[k]);
        k++;
    } while (next_index(ndim, shape, index));
    return true;
}

#endif /* PTO_TEST_RESHAPES_H */
