/* progression.h - where arithmetic progressions meet a window, exactly and in O(log).
 *
 * All values are 64 bits wide and may be as large as that; nothing overflows inside.
 */
#ifndef PTOI_PROGRESSION_H
#define PTOI_PROGRESSION_H

#include <stdbool.h>
#include <stdint.h>

/* Is there an x in 0 .. limit with (a * x) mod m in l .. r? Wants a < m and l <= r < m.
 * `first`, if not NULL, gets the smallest such x. *steps grows by the divisions' rounds it took. */
bool ptoi_residue_hit(uint64_t a, uint64_t m, uint64_t l, uint64_t r, uint64_t limit,
                      uint64_t *first, uint64_t *steps);

/* Are there x in 0 .. u1 and y in 0 .. u2 with c1*x + c2*y in lo .. hi?
 * Wants 0 < lo <= hi, hi - lo < c2 and 0 < c1. */
bool ptoi_two_terms(uint64_t c1, uint64_t u1, uint64_t c2, uint64_t u2, uint64_t lo, uint64_t hi,
                    uint64_t *steps);

#endif /* PTOI_PROGRESSION_H */
