/* cache.c - LRU caches of values by key, one for each device. */
#include "op/cache.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#include "base/atomic.h"
#include "base/error.h"
#include "device/device.h"

enum {
    FIRST_ROOM = 8,
    MOST_ROOM = 1 << 30, /* limit for larger capacities: memory is not promised */
};

#define NONE PTOI_CACHE_NONE

/* ---- Hash --------------------------------------------------------------------------------- */

/* Odd numbers without a pattern. */
#define SALT_1 UINT64_C(0x8CB92BA72F3D8DD7)
#define SALT_2 UINT64_C(0xD6E8FEB86659FD93)
#define STEP UINT64_C(0x9E3779B97F4A7C15)

/* Combines both halves of the product, because its low half depends on few bits of the factors. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A sum of products of two words each. Each pair has its own salt, so the order of words matters.
 * No product depends on another one. */
uint64_t ptoi_hash(const void *key, size_t bytes)
{
    const char *at = key;
    uint64_t sum = 0, step = 0, pair[2];
    size_t left = bytes;
    for (; left >= sizeof pair; left -= sizeof pair, at += sizeof pair, step += STEP) {
        memcpy(pair, at, sizeof pair);
        sum += fold(pair[0] ^ (SALT_1 + step), pair[1] ^ (SALT_2 - step));
    }
    if (left) {
        size_t first = left < sizeof pair[0] ? 0 : sizeof pair[0];
        pair[0] = pair[1] = 0;
        if (first) { /* most keys are whole words: this avoids a memcpy of unknown length */
            memcpy(&pair[0], at, sizeof pair[0]);
        }
        if (left > first) {
            memcpy((char *)pair + first, at + first, left - first);
        }
        sum += fold(pair[0] ^ (SALT_1 + step), pair[1] ^ (SALT_2 - step));
    }
    return fold(sum ^ (bytes * STEP), SALT_2);
}

/* ---- Links -------------------------------------------------------------------------------- */

static uint32_t *bucket_of(const ptoi_cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & (cache->n_buckets - 1)];
}

static void unlink_use(ptoi_cache *cache, const ptoi_cache_entry *e)
{
    *(e->newer == NONE ? &cache->newest : &cache->entries[e->newer].older) = e->older;
    *(e->older == NONE ? &cache->oldest : &cache->entries[e->older].newer) = e->newer;
}

static void link_newest(ptoi_cache *cache, uint32_t i)
{
    ptoi_cache_entry *e = &cache->entries[i];
    e->newer = NONE;
    e->older = cache->newest;
    *(e->older == NONE ? &cache->oldest : &cache->entries[e->older].newer) = i;
    cache->newest = i;
}

static void link_bucket(ptoi_cache *cache, uint32_t i)
{
    ptoi_cache_entry *e = &cache->entries[i];
    uint32_t *bucket = bucket_of(cache, e->hash);
    e->chain = *bucket;
    *bucket = i;
}

static void unlink_bucket(ptoi_cache *cache, uint32_t i)
{
    uint32_t *link = bucket_of(cache, cache->entries[i].hash);
    while (*link != i) {
        link = &cache->entries[*link].chain;
    }
    *link = cache->entries[i].chain;
}

static uint32_t seek(const ptoi_cache *cache, const void *key, size_t bytes, uint64_t hash)
{
    if (cache->count == 0) {
        return NONE; /* there may be no buckets */
    }
    uint32_t i = *bucket_of(cache, hash);
    for (; i != NONE; i = cache->entries[i].chain) {
        const ptoi_cache_entry *e = &cache->entries[i];
        if (e->hash == hash && e->bytes == bytes && memcmp(e->key, key, bytes) == 0) {
            break;
        }
    }
    return i;
}

static void use(ptoi_cache *cache, uint32_t i)
{
    if (cache->newest != i) {
        unlink_use(cache, &cache->entries[i]);
        link_newest(cache, i);
    }
}

/* Removes the least recently used entry, and returns its value. */
static void *take_oldest(ptoi_cache *cache)
{
    uint32_t i = cache->oldest;
    ptoi_cache_entry *e = &cache->entries[i];
    unlink_use(cache, e);
    unlink_bucket(cache, i);
    e->chain = cache->free;
    cache->free = i;
    cache->count--;
    return e->value;
}

/* ---- Memory ------------------------------------------------------------------------------- */

static void release(ptoi_cache *cache)
{
    free(cache->entries);
    cache->entries = NULL;
    cache->buckets = NULL;
    cache->room = cache->n_buckets = cache->count = 0;
    cache->newest = cache->oldest = cache->free = NONE;
}

/* Moves all entries to a block with `room` entries. `room` is not 0 and not less than the count. On
 * failure nothing changes. */
