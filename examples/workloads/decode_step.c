/* decode_step.c - `decode` on a device: the tasks of a pass, stage by stage, as decode_block.c tells. */
#include "decode_step.h"

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

static pto_status reshaped(const pto_tensor *t, int32_t ndim, const int64_t *shape, pto_tensor *out)
{
    return pto_tensor_reshape(t, ndim, shape, out);
}

/* ---- Memory --------------------------------------------------------------------------- */

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

static pto_status heads_of(const decode *d, decode_heads *h)
{
    PTO_TRY(pto_tensor_select(&h->all, 1, 0, &h->first));
    h->first = piece_of(&h->first, 2, d->block->cuts.heads, d->model.sizes.dim / 2, 0);
    return PTO_OK;
}

static pto_status carve_scratch(const decode *d, pto_tensor *floats, pto_tensor *integers,
                                decode_scratch *s)
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
                            decode_heads *to)
{
    const decode_sizes *z = &d->model.sizes;
    pto_tensor mine;
    PTO_TRY(decode_item(pool, layer, &mine));
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

pto_status decode_step_place(decode *d)
{
    struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const int64_t by_row[] = {z->batch, z->width},
                  by_piece[] = {b->cuts.logits.pieces, 2, z->batch};
    pto_tensor floats = b->t_floats, integers = b->t_integers;
    for (int64_t i = 0; i < PASSES; i++) {
        PTO_TRY(carve(&floats, 2, by_row, &b->x[i]));
        PTO_TRY(carve(&integers, 3, by_piece, &b->best[i]));
    }
    for (int64_t i = 0; i < PASSES * b->turns; i++) {
        PTO_TRY(carve_scratch(d, &floats, &integers, &b->scratch[i]));
    }
    for (int64_t l = 0; l < z->layers; l++) {
        PTO_TRY(pages_for(d, &b->keys, l, true, &b->layer_keys[l]));
        PTO_TRY(pages_for(d, &b->values, l, false, &b->layer_values[l]));
    }
    return PTO_OK;
}

/* ---- Tasks ---------------------------------------------------------------------------------------- */

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
    PTO_TRY(decode_item(all, 0, &item));
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

static void need_x(const decode *d, task *t, rows_of_x x, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        need(t, piece_of(x.x, 1, x.pieces, d->model.sizes.width, i));
    }
}

/* Piece i of head n. */
static void head_piece(const decode *d, const decode_heads *h, int64_t n, int64_t i,
                       pto_tensor *piece)
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

/* The tasks of a stage that differ in a few parameters. */
enum { PROJECT_OUT = 2, PROJECT_WEIGHTS = 5, PROJECT_ANGLES };

typedef struct projection {
    task t;
    int64_t layer;
    int64_t weights; /* of the next one */
} projection;

static void begin_projection(const decode *d, projection *p, int64_t pass, rows_of_x x)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    task *t = &p->t;
    t->n = 0;
    p->weights = b->packed.layers[p->layer].heads;
    need_x(d, t, x, 0, 1);
    add(t, pto_input(&b->image));
    add(t, pto_scalar(INT64_C(0)));
    add(t, pto_scalar(z->width << 16 | z->dim));
    add(t, pto_scalar(b->packed.layers[p->layer].attention_norm));
    add(t, pto_scalar(INT64_C(0)));
    add(t, pto_scalar(INT64_C(0)));
    add_info(d, t);
    add(t, pto_scalar(pass));
    need_x(d, t, x, 1, x.pieces.pieces);
}

/* The heads of q, k or v. */
static pto_status project(const decode *d, projection *p, int64_t n, bool turns,
                          const decode_heads *to)
{
    const struct decode_block *b = d->block;
    const bool pages = to->all.ndim == 5;
    pto_param *params = p->t.params;
    for (int64_t h = 0; h < n; h++) {
        for (int64_t i = 0; i < b->cuts.heads.pieces; i++) {
            pto_tensor out;
            head_piece(d, to, h, i, &out);
            params[PROJECT_OUT] = pages ? pto_inout(&out) : pto_output(&out);
            params[PROJECT_WEIGHTS] = pto_scalar(p->weights);
            params[PROJECT_ANGLES] = pto_scalar(turns ? b->packed.angles + i * b->cuts.heads.tile
                                                      : -1);
            PTO_TRY(submit(d, b->k.project, &p->t));
            p->weights += d->model.sizes.width * 2 * out.shape[2];
        }
    }
    return PTO_OK;
}

static pto_status attend(const decode *d, int64_t pass, int64_t layer, const decode_scratch *s,
                         const decode_heads *q, const decode_heads *k, const decode_heads *v)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    pto_tensor first_head;
    PTO_TRY(decode_item(&s->heads, 0, &first_head));
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

