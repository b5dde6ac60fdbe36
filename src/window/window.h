/* window.h - the memory that the two sides of a runtime share.
 *
 *   orchestrator's side                                          scheduler's side
 *   submits: writes slot, arguments and edges,   ── inbox ─────> claims tasks in order of submission,
 *   then publishes inbox_head                                    resolves them, runs their kernels,
 *   recycles what is complete  <── state.waiters, tally ──────── completes them
 *
 * The window is one file in memory, in three parts. Each of the first two is written by one side
 * only, and the other side may map it read-only. Both sides use the heaps: kernels write outputs
 * there, pto_write and pto_read copy.
 *
 *   [o] orchestrator's   header | inbox | slots | orders | edges | arguments | layout descriptors
 *                               | sites | kernels | strings | guards
 *   [s] scheduler's      sched_header | worker lines | failures | states | waits | kernel times
 *                               | guards reported
 *       heaps            level 0 | level 1 | ...
 *
 * It is plain data without pointers: places are offsets, tasks are numbers, an argument is
 * (segment, offset). The sides may map it at different addresses. With config.map_twice they do,
 * each with the other's part read-only, so that a store by the wrong side faults.
 *
 * Every field that both sides touch belongs to one of these edges. The store is named first.
 *
 *   W1  inbox_head         released by submit after everything else of the task is written;
 *                          acquired by threads that claim. Asymmetric: store_asym (base/atomic.h).
 *   W2  state.waiters      exchanged to CLOSED by the completing thread after the kernel returned;
 *                          acquired by consumers that resolve, by retire, and by a waiting
 *                          orchestrator. They see the kernel's writes, and the slot is free.
 *   W3  state.waiters      compare-and-swap by a consumer that joins, after its `wait` is written;
 *                          read by the exchange of W2. The list is whole when it is walked.
 *                          (ptoi_scheduler_refresh renews very old words the same way.)
 *   W4  slot.seq           released by submit as the last field of a slot; acquired by consumers
 *                          with a reference to an earlier lap. They see that task complete (submit
 *                          read W2 before it reused the slot), and everything it wrote.
 *   W5  slot.header        released by submit before slot.seq; acquired by outside readers. If a
 *                          reader gets the word of a new task, it sees afterwards that the old
 *                          task is complete, and drops what it read.
 *       orders             released by submit after slot.seq and before progress.head, so that an
 *                          old task that was marked complete there stays complete; released again,
 *                          with the mark, when submit has completed the task itself. Acquired by
 *                          outside readers, by waits and by pto_task_complete.
 *   W6  progress.head,     released by submit after slot and order, and by the thread that calls
 *       worker line.task   the kernel; acquired by outside readers. Slots below the one, and the
 *                          slot of the other, have been written.
 *   W7  tally.completed,   released by the completing thread before W2; acquired by pto_stats and
 *       inlined            tools. A reader that sees a task as complete sees it as submitted.
 *   W8  state.phase        compare-and-swap by pto_task_complete (COMPLETED) and by the worker
 *                          whose kernel returned PTO_PENDING (RETURNED). The later of the two
 *                          completes the task, and sees what the other wrote.
 *   W9  awaited            stored by the orchestrating thread before its last check of W2; loaded
 *                          by the completing thread after W2. Both sequentially consistent: at
 *                          least one of the two sees the other.
 *   W10 idle, resting,     stored by a thread before its last check for work (W1, Q1, stop, W2);
 *       worker line.parked loaded by others after they published work. See scheduler/park.h.
 *   W11 ready_epoch        raised after a push into a ready queue; acquired by workers. A worker
 *                          that found the queues empty need not check them before the next epoch.
 *   W12 stop               stored by the orchestrator; acquired by all threads.
 *   W13 cancel, era        released by the thread that cancels; read relaxed, since no other data
 *                          depends on the flag. `era` changes only while every task is complete,
 *                          and W1 publishes it.
 *   W14 failed.serial      odd while the record is written. Its words are released and acquired, so
 *                          a reader that finds the serial unchanged has read one whole record.
 *
 * W1 also publishes what a task refers to: arguments, edges, layout descriptors, kernels, sites,
 * strings and guards. W2 also publishes outcome, poisoned and guards reported.
 *
 * The queues of the scheduler's side have two more edges, Q1 and Q2 (scheduler/ready.h). Everything
 * else is written before a thread starts, or is a count, a hint or a report that is read relaxed
 * (inbox_claimed, kernel times, waiting, stalled, orchestrator_done).
 */
