/* attention.c - softmax(q k') v as LLM servers compute it: with pages and with blocks.
 *
 * decode   Several sequences grow by one token per step. Keys and values are in pages of one pool.
 *          A block table in plain C says which pages a sequence has. Every step stores the keys and
 *          values of the new tokens. Then each new token attends to all tokens of its sequence:
 *
 *              pages of a sequence     [ 7 ][ 2 ][ 9 ][ 4 ][ 0 ][ 5..   the last one partly filled
 *                                       \___/     \___/     \___/
 *              one task per chunk       state     state     state       see attention_kernels.h
 *                                           \     /         /
 *              merged in a tree              merge         /
 *                                                \        /
 *                                                 merge --> finish --> a row of the output
 *
 *          A sequence that is done returns its pages, and another one takes them immediately, while
 *          tasks still read them. The program does not tell the runtime. Tasks name the bytes they
 *          touch, so a task that stores a token waits for the readers of exactly these bytes.
 *
 * prefill  All tokens of a sequence are queries: blocks of queries by blocks of keys. Blocks above
 *          the diagonal are not submitted. The state of a block of queries is updated in place by a
 *          chain of tasks, and the chains run in parallel.
 *
 * With --device, pto_execute copies tokens to a device and the outputs back, and the same program runs
 * there.
 */
#include <inttypes.h>
#include <math.h>
#include <pto/execute.h>
#include <pto/work.h>
#include <string.h>
#include <unistd.h>

#include "attention.h"
#include "where.h"

enum {
    MODE,
    BATCH,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    MAX_LEN,
    PAGE,
    STEPS,
    CHUNK,
    QUERY_BLOCK,
    KEY_BLOCK,
    DEVICE,
    OPTIONS,
    MOST_PAGES = 64, /* largest number of pages in a chunk; their views are on the stack */
};

enum { TOKENS, TRACE, POOL }; /* streams of random numbers */

static const workload_option options[OPTIONS] = {
    [MODE] = {"mode", "decode, prefill or both", "both", 0, 0, 0, 0, 0},
    [BATCH] = {"batch", "sequences at a time", NULL, 4, 1, 4096, 3, 0},
    [HEADS] = {"heads", "query heads", NULL, 32, 1, 1024, 6, 0},
    [KV_HEADS] = {"kv-heads", "KV heads; must divide heads", NULL, 8, 1, 1024, 2, 0},
    [HEAD_DIM] = {"head-dim", "dimension of a head", NULL, 128, 1, ATTENTION_MAX_DIM, 20, 0},
    [MAX_LEN] = {"max-len", "tokens of the longest sequence", NULL, 2048, 1, 1 << 20, 75, 0},
    [PAGE] = {"page", "tokens in a page", NULL, 16, 1, 1 << 16, 8, 0},
    [STEPS] = {"steps", "new tokens of each sequence", NULL, 32, 1, 1 << 16, 20, 0},
    [CHUNK] = {"chunk", "pages per task", NULL, 8, 1, MOST_PAGES, 2, 0},
    [QUERY_BLOCK] = {"query-block", "positions in a block of queries", NULL, 64, 1, 4096, 16, 0},
    [KEY_BLOCK] = {"key-block", "tokens in a block of keys", NULL, 128, 1, 1 << 16, 12, 0},
    [DEVICE] = WORKLOAD_DEVICE_OPTION,
};

static int64_t random_below(workload_rng *rng, int64_t end)
{
    return (int64_t)(workload_uniform(rng) * (double)end);
}

/* ---- Decode ---------------------------------------------------------------------------------- */

/* On a device by a kernel, since a few numbers are not worth a call of its engine. */
static pto_status store_kernel(const pto_call *call)
{
    const pto_arg *from = &call->args[0], *to = &call->args[1];
    for (int64_t i = 0; i < to->shape[0]; i++) {
        for (int64_t j = 0; j < to->shape[1]; j++) {
            for (int64_t k = 0; k < to->shape[2]; k++) {
                ((float *)to->data)[i * to->strides[0] + j * to->strides[1] + k * to->strides[2]] =
                    ((const float *)from->data)[i * from->strides[0] + j * from->strides[1] +
                                                k * from->strides[2]];
            }
        }
    }
    return PTO_OK;
}

