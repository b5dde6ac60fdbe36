/* readers.c - see readers.h. */
#include "observe/readers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>
#include <pto/tensormap.h>

#include "base/error.h"

#define NONE UINT32_MAX
#define MOST_ENTRIES (1u << 20) /* regions of a role that can be found; older ones are forgotten */

enum { READ, WRITTEN, ROLES };

typedef struct region {
    pto_tensor tensor;
    uint32_t next;     /* with the same hash */
    uint32_t written;  /* one past the last task that wrote exactly it; 0: none */
    uint32_t covered;  /* one past the last task that wrote all of it, in whatever region */
    uint32_t reader;   /* newest of its readers */
    uint32_t link;     /* first of the read regions that overlap it */
    bool known[ROLES]; /* the map of the role has it */
} region;

typedef struct reader {
    uint32_t task, next;
} reader;

typedef struct link {
    uint32_t region, next;
    bool covered; /* the written region contains all of it */
} link;

/* An array that grows. */
typedef struct list {
    void *at;
    size_t count, room;
} list;

struct ptoi_readers {
    list regions, readers, links;
    uint32_t *buckets;
    size_t mask;
    uint64_t budget;
    struct {
        pto_tensormap *map; /* each region once, as a read: nothing supersedes it */
        list regions;       /* by id in the map, minus one */
        uint64_t low;       /* ids below are forgotten */
    } role[ROLES];
    uint32_t at;       /* the region that a visitor links, */
    int found;         /* the role of what it finds, */
    pto_status status; /* and how that went */
};

static pto_status no_memory(size_t count)
{
    return ptoi_fail(PTO_OUT_OF_MEMORY, "trace: no memory for %zu accesses", count);
}

/* Room for one more item; NULL if there is no memory. */
static void *add(list *l, size_t bytes)
{
    if (l->count == l->room) {
        const size_t room = l->room ? l->room * 2 : 64;
        void *larger = realloc(l->at, room * bytes);
        if (!larger) {
            return NULL;
        }
        l->at = larger;
        l->room = room;
    }
    return (char *)l->at + l->count++ * bytes;
}

static region *region_at(const ptoi_readers *r, uint32_t i)
{
    return &((region *)r->regions.at)[i];
}

pto_status ptoi_readers_create(ptoi_readers **readers, uint64_t most, uint64_t budget)
{
    ptoi_readers *r = *readers = calloc(1, sizeof *r);
    size_t buckets = 256;
    if (!r) {
        return no_memory(1);
    }
    while (buckets < most && buckets < (size_t)1 << 22) {
        buckets *= 2;
    }
    r->budget = budget;
    r->mask = buckets - 1;
    r->buckets = malloc(buckets * sizeof *r->buckets);
    if (!r->buckets) {
        return no_memory(buckets);
    }
    memset(r->buckets, 0xff, buckets * sizeof *r->buckets);
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 1;
    config.entries = most < MOST_ENTRIES ? (uint32_t)most + 1 : MOST_ENTRIES;
    config.overlap_budget = budget;
    for (int role = 0; role < ROLES; role++) {
        PTO_TRY(pto_tensormap_init(&r->role[role].map, &config));
    }
    return PTO_OK;
}

void ptoi_readers_free(ptoi_readers *r)
{
    if (r) {
        for (int role = 0; role < ROLES; role++) {
            pto_tensormap_destroy(&r->role[role].map);
            free(r->role[role].regions.at);
        }
        free(r->regions.at);
        free(r->readers.at);
        free(r->links.at);
        free(r->buckets);
        free(r);
    }
}

/* ---- Regions ---- */

static uint64_t hash_of(const pto_tensor *t)
{
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = (uint64_t)(uintptr_t)t->storage * odd ^ (uint64_t)t->generation;
    hash = (hash ^ (uint64_t)t->offset) * odd + (uint64_t)t->dtype;
    for (int32_t d = 0; d < t->ndim; d++) {
        hash = (hash ^ (uint64_t)t->shape[d]) * odd;
        hash = (hash ^ hash >> 29 ^ (uint64_t)t->strides[d]) * odd;
    }
    return hash ^ hash >> 32;
}

static bool is_same(const pto_tensor *a, const pto_tensor *b)
{
    const size_t bytes = (size_t)a->ndim * sizeof *a->shape;
    return a->storage == b->storage && a->owner == b->owner && a->generation == b->generation &&
           a->offset == b->offset && a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, bytes) == 0 && memcmp(a->strides, b->strides, bytes) == 0;
}

/* The region of a tensor, or NONE. */
static uint32_t find_region(const ptoi_readers *r, const pto_tensor *t)
{
    uint32_t i = r->buckets[hash_of(t) & r->mask];
    while (i != NONE && !is_same(&region_at(r, i)->tensor, t)) {
        i = region_at(r, i)->next;
    }
    return i;
}

static pto_status make_region(ptoi_readers *r, const pto_tensor *t, uint32_t *found)
{
    *found = find_region(r, t);
    if (*found != NONE) {
        return PTO_OK;
    }
    uint32_t *bucket = &r->buckets[hash_of(t) & r->mask];
    region *new = r->regions.count < NONE ? add(&r->regions, sizeof *new) : NULL;
    if (!new) {
        return no_memory(r->regions.count);
    }
    *new = (region){.tensor = *t, .next = *bucket, .reader = NONE, .link = NONE};
    *bucket = *found = (uint32_t)(r->regions.count - 1);
    return PTO_OK;
}

