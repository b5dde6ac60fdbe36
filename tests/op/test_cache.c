/* test_cache.c - caches by key, thread and device, against a naive model. */
#include "../tensor/tensors.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pto/kernel.h>

#include "device/device.h"
#include "op/cache.h"

static const pto_device cpu = {PTO_DEVICE_CPU, 0};

/* ---- A device ----------------------------------------------------------------------------- */

/* What is added stays, so each test that fails one has an index of its own. */
typedef struct fake {
    int currents;
    bool fails;
} fake;

static pto_status fake_current(void *self)
{
    fake *f = self;
    f->currents++;
    return f->fails ? pto_fail(PTO_SYSTEM, "the fake is gone") : PTO_OK;
}

static pto_device add_fake(fake *f, int32_t index)
{
    const pto_device device = {PTO_DEVICE_NVIDIA, index};
    const pto_device_ops ops = {.size = sizeof ops, .self = f, .set_current = fake_current};
    expect_ok(pto_device_add(device, &ops));
    return device;
}

/* ---- Values ------------------------------------------------------------------------------- */

/* One that knows where it belongs, and what happened to it. */
typedef struct value {
    pto_device device;
    int drops;
    bool elsewhere; /* dropped with another device current */
} value;

static void drop(void *it)
{
    value *v = it;
    v->drops++;
    v->elsewhere = !ptoi_device_equal(pto_device_current(), v->device);
}

static bool put(ptoi_cache *cache, uint64_t key, value *v)
{
    v->device = cache->device;
    return ptoi_cache_put(cache, &key, sizeof key, ptoi_hash(&key, sizeof key), v);
}

static value *find(ptoi_cache *cache, uint64_t key)
{
    return ptoi_cache_find(cache, &key, sizeof key, ptoi_hash(&key, sizeof key));
}

static void expect_stats(const ptoi_caches *caches, pto_device device, ptoi_cache_stats want)
{
    ptoi_cache_stats got = ptoi_caches_stats(caches, device);
    assert_int_equal(got.hits, want.hits);
    assert_int_equal(got.misses, want.misses);
    assert_int_equal(got.evictions, want.evictions);
    assert_int_equal(got.entries, want.entries);
    assert_int_equal(got.capacity, want.capacity);
}

/* ---- The basics --------------------------------------------------------------------------- */

static void the_least_recently_used_goes(void **state)
{
    (void)state;
    value v[5] = {{.drops = 0}};
    ptoi_caches *caches = ptoi_caches_create(drop);
    expect_stats(caches, cpu, (ptoi_cache_stats){.capacity = 100});
    expect_ok(ptoi_caches_resize(caches, 3));
    ptoi_cache *cache = ptoi_caches_at(caches, cpu);
    assert_null(find(cache, 0));
    for (uint64_t k = 0; k < 3; k++) {
        assert_true(put(cache, k, &v[k]));
    }
    assert_ptr_equal(find(cache, 0), &v[0]); /* so that 1 is the oldest */
    assert_true(put(cache, 3, &v[3]));
    assert_int_equal(v[1].drops, 1);
    assert_null(find(cache, 1));
    assert_true(put(cache, 2, &v[2])); /* the same again: used, not dropped */
    assert_int_equal(v[2].drops, 0);
    assert_true(put(cache, 4, &v[4]));
    assert_int_equal(v[0].drops, 1);
    expect_stats(caches, cpu, (ptoi_cache_stats){1, 2, 2, 3, 3});

    assert_true(put(cache, 2, &v[0])); /* another one for the key */
    assert_int_equal(v[2].drops, 1);
    assert_ptr_equal(find(cache, 2), &v[0]);
    expect_stats(caches, cpu, (ptoi_cache_stats){2, 2, 2, 3, 3});
    expect_ok(ptoi_caches_check(caches));
    ptoi_caches_destroy(caches);
    assert_int_equal(v[0].drops, 2);
    assert_int_equal(v[1].drops + v[2].drops + v[3].drops + v[4].drops, 4);
    ptoi_caches_destroy(NULL);
}

