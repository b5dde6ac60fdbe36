/* cholesky.c - A = L L' of one symmetric matrix, tile by tile, in place.
 *
 *     for each k           potrf   L[k,k] from A[k,k]
 *       for i > k          trsm    L[i,k] from A[i,k], L[k,k]       the column below
 *       for i > k          syrk    A[i,i] -= L[i,k] L[i,k]'
 *       for i > j > k      gemm    A[i,j] -= L[i,k] L[j,k]'
 *
 * Tiles are views of ONE row-major matrix. The rows of neighbouring tiles are interleaved in
 * memory, and their address ranges overlap. The runtime finds out that they share no byte. So no
 * copies into tiles are needed, neither before nor after, and the matrix may itself be a part of a
 * larger one.
 *
 * Only the lower triangle is stored, read and written. The upper triangle is filled with NaN, and
 * must be unchanged at the end.
 *
 * With --device, pto_execute copies the matrix to a device and back, and the same program runs there.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pto/execute.h>
#include <pto/work.h>

#include "blas.h"
#include "matrix.h"
#include "where.h"

/* ---- Kernels ------------------------------------------------------------------------------ */

static pto_status potrf(const pto_call *call)
{
    const matrix_arg a = matrix_of(call, 0);
    const int64_t bad = blas_dpotrf(a.rows, a.data, a.ld);
    if (bad) {
        return pto_fail(PTO_KERNEL_FAILED,
                        "row %" PRId64 ": the pivot is not positive, so the matrix is not positive "
                        "definite",
                        pto_arg_i64(&call->args[1]) + bad - 1);
    }
    return PTO_OK;
}

static pto_status trsm(const pto_call *call)
{
    const matrix_arg l = matrix_of(call, 0), a = matrix_of(call, 1);
    blas_dtrsm_right(a.rows, a.columns, l.data, l.ld, a.data, a.ld);
    return PTO_OK;
}

static pto_status syrk(const pto_call *call)
{
    const matrix_arg l = matrix_of(call, 0), a = matrix_of(call, 1);
    blas_dsyrk(a.rows, l.columns, l.data, l.ld, a.data, a.ld);
    return PTO_OK;
}

static pto_status gemm(const pto_call *call)
{
    const matrix_arg l = matrix_of(call, 0), r = matrix_of(call, 1), a = matrix_of(call, 2);
    blas_dgemm(true, a.rows, a.columns, l.columns, -1, l.data, l.ld, r.data, r.ld, 1, a.data, a.ld);
    return PTO_OK;
}

typedef struct kernels {
    pto_kernel potrf, trsm, syrk, gemm;
} kernels;

/* ---- The orchestration function: the serial program ----------------------------------------- */

