/* window.h - the memory that both sides of the runtime share.
 *
 *   orchestrator's side                                          scheduler's side
 *   submits: writes slot, arguments, edges, ── inbox ──────────> claims tasks in order of submission,
 *   then raises inbox_head                                       runs them when their producers are
 *   recycles what is closed <───────────────── state.waiters ─── complete, closes their lists
 *
 *     header | workers | inbox | slots | states | waits | orders | edges | args | forms | sites
 *            | kernels | strings | heaps             (slots to args, and heaps: level 0, level 1 ...)
 *
 * What costs most is a line of cache that goes from core to core. So what the one side writes for
 * every task (slot, arguments, edges) is dense, and is never written by the other, which has its own
 * part (state): lines go one way, several tasks in each.
 *
 * Plain data, no pointers: places are offsets from the start, tasks are numbers. Two processes may
 * see it at different addresses. It is a file in memory, so that a tool can map it read-only.
 *
 * A task is known by its level and its number there, `seq`, which never comes twice: it lies in slot
 * seq & mask of the level, for one lap of the ring. A reference packs both:
 *
 *     ref = seq << 4 | level << 1 | poisons          pto_task = seq << 3 | level
 *
 * The protocol has three edges, and no more:
 *   W1  inbox_head, told by the orchestrator after everything about the task is written;
 *       read (acquire) by whoever claims from the inbox.
 *   W2  state.waiters, swapped to CLOSED by the scheduler's side after the kernel has returned; read
 *       (acquire) by consumers that look whether their producer is complete, and by the
 *       orchestrator before it recycles. So the kernel's writes are seen by consumers, and the slot
 *       is not touched any more by the one who closed it. (A consumer that finds the slot recycled
 *       sees them through `seq`, which the orchestrator releases after it has read W2.)
 *   W3  state.waiters, compared and swapped by a consumer that joins the list, after its own `next`
 *       is written; read by the swap of W2. So the list is whole when it is walked.
 *
 * The orchestrator does not write that word as it submits: one of an earlier lap means that nobody
 * has joined yet.
 *
 * Joining and closing are operations on one word, so a consumer is either in the list before it is
 * closed, and is then looked at by the one who closes; or finds it closed, and does not wait. There
 * is no count that could disagree with the list.
 */
#ifndef PTOI_WINDOW_H
#define PTOI_WINDOW_H

#include <pto/pto.h>

#include "base/atomic.h"
#include "base/mutant.h"
#include "tensor/form.h"

#define PTOI_WINDOW_MAGIC UINT64_C(0x3144574f54505f00)
#define PTOI_WINDOW_VERSION 5u
#define PTOI_WINDOW_NAME "pto-window" /* of the file: how a tool finds it under /proc/PID/fd */
#define PTOI_LINE 64
#define PTOI_WINDOW_STRETCH 3    /* heaps with guards (window/guard.h) take so much more room */
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

/* state.waiters: the upper half says which lap it is of, the lower half is the first task in the list,
 * or one of these. */
#define PTOI_LIST_EMPTY UINT32_MAX            /* nobody is; never in the word itself */
#define PTOI_LIST_CLOSED (UINT32_MAX - 1)     /* complete */
#define PTOI_LIST_CLOSED_BAD (UINT32_MAX - 2) /* complete: failed or skipped */
#define PTOI_SLOTS_MAX (UINT32_MAX - 3)

static inline uint64_t ptoi_list_word(uint32_t lap, uint32_t first)
{
    return (uint64_t)lap << 32 | first;
}

/* Whether the task of this lap is complete, if the slot is still its own. */
static inline bool ptoi_list_closed(uint64_t waiters, uint32_t lap)
{
    if (PTOI_MUTANT(NO_LAP)) {
        return (uint32_t)waiters >= PTOI_LIST_CLOSED_BAD;
    }
    return waiters - ptoi_list_word(lap, PTOI_LIST_CLOSED_BAD) <= 1;
}

