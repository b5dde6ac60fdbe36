/* pto/kernel.h - kernels: the functions that do the work.
 *
 * A kernel is a plain C function. It receives its arguments in the order in which they were
 * submitted: tensors as pointer, dtype, shape and strides, scalars as 64-bit values.
 *
 *     static pto_status scale(const pto_call *call)
 *     {
 *         const pto_arg *x = &call->args[0];
 *         float *data = (float *)x->data;
 *         for (int64_t i = 0; i < x->shape[0]; i++) {
 *             data[i * x->strides[0]] *= (float)pto_arg_f64(&call->args[1]);
 *         }
 *         return PTO_OK;
 *     }
 *
 *     PTO_TRY(pto_kernel_register(rt, "scale", PTO_VECTOR, scale, NULL, &kernel));
 *     PTO_TRY(pto_submit(rt, kernel, pto_inout(&x), pto_scalar(0.5)));
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
    pto_device device;      /* where the memory is; `data` can be used by this device's kernels */
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
    uint32_t worker; /* index of the worker among those of the device; of the CPU the orchestrating
                        thread has the last one */
    pto_worker_type worker_type;
    pto_task task;
    void *user;        /* the pointer given to pto_kernel_register */
    pto_runtime *rt;   /* for pto_task_complete, pto_cancel and pto_is_cancelled */
    pto_device device; /* that the task runs on; it is current on this thread */
    void *stream;      /* of the device (pto_device_ops); NULL: it has none */
} pto_call;

/* How many threads run kernels: the workers, and the orchestrating thread if it runs any
 * (caller_types in pto/config.h). In every call, call->worker is less. So scratch memory needs no
 * lock if there is one piece for each thread:
 *     float *scratch = (float *)calloc(pto_thread_count(rt) * (size_t)n, sizeof *scratch);
 *     float *mine = scratch + call->worker * (size_t)n; // in the kernel
 * The number never changes. Any thread may ask, and kernels too. */
PTO_API uint32_t pto_thread_count(const pto_runtime *rt);

/* A kernel function. The top of pto/kernel.h says what it may do and return. */
typedef pto_status (*pto_kernel_fn)(const pto_call *call);

/* A handle to a registered kernel; 0 means no kernel. It is valid in its own runtime only. */
typedef uint64_t pto_kernel;

/* Registers a kernel. `user` is passed to every call. The name is copied. It must not be empty
 * (PTO_BAD_PARAM). Two kernels may have the same name, but unique names make reports clearer.
 * Control characters of a name, such as a newline, become '?', since reports are made of lines. */
PTO_API PTO_MUST_CHECK pto_status pto_kernel_register(pto_runtime *rt, const char *name,
                                                      pto_worker_type type, pto_kernel_fn fn,
                                                      void *user, pto_kernel *kernel);

/* Declares the parameters of a kernel, so that submit checks them. This is optional. Without it a
 * kernel has to check its arguments itself: a tensor of doubles where it expects floats is garbage,
 * not an error. With it such a submit is refused with PTO_MISMATCH, and the detail names the line,
 * the parameter and what was declared.
 *
 *     PTO_TRY(pto_kernel_register(rt, "gemm", PTO_CUBE, gemm, NULL, &kernel));
 *     PTO_TRY(pto_kernel_declare(rt, kernel, "in f32[2] a, in f32[2] b, inout f32[2] c, f64 alpha"));
 *
 * A declaration lists the parameters of the submit in their order, with commas between them:
 *
 *     in f32[2] a        a tensor: pto_input, dtype FLOAT32, 2 dims. The others are out and inout
 *     f64 alpha          a scalar: i64, u64 or f64, the type that pto_scalar chose
 *     in any[1] x        any dtype; "any x" is a scalar of any type, for pto_arg_i64 and pto_arg_f64
 *     in f32 x           any number of dims
 *     in f32[2] x ...    last: any number of parameters like this, also none
 *     ...                last: any further parameters
 *
 * The dtypes are f32, f16, bf16, f64, i8, i16, i32, i64, u8, u64 and bool. Names are optional,
 * consist of ASCII letters, digits and _, and are used in messages. "" declares that there are no
 * parameters. pto_nodep changes nothing, and pto_after is no parameter of the kernel: it may stand
 * anywhere.
 *
 * A kernel is declared once, before or after its first submit. PTO_BAD_DECLARATION: the text cannot
 * be read, and the detail says where; the kernel then stays as it was. */
PTO_API PTO_MUST_CHECK pto_status pto_kernel_declare(pto_runtime *rt, pto_kernel kernel,
                                                     const char *declaration);

/* Adds a variant of a kernel for a type of device. The function given to pto_kernel_register is the
 * variant for the CPU. A task runs on the device where its tensors are, by the variant for that
 * device, on a worker of the same type. A submit is refused if there is none (PTO_NOT_IMPLEMENTED),
 * or if its tensors are on two devices (PTO_DEVICES_DIFFER).
 *
 *     PTO_TRY(pto_kernel_register(rt, "gemm", PTO_CUBE, gemm_cpu, NULL, &kernel));
 *     PTO_TRY(pto_kernel_variant(rt, kernel, PTO_DEVICE_SIM, gemm_sim, NULL));
 *
 * A kernel has one variant for each type of device. `user` is passed to its calls. */
PTO_API PTO_MUST_CHECK pto_status pto_kernel_variant(pto_runtime *rt, pto_kernel kernel,
                                                     pto_device_type type, pto_kernel_fn fn,
                                                     void *user);

/* Declares that a kernel copies: its tensors may be on two devices. It runs on that of the first
 * tensor that is not on the CPU, outputs before inputs. (To copy, use pto_copy. This is for kernels
 * that can reach the memory of both devices.) */
PTO_API PTO_MUST_CHECK pto_status pto_kernel_copies(pto_runtime *rt, pto_kernel kernel);

/* Sets the error message: pto_error_detail of this thread. Returns `status`, so that a kernel can
 * write
 *     return pto_fail(PTO_KERNEL_FAILED, "pivot %d is zero", k); */
PTO_API PTO_MUST_CHECK pto_status pto_fail(pto_status status, const char *format, ...)
    PTO_PRINTF(2, 3);

/* Completes a task whose kernel returned PTO_PENDING or is about to. `status` is PTO_OK or an
 * error up to 255, as if the kernel had returned it. Call it once, from any thread. PTO_BAD_TASK if
 * there is no such task or it is not pending. */
PTO_API PTO_MUST_CHECK pto_status pto_task_complete(pto_runtime *rt, pto_task task,
                                                    pto_status status);

/* Returns whether pto_cancel was called. A long kernel can poll it and return early. */
PTO_API bool pto_is_cancelled(const pto_runtime *rt);

#ifdef __cplusplus
}
#endif

#endif /* PTO_KERNEL_H */
