/* pto/pto.h - run ordinary sequential C over tensors as a parallel dataflow graph.
 *
 * Submit kernels in the order in which they would run one after the other. The runtime finds out
 * from the memory they read and write which of them must wait for which, runs the others at the
 * same time, and leaves exactly the memory that the serial program would have left.
 *
 *     pto_runtime *rt;
 *     pto_kernel add;
 *     pto_runtime_create(&rt, NULL);
 *     pto_kernel_register(rt, "add", PTO_VECTOR, add_fn, NULL, &add);
 *
 *     PTO_SCOPE(rt) {                                       // managed tensors live as long
 *         pto_tensor sum;
 *         pto_temp(rt, PTO_FLOAT32, 1, (int64_t[]){n}, &sum);   // no memory yet
 *         pto_submit(rt, add, pto_input(&a), pto_input(&b), pto_output(&sum));
 *         pto_submit(rt, add, pto_input(&sum), pto_input(&sum), pto_output(&c));
 *     }
 *     pto_wait(rt);
 *     pto_runtime_destroy(&rt, PTO_WAIT);
 *
 * One thread orchestrates: the one that created the runtime. Everything here is for that thread,
 * and an error on any other or inside of a kernel, but for pto_cancel, pto_is_cancelled, pto_stats
 * and pto_task_complete, which any thread may call.
 *
 * Every function returns a pto_status (pto/status.h); a call that is refused has changed nothing.
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

/* Leaves the calling function with the status of a call that failed. */
#define PTO_TRY(call)                                                                              \
    do {                                                                                           \
        pto_status pto_try_ = (call);                                                              \
        if (pto_try_ != PTO_OK) {                                                                  \
            return pto_try_;                                                                       \
        }                                                                                          \
    } while (0)

/* ---- Life -------------------------------------------------------------------------------- */

/* Creates a runtime as configured (pto/config.h), or with all defaults. The calling thread
 * orchestrates it. Memory is reserved, not used: a large heap costs nothing until tasks fill it. */
PTO_API pto_status pto_runtime_create(pto_runtime **rt, const pto_config *config);

/* What becomes of tasks when a runtime is destroyed. */
typedef enum pto_ending {
    PTO_WAIT,   /* everything submitted runs first */
    PTO_CANCEL, /* what has not begun is skipped, scopes still open are ended */
} pto_ending;

/* Ends the runtime and sets *rt to NULL. Tasks that run or are pending are waited for either way.
 * With PTO_WAIT an open scope is PTO_OPEN_SCOPE and the runtime lives on; a failure that was never
 * reported is returned, with the runtime gone. NULL is fine. */
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
    PTO_PARAM_NONE = 0,
#define PTO_PARAM_ENUM(name, value, text) PTO_PARAM_##name = (value),
    PTO_PARAM_MAP(PTO_PARAM_ENUM)
#undef PTO_PARAM_ENUM
} pto_param_kind;

/* One parameter of a task. Made by pto_input and its like. */
typedef struct pto_param {
    pto_param_kind kind;
    uint16_t nodep; /* not 0: takes no part in ordering */
    uint16_t dtype; /* of a scalar: PTO_INT64, PTO_UINT64 or PTO_FLOAT64 */
    union {
        const pto_tensor *tensor; /* read during submit, not kept */
        uint64_t u64;
        int64_t i64;
        double f64;
        pto_task task;
    };
} pto_param;

/* A tensor as parameter: the task reads it (input), writes it without reading what was there
 * (output), or does both (inout). */
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

/* Makes the task start after another one is complete, whatever they touch. */
static inline pto_param pto_after(pto_task task)
{
    pto_param p;
    p.kind = PTO_PARAM_AFTER;
    p.nodep = p.dtype = 0;
    p.task = task;
    return p;
}

/* Takes a parameter out of the ordering: the program vouches for it. Managed memory stays alive all
 * the same, as long as the task needs it. */
static inline pto_param pto_nodep(pto_param p)
{
    p.nodep = 1;
    return p;
}

/* A number of one kind by value: see pto_scalar, which chooses among them. */
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

