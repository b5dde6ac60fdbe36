/* halo.c - a stencil on a strip of cells for each rank: this library against hand-written MPI.
 *
 *     mpirun -n 2 halo [CELLS STEPS REPEATS]
 *
 * The bar is for 1,024 cells and more. Smaller ones show what a step costs.
 *
 * Each rank has CELLS x CELLS cells; one step needs the edges of its neighbours above and below. By hand:
 * MPI_Isend and MPI_Irecv of both edges, the inner rows, MPI_Waitall, the two outer rows. Here: the same
 * three parts as tasks. */
#include <mpi.h>
#include <pto/mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../bench.h"

static int64_t cells = 1024;
static int steps = 100, repeats = 20;
static bool smaller; /* than the size that the bar is for */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One row from the row itself and those beside it. The first and the last cell stay. */
static void step_row(const float *up, const float *here, const float *down, float *to)
{
    to[0] = here[0];
    to[cells - 1] = here[cells - 1];
    for (int64_t j = 1; j < cells - 1; j++) {
        to[j] = here[j] + 0.2f * (up[j] + down[j] + here[j - 1] + here[j + 1] - 4 * here[j]);
    }
}

static void fill(float *tile, int rank)
{
    for (int64_t i = 0; i < cells * cells; i++) {
        tile[i] = (float)((i * 7919 + rank * 104729) % 1000) / 1000;
    }
}

static double sum_of(const float *tile)
{
    double sum = 0;
    for (int64_t i = 0; i < cells * cells; i++) {
        sum += (double)tile[i] * (double)(i % 97 + 1);
    }
    return sum;
}

/* ---- By hand ------------------------------------------------------------------------------------- */

