/* cache.h - what an operator has thought of before, found again by the question: a key of bytes.
 *
 *   ptoi_caches   of one thread and one operator
 *     |
 *     +-- ptoi_cache cpu:0       buckets  [ 7 | - | 2 | ... ]      hash --> first entry
 *     |                          entries  [ key, value, links ]    chain: same bucket
 *     +-- ptoi_cache nvidia:1                                      newer, older: by last use
 *     ...
 *
 * Nothing is shared between threads, so nothing is locked. Each device has as many entries as the
 * capacity says; past that, what was used longest ago goes. A hash only chooses a bucket: keys are
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
 * Values are dropped when they are evicted, replaced or cleared, and when their thread ends, always
 * with their device current (unless making it so fails: then all the same). Dropping one must not
 * come back to the cache.
 */
#ifndef PTOI_CACHE_H
#define PTOI_CACHE_H

#include <pto/device.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PTOI_CACHE_KEY = 256,      /* bytes of a key at most */
    PTOI_CACHE_CAPACITY = 100, /* entries of a device, unless said otherwise */
};

typedef void ptoi_cache_drop(void *value);

#define PTOI_CACHE_NONE UINT32_MAX /* no entry */

typedef struct ptoi_cache_entry {
    uint64_t hash;
    void *value;
    uint32_t bytes;        /* of the key */
    uint32_t chain;        /* the next one of the bucket; of a free entry: the next free one */
    uint32_t newer, older; /* its neighbours in the order of last use */
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
    uint32_t room;  /* entries there is memory for; grows up to the capacity */
    uint32_t n_buckets;
    uint32_t newest, oldest, free;
    ptoi_cache_entry *entries; /* and the buckets behind them, in one block */
    uint32_t *buckets;
    uint64_t hits, misses, evictions;
    struct ptoi_caches *caches; /* it is one of these */
    struct ptoi_cache *next;    /* of another device */
} ptoi_cache;

typedef struct ptoi_caches {
    ptoi_cache *first, *latest; /* latest: the one asked for last */
    ptoi_cache_drop *drop;
    uint64_t capacity; /* of each device */
    /* For those of a thread: where it keeps the pointer to this, and what else it keeps. */
    struct ptoi_caches **place;
    struct ptoi_caches *next;
} ptoi_caches;

typedef struct ptoi_cache_stats {
    uint64_t hits, misses;
    uint64_t evictions; /* for want of room, or by a smaller capacity; not by clear */
    uint64_t entries;   /* now */
    uint64_t capacity;
} ptoi_cache_stats;

/* ---- Of a thread -------------------------------------------------------------------------- */

/* The caches of the calling thread, made when first asked for. `place` is a _Thread_local pointer,
 * NULL at first, one for each operator; it is set here, and NULL again once the thread ends. Those
 * of the thread that calls exit() go then. NULL if there is no memory: the functions about one
 * cache take a NULL, and nothing is found and nothing kept. */
ptoi_caches *ptoi_caches_of_thread(ptoi_caches **place, ptoi_cache_drop *drop);

/* The cache of a device, made when first asked for; NULL if there is no memory, or no caches. */
ptoi_cache *ptoi_caches_at(ptoi_caches *caches, pto_device device);

static inline ptoi_cache *ptoi_cache_here(ptoi_caches **place, ptoi_cache_drop *drop,
                                          pto_device device)
{
    return ptoi_caches_at(*place ? *place : ptoi_caches_of_thread(place, drop), device);
}

/* ---- Of a device -------------------------------------------------------------------------- */

uint64_t ptoi_hash(const void *key, size_t bytes);

/* The value of a key, which is from now on the one used last; NULL if there is none. It is good
 * until the next call about this cache. `hash` is ptoi_hash of the key, or whatever else equal
 * keys have in common. */
void *ptoi_cache_find(ptoi_cache *cache, const void *key, size_t bytes, uint64_t hash);

/* Keeps a value, which is then the one used last; an older one of the same key is dropped.
 * False: it is not kept and still the caller's (no capacity, no memory, or a key of more than
 * PTOI_CACHE_KEY bytes). */
bool ptoi_cache_put(ptoi_cache *cache, const void *key, size_t bytes, uint64_t hash, void *value);

/* ---- Of all devices ----------------------------------------------------------------------- */

/* Caches that belong to no thread; NULL if there is no memory. */
ptoi_caches *ptoi_caches_create(ptoi_cache_drop *drop);
void ptoi_caches_destroy(ptoi_caches *caches); /* NULL is fine */

/* Drops all of one device, or of all devices (NULL). Counts stay. The first failure to make a
 * device current is returned, after everything is dropped. */
pto_status ptoi_caches_clear(ptoi_caches *caches, const pto_device *device);

/* How many entries each device may have from now on; those beyond are evicted. As for failures, the
 * same. */
pto_status ptoi_caches_resize(ptoi_caches *caches, uint64_t capacity);

/* What the cache of a device did; of a device that was never asked for: nothing. */
ptoi_cache_stats ptoi_caches_stats(const ptoi_caches *caches, pto_device device);

/* PTO_CORRUPT if an invariant does not hold. */
pto_status ptoi_caches_check(const ptoi_caches *caches);

#endif /* PTOI_CACHE_H */
