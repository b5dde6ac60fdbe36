/* grid.cuh - the roles of scheduler/grid.h as warps and blocks of one persistent grid on an NVIDIA GPU.
 * Device code, a part of <pto/grid.cuh>: programs compile it with their kernels (pto/cuda.cuh).
 *
 *     block      takes a ticket ──> service: each warp plays a role until the grid ends
 *                              └──> worker:  the first warp takes a task and reads its arguments
 *                                            all threads carry out its kernel
 *                                            the first thread, the leader, completes it
 *
 * What a block knows of its task is in shared memory (pto_gpu_box), so that nothing of the scheduler is
 * kept in registers while a kernel runs. So is the description of the grid: an acquire empties the first
 * level cache, and memory of the device would have to be asked for each address again.
 */
#ifndef PTOI_GRID_CUH
#define PTOI_GRID_CUH

#include "scheduler/grid_clerk.h"
#include "scheduler/grid_move.h"
#include "scheduler/grid_roles.h"
#include "scheduler/grid_write.h"

static_assert(offsetof(pto_gpu_layout, ndim) == offsetof(ptoi_desc, ndim) &&
                  offsetof(pto_gpu_layout, dtype) == offsetof(ptoi_desc, dtype) &&
                  offsetof(pto_gpu_layout, dims) == sizeof(ptoi_desc),
              "a layout is copied as it is");
static_assert(sizeof(ptoi_grid) % 8 == 0, "the grid is copied in words");

#define PTOI_ALL_LANES 0xffffffffu

/* box.state: what the block does next. */
enum { PTOI_BLOCK_RUNS, PTOI_BLOCK_SKIPS, PTOI_BLOCK_ENDS };

/* ---- What a block has in shared memory ---- */

/* Of the leader alone. */
typedef struct ptoi_leader {
    ptoi_grid_worker worker;
    uint32_t index;  /* slot of its task */
    uint32_t closed; /* the list of its task, for the second warp; PTOI_LIST_EMPTY if it did not end well */
    uint32_t waiter; /* the first task that waited for its task when the block read that; PTOI_NONE */
    uint32_t ahead;  /* what the second warp has read meanwhile: ptoi_grid_peek */
    /* of a traced run */
    ptoi_grid_mark began; /* its task; written by the last thread of the block */
    ptoi_grid_place log;
} ptoi_leader;

PTOI_INLINE ptoi_leader *ptoi_block_leader(void)
{
    __shared__ ptoi_leader leader;
    return &leader;
}

/* The description of the grid. It does not change during a launch. All threads of the block. */
PTOI_INLINE const ptoi_grid *ptoi_block_grid(const void *there)
{
    __shared__ ptoi_grid grid;
    const uint64_t *from = (const uint64_t *)there;
    for (uint32_t i = threadIdx.x; i < sizeof grid / 8; i += blockDim.x) {
        ((uint64_t *)(void *)&grid)[i] = from[i];
    }
    __syncthreads();
    return &grid;
}

/* ---- Service ---- */

/* What the mover knows is in shared memory: local memory would be asked for again after each fence. */
PTOI_INLINE void ptoi_block_moves(const ptoi_grid *g)
{
    __shared__ ptoi_mover mover;
    ptoi_grid_span span = {0, 0};
    if (PTOI_GRID_LANE == 0) {
        mover = g->control->mover;
        if (g->records) {
            span = ptoi_grid_span_begin(g->records);
        }
        mover.idle_since = mover.looked = ptoi_grid_clock(); /* the launch itself took time */
    }
    __syncwarp();
    while (mover.phase != PTOI_GRID_OVER) {
        (void)ptoi_grid_move(g, &mover); /* reads memory of the host each time: that is pause enough */
    }
    if (g->records && PTOI_GRID_LANE == 0) { /* the keeper waits for the end of the launch */
        ptoi_grid_span_end(g->records, span);
    }
}

PTOI_INLINE void ptoi_block_clerk(const ptoi_grid *g)
{
    ptoi_grid_clerk clerk = ptoi_grid_clerk_begin(g);
    while (ptoi_grid_serve(g, &clerk) != PTOI_GRID_END) {
    }
}

