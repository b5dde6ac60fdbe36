/* portable.c - moves bytes in plain C, on machines without a supported vector unit. */
#include <string.h>

#include "op/rearrange/isa.h"

static void rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                 int64_t bytes, bool stream)
{
    (void)stream;
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + i * to_step, from + i * from_step, (size_t)bytes);
    }
}

/* Moves of a fixed size become one load and one store, aligned or not. Blocks are one line by one
 * line: as much as stays in the L1 cache, wherever it lies. */
#define PORTABLE(size)                                                                             \
    static void block_##size(const ptoi_block *b)                                                  \
    {                                                                                              \
        enum { N = PTOI_LINE / (size) };                                                           \
        for (int64_t j0 = 0; j0 < b->nj; j0 += N) {                                                \
            int64_t j1 = ptoi_smaller(j0 + N, b->nj);                                              \
            for (int64_t i0 = 0; i0 < b->ni; i0 += N) {                                            \
                int64_t i1 = ptoi_smaller(i0 + N, b->ni);                                          \
                for (int64_t j = j0; j < j1; j++) {                                                \
                    char *to = b->to + b->to_rows[j];                                              \
                    const char *from = b->from + j * (size);                                       \
                    for (int64_t i = i0; i < i1; i++) {                                            \
                        memcpy(to + i * (size), from + b->from_rows[i], (size));                   \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

PORTABLE(1)
PORTABLE(2)
PORTABLE(4)
PORTABLE(8)
PORTABLE(16)

static void fence(void)
{
}

const ptoi_isa ptoi_isa_portable = {"portable",
                                    rows,
                                    {block_1, block_2, block_4, block_8, block_16},
                                    {block_1, block_2, block_4, block_8, block_16},
                                    fence,
                                    false};
