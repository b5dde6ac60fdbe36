/* progression.h - whether arithmetic progressions meet a window, exactly and in O(log).
 *
 * Arguments may be any 64-bit values; no intermediate result overflows.
 */
#ifndef PTOI_PROGRESSION_H
#define PTOI_PROGRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether there is an x in 0 .. limit with (a * x) mod m in l .. r. Requires a < m and l <= r < m.
 * *first, if not NULL, becomes the smallest such x. Adds the number of rounds to *steps. */
bool ptoi_residue_hit(uint64_t a, uint64_t m, uint64_t l, uint64_t r, uint64_t limit,
                      uint64_t *first, uint64_t *steps);

/* x / c, rounded up. A division costs less than an unpredictable branch. */
static inline uint64_t ptoi_ceil_div(uint64_t x, uint64_t c)
{
    uint64_t some = x > 0;
    return (x - some) / c + some;
}

/* Returns q if n steps of s and any number of steps of outer >= s form one progression, because
 * outer == q*s with q <= n; else 0. Needs no division if n <= 3. */
static inline uint64_t ptoi_one_progression(uint64_t outer, uint64_t s, uint64_t n)
{
    if (n <= 3) {
        return outer == s ? 1 : outer == 2 * s ? 2 : outer == 3 * s && n == 3 ? 3 : 0;
    }
    return outer - s <= (n - 1) * s && outer % s == 0 ? outer / s : 0;
}

/* Two terms, prepared for questions about many windows. c1*u1 + c2*u2 fits in 64 bits. */
typedef struct ptoi_pair {
    uint64_t c1, u1, most1; /* most = c * u */
    uint64_t c2, u2, most2;
    uint64_t residue; /* c1 mod c2 */
} ptoi_pair;

static inline ptoi_pair ptoi_pair_of(uint64_t c1, uint64_t u1, uint64_t c2, uint64_t u2)
{
    return (ptoi_pair){c1, u1, c1 * u1, c2, u2, c2 * u2, c1 % c2};
}

/* Whether there are x in 0 .. u1 and y in 0 .. u2 with c1*x + c2*y in lo .. hi. Requires 0 < lo <=
 * hi, hi - lo < c2 and 0 < c1; is fastest with c1 > c2.
 *
 * For a given x at most one y fits, because the window is no longer than c2. If x is in x0 .. x1,
 * the y that fits is within its bounds: y > u2 would mean c1*x + c2*u2 <= hi - c2 < lo, contrary to
 * x >= x0, and y < 0 would mean c1*x >= lo + c2 > hi, contrary to x <= x1. One question about
 * residues is left: (hi - c1*x) mod c2 <= hi - lo. */
static inline bool ptoi_pair_meets(const ptoi_pair *pair, uint64_t lo, uint64_t hi, uint64_t *steps)
{
    uint64_t c1 = pair->c1, c2 = pair->c2, slack = hi - lo;
    uint64_t least = lo > pair->most2 ? lo - pair->most2 : 0;
    uint64_t x0 = ptoi_ceil_div(least, c1), x1 = hi / c1;
    x1 = x1 < pair->u1 ? x1 : pair->u1;
    if (x0 > x1) {
        return false;
    }
    uint64_t r = (hi - c1 * x0) % c2, left = x1 - x0;
    for (int i = 0; i < 4; i++) { /* a few values directly, before any division */
        if (r <= slack) {
            return true;
        }
        if (left-- == 0) {
            return false;
        }
        r = r >= pair->residue ? r - pair->residue : r + c2 - pair->residue;
    }
    return r <= slack || ptoi_residue_hit(pair->residue, c2, r - slack, r, left, NULL, steps);
}

#endif /* PTOI_PROGRESSION_H */
