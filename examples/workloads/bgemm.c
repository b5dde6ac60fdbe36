/* bgemm.c - C = A B for a batch of matrices, tile by tile, with two tasks per product.
 *
 *     for each matrix of the batch, each tile [i, j] of its C, each p
 *         gemm   P = A[i, p] B[p, j]        on a matrix unit, into a temporary
 *         add    C[i, j] += P               on a vector unit
 *
 * This is the scheme for hardware whose matrix unit cannot add to memory. All products may run in
 * parallel. The additions to one tile of C run one after the other, because each reads the result
 * of the previous one.
 *
 * The matrices of the batch are stacked, so that A, B and C are one matrix each and a tile is a
 * view of it.
 *
 * Without --device the tasks work on the matrices where they are. With it, pto_execute runs the same
 * orchestration on a device: it copies A and B there, out of the wider rows that they have on the
 * host, and C back. --orchestrator says which thread submits.
 */
#include <stdlib.h>
#include <string.h>

#include <pto/execute.h>
#include <pto/work.h>

#include "blas.h"
#include "matrix.h"
#include "where.h"

/* ---- Kernels ------------------------------------------------------------------------------ */

static pto_status gemm(const pto_call *call)
{
    const matrix_arg a = matrix_of(call, 0), b = matrix_of(call, 1), p = matrix_of(call, 2);
    blas_dgemm(false, p.rows, p.columns, a.columns, 1, a.data, a.ld, b.data, b.ld, 0, p.data, p.ld);
    return PTO_OK;
}

static pto_status add(const pto_call *call)
{
    const matrix_arg p = matrix_of(call, 0), c = matrix_of(call, 1);
    for (int64_t i = 0; i < c.rows; i++) {
        const double *restrict from = p.data + i * p.ld;
        double *restrict to = c.data + i * c.ld;
        for (int64_t j = 0; j < c.columns; j++) {
            to[j] += from[j];
        }
    }
    return PTO_OK;
}

typedef struct kernels {
    pto_kernel gemm, add;
} kernels;

typedef struct sizes {
    int64_t batch, m, n, k, tile;
} sizes;

/* ---- The orchestration function: the serial program ----------------------------------------- */

/* The k products for one tile of C. */
static pto_status multiply(const workload_job *job, const kernels *kernel, const sizes *s,
                           const pto_tensor *a, const pto_tensor *b, const pto_tensor *c, int64_t i,
                           int64_t j)
{
    pto_tensor a_tile, b_tile, c_tile, p;
    PTO_TRY(matrix_tile(c, s->tile, i, j, &c_tile));
    for (int64_t q = 0; q < matrix_tiles(s->k, s->tile); q++) {
        PTO_TRY(matrix_tile(a, s->tile, i, q, &a_tile));
        PTO_TRY(matrix_tile(b, s->tile, q, j, &b_tile));
        /* P lives only in this scope. The scope may end before the tasks have run, and the memory
         * is recycled when the addition is done. So the memory is bounded by the ring, however many
         * products there are: when the ring is full, submit waits for room. */
        PTO_BOUNDARY(job->rt) {
            PTO_TRY(workload_temp(job, PTO_FLOAT64, 2, c_tile.shape, &p));
            PTO_TRY(workload_submit(job, kernel->gemm, pto_input(&a_tile), pto_input(&b_tile),
                                    pto_output(&p)));
            PTO_TRY(workload_submit(job, kernel->add, pto_input(&p), pto_inout(&c_tile)));
        }
    }
    return PTO_OK;
}

static pto_status multiply_all(workload_job *job, const kernels *kernel, const sizes *s,
                               const pto_tensor *all_a, const pto_tensor *all_b,
                               const pto_tensor *all_c)
{
    uint64_t done = 0;
    for (int64_t l = 0; l < s->batch; l++) {
        pto_tensor a, b, c;
        PTO_TRY(pto_tensor_slice(all_a, 0, l * s->m, (l + 1) * s->m, 1, &a));
        PTO_TRY(pto_tensor_slice(all_b, 0, l * s->k, (l + 1) * s->k, 1, &b));
        PTO_TRY(pto_tensor_slice(all_c, 0, l * s->m, (l + 1) * s->m, 1, &c));
        for (int64_t i = 0; i < matrix_tiles(s->m, s->tile); i++) {
            for (int64_t j = 0; j < matrix_tiles(s->n, s->tile); j++) {
                PTO_TRY(multiply(job, kernel, s, &a, &b, &c, i, j));
                workload_progress(job, ++done);
            }
        }
    }
    return PTO_OK;
}

