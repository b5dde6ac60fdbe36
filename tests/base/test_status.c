/* test_status.c - status codes, their texts, and the detail of a failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

typedef struct code {
    pto_status status;
    int value;
    const char *name, *text, *hint;
} code;

static const code codes[] = {
#define CODE(name, value, text, hint) {PTO_##name, value, "PTO_" #name, text, hint},
    PTO_STATUS_MAP(CODE)
#undef CODE
};
static const size_t n_codes = sizeof codes / sizeof *codes;

static void every_code_has_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_codes; i++) {
        const code *c = &codes[i];
        assert_string_equal(pto_status_name(c->status), c->name);
        assert_string_equal(pto_status_text(c->status), c->text);
        assert_string_equal(pto_status_hint(c->status), c->hint);
        /* A text, not empty and not the name. */
        assert_true(strlen(c->text) >= 7);
        assert_true(strlen(c->hint) >= 7);
        assert_string_not_equal(c->text, c->hint);
        assert_null(strstr(c->text, "PTO_"));
    }
}

static void codes_differ(void **state)
{
    (void)state;
    assert_int_equal(PTO_OK, 0);
    for (size_t i = 0; i < n_codes; i++) {
        /* The values are stable; a gap would mean that a code was removed. */
        assert_int_equal(codes[i].value, (int)i);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(codes[i].name, codes[j].name);
            assert_string_not_equal(codes[i].text, codes[j].text);
        }
    }
}

static void unknown_codes_say_so(void **state)
{
    (void)state;
    const int unknown[] = {-1, (int)n_codes, 1000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        pto_status status = (pto_status)unknown[i];
        assert_string_equal(pto_status_name(status), "PTO_UNKNOWN_STATUS");
        assert_non_null(strstr(pto_status_text(status), "not a status"));
        assert_non_null(strstr(pto_status_hint(status), "pto_version"));
    }
}

static void fail_returns_the_code_and_keeps_the_detail(void **state)
{
    (void)state;
    assert_int_equal(ptoi_fail(PTO_BAD_DIM, "slice: dim %d of %s", 7, "two"), PTO_BAD_DIM);
    assert_string_equal(pto_error_detail(), "slice: dim 7 of two");
    /* A shorter detail after a longer one: nothing of the old one remains. */
    assert_int_equal(ptoi_fail(PTO_FULL, "x"), PTO_FULL);
    assert_string_equal(pto_error_detail(), "x");
    /* The detail of one failure may be part of the next. */
    ptoi_fail(PTO_FULL, "submit: %s, again", pto_error_detail());
    assert_string_equal(pto_error_detail(), "submit: x, again");
}

static void long_details_are_cut_visibly(void **state)
{
    (void)state;
    char text[2000];
    for (size_t length = 1; length < sizeof text; length++) {
        memset(text, 'a', length);
        text[length] = '\0';
        ptoi_fail(PTO_OVERFLOW, "%s", text);
        const char *detail = pto_error_detail();
        size_t got = strlen(detail);
        if (got == length) {
            assert_string_equal(detail, text);
            assert_true(got < 512);
        } else {
            assert_int_equal(got, 511);
            assert_string_equal(detail + got - 3, "...");
            assert_memory_equal(detail, text, got - 3);
        }
    }
    /* 511 bytes fit whole, one more does not. */
    memset(text, 'b', 512);
    text[511] = '\0';
    ptoi_fail(PTO_OVERFLOW, "%s", text);
    assert_string_equal(pto_error_detail(), text);
    ptoi_fail(PTO_OVERFLOW, "%sb", text);
    assert_string_not_equal(pto_error_detail(), text);
    assert_int_equal(strlen(pto_error_detail()), 511);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    /* Nothing has failed on this thread yet; other threads do not matter. */
    if (*pto_error_detail()) {
        return (void *)"the detail of another thread shows";
    }
    ptoi_fail(PTO_BAD_STEP, "thread %d", 2);
    return strcmp(pto_error_detail(), "thread 2") == 0 ? NULL : (void *)"wrong detail";
}

static void detail_belongs_to_the_thread(void **state)
{
    (void)state;
    ptoi_fail(PTO_BAD_STEP, "thread %d", 1);
    pthread_t thread;
    void *complaint = NULL;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, &complaint), 0);
    assert_null(complaint);
    assert_string_equal(pto_error_detail(), "thread 1");
}

static void version_is_the_one_of_the_header(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", PTO_VERSION_MAJOR, PTO_VERSION_MINOR,
             PTO_VERSION_PATCH);
    assert_string_equal(pto_version(), text);
    assert_string_equal(PTO_VERSION, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_words),
        cmocka_unit_test(codes_differ),
        cmocka_unit_test(unknown_codes_say_so),
        cmocka_unit_test(fail_returns_the_code_and_keeps_the_detail),
        cmocka_unit_test(long_details_are_cut_visibly),
        cmocka_unit_test(detail_belongs_to_the_thread),
        cmocka_unit_test(version_is_the_one_of_the_header),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
