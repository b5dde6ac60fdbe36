/* rows.h - assigns the tasks of a lane to rows of a picture.
 *
 * Everything that a thread does nests: a wait contains the tasks that the caller ran during it. The
 * exception is tasks whose kernel returned PTO_PENDING: they continue while the thread does other
 * things. They get rows of their own beside the lane.
 */
#ifndef PTOI_ROWS_H
#define PTOI_ROWS_H

#include "observe/ptrace_read.h"

/* A task that ran. */
typedef struct ptoi_task_run {
    uint64_t start, end;
    uint32_t lane, task;
    uint32_t row; /* 0 is the lane itself, others are for pending tasks */
} ptoi_task_run;

typedef struct ptoi_rows {
    ptoi_task_run *runs; /* by lane and start */
    uint64_t n_runs;
    uint32_t *run_of; /* by task: its run, or PTRACE_NONE */
    uint32_t *beside; /* by lane: rows beside all lanes before it; the entry after the last lane is
                         their total */
} ptoi_rows;

/* false if there is no memory. */
bool ptoi_rows_find(const ptoi_ptrace *trace, ptoi_rows *rows);
void ptoi_rows_free(ptoi_rows *rows);

#endif /* PTOI_ROWS_H */
