/* reduce.c - sum and maximum of a long vector, by a recursive tree.
 *
 * The orchestration is a recursive C function. A node of the tree cuts its piece of the vector into
 * `fan` parts, calls itself for each, and joins the results. Temporaries live in the scope of their
 * node, and the memory of a subtree is reused by the next one.
 *
 *                    node  [sum, max] of all           reads all of its parts
 *                   / | \
 *     parts:      row row row   ...                    one [sum, max] for each child, which
 *                 /   |    \                           writes its row: a view
 *             node  node   node
 *             /|\   /|\    /|\
 *           leaves: tasks that read the vector itself
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "workload.h"

/* ---- Kernels ------------------------------------------------------------------------------- */

enum { LANES = 8 }; /* independent partial sums, so that additions need not wait for each other */

/* args[0]: a dense piece of the vector; args[1]: [sum, max], both float64 */
static pto_status scan(const pto_call *call)
{
    const float *x = call->args[0].data;
    const int64_t n = call->args[0].shape[0];
    double *out = call->args[1].data;
    double sum[LANES] = {0};
    float most[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        most[lane] = x[0];
    }
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            sum[lane] += (double)x[i + lane];
            most[lane] = x[i + lane] > most[lane] ? x[i + lane] : most[lane];
        }
    }
    for (; i < n; i++) {
        sum[0] += (double)x[i];
        most[0] = x[i] > most[0] ? x[i] : most[0];
    }
    out[0] = 0;
    out[1] = (double)most[0];
    for (int lane = 0; lane < LANES; lane++) {
        out[0] += sum[lane];
        out[1] = (double)most[lane] > out[1] ? (double)most[lane] : out[1];
    }
    return PTO_OK;
}

/* args[0]: rows of [sum, max]; args[1]: [sum, max] of all rows */
static pto_status join(const pto_call *call)
{
    const double *parts = call->args[0].data;
    double *out = call->args[1].data;
    out[0] = parts[0];
    out[1] = parts[1];
    for (int64_t i = 1; i < call->args[0].shape[0]; i++) {
        out[0] += parts[2 * i];
        out[1] = parts[2 * i + 1] > out[1] ? parts[2 * i + 1] : out[1];
    }
    return PTO_OK;
}

/* ---- The orchestration ---------------------------------------------------------------------- */

typedef struct reduce {
    int64_t n, leaf, fan;
    float *x;
    double result[2];
    uint64_t done; /* elements submitted so far */
    pto_tensor x_tensor, result_tensor;
    pto_kernel scan, join;
} reduce;

static pto_status reduce_piece(workload_job *job, const pto_tensor *x, const pto_tensor *out)
{
    reduce *r = job->data;
    pto_runtime *rt = job->rt;
    const int64_t n = x->shape[0];
    if (n <= r->leaf) {
        r->done += (uint64_t)n;
        workload_progress(job, r->done);
        return pto_submit(rt, r->scan, pto_input(x), pto_output(out));
    }
    /* Each node has its own lifetime: when its scope ends, no outer scope holds `parts`. The
     * subtrees below use the rings of further levels. `out` belongs to the parent node or to the
     * user; writing a view of it from here is allowed. */
    PTO_BOUNDARY(rt) {
        pto_tensor parts;
        /* Allocate immediately, because the children write it in parts. */
        PTO_TRY(pto_alloc(rt, PTO_FLOAT64, 2, (int64_t[]){r->fan, 2}, &parts));
        for (int64_t i = 0; i < r->fan; i++) {
            pto_tensor piece, part;
            PTO_TRY(pto_tensor_slice(x, 0, n * i / r->fan, n * (i + 1) / r->fan, 1, &piece));
            PTO_TRY(pto_tensor_view(&parts, (int64_t[]){i, 0}, (int64_t[]){1, 2}, &part));
            PTO_TRY(reduce_piece(job, &piece, &part));
        }
        /* Waits for all children, because it reads what each of them writes. */
        PTO_TRY(pto_submit(rt, r->join, pto_input(&parts), pto_output(out)));
    }
    return PTO_OK;
}