/* A number by value as parameter. The kernel reads it with pto_arg_i64 or pto_arg_f64, which
 * convert; as it is, whole ones arrive as args[i].i64 (or .u64), others as args[i].f64. */
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

/* Submits a task. It may wait for room in a ring, and runs tasks meanwhile; and it may run the task
 * itself, if the kernel is brief (brief_ns in pto/config.h). So hold no lock here that a kernel takes.
 * `type` is the type of the kernel, or PTO_KERNEL_TYPE. `task`, if not NULL, is set.
 *
 * PTO_STALLED: waiting would never end, for only the caller can end the scope that holds the ring;
 * the detail names ring, task, scope and what to change. PTO_TOO_LARGE: it can never fit. */
PTO_API pto_status pto_submit_task_at(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                                      const pto_param *params, size_t n_params, pto_task *task,
                                      const char *file, int line);

#define pto_submit_task(rt, kernel, type, params, n_params, task)                                  \
    pto_submit_task_at((rt), (kernel), (type), (params), (n_params), (task), __FILE__, __LINE__)

/* Submits a task with the parameters in place, as people write it:
 *     pto_submit(rt, kernel, pto_input(&a), pto_output(&b), pto_scalar(3));
 * In all else pto_submit_task. */
#ifndef __cplusplus
#define pto_submit(rt, kernel, ...)                                                                \
    pto_submit_task_at((rt), (kernel), PTO_KERNEL_TYPE, (const pto_param[]){__VA_ARGS__},          \
                       sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param), NULL,         \
                       __FILE__, __LINE__)
#endif

/* The task submitted last; 0 if there was none. The memory of pto_alloc counts as one. */
PTO_API pto_task pto_last_task(const pto_runtime *rt);

/* ---- Memory ------------------------------------------------------------------------------ */

/* A managed buffer: memory of the runtime. It belongs to the scopes it was created in and dies with
 * the outermost of them, up to the nearest boundary; from then on every use of it is refused. */
typedef struct pto_buffer {
    uint64_t owner;
    uint64_t bytes;
    uint32_t generation;
} pto_buffer;

/* Creates a buffer without memory: the first task that writes it, whole, brings the memory with
 * it. */
PTO_API pto_status pto_create_buffer(pto_runtime *rt, uint64_t bytes, pto_buffer *buffer);

/* Makes a dense tensor at the start of a buffer. `version` counts contents: 0 at first; an output
 * at the current version writes parts of it, one at the next version begins that in place; an input
 * must name the current one. */
PTO_API pto_status pto_managed_tensor(pto_runtime *rt, const pto_buffer *buffer, uint32_t version,
                                      pto_dtype dtype, int32_t ndim, const int64_t *shape,
                                      pto_tensor *t);

/* Makes a dense managed tensor, without memory until it is first written: buffer and tensor in
 * one. */
PTO_API pto_status pto_temp(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                            pto_tensor *t);

/* Makes a dense managed tensor with memory at once, so that tasks can write it in parts. What is in
 * it is undefined. (The macro is variadic, so that a shape may be written in place: pto_alloc(rt,
 * dtype, ndim, shape, &t).) */
PTO_API pto_status pto_alloc_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim,
                                const int64_t *shape, pto_tensor *t, const char *file, int line);

#define pto_alloc(rt, ...) pto_alloc_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Makes a dense tensor over memory of the user. (pto_tensor_init makes any other.) */
PTO_API pto_status pto_external_tensor(pto_runtime *rt, void *data, pto_dtype dtype, int32_t ndim,
                                       const int64_t *shape, pto_tensor *t);

/* Where the first element of a tensor lies. A managed one must have memory. */
PTO_API pto_status pto_get_buffer_addr(pto_runtime *rt, const pto_tensor *t, void **address);

/* The tensor that a task was given as its output (or inout) number `index`, counted from 0. */
PTO_API pto_status pto_task_get_output(pto_runtime *rt, pto_task task, uint32_t index,
                                       pto_tensor *t);

/* ---- Scopes ------------------------------------------------------------------------------ */