#ifndef PTOI_WINDOW_H
#define PTOI_WINDOW_H

#include <pto/pto.h>

#include "tensor/desc.h"
#include "window/task.h"

#define PTOI_WINDOW_MAGIC UINT64_C(0x3144574f54505f00)
#define PTOI_WINDOW_VERSION 6u
#define PTOI_WINDOW_NAME "pto-window" /* of the file; tools find it by this name in /proc/PID/fd */
#define PTOI_WINDOW_STRETCH 3    /* heaps with guards are this many times larger: window/guard.h */
#define PTOI_PAGE UINT64_C(4096) /* parts of the window begin at a page */

_Static_assert(PTO_MAX_LEVELS == PTOI_MAX_LEVELS, "a reference can name every level");

/* The status that was given to pto_task_complete. */
static inline pto_status ptoi_phase_status(uint32_t phase)
{
    return (pto_status)(phase >> PTOI_PHASE_STATUS_SHIFT & PTOI_PHASE_STATUS_MASK);
}

/* ---- Arguments ---- */

/* An argument descriptor. The layout of a tensor is a numbered record (tensor/desc.h), or follows
 * the descriptor if it has no number. */
typedef struct ptoi_arg_desc {
    uint64_t value;  /* a scalar, or the place of the first element in its segment */
    uint32_t buffer; /* record of a managed tensor, plus one; 0: user memory */
    uint16_t desc;   /* of a tensor: number of its layout, 0: it follows; of a scalar: its dtype */
    uint8_t segment; /* PTOI_SEGMENT_USER: an address; or the heap of a level: an offset */
    uint8_t access;  /* pto_param_kind, and PTOI_ARG_NODEP */
} ptoi_arg_desc;

_Static_assert(sizeof(ptoi_arg_desc) == 16, "arguments come in units of 16 bytes");
_Static_assert(offsetof(ptoi_arg_desc, buffer) == 8 && offsetof(ptoi_arg_desc, desc) == 12 &&
                   offsetof(ptoi_arg_desc, segment) == 14 &&
                   offsetof(ptoi_arg_desc, access) == 15 &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "submit writes the small fields as one word");
_Static_assert(sizeof(ptoi_desc) % sizeof(ptoi_arg_desc) == 0, "a layout that follows fills units");

#define PTOI_SEGMENT_USER 255
#define PTOI_ARG_NODEP 128u
#define PTOI_ARG_DESC_SHIFT 32 /* in the word of the small fields */
#define PTOI_ARG_SEGMENT_SHIFT 48
#define PTOI_ARG_ACCESS_SHIFT 56

/* The most units that a tensor of `ndim` dims takes. */
static inline uint64_t ptoi_arg_units(int32_t ndim)
{
    return 1 + ptoi_desc_bytes(ndim) / sizeof(ptoi_arg_desc);
}

/* The layout of an argument that is a tensor. */
static inline const ptoi_desc *ptoi_arg_layout(const ptoi_view *view, const ptoi_arg_desc *arg)
{
    return arg->desc ? ptoi_desc_at(view->descs, arg->desc)
                     : (const ptoi_desc *)(const void *)(arg + 1);
}

static inline bool ptoi_arg_is_scalar(const ptoi_arg_desc *arg)
{
    return arg->access == PTO_PARAM_SCALAR;
}

static inline const ptoi_arg_desc *ptoi_arg_next(const ptoi_arg_desc *arg)
{
    if (arg->desc || ptoi_arg_is_scalar(arg)) {
        return arg + 1;
    }
    return arg + ptoi_arg_units(((const ptoi_desc *)(const void *)(arg + 1))->ndim);
}

