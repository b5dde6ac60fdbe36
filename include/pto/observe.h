/* pto/observe.h - looking into a runtime: one task, or counts of everything. */
#ifndef PTO_OBSERVE_H
#define PTO_OBSERVE_H

#include <pto/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How far a task is. */
typedef enum pto_task_state {
    PTO_TASK_PENDING,   /* some task before it is not complete */
    PTO_TASK_READY,     /* could run now */
    PTO_TASK_RUNNING,   /* runs, or its kernel has returned PTO_PENDING */
    PTO_TASK_COMPLETED, /* done, failed or skipped; its memory is still held */
    PTO_TASK_CONSUMED,  /* recycled: slot and memory may be another task's */
} pto_task_state;

/* Name of a state: "ready"; "invalid" for an unknown one. */
PTO_API const char *pto_task_state_name(pto_task_state state);

/* What is known about one task. Of a consumed one only `task` and `state` are set. */
typedef struct pto_task_report {
    pto_task task;
    pto_task_state state;
    uint64_t order;        /* how many were submitted before it, on all levels */
    uint32_t level;        /* ring level */
    const char *kernel;    /* name; "alloc" for the memory of pto_alloc */
    const char *file;      /* where it was submitted */
    int32_t line;          /* */
    pto_worker_type type;  /* */
    uint32_t fanin_count;  /* distinct tasks it had to wait for, as far as was known at its submit:
                               one that had just completed may be among them */
    uint32_t fanin_left;   /* of those, not complete now */
    uint32_t fanout_count; /* scopes around it at its birth, plus tasks that ever held its memory */
    uint32_t fanout_left;  /* of those, scopes still open and tasks not complete */
    uint64_t heap_bytes;   /* of its packed outputs */
    bool failed;           /* its kernel failed, or it was skipped */
    bool skipped;          /* it never ran: a task it depends on failed, or pto_cancel */
} pto_task_report;

/* Looks at one task. From the orchestrating thread; PTO_BAD_TASK if there never was such a task. */
PTO_API pto_status pto_task_info(pto_runtime *rt, pto_task task, pto_task_report *report);

/* ---- Rings ---- */

/* X(NAME, name, key, trace, unit, field, variable): the rings that each level has. `key` and `trace`
 * are its short names in tables and JSON, and in traces; `field` of pto_config and `variable` of the
 * environment make it larger. Numbers are in trace files: new rings go to the end. */
#define PTO_LEVEL_RING_MAP(X)                                                                      \
    X(WINDOW, "task window", "tasks", "slots", "tasks", "window", "PTO_WINDOW") /* tasks alive */  \
    X(HEAP, "heap", "heap", "heap", "bytes", "heap_bytes", "PTO_HEAP") /* managed tensors */       \
    X(ARGS, "argument ring", "arguments", "args", "bytes", "arg_bytes",                            \
      "PTO_ARGS") /* arguments of tasks */                                                         \
    X(DEPS, "edge ring", "edges", "edges", "edges", "deps",                                        \
      "PTO_DEPS") /* edges; they come back as tasks complete, so they never stall */               \
    X(MAP, "map entries", "map", "map", "accesses", "map_entries",                                 \
      "PTO_MAP_ENTRIES") /* remembered accesses; likewise */

/* What can run short: a ring of a level, or the records of tensors. */
typedef enum pto_ring {
#define PTO_LEVEL_RING_ENUM(NAME, name, key, trace, unit, field, variable) PTO_RING_##NAME,
    PTO_LEVEL_RING_MAP(PTO_LEVEL_RING_ENUM)
#undef PTO_LEVEL_RING_ENUM
        PTO_RINGS,                /* how many rings a level has */
    PTO_RING_BUFFERS = PTO_RINGS, /* records of managed tensors, of all levels together */
} pto_ring;

PTO_API const char *pto_ring_name(pto_ring ring); /* "task window", "heap" ... */

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

/* Counts of a runtime, since it was created unless said otherwise. */
typedef struct pto_runtime_stats {
    uint64_t submitted;
    uint64_t completed; /* of those: done, failed or skipped */
    uint64_t failed;
    uint64_t skipped;
    uint64_t raw, war, waw, after; /* edges, by reason; each pair of tasks once, see fanin_count */
    uint64_t overlap_budget_hits;  /* overlaps answered the safe way */
    uint64_t helped;               /* tasks that the orchestrating thread ran */
    uint64_t at_once;              /* of these, in the submit itself: brief_ns in pto/config.h */
    uint64_t parks;                /* times a thread went to sleep */
    uint64_t scope_depth;          /* now */
    uint64_t buffers, buffers_peak;
    uint32_t pending; /* tasks whose kernel returned PTO_PENDING and that are not complete */
    pto_task oldest;  /* the oldest task that is not complete, 0 if none */
    const char *oldest_kernel; /* its kernel: whoever seems to hang hangs here */
    uint32_t levels;
    pto_level_stats level[PTO_MAX_LEVELS];
} pto_runtime_stats;