/* Lanes of a warp stay together. */
PTOI_INLINE void ptoi_block_resolves(const ptoi_grid *g, uint32_t lane)
{
    uint64_t at = ptoi_grid_first(g, lane);
    for (bool ended = false; !__all_sync(PTOI_ALL_LANES, ended);) {
        const ptoi_grid_found found = ptoi_grid_resolve(g, lane, &at);
        ended = found == PTOI_GRID_END;
        if (!__any_sync(PTOI_ALL_LANES, found == PTOI_GRID_SOMETHING)) {
            ptoi_relax();
        }
    }
}

PTOI_INLINE void ptoi_block_writes(const ptoi_grid *g, uint32_t lane)
{
    for (bool ended = false; !__all_sync(PTOI_ALL_LANES, ended);) {
        const ptoi_grid_found found = ended ? PTOI_GRID_END : ptoi_grid_write(g, lane);
        ended = found == PTOI_GRID_END;
        if (!__any_sync(PTOI_ALL_LANES, found == PTOI_GRID_SOMETHING)) {
            ptoi_relax();
        }
    }
}

/* The role of a warp of the service. Out of line, so that workers do not share its registers. */
PTOI_COLD void ptoi_block_serves(const ptoi_grid *g, uint32_t warp)
{
    const uint32_t lane = threadIdx.x % PTOI_WARP, resolvers = g->n_resolvers / PTOI_WARP;
    if (warp == 0) {
        ptoi_block_moves(g);
    } else if (warp == 1) {
        ptoi_block_clerk(g);
    } else if (warp < 2 + resolvers) {
        ptoi_block_resolves(g, (warp - 2) * PTOI_WARP + lane);
    } else if (warp < ptoi_grid_service_warps(g)) {
        ptoi_block_writes(g, (warp - 2 - resolvers) * PTOI_WARP + lane);
    }
}

/* ---- Arguments ---- */

/* Argument number i of a task, from its first one on. */
PTOI_INLINE const ptoi_arg_desc *ptoi_block_arg(const ptoi_arg_desc *args, uint32_t i)
{
    for (; i; i--) {
        args = ptoi_arg_next(args);
    }
    return args;
}

/* What a lane has read of the task that its block runs next: lane i has argument i, and a quarter of the first
 * 64 bytes of the layout of arguments i / 4 and 8 + i / 4. */
typedef struct ptoi_block_task {
    ptoi_grid_slot slot;
    ulonglong2 unit;  /* of argument i */
    const uint4 *from; /* the layout of argument i; NULL: it has none */
    uint4 quarter[PTO_GPU_ARGS / 8];
    uint64_t code;
    uint32_t waiter; /* ptoi_grid_first_waiter */
    bool runs;       /* its kernel is called */
    bool brief;      /* the layout of an argument follows it */
} ptoi_block_task;

/* Where this lane finds its quarter of a layout; NULL: there is none. All lanes. */
PTOI_INLINE const uint4 *ptoi_block_quarter(const uint4 *from, uint32_t first)
{
    const uint32_t lane = PTOI_GRID_LANE, i = first + lane / 4;
    const uint4 *its = (const uint4 *)__shfl_sync(PTOI_ALL_LANES, (unsigned long long)from, (int)i);
    return its ? its + lane % 4 : NULL;
}

/* Resolves the arguments of a task, if the layout of one follows it: then the others are not where their
 * numbers say. All lanes of a warp: lane i has argument i. */
