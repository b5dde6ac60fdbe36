/* search.c - reduces the sum by exact rules, then branches and bounds.
 *
 * The rules, with w = hi - lo + 1 values in the window:
 *   merge    ci == q*cj with q <= uj + 1: multiples of ci continue those of cj: one term
 *   absorb   cm <= w: the windows for all xm touch each other, so they are one longer window
 *   divide   every c is a multiple of g: only multiples of g in the window count
 *   split    the first p terms are multiples of g, and the others with the window span at most 2*g:
 *            the first terms may sum up to at most two multiples of g. Each of these gives two
 *            separate questions, and both answers must be yes. (Rows against columns: any steps
 *            through the rows of a matrix, any steps within a row.)
 *   close    one or two terms have a closed form: progression.c
 * No rule changes the answer. If no rule applies, the term with the fewest possible values is tried
 * value by value. If there are many, a sieve excludes most of them: when some of the other terms
 * are multiples of g, and the rest of them reach r, then c*x must come within r + w of the window,
 * modulo g.
 *
 * One step is one question to the rules, or one round of the closed form.
 */
#include "search.h"

#include <stddef.h>
#include <string.h>

#include "progression.h"

#define FEW 3   /* values of the first term that are tried before anything else */
#define MANY 16 /* values of a term for which a gcd pays off */

/* A term with its largest value. */
typedef struct term {
    uint64_t c, u;
    uint64_t most; /* c * u */
} term;

/* Terms in descending order of c. */
typedef struct list {
    uint32_t m;
    ptoi_pair tail; /* the last two, if there are two */
    term t[PTOI_MAX_TERMS];
} list;

/* For estimates: half of x, because the conversion of signed numbers is faster. */
static inline double half(uint64_t x)
{
    return (double)(int64_t)(x >> 1);
}

