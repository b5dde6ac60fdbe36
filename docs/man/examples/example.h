/* example.h - what the examples of the manual pages share.
 *
 * An example is a program: it defines `run`, which gets a runtime, and the tests compile and run it. The
 * manual pages show the parts between the comments "example" and "end". A page shows the part that names
 * it ("example: pto_wait"), or else the shortest one that uses one of its functions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return pto_fail(PTO_CORRUPT, "line %d: not true: %s", __LINE__, #condition);           \
        }                                                                                          \
    } while (0)

enum { N = 8 };

static float a[N] = {0, 1, 2, 3, 4, 5, 6, 7}, b[N] = {10, 10, 10, 10, 10, 10, 10, 10}, c[N];
static pto_tensor ta, tb, tc;      /* over a, b and c */
static pto_kernel add, scale, bad; /* third = first + second; first *= second; fails */

static pto_status run(pto_runtime *rt);

static pto_status add_fn(const pto_call *call)
{
    const float *x = call->args[0].data, *y = call->args[1].data;
    float *z = call->args[2].data;
    for (int64_t i = 0; i < call->args[2].shape[0]; i++) {
        z[i] = x[i] + y[i];
    }
    return PTO_OK;
}

static pto_status scale_fn(const pto_call *call)
{
    float *x = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        x[i] *= (float)pto_arg_f64(&call->args[1]);
    }
    return PTO_OK;
}

static pto_status bad_fn(const pto_call *call)
{
    return pto_fail(PTO_KERNEL_FAILED, "task %llu was to fail", (unsigned long long)call->task);
}

static pto_status begin(pto_runtime **rt)
{
    const int64_t shape[] = {N};
    PTO_TRY(pto_runtime_create(rt, NULL));
    PTO_TRY(pto_kernel_register(*rt, "add", PTO_VECTOR, add_fn, NULL, &add));
    PTO_TRY(pto_kernel_register(*rt, "scale", PTO_VECTOR, scale_fn, NULL, &scale));
    PTO_TRY(pto_kernel_register(*rt, "bad", PTO_VECTOR, bad_fn, NULL, &bad));
    PTO_TRY(pto_external_tensor(*rt, a, PTO_FLOAT32, 1, shape, &ta));
    PTO_TRY(pto_external_tensor(*rt, b, PTO_FLOAT32, 1, shape, &tb));
    return pto_external_tensor(*rt, c, PTO_FLOAT32, 1, shape, &tc);
}

int main(void)
{
    pto_runtime *rt = NULL;
    pto_status status = begin(&rt);
    status = status ? status : run(rt);
    if (status != PTO_OK) {
        printf("%s: %s\n", pto_status_name(status), pto_error_detail());
    }
    PTO_IGNORE(pto_runtime_destroy(&rt, PTO_CANCEL));
    return status != PTO_OK;
}
