/* attach.h - worker processes that attach from outside, at the program's end. Orchestrator's side.
 * The other end is worker/attach.c.
 *
 * The monitor (process.c) accepts them. A process must belong to the same user and have the same
 * version of the window. It is asked about every kernel, by name: submits of a kernel that an
 * attached process lacks are refused. Its workers use lines behind those of the runtime's own.
 */
#ifndef PTOI_ATTACH_H
#define PTOI_ATTACH_H

#include "orchestrator/runtime.h"

struct pollfd;

/* If config.attach is not set, these do nothing. */
pto_status ptoi_attach_create(pto_runtime *rt);
void ptoi_attach_destroy(pto_runtime *rt);

/* ---- The monitor ---- */

#define PTOI_ATTACH_FILES (1 + 2 * PTOI_ATTACH_MOST)

/* Which files to wait for; and what to do when some are ready. */
size_t ptoi_attach_files(pto_runtime *rt, struct pollfd *files);
void ptoi_attach_serve(pto_runtime *rt, const struct pollfd *files);

/* The helper has said ENDED: it knows that the process has died. False: it never attached. */
bool ptoi_attach_has_ended(pto_runtime *rt, uint32_t process);

/* The helper has said READY: the window was rebuilt without the processes that it knew to be dead, and
 * their lines are free. */
void ptoi_attach_recovered(pto_runtime *rt);

/* ---- The orchestrating thread ---- */

/* Asks all attached processes whether they have a new kernel, and waits for their answers. */
void ptoi_attach_ask(pto_runtime *rt, uint32_t kernel);

/* Tells a fresh helper which processes have attached, and which of them have died since the last
 * recovery. */
void ptoi_attach_introduce(pto_runtime *rt);

/* Worker types that attached processes serve. */
uint32_t ptoi_attach_types(const pto_runtime *rt);

/* PTO_BAD_KERNEL if an attached process lacks the kernel. */
pto_status ptoi_attach_check(const pto_runtime *rt, uint32_t kernel);

#endif /* PTOI_ATTACH_H */
