/* decode_pack.c - makes the image of a model: see decode_pack.h. */
#include "decode_pack.h"

#include <stdlib.h>
#include <string.h>

/* ---- Where everything is ---- */

enum { LINE = 32 }; /* floats of a cache line of a GPU */

static int64_t reserve(int64_t *at, int64_t floats)
{
    const int64_t here = *at;
    *at += (floats + LINE - 1) / LINE * LINE;
    return here;
}

static void lay_out(decode_packed *p, const decode_model *m, int64_t integers)
{
    const decode_sizes *z = &m->sizes;
    const int64_t heads = z->heads + 2 * z->kv_heads;
    int64_t at = 0;
    p->embedding = reserve(&at, z->vocabulary * z->width);
    p->angles = reserve(&at, decode_positions(z) * z->dim);
    p->info = reserve(&at, integers);
    for (int64_t l = 0; l < z->layers; l++) {
        decode_packed_layer *layer = &p->layers[l];
        const bool moe = m->layers[l].moe;
        layer->attention_norm = reserve(&at, z->width);
        layer->heads = reserve(&at, heads * z->width * z->dim);
        layer->o = reserve(&at, z->heads * z->dim * z->width);
        layer->ffn_norm = reserve(&at, z->width);
        layer->router = moe ? reserve(&at, z->width * z->experts) : 0;
        layer->expert = 3 * z->width * (moe ? z->expert_hidden : z->hidden);
        layer->feed = reserve(&at, (moe ? z->experts : 1) * layer->expert);
    }
    p->norm = reserve(&at, z->width);
    p->head_floats = z->width * z->vocabulary;
    p->head = reserve(&at, p->head_floats);
    p->floats = at;
}

/* ---- Copying ---- */

/* Columns first .. first + n - 1 of a matrix to `to`, with rows of `row` floats. */
static void copy_columns(const pto_tensor *from, int64_t first, int64_t n, float *to, int64_t row)
{
    for (int64_t k = 0; k < from->shape[0]; k++) {
        memcpy(to + k * row, decode_floats(from) + k * from->strides[0] + first * from->strides[1],
               (size_t)n * sizeof *to);
    }
}

static void copy_all(const pto_tensor *from, float *to)
{
    memcpy(to, decode_floats(from), (size_t)pto_tensor_numel(from) * sizeof *to);
}

/* The heads of q, k or v. Returns the end. */
static float *copy_heads(const decode_sizes *z, const pto_tensor *w, int64_t heads, decode_cut cut,
                         float *to)
{
    const int64_t half = z->dim / 2;
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = 0; i < cut.pieces; i++) {
            const int64_t t = decode_cut_columns(cut, half, i), at = h * z->dim + i * cut.tile;
            copy_columns(w, at, t, to, 2 * t);
            copy_columns(w, at + half, t, to + t, 2 * t);
            to += z->width * 2 * t;
        }
    }
    return to;
}

/* A feed-forward block, or an expert. Returns the end. */
static float *copy_feed(const decode_sizes *z, const decode_ffn *ffn, decode_cut cut, float *to)
{
    const int64_t hidden = ffn->gate.shape[1];
    for (int64_t i = 0; i < cut.pieces; i++) {
        const int64_t t = decode_cut_columns(cut, hidden, i), at = i * cut.tile;
        copy_columns(&ffn->gate, at, t, to, 2 * t);
        copy_columns(&ffn->up, at, t, to + t, 2 * t);
        to += z->width * 2 * t;
        memcpy(to, decode_floats(&ffn->down) + at * z->width, (size_t)(t * z->width) * sizeof *to);
        to += t * z->width;
    }
    return to;
}

static void copy_layer(decode_packed *p, const decode_model *m, const decode_cuts *cuts, int64_t l)
{
    const decode_sizes *z = &m->sizes;
    const decode_layer *from = &m->layers[l];
    const decode_packed_layer *to = &p->layers[l];
    float *at = p->image + to->heads;
    copy_all(&from->attention_norm, p->image + to->attention_norm);
    at = copy_heads(z, &from->q, z->heads, cuts->heads, at);
    at = copy_heads(z, &from->k, z->kv_heads, cuts->heads, at);
    (void)copy_heads(z, &from->v, z->kv_heads, cuts->heads, at);
    copy_all(&from->o, p->image + to->o);
    copy_all(&from->ffn_norm, p->image + to->ffn_norm);
    if (from->moe) {
        copy_all(&from->router, p->image + to->router);
    }
    at = p->image + to->feed;
    for (int64_t e = 0; e < (from->moe ? z->experts : 1); e++) {
        at = copy_feed(z, &from->ffn[e], from->moe ? cuts->expert : cuts->feed, at);
    }
}

pto_status decode_pack(decode_packed *p, const decode_model *m, const decode_cuts *cuts,
                       const int32_t *info, int64_t integers)
{
    const decode_sizes *z = &m->sizes;
    p->layers = calloc((size_t)z->layers, sizeof *p->layers);
    if (!p->layers) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for the layers of the model");
    }
    lay_out(p, m, integers);
    p->image = workload_alloc((uint64_t)p->floats, sizeof(float));
    if (!p->image) {
        return PTO_OUT_OF_MEMORY;
    }
    copy_all(&m->embedding, p->image + p->embedding);
    copy_all(&m->rope, p->image + p->angles);
    memcpy(p->image + p->info, info, (size_t)integers * sizeof *info);
    for (int64_t l = 0; l < z->layers; l++) {
        copy_layer(p, m, cuts, l);
    }
    copy_all(&m->norm, p->image + p->norm);
    for (int64_t i = 0; i < cuts->logits.pieces; i++) {
        const int64_t t = decode_cut_columns(cuts->logits, z->vocabulary, i);
        copy_columns(&m->head, i * cuts->logits.tile, t,
                     p->image + p->head + i * cuts->logits.tile * z->width, t);
    }
    return PTO_OK;
}

void decode_pack_discard(decode_packed *p)
{
    workload_free(p->image);
    free(p->layers);
}
