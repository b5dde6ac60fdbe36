/* decode_attend.h - attention of a decode step that is cut for a GPU (decode_block.h): a head of some rows with its
 * pages, and the sum of x and all heads. */
#ifndef DECODE_ATTEND_H
#define DECODE_ATTEND_H

#include "decode_math.h"

/* One row of one head. In shared memory: scores of `chunk` keys at a time, and the pages in which these keys are. */
enum { ATTEND_KEYS = 2048, ATTEND_PAGES = 1024, ATTEND_SPLIT = 64 };
#ifndef __cplusplus
_Static_assert((BLOCK_ROWS + 1) * 512 + ATTEND_KEYS + 4 + ATTEND_PAGES + 2 * ATTEND_KEYS <
                   BLOCK_ARENA,
               "there is room for heads of 512");
#endif

typedef struct block_attention {
    int dim, page, chunk, room; /* for sums */
    uint64_t inverse;           /* of page: see block_page_of */
    float *q, *scores, *sums, *state;
    int32_t *pages;
    const float *keys, *values; /* of the head, in page 0 */
    int64_t k_page, v_page;
} block_attention;

BLOCK_FUNCTION block_attention block_attention_in(const float *arena, float *x, int dim, int page)
{
    block_attention a;
    a.dim = dim;
    a.page = page;
    a.inverse = (uint64_t)(UINT32_MAX / (uint32_t)page) + 1;
    a.chunk = (int)block_least(ATTEND_KEYS, (int64_t)(ATTEND_PAGES - 1) * page) & ~3;
    a.q = x;
    a.scores = a.q + (dim + 3) / 4 * 4; /* at a multiple of 16 bytes */
    a.state = a.scores +
              ATTEND_KEYS; /* twice: the largest score so far, and the sum of the shares */
    a.pages = (int32_t *)(void *)(a.state + 4);
    a.sums = (float *)(void *)(a.pages + ATTEND_PAGES);
    a.room = (int)(arena + BLOCK_ARENA - a.sums);
    return a;
}

/* The page of a key: key / page, without a division. Exact below 2^32 / page, which no sequence reaches. */
BLOCK_FUNCTION int block_page_of(const block_attention *a, int key)
{
    return (int)((uint64_t)(uint32_t)key * a->inverse >> 32);
}

/* The scores of n keys from `first` on. A thread has q adjacent keys of a page, and some dims of them. The block ends together. */
BLOCK_FUNCTION void block_score(const int q, const block_attention *a, int first, int n)
{
    const int groups = (n + q - 1) / q, all = groups * q, size = BLOCK_SIZE,
              at_page = block_page_of(a, first);
    int split = (int)block_least(block_least(size / groups, a->room / all), a->dim);
    split = split > 16 ? 16 : split > 1 ? split : 1;
    BLOCK_ROLLED
    for (int unit = BLOCK_ME; unit < groups * split; unit += size) {
        const int at = unit % groups * q, part = unit / groups, page = block_page_of(a, first + at);
        const float *key = a->keys + a->pages[page - at_page] * a->k_page +
                           (first + at - page * a->page);
        float dot[4] = {0, 0, 0, 0};
        BLOCK_ROLLED
        for (int d = part; d < a->dim; d += BLOCK_AHEAD * split) {
            float number[BLOCK_AHEAD][4];
            BLOCK_UNROLL
            for (int k = 0; k < BLOCK_AHEAD;
                 k++) { /* so many are under way, also if fewer are left */
                const int its = d + k * split < a->dim ? d + k * split : d;
                block_load(q, key + its * a->page, number[k]);
            }
            BLOCK_UNROLL
            for (int k = 0; k < BLOCK_AHEAD; k++) {
                const float query = d + k * split < a->dim ? a->q[d + k * split] : 0;
                BLOCK_UNROLL
                for (int j = 0; j < q; j++) {
                    dot[j] += query * number[k][j];
                }
            }
        }
        block_store(q, dot, a->sums + part * all + at);
    }
    BLOCK_SYNC();
    BLOCK_ROLLED
    for (int j = BLOCK_ME; j < n; j += size) {
        float score = 0;
        BLOCK_UNROLL_8
        for (int part = 0; part < split; part++) {
            score += a->sums[part * all + j];
        }
        a->scores[j] = score;
    }
    BLOCK_SYNC();
}

