/* pto/pto.h - run ordinary sequential C over tensors as a parallel dataflow graph.
 *
 * Submit kernels in the order in which a serial program would call them. The runtime derives the
 * dependencies from the memory that each task reads and writes. It runs independent tasks in
 * parallel, and it leaves exactly the memory that the serial program would have left.
 *
 *     pto_runtime *rt;
 *     pto_kernel add;
 *     PTO_TRY(pto_runtime_create(&rt, NULL));               // returns the status if it fails
 *     PTO_TRY(pto_kernel_register(rt, "add", PTO_VECTOR, add_fn, NULL, &add));
 *
 *     PTO_SCOPE(rt) {                                       // the lifetime of managed tensors
 *         pto_tensor sum;
 *         PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, (int64_t[]){n}, &sum));   // no memory yet
 *         PTO_TRY(pto_submit(rt, add, pto_input(&a), pto_input(&b), pto_output(&sum)));
 *         PTO_TRY(pto_submit(rt, add, pto_input(&sum), pto_input(&sum), pto_output(&c)));
 *     }
 *     PTO_TRY(pto_wait(rt));
 *     PTO_TRY(pto_runtime_destroy(&rt, PTO_WAIT));
 *
 * One thread orchestrates a runtime: the thread that created it. The functions of this header are
 * for that thread. On another thread, or inside a kernel, they fail. The exceptions are pto_cancel,
 * pto_is_cancelled, pto_stats, pto_thread_count and pto_task_complete, which any thread may call.
 *
 * Functions that can fail return a pto_status (pto/status.h). A refused call has changed nothing
 * but this record: the runtime remembers the first refused call that nobody has acknowledged.
 * pto_wait, pto_read and pto_runtime_destroy report it (pto_refused, below). So no work is lost in
 * silence, even if the program drops a status.
 *
 * The calls that the runtime remembers know where they were made: pto_temp and the like are macros
 * that add __FILE__ and __LINE__ to the arguments of pto_temp_at. Bindings of other languages, and
 * programs that need a pointer to a function, use the _at functions and pass a place of their own;
 * NULL and 0 mean that it is unknown.
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
PTO_API PTO_MUST_CHECK pto_status pto_runtime_create(pto_runtime **rt, const pto_config *config);

/* What happens to unfinished tasks when a runtime is destroyed. */
typedef enum pto_ending {
    PTO_WAIT,   /* run everything that was submitted */
    PTO_CANCEL, /* skip tasks that have not started, and end open scopes */
} pto_ending;

/* Destroys a runtime and sets *rt to NULL. Running and pending tasks are waited for in either case.
 * With PTO_WAIT an open scope is an error, PTO_OPEN_SCOPE, and the runtime stays alive. If a
 * failure was never reported, it is returned, and so is PTO_REFUSED if a refused call was never
 * acknowledged; the runtime is destroyed all the same. PTO_CANCEL gives the results up, and reports
 * neither; while no other call is running, any thread may destroy with PTO_CANCEL, except for a kernel.
 * NULL is allowed. */
PTO_API PTO_MUST_CHECK pto_status pto_runtime_destroy(pto_runtime **rt, pto_ending ending);

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
 * When it returns, the task may be complete, may run, or may not have started: pto_wait and
 * pto_read wait for it. Submit may have to wait for room in a ring, and runs other tasks in the
 * meantime. It runs a short kernel itself (inline execution: see inline_ns in pto/config.h). So do
 * not hold a lock here that a kernel takes.
 *
 * PTO_STALLED: no room can ever become free, because an open scope holds the oldest memory of the
 * heap and only the caller can end that scope. The detail names the heap, the task, the scope and
 * what to change.
 * PTO_TOO_LARGE: the task would not fit into an empty ring. */
PTO_API PTO_MUST_CHECK pto_status pto_submit_task_at(pto_runtime *rt, pto_kernel kernel,
                                                     pto_worker_type type, const pto_param *params,
                                                     size_t n_params, pto_task *task,
                                                     const char *file, int line);

#define pto_submit_task(rt, kernel, type, params, n_params, task)                                  \
    pto_submit_task_at((rt), (kernel), (type), (params), (n_params), (task), __FILE__, __LINE__)

