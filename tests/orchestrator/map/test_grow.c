/* test_grow.c - a map begins small and grows: entries when live tasks fill a level, regions when
 * evicted ones come back. Numbers, answers and bounds stay right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "answers.h"
#include "orchestrator/map/map.h"
#include "support.h"
#include "twins.h"

enum { SIDE = 150, TILES = SIDE * SIDE };

static float memory[TILES]; /* a tile is one element */

static pto_tensor tile(int i)
{
    return tensor_bytes(&memory[i], sizeof memory[i]);
}

static pto_tensormap *map_of(const pto_tensormap_config *config)
{
    pto_tensormap *map = NULL;
    OK(pto_tensormap_init(&map, config));
    return map;
}

static pto_tensormap_stats stats_of(const pto_tensormap *map)
{
    pto_tensormap_stats stats;
    OK(pto_tensormap_get_stats(map, &stats));
    return stats;
}

/* ---- Entries ---- */

/* Readers of two tiles, and writers of a third, fill a level from 2 entries to 64, wherever its
 * numbers begin and however many of the first tasks have retired. Every answer is that of a map
 * that had all entries from the beginning. */
static void test_entries_grow_in_the_middle(void **state)
{
    (void)state;
    for (uint32_t before = 0; before < 70; before++) {
        for (uint64_t retired = 0; retired < 4; retired++) {
            pto_tensormap *map[2];
            pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
            config.levels = 2;
            config.entries = 64;
            config.first_entry = UINT32_MAX - before;
            for (int i = 0; i < 2; i++) {
                config.start_entries = i ? 64 : 2;
                map[i] = map_of(&config);
                assert_int_equal(map[i]->level[0].mask, i ? 63 : 1);
            }
            uint64_t id = 1;
            for (pto_status status = PTO_OK; status == PTO_OK; id++) {
                const pto_tensor t = tile((int)(id % 3));
                for (int i = 0; i < 2; i++) {
                    if (id <= retired + 1) {
                        OK(pto_tensormap_sync_validity(map[i], 0, id));
                    }
                    status = id % 3 ? pto_tensormap_insert_read(map[i], &t, (pto_map_task){id, 0})
                                    : pto_tensormap_insert(map[i], &t, (pto_map_task){id, 0});
                    OK(pto_tensormap_check(map[i]));
                }
                for (int k = 0; k < 3; k++) {
                    const pto_tensor asked = tile(k);
                    char want[4096];
                    snprintf(want, sizeof want, "%s",
                             answers_ask(pto_tensormap_write_deps, map[1], &asked));
                    assert_string_equal(answers_ask(pto_tensormap_write_deps, map[0], &asked),
                                        want);
                }
            }
            /* All 64 are there, and no more: the last one was refused. */
            assert_int_equal(id - 2 - retired, 64);
            assert_int_equal(stats_of(map[0]).entries_capacity, 128);
            assert_int_equal(stats_of(map[0]).full, 1);
            assert_int_equal(map[0]->level[0].mask, 63);
            assert_int_equal(map[0]->growths[PTOI_GROWN_ENTRIES], 5);
            assert_int_equal(map[1]->growths[PTOI_GROWN_ENTRIES], 0);
            for (int i = 0; i < 2; i++) {
                pto_tensormap_destroy(&map[i]);
            }
        }
    }
}

/* However many it is asked to begin with: all is the most. */
static void test_a_map_begins_with_all_at_most(void **state)
{
    (void)state;
    static const uint32_t asked[] = {
        150, 192, 300, UINT32_C(1) << 31, (UINT32_C(1) << 31) + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
        config.levels = 3;
        config.entries = 64;
        config.start_entries = config.start_regions = asked[i];
        pto_tensormap *map = map_of(&config);
        assert_int_equal(map->level[0].mask, 63);
        assert_int_equal(map->region_capacity, 192);
        OK(pto_tensormap_check(map));
        pto_tensormap_destroy(&map);
    }
}

