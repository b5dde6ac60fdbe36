/* decode_block.c - `decode` on a device: each step is cut into few stages of many tasks, for a GPU that
 * schedules for itself.
 *
 * A step is a chain, and a task in a chain costs a microsecond, however little it does. So what belongs
 * together is one task, and the sums over parts that this leaves are done by the next stage:
 *
 *     stage       tasks                          each
 *     project     columns of q, k, v             normalise, product, RoPE; keys and values into their pages
 *     attend      heads x rows                   softmax(q k') v over the pages, and its product with the rows
 *                                                of the output matrix for this head: a part of x
 *     mix         1                              x + all parts; normalise; the experts of each row
 *     feed        hidden columns, or             gate, up and down for these columns: a part of x
 *                 experts x hidden columns
 *     sum         columns                        x + all parts
 *
 * The orchestration never waits for a number. Which experts a row has is data: there are tasks for as many
 * groups of rows as there can be, a task looks up the expert and the rows of its group, and reads the weights of
 * that expert alone. The next token is data as well: the first task of a step looks it up. Only the tokens are
 * read back, one step late. A prompt is fed one token a pass; the shorter ones begin later, so that all end
 * in the same pass, and a row without a token is skipped.
 *
 * Dependencies. The tasks of a stage write pieces of one matrix, and those of the next read all of it. Submit is
 * fastest if views that it knows are equal or share nothing. So a task declares each piece that it needs as it was
 * written, and its kernel finds the others behind the first one. Where many tasks need many pieces, a `join` task
 * stands for all of them. These tasks then read pieces that they do not declare. Nobody writes there before they
 * are done, since each layer, and each pass, comes after all of the last one: it needs a sum over that.
 *
 * The kernels are in decode_block.h, as C for a simulated device and as CUDA.
 */
#include <stdlib.h>
#include <string.h>

#include <pto/execute.h>

#include "decode.h"
#include "where.h"

/* ---- The kernels as C functions -------------------------------------------------------------- */

#include "decode_block.h"

#define KERNEL(name, type)                                                                         \
    static pto_status kernel_##name(const pto_call *call)                                          \
    {                                                                                              \
        run_##name(call);                                                                          \
        return PTO_OK;                                                                             \
    }
DECODE_BLOCK_KERNELS(KERNEL)
#undef KERNEL

typedef struct kernels {
#define KERNEL(name, type) pto_kernel name;
    DECODE_BLOCK_KERNELS(KERNEL)
#undef KERNEL
} kernels;

/* ---- How a step is cut ------------------------------------------------------------------------ */

/* A matrix in pieces of `tile` columns. The last one may be smaller. */
typedef struct cut {
    int64_t tile, pieces;
} cut;

/* About `wanted` pieces, in whole sectors of memory (8 floats). */
static cut cut_into(int64_t columns, int64_t wanted)
{
    cut c;
    c.tile = ((columns + wanted - 1) / wanted + 7) / 8 * 8;
    c.tile = c.tile < columns ? c.tile : columns;
    c.pieces = (columns + c.tile - 1) / c.tile;
    return c;
}

static int64_t extent(cut c, int64_t columns, int64_t piece)
{
    return columns - piece * c.tile < c.tile ? columns - piece * c.tile : c.tile;
}

enum {
    MOST_PIECES = 256, /* of a stage */
    MOST_SUMS = 32,
    SUM_BYTES = 128 << 10,     /* parts that one task adds */
    MOST_PART_BYTES = 64 << 20 /* parts of a stage */
};

/* What the tasks of a layer leave to those of the next stage. It is the same memory in every pass: the runtime
 * knows all views of it from then on, and the cache of a GPU keeps it. Layers use two of these in turn, so that
 * tasks of a layer need not wait until the last one is done with its memory. */
typedef struct scratch {
    pto_tensor q;                      /* [rows, heads * dim] */
    pto_tensor heads;                  /* [heads, rows, width]: parts of x */
    pto_tensor x1, normed, x2;         /* [rows, width] */
    pto_tensor feed;                   /* [pieces, rows, width]: parts of x */
    pto_tensor expert;                 /* [groups, pieces, rows, width]: parts of x */
    pto_tensor shares, groups, places; /* see decode_block.h */
    pto_tensor joined;                 /* written when all parts are there */
} scratch;

enum { TURNS = 2 };

struct decode_block {
    kernels k;
    int64_t passes, groups;          /* groups of rows that have an expert in common */
    cut heads, feed, expert, logits; /* of half a head, of hidden columns, of the vocabulary */
    cut sum, expert_sum;             /* of the width */
    int32_t *feed_tokens;            /* [longest prompt, batch]; -1: none yet */
    int32_t *info;                   /* [batch, 1 + table_width]: see decode_block.h */
    int32_t *routes;                 /* [passes, moe layers, batch, chosen] */