static pto_status factor(workload_job *job, const kernels *kernel, const pto_tensor *a,
                         int64_t tile)
{
    const int64_t tiles = matrix_tiles(a->shape[0], tile);
    pto_tensor kk, ik, jk, ii, ij, row, column;
    uint64_t tasks = 0;
    for (int64_t k = 0; k < tiles; k++) {
        PTO_TRY(matrix_tile(a, tile, k, k, &kk));
        PTO_TRY(workload_submit(job, kernel->potrf, pto_inout(&kk), pto_scalar(k * tile)));
        for (int64_t i = k + 1; i < tiles; i++) {
            PTO_TRY(matrix_tile(a, tile, i, k, &ik));
            PTO_TRY(workload_submit(job, kernel->trsm, pto_input(&kk), pto_inout(&ik)));
            if (job->mpi) { /* it updates row i and column i: its owner need not send it to each of them */
                PTO_TRY(pto_tensor_slice(a, 0, i * tile, i * tile + ik.shape[0], 1, &row));
                PTO_TRY(pto_tensor_slice(&row, 1, (k + 1) * tile, i * tile + ik.shape[0], 1, &row));
                PTO_TRY(pto_tensor_slice(a, 0, i * tile, a->shape[0], 1, &column));
                PTO_TRY(pto_tensor_slice(&column, 1, i * tile, i * tile + ik.shape[0], 1, &column));
                const pto_param readers[] = {pto_input(&row), pto_input(&column)};
                PTO_TRY(job->mpi->broadcast(job->rt, &ik, readers, 2, __FILE__, __LINE__));
            }
        }
        tasks += (uint64_t)(tiles - k);
        for (int64_t i = k + 1; i < tiles; i++) {
            PTO_TRY(matrix_tile(a, tile, i, k, &ik));
            for (int64_t j = k + 1; j < i; j++) {
                PTO_TRY(matrix_tile(a, tile, j, k, &jk));
                PTO_TRY(matrix_tile(a, tile, i, j, &ij));
                PTO_TRY(workload_submit(job, kernel->gemm, pto_input(&ik), pto_input(&jk),
                                        pto_inout(&ij)));
            }
            PTO_TRY(matrix_tile(a, tile, i, i, &ii));
            PTO_TRY(workload_submit(job, kernel->syrk, pto_input(&ik), pto_inout(&ii)));
            tasks += (uint64_t)(i - k);
            workload_progress(job, tasks);
        }
    }
    return PTO_OK;
}

/* ---- As a workload -------------------------------------------------------------------------- */

enum { N, TILE, BREAK, DEVICE };

static const workload_option options[] = {
    [N] = {.name = "n",
           .help = "rows and columns of the matrix",
           .number = 4096,
           .low = 1,
           .high = INT32_MAX,
           .small = 300},
    [TILE] = {.name = "tile",
              .help = "rows and columns of a tile; need not divide n",
              .number = 256,
              .low = 1,
              .high = INT32_MAX,
              .small = 32,
              .gpu = 128},
    [BREAK] = {.name = "break",
               .help = "row that makes the matrix not positive definite; -1: none",
               .number = -1,
               .low = -1,
               .high = INT32_MAX,
               .small = -1},
    [DEVICE] = WORKLOAD_DEVICE_OPTION,
};

typedef struct cholesky {
    int64_t n, tile;
    double *a;
    pto_tensor tensor;
    kernels kernels;
    const char *blas;
} cholesky;

/* Numbers from -1/2 to 1/2, plus n on the diagonal. The matrix is diagonally dominant and so
 * positive definite. Its condition number is close to 1, so that errors cannot hide. */
static void fill(const workload_job *job, double *a, int64_t n)
{
    workload_rng rng = workload_rng_make(job->seed, 0);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            a[i * n + j] = j > i ? (double)NAN : workload_uniform(&rng) - 0.5;
        }
        a[i * n + i] += i == job->number[BREAK] ? -(double)n : (double)n;
    }
}

static pto_status restore(workload_job *job)
{
    const cholesky *c = job->data;
    fill(job, c->a, c->n);
    return job->rt ? workload_put(job, &c->tensor, c->a) : PTO_OK;
}

