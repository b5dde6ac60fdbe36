/* grow.h - the map grows where the program needs it, within what was reserved at init.
 *
 *              begins with                                doubles when
 *     entries  4,096 a level, or all if there are fewer     live tasks fill the level
 *     regions  16,384, or all if there are fewer            evicted regions come back
 *
 * A small program so stays in the cache, and one that streams through memory keeps evicting: more
 * regions would only be more lines to touch. A program that works on many tiles over and over needs
 * a region for each. Its mark is that a region which was evicted for want of regions is used again
 * soon.
 *
 * Such evictions leave the hash of the region in a table, the *ghosts*. Hashes decide which regions
 * leave one: at most one in (limit / 16,384), so that the table stays small and is seldom touched.
 * A new region whose ghost is there is a *return*. When an eighth of the last evictions have
 * returned, the number of regions doubles.
 *
 * Numbers of entries and regions never change. Entry e moves from ring[e & mask] to
 * ring[e & larger mask], in the same memory. The hash tables are filled anew, in their memory. So
 * whoever asks or records reads masks and shifts as ever, and knows nothing about growth. Tables must
 * not be filled anew while somebody holds a pointer into one of them.
 */
#ifndef PTOI_GROW_H
#define PTOI_GROW_H

#include "orchestrator/map/map.h"

#define PTOI_GHOSTS 16384u
#define PTOI_FEW_REGIONS 16384u /* with up to so many that are known, a map has few buckets */

/* Sizes of tables and rings at init; regions of the map: none. */
void ptoi_grow_begin(pto_tensormap *map, const uint32_t *entries, uint32_t regions);

/* Makes the ring of a level large enough for `count` more entries. False if its limit is too small;
 * nothing has changed then. */
bool ptoi_grow_entries(pto_tensormap *map, uint32_t level, size_t count);

/* An indexed region with this hash is evicted because none was left. */
void ptoi_grow_evicted(pto_tensormap *map, uint32_t hash);

/* A region with this hash has become known. May double the number of regions, or of buckets. */
void ptoi_grow_entered(pto_tensormap *map, uint32_t hash);

#endif /* PTOI_GROW_H */
