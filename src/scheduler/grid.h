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
 *                            publishes was written before that (ptoi_follow): what the kernel wrote. The
 *                            cell itself says the rest. Acquired by the writer, which then releases
 *                            state.waiters in the window.
 *       done.taken           released by the writer; acquired by the worker before it uses the cell again.
 *   D5  host_ready cell      released by the thread that found the task ready; acquired by the keeper.
 *   D6  posted               released by the keeper after the post; acquired by the clerk.
 *   D7  closing, left,       the end of the grid: see ptoi_grid_close.
 *       leave
 *   D8  ended                released by the mover as its last store; acquired by the keeper, which may
 *                            launch the grid again.
 *   D9  mail.asked           the letter itself, in one word: stored by the orchestrating thread after it has
 *                            acquired W2 of those who wrote the bytes; acquired by the clerk.
 *       answered             released by the clerk after the bytes, unless they fit in that word; acquired by
 *                            the orchestrating thread.
 *
 * When the mover may release tasks (D2): everything that their threads read must be in the mirror. That is
 * their slot, edges and arguments, which one word of a level covers, and the layouts that they name, which
 * the log covers. Those are two words, and they are not read at one instant. Let `before`, `known` and `next`
 * be three readings, each complete before the following begins. A layout that a task in `known` names was
 * in the log before `next` was read. So
 *
 *     the mirror has all of `known`   ==>   the tasks of `before` may be released,
 *                                           and those of `known` if its log is that of `next`.
 *
 * Other tasks that a task refers to need not be in the mirror, on whatever level they are. It looks at their
 * words of state.waiters only, and joins lists there. In this place every task closes its list in the
 * mirror. So a word is of the lap of the task that has the slot now, or of the lap before, and then its list
 * is empty. A word of a later lap than a reference says that the task was complete.
 */
#ifndef PTOI_GRID_H
#define PTOI_GRID_H

#include "scheduler/grid_log.h"
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
#define PTOI_GRID_VOTES(value) __ballot_sync(0xffffffffu, value) /* a bit for each lane */
#define PTOI_GRID_LAST(votes) (31u - (uint32_t)__clz((int)(votes)))
#define PTOI_GRID_LOWEST(bits) ((uint32_t)__ffs((int)(bits)) - 1u)

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
#define PTOI_GRID_OF(value, lane) ((void)(lane), (value))
#define PTOI_GRID_FIRST(value) (value)
#define PTOI_GRID_VOTES(value) ((uint32_t)(value))
#define PTOI_GRID_LAST(votes) 0u
#define PTOI_GRID_LOWEST(bits) ((uint32_t)__builtin_ctz(bits))
#define ptoi_grid_least(value) (value)
#endif

#ifdef __CUDA_ARCH__
PTOI_INLINE void ptoi_grid_pause(void)
{
    ptoi_relax();
}
#else
static inline void ptoi_grid_pause(void)
{
    ptoi_os_yield();
}
#endif

/* For mutants: gives others time to notice. */
PTOI_INLINE void ptoi_grid_pause_long(void)
{
    for (uint32_t i = 0; i < 100; i++) {
        ptoi_grid_pause();
    }
}

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

/* Tasks that a worker has completed, on their way to the writer. A cell says all that the writer shows:
 *
 *     bits   0 to 21   22, 23    24 to 31                             32 to 63
 *            slot      outcome   number of the completion, plus one   lap
 */
typedef struct ptoi_grid_done {
    _Alignas(PTOI_LINE) ptoi_a64 cell[PTOI_GRID_DONE]; /* D4 */
    _Alignas(PTOI_LINE) ptoi_a32 taken;                /* D4: by the writer */
    ptoi_a64 completed;       /* of the writer: what it has counted in the window */
    uint64_t failed, skipped; /* the same */
} ptoi_grid_done;

/* What the mover knows of a level. */
typedef struct ptoi_mover_level {
    uint64_t known;    /* its head, as it was read last */
    uint64_t mirrored; /* the mirror has all tasks of this reading */
    uint64_t before;   /* what it had when the last step began: one reading before */
    uint64_t released; /* resolvers have all tasks of this one */
    uint64_t seq;      /* next task to mirror */
    uint32_t deps_at;  /* where the rings go on */
    uint32_t args_at;
} ptoi_mover_level;

#define PTOI_GRID_LOG PTOI_MAX_LEVELS /* the log is one more level where changes are noted */

/* What the mover knows. It is kept from launch to launch. On a device all lanes of a warp read it, in
 * shared memory, and the first one writes it. */
