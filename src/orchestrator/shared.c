#define _GNU_SOURCE /* MADV_REMOVE */
#include "orchestrator/shared.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <pto/process.h>

#include "base/error.h"

#define ALIGN UINT64_C(64)

/* A range of the memory: [at, at + bytes). `at` counts from the base. */
typedef struct range {
    uint64_t at, bytes;
} range;

/* Ranges in order of their place. */
typedef struct ranges {
    range *list;
    size_t n, room;
} ranges;

struct ptoi_shared {
    char *base;     /* in the window; NULL: each piece is a mapping of its own */
    uint64_t bytes; /* that can be given out */
    uint64_t taken;
    ranges free; /* no two of them touch; none without a base */
    ranges used;
};

/* ---- Ranges ---- */

static bool make_room(ranges *r)
{
    if (r->n == r->room) {
        const size_t room = r->room ? 2 * r->room : 16;
        range *more = realloc(r->list, room * sizeof *more);
        if (!more) {
            return false;
        }
        r->list = more;
        r->room = room;
    }
    return true;
}

/* The first range at `at` or behind it. */
static size_t find(const ranges *r, uint64_t at)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (r->list[middle].at < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void insert(ranges *r, size_t i, range what)
{
    memmove(&r->list[i + 1], &r->list[i], (r->n - i) * sizeof *r->list);
    r->list[i] = what;
    r->n++;
}

static void erase(ranges *r, size_t i)
{
    r->n--;
    memmove(&r->list[i], &r->list[i + 1], (r->n - i) * sizeof *r->list);
}

/* Adds a free range, and joins it with those that it touches. */
static void add_free(ranges *r, range what)
{
    size_t i = find(r, what.at);
    if (i < r->n && what.at + what.bytes == r->list[i].at) {
        what.bytes += r->list[i].bytes;
        erase(r, i);
    }
    if (i > 0 && r->list[i - 1].at + r->list[i - 1].bytes == what.at) {
        r->list[i - 1].bytes += what.bytes;
    } else {
        insert(r, i, what);
    }
}

/* ---- Life ---- */

static pto_status create(pto_runtime *rt)
{
    struct ptoi_shared *s = calloc(1, sizeof *s);
    if (!s || !make_room(&s->free)) {
        free(s);
        return ptoi_fail(PTO_OUT_OF_MEMORY, "shared alloc: no memory to list it");
    }
    s->bytes = rt->settings.config.shared_bytes;
    if (rt->processes) {
        s->base = rt->view.base[PTOI_SEGMENT_SHARED];
        s->free.list[s->free.n++] = (range){0, s->bytes};
    }
    rt->shared = s;
    return PTO_OK;
}

void ptoi_shared_destroy(pto_runtime *rt)
{
    struct ptoi_shared *s = rt->shared;
    if (!s) {
        return;
    }
    for (size_t i = 0; !s->base && i < s->used.n; i++) {
        ptoi_os_release((void *)(uintptr_t)s->used.list[i].at, s->used.list[i].bytes);
    }
    free(s->free.list);
    free(s->used.list);
    free(s);
    rt->shared = NULL;
}

/* ---- Alloc and free ---- */

static pto_status no_room(const struct ptoi_shared *s, uint64_t bytes)
{
    return ptoi_fail(PTO_OUT_OF_MEMORY,
                     "shared alloc: %" PRIu64 " bytes, but %" PRIu64 " of %" PRIu64 " are free%s: "
                     "raise shared_bytes (PTO_SHARED)",
                     bytes, s->bytes - s->taken, s->bytes,
                     s->free.n > 1 ? ", in several pieces" : "");
}

/* A mapping of its own. */
static pto_status take_mapping(struct ptoi_shared *s, uint64_t bytes, uint64_t wanted,
                               void **memory)
{
    void *made = wanted > s->bytes - s->taken ? NULL : ptoi_os_reserve(wanted);
    if (!made) {
        return no_room(s, bytes);
    }
    const range taken = {(uintptr_t)made, wanted};
    insert(&s->used, find(&s->used, taken.at), taken);
    s->taken += wanted;
    *memory = made;
    return PTO_OK;
}

static pto_status take(struct ptoi_shared *s, uint64_t bytes, void **memory)
{
    const uint64_t most = s->bytes - s->bytes % ALIGN;
    const uint64_t wanted = bytes > most ? UINT64_MAX : (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!make_room(&s->used) || !make_room(&s->free)) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "shared alloc: no memory to list it");
    }
    if (!s->base) {
        return take_mapping(s, bytes, wanted, memory);
    }
    for (size_t i = 0; i < s->free.n; i++) {
        range *f = &s->free.list[i];
        if (f->bytes >= wanted) {
            const range taken = {f->at, wanted};
            f->at += wanted;
            f->bytes -= wanted;
            if (!f->bytes) {
                erase(&s->free, i);
            }
            insert(&s->used, find(&s->used, taken.at), taken);
            s->taken += wanted;
            *memory = s->base + taken.at;
            return PTO_OK;
        }
    }
    return no_room(s, bytes);
}

