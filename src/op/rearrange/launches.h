/* launches.h - the launches of a grid plan. In C and in C++: for libpto-cuda and for tests. */
#ifndef PTOI_LAUNCHES_H
#define PTOI_LAUNCHES_H

#include "op/rearrange/grid.h"

/* One launch. `to` and `from` are bytes to be added to the addresses of the copy. */
typedef pto_status ptoi_launch(void *context, const ptoi_grid *grid, int64_t to, int64_t from);

/* All of the last step, in as few launches as possible. */
static inline pto_status ptoi_launch_parts(const ptoi_grid_plan *plan, ptoi_launch *launch,
                                           void *context, int64_t to, int64_t from)
{
    ptoi_grid grid = plan->grid;
    const ptoi_step *step = &plan->grid.step[plan->grid.n - 1];
    int64_t most = PTOI_GRID_MOST / plan->inner;
    pto_status s = PTO_OK;
    for (int64_t k = 0; k < plan->last && !s; k += most) {
        grid.items = (uint32_t)(plan->inner * (plan->last - k < most ? plan->last - k : most));
        s = launch(context, &grid, to + k * step->to, from + k * step->from);
    }
    return s;
}

/* Calls `launch` for each launch of the plan, until one fails. */
static inline pto_status ptoi_launch_all(const ptoi_grid_plan *plan, ptoi_launch *launch,
                                         void *context)
{
    int64_t index[PTO_MAX_DIMS] = {0}, to = 0, from = 0;
    bool more = plan->grid.way != PTOI_GRID_NOTHING;
    pto_status s = PTO_OK;
    while (more && !s) {
        s = ptoi_launch_parts(plan, launch, context, to, from);
        more = false;
        for (int32_t k = 0; k < plan->n_repeat && !more; k++) {
            to += plan->repeat[k].to;
            from += plan->repeat[k].from;
            more = ++index[k] < plan->repeat[k].count;
            if (!more) { /* back to the start, and on to the next one */
                to -= index[k] * plan->repeat[k].to;
                from -= index[k] * plan->repeat[k].from;
                index[k] = 0;
            }
        }
    }
    return s;
}

#endif /* PTOI_LAUNCHES_H */
