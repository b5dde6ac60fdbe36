/* shared.h - memory of the program that worker processes share: pto_shared_alloc. Orchestrator's
 * side.
 *
 * In place process it lies behind the heaps in their file, and all processes map it. A list of free
 * ranges in the program's own memory says what is free; ranges that touch are one. Elsewhere each
 * piece is a mapping of its own.
 */
#ifndef PTOI_SHARED_H
#define PTOI_SHARED_H

#include "orchestrator/runtime.h"

/* Whether worker processes can reach the bytes of a tensor in user memory. */
pto_status ptoi_shared_check(const pto_runtime *rt, const char *who, const pto_tensor *t);
pto_status ptoi_shared_check_bytes(const pto_runtime *rt, const char *who, const void *memory,
                                   uint64_t bytes);

/* Memory for pto_execute, as a device gives it out. `self` is the runtime. */
pto_status ptoi_shared_device_alloc(void *self, uint64_t bytes, void **memory);
void ptoi_shared_device_free(void *self, void *memory, uint64_t bytes);

void ptoi_shared_destroy(pto_runtime *rt);

#endif /* PTOI_SHARED_H */
