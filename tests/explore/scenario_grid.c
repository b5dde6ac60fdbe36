/* scenario_grid.c - a device that schedules for itself (scheduler/grid.h). */
#include <pto/gpu.h>
#include <pto/work.h>

#include "grid_rig.h"

static const duties lanes = {MOVES | SERVES | WRITES, RESOLVES, WORKS};
static const duties workers = {MOVES | RESOLVES | SERVES | WRITES, WORKS, WORKS_TOO};

/* ---- A fork and a join ---- */

static void fork_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[2]));
    rig_submit(r->add, pto_input(&r->t[1]), pto_input(&r->t[2]), pto_output(&r->t[3]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[3] == 10);
}

static void fork_prepare(void)
{
    const pto_config c = grid_rig_config();
    grid_rig_create(&c, lanes);
}

static void fork_run(void)
{
    grid_rig_run(fork_program);
}

const scenario scenario_grid = {"grid", "a fork and a join; mover, resolver and worker are threads",
                                fork_prepare, fork_run, false};

static void fork_workers_prepare(void)
{
    const pto_config c = grid_rig_config();
    grid_rig_create(&c, workers);
}

const scenario scenario_grid_workers = {"grid-workers", "a fork and a join; two workers",
                                        fork_workers_prepare, fork_run, false};

/* ---- A task with more producers than a resolver looks at at a time ---- */

static void many_program(void)
{
    for (int i = 0; i < 5; i++) {
        rig_submit(r->set, pto_output(&r->t[i]), pto_scalar(1 << i));
    }
    rig_submit(r->add, pto_input(&r->t[0]), pto_input(&r->t[1]), pto_input(&r->t[2]),
               pto_input(&r->t[3]), pto_output(&r->t[4]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[4] == 15);
}

static void many_prepare(void)
{
    pto_config c = grid_rig_config();
    c.ring_tasks = 8;
    grid_rig_create(&c, lanes);
}

static void many_run(void)
{
    grid_rig_run(many_program);
}

const scenario scenario_grid_many = {"grid-many", "a task that waits for five others", many_prepare,
                                     many_run, false};

/* ---- Two levels: tasks refer to tasks of the other level ---- */

static void levels_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    PTO_BOUNDARY(r->rt) {
        rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    }
    rig_submit(r->add, pto_input(&r->t[1]), pto_output(&r->t[2]));
    PTO_BOUNDARY(r->rt) {
        rig_submit(r->add, pto_input(&r->t[2]), pto_output(&r->t[3]));
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[3] == 5);
}

static void levels_prepare(void)
{
    pto_config c = grid_rig_config();
    c.levels = 2;
    c.ring_tasks = 4;
    grid_rig_create(&c, lanes);
}

static void levels_run(void)
{
    grid_rig_run(levels_program);
}

const scenario scenario_grid_levels = {"grid-levels",
                                       "tasks of two levels that refer to each other",
                                       levels_prepare, levels_run, false};

/* ---- Rings of two tasks ---- */

static void window_program(void)
{
    for (int64_t i = 0; i < 2; i++) {
        rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5 + i));
        rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
        rig_submit(r->twice, pto_inout(&r->t[1]));
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[1] == 12);
}

static void window_prepare(void)
{
    pto_config c = grid_rig_config();
    c.ring_tasks = 2;
    grid_rig_create(&c, lanes);
}

static void window_run(void)
{
    grid_rig_run(window_program);
}

const scenario scenario_grid_window = {"grid-window", "rings of two tasks", window_prepare,
                                       window_run, false};

static void window_workers_prepare(void)
{
    pto_config c = grid_rig_config();
    c.ring_tasks = 2;
    grid_rig_create(&c, workers);
}

const scenario scenario_grid_window_workers = {"grid-window-workers",
                                               "rings of two tasks, and two workers",
                                               window_workers_prepare, window_run, false};

/* ---- Copies: the grid finds them ready, and the keeper passes them on ---- */

