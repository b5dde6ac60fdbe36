/* scenario_grid.c - a device that schedules for itself (scheduler/grid.h): the orchestrator and the keeper
 * are the real ones, and the roles of the grid are threads of the world. The device never waits for idle
 * time, so the grid ends whenever it has nothing to do, and is launched again. Kernels work on plain
 * memory, and so do the copies of the mover: an order that is missing is a race. */
#include <string.h>

#include <pto/device.h>
#include <pto/gpu.h>
#include <pto/work.h>

#include "base/mutant.h"
#include "rig.h"
#include "scheduler/grid_roles.h"
#include "worker/arg.h"
#include "worker/keeper.h"

static const pto_device device = {PTO_DEVICE_QY, 0};

enum { ROLES = 4, WORKERS_MOST = 2, GPU_ARGS = 4, GPU_CELLS = 5, MANY_POLLS = 8 };

/* What a thread of the grid does. */
enum {
    MOVES = 1,
    RESOLVES = 2,
    RESOLVES_TOO = 4, /* the second lane */
    SERVES = 8,
    WRITES = 16,
    WORKS = 32,
    WORKS_TOO = 64, /* the second worker */
};

#define RESOLVERS (RESOLVES | RESOLVES_TOO)
#define WORKERS (WORKS | WORKS_TOO)

/* The threads of a grid; 0 ends them. */
typedef uint32_t duties[ROLES];

static struct gpu {
    const uint32_t *duties;
    uint32_t n_threads;
    ptoi_grid *grid;   /* published by the first launch */
    ptoi_a32 launched; /* released by the keeper, acquired by the threads of the grid */
    ptoi_a32 gone;     /* released by them as they leave, acquired by the keeper */
    ptoi_a32 over;     /* released by the program when the keeper is gone */
    bool slow;         /* kernels let others go on; set before the world begins */
    bool may_die;      /* the same */
    ptoi_a32 dead;     /* the device is lost: released by who breaks it, acquired by all others */
    pto_kernel host_twice, host_fail;
} * gpu;

/* ---- Kernels ---- */

static pto_status gpu_set(const pto_arg *args, uint32_t n)
{
    (void)n;
    *(int64_t *)args[0].data = args[1].i64;
    return PTO_OK;
}

static pto_status gpu_add(const pto_arg *args, uint32_t n)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        sum += *(const int64_t *)args[i].data;
    }
    *(int64_t *)args[n - 1].data = sum;
    return PTO_OK;
}

static pto_status gpu_twice(const pto_arg *args, uint32_t n)
{
    (void)n;
    *(int64_t *)args[0].data *= 2;
    return PTO_OK;
}

static pto_status gpu_fail(const pto_arg *args, uint32_t n)
{
    (void)args;
    (void)n;
    return PTO_TASK_FAILED;
}

static pto_status (*const functions[])(const pto_arg *args, uint32_t n) = {
    gpu_set, gpu_add, gpu_twice, gpu_fail, gpu_twice};
static const char *const names[] = {"gpu_set", "gpu_add", "gpu_twice", "gpu_fail", "gpu_cube"};

static const pto_gpu_module module = {.size = sizeof module,
                                      .version = PTO_GPU_GRID_VERSION,
                                      .n_kernels = sizeof names / sizeof *names,
                                      .kernels = names,
                                      .threads = 512};

/* ---- Roles ---- */

/* Its kernel finds arguments in the mirror. A failure is not recorded: the state alone says it. */
static ptoi_outcome call(const ptoi_grid *g, const ptoi_grid_slot *slot)
{
    const ptoi_slot_header header = ptoi_slot_header_read(slot->header);
    pto_arg args[GPU_ARGS];
    world_check(slot->n_args <= GPU_ARGS);
    ptoi_args_resolve(&g->view, g->view.level[header.level].args + slot->args, slot->n_args, args);
    const uint64_t number = g->view.codes[header.kernel].address;
    world_check(number >= 1 && number <= module.n_kernels);
    return functions[number - 1](args, slot->n_args) ? PTOI_FAILED : PTOI_DONE;
}

