#include "orchestrator/map/map.h"

#include <stdio.h>
#include <stdlib.h>

#include <pto/pto.h>

#include "base/error.h"
#include "base/os.h"
#include "orchestrator/map/access.h"
#include "orchestrator/map/grow.h"
#include "orchestrator/map/links.h"

/* ---- Life ---- */

#define DEFAULT_LEVELS 4u
#define START_ENTRIES 4096u
#define START_REGIONS 16384u
#define START_LEAST 32u /* two tasks of submit's fast path */
#if defined(PTO_DEBUG_CHECKS) || defined(PTO_MUTANTS)
#define START_PART 64u /* a map begins with this part of its size, so that all tests see it grow */
#else
#define START_PART 1u
#endif
#define DEFAULT_CLEANUP 64u
#define MAX_ENTRIES (1u << 26)
#define LINKS_PER_ENTRY 4u /* tiles with halos have about eight links for every two regions */

static uint32_t round_up(uint32_t n)
{
    return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

static pto_status check_config(const pto_tensormap_config *c)
{
    if (c->size != sizeof *c) {
        return ptoi_fail(PTO_BAD_CONFIG, "map: config.size is %zu, expected %zu", c->size,
                         sizeof *c);
    }
    if (c->levels > PTO_MAP_MAX_LEVELS) {
        return ptoi_fail(PTO_BAD_CONFIG, "map: %u levels, the range is 1 to %d", c->levels,
                         PTO_MAP_MAX_LEVELS);
    }
    if (c->entries > MAX_ENTRIES) {
        return ptoi_fail(PTO_BAD_CONFIG, "map: %u entries, the range is 1 to %u", c->entries,
                         MAX_ENTRIES);
    }
    for (uint32_t l = 0; l < PTO_MAP_MAX_LEVELS; l++) {
        if (c->level_entries[l] > MAX_ENTRIES) {
            return ptoi_fail(PTO_BAD_CONFIG, "map: %u entries on level %u, the range is 1 to %u",
                             c->level_entries[l], l, MAX_ENTRIES);
        }
    }
    return PTO_OK;
}

/* Allocates the next array of a reservation. With base NULL it only counts bytes. */
static void *cut(void *base, size_t *used, size_t bytes)
{
    size_t at = (*used + 63) & ~(size_t)63;
    *used = at + bytes;
    return base ? (char *)base + at : NULL;
}

/* Lays out all arrays and returns their size. All counts follow from n, the entries that all levels
 * can grow to. A region with a live access has an entry, so n regions are enough (M3). Each region
 * has at most one group and one memory of its own. So all trees with the same number of digits
 * together have at most n items, and a tree has no more nodes than items. */
static size_t lay_out(pto_tensormap *map, void *base, const uint32_t *entries, uint32_t first)
{
    size_t used = 0, n = 0;
    for (uint32_t l = 0; l < map->levels; l++) {
        map->level[l].ring = cut(base, &used, entries[l] * sizeof(ptoi_entry));
        map->level[l].limit = entries[l];
        map->level[l].head = map->level[l].tail = map->level[l].first = first;
        map->level[l].watermark = map->level[l].cleaned = 1;
        n += entries[l];
    }
    const size_t index_buckets = round_up((uint32_t)n), buckets = 2 * index_buckets;
    map->region_limit = (uint32_t)n;
    map->regions = cut(base, &used, n * sizeof *map->regions);
    map->desc_cache = cut(base, &used, buckets * sizeof *map->desc_cache);
    map->buckets = cut(base, &used, buckets * sizeof *map->buckets);
    map->unindexed = cut(base, &used, index_buckets * sizeof *map->unindexed);
    map->descs.table = cut(base, &used, PTOI_DESC_SLOTS * sizeof *map->descs.table);
    map->descs.records = cut(base, &used, PTOI_DESC_BYTES);
    map->descs.taken = cut(base, &used, PTOI_DESC_WORDS * sizeof *map->descs.taken);
    map->descs.marks = cut(base, &used, PTOI_DESC_WORDS * sizeof *map->descs.marks);
    map->link_capacity = (uint32_t)(n < 1u << 27 ? n * 2 * LINKS_PER_ENTRY : 1u << 30);
    map->link_ends = cut(base, &used, map->link_capacity * sizeof *map->link_ends);
    map->spaces = cut(base, &used, (n + 1) * sizeof *map->spaces);
    map->groups = cut(base, &used, n * sizeof *map->groups);
    map->space_buckets = cut(base, &used, index_buckets * sizeof *map->space_buckets);
    map->group_buckets = cut(base, &used, index_buckets * sizeof *map->group_buckets);
    map->forest.cells.cells = cut(base, &used, 2 * n * sizeof *map->forest.cells.cells);
    map->forest.cells.freed = PTOI_NONE;
    for (uint32_t digits = 1; digits <= PTOI_MAX_DIGITS; digits++) {
        ptoi_node_pool *pool = &map->forest.nodes[digits - 1];
        pool->bytes = ptoi_node_bytes(digits);
        pool->digits = digits;
        pool->freed = PTOI_NONE;
        pool->nodes = cut(base, &used, n * pool->bytes);
    }
    map->ghosts.hashes = cut(base, &used, PTOI_GHOSTS * sizeof *map->ghosts.hashes);
    return used;
}

/* How many entries or regions to begin with: a power of two where `limit` is one. */
static uint32_t start_of(uint32_t asked, uint32_t usual, uint32_t limit)
{
    const uint32_t few = limit / START_PART > START_LEAST ? limit / START_PART : START_LEAST;
    const uint32_t n = !asked          ? (few < usual ? few : usual)
                       : asked < limit ? round_up(asked)
                                       : limit;
    return n < limit ? n : limit;
}

/* What the map begins with. */
static void begin(pto_tensormap *map, const pto_tensormap_config *config)
{
    uint32_t entries[PTO_MAP_MAX_LEVELS];
    for (uint32_t l = 0; l < map->levels; l++) {
        entries[l] = start_of(config->start_entries, START_ENTRIES, map->level[l].limit);
    }
    ptoi_grow_begin(map, entries,
                    start_of(config->start_regions, START_REGIONS, map->region_limit));
}

pto_status pto_tensormap_init(pto_tensormap **out, const pto_tensormap_config *config)
{
    if (!out || !config) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "map: %s is NULL", out ? "config" : "map");
    }
    PTO_TRY(check_config(config));
    uint32_t entries[PTO_MAP_MAX_LEVELS], usual = PTOI_MAP_ENTRIES;
    pto_tensormap shape = {.levels = config->levels ? config->levels : DEFAULT_LEVELS};
    size_t bytes;
    void *memory;
    /* Where the address space is limited, a map by default takes no more than an eighth of it. */
    do {
        for (uint32_t l = 0; l < shape.levels; l++) {
            entries[l] = round_up(config->level_entries[l] ? config->level_entries[l]
                                  : config->entries        ? config->entries
                                                           : usual);
        }
        bytes = lay_out(&shape, NULL, entries, 0) + sizeof shape + 64;
        usual /= 2;
        memory = bytes <= ptoi_os_address_space() / 8 || usual < START_ENTRIES || config->entries
                     ? ptoi_os_reserve(bytes)
                     : NULL;
    } while (!memory && usual >= START_ENTRIES && !config->entries);
    if (!memory) {
        return ptoi_fail(PTO_OUT_OF_MEMORY,
                         "map: cannot reserve %zu bytes for %u entries on %u levels", bytes,
                         shape.region_limit, shape.levels);
    }

    pto_tensormap *map = memory;
    map->levels = shape.levels;
    map->memory = memory;
    map->memory_bytes = bytes;
    lay_out(map, (char *)memory + ((sizeof *map + 63) & ~(size_t)63), entries, config->first_entry);
    begin(map, config);
    map->cleanup_every = config->cleanup_every ? config->cleanup_every : DEFAULT_CLEANUP;
    map->budget = config->overlap_budget ? config->overlap_budget : PTO_OVERLAP_BUDGET;
    map->region_free.freed = map->group_free.freed = map->space_free.freed = PTOI_NONE;
    map->link_free.freed = PTOI_NONE;
    map->dead = PTOI_NONE;
    ptoi_descs_init(&map->descs, map->descs.records, map->descs.table, map->descs.taken,
                    map->descs.marks);
    map->spaces[0] = (ptoi_space){0, 0, PTOI_SPACE_USER, PTOI_NONE, {PTOI_NONE, PTOI_NONE}, 0};
    map->space_free.untouched = 1;
    *out = map;
    return PTO_OK;
}

