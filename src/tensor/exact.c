/* exact.c - marks the bytes of one layout in a bitmap and looks up those of the other.
 *
 * The bitmap covers a window of addresses, which moves over all bytes that matter. Only runs that
 * meet the window are visited, so all windows together visit each run about once.
 */
#include "exact.h"

#include <stdlib.h>
#include <string.h>

#include "overlap.h"

#define WINDOW (UINT64_C(1) << 23) /* addresses: a bitmap of a mebibyte */
#define FEW_STEPS 64               /* of a search: enough for nearly all views */

typedef enum what {
    MARK,
    FIND_MARKED,   /* stop at a byte that is marked */
    FIND_UNMARKED, /* stop at a byte that is not */
} what;

typedef struct visit {
    const ptoi_layout *layout;
    uint64_t span[PTO_MAX_DIMS + 1]; /* span[j]: bytes from the first to the last of dims j .. */
    uint64_t lo, hi;                 /* the window */
    uint64_t *bits;
    what what;
} visit;

/* Marks or looks up the bytes from .. to-1 of the window. Returns whether to stop. */
static bool touch(const visit *v, uint64_t from, uint64_t to)
{
    while (from < to) {
        const uint64_t in_word = from % 64, left = to - from;
        const uint64_t count = left < 64 - in_word ? left : 64 - in_word;
        const uint64_t mask = (count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1) << in_word;
        uint64_t *word = &v->bits[from / 64];
        if (v->what == MARK) {
            *word |= mask;
        } else if (v->what == FIND_MARKED ? (*word & mask) != 0 : (*word & mask) != mask) {
            return true;
        }
        from += count;
    }
    return false;
}

/* Visits the runs of the dims from j on, which start at `at`, as far as they meet the window.
 * Returns whether one of them says to stop. */
static bool visit_runs(const visit *v, uint32_t j, uint64_t at)
{
    const ptoi_layout *l = v->layout;
    if (at >= v->hi || at + v->span[j] <= v->lo) {
        return false;
    }
    if (j == l->k) {
        const uint64_t end = at + l->run;
        return touch(v, (at > v->lo ? at : v->lo) - v->lo, (end < v->hi ? end : v->hi) - v->lo);
    }
    const uint64_t s = l->dim[j].s, first_end = at + v->span[j + 1];
    uint64_t i = first_end <= v->lo ? (v->lo - first_end) / s + 1 : 0; /* those before lie below */
    for (; i < l->dim[j].n && at + i * s < v->hi; i++) {
        if (visit_runs(v, j + 1, at + i * s)) {
            return true;
        }
    }
    return false;
}

static visit visit_of(const ptoi_layout *l, what to_do, uint64_t *bits)
{
    visit v = {.layout = l, .bits = bits, .what = to_do};
    v.span[l->k] = l->run;
    for (uint32_t j = l->k; j-- > 0;) {
        v.span[j] = v.span[j + 1] + (l->dim[j].n - 1) * l->dim[j].s;
    }
    return v;
}

/* Marks the bytes of `a` in lo .. hi-1, window by window, and looks up those of `b`. */
static bool enumerate(const ptoi_layout *a, const ptoi_layout *b, uint64_t lo, uint64_t hi,
                      what find_what, bool *found)
{
    const uint64_t most = hi - lo < WINDOW ? hi - lo : WINDOW;
    const size_t bytes = (size_t)(most / 64 + 1) * sizeof(uint64_t);
    uint64_t *bits = malloc(bytes);
    if (!bits) {
        return false;
    }
    visit mark = visit_of(a, MARK, bits), find = visit_of(b, find_what, bits);
    *found = false;
    for (uint64_t at = lo; at < hi && !*found; at += most) {
        mark.lo = find.lo = at;
        mark.hi = find.hi = hi - at < most ? hi : at + most;
        memset(bits, 0, bytes);
        (void)visit_runs(&mark, 0, a->lo);
        *found = visit_runs(&find, 0, b->lo);
        if (hi - at <= most) {
            break; /* at + most might wrap */
        }
    }
    free(bits);
    return true;
}

bool ptoi_enumerate_overlaps(const ptoi_layout *a, const ptoi_layout *b, bool *yes)
{
    const uint64_t a_end = a->lo + a->len, b_end = b->lo + b->len;
    const uint64_t lo = a->lo > b->lo ? a->lo : b->lo, hi = a_end < b_end ? a_end : b_end;
    *yes = false;
    return lo >= hi || enumerate(a, b, lo, hi, FIND_MARKED, yes);
}

bool ptoi_enumerate_covers(const ptoi_layout *a, const ptoi_layout *b, bool *yes)
{
    bool gap = true;
    *yes = false;
    if (b->lo < a->lo || b->lo + b->len > a->lo + a->len) {
        return true;
    }
    if (!enumerate(a, b, b->lo, b->lo + b->len, FIND_UNMARKED, &gap)) {
        return false;
    }
    *yes = !gap;
    return true;
}

/* ---- Search, then enumeration ---- */

/* Runs of a layout, at most 2^62. */
static uint64_t runs_of(const ptoi_layout *l)
{
    uint64_t runs = 1;
    for (uint32_t j = 0; j < l->k; j++) {
        if (__builtin_mul_overflow(runs, l->dim[j].n, &runs) || runs >> 62) {
            return UINT64_C(1) << 62;
        }
    }
    return runs;
}

/* Steps that a search may take: a part of what an enumeration takes. */
static uint64_t budget_of(const ptoi_layout *a, const ptoi_layout *b)
{
    const uint64_t shorter = a->len < b->len ? a->len : b->len;
    return FEW_STEPS + (runs_of(a) + runs_of(b) + shorter / 64) / 8;
}

bool ptoi_overlaps_exactly(const ptoi_layout *a, const ptoi_layout *b)
{
    bool yes;
    const pto_overlap_result searched = ptoi_overlaps(a, b, budget_of(a, b));
    if (searched.stage != PTO_STAGE_BUDGET) {
        return searched.yes;
    }
    return ptoi_enumerate_overlaps(a, b, &yes) ? yes : ptoi_overlaps(a, b, UINT64_MAX).yes;
}

bool ptoi_covers_exactly(const ptoi_layout *a, const ptoi_layout *b)
{
    bool yes;
    const pto_overlap_result searched = ptoi_covers(a, b, budget_of(a, b));
    if (searched.stage != PTO_STAGE_BUDGET) {
        return searched.yes;
    }
    return ptoi_enumerate_covers(a, b, &yes) ? yes : ptoi_covers(a, b, UINT64_MAX).yes;
}
