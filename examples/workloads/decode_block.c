/* decode_block.c - `decode` on a device: each step is cut into few stages of many tasks, for a GPU that
 * schedules for itself.
 *
 * A step is a chain, and a task in a chain costs a microsecond, however little it does. So what belongs
 * together is one task, and the sums over parts that this leaves are done by the next stage:
 *
 *     stage       tasks                          each
 *     project     heads of q, k, v               normalise, product, RoPE; keys and values into their pages
 *     attend      heads x groups of rows         softmax(q k') v over the pages, and its product with the rows
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
 * What nobody writes is one tensor, the image (decode_pack.h). Tasks ask for the weights of later ones, so that
 * these find them in the cache of the device.
 *
 * The kernels are in decode_block.h, as C for a simulated device and as CUDA.
 */
#include <stdlib.h>
#include <string.h>

#include <pto/execute.h>

#include "decode.h"
#include "decode_pack.h"
#include "where.h"

/* ---- The kernels as C functions -------------------------------------------------------------- */

#include "decode_block.h"

#define KERNEL(name, type)                                                                         \
    static pto_status kernel_##name(const pto_call *call)                                          \
    {                                                                                              \
        if (!getenv("EMPTY"))                                                                      \
            run_##name(call);                                                                      \
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

/* About `wanted` pieces, in whole sectors of memory (8 floats). */
static decode_cut cut_into(int64_t columns, int64_t wanted)
{
    decode_cut c;
    wanted = wanted > 1 ? wanted : 1;
    c.tile = ((columns + wanted - 1) / wanted + 7) / 8 * 8;
    c.tile = c.tile < columns ? c.tile : columns;
    c.pieces = (columns + c.tile - 1) / c.tile;
    return c;
}

enum {
    MOST_PIECES = 256, /* of a stage */
    MOST_SUMS = 32,
    MIXES = 4,                 /* tasks of mix, about: each starts its share of the next ones */
    HEAD_BYTES = 128 << 10,    /* weights of a piece of a head */
    SUM_BYTES = 256 << 10,     /* parts that one task adds */
    MOST_PART_BYTES = 64 << 20 /* parts of a stage */
};

/* q, k or v, as [rows or pages, heads, 2, half a head, tokens of a page], and the first piece of its first head. */
typedef struct heads {
    pto_tensor all, first;
} heads;

/* What the tasks of a layer leave to those of the next stage. It is the same memory in every pass: the runtime
 * knows all views of it from then on, and the cache of a GPU keeps it. It is memory of the program, for which
 * nothing has to be counted. Each layer has its own, up to 8 of them, so that tasks hardly ever wait until others
 * are done with it. */
typedef struct scratch {
    heads q;           /* [rows, heads, 2, half a head] */
    pto_tensor heads;  /* [heads, rows, width]: parts of x */
    pto_tensor x1, x2; /* [rows, width] */
    pto_tensor shares; /* [rows, chosen], of the experts of each row */
    pto_tensor parts
        [2]; /* [pieces, rows, width], and with experts [groups * pieces, rows, width]: parts of x */
    pto_tensor joined; /* written when all parts are there */
} scratch;

enum { MOST_TURNS = 8 };

struct decode_block {
    kernels k;
    int64_t passes, groups;     /* groups of rows that have an expert in common */
    decode_cuts cuts;           /* of the weights */
    decode_cut rows;            /* of a task of attention */
    decode_cut columns;         /* of a task of mix, which has the rows of one of attention */
    decode_cut sum, expert_sum; /* of the width */
    int32_t *feed_tokens;       /* [longest prompt, batch]; -1: none yet */
    int32_t *info;              /* [batch, 1 + table_width]: see decode_block.h */
    int32_t *routes;            /* [passes, moe layers, batch, chosen] */
    decode_packed packed;
    float *floats; /* scratch memory */
    int32_t *integers;
    int64_t n_floats, n_integers;

    /* On the device. */
    pto_tensor image, keys, values, t_floats, t_integers;
    pto_tensor t_feed_tokens, t_info, t_routes, t_tokens, t_logits;
    pto_tensor x, best; /* the embedded tokens; candidates for the next ones: [pieces, 2, rows] */
    heads *layer_keys, *layer_values;
    int64_t turns;
    scratch scratch[MOST_TURNS];
};

/* Fewer parts, if these would take too much memory. */
static decode_cut cut_parts(int64_t columns, int64_t wanted, int64_t part_bytes)
{
    while (wanted > 1 && wanted * part_bytes > MOST_PART_BYTES) {
        wanted /= 2;
    }
    return cut_into(columns, wanted);
}

static decode_cut cut_sum(int64_t columns, int64_t bytes)
{
    const int64_t wanted = 1 + (bytes - 1) / SUM_BYTES;
    return cut_into(columns, wanted < MOST_SUMS ? wanted : MOST_SUMS);
}

/* Rows of a task of attention, for about `wanted` tasks of a head. A kernel takes up to 8 rows at a time. */
static decode_cut cut_rows(int64_t rows, int64_t wanted)
{
    decode_cut c;
    wanted = wanted > 1 ? wanted : 1;
    c.tile = (rows + wanted - 1) / wanted;
    c.tile = c.tile < 8 ? c.tile : 8;
    c.pieces = (rows + c.tile - 1) / c.tile;
    return c;
}

static void cut_step(const decode *d, struct decode_block *b)
{
    const decode_sizes *z = &d->model.sizes;
    const int64_t row = z->width * (int64_t)sizeof(float), rows = z->batch * row;
    const int64_t choices = z->batch * z->chosen, blocks = d->job->number[DECODE_BLOCKS];
    b->groups = choices < z->experts ? choices : z->experts;
    b->turns = z->layers < MOST_TURNS ? z->layers : MOST_TURNS;
    b->cuts.heads = cut_into(z->dim / 2, 1 + (z->dim * row - 1) / HEAD_BYTES);
    b->rows = cut_rows(z->batch, blocks / 2 / z->heads);
    b->columns = cut_into(z->width, MIXES / b->rows.pieces);
    b->cuts.feed = cut_parts(z->hidden, blocks - blocks / 4, rows);
    b->cuts.expert = cut_parts(z->expert_hidden, blocks / b->groups, b->groups * rows);
    b->cuts.logits = cut_into(z->vocabulary, blocks / 2);
    b->sum = cut_sum(z->width, b->cuts.feed.pieces * rows);
    b->expert_sum = cut_sum(z->width, b->cuts.expert.pieces * choices * row);
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
    cut_step(d, block);
    if (z->heads * block->rows.pieces > MOST_PIECES) {
        return pto_fail(PTO_TOO_LARGE, "--device: --batch times --heads is at most %d",
                        8 * MOST_PIECES);
    }
    if (z->batch * z->chosen > ROUTE_CHOICES) {
        return pto_fail(PTO_TOO_LARGE, "--device: --batch times --chosen is at most %d",
                        ROUTE_CHOICES);
    }
    const int64_t moe = decode_moe_layers(z), integers = z->batch * (1 + d->table_width);
    block->passes = z->prompt + z->tokens - 1;
    block->feed_tokens = workload_alloc((uint64_t)(z->prompt * z->batch), sizeof(int32_t));
    block->info = workload_alloc((uint64_t)integers, sizeof(int32_t));
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
    PTO_TRY(decode_pack(&block->packed, &d->model, &block->cuts, block->info, integers));
    /* A tensor begins at a multiple of 32 elements. */
    const int64_t parts = block->groups * block->cuts.expert.pieces + block->cuts.feed.pieces +
                          z->heads;
    block->n_floats = block->turns * ((parts + 3) * z->batch * z->width + 8 * 32 +
                                      z->batch * (z->heads * z->dim + z->chosen)) +
                      z->batch * z->width + 32;
    block->n_integers = block->turns * 32 + block->cuts.logits.pieces * 2 * z->batch + 32;
    block->layer_keys = calloc((size_t)z->layers, sizeof *block->layer_keys);
    block->layer_values = calloc((size_t)z->layers, sizeof *block->layer_values);
    if (!block->layer_keys || !block->layer_values) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for a run of decode");
    }
    block->floats = workload_alloc((uint64_t)block->n_floats, sizeof(float));
    block->integers = workload_alloc((uint64_t)block->n_integers, sizeof(int32_t));
    if (!block->floats || !block->integers) {
        return PTO_OUT_OF_MEMORY;
    }
    job->usual.levels = 1;
    job->usual.ring_tasks = 4096;
    job->usual.deps = 1 << 16;
    job->usual.map_entries = 1 << 15;
    job->usual.arg_bytes = 4 << 20;
    job->tight = job->usual; /* there is no smaller cut */
    return PTO_OK;
}

