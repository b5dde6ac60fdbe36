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
    const int rows = (int)SHAPE(2, 0), width = (int)SHAPE(2, 1), to_row = (int)STRIDE(2, 0);
    const int32_t *tokens = ARG(int32_t, 0);
    const float *image = ARG(float, 1), *from = image + INTEGER(3);
    float *to = ARG(float, 2);
    for (int first = 0; first < rows; first += BLOCK_ROWS) {
        int64_t token[BLOCK_ROWS];
        BLOCK_UNROLL
        for (int i = 0; i < BLOCK_ROWS; i++) {
            token[i] = first + i < rows ? tokens[first + i] : -1;
        }
        BLOCK_ROLLED
        for (int c = BLOCK_ME; c < width; c += BLOCK_SIZE) {
            float number[BLOCK_ROWS];
            BLOCK_UNROLL
            for (int i = 0; i < BLOCK_ROWS; i++) {
                number[i] = token[i] < 0 ? 0 : from[token[i] * width + c];
            }
            BLOCK_UNROLL
            for (int i = 0; i < BLOCK_ROWS; i++) {
                if (first + i < rows) {
                    to[(first + i) * to_row + c] = number[i];
                }
            }
        }
    }
}

/* Some columns c, and those half a head further, of normalise(x) w: turned by RoPE, and stored as queries or
 * in pages. 0 x: its first columns; the others follow, 1 image, 2 output: [rows, 2, columns], or pages [pages, 2,
 * columns, tokens of a page]. Scalars: 3 width * 2^16 + dim, 4 weight of the norm, 5 w [width, 2, columns], 6 the angles
 * [positions, dim] of the first column, or -1: not turned, 7 info, 8 its row, 9 pass; then the other columns of x */
BLOCK_KERNEL(project)
{
    const float *image = ARG(float, 1);
    const block_source from = {ARG(float, 0), STRIDE(0, 0), SHAPE(0, 0), INTEGER(3) >> 16, NULL};
    const int t = (int)SHAPE(2, 2), dim = (int)(INTEGER(3) & 0xffff);
    const block_matrix w = {image + INTEGER(5), from.columns, 2 * t, 2 * t};
    block_expect(w.at, w.k * w.ld);
    const int64_t at_angles = INTEGER(6), row = STRIDE(2, 0), other = STRIDE(2, 1),
                  column = STRIDE(2, 2);
    const int info_row = (int)INTEGER(8), pass = (int)INTEGER(9),
              page = NDIM(2) == 4 ? (int)SHAPE(2, 3) : 0;
    const float *weight = image + INTEGER(4), *angles = image + (at_angles < 0 ? 0 : at_angles);
    const int32_t *info = (const int32_t *)(const void *)(image + INTEGER(7));
    const int64_t slot = page ? STRIDE(2, 3) : 0, r = block_rows(from.rows, w.k, w.columns);
    float *x = BLOCK_SHARED, *sums = block_behind(x, r, w.k), *to = ARG(float, 2);
    int64_t *place = (int64_t *)(void *)(x + BLOCK_ARENA);   /* of each row; -1: it has no token */
    int32_t *turn = (int32_t *)(void *)(place + BLOCK_ROWS); /* where the angles of each row are */
    for (int64_t first = 0; first < from.rows; first += r) {
        const int here = (int)block_least(r, from.rows - first);
        BLOCK_SYNC(); /* the places of the last rows were read */
        BLOCK_ROLLED
        for (int i = BLOCK_ME; i < here; i += BLOCK_SIZE) {
            const int32_t *mine = info + (first + i) * info_row;
            const int position = mine[0] + pass;
            turn[i] = position * dim;
            place[i] = position < 0 ? -1
                       : page       ? mine[1 + position / page] * row + position % page * slot
                                    : (first + i) * row;
        }
        block_take(&from, first, r, weight, x, block_squares(x));
        block_product(r, x, w, block_squares(x), sums);
        BLOCK_ROLLED
        for (int at = BLOCK_ME; at < t * here; at += BLOCK_SIZE) {
            const int i = at / t, c = at % t;
            if (place[i] < 0) {
                continue;
            }
            const float a = sums[i * 2 * t + c], b = sums[i * 2 * t + t + c],
                        *angle = angles + turn[i] + c;
            const float cosine = at_angles < 0 ? 1 : angle[0],
                        sine = at_angles < 0 ? 0 : angle[dim / 2];
            float *out = to + place[i] + c * column;
            out[0] = a * cosine - b * sine;
            out[other] = b * cosine + a * sine;
        }
    }
}

/* Some columns of normalise(x) w, and for each row the largest of them and its index.
 * 0 x: its first columns; the others follow, 1 image, 2 output logits [rows, columns], 3 output [2, rows]: the largest,
 * as floats, and their indices. Scalars: 4 width, 5 weight of the norm, 6 w [width, columns], 7 the first of the columns; then the
 * other columns of x */
BLOCK_KERNEL(logits)
{
    enum { LANES = 8 };
    const float *image = ARG(float, 1);
    const block_source from = {ARG(float, 0), STRIDE(0, 0), SHAPE(0, 0), INTEGER(4), NULL};
    const int64_t t = SHAPE(2, 1), r = block_rows(from.rows, from.columns, t), start = INTEGER(7),
                  to_row = STRIDE(2, 0);
    const block_matrix w = {image + INTEGER(6), from.columns, t, t};
    float *x = BLOCK_SHARED, *sums = block_behind(x, r, w.k), *to = ARG(float, 2),
          *largest = ARG(float, 3), *best = x;
    block_expect(w.at, w.k * w.ld);
    int32_t *index = ARG(int32_t, 3) + STRIDE(3, 0),
            *which = (int32_t *)(void *)(x + LANES * BLOCK_ROWS);
    for (int64_t first = 0; first < from.rows; first += r) {
        const int64_t n = block_least(r, from.rows - first);
        block_take(&from, first, r, image + INTEGER(5), x, block_squares(x));
        block_product(r, x, w, block_squares(x), sums);
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
