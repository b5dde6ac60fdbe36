/* links.h - links between regions that share a byte.
 *
 * When a region becomes known, the index finds the other regions that share a byte with it, and
 * each such pair is linked, unless both are only read (index.h). From then on a question about
 * either of them follows its links and searches nothing. Its cost is that of its answers.
 *
 *     region A: links ─> [A's end of A-B] ──> [A's end of A-C] ──> none
 *                             ║ pair: numbers 2p and 2p + 1
 *     region B: links ─> [B's end of A-B] ──> ...
 *
 * The number of links is bounded. If none is left for a pair, or if the budget ran out before its
 * overlap was proved, both regions are *incomplete*: they search the index each time until they are
 * evicted. Both, because neither has a link to the other.
 *
 * Invariants (M5 of map.h):
 *   - ends come in pairs: an end in A's list that names B, and one in B's list that names A
 *   - a complete region has at most one link to each region that shares a byte with it, and exactly one if one of
 *     the two is written
 */
#ifndef PTOI_LINKS_H
#define PTOI_LINKS_H

#include "orchestrator/map/region.h"

/* One end of a link. */
typedef struct ptoi_link_end {
    uint32_t region; /* the region at the other end */
    uint32_t next, prev;
    uint32_t covers; /* whether the region of this end covers the other one: ptoi_covered */
} ptoi_link_end;

typedef enum ptoi_covered { PTOI_COVERS_UNKNOWN, PTOI_COVERS_NO, PTOI_COVERS_YES } ptoi_covered;

/* `links` of a region: the number of its first link end, or PTOI_LINKS_NONE; with the INCOMPLETE
 * bit if the region is incomplete.
 */
#define PTOI_LINKS_NONE 0x7fffffffu
#define PTOI_LINKS_INCOMPLETE 0x80000000u

static inline uint32_t ptoi_links_first(const ptoi_region *r)
{
    return r->links & ~PTOI_LINKS_INCOMPLETE;
}

/* Links two regions that share a byte. */
void ptoi_links_add(pto_tensormap *map, uint32_t a, uint32_t b);

/* Two regions may share a byte, but have no link: marks both as incomplete. */
void ptoi_links_mark_incomplete(pto_tensormap *map, uint32_t a, uint32_t b);

/* Removes all links of a region, from both ends. */
void ptoi_links_clear(pto_tensormap *map, uint32_t region);

/* Whether layout a covers layout b. Counts when the budget runs out. The answer is then no; in the
 * map of a runtime, it is exact: a writer that was replaced must not poison. */
bool ptoi_map_covers(pto_tensormap *map, const ptoi_layout *a, const ptoi_layout *b);

/* The same for two regions. */
bool ptoi_region_covers(pto_tensormap *map, uint32_t a, uint32_t b);

/* Whether the region of this link end covers the other one. The answer is stored in the link. */
bool ptoi_links_covers(pto_tensormap *map, uint32_t region, ptoi_link_end *link);

/* Checks the links of one region against all other regions. */
pto_status ptoi_links_check(const pto_tensormap *map, uint32_t region);

#endif /* PTOI_LINKS_H */
