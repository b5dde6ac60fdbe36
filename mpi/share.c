/* share.c - which pieces of one rank are in the cache of another (M5). Both ranks make the same
 * calls with the same arguments, so they get the same answers. Nothing here depends on time.
 *
 *     0        head                     bytes
 *     | newest | oldest ...        | gap |         a new piece goes to head and drops what is there
 *
 * A queue, not a list by last use: its places are computed without moving anything, and pieces of old
 * versions leave by themselves.
 */
#include "world.h"

#define NONE UINT32_MAX

pto_status share_init(share *s, uint64_t bytes)
{
    *s = (share){.bytes = bytes, .capacity = 16};
    s->entries = malloc(s->capacity * sizeof *s->entries);
    s->buckets = malloc(s->capacity * sizeof *s->buckets);
    if (!s->entries || !s->buckets) {
        share_free(s);
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: table of a share");
    }
    memset(s->buckets, 0xff, s->capacity * sizeof *s->buckets);
    return PTO_OK;
}

void share_free(share *s)
{
    free(s->entries);
    free(s->buckets);
    *s = (share){0};
}

void share_clear(share *s)
{
    s->first = s->end = s->head = 0;
    memset(s->buckets, 0xff, s->capacity * sizeof *s->buckets);
}

static share_entry *entry_at(const share *s, uint64_t number)
{
    return &s->entries[number & (s->capacity - 1)];
}

static uint64_t hash_piece(const piece *p, uint64_t version)
{
    uint64_t h = hash_mix(hash_mix(p->o->id, (uint64_t)p->tile), version);
    h = hash_mix(h, (uint64_t)p->offset);
    for (int32_t d = 0; d < p->ndim; d++) {
        h = hash_mix(h, (uint64_t)p->shape[d]);
    }
    return h;
}

static void link_entry(share *s, uint64_t number)
{
    share_entry *e = entry_at(s, number);
    uint32_t *bucket = &s->buckets[e->hash & (s->capacity - 1)];
    e->next = *bucket;
    *bucket = (uint32_t)(number & (s->capacity - 1));
}

static void drop_oldest(share *s)
{
    const uint32_t index = (uint32_t)(s->first & (s->capacity - 1));
    uint32_t *i = &s->buckets[s->entries[index].hash & (s->capacity - 1)];
    while (*i != index) {
        i = &s->entries[*i].next;
    }
    *i = s->entries[index].next;
    s->first++;
}

static bool grow(share *s)
{
    share old = *s;
    if (s->end - s->first < s->capacity) {
        return true;
    }
    s->capacity *= 2;
    s->entries = malloc(s->capacity * sizeof *s->entries);
    s->buckets = malloc(s->capacity * sizeof *s->buckets);
    if (!s->entries || !s->buckets) {
        free(s->entries);
        free(s->buckets);
        *s = old;
        return false;
    }
    memset(s->buckets, 0xff, s->capacity * sizeof *s->buckets);
    for (uint64_t i = s->first; i != s->end; i++) {
        *entry_at(s, i) = *entry_at(&old, i);
        link_entry(s, i);
    }
    free(old.entries);
    free(old.buckets);
    return true;
}

static bool is_same(const share_entry *e, const piece *p, uint64_t version)
{
    return e->object == p->o->id && e->tile == p->tile && e->version == version &&
           e->offset == p->offset && e->ndim == p->ndim &&
           !memcmp(e->shape, p->shape, (size_t)p->ndim * sizeof *p->shape) &&
           !memcmp(e->strides, p->strides, (size_t)p->ndim * sizeof *p->strides);
}

static share_entry *find(const share *s, const piece *p, uint64_t version, uint64_t hash)
{
    for (uint32_t i = s->buckets[hash & (s->capacity - 1)]; i != NONE; i = s->entries[i].next) {
        if (s->entries[i].hash == hash && is_same(&s->entries[i], p, version)) {
            return &s->entries[i];
        }
    }
    return NULL;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + MPI_ALIGN - 1) / MPI_ALIGN * MPI_ALIGN;
}