PTOI_COLD void ptoi_block_find_args(const ptoi_grid *g, pto_gpu_box *box, const ptoi_arg_desc *args,
                                    uint32_t kept)
{
    const uint32_t lane = PTOI_GRID_LANE;
    const ptoi_arg_desc *arg = lane < kept ? ptoi_block_arg(args, lane) : args;
    const bool scalar = lane < kept && ptoi_arg_is_scalar(arg), tensor = lane < kept && !scalar;
    const uint4 *layout = tensor ? (const uint4 *)(const void *)ptoi_arg_layout(&g->view, arg) : NULL;
    if (scalar) {
        box->value[lane] = arg->value;
        box->layout[lane].ndim = 0;
        box->layout[lane].dtype = (pto_dtype)arg->desc;
    }
    if (tensor) {
        box->value[lane] = (uint64_t)(uintptr_t)ptoi_address(&g->view, arg->segment, arg->value);
    }
    if (tensor) { /* such a layout may be shorter than 64 bytes */
        ((uint4 *)(void *)&box->layout[lane])[0] = layout[0];
        for (int32_t k = 2; k < 2 + box->layout[lane].ndim; k++) {
            ((uint4 *)(void *)&box->layout[lane])[k] = layout[k];
        }
    }
}

/* Reads what the kernel of a task has to know. All lanes of a warp. A load takes 150 ns, so all that do not depend on
 * each other are under way at the same time: arguments, then layouts. */
PTOI_INLINE ptoi_block_task ptoi_block_fetch(const ptoi_grid *g, uint32_t index, const ptoi_grid_slot &slot)
{
    const uint32_t lane = PTOI_GRID_LANE;
    const ptoi_slot_header header = ptoi_slot_header_read(slot.header);
    const ptoi_arg_desc *args = g->view.level[header.level].args + slot.args;
    const bool mine = lane < slot.n_args && lane < PTO_GPU_ARGS;
    const uint32_t cancelled = ptoi_get32(&g->control->cancelled);
    const uint32_t poisoned = g->view.states[index].poisoned;
    ptoi_block_task t;
    t.slot = slot;
    t.code = g->view.codes[header.kernel].address;
    t.unit = mine ? ((const ulonglong2 *)(const void *)args)[lane] : make_ulonglong2(0, 0);
    t.runs = __shfl_sync(PTOI_ALL_LANES, !cancelled && !poisoned && !header.poisoned, 0);
    ptoi_arg_desc arg;
    __builtin_memcpy(&arg, &t.unit, sizeof arg);
    const bool tensor = mine && !ptoi_arg_is_scalar(&arg);
    t.brief = __any_sync(PTOI_ALL_LANES, tensor && !arg.desc);
    t.from = tensor && !t.brief ? (const uint4 *)(const void *)ptoi_desc_at(g->view.descs, arg.desc) : NULL;
#pragma unroll
    for (uint32_t k = 0; k < PTO_GPU_ARGS / 8; k++) {
        const uint4 *quarter = ptoi_block_quarter(t.from, 8 * k);
        t.quarter[k] = quarter ? *quarter : make_uint4(0, 0, 0, 0);
    }
    t.waiter = ptoi_grid_first_waiter(g, index, ptoi_grid_lap(&g->view, &slot)); /* last: it is an acquire */
    return t;
}

/* Shows the task to the block. The same lanes. */
PTOI_INLINE void ptoi_block_put(const ptoi_grid *g, pto_gpu_box *box, const ptoi_block_task &t)
{
    const uint32_t lane = PTOI_GRID_LANE, n = t.slot.n_args, kept = n < PTO_GPU_ARGS ? n : PTO_GPU_ARGS;
    const ptoi_slot_header header = ptoi_slot_header_read(t.slot.header);
    const ptoi_arg_desc *args = g->view.level[header.level].args + t.slot.args;
    if (lane == 0) {
        ptoi_block_leader()->waiter = t.waiter;
        box->task = ptoi_task_make(t.slot.seq, header.level);
        box->kernel = (uint32_t)t.code - 1;
        box->args = args;
        box->n_args = n;
        box->state = t.runs ? PTOI_BLOCK_RUNS : PTOI_BLOCK_SKIPS;
    }
    if (!t.runs) {
        return;
    }
    if (PTOI_UNLIKELY(t.brief)) {
        ptoi_block_find_args(g, box, args, kept);
        return;
    }
    ptoi_arg_desc arg;
    __builtin_memcpy(&arg, &t.unit, sizeof arg);
    if (lane < kept && t.from) {
        box->value[lane] = (uint64_t)(uintptr_t)ptoi_address(&g->view, arg.segment, arg.value);
    } else if (lane < kept) {
        box->value[lane] = arg.value;
        box->layout[lane].ndim = 0;
        box->layout[lane].dtype = (pto_dtype)arg.desc;
    }
#pragma unroll
    for (uint32_t k = 0; k < PTO_GPU_ARGS / 8; k++) {
        if (ptoi_block_quarter(t.from, 8 * k)) {
            ((uint4 *)(void *)&box->layout[8 * k + lane / 4])[lane % 4] = t.quarter[k];
        }
    }
    __syncwarp();
    if (t.from) {
        for (int32_t k = 4; k < 2 + box->layout[lane].ndim; k++) { /* more than two dims */
            ((uint4 *)(void *)&box->layout[lane])[k] = t.from[k];
        }
    }
}

