/* exact.h - overlap and cover without a budget, at worst by enumerating bytes.
 *
 * A search may need far more steps than there are bytes (search.h). So it may take only a part of
 * the steps that an enumeration takes. If it has not decided by then, the bytes of one layout are
 * marked in a bitmap, and those of the other are looked up there. For small views that is faster
 * than a long search: 5 us for views of some hundred elements.
 */
#ifndef PTOI_EXACT_H
#define PTOI_EXACT_H

#include "layout.h"

/* Whether the layouts share a byte; whether a contains every byte of b. Both are in the same
 * memory. */
bool ptoi_overlaps_exactly(const ptoi_layout *a, const ptoi_layout *b);
bool ptoi_covers_exactly(const ptoi_layout *a, const ptoi_layout *b);

/* The same by enumeration alone. False if there is no memory for the bitmap. */
bool ptoi_enumerate_overlaps(const ptoi_layout *a, const ptoi_layout *b, bool *yes);
bool ptoi_enumerate_covers(const ptoi_layout *a, const ptoi_layout *b, bool *yes);

#endif /* PTOI_EXACT_H */