static void keys_are_compared_in_full(void **state)
{
    (void)state;
    enum { KEYS = 90 };
    static value v[KEYS];
    unsigned char key[PTOI_CACHE_KEY + 1] = {0};
    ptoi_caches *caches = ptoi_caches_create(drop);
    ptoi_cache *cache = ptoi_caches_at(caches, cpu);
    /* One hash for all; they differ in one byte, or in length only. */
    for (size_t i = 0; i < KEYS; i++) {
        size_t bytes = i % 2 ? PTOI_CACHE_KEY : 200 + i / 2;
        v[i] = (value){.device = cpu};
        key[i] = i % 2;
        assert_true(ptoi_cache_put(cache, key, bytes, 7, &v[i]));
        key[i] = 0;
    }
    for (size_t i = 0; i < KEYS; i++) {
        size_t bytes = i % 2 ? PTOI_CACHE_KEY : 200 + i / 2;
        key[i] = i % 2;
        assert_ptr_equal(ptoi_cache_find(cache, key, bytes, 7), &v[i]);
        key[i] = 0;
    }
    assert_null(ptoi_cache_find(cache, key, PTOI_CACHE_KEY, 7));
    assert_null(ptoi_cache_find(cache, key, 199, 7));
    assert_null(ptoi_cache_find(cache, key, sizeof key, 7));
    expect_ok(ptoi_caches_check(caches));

    /* Too long: refused, and still the caller's. */
    value own = {.device = cpu};
    assert_false(ptoi_cache_put(cache, key, sizeof key, 7, &own));
    assert_true(ptoi_cache_put(cache, key, 0, 7, &own)); /* no bytes are a key, too */
    assert_ptr_equal(ptoi_cache_find(cache, key, 0, 7), &own);
    ptoi_caches_destroy(caches);
    assert_int_equal(own.drops, 1);
}

static void without_a_cache_nothing_is_kept(void **state)
{
    (void)state;
    value v = {.device = cpu};
    uint64_t key = 1;
    assert_null(ptoi_caches_at(NULL, cpu));
    assert_null(ptoi_cache_find(NULL, &key, sizeof key, 1));
    assert_false(ptoi_cache_put(NULL, &key, sizeof key, 1, &v));
    assert_int_equal(v.drops, 0);
}

static void any_capacity(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    static value v[MANY];
    ptoi_caches *caches = ptoi_caches_create(drop);
    ptoi_cache *cache = ptoi_caches_at(caches, cpu);
    memset(v, 0, sizeof v);
    expect_ok(ptoi_caches_resize(caches, 0));
    assert_false(put(cache, 0, &v[0]));
    assert_null(find(cache, 0));
    expect_stats(caches, cpu, (ptoi_cache_stats){.misses = 1});

    expect_ok(ptoi_caches_resize(caches, UINT64_MAX)); /* memory grows with what is kept */
    for (uint64_t k = 0; k < MANY; k++) {
        assert_true(put(cache, k, &v[k]));
        expect_ok(ptoi_caches_check(caches));
    }
    for (uint64_t k = 0; k < MANY; k++) {
        assert_ptr_equal(find(cache, k), &v[k]);
    }
    expect_stats(caches, cpu, (ptoi_cache_stats){MANY, 1, 0, MANY, UINT64_MAX});

    /* The oldest go, memory with them. */
    expect_ok(ptoi_caches_resize(caches, 10));
    expect_ok(ptoi_caches_check(caches));
    assert_in_range(cache->room, 10, 16);
    for (uint64_t k = 0; k < MANY; k++) {
        assert_int_equal(v[k].drops, k < MANY - 10);
    }
    expect_stats(caches, cpu, (ptoi_cache_stats){MANY, 1, MANY - 10, 10, 10});
    expect_ok(ptoi_caches_resize(caches, 1));
    assert_ptr_equal(find(cache, MANY - 1), &v[MANY - 1]);
    assert_null(find(cache, MANY - 2));
    assert_true(put(cache, 5, &v[5]));
    assert_int_equal(v[MANY - 1].drops, 1);
    expect_ok(ptoi_caches_resize(caches, 0));
    assert_int_equal(v[5].drops, 2);
    assert_null(cache->entries);
    expect_ok(ptoi_caches_check(caches));
    ptoi_caches_destroy(caches);
}