typedef struct ptoi_mover {
    ptoi_mover_level level[PTOI_MAX_LEVELS];
    uint64_t log_known, log_mirrored;
    uint64_t moved;      /* tasks released, on all levels */
    uint64_t room;       /* in `fresh`: up to this task */
    uint64_t idle_since; /* clock of the device */
    uint64_t looked;     /* when it last looked whether workers wait */
    uint32_t phase;      /* ptoi_grid_phase */
    uint32_t behind; /* a bit for each level: the mirror lacks something, or it is not released */
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
    uint32_t posts_taken; /* of the clerk, when it has ended */
    uint64_t letter;
    uint32_t asked_time; /* the same for questions about the time */
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

/* A slot in registers. */
typedef struct ptoi_grid_slot {
    uint64_t seq, header;
    uint32_t deps, fanin, args, n_args;
} ptoi_grid_slot;

#ifdef __CUDA_ARCH__
PTOI_INLINE ptoi_grid_slot ptoi_grid_slot_of(ulonglong2 first, ulonglong2 second)
{
    const ptoi_grid_slot slot = {first.x,
                                 first.y,
                                 (uint32_t)second.x,
                                 (uint32_t)(second.x >> 32),
                                 (uint32_t)second.y,
                                 (uint32_t)(second.y >> 32)};
    return slot;
}
#endif

/* A slot of the window. */
PTOI_INLINE ptoi_grid_slot ptoi_grid_read_slot(const ptoi_slot *from)
{
#ifdef __CUDA_ARCH__
    const uint64_t *words = (const uint64_t *)(const void *)from;
    return ptoi_grid_slot_of(ptoi_far_pair(words), ptoi_far_pair(words + 2));
#else
    const ptoi_grid_slot slot = {ptoi_get64(&from->seq),
                                 ptoi_get64(&from->header),
                                 from->deps,
                                 from->fanin,
                                 from->args,
                                 from->n_args};
    return slot;
#endif
}

/* A slot of the mirror, which nobody writes now. */
PTOI_INLINE ptoi_grid_slot ptoi_grid_own_slot(const ptoi_slot *mine)
{
#ifdef __CUDA_ARCH__
    const ulonglong2 *half = (const ulonglong2 *)(const void *)mine;
    return ptoi_grid_slot_of(half[0], half[1]);
#else
    return ptoi_grid_read_slot(mine);
#endif
}

PTOI_INLINE void ptoi_grid_write_slot(ptoi_slot *mine, const ptoi_grid_slot *slot)
{
#ifdef __CUDA_ARCH__
    ulonglong2 *half = (ulonglong2 *)(void *)mine;
    half[0] = make_ulonglong2(slot->seq, slot->header);
    half[1] = make_ulonglong2(slot->deps | (unsigned long long)slot->fanin << 32,
                              slot->args | (unsigned long long)slot->n_args << 32);
#else
    ptoi_set64(&mine->seq, slot->seq);
    ptoi_set64(&mine->header, slot->header);
    mine->deps = slot->deps;
    mine->fanin = slot->fanin;
    mine->args = slot->args;
    mine->n_args = slot->n_args;
#endif
}

/* The lap of a task, in state.waiters. */
PTOI_INLINE uint32_t ptoi_grid_lap(const ptoi_view *view, const ptoi_grid_slot *slot)
{
    return ptoi_lap(view, ptoi_slot_header_read(slot->header).level, slot->seq);
}

/* Copies `n` slots from number `seq` on. */
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
                ptoi_grid_write_slot(ptoi_slot_of(&g->view, level, seq + at), &slot[k]);
            }
        }
    }
}

#ifdef __CUDA_ARCH__
/* Copies all of a few tasks of a level. Everything is under way at the same time, so it takes one trip over
 * the bus and not three. Returns false, and has done nothing, if they are too many or a ring wraps. */
