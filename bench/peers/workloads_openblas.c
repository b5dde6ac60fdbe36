/* workloads_openblas.c - OpenBLAS's own threaded dpotrf and dgemm as a peer of bench_workloads: whole
 * matrices, on OMP_NUM_THREADS threads. TILE means nothing here. WORKLOADS_TURNED=1: dpotrf works on
 * the other triangle of the symmetric matrix, which is another routine inside.
 */
#include "workloads_peer.h"

/* Declared here, for its headers lie elsewhere on every system, and these names never change. */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t length);
void openblas_set_num_threads(int threads);

static void peer_begin(const problem *p)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    (void)p;
    openblas_set_num_threads(threads ? (int)strtol(threads, NULL, 10) : 1);
}

static void peer_run(const problem *p)
{
    const int n = (int)p->n;
    const int64_t one = p->n * p->n;
    int info;
    if (!p->is_bgemm) {
        /* By columns the same memory is the transposed matrix, and its upper factor is our lower
         * one. */
        dpotrf_(p->is_turned ? "L" : "U", &n, p->a, &n, &info, 1);
        return;
    }
    for (int64_t l = 0; l < BGEMM_BATCH; l++) {
        blas_dgemm(false, p->n, p->n, p->n, 1, p->a + l * one, p->n, p->b + l * one, p->n, 1,
                   p->c + l * one, p->n);
    }
}

static void peer_end(void)
{
}

int main(int argc, char **argv)
{
    const char *turned = getenv("WORKLOADS_TURNED");
    return peer_main(argc, argv, turned && turned[0] == '1');
}
