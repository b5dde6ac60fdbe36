/* decode.c - a transformer decoder generates text: prompts in, greedy tokens out, for a batch of
 * sequences.
 *
 *     tokens --> embedding --> x     x is [rows, width], one row for each token of this step
 *
 *     in each layer    x += attention(normalise(x))        keys and values in pages of one pool
 *                      x += feed_forward(normalise(x))     or, in some layers, a mixture of experts
 *
 *     last rows --> normalise --> logits --> argmax --> tokens of the next step
 *
 * The orchestration below has this structure, from the bottom up: start reading at `run_step`. Two
 * decisions depend on data: the next token, and the experts of each row. Both are read back
 * (pto_read), and the program continues like any C program. Everything else is just submitted.
 *
 * Lifetimes, outermost first. Each is a boundary scope with its own ring:
 *
 *     the caller's memory   weights, the pool of pages, logits and tokens
 *     a step                x, and the data of all layers: tokens and positions
 *     a block of a layer    the intermediate results of attention, or of the feed-forward part
 *     a head, or an expert  the softmax state of a head; the hidden values of one expert
 *
 * So memory grows neither with the number of layers nor with the number of tokens.
 *
 * With --device the steps are cut in another way, for a GPU: see decode_block.c.
 */
#include "decode.h"

#include <pto/rearrange.h>
#include <pto/work.h>

#include <math.h>
#include <time.h>

/* The data that all layers of a step share. */
typedef struct step {
    int64_t number, rows;
    pto_tensor x, positions;
} step;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A matrix for one writing task; a matrix for several writing tasks; numbers from the host. */
static pto_status temp(const decode *d, int64_t rows, int64_t columns, pto_tensor *t)
{
    return pto_temp(d->rt, PTO_FLOAT32, 2, (int64_t[]){rows, columns}, t);
}

static pto_status parts(const decode *d, int64_t rows, int64_t columns, pto_tensor *t)
{
    return pto_alloc(d->rt, PTO_FLOAT32, 2, (int64_t[]){rows, columns}, t);
}

static pto_status host(const decode *d, const int32_t *from, int64_t rows, int64_t columns,
                       pto_tensor *t)
{
    PTO_TRY(pto_temp(d->rt, PTO_INT32, columns ? 2 : 1, (int64_t[]){rows, columns}, t));
    return pto_write(d->rt, t, from, (uint64_t)(rows * (columns ? columns : 1)) * sizeof *from);
}

static pto_status gather(const decode *d, const pto_tensor *from, const pto_tensor *which,
                         const pto_tensor *to)
{
    const pto_tensor inputs[] = {*from, *which};
    const pto_work work = {
        .opcode = PTO_WORK_GATHER, .inputs = inputs, .n_inputs = 2, .outputs = to, .n_outputs = 1};
    return pto_submit_work(d->rt, &work, NULL);
}

/* ---- The orchestration --------------------------------------------------------------------- */

/* y = x w, or y += x w. One task for each tile of columns of w and y. The tiles of y are views of
 * one matrix that share no byte, so they run in parallel, also when they add. */
static pto_status linear(const decode *d, const pto_tensor *x, const pto_tensor *w,
                         const pto_tensor *y, bool add)
{
    const int64_t n = w->shape[1];
    for (int64_t at = 0; at < n; at += d->tile) {
        pto_tensor w_tile, y_tile;
        const int64_t end = least(at + d->tile, n);
        PTO_TRY(pto_tensor_slice(w, 1, at, end, 1, &w_tile));
        PTO_TRY(pto_tensor_slice(y, 1, at, end, 1, &y_tile));
        PTO_TRY(pto_submit(d->rt, add ? d->k.linear_add : d->k.linear, pto_input(x),
                           pto_input(&w_tile), add ? pto_inout(&y_tile) : pto_output(&y_tile)));
    }
    return PTO_OK;
}