PTOI_INLINE bool ptoi_grid_copy_few(const ptoi_grid *g, uint32_t level, uint32_t deps_at,
                                    uint32_t refs, uint32_t args_at, uint32_t units, uint64_t seq,
                                    uint32_t slots)
{
    enum { PAIRS = 2, UNITS = 8, SLOTS = 2 }; /* for each lane */
    const ptoi_view_level *their = &g->window.level[level], *mine = &g->view.level[level];
    const uint32_t first = deps_at / 2, pairs = (deps_at + refs + 1) / 2 - first;
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
            words[0] = head[k];
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

/* Copies what a level has gained since the last reading. */
PTOI_INLINE void ptoi_grid_copy_level(const ptoi_grid *g, ptoi_mover_level *m, uint32_t level)
{
    const uint64_t from = m->mirrored, to = m->known, seq = m->seq;
    const ptoi_view_level *their = &g->window.level[level], *mine = &g->view.level[level];
    uint32_t deps_at = m->deps_at, args_at = m->args_at;
    const uint32_t refs = ptoi_grid_ring_units(from, to, PTOI_HEAD_DEPS, &deps_at, their->n_deps);
    const uint32_t units = ptoi_grid_ring_units(from, to, PTOI_HEAD_ARGS, &args_at, their->n_args);
    const uint32_t slots = ptoi_head_distance(from, to, PTOI_HEAD_SLOTS);
    bool copied = false;
#ifdef __CUDA_ARCH__
    copied = ptoi_grid_copy_few(g, level, deps_at, refs, args_at, units, seq, slots);
#endif
    if (copied) {
        deps_at += refs;
        args_at += units;
    } else {
        ptoi_grid_copy_refs(mine->deps, their->deps, &deps_at, refs, their->n_deps);
        ptoi_grid_copy_ring((uint64_t *)(void *)mine->args, (const uint64_t *)(void *)their->args,
                            &args_at, units, their->n_args);
        ptoi_grid_copy_slots(g, level, seq, slots);
    }
    PTOI_GRID_SYNC();
    if (PTOI_GRID_LANE == 0) {
        m->seq = seq + slots;
        m->deps_at = deps_at;
        m->args_at = args_at;
        m->before = from;
        m->mirrored = to;
    }
}

/* Brings the mirror up to the last reading, for the levels of `work`. */
PTOI_INLINE void ptoi_grid_mirror(const ptoi_grid *g, ptoi_mover *m, uint32_t work)
{
    if (work >> PTOI_GRID_LOG) {
        ptoi_grid_copy_log(g, m->log_mirrored, m->log_known);
        PTOI_GRID_SYNC();
        if (PTOI_GRID_LANE == 0) {
            m->log_mirrored = m->log_known;
            ptoi_far_set64(&g->shared->log_taken, m->log_known);
        }
    }
    for (uint32_t bits = work % (UINT32_C(1) << PTOI_GRID_LOG); bits; bits &= bits - 1) {
        const uint32_t l = PTOI_GRID_LOWEST(bits);
        ptoi_grid_copy_level(g, &m->level[l], l);
    }
    PTOI_GRID_SYNC();
}

/* ---- The mover: heads and releases ---- */

/* What the mover asks the host for in each step. On a device, each lane asks for one word, and nobody waits
 * for an answer before ptoi_grid_hear. */
typedef struct ptoi_question {
#ifdef __CUDA_ARCH__
    uint64_t word;
    uint32_t half;
#else
    uint64_t word[PTOI_MAX_LEVELS + 1]; /* the heads, and that of the log */
#endif
    uint32_t era, cancel[2], hurry;
} ptoi_question;

/* Pairs D1. `busy`: copies are under way at the same time, and ptoi_far_fence comes before the next ones. */
PTOI_INLINE ptoi_question ptoi_grid_ask(const ptoi_grid *g, bool busy)
{
    ptoi_question q;
#ifdef __CUDA_ARCH__
    const uint32_t lane = PTOI_GRID_LANE;
    const ptoi_a64 *word = lane < g->view.levels ? &g->heads[lane] : g->log_head;
    const ptoi_a32 *half = lane == 0   ? g->era
                           : lane == 1 ? g->cancel[0]
                           : lane == 2 ? g->cancel[1]
                                       : &g->shared->hurry;
    q.half = ptoi_far_get32(half);
    q.word = busy ? ptoi_far_acquire64(word) : ptoi_far_await64(word);
#else
    (void)busy;
    q.word[PTOI_GRID_LOG] = ptoi_far_acquire64(g->log_head); /* on a device, in any order */
    for (uint32_t l = 0; l < PTOI_MAX_LEVELS; l++) {
        q.word[l] = l < g->view.levels ? ptoi_far_acquire64(&g->heads[l]) : 0;
    }
    q.era = ptoi_far_get32(g->era);
    q.cancel[0] = ptoi_far_get32(g->cancel[0]);
    q.cancel[1] = ptoi_far_get32(g->cancel[1]);
    q.hurry = ptoi_far_get32(&g->shared->hurry);
#endif
    return q;
}

/* Which levels have changed: a bit for each. */
PTOI_INLINE uint32_t ptoi_grid_hear(const ptoi_grid *g, const ptoi_mover *m, ptoi_question *q)
{
#ifdef __CUDA_ARCH__
    const uint32_t lane = PTOI_GRID_LANE;
    const uint64_t known = lane < g->view.levels   ? m->level[lane].known
                           : lane == PTOI_GRID_LOG ? m->log_known
                                                   : q->word;
    q->era = PTOI_GRID_OF(q->half, 0);
    q->cancel[0] = PTOI_GRID_OF(q->half, 1);
    q->cancel[1] = PTOI_GRID_OF(q->half, 2);
    q->hurry = PTOI_GRID_OF(q->half, 3);
    return PTOI_GRID_VOTES(q->word != known);
#else
    uint32_t changed = (uint32_t)(q->word[PTOI_GRID_LOG] != m->log_known) << PTOI_GRID_LOG;
    for (uint32_t l = 0; l < g->view.levels; l++) {
        changed |= (uint32_t)(q->word[l] != m->level[l].known) << l;
    }
    return changed;
#endif
}

/* Keeps the answers: from now on they are known. */
PTOI_INLINE void ptoi_grid_learn(const ptoi_grid *g, ptoi_mover *m, const ptoi_question *q)
{
#ifdef __CUDA_ARCH__
    const uint32_t lane = PTOI_GRID_LANE;
    if (lane < g->view.levels) {
        m->level[lane].known = q->word;
    } else if (lane == PTOI_GRID_LOG) {
        m->log_known = q->word;
    }
#else
    for (uint32_t l = 0; l < g->view.levels; l++) {
        m->level[l].known = q->word[l];
    }
    m->log_known = q->word[PTOI_GRID_LOG];
#endif
}

/* Whether all lanes have read what `n` more tasks overwrite. All lanes of the mover. */
PTOI_INLINE bool ptoi_grid_has_read(const ptoi_grid *g, ptoi_mover *m, uint32_t n)
{
    uint64_t room = m->room;
    if (m->moved + n > room) {
        uint64_t least = m->moved;
        for (uint32_t lane = PTOI_GRID_LANE; lane < g->n_resolvers; lane += PTOI_GRID_LANES) {
            const uint64_t at = ptoi_acquire64(&g->resolved[lane]); /* pairs D2 */
            least = at < least ? at : least;
        }
        room = ptoi_grid_least(least) + g->inbox_mask + 1;
        PTOI_GRID_SYNC();
        if (PTOI_GRID_LANE == 0) {
            m->room = room;
        }
    }
    return m->moved + n <= room || PTOI_MUTANT(FRESH_EARLY);
}

/* How far a level may be released: see the top of this file. */
PTOI_INLINE uint64_t ptoi_grid_upto(const ptoi_mover *m, uint32_t level, uint32_t changed)
{
    return changed >> PTOI_GRID_LOG && !PTOI_MUTANT(RELEASE_EARLY) ? m->level[level].before
                                                                   : m->level[level].mirrored;
}

/* Enters the tasks of the levels of `work` that may be released into `fresh`. Returns whether there were
 * any; if a lane is slow they wait. */
PTOI_INLINE bool ptoi_grid_enter(const ptoi_grid *g, ptoi_mover *m, uint32_t work, uint32_t changed)
{
    uint32_t all = 0;
    for (uint32_t bits = work; bits; bits &= bits - 1) {
        const uint32_t l = PTOI_GRID_LOWEST(bits);
        all += ptoi_head_distance(m->level[l].released, ptoi_grid_upto(m, l, changed),
                                  PTOI_HEAD_SLOTS);
    }
    if (all == 0 || !ptoi_grid_has_read(g, m, all)) {
        return all != 0;
    }
    uint64_t moved = m->moved;
    for (uint32_t bits = work; bits; bits &= bits - 1) {
        const uint32_t l = PTOI_GRID_LOWEST(bits);
        ptoi_mover_level *level = &m->level[l];
        const uint64_t upto = ptoi_grid_upto(m, l, changed);
        const uint32_t n = ptoi_head_distance(level->released, upto, PTOI_HEAD_SLOTS);
        const uint32_t first = (uint32_t)(g->view.level[l].slots - g->view.slots);
        const uint64_t seq = level->seq -
                             ptoi_head_distance(level->released, level->mirrored, PTOI_HEAD_SLOTS);
        for (uint32_t i = PTOI_GRID_LANE; i < n; i += PTOI_GRID_LANES) {
            g->fresh[(uint32_t)(moved + i) & g->inbox_mask] = first + ((uint32_t)(seq + i) &
                                                                       g->view.level[l].mask);
        }
        moved += n;
        PTOI_GRID_SYNC();
        if (PTOI_GRID_LANE == 0) {
            level->released = upto;
        }
    }
    if (PTOI_GRID_LANE == 0) {
        m->moved = moved;
    }
    return true;
}

/* The levels of `work` whose tasks are not all released. */
PTOI_INLINE uint32_t ptoi_grid_unreleased(const ptoi_mover *m, uint32_t work)
{
    uint32_t left = 0;
    for (uint32_t bits = work; bits; bits &= bits - 1) {
        const uint32_t l = PTOI_GRID_LOWEST(bits);
        left |= (uint32_t)(m->level[l].released != m->level[l].mirrored) << l;
    }
    return left;
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
    uint32_t ticket[PTOI_GRID_QUEUES] = {0}, tail[PTOI_GRID_QUEUES] = {0};
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
    if (!PTOI_MUTANT(LEAVE_EARLY) && !ptoi_grid_all_wait(g)) { /* to close early does no harm */
        m->idle_since = now;
        return false;
    }
    return hurry || now - m->idle_since >= g->idle_ns;
}

/* Copies what is known, and asks for more meanwhile. All lanes. Returns whether there was something. */
PTOI_INLINE bool ptoi_grid_copy(const ptoi_grid *g, ptoi_mover *m, ptoi_question *q)
{
    const uint32_t work = m->behind, levels = work % (UINT32_C(1) << PTOI_GRID_LOG);
    const uint64_t moved = m->moved;
    *q = ptoi_grid_ask(g, work != 0);
    if (work) {
        ptoi_grid_mirror(g, m, work);
    }
    const uint32_t changed = ptoi_grid_hear(g, m, q);
    const bool cancelled = q->cancel[0] == q->era || q->cancel[1] == q->era;
    if (PTOI_GRID_LANE == 0 && (cancelled || !PTOI_MUTANT(CANCEL_STAYS))) {
        ptoi_set32(&g->control->cancelled, cancelled); /* before tasks of a new era are released */
    }
    if (!work && !changed) {
        return false;
    }
    const bool found = levels && ptoi_grid_enter(g, m, levels, changed);
    /* All lanes: the mirror and `fresh`, before `moved`. */
    if (work && changed) {
        ptoi_far_fence(); /* and pairs D1 */
    } else if (work) {
        ptoi_fence();
    }
    PTOI_GRID_SYNC();
    ptoi_grid_learn(g, m, q);
    if (PTOI_GRID_LANE == 0) {
        m->behind = changed | ptoi_grid_unreleased(m, levels);
        if (m->moved != moved) {
            ptoi_follow64(&g->control->moved, m->moved); /* D2 */
        }
    }
    PTOI_GRID_SYNC();
    return found || changed;
}

/* One step of the mover. All lanes. Returns whether it found something to do. */
PTOI_INLINE bool ptoi_grid_move(const ptoi_grid *g, ptoi_mover *m)
{
    bool found = false;
    if (m->phase == PTOI_GRID_RUNS) {
        ptoi_question q;
        found = ptoi_grid_copy(g, m, &q);
        if (PTOI_GRID_LANE == 0) {
            if (ptoi_grid_is_idle(g, m, found, q.hurry)) {
                ptoi_release32(&g->control->closing, 1); /* D7 */
                m->phase = PTOI_GRID_CLOSES;
            }
        }
    } else if (PTOI_GRID_LANE == 0) {
        ptoi_grid_close(g, m);
    }
    PTOI_GRID_SYNC();
    return found;
}

/* ---- Ready tasks ---- */

/* A worker, or the clerk. All of it belongs to one thread. */
typedef struct ptoi_grid_worker {
    uint32_t id;         /* of its ring of completions */
    uint32_t queue;      /* of its tasks; PTOI_NONE: it runs none */
    uint32_t next;       /* a ready task that it runs next; PTOI_NONE */
    ptoi_grid_slot slot; /* of that task */
    bool kept;           /* its last task was such a one */
    uint32_t ticket;     /* that it waits with */
    bool waits;          /* it has a ticket */
    uint32_t done;       /* tasks that it has completed */
    uint32_t taken;      /* of these, the writer had taken so many */
} ptoi_grid_worker;

/* The ring of a task; PTOI_NONE: the host runs it. */
PTOI_INLINE uint32_t ptoi_grid_queue_of(const ptoi_grid *g, const ptoi_grid_slot *slot)
{
    const uint32_t lane = ptoi_slot_header_read(slot->header).lane;
    return ptoi_lane_device(lane) == g->device && ptoi_lane_type(lane) != PTOI_LANE_ENGINE
               ? g->queue_of[ptoi_lane_type(lane)]
               : PTOI_NONE;
}

/* Whether a task is to be skipped, as submit knew or its producers say. The mark in the mirror belongs to
 * the task that has the slot, which takes it away when it completes. */
PTOI_INLINE bool ptoi_grid_is_poisoned(const ptoi_grid *g, uint32_t index,
                                       const ptoi_grid_slot *slot)
{
    return g->view.states[index].poisoned || ptoi_slot_header_read(slot->header).poisoned;
}

PTOI_INLINE void ptoi_grid_push(const ptoi_grid *g, uint32_t index, const ptoi_grid_slot *slot)
{
    ptoi_grid_control *c = g->control;
    const uint32_t queue = ptoi_grid_queue_of(g, slot);
    if (queue == PTOI_NONE) {
        const uint32_t at = ptoi_draw32(&c->host_tail, 1);
        const bool bad = ptoi_grid_is_poisoned(g, index, slot) && !PTOI_MUTANT(HOST_POISON_LOST);
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

/* ---- Resolving ---- */

#define PTOI_GRID_BEYOND (UINT32_C(1) << 31) /* in wait.cursor: it waits for a later producer */

/* Whether a producer is complete, by a word of state.waiters in the mirror. */
PTOI_INLINE bool ptoi_grid_is_complete(uint64_t word, uint32_t lap)
{
    return ptoi_list_closed(word, lap) ||
           ((int32_t)((uint32_t)(word >> 32) - lap) > 0 && !PTOI_MUTANT(NO_LATER_LAP));
}

/* Joins the list of a producer. False: that is complete meanwhile. */
PTOI_INLINE bool ptoi_grid_join(const ptoi_view *view, uint32_t index, uint32_t cursor,
                                ptoi_ref ref, uint64_t word)
{
    ptoi_a64 *waiters = &ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref))->waiters;
    const uint32_t lap = ptoi_lap_of_ref(view, ref);
    view->waits[index].cursor = cursor;
    do {
        view->waits[index].next = ptoi_list_first(word, lap);
        if (ptoi_cas64(waiters, &word, ptoi_list_word(lap, index))) { /* W3 */
            return true;
        }
    } while (!ptoi_grid_is_complete(word, lap));
    return false;
}

/* Whether a task can run. If not, it has joined the list of a producer, and who completes that owns it.
 * Producers before `cursor` are complete. It is ptoi_step_resolve with two differences. A load takes long,
 * so several are under way at a time. And it waits for the newest of several producers that are not
 * complete: that one is likely to be the last, so the task is resolved once more and not for each. */
PTOI_INLINE bool ptoi_grid_can_run(const ptoi_view *view, uint32_t index,
                                   const ptoi_grid_slot *slot, uint32_t cursor)
{
    enum { AHEAD = 4 };
    const uint32_t fanin = slot->fanin;
    const ptoi_ref *refs = view->level[ptoi_slot_header_read(slot->header).level].deps + slot->deps;
    if (cursor == fanin) {
        return true;
    }
    do {
        const uint32_t n = fanin - cursor < AHEAD ? fanin - cursor : AHEAD;
        ptoi_ref ref[AHEAD], newest = 0;
        uint64_t word[AHEAD], its = 0;
        uint32_t first = n, last = n; /* of those that are not complete: the first, the newest */
        bool bad = false;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (uint32_t k = 0; k < AHEAD; k++) {
            ref[k] = k < n ? refs[cursor + k] : 0;
        }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (uint32_t k = 0; k < AHEAD; k++) {
            word[k] = k < n ? ptoi_glance64(
                                  &ptoi_state_of(view, ptoi_ref_level(ref[k]), ptoi_ref_seq(ref[k]))
                                       ->waiters)
                            : 0; /* pairs W2 */
        }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t lap = ptoi_lap_of_ref(view, ref[k]);
            const bool open = k < n && !ptoi_grid_is_complete(word[k], lap);
            bad = bad || (k < n && ptoi_ref_poisons(ref[k]) && ptoi_list_bad(word[k], lap));
            first = open && first == n ? k : first;
            if (open && ref[k] >= newest) {
                newest = ref[k];
                its = word[k];
                last = k;
            }
        }
        if (bad) {
            view->states[index].poisoned = 1;
        }
        cursor += first;
        if (first != n &&
            ptoi_grid_join(view, index, cursor | (last == first ? 0 : PTOI_GRID_BEYOND), newest,
                           its)) {
            return false;
        }
    } while (cursor != fanin);
    ptoi_fence(); /* after ptoi_glance64 */
    return true;
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
    const ptoi_grid_slot slot = ptoi_grid_own_slot(&g->view.slots[index]);
    if (PTOI_MUTANT(NO_LATER_LAP) && lane) {
        ptoi_grid_pause_long();
    }
    if (ptoi_grid_can_run(&g->view, index, &slot, 0)) {
        ptoi_grid_push(g, index, &slot);
    }
    *at += g->n_resolvers;
    ptoi_follow64(&g->resolved[lane], *at); /* D2: it has joined a list, or pushed */
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
    ptoi_grid_worker w = {id, queue, PTOI_NONE, {0, 0, 0, 0, 0, 0}, false, 0, false, done, done};
    return w;
}

