/* length.c - how long kernels take, as far as submit wants to know (orchestrator/at_once.h).
 *
 * One call in PTOI_TIMED_EVERY is timed, on any thread, and its kernel is from then on
 *
 *     brief     it took less than config.brief_ns
 *     doubted   it was brief, and now it was short: once may be an interrupt, so the next call is
 *               timed, too, and decides
 *     short     no more than PTOI_SHORT times as long
 *     long
 *
 * A kernel may have been brief, and be long from now on, or at times. If submit ran the long calls it
 * would not get on meanwhile, so it is on its guard when a few tasks have taken far longer than they
 * should (worker->wary): then every call is timed, and one long call suffices. Each time that this
 * happens the kernel has to be brief twice as often in a row until it is called so again; what lies
 * long enough behind is forgiven.
 *
 * All of it is hints: relaxed, and it does not matter who wins.
 */
#include "scheduler/scheduler.h"

#define SUSPECT_AT_MOST 12 /* times: 4096 brief calls in a row */
#define FORGIVE_AFTER 1024 /* brief timings */

static void is_brief(ptoi_kernel *kernel, uint32_t before)
{
    const uint32_t owed = ptoi_get32(&kernel->owed), calm = ptoi_get32(&kernel->calm);
    if (owed) {
        ptoi_set32(&kernel->owed, owed - 1);
        return;
    }
    if (before != PTOI_LENGTH_BRIEF) {
        ptoi_set32(&kernel->length, PTOI_LENGTH_BRIEF);
    }
    if (calm < FORGIVE_AFTER) {
        ptoi_set32(&kernel->calm, calm + 1);
    } else if (ptoi_get32(&kernel->suspect)) {
        ptoi_set32(&kernel->calm, 0);
        ptoi_set32(&kernel->suspect, ptoi_get32(&kernel->suspect) - 1);
    }
}

static void is_long(ptoi_kernel *kernel)
{
    const uint32_t suspect = ptoi_get32(&kernel->suspect);
    ptoi_set32(&kernel->length, PTOI_LENGTH_LONG);
    ptoi_set32(&kernel->owed, 1u << suspect);
    ptoi_set32(&kernel->calm, 0);
    ptoi_set32(&kernel->suspect, suspect < SUSPECT_AT_MOST ? suspect + 1 : suspect);
}

pto_status ptoi_worker_call_timed(ptoi_worker *worker, ptoi_kernel *kernel, const pto_call *call)
{
    const uint64_t brief = ptoi_get32(&worker->sched->brief_ticks);
    const uint64_t began = ptoi_ticks();
    const pto_status status = kernel->fn(call);
    const uint64_t took = ptoi_ticks() - began;
    const uint32_t before = ptoi_get32(&kernel->length);
    worker->untimed = worker->wary ? 0 : PTOI_TIMED_EVERY;
    worker->wary -= worker->wary != 0;
    if (brief == 0) {
        return status; /* nobody knows yet what is */
    }
    const uint32_t length = took < brief * PTOI_SHORT ? PTOI_LENGTH_SHORT : PTOI_LENGTH_LONG;
    if (took < brief && status == PTO_OK) {
        is_brief(kernel, before);
    } else if (worker->wary && length == PTOI_LENGTH_LONG) {
        is_long(kernel);
    } else if (before == PTOI_LENGTH_BRIEF && length == PTOI_LENGTH_SHORT && status == PTO_OK) {
        ptoi_set32(&kernel->length, PTOI_LENGTH_DOUBTED);
    } else if (before != length) {
        ptoi_set32(&kernel->length, length);
    }
    return status;
}
