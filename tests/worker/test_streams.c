/* test_streams.c - which stream a task goes to, what streams wait for, and markers: worker/streams.h on
 * a device that only writes down what it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "support.h"
#include "worker/streams.h"

/* ---- The device ---- */

static struct tape {
    char words[4096];
    uintptr_t streams, events;
    uintptr_t passed; /* events up to this one have passed */
    pto_status broken;
} tape;

static void note(const char *format, void *a, void *b)
{
    const size_t at = strlen(tape.words);
    snprintf(tape.words + at, sizeof tape.words - at, format, (unsigned)(uintptr_t)a,
             (unsigned)(uintptr_t)b);
}

static pto_status stream_create(void *self, void **stream)
{
    (void)self;
    *stream = (void *)tape.streams++;
    return PTO_OK;
}

static pto_status event_create(void *self, void **event)
{
    (void)self;
    *event = (void *)++tape.events;
    return tape.events == 5 && tape.broken ? tape.broken : PTO_OK;
}

static void destroy(void *self, void *it)
{
    (void)self;
    (void)it;
}

static pto_status event_record(void *self, void *event, void *stream)
{
    (void)self;
    note("record %u on %u; ", event, stream);
    return tape.broken;
}

static pto_status event_wait(void *self, void *stream, void *event)
{
    (void)self;
    note("%u waits for %u; ", stream, event);
    return tape.broken;
}

static pto_status event_query(void *self, void *event, bool *passed)
{
    (void)self;
    *passed = (uintptr_t)event <= tape.passed;
    return tape.broken;
}

static const pto_device_ops ops = {.size = sizeof ops,
                                   .streams = 3,
                                   .stream_create = stream_create,
                                   .stream_destroy = destroy,
                                   .event_create = event_create,
                                   .event_destroy = destroy,
                                   .event_record = event_record,
                                   .event_query = event_query,
                                   .event_wait = event_wait};

static void expect_words(const char *words)
{
    assert_string_equal(tape.words, words);
    tape.words[0] = '\0';
}

static ptoi_streams s;

static int open_streams(void **state)
{
    (void)state;
    memset(&tape, 0, sizeof tape);
    return (int)ptoi_streams_open(&s, &ops);
}

static int close_streams(void **state)
{
    (void)state;
    ptoi_streams_close(&s);
    return 0;
}

/* Puts a task that needs these places; returns its stream. */
static uint32_t put(uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t places[] = {a, b, c};
    ptoi_needs needs = {0};
    for (uint32_t i = 0; i < 3; i++) {
        if (places[i]) {
            ptoi_needs_add(&needs, i, places[i]);
        }
    }
    const uint32_t at = ptoi_streams_choose(&s, &needs);
    assert_int_equal(ptoi_streams_order(&s, at, &needs), PTO_OK);
    (void)ptoi_streams_put(&s, at);
    return at;
}

/* ---- Tests ---- */

static void a_chain_stays_on_its_stream(void **state)
{
    (void)state;
    assert_int_equal(put(0, 0, 0), 0);
    for (uint64_t i = 1; i < 10; i++) {
        assert_int_equal(put(i, 0, 0), 0);
    }
    assert_int_equal(put(0, 0, 0), 1); /* independent ones take turns */
    assert_int_equal(put(0, 0, 0), 2);
    assert_int_equal(put(0, 0, 0), 0);
    expect_words("");
}

static void a_fork_waits_once(void **state)
{
    (void)state;
    assert_int_equal(put(0, 0, 0), 0);
    assert_int_equal(put(1, 0, 0), 0); /* the first goes on there */
    assert_int_equal(put(1, 0, 0), 1); /* the marker is behind both: no earlier place had one */
    expect_words("record 1 on 0; 1 waits for 1; ");
    assert_int_equal(put(1, 1, 0), 1); /* its stream has waited for stream 0 before */
    assert_int_equal(put(2, 2, 0), 0); /* a join, on the stream of its first tail */
    expect_words("record 33 on 1; 0 waits for 33; ");
    assert_int_equal(s.stream[0].seen[1], 2);
}

