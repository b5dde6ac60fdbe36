/* pto/pto.h - run ordinary sequential C over tensors as a parallel dataflow graph.
 *
 * Submit kernels in the order in which a serial program would call them. The runtime derives the
 * dependencies from the memory that each task reads and writes. It runs independent tasks in
 * parallel, and it leaves exactly the memory that the serial program would have left.
 *
 *     pto_runtime *rt;
 *     pto_kernel add;
 *     pto_runtime_create(&rt, NULL);
 *     pto_kernel_register(rt, "add", PTO_VECTOR, add_fn, NULL, &add);
 *
 *     PTO_SCOPE(rt) {                                       // the lifetime of managed tensors
 *         pto_tensor sum;
 *         pto_temp(rt, PTO_FLOAT32, 1, (int64_t[]){n}, &sum);   // no memory yet
 *         pto_submit(rt, add, pto_input(&a), pto_input(&b), pto_output(&sum));
 *         pto_submit(rt, add, pto_input(&sum), pto_input(&sum), pto_output(&c));
 *     }
 *     pto_wait(rt);
 *     pto_runtime_destroy(&rt, PTO_WAIT);
 *
 * One thread orchestrates a runtime: the thread that created it. The functions of this header are
 * for that thread. On another thread, or inside a kernel, they fail. The exceptions are pto_cancel,
 * pto_is_cancelled, pto_stats and pto_task_complete, which any thread may call.
 *
 * Functions that can fail return a pto_status (pto/status.h). A call that is refused changes
 * nothing.
 */
#ifndef PTO_PTO_H
#define PTO_PTO_H

#include <pto/config.h>
#include <pto/kernel.h>
#include <pto/observe.h>
#include <pto/status.h>
#include <pto/tensor.h>
#include <pto/tensormap.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns from the calling function with the status of a call that failed. */
#define PTO_TRY(call)                                                                              \
    do {                                                                                           \
        pto_status pto_try_ = (call);                                                              \
        if (pto_try_ != PTO_OK) {                                                                  \
            return pto_try_;                                                                       \
        }                                                                                          \
    } while (0)

/* ---- Life -------------------------------------------------------------------------------- */

/* Creates a runtime with the given configuration (pto/config.h); NULL means all defaults. The
 * calling thread becomes its orchestrating thread. Memory is only reserved: a large heap costs
 * nothing until tasks fill it. */
PTO_API pto_status pto_runtime_create(pto_runtime **rt, const pto_config *config);

/* What happens to unfinished tasks when a runtime is destroyed. */
typedef enum pto_ending {
    PTO_WAIT,   /* run everything that was submitted */
    PTO_CANCEL, /* skip tasks that have not started, and end open scopes */
} pto_ending;

/* Destroys a runtime and sets *rt to NULL. Running and pending tasks are waited for in either case.
 * With PTO_WAIT an open scope is an error, PTO_OPEN_SCOPE, and the runtime stays alive. If a
 * failure was never reported, it is returned, and the runtime is destroyed all the same. NULL is
 * allowed. */
PTO_API pto_status pto_runtime_destroy(pto_runtime **rt, pto_ending ending);

/* ---- Parameters -------------------------------------------------------------------------- */

/* X(name, value, text). Zero is no kind, so that a forgotten one is noticed. */
#define PTO_PARAM_MAP(X)                                                                           \
    X(INPUT, 1, "input")                                                                           \
    X(OUTPUT, 2, "output")                                                                         \
    X(INOUT, 3, "in/out")                                                                          \
    X(SCALAR, 4, "scalar")                                                                         \
    X(AFTER, 5, "after")

/* What a task does with a parameter. */
typedef enum pto_param_kind {
    PTO_PARAM_NONE = 0, /* an uninitialized parameter is rejected */
#define PTO_PARAM_ENUM(name, value, text) PTO_PARAM_##name = (value),
    PTO_PARAM_MAP(PTO_PARAM_ENUM)
#undef PTO_PARAM_ENUM
} pto_param_kind;

/* One parameter of a task. Make it with pto_input and the functions below. */
typedef struct pto_param {
    pto_param_kind kind;
    uint16_t nodep; /* nonzero: creates no dependencies */
    uint16_t dtype; /* of a scalar: PTO_INT64, PTO_UINT64 or PTO_FLOAT64 */
    union {
        const pto_tensor *tensor; /* read during submit; the pointer is not kept */
        uint64_t u64;
        int64_t i64;
        double f64;
        pto_task task;
    };
} pto_param;

/* Makes a parameter from a tensor. The task reads an input, writes an output without reading its
 * previous contents, and does both with an inout. */
