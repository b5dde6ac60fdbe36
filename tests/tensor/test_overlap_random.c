/* Overlap and cover of random views against a bitmap of their bytes.
 *
 * Views come in families whose members have a reason to meet. All pairs of a family are asked, both
 * ways round, with no budget (every answer exact) and with next to none (every answer safe).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tensor/layout.h"
#include "views.h"

#define MEMBERS 32
#define PAIRS (MEMBERS * (MEMBERS + 1) / 2)

static uint64_t overlap_stages[PTO_STAGE_COUNT], cover_stages[PTO_STAGE_COUNT];
static uint64_t pairs_seen, meeting, covering;

static void report(const char *what, const view *a, const view *b, pto_overlap_result r,
                   uint64_t round)
{
    char text[2][256];
    pto_tensor_format(&a->t, text[0], sizeof text[0]);
    pto_tensor_format(&b->t, text[1], sizeof text[1]);
    fail_msg("%s: said %d by stage \"%s\" after %llu steps\n  a %s\n  b %s\n  arena at %p, "
             "PTO_TEST_SEED=%llu, family %llu",
             what, (int)r.yes, pto_overlap_stage_name(r.stage), (unsigned long long)r.steps,
             text[0], text[1], (void *)view_arena, (unsigned long long)test_seed(),
             (unsigned long long)round);
}

static bool same_space(const pto_tensor *a, const pto_tensor *b)
{
    return a->owner == b->owner && (!a->owner || a->generation == b->generation);
}

static void ask_overlap(const view *a, const view *b, uint64_t round)
{
    bool truth = same_space(&a->t, &b->t) && view_meets(a, b);
    pto_overlap_result r, back;
    assert_int_equal(pto_tensor_overlaps_ex(&a->t, &b->t, UINT64_MAX, &r), PTO_OK);
    if (r.yes != truth || r.stage == PTO_STAGE_BUDGET) {
        report("overlaps", a, b, r, round);
    }
    assert_int_equal(pto_tensor_overlaps_ex(&b->t, &a->t, UINT64_MAX, &back), PTO_OK);
    if (back.yes != truth || back.stage != r.stage || back.steps != r.steps) {
        report("overlaps, exchanged", b, a, back, round);
    }
    overlap_stages[r.stage]++;
    meeting += truth;
    if (r.steps < 2) {
        return;
    }
    assert_int_equal(pto_tensor_overlaps_ex(&a->t, &b->t, 1, &r), PTO_OK);
    assert_int_equal(pto_tensor_overlaps_ex(&b->t, &a->t, 1, &back), PTO_OK);
    if (r.stage == PTO_STAGE_BUDGET ? !r.yes : r.yes != truth) {
        report("overlaps, budget of 1", a, b, r, round);
    }
    if (back.yes != r.yes || back.stage != r.stage) {
        report("overlaps, budget of 1, exchanged", b, a, back, round);
    }
    overlap_stages[r.stage]++;
}

static void ask_cover(const view *a, const view *b, uint64_t round)
{
    bool b_empty = pto_tensor_numel(&b->t) == 0;
    bool truth = b_empty || (same_space(&a->t, &b->t) && view_contains(a, b));
    pto_overlap_result r;
    assert_int_equal(pto_tensor_covers_ex(&a->t, &b->t, UINT64_MAX, &r), PTO_OK);
    if (r.yes != truth || r.stage == PTO_STAGE_BUDGET) {
        report("covers", a, b, r, round);
    }
    cover_stages[r.stage]++;
    covering += truth;
    if (r.steps < 2) {
        return;
    }
    assert_int_equal(pto_tensor_covers_ex(&a->t, &b->t, 1, &r), PTO_OK);
    if (r.stage == PTO_STAGE_BUDGET ? r.yes : r.yes != truth) {
        report("covers, budget of 1", a, b, r, round);
    }
    cover_stages[r.stage]++;
}

static void random_pairs(void **state)
{
    (void)state;
    static view members[MEMBERS];
    uint64_t wanted = test_effort(5000000), hits = pto_overlap_budget_hits();
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t round = 0; pairs_seen < wanted; round++) {
        view_family family = view_family_make(&rng, (view_kind)(round % VIEW_KINDS));
        for (int i = 0; i < MEMBERS; i++) {
            view_random(&rng, &family, &members[i]);
        }
        for (int i = 0; i < MEMBERS; i++) {
            for (int j = i; j < MEMBERS; j++) {
                ask_overlap(&members[i], &members[j], round);
                ask_cover(&members[i], &members[j], round);
                ask_cover(&members[j], &members[i], round);
                pairs_seen++;
            }
        }
    }
    uint64_t counted = pto_overlap_budget_hits() - hits;
    uint64_t told = 2 * overlap_stages[PTO_STAGE_BUDGET] + cover_stages[PTO_STAGE_BUDGET];
    assert_int_equal(counted, told); /* an overlap is asked both ways */
}

/* A stage that no pair reached is a stage that nobody tested. */
static void every_stage_reached(void **state)
{
    (void)state;
    print_message("%llu pairs, %llu meet, %llu of both ways cover\n",
                  (unsigned long long)pairs_seen, (unsigned long long)meeting,
                  (unsigned long long)covering);
    bool all = true;
    for (int s = 0; s < PTO_STAGE_COUNT; s++) {
        print_message("  %-16s overlaps %9llu   covers %9llu\n",
                      pto_overlap_stage_name((pto_overlap_stage)s),
                      (unsigned long long)overlap_stages[s], (unsigned long long)cover_stages[s]);
        all = all && overlap_stages[s] > 0 && cover_stages[s] > 0;
    }
    assert_true(all);
    assert_true(meeting > pairs_seen / 10 && meeting < pairs_seen * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_pairs),
        cmocka_unit_test(every_stage_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