/* The arguments that are not kept. */
static __device__ __noinline__ pto_gpu_found pto_gpu_find(uint32_t i)
{
    const ptoi_grid *g = (const ptoi_grid *)pto_gpu_block().grid;
    const ptoi_arg_desc *arg = ptoi_block_arg((const ptoi_arg_desc *)pto_gpu_block().args, i);
    if (ptoi_arg_is_scalar(arg)) {
        return {arg->value, NULL, (pto_dtype)arg->desc};
    }
    const ptoi_desc *layout = ptoi_arg_layout(&g->view, arg);
    return {(uint64_t)(uintptr_t)ptoi_address(&g->view, arg->segment, arg->value),
            (const pto_gpu_layout *)(const void *)layout, layout->dtype};
}

static __device__ __forceinline__ bool pto_gpu_is_cancelled()
{
    return ptoi_get32(&((const ptoi_grid *)pto_gpu_block().grid)->control->cancelled);
}

/* ---- Failures ---- */

/* Copies a text of so many words, which is filled up with zeros. */
PTOI_INLINE void ptoi_block_keep_text(ptoi_a64 *to, const char *text, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++) {
        ptoi_far_release64(&to[i], ((const uint64_t *)(const void *)text)[i]);
    }
}

PTOI_INLINE void ptoi_block_keep_label(ptoi_a64 *to, const ptoi_label *label, uint64_t order)
{
    uint64_t text[PTOI_LABEL_WORDS];
    bool its = ptoi_far_acquire64(&label->key) == order; /* pairs W15 */
    ptoi_far_fence();
    for (uint32_t i = 0; i < PTOI_LABEL_WORDS; i++) {
        text[i] = ptoi_far_acquire64(&label->text[i]);
        ptoi_far_fence();
    }
    its = its && ptoi_far_acquire64(&label->key) == order;
    for (uint32_t i = 0; i < PTOI_LABEL_WORDS; i++) {
        ptoi_far_release64(&to[i], its ? text[i] : 0);
    }
}

/* Keeps the failure of a task for the orchestrator, as ptoi_end_keep_failure does (worker/end.c). */
PTOI_COLD void ptoi_block_keep_failure(const ptoi_grid *g, uint32_t id, uint32_t index,
                                       const pto_gpu_box *box)
{
    ptoi_failed *f = &g->failures[id];
    const uint64_t order = ptoi_far_acquire64(&g->window.orders[index]) >> 1;
    const uint64_t serial = ptoi_far_get64(&f->serial), era = ptoi_far_get32(g->era);
    if (serial && ptoi_far_get64(&f->era) == era && ptoi_far_get64(&f->order) <= order) {
        return;
    }
    ptoi_far_release64(&f->serial, serial + 1); /* W14 */
    ptoi_far_release64(&f->era, era);
    ptoi_far_release64(&f->order, order);
    ptoi_far_release64(&f->task, box->task);
    ptoi_far_release64(&f->status, (uint64_t)(uint32_t)box->status);
    ptoi_far_release64(&f->header, ptoi_get64(&g->view.slots[index].header));
    ptoi_block_keep_text(f->message, box->text, sizeof box->text / 8);
    ptoi_block_keep_label(f->label, &g->window.labels[index], order);
    ptoi_far_release64(&f->serial, serial + 2); /* W14 */
}

/* ---- Workers ---- */

