/* layout.c - converts a tensor to the canonical form of the bytes it touches.
 *
 * Each step keeps the set of bytes:
 *   flip     a dim of negative stride starts at its other end: the base moves, the sign changes
 *   drop     sizes of 1 and strides of 0 add no byte
 *   absorb   s <= run: the runs touch, so the dim becomes one longer run of (n-1)*s + run
 *   merge    s == q*s' with q <= n': the steps of the outer dim fall on the progression of the
 *            inner one, or continue it, so both are one dim of n' + q*(n-1) steps
 * One pass in ascending order of strides is enough: absorbing needs the smallest stride, and a
 * merge changes neither the run nor the stride of the inner dim.
 *
 * All steps count in elements; only the end multiplies by the size of one. Each rule holds in any
 * unit, and in elements the bounds of the storage are one comparison.
 */
#include "layout.h"

#include <pto/pto.h>

#include "base/error.h"
#include "base/likely.h"
#include "progression.h"

#define NO_SHIFT 0xff
#define SHIFT_OF(bytes) ((bytes) == 8 ? 3 : (bytes) == 4 ? 2 : (bytes) == 2 ? 1 : 0)

static const uint8_t dtype_shift[] = {[PTO_DTYPE_NONE] = NO_SHIFT,
#define DTYPE_SHIFT(name, value, text, bytes) [value] = SHIFT_OF(bytes),
                                      PTO_DTYPE_MAP(DTYPE_SHIFT)
#undef DTYPE_SHIFT
};

#define DTYPE_COUNT (sizeof dtype_shift / sizeof *dtype_shift)

/* Sums over the dims, in elements. */
typedef struct reach {
    uint64_t span; /* from the lowest element to the highest */
    uint64_t back; /* from the lowest element to element [0, 0, ...]; back <= span */
    int64_t numel; /* elements, counting repeated ones; only its overflow matters */
} reach;

/* Adds one dim of n >= 2 steps. False on overflow. *s becomes the absolute stride. */
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

/* What any storage must satisfy: its size fits in 63 bits, and it lies inside the address space. It
 * has an address, unless it is managed, which may have none yet. */
static inline bool storage_sound(const pto_tensor *t)
{
    uint64_t addr = (uint64_t)(uintptr_t)t->storage;
    return t->storage_bytes <= INT64_MAX && addr + t->storage_bytes >= addr &&
           (addr != 0 || t->owner != 0);
}

/* Whether every element lies in the storage. If the lowest element is before it, or the offset is
 * negative, the subtraction wraps to at least 2^63 - span. That is more than elems - 1 - span,
 * which it is compared with, since there are less than 2^63 elements. */
static inline bool reach_inside(const reach *r, const pto_tensor *t, unsigned shift)
{
    uint64_t elems = t->storage_bytes >> shift;
    return r->span < elems && (uint64_t)t->offset - r->back <= elems - 1 - r->span &&
           storage_sound(t);
}

static inline void place(ptoi_layout *out, const reach *r, const pto_tensor *t, unsigned shift)
{
    uint64_t base = t->owner ? 0 : (uint64_t)(uintptr_t)t->storage;
    out->lo = base + (((uint64_t)t->offset - r->back) << shift);
    out->len = (r->span + 1) << shift;
}

