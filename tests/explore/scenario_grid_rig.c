/* scenario_grid_rig.c - what the scenarios over a device that schedules for itself share. */
#include <string.h>

#include <pto/device.h>
#include <pto/gpu.h>

#include "grid_rig.h"
#include "scheduler/grid_clerk.h"
#include "scheduler/grid_move.h"
#include "scheduler/grid_roles.h"
#include "scheduler/grid_write.h"
#include "worker/arg.h"
#include "worker/keeper.h"

static const pto_device device = {PTO_DEVICE_QY, 0};

enum { WORKERS_MOST = 2, GPU_ARGS = 5, MANY_POLLS = 8 };

grid_rig *gpu;

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
        ptoi_grid_tell(g, w->id,
                       ptoi_task_make(slot.seq, ptoi_slot_header_read(slot.header).level));
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

ptoi_grid *grid_rig_grid(void)
{
    return r->rt->scheduler->keeper->there;
}

pto_config grid_rig_config(void)
{
    pto_config c = rig_config(0, PTO_PLACE_GPU);
    c.device = device;
    c.device_heap_bytes = 4096;
    c.arg_bytes = 32 * sizeof(ptoi_arg_desc);
    c.gpu_module = &module;
    return c;
}

void grid_rig_create(const pto_config *c, const duties threads)
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
    while (gpu->n_threads < GRID_ROLES && threads[gpu->n_threads]) {
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
    for (uint32_t i = 0; i < GRID_CELLS; i++) { /* the others are on the host */
        r->t[i].device = device;
    }
    ptoi_grid *g = grid_rig_grid();
    g->n_resolvers = duty & RESOLVES_TOO ? 2 : 1;
    g->n_writers = 1;
    g->idle_ns = 0;
    name_grid(g);
}

void grid_rig_run(void (*program)(void))
{
    static const char *const called[GRID_ROLES] = {"grid 0", "grid 1", "grid 2", "grid 3"};
    pto_runtime *rt = r->rt;
    uint32_t threads[GRID_ROLES];
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

/* ---- A grid of threads ---- */

static pto_status thread_kernel(const pto_call *call)
{
    return functions[(uintptr_t)call->user](call->args, call->n_args);
}

void grid_rig_create_threads(void)
{
    const pto_device_ops ops = {.size = sizeof ops,
                                .alloc = alloc,
                                .free = free_nothing,
                                .copy_in = copy_in,
                                .copy_out = copy_out,
                                .copy = copy};
    pto_config c = grid_rig_config();
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
    for (uint32_t i = 0; i < GRID_CELLS; i++) {
        r->t[i].device = device;
    }
    name_grid(&r->rt->scheduler->keeper->grid);
}