static inline pto_param pto_input(const pto_tensor *t)
{
    pto_param p;
    p.kind = PTO_PARAM_INPUT;
    p.nodep = p.dtype = 0;
    p.tensor = t;
    return p;
}

static inline pto_param pto_output(const pto_tensor *t)
{
    pto_param p = pto_input(t);
    p.kind = PTO_PARAM_OUTPUT;
    return p;
}

static inline pto_param pto_inout(const pto_tensor *t)
{
    pto_param p = pto_input(t);
    p.kind = PTO_PARAM_INOUT;
    return p;
}

/* Makes a task start only after another task is complete, whatever memory they touch. */
static inline pto_param pto_after(pto_task task)
{
    pto_param p;
    p.kind = PTO_PARAM_AFTER;
    p.nodep = p.dtype = 0;
    p.task = task;
    return p;
}

/* Excludes a parameter from dependency tracking: the program guarantees the order itself. Managed
 * memory still stays alive for as long as the task needs it. */
static inline pto_param pto_nodep(pto_param p)
{
    p.nodep = 1;
    return p;
}

/* Makes a scalar parameter of one type. pto_scalar selects the right one. */
static inline pto_param pto_scalar_i64(int64_t value)
{
    pto_param p;
    p.kind = PTO_PARAM_SCALAR;
    p.nodep = 0;
    p.dtype = PTO_INT64;
    p.i64 = value;
    return p;
}

static inline pto_param pto_scalar_u64(uint64_t value)
{
    pto_param p = pto_scalar_i64(0);
    p.dtype = PTO_UINT64;
    p.u64 = value;
    return p;
}

static inline pto_param pto_scalar_f64(double value)
{
    pto_param p = pto_scalar_i64(0);
    p.dtype = PTO_FLOAT64;
    p.f64 = value;
    return p;
}

/* Makes a parameter from a number, passed by value. The kernel reads it with pto_arg_i64 or
 * pto_arg_f64, which convert. Unconverted, an integer is in args[i].i64 (or .u64), a floating-point
 * number in args[i].f64. */
#ifndef __cplusplus
#define pto_scalar(value)                                                                          \
    _Generic((value), float                                                                        \
             : pto_scalar_f64, double                                                              \
             : pto_scalar_f64, long double                                                         \
             : pto_scalar_f64, unsigned long                                                       \
             : pto_scalar_u64, unsigned long long                                                  \
             : pto_scalar_u64, default                                                             \
             : pto_scalar_i64)(value)
#endif

/* ---- Tasks ------------------------------------------------------------------------------- */

/* Submits a task. `type` is the worker type of the kernel, or PTO_KERNEL_TYPE. `task` receives the
 * handle of the task; it may be NULL.
 *
 * Submit may have to wait for room in a ring, and runs other tasks in the meantime. It runs a short
 * kernel itself (inline execution: see inline_ns in pto/config.h). So do not hold a lock here that a
 * kernel takes.
 *
 * PTO_STALLED: no room can ever become free, because an open scope holds the ring and only the
 * caller can end that scope. The detail names the ring, the task, the scope and what to change.
 * PTO_TOO_LARGE: the task would not fit into an empty ring. */
PTO_API pto_status pto_submit_task_at(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                                      const pto_param *params, size_t n_params, pto_task *task,
                                      const char *file, int line);

#define pto_submit_task(rt, kernel, type, params, n_params, task)                                  \
    pto_submit_task_at((rt), (kernel), (type), (params), (n_params), (task), __FILE__, __LINE__)

/* Submits a task, with its parameters as arguments of the call:
 *     pto_submit(rt, kernel, pto_input(&a), pto_output(&b), pto_scalar(3));
 * Otherwise it is the same as pto_submit_task. */
#ifndef __cplusplus
#define pto_submit(rt, kernel, ...)                                                                \
    pto_submit_task_at((rt), (kernel), PTO_KERNEL_TYPE, (const pto_param[]){__VA_ARGS__},          \
                       sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param), NULL,         \
                       __FILE__, __LINE__)
#endif

/* The last task that was submitted, or 0 if there was none. A pto_alloc counts as a task, too. */
PTO_API pto_task pto_last_task(const pto_runtime *rt);

/* ---- Memory ------------------------------------------------------------------------------ */

/* A managed buffer: memory that belongs to the runtime. It lives until the nearest enclosing
 * boundary scope ends, or the outermost scope if there is no boundary scope. From then on every use
 * of it is refused. */
