/* covers.c - decides whether a layout contains every byte of another one.
 *
 * A nested layout `a` is processed from its outermost dim inwards; its rows are s bytes apart. `at`
 * is the start of b, counted from the start of the remaining part of a. b must end inside that
 * part, or the answer is no.
 *   drop     A dim of b whose stride is a multiple of s moves the inner dims by whole rows only.
 *            All rows are alike and b ends inside the last one, so step 0 stands for all steps.
 *   descend  The rest of b lies within one row: the question becomes one about that row.
 *   no       b starts in the gap between two rows; or it extends beyond the gap and has no gap of
 *            its own that is as wide, so a byte of b lies in the gap.
 *   residue  One dim left on both sides: no step of b may leave the run, modulo s (progression.c).
 * If none of these decides, each step of the largest dim of b becomes a question of its own. Tiles,
 * panels and halos of one matrix never get that far.
 *
 * A layout that overlaps itself has no rows. Then search.c looks for each run of b: the whole run,
 * then its halves. Every step counts against the budget.
 */
#include "overlap.h"
#include "progression.h"
#include "search.h"

typedef struct cover {
    const ptoi_layout *a, *b;
    uint64_t span[PTO_MAX_DIMS + 1]; /* span[j]: of a's dims from j on, including the run */
    uint64_t run;                    /* of b */
    bool counted;                    /* a was found to have no fewer bytes than b */
    ptoi_effort effort;
} cover;

/* The dims of b that are left, and the bytes from the first to the last that they touch. */
typedef struct rest {
    uint32_t k;
    uint64_t len;
    ptoi_dim dim[PTO_MAX_DIMS];
} rest;

static void raise_stage(cover *c, pto_overlap_stage stage)
{
    c->effort.stage = c->effort.stage > stage ? c->effort.stage : stage;
}

/* Whether `len` bytes at `at` lie in a's dims from j on. Rows may touch, but the runs within a row
 * of the innermost dim do not. So a range spans at most two runs, and this splits at most once in
 * each dim. */
static bool run_inside(const cover *c, uint32_t j, uint64_t at, uint64_t len)
{
    for (; j < c->a->k; j++) {
        uint64_t s = c->a->dim[j].s;
        if (at + len > c->span[j]) {
            return false;
        }
        uint64_t row = at / s;
        at -= row * s;
        if (at + len > s) {
            return s == c->span[j + 1] && run_inside(c, j + 1, at, s - at) &&
                   run_inside(c, j, (row + 1) * s, at + len - s);
        }
    }
    return at + len <= c->a->run;
}

/* The number of bytes of a nested layout. It is at most the length. */
static uint64_t bytes_of(const ptoi_layout *l)
{
    uint64_t bytes = l->run;
    for (uint32_t j = 0; j < l->k; j++) {
        bytes *= l->dim[j].n;
    }
    return bytes;
}

/* Asked before b is split: a layout with more bytes cannot fit. */
static bool too_large(cover *c)
{
    bool no = !c->counted && c->b->nested && bytes_of(c->b) > bytes_of(c->a);
    c->counted = true;
    return no;
}

/* Whether the dims of `b` lie in a's dims from j on. Each recursion has one dim of b less. */
static ptoi_verdict inside(cover *c, uint32_t j, rest *b, uint64_t at)
{
    for (; j < c->a->k; j++) {
        uint64_t s = c->a->dim[j].s, inner = c->span[j + 1];
        if (at + b->len > c->span[j]) {
            return PTOI_NO;
        }
        uint32_t kept = 0;
        for (uint32_t i = 0; i < b->k; i++) {
            ptoi_dim d = b->dim[i];
            if (d.s == s || (d.s > s && d.s % s == 0)) {
                b->len -= (d.n - 1) * d.s;
            } else {
                b->dim[kept++] = d;
            }
        }
        b->k = kept;
        uint64_t in_row = at % s;
        if (in_row + b->len <= s) {
            at = in_row;
            continue;
        }
        if (b->k == 0) {
            return run_inside(c, j, at, c->run) ? PTOI_YES : PTOI_NO;
        }
        if (in_row >= inner || b->dim[0].s - c->run < s - inner) {
            return PTOI_NO;
        }
        if (b->k == 1 && j + 1 == c->a->k) {
            /* Step 0 lies in a run, unless in_row + run(b) > run(a). */
            uint64_t run = c->a->run;
            if (in_row + c->run > run) {
                return PTOI_NO;
            }
            raise_stage(c, PTO_STAGE_PROGRESSION);
            return ptoi_residue_hit(b->dim[0].s % s, s, run - c->run + 1 - in_row, s - 1 - in_row,
                                    b->dim[0].n - 1, NULL, &c->effort.steps)
                       ? PTOI_NO
                       : PTOI_YES;
        }
        if (too_large(c)) {
            return PTOI_NO;
        }
        raise_stage(c, PTO_STAGE_SEARCH);
        ptoi_dim outer = b->dim[0];
        for (uint64_t i = 0; i < outer.n; i++) {
            if (c->effort.steps++ >= c->effort.budget) {
                return PTOI_OUT_OF_BUDGET;
            }
            rest one = {.k = b->k - 1, .len = b->len - (outer.n - 1) * outer.s};
            for (uint32_t d = 0; d < one.k; d++) {
                one.dim[d] = b->dim[d + 1];
            }
            ptoi_verdict verdict = inside(c, j, &one, at + i * outer.s);
            if (verdict != PTOI_YES) {
                return verdict;
            }
        }
        return PTOI_YES;
    }
    return at + b->len <= c->a->run ? PTOI_YES : PTOI_NO;
}