static pto_status normalise(const decode *d, const pto_tensor *x, const pto_tensor *weight,
                            pto_tensor *y)
{
    PTO_TRY(temp(d, x->shape[0], x->shape[1], y));
    return pto_submit(d->rt, d->k.normalise, pto_input(x), pto_input(weight), pto_output(y));
}

/* y = (silu(x gate) * (x up)) down, or y += that. */
static pto_status feed_forward(const decode *d, const decode_ffn *ffn, const pto_tensor *x,
                               const pto_tensor *y, bool add)
{
    const int64_t rows = x->shape[0], hidden = ffn->gate.shape[1];
    PTO_BOUNDARY(d->rt) {
        pto_tensor h;
        PTO_TRY(parts(d, rows, hidden, &h));
        for (int64_t at = 0; at < hidden; at += d->tile) {
            pto_tensor w, gate, up, h_tile;
            const int64_t end = least(at + d->tile, hidden);
            PTO_TRY(temp(d, rows, end - at, &gate));
            PTO_TRY(temp(d, rows, end - at, &up));
            PTO_TRY(pto_tensor_slice(&h, 1, at, end, 1, &h_tile));
            PTO_TRY(pto_tensor_slice(&ffn->gate, 1, at, end, 1, &w));
            PTO_TRY(linear(d, x, &w, &gate, false));
            PTO_TRY(pto_tensor_slice(&ffn->up, 1, at, end, 1, &w));
            PTO_TRY(linear(d, x, &w, &up, false));
            PTO_TRY(pto_submit(d->rt, d->k.swiglu, pto_input(&gate), pto_input(&up),
                               pto_output(&h_tile)));
        }
        PTO_TRY(linear(d, &h, &ffn->down, y, add));
    }
    return PTO_OK;
}

/* A page for one layer: [kv_heads, page, dim]. */
static pto_status page_of(const pto_tensor *pool, int64_t layer, int64_t page, pto_tensor *t)
{
    PTO_TRY(pto_tensor_select(pool, 0, layer, t));
    return pto_tensor_select(t, 0, page, t);
}

/* One head of a page: [page, dim]. */
static pto_status head_of(const pto_tensor *pool, int64_t layer, int64_t page, int64_t head,
                          pto_tensor *t)
{
    PTO_TRY(page_of(pool, layer, page, t));
    return pto_tensor_select(t, 0, head, t);
}

/* Stores new rows of keys or values (`from`: [rows, kv_heads, dim]) in pages of their sequence. */
static pto_status remember(const decode *d, int64_t layer, int64_t b, const pto_tensor *pool,
                           const pto_tensor *from)
{
    const decode_share *s = &d->shares[b];
    for (int64_t done = 0, n; done < s->rows; done += n) {
        pto_tensor rows, slots;
        const int64_t position = s->position + done, slot = position % d->page,
                      page = d->table[b * d->table_width + position / d->page];
        n = least(d->page - slot, s->rows - done);
        PTO_TRY(pto_tensor_slice(from, 0, s->row + done, s->row + done + n, 1, &rows));
        PTO_TRY(pto_tensor_transpose(&rows, 0, 1, &rows));
        PTO_TRY(page_of(pool, layer, page, &slots));
        PTO_TRY(pto_tensor_slice(&slots, 1, slot, slot + n, 1, &slots));
        PTO_TRY(pto_submit_rearrange(d->rt, &slots, &rows, PTO_ACCELERATOR));
    }
    return PTO_OK;
}

/* Attention of the rows of one sequence, for the query heads that share one KV head. Each page is a
 * separate argument, so a task waits only for the pages it reads. */