/* ---- As a workload -------------------------------------------------------------------------- */

enum { BATCH, M, N, K, TILE, DEVICE, ORCHESTRATOR };

static const workload_option options[] = {
    [BATCH] = {.name = "batch",
               .help = "number of matrix products",
               .number = 4,
               .low = 1,
               .high = INT32_MAX,
               .small = 3},
    [M] = {.name = "m",
           .help = "rows of A and C",
           .number = 1536,
           .low = 1,
           .high = INT32_MAX,
           .small = 150},
    [N] = {.name = "n",
           .help = "columns of B and C",
           .number = 1536,
           .low = 1,
           .high = INT32_MAX,
           .small = 130},
    [K] = {.name = "k",
           .help = "columns of A and rows of B",
           .number = 1536,
           .low = 1,
           .high = INT32_MAX,
           .small = 170},
    [TILE] = {.name = "tile",
              .help = "rows and columns of a tile; need not divide anything",
              .number = 128,
              .low = 1,
              .high = INT32_MAX,
              .small = 32},
    [DEVICE] = WORKLOAD_DEVICE_OPTION,
    [ORCHESTRATOR] = {.name = "orchestrator",
                      .help = "with --device: the thread that submits, caller or thread",
                      .text = "caller"},
};

typedef struct bgemm {
    sizes s;
    double *a, *b, *c;
    pto_tensor a_tensor, b_tensor, c_tensor;
    kernels kernels;
    const char *blas;
    pto_execute_options where;
    double *wide_a, *wide_b; /* the same matrices with wider rows */
} bgemm;

enum { WIDER = 24 }; /* columns more in each row of the host's matrices, with --device */

static uint64_t area(int64_t batch, int64_t rows, int64_t columns)
{
    return (uint64_t)batch * (uint64_t)rows * (uint64_t)columns;
}

static pto_status restore(workload_job *job)
{
    const bgemm *g = job->data;
    memset(g->c, 0, area(g->s.batch, g->s.m, g->s.n) * sizeof(double));
    return PTO_OK;
}

static pto_status check_sizes(const sizes *s)
{
    const int64_t least = s->m < s->n ? (s->m < s->k ? s->m : s->k) : (s->n < s->k ? s->n : s->k);
    if (s->tile > least) {
        return pto_fail(PTO_BAD_SHAPE,
                        "a tile of %" PRId64 " is larger than matrices of %" PRId64 " x %" PRId64
                        " and %" PRId64 " x %" PRId64,
                        s->tile, s->m, s->k, s->k, s->n);
    }
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k;
    return matrix_fits("A, B, C and, for the check, one more matrix",
                       (double)s->batch * (m * k + k * n + m * n) + m * n);
}

/* Integers from -512 to 512: sums of up to 2^33 of their products are exact in any order, so
 * results can be compared with ==. */
static void fill(workload_rng rng, double *matrix, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        matrix[i] = (double)(int64_t)(workload_random(&rng) % 1025) - 512;
    }
}

/* Reads --device and --orchestrator. */
static pto_status choose_place(workload_job *job, bgemm *g)
{
    const char *orchestrator = job->text[ORCHESTRATOR];
    g->where = (pto_execute_options){.size = sizeof g->where};
    PTO_TRY(workload_device(job, job->text[DEVICE], true));
    g->where.device = job->device;
    if (!strcmp(orchestrator, "thread")) {
        g->where.orchestrator = PTO_ON_THREAD;
    } else if (strcmp(orchestrator, "caller") != 0) {
        return pto_fail(PTO_BAD_PARAM, "--orchestrator %s: it is caller or thread", orchestrator);
    }
    return PTO_OK;
}

