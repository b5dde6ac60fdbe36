/* decode_model.h - the model that `decode` runs: its sizes, its weights, its input and output.
 *
 * A decoder like Llama and Mixtral, float32, with their names for the weights:
 *
 *     model.embed_tokens.weight                          [vocabulary, width]
 *     model.layers.N.input_layernorm.weight              [width]
 *                   .self_attn.q_proj.weight             [heads * dim, width]
 *                   .self_attn.k_proj.weight, .v_proj    [kv_heads * dim, width]
 *                   .self_attn.o_proj.weight             [width, heads * dim]
 *                   .post_attention_layernorm.weight     [width]
 *       most layers .mlp.gate_proj.weight, .up_proj      [hidden, width]
 *                   .mlp.down_proj.weight                [width, hidden]
 *       the others  .block_sparse_moe.gate.weight        [experts, width]
 *                   .block_sparse_moe.experts.E.w1, .w3  [expert_hidden, width]   (gate, up)
 *                                              .w2       [width, expert_hidden]   (down)
 *     model.norm.weight                                  [width]
 *     lm_head.weight                                     [vocabulary, width]
 *
 * In memory all matrices but the embedding are transposed: y = x w, with one column of w for each
 * element of y. So the numbers of a vector instruction are adjacent. */
#ifndef DECODE_MODEL_H
#define DECODE_MODEL_H

#include "workload.h"

#define DECODE_EPSILON 1e-5 /* epsilon of RMSNorm */

typedef struct decode_sizes {
    int64_t layers, width, heads, kv_heads, dim, hidden, vocabulary; /* dim: dimension of a head */
    int64_t experts, chosen, expert_hidden, moe_every; /* moe_every 0: no layer has experts */
    int64_t batch, prompt, tokens;                     /* sequences; longest prompt; new tokens */
} decode_sizes;

/* Checks the sizes, with an error message. */
pto_status decode_sizes_check(const decode_sizes *sizes);

/* Positions of the longest sequence. The last new token is never fed back. */
static inline int64_t decode_positions(const decode_sizes *s)
{
    return s->prompt + s->tokens - 1;
}

static inline bool decode_has_experts(const decode_sizes *s, int64_t layer)
{
    return s->moe_every && (layer + 1) % s->moe_every == 0;
}

static inline int64_t decode_moe_layers(const decode_sizes *s)
{
    return s->moe_every ? s->layers / s->moe_every : 0;
}

/* Floating-point operations of one token at this position in all layers, without the product for
 * the logits. */
double decode_flops(const decode_sizes *sizes, int64_t position);

/* ---- Weights -------------------------------------------------------------------------------- */

typedef struct decode_ffn {
    pto_tensor gate, up, down;
} decode_ffn;

typedef struct decode_layer {
    pto_tensor attention_norm, q, k, v, o, ffn_norm;
    pto_tensor router; /* only in a layer with experts */
    decode_ffn *ffn;   /* one, or one for each expert */
    bool moe;
} decode_layer;

typedef struct decode_weight decode_weight; /* one weight and its name */

typedef struct decode_model {
    decode_sizes sizes;
    pto_tensor embedding, norm, head;
    decode_layer *layers;
    pto_tensor rope; /* [positions, dim]: cosines, then sines, of the angles of each position */

    decode_weight *weights; /* all weights, for loading and saving */
    size_t n_weights;
    decode_ffn *all_ffn;
    float *memory, *rope_memory;
} decode_model;

/* Allocates all weights and the table of angles. Call discard also after a failure. */
pto_status decode_model_prepare(decode_model *model, const decode_sizes *sizes);
void decode_model_discard(decode_model *model);

/* The floats of all weights: `memory` has so many. */
int64_t decode_model_floats(const decode_model *model);

/* Makes the weights from a seed; loads them from a safetensors file that contains exactly these
 * weights; saves them. */
void decode_model_seed(decode_model *model, uint64_t seed);
pto_status decode_model_load(decode_model *model, const char *path);
pto_status decode_model_save(const decode_model *model, const char *path);

static inline const float *decode_floats(const pto_tensor *t)
{
    return (const float *)t->storage + t->offset;
}

/* ---- In and out ----------------------------------------------------------------------------- */

/* The prompts. A step passes rows of `width` numbers through the model. The first step has one row
 * for every token of every prompt, sequence by sequence. A later step has one row per sequence. */
typedef struct decode_prompts {
    int64_t *length; /* [batch], 1 to the longest */
    int64_t *row;    /* [batch]: first row of each sequence in the first step */
    int64_t rows;    /* total number of rows */
    int32_t *tokens; /* [rows] */
} decode_prompts;

pto_status decode_prompts_prepare(decode_prompts *prompts, const decode_sizes *sizes,
                                  uint64_t seed);
void decode_prompts_discard(decode_prompts *prompts);

/* The results. */
typedef struct decode_result {
    int32_t *tokens; /* [tokens, batch] */
    float *logits;   /* [tokens, batch, vocabulary]; each token is the argmax of its logits */
    int32_t *routes; /* the chosen experts of each row: see decode_route_at */
} decode_result;

pto_status decode_result_prepare(decode_result *result, const decode_sizes *sizes,
                                 const decode_prompts *prompts);
void decode_result_discard(decode_result *result);

static inline float *decode_logits_at(const decode_result *r, const decode_sizes *s, int64_t step)
{
    return r->logits + step * s->batch * s->vocabulary;
}

/* The [rows, chosen] experts of a step, in the `moe`-th layer with experts. */
static inline int32_t *decode_route_at(const decode_result *r, const decode_sizes *s,
                                       const decode_prompts *p, int64_t step, int64_t moe)
{
    const int64_t before = step ? p->rows + (step - 1) * s->batch : 0;
    const int64_t rows = step ? s->batch : p->rows;
    return r->routes + (before * decode_moe_layers(s) + moe * rows) * s->chosen;
}

/* ---- The same without a runtime ------------------------------------------------------------ */

/* Runs the kernels of `decode` in a serial loop (decode_serial.c), in tiles of `tile` columns. The
 * results are equal, bit for bit, to those of the tasks. If `tile` is at least as large as all
 * sizes, each product is one call.
 *
 * With `follow`, a result of other kernels, which round in another way: it takes the tokens and experts
 * of that. PTO_KERNEL_FAILED: these experts were not the best, within the tolerance. */
pto_status decode_serial(const decode_model *model, const decode_prompts *prompts, int64_t tile,
                         int64_t page, const decode_result *follow, decode_result *result);

/* Two numbers that decide something may differ by so much, relative to the largest. A sum of n products
 * in float is off by about sqrt(n) / 2^24 of its size if errors are random: 3e-6 for the longest sum
 * here. A logit has 4 such sums per layer behind it, which add up to 1e-5 to 3e-5 for up to a hundred
 * layers; six layers show 6e-7. The bound leaves a factor of ten. An error in the model itself (a wrong
 * head, angle or expert) is far beyond it. */
#define DECODE_ALLOWED 2e-4

/* Compares with a separate model (decode_reference.c): loops in double precision that share no code
 * with the kernels. It follows the tokens and experts of `result`, after checking that each was the
 * best within the tolerance, and compares the logits of the first `steps` steps. */
typedef struct decode_comparison {
    double error;    /* largest difference of a logit, divided by the largest logit */
    double allowed;  /* */
    char wrong[160]; /* the error message; "" if the result is right */
} decode_comparison;

pto_status decode_reference(const decode_model *model, const decode_prompts *prompts,
                            const decode_result *result, int64_t steps, decode_comparison *c);

#endif /* DECODE_MODEL_H */