static pto_status copy(workload_job *job, const pto_tensor *from, const pto_tensor *to)
{
    const attention *a = job->data;
    if (job->elsewhere) {
        return pto_submit(job->rt, a->store, pto_input(from), pto_output(to));
    }
    const pto_work work = {.opcode = PTO_WORK_STRIDED_COPY,
                           .inputs = from,
                           .n_inputs = 1,
                           .outputs = to,
                           .n_outputs = 1};
    return pto_submit_work(job->rt, &work, NULL);
}

/* Copies tokens into the pages of a sequence until it has the given length: a prompt page by page,
 * a new token alone. Keys are stored transposed in their page, as the kernel prefers: for each dim
 * of the head, the keys are adjacent. So a token is a column. Its bytes lie between those of its
 * neighbours, but tasks that read earlier columns share no byte with it. */
static pto_status store(workload_job *job, sequence *s, int64_t length)
{
    attention *a = job->data;
    while (s->length < length) {
        const int64_t at = s->length % a->page, n = least(a->page - at, length - s->length);
        if (at == 0) {
            s->pages[s->n_pages++] = a->free_pages[--a->n_free];
        }
        const int64_t page = s->pages[s->n_pages - 1], token = s->first + s->length;
        const int64_t shape[] = {n, a->kv_heads, a->dim};
        pto_tensor from, to;

        PTO_TRY(pto_tensor_view(&a->tk, (int64_t[]){token, 0, 0}, shape, &from));
        PTO_TRY(pto_tensor_permute(&from, (int32_t[]){1, 2, 0}, &from));
        PTO_TRY(pto_tensor_select(&a->k_pool, 0, page, &to));
        PTO_TRY(pto_tensor_slice(&to, 2, at, at + n, 1, &to));
        PTO_TRY(copy(job, &from, &to));

        PTO_TRY(pto_tensor_view(&a->tv, (int64_t[]){token, 0, 0}, shape, &from));
        PTO_TRY(pto_tensor_permute(&from, (int32_t[]){1, 0, 2}, &from));
        PTO_TRY(pto_tensor_select(&a->v_pool, 0, page, &to));
        PTO_TRY(pto_tensor_slice(&to, 1, at, at + n, 1, &to));
        PTO_TRY(copy(job, &from, &to));
        s->length += n;
    }
    return PTO_OK;
}

/* One task: the queries attend to pages from .. end - 1, as far as these are filled. */
static pto_status look_at_chunk(workload_job *job, const sequence *s, int64_t head,
                                const pto_tensor *q, int64_t from, int64_t end,
                                const pto_tensor *state)
{
    const attention *a = job->data;
    pto_tensor view[2 * MOST_PAGES];
    pto_param params[4 + 2 * MOST_PAGES] = {
        pto_output(state),
        pto_input(q),
        pto_scalar(a->scale),
        pto_scalar(ATTENTION_ALL),
    };
    size_t n = 0;
    for (int64_t p = from; p < end; p++) {
        const int64_t filled = least(a->page, s->length - p * a->page);
        const int64_t start[] = {s->pages[p], head, 0, 0};
        pto_tensor *k = &view[n], *v = &view[n + 1];
        PTO_TRY(pto_tensor_view(&a->k_pool, start, (int64_t[]){1, 1, a->dim, filled}, k));
        PTO_TRY(pto_tensor_reshape(k, 2, (int64_t[]){a->dim, filled}, k));
        PTO_TRY(pto_tensor_transpose(k, 0, 1, k));
        PTO_TRY(pto_tensor_view(&a->v_pool, start, (int64_t[]){1, 1, filled, a->dim}, v));
        PTO_TRY(pto_tensor_reshape(v, 2, (int64_t[]){filled, a->dim}, v));
        params[4 + n] = pto_input(k);
        params[5 + n] = pto_input(v);
        n += 2;
    }
    return pto_submit_task(job->rt, a->kernels.first, PTO_KERNEL_TYPE, params, 4 + n, NULL);
}

/* The same for any number of pages: two halves, merged. */
static pto_status look(workload_job *job, const sequence *s, int64_t head, const pto_tensor *q,
                       int64_t from, int64_t end, const pto_tensor *state)
{
    const attention *a = job->data;
    const int64_t chunks = divide_up(end - from, a->chunk);
    if (chunks <= 1) {
        return look_at_chunk(job, s, head, q, from, end, state);
    }
    const int64_t middle = from + chunks / 2 * a->chunk;
    pto_tensor right;
    PTO_TRY(pto_temp(job->rt, PTO_FLOAT32, 2, state->shape, &right));
    PTO_TRY(look(job, s, head, q, from, middle, state));
    PTO_TRY(look(job, s, head, q, middle, end, &right));
    return pto_submit(job->rt, a->kernels.merge, pto_inout(state), pto_input(&right));
}

