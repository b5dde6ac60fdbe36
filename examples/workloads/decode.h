/* decode.h - one run of `decode`: shared by its orchestration (decode.c) and by its options, data
 * and checks (decode_job.c). */
#ifndef DECODE_H
#define DECODE_H

#include "decode_kernels.h"
#include "decode_model.h"

#define DECODE_MAX_EXPERTS 256
#define DECODE_CHUNK 8 /* pages per attention task; each page is two arguments */

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
    DECODE_DEVICE,
    DECODE_BLOCKS,
    DECODE_OPTIONS,
};

extern const workload_option decode_options[DECODE_OPTIONS];

/* The rows of a sequence in a step: rows of x, and the position of the first of them. */
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

    /* The pool. A page holds the keys and values of `page` tokens of one sequence, for all layers.
     * Both views are [layers, pages, kv_heads, page, dim]. In memory the keys of a page are
     * transposed, because that is fastest for attention. The table says which pages a sequence has,
     * in order. */
    pto_tensor keys, values;
    int64_t pages, pages_used, table_width;
    int32_t *table; /* [batch, table_width] */
    float *pool;

    decode_share *shares;                       /* [batch], of this step */
    int32_t *positions, *last, *order, *places; /* of this step, to be copied into tensors */
    double seconds[2];                          /* for the prompts, and for all later steps */
    double submitting; /* --device: of the later steps, seconds in which tasks were submitted */
    struct decode_block *block; /* --device: decode_block.c */
    bool told;
    uint64_t first_hash; /* of tokens and logits of the first run; 0: there was none */
} decode;

pto_status decode_prepare(workload_job *job);
pto_status decode_restore(workload_job *job);
pto_status decode_check(workload_job *job);
void decode_discard(workload_job *job);

/* The same on a device (decode_block.c). */
pto_status decode_block_prepare(decode *d);
pto_status decode_block_start(decode *d);
pto_status decode_block_run(decode *d);
void decode_block_discard(decode *d);

double decode_seconds(void); /* a clock */

/* Prints the generated tokens, the speed, and the use of experts; once. */
void decode_tell(decode *d);

#endif /* DECODE_H */
