/* test_tensormap.c - the rules of pto/tensormap.h, one by one. */
#include "answers.h"

static float memory[64][64];

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
                        answers_add(&want, &(pto_map_hit){TASK(j + 1),
                                                          wrote ? PTO_MAP_WRITE : PTO_MAP_READ, 0});
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

static void test_as_many_memories_as_entries(void **state)
{
    (void)state;
    /* Tiles of one base, generations of one block: however they are hashed, some fall together. */
    pto_tensormap *map = new_map(1, 64);
    pto_tensor block = whole_matrix(), part;
    pto_region region = {memory, 0, 0, 100}, byte = {memory, 0, 50, 1};
    char text[32];
    block.owner = 5;
    for (uint32_t i = 0; i < 32; i++) {
        block.generation = i;
        region.tile = i;
        OK(pto_tensormap_insert(map, &block, TASK(2 * i + 1)));
        OK(pto_tensormap_insert_read_region(map, &region, TASK(2 * i + 2)));
    }
    OK(pto_tensormap_check(map));
    for (uint32_t i = 0; i < 32; i++) {
        block.generation = i;
        part = tensor_box(&block, 3, 3, 1, 1);
        byte.tile = i;
        snprintf(text, sizeof text, "W%d", (int)(2 * i + 1));
        assert_string_equal(WRITE_DEPS(map, &part), text);
        snprintf(text, sizeof text, "R%d", (int)(2 * i + 2));
        assert_string_equal(WRITE_DEPS_REGION(map, &byte), text);
    }
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
        cmocka_unit_test(test_as_many_memories_as_entries),
        cmocka_unit_test(test_nothing_is_remembered_of_nothing),
        cmocka_unit_test(test_two_maps_know_nothing_of_each_other),
    };
    return cmocka_run_group_tests_name("tensormap", tests, NULL, NULL);
}