static bool move_to_room(ptoi_cache *cache, uint32_t room)
{
    uint32_t n_buckets = FIRST_ROOM;
    while (n_buckets < room) {
        n_buckets *= 2;
    }
    ptoi_cache_entry *entries = malloc(room * sizeof *entries +
                                       2 * (size_t)n_buckets * sizeof *cache->buckets);
    if (!entries) {
        return false;
    }
    ptoi_cache old = *cache;
    cache->entries = entries;
    cache->buckets = (uint32_t *)(entries + room);
    cache->room = room;
    cache->n_buckets = 2 * n_buckets; /* so that most chains have at most one entry */
    cache->newest = cache->oldest = cache->free = NONE;
    memset(cache->buckets, 0xff, cache->n_buckets * sizeof *cache->buckets); /* NONE */
    uint32_t n = 0;
    for (uint32_t i = old.oldest; i != NONE; i = old.entries[i].newer, n++) {
        entries[n] = old.entries[i];
        link_newest(cache, n);
        link_bucket(cache, n);
    }
    for (uint32_t i = room; i-- > n;) {
        entries[i].chain = cache->free;
        cache->free = i;
    }
    free(old.entries);
    return true;
}

/* An entry for a new key: a free one; allocates more memory if there is none. */
static uint32_t take_free(ptoi_cache *cache, uint32_t most)
{
    if (cache->free == NONE) {
        uint32_t room = cache->room ? 2 * cache->room : FIRST_ROOM;
        if (!move_to_room(cache, room < most ? room : most)) {
            return NONE;
        }
    }
    uint32_t i = cache->free;
    cache->free = cache->entries[i].chain;
    return i;
}

/* ---- Dropping ----------------------------------------------------------------------------- */

/* Drops the least recently used entries until `left` remain, with the device current. If the device
 * cannot be made current, they are dropped nevertheless. */
static pto_status drop_to(ptoi_cache *cache, uint64_t left)
{
    if (cache->count <= left) {
        return PTO_OK;
    }
    pto_device before = pto_device_current();
    pto_status s = ptoi_device_go(cache->device);
    while (cache->count > left) {
        cache->caches->drop(take_oldest(cache));
    }
    return ptoi_device_return(before, s);
}

static void drop_one(const ptoi_cache *cache, void *value)
{
    pto_device before = pto_device_current();
    pto_status s = ptoi_device_go(cache->device);
    cache->caches->drop(value);
    (void)ptoi_device_return(before, s);
}

/* Builds with PTO_DEBUG_CHECKS check all invariants after each change, and abort at the first
 * broken one. */
static void debug_check(const ptoi_caches *caches)
{
#ifdef PTO_DEBUG_CHECKS
    if (ptoi_caches_check(caches) != PTO_OK) {
        fprintf(stderr, "pto: %s\n", pto_error_detail());
        abort();
    }
#else
    (void)caches;
#endif
}

/* ---- One device --------------------------------------------------------------------------- */

void *ptoi_cache_find(ptoi_cache *cache, const void *key, size_t bytes, uint64_t hash)
{
    if (!cache) {
        return NULL;
    }
    uint32_t i = seek(cache, key, bytes, hash);
    if (i == NONE) {
        cache->misses++;
        return NULL;
    }
    cache->hits++;
    use(cache, i);
    return cache->entries[i].value;
}

bool ptoi_cache_put(ptoi_cache *cache, const void *key, size_t bytes, uint64_t hash, void *value)
{
    if (!cache || cache->caches->capacity == 0 || bytes > PTOI_CACHE_KEY) {
        return false;
    }
    uint32_t i = seek(cache, key, bytes, hash);
    if (i != NONE) {
        void *old = cache->entries[i].value;
        cache->entries[i].value = value;
        use(cache, i);
        if (old != value) {
            drop_one(cache, old);
        }
        return true;
    }
    uint64_t capacity = cache->caches->capacity;
    uint32_t most = capacity < MOST_ROOM ? (uint32_t)capacity : MOST_ROOM;
    bool evict = cache->count == most;
    void *victim = evict ? take_oldest(cache) : NULL;
    i = take_free(cache, most);
    if (i == NONE) {
        return false;
    }
    ptoi_cache_entry *e = &cache->entries[i];
    e->hash = hash;
    e->value = value;
    e->bytes = (uint32_t)bytes;
    memcpy(e->key, key, bytes);
    link_newest(cache, i);
    link_bucket(cache, i);
    cache->count++;
    if (evict) {
        cache->evictions++;
        drop_one(cache, victim);
    }
    debug_check(cache->caches);
    return true;
}

/* ---- All devices -------------------------------------------------------------------------- */

static ptoi_cache *cache_of(const ptoi_caches *caches, pto_device device)
{
    ptoi_cache *cache = caches->first;
    while (cache && !ptoi_device_equal(cache->device, device)) {
        cache = cache->next;
    }
    return cache;
}

