/* cache.h - memory of devices that pto_execute keeps between calls. Orchestrator's side.
 *
 * A block that is given back stays allocated for the next call that fits: at most twice as large as
 * what is asked for. If a device has no memory left, what is kept there and not in use is freed
 * first.
 */
#ifndef PTOI_ORCHESTRATOR_CACHE_H
#define PTOI_ORCHESTRATOR_CACHE_H

#include "orchestrator/runtime.h"

pto_status ptoi_cache_take(pto_runtime *rt, uint32_t device, uint64_t bytes, void **memory);
void ptoi_cache_give_back(pto_runtime *rt, uint32_t device, void *memory, uint64_t bytes);

/* Frees all blocks of a device that are not in use. Returns whether there were any. */
bool ptoi_cache_drop(pto_runtime *rt, uint32_t device);

#endif /* PTOI_ORCHESTRATOR_CACHE_H */
