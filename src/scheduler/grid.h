/* grid.h - the scheduler's side on a device that schedules for itself (place gpu).
 *
 * The orchestrator is as ever. The window stays in memory of the host, which the device can address but
 * only over a bus: a read takes a microsecond. So the device has a mirror of what it reads, and keeps
 * states and lists of waiters in its own memory. The step is that of step.h, on the mirror.
 *
 *     memory of the host     │ memory of the device
 *                            │
 *     slots, edges, args ──mover──> mirror ──resolver──┬──> ready ring ──> worker ──> complete ─┐
 *     layouts              D1│      D2                 │         D3      runs kernels    D4     │
 *     states <────────────writer<──────────────────────┼────────────────────────────────────────┘
 *                          W2│                         │
 *     host_ready <───────────┼──D5─────────────────────┘   tasks of the host and of engines
 *     posts ─────────────────┼──D6──> clerk ──> complete   ... which the keeper posts when they have run
 *
 * Roles are threads: warps and blocks of one persistent grid on an NVIDIA GPU, threads of the process for
 * a simulated device (worker/grid.c), and threads of a world in the explorer. All from this source: each
 * function is one step of a role, and never blocks. Those of the mover and the clerk are carried out by
 * all lanes of a warp (PTOI_LANES, 1 in C).
 *
 * The edges, in addition to those of window.h. The store is named first.
 *
 *   D1  heads[l], log_head   released by submit after everything of the task is written; acquired by the
 *                            mover. A word for each level, so each is consistent in itself.
 *   D2  control.moved        released by the mover after the mirror of these tasks, and of all tasks that
 *                            they may refer to, is written; acquired by resolvers.
 *       resolved             released by a lane after it has read which tasks it got; acquired by the mover
 *                            before it writes over that. Lanes take turns, so one may be slow while tasks
 *                            of another level come and go.
 *   D3  cell of the ready    released by the thread that found the task ready; acquired by the worker that
 *       ring                 holds its ticket. The worker marks it as free, and the thread that pushes
 *                            one lap later waits for that; relaxed, since the cell is all that they share.
 *   D4  done cell            stored by a worker after it has closed the task in the mirror. What it
 *                            publishes was written before that (ptoi_follow): all of the task but
 *                            state.waiters. Acquired by the writer, which then releases state.waiters in
 *                            the window.
 *       done.taken           released by the writer; acquired by the worker before it uses the cell again.
 *   D5  host_ready cell      released by the thread that found the task ready; acquired by the keeper.
 *   D6  posted               released by the keeper after the post; acquired by the clerk.
 *   D7  closing, left,       the end of the grid: see ptoi_grid_close.
 *       leave
 *   D8  ended                released by the mover as its last store; acquired by the keeper, which may
 *                            launch the grid again.
 *   D9  mail.asked           released by the orchestrating thread after the letter; acquired by the clerk.
 *       answered             released by the clerk after the bytes; acquired by the orchestrating thread.
 *
 * Which tasks the mover may release (D2): a task may refer to tasks of other levels, and words of several
 * levels are not read at one instant. Let `before`, `known` and `next` be three readings of the heads, each
 * complete before the following begins. Every task that a task in `known` refers to was published before
 * `next` was read, so it is in `next`. So
 *
 *     the mirror has all tasks of `known`   ==>   the tasks of `before` may be released
 *     and if next = known, there was nothing else in between: those of `known` may be released, too.
 */
#ifndef PTOI_GRID_H
#define PTOI_GRID_H

#include "scheduler/step.h"
#include "window/arg_desc.h"
#include "window/line.h"
#include "window/mirror.h"

#ifdef __CUDA_ARCH__
#define PTOI_GRID_LANES 32u
#define PTOI_GRID_LANE (threadIdx.x % 32u)
#define PTOI_GRID_SYNC() __syncwarp()
#define PTOI_GRID_OF(value, lane) __shfl_sync(0xffffffffu, value, lane) /* what that lane has */
#define PTOI_GRID_FIRST(value) PTOI_GRID_OF(value, 0)

/* The least value of all lanes. */
PTOI_INLINE uint64_t ptoi_grid_least(uint64_t value)
{
    for (uint32_t apart = 16; apart; apart /= 2) {
        const uint64_t other = __shfl_xor_sync(0xffffffffu, value, apart);
        value = other < value ? other : value;
    }
    return value;
}
#else
#define PTOI_GRID_LANES 1u
#define PTOI_GRID_LANE 0u
#define PTOI_GRID_SYNC() ((void)0)
#define PTOI_GRID_FIRST(value) (value)
#define ptoi_grid_least(value) (value)
#endif

