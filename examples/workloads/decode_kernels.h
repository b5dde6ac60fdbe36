/* decode_kernels.h - the operations of the layers of `decode`, as plain functions and as kernels.
 *
 * Rows are tokens. A matrix may be a view of columns: rows are `stride` apart, columns are dense.
 */
#ifndef DECODE_KERNELS_H
#define DECODE_KERNELS_H

#include "attention_kernels.h"

typedef struct decode_matrix {
    float *at;
    int64_t rows, columns, stride;
} decode_matrix;

/* ---- As plain functions -------------------------------------------------------------------- */

/* y = x w, or with `add` y += x w. */
void decode_linear(decode_matrix x, decode_matrix w, decode_matrix y, bool add);

/* y = x / sqrt(mean of x^2) * weight, row by row. */
void decode_normalise(decode_matrix x, const float *weight, decode_matrix y);

/* RoPE, in place: rotates the pairs (i, i + dim / 2) of each head by the angles of the position of
 * the row. `angles` is [positions, dim]: cosines, then sines. */
void decode_turn(decode_matrix x, int64_t dim, const int32_t *positions, const float *angles);

/* y = silu(gate) * up */
void decode_swiglu(decode_matrix gate, decode_matrix up, decode_matrix y);

/* The `chosen` largest scores of each row, largest first; the first of equal ones. Gives their
 * indices, and the softmax over them. */
void decode_choose(decode_matrix scores, int64_t chosen, int32_t *experts, float *shares);

/* x += the rows of y at `places`, `chosen` for each row of x, times their shares. */
void decode_combine(decode_matrix x, decode_matrix y, int64_t chosen, const int32_t *places,
                    const float *shares);

/* The column with the largest number of each row; the first of equal ones. */
void decode_argmax(decode_matrix x, int32_t *columns);

/* ---- As kernels ---------------------------------------------------------------------------- */

/*     linear      input x, input w, output y
 *     linear_add  input x, input w, inout y
 *     normalise   input x, input weight, output y
 *     turn        inout x, input positions, input angles
 *     swiglu      input gate, input up, output y
 *     choose      input scores, output experts [rows, chosen], output shares [rows, chosen]
 *     combine     inout x, input y, input places [rows, chosen], input shares [rows, chosen]
 *     argmax      input x, output columns
 *     attend      see attention_kernels.h
 */
typedef struct decode_kernels {
    pto_kernel linear, linear_add, normalise, turn, swiglu, choose, combine, argmax;
    attention_kernels attend;
} decode_kernels;

pto_status decode_register(pto_runtime *rt, decode_kernels *kernels);

#endif /* DECODE_KERNELS_H */
