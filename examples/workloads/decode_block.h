/* decode_block.h - the kernels of a decode step that is cut for a GPU (decode_block.c), in C and in CUDA:
 * see decode_math.h.
 *
 * All numbers that do not change are in one tensor, the *image* (decode_pack.h): the weights in the order in which the
 * tasks read them, angles, and info. Tasks get offsets in it, in floats.
 *
 * info: [rows, 1 + pages of the longest sequence]. The first number, plus that of the pass, is the position of
 * the token of each row; below 0: there is no token in this row yet. Then its pages.
 */
#ifndef DECODE_BLOCK_H
#define DECODE_BLOCK_H

#include "decode_math.h"

/* Nothing: it stands for all tasks that it needs. */
BLOCK_KERNEL(join)
{
    (void)call;
}

/* x = rows of the embedding.
 * 0 tokens [rows], 1 image, 2 output x, 3 scalar: embedding, 4, 5 scalars: what to prefetch; then what it waits for */
BLOCK_KERNEL(embed)
{
    const int64_t rows = SHAPE(2, 0), width = SHAPE(2, 1), to_row = STRIDE(2, 0);
    const int32_t *tokens = ARG(int32_t, 0);
    const float *image = ARG(float, 1), *from = image + INTEGER(3);
    float *to = ARG(float, 2);
    block_prefetch(image + INTEGER(4), INTEGER(5));
    for (int64_t r = 0; r < rows; r++) {
        const int64_t token = tokens[r];
        for (int64_t c = BLOCK_ME; c < width; c += BLOCK_SIZE) {
            to[r * to_row + c] = token < 0 ? 0 : from[token * width + c];
        }
    }
}

/* Some columns c, and those half a head further, of normalise(x) w: turned by RoPE, and stored as queries or
 * in pages. 0 x: some of its columns, 1 image, 2 output: [rows, 2, columns], or pages [pages, 2,
 * columns, tokens of a page]. Scalars: 3 width * 2^16 + dim, 4 the first of the columns of x, 5 weight of the norm, 6 w [width, 2, columns], 7 the angles
 * [positions, dim] of the first column, or -1: not turned, 8 info, 9 its row, 10 pass, 11, 12 what to prefetch;
 * then the other pieces of x */
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
    block_prefetch(image + INTEGER(11), INTEGER(12));
    for (int64_t first = 0; first < from.rows; first += r) {
        block_take(&from, first, r, weight, x, sums);
        block_product(r, x, w, sums);
        for (int64_t at = BLOCK_ME; at < t * block_least(r, from.rows - first); at += BLOCK_SIZE) {
            const int64_t i = at / t, c = at % t;
            const int32_t *mine = info + (first + i) * info_row;
            const float a = sums[i * 2 * t + c], b = sums[i * 2 * t + t + c];
            const int64_t position = mine[0] + pass;
            if (position < 0) {
                continue;
            }
            const float *angle = angles + position * dim + c;
            const float cosine = at_angles < 0 ? 1 : angle[0],
                        sine = at_angles < 0 ? 0 : angle[half];
            float *out = to + c * column +
                         (pages ? mine[1 + position / page] * row + position % page * slot
                                : (first + i) * row);
            out[0] = a * cosine - b * sine;
            out[other] = b * cosine + a * sine;
        }
    }
}

/* Shared memory of `attend`. Scores, pages and lanes are by row. */
enum { ATTEND_KEYS = 4096, ATTEND_PAGES = 2048, ATTEND_LANES = 32, ATTEND_SPLIT = 4 };

