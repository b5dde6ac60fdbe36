/* squares.h - transposes blocks in vector registers, for any instruction set.
 *
 * A square is a cache line of the source, N elements, by a cache line of the destination, N more.
 * So every line of both sides is touched once, and as a whole.
 *
 *          source                            destination
 *          j 0 .. N-1    next square         i 0 .. N-1
 *   row 0  [ line ]      [ line ] ...        [ line ]      [ line ] ...  row 0
 *       1  [ line ]                          [ line ]                        1
 *       .                                                                    .
 *     N-1  [ line ]                          [ line ]                      N-1
 *
 * A line has four lanes of 16 bytes, a lane has K elements. A square is transposed in two steps:
 *   1. inside the lanes: for each K rows of the source, K x K elements are transposed
 *   2. between the lanes: for four such groups, 4 x 4 lanes are transposed
 *
 * Why step 1 works: number the bits of (row, element of a lane) from the top. Interleaving row p
 * with row p + K/2 moves each bit up by one: the top bit of the row becomes the lowest bit of the
 * element, and the top bit of the element the lowest bit of the row. After log2(K) such steps the
 * two have changed places.
 *
 * Streams cross a page at every row, on both sides, and a TLB miss costs more than the line. So
 * they take WIDE lines of each row of the source at a time, keep them in the L1 cache after step 1,
 * and in step 2 write several lines of each row of the destination one after the other. The next
 * lines of the same rows are prefetched while their pages are in the TLB.
 *
 * The file that includes this defines
 *   vec                       a vector of LANES lanes; PARTS of them are a line
 *   vec_load(from), vec_store(to, v), vec_stream(to, v)
 *   LOW_size(a, b), HIGH_size(a, b)   interleave the lower, the upper halves of each lane
 *   turn_lanes(group, out)    out[l] = the line of lane l of each of the 4 vectors group[]
 *   part_size(block, i, j)    moves the rest of the block from (i, j) on, less than a square; edges.h
 *                             has one for sets without masks
 */
#ifndef PTOI_SQUARES_H
#define PTOI_SQUARES_H

#include "op/rearrange/isa.h"

#define PTOI_INLINE static inline __attribute__((always_inline))
#define PTOI_UNROLL(text) _Pragma(#text)

/* What to prefetch while squares are transposed: AHEAD lines of each row at a time, so that memory
 * is read in long pieces, and a share of the rows at each step. */
enum { AHEAD = 8 };

typedef struct ahead {
    const char *from;
    const int64_t *row, *end;
    int64_t line, lines; /* of a row */
    int64_t each;        /* lines at a time */
} ahead;

/* At column j of a block that is processed in `columns` at a time, with `times` steps each. */
PTOI_INLINE ahead ahead_of(const ptoi_block *b, int64_t j, int64_t columns, int64_t size,
                           int64_t times)
{
    int64_t stops = (int64_t)AHEAD * PTOI_LINE / (columns * size), stop = j / columns;
    int64_t first = stop - stop % stops, begin = (first + stops) * columns;
    ahead a = {b->from + begin * size, b->from_rows, NULL, 0, 0, 0};
    int64_t rows = b->ni, bytes = (b->nj - begin) * size;
    if (bytes <= 0) {
        stops = ptoi_smaller(stops, b->nj / columns - first);
        a.from = b->next;
        a.row = b->next_rows;
        rows = b->next ? b->next_ni : 0;
        bytes = b->nj * size;
    }
    stop %= (int64_t)AHEAD * PTOI_LINE / (columns * size);
    a.lines = (ptoi_smaller(bytes, (int64_t)AHEAD * PTOI_LINE) + PTOI_LINE - 1) / PTOI_LINE;
    a.end = a.row + (stop < stops ? rows * (stop + 1) / stops : 0);
    a.row += stop < stops ? rows * stop / stops : 0;
    a.each = ((a.end - a.row) * a.lines + times - 1) / times;
    return a;
}