/* The next task of a worker: *index, if it is SOMETHING. */
PTOI_INLINE ptoi_grid_found ptoi_grid_take(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t *index)
{
    w->kept = w->next != PTOI_NONE;
    if (w->kept) {
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

/* The slot of a task that was just taken. */
PTOI_INLINE ptoi_grid_slot ptoi_grid_taken_slot(const ptoi_grid *g, const ptoi_grid_worker *w,
                                                uint32_t index)
{
    return w->kept ? w->slot : ptoi_grid_own_slot(&g->view.slots[index]);
}

/* Whether the kernel of a task is called. If not, the task is skipped. */
PTOI_INLINE bool ptoi_grid_may_run(const ptoi_grid *g, uint32_t index, const ptoi_grid_slot *slot)
{
    return !ptoi_grid_is_poisoned(g, index, slot) && !ptoi_get32(&g->control->cancelled);
}

/* Whether the writer has room for another completion. */
PTOI_INLINE bool ptoi_grid_has_room(const ptoi_grid *g, ptoi_grid_worker *w)
{
    if (w->done - w->taken == PTOI_GRID_DONE) {
        w->taken = ptoi_acquire32(&g->done[w->id].taken); /* pairs D4 */
    }
    return w->done - w->taken != PTOI_GRID_DONE;
}

PTOI_INLINE uint64_t ptoi_grid_done_word(uint32_t number, uint32_t lap, uint32_t index,
                                         ptoi_outcome outcome)
{
    _Static_assert(PTOI_MAX_LEVELS * PTOI_HEAD_SLOTS_MAX <= UINT32_C(1) << 22,
                   "a slot has 22 bits");
    return (uint64_t)lap << 32 | (uint64_t)(number & 255) << 24 | (uint64_t)outcome << 22 | index;
}

/* Closes the list of a task and passes the task on to the writer. Returns the list. */
PTOI_INLINE uint32_t ptoi_grid_close_list(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t index,
                                          uint32_t lap, ptoi_outcome outcome)
{
    ptoi_a64 *cell = &g->done[w->id].cell[w->done % PTOI_GRID_DONE];
    const uint64_t word = ptoi_grid_done_word(w->done + 1, lap, index, outcome);
    if (PTOI_UNLIKELY(outcome == PTOI_SKIPPED)) {
        g->view.states[index].poisoned = 0;
    }
    if (PTOI_MUTANT(WRITE_EARLY)) {
        ptoi_release64(cell, word);
        ptoi_grid_pause_long();
    }
    const uint32_t list = ptoi_step_close_list(&g->view, index, lap, outcome);
    while (!ptoi_grid_has_room(g, w)) {
        ptoi_grid_pause();
    }
    ptoi_follow64(cell, word); /* D4 */
    w->done++;
    return list;
}

/* Whether a closed list is one task, which waited for nothing else and can be the worker's next one: a link
 * of a chain. */
PTOI_INLINE bool ptoi_grid_is_link(const ptoi_grid *g, const ptoi_grid_worker *w, uint32_t list,
                                   ptoi_grid_slot *slot)
{
    const ptoi_wait wait = g->view.waits[list];
    *slot = ptoi_grid_own_slot(&g->view.slots[list]);
    return wait.next == PTOI_LIST_EMPTY && wait.cursor + 1 == slot->fanin &&
           w->queue != PTOI_NONE && ptoi_grid_queue_of(g, slot) == w->queue;
}

/* Completes a task. A task that becomes ready by it is the worker's next one, if it can run it. All
 * lanes: the first one closes the list, and then each resolves one task of it. */
PTOI_INLINE void ptoi_grid_complete(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t index,
                                    uint32_t lap, ptoi_outcome outcome)
{
    const ptoi_view *view = &g->view;
    uint32_t closed = PTOI_LIST_EMPTY, next = PTOI_NONE; /* the list of the first lane */
    if (PTOI_GRID_LANE == 0) {
        closed = ptoi_grid_close_list(g, w, index, lap, outcome);
    }
    if (PTOI_GRID_LANES == 1) { /* several lanes look at many at once, and keep the oldest */
        closed = ptoi_step_oldest_first(view, closed);
    }
    uint32_t list = PTOI_GRID_FIRST(closed);
    PTOI_GRID_SYNC(); /* what the first lane has acquired */
    ptoi_grid_slot link;
    if (list < view->n_slots && outcome == PTOI_DONE && ptoi_grid_is_link(g, w, list, &link)) {
        if (PTOI_GRID_LANE == 0) {
            w->slot = link;
            w->next = list;
        }
        return;
    }
    while (list < view->n_slots) {
        uint32_t mine = PTOI_NONE, cursor = 0;
        ptoi_grid_slot slot = {0, 0, 0, 0, 0, 0};
        for (uint32_t n = 0; n < PTOI_GRID_LANES && list < view->n_slots; n++) {
            const ptoi_wait wait = view->waits[list];
            if (n == PTOI_GRID_LANE) {
                mine = list;
                cursor = wait.cursor;
                slot = ptoi_grid_own_slot(&view->slots[mine]); /* under way with the next link */
            }
            list = wait.next;
        }
        bool ready = false;
        if (mine != PTOI_NONE) {
            /* If it waited for the producer at its cursor, that is this task. It is looked at again only
             * if it may poison. */
            const bool pass = !(cursor & PTOI_GRID_BEYOND) && outcome == PTOI_DONE;
            ready = ptoi_grid_can_run(view, mine, &slot, (cursor & ~PTOI_GRID_BEYOND) + pass);
        }
        if (next == PTOI_NONE && w->queue != PTOI_NONE) {
            const uint32_t votes = PTOI_GRID_VOTES(ready &&
                                                   ptoi_grid_queue_of(g, &slot) == w->queue);
            const uint32_t oldest = votes ? PTOI_GRID_LAST(votes) : PTOI_GRID_LANES;
            next = votes ? PTOI_GRID_OF(mine, oldest) : next;
            if (PTOI_GRID_LANE == oldest) {
                w->slot = slot;
                ready = false;
            }
        }
        if (ready) {
            ptoi_grid_push(g, mine, &slot);
        }
        PTOI_GRID_SYNC();
    }
    if (PTOI_GRID_LANE == 0) {
        w->next = next;
    }
}

/* ---- Writers ---- */

/* Writes how a task ended. A task that the host has run has its phase and outcome there already. */
PTOI_INLINE void ptoi_grid_write_state(const ptoi_grid *g, uint32_t id, uint32_t index,
                                       uint32_t lap, uint32_t outcome)
{
    ptoi_state *state = &g->window.states[index];
    const uint32_t phase = ptoi_phase_begin(lap) | PTOI_PHASE_RUNNING | PTOI_PHASE_COMPLETED;
    const uint32_t worker = g->first_line + id;
#ifdef __CUDA_ARCH__
    _Static_assert(offsetof(ptoi_state, phase) == 8 && offsetof(ptoi_state, outcome) == 13 &&
                       offsetof(ptoi_state, worker) == 14,
                   "one store over the bus");
    ptoi_far_set64((ptoi_a64 *)(void *)&state->phase,
                   phase | (uint64_t)outcome << 40 | (uint64_t)worker << 48);
#else
    ptoi_far_set32(&state->phase, phase);
    state->outcome = (uint8_t)outcome;
    state->worker = (uint16_t)worker;
#endif
}

/* Shows the orchestrator that up to PTOI_GRID_BATCH tasks of a ring are complete; from W2 on their slots
 * may be used again. Returns how many. They share a fence, which takes a trip over the bus: a worker must
 * not wait for that with each task of a chain. */
PTOI_INLINE uint32_t ptoi_grid_write_back(const ptoi_grid *g, uint32_t id, uint32_t taken)
{
    ptoi_grid_done *done = &g->done[id];
    const uint64_t completed = ptoi_get64(&done->completed); /* under way with the cells */
    uint64_t word[PTOI_GRID_BATCH];
    uint32_t n = 0, bad = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        word[k] = ptoi_far_acquire64(&done->cell[(taken + k) % PTOI_GRID_DONE]); /* pairs D4 */
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        n += n == k && ((uint32_t)word[k] >> 24) == ((taken + k + 1) & 255);
    }
    if (n == 0) {
        return 0;
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        const uint32_t outcome = (uint32_t)word[k] >> 22 & 3;
        if (k < n && id < g->n_workers) {
            bad |= outcome;
            ptoi_grid_write_state(g, id, (uint32_t)word[k] & 0x3fffff, (uint32_t)(word[k] >> 32),
                                  outcome);
        }
    }
    if (id < g->n_workers) { /* W7: before W2 */
        ptoi_tally *tally = &g->lines[id].tally;
        if (PTOI_UNLIKELY(bad)) {
            for (uint32_t k = 0; k < n; k++) {
                const uint64_t it = ptoi_get64(&done->cell[(taken + k) % PTOI_GRID_DONE]);
                done->failed += ((uint32_t)it >> 22 & 3) == PTOI_FAILED;
                done->skipped += ((uint32_t)it >> 22 & 3) == PTOI_SKIPPED;
            }
            ptoi_far_set64(&tally->failed, done->failed);
            ptoi_far_set64(&tally->skipped, done->skipped);
        }
        ptoi_set64(&done->completed, completed + n);
        ptoi_far_set64(&tally->completed, completed + n);
    }
    ptoi_far_fence();
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        if (k < n) {
            const bool good = ((uint32_t)word[k] >> 22 & 3) == PTOI_DONE;
            ptoi_far_follow64(
                &g->window.states[(uint32_t)word[k] & 0x3fffff].waiters,
                ptoi_list_word((uint32_t)(word[k] >> 32),
                               good ? PTOI_LIST_CLOSED : PTOI_LIST_CLOSED_BAD)); /* W2 */
        }
    }
    return n;
}

