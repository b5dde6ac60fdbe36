/* test_ready.c - ready queues under many threads, and sleep without lost wake-ups. */
#include "scheduler/ready.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/park.h"
#include "support.h"

static uint64_t below(test_rng *rng, uint64_t limit)
{
    return test_next(rng) % limit;
}

static void test_first_in_first_out(void **state)
{
    (void)state;
    ptoi_queue_ends ends;
    ptoi_queue_cell cells[8];
    const ptoi_queue q = {.ends = &ends, .cells = cells, .mask = 7};
    const uint32_t firsts[] = {0, 1, UINT32_MAX - 3, UINT32_MAX / 2 - 3};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
        ptoi_queue_reset(&q, firsts[f]);
        uint32_t in = 0, out = 0;
        test_rng rng = test_rng_make(test_seed() + f);
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(ptoi_queue_has_task(&q), in != out);
            if (in - out < 8 && below(&rng, 2)) {
                ptoi_queue_push(&q, in++);
            } else if (in != out) {
                assert_int_equal(ptoi_queue_pop(&q), out++);
            } else {
                assert_int_equal(ptoi_queue_pop(&q), PTOI_NONE);
            }
        }
    }
}

/* Each thread pops a token, counts it and pushes it again. Some threads sleep when they find
 * none, and are woken by a push. No token is lost or duplicated, and no thread hangs. */
enum { THREADS = 4, TOKENS = 6 };

typedef struct round_trip {
    ptoi_queue_ends ends;
    ptoi_queue_cell cells[8];
    ptoi_queue queue;
    ptoi_a32 idle;
    ptoi_a64 left; /* pops still to do */
    ptoi_a32 stop;
    ptoi_wake_line line[THREADS];
    ptoi_parker parker[THREADS];
    uint64_t popped[THREADS];
    ptoi_a32 out[TOKENS]; /* 1: a thread has it */
    ptoi_a32 wrong;
} round_trip;

typedef struct traveller {
    round_trip *trip;
    uint32_t id;
} traveller;

static void wake_one(round_trip *trip)
{
    for (uint32_t i = 0; ptoi_load_sc32(&trip->idle) && i < THREADS; i++) {
        if (ptoi_park_wake(&trip->parker[i])) {
            return;
        }
    }
}

static void *travel(void *context)
{
    const traveller *t = context;
    round_trip *trip = t->trip;
    while (!ptoi_load_sc32(&trip->stop)) {
        uint32_t token = ptoi_queue_pop(&trip->queue);
        if (token == PTOI_NONE) {
            ptoi_park_announce(&trip->parker[t->id]);
            if (ptoi_load_sc32(&trip->stop) || ptoi_queue_has_task(&trip->queue)) {
                ptoi_park_withdraw(&trip->parker[t->id]);
            } else {
                ptoi_park_sleep(&trip->parker[t->id]);
            }
            continue;
        }
        if (token >= TOKENS || ptoi_exchange32(&trip->out[token], 1)) {
            ptoi_set32(&trip->wrong, 1);
        }
        trip->popped[t->id]++;
        bool last = ptoi_fetch_add64(&trip->left, (uint64_t)-1) == 1;
        ptoi_store_sc32(&trip->out[token], 0);
        if (last) {
            ptoi_store_sc32(&trip->stop, 1);
            for (uint32_t i = 0; i < THREADS; i++) {
                ptoi_park_wake(&trip->parker[i]);
            }
        }
        ptoi_queue_push(&trip->queue, token);
        wake_one(trip);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    static round_trip trip;
    traveller who[THREADS];
    pthread_t thread[THREADS];
    memset(&trip, 0, sizeof trip);
    trip.queue = (ptoi_queue){.ends = &trip.ends, .cells = trip.cells, .mask = 7};
    ptoi_queue_reset(&trip.queue, UINT32_MAX - 1000);
    uint64_t total = test_effort(300000);
    ptoi_set64(&trip.left, total);
    for (uint32_t i = 0; i < TOKENS; i++) {
        ptoi_queue_push(&trip.queue, i);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        trip.parker[i] = (ptoi_parker){.line = &trip.line[i], .idle = &trip.idle};
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        who[i] = (traveller){&trip, i};
        assert_int_equal(pthread_create(&thread[i], NULL, travel, &who[i]), 0);
    }
    uint64_t popped = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        popped += trip.popped[i];
    }
    assert_int_equal(ptoi_get32(&trip.wrong), 0);
    assert_true(popped >= total); /* more, while the last one is about to count */
    assert_int_equal(ptoi_get32(&trip.idle), 0);
    unsigned found = 0;
    for (uint32_t token; (token = ptoi_queue_pop(&trip.queue)) != PTOI_NONE;) {
        assert_false(found >> token & 1);
        found |= 1u << token;
    }
    assert_int_equal(found, (1u << TOKENS) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_in_first_out),
        cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests_name("ready", tests, NULL, NULL);
}