#ifdef __CUDA_ARCH__
PTOI_INLINE uint64_t ptoi_grid_clock(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

PTOI_INLINE void ptoi_grid_pause(void)
{
    ptoi_relax();
}
#else
#include "base/os.h"

/* The clocks of device and host differ. So do those of a simulated device: tests notice who confuses them. */
#define PTOI_GRID_CLOCK_AHEAD UINT64_C(3600000000000)

static inline uint64_t ptoi_grid_clock(void)
{
    return ptoi_os_clock() + PTOI_GRID_CLOCK_AHEAD;
}

static inline void ptoi_grid_pause(void)
{
    ptoi_os_yield();
}
#endif

#include "scheduler/grid_log.h"

#define PTOI_GRID_QUEUES 2u /* ready rings: for worker types that have blocks of their own */
#define PTOI_GRID_DONE 64u  /* cells of the ring of completions that each worker has */
#define PTOI_GRID_BATCH 4u  /* completions that a writer shows at a time */

/* ---- Memory of the device ---- */

/* A ring of ready tasks. A worker that has nothing to do takes a ticket and waits for the cell of that
 * number. A cell is free for push number n if its number is n, and has a task for ticket n if it is
 * n + 1. So `ticket - tail` workers wait if it is positive. */
typedef struct ptoi_grid_queue {
    _Alignas(PTOI_LINE) ptoi_a32 tail; /* pushes */
    _Alignas(PTOI_LINE) ptoi_a32 ticket;
} ptoi_grid_queue;

/* Tasks that a worker has completed, on their way to the writer. Cells carry the number of the
 * completion, plus one. */
typedef struct ptoi_grid_done {
    _Alignas(PTOI_LINE) ptoi_a64 cell[PTOI_GRID_DONE]; /* D4 */
    _Alignas(PTOI_LINE) ptoi_a32 taken;                /* D4: by the writer */
    uint64_t completed, failed, skipped; /* of the writer: what it has counted in the window */
} ptoi_grid_done;

/* A reading of the heads. */
typedef struct ptoi_heads {
    uint64_t level[PTOI_MAX_LEVELS];
    uint64_t log;
} ptoi_heads;

/* What the mover knows. It is kept from launch to launch. */
typedef struct ptoi_mover {
    ptoi_heads mirrored;                /* the mirror has all tasks of this reading */
    ptoi_heads known;                   /* the reading after it */
    uint64_t released[PTOI_MAX_LEVELS]; /* heads of what was released */
    uint64_t seq[PTOI_MAX_LEVELS];      /* next task to mirror */
    uint64_t moved;                     /* tasks released, on all levels */
    uint64_t room;                      /* in `fresh`: up to this task */
    uint32_t deps_at[PTOI_MAX_LEVELS];  /* where the rings go on */
    uint32_t args_at[PTOI_MAX_LEVELS];
    uint64_t idle_since; /* clock of the device */
    uint64_t looked;     /* when it last looked whether workers wait */
    uint32_t phase;      /* ptoi_grid_phase */
} ptoi_mover;

typedef enum ptoi_grid_phase {
    PTOI_GRID_RUNS,
    PTOI_GRID_CLOSES, /* nothing is released any more; resolvers and clerk end */
    PTOI_GRID_LEAVES, /* workers and writers end */
    PTOI_GRID_OVER,
} ptoi_grid_phase;

typedef struct ptoi_grid_control {
    _Alignas(PTOI_LINE) ptoi_a64 moved;   /* D2: tasks released to resolvers */
    _Alignas(PTOI_LINE) ptoi_a32 closing; /* D7 */
    ptoi_a32 leave;                       /* D7 */
    ptoi_a32 cancelled;                   /* the runtime was cancelled; relaxed */
    _Alignas(PTOI_LINE) ptoi_a32 left;    /* D7: lanes and workers that have ended */
    _Alignas(PTOI_LINE) ptoi_a32 roles;   /* given out to blocks */
    _Alignas(
        PTOI_LINE) ptoi_a32 host_tail; /* cells of host_ready that are written, or about to be */
    ptoi_grid_queue queue[PTOI_GRID_QUEUES];
    ptoi_mover mover;
    uint32_t posts_taken; /* of the clerk */
    uint32_t letter;      /* of the clerk: the last one that it has answered */
    uint32_t asked_time;  /* the same for questions about the time */
} ptoi_grid_control;

/* All that the roles need to know. It does not change during a launch. Addresses are those of the
 * device. */
typedef struct ptoi_grid {
    ptoi_view view;            /* the mirror; base[] is where kernels find segments */
    ptoi_view window;          /* the window */
    const ptoi_a64 *heads;     /* D1: one for each level */
    const ptoi_a64 *log_head;  /* D1 */
    const uint32_t *log;       /* entries */
    const ptoi_mail *mail;     /* D9 */
    const ptoi_a32 *cancel[2]; /* of either side: the era that was cancelled */
    const ptoi_a32 *era;
    ptoi_grid_shared *shared;
    ptoi_a64 *host_ready;  /* D5 */
    const uint64_t *posts; /* as many as host_ready has */
    ptoi_grid_control *control;
    ptoi_a64 *cells[PTOI_GRID_QUEUES]; /* D3 */
    ptoi_grid_done *done;              /* one for each worker, and one for the clerk */
    uint32_t *fresh;         /* slots of the tasks in the order in which they were released */
    ptoi_a64 *resolved;      /* D2: of each lane, its next task */
    ptoi_worker_line *lines; /* of its workers, in the window */
    ptoi_failed *failures;   /* the same */
    ptoi_grid_log *records;  /* of a traced run; NULL: there is none */
    uint32_t inbox_mask;     /* of fresh, host_ready, posts and cells */
    uint32_t n_workers;
    uint32_t workers_of[PTOI_GRID_QUEUES]; /* that take tickets there */
    uint32_t n_resolvers;                  /* lanes */
    uint32_t n_writers;                    /* lanes */
    uint32_t device;                       /* its number, in lanes of tasks */
    uint32_t first_line;                   /* number of the line of its first worker */
    uint32_t queue_of[4];                  /* by worker type */
    uint64_t idle_ns;                      /* it ends when there was nothing to do for so long */
} ptoi_grid;

/* ---- The mover: copies ---- */

/* Copies pairs of words that lie at a multiple of 16. All lanes. Several reads are under way at a time,
 * since each takes a microsecond. */
PTOI_INLINE void ptoi_grid_copy_pairs(uint64_t *mirror, const uint64_t *from, uint64_t pairs)
{
#ifdef __CUDA_ARCH__
    enum { AHEAD = 8 };
    for (uint64_t i = PTOI_GRID_LANE; i < pairs; i += PTOI_GRID_LANES * AHEAD) {
        ulonglong2 pair[AHEAD];
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint64_t at = i + k * PTOI_GRID_LANES;
            if (at < pairs) {
                pair[k] = ptoi_far_pair(from + 2 * at);
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint64_t at = i + k * PTOI_GRID_LANES;
            if (at < pairs) {
                ((ulonglong2 *)mirror)[at] = pair[k];
            }
        }
    }
#else
    for (uint64_t i = 0; i < 2 * pairs; i++) {
        mirror[i] = from[i];
    }
#endif
}

/* How many units of a ring of `size` units there are to copy, from unit *at on. If the ring has started
 * over, that is 0. */
PTOI_INLINE uint32_t ptoi_grid_ring_units(uint64_t from, uint64_t to, ptoi_head_part part,
                                          uint32_t *at, uint32_t size)
{
    uint32_t units = ptoi_head_distance(from, to, part);
    if ((from ^ to) & PTOI_HEAD_TURN(part)) {
        units -= size - *at;
        *at = 0;
    }
    return units;
}

/* Copies `units` of a ring of `size` units of 16 bytes, from unit *at on. */
PTOI_INLINE void ptoi_grid_copy_ring(uint64_t *mirror, const uint64_t *ring, uint32_t *at,
                                     uint32_t units, uint32_t size)
{
    const uint32_t end = (uint32_t)(((uint64_t)*at + units) % size);
    if (*at + units > size) {
        ptoi_grid_copy_pairs(mirror + 2 * (uint64_t)*at, ring + 2 * (uint64_t)*at, size - *at);
        ptoi_grid_copy_pairs(mirror, ring, end);
    } else {
        ptoi_grid_copy_pairs(mirror + 2 * (uint64_t)*at, ring + 2 * (uint64_t)*at, units);
    }
    *at = end;
}

/* The same for references, of 8 bytes. A device copies whole pairs, of which the first and the last word may
 * be of others: such a word is not used, or the mirror has it already, so a copy of it does no harm. In C
 * that would be a race. */
PTOI_INLINE void ptoi_grid_copy_refs(uint64_t *mirror, const uint64_t *ring, uint32_t *at,
                                     uint32_t refs, uint32_t size)
{
    const uint32_t end = *at + refs;
#ifdef __CUDA_ARCH__
    uint32_t pair = *at / 2;
    ptoi_grid_copy_ring(mirror, ring, &pair, (end + 1) / 2 - *at / 2, (size + 1) / 2);
#else
    for (uint32_t i = *at; i != end; i++) {
        mirror[i % size] = ring[i % size];
    }
#endif
    *at = end % size;
}

/* A slot of the window on its way to the mirror, without its number. */
typedef struct ptoi_grid_slot {
    uint64_t header;
    uint32_t deps, fanin, args, n_args;
} ptoi_grid_slot;

PTOI_INLINE ptoi_grid_slot ptoi_grid_read_slot(const ptoi_slot *from)
{
    ptoi_grid_slot slot;
#ifdef __CUDA_ARCH__
    const uint64_t *words = (const uint64_t *)(const void *)from;
    const ulonglong2 first = ptoi_far_pair(words), second = ptoi_far_pair(words + 2);
    slot.header = first.y;
    slot.deps = (uint32_t)second.x;
    slot.fanin = (uint32_t)(second.x >> 32);
    slot.args = (uint32_t)second.y;
    slot.n_args = (uint32_t)(second.y >> 32);
#else
    slot.header = ptoi_get64(&from->header);
    slot.deps = from->deps;
    slot.fanin = from->fanin;
    slot.args = from->args;
    slot.n_args = from->n_args;
#endif
    return slot;
}

/* Copies `n` slots from number `seq` on, without the numbers: who has a reference to the task of an
 * earlier lap may read those at any time. ptoi_grid_number_slots stores them when the slots are whole. */
PTOI_INLINE void ptoi_grid_copy_slots(const ptoi_grid *g, uint32_t level, uint64_t seq, uint32_t n)
{
    enum { AHEAD = PTOI_GRID_LANES > 1 ? 4 : 1 };
    for (uint32_t i = PTOI_GRID_LANE; i < n; i += PTOI_GRID_LANES * AHEAD) {
        ptoi_grid_slot slot[AHEAD];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t at = i + k * PTOI_GRID_LANES;
            if (at < n) {
                slot[k] = ptoi_grid_read_slot(ptoi_slot_of(&g->window, level, seq + at));
            }
        }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t at = i + k * PTOI_GRID_LANES;
            if (at < n) {
                ptoi_slot *mine = ptoi_slot_of(&g->view, level, seq + at);
                ptoi_set64(&mine->header, slot[k].header);
                mine->deps = slot[k].deps;
                mine->fanin = slot[k].fanin;
                mine->args = slot[k].args;
                mine->n_args = slot[k].n_args;
            }
        }
    }
}

