/* pto/tensormap.h - the dependency map: which live tasks read or write this memory?
 *
 * A TensorMap records the memory accesses of tasks. For a given tensor it names exactly the live
 * tasks that touch the same bytes, through any views, strides and dtypes.
 *
 *     pto_tensormap *map;
 *     pto_map_task producer;
 *     bool found;
 *     PTO_TRY(pto_tensormap_init_default(&map));
 *
 *     PTO_TRY(pto_tensormap_insert(map, &whole, (pto_map_task){.id = 1}));   // task 1 writes it
 *     PTO_TRY(pto_tensormap_lookup(map, &tile, &found, &producer));          // producer.id == 1
 *     PTO_TRY(pto_tensormap_insert_read(map, &tile, (pto_map_task){.id = 2}));
 *     PTO_TRY(pto_tensormap_write_deps(map, &whole, print_hit, NULL));       // names 1 and 2
 *
 *     PTO_TRY(pto_tensormap_sync_validity(map, 0, 3));                       // 1 and 2 have retired
 *     pto_tensormap_destroy(&map);
 *
 * Rules:
 * - A task has a 64-bit id and a ring level. Ids rise in submission order and are never reused.
 *   Accesses are inserted in that order. Within a level, tasks retire in order: sync_validity gives
 *   the oldest live task, and all older ones become invisible at once, without a walk over them.
 * - A write *supersedes* every earlier access whose bytes it covers. Those accesses are dropped:
 *   the writer waits for them, and every later task waits for the writer. So the writer must wait
 *   for the tasks that write_deps names, and it must ask before it is inserted. (A single write
 *   must cover the whole access. An access that two writes cover only together stays until it
 *   retires. It is still reported, correctly, because the bytes do overlap.)
 * - Where a task is given, the answer never contains accesses of that task.
 * - The memory of a map is reserved at init, and used as it is needed. If all entries that a level
 *   can have belong to live tasks, an insert returns PTO_FULL and changes nothing. Live entries are
 *   never overwritten.
 * - Only one thread may use a map at a time.
 *
 * Memory can be named in two ways. Tensors name absolute addresses of user memory, or a place in a
 * managed block. Regions name `size` bytes at `offset` in tile `tile` of `base`. Every (base, tile)
 * pair is a separate memory: it overlaps no other pair and no tensor.
 */
#ifndef PTO_TENSORMAP_H
#define PTO_TENSORMAP_H

#include <pto/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_MAP_MAX_LEVELS 8

/* A map of live accesses to memory. */
typedef struct pto_tensormap pto_tensormap;

/* The configuration of a map. In every field but `size`, zero means the default. */
typedef struct pto_tensormap_config {
    size_t size;      /* sizeof(pto_tensormap_config) */
    uint32_t levels;  /* ring levels, 1 .. PTO_MAP_MAX_LEVELS; default 4 */
    uint32_t entries; /* tracked accesses per level, at most: up to 2^26, rounded up to a power of
                         two; default 2^18, or fewer where the address space is limited */
    uint32_t level_entries[PTO_MAP_MAX_LEVELS]; /* overrides `entries` on one level */
    uint32_t cleanup_every;  /* recycle a level when its watermark has moved by this many ids;
                               default 64 */
    uint64_t overlap_budget; /* search steps for one overlap test; default PTO_OVERLAP_BUDGET */
    uint32_t first_entry;    /* first value of the entry counters, to test their wrap-around */
    uint32_t start_entries;  /* entries that a level begins with, to test how it grows; default
                                4096 */
    uint32_t start_regions;  /* regions that the map begins with, likewise; default 16384 */
} pto_tensormap_config;

#define PTO_TENSORMAP_CONFIG_INIT                                                                  \
    {                                                                                              \
        sizeof(pto_tensormap_config), 0, 0, {0}, 0, 0, 0, 0, 0                                     \
    }

/* Creates a map with the given configuration, or with the defaults. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_init(pto_tensormap **map,
                                                     const pto_tensormap_config *config);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_init_default(pto_tensormap **map);

/* Frees a map and sets *map to NULL. NULL is allowed. */
PTO_API void pto_tensormap_destroy(pto_tensormap **map);

/* ---- Accesses ---------------------------------------------------------------------------- */

/* A task in the map. */
typedef struct pto_map_task {
    uint64_t id;    /* 1 or more; rises in submission order */
    uint32_t level; /* ring level of the task */
} pto_map_task;

/* A region of memory: `size` bytes at `offset` in tile `tile` of `base`. offset + size must not
 * overflow. */
typedef struct pto_region {
    const void *base;
    uint64_t tile;
    uint64_t offset;
    uint64_t size;
} pto_region;

/* Inserts a write or a read of a task. An empty tensor is not recorded. PTO_BAD_ORDER if the id is
 * 0, lower than the newest id, retired, or already used on another level. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_insert(pto_tensormap *map, const pto_tensor *t,
                                                       pto_map_task task);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_insert_read(pto_tensormap *map, const pto_tensor *t,
                                                            pto_map_task task);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_insert_region(pto_tensormap *map,
                                                              const pto_region *r,
                                                              pto_map_task task);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_insert_read_region(pto_tensormap *map,
                                                                   const pto_region *r,
                                                                   pto_map_task task);

/* ---- Queries ----------------------------------------------------------------------------- */

