/* test_tensormap_pool.c - the entries of a TensorMap: full, wrapped, reused, cut off, ten thousand.
 */
#include "answers.h"

#define MANY 10000
#define SIDE 100 /* a matrix of SIDE x SIDE tiles of TILE x TILE floats */
#define TILE 8

static float memory[SIDE * TILE][SIDE * TILE];

static pto_tensormap_config config_of(uint32_t levels, uint32_t entries)
{
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = levels;
    config.entries = entries;
    return config;
}

static pto_tensormap *map_of(const pto_tensormap_config *config)
{
    pto_tensormap *map = NULL;
    OK(pto_tensormap_init(&map, config));
    assert_non_null(map);
    return map;
}

static pto_tensormap_stats stats_of(const pto_tensormap *map)
{
    pto_tensormap_stats stats;
    OK(pto_tensormap_get_stats(map, &stats));
    assert_true(stats.entries <= stats.entries_peak);
    assert_true(stats.entries_peak <= stats.entries_capacity);
    assert_true(stats.entries + stats.recycled <= stats.inserts);
    return stats;
}

static pto_tensor whole_matrix(void)
{
    return tensor_matrix(memory, SIDE * TILE, SIDE * TILE);
}

static pto_tensor tile_of(const pto_tensor *whole, uint64_t number)
{
    const int64_t i = (int64_t)number;
    return tensor_box(whole, i / SIDE * TILE, i % SIDE * TILE, TILE, TILE);
}

/* "R3 R4 ... R9" */
static const char *readers_text(uint64_t first, uint64_t last)
{
    answers a = {0};
    for (uint64_t id = first; id <= last; id++) {
        answers_add(&a, &(pto_map_hit){TASK(id), PTO_MAP_READ, 0});
    }
    const char *line = answers_text(&a);
    answers_free(&a);
    return line;
}

/* ---- Full -------------------------------------------------------------------------------- */

static void test_capacity_is_what_was_configured(void **state)
{
    (void)state;
    static const uint32_t asked[] = {1, 2, 3, 8, 9, 100};
    static const uint64_t given[] = {1, 2, 4, 8, 16, 128};
    pto_tensor whole = whole_matrix();
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        pto_tensormap_config config = config_of(1, asked[i]);
        pto_tensormap *map = map_of(&config);
        assert_int_equal(stats_of(map).entries_capacity, given[i]);
        for (uint64_t id = 1; id <= given[i]; id++) {
            pto_tensor tile = tile_of(&whole, id);
            OK(pto_tensormap_insert(map, &tile, TASK(id)));
            OK(pto_tensormap_check(map));
        }
        pto_tensor tile = tile_of(&whole, given[i] + 1);
        assert_int_equal(pto_tensormap_insert(map, &tile, TASK(given[i] + 1)), PTO_FULL);
        drop_map(&map);
    }
    /* Each level by itself, and the defaults. */
    pto_tensormap_config config = config_of(3, 32);
    config.level_entries[1] = 5;
    pto_tensormap *map = map_of(&config);
    assert_int_equal(stats_of(map).entries_capacity, 32 + 8 + 32);
    drop_map(&map);
    config = config_of(0, 0);
    map = map_of(&config);
    assert_int_equal(stats_of(map).entries_capacity, 4 * (1 << 18));
    drop_map(&map);
}

