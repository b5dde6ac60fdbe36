/* cmocka.h - the part of cmocka that our tests use, in one header, for cross-built tests.
 *
 * Debian has no cmocka for a cross compiler. This has the same names and prints the same lines, which
 * cmake/run-test.sh counts. An assertion that fails prints its place and ends its test; outside of a
 * test, or if CMOCKA_TEST_ABORT is set, it ends the program.
 */
#ifndef PTO_CROSS_CMOCKA_H
#define PTO_CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
    const char *name;
    CMUnitTestFunction test_func;
    CMFixtureFunction setup_func;
    CMFixtureFunction teardown_func;
    void *initial_state;
};

enum { CMOCKA_PASSED, CMOCKA_FAILED, CMOCKA_SKIPPED };

static jmp_buf cmocka_test;
static int cmocka_in_test;

__attribute__((format(printf, 1, 2), unused)) static void print_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
}

__attribute__((format(printf, 1, 2), unused)) static void print_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
}

__attribute__((noreturn, unused)) static void _fail(const char *file, int line)
{
    print_error("%s:%d: error: Failure!\n", file, line);
    if (!cmocka_in_test || getenv("CMOCKA_TEST_ABORT")) {
        abort();
    }
    longjmp(cmocka_test, CMOCKA_FAILED);
}

__attribute__((noreturn, unused)) static void _skip(void)
{
    longjmp(cmocka_test, CMOCKA_SKIPPED);
}

#define fail() _fail(__FILE__, __LINE__)
#define skip() _skip()
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        print_error(__VA_ARGS__);                                                                  \
        print_error("\n");                                                                         \
        fail();                                                                                    \
    } while (0)

static inline void cmocka_check(int good, const char *text, const char *file, int line)
{
    if (!good) {
        print_error("%s\n", text);
        _fail(file, line);
    }
}

static inline void cmocka_equal(uintmax_t a, uintmax_t b, int equal, const char *file, int line)
{
    if ((a == b) != equal) {
        print_error("%#jx %s %#jx\n", a, equal ? "!=" : "==", b);
        _fail(file, line);
    }
}

static inline void cmocka_string(const char *a, const char *b, int equal, const char *file,
                                 int line)
{
    if ((strcmp(a, b) == 0) != equal) {
        print_error("\"%s\" %s \"%s\"\n", a, equal ? "!=" : "==", b);
        _fail(file, line);
    }
}

#define assert_true(c) cmocka_check(!!(c), #c, __FILE__, __LINE__)
#define assert_false(c) cmocka_check(!(c), "!(" #c ")", __FILE__, __LINE__)
#define assert_non_null(p) cmocka_check((p) != NULL, #p " is NULL", __FILE__, __LINE__)
#define assert_null(p) cmocka_check((p) == NULL, #p " is not NULL", __FILE__, __LINE__)
#define assert_ptr_equal(a, b) cmocka_check((a) == (b), #a " != " #b, __FILE__, __LINE__)
#define assert_ptr_not_equal(a, b) cmocka_check((a) != (b), #a " == " #b, __FILE__, __LINE__)
#define assert_int_equal(a, b) cmocka_equal((uintmax_t)(a), (uintmax_t)(b), 1, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                                 \
    cmocka_equal((uintmax_t)(a), (uintmax_t)(b), 0, __FILE__, __LINE__)
#define assert_in_range(v, low, high)                                                              \
    cmocka_check((uintmax_t)(v) >= (uintmax_t)(low) && (uintmax_t)(v) <= (uintmax_t)(high),        \
                 #v " is not in its range", __FILE__, __LINE__)
#define assert_string_equal(a, b) cmocka_string((a), (b), 1, __FILE__, __LINE__)
#define assert_string_not_equal(a, b) cmocka_string((a), (b), 0, __FILE__, __LINE__)
#define assert_memory_equal(a, b, n)                                                               \
    cmocka_check(!memcmp((a), (b), (n)), "the memory of " #a " and " #b " differs", __FILE__,      \
                 __LINE__)

#define cmocka_unit_test(f)                                                                        \
    {                                                                                              \
#f, f, NULL, NULL, NULL                                                                    \
    }
#define cmocka_unit_test_prestate(f, state)                                                        \
    {                                                                                              \
#f, f, NULL, NULL, state                                                                   \
    }
#define cmocka_unit_test_setup_teardown(f, setup, teardown)                                        \
    {                                                                                              \
#f, f, setup, teardown, NULL                                                               \
    }

static inline int cmocka_run_one(const struct CMUnitTest *test, void *state)
{
    state = test->initial_state ? test->initial_state : state;
    cmocka_in_test = 1;
    const int result = setjmp(cmocka_test);
    if (result == CMOCKA_PASSED) {
        if (test->setup_func && test->setup_func(&state)) {
            _fail(test->name, 0);
        }
        test->test_func(&state);
        if (test->teardown_func && test->teardown_func(&state)) {
            _fail(test->name, 0);
        }
    }
    cmocka_in_test = 0;
    return result;
}

static inline int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests,
                                          size_t n, CMFixtureFunction setup,
                                          CMFixtureFunction teardown)
{
    static const char *const words[] = {"[       OK ]", "[  FAILED  ]", "[  SKIPPED ]"};
    void *state = NULL;
    int failed = 0;
    printf("[==========] Running %zu test(s) of %s.\n", n, group);
    if (setup && setup(&state)) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        printf("[ RUN      ] %s\n", tests[i].name);
        fflush(stdout);
        const int result = cmocka_run_one(&tests[i], state);
        printf("%s %s\n", words[result], tests[i].name);
        failed += result == CMOCKA_FAILED;
    }
    printf("[==========] %zu test(s) run.\n", n);
    return teardown && teardown(&state) ? -1 : failed;
}

#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    _cmocka_run_group_tests((name), (tests), sizeof(tests) / sizeof *(tests), (setup), (teardown))
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif /* PTO_CROSS_CMOCKA_H */
