/* owner.h - owner tasks: they own memory and run nothing. Orchestrator's side. */
#ifndef PTOI_OWNER_H
#define PTOI_OWNER_H

#include "orchestrator/runtime.h"

/* Gives a buffer memory before any task has written it. The memory belongs to an owner task, which
 * is complete from the start, on the level of the buffer's lifetime. */
pto_status ptoi_owner_give(pto_runtime *rt, ptoi_buffer *b, const char *file, int line);

#endif /* PTOI_OWNER_H */
