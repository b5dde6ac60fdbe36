/* progress.h - the progress line of a run on a terminal. */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include "workload.h"

typedef struct progress progress;

/* Returns NULL if stderr is not a terminal. All functions accept NULL. */
progress *progress_create(const workload_job *job);
void progress_destroy(progress *p);

/* Starts the line for orchestration `run` of `runs`; removes it at the end. */
void progress_begin(progress *p, int64_t run, int64_t runs);
void progress_end(progress *p);

/* Reports how many steps were submitted. */
void progress_step(progress *p, uint64_t done);

/* Removes the line while other text is written to the terminal, and shows it again. */
void progress_hide(progress *p);
void progress_show(progress *p);

#endif /* TOOL_PROGRESS_H */