    /* On the device. */
    decode_model model; /* the tensors of its weights are there */
    pto_tensor keys, values;
    pto_tensor t_feed_tokens, t_info, t_routes, t_tokens, t_logits;
    pto_tensor x, largest,
        index; /* the embedded tokens; candidates for the next ones: [pieces, rows] */
    scratch scratch[TURNS];
};

/* Fewer parts, if these would take too much memory. */
static cut cut_parts(int64_t columns, int64_t wanted, int64_t part_bytes)
{
    while (wanted > 1 && wanted * part_bytes > MOST_PART_BYTES) {
        wanted /= 2;
    }
    return cut_into(columns, wanted);
}

static cut cut_sum(int64_t columns, int64_t bytes)
{
    const int64_t wanted = 1 + (bytes - 1) / SUM_BYTES;
    return cut_into(columns, wanted < MOST_SUMS ? wanted : MOST_SUMS);
}

static void cut_step(const decode *d, struct decode_block *b)
{
    const decode_sizes *z = &d->model.sizes;
    const int64_t row = z->width * (int64_t)sizeof(float), rows = z->batch * row;
    const int64_t choices = z->batch * z->chosen, blocks = d->job->number[DECODE_BLOCKS];
    b->groups = choices < z->experts ? choices : z->experts;
    b->heads = cut_into(z->dim / 2, (z->dim / 2 + 15) / 16);
    b->feed = cut_parts(z->hidden, blocks / 2, rows);
    b->expert = cut_parts(z->expert_hidden, blocks / b->groups > 1 ? blocks / b->groups : 1,
                          b->groups * rows);
    b->logits = cut_into(z->vocabulary, blocks / 2);
    b->sum = cut_sum(z->width, b->feed.pieces * rows);
    b->expert_sum = cut_sum(z->width, b->expert.pieces * choices * row);
}

/* ---- Data -------------------------------------------------------------------------------------- */

/* The first pass in which a sequence has a token: all prompts end in the same one. */
static int64_t begins(const decode *d, int64_t b)
{
    return d->model.sizes.prompt - d->prompts.length[b];
}

/* Pages are given out in the order in which the sequences need them. */
static void give_pages(decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    struct decode_block *block = d->block;
    const int64_t row = 1 + d->table_width;
    d->pages_used = 0;
    for (int64_t pass = 0; pass < block->passes; pass++) {
        for (int64_t b = 0; b < z->batch; b++) {
            const int64_t position = pass - begins(d, b);
            block->info[b * row] = (int32_t)-begins(d, b);
            if (position >= 0 && position % d->page == 0) {
                block->info[b * row + 1 + position / d->page] = (int32_t)d->pages_used++;
            }
        }
    }
}

pto_status decode_block_prepare(decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    workload_job *job = d->job;
    struct decode_block *block = d->block = calloc(1, sizeof *block);
    if (!block) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for a run of decode");
    }
    if (z->batch * z->heads > MOST_PIECES) {
        return pto_fail(PTO_TOO_LARGE, "--device: --batch times --heads is at most %d",
                        MOST_PIECES);
    }
    const int64_t moe = decode_moe_layers(z);
    block->passes = z->prompt + z->tokens - 1;
    cut_step(d, block);
    block->feed_tokens = workload_alloc((uint64_t)(z->prompt * z->batch), sizeof(int32_t));
    block->info = workload_alloc((uint64_t)(z->batch * (1 + d->table_width)), sizeof(int32_t));
    block->routes = workload_alloc(
        (uint64_t)(block->passes * (moe ? moe : 1) * z->batch * z->chosen), sizeof(int32_t));
    if (!block->feed_tokens || !block->info || !block->routes) {
        return PTO_OUT_OF_MEMORY;
    }
    for (int64_t pass = 0; pass < z->prompt; pass++) {
        for (int64_t b = 0; b < z->batch; b++) {
            const int64_t position = pass - begins(d, b);
            block->feed_tokens[pass * z->batch + b] =
                position < 0 ? -1 : d->prompts.tokens[d->prompts.row[b] + position];
        }
    }
    give_pages(d);
    const uint64_t rows = (uint64_t)(z->batch * z->width) * sizeof(float),
                   parts = (uint64_t)(block->groups * block->expert.pieces + block->feed.pieces +
                                      z->heads);
    job->usual.levels = 2; /* the scratch memory, and the tasks of a pass */
    job->usual.ring_tasks = 4096;
    job->usual.deps = 1 << 16;
    job->usual.map_entries = 1 << 15;
    job->usual.arg_bytes = 4 << 20;
    job->usual.device_heap_bytes = TURNS * (parts + 8) * rows + (4 << 20);
    job->usual.heap_bytes = job->usual.device_heap_bytes; /* for cpu:0 */
    job->tight = job->usual;                              /* there is no smaller cut */
    return PTO_OK;
}