void ptoi_map_adopt(pto_tensormap *map, char *descs, const uint64_t *order)
{
    map->descs.records = descs;
    map->nameless = map->exact = true;
    map->order = order;
    map->earned = *order;
}

pto_status pto_tensormap_init_default(pto_tensormap **map)
{
    return pto_tensormap_init(map, &(pto_tensormap_config)PTO_TENSORMAP_CONFIG_INIT);
}

void pto_tensormap_destroy(pto_tensormap **map)
{
    if (!map || !*map) {
        return;
    }
    ptoi_os_release((*map)->memory, (*map)->memory_bytes);
    *map = NULL;
}

/* ---- Two ways to name memory: by tensor or by region ---- */

static pto_status enter(const pto_tensormap *map, const void *what, const char *name)
{
    if (!map || !what) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "map: %s is NULL", map ? name : "map");
    }
    return PTO_OK;
}

static pto_status tensor_door(pto_tensormap *map, const pto_tensor *t, ptoi_found *found)
{
    PTO_TRY(enter(map, t, "tensor"));
    return ptoi_access_find(map, t, found);
}

static pto_status region_door(pto_tensormap *map, const pto_region *r, ptoi_found *found)
{
    PTO_TRY(enter(map, r, "region"));
    return ptoi_access_find_region(map, r, found);
}

