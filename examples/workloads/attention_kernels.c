/* attention_kernels.c - attention in pieces: plain functions, and kernels that call them. */
#include "attention_kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define TILE 64 /* keys per tile: their scores and the transposed keys stay in the cache */

/* ---- One body for each instruction set ----------------------------------------------------- */

#if defined(__x86_64__)
#define LANES 16
#define TARGET __attribute__((target("avx512f")))
#define SIMD(name) name##_avx512
#include "attention_simd.h"

#define LANES 8
#define TARGET __attribute__((target("avx2,fma")))
#define SIMD(name) name##_avx2
#include "attention_simd.h"
#endif

#define LANES 4
#define TARGET
#define SIMD(name) name##_portable
#include "attention_simd.h"

typedef struct instructions {
    const char *name;
    void (*attend)(const attention_block *block);
} instructions;

/* The instruction sets of this machine, best first. */
static instructions instructions_at(size_t index)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && index-- == 0) {
        return (instructions){"AVX-512", attend_avx512};
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && index-- == 0) {
        return (instructions){"AVX2", attend_avx2};
    }
#endif
    return index == 0 ? (instructions){"portable", attend_portable} : (instructions){NULL, NULL};
}

const char *attention_isa_at(size_t index)
{
    return instructions_at(index).name;
}

const char *attention_isa(void)
{
    return attention_isa_at(0);
}

/* ---- Plain functions ------------------------------------------------------------------------- */

void attention_begin(int64_t rows, int64_t dim, float *state, int64_t state_row)
{
    const int64_t width = attention_width(dim);
    for (int64_t r = 0; r < rows; r++) {
        float *row = state + r * state_row;
        memset(row, 0, (size_t)width * sizeof *row);
        row[width - 2] = -INFINITY;
    }
}

void attention_attend_with(size_t isa, const attention_block *block)
{
    attention_block b = *block;
    /* Clamp it: larger values mean the same, and sums could overflow. */
    b.visible = b.visible < b.keys ? b.visible : b.keys;
    b.visible = b.visible > -b.positions ? b.visible : -b.positions;
    instructions_at(isa).attend(&b);
}

void attention_attend(const attention_block *block)
{
    attention_attend_with(0, block);
}

void attention_merge(int64_t rows, int64_t dim, float *into, int64_t into_row, const float *from,
                     int64_t from_row)
{
    const int64_t end = attention_width(dim);
    for (int64_t r = 0; r < rows; r++) {
        float *a = into + r * into_row;
        const float *b = from + r * from_row;
        const float top = a[end - 2] > b[end - 2] ? a[end - 2] : b[end - 2];
        const float base = top > -INFINITY ? top : 0; /* neither has seen a key */
        const float left = expf(a[end - 2] - base), right = expf(b[end - 2] - base);
        for (int64_t d = 0; d < dim; d++) {
            a[d] = a[d] * left + b[d] * right;
        }
        a[end - 2] = top;
        a[end - 1] = a[end - 1] * left + b[end - 1] * right;
    }
}

void attention_finish(int64_t positions, int64_t heads, int64_t dim, const float *state,
                      int64_t state_row, float *out, int64_t out_position, int64_t out_head)
{
    const int64_t end = attention_width(dim);
    for (int64_t i = 0; i < positions; i++) {
        for (int64_t h = 0; h < heads; h++) {
            const float *row = state + (i * heads + h) * state_row, l = row[end - 1];
            float *to = out + i * out_position + h * out_head;
            for (int64_t d = 0; d < dim; d++) {
                to[d] = l == 0 ? 0 : row[d] / l;
            }
        }
    }
}

/* ---- Kernels --------------------------------------------------------------------------------- */

enum {
    STATE,
    Q,
    SCALE,
    VISIBLE,
    KEYS
}; /* arguments of first and next; from KEYS on there are
                                            pairs */

/* [rows, cols] of float32, with the last dim dense. */
static bool is_rows(const pto_arg *arg, int64_t rows, int64_t cols)
{
    return arg->dtype == PTO_FLOAT32 && arg->ndim == 2 && arg->shape[0] == rows &&
           arg->shape[1] == cols && (cols <= 1 || arg->strides[1] == 1);
}

/* [positions, heads, dim] of float32, with the last dim dense. */
static bool is_queries(const pto_arg *arg)
{
    return arg->dtype == PTO_FLOAT32 && arg->ndim == 3 && arg->shape[2] >= 1 &&
           arg->shape[2] <= ATTENTION_MAX_DIM && (arg->shape[2] == 1 || arg->strides[2] == 1);
}