void decode_block_discard(decode *d)
{
    if (d->block) {
        workload_free(d->block->feed_tokens);
        workload_free(d->block->info);
        workload_free(d->block->routes);
        free(d->block->model.layers);
        free(d->block->model.all_ffn);
        free(d->block);
        d->block = NULL;
    }
}

pto_status decode_block_start(decode *d)
{
    kernels *k = &d->block->k;
#define KERNEL(name, type) PTO_TRY(workload_kernel(d->job, #name, type, kernel_##name, &k->name));
    DECODE_BLOCK_KERNELS(KERNEL)
#undef KERNEL
    return PTO_OK;
}

/* ---- Views --------------------------------------------------------------------------------------- */

/* Numbers at .. at + n - 1 of a dim. The program makes thousands of these views in a step, all of them right:
 * so it computes them itself. */
static pto_tensor part_of(const pto_tensor *t, int32_t dim, int64_t at, int64_t n)
{
    pto_tensor part = *t;
    part.offset += at * part.strides[dim];
    part.shape[dim] = n;
    return part;
}

static pto_tensor piece_of(const pto_tensor *t, int32_t dim, cut c, int64_t columns, int64_t piece)
{
    return part_of(t, dim, piece * c.tile, extent(c, columns, piece));
}

/* Index `at` of the first dim, which goes away. */
static pto_status item_of(const pto_tensor *t, int64_t at, pto_tensor *item)
{
    return pto_tensor_select(t, 0, at, item);
}

static pto_status reshaped(const pto_tensor *t, int32_t ndim, const int64_t *shape, pto_tensor *out)
{
    return pto_tensor_reshape(t, ndim, shape, out);
}

/* A weight on the device, from the one on the host: both lie in one block of memory. */
static pto_status move_weight(const decode *d, const pto_tensor *all, const pto_tensor *here,
                              pto_tensor *there)
{
    const int64_t at = decode_floats(here) - d->model.memory, n = pto_tensor_numel(here);
    PTO_TRY(pto_tensor_slice(all, 0, at, at + n, 1, there));
    return reshaped(there, here->ndim, here->shape, there);
}

static pto_status move_ffn(const decode *d, const pto_tensor *all, const decode_ffn *here,
                           decode_ffn *there)
{
    PTO_TRY(move_weight(d, all, &here->gate, &there->gate));
    PTO_TRY(move_weight(d, all, &here->up, &there->up));
    return move_weight(d, all, &here->down, &there->down);
}

static pto_status move_layer(const decode *d, const pto_tensor *all, const decode_layer *here,
                             decode_layer *there)
{
    PTO_TRY(move_weight(d, all, &here->attention_norm, &there->attention_norm));
    PTO_TRY(move_weight(d, all, &here->q, &there->q));
    PTO_TRY(move_weight(d, all, &here->k, &there->k));
    PTO_TRY(move_weight(d, all, &here->v, &there->v));
    PTO_TRY(move_weight(d, all, &here->o, &there->o));
    PTO_TRY(move_weight(d, all, &here->ffn_norm, &there->ffn_norm));
    if (here->moe) {
        PTO_TRY(move_weight(d, all, &here->router, &there->router));
    }
    there->moe = here->moe;
    return PTO_OK;
}

/* One tensor of a weight of all experts: they lie the same distance apart. */
static void all_experts(const pto_tensor *first, const pto_tensor *second, int64_t experts,
                        pto_tensor *all)
{
    *all = *first;
    all->ndim = 3;
    all->shape[0] = experts;
    all->strides[0] = experts > 1 ? second->offset - first->offset : 1;
    for (int32_t dim = 0; dim < 2; dim++) {
        all->shape[dim + 1] = first->shape[dim];
        all->strides[dim + 1] = first->strides[dim];
    }
}

/* The model with its weights on the device. The weights of experts become one tensor: in ffn[0]. */
static pto_status move_model(decode *d, const pto_tensor *all)
{
    const decode_sizes *z = &d->model.sizes;
    decode_model *m = &d->block->model;
    m->sizes = *z;
    m->layers = m->layers ? m->layers : calloc((size_t)z->layers, sizeof *m->layers);
    m->all_ffn = m->all_ffn ? m->all_ffn : calloc((size_t)z->layers, sizeof *m->all_ffn);
    if (!m->layers || !m->all_ffn) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for the layers of the model");
    }
    PTO_TRY(move_weight(d, all, &d->model.embedding, &m->embedding));
    PTO_TRY(move_weight(d, all, &d->model.norm, &m->norm));
    PTO_TRY(move_weight(d, all, &d->model.head, &m->head));
    for (int64_t l = 0; l < z->layers; l++) {
        const decode_layer *here = &d->model.layers[l];
        decode_ffn first, second, *ffn = m->layers[l].ffn = &m->all_ffn[l];
        PTO_TRY(move_layer(d, all, here, &m->layers[l]));
        PTO_TRY(move_ffn(d, all, &here->ffn[0], &first));
        *ffn = first;
        if (here->moe) {
            second = first;
            if (z->experts > 1) {
                PTO_TRY(move_ffn(d, all, &here->ffn[1], &second));
            }
            all_experts(&first.gate, &second.gate, z->experts, &ffn->gate);
            all_experts(&first.up, &second.up, z->experts, &ffn->up);
            all_experts(&first.down, &second.down, z->experts, &ffn->down);
        }
    }
    return PTO_OK;
}