/* ---- Devices ------------------------------------------------------------------------------ */

static void each_device_has_its_own(void **state)
{
    (void)state;
    static fake fakes[2];
    const pto_device devices[] = {cpu, add_fake(&fakes[0], 0), add_fake(&fakes[1], INT32_MAX)};
    static value v[3][2];
    ptoi_caches *caches = ptoi_caches_create(drop);
    memset(v, 0, sizeof v);
    for (int round = 0; round < 2; round++) {
        for (int d = 0; d < 3; d++) {
            ptoi_cache *cache = ptoi_caches_at(caches, devices[d]);
            assert_ptr_equal(cache, ptoi_caches_at(caches, devices[d]));
            assert_true(put(cache, (uint64_t)round, &v[d][round])); /* equal keys */
        }
    }
    for (int d = 0; d < 3; d++) {
        ptoi_cache *cache = ptoi_caches_at(caches, devices[d]);
        assert_ptr_equal(find(cache, 0), &v[d][0]);
        assert_ptr_equal(find(cache, 1), &v[d][1]);
    }
    expect_ok(ptoi_caches_check(caches));

    expect_ok(ptoi_caches_clear(caches, &devices[1]));
    for (int d = 0; d < 3; d++) {
        assert_int_equal(v[d][0].drops + v[d][1].drops, d == 1 ? 2 : 0);
        expect_stats(caches, devices[d],
                     (ptoi_cache_stats){.hits = 2, .entries = d == 1 ? 0 : 2, .capacity = 100});
    }
    assert_int_equal(fakes[0].currents, 1); /* once for both */
    assert_false(v[1][0].elsewhere || v[1][1].elsewhere);
    assert_true(ptoi_device_equal(pto_device_current(), cpu));
    expect_ok(ptoi_caches_clear(caches, &(pto_device){PTO_DEVICE_QY, 3})); /* has none */
    assert_int_equal(v[0][0].drops + v[2][0].drops, 0);

    expect_ok(ptoi_caches_clear(caches, NULL));
    assert_false(v[0][0].elsewhere || v[2][0].elsewhere || v[2][1].elsewhere);
    for (int d = 0; d < 3; d++) {
        assert_int_equal(v[d][0].drops + v[d][1].drops, 2);
    }
    assert_int_equal(fakes[0].currents, 1);                            /* it had nothing left */
    assert_true(put(ptoi_caches_at(caches, devices[1]), 8, &v[1][0])); /* it goes on */
    ptoi_caches_destroy(caches);
    assert_false(v[1][0].elsewhere);
    assert_int_equal(v[1][0].drops, 2);
}

