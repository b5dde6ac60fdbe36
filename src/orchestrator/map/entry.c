#include "orchestrator/map/entry.h"

#include "base/error.h"
#include "orchestrator/map/grow.h"
#include "orchestrator/map/region.h"

/* Every 2^SWEEP_SHIFT entries, all regions forget readers that are recycled: long before a new
 * entry could get the same number. */
#define SWEEP_SHIFT 28

static void sweep(pto_tensormap *map, uint32_t l)
{
    for (uint32_t i = 0; i < map->region_free.untouched; i++) {
        ptoi_region *r = &map->regions[i];
        if (!ptoi_entry_in_use(&map->level[l], r->readers[l])) {
            r->read_levels &= (uint8_t) ~(1u << l);
        }
    }
}

/* The first entry of a live task, or the head. Task ids rise along the ring. */
static uint32_t first_alive(const ptoi_level *level)
{
    uint32_t dead = 0; /* so many entries from the tail on are known to be dead */
    uint32_t rest = ptoi_entry_used(level);
    while (rest) {
        uint32_t half = rest / 2;
        if (ptoi_entry_at(level, level->tail + dead + half)->task < level->watermark) {
            dead += half + 1;
            rest -= half + 1;
        } else {
            rest = half;
        }
    }
    return level->tail + dead;
}

void ptoi_entry_recycle(pto_tensormap *map, uint32_t l)
{
    ptoi_level *level = &map->level[l];
    uint32_t before = level->tail, after = first_alive(level);
    if (ptoi_entry_used(level) > level->peak) {
        level->peak = ptoi_entry_used(level); /* usage falls only here, so a peak is seen here */
    }
    for (uint32_t e = before; level->blocks && e != after; e++) {
        const ptoi_entry *entry = ptoi_entry_at(level, e);
        if (entry->kind != PTOI_SPACE_USER) {
            ptoi_region_let_go(map, entry->region);
            level->blocks--;
        }
    }
    map->stats.recycled += after - before;
    level->tail = after;
    level->cleaned = level->watermark;
    if ((before ^ after) >> SWEEP_SHIFT) {
        sweep(map, l);
    }
}

pto_status ptoi_entry_make_room(pto_tensormap *map, uint32_t l, size_t count)
{
    const ptoi_level *level = &map->level[l];
    ptoi_entry_recycle(map, l);
    if (ptoi_grow_entries(map, l, count)) {
        return PTO_OK;
    }
    size_t capacity = level->limit, left = capacity - ptoi_entry_used(level);
    map->stats.full++;
    if (count > capacity) {
        return ptoi_fail(
            PTO_FULL,
            "map: %zu entries never fit on level %u, which has %zu: configure at least "
            "%zu",
            count, l, capacity, count);
    }
    return ptoi_fail(
        PTO_FULL,
        "map: %zu entries needed on level %u, %zu of %zu are free; the oldest entry belongs to "
        "task %llu, tasks below %llu have retired",
        count, l, left, capacity, (unsigned long long)ptoi_entry_at(level, level->tail)->task,
        (unsigned long long)level->watermark);
}

/* ---- Closing gaps ---- */

#define GONE UINT16_MAX /* replaces the access of a dropped entry while gaps are closed */

/* Removes dropped entries from the chain of readers that begins with entry `e` of the region. */
static void thin_out(ptoi_level *level, ptoi_region *r, uint32_t l, uint32_t e)
{
    uint32_t kept = e;
    bool any = false;
    for (uint32_t at = e;;) {
        const ptoi_entry *entry = ptoi_entry_at(level, at);
        uint32_t older = entry->older;
        if (entry->access != GONE) {
            if (any) {
                ptoi_entry_at(level, kept)->older = at;
            } else {
                r->readers[l] = at;
            }
            kept = at;
            any = true;
        }
        if (older == at || !ptoi_entry_in_use(level, older)) {
            break;
        }
        at = older;
    }
    if (any) {
        ptoi_entry_at(level, kept)->older = kept;
    } else {
        r->read_levels &= (uint8_t) ~(1u << l);
    }
}

/* Moves entry `e` up to `to`, and updates everything that refers to it. named[0] of the entries
 * that it refers to holds their new numbers. */
static void move_up(pto_tensormap *map, uint32_t l, uint32_t e, uint32_t to)
{
    ptoi_level *level = &map->level[l];
    ptoi_entry entry = *ptoi_entry_at(level, e);
    ptoi_region *r = &map->regions[entry.region];
    if (entry.access == PTO_MAP_READ && (r->read_levels >> l & 1) && r->readers[l] == e) {
        r->readers[l] = to;
    }
    if (entry.access == PTO_MAP_WRITE && r->writer == entry.task && r->writer_level == l) {
        r->writer_entry = to;
    }
    /* A chain leads to older entries, which have not moved yet. It ends before a dropped entry. */
    bool ends = entry.older == e || !ptoi_entry_in_use(level, entry.older) ||
                ptoi_entry_at(level, entry.older)->access == GONE;
    entry.older = ends ? to : ptoi_entry_at(level, entry.older)->named[0];
    entry.first = ptoi_entry_at(level, entry.first)->named[0];
    *ptoi_entry_at(level, to) = entry;
}

void ptoi_entry_compact(pto_tensormap *map, uint32_t l, ptoi_entry_gone gone, const void *context)
{
    ptoi_level *level = &map->level[l];
    uint32_t n_gone = 0;
    for (uint32_t e = level->tail; e != level->head; e++) {
        ptoi_entry *entry = ptoi_entry_at(level, e);
        ptoi_region *r = &map->regions[entry->region];
        if (!gone(context, entry->task, entry->region)) {
            continue;
        }
        if (entry->access == PTO_MAP_WRITE && r->writer == entry->task && r->writer_level == l) {
            r->writer = 0;
        }
        /* Nothing needs the access any more. The region knows whether a reader is in its chain. */
        entry->access = GONE;
        n_gone++;
    }
    if (n_gone == 0) {
        return;
    }
    for (uint32_t e = level->tail; e != level->head; e++) {
        ptoi_region *r = &map->regions[ptoi_entry_at(level, e)->region];
        if ((r->read_levels >> l & 1) && r->readers[l] == e) {
            thin_out(level, r, l, e);
        }
    }
    if (ptoi_entry_used(level) > level->peak) {
        level->peak = ptoi_entry_used(level);
    }
    uint32_t to = level->head;
    for (uint32_t e = level->head; e-- != level->tail;) {
        ptoi_entry *entry = ptoi_entry_at(level, e);
        if (entry->access == GONE) {
            if (entry->kind != PTOI_SPACE_USER) {
                ptoi_region_let_go(map, entry->region);
                level->blocks--;
            }
        } else {
            entry->named[0] = --to;
        }
    }
    level->first = level->head; /* unless the newest task is found below */
    for (uint32_t e = level->head; e-- != level->tail;) {
        if (ptoi_entry_at(level, e)->access != GONE) {
            uint32_t at = ptoi_entry_at(level, e)->named[0];
            if (ptoi_entry_at(level, e)->task == map->last_task && map->last_level == l) {
                level->first = at;
            }
            move_up(map, l, e, at);
        }
    }
    uint32_t before = level->tail;
    level->tail = to;
    if ((before ^ to) >> SWEEP_SHIFT) {
        sweep(map, l);
    }
    for (uint32_t e = level->tail; e != level->head; e++) {
        ptoi_entry_at(level, e)->named[0] = ptoi_entry_at(level, e)->named[1] = 0;
    }
    map->stats.recycled += n_gone;
}