/* One task with more accesses than the ring has entries makes it large enough at once. */
static void test_a_task_grows_its_level_at_once(void **state)
{
    (void)state;
    enum { PARAMS = 40 };
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 1;
    config.entries = 64;
    config.start_entries = 1;
    config.start_regions = 1;
    pto_tensormap *map = map_of(&config);
    pto_tensor tiles[PARAMS];
    pto_map_param params[PARAMS];
    size_t hits;
    for (int i = 0; i < PARAMS; i++) {
        tiles[i] = tile(i);
        params[i] = (pto_map_param){&tiles[i], PTO_MAP_WRITE};
    }
    OK(pto_tensormap_submit(map, params, PARAMS, (pto_map_task){.id = 1}, NULL, 0, &hits));
    OK(pto_tensormap_check(map));
    assert_int_equal(map->level[0].mask, 63);
    assert_int_equal(map->growths[PTOI_GROWN_ENTRIES], 1);
    assert_true(map->region_capacity >= 64); /* M3 */
    /* What does not fit changes nothing. */
    assert_int_equal(
        pto_tensormap_submit(map, params, PARAMS, (pto_map_task){.id = 2}, NULL, 0, &hits),
        PTO_BUFFER_TOO_SMALL);
    pto_map_hit hit[PARAMS];
    assert_int_equal(
        pto_tensormap_submit(map, params, PARAMS, (pto_map_task){.id = 2}, hit, PARAMS, &hits),
        PTO_FULL);
    assert_int_equal(map->growths[PTOI_GROWN_ENTRIES], 1);
    assert_int_equal(stats_of(map).entries, PARAMS);
    pto_tensormap_destroy(&map);
}

/* ---- Regions ---- */

/* Each tile is written once, and its task retires 16 tasks later. */
static void sweep(pto_tensormap *map, int n, uint64_t *id)
{
    for (int i = 0; i < n; i++) {
        const pto_tensor t = tile(i);
        OK(pto_tensormap_insert(map, &t, (pto_map_task){.id = ++*id}));
        OK(pto_tensormap_sync_validity(map, 0, *id > 16 ? *id - 16 : 0));
    }
}

static void test_regions_grow_only_if_they_come_back(void **state)
{
    (void)state;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 1;
    config.entries = 1 << 16;
    config.start_entries = 32;
    config.start_regions = 1024;
    pto_tensormap *map = map_of(&config);
    uint64_t id = 0;
    /* A program that fits. */
    for (int i = 0; i < 20; i++) {
        sweep(map, 1000, &id);
    }
    assert_int_equal(stats_of(map).regions, 1000);
    assert_int_equal(map->region_capacity, 1024);
    /* One that streams: each of its tiles is used once. */
    sweep(map, TILES, &id);
    assert_int_equal(map->region_capacity, 1024);
    OK(pto_tensormap_check(map));
    /* One that works on 10,000 tiles over and over. */
    for (int i = 0; i < 8; i++) {
        sweep(map, 10000, &id);
    }
    OK(pto_tensormap_check(map));
    assert_int_equal(map->region_capacity, 16384);
    const uint64_t searches = stats_of(map).searches;
    sweep(map, 10000, &id);
    assert_int_equal(stats_of(map).searches, searches); /* all are known */
    assert_int_equal(map->level[0].mask, 31);           /* entries had no reason to grow */
    pto_tensormap_destroy(&map);
}

/* Up to the bound, and not beyond: then regions are evicted as ever. */
static void test_regions_are_bounded(void **state)
{
    (void)state;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 3;
    config.entries = 1024; /* 3,072 regions: no power of two */
    config.start_entries = 32;
    config.start_regions = 64;
    pto_tensormap *map = map_of(&config);
    uint64_t id = 0;
    for (int i = 0; i < 30; i++) {
        sweep(map, 4000, &id);
        OK(pto_tensormap_check(map));
        assert_true(map->region_capacity <= 3072 && stats_of(map).regions <= 3072);
    }
    assert_int_equal(map->region_capacity, 3072);
    pto_tensormap_destroy(&map);
}

/* The default map: 22,500 tiles, of which regions are sampled. */
static void test_the_default_map_holds_a_large_matrix(void **state)
{
    (void)state;
    pto_tensormap *map = NULL;
    OK(pto_tensormap_init_default(&map));
    assert_int_equal(map->region_limit, 1 << 20);
    uint64_t id = 0;
    for (int i = 0; i < 5; i++) {
        sweep(map, TILES, &id);
    }
    const uint64_t searches = stats_of(map).searches;
    sweep(map, TILES, &id);
    assert_int_equal(stats_of(map).searches, searches);
    assert_int_equal(map->region_capacity, 32768);
    assert_int_equal(stats_of(map).regions, TILES);
    pto_tensormap_destroy(&map);
}

