/* test_only_read.c - reads do not meet reads: views that are only read cost nothing to each other, however many
 * overlap, and the first write to one of them, or to another view, meets all of them. */
#include "answers.h"

enum { VIEWS = 500, STRIDE = 4 };

static unsigned char memory[VIEWS * STRIDE * 4];

/* View i of a row of bytes, or of every second byte: 500 views that nearly all overlap. */
static pto_tensor view(int64_t i, bool strided)
{
    pto_tensor t;
    const int64_t n = VIEWS * STRIDE;
    OK(pto_tensor_init(&t, memory, sizeof memory, PTO_UINT8, 1, &n, (int64_t[]){strided ? 2 : 1},
                       i * STRIDE));
    return t;
}

static pto_tensormap_stats stats_of(pto_tensormap *map)
{
    pto_tensormap_stats stats;
    OK(pto_tensormap_get_stats(map, &stats));
    return stats;
}

typedef struct met {
    uint32_t reads, writes;
} met;

static void meet(void *context, const pto_map_hit *hit)
{
    met *m = context;
    *(hit->access == PTO_MAP_READ ? &m->reads : &m->writes) += 1;
}

/* What a write of the tensor would wait for. */
static met write_deps(pto_tensormap *map, const pto_tensor *t)
{
    met m = {0, 0};
    OK(pto_tensormap_write_deps(map, t, meet, &m));
    return m;
}

static void read_all(pto_tensormap *map, uint64_t *task, bool strided)
{
    for (int64_t i = 0; i < VIEWS; i++) {
        const pto_tensor t = view(i, strided);
        const pto_map_param param = {&t, PTO_MAP_READ};
        pto_map_hit hits[4];
        size_t n_hits;
        OK(pto_tensormap_submit(map, &param, 1, TASK(++*task), hits, 4, &n_hits));
        assert_int_equal(n_hits, 0);
    }
}

static void try_reads(bool strided)
{
    pto_tensormap *map = new_map(1, 4096);
    uint64_t task = 0;
    read_all(map, &task, strided);
    read_all(map, &task, strided);
    /* Half a million pairs overlap, and none was looked at. */
    assert_int_equal(stats_of(map).candidates, 0);
    OK(pto_tensormap_check(map));
    drop_map(&map);
}

static void test_reads_do_not_meet_reads(void **state)
{
    (void)state;
    try_reads(false);
    try_reads(true);
}

/* `known`: the view that is written is one of those that were read. */
static void try_write(bool strided, bool known, bool whole_task)
{
    pto_tensormap *map = new_map(1, 4096);
    uint64_t task = 0;
    read_all(map, &task, strided);
    const pto_tensor t = known ? view(VIEWS / 2, strided) : view(VIEWS / 2, !strided);
    if (whole_task) {
        const pto_map_param param = {&t, PTO_MAP_WRITE};
        static pto_map_hit hits[VIEWS];
        size_t n_hits;
        OK(pto_tensormap_submit(map, &param, 1, TASK(++task), hits, VIEWS, &n_hits));
        assert_int_equal(n_hits, VIEWS);
    } else {
        assert_int_equal(write_deps(map, &t).reads, VIEWS);
        OK(pto_tensormap_insert(map, &t, TASK(++task)));
    }
    OK(pto_tensormap_check(map));
    /* From here on each of them meets the writer, whether it is known by then or new. */
    for (int64_t i = 0; i < VIEWS; i++) {
        const pto_tensor other = view(i, strided);
        assert_string_equal(READ_DEPS(map, &other), "W501");
    }
    const pto_tensor fresh = view(VIEWS / 3, !strided);
    assert_string_equal(READ_DEPS(map, &fresh), "W501");
    drop_map(&map);
}

static void test_a_write_meets_all_reads(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        try_write(i & 1, i & 2, i & 4);
    }
}

/* A write that nobody asked about before is recorded all the same. */
static void test_a_write_without_a_question(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 64);
    const pto_tensor a = view(0, false), b = view(1, false), c = view(2, true);
    OK(pto_tensormap_insert_read(map, &a, TASK(1)));
    OK(pto_tensormap_insert_read(map, &b, TASK(2)));
    OK(pto_tensormap_insert_read(map, &c, TASK(3)));
    OK(pto_tensormap_insert(map, &b, TASK(4)));
    OK(pto_tensormap_check(map));
    assert_string_equal(READ_DEPS(map, &a), "W4");
    assert_string_equal(READ_DEPS(map, &c), "W4");
    OK(pto_tensormap_insert(map, &a, TASK(5)));
    assert_string_equal(READ_DEPS(map, &b), "W4 W5");
    assert_string_equal(WRITE_DEPS(map, &c), "R3 W4 W5");
    OK(pto_tensormap_check(map));
    drop_map(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_do_not_meet_reads),
        cmocka_unit_test(test_a_write_meets_all_reads),
        cmocka_unit_test(test_a_write_without_a_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
