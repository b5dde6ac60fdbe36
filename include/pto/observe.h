/* pto/observe.h - inspect a runtime: single tasks, statistics, stall reports, watchers. */
#ifndef PTO_OBSERVE_H
#define PTO_OBSERVE_H

#include <pto/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The state of a task. */
typedef enum pto_task_state {
    PTO_TASK_PENDING,   /* waits for other tasks */
    PTO_TASK_READY,     /* can run */
    PTO_TASK_RUNNING,   /* its kernel runs, or has returned PTO_PENDING */
    PTO_TASK_COMPLETED, /* done, failed or skipped; its memory is still held */
    PTO_TASK_CONSUMED,  /* recycled: its slot and memory may belong to another task */
} pto_task_state;

/* Returns the name of a state: "ready"; "invalid" if it is unknown. */
PTO_API const char *pto_task_state_name(pto_task_state state);

/* A report about one task. For a consumed task only `task` and `state` are set. */
typedef struct pto_task_report {
    pto_task task;
    pto_task_state state;
    uint64_t order;        /* number of tasks submitted before it, on all levels */
    uint32_t level;        /* ring level */
    const char *kernel;    /* name; "alloc" for a pto_alloc */
    const char *file;      /* where it was submitted */
    int32_t line;          /* */
    pto_worker_type type;  /* */
    pto_device device;     /* that it runs on */
    uint32_t fanin_count;  /* producers found at submit, including some that complete at that
                              moment */
    uint32_t fanin_left;   /* of these, not complete now */
    uint32_t fanout_count; /* scopes around it at submit, plus all tasks that used its memory */
    uint32_t fanout_left;  /* of these, scopes still open and tasks not complete */
    uint64_t heap_bytes;   /* size of the block that holds its managed outputs */
    bool failed;           /* its kernel failed, or it was skipped */
    bool skipped;          /* it never ran, because a producer failed or because of pto_cancel */
    char label[64];        /* given by pto_label; "": none */
} pto_task_report;

/* Gets a report about one task. Orchestrating thread only. PTO_BAD_TASK if there never was such a
 * task. */
PTO_API PTO_MUST_CHECK pto_status pto_task_info(pto_runtime *rt, pto_task task,
                                                pto_task_report *report);

/* ---- Labels and ranges ---- */

#define PTO_LABEL_BYTES 64 /* most bytes of a label or the name of a range, with its NUL */

/* Names the next task that is submitted, like printf. The name is shown wherever the task is: in
 * traces, in failures, by `pto top` and `pto doctor`. A program that submits one kernel a thousand
 * times can tell its tasks apart:
 *
 *     for (int i = 0; i < tiles; i++) {
 *         PTO_TRY(pto_label(rt, "heat[%d] step %d", i, step));
 *         PTO_TRY(pto_submit(rt, heat, pto_input(&old[i]), pto_output(&next[i])));
 *     }
 *
 * A label belongs to the next submit alone: if that is refused, the label is dropped. (Of a call
 * that submits several tasks, such as pto_submit_rearrange, the first task gets it.) A text that is
 * too long ends in "...", and control characters become '?'. Programs without labels pay nothing
 * for them. */
PTO_API PTO_MUST_CHECK pto_status pto_label(struct pto_runtime *rt, const char *format, ...)
    PTO_PRINTF(2, 3);

/* Begins and ends a range of the program: a phase, a layer, a time step. The tasks that are
 * submitted in it belong to it. Ranges nest. They are shown in traces, and those that are open by
 * `pto top` and `pto doctor`. They order nothing and hold nothing. An end without a begin returns
 * PTO_BAD_SCOPE. PTO_RANGE(rt, "layer %d", l) { ... } ends the range however the block is left. */
PTO_API PTO_MUST_CHECK pto_status pto_range_begin(struct pto_runtime *rt, const char *format, ...)
    PTO_PRINTF(2, 3);
PTO_API PTO_MUST_CHECK pto_status pto_range_end(struct pto_runtime *rt);

/* Used by PTO_RANGE: a range that ends with its block. */
typedef struct pto_range_guard {
    struct pto_runtime *rt; /* NULL: no range to end */
    int once;
} pto_range_guard;

static inline pto_range_guard pto_range_guard_begin_(struct pto_runtime *rt, pto_status status)
{
    pto_range_guard guard;
    guard.rt = status == PTO_OK ? rt : NULL;
    guard.once = 1;
    return guard;
}

static inline void pto_range_guard_end_(pto_range_guard *guard)
{
    if (guard->rt) {
        PTO_IGNORE(pto_range_end(guard->rt));
    }
}

#define PTO_RANGE_AS_(guard, rt, ...)                                                              \
    for (pto_range_guard guard __attribute__((cleanup(pto_range_guard_end_))) =                    \
             pto_range_guard_begin_((rt), pto_range_begin((rt), __VA_ARGS__));                     \
         guard.once; guard.once = 0)
#define PTO_RANGE_NAMED_(line, rt, ...) PTO_RANGE_AS_(pto_range_##line, rt, __VA_ARGS__)
#define PTO_RANGE_AT_(line, rt, ...) PTO_RANGE_NAMED_(line, rt, __VA_ARGS__)

