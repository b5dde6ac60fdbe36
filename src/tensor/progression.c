/* progression.c - the first hit of a progression in a window of residues, by Euclid's algorithm. */
#include "progression.h"

#include <stddef.h>

typedef unsigned __int128 wide;

/* One round of the descent: leads from the y of the smaller question back to x. */
typedef struct frame {
    uint64_t a, m, l;
} frame;

/* Each round asks the same question about smaller numbers. The answer itself needs no way back:
 *   - The window contains 0: x = 0.
 *   - a > m/2: a step up by a is a step down by m - a. Mirror the window. Now a <= m/2, so m is at
 *     most half as large in the next round: at most 64 rounds.
 *   - Before the first wrap the values are 0, a, 2a, ... The first one at or past l is c*a. In the
 *     window: x = c, and no x below c hits, since those values lie below l without a wrap.
 *   - Otherwise the window lies between two multiples of a and is shorter than a. A hit
 *     after y wraps is an x with  l <= a*x - m*y <= r,  that is  (m*y) mod a  in  (-r) mod a .. (-l) mod a:
 *     the same question for y, modulo a. For each such y there is exactly one x, ceil((l + m*y) / a),
 *     which grows with y; and x <= limit  <=>  l + m*y <= a*limit  <=>  y <= (a*limit - l) / m.
 */
bool ptoi_residue_hit(uint64_t a, uint64_t m, uint64_t l, uint64_t r, uint64_t limit,
                      uint64_t *first, uint64_t *steps)
{
    frame way[64];
    uint32_t depth = 0;
    uint64_t x = 0;
    while (l > 0) {
        ++*steps;
        if (a == 0) {
            return false;
        }
        if (a > m - a) {
            uint64_t mirrored = m - r;
            r = m - l;
            l = mirrored;
            a = m - a;
        }
        uint64_t below = (l - 1) / a;            /* c - 1 */
        uint64_t short_of = a - 1 - (l - 1) % a; /* c*a - l */
        if (below >= limit) {
            return false;
        }
        if (short_of <= r - l) {
            x = below + 1;
            break;
        }
        uint64_t reach, wraps;
        if (!__builtin_mul_overflow(a, limit, &reach)) {
            if (reach - l < m) {
                return false; /* it never wraps */
            }
            wraps = (reach - l) / m;
        } else {
            wraps = (uint64_t)(((wide)a * limit - l) / m);
        }
        if (first) {
            way[depth++] = (frame){a, m, l};
        }
        l = short_of - (r - l);
        r = short_of;
        uint64_t rest = m % a;
        m = a;
        a = rest;
        limit = wraps;
    }
    if (first) {
        while (depth > 0) {
            const frame *f = &way[--depth];
            x = (uint64_t)(((wide)f->m * x + f->l + f->a - 1) / f->a);
        }
        *first = x;
    }
    return true;
}