static void test_full_changes_nothing(void **state)
{
    (void)state;
    pto_tensormap_config config = config_of(2, 8);
    pto_tensormap *map = map_of(&config);
    pto_tensor whole = whole_matrix();
    pto_region region = {memory, 1, 0, 64};
    char before[4096];
    for (uint64_t id = 1; id <= 8; id++) {
        pto_tensor tile = tile_of(&whole, id / 2);
        OK(id % 2 ? pto_tensormap_insert(map, &tile, TASK(id))
                  : pto_tensormap_insert_read(map, &tile, TASK(id)));
    }
    strcpy(before, WRITE_DEPS(map, &whole));
    pto_tensormap_stats was = stats_of(map);
    pto_tensor fresh = tile_of(&whole, 50), known = tile_of(&whole, 1);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(pto_tensormap_insert(map, &whole, TASK(9)), PTO_FULL);
        assert_non_null(strstr(pto_error_detail(), "8"));
        assert_int_equal(pto_tensormap_insert(map, &fresh, TASK(9)), PTO_FULL);
        assert_int_equal(pto_tensormap_insert_read(map, &known, TASK(9)), PTO_FULL);
        assert_int_equal(pto_tensormap_insert_region(map, &region, TASK(9)), PTO_FULL);
        assert_int_equal(pto_tensormap_insert_read_region(map, &region, TASK(9)), PTO_FULL);
        assert_string_equal(WRITE_DEPS(map, &whole), before);
        assert_string_equal(WRITE_DEPS_REGION(map, &region), "");
        assert_string_equal(WRITE_DEPS(map, &fresh), "");
        OK(pto_tensormap_check(map));
    }
    pto_tensormap_stats is = stats_of(map);
    assert_int_equal(is.entries, was.entries);
    assert_int_equal(is.regions, was.regions);
    assert_int_equal(is.inserts, was.inserts);
    assert_int_equal(is.superseded, was.superseded);
    assert_int_equal(is.full, was.full + 100);
    /* The other level has its own entries. */
    OK(pto_tensormap_insert_read(map, &fresh, TASK_AT(9, 1)));
    assert_string_equal(WRITE_DEPS(map, &fresh), "R9/1");
    /* One task retires: one entry, no clean-up asked for, and full again. */
    for (uint64_t id = 10; id <= 40; id++) {
        assert_int_equal(pto_tensormap_insert_read(map, &fresh, TASK(id)), PTO_FULL);
        OK(pto_tensormap_sync_validity(map, 0, id <= 17 ? id - 8 : id - 7)); /* 9 is elsewhere */
        OK(pto_tensormap_insert_read(map, &fresh, TASK(id)));
        OK(pto_tensormap_check(map));
    }
    OK(pto_tensormap_sync_validity(map, 1, 10));
    assert_string_equal(WRITE_DEPS(map, &whole), readers_text(33, 40));
    drop_map(&map);
}

static void test_superseded_entries_are_not_full_too_soon(void **state)
{
    (void)state;
    /* All the entries can be used by writes of one region, and none of them is lost. */
    pto_tensormap_config config = config_of(1, 16);
    pto_tensormap *map = map_of(&config);
    pto_tensor whole = whole_matrix(), tile = tile_of(&whole, 7);
    for (uint64_t id = 1; id <= 16; id++) {
        OK(pto_tensormap_insert(map, &tile, TASK(id)));
        OK(pto_tensormap_check(map));
    }
    char text[32];
    for (uint64_t id = 17; id <= 200; id++) {
        OK(pto_tensormap_sync_validity(map, 0, id - 15));
        OK(pto_tensormap_insert(map, &tile, TASK(id)));
        snprintf(text, sizeof text, "W%d", (int)id);
        assert_string_equal(WRITE_DEPS(map, &whole), text);
        OK(pto_tensormap_check(map));
    }
    assert_int_equal(stats_of(map).superseded, 199);
    drop_map(&map);
}

/* ---- Wrapping and reuse ------------------------------------------------------------------ */

