/* poison.h - memory and tasks that went bad. */
#ifndef PTOI_POISON_H
#define PTOI_POISON_H

#include "orchestrator/runtime.h"

pto_status ptoi_poison_create(pto_runtime *rt);
void ptoi_poison_destroy(pto_runtime *rt);

static inline bool ptoi_poison_any(const pto_runtime *rt)
{
    return rt->poison.count || rt->poison.all;
}

/* A bad task is passed: keeps its number, and its outputs that nobody has written since. */
void ptoi_poison_record(pto_runtime *rt, uint32_t level, uint64_t seq);

/* Whether reading the tensor meets something bad; whether the task was bad. */
bool ptoi_poison_meets(pto_runtime *rt, const pto_tensor *t);
bool ptoi_poison_is_bad(const pto_runtime *rt, uint32_t level, uint64_t seq);

/* The task of that order will write the tensor: what it covers of older ones is bad no longer (or
 * the writer will be). */
void ptoi_poison_cover(pto_runtime *rt, const pto_tensor *t, uint64_t order);

void ptoi_poison_clear(pto_runtime *rt);

#endif /* PTOI_POISON_H */
