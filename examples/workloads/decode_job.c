/* decode_job.c - options, data, checks and messages of `decode`. */
#include "decode.h"

#include "blas.h"
#include "where.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const workload_option decode_options[DECODE_OPTIONS] = {
    [DECODE_LAYERS] = {"layers", "layers", NULL, 6, 1, 256, 2, 0},
    [DECODE_WIDTH] = {"width", "width of a token between layers", NULL, 512, 1, 16384, 48, 0},
    [DECODE_HEADS] = {"heads", "query heads", NULL, 8, 1, 256, 4, 0},
    [DECODE_KV_HEADS] = {"kv-heads", "KV heads; must divide heads", NULL, 2, 1, 256, 2, 0},
    [DECODE_DIM] = {"dim", "dimension of a head; even, for RoPE", NULL, 64, 1, ATTENTION_MAX_DIM,
                    10, 0},
    [DECODE_HIDDEN] = {"hidden", "width of the feed-forward part", NULL, 1536, 1, 65536, 72, 0},
    [DECODE_VOCABULARY] = {"vocabulary", "size of the vocabulary", NULL, 4096, 1, 1 << 20, 100, 0},
    [DECODE_MOE_EVERY] = {"moe-every", "every N-th layer has experts; 0: none", NULL, 2, 0, 256, 2,
                          0},
    [DECODE_EXPERTS] = {"experts", "experts in such a layer", NULL, 8, 1, DECODE_MAX_EXPERTS, 5, 0},
    [DECODE_CHOSEN] = {"chosen", "experts per token", NULL, 2, 1, DECODE_MAX_EXPERTS, 2, 0},
    [DECODE_EXPERT_HIDDEN] = {"expert-hidden", "width of an expert", NULL, 768, 1, 65536, 40, 0},
    [DECODE_BATCH] = {"batch", "sequences at a time", NULL, 8, 1, 1024, 3, 0},
    [DECODE_PROMPT] = {"prompt", "tokens of the longest prompt", NULL, 24, 1, 4096, 9, 0},
    [DECODE_TOKENS] = {"tokens", "new tokens of each sequence", NULL, 128, 1, 65536, 6, 0},
    [DECODE_PAGE] = {"page", "tokens in a page", NULL, 16, 1, 4096, 4, 0},
    [DECODE_PAGES] = {"pages", "pages of the pool; 0: as many as needed", NULL, 0, 0, 1 << 24, 0,
                      0},
    [DECODE_TILE] = {"tile", "columns per task", NULL, 128, 1, 65536, 16, 0},
    [DECODE_COMPARE] = {"compare", "steps to compare with a reference in double precision", NULL, 3,
                        0, 65536, 4, 0},
    [DECODE_WEIGHTS] = {"weights",
                        "safetensors file to load, with Llama and Mixtral names; "
                        "none: seeded",
                        "", 0, 0, 0, 0, 0},
    [DECODE_DEVICE] = WORKLOAD_DEVICE_OPTION,
    [DECODE_BLOCKS] = {"blocks", "with --device: tasks of a stage that run at a time", NULL, 32, 2,
                       256, 8, 0},
    [DECODE_SAVE_WEIGHTS] = {"save-weights", "safetensors file to write the weights to", "", 0, 0,
                             0, 0, 0},
};

/* ---- Preparing ----------------------------------------------------------------------------- */

