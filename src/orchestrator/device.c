/* device.c - opens devices, makes their heaps, and decides where a task runs. */
#include "orchestrator/device.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "device/device.h"
#include "orchestrator/attach.h"
#include "orchestrator/buffer.h"
#include "orchestrator/cache.h"
#include "orchestrator/names.h"
#include "orchestrator/shared.h"
#include "orchestrator/trace.h"
#include "window/builtin.h"

ptoi_device_text ptoi_device_words(pto_device device)
{
    ptoi_device_text text;
    snprintf(text.s, sizeof text.s, "%s:%" PRId32, pto_device_name(device.type), device.index);
    return text;
}

ptoi_device_text ptoi_device_where(const pto_runtime *rt, uint32_t number)
{
    ptoi_device_text text = {""};
    const pto_device device = ptoi_device_at(rt, number);
    if (number) {
        snprintf(text.s, sizeof text.s, " on %s:%" PRId32, pto_device_name(device.type),
                 device.index);
    }
    return text;
}

/* ---- Opening ---- */

static const char *missing_function(const pto_device_ops *ops)
{
    return !ops->alloc                    ? "alloc"
           : !ops->copy && !ops->copy_in  ? "copy, nor copy_in"
           : !ops->copy && !ops->copy_out ? "copy, nor copy_out"
           : ops->streams && (!ops->stream_create || !ops->stream_destroy || !ops->event_create ||
                              !ops->event_destroy || !ops->event_record || !ops->event_query ||
                              !ops->event_wait)
               ? "for streams that it needs"
               : NULL;
}

/* Shows a device to outside readers. */
static void publish_device(pto_runtime *rt, uint32_t number)
{
    ptoi_device_line *line = &rt->view.header->device[number];
    ptoi_set64(&line->device, ptoi_device_word(rt->devices[number].device));
    ptoi_set32(&line->first_worker, rt->devices[number].first_worker);
    ptoi_set32(&line->n_workers, rt->devices[number].n_workers);
    ptoi_release32(&rt->view.header->devices, number + 1);
}

void ptoi_devices_publish(pto_runtime *rt, uint32_t level)
{
    for (uint32_t d = 1; d < rt->n_devices; d++) {
        const ptoi_heap *heap = &rt->devices[d].heap[level];
        ptoi_device_line *line = &rt->view.header->device[d];
        ptoi_set64(&line->heap[level].used, heap->used);
        ptoi_set64(&line->heap[level].peak, heap->peak);
        ptoi_set64(&line->heap[level].size, heap->size);
    }
}

static pto_status open_device(pto_runtime *rt, const char *who, pto_device device, uint32_t *number)
{
    const ptoi_device_text name = ptoi_device_words(device);
    ptoi_header *h = rt->view.header;
    pto_device_ops ops;
    if (rt->processes) {
        return ptoi_fail(PTO_BAD_DEVICE,
                         "%s: %s: worker processes (PTO_SCHEDULER=process) use the CPU only", who,
                         name.s);
    }
    pto_status s = pto_device_get(device, &ops);
    if (s) {
        return ptoi_fail(s, "%s: %s", who, pto_error_detail());
    }
    if (missing_function(&ops)) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: %s has no function %s", who, name.s,
                         missing_function(&ops));
    }
    if (rt->n_devices == PTOI_DEVICES) {
        return ptoi_fail(PTO_FULL, "%s: %s after %d other devices", who, name.s, PTOI_DEVICES - 1);
    }
    const uint32_t n = rt->n_devices, first = ptoi_get32(&h->device_workers);
    uint32_t workers = 0;
    ptoi_rt_device *d = &rt->devices[n];
    *d = (ptoi_rt_device){.device = device, .ops = ops};
    d->first_worker = first;
    PTO_TRY(ptoi_trace_add_threads(rt, ptoi_scheduler_count_threads(rt->scheduler, &ops), false));
    s = ptoi_scheduler_add_device(rt->scheduler, n, device, &ops, first, &d->served, &workers);
    d->n_workers = workers;
    ptoi_release32(&h->device_workers, first + workers);
    publish_device(rt, n);
    rt->n_devices++;
    rt->routes = 0; /* from now on every submit looks where its tensors are */
    if (s) {
        d->served = 0;
        d->failed = true;
        return ptoi_fail(s, "%s: %s: %s", who, name.s, pto_error_detail());
    }
    *number = n;
    return PTO_OK;
}

