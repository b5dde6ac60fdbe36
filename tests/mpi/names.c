/* names.c - a program for one machine, and with RANKS the same program for several: three places differ. Both
 * must print the same.
 *
 * Prefix sums of a vector, tile by tile, with a temporary in a scope and a read that decides how often. */
#ifdef RANKS
#define PTO_MPI_NAMES
#include <pto/mpi.h>
#else
#include <pto/pto.h>
#endif
#include <stdio.h>

enum { TILES = 8, TILE = 16, N = TILES * TILE };

/* to += from, where from may be one number. */
static pto_status add(const pto_call *call)
{
    const pto_arg *from = &call->args[0], *to = &call->args[1];
    for (int64_t i = 0; i < to->shape[0]; i++) {
        ((double *)to->data)[i * to->strides[0]] +=
            ((const double *)from->data)[from->shape[0] == 1 ? 0 : i * from->strides[0]];
    }
    return PTO_OK;
}

/* Prefix sums inside of a tile; the last one is also its total. */
static pto_status scan(const pto_call *call)
{
    const pto_arg *x = &call->args[0], *total = &call->args[1];
    double sum = 0;
    for (int64_t i = 0; i < x->shape[0]; i++) {
        sum += ((double *)x->data)[i * x->strides[0]];
        ((double *)x->data)[i * x->strides[0]] = sum;
    }
    *(double *)total->data = sum;
    return PTO_OK;
}

static pto_status count(const pto_call *call)
{
    const pto_arg *x = &call->args[0];
    for (int64_t i = 0; i < x->shape[0]; i++) {
        ((double *)x->data)[i * x->strides[0]] = (double)(pto_arg_i64(&call->args[1]) + i) / 8;
    }
    return PTO_OK;
}

typedef struct kernels {
    pto_kernel add, scan, count;
} kernels;

static pto_status sums(pto_runtime *rt, const kernels *k, const pto_tensor *x)
{
    pto_tensor tile, later;
    for (int64_t i = 0; i < TILES; i++) {
        PTO_TRY(pto_tensor_slice(x, 0, i * TILE, (i + 1) * TILE, 1, &tile));
        PTO_TRY(pto_submit(rt, k->count, pto_output(&tile), pto_scalar(i * TILE)));
    }
    for (double last = 0; last < 1e7;) {
        PTO_SCOPE(rt) {
            for (int64_t i = 0; i < TILES; i++) {
                pto_tensor total;
                PTO_TRY(pto_temp(rt, PTO_FLOAT64, 1, (int64_t[]){1}, &total));
                PTO_TRY(pto_tensor_slice(x, 0, i * TILE, (i + 1) * TILE, 1, &tile));
                PTO_TRY(pto_submit(rt, k->scan, pto_inout(&tile), pto_output(&total)));
                for (int64_t j = i + 1; j < TILES; j++) {
                    /* Half a tile further: these views cross tiles. */
                    const int64_t from = j * TILE - TILE / 2, to = from + TILE;
                    PTO_TRY(pto_tensor_slice(x, 0, from, to, 1, &later));
                    PTO_TRY(pto_submit(rt, k->add, pto_input(&total), pto_inout(&later)));
                }
            }
            PTO_TRY(pto_tensor_slice(x, 0, N - 1, N, 1, &tile));
            PTO_TRY(pto_read(rt, &tile, &last, sizeof last));
        }
    }
    return pto_wait(rt);
}

static pto_status run(pto_runtime *rt, double *memory)
{
    static double result[N];
    pto_tensor x;
    kernels k;
    PTO_TRY(pto_kernel_register(rt, "add", PTO_VECTOR, add, NULL, &k.add));
    PTO_TRY(pto_kernel_register(rt, "scan", PTO_VECTOR, scan, NULL, &k.scan));
    PTO_TRY(pto_kernel_register(rt, "count", PTO_VECTOR, count, NULL, &k.count));
#ifdef RANKS
    PTO_TRY(pto_mpi_create(rt, NULL));
    PTO_TRY(
        pto_mpi_tensor(rt, PTO_FLOAT64, 1, (int64_t[]){N}, &(pto_mpi_layout){.tile = {TILE}}, &x));
    (void)memory;
#else
    PTO_TRY(pto_external_tensor(rt, memory, PTO_FLOAT64, 1, (int64_t[]){N}, &x));
#endif
    PTO_TRY(sums(rt, &k, &x));
    PTO_TRY(pto_read(rt, &x, result, sizeof result));
#ifdef RANKS
    if (pto_mpi_rank(rt) == 0)
#endif
        for (int i = 0; i < N; i++) {
            printf("%a\n", result[i]);
        }
#ifdef RANKS
    PTO_TRY(pto_mpi_destroy(rt));
#endif
    return PTO_OK;
}

int main(void)
{
    static double memory[N];
    pto_runtime *rt;
    pto_status status = pto_runtime_create(&rt, NULL);
    if (status == PTO_OK) {
        status = run(rt, memory);
    }
    if (status != PTO_OK) {
        fprintf(stderr, "names: %s: %s\n", pto_status_text(status), pto_error_detail());
        return 1;
    }
    return pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK ? 0 : 1;
}
