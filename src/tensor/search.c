/* search.c - reduce the sum as far as exact rules go, then branch and bound.
 *
 * The rules. With w = hi - lo + 1 values in the window:
 *   merge    ci == q*cj with q <= uj + 1: the multiples of ci fill the gaps that cj leaves, one term
 *   absorb   cm <= w: the windows that xm moves over touch each other, one longer window
 *   divide   every c is a multiple of the smallest: only its multiples in the window count, and
 *            the smallest, now 1, is absorbed next
 *   split    the first p terms are all multiples of g, and all the others together with the window
 *            reach no further than about g: there are at most three multiples of g that the first
 *            terms may sum up to. Each is two questions of their own, that must both say yes.
 *            (Rows against columns: steps through the rows of a matrix with any steps in the rows.)
 *   close    one or two terms have a closed form: progression.c
 * None of them changes the answer. Where none applies, the term with the fewest values left to try is
 * tried value by value; if there are many, the gcd of the others says which are worth a look.
 *
 * One step is one question to the rules, or one round of the closed form.
 */
#include "search.h"

#include <stddef.h>
#include <string.h>

#include "progression.h"

#define FEW 3   /* values of the first term that are tried before anything cleverer */
#define MANY 12 /* values of a term from which on the gcd of the others is worked out */

typedef unsigned __int128 wide;

/* A term with what is asked of it again and again. */
typedef struct term {
    uint64_t c, u;
    wide most;        /* c * u */
    double inverse;   /* of c, to guess by */
} term;

