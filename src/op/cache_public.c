/* cache_public.c - pto/cache.h: the caches of operators (cache.h) for authors of backends. */
#include <pto/cache.h>
#include <pto/pto.h>

#include "base/error.h"
#include "device/device.h"
#include "op/cache.h"

_Static_assert((int)PTOI_CACHE_KEY == PTO_CACHE_KEY &&
                   (int)PTOI_CACHE_CAPACITY == PTO_CACHE_CAPACITY,
               "what the header promises");

pto_cache *pto_cache_here(pto_cache **place, void (*drop)(void *value))
{
    return !place || !drop ? NULL : *place ? *place : ptoi_caches_of_thread(place, drop);
}

/* The cache of a device; NULL: there can be none. */
static ptoi_cache *at(pto_cache *cache, pto_device device, const void *key)
{
    return cache && key && ptoi_device_sound(device) ? ptoi_caches_at(cache, device) : NULL;
}

void *pto_cache_find(pto_cache *cache, pto_device device, const void *key, size_t bytes)
{
    ptoi_cache *c = at(cache, device, key);
    return c ? ptoi_cache_find(c, key, bytes, ptoi_hash(key, bytes)) : NULL;
}

bool pto_cache_put(pto_cache *cache, pto_device device, const void *key, size_t bytes, void *value)
{
    ptoi_cache *c = value ? at(cache, device, key) : NULL;
    return c && bytes <= PTO_CACHE_KEY &&
           ptoi_cache_put(c, key, bytes, ptoi_hash(key, bytes), value);
}

static pto_status check(const char *who, const pto_cache *cache, const pto_device *device)
{
    if (!cache) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: cache is NULL", who);
    }
    return device ? ptoi_device_check(who, *device) : PTO_OK;
}

pto_status pto_cache_get_stats(const pto_cache *cache, pto_device device, pto_cache_stats *stats)
{
    if (!stats) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "cache stats: stats is NULL");
    }
    PTO_TRY(check("cache stats", cache, &device));
    const ptoi_cache_stats s = ptoi_caches_stats(cache, device);
    *stats = (pto_cache_stats){s.hits, s.misses, s.evictions, s.entries, s.capacity};
    return PTO_OK;
}

pto_status pto_cache_resize(pto_cache *cache, uint64_t capacity)
{
    PTO_TRY(check("cache resize", cache, NULL));
    return ptoi_caches_resize(cache, capacity);
}

pto_status pto_cache_clear(pto_cache *cache, const pto_device *device)
{
    PTO_TRY(check("cache clear", cache, device));
    return ptoi_caches_clear(cache, device);
}
