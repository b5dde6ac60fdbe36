/* test_heap.c - the heap of a level, compared with a map of its bytes. */
#include "orchestrator/ring/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"

static ptoi_heap_run runs[256];

static uint64_t take(ptoi_heap *heap, uint64_t bytes)
{
    uint64_t at;
    assert_true(ptoi_heap_fits(heap, bytes, &at));
    ptoi_heap_take(heap, at, bytes);
    assert_true(ptoi_heap_check(heap));
    return at;
}

static void give_back(ptoi_heap *heap, uint64_t at, uint64_t bytes)
{
    ptoi_heap_give_back(heap, at, bytes);
    assert_true(ptoi_heap_check(heap));
}

static void test_a_drained_heap_takes_its_full_size(void **state)
{
    (void)state;
    ptoi_heap heap;
    uint64_t at;
    ptoi_heap_init(&heap, 1024, 256, runs, 256);
    for (uint64_t part = 64; part <= 1024; part += 64) {
        give_back(&heap, take(&heap, part), part);
        assert_int_equal(take(&heap, 1024), 0);
        assert_false(ptoi_heap_fits(&heap, 64, &at));
        assert_true(ptoi_heap_fits(&heap, 0, &at));
        give_back(&heap, 0, 1024);
        assert_int_equal(heap.used, 0);
        /* In several blocks, too. */
        give_back(&heap, take(&heap, part), part);
        take(&heap, 128);
        assert_int_equal(take(&heap, 896), 128);
        give_back(&heap, 128, 896);
    }
    assert_false(ptoi_heap_fits(&heap, 1025, &at));
    assert_int_equal(heap.peak, 1024);
}

/* Streaming blocks stay in the warm part, however many there are; live blocks may fill the heap. */
static void test_streams_stay_warm(void **state)
{
    (void)state;
    enum { SIZE = 1 << 16, WARM = 1 << 14, LIVE = 16 };
    ptoi_heap heap;
    uint64_t at[LIVE] = {0}, highest = 0;
    ptoi_heap_init(&heap, SIZE, WARM, runs, 256);
    for (uint64_t i = 0; i < 100000; i++) {
        if (i >= LIVE) {
            give_back(&heap, at[i % LIVE], 512);
        }
        at[i % LIVE] = take(&heap, 512);
        highest = at[i % LIVE] > highest ? at[i % LIVE] : highest;
    }
    assert_true(highest < WARM);
    ptoi_heap_init(&heap, SIZE, WARM, runs, 256);
    for (uint64_t i = 0; i < SIZE / 512; i++) {
        assert_int_equal(take(&heap, 512), i * 512);
    }
    assert_int_equal(heap.used, SIZE);
}

/* Random histories: no byte is allocated twice, and every gap that is large enough is found. */
static void test_against_a_map_of_bytes(void **state)
{
    (void)state;
    enum { SIZE = 4096, MOST = 128 };
    static unsigned char used[SIZE];
    struct {
        uint64_t at, bytes;
    } live[MOST];
    test_rng rng = test_rng_make(test_seed());
    uint64_t refused = 0, turned = 0;
    for (uint64_t round = 0; round < test_effort(300); round++) {
        size_t n = 0;
        ptoi_heap heap;
        ptoi_heap_init(&heap, SIZE, (uint64_t)test_between(&rng, 64, SIZE), runs, 256);
        memset(used, 0, sizeof used);
        for (int step = 0; step < 2000; step++) {
            uint64_t bytes = (uint64_t)test_between(&rng, 0, test_between(&rng, 0, 9) ? 6 : 64) *
                             64;
            uint64_t at, longest = 0, length = 0;
            bool fits = ptoi_heap_fits(&heap, bytes, &at);
            for (size_t i = 0; i < SIZE; i++) {
                length = used[i] ? 0 : length + 1;
                longest = length > longest ? length : longest;
            }
            if (!fits) {
                refused++;
                assert_true(longest < bytes);
            } else if (n < MOST) {
                turned += n && bytes && at != live[n - 1].at + live[n - 1].bytes;
                ptoi_heap_take(&heap, at, bytes);
                for (uint64_t i = 0; i < bytes; i++) {
                    assert_int_equal(used[at + i]++, 0);
                }
                if (bytes) {
                    live[n].at = at;
                    live[n++].bytes = bytes;
                }
            }
            size_t gone = test_between(&rng, 0, 2) ? 0 : (size_t)test_between(&rng, 0, (int64_t)n);
            if (gone) {
                ptoi_heap_give_back(&heap, live[gone - 1].at, live[gone - 1].bytes);
                for (size_t k = 0; k < gone; k++) {
                    memset(used + live[k].at, 0, live[k].bytes);
                }
                n -= gone;
                memmove(live, live + gone, n * sizeof *live);
            }
            assert_true(ptoi_heap_check(&heap));
        }
    }
    assert_true(refused > 0 && turned > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_drained_heap_takes_its_full_size),
        cmocka_unit_test(test_streams_stay_warm),
        cmocka_unit_test(test_against_a_map_of_bytes),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
