#include "orchestrator/map/desc_cache.h"

#include "base/likely.h"
#include "orchestrator/map/region.h"

void ptoi_desc_cache_clear(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    if (r->desc == 0) {
        return;
    }
    ptoi_chain *link = ptoi_desc_cache_bucket_of(map, r);
    while (ptoi_chain_at(*link) != region) {
        link = &map->regions[ptoi_chain_at(*link)].cached_next;
    }
    *link = r->cached_next;
    r->desc = 0;
}

/* Marks the ids that regions name. */
static void mark_all(pto_tensormap *map)
{
    for (uint32_t i = 0; i < map->region_free.untouched; i++) {
        const ptoi_region *r = &map->regions[i];
        if (r->flags & PTOI_REGION_USED) {
            ptoi_descs_mark(&map->descs, r->desc);
        }
    }
}

void ptoi_desc_cache_release(pto_tensormap *map)
{
    uint32_t idle = PTOI_NONE;
    for (uint32_t i = 0; i < map->region_free.untouched; i++) {
        ptoi_region *r = &map->regions[i];
        if ((r->flags & PTOI_REGION_USED) && ptoi_region_idle(map, r)) {
            r->evict_next = idle;
            idle = i;
        }
    }
    ptoi_region_evict(map, idle);
    mark_all(map);
}

/* In a map without a runtime only regions name ids, and they need not know them. Callers may hold
 * the numbers of regions, so regions stay. A sweep visits everything, so it must not come often. */
static void sweep_alone(pto_tensormap *map)
{
    for (uint32_t i = 0; i < map->region_free.untouched; i++) {
        if (ptoi_region_is_indexed(&map->regions[i]) && ptoi_region_idle(map, &map->regions[i])) {
            ptoi_desc_cache_clear(map, i);
        }
    }
    mark_all(map);
    ptoi_descs_sweep(&map->descs);
    map->unsaid = 0;
}

void ptoi_desc_cache_set(pto_tensormap *map, uint32_t region, const pto_tensor *t)
{
    ptoi_region *r = &map->regions[region];
    uint32_t desc = ptoi_desc_intern(&map->descs, t);
    ptoi_desc_cache_clear(map, region);
    if (PTOI_UNLIKELY(desc == 0) && !map->nameless && ++map->unsaid >= PTOI_DESC_UNITS / 16) {
        sweep_alone(map);
        desc = ptoi_desc_intern(&map->descs, t);
    }
    if (desc == 0) {
        return;
    }
    ptoi_cached_desc_set(r, t, desc);
    r->cached_hash = (uint32_t)(ptoi_desc_cache_hash(t) >> 32);
    ptoi_desc_cache_chain(map, region);
}