/* Where address space is limited, a map reserves less, and works. Its size is what it says. */
static void test_a_map_fits_into_little_address_space(void **state)
{
    (void)state;
    struct rlimit before, tight;
    const pto_tensor t = tile(0);
    uint64_t capacity = UINT64_MAX;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    char line[128] = "";
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_non_null(fgets(line, sizeof line, statm));
    fclose(statm);
    if (before.rlim_cur != RLIM_INFINITY || strtoull(line, NULL, 10) > 1 << 18) {
        skip(); /* a sanitizer has reserved much more than the limits below */
    }
    for (int shift = 36; shift >= 33; shift--) { /* 64 to 8 GiB: far above what is in use */
        pto_tensormap *map = NULL;
        tight = before;
        tight.rlim_cur = (rlim_t)1 << shift;
        if (setrlimit(RLIMIT_AS, &tight) != 0) {
            skip();
        }
        const pto_status status = pto_tensormap_init_default(&map);
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
        OK(status);
        assert_true(map->memory_bytes <= tight.rlim_cur / 8);
        assert_true(stats_of(map).entries_capacity <= capacity);
        capacity = stats_of(map).entries_capacity;
        OK(pto_tensormap_insert(map, &t, (pto_map_task){.id = 1}));
        OK(pto_tensormap_check(map));
        pto_tensormap_destroy(&map);
    }
    assert_true(capacity < 4 << 18 && capacity >= 4 * 4096);
}

/* Managed blocks are found before and after the tables grow, whether they are indexed or not. */
static void test_blocks_are_found_after_growth(void **state)
{
    (void)state;
    enum { BLOCKS = 24 };
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 1;
    config.entries = 256;
    config.start_entries = 4;
    config.start_regions = 4;
    pto_tensormap *map = map_of(&config);
    char want[32];
    for (uint64_t id = 1; id <= BLOCKS; id++) {
        pto_tensor block = tile(0);
        block.owner = id;
        OK(pto_tensormap_insert(map, &block, (pto_map_task){.id = id}));
        OK(pto_tensormap_check(map));
        for (uint64_t k = 1; k <= id; k++) {
            block.owner = k;
            snprintf(want, sizeof want, "W%d", (int)k);
            assert_string_equal(answers_ask(pto_tensormap_write_deps, map, &block), want);
        }
    }
    assert_true(map->growths[PTOI_GROWN_FOR_ENTRIES] >= 2);
    pto_tensormap_destroy(&map);
}

/* Random histories: tasks of several accesses, growing numbers of tiles, a slow task at times. */
static void test_answers_are_those_of_a_map_that_does_not_grow(void **state)
{
    (void)state;
    uint64_t entries = 0, regions = 0;
    for (uint64_t i = 0; i < test_effort(200); i++) {
        const char *wrong = twins_run(test_rng_make(test_seed() * 1000 + i), &entries, &regions);
        if (wrong) {
            fail_msg("history %d of seed %d: %s", (int)i, (int)test_seed(), wrong);
        }
    }
    print_message("entries grew %d times, regions %d times\n", (int)entries, (int)regions);
    assert_true(entries > 0 && regions > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_grow_in_the_middle),
        cmocka_unit_test(test_a_map_begins_with_all_at_most),
        cmocka_unit_test(test_a_task_grows_its_level_at_once),
        cmocka_unit_test(test_regions_grow_only_if_they_come_back),
        cmocka_unit_test(test_regions_are_bounded),
        cmocka_unit_test(test_the_default_map_holds_a_large_matrix),
        cmocka_unit_test(test_a_map_fits_into_little_address_space),
        cmocka_unit_test(test_blocks_are_found_after_growth),
        cmocka_unit_test(test_answers_are_those_of_a_map_that_does_not_grow),
    };
    return cmocka_run_group_tests_name("grow", tests, NULL, NULL);
}
