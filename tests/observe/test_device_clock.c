/* test_device_clock.c - the time of a device by answers that take long: a clock with another origin that
 * drifts, and buses that are slower in one direction. What is computed must be as exact as it says. */
#include "../runtime/rig.h"
#include "observe/device_clock.h"

/* Both clocks, in ns since the test began. */
typedef struct world {
    test_rng rng;
    uint64_t now; /* of the host */
    double rate;  /* of the device */
    uint64_t origin;
} world;

static uint64_t device_at(const world *w, uint64_t host)
{
    return w->origin + (uint64_t)((double)host * w->rate);
}

/* One question, with an answer after `there` and `back` ns. */
static void ask(world *w, ptoi_device_clock *c, uint64_t there, uint64_t back)
{
    const uint64_t asked = w->now;
    const uint64_t told = device_at(w, asked + there);
    w->now += there + back;
    ptoi_device_clock_add(c, asked, told, w->now);
}

static uint64_t apart(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Compares at random times between the first and the last answer. */
static void compare(world *w, ptoi_device_clock *c, uint64_t begin, uint64_t end)
{
    ptoi_device_clock_settle(c);
    assert_true(c->n > 0);
    for (int i = 0; i < 1000; i++) {
        const uint64_t host = begin + (uint64_t)test_between(&w->rng, 0, (int64_t)(end - begin));
        const uint64_t found = ptoi_device_clock_host(c, device_at(w, host));
        if (apart(found, host) > c->error + 2) {
            fail_msg("%lu ns at %lu: %lu ns away, and the error is %lu", (unsigned long)host,
                     (unsigned long)end, (unsigned long)apart(found, host),
                     (unsigned long)c->error);
        }
    }
}

static void it_is_as_exact_as_it_says(void **state)
{
    (void)state;
    const double rates[] = {1.0, 1.00005, 0.99995};
    for (uint64_t seed = 0; seed < 60; seed++) {
        ptoi_device_clock *c = calloc(1, sizeof *c);
        world w = {.rng = test_rng_make(seed), .now = 1000000, .rate = rates[seed % 3]};
        assert_non_null(c);
        w.origin = seed % 2 ? UINT64_C(1) << 60 : 17;
        const uint64_t begin = w.now, rounds = 1 + seed * 100; /* more than are kept */
        for (uint64_t i = 0; i < rounds; i++) {
            ask(&w, c, 200 + test_next(&w.rng) % 3000, 500 + test_next(&w.rng) % 50000);
            w.now += i + 1 < rounds ? 20000000 : 0;
        }
        assert_int_equal(c->asked, rounds);
        assert_true(c->n <= PTOI_CLOCK_ANSWERS);
        compare(&w, c, begin, w.now);
        assert_true(c->error < 60000);
        free(c);
    }
}

/* A question that nobody answered for long costs nothing if there are better answers. */
static void poor_answers_do_not_count(void **state)
{
    (void)state;
    ptoi_device_clock *c = calloc(1, sizeof *c);
    world w = {.rng = test_rng_make(1), .now = 5000, .rate = 1.0, .origin = 99};
    assert_non_null(c);
    ask(&w, c, 8000000, 100);
    ask(&w, c, 600, 600);
    ask(&w, c, 100, 9000000);
    ask(&w, c, 700, 600);
    ptoi_device_clock_settle(c);
    assert_int_equal(c->n, 2);
    assert_int_equal(c->asked, 4);
    assert_true(c->error < 2000);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_as_exact_as_it_says),
        cmocka_unit_test(poor_answers_do_not_count),
    };
    return cmocka_run_group_tests_name("device_clock", tests, NULL, NULL);
}
