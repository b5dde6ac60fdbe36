/* baseline.c - what the Python package is compared with: the same tasks, submitted by C. bench_python.py
 * compiles it and calls it. */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <pto/pto.h>

/* An empty kernel, by its prototype in Python: two inputs and an output. */
void nothing(const double *a, const int64_t *an, const int64_t *as, const double *b,
             const int64_t *bn, const int64_t *bs, double *c, const int64_t *cn, const int64_t *cs);
void nothing(const double *a, const int64_t *an, const int64_t *as, const double *b,
             const int64_t *bn, const int64_t *bs, double *c, const int64_t *cn, const int64_t *cs)
{
    (void)a, (void)an, (void)as, (void)b, (void)bn, (void)bs, (void)c, (void)cn, (void)cs;
}

static pto_status empty(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

/* Processor time: other programs do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define WIDTH 64

/* Nanoseconds for each of n tasks, submit to complete: two shared inputs, one output of 64. */
double independent(long n, int workers);
double independent(long n, int workers)
{
    static double data[(WIDTH + 2) * WIDTH];
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_tensor a, b, c[WIDTH];
    pto_config config = PTO_CONFIG_INIT;
    config.workers = workers ? (uint32_t)workers : PTO_NO_WORKERS;
    const int64_t shape[] = {WIDTH};
    bool good = pto_runtime_create(&rt, &config) == PTO_OK &&
                pto_kernel_register(rt, "empty", PTO_VECTOR, empty, NULL, &kernel) == PTO_OK &&
                pto_external_tensor(rt, data, PTO_FLOAT64, 1, shape, &a) == PTO_OK &&
                pto_external_tensor(rt, data + WIDTH, PTO_FLOAT64, 1, shape, &b) == PTO_OK;
    for (int i = 0; good && i < WIDTH; i++) {
        good = pto_external_tensor(rt, data + (i + 2) * WIDTH, PTO_FLOAT64, 1, shape, &c[i]) ==
               PTO_OK;
    }
    double begin = 0;
    for (long i = -1000; good && i < n; i++) {
        if (i == 0) {
            good = pto_wait(rt) == PTO_OK;
            begin = now();
        }
        const long own = (i + 1000) % WIDTH;
        good = good &&
               pto_submit(rt, kernel, pto_input(&a), pto_input(&b), pto_output(&c[own])) == PTO_OK;
    }
    good = good && pto_wait(rt) == PTO_OK;
    const double end = now();
    good = pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK && good;
    return good ? (end - begin) / (double)n : -1;
}