static pto_status attend(const decode *d, int64_t layer, int64_t b, int64_t head,
                         const pto_tensor *q, const pto_tensor *seen)
{
    const decode_sizes *z = &d->model.sizes;
    const decode_share *s = &d->shares[b];
    const int64_t group = z->heads / z->kv_heads, start[] = {s->row, head * group, 0},
                  shape[] = {s->rows, group, z->dim},
                  pages = (s->position + s->rows + d->page - 1) / d->page;
    pto_tensor state, mine, out, views[2 * DECODE_CHUNK];
    PTO_TRY(pto_tensor_view(q, start, shape, &mine));
    PTO_TRY(pto_tensor_view(seen, start, shape, &out));
    PTO_BOUNDARY(d->rt) {
        PTO_TRY(temp(d, s->rows * group, attention_width(z->dim), &state));
        for (int64_t page = 0; page < pages; page += DECODE_CHUNK) {
            const int64_t n = least(DECODE_CHUNK, pages - page), visible = s->position + 1;
            pto_param params[4 + 2 * DECODE_CHUNK] = {
                page ? pto_inout(&state) : pto_output(&state), pto_input(&mine),
                pto_scalar(1 / sqrtf((float)z->dim)), pto_scalar(visible - page * d->page)};
            for (int64_t i = 0; i < n; i++) {
                const int64_t p = d->table[b * d->table_width + page + i];
                pto_tensor *k = &views[2 * i], *v = &views[2 * i + 1];
                PTO_TRY(head_of(&d->keys, layer, p, head, k));
                PTO_TRY(head_of(&d->values, layer, p, head, v));
                params[4 + 2 * i] = pto_input(k);
                params[5 + 2 * i] = pto_input(v);
            }
            PTO_TRY(pto_submit_task(d->rt, page ? d->k.attend.next : d->k.attend.first,
                                    PTO_KERNEL_TYPE, params, (size_t)(4 + 2 * n), NULL));
        }
        PTO_TRY(pto_submit(d->rt, d->k.attend.finish, pto_input(&state), pto_output(&out)));
    }
    return PTO_OK;
}

static pto_status attention(const decode *d, const step *now, int64_t l)
{
    const decode_sizes *z = &d->model.sizes;
    const decode_layer *layer = &d->model.layers[l];
    const int64_t by_query[] = {now->rows, z->heads, z->dim},
                  by_key[] = {now->rows, z->kv_heads, z->dim};
    pto_tensor normed, q, k, v, seen, q_heads, k_heads, v_heads, seen_heads;
    PTO_TRY(normalise(d, &now->x, &layer->attention_norm, &normed));
    PTO_TRY(parts(d, now->rows, z->heads * z->dim, &q));
    PTO_TRY(parts(d, now->rows, z->kv_heads * z->dim, &k));
    PTO_TRY(parts(d, now->rows, z->kv_heads * z->dim, &v));
    PTO_TRY(parts(d, now->rows, z->heads * z->dim, &seen));
    PTO_TRY(linear(d, &normed, &layer->q, &q, false));
    PTO_TRY(linear(d, &normed, &layer->k, &k, false));
    PTO_TRY(linear(d, &normed, &layer->v, &v, false));
    PTO_TRY(pto_submit(d->rt, d->k.turn, pto_inout(&q), pto_input(&now->positions),
                       pto_input(&d->model.rope)));
    PTO_TRY(pto_submit(d->rt, d->k.turn, pto_inout(&k), pto_input(&now->positions),
                       pto_input(&d->model.rope)));
    PTO_TRY(pto_tensor_reshape(&q, 3, by_query, &q_heads));
    PTO_TRY(pto_tensor_reshape(&k, 3, by_key, &k_heads));
    PTO_TRY(pto_tensor_reshape(&v, 3, by_key, &v_heads));
    PTO_TRY(pto_tensor_reshape(&seen, 3, by_query, &seen_heads));
    for (int64_t b = 0; b < z->batch; b++) {
        PTO_TRY(remember(d, l, b, &d->keys, &k_heads));
        PTO_TRY(remember(d, l, b, &d->values, &v_heads));
        for (int64_t head = 0; head < z->kv_heads; head++) {
            PTO_TRY(attend(d, l, b, head, &q_heads, &seen_heads));
        }
    }
    return linear(d, &seen, &layer->o, &now->x, true);
}