/* ---- Inserting ---- */

static pto_status insert(pto_tensormap *map, ptoi_found *found, pto_map_access access,
                         pto_map_task task)
{
    pto_status s = ptoi_access_check_task(map, task);
    if (s != PTO_OK || found->empty) {
        return s;
    }
    PTO_TRY(ptoi_entry_reserve(map, task.level, 1));
    ptoi_access_record(map, found, access, task);
    ptoi_map_debug_check(map);
    return PTO_OK;
}

/* The functions for tensors and for regions differ only in how they find the region. */
#define INSERT_DOOR(name, type, door, access)                                                      \
    pto_status name(pto_tensormap *map, const type *what, pto_map_task task)                       \
    {                                                                                              \
        ptoi_found found;                                                                          \
        PTO_TRY(door(map, what, &found));                                                          \
        return insert(map, &found, access, task);                                                  \
    }

INSERT_DOOR(pto_tensormap_insert, pto_tensor, tensor_door, PTO_MAP_WRITE)
INSERT_DOOR(pto_tensormap_insert_read, pto_tensor, tensor_door, PTO_MAP_READ)
INSERT_DOOR(pto_tensormap_insert_region, pto_region, region_door, PTO_MAP_WRITE)
INSERT_DOOR(pto_tensormap_insert_read_region, pto_region, region_door, PTO_MAP_READ)

/* ---- Asking ---- */

typedef struct newest {
    bool *found;
    pto_map_task *producer;
} newest;

static void emit_newest(void *context, uint64_t task, uint32_t l, uint32_t e, pto_map_access access,
                        bool live)
{
    newest *n = context;
    (void)e, (void)access;
    if (!live) {
        return;
    }
    if (!*n->found || task > n->producer->id) {
        *n->producer = (pto_map_task){task, l};
    }
    *n->found = true;
}

#define LOOKUP_DOOR(name, type, door)                                                              \
    pto_status name(pto_tensormap *map, const type *what, bool *found, pto_map_task *producer)     \
    {                                                                                              \
        ptoi_found place;                                                                          \
        PTO_TRY(door(map, what, &place));                                                          \
        if (!found || !producer)                                                                   \
            return ptoi_fail(PTO_NULL_ARGUMENT, "map: %s is NULL", found ? "producer" : "found");  \
        *found = false;                                                                            \
        ptoi_access_ask(map, &place, PTO_MAP_READ, emit_newest, &(newest){found, producer});       \
        return PTO_OK;                                                                             \
    }

LOOKUP_DOOR(pto_tensormap_lookup, pto_tensor, tensor_door)
LOOKUP_DOOR(pto_tensormap_lookup_region, pto_region, region_door)

typedef struct visiting {
    pto_tensormap *map;
    pto_map_visitor visit;
    void *context;
    bool any, marked; /* a first answer has come; it has been marked */
    uint32_t first_level, first_entry;
    pto_map_access first_access;
} visiting;

/* Where the first entry of a task stores the last question that reported the task. So a question
 * reports each task once. */
static inline uint32_t *name_of(const pto_tensormap *map, uint32_t l, uint32_t e,
                                pto_map_access access)
{
    const ptoi_level *level = &map->level[l];
    return &ptoi_entry_at(level, ptoi_entry_at(level, e)->first)->named[access];
}

/* The first answer is marked only when a second one comes. Most questions have one answer, and its
 * entry may not be in the cache. */
static void emit_once(void *context, uint64_t task, uint32_t l, uint32_t e, pto_map_access access,
                      bool live)
{
    visiting *v = context;
    if (!live) {
        return;
    }
    if (!v->any) {
        v->any = true;
        v->first_level = l;
        v->first_entry = e;
        v->first_access = access;
    } else {
        if (!v->marked) {
            v->marked = true;
            *name_of(v->map, v->first_level, v->first_entry, v->first_access) = v->map->question;
        }
        uint32_t *named = name_of(v->map, l, e, access);
        if (*named == v->map->question) {
            return;
        }
        *named = v->map->question;
    }
    v->visit(v->context, &(pto_map_hit){{task, l}, access, 0});
}

