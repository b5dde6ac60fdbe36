/* watch.h - watchers of tasks: the program's own, and the trace. Orchestrator's side. */
#ifndef PTOI_WATCH_H
#define PTOI_WATCH_H

#include "orchestrator/runtime.h"

/* The task is written but not yet published. Called if rt->watched. */
void ptoi_watch_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                          size_t n_params);

#endif /* PTOI_WATCH_H */