/* Tasks that add parts need all of them. If that would be many edges, one that does nothing needs them instead, and
 * those need that. */
static pto_status need_parts(const decode *d, task *parts, int64_t tasks, const decode_scratch *s)
{
    task join;
    if (tasks == 1 || tasks * (int64_t)parts->n <= MOST_EDGES) {
        return PTO_OK;
    }
    join.n = 0;
    add(&join, pto_output(&s->joined));
    add_all(&join, parts);
    parts->n = 0;
    add(parts, pto_input(&s->joined));
    return submit(d, d->block->k.join, &join);
}

/* x1 = x + the parts of the heads. The parts lie by head, then by row. */
static pto_status mix(const decode *d, rows_of_x x, const decode_scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    pto_tensor first, head, to;
    task t, parts;
    parts.n = 0;
    PTO_TRY(decode_item(&s->heads, 0, &head));
    first = piece_of(&head, 0, b->rows, z->batch, 0);
    for (int64_t h = 0; h < z->heads; h++) {
        for (int64_t i = 0; i < b->rows.pieces; i++) {
            need(&parts, piece_of(&head, 0, b->rows, z->batch, i));
        }
        head.offset += s->heads.strides[0];
    }
    PTO_TRY(need_parts(d, &parts, b->mix.pieces, s));
    for (int64_t i = 0; i < b->mix.pieces; i++) {
        to = piece_of(&s->x1, 1, b->mix, z->width, i);
        t.n = 0;
        need_x(d, &t, x, 0, 1);
        add(&t, pto_nodep(pto_input(&first)));
        add(&t, pto_output(&to));
        add(&t, pto_scalar(z->heads));
        add(&t, pto_scalar(s->heads.strides[0]));
        add(&t, pto_scalar(i * b->mix.tile));
        add_all(&t, &parts);
        PTO_TRY(submit(d, b->k.mix, &t));
    }
    return PTO_OK;
}

/* x1, as mix writes it. */
static rows_of_x find_x1(const decode *d, const decode_scratch *s)
{
    return (rows_of_x){&s->x1, d->block->mix};
}

/* x2 = x1 + the feed-forward block. */
static pto_status feed_forward(const decode *d, int64_t l, const decode_scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_packed_layer *layer = &b->packed.layers[l];
    const decode_cut cut = b->cuts.feed;
    const rows_of_x x1 = find_x1(d, s);
    pto_tensor first, part;
    task t, parts;
    PTO_TRY(decode_item(&s->parts[0], 0, &first));
    t.n = 0;
    need_x(d, &t, x1, 0, 1);
    add(&t, pto_input(&b->image));
    add(&t, pto_output(&part));
    add(&t, pto_scalar(layer->ffn_norm));
    const size_t weights = t.n;
    add(&t, pto_scalar(INT64_C(0)));
    add(&t, pto_scalar(INT64_C(0)));
    need_x(d, &t, x1, 1, x1.pieces.pieces);
    part = first;
    for (int64_t i = 0; i < cut.pieces; i++) {
        t.params[weights] = pto_scalar(layer->feed + 3 * z->width * i * cut.tile);
        t.params[weights + 1] = pto_scalar(decode_cut_columns(cut, z->hidden, i));
        PTO_TRY(submit(d, b->k.feed, &t));
        part.offset += s->parts[0].strides[0];
    }
    parts.n = 0;
    PTO_TRY(need_items(&parts, &s->parts[0]));
    PTO_TRY(need_parts(d, &parts, b->sum.pieces, s));
    for (int64_t i = 0; i < b->sum.pieces; i++) {
        const pto_tensor to = piece_of(&s->x2, 1, b->sum, z->width, i);
        t.n = 0;
        need_x(d, &t, x1, 0, 1);
        add(&t, pto_nodep(pto_input(&first)));
        add(&t, pto_output(&to));
        add(&t, pto_scalar(i * b->sum.tile));
        add(&t, pto_scalar(cut.pieces));
        add_all(&t, &parts);
        PTO_TRY(submit(d, b->k.sum, &t));
    }
    return PTO_OK;
}

