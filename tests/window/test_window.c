/* test_window.c - a window at two addresses, and memory that is not a valid window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"
#include "windows.h"

static uint64_t below(test_rng *rng, uint64_t limit)
{
    return test_next(rng) % limit;
}

static void test_two_addresses(void **state)
{
    (void)state;
    window w;
    void *other;
    ptoi_view view;
    window_make(&w);
    assert_int_equal(ptoi_os_file_map(w.file, w.bytes, &other), PTO_OK);
    assert_int_equal(ptoi_window_attach(other, w.bytes, &view), PTO_OK);
    assert_ptr_not_equal(view.slots, w.view.slots);
    for (uint32_t l = 0; l < 3; l++) {
        assert_int_equal(view.level[l].mask, l == 2 ? 31 : 7);
        for (uint64_t seq = 1; seq <= view.level[l].mask + 1; seq++) {
            ptoi_set64(&ptoi_slot_of(&w.view, l, seq)->seq, seq * 10 + l);
        }
        memset(w.view.level[l].heap, (int)l + 1, 1000);
        w.view.level[l].deps[3] = l;
    }
    for (uint32_t l = 0; l < 3; l++) {
        for (uint64_t seq = 1; seq <= view.level[l].mask + 1; seq++) {
            const ptoi_slot *slot = ptoi_slot_of(&view, l, seq);
            assert_int_equal(ptoi_get64(&slot->seq), seq * 10 + l);
            assert_int_equal(ptoi_slot_number(&view, slot),
                             ptoi_slot_number(&w.view, ptoi_slot_of(&w.view, l, seq)));
        }
        assert_int_equal(view.level[l].heap[0], l + 1);
        assert_int_equal(view.level[l].heap[999], l + 1);
        assert_int_equal(view.level[l].deps[3], l);
    }
    ptoi_os_release(other, w.bytes);
    window_drop(&w);
}

/* Attaching detects every mistake in the header and accesses nothing outside. */
static void test_invalid_windows(void **state)
{
    (void)state;
    window w;
    ptoi_view view;
    window_make(&w);
    ptoi_header *h = w.memory;
    const ptoi_header good = *h;
    assert_int_equal(ptoi_window_attach(w.memory, sizeof *h - 1, &view), PTO_CORRUPT);
    assert_int_equal(ptoi_window_attach(w.memory, w.bytes - 1, &view), PTO_CORRUPT);
    h->magic++;
    assert_int_equal(ptoi_window_attach(w.memory, w.bytes, &view), PTO_CORRUPT);
    *h = good;
    h->version++;
    assert_int_equal(ptoi_window_attach(w.memory, w.bytes, &view), PTO_CORRUPT);
    assert_non_null(strstr(pto_error_detail(), "version"));
    *h = good;
    h->header_bytes--;
    assert_int_equal(ptoi_window_attach(w.memory, w.bytes, &view), PTO_CORRUPT);

    /* Each offset field, at its limits and with garbage. */
    test_rng rng = test_rng_make(test_seed() + 2);
    uint64_t refused = 0;
    for (uint64_t i = 0; i < test_effort(200000); i++) {
        *h = good;
        size_t at = offsetof(ptoi_header, bytes) +
                    below(&rng,
                          offsetof(ptoi_header, inbox_head) - offsetof(ptoi_header, bytes) - 8);
        uint64_t garbage = test_next(&rng) >> below(&rng, 64);
        memcpy((char *)w.memory + at, &garbage, 1 + below(&rng, 8));
        if (ptoi_window_attach(w.memory, w.bytes, &view) != PTO_OK) {
            refused++;
            continue;
        }
        window_expect_inside(&view, w.bytes); /* accepted */
    }
    assert_true(refused > 0);
    *h = good;
    assert_int_equal(ptoi_window_attach(w.memory, w.bytes, &view), PTO_OK);
    window_drop(&w);
}

