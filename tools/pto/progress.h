/* progress.h - the line on a terminal that says how far a run has come. */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include "workload.h"

typedef struct progress progress;

/* NULL if nobody would see it: stderr is no terminal. Everything here takes NULL. */
progress *progress_create(const workload_job *job);
void progress_destroy(progress *p);

/* One orchestration begins, number `run` of `runs`; ends: the line is gone. */
void progress_begin(progress *p, int64_t run, int64_t runs);
void progress_end(progress *p);

/* So many steps were submitted. */
void progress_step(progress *p, uint64_t done);

/* Keep the line away while something else is written to the terminal. */
void progress_hide(progress *p);
void progress_show(progress *p);

#endif /* TOOL_PROGRESS_H */
