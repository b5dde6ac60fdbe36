/* keep.h - whether the orchestrating thread runs what it submits: keep.c. */
#ifndef PTOI_KEEP_H
#define PTOI_KEEP_H

#include <pto/pto.h>

typedef struct ptoi_keep {
    bool possible; /* it may run whatever may come */
    bool on;
    uint64_t looks;      /* since it is */
    uint64_t left;       /* ticks: when the last look was over */
    uint64_t not_before; /* order of the task at which it may be tried again */
    uint32_t patience;   /* tasks, if it is in vain once more */
    uint64_t ticks_a_us; /* 0: not known yet */
    uint64_t created, created_ns;
} ptoi_keep;

/* The threads are about to start. */
void ptoi_keep_create(pto_runtime *rt);

/* So many tasks have come since the last time: runs them, if it is worth it. */
void ptoi_keep_look(pto_runtime *rt, uint64_t tasks);

#endif /* PTOI_KEEP_H */
