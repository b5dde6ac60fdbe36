/* step.cu - the step of the scheduler as code for a device: it compiles, and that is the test. What it
 * does is tested on the host, from the same source. */
#if defined(__CUDA_ARCH__)
#include "scheduler/step.h"

/* One task of a scheduler warp: resolve it if it is new, complete it if it has run. Tasks that can
 * run go to `ready`. */
extern "C" __global__ void ptoi_step_test(const ptoi_view *view, uint32_t task, uint32_t lap,
                                          bool is_new, uint32_t *ready, uint32_t *n_ready)
{
    if (is_new) {
        ptoi_step_begin(view, task);
        if (ptoi_step_resolve(view, task, 0)) {
            ready[(*n_ready)++] = task;
        }
        return;
    }
    uint32_t list = ptoi_step_oldest_first(view, ptoi_step_complete(view, task, lap, PTOI_DONE));
    for (uint32_t next; (next = ptoi_step_next_ready(view, &list)) != PTOI_NONE;) {
        ready[(*n_ready)++] = next;
    }
}
#endif