/* The same with experts. The first task stores which experts each row has. */
static pto_status experts(const decode *d, int64_t pass, int64_t l, int64_t moe,
                          const decode_scratch *s)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_packed_layer *layer = &b->packed.layers[l];
    const decode_cut cut = b->cuts.expert;
    const rows_of_x x1 = find_x1(d, s);
    pto_tensor first, part, choice;
    task t, parts;
    PTO_TRY(decode_item(&b->t_routes, pass, &choice));
    PTO_TRY(decode_item(&choice, moe, &choice));
    PTO_TRY(decode_item(&s->parts[1], 0, &first));
    part = first;
    for (int64_t g = 0; g < b->groups; g++) {
        for (int64_t i = 0; i < cut.pieces; i++) {
            const bool stores = g == 0 && i == 0;
            t.n = 0;
            need_x(d, &t, x1, 0, 1);
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
            add(&t, pto_scalar((int64_t)stores));
            if (stores) {
                add(&t, pto_nodep(pto_output(&choice)));
                add(&t, pto_output(&s->shares));
            }
            need_x(d, &t, x1, 1, x1.pieces.pieces);
            PTO_TRY(submit(d, b->k.feed_expert, &t));
            part.offset += s->parts[1].strides[0]; /* the parts of the next group follow */
        }
    }
    parts.n = 0;
    PTO_TRY(need_items(&parts, &s->parts[1]));
    PTO_TRY(need_parts(d, &parts, b->expert_sum.pieces, s));
    for (int64_t i = 0; i < b->expert_sum.pieces; i++) {
        const pto_tensor to = piece_of(&s->x2, 1, b->expert_sum, z->width, i);
        t.n = 0;
        need_x(d, &t, x1, 0, 1);
        add(&t, pto_nodep(pto_input(&first)));
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

/* x2 = layer l of x. `moe` counts the layers with experts. */
static pto_status run_layer(const decode *d, int64_t pass, int64_t l, int64_t moe, rows_of_x x)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const decode_scratch *s = decode_scratch_of(b, pass, l);
    projection p;
    p.layer = l;
    begin_projection(d, &p, pass, x);
    PTO_TRY(project(d, &p, z->heads, true, &s->q));
    PTO_TRY(project(d, &p, z->kv_heads, true, &b->layer_keys[l]));
    PTO_TRY(project(d, &p, z->kv_heads, false, &b->layer_values[l]));
    PTO_TRY(attend(d, pass, l, s, &s->q, &b->layer_keys[l], &b->layer_values[l]));
    PTO_TRY(mix(d, x, s));
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
    PTO_TRY(decode_item(&b->t_logits, step, &logits));
    PTO_TRY(decode_item(&b->t_tokens, step, &tokens));
    PTO_TRY(decode_item(&b->best[step % PASSES], 0, &first));
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
    need_x(d, &t, x, 1, x.pieces.pieces);
    for (int64_t i = 0; i < cut.pieces; i++) {
        out = piece_of(&logits, 1, cut, z->vocabulary, i);
        best.offset = first.offset + i * b->best[0].strides[0];
        t.params[weights] = pto_scalar(b->packed.head + i * cut.tile * z->width);
        t.params[weights + 1] = pto_scalar(i * cut.tile);
        PTO_TRY(submit(d, b->k.logits, &t));
        if (i > 0) {
            need(&pick, best);
        }
    }
    return submit(d, b->k.pick, &pick);
}

pto_status decode_step_submit(const decode *d, int64_t pass)
{
    const struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    const int64_t step = pass - z->prompt + 1;
    const decode_cut whole = {z->width, 1};
    const rows_of_x last = {&decode_scratch_of(b, pass + PASSES - 1, z->layers - 1)->x2,
                            decode_has_experts(z, z->layers - 1) ? b->expert_sum : b->sum};
    rows_of_x x = {&b->x[pass % PASSES], whole};
    pto_tensor tokens;
    task embed;
    embed.n = 0;
    PTO_TRY(pass < z->prompt ? decode_item(&b->t_feed_tokens, pass, &tokens)
                             : decode_item(&b->t_tokens, pass - z->prompt, &tokens));
    add(&embed, pto_input(&tokens));
    add(&embed, pto_input(&b->image));
    add(&embed, pto_output(x.x));
    add(&embed, pto_scalar(b->packed.embedding));
    if (pass) { /* after all of the last pass, also if it gave no tokens */
        need_x(d, &embed, last, 0, last.pieces.pieces);
    }
    PTO_TRY(submit(d, b->k.embed, &embed));
    for (int64_t l = 0, moe = 0; l < z->layers; l++) {
        const bool has_experts = decode_has_experts(z, l);
        PTO_TRY(run_layer(d, pass, l, moe, x));
        moe += has_experts;
        x = (rows_of_x){&decode_scratch_of(b, pass, l)->x2, has_experts ? b->expert_sum : b->sum};
    }
    workload_progress(d->job, (uint64_t)(step > 0 ? step + 1 : 1) * (uint64_t)z->layers);
    return step < 0 ? PTO_OK : sample(d, step, x);
}
