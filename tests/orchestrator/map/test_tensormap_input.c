/* test_tensormap_input.c - what a map says to bad input: status, and numbers in the detail. */
#include "answers.h"

static float memory[64][64];

static pto_tensor whole_matrix(void)
{
    return tensor_matrix(memory, 64, 64);
}

static void test_bad_config(void **state)
{
    (void)state;
    pto_tensormap *map = NULL;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.size = 0;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "0");
    config.size = 3;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "3");
    config.size = sizeof config;
    config.levels = PTO_MAP_MAX_LEVELS + 1;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "9");
    config.levels = 2;
    config.entries = (UINT32_C(1) << 27) + 1;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "134217729");
    config.entries = UINT32_MAX;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "4294967295");
    config.entries = 16;
    config.level_entries[1] = (UINT32_C(1) << 27) + 3;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "134217731");
    assert_null(map);
    FAILS(pto_tensormap_init(NULL, &config), PTO_NULL_ARGUMENT, "map");
    FAILS(pto_tensormap_init_default(NULL), PTO_NULL_ARGUMENT, "map");
    pto_tensormap_destroy(NULL);
    pto_tensormap_destroy(&map);
    assert_null(map);
}

static void test_null_arguments(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 8);
    pto_tensor t = whole_matrix();
    pto_region r = {memory, 0, 0, 8};
    bool found;
    pto_map_task task;
    size_t n;
    pto_map_hit hit;
    pto_map_param param = {&t, PTO_MAP_WRITE}, nothing = {NULL, PTO_MAP_READ};
    answers a = {0};
    pto_tensormap_stats stats;
#define IS_NULL(call) FAILS(call, PTO_NULL_ARGUMENT, "")
    IS_NULL(pto_tensormap_insert(NULL, &t, TASK(1)));
    IS_NULL(pto_tensormap_insert(map, NULL, TASK(1)));
    IS_NULL(pto_tensormap_insert_read(NULL, &t, TASK(1)));
    IS_NULL(pto_tensormap_insert_read(map, NULL, TASK(1)));
    IS_NULL(pto_tensormap_insert_region(NULL, &r, TASK(1)));
    IS_NULL(pto_tensormap_insert_region(map, NULL, TASK(1)));
    IS_NULL(pto_tensormap_insert_read_region(NULL, &r, TASK(1)));
    IS_NULL(pto_tensormap_insert_read_region(map, NULL, TASK(1)));
    IS_NULL(pto_tensormap_lookup(NULL, &t, &found, &task));
    IS_NULL(pto_tensormap_lookup(map, NULL, &found, &task));
    IS_NULL(pto_tensormap_lookup(map, &t, NULL, &task));
    IS_NULL(pto_tensormap_lookup(map, &t, &found, NULL));
    IS_NULL(pto_tensormap_lookup_region(NULL, &r, &found, &task));
    IS_NULL(pto_tensormap_lookup_region(map, NULL, &found, &task));
    IS_NULL(pto_tensormap_lookup_region(map, &r, NULL, &task));
    IS_NULL(pto_tensormap_lookup_region(map, &r, &found, NULL));
    answers_question *const asks[] = {pto_tensormap_lookup_all, pto_tensormap_read_deps,
                                      pto_tensormap_write_deps};
    answers_region_question *const region_asks[] = {pto_tensormap_lookup_all_region,
                                                    pto_tensormap_read_deps_region,
                                                    pto_tensormap_write_deps_region};
    for (int i = 0; i < 3; i++) {
        IS_NULL(asks[i](NULL, &t, answers_add, &a));
        IS_NULL(asks[i](map, NULL, answers_add, &a));
        IS_NULL(asks[i](map, &t, NULL, &a));
        IS_NULL(region_asks[i](NULL, &r, answers_add, &a));
        IS_NULL(region_asks[i](map, NULL, answers_add, &a));
        IS_NULL(region_asks[i](map, &r, NULL, &a));
    }
    IS_NULL(pto_tensormap_submit(NULL, &param, 1, TASK(1), &hit, 1, &n));
    IS_NULL(pto_tensormap_submit(map, NULL, 1, TASK(1), &hit, 1, &n));
    IS_NULL(pto_tensormap_submit(map, &nothing, 1, TASK(1), &hit, 1, &n));
    IS_NULL(pto_tensormap_submit(map, &param, 1, TASK(1), NULL, 1, &n));
    IS_NULL(pto_tensormap_submit(map, &param, 1, TASK(1), &hit, 1, NULL));
    IS_NULL(pto_tensormap_sync_validity(NULL, 0, 1));
    IS_NULL(pto_tensormap_cleanup_retired(NULL));
    IS_NULL(pto_tensormap_get_stats(NULL, &stats));
    IS_NULL(pto_tensormap_get_stats(map, NULL));
    IS_NULL(pto_tensormap_check(NULL));
