/* route.h - where a task goes in a runtime that uses other devices than the host. */
#ifndef PTOI_ROUTE_H
#define PTOI_ROUTE_H

#include "orchestrator/slow.h"

/* Finds out on which device a task runs, and with which variant of its kernel. */
pto_status ptoi_route_find(pto_runtime *rt, ptoi_request *q);

/* Submits a task of another device than the host. Such tasks never run inline. *host: it is one of
 * the host, and was not submitted. */
pto_status ptoi_route_submit(pto_runtime *rt, ptoi_request *q, bool *host);

#endif /* PTOI_ROUTE_H */