/* An argument as a kernel sees it. */
static inline void ptoi_arg_scalar(pto_arg *arg, pto_dtype dtype, uint64_t value)
{
    *arg = (pto_arg){.dtype = dtype};
    arg->u64 = value;
}

static inline void ptoi_arg_tensor(pto_arg *arg, const ptoi_desc *desc, char *data)
{
    arg->data = data;
    arg->shape = desc->dims;
    arg->strides = desc->dims + desc->ndim;
    memcpy(&arg->ndim, &desc->ndim, 8); /* and dtype */
    arg->u64 = 0;
}

/* ---- Names: [o] ---- */

typedef struct ptoi_site {
    uint32_t file; /* in the strings */
    int32_t line;
} ptoi_site;

typedef struct ptoi_kernel_entry {
    uint32_t name; /* in the strings */
    uint32_t type; /* pto_worker_type */
} ptoi_kernel_entry;

#define PTOI_MAX_KERNELS 65536 /* as many as a slot header can name */
#define PTOI_MAX_SITES 65536
#define PTOI_STRING_BYTES (UINT64_C(1) << 20)

static inline const char *ptoi_string(const ptoi_view *view, uint32_t at)
{
    return view->strings + at;
}

/* ---- The threads that run kernels: [s] ---- */

/* Counts of one thread. Only that thread raises them. */
typedef struct ptoi_tally {
    ptoi_a64 completed; /* W7 */
    ptoi_a64 failed, skipped;
} ptoi_tally;

/* One cache line that the thread writes for every task, and one for its parking. `task` is not
 * cleared when the kernel returns: the state of the task says whether it still runs. So support for
 * outside readers costs a worker one store per task. */
typedef struct ptoi_worker_line {
    _Alignas(PTOI_LINE) ptoi_a64 task; /* pto_task, the last whose kernel it called; 0: none yet */
    ptoi_tally tally;
    ptoi_a32 types;  /* that it serves; fixed before it starts */
    ptoi_a32 thread; /* id of the thread in the system; 0: it has not started */

    _Alignas(PTOI_LINE) ptoi_a32 parked; /* W10: PTOI_AWAKE or PTOI_ASLEEP */
    ptoi_a64 parks;                      /* how often it slept */
    ptoi_a64 since;                      /* ptoi_os_clock when it last went to sleep; 0: never */
} ptoi_worker_line;

enum { PTOI_AWAKE, PTOI_ASLEEP };

_Static_assert(sizeof(ptoi_worker_line) == 2 * PTOI_LINE, "a worker has two cache lines");

/* Lines after those of the workers. */
enum {
    PTOI_LINE_CALLER,    /* the orchestrating thread */
    PTOI_LINE_SCHEDULER, /* the scheduler's thread, if it has one */
    PTOI_LINE_OTHERS,    /* all other threads that call pto_task_complete; they share a lock */
    PTOI_LINES_MORE,
};

#define PTOI_LINES ((uint32_t)PTO_MAX_WORKERS + PTOI_LINES_MORE)

/* The first failure, in order of submission, that one thread has seen in this era. The orchestrator
 * takes the first of all threads, so that no lock is needed. W14. */
typedef struct ptoi_failed {
    _Alignas(PTOI_LINE) ptoi_a64 serial; /* odd while it is written; 0: no failure yet */
    ptoi_a64 era, order, task, status;
    ptoi_a64 header;      /* ptoi_slot_header of the task */
    ptoi_a64 message[32]; /* text */
} ptoi_failed;

/* How long calls of a kernel take (worker/kernel_time.c). Only hints: relaxed, races do no harm. */
typedef struct ptoi_kernel_time {
    ptoi_a32 length; /* ptoi_length */
    ptoi_a32 owed, suspect, calm;
} ptoi_kernel_time;