#undef IS_NULL
    assert_string_equal(WRITE_DEPS(map, &t), "");
    assert_int_equal(a.count, 0);
    drop_map(&map);
}

static void test_bad_tasks(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(3, 8);
    pto_tensor t = whole_matrix();
    pto_region r = {memory, 0, 0, 8};
    pto_map_param param = {&t, PTO_MAP_WRITE};
    pto_map_hit hit;
    size_t n;
    FAILS(pto_tensormap_insert(map, &t, TASK(0)), PTO_BAD_ORDER, "0");
    FAILS(pto_tensormap_insert(map, &t, TASK_AT(1, 3)), PTO_BAD_LEVEL, "3");
    FAILS(pto_tensormap_insert_read(map, &t, TASK_AT(1, UINT32_MAX)), PTO_BAD_LEVEL, "4294967295");
    FAILS(pto_tensormap_insert_region(map, &r, TASK_AT(1, 7)), PTO_BAD_LEVEL, "7");
    FAILS(pto_tensormap_submit(map, &param, 1, TASK_AT(1, 8), &hit, 1, &n), PTO_BAD_LEVEL, "8");
    FAILS(pto_tensormap_sync_validity(map, 3, 1), PTO_BAD_LEVEL, "3");
    assert_string_equal(WRITE_DEPS(map, &t), "");
    OK(pto_tensormap_insert(map, &t, TASK_AT(57, 1)));
    /* Backwards, on the same level and on another. */
    FAILS(pto_tensormap_insert(map, &t, TASK_AT(41, 1)), PTO_BAD_ORDER, "41");
    FAILS(pto_tensormap_insert(map, &t, TASK_AT(56, 0)), PTO_BAD_ORDER, "57");
    FAILS(pto_tensormap_insert(map, &t, TASK_AT(57, 2)), PTO_BAD_ORDER, "2"); /* it is on 1 */
    FAILS(pto_tensormap_insert_read(map, &t, TASK(42)), PTO_BAD_ORDER, "42");
    FAILS(pto_tensormap_insert_region(map, &r, TASK(43)), PTO_BAD_ORDER, "43");
    FAILS(pto_tensormap_insert_read_region(map, &r, TASK(44)), PTO_BAD_ORDER, "44");
    FAILS(pto_tensormap_submit(map, &param, 1, TASK(45), &hit, 1, &n), PTO_BAD_ORDER, "45");
    assert_string_equal(WRITE_DEPS(map, &t), "W57/1");
    assert_string_equal(WRITE_DEPS_REGION(map, &r), "");
    OK(pto_tensormap_insert_read(map, &t, TASK_AT(58, 2)));
    assert_string_equal(WRITE_DEPS(map, &t), "W57/1 R58/2");
    drop_map(&map);
}