void decode_block_discard(decode *d)
{
    if (d->block) {
        workload_free(d->block->feed_tokens);
        workload_free(d->block->info);
        workload_free(d->block->routes);
        free(d->block->layer_keys);
        free(d->block->layer_values);
        workload_free(d->block->floats);
        workload_free(d->block->integers);
        decode_pack_discard(&d->block->packed);
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

/* Numbers at .. at + n - 1 of a dim. The program makes hundreds of these views in a step, all of them right:
 * so it computes them itself. */
static pto_tensor part_of(const pto_tensor *t, int32_t dim, int64_t at, int64_t n)
{
    pto_tensor part = *t;
    part.offset += at * part.strides[dim];
    part.shape[dim] = n;
    return part;
}

static pto_tensor piece_of(const pto_tensor *t, int32_t dim, decode_cut c, int64_t columns,
                           int64_t piece)
{
    return part_of(t, dim, piece * c.tile, decode_cut_columns(c, columns, piece));
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

/* ---- The orchestration --------------------------------------------------------------------------- */

/* The next tensor of an array. */
static pto_status carve(pto_tensor *rest, int32_t ndim, const int64_t *shape, pto_tensor *out)
{
    int64_t n = 1;
    for (int32_t i = 0; i < ndim; i++) {
        n *= shape[i];
    }
    pto_tensor part = part_of(rest, 0, 0, n);
    *rest = part_of(rest, 0, (n + 31) / 32 * 32, rest->shape[0] - (n + 31) / 32 * 32);
    return reshaped(&part, ndim, shape, out);
}

static pto_status heads_of(const decode *d, heads *h)
{
    PTO_TRY(pto_tensor_select(&h->all, 1, 0, &h->first));
    h->first = piece_of(&h->first, 2, d->block->cuts.heads, d->model.sizes.dim / 2, 0);
    return PTO_OK;
}

static pto_status carve_scratch(const decode *d, pto_tensor *floats, pto_tensor *integers,
                                scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const int64_t by_row[] = {z->batch, z->width}, by_head[] = {z->heads, z->batch, z->width},
                  queries[] = {z->batch, z->heads, 2, z->dim / 2},
                  feed[] = {b->cuts.feed.pieces, z->batch, z->width},
                  expert[] = {b->groups * b->cuts.expert.pieces, z->batch, z->width};
    PTO_TRY(carve(floats, 4, queries, &s->q.all));
    PTO_TRY(heads_of(d, &s->q));
    PTO_TRY(carve(floats, 3, by_head, &s->heads));
    PTO_TRY(carve(floats, 2, by_row, &s->x1));
    PTO_TRY(carve(floats, 2, by_row, &s->x2));
    PTO_TRY(carve(floats, 2, (int64_t[]){z->batch, z->chosen}, &s->shares));
    PTO_TRY(carve(floats, 3, feed, &s->parts[0]));
    PTO_TRY(carve(floats, 3, expert, &s->parts[1]));
    return carve(integers, 1, (int64_t[]){1}, &s->joined);
}

/* Keys or values of a layer in the form that `project` wants. */
static pto_status pages_for(const decode *d, const pto_tensor *pool, int64_t layer, bool keys,
                            heads *to)
{
    const decode_sizes *z = &d->model.sizes;
    pto_tensor mine;
    PTO_TRY(item_of(pool, layer, &mine));
    if (keys) {
        PTO_TRY(reshaped(&mine, 5, (int64_t[]){d->pages, z->kv_heads, 2, z->dim / 2, d->page},
                         &to->all));
        return heads_of(d, to);
    }
    PTO_TRY(
        reshaped(&mine, 5, (int64_t[]){d->pages, z->kv_heads, d->page, 2, z->dim / 2}, &to->all));
    PTO_TRY(pto_tensor_permute(&to->all, (int32_t[]){0, 1, 3, 4, 2}, &to->all));
    return heads_of(d, to);
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
    decode_cut pieces;
} rows_of_x;

/* Lets a task begin with another piece of x than the last one, for the same reason as begin_x1. The first piece is parameter
 * `first`, the others are those from `more` on; all are in t->pieces. Returns the first of its columns. */
static pto_param turn_x(task *t, size_t first, size_t more, rows_of_x x, int64_t turn)
{
    for (int64_t i = 0; i < x.pieces.pieces; i++) {
        const int64_t at = (i + turn) % x.pieces.pieces;
        t->params[i ? more + (size_t)i - 1 : first].tensor =
            &t->pieces[at ? more + (size_t)at - 1 : first];
    }
    return pto_scalar(turn % x.pieces.pieces * x.pieces.tile);
}

static void need_x(const decode *d, task *t, rows_of_x x, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        need(t, piece_of(x.x, 1, x.pieces, d->model.sizes.width, i));
    }
}

/* Piece i of head n. */
static void head_piece(const decode *d, const heads *h, int64_t n, int64_t i, pto_tensor *piece)
{
    const decode_cut cut = d->block->cuts.heads;
    *piece = h->first;
    piece->offset += n * h->all.strides[1] + i * cut.tile * piece->strides[2];
    piece->shape[2] = decode_cut_columns(cut, d->model.sizes.dim / 2, i);
}

/* The rows of info that a kernel needs. */
static void add_info(const decode *d, task *t)
{
    add(t, pto_scalar(d->block->packed.info));
    add(t, pto_scalar(1 + d->table_width));
}

/* Part `i` of `n` of a piece of the image is to be in the cache soon. */
static void set_prefetch(pto_param *params, int64_t begin, int64_t end, int64_t i, int64_t n)
{
    const int64_t each = (end - begin + n - 1) / n / 32 * 32 + 32, from = begin + i * each;
    params[0] = pto_scalar(from < end ? from : begin);
    params[1] = pto_scalar(from >= end ? INT64_C(0) : end - from < each ? end - from : each);
}

static void add_prefetch(task *t, int64_t begin, int64_t end, int64_t i, int64_t n)
{
    set_prefetch(t->params + t->n, begin, end, i, n);
    t->n += 2;
}

/* The tasks of a stage that differ in a few parameters. */
enum {
    PROJECT_OUT = 2,
    PROJECT_X = 4,
    PROJECT_WEIGHTS = 6,
    PROJECT_ANGLES,
    PROJECT_PREFETCH = 11,
    PROJECT_MORE = 13
};

typedef struct projection {
    task t;
    int64_t layer, done, all; /* tasks */
    int64_t weights;          /* of the next one */
    rows_of_x x;
} projection;

static void begin_projection(const decode *d, projection *p, int64_t pass, rows_of_x x)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    task *t = &p->t;
    t->n = 0;
    p->done = 0;
    p->all = (z->heads + 2 * z->kv_heads) * b->cuts.heads.pieces;
    p->weights = b->packed.layers[p->layer].heads;
    p->x = x;
    need_x(d, t, x, 0, 1);
    add(t, pto_input(&b->image));
    add(t, pto_scalar(INT64_C(0)));
    add(t, pto_scalar(z->width << 16 | z->dim));
    add(t, pto_scalar(INT64_C(0)));
    add(t, pto_scalar(b->packed.layers[p->layer].attention_norm));
    add(t, pto_scalar(INT64_C(0)));
    add(t, pto_scalar(INT64_C(0)));
    add_info(d, t);
    add(t, pto_scalar(pass));
    add_prefetch(t, 0, 0, 0, 1);
    need_x(d, t, x, 1, x.pieces.pieces);
}

/* The heads of q, k or v. */
static pto_status project(const decode *d, projection *p, int64_t n, bool turns, const heads *to)
{
    const struct decode_block *b = d->block;
    const decode_packed_layer *layer = &b->packed.layers[p->layer];
    const bool moe = decode_has_experts(&d->model.sizes, p->layer), pages = to->all.ndim == 5;
    pto_param *params = p->t.params;
    for (int64_t h = 0; h < n; h++) {
        for (int64_t i = 0; i < b->cuts.heads.pieces; i++) {
            pto_tensor out;
            head_piece(d, to, h, i, &out);
            params[PROJECT_X] = turn_x(&p->t, 0, PROJECT_MORE, p->x, p->done);
            params[PROJECT_OUT] = pages ? pto_inout(&out) : pto_output(&out);
            params[PROJECT_WEIGHTS] = pto_scalar(p->weights);
            params[PROJECT_ANGLES] = pto_scalar(turns ? b->packed.angles + i * b->cuts.heads.tile
                                                      : -1);
            /* What attend and mix need, and a dense block. Which experts are needed is not known yet. */
            set_prefetch(params + PROJECT_PREFETCH, layer->o,
                         moe ? layer->end : layer->feed + layer->expert, p->done, p->all);
            PTO_TRY(submit(d, b->k.project, &p->t));
            p->done++;
            p->weights += d->model.sizes.width * 2 * out.shape[2];
        }
    }
    return PTO_OK;
}

static pto_status attend(const decode *d, int64_t pass, int64_t layer, const scratch *s,
                         const heads *q, const heads *k, const heads *v)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    pto_tensor first_head;
    PTO_TRY(item_of(&s->heads, 0, &first_head));
    for (int64_t h = 0; h < z->heads; h++) {
        const int64_t kv = h / (z->heads / z->kv_heads);
        pto_tensor first[3], head;
        head_piece(d, q, h, 0, &first[0]);
        head_piece(d, k, kv, 0, &first[1]);
        head_piece(d, v, kv, 0, &first[2]);
        head = first_head;
        head.offset += h * s->heads.strides[0];
        pto_tensor out;
        task t;
        t.n = 0;
        for (int i = 0; i < 3; i++) {
            need(&t, first[i]);
        }
        add(&t, pto_input(&b->image));
        add(&t, pto_output(&out));
        add(&t, pto_scalar(z->dim));
        add(&t, pto_scalar(pass));
        const size_t its_row = t.n;
        add(&t, pto_scalar(INT64_C(0)));
        add(&t, pto_scalar(b->packed.layers[layer].o + h * z->dim * z->width));
        add_info(d, &t);
        for (int64_t piece = 1; piece < b->cuts.heads.pieces; piece++) {
            for (int i = 0; i < 3; i++) {
                pto_tensor other = first[i];
                other.offset += piece * b->cuts.heads.tile * other.strides[2];
                other.shape[2] = decode_cut_columns(b->cuts.heads, z->dim / 2, piece);
                need(&t, other);
            }
        }
        for (int64_t i = 0; i < b->rows.pieces; i++) {
            out = piece_of(&head, 0, b->rows, z->batch, i);
            t.params[its_row] = pto_scalar(i * b->rows.tile);
            PTO_TRY(submit(d, b->k.attend, &t));
        }
    }
    return PTO_OK;
}

