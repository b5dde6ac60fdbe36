/* test_config.c - numbers: struct over environment over default, by level, and their ranges. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setenv */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "options.h"

static void defaults_are_as_promised(void **state)
{
    (void)state;
    const pto_config empty = PTO_CONFIG_INIT;
    for (int i = 0; i < 2; i++) {
        const ptoi_settings *s = accepted(i ? &empty : NULL);
        for (size_t n = 0; n < n_numbers; n++) {
            is_everywhere(s, &numbers[n], numbers[n].otherwise);
        }
        assert_int_equal(s->caller_types, PTO_ALL_TYPES);
        assert_int_equal(s->config.place, PTO_PLACE_INLINE);
        assert_in_range(s->n_workers, 1, PTO_MAX_WORKERS);
    }
}

/* Values inside of the range, its ends among them. */
static uint64_t sample(test_rng *rng, const number *n, int which)
{
    if (which == 0 || which == 1) {
        return which ? n->high : n->low;
    }
    const uint64_t span = n->high - n->low;
    const uint64_t value = test_next(rng) >> (test_next(rng) % 64);
    return n->low + (span == UINT64_MAX ? value : value % (span + 1));
}

static void every_number_comes_from_the_environment(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < n_numbers; i++) {
        const number *n = &numbers[i];
        for (int which = 0; which < 100; which++) {
            const uint64_t value = sample(&rng, n, which);
            set_number(n->variable, value);
            is_everywhere(accepted(NULL), n, round_up(n, value));
        }
        set(n->variable, "");
        is_everywhere(accepted(NULL), n, n->otherwise);
        unsetenv(n->variable);
    }
}

static void every_number_comes_from_the_struct(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < n_numbers; i++) {
        const number *n = &numbers[i];
        for (int which = 0; which < 100; which++) {
            const uint64_t value = sample(&rng, n, which);
            pto_config config = PTO_CONFIG_INIT;
            put(&config, n, n->at, value);
            /* The struct wins over the variable, valid or not, unless the field is 0. */
            set(n->variable, value ? "garbage" : "");
            is_everywhere(accepted(&config), n, round_up(n, value ? value : n->otherwise));
            set_number(n->variable, n->high);
            is_everywhere(accepted(&config), n, round_up(n, value ? value : n->high));
        }
        unsetenv(n->variable);
    }
}

static void what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_numbers; i++) {
        const number *n = &numbers[i];
        char low[64], high[64], beyond[96], where[96];
        snprintf(low, sizeof low, "must be %" PRIu64 " to ", n->low);
        snprintf(high, sizeof high, " to %" PRIu64, n->high);
        if (n->low) {
            set_number(n->variable, n->low - 1);
            snprintf(beyond, sizeof beyond, "\"%" PRIu64 "\" is out of range", n->low - 1);
            refused(NULL, n->variable, n->field, beyond);
            unsetenv(n->variable);
        }
        if (n->low > 1) { /* 0 is the default */
            pto_config config = PTO_CONFIG_INIT;
            put(&config, n, n->at, n->low - 1);
            refused(&config, n->field, low, high);
        }
        if (n->high == UINT64_MAX) {
            refused_variable(n->variable, "18446744073709551616", "is out of range");
            continue;
        }
        set_number(n->variable, n->high + 1);
        snprintf(beyond, sizeof beyond, "\"%" PRIu64 "\" is out of range", n->high + 1);
        refused(NULL, n->variable, n->field, beyond);
        unsetenv(n->variable);

        pto_config config = PTO_CONFIG_INIT;
        put(&config, n, n->at, n->high + 1);
        snprintf(beyond, sizeof beyond, "%s = %" PRIu64 ":", n->field, n->high + 1);
        refused(&config, beyond, low, high);
        if (n->level_at) {
            config = (pto_config)PTO_CONFIG_INIT;
            put(&config, n, n->level_at + 3 * n->width, n->high + 1);
            snprintf(where, sizeof where, "level_%s[3] = %" PRIu64 ":", n->field, n->high + 1);
            refused(&config, where, low, high);
        }
    }
}

