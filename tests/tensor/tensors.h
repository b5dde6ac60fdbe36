/* tensors.h - what the tests of tensors share: expectations with words, walks over all indices, and
 * random tensors. Nothing here asks the library where an element is: that is what gets tested. */
#ifndef PTO_TEST_TENSORS_H
#define PTO_TEST_TENSORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pto/tensor.h>

#include "base/error.h"
#include "refusal.h"
#include "support.h"

#define DIMS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* ---- Expectations ----------------------------------------------------------------------- */

static inline void expect_status(pto_status got, pto_status want, const char *const *words,
                                 const char *call, const char *file, int line)
{
    bool good = got == want;
    for (; good && *words; words++) {
        good = strstr(pto_error_detail(), *words) != NULL;
    }
    if (!good) {
        print_error("%s\n  gives %s, want %s%s%s\n  detail: %s\n", call, pto_status_name(got),
                    pto_status_name(want), *words ? " with " : "", *words ? *words : "",
                    pto_error_detail());
        _fail(file, line);
    }
}

/* Success. */
#define expect_ok(call)                                                                            \
    expect_status((call), PTO_OK, (const char *const[]){NULL}, #call, __FILE__, __LINE__)

/* Failure with this status, and a fresh detail that contains each of the words. */
#define expect_fail(call, status, ...)                                                             \
    (expect_status((ptoi_fail(PTO_CORRUPT, "stale"), (call)), (status),                            \
                   (const char *const[]){__VA_ARGS__, NULL}, #call, __FILE__, __LINE__),           \
     expect_kept((status), #call, __FILE__, __LINE__))

/* The same, and the tensor `out`, which the call names as its output, is left alone. */
#define expect_refused(out, call, status, ...)                                                     \
    do {                                                                                           \
        pto_tensor untouched_;                                                                     \
        memset(&untouched_, 0x5a, sizeof untouched_);                                              \
        memset(&(out), 0x5a, sizeof(out));                                                         \
        expect_fail(call, status, __VA_ARGS__);                                                    \
        assert_memory_equal(&(out), &untouched_, sizeof(out));                                     \
    } while (0)

static inline void expect_dims(const pto_tensor *t, int32_t ndim, const int64_t *shape,
                               const int64_t *strides)
{
    assert_int_equal(t->ndim, ndim);
    for (int32_t d = 0; d < PTO_MAX_DIMS; d++) {
        assert_int_equal(t->shape[d], d < ndim ? shape[d] : 0);
        assert_int_equal(t->strides[d], d < ndim ? strides[d] : 0);
    }
}

/* ---- Indices ---------------------------------------------------------------------------- */

/* Elements of a small shape. */
static inline int64_t count_of(int32_t ndim, const int64_t *shape)
{
    int64_t count = 1;
    for (int32_t d = 0; d < ndim; d++) {
        count *= shape[d];
    }
    return count;
}

/* The next index, last dim fastest; false, and all zero again, after the last one. */
static inline bool next_index(int32_t ndim, const int64_t *shape, int64_t *index)
{
    for (int32_t d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d]) {
            return true;
        }
        index[d] = 0;
    }
    return false;
}

/* The formula of pto/tensor.h, in elements from the storage. */
static inline int64_t place_of(const pto_tensor *t, const int64_t *index)
{
    int64_t at = t->offset;
    for (int32_t d = 0; d < t->ndim; d++) {
        at += index[d] ? index[d] * t->strides[d] : 0;
    }
    return at;
}

/* ---- Random tensors --------------------------------------------------------------------- */

/* Random cases to try: by effort, but enough that each kind of case comes up, which tests check. */
static inline uint64_t random_rounds(uint64_t usual)
{
    uint64_t rounds = test_effort(usual);
    return rounds < 500 ? 500 : rounds;
}

static inline bool test_chance(test_rng *rng, int64_t percent)
{
    return test_between(rng, 1, 100) <= percent;
}

static inline pto_dtype random_dtype(test_rng *rng)
{
    return (pto_dtype)test_between(rng, PTO_FLOAT32, PTO_BOOL);
}

/* Sizes from 1 on, sometimes a 0, with at most `most` elements. */
static inline int32_t random_shape(test_rng *rng, int32_t max_ndim, int64_t most, int64_t *shape)
{
    int32_t ndim = (int32_t)test_between(rng, 0, max_ndim);
    int64_t count = 1;
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = test_between(rng, 1, ndim > 4 ? 3 : 7);
        if (count * shape[d] > most) {
            shape[d] = 1;
        }
        count *= shape[d];
    }
    if (ndim && test_chance(rng, 5)) {
        shape[test_between(rng, 0, ndim - 1)] = 0;
    }
    return ndim;
}

/* Strides of many kinds: dense in some order of the dims with a few gaps, some negative, some zero,
 * or anything small; where they are free, now and then an extreme one. */
static inline void random_strides(test_rng *rng, int32_t ndim, const int64_t *shape,
                                  int64_t *strides)
{
    int32_t order[PTO_MAX_DIMS] = {0};
    for (int32_t d = 0; d < ndim; d++) {
        order[d] = d;
    }
    for (int32_t d = ndim - 1; d > 0 && test_chance(rng, 50); d--) {
        int32_t other = (int32_t)test_between(rng, 0, d), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    bool wild = test_chance(rng, 20), gaps = test_chance(rng, 50), signs = test_chance(rng, 40);
    int64_t stride = gaps ? test_between(rng, 1, 3) : 1;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        int32_t d = order[i];
        strides[d] = wild ? test_between(rng, -9, 9) : stride;
        if (signs && test_chance(rng, 50)) {
            strides[d] = -strides[d];
        }
        if (test_chance(rng, 10)) {
            strides[d] = 0;
        } else {
            stride *= shape[d] ? shape[d] : 1;
            stride += gaps && test_chance(rng, 30) ? test_between(rng, 1, 3) : 0;
        }
        if (shape[d] == 1 && test_chance(rng, 10)) {
            strides[d] = test_chance(rng, 50) ? INT64_MIN : INT64_MAX;
        }
    }
}

/* A sound tensor of at most `most` elements. Its storage is the start of `memory`, just as long as
 * needed or a little more; false where `capacity` bytes do not suffice. */
static inline bool random_tensor(test_rng *rng, int32_t max_ndim, int64_t most, void *memory,
                                 uint64_t capacity, pto_tensor *t)
{
    pto_tensor made = {.storage = memory, .dtype = random_dtype(rng)};
    int64_t low = 0, high = 0;
    bool empty = false;
    made.ndim = random_shape(rng, max_ndim, most, made.shape);
    random_strides(rng, made.ndim, made.shape, made.strides);
    for (int32_t d = 0; d < made.ndim; d++) {
        int64_t reach = made.shape[d] > 1 ? (made.shape[d] - 1) * made.strides[d] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
        empty |= made.shape[d] == 0;
    }
    made.offset = empty ? test_between(rng, 0, 4) : -low + test_between(rng, 0, 4);
    uint64_t elements = (uint64_t)(empty ? made.offset : made.offset + high + 1);
    made.storage_bytes = elements * pto_dtype_size(made.dtype) + (uint64_t)test_between(rng, 0, 3);
    *t = made;
    return made.storage_bytes <= capacity;
}

#endif /* PTO_TEST_TENSORS_H */