/* Tasks that add parts need all pieces of them. If there are many such tasks, one that does nothing needs them
 * instead, and those need that. */
static pto_status need_parts(const decode *d, task *sum, int64_t sums, const scratch *s,
                             const pto_tensor *parts)
{
    task join;
    if (sums == 1) {
        return need_items(sum, parts);
    }
    join.n = 0;
    add(&join, pto_output(&s->joined));
    PTO_TRY(need_items(&join, parts));
    add(sum, pto_input(&s->joined));
    return submit(d, d->block->k.join, &join);
}

/* The pieces of x1, as mix writes them. */
typedef struct rows_of_x1 {
    int64_t n, turn;
    pto_tensor piece[MOST_PIECES];
} rows_of_x1;

static void find_x1(const decode *d, const scratch *s, rows_of_x1 *x1)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    x1->n = x1->turn = 0;
    for (int64_t i = 0; i < b->rows.pieces; i++) {
        const pto_tensor rows = piece_of(&s->x1, 0, b->rows, z->batch, i);
        for (int64_t c = 0; c < b->columns.pieces; c++) {
            x1->piece[x1->n++] = piece_of(&rows, 1, b->columns, z->width, c);
        }
    }
}

/* Every task needs all pieces. They begin with different ones, so that a GPU does not find them all in the list of one
 * producer. Returns where the first one begins. */
