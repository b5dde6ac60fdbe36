/* decode_attend.h - attention of a decode step that is cut for a GPU (decode_block.h): a head of some rows with its
 * pages, and the sum of x and all heads. */
#ifndef DECODE_ATTEND_H
#define DECODE_ATTEND_H

#include "decode_math.h"

/* Shared memory of `attend`. Scores, pages and lanes are by row. */
enum { ATTEND_KEYS = 4096, ATTEND_PAGES = 2048, ATTEND_LANES = 32, ATTEND_SPLIT = 4 };

typedef struct block_attention {
    int32_t rows, dim, page, chunk, each; /* keys and pages of a row at a time */
    uint64_t inverse;                     /* of page: see block_page_of */
    float *q, *seen, *scores, *lanes, *top, *weight, *shrink, *sums;
    int32_t *pages, *length;
} block_attention;

BLOCK_FUNCTION block_attention block_attention_in(float *x, int64_t rows, int64_t dim, int64_t page,
                                                  int64_t r)
{
    block_attention a;
    a.rows = (int32_t)rows;
    a.dim = (int32_t)dim;
    a.page = (int32_t)page;
    a.inverse = (UINT64_C(1) << 32) / (uint64_t)page + 1;
    a.chunk = (int32_t)block_least(ATTEND_KEYS / rows, (ATTEND_PAGES / rows - 2) * page);
    a.each = (int32_t)(ATTEND_PAGES / rows);
    a.q = x;
    a.seen = a.q + (rows * dim + 3) / 4 * 4; /* at a multiple of 16 bytes */
    a.scores = a.seen + r * dim;
    a.lanes = a.scores + ATTEND_KEYS;
    a.top = a.lanes + BLOCK_ROWS * ATTEND_LANES;
    a.weight = a.top + BLOCK_ROWS;
    a.shrink = a.weight + BLOCK_ROWS;
    a.length = (int32_t *)(void *)(a.shrink + BLOCK_ROWS);
    a.pages = a.length + BLOCK_ROWS;
    a.sums = x + BLOCK_X;
    return a;
}

/* The page of a key: key / page, without a division. Exact below 2^32 / page, which no sequence reaches. */
BLOCK_FUNCTION int32_t block_page_of(const block_attention *a, int32_t key)
{
    return (int32_t)((uint64_t)key * a->inverse >> 32);
}

/* Keys first .. first + n - 1 of each row. A thread has some dims of a key. */
BLOCK_FUNCTION void block_score(const block_attention *a, const float *keys, int64_t k_page,
                                int32_t first, int32_t n)
{
    const int32_t all = a->rows * n;
    int32_t split = (int32_t)block_least(block_least((int32_t)BLOCK_SIZE / all, ATTEND_SPLIT),
                                         a->dim);
    split = split > 1 ? split : 1;
    BLOCK_ROLLED
    for (int32_t unit = (int32_t)BLOCK_ME; unit < all * split; unit += (int32_t)BLOCK_SIZE) {
        const int32_t at = unit % all, part = unit / all, i = at / n, j = at % n,
                      begin = part * a->dim / split, end = (part + 1) * a->dim / split;
        float dot = 0;
        if (first + j < a->length[i]) {
            const int32_t number = block_page_of(a, first + j),
                          page = a->pages[i * a->each + number - block_page_of(a, first)];
            const float *key = keys + page * k_page + (first + j - number * a->page),
                        *query = a->q + i * a->dim;
            BLOCK_UNROLL_16
            for (int32_t d = begin; d < end; d++) {
                dot += query[d] * key[d * a->page];
            }
        }
        a->sums[unit] = dot;
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int32_t at = (int32_t)BLOCK_ME; at < a->rows * ATTEND_LANES; at += (int32_t)BLOCK_SIZE) {
        const int32_t i = at / ATTEND_LANES;
        float most = -INFINITY;
        for (int32_t j = at % ATTEND_LANES; j < n; j += ATTEND_LANES) {
            float score = 0;
            for (int32_t part = 0; part < split; part++) {
                score += a->sums[part * all + i * n + j];
            }
            score = first + j < a->length[i] ? score : -INFINITY;
            a->scores[i * a->chunk + j] = score;
            most = score > most ? score : most;
        }
        a->lanes[at] = most;
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int32_t i = (int32_t)BLOCK_ME; i < a->rows; i += (int32_t)BLOCK_SIZE) {
        float largest = a->top[i];
        BLOCK_UNROLL_8
        for (int32_t lane = 0; lane < ATTEND_LANES; lane++) {
            const float most = a->lanes[i * ATTEND_LANES + lane];
            largest = most > largest ? most : largest;
        }
        a->shrink[i] = largest > -INFINITY ? expf(a->top[i] - largest) : 1; /* 0 at first */
        a->top[i] = largest;
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int32_t at = (int32_t)BLOCK_ME; at < a->rows * ATTEND_LANES; at += (int32_t)BLOCK_SIZE) {
        const int32_t i = at / ATTEND_LANES;
        float some = 0;
        for (int32_t j = at % ATTEND_LANES; j < n; j += ATTEND_LANES) {
            const float score = a->scores[i * a->chunk + j];
            const float share = score > -INFINITY ? expf(score - a->top[i]) : 0;
            a->scores[i * a->chunk + j] = share;
            some += share;
        }
        a->lanes[at] = some;
    }
    BLOCK_SYNC();
}