/* What has become of a task whose kernel has returned, or was not called. */
PTOI_INLINE ptoi_outcome ptoi_block_judge(const ptoi_grid *g, pto_gpu_box *box, ptoi_leader *l)
{
    const int status = box->status;
    if (box->state == PTOI_BLOCK_SKIPS) {
        return PTOI_SKIPPED;
    }
    if (PTOI_LIKELY(!status)) {
        return PTOI_DONE;
    }
    const bool early = status == PTO_CANCELLED && ptoi_get32(&g->control->cancelled);
    if (!early) {
        ptoi_block_keep_failure(g, l->worker.id, l->index, box);
    }
    if (!early && g->records) {
        ptoi_grid_log_failed(g->records, &l->log, l->worker.id, box->task, (uint32_t)status, box->text);
    }
    box->status = 0;
    return early ? PTOI_SKIPPED : PTOI_FAILED;
}

/* Waits for the next task. PTOI_NONE: the grid ends. */
PTOI_INLINE uint32_t ptoi_block_take(const ptoi_grid *g, ptoi_leader *l)
{
    uint32_t index;
    for (uint32_t polls = 0;; polls++) {
        const ptoi_grid_found found = ptoi_grid_take(g, &l->worker, &index);
        if (found != PTOI_GRID_NOTHING) {
            return found == PTOI_GRID_END ? PTOI_NONE : index;
        }
        if (polls >= 64) {
            ptoi_relax();
        }
    }
}

/* ---- The end of a task ----
 *
 * Two warps share it. Between the two halves the block waits at a barrier.
 *
 *     first warp     closes the list of the task ──> passes on those that waited, or knows that there is a link
 *     second warp    reads the next link         ──> shows it to the block, if the closed list is that link
 */

/* First half. All lanes of the first warp. The list that it returns is that of the first lane. */
PTOI_INLINE uint32_t ptoi_block_close(const ptoi_grid *g, pto_gpu_box *box, ptoi_leader *l, ptoi_outcome *outcome)
{
    const uint64_t task = box->task;
    const bool odd = box->status || box->state != PTOI_BLOCK_RUNS;
    uint32_t judged = PTOI_DONE, closed = PTOI_LIST_EMPTY;
    if (PTOI_UNLIKELY(odd)) {
        __syncwarp(); /* all have read the status, before the first lane clears it */
        judged = threadIdx.x == 0 ? ptoi_block_judge(g, box, l) : PTOI_DONE;
        judged = __shfl_sync(PTOI_ALL_LANES, judged, 0);
    }
    *outcome = (ptoi_outcome)judged;
    if (threadIdx.x == 0) {
        closed = ptoi_grid_close_list(g, &l->worker, l->index, ptoi_lap(&g->view, (uint32_t)task & 7, task >> 3),
                                      *outcome);
        l->closed = *outcome == PTOI_DONE ? closed : PTOI_LIST_EMPTY;
    }
    return closed;
}

/* First half. All lanes of the second warp: what the next link of a chain needs. */
PTOI_INLINE ptoi_block_task ptoi_block_ahead(const ptoi_grid *g, const pto_gpu_box *box, ptoi_leader *l)
{
    const uint64_t task = box->task;
    ptoi_grid_slot slot = {0, 0, 0, 0, 0, 0};
    uint32_t next = l->waiter; /* one that waited already: the word need not be asked for again */
    if (next == PTOI_NONE) {
        next = ptoi_grid_peek(g, l->worker.queue, l->index, ptoi_lap(&g->view, (uint32_t)task & 7, task >> 3), &slot);
    } else if (!ptoi_grid_is_link(g, l->worker.queue, next, &slot)) {
        next = PTOI_NONE;
    }
    ptoi_block_task t;
    if (next != PTOI_NONE) {
        t = ptoi_block_fetch(g, next, slot);
    }
    if (PTOI_GRID_LANE == 0) {
        l->ahead = next;
    }
    return t;
}

/* Completes the task of the block, whose kernel has ended or was not called. All threads. Returns whether the block
 * knows its next task already. In a traced run the leader records the task last, so that nobody waits for that. */