/* What a thread adds of the values: q adjacent dims of every split-th key. Shares are relative to the largest of its
 * scores, which is left in sums, with the sum of its shares, behind all that is added. */
BLOCK_FUNCTION void block_add_values(const int q, const block_attention *a, int first, int n,
                                     int split)
{
    const int groups = a->dim / q, at_page = block_page_of(a, first);
    float *largest = a->sums + split * a->dim, *weight = largest + split;
    BLOCK_ROLLED
    for (int unit = BLOCK_ME; unit < groups * split; unit += BLOCK_SIZE) {
        const int d = unit % groups * q, part = unit / groups;
        float most = a->scores[part], all = 0, sum[4] = {0, 0, 0, 0};
        BLOCK_UNROLL_8
        for (int j = part; j < n; j += split) {
            most = a->scores[j] > most ? a->scores[j] : most;
        }
        BLOCK_ROLLED
        for (int j = part; j < n; j += BLOCK_AHEAD * split) {
            float number[BLOCK_AHEAD][4];
            BLOCK_UNROLL
            for (int k = 0; k < BLOCK_AHEAD; k++) {
                const int its = first + (j + k * split < n ? j + k * split : j),
                          page = block_page_of(a, its);
                block_load(q,
                           a->values + a->pages[page - at_page] * a->v_page +
                               (its - page * a->page) * a->dim + d,
                           number[k]);
            }
            BLOCK_UNROLL
            for (int k = 0; k < BLOCK_AHEAD; k++) {
                const float share = j + k * split < n ? expf(a->scores[j + k * split] - most) : 0;
                all += share;
                BLOCK_UNROLL
                for (int i = 0; i < q; i++) {
                    sum[i] += share * number[k][i];
                }
            }
        }
        block_store(q, sum, a->sums + part * a->dim + d);
        if (d == 0) {
            largest[part] = most;
            weight[part] = all;
        }
    }
}

/* Adds what the threads have added to what earlier chunks gave: seen[d * r]. The last chunk divides by the sum of
 * the shares. */
BLOCK_FUNCTION void block_join_values(const block_attention *a, int split, int chunk, bool last,
                                      float *seen, int r)
{
    const float *largest = a->sums + split * a->dim, *weight = largest + split,
                *before = a->state + (chunk + 1) % 2 * 2;
    float *after = a->state + chunk % 2 * 2;
    BLOCK_ROLLED
    for (int d = BLOCK_ME; d < a->dim; d += BLOCK_SIZE) {
        float most = chunk ? before[0] : largest[0], all = 0, sum = 0;
        BLOCK_UNROLL_8
        for (int part = 0; part < split; part++) {
            most = largest[part] > most ? largest[part] : most;
        }
        if (chunk) {
            const float share = expf(before[0] - most);
            all = before[1] * share;
            sum = seen[d * r] * share;
        }
        BLOCK_UNROLL_8
        for (int part = 0; part < split; part++) {
            const float share = expf(largest[part] - most);
            all += weight[part] * share;
            sum += a->sums[part * a->dim + d] * share;
        }
        seen[d * r] = last ? sum / all : sum;
        if (d == 0) {
            after[0] = most;
            after[1] = all;
        }
    }
}

/* The attention of a row: seen[d * r]. `info` is that of the row. */
BLOCK_FUNCTION void block_attend(const block_attention *a, const float *query, const int32_t *info,
                                 int pass, float *seen, int r)
{
    const float scale = BLOCK_RSQRT((float)a->dim);
    const int length = info[0] + pass + 1, dim = a->dim, q = dim % 4 ? 1 : 4;
    int split = (int)block_least(BLOCK_SIZE / (dim / q), a->room / (dim + 2));
    split = split > ATTEND_SPLIT ? ATTEND_SPLIT : split > 1 ? split : 1;
    BLOCK_ROLLED
    for (int d = BLOCK_ME; d < dim; d += BLOCK_SIZE) {
        a->q[d] = query[d] * scale;
        if (length <= 0) {
            seen[d * r] = 0;
        }
    }
    for (int first = 0, chunk = 0; first < length; first += a->chunk, chunk++) {
        const int n = (int)block_least(a->chunk, length - first), at_page = block_page_of(a, first),
                  used = (int)block_least(split, n),
                  pages = block_page_of(a, first + n - 1) - at_page + 1;
        BLOCK_ROLLED
        for (int at = BLOCK_ME; at < pages; at += BLOCK_SIZE) {
            a->pages[at] = info[1 + at_page + at];
        }
        BLOCK_SYNC();
        if (a->page % 4 || a->k_page % 4 || (uintptr_t)a->keys % 16) {
            block_score(1, a, first, n);
        } else {
            block_score(4, a, first, n);
        }
        if (q == 1 || a->v_page % 4 || (uintptr_t)a->values % 16) {
            block_add_values(1, a, first, n, used);
        } else {
            block_add_values(4, a, first, n, used);
        }
        BLOCK_SYNC();
        block_join_values(a, used, chunk, first + n == length, seen, r);
    }
}

