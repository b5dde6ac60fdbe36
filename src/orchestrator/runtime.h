/* runtime.h - the orchestrator's side: everything that only the orchestrating thread touches.
 *
 *   submit ──> map: whom must it wait for        (map/)
 *          ──> rings: slot, heap, arguments, edges   one of each for every level
 *          ──> window: written, then published in the inbox
 *   retire ──> closed slots are recycled in order, and the rings with them
 *
 * The scheduler's side writes nothing here, so nothing here is locked or atomic. What the two sides
 * share is in the window.
 *
 * For each level
 *
 *      retired <= completed <= head,  retired <= released <= head,  head - retired <= window
 *
 *   all tasks below `completed` are complete; all below `released` have no scope left that holds
 *   them; all below `retired` are recycled: complete, released, and no unfinished task uses their
 *   memory.
 */
#ifndef PTOI_RUNTIME_H
#define PTOI_RUNTIME_H

#include <pto/pto.h>

#include "base/config.h"
#include "orchestrator/map/map.h"
#include "orchestrator/ring/heap.h"
#include "orchestrator/ring/ring.h"
#include "scheduler/scheduler.h"
#include "window/window.h"

#define PTOI_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* What the orchestrator notes about a task, beside its slot: one line of cache. */
typedef struct ptoi_note {
    uint64_t heap_at;   /* where its block lies */
    uint64_t heap_size; /* 0: it has none */
    uint64_t args_end;  /* heads of the rings after it */
    uint64_t deps_end;
    uint64_t linked;  /* the last submit that has an edge from it, as its number `link` */
    uint64_t held;    /* the last submit that names its memory */
    uint32_t holders; /* tasks that ever named its memory; with PTOI_HELD if any was handed over */
    uint32_t scopes;  /* scopes around it at its birth, of its lifetime */
    uint32_t base;    /* place of the outermost of them in the stack */
    uint32_t link;
} ptoi_note;

#define PTOI_HELD 0x80000000u
#define PTOI_HOLDERS 0x7fffffffu

_Static_assert(sizeof(ptoi_note) == PTOI_LINE, "a note is one line of cache");

/* Why one task waits for another; in the order of `edges` in the header of the window. */
typedef enum ptoi_reason {
    PTOI_REASON_RAW,
    PTOI_REASON_WAR,
    PTOI_REASON_WAW,
    PTOI_REASON_AFTER,
    PTOI_REASONS
} ptoi_reason;

typedef struct ptoi_track {
    uint64_t
        quick; /* tasks of orders below this may come as known ones (orchestrator/known.h): there is
                       room, and nothing else to look at; set as a submit ends, 0 if room is taken
                       by others */
    bool few;  /* edges are getting short: none is kept for a producer that is complete already */
    uint64_t head;           /* the number of the next task */
    ptoi_progress *progress; /* what is told of the level */
    uint64_t completed;
    uint64_t retired;
    uint64_t released;
    uint32_t mask;
    ptoi_slot *slots;
    ptoi_state *states;
    ptoi_a64 *orders;
    ptoi_note *notes;
    uint64_t *held_until; /* a row for each slot: below these numbers are all who hold its memory;
                             valid with PTOI_HELD */
    ptoi_heap heap;
    ptoi_ring args, deps;
    ptoi_packed *packed; /* the arguments themselves, in the window */
    ptoi_ref *refs;      /* and the edges */
    ptoi_ref blocker;    /* an unfinished task that holds the memory of the oldest; 0: none known */
    uint32_t pins;       /* open lifetimes that have `pinned` something here */
    uint32_t held;       /* notes that have PTOI_HELD */
} ptoi_track;

/* Why a submit has to wait. */
typedef enum ptoi_shortage {
    PTOI_SHORT_WINDOW = PTO_RING_WINDOW,
    PTOI_SHORT_HEAP = PTO_RING_HEAP,
    PTOI_SHORT_ARGS = PTO_RING_ARGS,
    PTOI_SHORT_DEPS = PTO_RING_DEPS,
    PTOI_SHORT_MAP = PTO_RING_MAP,
    PTOI_SHORT_NOTHING,
} ptoi_shortage;