ptoi_cache *ptoi_caches_at(ptoi_caches *caches, pto_device device)
{
    if (!caches) {
        return NULL;
    }
    if (caches->latest && ptoi_device_equal(caches->latest->device, device)) {
        return caches->latest;
    }
    ptoi_cache *cache = cache_of(caches, device);
    if (!cache) {
        cache = calloc(1, sizeof *cache);
        if (!cache) {
            return NULL;
        }
        cache->device = device;
        cache->caches = caches;
        release(cache);
        cache->next = caches->first;
        caches->first = cache;
    }
    caches->latest = cache;
    return cache;
}

ptoi_caches *ptoi_caches_create(ptoi_cache_drop *drop)
{
    ptoi_caches *caches = calloc(1, sizeof *caches);
    if (caches) {
        caches->drop = drop;
        caches->capacity = PTOI_CACHE_CAPACITY;
    }
    return caches;
}

void ptoi_caches_destroy(ptoi_caches *caches)
{
    if (!caches) {
        return;
    }
    (void)ptoi_caches_clear(caches, NULL);
    while (caches->first) {
        ptoi_cache *cache = caches->first;
        caches->first = cache->next;
        free(cache);
    }
    free(caches);
}

/* The first of several failures, with its detail. */
typedef struct trouble {
    pto_status status;
    char detail[512];
} trouble;

static void note(trouble *first, pto_status status)
{
    if (status && !first->status) {
        first->status = status;
        snprintf(first->detail, sizeof first->detail, "%s", pto_error_detail());
    }
}

static pto_status tell(const trouble *first)
{
    return first->status ? ptoi_fail(first->status, "%s", first->detail) : PTO_OK;
}

pto_status ptoi_caches_clear(ptoi_caches *caches, const pto_device *device)
{
    trouble first = {PTO_OK, ""};
    for (ptoi_cache *cache = caches->first; cache; cache = cache->next) {
        if (!device || ptoi_device_equal(*device, cache->device)) {
            note(&first, drop_to(cache, 0));
            release(cache);
        }
    }
    debug_check(caches);
    return tell(&first);
}

pto_status ptoi_caches_resize(ptoi_caches *caches, uint64_t capacity)
{
    trouble first = {PTO_OK, ""};
    caches->capacity = capacity;
    for (ptoi_cache *cache = caches->first; cache; cache = cache->next) {
        uint32_t count = cache->count;
        note(&first, drop_to(cache, capacity));
        cache->evictions += count - cache->count;
        if (cache->count == 0) {
            release(cache);
        } else if (cache->room > capacity) {
            (void)move_to_room(cache, cache->count); /* if that fails, the larger block stays */
        }
    }
    debug_check(caches);
    return tell(&first);
}

ptoi_cache_stats ptoi_caches_stats(const ptoi_caches *caches, pto_device device)
{
    ptoi_cache_stats stats = {.capacity = caches->capacity};
    const ptoi_cache *cache = cache_of(caches, device);
    if (cache) {
        stats.hits = cache->hits;
        stats.misses = cache->misses;
        stats.evictions = cache->evictions;
        stats.entries = cache->count;
    }
    return stats;
}

/* ---- One thread --------------------------------------------------------------------------- */

/* When a thread ends, the destructor of this key frees its list of caches. It does not run for the
 * thread that calls exit(): end_of_process frees those. */
static pthread_key_t of_thread;
static ptoi_a32 key; /* state of of_thread; written by `begin` and end_of_process */
enum { KEY_NOT_YET, KEY_THERE, KEY_GONE };

static void end_of_thread(void *list)
{
    ptoi_caches *caches = list;
    while (caches) {
        ptoi_caches *next = caches->next;
        *caches->place = NULL;
        ptoi_caches_destroy(caches);
        caches = next;
    }
}

/* Also runs when the library is unloaded: no thread may call into it after that. */
static void end_of_process(void)
{
    void *list = pthread_getspecific(of_thread);
    (void)pthread_setspecific(of_thread, NULL);
    end_of_thread(list);
    ptoi_release32(&key, KEY_GONE);
    (void)pthread_key_delete(of_thread);
}

/* Whether the key exists. Not pthread_once, so that a failure can be retried. */
static bool begin(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (ptoi_get32(&key) == KEY_NOT_YET && pthread_key_create(&of_thread, end_of_thread) == 0) {
        ptoi_release32(&key, KEY_THERE);
        (void)atexit(end_of_process);
    }
    bool has = ptoi_get32(&key) == KEY_THERE;
    pthread_mutex_unlock(&lock);
    return has;
}

