/* handle.h - task handles of the user: checking and decoding. Orchestrator's side. */
#ifndef PTOI_HANDLE_H
#define PTOI_HANDLE_H

#include "orchestrator/runtime.h"

/* PTO_BAD_TASK if no task of this runtime ever had the handle. */
pto_status ptoi_handle_check(const pto_runtime *rt, const char *who, pto_task task);

/* The task that a checked handle names. An unchecked one might lose its top bit here. */
static inline ptoi_ref ptoi_handle_ref(pto_task task)
{
    return task << 1;
}

#endif /* PTOI_HANDLE_H */