static void test_counters_wrap(void **state)
{
    (void)state;
    pto_tensor whole = whole_matrix(), two_rows = tensor_box(&whole, 0, 0, 1, 2 * TILE);
    for (uint32_t before = 0; before < 24; before++) {
        pto_tensormap_config config = config_of(2, 8);
        config.first_entry = UINT32_MAX - before;
        config.cleanup_every = 1 + before % 5;
        pto_tensormap *map = map_of(&config);
        for (uint64_t id = 1; id <= 64; id++) {
            /* Task id reads tile 0 when odd and tile 1 when even; four are alive at a time. */
            pto_tensor tile = tile_of(&whole, id % 2 ? 0 : 1);
            OK(pto_tensormap_sync_validity(map, 0, id > 4 ? id - 3 : 1));
            OK(pto_tensormap_insert_read(map, &tile, TASK(id)));
            assert_string_equal(WRITE_DEPS(map, &two_rows), readers_text(id > 4 ? id - 3 : 1, id));
            OK(pto_tensormap_check(map));
        }
        /* Full is full, across the wrap too: four are there, four fit. */
        for (uint64_t id = 65; id <= 68; id++) {
            OK(pto_tensormap_insert_read(map, &two_rows, TASK(id)));
        }
        assert_int_equal(pto_tensormap_insert_read(map, &two_rows, TASK(69)), PTO_FULL);
        assert_string_equal(WRITE_DEPS(map, &two_rows), readers_text(61, 68));
        drop_map(&map);
    }
}

static void test_an_entry_reused_while_still_chained(void **state)
{
    (void)state;
    /* Tasks 1 to 4 take all entries for one region. As they retire, no clean-up and no question
     * comes before their entries serve another region: the first chain still leads to them. */
    for (uint64_t retired = 1; retired <= 4; retired++) {
        for (int ask_first = 0; ask_first < 2; ask_first++) {
            pto_tensormap_config config = config_of(1, 4);
            config.cleanup_every = 1000;
            pto_tensormap *map = map_of(&config);
            pto_tensor whole = whole_matrix();
            pto_tensor one = tile_of(&whole, 3), two = tile_of(&whole, 77);
            for (uint64_t id = 1; id <= 4; id++) {
                OK(pto_tensormap_insert_read(map, &one, TASK(id)));
            }
            OK(pto_tensormap_sync_validity(map, 0, retired + 1));
            if (ask_first) {
                assert_string_equal(WRITE_DEPS(map, &one), readers_text(retired + 1, 4));
            }
            for (uint64_t id = 5; id <= 4 + retired; id++) {
                OK(pto_tensormap_insert_read(map, &two, TASK(id)));
                OK(pto_tensormap_check(map));
            }
            assert_int_equal(pto_tensormap_insert_read(map, &two, TASK(10)), PTO_FULL);
            assert_string_equal(WRITE_DEPS(map, &one), readers_text(retired + 1, 4));
            assert_string_equal(WRITE_DEPS(map, &two), readers_text(5, 4 + retired));
            assert_string_equal(WRITE_DEPS(map, &whole), readers_text(retired + 1, 4 + retired));
            /* And back: the entries return to the first region. */
            OK(pto_tensormap_sync_validity(map, 0, 10));
            for (uint64_t id = 11; id <= 14; id++) {
                OK(pto_tensormap_insert_read(map, &one, TASK(id)));
            }
            assert_string_equal(WRITE_DEPS(map, &whole), readers_text(11, 14));
            assert_string_equal(WRITE_DEPS(map, &two), "");
            drop_map(&map);
        }
    }
}

static void test_a_task_with_many_entries_comes_round(void **state)
{
    (void)state;
    pto_tensormap_config config = config_of(1, 32);
    pto_tensormap *map = map_of(&config);
    pto_tensor whole = whole_matrix();
    pto_map_param params[9];
    pto_tensor tiles[9];
    pto_map_hit hits[64];
    size_t n_hits = 0;
    for (uint64_t id = 1; id <= 500; id++) {
        /* 1 to 9 accesses; at most three tasks alive, 27 entries. */
        const size_t count = 1 + id * 7 % 9;
        for (size_t i = 0; i < count; i++) {
            tiles[i] = tile_of(&whole, id % 3 * 10 + i);
            params[i] = (pto_map_param){&tiles[i], i % 2 ? PTO_MAP_READ : PTO_MAP_WRITE};
        }
        OK(pto_tensormap_sync_validity(map, 0, id > 3 ? id - 2 : 1));
        OK(pto_tensormap_submit(map, params, count, TASK(id), hits, 64, &n_hits));
        assert_int_equal(n_hits, 0); /* the three alive use other tiles */
        OK(pto_tensormap_check(map));
    }
    assert_string_equal(READ_DEPS(map, &whole), "W498 W499 W500");
    drop_map(&map);
}

