/* handle.c - does a handle name a task of this runtime?
 *
 * The numbers of a level rise from `first_task`, which differs from runtime to runtime. A handle is
 * valid if and only if first_task <= number < head of its level. It stays valid when the task is
 * recycled.
 */
#include <inttypes.h>

#include "base/error.h"
#include "orchestrator/handle.h"

pto_status ptoi_handle_check(const pto_runtime *rt, const char *who, pto_task task)
{
    if (ptoi_handle_is(rt, task)) {
        return PTO_OK;
    }
    return ptoi_fail(PTO_BAD_TASK, "%s: no task of this runtime has the handle %" PRIu64, who,
                     task);
}
