/* decode_reference.c - the model of `decode` again, written from its definition: simple loops in
 * double precision, one token of one sequence at a time, without shared code.
 *
 * Two choices depend on which number is larger: the next token, and the experts. If two numbers are
 * nearly equal, float and double may choose differently, and both are right. So the reference
 * checks that the actual choice was the best within the tolerance, and continues with it. */
#include "decode_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct reference {
    const decode_model *m;
    const decode_prompts *p;
    const decode_result *result;
    decode_comparison *c;
    double *keys, *values; /* [layers, positions, kv_heads, dim] of this sequence */
    double *x, *y, *q, *seen, *gate, *up, *scores, *logits;
} reference;

/* y = x w */
static void multiply(const pto_tensor *w, const double *x, double *y)
{
    const int64_t rows = w->shape[0], columns = w->shape[1];
    memset(y, 0, (size_t)columns * sizeof *y);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = decode_floats(w) + r * columns;
        for (int64_t c = 0; c < columns; c++) {
            y[c] += x[r] * (double)row[c];
        }
    }
}

static void rms_norm(const double *x, const pto_tensor *weight, double *y)
{
    const int64_t n = weight->shape[0];
    double squares = 0;
    for (int64_t i = 0; i < n; i++) {
        squares += x[i] * x[i];
    }
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] / sqrt(squares / (double)n + DECODE_EPSILON) * (double)decode_floats(weight)[i];
    }
}

/* Elements i and i + dim / 2 of a head are a point in the plane, rotated by position / 10000^(2 i /
 * dim). */
static void rope(double *x, int64_t heads, int64_t dim, int64_t position)
{
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = 0; i < dim / 2; i++) {
            const double angle = (double)position / pow(10000, 2 * (double)i / (double)dim);
            double *re = &x[h * dim + i], *im = &x[h * dim + i + dim / 2];
            const double turned = *re * cos(angle) - *im * sin(angle);
            *im = *re * sin(angle) + *im * cos(angle);
            *re = turned;
        }
    }
}

/* Head h attends to positions 0 .. position of its KV head. */
static void attend(const reference *r, int64_t layer, int64_t h, int64_t position)
{
    const decode_sizes *z = &r->m->sizes;
    const int64_t dim = z->dim, stride = z->kv_heads * dim,
                  at = layer * decode_positions(z) * stride + h / (z->heads / z->kv_heads) * dim;
    const double *q = r->q + h * dim, *keys = r->keys + at, *values = r->values + at;
    double *out = r->seen + h * dim, largest = -INFINITY, sum = 0;
    for (int64_t p = 0; p <= position; p++) {
        double score = 0;
        for (int64_t i = 0; i < dim; i++) {
            score += q[i] * keys[p * stride + i];
        }
        r->scores[p] = score / sqrt((double)dim);
        largest = r->scores[p] > largest ? r->scores[p] : largest;
    }
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int64_t p = 0; p <= position; p++) {
        const double weight = exp(r->scores[p] - largest);
        sum += weight;
        for (int64_t i = 0; i < dim; i++) {
            out[i] += weight * values[p * stride + i];
        }
    }
    for (int64_t i = 0; i < dim; i++) {
        out[i] /= sum;
    }
}

static void attention(const reference *r, int64_t l, int64_t position)
{
    const decode_sizes *z = &r->m->sizes;
    const decode_layer *layer = &r->m->layers[l];
    const int64_t stride = z->kv_heads * z->dim, at = (l * decode_positions(z) + position) * stride;
    rms_norm(r->x, &layer->attention_norm, r->y);
    multiply(&layer->q, r->y, r->q);
    multiply(&layer->k, r->y, r->keys + at);
    multiply(&layer->v, r->y, r->values + at);
    rope(r->q, z->heads, z->dim, position);
    rope(r->keys + at, z->kv_heads, z->dim, position);
    for (int64_t h = 0; h < z->heads; h++) {
        attend(r, l, h, position);
    }
    multiply(&layer->o, r->seen, r->y);
    for (int64_t i = 0; i < z->width; i++) {
        r->x[i] += r->y[i];
    }
}

/* x += share * ffn(y) */
static void feed_forward(const reference *r, const decode_ffn *ffn, double share)
{
    multiply(&ffn->gate, r->y, r->gate);
    multiply(&ffn->up, r->y, r->up);
    for (int64_t i = 0; i < ffn->gate.shape[1]; i++) {
        r->gate[i] = r->gate[i] / (1 + exp(-r->gate[i])) * r->up[i];
    }
    multiply(&ffn->down, r->gate, r->seen);
    for (int64_t i = 0; i < r->m->sizes.width; i++) {
        r->x[i] += share * r->seen[i];
    }
}

/* The chosen experts must be distinct, and no other expert may be better. */
static bool choice_is_right(const reference *r, const int32_t *chosen)
{
    const decode_sizes *z = &r->m->sizes;
    double worst = INFINITY, largest = 0;
    for (int64_t c = 0; c < z->chosen; c++) {
        if (chosen[c] < 0 || chosen[c] >= z->experts) {
            return false;
        }
        for (int64_t before = 0; before < c; before++) {
            if (chosen[before] == chosen[c]) {
                return false;
            }
        }
        worst = r->scores[chosen[c]] < worst ? r->scores[chosen[c]] : worst;
    }
    for (int64_t e = 0; e < z->experts; e++) {
        largest = fabs(r->scores[e]) > largest ? fabs(r->scores[e]) : largest;
    }
    for (int64_t e = 0; e < z->experts; e++) {
        bool is_chosen = false;
        for (int64_t c = 0; c < z->chosen; c++) {
            is_chosen = is_chosen || chosen[c] == e;
        }
        if (!is_chosen && r->scores[e] > worst + DECODE_ALLOWED * largest) {
            return false;
        }
    }
    return true;
}

