/* test_tensormap.c - the rules of pto/tensormap.h, one by one, and what it says to bad input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answers.h"

static float memory[64][64];

#define OK(call) assert_int_equal((call), PTO_OK)

/* The call fails with this status, and the detail has the number in it. */
#define FAILS(call, code, number)                                                                  \
    do {                                                                                           \
        assert_string_equal(pto_status_name(call), pto_status_name(code));                         \
        if (!strstr(pto_error_detail(), (number))) {                                               \
            fail_msg("%s: no %s in \"%s\"", #call, (number), pto_error_detail());                  \
        }                                                                                          \
    } while (0)

static pto_tensormap *new_map(uint32_t levels, uint32_t entries)
{
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    pto_tensormap *map = NULL;
    config.levels = levels;
    config.entries = entries;
    OK(pto_tensormap_init(&map, &config));
    assert_non_null(map);
    return map;
}

static void drop_map(pto_tensormap **map)
{
    OK(pto_tensormap_check(*map));
    pto_tensormap_destroy(map);
    assert_null(*map);
}

static pto_tensor whole_matrix(void)
{
    return tensor_matrix(memory, 64, 64);
}

/* ---- Who waits for whom ------------------------------------------------------------------ */

static void test_the_example_of_the_header(void **state)
{
    (void)state;
    pto_tensormap *map = NULL;
    pto_tensor whole = whole_matrix();
    pto_tensor tile = tensor_box(&whole, 8, 8, 8, 8);
    OK(pto_tensormap_init_default(&map));
    OK(pto_tensormap_insert(map, &whole, (pto_map_task){.id = 1}));
    assert_string_equal(answers_newest(map, &tile), "1");
    OK(pto_tensormap_insert_read(map, &tile, (pto_map_task){.id = 2}));
    assert_string_equal(WRITE_DEPS(map, &whole), "W1 R2");
    OK(pto_tensormap_sync_validity(map, 0, 3));
    assert_string_equal(WRITE_DEPS(map, &whole), "");
    assert_string_equal(answers_newest(map, &tile), "none");
    drop_map(&map);
}

static void test_an_empty_map_names_nobody(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 8);
    pto_tensor whole = whole_matrix();
    pto_region region = {memory, 0, 0, 64};
    bool found = true;
    pto_map_task producer;
    assert_string_equal(WRITE_DEPS(map, &whole), "");
    assert_string_equal(READ_DEPS(map, &whole), "");
    assert_string_equal(LOOKUP_ALL(map, &whole), "");
    assert_string_equal(WRITE_DEPS_REGION(map, &region), "");
    OK(pto_tensormap_lookup(map, &whole, &found, &producer));
    assert_false(found);
    found = true;
    OK(pto_tensormap_lookup_region(map, &region, &found, &producer));
    assert_false(found);
    drop_map(&map);
}

static void test_reads_wait_for_writers_and_writes_for_both(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(2, 16);
    pto_tensor whole = whole_matrix();
    pto_tensor left = tensor_box(&whole, 0, 0, 64, 32), right = tensor_box(&whole, 0, 32, 64, 32);
    pto_tensor top = tensor_box(&whole, 0, 0, 32, 64);
    OK(pto_tensormap_insert(map, &left, TASK(1)));
    OK(pto_tensormap_insert_read(map, &left, TASK_AT(2, 1)));
    OK(pto_tensormap_insert_read(map, &right, TASK(3)));
    assert_string_equal(READ_DEPS(map, &left), "W1");
    assert_string_equal(READ_DEPS(map, &right), "");
    assert_string_equal(READ_DEPS(map, &top), "W1");
    assert_string_equal(WRITE_DEPS(map, &left), "W1 R2/1");
    assert_string_equal(WRITE_DEPS(map, &right), "R3");
    assert_string_equal(WRITE_DEPS(map, &top), "W1 R2/1 R3");
    assert_string_equal(LOOKUP_ALL(map, &top), "W1");
    drop_map(&map);
}