static void host_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    world_check(pto_copy(r->rt, &r->t[5], &r->t[0]) == PTO_OK);
    world_check(pto_copy(r->rt, &r->t[1], &r->t[5]) == PTO_OK);
    rig_submit(r->twice, pto_inout(&r->t[1]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[5] == 5 && r->cell[1] == 10);
}

static void host_run(void)
{
    grid_rig_run(host_program);
}

const scenario scenario_grid_host = {"grid-host", "copies to the host and back between two tasks",
                                     fork_prepare, host_run, false};

/* ---- The grid ends while there is a new task ---- */

static void again_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    world_check(pto_wait(r->rt) == PTO_OK);
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->twice, pto_inout(&r->t[1]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[1] == 10);
}

static void again_run(void)
{
    grid_rig_run(again_program);
}

const scenario scenario_grid_again = {"grid-again", "the grid ends while tasks are submitted",
                                      fork_prepare, again_run, false};

/* ---- A letter; the grid may end before it, or answer it as its last ---- */

static void letter_program(void)
{
    int64_t value = 0;
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    world_check(pto_read(r->rt, &r->t[0], &value, sizeof value) == PTO_OK && value == 5);
    rig_submit(r->twice, pto_inout(&r->t[0]));
    world_check(pto_read(r->rt, &r->t[0], &value, sizeof value) == PTO_OK && value == 10);
}

static const duties clerks = {MOVES | RESOLVES | WRITES, SERVES, WORKS};

static void letter_prepare(void)
{
    const pto_config c = grid_rig_config();
    grid_rig_create(&c, clerks);
}

static void letter_run(void)
{
    grid_rig_run(letter_program);
}

const scenario scenario_grid_letter = {"grid-letter", "reads by letter while the grid ends",
                                       letter_prepare, letter_run, false};

/* ---- Two lanes of resolvers: one may be slow while the other level goes on ---- */

static const duties two_lanes = {MOVES | SERVES | WRITES | WORKS, RESOLVES, RESOLVES_TOO};

/* Waits without a nap, so that a thread of the grid may be slow all the time. */
static void spin_until_complete(uint32_t level, uint64_t seq)
{
    const ptoi_view *view = &r->rt->view;
    while (!ptoi_list_closed(ptoi_acquire64(&ptoi_state_of(view, level, seq)->waiters),
                             ptoi_lap(view, level, seq))) {
        ptoi_relax();
    }
}

/* Lane 0 gets the tasks of the outer level, and lane 1 those of the inner one. So the outer level may stand
 * still while the inner one goes on. The last task is again lane 0's. */
static void lanes_program(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        rig_submit(r->set, pto_output(&r->t[i]), pto_scalar(5 + i));
        PTO_BOUNDARY(r->rt) {
            rig_submit(r->set, pto_output(&r->t[2 + i]), pto_scalar(7 + i));
            spin_until_complete(1, r->rt->view.first + i);
            if (i) {
                rig_submit(r->set, pto_output(&r->t[4]), pto_scalar(9));
            }
        }
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    for (uint32_t i = 0; i < 5; i++) {
        world_check(r->cell[i] == 5 + i);
    }
}

static void lanes_prepare(void)
{
    pto_config c = grid_rig_config();
    c.levels = 2;
    c.ring_tasks = 2;
    grid_rig_create(&c, two_lanes);
    grid_rig_grid()->few = 0;              /* lanes have all tasks */
    grid_rig_grid()->idle_ns = UINT64_MAX; /* it ends with the runtime */
}

static void lanes_run(void)
{
    grid_rig_run(lanes_program);
}

const scenario scenario_grid_lanes = {"grid-lanes", "two lanes that resolve, and two levels",
                                      lanes_prepare, lanes_run, false};

/* ---- The slot of a producer has its next task when a lane resolves a consumer ---- */

static void late_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1])); /* by the second lane */
    spin_until_complete(0, r->rt->view.first);
    rig_submit(r->set, pto_output(&r->t[2]), pto_scalar(6)); /* the slot of the first task */
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[1] == 5 && r->cell[2] == 6);
}