static void garbage_is_no_number(void **state)
{
    (void)state;
    static const char *const garbage[] = {
        "x",   "1x",  " 1",  "1 ", "1\n", "-1",   "+1",  "0x10",    "1.5",      "1e3", "k",   "iB",
        "1kk", "1ki", "1kB", "1b", "1iB", "1K k", "all", "default", "\xC3\xA4", "1;2", "1:2",
    };
    for (size_t i = 0; i < n_numbers; i++) {
        const number *n = &numbers[i];
        for (size_t g = 0; g < sizeof garbage / sizeof *garbage; g++) {
            refused_variable(n->variable, garbage[g], "is not a number");
        }
        /* Beyond 64 bits, by digits and by the suffix; 2^64 would be 0. */
        refused_variable(n->variable, "99999999999999999999999999", "is out of range");
        refused_variable(n->variable, "18446744073709551680", "is out of range");
        refused_variable(n->variable, "16777216t", "is out of range");
        refused_variable(n->variable, "36893488147419103232k", "is out of range");
        if (n->level_at) {
            refused_variable(n->variable, ",", "\"\" is empty");
            refused_variable(n->variable, "64,", "\"\" is empty");
            refused_variable(n->variable, ",64", "\"\" is empty");
            refused_variable(n->variable, "64,,64", "\"\" is empty");
            refused_variable(n->variable, "64, 64", "\" 64\" is not a number");
            refused_variable(n->variable, "64,64x", "\"64x\" is not a number");
            refused_variable(n->variable, "64,64,0", "\"0\" is out of range");
        } else {
            refused_variable(n->variable, "1,1", "is not a number");
        }
        if (strcmp(n->field, "spin") != 0 && strcmp(n->field, "guard") != 0 &&
            strcmp(n->field, "inline_ns") != 0 && strcmp(n->field, "crash_report") != 0) {
            refused_variable(n->variable, "none", "is not a number");
        }
    }
}

static void suffixes_multiply(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *value;
        uint64_t heap;
    } cases[] = {
        {"PTO_HEAP", "1k", 1024},
        {"PTO_HEAP", "3K", 3072},
        {"PTO_HEAP", "3kiB", 3072},
        {"PTO_HEAP", "3KIB", 3072},
        {"PTO_HEAP", "5m", 5242880},
        {"PTO_HEAP", "5MiB", 5242880},
        {"PTO_HEAP", "7g", 7516192768},
        {"PTO_HEAP", "7GiB", 7516192768},
        {"PTO_HEAP", "64t", 70368744177664},
        {"PTO_HEAP", "64TiB", 70368744177664},
        {"PTO_HEAP", "00128", 128},
        {"PTO_HEAP", "65", 128},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set(cases[i].variable, cases[i].value);
        assert_int_equal(accepted(NULL)->config.level_heap_bytes[3], cases[i].heap);
    }
    unsetenv("PTO_HEAP");
    set("PTO_RING_TASKS", "4k");
    assert_int_equal(accepted(NULL)->config.level_ring_tasks[0], 4096);
    refused_variable("PTO_RING_TASKS", "4kiB", "is not a number"); /* tasks are not bytes */
    refused_variable("PTO_HEAP", "65t", "is out of range");
    set("PTO_ARGS", "1MiB");
    assert_int_equal(accepted(NULL)->config.level_arg_bytes[0], 1048576);
}

static void rounding_goes_up(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 1025;
    config.heap_bytes = 70368744177663;
    config.deps = 3;
    config.arg_bytes = 65;
    config.map_entries = 1;
    config.buffers = 1000;
    config.level_ring_tasks[1] = 2;
    config.level_deps[2] = 67108863;
    config.level_map_entries[3] = 4097;
    const pto_config *c = &accepted(&config)->config;
    assert_int_equal(c->level_ring_tasks[0], 2048);
    assert_int_equal(c->level_ring_tasks[1], 2);
    assert_int_equal(c->level_heap_bytes[0], 70368744177664);
    assert_int_equal(c->level_deps[0], 4);
    assert_int_equal(c->level_deps[2], 67108864);
    assert_int_equal(c->level_arg_bytes[0], 128);
    assert_int_equal(c->level_map_entries[0], 1);
    assert_int_equal(c->level_map_entries[3], 8192);
    assert_int_equal(c->buffers, 1000);
}

static void spinning_can_be_switched_off(void **state)
{
    (void)state;
    static const char *const off[] = {"none", "0", "NONE"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        set("PTO_SPIN", off[i]);
        assert_int_equal(accepted(NULL)->config.spin, 0);
    }
    refused_variable("PTO_SPIN", "nones", "is not a number");
    set("PTO_SPIN", "17");
    pto_config config = PTO_CONFIG_INIT;
    config.spin = PTO_NO_SPIN;
    assert_int_equal(accepted(&config)->config.spin, 0);
}

/* ---- Levels ------------------------------------------------------------------------------- */