/* ---- The orchestration --------------------------------------------------------------------------- */

static pto_status allocate_scratch(const decode *d, scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const int64_t by_row[] = {z->batch, z->width}, by_head[] = {z->heads, z->batch, z->width},
                  queries[] = {z->batch, z->heads * z->dim},
                  feed[] = {b->feed.pieces, z->batch, z->width},
                  expert[] = {b->groups, b->expert.pieces, z->batch, z->width},
                  by_choice[] = {z->batch, z->chosen}, by_group[] = {b->groups, 2 + z->batch};
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 2, queries, &s->q));
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 3, by_head, &s->heads));
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 2, by_row, &s->x1));
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 2, by_row, &s->normed));
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 2, by_row, &s->x2));
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 3, feed, &s->feed));
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 4, expert, &s->expert));
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 2, by_choice, &s->shares));
    PTO_TRY(pto_alloc(d->rt, PTO_INT32, 2, by_group, &s->groups));
    PTO_TRY(pto_alloc(d->rt, PTO_INT32, 2, by_choice, &s->places));
    return pto_alloc(d->rt, PTO_INT32, 1, (int64_t[]){1}, &s->joined);
}

/* A parameter that nobody waits for, and that waits for nobody: see above. */
static pto_param aside(const pto_tensor *t)
{
    return pto_nodep(pto_input(t));
}

/* The parameters of a task that needs many pieces. */
typedef struct task {
    size_t n;
    pto_param params[MOST_PIECES + 32];
    pto_tensor pieces[MOST_PIECES + 32];
} task;

static void add(task *t, pto_param param)
{
    t->params[t->n++] = param;
}

static void need(task *t, pto_tensor piece)
{
    t->pieces[t->n] = piece;
    add(t, pto_input(&t->pieces[t->n]));
}

/* Each item of the first dim. */
static pto_status need_items(task *t, const pto_tensor *all)
{
    pto_tensor item;
    PTO_TRY(item_of(all, 0, &item));
    for (int64_t i = 0; i < all->shape[0]; i++) {
        need(t, item);
        item.offset += all->strides[0];
    }
    return PTO_OK;
}

/* Adds what another one needs. */
static void add_all(task *t, const task *other)
{
    for (size_t i = 0; i < other->n; i++) {
        add(t, other->params[i]);
    }
}

static pto_status submit(const decode *d, pto_kernel kernel, const task *t)
{
    return pto_submit_task(d->rt, kernel, PTO_KERNEL_TYPE, t->params, t->n, NULL);
}

/* x, as the last layer has left it. */
typedef struct rows_of_x {
    const pto_tensor *x;
    cut pieces;
} rows_of_x;

static void need_x(const decode *d, task *t, rows_of_x x, int64_t from)
{
    for (int64_t i = from; i < x.pieces.pieces; i++) {
        need(t, piece_of(x.x, 1, x.pieces, d->model.sizes.width, i));
    }
}

/* Piece i of head h of q, k or v: [rows or pages, 2, columns, tokens of a page]. `to` has the heads in the second
 * dim. */
static pto_status head_piece(const decode *d, const pto_tensor *to, int64_t h, int64_t i,
                             pto_tensor *piece)
{
    PTO_TRY(pto_tensor_select(to, 1, h, piece));
    *piece = piece_of(piece, 2, d->block->heads, d->model.sizes.dim / 2, i);
    return PTO_OK;
}

/* The heads of q, k or v. `to`: [rows or pages, heads, 2, half a head, tokens of a page]. */
static pto_status project(const decode *d, int64_t pass, rows_of_x x, const pto_tensor *norm,
                          const pto_tensor *w, int64_t heads, bool turns, const pto_tensor *to)
{
    const struct decode_block *b = d->block;
    const int64_t half = d->model.sizes.dim / 2;
    pto_tensor by_head;
    PTO_TRY(reshaped(w, 4, (int64_t[]){w->shape[0], heads, 2, half}, &by_head));
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = 0; i < b->heads.pieces; i++) {
            pto_tensor w_piece, out;
            task t;
            t.n = 0;
            PTO_TRY(head_piece(d, &by_head, h, i, &w_piece));
            PTO_TRY(head_piece(d, to, h, i, &out));
            need(&t, piece_of(x.x, 1, x.pieces, d->model.sizes.width, 0));
            add(&t, pto_input(norm));
            add(&t, pto_input(&w_piece));
            add(&t, pto_input(&b->model.rope));
            add(&t, pto_input(&b->t_info));
            add(&t, to->ndim == 5 ? pto_inout(&out) : pto_output(&out));
            add(&t, pto_scalar(turns ? i * b->heads.tile : -1));
            add(&t, pto_scalar(pass));
            need_x(d, &t, x, 1);
            PTO_TRY(submit(d, b->k.project, &t));
        }
    }
    return PTO_OK;
}

