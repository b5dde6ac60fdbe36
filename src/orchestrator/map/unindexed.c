#include "orchestrator/map/unindexed.h"

#include "orchestrator/map/desc_cache.h"
#include "orchestrator/map/links.h"

static void to_index(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    ptoi_place place;
    map->unindexed[ptoi_unindexed_slot(map, r->a, r->b)] = ptoi_chain_to(PTOI_NONE);
    r->desc = 0;
    r->flags &= (uint8_t)~PTOI_REGION_UNINDEXED;
    map->regions_used--; /* ptoi_region_enter_index counts it again */
    ptoi_place_of_block(r->a, r->b, r->cached.storage[1], &place);
    ptoi_region_enter_index(map, region, &place);
}

void ptoi_unindexed_to_index(pto_tensormap *map, uint64_t owner, uint64_t generation)
{
    uint32_t region = ptoi_chain_at(map->unindexed[ptoi_unindexed_slot(map, owner, generation)]);
    if (region != PTOI_NONE && map->regions[region].a == owner &&
        map->regions[region].b == generation) {
        to_index(map, region);
    }
}

uint32_t ptoi_unindexed_create(pto_tensormap *map, const pto_tensor *t, uint32_t desc)
{
    ptoi_chain *slot = &map->unindexed[ptoi_unindexed_slot(map, t->owner, t->generation)];
    if (ptoi_chain_at(*slot) != PTOI_NONE) {
        to_index(map, ptoi_chain_at(*slot));
    }
    uint32_t region = ptoi_region_take(map);
    ptoi_region *r = &map->regions[region];
    r->kind = PTOI_SPACE_BLOCK;
    r->a = t->owner;
    r->b = t->generation;
    r->flags |= PTOI_REGION_USED | PTOI_REGION_UNINDEXED;
    ptoi_cached_desc_set(r, t, desc);
    r->cached_next = ptoi_chain_to(PTOI_NONE);
    *slot = ptoi_chain_to(region);
    map->regions_used++;
    return region;
}