static void next_question(pto_tensormap *map)
{
    if (++map->question) {
        return;
    }
    /* Once in 2^32 questions: an old number must not look like a new one. */
    for (uint32_t l = 0; l < map->levels; l++) {
        for (uint32_t i = 0; i <= map->level[l].mask; i++) {
            map->level[l].ring[i].named[0] = map->level[l].ring[i].named[1] = 0;
        }
    }
    map->question = 1;
}

#define VISIT_DOOR(name, type, door, access)                                                       \
    pto_status name(pto_tensormap *map, const type *what, pto_map_visitor visit, void *context)    \
    {                                                                                              \
        ptoi_found place;                                                                          \
        PTO_TRY(door(map, what, &place));                                                          \
        if (!visit)                                                                                \
            return ptoi_fail(PTO_NULL_ARGUMENT, "map: visit is NULL");                             \
        next_question(map);                                                                        \
        ptoi_access_ask(map, &place, access, emit_once,                                            \
                        &(visiting){.map = map, .visit = visit, .context = context});              \
        return PTO_OK;                                                                             \
    }

VISIT_DOOR(pto_tensormap_lookup_all, pto_tensor, tensor_door, PTO_MAP_READ)
VISIT_DOOR(pto_tensormap_lookup_all_region, pto_region, region_door, PTO_MAP_READ)
VISIT_DOOR(pto_tensormap_read_deps, pto_tensor, tensor_door, PTO_MAP_READ)
VISIT_DOOR(pto_tensormap_read_deps_region, pto_region, region_door, PTO_MAP_READ)
VISIT_DOOR(pto_tensormap_write_deps, pto_tensor, tensor_door, PTO_MAP_WRITE)
VISIT_DOOR(pto_tensormap_write_deps_region, pto_region, region_door, PTO_MAP_WRITE)

/* ---- Retirement ---- */

pto_status pto_tensormap_sync_validity(pto_tensormap *map, uint32_t l, uint64_t oldest_alive)
{
    if (!map) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "map: map is NULL");
    }
    if (l >= map->levels) {
        return ptoi_fail(PTO_BAD_LEVEL, "map: level %u of %u", l, map->levels);
    }
    ptoi_level *level = &map->level[l];
    if (oldest_alive < level->watermark) {
        if (oldest_alive == 0 && level->watermark == 1) {
            return PTO_OK; /* no task has retired: ids begin at 1 */
        }
        return ptoi_fail(PTO_BAD_ORDER, "map: oldest live task of level %u falls from %llu to %llu",
                         l, (unsigned long long)level->watermark, (unsigned long long)oldest_alive);
    }
    level->watermark = oldest_alive;
    if (oldest_alive - level->cleaned >= map->cleanup_every) {
        ptoi_entry_recycle(map, l);
    }
    return PTO_OK;
}

pto_status pto_tensormap_cleanup_retired(pto_tensormap *map)
{
    PTO_TRY(enter(map, map, "map"));
    for (uint32_t l = 0; l < map->levels; l++) {
        ptoi_entry_recycle(map, l);
    }
    ptoi_map_debug_check(map);
    return PTO_OK;
}

pto_status pto_tensormap_get_stats(const pto_tensormap *map, pto_tensormap_stats *stats)
{
    PTO_TRY(enter(map, stats, "stats"));
    *stats = map->stats;
    stats->lookups += map->hot.params;
    stats->inserts += map->hot.params;
    stats->hits += map->hot.hits;
    stats->superseded += map->hot.superseded;
    stats->regions = map->regions_used;
    stats->groups = map->groups_used;
    for (uint32_t l = 0; l < map->levels; l++) {
        uint32_t used = ptoi_entry_used(&map->level[l]), peak = map->level[l].peak;
        stats->entries += used;
        stats->entries_peak += used > peak ? used : peak;
        stats->entries_capacity += map->level[l].limit;
    }
    return PTO_OK;
}

#ifdef PTO_DEBUG_CHECKS
#define CHANGES_BETWEEN_CHECKS 256u

/* A check visits all regions. The more there are, the more seldom it runs. */
void ptoi_map_debug_check(pto_tensormap *map)
{
    if (++map->changes < CHANGES_BETWEEN_CHECKS + map->regions_used / 4) {
        return;
    }
    map->changes = 0;
    if (pto_tensormap_check(map) == PTO_OK) {
        return;
    }
    fprintf(stderr, "pto: %s\n", pto_error_detail());
    abort();
}
#endif
