/* What the last stages of the cascade stand on: residues, pairs of terms, sums of terms; each
 * against another way to the same answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"
#include "tensor/overlap.h"
#include "tensor/progression.h"
#include "tensor/search.h"

typedef unsigned __int128 wide;

/* ---- Residues --------------------------------------------------------------------------- */

static void residues_by_brute_force(void **state)
{
    (void)state;
    for (uint64_t m = 1; m <= 24; m++) {
        for (uint64_t a = 0; a < m; a++) {
            for (uint64_t l = 0; l < m; l++) {
                for (uint64_t r = l; r < m; r++) {
                    uint64_t want = 0, steps = 0, first = 999;
                    while (want < m && (a * want % m < l || a * want % m > r)) {
                        want++;
                    }
                    for (uint64_t limit = 0; limit <= m; limit += 1 + (l + r) % 3) {
                        bool hit = ptoi_residue_hit(a, m, l, r, limit, &first, &steps);
                        assert_int_equal(hit, want <= limit && want < m);
                        assert_true(!hit || first == want);
                        assert_int_equal(ptoi_residue_hit(a, m, l, r, limit, NULL, &steps), hit);
                    }
                }
            }
        }
    }
}

/* sum of floor((a*i + b) / m) for 0 <= i < n, modulo 2^128: another way to the same answer. */
static wide floor_sum(wide n, wide m, wide a, wide b)
{
    wide sum = 0;
    while (n > 0) {
        wide pairs = n % 2 ? (n - 1) / 2 * n : n / 2 * (n - 1);
        sum += pairs * (a / m) + n * (b / m);
        a %= m;
        b %= m;
        wide top = a * n + b;
        n = top / m;
        b = top % m;
        wide swap = m;
        m = a;
        a = swap;
        if (m == 0) {
            break;
        }
    }
    return sum;
}

/* How many x in 0 .. limit have (a*x + b) mod m <= w. */
static wide count_hits(uint64_t a, uint64_t m, uint64_t b, uint64_t w, uint64_t limit)
{
    wide n = (wide)limit + 1;
    return n + floor_sum(n, m, a, b) - floor_sum(n, m, a, (wide)b + m - w - 1);
}

static void residues_of_large_numbers(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    uint64_t hits = 0, count = test_effort(200000);
    for (uint64_t i = 0; i < count; i++) {
        int bits = (int)test_between(&rng, 2, 62);
        uint64_t m = (test_next(&rng) >> (64 - bits)) | UINT64_C(1) << (bits - 1);
        uint64_t a = test_next(&rng) % m, w, b, limit;
        if (i % 4 == 0) {
            a = (uint64_t)((double)m * 0.6180339887498949); /* Euclid's worst */
        }
        w = test_next(&rng) % m >> test_between(&rng, 0, bits);
        b = test_next(&rng) % m;
        limit = test_next(&rng) >> test_between(&rng, 2, 62);
        /* (a*x + b) mod m <= w, as a window for a*x: from -b to w - b. */
        bool want = count_hits(a, m, b, w, limit) > 0;
        uint64_t l = (m - b) % m, steps = 0, first = 0;
        bool got;
        if (l + w < m) {
            got = ptoi_residue_hit(a, m, l, l + w, limit, &first, &steps);
        } else {
            got = true; /* the window holds 0 */
        }
        assert_int_equal(got, want);
        assert_true(steps <= 64);
        if (got && l + w < m) {
            assert_true(first <= limit && (uint64_t)(((wide)a * first + b) % m) <= w);
            assert_true(first == 0 || count_hits(a, m, b, w, first - 1) == 0);
            hits++;
        }
    }
    assert_true(hits > count / 50);
}

/* ---- Pairs and sums --------------------------------------------------------------------- */

