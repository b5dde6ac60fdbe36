/* entry.h - the rings of entries, one for each level. There is an entry for each access; entries
 * are recycled in order as tasks retire. */
#ifndef PTOI_ENTRY_H
#define PTOI_ENTRY_H

#include "orchestrator/map/map.h"
#include "orchestrator/map/place.h"

static inline ptoi_entry *ptoi_entry_at(const ptoi_level *level, uint32_t entry)
{
    return &level->ring[entry & level->mask];
}

static inline bool ptoi_entry_in_use(const ptoi_level *level, uint32_t entry)
{
    return (uint32_t)(entry - level->tail) < (uint32_t)(level->head - level->tail);
}

static inline uint32_t ptoi_entry_used(const ptoi_level *level)
{
    return level->head - level->tail;
}

/* Entries that fit before the ring has to grow. */
static inline size_t ptoi_entry_room(const ptoi_level *level)
{
    return (size_t)level->mask + 1 - ptoi_entry_used(level);
}

/* Makes the next entry the first one of the task. */
static inline void ptoi_entry_begin(pto_tensormap *map, pto_map_task task)
{
    ptoi_level *level = &map->level[task.level];
    ptoi_entry *entry = ptoi_entry_at(level, level->head);
    entry->named[0] = entry->named[1] = 0;
    level->first = level->head;
    map->last_task = task.id;
    map->last_level = task.level;
}

/* Writes entry `e` of the task, an access to `region`, and updates the region. A write replaces all
 * earlier accesses to its region. */
static inline void ptoi_entry_write(ptoi_level *level, uint32_t e, ptoi_region *r, uint32_t region,
                                    pto_map_access access, pto_map_task task)
{
    uint32_t older = e;
    if (access == PTO_MAP_READ) {
        bool chained = r->read_levels >> task.level & 1;
        older = chained ? r->readers[task.level] : e;
        r->readers[task.level] = e;
        r->read_levels |= (uint8_t)(1u << task.level);
    } else {
        r->writer = task.id;
        r->writer_entry = e;
        r->writer_level = (uint8_t)task.level;
        r->read_levels = 0;
    }
    ptoi_entry *entry = ptoi_entry_at(level, e);
    entry->task = task.id;
    entry->region = region;
    entry->older = older;
    entry->access = (uint16_t)access;
    entry->kind = r->kind;
    if (r->kind != PTOI_SPACE_USER) {
        level->blocks++;
    }
}

/* Recycles the entries of retired tasks on the level, and then lets it grow. PTO_FULL unless `count`
 * more entries fit then. */
pto_status ptoi_entry_make_room(pto_tensormap *map, uint32_t level, size_t count);

/* Recycles the entries of retired tasks of one level. */
void ptoi_entry_recycle(pto_tensormap *map, uint32_t level);

/* Whether a task has retired, although older tasks of its level have not, or whether its access to
 * this region is of no use any more. */
typedef bool (*ptoi_entry_gone)(const void *context, uint64_t task, uint32_t region);

/* Drops all such tasks of a level, wherever their entries are, and closes the gaps. Visits every
 * entry. Used when one slow task keeps all others from being recycled. */
void ptoi_entry_compact(pto_tensormap *map, uint32_t level, ptoi_entry_gone gone,
                        const void *context);

/* PTO_FULL unless `count` more entries fit on the level. */
static inline pto_status ptoi_entry_reserve(pto_tensormap *map, uint32_t level, size_t count)
{
    return ptoi_entry_room(&map->level[level]) >= count ? PTO_OK
                                                        : ptoi_entry_make_room(map, level, count);
}

#endif /* PTOI_ENTRY_H */
