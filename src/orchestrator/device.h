/* device.h - the devices that a runtime uses, by number, and their heaps. Orchestrator's side.
 *
 *     number   0      1       2 ...        cpu:0, then the others in the order of their first use
 *     level 0  heap   heap    -            a heap is made when a task first needs it
 *     level 1  heap   -       heap
 *
 * The number is what the window knows of a device: in segments and in lanes (window/task.h). As
 * long as there is only the host, no submit looks at devices. The first tensor on another device
 * opens it: its workers start, and no route is left that a submit may take without a look
 * (ptoi_registered).
 *
 * Blocks of a level are recycled in order, whatever device they are on (block.h). So the proof of a
 * stall is the same as with one device.
 */
#ifndef PTOI_ORCHESTRATOR_DEVICE_H
#define PTOI_ORCHESTRATOR_DEVICE_H

#include <pto/device.h>

#include "orchestrator/rings.h"
#include "orchestrator/runtime.h"

/* The text of a device: "sim:0". */
typedef struct ptoi_device_text {
    char s[32];
} ptoi_device_text;

ptoi_device_text ptoi_device_words(pto_device device);

/* " on sim:0"; "" for the host. For reports about a heap, with the option that makes it larger. */
ptoi_device_text ptoi_device_where(const pto_runtime *rt, uint32_t number);

static inline const char *ptoi_heap_option(uint32_t device)
{
    return device ? "device_heap_bytes (PTO_DEVICE_HEAP)" : "heap_bytes (PTO_HEAP)";
}

/* The device of a number in use. */
static inline pto_device ptoi_device_at(const pto_runtime *rt, uint32_t number)
{
    return rt->devices[number].device;
}

/* The heap of a level on a device. Its size is 0 if it was not made yet. */
static inline ptoi_heap *ptoi_heap_of(const pto_runtime *rt, uint32_t level, uint32_t device)
{
    return device ? &rt->devices[device].heap[level]
                  : (ptoi_heap *)(uintptr_t)&rt->rings[level].heap;
}

/* Memory for a trial copy of a heap (ptoi_heap_copy). */
static inline ptoi_heap_run *ptoi_heap_trial(const pto_runtime *rt, uint32_t level, uint32_t device)
{
    const ptoi_heap *heap = ptoi_heap_of(rt, level, device);
    return heap->runs + (device ? heap->mask + (size_t)1 : rt->n_runs);
}

/* How full a ring is; of a heap, that on the device. */
static inline ptoi_ring_fill ptoi_rings_read_on(const pto_runtime *rt, uint32_t level,
                                                uint32_t device, pto_ring ring)
{
    const ptoi_heap *heap = ptoi_heap_of(rt, level, device);
    return device && ring == PTO_RING_HEAP ? (ptoi_ring_fill){heap->used, heap->peak, heap->size}
                                           : ptoi_rings_read(rt, level, ring);
}

/* The number of a device; it is opened at its first use. Errors begin with `who`. */
pto_status ptoi_device_number(pto_runtime *rt, const char *who, pto_device device,
                              uint32_t *number);

/* Whether a worker of this type is there for tasks on a device, as far as it is in use. */
static inline bool ptoi_device_serves(const pto_runtime *rt, pto_device device, uint32_t type)
{
    bool serves = false;
    for (uint32_t i = 0; i < rt->n_devices; i++) {
        serves |= rt->devices[i].device.type == device.type &&
                  rt->devices[i].device.index == device.index && rt->devices[i].served >> type & 1;
    }
    return serves;
}

/* Makes the heap of a level on a device, if it does not exist yet. */
pto_status ptoi_device_heap(pto_runtime *rt, const char *who, uint32_t device, uint32_t level);

/* Makes a device in use the default one. */
void ptoi_device_set_home(pto_runtime *rt, uint32_t number);

/* Where a task runs: the device of its tensors, and the variant of its kernel for that device.
 * PTO_DEVICES_DIFFER, PTO_NOT_IMPLEMENTED, PTO_BAD_WORKER: it cannot run. */
pto_status ptoi_device_of_task(pto_runtime *rt, uint32_t kernel, const pto_param *params,
                               size_t n_params, uint32_t *device, uint32_t *variant);

/* Whether a parameter is on another device than the host. */
bool ptoi_device_is_named(const pto_param *params, size_t n_params);

/* Publishes how full the heaps of a level are on the devices other than the host. */
void ptoi_devices_publish(pto_runtime *rt, uint32_t level);

pto_status ptoi_devices_create(pto_runtime *rt);
void ptoi_devices_destroy(pto_runtime *rt);

#endif /* PTOI_ORCHESTRATOR_DEVICE_H */