/* Whether it is bad. Those are not recycled as long as somebody might ask: see retire. */
static inline bool ptoi_list_bad(uint64_t waiters, uint32_t lap)
{
    return waiters == ptoi_list_word(lap, PTOI_LIST_CLOSED_BAD);
}

/* The list of the task of this lap, which is not complete, or was not until just now. */
static inline uint32_t ptoi_list_first(uint64_t waiters, uint32_t lap)
{
    return (uint32_t)(waiters >> 32) == lap ? (uint32_t)waiters : PTOI_LIST_EMPTY;
}

/* state.phase: these, the status of pto_task_complete, and the lower bits of the lap. */
#define PTOI_PHASE_RUNNING 1u   /* a worker has it */
#define PTOI_PHASE_RETURNED 2u  /* its kernel returned PTO_PENDING */
#define PTOI_PHASE_COMPLETED 4u /* pto_task_complete was called */
#define PTOI_PHASE_STATUS_SHIFT 4
#define PTOI_PHASE_STATUS_MASK 255u
#define PTOI_PHASE_LAP_SHIFT 12

typedef enum ptoi_outcome {
    PTOI_DONE,
    PTOI_FAILED,
    PTOI_SKIPPED,
} ptoi_outcome;

/* A task as the orchestrator wrote it, before W1: half a line of cache. Atomic is what others may look
 * at while the next one is written. */
typedef struct ptoi_slot {
    ptoi_a64 seq;    /* who holds a reference sees that it is this task */
    ptoi_a64 what;   /* ptoi_what */
    uint32_t deps;   /* where its references to producers begin, in the edges of its level */
    uint32_t fanin;  /* how many there are */
    uint32_t args;   /* where its arguments begin, in units of 16 bytes */
    uint32_t n_args; /* */
} ptoi_slot;

_Static_assert(sizeof(ptoi_slot) == PTOI_LINE / 2, "a slot is half a line of cache");

/* What is small of a task, in one word. */
typedef struct ptoi_what {
    uint16_t kernel;
    uint16_t site;    /* where it was submitted */
    uint8_t level;    /* */
    uint8_t type;     /* pto_worker_type */
    uint8_t poisoned; /* it will be skipped */
    uint8_t unused;   /* */
} ptoi_what;

_Static_assert(sizeof(ptoi_what) == 8, "it is one word");

/* What became of a task: written by the scheduler's side alone, by one thread at a time, from the
 * moment that it is claimed; but a task that is complete from the start, by the orchestrator. */
typedef struct ptoi_state {
    ptoi_a64 waiters; /* see W2, W3 */
    ptoi_a32 phase;   /* by pto_task_complete as well */
    uint8_t poisoned; /* as submitted, or as producers turned out bad: it will be skipped */
    uint8_t outcome;  /* ptoi_outcome */
    uint16_t unused;
} ptoi_state;

_Static_assert(sizeof(ptoi_state) == 16, "four states are a line of cache");

/* A task that waits in the list of a producer: likewise. */
typedef struct ptoi_wait {
    uint32_t next;   /* in that list; written before it joins (W3) */
    uint32_t cursor; /* producers before this one are complete */
} ptoi_wait;

/* An argument: 16 bytes. What a tensor is like beyond its memory stands among the forms, or right
 * after the argument if it has no number there. */
typedef struct ptoi_packed {
    uint64_t value;  /* a scalar, or where the first element lies */
    uint32_t buffer; /* the record of a managed tensor, plus one; 0: memory of the user */
    uint16_t form;   /* of a tensor: its number, 0: it follows; of a scalar: its dtype */
    uint8_t segment; /* what `value` counts from: PTOI_SEGMENT_USER, or the heap of a level */
    uint8_t access;  /* pto_param_kind, and PTOI_PACKED_NODEP */
} ptoi_packed;