/* ---- Truncation and clean-up ------------------------------------------------------------- */

static void test_truncation_drops_exactly_the_stale(void **state)
{
    (void)state;
    /* Six accesses of two levels, in each mixture; then each pair of watermarks. The first is a
     * write now and then, so that the chain of readers has something behind it. */
    pto_tensor whole = whole_matrix(), tile = tile_of(&whole, 42);
    uint64_t all_cuts = 0;
    for (unsigned levels = 0; levels < 64; levels++) {
        for (uint64_t first = 1; first <= 7; first++) {
            for (uint64_t second = 1; second <= 7; second++) {
                const bool writer = (levels + first + second) % 3 == 0;
                const uint64_t oldest[2] = {first, second};
                pto_tensormap_config config = config_of(2, 8);
                config.cleanup_every = 1 + levels % 8;
                pto_tensormap *map = map_of(&config);
                answers want = {0};
                for (uint64_t id = 1; id <= 6; id++) {
                    const uint32_t level = levels >> (id - 1) & 1;
                    const bool writes = writer && id == 1;
                    OK(writes ? pto_tensormap_insert(map, &tile, TASK_AT(id, level))
                              : pto_tensormap_insert_read(map, &tile, TASK_AT(id, level)));
                    if (id >= oldest[level]) {
                        answers_add(&want,
                                    &(pto_map_hit){TASK_AT(id, level),
                                                   writes ? PTO_MAP_WRITE : PTO_MAP_READ, 0});
                    }
                }
                OK(pto_tensormap_sync_validity(map, 1, second));
                OK(pto_tensormap_sync_validity(map, 0, first));
                const char *expected = answers_text(&want);
                assert_string_equal(WRITE_DEPS(map, &tile), expected);
                OK(pto_tensormap_check(map));
                /* Asked again, there is nothing left to cut off; and after a clean-up. */
                const uint64_t cuts = stats_of(map).truncated;
                assert_true(cuts <= 2);
                assert_string_equal(WRITE_DEPS(map, &whole), answers_text(&want));
                assert_int_equal(stats_of(map).truncated, cuts);
                all_cuts += cuts;
                OK(pto_tensormap_cleanup_retired(map));
                OK(pto_tensormap_check(map));
                assert_int_equal(stats_of(map).entries, want.count);
                /* A new reader goes in front of what is left. */
                OK(pto_tensormap_insert_read(map, &tile, TASK_AT(9, levels & 1)));
                answers_add(&want, &(pto_map_hit){TASK_AT(9, levels & 1), PTO_MAP_READ, 0});
                assert_string_equal(WRITE_DEPS(map, &tile), answers_text(&want));
                answers_free(&want);
                drop_map(&map);
            }
        }
    }
    assert_true(all_cuts > 100);
}

