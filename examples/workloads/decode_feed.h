/* decode_feed.h - the feed-forward part of a decode step that is cut for a GPU (decode_block.h): which experts each row
 * has, and some hidden columns, of all rows or of a group that has an expert in common. */
#ifndef DECODE_FEED_H
#define DECODE_FEED_H

#include "decode_math.h"
#include "decode_stages.h"

#ifndef __cplusplus
_Static_assert(3 * ROUTE_CHOICES + ROUTE_EXPERTS <= BLOCK_MORE, "there is room");
#endif

/* What is no number is the least: then ranks are different, whatever the scores are. */
BLOCK_FUNCTION float block_number(float x)
{
    return x == x ? x : -INFINITY;
}

/* The `chosen` largest of the scores of each row, largest first; the first of equal ones; and the softmax over them.
 * A thread has one expert of one row: its rank is the number of those that come before it. */
BLOCK_FUNCTION void block_choose(const float *scores, int rows, int experts, int chosen,
                                 int32_t *choice, float *shares)
{
    BLOCK_ROLLED
    for (int at = (int)BLOCK_ME; at < rows * experts; at += (int)BLOCK_SIZE) {
        const int i = at / experts, e = at % experts;
        const float *row = scores + i * experts, mine = block_number(row[e]);
        int rank = 0;
        BLOCK_ROLLED
        for (int other = 0; other < experts; other++) {
            const float its = block_number(row[other]);
            rank += its > mine || (its == mine && other < e);
        }
        if (rank < chosen) {
            choice[i * chosen + rank] = e;
            shares[i * chosen + rank] = mine;
        }
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int i = (int)BLOCK_ME; i < rows; i += (int)BLOCK_SIZE) {
        float *its = shares + i * chosen, sum = 0;
        const float largest = its[0];
        BLOCK_ROLLED
        for (int c = 0; c < chosen; c++) {
            its[c] = expf(its[c] - largest);
            sum += its[c];
        }
        BLOCK_ROLLED
        for (int c = 0; c < chosen; c++) {
            its[c] /= sum;
        }
    }
    BLOCK_SYNC();
}

/* The experts of each row: choice [rows, chosen], -1: the row has no token; shares, the same, if not NULL. All are in
 * shared memory, but x1. `from` is x1, `norm` the weight of the norm with the router behind it. Returns how many rows
 * were normalised at a time: the last of them are in x. */
BLOCK_FUNCTION int64_t block_route(const block_source *from, const float *norm, int64_t experts,
                                   int64_t chosen, const int32_t *info, int64_t info_row,
                                   int64_t pass, float *x, float *sums, int32_t *choice,
                                   float *shares)
{
    const int64_t r = block_rows(from->rows, from->columns, experts);
    const block_matrix router = {norm + (from->columns + 31) / 32 * 32, from->columns, experts,
                                 experts};
    for (int64_t first = 0; first < from->rows; first += r) {
        block_take(from, first, r, norm, x, sums);
        block_product(r, x, router, sums);
        const int n = (int)block_least(r, from->rows - first);
        block_choose(sums, n, (int)experts, (int)chosen, choice + first * chosen,
                     shares + first * chosen);
        BLOCK_ROLLED
        for (int at = (int)BLOCK_ME; at < n * (int)chosen; at += (int)BLOCK_SIZE) {
            const int64_t i = first + at / (int)chosen;
            if (info[i * info_row] + pass < 0) { /* there is no token */
                choice[first * chosen + at] = -1;
                shares[first * chosen + at] = 0;
            }
        }
    }
    BLOCK_SYNC();
    return r;
}

/* Whether any row has an expert. */
BLOCK_FUNCTION void block_find_experts(const int32_t *choice, int64_t choices, int64_t experts,
                                       int32_t *used)
{
    BLOCK_ROLLED
    for (int e = (int)BLOCK_ME; e < (int)experts; e += (int)BLOCK_SIZE) {
        int32_t found = 0;
        BLOCK_ROLLED
        for (int j = 0; j < (int)choices; j++) {
            found |= choice[j] == e;
        }
        used[e] = found;
    }
    BLOCK_SYNC();
}

/* Keeps n of the rows of x, [columns][all], that `list` names: [columns][r]. All begin together. */
BLOCK_FUNCTION void block_gather(float *x, int columns, int all, const int32_t *list, int n, int r)
{
    for (int first = 0; first < columns; first += (int)BLOCK_SIZE) {
        const int c = first + (int)BLOCK_ME;
        float number[BLOCK_ROWS];
        BLOCK_UNROLL
        for (int i = 0; i < BLOCK_ROWS; i++) {
            number[i] = i < n && c < columns ? x[c * all + list[i]] : 0;
        }
        BLOCK_SYNC(); /* before these places are written */
        BLOCK_UNROLL
        for (int i = 0; i < BLOCK_ROWS; i++) {
            if (i < r && c < columns) {
                x[c * r + i] = number[i];
            }
        }
    }
    BLOCK_SYNC();
}

/* part = (silu(y gate) * (y up)) down: `at` are gate and up [width, 2, t], then down [t, width]. y = normalise(x);
 * `all`: so many rows are normalised in shared memory, these among them. */
