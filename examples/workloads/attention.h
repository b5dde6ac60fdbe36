/* attention.h - what the workload `attention` is made of: sizes, tokens, the pool, the outputs.
 *
 * Sequences are pieces of one long row of tokens that have seeded queries, keys and values, so a
 * sequence is known by its first token and its length.
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "attention_kernels.h"
#include "workload.h"

/* A sequence, and its newest token, which asks. */
typedef struct turn {
    int64_t first;  /* its first token */
    int64_t length; /* with the newest one */
    bool arrives;   /* decode: another one was in its place before */
} turn;

/* A sequence in the cache. */
typedef struct sequence {
    int64_t first, length;
    int64_t n_pages;
    int64_t *pages; /* the block table: numbers of pages in the pool */
} sequence;

typedef struct attention {
    int64_t batch, heads, kv_heads, dim, max_len, page, steps, chunk, query_block, key_block;
    int64_t group;   /* query heads that share a head of keys and values */
    int64_t tokens;  /* of the long row */
    int64_t most;    /* pages of the longest sequence */
    int64_t n_pages; /* of the pool */
    double scale;    /* of scores: 1 / sqrt(dim) */
    bool decode, prefill;

    turn *turns;       /* [steps, batch]: who is served when */
    turn *prompts;     /* [batch], of prefill */
    sequence *serving; /* [batch], of decode */
    int64_t *tables;   /* [batch, most]: their block tables */
    int64_t *free_pages, n_free;
    uint64_t done; /* steps of progress */

    float *q, *k, *v; /* [tokens, heads, dim], [tokens, kv_heads, dim] twice */
    float *pool;      /* [n_pages, 2, kv_heads, dim * page] */
    float *decoded;   /* [steps * batch, heads, dim] */
    float *prefilled; /* [batch * max_len, heads, dim] */

    pto_tensor tq, tk, tv, tdecoded, tprefilled;
    pto_tensor k_pool, v_pool; /* [n_pages, kv_heads, dim, page], [n_pages, kv_heads, page, dim] */
    attention_kernels kernels;
} attention;

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Compares the outputs with what they should be. */
pto_status attention_check(workload_job *job);

#endif /* ATTENTION_H */
