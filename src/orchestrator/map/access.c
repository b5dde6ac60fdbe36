#include "orchestrator/map/access.h"

#include <pto/pto.h>

#include "base/error.h"
#include "base/likely.h"
#include "orchestrator/map/desc_cache.h"
#include "orchestrator/map/grow.h"
#include "orchestrator/map/index.h"
#include "orchestrator/map/keep.h"
#include "orchestrator/map/links.h"

static __attribute__((noinline, cold)) pto_status refuse_task(const pto_tensormap *map,
                                                              pto_map_task task)
{
    if (task.level >= map->levels) {
        return ptoi_fail(PTO_BAD_LEVEL, "map: task %llu on level %u of a map with %u levels",
                         (unsigned long long)task.id, task.level, map->levels);
    }
    if (task.id == map->last_task && task.level != map->last_level) {
        return ptoi_fail(PTO_BAD_ORDER,
                         "map: task %llu is on level %u and cannot be on level %u too",
                         (unsigned long long)task.id, map->last_level, task.level);
    }
    if (task.id == 0) {
        return ptoi_fail(PTO_BAD_ORDER, "map: task 0 on level %u; ids begin at 1", task.level);
    }
    if (task.id < map->last_task) {
        return ptoi_fail(PTO_BAD_ORDER, "map: task %llu on level %u comes after task %llu",
                         (unsigned long long)task.id, task.level,
                         (unsigned long long)map->last_task);
    }
    return ptoi_fail(PTO_BAD_ORDER,
                     "map: task %llu on level %u has retired: all tasks below %llu have",
                     (unsigned long long)task.id, task.level,
                     (unsigned long long)map->level[task.level].watermark);
}

static inline pto_status check_task(const pto_tensormap *map, pto_map_task task)
{
    if (task.level < map->levels && task.id >= map->level[task.level].watermark &&
        (task.id > map->last_task ||
         (task.id == map->last_task && task.level == map->last_level))) {
        return PTO_OK;
    }
    return refuse_task(map, task);
}

pto_status ptoi_access_check_task(const pto_tensormap *map, pto_map_task task)
{
    return check_task(map, task);
}

/* ---- Finding ---- */

/* The slow path of ptoi_access_find: a new tensor, or one whose descriptor is not cached. */
static __attribute__((noinline)) pto_status find_place(pto_tensormap *map, ptoi_found *found)
{
    pto_status s = ptoi_place_of_tensor(found->tensor, &found->place, &found->empty);
    if (s != PTO_OK || found->empty) {
        return s;
    }
    if (found->place.space.kind == PTOI_SPACE_BLOCK) {
        ptoi_unindexed_to_index(map, found->place.space.a, found->place.space.b);
    }
    found->region = ptoi_region_find(map, &found->place);
    if (found->region != PTOI_NONE) {
        ptoi_desc_cache_set(map, found->region, found->tensor);
    }
    return PTO_OK;
}

pto_status ptoi_access_find(pto_tensormap *map, const pto_tensor *t, ptoi_found *found)
{
    found->tensor = t;
    found->empty = false;
    found->region = ptoi_desc_cache_find(map, t);
    return found->region != PTOI_NONE ? PTO_OK : find_place(map, found);
}

pto_status ptoi_access_find_region(pto_tensormap *map, const pto_region *r, ptoi_found *found)
{
    found->tensor = NULL;
    found->region = PTOI_NONE;
    pto_status s = ptoi_place_of_region(r, &found->place, &found->empty);
    if (s == PTO_OK && !found->empty) {
        found->region = ptoi_region_find(map, &found->place);
    }
    return s;
}

/* ---- Asking ---- */