typedef enum ptoi_length {
    PTOI_LENGTH_UNKNOWN,
    PTOI_LENGTH_DOUBTED,
    PTOI_LENGTH_SHORT,
    PTOI_LENGTH_MEDIUM,
    PTOI_LENGTH_LONG,
    PTOI_LENGTH_NEVER, /* submit may not run it inline, however short it is */
} ptoi_length;

static inline bool ptoi_is_short(uint32_t length)
{
    return length - PTOI_LENGTH_DOUBTED <= PTOI_LENGTH_SHORT - PTOI_LENGTH_DOUBTED;
}

#define PTOI_MEDIUM 40 /* a kernel is medium below this many times config.inline_ns */

/* ---- What the orchestrator reports to outside readers: [o], relaxed ---- */

/* What the orchestrating thread waits for, while `serial` is odd. */
typedef enum ptoi_why {
    PTOI_WHY_OTHER,
    PTOI_WHY_ALL,     /* all tasks: pto_wait and similar calls */
    PTOI_WHY_TASK,    /* pto_wait_task */
    PTOI_WHY_READ,    /* pto_read: the writers of a tensor */
    PTOI_WHY_WRITE,   /* pto_write: also its readers */
    PTOI_WHY_ROOM,    /* submit: room in a ring */
    PTOI_WHY_DESTROY, /* pto_runtime_destroy */
} ptoi_why;

typedef struct ptoi_waiting {
    _Alignas(PTOI_LINE) ptoi_a64 serial; /* raised when a wait begins, and when it ends */
    ptoi_a64 task;                       /* pto_task; 0: any */
    ptoi_a64 wanted;                     /* PTOI_WHY_ROOM: how much room */
    ptoi_a32 why;                        /* ptoi_why */
    ptoi_a32 level, ring;                /* PTOI_WHY_ROOM: in which ring */
} ptoi_waiting;

/* The last submit that was refused because it would wait forever (pto_last_stall). `serial` is odd
 * while the record is written, and half of it is the number of such submits. */
typedef struct ptoi_stalled {
    _Alignas(PTOI_LINE) ptoi_a64 serial;
    ptoi_a64 size, used, wanted, enough;
    ptoi_a64 task, order;       /* of the oldest task */
    ptoi_a64 submitted;         /* tasks, when it happened */
    ptoi_a64 when;              /* ptoi_os_clock */
    ptoi_a32 kind, ring, level; /* pto_stall_kind, pto_ring */
    ptoi_a32 kernel, site;      /* of the oldest task */
    ptoi_a32 scope;             /* where the scope that holds was opened: a site */
} ptoi_stalled;

/* A ring level, for outside readers; relaxed, except for head. Words that are stored for every task
 * come first. */
typedef struct ptoi_progress {
    ptoi_a64 head, completed, retired; /* task numbers; head: W6 */
    ptoi_a64 published; /* the head when `completed`, `retired` and all below were stored */
    struct {
        ptoi_a64 used; /* not of the task ring: that is head - retired */
        ptoi_a64 peak;
        ptoi_a64 size; /* fixed at creation */
        ptoi_a64 waits;
    } ring[PTO_RINGS];
} ptoi_progress;

/* ---- The two headers ---- */

typedef struct ptoi_window_level {
    uint64_t deps_at, args_at, heap_at; /* offsets */
    uint64_t heap_bytes;
    uint64_t guards_at, begins_at, reported_at; /* window/guard.h; 0: there are none */
    uint32_t first_slot;                        /* index of slot 0 of the level among all slots */
    uint32_t slots;                             /* a power of two */
    uint32_t deps;                              /* references */
    uint32_t arg_units;
} ptoi_window_level;