/* Keys or values of a layer in the form that `project` wants. */
static pto_status pages_for(const decode *d, const pto_tensor *pool, int64_t layer, bool keys,
                            pto_tensor *to)
{
    const decode_sizes *z = &d->model.sizes;
    pto_tensor mine;
    PTO_TRY(item_of(pool, layer, &mine));
    if (keys) {
        return reshaped(&mine, 5, (int64_t[]){d->pages, z->kv_heads, 2, z->dim / 2, d->page}, to);
    }
    PTO_TRY(reshaped(&mine, 5, (int64_t[]){d->pages, z->kv_heads, d->page, 2, z->dim / 2}, to));
    return pto_tensor_permute(to, (int32_t[]){0, 1, 3, 4, 2}, to);
}

static pto_status attend(const decode *d, int64_t pass, int64_t layer, const scratch *s,
                         const pto_tensor *q, const pto_tensor *k, const pto_tensor *v)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    for (int64_t h = 0; h < z->heads; h++) {
        const int64_t kv = h / (z->heads / z->kv_heads);
        const pto_tensor w = part_of(&b->model.layers[layer].o, 0, h * z->dim, z->dim);
        pto_tensor first[3], out;
        PTO_TRY(head_piece(d, q, h, 0, &first[0]));
        PTO_TRY(head_piece(d, k, kv, 0, &first[1]));
        PTO_TRY(head_piece(d, v, kv, 0, &first[2]));
        PTO_TRY(item_of(&s->heads, h, &out));
        PTO_TRY(item_of(&out, 0, &out));
        task t;
        t.n = 0;
        for (int i = 0; i < 3; i++) {
            need(&t, first[i]);
        }
        add(&t, pto_input(&b->t_info));
        add(&t, pto_input(&w));
        add(&t, pto_output(&out));
        add(&t, pto_scalar(pass));
        const size_t its_row = t.n;
        add(&t, pto_scalar(INT64_C(0)));
        for (int64_t piece = 1; piece < b->heads.pieces; piece++) {
            for (int i = 0; i < 3; i++) {
                pto_tensor other = first[i];
                other.offset += piece * b->heads.tile * other.strides[2];
                other.shape[2] = extent(b->heads, z->dim / 2, piece);
                need(&t, other);
            }
        }
        for (int64_t row = 0; row < z->batch; row++) {
            t.params[its_row] = pto_scalar(row);
            PTO_TRY(submit(d, b->k.attend, &t));
            out.offset += s->heads.strides[1];
        }
    }
    return PTO_OK;
}

/* Tasks that add parts need all pieces of them. If there are many such tasks, one that does nothing needs them
 * instead, and those need that. */
static pto_status need_parts(const decode *d, task *sum, int64_t sums, const scratch *s,
                             const pto_tensor *parts, int64_t n_parts)
{
    const decode_sizes *z = &d->model.sizes;
    task join, *t = sums > 1 ? &join : sum;
    join.n = 0;
    pto_tensor all;
    if (sums > 1) {
        add(&join, pto_output(&s->joined));
    }
    PTO_TRY(reshaped(parts, 3, (int64_t[]){n_parts, z->batch, z->width}, &all));
    PTO_TRY(need_items(t, &all));
    if (sums > 1) {
        add(sum, pto_input(&s->joined));
        return submit(d, d->block->k.join, &join);
    }
    return PTO_OK;
}

/* x2 = x1 + the feed-forward block of `normed`. */
static pto_status feed_forward(const decode *d, const decode_ffn *ffn, const scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    pto_tensor first, part;
    PTO_TRY(item_of(&s->feed, 0, &first));
    part = first;
    for (int64_t i = 0; i < b->feed.pieces; i++) {
        const pto_tensor gate = piece_of(&ffn->gate, 1, b->feed, z->hidden, i),
                         up = piece_of(&ffn->up, 1, b->feed, z->hidden, i),
                         down = piece_of(&ffn->down, 0, b->feed, z->hidden, i);
        part.offset = first.offset + i * s->feed.strides[0];
        PTO_TRY(pto_submit(d->rt, b->k.feed, pto_input(&s->normed), pto_input(&gate),
                           pto_input(&up), pto_input(&down), pto_output(&part)));
    }
    task parts;
    parts.n = 0;
    part = first;
    PTO_TRY(need_parts(d, &parts, b->sum.pieces, s, &s->feed, b->feed.pieces));
    for (int64_t i = 0; i < b->sum.pieces; i++) {
        const pto_tensor to = piece_of(&s->x2, 1, b->sum, z->width, i);
        task t;
        t.n = 0;
        add(&t, pto_input(&s->x1));
        add(&t, pto_input(&part));
        add(&t, pto_output(&to));
        add(&t, pto_scalar(i * b->sum.tile));
        add(&t, pto_scalar(b->feed.pieces));
        add_all(&t, &parts);
        PTO_TRY(submit(d, b->k.sum, &t));
    }
    return PTO_OK;
}

