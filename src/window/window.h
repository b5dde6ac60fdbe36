/* window.h - the memory that both sides of the runtime share.
 *
 *   orchestrator's side                                          scheduler's side
 *   submits: writes slot, arguments, edges, ── inbox ──────────> claims tasks in order of submission,
 *   then raises inbox_head                                       runs them when their producers are
 *   recycles what is closed <───────────────── slot.waiters ──── complete, closes their slots
 *
 *     +--------+---------+-------+---------------+---------+---------+-------+---------+----------+
 *     | header | workers | inbox | slots         | edges   | args    | sites | strings | heaps    |
 *     +--------+---------+-------+---------------+---------+---------+-------+---------+----------+
 *                                 level 0, 1 ...  level 0..  level 0..                  level 0 ..
 *
 * Plain data, no pointers: places are offsets from the start, tasks are numbers. Two processes may
 * see it at different addresses. It is a file in memory, so that a tool can map it read-only.
 *
 * A task is known by its level and its number there, `seq`, which never comes twice: it lies in slot
 * seq & mask of the level. A reference packs both:
 *
 *     ref = seq << 4 | level << 1 | poisons          pto_task = seq << 3 | level
 *
 * The protocol has three edges, and no more:
 *   W1  inbox_head, told by the orchestrator after everything about the task is written;
 *       read (acquire) by whoever claims from the inbox.
 *   W2  slot.waiters, swapped to CLOSED by the scheduler's side after the kernel has returned; read
 *       (acquire) by consumers that look whether their producer is complete, and by the
 *       orchestrator before it recycles. So the kernel's writes are seen by consumers, and the slot
 *       is not touched any more by the one who closed it. (A consumer that finds the slot recycled
 *       sees them through `seq`, which the orchestrator releases after it has read W2.)
 *   W3  slot.waiters, compared and swapped by a consumer that joins the list, after its own `next`
 *       is written; read by the swap of W2. So the list is whole when it is walked.
 *
 * Joining and closing are operations on one word, so a consumer is either in the list before it is
 * closed, and is then looked at by the one who closes; or finds it closed, and does not wait. There
 * is no count that could disagree with the list.
 */
#ifndef PTOI_WINDOW_H
#define PTOI_WINDOW_H

#include <pto/config.h>

#include "base/atomic.h"

#define PTOI_WINDOW_MAGIC UINT64_C(0x3144574f54505f00)
#define PTOI_WINDOW_VERSION 2u
#define PTOI_WINDOW_NAME "pto-window" /* of the file: how a tool finds it under /proc/PID/fd */
#define PTOI_LINE 64
#define PTOI_WINDOW_STRETCH 3    /* heaps with guards (ring/guard.h) take so much more room */
#define PTOI_PAGE UINT64_C(4096) /* parts of the window begin at one */

#define PTOI_NONE UINT32_MAX

typedef uint64_t ptoi_ref;

static inline ptoi_ref ptoi_ref_make(uint64_t seq, uint32_t level, bool poisons)
{
    return seq << 4 | (uint64_t)level << 1 | poisons;
}

static inline uint64_t ptoi_ref_seq(ptoi_ref ref)
{
    return ref >> 4;
}

static inline uint32_t ptoi_ref_level(ptoi_ref ref)
{
    return (uint32_t)(ref >> 1) & 7;
}

static inline bool ptoi_ref_poisons(ptoi_ref ref)
{
    return ref & 1;
}

static inline pto_task ptoi_ref_task(ptoi_ref ref)
{
    return ref >> 1;
}

/* slot.waiters: the upper half says whose list it is (which time round the ring), the lower half is
 * the first task in it, or one of these. */
#define PTOI_LIST_EMPTY UINT32_MAX
#define PTOI_LIST_CLOSED (UINT32_MAX - 1)     /* complete */
#define PTOI_LIST_CLOSED_BAD (UINT32_MAX - 2) /* complete: failed or skipped */
#define PTOI_SLOTS_MAX (UINT32_MAX - 3)

static inline uint32_t ptoi_list_first(uint64_t waiters)
{
    return (uint32_t)waiters;
}

