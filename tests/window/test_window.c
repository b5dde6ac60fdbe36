/* test_window.c - a window at two addresses, and files that are not those of a window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
    ptoi_mapping other;
    ptoi_view view;
    window_make(&w);
    assert_int_equal(ptoi_window_map(w.files, &w.mapping, &other), PTO_OK);
    assert_int_equal(ptoi_window_attach(&other, &view), PTO_OK);
    assert_ptr_not_equal(view.slots, w.view.slots);
    assert_ptr_not_equal(view.states, w.view.states);
    for (uint32_t l = 0; l < 3; l++) {
        assert_int_equal(view.level[l].mask, l == 2 ? 31 : 7);
        for (uint64_t seq = 1; seq <= view.level[l].mask + 1; seq++) {
            ptoi_set64(&ptoi_slot_of(&w.view, l, seq)->seq, seq * 10 + l);
        }
        memset(w.view.base[l], (int)l + 1, 1000);
        w.view.level[l].deps[3] = l;
    }
    for (uint32_t l = 0; l < 3; l++) {
        for (uint64_t seq = 1; seq <= view.level[l].mask + 1; seq++) {
            const ptoi_slot *slot = ptoi_slot_of(&view, l, seq);
            assert_int_equal(ptoi_get64(&slot->seq), seq * 10 + l);
            assert_int_equal(ptoi_slot_index(&view, slot),
                             ptoi_slot_index(&w.view, ptoi_slot_of(&w.view, l, seq)));
        }
        assert_int_equal(view.base[l][0], l + 1);
        assert_int_equal(view.base[l][999], l + 1);
        assert_int_equal(view.level[l].deps[3], l);
    }
    ptoi_window_unmap(&other);
    window_drop(&w);
}

static void expect_refused(const ptoi_mapping *m, const char *words)
{
    ptoi_view view;
    assert_int_equal(ptoi_window_attach(m, &view), PTO_CORRUPT);
    assert_non_null(strstr(pto_error_detail(), words));
}

/* The start of a header, as both files have it. */
static void expect_file_checked(const window *w, ptoi_part part)
{
    ptoi_file *file = w->mapping.memory[part];
    const ptoi_file good = *file;
    char version[64];
    ptoi_mapping less = w->mapping;
    less.bytes[part] = file->header_bytes - 1;
    expect_refused(&less, part == PTOI_PART_SCHEDULER ? "no scheduler's file" : "no orchestrator");
    less.bytes[part] = w->mapping.bytes[part] - 1;
    expect_refused(&less, "do not fit");
    ptoi_set64(&file->magic, ptoi_get64(&file->magic) + 2);
    expect_refused(&w->mapping, "that are no");
    ptoi_set64(&file->magic, 0);
    expect_refused(&w->mapping, "still being created");
    *file = good;
    file->version++;
    snprintf(version, sizeof version,
             part == PTOI_PART_SCHEDULER ? "scheduler's of version %u with"
                                         : "file is of version %u with",
             file->version);
    expect_refused(&w->mapping, version);
    snprintf(version, sizeof version, "this is version %u with", PTOI_WINDOW_VERSION);
    expect_refused(&w->mapping, version);
    *file = good;
    file->header_bytes--;
    expect_refused(&w->mapping, "with a header of");
    *file = good;
}

/* Attaching refuses files that are not those of one window of this version. */
static void test_other_files(void **state)
{
    (void)state;
    window w, another;
    ptoi_view view;
    window_make(&w);
    window_make(&another);
    expect_file_checked(&w, PTOI_PART_ORCHESTRATOR);
    expect_file_checked(&w, PTOI_PART_SCHEDULER);

    ptoi_mapping m = w.mapping;
    m.memory[0] = w.mapping.memory[1];
    m.memory[1] = w.mapping.memory[0];
    expect_refused(&m, "no orchestrator's file");
    m = w.mapping;
    m.memory[PTOI_PART_SCHEDULER] = another.mapping.memory[PTOI_PART_SCHEDULER];
    expect_refused(&m, "the scheduler's of window");
    m = w.mapping;
    m.bytes[PTOI_PART_HEAPS]--;
    expect_refused(&m, "do not fit");

    /* Tools do not map the heaps. */
    m.memory[PTOI_PART_HEAPS] = NULL;
    m.bytes[PTOI_PART_HEAPS] = 0;
    assert_int_equal(ptoi_window_attach(&m, &view), PTO_OK);
    assert_null(view.base[0]);
    assert_int_equal(ptoi_window_attach(&w.mapping, &view), PTO_OK);
    window_drop(&another);
    window_drop(&w);
}