static pto_status attend(const pto_call *call, bool first)
{
    const pto_arg *state = &call->args[STATE], *q = &call->args[Q];
    if (call->n_args < KEYS || (call->n_args - KEYS) % 2 != 0) {
        return pto_fail(PTO_BAD_PARAM,
                        "%u arguments: want state, q, scale, visible and pairs of keys "
                        "and values",
                        call->n_args);
    }
    if (!is_queries(q)) {
        return pto_fail(PTO_BAD_SHAPE,
                        "q must be float32 [positions, heads, 1 to %d], dense in the "
                        "last dim",
                        ATTENTION_MAX_DIM);
    }
    attention_block b = {
        .positions = q->shape[0],
        .heads = q->shape[1],
        .dim = q->shape[2],
        .q = q->data,
        .q_position = q->strides[0],
        .q_head = q->strides[1],
        .visible = pto_arg_i64(&call->args[VISIBLE]),
        .scale = (float)pto_arg_f64(&call->args[SCALE]),
        .state = state->data,
    };
    const int64_t rows = b.positions * b.heads;
    if (!is_rows(state, rows, attention_width(b.dim))) {
        return pto_fail(PTO_BAD_SHAPE,
                        "the state must be float32 [%lld, %lld], dense in the last dim",
                        (long long)rows, (long long)attention_width(b.dim));
    }
    b.state_row = state->strides[0];
    if (first) {
        attention_begin(rows, b.dim, b.state, b.state_row);
    }
    for (uint32_t i = KEYS; i < call->n_args; i += 2) {
        const pto_arg *k = &call->args[i], *v = &call->args[i + 1];
        if (k->dtype != PTO_FLOAT32 || k->ndim != 2 || k->shape[1] != b.dim ||
            !is_rows(v, k->shape[0], b.dim)) {
            return pto_fail(PTO_BAD_SHAPE,
                            "arguments %u and %u: keys and values must be float32 [n, "
                            "%lld], values dense in the last dim",
                            i, i + 1, (long long)b.dim);
        }
        b.keys = k->shape[0];
        b.k = k->data;
        b.k_key = k->strides[0];
        b.k_dim = k->strides[1];
        b.v = v->data;
        b.v_key = v->strides[0];
        attention_attend(&b);
        if (b.visible != ATTENTION_ALL) {
            b.visible -= b.visible > -b.positions ? b.keys : 0; /* stop if none sees a key */
        }
    }
    return PTO_OK;
}

pto_status attention_kernel_first(const pto_call *call)
{
    return attend(call, true);
}

pto_status attention_kernel_next(const pto_call *call)
{
    return attend(call, false);
}

pto_status attention_kernel_merge(const pto_call *call)
{
    const pto_arg *into = &call->args[0], *from = &call->args[1];
    if (call->n_args != 2 || into->ndim != 2 || into->shape[1] < 16 || into->shape[1] % 16 != 0 ||
        !is_rows(into, into->shape[0], into->shape[1]) ||
        !is_rows(from, into->shape[0], into->shape[1])) {
        return pto_fail(PTO_BAD_SHAPE, "merge wants two states of the same shape");
    }
    /* The padding is zero in both and can be merged like the rest. */
    attention_merge(into->shape[0], into->shape[1] - 2, into->data, into->strides[0], from->data,
                    from->strides[0]);
    return PTO_OK;
}

pto_status attention_kernel_finish(const pto_call *call)
{
    const pto_arg *state = &call->args[0], *out = &call->args[1];
    if (call->n_args != 2 || !is_queries(out) ||
        !is_rows(state, out->shape[0] * out->shape[1], attention_width(out->shape[2]))) {
        return pto_fail(PTO_BAD_SHAPE,
                        "finish wants a state and an output [positions, heads, dim] of "
                        "as many rows");
    }
    attention_finish(out->shape[0], out->shape[1], out->shape[2], state->data, state->strides[0],
                     out->data, out->strides[0], out->strides[1]);
    return PTO_OK;
}

pto_status attention_register(pto_runtime *rt, attention_kernels *kernels)
{
    PTO_TRY(pto_kernel_register(rt, "attend_first", PTO_VECTOR, attention_kernel_first, NULL,
                                &kernels->first));
    PTO_TRY(pto_kernel_register(rt, "attend_next", PTO_VECTOR, attention_kernel_next, NULL,
                                &kernels->next));
    PTO_TRY(pto_kernel_register(rt, "attend_merge", PTO_VECTOR, attention_kernel_merge, NULL,
                                &kernels->merge));
    return pto_kernel_register(rt, "attend_finish", PTO_VECTOR, attention_kernel_finish, NULL,
                               &kernels->finish);
}
