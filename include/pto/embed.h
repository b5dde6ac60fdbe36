/* pto/embed.h - what a binding of another language needs besides: when memory may be freed, signals
 * and other events during a wait, memory that outlives its runtime, and traces of several processes.
 *
 * A language with a garbage collector keeps the memory of a task alive until the task is complete. A
 * watcher would tell it, but on the thread of the kernel, and for every task. The watermark tells the
 * orchestrating thread, when it asks:
 *
 *     uint64_t until;
 *     PTO_TRY(pto_submit(rt, kernel, pto_inout(&x)));
 *     bool complete = pto_watermark(rt, &until) >= until;    // the task is one of the first `until`
 */
#ifndef PTO_EMBED_H
#define PTO_EMBED_H

#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns how many of the first tasks are all complete: with 7, the first seven tasks that were
 * submitted are complete, and the eighth is not. `submitted` receives the number of tasks submitted so
 * far; it may be NULL. The cost is that of the tasks that became complete since the last call. On
 * another thread than the orchestrating one, and inside of a kernel, both numbers are 0. */
PTO_API uint64_t pto_watermark(pto_runtime *rt, uint64_t *submitted);

/* Returns whether this thread may call the runtime now: it is the orchestrating thread, and not inside of a kernel,
 * which it runs while it submits or waits. For a library that keeps books of its own beside the runtime. */
PTO_API bool pto_may_call(const pto_runtime *rt);

/* Sets a function that can end a wait, for programs that handle signals; NULL removes it. While
 * any call waits (pto_wait, pto_read, a submit that needs room, pto_runtime_destroy with PTO_WAIT ...),
 * the orchestrating thread asks it between two tasks, when a signal has arrived, and at least ten times a
 * second. If it returns true, the call ends with PTO_INTERRUPTED. Nothing is lost: tasks go on, and the
 * same call can be made again. A submit that was interrupted has submitted nothing. The function must not
 * call the runtime. */
PTO_API PTO_MUST_CHECK pto_status pto_set_interrupt(pto_runtime *rt, bool (*interrupt)(void *user),
                                                    void *user);

/* Sets a function that looks for events of another library, such as messages, while the orchestrating
 * thread waits; NULL removes it. In any call that waits, the thread calls it again and again as long as it
 * finds no task to run. The function completes pending tasks (pto_task_complete), and calls nothing else of
 * the runtime. If it returns true, the thread does not sleep before the next call. If it returns false,
 * the thread may sleep until a task is ready or complete; then somebody else must look for the events. */
PTO_API PTO_MUST_CHECK pto_status pto_set_poll(pto_runtime *rt, bool (*poll)(void *user),
                                               void *user);

/* Sets functions around the waits of the orchestrating thread; NULL removes them. In any call, it calls
 * `begin` before it waits for tasks, and runs others meanwhile, and `end` afterwards; they do not nest. For
 * a language with a global lock: the lock is released while the thread waits, and not for each submit.
 * (Short kernels that submit runs itself run between neither.) The functions must not call the runtime. */
PTO_API PTO_MUST_CHECK pto_status pto_set_wait_hooks(pto_runtime *rt, void (*begin)(void *user),
                                                     void (*end)(void *user), void *user);

/* Waits until no submitted task reads or writes the tensor, and copies nothing: the program may then
 * write the elements where they are. (pto_wait_tensor waits for the writers alone.) PTO_POISONED: a
 * task that should have written it failed or was skipped. */
PTO_API PTO_MUST_CHECK pto_status pto_wait_unused_at(pto_runtime *rt, const pto_tensor *t,
                                                     const char *file, int line);

#define pto_wait_unused(rt, t) pto_wait_unused_at((rt), (t), __FILE__, __LINE__)

/* Refuses tensors at addresses that stand for something else, such as an object of the library that calls
 * this: the program has given one to the wrong function. Calls that get such a tensor return PTO_BAD_MEMORY,
 * and their message ends with `why`, which must stay: "the tensor at 0x... is a volume: call volume_read".
 * There is one such range: the next call replaces it, and 0 bytes remove it. Tensors that tasks use already
 * are not refused. */
PTO_API PTO_MUST_CHECK pto_status pto_refuse_memory(pto_runtime *rt, const void *memory,
                                                    uint64_t bytes, const char *why);