/* A tool may attach as soon as the window is there: it knows then which line is the orchestrating thread's. */
static void test_threads(void **state)
{
    (void)state;
    static ptoi_settings settings;
    pto_config config = PTO_CONFIG_INIT;
    window w;
    config.workers = 3;
    assert_int_equal(ptoi_config_resolve(&config, &settings), PTO_OK);
    assert_int_equal(ptoi_window_create(&settings, w.files, &w.mapping), PTO_OK);
    assert_int_equal(ptoi_window_attach(&w.mapping, &w.view), PTO_OK);
    assert_int_equal(ptoi_get32(&w.view.header->workers), 3);
    window_drop(&w);
}

/* Attaching detects every mistake in the headers and accesses nothing outside. */
static void test_damaged_headers(void **state)
{
    (void)state;
    window w;
    ptoi_view view;
    window_make(&w);
    ptoi_header *h = w.mapping.memory[PTOI_PART_ORCHESTRATOR];
    ptoi_sched_header *s = w.mapping.memory[PTOI_PART_SCHEDULER];
    const ptoi_header good = *h;
    const ptoi_sched_header good_s = *s;

    /* Each field that is fixed at creation, at its limits and with garbage. */
    test_rng rng = test_rng_make(test_seed() + 2);
    uint64_t refused[2] = {0};
    for (uint64_t i = 0; i < test_effort(200000); i++) {
        const int part = (int)below(&rng, 2);
        const size_t fixed = part ? offsetof(ptoi_sched_header, inbox_claimed)
                                  : offsetof(ptoi_header, inbox_head);
        const size_t at = offsetof(ptoi_file, bytes) +
                          below(&rng, fixed - offsetof(ptoi_file, bytes) - 8);
        const uint64_t garbage = test_next(&rng) >> below(&rng, 64);
        *h = good;
        *s = good_s;
        memcpy((char *)w.mapping.memory[part] + at, &garbage, 1 + below(&rng, 8));
        if (ptoi_window_attach(&w.mapping, &view) != PTO_OK) {
            refused[part]++;
            continue;
        }
        window_expect_inside(&view, &w.mapping); /* accepted */
    }
    assert_true(refused[0] > 0 && refused[1] > 0);
    *h = good;
    *s = good_s;
    assert_int_equal(ptoi_window_attach(&w.mapping, &view), PTO_OK);
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
        assert_false(ptoi_list_launched(waiters, lap));
        assert_int_equal(ptoi_list_first_of_any(waiters, lap), 5);
        /* Launched, with and without waiters: not complete, and of this lap only. */
        const uint32_t launched[][2] = {{0, 0},
                                        {5, 5},
                                        {PTOI_SLOTS_MAX - 1, PTOI_SLOTS_MAX - 1},
                                        {PTOI_LIST_NOBODY, PTOI_LIST_EMPTY}};
        for (int i = 0; i < 4; i++) {
            ptoi_set64(&its->waiters, ptoi_list_word(lap, PTOI_LIST_LAUNCHED | launched[i][0]));
            assert_false(ptoi_is_complete(&w.view, ref, &waiters));
            assert_true(ptoi_list_launched(waiters, lap));
            assert_false(ptoi_list_launched(waiters, lap + 1));
            assert_false(ptoi_list_bad(waiters, lap));
            assert_int_equal(ptoi_list_first_of_any(waiters, lap), launched[i][1]);
            assert_int_equal(ptoi_list_first_of_any(waiters, lap + 1), PTOI_LIST_EMPTY);
        }
        ptoi_set64(&its->waiters, ptoi_list_word(lap, PTOI_LIST_CLOSED));
        assert_true(ptoi_is_complete(&w.view, ref, &waiters));
        assert_false(ptoi_list_bad(waiters, lap));
        assert_false(ptoi_list_launched(waiters, lap));
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
        cmocka_unit_test(test_two_addresses), cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(test_references),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
