/* decode_serial.c - the kernels of `decode` in a serial loop: no tasks, no pages, no threads.
 *
 * The tasks must compute the same bits: this file calls the same functions on the same tiles, in
 * submission order. Keys and values are contiguous here, one sequence after the other, so mixed-up
 * pages would be detected. */
#include "decode_kernels.h"
#include "decode_model.h"

#include <math.h>
#include <string.h>

typedef struct serial {
    const decode_model *m;
    const decode_result *follow;
    bool wrong;                  /* it has chosen experts that were not the best */
    int64_t tile, page, context; /* context: positions of a sequence, in whole pages */
    int64_t rows;                /* of this step */
    int32_t *positions;          /* [rows] */
    /* Scratch memory for every row of the first step and each of its chosen experts. */
    float *x, *normed, *q, *k, *v, *seen, *gate, *up, *hidden, *grouped, *outs, *scores, *shares,
        *state;
    int32_t *places;
    float *keys,
        *values; /* [layers, batch, kv_heads, context, dim], for keys with the last two dims
                    transposed */
} serial;

static decode_matrix matrix(const float *at, int64_t rows, int64_t columns, int64_t stride)
{
    return (decode_matrix){(float *)(uintptr_t)at, rows, columns, stride};
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void linear(const serial *s, decode_matrix x, const pto_tensor *w, decode_matrix y, bool add)
{
    const int64_t k = w->shape[0], n = w->shape[1];
    for (int64_t at = 0; at < n; at += s->tile) {
        const int64_t tile = least(s->tile, n - at);
        decode_linear(x, matrix(decode_floats(w) + at, k, tile, n),
                      matrix(y.at + at, y.rows, tile, y.stride), add);
    }
}

static void feed_forward(const serial *s, const decode_ffn *ffn, decode_matrix x, decode_matrix y,
                         bool add)
{
    const int64_t hidden = ffn->gate.shape[1], k = x.columns;
    for (int64_t at = 0; at < hidden; at += s->tile) {
        const int64_t tile = least(s->tile, hidden - at);
        const decode_matrix gate = matrix(s->gate, x.rows, tile, tile),
                            up = matrix(s->up, x.rows, tile, tile);
        decode_linear(x, matrix(decode_floats(&ffn->gate) + at, k, tile, hidden), gate, false);
        decode_linear(x, matrix(decode_floats(&ffn->up) + at, k, tile, hidden), up, false);
        decode_swiglu(gate, up, matrix(s->hidden + at, x.rows, tile, hidden));
    }
    linear(s, matrix(s->hidden, x.rows, hidden, hidden), &ffn->down, y, add);
}

/* Attention of the rows of one sequence to all its tokens so far, for one KV head. */
static void attend(const serial *s, int64_t layer, int64_t b, int64_t head, int64_t row,
                   int64_t rows)
{
    const decode_sizes *z = &s->m->sizes;
    const int64_t group = z->heads / z->kv_heads, width = z->heads * z->dim, dim = z->dim,
                  end = s->positions[row] + rows;
    const int64_t at = ((layer * z->batch + b) * z->kv_heads + head) * s->context * dim;
    attention_block block = {
        .positions = rows,
        .heads = group,
        .dim = dim,
        .q = s->q + row * width + head * group * dim,
        .q_position = width,
        .q_head = dim,
        .k_key = 1,
        .k_dim = s->context,
        .v_key = dim,
        .scale = 1 / sqrtf((float)dim),
        .state = s->state,
        .state_row = attention_width(dim),
    };
    attention_begin(rows * group, dim, s->state, block.state_row);
    for (int64_t key = 0; key < end; key += s->page) {
        block.keys = s->page;
        block.k = s->keys + at + key;
        block.v = s->values + at + key * dim;
        block.visible = s->positions[row] + 1 - key;
        attention_attend(&block);
    }
    attention_finish(rows, group, dim, s->state, block.state_row,
                     s->seen + row * width + head * group * dim, width, dim);
}

static void remember(const serial *s, int64_t layer, int64_t b, int64_t row, int64_t rows)
{
    const decode_sizes *z = &s->m->sizes;
    for (int64_t r = row; r < row + rows; r++) {
        for (int64_t h = 0; h < z->kv_heads; h++) {
            const int64_t at = ((layer * z->batch + b) * z->kv_heads + h) * s->context * z->dim;
            const float *k = s->k + (r * z->kv_heads + h) * z->dim,
                        *v = s->v + (r * z->kv_heads + h) * z->dim;
            for (int64_t d = 0; d < z->dim; d++) {
                s->keys[at + d * s->context + s->positions[r]] = k[d];
                s->values[at + s->positions[r] * z->dim + d] = v[d];
            }
        }
    }
}

static void attention(const serial *s, int64_t l, const int64_t *row, const int64_t *count)
{
    const decode_sizes *z = &s->m->sizes;
    const decode_layer *layer = &s->m->layers[l];
    const int64_t rows = s->rows, queries = z->heads * z->dim, keys = z->kv_heads * z->dim;
    const decode_matrix x = matrix(s->x, rows, z->width, z->width),
                        normed = matrix(s->normed, rows, z->width, z->width),
                        q = matrix(s->q, rows, queries, queries),
                        k = matrix(s->k, rows, keys, keys), v = matrix(s->v, rows, keys, keys);
    decode_normalise(x, decode_floats(&layer->attention_norm), normed);
    linear(s, normed, &layer->q, q, false);
    linear(s, normed, &layer->k, k, false);
    linear(s, normed, &layer->v, v, false);
    decode_turn(q, z->dim, s->positions, decode_floats(&s->m->rope));
    decode_turn(k, z->dim, s->positions, decode_floats(&s->m->rope));
    for (int64_t b = 0; b < z->batch; b++) {
        remember(s, l, b, row[b], count[b]);
        for (int64_t h = 0; h < z->kv_heads; h++) {
            attend(s, l, b, h, row[b], count[b]);
        }
    }
    linear(s, matrix(s->seen, rows, queries, queries), &layer->o, x, true);
}

/* Takes the experts that another run has chosen for a row, and their shares. False: others were better. */
static bool take_choice(const float *scores, int64_t experts, int64_t chosen, const int32_t *theirs,
                        int32_t *route, float *shares)
{
    float worst = INFINITY, best = -INFINITY, largest = 0, sum = 0;
    bool is_chosen[256] = {false};
    for (int64_t c = 0; c < chosen; c++) {
        if (theirs[c] < 0 || theirs[c] >= experts || is_chosen[theirs[c]]) {
            return false;
        }
        is_chosen[theirs[c]] = true;
        route[c] = theirs[c];
        worst = fminf(worst, scores[theirs[c]]);
        shares[c] = expf(scores[theirs[c]] - scores[theirs[0]]);
        sum += shares[c];
    }
    for (int64_t e = 0; e < experts; e++) {
        largest = fmaxf(largest, fabsf(scores[e]));
        best = is_chosen[e] ? best : fmaxf(best, scores[e]);
    }
    for (int64_t c = 0; c < chosen; c++) {
        shares[c] /= sum;
    }
    return best <= worst + (float)DECODE_ALLOWED * largest;
}

static void choose(serial *s, decode_matrix scores, const int32_t *theirs, int32_t *route)
{
    const decode_sizes *z = &s->m->sizes;
    if (!theirs) {
        decode_choose(scores, z->chosen, route, s->shares);
        return;
    }
    for (int64_t r = 0; r < s->rows && !s->wrong; r++) {
        const int64_t at = r * z->chosen;
        s->wrong = !take_choice(scores.at + r * scores.stride, z->experts, z->chosen, theirs + at,
                                route + at, s->shares + at);
    }
}

static void experts(serial *s, const decode_layer *layer, decode_matrix normed, decode_matrix x,
                    const int32_t *theirs, int32_t *route)
{
    const decode_sizes *z = &s->m->sizes;
    const decode_matrix scores = matrix(s->scores, s->rows, z->experts, z->experts);
    int64_t from = 0, to = 0;
    linear(s, normed, &layer->router, scores, false);
    choose(s, scores, theirs, route);
    for (int32_t e = 0; e < z->experts; e++, from = to) {
        for (int64_t i = 0; i < s->rows * z->chosen; i++) {
            if (route[i] == e) {
                memcpy(s->grouped + to * z->width, normed.at + i / z->chosen * z->width,
                       (size_t)z->width * sizeof(float));
                s->places[i] = (int32_t)to++;
            }
        }
        if (to > from) {
            feed_forward(s, &layer->ffn[e],
                         matrix(s->grouped + from * z->width, to - from, z->width, z->width),
                         matrix(s->outs + from * z->width, to - from, z->width, z->width), false);
        }
    }
    decode_combine(x, matrix(s->outs, to, z->width, z->width), z->chosen, s->places, s->shares);
}

static void step(serial *s, const decode_prompts *p, int64_t n, decode_result *result,
                 const int64_t *row, const int64_t *count)
{
    const decode_sizes *z = &s->m->sizes;
    const int64_t width = z->width;
    const int32_t *tokens = n ? (s->follow ? s->follow : result)->tokens + (n - 1) * z->batch
                              : p->tokens;
    for (int64_t b = 0; b < z->batch; b++) {
        for (int64_t i = 0; i < count[b]; i++) {
            s->positions[row[b] + i] = (int32_t)(n ? p->length[b] + n - 1 : i);
        }
    }
    for (int64_t r = 0; r < s->rows; r++) {
        memcpy(s->x + r * width, decode_floats(&s->m->embedding) + tokens[r] * width,
               (size_t)width * sizeof(float));
    }
    const decode_matrix x = matrix(s->x, s->rows, width, width),
                        normed = matrix(s->normed, s->rows, width, width);
    for (int64_t l = 0, moe = 0; l < z->layers; l++) {
        const decode_layer *layer = &s->m->layers[l];
        attention(s, l, row, count);
        decode_normalise(x, decode_floats(&layer->ffn_norm), normed);
        if (layer->moe) {
            experts(s, layer, normed, x,
                    s->follow ? decode_route_at(s->follow, z, p, n, moe) : NULL,
                    decode_route_at(result, z, p, n, moe));
            moe++;
        } else {
            feed_forward(s, layer->ffn, normed, x, true);
        }
    }
    /* The last row of each sequence gives its next token. */
    for (int64_t b = 0; b < z->batch; b++) {
        memcpy(s->q + b * width, s->x + (row[b] + count[b] - 1) * width,
               (size_t)width * sizeof(float));
    }
    const decode_matrix last = matrix(s->normed, z->batch, width, width),
                        logits = matrix(decode_logits_at(result, z, n), z->batch, z->vocabulary,
                                        z->vocabulary);
    decode_normalise(matrix(s->q, z->batch, width, width), decode_floats(&s->m->norm), last);
    linear(s, last, &s->m->head, logits, false);
    decode_argmax(logits, result->tokens + n * z->batch);
}

/* Places all scratch arrays in one block of memory. With NULL it only computes the size. */
static uint64_t place(serial *s, const decode_prompts *p, float *memory)
{
    const decode_sizes *z = &s->m->sizes;
    const int64_t rows = p->rows > z->batch ? p->rows : z->batch, all = rows * z->chosen,
                  most = z->hidden > z->expert_hidden ? z->hidden : z->expert_hidden,
                  wide = z->heads * z->dim > z->width ? z->heads * z->dim : z->width,
                  part = (s->tile < most ? s->tile : most),
                  cache = z->layers * z->batch * z->kv_heads * s->context * z->dim;
    struct {
        float **at;
        int64_t count;
    } parts[] = {{&s->x, rows * z->width},
                 {&s->normed, rows * z->width},
                 {&s->q, rows * wide},
                 {&s->k, rows * z->kv_heads * z->dim},
                 {&s->v, rows * z->kv_heads * z->dim},
                 {&s->seen, rows * wide},
                 {&s->gate, all * part},
                 {&s->up, all * part},
                 {&s->hidden, all * most},
                 {&s->grouped, all * z->width},
                 {&s->outs, all * z->width},
                 {&s->scores, rows * z->experts},
                 {&s->shares, all},
                 {&s->state, rows * z->heads * attention_width(z->dim)},
                 {&s->keys, cache},
                 {&s->values, cache}};
    uint64_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].at = memory ? memory + used : NULL;
        used += (uint64_t)((parts[i].count + 15) / 16 * 16);
    }
    return used;
}