/* After ptoi_far_fence, on a device. */
PTOI_INLINE void ptoi_grid_number_slots(const ptoi_grid *g, uint32_t level, uint64_t seq,
                                        uint32_t n)
{
    for (uint32_t i = PTOI_GRID_LANE; i < n; i += PTOI_GRID_LANES) {
        ptoi_follow64(&ptoi_slot_of(&g->view, level, seq + i)->seq, seq + i); /* W4 */
    }
}

#ifdef __CUDA_ARCH__
/* Copies all of a few tasks of a level. Everything is under way at the same time, so it takes one trip over
 * the bus and not three. Returns false, and has done nothing, if they are too many or a ring wraps. */
PTOI_INLINE bool ptoi_grid_copy_few(const ptoi_grid *g, ptoi_mover *m, uint32_t level,
                                    uint32_t refs, uint32_t units, uint32_t slots)
{
    enum { PAIRS = 2, UNITS = 8, SLOTS = 2 }; /* for each lane */
    const ptoi_view_level *their = &g->window.level[level], *mine = &g->view.level[level];
    const uint32_t deps_at = m->deps_at[level], args_at = m->args_at[level];
    const uint32_t first = deps_at / 2, pairs = (deps_at + refs + 1) / 2 - first;
    const uint64_t seq = m->seq[level];
    if (pairs > PAIRS * PTOI_GRID_LANES || units > UNITS * PTOI_GRID_LANES ||
        slots > SLOTS * PTOI_GRID_LANES || deps_at + refs >= their->n_deps ||
        args_at + units >= their->n_args) {
        return false;
    }
    ulonglong2 pair[PAIRS], unit[UNITS], head[SLOTS], tail[SLOTS];
    const uint64_t *args = (const uint64_t *)(const void *)(their->args + args_at);
#pragma unroll
    for (uint32_t k = 0; k < SLOTS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < slots) {
            const uint64_t *words = (const uint64_t *)(const void *)ptoi_slot_of(&g->window, level,
                                                                                 seq + i);
            head[k] = ptoi_far_pair(words);
            tail[k] = ptoi_far_pair(words + 2);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < PAIRS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < pairs) {
            pair[k] = ptoi_far_pair(their->deps + 2 * (uint64_t)(first + i));
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < UNITS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < units) {
            unit[k] = ptoi_far_pair(args + 2 * (uint64_t)i);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < SLOTS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < slots) {
            ulonglong2 *words = (ulonglong2 *)(void *)ptoi_slot_of(&g->view, level, seq + i);
            ((unsigned long long *)words)[1] = head[k].y; /* not its number */
            words[1] = tail[k];
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < PAIRS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < pairs) {
            ((ulonglong2 *)(void *)mine->deps)[first + i] = pair[k];
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < UNITS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < units) {
            ((ulonglong2 *)(void *)mine->args)[args_at + i] = unit[k];
        }
    }
    m->deps_at[level] = deps_at + refs;
    m->args_at[level] = args_at + units;
    return true;
}
#endif

