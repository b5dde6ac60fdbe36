/* test_rearrange_plan.c - plans: those that the user keeps, and those that each thread keeps. */
#include "rearranges.h"

#include <pthread.h>

static const pto_device cpu = {PTO_DEVICE_CPU, 0};

/* ---- The cache ------------------------------------------------------------------------------ */

static pto_rearrange_cache_stats stats(void)
{
    pto_rearrange_cache_stats s;
    expect_ok(pto_rearrange_cache_get(cpu, &s));
    return s;
}

static void expect_counts(uint64_t hits, uint64_t misses, uint64_t evictions, uint64_t plans,
                          int line)
{
    pto_rearrange_cache_stats s = stats();
    if (s.hits != hits || s.misses != misses || s.evictions != evictions || s.plans != plans) {
        print_error("line %d: hits %d, misses %d, evictions %d, plans %d\n", line, (int)s.hits,
                    (int)s.misses, (int)s.evictions, (int)s.plans);
        fail();
    }
}

#define EXPECT_COUNTS(hits, misses, evictions, plans)                                              \
    expect_counts((hits), (misses), (evictions), (plans), __LINE__)

/* Copies n bytes. */
static void copy(int64_t n)
{
    pto_tensor src = dense_at(0, PTO_UINT8, 1, DIMS(n)), dst = dense_at(1, PTO_UINT8, 1, DIMS(n));
    expect_ok(pto_rearrange(&dst, &src));
}

/* Each of these on a thread of its own, which begins with nothing. */
static void *counts_of_a_thread(void *unused)
{
    (void)unused;
    assert_int_equal(stats().capacity, PTO_REARRANGE_CACHE);
    EXPECT_COUNTS(0, 0, 0, 0);
    copy(5);
    EXPECT_COUNTS(0, 1, 0, 1);
    copy(5);
    copy(5);
    EXPECT_COUNTS(2, 1, 0, 1);
    for (int64_t n = 6; n < 105; n++) {
        copy(n);
    }
    EXPECT_COUNTS(2, 100, 0, 100);
    copy(5); /* used just now, so another one goes */
    copy(105);
    EXPECT_COUNTS(3, 101, 1, 100);
    copy(5);
    EXPECT_COUNTS(4, 101, 1, 100);
    copy(6);
    EXPECT_COUNTS(4, 102, 2, 100);

    expect_ok(pto_rearrange_cache_resize(2));
    assert_int_equal(stats().capacity, 2);
    EXPECT_COUNTS(4, 102, 100, 2);
    copy(6);
    copy(5); /* the two used last are left */
    EXPECT_COUNTS(6, 102, 100, 2);
    expect_ok(pto_rearrange_cache_clear(cpu));
    EXPECT_COUNTS(6, 102, 100, 0);
    copy(5);
    expect_ok(pto_rearrange_cache_clear_all());
    EXPECT_COUNTS(6, 103, 100, 0);

    expect_ok(pto_rearrange_cache_resize(0)); /* thinks anew each time, and is right */
    copy(5);
    copy(5);
    EXPECT_COUNTS(6, 105, 100, 0);
    expect_ok(pto_rearrange_cache_resize(1000));
    copy(5);
    copy(5);
    EXPECT_COUNTS(7, 106, 100, 1);
    expect_ok(pto_rearrange_cache_clear((pto_device){PTO_DEVICE_NVIDIA, 0}));
    EXPECT_COUNTS(7, 106, 100, 1);
    return NULL;
}

static void counts(void **state)
{
    (void)state;
    copy(77); /* this thread has plans of its own */
    pto_rearrange_cache_stats before = stats();
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, counts_of_a_thread, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    pto_rearrange_cache_stats after = stats();
    assert_memory_equal(&before, &after, sizeof before);
    pto_rearrange_cache_stats s;
    expect_fail(pto_rearrange_cache_get(cpu, NULL), PTO_NULL_ARGUMENT, "stats");
    expect_fail(pto_rearrange_cache_get((pto_device){PTO_DEVICE_CPU, 3}, &s), PTO_BAD_DEVICE,
                "cpu:3");
    expect_fail(pto_rearrange_cache_clear((pto_device){(pto_device_type)66, 0}), PTO_BAD_DEVICE,
                "66");
}

/* Clearing before anything was ever asked for. */
static void *clears_nothing(void *unused)
{
    (void)unused;
    expect_ok(pto_rearrange_cache_clear_all());
    expect_ok(pto_rearrange_cache_clear(cpu));
    EXPECT_COUNTS(0, 0, 0, 0);
    return NULL;
}

