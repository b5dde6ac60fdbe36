/* link.h - slow path: which tasks does this one wait for? Orchestrator's side. */
#ifndef PTOI_LINK_H
#define PTOI_LINK_H

#include "orchestrator/slow.h"

/* Finds the tasks that this one waits for, and whether it will be skipped. Records its accesses in
 * the map. */
pto_status ptoi_slow_link(ptoi_slow *d);

#endif /* PTOI_LINK_H */
