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

/* A variable that is no option is named, with the one that was probably meant. */
static void test_unknown(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *meant;
    } cases[] = {
        {"PTO_WORKER", "PTO_WORKERS"},
        {"PTO_WROKERS", "PTO_WORKERS"},
        {"PTO_RINGTASKS", "PTO_RING_TASKS"},
        {"PTO_RING", "PTO_RING_TASKS"},
        {"PTO_HEAP_BYTES", "PTO_HEAP"},
        {"PTO_CALLER_TYPES", "PTO_CALLER"},
        {"PTO_PLACE", "PTO_SCHEDULER"},
        {"PTO_Spin", "PTO_SPIN"},
        {"PTO_TRACELIMT", "PTO_TRACE_LIMIT"},
        {"PTO_WINDW", NULL},
        {"PTO_", NULL},
        {"PTO_X", NULL},
        {"PTO_A_NAME_THAT_IS_FAR_TOO_LONG_TO_BE_ANY_OPTION_OF_THIS_LIBRARY_OR_OF_ANOTHER_ONE",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char suggestion[64];
        snprintf(suggestion, sizeof suggestion, "did you mean %s?",
                 cases[i].meant ? cases[i].meant : "");
        set(cases[i].variable, "1");
        set("PTO_LEVELS", "2");
        assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_UNKNOWN_OPTION);
        if (strlen(cases[i].variable) < 70) {
            assert_non_null(strstr(pto_error_detail(), cases[i].variable));
        }
        assert_int_equal(strstr(pto_error_detail(), suggestion) != NULL, cases[i].meant != NULL);
        assert_int_equal(strstr(pto_error_detail(), "did you mean") != NULL,
                         cases[i].meant != NULL);
        assert_string_equal(find("PTO_LEVELS")->value, "2"); /* the list is right */
        unsetenv(cases[i].variable);
    }
    set("PTO_TEST_SOMETHING", "1"); /* of the tests */
    set("OPTO_SPIN", "1");
    assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_OK);
    set("PTO_ONE", "1");
    set("PTO_TWO", "1");
    assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_UNKNOWN_OPTION);
    assert_string_equal(pto_error_detail(),
                        "options: PTO_ONE=1 is no option; PTO_TWO=1 is no option");
    set("PTO_WORKER", "1"); /* those with a suggestion come first */
    set("PTO_HEAPS", "1");
    assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_UNKNOWN_OPTION);
    assert_string_equal(pto_error_detail(),
                        "options: PTO_WORKER=1 is no option: did you mean PTO_WORKERS? PTO_HEAPS=1 "
                        "is no option: did you mean PTO_HEAP? PTO_ONE=1 is no option; PTO_TWO=1 is "
                        "no option");
    for (int i = 0; i < 30; i++) {
        char many[32];
        snprintf(many, sizeof many, "PTO_NUMBER_%d", i);
        set(many, "1");
    }
    assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_UNKNOWN_OPTION);
    const char *rest = strstr(pto_error_detail(), " (and "); /* those that no detail has room for */
    assert_non_null(rest);
    int named = 0;
    for (const char *s = pto_error_detail(); (s = strstr(s, "is no option")) != NULL; s++) {
        named++;
    }
    assert_int_equal(named + atoi(rest + 6), 34);
    for (int i = 0; i < 30; i++) {
        char many[32];
        snprintf(many, sizeof many, "PTO_NUMBER_%d", i);
        unsetenv(many);
    }
    unsetenv("PTO_WORKER");
    unsetenv("PTO_HEAPS");
    set("PTO_LEVELS", "99"); /* a value that cannot be read comes first */
    assert_int_equal(pto_options_list(listed, MOST, &n_listed), PTO_BAD_CONFIG);
    unsetenv("PTO_ONE");
    unsetenv("PTO_TWO");
    unsetenv("PTO_TEST_SOMETHING");
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
        OPTION_TEST(test_defaults), OPTION_TEST(test_the_environment), OPTION_TEST(test_nonsense),
        OPTION_TEST(test_unknown),  OPTION_TEST(test_arguments),
    };
    return cmocka_run_group_tests_name("config list", tests, NULL, NULL);
}