/* References separate level and number, up to the largest; list words are never confused. */
static void test_references(void **state)
{
    (void)state;
    window w;
    window_make(&w);
    const uint64_t seqs[] = {1, 7, UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 60) - 1};
    for (size_t i = 0; i < sizeof seqs / sizeof *seqs; i++) {
        for (uint32_t level = 0; level < 8; level++) {
            for (int poisons = 0; poisons < 2; poisons++) {
                ptoi_ref ref = ptoi_ref_make(seqs[i], level, poisons);
                assert_int_equal(ptoi_ref_seq(ref), seqs[i]);
                assert_int_equal(ptoi_ref_level(ref), level);
                assert_int_equal(ptoi_ref_poisons(ref), poisons);
                assert_int_equal(ptoi_ref_task(ref), seqs[i] << 3 | level);
            }
        }
    }
    /* State and slot identify their task among all that ever use the slot. */
    for (uint64_t seq = w.view.first + 3; seq < UINT64_C(1) << 50; seq = seq * 2 + 8) {
        ptoi_state *its = ptoi_state_of(&w.view, 1, seq);
        const uint32_t lap = ptoi_lap(&w.view, 1, seq);
        const ptoi_ref ref = ptoi_ref_make(seq, 1, false);
        uint64_t waiters;
        assert_int_equal(ptoi_lap(&w.view, 1, seq + 8), lap + 1);
        ptoi_set64(&ptoi_slot_of(&w.view, 1, seq)->seq, seq);
        /* Not written in this lap, whatever its value is. */
        const uint32_t lists[] = {5, PTOI_LIST_CLOSED, PTOI_LIST_CLOSED_BAD};
        for (int i = 0; i < 3; i++) {
            ptoi_set64(&its->waiters, ptoi_list_word(lap - 1, lists[i]));
            assert_false(ptoi_is_complete(&w.view, ref, &waiters));
            assert_int_equal(ptoi_list_first(waiters, lap), PTOI_LIST_EMPTY);
            assert_false(ptoi_list_bad(waiters, lap));
        }
        ptoi_set64(&its->waiters, ptoi_list_word(lap, 5));
        assert_false(ptoi_is_complete(&w.view, ref, &waiters));
        assert_int_equal(ptoi_list_first(waiters, lap), 5);
        ptoi_set64(&its->waiters, ptoi_list_word(lap, PTOI_LIST_CLOSED));
        assert_true(ptoi_is_complete(&w.view, ref, &waiters));
        assert_false(ptoi_list_bad(waiters, lap));
        ptoi_set64(&its->waiters, ptoi_list_word(lap, PTOI_LIST_CLOSED_BAD));
        assert_true(ptoi_is_complete(&w.view, ref, &waiters));
        assert_true(ptoi_list_bad(waiters, lap));
        /* Recycled: one lap later and 2^32 laps later, with and without waiters. */
        const uint64_t later[] = {seq + 8, seq + (UINT64_C(8) << 31), seq + (UINT64_C(8) << 32)};
        for (int i = 0; i < 3; i++) {
            ptoi_set64(&ptoi_slot_of(&w.view, 1, seq)->seq, later[i]);
            ptoi_set64(&its->waiters, ptoi_list_word(ptoi_lap(&w.view, 1, later[i]), 5));
            assert_true(ptoi_is_complete(&w.view, ref, &waiters));
            ptoi_set64(&its->waiters,
                       ptoi_list_word(ptoi_lap(&w.view, 1, later[i]) - 1, PTOI_LIST_CLOSED));
            assert_true(ptoi_is_complete(&w.view, ref, &waiters));
        }
        /* The same for the phase. */
        assert_int_equal(ptoi_phase_of(ptoi_phase_begin(lap) | 7, lap), ptoi_phase_begin(lap) | 7);
        assert_int_equal(ptoi_phase_of(ptoi_phase_begin(lap - 1) | 7, lap), 0);
    }
    window_drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_addresses),
        cmocka_unit_test(test_invalid_windows),
        cmocka_unit_test(test_references),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
