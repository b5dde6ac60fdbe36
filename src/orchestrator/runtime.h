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

#include "base/os.h"
#include "orchestrator/guard.h"
#include "orchestrator/map/map.h"
#include "orchestrator/ring/heap.h"
#include "orchestrator/ring/ring.h"
#include "window/caller.h"

#include "base/likely.h"

/* What the orchestrator records about a task, beside its slot: one line of cache. */
typedef struct ptoi_record {
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
} ptoi_record;

#define PTOI_HELD 0x80000000u
#define PTOI_HOLDERS 0x7fffffffu

_Static_assert(sizeof(ptoi_record) == PTOI_LINE, "a note is one line of cache");

/* Why one task waits for another; in the order of `edges` in the header of the window. */
typedef enum ptoi_reason {
    PTOI_REASON_RAW,
    PTOI_REASON_WAR,
    PTOI_REASON_WAW,
    PTOI_REASON_AFTER,
    PTOI_REASONS
} ptoi_reason;

typedef struct ptoi_rings {
    uint64_t
        fast_until; /* tasks of orders below this may come as known ones (orchestrator/known.h): there is
                       room, and nothing else to look at; set as a submit ends, 0 if room is taken
                       by others */
    bool
        edges_short; /* edges are getting short: none is kept for a producer that is complete already */
    uint64_t head;           /* the number of the next task */
    ptoi_progress *progress; /* what is told of the level */
    uint64_t completed;
    uint64_t retired;
    uint64_t released;
    uint32_t mask;
    ptoi_slot *slots;
    ptoi_state *states;
    ptoi_a64 *orders;
    ptoi_record *records;
    uint64_t *held_until; /* a row for each slot: below these numbers are all who hold its memory;
                             valid with PTOI_HELD */
    ptoi_heap heap;
    ptoi_ring args, deps;
    ptoi_arg_desc *arg_descs; /* the arguments themselves, in the window */
    ptoi_ref *refs;           /* and the edges */
    ptoi_ref blocker;   /* an unfinished task that holds the memory of the oldest; 0: none known */
    uint32_t pins;      /* open lifetimes that have `pinned` something here */
    uint32_t held;      /* records that have PTOI_HELD */
    uint32_t fresh_lap; /* no word of state.waiters is of a lap before the one before this */
} ptoi_rings;

/* Why a submit has to wait. */
typedef enum ptoi_shortage {
#define PTOI_SHORT_ENUM(NAME, ...) PTOI_SHORT_##NAME = PTO_RING_##NAME,
    PTO_LEVEL_RING_MAP(PTOI_SHORT_ENUM)
#undef PTOI_SHORT_ENUM
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
    uint16_t desc; /* of all of it, in order: the number, if it is known; else 0 */
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
    uint64_t retire_at;         /* the order at which submit looks next what has become of tasks */
    uint32_t depth;             /* of scopes */
    uint32_t level;             /* of tasks submitted now */
    uint32_t base;    /* of the lifetime that they belong to: place in the stack of scopes */
    ptoi_rings *ring; /* that of the level */
    uint32_t levels;
    uint32_t n_kernels;    /* with number 0, which is none */
    uint32_t first_kernel; /* added to their numbers */
    uintptr_t heap_low[2]; /* all heaps, as the orchestrator and as the scheduler sees them */
    uintptr_t heap_bytes;
    uintptr_t heap_begin, heap_end; /* around both; far more than they are, if mapped twice */
    pto_tensormap *map;
    ptoi_buffer *buffers;
    uint32_t n_buffers, max_buffers;
    uint32_t temp_desc; /* of the last temporary: the number, or 0 */
    pto_tensor temp;    /* itself, but for its memory */
    uint32_t served;    /* types that anybody serves */
    ptoi_scheduler *scheduler;
    ptoi_calls *calls;        /* for tasks that submit runs itself */
    const ptoi_a32 *sleepers; /* idle or resting, in the window: who might sleep while tasks come */
    uint32_t forks;           /* ptoi_os_forks as it was created */
    bool inside;              /* this thread is in a call of window/caller.h, where kernels run */
    bool asymmetric;
    bool watched; /* there is a watcher, or the run is traced */
    bool guarded; /* managed memory has guards */
    pto_task last;
    pto_task unmapped; /* the task that runs alone, because the map could not hold it; 0: none */
    ptoi_poison poison;
    ptoi_rings rings[PTO_MAX_LEVELS];

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

    struct {                  /* of tasks that submit runs itself: orchestrator/inlined.h */
        uint32_t types;       /* that it may run */
        uint32_t ahead;       /* so many tasks that nobody has claimed keep the workers busy */
        uint64_t claimed;     /* out of the inbox, when it was last checked */
        uint64_t claimed_at;  /* the order at which to look again */
        uint64_t catch_at;    /* the order at which to catch up, if a brief one has to wait */
        uint64_t patience;    /* in tasks, until it is tried again */
        uint64_t most, least; /* bounds of that */
        uint64_t checked;     /* ticks: when it last checked at the clock */
        uint64_t created_ticks, created_ns; /* so that it can be found out what a tick is */
    } inlining;

    struct ptoi_trace *trace; /* of a run that is recorded (observe/trace.h); NULL: none is */

    pto_watcher watcher;
    pto_failure damage;    /* the first failure that this side has found itself; task 0: none */
    pto_task told_failure; /* the failure that the program was last told of; 0: none */
    bool told_cancel;      /* it was told of the cancel */
    ptoi_a64 helped;       /* tasks that the orchestrating thread ran */
    ptoi_guard_hidden hidden;

    ptoi_settings settings;
    int file;
    void *memory, *memory_s; /* both mappings; the same unless it is mapped twice */
    size_t bytes;
    size_t scope_bytes, buffer_bytes, edge_bytes, access_bytes, record_bytes, held_bytes;
    ptoi_record *records;
    ptoi_heap_run *runs; /* of the heaps, and as many to try things on */
    size_t run_bytes;
    uint64_t *held_until;
};

#define PTOI_MAX_SCOPES (UINT32_C(1) << 22)

/* Parameters and edges that a task of the fast path has at most: submit.c. */
#define PTOI_FAST_PARAMS 16
#define PTOI_FAST_EDGES 64

/* Whether this thread may orchestrate now: PTO_WRONG_THREAD otherwise. */
pto_status ptoi_runtime_refuse(const pto_runtime *rt, const char *who);

static inline pto_status ptoi_runtime_enter(const pto_runtime *rt, const char *who)
{
    if (PTOI_LIKELY(rt && ptoi_get64(&rt->thread) == ptoi_os_self() && !rt->inside &&
                    rt->forks == ptoi_os_forks)) {
        return PTO_OK;
    }
    return ptoi_runtime_refuse(rt, who);
}

/* The calling thread is the orchestrating one from now on. */
void ptoi_runtime_adopt(pto_runtime *rt);

static inline ptoi_record *ptoi_record_of(const ptoi_rings *rings, uint64_t seq)
{
    return &rings->records[(uint32_t)seq & rings->mask];
}

#endif /* PTOI_RUNTIME_H */
