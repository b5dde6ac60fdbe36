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
 *     mix         1                              x + all parts
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
 * What nobody writes is one tensor, the image (decode_pack.h).
 *
 * Here are the kernels for a simulated device and the run. decode_cut.c decides how a step is cut, decode_step.c submits
 * its tasks, and decode_block.h has the kernels as C and as CUDA.
 */
#include <string.h>

#include <pto/execute.h>

#include "decode_step.h"
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

pto_status decode_block_start(decode *d)
{
    decode_stages *k = &d->block->k;
#define KERNEL(name, type) PTO_TRY(workload_kernel(d->job, #name, type, kernel_##name, &k->name));
    DECODE_BLOCK_KERNELS(KERNEL)
#undef KERNEL
    return PTO_OK;
}

/* ---- The run ---------------------------------------------------------------------------------------- */

/* Reads the tokens of a step, as a program would that shows them. */
static pto_status show(decode *d, int64_t step)
{
    const decode_sizes *z = &d->model.sizes;
    pto_tensor tokens;
    PTO_TRY(decode_item(&d->block->t_tokens, step, &tokens));
    return pto_read(d->rt, &tokens, d->result.tokens + step * z->batch,
                    (uint64_t)z->batch * sizeof *d->result.tokens);
}

static pto_status run_passes(decode *d)
{
    struct decode_block *b = d->block;
    const decode_sizes *z = &d->model.sizes;
    PTO_TRY(decode_step_place(d));
    PTO_TRY(pto_wait(d->rt)); /* for the copies, so that they are not part of the time */
    double start = decode_seconds();
    d->submitting = 0;
    for (int64_t pass = 0; pass < b->passes; pass++) {
        const double before = decode_seconds();
        PTO_TRY(decode_step_submit(d, pass));
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
                const int64_t position = pass - decode_begins(d, b),
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