/* The kind of an access. */
typedef enum pto_map_access {
    PTO_MAP_WRITE, /* the task writes the memory */
    PTO_MAP_READ,  /* the task reads the memory */
} pto_map_access;

/* One result of a query. */
typedef struct pto_map_hit {
    pto_map_task task;
    pto_map_access access;
    uint32_t param; /* for pto_tensormap_submit: the parameter that overlaps; otherwise 0 */
} pto_map_hit;

/* A function that receives results, one per call. It must not use the map. */
typedef void (*pto_map_visitor)(void *context, const pto_map_hit *hit);

/* Finds the newest live task that writes any byte of the tensor. *found says whether there is one;
 * *producer is set only then. Neither pointer may be NULL. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_lookup(pto_tensormap *map, const pto_tensor *t,
                                                       bool *found, pto_map_task *producer);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_lookup_region(pto_tensormap *map,
                                                              const pto_region *r, bool *found,
                                                              pto_map_task *producer);

/* Visits every live task that writes any byte of the tensor. Each task is visited once, in no
 * particular order. Their number is not limited. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_lookup_all(pto_tensormap *map, const pto_tensor *t,
                                                           pto_map_visitor visit, void *context);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_lookup_all_region(pto_tensormap *map,
                                                                  const pto_region *r,
                                                                  pto_map_visitor visit,
                                                                  void *context);

/* Visits the dependencies of a new read or write. A read depends on the live writers. A write
 * depends on the live writers and the live readers. A task is visited once for each kind of access
 * it has. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_read_deps(pto_tensormap *map, const pto_tensor *t,
                                                          pto_map_visitor visit, void *context);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_write_deps(pto_tensormap *map, const pto_tensor *t,
                                                           pto_map_visitor visit, void *context);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_read_deps_region(pto_tensormap *map,
                                                                 const pto_region *r,
                                                                 pto_map_visitor visit,
                                                                 void *context);
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_write_deps_region(pto_tensormap *map,
                                                                  const pto_region *r,
                                                                  pto_map_visitor visit,
                                                                  void *context);

/* ---- All accesses of a task -------------------------------------------------------------- */

/* One access of a task that is being submitted. */
typedef struct pto_map_param {
    const pto_tensor *tensor;
    pto_map_access access; /* PTO_MAP_WRITE also for memory that is both read and written */
} pto_map_param;

/* Looks up and inserts all accesses of a task. This is the fastest way: each region is found once.
 * On an error nothing is inserted. Stores the dependencies of the task in `hits` and their number
 * in *n_hits. The same task may appear more than once. If there are more than `max_hits`, nothing
 * is inserted, *n_hits is the number needed, and the status is PTO_BUFFER_TOO_SMALL: call again
 * with a larger array. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_submit(pto_tensormap *map,
                                                       const pto_map_param *params, size_t n_params,
                                                       pto_map_task task, pto_map_hit *hits,
                                                       size_t max_hits, size_t *n_hits);

/* ---- Retirement -------------------------------------------------------------------------- */

/* Retires all tasks of `level` with an id below `oldest_alive`. They are never reported again.
 * Their entries are recycled automatically, every `cleanup_every` ids. The watermark must not go
 * back. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_sync_validity(pto_tensormap *map, uint32_t level,
                                                              uint64_t oldest_alive);

/* Recycles the entries of all retired tasks immediately. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_cleanup_retired(pto_tensormap *map);

/* ---- Statistics and checks -------------------------------------------------------------- */

/* Statistics of a map. */
typedef struct pto_tensormap_stats {
    uint64_t entries;          /* in use: live, or retired and not yet recycled */
    uint64_t entries_peak;     /* sum of the peaks of all levels */
    uint64_t entries_capacity; /* sum over all levels */
    uint64_t regions;          /* known distinct regions */
    uint64_t groups;           /* distinct sets of strides among them */
    uint64_t inserts;          /* inserted accesses */
    uint64_t lookups;          /* queries, from lookups and from submit */
    uint64_t hits;             /* results of queries */
    uint64_t searches;         /* queries and inserts that searched the index */
    uint64_t candidates;       /* regions that these searches compared exactly */
    uint64_t superseded;       /* live accesses dropped because a newer write covers them; counted
                                  once for each such write */
    uint64_t truncated;        /* reader lists cut at a retired reader */
    uint64_t recycled;         /* recycled entries */
    uint64_t full;             /* inserts refused because a level was full */
    uint64_t budget_hits;      /* overlap tests that ran out of budget */
} pto_tensormap_stats;

/* Takes a snapshot of the statistics of a map. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_get_stats(const pto_tensormap *map,
                                                          pto_tensormap_stats *stats);

/* Checks all invariants of a map, which takes time. PTO_CORRUPT names the first violation. */
PTO_API PTO_MUST_CHECK pto_status pto_tensormap_check(const pto_tensormap *map);

#ifdef __cplusplus
}
#endif

#endif /* PTO_TENSORMAP_H */