/* Attention of the newest token of a sequence, into row `row` of the output. */
static pto_status ask(workload_job *job, const sequence *s, int64_t row)
{
    const attention *a = job->data;
    const int64_t shape[] = {1, a->group, a->dim};
    for (int64_t head = 0; head < a->kv_heads; head++) {
        const int64_t query = s->first + s->length - 1, first_head = head * a->group;
        pto_tensor q, out, state;
        PTO_TRY(pto_tensor_view(&a->tq, (int64_t[]){query, first_head, 0}, shape, &q));
        PTO_TRY(pto_tensor_view(&a->tdecoded, (int64_t[]){row, first_head, 0}, shape, &out));
        /* The states of one query live here, however many chunks there are. The scope ends when all
         * tasks are submitted. The memory of a state is recycled when the task that reads it is
         * done. */
        PTO_BOUNDARY(job->rt) {
            PTO_TRY(pto_temp(job->rt, PTO_FLOAT32, 2,
                             (int64_t[]){a->group, attention_width(a->dim)}, &state));
            PTO_TRY(look(job, s, head, &q, 0, s->n_pages, &state));
            PTO_TRY(pto_submit(job->rt, a->kernels.finish, pto_input(&state), pto_output(&out)));
        }
    }
    return PTO_OK;
}

/* Makes all pages free, in random order, as in a pool that has been in use for a while. */
static void empty_pool(workload_job *job)
{
    attention *a = job->data;
    workload_rng rng = workload_rng_make(job->seed, POOL);
    for (int64_t p = 0; p < a->n_pages; p++) {
        const int64_t other = random_below(&rng, p + 1);
        a->free_pages[p] = a->free_pages[other];
        a->free_pages[other] = p;
    }
    a->n_free = a->n_pages;
    for (int64_t i = 0; i < a->batch; i++) {
        a->serving[i].n_pages = 0;
    }
}

static pto_status decode(workload_job *job)
{
    attention *a = job->data;
    empty_pool(job);
    for (int64_t row = 0; row < a->steps * a->batch; row += a->batch) {
        for (int64_t i = 0; i < a->batch; i++) {
            const turn *t = &a->turns[row + i];
            sequence *s = &a->serving[i];
            if (t->arrives) {
                /* From here on the pages are free, in program order. Tasks that read them may not
                 * even have started: a task that rewrites a page waits for them. */
                while (s->n_pages > 0) {
                    a->free_pages[a->n_free++] = s->pages[--s->n_pages];
                }
                *s = (sequence){.first = t->first, .pages = s->pages};
                PTO_TRY(store(job, s, t->length - 1));
            }
            PTO_TRY(store(job, s, t->length));
        }
        for (int64_t i = 0; i < a->batch; i++) {
            PTO_TRY(ask(job, &a->serving[i], row + i));
            workload_progress(job, ++a->done);
        }
    }
    return PTO_OK;
}

/* ---- Prefill --------------------------------------------------------------------------------- */

/* Queries from .. from + n - 1 of a prompt, with the query heads that share one KV head. */
static pto_status prefill_block(workload_job *job, int64_t i, int64_t head, int64_t from, int64_t n)
{
    const attention *a = job->data;
    const int64_t first = a->prompts[i].first, first_head = head * a->group;
    const int64_t shape[] = {n, a->group, a->dim};
    pto_tensor q, out, state, k, v;
    PTO_TRY(pto_tensor_view(&a->tq, (int64_t[]){first + from, first_head, 0}, shape, &q));
    PTO_TRY(pto_tensor_view(&a->tprefilled, (int64_t[]){i * a->max_len + from, first_head, 0},
                            shape, &out));
    PTO_BOUNDARY(job->rt) {
        PTO_TRY(pto_temp(job->rt, PTO_FLOAT32, 2,
                         (int64_t[]){n * a->group, attention_width(a->dim)}, &state));
        /* The last query of the block sees from + n tokens; later tokens are masked. */
        for (int64_t key = 0; key < from + n; key += a->key_block) {
            const int64_t keys = least(a->key_block, from + n - key);
            const int64_t start[] = {first + key, head, 0};
            const pto_kernel kernel = key == 0 ? a->kernels.first : a->kernels.next;
            PTO_TRY(pto_tensor_view(&a->tk, start, (int64_t[]){keys, 1, a->dim}, &k));
            PTO_TRY(pto_tensor_select(&k, 1, 0, &k));
            PTO_TRY(pto_tensor_view(&a->tv, start, (int64_t[]){keys, 1, a->dim}, &v));
            PTO_TRY(pto_tensor_select(&v, 1, 0, &v));
            PTO_TRY(pto_submit(job->rt, kernel, key == 0 ? pto_output(&state) : pto_inout(&state),
                               pto_input(&q), pto_scalar(a->scale), pto_scalar(from + 1 - key),
                               pto_input(&k), pto_input(&v)));
        }
        PTO_TRY(pto_submit(job->rt, a->kernels.finish, pto_input(&state), pto_output(&out)));
    }
    return PTO_OK;
}

