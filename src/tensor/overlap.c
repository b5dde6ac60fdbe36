/* overlap.c - the cascade that decides whether two layouts share a byte.
 *
 * Let a start before b, at a distance of d > 0 bytes. They share a byte if and only if
 *
 *     d - run(a) < sum of ia*sa - sum of ib*sb < d + run(b)
 *
 * for some steps ia, ib of their dims: two run starts are that close. Each stage answers only if
 * its answer is proved. Otherwise the next stage, which is more expensive, takes over:
 *   range        the byte ranges are disjoint; or an end of one lies in a dense other one, and ends
 *                are always touched
 *   same, dense  always yes
 *   successor    b dense, a nested: the first byte of a at or after b's lowest decides
 *   grid         strides that divide each other: see grid()
 *   progression  at most two strides left after exact reductions: see progression.c
 *   search       see search.c
 */
#include "overlap.h"

#include "base/atomic.h"
#include "base/error.h"
#include "base/likely.h"
#include "search.h"

static inline pto_overlap_result decided(bool yes, pto_overlap_stage stage)
{
    return (pto_overlap_result){.yes = yes, .stage = stage, .steps = 0};
}

/* Whether the outer dims, those before k, have strides that are multiples of s. */
static inline bool all_multiples(const ptoi_layout *l, uint32_t k, uint64_t s)
{
    while (k-- > 0) {
        if (l->dim[k].s != s && l->dim[k].s % s != 0) {
            return false;
        }
    }
    return true;
}

/* Whether both layouts share a byte, given a.lo < b.lo. *fits is false if strides do not divide
 * each other.
 *
 * This goes from the smallest stride to the largest. g is the previous stride (1 byte at first). lo
 * .. hi is the set of all v for which the remaining strides have to make up v * g bytes. The set
 * has no gaps: by induction, since the difference of a step of a and a step of b takes every value
 * from -(nb-1) to na-1. The next stride s is a multiple of g. So only v that are multiples of s/g
 * remain, which is a gapless set again. If it contains 0, the remaining strides may stay at step 0,
 * and the answer is yes. If it is empty and all remaining strides are multiples of s, the answer is
 * no. It does not matter whether rows wrap or overlap. lo > 0 until the answer is yes, and hi * g
 * stays below the highest byte of b - a.lo: no overflow. */
static inline bool grid(const ptoi_layout *a, const ptoi_layout *b, bool *fits)
{
    uint64_t d = b->lo - a->lo;
    *fits = true;
    if (d < a->run) {
        return true;
    }
    uint64_t lo = d - a->run + 1, hi = d + b->run - 1, g = 1;
    uint32_t ia = a->k, ib = b->k;
    while (ia + ib > 0) {
        uint64_t sa = ia > 0 ? a->dim[ia - 1].s : UINT64_MAX;
        uint64_t sb = ib > 0 ? b->dim[ib - 1].s : UINT64_MAX;
        uint64_t s = sa < sb ? sa : sb, ratio = s;
        if (g > 1) {
            ratio = s / g;
            if (ratio * g != s) {
                *fits = false;
                return false;
            }
        }
        g = s;
        uint64_t top = hi / ratio, bottom = top;
        if (hi - lo >= ratio) {
            bottom = (lo - 1) / ratio + 1;
        } else if (top * ratio < lo) {
            *fits = all_multiples(a, ia, s) && all_multiples(b, ib, s);
            return false;
        }
        uint64_t na = 0, nb = 0;
        if (sa == s) {
            na = a->dim[--ia].n - 1;
        }
        if (sb == s) {
            nb = b->dim[--ib].n - 1;
        }
        if (bottom <= na) {
            return true;
        }
        lo = bottom - na;
        hi = top + nb;
    }
    return false;
}

/* Merges both lists of strides into one. Steps of b are counted from its far end, so that all terms
 * add. */
static void sum_of(const ptoi_layout *a, const ptoi_layout *b, ptoi_sum *sum)
{
    uint64_t d = b->lo - a->lo, far = b->len - b->run;
    sum->lo = far + d - a->run + 1; /* d >= a.run: grid() made sure of it */
    sum->hi = far + d + b->run - 1; /* the highest byte of b, counted from a.lo */
    uint32_t m = 0, ia = 0, ib = 0;
    while (ia < a->k && ib < b->k) {
        ptoi_dim p = a->dim[ia], q = b->dim[ib]; /* no branch on which is larger: it would be
                                                    unpredictable */
        uint64_t from_a = p.s >= q.s, from_b = q.s >= p.s;
        sum->term[m].c = from_a ? p.s : q.s;
        sum->term[m++].u = (from_a ? p.n - 1 : 0) + (from_b ? q.n - 1 : 0);
        ia += (uint32_t)from_a;
        ib += (uint32_t)from_b;
    }
    for (; ia < a->k; ia++, m++) {
        sum->term[m].c = a->dim[ia].s;
        sum->term[m].u = a->dim[ia].n - 1;
    }
    for (; ib < b->k; ib++, m++) {
        sum->term[m].c = b->dim[ib].s;
        sum->term[m].u = b->dim[ib].n - 1;
    }
    sum->m = m;
}

