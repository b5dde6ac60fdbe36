/* decode_step.h - a decode step that is cut for a GPU, on the host: how it is cut (decode_cut.c), the tasks of a pass
 * (decode_step.c), and the run (decode_block.c). */
#ifndef DECODE_STEP_H
#define DECODE_STEP_H

#include "decode.h"
#include "decode_pack.h"
#include "decode_stages.h"

enum {
    MOST_PIECES = 256, /* of a stage */
    MOST_EDGES = 256   /* between two stages, where one task could stand between them */
};

typedef struct decode_stages {
#define KERNEL(name, type) pto_kernel name;
    DECODE_BLOCK_KERNELS(KERNEL)
#undef KERNEL
} decode_stages;

/* q, k or v, as [rows or pages, heads, 2, half a head, tokens of a page], and the first piece of its first head. */
typedef struct decode_heads {
    pto_tensor all, first;
} decode_heads;

/* What the tasks of a layer leave to those of the next stage. It is the same memory in every other pass: the
 * runtime knows all views of it from then on, and the cache of a GPU keeps it. It is memory of the program, for
 * which nothing has to be counted. Each layer has its own, up to 8 of them, and passes take turns. So when a task
 * is submitted, those that used this memory last are complete, and it does not wait for them. */
typedef struct decode_scratch {
    decode_heads q;    /* [rows, heads, 2, half a head] */
    pto_tensor heads;  /* [heads, rows, width]: parts of x */
    pto_tensor x1, x2; /* [rows, width] */
    pto_tensor shares; /* [rows, chosen], of the experts of each row */
    pto_tensor parts
        [2]; /* [pieces, rows, width], and with experts [groups * pieces, rows, width]: parts of x */
    pto_tensor joined; /* written when all parts are there */
} decode_scratch;

enum {
    MOST_TURNS = 8,
    PASSES = 2 /* with scratch memory of their own: while one runs, the next is submitted */
};

struct decode_block {
    decode_stages k;
    int64_t passes, groups;          /* groups of rows that have an expert in common */
    decode_cuts cuts;                /* of the weights */
    decode_cut rows;                 /* of a task of attention */
    decode_cut mix, sum, expert_sum; /* of the width */
    int32_t *feed_tokens;            /* [longest prompt, batch]; -1: none yet */
    int32_t *info;                   /* [batch, 1 + table_width]: see decode_block.h */
    int32_t *routes;                 /* [passes, moe layers, batch, chosen] */
    decode_packed packed;
    float *floats; /* scratch memory */
    int32_t *integers;
    int64_t n_floats, n_integers;

    /* On the device. */
    pto_tensor image, keys, values, t_floats, t_integers;
    pto_tensor t_feed_tokens, t_info, t_routes, t_tokens, t_logits;
    pto_tensor x[PASSES];    /* the embedded tokens */
    pto_tensor best[PASSES]; /* candidates for the next ones: [pieces, 2, rows] */
    decode_heads *layer_keys, *layer_values;
    int64_t turns;
    decode_scratch scratch[PASSES * MOST_TURNS];
};

/* The scratch memory of a layer in a pass. */
static inline const decode_scratch *decode_scratch_of(const struct decode_block *b, int64_t pass,
                                                      int64_t l)
{
    return &b->scratch[pass % PASSES * b->turns + l % b->turns];
}

/* The first pass in which a sequence has a token: all prompts end in the same one. */
static inline int64_t decode_begins(const decode *d, int64_t b)
{
    return d->model.sizes.prompt - d->prompts.length[b];
}

/* Index `at` of the first dim, which goes away. */
static inline pto_status decode_item(const pto_tensor *t, int64_t at, pto_tensor *item)
{
    return pto_tensor_select(t, 0, at, item);
}

/* Divides the memory on the device among layers and passes, before the first one. */
pto_status decode_step_place(decode *d);

/* Submits the tasks of a pass. */
pto_status decode_step_submit(const decode *d, int64_t pass);

#endif /* DECODE_STEP_H */
