/* map.h - the parts of a TensorMap and how they hang together.
 *
 *      a tensor ──canonical layout──> region            one piece of memory, known once
 *                                       │  writer       the newest task that wrote exactly it
 *                                       │  readers      who read exactly it since, by level
 *                                       │  near         links to *others* that share a byte
 *                                       v
 *      entries, a ring for each level:  [w][r][r][w][r]....   one for each access, oldest first
 *       tail ─────^  recycled as tasks retire     ^── head
 *
 *      index (index.h): finds the regions that share a byte with a place that is new
 *
 * The fast way: find the region by the tensor's fields (recall.h); nothing is near, so its writer
 * and readers are the whole answer. Where different regions overlap, links lead to the others
 * (near.h).
 *
 * Retirement is lazy: watermark[level] rises and all accesses below it are dead at once. What is
 * dead stays where it is until it is met: chains are cut there, and links to entries that have
 * been recycled read as the end. So recycling visits no region of the user's memory.
 *
 * Invariants (pto_tensormap_check):
 *   M1  head - tail <= capacity, for each level; task ids do not fall from tail to head
 *   M2  the writer of a region, while it is alive, and its newest live reader on each level are
 *       entries in use, of this region. Numbers of readers that a region keeps beyond that are at
 *       most 2^30 entries before the tail of their level, so they are told from entries in use
 *   M3  regions with a live access <= entries in use <= regions in all; so there is a region for
 *       every free entry. The others are *idle*: still known, in case they are touched again, and
 *       taken when one is needed. Idle ones of managed blocks do not come back: when their entries
 *       are recycled they go on the list of dead ones, to be taken first (some may live again)
 *   M4  every region in use stands in one bucket, the one of its hash, and in the index once; or it
 *       is loose, and stands in the table of loose ones alone (loose.h)
 *   M5  a region is linked with every other that is proved to share a byte, or is marked incomplete
 *   M6  chains of readers fall in entry number, and do not rise in task id, within one level
 *
 * One thread at a time uses a map: nothing here is shared, nothing is atomic.
 */
#ifndef PTOI_MAP_H
#define PTOI_MAP_H

#include <pto/tensormap.h>

#include "orchestrator/map/boxtree.h"
#include "tensor/form.h"
#include "tensor/layout.h"

/* A link in a chain of a hash table: the number of the next one, all bits inverted, so that memory
 * of zeros, which costs nothing until it is touched, is a table of empty chains. */
typedef uint32_t ptoi_chain;

static inline uint32_t ptoi_chain_at(ptoi_chain link)
{
    return ~link;
}

static inline ptoi_chain ptoi_chain_to(uint32_t at)
{
    return ~at;
}

/* Which memory a layout is in: places in different memories never meet. */
typedef enum ptoi_space_kind {
    PTOI_SPACE_USER,   /* absolute addresses; a = b = 0 */
    PTOI_SPACE_BLOCK,  /* a managed block: owner, generation */
    PTOI_SPACE_REGION, /* a memory of the simple door: base, tile */
} ptoi_space_kind;

typedef struct ptoi_space_key {
    uint64_t a, b;
    ptoi_space_kind kind;
} ptoi_space_key;

/* A place asked about: canonical, hashed. */
typedef struct ptoi_place {
    ptoi_layout layout;
    ptoi_space_key space;
    uint64_t origin; /* where the storage begins, a hint for the index; not part of the identity */
    uint32_t hash;
} ptoi_place;

/* The descriptor under which a region was last found, with its form and generation. A tensor that
 * equals it is the same place: no need to work out its layout, or to check it again. Fields in
 * pairs, as they are compared. */
typedef struct ptoi_alias {
    uint64_t storage[2]; /* address and bytes */
    uint64_t offset[2];  /* and owner */
} ptoi_alias;

#define PTOI_REGION_USED 1u  /* it describes a place, and stands where it is found */
#define PTOI_REGION_DEAD 2u  /* it is on the list of dead ones */
#define PTOI_REGION_EXACT 4u /* it is all of its box in the index */
#define PTOI_REGION_LOOSE 8u /* a whole block, known by its owner alone: loose.h */

/* What a question about a known region needs stands in the first two lines of cache: the state, and
 * the alias. */