static inline bool ptoi_list_closed(uint64_t waiters)
{
    return ptoi_list_first(waiters) - PTOI_LIST_CLOSED_BAD <= 1;
}

static inline bool ptoi_list_bad(uint64_t waiters)
{
    return ptoi_list_first(waiters) == PTOI_LIST_CLOSED_BAD;
}

/* slot.phase: these, the status of pto_task_complete, and which time round the ring it is. */
#define PTOI_PHASE_RUNNING 1u   /* a worker has it */
#define PTOI_PHASE_RETURNED 2u  /* its kernel returned PTO_PENDING */
#define PTOI_PHASE_COMPLETED 4u /* pto_task_complete was called */
#define PTOI_PHASE_STATUS_SHIFT 4
#define PTOI_PHASE_STATUS_MASK 255u
#define PTOI_PHASE_ROUND_SHIFT 12

typedef enum ptoi_outcome {
    PTOI_DONE,
    PTOI_FAILED,
    PTOI_SKIPPED,
} ptoi_outcome;

/* A task: one line of cache. [o] written by the orchestrator before W1, [s] by the scheduler's side
 * after it, one thread at a time. Atomic is what others may look at meanwhile. */
typedef struct ptoi_slot {
    ptoi_a64 waiters; /* [o] emptied, then both: see W2, W3 */
    ptoi_a64 seq;     /* [o] read by anybody who holds a reference, to see that it is this task */
    ptoi_a64 order;   /* [o] how many tasks were submitted before it */
    uint32_t next;    /* [s] the next in the list it waits in; written before it joins (W3) */
    uint32_t cursor;  /* [s] producers before this one are complete */
    uint32_t deps;    /* [o] where its references to producers begin, in the edges of its level */
    uint32_t fanin;   /* [o] how many there are */
    uint32_t args;    /* [o] where its arguments begin, in units of 16 bytes */
    uint32_t n_args;  /* [o] */
    ptoi_a32 kernel;  /* [o] */
    ptoi_a32 phase;   /* [s] and pto_task_complete */
    uint32_t site;    /* [o] where it was submitted */
    uint8_t level;    /* [o] */
    uint8_t type;     /* [o] pto_worker_type */
    uint8_t poisoned; /* [o], then [s] as producers turn out bad: it will be skipped */
    uint8_t outcome;  /* [s] ptoi_outcome */
} ptoi_slot;

_Static_assert(sizeof(ptoi_slot) == PTOI_LINE, "a slot is one line of cache");

/* An argument: this, then ndim sizes and ndim strides. Units of 16 bytes. */
typedef struct ptoi_packed {
    uint64_t value;  /* a scalar, or where the first element lies */
    uint32_t buffer; /* the record of a managed tensor, plus one; 0: memory of the user */
    uint8_t segment; /* what `value` counts from: PTOI_SEGMENT_USER, or the heap of a level */
    uint8_t dtype;   /* of the tensor or scalar */
    uint8_t ndim;    /* */
    uint8_t access;  /* pto_param_kind, and PTOI_PACKED_NODEP */
} ptoi_packed;

_Static_assert(sizeof(ptoi_packed) == 16, "arguments come in units of 16 bytes");
_Static_assert(offsetof(ptoi_packed, buffer) == 8 && offsetof(ptoi_packed, segment) == 12 &&
                   offsetof(ptoi_packed, dtype) == 13 && offsetof(ptoi_packed, ndim) == 14 &&
                   offsetof(ptoi_packed, access) == 15 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "submit writes the small fields as one word");

#define PTOI_SEGMENT_USER 255
#define PTOI_PACKED_NODEP 128u

/* Units that a tensor of so many dims takes. */
static inline uint64_t ptoi_packed_units(int32_t ndim)
{
    return 1 + (uint64_t)ndim;
}

typedef struct ptoi_site {
    uint32_t file; /* in the strings */
    int32_t line;
} ptoi_site;

typedef struct ptoi_kernel_entry {
    uint32_t name; /* in the strings */
    uint32_t type;
} ptoi_kernel_entry;

#define PTOI_MAX_KERNELS 65536
#define PTOI_MAX_SITES 65536
#define PTOI_STRING_BYTES (UINT64_C(1) << 20)