static pto_status orchestrate(workload_job *job)
{
    reduce *r = job->data;
    r->done = 0;
    PTO_TRY(reduce_piece(job, &r->x_tensor, &r->result_tensor));
    return pto_wait(job->rt);
}

/* ---- As a workload -------------------------------------------------------------------------- */

enum { ELEMENTS, LEAF, FAN };

static const workload_option options[] = {
    [ELEMENTS] = {.name = "elements",
                  .help = "length of the vector",
                  .number = 33554432,
                  .low = 1,
                  .high = INT64_C(1) << 34,
                  .small = 50021},
    [LEAF] = {.name = "leaf",
              .help = "largest number of elements that one task reads",
              .number = 16384,
              .low = 1,
              .high = INT64_C(1) << 34,
              .small = 100},
    [FAN] = {.name = "fan",
             .help = "children of a node",
             .number = 8,
             .low = 2,
             .high = 64,
             .small = 3},
};

/* The number of nodes above a leaf. */
static uint32_t depth_of(int64_t n, int64_t leaf, int64_t fan)
{
    uint32_t depth = 0;
    for (; n > leaf; depth++) {
        n = (n + fan - 1) / fan;
    }
    return depth;
}

static uint32_t levels_of(uint32_t depth)
{
    return depth + 1 < PTO_MAX_LEVELS ? depth + 1 : PTO_MAX_LEVELS;
}

/* If there are too few levels, subtrees share the last ring. It must then hold a whole subtree,
 * because the scope of the subtree's root holds all its nodes. Returns the number of these nodes.
 * Each has its memory, its children if they are leaves, and its join. They all stay until the scope
 * ends. */
static uint64_t nodes_of_last_level(const reduce *r)
{
    const uint32_t depth = depth_of(r->n, r->leaf, r->fan);
    uint64_t nodes = 1;
    for (uint32_t d = levels_of(depth); d <= depth && nodes < UINT32_MAX; d++) {
        nodes = nodes * (uint64_t)r->fan + 1;
    }
    return nodes;
}

static void set_rings(workload_job *job, const reduce *r)
{
    enum { USUAL = 1024, ARGUMENTS = 96 }; /* bytes per task */
    pto_config *usual = &job->usual, *tight = &job->tight;
    const uint32_t levels = levels_of(depth_of(r->n, r->leaf, r->fan));
    const uint32_t fan = (uint32_t)r->fan, nodes = (uint32_t)nodes_of_last_level(r);
    const uint32_t tasks = nodes * (fan + 2);
    const uint64_t bytes = ((uint64_t)fan * 16 + 63) / 64 * 64;
    usual->levels = levels;
    usual->ring_tasks = tasks > USUAL ? tasks : 0;
    /* The arguments of one task may be lost at the end of their ring, because pieces are not split.
     * (One edge and one access would be enough, but then every submit would wait for the previous
     * task.) */
    tight->levels = levels;
    tight->ring_tasks = fan + 2;
    tight->heap_bytes = bytes;
    tight->arg_bytes = ARGUMENTS * ((uint64_t)fan + 3);
    tight->level_ring_tasks[levels - 1] = tasks;
    tight->level_heap_bytes[levels - 1] = bytes * nodes;
    tight->level_arg_bytes[levels - 1] = ARGUMENTS * ((uint64_t)tasks + 1);
    tight->deps = fan;
    tight->map_entries = 2 * fan;
}