/* Adds the values of these keys. A thread has one dim and every split-th key. `seen` is transposed: r rows. */
BLOCK_FUNCTION void block_mix_values(const block_attention *a, const float *values, int64_t v_page,
                                     int32_t first, int32_t n, int32_t r)
{
    const int32_t all = a->rows * a->dim;
    int32_t split = (int32_t)block_least(BLOCK_SIZE / all, BLOCK_SUMS / all);
    split = split > 1 ? split : 1;
    BLOCK_ROLLED
    for (int32_t unit = (int32_t)BLOCK_ME; unit < all * split; unit += (int32_t)BLOCK_SIZE) {
        const int32_t d = unit % a->dim, i = unit / a->dim % a->rows,
                      there = a->length[i] - first < n ? a->length[i] - first : n;
        const int32_t *pages = a->pages + i * a->each - block_page_of(a, first);
        const float *scores = a->scores + i * a->chunk;
        float some = 0;
        BLOCK_UNROLL_8
        for (int32_t j = unit / all; j < there; j += split) {
            const int32_t number = block_page_of(a, first + j);
            some += scores[j] *
                    values[pages[number] * v_page + (first + j - number * a->page) * a->dim + d];
        }
        a->sums[unit] = some;
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int32_t at = (int32_t)BLOCK_ME; at < all; at += (int32_t)BLOCK_SIZE) {
        const int32_t d = at % a->dim, i = at / a->dim;
        float some = a->seen[d * r + i] * a->shrink[i];
        for (int32_t part = 0; part < split; part++) {
            some += a->sums[part * all + at];
        }
        a->seen[d * r + i] = some;
    }
    BLOCK_ROLLED
    for (int32_t i = (int32_t)BLOCK_ME; i < a->rows; i += (int32_t)BLOCK_SIZE) {
        float sum = a->weight[i] * a->shrink[i];
        BLOCK_UNROLL_8
        for (int32_t lane = 0; lane < ATTEND_LANES; lane++) {
            sum += a->lanes[i * ATTEND_LANES + lane];
        }
        a->weight[i] = sum;
    }
    BLOCK_SYNC();
}

/* The attention of one head of some rows to all tokens of their sequences, times the rows of w for this head. Of q,
 * keys and values it gets the first piece of the head: the others follow in memory.
 * 0 q [all rows, 2, columns], 1 keys [pages, 2, columns, tokens], 2 values, the same, 3 image, 4 output [rows, width].
 * Scalars: 5 dim, 6 pass, 7 first row, 8 w [dim, width], 9 info, 10 its row; then the other pieces */