static void leave(share_left *left, const share_entry *e)
{
    left->low = left->low == left->high || e->at < left->low ? e->at : left->low;
    left->high = e->at + e->bytes > left->high ? e->at + e->bytes : left->high;
}

/* Drops the oldest pieces until bytes [at, at + size) are free. False if one of them is used by this
 * step. */
static bool make_room(share *s, uint64_t at, uint64_t bytes, uint64_t step, share_find *f,
                      uint64_t *dropped)
{
    while (s->first != s->end) {
        const share_entry *e = entry_at(s, s->first);
        if (e->at + padded(e->bytes) <= at || e->at >= at + padded(bytes)) {
            break;
        }
        if (e->step == step) {
            return false;
        }
        if (e->at < at || e->at + e->bytes > at + bytes) {
            leave(&f->here, e);
        }
        drop_oldest(s);
        ++*dropped;
    }
    return true;
}

/* Makes room for one piece, at the head or at the beginning. */
static bool place(share *s, const piece *p, uint64_t step, share_find *f, uint64_t *dropped)
{
    const uint64_t bytes = piece_bytes(p), version = p->o->version[p->tile];
    if (s->head + padded(bytes) > s->bytes) {
        /* The pieces behind the head are the oldest: they go, so that places stay in order. */
        while (s->first != s->end && entry_at(s, s->first)->at >= s->head) {
            if (entry_at(s, s->first)->step == step) {
                return false;
            }
            leave(&f->behind, entry_at(s, s->first));
            drop_oldest(s);
            ++*dropped;
        }
        s->head = 0;
    }
    if (!make_room(s, s->head, bytes, step, f, dropped) || !grow(s)) {
        return false;
    }
    f->at = s->head;
    share_entry *e = entry_at(s, s->end);
    *e = (share_entry){.object = p->o->id,
                       .tile = p->tile,
                       .offset = p->offset,
                       .version = version,
                       .bytes = bytes,
                       .at = s->head,
                       .step = step,
                       .hash = hash_piece(p, version),
                       .ndim = p->ndim};
    memcpy(e->shape, p->shape, (size_t)p->ndim * sizeof *p->shape);
    memcpy(e->strides, p->strides, (size_t)p->ndim * sizeof *p->strides);
    link_entry(s, s->end++);
    s->head += padded(bytes);
    s->peak = s->head > s->peak ? s->head : s->peak;
    return true;
}

static bool take_all(share *s, const piece *const *pieces, uint32_t n, uint64_t step,
                     share_find *found, uint64_t *dropped)
{
    for (uint32_t i = 0; i < n; i++) {
        const piece *p = pieces[i];
        const uint64_t version = p->o->version[p->tile];
        share_entry *e = find(s, p, version, hash_piece(p, version));
        found[i] = (share_find){.hit = e != NULL};
        if (e) {
            found[i].at = e->at;
            e->step = step;
        } else if (!place(s, p, step, &found[i], dropped)) {
            return false;
        }
    }
    return true;
}

/* Whether the different pieces fit into an empty share. */
static bool fits(const share *s, const piece *const *pieces, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += padded(piece_bytes(pieces[i]));
    }
    return sum <= s->bytes;
}

bool share_take(share *s, const piece *const *pieces, uint32_t n, uint64_t step, share_find *found,
                uint64_t *dropped)
{
    if (!fits(s, pieces, n)) {
        return false;
    }
    if (take_all(s, pieces, n, step, found, dropped)) {
        return true;
    }
    /* The pieces that are there keep the others from being placed: all are sent again. What they
     * leave is healed at once: everything up to the end of the share may have been written. */
    *dropped += s->end - s->first;
    share_clear(s);
    if (!take_all(s, pieces, n, step, found, dropped)) {
        return false;
    }
    found[0].here = (share_left){0, s->bytes};
    return true;
}