static void what_has_passed_needs_no_wait(void **state)
{
    (void)state;
    assert_int_equal(put(0, 0, 0), 0);
    assert_int_equal(put(1, 0, 0), 0);
    assert_int_equal(ptoi_streams_mark(&s, 0), PTO_OK);
    assert_int_equal(ptoi_streams_mark(&s, 0), PTO_OK); /* there is one already */
    expect_words("record 1 on 0; ");
    assert_int_equal(ptoi_streams_poll(&s, 0), PTO_OK);
    assert_int_equal(s.stream[0].passed, 0);
    tape.passed = 1;
    assert_int_equal(ptoi_streams_poll(&s, 0), PTO_OK);
    assert_int_equal(s.stream[0].passed, 2);
    assert_int_equal(put(1, 0, 0), 1);
    expect_words("");
}

static void the_nearest_marker_is_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(put((uint64_t)i, 0, 0), 0);
        assert_int_equal(ptoi_streams_mark(&s, 0), PTO_OK);
    }
    tape.words[0] = '\0';
    assert_int_equal(put(3, 0, 0), 1);
    expect_words("1 waits for 3; ");
    assert_int_equal(s.stream[1].seen[0], 3);
    assert_int_equal(put(2, 0, 0), 2);
    expect_words("2 waits for 2; ");
}

/* With all markers in use the last one moves on, and nothing counts as passed too early. */
static void markers_run_out(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < PTOI_MARKERS + 5; i++) {
        assert_int_equal(put(i, 0, 0), 0);
        assert_int_equal(ptoi_streams_mark(&s, 0), PTO_OK);
        assert_int_equal(s.stream[0].marked, i + 1);
    }
    tape.passed = PTOI_MARKERS - 1;
    assert_int_equal(ptoi_streams_poll(&s, 0), PTO_OK);
    assert_int_equal(s.stream[0].passed, PTOI_MARKERS - 1);
    assert_int_equal(s.stream[0].n, 1);
    assert_int_equal(put(PTOI_MARKERS, 0, 0), 1); /* only the moved marker stands for it */
    assert_int_equal(s.stream[1].seen[0], PTOI_MARKERS + 5);
    tape.passed = PTOI_MARKERS;
    assert_int_equal(ptoi_streams_poll(&s, 0), PTO_OK);
    assert_int_equal(s.stream[0].passed, PTOI_MARKERS + 5);
    for (uint64_t i = 0; i < 3; i++) { /* the ring goes round */
        assert_int_equal(put(PTOI_MARKERS + 5 + i, 0, 0), 0);
        assert_int_equal(ptoi_streams_mark(&s, 0), PTO_OK);
    }
    assert_int_equal(s.stream[0].n, 3);
}

static void errors_are_passed_on(void **state)
{
    (void)state;
    assert_int_equal(put(0, 0, 0), 0);
    assert_int_equal(put(1, 0, 0), 0);
    tape.broken = PTO_DEVICE_LOST;
    assert_int_equal(ptoi_streams_mark(&s, 0), PTO_DEVICE_LOST);
    assert_int_equal(s.stream[0].marked, 0);
    ptoi_needs needs = {0};
    ptoi_needs_add(&needs, 0, 1);
    ptoi_needs_add(&needs, 0, 0); /* the later place counts */
    assert_int_equal(ptoi_streams_order(&s, 1, &needs), PTO_DEVICE_LOST);
    tape.broken = PTO_OK;
    assert_int_equal(ptoi_streams_mark(&s, 0), PTO_OK);
    tape.broken = PTO_DEVICE_LOST;
    assert_int_equal(ptoi_streams_poll(&s, 0), PTO_DEVICE_LOST);
    assert_int_equal(s.stream[0].passed, 0);
    tape.events = 0;
    assert_int_equal(ptoi_streams_open(&s, &ops), PTO_DEVICE_LOST); /* the fifth event */
    assert_int_equal(s.n, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_streams, close_streams)
    const struct CMUnitTest tests[] = {
        TEST(a_chain_stays_on_its_stream),
        TEST(a_fork_waits_once),
        TEST(what_has_passed_needs_no_wait),
        TEST(the_nearest_marker_is_waited_for),
        TEST(markers_run_out),
        TEST(errors_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
