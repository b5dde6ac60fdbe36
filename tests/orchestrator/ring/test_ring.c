/* test_ring.c - room in a ring, compared with a plain list of blocks. */
#include "orchestrator/ring/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"

static uint64_t below(test_rng *rng, uint64_t limit)
{
    return test_next(rng) % limit;
}

static void take(ptoi_ring *ring, uint64_t amount, uint64_t at, uint64_t *end)
{
    ptoi_piece piece;
    assert_true(ptoi_ring_fits(ring, amount, &piece));
    assert_int_equal(piece.at, at);
    *end = ptoi_ring_take(ring, piece, amount);
    assert_true(ptoi_ring_check(ring));
}

static void test_pieces_are_not_split(void **state)
{
    (void)state;
    ptoi_ring ring;
    ptoi_piece piece;
    uint64_t a, b, c;
    ptoi_ring_init(&ring, 100);
    take(&ring, 60, 0, &a);
    take(&ring, 30, 60, &b);
    assert_false(ptoi_ring_fits(&ring, 20, &piece)); /* 10 at the end, none at the start */
    ptoi_ring_give_back(&ring, a);
    assert_false(ptoi_ring_fits(&ring, 61, &piece));
    take(&ring, 50, 0, &c); /* the 10 are skipped */
    assert_int_equal(ptoi_ring_used(&ring), 90);
    ptoi_ring_give_back(&ring, b);
    assert_int_equal(ptoi_ring_used(&ring), 60); /* what was skipped goes with the next */
    ptoi_ring_give_back(&ring, c);
    assert_int_equal(ptoi_ring_used(&ring), 0);
    assert_int_equal(ring.peak, 90);
}

static void test_a_drained_ring_takes_its_full_size(void **state)
{
    (void)state;
    ptoi_ring ring;
    uint64_t end;
    ptoi_piece piece;
    ptoi_ring_init(&ring, 100);
    for (uint64_t part = 1; part <= 100; part++) {
        take(&ring, part, 0, &end);
        ptoi_ring_give_back(&ring, end);
        assert_true(ring.here >= 100); /* immediately, in every way */
        take(&ring, 100, 0, &end);
        assert_false(ptoi_ring_fits(&ring, 1, &piece));
        assert_true(ptoi_ring_fits(&ring, 0, &piece));
        ptoi_ring_give_back(&ring, end);
    }
    assert_false(ptoi_ring_fits(&ring, 101, &piece));
}

static void test_nothing_taken_holds_nothing(void **state)
{
    (void)state;
    ptoi_ring ring;
    uint64_t a, none, b;
    ptoi_ring_init(&ring, 64);
    take(&ring, 64, 0, &a);
    none = ptoi_ring_take(&ring, (ptoi_piece){0, 0}, 0);
    assert_int_equal(none, a);
    ptoi_ring_give_back(&ring, none); /* the older one goes with it */
    assert_int_equal(ptoi_ring_used(&ring), 0);
    take(&ring, 64, 0, &b);
    ptoi_ring_give_back(&ring, a); /* once more: it only rises */
    assert_int_equal(ptoi_ring_used(&ring), 64);
}

/* Random histories: no byte is allocated twice, and the ring finds room wherever the list does. */
static void test_against_a_list(void **state)
{
    (void)state;
    enum { MOST = 64, SIZE = 97 };
    struct {
        uint64_t at, amount, end;
    } live[MOST];
    test_rng rng = test_rng_make(test_seed() + 1);
    for (uint64_t round = 0; round < test_effort(2000); round++) {
        unsigned char used[SIZE] = {0};
        size_t n = 0;
        ptoi_ring ring;
        ptoi_ring_init(&ring, SIZE);
        for (int step = 0; step < 300; step++) {
            uint64_t amount = below(&rng, 3) ? below(&rng, 20) : below(&rng, SIZE + 2);
            ptoi_piece piece;
            bool fits = ptoi_ring_fits(&ring, amount, &piece);
            if (n == 0) {
                assert_int_equal(fits, amount <= SIZE);
            }
            if (fits && n < MOST) {
                uint64_t end = ptoi_ring_take(&ring, piece, amount);
                for (uint64_t i = 0; i < amount; i++) {
                    assert_true(piece.at + i < SIZE);
                    assert_int_equal(used[piece.at + i]++, 0);
                }
                live[n].at = piece.at;
                live[n].amount = amount;
                live[n++].end = end;
            }
            size_t gone = below(&rng, 3) ? 0 : below(&rng, n + 1);
            if (gone) {
                ptoi_ring_give_back(&ring, live[gone - 1].end);
                for (size_t k = 0; k < gone; k++) {
                    memset(used + live[k].at, 0, live[k].amount);
                }
                n -= gone;
                memmove(live, live + gone, n * sizeof *live);
            }
            assert_true(ptoi_ring_check(&ring));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_not_split),
        cmocka_unit_test(test_a_drained_ring_takes_its_full_size),
        cmocka_unit_test(test_nothing_taken_holds_nothing),
        cmocka_unit_test(test_against_a_list),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
