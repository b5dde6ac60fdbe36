/* near.h - which known regions share a byte with which: links, made once and used by every
 * question.
 *
 * When a region becomes known, the index finds the others that share a byte with it, and each such
 * pair is linked. From then on a question about either follows its links and searches nothing: the
 * cost is that of the answers.
 *
 *     region A: near ──> [A's end of A-B] ──> [A's end of A-C] ──> none
 *                             ║ pair: numbers 2p and 2p + 1
 *     region B: near ──> [B's end of A-B] ──> ...
 *
 * Links are bounded as all else here. A pair that finds none left, or whose overlap the budget did
 * not let prove, leaves both regions *incomplete*: they ask the index each time, until they are
 * taken out. (Why not only one: the other would not know of it.)
 *
 * Invariants (M5 of map.h):
 *   - ends come in pairs: one in the list of A that names B with one in that of B that names A
 *   - a region that is complete is linked with every other that shares a byte with it, once
 */
#ifndef PTOI_NEAR_H
#define PTOI_NEAR_H

#include "orchestrator/map/map.h"

/* One end of a link. */
typedef struct ptoi_link {
    uint32_t region; /* the region at the other end */
    uint32_t next, prev;
    uint32_t covers; /* does the region of this end cover the other? ptoi_covered */
} ptoi_link;

typedef enum ptoi_covered { PTOI_COVERS_UNKNOWN, PTOI_COVERS_NO, PTOI_COVERS_YES } ptoi_covered;

/* `near` of a region: the number of its first link, or PTOI_NEAR_NONE; with the bit if incomplete.
 */
#define PTOI_NEAR_NONE 0x7fffffffu
#define PTOI_INCOMPLETE 0x80000000u

static inline uint32_t ptoi_near_first(const ptoi_region *r)
{
    return r->near & ~PTOI_INCOMPLETE;
}

/* Links two regions that share a byte. */
void ptoi_near_link(pto_tensormap *map, uint32_t a, uint32_t b);

/* Two regions may share a byte, which is not proved. */
void ptoi_near_suspect(pto_tensormap *map, uint32_t a, uint32_t b);

/* Takes a region out of the lists of all others. */
void ptoi_near_unlink(pto_tensormap *map, uint32_t region);

/* Whether region a covers region b; counts where the budget ran out. */
bool ptoi_region_covers(pto_tensormap *map, uint32_t a, uint32_t b);

/* Whether the region at this end of a link covers the one at the other: found out once. */
bool ptoi_near_covers(pto_tensormap *map, uint32_t region, ptoi_link *link);

/* Checks the links of one region against all others. */
pto_status ptoi_near_check(const pto_tensormap *map, uint32_t region);

#endif /* PTOI_NEAR_H */