/* An open scope. */
typedef struct ptoi_scope {
    uint64_t order;   /* tasks submitted before it */
    uint64_t seq;     /* head of the level of its tasks, when it began */
    uint32_t buffers; /* records in use before it */
    uint32_t site;
    uint32_t level;      /* of tasks inside */
    uint32_t base;       /* place in the stack where the lifetime it belongs to begins */
    uint32_t boundaries; /* how many are open, with it */
    uint64_t pinned; /* where a lifetime begins: its first task that was submitted while others were
                        open inside of it on the same level; 0: none */
} ptoi_scope;

/* A managed buffer. Records form a stack: a lifetime that ends takes all that were made in it. */
typedef struct ptoi_buffer {
    uint64_t life;  /* which buffer it is; never used twice */
    uint64_t order; /* tasks submitted before it was created */
    uint64_t bytes; /* */
    uint64_t at;    /* where its memory lies in the heap of `level` */
    uint64_t seq;   /* the task that owns the memory; 0: it has none yet */
    uint64_t fresh; /* the submit that is about to give it memory */
    uint32_t version;
    uint32_t base; /* the lifetime it belongs to: place in the stack where that begins */
    uint16_t form; /* of all of it, in order: the number, if it is known; else 0 */
    uint8_t level; /* of the owner */
    bool told;     /* the submit that `fresh` says tells the map of all of it, as of fresh memory */
    bool unmapped; /* the map has never heard of it: all who used it were run at once */
} ptoi_buffer;

_Static_assert(sizeof(ptoi_buffer) == PTOI_LINE, "a record of a buffer is one line of cache");

/* Memory and tasks that went bad; orchestrator/poison.c. */
typedef struct ptoi_bad_range {
    uint64_t first, last;
} ptoi_bad_range;

typedef struct ptoi_bad_region {
    pto_tensor tensor; /* an output of a bad task */
    uint64_t order;    /* of the task */
} ptoi_bad_region;

typedef struct ptoi_poison {
    ptoi_bad_region *regions;
    uint32_t count, capacity;
    bool all;                            /* too many to know: everything */
    ptoi_bad_range *bad[PTO_MAX_LEVELS]; /* numbers of bad tasks, rising */
    uint32_t n_bad[PTO_MAX_LEVELS];
    uint64_t fence[PTO_MAX_LEVELS]; /* bad tasks stay until all below these are complete */
    size_t region_bytes, bad_bytes;
} ptoi_poison;

struct pto_runtime {
    /* hot */
    ptoi_a64 thread;            /* the orchestrating one; others look whether it is them */
    ptoi_view view;             /* the orchestrator's own */
    uint64_t order;             /* tasks submitted */
    uint64_t attempt;           /* calls of submit, for marks that need no cleaning */
    uint64_t why[PTOI_REASONS]; /* edges, by reason; told when the rest is (ptoi_retire_publish) */
    uint64_t look_at;           /* the order at which submit looks next what has become of tasks */
    uint32_t depth;             /* of scopes */
    uint32_t level;             /* of tasks submitted now */
    uint32_t base;   /* of the lifetime that they belong to: place in the stack of scopes */
    ptoi_track *now; /* that of the level */
    uint32_t levels;
    uint32_t n_kernels;    /* with number 0, which is none */
    uint32_t first_kernel; /* added to their numbers */
    uintptr_t heap_low[2]; /* all heaps, as the orchestrator and as the scheduler sees them */
    uintptr_t heap_bytes;
    uintptr_t heap_begin, heap_end; /* around both; far more than they are, if mapped twice */
    pto_tensormap *map;
    ptoi_buffer *buffers;
    uint32_t n_buffers, max_buffers;
    uint32_t temp_form;  /* of the last temporary: the number, or 0 */
    pto_tensor temp;     /* itself, but for its memory */
    uint32_t served;     /* types that anybody serves */
    ptoi_worker *caller; /* the orchestrating thread as a worker */
    pto_task last;
    pto_task unmapped; /* the task that runs alone, because the map could not hold it; 0: none */
    ptoi_poison poison;
    ptoi_track track[PTO_MAX_LEVELS];

