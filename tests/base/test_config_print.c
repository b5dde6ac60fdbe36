/* test_config_print.c - the options as printed for --help. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* open_memstream, setenv */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "options.h"

/* What pto_options_print writes; to be freed. */
static char *printed(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    pto_options_print(out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(text);
    return text;
}

/* Lines of 100 columns at most without blanks at their ends, and each variable begins one. */
static void has_good_shape(const char *text)
{
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        if (length > 100) {
            fail_msg("%zu columns: %.*s", length, (int)length, line);
        }
        assert_int_equal(line[length], '\n');
        assert_false(length && line[length - 1] == ' ');
        assert_true(strspn(line, " ") == 0 || strspn(line, " ") == 2 || strspn(line, " ") == 22);
        line += length + 1;
    }
}

/* The value in the line of a variable. */
static void value_in(const char *text, const char *variable, char *value, size_t size)
{
    char start[64];
    snprintf(start, sizeof start, "\n  %-20s", variable);
    const char *line = strstr(text, start);
    if (!line) {
        fail_msg("%s is not there", variable);
        return;
    }
    assert_null(strstr(line + 1, start));
    line += strlen(start);
    snprintf(value, size, "%.*s", (int)strcspn(line, " \n"), line);
}

static void has_value(const char *text, const char *variable, const char *want)
{
    char value[128];
    value_in(text, variable, value, sizeof value);
    assert_string_equal(value, want);
}

static void are_same(const ptoi_settings *a, const ptoi_settings *b)
{
    for (size_t i = 0; i < n_numbers; i++) {
        const number *n = &numbers[i];
        assert_int_equal(get(&a->config, n, n->at), get(&b->config, n, n->at));
        for (size_t level = 0; n->level_at && level < PTO_MAX_LEVELS; level++) {
            const size_t at = n->level_at + level * n->width;
            assert_int_equal(get(&a->config, n, at), get(&b->config, n, at));
        }
    }
    assert_int_equal(a->config.place, b->config.place);
    assert_int_equal(a->caller_types, b->caller_types);
    assert_int_equal(a->n_workers, b->n_workers);
    assert_memory_equal(a->worker_types, b->worker_types, a->n_workers * sizeof *a->worker_types);
}

static void options_are_printed(void **state)
{
    (void)state;
    char workers[16];
    snprintf(workers, sizeof workers, "%" PRIu32, accepted(NULL)->n_workers);
    char *text = printed();
    has_good_shape(text);
    size_t rows = 0;
    for (const char *at = text; (at = strstr(at, "\n  PTO_")); at++) {
        rows++;
    }
    static const char *const sims[][2] = {{"PTO_SIM_MEMORY", "1g"},
                                          {"PTO_SIM_BANDWIDTH", "none"},
                                          {"PTO_SIM_LATENCY_NS", "none"},
                                          {"PTO_SIM_WORKERS", "1"}};
    const size_t n_sims = sizeof sims / sizeof *sims;
    assert_int_equal(rows, n_numbers + n_words + n_sims);
    for (size_t i = 0; i < n_sims; i++) {
        has_value(text, sims[i][0], sims[i][1]);
    }
    has_value(text, "PTO_LEVELS", "4");
    has_value(text, "PTO_RING_TASKS", "1024");
    has_value(text, "PTO_HEAP", "256m");
    has_value(text, "PTO_DEPS", "8192");
    has_value(text, "PTO_ARGS", "256k");
    has_value(text, "PTO_MAP_ENTRIES", "262144");
    has_value(text, "PTO_BUFFERS", "65536");
    has_value(text, "PTO_WORKERS", workers);
    has_value(text, "PTO_CALLER", "all");
    has_value(text, "PTO_SCHEDULER", "inline");
    has_value(text, "PTO_SPIN", "512");
    has_value(text, "PTO_INLINE_NS", "50");
    has_value(text, "PTO_OVERLAP_BUDGET", "0");
    has_value(text, "PTO_TRACE", "none");
    has_value(text, "PTO_TRACE_LIMIT", "1048576");
    has_value(text, "PTO_FIRST_TASK", "0");
    has_value(text, "PTO_MAP_TWICE", "0");
    has_value(text, "PTO_GUARD", GUARD ? "2" : "none");
    has_value(text, "PTO_CRASH_REPORT", "1");
    assert_non_null(strstr(text, " 64 .. 64t bytes"));
    assert_non_null(strstr(text, " 2 .. 4194304 tasks"));
    assert_null(strstr(text, "environment"));
    free(text);
    pto_options_print(NULL);
}

static void printed_values_are_those_in_effect(void **state)
{
    (void)state;
    set("PTO_LEVELS", "3");
    set("PTO_RING_TASKS", "65000,2k,2048");
    set("PTO_HEAP", "1025,64,1GiB");
    set("PTO_SPIN", "0");
    set("PTO_WORKERS", "CUBE,cube,all,vector+cube:3");
    set("PTO_CALLER", "none");
    set("PTO_SCHEDULER", "Thread");
    char *text = printed();
    has_good_shape(text);
    has_value(text, "PTO_RING_TASKS", "65536,2048");
    has_value(text, "PTO_HEAP", "1088,64,1g");
    has_value(text, "PTO_ARGS", "16m,512k"); /* follows ring_tasks */
    has_value(text, "PTO_SPIN", "none");
    has_value(text, "PTO_WORKERS", "cube:2,all,cube+vector:3");
    has_value(text, "PTO_CALLER", "none");
    has_value(text, "PTO_SCHEDULER", "thread");
    assert_non_null(strstr(text, "Set in the environment; default 256m.\n"));
    assert_non_null(strstr(text, "Set in the environment; default inline.\n"));

    set("PTO_WORKERS", "all,cube");
    char *other = printed();
    has_value(other, "PTO_WORKERS", "all,cube");
    free(other);

    /* Printed values can be set as variables and mean the same. */
    set("PTO_WORKERS", "cube:2,all,vector+cube:3");
    const ptoi_settings before = *accepted(NULL);
    for (size_t i = 0; i < n_numbers + n_words; i++) {
        const char *variable = i < n_numbers ? numbers[i].variable : words[i - n_numbers];
        char value[128];
        value_in(text, variable, value, sizeof value);
        set(variable, value);
    }
    are_same(&before, accepted(NULL));
    free(text);
}

static void an_environment_that_is_wrong_is_printed_too(void **state)
{
    (void)state;
    char huge[4096];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    set("PTO_RING_TASKS", "64");
    set("PTO_OVERLAP_BUDGET", huge);
    char *text = printed();
    has_good_shape(text);
    has_value(text, "PTO_RING_TASKS", "1024");
    has_value(text, "PTO_OVERLAP_BUDGET", "0");
    assert_non_null(strstr(text, "PTO_OVERLAP_BUDGET=\"xxx"));
    free(text);
    unsetenv("PTO_OVERLAP_BUDGET");

    /* Values that do not fit are visibly truncated. */
    set("PTO_WORKERS", "cube,vector,cube,vector,cube,vector,cube,vector,cube,vector,cube,vector,"
                       "accelerator,ai_cpu");
    text = printed();
    has_good_shape(text);
    has_value(text, "PTO_RING_TASKS", "64");
    assert_non_null(strstr(text, "cube,vector,cube,vector,"));
    assert_non_null(strstr(text, "...\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(options_are_printed),
        OPTION_TEST(printed_values_are_those_in_effect),
        OPTION_TEST(an_environment_that_is_wrong_is_printed_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
