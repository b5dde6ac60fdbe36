/* edges.h - what is less than a square or a vector, for instruction sets without masked loads and
 * stores.
 *
 * The edges of a block go through a temporary square. PTOI_EDGES(size) defines part_size, which
 * squares.h asks for, and the squares themselves. move_few moves the last bytes of a row.
 */
#ifndef PTOI_EDGES_H
#define PTOI_EDGES_H

#include <string.h>

#include "op/rearrange/squares.h"

#define PTOI_ONE(n) (int64_t)(n) * PTOI_LINE
#define PTOI_EIGHT(n)                                                                              \
    PTOI_ONE(n), PTOI_ONE((n) + 1), PTOI_ONE((n) + 2), PTOI_ONE((n) + 3), PTOI_ONE((n) + 4),       \
        PTOI_ONE((n) + 5), PTOI_ONE((n) + 6), PTOI_ONE((n) + 7)

/* Rows of a temporary square: one line after the other. */
static const int64_t lines_apart[PTOI_LINE] = {PTOI_EIGHT(0),  PTOI_EIGHT(8),  PTOI_EIGHT(16),
                                               PTOI_EIGHT(24), PTOI_EIGHT(32), PTOI_EIGHT(40),
                                               PTOI_EIGHT(48), PTOI_EIGHT(56)};

#define PTOI_EDGES(size)                                                                           \
    PTOI_INLINE void square_##size(char *to, const int64_t *to_rows, const char *from,             \
                                   const int64_t *from_rows);                                      \
    static void part_##size(const ptoi_block *b, int64_t i, int64_t j)                             \
    {                                                                                              \
        enum { N = PTOI_LINE / (size) };                                                           \
        int64_t ni = ptoi_smaller(b->ni - i, N), nj = ptoi_smaller(b->nj - j, N);                  \
        char in[N][PTOI_LINE], out[N][PTOI_LINE];                                                  \
        memset(in, 0, sizeof in);                                                                  \
        for (int64_t k = 0; k < ni; k++) {                                                         \
            memcpy(in[k], b->from + b->from_rows[i + k] + j * (size), (size_t)(nj * (size)));      \
        }                                                                                          \
        square_##size(out[0], lines_apart, in[0], lines_apart);                                    \
        for (int64_t k = 0; k < nj; k++) {                                                         \
            memcpy(b->to + b->to_rows[j + k] + i * (size), out[k], (size_t)(ni * (size)));         \
        }                                                                                          \
    }                                                                                              \
    PTOI_SQUARES(size)

/* Less than 16 bytes: two moves that may overlap in the middle. */
static inline void move_few(char *to, const char *from, int64_t bytes)
{
    if (bytes >= 8) {
        uint64_t a, b;
        memcpy(&a, from, 8);
        memcpy(&b, from + bytes - 8, 8);
        memcpy(to, &a, 8);
        memcpy(to + bytes - 8, &b, 8);
    } else if (bytes >= 4) {
        uint32_t a, b;
        memcpy(&a, from, 4);
        memcpy(&b, from + bytes - 4, 4);
        memcpy(to, &a, 4);
        memcpy(to + bytes - 4, &b, 4);
    } else {
        for (int64_t k = 0; k < bytes; k++) {
            to[k] = from[k];
        }
    }
}

#endif /* PTOI_EDGES_H */
