/* options.h - for the tests of options: what is promised about them, and helpers to check it.
 *
 * To be included after cmocka.h, with _GNU_SOURCE for setenv.
 */
#ifndef PTO_TEST_OPTIONS_H
#define PTO_TEST_OPTIONS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "support.h"

/* The promised values, written out again, independent of the library's own table. */
enum { AS_IS, POWER, LINES };

typedef struct number {
    const char *variable, *field;
    size_t at, width, level_at; /* level_at 0: no value per level */
    uint64_t low, high, otherwise;
    int round;
} number;

#ifdef PTO_DEBUG_CHECKS
#define GUARD 2
#else
#define GUARD 0
#endif

#define AT(name) #name, offsetof(pto_config, name), sizeof(((pto_config *)0)->name)
#define LEVELS(name) AT(name), offsetof(pto_config, level_##name)

static const number numbers[] = {
    {"PTO_LEVELS", AT(levels), 0, 1, 8, 4, AS_IS},
    {"PTO_RING_TASKS", LEVELS(ring_tasks), 2, 4194304, 1024, POWER},
    {"PTO_HEAP", LEVELS(heap_bytes), 64, 70368744177664, 268435456, LINES},
    {"PTO_DEPS", LEVELS(deps), 1, 67108864, 8192, POWER},
    {"PTO_ARGS", LEVELS(arg_bytes), 64, 68719476736, 262144, LINES},
    {"PTO_MAP_ENTRIES", LEVELS(map_entries), 1, 67108864, 262144, POWER},
    {"PTO_BUFFERS", AT(buffers), 0, 1, 67108864, 65536, AS_IS},
    {"PTO_SPIN", AT(spin), 0, 0, 2147483648, 512, AS_IS},
    {"PTO_INLINE_NS", AT(inline_ns), 0, 0, 1073741824, 50, AS_IS},
    {"PTO_OVERLAP_BUDGET", AT(overlap_budget), 0, 0, UINT64_MAX, 0, AS_IS},
    {"PTO_TRACE_LIMIT", AT(trace_limit), 0, 1, 67108864, 1048576, AS_IS},
    {"PTO_FIRST_TASK", AT(first_task), 0, 0, 576460752303423488, 0, AS_IS},
    {"PTO_MAP_TWICE", AT(map_twice), 0, 0, 1, 0, AS_IS},
    {"PTO_GUARD", AT(guard), 0, 0, 2, GUARD, AS_IS},
    {"PTO_CRASH_REPORT", AT(crash_report), 0, 0, 1, 1, AS_IS},
    {"PTO_PROCESS_THREADS", AT(process_threads), 0, 1, 1024, 1, AS_IS},
    {"PTO_GRACE_MS", AT(grace_ms), 0, 0, 1073741824, 0, AS_IS},
    {"PTO_SHARED", AT(shared_bytes), 0, 64, 70368744177664, 68719476736, LINES},
    {"PTO_DEVICE_HEAP", AT(device_heap_bytes), 0, 64, 70368744177664, 67108864, LINES},
    {"PTO_GPU_IDLE_US", AT(gpu_idle_us), 0, 1, 2147483648, 1000, AS_IS},
    {"PTO_GPU_WORKERS", AT(gpu_workers), 0, 0, 768, 0, AS_IS},
    {"PTO_GPU_CUBE_WORKERS", AT(gpu_cube_workers), 0, 0, 768, 0, AS_IS},
};
static const size_t n_numbers = sizeof numbers / sizeof *numbers;

static const char *const words[] = {"PTO_WORKERS", "PTO_CALLER", "PTO_SCHEDULER", "PTO_TRACE",
                                    "PTO_ATTACH",  "PTO_DEVICE", "PTO_PIN"};
static const size_t n_words = sizeof words / sizeof *words;

static inline int forget(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_numbers; i++) {
        unsetenv(numbers[i].variable);
    }
    for (size_t i = 0; i < n_words; i++) {
        unsetenv(words[i]);
    }
    return 0;
}

static inline void set(const char *variable, const char *value)
{
    assert_int_equal(setenv(variable, value, 1), 0);
}

static inline void set_number(const char *variable, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    set(variable, text);
}

static inline const ptoi_settings *accepted(const pto_config *given)
{
    static ptoi_settings s;
    memset(&s, 0xA5, sizeof s);
    if (ptoi_config_resolve(given, &s) != PTO_OK) {
        fail_msg("refused: %s", pto_error_detail());
    }
    assert_int_equal(s.config.size, sizeof s.config);
    return &s;
}

/* Each of the words must be in the detail, and the settings are unchanged. */
static inline void refused_with(const pto_config *given, const char *const *needles)
{
    static ptoi_settings s, before;
    memset(&s, 0xA5, sizeof s);
    memcpy(&before, &s, sizeof s);
    const pto_status status = ptoi_config_resolve(given, &s);
    if (status != PTO_BAD_CONFIG) {
        fail_msg("status %d instead of a refusal that has \"%s\"", (int)status, *needles);
    }
    for (; *needles; needles++) {
        if (!strstr(pto_error_detail(), *needles)) {
            fail_msg("\"%s\" lacks \"%s\"", pto_error_detail(), *needles);
        }
    }
    assert_memory_equal(&s, &before, sizeof s);
}

#define refused(given, ...) refused_with((given), (const char *const[]){__VA_ARGS__, NULL})

static inline void refused_variable(const char *variable, const char *value, const char *why)
{
    set(variable, value);
    refused(NULL, variable, "it takes", why);
    unsetenv(variable);
    accepted(NULL); /* the detail names this variable */
}

static inline uint64_t get(const pto_config *config, const number *n, size_t at)
{
    uint64_t value = 0; /* little endian, as all that this runs on */
    memcpy(&value, (const char *)config + at, n->width);
    return value;
}

static inline void put(pto_config *config, const number *n, size_t at, uint64_t value)
{
    memcpy((char *)config + at, &value, n->width);
    assert_int_equal(get(config, n, at), value);
}

static inline uint64_t round_up(const number *n, uint64_t value)
{
    if (n->round == LINES) {
        return (value + 63) & ~UINT64_C(63);
    }
    for (uint64_t power = 1; n->round == POWER; power <<= 1) {
        if (power >= value) {
            return power;
        }
    }
    return value;
}

/* The value of the option, in all fields that contain it. */
static inline void is_everywhere(const ptoi_settings *s, const number *n, uint64_t value)
{
    assert_int_equal(get(&s->config, n, n->at), value);
    for (uint32_t level = 0; n->level_at && level < PTO_MAX_LEVELS; level++) {
        const uint64_t found = get(&s->config, n, n->level_at + level * n->width);
        assert_int_equal(found, level < s->config.levels ? value : 0);
    }
}

/* Each test begins and ends with no variable set. */
#define OPTION_TEST(name) cmocka_unit_test_setup_teardown(name, forget, forget)

#endif /* PTO_TEST_OPTIONS_H */