/* Handles all uncommon cases: no elements, or an error. */
static __attribute__((noinline, cold)) pto_status refuse(const pto_tensor *t, bool *empty)
{
    *empty = false;
    PTO_TRY(pto_tensor_check(t));
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

/* Builds with PTO_DEBUG_CHECKS check every layout they make. */
static inline pto_status made(const ptoi_layout *out)
{
#ifdef PTO_DEBUG_CHECKS
    return ptoi_layout_check(out);
#else
    (void)out;
    return PTO_OK;
#endif
}

static bool is_nested(const ptoi_layout *a)
{
    uint64_t span = a->run;
    bool nested = true;
    for (uint32_t j = a->k; j-- > 0;) {
        nested &= a->dim[j].s >= span;
        span += (a->dim[j].n - 1) * a->dim[j].s;
    }
    return nested;
}

/* Any tensor of valid dtype and ndim: strides of either sign, in any order, rows that overlap.
 * Sizes and strides are in separate arrays. As pairs they would be read back before both halves are
 * written, which stalls the load. */
static __attribute__((noinline)) pto_status layout_general(const pto_tensor *t, ptoi_layout *out,
                                                           bool *empty)
{
    uint64_t any_n[PTO_MAX_DIMS], any_s[PTO_MAX_DIMS], n[PTO_MAX_DIMS], s[PTO_MAX_DIMS];
    uint32_t rank[PTO_MAX_DIMS], count = 0;
    reach r = {0, 0, 1};
    unsigned shift = dtype_shift[t->dtype];
    for (int32_t d = t->ndim; d-- > 0;) {
        int64_t size = t->shape[d];
        uint64_t stride;
        if (size <= 1) {
            if (size == 1) {
                continue;
            }
            return refuse(t, empty);
        }
        if (!reach_add(&r, size, t->strides[d], &stride)) {
            return refuse(t, empty);
        }
        if (stride == 0) {
            continue;
        }
        /* Sorted by counting the smaller strides: no branch depends on the strides. */
        uint32_t before = 0;
        for (uint32_t i = 0; i < count; i++) {
            bool after = any_s[i] <= stride;
            before += after;
            rank[i] += !after;
        }
        rank[count] = before;
        any_n[count] = (uint64_t)size;
        any_s[count++] = stride;
    }
    if (!reach_inside(&r, t, shift)) {
        return refuse(t, empty);
    }
    place(out, &r, t, shift);
    for (uint32_t i = 0; i < count; i++) {
        n[rank[i]] = any_n[i];
        s[rank[i]] = any_s[i];
    }

    uint64_t run = 1;
    uint32_t i = 0, k = 0; /* dims 0 .. k-1 of n and s are done */
    for (; i < count && s[i] <= run; i++) {
        run += (n[i] - 1) * s[i];
    }
    for (; i < count; i++) {
        uint64_t q = k > 0 ? ptoi_one_progression(s[i], s[k - 1], n[k - 1]) : 0;
        if (q > 0) {
            n[k - 1] += q * (n[i] - 1);
        } else {
            n[k] = n[i];
            s[k++] = s[i];
        }
    }
    out->run = run << shift;
    out->k = k;
    for (uint32_t j = 0; j < k; j++) {
        out->dim[j].n = n[k - 1 - j];
        out->dim[j].s = s[k - 1 - j] << shift;
    }
    out->nested = is_nested(out);
    *empty = false;
    return made(out);
}

/* Adds a dim of at least two rows. False unless its stride is past the whole `span` so far. */
static inline bool row_past(int64_t n, int64_t s, int64_t *span)
{
    int64_t extent;
    return n > 0 && s >= *span && !__builtin_mul_overflow(n - 1, s, &extent) &&
           !__builtin_add_overflow(*span, extent, span);
}

/* The last step of the common case: checks bounds, then writes all fields but the dims. */
static inline pto_status place_rows(const pto_tensor *t, ptoi_layout *out, bool *empty, uint32_t k,
                                    int64_t run, int64_t span)
{
    unsigned shift = dtype_shift[t->dtype];
    uint64_t elems = t->storage_bytes >> shift;
    if (PTOI_UNLIKELY((uint64_t)span > elems || (uint64_t)t->offset > elems - (uint64_t)span ||
                      !storage_sound(t))) {
        return layout_general(t, out, empty);
    }
    uint64_t base = t->owner ? 0 : (uint64_t)(uintptr_t)t->storage;
    out->lo = base + ((uint64_t)t->offset << shift);
    out->len = (uint64_t)span << shift;
    out->run = (uint64_t)run << shift;
    out->k = k;
    out->nested = true;
    *empty = false;
    return made(out);
}

/* The rest of the common case: the dims from d outwards. The first of them is not dense with the
 * run. The dim pushed last is the only one that can still change, so it stays in registers. */
static __attribute__((noinline)) pto_status layout_rows(const pto_tensor *t, ptoi_layout *out,
                                                        bool *empty, int32_t d, int64_t run)
{
    int64_t span = run, top_n = 0, top_s = 0;
    uint64_t size = UINT64_C(1) << dtype_shift[t->dtype];
    uint32_t k = 0; /* dims pushed; the first k - 1 are in below[], smallest first */
    ptoi_dim below[PTO_MAX_DIMS];
    for (; d >= 0; d--) {
        int64_t n = t->shape[d], s = t->strides[d];
        if (n == 1) {
            continue;
        }
        if (PTOI_UNLIKELY(!row_past(n, s, &span))) {
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

/* The common case in one pass: strides are positive and grow from the last dim to the first, and
 * each row starts past the one before. Such a layout is nested. So elements are distinct, and their
 * number needs no check of its own. Two dims are one progression only if the outer one continues
 * where the inner one ends. */
pto_status ptoi_layout_of(const pto_tensor *t, ptoi_layout *out, bool *empty)
{
    if (PTOI_UNLIKELY(!t || (unsigned)t->dtype - 1u >= DTYPE_COUNT - 1 ||
                      (uint32_t)t->ndim > PTO_MAX_DIMS)) {
        return refuse(t, empty);
    }
    int32_t d = t->ndim - 1;
    int64_t run = 1;
    for (; d >= 0; d--) {
        int64_t n = t->shape[d];
        if (t->strides[d] == run) {
            if (PTOI_UNLIKELY(n <= 0 || __builtin_mul_overflow(run, n, &run))) {
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
    if (PTOI_UNLIKELY(!row_past(n, s, &span))) {
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

/* Greedy, outermost dim first. `rel` is the address within the block of dims j and after; it is
 * always less than the span of that block. Row i = rel / s is the last one that starts at or before
 * `rel`. Rows before it end before `rel`, because the layout is nested. So the byte is in row i; or
 * `rel` lies in the gap after that row, and the byte is the first one of row i + 1. That row
 * exists: there is no gap after the last row. */
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
        rel %= s;
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
        if (j + 1 < a->k && s % a->dim[j + 1].s == 0 && s / a->dim[j + 1].s <= a->dim[j + 1].n) {
            return ptoi_fail(PTO_CORRUPT, "layout L5: dims %u and %u are one progression",
                             (unsigned)j, (unsigned)j + 1);
        }
    }
    if (len != a->len || a->lo + len < a->lo || (a->k > 0 && len > INT64_MAX)) {
        return ptoi_fail(PTO_CORRUPT, "layout L3: length %llu at %llu, dims say %llu", (ull)a->len,
                         (ull)a->lo, (ull)len);
    }
    if (a->nested != is_nested(a)) {
        return ptoi_fail(PTO_CORRUPT, "layout L4: nested is %d", (int)a->nested);
    }
    return PTO_OK;
}