static void step_by_hand(const float *from, float *to, float *edges, int rank, int ranks)
{
    MPI_Request requests[4];
    int n = 0;
    const size_t last = (size_t)(cells - 1) * (size_t)cells;
    float *above = edges, *below = edges + cells;
    if (rank > 0) {
        MPI_Irecv(above, (int)cells, MPI_FLOAT, rank - 1, 0, MPI_COMM_WORLD, &requests[n++]);
        MPI_Isend(from, (int)cells, MPI_FLOAT, rank - 1, 1, MPI_COMM_WORLD, &requests[n++]);
    }
    if (rank + 1 < ranks) {
        MPI_Irecv(below, (int)cells, MPI_FLOAT, rank + 1, 1, MPI_COMM_WORLD, &requests[n++]);
        MPI_Isend(from + last, (int)cells, MPI_FLOAT, rank + 1, 0, MPI_COMM_WORLD, &requests[n++]);
    }
    for (int64_t i = 1; i < cells - 1; i++) {
        step_row(from + (i - 1) * cells, from + i * cells, from + (i + 1) * cells, to + i * cells);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    step_row(rank ? above : from, from, from + cells, to);
    step_row(from + last - (size_t)cells, from + last, rank + 1 < ranks ? below : from + last,
             to + last);
}

static double by_hand(float *const *plates, float *edges, int rank, int ranks)
{
    fill(plates[0], rank);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now();
    for (int s = 0; s < steps; s++) {
        step_by_hand(plates[s % 2], plates[1 - s % 2], edges, rank, ranks);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return now() - begin;
}

/* ---- Here ---------------------------------------------------------------------------------------- */

static pto_status fill_kernel(const pto_call *call)
{
    fill(call->args[0].data, (int)pto_arg_i64(&call->args[1]));
    return PTO_OK;
}

/* args: rows from, rows to: all but the first and the last one. */
static pto_status inner_kernel(const pto_call *call)
{
    const float *from = call->args[0].data;
    float *to = call->args[1].data;
    for (int64_t i = 1; i < cells - 1; i++) {
        step_row(from + (i - 1) * cells, from + i * cells, from + (i + 1) * cells,
                 to + (i - 1) * cells);
    }
    return PTO_OK;
}

/* args: row above, two rows or the other way around, row below, to: one row. */
static pto_status edge_kernel(const pto_call *call)
{
    step_row(call->args[0].data, call->args[1].data, call->args[2].data, call->args[3].data);
    return PTO_OK;
}

typedef struct halo {
    pto_runtime *rt;
    pto_kernel fill, inner, edge;
    pto_tensor plates[2];
} halo;

static pto_status rows(const pto_tensor *t, int64_t from, int64_t n, pto_tensor *view)
{
    return pto_tensor_view(t, (int64_t[]){from, 0}, (int64_t[]){n, cells}, view);
}

static pto_status edge(const halo *h, const pto_tensor *from, const pto_tensor *to, int64_t row,
                       int64_t first, int64_t last)
{
    pto_tensor up, here, down, out;
    PTO_TRY(rows(from, row > first ? row - 1 : row, 1, &up));
    PTO_TRY(rows(from, row, 1, &here));
    PTO_TRY(rows(from, row < last ? row + 1 : row, 1, &down));
    PTO_TRY(rows(to, row, 1, &out));
    return pto_mpi_submit(h->rt, h->edge, pto_input(&up), pto_input(&here), pto_input(&down),
                          pto_output(&out));
}

static pto_status here(const halo *h, double *seconds)
{
    const int ranks = pto_mpi_ranks(h->rt);
    pto_tensor tile, out;
    for (int r = 0; r < ranks; r++) {
        PTO_TRY(rows(&h->plates[0], r * cells, cells, &tile));
        PTO_TRY(pto_mpi_submit(h->rt, h->fill, pto_output(&tile), pto_scalar((int64_t)r)));
    }
    PTO_TRY(pto_mpi_wait(h->rt));
    const double begin = now();
    for (int s = 0; s < steps; s++) {
        const pto_tensor *from = &h->plates[s % 2], *to = &h->plates[1 - s % 2];
        for (int r = 0; r < ranks; r++) {
            const int64_t top = r * cells, bottom = top + cells - 1;
            PTO_TRY(rows(from, top, cells, &tile));
            PTO_TRY(rows(to, top + 1, cells - 2, &out));
            PTO_TRY(pto_mpi_submit(h->rt, h->inner, pto_input(&tile), pto_output(&out)));
            PTO_TRY(edge(h, from, to, top, 0, ranks * cells - 1));
            PTO_TRY(edge(h, from, to, bottom, 0, ranks * cells - 1));
        }
    }
    PTO_TRY(pto_mpi_wait(h->rt));
    *seconds = now() - begin;
    return PTO_OK;
}

static pto_status begin_here(halo *h)
{
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS;
    PTO_TRY(pto_runtime_create(&h->rt, &config));
    PTO_TRY(pto_mpi_create(h->rt, NULL));
    const int64_t shape[] = {pto_mpi_ranks(h->rt) * cells, cells};
    for (int i = 0; i < 2; i++) {
        PTO_TRY(pto_mpi_tensor(h->rt, PTO_FLOAT32, 2, shape,
                               &(pto_mpi_layout){.tile = {cells, cells}}, &h->plates[i]));
    }
    PTO_TRY(pto_kernel_register(h->rt, "fill", PTO_VECTOR, fill_kernel, NULL, &h->fill));
    PTO_TRY(pto_kernel_register(h->rt, "inner", PTO_VECTOR, inner_kernel, NULL, &h->inner));
    return pto_kernel_register(h->rt, "edge", PTO_VECTOR, edge_kernel, NULL, &h->edge);
}

static pto_status run(float *memory, bool *missed)
{
    halo h;
    double hand = 0, own = 0, once;
    PTO_TRY(begin_here(&h));
    const int rank = pto_mpi_rank(h.rt), ranks = pto_mpi_ranks(h.rt);
    float *const plates[] = {memory, memory + cells * cells};
    for (int r = 0; r < repeats; r++) { /* in turns: the machine may be busy with something else */
        pto_mpi_lock(h.rt);
        once = by_hand(plates, memory + 2 * cells * cells, rank, ranks);
        pto_mpi_unlock(h.rt);
        hand = r == 0 || once < hand ? once : hand;
        PTO_TRY(here(&h, &once));
        own = r == 0 || once < own ? once : own;
    }
    pto_tensor tile;
    float *result = rank == 0 ? malloc((size_t)(cells * cells) * sizeof *result) : NULL;
    PTO_TRY(rows(&h.plates[steps % 2], 0, cells, &tile));
    PTO_TRY(pto_mpi_gather(h.rt, &tile, 0, result, (uint64_t)(cells * cells) * sizeof *result));
    if (rank == 0) {
        const bool same = sum_of(result) == sum_of(plates[steps % 2]);
        char name[64];
        snprintf(name, sizeof name, "mpi stencil halo, %d cells a side", (int)cells);
        printf("a step of %d cells a side: %.1f us by hand, %.1f us here\n", (int)cells,
               hand * 1e6 / steps, own * 1e6 / steps);
        if (smaller) {
            printf("%.2f of hand-written MPI\n", hand / own);
        } else {
            *missed = !bench_bar_at_least(name, hand / own, "of hand-written MPI", 0.95);
        }
        if (!same) {
            printf("the results are different\n");
            *missed = true;
        }
        free(result);
    }
    PTO_TRY(pto_mpi_destroy(h.rt));
    return pto_runtime_destroy(&h.rt, PTO_WAIT);
}

int main(int argc, char **argv)
{
    cells = argc > 1 ? atoll(argv[1]) : cells;
    steps = argc > 2 ? atoi(argv[2]) : steps;
    repeats = argc > 3 ? atoi(argv[3]) : repeats;
    smaller = cells < 1024;
    float *memory = calloc((size_t)(2 * cells * cells + 2 * cells), sizeof *memory);
    bool missed = false;
    const pto_status status = memory ? run(memory, &missed) : PTO_OUT_OF_MEMORY;
    if (status != PTO_OK) {
        fprintf(stderr, "halo: %s: %s\n", pto_status_text(status), pto_error_detail());
    }
    free(memory);
    return status != PTO_OK || missed;
}
