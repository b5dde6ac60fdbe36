/* hostile.h - numbers and tensors that no sane program passes to a library. */
#ifndef PTO_FUZZ_HOSTILE_H
#define PTO_FUZZ_HOSTILE_H

#include <pto/tensor.h>

#include "fuzz.h"

/* Small ones, those around powers of two, and any. */
static inline int64_t hostile_number(test_rng *rng)
{
    const int64_t small = test_between(rng, -4, 11);
    switch (test_between(rng, 0, 4)) {
    case 0:
        return (int64_t)((UINT64_C(1) << test_between(rng, 0, 63)) + (uint64_t)small);
    case 1:
        return (int64_t)(0 - (UINT64_C(1) << test_between(rng, 0, 63)) + (uint64_t)small);
    default:
        return small;
    }
}

static inline void hostile_numbers(test_rng *rng, int64_t *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        numbers[i] = hostile_number(rng);
    }
}

/* A tensor with arbitrary fields, some of them valid. */
static inline pto_tensor hostile_tensor(test_rng *rng, void *storage, uint64_t bytes)
{
    pto_tensor t = {.storage = storage, .storage_bytes = bytes, .dtype = PTO_FLOAT32};
    const int64_t bad = test_between(rng, 0, UINT8_MAX);
    t.dtype = (pto_dtype)test_between(rng, PTO_FLOAT32, PTO_BOOL);
    t.ndim = (int32_t)test_between(rng, 0, PTO_MAX_DIMS);
    t.offset = bad & 1 ? hostile_number(rng) : test_between(rng, 0, 15);
    if (bad & 2) {
        t.storage_bytes = (uint64_t)hostile_number(rng);
    }
    if ((bad & 12) == 12) {
        t.storage = NULL;
        t.owner = (uint64_t)hostile_number(rng);
        t.generation = (uint32_t)hostile_number(rng);
    }
    if ((bad & 48) == 48) {
        t.ndim = (int32_t)hostile_number(rng);
    }
    if ((bad & 192) == 192) {
        t.dtype = (pto_dtype)(test_between(rng, 0, UINT8_MAX));
    }
    hostile_numbers(rng, t.shape, PTO_MAX_DIMS);
    hostile_numbers(rng, t.strides, PTO_MAX_DIMS);
    return t;
}

#endif /* PTO_FUZZ_HOSTILE_H */
