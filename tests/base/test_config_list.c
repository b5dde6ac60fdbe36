/* test_config_list.c - the list of options, for programs that print it themselves. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setenv */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "options.h"

enum { MOST = 64 };

static pto_option listed[MOST];
static size_t n_listed;

static const pto_option *find(const char *variable)
{
    for (size_t i = 0; i < n_listed; i++) {
        if (!strcmp(listed[i].variable, variable)) {
            return &listed[i];
        }
    }
    fail_msg("%s is not there", variable);
    return NULL;
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_OK);
    assert_in_range(n_listed, n_numbers + n_words, MOST);
    for (size_t i = 0; i < n_numbers; i++) {
        assert_string_equal(find(numbers[i].variable)->field, numbers[i].field);
    }
    for (size_t i = 0; i < n_listed; i++) {
        assert_true(*listed[i].help && *listed[i].value);
        assert_false(listed[i].from_environment);
        assert_string_equal(listed[i].value, listed[i].otherwise);
    }
    assert_string_equal(find("PTO_RING_TASKS")->value, "1024");
    assert_string_equal(find("PTO_HEAP")->value, "256m");
    assert_string_equal(find("PTO_SCHEDULER")->value, "inline");
}

static void test_the_environment(void **state)
{
    (void)state;
    set("PTO_RING_TASKS", "2000,16");
    set("PTO_WORKERS", "cube:2,vector+ai_cpu");
    set("PTO_DEPS", ""); /* as if it were not there */
    assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_OK);
    assert_true(find("PTO_RING_TASKS")->from_environment);
    assert_string_equal(find("PTO_RING_TASKS")->value, "2048,16");
    assert_string_equal(find("PTO_RING_TASKS")->otherwise, "1024");
    assert_string_equal(find("PTO_WORKERS")->value, "cube:2,vector+ai_cpu");
    assert_false(find("PTO_DEPS")->from_environment);
    assert_false(find("PTO_HEAP")->from_environment);
}

/* An invalid value is named, and the whole environment is ignored. */
static void test_nonsense(void **state)
{
    (void)state;
    set("PTO_RING_TASKS", "many");
    set("PTO_LEVELS", "2");
    assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_BAD_CONFIG);
    assert_non_null(strstr(pto_error_detail(), "PTO_RING_TASKS"));
    assert_string_equal(find("PTO_LEVELS")->value, "4");
    assert_false(find("PTO_LEVELS")->from_environment);
}

static void test_arguments(void **state)
{
    (void)state;
    size_t count = 0;
    pto_option few[2] = {{.variable = "untouched"}, {.variable = "untouched"}};
    assert_int_equal(pto_options_list(NULL, 0, &count), PTO_OK);
    assert_in_range(count, n_numbers + n_words, MOST);
    assert_int_equal(pto_options_list(few, 1, &count), PTO_OK);
    assert_string_equal(few[0].variable, "PTO_LEVELS");
    assert_string_equal(few[1].variable, "untouched");
    assert_int_equal(pto_options_list(NULL, 1, &count), PTO_NULL_ARGUMENT);
    assert_int_equal(pto_options_list(few, 1, NULL), PTO_NULL_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(test_defaults),
        OPTION_TEST(test_the_environment),
        OPTION_TEST(test_nonsense),
        OPTION_TEST(test_arguments),
    };
    return cmocka_run_group_tests_name("config list", tests, NULL, NULL);
}