/* Reports the live accesses of one region that a new access must wait for. Returns their number. */
static inline size_t ask_region(pto_tensormap *map, const ptoi_region *r, pto_map_access access,
                                ptoi_emit emit, void *context)
{
    /* A region without a writer has writer 0, which is below every watermark. */
    bool live = r->writer >= map->level[r->writer_level].watermark;
    emit(context, r->writer, r->writer_level, r->writer_entry, PTO_MAP_WRITE, live);
    return live + (access == PTO_MAP_WRITE ? ptoi_access_ask_readers(map, r, emit, context) : 0);
}

/* The same for all regions that share a byte with the layout, except region `but`; uses the
 * index. */
static __attribute__((noinline)) size_t ask_index(pto_tensormap *map, uint32_t space,
                                                  const ptoi_layout *layout, uint32_t but,
                                                  pto_map_access access, ptoi_emit emit,
                                                  void *context)
{
    size_t count = 0;
    ptoi_search s;
    ptoi_search_begin(&s, map, space, layout, but,
                      access == PTO_MAP_WRITE ? PTOI_ALL : PTOI_WRITTEN);
    for (uint32_t other; (other = ptoi_search_next(&s)) != PTOI_NONE;) {
        const ptoi_region *r = &map->regions[other];
        map->doubt[0] = s.proved ? NULL : layout;
        map->doubt[1] = s.proved ? NULL : &r->layout;
        count += ask_region(map, r, access, emit, context);
    }
    map->doubt[0] = map->doubt[1] = NULL;
    ptoi_region_evict(map, s.idle);
    return count;
}

/* The same for all regions that overlap a known one. */
static __attribute__((noinline)) size_t
ask_links(pto_tensormap *map, uint32_t region, pto_map_access access, ptoi_emit emit, void *context)
{
    const ptoi_region *r = &map->regions[region];
    if (r->links & PTOI_LINKS_INCOMPLETE) {
        return ask_index(map, r->space, &r->layout, region, access, emit, context);
    }
    size_t count = 0;
    uint32_t idle = PTOI_NONE, links = 0;
    for (uint32_t end = r->links, next; end != PTOI_LINKS_NONE; end = next, links++) {
        uint32_t at = map->link_ends[end].region;
        ptoi_region *other = &map->regions[at];
        next = map->link_ends[end].next;
        if (next != PTOI_LINKS_NONE) { /* the cache line arrives while the current one is used */
            __builtin_prefetch(&map->regions[map->link_ends[next].region]);
        }
        count += ask_region(map, other, access, emit, context);
        if (ptoi_region_idle(map, other)) {
            other->evict_next = idle;
            idle = at;
        }
    }
    if (!map->order || (links > PTOI_LINKS_FREE && !ptoi_keep_pay(map, links))) {
        ptoi_region_evict(map, idle);
    }
    return count;
}

/* The same for a place, whether its region is known or not. */
static inline size_t ask(pto_tensormap *map, const ptoi_found *found, pto_map_access access,
                         ptoi_emit emit, void *context)
{
    if (found->empty) {
        return 0;
    }
    if (found->region == PTOI_NONE) {
        uint32_t space = ptoi_space_find(map, &found->place.space);
        if (space == PTOI_NONE || map->spaces[space].regions == 0) {
            return 0;
        }
        return ask_index(map, space, &found->place.layout, PTOI_NONE, access, emit, context);
    }
    const ptoi_region *r = &map->regions[found->region];
    if (access == PTO_MAP_WRITE && ptoi_region_only_read(r)) {
        ptoi_region_begin_writes(map, found->region);
    }
    size_t count = ask_region(map, r, access, emit, context);
    if (r->links != PTOI_LINKS_NONE) {
        count += ask_links(map, found->region, access, emit, context);
    }
    return count;
}

void ptoi_access_ask(pto_tensormap *map, const ptoi_found *found, pto_map_access access,
                     ptoi_emit emit, void *context)
{
    map->stats.hits += ask(map, found, access, emit, context);
    map->stats.lookups += !found->empty;
}

