/* attention_check.c - checks the outputs in two ways.
 *
 * Every row of the outputs must be equal, bit for bit, to that of the serial program (with kernels that add
 * in another order, as on a GPU, only the second way is left): the same kernels called one after the other, with the same blocks and chunks. Keys and values come from
 * the long row of tokens here, so pages, views, tasks and workers are not trusted.
 *
 * And rows must be close to softmax in two passes, in double precision, over all keys. A small run
 * compares all rows, a large one as many as a few billion operations allow.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "attention.h"
#include "where.h"

#define REFERENCE_FLOPS 2e9

/* Some tokens of a sequence attend to some others. */
static void attend(const attention *a, int64_t first, int64_t head, int64_t query, int64_t queries,
                   int64_t key, int64_t keys, int64_t visible, float *state)
{
    const int64_t at = ((first + key) * a->kv_heads + head) * a->dim;
    attention_attend(&(attention_block){
        .positions = queries,
        .heads = a->group,
        .keys = keys,
        .dim = a->dim,
        .q = a->q + ((first + query) * a->heads + head * a->group) * a->dim,
        .q_position = a->heads * a->dim,
        .q_head = a->dim,
        .k = a->k + at,
        .k_key = a->kv_heads * a->dim,
        .k_dim = 1,
        .v = a->v + at,
        .v_key = a->kv_heads * a->dim,
        .visible = visible,
        .scale = (float)a->scale,
        .state = state,
        .state_row = attention_width(a->dim),
    });
}

/* One query in the order of the orchestration. The states of right halves come after `state`. */
static void look_serially(const attention *a, const turn *t, int64_t head, int64_t from,
                          int64_t end, float *state)
{
    const int64_t chunks = divide_up(end - from, a->chunk), width = attention_width(a->dim);
    if (chunks <= 1) {
        attention_begin(a->group, a->dim, state, width);
        for (int64_t p = from; p < end; p++) {
            const int64_t key = p * a->page, keys = least(a->page, t->length - key);
            attend(a, t->first, head, t->length - 1, 1, key, keys, ATTENTION_ALL, state);
        }
        return;
    }
    const int64_t middle = from + chunks / 2 * a->chunk;
    float *right = state + a->group * width;
    look_serially(a, t, head, from, middle, state);
    look_serially(a, t, head, middle, end, right);
    attention_merge(a->group, a->dim, state, width, right, width);
}

typedef struct checker {
    float *states, *rows; /* room for states and output rows */
    double *scores;       /* scores of one query */
    int64_t every;        /* one in `every` rows is compared in double precision */
    int64_t seen, compared, different;
    double error;
} checker;

/* Query head `head` of the last token of a turn, from the definition. */
static void compare_head(const attention *a, checker *c, const turn *t, int64_t head,
                         const float *out)
{
    const float *q = a->q + ((t->first + t->length - 1) * a->heads + head) * a->dim;
    const int64_t token = a->kv_heads * a->dim;
    const int64_t at = t->first * token + head / a->group * a->dim;
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < t->length; j++) {
        double dot = 0;
        for (int64_t d = 0; d < a->dim; d++) {
            dot += (double)q[d] * (double)a->k[at + j * token + d];
        }
        c->scores[j] = dot * a->scale;
        largest = fmax(largest, c->scores[j]);
    }
    for (int64_t j = 0; j < t->length; j++) {
        c->scores[j] = exp(c->scores[j] - largest);
        sum += c->scores[j];
    }
    for (int64_t d = 0; d < a->dim; d++) {
        double value = 0;
        for (int64_t j = 0; j < t->length; j++) {
            value += c->scores[j] * (double)a->v[at + j * token + d];
        }
        const double error = fabs(value / sum - (double)out[d]);
        if (isnan(error) || error > c->error) { /* NaN is kept */
            c->error = error;
        }
    }
}

/* A row of the output: all heads of the last token of a turn. */
static void compare_row(const attention *a, checker *c, const turn *t, const float *out)
{
    if (c->seen++ % c->every == 0) {
        c->compared++;
        for (int64_t head = 0; head < a->heads; head++) {
            compare_head(a, c, t, head, out + head * a->dim);
        }
    }
}

