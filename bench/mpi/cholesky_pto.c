/* cholesky_pto.c - the Cholesky comparison: this library, one thread a rank. See cholesky.h. */
#include <pto/mpi.h>

#include "cholesky.h"

static pto_status fill(const pto_call *call)
{
    cholesky_fill(call->args[0].data, (int)pto_arg_i64(&call->args[1]),
                  (int)pto_arg_i64(&call->args[2]), (int)call->args[0].shape[0],
                  (int)pto_arg_i64(&call->args[3]));
    return PTO_OK;
}

static pto_status potrf(const pto_call *call)
{
    return cholesky_potrf(call->args[0].data, (int)call->args[0].shape[0]) == 0
               ? PTO_OK
               : pto_fail(PTO_KERNEL_FAILED, "not positive definite");
}

static pto_status trsm(const pto_call *call)
{
    cholesky_trsm(call->args[0].data, call->args[1].data, (int)call->args[0].shape[0]);
    return PTO_OK;
}

static pto_status syrk(const pto_call *call)
{
    cholesky_syrk(call->args[0].data, call->args[1].data, (int)call->args[0].shape[0]);
    return PTO_OK;
}

static pto_status gemm(const pto_call *call)
{
    cholesky_gemm(call->args[0].data, call->args[1].data, call->args[2].data,
                  (int)call->args[0].shape[0]);
    return PTO_OK;
}

typedef struct kernels {
    pto_kernel fill, potrf, trsm, syrk, gemm;
} kernels;

static pto_status factor(pto_runtime *rt, const kernels *k, const pto_tensor *t, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        const pto_tensor *pivot = &t[j * n + j];
        PTO_TRY(pto_mpi_submit(rt, k->potrf, pto_inout(pivot)));
        for (int64_t i = j + 1; i < n; i++) {
            PTO_TRY(pto_mpi_submit(rt, k->trsm, pto_input(pivot), pto_inout(&t[i * n + j])));
        }
        for (int64_t i = j + 1; i < n; i++) {
            const pto_tensor *left = &t[i * n + j];
            for (int64_t c = j + 1; c < i; c++) {
                PTO_TRY(pto_mpi_submit(rt, k->gemm, pto_input(left), pto_input(&t[c * n + j]),
                                       pto_inout(&t[i * n + c])));
            }
            PTO_TRY(pto_mpi_submit(rt, k->syrk, pto_input(left), pto_inout(&t[i * n + i])));
        }
    }
    return pto_mpi_wait(rt);
}

static pto_status run(pto_runtime *rt, cholesky_job *job, pto_tensor *t)
{
    kernels k;
    pto_tensor a, last;
    const int64_t n = job->n / job->tile, size = job->tile;
    PTO_TRY(pto_mpi_create(rt, NULL));
    PTO_TRY(pto_kernel_register(rt, "fill", PTO_VECTOR, fill, NULL, &k.fill));
    PTO_TRY(pto_kernel_register(rt, "potrf", PTO_CUBE, potrf, NULL, &k.potrf));
    PTO_TRY(pto_kernel_register(rt, "trsm", PTO_CUBE, trsm, NULL, &k.trsm));
    PTO_TRY(pto_kernel_register(rt, "syrk", PTO_CUBE, syrk, NULL, &k.syrk));
    PTO_TRY(pto_kernel_register(rt, "gemm", PTO_CUBE, gemm, NULL, &k.gemm));
    PTO_TRY(pto_mpi_tensor(rt, PTO_FLOAT64, 2, (int64_t[]){job->n, job->n},
                           &(pto_mpi_layout){.tile = {size, size}}, &a));
    for (int64_t i = 0; i < n * n; i++) {
        PTO_TRY(pto_tensor_view(&a, (int64_t[]){i / n * size, i % n * size},
                                (int64_t[]){size, size}, &t[i]));
    }
    for (int r = 0; r < job->repeats; r++) {
        for (int64_t i = 0; i < n * n; i++) {
            if (i % n <= i / n) {
                PTO_TRY(pto_mpi_submit(rt, k.fill, pto_output(&t[i]), pto_scalar(i / n),
                                       pto_scalar(i % n), pto_scalar((int64_t)job->n)));
            }
        }
        PTO_TRY(pto_mpi_wait(rt));
        const double begin = cholesky_now();
        PTO_TRY(factor(rt, &k, t, n));
        cholesky_time(job, cholesky_now() - begin);
    }
    PTO_TRY(pto_tensor_view(&a, (int64_t[]){job->n - 1, job->n - 1}, (int64_t[]){1, 1}, &last));
    PTO_TRY(pto_mpi_read(rt, &last, &job->last, sizeof job->last));
    if (pto_mpi_rank(rt) == 0) {
        cholesky_print("pto", job);
    }
    return pto_mpi_destroy(rt);
}

int main(int argc, char **argv)
{
    cholesky_job job = cholesky_arguments(argc, argv);
    pto_runtime *rt;
    pto_config config = PTO_CONFIG_INIT;
    const size_t n = (size_t)(job.n / job.tile);
    pto_tensor *tiles = malloc(n * n * sizeof *tiles);
    config.workers = PTO_NO_WORKERS; /* a core for each rank */
    pto_status status = tiles ? pto_runtime_create(&rt, &config) : PTO_OUT_OF_MEMORY;
    if (status == PTO_OK) {
        status = run(rt, &job, tiles);
    }
    if (status != PTO_OK) {
        fprintf(stderr, "cholesky_pto: %s: %s\n", pto_status_text(status), pto_error_detail());
        return 1;
    }
    free(tiles);
    return pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK ? 0 : 1;
}
