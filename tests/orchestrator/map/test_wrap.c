/* test_wrap.c - numbers that run freely and come round again. It takes 2^32 steps to get there, so
 * these tests look inside and turn the counters forward. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pto/pto.h>

#include "orchestrator/map/map.h"

static float memory[2][64];

static pto_tensor row(int i)
{
    pto_tensor t;
    const int64_t shape[] = {64};
    assert_int_equal(
        pto_tensor_init(&t, memory[i], sizeof memory[i], PTO_FLOAT32, 1, shape, NULL, 0), PTO_OK);
    return t;
}

static pto_tensormap *map_of(uint32_t entries)
{
    pto_tensormap *map = NULL;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 1;
    config.entries = entries;
    assert_int_equal(pto_tensormap_init(&map, &config), PTO_OK);
    return map;
}

static void count(void *context, const pto_map_hit *hit)
{
    (void)hit;
    ++*(int *)context;
}

static int writers_wait_for(pto_tensormap *map, const pto_tensor *t)
{
    int hits = 0;
    assert_int_equal(pto_tensormap_write_deps(map, t, count, &hits), PTO_OK);
    return hits;
}

/* One read of `t` that comes and goes. */
static void pass(pto_tensormap *map, const pto_tensor *t, uint64_t *id)
{
    assert_int_equal(pto_tensormap_insert_read(map, t, (pto_map_task){.id = *id}), PTO_OK);
    ++*id;
    assert_int_equal(pto_tensormap_sync_validity(map, 0, *id), PTO_OK);
    assert_int_equal(pto_tensormap_cleanup_retired(map), PTO_OK);
}

/* A region that was read once keeps the number of that entry. When the number is used again, by a
 * read of other memory, it must not be taken for the old one. */
static void test_an_old_reader_does_not_come_back(void **state)
{
    (void)state;
    pto_tensormap *map = map_of(8);
    pto_tensor a = row(0), b = row(1);
    uint64_t id = 1;
    const uint32_t number = map->level[0].head;
    pass(map, &a, &id);

    /* A jump to just before the next multiple of 2^20 stands for as many entries that came and
     * went. */
    const uint32_t jump = 1u << 20;
    while (map->level[0].head - number < UINT32_MAX - 2 * jump) {
        map->level[0].head = map->level[0].tail = (map->level[0].head | (jump - 1)) - 1;
        pass(map, &b, &id);
        pass(map, &b, &id);
        pass(map, &b, &id);
    }
    map->level[0].head = map->level[0].tail = number - 2;
    for (int i = 0; i < 4; i++) { /* one of these is the number again */
        assert_int_equal(pto_tensormap_insert_read(map, &b, (pto_map_task){.id = id++}), PTO_OK);
    }
    assert_int_equal(writers_wait_for(map, &a), 0);
    assert_int_equal(writers_wait_for(map, &b), 4);
    assert_int_equal(pto_tensormap_check(map), PTO_OK);
    pto_tensormap_destroy(&map);
}

/* Questions are numbered so that each task is named once; the numbers begin again after 2^32. */
static void test_questions_begin_again(void **state)
{
    (void)state;
    pto_tensormap *map = map_of(8);
    pto_tensor a = row(0);
    assert_int_equal(pto_tensormap_insert(map, &a, (pto_map_task){.id = 1}), PTO_OK);
    assert_int_equal(writers_wait_for(map, &a), 1); /* question 1 names the task */
    map->question = UINT32_MAX - 1;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(writers_wait_for(map, &a), 1);
    }
    assert_true(map->question > 0 && map->question < 4);
    pto_tensormap_destroy(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_old_reader_does_not_come_back),
        cmocka_unit_test(test_questions_begin_again),
    };
    return cmocka_run_group_tests_name("wrap", tests, NULL, NULL);
}