static void values_go_with_their_device_current(void **state)
{
    (void)state;
    static fake fakes[2];
    const pto_device here = add_fake(&fakes[0], 30), there = add_fake(&fakes[1], 31);
    value v[4] = {{.drops = 0}};
    ptoi_caches *caches = ptoi_caches_create(drop);
    ptoi_cache *cache = ptoi_caches_at(caches, there);
    expect_ok(ptoi_caches_resize(caches, 2));
    expect_ok(pto_device_set_current(here));
    assert_true(put(cache, 0, &v[0]));
    assert_true(put(cache, 1, &v[1]));
    assert_int_equal(fakes[1].currents, 0);
    assert_true(put(cache, 2, &v[2])); /* evicts */
    assert_int_equal(v[0].drops, 1);
    assert_false(v[0].elsewhere);
    assert_int_equal(fakes[1].currents, 1);
    assert_true(ptoi_device_equal(pto_device_current(), here));
    assert_true(put(cache, 1, &v[3])); /* replaces */
    assert_int_equal(v[1].drops, 1);
    assert_false(v[1].elsewhere);
    assert_true(ptoi_device_equal(pto_device_current(), here));
    expect_ok(ptoi_caches_resize(caches, 1));
    assert_int_equal(v[2].drops, 1);
    assert_false(v[2].elsewhere);
    assert_true(ptoi_device_equal(pto_device_current(), here));

    /* The device is gone: nothing is kept for that. */
    fakes[1].fails = true;
    assert_true(put(cache, 0, &v[0]));
    assert_int_equal(v[3].drops, 1);
    assert_true(v[3].elsewhere);
    assert_ptr_equal(find(cache, 0), &v[0]);
    expect_fail(ptoi_caches_clear(caches, NULL), PTO_SYSTEM, "nvidia:31", "gone");
    assert_int_equal(v[0].drops, 2);
    assert_true(put(cache, 0, &v[0]));
    expect_fail(ptoi_caches_resize(caches, 0), PTO_SYSTEM, "nvidia:31", "gone");
    assert_int_equal(v[0].drops, 3);
    assert_true(ptoi_device_equal(pto_device_current(), here));

    /* There, but not back. */
    fakes[1].fails = false;
    expect_ok(ptoi_caches_resize(caches, 5));
    assert_true(put(cache, 0, &v[0]));
    fakes[0].fails = true;
    expect_fail(ptoi_caches_clear(caches, &there), PTO_SYSTEM, "nvidia:30", "gone");
    assert_int_equal(v[0].drops, 4);
    assert_false(v[0].elsewhere);
    expect_ok(pto_device_set_current(cpu));
    ptoi_caches_destroy(caches);
}

/* ---- Against a model ---------------------------------------------------------------------- */

enum { MODEL_KEYS = 24, MODEL_DEVICES = 3, MODEL_STEPS = 3000 };

/* What a cache of one device should hold, the oldest first. */
typedef struct model {
    uint64_t count, hits, misses, evictions;
    struct {
        uint64_t key;
        value *value;
    } at[MODEL_KEYS];
} model;

static void model_remove(model *m, uint64_t i)
{
    m->count--;
    memmove(&m->at[i], &m->at[i + 1], (m->count - i) * sizeof m->at[0]);
}

/* Gives the place of a key, at the end, where it is the newest; or the count. */
static uint64_t model_use(model *m, uint64_t key)
{
    for (uint64_t i = 0; i < m->count; i++) {
        if (m->at[i].key == key) {
            value *v = m->at[i].value;
            model_remove(m, i);
            m->at[m->count].key = key;
            m->at[m->count].value = v;
            return m->count++;
        }
    }
    return m->count;
}

static void model_put(model *m, uint64_t capacity, uint64_t key, value *v)
{
    uint64_t i = model_use(m, key);
    if (i == m->count && i == capacity) {
        model_remove(m, 0);
        m->evictions++;
        i--;
    }
    m->count = i + 1;
    m->at[i].key = key;
    m->at[i].value = v;
}

static void model_shrink(model *m, uint64_t capacity)
{
    while (m->count > capacity) {
        model_remove(m, 0);
        m->evictions++;
    }
}

/* The same entries in the same order, and of all values only these are alive. */
static void expect_model(const ptoi_caches *caches, const model *models, const pto_device *devices,
                         const value *values, uint64_t n_values)
{
    uint64_t alive = 0, kept = 0;
    expect_ok(ptoi_caches_check(caches));
    for (int d = 0; d < MODEL_DEVICES; d++) {
        const model *m = &models[d];
        expect_stats(
            caches, devices[d],
            (ptoi_cache_stats){m->hits, m->misses, m->evictions, m->count, caches->capacity});
        kept += m->count;
    }
    for (const ptoi_cache *cache = caches->first; cache; cache = cache->next) {
        int d = 0;
        while (!ptoi_device_equal(devices[d], cache->device)) {
            d++;
        }
        uint32_t at = cache->oldest;
        for (uint64_t i = 0; i < models[d].count; i++, at = cache->entries[at].newer) {
            assert_ptr_equal(cache->entries[at].value, models[d].at[i].value);
            assert_int_equal(models[d].at[i].value->drops, 0);
        }
    }
    for (uint64_t i = 0; i < n_values; i++) {
        assert_true(values[i].drops <= 1 && !values[i].elsewhere);
        alive += values[i].drops == 0;
    }
    assert_int_equal(alive, kept);
}

