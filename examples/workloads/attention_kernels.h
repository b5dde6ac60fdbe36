/* attention_kernels.h - softmax(q k') v in pieces: the kernels that `attention` and `decode` share.
 *
 * A query attends to its keys block by block. Its state so far is the largest score m, the sum l of
 * exp(score - m), and the sum of exp(score - m) * value, which has `dim` numbers. A block of keys
 * updates the state (attend). States over different keys can be merged (merge). Dividing by l gives
 * the result (finish).
 *
 *     a row of state    | sum of values: dim floats | ... | m | l |    attention_width(dim) floats
 *
 * Several query heads may share one KV head; they are adjacent in q.
 *
 * All numbers are float32. The order of every sum depends only on the arguments: neither strides
 * nor the address of a block change a bit. Scores may be as large as a float, or -inf. Masked keys
 * have no effect, and a query that sees no key gives zeros. Only values must be finite.
 */
#ifndef ATTENTION_KERNELS_H
#define ATTENTION_KERNELS_H

#include <pto/pto.h>

#define ATTENTION_MAX_DIM 512
#define ATTENTION_ALL INT64_MAX /* value of `visible`: no mask */

/* Floats in a row of state: whole cache lines, with m and l in the last one. */
static inline int64_t attention_width(int64_t dim)
{
    return (dim + 2 + 15) / 16 * 16;
}

/* ---- As plain functions ---------------------------------------------------------------------- */

/* A block of queries and a block of keys. Strides are in floats; strides without a field are 1. */
typedef struct attention_block {
    int64_t positions, heads; /* number of query positions, and heads at each */
    int64_t keys, dim;        /* number of keys; dimension of a head, at most ATTENTION_MAX_DIM */
    const float *q;           /* [positions, heads, dim] */
    int64_t q_position, q_head;
    const float *k; /* [keys, dim]; fastest if keys are adjacent: k_key = 1 */
    int64_t k_key, k_dim;
    const float *v; /* [keys, dim] */
    int64_t v_key;
    int64_t visible; /* position i sees the first visible + i keys, or ATTENTION_ALL */
    float scale;     /* score = scale * (q . k) */
    float *state;    /* [positions * heads, attention_width(dim)]: first the heads of position 0 */
    int64_t state_row;
} attention_block;

/* Initializes states; adds a block of keys; into += from; out = the result. */
void attention_begin(int64_t rows, int64_t dim, float *state, int64_t state_row);
void attention_attend(const attention_block *block);
void attention_merge(int64_t rows, int64_t dim, float *into, int64_t into_row, const float *from,
                     int64_t from_row);
void attention_finish(int64_t positions, int64_t heads, int64_t dim, const float *state,
                      int64_t state_row, float *out, int64_t out_position, int64_t out_head);

/* Floating-point operations of one query head for this many keys: two products. */
static inline double attention_flops(double keys, double dim)
{
    return 4 * keys * dim;
}

/* The instruction set used on this machine: "AVX-512", "AVX2", "portable". */
const char *attention_isa(void);

/* For tests: the instruction sets of this machine, best first, then NULL; and attend with one of
 * them. */
const char *attention_isa_at(size_t index);
void attention_attend_with(size_t isa, const attention_block *block);

/* ---- As kernels of the runtime --------------------------------------------------------------- */

/* Tensors may be views whose last dim has stride 1 (keys: any stride).
 *
 *     first    output state, input q, scalar scale, scalar visible, then keys and values
 *     next     inout state, input q, scalar scale, scalar visible, then keys and values
 *     merge    inout state, input state
 *     finish   input state, output out
 *
 *     state         [positions * heads, attention_width(dim)]
 *     q, out        [positions, heads, dim]
 *     keys, values  inputs [n, dim] and [n, dim]: any number of pairs, like the pages of a chunk.
 *                   They form one long block, of which `visible` keys are seen as above
 */
typedef struct attention_kernels {
    pto_kernel first, next, merge, finish;
} attention_kernels;

pto_status attention_kernel_first(const pto_call *call);
pto_status attention_kernel_next(const pto_call *call);
pto_status attention_kernel_merge(const pto_call *call);
pto_status attention_kernel_finish(const pto_call *call);

pto_status attention_register(pto_runtime *rt, attention_kernels *kernels);

#endif /* ATTENTION_KERNELS_H */
