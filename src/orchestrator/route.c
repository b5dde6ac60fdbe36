/* route.c - submits tasks in a runtime that uses several devices. */
#include "orchestrator/route.h"

#include <string.h>

#include "base/error.h"
#include "orchestrator/fast.h"
#include "orchestrator/many.h"

/* A grid has kernels of the program only. Built-in ones, which are their own variant, run on the engine's
 * thread. */
static inline void route_to(const pto_runtime *rt, ptoi_request *q, uint32_t device,
                            uint32_t variant)
{
    const bool built_in = rt->mirrored && device == rt->home && variant == q->kernel;
    q->lane = ptoi_lane(device, built_in ? PTO_ACCELERATOR : ptoi_lane_type(q->lane));
    q->kernel = variant;
}

pto_status ptoi_route_find(pto_runtime *rt, ptoi_request *q)
{
    uint32_t device = 0, variant = 0;
    PTO_TRY(ptoi_device_of_task(rt, q->kernel, q->params, q->n_params, &device, &variant));
    route_to(rt, q, device, variant);
    return PTO_OK;
}

/* The common case: the kernel has a variant for the default device. Returns that device as a word, or 0. */
static inline uint64_t try_home(const pto_runtime *rt, const ptoi_request *q, ptoi_request *at_home)
{
    const ptoi_rt_device *home = &rt->devices[rt->home];
    const ptoi_registered *k = &rt->kernels[q->kernel];
    const uint32_t variant = k->variant[home->device.type], type = k->route & ~PTOI_ROUTE_DECLARED;
    uint64_t word;
    if (!rt->home || !variant || !(home->served >> type & 1)) {
        return 0;
    }
    *at_home = *q;
    route_to(rt, at_home, rt->home, variant);
    memcpy(&word, &home->device, sizeof word);
    return word;
}

/* The fast path for tasks on the default device: true if it has submitted this one. The walk looks whether all
 * tensors are there. The buffers of managed ones are where the tensors say, or they are unusual. */
static inline bool submit_at_home(pto_runtime *rt, const ptoi_request *q)
{
    uint32_t found[PTOI_FAST_PARAMS];
    ptoi_edges edges = {.refs = rt->ring->refs + rt->ring->deps.at};
    ptoi_resolved f;
    ptoi_request there;
    const ptoi_fast_walk walk = {
        .device = rt->home, .where = try_home(rt, q, &there), .most = PTOI_FAST_EDGES};
    if (!walk.where || !ptoi_fast_may(rt, q) ||
        ptoi_fast_resolve(rt, &there, walk, &f, found, &edges) != PTOI_RESOLVED) {
        return false;
    }
    ptoi_fast_publish(rt, &there, walk, &f, found, &edges);
    return true;
}

pto_status ptoi_route_submit(pto_runtime *rt, ptoi_request *q, bool *host)
{
    *host = false;
    if (PTOI_LIKELY(submit_at_home(rt, q))) {
        return PTO_OK;
    }
    PTO_TRY(ptoi_route_find(rt, q));
    const uint32_t device = ptoi_lane_device(q->lane);
    *host = device == 0;
    return *host || ptoi_many_submit(rt, q, device) ? PTO_OK : ptoi_slow_submit(rt, q, NULL);
}
