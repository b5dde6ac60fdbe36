/* map.h - the parts of a TensorMap and how they refer to each other.
 *
 *      a tensor ──canonical layout──> region            one piece of memory, stored once
 *                                       │  writer       the newest task that wrote exactly it
 *                                       │  readers      tasks that read exactly it since
 *                                       │  links        to *other* regions that share a byte
 *                                       v
 *      entries, a ring for each level:  [w][r][r][w][r]....   one for each access, oldest first
 *       tail ─────^  recycled as tasks retire     ^── head
 *
 *      index (index.h): finds the regions that share a byte with a new place
 *
 * The fast path finds the region by the tensor's fields (desc_cache.h). If no other region overlaps
 * it, its writer and readers are the whole answer. Otherwise links lead to the other regions
 * (links.h).
 *
 * Retirement is lazy: watermark[level] rises, and all accesses below it are dead from then on. They
 * stay in place until a question meets them. It cuts chains there, and it reads links to recycled
 * entries as the end of the chain. So recycling visits no region of the user's memory.
 *
 * Invariants (pto_tensormap_check):
 *   M1  head - tail <= capacity, for each level; task ids do not fall from tail to head
 *   M2  the live writer of a region, and its newest live reader on each level, are entries in use,
 *       and belong to this region. Any other reader entry that a region keeps is at most 2^30
 *       entries before the tail of its level, so it cannot be mistaken for an entry in use
 *   M3  regions with a live access <= entries in use <= entries of all levels <= regions that may be
 *       used (region_capacity); so there is a region for every free entry. The other regions are *idle*: they stay known for the next access, and are
 *       reused when a region is needed. Idle regions of managed blocks are not expected back. When
 *       their entries are recycled they go on the dead list, which is reused first (a listed region
 *       may become live again)
 *   M4  every region in use is in one bucket, that of its hash, and in the index once; or it is
 *       unindexed, and only in the table of unindexed regions (unindexed.h)
 *   M5  a region is linked with every other one that is proved to share a byte, unless both are only
 *       read, or is marked incomplete. A region with a writer is not only read
 *   M6  along a chain of readers, within one level, entry numbers fall and task ids do not rise
 *
 * Entries and regions begin few and grow, up to the sizes that were reserved: grow.h.
 *
 * One thread at a time uses a map. Nothing here is shared or atomic.
 */
#ifndef PTOI_MAP_H
#define PTOI_MAP_H

#include <pto/tensormap.h>

#include "orchestrator/map/boxtree.h"
#include "tensor/desc.h"
#include "tensor/layout.h"

/* A link in a chain of a hash table: the number of the next element, with all bits inverted. So
 * zeroed memory, which costs nothing until it is touched, is a table of empty chains. */
typedef uint32_t ptoi_chain;

static inline uint32_t ptoi_chain_at(ptoi_chain link)
{
    return ~link;
}

static inline ptoi_chain ptoi_chain_to(uint32_t at)
{
    return ~at;
}

/* The descriptor under which a region was last found; its layout descriptor and generation are
 * stored beside it. A tensor that equals it is the same place: its layout need not be computed or
 * checked again. Fields are in pairs because they are compared in pairs. */
typedef struct ptoi_cached_desc {
    uint64_t storage[2]; /* address and bytes */
    uint64_t offset[2];  /* offset and owner */
} ptoi_cached_desc;

#define PTOI_REGION_USED 1u       /* it describes a place and can be found */
#define PTOI_REGION_DEAD 2u       /* it is on the dead list */
#define PTOI_REGION_EXACT 4u      /* it fills its box in the index */
#define PTOI_REGION_UNINDEXED 8u  /* a whole block, found by its owner alone: unindexed.h */
#define PTOI_REGION_ONLY_READ 16u /* no question was about a write to it: index.h */

/* A question about a known region needs the first two cache lines: the state and the cached
 * descriptor. */