static void pairs_by_brute_force(void **state)
{
    (void)state;
    uint64_t met = 0, asked = 0, steps = 0;
    for (uint64_t code = 0; code < 12 * 12 * 6 * 6; code++) {
        uint64_t c1 = code % 12 + 1, c2 = code / 12 % 12 + 1;
        uint64_t u1 = code / 144 % 6 * 2, u2 = code / 864 * 2;
        ptoi_pair pair = ptoi_pair_of(c1, u1, c2, u2);
        for (uint64_t lo = 1; lo <= c1 * u1 + c2 * u2 + 2; lo++) {
            for (uint64_t hi = lo; hi - lo < c2; hi += 2) {
                bool want = false;
                for (uint64_t x = 0; x <= u1 && !want; x++) {
                    for (uint64_t y = 0; y <= u2; y++) {
                        uint64_t sum = c1 * x + c2 * y;
                        want = want || (lo <= sum && sum <= hi);
                    }
                }
                assert_int_equal(ptoi_pair_meets(&pair, lo, hi, &steps), want);
                met += want;
                asked++;
            }
        }
    }
    assert_true(met > asked / 10 && met < asked);
}

static void one_progression(void **state)
{
    (void)state;
    for (uint64_t s = 1; s < 10; s++) {
        for (uint64_t outer = s; outer < 60; outer++) {
            for (uint64_t n = 2; n < 8; n++) {
                uint64_t q = outer % s == 0 && outer / s <= n ? outer / s : 0;
                assert_int_equal(ptoi_one_progression(outer, s, n), q);
            }
        }
    }
}

/* Sums of terms against all sums spelled out. */
static void sums_by_brute_force(void **state)
{
    (void)state;
    enum { MOST = 1024 };
    static bool reach[MOST];
    test_rng rng = test_rng_make(test_seed());
    uint64_t count = test_effort(60000), found = 0, stages[PTO_STAGE_COUNT] = {0};
    for (uint64_t i = 0; i < count; i++) {
        ptoi_sum sum = {.m = 0};
        uint64_t total = 0, c = (uint64_t)test_between(&rng, 2, 12);
        memset(reach, 0, sizeof reach);
        reach[0] = true;
        struct ptoi_term up[PTOI_MAX_TERMS] = {{0, 0}};
        for (; sum.m < PTOI_MAX_TERMS; sum.m++) {
            uint64_t u = (uint64_t)test_between(&rng, 1, sum.m > 4 ? 1 : 6);
            if (total + c * u >= MOST) {
                break;
            }
            for (uint64_t at = MOST; at-- > 0;) {
                for (uint64_t x = 1; x <= u && x * c <= at; x++) {
                    reach[at] = reach[at] || reach[at - x * c];
                }
            }
            total += c * u;
            up[sum.m] = (struct ptoi_term){c, u};
            uint64_t step = test_next(&rng) % 4;
            c = step == 0 ? c * 2 : c + (uint64_t)test_between(&rng, 1, 40);
        }
        for (uint32_t j = 0; j < sum.m; j++) {
            sum.term[j] = up[sum.m - 1 - j];
        }
        for (int ask = 0; ask < 8 && sum.m > 0; ask++) {
            ptoi_sum question = sum;
            ptoi_effort effort = {.budget = UINT64_MAX};
            question.lo = (uint64_t)test_between(&rng, 1, (int64_t)total + 4);
            question.hi = question.lo + (uint64_t)test_between(&rng, 0, ask);
            bool want = false;
            for (uint64_t at = question.lo; at <= question.hi && at < MOST; at++) {
                want = want || reach[at];
            }
            ptoi_sum again = question;
            assert_int_equal(ptoi_sum_solve(&question, &effort), want ? PTOI_YES : PTOI_NO);
            stages[effort.stage]++;
            found += want;
            effort = (ptoi_effort){.budget = 2};
            ptoi_verdict cheap = ptoi_sum_solve(&again, &effort);
            assert_true(cheap == PTOI_OUT_OF_BUDGET || cheap == (want ? PTOI_YES : PTOI_NO));
        }
    }
    assert_true(found > count && stages[PTO_STAGE_PROGRESSION] > count);
    assert_true(stages[PTO_STAGE_SEARCH] > count);
}

/* ---- Layouts ---------------------------------------------------------------------------- */

