/* index.h - which other regions share a byte with this one?
 *
 * Each memory has a box tree over byte ranges. Its leaves are the dense regions, and the *groups*:
 * all strided regions of that memory with the same strides, one leaf for the range around them.
 * Byte ranges alone would not do: the column tiles of a row-major matrix all have nearly the same
 * range. So a group has a box tree of its own, over *digits*: with strides s1 > s2 > ... > sm an
 * address is written as
 *
 *     address + shift = d1*s1 + d2*s2 + ... + dm*sm + rest        (each d as large as it can be)
 *
 * and a tile becomes a box: rows d1 .. d1', bytes in the row rest .. rest'. Column tiles become
 * disjoint boxes. `shift` puts digit boundaries where the storage of the first member begins, so
 * that rows of its matrix do not run over the end of a digit. A region that does run over one gets
 * the box of whole rows around it: boxes may be too large, never too small. Whatever the boxes let
 * through is compared exactly (ptoi_overlaps), so boxes decide about speed, never about answers.
 *
 * A question of any other layout is put into the digits of each group it meets in the same way.
 */
#ifndef PTOI_INDEX_H
#define PTOI_INDEX_H

#include "orchestrator/map/map.h"

/* Finds the memory of a key: PTOI_NONE if nothing is known in it. */
uint32_t ptoi_space_find(const pto_tensormap *map, const ptoi_space_key *key);

/* Puts a region (layout and memory are set) into the index, and takes it out. */
void ptoi_index_insert(pto_tensormap *map, uint32_t region, uint64_t origin);
void ptoi_index_remove(pto_tensormap *map, uint32_t region);

/* A search through the index for all regions that share a byte with a layout:
 *
 *     ptoi_search s;
 *     ptoi_search_begin(&s, map, space, &layout, self);
 *     while ((r = ptoi_search_next(&s)) != PTOI_NONE) ...
 *     ptoi_region_evict(map, s.idle);
 *
 * The index must not change until the search has come to its end. Idle regions are not reported but
 * gathered in `s.idle`, to be evicted: they would be met again and again for nothing. */
typedef struct ptoi_search {
    pto_tensormap *map;
    const ptoi_layout *layout;
    uint32_t self; /* the region asked about, not reported; PTOI_NONE if it is not known */
    bool in_group;
    bool exact;    /* the layout is all of its box in the tree being walked */
    bool proved;   /* that the region just reported shares a byte; else the budget ran out */
    uint32_t idle; /* list through evict_next */
    ptoi_walk outer, inner;
} ptoi_search;

void ptoi_search_begin(ptoi_search *s, pto_tensormap *map, uint32_t space,
                       const ptoi_layout *layout, uint32_t self);
uint32_t ptoi_search_next(ptoi_search *s);

/* Invariants M4 (the index part) and T1 - T4 of every tree. */
pto_status ptoi_index_check(const pto_tensormap *map);

#endif /* PTOI_INDEX_H */