static ptoi_grid_found work(const ptoi_grid *g, ptoi_grid_worker *w)
{
    uint32_t index = 0;
    const ptoi_grid_found found = ptoi_grid_take(g, w, &index);
    if (found == PTOI_GRID_SOMETHING) {
        const ptoi_grid_slot slot = ptoi_grid_taken_slot(g, w, index);
        if (gpu->slow) {
            ptoi_os_yield();
        }
        ptoi_grid_complete(g, w, index, ptoi_grid_lap(&g->view, &slot),
                           ptoi_grid_may_run(g, index, &slot) ? call(g, &slot) : PTOI_SKIPPED);
    }
    return found;
}

static bool is_dead(void)
{
    return gpu->may_die && ptoi_acquire32(&gpu->dead);
}

/* One launch: a thread takes the steps of its roles in turn until all have ended. */
static void run_launch(const ptoi_grid *g, uint32_t duty)
{
    const uint32_t lane = (duty & RESOLVES_TOO) != 0;
    ptoi_mover mover;
    ptoi_grid_clerk clerk;
    if (duty & MOVES) {
        mover = g->control->mover;
    }
    if (duty & SERVES) {
        clerk = ptoi_grid_clerk_begin(g);
    }
    ptoi_grid_worker worker = ptoi_grid_worker_begin(g, (duty & WORKS_TOO) != 0,
                                                     ptoi_grid_ring_of(g, (duty & WORKS_TOO) != 0));
    uint64_t at = duty & RESOLVERS ? ptoi_grid_first(g, lane) : 0;
    for (uint32_t polls = 1; duty && !is_dead(); polls++) {
        bool found = false;
        uint32_t ended = 0;
        if (duty & MOVES) {
            found |= ptoi_grid_move(g, &mover);
            ended |= mover.phase == PTOI_GRID_OVER ? MOVES : 0;
        }
#define TAKE_STEP(which, step)                                                                     \
    if (duty & (which)) {                                                                          \
        const ptoi_grid_found it = step;                                                           \
        found |= it == PTOI_GRID_SOMETHING;                                                        \
        ended |= it == PTOI_GRID_END ? (which) : 0;                                                \
    }
        TAKE_STEP(RESOLVERS, ptoi_grid_resolve(g, lane, &at))
        TAKE_STEP(SERVES, ptoi_grid_serve(g, &clerk))
        TAKE_STEP(WRITES, ptoi_grid_write(g, 0))
        TAKE_STEP(WORKERS, work(g, &worker))
#undef TAKE_STEP
        duty &= ~ended;
        if (!found || polls % MANY_POLLS == 0) { /* the mover may have to wait for a lane */
            ptoi_os_yield();
        }
    }
}

static void run_thread(void *context)
{
    const uint32_t *duty = context;
    for (uint32_t launch = 1;; launch++) {
        for (bool over = false; ptoi_acquire32(&gpu->launched) < launch;) {
            if (over) {
                return;
            }
            ptoi_os_yield();
            over = ptoi_acquire32(&gpu->over);
        }
        run_launch(gpu->grid, *duty);
        ptoi_fetch_add32(&gpu->gone, 1);
    }
}

/* ---- The functions of the device ---- */

static pto_status alloc(void *self, uint64_t bytes, void **memory)
{
    (void)self;
    *memory = world_memory(bytes);
    return PTO_OK;
}

static void free_nothing(void *self, void *memory, uint64_t bytes)
{
    (void)self;
    (void)memory;
    (void)bytes;
}

/* Memory of the world is zero, and few pages of the mirror are used. */
static pto_status copy_in(void *self, void *to, const void *from, uint64_t bytes)
{
    uint64_t *words = to;
    const uint64_t *others = from;
    (void)self;
    for (uint64_t i = 0; i < bytes / 8; i++) {
        if (words[i] != others[i]) {
            words[i] = others[i];
        }
    }
    return PTO_OK;
}

static pto_status copy_out(void *self, void *to, const void *from, uint64_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
    return PTO_OK;
}

static pto_status copy(void *self, const pto_tensor *to, const pto_tensor *from,
                       pto_device_done done, void *context)
{
    (void)self;
    for (uint32_t i = 0; gpu->may_die && i < 500; i++) { /* it lasts until the device is lost */
        if (ptoi_acquire32(&r->rt->scheduler->keeper->shared->lost)) {
            break;
        }
        ptoi_os_yield();
    }
    *(int64_t *)to->storage = *(const int64_t *)from->storage;
    done(context, PTO_OK);
    return PTO_OK;
}

static pto_status share(void *self, void *memory, uint64_t bytes, void **there)
{
    (void)self;
    (void)bytes;
    *there = memory;
    return PTO_OK;
}

