/* pto/kernel.h - kernels: the functions that do the work.
 *
 * A kernel is a plain C function. It receives its arguments in the order in which they were
 * submitted: tensors as pointer, dtype, shape and strides, scalars as 64-bit values.
 *
 *     static pto_status scale(const pto_call *call)
 *     {
 *         const pto_arg *x = &call->args[0];
 *         float *data = x->data;
 *         for (int64_t i = 0; i < x->shape[0]; i++) {
 *             data[i * x->strides[0]] *= (float)pto_arg_f64(&call->args[1]);
 *         }
 *         return PTO_OK;
 *     }
 *
 *     pto_kernel_register(rt, "scale", PTO_VECTOR, scale, NULL, &kernel);
 *     pto_submit(rt, kernel, pto_inout(&x), pto_scalar(0.5));
 *
 * A kernel runs to its end on one thread, in parallel with tasks that touch other memory. It
 * returns
 *
 *     PTO_OK       The task is done.
 *     PTO_PENDING  The task is not done yet. Some thread will call pto_task_complete, possibly
 *                  before the kernel returns. Until then the memory, shapes and strides that the
 *                  arguments point to stay valid. `call` and `call->args` are valid only until the
 *                  kernel returns, so copy what is needed later.
 *     an error     The task failed; pto_fail says why. Tasks that depend on its outputs are
 *                  skipped. All others run. pto_wait reports the failure.
 *
 * A kernel must not submit tasks, open scopes, wait or read tensors: only the orchestrating thread
 * may. A kernel must not wait for later work of the submitting thread, because that thread may be
 * the one that runs the kernel (see inline_ns and caller_types in pto/config.h).
 */
#ifndef PTO_KERNEL_H
#define PTO_KERNEL_H

#include <pto/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A runtime: rings, workers and submitted tasks. See pto_runtime_create. */
typedef struct pto_runtime pto_runtime;

/* A handle to a submitted task. 0 means no task; a value is never reused. */
typedef uint64_t pto_task;

/* The types of workers. On a CPU they only name groups of threads. */
/* X(name, value, text) */
#define PTO_WORKER_MAP(X)                                                                          \
    X(CUBE, 0, "cube")               /* matrix units */                                            \
    X(VECTOR, 1, "vector")           /* vector units */                                            \
    X(AI_CPU, 2, "ai_cpu")           /* scalar and control code */                                 \
    X(ACCELERATOR, 3, "accelerator") /* copy engines and similar: see pto/work.h */

/* The type of a worker. A kernel is registered for one type. */
typedef enum pto_worker_type {
#define PTO_WORKER_ENUM(name, value, text) PTO_##name = (value),
    PTO_WORKER_MAP(PTO_WORKER_ENUM)
#undef PTO_WORKER_ENUM
        PTO_WORKER_TYPES, /* number of types */
    PTO_KERNEL_TYPE = -1  /* for submit: the type of the kernel */
} pto_worker_type;

/* Returns the name of a worker type: "vector"; "invalid" if it is unknown. */
PTO_API const char *pto_worker_type_name(pto_worker_type type);

/* Sets of types as bit masks: one type, and all types. */
#define PTO_TYPE_BIT(type) (1u << (type))
#define PTO_ALL_TYPES ((1u << PTO_WORKER_TYPES) - 1u)

/* One argument of a kernel call. */
typedef struct pto_arg {
    void *data;             /* element [0, 0, ...]; NULL for a scalar or an empty tensor */
    const int64_t *shape;   /* ndim sizes */
    const int64_t *strides; /* ndim strides, in elements */
    int32_t ndim;           /* */
    pto_dtype dtype;        /* of a scalar: PTO_INT64, PTO_UINT64 or PTO_FLOAT64, with shape NULL */
    union {                 /* value of a scalar */
        uint64_t u64;
        int64_t i64;
        double f64;
    };
} pto_arg;

/* Returns a scalar as a double, whatever type it was submitted as. */
static inline double pto_arg_f64(const pto_arg *arg)
{
    return arg->dtype == PTO_FLOAT64  ? arg->f64
           : arg->dtype == PTO_UINT64 ? (double)arg->u64
                                      : (double)arg->i64;
}

/* Returns a scalar as an integer. A fraction is truncated toward zero. */
static inline int64_t pto_arg_i64(const pto_arg *arg)
{
    return arg->dtype == PTO_FLOAT64 ? (int64_t)arg->f64 : arg->i64;
}

/* The call of a kernel. */
typedef struct pto_call {
    const pto_arg *args; /* tensors and scalars, in the order of submission */
    uint32_t n_args;
    uint32_t worker; /* index of the worker; the orchestrating thread has the last index */
    pto_worker_type worker_type;
    pto_task task;
    void *user;      /* the pointer given to pto_kernel_register */
    pto_runtime *rt; /* for pto_task_complete, pto_cancel and pto_is_cancelled */
} pto_call;

/* A kernel function. The top of pto/kernel.h says what it may do and return. */
typedef pto_status (*pto_kernel_fn)(const pto_call *call);

/* A handle to a registered kernel; 0 means no kernel. */
typedef uint32_t pto_kernel;

/* Registers a kernel. `user` is passed to every call. The name is copied. It need not be unique,
 * but unique names make reports clearer. */
PTO_API pto_status pto_kernel_register(pto_runtime *rt, const char *name, pto_worker_type type,
                                       pto_kernel_fn fn, void *user, pto_kernel *kernel);

/* Sets the error message: pto_error_detail of this thread. Returns `status`, so that a kernel can
 * write
 *     return pto_fail(PTO_KERNEL_FAILED, "pivot %d is zero", k); */
PTO_API pto_status pto_fail(pto_status status, const char *format, ...) PTO_PRINTF(2, 3);

/* Completes a task whose kernel returned PTO_PENDING or is about to. `status` is PTO_OK or an
 * error, as if the kernel had returned it. Call it once, from any thread. PTO_BAD_TASK if there is
 * no such task or it is not pending. */
PTO_API pto_status pto_task_complete(pto_runtime *rt, pto_task task, pto_status status);

/* Returns whether pto_cancel was called. A long kernel can poll it and return early. */
PTO_API bool pto_is_cancelled(const pto_runtime *rt);

#ifdef __cplusplus
}
#endif

#endif /* PTO_KERNEL_H */