static pto_status prepare(workload_job *job)
{
    const int64_t n = job->number[N], tile = job->number[TILE];
    if (tile > n) {
        return pto_fail(PTO_BAD_SHAPE,
                        "a tile of %" PRId64 " rows is larger than the matrix of %" PRId64, tile,
                        n);
    }
    if (job->number[BREAK] >= n) {
        return pto_fail(PTO_BAD_SHAPE, "there is no row %" PRId64 " to break: the last is %" PRId64,
                        job->number[BREAK], n - 1);
    }
    PTO_TRY(
        matrix_fits("the matrix and, for the check, a second one", 2.0 * (double)n * (double)n));
    cholesky *c = calloc(1, sizeof *c);
    if (!c) {
        return pto_fail(PTO_OUT_OF_MEMORY, "cholesky: no memory");
    }
    job->data = c;
    c->n = n;
    c->tile = tile;
    PTO_TRY(workload_device(job, job->text[DEVICE], false));
    c->a = workload_alloc((uint64_t)n * (uint64_t)n, sizeof(double));
    if (!c->a) {
        return PTO_OUT_OF_MEMORY;
    }
    c->blas = blas_start();
    const double size = (double)n;
    const uint64_t tiles = (uint64_t)matrix_tiles(n, tile);
    /* One square root per row, one division for each element below it, and for each of these a
     * multiplication and a subtraction with every element up to the diagonal. */
    job->flops = size * size * size / 3 + size * size / 2 + size / 6;
    job->total = tiles * (tiles + 1) * (tiles + 2) / 6;
    /* Four tasks with at most three tensors of 48 bytes each. There are no temporaries, so any ring
     * that holds one task works. Below 144 bytes the arguments of one task do not fit. */
    job->tight.heap_bytes = 64;
    job->tight.ring_tasks = 4;
    job->tight.arg_bytes = UINT64_C(4) * 3 * 48;
    job->tight.deps = 8;
    job->tight.map_entries = 16;
    return restore(job);
}

static pto_status start(workload_job *job)
{
    cholesky *c = job->data;
    kernels *k = &c->kernels;
    workload_say(job, "BLAS      %s", c->blas);
    PTO_TRY(workload_tensor(job, c->a, PTO_FLOAT64, 2, (int64_t[]){c->n, c->n},
                            (int64_t[]){c->tile, c->tile}, &c->tensor));
    if (job->elsewhere && job->mpi) {
        return pto_fail(PTO_BAD_PARAM, "--device and --mpi exclude each other");
    }
    PTO_TRY(workload_kernel(job, "potrf", PTO_CUBE, potrf, &k->potrf));
    PTO_TRY(workload_kernel(job, "trsm", PTO_CUBE, trsm, &k->trsm));
    PTO_TRY(workload_kernel(job, "syrk", PTO_CUBE, syrk, &k->syrk));
    return workload_kernel(job, "gemm", PTO_CUBE, gemm, &k->gemm);
}

/* On a device: in the memory of the output. */
static pto_status factor_there(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                               void *params)
{
    workload_job *job = params;
    const cholesky *c = job->data;
    PTO_TRY(pto_copy(rt, &outputs[0], &inputs[0]));
    return factor(job, &c->kernels, &outputs[0], c->tile);
}

static pto_status orchestrate(workload_job *job)
{
    const cholesky *c = job->data;
    if (job->elsewhere) {
        const pto_execute_options where = {.size = sizeof where, .device = job->device};
        return pto_execute_ex(job->rt, factor_there, &c->tensor, 1, &c->tensor, 1, job, &where);
    }
    PTO_TRY(factor(job, &c->kernels, &c->tensor, c->tile));
    return workload_wait(job);
}

/* ---- Check ---------------------------------------------------------------------------------- */

enum { BLOCK = 128 };

/* L[at, at] with zeros above the diagonal; the memory there is not part of L. */
static void diagonal_block(const cholesky *c, int64_t at, double *block)
{
    for (int64_t i = 0; i < BLOCK; i++) {
        for (int64_t j = 0; j < BLOCK; j++) {
            block[i * BLOCK + j] = at + i < c->n && j <= i ? c->a[(at + i) * c->n + at + j] : 0;
        }
    }
}

/* The sums of squares of A and of L L' - A, in the lower triangle. `a` becomes L L' - A. */
static void residual(const cholesky *c, double *a, double *size, double *wrong)
{
    double block[BLOCK * BLOCK];
    const int64_t n = c->n;
    *size = *wrong = 0;
    for (int64_t j = 0; j < n; j += BLOCK) {
        const int64_t columns = n - j < BLOCK ? n - j : BLOCK;
        diagonal_block(c, j, block);
        for (int64_t i = j; i < n; i += BLOCK) {
            const int64_t rows = n - i < BLOCK ? n - i : BLOCK;
            const double *left = c->a + i * n;
            double *to = a + i * n + j;
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t s = 0; s < columns && j + s <= i + r; s++) {
                    *size += to[r * n + s] * to[r * n + s];
                }
            }
            blas_dgemm(true, rows, columns, j, 1, left, n, c->a + j * n, n, -1, to, n);
            blas_dgemm(true, rows, columns, columns, 1, i == j ? block : left + j,
                       i == j ? BLOCK : n, block, BLOCK, 1, to, n);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t s = 0; s < columns && j + s <= i + r; s++) {
                    *wrong += to[r * n + s] * to[r * n + s];
                }
            }
        }
    }
}

