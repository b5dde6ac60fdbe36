#include "orchestrator/map/links.h"

#include "base/error.h"
#include "base/likely.h"
#include "base/mutant.h"
#include "tensor/exact.h"
#include "tensor/overlap.h"

static void attach(pto_tensormap *map, uint32_t region, uint32_t end, uint32_t other)
{
    ptoi_region *r = &map->regions[region];
    uint32_t first = ptoi_links_first(r);
    map->link_ends[end] = (ptoi_link_end){other, first, PTOI_LINKS_NONE, PTOI_COVERS_UNKNOWN};
    if (first != PTOI_LINKS_NONE) {
        map->link_ends[first].prev = end;
    }
    r->links = end | (r->links & PTOI_LINKS_INCOMPLETE);
}

static void detach(pto_tensormap *map, uint32_t region, uint32_t end)
{
    ptoi_region *r = &map->regions[region];
    const ptoi_link_end *link = &map->link_ends[end];
    if (link->prev == PTOI_LINKS_NONE) {
        r->links = link->next | (r->links & PTOI_LINKS_INCOMPLETE);
    } else {
        map->link_ends[link->prev].next = link->next;
    }
    if (link->next != PTOI_LINKS_NONE) {
        map->link_ends[link->next].prev = link->prev;
    }
}

void ptoi_links_mark_incomplete(pto_tensormap *map, uint32_t a, uint32_t b)
{
    map->regions[a].links |= PTOI_LINKS_INCOMPLETE;
    map->regions[b].links |= PTOI_LINKS_INCOMPLETE;
}

void ptoi_links_add(pto_tensormap *map, uint32_t a, uint32_t b)
{
    uint32_t end = map->link_free.freed;
    if (end != PTOI_NONE) {
        map->link_free.freed = map->link_ends[end].next;
    } else if (map->link_free.untouched < map->link_capacity) {
        end = map->link_free.untouched;
        map->link_free.untouched += 2;
    } else {
        ptoi_links_mark_incomplete(map, a, b);
        return;
    }
    attach(map, a, end, b);
    attach(map, b, end ^ 1, a);
}

void ptoi_links_clear(pto_tensormap *map, uint32_t region)
{
    uint32_t end = ptoi_links_first(&map->regions[region]);
    while (end != PTOI_LINKS_NONE) {
        uint32_t next = map->link_ends[end].next, pair = end & ~1u;
        detach(map, map->link_ends[end].region, end ^ 1);
        map->link_ends[pair].next = map->link_free.freed;
        map->link_free.freed = pair;
        end = next;
    }
    map->regions[region].links = PTOI_LINKS_NONE;
}

bool ptoi_region_covers(pto_tensormap *map, uint32_t a, uint32_t b)
{
    if (PTOI_MUTANT(COVER_EARLY)) {
        return true;
    }
    return ptoi_map_covers(map, &map->regions[a].layout, &map->regions[b].layout);
}

bool ptoi_map_covers(pto_tensormap *map, const ptoi_layout *a, const ptoi_layout *b)
{
    pto_overlap_result all = ptoi_covers(a, b, map->budget);
    if (PTOI_LIKELY(all.stage != PTO_STAGE_BUDGET)) {
        return all.yes;
    }
    map->stats.budget_hits++;
    return map->exact && ptoi_covers_exactly(a, b);
}

bool ptoi_links_covers(pto_tensormap *map, uint32_t region, ptoi_link_end *link)
{
    if (link->covers == PTOI_COVERS_UNKNOWN) {
        link->covers = ptoi_region_covers(map, region, link->region) ? PTOI_COVERS_YES
                                                                     : PTOI_COVERS_NO;
    }
    return link->covers == PTOI_COVERS_YES;
}

/* How many links lead from a region to another one. */
static uint32_t links_to(const pto_tensormap *map, const ptoi_region *r, uint32_t other)
{
    uint32_t count = 0;
    for (uint32_t end = ptoi_links_first(r); end != PTOI_LINKS_NONE;
         end = map->link_ends[end].next) {
        count += map->link_ends[end].region == other;
    }
    return count;
}

pto_status ptoi_links_check(const pto_tensormap *map, uint32_t region)
{
    const ptoi_region *r = &map->regions[region];
    uint32_t before = PTOI_LINKS_NONE, ends = 0;
    for (uint32_t end = ptoi_links_first(r); end != PTOI_LINKS_NONE;
         end = map->link_ends[end].next) {
        const ptoi_link_end *link = &map->link_ends[end];
        if (end >= map->link_free.untouched || link->prev != before ||
            link->region >= map->region_free.untouched ||
            map->link_ends[end ^ 1].region != region ||
            !(map->regions[link->region].flags & PTOI_REGION_USED) ||
            map->regions[link->region].space != r->space || ends++ > map->region_free.untouched) {
            return ptoi_fail(PTO_CORRUPT, "map: M5 broken, region %u has bad link %u", region, end);
        }
        before = end;
    }
    for (uint32_t o = 0; o < map->region_free.untouched; o++) {
        const ptoi_region *other = &map->regions[o];
        if (o == region || !ptoi_region_is_indexed(other) || other->space != r->space) {
            continue;
        }
        pto_overlap_result met = ptoi_overlaps(&r->layout, &other->layout, map->budget);
        bool proved = met.yes && met.stage != PTO_STAGE_BUDGET;
        uint32_t linked = links_to(map, r, o);
        const bool wanted = !ptoi_region_only_read(r) || !ptoi_region_only_read(other);
        /* A box in the index may have proved an overlap for which the budget is too small here. */
        if (linked > (met.yes ? 1u : 0u) ||
            (!linked && proved && wanted && !(r->links & PTOI_LINKS_INCOMPLETE))) {
            return ptoi_fail(PTO_CORRUPT, "map: M5 broken, region %u has %u links to region %u",
                             region, linked, o);
        }
    }
    return PTO_OK;
}