PTOI_INLINE bool ptoi_block_complete(const ptoi_grid *g, pto_gpu_box *box, ptoi_leader *l)
{
    const uint32_t warp = threadIdx.x / PTOI_WARP;
    const bool traced = g->records && threadIdx.x == 0, ran = box->state == PTOI_BLOCK_RUNS;
    const uint64_t number = box->task;
    ptoi_outcome outcome = PTOI_DONE;
    uint32_t closed = PTOI_LIST_EMPTY;
    ptoi_grid_mark ended;
    ptoi_block_task t;
    if (traced) {
        ended = ptoi_grid_now();
    }
    if (warp == 0) {
        closed = ptoi_block_close(g, box, l, &outcome);
    } else if (warp == 1) {
        t = ptoi_block_ahead(g, box, l);
    }
    __syncthreads(); /* l->closed and l->ahead */
    const uint32_t next = l->ahead;
    const bool ahead = next != PTOI_NONE && l->closed == next;
    if (warp == 1 && ahead) {
        if (PTOI_GRID_LANE == 0) {
            l->index = next;
        }
        ptoi_block_put(g, box, t);
    } else if (warp == 0 && !ahead) {
        ptoi_grid_pass_on(g, &l->worker, closed, outcome);
    }
    if (traced) {
        ptoi_grid_log_ran(g->records, &l->log, l->worker.id, number, ran, l->began, ended, outcome);
    }
    return ahead;
}

/* A worker: `kernels` has a function `run` that calls the kernel of a number. */
template <class kernels> PTOI_INLINE void ptoi_block_works(const ptoi_grid *g, uint32_t id)
{
    pto_gpu_box *box = &pto_gpu_block();
    ptoi_leader *l = ptoi_block_leader();
    if (threadIdx.x == 0) {
        l->worker = ptoi_grid_worker_begin(g, id, ptoi_grid_ring_of(g, id));
        if (g->records) {
            l->log = g->records->place[id];
        }
        l->ahead = PTOI_NONE; /* as it stays in a block of one warp */
        box->grid = g;
        box->status = 0;
    }
    for (bool ahead = false;;) { /* the block knows its task already */
        if (threadIdx.x < PTOI_WARP && !ahead) {
            uint32_t index = 0;
            if (threadIdx.x == 0) {
                index = l->index = ptoi_block_take(g, l);
                box->state = PTOI_BLOCK_ENDS;
            }
            index = __shfl_sync(PTOI_ALL_LANES, index, 0);
            __syncwarp(); /* what the leader has acquired */
            if (index != PTOI_NONE) {
                ptoi_block_put(g, box, ptoi_block_fetch(g, index, ptoi_grid_taken_slot(g, &l->worker, index)));
            }
        }
        __syncthreads();
        if (box->state == PTOI_BLOCK_ENDS) {
            if (g->records && threadIdx.x == 0) {
                ptoi_grid_log_leave(g->records, &l->log, id);
            }
            return;
        }
        if (threadIdx.x == blockDim.x - 1) {
            ptoi_grid_tell(g, id, box->task);
            if (g->records) {
                l->began = ptoi_grid_now();
            }
        }
        if (box->state == PTOI_BLOCK_RUNS) {
            kernels::run(box->kernel);
        }
        __syncthreads(); /* all that the block has written: before the leader completes the task */
        ahead = ptoi_block_complete(g, box, l);
    }
}

/* ---- A block ---- */

template <class kernels> PTOI_INLINE void ptoi_block_run(const void *grid)
{
    __shared__ uint32_t role;
    const ptoi_grid *g = ptoi_block_grid(grid);
    if (threadIdx.x == 0) {
        role = ptoi_fetch_add32(&g->control->roles, 1);
    }
    __syncthreads();
    const uint32_t service = ptoi_grid_service_blocks(g, blockDim.x);
    if (role < service) {
        ptoi_block_serves(g, role * (blockDim.x / PTOI_WARP) + threadIdx.x / PTOI_WARP);
    } else {
        ptoi_block_works<kernels>(g, role - service);
    }
}

#endif /* PTOI_GRID_CUH */