typedef struct pto_buffer {
    uint64_t owner;
    uint64_t bytes;
    uint32_t generation;
} pto_buffer;

/* Creates a buffer without memory. The first task that writes it must write all of it; that task
 * allocates the memory. */
PTO_API pto_status pto_create_buffer(pto_runtime *rt, uint64_t bytes, pto_buffer *buffer);

/* Makes a dense tensor at the start of a buffer. `version` counts rewrites of the contents and
 * starts at 0. An output with the current version writes parts of the contents. An output with the
 * next version replaces them in place. An input must name the current version. */
PTO_API pto_status pto_managed_tensor(pto_runtime *rt, const pto_buffer *buffer, uint32_t version,
                                      pto_dtype dtype, int32_t ndim, const int64_t *shape,
                                      pto_tensor *t);

/* Makes a dense managed tensor: a buffer and a tensor in one call. It has no memory until a task
 * writes it. */
PTO_API pto_status pto_temp(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                            pto_tensor *t);

/* Makes a dense managed tensor that has memory from the start, so that tasks can write it in parts.
 * Its contents are undefined. (The macro is variadic so that the shape can be written in the call:
 * pto_alloc(rt, dtype, ndim, shape, &t).) */
PTO_API pto_status pto_alloc_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim,
                                const int64_t *shape, pto_tensor *t, const char *file, int line);

#define pto_alloc(rt, ...) pto_alloc_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Makes a dense tensor over memory of the user. For any other layout use pto_tensor_init. */
PTO_API pto_status pto_external_tensor(pto_runtime *rt, void *data, pto_dtype dtype, int32_t ndim,
                                       const int64_t *shape, pto_tensor *t);

/* Gets the address of the first element. A managed tensor must already have memory. */
PTO_API pto_status pto_get_buffer_addr(pto_runtime *rt, const pto_tensor *t, void **address);

/* Gets the tensor of a task's output (or inout) number `index`, counted from 0. */
PTO_API pto_status pto_task_get_output(pto_runtime *rt, pto_task task, uint32_t index,
                                       pto_tensor *t);

/* ---- Scopes ------------------------------------------------------------------------------ */

/* Managed memory lives in scopes. Each task holds a reference to every scope around it. Memory is
 * recycled when all of these scopes have ended and no task uses it any more.
 *
 * A boundary scope is a separate lifetime. Tasks inside it hold no reference to the scopes outside
 * it, and they use the rings of the next level. So a loop of boundary scopes can run forever in
 * rings of fixed size, whatever the outer scopes hold. */

/* A flag of pto_scope_begin_ex: the scope is a boundary scope. */
#define PTO_SCOPE_BOUNDARY 1u

/* Opens or ends a scope. The end releases everything created since the begin; if no scope is open
 * it returns PTO_BAD_SCOPE. pto_get_scope_depth returns the number of open scopes. (With PTO_SCOPE
 * no explicit end is needed.) */
PTO_API pto_status pto_scope_begin_at(pto_runtime *rt, uint32_t flags, const char *file, int line);
PTO_API pto_status pto_scope_end(pto_runtime *rt);
PTO_API uint32_t pto_get_scope_depth(const pto_runtime *rt);

#define pto_scope_begin(rt) pto_scope_begin_at((rt), 0, __FILE__, __LINE__)
#define pto_scope_begin_ex(rt, flags) pto_scope_begin_at((rt), (flags), __FILE__, __LINE__)

/* Used by PTO_SCOPE: a scope that ends with its block. */
typedef struct pto_scope_guard {
    pto_runtime *rt; /* NULL: no scope to end */
    int once;
} pto_scope_guard;

static inline pto_scope_guard pto_scope_guard_begin_(pto_runtime *rt, uint32_t flags,
                                                     const char *file, int line)
{
    pto_scope_guard guard;
    guard.once = pto_scope_begin_at(rt, flags, file, line) == PTO_OK;
    guard.rt = guard.once ? rt : NULL;
    return guard;
}

static inline void pto_scope_guard_end_(pto_scope_guard *guard)
{
    if (guard->rt) {
        (void)pto_scope_end(guard->rt);
    }
}

#define PTO_SCOPE_AS_(guard, rt, flags)                                                            \
    for (pto_scope_guard guard __attribute__((cleanup(pto_scope_guard_end_))) =                    \
             pto_scope_guard_begin_((rt), (flags), __FILE__, __LINE__);                            \
         guard.once; guard.once = 0)
#define PTO_SCOPE_NAMED_(line, rt, flags) PTO_SCOPE_AS_(pto_guard_##line, rt, flags)
#define PTO_SCOPE_AT_(line, rt, flags) PTO_SCOPE_NAMED_(line, rt, flags)