static __attribute__((noinline)) pto_overlap_result search(const ptoi_layout *a,
                                                           const ptoi_layout *b, uint64_t budget)
{
    ptoi_sum sum;
    ptoi_effort effort = {.budget = budget ? budget : PTO_OVERLAP_BUDGET};
    sum_of(a, b, &sum);
    ptoi_verdict verdict = ptoi_sum_solve(&sum, &effort);
    if (verdict == PTOI_OUT_OF_BUDGET) {
        return (pto_overlap_result){.yes = true, .stage = PTO_STAGE_BUDGET, .steps = effort.steps};
    }
    return (pto_overlap_result){verdict == PTOI_YES, effort.stage, effort.steps};
}

pto_overlap_result ptoi_overlaps(const ptoi_layout *a, const ptoi_layout *b, uint64_t budget)
{
    uint64_t a_end = a->lo + a->len, b_end = b->lo + b->len;
    if (a_end <= b->lo || b_end <= a->lo) {
        return decided(false, PTO_STAGE_RANGE);
    }
    if (a->k + b->k == 0) {
        return decided(true, PTO_STAGE_DENSE);
    }
    if (a->lo == b->lo || a_end == b_end) {
        return decided(true, ptoi_layout_equal(a, b) ? PTO_STAGE_SAME : PTO_STAGE_RANGE);
    }
    /* The lower layout comes first, so the answer does not depend on the order of arguments. */
    const ptoi_layout *low = a->lo < b->lo ? a : b, *high = a->lo < b->lo ? b : a;
    if (low->k == 0) {
        return decided(true, PTO_STAGE_RANGE);
    }
    if (high->k == 0) {
        if (low->lo + low->len <= high->lo + high->len) {
            return decided(true, PTO_STAGE_RANGE);
        }
        if (low->nested) {
            uint64_t found = 0;
            return decided(ptoi_layout_successor(low, high->lo, &found) &&
                               found - high->lo < high->len,
                           PTO_STAGE_SUCCESSOR);
        }
    }
    bool fits;
    bool yes = grid(low, high, &fits);
    if (fits) {
        return decided(yes, PTO_STAGE_GRID);
    }
    return search(low, high, budget);
}

/* ---- The public functions --------------------------------------------------------------- */

static ptoi_counter budget_hits;

uint64_t pto_overlap_budget_hits(void)
{
    return ptoi_counter_read(&budget_hits);
}

const char *pto_overlap_stage_name(pto_overlap_stage stage)
{
    static const char *const names[] = {
#define STAGE_NAME(name, text, short_text) text,
        PTO_OVERLAP_STAGE_MAP(STAGE_NAME)
#undef STAGE_NAME
    };
    return (unsigned)stage < PTO_STAGE_COUNT ? names[stage] : "invalid";
}

/* Whether addresses of both tensors are in the same space. Managed memory: the same block and
 * generation. User memory is one space for all devices: with unified addressing, a pointer never
 * means different memory on two devices, and two devices may well address the same memory. */
static inline bool same_space(const pto_tensor *a, const pto_tensor *b)
{
    return a->owner == b->owner && (a->owner == 0 || a->generation == b->generation);
}

typedef pto_overlap_result (*question)(const ptoi_layout *a, const ptoi_layout *b, uint64_t budget);

/* `empty` is the answer if b has no bytes. If only a has none, the answer is no. */
static inline pto_status verdict(const pto_tensor *a, const pto_tensor *b, question ask, bool empty,
                                 uint64_t budget, pto_overlap_result *result)
{
    ptoi_layout la, lb;
    bool empty_a, empty_b;
    pto_status status;
    if ((status = ptoi_layout_of(a, &la, &empty_a)) != PTO_OK ||
        (status = ptoi_layout_of(b, &lb, &empty_b)) != PTO_OK) {
        return status;
    }
    if (PTOI_UNLIKELY(empty_a || empty_b)) {
        *result = decided(empty_b && empty, PTO_STAGE_EMPTY);
    } else if (PTOI_UNLIKELY(!same_space(a, b))) {
        *result = decided(false, PTO_STAGE_SPACE);
    } else {
        *result = ask(&la, &lb, budget);
        if (PTOI_UNLIKELY(result->stage == PTO_STAGE_BUDGET)) {
            ptoi_counter_add(&budget_hits, 1);
        }
    }
    return PTO_OK;
}

static inline pto_status verdict_overlaps(const pto_tensor *a, const pto_tensor *b, uint64_t budget,
                                          pto_overlap_result *result)
{
    return verdict(a, b, ptoi_overlaps, false, budget, result);
}

/* Everything covers the empty set. */
static inline pto_status verdict_covers(const pto_tensor *a, const pto_tensor *b, uint64_t budget,
                                        pto_overlap_result *result)
{
    return verdict(a, b, ptoi_covers, true, budget, result);
}

bool pto_tensor_overlaps(const pto_tensor *a, const pto_tensor *b)
{
    pto_overlap_result result;
    return verdict_overlaps(a, b, 0, &result) != PTO_OK || result.yes;
}

bool pto_tensor_covers(const pto_tensor *a, const pto_tensor *b)
{
    pto_overlap_result result;
    return verdict_covers(a, b, 0, &result) == PTO_OK && result.yes;
}

pto_status pto_tensor_overlaps_ex(const pto_tensor *a, const pto_tensor *b, uint64_t budget,
                                  pto_overlap_result *result)
{
    if (!result) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "overlaps: result is NULL");
    }
    return verdict_overlaps(a, b, budget, result);
}

pto_status pto_tensor_covers_ex(const pto_tensor *a, const pto_tensor *b, uint64_t budget,
                                pto_overlap_result *result)
{
    if (!result) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "covers: result is NULL");
    }
    return verdict_covers(a, b, budget, result);
}
