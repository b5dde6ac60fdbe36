/* workloads_decode.c - the kernels of `decode` in a plain loop, as a peer of bench_workloads.
 *
 *   workloads_decode_NAME decode TOKENS TILE CHECK
 *
 * prints the seconds of one run. The loop is the serial one that checks the workload
 * (examples/workloads/decode_serial.c), with each product in one call. Built with
 * WORKLOADS_THREADED the products are OpenBLAS's, on OMP_NUM_THREADS threads: this file then
 * takes the place of blas.c. Without, they are those of the workload, on one thread.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../examples/workloads/blas.h"
#include "../../examples/workloads/decode.h"
#include "../workloads_shared.h"

#if defined(WORKLOADS_THREADED)

enum { ROW_MAJOR = 101, AS_IT_IS = 111 };
void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
void openblas_set_num_threads(int threads);

const char *blas_start(void)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    openblas_set_num_threads(threads ? (int)strtol(threads, NULL, 10) : 1);
    return "OpenBLAS, threaded";
}

void blas_sgemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                int64_t ldb, float beta, float *c, int64_t ldc)
{
    cblas_sgemm(ROW_MAJOR, AS_IT_IS, AS_IT_IS, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb,
                beta, c, (int)ldc);
}

#endif

/* Of the workload's job, which this program does without. */
void workload_progress(workload_job *job, uint64_t done)
{
    (void)job;
    (void)done;
}

void workload_say(workload_job *job, const char *format, ...)
{
    (void)job;
    (void)format;
}

static pto_status run(workload_job *job, double *seconds, bool check)
{
    PTO_TRY(decode_prepare(job));
    decode *d = job->data;
    timing t = {.n = 0};
    while (timing_goes_on(&t)) {
        const double start = bench_now_ns();
        PTO_TRY(decode_serial(&d->model, &d->prompts, INT_MAX, d->page, NULL, &d->result));
        timing_add(&t, start);
    }
    *seconds = timing_result(&t);
    if (check) {
        decode_comparison c;
        PTO_TRY(decode_reference(&d->model, &d->prompts, &d->result, d->compare, &c));
        return c.wrong[0] ? pto_fail(PTO_KERNEL_FAILED, "%s", c.wrong) : PTO_OK;
    }
    return PTO_OK;
}

int main(int argc, char **argv)
{
    int64_t number[DECODE_OPTIONS];
    const char *text[DECODE_OPTIONS];
    double seconds = 0;
    if (argc != 5) {
        fprintf(stderr, "usage: %s decode TOKENS TILE CHECK\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < DECODE_OPTIONS; i++) {
        number[i] = decode_options[i].number;
        text[i] = decode_options[i].text;
    }
    number[DECODE_BATCH] = DECODE_SEQUENCES;
    number[DECODE_TOKENS] = strtoll(argv[2], NULL, 10);
    workload_job job = {.number = number, .text = text, .seed = 1};
    const pto_status status = run(&job, &seconds, argv[4][0] == '1');
    printf("%.9f\n", seconds);
    if (status != PTO_OK) {
        printf("wrong: %s\n", pto_error_detail());
    }
    decode_discard(&job);
    return status == PTO_OK ? 0 : 1;
}
