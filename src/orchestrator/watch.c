/* watch.c - watchers of tasks: the program's own, and the trace. */
#include "orchestrator/watch.h"

#include "base/error.h"
#include "orchestrator/trace.h"
#include "orchestrator/wait.h"

void ptoi_watch_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                          size_t n_params)
{
    const pto_watcher *w = &rt->watcher;
    if (w->submitted) {
        const ptoi_kernel_entry *kernel = &rt->view.kernels[ptoi_slot_header_of(slot).kernel];
        w->submitted(w->user, ptoi_task_of(slot), ptoi_string(&rt->view, kernel->name), params,
                     n_params);
    }
    if (rt->trace) {
        ptoi_trace_submitted(rt, slot, params, n_params);
    }
}

pto_status pto_watch(pto_runtime *rt, const pto_watcher *watcher)
{
    PTO_TRY(ptoi_runtime_enter(rt, "watch"));
    if (watcher && watcher->size != sizeof *watcher) {
        return ptoi_fail(PTO_BAD_CONFIG, "watch: size of the watcher is %zu, it should be %zu",
                         watcher->size, sizeof *watcher);
    }
    ptoi_wait_all(rt);
    rt->watched = watcher || rt->trace;
    rt->watcher = watcher ? *watcher : (pto_watcher){0};
    ptoi_scheduler_watch(rt->scheduler, watcher, rt->watched);
    return PTO_OK;
}