static void test_lookup_names_the_newest(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(3, 16);
    pto_tensor whole = whole_matrix();
    pto_tensor t[4] = {tensor_box(&whole, 0, 0, 8, 64), tensor_box(&whole, 0, 0, 64, 8),
                       tensor_box(&whole, 4, 4, 30, 30), tensor_box(&whole, 60, 60, 4, 4)};
    pto_map_task producer = {0};
    bool found = false;
    /* Written in this order, on other levels, and read by newer ones that do not count. */
    OK(pto_tensormap_insert(map, &t[2], TASK_AT(5, 2)));
    OK(pto_tensormap_insert(map, &t[0], TASK_AT(6, 0)));
    OK(pto_tensormap_insert(map, &t[1], TASK_AT(9, 1)));
    OK(pto_tensormap_insert(map, &t[3], TASK_AT(10, 0)));
    OK(pto_tensormap_insert_read(map, &whole, TASK_AT(11, 0)));
    OK(pto_tensormap_lookup(map, &t[2], &found, &producer));
    assert_true(found);
    assert_true(producer.id == 9 && producer.level == 1);
    assert_string_equal(answers_newest(map, &whole), "10");
    pto_tensor inner = tensor_box(&whole, 10, 10, 2, 2);
    assert_string_equal(answers_newest(map, &inner), "5");
    /* When the newest has retired the next one is the answer. */
    OK(pto_tensormap_sync_validity(map, 1, 10));
    assert_string_equal(answers_newest(map, &t[2]), "6");
    OK(pto_tensormap_sync_validity(map, 0, 12));
    assert_string_equal(answers_newest(map, &t[2]), "5");
    OK(pto_tensormap_sync_validity(map, 2, 12));
    assert_string_equal(answers_newest(map, &t[2]), "none");
    drop_map(&map);
}

static void test_each_task_comes_once_for_each_kind(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 64);
    pto_tensor whole = whole_matrix();
    for (int64_t i = 0; i < 8; i++) {
        pto_tensor even = tensor_box(&whole, 0, 8 * i, 64, 4);
        OK(pto_tensormap_insert(map, &even, TASK(7)));
    }
    for (int64_t i = 0; i < 8; i++) {
        pto_tensor odd = tensor_box(&whole, 8 * i, 4, 8, 4);
        OK(pto_tensormap_insert_read(map, &odd, TASK(7)));
        OK(pto_tensormap_insert_read(map, &odd, TASK(7)));
    }
    assert_string_equal(LOOKUP_ALL(map, &whole), "W7");
    assert_string_equal(READ_DEPS(map, &whole), "W7");
    assert_string_equal(WRITE_DEPS(map, &whole), "W7 R7");
    drop_map(&map);
}

static void test_a_read_of_what_one_wrote(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 16);
    pto_tensor whole = whole_matrix();
    OK(pto_tensormap_insert(map, &whole, TASK(3)));
    OK(pto_tensormap_insert_read(map, &whole, TASK(3)));
    /* Whoever waits for the write waits for the read: the map may name the reader or not. */
    const char *deps = WRITE_DEPS(map, &whole);
    assert_true(!strcmp(deps, "W3") || !strcmp(deps, "W3 R3"));
    assert_string_equal(READ_DEPS(map, &whole), "W3");
    OK(pto_tensormap_insert(map, &whole, TASK(4)));
    assert_string_equal(WRITE_DEPS(map, &whole), "W4");
    /* The other way round the write supersedes the read. */
    OK(pto_tensormap_insert_read(map, &whole, TASK(5)));
    OK(pto_tensormap_insert(map, &whole, TASK(5)));
    assert_string_equal(WRITE_DEPS(map, &whole), "W5");
    drop_map(&map);
}

/* ---- Exactness --------------------------------------------------------------------------- */

static void test_only_shared_bytes_count(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 16);
    pto_tensor whole = whole_matrix();
    pto_tensor even = tensor_slice(&whole, 1, 0, 32, 2), odd = tensor_slice(&whole, 1, 1, 32, 2);
    pto_tensor backwards = tensor_slice(&whole, 1, 62, 32, -2);
    pto_tensor flipped = tensor_transpose(&odd);
    OK(pto_tensormap_insert(map, &even, TASK(1)));
    assert_string_equal(WRITE_DEPS(map, &odd), "");
    assert_string_equal(WRITE_DEPS(map, &flipped), "");
    assert_string_equal(WRITE_DEPS(map, &backwards), "W1");
    OK(pto_tensormap_insert(map, &flipped, TASK(2)));
    assert_string_equal(WRITE_DEPS(map, &whole), "W1 W2");
    assert_string_equal(WRITE_DEPS(map, &odd), "W2");
    drop_map(&map);
}

