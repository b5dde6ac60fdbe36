/* pto/kernel.h - kernels: the functions that do the work.
 *
 * A kernel is a plain C function. It gets its arguments resolved, in the order in which they were
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
 * It runs to its end on one worker, at the same time as other tasks that touch other memory, and
 * returns
 *
 *     PTO_OK       done
 *     PTO_PENDING  not done yet: somebody, on any thread, will call pto_task_complete. That may
 *                  even happen before the kernel has returned. Until then the memory, shapes and
 *                  strides that the arguments point to stay; `call` and its `args` themselves are
 *                  gone when the kernel returns, so whoever goes on copies what it needs of them.
 *     an error     failed; pto_fail says why. Tasks that depend on its outputs are skipped, all
 *                  others run, and pto_wait reports it.
 *
 * A kernel must not submit, open scopes, wait or read: that is for the orchestrating thread. Nor must
 * it wait for what that thread does after the submit, which may be the one to run it: see brief_ns and
 * caller_types in pto/config.h.
 */
#ifndef PTO_KERNEL_H
#define PTO_KERNEL_H

#include <pto/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What runs tasks: rings, workers, and what was submitted. See pto_runtime_create. */
typedef struct pto_runtime pto_runtime;

/* A task that was submitted. 0 is none; numbers are never used twice. */
typedef uint64_t pto_task;

/* What a worker is. On a machine without such units they are names for kinds of threads. */
/* X(name, value, text) */
#define PTO_WORKER_MAP(X)                                                                          \
    X(CUBE, 0, "cube")               /* matrix units */                                            \
    X(VECTOR, 1, "vector")           /* vector units */                                            \
    X(AI_CPU, 2, "ai_cpu")           /* scalar code, control */                                    \
    X(ACCELERATOR, 3, "accelerator") /* copy engines and the like: see pto/work.h */

/* The types of workers. A kernel is registered for one of them. */
typedef enum pto_worker_type {
#define PTO_WORKER_ENUM(name, value, text) PTO_##name = (value),
    PTO_WORKER_MAP(PTO_WORKER_ENUM)
#undef PTO_WORKER_ENUM
        PTO_WORKER_TYPES, /* how many there are */
    PTO_KERNEL_TYPE = -1  /* at submit: the type the kernel was registered for */
} pto_worker_type;

/* Name of a worker type: "vector"; "invalid" for an unknown one. */
PTO_API const char *pto_worker_type_name(pto_worker_type type);

/* Sets of types, as bits: that of one type, and all of them. */
#define PTO_TYPE_BIT(type) (1u << (type))
#define PTO_ALL_TYPES ((1u << PTO_WORKER_TYPES) - 1u)

/* One argument, as a kernel sees it. */
typedef struct pto_arg {
    void *data;             /* element [0, 0, ...]; NULL for a scalar, or without elements */
    const int64_t *shape;   /* ndim sizes */
    const int64_t *strides; /* ndim strides, in elements */
    int32_t ndim;           /* */
    pto_dtype dtype;        /* a scalar: PTO_INT64, PTO_UINT64 or PTO_FLOAT64, and shape is NULL */
    union {                 /* a scalar */
        uint64_t u64;
        int64_t i64;
        double f64;
    };
} pto_arg;

/* The value of a scalar as a double, whatever kind of number it was submitted as. */
static inline double pto_arg_f64(const pto_arg *arg)
{
    return arg->dtype == PTO_FLOAT64  ? arg->f64
           : arg->dtype == PTO_UINT64 ? (double)arg->u64
                                      : (double)arg->i64;
}

/* The value of a scalar as a whole number; one that has a fraction loses it, toward zero. */
static inline int64_t pto_arg_i64(const pto_arg *arg)
{
    return arg->dtype == PTO_FLOAT64 ? (int64_t)arg->f64 : arg->i64;
}

/* What a kernel is called with. */
typedef struct pto_call {
    const pto_arg *args; /* tensors and scalars, in the order of the parameters */
    uint32_t n_args;
    uint32_t worker; /* number of the worker; the orchestrating thread has the last number */
    pto_worker_type worker_type;
    pto_task task;
    void *user;      /* as registered */
    pto_runtime *rt; /* for pto_task_complete, pto_cancel and pto_is_cancelled */
} pto_call;

/* A kernel function: see the top of pto/kernel.h for what it may do and return. */
typedef pto_status (*pto_kernel_fn)(const pto_call *call);

/* A kernel that was registered; 0 is none. */
typedef uint32_t pto_kernel;

/* Makes a kernel known. The name is copied; it need not be unique, but reports are clearer so. */
PTO_API pto_status pto_kernel_register(pto_runtime *rt, const char *name, pto_worker_type type,
                                       pto_kernel_fn fn, void *user, pto_kernel *kernel);

/* Says why something failed: sets pto_error_detail of this thread and returns `status`, so that a
 * kernel can
 *     return pto_fail(PTO_KERNEL_FAILED, "pivot %d is zero", k); */
PTO_API pto_status pto_fail(pto_status status, const char *format, ...) PTO_PRINTF(2, 3);

/* Ends a task whose kernel returned, or is about to return, PTO_PENDING: `status` is PTO_OK or an
 * error, as if the kernel returned it. From any thread; once. PTO_BAD_TASK if there is no such
 * task, or it is not pending. */
PTO_API pto_status pto_task_complete(pto_runtime *rt, pto_task task, pto_status status);

/* Whether pto_cancel was called: a long kernel may look from time to time, and end early. */
PTO_API bool pto_is_cancelled(const pto_runtime *rt);

#ifdef __cplusplus
}
#endif

#endif /* PTO_KERNEL_H */