/* Submits a task, with its parameters as arguments of the call:
 *     PTO_TRY(pto_submit(rt, kernel, pto_input(&a), pto_output(&b), pto_scalar(3)));
 * Otherwise it is the same as pto_submit_task. */
#ifndef __cplusplus
#define pto_submit(rt, ...)                                                                        \
    pto_submit_task_at(                                                                            \
        (rt), PTO_KERNEL_OF_(__VA_ARGS__, ), PTO_KERNEL_TYPE, PTO_PARAMS_OF_(__VA_ARGS__, ),       \
        sizeof(PTO_PARAMS_OF_(__VA_ARGS__, )) / sizeof(pto_param) - 1, NULL, __FILE__, __LINE__)

/* Used by pto_submit: the first of `kernel, parameters ...,` and an array of the others. C11 has
 * neither an empty list of macro arguments nor an empty array, so both lists have one item more
 * than is meant. */
#define PTO_KERNEL_OF_(kernel, ...) (kernel)
#define PTO_PARAMS_OF_(kernel, ...)                                                                \
    (const pto_param[])                                                                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
        {                                                                                          \
            PTO_PARAM_NONE, 0, 0,                                                                  \
            {                                                                                      \
                NULL                                                                               \
            }                                                                                      \
        }                                                                                          \
    }
#endif

/* The last task that was submitted, or 0 if there was none. On another thread, in a kernel and in a
 * watcher it is 0: there, it could change at any time. */
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
PTO_API PTO_MUST_CHECK pto_status pto_create_buffer_at(pto_runtime *rt, uint64_t bytes,
                                                       pto_buffer *buffer, const char *file,
                                                       int line);

#define pto_create_buffer(rt, ...) pto_create_buffer_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Makes a dense tensor at the start of a buffer. `version` counts rewrites of the contents and
 * starts at 0. An output with the current version writes parts of the contents. An output with the
 * next version replaces them in place. An input must name the current version. */
PTO_API PTO_MUST_CHECK pto_status pto_managed_tensor_at(pto_runtime *rt, const pto_buffer *buffer,
                                                        uint32_t version, pto_dtype dtype,
                                                        int32_t ndim, const int64_t *shape,
                                                        pto_tensor *t, const char *file, int line);

#define pto_managed_tensor(rt, ...) pto_managed_tensor_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Makes a dense managed tensor: a buffer and a tensor in one call. It has no memory until a task
 * writes it. (The macros are variadic so that the shape can be written in the call:
 * pto_temp(rt, dtype, ndim, shape, &t).) */
PTO_API PTO_MUST_CHECK pto_status pto_temp_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim,
                                              const int64_t *shape, pto_tensor *t, const char *file,
                                              int line);

#define pto_temp(rt, ...) pto_temp_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Makes a dense managed tensor that has memory from the start, so that tasks can write it in parts.
 * Its contents are undefined. */
PTO_API PTO_MUST_CHECK pto_status pto_alloc_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim,
                                               const int64_t *shape, pto_tensor *t,
                                               const char *file, int line);

#define pto_alloc(rt, ...) pto_alloc_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* The same on a certain device (pto/device.h). pto_temp and pto_alloc give memory on the default one:
 * config.device. The host cannot touch memory of another device: use pto_read, pto_write and
 * pto_copy. */
PTO_API PTO_MUST_CHECK pto_status pto_temp_on_at(pto_runtime *rt, pto_device device,
                                                 pto_dtype dtype, int32_t ndim,
                                                 const int64_t *shape, pto_tensor *t,
                                                 const char *file, int line);
PTO_API PTO_MUST_CHECK pto_status pto_alloc_on_at(pto_runtime *rt, pto_device device,
                                                  pto_dtype dtype, int32_t ndim,
                                                  const int64_t *shape, pto_tensor *t,
                                                  const char *file, int line);

#define pto_temp_on(rt, ...) pto_temp_on_at((rt), __VA_ARGS__, __FILE__, __LINE__)
#define pto_alloc_on(rt, ...) pto_alloc_on_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Gives up a managed tensor before its scope ends, together with all views of its buffer. The
 * handle is invalid at once. Tasks that were submitted before may still use the memory. The memory
 * is recycled when these tasks are complete and all older memory of its level has been recycled.
 * Use it for lifetimes that do not nest: of two time steps that roll over, give up the older one as
 * soon as the newer one is submitted. */