static void test_bytes_meet_not_starts(void **state)
{
    (void)state;
    /* Elements of 4 bytes every 8, and of 2 bytes every 8, but 2 bytes on: no start is shared. */
    pto_tensormap *map = new_map(1, 16);
    unsigned char *bytes = (unsigned char *)memory;
    pto_tensor wide = tensor_bytes(bytes, 1024), narrow = tensor_bytes(bytes + 2, 1000);
    wide.dtype = PTO_FLOAT32;
    wide.shape[0] = 100;
    wide.strides[0] = 2;
    narrow.dtype = PTO_FLOAT16;
    narrow.shape[0] = 100;
    narrow.strides[0] = 4;
    OK(pto_tensormap_insert(map, &wide, TASK(1)));
    assert_string_equal(READ_DEPS(map, &narrow), "W1");
    narrow.offset = 1; /* two more bytes on is just past each element */
    assert_string_equal(READ_DEPS(map, &narrow), "");
    drop_map(&map);
}

/* A and B apart, C over the gap and a part of each, all from base pointers of their own. */
static void bridge(const pto_tensor part[3])
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int order = 0; order < 6; order++) {
        for (int writes = 0; writes < 8; writes++) {
            pto_tensormap *map = new_map(1, 8);
            for (uint64_t i = 0; i < 3; i++) {
                const int which = orders[order][i];
                const bool writer = (writes >> which & 1) != 0;
                /* What is there that meets the new one? Only A and B do not meet. */
                answers want = {0};
                for (uint64_t j = 0; j < i; j++) {
                    const int other = orders[order][j];
                    const bool wrote = (writes >> other & 1) != 0;
                    if ((which == 2 || other == 2) && (wrote || writer)) {
                        answers_add(&want,
                                    &(pto_map_hit){TASK(j + 1), wrote ? PTO_MAP_WRITE
                                                                      : PTO_MAP_READ});
                    }
                }
                assert_string_equal(writer ? WRITE_DEPS(map, &part[which])
                                           : READ_DEPS(map, &part[which]),
                                    answers_text(&want));
                answers_free(&want);
                OK(writer ? pto_tensormap_insert(map, &part[which], TASK(i + 1))
                          : pto_tensormap_insert_read(map, &part[which], TASK(i + 1)));
                OK(pto_tensormap_check(map));
            }
            drop_map(&map);
        }
    }
}

static void test_a_bridge_over_two_apart_in_every_order(void **state)
{
    (void)state;
    const char *bytes = (const char *)memory;
    pto_tensor dense[3] = {tensor_bytes(bytes, 64), tensor_bytes(bytes + 128, 64),
                           tensor_bytes(bytes + 32, 128)};
    bridge(dense);
    /* One byte at either end is enough. */
    pto_tensor close[3] = {tensor_bytes(bytes, 64), tensor_bytes(bytes + 128, 64),
                           tensor_bytes(bytes + 63, 66)};
    bridge(close);
    /* Column tiles with a bridge that is a tile, and one that is a dense piece of a row. */
    pto_tensor whole = whole_matrix();
    pto_tensor later = tensor_matrix(&memory[4][0], 60, 64);
    pto_tensor columns[3] = {tensor_box(&whole, 0, 0, 64, 8), tensor_box(&later, 0, 16, 60, 8),
                             tensor_box(&later, 10, 4, 3, 16)};
    bridge(columns);
    columns[2] = tensor_bytes(&memory[40][7], 10 * sizeof(float));
    bridge(columns);
    /* A transposed bridge over one row and one column. */
    pto_tensor crossed[3] = {tensor_box(&whole, 3, 0, 1, 10), tensor_box(&whole, 10, 20, 50, 1),
                             tensor_box(&whole, 3, 9, 8, 12)};
    crossed[2] = tensor_transpose(&crossed[2]);
    bridge(crossed);
}

/* ---- Superseding ------------------------------------------------------------------------- */

