/* vector.c - y = (a + b + 1) (a + b + 2) + (a + b) over a long vector that is cut into tiles.
 *
 * Each tile uses five small kernels instead of one loop, as on the vector units of an accelerator.
 * The program declares no dependencies and frees no temporaries.
 *
 *     a[tile]   b[tile]            tiles are views: they share the memory of the vector
 *           \   /
 *            sum ---------------.
 *           /   \                \
 *     sum + 1   sum + 2           |    three readers of sum; its memory is free after the last
 *           \   /                 |    of them
 *          product                |
 *               \                /
 *                y[tile] = product + sum
 *
 * With --device, pto_execute copies a and b to a device and y back, and the same program runs there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/execute.h>

#include "where.h"

/* ---- Kernels ------------------------------------------------------------------------------ */

/* Arguments arrive in the order of submission. All tensors here are dense vectors, so the kernels
 * ignore strides. A kernel for any view would use them. */

static pto_status add(const pto_call *call)
{
    const float *x = call->args[0].data, *y = call->args[1].data;
    float *sum = call->args[2].data;
    for (int64_t i = 0; i < call->args[2].shape[0]; i++) {
        sum[i] = x[i] + y[i];
    }
    return PTO_OK;
}

static pto_status add_number(const pto_call *call)
{
    const float *x = call->args[0].data;
    float *sum = call->args[1].data, number = (float)pto_arg_f64(&call->args[2]);
    for (int64_t i = 0; i < call->args[1].shape[0]; i++) {
        sum[i] = x[i] + number;
    }
    return PTO_OK;
}

static pto_status multiply(const pto_call *call)
{
    const float *x = call->args[0].data, *y = call->args[1].data;
    float *product = call->args[2].data;
    for (int64_t i = 0; i < call->args[2].shape[0]; i++) {
        product[i] = x[i] * y[i];
    }
    return PTO_OK;
}

typedef struct kernels {
    pto_kernel add, add_number, multiply;
} kernels;

/* ---- The orchestration function: the serial program ----------------------------------------- */

/* Written as if each line ran immediately. A task may not have run when pto_submit returns. */
static pto_status compute(workload_job *job, const kernels *k, const pto_tensor *a,
                          const pto_tensor *b, const pto_tensor *y, int64_t tile)
{
    pto_runtime *rt = job->rt;
    const int64_t n = a->shape[0];
    for (int64_t at = 0; at < n; at += tile) {
        const int64_t end = n - at < tile ? n : at + tile, shape[] = {end - at};
        pto_tensor a_tile, b_tile, y_tile, sum, left, right, product;
        PTO_TRY(pto_tensor_slice(a, 0, at, end, 1, &a_tile));
        PTO_TRY(pto_tensor_slice(b, 0, at, end, 1, &b_tile));
        PTO_TRY(pto_tensor_slice(y, 0, at, end, 1, &y_tile));

        /* The temporaries of a tile belong to this scope. It ends below, possibly long before the
         * tasks have run, and it does not wait: the end only says that no new task will use them.
         * Each task keeps its memory until it is done. Then the memory is recycled for later tiles.
         * So the vector may have any length. With one scope around the whole loop, the temporaries
         * of all tiles would have to fit into the ring. */
        PTO_BOUNDARY(rt) {
            /* Handles without memory. The first task that writes one allocates its memory. */
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &sum));
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &left));
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &right));
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &product));

            PTO_TRY(
                pto_submit(rt, k->add, pto_input(&a_tile), pto_input(&b_tile), pto_output(&sum)));
            PTO_TRY(
                pto_submit(rt, k->add_number, pto_input(&sum), pto_output(&left), pto_scalar(1.0)));
            PTO_TRY(pto_submit(rt, k->add_number, pto_input(&sum), pto_output(&right),
                               pto_scalar(2.0)));
            PTO_TRY(pto_submit(rt, k->multiply, pto_input(&left), pto_input(&right),
                               pto_output(&product)));
            /* y_tile is user memory and outlives the tasks. The struct itself need not: submit
             * copies it. */
            PTO_TRY(
                pto_submit(rt, k->add, pto_input(&product), pto_input(&sum), pto_output(&y_tile)));
        }
        workload_progress(job, (uint64_t)end);
    }
    return PTO_OK;
}

/* ---- As a workload -------------------------------------------------------------------------- */

enum { ELEMENTS, TILE, AHEAD, DEVICE };

static const workload_option options[] = {
    [ELEMENTS] = {.name = "elements",
                  .help = "length of the vectors",
                  .number = 4194304,
                  .low = 1,
                  .high = INT64_C(1) << 32,
                  .small = 100003},
    [TILE] = {.name = "tile",
              .help = "elements of a tile",
              .number = 16384,
              .low = 1,
              .high = INT64_C(1) << 32,
              .small = 512},
    [AHEAD] = {.name = "ahead",
               .help = "tiles whose temporaries fit into the heap at the same time",
               .number = 16,
               .low = 1,
               .high = 4096,
               .small = 16},
    [DEVICE] = WORKLOAD_DEVICE_OPTION,
};

typedef struct vector {
    int64_t n, tile;
    float *a, *b, *y;
    pto_tensor a_tensor, b_tensor, y_tensor;
    kernels kernels;
} vector;

