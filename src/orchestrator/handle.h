/* handle.h - task handles of the user: checking and decoding. Orchestrator's side. */
#ifndef PTOI_HANDLE_H
#define PTOI_HANDLE_H

#include "orchestrator/runtime.h"

/* Whether a task of this runtime has the handle, or had it. */
static inline bool ptoi_handle_is(const pto_runtime *rt, pto_task task)
{
    const uint32_t level = (uint32_t)task & 7;
    const uint64_t seq = task >> 3;
    return level < rt->levels && seq >= rt->settings.config.first_task &&
           seq < rt->rings[level].head;
}

/* PTO_BAD_TASK if not. */
pto_status ptoi_handle_check(const pto_runtime *rt, const char *who, pto_task task);

/* The task that a checked handle names. An unchecked one might lose its top bit here. */
static inline ptoi_ref ptoi_handle_ref(pto_task task)
{
    return task << 1;
}

#endif /* PTOI_HANDLE_H */