static void late_create(const duties threads)
{
    pto_config c = grid_rig_config();
    c.ring_tasks = 2;
    grid_rig_create(&c, threads);
    grid_rig_grid()->few = 0;
    grid_rig_grid()->idle_ns = UINT64_MAX;
}

static void late_prepare(void)
{
    late_create(two_lanes);
}

static void late_run(void)
{
    grid_rig_run(late_program);
}

const scenario scenario_grid_late = {"grid-late", "a producer whose slot has its next task already",
                                     late_prepare, late_run, false};

static void reuse_prepare(void)
{
    late_create(workers);
}

const scenario scenario_grid_reuse = {"grid-reuse",
                                      "the next task of a slot completes on the other worker",
                                      reuse_prepare, late_run, false};

/* ---- A task brings a new layout ---- */

static void layout_program(void)
{
    pto_tensor square = r->t[1];
    square.ndim = 2;
    square.shape[1] = square.strides[1] = 1;
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->set, pto_output(&square), pto_scalar(6));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 5 && r->cell[1] == 6);
}

static void layout_run(void)
{
    grid_rig_run(layout_program);
}

const scenario scenario_grid_layout = {"grid-layout", "a new layout while the grid is there",
                                       fork_prepare, layout_run, false};

/* ---- The grid ends; a worker makes two tasks ready while the other one waits ---- */

static void leave_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[2]));
    rig_submit(r->add, pto_input(&r->t[1]), pto_output(&r->t[3]));
    rig_submit(r->add, pto_input(&r->t[1]), pto_output(&r->t[4]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[2] == 5 && r->cell[3] == 5 && r->cell[4] == 5);
}

static void leave_run(void)
{
    grid_rig_run(leave_program);
}

const scenario scenario_grid_leave = {"grid-leave", "workers leave while one makes tasks ready",
                                      fork_workers_prepare, leave_run, false};

/* ---- Workers for cube tasks and for vector tasks: each makes tasks of the other ready ---- */

static void types_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->cube, pto_inout(&r->t[0]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[1] == 10);
}

static void types_prepare(void)
{
    pto_config c = grid_rig_config();
    c.gpu_cube_workers = 1;
    grid_rig_create(&c, workers);
    gpu->slow = true;
}

static void types_run(void)
{
    grid_rig_run(types_program);
}

const scenario scenario_grid_types = {
    "grid-types", "a worker for cube and one for vector tasks, which make each other's ready",
    types_prepare, types_run, false};

/* ---- Tasks of the host in the graph ---- */

static const duties few_threads = {MOVES | RESOLVES | SERVES | WRITES, WORKS};

static void host_tasks_prepare(void)
{
    pto_config c = grid_rig_config();
    c.workers = 1;
    grid_rig_create(&c, few_threads);
    world_name_thread(1, "worker");
    world_name_thread(2, "copies");
    world_name_thread(3, "keeper");
}

static void host_tasks_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    world_check(pto_copy(r->rt, &r->t[5], &r->t[0]) == PTO_OK);
    rig_submit(gpu->host_twice, pto_inout(&r->t[5]));
    world_check(pto_copy(r->rt, &r->t[1], &r->t[5]) == PTO_OK);
    rig_submit(r->twice, pto_inout(&r->t[1]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[5] == 10 && r->cell[1] == 20);
}

static void host_tasks_run(void)
{
    grid_rig_run(host_tasks_program);
}

const scenario scenario_grid_host_tasks = {
    "grid-host-tasks", "a task of the host between two of the device, with copies",
    host_tasks_prepare, host_tasks_run, false};

