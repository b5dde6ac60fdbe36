/* owner.h - owner tasks: memory whose owner is no running task. */
#ifndef PTOI_OWNER_H
#define PTOI_OWNER_H

#include "orchestrator/runtime.h"

/* Gives a buffer memory before anybody has written it. An owner task holds it: complete from the
 * start, on the level of the lifetime that the buffer belongs to. */
pto_status ptoi_owner_give(pto_runtime *rt, ptoi_buffer *b, const char *file, int line);

#endif /* PTOI_OWNER_H */
