/* first_use.h - a task that should run inline uses a view that the map does not know yet. Orchestrator's side. */
#ifndef PTOI_FIRST_USE_H
#define PTOI_FIRST_USE_H

#include "orchestrator/runtime.h"

typedef enum ptoi_first {
    PTOI_FIRST_UNUSUAL, /* the slow path says why */
    PTOI_FIRST_WAITS,   /* the task has to wait for another one */
    PTOI_FIRST_FREE
} ptoi_first;

/* Prepares the argument of the kernel. `b` is the buffer of a managed tensor, and has memory; `kind` is that of the
 * parameter. The map may know the view from now on. */
ptoi_first ptoi_first_use(pto_runtime *rt, const pto_tensor *t, const ptoi_buffer *b, uint64_t kind,
                          pto_arg *arg);

#endif /* PTOI_FIRST_USE_H */
