/* scenario_death.c - a worker process dies at any point of the protocol, and the runtime recovers. Or it
 * attaches and detaches at any point.
 *
 * A worker process is a thread here, with a scheduler's side of its own over the one window. The
 * killer ends it (world_kill), wherever it stands, and says that it is lost. The orchestrating thread
 * recovers as orchestrator/process.c does, with the functions that the helper calls.
 */
#include "base/error.h"
#include "orchestrator/post.h"
#include "orchestrator/process.h"
#include "orchestrator/refill.h"
#include "rig.h"
#include "scheduler/rebuild.h"
#include "worker/pause.h"

/* Of worker/end.h, whose other names runtime.h has, too. */
void ptoi_end_keep_failure(const ptoi_scheduler *s, ptoi_failed *record, const ptoi_slot *slot,
                           pto_status status, const char *message);

enum { TASKS = 5, CELLS = 3, WORKERS = 2, FRESH = WORKERS };

static struct {
    ptoi_scheduler *helper;
    ptoi_scheduler *side[WORKERS + 1]; /* the last one takes the place of worker 0, which dies */
    uint32_t thread[WORKERS + 1];
    uint32_t workers;
    pthread_mutex_t lock; /* of orchestrator/process.c: losses */
    bool dies_now;        /* rebuild: worker 0 is dead */
    pto_kernel count, own;
    uint32_t ran[TASKS]; /* runs of each task: plain */
    bool failed[TASKS];  /* that the rebuild has to fail */
    uint32_t n;          /* tasks */
    pto_task task[TASKS];
    pto_tensor t[CELLS];
    ptoi_a32 over; /* no more tasks come */
} * k;

/* ---- In place of processes ---- */

pto_status __real_ptoi_process_create(pto_runtime *rt);
pto_status __wrap_ptoi_process_create(pto_runtime *rt);
pto_status __wrap_ptoi_process_lost(const pto_runtime *rt);
bool __wrap_ptoi_process_is_lost(const pto_runtime *rt);

pto_status __wrap_ptoi_process_create(pto_runtime *rt)
{
    return rt->settings.config.place == PTO_PLACE_PROCESS ? ptoi_posts_create(rt) : PTO_OK;
}

pto_status __wrap_ptoi_process_lost(const pto_runtime *rt)
{
    (void)rt;
    return ptoi_fail(PTO_WORKER_LOST, "worker 0 is lost");
}

bool __wrap_ptoi_process_is_lost(const pto_runtime *rt)
{
    return ptoi_load_sc32(&rt->scheduler->lost);
}

/* ---- Kernels ---- */

/* inout cell, number: two points at which threads can be switched */
static pto_status count_fn(const pto_call *call)
{
    ptoi_fetch_add32(&r->signals, 1);
    k->ran[call->args[1].i64]++;
    *(int64_t *)call->args[0].data += 1;
    ptoi_fetch_add32(&r->signals, 1);
    return PTO_OK;
}

/* The same, completed by the kernel itself, as a guest. */
static pto_status own_fn(const pto_call *call)
{
    (void)count_fn(call);
    PTO_IGNORE(pto_task_complete(call->rt, call->task, PTO_OK));
    return PTO_PENDING;
}

/* ---- Worker processes ---- */

static ptoi_scheduler *make_side(ptoi_role role, uint32_t worker)
{
    pto_runtime *rt = r->rt, *handle = ptoi_runtime_for_worker(&rt->settings);
    ptoi_scheduler *s = NULL;
    world_check(ptoi_scheduler_create_as(role, &rt->settings, &rt->mapping, handle, &s) == PTO_OK);
    ptoi_runtime_serves(handle, s, &s->view);
    s->process = role == PTOI_ROLE_WORKER ? worker + 1 : 0;
    s->own_first = worker;
    s->own_count = 1;
    for (uint32_t i = 0; i < 16; i++) {
        s->kernels[i] = rt->scheduler->kernels[i];
        ptoi_set32(&s->kernels[i].length, PTOI_LENGTH_NEVER);
    }
    return s;
}

static int64_t *cells(void)
{
    return (int64_t *)(void *)r->rt->view.base[PTOI_SEGMENT_SHARED];
}

