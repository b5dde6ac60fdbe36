/* layout.c - from a tensor to the canonical form of the bytes it touches.
 *
 * The steps, each of which keeps the set of bytes as it is:
 *   flip     a dim of negative stride starts at its other end: the base moves, the stride turns
 *   drop     sizes of 1 and strides of 0 add no byte
 *   absorb   s <= run: the runs touch, so the dim is one longer run of (n-1)*s + run
 *   merge    s == q*s' with q <= n': the steps of the outer dim land on the progression of the
 *            inner one, or on its very next place, so both are one dim of n' + q*(n-1) steps
 * Taken in ascending order of stride one pass is enough: absorbing needs the smallest stride,
 * and a merge changes neither the run nor the stride of the dim it goes into.
 *
 * All of it counts in elements, and only the end multiplies by the size of one: each rule holds in
 * any unit, and in elements the bounds of the storage are one comparison.
 */
#include "layout.h"

#include <string.h>

#include "base/error.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define NO_SHIFT 0xff
#define SHIFT_OF(bytes) ((bytes) == 8 ? 3 : (bytes) == 4 ? 2 : (bytes) == 2 ? 1 : 0)

static const uint8_t dtype_shift[] = {
    [PTO_DTYPE_NONE] = NO_SHIFT,
#define DTYPE_SHIFT(name, value, text, bytes) [value] = SHIFT_OF(bytes),
    PTO_DTYPE_MAP(DTYPE_SHIFT)
#undef DTYPE_SHIFT
};

#define DTYPE_COUNT (sizeof dtype_shift / sizeof *dtype_shift)

/* What the walk over the dims adds up, in elements. */
typedef struct reach {
    uint64_t span; /* from the lowest element to the highest */
    uint64_t back; /* from the lowest element to element [0, 0, ...]; back <= span */
    int64_t numel; /* elements, repeated ones counted; only its overflow matters */
} reach;

/* Takes in one dim of n >= 2 steps; false on overflow. *s becomes the stride without its sign. */
static inline bool reach_add(reach *r, int64_t n, int64_t stride, uint64_t *s)
{
    uint64_t extent;
    *s = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
    if (__builtin_mul_overflow(r->numel, n, &r->numel) ||
        __builtin_mul_overflow((uint64_t)n - 1, *s, &extent) ||
        __builtin_add_overflow(r->span, extent, &r->span)) {
        return false;
    }
    r->back += stride < 0 ? extent : 0;
    return true;
}

/* What any storage must be: of a size that 63 bits hold, inside of the address space, and somewhere,
 * unless it is managed, which may have no address yet. */
static inline bool storage_sound(const pto_tensor *t)
{
    uint64_t addr = (uint64_t)(uintptr_t)t->storage;
    return t->storage_bytes <= INT64_MAX && addr + t->storage_bytes >= addr &&
           (addr != 0 || t->owner != 0);
}

/* Whether every element lies in the storage. The subtraction wraps when the lowest element lies
 * before it, and then gives at least 2^64 - back >= 2^64 - span, which is more than the
 * elems - 1 - span that it is compared with. */
static inline bool reach_inside(const reach *r, const pto_tensor *t, unsigned shift)
{
    uint64_t elems = t->storage_bytes >> shift;
    return t->offset >= 0 && r->span < elems &&
           (uint64_t)t->offset - r->back <= elems - 1 - r->span && storage_sound(t);
}

static inline void place(ptoi_layout *out, const reach *r, const pto_tensor *t, unsigned shift)
{
    uint64_t base = t->owner ? 0 : (uint64_t)(uintptr_t)t->storage;
    out->lo = base + (((uint64_t)t->offset - r->back) << shift);
    out->len = (r->span + 1) << shift;
}

/* The way of all that is not plain: no elements, or something wrong. */
static __attribute__((noinline, cold)) pto_status refuse(const pto_tensor *t, bool *empty)
{
    *empty = false;
    pto_status status = pto_tensor_check(t);
    if (status != PTO_OK) {
        return status;
    }
    for (int32_t d = 0; d < t->ndim; d++) {
        if (t->shape[d] == 0) {
            *empty = true;
            return PTO_OK;
        }
    }
    return ptoi_fail(PTO_OUT_OF_BOUNDS,
                     "layout: offset %lld with the strides given leaves the %llu bytes at %p",
                     (long long)t->offset, (unsigned long long)t->storage_bytes, t->storage);
}

static bool is_nested(const ptoi_layout *a)
{
    uint64_t span = a->run;
    for (uint32_t j = a->k; j-- > 0;) {
        if (a->dim[j].s < span) {
            return false;
        }
        span += (a->dim[j].n - 1) * a->dim[j].s;
    }
    return true;
}

/* Only rows that overlap leave dims to merge that are no neighbours: strides 20, 11, 10 with two
 * steps of 10. Doing it here makes some of them nested, and the form independent of luck. */