_Static_assert(sizeof(ptoi_packed) == 16, "arguments come in units of 16 bytes");
_Static_assert(offsetof(ptoi_packed, buffer) == 8 && offsetof(ptoi_packed, form) == 12 &&
                   offsetof(ptoi_packed, segment) == 14 && offsetof(ptoi_packed, access) == 15 &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "submit writes the small fields as one word");
_Static_assert(sizeof(ptoi_form) % sizeof(ptoi_packed) == 0, "a form that follows fills its units");

#define PTOI_SEGMENT_USER 255
#define PTOI_PACKED_NODEP 128u
#define PTOI_PACKED_FORM_SHIFT 32 /* in the word of the small fields */
#define PTOI_PACKED_SEGMENT_SHIFT 48
#define PTOI_PACKED_ACCESS_SHIFT 56

/* The most units that a tensor of so many dims takes. */
static inline uint64_t ptoi_packed_units(int32_t ndim)
{
    return 1 + ptoi_form_bytes(ndim) / sizeof(ptoi_packed);
}

typedef struct ptoi_site {
    uint32_t file; /* in the strings */
    int32_t line;
} ptoi_site;

typedef struct ptoi_kernel_entry {
    uint32_t name; /* in the strings */
    uint32_t type;
} ptoi_kernel_entry;

#define PTOI_MAX_KERNELS 65536 /* as many as `what` can tell apart */
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
    ptoi_a64 told;                     /* the head as all below, and the two above, were told */
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
    uint64_t inbox_at, slots_at, states_at, waits_at, orders_at;
    uint64_t workers_at, forms_at, sites_at, kernels_at, strings_at;
    uint64_t first_task; /* numbers begin there, on every level */
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
    _Alignas(PTOI_LINE) ptoi_a64 at_once; /* tasks that submit ran itself: never in the inbox */
    ptoi_a64 edges[4];                    /* raw, war, waw, after */
    ptoi_a64 scope_depth, buffers, buffers_peak, budget_hits;
    ptoi_progress progress[PTO_MAX_LEVELS];
    ptoi_waiting waiting;
    ptoi_stalled stalled;
} ptoi_header;

/* One side's view of the window: where things lie for it. Of a task `slots`, `states`, `waits` and
 * `orders` hold the same number. */
typedef struct ptoi_view_level {
    ptoi_slot *slots;
    ptoi_state *states;
    uint64_t *deps;
    ptoi_packed *args;
    char *heap;
    uint32_t mask;
    uint32_t shift; /* of laps */
} ptoi_view_level;