PTO_API PTO_MUST_CHECK pto_status pto_release_at(pto_runtime *rt, const pto_tensor *t,
                                                 const char *file, int line);

#define pto_release(rt, t) pto_release_at((rt), (t), __FILE__, __LINE__)

/* Makes a dense tensor over memory of the user. For any other layout use pto_tensor_init. */
PTO_API PTO_MUST_CHECK pto_status pto_external_tensor_at(pto_runtime *rt, void *data,
                                                         pto_dtype dtype, int32_t ndim,
                                                         const int64_t *shape, pto_tensor *t,
                                                         const char *file, int line);

#define pto_external_tensor(rt, ...) pto_external_tensor_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Gets the address of the first element. A managed tensor must already have memory. */
PTO_API PTO_MUST_CHECK pto_status pto_get_buffer_addr_at(pto_runtime *rt, const pto_tensor *t,
                                                         void **address, const char *file,
                                                         int line);

#define pto_get_buffer_addr(rt, ...) pto_get_buffer_addr_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Gets the tensor of a task's output (or inout) number `index`, counted from 0. Memory that the
 * task brought is known until its scope ends or pto_release gives it up. Outputs in memory that
 * already existed may be asked for until the task is complete; later the call may return
 * PTO_BAD_TASK. */
PTO_API PTO_MUST_CHECK pto_status pto_task_get_output_at(pto_runtime *rt, pto_task task,
                                                         uint32_t index, pto_tensor *t,
                                                         const char *file, int line);

#define pto_task_get_output(rt, ...) pto_task_get_output_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* ---- Scopes ------------------------------------------------------------------------------ */

/* Managed memory lives in scopes. It is recycled when all scopes around it have ended and no task
 * uses it any more, in the order in which tasks brought it. Scopes hold memory and nothing else:
 * tasks are recycled as they complete, so any number of them can be submitted in a scope.
 *
 * A boundary scope is a separate lifetime. The scopes outside it do not hold what is created
 * inside, and its tasks use the rings of the next level. So a loop of boundary scopes can run
 * forever in rings of fixed size, whatever the outer scopes hold. */

/* A flag of pto_scope_begin_ex: the scope is a boundary scope. */
#define PTO_SCOPE_BOUNDARY 1u

/* Opens or ends a scope. The end releases everything created since the begin; if no scope is open
 * it returns PTO_BAD_SCOPE. pto_get_scope_depth returns the number of open scopes. (With PTO_SCOPE
 * no explicit end is needed.) */
PTO_API PTO_MUST_CHECK pto_status pto_scope_begin_at(pto_runtime *rt, uint32_t flags,
                                                     const char *file, int line);
PTO_API PTO_MUST_CHECK pto_status pto_scope_end_at(pto_runtime *rt, const char *file, int line);
PTO_API uint32_t pto_get_scope_depth(const pto_runtime *rt);

#define pto_scope_begin(rt) pto_scope_begin_at((rt), 0, __FILE__, __LINE__)
#define pto_scope_begin_ex(rt, flags) pto_scope_begin_at((rt), (flags), __FILE__, __LINE__)
#define pto_scope_end(rt) pto_scope_end_at((rt), __FILE__, __LINE__)

/* Used by PTO_SCOPE: a scope that ends with its block. */
typedef struct pto_scope_guard {
    pto_runtime *rt;  /* NULL: no scope to end */
    const char *file; /* where the block begins: C does not say where it is left */
    int line;
    int once;
} pto_scope_guard;

static inline pto_scope_guard pto_scope_guard_begin_(pto_runtime *rt, uint32_t flags,
                                                     const char *file, int line)
{
    pto_scope_guard guard;
    guard.once = pto_scope_begin_at(rt, flags, file, line) == PTO_OK;
    guard.rt = guard.once ? rt : NULL;
    guard.file = file;
    guard.line = line;
    return guard;
}

static inline void pto_scope_guard_end_(pto_scope_guard *guard)
{
    if (guard->rt) {
        PTO_IGNORE(pto_scope_end_at(guard->rt, guard->file, guard->line));
    }
}

