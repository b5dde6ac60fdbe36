/* guard.h - guards of managed memory, orchestrator's side (window/guard.h has the picture).
 *
 * A guard is armed when a task takes memory. It is checked when all tasks are complete, and when
 * the memory is recycled. */
#ifndef PTOI_ORCHESTRATOR_GUARD_H
#define PTOI_ORCHESTRATOR_GUARD_H

#include "window/guard.h"

struct ptoi_heap_block;
struct ptoi_buffer;

/* Everything hidden by the address sanitizer lies below these offsets, on each level. */
typedef struct ptoi_guard_hidden {
    uint64_t below[PTO_MAX_LEVELS];
    uint64_t armings; /* arming numbers given out */
} ptoi_guard_hidden;

/* Arms the guards of the block that the task brings, if it does (`brings`: the newest block of the
 * level), and records where the buffers of its arguments begin. All its buffers have memory. Its
 * first argument is unit `unit`. */
void ptoi_guard_task(pto_runtime *rt, uint32_t level, bool brings, uint64_t unit,
                     const pto_param *params, size_t n_params);

/* Arms the guards of a buffer that no task brings. */
void ptoi_guard_memory(pto_runtime *rt, const struct ptoi_buffer *b);

/* Checks a block before it is recycled, and fills it with a pattern. */
void ptoi_guard_recycle(pto_runtime *rt, uint32_t level, const struct ptoi_heap_block *block);

/* Checks all memory. Every task is complete. */
void ptoi_guard_sweep(pto_runtime *rt);

/* Makes the arrays for the guards of a heap on a device, if there are guards: as many bytes as
 * ptoi_guard_bytes says, from devices[device].guards[level] on. */
pto_status ptoi_guard_add_heap(pto_runtime *rt, uint32_t device, uint32_t level);
uint64_t ptoi_guard_bytes(const pto_runtime *rt);

/* Unhides the heaps before they are unmapped: the addresses may be reused. */
void ptoi_guard_show_all(pto_runtime *rt);

#endif /* PTOI_ORCHESTRATOR_GUARD_H */
