/* cholesky_scalapack.c - the Cholesky comparison: pdpotrf of ScaLAPACK. See cholesky.h. */
#include <mpi.h>

#include "cholesky.h"

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
void Cblacs_exit(int go_on);
int numroc_(const int *n, const int *nb, const int *at, const int *from, const int *of);
void descinit_(int *desc, const int *m, const int *n, const int *mb, const int *nb, const int *rsrc,
               const int *csrc, const int *context, const int *lld, int *info);
void pdpotrf_(const char *uplo, const int *n, double *a, const int *ia, const int *ja,
              const int *desc, int *info);

int main(int argc, char **argv)
{
    cholesky_job job = cholesky_arguments(argc, argv);
    int rank, ranks, context, rows, columns, row, column, info, desc[9];
    const int zero = 0, one = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Cblacs_get(-1, 0, &context);
    Cblacs_gridinit(&context, "Row", 1, ranks); /* by columns, as the other two have it */
    Cblacs_gridinfo(context, &rows, &columns, &row, &column);
    const int mine = numroc_(&job.n, &job.tile, &column, &zero, &columns);
    double *a = malloc((size_t)job.n * (size_t)(mine > 0 ? mine : 1) * sizeof *a);
    descinit_(desc, &job.n, &job.n, &job.tile, &job.tile, &zero, &zero, &context, &job.n, &info);
    for (int r = 0; r < job.repeats && a && info == 0; r++) {
        for (int c = 0; c < mine; c++) {
            const int j = (c / job.tile * columns + column) * job.tile + c % job.tile;
            for (int i = 0; i < job.n; i++) {
                a[(size_t)c * (size_t)job.n + (size_t)i] = cholesky_element(i, j, job.n);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = cholesky_now();
        pdpotrf_("L", &job.n, a, &one, &one, desc, &info);
        MPI_Barrier(MPI_COMM_WORLD);
        cholesky_time(&job, cholesky_now() - begin);
    }
    const int last = (job.n / job.tile - 1) % columns;
    if (column == last && a && info == 0) { /* the rank that has the last element prints */
        job.last = a[(size_t)job.n * (size_t)mine - 1];
        cholesky_print("scalapack", &job);
    }
    Cblacs_gridexit(context);
    Cblacs_exit(1);
    MPI_Finalize();
    return info != 0;
}
