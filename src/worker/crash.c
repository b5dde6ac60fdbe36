/* crash.c - which task a thread runs, told in a signal handler.
 *
 * The window knows: the line of a thread has the task whose kernel it called last, and the state of
 * that task says whether the kernel has returned. So a task costs nothing more than it did.
 */
#include "worker/crash.h"

#include "base/error.h"
#include "worker/keeper.h"

/* Whether the kernel of a task was called and has not returned. */
static bool is_running(const ptoi_view *view, pto_task task)
{
    const uint64_t seq = task >> 3;
    const uint32_t level = (uint32_t)task & 7;
    if (!task || level >= view->header->levels) {
        return false;
    }
    const ptoi_slot *slot = ptoi_slot_of(view, level, seq);
    const uint32_t phase = ptoi_phase_of(ptoi_get32(&ptoi_state_of(view, level, seq)->phase),
                                         ptoi_lap(view, level, seq));
    return ptoi_get64(&slot->seq) == seq && !ptoi_is_marked_complete(view, slot) &&
           (phase & (PTOI_PHASE_RUNNING | PTOI_PHASE_RETURNED | PTOI_PHASE_COMPLETED)) ==
               PTOI_PHASE_RUNNING;
}

static void describe(const ptoi_view *view, pto_task task, ptoi_crash_text *text)
{
    const ptoi_slot *slot = ptoi_slot_of(view, (uint32_t)task & 7, task >> 3);
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    const ptoi_site *site = &view->sites[header.site];
    char label[PTO_LABEL_BYTES];
    ptoi_label_read(&view->labels[ptoi_slot_index(view, slot)], ptoi_order_of(view, slot), label);
    ptoi_crash_add(text, "task ");
    ptoi_crash_add_number(text, ptoi_order_of(view, slot), 10);
    if (label[0]) {
        ptoi_crash_add(text, " '");
        ptoi_crash_add(text, label);
        ptoi_crash_add(text, "'");
    }
    ptoi_crash_add(text, " (kernel '");
    ptoi_crash_add(text, ptoi_kernel_name(view, header.kernel));
    ptoi_crash_add(text, "', submitted at ");
    ptoi_crash_add(text, ptoi_string(view, site->file));
    ptoi_crash_add(text, ":");
    ptoi_crash_add_number(text, (uint32_t)site->line, 10);
    ptoi_crash_add(text, ")");
}

/* Describes the task that the worker runs, if it is this thread. */
static bool tell_of(const ptoi_worker *worker, uint32_t self, ptoi_crash_text *text)
{
    const ptoi_worker_line *line = worker->calls.line;
    const ptoi_view *view = worker->calls.view; /* that of a block is the mirror */
    const pto_task task = ptoi_get64(&line->task);
    if (ptoi_get32(&line->thread) != self || !is_running(view, task)) {
        return false;
    }
    describe(view, task, text);
    return true;
}

/* Describes the task that one of these threads of a device runs, if it is this thread. */
static void tell_of_device(const ptoi_worker *workers, uint32_t n, const char *what,
                           pto_device device, uint32_t self, ptoi_crash_text *text)
{
    for (uint32_t i = 0; i < n; i++) {
        if (tell_of(&workers[i], self, text)) {
            ptoi_crash_add(text, what);
            ptoi_crash_add_number(text, i, 10);
            ptoi_crash_add(text, " of ");
            ptoi_crash_add(text, pto_device_name(device.type));
            ptoi_crash_add(text, ":");
            ptoi_crash_add_number(text, (uint32_t)device.index, 10);
        }
    }
}

static void tell(const ptoi_witness *witness, ptoi_crash_text *text)
{
    const ptoi_scheduler *s = (const ptoi_scheduler *)(const void *)((const char *)witness -
                                                                     offsetof(ptoi_scheduler,
                                                                              witness));
    const uint32_t self = ptoi_os_thread_number();
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        if (tell_of(&s->workers[i], self, text)) {
            ptoi_crash_add(text,
                           i == s->n_workers ? ", on the orchestrating thread" : ", on worker ");
            if (i < s->n_workers) {
                ptoi_crash_add_number(text, i, 10);
            }
        }
    }
    for (uint32_t d = 1; d < s->n_devices; d++) {
        const ptoi_sched_device *device = &s->devices[d];
        tell_of_device(device->workers, device->n_workers, ", on worker ", device->device, self,
                       text);
    }
    uint32_t n_blocks = 0;
    const ptoi_worker *blocks = ptoi_keeper_blocks(s, &n_blocks);
    if (n_blocks) {
        tell_of_device(blocks, n_blocks, ", on block ", ptoi_keeper_device(s)->device, self, text);
    }
}

pto_status ptoi_crash_begin(ptoi_scheduler *s)
{
    if (!s->crash_report) {
        return PTO_OK;
    }
    if (s->n_workers) {
        s->stacks = ptoi_os_reserve(s->n_workers * PTOI_CRASH_STACK);
        if (!s->stacks) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "create: signal stacks of %u workers",
                             s->n_workers);
        }
    }
    for (uint32_t i = 0; i < s->n_workers; i++) {
        s->workers[i].stack = s->stacks + i * PTOI_CRASH_STACK;
    }
    s->witness.tell = tell;
    ptoi_crash_watch(&s->witness);
    return PTO_OK;
}

void ptoi_crash_end(ptoi_scheduler *s)
{
    if (s->witness.tell) {
        ptoi_crash_forget(&s->witness);
        s->witness.tell = NULL;
    }
    for (uint32_t d = 1; d < s->n_devices; d++) {
        ptoi_os_release(s->devices[d].stacks, s->devices[d].n_workers * PTOI_CRASH_STACK);
        s->devices[d].stacks = NULL;
    }
    ptoi_os_release(s->stacks, s->n_workers * PTOI_CRASH_STACK);
    s->stacks = NULL;
}

void ptoi_crash_thread_begin(const ptoi_worker *worker)
{
    if (worker->stack) {
        ptoi_crash_stack(worker->stack);
    }
}

void ptoi_crash_thread_end(const ptoi_worker *worker)
{
    if (worker->stack) {
        ptoi_crash_no_stack(worker->stack);
    }
}
