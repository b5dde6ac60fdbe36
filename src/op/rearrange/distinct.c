/* distinct.c - decides whether all elements of a view are at different places.
 *
 * Strides count elements, so two elements share bytes if and only if they are at the same place.
 * Let strides be positive (a reversed dim touches the same places) and s1 > s2 > ... Two elements
 * at the same place differ first in some dim k, by some x >= 1 steps, and the dims inside it
 * compensate:
 *
 *     x*sk + sum of dj*sj = 0,    1 <= x < nk,  |dj| < nj,  j > k
 *
 * With every dj counted from its lowest value, and x from its highest, all terms add up: this is
 * the question that tensor/search.h answers. It need not be asked if sk is larger than the reach of
 * all dims inside k. In nearly all views that holds for all k.
 */
#include "op/rearrange/rearrange.h"

/* Whether two elements that differ in dim k, but in no dim before it, are at the same place.
 * `reach` is that of the dims after k. */
static ptoi_verdict ask(const ptoi_dim *dim, uint32_t k, uint32_t n, uint64_t reach,
                        ptoi_effort *effort)
{
    uint64_t target = reach + (dim[k].n - 1) * dim[k].s;
    ptoi_sum sum = {.lo = target, .hi = target};
    if (dim[k].n > 2) {
        sum.term[sum.m].c = dim[k].s;
        sum.term[sum.m++].u = dim[k].n - 2;
    }
    for (uint32_t j = k + 1; j < n; j++) {
        sum.term[sum.m].c = dim[j].s;
        sum.term[sum.m++].u = 2 * (dim[j].n - 1);
    }
    return ptoi_sum_solve(&sum, effort);
}

ptoi_verdict ptoi_meets_itself(int32_t ndim, const int64_t *shape, const int64_t *strides,
                               uint64_t budget)
{
    ptoi_dim dim[PTO_MAX_DIMS]; /* largest stride first */
    uint32_t n = 0;
    bool repeats = false;
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] == 0) {
            return PTOI_NO;
        }
        if (shape[d] == 1) {
            continue;
        }
        uint64_t s = strides[d] < 0 ? 0 - (uint64_t)strides[d] : (uint64_t)strides[d];
        uint32_t at = n++;
        for (; at > 0 && dim[at - 1].s <= s; at--) {
            repeats |= dim[at - 1].s == s; /* one step forward in one dim, one back in the other */
            dim[at] = dim[at - 1];
        }
        dim[at] = (ptoi_dim){(uint64_t)shape[d], s};
        repeats |= s == 0;
    }
    if (repeats) {
        return PTOI_YES;
    }
    ptoi_verdict verdict = PTOI_NO;
    uint64_t reach = 0, count = 1; /* fit, by E2 and E1 */
    for (uint32_t k = n; k-- > 0;) {
        if (dim[k].s <= reach) {
            ptoi_effort effort = {.budget = budget};
            ptoi_verdict here = ask(dim, k, n, reach, &effort);
            if (here == PTOI_YES) {
                return PTOI_YES;
            }
            verdict = here == PTOI_OUT_OF_BUDGET ? here : verdict;
        }
        reach += (dim[k].n - 1) * dim[k].s;
        count *= dim[k].n;
        if (count - 1 > reach) {
            return PTOI_YES; /* more elements than places */
        }
    }
    return verdict;
}
