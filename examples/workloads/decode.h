/* decode.h - one run of `decode`: shared by its orchestration (decode.c) and by what stands
 * around it, the options, the data and the checks (decode_job.c). */
#ifndef DECODE_H
#define DECODE_H

#include "decode_kernels.h"
#include "decode_model.h"

#define DECODE_MAX_EXPERTS 256
#define DECODE_CHUNK 8 /* pages that one task of attention looks at: each is two arguments */

enum {
    DECODE_LAYERS,
    DECODE_WIDTH,
    DECODE_HEADS,
    DECODE_KV_HEADS,
    DECODE_DIM,
    DECODE_HIDDEN,
    DECODE_VOCABULARY,
    DECODE_MOE_EVERY,
    DECODE_EXPERTS,
    DECODE_CHOSEN,
    DECODE_EXPERT_HIDDEN,
    DECODE_BATCH,
    DECODE_PROMPT,
    DECODE_TOKENS,
    DECODE_PAGE,
    DECODE_PAGES,
    DECODE_TILE,
    DECODE_COMPARE,
    DECODE_WEIGHTS,
    DECODE_SAVE_WEIGHTS,
    DECODE_OPTIONS,
};

extern const workload_option decode_options[DECODE_OPTIONS];

/* What a sequence adds in a step: rows of x, the first of them at this position of its text. */
typedef struct decode_share {
    int64_t row, rows, position;
} decode_share;

typedef struct decode {
    workload_job *job;
    pto_runtime *rt;
    decode_model model;
    decode_kernels k;
    decode_prompts prompts;
    decode_result result;
    int64_t tile, page, compare;

    /* The pool. A page holds keys and values of `page` tokens of one sequence, for all layers. Both
     * are [layers, pages, kv_heads, page, dim] to look at; in memory the keys of a page are turned,
     * for attention is fastest so. The table says which pages a sequence has, in order. */
    pto_tensor keys, values;
    int64_t pages, pages_used, table_width;
    int32_t *table; /* [batch, table_width] */
    float *pool;

    decode_share *shares;                       /* [batch], of this step */
    int32_t *positions, *last, *order, *places; /* of this step, on their way into tensors */
    double seconds[2];                          /* for the prompts, and for all other steps */
    bool told;
} decode;

pto_status decode_prepare(workload_job *job);
pto_status decode_restore(workload_job *job);
pto_status decode_check(workload_job *job);
void decode_discard(workload_job *job);

/* Prints what was generated, how fast, and what the routing did; once. */
void decode_tell(decode *d);

#endif /* DECODE_H */
