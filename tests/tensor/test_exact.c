/* Exact answers about random views, against a bitmap of their bytes, and about views that are larger
 * than the bitmap of an enumeration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tensor/exact.h"
#include "tensor/overlap.h"
#include "views.h"

#define MEMBERS 24

static bool same_space(const pto_tensor *a, const pto_tensor *b)
{
    return a->owner == b->owner && (!a->owner || a->generation == b->generation);
}

static void ask(const view *a, const view *b)
{
    ptoi_layout la, lb;
    bool no_a, no_b, yes = false;
    assert_int_equal(ptoi_layout_of(&a->t, &la, &no_a), PTO_OK);
    assert_int_equal(ptoi_layout_of(&b->t, &lb, &no_b), PTO_OK);
    if (no_a || no_b || !same_space(&a->t, &b->t)) {
        return;
    }
    const bool meets = view_meets(a, b), contains = view_contains(a, b);
    assert_true(ptoi_enumerate_overlaps(&la, &lb, &yes));
    assert_int_equal(yes, meets);
    assert_true(ptoi_enumerate_covers(&la, &lb, &yes));
    assert_int_equal(yes, contains);
    assert_int_equal(ptoi_overlaps_exactly(&la, &lb), meets);
    assert_int_equal(ptoi_covers_exactly(&la, &lb), contains);
}

static void test_random_views(void **state)
{
    (void)state;
    static view members[MEMBERS];
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t round = 0; round < test_effort(600); round++) {
        view_family family = view_family_make(&rng, (view_kind)(round % VIEW_KINDS));
        for (int i = 0; i < MEMBERS; i++) {
            view_random(&rng, &family, &members[i]);
        }
        for (int i = 0; i < MEMBERS; i++) {
            for (int j = 0; j < MEMBERS; j++) {
                ask(&members[i], &members[j]);
            }
        }
    }
}

/* Bytes at an address that nobody touches. */
static ptoi_layout layout(uint64_t lo, int32_t ndim, const int64_t *shape, const int64_t *strides)
{
    pto_tensor t;
    ptoi_layout made;
    bool empty;
    assert_int_equal(pto_tensor_init(&t, (void *)(uintptr_t)(UINT64_C(1) << 40), UINT64_C(1) << 36,
                                     PTO_UINT8, ndim, shape, strides, (int64_t)lo),
                     PTO_OK);
    assert_int_equal(ptoi_layout_of(&t, &made, &empty), PTO_OK);
    assert_false(empty);
    return made;
}

/* Several windows of the bitmap: both answers, with the byte that decides in any of them. */
static void test_large_views(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    int meeting = 0, covering = 0;
    for (uint64_t round = 0; round < test_effort(200); round++) {
        const int64_t row = 2000000 + test_between(&rng, 0, 300), rows = test_between(&rng, 2, 12);
        const int64_t shape[] = {rows, test_between(&rng, 2, 40), test_between(&rng, 1, 5)};
        const int64_t strides[] = {row, test_between(&rng, 5, 9), 1};
        const int64_t fewer[] = {test_between(&rng, 1, rows), test_between(&rng, 1, shape[1]),
                                 test_between(&rng, 1, shape[2])};
        const ptoi_layout a = layout(1000, 3, shape, strides);
        const ptoi_layout b = layout(
            (uint64_t)(1000 + test_between(&rng, 0, rows - 1) * row + test_between(&rng, 0, 12)), 3,
            fewer, strides);
        const bool meets = ptoi_overlaps(&a, &b, UINT64_MAX).yes;
        const bool covers = ptoi_covers(&a, &b, UINT64_MAX).yes;
        bool yes = !meets;
        assert_true(ptoi_enumerate_overlaps(&a, &b, &yes));
        assert_int_equal(yes, meets);
        assert_true(ptoi_enumerate_overlaps(&b, &a, &yes));
        assert_int_equal(yes, meets);
        assert_true(ptoi_enumerate_covers(&a, &b, &yes));
        assert_int_equal(yes, covers);
        meeting += meets;
        covering += covers;
    }
    assert_true(meeting && covering);
}

/* Views for which the default budget does not suffice. */
static void test_hard_views(void **state)
{
    (void)state;
    const ptoi_layout a = layout(0, 5, (int64_t[]){5, 4, 2, 4, 3},
                                 (int64_t[]){1179, 739, 2679, 2400, 554});
    ptoi_layout b = layout(1533, 5, (int64_t[]){2, 7, 2, 7, 4},
                           (int64_t[]){2147, 2884, 544, 954, 2159});
    assert_int_equal(ptoi_overlaps(&a, &b, 0).stage, PTO_STAGE_BUDGET);
    assert_false(ptoi_overlaps_exactly(&a, &b));
    const ptoi_layout c = layout(0, 2, (int64_t[]){100, 100}, (int64_t[]){997, 1009});
    ptoi_layout d = layout(5 * 997 + 3 * 1009, 2, (int64_t[]){80, 80}, (int64_t[]){997, 1009});
    assert_int_equal(ptoi_covers(&c, &d, 0).stage, PTO_STAGE_BUDGET);
    assert_true(ptoi_covers_exactly(&c, &d));
    d.lo += 1;
    assert_false(ptoi_covers_exactly(&c, &d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_views),
        cmocka_unit_test(test_large_views),
        cmocka_unit_test(test_hard_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