/* [o], at the start of the window. */
typedef struct ptoi_header {
    /* fixed at creation */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t bytes;              /* of all parts */
    uint64_t sched_at, heaps_at; /* where the second and the third part begin */
    uint32_t levels;
    uint32_t slots; /* of all levels */
    uint64_t inbox_at, slots_at, orders_at, descs_at, sites_at, kernels_at, strings_at;
    uint64_t workers_at, failures_at, states_at, waits_at, times_at;
    uint64_t first_task; /* number of the first task, on every level */
    uint32_t inbox_mask;
    uint32_t max_buffers;
    ptoi_window_level level[PTO_MAX_LEVELS];

    /* fixed before a thread starts; for outside readers */
    ptoi_a64 created; /* ptoi_os_clock */
    ptoi_a32 process; /* process id */
    ptoi_a32 place;   /* pto_place */
    ptoi_a32 workers; /* without the orchestrating thread */
    char runtime[20]; /* version of the library */

    _Alignas(PTOI_LINE) ptoi_a64 inbox_head; /* W1: tasks published */

    /* seldom written, read for every task */
    _Alignas(PTOI_LINE) ptoi_a32 stop; /* W12: all threads must end */
    ptoi_a32 cancel;                   /* W13: the era that was cancelled from this side; 0: none */
    ptoi_a32 era;                      /* W13: counts from 1, raised by pto_clear_error */
    ptoi_a32 inline_ticks;      /* a kernel that takes fewer is short; 0: not known yet. Relaxed */
    ptoi_a32 orchestrator_done; /* no more tasks will be submitted */

    /* for outside readers */
    _Alignas(PTOI_LINE) ptoi_a64 inlined; /* W7: tasks that submit ran inline and completed */
    ptoi_a64 inlined_kept; /* tasks that submit ran inline and recorded: failed or pending */
    ptoi_a64 edges[4];     /* raw, war, waw, after */
    ptoi_a64 scope_depth, buffers, buffers_peak, budget_hits;
    ptoi_progress progress[PTO_MAX_LEVELS];
    ptoi_waiting waiting;
    ptoi_stalled stalled;
} ptoi_header;

#define PTOI_AWAIT_ANY UINT64_MAX /* in `awaited` */

/* [s], at header.sched_at. */
typedef struct ptoi_sched_header {
    _Alignas(PTOI_LINE) ptoi_a64 inbox_claimed; /* tasks taken out of the inbox */
    _Alignas(PTOI_LINE) ptoi_a32 idle;          /* W10: workers that sleep or are about to */
    ptoi_a32 cancel;  /* W13: the era that was cancelled from this side; 0: none */
    ptoi_a64 awaited; /* W9: the task that the orchestrating thread sleeps for; PTOI_AWAIT_ANY; 0 */
    _Alignas(PTOI_LINE) ptoi_a32 ready_epoch; /* W11 */
    _Alignas(PTOI_LINE) ptoi_a32 resting;     /* W10: 1, the scheduler's thread sleeps */
} ptoi_sched_header;

/* Whether the runtime was cancelled, from either side, since the last pto_clear_error. */
static inline bool ptoi_is_cancelled(const ptoi_view *view)
{
    const uint32_t era = ptoi_get32(&view->header->era);
    return ptoi_get32(&view->header->cancel) == era || ptoi_get32(&view->sched->cancel) == era;
}

/* The side that uses a mapping: it may write its own part of the window. */
typedef enum ptoi_side { PTOI_SIDE_ORCHESTRATOR, PTOI_SIDE_SCHEDULER } ptoi_side;

/* Creates a window as configured (every per-level field is set): a file in memory and one mapping
 * of it, zeroed except for the header. */
pto_status ptoi_window_create(const pto_config *config, int *file, void **memory, size_t *bytes);

/* Makes the part of the other side read-only in this mapping. */
pto_status ptoi_window_protect(void *memory, ptoi_side side);

/* The view of a mapping, which may be read-only. PTO_CORRUPT if it is not a window of this version,
 * or if its parts do not fit into it. */
pto_status ptoi_window_attach(void *memory, size_t bytes, ptoi_view *view);

/* The rings of a level, as the orchestrator published them last. Any thread, any process. */
void ptoi_window_read_rings(const ptoi_view *view, uint32_t level, pto_level_stats *out);

#endif /* PTOI_WINDOW_H */
