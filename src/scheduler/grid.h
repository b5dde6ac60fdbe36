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
 * all lanes of a warp (PTOI_GRID_LANES, 1 in C). This file has what the roles share; each has its own:
 *
 *     grid_move.h      the mover: heads, releases, the end of the grid. Its copies: grid_copy.h
 *     grid_resolve.h   resolvers: whether a task can run, and the ready rings
 *     grid_work.h      workers: they take ready tasks and complete them
 *     grid_write.h     writers: completions, shown to the host
 *     grid_clerk.h     the clerk: tasks that the host has run, and small reads
 *     grid_log.h       what workers record of a traced run
 *
 * The edges, in addition to those of window.h. The store is named first.
 *
 *   D1  heads[l], log_head   released by submit after everything of the task is written; acquired by the
 *                            mover. A word for each level, so each is consistent in itself.
 *   D2  control.moved        released by the mover after the mirror of these tasks, and of all tasks that
 *                            they may refer to, is written; acquired by resolvers.
 *                            A few tasks the mover resolves itself: its fence is that of can_run.
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
 *   D7  closing, left,       the end of the grid: see grid_move.h.
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
#define PTOI_GRID_COUNT(bits) ((uint32_t)__popc(bits))
#define PTOI_GRID_UNROLL _Pragma("unroll")
#define PTOI_GRID_ROLLED _Pragma("unroll 1")

/* The least and the greatest value of all lanes. */
PTOI_INLINE uint64_t ptoi_grid_least(uint64_t value)
{
    for (uint32_t apart = 16; apart; apart /= 2) {
        const uint64_t other = __shfl_xor_sync(0xffffffffu, value, apart);
        value = other < value ? other : value;
    }
    return value;
}

PTOI_INLINE uint64_t ptoi_grid_most(uint64_t value)
{
    return ~ptoi_grid_least(~value);
}
#else
#define PTOI_GRID_LANES 1u
#define PTOI_GRID_LANE 0u
#define PTOI_GRID_SYNC() ((void)0)
#define PTOI_GRID_OF(value, lane) ((void)(lane), (value))
#define PTOI_GRID_FIRST(value) (value)
#define PTOI_GRID_VOTES(value) ((uint32_t)(value))
#define PTOI_GRID_LAST(votes) ((void)(votes), 0u)
#define PTOI_GRID_LOWEST(bits) ((uint32_t)__builtin_ctz(bits))
#define PTOI_GRID_COUNT(bits) ((uint32_t)__builtin_popcount(bits))
#define PTOI_GRID_UNROLL
#define PTOI_GRID_ROLLED
#define ptoi_grid_least(value) (value)
#define ptoi_grid_most(value) (value)
#endif

/* How many of these bits are those of lanes before this one. */
PTOI_INLINE uint32_t ptoi_grid_before(uint32_t bits)
{
    return PTOI_GRID_COUNT(bits & ((1u << PTOI_GRID_LANE) - 1u));
}

/* The lane of bit number n of these, from the lowest one on. There are more than n. */
PTOI_INLINE uint32_t ptoi_grid_nth(uint32_t bits, uint32_t n)
{
    uint32_t at = 0;
    PTOI_GRID_UNROLL
    for (uint32_t half = PTOI_GRID_LANES / 2; half; half /= 2) {
        const uint32_t low = PTOI_GRID_COUNT(bits >> at & ((1u << half) - 1u));
        at += n >= low ? half : 0;
        n -= n >= low ? low : 0;
    }
    return at;
}

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
#define PTOI_GRID_FEW 8u    /* tasks that the mover resolves itself, if no more are known */

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
    uint64_t shown;           /* of the writer: the task that it has shown as running: W6 */
    _Alignas(
        PTOI_LINE) ptoi_a64 running; /* the task whose kernel the worker called last; relaxed */
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
    uint64_t moved;      /* tasks released to resolvers, on all levels */
    uint64_t resolved;   /* further tasks, which it has resolved itself */
    uint64_t room;       /* in `fresh`: up to this task */
    uint64_t idle_since; /* clock of the device; 0: it was busy */
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
    uint32_t few;                          /* PTOI_GRID_FEW; 0: resolvers have all tasks */
    uint32_t device;                       /* its number, in lanes of tasks */
    uint32_t first_line;                   /* number of the line of its first worker */
    uint32_t queue_of[4];                  /* by worker type */
    uint64_t idle_ns;                      /* it ends when there was nothing to do for so long */
} ptoi_grid;

/* ---- A slot in registers ---- */

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

/* ---- Steps ---- */

/* What a step of a role found to do. */
typedef enum ptoi_grid_found {
    PTOI_GRID_NOTHING,
    PTOI_GRID_SOMETHING,
    PTOI_GRID_END, /* the role has ended */
} ptoi_grid_found;

/* A role of so many lanes has ended. */
PTOI_INLINE void ptoi_grid_leave(const ptoi_grid *g, uint32_t lanes)
{
    ptoi_fetch_add32(&g->control->left, lanes); /* D7 */
}

#endif /* PTOI_GRID_H */