pto_status ptoi_device_number(pto_runtime *rt, const char *who, pto_device device, uint32_t *number)
{
    for (uint32_t i = 0; i < rt->n_devices; i++) {
        if (ptoi_device_equal(rt->devices[i].device, device) && !rt->devices[i].failed) {
            *number = i;
            return PTO_OK;
        }
    }
    return open_device(rt, who, device, number);
}

/* ---- Heaps ---- */

/* Bytes of a heap on a device. */
static uint64_t heap_bytes(const pto_runtime *rt, uint32_t device)
{
    return rt->settings.config.device_heap_bytes *
           (ptoi_guard_is_on(rt, device) ? PTOI_GUARD_STRETCH : 1);
}

static pto_status alloc_heap(const pto_runtime *rt, const char *who, uint32_t device,
                             uint32_t level, void **memory)
{
    const ptoi_rt_device *d = &rt->devices[device];
    const uint64_t bytes = heap_bytes(rt, device), serial = ptoi_error_serial();
    const pto_device before = pto_device_current();
    *memory = NULL;
    PTO_TRY(pto_device_set_current(d->device));
    pto_status s = d->ops.alloc(d->ops.self, bytes, memory);
    if (!s && !*memory) {
        s = ptoi_fail(PTO_OUT_OF_MEMORY, "alloc gave no memory");
    }
    s = ptoi_device_return(before, s);
    if (!s) {
        return PTO_OK;
    }
    const char *why = ptoi_error_serial() == serial ? pto_status_text(s) : pto_error_detail();
    return ptoi_fail(s,
                     "%s: the heap of level %u on %s: %" PRIu64
                     " bytes wanted%s: %s; lower device_heap_bytes (PTO_DEVICE_HEAP)",
                     who, level, ptoi_device_words(d->device).s, bytes,
                     ptoi_guard_is_on(rt, device) ? ", with guards (PTO_GUARD)" : "", why);
}

pto_status ptoi_device_heap(pto_runtime *rt, const char *who, uint32_t device, uint32_t level)
{
    ptoi_rt_device *d = &rt->devices[device];
    if (!device || d->memory[level]) {
        return PTO_OK;
    }
    const uint32_t blocks = rt->rings[level].blocks.mask + 1;
    const uint32_t segment = ptoi_segment_heap(device, level);
    const uint64_t bytes = heap_bytes(rt, device);
    void *memory;
    PTO_TRY(alloc_heap(rt, who, device, level, &memory));
    /* Twice as many runs as blocks, and the same again for trial copies. */
    d->run_bytes = 4 * (size_t)blocks * sizeof(ptoi_heap_run);
    ptoi_heap_run *runs = ptoi_os_reserve(d->run_bytes);
    if (!runs || ptoi_guard_add_heap(rt, device, level)) {
        ptoi_os_release(runs, runs ? d->run_bytes : 0);
        d->ops.free(d->ops.self, memory, bytes);
        return ptoi_fail(PTO_OUT_OF_MEMORY, "%s: records of the heap of level %u on %s", who, level,
                         ptoi_device_words(d->device).s);
    }
    ptoi_heap_init(&d->heap[level], rt->settings.config.device_heap_bytes, PTOI_HEAP_WARM, runs,
                   2 * blocks);
    d->memory[level] = memory;
    rt->view.base[segment] = memory;
    ptoi_scheduler_add_heap(rt->scheduler, device, level, memory, rt->view.guards[segment],
                            rt->view.reported[segment]);
    ptoi_buffer_note_range(rt, memory, bytes);
    return PTO_OK;
}