/* Copies what the log names: layout descriptors and kernels. */
PTOI_INLINE void ptoi_grid_copy_log(const ptoi_grid *g, uint64_t from, uint64_t to)
{
    for (uint64_t i = from + PTOI_GRID_LANE; i < to; i += PTOI_GRID_LANES) {
        const uint32_t entry = ptoi_far_half(&g->log[i % PTOI_LOG_ENTRIES]);
        const uint32_t id = entry & ~PTOI_LOG_KERNEL;
        if (entry & PTOI_LOG_KERNEL) {
            g->view.codes[id].address = ptoi_far_word(&g->window.codes[id].address);
            continue;
        }
        const uint64_t *their = (const uint64_t *)(const void *)(g->window.descs +
                                                                 id * PTOI_DESC_UNIT);
        uint64_t *mine = (uint64_t *)(void *)(g->view.descs + id * PTOI_DESC_UNIT);
        const uint64_t first = ptoi_far_word(their); /* ndim is its lower half */
        const uint64_t words = ptoi_desc_bytes((int32_t)first) / sizeof *mine;
        mine[0] = first;
        for (uint64_t k = 1; k < words; k++) {
            mine[k] = ptoi_far_word(their + k);
        }
    }
}

/* Copies what a level has gained from one reading to the next. */
PTOI_INLINE void ptoi_grid_copy_level(const ptoi_grid *g, ptoi_mover *m, uint32_t level)
{
    const uint64_t from = m->mirrored.level[level], to = m->known.level[level];
    const ptoi_view_level *their = &g->window.level[level], *mine = &g->view.level[level];
    const uint32_t refs = ptoi_grid_ring_units(from, to, PTOI_HEAD_DEPS, &m->deps_at[level],
                                               their->n_deps);
    const uint32_t units = ptoi_grid_ring_units(from, to, PTOI_HEAD_ARGS, &m->args_at[level],
                                                their->n_args);
    const uint32_t slots = ptoi_head_distance(from, to, PTOI_HEAD_SLOTS);
#ifdef __CUDA_ARCH__
    if (ptoi_grid_copy_few(g, m, level, refs, units, slots)) {
        return;
    }
#endif
    ptoi_grid_copy_refs(mine->deps, their->deps, &m->deps_at[level], refs, their->n_deps);
    ptoi_grid_copy_ring((uint64_t *)(void *)mine->args, (const uint64_t *)(void *)their->args,
                        &m->args_at[level], units, their->n_args);
    ptoi_grid_copy_slots(g, level, m->seq[level], slots);
}

/* Brings the mirror from one reading to the next, but for the numbers of slots. */
PTOI_INLINE void ptoi_grid_mirror(const ptoi_grid *g, ptoi_mover *m)
{
    if (m->mirrored.log != m->known.log) {
        ptoi_grid_copy_log(g, m->mirrored.log, m->known.log);
        PTOI_GRID_SYNC();
        if (PTOI_GRID_LANE == 0) {
            ptoi_far_set64(&g->shared->log_taken, m->known.log);
        }
    }
    for (uint32_t l = 0; l < g->view.levels; l++) {
        if (m->mirrored.level[l] != m->known.level[l]) {
            ptoi_grid_copy_level(g, m, l);
        }
    }
    PTOI_GRID_SYNC();
}

/* The mirror is whole: stores the numbers. */
PTOI_INLINE void ptoi_grid_number(const ptoi_grid *g, ptoi_mover *m)
{
    for (uint32_t l = 0; l < g->view.levels; l++) {
        const uint32_t n = ptoi_head_distance(m->mirrored.level[l], m->known.level[l],
                                              PTOI_HEAD_SLOTS);
        ptoi_grid_number_slots(g, l, m->seq[l], n);
        m->seq[l] += n;
    }
    m->mirrored = m->known;
}

/* ---- The mover: heads and releases ---- */

/* What the mover asks the host for in each step. On a device, each lane asks for one word, and nobody waits
 * for an answer before ptoi_grid_hear. */
typedef struct ptoi_question {
#ifdef __CUDA_ARCH__
    uint64_t word;
    uint32_t half;
#endif
    ptoi_heads heads;
    uint32_t era, cancel[2], hurry;
} ptoi_question;

/* Pairs D1. ptoi_far_fence comes before ptoi_grid_hear. */
PTOI_INLINE ptoi_question ptoi_grid_ask(const ptoi_grid *g)
{
    ptoi_question q;
#ifdef __CUDA_ARCH__
    const uint32_t lane = PTOI_GRID_LANE;
    const ptoi_a64 *word = lane < g->view.levels ? &g->heads[lane] : g->log_head;
    const ptoi_a32 *half = lane == 0   ? g->era
                           : lane == 1 ? g->cancel[0]
                           : lane == 2 ? g->cancel[1]
                                       : &g->shared->hurry;
    q.word = ptoi_far_acquire64(word);
    q.half = ptoi_far_get32(half);
#else
    for (uint32_t l = 0; l < PTOI_MAX_LEVELS; l++) {
        q.heads.level[l] = l < g->view.levels ? ptoi_far_acquire64(&g->heads[l]) : 0;
    }
    q.heads.log = ptoi_far_acquire64(g->log_head);
    q.era = ptoi_far_get32(g->era);
    q.cancel[0] = ptoi_far_get32(g->cancel[0]);
    q.cancel[1] = ptoi_far_get32(g->cancel[1]);
    q.hurry = ptoi_far_get32(&g->shared->hurry);
#endif
    return q;
}

PTOI_INLINE void ptoi_grid_hear(const ptoi_grid *g, ptoi_question *q)
{
#ifdef __CUDA_ARCH__
#pragma unroll
    for (uint32_t l = 0; l < PTOI_MAX_LEVELS; l++) {
        const uint64_t word = PTOI_GRID_OF(q->word, l);
        q->heads.level[l] = l < g->view.levels ? word : 0;
    }
    q->heads.log = PTOI_GRID_OF(q->word, PTOI_MAX_LEVELS);
    q->era = PTOI_GRID_OF(q->half, 0);
    q->cancel[0] = PTOI_GRID_OF(q->half, 1);
    q->cancel[1] = PTOI_GRID_OF(q->half, 2);
    q->hurry = PTOI_GRID_OF(q->half, 3);
#else
    (void)g;
    (void)q;
#endif
}

PTOI_INLINE bool ptoi_heads_equal(const ptoi_heads *a, const ptoi_heads *b)
{
    bool equal = a->log == b->log;
    for (uint32_t l = 0; l < PTOI_MAX_LEVELS; l++) {
        equal = equal && a->level[l] == b->level[l];
    }
    return equal;
}