static void test_watermarks_never_go_back(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(2, 8);
    pto_tensor t = whole_matrix();
    OK(pto_tensormap_insert(map, &t, TASK_AT(5, 1)));
    OK(pto_tensormap_sync_validity(map, 0, 900));
    assert_string_equal(WRITE_DEPS(map, &t), "W5/1");
    OK(pto_tensormap_sync_validity(map, 1, 5));
    OK(pto_tensormap_sync_validity(map, 1, 5));
    assert_string_equal(WRITE_DEPS(map, &t), "W5/1");
    OK(pto_tensormap_sync_validity(map, 1, 6));
    assert_string_equal(WRITE_DEPS(map, &t), "");
    FAILS(pto_tensormap_sync_validity(map, 1, 5), PTO_BAD_ORDER, "5");
    FAILS(pto_tensormap_sync_validity(map, 0, 899), PTO_BAD_ORDER, "899");
    /* Nor does a task come back that has retired. */
    FAILS(pto_tensormap_insert(map, &t, TASK_AT(899, 0)), PTO_BAD_ORDER, "899");
    assert_string_equal(WRITE_DEPS(map, &t), "");
    OK(pto_tensormap_sync_validity(map, 1, 7));
    drop_map(&map);
}

static void test_unsound_tensors_and_regions(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 8);
    pto_tensor t = whole_matrix(), bad = t;
    pto_region wraps = {memory, 0, UINT64_MAX - 10, 12}, edge = {memory, 0, UINT64_MAX - 10, 10};
    bool found;
    pto_map_task producer;
    answers a = {0};
    bad.dtype = (pto_dtype)77;
    FAILS(pto_tensormap_insert(map, &bad, TASK(1)), PTO_BAD_DTYPE, "77");
    FAILS(pto_tensormap_read_deps(map, &bad, answers_add, &a), PTO_BAD_DTYPE, "77");
    bad = t;
    bad.ndim = 9;
    FAILS(pto_tensormap_insert_read(map, &bad, TASK(1)), PTO_BAD_NDIM, "9");
    FAILS(pto_tensormap_write_deps(map, &bad, answers_add, &a), PTO_BAD_NDIM, "9");
    bad = t;
    bad.shape[0] = -65;
    FAILS(pto_tensormap_insert(map, &bad, TASK(1)), PTO_BAD_SHAPE, "-65");
    FAILS(pto_tensormap_lookup_all(map, &bad, answers_add, &a), PTO_BAD_SHAPE, "-65");
    bad = t;
    bad.shape[0] = 65;
    FAILS(pto_tensormap_insert(map, &bad, TASK(1)), PTO_OUT_OF_BOUNDS, "16384");
    FAILS(pto_tensormap_lookup(map, &bad, &found, &producer), PTO_OUT_OF_BOUNDS, "16384");
    FAILS(pto_tensormap_insert_region(map, &wraps, TASK(1)), PTO_OVERFLOW, "18446744073709551605");
    FAILS(pto_tensormap_insert_read_region(map, &wraps, TASK(1)), PTO_OVERFLOW, "12");
    FAILS(pto_tensormap_lookup_region(map, &wraps, &found, &producer), PTO_OVERFLOW, "12");
    FAILS(pto_tensormap_lookup_all_region(map, &wraps, answers_add, &a), PTO_OVERFLOW, "12");
    FAILS(pto_tensormap_read_deps_region(map, &wraps, answers_add, &a), PTO_OVERFLOW, "12");
    FAILS(pto_tensormap_write_deps_region(map, &wraps, answers_add, &a), PTO_OVERFLOW, "12");
    assert_int_equal(a.count, 0);
    OK(pto_tensormap_insert_region(map, &edge, TASK(1)));
    assert_string_equal(WRITE_DEPS_REGION(map, &edge), "W1");
    assert_string_equal(WRITE_DEPS(map, &t), "");
    drop_map(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_config),
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_bad_tasks),
        cmocka_unit_test(test_watermarks_never_go_back),
        cmocka_unit_test(test_unsound_tensors_and_regions),
    };
    return cmocka_run_group_tests_name("tensormap bad input", tests, NULL, NULL);
}
