/* test_cache_public.c - the cache of plans for authors of backends (pto/cache.h). What it is made of
 * is tested by test_cache.c. */
#include "../tensor/tensors.h"

#include <pthread.h>

#include <pto/cache.h>
#include <pto/op.h>
#include <pto/sim.h>

static const pto_device cpu = {PTO_DEVICE_CPU, 0}, sim = {PTO_DEVICE_SIM, 6};

static _Thread_local pto_cache *plans, *others;
static int dropped[8];

static void drop(void *value)
{
    ++*(int *)value;
}

static pto_cache_stats stats_of(const pto_cache *cache, pto_device device)
{
    pto_cache_stats s;
    expect_ok(pto_cache_get_stats(cache, device, &s));
    return s;
}

/* One for each device and operator; the least recently used value goes. */
static void values_are_kept_by_key_and_device(void **state)
{
    (void)state;
    pto_cache *cache = pto_cache_here(&plans, drop);
    const char a[] = "key a", b[] = "key b", c[] = "key c";
    assert_non_null(cache);
    assert_ptr_equal(pto_cache_here(&plans, drop), cache);
    assert_ptr_not_equal(pto_cache_here(&others, drop), cache);
    memset(dropped, 0, sizeof dropped);
    assert_null(pto_cache_find(cache, cpu, a, sizeof a));
    assert_true(pto_cache_put(cache, cpu, a, sizeof a, &dropped[0]));
    assert_ptr_equal(pto_cache_find(cache, cpu, a, sizeof a), &dropped[0]);
    assert_null(pto_cache_find(cache, cpu, a, sizeof a - 1)); /* another length, another key */
    assert_null(pto_cache_find(cache, sim, a, sizeof a));
    assert_null(pto_cache_find(others, cpu, a, sizeof a));
    assert_true(pto_cache_put(cache, sim, a, sizeof a, &dropped[1]));
    assert_ptr_equal(pto_cache_find(cache, cpu, a, sizeof a), &dropped[0]);
    expect_ok(pto_cache_resize(cache, 2));
    assert_true(pto_cache_put(cache, cpu, b, sizeof b, &dropped[2]));
    assert_non_null(pto_cache_find(cache, cpu, a, sizeof a)); /* so b is the oldest */
    assert_true(pto_cache_put(cache, cpu, c, sizeof c, &dropped[3]));
    assert_int_equal(dropped[2], 1);
    assert_true(pto_cache_put(cache, cpu, c, sizeof c, &dropped[4])); /* replaces */
    assert_int_equal(dropped[3], 1);
    const pto_cache_stats s = stats_of(cache, cpu);
    assert_int_equal(s.hits, 3);
    assert_int_equal(s.misses, 2);
    assert_int_equal(s.evictions, 1);
    assert_int_equal(s.entries, 2);
    assert_int_equal(s.capacity, 2);
    assert_int_equal(stats_of(cache, sim).entries, 1);
    expect_ok(pto_cache_clear(cache, &cpu));
    assert_int_equal(dropped[0], 1);
    assert_int_equal(dropped[1], 0);
    expect_ok(pto_cache_clear(cache, NULL));
    assert_int_equal(dropped[1], 1);
    expect_ok(pto_cache_resize(cache, 0));
    assert_false(pto_cache_put(cache, cpu, a, sizeof a, &dropped[5]));
    assert_int_equal(dropped[5], 0);
    expect_ok(pto_cache_resize(cache, PTO_CACHE_CAPACITY));
}

static void *use(void *context)
{
    const int64_t key = 5;
    assert_null(plans);
    pto_cache *cache = pto_cache_here(&plans, drop);
    assert_null(pto_cache_find(cache, cpu, &key, sizeof key)); /* nothing of another thread */
    assert_true(pto_cache_put(cache, cpu, &key, sizeof key, context));
    return NULL;
}

static void threads_have_their_own(void **state)
{
    (void)state;
    const int64_t key = 5;
    pthread_t thread;
    memset(dropped, 0, sizeof dropped);
    assert_true(pto_cache_put(pto_cache_here(&plans, drop), cpu, &key, sizeof key, &dropped[0]));
    assert_int_equal(pthread_create(&thread, NULL, use, &dropped[1]), 0);
    pthread_join(thread, NULL);
    assert_int_equal(dropped[1], 1); /* with its thread */
    assert_ptr_equal(pto_cache_find(plans, cpu, &key, sizeof key), &dropped[0]);
}

static void mistakes_are_refused(void **state)
{
    (void)state;
    const pto_device bad = {(pto_device_type)77, 0};
    char key[PTO_CACHE_KEY + 1] = "";
    pto_cache *cache = pto_cache_here(&plans, drop);
    pto_cache_stats s;
    assert_null(pto_cache_here(NULL, drop));
    assert_null(pto_cache_here(&plans, NULL));
    assert_null(pto_cache_find(NULL, cpu, key, 1));
    assert_null(pto_cache_find(cache, bad, key, 1));
    assert_null(pto_cache_find(cache, cpu, NULL, 1));
    assert_false(pto_cache_put(NULL, cpu, key, 1, &dropped[0]));
    assert_false(pto_cache_put(cache, bad, key, 1, &dropped[0]));
    assert_false(pto_cache_put(cache, cpu, key, 1, NULL));
    assert_false(pto_cache_put(cache, cpu, key, sizeof key, &dropped[0]));
    assert_true(pto_cache_put(cache, cpu, key, PTO_CACHE_KEY, &dropped[0]));
    expect_fail(pto_cache_get_stats(NULL, cpu, &s), PTO_NULL_ARGUMENT, "cache");
    expect_fail(pto_cache_get_stats(cache, cpu, NULL), PTO_NULL_ARGUMENT, "stats");
    expect_fail(pto_cache_get_stats(cache, bad, &s), PTO_BAD_DEVICE, "77");
    expect_fail(pto_cache_resize(NULL, 1), PTO_NULL_ARGUMENT, "cache");
    expect_fail(pto_cache_clear(NULL, NULL), PTO_NULL_ARGUMENT, "cache");
    expect_fail(pto_cache_clear(cache, &bad), PTO_BAD_DEVICE, "77");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_kept_by_key_and_device),
        cmocka_unit_test(threads_have_their_own),
        cmocka_unit_test(mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
