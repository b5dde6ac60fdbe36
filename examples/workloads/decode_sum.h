/* decode_sum.h - sums over the parts that a stage has left, in a decode step that is cut for a GPU (decode_block.h). */
#ifndef DECODE_SUM_H
#define DECODE_SUM_H

#include "decode_math.h"
#include "decode_stages.h"

/* A sum over parts of some rows and columns, by all threads: thread `me` of `split` that share q adjacent columns
 * has left its share in sums[me * all + at]. */
BLOCK_FUNCTION void block_add_shares(const int q, int all, int split, int columns,
                                     const float *sums, float *to, int64_t to_row)
{
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int at = BLOCK_ME * q; at < all; at += BLOCK_SIZE * q) {
        float sum[4];
        block_load(q, sums + at, sum);
        BLOCK_UNROLL_8
        for (int part = 1; part < split; part++) {
            float more[4];
            block_load(q, sums + part * all + at, more);
            BLOCK_UNROLL
            for (int j = 0; j < q; j++) {
                sum[j] += more[j];
            }
        }
        block_store(q, sum, to + at / columns * to_row + at % columns);
    }
}

/* What `sum` and `sum_experts` add: parts [slices, rows, row] to rows of x1 that are as long. */
typedef struct block_parts {
    const float *from, *parts;
    float *to, *sums;
    int rows, columns, slices;
    int64_t row, slice, to_row;
    /* of experts: those of each row, where the parts of an expert are, and its share */
    const int32_t *choice, *group_of;
    const float *shares;
    int chosen;
    int64_t group;
} block_parts;

/* Adds the slices of one part that fall to a thread, in order. */
BLOCK_FUNCTION void block_add_slices(const int q, const block_parts *p, const float *part,
                                     int first, int split, float *sum)
{
    enum { AHEAD = 8 }; /* loads under way, also if there are fewer left */
    BLOCK_ROLLED
    for (int s = first; s < p->slices; s += AHEAD * split) {
        float more[AHEAD][4];
        BLOCK_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            const int at = s + k * split;
            block_load(q, part + (at < p->slices ? at : s) * p->slice, more[k]);
        }
        BLOCK_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            BLOCK_UNROLL
            for (int j = 0; j < q && s + k * split < p->slices; j++) {
                sum[j] += more[k][j];
            }
        }
    }
}

/* The block begins together. */
BLOCK_FUNCTION void block_add_parts(const int q, const block_parts *p)
{
    const int all = p->rows * p->columns, groups = all / q,
              split = (int)block_split(groups, all, p->slices);
    BLOCK_ROLLED
    for (int unit = BLOCK_ME; unit < groups * split; unit += BLOCK_SIZE) {
        const int at = unit % groups * q, first = unit / groups, i = at / p->columns,
                  c = at % p->columns;
        const int64_t place = i * p->row + c;
        float sum[4] = {0, 0, 0, 0};
        if (first == 0) {
            block_load(q, p->from + place, sum);
        }
        if (!p->choice) {
            block_add_slices(q, p, p->parts + place, first, split, sum);
        }
        for (int j = i * p->chosen; j < (i + 1) * p->chosen; j++) {
            const int32_t expert = p->choice[j];
            const float share = p->shares[j];
            float some[4] = {0, 0, 0, 0};
            if (expert >= 0) {
                block_add_slices(q, p, p->parts + p->group_of[expert] * p->group + place, first,
                                 split, some);
                BLOCK_UNROLL
                for (int k = 0; k < q; k++) {
                    sum[k] += share * some[k];
                }
            }
        }
        block_store(q, sum, split == 1 ? p->to + i * p->to_row + c : p->sums + first * all + at);
    }
    if (split > 1) {
        block_add_shares(q, all, split, p->columns, p->sums, p->to, p->to_row);
    }
}

BLOCK_OUTLINE void block_add(const block_parts *p)
{
    const int64_t all = p->columns | p->row | p->slice | p->to_row | p->group;
    const uintptr_t at = (uintptr_t)p->from | (uintptr_t)p->parts | (uintptr_t)p->to;
    if (all % 4 == 0 && at % 16 == 0) {
        block_add_parts(4, p);
    } else {
        block_add_parts(1, p);
    }
}

/* Some columns of x2 = x1 + the sum of the parts.
 * 0 x1: its first piece; the others follow, 1 the first part [rows, width]; the others follow, 2 output: the columns of x2.
 * Scalars: 3 the first of them,
 * 4 number of parts; then the other parts, or what stands for them */
BLOCK_KERNEL(sum)
{
    const int64_t start = INTEGER(3), row = SHAPE(1, 1);
    const block_parts p = {ARG(float, 0) + start,
                           ARG(float, 1) + start,
                           ARG(float, 2),
                           BLOCK_SHARED,
                           (int)SHAPE(2, 0),
                           (int)SHAPE(2, 1),
                           (int)INTEGER(4),
                           row,
                           SHAPE(1, 0) * row,
                           STRIDE(2, 0),
                           NULL,
                           NULL,
                           NULL,
                           0,
                           0};
    block_add(&p);
}

/* Some columns of x2 = x1 + the parts of the experts of each row, times their shares.
 * 0 x1: its first piece; the others follow, 1 the first part [rows, width] of [groups, slices], 2 output: the columns of x2, 3
 * choice, 4 shares. Scalars: 5 the first of the columns, 6 slices, 7 experts; then the other parts, or what stands for them */
BLOCK_KERNEL(sum_experts)
{
    const int64_t start = INTEGER(5), rows = SHAPE(2, 0), row = SHAPE(1, 1), slices = INTEGER(6),
                  experts = INTEGER(7), chosen = SHAPE(3, 1);
    const int32_t *choice = ARG(int32_t, 3);
    int32_t *used = (int32_t *)(void *)(BLOCK_SHARED + BLOCK_ARENA),
            *group_of = used + ROUTE_EXPERTS;
    block_find_experts(choice, rows * chosen, experts, used);
    BLOCK_ROLLED
    for (int e = BLOCK_ME; e < (int)experts; e += BLOCK_SIZE) { /* the group of each */
        int32_t before = 0;
        BLOCK_ROLLED
        for (int other = 0; other < e; other++) {
            before += used[other];
        }
        group_of[e] = before;
    }
    BLOCK_SYNC();
    const block_parts p = {ARG(float, 0) + start,
                           ARG(float, 1) + start,
                           ARG(float, 2),
                           BLOCK_SHARED,
                           (int)rows,
                           (int)SHAPE(2, 1),
                           (int)slices,
                           row,
                           rows * row,
                           STRIDE(2, 0),
                           choice,
                           group_of,
                           ARG(float, 4),
                           (int)chosen,
                           slices * rows * row};
    block_add(&p);
}

#endif /* DECODE_SUM_H */