static void test_cleanup_recycles_all_that_retired(void **state)
{
    (void)state;
    pto_tensormap_config config = config_of(2, 64);
    config.cleanup_every = 1000;
    pto_tensormap *map = map_of(&config);
    pto_tensor whole = whole_matrix();
    for (uint64_t id = 1; id <= 40; id++) {
        pto_tensor tile = tile_of(&whole, id);
        OK(pto_tensormap_insert(map, &tile, TASK_AT(id, id % 2)));
    }
    assert_int_equal(stats_of(map).entries, 40);
    OK(pto_tensormap_cleanup_retired(map));
    assert_int_equal(stats_of(map).entries, 40);
    OK(pto_tensormap_sync_validity(map, 0, 21)); /* the even ones up to 20 */
    OK(pto_tensormap_cleanup_retired(map));
    assert_int_equal(stats_of(map).entries, 30);
    assert_int_equal(stats_of(map).recycled, 10);
    OK(pto_tensormap_check(map));
    OK(pto_tensormap_sync_validity(map, 1, 1000));
    OK(pto_tensormap_sync_validity(map, 0, 1000));
    assert_string_equal(WRITE_DEPS(map, &whole), "");
    OK(pto_tensormap_cleanup_retired(map));
    OK(pto_tensormap_cleanup_retired(map));
    assert_int_equal(stats_of(map).entries, 0);
    assert_int_equal(stats_of(map).recycled, 40);
    assert_int_equal(stats_of(map).entries_peak, 40);
    OK(pto_tensormap_insert(map, &whole, TASK(1000)));
    assert_string_equal(WRITE_DEPS(map, &whole), "W1000");
    drop_map(&map);
}

static void test_cleanup_follows_by_itself(void **state)
{
    (void)state;
    pto_tensormap_config config = config_of(1, 1024);
    config.cleanup_every = 8;
    pto_tensormap *map = map_of(&config);
    pto_tensor whole = whole_matrix();
    for (uint64_t id = 1; id <= 500; id++) {
        pto_tensor tile = tile_of(&whole, id);
        OK(pto_tensormap_sync_validity(map, 0, id > 4 ? id - 4 : 1));
        OK(pto_tensormap_insert(map, &tile, TASK(id)));
        /* Five alive, and fewer than two rounds of clean-up waiting. */
        assert_true(stats_of(map).entries <= 5 + 2 * 8);
    }
    drop_map(&map);
}

static void test_ten_thousand_readers_and_no_writer(void **state)
{
    (void)state;
    /* Of one region, whose chain would grow for ever; then of ten thousand regions. */
    for (int regions = 0; regions < 2; regions++) {
        pto_tensormap_config config = config_of(1, 64);
        config.first_entry = UINT32_MAX - 5000;
        pto_tensormap *map = map_of(&config);
        pto_tensor whole = whole_matrix();
        for (uint64_t id = 1; id <= MANY; id++) {
            pto_tensor tile = tile_of(&whole, regions ? id - 1 : 5);
            OK(pto_tensormap_insert_read(map, &tile, TASK(id)));
            OK(pto_tensormap_sync_validity(map, 0, id > 16 ? id - 15 : 1));
            if (id % 97 == 0) {
                assert_string_equal(WRITE_DEPS(map, &whole), readers_text(id - 15, id));
                OK(pto_tensormap_check(map));
            }
        }
        pto_tensormap_stats stats = stats_of(map);
        assert_true(stats.regions >= 1 && stats.regions <= 64);
        assert_true(stats.recycled >= MANY - 64);
        assert_int_equal(stats.full, 0);
        drop_map(&map);
    }
}

/* ---- Ten thousand ------------------------------------------------------------------------ */

typedef pto_status insert_function(pto_tensormap *map, const pto_tensor *t, pto_map_task task);

/* Fills a map with MANY tiles; tasks 1 .. MANY, or all of task 1. */
static pto_tensormap *many_tiles(insert_function *insert, bool one_task, uint64_t stride)
{
    pto_tensormap_config config = config_of(1, 16384);
    pto_tensormap *map = map_of(&config);
    pto_tensor whole = whole_matrix();
    for (uint64_t i = 0; i < MANY; i++) {
        pto_tensor tile = tile_of(&whole, i * stride % MANY);
        OK(insert(map, &tile, TASK(one_task ? 1 : i + 1)));
    }
    OK(pto_tensormap_check(map));
    return map;
}