ptoi_caches *ptoi_caches_of_thread(ptoi_caches **place, ptoi_cache_drop *drop)
{
    ptoi_caches *there = *place;
    if (there) {
        return there;
    }
    if (ptoi_acquire32(&key) != KEY_THERE && !begin()) {
        return NULL; /* nothing would free them */
    }
    ptoi_caches *caches = ptoi_caches_create(drop);
    if (!caches) {
        return NULL;
    }
    caches->next = pthread_getspecific(of_thread);
    caches->place = place;
    if (pthread_setspecific(of_thread, caches) != 0) {
        ptoi_caches_destroy(caches);
        return NULL;
    }
    *place = caches;
    return caches;
}

/* ---- Check -------------------------------------------------------------------------------- */

static pto_status broken(const ptoi_cache *cache, const char *invariant, uint64_t got,
                         uint64_t wanted)
{
    return ptoi_fail(PTO_CORRUPT, "cache of %s:%" PRId32 ": %s: %" PRIu64 ", not %" PRIu64,
                     pto_device_name(cache->device.type), cache->device.index, invariant, got,
                     wanted);
}

/* Counts how often entry i is in the chain of its bucket, and how many others there have its
 * key. */
static void look_in_chain(const ptoi_cache *cache, uint32_t i, uint32_t *found, uint32_t *same)
{
    const ptoi_cache_entry *e = &cache->entries[i];
    uint32_t steps = 0;
    *found = *same = 0;
    for (uint32_t j = *bucket_of(cache, e->hash); j < cache->room && steps < cache->room; steps++) {
        const ptoi_cache_entry *other = &cache->entries[j];
        *found += j == i;
        *same += j != i && other->hash == e->hash && other->bytes == e->bytes &&
                 memcmp(other->key, e->key, e->bytes) == 0;
        j = other->chain;
    }
}

static pto_status check_order(const ptoi_cache *cache)
{
    uint32_t n = 0, newer = NONE;
    for (uint32_t i = cache->newest; i < cache->room && n <= cache->count; n++) {
        uint32_t found, same;
        const ptoi_cache_entry *e = &cache->entries[i];
        if (e->newer != newer) {
            return broken(cache, "C2, the newer neighbour", e->newer, newer);
        }
        if (e->bytes > PTOI_CACHE_KEY) {
            return broken(cache, "C3, bytes of a key", e->bytes, PTOI_CACHE_KEY);
        }
        look_in_chain(cache, i, &found, &same);
        if (found != 1 || same != 0) {
            return broken(cache, found != 1 ? "C3, places in its bucket" : "C3, equal keys",
                          found != 1 ? found : same, found != 1);
        }
        newer = i;
        i = e->older;
    }
    if (n != cache->count || cache->oldest != newer) {
        return broken(cache, n != cache->count ? "C2, entries in order" : "C2, the oldest",
                      n != cache->count ? n : cache->oldest,
                      n != cache->count ? cache->count : newer);
    }
    return PTO_OK;
}

static pto_status check_chains(const ptoi_cache *cache)
{
    uint64_t used = 0, free = 0;
    for (uint32_t b = 0; b < cache->n_buckets; b++) {
        uint32_t i = cache->buckets[b];
        for (; i < cache->room && used <= cache->count; i = cache->entries[i].chain) {
            used++;
        }
    }
    if (used != cache->count) {
        return broken(cache, "C3, entries in buckets", used, cache->count);
    }
    for (uint32_t i = cache->free; i < cache->room && free <= cache->room; free++) {
        i = cache->entries[i].chain;
    }
    if (free != cache->room - cache->count) {
        return broken(cache, "C4, free entries", free, cache->room - cache->count);
    }
    return PTO_OK;
}

static pto_status check_cache(const ptoi_cache *cache)
{
    if (cache->count > cache->room || cache->count > cache->caches->capacity) {
        return broken(cache, "C1, count", cache->count,
                      cache->count > cache->room ? cache->room : cache->caches->capacity);
    }
    if (cache->n_buckets < cache->room || (cache->n_buckets & (cache->n_buckets - 1)) ||
        !cache->n_buckets != !cache->room) {
        return broken(cache, "C1, buckets", cache->n_buckets, cache->room);
    }
    pto_status s = check_order(cache);
    return s ? s : check_chains(cache);
}

pto_status ptoi_caches_check(const ptoi_caches *caches)
{
    bool latest = !caches->latest;
    for (const ptoi_cache *cache = caches->first; cache; cache = cache->next) {
        latest |= cache == caches->latest;
        if (cache->caches != caches || cache_of(caches, cache->device) != cache) {
            return broken(cache, "C5, caches of the device", 2, 1);
        }
        PTO_TRY(check_cache(cache));
    }
    return latest ? PTO_OK : ptoi_fail(PTO_CORRUPT, "caches: C5, `latest` is not in the list");
}
