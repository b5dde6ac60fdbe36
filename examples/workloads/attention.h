/* attention.h - the data of the workload `attention`: sizes, tokens, the pool, the outputs.
 *
 * Queries, keys and values are seeded for one long row of tokens. A sequence is a piece of that
 * row, given by its first token and its length.
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "attention_kernels.h"
#include "workload.h"

/* A sequence; its newest token is the query. */
typedef struct turn {
    int64_t first;  /* its first token */
    int64_t length; /* including the newest token */
    bool arrives;   /* decode: it replaces another sequence */
} turn;

/* A sequence in the cache. */
typedef struct sequence {
    int64_t first, length;
    int64_t n_pages;
    int64_t *pages; /* the block table: indices of pages in the pool */
} sequence;

typedef struct attention {
    int64_t batch, heads, kv_heads, dim, max_len, page, steps, chunk, query_block, key_block;
    int64_t group;   /* query heads that share a KV head */
    int64_t tokens;  /* length of the long row */
    int64_t most;    /* pages of the longest sequence */
    int64_t n_pages; /* pages of the pool */
    double scale;    /* scale of the scores: 1 / sqrt(dim) */
    bool decode, prefill;

    turn *turns;       /* [steps, batch]: the sequences of each step */
    turn *prompts;     /* [batch], for prefill */
    sequence *serving; /* [batch], for decode */
    int64_t *tables;   /* [batch, most]: their block tables */
    int64_t *free_pages, n_free;
    uint64_t done; /* steps of progress */

    float *q, *k, *v; /* [tokens, heads, dim], [tokens, kv_heads, dim] twice */
    float *pool;      /* [n_pages, 2, kv_heads, dim * page] */
    float *decoded;   /* [steps * batch, heads, dim] */
    float *prefilled; /* [batch * max_len, heads, dim] */

    /* Where the tasks work: the memory above, or with --device copies of it there. */
    pto_tensor tq, tk, tv, tdecoded, tprefilled;
    pto_tensor k_pool, v_pool; /* [n_pages, kv_heads, dim, page], [n_pages, kv_heads, page, dim] */
    attention_kernels kernels;
    pto_kernel store; /* copies tokens into a page, on a device */
} attention;

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Checks the outputs. */
pto_status attention_check(workload_job *job);

#endif /* ATTENTION_H */
