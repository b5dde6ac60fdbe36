/* test_page.c - the page gets its tables of the file format from the C headers. Here the
 * preprocessor makes the same tables again; each must be in the page exactly once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <pto/pto.h>

#include "observe/page.h"
#include "observe/ptrace.h"

static const char *page(void)
{
    return (const char *)ptoi_page;
}

static size_t count(const char *text)
{
    size_t n = 0;
    for (const char *at = page(); (at = strstr(at, text)); at += strlen(text)) {
        n++;
    }
    return n;
}

/* ---- Tables ---- */

#define ROW(NAME, ...) "    [\"" #NAME "\", " #__VA_ARGS__ "],\n"
#define SECTION_ROW(NAME, number, field, type, bytes)                                              \
    "    [\"" #NAME "\", " #number ", \"" #field "\", \"" #type "\", " #bytes "],\n"
#define EXPECT_TABLE(map, row)                                                                     \
    do {                                                                                           \
        if (count("const " #map " = [\n" map(row) "];\n") != 1) {                                  \
            fail_msg("the page does not have this table once:\n%s%s", #map "\n", map(row));        \
        }                                                                                          \
    } while (0)
#define EXPECT_NUMBER(name)                                                                        \
    do {                                                                                           \
        char line[64];                                                                             \
        snprintf(line, sizeof line, "const " #name " = %u;\n", name);                              \
        assert_int_equal(count(line), 1);                                                          \
    } while (0)

static void test_the_page_has_the_tables_of_the_headers(void **state)
{
    (void)state;
    EXPECT_TABLE(PTRACE_SECTION_MAP, SECTION_ROW);
    EXPECT_TABLE(PTRACE_LANE_MAP, ROW);
    EXPECT_TABLE(PTRACE_OUTCOME_MAP, ROW);
    EXPECT_TABLE(PTRACE_EDGE_MAP, ROW);
    EXPECT_TABLE(PTRACE_EVENT_MAP, ROW);
    EXPECT_TABLE(PTO_LEVEL_RING_MAP, ROW);
    EXPECT_TABLE(PTO_WORKER_MAP, ROW);
    EXPECT_TABLE(PTO_PARAM_MAP, ROW);
    EXPECT_TABLE(PTO_DTYPE_MAP, ROW);
    EXPECT_TABLE(PTO_OVERLAP_STAGE_MAP, ROW);
    EXPECT_NUMBER(PTRACE_VERSION);
    EXPECT_NUMBER(PTRACE_NONE);
    EXPECT_NUMBER(PTRACE_INLINE);
    EXPECT_NUMBER(PTRACE_TRANSFER);
    EXPECT_NUMBER(PTRACE_SAME_REGION);
    EXPECT_NUMBER(PTRACE_USER);
    EXPECT_NUMBER(PTRACE_NODEP);
}

/* Displayed texts are in a table, and nowhere else in the scripts. */
#define TEXT_OF(NAME, text, words) words,

static void test_the_scripts_repeat_no_table(void **state)
{
    static const char *const words[] = {PTRACE_EDGE_MAP(TEXT_OF)
                                            PTO_OVERLAP_STAGE_MAP(TEXT_OF) "\"bfloat16\""};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (count(words[i]) != 1) {
            fail_msg("the page has this %zu times: %s", count(words[i]), words[i]);
        }
    }
}

/* A stall is a proved deadlock; a trace shows waits for room. */
static void test_the_page_speaks_of_waits_for_room(void **state)
{
    (void)state;
    assert_true(count("waits for room") > 0);
    for (const char *at = page(); *at; at++) {
        if (tolower((unsigned char)*at) == 's' && strncmp(at + 1, "tall", 4) == 0) {
            fail_msg("the page says: %.40s", at);
        }
    }
}

/* ---- Events ---- */

static void test_each_ring_has_an_event_of_its_own(void **state)
{
    bool taken[PTRACE_EVENT_KINDS] = {[PTRACE_WAIT] = true, [PTRACE_PARKED] = true};
    (void)state;
    for (uint32_t ring = 0; ring < PTO_RINGS; ring++) {
        const uint32_t kind = ptrace_room(ring);
        assert_true(kind < PTRACE_EVENT_KINDS && !taken[kind]);
        taken[kind] = true;
        assert_int_equal(ptrace_room_ring(kind), ring);
    }
    assert_int_equal(ptrace_room_ring(PTRACE_WAIT), PTO_RINGS);
    assert_int_equal(ptrace_room_ring(PTRACE_PARKED), PTO_RINGS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_page_has_the_tables_of_the_headers),
        cmocka_unit_test(test_the_scripts_repeat_no_table),
        cmocka_unit_test(test_the_page_speaks_of_waits_for_room),
        cmocka_unit_test(test_each_ring_has_an_event_of_its_own),
    };
    return cmocka_run_group_tests_name("page", tests, NULL, NULL);
}