    ptoi_scope *scopes;
    uint64_t lives;  /* buffers ever created */
    ptoi_ref *edges; /* room for one to every task there is */
    pto_map_param *accesses;
    uint32_t max_accesses;

    struct { /* of sites, found by pointer and line */
        const char *file;
        int line;
        uint32_t site;
    } site_cache[256];
    uint32_t n_sites;
    uint32_t *site_table; /* their numbers, hashed by file and line; 0: free */
    size_t site_bytes;
    uint32_t string_bytes;

    pto_kernel work_kernel; /* work requests: worker/work.h */
    pto_kernel rearrange_vector, rearrange_accelerator;
    struct ptoi_devices *devices;

    struct {                  /* of tasks that submit runs itself: orchestrator/at_once.h */
        uint32_t types;       /* that it may run */
        uint32_t ahead;       /* so many tasks that nobody has claimed keep the workers busy */
        uint64_t claimed;     /* out of the inbox, when it was last looked */
        uint64_t claimed_at;  /* the order at which to look again */
        uint64_t catch_at;    /* the order at which to catch up, if a brief one has to wait */
        uint64_t patience;    /* in tasks, until it is tried again */
        uint64_t most, least; /* bounds of that */
        uint64_t looked;      /* ticks: when it last looked at the clock */
        uint64_t created_ticks, created_ns; /* so that it can be found out what a tick is */
        bool waits;        /* one would have to wait for somebody, and nothing else keeps it */
        bool ran;          /* one has run, and did not just end well: it is to be recorded */
        pto_status status; /* then: what it returned, */
        uint64_t words;    /* and see ptoi_worker_end */
    } at_once;

    struct ptoi_trace *trace; /* of a run that is recorded (observe/trace.h); NULL: none is */

    bool cancel_told; /* somebody has waited and heard of the cancel */
    ptoi_a64 helped;  /* tasks that the orchestrating thread ran */

    ptoi_sched sched;
    ptoi_settings settings;
    int file;
    void *memory, *memory_s; /* both mappings; the same unless it is mapped twice */
    size_t bytes;
    size_t scope_bytes, buffer_bytes, edge_bytes, access_bytes, note_bytes, held_bytes;
    ptoi_note *notes;
    ptoi_run *runs; /* of the heaps, and as many to try things on */
    size_t run_bytes;
    uint64_t *held_until;
};

#define PTOI_MAX_SCOPES (UINT32_C(1) << 22)

static inline bool ptoi_poison_any(const pto_runtime *rt)
{
    return rt->poison.count || rt->poison.all;
}

/* Parameters and edges that a known task has at most: orchestrator/known.h. */
#define PTOI_KNOWN_PARAMS 16
#define PTOI_KNOWN_EDGES 64

/* ---- runtime.c ---- */

/* Whether this thread may orchestrate now: PTO_WRONG_THREAD otherwise. */
pto_status ptoi_runtime_refuse(const pto_runtime *rt, const char *who);

static inline pto_status ptoi_runtime_enter(const pto_runtime *rt, const char *who)
{
    if (__builtin_expect(rt && ptoi_get64(&rt->thread) == ptoi_os_self() && !rt->caller->running &&
                             rt->sched.forks == ptoi_os_forks,
                         1)) {
        return PTO_OK;
    }
    return ptoi_runtime_refuse(rt, who);
}

/* The calling thread is the orchestrating one from now on. */
void ptoi_runtime_adopt(pto_runtime *rt);

/* The number of a place in the program, which is looked for, and kept in the cache. */
uint32_t ptoi_site_find(pto_runtime *rt, const char *file, int line, uint32_t at);