static void test_a_covering_write_supersedes(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(2, 64);
    pto_tensor whole = whole_matrix();
    pto_tensor tile = tensor_box(&whole, 8, 8, 8, 8), strided = tensor_slice(&whole, 0, 1, 20, 3);
    pto_tensor as_bytes = tensor_bytes(memory, sizeof memory);
    pto_tensor flipped = tensor_transpose(&tile);
    OK(pto_tensormap_insert(map, &tile, TASK_AT(1, 1)));
    OK(pto_tensormap_insert_read(map, &tile, TASK(2)));
    OK(pto_tensormap_insert_read(map, &strided, TASK_AT(3, 1)));
    OK(pto_tensormap_insert(map, &flipped, TASK(4))); /* the same bytes as the tile */
    assert_string_equal(WRITE_DEPS(map, &tile), "R3/1 W4");
    OK(pto_tensormap_insert(map, &as_bytes, TASK_AT(5, 1)));
    assert_string_equal(WRITE_DEPS(map, &whole), "W5/1");
    assert_string_equal(WRITE_DEPS(map, &tile), "W5/1");
    pto_tensormap_stats stats;
    OK(pto_tensormap_get_stats(map, &stats));
    assert_int_equal(stats.superseded, 4);
    drop_map(&map);
}

static void test_a_partial_write_supersedes_nothing(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 64);
    pto_tensor whole = whole_matrix();
    pto_tensor left = tensor_box(&whole, 0, 0, 64, 32), right = tensor_box(&whole, 0, 32, 64, 32);
    OK(pto_tensormap_insert(map, &whole, TASK(1)));
    OK(pto_tensormap_insert_read(map, &whole, TASK(2)));
    OK(pto_tensormap_insert(map, &left, TASK(3)));
    assert_string_equal(WRITE_DEPS(map, &left), "W1 R2 W3");
    /* Two writes that cover it between them leave it too, for one is what it takes. */
    OK(pto_tensormap_insert(map, &right, TASK(4)));
    assert_string_equal(WRITE_DEPS(map, &whole), "W1 R2 W3 W4");
    assert_string_equal(READ_DEPS(map, &right), "W1 W4");
    /* All but one byte is not all. */
    pto_tensor most = tensor_bytes(memory, sizeof memory - 1);
    OK(pto_tensormap_insert(map, &most, TASK(5)));
    assert_string_equal(WRITE_DEPS(map, &whole), "W1 R2 W4 W5");
    OK(pto_tensormap_insert(map, &whole, TASK(6)));
    assert_string_equal(WRITE_DEPS(map, &whole), "W6");
    drop_map(&map);
}

static void test_strided_covers(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 64);
    pto_tensor whole = whole_matrix();
    pto_tensor few = tensor_slice(&whole, 1, 4, 8, 4), every = tensor_slice(&whole, 1, 4, 29, 1);
    pto_tensor second = tensor_slice(&whole, 1, 0, 32, 2);
    OK(pto_tensormap_insert(map, &few, TASK(1)));
    OK(pto_tensormap_insert_read(map, &every, TASK(2)));
    OK(pto_tensormap_insert(map, &second, TASK(3))); /* contains `few`, not `every` */
    assert_string_equal(WRITE_DEPS(map, &whole), "R2 W3");
    drop_map(&map);
}

static void test_reads_supersede_nothing(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 64);
    pto_tensor whole = whole_matrix(), tile = tensor_box(&whole, 8, 8, 8, 8);
    OK(pto_tensormap_insert(map, &tile, TASK(1)));
    OK(pto_tensormap_insert_read(map, &tile, TASK(2)));
    OK(pto_tensormap_insert_read(map, &whole, TASK(3)));
    OK(pto_tensormap_insert_read(map, &tile, TASK(4)));
    assert_string_equal(WRITE_DEPS(map, &tile), "W1 R2 R3 R4");
    drop_map(&map);
}

static void test_what_supersedes_outlives_the_levels(void **state)
{
    (void)state;
    /* Task 1 is superseded by task 2 and stays so when task 2 has retired before it. */
    pto_tensormap *map = new_map(2, 16);
    pto_tensor whole = whole_matrix();
    OK(pto_tensormap_insert(map, &whole, TASK_AT(1, 0)));
    OK(pto_tensormap_insert(map, &whole, TASK_AT(2, 1)));
    OK(pto_tensormap_sync_validity(map, 1, 3));
    assert_string_equal(WRITE_DEPS(map, &whole), "");
    OK(pto_tensormap_insert_read(map, &whole, TASK_AT(4, 0)));
    assert_string_equal(WRITE_DEPS(map, &whole), "R4");
    drop_map(&map);
}