/* Keys hash to as many hashes as `spread` says: 1 is all the same. */
static void random_against_model(test_rng *rng, uint64_t spread)
{
    static value values[MODEL_STEPS];
    static model models[MODEL_DEVICES];
    static const pto_device devices[MODEL_DEVICES] = {
        {PTO_DEVICE_CPU, 0}, {PTO_DEVICE_QY, 0}, {PTO_DEVICE_QY, 1000000}};
    ptoi_caches *caches = ptoi_caches_create(drop);
    uint64_t n_values = 0, capacity = PTOI_CACHE_CAPACITY;
    memset(values, 0, sizeof values);
    memset(models, 0, sizeof models);
    for (int step = 0; step < MODEL_STEPS; step++) {
        int64_t d = test_between(rng, 0, MODEL_DEVICES - 1), what = test_between(rng, 0, 99);
        model *m = &models[d];
        uint64_t key = (uint64_t)test_between(rng, 0, MODEL_KEYS - 1);
        uint64_t hash = ptoi_hash(&key, sizeof key) % spread;
        expect_ok(pto_device_set_current(devices[test_between(rng, 0, MODEL_DEVICES - 1)]));
        pto_device before = pto_device_current();
        if (what < 50) {
            uint64_t i = model_use(m, key);
            ptoi_cache *cache = ptoi_caches_at(caches, devices[d]);
            value *got = ptoi_cache_find(cache, &key, sizeof key, hash);
            assert_ptr_equal(got, i < m->count ? m->at[i].value : NULL);
            *(got ? &m->hits : &m->misses) += 1;
        } else if (what < 97) {
            value *v = &values[n_values];
            v->device = devices[d];
            ptoi_cache *cache = ptoi_caches_at(caches, devices[d]);
            bool took = ptoi_cache_put(cache, &key, sizeof key, hash, v);
            assert_int_equal(took, capacity > 0);
            if (took) {
                n_values++;
                model_put(m, capacity, key, v);
            }
        } else if (what == 97) {
            capacity = (uint64_t)test_between(rng, 0, MODEL_KEYS);
            expect_ok(ptoi_caches_resize(caches, capacity));
            for (int i = 0; i < MODEL_DEVICES; i++) {
                model_shrink(&models[i], capacity);
            }
        } else if (test_between(rng, 0, 3) == 0) {
            bool all = what == 98;
            expect_ok(ptoi_caches_clear(caches, all ? NULL : &devices[d]));
            for (int i = 0; i < MODEL_DEVICES; i++) {
                models[i].count = all || i == d ? 0 : models[i].count;
            }
        }
        assert_true(ptoi_device_equal(pto_device_current(), before));
        expect_model(caches, models, devices, values, n_values);
    }
    expect_ok(pto_device_set_current(cpu));
    ptoi_caches_destroy(caches);
    for (uint64_t i = 0; i < n_values; i++) {
        assert_int_equal(values[i].drops, 1);
    }
}

static void random_operations(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0; i < test_effort(5); i++) {
        random_against_model(&rng, UINT64_MAX);
        random_against_model(&rng, 1);
        random_against_model(&rng, 5);
    }
}

