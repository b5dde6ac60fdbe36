/* many.h - the fast path for tasks with many parameters or edges, or that come after others (fast.h has the others,
 * and room for them ahead). */
#ifndef PTOI_MANY_H
#define PTOI_MANY_H

#include "orchestrator/slow.h"

/* Submits a task of a device. False: it is unusual, or there is no room at the moment. Then nothing but
 * marks has changed. */
bool ptoi_many_submit(pto_runtime *rt, const ptoi_request *q, uint32_t device);

#endif /* PTOI_MANY_H */