/* Whether all lanes have read what `n` more tasks overwrite. All lanes of the mover. */
PTOI_INLINE bool ptoi_grid_has_read(const ptoi_grid *g, ptoi_mover *m, uint32_t n)
{
    if (m->moved + n > m->room) {
        uint64_t least = m->moved;
        for (uint32_t lane = PTOI_GRID_LANE; lane < g->n_resolvers; lane += PTOI_GRID_LANES) {
            const uint64_t at = ptoi_acquire64(&g->resolved[lane]); /* pairs D2 */
            least = at < least ? at : least;
        }
        m->room = ptoi_grid_least(least) + g->inbox_mask + 1;
    }
    return m->moved + n <= m->room || PTOI_MUTANT(FRESH_EARLY);
}

/* Releases all tasks up to a reading. Returns whether there were any; if a lane is slow they wait. */
PTOI_INLINE bool ptoi_grid_release(const ptoi_grid *g, ptoi_mover *m, const ptoi_heads *upto)
{
    uint32_t all = 0;
    for (uint32_t l = 0; l < g->view.levels; l++) {
        all += ptoi_head_distance(m->released[l], upto->level[l], PTOI_HEAD_SLOTS);
    }
    if (all == 0 || !ptoi_grid_has_read(g, m, all)) {
        return all != 0;
    }
    for (uint32_t l = 0; l < g->view.levels; l++) {
        const uint32_t n = ptoi_head_distance(m->released[l], upto->level[l], PTOI_HEAD_SLOTS);
        const uint32_t first = (uint32_t)(g->view.level[l].slots - g->view.slots);
        const uint64_t seq = m->seq[l] - ptoi_head_distance(m->released[l], m->mirrored.level[l],
                                                            PTOI_HEAD_SLOTS);
        for (uint32_t i = PTOI_GRID_LANE; i < n; i += PTOI_GRID_LANES) {
            g->fresh[(uint32_t)(m->moved + i) & g->inbox_mask] = first + ((uint32_t)(seq + i) &
                                                                          g->view.level[l].mask);
        }
        m->released[l] = upto->level[l];
        m->moved += n;
    }
    PTOI_GRID_SYNC();
    if (PTOI_GRID_LANE == 0) {
        ptoi_release64(&g->control->moved, m->moved); /* D2 */
    }
    return true;
}

/* ---- The end of the grid ----
 *
 * The mover decides that the grid ends. What was released is still carried out; what comes later waits
 * for the next launch.
 *
 *     closing   the mover releases nothing more. Resolvers end when they have resolved what was released,
 *               the clerk when it has completed what was posted. Then only workers push tasks.
 *     leave     all workers wait for a cell: ticket - tail = workers, on every ring. Then nothing is ready
 *               or running, and nobody is left who could change that. Workers end, and writers do when
 *               they have written what was completed.
 *
 * Tickets are read before tails: ticket - tail is at most the number of workers at any time, so if the
 * older ticket and the newer tail differ by that, they did so all the time between the two. All tickets are
 * read before the first tail, so there was a moment at which the workers of all rings waited: a worker of
 * one may push tasks into another. A worker takes its ticket, and the others leave, after what they have
 * pushed: who sees that sees the tail, too. */

PTOI_INLINE bool ptoi_grid_all_wait(const ptoi_grid *g)
{
    const uint32_t queues = PTOI_MUTANT(ONE_QUEUE) ? 1 : PTOI_GRID_QUEUES;
    uint32_t ticket[PTOI_GRID_QUEUES], tail[PTOI_GRID_QUEUES];
    bool all = true;
    for (uint32_t q = 0; q < queues; q++) {
        if (PTOI_MUTANT(LEAVE_EARLY)) {
            tail[q] = ptoi_acquire32(&g->control->queue[q].tail);
            ptoi_grid_pause();
        }
        ticket[q] = ptoi_acquire32(&g->control->queue[q].ticket);
    }
    for (uint32_t q = 0; q < queues; q++) {
        if (!PTOI_MUTANT(LEAVE_EARLY)) {
            tail[q] = ptoi_acquire32(&g->control->queue[q].tail);
        }
        all = all && ticket[q] - tail[q] == g->workers_of[q];
    }
    return all;
}

PTOI_INLINE void ptoi_grid_leave(const ptoi_grid *g, uint32_t lanes)
{
    ptoi_fetch_add32(&g->control->left, lanes); /* D7 */
}

/* The last steps of the mover. */
PTOI_INLINE void ptoi_grid_close(const ptoi_grid *g, ptoi_mover *m)
{
    ptoi_grid_control *c = g->control;
    const uint32_t left = ptoi_acquire32(&c->left), service = g->n_resolvers + 1; /* pairs D7 */
    if (m->phase == PTOI_GRID_CLOSES) {
        if (left == service && ptoi_grid_all_wait(g)) {
            ptoi_release32(&c->leave, 1); /* D7 */
            m->phase = PTOI_GRID_LEAVES;
        }
        return;
    }
    if (left != service + g->n_workers + g->n_writers) {
        return;
    }
    for (uint32_t q = 0; q < PTOI_GRID_QUEUES; q++) { /* tickets for which nobody waits any more */
        ptoi_set32(&c->queue[q].ticket, ptoi_get32(&c->queue[q].tail));
    }
    ptoi_set32(&c->closing, 0);
    ptoi_set32(&c->leave, 0);
    ptoi_set32(&c->left, 0);
    ptoi_set32(&c->roles, 0);
    m->phase = PTOI_GRID_RUNS; /* of the next launch */
    c->mover = *m;
    m->phase = PTOI_GRID_OVER;
    ptoi_far_set64(&g->shared->consumed, m->moved);
    ptoi_far_set32(&g->shared->posts_taken, c->posts_taken);
    ptoi_far_release32(&g->shared->ended, ptoi_far_get32(&g->shared->ended) + 1); /* D8 */
}

/* Whether the grid may end: there was nothing to do for as long as it waits, or at all if it is in a hurry.
 * It looks at the workers now and then only, since that takes as long as half a step. */
PTOI_INLINE bool ptoi_grid_is_idle(const ptoi_grid *g, ptoi_mover *m, bool busy, bool hurry)
{
    const uint64_t now = ptoi_grid_clock();
    if (busy) {
        m->idle_since = m->looked = now;
    }
    if (busy || (!hurry && now - m->looked < g->idle_ns / 16)) {
        return false;
    }
    m->looked = now;
    if (!ptoi_grid_all_wait(g)) {
        m->idle_since = now;
        return false;
    }
    return hurry || now - m->idle_since >= g->idle_ns;
}