static pto_status grid_prepare(void *self, const pto_gpu_module *it, uint32_t *blocks)
{
    (void)self;
    (void)it;
    *blocks = 1 + WORKERS_MOST;
    return PTO_OK;
}

static pto_status grid_launch(void *self, const pto_gpu_module *it, const void *grid,
                              uint32_t blocks)
{
    (void)self;
    (void)it;
    (void)blocks;
    gpu->grid = (ptoi_grid *)(uintptr_t)grid;
    ptoi_release32(&gpu->launched, ptoi_get32(&gpu->launched) + 1);
    return PTO_OK;
}

static pto_status grid_ended(void *self, bool *ended)
{
    (void)self;
    *ended = ptoi_acquire32(&gpu->gone) == ptoi_get32(&gpu->launched) * gpu->n_threads;
    return is_dead() && *ended ? pto_fail(PTO_DEVICE_LOST, "the device has fallen off the bus")
                               : PTO_OK;
}

/* ---- Names ---- */

#define NAME(base, stride, count, field, text)                                                     \
    world_name(&(base)->field, stride, count, sizeof((base)->field), text)

static void name_grid(const ptoi_grid *g)
{
    ptoi_grid_control *c = g->control;
    const uint32_t cells = g->inbox_mask + 1, slots = g->view.n_slots;
    world_name(g->heads, sizeof *g->heads, g->view.levels, sizeof *g->heads, "heads[%u]");
    world_name(g->log_head, 1, 1, sizeof *g->log_head, "log_head");
    world_name(g->log, sizeof *g->log, 64, sizeof *g->log, "log[%u]");
    NAME(g->mail, 1, 1, asked, "asked");
    NAME(g->shared, 1, 1, posted, "posted");
    NAME(g->shared, 1, 1, hurry, "hurry");
    NAME(g->shared, 1, 1, launched, "shared.launched");
    NAME(g->shared, 1, 1, consumed, "consumed");
    NAME(g->shared, 1, 1, posts_taken, "shared.posts_taken");
    NAME(g->shared, 1, 1, ended, "ended");
    NAME(g->shared, 1, 1, log_taken, "log_taken");
    NAME(g->shared, 1, 1, answered, "answered");
    NAME(g->shared, 1, 1, text, "answer");
    world_name(g->host_ready, sizeof *g->host_ready, cells, sizeof *g->host_ready,
               "host_ready[%u]");
    world_name(g->posts, sizeof *g->posts, cells, sizeof *g->posts, "posts[%u]");
    NAME(c, 1, 1, moved, "moved");
    NAME(c, 1, 1, closing, "closing");
    NAME(c, 1, 1, leave, "leave");
    NAME(c, 1, 1, cancelled, "grid_cancelled");
    NAME(c, 1, 1, left, "left");
    NAME(c, 1, 1, host_tail, "host_tail");
    NAME(c, 1, 1, mover, "mover");
    NAME(c, 1, 1, posts_taken, "posts_taken");
    NAME(c, 1, 1, letter, "letter");
    NAME(&c->queue[0], 1, 1, tail, "tickets.tail");
    NAME(&c->queue[0], 1, 1, ticket, "tickets.ticket");
    NAME(&c->queue[1], 1, 1, tail, "tickets_1.tail");
    NAME(&c->queue[1], 1, 1, ticket, "tickets_1.ticket");
    world_name(g->cells[0], sizeof *g->cells[0], cells, sizeof *g->cells[0], "cell_of_ring[%u]");
    world_name(g->resolved, sizeof *g->resolved, g->n_resolvers, sizeof *g->resolved,
               "resolved[%u]");
    world_name(g->fresh, sizeof *g->fresh, cells, sizeof *g->fresh, "fresh[%u]");
    for (uint32_t i = 0; i <= g->n_workers; i++) {
        ptoi_grid_done *done = &g->done[i];
        world_name(done->cell, sizeof *done->cell, PTOI_GRID_DONE, sizeof *done->cell,
                   "done_cell[%u]");
        NAME(done, 1, 1, taken, "done.taken");
        NAME(done, 1, 1, completed, "done.completed");
    }
    const ptoi_slot *slot = g->view.slots;
    const ptoi_state *state = g->view.states;
    NAME(slot, sizeof *slot, slots, seq, "mirror.slot[%u].seq");
    NAME(slot, sizeof *slot, slots, header, "mirror.slot[%u].header");
    NAME(slot, sizeof *slot, slots, deps, "mirror.slot[%u].deps");
    NAME(slot, sizeof *slot, slots, fanin, "mirror.slot[%u].fanin");
    NAME(slot, sizeof *slot, slots, args, "mirror.slot[%u].args");
    NAME(slot, sizeof *slot, slots, n_args, "mirror.slot[%u].n_args");
    NAME(state, sizeof *state, slots, waiters, "mirror.state[%u].waiters");
    NAME(state, sizeof *state, slots, phase, "mirror.state[%u].phase");
    NAME(state, sizeof *state, slots, poisoned, "mirror.state[%u].poisoned");
    NAME(state, sizeof *state, slots, outcome, "mirror.state[%u].outcome");
    NAME(state, sizeof *state, slots, worker, "mirror.state[%u].worker");
    world_name(g->view.waits, sizeof *g->view.waits, slots, sizeof *g->view.waits,
               "mirror.wait[%u]");
    for (uint32_t l = 0; l < g->view.levels; l++) {
        const ptoi_view_level *level = &g->view.level[l];
        world_name(level->deps, sizeof *level->deps, level->n_deps, sizeof *level->deps,
                   l ? "mirror.level 1 deps[%u]" : "mirror.level 0 deps[%u]");
        world_name(level->args, sizeof *level->args, level->n_args, sizeof *level->args,
                   l ? "mirror.level 1 args[%u]" : "mirror.level 0 args[%u]");
    }
    NAME(gpu, 1, 1, launched, "launched");
    NAME(gpu, 1, 1, gone, "gone");
    NAME(gpu, 1, 1, over, "over");
    NAME(gpu, 1, 1, dead, "dead");
}