static uint64_t bytes_of(int64_t rows, int64_t columns)
{
    return ((uint64_t)(rows * columns) * sizeof(float) + 63) / 64 * 64;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Number of pages for `all` positions, or of tiles for `all` columns. */
static int64_t count(int64_t all, int64_t part)
{
    return (all + part - 1) / part;
}

static decode_sizes sizes_of(const workload_job *job)
{
    return (decode_sizes){
        .layers = job->number[DECODE_LAYERS],
        .width = job->number[DECODE_WIDTH],
        .heads = job->number[DECODE_HEADS],
        .kv_heads = job->number[DECODE_KV_HEADS],
        .dim = job->number[DECODE_DIM],
        .hidden = job->number[DECODE_HIDDEN],
        .vocabulary = job->number[DECODE_VOCABULARY],
        .experts = job->number[DECODE_EXPERTS],
        .chosen = job->number[DECODE_CHOSEN],
        .expert_hidden = job->number[DECODE_EXPERT_HIDDEN],
        .moe_every = job->number[DECODE_MOE_EVERY],
        .batch = job->number[DECODE_BATCH],
        .prompt = job->number[DECODE_PROMPT],
        .tokens = job->number[DECODE_TOKENS],
    };
}

static pto_status prepare_pool(decode *d, int64_t pages)
{
    const decode_sizes *z = &d->model.sizes;
    int64_t needed = 0;
    for (int64_t b = 0; b < z->batch; b++) {
        needed += count(d->prompts.length[b] + z->tokens - 1, d->page);
    }
    if (pages && pages < needed) {
        return pto_fail(PTO_BAD_CONFIG,
                        "%" PRId64 " sequences of up to %" PRId64 " tokens need %" PRId64
                        " pages of %" PRId64 ", and --pages is %" PRId64,
                        z->batch, decode_positions(z), needed, d->page, pages);
    }
    d->pages = pages ? pages : needed;
    const int64_t by_slot[] = {z->layers, d->pages, z->kv_heads, d->page, z->dim},
                  by_dim[] = {z->layers, d->pages, z->kv_heads, z->dim, d->page};
    const int64_t half = z->layers * d->pages * z->kv_heads * d->page * z->dim;
    const uint64_t half_bytes = (uint64_t)half * sizeof(float);
    d->pool = workload_alloc(2 * (uint64_t)half, sizeof(float));
    if (!d->pool) {
        return PTO_OUT_OF_MEMORY;
    }
    PTO_TRY(pto_tensor_init(&d->keys, d->pool, half_bytes, PTO_FLOAT32, 5, by_dim, NULL, 0));
    PTO_TRY(pto_tensor_transpose(&d->keys, 3, 4, &d->keys));
    return pto_tensor_init(&d->values, d->pool + half, half_bytes, PTO_FLOAT32, 5, by_slot, NULL,
                           0);
}

static pto_status prepare_scratch(decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    const int64_t rows = most(d->prompts.rows, z->batch);
    d->table_width = count(decode_positions(z), d->page);
    d->table = workload_alloc((uint64_t)(z->batch * d->table_width), sizeof *d->table);
    d->shares = workload_alloc((uint64_t)z->batch, sizeof *d->shares);
    d->positions = workload_alloc((uint64_t)rows, sizeof *d->positions);
    d->last = workload_alloc((uint64_t)z->batch, sizeof *d->last);
    d->order = workload_alloc((uint64_t)(rows * z->chosen), sizeof *d->order);
    d->places = workload_alloc((uint64_t)(rows * z->chosen), sizeof *d->places);
    return d->table && d->shares && d->positions && d->last && d->order && d->places
               ? PTO_OK
               : PTO_OUT_OF_MEMORY;
}

static double count_flops(const decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    double flops = 2.0 * (double)(z->tokens * z->batch) * (double)(z->width * z->vocabulary);
    for (int64_t b = 0; b < z->batch; b++) {
        for (int64_t p = 0; p < d->prompts.length[b] + z->tokens - 1; p++) {
            flops += decode_flops(z, p);
        }
    }
    return flops;
}

/* Live memory of a feed-forward part: the hidden values, and two tiles for each of their tiles. */
static uint64_t feed_forward_bytes(int64_t rows, int64_t hidden, int64_t tile)
{
    uint64_t bytes = bytes_of(rows, hidden);
    for (int64_t at = 0; at < hidden; at += tile) {
        bytes += 2 * bytes_of(rows, hidden - at < tile ? hidden - at : tile);
    }
    return bytes;
}

/* The smallest rings that work. A lifetime holds the slots and the memory of all its tasks until it
 * ends. So a ring must have room for the largest lifetime on its level, which is in the first step,
 * with all rows of all prompts. Edges and map entries are freed as tasks complete, so any number
 * works. */
static void tighten(const decode *d, pto_config *c)
{
    const decode_sizes *z = &d->model.sizes;
    const int64_t rows = most(d->prompts.rows, z->batch), all = rows * z->chosen, tile = d->tile,
                  queries = z->heads * z->dim, keys = z->kv_heads * z->dim,
                  moe = decode_moe_layers(z);
    const int64_t hidden = most(moe < z->layers ? z->hidden : 0, moe ? z->expert_hidden : 0);
    int64_t stores = 0;
    for (int64_t b = 0; b < z->batch; b++) {
        stores += 2 * count(d->prompts.length[b], d->page);
    }
    /* Tasks of each lifetime; memory that is written or allocated counts as one. */
    const int64_t step = 7 + count(z->vocabulary, tile),
                  attention = 7 + count(queries, tile) + 2 * count(keys, tile) + stores +
                              count(z->width, tile),
                  experts = 8 + count(z->experts, tile),
                  head = 1 + count(count(decode_positions(z), d->page), DECODE_CHUNK),
                  feed_forward = 1 + 3 * count(hidden, tile) + count(z->width, tile);
    /* And their memory. */
    const uint64_t step_bytes = 2 * bytes_of(rows, 1) + bytes_of(rows, z->width) +
                                2 * bytes_of(z->batch, 1) + 2 * bytes_of(z->batch, z->width),
                   attention_bytes = bytes_of(rows, z->width) + 2 * bytes_of(rows, queries) +
                                     2 * bytes_of(rows, keys),
                   experts_bytes = bytes_of(rows, z->width) + bytes_of(rows, z->experts) +
                                   4 * bytes_of(all, 1) + 2 * bytes_of(all, z->width),
                   head_bytes = bytes_of(z->prompt * z->heads / z->kv_heads,
                                         attention_width(z->dim)),
                   inner_bytes = feed_forward_bytes(rows, hidden, tile);
    c->levels = 4;
    c->level_ring_tasks[0] = 2;
    c->level_ring_tasks[1] = (uint32_t)step;
    c->level_ring_tasks[2] = (uint32_t)most(attention, moe ? experts : 0);
    c->level_ring_tasks[3] = (uint32_t)most(feed_forward, head);
    /* All of a step is complete before the next one starts; only at the end of the ring a remainder
     * may be too small for a block. The inner lifetimes follow each other without a wait. What the
     * previous one still uses splits the room for the next, so twice the size is enough. */
    c->level_heap_bytes[0] = 64;
    c->level_heap_bytes[1] = step_bytes + bytes_of(rows, z->width);
    c->level_heap_bytes[2] = 2 * more(attention_bytes, moe ? experts_bytes : 0);
    c->level_heap_bytes[3] = 2 * more(inner_bytes, head_bytes);
    c->deps = 64;
    c->map_entries = 64;
}

/* The defaults of the runtime, but enlarged where a lifetime would not fit. */
static void widen(const pto_config *least, pto_config *usual)
{
    enum { WINDOW = 1024 };
    const uint64_t heap = UINT64_C(256) << 20;
    usual->levels = least->levels;
    for (uint32_t l = 0; l < least->levels; l++) {
        const uint32_t window = least->level_ring_tasks[l];
        usual->level_ring_tasks[l] = window > WINDOW ? 2 * window : WINDOW;
        usual->level_heap_bytes[l] = least->level_heap_bytes[l] > heap ? least->level_heap_bytes[l]
                                                                       : 0;
    }
}

static pto_status prepare(workload_job *job, decode *d)
{
    const decode_sizes sizes = sizes_of(job);
    const char *load = job->text[DECODE_WEIGHTS], *save = job->text[DECODE_SAVE_WEIGHTS];
    d->tile = job->number[DECODE_TILE];
    d->page = job->number[DECODE_PAGE];
    d->compare = job->number[DECODE_COMPARE] < sizes.tokens ? job->number[DECODE_COMPARE]
                                                            : sizes.tokens;
    PTO_TRY(workload_device(job, job->text[DECODE_DEVICE], false));
    PTO_TRY(decode_sizes_check(&sizes));
    PTO_TRY(decode_prompts_prepare(&d->prompts, &sizes, job->seed));
    PTO_TRY(decode_result_prepare(&d->result, &sizes, &d->prompts));
    PTO_TRY(decode_model_prepare(&d->model, &sizes));
    PTO_TRY(prepare_pool(d, job->number[DECODE_PAGES]));
    PTO_TRY(prepare_scratch(d));
    if (load[0]) {
        PTO_TRY(decode_model_load(&d->model, load));
    } else {
        decode_model_seed(&d->model, job->seed);
    }
    if (save[0]) {
        PTO_TRY(decode_model_save(&d->model, save));
    }
    job->flops = count_flops(d);
    job->total = (uint64_t)(sizes.tokens * sizes.layers);
    if (job->elsewhere) {
        return decode_block_prepare(d);
    }
    tighten(d, &job->tight);
    widen(&job->tight, &job->usual);
    workload_say(job, "BLAS      %s; attention with %s", blas_start(), attention_isa());
    return PTO_OK;
}

pto_status decode_prepare(workload_job *job)
{
    decode *d = calloc(1, sizeof *d);
    if (!d) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for a run of decode");
    }
    job->data = d;
    d->job = job;
    return prepare(job, d);
}

