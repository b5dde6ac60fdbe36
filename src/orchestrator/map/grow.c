#include "orchestrator/map/grow.h"

#include <string.h>

#include "base/likely.h"
#include "base/mutant.h"
#include "orchestrator/map/desc_cache.h"
#include "orchestrator/map/entry.h"
#include "orchestrator/map/index.h"

#define RETURNS 8u /* one in so many evicted regions must return */

/* The power of two that is at least n. */
static uint32_t power(uint32_t n)
{
    return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/* ---- Regions ---- */

/* Sizes of the hash tables. Blocks, memories and groups: as many as regions may be used. Buckets: by
 * the regions that are known. While these are few enough to stay in a cache, so are buckets: a chain
 * of two regions costs less than a cache line for each bucket. Later it is the other way round: each
 * region of a chain that is not the right one is a line or two from memory, and the buckets of eight
 * regions are a line that a cache may still have. */
static void size_tables(pto_tensormap *map)
{
    const uint32_t most = power(map->region_capacity), known = power(map->region_free.untouched);
    const uint32_t few = most < PTOI_FEW_REGIONS ? most : PTOI_FEW_REGIONS;
    map->table_regions = known > few ? known : few;
    const uint32_t buckets = known > few ? 2 * known : few > 2 ? few / 2 : 2;
    map->unindexed_mask = map->index_mask = most - 1;
    map->bucket_shift = (uint32_t)__builtin_clz(buckets) + 1;
    map->desc_cache_shift = map->bucket_shift + 32;
}

/* Adds all regions to the tables that their numbers, hashes and owners choose. */
static void fill_tables(pto_tensormap *map)
{
    const size_t buckets = (size_t)1 << (32 - map->bucket_shift);
    memset(map->buckets, 0, buckets * sizeof *map->buckets);
    memset(map->desc_cache, 0, buckets * sizeof *map->desc_cache);
    memset(map->unindexed, 0, ((size_t)map->unindexed_mask + 1) * sizeof *map->unindexed);
    for (uint32_t i = 0; i < map->region_free.untouched; i++) {
        ptoi_region *r = &map->regions[i];
        if (!(r->flags & PTOI_REGION_USED)) {
            continue;
        }
        if (r->flags & PTOI_REGION_UNINDEXED) {
            /* Two blocks had different slots; in a larger table they still do. */
            map->unindexed[ptoi_unindexed_slot(map, r->a, r->b)] = ptoi_chain_to(i);
            continue;
        }
        ptoi_region_chain(map, i);
        if (r->desc) {
            ptoi_desc_cache_chain(map, i);
        }
    }
    ptoi_index_fill_tables(map);
}

static void grow_tables(pto_tensormap *map)
{
    size_tables(map);
    if (!PTOI_MUTANT(GROW_TABLES)) {
        fill_tables(map);
    }
}

static void grow_regions(pto_tensormap *map, uint32_t capacity, ptoi_grown why)
{
    map->region_capacity = capacity;
    map->ghosts.evictions = map->ghosts.returns = 0;
    if (power(capacity) - 1 != map->index_mask) {
        grow_tables(map);
    }
    map->growths[why]++;
}

static uint32_t *ghost_of(const pto_tensormap *map, uint32_t hash)
{
    const ptoi_ghosts *g = &map->ghosts;
    /* The sampled bits are 0, so the table is indexed by those above them. */
    return &g->hashes[(hash >> __builtin_popcount(g->sample)) & g->mask];
}

void ptoi_grow_evicted(pto_tensormap *map, uint32_t hash)
{
    ptoi_ghosts *g = &map->ghosts;
    if (map->region_capacity == map->region_limit) {
        return;
    }
    if (++g->evictions >= map->region_capacity) {
        g->evictions = g->returns = 0;
    }
    if (!(hash & g->sample)) {
        *ghost_of(map, hash) = hash;
    }
}

void ptoi_grow_entered(pto_tensormap *map, uint32_t hash)
{
    ptoi_ghosts *g = &map->ghosts;
    if (map->region_free.untouched > map->table_regions) {
        grow_tables(map);
    }
    if ((hash & g->sample) || map->region_free.untouched < map->region_capacity ||
        map->region_capacity == map->region_limit) {
        return;
    }
    uint32_t *ghost = ghost_of(map, hash);
    if (*ghost != hash || hash == 0) {
        return;
    }
    *ghost = 0;
    const uint32_t enough = map->region_capacity / RETURNS / (g->sample + 1);
    if (++g->returns > enough) {
        const uint32_t rest = map->region_limit - map->region_capacity;
        grow_regions(
            map, map->region_capacity + (rest < map->region_capacity ? rest : map->region_capacity),
            PTOI_GROWN_REGIONS);
    }
}

/* ---- Entries ---- */

/* Entries of all levels. */
static uint32_t all_entries(const pto_tensormap *map)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < map->levels; l++) {
        n += map->level[l].mask + 1;
    }
    return n;
}

bool ptoi_grow_entries(pto_tensormap *map, uint32_t l, size_t count)
{
    ptoi_level *level = &map->level[l];
    const size_t wanted = ptoi_entry_used(level) + count;
    if (PTOI_LIKELY(wanted <= (size_t)level->mask + 1)) {
        return true;
    }
    if (wanted > level->limit) {
        return false;
    }
    const uint32_t mask = power((uint32_t)wanted) - 1;
    if (!PTOI_MUTANT(GROW_IN_PLACE)) {
        /* An entry stays, or moves behind the part of the ring that was used so far. */
        for (uint32_t e = level->tail; e != level->head; e++) {
            if ((e & mask) != (e & level->mask)) {
                level->ring[e & mask] = level->ring[e & level->mask];
            }
        }
    }
    level->mask = mask;
    const uint32_t n = all_entries(map);
    if (n > map->region_capacity) { /* M3 */
        grow_regions(map, n, PTOI_GROWN_FOR_ENTRIES);
    }
    map->growths[PTOI_GROWN_ENTRIES]++;
    return true;
}

/* ---- Init ---- */

void ptoi_grow_begin(pto_tensormap *map, const uint32_t *entries, uint32_t regions)
{
    for (uint32_t l = 0; l < map->levels; l++) {
        map->level[l].mask = entries[l] - 1;
    }
    const uint32_t n = all_entries(map);
    map->region_capacity = regions > n ? regions : n;
    size_tables(map);
    map->ghosts.mask = (map->region_limit < PTOI_GHOSTS ? power(map->region_limit) : PTOI_GHOSTS) -
                       1;
    map->ghosts.sample = power(map->region_limit) / (map->ghosts.mask + 1) - 1;
}