/* ---- The runtime ---- */

static pto_config gpu_config(void)
{
    pto_config c = rig_config(0, PTO_PLACE_GPU);
    c.device = device;
    c.device_heap_bytes = 4096;
    c.arg_bytes = 32 * sizeof(ptoi_arg_desc);
    c.gpu_module = &module;
    return c;
}

static void create(const pto_config *c, const duties threads)
{
    const pto_device_ops ops = {.size = sizeof ops,
                                .alloc = alloc,
                                .free = free_nothing,
                                .copy_in = copy_in,
                                .copy_out = copy_out,
                                .copy = copy,
                                .share = share,
                                .unshare = free_nothing,
                                .grid_prepare = grid_prepare,
                                .grid_launch = grid_launch,
                                .grid_ended = grid_ended};
    pto_config config = *c;
    uint32_t duty = 0;
    gpu = world_memory(sizeof *gpu);
    gpu->duties = threads;
    while (gpu->n_threads < ROLES && threads[gpu->n_threads]) {
        duty |= threads[gpu->n_threads++];
    }
    config.gpu_workers = duty & WORKS_TOO ? 2 : 1;
    world_check(pto_device_add(device, &ops) == PTO_OK);
    rig_create(&config);
    world_name_thread(1, "copies");
    world_name_thread(2, "keeper");
    pto_kernel *const kernels[] = {&r->set, &r->add, &r->twice, &r->fail, &r->cube};
    gpu->host_twice = r->twice;
    gpu->host_fail = r->fail;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        world_check(pto_gpu_kernel(r->rt, names[i], i == 4 ? PTO_CUBE : PTO_VECTOR, kernels[i]) ==
                    PTO_OK);
    }
    for (uint32_t i = 0; i < GPU_CELLS; i++) { /* the others are on the host */
        r->t[i].device = device;
    }
    ptoi_grid *g = r->rt->scheduler->keeper->there;
    g->n_resolvers = duty & RESOLVES_TOO ? 2 : 1;
    g->n_writers = 1;
    g->idle_ns = 0;
    name_grid(g);
}

/* The threads of the grid are there while `program` runs, and until the keeper has ended. */
static void with_grid(void (*program)(void))
{
    static const char *const called[ROLES] = {"grid 0", "grid 1", "grid 2", "grid 3"};
    pto_runtime *rt = r->rt;
    uint32_t threads[ROLES];
    for (uint32_t i = 0; i < gpu->n_threads; i++) {
        threads[i] = world_thread(called[i], run_thread, (void *)(uintptr_t)&gpu->duties[i]);
    }
    program();
    world_check(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    ptoi_release32(&gpu->over, 1);
    for (uint32_t i = 0; i < gpu->n_threads; i++) {
        world_join(threads[i]);
    }
}

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
    const pto_config c = gpu_config();
    create(&c, lanes);
}