/* Managed memory lives in scopes. Each task holds a reference on every scope around it; when all
 * are ended and nobody uses the memory any more it is recycled.
 *
 * A boundary scope is a lifetime of its own: what is born inside takes no reference on the scopes
 * outside, and lives on the next ring level. So a loop of boundary scopes streams for ever through
 * a ring of fixed size, whatever the scopes outside hold. */

/* A flag of pto_scope_begin_ex: the scope is a boundary. */
#define PTO_SCOPE_BOUNDARY 1u

/* Opens a scope. The end gives back what was born since; without an open scope it is PTO_BAD_SCOPE.
 * The depth is how many are open. (PTO_SCOPE needs no end.) */
PTO_API pto_status pto_scope_begin_at(pto_runtime *rt, uint32_t flags, const char *file, int line);
PTO_API pto_status pto_scope_end(pto_runtime *rt);
PTO_API uint32_t pto_get_scope_depth(const pto_runtime *rt);

#define pto_scope_begin(rt) pto_scope_begin_at((rt), 0, __FILE__, __LINE__)
#define pto_scope_begin_ex(rt, flags) pto_scope_begin_at((rt), (flags), __FILE__, __LINE__)

/* Behind PTO_SCOPE: a scope that ends with its block. */
typedef struct pto_scope_guard {
    pto_runtime *rt; /* NULL: there is nothing to end */
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

/* A block with a scope around it. PTO_SCOPE(rt) { ... } ends its scope however the block is left:
 * at its end, by break, return or goto. If the scope cannot be opened the block is skipped.
 * PTO_BOUNDARY(rt) { ... } is the same with a boundary scope. */
#define PTO_SCOPE_EX(rt, flags) PTO_SCOPE_AT_(__LINE__, rt, flags)
#define PTO_SCOPE(rt) PTO_SCOPE_EX(rt, 0)
#define PTO_BOUNDARY(rt) PTO_SCOPE_EX(rt, PTO_SCOPE_BOUNDARY)

/* ---- Waiting, reading, failing ------------------------------------------------------------ */

/* Waits until everything submitted is complete, or one task is. The thread runs tasks meanwhile. If
 * any task has failed (pto_wait: since the last pto_clear_error) the status is PTO_TASK_FAILED and
 * the detail tells of the first in order of submission; after pto_cancel it is PTO_CANCELLED. */
PTO_API pto_status pto_wait(pto_runtime *rt);
PTO_API pto_status pto_wait_task(pto_runtime *rt, pto_task task);

/* Copies a tensor out or in, densely: out when all tasks submitted so far have written it, in when
 * they all are done with it. So control flow may depend on data. `bytes` is the size of the memory
 * given, which tasks may touch as well: that is waited for, too. Writing gives a managed tensor its
 * memory if it has none; it must be whole and dense then, as for a task (PTO_NOT_CONTIGUOUS).
 * Reading what a failed task was to write is PTO_POISONED. */
PTO_API pto_status pto_read(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes);
PTO_API pto_status pto_write_at(pto_runtime *rt, const pto_tensor *t, const void *from,
                                uint64_t bytes, const char *file, int line);

#define pto_write(rt, ...) pto_write_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* A failed task. Its outputs, and those of the tasks that were skipped because of it, are poisoned:
 * reading any of such an output fails, until one write that succeeds covers the whole of it, or
 * pto_clear_error. */
typedef struct pto_failure {
    pto_task task;
    uint64_t order;    /* the lowest that failed */
    pto_status status; /* what the kernel returned */
    char kernel[64];   /* its name */
    char file[128];    /* where the task was submitted */
    int32_t line;      /* */
    char message[256]; /* pto_fail's words */
} pto_failure;

/* Tells of the first failure since the last pto_clear_error; *failed says whether there is one. */
PTO_API pto_status pto_get_failure(pto_runtime *rt, bool *failed, pto_failure *failure);

/* Lets the runtime go on after a failure: waits for everything, then forgets failures, poison and a
 * cancel. */
PTO_API pto_status pto_clear_error(pto_runtime *rt);

/* Skips all tasks that have not begun: submit and wait say PTO_CANCELLED from now on, until
 * pto_clear_error. From any thread, and from a signal handler. */
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
