/* region.h - the regions that the map knows: found by hash, kept while they may be of use. */
#ifndef PTOI_REGION_H
#define PTOI_REGION_H

#include <string.h>

#include "orchestrator/map/entry.h"

/* Whether the region is in hash and index. */
static inline bool ptoi_region_is_indexed(const ptoi_region *r)
{
    return (r->flags & (PTOI_REGION_USED | PTOI_REGION_UNINDEXED)) == PTOI_REGION_USED;
}

/* Whether no access of the region is live. */
static inline bool ptoi_region_idle(const pto_tensormap *map, const ptoi_region *r)
{
    if (r->writer >= map->level[r->writer_level].watermark) {
        return false;
    }
    for (uint32_t levels = r->read_levels; levels; levels &= levels - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(levels);
        const ptoi_level *level = &map->level[l];
        if (ptoi_entry_in_use(level, r->readers[l]) &&
            ptoi_entry_at(level, r->readers[l])->task >= level->watermark) {
            return false;
        }
    }
    return true;
}

/* Whether the region is known for reads only. */
static inline bool ptoi_region_only_read(const ptoi_region *r)
{
    return r->flags & PTOI_REGION_ONLY_READ;
}

/* False if a write need not look for readers: none is known, and all regions that overlap are linked. One test of
 * two fields, since submit asks this for every write. */
_Static_assert(offsetof(ptoi_region, flags) == offsetof(ptoi_region, read_levels) + 1,
               "one load has both");

static inline bool ptoi_region_may_delay_write(const ptoi_region *r)
{
    const uint8_t both[2] = {0xff, PTOI_REGION_ONLY_READ};
    uint16_t fields, mask;
    memcpy(&fields, &r->read_levels, sizeof fields);
    memcpy(&mask, both, sizeof mask);
    return fields & mask;
}

/* Adds a region to the bucket of its hash. */
static inline void ptoi_region_chain(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    ptoi_chain *bucket = &map->buckets[r->hash >> map->bucket_shift];
    r->next = *bucket;
    *bucket = ptoi_chain_to(region);
}

/* Whether the region will hardly be used again once it is idle. A whole block mostly is a temporary. Parts of a
 * block are views that a program comes back to, as in user memory. (A map on its own gets no unindexed regions.) */
static inline bool ptoi_region_is_brief(const pto_tensormap *map, const ptoi_region *r)
{
    return map->order ? (r->flags & PTOI_REGION_UNINDEXED) != 0 : r->kind != PTOI_SPACE_USER;
}

/* The region of exactly this place; PTOI_NONE if it is not known. */
uint32_t ptoi_region_find(const pto_tensormap *map, const ptoi_place *place);

/* Allocates a region without accesses and links: the one that is cheapest to reuse. There must be
 * one (M3 says when). */
uint32_t ptoi_region_take(pto_tensormap *map);

/* Gives an allocated region its place, links it, and adds it to hash and index. Its flags say whether it is written. */
void ptoi_region_enter_index(pto_tensormap *map, uint32_t region, const ptoi_place *place);

/* Moves an indexed region that was only read to the written ones, and links it. Call it with the first question
 * about a write to it. In the map of a runtime nothing is evicted, so regions that were found stay. */
void ptoi_region_begin_writes(pto_tensormap *map, uint32_t region);

/* Called when an entry of the region was recycled or dropped. Puts an idle region that is brief on the dead list. */
void ptoi_region_let_go(pto_tensormap *map, uint32_t region);

/* Drops all accesses of a region and counts those that were live. */
void ptoi_region_drop(pto_tensormap *map, uint32_t region);

/* Drops the accesses of all other regions that `region` covers. */
void ptoi_region_supersede(pto_tensormap *map, uint32_t region);

/* Evicts the idle regions on the list `first` (through evict_next). */
void ptoi_region_evict(pto_tensormap *map, uint32_t first);

/* Drops the accesses of all regions that the place covers, except those written since `since`. */
void ptoi_region_supersede_all(pto_tensormap *map, uint32_t space, const ptoi_layout *layout,
                               pto_map_task since);

#endif /* PTOI_REGION_H */
