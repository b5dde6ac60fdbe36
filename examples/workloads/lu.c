/* lu.c - A = L U of one matrix, tile by tile, in place, without pivoting.
 *
 *     for each k       getrf   L[k,k], U[k,k]
 *       for j > k      solve   U[k,j] from A[k,j], L[k,k]       the row to the right
 *       for i > k      solve   L[i,k] from A[i,k], U[k,k]       the column below
 *       for i, j > k   gemm    A[i,j] -= L[i,k] U[k,j]
 *
 * Tiles are views of one row-major matrix, as in cholesky.c. The matrix is diagonally dominant, so
 * pivoting is not needed: elements never grow to more than twice their size.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "blas.h"
#include "matrix.h"

/* ---- Kernels ------------------------------------------------------------------------------ */

static pto_status getrf(const pto_call *call)
{
    const matrix_arg a = matrix_of(call, 0);
    const int64_t bad = blas_dgetrf(a.rows, a.data, a.ld);
    if (bad) {
        return pto_fail(PTO_KERNEL_FAILED, "row %" PRId64 ": the pivot is zero",
                        pto_arg_i64(&call->args[1]) + bad - 1);
    }
    return PTO_OK;
}

static pto_status solve_row(const pto_call *call)
{
    const matrix_arg l = matrix_of(call, 0), a = matrix_of(call, 1);
    blas_dtrsm_lower(a.rows, a.columns, l.data, l.ld, a.data, a.ld);
    return PTO_OK;
}

static pto_status solve_column(const pto_call *call)
{
    const matrix_arg u = matrix_of(call, 0), a = matrix_of(call, 1);
    blas_dtrsm_upper(a.rows, a.columns, u.data, u.ld, a.data, a.ld);
    return PTO_OK;
}

static pto_status gemm(const pto_call *call)
{
    const matrix_arg l = matrix_of(call, 0), u = matrix_of(call, 1), a = matrix_of(call, 2);
    blas_dgemm(false, a.rows, a.columns, l.columns, -1, l.data, l.ld, u.data, u.ld, 1, a.data,
               a.ld);
    return PTO_OK;
}

typedef struct kernels {
    pto_kernel getrf, solve_row, solve_column, gemm;
} kernels;

/* ---- The orchestration function: the serial program ----------------------------------------- */

static pto_status factor(workload_job *job, const kernels *kernel, const pto_tensor *a,
                         int64_t tile)
{
    const int64_t tiles = matrix_tiles(a->shape[0], tile);
    pto_tensor kk, kj, ik, ij;
    uint64_t tasks = 0;
    for (int64_t k = 0; k < tiles; k++) {
        PTO_TRY(matrix_tile(a, tile, k, k, &kk));
        PTO_TRY(workload_submit(job, kernel->getrf, pto_inout(&kk), pto_scalar(k * tile)));
        for (int64_t j = k + 1; j < tiles; j++) {
            PTO_TRY(matrix_tile(a, tile, k, j, &kj));
            PTO_TRY(workload_submit(job, kernel->solve_row, pto_input(&kk), pto_inout(&kj)));
        }
        for (int64_t i = k + 1; i < tiles; i++) {
            PTO_TRY(matrix_tile(a, tile, i, k, &ik));
            PTO_TRY(workload_submit(job, kernel->solve_column, pto_input(&kk), pto_inout(&ik)));
        }
        tasks += (uint64_t)(2 * (tiles - k) - 1);
        for (int64_t i = k + 1; i < tiles; i++) {
            PTO_TRY(matrix_tile(a, tile, i, k, &ik));
            for (int64_t j = k + 1; j < tiles; j++) {
                PTO_TRY(matrix_tile(a, tile, k, j, &kj));
                PTO_TRY(matrix_tile(a, tile, i, j, &ij));
                PTO_TRY(workload_submit(job, kernel->gemm, pto_input(&ik), pto_input(&kj),
                                        pto_inout(&ij)));
            }
            tasks += (uint64_t)(tiles - k - 1);
            workload_progress(job, tasks);
        }
    }
    return workload_wait(job);
}

/* ---- As a workload -------------------------------------------------------------------------- */

enum { N, TILE, BREAK };

static const workload_option options[] = {
    [N] = {.name = "n",
           .help = "rows and columns of the matrix",
           .number = 3072,
           .low = 1,
           .high = INT32_MAX,
           .small = 300},
    [TILE] = {.name = "tile",
              .help = "rows and columns of a tile; need not divide n",
              .number = 192,
              .low = 1,
              .high = INT32_MAX,
              .small = 32},
    [BREAK] = {.name = "break",
               .help = "row to fill with zeros, so that its pivot is zero; -1: none",
               .number = -1,
               .low = -1,
               .high = INT32_MAX,
               .small = -1},
};

typedef struct lu {
    int64_t n, tile;
    double *a;
    pto_tensor tensor;
    kernels kernels;
    const char *blas;
} lu;

/* Numbers from -1/2 to 1/2, plus n on the diagonal. */
static void fill(const workload_job *job, double *a, int64_t n)
{
    workload_rng rng = workload_rng_make(job->seed, 0);
    for (int64_t i = 0; i < n; i++) {
        const double factor = i == job->number[BREAK] ? 0 : 1;
        for (int64_t j = 0; j < n; j++) {
            a[i * n + j] = factor * (workload_uniform(&rng) - 0.5 + (i == j ? (double)n : 0));
        }
    }
}