typedef struct ptoi_region {
    uint64_t writer;       /* id of the newest task that wrote it; 0: none */
    uint32_t writer_entry; /* its entry, on level writer_level */
    uint8_t writer_level;
    uint8_t read_levels;                  /* bit l: readers[l] is set, and may be alive */
    uint8_t flags;                        /* PTOI_REGION_... */
    uint8_t kind;                         /* ptoi_space_kind */
    uint32_t readers[PTO_MAP_MAX_LEVELS]; /* entry of the newest reader on each level */
    uint32_t links;                       /* to other regions that share a byte: links.h */
    ptoi_chain cached_next;               /* in its bucket of the descriptor cache */
    uint32_t cached_hash;                 /* upper half of the hash that chose the bucket */
    uint32_t desc; /* id of the cached layout descriptor; 0: nothing is cached */
    /* 64 bytes so far */
    ptoi_cached_desc cached;
    uint64_t arg[2]; /* data that submit keeps with `cached`; zero after `cached` changes */
    uint64_t a, b;   /* with `kind`: the key of its memory */
    /* 128 bytes so far */
    ptoi_layout layout;  /* up to two dims fit in one cache line */
    uint32_t group;      /* in the index; PTOI_NONE: a dense region */
    uint32_t space;      /* its memory */
    uint32_t hash;       /* of the place */
    ptoi_chain next;     /* in the bucket of its hash; in a free region: the next free one, not
                            inverted */
    uint32_t dead_next;  /* on the dead list */
    uint32_t evict_next; /* on a list of regions to be evicted */
    uint64_t unused;     /* fills the last cache line */
} ptoi_region;

_Static_assert(offsetof(ptoi_region, cached) == 64, "the state of a region is one line of cache");
_Static_assert(offsetof(ptoi_region, layout) == 128, "and so is what it is found by");
_Static_assert(sizeof(ptoi_region) == 320, "a region is five lines of cache");

/* One access of one task. */
typedef struct ptoi_entry {
    uint64_t task;
    uint32_t region;
    uint32_t older;    /* reads: the next older entry in the chain, or the entry itself at the
                          end */
    uint32_t first;    /* first entry of the same task */
    uint16_t access;   /* pto_map_access */
    uint16_t kind;     /* ptoi_space_kind of the region */
    uint32_t named[2]; /* first entry only: the last question that reported the task, by access */
} ptoi_entry;

/* Entry numbers run freely and wrap; entry e is ring[e & mask]. A number that is stored anywhere is
 * never so old that "before the tail" could be mistaken for "in use": see M2. */
typedef struct ptoi_level {
    ptoi_entry *ring;
    uint32_t mask;
    uint32_t head;      /* the next entry to be used */
    uint32_t tail;      /* the oldest entry in use */
    uint32_t first;     /* first entry of the newest task */
    uint64_t watermark; /* tasks below it have retired */
    uint64_t cleaned;   /* watermark at the last clean-up */
    uint32_t peak;      /* most entries in use, as seen by recycling */
    uint32_t blocks;    /* entries in use whose region is not in user memory */
    uint32_t limit;     /* entries that the ring can grow to, a power of two */
    uint32_t unused[3]; /* fills the cache line */
} ptoi_level;

_Static_assert(sizeof(ptoi_level) == 64, "a level is one line of cache");

/* One memory, with the tree of its regions. */
typedef struct ptoi_space {
    uint64_t a, b;
    uint32_t kind;
    ptoi_chain next;  /* in the bucket; in a free one: the next free one, not inverted */
    uint32_t root[2]; /* box trees of byte ranges: regions that are only read; written ones. Both
                         have dense regions and groups */
    uint32_t regions; /* regions in it */
} ptoi_space;

/* Regions of one memory with the same strides. Their boxes are in digits: index.h. */
#define PTOI_GROUP_STRIDES (PTOI_MAX_DIGITS - 1)
typedef struct ptoi_group {
    uint64_t strides[PTOI_GROUP_STRIDES];
    uint64_t shift;    /* added to an address before it is split into digits */
    ptoi_range range;  /* contains all members; may be larger than needed */
    ptoi_range extent; /* from the first to the last byte of all members that there were */
    uint32_t count;    /* number of strides */
    uint32_t space;
    ptoi_chain next; /* in the bucket; in a free one: the next free one, not inverted */
    uint32_t hash;
    uint32_t root;    /* box tree of the members */
    uint32_t written; /* whether all members are written; or none is */
    uint32_t members;
} ptoi_group;

/* Allocator of array elements: freed ones first, then those that were never used. */
typedef struct ptoi_free {
    uint32_t untouched; /* elements from here on were never used */
    uint32_t freed;     /* list of freed elements, through their `next` */
} ptoi_free;

/* Some of the regions that were evicted because none was left: grow.h. */
typedef struct ptoi_ghosts {
    uint32_t *hashes;   /* table of their hashes; 0: empty */
    uint32_t mask;      /* of the table */
    uint32_t sample;    /* only regions whose hash has none of these low bits */
    uint32_t evictions; /* since the count of returns began */
    uint32_t returns;   /* regions in the table that were used again */
} ptoi_ghosts;