/* A run with the same input must give the same bits as the first one. */
static pto_status compare_with_first(decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    const uint32_t *logits = (const uint32_t *)(const void *)d->result.logits;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < z->tokens * z->batch; i++) {
        hash = (hash ^ (uint32_t)d->result.tokens[i]) * UINT64_C(0x100000001b3);
    }
    for (int64_t i = 0; i < z->tokens * z->batch * z->vocabulary; i++) {
        hash = (hash ^ logits[i]) * UINT64_C(0x100000001b3);
    }
    hash |= 1; /* never 0 */
    if (d->first_hash && d->first_hash != hash) {
        return pto_fail(PTO_KERNEL_FAILED, "tokens or logits differ from those of the first run");
    }
    d->first_hash = hash;
    return PTO_OK;
}

/* Returns the pages to the pool. Neither pages nor results of the last run can be mistaken for
 * those of the next. The values left in the pool are large enough to be noticed wherever they are
 * read, and small enough to vanish under a weight of zero. */
pto_status decode_restore(workload_job *job)
{
    decode *d = job->data;
    const decode_sizes *z = &d->model.sizes;
    PTO_TRY(compare_with_first(d));
    d->pages_used = 0;
    float *ends[] = {d->pool, d->pool + 2 * pto_tensor_numel(&d->keys)};
    for (float *at = ends[0]; at < ends[1]; at++) {
        *at = 1e15f;
    }
    memset(d->result.tokens, 0, (size_t)(z->tokens * z->batch) * sizeof *d->result.tokens);
    memset(d->result.logits, 0,
           (size_t)(z->tokens * z->batch * z->vocabulary) * sizeof *d->result.logits);
    return PTO_OK;
}