/* Runs a block inside a range: PTO_RANGE(rt, "layer %d", l) { ... } ends the range however the
 * block is left, at its end or by break, return or goto. The block runs even if the range is
 * refused, since a range only names work. (PTO_SCOPE skips its block: without the scope its memory
 * has no lifetime.) */
#define PTO_RANGE(rt, ...) PTO_RANGE_AT_(__LINE__, rt, __VA_ARGS__)

/* ---- Rings ---- */

/* X(NAME, name, key, trace, unit, field, variable): the rings that each level has. `key` and `trace`
 * are its short names in tables and JSON, and in traces; `field` of pto_config and `variable` of the
 * environment make it larger. Numbers are in trace files: new rings go to the end. */
#define PTO_LEVEL_RING_MAP(X)                                                                      \
    X(TASKS, "task ring", "tasks", "slots", "tasks", "ring_tasks",                                 \
      "PTO_RING_TASKS")                                                /* tasks alive */           \
    X(HEAP, "heap", "heap", "heap", "bytes", "heap_bytes", "PTO_HEAP") /* managed tensors */       \
    X(ARGS, "argument ring", "arguments", "args", "bytes", "arg_bytes",                            \
      "PTO_ARGS") /* arguments of tasks */                                                         \
    X(DEPS, "edge ring", "edges", "edges", "edges", "deps",                                        \
      "PTO_DEPS") /* edges; freed as tasks complete, so they never deadlock */                     \
    X(MAP, "map entries", "map", "map", "accesses", "map_entries",                                 \
      "PTO_MAP_ENTRIES") /* tracked accesses; freed as tasks complete, too */

/* What can run short: a ring of a level, or the records of tensors. */
typedef enum pto_ring {
#define PTO_LEVEL_RING_ENUM(NAME, name, key, trace, unit, field, variable) PTO_RING_##NAME,
    PTO_LEVEL_RING_MAP(PTO_LEVEL_RING_ENUM)
#undef PTO_LEVEL_RING_ENUM
        PTO_RINGS,                /* how many rings a level has */
    PTO_RING_BUFFERS = PTO_RINGS, /* records of managed tensors, of all levels together */
} pto_ring;

PTO_API const char *pto_ring_name(pto_ring ring); /* "task ring", "heap" ... */

/* How full a ring is, in its unit: tasks, bytes, edges or accesses. */
typedef struct pto_ring_stats {
    uint64_t used;  /* now */
    uint64_t peak;  /* the most ever */
    uint64_t size;  /* what fits */
    uint64_t waits; /* submits that had to wait for room */
} pto_ring_stats;

/* The rings of one level. */
typedef struct pto_level_stats {
    pto_ring_stats ring[PTO_RINGS]; /* by pto_ring */
} pto_level_stats;

/* A device that a runtime uses. */
typedef struct pto_device_stats {
    pto_device device;
    uint32_t workers; /* its threads; of the host: 0, they are not counted here */
    struct {
        uint64_t used, peak, size; /* bytes; size 0: it does not exist yet */
    } heap[PTO_MAX_LEVELS];        /* its heap of each level; of the host: see the rings */
} pto_device_stats;

#define PTO_MAX_DEVICES 16 /* that one runtime can use, with the host */

/* ---- Counts ---- */

/* Statistics of a runtime. Counters start when it is created.
 *
 * An edge is counted once for each pair of tasks, with the first reason that was found, if the
 * earlier task was not known to be complete. A trace (pto/trace.h) has the strongest reason instead
 * (RAW, then WAW, WAR, after), and also the edges from tasks that were complete. In both, an access
 * that a later write covers has no further edges: that write has them. */
typedef struct pto_runtime_stats {
    uint64_t submitted;
    uint64_t completed; /* of these: done, failed or skipped */
    uint64_t failed;
    uint64_t skipped;
    uint64_t raw, war, waw, after; /* edges by reason, see above; of one task: fanin_count */
    uint64_t overlap_budget_hits;  /* overlap tests that ran out of budget */
    uint64_t poison_lost; /* failed and skipped tasks, and outputs of such, that found no room in
                             the lists of poison: pto_failure in pto/pto.h */
    uint64_t sites_lost;  /* calls whose file and line are not known to reports: there is
                                      room for 65,534 submit sites */
    uint64_t helped;      /* tasks that the orchestrating thread ran */
    uint64_t inlined;     /* of these, run inline by submit: inline_ns in pto/config.h */
    uint64_t parks;       /* number of times a thread went to sleep */
    uint64_t scope_depth; /* open scopes now */
    uint64_t buffers, buffers_peak;
    uint32_t pending; /* tasks whose kernel returned PTO_PENDING and that are not complete */
    pto_task oldest;  /* the oldest task that is not complete, 0 if none */
    const char *oldest_kernel; /* its kernel: the first suspect when a program hangs */
    uint32_t levels;
    pto_level_stats level[PTO_MAX_LEVELS];
    uint32_t devices; /* in use: cpu:0, then the others in the order of their first use */
    pto_device_stats device[PTO_MAX_DEVICES];
} pto_runtime_stats;

