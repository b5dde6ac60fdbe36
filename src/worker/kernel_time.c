/* kernel_time.c - how long kernels take, as far as submit wants to know (orchestrator/inline.h).
 *
 * One call in 32 is timed, on any thread, and its kernel is from then on
 *
 *     brief     it took less than config.inline_ns
 *     doubted   it was brief, and this call was only short. An interrupt may be the reason, so the
 *               next call is timed as well, and decides
 *     short     no more than PTOI_MEDIUM times as long
 *     long
 *
 * A kernel that was brief may become long, or be long at times. If submit ran the long calls the
 * program would stand still meanwhile. So submit turns wary when a few tasks have taken far too long
 * (calls->wary): then every call is timed, and one long call suffices. Each time that this happens
 * the kernel has to be brief twice as often in a row before it counts as brief again. After a while
 * the past is forgiven.
 */
#include "observe/log.h"
#include "window/call.h"

#define TIMED_EVERY 32     /* calls of a thread */
#define SUSPECT_AT_MOST 12 /* times: 4096 brief calls in a row */
#define FORGIVE_AFTER 1024 /* brief timings */

/* The kernel took a short time. Returns what it counts as from now on. */
static uint32_t was_short(ptoi_kernel_time *time, uint32_t before)
{
    const uint32_t owed = ptoi_get32(&time->owed), calm = ptoi_get32(&time->calm);
    if (owed) {
        ptoi_set32(&time->owed, owed - 1);
        return before;
    }
    if (calm < FORGIVE_AFTER) {
        ptoi_set32(&time->calm, calm + 1);
    } else if (ptoi_get32(&time->suspect)) {
        ptoi_set32(&time->calm, 0);
        ptoi_set32(&time->suspect, ptoi_get32(&time->suspect) - 1);
    }
    return PTOI_LENGTH_SHORT;
}

/* The kernel counted as short, and took a long time. */
static uint32_t was_long(ptoi_kernel_time *time)
{
    const uint32_t suspect = ptoi_get32(&time->suspect);
    ptoi_set32(&time->owed, 1u << suspect);
    ptoi_set32(&time->calm, 0);
    ptoi_set32(&time->suspect, suspect < SUSPECT_AT_MOST ? suspect + 1 : suspect);
    return PTOI_LENGTH_LONG;
}

void ptoi_call_set_length(const ptoi_calls *calls, uint32_t kernel, uint32_t length)
{
    ptoi_set32(&calls->kernels[kernel].length, length);
    ptoi_set32(&calls->view->times[kernel].length, length);
}

pto_status ptoi_call_timed(ptoi_calls *calls, uint32_t kernel, const pto_call *call)
{
    ptoi_kernel_time *time = &calls->view->times[kernel];
    const uint64_t most = ptoi_get32(&calls->view->header->inline_ticks);
    const uint64_t began = ptoi_ticks();
    const pto_status status = calls->kernels[kernel].fn(call);
    const uint64_t took = ptoi_ticks() - began;
    const uint32_t before = ptoi_get32(&calls->kernels[kernel].length);
    calls->untimed = calls->wary ? 0 : TIMED_EVERY;
    calls->wary -= calls->wary != 0;
    if (most == 0 || before == PTOI_LENGTH_NEVER) {
        return status; /* it is not known yet how long a tick is, or nobody asks */
    }
    uint32_t length = took < most * PTOI_MEDIUM ? PTOI_LENGTH_MEDIUM : PTOI_LENGTH_LONG;
    if (took < most && status == PTO_OK) {
        length = was_short(time, before);
    } else if (calls->wary && length == PTOI_LENGTH_LONG) {
        length = was_long(time);
    } else if (before == PTOI_LENGTH_SHORT && length == PTOI_LENGTH_MEDIUM && status == PTO_OK) {
        length = PTOI_LENGTH_DOUBTED;
    }
    if (length != before) {
        ptoi_call_set_length(calls, kernel, length);
    }
    return status;
}