static __attribute__((noinline)) void merge_apart(ptoi_layout *a)
{
    for (uint32_t j = a->k; j-- > 1;) {
        for (uint32_t i = j; i-- > 0;) {
            uint64_t s = a->dim[j].s, outer = a->dim[i].s;
            if (outer % s != 0 || outer / s > a->dim[j].n) {
                continue;
            }
            a->dim[j].n += outer / s * (a->dim[i].n - 1);
            a->k--;
            memmove(&a->dim[i], &a->dim[i + 1], (a->k - i) * sizeof a->dim[0]);
            j = a->k; /* more steps may take in what they could not before: all over again */
            break;
        }
    }
    a->nested = is_nested(a);
}

/* Any tensor of sound dtype and ndim: strides of either sign, in any order, rows that overlap. */
static __attribute__((noinline)) pto_status layout_general(const pto_tensor *t, ptoi_layout *out,
                                                           bool *empty)
{
    ptoi_dim asc[PTO_MAX_DIMS];
    uint32_t count = 0;
    reach r = {0, 0, 1};
    unsigned shift = dtype_shift[t->dtype];
    for (int32_t d = t->ndim; d-- > 0;) {
        int64_t n = t->shape[d];
        uint64_t s;
        if (n <= 1) {
            if (n == 1) {
                continue;
            }
            return refuse(t, empty);
        }
        if (!reach_add(&r, n, t->strides[d], &s)) {
            return refuse(t, empty);
        }
        if (s == 0) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && asc[at - 1].s > s; at--) {
            asc[at] = asc[at - 1];
        }
        asc[at] = (ptoi_dim){(uint64_t)n, s};
    }
    if (!reach_inside(&r, t, shift)) {
        return refuse(t, empty);
    }
    place(out, &r, t, shift);

    uint64_t run = 1;
    uint32_t k = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t n = asc[i].n, s = asc[i].s;
        if (k == 0 && s <= run) {
            run += (n - 1) * s;
            continue;
        }
        if (k > 0) {
            ptoi_dim *top = &asc[k - 1];
            if (s - top->s <= (top->n - 1) * top->s && s % top->s == 0) {
                top->n += s / top->s * (n - 1);
                continue;
            }
        }
        asc[k++] = (ptoi_dim){n, s};
    }
    out->run = run << shift;
    out->k = k;
    for (uint32_t i = 0; i < k; i++) {
        out->dim[i] = (ptoi_dim){asc[k - 1 - i].n, asc[k - 1 - i].s << shift};
    }
    out->nested = is_nested(out);
    if (UNLIKELY(!out->nested && k > 2)) {
        merge_apart(out);
    }
    *empty = false;
    return PTO_OK;
}

/* Takes in one more dim of at least two rows, which must lie past all of `span` so far. */
static inline bool row_past(int64_t n, int64_t s, int64_t *span)
{
    int64_t extent;
    return n > 0 && s >= *span && !__builtin_mul_overflow(n - 1, s, &extent) &&
           !__builtin_add_overflow(*span, extent, span);
}

/* The last step of the usual case: bounds, then all but the dims. */
static inline pto_status place_rows(const pto_tensor *t, ptoi_layout *out, bool *empty, uint32_t k,
                                    int64_t run, int64_t span)
{
    unsigned shift = dtype_shift[t->dtype];
    uint64_t elems = t->storage_bytes >> shift;
    if (UNLIKELY((uint64_t)span > elems || (uint64_t)t->offset > elems - (uint64_t)span ||
                 t->offset < 0 || !storage_sound(t))) {
        return layout_general(t, out, empty);
    }
    uint64_t base = t->owner ? 0 : (uint64_t)(uintptr_t)t->storage;
    out->lo = base + ((uint64_t)t->offset << shift);
    out->len = (uint64_t)span << shift;
    out->run = (uint64_t)run << shift;
    out->k = k;
    out->nested = true;
    *empty = false;
    return PTO_OK;
}

/* The rest of the usual case: the dims from d outwards, none of which is dense with the run. The dim
 * pushed last, which is the only one that can still change, stays in registers. */
static __attribute__((noinline)) pto_status layout_rows(const pto_tensor *t, ptoi_layout *out,
                                                        bool *empty, int32_t d, int64_t run)
{
    int64_t span = run, top_n = 0, top_s = 0;
    uint64_t size = UINT64_C(1) << dtype_shift[t->dtype];
    uint32_t k = 0; /* dims pushed; the first k - 1 of them stand in below[], smallest first */
    ptoi_dim below[PTO_MAX_DIMS];
    for (; d >= 0; d--) {
        int64_t n = t->shape[d], s = t->strides[d];
        if (n == 1) {
            continue;
        }
        if (UNLIKELY(!row_past(n, s, &span))) {
            return layout_general(t, out, empty);
        }
        if (k > 0) {
            if (s == top_n * top_s) {
                top_n *= n;
                continue;
            }
            below[k - 1] = (ptoi_dim){(uint64_t)top_n, (uint64_t)top_s * size};
        }
        k++;
        top_n = n;
        top_s = s;
    }
    out->dim[0] = (ptoi_dim){(uint64_t)top_n, (uint64_t)top_s * size};
    for (uint32_t i = 1; i < k; i++) {
        out->dim[i] = below[k - 1 - i];
    }
    return place_rows(t, out, empty, k, run, span);
}