static void emit_nothing(void *context, uint64_t task, uint32_t l, uint32_t e,
                         pto_map_access access, bool live)
{
    (void)context;
    (void)task;
    (void)l;
    (void)e;
    (void)access;
    (void)live;
}

bool ptoi_access_waits(pto_tensormap *map, const ptoi_found *found, pto_map_access access)
{
    map->stats.lookups += !found->empty;
    return ask(map, found, access, emit_nothing, NULL) != 0;
}

/* ---- Remembering ---- */

/* Whether the task has accesses in the map already. Each level may number its tasks on its own. */
static inline bool is_newest(const pto_tensormap *map, pto_map_task task)
{
    return task.id == map->last_task && task.level == map->last_level;
}

/* Makes a place known. */
static void enter(pto_tensormap *map, ptoi_found *found, pto_map_access access)
{
    found->region = ptoi_region_take(map);
    map->regions[found->region].flags |= access == PTO_MAP_READ ? PTOI_REGION_ONLY_READ : 0;
    ptoi_region_enter_index(map, found->region, &found->place);
    if (found->tensor) {
        ptoi_desc_cache_set(map, found->region, found->tensor);
    }
    ptoi_grow_entered(map, found->place.hash);
}

void ptoi_access_know(pto_tensormap *map, ptoi_found *found, pto_map_access access)
{
    if (found->empty || found->region != PTOI_NONE) {
        return;
    }
    const bool room = map->region_free.freed != PTOI_NONE ||
                      map->region_free.untouched < map->region_capacity;
    if (room || ++map->passed % PTOI_KNOW_EVERY == 0) {
        enter(map, found, access);
        ptoi_map_debug_check(map);
    }
}

void ptoi_access_record(pto_tensormap *map, ptoi_found *found, pto_map_access access,
                        pto_map_task task)
{
    if (found->region == PTOI_NONE) {
        enter(map, found, access);
    } else if (access == PTO_MAP_WRITE && ptoi_region_only_read(&map->regions[found->region])) {
        ptoi_region_begin_writes(map, found->region);
    }
    if (!is_newest(map, task)) {
        ptoi_entry_begin(map, task);
    }
    ptoi_region *r = &map->regions[found->region];
    if (access == PTO_MAP_WRITE) {
        if (r->links != PTOI_LINKS_NONE) {
            ptoi_region_supersede(map, found->region);
        }
        ptoi_region_drop(map, found->region);
    }
    ptoi_level *level = &map->level[task.level];
    ptoi_entry_at(level, level->head)->first = level->first;
    ptoi_entry_write(level, level->head, r, found->region, access, task);
    level->head++;
    map->stats.inserts++;
}

void ptoi_access_record_fresh(pto_tensormap *map, const pto_tensor *t, pto_map_task task)
{
    ptoi_found found = {.tensor = t, .region = PTOI_NONE, .empty = false};
    const uint32_t desc = ptoi_desc_intern(&map->descs, t);
    if (desc) {
        found.region = ptoi_unindexed_create(map, t, desc);
    } else {
        ptoi_place_of_block(t->owner, t->generation, t->storage_bytes, &found.place);
    }
    ptoi_access_record(map, &found, PTO_MAP_WRITE, task);
}

void ptoi_access_cover(pto_tensormap *map, const pto_tensor *t, pto_map_task since)
{
    /* Not by the descriptor cache: only the place is needed, and its own region may be dropped
     * too. */
    ptoi_found found;
    if (ptoi_place_of_tensor(t, &found.place, &found.empty) != PTO_OK || found.empty) {
        return;
    }
    if (found.place.space.kind == PTOI_SPACE_BLOCK) {
        ptoi_unindexed_to_index(map, found.place.space.a, found.place.space.b);
    }
    uint32_t space = ptoi_space_find(map, &found.place.space);
    if (space != PTOI_NONE && map->spaces[space].regions) {
        ptoi_region_supersede_all(map, space, &found.place.layout, since);
    }
    ptoi_map_debug_check(map);
}

