/* watch.c - watchers of tasks: the program's own, and the trace. */
#include "orchestrator/watch.h"

#include "base/error.h"
#include "orchestrator/label.h"
#include "orchestrator/trace.h"
#include "orchestrator/wait.h"

pto_status ptoi_watch_called(pto_runtime *rt)
{
    ptoi_trace_called(rt);
    ptoi_label_called(rt);
    return ptoi_wait_unmapped(rt);
}

void ptoi_watch_update(pto_runtime *rt)
{
    rt->watched = rt->watcher.size || rt->trace || rt->unmapped ||
                  rt->label.state != PTOI_LABEL_NONE;
}

void ptoi_watch_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                          size_t n_params)
{
    const pto_watcher *w = &rt->watcher;
    if (w->submitted) {
        const ptoi_kernel_entry *kernel = &rt->view.kernels[ptoi_slot_header_of(slot).kernel];
        rt->inside = true; /* the submit is not over: a call of the runtime would start another */
        w->submitted(w->user, ptoi_task_of(slot), ptoi_string(&rt->view, kernel->name), params,
                     n_params);
        rt->inside = false;
    }
    if (rt->trace) {
        ptoi_trace_submitted(rt, slot, params, n_params);
    }
    ptoi_label_take(rt, slot);
}

pto_status pto_watch(pto_runtime *rt, const pto_watcher *watcher)
{
    PTO_TRY(ptoi_runtime_enter(rt, "watch"));
    if (watcher && watcher->size != sizeof *watcher) {
        return ptoi_fail(PTO_BAD_CONFIG, "watch: size of the watcher is %zu, it should be %zu",
                         watcher->size, sizeof *watcher);
    }
    if (rt->processes && watcher && (watcher->started || watcher->ended)) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "watch: workers would call `started` and `ended`, and they "
                         "are other processes here (PTO_SCHEDULER=process)");
    }
    if (rt->mirrored && rt->devices[rt->home].ops.grid_launch && watcher &&
        (watcher->started || watcher->ended)) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "watch: `started` and `ended` would be called by blocks of a device that "
                         "schedules for itself (PTO_SCHEDULER=gpu): record a trace instead "
                         "(PTO_TRACE)");
    }
    PTO_TRY(ptoi_wait_all(rt));
    rt->watcher = watcher ? *watcher : (pto_watcher){0};
    ptoi_watch_update(rt);
    ptoi_scheduler_watch(rt->scheduler, watcher, watcher || rt->trace);
    return PTO_OK;
}