static uint64_t gcd_of(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---- Reduction -------------------------------------------------------------------------- */

/* Merges neighbours, smallest first, in one pass: a merged term keeps its c and has more steps, so
 * it may merge with the next one. */
static void merge_terms(ptoi_sum *sum)
{
    struct ptoi_term *t = sum->term;
    uint32_t inner = sum->m - 1; /* terms inner .. m-1 are done */
    for (uint32_t i = inner; i-- > 0;) {
        uint64_t q = ptoi_one_progression(t[i].c, t[inner].c, t[inner].u + 1);
        if (q > 0) {
            t[inner].u += q * t[i].u;
        } else {
            t[--inner] = t[i];
        }
    }
    if (inner > 0) {
        sum->m -= inner;
        memmove(t, t + inner, sum->m * sizeof *t);
    }
}

/* A common divisor of every c that is cheap to find: the smallest c, if it divides all, or a power
 * of two. (Strides are multiples of element sizes. Other common divisors are left to the sieve.) */
static uint64_t common_divisor(const ptoi_sum *sum)
{
    uint64_t smallest = sum->term[sum->m - 1].c, bits = smallest;
    bool divides = true;
    for (uint32_t i = 0; i + 1 < sum->m; i++) {
        divides = divides && sum->term[i].c % smallest == 0;
        bits |= sum->term[i].c;
    }
    return divides ? smallest : bits & -bits;
}

/* Absorbs and divides until neither applies. Returns true with an answer, or leaves at least two
 * terms and hi - lo < the smallest c. */
static bool reduce(ptoi_sum *sum, ptoi_verdict *verdict)
{
    for (;;) {
        if (sum->m == 0) {
            *verdict = PTOI_NO; /* the window does not contain 0 */
            return true;
        }
        struct ptoi_term *last = &sum->term[sum->m - 1];
        if (sum->hi - sum->lo >= last->c - 1) {
            uint64_t shift = last->c * last->u;
            if (sum->lo <= shift) {
                *verdict = PTOI_YES;
                return true;
            }
            sum->lo -= shift;
            sum->m--;
            continue;
        }
        uint64_t g = sum->m == 2 ? 1 : common_divisor(sum); /* the closed form needs no divisor */
        if (g == 1) {
            return false;
        }
        for (uint32_t i = 0; i < sum->m; i++) {
            sum->term[i].c /= g;
        }
        sum->lo = (sum->lo - 1) / g + 1;
        sum->hi /= g;
        if (sum->lo > sum->hi) {
            *verdict = PTOI_NO;
            return true;
        }
    }
}

/* ---- Search ----------------------------------------------------------------------------- */

static ptoi_verdict solve(const list *l, uint32_t j, uint64_t most, uint64_t lo, uint64_t hi,
                          ptoi_effort *effort);

/* Whether the terms of `l` from j on, whose largest sum is `most`, can sum up to lo .. hi. Two
 * terms are the most common case, and answered here. */
static inline ptoi_verdict ask(const list *l, uint32_t j, uint64_t most, uint64_t lo, uint64_t hi,
                               ptoi_effort *effort)
{
    if (l->m - j != 2) {
        return solve(l, j, most, lo, hi, effort);
    }
    if (effort->steps++ >= effort->budget) {
        return PTOI_OUT_OF_BUDGET;
    }
    return ptoi_pair_meets(&l->tail, lo, hi, &effort->steps) ? PTOI_YES : PTOI_NO;
}

/* Copies terms from .. end-1 of `l`, without term `but` (pass `end` to copy all). */
static void list_copy(const list *l, uint32_t from, uint32_t end, uint32_t but, list *out)
{
    uint32_t m = 0;
    for (uint32_t i = from; i < end; i++) {
        if (i != but) {
            out->t[m++] = l->t[i];
        }
    }
    out->m = m;
    if (m >= 2) {
        const term *t = &out->t[m - 2];
        out->tail = ptoi_pair_of(t[0].c, t[0].u, t[1].c, t[1].u);
    }
}

/* The values of x for which c*x and the other terms, up to `others`, can reach the window. With few
 * values, comparisons are faster than divisions. */
static inline bool bounds(const term *t, uint64_t others, uint64_t lo, uint64_t hi, uint64_t *x0,
                          uint64_t *x1)
{
    uint64_t c = t->c, least = lo > others ? lo - others : 0, most;
    if (t->u < FEW) {
        most = (uint64_t)(hi >= c) + (hi >= 2 * c);
        *x0 = (uint64_t)(least > 0) + (least > c); /* least <= c*u, since all terms together reach
                                                      lo */
    } else {
        most = hi / c;
        *x0 = ptoi_ceil_div(least, c);
    }
    *x1 = most < t->u ? most : t->u;
    return *x0 <= *x1;
}

/* Finds the best sieve for a term with `count` values, given the m other terms, whose largest sum
 * is `most`. Returns the modulus, or 0 if there is none; *near is how far from a multiple of it the
 * other terms and the window reach. A gcd is computed only if it can help: it is at most the
 * smallest c and the difference of any two. */
static uint64_t sieve(const term *t, uint32_t m, uint64_t most, uint64_t slack, uint64_t count,
                      uint64_t *near)
{
    uint64_t modulus = t[0].c, bound = modulus, reach = most - t[0].most + slack;
    double share = half(reach) / half(modulus) / 2;
    *near = reach;
    for (uint32_t p = 1; p < m && count >= MANY; p++) {
        uint64_t apart = t[p - 1].c - t[p].c;
        reach -= t[p].most;
        bound = apart < bound ? apart : bound;
        bound = t[p].c < bound ? t[p].c : bound;
        if (half(reach) >= share * half(bound) * 2) {
            continue;
        }
        for (uint32_t i = 0; i <= p; i++) {
            bound = gcd_of(t[i].c, bound);
        }
        if (half(reach) < share * half(bound) * 2) {
            share = half(reach) / half(bound) / 2;
            modulus = bound;
            *near = reach;
        }
    }
    return *near < modulus / 2 ? modulus : 0;
}

/* Tries x0 .. x1, which are many, for a term of c. The other terms are those of `l` from j on;
 * their largest sum is `most`. No c*x reaches the window alone. */
static ptoi_verdict try_values(uint64_t c, uint64_t x0, uint64_t x1, const list *l, uint32_t j,
                               uint64_t most, uint64_t lo, uint64_t hi, ptoi_effort *effort)
{
    uint64_t near = 0;
    uint64_t modulus = sieve(&l->t[j], l->m - j, most, hi - lo, x1 - x0, &near);
    uint64_t residue = modulus ? c % modulus : 0;
    for (uint64_t x = x0; x <= x1; x++) {
        if (modulus) {
            uint64_t r = (hi - c * x) % modulus, ahead = 0;
            if (r > near &&
                !ptoi_residue_hit(residue, modulus, r - near, r, x1 - x, &ahead, &effort->steps)) {
                return PTOI_NO;
            }
            x += ahead;
        }
        ptoi_verdict verdict = ask(l, j, most, lo - c * x, hi - c * x, effort);
        if (verdict != PTOI_NO) {
            return verdict;
        }
    }
    return PTOI_NO;
}

/* Applies the rule `split` after some of the terms from j on, if possible. */
static bool split(const list *l, uint32_t j, uint64_t most, uint64_t lo, uint64_t hi,
                  ptoi_effort *effort, ptoi_verdict *verdict)
{
    const term *t = l->t;
    uint64_t g = t[j].c, slack = hi - lo, front = t[j].most;
    for (uint32_t p = j + 1; p + 1 < l->m && g > slack; p++) {
        uint64_t apart = t[p - 1].c - t[p].c;
        front += t[p].most;
        uint64_t rest = most - front;
        g = apart < g ? apart : g; /* the gcd divides the difference */
        g = t[p].c < g ? t[p].c : g;
        if (rest + slack >= 2 * g) {
            continue;
        }
        for (uint32_t i = j; i <= p; i++) {
            g = gcd_of(t[i].c, g);
        }
        if (rest + slack >= 2 * g) {
            continue;
        }
        list first;
        list_copy(l, j, p + 1, p + 1, &first);
        uint64_t value = lo > rest ? (lo - rest - 1) / g * g + g : 0;
        *verdict = PTOI_NO;
        for (; value <= hi && value <= front && *verdict == PTOI_NO; value += g) {
            *verdict = value == 0 ? PTOI_YES : ask(&first, 0, front, value, value, effort);
            if (*verdict == PTOI_YES && value < lo) {
                *verdict = ask(l, p + 1, rest, lo - value, hi - value, effort);
            }
        }
        return true;
    }
    return false;
}

/* Estimates which term from j on has the fewest values to try: those within its bounds, without
 * those that a sieve by the largest other term excludes. */
static uint32_t fewest_values(const list *l, uint32_t j, uint64_t most, uint64_t lo, uint64_t hi)
{
    const term *t = l->t;
    double by_first = 1 / half(t[j].c), by_second = 1 / half(t[j + 1].c);
    double fewest = 0, c_fewest = 1; /* the number of values is fewest / c_fewest, compared without
                                        a division */
    uint32_t best = j;
    for (uint32_t i = j; i < l->m; i++) {
        uint64_t others = most - t[i].most;
        uint64_t span = lo > others ? hi - (lo - others) : hi;
        uint64_t largest = i == j ? t[j + 1].most : t[j].most;
        double share = half(others - largest + (hi - lo)) * (i == j ? by_second : by_first);
        double values = half(span < t[i].most ? span : t[i].most) * (share < 1 ? share : 1);
        double c = half(t[i].c);
        if (i == j || values * c_fewest < fewest * c) {
            fewest = values;
            c_fewest = c;
            best = i;
        }
    }
    return best;
}

/* Applies the rules to one term, or to three and more. Each recursion has at least one term less,
 * so it is at most PTOI_MAX_TERMS deep. */
static ptoi_verdict solve(const list *l, uint32_t j, uint64_t most, uint64_t lo, uint64_t hi,
                          ptoi_effort *effort)
{
    if (effort->steps++ >= effort->budget) {
        return PTOI_OUT_OF_BUDGET;
    }
    if (lo > most) {
        return PTOI_NO;
    }
    if (hi >= most) {
        return PTOI_YES;
    }
    if (j + 1 == l->m) {
        return hi % l->t[j].c <= hi - lo ? PTOI_YES : PTOI_NO;
    }
    uint64_t x0, x1, others = most - l->t[j].most, c = l->t[j].c;
    if (!bounds(&l->t[j], others, lo, hi, &x0, &x1)) {
        return PTOI_NO;
    }
    if (c * x1 >= lo) {
        return PTOI_YES; /* with all other terms 0. From here on c*x < lo. */
    }
    if (x1 - x0 < FEW) {
        ptoi_verdict verdict = PTOI_NO;
        for (uint64_t x = x0; x <= x1 && verdict == PTOI_NO; x++) {
            verdict = ask(l, j + 1, others, lo - c * x, hi - c * x, effort);
        }
        return verdict;
    }
    ptoi_verdict verdict;
    if (split(l, j, most, lo, hi, effort, &verdict)) {
        return verdict;
    }
    uint32_t best = fewest_values(l, j, most, lo, hi);
    if (best == j) {
        return try_values(c, x0, x1, l, j + 1, others, lo, hi, effort);
    }
    c = l->t[best].c;
    others = most - l->t[best].most;
    if (!bounds(&l->t[best], others, lo, hi, &x0, &x1)) {
        return PTOI_NO;
    }
    if (c * x1 >= lo) {
        return PTOI_YES;
    }
    list rest;
    list_copy(l, j, l->m, best, &rest);
    return try_values(c, x0, x1, &rest, 0, others, lo, hi, effort);
}

ptoi_verdict ptoi_sum_solve(ptoi_sum *sum, ptoi_effort *effort)
{
    ptoi_verdict verdict;
    const struct ptoi_term *t = sum->term;
    effort->stage = PTO_STAGE_PROGRESSION;
    if (sum->m > 2) {
        merge_terms(sum);
    }
    if (reduce(sum, &verdict)) {
        return verdict;
    }
    const struct ptoi_term *last = &t[sum->m - 2];
    ptoi_pair tail = ptoi_pair_of(last[0].c, last[0].u, last[1].c, last[1].u);
    if (sum->m == 2) {
        return ptoi_pair_meets(&tail, sum->lo, sum->hi, &effort->steps) ? PTOI_YES : PTOI_NO;
    }
    list l; /* not zeroed: it has half a kilobyte, mostly for three terms */
    uint64_t most = 0;
    l.m = sum->m;
    l.tail = tail;
    for (uint32_t j = 0; j < l.m; j++) {
        l.t[j] = (term){t[j].c, t[j].u, t[j].c * t[j].u};
        most += l.t[j].most;
    }
    effort->stage = PTO_STAGE_SEARCH;
    return solve(&l, 0, most, sum->lo, sum->hi, effort);
}