/* Every task from 1 to `last` once, with this kind of access. */
static void assert_all(answers_question *ask, pto_tensormap *map, const pto_tensor *t,
                       uint64_t last, pto_map_access access)
{
    answers a = {0};
    OK(ask(map, t, answers_add, &a));
    assert_int_equal(a.count, last);
    answers_sort(&a);
    for (uint64_t i = 0; i < last; i++) {
        assert_int_equal(a.hit[i].task.id, i + 1);
        assert_int_equal(a.hit[i].access, access);
    }
    answers_free(&a);
}

static void test_ten_thousand_outputs_of_one_task(void **state)
{
    (void)state;
    pto_tensor whole = whole_matrix(), half = tensor_box(&whole, 0, 0, 400, 800);
    pto_tensormap *map = many_tiles(pto_tensormap_insert, true, 1);
    size_t n_hits = 0;
    assert_string_equal(LOOKUP_ALL(map, &whole), "W1");
    assert_string_equal(READ_DEPS(map, &half), "W1");
    assert_string_equal(WRITE_DEPS(map, &whole), "W1");
    assert_string_equal(answers_newest(map, &whole), "1");
    /* The whole is written: the ten thousand are dropped. */
    pto_map_param param = {&whole, PTO_MAP_WRITE};
    pto_map_hit *room = calloc(MANY, sizeof *room);
    assert_non_null(room);
    OK(pto_tensormap_submit(map, &param, 1, TASK(2), room, MANY, &n_hits));
    assert_true(n_hits >= 1);
    for (size_t i = 0; i < n_hits; i++) {
        assert_int_equal(room[i].task.id, 1);
    }
    free(room);
    assert_string_equal(WRITE_DEPS(map, &half), "W2");
    assert_int_equal(stats_of(map).superseded, MANY);
    drop_map(&map);
}

static void test_ten_thousand_producers(void **state)
{
    (void)state;
    pto_tensor whole = whole_matrix(), flipped = tensor_transpose(&whole);
    /* In order, and scattered. */
    for (uint64_t stride = 1; stride < 8000; stride += 7000) {
        pto_tensormap *map = many_tiles(pto_tensormap_insert, false, stride);
        assert_all(pto_tensormap_lookup_all, map, &whole, MANY, PTO_MAP_WRITE);
        assert_all(pto_tensormap_read_deps, map, &flipped, MANY, PTO_MAP_WRITE);
        assert_all(pto_tensormap_write_deps, map, &whole, MANY, PTO_MAP_WRITE);
        assert_string_equal(answers_newest(map, &whole), "10000");
        /* Each by itself, and no more than it. */
        for (uint64_t i = 0; i < MANY; i += 37) {
            char text[32];
            pto_tensor tile = tile_of(&whole, i * stride % MANY);
            tile = tensor_box(&tile, 1, 1, TILE - 2, TILE - 2);
            snprintf(text, sizeof text, "W%d", (int)i + 1);
            assert_string_equal(WRITE_DEPS(map, &tile), text);
        }
        /* The first half retires. */
        OK(pto_tensormap_sync_validity(map, 0, MANY / 2 + 1));
        answers a = {0};
        OK(pto_tensormap_lookup_all(map, &whole, answers_add, &a));
        assert_int_equal(a.count, MANY / 2);
        answers_sort(&a);
        assert_int_equal(a.hit[0].task.id, MANY / 2 + 1);
        answers_free(&a);
        drop_map(&map);
    }
}

