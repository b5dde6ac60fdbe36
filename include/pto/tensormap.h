/* pto/tensormap.h - who wrote this memory, who still reads it?
 *
 * A TensorMap remembers the accesses of tasks to memory. Ask it about a tensor, and it names the
 * live tasks that touch the same bytes: exactly those, through any views, strides and dtypes.
 *
 *     pto_tensormap *map;
 *     pto_tensormap_init_default(&map);
 *
 *     pto_tensormap_insert(map, &whole, (pto_map_task){.id = 1});   // task 1 writes it
 *     pto_tensormap_lookup(map, &tile, &found, &producer);          // producer.id == 1
 *     pto_tensormap_insert_read(map, &tile, (pto_map_task){.id = 2});
 *     pto_tensormap_write_deps(map, &whole, print_hit, NULL);       // names 1 and 2
 *
 *     pto_tensormap_sync_validity(map, 0, 3);                       // 1 and 2 have retired
 *     pto_tensormap_destroy(&map);
 *
 * The rules
 * - Tasks have 64-bit ids in the order of submission, never used again, and a ring level. Accesses
 *   come in that order. Within a level tasks retire in order: sync_validity tells the oldest one
 *   still alive, and whatever is older is gone at once, without a walk over it.
 * - A write *supersedes* every earlier access whose bytes it covers: those are dropped, because the
 *   writer waits for them and whoever comes later waits for the writer. So a writer must be made
 *   to wait for what write_deps names before it is inserted. (Superseding takes one write that
 *   covers the whole access. An access that two writes cover between them stays until it retires:
 *   it is reported, and rightly so, for the bytes do meet.)
 * - An answer never contains the asking task's own accesses where a task is given.
 * - The memory of a map is fixed at init. When all entries of a level belong to live tasks an
 *   insert returns PTO_FULL and changes nothing; nothing live is ever overwritten.
 * - A map belongs to one thread at a time.
 *
 * Two doors lead to the one engine. Tensors: absolute addresses of the user's memory, or a place in
 * a managed block. Regions: `size` bytes from `offset` on in tile `tile` of `base`; every (base,
 * tile) pair is a memory of its own, apart from all others and from the tensors.
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

/* What a map is to be like. Zero means default in every field but `size`. */
typedef struct pto_tensormap_config {
    size_t size;      /* sizeof(pto_tensormap_config) */
    uint32_t levels;  /* ring levels, 1 .. PTO_MAP_MAX_LEVELS; default 4 */
    uint32_t entries; /* accesses remembered per level, up to 2^26, rounded up to a power of
                                two; default 4096 */
    uint32_t level_entries[PTO_MAP_MAX_LEVELS]; /* the same for one level, over `entries` */
    uint32_t cleanup_every; /* clean-up of a level when its watermark has moved by so many ids since
                                the last; default 64 */
    uint64_t overlap_budget; /* steps of search for one overlap; default PTO_OVERLAP_BUDGET */
    uint32_t first_entry;    /* where the counters of entries start, for tests of their wrap */
} pto_tensormap_config;

#define PTO_TENSORMAP_CONFIG_INIT                                                                  \
    {                                                                                              \
        sizeof(pto_tensormap_config), 0, 0, {0}, 0, 0, 0                                           \
    }

/* Makes a map as configured, or with all defaults. */
PTO_API pto_status pto_tensormap_init(pto_tensormap **map, const pto_tensormap_config *config);
PTO_API pto_status pto_tensormap_init_default(pto_tensormap **map);

/* Frees the map and sets *map to NULL. NULL is fine. */
PTO_API void pto_tensormap_destroy(pto_tensormap **map);

/* ---- Accesses ---------------------------------------------------------------------------- */

/* A task, as the map knows it. */
typedef struct pto_map_task {
    uint64_t id;    /* 1 or more; rises with submission */
    uint32_t level; /* the ring level the task lives on */
} pto_map_task;

/* A piece of memory: `size` bytes from `offset` on, in tile `tile` of `base`. Offset and size must
 * not wrap. */
typedef struct pto_region {
    const void *base;
    uint64_t tile;
    uint64_t offset;
    uint64_t size;
} pto_region;

/* Remembers that a task writes memory, or reads it. A tensor without elements is remembered by
 * nobody. A task with id 0, older than the newest one, retired, or now on another level is
 * PTO_BAD_ORDER. */
PTO_API pto_status pto_tensormap_insert(pto_tensormap *map, const pto_tensor *t, pto_map_task task);
PTO_API pto_status pto_tensormap_insert_read(pto_tensormap *map, const pto_tensor *t,
                                             pto_map_task task);
PTO_API pto_status pto_tensormap_insert_region(pto_tensormap *map, const pto_region *r,
                                               pto_map_task task);
PTO_API pto_status pto_tensormap_insert_read_region(pto_tensormap *map, const pto_region *r,
                                                    pto_map_task task);

/* ---- Questions --------------------------------------------------------------------------- */

/* What a task does with memory. */
typedef enum pto_map_access {
    PTO_MAP_WRITE, /* the task named wrote the memory */
    PTO_MAP_READ,  /* it reads it */
} pto_map_access;

