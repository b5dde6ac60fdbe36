/* cholesky_starpu.c - the Cholesky comparison: StarPU-MPI 1.3, one worker a rank. See cholesky.h. */
#include <mpi.h>
#include <starpu.h>
#include <starpu_mpi.h>

#include "cholesky.h"

#define AT(i) ((double *)STARPU_MATRIX_GET_PTR(buffers[i]))
#define SIZE ((int)STARPU_MATRIX_GET_NX(buffers[0]))

static void potrf(void *buffers[], void *arg)
{
    (void)arg;
    (void)cholesky_potrf(AT(0), SIZE);
}

static void trsm(void *buffers[], void *arg)
{
    (void)arg;
    cholesky_trsm(AT(0), AT(1), SIZE);
}

static void syrk(void *buffers[], void *arg)
{
    (void)arg;
    cholesky_syrk(AT(0), AT(1), SIZE);
}

static void gemm(void *buffers[], void *arg)
{
    (void)arg;
    cholesky_gemm(AT(0), AT(1), AT(2), SIZE);
}

static struct starpu_codelet cl_potrf = {.cpu_funcs = {potrf}, .nbuffers = 1, .modes = {STARPU_RW}};
static struct starpu_codelet cl_trsm = {
    .cpu_funcs = {trsm}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}};
static struct starpu_codelet cl_syrk = {
    .cpu_funcs = {syrk}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}};
static struct starpu_codelet cl_gemm = {
    .cpu_funcs = {gemm}, .nbuffers = 3, .modes = {STARPU_R, STARPU_R, STARPU_RW}};

static void factor(starpu_data_handle_t *t, int n)
{
    for (int j = 0; j < n; j++) {
        starpu_mpi_task_insert(MPI_COMM_WORLD, &cl_potrf, STARPU_RW, t[j * n + j], 0);
        for (int i = j + 1; i < n; i++) {
            starpu_mpi_task_insert(MPI_COMM_WORLD, &cl_trsm, STARPU_R, t[j * n + j], STARPU_RW,
                                   t[i * n + j], 0);
        }
        for (int i = j + 1; i < n; i++) {
            for (int c = j + 1; c < i; c++) {
                starpu_mpi_task_insert(MPI_COMM_WORLD, &cl_gemm, STARPU_R, t[i * n + j], STARPU_R,
                                       t[c * n + j], STARPU_RW, t[i * n + c], 0);
            }
            starpu_mpi_task_insert(MPI_COMM_WORLD, &cl_syrk, STARPU_R, t[i * n + j], STARPU_RW,
                                   t[i * n + i], 0);
            starpu_mpi_cache_flush(MPI_COMM_WORLD, t[i * n + j]);
        }
    }
    starpu_task_wait_for_all();
    starpu_mpi_barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    cholesky_job job = cholesky_arguments(argc, argv);
    struct starpu_conf conf;
    int rank, ranks;
    starpu_conf_init(&conf);
    conf.ncpus = 1;
    if (starpu_mpi_init_conf(&argc, &argv, 1, MPI_COMM_WORLD, &conf) != 0) {
        return 1;
    }
    starpu_mpi_comm_rank(MPI_COMM_WORLD, &rank);
    starpu_mpi_comm_size(MPI_COMM_WORLD, &ranks);
    const int n = job.n / job.tile;
    const size_t bytes = (size_t)job.tile * (size_t)job.tile * sizeof(double);
    starpu_data_handle_t *t = calloc((size_t)n * (size_t)n, sizeof *t);
    double **memory = calloc((size_t)n * (size_t)n, sizeof *memory);
    for (int i = 0; i < n * n; i++) {
        const int owner = i % n % ranks; /* by columns, as the other two have it */
        if (owner == rank) {
            memory[i] = malloc(bytes);
        }
        starpu_matrix_data_register(&t[i], owner == rank ? STARPU_MAIN_RAM : -1,
                                    (uintptr_t)memory[i], (uint32_t)job.tile, (uint32_t)job.tile,
                                    (uint32_t)job.tile, sizeof(double));
        starpu_mpi_data_register(t[i], i, owner);
    }
    for (int r = 0; r < job.repeats; r++) {
        for (int i = 0; i < n * n; i++) {
            if (memory[i]) {
                starpu_data_acquire(t[i], STARPU_W);
                cholesky_fill(memory[i], i / n, i % n, job.tile, job.n);
                starpu_data_release(t[i]);
            }
        }
        starpu_mpi_cache_flush_all_data(MPI_COMM_WORLD);
        starpu_mpi_barrier(MPI_COMM_WORLD);
        const double begin = cholesky_now();
        factor(t, n);
        cholesky_time(&job, cholesky_now() - begin);
    }
    for (int i = 0; i < n * n; i++) {
        starpu_data_unregister(t[i]);
    }
    if (memory[n * n - 1]) { /* the rank that has the last element prints */
        job.last = memory[n * n - 1][job.tile * job.tile - 1];
        cholesky_print("starpu", &job);
    }
    starpu_mpi_shutdown();
    return 0;
}