static void test_ten_thousand_readers(void **state)
{
    (void)state;
    pto_tensor whole = whole_matrix(), corner = tensor_box(&whole, 3, 3, 1, 1);
    pto_tensormap *map = many_tiles(pto_tensormap_insert_read, false, 3);
    assert_all(pto_tensormap_write_deps, map, &whole, MANY, PTO_MAP_READ);
    assert_string_equal(READ_DEPS(map, &whole), "");
    assert_string_equal(WRITE_DEPS(map, &corner), "R1");
    drop_map(&map);
    /* All of the same tile. */
    pto_tensormap_config config = config_of(1, 16384);
    map = map_of(&config);
    pto_tensor tile = tile_of(&whole, 0);
    for (uint64_t id = 1; id <= MANY; id++) {
        OK(pto_tensormap_insert_read(map, &tile, TASK(id)));
    }
    assert_all(pto_tensormap_write_deps, map, &corner, MANY, PTO_MAP_READ);
    OK(pto_tensormap_insert(map, &tile, TASK(MANY + 1)));
    assert_string_equal(WRITE_DEPS(map, &corner), "W10001");
    drop_map(&map);
}

static void test_a_thousand_regions_that_all_meet(void **state)
{
    (void)state;
    /* Each inside the one before it: half a million pairs share bytes, far more than entries. */
    pto_tensormap_config config = config_of(2, 2048);
    pto_tensormap *map = map_of(&config);
    const char *bytes = (const char *)memory;
    char text[32];
    for (uint64_t i = 0; i < 1000; i++) {
        pto_tensor ring = tensor_bytes(bytes + i, 4000 - 2 * i);
        OK(pto_tensormap_insert_read(map, &ring, TASK(i + 1)));
    }
    OK(pto_tensormap_check(map));
    pto_tensor middle = tensor_bytes(bytes + 2000, 1), edge = tensor_bytes(bytes, 10);
    assert_all(pto_tensormap_write_deps, map, &middle, 1000, PTO_MAP_READ);
    assert_string_equal(WRITE_DEPS(map, &edge), readers_text(1, 10));
    for (uint64_t i = 0; i < 1000; i += 99) { /* asked again with one that is known */
        pto_tensor ring = tensor_bytes(bytes + i, 4000 - 2 * i);
        assert_all(pto_tensormap_write_deps, map, &ring, 1000, PTO_MAP_READ);
    }
    /* Written over the ring of task 501: it goes, and the 499 inside it; then that write goes. */
    for (uint64_t id = 1001; id <= 1002; id++) {
        pto_tensor inner = tensor_bytes(bytes + 500, 3000);
        OK(pto_tensormap_insert(map, &inner, TASK_AT(id, 1)));
        OK(pto_tensormap_check(map));
        assert_all(pto_tensormap_write_deps, map, &edge, 10, PTO_MAP_READ);
        snprintf(text, sizeof text, "W%d/1", (int)id);
        assert_string_equal(READ_DEPS(map, &middle), text);
    }
    assert_int_equal(stats_of(map).superseded, 500 + 1);
    /* The newest reader left is task 500, and it meets all that is left: 499 readers, a writer. */
    answers a = {0};
    OK(pto_tensormap_write_deps(map, &middle, answers_add, &a));
    assert_int_equal(a.count, 501);
    answers_free(&a);
    OK(pto_tensormap_sync_validity(map, 0, 491));
    OK(pto_tensormap_sync_validity(map, 1, 1003));
    assert_string_equal(WRITE_DEPS(map, &middle), readers_text(491, 500));
    drop_map(&map);
}

/* ---- Statistics -------------------------------------------------------------------------- */

static void test_statistics(void **state)
{
    (void)state;
    pto_tensormap_config config = config_of(1, 64);
    pto_tensormap *map = map_of(&config);
    pto_tensor whole = whole_matrix();
    pto_tensormap_stats none = stats_of(map), stats;
    assert_int_equal(none.entries, 0);
    assert_int_equal(none.inserts, 0);
    assert_int_equal(none.lookups, 0);
    assert_int_equal(none.hits, 0);
    assert_int_equal(none.regions, 0);
    for (uint64_t id = 1; id <= 10; id++) {
        pto_tensor tile = tile_of(&whole, id / 2);
        OK(pto_tensormap_insert_read(map, &tile, TASK(id)));
    }
    stats = stats_of(map);
    assert_int_equal(stats.entries, 10);
    assert_int_equal(stats.inserts, 10);
    assert_int_equal(stats.regions, 6); /* tiles 0 to 5 */
    assert_int_equal(stats.groups, 1);  /* all of one stride */
    assert_int_equal(stats.hits, 0);
    pto_tensor row = tensor_box(&whole, 0, 0, TILE, 6 * TILE);
    (void)WRITE_DEPS(map, &row);
    stats = stats_of(map);
    assert_int_equal(stats.lookups, none.lookups + 1);
    assert_int_equal(stats.hits, 10);
    assert_true(stats.searches >= 1);
    assert_true(stats.candidates >= 6);
    assert_int_equal(stats.superseded, 0);
    assert_int_equal(stats.full, 0);
    assert_int_equal(stats.budget_hits, 0);
    drop_map(&map);
}