BLOCK_KERNEL(attend)
{
    const float *image = ARG(float, 3);
    const int64_t rows = SHAPE(4, 0), width = SHAPE(4, 1), dim = INTEGER(5), page = SHAPE(1, 3),
                  first_row = INTEGER(7), info_row = INTEGER(10);
    const int64_t k_page = STRIDE(1, 0), v_page = STRIDE(2, 0), r = block_rows(rows, dim, width);
    const float *query = ARG(float, 0) + first_row * STRIDE(0, 0), *keys = ARG(float, 1),
                *values = ARG(float, 2);
    const int32_t *info = (const int32_t *)(const void *)(image + INTEGER(9)) +
                          first_row * info_row;
    const float scale = 1 / sqrtf((float)dim);
    const int64_t q_row = STRIDE(0, 0), to_row = STRIDE(4, 0);
    const int pass = (int)INTEGER(6);
    float *to = ARG(float, 4);
    for (int64_t from = 0; from < rows; from += r) {
        const int here = (int)block_least(r, rows - from), d_of = (int)dim, w_of = (int)width;
        const block_attention a = block_attention_in(BLOCK_SHARED, here, dim, page, r);
        int longest = 0;
        BLOCK_SYNC();
        BLOCK_ROLLED
        for (int at = (int)BLOCK_ME; at < here * d_of; at += (int)BLOCK_SIZE) {
            a.q[at] = query[(from + at / d_of) * q_row + at % d_of] * scale;
        }
        BLOCK_ROLLED
        for (int at = (int)BLOCK_ME; at < (int)r * d_of; at += (int)BLOCK_SIZE) {
            a.seen[at] = 0;
        }
        BLOCK_UNROLL_8
        for (int i = 0; i < here; i++) {
            const int length = info[(from + i) * info_row] + pass + 1;
            longest = length > longest ? length : longest;
            if (BLOCK_ME == 0) {
                a.length[i] = length > 0 ? length : 0;
                a.top[i] = -INFINITY;
                a.weight[i] = 0;
            }
        }
        for (int first = 0; first < longest; first += a.chunk) {
            const int n = (int)block_least(a.chunk, longest - first),
                      at_page = block_page_of(&a, first),
                      pages = block_page_of(&a, first + n - 1) - at_page + 1;
            BLOCK_ROLLED
            for (int at = (int)BLOCK_ME; at < here * pages; at += (int)BLOCK_SIZE) {
                a.pages[at / pages * a.each + at % pages] =
                    info[(from + at / pages) * info_row + 1 + at_page + at % pages];
            }
            BLOCK_SYNC();
            block_score(&a, keys, k_page, first, n);
            block_mix_values(&a, values, v_page, first, n, (int32_t)r);
        }
        BLOCK_SYNC();
        BLOCK_ROLLED
        for (int at = (int)BLOCK_ME; at < here * d_of; at += (int)BLOCK_SIZE) {
            const int i = at % here, d = at / here * (int)r + i;
            a.seen[d] = a.weight[i] > 0 ? a.seen[d] / a.weight[i] : 0;
        }
        BLOCK_SYNC();
        const block_matrix w = {image + INTEGER(8), dim, width, width};
        block_product(r, a.seen, w, a.sums);
        BLOCK_ROLLED
        for (int at = (int)BLOCK_ME; at < here * w_of; at += (int)BLOCK_SIZE) {
            to[(from + at / w_of) * to_row + at % w_of] = a.sums[at];
        }
    }
}

/* Adds the parts of all heads, q adjacent columns a thread. */
BLOCK_FUNCTION void block_mix(const int q, const float *from, int64_t from_row, const float *parts,
                              int64_t part_row, int64_t head, int64_t heads, int64_t rows,
                              int64_t columns, float *to, int64_t to_row)
{
    const int groups = (int)columns / q, all = (int)rows * groups;
    BLOCK_ROLLED
    for (int at = (int)BLOCK_ME; at < all; at += (int)BLOCK_SIZE) {
        const int i = at / groups, c = at % groups * q;
        const float *part = parts + i * part_row + c;
        float sum[4];
        block_load(q, from + i * from_row + c, sum);
        BLOCK_UNROLL_8
        for (int h = 0; h < (int)heads; h++) {
            float more[4];
            block_load(q, part + h * head, more);
            BLOCK_UNROLL
            for (int j = 0; j < q; j++) {
                sum[j] += more[j];
            }
        }
        block_store(q, sum, to + i * to_row + c);
    }
}

/* Some rows and columns of x1 = x + the parts of all heads.
 * 0 x: its first columns; the others follow, 1 the first part that it needs [rows, width]: that of the other heads are
 * `head` apart, 2 output: its rows and columns of x1. Scalars: 3 heads, 4 head, 5 its first row, 6 its first
 * column; then the other parts */
BLOCK_KERNEL(mix)
{
    const int64_t rows = SHAPE(2, 0), columns = SHAPE(2, 1), heads = INTEGER(3), head = INTEGER(4),
                  from_row = STRIDE(0, 0), part_row = STRIDE(1, 0), to_row = STRIDE(2, 0);
    const float *from = ARG(float, 0) + INTEGER(5) * from_row + INTEGER(6),
                *parts = ARG(float, 1) + INTEGER(6);
    float *to = ARG(float, 2);
    const uintptr_t at = (uintptr_t)from | (uintptr_t)parts | (uintptr_t)to;
    if ((columns | from_row | part_row | to_row | head) % 4 == 0 && at % 16 == 0) {
        block_mix(4, from, from_row, parts, part_row, head, heads, rows, columns, to, to_row);
    } else {
        block_mix(1, from, from_row, parts, part_row, head, heads, rows, columns, to, to_row);
    }
}

#endif /* DECODE_ATTEND_H */
