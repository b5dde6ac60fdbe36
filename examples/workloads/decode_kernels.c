/* decode_kernels.c - the operations of the layers of `decode`. */
#include "decode_kernels.h"

#include "blas.h"
#include "decode_model.h"

#include <math.h>

/* ---- Plain functions ----------------------------------------------------------------------- */

void decode_linear(decode_matrix x, decode_matrix w, decode_matrix y, bool add)
{
    blas_sgemm(x.rows, w.columns, x.columns, x.at, x.stride, w.at, w.stride, add ? 1 : 0, y.at,
               y.stride);
}

void decode_normalise(decode_matrix x, const float *weight, decode_matrix y)
{
    for (int64_t r = 0; r < x.rows; r++) {
        const float *from = x.at + r * x.stride;
        float *to = y.at + r * y.stride;
        double sum = 0;
        for (int64_t i = 0; i < x.columns; i++) {
            sum += (double)from[i] * (double)from[i];
        }
        const float scale = (float)(1 / sqrt(sum / (double)x.columns + DECODE_EPSILON));
        for (int64_t i = 0; i < x.columns; i++) {
            to[i] = from[i] * scale * weight[i];
        }
    }
}

void decode_turn(decode_matrix x, int64_t dim, const int32_t *positions, const float *angles)
{
    const int64_t half = dim / 2;
    for (int64_t r = 0; r < x.rows; r++) {
        const float *cosine = angles + positions[r] * dim, *sine = cosine + half;
        for (float *head = x.at + r * x.stride, *end = head + x.columns; head < end; head += dim) {
            for (int64_t i = 0; i < half; i++) {
                const float a = head[i], b = head[i + half];
                head[i] = a * cosine[i] - b * sine[i];
                head[i + half] = b * cosine[i] + a * sine[i];
            }
        }
    }
}

void decode_swiglu(decode_matrix gate, decode_matrix up, decode_matrix y)
{
    for (int64_t r = 0; r < y.rows; r++) {
        const float *g = gate.at + r * gate.stride, *u = up.at + r * up.stride;
        float *to = y.at + r * y.stride;
        for (int64_t i = 0; i < y.columns; i++) {
            to[i] = g[i] / (1 + expf(-g[i])) * u[i];
        }
    }
}

void decode_choose(decode_matrix scores, int64_t chosen, int32_t *experts, float *shares)
{
    for (int64_t r = 0; r < scores.rows; r++, experts += chosen, shares += chosen) {
        const float *score = scores.at + r * scores.stride;
        float sum = 0;
        for (int64_t c = 0; c < chosen; c++) {
            int32_t best = -1;
            for (int32_t e = 0; e < scores.columns; e++) {
                bool taken = false;
                for (int64_t before = 0; before < c; before++) {
                    taken = taken || experts[before] == e;
                }
                if (!taken && (best < 0 || score[e] > score[best])) {
                    best = e;
                }
            }
            experts[c] = best;
            shares[c] = expf(score[best] - score[experts[0]]);
            sum += shares[c];
        }
        for (int64_t c = 0; c < chosen; c++) {
            shares[c] /= sum;
        }
    }
}

void decode_combine(decode_matrix x, decode_matrix y, int64_t chosen, const int32_t *places,
                    const float *shares)
{
    for (int64_t r = 0; r < x.rows; r++) {
        float *to = x.at + r * x.stride;
        for (int64_t c = r * chosen; c < (r + 1) * chosen; c++) {
            const float *from = y.at + places[c] * y.stride;
            for (int64_t i = 0; i < x.columns; i++) {
                to[i] += shares[c] * from[i];
            }
        }
    }
}

void decode_argmax(decode_matrix x, int32_t *columns)
{
    for (int64_t r = 0; r < x.rows; r++) {
        const float *row = x.at + r * x.stride;
        columns[r] = 0;
        for (int32_t i = 1; i < x.columns; i++) {
            if (row[i] > row[columns[r]]) {
                columns[r] = i;
            }
        }
    }
}

/* ---- Kernels ------------------------------------------------------------------------------- */

static decode_matrix matrix(const pto_call *call, int arg)
{
    const pto_arg *a = &call->args[arg];
    return (decode_matrix){a->data, a->shape[0], a->shape[1], a->strides[0]};
}

static pto_status linear(const pto_call *call)
{
    decode_linear(matrix(call, 0), matrix(call, 1), matrix(call, 2), false);
    return PTO_OK;
}

static pto_status linear_add(const pto_call *call)
{
    decode_linear(matrix(call, 0), matrix(call, 1), matrix(call, 2), true);
    return PTO_OK;
}

static pto_status normalise(const pto_call *call)
{
    decode_normalise(matrix(call, 0), call->args[1].data, matrix(call, 2));
    return PTO_OK;
}

static pto_status turn(const pto_call *call)
{
    decode_turn(matrix(call, 0), call->args[2].shape[1], call->args[1].data, call->args[2].data);
    return PTO_OK;
}

static pto_status swiglu(const pto_call *call)
{
    decode_swiglu(matrix(call, 0), matrix(call, 1), matrix(call, 2));
    return PTO_OK;
}

static pto_status choose(const pto_call *call)
{
    decode_choose(matrix(call, 0), call->args[1].shape[1], call->args[1].data, call->args[2].data);
    return PTO_OK;
}

static pto_status combine(const pto_call *call)
{
    decode_combine(matrix(call, 0), matrix(call, 1), call->args[2].shape[1], call->args[2].data,
                   call->args[3].data);
    return PTO_OK;
}

static pto_status argmax(const pto_call *call)
{
    decode_argmax(matrix(call, 0), call->args[1].data);
    return PTO_OK;
}

pto_status decode_register(pto_runtime *rt, decode_kernels *k)
{
    PTO_TRY(pto_kernel_register(rt, "linear", PTO_CUBE, linear, NULL, &k->linear));
    PTO_TRY(pto_kernel_register(rt, "linear_add", PTO_CUBE, linear_add, NULL, &k->linear_add));
    PTO_TRY(pto_kernel_register(rt, "normalise", PTO_VECTOR, normalise, NULL, &k->normalise));
    PTO_TRY(pto_kernel_register(rt, "turn", PTO_VECTOR, turn, NULL, &k->turn));
    PTO_TRY(pto_kernel_register(rt, "swiglu", PTO_VECTOR, swiglu, NULL, &k->swiglu));
    PTO_TRY(pto_kernel_register(rt, "choose", PTO_AI_CPU, choose, NULL, &k->choose));
    PTO_TRY(pto_kernel_register(rt, "combine", PTO_VECTOR, combine, NULL, &k->combine));
    PTO_TRY(pto_kernel_register(rt, "argmax", PTO_AI_CPU, argmax, NULL, &k->argmax));
    return attention_register(rt, &k->attend);
}
