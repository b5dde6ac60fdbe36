/* line.h - what a thread or a block that runs kernels writes about itself, and where kernels are. This
 * header compiles as C11 and as CUDA C++. */
#ifndef PTOI_LINE_H
#define PTOI_LINE_H

#include "window/task.h"

/* ---- The threads that run kernels: [s] ---- */

/* Counts of one thread. Only that thread raises them. */
typedef struct ptoi_tally {
    ptoi_a64 completed; /* W7 */
    ptoi_a64 failed, skipped;
} ptoi_tally;

/* The cache line that the thread writes for every task. `task` is not cleared when the kernel
 * returns: the state of the task says whether it still runs. So support for outside readers costs a
 * worker one store per task. */
typedef struct ptoi_worker_line {
    _Alignas(PTOI_LINE) ptoi_a64 task; /* pto_task, the last whose kernel it called; 0: none yet */
    ptoi_tally tally;
    ptoi_a32 thread;   /* id of the thread in the system; 0: it has not started */
    ptoi_a32 activity; /* W17: ptoi_activity */
    ptoi_a32 guests;   /* W17: of the line of other threads: calls of pto_task_complete under way */
} ptoi_worker_line;

typedef enum ptoi_activity {
    PTOI_STEPS, /* it may be anywhere in the protocol */
    PTOI_KERNEL,
    PTOI_PAUSED,
} ptoi_activity;

_Static_assert(sizeof(ptoi_worker_line) == PTOI_LINE, "a worker has one cache line");

#define PTOI_LABEL_WORDS 8 /* PTO_LABEL_BYTES, in words */

/* The label of a task (pto_label), one for each slot; or the name of an open range. Pages that hold
 * no label are never touched. W15. */
typedef struct ptoi_label {
    ptoi_a64 key; /* a task by its order, or a range by its number; PTOI_LABEL_OPEN while written */
    ptoi_a64 text[PTOI_LABEL_WORDS];
} ptoi_label;

#define PTOI_LABEL_OPEN UINT64_MAX

/* The first failure, in order of submission, that one thread has seen in this era. The orchestrator
 * takes the first of all threads, so that no lock is needed. W14. */
typedef struct ptoi_failed {
    _Alignas(PTOI_LINE) ptoi_a64 serial; /* odd while it is written; 0: no failure yet */
    ptoi_a64 era, order, task, status;
    ptoi_a64 header;                  /* ptoi_slot_header of the task */
    ptoi_a64 message[32];             /* text */
    ptoi_a64 label[PTOI_LABEL_WORDS]; /* text */
} ptoi_failed;

/* ---- Kernels ---- */

/* Where the code of a kernel is: for processes that were forked from this one (worker/process.h), and
 * for a device that schedules for itself. [o] */
typedef struct ptoi_kernel_code {
    uint64_t address; /* of its function; place gpu: number of the kernel in its module, plus one */
    uint64_t user;    /* place of its user data in the shared memory, plus one; 0: NULL */
} ptoi_kernel_code;

#endif /* PTOI_LINE_H */
