/* test_words.c - numbers as people write and read them, and near misses. */
#include "words.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_numbers(void **state)
{
    const struct {
        const char *text;
        int64_t low, high, want; /* want -1: refused */
    } cases[] = {
        {"0", 0, 9, 0},
        {"9", 0, 9, 9},
        {"10", 0, 9, -1},
        {"-3", 0, 9, -1},
        {"7k", 0, 1 << 20, 7 << 10},
        {"7K", 0, 1 << 20, 7 << 10},
        {"2m", 0, 1 << 21, 2 << 20},
        {"2m", 0, (1 << 21) - 1, -1},
        {"3g", 0, INT64_MAX, INT64_C(3) << 30},
        {"3t", 0, INT64_MAX, INT64_C(3) << 40},
        {"9223372036854775807", 0, INT64_MAX, INT64_MAX},
        {"9223372036854775808", 0, INT64_MAX, -1},
        {"8388608t", 0, INT64_MAX, -1},
        {"8388607t", 0, INT64_MAX, INT64_C(8388607) << 40},
        {"", 0, 9, -1},
        {"k", 0, 9, -1},
        {" 1", 0, 9, -1},
        {"1 ", 0, 9, -1},
        {"1kk", 0, 1 << 30, -1},
        {"1x", 0, 1 << 30, -1},
        {"0x10", 0, 1 << 30, -1},
        {"1.5", 0, 9, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 0;
        const bool good = words_number(cases[i].text, cases[i].low, cases[i].high, &value);
        assert_int_equal(good, cases[i].want >= 0);
        assert_true(!good || value == cases[i].want);
    }
}

static void test_nearest(void **state)
{
    const char *const names[] = {"vector", "stencil", "reduce", "lu", "no-check"};
    const size_t n = sizeof names / sizeof *names;
    (void)state;
    assert_string_equal(words_nearest("vectr", names, n), "vector");
    assert_string_equal(words_nearest("vetcor", names, n), "vector");
    assert_string_equal(words_nearest("stensil", names, n), "stencil");
    assert_string_equal(words_nearest("red", names, n), "reduce");
    assert_string_equal(words_nearest("nocheck", names, n), "no-check");
    assert_null(words_nearest("xyzzyx", names, n));
    assert_null(words_nearest("", names, n));
    assert_null(words_nearest("vector", names, 0));
}

static void test_figures(void **state)
{
    (void)state;
    assert_string_equal(words_bytes(0).s, "0 B");
    assert_string_equal(words_bytes(1023).s, "1023 B");
    assert_string_equal(words_bytes(1024).s, "1 KiB");
    assert_string_equal(words_bytes(1536).s, "1.50 KiB");
    assert_string_equal(words_bytes(UINT64_C(256) << 20).s, "256 MiB");
    assert_string_equal(words_time(0.0237).s, "23.7 ms");
    assert_string_equal(words_time(1.204).s, "1.20 s");
    assert_string_equal(words_time(3600).s, "3600 s");
    assert_string_equal(words_rate(54012.3).s, "54.0 k");
    assert_string_equal(words_option(16384).s, "16k");
    assert_string_equal(words_option(1000).s, "1000");
    assert_string_equal(words_option(0).s, "0");
    assert_string_equal(words_option(INT64_C(1) << 50).s, "1024t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
