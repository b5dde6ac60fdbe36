/* mirror.h - tells a device that schedules for itself what it has to copy (place gpu; window/mirror.h).
 * Orchestrator's side. */
#ifndef PTOI_ORCHESTRATOR_MIRROR_H
#define PTOI_ORCHESTRATOR_MIRROR_H

#include "orchestrator/runtime.h"

/* Before the first kernel is registered, and after the map was created. */
void ptoi_mirror_create(pto_runtime *rt);

/* A kernel has a new entry in view.codes. PTO_FULL: too many entries were not copied yet. */
pto_status ptoi_mirror_log_kernel(pto_runtime *rt, uint32_t number);

/* Reads bytes of the device by a letter to the grid. False: that is not possible for these, or the grid
 * is not there. Then nothing was done. */
bool ptoi_mirror_read(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes);

/* Whether a block of the grid is running the task. */
bool ptoi_mirror_is_running(const pto_runtime *rt, pto_task task);

/* Publishes a task that is completely written (D1). The log first: the device must know the layouts that
 * the task names. */
static inline void ptoi_mirror_publish(pto_runtime *rt, const ptoi_slot *slot)
{
    ptoi_header *h = rt->view.header;
    const uint32_t level = ptoi_slot_header_of(slot).level;
    const ptoi_rings *t = &rt->rings[level];
    const uint64_t before = ptoi_get64(&h->heads[level]);
    if (ptoi_get64(&h->log_head) != rt->map->descs.log.count) {
        ptoi_release64(&h->log_head, rt->map->descs.log.count);
    }
    ptoi_release64(&h->heads[level],
                   ptoi_head_word(ptoi_get64(&slot->seq) + 1, t->deps.head, t->args.head) |
                       ptoi_head_turn(before, t->deps.tail, PTOI_HEAD_DEPS) |
                       ptoi_head_turn(before, t->args.tail, PTOI_HEAD_ARGS));
}

#endif /* PTOI_ORCHESTRATOR_MIRROR_H */