/* A failure on one side: what depends on it is skipped on the other one. */
static void host_fails_program(void)
{
    r->cell[5] = r->cell[1] = 3;
    rig_submit(r->fail, pto_inout(&r->t[0]));
    world_check(pto_copy(r->rt, &r->t[5], &r->t[0]) == PTO_OK);
    rig_submit(gpu->host_fail, pto_inout(&r->t[6]));
    world_check(pto_copy(r->rt, &r->t[1], &r->t[6]) == PTO_OK);
    rig_submit(r->twice, pto_inout(&r->t[1]));
    world_check(pto_wait(r->rt) == PTO_TASK_FAILED);
    world_check(r->cell[5] == 3 && r->cell[1] == 3);
    world_check(pto_clear_error(r->rt) == PTO_OK);
}

static void host_fails_run(void)
{
    grid_rig_run(host_fails_program);
}

const scenario scenario_grid_host_fails = {
    "grid-host-fails",
    "a task of the device fails, and one of the host; copies of both are skipped",
    host_tasks_prepare, host_fails_run, false};

/* ---- Cancel ---- */

static void cancels(void *context)
{
    pto_cancel(context);
}

/* The tasks that ran are a prefix of the program, and the runtime works afterwards. */
static void cancel_program(void)
{
    uint32_t submitted = 0;
    const uint32_t thread = world_thread("cancels", cancels, r->rt);
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
    world_join(thread);
    world_check(pto_clear_error(r->rt) == PTO_OK);
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(8));
    world_check(pto_wait(r->rt) == PTO_OK && r->cell[0] == 8);
}

static void cancel_prepare(void)
{
    const pto_config c = grid_rig_config();
    grid_rig_create(&c, few_threads);
}

static void cancel_run(void)
{
    grid_rig_run(cancel_program);
}

const scenario scenario_grid_cancel = {"grid-cancel",
                                       "another thread cancels while the grid has tasks",
                                       cancel_prepare, cancel_run, false};

/* ---- The device is lost while the host makes a copy ---- */

static void breaks(void *context)
{
    (void)context;
    ptoi_release32(&gpu->dead, 1);
}

/* Every task ends, and none uses memory when the wait has returned. */
static void lost_program(void)
{
    const uint32_t thread = world_thread("breaks it", breaks, NULL);
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    world_check(pto_copy(r->rt, &r->t[5], &r->t[0]) == PTO_OK);
    rig_submit(r->twice, pto_inout(&r->t[0]));
    pto_status s = pto_wait(r->rt);
    world_check(s == PTO_OK || s == PTO_TASK_FAILED);
    world_check(s != PTO_OK || (r->cell[0] == 10 && r->cell[5] == 5));
    r->cell[0] = r->cell[5] = 0; /* a race, if one still runs */
    world_join(thread);
    world_check(pto_clear_error(r->rt) == PTO_OK);
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(8));
    world_check(pto_wait(r->rt) == PTO_TASK_FAILED);
    world_check(pto_clear_error(r->rt) == PTO_OK);
    world_check(pto_stats(r->rt, &r->stats) == PTO_OK);
    world_check(r->stats.submitted == 4);
}

static void lost_run(void)
{
    grid_rig_run(lost_program);
}

static void lost_prepare(void)
{
    cancel_prepare();
    gpu->may_die = true;
}

const scenario scenario_grid_lost = {"grid-lost",
                                     "the device is lost while it has tasks, and the host a copy",
                                     lost_prepare, lost_run, false};

/* ---- A grid of threads (worker/grid.c): a failure, what it poisons, and what it does not ---- */

static void fail_run(void)
{
    pto_runtime *rt = r->rt;
    int64_t value = 0;
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->fail, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->add, pto_input(&r->t[1]), pto_output(&r->t[2]));
    rig_submit(r->twice, pto_inout(&r->t[0]));
    world_check(pto_read(rt, &r->t[2], &value, sizeof value) == PTO_POISONED);
    world_check(pto_wait(rt) == PTO_TASK_FAILED);
    world_check(r->cell[0] == 10 && r->cell[2] == 0);
    world_check(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
}

const scenario scenario_grid_fail = {"grid-fail",
                                     "a grid of threads; a task fails, and poisons another",
                                     grid_rig_create_threads, fail_run, false};
