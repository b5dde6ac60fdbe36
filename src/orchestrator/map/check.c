/* check.c - checks every invariant of map.h. */
#include <pto/pto.h>

#include "base/error.h"
#include "orchestrator/map/desc_cache.h"
#include "orchestrator/map/index.h"
#include "orchestrator/map/links.h"

/* M5 compares each region with all others. With more regions than this it compares a sample. */
#define PAIRS_IN_FULL 512u
#define PAIRS_SAMPLED 16u

#define MAX_AGE (1u << 30) /* of M2 */

/* M1, and the order of tasks along the ring. */
static pto_status check_level(const pto_tensormap *map, uint32_t l)
{
    const ptoi_level *level = &map->level[l];
    uint32_t used = level->head - level->tail, first = 0, blocks = 0;
    uint64_t before = 0;
    if (used > level->mask + 1 || level->mask >= level->limit) {
        return ptoi_fail(PTO_CORRUPT, "map: M1 broken, %u entries in use of %u on level %u", used,
                         level->mask + 1, l);
    }
    for (uint32_t e = level->tail; e != level->head; e++) {
        const ptoi_entry *entry = ptoi_entry_at(level, e);
        if (entry->task < before) {
            return ptoi_fail(PTO_CORRUPT, "map: M1 broken, task %llu after %llu on level %u",
                             (unsigned long long)entry->task, (unsigned long long)before, l);
        }
        if (entry->task != before) {
            first = e;
        }
        /* The first entry of the oldest task may be recycled before its others. Nobody needs it
         * then: they have all retired. */
        if (entry->first != first && entry->task >= level->watermark && !map->nameless) {
            return ptoi_fail(PTO_CORRUPT, "map: entry %u of level %u begins at %u, not at %u", e, l,
                             entry->first, first);
        }
        if (entry->region >= map->region_free.untouched) {
            return ptoi_fail(PTO_CORRUPT, "map: M2 broken, entry %u names region %u of %u", e,
                             entry->region, map->region_free.untouched);
        }
        blocks += entry->kind != PTOI_SPACE_USER;
        before = entry->task;
    }
    if (blocks != level->blocks) {
        return ptoi_fail(PTO_CORRUPT, "map: level %u counts %u entries of blocks, there are %u", l,
                         level->blocks, blocks);
    }
    return PTO_OK;
}

static pto_status check_chain(const pto_tensormap *map, uint32_t region, uint32_t l)
{
    const ptoi_level *level = &map->level[l];
    uint32_t e = map->regions[region].readers[l];
    if (!ptoi_entry_in_use(level, e)) {
        return level->tail - e <= MAX_AGE
                   ? PTO_OK
                   : ptoi_fail(PTO_CORRUPT, "map: M2 broken, region %u keeps entry %u, tail is %u",
                               region, e, level->tail);
    }
    for (;;) {
        const ptoi_entry *entry = ptoi_entry_at(level, e);
        if (entry->region != region || entry->access != PTO_MAP_READ) {
            return ptoi_fail(PTO_CORRUPT, "map: M2 broken, entry %u is no read of region %u", e,
                             region);
        }
        uint32_t older = entry->older;
        if (older == e || !ptoi_entry_in_use(level, older)) {
            return PTO_OK;
        }
        if ((int32_t)(older - e) >= 0 || ptoi_entry_at(level, older)->task > entry->task) {
            return ptoi_fail(PTO_CORRUPT, "map: M6 broken, entry %u follows %u", older, e);
        }
        e = older;
    }
}

static pto_status check_region(const pto_tensormap *map, uint32_t region)
{
    const ptoi_region *r = &map->regions[region];
    ptoi_space_key key = {r->a, r->b, (ptoi_space_kind)r->kind};
    bool unindexed = r->flags & PTOI_REGION_UNINDEXED;
    PTO_TRY(unindexed ? PTO_OK : ptoi_layout_check(&r->layout));
    if (unindexed ? ptoi_chain_at(map->unindexed[ptoi_unindexed_slot(map, r->a, r->b)]) != region ||
                        r->kind != PTOI_SPACE_BLOCK || r->desc == 0 ||
                        r->links != PTOI_LINKS_NONE || ptoi_space_find(map, &key) != PTOI_NONE
                  : r->hash != ptoi_mix_layout(&r->layout, &key)) {
        return ptoi_fail(PTO_CORRUPT, "map: M4 broken, region %u has hash %u", region, r->hash);
    }
    if (r->writer && ptoi_region_only_read(r)) {
        return ptoi_fail(PTO_CORRUPT, "map: M5 broken, region %u has a writer and is not written",
                         region);
    }
    if (r->writer >= map->level[r->writer_level].watermark) {
        const ptoi_level *level = &map->level[r->writer_level];
        const ptoi_entry *entry = ptoi_entry_at(level, r->writer_entry);
        if (!ptoi_entry_in_use(level, r->writer_entry) || entry->region != region ||
            entry->task != r->writer || entry->access != PTO_MAP_WRITE) {
            return ptoi_fail(PTO_CORRUPT, "map: M2 broken, region %u lost entry %u of task %llu",
                             region, r->writer_entry, (unsigned long long)r->writer);
        }
    }
    for (uint32_t l = 0; l < PTO_MAP_MAX_LEVELS; l++) {
        if (r->read_levels & (1u << l)) {
            PTO_TRY(check_chain(map, region, l));
        }
    }
    return PTO_OK;
}