typedef struct block_attention {
    int32_t rows, dim, page, chunk, each; /* keys and pages of a row at a time */
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

/* Keys first .. first + n - 1 of each row. A thread has some dims of a key. */
BLOCK_FUNCTION void block_score(const block_attention *a, const float *keys, int64_t k_page,
                                int32_t first, int32_t n)
{
    const int32_t all = a->rows * n;
    int32_t split = (int32_t)block_least(block_least(BLOCK_SIZE / all, ATTEND_SPLIT), a->dim);
    split = split > 1 ? split : 1;
    for (int32_t unit = (int32_t)BLOCK_ME; unit < all * split; unit += (int32_t)BLOCK_SIZE) {
        const int32_t at = unit % all, part = unit / all, i = at / n, j = at % n,
                      begin = part * a->dim / split, end = (part + 1) * a->dim / split;
        float dot = 0;
        if (first + j < a->length[i]) {
            const int32_t in_page = (first + j) % a->page,
                          page = a->pages[i * a->each + (first + j) / a->page - first / a->page];
            const float *key = keys + page * k_page + in_page, *query = a->q + i * a->dim;
            BLOCK_UNROLL_16
            for (int32_t d = begin; d < end; d++) {
                dot += query[d] * key[d * a->page];
            }
        }
        a->sums[unit] = dot;
    }
    BLOCK_SYNC();
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
    for (int32_t i = (int32_t)BLOCK_ME; i < a->rows; i += (int32_t)BLOCK_SIZE) {
        float largest = a->top[i];
        BLOCK_UNROLL
        for (int32_t lane = 0; lane < ATTEND_LANES; lane++) {
            const float most = a->lanes[i * ATTEND_LANES + lane];
            largest = most > largest ? most : largest;
        }
        a->shrink[i] = largest > -INFINITY ? expf(a->top[i] - largest) : 1; /* 0 at first */
        a->top[i] = largest;
    }
    BLOCK_SYNC();
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
    for (int32_t unit = (int32_t)BLOCK_ME; unit < all * split; unit += (int32_t)BLOCK_SIZE) {
        const int32_t d = unit % a->dim, i = unit / a->dim % a->rows,
                      there = a->length[i] - first < n ? a->length[i] - first : n;
        const int32_t *pages = a->pages + i * a->each - first / a->page;
        const float *scores = a->scores + i * a->chunk;
        float some = 0;
        BLOCK_UNROLL_16
        for (int32_t j = unit / all; j < there; j += split) {
            some +=
                scores[j] *
                values[pages[(first + j) / a->page] * v_page + (first + j) % a->page * a->dim + d];
        }
        a->sums[unit] = some;
    }
    BLOCK_SYNC();
    for (int32_t at = (int32_t)BLOCK_ME; at < all; at += (int32_t)BLOCK_SIZE) {
        const int32_t d = at % a->dim, i = at / a->dim;
        float some = a->seen[d * r + i] * a->shrink[i];
        for (int32_t part = 0; part < split; part++) {
            some += a->sums[part * all + at];
        }
        a->seen[d * r + i] = some;
    }
    for (int32_t i = (int32_t)BLOCK_ME; i < a->rows; i += (int32_t)BLOCK_SIZE) {
        float sum = a->weight[i] * a->shrink[i];
        BLOCK_UNROLL
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
    float *to = ARG(float, 4);
    for (int64_t from = 0; from < rows; from += r) {
        const int64_t here = block_least(r, rows - from);
        const block_attention a = block_attention_in(BLOCK_SHARED, here, dim, page, r);
        int64_t longest = 0;
        BLOCK_SYNC();
        for (int64_t at = BLOCK_ME; at < here * dim; at += BLOCK_SIZE) {
            a.q[at] = query[(from + at / dim) * STRIDE(0, 0) + at % dim] * scale;
        }
        for (int64_t at = BLOCK_ME; at < r * dim; at += BLOCK_SIZE) {
            a.seen[at] = 0;
        }
        for (int64_t i = 0; i < here; i++) {
            const int64_t length = info[(from + i) * info_row] + INTEGER(6) + 1;
            longest = length > longest ? length : longest;
            if (BLOCK_ME == 0) {
                a.length[i] = (int32_t)(length > 0 ? length : 0);
                a.top[i] = -INFINITY;
                a.weight[i] = 0;
            }
        }
        for (int64_t first = 0; first < longest; first += a.chunk) {
            const int64_t n = block_least(a.chunk, longest - first), at_page = first / page,
                          pages = (first + n - 1) / page - at_page + 1;
            for (int64_t at = BLOCK_ME; at < here * pages; at += BLOCK_SIZE) {
                a.pages[at / pages * a.each + at % pages] =
                    info[(from + at / pages) * info_row + 1 + at_page + at % pages];
            }
            BLOCK_SYNC();
            block_score(&a, keys, k_page, (int32_t)first, (int32_t)n);
            block_mix_values(&a, values, v_page, (int32_t)first, (int32_t)n, (int32_t)r);
        }
        BLOCK_SYNC();
        for (int64_t at = BLOCK_ME; at < here * dim; at += BLOCK_SIZE) {
            const int64_t i = at % here, d = at / here;
            a.seen[d * r + i] = a.weight[i] > 0 ? a.seen[d * r + i] / a.weight[i] : 0;
        }
        BLOCK_SYNC();
        const block_matrix w = {image + INTEGER(8), dim, width, width};
        block_product(r, a.seen, w, a.sums);
        for (int64_t at = BLOCK_ME; at < here * width; at += BLOCK_SIZE) {
            to[(from + at / width) * STRIDE(4, 0) + at % width] = a.sums[at];
        }
    }
}

/* Some rows and columns of x1 = x + the parts of all heads.
 * 0 x: its first columns; the others follow, 1 the first part that it needs [rows, width]: that of the other heads are
 * `head` apart, 2 image, 3 output: its rows and columns of x1. Scalars: 4 heads, 5 head, 6 its first row, 7 its first column,
 * 8, 9 what to prefetch; then the other parts */
BLOCK_KERNEL(mix)
{
    const float *image = ARG(float, 2);
    const int64_t rows = SHAPE(3, 0), columns = SHAPE(3, 1), heads = INTEGER(4), head = INTEGER(5),
                  from_row = STRIDE(0, 0), part_row = STRIDE(1, 0), to_row = STRIDE(3, 0);
    const float *from = ARG(float, 0) + INTEGER(6) * from_row + INTEGER(7),
                *parts = ARG(float, 1) + INTEGER(7);
    float *to = ARG(float, 3);
    block_prefetch(image + INTEGER(8), INTEGER(9));
    for (int64_t at = BLOCK_ME; at < rows * columns; at += BLOCK_SIZE) {
        const int64_t i = at / columns, c = at % columns;
        float sum = from[i * from_row + c];
        BLOCK_UNROLL_16
        for (int64_t h = 0; h < heads; h++) {
            sum += parts[h * head + i * part_row + c];
        }
        to[i * to_row + c] = sum;
    }
}

/* The `chosen` largest of the scores of a row, largest first; the first of equal ones; and
 * the softmax over them. */
BLOCK_FUNCTION void block_choose(const float *scores, int32_t experts, int64_t chosen,
                                 int32_t *choice, float *shares)
{
    float sum = 0;
    for (int64_t c = 0; c < chosen; c++) {
        int32_t best = -1;
        for (int32_t e = 0; e < experts; e++) {
            bool taken = false;
            for (int64_t before = 0; before < c; before++) {
                taken = taken || choice[before] == e;
            }
            if (!taken && (best < 0 || scores[e] > scores[best])) {
                best = e;
            }
        }
        choice[c] = best;
        shares[c] = expf(scores[best] - scores[choice[0]]);
        sum += shares[c];
    }
    for (int64_t c = 0; c < chosen; c++) {
        shares[c] /= sum;
    }
}

/* Shared memory of the tasks of experts, behind the sums: experts of each row, whether any row has an expert, the
 * rows of a group, and shares. */
enum { ROUTE_CHOICES = 4096, ROUTE_EXPERTS = 256 };
#ifndef __cplusplus
_Static_assert(3 * ROUTE_CHOICES + ROUTE_EXPERTS <= BLOCK_MORE, "there is room");
#endif

/* The experts of each row: choice [rows, chosen], -1: the row has no token; shares, the same, if not NULL. All are in
 * shared memory, but x1. `from` is x1, `norm` the weight of the norm with the router behind it. */
BLOCK_FUNCTION void block_route(const block_source *from, const float *norm, int64_t experts,
                                int64_t chosen, const int32_t *info, int64_t info_row, int64_t pass,
                                float *x, float *sums, int32_t *choice, float *shares)
{
    const int64_t r = block_rows(from->rows, from->columns, experts);
    const block_matrix router = {norm + (from->columns + 31) / 32 * 32, from->columns, experts,
                                 experts};
    for (int64_t first = 0; first < from->rows; first += r) {
        block_take(from, first, r, norm, x, sums);
        block_product(r, x, router, sums);
        for (int64_t i = first + BLOCK_ME; i < block_least(first + r, from->rows);
             i += BLOCK_SIZE) {
            if (info[i * info_row] + pass >= 0) {
                block_choose(sums + (i - first) * experts, (int32_t)experts, chosen,
                             choice + i * chosen, shares + i * chosen);
                continue;
            }
            for (int64_t c = 0; c < chosen; c++) {
                choice[i * chosen + c] = -1;
                shares[i * chosen + c] = 0;
            }
        }
    }
    BLOCK_SYNC();
}

/* Whether any row has an expert. */
BLOCK_FUNCTION void block_find_experts(const int32_t *choice, int64_t choices, int64_t experts,
                                       int32_t *used)
{
    for (int64_t e = BLOCK_ME; e < experts; e += BLOCK_SIZE) {
        int32_t found = 0;
        for (int64_t j = 0; j < choices; j++) {
            found |= choice[j] == e;
        }
        used[e] = found;
    }
    BLOCK_SYNC();
}

/* part = (silu(y gate) * (y up)) down, with y = normalise(x): `at` are gate and up [width, 2, t], then down [t, width]. */
BLOCK_FUNCTION void block_feed(const block_source *from, const float *norm, const float *at,
                               int64_t t, float *part, float *x)
{
    const int64_t width = from->columns;
    const block_matrix both = {at, width, 2 * t, 2 * t},
                       down = {at + 2 * width * t, t, width, width};
    float *sums = x + BLOCK_X;
    const int64_t r = block_rows(from->rows, width > t ? width : t, 2 * t > width ? 2 * t : width);
    for (int64_t first = 0; first < from->rows; first += r) {
        block_take(from, first, r, norm, x, sums);
        block_product(r, x, both, sums);
        for (int64_t unit = BLOCK_ME; unit < t * r; unit += BLOCK_SIZE) {
            const int64_t i = unit / t, c = unit % t;
            const float gate = sums[i * 2 * t + c], up = sums[i * 2 * t + t + c];
            x[c * r + i] = gate / (1 + expf(-gate)) * up;
        }
        BLOCK_SYNC();
        block_product(r, x, down, sums);
        for (int64_t i = 0; i < block_least(r, from->rows - first); i++) {
            const int64_t row = from->list ? from->list[first + i] : first + i;
            for (int64_t c = BLOCK_ME; c < width; c += BLOCK_SIZE) {
                part[row * width + c] = sums[i * width + c];
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
               BLOCK_SHARED);
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
    block_route(&from, norm, experts, chosen, info, INTEGER(10), INTEGER(11), x, sums, choice,
                shares);
    if (INTEGER(12) % 2) {
        for (int64_t at = BLOCK_ME; at < rows * chosen; at += BLOCK_SIZE) {
            ARG(int32_t, 13)[at] = choice[at];
            ARG(float, 14)[at] = shares[at];
        }
    }
    block_find_experts(choice, rows * chosen, experts, used);
    int64_t expert = -1, before = -1, n = 0; /* the same in all threads */
    for (int64_t e = 0; e < experts && expert < 0; e++) {
        before += used[e];
        expert = used[e] && before == group ? e : -1;
    }
    if (expert < 0) {
        return;
    }
    for (int64_t j = 0; j < rows * chosen; j++) {
        if (choice[j] == expert) {
            if (BLOCK_ME == 0) {
                list[n] = (int32_t)(j / chosen);
            }
            n++;
        }
    }
    BLOCK_SYNC();
    from.list = list;
    from.rows = n;
    block_feed(&from, norm, image + INTEGER(4) + expert * INTEGER(6), INTEGER(5), ARG(float, 2), x);
}

/* Some columns of x2 = x1 + the sum of the parts.
 * 0 x1: its first piece; the others follow, 1 the first part [rows, width]; the others follow, 2 output: the columns of x2.
 * Scalars: 3 the first of them,
 * 4 number of parts; then the other parts, or what stands for them */
BLOCK_KERNEL(sum)
{
    const int64_t columns = SHAPE(2, 1), slices = INTEGER(4), all = SHAPE(2, 0) * columns,
                  row = SHAPE(1, 1), slice = SHAPE(1, 0) * row, split = block_split(all, slices),
                  start = INTEGER(3), from_row = row, to_row = STRIDE(2, 0);
    const float *from = ARG(float, 0) + start, *parts = ARG(float, 1) + start;
    float *sums = BLOCK_SHARED, *to = ARG(float, 2);
    for (int64_t unit = BLOCK_ME; unit < all * split; unit += BLOCK_SIZE) {
        const int64_t at = unit % all, i = at / columns, c = at % columns;
        const float *part = parts + i * row + c;
        float sum = unit < all ? from[i * from_row + c] : 0;
        BLOCK_UNROLL_16
        for (int64_t s = unit / all; s < slices; s += split) {
            sum += part[s * slice];
        }
        if (split == 1) {
            to[i * to_row + c] = sum;
        } else {
            sums[unit] = sum;
        }
    }
    BLOCK_SYNC();
    for (int64_t at = BLOCK_ME; split > 1 && at < all; at += BLOCK_SIZE) {
        float sum = sums[at];
        for (int64_t s = 1; s < split; s++) {
            sum += sums[s * all + at];
        }
        to[at / columns * to_row + at % columns] = sum;
    }
}

/* Some columns of x2 = x1 + the parts of the experts of each row, times their shares.
 * 0 x1: its first piece; the others follow, 1 the first part [rows, width] of [groups, slices], 2 output: the columns of x2, 3
 * choice, 4 shares. Scalars: 5 the first of the columns, 6 slices, 7 experts; then the other parts, or what stands for them */
BLOCK_KERNEL(sum_experts)
{
    const int64_t rows = SHAPE(2, 0), columns = SHAPE(2, 1), slices = INTEGER(6),
                  experts = INTEGER(7), all = rows * columns, chosen = SHAPE(3, 1),
                  row = SHAPE(1, 1), slice = rows * row, group = slices * slice,
                  split = block_split(all, slices), start = INTEGER(5), from_row = row,
                  to_row = STRIDE(2, 0);
    const float *from = ARG(float, 0) + start, *parts = ARG(float, 1) + start,
                *shares = ARG(float, 4);
    const int32_t *choice = ARG(int32_t, 3);
    int32_t *used = (int32_t *)(void *)(BLOCK_SHARED + BLOCK_SUMS);
    block_find_experts(choice, rows * chosen, experts, used);
    for (int64_t e = BLOCK_ME; e < experts; e += BLOCK_SIZE) { /* the group of each */
        int32_t before = 0;
        for (int64_t other = 0; other < e; other++) {
            before += used[other];
        }
        used[ROUTE_EXPERTS + e] = before;
    }
    BLOCK_SYNC();
    float *sums = BLOCK_SHARED, *to = ARG(float, 2);
    for (int64_t unit = BLOCK_ME; unit < all * split; unit += BLOCK_SIZE) {
        const int64_t at = unit % all, i = at / columns, c = at % columns;
        float sum = unit < all ? from[i * from_row + c] : 0;
        for (int64_t j = i * chosen; j < (i + 1) * chosen; j++) {
            if (choice[j] < 0) {
                continue;
            }
            const float *part = parts + used[ROUTE_EXPERTS + choice[j]] * group + i * row + c;
            float some = 0;
            BLOCK_UNROLL_16
            for (int64_t s = unit / all; s < slices; s += split) {
                some += part[s * slice];
            }
            sum += shares[j] * some;
        }
        if (split == 1) {
            to[i * to_row + c] = sum;
        } else {
            sums[unit] = sum;
        }
    }
    BLOCK_SYNC();
    for (int64_t at = BLOCK_ME; split > 1 && at < all; at += BLOCK_SIZE) {
        float sum = sums[at];
        for (int64_t s = 1; s < split; s++) {
            sum += sums[s * all + at];
        }
        to[at / columns * to_row + at % columns] = sum;
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
            for (int64_t c = BLOCK_ME; c < t; c += BLOCK_SIZE) {
                to[(first + i) * to_row + c] = sums[i * t + c];
            }
        }
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

/* X(name, worker type) */
#define DECODE_BLOCK_KERNELS(X)                                                                    \
    X(join, PTO_VECTOR)                                                                            \
    X(embed, PTO_VECTOR)                                                                           \
    X(project, PTO_CUBE)                                                                           \
    X(attend, PTO_VECTOR)                                                                          \
    X(mix, PTO_VECTOR)                                                                             \
    X(feed, PTO_CUBE)                                                                              \
    X(feed_expert, PTO_CUBE)                                                                       \
    X(sum, PTO_VECTOR)                                                                             \
    X(sum_experts, PTO_VECTOR)                                                                     \
    X(logits, PTO_CUBE)                                                                            \
    X(pick, PTO_VECTOR)

#endif /* DECODE_BLOCK_H */
