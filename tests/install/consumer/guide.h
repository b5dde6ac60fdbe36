/* guide.h - what stands around the pieces of docs/guide.md that are not programs of their own.
 *
 * Three vectors of eight floats, tensors over them, and four kernels. A piece is the body of
 * a function that may leave with an error; whoever includes this defines it as `piece`.
 */
#include <pto/execute.h>
#include <pto/pto.h>
#include <pto/work.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 8 };

static pto_runtime *rt;
static float a[N], b[N], c[N]; /* 0 1 2 3 4 5 6 7, eight tens, eight zeros */
static pto_tensor ta, tb, tc;  /* over them */
static pto_kernel fill, add, scale, root;

/* args[0] = args[1], a number */
static pto_status fill_fn(const pto_call *call)
{
    float *x = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        x[i * call->args[0].strides[0]] = (float)call->args[1].f64;
    }
    return PTO_OK;
}

/* args[2] = args[0] + args[1] */
static pto_status add_fn(const pto_call *call)
{
    const pto_arg *x = &call->args[0], *y = &call->args[1], *z = &call->args[2];
    for (int64_t i = 0; i < z->shape[0]; i++) {
        ((float *)z->data)[i * z->strides[0]] = ((const float *)x->data)[i * x->strides[0]] +
                                                ((const float *)y->data)[i * y->strides[0]];
    }
    return PTO_OK;
}

/* args[0] *= args[1], a number */
static pto_status scale_fn(const pto_call *call)
{
    float *x = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        x[i * call->args[0].strides[0]] *= (float)call->args[1].f64;
    }
    return PTO_OK;
}

/* args[1] = square root of args[0], and a failure if there is none */
static pto_status root_fn(const pto_call *call)
{
    const float *x = call->args[0].data;
    float *y = call->args[1].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        if (x[i] < 0) {
            return pto_fail(PTO_KERNEL_FAILED, "element %d is %g", (int)i, x[i]);
        }
        y[i] = sqrtf(x[i]);
    }
    return PTO_OK;
}

static pto_status guide_begin(void)
{
    const int64_t shape[] = {N};
    PTO_TRY(pto_runtime_create(&rt, NULL));
    PTO_TRY(pto_kernel_register(rt, "fill", PTO_VECTOR, fill_fn, NULL, &fill));
    PTO_TRY(pto_kernel_register(rt, "add", PTO_VECTOR, add_fn, NULL, &add));
    PTO_TRY(pto_kernel_register(rt, "scale", PTO_VECTOR, scale_fn, NULL, &scale));
    PTO_TRY(pto_kernel_register(rt, "root", PTO_VECTOR, root_fn, NULL, &root));
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 10;
        c[i] = 0;
    }
    PTO_TRY(pto_external_tensor(rt, a, PTO_FLOAT32, 1, shape, &ta));
    PTO_TRY(pto_external_tensor(rt, b, PTO_FLOAT32, 1, shape, &tb));
    return pto_external_tensor(rt, c, PTO_FLOAT32, 1, shape, &tc);
}

static inline void show(const char *name, const float *x)
{
    printf("%s =", name);
    for (int i = 0; i < N; i++) {
        printf(" %g", x[i]);
    }
    printf("\n");
}

static pto_status piece(void);

int main(void)
{
    pto_status status = guide_begin();
    status = status ? status : piece();
    if (status != PTO_OK) {
        printf("%s: %s\n", pto_status_name(status), pto_error_detail());
    }
    PTO_IGNORE(pto_runtime_destroy(&rt, PTO_CANCEL)); /* the piece may have left a failure */
    return status == PTO_OK ? 0 : 1;
}