/* One step of the mover. All lanes. Returns whether it found something to do. */
PTOI_INLINE bool ptoi_grid_move(const ptoi_grid *g, ptoi_mover *m)
{
    if (m->phase != PTOI_GRID_RUNS) {
        uint32_t phase = 0;
        if (PTOI_GRID_LANE == 0) {
            ptoi_grid_close(g, m);
            phase = m->phase;
        }
        m->phase = PTOI_GRID_FIRST(phase);
        return false;
    }
    ptoi_question q = ptoi_grid_ask(g);
    const ptoi_heads before = m->mirrored;
    ptoi_grid_mirror(g, m);
    ptoi_far_fence();
    ptoi_grid_number(g, m);
    ptoi_grid_hear(g, &q);
    const bool cancelled = q.cancel[0] == q.era || q.cancel[1] == q.era;
    if (PTOI_GRID_LANE == 0 && (cancelled || !PTOI_MUTANT(CANCEL_STAYS))) {
        ptoi_set32(&g->control->cancelled, cancelled); /* before tasks of a new era are released */
    }
    const bool quiet = ptoi_heads_equal(&q.heads, &m->known);
    const bool found = ptoi_grid_release(g, m,
                                         quiet || PTOI_MUTANT(RELEASE_EARLY) ? &m->known : &before);
    m->known = q.heads;
    uint32_t phase = PTOI_GRID_RUNS;
    if (PTOI_GRID_LANE == 0) {
        if (ptoi_grid_is_idle(g, m, found || !quiet, q.hurry)) {
            ptoi_release32(&g->control->closing, 1); /* D7 */
            phase = PTOI_GRID_CLOSES;
        }
    }
    m->phase = PTOI_GRID_FIRST(phase);
    return found || !quiet;
}

/* ---- Ready tasks ---- */

/* A worker, or the clerk. All of it belongs to one thread. */
typedef struct ptoi_grid_worker {
    uint32_t id;     /* of its ring of completions */
    uint32_t queue;  /* of its tasks; PTOI_NONE: it runs none */
    uint32_t next;   /* a ready task that it runs next; PTOI_NONE */
    uint32_t ticket; /* that it waits with */
    bool waits;      /* it has a ticket */
    uint32_t done;   /* tasks that it has completed */
    uint32_t taken;  /* of these, the writer had taken so many */
} ptoi_grid_worker;

/* The ring of a task; PTOI_NONE: the host runs it. */
PTOI_INLINE uint32_t ptoi_grid_queue_of(const ptoi_grid *g, uint32_t index)
{
    const uint32_t lane = ptoi_slot_header_own(&g->view.slots[index]).lane;
    return ptoi_lane_device(lane) == g->device && ptoi_lane_type(lane) != PTOI_LANE_ENGINE
               ? g->queue_of[ptoi_lane_type(lane)]
               : PTOI_NONE;
}

PTOI_INLINE void ptoi_grid_push(const ptoi_grid *g, uint32_t queue, uint32_t index)
{
    ptoi_grid_control *c = g->control;
    if (queue == PTOI_NONE) {
        const uint32_t at = ptoi_draw32(&c->host_tail, 1);
        const bool bad = g->view.states[index].poisoned && !PTOI_MUTANT(HOST_POISON_LOST);
        const uint32_t poisoned = bad ? PTOI_HOST_POISONED : 0;
        ptoi_far_release64(&g->host_ready[at & g->inbox_mask],
                           ptoi_cell_word(at + 1, index | poisoned)); /* D5 */
        return;
    }
    const uint32_t at = ptoi_draw32(&c->queue[queue].tail, 1); /* D7: see ptoi_grid_all_wait */
    ptoi_a64 *cell = &g->cells[queue][at & g->inbox_mask];
    while ((uint32_t)(ptoi_get64(cell) >> 32) !=
           at) { /* pairs D3: its last task was not read yet */
        ptoi_grid_pause();
    }
    ptoi_release64(cell, ptoi_cell_word(at + 1, index)); /* D3 */
}

/* ---- Resolvers ---- */

/* Begins a launch for a lane. Returns its first task: lane r takes tasks r, r + n, r + 2n ... The mover may
 * be at work already: what it has stored when the last launch ended does not change meanwhile. */
PTOI_INLINE uint64_t ptoi_grid_first(const ptoi_grid *g, uint32_t lane)
{
    const uint64_t moved = g->control->mover.moved;
    const uint32_t n = g->n_resolvers;
    const uint64_t first = moved + (lane + n - (uint32_t)(moved % n)) % n;
    ptoi_release64(&g->resolved[lane], first); /* D2: it need not have had a task before */
    return first;
}

typedef enum ptoi_grid_found {
    PTOI_GRID_NOTHING,
    PTOI_GRID_SOMETHING,
    PTOI_GRID_END, /* the role has ended */
} ptoi_grid_found;

/* Passes the producers of a task from number `cursor` on that are complete, and returns the number of the
 * first one that may not be. A load takes long, so several are under way at a time, and one fence acquires
 * all of them. */
#ifdef __CUDA_ARCH__
PTOI_INLINE uint32_t ptoi_grid_pass(const ptoi_view *view, uint32_t index, uint32_t cursor)
{
    enum { AHEAD = 8 };
    const ptoi_slot *slot = &view->slots[index];
    const uint32_t fanin = slot->fanin, first = cursor;
    const ptoi_ref *refs = view->level[ptoi_slot_header_own(slot).level].deps + slot->deps;
    bool all = true, bad = false;
    while (all && cursor < fanin) {
        ptoi_ref ref[AHEAD];
        uint64_t waiters[AHEAD];
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++) {
            ref[k] = refs[cursor + k < fanin ? cursor + k : fanin - 1];
        }
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++) {
            waiters[k] = ptoi_get64(
                &ptoi_state_of(view, ptoi_ref_level(ref[k]), ptoi_ref_seq(ref[k]))->waiters);
        }
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t lap = ptoi_lap_of_ref(view, ref[k]);
            all = all && cursor < fanin && ptoi_list_closed(waiters[k], lap);
            bad = bad || (all && ptoi_ref_poisons(ref[k]) && ptoi_list_bad(waiters[k], lap));
            cursor += all;
        }
    }
    if (bad) {
        view->states[index].poisoned = 1;
    }
    if (cursor != first) {
        ptoi_fence(); /* pairs W2 */
    }
    return cursor;
}
#define PTOI_GRID_FEW 2u /* producers, for which it is not worth while */
#endif

/* ptoi_step_resolve for tasks with many producers, too. */
PTOI_INLINE bool ptoi_grid_can_run(const ptoi_view *view, uint32_t index, uint32_t cursor)
{
#ifdef __CUDA_ARCH__
    if (view->slots[index].fanin > cursor + PTOI_GRID_FEW) {
        cursor = ptoi_grid_pass(view, index, cursor);
    }
#endif
    return ptoi_step_resolve(view, index, cursor);
}

