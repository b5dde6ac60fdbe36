/* process.h - the program's end of place process: the helper, losses and recovery. Orchestrator's
 * side. The other end is in worker/process.h.
 *
 *     create    forks the helper, which forks the worker processes; starts the monitor
 *     monitor   a thread that sleeps until the helper reports that a process has ended, or ends
 *               itself. Then it sets `lost`, and the orchestrating thread waits for nothing more
 *     recover   every thread pauses, the helper rebuilds the scheduler's part of the window, the
 *               inbox is filled with all tasks that have not begun, and all go on
 */
#ifndef PTOI_ORCHESTRATOR_PROCESS_H
#define PTOI_ORCHESTRATOR_PROCESS_H

#include "orchestrator/runtime.h"

/* In other places these do nothing. */
pto_status ptoi_process_create(pto_runtime *rt);
void ptoi_process_destroy(
    pto_runtime *rt); /* after header.stop is set; kills if a worker is lost */

/* PTO_WORKER_LOST, with a detail that says which process, how it ended and what it ran. */
pto_status ptoi_process_lost(const pto_runtime *rt);

/* Whether a worker is lost and the runtime was not recovered since. */
bool ptoi_process_is_lost(const pto_runtime *rt);

/* pto_cancel was called: kernels that run on are ended after config.grace_ms. Safe in a signal
 * handler. */
void ptoi_process_cancelled(const pto_runtime *rt);

/* For attach.c: tells the helper that a process has attached, left or died. */
void ptoi_process_tell_helper(pto_runtime *rt, const ptoi_message *m);

/* Whether worker processes can call this function: it was loaded before they were forked. */
bool ptoi_process_has_code(const pto_runtime *rt, pto_kernel_fn fn);

#endif /* PTOI_ORCHESTRATOR_PROCESS_H */