static void prepare(uint32_t workers, uint32_t ring)
{
    pto_config c = rig_config(workers, PTO_PLACE_PROCESS);
    c.ring_tasks = ring;
    c.process_threads = 1;
    c.shared_bytes = 4096;
    c.caller_types = 0;
    rig_create(&c);
    k = world_memory(sizeof *k);
    pto_kernel made[2];
    world_check(pto_kernel_register(r->rt, "count", PTO_VECTOR, count_fn, NULL, &made[0]) ==
                PTO_OK);
    world_check(pto_kernel_register(r->rt, "own", PTO_VECTOR, own_fn, NULL, &made[1]) == PTO_OK);
    k->count = made[0];
    k->own = made[1];
    k->workers = workers;
    k->helper = make_side(PTOI_ROLE_HELPER, 0);
    for (uint32_t i = 0; i < workers; i++) {
        k->side[i] = make_side(PTOI_ROLE_WORKER, i);
    }
    k->side[FRESH] = make_side(PTOI_ROLE_WORKER, 0);
    const ptoi_view *v = &r->rt->view;
    const ptoi_worker_line *others = &v->workers[workers + PTOI_LINE_OTHERS];
    world_name(&v->workers[0].activity, sizeof *v->workers, workers, 4, "worker[%u].activity");
    world_name(&others->guests, sizeof *others, workers + 1, 4, "process[%u].guests");
    world_name(&v->header->posted_head, 8, 1, 8, "posted_head");
    world_name(&v->sched->posts_taken, 8, 1, 8, "posts_taken");
    world_name(v->posts, sizeof *v->posts, v->inbox_mask + 1, sizeof *v->posts, "post[%u]");
    world_name(&r->rt->scheduler->lost, 4, 1, 4, "lost");
    for (uint32_t i = 0; i < CELLS; i++) { /* where worker processes see it */
        world_check(pto_external_tensor(r->rt, &cells()[i], PTO_INT64, 1, (int64_t[]){1},
                                        &k->t[i]) == PTO_OK);
    }
    world_name(cells(), 8, CELLS, 8, "cell[%u]");
    world_name(k->ran, 4, TASKS, 4, "ran[%u]");
    world_name(&k->over, 4, 1, 4, "over");
}

static void serve(void *context)
{
    ptoi_scheduler *s = context;
    ptoi_set32(&s->workers[s->own_first].parker.line->types, PTO_TYPE_BIT(PTO_VECTOR));
    world_check(ptoi_scheduler_run(s) == PTO_OK);
}

static void start_workers(void)
{
    for (uint32_t i = 0; i < k->workers; i++) {
        k->thread[i] = world_thread(i ? "worker 1" : "worker 0", serve, k->side[i]);
    }
}

static void kill_worker(void *context)
{
    (void)context;
    world_kill(k->thread[0]);
    pthread_mutex_lock(&k->lock); /* as the monitor: no recovery begins before it has woken */
    ptoi_scheduler_set_lost(r->rt->scheduler, true);
    pthread_mutex_unlock(&k->lock);
}

/* ---- Recovery ---- */

static bool is_dead(const void *context, uint32_t worker)
{
    (void)context;
    return worker == 0;
}

static void failed(const void *context, uint32_t index, bool died, pto_status status)
{
    const ptoi_view *view = &k->helper->view;
    const uint32_t line = k->helper->n_workers + PTOI_LINE_OTHERS;
    (void)context;
    ptoi_count64(&view->workers[line].tally.failed, 1);
    ptoi_end_keep_failure(k->helper, &view->failures[line], &view->slots[index], status,
                          died ? "died" : "completed");
}

/* Which tasks ran in the dead process and are not complete. */
static void note_running(void)
{
    const ptoi_view *view = &r->rt->view;
    for (uint32_t i = 0; i < k->n; i++) {
        const ptoi_ref ref = ptoi_ref_make(k->task[i] >> 3, 0, false);
        const ptoi_state *state = ptoi_state_of(view, 0, ptoi_ref_seq(ref));
        const uint32_t phase = ptoi_phase_of(ptoi_acquire32(&state->phase),
                                             ptoi_lap_of_ref(view, ref));
        const uint32_t both = PTOI_PHASE_RETURNED | PTOI_PHASE_COMPLETED;
        k->failed[i] |= !ptoi_task_is_complete(view, ref) && phase & PTOI_PHASE_RUNNING &&
                        state->worker == 0 && (phase & both) != both;
    }
}