void decode_discard(workload_job *job)
{
    decode *d = job->data;
    if (d) {
        decode_block_discard(d);
        decode_model_discard(&d->model);
        decode_prompts_discard(&d->prompts);
        decode_result_discard(&d->result);
        workload_free(d->pool);
        workload_free(d->table);
        workload_free(d->shares);
        workload_free(d->positions);
        workload_free(d->last);
        workload_free(d->order);
        workload_free(d->places);
        free(d);
        job->data = NULL;
    }
}

/* ---- Messages ----------------------------------------------------------------------------- */

enum { SHOWN_SEQUENCES = 8, SHOWN_PROMPT = 4, SHOWN_TOKENS = 10 };

static void tell_tokens(const decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    workload_say(d->job, "sequence   prompt%*s  new tokens", 6 * SHOWN_PROMPT - 2, "");
    for (int64_t b = 0; b < z->batch && b < SHOWN_SEQUENCES; b++) {
        char line[256];
        size_t at = (size_t)snprintf(line, sizeof line, "%8" PRId64 "   ", b);
        for (int64_t i = 0; i < SHOWN_PROMPT; i++) {
            const int64_t from = d->prompts.length[b] - SHOWN_PROMPT + i;
            at += (size_t)(from < 0 ? snprintf(line + at, sizeof line - at, "%6s", "")
                                    : snprintf(line + at, sizeof line - at, "%6" PRId32,
                                               d->prompts.tokens[d->prompts.row[b] + from]));
        }
        at += (size_t)snprintf(line + at, sizeof line - at, "  -->");
        for (int64_t i = 0; i < SHOWN_TOKENS && i < z->tokens; i++) {
            at += (size_t)snprintf(line + at, sizeof line - at, "%6" PRId32,
                                   d->result.tokens[i * z->batch + b]);
        }
        workload_say(d->job, "%s%s", line, z->tokens > SHOWN_TOKENS ? " ..." : "");
    }
}