static void clears_of_nothing(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, clears_nothing, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Copies that differ in one thing only have plans of their own, and refusals leave none. */
static void what_a_plan_depends_on(void **state)
{
    (void)state;
    expect_ok(pto_rearrange_cache_clear_all());
    pto_tensor src = dense_at(0, PTO_FLOAT32, 2, DIMS(6, 8)),
               dst = dense_at(1, PTO_FLOAT32, 2, DIMS(6, 8)), t;
    uint64_t hits = stats().hits, misses = stats().misses, plans = 0;
#define NEW_PLAN(to, from)                                                                         \
    do {                                                                                           \
        expect_ok(pto_rearrange(to, from));                                                        \
        EXPECT_COUNTS(hits, ++misses, stats().evictions, ++plans);                                 \
    } while (0)
#define SAME_PLAN(to, from)                                                                        \
    do {                                                                                           \
        expect_ok(pto_rearrange(to, from));                                                        \
        EXPECT_COUNTS(++hits, misses, stats().evictions, plans);                                   \
    } while (0)
    NEW_PLAN(&dst, &src);
    SAME_PLAN(&dst, &src);
    pto_tensor of_int[2] = {dst, src}; /* the same size of elements */
    of_int[0].dtype = of_int[1].dtype = PTO_INT32;
    SAME_PLAN(&of_int[0], &of_int[1]);
    of_int[0].dtype = of_int[1].dtype = PTO_INT16;
    NEW_PLAN(&of_int[0], &of_int[1]);
    t = dst;
    t.offset = 16; /* another place, one line on */
    SAME_PLAN(&t, &src);
    t.offset = 15;
    NEW_PLAN(&t, &src);
    t = src;
    t.offset = 1;
    NEW_PLAN(&dst, &t);
    t = dst;
    t.strides[0] = 9;
    NEW_PLAN(&t, &src);
    t = src;
    t.strides[0] = 9;
    NEW_PLAN(&dst, &t);
    pto_tensor to = dense_at(1, PTO_FLOAT32, 2, DIMS(8, 6)),
               from = dense_at(0, PTO_FLOAT32, 2, DIMS(8, 6));
    NEW_PLAN(&to, &from);
    to = dense_at(1, PTO_FLOAT32, 3, DIMS(1, 6, 8)),
    from = dense_at(0, PTO_FLOAT32, 3, DIMS(1, 6, 8));
    NEW_PLAN(&to, &from);
    to.strides[0] = from.strides[0] = INT64_MIN; /* of one element: it says nothing */
    SAME_PLAN(&to, &from);
    to = dense_at(1, PTO_FLOAT32, 2, DIMS(6, 8));
    to.strides[0] = 0;
    expect_fail(pto_rearrange(&to, &src), PTO_SELF_OVERLAP, "[0, 1]");
    EXPECT_COUNTS(hits, ++misses, stats().evictions, plans);
    expect_fail(pto_rearrange(&to, &src), PTO_SELF_OVERLAP, "[0, 1]"); /* and not by the cache */
    EXPECT_COUNTS(hits, ++misses, stats().evictions, plans);
#undef NEW_PLAN
#undef SAME_PLAN
}

/* Many random layouts over and over, more than are kept: each copy is right, whatever was kept. */
static void plans_are_never_mixed_up(void **state)
{
    (void)state;
    enum { LAYOUTS = 150 };
    static pto_tensor pairs[LAYOUTS][2];
    test_rng rng = test_rng_make(test_seed());
    for (int i = 0; i < LAYOUTS;) {
        pto_tensor *dst = &pairs[i][0], *src = &pairs[i][1];
        int64_t shape[PTO_MAX_DIMS];
        int32_t ndim = random_shape(&rng, 4, 60, shape);
        pto_dtype dtype = random_dtype(&rng);
        i += place(&rng, 1, dtype, ndim, shape, dst) && place(&rng, 0, dtype, ndim, shape, src) &&
             !meets_itself(dst);
    }
    scramble(&rng);
    for (uint64_t round = random_rounds(20000); round > 0; round--) {
        int64_t hot = test_chance(&rng, 70) ? 20 : LAYOUTS;
        const pto_tensor *pair = pairs[test_between(&rng, 0, hot - 1)];
        expect_ok(pto_rearrange(&pair[0], &pair[1]));
        naive_copy(&pair[0], &pair[1]);
        if (round % 16 == 0) {
            expect_same();
        }
    }
    expect_same();
    assert_true(stats().hits && stats().evictions);
}

/* ---- Plans of the user ---------------------------------------------------------------------- */

static void a_plan_runs_where_it_fits(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    pto_tensor src = dense_at(0, PTO_FLOAT32, 2, DIMS(12, 20)), from,
               dst = dense_at(1, PTO_FLOAT32, 2, DIMS(20, 12));
    pto_rearrange_plan *plan = NULL;
    expect_ok(pto_tensor_transpose(&src, 0, 1, &from));
    expect_ok(pto_rearrange_plan_create(&dst, &from, &plan));
    for (int64_t line = 0; line < 8; line++) {
        scramble(&rng);
        pto_tensor d = dst, s = from;
        d.offset = 16 * line;
        s.offset = 16 * (7 - line);
        d.dtype = s.dtype = line % 2 ? PTO_INT32 : PTO_FLOAT32;
        expect_ok(pto_rearrange_plan_execute(plan, &d, &s));
        naive_copy(&d, &s);
        expect_same();
    }
    pto_rearrange_plan_destroy(plan);
    pto_rearrange_plan_destroy(NULL);
}

static void a_plan_refuses_what_it_is_not_for(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    const pto_tensor src = dense_at(0, PTO_FLOAT32, 2, DIMS(12, 20)),
                     dst = dense_at(1, PTO_FLOAT32, 2, DIMS(12, 20));
    pto_rearrange_plan *plan = NULL;
    expect_ok(pto_rearrange_plan_create(&dst, &src, &plan));
    pto_tensor d = dst, s = src;
    expect_fail(pto_rearrange_plan_execute(NULL, &d, &s), PTO_NULL_ARGUMENT, "plan");
    expect_fail(pto_rearrange_plan_execute(plan, NULL, &s), PTO_NULL_ARGUMENT, "dst");
    expect_fail(pto_rearrange_plan_execute(plan, &d, NULL), PTO_NULL_ARGUMENT, "src");
    s.dtype = PTO_INT32;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_DTYPE, "int32", "float32");
    s.dtype = d.dtype = PTO_INT16;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_DTYPE, "2 bytes", "for 4");
    d = dst, s = src;
    s.shape[0] = 11;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_SHAPE, "[11, 20]", "[12, 20]");
    d.shape[0] = 11;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_SHAPE, "[11, 20]", "[12, 20]");
    d = dense_at(1, PTO_FLOAT32, 1, DIMS(240)), s = dense_at(0, PTO_FLOAT32, 1, DIMS(240));
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_SHAPE, "[240]", "[12, 20]");
    d = dst, s = src;
    d.strides[0] = 21;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_PLAN, "dst", "[21, 1]",
                "[20, 1]");
    d = dst, s = src;
    s.strides[1] = 0;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_PLAN, "src", "[20, 0]",
                "[20, 1]");
    d = dst, s = src;
    d.offset = 1;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_PLAN, "4 and 0", "0 and 0");
    d = dst, s = src;
    s.offset = 15;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_PLAN, "0 and 60", "0 and 0");
    d = dst, s = src;
    d.device = s.device = (pto_device){PTO_DEVICE_ASCEND, 2};
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_BAD_PLAN, "ascend:2", "cpu:0");
    d.device = (pto_device){PTO_DEVICE_ASCEND, 1};
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_DEVICES_DIFFER, "ascend:2",
                "ascend:1");
    d = dst, s = src;
    s.storage = dst.storage;
    s.offset = 16;
    expect_fail(pto_rearrange_plan_execute(plan, &d, &s), PTO_OVERLAP, "share memory");
    s = dst; /* the very same: nothing to do */
    expect_ok(pto_rearrange_plan_execute(plan, &d, &s));
    expect_same();
    pto_rearrange_plan_destroy(plan);
}