static int64_t begin_x1(task *t, const rows_of_x1 *x1)
{
    const pto_tensor *first = &x1->piece[x1->turn];
    t->n = 0;
    add(t, pto_input(first));
    return first->offset - x1->piece[0].offset;
}

static void need_other_x1(task *t, rows_of_x1 *x1)
{
    for (int64_t i = 1; i < x1->n; i++) {
        add(t, pto_input(&x1->piece[(x1->turn + i) % x1->n]));
    }
    x1->turn = (x1->turn + 1) % x1->n;
}

/* x2 = x1 + the feed-forward block. */
static pto_status feed_forward(const decode *d, int64_t l, const scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_packed_layer *layer = &b->packed.layers[l];
    const decode_cut cut = b->cuts.feed;
    pto_tensor first, part;
    task t, parts;
    rows_of_x1 x1;
    find_x1(d, s, &x1);
    PTO_TRY(item_of(&s->parts[0], 0, &first));
    part = first;
    for (int64_t i = 0; i < cut.pieces; i++) {
        part.offset = first.offset + i * s->parts[0].strides[0];
        const int64_t begin = begin_x1(&t, &x1);
        add(&t, pto_input(&b->image));
        add(&t, pto_output(&part));
        add(&t, pto_scalar(layer->ffn_norm));
        add(&t, pto_scalar(layer->feed + 3 * z->width * i * cut.tile));
        add(&t, pto_scalar(decode_cut_columns(cut, z->hidden, i)));
        add(&t, pto_scalar(begin));
        need_other_x1(&t, &x1);
        PTO_TRY(submit(d, b->k.feed, &t));
    }
    parts.n = 0;
    PTO_TRY(need_parts(d, &parts, b->sum.pieces, s, &s->parts[0]));
    for (int64_t i = 0; i < b->sum.pieces; i++) {
        const pto_tensor to = piece_of(&s->x2, 1, b->sum, z->width, i);
        x1.turn = 0;
        (void)begin_x1(&t, &x1);
        add(&t, pto_input(&first));
        add(&t, pto_output(&to));
        add(&t, pto_scalar(i * b->sum.tile));
        add(&t, pto_scalar(cut.pieces));
        add_all(&t, &parts);
        PTO_TRY(submit(d, b->k.sum, &t));
    }
    return PTO_OK;
}

