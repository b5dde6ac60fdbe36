/* decode_model.c - the weights of `decode`: their names, and how they are made, loaded and saved.
 */
#include "decode_model.h"

#include "safetensors.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROPE_BASE 10000.0

struct decode_weight {
    char name[80];
    int64_t rows, columns; /* as in the file; rows 0: a vector */
    bool turned;           /* transposed in memory */
    pto_tensor *tensor;
    double mean, spread; /* for a seeded weight: uniform in mean - spread .. mean + spread */
};

/* ---- Sizes ---------------------------------------------------------------------------------- */

static long long print(int64_t n)
{
    return (long long)n;
}

pto_status decode_sizes_check(const decode_sizes *s)
{
    if (s->heads % s->kv_heads) {
        return pto_fail(
            PTO_BAD_CONFIG,
            "%lld heads cannot share %lld heads of keys and values evenly: --heads must "
            "be a multiple of --kv-heads",
            print(s->heads), print(s->kv_heads));
    }
    if (s->dim % 2) {
        return pto_fail(PTO_BAD_CONFIG,
                        "RoPE rotates pairs of numbers: --dim must be even, not %lld",
                        print(s->dim));
    }
    if (s->moe_every && s->chosen > s->experts) {
        return pto_fail(PTO_BAD_CONFIG, "--chosen %lld is more than --experts %lld",
                        print(s->chosen), print(s->experts));
    }
    return PTO_OK;
}

double decode_flops(const decode_sizes *s, int64_t position)
{
    const double width = (double)s->width, queries = (double)(s->heads * s->dim),
                 keys = (double)(s->kv_heads * s->dim);
    const double projections = 2 * width * (2 * queries + 2 * keys);
    const double attention = 4 * queries * (double)(position + 1);
    const double dense = 6 * width * (double)s->hidden;
    const double routed = width * (double)(2 * s->experts + 6 * s->chosen * s->expert_hidden);
    const int64_t moe = decode_moe_layers(s);
    return (double)s->layers * (projections + attention) + (double)(s->layers - moe) * dense +
           (double)moe * routed;
}

/* ---- The list of weights --------------------------------------------------------------------- */

/* Adds a weight of `rows` x `columns`, or a vector if `rows` is 0. The spread of a seeded matrix
 * makes its outputs as large as its inputs, times `gain`. */
static PTO_PRINTF(6, 7) void add(decode_model *m, pto_tensor *tensor, int64_t rows, int64_t columns,
                                 double gain, const char *name, ...)
{
    decode_weight *w = &m->weights[m->n_weights++];
    va_list args;
    va_start(args, name);
    (void)vsnprintf(w->name, sizeof w->name, name, args);
    va_end(args);
    w->tensor = tensor;
    w->rows = rows;
    w->columns = columns;
    w->turned = rows && tensor != &m->embedding;
    w->mean = rows ? 0 : 1;
    w->spread = rows ? gain * sqrt(3 / (double)columns) : 0.1;
}

static void add_layer(decode_model *m, int64_t l, decode_ffn *ffn)
{
    const decode_sizes *s = &m->sizes;
    decode_layer *layer = &m->layers[l];
    const long long n = (long long)l;
    const int64_t width = s->width, queries = s->heads * s->dim, keys = s->kv_heads * s->dim;
    /* Each layer adds two branches. This keeps their sum about as large as the embedding. */
    const double branch = 1 / sqrt(2 * (double)s->layers);
    layer->ffn = ffn;
    layer->moe = decode_has_experts(s, l);
    add(m, &layer->attention_norm, 0, width, 0, "model.layers.%lld.input_layernorm.weight", n);
    add(m, &layer->q, queries, width, 1, "model.layers.%lld.self_attn.q_proj.weight", n);
    add(m, &layer->k, keys, width, 1, "model.layers.%lld.self_attn.k_proj.weight", n);
    add(m, &layer->v, keys, width, 1, "model.layers.%lld.self_attn.v_proj.weight", n);
    add(m, &layer->o, width, queries, branch, "model.layers.%lld.self_attn.o_proj.weight", n);
    add(m, &layer->ffn_norm, 0, width, 0, "model.layers.%lld.post_attention_layernorm.weight", n);
    if (!layer->moe) {
        add(m, &ffn->gate, s->hidden, width, 1, "model.layers.%lld.mlp.gate_proj.weight", n);
        add(m, &ffn->up, s->hidden, width, 1, "model.layers.%lld.mlp.up_proj.weight", n);
        add(m, &ffn->down, width, s->hidden, branch, "model.layers.%lld.mlp.down_proj.weight", n);
        return;
    }
    add(m, &layer->router, s->experts, width, 1, "model.layers.%lld.block_sparse_moe.gate.weight",
        n);
    for (int64_t e = 0; e < s->experts; e++) {
        static const char format[] = "model.layers.%lld.block_sparse_moe.experts.%lld.w%d.weight";
        add(m, &ffn[e].gate, s->expert_hidden, width, 1, format, n, (long long)e, 1);
        add(m, &ffn[e].down, width, s->expert_hidden, branch, format, n, (long long)e, 2);
        add(m, &ffn[e].up, s->expert_hidden, width, 1, format, n, (long long)e, 3);
    }
}