/* One answer of the map. */
typedef struct pto_map_hit {
    pto_map_task task;
    pto_map_access access;
    uint32_t param; /* of pto_tensormap_submit: the parameter that met it; otherwise 0 */
} pto_map_hit;

/* A function that takes answers. Called once for each; must not use the map. */
typedef void (*pto_map_visitor)(void *context, const pto_map_hit *hit);

/* The newest live task that wrote any byte of the tensor. *found says whether there is one; only
 * then is *producer set. Both pointers are needed. */
PTO_API pto_status pto_tensormap_lookup(pto_tensormap *map, const pto_tensor *t, bool *found,
                                        pto_map_task *producer);
PTO_API pto_status pto_tensormap_lookup_region(pto_tensormap *map, const pto_region *r, bool *found,
                                               pto_map_task *producer);

/* Every live task that wrote any byte of the tensor, each once, in no set order, however many there
 * are. */
PTO_API pto_status pto_tensormap_lookup_all(pto_tensormap *map, const pto_tensor *t,
                                            pto_map_visitor visit, void *context);
PTO_API pto_status pto_tensormap_lookup_all_region(pto_tensormap *map, const pto_region *r,
                                                   pto_map_visitor visit, void *context);

/* What a new read or a new write must wait for: a read for the live writers, a write for the live
 * writers and the live readers. Each task comes once for each kind of access it had. */
PTO_API pto_status pto_tensormap_read_deps(pto_tensormap *map, const pto_tensor *t,
                                           pto_map_visitor visit, void *context);
PTO_API pto_status pto_tensormap_write_deps(pto_tensormap *map, const pto_tensor *t,
                                            pto_map_visitor visit, void *context);
PTO_API pto_status pto_tensormap_read_deps_region(pto_tensormap *map, const pto_region *r,
                                                  pto_map_visitor visit, void *context);
PTO_API pto_status pto_tensormap_write_deps_region(pto_tensormap *map, const pto_region *r,
                                                   pto_map_visitor visit, void *context);

/* ---- A whole task at once ---------------------------------------------------------------- */

/* One access of a task about to be submitted. */
typedef struct pto_map_param {
    const pto_tensor *tensor;
    pto_map_access access; /* PTO_MAP_WRITE also for what is read and written */
} pto_map_param;

/* Looks up and inserts all accesses of one task: the fast way, each region is found once. Either
 * all are inserted or, on an error, none. Writes into `hits` what the task must wait for and
 * returns in *n_hits how many there are; the same task may come more than once. If there are more
 * than `max_hits` nothing is inserted, *n_hits is the number that are there, and the status is
 * PTO_BUFFER_TOO_SMALL: give a larger array and call again. */
PTO_API pto_status pto_tensormap_submit(pto_tensormap *map, const pto_map_param *params,
                                        size_t n_params, pto_map_task task, pto_map_hit *hits,
                                        size_t max_hits, size_t *n_hits);

/* ---- Retirement -------------------------------------------------------------------------- */

/* Tells the map which tasks have retired: all of `level` with an id below `oldest_alive`. They
 * never show up again. Clean-up follows by itself, every `cleanup_every` ids. Never goes back. */
PTO_API pto_status pto_tensormap_sync_validity(pto_tensormap *map, uint32_t level,
                                               uint64_t oldest_alive);

/* Recycles the entries of all retired tasks now. */
PTO_API pto_status pto_tensormap_cleanup_retired(pto_tensormap *map);

/* ---- Looking inside ---------------------------------------------------------------------- */

/* Counts of a map. */
typedef struct pto_tensormap_stats {
    uint64_t entries;          /* in use: live, or retired and not yet recycled */
    uint64_t entries_peak;     /* the most each level ever had, added up */
    uint64_t entries_capacity; /* of all levels */
    uint64_t regions;          /* distinct pieces of memory known */
    uint64_t groups;           /* kinds of stride among them */
    uint64_t inserts;          /* accesses inserted */
    uint64_t lookups;          /* questions asked, by look-ups and by submit */
    uint64_t hits;             /* answers given */
    uint64_t searches;         /* questions and inserts that had to search the index */
    uint64_t candidates;       /* regions that such a search compared exactly */
    uint64_t superseded;       /* live accesses dropped because a newer write covers them, counted
                                  for each such write */
    uint64_t truncated;        /* chains of readers cut at a retired one */
    uint64_t recycled;         /* entries recycled */
    uint64_t full;             /* inserts refused because a level was full */
    uint64_t budget_hits;      /* overlaps answered the safe way */
} pto_tensormap_stats;

/* Takes a snapshot of the counts of a map. */
PTO_API pto_status pto_tensormap_get_stats(const pto_tensormap *map, pto_tensormap_stats *stats);

/* Checks every invariant of the map, which takes time; PTO_CORRUPT names the first one broken. */
PTO_API pto_status pto_tensormap_check(const pto_tensormap *map);

#ifdef __cplusplus
}
#endif

#endif /* PTO_TENSORMAP_H */
