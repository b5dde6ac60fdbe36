/* survive.c - a kernel crashes, and the program goes on: its workers are processes of their own.
 *
 * Four tasks square a number each. The third one follows a null pointer. Its worker process dies; the
 * program learns which task it was, starts a fresh process, and everything else is computed.
 */
#include <pto/process.h>
#include <stdio.h>
#include <string.h>

static pto_status square(const pto_call *call)
{
    float *x = call->args[0].data;
    if (*x == 2) {
        x = (float *)call->args[1].data; /* NULL: a bug */
    }
    *x *= *x;
    return PTO_OK;
}

static pto_status run(pto_runtime *rt)
{
    pto_kernel kernel;
    pto_tensor t[4], empty;
    void *memory;
    PTO_TRY(pto_kernel_register(rt, "square", PTO_VECTOR, square, NULL, &kernel));
    PTO_TRY(pto_shared_alloc(rt, 4 * sizeof(float), &memory)); /* the worker processes see it */
    float *x = memory;
    PTO_TRY(pto_external_tensor(rt, NULL, PTO_FLOAT32, 1, (int64_t[]){0}, &empty));
    for (int i = 0; i < 4; i++) {
        x[i] = (float)i;
        PTO_TRY(pto_external_tensor(rt, &x[i], PTO_FLOAT32, 0, NULL, &t[i]));
        PTO_TRY(pto_submit(rt, kernel, pto_inout(&t[i]), pto_input(&empty)));
    }
    pto_status s = pto_wait(rt);
    while (s == PTO_WORKER_LOST) {
        printf("lost:   %s\n", strchr(pto_error_detail(), ' ') + 1);
        PTO_TRY(pto_recover(rt));
        s = pto_wait(rt);
    }
    printf("wait:   %s\n", pto_error_detail());
    printf("values: %g %g (lost) %g\n", (double)x[0], (double)x[1], (double)x[3]);
    return pto_clear_error(rt);
}

int main(void)
{
    pto_runtime *rt = NULL;
    pto_config config = PTO_CONFIG_INIT;
    config.place = PTO_PLACE_PROCESS;
    config.workers = 2;
    const bool bad = pto_runtime_create(&rt, &config) || run(rt) ||
                     pto_runtime_destroy(&rt, PTO_WAIT);
    if (bad) {
        printf("failed: %s\n", pto_error_detail());
    }
    return bad;
}
