/* scenario_others.c - threads outside the runtime, which complete tasks, cancel and read the
 * window; and tasks that fail. */
#include <string.h>

#include "rig.h"

/* ---- Pending tasks ---- */

static void one_worker(void)
{
    const pto_config c = rig_config(1, PTO_PLACE_INLINE);
    rig_create(&c);
}

static void one_worker_thread(void)
{
    const pto_config c = rig_config(1, PTO_PLACE_THREAD);
    rig_create(&c);
}

/* What an engine does: the work, a delay, then pto_task_complete. */
static pto_task await_pending(void)
{
    pto_task task;
    while (!(task = ptoi_acquire64(&r->pending))) {
        ptoi_os_yield();
    }
    return task;
}

static void complete_once(void *context)
{
    const pto_task task = await_pending();
    (void)context;
    r->cell[0] = 7; /* written by the engine */
    world_check(pto_task_complete(r->rt, task, PTO_OK) == PTO_OK);
}

/* Another thread completes the task, before or after the kernel has returned. It may still be
 * inside pto_task_complete when the runtime is destroyed. */
static void pending_run(void)
{
    pto_runtime *rt = r->rt;
    (void)world_thread("completes", complete_once, NULL);
    rig_submit(r->pend, pto_output(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_input(&r->t[1]), pto_output(&r->t[2]));
    world_check(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    world_check(r->cell[2] == 8);
}

const scenario scenario_pending = {
    "pending", "another thread completes a pending task, and the runtime is destroyed; 1 worker",
    one_worker, pending_run, false};
const scenario scenario_pending_thread = {"pending-thread",
                                          "the same with the scheduler on a thread",
                                          one_worker_thread, pending_run, false};

/* The runtime is destroyed with a scope still open; tasks that have not started are skipped. */
static void end_cancel_run(void)
{
    pto_runtime *rt = r->rt;
    pto_tensor x;
    world_check(pto_scope_begin(rt) == PTO_OK);
    world_check(pto_temp(rt, PTO_INT64, 1, (int64_t[]){1}, &x) == PTO_OK);
    rig_submit(r->signal, pto_inout(&r->t[3]));
    rig_submit(r->set, pto_output(&x), pto_scalar(1));
    rig_submit(r->add, pto_input(&x), pto_input(&r->t[3]), pto_output(&r->t[2]));
    world_check(pto_runtime_destroy(&rt, PTO_CANCEL) == PTO_OK);
    world_check(rt == NULL && r->cell[2] <= 1);
}

const scenario scenario_end_cancel = {
    "end-cancel", "the runtime is cancelled and destroyed with a scope open; 1 worker", one_worker,
    end_cancel_run, false};

static void complete_twice(void *context)
{
    const pto_status s = pto_task_complete(r->rt, await_pending(), PTO_OK);
    world_check(s == PTO_OK || s == PTO_BAD_TASK);
    *(pto_status *)context = s;
}

/* Two threads complete the same task: one of them succeeds. Another task soon reuses the slot. */
static void twice_prepare(void)
{
    pto_config c = rig_config(1, PTO_PLACE_INLINE);
    c.ring_tasks = 2;
    rig_create(&c);
}

static void twice_run(void)
{
    const uint32_t a = world_thread("completes 1", complete_twice, &r->status[0]);
    const uint32_t b = world_thread("completes 2", complete_twice, &r->status[1]);
    rig_submit(r->pend, pto_output(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->set, pto_output(&r->t[2]), pto_scalar(2));
    rig_submit(r->add, pto_input(&r->t[1]), pto_input(&r->t[2]), pto_output(&r->t[3]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[3] == 3);
    world_join(a);
    world_join(b);
    world_check((r->status[0] == PTO_OK) != (r->status[1] == PTO_OK));
}

const scenario scenario_pending_twice = {
    "pending-twice", "two threads complete one task, whose slot is taken again; 1 worker",
    twice_prepare, twice_run, false};

static void complete_badly(void *context)
{
    (void)context;
    world_check(pto_task_complete(r->rt, await_pending(), PTO_SYSTEM) == PTO_OK);
}

static void badly_run(void)
{
    const uint32_t a = world_thread("completes", complete_badly, NULL);
    rig_submit(r->pend, pto_output(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[2]));
    world_check(pto_wait(r->rt) == PTO_TASK_FAILED);
    world_check(r->cell[2] == 0);
    world_join(a);
}

const scenario scenario_pending_bad = {"pending-bad",
                                       "a pending task is completed with a failure; 1 worker",
                                       one_worker, badly_run, false};

/* ---- Failure ---- */

static void two_workers(void)
{
    const pto_config c = rig_config(2, PTO_PLACE_INLINE);
    rig_create(&c);
}

/* A reader of failed memory is always skipped; a reader after a good write is not. */
static void failure_run(void)
{
    int64_t value = 0;
    rig_submit(r->fail, pto_output(&r->t[0]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(4));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[2]));
    world_check(pto_wait(r->rt) == PTO_TASK_FAILED);
    world_check(r->cell[1] == 0 && r->cell[0] == 4 && r->cell[2] == 4);
    world_check(pto_read(r->rt, &r->t[1], &value, sizeof value) == PTO_POISONED);
    world_check(pto_read(r->rt, &r->t[0], &value, sizeof value) == PTO_OK && value == 4);
}

const scenario scenario_failure = {"failure", "failure poisons against linking; 2 workers",
                                   two_workers, failure_run, false};

static void failure_prepare_window(void)
{
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.ring_tasks = 2;
    rig_create(&c);
}

static void failure_prepare_thread(void)
{
    pto_config c = rig_config(1, PTO_PLACE_THREAD);
    c.ring_tasks = 2;
    rig_create(&c);
}

const scenario scenario_failure_window = {"failure-window", "the same in a task ring of two",
                                          failure_prepare_window, failure_run, false};
const scenario scenario_failure_thread = {
    "failure-thread", "the same in a task ring of two, with the scheduler on a thread, 1 worker",
    failure_prepare_thread, failure_run, false};

/* The first failure is read while a worker may be replacing its record by a lower one (W14): the
 * lower one waits for a pending task, so the worker that keeps the other one can come to it later. The
 * orchestrating thread runs no task, so the worker keeps both. */
static void records_prepare(void)
{
    pto_config c = rig_config(1, PTO_PLACE_INLINE);
    c.caller_types = PTO_NO_TYPES;
    rig_create(&c);
}

static void records_run(void)
{
    bool failed = false;
    pto_failure f;
    (void)world_thread("completes", complete_once, NULL);
    rig_submit(r->pend, pto_output(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->fail, pto_input(&r->t[0]), pto_output(&r->t[2]));
    const pto_task lower = pto_last_task(r->rt);
    rig_submit(r->fail, pto_output(&r->t[3]));
    const pto_task upper = pto_last_task(r->rt);
    world_check(pto_wait_task(r->rt, upper) == PTO_TASK_FAILED);
    world_check(pto_get_failure(r->rt, &failed, &f) == PTO_OK && failed);
    world_check((f.order == 1 && f.task == lower) || (f.order == 2 && f.task == upper));
    world_check(pto_wait(r->rt) == PTO_TASK_FAILED);
    world_check(pto_get_failure(r->rt, &failed, &f) == PTO_OK && failed);
    world_check(f.order == 1 && f.task == lower);
}

const scenario scenario_records = {"records",
                                   "a failure is read while a lower one replaces it; 1 worker",
                                   records_prepare, records_run, false};

/* ---- Cancel ---- */

static void cancel(void *context)
{
    (void)context;
    pto_cancel(r->rt);
}

/* The tasks that ran are a prefix of the program, and the runtime works afterwards. */
static void cancel_run(void)
{
    uint32_t submitted = 0;
    const uint32_t a = world_thread("cancels", cancel, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        const pto_status s = i ? pto_submit(r->rt, r->twice, pto_inout(&r->t[0]))
                               : pto_submit(r->rt, r->set, pto_output(&r->t[0]), pto_scalar(1));
        world_check(s == PTO_OK || s == PTO_CANCELLED);
        if (s != PTO_OK) {
            break;
        }
        submitted++;
    }
    const pto_status s = pto_wait(r->rt);
    world_check(s == PTO_OK || s == PTO_CANCELLED);
    const int64_t v = r->cell[0];
    world_check(s == PTO_OK ? submitted == 3 && v == 4 : v == 0 || (v & (v - 1)) == 0);
    world_join(a);
    world_check(pto_clear_error(r->rt) == PTO_OK);
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(8));
    world_check(pto_wait(r->rt) == PTO_OK && r->cell[0] == 8);
}

const scenario scenario_cancel = {"cancel", "another thread cancels while tasks come and run",
                                  two_workers, cancel_run, false};

/* ---- Outside readers ---- */

static void look(void *context)
{
    pto_runtime_stats *stats = context;
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t before = stats->completed;
        world_check(pto_stats(r->rt, stats) == PTO_OK);
        world_check(stats->completed <= stats->submitted && stats->submitted <= 4);
        world_check(stats->completed >= before);
        const pto_ring_stats *ring = &stats->level[0].ring[PTO_RING_TASKS];
        world_check(ring->used <= ring->size);
        /* Both slots hold tasks of two kernels in turn. */
        static const char *const kernels[] = {"set", "add", "add", "set"};
        const uint64_t n = (stats->oldest >> 3) - r->rt->settings.config.first_task;
        world_check(!stats->oldest || (n < 4 && strcmp(stats->oldest_kernel, kernels[n]) == 0));
    }
}

static void look_prepare(void)
{
    pto_config c = rig_config(1, PTO_PLACE_INLINE);
    c.ring_tasks = 2;
    rig_create(&c);
}

static void look_tasks(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->add, pto_input(&r->t[1]), pto_output(&r->t[2]));
    rig_submit(r->set, pto_output(&r->t[3]), pto_scalar(6));
    world_check(pto_wait(r->rt) == PTO_OK && r->cell[2] == 5 && r->cell[3] == 6);
}

static void stats_run(void)
{
    const uint32_t a = world_thread("looks", look, &r->stats);
    look_tasks();
    world_join(a);
}

const scenario scenario_stats = {"stats", "another thread reads statistics of a task ring of two",
                                 look_prepare, stats_run, false};

/* A tool that has mapped the window attaches and asks whether each task is complete. The answers
 * stay true, and the outputs of complete tasks are visible. */
static void attach(void *written_again)
{
    ptoi_view view;
    world_check(ptoi_window_attach(&r->rt->mapping, &view) == PTO_OK);
    const uint64_t head = ptoi_acquire64(&view.header->progress[0].head);
    for (uint64_t n = 1; n < head; n++) {
        const ptoi_ref ref = ptoi_ref_make(n, 0, false);
        const bool complete = ptoi_task_is_complete(&view, ref);
        if (complete && n == 1 && !written_again) {
            world_check(r->cell[0] == 5);
        }
        world_check(!complete || ptoi_task_is_complete(&view, ref));
        world_check(ptoi_get64(&ptoi_slot_of(&view, 0, n)->seq) >= n);
    }
}

static void attach_run(void)
{
    const uint32_t a = world_thread("attaches", attach, NULL);
    look_tasks();
    world_join(a);
}

const scenario scenario_attach = {"attach", "a reader attaches to the window while it is written",
                                  look_prepare, attach_run, false};

/* The same while submit runs tasks inline: it marks them complete itself (W5), and reuses slots of
 * marked tasks. */
static void attach_inline_prepare(void)
{
    pto_config c = rig_config(1, PTO_PLACE_INLINE);
    c.ring_tasks = 2;
    c.deps = 128;          /* the fast path wants room for many edges */
    c.inline_ns = 2000000; /* everything: no clock decides */
    rig_create(&c);
    for (int i = 0; i < 3; i++) { /* the kernel is timed, and the map knows the region */
        rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
        world_check(pto_wait(r->rt) == PTO_OK);
    }
}

static void attach_inline_run(void)
{
    pto_runtime_stats stats;
    const uint32_t a = world_thread("attaches", attach, r);
    for (int i = 0; i < 4; i++) {
        rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    }
    world_join(a);
    world_check(pto_stats(r->rt, &stats) == PTO_OK && stats.inlined > 0);
    world_check(stats.completed == stats.submitted);
}

const scenario scenario_attach_inline = {"attach-inline", "the same while submit runs tasks inline",
                                         attach_inline_prepare, attach_inline_run, false};

/* The orchestrating thread queries the state of a task: it never goes back. */
static void info_run(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    const pto_task task = pto_last_task(r->rt);
    pto_task_state before = PTO_TASK_PENDING;
    for (uint32_t i = 0; i < 3; i++) {
        pto_task_report report;
        world_check(pto_task_info(r->rt, task, &report) == PTO_OK);
        world_check(report.state >= before && !report.failed && !report.skipped);
        world_check(report.state < PTO_TASK_COMPLETED || r->cell[1] == 5);
        before = report.state;
    }
    world_check(pto_wait(r->rt) == PTO_OK && r->cell[1] == 5);
}

const scenario scenario_info = {"info", "the orchestrating thread asks how a task is doing",
                                two_workers, info_run, false};