/* The same with experts. */
static pto_status experts(const decode *d, const decode_ffn *ffn, const scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    pto_tensor first, part;
    PTO_TRY(item_of(&s->expert, 0, &first));
    PTO_TRY(item_of(&first, 0, &first));
    part = first;
    for (int64_t g = 0; g < b->groups; g++) {
        for (int64_t i = 0; i < b->expert.pieces; i++) {
            const pto_tensor gate = piece_of(&ffn->gate, 2, b->expert, z->expert_hidden, i),
                             up = piece_of(&ffn->up, 2, b->expert, z->expert_hidden, i),
                             down = piece_of(&ffn->down, 1, b->expert, z->expert_hidden, i);
            PTO_TRY(pto_submit(d->rt, b->k.feed_expert, pto_input(&s->normed),
                               pto_input(&s->groups), pto_input(&gate), pto_input(&up),
                               pto_input(&down), pto_output(&part), pto_scalar(z->chosen),
                               pto_scalar(g)));
            part.offset += s->expert.strides[1]; /* the parts of the next group follow */
        }
    }
    task parts;
    parts.n = 0;
    part = first;
    PTO_TRY(
        need_parts(d, &parts, b->expert_sum.pieces, s, &s->expert, b->groups * b->expert.pieces));
    for (int64_t i = 0; i < b->expert_sum.pieces; i++) {
        const pto_tensor to = piece_of(&s->x2, 1, b->expert_sum, z->width, i);
        task t;
        t.n = 0;
        add(&t, pto_input(&s->x1));
        add(&t, pto_input(&part));
        add(&t, pto_input(&s->places));
        add(&t, pto_input(&s->shares));
        add(&t, pto_output(&to));
        add(&t, pto_scalar(i * b->expert_sum.tile));
        add(&t, pto_scalar(b->expert.pieces));
        add_all(&t, &parts);
        PTO_TRY(submit(d, b->k.sum_experts, &t));
    }
    return PTO_OK;
}

/* x1 = x + the parts of the heads. */
static pto_status mix(const decode *d, int64_t pass, int64_t l, int64_t moe, const pto_tensor *x,
                      const scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_layer *layer = &b->model.layers[l];
    pto_tensor choice, all;
    task t;
    t.n = 0;
    add(&t, aside(x));
    add(&t, aside(&s->heads));
    add(&t, pto_input(&layer->ffn_norm));
    add(&t, pto_output(&s->x1));
    add(&t, pto_output(&s->normed));
    if (layer->moe) {
        PTO_TRY(item_of(&b->t_routes, pass, &choice));
        PTO_TRY(item_of(&choice, moe, &choice));
        add(&t, pto_input(&layer->router));
        add(&t, pto_input(&b->t_info));
        add(&t, pto_nodep(pto_output(&choice)));
        add(&t, pto_output(&s->shares));
        add(&t, pto_output(&s->groups));
        add(&t, pto_output(&s->places));
        add(&t, pto_scalar(pass));
    }
    PTO_TRY(reshaped(&s->heads, 2, (int64_t[]){z->heads * z->batch, z->width}, &all));
    PTO_TRY(need_items(&t, &all));
    return submit(d, layer->moe ? b->k.mix_route : b->k.mix, &t);
}

/* x2 = layer l of x. `moe` counts the layers with experts. */
static pto_status run_layer(const decode *d, int64_t pass, int64_t l, int64_t moe, rows_of_x x)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_layer *layer = &b->model.layers[l];
    const scratch *s = &b->scratch[l % TURNS];
    pto_tensor q, k, v;
    PTO_TRY(reshaped(&s->q, 4, (int64_t[]){z->batch, z->heads, 2, z->dim / 2}, &q));
    PTO_TRY(pages_for(d, &b->keys, l, true, &k));
    PTO_TRY(pages_for(d, &b->values, l, false, &v));
    PTO_TRY(project(d, pass, x, &layer->attention_norm, &layer->q, z->heads, true, &q));
    PTO_TRY(project(d, pass, x, &layer->attention_norm, &layer->k, z->kv_heads, true, &k));
    PTO_TRY(project(d, pass, x, &layer->attention_norm, &layer->v, z->kv_heads, false, &v));
    PTO_TRY(attend(d, pass, l, s, &q, &k, &v));
    PTO_TRY(mix(d, pass, l, moe, x.x, s));
    return layer->moe ? experts(d, layer->ffn, s) : feed_forward(d, layer->ffn, s);
}

