/* device.c - the workers of a device other than the host: threads on which the device is current. */
#include <string.h>

#include <pto/pto.h>

#include "base/error.h"
#include "worker/crash.h"
#include "worker/launcher.h"
#include "worker/worker.h"

/* How many threads the device has, and which types each serves. Only one of them uses streams: the
 * first (launcher.h). */
static uint32_t count_threads(const ptoi_scheduler *s, const pto_device_ops *ops, uint32_t *types,
                              uint32_t most)
{
    uint32_t n = 0;
    if (s->place == PTO_PLACE_GPU && s->n_devices == 1 &&
        most) { /* a grid runs all else: keeper.h */
        types[0] = PTO_TYPE_BIT(PTO_ACCELERATOR);
        return 1;
    }
    for (uint32_t type = 0; !ops->streams && type < PTO_WORKER_TYPES; type++) {
        for (uint32_t i = 0; i < ops->workers[type] && n < most; i++) {
            types[n++] = PTO_TYPE_BIT(type);
        }
    }
    if (n == 0 && most >= 2) {
        types[n++] = PTO_ALL_TYPES & ~PTO_TYPE_BIT(PTO_ACCELERATOR);
        types[n++] = PTO_TYPE_BIT(PTO_ACCELERATOR);
    }
    return n;
}

uint32_t ptoi_scheduler_count_threads(const ptoi_scheduler *s, const pto_device_ops *ops)
{
    uint32_t types[PTOI_DEVICE_WORKERS];
    return count_threads(s, ops, types, PTOI_DEVICE_WORKERS);
}

/* Memory of all workers of the device, before one starts. */
static pto_status reserve(ptoi_scheduler *s, ptoi_sched_device *d, uint32_t n)
{
    d->worker_bytes = n * sizeof *d->workers;
    d->workers = ptoi_os_reserve(d->worker_bytes);
    d->stacks = s->crash_report ? ptoi_os_reserve(n * PTOI_CRASH_STACK) : NULL;
    if (!d->workers || (s->crash_report && !d->stacks)) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "%u workers of a device", n);
    }
    d->n_workers = n;
    if (d->ops.streams && n > 1) {
        d->launcher_bytes = ptoi_launcher_bytes(&s->view);
        d->launcher = ptoi_os_reserve(d->launcher_bytes);
        if (!d->launcher) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "%zu bytes for the launches of a device",
                             d->launcher_bytes);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        d->workers[i].calls.args = ptoi_os_reserve(s->args_bytes);
        if (!d->workers[i].calls.args) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "arguments of worker %u of a device", i);
        }
    }
    return PTO_OK;
}

static pto_status start(ptoi_scheduler *s, uint32_t number, const uint32_t *types, uint32_t first)
{
    ptoi_sched_device *d = &s->devices[number];
    for (uint32_t i = 0; i < d->n_workers; i++) {
        ptoi_worker *w = &d->workers[i];
        pto_arg *args = w->calls.args;
        const uint32_t id = ptoi_line_of_device(&s->view, first + i);
        ptoi_scheduler_init_device_worker(s, w, number, id, types[i]);
        w->calls.args = args;
        w->calls.call.args = args;
        w->calls.call.worker = i;
        w->calls.call.device = d->device;
        w->calls.call.stream = d->ops.stream;
        w->launcher = i == 0 ? d->launcher : NULL;
        w->plain = !w->launcher;
        w->calls.watched = s->caller->calls.watched;
        w->log = s->logs ? &s->logs[id] : NULL;
        w->stack = d->stacks ? d->stacks + i * PTOI_CRASH_STACK : NULL;
    }
    for (uint32_t i = 0; i < d->n_workers; i++) {
        const int why = ptoi_worker_start(&d->workers[i]);
        if (why) {
            return ptoi_fail(PTO_SYSTEM, "the thread of worker %u of a device: %s", i,
                             strerror(why));
        }
    }
    return PTO_OK;
}

pto_status ptoi_scheduler_add_device(ptoi_scheduler *s, uint32_t number, pto_device device,
                                     const pto_device_ops *ops, uint32_t first, uint32_t *served,
                                     uint32_t *n_workers)
{
    uint32_t types[PTOI_DEVICE_WORKERS];
    const uint32_t n = count_threads(s, ops, types, PTOI_DEVICE_WORKERS - first);
    ptoi_sched_device *d = &s->devices[number];
    if (n == 0) {
        return ptoi_fail(PTO_FULL, "%u workers of other devices are there already", first);
    }
    *d = (ptoi_sched_device){.device = device, .ops = *ops};
    s->n_devices = number + 1; /* from here on it is freed with the scheduler */
    PTO_TRY(ptoi_scheduler_create_queues(s, number));
    PTO_TRY(reserve(s, d, n));
    s->view.base[ptoi_segment_user(number)] = (char *)(uintptr_t)ops->shift;
    *served = s->place == PTO_PLACE_GPU && number == 1 ? PTOI_GRID_TYPES : 0;
    for (uint32_t i = 0; i < n; i++) {
        *served |= types[i];
    }
    *n_workers = n;
    return start(s, number, types, first);
}

void ptoi_scheduler_add_heap(ptoi_scheduler *s, uint32_t device, uint32_t level, char *memory,
                             struct ptoi_guard *guards, ptoi_a64 *reported)
{
    const uint32_t segment = ptoi_segment_heap(device, level);
    s->view.base[segment] = memory + s->devices[device].ops.shift;
    s->view.guards[segment] = guards;
    s->view.reported[segment] = reported;
}