static uint64_t mul_saturated(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
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

static void drop_term(ptoi_sum *sum, uint32_t i)
{
    sum->m--;
    memmove(&sum->term[i], &sum->term[i + 1], (sum->m - i) * sizeof sum->term[0]);
}

/* Merges every pair that allows it; a merged term has more steps and may allow more. */
static void merge_terms(ptoi_sum *sum)
{
    for (uint32_t j = sum->m; j-- > 1;) {
        for (uint32_t i = j; i-- > 0;) {
            uint64_t c = sum->term[j].c, outer = sum->term[i].c;
            if (outer - c > mul_saturated(c, sum->term[j].u) || outer % c != 0) {
                continue;
            }
            sum->term[j].u += outer / c * sum->term[i].u;
            drop_term(sum, i);
            j = sum->m;
            break;
        }
    }
}

/* Absorbs and divides until neither applies. Answers, or leaves at least two terms and
 * hi - lo < the smallest c. */
static bool reduce(ptoi_sum *sum, ptoi_verdict *verdict)
{
    for (;;) {
        if (sum->m == 0) {
            *verdict = PTOI_NO; /* the window does not hold 0 */
            return true;
        }
        struct ptoi_term *last = &sum->term[sum->m - 1];
        if (sum->hi - sum->lo >= last->c - 1) {
            uint64_t shift = mul_saturated(last->c, last->u);
            if (sum->lo <= shift) {
                *verdict = PTOI_YES;
                return true;
            }
            sum->lo -= shift;
            sum->m--;
            continue;
        }
        for (uint32_t i = 0; i + 1 < sum->m; i++) {
            if (sum->term[i].c % last->c != 0) {
                return false;
            }
        }
        uint64_t g = last->c;
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

static ptoi_verdict solve(const term *t, uint32_t m, wide most, uint64_t lo, uint64_t hi,
                          ptoi_effort *effort);

/* The values of x that keep c*x + the others, which reach `others`, within reach of the window. */
static bool bounds(const term *t, wide others, uint64_t lo, uint64_t hi, uint64_t *x0, uint64_t *x1)
{
    *x0 = lo > others ? (lo - (uint64_t)others - 1) / t->c + 1 : 0;
    *x1 = hi >= t->most ? t->u : hi / t->c;
    return *x0 <= *x1;
}

/* Tries x0 .. x1 for one term; t are the m others. `skip`: ask their gcd which values can do. */
static ptoi_verdict try_values(const term *one, uint64_t x0, uint64_t x1, const term *t, uint32_t m,
                               wide most, uint64_t lo, uint64_t hi, bool skip, ptoi_effort *effort)
{
    uint64_t c = one->c, slack = hi - lo, g = 1;
    if (c * x1 >= lo) {
        return PTOI_YES; /* with all others 0. From here on c*x < lo. */
    }
    if (skip) {
        g = t[m - 1].c;
        for (uint32_t i = 0; i + 1 < m && g > slack + 1; i++) {
            g = gcd_of(t[i].c, g);
        }
    }
    /* The others only make multiples of g: (hi - c*x) mod g <= slack, or x is not worth a try. */
    for (uint64_t x = x0; x <= x1; x++) {
        if (g > slack + 1) {
            uint64_t r = (hi - c * x) % g, ahead = 0;
            if (r > slack && !ptoi_residue_hit(c % g, g, r - slack, r, x1 - x, &ahead,
                                               &effort->steps)) {
                return PTOI_NO;
            }
            x += ahead;
        }
        ptoi_verdict verdict = solve(t, m, most, lo - c * x, hi - c * x, effort);
        if (verdict != PTOI_NO) {
            return verdict;
        }
    }
    return PTOI_NO;
}

/* The rule of that name, if it applies after some p. The loop looks at the gcd only where it has a
 * chance: it divides the smallest stride and the difference of the last two. */
static bool split(const term *t, uint32_t m, wide most, uint64_t lo, uint64_t hi,
                  ptoi_effort *effort, ptoi_verdict *verdict)
{
    uint64_t g = t[0].c, slack = hi - lo;
    wide front = t[0].most;
    for (uint32_t p = 1; p + 1 < m && g > slack; p++) {
        uint64_t apart = t[p - 1].c - t[p].c;
        wide rest = most - front - t[p].most;
        front += t[p].most;
        g = apart < g ? apart : g; /* at most that */
        g = t[p].c < g ? t[p].c : g;
        if (rest + slack >= 2 * (wide)g) {
            continue;
        }
        for (uint32_t i = 0; i <= p; i++) {
            g = gcd_of(t[i].c, g);
        }
        if (rest + slack >= 2 * (wide)g) {
            continue;
        }
        uint64_t value = lo > rest ? (lo - (uint64_t)rest - 1) / g * g + g : 0;
        *verdict = PTOI_NO;
        for (; value < lo && value <= front; value += g) {
            ptoi_verdict first = value == 0 ? PTOI_YES
                                            : solve(t, p + 1, front, value, value, effort);
            if (first == PTOI_YES) {
                first = solve(t + p + 1, m - p - 1, rest, lo - value, hi - value, effort);
            }
            if (first != PTOI_NO) {
                *verdict = first;
                return true;
            }
        }
        if (value >= lo && value <= hi && value <= front) { /* all the others 0 */
            *verdict = solve(t, p + 1, front, value, value, effort);
        }
        return true;
    }
    return false;
}

/* Whether terms t[0] > t[1] > ... , which reach `most` in all, can sum up to lo .. hi. Each call has
 * at least one term less than the one that made it: at most PTOI_MAX_TERMS deep. */
static ptoi_verdict solve(const term *t, uint32_t m, wide most, uint64_t lo, uint64_t hi,
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
    if (m == 1) {
        return hi % t->c <= hi - lo ? PTOI_YES : PTOI_NO;
    }
    if (m == 2) {
        return ptoi_two_terms(t[0].c, t[0].u, t[1].c, t[1].u, lo, hi, &effort->steps) ? PTOI_YES
                                                                                     : PTOI_NO;
    }
    uint64_t x0, x1;
    if (!bounds(&t[0], most - t[0].most, lo, hi, &x0, &x1)) {
        return PTOI_NO;
    }
    if (x1 - x0 < FEW) {
        return try_values(&t[0], x0, x1, t + 1, m - 1, most - t[0].most, lo, hi, false, effort);
    }
    ptoi_verdict verdict;
    if (split(t, m, most, lo, hi, effort, &verdict)) {
        return verdict;
    }
    uint32_t best = 0;
    double fewest = (double)(x1 - x0);
    for (uint32_t j = 1; j < m; j++) {
        wide others = most - t[j].most;
        uint64_t span = lo > others ? hi - (uint64_t)(lo - others) : hi;
        double guess = (double)span * t[j].inverse;
        guess = guess < (double)t[j].u ? guess : (double)t[j].u;
        if (guess < fewest) {
            fewest = guess;
            best = j;
        }
    }
    if (best == 0) {
        return try_values(&t[0], x0, x1, t + 1, m - 1, most - t[0].most, lo, hi, x1 - x0 >= MANY,
                          effort);
    }
    if (!bounds(&t[best], most - t[best].most, lo, hi, &x0, &x1)) {
        return PTOI_NO;
    }
    term others[PTOI_MAX_TERMS];
    memcpy(others, t, best * sizeof *t);
    memcpy(others + best, t + best + 1, (m - 1 - best) * sizeof *t);
    return try_values(&t[best], x0, x1, others, m - 1, most - t[best].most, lo, hi,
                      x1 - x0 >= MANY, effort);
}

ptoi_verdict ptoi_sum_solve(ptoi_sum *sum, ptoi_effort *effort)
{
    ptoi_verdict verdict;
    effort->stage = PTO_STAGE_PROGRESSION;
    merge_terms(sum);
    if (reduce(sum, &verdict)) {
        return verdict;
    }
    if (sum->m == 2) {
        const struct ptoi_term *p = sum->term;
        return ptoi_two_terms(p[0].c, p[0].u, p[1].c, p[1].u, sum->lo, sum->hi, &effort->steps)
                   ? PTOI_YES
                   : PTOI_NO;
    }
    effort->stage = PTO_STAGE_SEARCH;
    term t[PTOI_MAX_TERMS];
    wide most = 0;
    for (uint32_t j = 0; j < sum->m; j++) {
        t[j].c = sum->term[j].c;
        t[j].u = sum->term[j].u;
        t[j].most = (wide)t[j].c * t[j].u;
        t[j].inverse = 1.0 / (double)t[j].c;
        most += t[j].most;
    }
    return solve(t, sum->m, most, sum->lo, sum->hi, effort);
}
