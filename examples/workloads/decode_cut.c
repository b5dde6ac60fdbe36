/* decode_cut.c - `decode` on a device: into how many tasks a step is cut, and the data of a run. */
#include <inttypes.h>
#include <stdlib.h>

#include "decode_step.h"
#include "where.h"

/* ---- How a step is cut ------------------------------------------------------------------------ */

enum {
    MOST_SUMS = 32,
    MOST_GROUPS = 4,           /* for which the pieces of an expert become larger */
    HEAD_BYTES = 128 << 10,    /* weights of a piece of a head */
    MIX_BYTES = 160 << 10,     /* parts that one task of mix adds */
    SUM_BYTES = 80 << 10,      /* the same of sum */
    MOST_PART_BYTES = 64 << 20 /* parts of a stage */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* About `wanted` pieces of at most `most` columns, in whole sectors of memory (8 floats). */
static decode_cut cut_into(int64_t columns, int64_t wanted, int64_t most)
{
    decode_cut c;
    wanted = wanted > 1 ? wanted : 1;
    c.tile = ((columns + wanted - 1) / wanted + 7) / 8 * 8;
    c.tile = least(least(c.tile, most), columns);
    c.pieces = (columns + c.tile - 1) / c.tile;
    return c;
}

/* Hidden columns. Fewer parts, if these would take too much memory. A row fits into the memory of a block, and what it
 * becomes (decode_math.h): once `width` and twice the columns, once the columns and `width`. */
static decode_cut cut_parts(int64_t columns, int64_t wanted, int64_t part_bytes, int64_t width)
{
    while (wanted > 1 && wanted * part_bytes > MOST_PART_BYTES) {
        wanted /= 2;
    }
    return cut_into(columns, wanted, least((DECODE_ARENA - width) / 2, DECODE_ARENA / 3) / 8 * 8);
}

/* Columns of a sum of so many bytes, of which a task adds about `each`. */
static decode_cut cut_sum(int64_t columns, int64_t bytes, int64_t each)
{
    return cut_into(columns, least(1 + (bytes - 1) / each, MOST_SUMS), columns);
}

/* Rows of a task of attention, for about `wanted` tasks of a head. A kernel takes up to 8 rows at a time. */
static decode_cut cut_rows(int64_t rows, int64_t wanted)
{
    decode_cut c;
    wanted = wanted > 1 ? wanted : 1;
    c.tile = least((rows + wanted - 1) / wanted, 8);
    c.pieces = (rows + c.tile - 1) / c.tile;
    return c;
}

static pto_status cut_step(const decode *d, struct decode_block *b)
{
    const decode_sizes *z = &d->model.sizes;
    const int64_t row = z->width * (int64_t)sizeof(float), rows = z->batch * row;
    const int64_t choices = z->batch * z->chosen, blocks = d->job->number[DECODE_BLOCKS],
                  many = least(2 * blocks, MOST_PIECES);
    b->groups = least(choices, z->experts);
    b->turns = least(z->layers, MOST_TURNS);
    b->cuts.heads = cut_into(z->dim / 2, 1 + (z->dim * row - 1) / HEAD_BYTES, z->dim);
    b->rows = cut_rows(z->batch, many / z->heads);
    b->mix = cut_sum(z->width, z->heads * rows, MIX_BYTES);
    b->cuts.feed = cut_parts(z->hidden, blocks - blocks / 4, rows, z->width);
    b->cuts.expert = cut_parts(
        z->expert_hidden, least(blocks / least(b->groups, MOST_GROUPS), MOST_PIECES / b->groups),
        b->groups * rows, z->width);
    b->cuts.logits = cut_into(z->vocabulary, many, (DECODE_ARENA - z->width) / 8 * 8);
    b->sum = cut_sum(z->width, b->cuts.feed.pieces * rows, SUM_BYTES);
    b->expert_sum = cut_sum(z->width, b->cuts.expert.pieces * choices * row, SUM_BYTES);
    if (b->cuts.feed.pieces > MOST_PIECES || b->cuts.logits.pieces > MOST_PIECES ||
        (decode_moe_layers(z) && b->groups * b->cuts.expert.pieces > MOST_PIECES)) {
        return pto_fail(PTO_TOO_LARGE,
                        "--device: a stage would have more than %d tasks: --hidden, --vocabulary, "
                        "--experts or --expert-hidden is too large for --width %" PRId64,
                        MOST_PIECES, z->width);
    }
    return PTO_OK;
}

/* ---- Data -------------------------------------------------------------------------------------- */

/* Pages are given out in the order in which the sequences need them. */
static void give_pages(decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    struct decode_block *block = d->block;
    const int64_t row = 1 + d->table_width;
    d->pages_used = 0;
    for (int64_t pass = 0; pass < block->passes; pass++) {
        for (int64_t b = 0; b < z->batch; b++) {
            const int64_t position = pass - decode_begins(d, b);
            block->info[b * row] = (int32_t)-decode_begins(d, b);
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
    PTO_TRY(cut_step(d, block));
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
            const int64_t position = pass - decode_begins(d, b);
            block->feed_tokens[pass * z->batch + b] =
                position < 0 ? -1 : d->prompts.tokens[d->prompts.row[b] + position];
        }
    }
    give_pages(d);
    PTO_TRY(decode_pack(&block->packed, &d->model, &block->cuts, block->info, integers));
    /* A tensor begins at a multiple of 32 elements. */
    const int64_t parts = block->groups * block->cuts.expert.pieces + block->cuts.feed.pieces +
                          z->heads;
    block->n_floats = PASSES * (block->turns * ((parts + 3) * z->batch * z->width + 8 * 32 +
                                                z->batch * (z->heads * z->dim + z->chosen)) +
                                z->batch * z->width + 32);
    block->n_integers = PASSES *
                        (block->turns * 32 + block->cuts.logits.pieces * 2 * z->batch + 32);
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