/* The usual case in one pass: strides positive, growing from the last dim to the first, each row past
 * the ones before. That is nested, so elements are distinct and their number needs no check of its
 * own; and two dims are one progression only if the outer goes on where the inner ends. */
pto_status ptoi_layout_of(const pto_tensor *t, ptoi_layout *out, bool *empty)
{
    if (UNLIKELY(!t || (unsigned)t->dtype - 1u >= DTYPE_COUNT - 1 ||
                 (uint32_t)t->ndim > PTO_MAX_DIMS)) {
        return refuse(t, empty);
    }
    int32_t d = t->ndim - 1;
    int64_t run = 1;
    for (; d >= 0; d--) {
        int64_t n = t->shape[d];
        if (t->strides[d] == run) {
            if (UNLIKELY(n <= 0 || __builtin_mul_overflow(run, n, &run))) {
                return layout_general(t, out, empty);
            }
        } else if (n != 1) {
            break;
        }
    }
    if (d < 0) {
        return place_rows(t, out, empty, 0, run, run);
    }
    int64_t n = t->shape[d], s = t->strides[d], span = run;
    if (UNLIKELY(!row_past(n, s, &span))) {
        return layout_general(t, out, empty);
    }
    for (int32_t outer = d - 1; outer >= 0; outer--) {
        if (t->shape[outer] != 1) {
            return layout_rows(t, out, empty, d, run);
        }
    }
    out->dim[0] = (ptoi_dim){(uint64_t)n, (uint64_t)s << dtype_shift[t->dtype]};
    return place_rows(t, out, empty, 1, run, span);
}

bool ptoi_layout_equal(const ptoi_layout *a, const ptoi_layout *b)
{
    if (a->lo != b->lo || a->len != b->len || a->run != b->run || a->k != b->k) {
        return false;
    }
    for (uint32_t j = 0; j < a->k; j++) {
        if (a->dim[j].n != b->dim[j].n || a->dim[j].s != b->dim[j].s) {
            return false;
        }
    }
    return true;
}

/* Greedy, outermost dim first: `rel` is the address within the block of dims j and after, always
 * less than its span. Row i = rel / s is the last to start at or before it, and being nested, rows
 * before it end before it. So the byte is in row i, or, if `rel` lies in the gap after that row,
 * it is the first of row i + 1, which exists: after the last row there is no gap. */
bool ptoi_layout_successor(const ptoi_layout *a, uint64_t at, uint64_t *found)
{
    if (at <= a->lo) {
        *found = a->lo;
        return true;
    }
    uint64_t rel = at - a->lo;
    if (rel >= a->len) {
        return false;
    }
    uint64_t span = a->len;
    for (uint32_t j = 0; j < a->k; j++) {
        uint64_t n = a->dim[j].n, s = a->dim[j].s;
        span -= (n - 1) * s;
        uint64_t i = rel / s;
        i = i < n ? i : n - 1; /* s == span lets the last row reach i == n */
        rel -= i * s;
        if (rel >= span) {
            *found = at - rel + s;
            return true;
        }
    }
    *found = at; /* rel < span == run */
    return true;
}

pto_status ptoi_layout_check(const ptoi_layout *a)
{
    typedef unsigned long long ull;
    if (a->run < 1) {
        return ptoi_fail(PTO_CORRUPT, "layout L1: a run of 0 bytes");
    }
    if (a->k > PTO_MAX_DIMS) {
        return ptoi_fail(PTO_CORRUPT, "layout L2: %u dims", (unsigned)a->k);
    }
    uint64_t len = a->run;
    for (uint32_t j = a->k; j-- > 0;) {
        uint64_t n = a->dim[j].n, s = a->dim[j].s, extent;
        if (n < 2 || s <= a->run || (j + 1 < a->k && s <= a->dim[j + 1].s)) {
            return ptoi_fail(PTO_CORRUPT, "layout L2: dim %u of %llu steps of %llu, run %llu",
                             (unsigned)j, (ull)n, (ull)s, (ull)a->run);
        }
        if (__builtin_mul_overflow(n - 1, s, &extent) ||
            __builtin_add_overflow(len, extent, &len)) {
            return ptoi_fail(PTO_CORRUPT, "layout L3: dim %u overflows", (unsigned)j);
        }
        for (uint32_t i = j + 1; i < a->k; i++) {
            if (s % a->dim[i].s == 0 && s / a->dim[i].s <= a->dim[i].n) {
                return ptoi_fail(PTO_CORRUPT, "layout L5: dims %u and %u are one progression",
                                 (unsigned)j, (unsigned)i);
            }
        }
    }
    if (len != a->len || a->lo + len < a->lo) {
        return ptoi_fail(PTO_CORRUPT, "layout L3: length %llu at %llu, dims say %llu",
                         (ull)a->len, (ull)a->lo, (ull)len);
    }
    if (a->nested != is_nested(a)) {
        return ptoi_fail(PTO_CORRUPT, "layout L4: nested is %d", (int)a->nested);
    }
    return PTO_OK;
}
