/* attention_kernels.h - softmax(q k') v in pieces: the kernels that `attention` and `decode` share.
 *
 * A query looks at its keys block by block. What it knows so far is its state: the largest score m,
 * the sum l of exp(score - m) and the sum of exp(score - m) * value, `dim` numbers. A block of keys
 * brings the state up to date (attend), states over different keys can be put together (merge), and
 * dividing by l gives the result (finish).
 *
 *     a row of state    | sum of values: dim floats | ... | m | l |    attention_width(dim) floats
 *
 * Several query heads may share one head of keys and values; they stand beside each other in q.
 *
 * All is float32. The order of every sum follows from the arguments alone: neither strides nor the
 * place of a block change a bit. Scores may be as large as floats are, and -inf; what a query does
 * not see counts for nothing, and one that sees no key gets zeros. Only values must be finite.
 */
#ifndef ATTENTION_KERNELS_H
#define ATTENTION_KERNELS_H

#include <pto/pto.h>

#define ATTENTION_MAX_DIM 512
#define ATTENTION_ALL INT64_MAX /* as `visible`: no mask */

/* Floats of a row of state: whole lines of cache, with m and l in the last one. */
static inline int64_t attention_width(int64_t dim)
{
    return (dim + 2 + 15) / 16 * 16;
}

/* ---- As plain functions ---------------------------------------------------------------------- */

/* A block of queries and one of keys. Strides are in floats; those not named here are 1. */
typedef struct attention_block {
    int64_t positions, heads; /* queries: so many positions, so many heads at each */
    int64_t keys, dim;        /* dim: of a head, at most ATTENTION_MAX_DIM */
    const float *q;           /* [positions, heads, dim] */
    int64_t q_position, q_head;
    const float *k; /* [keys, dim]; fastest where keys lie beside each other: k_key = 1 */
    int64_t k_key, k_dim;
    const float *v; /* [keys, dim] */
    int64_t v_key;
    int64_t visible; /* position i sees the first visible + i keys, or ATTENTION_ALL */
    float scale;     /* score = scale * (q . k) */
    float *state;    /* [positions * heads, attention_width(dim)]: position 0's heads come first */
    int64_t state_row;
} attention_block;

/* States that have seen nothing; a block more; into += from; out = the result. */
void attention_begin(int64_t rows, int64_t dim, float *state, int64_t state_row);
void attention_attend(const attention_block *block);
void attention_merge(int64_t rows, int64_t dim, float *into, int64_t into_row, const float *from,
                     int64_t from_row);
void attention_finish(int64_t positions, int64_t heads, int64_t dim, const float *state,
                      int64_t state_row, float *out, int64_t out_position, int64_t out_head);

/* Floating-point operations of one query head that looks at so many keys: two products. */
static inline double attention_flops(double keys, double dim)
{
    return 4 * keys * dim;
}

/* Which instructions they use on this machine: "AVX-512", "AVX2", "portable". */
const char *attention_isa(void);

/* For tests: all that this machine has, best first, then NULL; and attending with one of them. */
const char *attention_isa_at(size_t index);
void attention_attend_with(size_t isa, const attention_block *block);

/* ---- As kernels of the runtime --------------------------------------------------------------- */

/* Tensors may be views, where the last dim has a stride of 1 (keys: any).
 *
 *     first    output state, input q, scalar scale, scalar visible, then keys and values
 *     next     inout state, input q, scalar scale, scalar visible, then keys and values
 *     merge    inout state, input state
 *     finish   input state, output out
 *
 *     state         [positions * heads, attention_width(dim)]
 *     q, out        [positions, heads, dim]
 *     keys, values  inputs [n, dim] and [n, dim]: as many pairs as there are, like the pages of a
 *                   chunk; they are one long block, of which `visible` keys are seen as above
 */
typedef struct attention_kernels {
    pto_kernel first, next, merge, finish;
} attention_kernels;

pto_status attention_register(pto_runtime *rt, attention_kernels *kernels);

#endif /* ATTENTION_KERNELS_H */