static void plans_of_nonsense(void **state)
{
    (void)state;
    pto_tensor src = dense_at(0, PTO_FLOAT32, 1, DIMS(20)),
               dst = dense_at(1, PTO_FLOAT32, 1, DIMS(20));
    pto_rearrange_plan *plan = NULL;
    expect_fail(pto_rearrange_plan_create(NULL, &src, &plan), PTO_NULL_ARGUMENT, "dst");
    expect_fail(pto_rearrange_plan_create(&dst, NULL, &plan), PTO_NULL_ARGUMENT, "src");
    expect_fail(pto_rearrange_plan_create(&dst, &src, NULL), PTO_NULL_ARGUMENT, "plan");
    dst.strides[0] = 0;
    expect_fail(pto_rearrange_plan_create(&dst, &src, &plan), PTO_SELF_OVERLAP, "[20]", "[0]");
    assert_null(plan);
}

static void plans_describe_themselves(void **state)
{
    (void)state;
    pto_tensor src = dense_at(0, PTO_FLOAT32, 2, DIMS(32, 32)), from,
               dst = dense_at(1, PTO_FLOAT32, 2, DIMS(32, 32));
    expect_ok(pto_tensor_transpose(&src, 0, 1, &from));
    pto_rearrange_plan *plan = NULL;
    expect_ok(pto_rearrange_plan_create(&dst, &from, &plan));
    char text[256], some[8];
    size_t length = pto_rearrange_plan_format(plan, text, sizeof text);
    assert_true(length > 10 && length < sizeof text && strlen(text) == length);
    assert_non_null(strstr(text, "tiles of 4-byte elements: 16 x 16, in planes of 32 x 32"));
    assert_int_equal(pto_rearrange_plan_format(plan, some, sizeof some), length);
    assert_int_equal(strlen(some), sizeof some - 1);
    assert_int_equal(pto_rearrange_plan_format(plan, NULL, 0), length);
    assert_int_equal(pto_rearrange_plan_format(plan, NULL, 99), length);
    assert_int_equal(pto_rearrange_plan_format(NULL, text, sizeof text), strlen("(no plan)"));
    pto_rearrange_plan_destroy(plan);
    /* Short runs stay in the caches, however many they are. */
    static char many[2][1 << 23];
    expect_ok(
        pto_tensor_init(&src, many[0], 1 << 23, PTO_UINT8, 2, DIMS(1 << 16, 100), DIMS(128, 1), 0));
    expect_ok(pto_tensor_init(&dst, many[1], 1 << 23, PTO_UINT8, 2, DIMS(1 << 16, 100), NULL, 0));
    expect_ok(pto_rearrange_plan_create(&dst, &src, &plan));
    (void)pto_rearrange_plan_format(plan, text, sizeof text);
    assert_non_null(strstr(text, "runs of bytes: 65536 x 100"));
    assert_null(strstr(text, "caches"));
    pto_rearrange_plan_destroy(plan);
}