/* Takes a snapshot of the statistics, from any thread. Each counter is correct, but they may belong
 * to slightly different moments. Ring usage and peaks are current if the orchestrating thread
 * calls. Other threads see the values that it last published: at least every 32 submits, and before
 * it sleeps in a wait. */
PTO_API PTO_MUST_CHECK pto_status pto_stats(const pto_runtime *rt, pto_runtime_stats *stats);

/* ---- Stalls ---- */

/* Why no room can ever become free. */
typedef enum pto_stall_kind {
    PTO_STALL_NONE,      /* there was no stall */
    PTO_STALL_SCOPE,     /* an open scope holds the oldest block of the heap */
    PTO_STALL_LEVELS,    /* the same, and inner boundary scopes share the heap: too few levels */
    PTO_STALL_BUFFERS,   /* open scopes hold all tensor records */
    PTO_STALL_TOO_LARGE, /* the request exceeds an empty ring: PTO_TOO_LARGE */
} pto_stall_kind;

/* Returns the name of a kind: "PTO_STALL_SCOPE" ... */
PTO_API const char *pto_stall_kind_name(pto_stall_kind kind);

/* The last pto_submit, pto_alloc, pto_temp or pto_write that was refused because no room could ever
 * become free. Scopes hold memory and nothing else, so SCOPE and LEVELS are about a heap, or about
 * the records of its blocks. Only these two kinds have an oldest block and a scope; for the others
 * these fields are 0 or "". */
typedef struct pto_stall_report {
    uint64_t count;        /* number of stalls so far */
    pto_stall_kind kind;   /* */
    pto_ring ring;         /* */
    uint32_t level;        /* level of the ring */
    pto_device device;     /* of the heap */
    uint64_t size, used;   /* capacity and usage, in tasks, bytes or tensors */
    uint64_t wanted;       /* */
    pto_task oldest;       /* the task that brought the oldest block; 0: a pto_alloc did */
    uint64_t order;        /* number of tasks submitted before it */
    const char *kernel;    /* its kernel; "alloc" for a pto_alloc */
    const char *file;      /* where it was submitted */
    int32_t line;          /* */
    uint32_t output;       /* the tensor that is in the way: the first living output in the block */
    uint64_t output_bytes; /* its size */
    uint64_t given_up;     /* bytes that were given up (pto_release) and wait behind that block */
    const char *scope_file; /* where the scope that holds it was opened */
    int32_t scope_line;     /* */
    const char *field;      /* field of pto_config that enlarges the ring: "ring_tasks" ... */
    const char *variable;   /* its environment variable: "PTO_RING_TASKS" ... */
    uint64_t enough;        /* TOO_LARGE: smallest sufficient value of that field; 0: unknown */
} pto_stall_report;

/* Gets the last stall. Orchestrating thread only. The texts live as long as the runtime. */
PTO_API PTO_MUST_CHECK pto_status pto_last_stall(const pto_runtime *rt, pto_stall_report *report);

/* Prints a stall report: one line for each fact and each remedy. Prints nothing for kind NONE. */
PTO_API void pto_stall_print(const pto_stall_report *report, FILE *out);

/* ---- Watching ---- */

/* Callbacks that watch tasks: to measure, to draw, to count. Each may be NULL. They run for every
 * task, so keep them short; without a watcher the cost is one branch. Like a kernel, they must not
 * orchestrate: a submit, wait or read in a watcher is refused with PTO_WRONG_THREAD. */
struct pto_param; /* pto/pto.h */
typedef struct pto_watcher {
    size_t size; /* sizeof(pto_watcher) */
    void *user;  /* passed to each callback */
    /* On the orchestrating thread, before the task can start. `params` are the parameters of the
     * submit. Tensors that received memory in this submit already have it. */
    void (*submitted)(void *user, pto_task task, const char *kernel, const struct pto_param *params,
                      size_t n_params);
    /* On the thread that runs the task, before and after the kernel. If the kernel returned
     * PTO_PENDING, the task is not complete yet. Not called for skipped tasks. `worker` is the number
     * of the thread: workers of the host from 0 on, then the orchestrating thread; those of other
     * devices have higher numbers. */
    void (*started)(void *user, pto_task task, uint32_t worker);
    void (*ended)(void *user, pto_task task, uint32_t worker, pto_status status);
} pto_watcher;

/* Sets the watcher of all later tasks; it is copied. NULL removes the watcher. First waits for all
 * tasks, whether they failed or not. `started` and `ended` are refused with PTO_BAD_CONFIG where nobody
 * could call them: in worker processes, and on a GPU that schedules for itself. Orchestrating thread
 * only. */
PTO_API PTO_MUST_CHECK pto_status pto_watch(pto_runtime *rt, const pto_watcher *watcher);

/* Checks all invariants of the runtime, which takes time. PTO_CORRUPT names the first violation.
 * Orchestrating thread only. */
PTO_API PTO_MUST_CHECK pto_status pto_check(pto_runtime *rt);

#ifdef __cplusplus
}
#endif

#endif /* PTO_OBSERVE_H */