static pto_status prefill(workload_job *job)
{
    attention *a = job->data;
    for (int64_t i = 0; i < a->batch; i++) {
        /* The last blocks have the most work, so they come first. Short ones fill the end. */
        for (int64_t b = divide_up(a->prompts[i].length, a->query_block) - 1; b >= 0; b--) {
            const int64_t from = b * a->query_block, left = a->prompts[i].length - from;
            for (int64_t head = 0; head < a->kv_heads; head++) {
                PTO_TRY(prefill_block(job, i, head, from, least(a->query_block, left)));
            }
            workload_progress(job, ++a->done);
        }
    }
    return PTO_OK;
}

static pto_status serve(workload_job *job)
{
    attention *a = job->data;
    a->done = 0;
    if (a->prefill) {
        PTO_TRY(prefill(job));
    }
    return a->decode ? decode(job) : PTO_OK;
}

/* ---- In place, or elsewhere ------------------------------------------------------------------ */

/* The arrays, of the host or of a device. Of the outputs, those of the modes that are run. */
enum { Q, K, V, THE_POOL, DECODED, PREFILLED, ARRAYS };

static pto_status use(attention *a, const pto_tensor *arrays)
{
    a->tq = arrays[Q];
    a->tk = arrays[K];
    a->tv = arrays[V];
    a->tdecoded = arrays[DECODED];
    a->tprefilled = arrays[PREFILLED];
    if (a->decode) { /* a page holds keys, then values: both are views of the pool */
        const int64_t keys[] = {a->n_pages, a->kv_heads, a->dim, a->page},
                      values[] = {a->n_pages, a->kv_heads, a->page, a->dim};
        PTO_TRY(pto_tensor_slice(&arrays[THE_POOL], 1, 0, 1, 1, &a->k_pool));
        PTO_TRY(pto_tensor_reshape(&a->k_pool, 4, keys, &a->k_pool));
        PTO_TRY(pto_tensor_slice(&arrays[THE_POOL], 1, 1, 2, 1, &a->v_pool));
        PTO_TRY(pto_tensor_reshape(&a->v_pool, 4, values, &a->v_pool));
    }
    return PTO_OK;
}

static pto_status wrap(workload_job *job, pto_tensor *arrays)
{
    const attention *a = job->data;
    const int64_t shapes[ARRAYS][4] = {
        [Q] = {a->tokens, a->heads, a->dim},
        [K] = {a->tokens, a->kv_heads, a->dim},
        [V] = {a->tokens, a->kv_heads, a->dim},
        [THE_POOL] = {a->n_pages, 2, a->kv_heads, a->dim * a->page},
        [DECODED] = {a->steps * a->batch, a->heads, a->dim},
        [PREFILLED] = {a->batch * a->max_len, a->heads, a->dim},
    };
    void *const memory[ARRAYS] = {a->q, a->k, a->v, a->pool, a->decoded, a->prefilled};
    for (int i = 0; i < ARRAYS; i++) {
        if (memory[i]) {
            PTO_TRY(pto_external_tensor(job->rt, memory[i], PTO_FLOAT32, i == THE_POOL ? 4 : 3,
                                        shapes[i], &arrays[i]));
        }
    }
    return PTO_OK;
}

/* Inputs are all arrays that there are. The outputs begin as on the host: a row that no task writes
 * is NaN here, too. */