/* The number of experts that a step used in a layer. */
static void tell_experts(const decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    const int64_t moe = decode_moe_layers(z);
    int64_t used = 0, layers = 0, fewest = z->experts, largest = 0;
    for (int64_t n = 1; n < z->tokens; n++) {
        for (int64_t m = 0; m < moe; m++, layers++) {
            const int32_t *route = decode_route_at(&d->result, z, &d->prompts, n, m);
            bool seen[DECODE_MAX_EXPERTS] = {false};
            int64_t here = 0;
            for (int64_t i = 0; i < z->batch * z->chosen; i++) {
                here += !seen[route[i]];
                seen[route[i]] = true;
            }
            used += here;
            fewest = here < fewest ? here : fewest;
            largest = most(largest, here);
        }
    }
    if (layers) {
        workload_say(d->job,
                     "experts: %" PRId64 " of %" PRId64 " for each token; a step of %" PRId64
                     " tokens used %.1f of them per layer (%" PRId64 " to %" PRId64
                     "): the others were never submitted",
                     z->chosen, z->experts, z->batch, (double)used / (double)layers, fewest,
                     largest);
    }
}

void decode_tell(decode *d)
{
    const decode_sizes *z = &d->model.sizes;
    if (d->told) {
        return;
    }
    d->told = true;
    tell_tokens(d);
    tell_experts(d);
    workload_say(d->job, "prompts: %" PRId64 " tokens in %.0f ms", d->prompts.rows,
                 d->seconds[0] * 1e3);
    if (z->tokens > 1) {
        const double more = (double)((z->tokens - 1) * z->batch);
        const double steps = (double)(z->tokens - 1);
        char submit[64] = "";
        if (d->block) { /* which of the two is the limit */
            (void)snprintf(submit, sizeof submit, ", of which submit took %.3f",
                           d->submitting * 1e3 / steps);
        }
        workload_say(d->job, "decoding: %.0f tokens in %.2f s, %.0f tokens/s, %.*f ms a step%s",
                     more, d->seconds[1], more / d->seconds[1], d->block ? 3 : 1,
                     d->seconds[1] * 1e3 / steps, submit);
    }
}

/* ---- Checking ------------------------------------------------------------------------------ */