typedef struct ptoi_region {
    uint64_t writer;       /* id of the newest task that wrote it; 0: none */
    uint32_t writer_entry; /* its entry, on level writer_level */
    uint8_t writer_level;
    uint8_t read_levels;                  /* bit l: readers[l] is set, and may be alive */
    uint8_t flags;                        /* PTOI_REGION_... */
    uint8_t kind;                         /* ptoi_space_kind */
    uint32_t readers[PTO_MAP_MAX_LEVELS]; /* entry of the newest reader on each level */
    uint32_t near;                        /* links to others that share a byte: see near.h */
    ptoi_chain alias_next;                /* in the bucket of the alias */
    uint32_t alias_bucket;
    uint32_t form; /* of the alias: its number; 0: there is no alias */
    /* 64 bytes so far */
    ptoi_alias alias;
    uint64_t packed[2]; /* whatever submit keeps with the alias; zero when that is new */
    uint64_t a, b;      /* key of the memory it is in, with `kind` */
    /* 128 bytes so far */
    ptoi_layout layout;  /* up to two dims in one line of cache */
    uint32_t group;      /* of the index; PTOI_NONE for a dense one */
    uint32_t space;      /* the memory it is in */
    uint32_t hash;       /* of the place */
    ptoi_chain next;     /* in the bucket of the hash; of a free one, the next free one as it is */
    uint32_t dead_next;  /* in the list of dead ones */
    uint32_t evict_next; /* in a list of regions about to be taken out */
    uint64_t unused;     /* fills the last line */
} ptoi_region;

_Static_assert(offsetof(ptoi_region, alias) == 64, "the state of a region is one line of cache");
_Static_assert(offsetof(ptoi_region, layout) == 128, "and so is what it is found by");
_Static_assert(sizeof(ptoi_region) == 320, "a region is five lines of cache");

/* One access of one task. */
typedef struct ptoi_entry {
    uint64_t task;
    uint32_t region;
    uint32_t older;    /* reads: the next older entry in the chain; the entry itself at its end */
    uint32_t first;    /* the first entry of the same task */
    uint16_t access;   /* pto_map_access */
    uint16_t kind;     /* ptoi_space_kind of the region */
    uint32_t named[2]; /* first entry only: the question that last named the task, by access */
} ptoi_entry;

/* Numbers of entries run freely and wrap; entry e lives at ring[e & mask]. Numbers that are kept
 * anywhere are never so old that "before the tail" could be taken for "in use": see M2. */
typedef struct ptoi_level {
    ptoi_entry *ring;
    uint32_t mask;
    uint32_t head;      /* the next one to be used */
    uint32_t tail;      /* the oldest in use */
    uint32_t first;     /* first entry of the newest task */
    uint64_t watermark; /* tasks below it have retired */
    uint64_t cleaned;   /* the watermark at the last clean-up */
    uint32_t peak;      /* the most entries in use at any recycling */
    uint32_t blocks;    /* entries in use whose region is not of the user's memory */
    uint32_t unused[4]; /* fill the line */
} ptoi_level;

_Static_assert(sizeof(ptoi_level) == 64, "a level is one line of cache");

/* One memory, with the tree of what is known in it. */
typedef struct ptoi_space {
    uint64_t a, b;
    uint32_t kind;
    ptoi_chain next;  /* in the bucket; of a free one, the next free one as it is */
    uint32_t root;    /* box tree of byte ranges: dense regions and groups */
    uint32_t regions; /* in use in it */
} ptoi_space;

/* Regions of one memory with the same strides. Their boxes are in digits: see index.h. */
#define PTOI_GROUP_STRIDES (PTOI_MAX_DIGITS - 1)
typedef struct ptoi_group {
    uint64_t strides[PTOI_GROUP_STRIDES];
    uint64_t shift;   /* added to an address before it is cut into digits */
    ptoi_range range; /* that contains all members, not the smallest */
    uint32_t count;   /* strides used */
    uint32_t space;
    ptoi_chain next; /* in the bucket; of a free one, the next free one as it is */
    uint32_t hash;
    uint32_t root; /* box tree of the members */
    uint32_t members;
} ptoi_group;

/* Index lists of free things: used ones first, then never used ones. */
typedef struct ptoi_free {
    uint32_t fresh; /* never used from here on */
    uint32_t freed; /* list of used ones, through their `next` */
} ptoi_free;