/* The same with experts. The first task stores which experts each row has. */
static pto_status experts(const decode *d, int64_t pass, int64_t l, int64_t moe, const scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_packed_layer *layer = &b->packed.layers[l];
    const decode_cut cut = b->cuts.expert;
    pto_tensor first, part, choice;
    task t, parts;
    rows_of_x1 x1;
    find_x1(d, s, &x1);
    PTO_TRY(item_of(&b->t_routes, pass, &choice));
    PTO_TRY(item_of(&choice, moe, &choice));
    PTO_TRY(item_of(&s->parts[1], 0, &first));
    part = first;
    for (int64_t g = 0; g < b->groups; g++) {
        for (int64_t i = 0; i < cut.pieces; i++) {
            const bool stores = g == 0 && i == 0;
            const int64_t begin = begin_x1(&t, &x1);
            add(&t, pto_input(&b->image));
            add(&t, pto_output(&part));
            add(&t, pto_scalar(layer->ffn_norm));
            add(&t, pto_scalar(layer->feed + 3 * z->width * i * cut.tile));
            add(&t, pto_scalar(decode_cut_columns(cut, z->expert_hidden, i)));
            add(&t, pto_scalar(layer->expert));
            add(&t, pto_scalar(z->experts << 16 | z->chosen));
            add(&t, pto_scalar(g));
            add_info(d, &t);
            add(&t, pto_scalar(pass));
            add(&t, pto_scalar(begin * 2 + stores));
            if (stores) {
                add(&t, pto_nodep(pto_output(&choice)));
                add(&t, pto_output(&s->shares));
            }
            need_other_x1(&t, &x1);
            PTO_TRY(submit(d, b->k.feed_expert, &t));
            part.offset += s->parts[1].strides[0]; /* the parts of the next group follow */
        }
    }
    parts.n = 0;
    PTO_TRY(need_parts(d, &parts, b->expert_sum.pieces, s, &s->parts[1]));
    for (int64_t i = 0; i < b->expert_sum.pieces; i++) {
        const pto_tensor to = piece_of(&s->x2, 1, b->expert_sum, z->width, i);
        x1.turn = 0;
        (void)begin_x1(&t, &x1);
        add(&t, pto_input(&first));
        add(&t, pto_output(&to));
        add(&t, pto_nodep(pto_input(&choice))); /* by the task that has written shares */
        add(&t, pto_input(&s->shares));
        add(&t, pto_scalar(i * b->expert_sum.tile));
        add(&t, pto_scalar(cut.pieces));
        add(&t, pto_scalar(z->experts));
        add_all(&t, &parts);
        PTO_TRY(submit(d, b->k.sum_experts, &t));
    }
    return PTO_OK;
}

