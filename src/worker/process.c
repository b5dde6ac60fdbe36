#define _GNU_SOURCE /* on_exit */
#include "worker/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/code.h"
#include "base/error.h"

ptoi_process ptoi_process_plan(const ptoi_settings *settings, uint32_t number)
{
    const uint32_t each = settings->config.process_threads, first = (number - 1) * each;
    const uint32_t rest = settings->n_started - first;
    return (ptoi_process){.number = number, .first = first, .count = rest < each ? rest : each};
}

/* ---- Kernels ---- */

static ptoi_code code; /* of this process. It was forked, and loads none */

pto_kernel_fn (*ptoi_process_find_kernel)(const char *name);

static pto_kernel_fn find_kernel(const ptoi_scheduler *s, uint32_t number, uint64_t address)
{
    if (!ptoi_process_find_kernel) {
        return ptoi_code_has(&code, address) ? (pto_kernel_fn)(uintptr_t)address : NULL;
    }
    const uint32_t name = s->view.kernels[number].name;
    return name < PTOI_STRING_BYTES ? ptoi_process_find_kernel(ptoi_string(&s->view, name)) : NULL;
}

/* Reads the entry of the kernel once, and checks what it read (W1). */
static bool look_up(const ptoi_scheduler *s, uint32_t number, pto_kernel_fn *fn, void **user)
{
    const ptoi_kernel_code entry = s->view.codes[number];
    *fn = find_kernel(s, number, entry.address);
    if (!*fn || entry.user > s->view.segment_bytes[PTOI_SEGMENT_SHARED]) {
        return false;
    }
    *user = entry.user ? s->view.base[PTOI_SEGMENT_SHARED] + (entry.user - 1) : NULL;
    return true;
}

bool ptoi_process_has_kernel(const ptoi_scheduler *s, uint32_t number)
{
    pto_kernel_fn fn;
    void *user;
    return look_up(s, number, &fn, &user);
}

bool ptoi_process_adopt_kernel(ptoi_scheduler *s, uint32_t number)
{
    pto_kernel_fn fn;
    void *user;
    if (!look_up(s, number, &fn, &user)) {
        PTO_IGNORE(ptoi_fail(PTO_BAD_KERNEL, "worker process %d does not have this kernel",
                             (int)ptoi_os_process()));
        return false;
    }
    ptoi_kernel *k = &s->kernels[number];
    pthread_mutex_lock(&s->lock); /* other threads of this process may do the same */
    if (ptoi_get32(&k->length) == PTOI_LENGTH_UNKNOWN) {
        k->fn = fn;
        k->user = user;
        ptoi_release32(&k->length, PTOI_LENGTH_NEVER); /* pairs has_kernel in worker.c */
    }
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* ---- Life ---- */

/* Ends the process, and says why. The helper sees that it has ended. */
static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "pto: worker process %d: %s: %s\n", (int)getpid(), what, pto_error_detail());
    _exit(1);
}

static ptoi_scheduler *create(const ptoi_helper_start *start, const ptoi_process *process)
{
    const ptoi_settings *settings = start->settings;
    ptoi_scheduler *s = NULL;
    pto_runtime *rt = ptoi_runtime_for_worker(settings);
    pto_status status = rt ? ptoi_scheduler_create_as(PTOI_ROLE_WORKER, settings, &start->mapping,
                                                      rt, &s)
                           : ptoi_fail(PTO_OUT_OF_MEMORY, "no memory for its handle");
    if (status == PTO_OK) {
        status = ptoi_code_list(&code);
    }
    if (status == PTO_OK && s->view.header->asymmetric && !ptoi_os_has_barrier(true)) {
        status = ptoi_fail(PTO_SYSTEM, "membarrier: the system refuses it to this process");
    }
    if (status != PTO_OK) {
        give_up("it cannot start");
    }
    ptoi_runtime_serves(rt, s, &s->view);
    s->process = process->number;
    s->own_first = process->first;
    s->own_count = process->count;
    return s;
}

static void set_types(const ptoi_scheduler *s, const uint32_t *types)
{
    for (uint32_t i = s->own_first; i < s->own_first + s->own_count; i++) {
        ptoi_set32(&s->workers[i].parker.line->types, types[i]);
    }
}

/* exit() in a kernel ends this process, and runs nothing that the program has registered with atexit:
 * handlers run in reverse order, and this is the last one. */
static void end_at_once(int status, void *unused)
{
    (void)unused;
    fflush(NULL); /* what kernels have printed */
    _exit(status);
}

void ptoi_process_run(const ptoi_helper_start *start, const ptoi_process *process)
{
    ptoi_scheduler *s = create(start, process);
    const uint32_t *types = start->settings->worker_types;
    if (start->logs) {
        ptoi_scheduler_log(s, start->logs);
        ptoi_scheduler_watch(s, NULL, true);
    }
    (void)on_exit(end_at_once, NULL);
    set_types(s, types);
    if (ptoi_scheduler_run(s) != PTO_OK) {
        give_up("it cannot start");
    }
    fflush(NULL); /* what kernels have printed */
    _exit(0);
}
