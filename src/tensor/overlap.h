/* overlap.h - whether two layouts share a byte, and whether one contains the other.
 *
 * Both layouts are in the same memory; the caller has checked that. The answer to "overlaps" does
 * not depend on the order of a and b, even where the budget runs out.
 */
#ifndef PTOI_OVERLAP_H
#define PTOI_OVERLAP_H

#include "layout.h"

pto_overlap_result ptoi_overlaps(const ptoi_layout *a, const ptoi_layout *b, uint64_t budget);

/* Whether a contains every byte of b. */
pto_overlap_result ptoi_covers(const ptoi_layout *a, const ptoi_layout *b, uint64_t budget);

#endif /* PTOI_OVERLAP_H */
