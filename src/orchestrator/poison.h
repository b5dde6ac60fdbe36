/* poison.h - bad tasks and bad memory. Orchestrator's side; poison.c defines "bad". */
#ifndef PTOI_POISON_H
#define PTOI_POISON_H

#include "orchestrator/runtime.h"

pto_status ptoi_poison_create(pto_runtime *rt);
void ptoi_poison_destroy(pto_runtime *rt);

static inline bool ptoi_poison_any(const pto_runtime *rt)
{
    return rt->poison.count || rt->poison.all;
}

/* `completed` passes a bad task: records its number, and those outputs that no later task
 * covers. */
void ptoi_poison_record(pto_runtime *rt, uint32_t level, uint64_t seq);

/* Whether the tensor overlaps bad memory. Whether a task below `completed` was bad. */
bool ptoi_poison_meets(pto_runtime *rt, const pto_tensor *t);
bool ptoi_poison_is_bad(const pto_runtime *rt, uint32_t level, uint64_t seq);

/* The task of this order writes the tensor: forgets bad regions of older tasks that it covers. If
 * the writer fails, it is recorded itself. */
void ptoi_poison_cover(pto_runtime *rt, const pto_tensor *t, uint64_t order);

/* Forgets everything. */
void ptoi_poison_clear(pto_runtime *rt);

#endif /* PTOI_POISON_H */