static inline uint32_t ptoi_site_of(pto_runtime *rt, const char *file, int line)
{
    const uint32_t at = ((uint32_t)((uintptr_t)file >> 3) ^ (uint32_t)line) % 256;
    return __builtin_expect(rt->site_cache[at].file == file && rt->site_cache[at].line == line, 1)
               ? rt->site_cache[at].site
               : ptoi_site_find(rt, file, line, at);
}

/* ---- buffer.c ---- */

/* The record of a managed tensor; NULL, with the failure said, if it is gone. */
ptoi_buffer *ptoi_buffer_find(pto_runtime *rt, const char *who, const pto_tensor *t);

/* Whether the record is that of a living buffer. */
static inline bool ptoi_buffer_is(const pto_runtime *rt, uint64_t owner, uint32_t generation)
{
    uint32_t record = (uint32_t)owner - 1;
    return record < rt->n_buffers && rt->buffers[record].life == (owner >> 32 << 32 | generation);
}

static inline uint64_t ptoi_buffer_owner(const pto_runtime *rt, const ptoi_buffer *b)
{
    return b->life >> 32 << 32 | ((uint64_t)(b - rt->buffers) + 1);
}

/* The tensor that an argument of the task was packed from, as far as its bytes go. Says false for
 * managed memory that nobody can name any more. */
bool ptoi_buffer_unpack(const pto_runtime *rt, const ptoi_slot *slot, const ptoi_packed *arg,
                        pto_tensor *t);

/* The first to write a buffer brings its memory, so it must be all of it, densely:
 * PTO_NOT_CONTIGUOUS. */
pto_status ptoi_buffer_check_first(const ptoi_buffer *b, const char *who, const pto_tensor *t);

/* PTO_BAD_MEMORY if memory of the user reaches into ours. */
pto_status ptoi_buffer_check_external(const pto_runtime *rt, const char *who, const pto_tensor *t);

/* ---- room.c ---- */

/* How many known tasks in a row are sure to find room on the level, and nothing else that has to be
 * looked at. */
uint64_t ptoi_known_room(const pto_runtime *rt, uint32_t level);

/* ---- home.c ---- */

/* Gives a buffer memory before anybody has written it: a task that is complete from the start owns
 * it, on the level of the lifetime that the buffer belongs to. */
pto_status ptoi_submit_memory(pto_runtime *rt, ptoi_buffer *b, const char *file, int line);

/* ---- guard.c: managed memory with guard bytes around it (window/guard.h) ---- */

/* A task whose buffers have their memory by now: sets the guards of what it brings, and notes where
 * the memory of its arguments begins, which lie at `unit`. */
void ptoi_guard_task(pto_runtime *rt, uint32_t level, uint64_t seq, uint64_t unit,
                     const pto_param *params, size_t n_params);

/* The buffer has memory by now, and no task that runs. */
void ptoi_guard_memory(pto_runtime *rt, const ptoi_buffer *b);

/* A task whose memory is about to be recycled. */
void ptoi_guard_recycle(pto_runtime *rt, uint32_t level, uint64_t seq);

/* All memory; every task is complete. */
void ptoi_guard_sweep(pto_runtime *rt);

/* ---- rearrange.c ---- */

/* Makes the kernels of pto_submit_rearrange known, as the runtime is created. */
pto_status ptoi_rearrange_register(pto_runtime *rt);

/* ---- wait.c ---- */

/* Runs tasks until the one named is complete. */
void ptoi_wait_for(pto_runtime *rt, ptoi_ref ref);

/* What the next waits are for, for whoever looks into the window. */
static inline void ptoi_wait_tell(pto_runtime *rt, ptoi_why why)
{
    ptoi_set32(&rt->view.header->waiting.why, why);
}

/* The same for room in a ring. */
void ptoi_wait_tell_room(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted);

/* How many tasks are complete, counted from some number on: it only rises. */
uint64_t ptoi_count_complete(const pto_runtime *rt);

/* Runs tasks until more are complete than there were when somebody last looked at what he waits for,
 * whichever they are. */
