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
    uint32_t fanin_count;  /* distinct producers known at submit; some of them may just have
                              completed */
    uint32_t fanin_left;   /* of these, not complete now */
    uint32_t fanout_count; /* scopes around it at submit, plus all tasks that used its memory */
    uint32_t fanout_left;  /* of these, scopes still open and tasks not complete */
    uint64_t heap_bytes;   /* size of the block that holds its managed outputs */
    bool failed;           /* its kernel failed, or it was skipped */
    bool skipped;          /* it never ran, because a producer failed or because of pto_cancel */
} pto_task_report;

/* Gets a report about one task. Orchestrating thread only. PTO_BAD_TASK if there never was such a
 * task. */
PTO_API pto_status pto_task_info(pto_runtime *rt, pto_task task, pto_task_report *report);

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

/* ---- Counts ---- */

/* Statistics of a runtime. Counters start when it is created. */
typedef struct pto_runtime_stats {
    uint64_t submitted;
    uint64_t completed; /* of these: done, failed or skipped */
    uint64_t failed;
    uint64_t skipped;
    uint64_t raw, war, waw, after; /* edges by reason, one per pair of tasks; see fanin_count */
    uint64_t overlap_budget_hits;  /* overlap tests that ran out of budget */
    uint64_t helped;               /* tasks that the orchestrating thread ran */
    uint64_t inlined;              /* of these, run inline by submit: inline_ns in pto/config.h */
    uint64_t parks;                /* number of times a thread went to sleep */
    uint64_t scope_depth;          /* open scopes now */
    uint64_t buffers, buffers_peak;
    uint32_t pending; /* tasks whose kernel returned PTO_PENDING and that are not complete */
    pto_task oldest;  /* the oldest task that is not complete, 0 if none */
    const char *oldest_kernel; /* its kernel: the first suspect when a program hangs */
    uint32_t levels;
    pto_level_stats level[PTO_MAX_LEVELS];
} pto_runtime_stats;

/* Takes a snapshot of the statistics, from any thread. Each counter is correct, but they may belong
 * to slightly different moments. Ring usage and peaks are current if the orchestrating thread
 * calls. Other threads see the values that it last published: at least every 32 submits, and before
 * it sleeps in a wait. */
PTO_API pto_status pto_stats(const pto_runtime *rt, pto_runtime_stats *stats);

/* ---- Stalls ---- */

/* Why no room can ever become free. */
typedef enum pto_stall_kind {
    PTO_STALL_NONE,      /* there was no stall */
    PTO_STALL_SCOPE,     /* an open scope holds the oldest task of the ring */
    PTO_STALL_LEVELS,    /* the same, and inner boundary scopes share the ring: too few levels */
    PTO_STALL_BUFFERS,   /* open scopes hold all tensor records */
    PTO_STALL_TOO_LARGE, /* the request exceeds an empty ring: PTO_TOO_LARGE */
} pto_stall_kind;

/* Returns the name of a kind: "PTO_STALL_SCOPE" ... */
PTO_API const char *pto_stall_kind_name(pto_stall_kind kind);

/* The last pto_submit, pto_alloc, pto_temp or pto_write that was refused because no room could ever
 * become free. Only the kinds SCOPE and LEVELS have an oldest task and a scope; for the others
 * these fields are 0 or "". */
typedef struct pto_stall_report {
    uint64_t count;         /* number of stalls so far */
    pto_stall_kind kind;    /* */
    pto_ring ring;          /* */
    uint32_t level;         /* level of the ring */
    uint64_t size, used;    /* capacity and usage, in tasks, bytes or tensors */
    uint64_t wanted;        /* */
    pto_task oldest;        /* the next task to recycle, which is held */
    uint64_t order;         /* number of tasks submitted before it */
    const char *kernel;     /* its kernel */
    const char *file;       /* where it was submitted */
    int32_t line;           /* */
    const char *scope_file; /* where the scope that holds it was opened */
    int32_t scope_line;     /* */
    const char *field;      /* field of pto_config that enlarges the ring: "ring_tasks" ... */
    const char *variable;   /* its environment variable: "PTO_RING_TASKS" ... */
    uint64_t enough;        /* TOO_LARGE: smallest sufficient value of that field; 0: unknown */
} pto_stall_report;

/* Gets the last stall. Orchestrating thread only. The texts live as long as the runtime. */
PTO_API pto_status pto_last_stall(const pto_runtime *rt, pto_stall_report *report);

/* Prints a stall report: one line for each fact and each remedy. Prints nothing for kind NONE. */
PTO_API void pto_stall_print(const pto_stall_report *report, FILE *out);

/* ---- Watching ---- */

/* Callbacks that watch tasks: to measure, to draw, to count. Each may be NULL. They run for every
 * task, so keep them short; without a watcher the cost is one branch. They must not call the
 * runtime. */
struct pto_param; /* pto/pto.h */
typedef struct pto_watcher {
    size_t size; /* sizeof(pto_watcher) */
    void *user;  /* passed to each callback */
    /* On the orchestrating thread, before the task can start. `params` are the parameters of the
     * submit. Tensors that received memory in this submit already have it. */
    void (*submitted)(void *user, pto_task task, const char *kernel, const struct pto_param *params,
                      size_t n_params);
    /* On the thread that runs the task, before and after the kernel. If the kernel returned
     * PTO_PENDING, the task is not complete yet. Not called for skipped tasks. */
    void (*started)(void *user, pto_task task, uint32_t worker);
    void (*ended)(void *user, pto_task task, uint32_t worker, pto_status status);
} pto_watcher;

/* Sets the watcher of all later tasks; it is copied. NULL removes the watcher. First waits for all
 * tasks, whether they failed or not. Orchestrating thread only. */
PTO_API pto_status pto_watch(pto_runtime *rt, const pto_watcher *watcher);

/* Checks all invariants of the runtime, which takes time. PTO_CORRUPT names the first violation.
 * Orchestrating thread only. */
PTO_API pto_status pto_check(pto_runtime *rt);

#ifdef __cplusplus
}
#endif

#endif /* PTO_OBSERVE_H */
