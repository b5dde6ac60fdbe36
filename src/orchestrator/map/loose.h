/* loose.h - whole managed blocks, known by their owner alone.
 *
 * A task that brings a block writes all of it, and others then mostly read all of it. As long as
 * nobody asks about the block in any other way it needs no hash of its place, and no index: its
 * region is *loose*, and stands in a table by its owner. It is settled, which means put where all
 * others are, when somebody asks about another view of the block, or when another block needs its
 * slot in the table.
 *
 *     table:  slot of (owner, generation) ──> region, with the alias of the task that brought it
 *
 * Invariant (M4 of map.h): a loose region stands in its slot, has an alias, that is all of the
 * block, and stands nowhere else; no other region of its memory is known.
 */
#ifndef PTOI_LOOSE_H
#define PTOI_LOOSE_H

#include "orchestrator/map/map.h"

/* Records of buffers are used again and again, by one generation after the other. */
static inline uint32_t ptoi_loose_slot(const pto_tensormap *map, uint64_t owner,
                                       uint64_t generation)
{
    return ((uint32_t)owner + (uint32_t)generation) & map->loose_mask;
}

/* Makes the block of the tensor known, which is all of it and of this form. Nobody has touched it
 * before. There must be a region left. */
uint32_t ptoi_loose_create(pto_tensormap *map, const pto_tensor *t, uint32_t form);

/* Somebody asks about the block, and not by the alias: if it is loose it is no longer. */
void ptoi_loose_settle(pto_tensormap *map, uint64_t owner, uint64_t generation);

#endif /* PTOI_LOOSE_H */