void ptoi_wait_any(pto_runtime *rt, uint64_t complete);

/* Runs so many tasks at most, as long as there are any. Says whether there were. */
bool ptoi_help(pto_runtime *rt, uint32_t tasks);

/* Runs tasks as long as they are brief, until all of the level are complete, or that takes too long.
 * Says whether they are. */
bool ptoi_catch_up(pto_runtime *rt, uint64_t ticks);

/* Runs one task, if it is short. */
void ptoi_help_short(pto_runtime *rt);

/* Waits until all tasks of a level are complete. */
void ptoi_wait_level(pto_runtime *rt, uint32_t level);

/* ---- orchestrator/stall.c ---- */

/* Room of this kind (window, heap, arguments) is short on the level: waits for something that can make
 * room; PTO_STALLED, with the whole story, if nothing can. */
pto_status ptoi_stall(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted);

/* ---- orchestrator/stall_report.c ---- */

/* Keeps a stall for pto_last_stall and whoever looks in; count, field, variable and texts of *report
 * need not be set. */
void ptoi_stall_keep(pto_runtime *rt, pto_stall_report *report, uint32_t kernel, uint32_t site,
                     uint32_t scope);

/* So much never fits into this ring, whatever becomes of the tasks in it: kept, and PTO_TOO_LARGE. The
 * words are the caller's. */
pto_status ptoi_stall_too_large(pto_runtime *rt, uint32_t level, ptoi_shortage what,
                                uint64_t wanted, uint64_t enough);

/* "window (PTO_WINDOW)": what makes the ring larger. */
const char *ptoi_ring_option(pto_ring ring);

/* ---- orchestrator/retire.c ---- */

/* Looks how far tasks are complete, on one level: edges and map entries come back. */
void ptoi_retire_completed(pto_runtime *rt, uint32_t level);

/* Recycles what can be, on one level, after looking at all. */
void ptoi_retire(pto_runtime *rt, uint32_t level);

/* The same, and if the oldest task seems to be held looks closely whether it is. */
void ptoi_retire_exactly(pto_runtime *rt, uint32_t level);

/* Whether an unfinished task uses the memory of the oldest one; which one is in track.blocker. */
bool ptoi_retire_is_held(pto_runtime *rt, uint32_t level, uint64_t seq);

/* An unfinished task that uses the memory of this one, 0 if there is none; and, if `count` is given,
 * how many there are. Looks at all tasks. */
ptoi_ref ptoi_retire_holder(const pto_runtime *rt, uint32_t level, uint64_t seq, uint32_t *count);

/* Tells the header how full everything is. */
void ptoi_retire_publish(pto_runtime *rt, uint32_t level);

/* ---- orchestrator/poison.c ---- */

pto_status ptoi_poison_create(pto_runtime *rt);
void ptoi_poison_destroy(pto_runtime *rt);

/* A bad task is passed: its number, and its outputs that nobody has written since, are kept. */
void ptoi_poison_record(pto_runtime *rt, uint32_t level, uint64_t seq);

/* Whether reading the tensor meets something bad; whether the task was. */
bool ptoi_poison_meets(pto_runtime *rt, const pto_tensor *t);
bool ptoi_poison_is_bad(const pto_runtime *rt, uint32_t level, uint64_t seq);

/* The tensor will be written by the task of that order: what it covers of older ones is bad no longer
 * (or the writer will be). */
void ptoi_poison_cover(pto_runtime *rt, const pto_tensor *t, uint64_t order);

void ptoi_poison_clear(pto_runtime *rt);

/* ---- observe/check.c ---- */

#ifdef PTO_DEBUG_CHECKS
void ptoi_debug_check(pto_runtime *rt);
#else
static inline void ptoi_debug_check(pto_runtime *rt)
{
    (void)rt;
}
#endif

static inline ptoi_note *ptoi_note_of(const ptoi_track *track, uint64_t seq)
{
    return &track->notes[(uint32_t)seq & track->mask];
}

#endif /* PTOI_RUNTIME_H */
