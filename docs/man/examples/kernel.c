/* Kernels: registration, arguments, failures, pending tasks. */
#include "example.h"

#include <pthread.h>

/* example: pto_kernel_register */
/* y = alpha * x + y */
static pto_status axpy(const pto_call *call)
{
    const double alpha = pto_arg_f64(&call->args[0]);
    const float *x = call->args[1].data;
    float *y = call->args[2].data;
    for (int64_t i = 0; i < call->args[2].shape[0]; i++) {
        y[i] += (float)alpha * x[i];
    }
    return PTO_OK;
}

static pto_status register_axpy(pto_runtime *rt, pto_kernel *kernel)
{
    return pto_kernel_register(rt, "axpy", PTO_VECTOR, axpy, NULL, kernel);
}
/* end */

/* example: pto_arg_f64 pto_arg_i64 */
static pto_status set_one(const pto_call *call)
{
    float *x = call->args[0].data;
    const int64_t at = pto_arg_i64(&call->args[1]); /* from any integer or floating-point scalar */
    x[at] = (float)pto_arg_f64(&call->args[2]);
    return PTO_OK;
}
/* end */

/* example: pto_fail */
static pto_status invert(const pto_call *call)
{
    float *x = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        if (x[i] == 0) {
            return pto_fail(PTO_KERNEL_FAILED, "element %lld is zero", (long long)i);
        }
        x[i] = 1 / x[i];
    }
    return PTO_OK;
}
/* end */

/* example: pto_task_complete */
typedef struct request {
    pto_runtime *rt;
    pto_task task;
} request;

static void *engine(void *context) /* stands for a device that works on its own */
{
    request *r = context;
    PTO_IGNORE(pto_task_complete(r->rt, r->task, PTO_OK));
    free(r);
    return NULL;
}

static pto_status start_engine(const pto_call *call)
{
    pthread_t thread;
    request *r = malloc(sizeof *r);
    if (!r) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for a request");
    }
    *r = (request){call->rt, call->task}; /* `call` is gone when the kernel returns */
    if (pthread_create(&thread, NULL, engine, r) != 0) {
        free(r);
        return pto_fail(PTO_SYSTEM, "no thread");
    }
    pthread_detach(thread);
    return PTO_PENDING;
}
/* end */

/* example: pto_is_cancelled */
static pto_status search(const pto_call *call)
{
    for (int64_t step = 0; step < 1000; step++) {
        if (pto_is_cancelled(call->rt)) {
            return pto_fail(PTO_CANCELLED, "stopped at step %lld", (long long)step);
        }
    }
    return PTO_OK;
}
/* end */

static pto_status run(pto_runtime *rt)
{
    pto_kernel kernel;
    PTO_TRY(register_axpy(rt, &kernel));
    /* example: pto_kernel_copies */
    pto_kernel exchange;
    PTO_TRY(pto_kernel_register(rt, "exchange", PTO_ACCELERATOR, start_engine, NULL, &exchange));
    PTO_TRY(pto_kernel_copies(rt, exchange)); /* its tensors may be on two devices */
    /* end */
    /* example: pto_kernel_declare */
    PTO_TRY(pto_kernel_declare(rt, kernel, "f64 alpha, in f32[1] x, inout f32[1] y"));
    pto_status status = pto_submit(rt, kernel, pto_input(&ta), pto_inout(&tb));
    /* refused: the detail says that parameter 0 must be a scalar f64 */
    /* end */
    CHECK(status == PTO_MISMATCH && pto_refused(rt, NULL));
    PTO_TRY(pto_submit(rt, kernel, pto_scalar(2.0), pto_input(&ta), pto_inout(&tb)));
    PTO_TRY(pto_kernel_register(rt, "set_one", PTO_VECTOR, set_one, NULL, &kernel));
    PTO_TRY(pto_submit(rt, kernel, pto_inout(&tb), pto_scalar(3), pto_scalar(7)));
    PTO_TRY(pto_kernel_register(rt, "engine", PTO_ACCELERATOR, start_engine, NULL, &kernel));
    PTO_TRY(pto_submit(rt, kernel, pto_inout(&tb)));
    PTO_TRY(pto_kernel_register(rt, "search", PTO_AI_CPU, search, NULL, &kernel));
    PTO_TRY(pto_submit(rt, kernel));
    PTO_TRY(pto_wait(rt));
    CHECK(b[1] == 12 && b[3] == 7);
    PTO_TRY(pto_kernel_register(rt, "invert", PTO_VECTOR, invert, NULL, &kernel));
    PTO_TRY(pto_submit(rt, kernel, pto_inout(&ta)));
    CHECK(pto_wait(rt) == PTO_TASK_FAILED);
    PTO_TRY(pto_clear_error(rt));
    /* example: pto_thread_count */
    size_t each = 1024; /* floats of scratch for each thread: at call->worker * each */
    float *scratch = calloc(pto_thread_count(rt) * each, sizeof *scratch);
    /* end */
    free(scratch);
    /* example: pto_worker_type_name PTO_TYPE_BIT */
    uint32_t types = PTO_TYPE_BIT(PTO_CUBE) | PTO_TYPE_BIT(PTO_VECTOR);
    for (int type = 0; type < PTO_WORKER_TYPES; type++) {
        if (types & PTO_TYPE_BIT(type)) {
            printf("%s\n", pto_worker_type_name((pto_worker_type)type));
        }
    }
    /* end */
    return PTO_OK;
}