/* ---- A whole task ---- */

#define FEW 16 /* parameters whose regions are kept from the first walk to the second */

typedef struct hit_list {
    pto_map_hit *hits;
    size_t max, count;
    uint64_t self;
    uint32_t param; /* the parameter being asked about */
} hit_list;

static inline void emit_hit(void *context, uint64_t task, uint32_t l, uint32_t e,
                            pto_map_access access, bool live)
{
    hit_list *list = context;
    (void)e;
    if (list->count < list->max) {
        list->hits[list->count] = (pto_map_hit){{task, l}, access, list->param};
    }
    list->count += live;
}

/* The same for a task that earlier calls may have inserted. A task does not wait for itself. */
static void emit_other(void *context, uint64_t task, uint32_t l, uint32_t e, pto_map_access access,
                       bool live)
{
    emit_hit(context, task, l, e, access, live && task != ((hit_list *)context)->self);
}

/* Asks about any parameter. Decrements *entries if the parameter needs no entry. */
static __attribute__((noinline)) pto_status
ask_param(pto_tensormap *map, const pto_map_param *param, hit_list *list, size_t *entries)
{
    if (!param->tensor) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit: the tensor of parameter %u is NULL",
                         list->param);
    }
    if (param->access != PTO_MAP_READ && param->access != PTO_MAP_WRITE) {
        return ptoi_fail(PTO_BAD_ACCESS,
                         "submit: access %d of parameter %u is neither read nor write",
                         (int)param->access, list->param);
    }
    ptoi_found found;
    const pto_status s = ptoi_access_find(map, param->tensor, &found);
    if (s == PTO_OK) {
        (void)ask(map, &found, param->access, emit_other, list);
        *entries -= found.empty;
    }
    return s;
}

/* Adds the readers that a write waits for, and returns the number of hits. Out of line, so that the
 * walk over the parameters keeps its registers. */
static __attribute__((noinline)) size_t ask_readers(pto_tensormap *map, const ptoi_region *r,
                                                    pto_map_hit *hits, size_t max, size_t count,
                                                    uint32_t param)
{
    hit_list list = {hits, max, count, 0, param};
    (void)ptoi_access_ask_readers(map, r, emit_hit, &list);
    return list.count;
}

/* Finds each region again before recording it, since regions may have moved. */
static __attribute__((noinline)) void record_again(pto_tensormap *map, const pto_map_param *params,
                                                   size_t n_params, pto_map_task task)
{
    for (size_t i = 0; i < n_params; i++) {
        ptoi_found found;
        (void)ptoi_access_find(map, params[i].tensor,
                               &found); /* its status was PTO_OK in the first walk */
        if (!found.empty) {
            ptoi_access_record(map, &found, params[i].access, task);
        }
    }
}

/* Records the first accesses of a task, to known regions that nothing overlaps. */
static inline void record_known(pto_tensormap *map, const pto_map_param *params,
                                const uint32_t *regions, size_t n_params, pto_map_task task)
{
    ptoi_level *level = &map->level[task.level];
    ptoi_entry_begin(map, task);
    const uint32_t first = level->first;
    for (size_t i = 0; i < n_params; i++) {
        const uint32_t e = first + (uint32_t)i;
        ptoi_entry_at(level, e)->first = first;
        ptoi_entry_write(level, e, &map->regions[regions[i]], regions[i], params[i].access, task);
    }
    level->head = first + (uint32_t)n_params;
}

/* Finds the first candidate for each region. Reads all buckets before the first region, so that the
 * cache misses overlap. False if a parameter is invalid; ask_param then reports it. */
