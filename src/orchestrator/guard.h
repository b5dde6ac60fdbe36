/* guard.h - guards of managed memory on the orchestrator's side (window/guard.h has the picture):
 * armed as a task takes memory, checked when everything is complete and as memory is recycled. */
#ifndef PTOI_ORCHESTRATOR_GUARD_H
#define PTOI_ORCHESTRATOR_GUARD_H

#include "window/guard.h"

struct ptoi_buffer;

/* What the address sanitizer was told to hide lies below these, on each level. */
typedef struct ptoi_guard_hidden {
    uint64_t below[PTO_MAX_LEVELS];
    uint64_t armings; /* numbers given out */
} ptoi_guard_hidden;

/* A task whose buffers have their memory by now: arms the guards of what it brings, and records where
 * the buffers of its arguments begin. Its first argument is unit `unit`. */
void ptoi_guard_task(pto_runtime *rt, uint32_t level, uint64_t seq, uint64_t unit,
                     const pto_param *params, size_t n_params);

/* The buffer has got memory without a task that runs. */
void ptoi_guard_memory(pto_runtime *rt, const struct ptoi_buffer *b);

/* The memory of a task is about to be recycled. */
void ptoi_guard_recycle(pto_runtime *rt, uint32_t level, uint64_t seq);

/* Checks all memory. Every task is complete. */
void ptoi_guard_sweep(pto_runtime *rt);

/* Lets everybody touch the heaps again, before their addresses go to others. */
void ptoi_guard_show_all(pto_runtime *rt);

#endif /* PTOI_ORCHESTRATOR_GUARD_H */
