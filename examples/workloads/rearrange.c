/* rearrange.c - a batch of images from planes to channels: NCHW to NHWC, one task for each image.
 *
 *     x[image, channel, row, column]  ──permuted view──>  y[image, row, column, channel]
 *
 * Each task is the operator Rearrange (pto/rearrange.h). It copies between two views of any strides, on
 * the device where they are. So the orchestration is the same everywhere, and needs no kernel.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/execute.h>
#include <pto/op.h>
#include <pto/rearrange.h>

#include "workload.h"

/* ---- The orchestration function ------------------------------------------------------------- */

static pto_status turn(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                       void *params)
{
    workload_job *job = params;
    pto_tensor turned, from, to;
    PTO_TRY(pto_tensor_permute(&inputs[0], (const int32_t[]){0, 2, 3, 1}, &turned));
    for (int64_t i = 0; i < turned.shape[0]; i++) {
        PTO_TRY(pto_tensor_select(&turned, 0, i, &from));
        PTO_TRY(pto_tensor_select(&outputs[0], 0, i, &to));
        PTO_TRY(pto_submit_op(rt, pto_rearrange_op(), &to, 1, &from, 1, NULL, 0, NULL));
        workload_progress(job, (uint64_t)i + 1);
    }
    return PTO_OK;
}

/* ---- As a workload -------------------------------------------------------------------------- */

enum { IMAGES, CHANNELS, HEIGHT, WIDTH, DEVICE };

static const workload_option options[] = {
    [IMAGES] = {.name = "images",
                .help = "images of the batch",
                .number = 64,
                .low = 1,
                .high = INT32_MAX,
                .small = 5},
    [CHANNELS] = {.name = "channels",
                  .help = "channels of an image",
                  .number = 64,
                  .low = 1,
                  .high = INT32_MAX,
                  .small = 7},
    [HEIGHT] = {.name = "height",
                .help = "rows of an image",
                .number = 112,
                .low = 1,
                .high = INT32_MAX,
                .small = 13},
    [WIDTH] = {.name = "width",
               .help = "columns of an image",
               .number = 112,
               .low = 1,
               .high = INT32_MAX,
               .small = 12},
    [DEVICE] = {.name = "device",
                .help =
                    "where to compute: cpu:0, sim:0, nvidia:0 ... (see pto info); none: in place",
                .text = "none"},
};

typedef struct images {
    int64_t n, channels, height, width;
    float *x, *y;
    pto_tensor x_tensor, y_tensor;
    bool elsewhere; /* --device: through pto_execute */
    pto_execute_options where;
} images;

static uint64_t count(const images *g)
{
    return (uint64_t)g->n * (uint64_t)g->channels * (uint64_t)g->height * (uint64_t)g->width;
}

static pto_status restore(workload_job *job)
{
    const images *g = job->data;
    memset(g->y, 0xff, count(g) * sizeof *g->y);
    return PTO_OK;
}

static pto_status prepare(workload_job *job)
{
    images *g = calloc(1, sizeof *g);
    if (!g) {
        return pto_fail(PTO_OUT_OF_MEMORY, "rearrange: no memory");
    }
    job->data = g;
    g->n = job->number[IMAGES];
    g->channels = job->number[CHANNELS];
    g->height = job->number[HEIGHT];
    g->width = job->number[WIDTH];
    const double elements = (double)g->n * (double)g->channels * (double)g->height *
                            (double)g->width;
    if (elements > 1e15) {
        return pto_fail(PTO_TOO_LARGE, "rearrange: %g elements", elements);
    }
    g->where = (pto_execute_options){.size = sizeof g->where};
    g->elsewhere = strcmp(job->text[DEVICE], "none") != 0;
    if (g->elsewhere) {
        PTO_TRY(pto_device_parse(job->text[DEVICE], &g->where.device));
    }
    g->x = workload_alloc(count(g), sizeof *g->x);
    g->y = g->x ? workload_alloc(count(g), sizeof *g->y) : NULL;
    if (!g->y) {
        return PTO_OUT_OF_MEMORY;
    }
    workload_rng rng = workload_rng_make(job->seed, 0);
    for (uint64_t i = 0; i < count(g); i++) {
        g->x[i] = (float)(workload_random(&rng) % 16777216);
    }
    job->bytes = 2 * elements * sizeof(float);
    job->total = (uint64_t)g->n;
    /* Two tasks. The arguments of an operator are its parameters and two tensors. */
    job->tight.ring_tasks = 2;
    job->tight.arg_bytes = 2048;
    job->tight.deps = 4;
    job->tight.map_entries = 8;
    return restore(job);
}

static pto_status start(workload_job *job)
{
    images *g = job->data;
    const int64_t planes[] = {g->n, g->channels, g->height, g->width};
    const int64_t channels[] = {g->n, g->height, g->width, g->channels};
    pto_device_ops ops;
    PTO_TRY(pto_device_get(g->where.device, &ops)); /* opens it, before anything is timed */
    PTO_TRY(pto_external_tensor(job->rt, g->x, PTO_FLOAT32, 4, planes, &g->x_tensor));
    return pto_external_tensor(job->rt, g->y, PTO_FLOAT32, 4, channels, &g->y_tensor);
}

static pto_status orchestrate(workload_job *job)
{
    const images *g = job->data;
    if (g->elsewhere) {
        return pto_execute_ex(job->rt, turn, &g->x_tensor, 1, &g->y_tensor, 1, job, &g->where);
    }
    PTO_TRY(turn(job->rt, &g->x_tensor, &g->y_tensor, job));
    return pto_wait(job->rt);
}

static pto_status check(workload_job *job)
{
    const images *g = job->data;
    const int64_t plane = g->height * g->width;
    for (int64_t i = 0; i < g->n; i++) {
        for (int64_t at = 0; at < plane; at++) {
            for (int64_t c = 0; c < g->channels; c++) {
                const float got = g->y[(i * plane + at) * g->channels + c];
                const float want = g->x[(i * g->channels + c) * plane + at];
                if (!(got == want)) {
                    return pto_fail(PTO_KERNEL_FAILED,
                                    "image %" PRId64 ", pixel %" PRId64 ", channel %" PRId64
                                    " is %g, not %g",
                                    i, at, c, (double)got, (double)want);
                }
            }
        }
    }
    snprintf(job->verdict, sizeof job->verdict, "every element is where a plain loop puts it");
    return PTO_OK;
}

static void discard(workload_job *job)
{
    images *g = job->data;
    if (g) {
        workload_free(g->x);
        workload_free(g->y);
        free(g);
    }
}

const workload workload_rearrange = {
    .name = "rearrange",
    .summary = "images from planes to channels (NCHW to NHWC), one operator task per image",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .prepare = prepare,
    .start = start,
    .orchestrate = orchestrate,
    .restore = restore,
    .check = check,
    .discard = discard,
};