static void a_list_goes_by_level(void **state)
{
    (void)state;
    set("PTO_RING_TASKS", "2048,64");
    const pto_config *c = &accepted(NULL)->config;
    assert_int_equal(c->level_ring_tasks[0], 2048);
    for (int level = 1; level < 4; level++) {
        assert_int_equal(c->level_ring_tasks[level], 64);
    }
    assert_int_equal(c->level_ring_tasks[4], 0);

    set("PTO_RING_TASKS", "2,4,8,16");
    c = &accepted(NULL)->config;
    for (int level = 0; level < 4; level++) {
        assert_int_equal(c->level_ring_tasks[level], 2 << level);
    }
    /* The number of levels is decided first, wherever it is set. */
    set("PTO_RING_TASKS", "2,4,8,16,32");
    refused(NULL, "PTO_RING_TASKS=\"2,4,8,16,32\"", "ring_tasks",
            "\"32\" is for level 4 of 0 to 3");
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 5;
    assert_int_equal(accepted(&config)->config.level_ring_tasks[4], 32);
    set("PTO_LEVELS", "8");
    set("PTO_RING_TASKS", "2,4,8,16,32,64,128,256");
    assert_int_equal(accepted(NULL)->config.level_ring_tasks[7], 256);
    set("PTO_RING_TASKS", "2,4,8,16,32,64,128,256,512");
    refused(NULL, "\"512\" is for level 8 of 0 to 7");
    set("PTO_LEVELS", "1");
    set("PTO_RING_TASKS", "2,4");
    refused(NULL, "\"4\" is for level 1 of 0 to 0");
}

static void a_level_that_does_not_exist_cannot_be_set(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_numbers; i++) {
        const number *n = &numbers[i];
        if (n->level_at) {
            char where[96];
            pto_config config = PTO_CONFIG_INIT;
            config.levels = 2;
            put(&config, n, n->level_at + 2 * n->width, 64);
            snprintf(where, sizeof where, "level_%s[2] = 64: levels are 0 to 1", n->field);
            refused(&config, where);
            config.levels = 3;
            assert_int_equal(get(&accepted(&config)->config, n, n->level_at + 2 * n->width), 64);
        }
    }
}

static void arguments_get_room_for_the_window(void **state)
{
    (void)state;
    set("PTO_RING_TASKS", "4194304,1025,1024,2");
    const pto_config *c = &accepted(NULL)->config;
    assert_int_equal(c->level_arg_bytes[0], 1073741824);
    assert_int_equal(c->level_arg_bytes[1], 524288);
    assert_int_equal(c->level_arg_bytes[2], 262144);
    assert_int_equal(c->level_arg_bytes[3], 262144);
    /* Only the default: a smaller value is respected. */
    set("PTO_ARGS", "64");
    assert_int_equal(accepted(NULL)->config.level_arg_bytes[0], 64);
}

/* Random struct and environment, compared with the plain rule. */
static void levels_merge_one_by_one(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    const uint64_t rounds = test_effort(3000);
    for (uint64_t round = 0; round < rounds; round++) {
        const number *n = &numbers[1 + test_next(&rng) % 5];
        pto_config config = PTO_CONFIG_INIT;
        uint64_t own[PTO_MAX_LEVELS], listed[PTO_MAX_LEVELS] = {0}, common = 0;
        char list[256] = "";
        config.levels = (uint32_t)test_between(&rng, 1, 8);
        if (test_next(&rng) % 3 == 0) {
            common = (uint64_t)test_between(&rng, 64, 9999);
            put(&config, n, n->at, common);
        }
        const uint32_t in_list = (uint32_t)(test_next(&rng) % (config.levels + 1));
        for (uint32_t level = 0; level < config.levels; level++) {
            own[level] = test_next(&rng) % 2 ? (uint64_t)test_between(&rng, 64, 9999) : 0;
            put(&config, n, n->level_at + level * n->width, own[level]);
            if (level < in_list) {
                const size_t length = strlen(list);
                listed[level] = (uint64_t)test_between(&rng, 64, 9999);
                snprintf(list + length, sizeof list - length, "%s%" PRIu64, level ? "," : "",
                         listed[level]);
            } else if (in_list) {
                listed[level] = listed[in_list - 1];
            }
        }
        set(n->variable, list);
        const ptoi_settings *s = accepted(&config);
        for (uint32_t level = 0; level < PTO_MAX_LEVELS; level++) {
            uint64_t want = level >= config.levels ? 0
                            : own[level]           ? own[level]
                            : common               ? common
                            : listed[level]        ? listed[level]
                                                   : n->otherwise;
            want = want ? round_up(n, want) : 0;
            assert_int_equal(get(&s->config, n, n->level_at + level * n->width), want);
        }
        unsetenv(n->variable);
    }
}