static pto_status restore(workload_job *job)
{
    const lu *l = job->data;
    fill(job, l->a, l->n);
    return job->rt ? workload_put(job, &l->tensor, l->a) : PTO_OK;
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
    lu *l = calloc(1, sizeof *l);
    if (!l) {
        return pto_fail(PTO_OUT_OF_MEMORY, "lu: no memory");
    }
    job->data = l;
    l->n = n;
    l->tile = tile;
    l->a = workload_alloc((uint64_t)n * (uint64_t)n, sizeof(double));
    if (!l->a) {
        return PTO_OUT_OF_MEMORY;
    }
    l->blas = blas_start();
    const double size = (double)n;
    const uint64_t tiles = (uint64_t)matrix_tiles(n, tile);
    /* For each pivot, one division for every element below it, and a multiplication and a
     * subtraction for every element below and to the right. */
    job->flops = size * size * size * 2 / 3 - size * size / 2 - size / 6;
    job->total = tiles * (tiles + 1) * (2 * tiles + 1) / 6;
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
    lu *l = job->data;
    kernels *k = &l->kernels;
    workload_say(job, "BLAS      %s", l->blas);
    PTO_TRY(workload_tensor(job, l->a, PTO_FLOAT64, 2, (int64_t[]){l->n, l->n},
                            (int64_t[]){l->tile, l->tile}, &l->tensor));
    PTO_TRY(pto_kernel_register(job->rt, "getrf", PTO_CUBE, getrf, NULL, &k->getrf));
    PTO_TRY(pto_kernel_register(job->rt, "solve_row", PTO_CUBE, solve_row, NULL, &k->solve_row));
    PTO_TRY(pto_kernel_register(job->rt, "solve_column", PTO_CUBE, solve_column, NULL,
                                &k->solve_column));
    return pto_kernel_register(job->rt, "gemm", PTO_CUBE, gemm, NULL, &k->gemm);
}

static pto_status orchestrate(workload_job *job)
{
    const lu *l = job->data;
    return factor(job, &l->kernels, &l->tensor, l->tile);
}

/* ---- Check ---------------------------------------------------------------------------------- */

enum { BLOCK = 128 };

/* The two factors of a diagonal block: `lower` with ones on its diagonal, and zeros elsewhere. */
static void diagonal_blocks(const lu *l, int64_t at, double *lower, double *upper)
{
    for (int64_t i = 0; i < BLOCK; i++) {
        for (int64_t j = 0; j < BLOCK; j++) {
            const bool inside = at + i < l->n && at + j < l->n;
            const double value = inside ? l->a[(at + i) * l->n + at + j] : 0;
            lower[i * BLOCK + j] = j < i ? value : i == j;
            upper[i * BLOCK + j] = j < i ? 0 : value;
        }
    }
}

static double squares(const double *a, int64_t rows, int64_t columns, int64_t ld)
{
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            sum += a[i * ld + j] * a[i * ld + j];
        }
    }
    return sum;
}

/* Subtracts L U from `a`, block by block, with products of the library. */
static void residual(const lu *l, double *a)
{
    static const int64_t one = BLOCK;
    double lower[BLOCK * BLOCK], upper[BLOCK * BLOCK];
    const int64_t n = l->n;
    for (int64_t k = 0; k < n; k += BLOCK) {
        const int64_t depth = n - k < one ? n - k : one, rest = n - k - depth;
        const double *left = l->a + (k + depth) * n + k, *right = l->a + k * n + k + depth;
        double *to = a + k * n + k;
        diagonal_blocks(l, k, lower, upper);
        blas_dgemm(false, depth, depth, depth, -1, lower, BLOCK, upper, BLOCK, 1, to, n);
        blas_dgemm(false, depth, rest, depth, -1, lower, BLOCK, right, n, 1, to + depth, n);
        blas_dgemm(false, rest, depth, depth, -1, left, n, upper, BLOCK, 1, to + depth * n, n);
        blas_dgemm(false, rest, rest, depth, -1, left, n, right, n, 1, to + depth * (n + 1), n);
    }
}

/* With ones on the diagonal of L the factors of A are unique: if L U is A, they are right. Each
 * element of L U - A is the rounding error of at most n products and sums, so about n u |L||U|,
 * where u = eps / 2 is the unit roundoff. If the matrix is diagonally dominant, |L||U| is hardly
 * larger than |A|. So the quotient with n eps |A| is at most about 1/2. Rounding errors cancel, and
 * it is far smaller. */
static pto_status check(workload_job *job)
{
    const lu *l = job->data;
    PTO_TRY(workload_get(job, &l->tensor, l->a));
    if (!workload_is_root(job)) {
        return PTO_OK;
    }
    const double allowed = 1;
    double *a = workload_alloc((uint64_t)l->n * (uint64_t)l->n, sizeof(double));
    if (!a) {
        return PTO_OUT_OF_MEMORY;
    }
    fill(job, a, l->n);
    const double size = squares(a, l->n, l->n, l->n);
    residual(l, a);
    const double wrong = squares(a, l->n, l->n, l->n);
    workload_free(a);
    const double quotient = sqrt(wrong / size) / ((double)l->n * DBL_EPSILON);
    if (!(quotient <= allowed)) {
        return pto_fail(PTO_KERNEL_FAILED, "|L U - A| / (n |A| eps) is %.3g (allowed %g)", quotient,
                        allowed);
    }
    snprintf(job->verdict, sizeof job->verdict, "|L U - A| / (n |A| eps) = %.2g (allowed %g)",
             quotient, allowed);
    return PTO_OK;
}

static void discard(workload_job *job)
{
    lu *l = job->data;
    if (l) {
        workload_free(l->a);
        free(l);
    }
}

const workload workload_lu = {
    .name = "lu",
    .summary = "A = L U of one matrix without pivoting; tiles are views (float64)",
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
