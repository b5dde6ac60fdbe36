#include "orchestrator/map/near.h"

#include "base/error.h"
#include "base/mutant.h"
#include "tensor/overlap.h"

static void attach(pto_tensormap *map, uint32_t region, uint32_t end, uint32_t other)
{
    ptoi_region *r = &map->regions[region];
    uint32_t first = ptoi_near_first(r);
    map->links[end] = (ptoi_link){other, first, PTOI_NEAR_NONE, PTOI_COVERS_UNKNOWN};
    if (first != PTOI_NEAR_NONE) {
        map->links[first].prev = end;
    }
    r->near = end | (r->near & PTOI_INCOMPLETE);
}

static void detach(pto_tensormap *map, uint32_t region, uint32_t end)
{
    ptoi_region *r = &map->regions[region];
    const ptoi_link *link = &map->links[end];
    if (link->prev == PTOI_NEAR_NONE) {
        r->near = link->next | (r->near & PTOI_INCOMPLETE);
    } else {
        map->links[link->prev].next = link->next;
    }
    if (link->next != PTOI_NEAR_NONE) {
        map->links[link->next].prev = link->prev;
    }
}

void ptoi_near_suspect(pto_tensormap *map, uint32_t a, uint32_t b)
{
    map->regions[a].near |= PTOI_INCOMPLETE;
    map->regions[b].near |= PTOI_INCOMPLETE;
}

void ptoi_near_link(pto_tensormap *map, uint32_t a, uint32_t b)
{
    uint32_t end = map->link_free.freed;
    if (end != PTOI_NONE) {
        map->link_free.freed = map->links[end].next;
    } else if (map->link_free.fresh < map->link_capacity) {
        end = map->link_free.fresh;
        map->link_free.fresh += 2;
    } else {
        ptoi_near_suspect(map, a, b);
        return;
    }
    attach(map, a, end, b);
    attach(map, b, end ^ 1, a);
}

void ptoi_near_unlink(pto_tensormap *map, uint32_t region)
{
    uint32_t end = ptoi_near_first(&map->regions[region]);
    while (end != PTOI_NEAR_NONE) {
        uint32_t next = map->links[end].next, pair = end & ~1u;
        detach(map, map->links[end].region, end ^ 1);
        map->links[pair].next = map->link_free.freed;
        map->link_free.freed = pair;
        end = next;
    }
    map->regions[region].near = PTOI_NEAR_NONE;
}

bool ptoi_region_covers(pto_tensormap *map, uint32_t a, uint32_t b)
{
    if (PTOI_MUTANT(COVER_EARLY)) {
        return true;
    }
    pto_overlap_result all = ptoi_covers(&map->regions[a].layout, &map->regions[b].layout,
                                         map->budget);
    map->stats.budget_hits += all.stage == PTO_STAGE_BUDGET;
    return all.yes;
}

bool ptoi_near_covers(pto_tensormap *map, uint32_t region, ptoi_link *link)
{
    if (link->covers == PTOI_COVERS_UNKNOWN) {
        link->covers = ptoi_region_covers(map, region, link->region) ? PTOI_COVERS_YES
                                                                     : PTOI_COVERS_NO;
    }
    return link->covers == PTOI_COVERS_YES;
}

/* How often a region is linked with another. */
static uint32_t links_to(const pto_tensormap *map, const ptoi_region *r, uint32_t other)
{
    uint32_t count = 0;
    for (uint32_t end = ptoi_near_first(r); end != PTOI_NEAR_NONE; end = map->links[end].next) {
        count += map->links[end].region == other;
    }
    return count;
}

pto_status ptoi_near_check(const pto_tensormap *map, uint32_t region)
{
    const ptoi_region *r = &map->regions[region];
    uint32_t before = PTOI_NEAR_NONE, ends = 0;
    for (uint32_t end = ptoi_near_first(r); end != PTOI_NEAR_NONE; end = map->links[end].next) {
        const ptoi_link *link = &map->links[end];
        if (end >= map->link_free.fresh || link->prev != before ||
            link->region >= map->region_free.fresh || map->links[end ^ 1].region != region ||
            !(map->regions[link->region].flags & PTOI_REGION_USED) ||
            map->regions[link->region].space != r->space || ends++ > map->region_free.fresh) {
            return ptoi_fail(PTO_CORRUPT, "map: M5 broken, region %u has bad link %u", region, end);
        }
        before = end;
    }
    for (uint32_t o = 0; o < map->region_free.fresh; o++) {
        const ptoi_region *other = &map->regions[o];
        if (o == region || !ptoi_region_settled(other) || other->space != r->space) {
            continue;
        }
        pto_overlap_result met = ptoi_overlaps(&r->layout, &other->layout, map->budget);
        bool proved = met.yes && met.stage != PTO_STAGE_BUDGET;
        uint32_t linked = links_to(map, r, o);
        /* Boxes of the index may have proved what the budget does not suffice for here. */
        if (linked > (met.yes ? 1u : 0u) || (!linked && proved && !(r->near & PTOI_INCOMPLETE))) {
            return ptoi_fail(PTO_CORRUPT, "map: M5 broken, region %u has %u links to region %u",
                             region, linked, o);
        }
    }
    return PTO_OK;
}