static void test_an_exhausted_budget_is_counted_and_safe(void **state)
{
    (void)state;
    /* Strides that share no factor, in one dim after the other: only a search can tell. With one
     * step of it the map must say yes to all that meets, and count what it did not prove. */
    pto_tensormap_config config = config_of(1, 1024);
    config.overlap_budget = 1;
    pto_tensormap *map = map_of(&config);
    config.overlap_budget = UINT64_MAX;
    pto_tensormap *exact = map_of(&config);
    static const int64_t strides[6][3] = {{1009, 101, 13}, {997, 103, 17}, {991, 107, 19},
                                          {983, 109, 23},  {977, 113, 29}, {971, 127, 31}};
    answers want = {0}, got = {0};
    for (uint64_t id = 1; id <= 60; id++) {
        pto_tensor t = {.storage = memory, .storage_bytes = sizeof memory};
        t.dtype = PTO_UINT8;
        t.ndim = 3;
        t.offset = (int64_t)(id * 37 % 50);
        for (int d = 0; d < 3; d++) {
            t.shape[d] = 3 + (int64_t)(id % 4);
            t.strides[d] = strides[id % 6][d];
        }
        want.count = got.count = 0;
        OK(pto_tensormap_write_deps(map, &t, answers_add, &got));
        OK(pto_tensormap_write_deps(exact, &t, answers_add, &want));
        answers_sort(&want);
        answers_sort(&got);
        size_t at = 0;
        for (size_t i = 0; i < want.count; i++) {
            while (at < got.count && answers_order(&got.hit[at], &want.hit[i])) {
                at++;
            }
            assert_true(at < got.count);
        }
        OK(pto_tensormap_insert_read(map, &t, TASK(id)));
        OK(pto_tensormap_insert_read(exact, &t, TASK(id)));
    }
    assert_true(stats_of(map).budget_hits > 0);
    assert_int_equal(stats_of(exact).budget_hits, 0);
    answers_free(&want);
    answers_free(&got);
    drop_map(&map);
    drop_map(&exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capacity_is_what_was_configured),
        cmocka_unit_test(test_full_changes_nothing),
        cmocka_unit_test(test_superseded_entries_are_not_full_too_soon),
        cmocka_unit_test(test_counters_wrap),
        cmocka_unit_test(test_an_entry_reused_while_still_chained),
        cmocka_unit_test(test_a_task_with_many_entries_comes_round),
        cmocka_unit_test(test_truncation_drops_exactly_the_stale),
        cmocka_unit_test(test_cleanup_recycles_all_that_retired),
        cmocka_unit_test(test_cleanup_follows_by_itself),
        cmocka_unit_test(test_ten_thousand_readers_and_no_writer),
        cmocka_unit_test(test_ten_thousand_outputs_of_one_task),
        cmocka_unit_test(test_ten_thousand_producers),
        cmocka_unit_test(test_ten_thousand_readers),
        cmocka_unit_test(test_a_thousand_regions_that_all_meet),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_an_exhausted_budget_is_counted_and_safe),
    };
    return cmocka_run_group_tests_name("tensormap pool", tests, NULL, NULL);
}
