/* index.h - finds the regions that share a byte with a layout.
 *
 * Each memory has a box tree over byte ranges. Its leaves are dense regions and *groups*. A group
 * is the set of all strided regions of that memory with the same strides, with one leaf for the
 * range around them. Byte ranges alone are not enough: the column tiles of a row-major matrix all
 * have nearly the same range. So a group has a box tree of its own, over *digits*. With strides s1
 * > s2 > ... > sm, an address is written as
 *
 *     address + shift = d1*s1 + d2*s2 + ... + dm*sm + rest        (each d as large as possible)
 *
 * A tile becomes a box: rows d1 .. d1', bytes in the row rest .. rest'. Column tiles become
 * disjoint boxes. `shift` aligns digits with the start of the first member's storage, so that rows
 * of its matrix do not cross the end of a digit. Matrices that begin elsewhere in a row have groups
 * of their own. A region that does cross it gets the box of whole rows around it. So boxes may be too large, never too small. Regions whose boxes meet are compared
 * exactly (ptoi_overlaps): boxes affect speed, never answers.
 *
 * A question with any other layout is converted to the digits of each group that it meets.
 *
 * Two reads never wait for each other. So a memory has two such trees: one of regions that tasks have
 * written since they became known, and one of all others, which are only read. A read searches the
 * first, a write both, and two regions that are only read are not linked. A program may then read one
 * array through thousands of views that overlap: none of them meets another. A region moves to the
 * first tree with the first question about a write to it (ptoi_region_begin_writes), and stays there.
 */
#ifndef PTOI_INDEX_H
#define PTOI_INDEX_H

#include "orchestrator/map/region.h"

/* The memory of a key; PTOI_NONE if no region is in it. */
uint32_t ptoi_space_find(const pto_tensormap *map, const ptoi_space_key *key);

/* Adds a region, whose layout and memory are set, to the index, and removes it. */
void ptoi_index_insert(pto_tensormap *map, uint32_t region, uint64_t origin);
void ptoi_index_remove(pto_tensormap *map, uint32_t region);

/* Moves a region that was only read to the written ones. */
void ptoi_index_move_to_written(pto_tensormap *map, uint32_t region);

/* Fills the tables of memories and groups anew, after their size (index_mask) has changed. */
void ptoi_index_fill_tables(pto_tensormap *map);

/* A search through the index for all regions that share a byte with a layout:
 *
 *     ptoi_search s;
 *     ptoi_search_begin(&s, map, space, &layout, self, PTOI_ALL);
 *     while ((r = ptoi_search_next(&s)) != PTOI_NONE) ...
 *     ptoi_region_evict(map, s.idle);
 *
 * The index must not change until the search has ended. Idle regions are not reported. In the map of a runtime they
 * stay while their visits are paid for (keep.h), and with `s.idle_too` they are reported, to be linked: the question
 * before it has paid. Otherwise they are collected in `s.idle` to be evicted, or every later search would meet them for
 * nothing. */

/* Where to search, as bits. */
#define PTOI_ONLY_READ 1u
#define PTOI_WRITTEN 2u
#define PTOI_ALL 3u

typedef struct ptoi_search {
    pto_tensormap *map;
    const ptoi_layout *layout;
    uint32_t space;
    uint32_t self; /* a known region to leave out; PTOI_NONE: none */
    uint32_t left; /* trees that are still to be searched: PTOI_ONLY_READ, PTOI_WRITTEN */
    bool in_group;
    bool exact;    /* the layout fills its box in the current tree */
    bool proved;   /* the region just reported does share a byte; else the budget ran out */
    bool idle_too; /* in the map of a runtime: reports idle regions, too */
    uint32_t idle; /* list through evict_next */
    ptoi_walk outer, inner;
} ptoi_search;

void ptoi_search_begin(ptoi_search *s, pto_tensormap *map, uint32_t space,
                       const ptoi_layout *layout, uint32_t self, uint32_t trees);
uint32_t ptoi_search_next(ptoi_search *s);

/* M4 for the index, and T1 to T5 of every tree. */
pto_status ptoi_index_check(const pto_tensormap *map);

#endif /* PTOI_INDEX_H */