PTOI_INLINE void fetch(ahead *a)
{
    for (int64_t k = 0; k < a->each && a->row < a->end; k++) {
        __builtin_prefetch(a->from + *a->row + a->line * PTOI_LINE, 0, 2);
        if (++a->line == a->lines) {
            a->line = 0;
            a->row++;
        }
    }
}

#define PTOI_SQUARES(size)                                                                         \
    enum { K_##size = 16 / (size), N_##size = PTOI_LINE / (size) };                                \
                                                                                                   \
    PTOI_INLINE void turn_##size(vec *row)                                                         \
    {                                                                                              \
        PTOI_UNROLL(GCC unroll 4)                                                                  \
        for (int64_t step = 1; step < K_##size; step *= 2) {                                       \
            vec next[K_##size];                                                                    \
            PTOI_UNROLL(GCC unroll 8)                                                              \
            for (int64_t p = 0; p < K_##size / 2; p++) {                                           \
                next[2 * p] = LOW_##size(row[p], row[p + K_##size / 2]);                           \
                next[2 * p + 1] = HIGH_##size(row[p], row[p + K_##size / 2]);                      \
            }                                                                                      \
            PTOI_UNROLL(GCC unroll 16)                                                             \
            for (int64_t k = 0; k < K_##size; k++) {                                               \
                row[k] = next[k];                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    PTOI_INLINE void square_##size(char *to, const int64_t *to_rows, const char *from,             \
                                   const int64_t *from_rows)                                       \
    {                                                                                              \
        PTOI_UNROLL(GCC unroll 4)                                                                  \
        for (int64_t part = 0; part < PARTS; part++) {                                             \
            vec group[4][K_##size];                                                                \
            PTOI_UNROLL(GCC unroll 4)                                                              \
            for (int64_t g = 0; g < 4; g++) {                                                      \
                PTOI_UNROLL(GCC unroll 16)                                                         \
                for (int64_t k = 0; k < K_##size; k++) {                                           \
                    group[g][k] = vec_load(from + from_rows[g * K_##size + k] +                    \
                                           part * (int64_t)sizeof(vec));                           \
                }                                                                                  \
                turn_##size(group[g]);                                                             \
            }                                                                                      \
            PTOI_UNROLL(GCC unroll 16)                                                             \
            for (int64_t k = 0; k < K_##size; k++) {                                               \
                vec lanes[4] = {group[0][k], group[1][k], group[2][k], group[3][k]};               \
                vec out[LANES][PARTS];                                                             \
                turn_lanes(lanes, out);                                                            \
                PTOI_UNROLL(GCC unroll 4)                                                          \
                for (int64_t l = 0; l < LANES; l++) {                                              \
                    char *row = to + to_rows[(part * LANES + l) * K_##size + k];                   \
                    PTOI_UNROLL(GCC unroll 4)                                                      \
                    for (int64_t p = 0; p < PARTS; p++) {                                          \
                        vec_store(row + p * (int64_t)sizeof(vec), out[l][p]);                      \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* Moves the rest of a block besides `whole_i` x `whole_j`, which are multiples of a line. */  \
    static void edges_##size(const ptoi_block *b, int64_t whole_i, int64_t whole_j)                \
    {                                                                                              \
        for (int64_t i = 0; i < b->ni && whole_j < b->nj; i += N_##size) {                         \
            part_##size(b, i, whole_j);                                                            \
        }                                                                                          \
        for (int64_t j = 0; j < whole_j && whole_i < b->ni; j += N_##size) {                       \
            part_##size(b, whole_i, j);                                                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void block_##size(const ptoi_block *b)                                                  \
    {                                                                                              \
        int64_t whole_i = b->ni - b->ni % N_##size, whole_j = b->nj - b->nj % N_##size;            \
        for (int64_t j = 0; j < whole_j; j += N_##size) {                                          \
            for (int64_t i = 0; i < whole_i; i += N_##size) {                                      \
                square_##size(b->to + i * (size), b->to_rows + j, b->from + j * (size),            \
                              b->from_rows + i);                                                   \
            }                                                                                      \
        }                                                                                          \
        edges_##size(b, whole_i, whole_j);                                                         \
    }

/* The same past the caches. */
#define PTOI_STREAM(size)                                                                          \
    enum { WIDE_##size = 2, TALL_##size = (size) == 1 ? 2 : 4 };                                   \
    /* Transposes `wide` x `tall` squares past the caches, from column j of the block on. */       \
    PTOI_INLINE void squares_##size(const ptoi_block *b, int64_t j, int64_t wide, int64_t tall,    \
                                    bool lines)                                                    \
    {                                                                                              \
        vec kept[WIDE_##size * PARTS][K_##size][TALL_##size][4];                                   \
        ahead next = ahead_of(b, j, wide * N_##size, size, tall * wide * 4);                       \
        for (int64_t g = 0; g < 4 * tall; g++) {                                                   \
            const int64_t *rows = b->from_rows + g * K_##size;                                     \
            for (int64_t w = 0; w < wide * PARTS; w++) {                                           \
                vec row[K_##size];                                                                 \
                if (w % PARTS == 0) {                                                              \
                    fetch(&next);                                                                  \
                }                                                                                  \
                PTOI_UNROLL(GCC unroll 16)                                                         \
                for (int64_t k = 0; k < K_##size; k++) {                                           \
                    row[k] = vec_load(b->from + rows[k] + j * (size) + w * (int64_t)sizeof(vec));  \
                }                                                                                  \
                turn_##size(row);                                                                  \
                PTOI_UNROLL(GCC unroll 16)                                                         \
                for (int64_t k = 0; k < K_##size; k++) {                                           \
                    kept[w][k][g / 4][g % 4] = row[k];                                             \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int64_t w = 0; w < wide * PARTS; w++) {                                               \
            for (int64_t k = 0; k < K_##size; k++) {                                               \
                vec out[TALL_##size][LANES][PARTS];                                                \
                PTOI_UNROLL(GCC unroll 4)                                                          \
                for (int64_t v = 0; v < tall; v++) {                                               \
                    turn_lanes(kept[w][k][v], out[v]);                                             \
                }                                                                                  \
                PTOI_UNROLL(GCC unroll 4)                                                          \
                for (int64_t l = 0; l < LANES; l++) {                                              \
                    char *row = b->to + b->to_rows[j + (w * LANES + l) * K_##size + k];            \
                    PTOI_UNROLL(GCC unroll 4)                                                      \
                    for (int64_t v = 0; v < tall; v++) {                                           \
                        PTOI_UNROLL(GCC unroll 2)                                                  \
                        for (int64_t p = 0; p < PARTS; p++) {                                      \
                            char *at = row + v * PTOI_LINE + p * (int64_t)sizeof(vec);             \
                            if (lines) {                                                           \
                                vec_stream(at, out[v][l][p]);                                      \
                            } else {                                                               \
                                vec_store(at, out[v][l][p]);                                       \
                            }                                                                      \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void stream_##size(const ptoi_block *b)                                                 \
    {                                                                                              \
        int64_t tall = b->ni / N_##size, whole_j = b->nj - b->nj % N_##size, j = 0;                \
        for (; tall == TALL_##size && j + (int64_t)WIDE_##size * N_##size <= whole_j;              \
             j += (int64_t)WIDE_##size * N_##size) {                                               \
            if (b->lines) {                                                                        \
                squares_##size(b, j, WIDE_##size, TALL_##size, true);                              \
            } else {                                                                               \
                squares_##size(b, j, WIDE_##size, TALL_##size, false);                             \
            }                                                                                      \
        }                                                                                          \
        for (; j < whole_j && tall; j += N_##size) {                                               \
            squares_##size(b, j, 1, tall, b->lines);                                               \
        }                                                                                          \
        edges_##size(b, tall *N_##size, whole_j);                                                  \
    }

#endif /* PTOI_SQUARES_H */