static void recover(void)
{
    ptoi_header *h = r->rt->view.header;
    world_check(!k->dies_now); /* it dies once */
    k->dies_now = true;
    pthread_mutex_lock(&k->lock);
    pthread_mutex_unlock(&k->lock);
    ptoi_posts_hold(r->rt);
    ptoi_store_sc32(&h->stop, PTOI_PAUSE);
    ptoi_scheduler_wake_all(r->rt->scheduler);
    ptoi_os_wake_all(&h->stop);
    world_check(!h->asymmetric || ptoi_os_barrier(true));
    while (k->workers > 1 && !ptoi_pause_is_reached(k->helper, 2, 1, 1)) {
        ptoi_os_yield();
    }
    note_running();
    ptoi_rebuild_lines(k->helper, 1, 0, 1);
    ptoi_rebuild_window(&(ptoi_rebuild){.s = k->helper, .is_dead = is_dead, .failed = failed});
    k->thread[FRESH] = world_thread("fresh worker", serve, k->side[FRESH]);
    ptoi_scheduler_set_lost(r->rt->scheduler, false);
    ptoi_refill(r->rt);
    ptoi_store_sc32(&h->stop, PTOI_GO);
    ptoi_scheduler_wake_all(r->rt->scheduler);
    ptoi_os_wake_all(&h->stop);
    ptoi_posts_let_go(r->rt);
}

static pto_status wait_all(void)
{
    pto_status s;
    while ((s = pto_wait(r->rt)) == PTO_WORKER_LOST) {
        recover();
    }
    return s;
}

/* Ends all workers, as destroy does. */
static void end_workers(void)
{
    ptoi_store_sc32(&r->rt->view.header->stop, PTOI_END);
    ptoi_scheduler_wake_all(r->rt->scheduler);
    if (k->workers > 1) {
        world_join(k->thread[1]);
    }
    world_join(k->thread[k->dies_now ? FRESH : 0]);
}

/* ---- Tasks and their check ---- */

static void submit(pto_kernel kernel, uint32_t cell)
{
    pto_status s;
    while ((s = pto_submit(r->rt, kernel, pto_inout(&k->t[cell]), pto_scalar((int64_t)k->n))) ==
           PTO_WORKER_LOST) {
        recover();
    }
    world_check(s == PTO_OK);
    k->task[k->n++] = pto_last_task(r->rt);
}

/* Task `second` reads what `first` wrote. */
static void check_pair(uint32_t first, uint32_t second)
{
    world_check(!(k->failed[first] && k->failed[second]));
    world_check(k->failed[first] ? k->ran[second] == 0 : k->ran[first] == 1);
}

static void check_all(pto_status waited)
{
    pto_runtime_stats stats;
    bool any = false;
    for (uint32_t i = 0; i < k->n; i++) {
        pto_task_report report;
        world_check(pto_task_info(r->rt, k->task[i], &report) == PTO_OK);
        world_check(report.state >= PTO_TASK_COMPLETED);
        world_check((report.failed && !report.skipped) == k->failed[i]);
        world_check(k->ran[i] <= 1);
        world_check(report.failed || k->ran[i] == 1);
        world_check(!report.skipped || k->ran[i] == 0);
        any |= k->failed[i];
    }
    world_check(waited == (any ? PTO_TASK_FAILED : PTO_OK));
    world_check(pto_stats(r->rt, &stats) == PTO_OK);
    world_check(stats.completed == k->n && stats.submitted == k->n);
}

/* ---- Scenarios ---- */

static void alone_prepare(void)
{
    prepare(1, 8);
}

static void both_prepare(void)
{
    prepare(WORKERS, 8);
}

