/* kernel_time.c - measures how long kernels take, so that submit knows which ones to run inline
 * (orchestrator/inline.h).
 *
 * Every thread times one call in 32. The result is the length of the kernel:
 *
 *     short     the call took less than config.inline_ns
 *     doubted   the kernel was short, and this call was medium. An interrupt may be the reason, so
 *               the next call is timed too, and decides
 *     medium    less than PTOI_MEDIUM times config.inline_ns
 *     long      more
 *
 * A short kernel may become long, or take long now and then. If submit ran the long calls, the
 * program would stand still. So submit becomes wary when a few tasks have taken far too long
 * (calls->wary): then every call is timed, and a single long call makes the kernel long. Each time
 * this happens, the kernel needs twice as many short calls before it counts as short again. After
 * many short calls this penalty is lowered step by step.
 */
#include "observe/log.h"
#include "window/call.h"

#define TIMED_EVERY 32     /* calls of a thread */
#define SUSPECT_AT_MOST 12 /* at most 2^12 = 4096 short calls are required */
#define FORGIVE_AFTER 1024 /* short timings */

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

uint64_t ptoi_call_clock(void)
{
    return ptoi_ticks();
}

void ptoi_call_learn(ptoi_calls *calls, uint32_t kernel, uint64_t began, pto_status status)
{
    const uint64_t took = ptoi_ticks() - began; /* first */
    ptoi_kernel_time *time = &calls->view->times[kernel];
    const uint64_t most = ptoi_get32(&calls->view->header->inline_ticks);
    const uint32_t before = ptoi_get32(&calls->kernels[kernel].length);
    calls->untimed = calls->wary ? 0 : TIMED_EVERY;
    calls->wary -= calls->wary != 0;
    if (most == 0 || before == PTOI_LENGTH_NEVER) {
        return; /* it is not known yet how long a tick is, or it is never run inline */
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
}
