/* task.h - a task in the window: what each side writes about it, and the protocol between them.
 *
 *     written by the orchestrator, before W1        written by the scheduler's side, after W1
 *     slot     32 bytes: number, slot header,       state   16 bytes: list of waiters, or that it
 *              where edges and arguments lie                is complete; phase; outcome
 *     edges     8 bytes each: its producers         wait     8 bytes, while it waits: next in the
 *                                                           list, and how far its edges are done
 *
 * The transfer of a cache line between cores costs more than anything else in a task. So each side
 * writes dense arrays of its own. Lines go one way, with several tasks in each.
 *
 * A task is identified by its ring level and its number there, `seq`. Numbers never repeat. Task
 * `seq` uses slot seq & mask for one lap of the ring. A reference packs number and level:
 *
 *     ref = seq << 4 | level << 1 | poisons          pto_task = seq << 3 | level
 *
 * Joining a list and closing it are operations on one word, state.waiters. A consumer either joins
 * before the list is closed, and the thread that closes the list resolves it; or it finds the list
 * closed and does not wait. There is no count that could disagree with the list.
 *
 * On a device with streams a task is *launched* before it is complete: its work is in a queue of the
 * device. Then a later task of the same device need not wait for the end of it; the device keeps the
 * order. The list of a launched task stays open for all others. So there are three states of a list,
 * and each step forward is one exchange on the word:
 *
 *     open ──launch──> launched ──close──> closed        on a device with streams
 *     open ──────────close───────────────> closed        everywhere else; pending, failed, skipped
 *
 * The edges of the protocol are listed in window.h. This header compiles as C11 and as CUDA C++.
 */
#ifndef PTOI_TASK_H
#define PTOI_TASK_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/mutant.h"

#define PTOI_LINE 64      /* bytes of a cache line */
#define PTOI_MAX_LEVELS 8 /* of rings: as many as a reference can name */

#define PTOI_NONE UINT32_MAX

/* Segments of memory: what the value of an argument is an offset in.
 *
 *     0 .. 7                      heaps of the levels, on the host
 *     8                           all memory of the process: base NULL, the offset is an address
 *     9                           memory of the program that worker processes share
 *     16 + 9 * (d - 1) + l        heap of level l on device number d of the runtime, d from 1 on
 *     16 + 9 * (d - 1) + 8        memory of the program there: the offset is the address on the host,
 *                                 and the base of the scheduler's side is the shift of the device
 */
#define PTOI_SEGMENT_USER 8
#define PTOI_SEGMENT_SHARED 9
#define PTOI_SEGMENT_DEVICES 16
#define PTOI_DEVICE_SEGMENTS 9 /* of each device but the host */
#define PTOI_DEVICES 16        /* that one runtime can use, with the host */
#define PTOI_SEGMENTS (PTOI_SEGMENT_DEVICES + PTOI_DEVICE_SEGMENTS * (PTOI_DEVICES - 1))

PTOI_INLINE uint32_t ptoi_segment_heap(uint32_t device, uint32_t level)
{
    return device ? PTOI_SEGMENT_DEVICES + PTOI_DEVICE_SEGMENTS * (device - 1) + level : level;
}

PTOI_INLINE uint32_t ptoi_segment_user(uint32_t device)
{
    return device ? ptoi_segment_heap(device, PTOI_MAX_LEVELS) : PTOI_SEGMENT_USER;
}

/* The device number of a segment. */
PTOI_INLINE uint32_t ptoi_segment_device(uint32_t segment)
{
    return segment < PTOI_SEGMENT_DEVICES
               ? 0
               : 1 + (segment - PTOI_SEGMENT_DEVICES) / PTOI_DEVICE_SEGMENTS;
}

/* A lane: the type of a worker on a device. There is a queue of ready tasks for each lane. */
#define PTOI_LANES 64
#define PTOI_LANE_ENGINE 3 /* the type PTO_ACCELERATOR: it uses no streams (worker/launcher.h) */

PTOI_INLINE uint32_t ptoi_lane(uint32_t device, uint32_t type)
{
    return device << 2 | type;
}

PTOI_INLINE uint32_t ptoi_lane_type(uint32_t lane)
{
    return lane & 3;
}

PTOI_INLINE uint32_t ptoi_lane_device(uint32_t lane)
{
    return lane >> 2;
}

/* ---- References ---- */

typedef uint64_t ptoi_ref;

PTOI_INLINE ptoi_ref ptoi_ref_make(uint64_t seq, uint32_t level, bool poisons)
{
    return seq << 4 | (uint64_t)level << 1 | (uint64_t)poisons;
}

PTOI_INLINE uint64_t ptoi_ref_seq(ptoi_ref ref)
{
    return ref >> 4;
}

