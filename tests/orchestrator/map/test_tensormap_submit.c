/* test_tensormap_submit.c - submit of a whole task: all of it or nothing. */
#include "answers.h"

static float memory[64][64];

static pto_tensor whole_matrix(void)
{
    return tensor_matrix(memory, 64, 64);
}

/* Submits with room to spare; the line of the answers with doubles removed. */
static const char *submit(pto_tensormap *map, const pto_map_param *params, size_t count,
                          pto_map_task task)
{
    pto_map_hit hits[64];
    size_t n_hits = 99;
    answers a = {0};
    OK(pto_tensormap_submit(map, params, count, task, hits, 64, &n_hits));
    assert_true(n_hits <= 64);
    for (size_t i = 0; i < n_hits; i++) {
        size_t j = 0;
        while (j < i && answers_order(&hits[i], &hits[j])) {
            j++;
        }
        if (j == i) {
            answers_add(&a, &hits[i]);
        }
    }
    const char *line = answers_text(&a);
    answers_free(&a);
    OK(pto_tensormap_check(map));
    return line;
}

static void test_submit(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(2, 64);
    pto_tensor whole = whole_matrix();
    pto_tensor a = tensor_box(&whole, 0, 0, 8, 8), b = tensor_box(&whole, 8, 0, 8, 8);
    pto_tensor c = tensor_box(&whole, 8, 8, 8, 8), row = tensor_box(&whole, 8, 0, 8, 64);
    pto_map_param first[] = {{&a, PTO_MAP_READ}, {&b, PTO_MAP_READ}, {&c, PTO_MAP_WRITE}};
    assert_string_equal(submit(map, first, 3, TASK(1)), "");
    assert_string_equal(submit(map, first, 3, TASK_AT(2, 1)), "W1");
    pto_map_param second[] = {{&c, PTO_MAP_READ}, {&a, PTO_MAP_WRITE}};
    assert_string_equal(submit(map, second, 2, TASK(3)), "R1 W2/1 R2/1");
    pto_map_param third[] = {{&row, PTO_MAP_WRITE}};
    assert_string_equal(submit(map, third, 1, TASK(4)), "R1 W2/1 R2/1 R3");
    assert_string_equal(WRITE_DEPS(map, &whole), "W3 W4");
    /* The task's own accesses are no answer, whatever the order of the params. */
    pto_map_param own[] = {{&a, PTO_MAP_READ}, {&a, PTO_MAP_WRITE}, {&whole, PTO_MAP_READ}};
    assert_string_equal(submit(map, own, 3, TASK(5)), "W3 W4");
    assert_string_equal(submit(map, own, 3, TASK(5)), "W4");
    pto_map_param all[] = {{&whole, PTO_MAP_WRITE}, {&a, PTO_MAP_WRITE}, {&row, PTO_MAP_READ}};
    assert_string_equal(submit(map, all, 3, TASK(6)), "W4 W5 R5");
    assert_string_equal(READ_DEPS(map, &whole), "W6");
    assert_string_equal(submit(map, NULL, 0, TASK(7)), "");
    drop_map(&map);
}

static void test_submit_takes_nothing_twice_and_empty_params(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 2);
    pto_tensor whole = whole_matrix(), none = tensor_box(&whole, 0, 0, 0, 8);
    pto_map_param params[] = {{&none, PTO_MAP_READ},
                              {&none, PTO_MAP_WRITE},
                              {&whole, PTO_MAP_WRITE},
                              {&none, PTO_MAP_WRITE}};
    /* Two entries are enough for one real access each. */
    assert_string_equal(submit(map, params, 4, TASK(1)), "");
    assert_string_equal(submit(map, params, 4, TASK(2)), "W1");
    assert_string_equal(WRITE_DEPS(map, &whole), "W2");
    drop_map(&map);
}

static void test_submit_with_too_small_an_array(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 64);
    pto_tensor whole = whole_matrix();
    pto_map_hit hits[8], untouched;
    size_t n_hits = 0;
    for (int64_t i = 0; i < 5; i++) {
        pto_tensor row = tensor_box(&whole, i, 0, 1, 64);
        OK(pto_tensormap_insert(map, &row, TASK((uint64_t)i + 1)));
    }
    pto_tensor one = tensor_box(&whole, 2, 0, 1, 64);
    pto_map_param params[] = {{&one, PTO_MAP_READ}, {&whole, PTO_MAP_WRITE}};
    memset(hits, 0x5a, sizeof hits);
    untouched = hits[7];
    for (size_t room = 0; room < 5; room++) {
        n_hits = 0;
        FAILS(pto_tensormap_submit(map, params, 2, TASK(9), room ? hits : NULL, room, &n_hits),
              PTO_BUFFER_TOO_SMALL, room == 4 ? "4" : "");
        /* Task 3 may come once or twice. */
        assert_in_range(n_hits, 5, 6);
        assert_memory_equal(&hits[7], &untouched, sizeof untouched);
        assert_string_equal(WRITE_DEPS(map, &whole), "W1 W2 W3 W4 W5");
        OK(pto_tensormap_check(map));
    }
    size_t wanted = n_hits;
    OK(pto_tensormap_submit(map, params, 2, TASK(9), hits, wanted, &n_hits));
    assert_int_equal(n_hits, wanted);
    assert_string_equal(READ_DEPS(map, &whole), "W9");
    /* The id was not used up by the tries that failed, and none is lost by one. */
    assert_string_equal(submit(map, params, 2, TASK(9)), "");
    drop_map(&map);
}

static void test_submit_is_all_or_nothing(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(2, 4);
    pto_tensor whole = whole_matrix();
    pto_tensor a = tensor_box(&whole, 0, 0, 8, 8), b = tensor_box(&whole, 0, 8, 8, 8);
    pto_tensor c = tensor_box(&whole, 8, 0, 8, 8);
    pto_map_hit hits[8];
    size_t n_hits = 0;
    OK(pto_tensormap_insert(map, &a, TASK(1)));
    OK(pto_tensormap_insert_read(map, &a, TASK(2)));
    pto_map_param three[] = {{&a, PTO_MAP_WRITE}, {&b, PTO_MAP_WRITE}, {&c, PTO_MAP_READ}};
    FAILS(pto_tensormap_submit(map, three, 3, TASK(3), hits, 8, &n_hits), PTO_FULL, "4");
    assert_string_equal(WRITE_DEPS(map, &whole), "W1 R2");
    /* A tensor that is unsound, as the last one. */
    pto_tensor unsound = c;
    unsound.offset = 64 * 64;
    pto_map_param bad[] = {{&a, PTO_MAP_WRITE}, {&unsound, PTO_MAP_READ}};
    FAILS(pto_tensormap_submit(map, bad, 2, TASK(3), hits, 8, &n_hits), PTO_OUT_OF_BOUNDS, "4096");
    assert_string_equal(WRITE_DEPS(map, &whole), "W1 R2");
    /* Two fit, and on the other level there is room for all. */
    assert_string_equal(submit(map, three, 2, TASK(3)), "W1 R2");
    assert_string_equal(submit(map, three, 3, TASK_AT(4, 1)), "W3");
    assert_string_equal(WRITE_DEPS(map, &whole), "W4/1 R4/1");
    drop_map(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit),
        cmocka_unit_test(test_submit_takes_nothing_twice_and_empty_params),
        cmocka_unit_test(test_submit_with_too_small_an_array),
        cmocka_unit_test(test_submit_is_all_or_nothing),
    };
    return cmocka_run_group_tests_name("tensormap submit", tests, NULL, NULL);
}