/* x1 = x + the parts of the heads. The parts lie by head, then by row. */
static pto_status mix(const decode *d, int64_t l, rows_of_x x, const scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_packed_layer *layer = &b->packed.layers[l], *next = layer + 1;
    const bool last = l + 1 == z->layers;
    pto_tensor first;
    PTO_TRY(item_of(&s->heads, 0, &first));
    for (int64_t i = 0; i < b->rows.pieces; i++) {
        const pto_tensor rows = piece_of(&s->x1, 0, b->rows, z->batch, i);
        for (int64_t c = 0; c < b->columns.pieces; c++) {
            const pto_tensor to = piece_of(&rows, 1, b->columns, z->width, c);
            pto_tensor part = piece_of(&first, 0, b->rows, z->batch, i);
            task t;
            t.n = 0;
            need_x(d, &t, x, 0, 1);
            need(&t, part);
            add(&t, pto_input(&b->image));
            add(&t, pto_output(&to));
            add(&t, pto_scalar(z->heads));
            add(&t, pto_scalar(s->heads.strides[0]));
            add(&t, pto_scalar(i * b->rows.tile));
            add(&t, pto_scalar(c * b->columns.tile));
            add_prefetch(&t, last ? b->packed.norm : next->begin, last ? b->packed.floats : next->o,
                         i * b->columns.pieces + c, b->rows.pieces * b->columns.pieces);
            for (int64_t h = 1; h < z->heads; h++) {
                part.offset += s->heads.strides[0];
                need(&t, part);
            }
            PTO_TRY(submit(d, b->k.mix, &t));
        }
    }
    return PTO_OK;
}