PTOI_INLINE uint32_t ptoi_ref_level(ptoi_ref ref)
{
    return (uint32_t)(ref >> 1) & 7;
}

PTOI_INLINE bool ptoi_ref_poisons(ptoi_ref ref)
{
    return ref & 1;
}

/* The pto_task of a reference, and of a number. */
PTOI_INLINE uint64_t ptoi_ref_task(ptoi_ref ref)
{
    return ref >> 1;
}

PTOI_INLINE uint64_t ptoi_task_make(uint64_t seq, uint32_t level)
{
    return seq << 3 | level;
}

/* ---- The list of waiters ---- */

/* state.waiters: the upper half is the lap. The lower half is the first task in the list, or: */
#define PTOI_LIST_EMPTY UINT32_MAX            /* no waiters; never stored */
#define PTOI_LIST_CLOSED (UINT32_MAX - 1)     /* complete */
#define PTOI_LIST_CLOSED_BAD (UINT32_MAX - 2) /* complete: failed or skipped */
#define PTOI_LIST_BROKEN (UINT32_MAX - 3)     /* not a list: never stored */
/* Launched: this bit and the first task in the list, or this bit and NOBODY. */
#define PTOI_LIST_LAUNCHED (UINT32_C(1) << 31)
#define PTOI_LIST_NOBODY UINT32_C(0x7ffffff0)
#define PTOI_SLOTS_MAX PTOI_LIST_NOBODY

PTOI_INLINE uint64_t ptoi_list_word(uint32_t lap, uint32_t first)
{
    return (uint64_t)lap << 32 | first;
}

/* Whether the task of this lap is complete, if the slot is still its own. */
PTOI_INLINE bool ptoi_list_closed(uint64_t waiters, uint32_t lap)
{
    if (PTOI_MUTANT(NO_LAP)) {
        return (uint32_t)waiters >= PTOI_LIST_CLOSED_BAD;
    }
    return waiters - ptoi_list_word(lap, PTOI_LIST_CLOSED_BAD) <= 1;
}

/* Whether it failed or was skipped. Such a task is not recycled while a consumer may check it
 * (retire.c). */
PTOI_INLINE bool ptoi_list_bad(uint64_t waiters, uint32_t lap)
{
    return waiters == ptoi_list_word(lap, PTOI_LIST_CLOSED_BAD);
}

/* The first waiter of the task of this lap, whose list is not closed. A word of an earlier lap
 * means an empty list, so submit need not write the word. */
PTOI_INLINE uint32_t ptoi_list_first(uint64_t waiters, uint32_t lap)
{
    return (uint32_t)(waiters >> 32) == lap ? (uint32_t)waiters : PTOI_LIST_EMPTY;
}

/* Whether the task of this lap is launched and not complete. */
PTOI_INLINE bool ptoi_list_launched(uint64_t waiters, uint32_t lap)
{
    return waiters - ptoi_list_word(lap, PTOI_LIST_LAUNCHED) <= PTOI_LIST_NOBODY;
}

/* The first waiter of a task that is launched, or may be: ptoi_list_first for any open list. */
PTOI_INLINE uint32_t ptoi_list_first_of_any(uint64_t waiters, uint32_t lap)
{
    const uint32_t first = ptoi_list_first(waiters, lap);
    if (!ptoi_list_launched(waiters, lap)) {
        return first;
    }
    return first == (PTOI_LIST_LAUNCHED | PTOI_LIST_NOBODY) ? PTOI_LIST_EMPTY
                                                            : first ^ PTOI_LIST_LAUNCHED;
}

/* ---- The phase ---- */

/* state.phase: these bits, the status given to pto_task_complete, and the low bits of the lap. */
#define PTOI_PHASE_RUNNING 1u   /* its kernel was called */
#define PTOI_PHASE_RETURNED 2u  /* its kernel returned PTO_PENDING */
#define PTOI_PHASE_COMPLETED 4u /* its kernel ended it, or pto_task_complete did */
#define PTOI_PHASE_STATUS_SHIFT 4
#define PTOI_PHASE_STATUS_MASK 255u
#define PTOI_PHASE_LAP_SHIFT 12

/* The phase of a task whose kernel was not called yet. */
PTOI_INLINE uint32_t ptoi_phase_begin(uint32_t lap)
{
    return lap << PTOI_PHASE_LAP_SHIFT;
}

/* The phase of the task of this lap; 0 if it was not claimed yet. */
PTOI_INLINE uint32_t ptoi_phase_of(uint32_t phase, uint32_t lap)
{
    return (phase ^ ptoi_phase_begin(lap)) >> PTOI_PHASE_LAP_SHIFT ? 0 : phase;
}

typedef enum ptoi_outcome {
    PTOI_DONE,
    PTOI_FAILED,
    PTOI_SKIPPED,
} ptoi_outcome;

