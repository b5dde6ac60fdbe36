/* shared_bytes.c - see shared_bytes.h. */
#include "shared_bytes.h"

#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

/* Views with more elements, and ranges with more bytes, are not counted. */
#define MOST_ELEMENTS ((uint64_t)1 << 22)
#define MOST_BYTES ((uint64_t)1 << 26)

typedef struct extent {
    uint64_t low, high; /* first byte, and one past the last */
} extent;

/* The bytes from the first to the last that a view touches. Managed views count from the start of
 * their heap: ptoi_ptrace_tensor. */
static extent extent_of(const pto_tensor *t)
{
    const int64_t size = (int64_t)pto_dtype_size(t->dtype);
    int64_t low = t->offset, high = t->offset;
    for (int32_t d = 0; d < t->ndim; d++) {
        const int64_t reach = t->shape[d] > 1 ? (t->shape[d] - 1) * t->strides[d] : 0;
        *(reach < 0 ? &low : &high) += reach;
    }
    const uint64_t base = t->owner ? 0 : (uint64_t)(uintptr_t)t->storage;
    return (extent){base + (uint64_t)(low * size), base + (uint64_t)((high + 1) * size)};
}

static uint64_t elements_of(const pto_tensor *t)
{
    uint64_t n = 1;
    for (int32_t d = 0; d < t->ndim && n <= MOST_ELEMENTS; d++) {
        n *= (uint64_t)t->shape[d] <= MOST_ELEMENTS ? (uint64_t)t->shape[d] : MOST_ELEMENTS + 1;
    }
    return n;
}

/* Marks the bytes of a view that lie in the range: `bit` in its byte of `marks`. */
static void mark(const pto_tensor *t, extent range, unsigned char *marks, unsigned char bit)
{
    const uint64_t size = pto_dtype_size(t->dtype), n = elements_of(t);
    const uint64_t base = t->owner ? 0 : (uint64_t)(uintptr_t)t->storage;
    int64_t at[PTO_MAX_DIMS] = {0}, element = t->offset;
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t b = 0; b < size; b++) {
            const uint64_t place = base + (uint64_t)element * size + b;
            if (place >= range.low && place < range.high) {
                marks[place - range.low] |= bit;
            }
        }
        for (int32_t d = t->ndim - 1; d >= 0; d--) { /* the next element */
            element += t->strides[d];
            if (++at[d] < t->shape[d]) {
                break;
            }
            element -= at[d] * t->strides[d];
            at[d] = 0;
        }
    }
}

static void count(const pto_tensor *a, const pto_tensor *b, extent range, shared_bytes *s)
{
    enum { A = 1, B = 2, BOTH = 3 };
    s->first = range.low;
    s->last = range.high - 1;
    if (elements_of(a) > MOST_ELEMENTS || elements_of(b) > MOST_ELEMENTS ||
        range.high - range.low > MOST_BYTES) {
        return;
    }
    unsigned char *marks = calloc(range.high - range.low, 1);
    if (!marks) {
        return;
    }
    mark(a, range, marks, A);
    mark(b, range, marks, B);
    for (uint64_t i = 0; i < range.high - range.low; i++) {
        if (marks[i] == BOTH) {
            s->first = s->count++ ? s->first : range.low + i;
            s->last = range.low + i;
        }
    }
    s->counted = true;
    s->undecided = false;
    s->any = s->count != 0;
    free(marks);
}

shared_bytes shared_bytes_of(const ptoi_ptrace *trace, uint32_t a, uint32_t b)
{
    const ptrace_arg *p = &trace->args[a], *q = &trace->args[b];
    shared_bytes s;
    pto_tensor x, y;
    pto_overlap_result result;
    memset(&s, 0, sizeof s);
    if (p->segment != q->segment || p->buffer != q->buffer || !ptoi_ptrace_tensor(trace, p, &x) ||
        !ptoi_ptrace_tensor(trace, q, &y) || !pto_tensor_numel(&x) || !pto_tensor_numel(&y)) {
        return s;
    }
    if (pto_tensor_overlaps_ex(&x, &y, 0, &result) != PTO_OK) {
        return s;
    }
    s.tensors = true;
    const extent e = extent_of(&x), f = extent_of(&y);
    const extent common = {e.low > f.low ? e.low : f.low, e.high < f.high ? e.high : f.high};
    s.near = common.low < common.high;
    s.any = result.yes;
    s.undecided = result.yes && result.stage == PTO_STAGE_BUDGET;
    if (s.any && s.near) {
        count(&x, &y, common, &s);
    }
    return s;
}