/* A copy of a matrix whose rows lie further apart. */
static double *widen(const double *from, int64_t rows, int64_t columns)
{
    const int64_t step = columns + WIDER;
    double *to = workload_alloc((uint64_t)rows * (uint64_t)step, sizeof *to);
    for (int64_t i = 0; to && i < rows; i++) {
        memcpy(to + i * step, from + i * columns, (size_t)columns * sizeof *to);
    }
    return to;
}

static pto_status wide_tensor(double *data, int64_t rows, int64_t columns, pto_tensor *t)
{
    const int64_t step = columns + WIDER;
    return pto_tensor_init(t, data, (uint64_t)(rows * step) * sizeof *data, PTO_FLOAT64, 2,
                           (int64_t[]){rows, columns}, (int64_t[]){step, 1}, 0);
}

static pto_status prepare(workload_job *job)
{
    const sizes s = {job->number[BATCH], job->number[M], job->number[N], job->number[K],
                     job->number[TILE]};
    PTO_TRY(check_sizes(&s));
    bgemm *g = calloc(1, sizeof *g);
    if (!g) {
        return pto_fail(PTO_OUT_OF_MEMORY, "bgemm: no memory");
    }
    job->data = g;
    g->s = s;
    g->a = workload_alloc(area(s.batch, s.m, s.k), sizeof(double));
    g->b = g->a ? workload_alloc(area(s.batch, s.k, s.n), sizeof(double)) : NULL;
    g->c = g->b ? workload_alloc(area(s.batch, s.m, s.n), sizeof(double)) : NULL;
    if (!g->c) {
        return PTO_OUT_OF_MEMORY;
    }
    fill(workload_rng_make(job->seed, 0), g->a, area(s.batch, s.m, s.k));
    fill(workload_rng_make(job->seed, 1), g->b, area(s.batch, s.k, s.n));
    g->blas = blas_start();
    PTO_TRY(choose_place(job, g));
    if (job->elsewhere) {
        g->wide_a = widen(g->a, s.batch * s.m, s.k);
        g->wide_b = g->wide_a ? widen(g->b, s.batch * s.k, s.n) : NULL;
        if (!g->wide_b) {
            return PTO_OUT_OF_MEMORY;
        }
    }

    /* The product of a tile has one addition less than multiplications; the addition to C makes up
     * for it. */
    job->flops = 2.0 * (double)s.batch * (double)s.m * (double)s.n * (double)s.k;
    job->total = (uint64_t)(s.batch * matrix_tiles(s.m, s.tile) * matrix_tiles(s.n, s.tile));

    /* A product is added soon after it is computed, from the cache if the ring fits into it. With
     * small tiles, a megabyte holds enough of them. */
    const uint64_t p = ((uint64_t)s.tile * (uint64_t)s.tile * sizeof(double) + 63) / 64 * 64;
    job->usual.heap_bytes = 8 * p > 1 << 20 ? 8 * p : 1 << 20;
    job->usual.device_heap_bytes = 8 * job->usual.heap_bytes;
    /* Two products and their additions. One pair would be enough, but no less: the scope that is
     * open while the second task is submitted holds both. Their arguments are five tensors of 48
     * bytes. */
    job->tight.heap_bytes = 2 * p;
    job->tight.ring_tasks = 4;
    job->tight.arg_bytes = UINT64_C(2) * 5 * 48;
    job->tight.deps = 4;
    job->tight.map_entries = 16;
    return PTO_OK;
}

