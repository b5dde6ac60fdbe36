/* watch.h - watchers of tasks: the program's own, and the trace. Orchestrator's side. */
#ifndef PTOI_WATCH_H
#define PTOI_WATCH_H

#include "orchestrator/runtime.h"

/* A submit begins. Called if rt->watched. Waits for a task that must run alone. */
PTO_MUST_CHECK pto_status ptoi_watch_called(pto_runtime *rt);

/* Sets rt->watched: whether submit calls these functions. */
void ptoi_watch_update(pto_runtime *rt);

/* The task is written but not yet published. Called if rt->watched. */
void ptoi_watch_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                          size_t n_params);

#endif /* PTOI_WATCH_H */
