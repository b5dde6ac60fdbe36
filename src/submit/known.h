/* known.h - the quick way of submit, and the last step of both. */
#ifndef PTOI_KNOWN_H
#define PTOI_KNOWN_H

#include "submit/edge.h"

/* Submits the task, if it is of the usual kind and there is room for it. Otherwise says false, and
 * has done nothing. Kernel and type are right; the runtime is not cancelled. */
bool ptoi_submit_known(pto_runtime *rt, uint32_t kernel, uint32_t type, const pto_param *params,
                       size_t n_params, const char *file, int line);

/* Somebody watches, or the run is traced (submit.c): the task is written, and not published yet. */
void ptoi_tell_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                         size_t n_params);

/* The task is whole: it goes to the scheduler. */
static inline void ptoi_publish(pto_runtime *rt, const ptoi_slot *slot, const ptoi_edges *edges)
{
    ptoi_header *h = rt->view.header;
    uint64_t at = ptoi_get64(&h->inbox_head);
    ptoi_set32(&rt->view.inbox[(uint32_t)at & rt->view.inbox_mask],
               ptoi_slot_number(&rt->view, slot));
    for (int why = 0; edges->count && why < PTOI_REASONS; why++) {
        ptoi_count64(&h->edges[why], edges->why[why]);
    }
    ptoi_tell64(&h->inbox_head, at + 1, rt->sched.lopsided); /* W1 */
    ptoi_sched_notify(&rt->sched);
}

#endif /* PTOI_KNOWN_H */
