/* unindexed.h - whole managed blocks, found by their owner alone.
 *
 * The first task that uses a block mostly writes all of it, and later tasks mostly read all of it.
 * As long as no question is about another view of the block, its region needs no hash and no place
 * in the index. It is *unindexed*, and in a table by its owner. It enters hash and index when a
 * question is about another view of the block, or when another block needs its slot in the table.
 *
 *     table:  slot of (owner, generation) ──> region; its cached descriptor is all of the block
 *
 * Invariant (M4 of map.h): an unindexed region is in its slot and nowhere else. Its cached
 * descriptor describes all of the block. No other region of its memory is known.
 */
#ifndef PTOI_UNINDEXED_H
#define PTOI_UNINDEXED_H

#include "orchestrator/map/region.h"

/* A buffer record is reused by one generation after the other, so both choose the slot. */
static inline uint32_t ptoi_unindexed_slot(const pto_tensormap *map, uint64_t owner,
                                           uint64_t generation)
{
    return ((uint32_t)owner + (uint32_t)generation) & map->unindexed_mask;
}

/* Creates the region of a whole block that no task has touched before. The tensor is all of the
 * block, with this layout descriptor. A region must be left. */
uint32_t ptoi_unindexed_create(pto_tensormap *map, const pto_tensor *t, uint32_t desc);

/* For a question that the cached descriptor does not answer: indexes the block if it is
 * unindexed. */
void ptoi_unindexed_to_index(pto_tensormap *map, uint64_t owner, uint64_t generation);

#endif /* PTOI_UNINDEXED_H */
