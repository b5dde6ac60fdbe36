/* cache.h - a cache for the results of an operator, found by a key of bytes.
 *
 *   ptoi_caches   of one thread and one operator
 *     |
 *     +-- ptoi_cache cpu:0       buckets  [ 7 | - | 2 | ... ]      hash --> first entry
 *     |                          entries  [ key, value, links ]    chain: same bucket
 *     +-- ptoi_cache nvidia:1                                      newer, older: by last use
 *     ...
 *
 * Nothing is shared between threads, so nothing is locked. Each device has `capacity` entries;
 * beyond that, the least recently used one is evicted. A hash only chooses a bucket: keys are
 * compared in full.
 *
 *     static _Thread_local ptoi_caches *plans;          // one for each operator
 *
 *     ptoi_cache *cache = ptoi_cache_here(&plans, drop_plan, device);
 *     uint64_t hash = ptoi_hash(&key, sizeof key);
 *     plan *p = ptoi_cache_find(cache, &key, sizeof key, hash);
 *     if (!p) {
 *         p = make_plan(...);
 *         mine = !ptoi_cache_put(cache, &key, sizeof key, hash, p);   // then drop it after use
 *     }
 *
 * A value is dropped when it is evicted, replaced or cleared, or when its thread ends. Its device
 * is current then, unless that fails. The drop function must not use the cache.
 */
#ifndef PTOI_CACHE_H
#define PTOI_CACHE_H

#include <pto/device.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PTOI_CACHE_KEY = 256,      /* most bytes of a key */
    PTOI_CACHE_CAPACITY = 100, /* entries for each device, by default */
};

typedef void ptoi_cache_drop(void *value);

#define PTOI_CACHE_NONE UINT32_MAX /* no entry */

typedef struct ptoi_cache_entry {
    uint64_t hash;
    void *value;
    uint32_t bytes;        /* of the key */
    uint32_t chain;        /* next entry in the bucket, or the next free entry */
    uint32_t newer, older; /* neighbours in the order of last use */
    unsigned char key[PTOI_CACHE_KEY];
} ptoi_cache_entry;

/* Invariants, checked by ptoi_caches_check:
 *   C1  count <= capacity, count <= room; room and n_buckets are 0, or n_buckets is a power of two
 *       and >= room
 *   C2  from `newest` along `older` to `oldest` there are `count` entries, and the same ones back
 *       along `newer`
 *   C3  each of them is in the chain of the bucket of its hash, once, and in no other; no two have
 *       the same key
 *   C4  the chain from `free` has room - count entries
 *   C5  no two caches of one ptoi_caches are of the same device; `latest` is one of them, or NULL
 */
typedef struct ptoi_cache {
    pto_device device;
    uint32_t count; /* entries in use */
    uint32_t room;  /* allocated entries; grows up to the capacity */
    uint32_t n_buckets;
    uint32_t newest, oldest, free;
    ptoi_cache_entry *entries; /* one block: the entries, then the buckets */
    uint32_t *buckets;
    uint64_t hits, misses, evictions;
    struct pto_cache *caches; /* the set that it belongs to */
    struct ptoi_cache *next;  /* the cache of another device */
} ptoi_cache;

typedef struct pto_cache {
    ptoi_cache *first, *latest; /* latest: the one used last */
    ptoi_cache_drop *drop;
    uint64_t capacity; /* for each device */
    /* For the caches of a thread: its pointer to this set, and its next set. */
    struct pto_cache **place;
    struct pto_cache *next;
} ptoi_caches;

typedef struct ptoi_cache_stats {
    uint64_t hits, misses;
    uint64_t evictions; /* for lack of room, or by a smaller capacity; not by clear */
    uint64_t entries;   /* current number */
    uint64_t capacity;
} ptoi_cache_stats;

/* ---- One thread --------------------------------------------------------------------------- */

/* The caches of the calling thread, created on first use. `place` is a _Thread_local pointer, one
 * for each operator, and NULL at first. It is set here, and NULL again when the thread ends. exit()
 * frees the caches of the calling thread. Returns NULL if there is no memory. The functions for one
 * cache accept NULL: then nothing is found and nothing is stored. */
ptoi_caches *ptoi_caches_of_thread(ptoi_caches **place, ptoi_cache_drop *drop);

/* The cache of a device, created on first use; NULL if there is no memory, or `caches` is NULL. */
ptoi_cache *ptoi_caches_at(ptoi_caches *caches, pto_device device);

static inline ptoi_cache *ptoi_cache_here(ptoi_caches **place, ptoi_cache_drop *drop,
                                          pto_device device)
{
    return ptoi_caches_at(*place ? *place : ptoi_caches_of_thread(place, drop), device);
}

/* ---- One device --------------------------------------------------------------------------- */

uint64_t ptoi_hash(const void *key, size_t bytes);

/* The value of a key, or NULL. It becomes the most recently used one, and is valid until the next
 * call for this cache. `hash` is ptoi_hash of the key, or any other function of it. */
void *ptoi_cache_find(ptoi_cache *cache, const void *key, size_t bytes, uint64_t hash);

/* Stores a value as the most recently used one. An older value of the same key is dropped. False:
 * the value is not stored and still belongs to the caller (no capacity, no memory, or a key of more
 * than PTOI_CACHE_KEY bytes). */
bool ptoi_cache_put(ptoi_cache *cache, const void *key, size_t bytes, uint64_t hash, void *value);

/* ---- All devices -------------------------------------------------------------------------- */

/* Caches that belong to no thread; NULL if there is no memory. */
ptoi_caches *ptoi_caches_create(ptoi_cache_drop *drop);
void ptoi_caches_destroy(ptoi_caches *caches); /* NULL is allowed */

/* Drops all values of one device, or of all devices (NULL). Keeps the statistics. Returns the first
 * failure to make a device current, after all values are dropped. */
pto_status ptoi_caches_clear(ptoi_caches *caches, const pto_device *device);

/* Sets the capacity for each device, and evicts entries beyond it. Returns failures like clear. */
pto_status ptoi_caches_resize(ptoi_caches *caches, uint64_t capacity);

/* Statistics of a device's cache; zero for a device that was never used. */
ptoi_cache_stats ptoi_caches_stats(const ptoi_caches *caches, pto_device device);

/* PTO_CORRUPT if an invariant is broken. */
pto_status ptoi_caches_check(const ptoi_caches *caches);

#endif /* PTOI_CACHE_H */
