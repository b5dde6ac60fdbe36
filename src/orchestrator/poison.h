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

/* Outputs of bad tasks that are remembered. */
#define PTOI_POISON_OUTPUTS 65536

/* `completed` passes a bad task: records its number, and those outputs that no later task
 * covers. */
void ptoi_poison_record(pto_runtime *rt, uint32_t level, uint64_t seq);

/* Whether the tensor overlaps bad memory. Whether a task below `completed` was bad, and (if
 * `skipped` is given) skipped. */
bool ptoi_poison_meets(pto_runtime *rt, const pto_tensor *t);
bool ptoi_poison_is_bad(const pto_runtime *rt, uint32_t level, uint64_t seq, bool *skipped);

/* Whether an unfinished task may still ask if this one, which is below `completed` and bad, was bad.
 * *by is the first task that has to complete before nobody can. */
bool ptoi_poison_is_asked_about(const pto_runtime *rt, uint32_t level, uint64_t seq, ptoi_ref *by);

/* The task of this order writes the tensor: forgets bad regions of older tasks that it covers. If
 * the writer fails, it is recorded itself. */
void ptoi_poison_cover(pto_runtime *rt, const pto_tensor *t, uint64_t order);

/* If there is no room for more bad memory: what that means, for the end of a report. Else "". */
const char *ptoi_poison_words(const pto_runtime *rt);

/* Forgets everything. */
void ptoi_poison_clear(pto_runtime *rt);

#endif /* PTOI_POISON_H */