static bool mix_experts(const reference *r, const decode_layer *layer, const int32_t *chosen)
{
    const decode_sizes *z = &r->m->sizes;
    double sum = 0, largest = -INFINITY;
    multiply(&layer->router, r->y, r->scores);
    if (!choice_is_right(r, chosen)) {
        return false;
    }
    for (int64_t c = 0; c < z->chosen; c++) {
        largest = r->scores[chosen[c]] > largest ? r->scores[chosen[c]] : largest;
    }
    for (int64_t c = 0; c < z->chosen; c++) {
        sum += exp(r->scores[chosen[c]] - largest);
    }
    for (int64_t c = 0; c < z->chosen; c++) {
        feed_forward(r, &layer->ffn[chosen[c]], exp(r->scores[chosen[c]] - largest) / sum);
    }
    return true;
}

/* Passes one token, at a position of sequence b, through all layers. */
static bool forward(const reference *r, int64_t b, int64_t position, int32_t token)
{
    const decode_sizes *z = &r->m->sizes;
    const int64_t length = r->p->length[b], step = position < length ? 0 : position - length + 1,
                  row = step ? b : r->p->row[b] + position;
    for (int64_t i = 0; i < z->width; i++) {
        r->x[i] = (double)decode_floats(&r->m->embedding)[token * z->width + i];
    }
    for (int64_t l = 0, moe = 0; l < z->layers; l++) {
        const decode_layer *layer = &r->m->layers[l];
        attention(r, l, position);
        rms_norm(r->x, &layer->ffn_norm, r->y);
        if (!layer->moe) {
            feed_forward(r, layer->ffn, 1);
        } else if (!mix_experts(r, layer,
                                decode_route_at(r->result, z, r->p, step, moe++) +
                                    row * z->chosen)) {
            (void)snprintf(r->c->wrong, sizeof r->c->wrong,
                           "sequence %lld, position %lld, layer %lld: the experts chosen are not "
                           "the best ones",
                           (long long)b, (long long)position, (long long)l);
            return false;
        }
    }
    return true;
}

static bool compare_logits(const reference *r, int64_t b, int64_t step)
{
    const decode_sizes *z = &r->m->sizes;
    const float *got = decode_logits_at(r->result, z, step) + b * z->vocabulary;
    const int32_t token = r->result->tokens[step * z->batch + b];
    double largest = 0, best = -INFINITY, error = 0;
    rms_norm(r->x, &r->m->norm, r->y);
    multiply(&r->m->head, r->y, r->logits);
    for (int64_t i = 0; i < z->vocabulary; i++) {
        const double off = fabs((double)got[i] - r->logits[i]);
        error = off <= error ? error : off; /* also catches NaN */
        largest = fabs(r->logits[i]) > largest ? fabs(r->logits[i]) : largest;
        best = r->logits[i] > best ? r->logits[i] : best;
    }
    error = largest > 0 ? error / largest : error;
    r->c->error = error <= r->c->error ? r->c->error : error;
    if (!(error <= DECODE_ALLOWED)) {
        (void)snprintf(r->c->wrong, sizeof r->c->wrong,
                       "step %lld, sequence %lld: a logit is off by %.1e of the largest (allowed "
                       "%.0e)",
                       (long long)step, (long long)b, error, DECODE_ALLOWED);
        return false;
    }
    if (token < 0 || token >= z->vocabulary || r->logits[token] < best - DECODE_ALLOWED * largest) {
        (void)snprintf(r->c->wrong, sizeof r->c->wrong,
                       "step %lld, sequence %lld: token %lld is not the best one", (long long)step,
                       (long long)b, (long long)token);
        return false;
    }
    return true;
}

static bool run_sequence(const reference *r, int64_t b, int64_t steps)
{
    const decode_sizes *z = &r->m->sizes;
    const int64_t length = r->p->length[b];
    for (int64_t position = 0; position < length + steps - 1; position++) {
        const int32_t token = position < length
                                  ? r->p->tokens[r->p->row[b] + position]
                                  : r->result->tokens[(position - length) * z->batch + b];
        if (!forward(r, b, position, token) ||
            (position >= length - 1 && !compare_logits(r, b, position - length + 1))) {
            return false;
        }
    }
    return true;
}

pto_status decode_reference(const decode_model *m, const decode_prompts *p,
                            const decode_result *result, int64_t steps, decode_comparison *c)
{
    const decode_sizes *z = &m->sizes;
    const int64_t positions = decode_positions(z),
                  cache = z->layers * positions * z->kv_heads * z->dim, queries = z->heads * z->dim,
                  wide = queries > z->width ? queries : z->width,
                  hidden = z->hidden > z->expert_hidden ? z->hidden : z->expert_hidden,
                  scores = positions > z->experts ? positions : z->experts;
    reference r = {.m = m, .p = p, .result = result, .c = c};
    struct {
        double **at;
        int64_t count;
    } parts[] = {{&r.keys, cache},          {&r.values, cache}, {&r.x, z->width},
                 {&r.y, z->width},          {&r.q, queries},    {&r.seen, wide},
                 {&r.gate, hidden},         {&r.up, hidden},    {&r.scores, scores},
                 {&r.logits, z->vocabulary}};
    int64_t all = 0, at = 0;
    *c = (decode_comparison){.allowed = DECODE_ALLOWED};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        all += parts[i].count;
    }
    double *memory = workload_alloc((uint64_t)all, sizeof *memory);
    if (!memory) {
        return PTO_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].at = memory + at;
        at += parts[i].count;
    }
    for (int64_t b = 0; b < z->batch && run_sequence(&r, b, steps); b++) {
    }
    workload_free(memory);
    return PTO_OK;
}
