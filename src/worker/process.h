/* process.h - worker processes, and the helper that starts them. Scheduler's side.
 *
 *     program ──fork──> helper ──fork──> worker process 0      one or more threads that run kernels
 *        │                │     ──fork──> worker process 1
 *        └── channel ─────┘
 *
 * The helper has one thread, so what it forks is sound whatever the program's other threads did. It
 * holds no task. It starts worker processes, tells the program when one has ended, and rebuilds the
 * scheduler's part of the window on request.
 *
 * Each of these processes maps the window anew: the orchestrator's part read-only, at addresses of
 * its own. A worker process ends with the helper, and the helper with the program.
 */
#ifndef PTOI_PROCESS_H
#define PTOI_PROCESS_H

#include "scheduler/scheduler.h"

/* A worker process, as the helper knows it. */
typedef struct ptoi_process {
    uint32_t number;       /* its line is PTOI_LINE_OTHERS + number; from 1 on */
    uint32_t first, count; /* its workers */
    int32_t pid;           /* 0: it does not run */
} ptoi_process;

/* The workers of process `number`, which counts from 1. */
ptoi_process ptoi_process_plan(const ptoi_settings *settings, uint32_t number);

/* The life of a worker process that was just forked from the helper. Does not return. */
_Noreturn void ptoi_process_run(const ptoi_helper_start *start, const ptoi_process *process);

/* Whether this process has kernel `number`. */
bool ptoi_process_has_kernel(const ptoi_scheduler *s, uint32_t number);

/* Makes kernel `number` callable in this process: by its address if the process was forked from the
 * program, by its name if it has attached. False: this process does not have it, and the detail says
 * so. */
bool ptoi_process_adopt_kernel(ptoi_scheduler *s, uint32_t number);

/* For a process that has attached: finds a kernel by its name; NULL: it has none. */
extern pto_kernel_fn (*ptoi_process_find_kernel)(const char *name);

#endif /* PTOI_PROCESS_H */