/* One step of a lane: resolves task number *at, if it was released. */
PTOI_INLINE ptoi_grid_found ptoi_grid_resolve(const ptoi_grid *g, uint32_t lane, uint64_t *at)
{
    const bool closing = ptoi_get32(&g->control->closing);
    if (*at >= ptoi_acquire64(&g->control->moved)) {             /* pairs D2 */
        if (!closing || !ptoi_acquire32(&g->control->closing)) { /* pairs D7 */
            return PTOI_GRID_NOTHING;
        }
        if (!PTOI_MUTANT(LANE_EARLY) &&
            *at < ptoi_acquire64(&g->control->moved)) { /* after `closing` */
            return PTOI_GRID_NOTHING;
        }
        ptoi_grid_leave(g, 1);
        return PTOI_GRID_END;
    }
    const uint32_t index = g->fresh[(uint32_t)*at & g->inbox_mask];
    *at += g->n_resolvers;
    ptoi_release64(&g->resolved[lane], *at); /* D2 */
    ptoi_step_begin(&g->view, index);
    if (ptoi_grid_can_run(&g->view, index, 0)) {
        ptoi_grid_push(g, ptoi_grid_queue_of(g, index), index);
    }
    return PTOI_GRID_SOMETHING;
}

/* ---- Workers ---- */

/* The ready ring that a worker takes tasks from. */
PTOI_INLINE uint32_t ptoi_grid_ring_of(const ptoi_grid *g, uint32_t worker)
{
    return worker < g->workers_of[0] ? 0 : 1;
}

PTOI_INLINE ptoi_grid_worker ptoi_grid_worker_begin(const ptoi_grid *g, uint32_t id, uint32_t queue)
{
    const uint32_t done = ptoi_acquire32(
        &g->done[id].taken); /* all were, when the last launch ended */
    ptoi_grid_worker w = {id, queue, PTOI_NONE, 0, false, done, done};
    return w;
}

/* The next task of a worker: *index, if it is SOMETHING. */
PTOI_INLINE ptoi_grid_found ptoi_grid_take(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t *index)
{
    if (w->next != PTOI_NONE) {
        *index = w->next;
        w->next = PTOI_NONE;
        return PTOI_GRID_SOMETHING;
    }
    ptoi_grid_queue *q = &g->control->queue[w->queue];
    if (!w->waits) {
        w->ticket = ptoi_fetch_add32(&q->ticket, 1);
        w->waits = true;
    }
    ptoi_a64 *cell = &g->cells[w->queue][w->ticket & g->inbox_mask];
    const bool leave = ptoi_get32(&g->control->leave); /* pairs D7: from then on no task comes */
    const uint64_t word = ptoi_acquire64(cell);        /* pairs D3 */
    if ((uint32_t)(word >> 32) != w->ticket + 1) {
        if (leave) {
            ptoi_grid_leave(g, 1);
            return PTOI_GRID_END;
        }
        return PTOI_GRID_NOTHING;
    }
    ptoi_set64(cell, ptoi_cell_word(w->ticket + g->inbox_mask + 1, 0)); /* D3 */
    w->waits = false;
    *index = (uint32_t)word;
    return PTOI_GRID_SOMETHING;
}

/* Whether the kernel of a task is called. If not, the task is skipped. */
PTOI_INLINE bool ptoi_grid_may_run(const ptoi_grid *g, uint32_t index)
{
    return !g->view.states[index].poisoned && !ptoi_get32(&g->control->cancelled);
}

/* Whether the writer has room for another completion. */
PTOI_INLINE bool ptoi_grid_has_room(const ptoi_grid *g, ptoi_grid_worker *w)
{
    if (w->done - w->taken == PTOI_GRID_DONE) {
        w->taken = ptoi_acquire32(&g->done[w->id].taken); /* pairs D4 */
    }
    return w->done - w->taken != PTOI_GRID_DONE;
}

/* Completes a task. The first task that becomes ready by it is the worker's next one, if it can run it. */
PTOI_INLINE void ptoi_grid_complete(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t index,
                                    ptoi_outcome outcome)
{
    const ptoi_view *view = &g->view;
    const ptoi_slot *slot = &view->slots[index];
    const uint32_t lap = ptoi_lap(view, ptoi_slot_header_own(slot).level, ptoi_own64(&slot->seq));
    view->states[index].worker = (uint16_t)(g->first_line + w->id);
    if (PTOI_MUTANT(WRITE_EARLY)) {
        ptoi_release64(&g->done[w->id].cell[w->done % PTOI_GRID_DONE],
                       ptoi_cell_word(w->done + 1, index));
    }
    uint32_t list = ptoi_step_oldest_first(view, ptoi_step_complete(view, index, lap, outcome));
    while (!ptoi_grid_has_room(g, w)) {
        ptoi_grid_pause();
    }
    ptoi_follow64(&g->done[w->id].cell[w->done % PTOI_GRID_DONE],
                  ptoi_cell_word(w->done + 1, index)); /* D4 */
    w->done++;
    while (list < view->n_slots) {
        const uint32_t waiter = list;
        list = view->waits[waiter].next;
        /* What it waited for is this task. It is looked at again only if it may poison. */
        if (!ptoi_grid_can_run(view, waiter, view->waits[waiter].cursor + (outcome == PTOI_DONE))) {
            continue;
        }
        const uint32_t queue = ptoi_grid_queue_of(g, waiter);
        if (w->next == PTOI_NONE && queue == w->queue && queue != PTOI_NONE) {
            w->next = waiter;
        } else {
            ptoi_grid_push(g, queue, waiter);
        }
    }
}

/* ---- Writers ---- */

/* The word that closes the list of a task, from what its worker had written before it closed it (D4). */
PTOI_INLINE uint64_t ptoi_grid_closed(const ptoi_view *view, uint32_t index)
{
    const ptoi_slot *slot = &view->slots[index];
    const uint32_t lap = ptoi_lap(view, ptoi_slot_header_own(slot).level, ptoi_own64(&slot->seq));
    return ptoi_list_word(lap, view->states[index].outcome == PTOI_DONE ? PTOI_LIST_CLOSED
                                                                        : PTOI_LIST_CLOSED_BAD);
}

