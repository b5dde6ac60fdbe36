#include "orchestrator/map/region.h"

#include "orchestrator/map/desc_cache.h"
#include "orchestrator/map/grow.h"
#include "orchestrator/map/index.h"
#include "orchestrator/map/links.h"
#include "orchestrator/map/unindexed.h"
#include "tensor/overlap.h"

static bool same_place(const ptoi_region *r, const ptoi_place *p)
{
    return ptoi_layout_equal(&r->layout, &p->layout) && r->kind == p->space.kind &&
           r->a == p->space.a && r->b == p->space.b;
}

uint32_t ptoi_region_find(const pto_tensormap *map, const ptoi_place *place)
{
    uint32_t at = ptoi_chain_at(map->buckets[place->hash >> map->bucket_shift]);
    while (at != PTOI_NONE && !same_place(&map->regions[at], place)) {
        at = ptoi_chain_at(map->regions[at].next);
    }
    return at;
}

/* ---- Creating and evicting ---- */

/* Removes a region from all tables and lists but the dead list. */
static void take_out(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    if (r->flags & PTOI_REGION_UNINDEXED) {
        map->unindexed[ptoi_unindexed_slot(map, r->a, r->b)] = ptoi_chain_to(PTOI_NONE);
    } else {
        ptoi_links_clear(map, region);
        ptoi_index_remove(map, region);
        ptoi_desc_cache_clear(map, region);
        ptoi_chain *link = &map->buckets[r->hash >> map->bucket_shift];
        while (ptoi_chain_at(*link) != region) {
            link = &map->regions[ptoi_chain_at(*link)].next;
        }
        *link = r->next;
    }
    r->flags &= PTOI_REGION_DEAD;
    map->regions_used--;
}

void ptoi_region_evict(pto_tensormap *map, uint32_t first)
{
    while (first != PTOI_NONE) {
        ptoi_region *r = &map->regions[first];
        uint32_t after = r->evict_next;
        take_out(map, first);
        if (!(r->flags & PTOI_REGION_DEAD)) { /* else the dead list has it */
            r->next = map->region_free.freed;
            map->region_free.freed = first;
        }
        first = after;
    }
}

void ptoi_region_let_go(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    if ((r->flags & (PTOI_REGION_USED | PTOI_REGION_DEAD)) != PTOI_REGION_USED ||
        !ptoi_region_is_brief(map, r) || !ptoi_region_idle(map, r)) {
        return; /* evicted already, on the list already, worth keeping, or live */
    }
    r->flags |= PTOI_REGION_DEAD;
    r->dead_next = map->dead;
    map->dead = region;
}

/* Reuses the region that died last, if it is still idle: its lines are still in the cache. */
static uint32_t take_dead(pto_tensormap *map)
{
    while (map->dead != PTOI_NONE) {
        uint32_t at = map->dead;
        ptoi_region *r = &map->regions[at];
        map->dead = r->dead_next;
        r->flags &= (uint8_t)~PTOI_REGION_DEAD;
        if (!(r->flags & PTOI_REGION_USED)) {
            return at;
        }
        if (ptoi_region_idle(map, r)) {
            take_out(map, at);
            return at;
        }
    }
    return PTOI_NONE;
}

/* Reuses an idle region, searching from where the last search ended. M3 says that there is one. */
static uint32_t take_idle(pto_tensormap *map)
{
    for (;;) {
        uint32_t at = map->hand;
        map->hand = at + 1 < map->region_capacity ? at + 1 : 0;
        const ptoi_region *r = &map->regions[at];
        if (ptoi_region_idle(map, r)) {
            if (ptoi_region_is_indexed(r)) {
                ptoi_grow_evicted(map, r->hash);
            }
            take_out(map, at);
            return at;
        }
    }
}

/* Allocates the region that is cheapest to reuse: a freed one, a dead one, one that was never used,
 * and only then an idle one that might have been used again. */
static uint32_t allocate(pto_tensormap *map)
{
    uint32_t at = map->region_free.freed;
    if (at != PTOI_NONE) {
        map->region_free.freed = map->regions[at].next;
        return at;
    }
    at = take_dead(map);
    if (at != PTOI_NONE) {
        return at;
    }
    return map->region_free.untouched < map->region_capacity ? map->region_free.untouched++
                                                             : take_idle(map);
}

uint32_t ptoi_region_take(pto_tensormap *map)
{
    uint32_t region = allocate(map);
    ptoi_region *r = &map->regions[region];
    r->writer = 0;
    r->read_levels = 0;
    r->links = PTOI_LINKS_NONE;
    r->desc = 0;
    return region;
}