/* ---- Where a task runs ---- */

bool ptoi_device_is_named(const pto_param *params, size_t n_params)
{
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        if (p->kind >= PTO_PARAM_INPUT && p->kind <= PTO_PARAM_INOUT && p->tensor &&
            !ptoi_device_is_host(p->tensor->device)) {
            return true;
        }
    }
    return false;
}

static pto_status refuse_two(const pto_runtime *rt, uint32_t kernel, size_t first, pto_device a,
                             size_t second, pto_device b)
{
    return ptoi_fail(
        PTO_DEVICES_DIFFER,
        "submit: kernel '%s': parameter %zu is on %s, parameter %zu on %s: copy one of "
        "them first (pto_copy)",
        ptoi_kernel_name(&rt->view, kernel), first, ptoi_device_words(a).s, second,
        ptoi_device_words(b).s);
}

/* The number of a parameter's device. A managed tensor is where its buffer is. */
static pto_status number_of(pto_runtime *rt, const pto_tensor *t, size_t i, uint32_t *number)
{
    if (!ptoi_device_sound(t->device)) {
        char what[40];
        snprintf(what, sizeof what, "submit: parameter %zu", i);
        return ptoi_device_check(what, t->device);
    }
    PTO_TRY(ptoi_device_number(rt, "submit", t->device, number));
    if (t->owner && ptoi_buffer_is(rt, t->owner, t->generation) &&
        ptoi_buffer_of(rt, t)->device != *number) {
        return ptoi_fail(PTO_BAD_DEVICE,
                         "submit: parameter %zu says it is on %s; its buffer is on %s", i,
                         ptoi_device_words(t->device).s,
                         ptoi_device_words(ptoi_device_at(rt, ptoi_buffer_of(rt, t)->device)).s);
    }
    return PTO_OK;
}

/* The device of all tensors. For a copy: that of the first tensor, outputs before inputs, that is
 * not on the host. Without tensors it is `fallback`. */
static pto_status find_device(pto_runtime *rt, uint32_t kernel, const pto_param *params,
                              size_t n_params, uint32_t fallback, uint32_t *device)
{
    const bool copies = rt->kernels[kernel].copies;
    size_t first = n_params;
    uint32_t written = 0;
    *device = fallback;
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        uint32_t number = 0;
        if (p->kind < PTO_PARAM_INPUT || p->kind > PTO_PARAM_INOUT || !p->tensor) {
            continue;
        }
        PTO_TRY(number_of(rt, p->tensor, i, &number));
        if (first == n_params) {
            first = i;
            *device = number;
        } else if (number != *device && !copies) {
            return refuse_two(rt, kernel, first, params[first].tensor->device, i,
                              p->tensor->device);
        } else if (!*device) {
            *device = number;
        }
        written = written || p->kind == PTO_PARAM_INPUT ? written : number;
    }
    *device = copies && written ? written : *device;
    return PTO_OK;
}

pto_status ptoi_device_of_task(pto_runtime *rt, uint32_t kernel, const pto_param *params,
                               size_t n_params, uint32_t *device, uint32_t *variant)
{
    const ptoi_registered *k = &rt->kernels[kernel];
    const pto_device home = ptoi_device_at(rt, rt->home);
    PTO_TRY(
        find_device(rt, kernel, params, n_params, k->variant[home.type] ? rt->home : 0, device));
    const ptoi_rt_device *d = &rt->devices[*device];
    const uint32_t type = k->route & ~PTOI_ROUTE_DECLARED;
    *variant = k->variant[d->device.type];
    if (!*variant) {
        return ptoi_fail(PTO_NOT_IMPLEMENTED,
                         "submit: kernel '%s' has no variant for %s: add one (pto_kernel_variant), "
                         "or copy its tensors to a device that it has one for (pto_copy)",
                         ptoi_kernel_name(&rt->view, kernel), ptoi_device_words(d->device).s);
    }
    if (!((d->served | (*device ? 0 : ptoi_attach_types(rt))) >> type & 1)) {
        return ptoi_fail(
            PTO_BAD_WORKER, "submit: kernel '%s' needs a worker of type %s: %s has none",
            ptoi_kernel_name(&rt->view, kernel), pto_worker_type_name((pto_worker_type)type),
            ptoi_device_words(d->device).s);
    }
    return PTO_OK;
}