pto_status decode_serial(const decode_model *m, const decode_prompts *p, int64_t tile, int64_t page,
                         const decode_result *follow, decode_result *result)
{
    const decode_sizes *z = &m->sizes;
    serial s = {.m = m, .follow = follow, .tile = tile, .page = page};
    s.context = (decode_positions(z) + page - 1) / page * page;
    float *memory = workload_alloc(place(&s, p, NULL), sizeof(float));
    const int64_t rows = p->rows > z->batch ? p->rows : z->batch;
    s.positions = workload_alloc((uint64_t)rows, sizeof *s.positions);
    s.places = workload_alloc((uint64_t)(rows * z->chosen), sizeof *s.places);
    int64_t *row = workload_alloc((uint64_t)z->batch, sizeof *row),
            *count = workload_alloc((uint64_t)z->batch, sizeof *count);
    const bool good = memory && s.positions && s.places && row && count;
    for (int64_t n = 0; good && !s.wrong && n < z->tokens; n++) {
        if (!n) {
            (void)place(&s, p, memory);
        }
        for (int64_t b = 0; b < z->batch; b++) {
            row[b] = n ? b : p->row[b];
            count[b] = n ? 1 : p->length[b];
        }
        s.rows = n ? z->batch : p->rows;
        step(&s, p, n, result, row, count);
    }
    workload_free(memory);
    workload_free(s.positions);
    workload_free(s.places);
    workload_free(row);
    workload_free(count);
    if (s.wrong) {
        return pto_fail(PTO_KERNEL_FAILED, "the experts chosen are not the best ones");
    }
    return good ? PTO_OK : PTO_OUT_OF_MEMORY;
}