/* x2 = layer l of x. `moe` counts the layers with experts. */
static pto_status run_layer(const decode *d, int64_t pass, int64_t l, int64_t moe, rows_of_x x)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const scratch *s = &b->scratch[l % b->turns];
    projection p;
    p.layer = l;
    begin_projection(d, &p, pass, x);
    PTO_TRY(project(d, &p, z->heads, true, &s->q));
    PTO_TRY(project(d, &p, z->kv_heads, true, &b->layer_keys[l]));
    PTO_TRY(project(d, &p, z->kv_heads, false, &b->layer_values[l]));
    PTO_TRY(attend(d, pass, l, s, &s->q, &b->layer_keys[l], &b->layer_values[l]));
    PTO_TRY(mix(d, l, x, s));
    return decode_has_experts(z, l) ? experts(d, pass, l, moe, s) : feed_forward(d, l, s);
}

/* The next token of every sequence. */
static pto_status sample(const decode *d, int64_t step, rows_of_x x)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_cut cut = b->cuts.logits;
    pto_tensor logits, tokens, first, best;
    task pick;
    pick.n = 0;
    PTO_TRY(item_of(&b->t_logits, step, &logits));
    PTO_TRY(item_of(&b->t_tokens, step, &tokens));
    PTO_TRY(item_of(&b->best, 0, &first));
    add(&pick, pto_input(&first));
    add(&pick, pto_output(&tokens));
    add(&pick, pto_scalar(cut.pieces));
    pto_tensor out;
    task t;
    t.n = 0;
    best = first;
    need_x(d, &t, x, 0, 1);
    add(&t, pto_input(&b->image));
    add(&t, pto_nodep(pto_output(&out)));
    add(&t, pto_output(&best));
    add(&t, pto_scalar(z->width));
    add(&t, pto_scalar(b->packed.norm));
    const size_t weights = t.n;
    add(&t, pto_scalar(INT64_C(0)));
    add(&t, pto_scalar(INT64_C(0)));
    add(&t, pto_scalar(INT64_C(0)));
    need_x(d, &t, x, 1, x.pieces.pieces);
    for (int64_t i = 0; i < cut.pieces; i++) {
        out = piece_of(&logits, 1, cut, z->vocabulary, i);
        best.offset = first.offset + i * b->best.strides[0];
        t.params[weights] = pto_scalar(b->packed.head + i * cut.tile * z->width);
        t.params[weights + 1] = pto_scalar(i * cut.tile);
        t.params[weights + 2] = turn_x(&t, 0, weights + 3, x, i);
        PTO_TRY(submit(d, b->k.logits, &t));
        if (i > 0) {
            need(&pick, best);
        }
    }
    return submit(d, b->k.pick, &pick);
}