/* ---- The hash ----------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Every bit counts, and so does the length; keys that differ little spread like any others. */
static void the_hash_spreads(void **state)
{
    (void)state;
    enum { BYTES = 200, LONGEST = 64 };
    static uint64_t hashes[BYTES * 8 + LONGEST];
    unsigned char key[BYTES] = {0};
    size_t n = 0;
    for (size_t bit = 0; bit < sizeof key * 8; bit++) {
        key[bit / 8] ^= (unsigned char)(1 << bit % 8);
        hashes[n++] = ptoi_hash(key, sizeof key);
        key[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t bytes = 0; bytes < LONGEST; bytes++) {
        hashes[n++] = ptoi_hash(key, bytes);
    }
    qsort(hashes, n, sizeof *hashes, by_number);
    for (size_t i = 1; i < n; i++) {
        assert_true(hashes[i] != hashes[i - 1]);
    }
    /* Shapes and strides are small numbers: 4096 of them into as many buckets. */
    static uint32_t load[4096];
    uint64_t numbers[25] = {4, 2, 64, 64, 64, 1};
    uint32_t most = 0;
    memset(load, 0, sizeof load);
    for (uint64_t i = 0; i < 4096; i++) {
        numbers[2] = 1 + i % 64;
        numbers[3] = 1 + i / 64;
        uint32_t *at = &load[ptoi_hash(numbers, sizeof numbers) % 4096];
        *at += 1;
        most = *at > most ? *at : most;
    }
    assert_in_range(most, 1, 10); /* of random numbers: 6 or 7 */
}

/* ---- The checker -------------------------------------------------------------------------- */

#define expect_corrupt(lvalue, bad, says)                                                          \
    do {                                                                                           \
        __typeof__(lvalue) good_ = (lvalue);                                                       \
        (lvalue) = (bad);                                                                          \
        expect_fail(ptoi_caches_check(caches), PTO_CORRUPT, says);                                 \
        (lvalue) = good_;                                                                          \
        expect_ok(ptoi_caches_check(caches));                                                      \
    } while (0)

static void the_checker_finds_damage(void **state)
{
    (void)state;
    value v[5] = {{.drops = 0}};
    ptoi_caches *caches = ptoi_caches_create(drop);
    ptoi_cache *cache = ptoi_caches_at(caches, cpu);
    ptoi_cache *other = ptoi_caches_at(caches, (pto_device){PTO_DEVICE_QY, 1});
    for (uint64_t k = 0; k < 5; k++) {
        assert_true(ptoi_cache_put(cache, &k, sizeof k, k % 2, &v[k]));
    }
    expect_corrupt(cache->count, 6, "C2");
    expect_corrupt(cache->count, 4, "C2");
    expect_corrupt(caches->capacity, 4, "C1");
    expect_corrupt(cache->room, 4, "C1");
    expect_corrupt(cache->n_buckets, 12, "C1");
    expect_corrupt(cache->newest, cache->oldest, "C2");
    expect_corrupt(cache->oldest, cache->newest, "C2");
    expect_corrupt(cache->entries[2].newer, 0, "C2");
    expect_corrupt(cache->entries[2].older, 4, "C2");
    expect_corrupt(cache->entries[2].older, 2, "C2");
    expect_corrupt(cache->entries[2].hash, 1, "C3");
    expect_corrupt(cache->entries[2].key[0], 4, "C3");
    expect_corrupt(cache->entries[2].bytes, 1000, "C3");
    expect_corrupt(cache->entries[4].chain, 4, "C3");
    expect_corrupt(cache->buckets[0], PTOI_CACHE_NONE, "C3");
    expect_corrupt(cache->buckets[2], cache->buckets[0], "C3");
    expect_corrupt(cache->free, PTOI_CACHE_NONE, "C4");
    expect_corrupt(cache->entries[cache->free].chain, cache->free, "C4");
    expect_corrupt(other->device, cpu, "C5");
    expect_corrupt(caches->latest, (ptoi_cache *)&v, "C5");
    ptoi_caches_destroy(caches);
}

/* ---- Threads ------------------------------------------------------------------------------ */

/* As two operators would have them. */
static _Thread_local ptoi_caches *first_caches, *second_caches;

static fake thread_fake;
static pto_device thread_device;
static value thread_values[4][3];

static void *use_both(void *arg)
{
    value *v = arg;
    bool good = !first_caches && !second_caches;
    good &= put(ptoi_cache_here(&first_caches, drop, cpu), 1, &v[0]);
    good &= put(ptoi_cache_here(&first_caches, drop, thread_device), 1, &v[1]);
    good &= put(ptoi_cache_here(&second_caches, drop, cpu), 1, &v[2]);
    good &= first_caches && second_caches && first_caches != second_caches;
    good &= find(ptoi_cache_here(&first_caches, drop, cpu), 1) == &v[0];
    good &= find(ptoi_cache_here(&second_caches, drop, cpu), 1) == &v[2];
    good &= !v[0].drops && !v[1].drops && !v[2].drops;
    return good ? v : NULL;
}

static void values_go_when_their_thread_ends(void **state)
{
    (void)state;
    pthread_t threads[4];
    thread_device = add_fake(&thread_fake, 40);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_both, thread_values[i]), 0);
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, thread_values[i]);
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(thread_values[i][k].drops, 1);
            /* The last ones found their device gone. */
            assert_int_equal(thread_values[i][k].elsewhere, i == 3 && k == 1);
        }
        thread_fake.fails = i == 2;
    }
    thread_fake.fails = false;
    assert_int_equal(thread_fake.currents, 4);
    assert_null(first_caches);
}