/* The killer may come at any time, also when all tasks are complete: then another one follows. */
static void finish(uint32_t killer, uint32_t cell)
{
    pto_status s = wait_all();
    world_join(killer);
    submit(k->count, cell);
    s = s ? s : wait_all();
    s = s == PTO_TASK_FAILED ? wait_all() : s;
    world_check(k->dies_now || ptoi_load_sc32(&r->rt->scheduler->lost));
    if (!k->dies_now) {
        recover(); /* all tasks are complete, and nobody had to wait */
        s = wait_all();
    }
    check_all(s);
    end_workers();
}

static void death_run(void)
{
    start_workers();
    const uint32_t killer = world_thread("killer", kill_worker, NULL);
    submit(k->count, 0);
    submit(k->count, 0);
    submit(k->count, 1);
    finish(killer, 2);
    check_pair(0, 1);
}

const scenario scenario_death_alone = {
    "death-alone", "the only worker process dies; pairs of tasks and single ones", alone_prepare,
    death_run, false};
const scenario scenario_death = {"death", "one of two worker processes dies", both_prepare,
                                 death_run, false};

/* Workers that sleep, and are woken for single tasks: also by the one that dies. */
static void wake_run(void)
{
    start_workers();
    const uint32_t killer = world_thread("killer", kill_worker, NULL);
    submit(k->count, 0);
    PTO_IGNORE(pto_wait_task(r->rt, k->task[0]));
    submit(k->count, 0);
    submit(k->count, 1);
    finish(killer, 1);
    check_pair(0, 1);
    check_pair(2, 3);
}

const scenario scenario_death_wake = {"death-wake",
                                      "the worker dies that another thread relies on to be woken",
                                      both_prepare, wake_run, false};

/* The other worker is in a kernel while the window is rebuilt, and completes its task there. */
static void pause_run(void)
{
    start_workers();
    const uint32_t killer = world_thread("killer", kill_worker, NULL);
    submit(k->own, 0);
    submit(k->count, 1);
    submit(k->count, 0);
    finish(killer, 1);
    check_pair(0, 2);
    check_pair(1, 3);
}

const scenario scenario_death_pause = {
    "death-pause", "the window is rebuilt while a kernel runs, returns and completes its task",
    both_prepare, pause_run, false};

/* ---- Pending tasks ---- */

static void complete_pending(void *context)
{
    pto_runtime *handle = context;
    pto_task task;
    while (!(task = ptoi_acquire64(&r->pending)) && !ptoi_load_sc32(&k->over)) {
        ptoi_os_yield();
    }
    if (task) {
        cells()[0] = 7; /* written by the engine */
        const pto_status s = pto_task_complete(handle, task, PTO_OK);
        world_check(s == PTO_OK || s == PTO_BAD_TASK);
    }
}

static void pending_run(pto_runtime *handle)
{
    start_workers();
    const uint32_t killer = world_thread("killer", kill_worker, NULL);
    const uint32_t other = world_thread("completes", complete_pending, handle);
    rig_submit(r->pend, pto_output(&k->t[0]), pto_output(&k->t[1]));
    k->task[k->n++] = pto_last_task(r->rt);
    submit(k->count, 0);
    pto_status s = wait_all();
    ptoi_store_sc32(&k->over, 1);
    world_join(killer);
    world_join(other);
    k->ran[0] = k->failed[0] ? 0 : 1; /* this kernel does not count */
    check_all(s);
    check_pair(0, 1);
    world_check(k->ran[1] == 0 || cells()[0] == 8);
    if (!k->dies_now) {
        recover();
    }
    end_workers();
}

static void post_run(void)
{
    pending_run(r->rt);
}

static void guest_run(void)
{
    pending_run(k->side[1]->rt);
}

const scenario scenario_death_guest = {
    "death-guest",
    "a thread of a worker process completes a pending task, and another process dies", both_prepare,
    guest_run, false};
const scenario scenario_death_post = {"death-post",
                                      "the program completes a pending task, and a worker dies",
                                      both_prepare, post_run, false};

/* ---- Attach and detach ---- */