static void fork_run(void)
{
    with_grid(fork_program);
}

const scenario scenario_grid = {"grid", "a fork and a join; mover, resolver and worker are threads",
                                fork_prepare, fork_run, false};

static void fork_workers_prepare(void)
{
    const pto_config c = gpu_config();
    create(&c, workers);
}

const scenario scenario_grid_workers = {"grid-workers", "a fork and a join; two workers",
                                        fork_workers_prepare, fork_run, false};

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
    pto_config c = gpu_config();
    c.levels = 2;
    c.ring_tasks = 4;
    create(&c, lanes);
}

static void levels_run(void)
{
    with_grid(levels_program);
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
    pto_config c = gpu_config();
    c.ring_tasks = 2;
    create(&c, lanes);
}

static void window_run(void)
{
    with_grid(window_program);
}

const scenario scenario_grid_window = {"grid-window", "rings of two tasks", window_prepare,
                                       window_run, false};

static void window_workers_prepare(void)
{
    pto_config c = gpu_config();
    c.ring_tasks = 2;
    create(&c, workers);
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
    with_grid(host_program);
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
    with_grid(again_program);
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
    const pto_config c = gpu_config();
    create(&c, clerks);
}

static void letter_run(void)
{
    with_grid(letter_program);
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
    pto_config c = gpu_config();
    c.levels = 2;
    c.ring_tasks = 2;
    create(&c, two_lanes);
    ((ptoi_grid *)r->rt->scheduler->keeper->there)->idle_ns =
        UINT64_MAX; /* it ends with the runtime */
}

static void lanes_run(void)
{
    with_grid(lanes_program);
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
    pto_config c = gpu_config();
    c.ring_tasks = 2;
    create(&c, threads);
    ((ptoi_grid *)r->rt->scheduler->keeper->there)->idle_ns = UINT64_MAX;
}

static void late_prepare(void)
{
    late_create(two_lanes);
}

static void late_run(void)
{
    with_grid(late_program);
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
    with_grid(layout_program);
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
    with_grid(leave_program);
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
    pto_config c = gpu_config();
    c.gpu_cube_workers = 1;
    create(&c, workers);
    gpu->slow = true;
}

static void types_run(void)
{
    with_grid(types_program);
}

const scenario scenario_grid_types = {
    "grid-types", "a worker for cube and one for vector tasks, which make each other's ready",
    types_prepare, types_run, false};

/* ---- Tasks of the host in the graph ---- */

static const duties few_threads = {MOVES | RESOLVES | SERVES | WRITES, WORKS};

static void host_tasks_prepare(void)
{
    pto_config c = gpu_config();
    c.workers = 1;
    create(&c, few_threads);
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
    with_grid(host_tasks_program);
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
    with_grid(host_fails_program);
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
    const pto_config c = gpu_config();
    create(&c, few_threads);
}

static void cancel_run(void)
{
    with_grid(cancel_program);
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
    with_grid(lost_program);
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

static pto_status thread_kernel(const pto_call *call)
{
    return functions[(uintptr_t)call->user](call->args, call->n_args);
}

static void fail_prepare(void)
{
    const pto_device_ops ops = {.size = sizeof ops,
                                .alloc = alloc,
                                .free = free_nothing,
                                .copy_in = copy_in,
                                .copy_out = copy_out,
                                .copy = copy};
    pto_config c = gpu_config();
    c.gpu_module = NULL;
    c.gpu_workers = 1;
    gpu = world_memory(sizeof *gpu);
    world_check(pto_device_add(device, &ops) == PTO_OK);
    rig_create(&c);
    const pto_kernel kernels[] = {r->set, r->add, r->twice, r->fail};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        world_check(pto_kernel_variant(r->rt, kernels[i], device.type, thread_kernel,
                                       (void *)(uintptr_t)i) == PTO_OK);
    }
    world_name_thread(1, "copies");
    world_name_thread(2, "keeper");
    for (uint32_t i = 0; i < GPU_CELLS; i++) {
        r->t[i].device = device;
    }
    name_grid(&r->rt->scheduler->keeper->grid);
}

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
                                     fail_prepare, fail_run, false};