/* The attention of one head of some rows to all tokens of their sequences, times the rows of w for this head. Of q,
 * keys and values it gets the first piece of the head: the others follow in memory.
 * 0 q [all rows, 2, columns], 1 keys [pages, 2, columns, tokens], 2 values, the same, 3 image, 4 output [rows, width].
 * Scalars: 5 dim, 6 pass, 7 first row, 8 w [dim, width], 9 info, 10 its row; then the other pieces */
BLOCK_KERNEL(attend)
{
    const float *image = ARG(float, 3);
    const int rows = (int)SHAPE(4, 0), width = (int)SHAPE(4, 1), dim = (int)INTEGER(5),
              first_row = (int)INTEGER(7), info_row = (int)INTEGER(10);
    const block_matrix w = {image + INTEGER(8), dim, width, width};
    block_expect(w.at, w.k * w.ld);
    const int r = (int)block_rows(rows, dim, width), pass = (int)INTEGER(6);
    const int64_t q_row = STRIDE(0, 0), to_row = STRIDE(4, 0);
    const float *query = ARG(float, 0) + first_row * q_row;
    const int32_t *info = (const int32_t *)(const void *)(image + INTEGER(9)) +
                          first_row * info_row;
    float *to = ARG(float, 4), *seen = BLOCK_SHARED;
    float *sums = block_behind(seen, r, dim);
    block_attention a = block_attention_in(seen, sums, dim, (int)SHAPE(1, 3));
    a.keys = ARG(float, 1);
    a.values = ARG(float, 2);
    a.k_page = STRIDE(1, 0);
    a.v_page = STRIDE(2, 0);
    for (int from = 0; from < rows; from += r) {
        const int here = (int)block_least(r, rows - from);
        BLOCK_SYNC(); /* the last product was read */
        BLOCK_ROLLED
        for (int at = BLOCK_ME; at < (r - here) * dim; at += BLOCK_SIZE) {
            seen[at % dim * r + here + at / dim] = 0;
        }
        for (int i = 0; i < here; i++) {
            block_attend(&a, query + (from + i) * q_row, info + (from + i) * info_row, pass,
                         seen + i, r);
        }
        BLOCK_SYNC();
        block_product(r, seen, w, NULL, sums);
        BLOCK_ROLLED
        for (int at = BLOCK_ME; at < here * width; at += BLOCK_SIZE) {
            to[(from + at / width) * to_row + at % width] = sums[at];
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
    for (int at = BLOCK_ME; at < all; at += BLOCK_SIZE) {
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

/* Some columns of x1 = x + the parts of all heads.
 * 0 x: its first columns; the others follow, 1 the first part [rows, width]; the others follow, those of a head `head`
 * behind those of the last one, 2 output: columns of x1. Scalars: 3 heads, 4 head, 5 the first of the columns; then
 * the parts, or what stands for them */
BLOCK_KERNEL(mix)
{
    const int64_t rows = SHAPE(2, 0), columns = SHAPE(2, 1), heads = INTEGER(3), head = INTEGER(4),
                  from_row = STRIDE(0, 0), part_row = STRIDE(1, 0), to_row = STRIDE(2, 0);
    const float *from = ARG(float, 0) + INTEGER(5), *parts = ARG(float, 1) + INTEGER(5);
    float *to = ARG(float, 2);
    const uintptr_t at = (uintptr_t)from | (uintptr_t)parts | (uintptr_t)to;
    if ((columns | from_row | part_row | to_row | head) % 4 == 0 && at % 16 == 0) {
        block_mix(4, from, from_row, parts, part_row, head, heads, rows, columns, to, to_row);
    } else {
        block_mix(1, from, from_row, parts, part_row, head, heads, rows, columns, to, to_row);
    }
}

#endif /* DECODE_ATTEND_H */
