/* entry.c - the rings of entries: one for each access, recycled in order as tasks retire. */
#include "base/error.h"
#include "map/map.h"

/* A region lets go of an entry that is about to be used again, if it holds it. Entries further down a
 * chain need no visit: a link to before the tail reads as the end of the chain. Whether it holds
 * the entry is a matter of chance, so there is no branch on it. */
static inline void let_go(pto_tensormap *map, uint32_t l, uint32_t e, const ptoi_entry *entry)
{
    ptoi_region *r = &map->regions[entry->region];
    if (entry->access == PTO_MAP_WRITE) {
        bool held = r->writer_entry == e && r->writer_level == l && r->writer == entry->task;
        r->writer = held ? 0 : r->writer;
    } else {
        bool held = r->readers[l] == e;
        r->read_levels &= (uint8_t)~((uint32_t)held << l);
    }
    if (r->kind != PTOI_SPACE_USER)
        ptoi_region_let_go(map, entry->region);
}

void ptoi_entry_recycle(pto_tensormap *map, uint32_t l)
{
    ptoi_level *level = &map->level[l];
    uint32_t e = level->tail;
    if (ptoi_entry_used(level) > level->peak)
        level->peak = ptoi_entry_used(level); /* it only falls here, so this is where peaks show */
    while (e != level->head) {
        const ptoi_entry *entry = ptoi_entry_at(level, e);
        if (entry->task >= level->watermark)
            break;
        let_go(map, l, e, entry);
        e++;
    }
    map->stats.recycled += e - level->tail;
    level->tail = e;
    level->cleaned = level->watermark;
}

pto_status ptoi_entry_make_room(pto_tensormap *map, uint32_t l, size_t count)
{
    const ptoi_level *level = &map->level[l];
    ptoi_entry_recycle(map, l);
    size_t capacity = (size_t)level->mask + 1, left = ptoi_entry_room(level);
    if (left >= count)
        return PTO_OK;
    map->stats.full++;
    return ptoi_fail(PTO_FULL,
                     "map: %zu entries wanted on level %u, %zu of %zu are free; the oldest belongs to "
                     "task %llu, tasks below %llu have retired",
                     count, l, left, capacity,
                     (unsigned long long)ptoi_entry_at(level, level->tail)->task,
                     (unsigned long long)level->watermark);
}
