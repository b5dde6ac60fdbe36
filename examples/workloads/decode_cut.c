/* decode_cut.c - `decode` on a device: into how many tasks a step is cut, and the data of a run. */
#include <stdlib.h>

#include "decode_step.h"
#include "where.h"

/* ---- How a step is cut ------------------------------------------------------------------------ */

enum {
    MOST_SUMS = 32,
    MOST_GROUPS = 4,           /* for which the pieces of an expert become larger */
    MIXES = 8,                 /* tasks of mix, about */
    HEAD_BYTES = 128 << 10,    /* weights of a piece of a head */
    SUM_BYTES = 512 << 10,     /* parts that one task adds */
    MOST_PART_BYTES = 64 << 20 /* parts of a stage */
};

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
    b->cuts.expert = cut_parts(z->expert_hidden,
                               blocks / (b->groups < MOST_GROUPS ? b->groups : MOST_GROUPS),
                               b->groups * rows);
    b->cuts.logits = cut_into(z->vocabulary, blocks / 2);
    b->sum = cut_sum(z->width, b->cuts.feed.pieces * rows);
    b->expert_sum = cut_sum(z->width, b->cuts.expert.pieces * choices * row);
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