/* Looks at the rings of completions lane, lane + n ... Returns whether there was something. */
PTOI_INLINE bool ptoi_grid_write_rings(const ptoi_grid *g, uint32_t lane)
{
    bool found = false;
    for (uint32_t id = lane; id <= g->n_workers; id += g->n_writers) {
        const uint32_t taken = ptoi_own32(&g->done[id].taken);
        const uint32_t n = ptoi_grid_write_back(g, id, taken);
        if (n) {
            ptoi_follow32(&g->done[id].taken, taken + n); /* D4 */
            found = true;
        }
    }
    return found;
}

/* One step of writer lane `lane`. It ends if there is nothing in its rings after it has seen `leave`. */
PTOI_INLINE ptoi_grid_found ptoi_grid_write(const ptoi_grid *g, uint32_t lane)
{
    const uint32_t leave = ptoi_get32(
        &g->control->leave); /* nobody waits for it before the rings */
    if (ptoi_grid_write_rings(g, lane)) {
        return PTOI_GRID_SOMETHING;
    }
    if (PTOI_LIKELY(!leave)) {
        return PTOI_GRID_NOTHING;
    }
    (void)ptoi_acquire32(&g->control->leave); /* pairs D7 */
    if (ptoi_grid_write_rings(g, lane)) {
        return PTOI_GRID_SOMETHING;
    }
    ptoi_grid_leave(g, 1);
    return PTOI_GRID_END;
}