static void a_variable_that_no_level_needs_may_hold_anything(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 2;
    config.level_deps[0] = 16;
    set("PTO_DEPS", "garbage");
    refused(&config, "PTO_DEPS");
    config.level_deps[1] = 32;
    assert_int_equal(accepted(&config)->config.level_deps[1], 32);
}

/* ---- The trace ----------------------------------------------------------------------------- */

static void a_trace_is_named_by_struct_or_variable(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    assert_null(accepted(NULL)->config.trace);
    set("PTO_TRACE", "here.html");
    assert_string_equal(accepted(NULL)->config.trace, "here.html");
    assert_true(accepted(NULL)->trace_is_shared);
    config.trace = "there.dot";
    assert_string_equal(accepted(&config)->config.trace, "there.dot");
    assert_false(accepted(&config)->trace_is_shared);
    set("PTO_TRACE", "None");
    assert_null(accepted(NULL)->config.trace);
    set("PTO_TRACE", "here.htm");
    refused(NULL, "config: PTO_TRACE=\"here.htm\" (field trace): \"here.htm\" has no known ending",
            "it takes none, or a file that ends in .html, .json, .dot or .ptrace");
    config.trace = "there";
    refused(&config, "config: trace = \"there\"", "it takes", ".ptrace");
}

/* ---- The struct itself --------------------------------------------------------------------- */

static void the_size_of_the_struct_is_checked(void **state)
{
    (void)state;
    union {
        pto_config config;
        unsigned char bytes[66000];
    } later = {.config = {.size = 0}};
    const size_t first = offsetof(pto_config, map_twice) + sizeof(uint32_t);
    later.config.map_twice = 1;

    refused(&later.config, "size = 0:", "PTO_CONFIG_INIT");
    later.config.size = first - 1;
    refused(&later.config, "size = ", "PTO_CONFIG_INIT");
    later.config.size = first;
    assert_int_equal(accepted(&later.config)->config.map_twice, 1);

    later.config.size = sizeof later.config + 64;
    assert_int_equal(accepted(&later.config)->config.map_twice, 1);
    later.bytes[sizeof later.config + 63] = 1;
    refused(&later.config, "size = ", "is set", PTO_VERSION);
    later.config.size--; /* that byte is beyond the given size */
    assert_int_equal(accepted(&later.config)->config.map_twice, 1);
    later.bytes[sizeof later.config] = 1;
    refused(&later.config, "size = ", "is set");
    later.bytes[sizeof later.config] = 0;
    later.bytes[sizeof later.config + 63] = 0;

    later.config.size = 65536;
    accepted(&later.config);
    later.config.size = 65537;
    refused(&later.config, "size = 65537:");
    later.config.size = SIZE_MAX;
    refused(&later.config, "size = 18446744073709551615:");
}

static void details_say_all_there_is_to_say(void **state)
{
    (void)state;
    set("PTO_HEAP", "1g,63");
    refused(NULL,
            "config: PTO_HEAP=\"1g,63\" (field heap_bytes): \"63\" is out of range; it takes 64 .. "
            "64t bytes, for all levels or a list by level");
    set("PTO_HEAP", "1\n\x01g");
    refused(NULL, "config: PTO_HEAP=\"1??g\" (field heap_bytes): \"1??g\" is not a number");
    /* The allowed values are shown, however long the wrong value is. */
    char huge[4096];
    memset(huge, '9', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    set("PTO_HEAP", huge);
    refused(NULL, "config: PTO_HEAP=\"999", "999... (field heap_bytes)", "64 .. 64t bytes");
    unsetenv("PTO_HEAP");
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 1;
    refused(&config, "config: ring_tasks = 1: must be 2 to 4194304");
    assert_null(strstr(pto_error_detail(), "PTO_"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(defaults_are_as_promised),
        OPTION_TEST(every_number_comes_from_the_environment),
        OPTION_TEST(every_number_comes_from_the_struct),
        OPTION_TEST(what_is_out_of_range_is_refused),
        OPTION_TEST(garbage_is_no_number),
        OPTION_TEST(suffixes_multiply),
        OPTION_TEST(rounding_goes_up),
        OPTION_TEST(spinning_can_be_switched_off),
        OPTION_TEST(a_list_goes_by_level),
        OPTION_TEST(a_level_that_does_not_exist_cannot_be_set),
        OPTION_TEST(arguments_get_room_for_the_window),
        OPTION_TEST(levels_merge_one_by_one),
        OPTION_TEST(a_variable_that_no_level_needs_may_hold_anything),
        OPTION_TEST(a_trace_is_named_by_struct_or_variable),
        OPTION_TEST(the_size_of_the_struct_is_checked),
        OPTION_TEST(details_say_all_there_is_to_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