/* What a thread counted; raised by itself alone, read by anybody. */
typedef struct ptoi_tally {
    ptoi_a64 completed; /* released: who sees it counted sees it submitted, too */
    ptoi_a64 failed, skipped;
} ptoi_tally;

/* A thread that runs kernels, for whoever looks in: one line of cache that nobody else writes. What
 * it ran last is not taken back when that is over, for whether it is the task itself says: it is
 * complete, or its kernel has returned. So looking in costs a worker one store a task. */
typedef struct ptoi_worker_line {
    ptoi_a64 task; /* pto_task, the last whose kernel it called; 0: none so far */
    ptoi_tally tally;
    ptoi_a32 types;  /* that it serves; fixed before it starts */
    ptoi_a32 thread; /* its number at the operating system; 0: it has not started */
    uint64_t unused[3];
} ptoi_worker_line;

_Static_assert(sizeof(ptoi_worker_line) == PTOI_LINE, "a worker has one line of cache");

/* Lines after those of the workers. */
enum {
    PTOI_LINE_CALLER,    /* the orchestrating thread */
    PTOI_LINE_SCHEDULER, /* the scheduler's, where it has a thread */
    PTOI_LINE_OTHERS,    /* all that call pto_task_complete: the tally alone, under a lock */
    PTOI_LINES_MORE,
};

#define PTOI_LINES ((uint32_t)PTO_MAX_WORKERS + PTOI_LINES_MORE)

/* What the orchestrating thread waits for; [o], relaxed, for people. It counts while `serial` is
 * odd. */
typedef enum ptoi_why {
    PTOI_WHY_OTHER,
    PTOI_WHY_ALL,     /* every task: pto_wait and the like */
    PTOI_WHY_TASK,    /* pto_wait_task */
    PTOI_WHY_READ,    /* pto_read: the writers of a tensor */
    PTOI_WHY_WRITE,   /* pto_write: its readers, too */
    PTOI_WHY_ROOM,    /* submit: room in a ring */
    PTOI_WHY_DESTROY, /* pto_runtime_destroy */
} ptoi_why;

typedef struct ptoi_waiting {
    _Alignas(PTOI_LINE) ptoi_a64 serial; /* raised as a wait begins, and as it ends */
    ptoi_a64 task;                       /* pto_task; 0: any */
    ptoi_a64 since;                      /* ptoi_os_clock as it went to sleep; 0: it has not */
    ptoi_a64 wanted;                     /* room: how much */
    ptoi_a32 why;                        /* ptoi_why */
    ptoi_a32 level, ring;                /* room: of which */
} ptoi_waiting;

/* The last stall; [o], for people. `serial` is odd while it is written, and half of it is how many
 * there were. */
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

typedef struct ptoi_window_level {
    uint64_t deps_at, args_at, heap_at; /* offsets */
    uint64_t heap_bytes;
    uint32_t first_slot; /* number of slot 0 of the level among all slots */
    uint32_t slots;      /* a power of two */
    uint32_t deps;       /* references */
    uint32_t arg_units;
    uint32_t map_entries;
    uint32_t unused;
} ptoi_window_level;

/* What the orchestrator tells whoever looks in; relaxed, for people. */
typedef struct ptoi_progress {
    ptoi_a64 head, completed, retired; /* task numbers */
    ptoi_a64 heap_used, args_used, deps_used, map_used;
    ptoi_a64 tasks_peak, heap_peak, args_peak, deps_peak, map_peak;
    ptoi_a64 stalls[5]; /* by ptoi_shortage */
} ptoi_progress;

