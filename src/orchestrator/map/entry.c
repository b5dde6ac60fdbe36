/* entry.c - the rings of entries: one for each access, recycled in order as tasks retire. */
#include "base/error.h"
#include "orchestrator/map/map.h"

/* Every so many entries all regions forget readers that are gone, long before their numbers could
 * be taken for those of new entries. */
#define SWEEP_SHIFT 28

static void sweep(pto_tensormap *map, uint32_t l)
{
    for (uint32_t i = 0; i < map->region_free.fresh; i++) {
        ptoi_region *r = &map->regions[i];
        if (!ptoi_entry_in_use(&map->level[l], r->readers[l])) {
            r->read_levels &= (uint8_t) ~(1u << l);
        }
    }
}

/* The first entry whose task is alive, or the head. Tasks rise along the ring. */
static uint32_t first_alive(const ptoi_level *level)
{
    uint32_t dead = 0; /* so many from the tail on are known to be */
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
        level->peak = ptoi_entry_used(level); /* it only falls here, so this is where peaks show */
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
    size_t capacity = (size_t)level->mask + 1, left = ptoi_entry_room(level);
    if (left >= count) {
        return PTO_OK;
    }
    map->stats.full++;
    if (count > capacity) {
        return ptoi_fail(PTO_FULL,
                         "map: %zu entries wanted at once on level %u, which has %zu in all: it "
                         "takes a map configured with at least %zu",
                         count, l, capacity, count);
    }
    return ptoi_fail(
        PTO_FULL,
        "map: %zu entries wanted on level %u, %zu of %zu are free; the oldest belongs to "
        "task %llu, tasks below %llu have retired",
        count, l, left, capacity, (unsigned long long)ptoi_entry_at(level, level->tail)->task,
        (unsigned long long)level->watermark);
}

/* ---- Closing gaps ---- */

#define GONE UINT16_MAX /* in place of the access, while gaps are being closed */

/* Takes what is gone out of the chain of readers that begins with entry `e` of its region. */
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

/* Entry `e` moves up to `to`, and all who know its number learn the new one. `named` of the entries
 * it refers to hold their new numbers. */
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
    /* Chains lead to older entries, which have not moved yet; what left its chain leads nowhere. */
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
        if (!gone(context, entry->task)) {
            continue;
        }
        if (entry->access == PTO_MAP_WRITE && r->writer == entry->task && r->writer_level == l) {
            r->writer = 0;
        }
        /* The access is needed no more: whether a reader is in a chain its region knows. */
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
    level->first = level->head; /* if it is gone, nobody asks for it */
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