/* What is wrong with a tensor is wrong whether or not a plan for its layout is known. */
static void nothing_at_null_is_refused_with_and_without_a_plan(void **state)
{
    (void)state;
    pto_tensor src = dense_at(0, PTO_FLOAT32, 1, DIMS(0)), dst = src, bad = src;
    bad.storage = NULL;
    bad.storage_bytes = 64;
    expect_ok(pto_rearrange_cache_clear_all());
    expect_fail(pto_rearrange(&bad, &src), PTO_NULL_ARGUMENT, "64");
    dst.storage = NULL;
    dst.storage_bytes = 0;
    expect_ok(pto_rearrange(&dst, &src)); /* of the same key */
    expect_fail(pto_rearrange(&bad, &src), PTO_NULL_ARGUMENT, "64");
}

/* One plan, several threads at a time, each with memory of its own. */
enum { RUNNERS = 4, SIDE = 96 };

typedef struct runner {
    const pto_rearrange_plan *plan;
    pthread_t thread;
    bool good;
    _Alignas(64) int32_t from[SIDE * SIDE];
    _Alignas(64) int32_t to[SIDE * SIDE];
} runner;

static pto_tensor square(int32_t *memory)
{
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, memory, SIDE * SIDE * sizeof *memory, PTO_INT32, 2,
                              DIMS(SIDE, SIDE), NULL, 0));
    return t;
}

static pto_tensor turned(int32_t *memory)
{
    pto_tensor t = square(memory);
    expect_ok(pto_tensor_transpose(&t, 0, 1, &t));
    return t;
}

static void *run_plan(void *argument)
{
    runner *r = argument;
    r->good = true;
    for (int round = 0; round < 50 && r->good; round++) {
        for (int i = 0; i < SIDE * SIDE; i++) {
            r->from[i] = i * (round + 1);
        }
        pto_tensor dst = square(r->to), src = turned(r->from);
        r->good = pto_rearrange_plan_execute(r->plan, &dst, &src) == PTO_OK;
        for (int i = 0; i < SIDE * SIDE; i++) {
            r->good &= r->to[i] == i % SIDE * SIDE * (round + 1) + i / SIDE * (round + 1);
        }
    }
    return NULL;
}

static void one_plan_many_threads(void **state)
{
    (void)state;
    static runner runners[RUNNERS];
    pto_rearrange_plan *plan = NULL;
    pto_tensor dst = square(runners[0].to), src = turned(runners[0].from);
    expect_ok(pto_rearrange_plan_create(&dst, &src, &plan));
    for (int i = 0; i < RUNNERS; i++) {
        runners[i].plan = plan;
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_plan, &runners[i]), 0);
    }
    for (int i = 0; i < RUNNERS; i++) {
        assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
        assert_true(runners[i].good);
    }
    pto_rearrange_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(clears_of_nothing),
        cmocka_unit_test(what_a_plan_depends_on),
        cmocka_unit_test(plans_are_never_mixed_up),
        cmocka_unit_test(a_plan_runs_where_it_fits),
        cmocka_unit_test(a_plan_refuses_what_it_is_not_for),
        cmocka_unit_test(plans_of_nonsense),
        cmocka_unit_test(plans_describe_themselves),
        cmocka_unit_test(nothing_at_null_is_refused_with_and_without_a_plan),
        cmocka_unit_test(one_plan_many_threads),
    };
    return cmocka_run_group_tests_name("rearrange plans", tests, NULL, NULL);
}
