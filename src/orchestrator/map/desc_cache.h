/* desc_cache.h - finds a known region by the fields of a tensor, without computing its layout.
 *
 * A region caches the tensor descriptor under which it was last found. A tensor with the same
 * fields is the same place, and as valid as the first one was. This makes a submit over known tiles
 * cheap. The first use, or the use of another view of the same bytes, takes the slow path
 * (ptoi_place_of_tensor) and replaces the cached descriptor.
 */
#ifndef PTOI_DESC_CACHE_H
#define PTOI_DESC_CACHE_H

#include <string.h>

#include "orchestrator/map/mix.h"
#include "orchestrator/map/unindexed.h"

_Static_assert(offsetof(pto_tensor, storage_bytes) == offsetof(pto_tensor, storage) + 8 &&
                   offsetof(pto_tensor, owner) == offsetof(pto_tensor, offset) + 8 &&
                   sizeof(((pto_tensor *)0)->storage) == 8,
               "pairs of fields stand together in the tensor as in the cache");

/* Whether the tensor equals the cached descriptor. The region must have one. */
static inline bool ptoi_is_cached_desc(const pto_tensormap *map, const ptoi_region *r,
                                       const pto_tensor *t)
{
    const ptoi_words differ = ptoi_differ(r->cached.storage, &t->storage) |
                              ptoi_differ(r->cached.offset, &t->offset);
    return ptoi_desc_matches_and(ptoi_desc_at(map->descs.records, r->desc), t, differ) &&
           (!t->owner || r->b == t->generation);
}

static inline void ptoi_cached_desc_set(ptoi_region *r, const pto_tensor *t, uint32_t desc)
{
    r->desc = desc;
    memcpy(r->cached.storage, &t->storage, sizeof r->cached.storage);
    memcpy(r->cached.offset, &t->offset, sizeof r->cached.offset);
    r->arg[0] = r->arg[1] = 0;
}

/* The hash of a tensor in the descriptor cache; its upper bits are the bucket. It must tell apart
 * tiles of one matrix, and blocks; a few fields suffice for that, without a loop over dims. Offsets
 * are added without mixing: multiples of a step, times the golden ratio, fill the buckets more
 * evenly than random numbers would. */
static inline uint64_t ptoi_desc_cache_hash(const pto_tensor *t)
{
    uint64_t h = (uint64_t)(uintptr_t)t->storage + (uint64_t)t->offset;
    if (t->owner) {
        h += (t->owner + t->generation) * PTOI_MIX_2;
    }
    h ^= (uint64_t)t->shape[0] << 36 ^ (uint64_t)t->shape[1] << 48;
    return h * PTOI_MIX_1;
}

static inline uint32_t ptoi_desc_cache_bucket(const pto_tensormap *map, const pto_tensor *t)
{
    return (uint32_t)(ptoi_desc_cache_hash(t) >> map->desc_cache_shift);
}

/* The bucket of a region whose descriptor is cached. */
static inline ptoi_chain *ptoi_desc_cache_bucket_of(const pto_tensormap *map, const ptoi_region *r)
{
    return &map->desc_cache[r->cached_hash >> (map->desc_cache_shift - 32)];
}

/* Adds a region, whose descriptor is cached, to its bucket. */
static inline void ptoi_desc_cache_chain(const pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    ptoi_chain *bucket = ptoi_desc_cache_bucket_of(map, r);
    r->cached_next = *bucket;
    *bucket = ptoi_chain_to(region);
}

/* Finds the region whose cached descriptor equals the tensor, or PTOI_NONE, in two steps: `first`
 * reads the first candidate, `match` follows the chain from there. */
static inline uint32_t ptoi_desc_cache_first(const pto_tensormap *map, const pto_tensor *t)
{
    if (t->owner) {
        uint32_t unindexed = ptoi_chain_at(
            map->unindexed[ptoi_unindexed_slot(map, t->owner, t->generation)]);
        if (unindexed != PTOI_NONE) { /* another block in this slot leads to the slow path */
            return unindexed;
        }
    }
    return ptoi_chain_at(map->desc_cache[ptoi_desc_cache_bucket(map, t)]);
}

static inline uint32_t ptoi_desc_cache_match(const pto_tensormap *map, const pto_tensor *t,
                                             uint32_t at)
{
    while (at != PTOI_NONE && !ptoi_is_cached_desc(map, &map->regions[at], t)) {
        at = ptoi_chain_at(map->regions[at].cached_next);
    }
    return at;
}

static inline uint32_t ptoi_desc_cache_find(const pto_tensormap *map, const pto_tensor *t)
{
    return ptoi_desc_cache_match(map, t, ptoi_desc_cache_first(map, t));
}

/* Caches the descriptor of `t` in its region, unless its layout descriptor has no id. */
void ptoi_desc_cache_set(pto_tensormap *map, uint32_t region, const pto_tensor *t);

/* The first step of a sweep of layout descriptors, in the map of a runtime: evicts all idle regions,
 * and marks the ids that the others name. The runtime marks the ids that it names itself, and
 * sweeps. Nobody may hold the number of a region meanwhile. */
void ptoi_desc_cache_release(pto_tensormap *map);

/* Clears the cached descriptor of the region. */
void ptoi_desc_cache_clear(pto_tensormap *map, uint32_t region);

#endif /* PTOI_DESC_CACHE_H */