/* ---- Slot, state, wait ---- */

/* [o], before W1. The atomic fields may be read while the next task is being written. */
typedef struct ptoi_slot {
    ptoi_a64 seq;    /* W4 */
    ptoi_a64 header; /* W5: a ptoi_slot_header */
    uint32_t deps;   /* first reference to a producer, in the edge ring of its level */
    uint32_t fanin;  /* number of references */
    uint32_t args;   /* first argument, in units of 16 bytes of the argument ring */
    uint32_t n_args; /* number of arguments */
} ptoi_slot;

/* The small fields of a task, in one word. */
typedef struct ptoi_slot_header {
    uint16_t kernel;
    uint16_t site;    /* where it was submitted */
    uint8_t level;    /* ring level */
    uint8_t lane;     /* device number and pto_worker_type: ptoi_lane */
    uint8_t poisoned; /* it will be skipped, as submit knew already */
    uint8_t unused;
} ptoi_slot_header;

/* [s], from the claim on, by the one thread that owns the task at the time. (A task that is
 * complete when submit returns is never claimed. The orchestrating thread writes its state, as a
 * worker.) */
typedef struct ptoi_state {
    ptoi_a64 waiters; /* W2, W3 */
    ptoi_a32 phase;   /* W8 */
    uint8_t poisoned; /* it will be skipped: submit knew, or a producer failed or was skipped */
    uint8_t outcome;  /* ptoi_outcome */
    uint16_t worker;  /* that called its kernel, from RUNNING on */
} ptoi_state;

/* [s], by the thread that resolves the task, before W3. */
typedef struct ptoi_wait {
    uint32_t next;   /* in the list of the producer */
    uint32_t cursor; /* producers before this one are complete */
} ptoi_wait;

_Static_assert(sizeof(ptoi_slot) == PTOI_LINE / 2, "two slots fill a cache line");
_Static_assert(sizeof(ptoi_slot_header) == 8, "a slot header is one word");
_Static_assert(sizeof(ptoi_state) == 16, "four states fill a cache line");

/* ---- A side's view ---- */

/* Addresses of all parts, in the mapping of one side. `slots`, `states`, `waits` and `orders` share
 * their index. */
typedef struct ptoi_view_level {
    ptoi_slot *slots;
    ptoi_state *states;
    uint64_t *deps;
    struct ptoi_arg_desc *args;
    uint64_t *begins; /* window/guard.h; NULL: memory has no guards */
    uint32_t mask;
    uint32_t shift;          /* log2 of the slots: seq >> shift counts laps */
    uint32_t n_deps, n_args; /* sizes of the rings: references, and units of arguments */
} ptoi_view_level;

typedef struct ptoi_view {
    struct ptoi_header *header;      /* [o] */
    struct ptoi_sched_header *sched; /* [s] */
    struct ptoi_wakes *wakes;        /* [w] */
    ptoi_slot *slots;
    ptoi_state *states;
    ptoi_wait *waits;
    ptoi_a64 *orders; /* [o] W5: tasks submitted before it, and whether submit completed it */
    ptoi_a32 *inbox;  /* [o] indices of slots */
    uint64_t first;   /* number of the first task of every level */
    struct ptoi_worker_line *workers;  /* [s] */
    struct ptoi_failed *failures;      /* [s] one for each worker line */
    struct ptoi_kernel_time *times;    /* [s] one for each kernel */
    char *descs;                       /* [o] records of layout descriptors: tensor/desc.h */
    struct ptoi_site *sites;           /* [o] */
    struct ptoi_kernel_entry *kernels; /* [o] */
    struct ptoi_kernel_code *codes;    /* [o] one for each kernel */
    char *strings;                     /* [o] */
    struct ptoi_label *labels;         /* [o] one for each slot */
    struct ptoi_queue_cell *cells;     /* [s] of all queues */
    struct ptoi_post *posts;           /* [o] a ring as large as the inbox */
    char *base[PTOI_SEGMENTS];         /* where each segment begins; NULL: here it has no place */
    uint64_t segment_bytes[PTOI_SEGMENTS];
    struct ptoi_guard *guards[PTOI_SEGMENTS]; /* [o] window/guard.h; NULL: no guards there */
    ptoi_a64 *reported[PTOI_SEGMENTS];        /* [s] */
    uint32_t inbox_mask;
    uint32_t n_slots; /* of all levels */
    uint32_t levels;
    uint32_t max_params; /* of one task */
    bool checked;        /* broken processes may write the window: check what is read (sound.h) */
    ptoi_view_level level[PTOI_MAX_LEVELS];
} ptoi_view;

PTOI_INLINE ptoi_slot *ptoi_slot_of(const ptoi_view *view, uint32_t level, uint64_t seq)
{
    const ptoi_view_level *l = &view->level[level];
    return &l->slots[(uint32_t)seq & l->mask];
}

