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

#include "orchestrator/map/loose.h"
#include "orchestrator/map/mix.h"

_Static_assert(offsetof(pto_tensor, storage_bytes) == offsetof(pto_tensor, storage) + 8 &&
                   offsetof(pto_tensor, owner) == offsetof(pto_tensor, offset) + 8 &&
                   sizeof(((pto_tensor *)0)->storage) == 8,
               "pairs of fields stand together in the tensor as in the alias");

/* The region must have an alias. */
static inline bool ptoi_is_alias(const pto_tensormap *map, const ptoi_region *r,
                                 const pto_tensor *t)
{
    const ptoi_words differ = ptoi_differ(r->alias.storage, &t->storage) |
                              ptoi_differ(r->alias.offset, &t->offset);
    return ptoi_form_is_and(ptoi_form_record(map->forms.records, r->form), t, differ) &&
           (!t->owner || r->b == t->generation);
}

static inline void ptoi_alias_set(ptoi_region *r, const pto_tensor *t, uint32_t form)
{
    r->form = form;
    memcpy(r->alias.storage, &t->storage, sizeof r->alias.storage);
    memcpy(r->alias.offset, &t->offset, sizeof r->alias.offset);
    r->packed[0] = r->packed[1] = 0;
}

/* Bucket of the table of aliases. Fields alone, and no loop over dims: what matters is that tiles
 * of one matrix, and blocks, differ. Offsets in steps, times the golden ratio, fill the buckets
 * more evenly than chance would, so they go in as they are. */
static inline uint32_t ptoi_alias_bucket(const pto_tensormap *map, const pto_tensor *t)
{
    uint64_t h = (uint64_t)(uintptr_t)t->storage + (uint64_t)t->offset;
    if (t->owner) {
        h += (t->owner + t->generation) * PTOI_MIX_2;
    }
    h ^= (uint64_t)t->shape[0] << 36 ^ (uint64_t)t->shape[1] << 48;
    return (uint32_t)((h * PTOI_MIX_1) >> map->alias_shift);
}

/* The region whose alias the tensor is, or PTOI_NONE. In two steps: the first region of the bucket,
 * and from there on the one that is it. */
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
    while (at != PTOI_NONE && !ptoi_is_alias(map, &map->regions[at], t)) {
        at = ptoi_chain_at(map->regions[at].alias_next);
    }
    return at;
}

static inline uint32_t ptoi_recall(const pto_tensormap *map, const pto_tensor *t)
{
    return ptoi_recall_end(map, t, ptoi_recall_begin(map, t));
}

/* From now on `t`, whose place it is, is the alias of the region, if its form has a number. */
void ptoi_recall_name(pto_tensormap *map, uint32_t region, const pto_tensor *t);

/* The region has no alias any more. */
void ptoi_recall_forget(pto_tensormap *map, uint32_t region);

#endif /* PTOI_RECALL_H */
