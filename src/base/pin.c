#define _GNU_SOURCE /* sched_getcpu */
#include "base/pin.h"

#include <sched.h>

#include "base/os.h"

ptoi_pin_why ptoi_pin_plan(const char *root, pto_pin how, const ptoi_cpus *usable, uint32_t self,
                           uint32_t n, uint32_t *cpus)
{
    const uint32_t cores = ptoi_cpus_count(usable);
    if (how == PTO_PIN_OFF) {
        return PTOI_PIN_IS_OFF;
    }
    if (n == 0) {
        return PTOI_PIN_NO_WORKERS;
    }
    if (cores == 0) {
        return PTOI_PIN_UNKNOWN;
    }
    if (how == PTO_PIN_AUTO) {
        if (n + 1 > cores) {
            return PTOI_PIN_CROWDED;
        }
        if (!ptoi_topology_owned(root, usable)) {
            return PTOI_PIN_NOT_OWNED;
        }
        const double quota = ptoi_topology_quota(root);
        if (quota > 0 && quota < cores) {
            return PTOI_PIN_QUOTA;
        }
    }
    ptoi_cpu order[PTOI_CPUS];
    const uint32_t found = ptoi_topology_order(root, usable, self, order);
    for (uint32_t w = 0; w < n; w++) {
        cpus[w] = order[w % found].number;
    }
    return PTOI_PINNED;
}

ptoi_pin_why ptoi_pin_decide(ptoi_settings *settings)
{
    ptoi_cpus usable = {0};
    const pto_pin how = (pto_pin)settings->config.pin;
    settings->pinned = false;
    if (how == PTO_PIN_OFF) {
        return PTOI_PIN_IS_OFF; /* without a look at the machine */
    }
    const int self = sched_getcpu();
    if (self < 0 || !ptoi_os_affinity(usable.word, sizeof usable.word)) {
        return PTOI_PIN_UNKNOWN;
    }
    const ptoi_pin_why why = ptoi_pin_plan("", how, &usable, (uint32_t)self, settings->n_started,
                                           settings->worker_cpus);
    settings->pinned = why == PTOI_PINNED;
    return why;
}

void ptoi_pin_here(uint32_t cpu)
{
    ptoi_cpus set;
    (void)ptoi_os_pin(set.word, sizeof set.word, cpu);
}