typedef struct ptoi_header {
    /* fixed at creation */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t levels;
    uint32_t slots; /* of all levels */
    uint64_t inbox_at, slots_at, workers_at, sites_at, kernels_at, strings_at;
    uint32_t inbox_mask;
    uint32_t max_buffers;
    ptoi_window_level level[PTO_MAX_LEVELS];

    /* fixed before a thread starts; for people */
    ptoi_a64 created; /* ptoi_os_clock */
    ptoi_a32 process; /* its number at the operating system */
    ptoi_a32 place;   /* pto_place */
    ptoi_a32 workers; /* without the orchestrating thread */
    char runtime[20]; /* version of the library */

    /* [o] */
    _Alignas(PTOI_LINE) ptoi_a64 inbox_head; /* W1: tasks submitted */
    ptoi_a32 orchestrator_done;              /* no more will come */

    /* [s] */
    _Alignas(PTOI_LINE) ptoi_a64 inbox_claimed; /* tasks taken out of the inbox */

    /* both, rarely */
    _Alignas(PTOI_LINE) ptoi_a32 cancelled; /* pto_cancel: any thread */

    /* [o] for people */
    _Alignas(PTOI_LINE) ptoi_a64 edges[4]; /* raw, war, waw, after */
    ptoi_a64 scope_depth, buffers, buffers_peak, budget_hits;
    ptoi_progress progress[PTO_MAX_LEVELS];
    ptoi_waiting waiting;
    ptoi_stalled stalled;
} ptoi_header;

/* One side's view of the window: where things lie for it. */
typedef struct ptoi_view_level {
    ptoi_slot *slots;
    uint64_t *deps;
    ptoi_packed *args;
    char *heap;
    uint32_t mask;
    uint32_t shift; /* seq >> shift: which time round the ring */
} ptoi_view_level;

typedef struct ptoi_view {
    ptoi_header *header;
    ptoi_slot *slots;
    ptoi_a32 *inbox; /* numbers of slots */
    ptoi_worker_line *workers;
    ptoi_site *sites;
    ptoi_kernel_entry *kernels;
    char *strings;
    uint32_t inbox_mask;
    ptoi_view_level level[PTO_MAX_LEVELS];
} ptoi_view;

/* Makes a window as configured (every per-level field is set): a file in memory, and one mapping of
 * it, zeroed but for the header. */
pto_status ptoi_window_create(const pto_config *config, int *file, void **memory, size_t *bytes);

/* Looks at a mapping, which need not be writable: PTO_CORRUPT if it is no window of this version, or does not fit its size. */
pto_status ptoi_window_attach(void *memory, size_t bytes, ptoi_view *view);

static inline ptoi_slot *ptoi_slot_of(const ptoi_view *view, uint32_t level, uint64_t seq)
{
    const ptoi_view_level *l = &view->level[level];
    return &l->slots[(uint32_t)seq & l->mask];
}

static inline uint32_t ptoi_slot_number(const ptoi_view *view, const ptoi_slot *slot)
{
    return (uint32_t)(slot - view->slots);
}

/* The upper half of the word of a task. 2^32 rounds of the ring later it comes again: hence `seq`
 * is compared too, and only a consumer that sleeps between a load and its compare-and-swap for all
 * of that time could be fooled. */
static inline uint64_t ptoi_list_tag(const ptoi_view *view, uint32_t level, uint64_t seq)
{
    return (uint64_t)(uint32_t)(seq >> view->level[level].shift) << 32;
}

/* Whether a task is complete; the word that said so is in *waiters. A slot that is another task's by
 * now was recycled, which only complete ones are. Bad ones (failed, skipped) are not recycled as
 * long as somebody might ask: see retire. */
static inline bool ptoi_is_complete(const ptoi_view *view, const ptoi_slot *slot, ptoi_ref ref,
                                    uint64_t *waiters)
{
    *waiters = ptoi_acquire64(&slot->waiters); /* pairs W2 */
    return ptoi_list_closed(*waiters) ||
           (*waiters >> 32 << 32) != ptoi_list_tag(view, ptoi_ref_level(ref), ptoi_ref_seq(ref)) ||
           ptoi_acquire64(&slot->seq) != ptoi_ref_seq(ref); /* pairs the release in write.c */
}

static inline bool ptoi_task_is_complete(const ptoi_view *view, ptoi_ref ref)
{
    uint64_t waiters;
    return ptoi_is_complete(view, ptoi_slot_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref)), ref,
                            &waiters);
}

static inline const char *ptoi_string(const ptoi_view *view, uint32_t at)
{
    return view->strings + at;
}

#endif /* PTOI_WINDOW_H */