/* ---- a overlaps itself ------------------------------------------------------------------ */

/* Whether a run of a starts in first .. last, counted from the lowest byte of a. */
static ptoi_verdict run_starts(cover *c, uint64_t first, uint64_t last)
{
    if (first == 0) {
        return PTOI_YES;
    }
    ptoi_sum sum = {.lo = first, .hi = last, .m = c->a->k};
    for (uint32_t j = 0; j < c->a->k; j++) {
        sum.term[j].c = c->a->dim[j].s;
        sum.term[j].u = c->a->dim[j].n - 1;
    }
    return ptoi_sum_solve(&sum, &c->effort);
}

/* Whether `len` bytes at `at` lie in one run of a, or each half does. It is exact, because a single
 * byte has no halves. The recursion is at most 64 deep. */
static ptoi_verdict piece_inside(cover *c, uint64_t at, uint64_t len)
{
    if (c->effort.steps++ >= c->effort.budget) {
        return PTOI_OUT_OF_BUDGET;
    }
    uint64_t run = c->a->run;
    if (len <= run) {
        uint64_t first = at + len > run ? at + len - run : 0;
        ptoi_verdict verdict = run_starts(c, first, at);
        if (verdict != PTOI_NO || len == 1) {
            return verdict;
        }
    }
    ptoi_verdict verdict = piece_inside(c, at, len / 2);
    return verdict == PTOI_YES ? piece_inside(c, at + len / 2, len - len / 2) : verdict;
}

static ptoi_verdict pieces_inside(cover *c, const ptoi_layout *b, uint32_t j, uint64_t at)
{
    if (j == b->k) {
        return piece_inside(c, at, b->run);
    }
    for (uint64_t i = 0; i < b->dim[j].n; i++) {
        ptoi_verdict verdict = pieces_inside(c, b, j + 1, at + i * b->dim[j].s);
        if (verdict != PTOI_YES) {
            return verdict;
        }
    }
    return PTOI_YES;
}

/* ---- The cascade ------------------------------------------------------------------------ */

static pto_overlap_result decided(bool yes, pto_overlap_stage stage)
{
    return (pto_overlap_result){.yes = yes, .stage = stage, .steps = 0};
}

pto_overlap_result ptoi_covers(const ptoi_layout *a, const ptoi_layout *b, uint64_t budget)
{
    if (b->lo < a->lo || b->lo + b->len > a->lo + a->len) {
        return decided(false, PTO_STAGE_RANGE);
    }
    if (a->k == 0) {
        return decided(true, b->k == 0 ? PTO_STAGE_DENSE : PTO_STAGE_RANGE);
    }
    if (ptoi_layout_equal(a, b)) {
        return decided(true, PTO_STAGE_SAME);
    }
    cover c = {.a = a, .b = b, .run = b->run};
    uint64_t at = b->lo - a->lo;
    ptoi_verdict verdict;
    c.effort.budget = budget ? budget : PTO_OVERLAP_BUDGET;
    if (a->nested) {
        c.effort.stage = b->k == 0 ? PTO_STAGE_SUCCESSOR : PTO_STAGE_GRID;
        rest all = {.k = b->k, .len = b->len};
        for (uint32_t j = 0; j < b->k; j++) {
            all.dim[j] = b->dim[j];
        }
        uint64_t span = a->run;
        for (uint32_t j = a->k; j-- > 0;) {
            c.span[j + 1] = span;
            span += (a->dim[j].n - 1) * a->dim[j].s;
        }
        c.span[0] = span;
        verdict = inside(&c, 0, &all, at);
    } else {
        c.effort.stage = PTO_STAGE_SEARCH;
        verdict = pieces_inside(&c, b, 0, at);
        c.effort.stage = PTO_STAGE_SEARCH;
    }
    if (verdict == PTOI_OUT_OF_BUDGET) {
        return (pto_overlap_result){.yes = false, .stage = PTO_STAGE_BUDGET, c.effort.steps};
    }
    return (pto_overlap_result){verdict == PTOI_YES, c.effort.stage, c.effort.steps};
}
