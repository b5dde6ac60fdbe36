/* slow.c - the slow path of submit: any task, step by step. */
#include "orchestrator/slow.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/probe.h"
#include "orchestrator/buffer.h"
#include "orchestrator/device.h"
#include "orchestrator/link.h"
#include "orchestrator/map/desc_cache.h"
#include "orchestrator/names.h"
#include "orchestrator/params.h"
#include "orchestrator/retire.h"
#include "orchestrator/room.h"
#include "orchestrator/route.h"
#include "orchestrator/wait.h"
#include "orchestrator/watch.h"
#include "orchestrator/write.h"

#define FEW 32           /* parameters that the stack has room for */
#define SWEEP_EVERY 4096 /* tasks, at least, between two sweeps of layout descriptors */

/* Too many accesses for the stack: the runtime has memory for one such task. */
static __attribute__((noinline, cold)) pto_status borrow_accesses(ptoi_slow *d)
{
    pto_runtime *rt = d->rt;
    if (d->n_params > PTOI_MAX_PARAMS) {
        return ptoi_fail(PTO_TOO_LARGE,
                         "submit: %zu parameters; a task has at most a million parameters (%u)",
                         d->n_params, PTOI_MAX_PARAMS);
    }
    if (d->n_params > rt->view.header->max_params) {
        return ptoi_fail(PTO_TOO_LARGE,
                         "submit: %zu parameters for the %" PRIu64 " bytes of arguments of level "
                         "%u: raise arg_bytes (PTO_ARGS) to at least %zu",
                         d->n_params, d->rings->args.size * 16, d->level, d->n_params * 16);
    }
    d->accesses = rt->accesses;
    d->kinds = (uint8_t *)(rt->accesses + rt->view.header->max_params);
    return PTO_OK;
}

/* Gives back the ids of layouts that nobody names any more: regions with a live access, buffers and
 * the arguments of tasks that are not recycled do. Recycled tasks are complete (W2), so no worker
 * reads their layouts. The next sweep has to wait until this one has paid off. */
static __attribute__((noinline, cold)) void sweep_descs(pto_runtime *rt)
{
    ptoi_descs *descs = &rt->map->descs;
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire(rt, l);
    }
    ptoi_desc_cache_release(rt->map);
    for (uint32_t l = 0; l < rt->levels; l++) {
        const ptoi_rings *t = &rt->rings[l];
        for (uint64_t n = t->retired; n != t->head; n++) {
            const ptoi_slot *slot = &t->slots[(uint32_t)n & t->mask];
            const ptoi_arg_desc *arg = t->arg_descs + slot->args;
            for (uint32_t i = 0; i < slot->n_args; i++, arg = ptoi_arg_next(arg)) {
                ptoi_descs_mark(descs, ptoi_arg_is_scalar(arg) ? 0 : arg->desc);
            }
        }
    }
    for (uint32_t i = 0; i < rt->n_buffers; i++) {
        ptoi_descs_mark(descs, rt->buffers[i].desc);
    }
    rt->temp_desc = 0; /* it is looked up again */
    ptoi_descs_sweep(descs);
    rt->sweep_at = rt->order + SWEEP_EVERY;
}

/* Any task, step by step. `ran`: it ran inline, and its kernel did not return PTO_OK. */
pto_status ptoi_slow_submit(pto_runtime *rt, ptoi_request *q, const ptoi_inline_end *ran)
{
    ptoi_slow d;
    pto_map_param accesses[FEW];
    uint8_t kinds[FEW];
    /* The first tensor on another device than the host: its device is opened now. */
    if (PTOI_UNLIKELY(rt->n_devices == 1 && q->n_params <= rt->view.header->max_params &&
                      ptoi_device_is_named(q->params, q->n_params))) {
        PTO_TRY(ptoi_route_find(rt, q));
    }
    if (PTOI_UNLIKELY(ptoi_descs_may_run_out(&rt->map->descs, q->n_params)) &&
        rt->order >= rt->sweep_at && !ran) { /* a task that ran names ids in no argument yet */
        sweep_descs(rt);
    }
    ptoi_slow_begin(&d, rt, rt->level, q->params, q->n_params);
    d.accesses = accesses;
    d.kinds = kinds;
    if (PTOI_UNLIKELY(q->n_params > FEW)) {
        PTO_TRY(borrow_accesses(&d));
    }
    PTO_TRY(ptoi_slow_read(&d));
    if (PTOI_UNLIKELY(d.needs_outer)) {
        PTO_TRY(ptoi_block_give_outer(&d, q->file, q->line));
    }
    PTO_TRY(ptoi_slow_reserve(&d));
    PTO_TRY(ptoi_slow_link(&d));
    const ptoi_slot *slot = ptoi_slow_write(&d, q->kernel, q->lane,
                                            ptoi_site_of(rt, q->file, q->line));
    const pto_task self = ptoi_task_make(d.seq, d.level);
    if (!ran) { /* run_inline has passed it */
        PTOI_PROBE(submit, self, ptoi_kernel_name(&rt->view, q->kernel), rt->order);
    }
    ptoi_write_count(rt, d.level, d.seq);
    if (PTOI_UNLIKELY(rt->watched && !ran)) {
        ptoi_watch_submitted(rt, slot, q->params, q->n_params);
    }
    ptoi_publish(rt, slot, &d.edges, ran);
    if (PTOI_UNLIKELY(d.barrier)) { /* it is not in the map: it must end before the next submit */
        rt->unmapped = rt->last;
        ptoi_watch_update(rt);
        PTO_IGNORE(ptoi_wait_unmapped(rt)); /* if a worker is lost, the next call waits for it */
    }
    return PTO_OK;
}