/* Refuses pto_runtime_destroy (PTO_BAD_SCOPE) while another library needs the runtime: the runtime stays, and the
 * message ends with `why`, which must stay, too: "the runtime is open in a studio: call studio_close". NULL permits
 * it again. */
PTO_API PTO_MUST_CHECK pto_status pto_refuse_destroy(pto_runtime *rt, const char *why);

/* Returns the name of a kernel, for as long as the runtime lives; NULL if it is none of this runtime. For a
 * library that must know whether two processes mean the same kernel: handles only say which one was
 * registered first. */
PTO_API const char *pto_kernel_name(const pto_runtime *rt, pto_kernel kernel);

/* Checks the kernel of a task as pto_submit does: that it is registered, is for workers of this type, and has declared
 * these parameters (pto_kernel_declare). For a library that runs one program in several processes, of which one submits
 * the task, and all must know whether it is refused: whether there is such a worker here is left out. */
PTO_API PTO_MUST_CHECK pto_status pto_check_kernel_at(pto_runtime *rt, pto_kernel kernel,
                                                      pto_worker_type type, const pto_param *params,
                                                      size_t n_params, const char *file, int line);

#define pto_check_kernel(rt, ...) pto_check_kernel_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Checks that a managed tensor is alive, written or not: PTO_STALE, with a message that begins with `who` and says what
 * ended it. For a library that keeps something for managed tensors. Any other tensor is alive. */
PTO_API PTO_MUST_CHECK pto_status pto_check_alive(pto_runtime *rt, const char *who,
                                                  const pto_tensor *t);

/* Makes the memory of managed tensors, as kernels see it, outlive the runtime. pto_runtime_destroy then
 * leaves it mapped, and the caller unmaps it with munmap(*memory, *bytes). For a language in which a
 * kernel can keep a reference to its argument that nobody can revoke. */
PTO_API PTO_MUST_CHECK pto_status pto_detach_heaps(pto_runtime *rt, void **memory, size_t *bytes);

/* ---- One trace of several processes -------------------------------------------------------------- */

/* What a note is about. A library that runs one program in several processes, its ranks, adds notes to the
 * trace of each: how the clocks of the ranks relate, and which tasks are the two ends of a message.
 * pto_trace_merge (pto/trace.h) makes one trace of all of them. */
typedef enum pto_note_kind {
    PTO_NOTE_RANK, /* this process is rank `peer` of `number` */
    PTO_NOTE_STEP, /* tasks from now on belong to step `number`; steps rise, and are the same on all ranks */
    PTO_NOTE_SEND,    /* `task` sends message `number` to rank `peer` */
    PTO_NOTE_RECEIVE, /* `task` receives message `number` from rank `peer` */
    PTO_NOTE_ASKED, /* question `number` to rank `peer`: `ticks` is the middle between question and
                          answer, `error` half of the time between them, in ticks */
    PTO_NOTE_ANSWERED, /* question `number` of rank `peer` was answered at `ticks` */
} pto_note_kind;

#define PTO_NOTE_KINDS (PTO_NOTE_ANSWERED + 1)

/* A note in the trace of a rank. What a kind does not need is zero. */
typedef struct pto_note {
    pto_note_kind kind;
    uint32_t peer;
    uint64_t number;
    pto_task task;
    uint64_t ticks, error;
} pto_note;

/* Returns the time of the trace, in ticks of its own; 0 if the runtime is not traced. */
PTO_API uint64_t pto_trace_clock(const pto_runtime *rt);

/* Adds a note to the trace. Does nothing if the runtime is not traced. Both are for the orchestrating
 * thread. */
PTO_API void pto_trace_note(pto_runtime *rt, const pto_note *note);

/* Gets the trace of a runtime: `bytes` are those of a .ptrace, and `path` is the file that was asked for. Both
 * are gone afterwards. */
typedef pto_status (*pto_trace_writer)(void *user, const char *path, const void *bytes,
                                       size_t n_bytes);

/* Sets a function that gets the trace instead of a file, when the runtime is destroyed. What it returns
 * is what pto_runtime_destroy says about the trace. NULL removes it. */
PTO_API PTO_MUST_CHECK pto_status pto_set_trace_writer(pto_runtime *rt, pto_trace_writer write,
                                                       void *user);

#ifdef __cplusplus
}
#endif

#endif /* PTO_EMBED_H */
