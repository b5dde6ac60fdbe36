/* watch.h - who watches tasks: a watcher of the program, and the trace. */
#ifndef PTOI_WATCH_H
#define PTOI_WATCH_H

#include "orchestrator/runtime.h"

/* The task is written, and not published yet. Called if rt->watched. */
void ptoi_watch_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                          size_t n_params);

#endif /* PTOI_WATCH_H */