static void add_all(decode_model *m)
{
    const decode_sizes *s = &m->sizes;
    decode_ffn *ffn = m->all_ffn;
    add(m, &m->embedding, s->vocabulary, s->width, sqrt((double)s->width),
        "model.embed_tokens.weight");
    for (int64_t l = 0; l < s->layers; l++) {
        add_layer(m, l, ffn);
        ffn += m->layers[l].moe ? s->experts : 1;
    }
    add(m, &m->norm, 0, s->width, 0, "model.norm.weight");
    add(m, &m->head, s->vocabulary, s->width, 1, "lm_head.weight");
}

static int64_t count_of(const decode_weight *w)
{
    return (w->rows ? w->rows : 1) * w->columns;
}

/* Each starts on a cache line. */
static int64_t room_of(const decode_weight *w)
{
    return (count_of(w) + 15) / 16 * 16;
}

static pto_status place(const decode_weight *w, float *at)
{
    const int64_t shape[] = {w->turned ? w->columns : w->rows, w->turned ? w->rows : w->columns};
    return pto_tensor_init(w->tensor, at, (uint64_t)room_of(w) * sizeof(float), PTO_FLOAT32,
                           w->rows ? 2 : 1, w->rows ? shape : &w->columns, NULL, 0);
}

/* The view of a weight with the layout of the file. */
static pto_status file_view(const decode_weight *w, pto_tensor *view)
{
    *view = *w->tensor;
    return w->turned ? pto_tensor_transpose(view, 0, 1, view) : PTO_OK;
}

static pto_status prepare_rope(decode_model *m)
{
    const int64_t positions = decode_positions(&m->sizes), dim = m->sizes.dim, half = dim / 2;
    float *table = m->rope_memory = workload_alloc((uint64_t)(positions * dim), sizeof(float));
    if (!table) {
        return PTO_OUT_OF_MEMORY;
    }
    for (int64_t p = 0; p < positions; p++) {
        for (int64_t i = 0; i < half; i++) {
            const double angle = (double)p * pow(ROPE_BASE, -2.0 * (double)i / (double)dim);
            table[p * dim + i] = (float)cos(angle);
            table[p * dim + half + i] = (float)sin(angle);
        }
    }
    return pto_tensor_init(&m->rope, table, (uint64_t)(positions * dim) * sizeof(float),
                           PTO_FLOAT32, 2, (int64_t[]){positions, dim}, NULL, 0);
}

int64_t decode_model_floats(const decode_model *m)
{
    int64_t room = 0;
    for (size_t i = 0; i < m->n_weights; i++) {
        room += room_of(&m->weights[i]);
    }
    return room;
}

pto_status decode_model_prepare(decode_model *m, const decode_sizes *s)
{
    *m = (decode_model){.sizes = *s};
    const int64_t moe = decode_moe_layers(s), ffns = s->layers - moe + moe * s->experts;
    const int64_t most = 3 + 7 * s->layers + 3 * ffns;
    m->layers = calloc((size_t)s->layers, sizeof *m->layers);
    m->all_ffn = calloc((size_t)ffns, sizeof *m->all_ffn);
    m->weights = calloc((size_t)most, sizeof *m->weights);
    if (!m->layers || !m->all_ffn || !m->weights) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for a list of %lld weights", print(most));
    }
    add_all(m);
    m->memory = workload_alloc((uint64_t)decode_model_floats(m), sizeof(float));
    if (!m->memory) {
        return PTO_OUT_OF_MEMORY;
    }
    float *next = m->memory;
    for (size_t i = 0; i < m->n_weights; i++) {
        const decode_weight *w = &m->weights[i];
        PTO_TRY(place(w, next));
        next += room_of(w);
    }
    return prepare_rope(m);
}

void decode_model_discard(decode_model *m)
{
    workload_free(m->memory);
    workload_free(m->rope_memory);
    free(m->layers);
    free(m->all_ffn);
    free(m->weights);
    *m = (decode_model){0};
}

/* ---- Where they come from -------------------------------------------------------------------- */