struct pto_tensormap {
    /* hot */
    ptoi_region *regions;
    ptoi_chain *aliases; /* buckets of regions by alias */
    ptoi_chain *loose;   /* whole blocks by owner, one a slot: loose.h */
    uint32_t loose_mask;
    ptoi_forms forms;      /* of aliases; its records may lie elsewhere (ptoi_map_keep_forms) */
    ptoi_chain *buckets;   /* buckets of regions by place */
    uint32_t bucket_shift; /* bucket of hash h: h >> bucket_shift */
    uint32_t alias_shift;  /* the same for a hash of 64 bits */
    uint32_t levels;
    uint32_t question;  /* number of the question being asked; 0 is never one */
    uint64_t last_task; /* newest task inserted */
    uint32_t last_level;
    uint32_t cleanup_every;
    uint64_t budget;
    bool nameless; /* nobody wants each task named once, so `first` and `named` of entries, and the
                      newest task, mean nothing: the runtime's */
    struct {
        uint64_t params, hits, superseded;
    } hot; /* counts of the fast ways, added to the others when they are asked for; that of the
              runtime counts no hits, which are its edges */
    ptoi_level level[PTO_MAP_MAX_LEVELS];

    ptoi_free region_free;
    uint32_t region_capacity;
    uint32_t dead; /* list: regions of managed blocks and simple regions that were idle */
    uint32_t hand; /* goes round the regions, looking for an idle one */

    struct ptoi_link *links;
    ptoi_free link_free; /* numbers of ends, two a link */
    uint32_t link_capacity;

    /* index */
    ptoi_forest forest;
    ptoi_space *spaces; /* 0 is the user's memory, always there */
    ptoi_chain *space_buckets;
    ptoi_free space_free;
    ptoi_group *groups;
    ptoi_chain *group_buckets;
    ptoi_free group_free;
    uint32_t index_mask; /* of the buckets of spaces and of groups */
    uint32_t groups_used;
    uint32_t regions_used;
    uint32_t changes; /* counted by debug builds */

    pto_tensormap_stats stats; /* the fields that are counted as they happen */
    void *memory;              /* one reservation holds all arrays */
    size_t memory_bytes;
};

/* ---- Life (tensormap.c) ---- */

/* The map is a runtime's: forms are written down there, which is PTOI_FORM_BYTES of zeroes, instead of
 * in the map's own memory, and it is `nameless`. Before the first use. */
void ptoi_map_adopt(pto_tensormap *map, char *forms);

/* ---- Places (place.c) ---- */

/* The place of a tensor or region; *empty if it touches nothing. */
pto_status ptoi_place_of_tensor(const pto_tensor *t, ptoi_place *place, bool *empty);
pto_status ptoi_place_of_region(const pto_region *r, ptoi_place *place, bool *empty);

/* The place of all of a managed block. */
void ptoi_place_of_block(uint64_t owner, uint64_t generation, uint64_t bytes, ptoi_place *place);

/* ---- Regions (region.c) ---- */

/* The region of exactly this place; PTOI_NONE if it is not known. */
uint32_t ptoi_region_find(const pto_tensormap *map, const ptoi_place *place);

/* A region to be used: the cheapest to be had, with no access and nothing near. There must be one
 * left (M3 says when). */
uint32_t ptoi_region_take(pto_tensormap *map);

/* Makes a region that was taken the one of this place, known to all. */
void ptoi_region_settle(pto_tensormap *map, uint32_t region, const ptoi_place *place);

/* Makes the place known, and links it. There must be a region left (M3 says when). */
uint32_t ptoi_region_create(pto_tensormap *map, const ptoi_place *place);

/* An entry of the region was recycled or dropped: if it is idle and not to come back, lists it. */
void ptoi_region_let_go(pto_tensormap *map, uint32_t region);

/* Drops all accesses of a region and counts those that were live. */
void ptoi_region_drop(pto_tensormap *map, uint32_t region);

/* Drops the accesses of all other regions that `region` covers. */
void ptoi_region_supersede(pto_tensormap *map, uint32_t region);

/* Takes out the idle regions on the list `first` (through evict_next). */
void ptoi_region_evict(pto_tensormap *map, uint32_t first);

/* ---- Accesses (access.c) ---- */

/* What an access is about: a region if it is known, and its place if that had to be worked out. */
typedef struct ptoi_found {
    const pto_tensor *tensor; /* NULL at the simple door */
    uint32_t region;          /* PTOI_NONE: not known */
    bool empty;               /* touches nothing: there is nothing to ask or to remember */
    ptoi_place place;         /* set if the region is not known */
} ptoi_found;

pto_status ptoi_access_find(pto_tensormap *map, const pto_tensor *t, ptoi_found *found);
pto_status ptoi_access_find_region(pto_tensormap *map, const pto_region *r, ptoi_found *found);

