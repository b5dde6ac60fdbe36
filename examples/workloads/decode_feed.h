/* decode_feed.h - the feed-forward part of a decode step that is cut for a GPU (decode_block.h): which experts each row
 * has, and some hidden columns, of all rows or of a group that has an expert in common. */
#ifndef DECODE_FEED_H
#define DECODE_FEED_H

#include "decode_math.h"
#include "decode_stages.h"

#ifndef __cplusplus
_Static_assert(ROUTE_CHOICES + ROUTE_EXPERTS + ROUTE_ROWS + ROUTE_SHARES <= BLOCK_MORE,
               "there is room");
_Static_assert(BLOCK_ROWS *ROUTE_EXPERTS <= ROUTE_SHARES, "of so many rows");
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
    for (int at = BLOCK_ME; at < rows * experts; at += BLOCK_SIZE) {
        const int i = at / experts, e = at % experts;
        const float *row = scores + i * experts, mine = block_number(row[e]);
        int rank = 0;
        BLOCK_UNROLL_8
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
    for (int i = BLOCK_ME; i < rows; i += BLOCK_SIZE) {
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

/* Where the choices of all rows go, in memory; NULL: another task stores them. */
typedef struct block_routes {
    int32_t *choice;
    float *shares;
} block_routes;

/* The experts of each row: choice [rows, chosen], -1: the row has no token. That, and the shares of some rows at a time,
 * are in shared memory, but x1 is not. `from` is x1, `norm` the weight of the norm with the router behind it. Returns how
 * many rows were taken at a time: the last of them are in x. */
BLOCK_FUNCTION int64_t block_route(const block_source *from, const float *norm, int64_t experts,
                                   int64_t chosen, const int32_t *info, int64_t info_row,
                                   int64_t pass, float *x, int32_t *choice, float *shares,
                                   block_routes to)
{
    const int64_t r = block_rows(from->rows, from->columns, experts);
    const block_matrix router = {norm + (from->columns + 31) / 32 * 32, from->columns, experts,
                                 experts};
    float *sums = block_behind(x, r, from->columns);
    for (int64_t first = 0; first < from->rows; first += r) {
        block_take(from, first, r, norm, x, block_squares(x));
        block_product(r, x, router, block_squares(x), sums);
        const int n = (int)block_least(r, from->rows - first);
        block_choose(sums, n, (int)experts, (int)chosen, choice + first * chosen, shares);
        BLOCK_ROLLED
        for (int at = BLOCK_ME; at < n * (int)chosen; at += BLOCK_SIZE) {
            const int64_t i = first + at / (int)chosen;
            const bool none = info[i * info_row] + pass < 0; /* there is no token */
            if (none) {
                choice[first * chosen + at] = -1;
            }
            if (to.choice) {
                to.choice[first * chosen + at] = none ? -1 : choice[first * chosen + at];
                to.shares[first * chosen + at] = none ? 0 : shares[at];
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
    for (int e = BLOCK_ME; e < (int)experts; e += BLOCK_SIZE) {
        int32_t found = 0;
        BLOCK_UNROLL_8
        for (int j = 0; j < (int)choices; j++) {
            found |= choice[j] == e;
        }
        used[e] = found;
    }
    BLOCK_SYNC();
}

/* Keeps n of the rows of x, [columns][all], that `list` names: [columns][r]. All begin together. Returns their sums of
 * squares. */
BLOCK_FUNCTION const float *block_gather(float *x, int columns, int all, const int32_t *list, int n,
                                         int r)
{
    const float *squares = block_squares(x);
    float *kept = block_squares(x) + BLOCK_ROWS * BLOCK_LANES;
    BLOCK_ROLLED
    for (int at = BLOCK_ME; at < n * BLOCK_LANES; at += BLOCK_SIZE) {
        kept[at] = squares[list[at / BLOCK_LANES] * BLOCK_LANES + at % BLOCK_LANES];
    }
    BLOCK_ROLLED
    for (int at = BLOCK_ME + n * BLOCK_LANES; at < r * BLOCK_LANES; at += BLOCK_SIZE) {
        kept[at] = 0;
    }
    for (int first = 0; first < columns; first += BLOCK_SIZE) {
        const int c = first + BLOCK_ME;
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
    return kept;
}

/* part = (silu(y gate) * (y up)) down: `at` are gate and up [width, 2, t], then down [t, width]. y = normalise(x);
 * `all`: so many rows are in shared memory, these among them. */
BLOCK_OUTLINE void block_feed(const block_source *from, const float *norm, const float *at,
                              int64_t t, float *part, float *x, int64_t all)
{
    const int64_t width = from->columns;
    const block_matrix both = {at, width, 2 * t, 2 * t},
                       down = {at + 2 * width * t, t, width, width};
    const int64_t k = width > t ? width : t,
                  r = block_rows(from->rows, k, 2 * t > width ? 2 * t : width);
    float *sums = block_behind(x, r, k);
    for (int64_t first = 0; first < from->rows; first += r) {
        const float *squares = block_squares(x);
        if (all && r >= from->rows) {
            squares = block_gather(x, (int)width, (int)all, from->list, (int)from->rows, (int)r);
        } else {
            block_take(from, first, r, norm, x, block_squares(x));
        }
        block_product(r, x, both, squares, sums);
        const int columns = (int)t, count = (int)r;
        BLOCK_ROLLED
        for (int unit = BLOCK_ME; unit < columns * count; unit += BLOCK_SIZE) {
            const int i = unit / columns, c = unit % columns;
            const float gate = sums[i * 2 * columns + c], up = sums[i * 2 * columns + columns + c];
            x[c * count + i] = gate / (1 + expf(-gate)) * up;
        }
        BLOCK_SYNC();
        block_product(r, x, down, NULL, sums);
        for (int64_t i = 0; i < block_least(r, from->rows - first); i++) {
            const int64_t row = from->list ? from->list[first + i] : first + i;
            BLOCK_ROLLED
            for (int c = BLOCK_ME; c < (int)width; c += BLOCK_SIZE) {
                part[row * width + c] = sums[i * (int)width + c];
            }
        }
    }
}

/* A part of the feed-forward block, for some of the hidden columns.
 * 0 x1: its first piece; the others follow, 1 image, 2 output part [rows, width]. Scalars: 3 weight of the norm, 4 the
 * weights of these columns, 5 how many columns; then the other pieces of x1 */
BLOCK_KERNEL(feed)
{
    const int64_t rows = SHAPE(2, 0), width = SHAPE(2, 1);
    const float *image = ARG(float, 1);
    const block_source from = {ARG(float, 0), width, rows, width, NULL};
    block_expect(image + INTEGER(4), 3 * width * INTEGER(5));
    block_feed(&from, image + INTEGER(3), image + INTEGER(4), INTEGER(5), ARG(float, 2),
               BLOCK_SHARED, 0);
}

/* The same for a group: the rows that have an expert in common. Groups are in the order of their experts. Each task finds out
 * by itself which rows these are, and reads the weights of that expert; it has nothing to do if there are fewer groups.
 * Its rows of the part are those of x1. Scalars: 3 weight of the norm, and behind it the router [width, experts], 4 the weights of
 * these columns of the first expert, 5 how many columns, 6 weights of an expert, 7 experts * 2^16 + experts of a row, 8 group, 9 info,
 * 10 its row, 11 pass, 12 whether it is the task that stores the choices: then 13 output choice [rows, chosen], 14 output
 * shares, both dense; then the other pieces of x1 */
BLOCK_KERNEL(feed_expert)
{
    const int64_t rows = SHAPE(2, 0), width = SHAPE(2, 1), chosen = INTEGER(7) & 0xffff,
                  experts = INTEGER(7) >> 16, group = INTEGER(8);
    const float *image = ARG(float, 1), *norm = image + INTEGER(3);
    const int32_t *info = (const int32_t *)(const void *)(image + INTEGER(9));
    float *x = BLOCK_SHARED, *shares = x + BLOCK_ARENA;
    int32_t *choice = (int32_t *)(void *)(shares + ROUTE_SHARES), *used = choice + ROUTE_CHOICES,
            *list = used + ROUTE_EXPERTS;
    block_source from = {ARG(float, 0), width, rows, width, NULL};
    block_routes to = {NULL, NULL};
    if (rows * chosen >=
        experts) { /* most experts are used: if all are, this one is that of the group */
        block_expect(image + INTEGER(4) + group * INTEGER(6), 3 * width * INTEGER(5));
    }
    if (INTEGER(12)) {
        to.choice = ARG(int32_t, 13);
        to.shares = ARG(float, 14);
    }
    const int64_t all = block_route(&from, norm, experts, chosen, info, INTEGER(10), INTEGER(11), x,
                                    choice, shares, to);
    block_find_experts(choice, rows * chosen, experts, used);
    int expert = -1, before = -1, n = 0; /* the same in all threads */
    BLOCK_UNROLL_8
    for (int e = 0; e < (int)experts; e++) {
        before += used[e];
        expert = used[e] && before == group ? e : expert;
    }
    if (expert < 0) {
        return;
    }
    const float *weights = image + INTEGER(4) + expert * INTEGER(6);
    if (expert != group || rows * chosen < experts) {
        block_expect(weights, 3 * width * INTEGER(5));
    }
    BLOCK_UNROLL_8
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
    block_feed(&from, norm, weights, INTEGER(5), ARG(float, 2), x, all >= rows ? all : 0);
}

#endif /* DECODE_FEED_H */