static pto_status start(workload_job *job)
{
    bgemm *g = job->data;
    const sizes *s = &g->s;
    workload_say(job, "BLAS      %s", g->blas);
    const int64_t tile[] = {s->tile, s->tile};
    PTO_TRY(workload_tensor(job, g->a, PTO_FLOAT64, 2, (int64_t[]){s->batch * s->m, s->k}, tile,
                            &g->a_tensor));
    PTO_TRY(workload_tensor(job, g->b, PTO_FLOAT64, 2, (int64_t[]){s->batch * s->k, s->n}, tile,
                            &g->b_tensor));
    PTO_TRY(workload_tensor(job, g->c, PTO_FLOAT64, 2, (int64_t[]){s->batch * s->m, s->n}, tile,
                            &g->c_tensor));
    if (job->elsewhere && job->mpi) {
        return pto_fail(PTO_BAD_PARAM, "--device and --mpi exclude each other");
    }
    PTO_TRY(workload_kernel(job, "gemm", PTO_CUBE, gemm, &g->kernels.gemm));
    PTO_TRY(workload_kernel(job, "add", PTO_VECTOR, add, &g->kernels.add));
    if (job->elsewhere) {
        PTO_TRY(wide_tensor(g->wide_a, s->batch * s->m, s->k, &g->a_tensor));
        PTO_TRY(wide_tensor(g->wide_b, s->batch * s->k, s->n, &g->b_tensor));
    }
    return PTO_OK;
}

/* On a device. The tensors are there, and dense. */
static pto_status multiply_there(pto_runtime *rt, const pto_tensor *inputs,
                                 const pto_tensor *outputs, void *params)
{
    workload_job *job = params;
    const bgemm *g = job->data;
    const pto_work zero = {.opcode = PTO_WORK_FILL, .outputs = outputs, .n_outputs = 1};
    PTO_TRY(pto_submit_work(rt, &zero, NULL)); /* by the engine of the device */
    return multiply_all(job, &g->kernels, &g->s, &inputs[0], &inputs[1], &outputs[0]);
}

static pto_status orchestrate(workload_job *job)
{
    const bgemm *g = job->data;
    if (job->elsewhere) {
        const pto_tensor inputs[] = {g->a_tensor, g->b_tensor};
        return pto_execute_ex(job->rt, multiply_there, inputs, 2, &g->c_tensor, 1, job, &g->where);
    }
    PTO_TRY(multiply_all(job, &g->kernels, &g->s, &g->a_tensor, &g->b_tensor, &g->c_tensor));
    return workload_wait(job);
}

/* Computes each product again, as a whole, with the library. All numbers are small integers and
 * every sum is exact, so there is no tolerance: a lost or repeated product is detected. */
static pto_status check(workload_job *job)
{
    const bgemm *g = job->data;
    const sizes *s = &g->s;
    PTO_TRY(workload_get(job, &g->c_tensor, g->c));
    if (!workload_is_root(job)) {
        return PTO_OK;
    }
    double *want = workload_alloc(area(1, s->m, s->n), sizeof(double));
    if (!want) {
        return PTO_OUT_OF_MEMORY;
    }
    pto_status status = PTO_OK;
    for (int64_t l = 0; l < s->batch && status == PTO_OK; l++) {
        const double *c = g->c + area(l, s->m, s->n);
        blas_dgemm(false, s->m, s->n, s->k, 1, g->a + area(l, s->m, s->k), s->k,
                   g->b + area(l, s->k, s->n), s->n, 0, want, s->n);
        for (int64_t i = 0; i < s->m * s->n && status == PTO_OK; i++) {
            if (!(c[i] == want[i])) {
                status = pto_fail(PTO_KERNEL_FAILED,
                                  "C[%" PRId64 "][%" PRId64 ", %" PRId64 "] is %.17g, not %.17g", l,
                                  i / s->n, i % s->n, c[i], want[i]);
            }
        }
    }
    workload_free(want);
    snprintf(job->verdict, sizeof job->verdict,
             "every element equals that of one whole product (sums are exact)");
    return status;
}

static void discard(workload_job *job)
{
    bgemm *g = job->data;
    if (g) {
        workload_free(g->a);
        workload_free(g->b);
        workload_free(g->c);
        workload_free(g->wide_a);
        workload_free(g->wide_b);
        free(g);
    }
}

const workload workload_bgemm = {
    .name = "bgemm",
    .summary = "C = A B for a batch of matrices: one product and one addition per tile (float64)",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .prepare = prepare,
    .start = start,
    .orchestrate = orchestrate,
    .restore = restore,
    .check = check,
    .discard = discard,
    .mpi = true,
};