static pto_status prepare(workload_job *job)
{
    reduce *r = calloc(1, sizeof *r);
    if (!r) {
        return pto_fail(PTO_OUT_OF_MEMORY, "reduce: no memory");
    }
    job->data = r;
    r->n = job->number[ELEMENTS];
    r->leaf = job->number[LEAF];
    r->fan = job->number[FAN];
    if (r->leaf < r->fan && r->n > r->leaf) {
        return pto_fail(PTO_BAD_SHAPE,
                        "reduce: a node of fewer than %" PRId64 " elements has no %" PRId64
                        " children: leaf %" PRId64 " must not be below fan",
                        r->fan, r->fan, r->leaf);
    }
    if (nodes_of_last_level(r) * (uint64_t)(r->fan + 2) > 1 << 22) {
        return pto_fail(PTO_TOO_LARGE,
                        "reduce: %d ring levels are not enough for %" PRIu32
                        " levels of nodes, the last would have to hold more than %d tasks: raise "
                        "leaf or fan",
                        PTO_MAX_LEVELS, depth_of(r->n, r->leaf, r->fan), 1 << 22);
    }
    if (!(r->x = workload_alloc((uint64_t)r->n, sizeof *r->x))) {
        return PTO_OUT_OF_MEMORY;
    }
    workload_rng rng = workload_rng_make(job->seed, 0);
    for (int64_t i = 0; i < r->n; i++) {
        r->x[i] = (float)(2 * workload_uniform(&rng) - 1);
    }
    job->flops = 2.0 * (double)r->n;
    job->bytes = sizeof(float) * (double)r->n;
    job->total = (uint64_t)r->n;
    set_rings(job, r);
    return PTO_OK;
}

static pto_status start(workload_job *job)
{
    reduce *r = job->data;
    PTO_TRY(pto_external_tensor(job->rt, r->x, PTO_FLOAT32, 1, &r->n, &r->x_tensor));
    PTO_TRY(pto_external_tensor(job->rt, r->result, PTO_FLOAT64, 2, (int64_t[]){1, 2},
                                &r->result_tensor));
    PTO_TRY(pto_kernel_register(job->rt, "scan", PTO_VECTOR, scan, NULL, &r->scan));
    return pto_kernel_register(job->rt, "join", PTO_VECTOR, join, NULL, &r->join);
}

static pto_status restore(workload_job *job)
{
    reduce *r = job->data;
    r->result[0] = r->result[1] = NAN;
    return PTO_OK;
}

/* Compares with a compensated sum, which is exact to the last bit or two. Our sum adds a leaf in
 * lanes and then goes up the tree. Each element takes part in at most `additions` additions, and
 * each of these is off by at most half an epsilon of its result. So the error is bounded by that
 * many epsilons of the sum of magnitudes. */
static pto_status check(workload_job *job)
{
    const reduce *r = job->data;
    double sum = 0, lost = 0, magnitudes = 0;
    float most = r->x[0];
    for (int64_t i = 0; i < r->n; i++) {
        const double x = (double)r->x[i], next = sum + x;
        lost += fabs(sum) >= fabs(x) ? (sum - next) + x : (x - next) + sum;
        sum = next;
        magnitudes += fabs(x);
        most = r->x[i] > most ? r->x[i] : most;
    }
    sum += lost;
    const double leaf = (double)(r->leaf < r->n ? r->leaf : r->n);
    const double additions = leaf / LANES + 2 * LANES +
                             (double)depth_of(r->n, r->leaf, r->fan) * (double)r->fan;
    const double allowed = additions * DBL_EPSILON * magnitudes;
    const double error = fabs(r->result[0] - sum);
    if (!(error <= allowed)) {
        return pto_fail(PTO_KERNEL_FAILED,
                        "the sum is %.17g, not %.17g: off by %.2g (allowed %.2g)", r->result[0],
                        sum, error, allowed);
    }
    if (r->result[1] != (double)most) {
        return pto_fail(PTO_KERNEL_FAILED, "the maximum is %.9g, not %.9g", r->result[1],
                        (double)most);
    }
    snprintf(job->verdict, sizeof job->verdict,
             "sum %.9g, off by %.2g (allowed %.2g); maximum %.9g, exact", r->result[0], error,
             allowed, r->result[1]);
    return PTO_OK;
}

static void discard(workload_job *job)
{
    reduce *r = job->data;
    if (r) {
        workload_free(r->x);
        free(r);
    }
}

const workload workload_reduce = {
    .name = "reduce",
    .summary = "sum and maximum of a long vector, by a recursive tree",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .prepare = prepare,
    .start = start,
    .orchestrate = orchestrate,
    .restore = restore,
    .check = check,
    .discard = discard,
};