static pto_status restore(workload_job *job)
{
    const vector *v = job->data;
    for (int64_t i = 0; i < v->n; i++) {
        v->y[i] = -1;
    }
    return PTO_OK;
}

static pto_status prepare(workload_job *job)
{
    vector *v = calloc(1, sizeof *v);
    if (!v) {
        return pto_fail(PTO_OUT_OF_MEMORY, "vector: no memory");
    }
    job->data = v;
    v->n = job->number[ELEMENTS];
    PTO_TRY(workload_device(job, job->text[DEVICE], true));
    /* A tile larger than the vector would only waste memory for temporaries. */
    v->tile = job->number[TILE] < v->n ? job->number[TILE] : v->n;
    if (!(v->a = workload_alloc((uint64_t)v->n, sizeof(float))) ||
        !(v->b = workload_alloc((uint64_t)v->n, sizeof(float))) ||
        !(v->y = workload_alloc((uint64_t)v->n, sizeof(float)))) {
        return PTO_OUT_OF_MEMORY;
    }
    /* Small integers, so that every result is exact and can be compared with ==. */
    workload_rng rng = workload_rng_make(job->seed, 0);
    for (int64_t i = 0; i < v->n; i++) {
        v->a[i] = (float)(workload_random(&rng) % 1009);
        v->b[i] = (float)(workload_random(&rng) % 997);
    }
    job->flops = 5.0 * (double)v->n;
    job->bytes = 3.0 * sizeof(float) *
                 (double)v->n; /* of a, b and y; temporaries stay in the cache */
    job->total = (uint64_t)v->n;
    /* Four temporaries per tile. A small ring stays in the cache, and limits how far submitting
     * runs ahead. */
    const uint64_t temporary = ((uint64_t)v->tile * sizeof(float) + 63) / 64 * 64;
    job->usual.heap_bytes = (uint64_t)job->number[AHEAD] * 4 * temporary;
    job->usual.device_heap_bytes = job->usual.heap_bytes;
    /* The smallest rings that work. Everything that a tile allocates stays until its scope ends:
     * five tasks with at most 96 bytes of arguments each, and four temporaries. One piece of each
     * kind may be lost at the end of its ring, because pieces are not split. (One edge and one
     * access would be enough, but then every submit would wait for the previous task.) */
    job->tight.heap_bytes = 5 * temporary;
    job->tight.ring_tasks = 5;
    job->tight.arg_bytes = UINT64_C(6) * 96;
    job->tight.deps = 4;
    job->tight.map_entries = 8;
    return restore(job);
}

static pto_status start(workload_job *job)
{
    vector *v = job->data;
    kernels *k = &v->kernels;
    PTO_TRY(pto_external_tensor(job->rt, v->a, PTO_FLOAT32, 1, &v->n, &v->a_tensor));
    PTO_TRY(pto_external_tensor(job->rt, v->b, PTO_FLOAT32, 1, &v->n, &v->b_tensor));
    PTO_TRY(pto_external_tensor(job->rt, v->y, PTO_FLOAT32, 1, &v->n, &v->y_tensor));
    PTO_TRY(workload_kernel(job, "add", PTO_VECTOR, add, &k->add));
    PTO_TRY(workload_kernel(job, "add_number", PTO_VECTOR, add_number, &k->add_number));
    return workload_kernel(job, "multiply", PTO_VECTOR, multiply, &k->multiply);
}

/* On a device. */
static pto_status compute_there(pto_runtime *rt, const pto_tensor *inputs,
                                const pto_tensor *outputs, void *params)
{
    workload_job *job = params;
    const vector *v = job->data;
    (void)rt; /* job->rt */
    return compute(job, &v->kernels, &inputs[0], &inputs[1], &outputs[0], v->tile);
}

static pto_status orchestrate(workload_job *job)
{
    const vector *v = job->data;
    if (job->elsewhere) {
        const pto_tensor inputs[] = {v->a_tensor, v->b_tensor};
        const pto_execute_options where = {.size = sizeof where, .device = job->device};
        return pto_execute_ex(job->rt, compute_there, inputs, 2, &v->y_tensor, 1, job, &where);
    }
    PTO_TRY(compute(job, &v->kernels, &v->a_tensor, &v->b_tensor, &v->y_tensor, v->tile));
    return pto_wait(job->rt); /* until then y may be incomplete */
}

static pto_status check(workload_job *job)
{
    const vector *v = job->data;
    for (int64_t i = 0; i < v->n; i++) {
        const float sum = v->a[i] + v->b[i], want = (sum + 1) * (sum + 2) + sum;
        if (v->y[i] != want) {
            return pto_fail(PTO_KERNEL_FAILED, "element %" PRId64 " is %g, not %g", i,
                            (double)v->y[i], (double)want);
        }
    }
    snprintf(job->verdict, sizeof job->verdict, "every element equals that of a serial loop");
    return PTO_OK;
}

static void discard(workload_job *job)
{
    vector *v = job->data;
    if (v) {
        workload_free(v->a);
        workload_free(v->b);
        workload_free(v->y);
        free(v);
    }
}

const workload workload_vector = {
    .name = "vector",
    .summary = "(a + b + 1)(a + b + 2) + (a + b) over a long vector, five small tasks per tile",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .prepare = prepare,
    .start = start,
    .orchestrate = orchestrate,
    .restore = restore,
    .check = check,
    .discard = discard,
};