/* ---- Memories apart ---------------------------------------------------------------------- */

static void test_regions(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 64);
    pto_region a = {memory, 3, 100, 50}, meets = {memory, 3, 149, 1}, after = {memory, 3, 150, 8};
    pto_region tile = {memory, 4, 100, 50}, base = {memory[1], 3, 100, 50};
    pto_region all = {memory, 3, 0, UINT64_MAX - 1};
    pto_tensor bytes = tensor_bytes(memory, sizeof memory);
    bool found = false;
    pto_map_task producer = {0};
    OK(pto_tensormap_insert_region(map, &a, TASK(1)));
    OK(pto_tensormap_insert_read_region(map, &tile, TASK(2)));
    OK(pto_tensormap_insert_region(map, &base, TASK(3)));
    assert_string_equal(WRITE_DEPS_REGION(map, &a), "W1");
    assert_string_equal(WRITE_DEPS_REGION(map, &meets), "W1");
    assert_string_equal(WRITE_DEPS_REGION(map, &after), "");
    assert_string_equal(WRITE_DEPS_REGION(map, &tile), "R2");
    assert_string_equal(READ_DEPS_REGION(map, &tile), "");
    assert_string_equal(LOOKUP_ALL_REGION(map, &base), "W3");
    assert_string_equal(WRITE_DEPS_REGION(map, &all), "W1");
    /* Tensors are yet another memory, in both directions. */
    assert_string_equal(WRITE_DEPS(map, &bytes), "");
    OK(pto_tensormap_insert(map, &bytes, TASK(4)));
    assert_string_equal(WRITE_DEPS_REGION(map, &all), "W1");
    OK(pto_tensormap_lookup_region(map, &meets, &found, &producer));
    assert_true(found && producer.id == 1);
    OK(pto_tensormap_insert_region(map, &all, TASK(5)));
    assert_string_equal(WRITE_DEPS_REGION(map, &meets), "W5");
    assert_string_equal(WRITE_DEPS(map, &bytes), "W4");
    drop_map(&map);
}

static void test_managed_blocks_are_memories_of_their_own(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 64);
    pto_tensor user = whole_matrix(), block = user, other = user, reborn = user, newer = user;
    block.owner = 17;
    block.generation = 2;
    other.owner = 18;
    other.generation = 2;
    reborn.owner = 17;
    reborn.generation = 3;
    newer.owner = 17;
    newer.generation = 2;
    newer.version = 5; /* of the contents: the memory is the same */
    OK(pto_tensormap_insert(map, &block, TASK(1)));
    assert_string_equal(WRITE_DEPS(map, &user), "");
    assert_string_equal(WRITE_DEPS(map, &other), "");
    assert_string_equal(WRITE_DEPS(map, &reborn), "");
    assert_string_equal(WRITE_DEPS(map, &newer), "W1");
    OK(pto_tensormap_insert(map, &user, TASK(2)));
    OK(pto_tensormap_insert(map, &other, TASK(3)));
    OK(pto_tensormap_insert(map, &reborn, TASK(4)));
    pto_tensor tile = tensor_box(&newer, 3, 3, 3, 3);
    assert_string_equal(WRITE_DEPS(map, &tile), "W1");
    assert_string_equal(WRITE_DEPS(map, &user), "W2");
    assert_string_equal(WRITE_DEPS(map, &other), "W3");
    assert_string_equal(WRITE_DEPS(map, &reborn), "W4");
    drop_map(&map);
}