/* Writes how a task ended. A task that the host has run has its phase and outcome there already. */
PTOI_INLINE void ptoi_grid_write_state(const ptoi_grid *g, ptoi_grid_done *done, uint32_t index,
                                       uint32_t lap)
{
    const ptoi_state *mine = &g->view.states[index];
    ptoi_state *their = &g->window.states[index];
    const uint32_t phase = ptoi_phase_begin(lap) | PTOI_PHASE_RUNNING | PTOI_PHASE_COMPLETED;
    done->failed += mine->outcome == PTOI_FAILED;
    done->skipped += mine->outcome == PTOI_SKIPPED;
#ifdef __CUDA_ARCH__
    _Static_assert(offsetof(ptoi_state, phase) == 8 && offsetof(ptoi_state, poisoned) == 12 &&
                       offsetof(ptoi_state, outcome) == 13 && offsetof(ptoi_state, worker) == 14,
                   "one store over the bus");
    ptoi_far_set64((ptoi_a64 *)(void *)&their->phase, phase | (uint64_t)mine->poisoned << 32 |
                                                          (uint64_t)mine->outcome << 40 |
                                                          (uint64_t)mine->worker << 48);
#else
    ptoi_far_set32(&their->phase, phase);
    their->poisoned = mine->poisoned;
    their->outcome = mine->outcome;
    their->worker = mine->worker;
#endif
}

/* Shows the orchestrator that up to PTOI_GRID_BATCH tasks of a ring are complete; from W2 on their slots
 * may be used again. Returns how many. They share a fence, which takes a trip over the bus: a worker must
 * not wait for that with each task of a chain. */
PTOI_INLINE uint32_t ptoi_grid_write_back(const ptoi_grid *g, uint32_t id, uint32_t taken)
{
    ptoi_grid_done *done = &g->done[id];
    uint32_t index[PTOI_GRID_BATCH], n = 0;
    uint64_t closed[PTOI_GRID_BATCH];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        const uint64_t word = n == k ? ptoi_acquire64(&done->cell[(taken + k) % PTOI_GRID_DONE])
                                     : 0; /* pairs D4 */
        if (n == k && (uint32_t)(word >> 32) == taken + k + 1) {
            index[k] = (uint32_t)word;
            closed[k] = ptoi_grid_closed(&g->view, index[k]);
            n++;
            if (id < g->n_workers) {
                ptoi_grid_write_state(g, done, index[k], (uint32_t)(closed[k] >> 32));
            }
        }
    }
    if (n && id < g->n_workers) { /* W7: before W2 */
        ptoi_tally *tally = &g->lines[id].tally;
        ptoi_far_set64(&tally->failed, done->failed);
        ptoi_far_set64(&tally->skipped, done->skipped);
        ptoi_far_set64(&tally->completed, done->completed += n);
    }
    if (n) {
        ptoi_far_fence();
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        if (k < n) {
            ptoi_far_follow64(&g->window.states[index[k]].waiters, closed[k]); /* W2 */
        }
    }
    return n;
}

/* One step of writer lane `lane`: it looks at the rings of completions lane, lane + n ... */
PTOI_INLINE ptoi_grid_found ptoi_grid_write(const ptoi_grid *g, uint32_t lane)
{
    const bool leave = ptoi_acquire32(&g->control->leave); /* pairs D7; before the rings */
    ptoi_grid_found found = PTOI_GRID_NOTHING;
    for (uint32_t id = lane; id <= g->n_workers; id += g->n_writers) {
        const uint32_t taken = ptoi_own32(&g->done[id].taken);
        const uint32_t n = ptoi_grid_write_back(g, id, taken);
        if (n) {
            ptoi_release32(&g->done[id].taken, taken + n); /* D4 */
            found = PTOI_GRID_SOMETHING;
        }
    }
    if (found == PTOI_GRID_NOTHING && leave) {
        ptoi_grid_leave(g, 1);
        return PTOI_GRID_END;
    }
    return found;
}

/* ---- The clerk ---- */

/* Answers a letter. All lanes. */
PTOI_INLINE void ptoi_grid_answer(const ptoi_grid *g, uint32_t asked)
{
    const uint32_t words = ptoi_far_half(&g->mail->words);
    const uint32_t *from = (const uint32_t *)(uintptr_t)ptoi_far_word(&g->mail->from);
    for (uint32_t i = PTOI_GRID_LANE; i < words; i += PTOI_GRID_LANES) {
        g->shared->text[i] = from[i];
    }
    PTOI_GRID_SYNC();
    if (PTOI_GRID_LANE == 0) {
        g->control->letter = asked;
        ptoi_far_release32(&g->shared->answered, asked); /* D9 */
    }
}

/* Tells the keeper of a traced run what time it is, if it has asked. One word, so there is nothing to
 * order: what counts is that the clock is read after the question and before the answer. */
PTOI_INLINE void ptoi_grid_tell_time(const ptoi_grid *g)
{
    const uint32_t asked = ptoi_far_get32(&g->shared->asked_time);
    if (asked != g->control->asked_time) {
        g->control->asked_time = asked;
        ptoi_far_set64(&g->shared->time, ptoi_grid_clock());
    }
}

/* One step of the clerk. All lanes; the first one completes. */
PTOI_INLINE ptoi_grid_found ptoi_grid_serve(const ptoi_grid *g, ptoi_grid_worker *w)
{
    ptoi_grid_control *c = g->control;
    const bool closing = ptoi_acquire32(&c->closing);               /* pairs D7; before `posted` */
    const uint32_t posted = ptoi_far_acquire32(&g->shared->posted); /* pairs D6 */
    const uint32_t asked = PTOI_GRID_FIRST(ptoi_far_acquire32(&g->mail->asked)); /* pairs D9 */
    ptoi_far_fence();
    uint32_t found = PTOI_GRID_NOTHING;
    if (asked != PTOI_GRID_FIRST(c->letter)) {
        ptoi_grid_answer(g, asked);
        found = PTOI_GRID_SOMETHING;
    }
    if (PTOI_GRID_LANE == 0) {
        if (g->records) {
            ptoi_grid_tell_time(g);
        }
        while (c->posts_taken != posted && ptoi_grid_has_room(g, w)) {
            const uint64_t post = ptoi_far_word(&g->posts[c->posts_taken & g->inbox_mask]);
            c->posts_taken++;
            ptoi_grid_complete(g, w, (uint32_t)post, (ptoi_outcome)(post >> 32));
            found = PTOI_GRID_SOMETHING;
        }
        if (closing && found == PTOI_GRID_NOTHING && c->posts_taken == posted) {
            ptoi_grid_leave(g, 1);
            found = PTOI_GRID_END;
        }
    }
    return (ptoi_grid_found)PTOI_GRID_FIRST(found);
}

#endif /* PTOI_GRID_H */
