/* route.c - submits tasks in a runtime that uses several devices. */
#include "orchestrator/route.h"

#include "base/error.h"
#include "orchestrator/fast.h"

pto_status ptoi_route_find(pto_runtime *rt, ptoi_request *q)
{
    uint32_t device = 0, variant = 0;
    PTO_TRY(ptoi_device_of_task(rt, q->kernel, q->params, q->n_params, &device, &variant));
    /* A grid has kernels of the program only. Built-in ones, which are their own variant, run on the
     * engine's thread. */
    const bool built_in = rt->mirrored && device == rt->home && variant == q->kernel;
    q->lane = ptoi_lane(device, built_in ? PTO_ACCELERATOR : ptoi_lane_type(q->lane));
    q->kernel = variant;
    return PTO_OK;
}

pto_status ptoi_route_submit(pto_runtime *rt, ptoi_request *q, bool *host)
{
    PTO_TRY(ptoi_route_find(rt, q));
    const uint32_t device = ptoi_lane_device(q->lane);
    uint32_t found[PTOI_FAST_PARAMS];
    ptoi_edges edges = {.refs = rt->ring->refs + rt->ring->deps.at};
    ptoi_resolved f;
    *host = device == 0;
    if (*host) {
        return PTO_OK;
    }
    if (!ptoi_fast_may(rt, q) ||
        ptoi_fast_resolve(rt, q, false, device, &f, found, &edges) != PTOI_RESOLVED) {
        return ptoi_slow_submit(rt, q, NULL);
    }
    ptoi_fast_publish(rt, q, device, &f, found, &edges);
    return PTO_OK;
}
