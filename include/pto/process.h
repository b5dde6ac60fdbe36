/* pto/process.h - workers in processes of their own: a kernel that crashes does not end the program.
 *
 * With config.place = PTO_PLACE_PROCESS, or PTO_SCHEDULER=process in the environment, scheduler and
 * workers run in worker processes. pto_runtime_create starts them. What changes for a program:
 *
 *   - Kernels run in another process. They see the program's global variables as they were when the
 *     runtime was created, and what they change there stays in their process. Memory that both see
 *     comes from pto_shared_alloc or is managed (pto_temp). A tensor in other memory is refused.
 *     pto_execute copies ordinary memory in and out.
 *   - A kernel's code must be loaded when the runtime is created. Its `user` pointer must be NULL,
 *     or point into shared memory.
 *   - The program's thread runs no kernels, not even while it waits.
 *   - call->rt is the worker's handle. It is good for pto_task_complete, pto_cancel and
 *     pto_is_cancelled. Of the program's open files, only the standard ones are open there.
 *
 * If a worker process dies, the tasks that it ran have failed. Until pto_recover, calls that have to
 * wait return PTO_WORKER_LOST and change nothing.
 *
 *     pto_status s = pto_wait(rt);
 *     while (s == PTO_WORKER_LOST) {
 *         puts(pto_error_detail());    // which process, how it ended, and which task it ran
 *         PTO_TRY(pto_recover(rt));
 *         s = pto_wait(rt);            // PTO_TASK_FAILED: the tasks that died, and their descendants
 *     }
 *
 * What a kernel wrote into shared or managed memory before it died is not undone: its own outputs
 * are poisoned, but a wild pointer may have damaged others.
 */
#ifndef PTO_PROCESS_H
#define PTO_PROCESS_H

#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gets memory that kernels see, in every place. It is zero, and aligned to 64 bytes. It lives until
 * pto_shared_free, or until the runtime is destroyed. In worker processes it lies at another
 * address, so pointers into it mean nothing there, except those in pto_call. PTO_OUT_OF_MEMORY if
 * config.shared_bytes do not suffice. */
PTO_API PTO_MUST_CHECK pto_status pto_shared_alloc(pto_runtime *rt, uint64_t bytes, void **memory);

/* Gives it back. All tasks that use it must be complete. NULL is fine. */
PTO_API PTO_MUST_CHECK pto_status pto_shared_free(pto_runtime *rt, void *memory);

/* Starts fresh processes for those that have ended, and goes on. Tasks that ran in a lost process
 * have failed: their outputs are poisoned, and tasks that read them are skipped. All others run as
 * if nothing had happened. A call that returned PTO_WORKER_LOST was refused: repeat it. If it was to
 * submit or write, acknowledge that (pto_refused). Does nothing if no process is lost. */
PTO_API PTO_MUST_CHECK pto_status pto_recover(pto_runtime *rt);

/* ---- Workers from outside ---- */

/* A runtime that was created with config.attach (PTO_ATTACH=NAME) also takes workers from processes
 * that it did not start, at any time. `pto worker --attach NAME --kernels ./libmine.so` is one. They
 * find kernels by name, in a table that a shared object exports (PTO_KERNEL_EXPORT). A process that
 * lacks a kernel of a type that it serves cannot attach; a kernel that is registered later and that an
 * attached process lacks is refused by pto_submit. A process may leave when it likes; when it dies,
 * that is a loss like any other, but pto_recover does not start it again. Only processes of the same
 * user can attach, and not while a trace is recorded. */

/* An entry of the table. */
typedef struct pto_kernel_export {
    const char *name; /* as in pto_kernel_register */
    pto_kernel_fn fn;
} pto_kernel_export;

extern PTO_API const pto_kernel_export pto_exported_kernels[]; /* the table */

/* Defines the table: PTO_KERNEL_EXPORT({"gemm", gemm}, {"add", add}); */
#define PTO_KERNEL_EXPORT(...)                                                                     \
    const pto_kernel_export pto_exported_kernels[] = {__VA_ARGS__, {NULL, NULL}}

/* What to attach. In every field but `size` and `name`, zero means the default. */
typedef struct pto_worker_options {
    size_t size;                  /* sizeof(pto_worker_options) */
    const char *name;             /* of the program: its config.attach */
    const char *const *libraries; /* shared objects with kernels */
    size_t n_libraries;
    uint32_t workers; /* threads; 0: one */
    uint32_t types;   /* worker types that they serve; 0: all */
} pto_worker_options;

/* Turns the calling process into a worker process of a program that runs. Returns PTO_OK when the
 * program destroys its runtime, or after pto_worker_detach. PTO_WORKER_LOST: the program has died.
 * (If kernels run then, the process exits.) */
PTO_API PTO_MUST_CHECK pto_status pto_worker_attach(const pto_worker_options *options);

/* Makes pto_worker_attach return once the kernels that run have ended; if none is running, the next one
 * returns at once when it has attached. Safe in a signal handler. */
PTO_API void pto_worker_detach(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_PROCESS_H */