#define PTO_SCOPE_AS_(guard, rt, flags)                                                            \
    for (pto_scope_guard guard __attribute__((cleanup(pto_scope_guard_end_))) =                    \
             pto_scope_guard_begin_((rt), (flags), __FILE__, __LINE__);                            \
         guard.once; guard.once = 0)
#define PTO_SCOPE_NAMED_(line, rt, flags) PTO_SCOPE_AS_(pto_guard_##line, rt, flags)
#define PTO_SCOPE_AT_(line, rt, flags) PTO_SCOPE_NAMED_(line, rt, flags)

/* Runs a block inside a scope. PTO_SCOPE(rt) { ... } ends the scope however the block is left: at
 * its end, or by break, return or goto. If the scope cannot be opened, the block is skipped: its
 * memory would have no lifetime. PTO_BOUNDARY(rt) { ... } does the same with a boundary scope. */
#define PTO_SCOPE_EX(rt, flags) PTO_SCOPE_AT_(__LINE__, rt, flags)
#define PTO_SCOPE(rt) PTO_SCOPE_EX(rt, 0)
#define PTO_BOUNDARY(rt) PTO_SCOPE_EX(rt, PTO_SCOPE_BOUNDARY)

/* ---- Waiting, reading, failures ---------------------------------------------------------- */

/* Waits until all submitted tasks are complete (pto_wait), or one of them (pto_wait_task). The
 * thread runs tasks while it waits. If a task has failed (for pto_wait: since the last
 * pto_clear_error), the status is PTO_TASK_FAILED, and the detail describes the first failure in
 * submission order. After pto_cancel the status is PTO_CANCELLED. After a refused call that nobody
 * has acknowledged it is PTO_REFUSED, and the detail names that call and its line. */
PTO_API PTO_MUST_CHECK pto_status pto_wait(pto_runtime *rt);
PTO_API PTO_MUST_CHECK pto_status pto_wait_task_at(pto_runtime *rt, pto_task task, const char *file,
                                                   int line);

#define pto_wait_task(rt, task) pto_wait_task_at((rt), (task), __FILE__, __LINE__)

/* Waits until all submitted tasks that write the tensor are complete, as pto_read does, and copies
 * nothing: the program may then read the elements where they are, until it submits a task that
 * writes them.
 *
 *     PTO_TRY(pto_wait_tensor(rt, &sum));
 *     PTO_TRY(pto_get_buffer_addr(rt, &sum, &address));
 *     printf("%g\n", *(const float *)address);
 *
 * PTO_POISONED: a task that should have written it failed or was skipped. PTO_REFUSED: as for
 * pto_wait. */
PTO_API PTO_MUST_CHECK pto_status pto_wait_tensor_at(pto_runtime *rt, const pto_tensor *t,
                                                     const char *file, int line);

#define pto_wait_tensor(rt, t) pto_wait_tensor_at((rt), (t), __FILE__, __LINE__)

/* Copies a tensor out to dense memory, or in from dense memory. pto_read waits for all submitted
 * tasks that write the tensor. pto_write waits for all that read or write it. So control flow may
 * depend on data. `bytes` is the size of the given memory. If tasks touch that memory too, they are
 * waited for as well. For a tensor without elements the memory may be NULL.
 *
 * Reading memory that a failed task should have written is PTO_POISONED. After a refused call that
 * nobody has acknowledged every read is PTO_REFUSED, since the data may lack what that call should
 * have added. In both cases nothing is copied. Writing to a managed tensor without memory allocates
 * it; the tensor must then be whole and dense, as for a task (PTO_NOT_CONTIGUOUS). If a device fails
 * to copy (PTO_SYSTEM, PTO_DEVICE_LOST), what was to be written is undefined from then on, as after
 * pto_alloc. */
PTO_API PTO_MUST_CHECK pto_status pto_read_at(pto_runtime *rt, const pto_tensor *t, void *to,
                                              uint64_t bytes, const char *file, int line);
PTO_API PTO_MUST_CHECK pto_status pto_write_at(pto_runtime *rt, const pto_tensor *t,
                                               const void *from, uint64_t bytes, const char *file,
                                               int line);

