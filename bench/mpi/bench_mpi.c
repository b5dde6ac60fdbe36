/* bench_mpi.c - two ranks of MPI: what a task of another rank costs, and the latency of one remote dependency.
 *
 *     mpirun -n 2 bench_mpi [submit|latency]
 *
 * The cost of a submit is time of the thread on its core, so other programs disturb it little. The latency is
 * wall time, and compared with a bare ping-pong of the same bytes: both need two idle cores. */
#include <mpi.h>
#include <pto/mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../bench.h"

/* Many short windows, of which the best one counts: other programs may use the cores, too. */
enum { TILES = 32, TILE = 64, ROUNDS = 64, REPEATS = 400, SUBMIT_REPEATS = 100 };

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static pto_status nothing(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static int rank_zero(const int64_t *tile, void *user)
{
    (void)tile;
    (void)user;
    return 0;
}

/* The updates of a Cholesky factorization whose tiles all belong to rank 0: nanoseconds for each submit. */
static pto_status submit_cost(pto_runtime *rt, pto_kernel kernel, double *least)
{
    static pto_tensor tile[TILES][TILES];
    const pto_mpi_layout layout = {.tile = {TILE, TILE}, .owner = rank_zero};
    pto_tensor a;
    PTO_TRY(
        pto_mpi_tensor(rt, PTO_FLOAT64, 2, (int64_t[]){TILES * TILE, TILES * TILE}, &layout, &a));
    for (int64_t i = 0; i < TILES * TILES; i++) {
        PTO_TRY(pto_tensor_view(&a, (int64_t[]){i / TILES * TILE, i % TILES * TILE},
                                (int64_t[]){TILE, TILE}, &tile[i / TILES][i % TILES]));
    }
    for (int r = 0; r < SUBMIT_REPEATS; r++) {
        const double begin = now(CLOCK_THREAD_CPUTIME_ID);
        int64_t n = 0;
        for (int k = 0; k < TILES; k++) {
            for (int i = k + 1; i < TILES; i++) {
                for (int j = k + 1; j < i; j++, n++) {
                    PTO_TRY(pto_mpi_submit(rt, kernel, pto_input(&tile[i][k]),
                                           pto_input(&tile[j][k]), pto_inout(&tile[i][j])));
                }
            }
        }
        const double each = (now(CLOCK_THREAD_CPUTIME_ID) - begin) * 1e9 / (double)n;
        *least = r == 0 || each < *least ? each : *least;
        PTO_TRY(pto_mpi_wait(rt));
    }
    return PTO_OK;
}

/* Each task needs what the one before it wrote on the other rank: microseconds for each. */
static pto_status latency(pto_runtime *rt, pto_kernel kernel, double *least)
{
    pto_tensor x, mine, theirs;
    PTO_TRY(pto_mpi_tensor(rt, PTO_FLOAT64, 1, (int64_t[]){4}, &(pto_mpi_layout){.tile = {2}}, &x));
    PTO_TRY(pto_tensor_slice(&x, 0, 0, 2, 1, &mine));
    PTO_TRY(pto_tensor_slice(&x, 0, 2, 4, 1, &theirs));
    for (int r = 0; r < REPEATS; r++) {
        const double begin = now(CLOCK_MONOTONIC);
        for (int i = 0; i < ROUNDS; i++) {
            PTO_TRY(pto_mpi_submit(rt, kernel, pto_input(&mine), pto_inout(&theirs)));
            PTO_TRY(pto_mpi_submit(rt, kernel, pto_input(&theirs), pto_inout(&mine)));
        }
        PTO_TRY(pto_mpi_wait(rt));
        const double each = (now(CLOCK_MONOTONIC) - begin) * 1e6 / ROUNDS / 2;
        *least = r == 0 || each < *least ? each : *least;
    }
    return PTO_OK;
}

static double ping_pong(pto_runtime *rt)
{
    double least = 0, bytes[2] = {0};
    const int other = 1 - pto_mpi_rank(rt);
    pto_mpi_lock(rt);
    for (int r = 0; r < REPEATS; r++) {
        const double begin = now(CLOCK_MONOTONIC);
        for (int i = 0; i < ROUNDS; i++) {
            for (int turn = 0; turn < 2; turn++) {
                if (turn == other) {
                    MPI_Send(bytes, sizeof bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
                } else {
                    MPI_Recv(bytes, sizeof bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
                }
            }
        }
        const double each = (now(CLOCK_MONOTONIC) - begin) * 1e6 / ROUNDS / 2;
        least = r == 0 || each < least ? each : least;
    }
    pto_mpi_unlock(rt);
    return least;
}

static pto_status bench(pto_runtime *rt, const char *what, int *missed)
{
    pto_kernel kernel;
    double cost = 0, own = 0;
    PTO_TRY(pto_mpi_create(rt, &(pto_mpi_config){.size = sizeof(pto_mpi_config), .ranks = 2}));
    PTO_TRY(pto_kernel_register(rt, "nothing", PTO_VECTOR, nothing, NULL, &kernel));
    const bool print = pto_mpi_rank(rt) == 1;
    bool good = true;
    if (!*what || !strcmp(what, "submit")) {
        PTO_TRY(submit_cost(rt, kernel, &cost));
        good = !print || bench_bar_at_most("mpi submit of a task of another rank, three tiles",
                                           cost, "ns", 25);
    }
    if (!*what || !strcmp(what, "latency")) {
        PTO_TRY(latency(rt, kernel, &own));
        const double bare = ping_pong(rt);
        own -= bare;
        if (print) {
            printf("bare MPI, one way: %.2f us\n", bare);
            good &= bench_bar_at_most("mpi remote dependency, more than the bare ping-pong", own,
                                      "us", 3);
        }
    }
    *missed = !good;
    return pto_mpi_destroy(rt);
}

int main(int argc, char **argv)
{
    pto_runtime *rt;
    int missed = 0;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS; /* a core for each rank, so one thread */
    pto_status status = pto_runtime_create(&rt, &config);
    if (status == PTO_OK) {
        status = bench(rt, argc > 1 ? argv[1] : "", &missed);
    }
    if (status != PTO_OK) {
        fprintf(stderr, "bench_mpi: %s: %s\n", pto_status_text(status), pto_error_detail());
        return 1;
    }
    status = pto_runtime_destroy(&rt, PTO_WAIT);
    return status == PTO_OK ? missed : 1;
}