void decode_model_seed(decode_model *m, uint64_t seed)
{
    for (size_t i = 0; i < m->n_weights; i++) {
        const decode_weight *w = &m->weights[i];
        workload_rng rng = workload_rng_make(seed, i + 1);
        float *to = w->tensor->storage;
        for (int64_t e = 0, count = count_of(w); e < count; e++) {
            to[e] = (float)(w->mean + w->spread * (2 * workload_uniform(&rng) - 1));
        }
    }
}

static bool is_weight(const decode_model *m, const char *name)
{
    for (size_t i = 0; i < m->n_weights; i++) {
        if (!strcmp(m->weights[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* The file must contain all weights and nothing else. An unused tensor means that the file belongs
 * to another model, perhaps one with more layers. */
static pto_status load_from(decode_model *m, safetensors *file, const char *path)
{
    for (size_t i = 0; i < m->n_weights; i++) {
        pto_tensor view;
        PTO_TRY(file_view(&m->weights[i], &view));
        PTO_TRY(safetensors_read(file, m->weights[i].name, &view));
    }
    for (size_t i = 0; safetensors_count(file) != m->n_weights && i < safetensors_count(file);
         i++) {
        const char *name = safetensors_at(file, i)->name;
        if (!is_weight(m, name)) {
            return pto_fail(PTO_BAD_PARAM,
                            "%s: %zu tensors, the model has %zu weights: %.100s is none of them",
                            path, safetensors_count(file), m->n_weights, name);
        }
    }
    return PTO_OK;
}

pto_status decode_model_load(decode_model *m, const char *path)
{
    safetensors *file;
    PTO_TRY(safetensors_open(path, &file));
    const pto_status status = load_from(m, file, path);
    safetensors_close(&file);
    return status;
}

pto_status decode_model_save(const decode_model *m, const char *path)
{
    safetensor_source *sources = calloc(m->n_weights, sizeof *sources);
    if (!sources) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for a list of %zu weights", m->n_weights);
    }
    pto_status status = PTO_OK;
    for (size_t i = 0; !status && i < m->n_weights; i++) {
        sources[i].name = m->weights[i].name;
        status = file_view(&m->weights[i], &sources[i].tensor);
    }
    if (!status) {
        status = safetensors_save(path, sources, m->n_weights);
    }
    free(sources);
    return status;
}

/* ---- In and out ------------------------------------------------------------------------------ */

pto_status decode_prompts_prepare(decode_prompts *p, const decode_sizes *s, uint64_t seed)
{
    workload_rng rng = workload_rng_make(seed, 0);
    *p = (decode_prompts){0};
    p->length = workload_alloc((uint64_t)s->batch, sizeof *p->length);
    p->row = workload_alloc((uint64_t)s->batch, sizeof *p->row);
    p->tokens = workload_alloc((uint64_t)(s->batch * s->prompt), sizeof *p->tokens);
    if (!p->length || !p->row || !p->tokens) {
        return PTO_OUT_OF_MEMORY;
    }
    for (int64_t b = 0; b < s->batch; b++) {
        /* The first prompt has the maximum length, the others at least half of it. */
        const uint64_t less = (uint64_t)(b ? s->prompt / 2 : 0) + 1;
        p->length[b] = s->prompt - (int64_t)(workload_random(&rng) % less);
        p->row[b] = p->rows;
        for (int64_t i = 0; i < p->length[b]; i++) {
            p->tokens[p->rows++] = (int32_t)(workload_random(&rng) % (uint64_t)s->vocabulary);
        }
    }
    return PTO_OK;
}

void decode_prompts_discard(decode_prompts *p)
{
    workload_free(p->length);
    workload_free(p->row);
    workload_free(p->tokens);
    *p = (decode_prompts){0};
}

pto_status decode_result_prepare(decode_result *r, const decode_sizes *s, const decode_prompts *p)
{
    const int64_t rows = p->rows + (s->tokens - 1) * s->batch;
    *r = (decode_result){0};
    /* The logits first, because they are by far the largest. If they do not fit, nothing else is
     * allocated. */
    r->logits = workload_alloc((uint64_t)(s->tokens * s->batch * s->vocabulary), sizeof *r->logits);
    if (!r->logits) {
        return PTO_OUT_OF_MEMORY;
    }
    r->tokens = workload_alloc((uint64_t)(s->tokens * s->batch), sizeof *r->tokens);
    r->routes = workload_alloc((uint64_t)(rows * decode_moe_layers(s) * s->chosen + 1),
                               sizeof *r->routes);
    return r->tokens && r->routes ? PTO_OK : PTO_OUT_OF_MEMORY;
}

void decode_result_discard(decode_result *r)
{
    workload_free(r->tokens);
    workload_free(r->logits);
    workload_free(r->routes);
    *r = (decode_result){0};
}