/* Reports where two runs differ. */
static pto_status compare_runs(const decode *d, const decode_result *other)
{
    const decode_sizes *z = &d->model.sizes;
    for (int64_t i = 0; i < z->tokens * z->batch; i++) {
        const float *mine = d->result.logits + i * z->vocabulary,
                    *theirs = other->logits + i * z->vocabulary;
        const bool same = !memcmp(mine, theirs, (size_t)z->vocabulary * sizeof *mine);
        if (!same || d->result.tokens[i] != other->tokens[i]) {
            return pto_fail(
                PTO_KERNEL_FAILED,
                "step %" PRId64 ", sequence %" PRId64
                ": %s differ from those of the same kernels in a serial loop (token %" PRId32
                " and %" PRId32 ")",
                i / z->batch, i % z->batch, same ? "tokens" : "logits", d->result.tokens[i],
                other->tokens[i]);
        }
    }
    return PTO_OK;
}

/* The same for kernels that round in another way: `other` has followed this run. Logits must be equal within
 * the tolerance, and each token the best within it. Nearly all tokens are the same ones. */
static pto_status compare_near_runs(const decode *d, const decode_result *other, double *error,
                                    int64_t *same)
{
    const decode_sizes *z = &d->model.sizes;
    *error = 0;
    *same = 0;
    for (int64_t i = 0; i < z->tokens * z->batch; i++) {
        const float *mine = d->result.logits + i * z->vocabulary,
                    *theirs = other->logits + i * z->vocabulary;
        const int32_t token = d->result.tokens[i], best = other->tokens[i];
        double off = 0, largest = 0;
        for (int64_t c = 0; c < z->vocabulary; c++) {
            const double apart = fabs((double)mine[c] - (double)theirs[c]);
            off = apart <= off ? off : apart; /* also catches NaN */
            largest = fmax(largest, fabs((double)theirs[c]));
        }
        off = largest > 0 ? off / largest : off;
        *error = off <= *error ? *error : off;
        *same += token == best;
        if (!(off <= DECODE_ALLOWED) || token < 0 || token >= z->vocabulary ||
            (double)theirs[token] < (double)theirs[best] - DECODE_ALLOWED * largest) {
            return pto_fail(PTO_KERNEL_FAILED,
                            "step %" PRId64 ", sequence %" PRId64 ": token %" PRId32 " and %" PRId32
                            " in a serial loop on the CPU, a logit is off by %.1e of the largest "
                            "(allowed %.0e)",
                            i / z->batch, i % z->batch, token, best, off, DECODE_ALLOWED);
        }
    }
    return PTO_OK;
}

pto_status decode_check(workload_job *job)
{
    decode *d = job->data;
    const decode_sizes *z = &d->model.sizes;
    const int64_t all = z->tokens * z->batch;
    decode_result other;
    double error = 0;
    int64_t same = 0;
    (void)blas_start();
    PTO_TRY(compare_with_first(d));
    pto_status status = decode_result_prepare(&other, z, &d->prompts);
    if (!status) {
        status = decode_serial(&d->model, &d->prompts, d->tile, d->page,
                               job->elsewhere ? &d->result : NULL, &other);
    }
    if (!status) {
        status = job->elsewhere ? compare_near_runs(d, &other, &error, &same)
                                : compare_runs(d, &other);
    }
    decode_result_discard(&other);
    PTO_TRY(status);
    int at = job->elsewhere
                 ? snprintf(job->verdict, sizeof job->verdict,
                            "%" PRId64 " of %" PRId64
                            " tokens equal those of the CPU, logits within %.1e (allowed %.0e)",
                            same, all, error, DECODE_ALLOWED)
                 : snprintf(job->verdict, sizeof job->verdict,
                            "%" PRId64
                            " tokens and all logits equal those of a serial loop, bit for bit",
                            all);
    if (d->compare) {
        decode_comparison c;
        PTO_TRY(decode_reference(&d->model, &d->prompts, &d->result, d->compare, &c));
        if (c.wrong[0]) {
            return pto_fail(PTO_KERNEL_FAILED, "%s", c.wrong);
        }
        (void)snprintf(job->verdict + at, sizeof job->verdict - (size_t)at,
                       "; logits of %" PRId64
                       " steps within %.1e of a reference in double (allowed %.0e)",
                       d->compare, c.error, c.allowed);
    }
    return PTO_OK;
}