/* Links a region with those of some trees that share a byte with it. */
static void link_with(pto_tensormap *map, uint32_t region, uint32_t space, uint32_t trees)
{
    ptoi_search s;
    ptoi_search_begin(&s, map, space, &map->regions[region].layout, region, trees);
    s.idle_too = true;
    for (uint32_t other; (other = ptoi_search_next(&s)) != PTOI_NONE;) {
        if (s.proved) {
            ptoi_links_add(map, region, other);
        } else {
            ptoi_links_mark_incomplete(map, region, other);
        }
    }
    ptoi_region_evict(map, s.idle);
}

void ptoi_region_begin_writes(pto_tensormap *map, uint32_t region)
{
    const ptoi_region *r = &map->regions[region];
    map->begun++;
    ptoi_index_move_to_written(map, region);
    link_with(map, region, r->space, PTOI_ONLY_READ);
}

void ptoi_region_enter_index(pto_tensormap *map, uint32_t region, const ptoi_place *place)
{
    ptoi_region *r = &map->regions[region];
    r->kind = (uint8_t)place->space.kind;
    r->hash = place->hash;
    r->layout = place->layout;
    r->a = place->space.a;
    r->b = place->space.b;
    uint32_t space = ptoi_space_find(map, &place->space);
    if (space != PTOI_NONE && map->spaces[space].regions) {
        link_with(map, region, space, ptoi_region_only_read(r) ? PTOI_WRITTEN : PTOI_ALL);
    }
    ptoi_index_insert(map, region, place->origin);
    ptoi_region_chain(map, region);
    r->flags |= PTOI_REGION_USED;
    map->regions_used++;
}

/* ---- Dropping accesses ---- */

void ptoi_region_drop(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    if (r->writer) {
        map->stats.superseded += r->writer >= map->level[r->writer_level].watermark;
        r->writer = 0;
    }
    for (uint32_t levels = r->read_levels; levels; levels &= levels - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(levels);
        const ptoi_level *level = &map->level[l];
        for (uint32_t e = r->readers[l]; ptoi_entry_in_use(level, e);) {
            const ptoi_entry *entry = ptoi_entry_at(level, e);
            if (entry->task < level->watermark) {
                break;
            }
            map->stats.superseded++;
            if (entry->older == e) {
                break;
            }
            e = entry->older;
        }
    }
    r->read_levels = 0;
}

static void supersede_one(pto_tensormap *map, uint32_t region)
{
    ptoi_region_drop(map, region);
    ptoi_region_let_go(map, region);
}

/* For a region that has no links to some of the regions that overlap it. */
static void supersede_by_search(pto_tensormap *map, uint32_t region)
{
    const ptoi_region *r = &map->regions[region];
    ptoi_search s;
    ptoi_search_begin(&s, map, r->space, &r->layout, region, PTOI_ALL);
    for (uint32_t other; (other = ptoi_search_next(&s)) != PTOI_NONE;) {
        if (ptoi_region_covers(map, region, other)) {
            supersede_one(map, other);
        }
    }
    ptoi_region_evict(map, s.idle);
}

void ptoi_region_supersede_all(pto_tensormap *map, uint32_t space, const ptoi_layout *layout,
                               pto_map_task since)
{
    ptoi_search s;
    ptoi_search_begin(&s, map, space, layout, PTOI_NONE, PTOI_ALL);
    for (uint32_t other; (other = ptoi_search_next(&s)) != PTOI_NONE;) {
        const ptoi_region *r = &map->regions[other];
        bool newer = r->writer >= since.id && r->writer_level == since.level;
        if (newer) {
            continue;
        }
        if (ptoi_map_covers(map, layout, &r->layout)) {
            supersede_one(map, other);
        }
    }
    ptoi_region_evict(map, s.idle);
}

void ptoi_region_supersede(pto_tensormap *map, uint32_t region)
{
    const ptoi_region *r = &map->regions[region];
    if (r->links & PTOI_LINKS_INCOMPLETE) {
        supersede_by_search(map, region);
        return;
    }
    for (uint32_t end = r->links; end != PTOI_LINKS_NONE; end = map->link_ends[end].next) {
        if (!ptoi_region_idle(map, &map->regions[map->link_ends[end].region]) &&
            ptoi_links_covers(map, region, &map->link_ends[end])) {
            supersede_one(map, map->link_ends[end].region);
        }
    }
}
