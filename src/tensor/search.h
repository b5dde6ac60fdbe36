/* search.h - whether a sum of bounded terms can fall into a window.
 *
 *     lo <= c1*x1 + c2*x2 + ... + cm*xm <= hi    for some    0 <= xj <= uj
 *
 * "Do two strided views share a byte" reduces to this: a term for each dim of either view, and the
 * runs of bytes as the window. It is hard in general (it contains the subset sum problem), so the
 * search has a budget. It is easy for nearly all views that programs make.
 */
#ifndef PTOI_SEARCH_H
#define PTOI_SEARCH_H

#include "layout.h"

#define PTOI_MAX_TERMS (2 * PTO_MAX_DIMS)

/* Invariants
 *   S1  c1 > c2 > ... > cm > 0, every u >= 1
 *   S2  0 < lo <= hi
 *   S3  c1*u1 + ... + cm*um fits in 64 bits, every c in 63 (L3: two layouts of less than 2^63) */
typedef struct ptoi_sum {
    uint64_t lo, hi;
    uint32_t m;
    struct ptoi_term {
        uint64_t c, u;
    } term[PTOI_MAX_TERMS];
} ptoi_sum;

typedef enum ptoi_verdict {
    PTOI_NO,
    PTOI_YES,
    PTOI_OUT_OF_BUDGET,
} ptoi_verdict;

typedef struct ptoi_effort {
    uint64_t budget;         /* steps allowed; UINT64_MAX: no limit */
    uint64_t steps;          /* steps taken */
    pto_overlap_stage stage; /* PROGRESSION if closed forms sufficed, else SEARCH */
} ptoi_effort;

/* Solves *sum, and changes it on the way. */
ptoi_verdict ptoi_sum_solve(ptoi_sum *sum, ptoi_effort *effort);

#endif /* PTOI_SEARCH_H */
