#include "orchestrator/map/desc_cache.h"

void ptoi_desc_cache_clear(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    if (r->desc == 0) {
        return;
    }
    ptoi_chain *link = &map->desc_cache[r->cached_bucket];
    while (ptoi_chain_at(*link) != region) {
        link = &map->regions[ptoi_chain_at(*link)].cached_next;
    }
    *link = r->cached_next;
    r->desc = 0;
}

void ptoi_desc_cache_set(pto_tensormap *map, uint32_t region, const pto_tensor *t)
{
    ptoi_region *r = &map->regions[region];
    const uint32_t desc = ptoi_desc_intern(&map->descs, t);
    ptoi_desc_cache_clear(map, region);
    if (desc == 0) {
        return;
    }
    ptoi_cached_desc_set(r, t, desc);
    r->cached_bucket = ptoi_desc_cache_bucket(map, t);
    r->cached_next = map->desc_cache[r->cached_bucket];
    map->desc_cache[r->cached_bucket] = ptoi_chain_to(region);
}