static pto_status serve_there(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                              void *params)
{
    workload_job *job = params;
    attention *a = job->data;
    pto_tensor arrays[ARRAYS] = {inputs[0], inputs[1], inputs[2]};
    inputs += 3;
    if (a->decode) {
        arrays[THE_POOL] = *inputs++;
        arrays[DECODED] = *outputs++;
        PTO_TRY(pto_copy(rt, &arrays[DECODED], inputs++));
    }
    if (a->prefill) {
        arrays[PREFILLED] = *outputs;
        PTO_TRY(pto_copy(rt, &arrays[PREFILLED], inputs));
    }
    PTO_TRY(use(a, arrays));
    return serve(job);
}

static pto_status orchestrate(workload_job *job)
{
    attention *a = job->data;
    pto_tensor arrays[ARRAYS], inputs[ARRAYS], outputs[2];
    size_t n_in = 0, n_out = 0;
    PTO_TRY(wrap(job, arrays));
    if (!job->elsewhere) {
        PTO_TRY(use(a, arrays));
        PTO_TRY(serve(job));
        return pto_wait(job->rt);
    }
    for (int i = 0; i < ARRAYS; i++) {
        const bool there = i < THE_POOL || (i == PREFILLED ? a->prefill : a->decode);
        if (there) {
            inputs[n_in++] = arrays[i];
        }
        if (there && i >= DECODED) {
            outputs[n_out++] = arrays[i];
        }
    }
    const pto_execute_options where = {.size = sizeof where, .device = job->device};
    return pto_execute_ex(job->rt, serve_there, inputs, n_in, outputs, n_out, job, &where);
}

/* ---- Options and data --------------------------------------------------------------------- */

/* Makes the schedule of sequences and computes its cost. Sequences arrive with a prompt of any
 * length, and leave at the maximum length. */
static void make_trace(workload_job *job)
{
    attention *a = job->data;
    workload_rng rng = workload_rng_make(job->seed, TRACE);
    double keys = 0;
    for (int64_t i = 0; a->decode && i < a->batch; i++) {
        turn *t = NULL;
        for (int64_t step = 0; step < a->steps; step++) {
            const turn *last = t;
            t = &a->turns[step * a->batch + i];
            if (last && last->length < a->max_len) {
                *t = (turn){.first = last->first, .length = last->length + 1};
            } else {
                *t = (turn){.first = random_below(&rng, a->tokens - a->max_len + 1),
                            .length = 1 + random_below(&rng, a->max_len),
                            .arrives = true};
            }
            if (i == 0 && step == 0) { /* one sequence that leaves early */
                t->length = a->max_len - least(a->steps / 2, a->max_len - 1);
            }
            keys += (double)t->length;
        }
    }
    for (int64_t i = 0; a->prefill && i < a->batch; i++) {
        turn *t = &a->prompts[i];
        t->first = random_below(&rng, a->tokens - a->max_len + 1);
        t->length = i == 0 ? a->max_len : 1 + a->max_len / 2 + random_below(&rng, a->max_len / 2);
        keys += (double)t->length * (double)(t->length + 1) / 2;
        job->total += (uint64_t)divide_up(t->length, a->query_block);
    }
    job->total += a->decode ? (uint64_t)(a->steps * a->batch) : 0;
    job->flops = attention_flops(keys, (double)a->dim) * (double)a->heads;
}

static uint64_t most_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Scopes determine what must fit: the tasks, arguments and states of one query with all its chunks,
 * or of one block of queries with its chain. More room lets submitting run ahead. */
static void size_rings(workload_job *job)
{
    const attention *a = job->data;
    const uint64_t state = (uint64_t)(a->group * attention_width(a->dim)) * sizeof(float);
    const uint64_t chunks = a->decode ? (uint64_t)divide_up(a->most, a->chunk) : 0;
    const uint64_t blocks = a->prefill ? (uint64_t)divide_up(a->max_len, a->key_block) : 0;
    const uint64_t queries = a->prefill ? (uint64_t)least(a->query_block, a->max_len) : 0;
    const uint64_t tensors = most_of(a->decode ? 2 * (uint64_t)a->chunk : 0, 2) +
                             2; /* tensors of a task */
    const uint64_t tasks = most_of(2 * chunks, blocks + 1);

    job->tight.levels = 2; /* tokens are stored outside scopes; all other tasks are inside */
    job->tight.ring_tasks = (uint32_t)tasks;
    job->tight.heap_bytes = most_of(chunks, queries) * state;
    job->tight.arg_bytes = tasks * (tensors + 1) * 48 + 512; /* a single store needs nearly 512 */
    job->tight.buffers = (uint32_t)chunks + 1;
    /* Less would work: a task whose accesses do not fit runs alone. This lets some tasks overtake
     * others. */
    job->tight.map_entries = (uint32_t)(4 * tensors);
    job->tight.deps = 16;

    /* Eight of them, as far as the bounds of the runtime allow, and at least the defaults. */
    job->usual.ring_tasks = (uint32_t)least_of(most_of(1024, 8 * tasks), 1 << 22);
    job->usual.heap_bytes = most_of(UINT64_C(256) << 20, 8 * job->tight.heap_bytes);
    job->usual.device_heap_bytes = most_of(UINT64_C(16) << 20, 8 * job->tight.heap_bytes);
    job->usual.arg_bytes = job->usual.ring_tasks * (tensors + 2) * 48;
    job->usual.buffers = (uint32_t)most_of(65536, chunks + 1);
    job->usual.map_entries = (uint32_t)least_of(most_of(4096, job->usual.ring_tasks * tensors),
                                                1 << 26);
}

