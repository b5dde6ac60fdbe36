/* trace_build.h - shared by the files that build one trace from the logs of a runtime.
 *
 *     trace_build.c   the order of the steps; memory, strings, rings, labels, notes, the machine
 *     trace_lanes.c   a lane for each thread; events, and what threads say about tasks
 *     trace_tasks.c   tasks with their arguments, how each ran, when it was ready
 *
 * The threads of the runtime have ended and were joined. Threads of the program that complete tasks
 * have left pto_task_complete (destroy waits for them). So all logs are complete, and nothing
 * writes to them.
 */
#ifndef PTOI_TRACE_BUILD_H
#define PTOI_TRACE_BUILD_H

#include "observe/export.h"
#include "orchestrator/trace.h"

/* The strings of the trace: those of the window, and what is added. */
typedef struct ptoi_trace_texts {
    char *at;
    uint32_t used, room;
} ptoi_trace_texts;

typedef struct ptoi_trace_maker {
    pto_runtime *rt;
    ptoi_trace *log;
    ptoi_built_trace *built;
    ptrace_task *tasks;
    uint32_t n_tasks;
    uint64_t n_args;        /* at most */
    ptrace_device *devices; /* of arguments; `name` is a number at first */
    uint64_t n_devices;
    double ns_per_tick;
    ptoi_grid_times grid; /* of the blocks of a grid, whose clock is another */
    ptoi_trace_texts texts;
    struct {
        uint64_t parks, failures, labels, ranges, text;
    } count; /* of what the logs hold; text in bytes */
    ptrace_failure *failed;
    uint64_t n_failed;
    /* Per level: index[seq - first] is the index in tasks[] of task seq, plus one. */
    struct {
        uint64_t first, count;
        uint32_t *index;
    } level[PTO_MAX_LEVELS];
} ptoi_trace_maker;

/* ---- trace_build.c ---- */

pto_status ptoi_trace_no_memory(const char *what, uint64_t count);

/* Adds a string. Returns where it is, or 0 if there is no room. */
PTO_PRINTF(2, 3) uint32_t ptoi_trace_add_text(ptoi_trace_texts *t, const char *format, ...);

/* ---- trace_lanes.c ---- */

/* Whether there is a lane for a scheduler's thread. In place gpu that is the keeper. */
bool ptoi_trace_has_scheduler(const ptoi_trace_maker *m);

pto_status ptoi_trace_make_lanes(ptoi_trace_maker *m);

/* Takes all events, and the records of the threads about tasks. */
pto_status ptoi_trace_make_events(ptoi_trace_maker *m);

/* ---- trace_tasks.c ---- */

pto_status ptoi_trace_make_tasks(ptoi_trace_maker *m, ptoi_afters *afters);

/* Takes one record of a thread about a task. */
void ptoi_trace_take_ran(ptoi_trace_maker *m, const ptoi_ran *ran, uint32_t lane);

void ptoi_trace_take_retires(ptoi_trace_maker *m);

/* No task starts before it was submitted. If some seem to, the clock of the device is behind that of the
 * host, by no more than their error: all times of the grid are moved. */
void ptoi_trace_move_grid(ptoi_trace_maker *m);

/* The scheduler's thread records when it found a task ready. Without such a thread a task is ready
 * when its last producer ends, or when it is submitted. */
void ptoi_trace_find_ready(ptoi_trace_maker *m);

/* ---- Time ---- */

static inline uint64_t ptoi_trace_span_ns(const ptoi_trace_maker *m, uint64_t ticks)
{
    return (uint64_t)((double)ticks * m->ns_per_tick);
}

static inline uint64_t ptoi_trace_time_ns(const ptoi_trace_maker *m, uint64_t ticks)
{
    return ticks > m->log->begin_ticks ? ptoi_trace_span_ns(m, ticks - m->log->begin_ticks) : 0;
}

/* ---- From task number to index ---- */

static inline uint32_t ptoi_trace_index_of(const ptoi_trace_maker *m, uint32_t level, uint64_t seq)
{
    if (level >= m->rt->levels || seq - m->level[level].first >= m->level[level].count) {
        return PTRACE_NONE;
    }
    return m->level[level].index[seq - m->level[level].first] - 1;
}

static inline uint32_t ptoi_trace_index_of_task(const ptoi_trace_maker *m, pto_task task)
{
    return ptoi_trace_index_of(m, (uint32_t)task & 7, task >> 3);
}

/* ---- The log of a thread ---- */

static inline const ptoi_ran *ptoi_trace_first_ran(const ptoi_log *log)
{
    return (const ptoi_ran *)(const void *)log->memory;
}

static inline const ptoi_ran *ptoi_trace_end_ran(const ptoi_log *log)
{
    return ptoi_trace_first_ran(log) + log->used / sizeof(ptoi_ran);
}

#endif /* PTOI_TRACE_BUILD_H */
