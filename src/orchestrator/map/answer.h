/* answer.h - reads the readers of a region and adds an access to it. In a header because submit's
 * fast path inlines it. */
#ifndef PTOI_ANSWER_H
#define PTOI_ANSWER_H

#include "orchestrator/map/map.h"

/* Reports the live readers of a region, level by level. Returns their number. */
static inline size_t ptoi_answer_readers(pto_tensormap *map, const ptoi_region *r, ptoi_emit emit,
                                         void *context)
{
    size_t count = 0;
    for (uint32_t levels = r->read_levels; levels; levels &= levels - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(levels);
        const ptoi_level *level = &map->level[l];
        uint32_t e = r->readers[l];
        ptoi_entry *entry = ptoi_entry_at(level, e);
        if (!ptoi_entry_in_use(level, e) || entry->task < level->watermark) {
            continue;
        }
        for (;;) {
            emit(context, entry->task, l, e, PTO_MAP_READ, true);
            count++;
            uint32_t older = entry->older;
            if (older == e) {
                break;
            }
            ptoi_entry *next = ptoi_entry_at(level, older);
            if (!ptoi_entry_in_use(level, older) || next->task < level->watermark) {
                /* Tasks of one level retire in order, so all older readers have retired too. */
                entry->older = e;
                map->stats.truncated++;
                break;
            }
            e = older;
            entry = next;
        }
    }
    return count;
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

#endif /* PTOI_ANSWER_H */