/* Sorts rows by expert: order[i] is the row at place i, places[j] is the place of the j-th choice.
 * The rows of expert e start at first[e]. */
static void group_rows(const decode *d, const int32_t *route, int64_t rows, int64_t *first)
{
    const decode_sizes *z = &d->model.sizes;
    int64_t at = 0;
    for (int32_t e = 0; e < z->experts; e++) {
        first[e] = at;
        for (int64_t j = 0; j < rows * z->chosen; j++) {
            if (route[j] == e) {
                d->order[at] = (int32_t)(j / z->chosen);
                d->places[j] = (int32_t)at++;
            }
        }
    }
    first[z->experts] = at;
}

static pto_status experts(const decode *d, const step *now, const decode_layer *layer, int64_t moe,
                          const pto_tensor *normed)
{
    const decode_sizes *z = &d->model.sizes;
    const int64_t all = now->rows * z->chosen, by_choice[] = {now->rows, z->chosen};
    int32_t *route = decode_route_at(&d->result, z, &d->prompts, now->number, moe);
    int64_t first[DECODE_MAX_EXPERTS + 1];
    pto_tensor scores, choice, shares, order, places, grouped, outs, in, out;
    PTO_TRY(parts(d, now->rows, z->experts, &scores));
    PTO_TRY(linear(d, normed, &layer->router, &scores, false));
    PTO_TRY(pto_temp(d->rt, PTO_INT32, 2, by_choice, &choice));
    PTO_TRY(pto_temp(d->rt, PTO_FLOAT32, 2, by_choice, &shares));
    PTO_TRY(pto_submit(d->rt, d->k.choose, pto_input(&scores), pto_output(&choice),
                       pto_output(&shares)));

    /* Waits only for the router and the tasks it needs. From here on the numbers are plain C: they
     * decide what is submitted, and which rows form a view. */
    PTO_TRY(pto_read(d->rt, &choice, route, (uint64_t)all * sizeof *route));
    group_rows(d, route, now->rows, first);

    PTO_TRY(host(d, d->order, all, 0, &order));
    PTO_TRY(host(d, d->places, now->rows, z->chosen, &places));
    PTO_TRY(temp(d, all, z->width, &grouped));
    PTO_TRY(parts(d, all, z->width, &outs));
    PTO_TRY(gather(d, normed, &order, &grouped));
    for (int64_t e = 0; e < z->experts; e++) {
        if (first[e] < first[e + 1]) { /* an expert without rows costs nothing */
            PTO_TRY(pto_tensor_slice(&grouped, 0, first[e], first[e + 1], 1, &in));
            PTO_TRY(pto_tensor_slice(&outs, 0, first[e], first[e + 1], 1, &out));
            PTO_TRY(feed_forward(d, &layer->ffn[e], &in, &out, false));
        }
    }
    return pto_submit(d->rt, d->k.combine, pto_inout(&now->x), pto_input(&outs), pto_input(&places),
                      pto_input(&shares));
}

/* The next token of every sequence, from its last row. */
static pto_status sample(const decode *d, const step *now)
{
    const decode_sizes *z = &d->model.sizes;
    int32_t *tokens = d->result.tokens + now->number * z->batch;
    pto_tensor which, last, normed, logits, best;
    for (int64_t b = 0; b < z->batch; b++) {
        d->last[b] = (int32_t)(d->shares[b].row + d->shares[b].rows - 1);
    }
    PTO_TRY(host(d, d->last, z->batch, 0, &which));
    PTO_TRY(temp(d, z->batch, z->width, &last));
    PTO_TRY(gather(d, &now->x, &which, &last));
    PTO_TRY(normalise(d, &last, &d->model.norm, &normed));
    PTO_TRY(pto_external_tensor(d->rt, decode_logits_at(&d->result, z, now->number), PTO_FLOAT32, 2,
                                (int64_t[]){z->batch, z->vocabulary}, &logits));
    PTO_TRY(linear(d, &normed, &d->model.head, &logits, false));
    PTO_TRY(pto_temp(d->rt, PTO_INT32, 1, &z->batch, &best));
    PTO_TRY(pto_submit(d->rt, d->k.argmax, pto_input(&logits), pto_output(&best)));
    return pto_read(d->rt, &best, tokens, (uint64_t)z->batch * sizeof *tokens);
}