/* A value whose end another process, or one that has ended, can be asked about. */
static int *shared_drops;

static void drop_shared(void *it)
{
    assert_ptr_equal(it, shared_drops);
    ++*shared_drops;
}

static _Thread_local ptoi_caches *shared_caches;

/* The child has the caches of the thread that forked, may go on, and drops them when it exits,
 * which the parent does not see. */
static void a_child_goes_on(void **state)
{
    (void)state;
    shared_drops = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                        0);
    assert_true(shared_drops != MAP_FAILED);
    const uint64_t a = 1, b = 2;
    ptoi_cache *cache = ptoi_cache_here(&shared_caches, drop_shared, cpu);
    assert_true(ptoi_cache_put(cache, &a, sizeof a, 5, shared_drops));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = ptoi_cache_here(&shared_caches, drop_shared, cpu) == cache &&
                    ptoi_cache_find(cache, &a, sizeof a, 5) == shared_drops &&
                    ptoi_cache_put(cache, &b, sizeof b, 5, shared_drops) &&
                    ptoi_caches_check(shared_caches) == PTO_OK;
        exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(*shared_drops, 2); /* by the child */
    assert_ptr_equal(ptoi_cache_find(cache, &a, sizeof a, 5), shared_drops);
    assert_null(ptoi_cache_find(cache, &b, sizeof b, 5));
}

/* The last thing that this program does, and its children: the caches are gone, and nobody makes
 * others. */
static void at_the_very_end(void)
{
    uint64_t key = 1;
    ptoi_cache *cache = ptoi_cache_here(&first_caches, drop, cpu);
    if (shared_caches || cache || ptoi_cache_find(cache, &key, sizeof key, 1)) {
        fprintf(stderr, "caches after the end\n");
        _exit(1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_goes),
        cmocka_unit_test(keys_are_compared_in_full),
        cmocka_unit_test(without_a_cache_nothing_is_kept),
        cmocka_unit_test(any_capacity),
        cmocka_unit_test(each_device_has_its_own),
        cmocka_unit_test(values_go_with_their_device_current),
        cmocka_unit_test(random_operations),
        cmocka_unit_test(the_hash_spreads),
        cmocka_unit_test(the_checker_finds_damage),
        cmocka_unit_test(values_go_when_their_thread_ends),
        cmocka_unit_test(a_child_goes_on),
    };
    if (atexit(at_the_very_end) != 0) {
        return 2;
    }
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