/* Two progressions of up to 2^60 steps: no bitmap could hold them, a floor sum counts the hits. */
static void long_progressions(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    uint64_t count = test_effort(200000), yes = 0, inside = 0, kinds[PTO_STAGE_COUNT] = {0};
    for (uint64_t i = 0; i < count; i++) {
        ptoi_layout a = {.k = 1, .nested = true}, b = a;
        int bits = (int)test_between(&rng, 4, 40);
        uint64_t low = UINT64_C(1) << (bits - 1);
        a.run = 1 + (test_next(&rng) >> (64 - bits + 1) >> test_between(&rng, 0, bits));
        b.run = 1 + (test_next(&rng) >> (64 - bits + 1) >> test_between(&rng, 0, bits));
        uint64_t run = a.run > b.run ? a.run : b.run;
        a.dim[0].s = run + 1 + (low | test_next(&rng) >> (64 - bits));
        b.dim[0].s = run + 1 + (low | test_next(&rng) >> (64 - bits));
        if (i % 8 == 0) {
            b.dim[0].s = a.dim[0].s + 1;
        }
        if (i % 8 == 1) {
            b.dim[0].s = a.dim[0].s * (uint64_t)test_between(&rng, 1, 5);
        }
        a.dim[0].n = 2 + (test_next(&rng) >> (bits + 4) >> test_between(&rng, 0, 60 - bits));
        b.dim[0].n = 2 + (test_next(&rng) >> (bits + 4) >> test_between(&rng, 0, 60 - bits));
        a.len = (a.dim[0].n - 1) * a.dim[0].s + a.run;
        b.len = (b.dim[0].n - 1) * b.dim[0].s + b.run;
        a.lo = 1;
        b.lo = 1 + test_next(&rng) % a.len;
        if (i % 2) { /* one of the runs of a, or nearly so */
            b.lo = a.lo + (b.lo - a.lo) / a.dim[0].s * a.dim[0].s;
            b.lo += a.run > 1 ? test_next(&rng) % 2 : 0;
        }
        assert_int_equal(ptoi_layout_check(&a), PTO_OK);
        assert_int_equal(ptoi_layout_check(&b), PTO_OK);

        /* The steps of b inside of the range of a; of these, how many reach into a run of a? Step j
         * starts d + j*t after a; it does if (d + j*t + run(b) - 1) mod s < run(a) + run(b) - 1. */
        uint64_t s = a.dim[0].s, t = b.dim[0].s, d = b.lo - a.lo, steps = b.dim[0].n;
        uint64_t fit = (a.len - 1 - d) / t + 1;
        fit = fit < steps ? fit : steps;
        uint64_t window = a.run + b.run - 1;
        wide hits = window >= s ? fit
                                : count_hits(t % s, s, (d + b.run - 1) % s, window - 1, fit - 1);
        pto_overlap_result r = ptoi_overlaps(&a, &b, 0);
        assert_int_equal(r.yes, hits > 0);
        assert_int_equal(ptoi_overlaps(&b, &a, 0).yes, hits > 0);
        assert_true(r.stage != PTO_STAGE_BUDGET && r.stage != PTO_STAGE_SEARCH);
        kinds[r.stage]++;
        yes += r.yes;

        pto_overlap_result c = ptoi_covers(&a, &b, 0);
        bool contains = b.lo + b.len <= a.lo + a.len && b.run <= a.run &&
                        count_hits(t % s, s, d % s, a.run - b.run, steps - 1) == steps;
        assert_int_equal(c.yes, contains);
        inside += contains;
    }
    assert_true(yes > count / 10 && yes < count && inside > 0);
    assert_true(kinds[PTO_STAGE_PROGRESSION] > count / 10 && kinds[PTO_STAGE_GRID] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residues_by_brute_force), cmocka_unit_test(residues_of_large_numbers),
        cmocka_unit_test(pairs_by_brute_force),    cmocka_unit_test(one_progression),
        cmocka_unit_test(sums_by_brute_force),     cmocka_unit_test(long_progressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
