/* litmus.h - small programs whose results are known. */
#ifndef EXPLORE_LITMUS_H
#define EXPLORE_LITMUS_H

#include "world.h"

typedef struct litmus {
    scenario scenario;
    uint64_t allowed; /* bit i: result i */
} litmus;

extern const litmus litmus_tests[]; /* a name of NULL ends it */
extern const scenario litmus_race, litmus_hang, litmus_rare;

/* How often each result was seen. Not memory of the world: it outlives schedules. */
extern uint64_t litmus_seen[64];

#endif /* EXPLORE_LITMUS_H */
