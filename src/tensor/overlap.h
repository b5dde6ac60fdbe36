/* overlap.h - do two layouts share a byte; does one contain the other?
 *
 * Both answer about bytes of one memory: the caller has made sure that they may meet at all. The
 * answer to "overlaps" is the same with a and b exchanged, also where the budget runs out.
 */
#ifndef PTOI_OVERLAP_H
#define PTOI_OVERLAP_H

#include "layout.h"

pto_overlap_result ptoi_overlaps(const ptoi_layout *a, const ptoi_layout *b, uint64_t budget);

/* Whether a contains every byte of b. */
pto_overlap_result ptoi_covers(const ptoi_layout *a, const ptoi_layout *b, uint64_t budget);

#endif /* PTOI_OVERLAP_H */