typedef struct ptoi_view {
    ptoi_header *header;
    ptoi_slot *slots;
    ptoi_state *states;
    ptoi_wait *waits;
    ptoi_a64 *orders; /* [o] how many tasks were submitted before it */
    ptoi_a32 *inbox;  /* numbers of slots */
    uint64_t first;   /* the first number of a task */
    ptoi_worker_line *workers;
    char *forms; /* records: tensor/form.h */
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

static inline ptoi_state *ptoi_state_of(const ptoi_view *view, uint32_t level, uint64_t seq)
{
    const ptoi_view_level *l = &view->level[level];
    return &l->states[(uint32_t)seq & l->mask];
}

/* These two are acquired for those who look in while the slot may become another task's: who reads of
 * the new one (released in write.h) sees afterwards that the old one is complete. */
static inline ptoi_what ptoi_what_of(const ptoi_slot *slot)
{
    const uint64_t word = ptoi_acquire64(&slot->what);
    ptoi_what what;
    memcpy(&what, &word, sizeof what);
    return what;
}

/* The same as a word: so it is put together in registers. */
static inline uint64_t ptoi_what_word(uint32_t kernel, uint32_t site, uint32_t level, uint32_t type,
                                      bool poisoned)
{
    _Static_assert(offsetof(ptoi_what, site) == 2 && offsetof(ptoi_what, level) == 4 &&
                       offsetof(ptoi_what, type) == 5 && offsetof(ptoi_what, poisoned) == 6,
                   "and apart in memory");
    return kernel | (uint64_t)site << 16 | (uint64_t)level << 32 | (uint64_t)type << 40 |
           (uint64_t)poisoned << 48;
}

static inline pto_task ptoi_task_of(const ptoi_slot *slot)
{
    return ptoi_ref_task(ptoi_ref_make(ptoi_get64(&slot->seq), ptoi_what_of(slot).level, false));
}

static inline uint64_t ptoi_order_of(const ptoi_view *view, const ptoi_slot *slot)
{
    return ptoi_acquire64(&view->orders[ptoi_slot_number(view, slot)]);
}

/* Which time round the ring it is, from 1 on. 2^32 laps later it comes again: hence `seq` is compared
 * as well, and only a consumer that sleeps between a load and its compare-and-swap for all of that
 * time could be fooled. */
static inline uint32_t ptoi_lap(const ptoi_view *view, uint32_t level, uint64_t seq)
{
    return (uint32_t)((seq - view->first) >> view->level[level].shift) + 1;
}

static inline uint32_t ptoi_lap_of_ref(const ptoi_view *view, ptoi_ref ref)
{
    return ptoi_lap(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
}

/* Whether the slot is another task's by now: then this one was recycled, which only complete ones are.
 * (Bad ones are not as long as somebody might ask: see retire.) */
static inline bool ptoi_is_recycled(const ptoi_view *view, ptoi_ref ref)
{
    const ptoi_slot *slot = ptoi_slot_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
    return ptoi_acquire64(&slot->seq) != ptoi_ref_seq(ref); /* pairs the release in write.h */
}

/* Whether a task is complete; the word that said so is in *waiters. */
static inline bool ptoi_is_complete(const ptoi_view *view, ptoi_ref ref, uint64_t *waiters)
{
    const ptoi_state *state = ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
    *waiters = ptoi_acquire64(&state->waiters); /* pairs W2 */
    return ptoi_list_closed(*waiters, ptoi_lap_of_ref(view, ref)) || ptoi_is_recycled(view, ref);
}

static inline bool ptoi_task_is_complete(const ptoi_view *view, ptoi_ref ref)
{
    uint64_t waiters;
    return ptoi_is_complete(view, ref, &waiters);
}

/* The phase of a task that begins: it is of this lap, and nothing else. */
static inline uint32_t ptoi_phase_begin(uint32_t lap)
{
    return lap << PTOI_PHASE_LAP_SHIFT;
}

/* The phase of the task of this lap; 0 if nobody has claimed it. */
static inline uint32_t ptoi_phase_of(uint32_t phase, uint32_t lap)
{
    return (phase ^ ptoi_phase_begin(lap)) >> PTOI_PHASE_LAP_SHIFT ? 0 : phase;
}

/* What pto_task_complete said. */
static inline pto_status ptoi_phase_status(uint32_t phase)
{
    return (pto_status)(phase >> PTOI_PHASE_STATUS_SHIFT & PTOI_PHASE_STATUS_MASK);
}

/* ---- Arguments ---- */

/* The form of an argument that is a tensor. */
static inline const ptoi_form *ptoi_packed_form(const ptoi_view *view, const ptoi_packed *arg)
{
    return arg->form ? ptoi_form_record(view->forms, arg->form)
                     : (const ptoi_form *)(const void *)(arg + 1);
}

static inline bool ptoi_packed_is_scalar(const ptoi_packed *arg)
{
    return arg->access == PTO_PARAM_SCALAR;
}

/* The argument after this one. */
static inline const ptoi_packed *ptoi_packed_next(const ptoi_packed *arg)
{
    if (arg->form || ptoi_packed_is_scalar(arg)) {
        return arg + 1;
    }
    return arg + ptoi_packed_units(((const ptoi_form *)(const void *)(arg + 1))->ndim);
}

static inline const char *ptoi_string(const ptoi_view *view, uint32_t at)
{
    return view->strings + at;
}

#endif /* PTOI_WINDOW_H */
