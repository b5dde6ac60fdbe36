/* entry.c - the rings of entries: one for each access, recycled in order as tasks retire. */
#include "base/error.h"
#include "map/map.h"

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