/* ---- Links ---- */

/* The region that is about to get its role overlaps one that has the other role. */
static void link_pair(void *context, const pto_map_hit *hit)
{
    ptoi_readers *r = context;
    const uint32_t other = ((const uint32_t *)r->role[r->found].regions.at)[hit->task.id - 1];
    const uint32_t a = r->found == READ ? other : r->at, t = r->found == READ ? r->at : other;
    pto_overlap_result covers = {0};
    link *new = add(&r->links, sizeof *new);
    if (!new) {
        r->status = no_memory(r->links.count);
        return;
    }
    if (a != t && pto_tensor_covers_ex(&region_at(r, t)->tensor, &region_at(r, a)->tensor,
                                       r->budget, &covers) != PTO_OK) {
        covers.yes = false;
    }
    *new = (link){a, region_at(r, t)->link, a == t || covers.yes};
    region_at(r, t)->link = (uint32_t)(r->links.count - 1);
}

/* Forgets the older half of the regions of a role. They are linked again when they are used. */
static void forget_half(ptoi_readers *r, int role)
{
    const uint32_t *ids = r->role[role].regions.at;
    const uint64_t all = r->role[role].regions.count, low = r->role[role].low;
    r->role[role].low = low + (all - low + 1) / 2;
    for (uint64_t id = low; id < r->role[role].low; id++) {
        region_at(r, ids[id])->known[role] = false;
    }
    PTO_IGNORE(pto_tensormap_sync_validity(r->role[role].map, 0, r->role[role].low + 1));
    PTO_IGNORE(pto_tensormap_cleanup_retired(r->role[role].map));
}

/* Gives a region a role, if it does not have it, and links it with all of the other role. */
static pto_status give_role(ptoi_readers *r, uint32_t at, int role)
{
    if (region_at(r, at)->known[role]) {
        return PTO_OK;
    }
    uint32_t *id = add(&r->role[role].regions, sizeof *id);
    if (!id) {
        return no_memory(r->role[role].regions.count);
    }
    *id = at;
    region_at(r, at)->known[role] = true;
    const pto_map_task task = {r->role[role].regions.count, 0};
    pto_status status;
    while ((status = pto_tensormap_insert_read(r->role[role].map, &region_at(r, at)->tensor,
                                               task)) == PTO_FULL &&
           r->role[role].low + 1 < task.id) {
        forget_half(r, role);
        region_at(r, at)->known[role] = true;
    }
    PTO_TRY(status);
    r->at = at;
    r->found = role == READ ? WRITTEN : READ;
    r->status = PTO_OK;
    PTO_TRY(
        pto_tensormap_write_deps(r->role[r->found].map, &region_at(r, at)->tensor, link_pair, r));
    return r->status;
}

/* ---- Accesses ---- */

pto_status ptoi_readers_ask(ptoi_readers *r, const pto_tensor *t, uint32_t low,
                            ptoi_reader_fn visit, void *context)
{
    uint32_t at;
    PTO_TRY(make_region(r, t, &at));
    PTO_TRY(give_role(r, at, WRITTEN));
    const uint32_t written = region_at(r, at)->written;
    for (uint32_t l = region_at(r, at)->link; l != NONE; l = ((const link *)r->links.at)[l].next) {
        const region *a = region_at(r, ((const link *)r->links.at)[l].region);
        uint32_t since = written > a->covered ? written : a->covered;
        since = since > low ? since : low;
        for (uint32_t i = a->reader; i != NONE; i = ((const reader *)r->readers.at)[i].next) {
            const uint32_t task = ((const reader *)r->readers.at)[i].task;
            if (task < since) {
                break;
            }
            PTO_TRY(visit(context, task));
        }
    }
    return PTO_OK;
}

pto_status ptoi_readers_add_write(ptoi_readers *r, const pto_tensor *t, uint32_t task)
{
    uint32_t at;
    PTO_TRY(make_region(r, t, &at));
    PTO_TRY(give_role(r, at, WRITTEN));
    region_at(r, at)->written = task + 1;
    for (uint32_t l = region_at(r, at)->link; l != NONE; l = ((const link *)r->links.at)[l].next) {
        const link *to = &((const link *)r->links.at)[l];
        if (to->covered) {
            region_at(r, to->region)->covered = task;
        }
    }
    return PTO_OK;
}

pto_status ptoi_readers_add_read(ptoi_readers *r, const pto_tensor *t, uint32_t task)
{
    uint32_t at;
    PTO_TRY(make_region(r, t, &at));
    PTO_TRY(give_role(r, at, READ));
    region *a = region_at(r, at);
    reader *new = r->readers.count < NONE ? add(&r->readers, sizeof *new) : NULL;
    if (!new) {
        return no_memory(r->readers.count);
    }
    *new = (reader){task, a->reader};
    a->reader = (uint32_t)(r->readers.count - 1);
    return PTO_OK;
}