static inline bool read_buckets(const pto_tensormap *map, const pto_map_param *params,
                                size_t n_params, uint32_t *regions)
{
    for (size_t i = 0; i < n_params; i++) {
        if (PTOI_UNLIKELY(!params[i].tensor || (unsigned)params[i].access > PTO_MAP_READ)) {
            return false;
        }
        regions[i] = ptoi_desc_cache_first(map, params[i].tensor);
        if (regions[i] != PTOI_NONE) {
            __builtin_prefetch(&map->regions[regions[i]]);
            __builtin_prefetch(&map->regions[regions[i]].cached);
        }
    }
    return true;
}

/* Two walks over the parameters: the first asks, the second records, so a task does not meet
 * itself. A known region that nothing overlaps is found once. Asking about any other region may
 * evict idle regions, and recording it may reuse them. Then regions have *moved*, and the second
 * walk finds all of them again. A task that is already in the map takes this path too, because only
 * ask_param leaves out the task itself. */
pto_status pto_tensormap_submit(pto_tensormap *map, const pto_map_param *params, size_t n_params,
                                pto_map_task task, pto_map_hit *hits, size_t max_hits,
                                size_t *n_hits)
{
    if (!map || !n_hits || (n_params && !params) || (max_hits && !hits)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit: %s is NULL",
                         !map                  ? "map"
                         : !n_hits             ? "n_hits"
                         : (max_hits && !hits) ? "hits"
                                               : "params");
    }
    PTO_TRY(check_task(map, task));

    const uint32_t begun = map->begun;
    uint32_t regions[FEW];
    hit_list list = {hits, max_hits, 0, task.id, 0}; /* its address is not taken, so it stays in
                                                        registers */
    size_t entries = n_params, superseded = 0;
    bool moved = n_params == 0 || n_params > FEW || is_newest(map, task) ||
                 !read_buckets(map, params, n_params, regions);
    for (size_t i = 0; i < n_params; i++) {
        const uint32_t region = PTOI_UNLIKELY(moved)
                                    ? PTOI_NONE
                                    : ptoi_desc_cache_match(map, params[i].tensor, regions[i]);
        list.param = (uint32_t)i;
        if (PTOI_UNLIKELY(region == PTOI_NONE || map->regions[region].links != PTOI_LINKS_NONE ||
                          (params[i].access == PTO_MAP_WRITE &&
                           ptoi_region_only_read(&map->regions[region])))) {
            hit_list any = list;
            moved = true;
            PTO_TRY(ask_param(map, &params[i], &any, &entries));
            list.count = any.count;
            continue;
        }
        const ptoi_region *r = &map->regions[region];
        const size_t before = list.count;
        regions[i] = region;
        (void)ask_region(map, r, PTO_MAP_READ, emit_hit, &list);
        if (params[i].access == PTO_MAP_WRITE) {
            if (r->read_levels) {
                list.count = ask_readers(map, r, list.hits, list.max, list.count, list.param);
            }
            superseded += list.count - before;
        }
    }
    if (PTOI_UNLIKELY(map->begun != begun)) {
        /* Regions got links on the way. Where the budget runs out, links and searches may differ, but the caller who
         * was told how many hits there are must get as many when he asks again. */
        return pto_tensormap_submit(map, params, n_params, task, hits, max_hits, n_hits);
    }
    *n_hits = list.count;
    if (PTOI_UNLIKELY(list.count > max_hits)) {
        return ptoi_fail(PTO_BUFFER_TOO_SMALL, "submit: %zu hits do not fit into an array of %zu",
                         list.count, max_hits);
    }
    const pto_status s = ptoi_entry_reserve(map, task.level, entries);
    if (PTOI_UNLIKELY(s != PTO_OK)) {
        return s;
    }
    if (PTOI_UNLIKELY(moved)) {
        record_again(map, params, n_params, task);
        map->stats.lookups += entries;
    } else {
        record_known(map, params, regions, n_params, task);
        map->hot.params += n_params;
        map->hot.superseded += superseded;
    }
    map->hot.hits += list.count;
    ptoi_map_debug_check(map);
    return PTO_OK;
}
