/* recall.h - finding a known region by the tensor's own fields, without working out its layout.
 *
 * A region remembers the descriptor under which it was last found, its alias. A tensor with the
 * same fields is the same place, and as sound as the first one was. This is what makes a submit
 * over known tiles cheap; the first use, or the use under another view of the same bytes, takes the
 * long way (ptoi_place_of_tensor) and leaves its alias.
 */
#ifndef PTOI_RECALL_H
#define PTOI_RECALL_H

#include <string.h>

#include "map/loose.h"
#include "map/mix.h"

#define PTOI_FORM_NONE UINT64_MAX /* of a region without an alias, as at the simple door */

/* ndim and dtype in one word. */
static inline uint64_t ptoi_form(const pto_tensor *t)
{
    uint64_t form;
    memcpy(&form, &t->ndim, sizeof form);
    return form;
}

/* Two words, compared at once where the machine can. */
typedef uint64_t ptoi_words __attribute__((vector_size(16)));

static inline ptoi_words ptoi_load_words(const void *from)
{
    ptoi_words pair;
    memcpy(&pair, from, sizeof pair);
    return pair;
}

static inline ptoi_words ptoi_differ(const void *a, const void *b)
{
    return ptoi_load_words(a) ^ ptoi_load_words(b);
}

_Static_assert(offsetof(pto_tensor, dtype) == offsetof(pto_tensor, ndim) + 4 &&
                   sizeof(((pto_tensor *)0)->dtype) == 4,
               "the form of a tensor is two fields that stand together");
_Static_assert(offsetof(pto_tensor, storage_bytes) == offsetof(pto_tensor, storage) + 8 &&
                   offsetof(pto_tensor, owner) == offsetof(pto_tensor, offset) + 8 &&
                   sizeof(((pto_tensor *)0)->storage) == 8,
               "pairs of fields stand together in the tensor as in the alias");

/* Dims are compared two by two. Past an odd ndim a word too many is compared: our own functions
 * zero it, and if it differs the long way finds the region all the same. */
static inline bool ptoi_is_alias(const ptoi_region *r, const pto_tensor *t, uint64_t form)
{
    const ptoi_alias *alias = &r->alias;
    if (r->form != form) {
        return false;
    }
    ptoi_words differ = ptoi_differ(alias->storage, &t->storage) |
                        ptoi_differ(alias->offset, &t->offset) |
                        ptoi_differ(alias->dims[0].n, &t->shape[0]) |
                        ptoi_differ(alias->dims[0].s, &t->strides[0]);
    for (int32_t d = 2; d < t->ndim; d += 2) {
        differ |= ptoi_differ(alias->dims[d / 2].n, &t->shape[d]) |
                  ptoi_differ(alias->dims[d / 2].s, &t->strides[d]);
    }
    return !(differ[0] | differ[1]) && (!t->owner || r->b == t->generation);
}

/* Dims past ndim are not compared, but for the second of a pair. */
static inline void ptoi_alias_set(ptoi_region *r, const pto_tensor *t)
{
    ptoi_alias *alias = &r->alias;
    r->form = ptoi_form(t);
    memcpy(alias->storage, &t->storage, sizeof alias->storage);
    memcpy(alias->offset, &t->offset, sizeof alias->offset);
    int32_t d = 0;
    do {
        memcpy(alias->dims[d / 2].n, &t->shape[d], sizeof alias->dims[0].n);
        memcpy(alias->dims[d / 2].s, &t->strides[d], sizeof alias->dims[0].s);
        d += 2;
    } while (d < t->ndim);
}

/* Bucket of the table of aliases. Fields alone, and no loop over dims: what matters is that tiles
 * of one matrix, and blocks, differ. Offsets in steps, times the golden ratio, fill the buckets
 * more evenly than chance would, so they go in as they are. */
static inline uint32_t ptoi_alias_bucket(const pto_tensormap *map, const pto_tensor *t)
{
    uint64_t h = (uint64_t)(uintptr_t)t->storage + (uint64_t)t->offset +
                 (t->owner + t->generation) * PTOI_MIX_2;
    h ^= (uint64_t)t->shape[0] << 36 ^ (uint64_t)t->shape[1] << 48;
    return (uint32_t)((h * PTOI_MIX_1) >> (map->bucket_shift + 32));
}

/* Finding the region whose alias the tensor is, in two steps: the first region of the bucket, and
 * from there on the one that is it, or PTOI_NONE. */
static inline uint32_t ptoi_recall_begin(const pto_tensormap *map, const pto_tensor *t)
{
    if (t->owner) {
        uint32_t loose = ptoi_chain_at(map->loose[ptoi_loose_slot(map, t->owner, t->generation)]);
        if (loose != PTOI_NONE) { /* if it is another block's, the long way is taken */
            return loose;
        }
    }
    return ptoi_chain_at(map->aliases[ptoi_alias_bucket(map, t)]);
}

static inline uint32_t ptoi_recall_end(const pto_tensormap *map, const pto_tensor *t, uint32_t at)
{
    uint64_t form = ptoi_form(t);
    while (at != PTOI_NONE && !ptoi_is_alias(&map->regions[at], t, form)) {
        at = ptoi_chain_at(map->regions[at].alias_next);
    }
    return at;
}

static inline uint32_t ptoi_recall(const pto_tensormap *map, const pto_tensor *t)
{
    return ptoi_recall_end(map, t, ptoi_recall_begin(map, t));
}

/* From now on `t` is the alias of the region, whose place it is. */
void ptoi_recall_name(pto_tensormap *map, uint32_t region, const pto_tensor *t);

/* The region has no alias any more. */
void ptoi_recall_forget(pto_tensormap *map, uint32_t region);

#endif /* PTOI_RECALL_H */
