/* trace.h - recording a traced run. Orchestrator's side: submit, waits, scopes and retire call it.
 *
 *     orchestrator   called ─> submitted         tasks, descs, dims: what was submitted
 *                    room, wait, retired         events, retires
 *                    scopes, memory              lives
 *                    labels, ranges              texts
 *                    periodically, at waits      samples of the rings
 *     workers, scheduler, others                 a log each (log.h): started, ended, ready, parked
 *                       │
 *                       v  pto_runtime_destroy, after all threads have ended
 *                    trace_build.c: one ptrace (ptrace.h), with edges (edges.c) ──> export.c: a file
 *
 * Edges are not recorded. They follow from the arguments by the rules of submit, and are computed
 * at the end. So they cost the run nothing, and they do not depend on which tasks happened to be
 * complete at a submit.
 *
 * A runtime is traced from creation to destruction, or never: rt->trace does not change. Everything
 * here but the logs of other threads belongs to the orchestrating thread.
 */
#ifndef PTOI_TRACE_H
#define PTOI_TRACE_H

#include <pto/embed.h>

#include "observe/log.h"
#include "observe/ptrace.h"
#include "orchestrator/runtime.h"

/* A task at submit. Its arguments follow in the log. */
typedef struct ptoi_traced {
    uint64_t task;
    uint64_t called; /* ticks */
    uint32_t took;   /* ticks until it was submitted; if they do not fit, an event
                        PTOI_TRACED_LONG has the times */
    uint32_t site;
    uint16_t kernel;
    uint16_t args;
    uint8_t level;
} ptoi_traced;

/* What changes in an argument from task to task. An `after` is an argument here, too. */
typedef struct ptoi_traced_arg {
    uint64_t where;
    uint32_t desc; /* index in `descs` of the rest: a ptrace_arg */
    union {
        uint32_t buffer; /* managed memory */
        uint32_t offset; /* memory of the user: ptrace_arg.offset */
    };
} ptoi_traced_arg;

_Static_assert(sizeof(ptoi_traced) == 32 && sizeof(ptoi_traced_arg) == 16 &&
                   PTOI_MAX_KERNELS <= UINT16_MAX + 1,
               "the records of a task are small");

static inline const ptoi_traced_arg *ptoi_traced_args(const ptoi_traced *task)
{
    return (const ptoi_traced_arg *)(const void *)(task + 1);
}

static inline const ptoi_traced *ptoi_traced_next(const ptoi_traced *task)
{
    return (const ptoi_traced *)(const void *)(ptoi_traced_args(task) + task->args);
}

/* Kind of an event: the submit of task `value` took from `begin` to `end`. */
#define PTOI_TRACED_LONG PTRACE_EVENT_KINDS

/* Tasks `begin` to `end` - 1 of a level were recycled. */
typedef struct ptoi_traced_retire {
    uint64_t begin, end, at;
    uint32_t level;
} ptoi_traced_retire;

typedef struct ptoi_traced_sample {
    uint64_t at;
    uint64_t used[PTO_RINGS];
    uint32_t level;
} ptoi_traced_sample;

/* A label of a task, or the begin or the end of a range. Its text follows, in units of 8 bytes. */
typedef enum ptoi_traced_kind {
    PTOI_TRACED_LABEL,
    PTOI_TRACED_BEGIN,
    PTOI_TRACED_END,
} ptoi_traced_kind;

typedef struct ptoi_traced_text {
    uint64_t at;      /* ticks; of a label: its task */
    uint32_t n_tasks; /* tasks traced before it */
    uint16_t kind;    /* ptoi_traced_kind */
    uint16_t bytes;   /* of the text, with its NUL */
} ptoi_traced_text;

_Static_assert(sizeof(ptoi_traced_text) == 16, "texts are aligned");

static inline const ptoi_traced_text *ptoi_traced_text_next(const ptoi_traced_text *text)
{
    return (const ptoi_traced_text *)(const void *)((const uint64_t *)(const void *)(text + 1) +
                                                    (text->bytes + 7u) / 8);
}

/* A note about a rank (pto_trace_note). */
typedef struct ptoi_traced_note {
    pto_note note;
    uint32_t n_tasks; /* tasks traced before it */
} ptoi_traced_note;

