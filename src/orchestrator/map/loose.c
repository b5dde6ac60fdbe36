#include "orchestrator/map/loose.h"

#include "orchestrator/map/near.h"
#include "orchestrator/map/recall.h"

static void settle(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    ptoi_place place;
    map->loose[ptoi_loose_slot(map, r->a, r->b)] = ptoi_chain_to(PTOI_NONE);
    r->form = 0;
    r->flags &= (uint8_t)~PTOI_REGION_LOOSE;
    map->regions_used--; /* counted again */
    ptoi_place_of_block(r->a, r->b, r->alias.storage[1], &place);
    ptoi_region_settle(map, region, &place);
}

void ptoi_loose_settle(pto_tensormap *map, uint64_t owner, uint64_t generation)
{
    uint32_t region = ptoi_chain_at(map->loose[ptoi_loose_slot(map, owner, generation)]);
    if (region != PTOI_NONE && map->regions[region].a == owner &&
        map->regions[region].b == generation) {
        settle(map, region);
    }
}

uint32_t ptoi_loose_create(pto_tensormap *map, const pto_tensor *t, uint32_t form)
{
    ptoi_chain *slot = &map->loose[ptoi_loose_slot(map, t->owner, t->generation)];
    if (ptoi_chain_at(*slot) != PTOI_NONE) {
        settle(map, ptoi_chain_at(*slot));
    }
    uint32_t region = ptoi_region_take(map);
    ptoi_region *r = &map->regions[region];
    r->kind = PTOI_SPACE_BLOCK;
    r->a = t->owner;
    r->b = t->generation;
    r->flags |= PTOI_REGION_USED | PTOI_REGION_LOOSE;
    ptoi_alias_set(r, t, form);
    r->alias_next = ptoi_chain_to(PTOI_NONE);
    *slot = ptoi_chain_to(region);
    map->regions_used++;
    return region;
}
