/* test_compact.c - closing gaps in the entries: what is gone is forgotten, and nothing else is.
 *
 * Random histories over overlapping ranges; before and after some tasks are taken out, every range is
 * asked what a write of it would wait for. The answers must be the same but for those tasks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "orchestrator/map/entry.h"
#include "support.h"

enum { BYTES = 24, TASKS = 400, ENTRIES = 256 };

static unsigned char memory[BYTES];

typedef struct answers {
    uint8_t met[2][TASKS]; /* by access and task: how often it was named */
} answers;

static void meet(void *context, const pto_map_hit *hit)
{
    answers *a = context;
    a->met[hit->access][hit->task.id]++;
}

static pto_tensor range(test_rng *rng)
{
    pto_tensor t;
    int64_t at = test_between(rng, 0, BYTES - 1), size = test_between(rng, 1, BYTES - at);
    if (test_between(rng, 0, 1)) { /* often the same few */
        at = at / 8 * 8;
        size = 8;
    }
    assert_int_equal(
        pto_tensor_init(&t, memory + at, (uint64_t)size, PTO_UINT8, 1, (int64_t[]){size}, NULL, 0),
        PTO_OK);
    return t;
}

static bool is_gone(const void *context, uint64_t task, uint32_t region)
{
    (void)region;
    const bool *gone = context;
    return gone[task];
}

static void ask_all(pto_tensormap *map, answers *a)
{
    memset(a, 0, BYTES * sizeof *a);
    for (int i = 0; i < BYTES; i++) {
        pto_tensor t;
        assert_int_equal(pto_tensor_init(&t, memory + i, 1, PTO_UINT8, 1, (int64_t[]){1}, NULL, 0),
                         PTO_OK);
        assert_int_equal(pto_tensormap_write_deps(map, &t, meet, &a[i]), PTO_OK);
    }
}

static void test_what_is_gone_is_forgotten(void **state)
{
    (void)state;
    static answers before[BYTES], after[BYTES];
    test_rng rng = test_rng_make(test_seed());
    uint64_t forgotten = 0, kept = 0;
    for (uint64_t round = 0; round < test_effort(400); round++) {
        pto_tensormap *map;
        pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
        bool gone[TASKS] = {false};
        config.levels = 2;
        config.entries = ENTRIES;
        config.first_entry = (uint32_t)0 - (uint32_t)test_between(&rng, 0, 2 * ENTRIES);
        assert_int_equal(pto_tensormap_init(&map, &config), PTO_OK);
        uint64_t task = 1, oldest = 1;
        for (int step = 0; step < 4; step++) {
            for (int i = 0; i < 60; i++, task++) {
                const pto_map_task who = {task, (uint32_t)test_between(&rng, 0, 1)};
                for (int64_t n = test_between(&rng, 1, 3); n > 0; n--) {
                    const pto_tensor t = range(&rng);
                    pto_status s = test_between(&rng, 0, 2)
                                       ? pto_tensormap_insert_read(map, &t, who)
                                       : pto_tensormap_insert(map, &t, who);
                    assert_true(s == PTO_OK || s == PTO_FULL);
                }
            }
            /* Some have retired in order, some of the others are complete. */
            oldest += (uint64_t)test_between(&rng, 0, 30);
            assert_int_equal(pto_tensormap_sync_validity(map, 0, oldest), PTO_OK);
            for (uint64_t i = oldest; i < task; i++) {
                gone[i] = gone[i] || test_between(&rng, 0, 2);
            }
            ask_all(map, before);
            for (uint32_t level = 0; level < 2; level++) {
                ptoi_entry_compact(map, level, is_gone, gone);
                assert_int_equal(pto_tensormap_check(map), PTO_OK);
            }
            ask_all(map, after);
            for (int i = 0; i < BYTES; i++) {
                for (int access = 0; access < 2; access++) {
                    for (uint64_t k = 1; k < task; k++) {
                        const uint8_t want = gone[k] ? 0 : before[i].met[access][k];
                        assert_int_equal(after[i].met[access][k], want);
                        forgotten += before[i].met[access][k] && gone[k];
                        kept += want;
                    }
                }
            }
        }
        pto_tensormap_destroy(&map);
    }
    assert_true(forgotten > 0 && kept > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_gone_is_forgotten),
    };
    return cmocka_run_group_tests_name("compact", tests, NULL, NULL);
}
