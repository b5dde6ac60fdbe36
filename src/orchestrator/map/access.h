/* access.h - asks what an access must wait for, and records it. The hot path of every submit: find
 * the region, answer from its state, append an entry. */
#ifndef PTOI_ACCESS_H
#define PTOI_ACCESS_H

#include "orchestrator/map/region.h"
#include "tensor/exact.h"

/* What an access touches: its region if that is known, otherwise its place. */
typedef struct ptoi_found {
    const pto_tensor *tensor; /* NULL for a pto_region */
    uint32_t region;          /* PTOI_NONE: not known */
    bool empty;               /* it has no bytes: nothing to ask or to record */
    ptoi_place place;         /* set if the region is not known */
} ptoi_found;

pto_status ptoi_access_find(pto_tensormap *map, const pto_tensor *t, ptoi_found *found);
pto_status ptoi_access_find_region(pto_tensormap *map, const pto_region *r, ptoi_found *found);

/* Called for each access that a question meets. Its entry is `e` on level `l`. It is an answer only
 * if `live`. The hot path adds `live` to a count instead of branching, since the branch would be
 * unpredictable. */
typedef void (*ptoi_emit)(void *context, uint64_t task, uint32_t l, uint32_t e,
                          pto_map_access access, bool live);

/* Reports the accesses that a new access must wait for. */
void ptoi_access_ask(pto_tensormap *map, const ptoi_found *found, pto_map_access access,
                     ptoi_emit emit, void *context);

/* Whether a new access must wait for any other. */
bool ptoi_access_waits(pto_tensormap *map, const ptoi_found *found, pto_map_access access);

/* Makes a place known that is asked about, but not recorded: the next question finds it without a search. Some level
 * must have a free entry, so there is an idle region (M3). If no region is free, only one place in PTOI_KNOW_EVERY replaces an idle region. So programs that stream through memory
 * change the index seldom, and those that come back still make the map grow (grow.h). */
#define PTOI_KNOW_EVERY 8
void ptoi_access_know(pto_tensormap *map, ptoi_found *found, pto_map_access access);

/* For the function that a question calls: whether the access just reported shares a byte with the
 * new one, even where the budget left that undecided. */
static inline bool ptoi_access_is_shared(const pto_tensormap *map)
{
    return !map->doubt[0] || ptoi_overlaps_exactly(map->doubt[0], map->doubt[1]);
}

/* Records an access that was found just before. Its entry is reserved and its task is checked. */
void ptoi_access_record(pto_tensormap *map, ptoi_found *found, pto_map_access access,
                        pto_map_task task);

/* Records that the task writes a whole managed block that no task has touched before. The tensor is
 * all of the block. There is nothing to ask. An entry is reserved. */
void ptoi_access_record_fresh(pto_tensormap *map, const pto_tensor *t, pto_map_task task);

/* The newest tasks, from `since` on, write the whole tensor together, though none of them does so
 * alone. They replace all earlier accesses to regions that the tensor covers. */
void ptoi_access_cover(pto_tensormap *map, const pto_tensor *t, pto_map_task since);

/* Whether the task may be inserted now: its level and order must be right. */
pto_status ptoi_access_check_task(const pto_tensormap *map, pto_map_task task);

/* Reports the live readers of a region, level by level. Returns their number. */
static inline size_t ptoi_access_ask_readers(pto_tensormap *map, const ptoi_region *r,
                                             ptoi_emit emit, void *context)
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

#endif /* PTOI_ACCESS_H */