/* Worker 0 attaches and detaches at any time. Later another one attaches in its place. */
static void visit(void *context)
{
    (void)context;
    ptoi_scheduler *s = k->side[0];
    k->thread[0] = world_thread("guest", serve, s);
    ptoi_release32(&s->leaving, 1);
    (void)ptoi_park_wake(&s->workers[0].parker);
    world_join(k->thread[0]);
}

static void detach_run(void)
{
    k->thread[1] = world_thread("worker 1", serve, k->side[1]);
    const uint32_t visitor = world_thread("visitor", visit, NULL);
    submit(k->count, 0);
    submit(k->count, 0);
    submit(k->count, 1);
    pto_status s = wait_all();
    world_join(visitor);
    k->thread[FRESH] = world_thread("next guest", serve, k->side[FRESH]);
    k->dies_now = true; /* end_workers: the one in its place */
    submit(k->count, 1);
    s = s ? s : wait_all();
    check_all(s);
    world_check(cells()[0] == 2 && cells()[1] == 2);
    end_workers();
}

const scenario scenario_detach = {"detach",
                                  "a worker process attaches, detaches, and another one attaches",
                                  both_prepare, detach_run, false};

/* Both sleep, and the one that is woken leaves. */
static void detach_wake_run(void)
{
    k->thread[1] = world_thread("worker 1", serve, k->side[1]);
    const uint32_t visitor = world_thread("visitor", visit, NULL);
    submit(k->count, 0);
    check_all(wait_all());
    world_join(visitor);
    k->workers = 1; /* end_workers: worker 1 alone */
    k->thread[0] = k->thread[1];
    end_workers();
}

const scenario scenario_detach_wake = {
    "detach-wake", "a worker process detaches when it is woken for a task, and another one sleeps",
    both_prepare, detach_wake_run, false};

/* ---- A queue ---- */

static struct {
    ptoi_queue_ends ends;
    ptoi_queue_cell cells[4];
    ptoi_queue queue;
    ptoi_a32 stop;
    uint32_t victim;
} * q;

static void queue_prepare(void)
{
    q = world_memory(sizeof *q);
    q->queue = (ptoi_queue){.ends = &q->ends, .cells = q->cells, .mask = 3, .stop = &q->stop};
    ptoi_queue_reset(&q->queue, UINT32_MAX - 1);
    world_name(&q->ends.head, 4, 1, 4, "queue.head");
    world_name(&q->ends.tail, 4, 1, 4, "queue.tail");
    world_name(&q->cells[0].sequence, sizeof(ptoi_queue_cell), 4, 4, "queue.cell[%u].sequence");
    world_name(&q->cells[0].index, sizeof(ptoi_queue_cell), 4, 4, "queue.cell[%u].task");
    world_name(&q->stop, 4, 1, 4, "stop");
}

static void queue_victim(void *context)
{
    (void)context;
    while (ptoi_queue_pop(&q->queue) == PTOI_NONE) {
        ptoi_os_yield();
    }
    ptoi_queue_push(&q->queue, 9);
}

static void queue_kill(void *context)
{
    (void)context;
    world_kill(q->victim);
    ptoi_store_sc32(&q->stop, PTOI_PAUSE);
}

/* The dead thread may hold a cell, for a pop or for a push. Nobody waits for it after PAUSE. */
static void queue_run(void)
{
    q->victim = world_thread("victim", queue_victim, NULL);
    const uint32_t killer = world_thread("killer", queue_kill, NULL);
    ptoi_queue_push(&q->queue, 1);
    for (uint32_t i = 0; i < 4; i++) {
        ptoi_queue_push(&q->queue, 2 + i);
        (void)ptoi_queue_pop(&q->queue);
    }
    world_join(killer);
    ptoi_queue_reset(&q->queue, ptoi_get32(&q->ends.tail));
    world_check(ptoi_queue_pop(&q->queue) == PTOI_NONE && !ptoi_queue_has_task(&q->queue));
    ptoi_queue_push(&q->queue, 5);
    world_check(ptoi_queue_pop(&q->queue) == 5);
}

const scenario scenario_death_queue = {
    "death-queue", "a thread dies in a pop or a push, others use the queue until it is reset",
    queue_prepare, queue_run, false};