static pto_status run_pass(const decode *d, int64_t pass)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const int64_t step = pass - z->prompt + 1;
    const decode_cut whole = {z->width, 1};
    const rows_of_x last = {&b->scratch[(z->layers - 1) % b->turns].x2,
                            decode_has_experts(z, z->layers - 1) ? b->expert_sum : b->sum};
    rows_of_x x = {&b->x, whole};
    pto_tensor tokens;
    task embed;
    embed.n = 0;
    PTO_TRY(pass < z->prompt ? item_of(&b->t_feed_tokens, pass, &tokens)
                             : item_of(&b->t_tokens, pass - z->prompt, &tokens));
    add(&embed, pto_input(&tokens));
    add(&embed, pto_input(&b->image));
    add(&embed, pto_output(&b->x));
    add(&embed, pto_scalar(b->packed.embedding));
    add_prefetch(&embed, b->packed.layers[0].begin, b->packed.layers[0].o, 0, 1);
    if (pass) { /* after all of the last pass, also if it gave no tokens */
        need_x(d, &embed, last, 0, last.pieces.pieces);
    }
    PTO_TRY(submit(d, b->k.embed, &embed));
    for (int64_t l = 0, moe = 0; l < z->layers; l++) {
        const bool has_experts = decode_has_experts(z, l);
        PTO_TRY(run_layer(d, pass, l, moe, x));
        moe += has_experts;
        x = (rows_of_x){&b->scratch[l % b->turns].x2, has_experts ? b->expert_sum : b->sum};
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
    const int64_t by_row[] = {z->batch, z->width},
                  by_piece[] = {b->cuts.logits.pieces, 2, z->batch};
    pto_tensor floats = b->t_floats, integers = b->t_integers;
    PTO_TRY(carve(&floats, 2, by_row, &b->x));
    PTO_TRY(carve(&integers, 3, by_piece, &b->best));
    for (int64_t i = 0; i < b->turns; i++) {
        PTO_TRY(carve_scratch(d, &floats, &integers, &b->scratch[i]));
    }
    for (int64_t l = 0; l < z->layers; l++) {
        PTO_TRY(pages_for(d, &b->keys, l, true, &b->layer_keys[l]));
        PTO_TRY(pages_for(d, &b->values, l, false, &b->layer_values[l]));
    }
    PTO_TRY(pto_wait(d->rt)); /* for the copies, so that they are not part of the time */
    double start = decode_seconds();
    d->submitting = 0;
    for (int64_t pass = 0; pass < b->passes; pass++) {
        const double before = decode_seconds();
        PTO_TRY(run_pass(d, pass));
        d->submitting += decode_seconds() - before;
        /* While the device works on this step, the last one is read. */
        const int64_t step = pass - z->prompt;
        if (step >= 0) {
            PTO_TRY(show(d, step));
        }
        if (step == 0) { /* the passes so far were the first to use each view */
            d->seconds[0] = decode_seconds() - start;
            start = decode_seconds();
            d->submitting = 0;
        }
    }
    PTO_TRY(show(d, z->tokens - 1));
    d->seconds[z->tokens > 1] = decode_seconds() - start;
    return PTO_OK;
}

enum { IN_IMAGE, IN_TOKENS, IN_INFO, IN_KEYS, IN_VALUES, IN_FLOATS, IN_INTEGERS, INS };
enum { OUT_TOKENS, OUT_LOGITS, OUT_ROUTES, OUTS };

static pto_status run_there(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                            void *params)
{
    decode *d = params;
    struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    b->image = inputs[IN_IMAGE];
    b->t_feed_tokens = inputs[IN_TOKENS];
    b->t_info = inputs[IN_INFO];
    b->keys = inputs[IN_KEYS];
    b->values = inputs[IN_VALUES];
    b->t_floats = inputs[IN_FLOATS];
    b->t_integers = inputs[IN_INTEGERS];
    b->t_tokens = outputs[OUT_TOKENS];
    b->t_logits = outputs[OUT_LOGITS];
    if (decode_moe_layers(z)) {
        b->t_routes = outputs[OUT_ROUTES];
    }
    (void)rt;
    return run_passes(d);
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
    const int64_t moe = decode_moe_layers(z), half = pto_tensor_numel(&d->keys);
    pto_tensor inputs[INS], outputs[OUTS];
    PTO_TRY(pto_external_tensor(d->rt, b->packed.image, PTO_FLOAT32, 2,
                                (int64_t[]){b->packed.floats / 32, 32}, &inputs[IN_IMAGE]));
    PTO_TRY(
        pto_external_tensor(d->rt, b->floats, PTO_FLOAT32, 1, &b->n_floats, &inputs[IN_FLOATS]));
    PTO_TRY(pto_external_tensor(d->rt, b->integers, PTO_INT32, 1, &b->n_integers,
                                &inputs[IN_INTEGERS]));
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