#define PTOI_TRACE_DESCS 1024  /* a power of two */
#define PTOI_TRACE_GUESSES 256 /* a power of two */

typedef struct ptoi_trace {
    uint64_t called;                    /* ticks: when the current submit began */
    ptoi_log tasks;                     /* ptoi_traced and ptoi_traced_arg */
    ptoi_log descs;                     /* ptrace_arg; where and buffer are not set */
    ptoi_log dims;                      /* int64_t */
    ptoi_log events;                    /* ptrace_event, times in ticks */
    ptoi_log retires;                   /* ptoi_traced_retire */
    ptoi_log samples;                   /* ptoi_traced_sample */
    ptoi_log lives;                     /* ptrace_life, times in ticks */
    ptoi_log texts;                     /* ptoi_traced_text */
    ptoi_log notes;                     /* ptoi_traced_note */
    uint32_t known[PTOI_TRACE_DESCS];   /* by hash: a descriptor with that hash, plus one */
    uint32_t guess[PTOI_TRACE_GUESSES]; /* by kernel and argument: its last descriptor, plus one */
    uint32_t n_tasks;
    uint32_t moved[PTO_MAX_LEVELS]; /* tasks submitted and recycled since the last sample */

    bool shared;   /* `ran` and its logs are in memory that worker processes share */
    ptoi_log *ran; /* logs by worker line: window/window.h */
    uint32_t n_ran;
    size_t ran_bytes;
    uint64_t limit;
    uint64_t begin_ticks, begin_ns; /* the same moment on both clocks */
    uint64_t origin_ns;             /* and in wall-clock time */
    char *path;                     /* of the file */
    size_t path_bytes;
    /* Gets the trace instead of the file; NULL: none. */
    pto_trace_writer write;
    void *write_user;
} ptoi_trace;

/* Begins a trace if the settings ask for one. Called before any thread starts. */
pto_status ptoi_trace_create(pto_runtime *rt);

/* Writes the file. All other threads have ended. */
pto_status ptoi_trace_finish(pto_runtime *rt);

/* Makes logs for `n` more threads, of a device, before they start. `grid`: its blocks, which do not write
 * them; most of these will be short. */
pto_status ptoi_trace_add_threads(pto_runtime *rt, uint32_t n, bool grid);

void ptoi_trace_free(pto_runtime *rt);

/* ---- Called by submit ---- */

/* A submit begins. */
static inline void ptoi_trace_called(pto_runtime *rt)
{
    if (rt->trace) {
        rt->trace->called = ptoi_ticks();
    }
}

/* Its task is written, and not yet published. */
void ptoi_trace_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                          size_t n_params);

/* ---- Around waits; `since` is the result of ptoi_trace_now or ptoi_trace_waits before ---- */

static inline uint64_t ptoi_trace_now(const pto_runtime *rt)
{
    return rt->trace ? ptoi_ticks() : 0;
}

/* The same before the program waits. Takes samples, so that a short run shows its rings, too. */
uint64_t ptoi_trace_waits(pto_runtime *rt);

void ptoi_trace_room(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted,
                     uint64_t since);
void ptoi_trace_wait(pto_runtime *rt, pto_task task, uint64_t since);

/* ---- Called by scopes and for owner tasks ---- */

void ptoi_trace_life(pto_runtime *rt, ptrace_life_kind kind, uint32_t level, pto_task task,
                     uint32_t buffer, uint64_t bytes);

/* ---- Called for labels and ranges ---- */

void ptoi_trace_text(pto_runtime *rt, ptoi_traced_kind kind, pto_task task, const char *text);

/* ---- Called when the orchestrator finds a failure itself ---- */

static inline void ptoi_trace_failed(pto_runtime *rt, pto_task task, pto_status status,
                                     const char *words)
{
    if (rt->trace) { /* as a worker, this thread has the log that follows those of the workers */
        ptoi_log_failed(&rt->trace->ran[rt->settings.n_workers], task, (uint32_t)status, words);
    }
}

/* ---- Called by retire ---- */

/* Tasks `begin` to `end` - 1 of a level are recycled. */
void ptoi_trace_retired(pto_runtime *rt, uint32_t level, uint64_t begin, uint64_t end);

#endif /* PTOI_TRACE_H */