/* ---- Life ---- */

void ptoi_device_set_home(pto_runtime *rt, uint32_t number)
{
    rt->home = number;
    rt->temp.ndim = -1; /* no temporary is like the last one: see temp in buffer.c */
}

/* Place gpu. While the grid is there nothing may be allocated on the device, so all heaps are made
 * now. */
static pto_status add_grid(pto_runtime *rt)
{
    ptoi_header *h = rt->view.header;
    ptoi_rt_device *d = &rt->devices[rt->home];
    const uint32_t first = ptoi_get32(&h->device_workers);
    uint32_t workers = 0;
    PTO_TRY(ptoi_scheduler_prepare_grid(rt->scheduler, rt->home, &rt->settings));
    for (uint32_t l = 0; l < rt->levels; l++) {
        PTO_TRY(ptoi_device_heap(rt, "create", rt->home, l));
    }
    PTO_TRY(ptoi_scheduler_add_grid(rt->scheduler, &rt->settings, first, &workers));
    PTO_TRY(ptoi_trace_add_threads(rt, workers, true));
    rt->grid_first = first;
    rt->grid_workers = workers;
    d->n_workers += workers;
    ptoi_release32(&h->device_workers, first + workers);
    publish_device(rt, rt->home);
    return PTO_OK;
}

pto_status ptoi_devices_create(pto_runtime *rt)
{
    rt->devices = ptoi_os_reserve(PTOI_DEVICES * sizeof *rt->devices);
    if (!rt->devices) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: the table of devices");
    }
    rt->devices[0].served = rt->routes;
    publish_device(rt, 0);
    rt->n_devices = 1;
    PTO_TRY(pto_device_get((pto_device){PTO_DEVICE_CPU, 0}, &rt->devices[0].ops));
    if (rt->processes) {
        rt->devices[0].ops.self = rt;
        rt->devices[0].ops.alloc = ptoi_shared_device_alloc;
        rt->devices[0].ops.free = ptoi_shared_device_free;
    }
    const pto_device home = rt->settings.config.device;
    if (!ptoi_device_is_host(home)) {
        uint32_t number = 0;
        PTO_TRY(ptoi_device_check("create", home));
        PTO_TRY(ptoi_device_number(rt, "create", home, &number));
        ptoi_device_set_home(rt, number);
    }
    return rt->mirrored ? add_grid(rt) : PTO_OK;
}

void ptoi_devices_destroy(pto_runtime *rt)
{
    const pto_device before = pto_device_current();
    for (uint32_t i = 0; rt->devices && i < rt->n_devices; i++) {
        ptoi_rt_device *d = &rt->devices[i];
        (void)ptoi_cache_drop(rt, i);
        for (uint32_t l = 0; l < rt->levels; l++) {
            if (d->memory[l]) {
                PTO_IGNORE(pto_device_set_current(d->device));
                d->ops.free(d->ops.self, d->memory[l], heap_bytes(rt, i));
                ptoi_os_release(d->heap[l].runs, d->run_bytes);
                ptoi_os_release(d->guards[l], d->guards[l] ? ptoi_guard_bytes(rt) : 0);
            }
        }
    }
    PTO_IGNORE(ptoi_device_return(before, PTO_OK));
    ptoi_os_release(rt->devices, PTOI_DEVICES * sizeof *rt->devices);
}