/* Called with each access that a question meets; entry `e` of level `l` is where it stands. It is
 * an answer only if `live`: whether that is so can hardly be predicted, so the hot path wants to
 * count with it rather than branch on it. */
typedef void (*ptoi_emit)(void *context, uint64_t task, uint32_t l, uint32_t e,
                          pto_map_access access, bool live);

/* What must a new access wait for? */
void ptoi_access_ask(pto_tensormap *map, const ptoi_found *found, pto_map_access access,
                     ptoi_emit emit, void *context);

/* Remembers an access that was found just now. An entry is reserved, the task is checked. */
void ptoi_access_record(pto_tensormap *map, ptoi_found *found, pto_map_access access,
                        pto_map_task task);

/* Remembers that the task writes all of a managed block that nobody has touched before, under the
 * tensor given. There is nothing to ask. An entry is reserved. */
void ptoi_access_record_fresh(pto_tensormap *map, const pto_tensor *t, pto_map_task task);

/* The tasks from `since` on, the newest there are, write all of the tensor together, though none of
 * them alone: they take the place of all earlier accesses that it covers. */
void ptoi_access_cover(pto_tensormap *map, const pto_tensor *t, pto_map_task since);

/* Drops the earlier accesses of all regions that the place covers. */
void ptoi_region_supersede_all(pto_tensormap *map, uint32_t space, const ptoi_layout *layout,
                               pto_map_task since);

/* Whether a task may be inserted now: level and order must be right. */
pto_status ptoi_access_check_task(const pto_tensormap *map, pto_map_task task);

/* ---- Entries (entry.c) ---- */

/* Recycles what has retired on the level; PTO_FULL unless `count` more entries fit then. */
pto_status ptoi_entry_make_room(pto_tensormap *map, uint32_t level, size_t count);

/* Recycles the entries of retired tasks of one level. */
void ptoi_entry_recycle(pto_tensormap *map, uint32_t level);

/* Whether a task may be forgotten, though others of its level that came before may not. */
typedef bool (*ptoi_entry_gone)(const void *context, uint64_t task);

/* Forgets all such tasks of a level, wherever their entries stand, and closes the gaps. Looks at
 * every entry: for the case that one slow task holds up all others. */
void ptoi_entry_compact(pto_tensormap *map, uint32_t level, ptoi_entry_gone gone,
                        const void *context);

static inline ptoi_entry *ptoi_entry_at(const ptoi_level *level, uint32_t entry)
{
    return &level->ring[entry & level->mask];
}

static inline bool ptoi_entry_in_use(const ptoi_level *level, uint32_t entry)
{
    return (uint32_t)(entry - level->tail) < (uint32_t)(level->head - level->tail);
}

/* Whether it stands in hash and index. */
static inline bool ptoi_region_settled(const ptoi_region *r)
{
    return (r->flags & (PTOI_REGION_USED | PTOI_REGION_LOOSE)) == PTOI_REGION_USED;
}

/* Whether no access of the region is alive. */
static inline bool ptoi_region_idle(const pto_tensormap *map, const ptoi_region *r)
{
    if (r->writer >= map->level[r->writer_level].watermark) {
        return false;
    }
    for (uint32_t levels = r->read_levels; levels; levels &= levels - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(levels);
        const ptoi_level *level = &map->level[l];
        if (ptoi_entry_in_use(level, r->readers[l]) &&
            ptoi_entry_at(level, r->readers[l])->task >= level->watermark) {
            return false;
        }
    }
    return true;
}

static inline uint32_t ptoi_entry_used(const ptoi_level *level)
{
    return level->head - level->tail;
}

static inline size_t ptoi_entry_room(const ptoi_level *level)
{
    return (size_t)level->mask + 1 - ptoi_entry_used(level);
}

/* PTO_FULL unless `count` more entries fit on the level. */
static inline pto_status ptoi_entry_reserve(pto_tensormap *map, uint32_t level, size_t count)
{
    return ptoi_entry_room(&map->level[level]) >= count ? PTO_OK
                                                        : ptoi_entry_make_room(map, level, count);
}

/* Builds with PTO_DEBUG_CHECKS look at the whole map every so many changes, and stop at the first
 * broken invariant. */
#ifdef PTO_DEBUG_CHECKS
void ptoi_map_debug_check(pto_tensormap *map);
#else
static inline void ptoi_map_debug_check(pto_tensormap *map)
{
    (void)map;
}
#endif

#endif /* PTOI_MAP_H */
