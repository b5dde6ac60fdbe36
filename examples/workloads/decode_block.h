/* decode_block.h - the kernels of a decode step that is cut for a GPU (decode_block.c), in C and in CUDA:
 * see decode_math.h.
 *
 * Those of attention, the feed-forward part and sums have their own headers.
 *
 * All numbers that do not change are in one tensor, the *image* (decode_pack.h): the weights in the order in which the
 * tasks read them, angles, and info. Tasks get offsets in it, in floats.
 *
 * info: [rows, 1 + pages of the longest sequence]. The first number, plus that of the pass, is the position of
 * the token of each row; below 0: there is no token in this row yet. Then its pages.
 */
#ifndef DECODE_BLOCK_H
#define DECODE_BLOCK_H

#include "decode_attend.h"
#include "decode_feed.h"
#include "decode_math.h"
#include "decode_stages.h"
#include "decode_sum.h"

/* Nothing: it stands for all tasks that it needs. */
BLOCK_KERNEL(join)
{
    (void)call;
}

/* x = rows of the embedding.
 * 0 tokens [rows], 1 image, 2 output x, 3 scalar: embedding; then what it waits for */
BLOCK_KERNEL(embed)
{
    const int64_t rows = SHAPE(2, 0), width = SHAPE(2, 1), to_row = STRIDE(2, 0);
    const int32_t *tokens = ARG(int32_t, 0);
    const float *image = ARG(float, 1), *from = image + INTEGER(3);
    float *to = ARG(float, 2);
    BLOCK_UNROLL_8
    for (int at = (int)BLOCK_ME; at < (int)(rows * width); at += (int)BLOCK_SIZE) {
        const int r = at / (int)width, c = at % (int)width;
        const int64_t token = tokens[r];
        to[r * to_row + c] = token < 0 ? 0 : from[token * width + c];
    }
}

/* Some columns c, and those half a head further, of normalise(x) w: turned by RoPE, and stored as queries or
 * in pages. 0 x: some of its columns, 1 image, 2 output: [rows, 2, columns], or pages [pages, 2,
 * columns, tokens of a page]. Scalars: 3 width * 2^16 + dim, 4 the first of the columns of x, 5 weight of the norm, 6 w [width, 2, columns], 7 the angles
 * [positions, dim] of the first column, or -1: not turned, 8 info, 9 its row, 10 pass; then the
 * other pieces of x */
BLOCK_KERNEL(project)
{
    const float *image = ARG(float, 1);
    const block_source from = {ARG(float, 0) - INTEGER(4), STRIDE(0, 0), SHAPE(0, 0),
                               INTEGER(3) >> 16, NULL};
    const int64_t t = SHAPE(2, 2), dim = INTEGER(3) & 0xffff, half = dim / 2, info_row = INTEGER(9),
                  at_angles = INTEGER(7), pass = INTEGER(10);
    const block_matrix w = {image + INTEGER(6), from.columns, 2 * t, 2 * t};
    const float *weight = image + INTEGER(5), *angles = image + (at_angles < 0 ? 0 : at_angles);
    const int32_t *info = (const int32_t *)(const void *)(image + INTEGER(8));
    const bool pages = NDIM(2) == 4;
    const int64_t row = STRIDE(2, 0), other = STRIDE(2, 1), column = STRIDE(2, 2),
                  page = pages ? SHAPE(2, 3) : 1, slot = pages ? STRIDE(2, 3) : 0;
    float *x = BLOCK_SHARED, *sums = x + BLOCK_X, *to = ARG(float, 2);
    const int64_t r = block_rows(from.rows, w.k, w.columns);
    for (int64_t first = 0; first < from.rows; first += r) {
        block_take(&from, first, r, weight, x, sums);
        block_product(r, x, w, sums);
        const int n = (int)t, all = n * (int)block_least(r, from.rows - first);
        BLOCK_ROLLED
        for (int at = (int)BLOCK_ME; at < all; at += (int)BLOCK_SIZE) {
            const int i = at / n, c = at % n;
            const int32_t *mine = info + (first + i) * info_row;
            const float a = sums[i * 2 * n + c], b = sums[i * 2 * n + n + c];
            const int position = mine[0] + (int)pass, of_page = (int)page;
            if (position < 0) {
                continue;
            }
            const float *angle = angles + position * dim + c;
            const float cosine = at_angles < 0 ? 1 : angle[0],
                        sine = at_angles < 0 ? 0 : angle[half];
            float *out = to + c * column +
                         (pages ? mine[1 + position / of_page] * row + position % of_page * slot
                                : (first + i) * row);
            out[0] = a * cosine - b * sine;
            out[other] = b * cosine + a * sine;
        }
    }
}