static pto_status check_sizes(workload_job *job)
{
    const attention *a = job->data;
    const char *mode = job->text[MODE];
    if (strcmp(mode, "decode") != 0 && strcmp(mode, "prefill") != 0 && strcmp(mode, "both") != 0) {
        return pto_fail(PTO_BAD_CONFIG, "--mode is decode, prefill or both, not '%s'", mode);
    }
    if (a->heads % a->kv_heads != 0) {
        return pto_fail(PTO_BAD_SHAPE,
                        "%" PRId64 " heads cannot share %" PRId64
                        " heads of keys and values: --heads must be a multiple of --kv-heads",
                        a->heads, a->kv_heads);
    }
    if (a->decode && a->page > a->max_len) {
        return pto_fail(PTO_BAD_SHAPE,
                        "a page of %" PRId64
                        " tokens would never be full: no sequence has more than "
                        "%" PRId64 " (--page, --max-len)",
                        a->page, a->max_len);
    }
    /* Nothing overflows, because the options are bounded. But it may not fit into memory. */
    const double row = (double)a->dim * sizeof(float), heads = (double)a->heads;
    double bytes = row * (double)a->tokens * (heads + 2 * (double)a->kv_heads);
    if (a->decode) {
        bytes += row * (double)a->n_pages * (double)a->page * 2 * (double)a->kv_heads;
        bytes += row * (double)a->steps * (double)a->batch * heads;
    }
    if (a->prefill) {
        bytes += row * (double)a->batch * (double)a->max_len * heads;
    }
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (bytes > memory) {
        return pto_fail(
            PTO_OUT_OF_MEMORY,
            "it takes %.1f GiB, and this machine has %.1f: make --batch, --max-len, --steps "
            "or the heads smaller",
            bytes / 0x1p30, memory / 0x1p30);
    }
    return PTO_OK;
}

static void fill(workload_rng *rng, float *to, int64_t n, double largest)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = (float)((2 * workload_uniform(rng) - 1) * largest);
    }
}

static pto_status allocate(workload_job *job)
{
    attention *a = job->data;
    const uint64_t dim = (uint64_t)a->dim, tokens = (uint64_t)a->tokens;
    const uint64_t heads = (uint64_t)a->heads, kv_heads = (uint64_t)a->kv_heads;
    const uint64_t batch = (uint64_t)a->batch, turns = batch * (uint64_t)a->steps;
    bool all = (a->q = workload_alloc(tokens * heads * dim, sizeof *a->q)) &&
               (a->k = workload_alloc(tokens * kv_heads * dim, sizeof *a->k)) &&
               (a->v = workload_alloc(tokens * kv_heads * dim, sizeof *a->v));
    if (a->decode) {
        const uint64_t pages = (uint64_t)a->n_pages, page = (uint64_t)a->page;
        all = all && (a->turns = workload_alloc(turns, sizeof *a->turns)) &&
              (a->serving = workload_alloc(batch, sizeof *a->serving)) &&
              (a->tables = workload_alloc(pages, sizeof *a->tables)) &&
              (a->free_pages = workload_alloc(pages, sizeof *a->free_pages)) &&
              (a->pool = workload_alloc(pages * page * 2 * kv_heads * dim, sizeof *a->pool)) &&
              (a->decoded = workload_alloc(turns * heads * dim, sizeof *a->decoded));
        for (int64_t i = 0; all && i < a->batch; i++) {
            a->serving[i].pages = a->tables + i * a->most;
        }
    }
    if (a->prefill) {
        const uint64_t rows = batch * (uint64_t)a->max_len;
        all = all && (a->prompts = workload_alloc(batch, sizeof *a->prompts)) &&
              (a->prefilled = workload_alloc(rows * heads * dim, sizeof *a->prefilled));
    }
    return all ? PTO_OK : PTO_OUT_OF_MEMORY;
}