static void test_nothing_is_remembered_of_nothing(void **state)
{
    (void)state;
    pto_tensormap *map = new_map(1, 8);
    pto_tensor whole = whole_matrix(), none = tensor_box(&whole, 5, 5, 4, 0);
    pto_tensor nowhere = {.dtype = PTO_FLOAT32, .ndim = 1};
    pto_region region = {memory, 0, 0, 100}, no_region = {memory, 0, 50, 0};
    nowhere.strides[0] = 1;
    for (uint64_t id = 1; id <= 100; id++) { /* more than the map has entries */
        OK(pto_tensormap_insert(map, &none, TASK(id)));
        OK(pto_tensormap_insert_read(map, &nowhere, TASK(id)));
        OK(pto_tensormap_insert_region(map, &no_region, TASK(id)));
    }
    assert_string_equal(WRITE_DEPS(map, &whole), "");
    OK(pto_tensormap_insert(map, &whole, TASK(101)));
    OK(pto_tensormap_insert_region(map, &region, TASK(102)));
    assert_string_equal(WRITE_DEPS(map, &none), "");
    assert_string_equal(WRITE_DEPS(map, &nowhere), "");
    assert_string_equal(answers_newest(map, &none), "none");
    assert_string_equal(WRITE_DEPS_REGION(map, &no_region), "");
    /* A tensor of no dims has one element. */
    pto_tensor scalar = {.storage = &memory[3][3], .storage_bytes = 4, .dtype = PTO_FLOAT32};
    assert_string_equal(WRITE_DEPS(map, &scalar), "W101");
    drop_map(&map);
}

static void test_two_maps_know_nothing_of_each_other(void **state)
{
    (void)state;
    pto_tensormap *one = new_map(1, 8), *two = new_map(2, 16);
    pto_tensor whole = whole_matrix();
    OK(pto_tensormap_insert(one, &whole, TASK(100)));
    OK(pto_tensormap_insert_read(two, &whole, TASK_AT(1, 1)));
    assert_string_equal(WRITE_DEPS(one, &whole), "W100");
    assert_string_equal(WRITE_DEPS(two, &whole), "R1/1");
    OK(pto_tensormap_sync_validity(one, 0, 101));
    assert_string_equal(WRITE_DEPS(one, &whole), "");
    assert_string_equal(WRITE_DEPS(two, &whole), "R1/1");
    drop_map(&one);
    assert_string_equal(WRITE_DEPS(two, &whole), "R1/1");
    drop_map(&two);
}

/* ---- A whole task at once ---------------------------------------------------------------- */

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

/* ---- Bad input --------------------------------------------------------------------------- */

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
    config.entries = (UINT32_C(1) << 28) + 1;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "268435457");
    config.entries = UINT32_MAX;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "4294967295");
    config.entries = 16;
    config.level_entries[1] = (UINT32_C(1) << 28) + 3;
    FAILS(pto_tensormap_init(&map, &config), PTO_BAD_CONFIG, "268435459");
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
        cmocka_unit_test(test_the_example_of_the_header),
        cmocka_unit_test(test_an_empty_map_names_nobody),
        cmocka_unit_test(test_reads_wait_for_writers_and_writes_for_both),
        cmocka_unit_test(test_lookup_names_the_newest),
        cmocka_unit_test(test_each_task_comes_once_for_each_kind),
        cmocka_unit_test(test_a_read_of_what_one_wrote),
        cmocka_unit_test(test_only_shared_bytes_count),
        cmocka_unit_test(test_bytes_meet_not_starts),
        cmocka_unit_test(test_a_bridge_over_two_apart_in_every_order),
        cmocka_unit_test(test_a_covering_write_supersedes),
        cmocka_unit_test(test_a_partial_write_supersedes_nothing),
        cmocka_unit_test(test_strided_covers),
        cmocka_unit_test(test_reads_supersede_nothing),
        cmocka_unit_test(test_what_supersedes_outlives_the_levels),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_managed_blocks_are_memories_of_their_own),
        cmocka_unit_test(test_nothing_is_remembered_of_nothing),
        cmocka_unit_test(test_two_maps_know_nothing_of_each_other),
        cmocka_unit_test(test_submit),
        cmocka_unit_test(test_submit_takes_nothing_twice_and_empty_params),
        cmocka_unit_test(test_submit_with_too_small_an_array),
        cmocka_unit_test(test_submit_is_all_or_nothing),
        cmocka_unit_test(test_bad_config),
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_bad_tasks),
        cmocka_unit_test(test_watermarks_never_go_back),
        cmocka_unit_test(test_unsound_tensors_and_regions),
    };
    return cmocka_run_group_tests_name("tensormap", tests, NULL, NULL);
}