BLOCK_OUTLINE void block_feed(const block_source *from, const float *norm, const float *at,
                              int64_t t, float *part, float *x, int64_t all)
{
    const int64_t width = from->columns;
    const block_matrix both = {at, width, 2 * t, 2 * t},
                       down = {at + 2 * width * t, t, width, width};
    float *sums = x + BLOCK_X;
    const int64_t r = block_rows(from->rows, width > t ? width : t, 2 * t > width ? 2 * t : width);
    for (int64_t first = 0; first < from->rows; first += r) {
        if (all && r >= from->rows) {
            block_gather(x, (int)width, (int)all, from->list, (int)from->rows, (int)r);
        } else {
            block_take(from, first, r, norm, x, sums);
        }
        block_product(r, x, both, sums);
        const int columns = (int)t, count = (int)r;
        BLOCK_ROLLED
        for (int unit = (int)BLOCK_ME; unit < columns * count; unit += (int)BLOCK_SIZE) {
            const int i = unit / columns, c = unit % columns;
            const float gate = sums[i * 2 * columns + c], up = sums[i * 2 * columns + columns + c];
            x[c * count + i] = gate / (1 + expf(-gate)) * up;
        }
        BLOCK_SYNC();
        block_product(r, x, down, sums);
        for (int64_t i = 0; i < block_least(r, from->rows - first); i++) {
            const int64_t row = from->list ? from->list[first + i] : first + i;
            BLOCK_ROLLED
            for (int c = (int)BLOCK_ME; c < (int)width; c += (int)BLOCK_SIZE) {
                part[row * width + c] = sums[i * (int)width + c];
            }
        }
    }
}

/* A part of the feed-forward block, for some of the hidden columns. * 0 x1: a piece of it, 1 image, 2 output part [rows, width]. Scalars: 3 weight of the norm, 4 the
 * weights of these columns, 5 how many columns, 6 where the piece of x1 begins; then the other pieces of x1 */
BLOCK_KERNEL(feed)
{
    const int64_t rows = SHAPE(2, 0), width = SHAPE(2, 1);
    const float *image = ARG(float, 1);
    const block_source from = {ARG(float, 0) - INTEGER(6), width, rows, width, NULL};
    block_feed(&from, image + INTEGER(3), image + INTEGER(4), INTEGER(5), ARG(float, 2),
               BLOCK_SHARED, 0);
}

/* The same for a group: the rows that have an expert in common. Groups are in the order of their experts. Each task finds out
 * by itself which rows these are, and reads the weights of that expert; it has nothing to do if there are fewer groups.
 * Its rows of the part are those of x1. Scalars: 3 weight of the norm, and behind it the router [width, experts], 4 the weights of
 * these columns of the first expert, 5 how many columns, 6 weights of an expert, 7 experts * 2^16 + experts of a row, 8 group, 9 info,
 * 10 its row, 11 pass, 12 where the piece of x1 begins, times 2, plus 1 if it is the task that stores the choices: then 13 output choice [rows, chosen], 14 output
 * shares, both dense; then the other pieces of x1 */
BLOCK_KERNEL(feed_expert)
{
    const int64_t rows = SHAPE(2, 0), width = SHAPE(2, 1), chosen = INTEGER(7) & 0xffff,
                  experts = INTEGER(7) >> 16, group = INTEGER(8);
    const float *image = ARG(float, 1), *norm = image + INTEGER(3);
    const int32_t *info = (const int32_t *)(const void *)(image + INTEGER(9));
    float *x = BLOCK_SHARED, *sums = x + BLOCK_X;
    int32_t *choice = (int32_t *)(void *)(sums + BLOCK_SUMS), *used = choice + ROUTE_CHOICES,
            *list = used + ROUTE_EXPERTS;
    float *shares = (float *)(void *)(list + ROUTE_CHOICES);
    block_source from = {ARG(float, 0) - INTEGER(12) / 2, width, rows, width, NULL};
    const int64_t all = block_route(&from, norm, experts, chosen, info, INTEGER(10), INTEGER(11), x,
                                    sums, choice, shares);
    if (INTEGER(12) % 2) {
        BLOCK_ROLLED
        for (int64_t at = BLOCK_ME; at < rows * chosen; at += BLOCK_SIZE) {
            ARG(int32_t, 13)[at] = choice[at];
            ARG(float, 14)[at] = shares[at];
        }
    }
    block_find_experts(choice, rows * chosen, experts, used);
    int expert = -1, before = -1, n = 0; /* the same in all threads */
    BLOCK_ROLLED
    for (int e = 0; e < (int)experts; e++) {
        before += used[e];
        expert = used[e] && before == group ? e : expert;
    }
    if (expert < 0) {
        return;
    }
    BLOCK_ROLLED
    for (int j = 0; j < (int)(rows * chosen); j++) {
        if (choice[j] == expert) {
            if (BLOCK_ME == 0) {
                list[n] = j / (int)chosen;
            }
            n++;
        }
    }
    BLOCK_SYNC();
    from.list = list;
    from.rows = n;
    block_feed(&from, norm, image + INTEGER(4) + expert * INTEGER(6), INTEGER(5), ARG(float, 2), x,
               all >= rows ? all : 0);
}

#endif /* DECODE_FEED_H */