/* What holds for any Cholesky factor, and the distance to that of OpenBLAS. Each element of L L' -
 * A is the rounding error of at most n products and sums, so about n u |L||L'|, where u = eps / 2
 * is the unit roundoff. If the matrix is diagonally dominant, |L||L'| is hardly larger than |A|. So
 * the quotient with n eps |A| is at most about 1/2, and for a single element 2, because its root,
 * inverse and square round once each. For large matrices rounding errors cancel, and the quotient
 * is far smaller. The factors then differ by at most n eps times the condition number, which is
 * less than 4. */
static pto_status compare(const cholesky *c, double *a, workload_job *job)
{
    const double allowed = 2, allowed_apart = 4 * (double)c->n * DBL_EPSILON;
    double size, wrong, norm = 0, apart = 0;
    for (int64_t i = 0; i < c->n; i++) {
        for (int64_t j = i + 1; j < c->n; j++) {
            if (!isnan(c->a[i * c->n + j])) {
                return pto_fail(
                    PTO_KERNEL_FAILED,
                    "element [%" PRId64 ", %" PRId64 "], above the diagonal, was written", i, j);
            }
        }
    }
    fill(job, a, c->n);
    residual(c, a, &size, &wrong);
    const double quotient = sqrt(wrong / size) / ((double)c->n * DBL_EPSILON);
    if (!(quotient <= allowed)) {
        return pto_fail(PTO_KERNEL_FAILED, "|L L' - A| / (n |A| eps) is %.3g (allowed %g)",
                        quotient, allowed);
    }
    fill(job, a, c->n);
    const int64_t bad = blas_library_dpotrf(c->n, a, c->n);
    if (bad) {
        return pto_fail(PTO_KERNEL_FAILED, "dpotrf fails in row %" PRId64, bad - 1);
    }
    for (int64_t i = 0; i < c->n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double want = a[i * c->n + j], off = c->a[i * c->n + j] - want;
            norm += want * want;
            apart += off * off;
        }
    }
    apart = sqrt(apart / norm);
    if (!(apart <= allowed_apart)) {
        return pto_fail(PTO_KERNEL_FAILED, "L is %.3g from that of dpotrf (allowed %.3g)", apart,
                        allowed_apart);
    }
    snprintf(job->verdict, sizeof job->verdict,
             "|L L' - A| / (n |A| eps) = %.2g (allowed %g); %.2g from dpotrf's (allowed %.2g)",
             quotient, allowed, apart, allowed_apart);
    return PTO_OK;
}

static pto_status check(workload_job *job)
{
    const cholesky *c = job->data;
    PTO_TRY(workload_get(job, &c->tensor, c->a));
    if (!workload_is_root(job)) {
        return PTO_OK;
    }
    double *a = workload_alloc((uint64_t)c->n * (uint64_t)c->n, sizeof(double));
    if (!a) {
        return PTO_OUT_OF_MEMORY;
    }
    const pto_status status = compare(c, a, job);
    workload_free(a);
    return status;
}

static void discard(workload_job *job)
{
    cholesky *c = job->data;
    if (c) {
        workload_free(c->a);
        free(c);
    }
}

const workload workload_cholesky = {
    .name = "cholesky",
    .summary = "A = L L' of one matrix; tiles are views (float64)",
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