static void check_decoded(const attention *a, checker *c)
{
    const int64_t row = a->heads * a->dim;
    for (int64_t i = 0; i < a->steps * a->batch; i++) {
        const turn *t = &a->turns[i];
        const float *out = a->decoded + i * row;
        for (int64_t head = 0; head < a->kv_heads; head++) {
            look_serially(a, t, head, 0, divide_up(t->length, a->page), c->states);
            attention_finish(1, a->group, a->dim, c->states, attention_width(a->dim),
                             c->rows + head * a->group * a->dim, row, a->dim);
        }
        c->different += memcmp(c->rows, out, (size_t)row * sizeof *out) != 0;
        compare_row(a, c, t, out);
    }
}

static void check_prefilled(const attention *a, checker *c, int64_t i)
{
    const int64_t row = a->heads * a->dim, width = attention_width(a->dim);
    const turn *t = &a->prompts[i];
    for (int64_t from = 0; from < t->length; from += a->query_block) {
        const int64_t n = least(a->query_block, t->length - from);
        for (int64_t head = 0; head < a->kv_heads; head++) {
            attention_begin(n * a->group, a->dim, c->states, width);
            for (int64_t key = 0; key < from + n; key += a->key_block) {
                const int64_t keys = least(a->key_block, from + n - key);
                attend(a, t->first, head, from, n, key, keys, from + 1 - key, c->states);
            }
            attention_finish(n, a->group, a->dim, c->states, width,
                             c->rows + head * a->group * a->dim, row, a->dim);
        }
        for (int64_t r = 0; r < n; r++) {
            const float *out = a->prefilled + (i * a->max_len + from + r) * row;
            c->different += memcmp(c->rows + r * row, out, (size_t)row * sizeof *out) != 0;
            compare_row(a, c, &(turn){.first = t->first, .length = from + r + 1}, out);
        }
    }
}

pto_status attention_check(workload_job *job)
{
    const attention *a = job->data;
    const bool same = !workload_other_kernels(job);
    const int64_t depth = 64; /* recursion depth of look_serially: enough for any number of chunks
                                 */
    const int64_t rows = a->query_block * a->heads;
    const uint64_t states = (uint64_t)((a->query_block + depth) * a->group);
    checker c = {
        .states = workload_alloc(states * (uint64_t)attention_width(a->dim), sizeof(float)),
        .rows = workload_alloc((uint64_t)rows * (uint64_t)a->dim, sizeof(float)),
        .scores = workload_alloc((uint64_t)a->max_len, sizeof(double)),
        .every = (int64_t)(job->flops / REFERENCE_FLOPS) | 1, /* odd: reaches all places */
    };
    /* An output is a mean of values in [-1, 1], so its absolute error is compared. Rounding errors
     * of float, 6e-8 each, come from the scores, which are sums of dim products, and from the sums
     * over all keys. They are effectively random and grow like the square root of their number. The
     * margin is 8: observed errors are a tenth to a fifth of the bound. */
    const double allowed = 8 * ldexp(1, -24) *
                           (sqrt((double)a->dim) + sqrt((double)a->max_len) + 4);
    const bool memory = c.states && c.rows && c.scores;
    if (memory) {
        if (a->decode) {
            check_decoded(a, &c);
        }
        for (int64_t i = 0; a->prefill && i < a->batch; i++) {
            check_prefilled(a, &c, i);
        }
        snprintf(job->verdict, sizeof job->verdict,
                 "%" PRId64 " rows%s; %" PRId64
                 " of them compared in double precision: largest error %.2g (allowed %.2g)",
                 c.seen, same ? " equal those of the serial program, bit for bit" : "", c.compared,
                 c.error, allowed);
    }
    workload_free(c.states);
    workload_free(c.rows);
    workload_free(c.scores);
    if (!memory) {
        return PTO_OUT_OF_MEMORY; /* workload_alloc has set the message */
    }
    if (same && c.different) {
        return pto_fail(PTO_KERNEL_FAILED,
                        "%" PRId64 " of %" PRId64 " rows differ from the serial program",
                        c.different, c.seen);
    }
    if (!(c.error <= allowed)) {
        return pto_fail(PTO_KERNEL_FAILED,
                        "largest error %.3g, allowed %.3g, in %" PRId64 " rows of %" PRId64,
                        c.error, allowed, c.compared, c.seen);
    }
    return PTO_OK;
}