/* Some columns of normalise(x) w, and for each row the largest of them and its index.
 * 0 x: some of its columns, 1 image, 2 output logits [rows, columns], 3 output [2, rows]: the largest,
 * as floats, and their indices. Scalars: 4 width, 5 weight of the norm, 6 w [width, columns], 7 the first of the columns, 8 the
 * first of the columns of x; then the other pieces of x */
BLOCK_KERNEL(logits)
{
    enum { LANES = 8 };
    const float *image = ARG(float, 1);
    const block_source from = {ARG(float, 0) - INTEGER(8), STRIDE(0, 0), SHAPE(0, 0), INTEGER(4),
                               NULL};
    const int64_t t = SHAPE(2, 1), r = block_rows(from.rows, from.columns, t), start = INTEGER(7),
                  to_row = STRIDE(2, 0);
    const block_matrix w = {image + INTEGER(6), from.columns, t, t};
    float *x = BLOCK_SHARED, *sums = x + BLOCK_X, *to = ARG(float, 2), *largest = ARG(float, 3),
          *best = x;
    int32_t *index = ARG(int32_t, 3) + STRIDE(3, 0),
            *which = (int32_t *)(void *)(x + LANES * BLOCK_ROWS);
    for (int64_t first = 0; first < from.rows; first += r) {
        const int64_t n = block_least(r, from.rows - first);
        block_take(&from, first, r, image + INTEGER(5), x, sums);
        block_product(r, x, w, sums);
        for (int64_t i = 0; i < n; i++) {
            BLOCK_ROLLED
            for (int64_t c = BLOCK_ME; c < t; c += BLOCK_SIZE) {
                to[(first + i) * to_row + c] = sums[i * t + c];
            }
        }
        BLOCK_ROLLED
        for (int64_t at = BLOCK_ME; at < n * LANES; at += BLOCK_SIZE) {
            float number = 0;
            int32_t column = -1;
            for (int64_t c = at % LANES; c < t; c += LANES) {
                block_better(sums[at / LANES * t + c], (int32_t)(start + c), &number, &column);
            }
            best[at] = number;
            which[at] = column;
        }
        BLOCK_SYNC();
        BLOCK_ROLLED
        for (int64_t i = BLOCK_ME; i < n; i += BLOCK_SIZE) {
            float number = 0;
            int32_t column = -1;
            for (int64_t at = i * LANES; at < (i + 1) * LANES; at++) {
                if (which[at] >= 0) {
                    block_better(best[at], which[at], &number, &column);
                }
            }
            largest[first + i] = number;
            index[first + i] = column;
        }
    }
}

/* The best column of each row.
 * 0 the first of the pieces of `logits` [2, rows]; the others follow, 1 output tokens [rows], 2 scalar: pieces; then the
 * other pieces */
BLOCK_KERNEL(pick)
{
    enum { LANES = 16 };
    const int64_t pieces = INTEGER(2), rows = SHAPE(0, 1), piece = 2 * rows;
    const float *largest = ARG(float, 0);
    const int32_t *index = ARG(int32_t, 0) + rows;
    int32_t *tokens = ARG(int32_t, 1);
    float *best = BLOCK_SHARED;
    int32_t *which = (int32_t *)(void *)(best + LANES * BLOCK_ROWS);
    for (int64_t first = 0; first < rows; first += BLOCK_ROWS) {
        const int64_t n = block_least(BLOCK_ROWS, rows - first);
        BLOCK_SYNC();
        BLOCK_ROLLED
        for (int64_t at = BLOCK_ME; at < n * LANES; at += BLOCK_SIZE) {
            float number = 0;
            int32_t column = -1;
            for (int64_t i = at / n; i < pieces; i += LANES) {
                block_better(largest[i * piece + first + at % n], index[i * piece + first + at % n],
                             &number, &column);
            }
            best[at] = number;
            which[at] = column;
        }
        BLOCK_SYNC();
        BLOCK_ROLLED
        for (int64_t i = BLOCK_ME; i < n; i += BLOCK_SIZE) {
            float number = 0;
            int32_t column = -1;
            for (int64_t at = i; at < n * LANES; at += n) {
                if (which[at] >= 0) {
                    block_better(best[at], which[at], &number, &column);
                }
            }
            tokens[first + i] = column;
        }
    }
}

#endif /* DECODE_BLOCK_H */
