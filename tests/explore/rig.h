/* rig.h - a whole runtime in a world: names for what threads share, kernels on plain data. */
#ifndef EXPLORE_RIG_H
#define EXPLORE_RIG_H

#include "orchestrator/runtime.h"
#include "scenario.h"

enum { RIG_CELLS = 8 };

typedef struct rig {
    pto_runtime *rt;
    pto_kernel set, add, twice, cube, fail, pend, tell;
    int64_t cell[RIG_CELLS]; /* memory of the user */
    pto_tensor t[RIG_CELLS]; /* each one element of it */
    ptoi_a64 pending;        /* the task that `pend` left behind; 0: none yet */
    ptoi_a32 told;           /* times that `tell` ran */
    pto_status status[2];    /* what other threads were told */
    pto_runtime_stats stats;
} rig;

extern rig *r;

/* A runtime as configured but for what no scenario needs large, with its names, in *r. */
pto_config rig_config(uint32_t workers, pto_place place);
void rig_create(const pto_config *config);

/* Submits and expects it to go well. */
#define rig_submit(...) world_check(pto_submit(r->rt, __VA_ARGS__) == PTO_OK)

/* set: out = scalar; add: out = a + b, or out += a; twice, cube: inout *= 2; fail: fails; pend:
 * leaves its ending, and its first output, to somebody else; tell: raises r->told. */

#endif /* EXPLORE_RIG_H */