PTOI_INLINE ptoi_state *ptoi_state_of(const ptoi_view *view, uint32_t level, uint64_t seq)
{
    const ptoi_view_level *l = &view->level[level];
    return &l->states[(uint32_t)seq & l->mask];
}

/* The index of a slot: also of its task's state, wait and order, and in the inbox and in queues. */
PTOI_INLINE uint32_t ptoi_slot_index(const ptoi_view *view, const ptoi_slot *slot)
{
    return (uint32_t)(slot - view->slots);
}

PTOI_INLINE ptoi_slot_header ptoi_slot_header_read(uint64_t word)
{
    ptoi_slot_header header;
    __builtin_memcpy(&header, &word, sizeof header);
    return header;
}

/* Pairs W5. */
PTOI_INLINE ptoi_slot_header ptoi_slot_header_of(const ptoi_slot *slot)
{
    return ptoi_slot_header_read(ptoi_acquire64(&slot->header));
}

/* The same for a thread of the scheduler's side that owns the task: nobody writes the slot. */
PTOI_INLINE ptoi_slot_header ptoi_slot_header_own(const ptoi_slot *slot)
{
    return ptoi_slot_header_read(ptoi_own64(&slot->header));
}

/* A slot header as a word, built in registers. */
PTOI_INLINE uint64_t ptoi_slot_header_word(uint32_t kernel, uint32_t site, uint32_t level,
                                           uint32_t lane, bool poisoned)
{
    _Static_assert(
        offsetof(ptoi_slot_header, site) == 2 && offsetof(ptoi_slot_header, level) == 4 &&
            offsetof(ptoi_slot_header, lane) == 5 && offsetof(ptoi_slot_header, poisoned) == 6,
        "the word is the struct");
    return kernel | (uint64_t)site << 16 | (uint64_t)level << 32 | (uint64_t)lane << 40 |
           (uint64_t)poisoned << 48;
}

/* The pto_task in a slot. */
PTOI_INLINE uint64_t ptoi_task_of(const ptoi_slot *slot)
{
    return ptoi_task_make(ptoi_get64(&slot->seq), ptoi_slot_header_of(slot).level);
}

/* A task that is complete when submit returns (it ran inline, or it only owns memory) is never
 * published, and no other task refers to it. The orchestrator marks it complete here. Its state
 * means nothing then, since the scheduler's side has not closed its list. */
PTOI_INLINE uint64_t ptoi_order_word(uint64_t order, bool complete)
{
    return order << 1 | (uint64_t)complete;
}

/* Pairs W5. */
PTOI_INLINE uint64_t ptoi_order_of(const ptoi_view *view, const ptoi_slot *slot)
{
    return ptoi_acquire64(&view->orders[ptoi_slot_index(view, slot)]) >> 1;
}

PTOI_INLINE bool ptoi_is_marked_complete(const ptoi_view *view, const ptoi_slot *slot)
{
    return ptoi_acquire64(&view->orders[ptoi_slot_index(view, slot)]) & 1;
}

/* Laps of the ring, counted from 1. The count wraps after 2^32 laps, so `seq` is compared as well.
 * Words of state.waiters do not get that old: see ptoi_scheduler_refresh. */
PTOI_INLINE uint32_t ptoi_lap(const ptoi_view *view, uint32_t level, uint64_t seq)
{
    return (uint32_t)((seq - view->first) >> view->level[level].shift) + 1;
}

PTOI_INLINE uint32_t ptoi_lap_of_ref(const ptoi_view *view, ptoi_ref ref)
{
    return ptoi_lap(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
}

/* Whether a later task has taken the slot. Then this one was complete. Pairs W4. */
PTOI_INLINE bool ptoi_is_recycled(const ptoi_view *view, ptoi_ref ref)
{
    const ptoi_slot *slot = ptoi_slot_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
    return ptoi_acquire64(&slot->seq) != ptoi_ref_seq(ref);
}

/* Whether a task that was published is complete; *waiters is the word that says so. Pairs W2. */
PTOI_INLINE bool ptoi_is_complete(const ptoi_view *view, ptoi_ref ref, uint64_t *waiters)
{
    const ptoi_state *state = ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
    *waiters = ptoi_acquire64(&state->waiters);
    return ptoi_list_closed(*waiters, ptoi_lap_of_ref(view, ref)) || ptoi_is_recycled(view, ref);
}

/* The same for any task. */
PTOI_INLINE bool ptoi_task_is_complete(const ptoi_view *view, ptoi_ref ref)
{
    uint64_t waiters;
    return ptoi_is_marked_complete(view,
                                   ptoi_slot_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref))) ||
           ptoi_is_complete(view, ref, &waiters);
}

#endif /* PTOI_TASK_H */