#define pto_read(rt, ...) pto_read_at((rt), __VA_ARGS__, __FILE__, __LINE__)
#define pto_write(rt, ...) pto_write_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* A failed task. Its outputs are poisoned, and so are the outputs of the tasks that were skipped
 * because of it. Reading any part of a poisoned output fails until one successful write covers all
 * of it, or until pto_clear_error. 65,536 outputs can be poisoned at the same time. If there are
 * more, all memory counts as poisoned until pto_clear_error; the errors say so, and pto_stats
 * counts the outputs that found no room (poison_lost). */
typedef struct pto_failure {
    pto_task task;     /* 0: guards found damage in memory that pto_alloc or pto_write took */
    uint64_t order;    /* its position in submission order */
    pto_status status; /* returned by the kernel */
    char kernel[64];   /* name of the kernel */
    char file[128];    /* where the task was submitted */
    int32_t line;      /* */
    char message[256]; /* the text given to pto_fail */
    char label[64];    /* the label of the task (pto_label); "": none */
} pto_failure;

/* Gets the first failure since the last pto_clear_error. *failed says whether there was one. */
PTO_API PTO_MUST_CHECK pto_status pto_get_failure(pto_runtime *rt, bool *failed,
                                                  pto_failure *failure);

/* A refused call: the first one that nobody has acknowledged. */
typedef struct pto_refusal {
    pto_status status; /* that the call returned */
    int32_t line;      /* where the call was made; file "" and line 0: unknown */
    char file[128];    /* */
    const char *call;  /* its name: "pto_submit" */
    char message[512]; /* its pto_error_detail() */
    uint64_t count;    /* refused calls since the last pto_refused, including this one */
} pto_refusal;

/* Acknowledges refused calls: returns whether there was one, describes the first, and forgets all.
 * `refusal` may be NULL.
 *
 * A call is refused if it returns an error and does nothing: the submits, pto_temp, pto_alloc and
 * the other functions for memory, the begin and the end of a scope, pto_read, pto_write,
 * pto_wait_task, pto_wait_tensor and pto_execute. The first such call and the number of all of them
 * are kept until pto_refused takes them. Until then the waits, pto_read, pto_execute and
 * pto_runtime_destroy return PTO_REFUSED. Nothing else changes: tasks run as before, no memory is
 * poisoned, and pto_clear_error does not acknowledge a refusal.
 *
 * A call that reports an earlier failure is not refused, and is not kept: PTO_TASK_FAILED,
 * PTO_POISONED, PTO_CANCELLED and PTO_REFUSED. Failures of tasks are reported first. Calls on a
 * wrong thread and calls after pto_cancel are not kept, either.
 *
 * So a program that handles a refusal says that it has done so:
 *
 *     pto_status s = pto_submit(rt, kernel, pto_input(&a), pto_output(&b));
 *     if (s == PTO_STALLED) {
 *         pto_refused(rt, NULL);                                   // handled here
 *         PTO_TRY(pto_scope_end(rt));
 *         PTO_TRY(pto_scope_begin(rt));
 *         s = pto_submit(rt, kernel, pto_input(&a), pto_output(&b));
 *     }
 *
 * A program that ends on any error need not call it. On another thread than the orchestrating one
 * it returns false and does nothing. */
PTO_API bool pto_refused(pto_runtime *rt, pto_refusal *refusal);

/* Lets the runtime continue after a failure or a cancel. Waits for all tasks, then clears the
 * failure, the poison and the cancellation. */
PTO_API PTO_MUST_CHECK pto_status pto_clear_error(pto_runtime *rt);

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
static inline pto_param pto_scalar(unsigned v) /* it fits, and C chooses the same */
{
    return pto_scalar_i64(v);
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
static inline pto_param pto_scalar(long double v)
{
    return pto_scalar_f64((double)v);
}

template <typename... Params>
static inline PTO_MUST_CHECK pto_status pto_submit_(const char *file, int line, pto_runtime *rt,
                                                    pto_kernel kernel, Params... params)
{
    const pto_param list[] = {params..., pto_param()};
    return pto_submit_task_at(rt, kernel, PTO_KERNEL_TYPE, list, sizeof...(params), nullptr, file,
                              line);
}
#define pto_submit(...) pto_submit_(__FILE__, __LINE__, __VA_ARGS__)
#endif

#endif /* PTO_PTO_H */
