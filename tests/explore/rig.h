/* rig.h - a whole runtime in a world: names for shared memory, kernels on plain data. */
#ifndef EXPLORE_RIG_H
#define EXPLORE_RIG_H

#include "orchestrator/runtime.h"
#include "scenario.h"

enum { RIG_CELLS = 8 };

typedef struct rig {
    pto_runtime *rt;
    pto_kernel set, add, twice, cube, fail, pend, signal;
    int64_t cell[RIG_CELLS]; /* memory of the user */
    pto_tensor t[RIG_CELLS]; /* one element of it each */
    ptoi_a64 pending;        /* the task that `pend` left behind; 0: none yet */
    ptoi_a32 signals;        /* number of times that `signal` ran */
    pto_status status[2];    /* status that other threads got */
    pto_runtime_stats stats;
} rig;

extern rig *r;

/* Creates a runtime in *r with this configuration, but small tables, and names its memory. */
pto_config rig_config(uint32_t workers, pto_place place);
void rig_create(const pto_config *config);

/* Submits a task, which must succeed. */
#define rig_submit(...) world_check(pto_submit(r->rt, __VA_ARGS__) == PTO_OK)

/* set: out = scalar; add: out = a + b, or out += a; twice, cube: inout *= 2; fail: fails; pend:
 * leaves its completion and its first output to another thread; signal: increments r->signals. */

#endif /* EXPLORE_RIG_H */