/* Takes a snapshot of all counts; any thread may. Counts are each right, and need not belong to one
 * instant. What is in use of rings other than the task window, and the peaks, is as of now if the
 * orchestrating thread asks; others see what that thread published last: at least every 32 submits,
 * and before it sleeps in a wait. */
PTO_API pto_status pto_stats(const pto_runtime *rt, pto_runtime_stats *stats);

/* ---- Stalls ---- */

/* Why waiting for room would never end. */
typedef enum pto_stall_kind {
    PTO_STALL_NONE,      /* there was no stall */
    PTO_STALL_SCOPE,     /* an open scope holds the oldest task of the ring */
    PTO_STALL_LEVELS,    /* the same; and boundary scopes inside of it share its ring: levels are
                            too few */
    PTO_STALL_BUFFERS,   /* open scopes hold the records of all tensors there can be */
    PTO_STALL_TOO_LARGE, /* it would not fit into an empty ring: PTO_TOO_LARGE */
} pto_stall_kind;

/* "PTO_STALL_SCOPE" and so on. */
PTO_API const char *pto_stall_kind_name(pto_stall_kind kind);

/* The last submit, pto_alloc, pto_temp or pto_write that was refused because room would never come.
 * Of kinds other than SCOPE and LEVELS there is no oldest task and no scope: 0, and "" for text. */
typedef struct pto_stall_report {
    uint64_t count;         /* stalls so far */
    pto_stall_kind kind;    /* */
    pto_ring ring;          /* */
    uint32_t level;         /* of the ring */
    uint64_t size, used;    /* tasks, bytes or tensors: what there is, and of that not free */
    uint64_t wanted;        /* */
    pto_task oldest;        /* the task that is first to go, and cannot */
    uint64_t order;         /* how many were submitted before it */
    const char *kernel;     /* its kernel */
    const char *file;       /* where it was submitted */
    int32_t line;           /* */
    const char *scope_file; /* where the scope that holds it was opened */
    int32_t scope_line;     /* */
    const char *field;      /* of pto_config, that makes the ring larger: "window" ... */
    const char *variable;   /* the same in the environment: "PTO_WINDOW" ... */
    uint64_t enough;        /* TOO_LARGE: the least value of it that will do; 0: not known */
} pto_stall_report;

/* From the orchestrating thread. Texts live as long as the runtime. */
PTO_API pto_status pto_last_stall(const pto_runtime *rt, pto_stall_report *report);

/* The report as text, a line for each thing it names and for each way out; nothing for kind NONE. */
PTO_API void pto_stall_print(const pto_stall_report *report, FILE *out);

/* ---- Watching ---- */

/* Somebody who watches tasks: to measure, to draw, to count. Any of the functions may be NULL. They run
 * on the way of every task, so they had better be quick; while nobody watches it costs one branch. They
 * must not call the runtime. */
struct pto_param; /* pto/pto.h */
typedef struct pto_watcher {
    size_t size; /* sizeof(pto_watcher) */
    void *user;  /* handed to each of them */
    /* On the orchestrating thread, before the task can start. The parameters are those of the submit:
     * tensors that it gave memory to have it now. */
    void (*submitted)(void *user, pto_task task, const char *kernel, const struct pto_param *params,
                      size_t n_params);
    /* On the thread that runs it, before and after the kernel. (One that returned PTO_PENDING is not
     * complete then.) Not for tasks that are skipped. */
    void (*started)(void *user, pto_task task, uint32_t worker);
    void (*ended)(void *user, pto_task task, uint32_t worker, pto_status status);
} pto_watcher;

/* Sets who watches the tasks from now on: this one, which is copied; NULL: nobody. Waits for all
 * tasks first, whether they failed or not. From the orchestrating thread. */
PTO_API pto_status pto_watch(pto_runtime *rt, const pto_watcher *watcher);

/* Checks every invariant of the runtime, which takes time; PTO_CORRUPT names the first one broken.
 * From the orchestrating thread. */
PTO_API pto_status pto_check(pto_runtime *rt);

#ifdef __cplusplus
}
#endif

#endif /* PTO_OBSERVE_H */