/* ---- The clerk ---- */

/* All of it belongs to one thread; the other lanes have a copy. */
typedef struct ptoi_grid_clerk {
    ptoi_grid_worker worker;
    uint32_t posts_taken;
    uint64_t letter; /* the last one that it has answered */
} ptoi_grid_clerk;

PTOI_INLINE ptoi_grid_clerk ptoi_grid_clerk_begin(const ptoi_grid *g)
{
    const ptoi_grid_clerk clerk = {ptoi_grid_worker_begin(g, g->n_workers, PTOI_NONE),
                                   g->control->posts_taken, g->control->letter};
    return clerk;
}

/* Answers a letter. All lanes. A word travels with the number of the letter. */
PTOI_INLINE void ptoi_grid_answer(const ptoi_grid *g, uint64_t letter)
{
    const uint32_t *from = (const uint32_t *)(uintptr_t)ptoi_letter_from(letter);
    const uint32_t words = ptoi_letter_words(letter);
    const uint64_t number = (uint64_t)ptoi_letter_number(letter) << 32;
    if (words == 1) {
        if (PTOI_GRID_LANE == 0) {
            ptoi_far_follow64(&g->shared->answered, number | *from); /* D9 */
        }
        return;
    }
    for (uint32_t i = PTOI_GRID_LANE; i < words; i += PTOI_GRID_LANES) {
        g->shared->text[i] = from[i];
    }
    PTOI_GRID_SYNC();
    if (PTOI_GRID_LANE == 0) {
        ptoi_far_release64(&g->shared->answered, number); /* D9 */
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

/* Answers a letter, and completes tasks that were posted. All lanes. Returns whether there was one. */
PTOI_INLINE bool ptoi_grid_serve_host(const ptoi_grid *g, ptoi_grid_clerk *clerk)
{
    const uint32_t half = ptoi_far_acquire32(&g->shared->posted); /* pairs D6 */
    const uint64_t word = ptoi_far_acquire64(&g->mail->asked);    /* pairs D9 */
    const uint32_t posted = PTOI_GRID_FIRST(half);
    const uint64_t letter = PTOI_GRID_FIRST(word);
    if (letter == clerk->letter && posted == clerk->posts_taken) {
        return false;
    }
    ptoi_far_fence();
    PTOI_GRID_SYNC();
    if (letter != clerk->letter) {
        ptoi_grid_answer(g, letter);
        clerk->letter = letter;
    }
    for (; clerk->posts_taken != posted; clerk->posts_taken++) {
        const uint64_t post = ptoi_far_word(&g->posts[clerk->posts_taken & g->inbox_mask]);
        const uint32_t index = (uint32_t)post;
        const ptoi_grid_slot slot = ptoi_grid_own_slot(&g->view.slots[index]);
        ptoi_grid_complete(g, &clerk->worker, index, ptoi_grid_lap(&g->view, &slot),
                           (ptoi_outcome)(post >> 32));
    }
    return true;
}

/* One step of the clerk. All lanes. It ends if there is nothing to do after it has seen `closing`. */
PTOI_INLINE ptoi_grid_found ptoi_grid_serve(const ptoi_grid *g, ptoi_grid_clerk *clerk)
{
    ptoi_grid_control *c = g->control;
    const uint32_t half = ptoi_get32(&c->closing); /* nobody waits for it before the host's words */
    if (g->records && PTOI_GRID_LANE == 0) {
        ptoi_grid_tell_time(g);
    }
    if (ptoi_grid_serve_host(g, clerk)) {
        return PTOI_GRID_SOMETHING;
    }
    if (PTOI_LIKELY(!PTOI_GRID_FIRST(half))) {
        return PTOI_GRID_NOTHING;
    }
    (void)ptoi_acquire32(&c->closing); /* pairs D7 */
    if (ptoi_grid_serve_host(g, clerk)) {
        return PTOI_GRID_SOMETHING;
    }
    if (PTOI_GRID_LANE == 0) {
        c->posts_taken = clerk->posts_taken;
        c->letter = clerk->letter;
        ptoi_grid_leave(g, 1);
    }
    return PTOI_GRID_END;
}

#endif /* PTOI_GRID_H */