/* Fill the outputs with NaN, so that a row that no task writes cannot pass for a result. */
static pto_status restore(workload_job *job)
{
    const attention *a = job->data;
    const size_t row = (size_t)(a->heads * a->dim) * sizeof(float);
    const size_t page = (size_t)(2 * a->kv_heads * a->dim * a->page) * sizeof(float);
    if (a->decode) {
        memset(a->pool, 0xff, (size_t)a->n_pages * page);
        memset(a->decoded, 0xff, (size_t)(a->steps * a->batch) * row);
    }
    if (a->prefill) {
        memset(a->prefilled, 0xff, (size_t)(a->batch * a->max_len) * row);
    }
    return PTO_OK;
}

static pto_status prepare(workload_job *job)
{
    attention *a = job->data = workload_alloc(1, sizeof *a);
    const int64_t *n = job->number;
    if (!a) {
        return PTO_OUT_OF_MEMORY;
    }
    a->batch = n[BATCH];
    a->heads = n[HEADS];
    a->kv_heads = n[KV_HEADS];
    a->group = a->heads / a->kv_heads;
    a->dim = n[HEAD_DIM];
    a->max_len = n[MAX_LEN];
    a->page = n[PAGE];
    a->steps = n[STEPS];
    a->chunk = n[CHUNK];
    a->query_block = n[QUERY_BLOCK];
    a->key_block = n[KEY_BLOCK];
    a->tokens = 2 * a->max_len;
    a->most = divide_up(a->max_len, a->page);
    a->n_pages = a->batch * a->most;
    a->scale = 1 / sqrt((double)a->dim);
    a->decode = strcmp(job->text[MODE], "prefill") != 0;
    a->prefill = strcmp(job->text[MODE], "decode") != 0;
    PTO_TRY(workload_device(job, job->text[DEVICE], false));
    PTO_TRY(check_sizes(job));
    PTO_TRY(allocate(job));
    make_trace(job);
    size_rings(job);
    workload_rng rng = workload_rng_make(job->seed, TOKENS);
    fill(&rng, a->q, a->tokens * a->heads * a->dim, 8); /* large scores, so that weights differ */
    fill(&rng, a->k, a->tokens * a->kv_heads * a->dim, 1);
    fill(&rng, a->v, a->tokens * a->kv_heads * a->dim, 1);
    return restore(job);
}

static pto_status start(workload_job *job)
{
    attention *a = job->data;
    attention_kernels *k = &a->kernels;
    PTO_TRY(workload_kernel(job, "attend_first", PTO_VECTOR, attention_kernel_first, &k->first));
    PTO_TRY(workload_kernel(job, "attend_next", PTO_VECTOR, attention_kernel_next, &k->next));
    PTO_TRY(workload_kernel(job, "attend_merge", PTO_VECTOR, attention_kernel_merge, &k->merge));
    PTO_TRY(workload_kernel(job, "attend_finish", PTO_VECTOR, attention_kernel_finish, &k->finish));
    if (job->elsewhere) {
        PTO_TRY(workload_kernel(job, "store", PTO_VECTOR, store_kernel, &a->store));
    }
    if (!workload_other_kernels(job)) {
        workload_say(job, "%s kernels", attention_isa());
    }
    return PTO_OK;
}

static void discard(workload_job *job)
{
    attention *a = job->data;
    if (a) {
        void *const all[] = {a->turns, a->prompts, a->serving, a->tables,  a->free_pages, a->q,
                             a->k,     a->v,       a->pool,    a->decoded, a->prefilled,  a};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            workload_free(all[i]);
        }
    }
    job->data = NULL;
}

const workload workload_attention = {
    .name = "attention",
    .summary = "paged attention with block tables, and flash-style prefill",
    .options = options,
    .n_options = OPTIONS,
    .prepare = prepare,
    .start = start,
    .orchestrate = orchestrate,
    .restore = restore,
    .check = attention_check,
    .discard = discard,
};
