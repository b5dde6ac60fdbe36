/* pto/cache.h - a cache of plans for authors of backends: what an operator computed before, by key.
 *
 * An implementation of an operator (pto/op.h) often computes a plan from shapes and strides, and would
 * compute the same one in the next call. This is the cache that Rearrange uses. Each thread has caches
 * of its own, so nothing is locked; each device has `capacity` plans, and beyond that the least
 * recently used one is dropped. Keys are compared in full: a hash only says where to look.
 *
 *     typedef struct key { int64_t rows, columns; } key;
 *     static __thread pto_cache *plans; // one for each operator; _Thread_local in C11
 *
 *     static pto_status softmax(const pto_op_call *call)
 *     {
 *         const pto_tensor *x = &call->inputs[0];
 *         const key k = {x->shape[0], x->shape[1]};
 *         pto_cache *cache = pto_cache_here(&plans, free);
 *         int64_t *plan = (int64_t *)pto_cache_find(cache, call->device, &k, sizeof k);
 *         bool kept = plan != NULL;
 *         if (!plan) {
 *             plan = (int64_t *)malloc(sizeof *plan); // and whatever makes a plan
 *             kept = plan && pto_cache_put(cache, call->device, &k, sizeof k, plan);
 *         }
 *         // ... run the plan ...
 *         if (!kept) {
 *             free(plan);
 *         }
 *         return PTO_OK;
 *     }
 *
 * A key is bytes: set all of them, also those between the fields of a struct. A value is valid until
 * the next call for the same cache.
 */
#ifndef PTO_CACHE_H
#define PTO_CACHE_H

#include <pto/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_CACHE_KEY 256      /* most bytes of a key */
#define PTO_CACHE_CAPACITY 100 /* values for each thread and device, by default */

/* The caches of one thread and one operator: one for each device. */
typedef struct pto_cache pto_cache;

/* Returns the caches of the calling thread; the first call creates them. `place` is a thread-local
 * pointer that is NULL at first, one for each operator. When the thread ends, all values are dropped
 * and the pointer is NULL again. A value is dropped by `drop`, with its device current unless that
 * fails; `drop` must not use the cache. Returns NULL if there is no memory. The functions below accept
 * that: then nothing is found and nothing is stored. */
PTO_API pto_cache *pto_cache_here(pto_cache **place, void (*drop)(void *value));

/* Finds the value of a key, or NULL. The value becomes the most recently used one of its device. */
PTO_API void *pto_cache_find(pto_cache *cache, pto_device device, const void *key, size_t bytes);

/* Stores a value, which must not be NULL, as the most recently used one. An older value of the same
 * key is dropped. False: the value was not stored and still belongs to the caller. There is no memory
 * or no capacity, the key has more than PTO_CACHE_KEY bytes, or there can be no such device. */
PTO_API bool pto_cache_put(pto_cache *cache, pto_device device, const void *key, size_t bytes,
                           void *value);

/* Statistics of the cache of one device. */
typedef struct pto_cache_stats {
    uint64_t hits, misses; /* of pto_cache_find, since the thread first used the cache */
    uint64_t evictions;    /* for lack of room, or by a smaller capacity; not by clear */
    uint64_t entries;      /* now */
    uint64_t capacity;     /* */
} pto_cache_stats;

/* Gets the statistics of a device; they are 0, but for the capacity, if it was never used. */
PTO_API PTO_MUST_CHECK pto_status pto_cache_get_stats(const pto_cache *cache, pto_device device,
                                                      pto_cache_stats *stats);

/* Sets how many values each device may have, and drops those beyond. 0: none is stored. */
PTO_API PTO_MUST_CHECK pto_status pto_cache_resize(pto_cache *cache, uint64_t capacity);

/* Drops all values of one device, or of all devices if `device` is NULL. The counts stay. */
PTO_API PTO_MUST_CHECK pto_status pto_cache_clear(pto_cache *cache, const pto_device *device);

#ifdef __cplusplus
}
#endif

#endif /* PTO_CACHE_H */