/* Gives whole pages back to the system, so that they are zero when they are used again. The rest is
 * cleared. */
static void clear(const struct ptoi_shared *s, range r)
{
    const uint64_t begin = (r.at + PTOI_PAGE - 1) / PTOI_PAGE * PTOI_PAGE;
    const uint64_t end = (r.at + r.bytes) / PTOI_PAGE * PTOI_PAGE;
    if (begin >= end || madvise(s->base + begin, end - begin, MADV_REMOVE) != 0) {
        memset(s->base + r.at, 0, r.bytes);
        return;
    }
    memset(s->base + r.at, 0, begin - r.at);
    memset(s->base + end, 0, r.at + r.bytes - end);
}

/* False: it was not given out here. */
static bool give_back(struct ptoi_shared *s, const void *memory)
{
    const uint64_t at = (uint64_t)((uintptr_t)memory - (uintptr_t)s->base);
    const size_t i = find(&s->used, at);
    if (i == s->used.n || s->used.list[i].at != at) {
        return false;
    }
    const range r = s->used.list[i];
    if (s->base && !make_room(&s->free)) {
        return true; /* it stays taken until the runtime ends */
    }
    erase(&s->used, i);
    s->taken -= r.bytes;
    if (!s->base) {
        ptoi_os_release((void *)(uintptr_t)r.at, r.bytes);
        return true;
    }
    clear(s, r);
    add_free(&s->free, r);
    return true;
}

pto_status pto_shared_alloc(pto_runtime *rt, uint64_t bytes, void **memory)
{
    PTO_TRY(ptoi_runtime_enter(rt, "shared alloc"));
    if (!memory) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "shared alloc: the place for the address is NULL");
    }
    if (!rt->shared) {
        PTO_TRY(create(rt));
    }
    return take(rt->shared, bytes ? bytes : 1, memory);
}

pto_status pto_shared_free(pto_runtime *rt, void *memory)
{
    PTO_TRY(ptoi_runtime_enter(rt, "shared free"));
    if (memory && (!rt->shared || !give_back(rt->shared, memory))) {
        return ptoi_fail(PTO_BAD_MEMORY,
                         "shared free: %p was not returned by pto_shared_alloc of this runtime, or "
                         "was freed already",
                         memory);
    }
    return PTO_OK;
}

pto_status ptoi_shared_device_alloc(void *self, uint64_t bytes, void **memory)
{
    pto_runtime *rt = self;
    if (!rt->shared) {
        PTO_TRY(create(rt));
    }
    return take(rt->shared, bytes, memory);
}

void ptoi_shared_device_free(void *self, void *memory, uint64_t bytes)
{
    const pto_runtime *rt = self;
    (void)bytes;
    (void)give_back(rt->shared, memory);
}

/* ---- Checks ---- */

pto_status ptoi_shared_check_bytes(const pto_runtime *rt, const char *who, const void *memory,
                                   uint64_t bytes)
{
    const uint64_t all = rt->view.header->shared_bytes;
    const uint64_t at = (uint64_t)((uintptr_t)memory - rt->user_base);
    if (at < all && bytes <= all - at) {
        return PTO_OK;
    }
    return ptoi_fail(PTO_BAD_MEMORY,
                     "%s: worker processes cannot reach the memory at %p, %" PRIu64
                     " byte%s: get it "
                     "with pto_shared_alloc, use managed tensors (pto_temp), or copy it with "
                     "pto_execute",
                     who, memory, bytes, bytes == 1 ? "" : "s");
}

pto_status ptoi_shared_check(const pto_runtime *rt, const char *who, const pto_tensor *t)
{
    uint64_t low, end;
    PTO_TRY(pto_tensor_check(t));
    PTO_TRY(pto_tensor_byte_range(t, &low, &end));
    return low < end ? ptoi_shared_check_bytes(rt, who, (const char *)t->storage + low, end - low)
                     : PTO_OK;
}