/* The next token of every sequence. */
static pto_status sample(const decode *d, int64_t step, rows_of_x x)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    pto_tensor logits, tokens, first_largest, first_index;
    task pick;
    pick.n = 0;
    PTO_TRY(item_of(&b->t_logits, step, &logits));
    PTO_TRY(item_of(&b->t_tokens, step, &tokens));
    PTO_TRY(item_of(&b->largest, 0, &first_largest));
    PTO_TRY(item_of(&b->index, 0, &first_index));
    add(&pick, aside(&b->largest));
    add(&pick, aside(&b->index));
    add(&pick, pto_output(&tokens));
    for (int64_t i = 0; i < b->logits.pieces; i++) {
        const pto_tensor w = piece_of(&b->model.head, 1, b->logits, z->vocabulary, i),
                         out = piece_of(&logits, 1, b->logits, z->vocabulary, i);
        pto_tensor largest = first_largest, index = first_index;
        task t;
        t.n = 0;
        largest.offset = first_largest.offset + i * b->largest.strides[0];
        index.offset = first_index.offset + i * b->index.strides[0];
        need(&t, piece_of(x.x, 1, x.pieces, z->width, 0));
        add(&t, pto_input(&b->model.norm));
        add(&t, pto_input(&w));
        add(&t, pto_nodep(pto_output(&out)));
        add(&t, pto_output(&largest));
        add(&t, pto_nodep(pto_output(&index)));
        add(&t, pto_scalar(i * b->logits.tile));
        need_x(d, &t, x, 1);
        PTO_TRY(submit(d, b->k.logits, &t));
        need(&pick, largest);
    }
    return submit(d, b->k.pick, &pick);
}

static pto_status run_pass(const decode *d, int64_t pass)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const int64_t step = pass - z->prompt + 1;
    const cut whole = {z->width, 1};
    const rows_of_x last = {&b->scratch[(z->layers - 1) % TURNS].x2,
                            b->model.layers[z->layers - 1].moe ? b->expert_sum : b->sum};
    rows_of_x x = {&b->x, whole};
    pto_tensor tokens;
    task embed;
    embed.n = 0;
    PTO_TRY(pass < z->prompt ? item_of(&b->t_feed_tokens, pass, &tokens)
                             : item_of(&b->t_tokens, pass - z->prompt, &tokens));
    add(&embed, pto_input(&tokens));
    add(&embed, pto_input(&b->model.embedding));
    add(&embed, pto_output(&b->x));
    if (pass) { /* after all of the last pass, also if it gave no tokens */
        need_x(d, &embed, last, 0);
    }
    PTO_TRY(submit(d, b->k.embed, &embed));
    for (int64_t l = 0, moe = 0; l < z->layers; l++) {
        const bool has_experts = b->model.layers[l].moe;
        PTO_TRY(run_layer(d, pass, l, moe, x));
        moe += has_experts;
        x = (rows_of_x){&b->scratch[l % TURNS].x2, has_experts ? b->expert_sum : b->sum};
    }
    workload_progress(d->job, (uint64_t)(step > 0 ? step + 1 : 1) * (uint64_t)z->layers);
    return step < 0 ? PTO_OK : sample(d, step, x);
}

/* Reads the tokens of a step, as a program would that shows them. */
static pto_status show(decode *d, int64_t step)
{
    const decode_sizes *z = &d->model.sizes;
    pto_tensor tokens;
    PTO_TRY(item_of(&d->block->t_tokens, step, &tokens));
    return pto_read(d->rt, &tokens, d->result.tokens + step * z->batch,
                    (uint64_t)z->batch * sizeof *d->result.tokens);
}

static pto_status run_passes(decode *d)
{
    struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const int64_t by_row[] = {z->batch, z->width}, by_piece[] = {b->logits.pieces, z->batch};
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 2, by_row, &b->x));
    PTO_TRY(pto_alloc(d->rt, PTO_FLOAT32, 2, by_piece, &b->largest));
    PTO_TRY(pto_alloc(d->rt, PTO_INT32, 2, by_piece, &b->index));
    for (int i = 0; i < TURNS; i++) {
        PTO_TRY(allocate_scratch(d, &b->scratch[i]));
    }
    PTO_TRY(pto_wait(d->rt)); /* for the copies, so that they are not part of the time */
    double start = decode_seconds();
    for (int64_t pass = 0; pass < b->passes; pass++) {
        PTO_BOUNDARY(d->rt) {
            PTO_TRY(run_pass(d, pass));
        }
        /* While the device works on this step, the last one is read. */
        const int64_t step = pass - z->prompt;
        if (step >= 0) {
            PTO_TRY(show(d, step));
        }
        if (step == 0) {
            d->seconds[0] = decode_seconds() - start;
            start = decode_seconds();
        }
    }
    PTO_TRY(show(d, z->tokens - 1));
    d->seconds[z->tokens > 1] = decode_seconds() - start;
    return PTO_OK;
}

