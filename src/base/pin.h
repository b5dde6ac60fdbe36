/* pin.h - which worker runs on which core (PTO_PIN). The orchestrating thread is never pinned: it belongs
 * to the program. */
#ifndef PTOI_PIN_H
#define PTOI_PIN_H

#include <pto/config.h>

#include "base/config.h"
#include "base/topology.h"

/* Why workers are pinned, or not. */
typedef enum ptoi_pin_why {
    PTOI_PINNED,
    PTOI_PIN_IS_OFF,
    PTOI_PIN_NO_WORKERS,
    PTOI_PIN_UNKNOWN,   /* the system does not say which cores this process may use */
    PTOI_PIN_NOT_OWNED, /* auto: these are all cores of the machine, so others use them as well */
    PTOI_PIN_QUOTA,     /* auto: a control group lets this process use fewer cores than it has */
    PTOI_PIN_CROWDED,   /* auto: fewer cores than threads */
} ptoi_pin_why;

/* Plans the cores of `n` workers, for a thread on core `self` that may use `usable`: cpus[w] for each worker.
 * Files are read under `root` (topology.h). */
ptoi_pin_why ptoi_pin_plan(const char *root, pto_pin how, const ptoi_cpus *usable, uint32_t self,
                           uint32_t n, uint32_t *cpus);

/* Decides for the workers of a runtime that the calling thread creates: settings->pinned and
 * settings->worker_cpus. */
ptoi_pin_why ptoi_pin_decide(ptoi_settings *settings);

/* Keeps the calling thread on this core, if the system lets it: cores may be taken away at any time. */
void ptoi_pin_here(uint32_t cpu);

#endif /* PTOI_PIN_H */