/* M3: enough regions; the free list, the dead list, and idle regions on neither of them. */
static pto_status check_lists(const pto_tensormap *map, uint32_t used)
{
    uint32_t known = map->region_free.untouched, freed = 0, dead = 0, unused_dead = 0, entries = 0;
    for (uint32_t l = 0; l < map->levels; l++) {
        entries += map->level[l].mask + 1;
    }
    if (entries > map->region_capacity || known > map->region_capacity ||
        map->region_capacity > map->region_limit) {
        return ptoi_fail(PTO_CORRUPT, "map: M3 broken, %u entries, %u regions known of %u, of %u",
                         entries, known, map->region_capacity, map->region_limit);
    }
    for (uint32_t at = map->region_free.freed; at != PTOI_NONE; at = map->regions[at].next) {
        if (map->regions[at].flags || ++freed > known) {
            return ptoi_fail(PTO_CORRUPT, "map: M3 broken, region %u on the free list", at);
        }
    }
    for (uint32_t at = map->dead; at != PTOI_NONE; at = map->regions[at].dead_next) {
        if (!(map->regions[at].flags & PTOI_REGION_DEAD) || ++dead > known) {
            return ptoi_fail(PTO_CORRUPT, "map: M3 broken, region %u on the dead list", at);
        }
        unused_dead += !(map->regions[at].flags & PTOI_REGION_USED);
    }
    bool clean = true; /* the entries of all retired tasks are recycled */
    for (uint32_t l = 0; l < map->levels; l++) {
        clean &= map->level[l].cleaned == map->level[l].watermark;
    }
    for (uint32_t at = 0; at < known; at++) {
        const ptoi_region *r = &map->regions[at];
        dead -= (r->flags & PTOI_REGION_DEAD) != 0;
        if (clean && (r->flags & PTOI_REGION_USED) && ptoi_region_is_brief(map, r) &&
            ptoi_region_idle(map, r) && !(r->flags & PTOI_REGION_DEAD)) {
            return ptoi_fail(PTO_CORRUPT, "map: M3 broken, region %u is dead and not listed", at);
        }
    }
    if (dead != 0 || used + freed + unused_dead != known) {
        return ptoi_fail(PTO_CORRUPT, "map: M3 broken, %u regions are used, %u free, %u dead of %u",
                         used, freed, unused_dead, known);
    }
    return PTO_OK;
}

pto_status pto_tensormap_check(const pto_tensormap *map)
{
    if (!map) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "check: map is NULL");
    }
    for (uint32_t l = 0; l < map->levels; l++) {
        PTO_TRY(check_level(map, l));
    }

    uint32_t used = 0, unindexed = 0, named = 0, known = map->region_free.untouched;
    uint32_t step = known <= PAIRS_IN_FULL ? 1 : known / PAIRS_SAMPLED;
    for (uint32_t r = 0; r < known; r++) {
        if (!(map->regions[r].flags & PTOI_REGION_USED)) {
            continue;
        }
        used++;
        unindexed += (map->regions[r].flags & PTOI_REGION_UNINDEXED) != 0;
        named += ptoi_region_is_indexed(&map->regions[r]) && map->regions[r].desc != 0;
        PTO_TRY(check_region(map, r));
        if (r % step == 0 && ptoi_region_is_indexed(&map->regions[r])) {
            PTO_TRY(ptoi_links_check(map, r));
        }
    }
    PTO_TRY(check_lists(map, used));

    uint32_t hashed = 0;
    for (uint64_t b = 0; b < UINT64_C(1) << (32 - map->bucket_shift); b++) {
        for (uint32_t r = ptoi_chain_at(map->buckets[b]); r != PTOI_NONE;
             r = ptoi_chain_at(map->regions[r].next)) {
            if (map->regions[r].hash >> map->bucket_shift != b || hashed > known) {
                return ptoi_fail(PTO_CORRUPT, "map: M4 broken, region %u in bucket %llu", r,
                                 (unsigned long long)b);
            }
            hashed++;
        }
    }
    uint32_t cached = 0;
    for (uint64_t b = 0; b < UINT64_C(1) << (32 - map->bucket_shift); b++) {
        for (uint32_t r = ptoi_chain_at(map->desc_cache[b]); r != PTOI_NONE;
             r = ptoi_chain_at(map->regions[r].cached_next)) {
            if (ptoi_desc_cache_bucket_of(map, &map->regions[r]) != &map->desc_cache[b] ||
                ++cached > named) {
                return ptoi_fail(PTO_CORRUPT, "map: M4 broken, region %u in descriptor bucket %llu",
                                 r, (unsigned long long)b);
            }
        }
    }
    if (cached != named) {
        return ptoi_fail(PTO_CORRUPT, "map: M4 broken, %u cached descriptors of %u found", cached,
                         named);
    }
    if (hashed + unindexed != used || used != map->regions_used) {
        return ptoi_fail(PTO_CORRUPT,
                         "map: M4 broken, %u regions in buckets, %u unindexed, %u in use", hashed,
                         unindexed, map->regions_used);
    }
    PTO_TRY(ptoi_descs_check(&map->descs));
    return ptoi_index_check(map);
}