/* Sets the rows and positions of each sequence in this step, and adds pages where the last one is
 * full. */
static int64_t begin_step(decode *d, int64_t number)
{
    const decode_sizes *z = &d->model.sizes;
    const decode_prompts *p = &d->prompts;
    for (int64_t b = 0; b < z->batch; b++) {
        decode_share *s = &d->shares[b];
        *s = number ? (decode_share){b, 1, p->length[b] + number - 1}
                    : (decode_share){p->row[b], p->length[b], 0};
        for (int64_t i = 0; i < s->rows; i++) {
            const int64_t position = s->position + i;
            d->positions[s->row + i] = (int32_t)position;
            if (position % d->page == 0) {
                d->table[b * d->table_width + position / d->page] = (int32_t)d->pages_used++;
            }
        }
    }
    return number ? z->batch : p->rows;
}

static pto_status run_step(decode *d, int64_t number)
{
    const decode_sizes *z = &d->model.sizes;
    const int32_t *tokens = number ? d->result.tokens + (number - 1) * z->batch : d->prompts.tokens;
    step now = {.number = number, .rows = begin_step(d, number)};
    pto_tensor which;
    PTO_TRY(host(d, tokens, now.rows, 0, &which));
    PTO_TRY(host(d, d->positions, now.rows, 0, &now.positions));
    PTO_TRY(temp(d, now.rows, z->width, &now.x));
    PTO_TRY(gather(d, &d->model.embedding, &which, &now.x));
    for (int64_t l = 0, moe = 0; l < z->layers; l++) {
        const decode_layer *layer = &d->model.layers[l];
        pto_tensor normed;
        PTO_BOUNDARY(d->rt) {
            PTO_TRY(attention(d, &now, l));
        }
        PTO_BOUNDARY(d->rt) {
            PTO_TRY(normalise(d, &now.x, &layer->ffn_norm, &normed));
            PTO_TRY(layer->moe ? experts(d, &now, layer, moe++, &normed)
                               : feed_forward(d, layer->ffn, &normed, &now.x, true));
        }
        workload_progress(d->job, (uint64_t)(number * z->layers + l + 1));
    }
    return sample(d, &now);
}

double decode_seconds(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static pto_status orchestrate(workload_job *job)
{
    decode *d = job->data;
    d->seconds[0] = d->seconds[1] = 0;
    if (job->elsewhere) {
        PTO_TRY(decode_block_run(d));
        decode_tell(d);
        return PTO_OK;
    }
    for (int64_t number = 0; number < d->model.sizes.tokens; number++) {
        const double start = decode_seconds();
        PTO_BOUNDARY(d->rt) {
            PTO_TRY(run_step(d, number));
        }
        d->seconds[number > 0] += decode_seconds() - start;
    }
    PTO_TRY(pto_wait(d->rt));
    decode_tell(d);
    return PTO_OK;
}

/* Registers the kernels with this runtime. */
static pto_status start(workload_job *job)
{
    decode *d = job->data;
    d->job = job;
    d->rt = job->rt;
    return job->elsewhere ? decode_block_start(d) : decode_register(job->rt, &d->k);
}

const workload workload_decode = {
    .name = "decode",
    .summary = "transformer decoder: paged attention, experts, greedy tokens",
    .options = decode_options,
    .n_options = DECODE_OPTIONS,
    .prepare = decode_prepare,
    .start = start,
    .orchestrate = orchestrate,
    .restore = decode_restore,
    .check = decode_check,
    .discard = decode_discard,
};