/* What grew: entries of a level; regions, because there are more entries; regions that come back. */
typedef enum ptoi_grown {
    PTOI_GROWN_ENTRIES,
    PTOI_GROWN_FOR_ENTRIES,
    PTOI_GROWN_REGIONS,
    PTOI_GROWN
} ptoi_grown;

struct pto_tensormap {
    /* hot */
    ptoi_region *regions;
    ptoi_chain *desc_cache; /* buckets of regions by cached descriptor */
    ptoi_chain *unindexed;  /* whole blocks by owner, one for each slot: unindexed.h */
    uint32_t unindexed_mask;
    ptoi_descs descs;          /* of cached descriptors; ptoi_map_adopt may move the records */
    uint32_t unsaid;           /* layouts that got no id since the last sweep */
    ptoi_chain *buckets;       /* buckets of regions by place */
    uint32_t bucket_shift;     /* bucket of hash h: h >> bucket_shift */
    uint32_t desc_cache_shift; /* the same for a hash of 64 bits */
    uint32_t levels;
    uint32_t question;  /* number of the current question; never 0 */
    uint64_t last_task; /* newest task inserted */
    uint32_t last_level;
    uint32_t cleanup_every;
    uint64_t budget;
    bool exact; /* the map of a runtime: what the budget leaves undecided is decided exactly for
                   `covers`, and by ptoi_access_is_shared for an overlap */
    const ptoi_layout *doubt[2]; /* of the access just reported: the two layouts, if the budget ran
                                    out before it was proved that they share a byte; else NULL */
    bool nameless; /* the map of a runtime: nobody asks for each task once, so `first` and `named`
                      of entries, and the newest task, are not maintained */
    /* The map of a runtime: tasks submitted. Programs come back to their views, so questions leave idle regions (keep.h),
     * and of managed memory only whole blocks are reused first. NULL: a map on its own. */
    const uint64_t *order;
    struct {
        uint64_t params, hits, superseded;
    } hot; /* counts of the fast paths, added to `stats` by pto_tensormap_get_stats. The runtime
              counts no hits here: its hits are edges */
    ptoi_level level[PTO_MAP_MAX_LEVELS];

    ptoi_free region_free;
    uint32_t region_capacity; /* regions that may be used; grows: grow.h */
    uint32_t region_limit;    /* regions that are reserved */
    uint32_t dead;            /* list of regions, not in user memory, that were idle */
    uint32_t hand;            /* next region to look at in the search for an idle one */
    uint64_t visits; /* of idle regions that tasks have earned, and nobody has used: keep.h */
    uint64_t earned; /* order up to which tasks have earned them */
    uint32_t begun;  /* regions that were only read until a question about a write came: region.h */
    uint32_t passed; /* places that were asked about when no region was free: access.h */

    struct ptoi_link_end *link_ends;
    ptoi_free link_free; /* numbers of link ends, two for each link */
    uint32_t link_capacity;

    /* index */
    ptoi_forest forest;
    ptoi_space *spaces; /* spaces[0] is the user's memory and always exists */
    ptoi_chain *space_buckets;
    ptoi_free space_free;
    ptoi_group *groups;
    ptoi_chain *group_buckets;
    ptoi_free group_free;
    uint32_t index_mask; /* of the buckets of spaces and groups */
    uint32_t groups_used;
    uint32_t regions_used;
    uint32_t changes; /* since the last check, counted by debug builds */
    ptoi_ghosts ghosts;
    uint32_t table_regions;       /* if more are known, the hash tables grow */
    uint64_t growths[PTOI_GROWN]; /* how often entries and regions grew, and why */

    pto_tensormap_stats stats; /* fields that are counted as they happen */
    void *memory;              /* the reservation that holds all arrays */
    size_t memory_bytes;
};

#define PTOI_MAP_ENTRIES (1u << 18) /* of a level, at most, unless something else is configured */

/* Makes this the map of a runtime, before its first use: layout descriptors are stored in `descs`,
 * PTOI_DESC_BYTES of zeroes, instead of in the map's memory, and the map is `nameless`. `order` counts the tasks
 * submitted. */
void ptoi_map_adopt(pto_tensormap *map, char *descs, const uint64_t *order);

/* Builds with PTO_DEBUG_CHECKS check the whole map every few hundred changes and abort at the first
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