/* Runs a block inside a scope. PTO_SCOPE(rt) { ... } ends the scope however the block is left: at
 * its end, or by break, return or goto. If the scope cannot be opened, the block is skipped.
 * PTO_BOUNDARY(rt) { ... } does the same with a boundary scope. */
#define PTO_SCOPE_EX(rt, flags) PTO_SCOPE_AT_(__LINE__, rt, flags)
#define PTO_SCOPE(rt) PTO_SCOPE_EX(rt, 0)
#define PTO_BOUNDARY(rt) PTO_SCOPE_EX(rt, PTO_SCOPE_BOUNDARY)

/* ---- Waiting, reading, failures ---------------------------------------------------------- */

/* Waits until all submitted tasks are complete (pto_wait), or one of them (pto_wait_task). The
 * thread runs tasks while it waits. If a task has failed (for pto_wait: since the last
 * pto_clear_error), the status is PTO_TASK_FAILED, and the detail describes the first failure in
 * submission order. After pto_cancel the status is PTO_CANCELLED. */
PTO_API pto_status pto_wait(pto_runtime *rt);
PTO_API pto_status pto_wait_task(pto_runtime *rt, pto_task task);

/* Copies a tensor out to dense memory, or in from dense memory. pto_read waits for all submitted
 * tasks that write the tensor. pto_write waits for all that read or write it. So control flow may
 * depend on data. `bytes` is the size of the given memory. If tasks touch that memory too, they are
 * waited for as well.
 *
 * Reading memory that a failed task should have written is PTO_POISONED. Writing to a managed
 * tensor without memory allocates it; the tensor must then be whole and dense, as for a task
 * (PTO_NOT_CONTIGUOUS). */
PTO_API pto_status pto_read(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes);
PTO_API pto_status pto_write_at(pto_runtime *rt, const pto_tensor *t, const void *from,
                                uint64_t bytes, const char *file, int line);

#define pto_write(rt, ...) pto_write_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* A failed task. Its outputs are poisoned, and so are the outputs of the tasks that were skipped
 * because of it. Reading any part of a poisoned output fails until one successful write covers all
 * of it, or until pto_clear_error. */
typedef struct pto_failure {
    pto_task task;
    uint64_t order;    /* its position in submission order */
    pto_status status; /* returned by the kernel */
    char kernel[64];   /* name of the kernel */
    char file[128];    /* where the task was submitted */
    int32_t line;      /* */
    char message[256]; /* the text given to pto_fail */
} pto_failure;

/* Gets the first failure since the last pto_clear_error. *failed says whether there was one. */
PTO_API pto_status pto_get_failure(pto_runtime *rt, bool *failed, pto_failure *failure);

/* Lets the runtime continue after a failure or a cancel. Waits for all tasks, then clears the
 * failure, the poison and the cancellation. */
PTO_API pto_status pto_clear_error(pto_runtime *rt);

/* Cancels the run: all tasks that have not started are skipped. Submit and wait return
 * PTO_CANCELLED until pto_clear_error is called. May be called from any thread, and from a signal
 * handler. */
PTO_API void pto_cancel(pto_runtime *rt);

#ifdef __cplusplus
} /* extern "C" */

static inline pto_param pto_scalar(int v)
{
    return pto_scalar_i64(v);
}
static inline pto_param pto_scalar(unsigned v)
{
    return pto_scalar_u64(v);
}
static inline pto_param pto_scalar(long v)
{
    return pto_scalar_i64(v);
}
static inline pto_param pto_scalar(unsigned long v)
{
    return pto_scalar_u64(v);
}
static inline pto_param pto_scalar(long long v)
{
    return pto_scalar_i64(v);
}
static inline pto_param pto_scalar(unsigned long long v)
{
    return pto_scalar_u64(v);
}
static inline pto_param pto_scalar(float v)
{
    return pto_scalar_f64(v);
}
static inline pto_param pto_scalar(double v)
{
    return pto_scalar_f64(v);
}

template <typename... Params>
static inline pto_status pto_submit_(const char *file, int line, pto_runtime *rt, pto_kernel kernel,
                                     Params... params)
{
    const pto_param list[] = {params..., pto_param()};
    return pto_submit_task_at(rt, kernel, PTO_KERNEL_TYPE, list, sizeof...(params), nullptr, file,
                              line);
}
#define pto_submit(...) pto_submit_(__FILE__, __LINE__, __VA_ARGS__)
#endif

#endif /* PTO_PTO_H */