enum { IN_WEIGHTS, IN_ANGLES, IN_TOKENS, IN_INFO, IN_KEYS, IN_VALUES, INS };
enum { OUT_TOKENS, OUT_LOGITS, OUT_ROUTES, OUTS };

static pto_status run_there(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                            void *params)
{
    decode *d = params;
    struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    PTO_TRY(move_model(d, &inputs[IN_WEIGHTS]));
    b->model.rope = inputs[IN_ANGLES];
    b->t_feed_tokens = inputs[IN_TOKENS];
    b->t_info = inputs[IN_INFO];
    b->keys = inputs[IN_KEYS];
    b->values = inputs[IN_VALUES];
    b->t_tokens = outputs[OUT_TOKENS];
    b->t_logits = outputs[OUT_LOGITS];
    if (decode_moe_layers(z)) {
        b->t_routes = outputs[OUT_ROUTES];
    }
    PTO_SCOPE(rt) {
        PTO_TRY(run_passes(d));
    }
    return PTO_OK;
}

/* The routes in the order of decode_route_at. */
static void keep_routes(decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    const int64_t moe = decode_moe_layers(z);
    for (int64_t pass = 0; pass < d->block->passes; pass++) {
        const int64_t step = pass < z->prompt ? 0 : pass - z->prompt + 1;
        for (int64_t m = 0; m < moe; m++) {
            int32_t *to = decode_route_at(&d->result, z, &d->prompts, step, m);
            for (int64_t b = 0; b < z->batch; b++) {
                const int64_t position = pass - begins(d, b),
                              row = step ? b : d->prompts.row[b] + position;
                if (position >= 0) {
                    memcpy(to + row * z->chosen,
                           d->block->routes + ((pass * moe + m) * z->batch + b) * z->chosen,
                           (size_t)z->chosen * sizeof *to);
                }
            }
        }
    }
}

pto_status decode_block_run(decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    struct decode_block *b = d->block;
    const int64_t moe = decode_moe_layers(z), weights = decode_model_floats(&d->model),
                  half = pto_tensor_numel(&d->keys);
    pto_tensor inputs[INS], outputs[OUTS];
    PTO_TRY(
        pto_external_tensor(d->rt, d->model.memory, PTO_FLOAT32, 1, &weights, &inputs[IN_WEIGHTS]));
    inputs[IN_ANGLES] = d->model.rope;
    PTO_TRY(pto_external_tensor(d->rt, b->feed_tokens, PTO_INT32, 2,
                                (int64_t[]){z->prompt, z->batch}, &inputs[IN_TOKENS]));
    PTO_TRY(pto_external_tensor(d->rt, b->info, PTO_INT32, 2,
                                (int64_t[]){z->batch, 1 + d->table_width}, &inputs[IN_INFO]));
    PTO_TRY(pto_external_tensor(d->rt, d->pool, PTO_FLOAT32, 5,
                                (int64_t[]){z->layers, d->pages, z->kv_heads, z->dim, d->page},
                                &inputs[IN_KEYS]));
    PTO_TRY(pto_external_tensor(d->rt, d->pool + half, PTO_FLOAT32, 5,
                                (int64_t[]){z->layers, d->pages, z->kv_heads, d->page, z->dim},
                                &inputs[IN_VALUES]));
    PTO_TRY(pto_external_tensor(d->rt, d->result.tokens, PTO_INT32, 2,
                                (int64_t[]){z->tokens, z->batch}, &outputs[OUT_TOKENS]));
    PTO_TRY(pto_external_tensor(d->rt, d->result.logits, PTO_FLOAT32, 3,
                                (int64_t[]){z->tokens, z->batch, z->vocabulary},
                                &outputs[OUT_LOGITS]));
    if (moe) {
        PTO_TRY(pto_external_tensor(d->rt, b->routes, PTO_INT32, 4,
                                    (int64_t[]){b->passes, moe, z->batch, z->chosen},
                                    &outputs[OUT_ROUTES]));
    }
    const pto_execute_options where = {.size = sizeof where, .device = d->job->device};
    PTO_TRY(
        pto_execute_ex(d->rt, run_there, inputs, INS, outputs, moe ? OUTS : OUT_ROUTES, d, &where));
    keep_routes(d);
    return PTO_OK;
}
