/* runtime.h - the orchestrator's side: the state that only the orchestrating thread writes.
 *
 *   submit ──> map: which tasks must it wait for     (map/)
 *          ──> rings: slot, heap, arguments, edges   one of each per level
 *          ──> window: written, then published in the inbox
 *   retire ──> complete tasks are recycled in order, and the rings with them
 *
 * The scheduler's side writes nothing here, so nothing is locked. The few atomic fields are read by
 * other threads of the program. What the two sides share is in the window.
 *
 * For each level
 *
 *      retired <= completed <= head,  retired <= released <= head,  head - retired <= ring_tasks
 *
 *   Tasks below `completed` are complete. Tasks below `released` are held by no open scope. Tasks
 *   below `retired` are recycled: they were complete and released, and no unfinished task used
 *   their memory.
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

/* Task record: what the orchestrator knows about a task beside its slot. One cache line. */
typedef struct ptoi_record {
    uint64_t heap_at;   /* offset of its block */
    uint64_t heap_size; /* 0: it has no block */
    uint64_t args_end;  /* heads of the two rings after this task took its pieces */
    uint64_t deps_end;
    uint64_t linked;   /* the last attempt with an edge from it, at index `link` */
    uint64_t named_by; /* the last attempt that names its memory */
    uint32_t holders;  /* tasks that ever named its memory; PTOI_HELD if one was offloaded */
    uint32_t scopes;   /* open scopes of its lifetime when it was submitted */
    uint32_t base;     /* index of the outermost of them in the stack */
    uint32_t link;
} ptoi_record;

#define PTOI_HELD 0x80000000u
#define PTOI_HOLDERS 0x7fffffffu

_Static_assert(sizeof(ptoi_record) == PTOI_LINE, "a task record is one cache line");

/* Why one task waits for another. The order is that of `edges` in the header of the window. */
typedef enum ptoi_reason {
    PTOI_REASON_RAW,
    PTOI_REASON_WAR,
    PTOI_REASON_WAW,
    PTOI_REASON_AFTER,
    PTOI_REASONS
} ptoi_reason;

typedef struct ptoi_rings {
    uint64_t fast_until;     /* tasks of lower order may take the fast path (submit.c): there is
                                room in all rings. Set as a submit ends; 0 after the slow path has
                                taken room, and after a failure */
    bool edges_short;        /* the edge ring is half full: drop edges to complete tasks */
    uint64_t head;           /* the number of the next task */
    ptoi_progress *progress; /* published state of the level, in the window */
    uint64_t completed;
    uint64_t retired;
    uint64_t released;
    uint32_t mask;
    ptoi_slot *slots;
    ptoi_state *states;
    ptoi_a64 *orders;
    ptoi_record *records;
    /* A row per slot, valid with PTOI_HELD. held_until[l] is one past the last task on level l that
     * uses the memory of the slot's task. */
    uint64_t *held_until;
    ptoi_heap heap;
    ptoi_ring args, deps;
    ptoi_arg_desc *arg_descs; /* memory of the argument ring, in the window */
    ptoi_ref *refs;           /* memory of the edge ring, in the window */
    ptoi_ref blocker;   /* an unfinished task that uses the memory of the oldest; 0: none known */
    uint32_t pins;      /* open lifetimes on this level with `pinned` set */
    uint32_t n_held;    /* records that have PTOI_HELD */
    uint32_t fresh_lap; /* every word of state.waiters is of lap fresh_lap - 1 or later */
} ptoi_rings;

/* Which ring has no room for a submit. */
typedef enum ptoi_shortage {
#define PTOI_SHORT_ENUM(NAME, ...) PTOI_SHORT_##NAME = PTO_RING_##NAME,
    PTO_LEVEL_RING_MAP(PTOI_SHORT_ENUM)
#undef PTOI_SHORT_ENUM
        PTOI_SHORT_NOTHING,
} ptoi_shortage;

/* An open scope. */
typedef struct ptoi_scope {
    uint64_t order;   /* tasks submitted before it */
    uint64_t seq;     /* head of its level when it began */
    uint32_t buffers; /* buffer records in use when it began */
    uint32_t site;
    uint32_t level;      /* of tasks submitted inside it */
    uint32_t base;       /* index in the stack of the scope that begins its lifetime */
    uint32_t boundaries; /* open boundary scopes, including this one */
    uint64_t pinned;     /* in the scope that begins a lifetime: the first task of that lifetime
                            submitted while an inner lifetime was open on the same level; 0: none */
} ptoi_scope;

/* A managed buffer. Records form a stack: a lifetime that ends pops all that were made in it. */
typedef struct ptoi_buffer {
    uint64_t life;  /* identity of the buffer; never used twice */
    uint64_t order; /* tasks submitted before it was created */
    uint64_t bytes; /* size that the program asked for */
    uint64_t at;    /* offset of its memory in the heap of `level` */
    uint64_t seq;   /* the task that owns the memory; 0: it has no memory yet */
    uint64_t fresh; /* the attempt that is about to give it memory */
    uint32_t version;
    uint32_t base;   /* index in the stack of the scope that begins its lifetime */
    uint16_t desc;   /* layout of the whole buffer, densely: its number, or 0 if it has none */
    uint8_t level;   /* of the owner task */
    bool maps_whole; /* attempt `fresh` records the whole buffer in the map, as fresh memory */
    bool unmapped;   /* the map has no entry for it: all tasks that used it ran inline */
} ptoi_buffer;

_Static_assert(sizeof(ptoi_buffer) == PTOI_LINE, "a buffer record is one cache line");

/* Bad tasks and the memory they were to write: orchestrator/poison.c. */
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
    bool all;                            /* the list overflowed: all memory counts as bad */
    ptoi_bad_range *bad[PTO_MAX_LEVELS]; /* numbers of bad tasks, rising */
    uint32_t n_bad[PTO_MAX_LEVELS];
    uint64_t fence
        [PTO_MAX_LEVELS]; /* bad tasks are not recycled before all tasks below these are complete */
    size_t region_bytes, bad_bytes;
} ptoi_poison;

struct pto_runtime {
    /* hot */
    ptoi_a64 thread;  /* the orchestrating thread; other threads compare themselves with it */
    ptoi_view view;   /* the orchestrator's mapping of the window */
    uint64_t order;   /* tasks submitted */
    uint64_t attempt; /* counts submits; marks that hold an older value are void */
    uint64_t why[PTOI_REASONS]; /* edges, by reason; published by ptoi_retire_publish */
    uint64_t retire_at;         /* the order at which submit next retires tasks */
    uint32_t depth;             /* open scopes */
    uint32_t level;             /* of tasks submitted now */
    uint32_t base;              /* index of the scope that begins their lifetime */
    ptoi_rings *ring;           /* &rings[level] */
    uint32_t levels;
    uint32_t n_kernels;    /* including number 0, which is no kernel */
    uint32_t first_kernel; /* xored with the number of a kernel to make its handle */
    uintptr_t
        heap_low[2]; /* start of all heaps, in the orchestrator's and the scheduler's mapping */
    uintptr_t heap_bytes;
    uintptr_t heap_begin,
        heap_end; /* a range that contains both mappings, and possibly much more */
    pto_tensormap *map;
    ptoi_buffer *buffers;
    uint32_t n_buffers, max_buffers;
    uint32_t temp_desc; /* number of the layout of `temp`, or 0 */
    pto_tensor temp;    /* the last temporary, without its memory */
    uint32_t served;    /* worker types that some thread serves */
    ptoi_scheduler *scheduler;
    ptoi_calls *calls; /* for tasks that submit runs itself */
    const ptoi_a32
        *sleepers;  /* `idle` or `resting` in the window: threads that may sleep while tasks come */
    uint32_t forks; /* ptoi_os_forks when the runtime was created */
    bool inside; /* the orchestrating thread is in a call of window/caller.h, which runs kernels */
    bool asymmetric;
    bool watched; /* there is a watcher, or the run is traced */
    bool guarded; /* managed memory has guards */
    pto_task last;
    pto_task unmapped; /* the task that runs alone because the map cannot hold it; 0: none */
    ptoi_poison poison;
    ptoi_rings rings[PTO_MAX_LEVELS];

    ptoi_scope *scopes;
    uint64_t lives;  /* buffers ever created */
    ptoi_ref *edges; /* room for one to every task there is */
    pto_map_param *accesses;
    uint32_t max_accesses;

    struct { /* sites, by pointer of the file name and line */
        const char *file;
        int line;
        uint32_t site;
    } site_cache[256];
    uint32_t n_sites;
    uint32_t *site_table; /* numbers of sites, hashed by file and line; 0: free */
    size_t site_bytes;
    uint32_t string_bytes;

    pto_kernel work_kernel; /* work requests: window/builtin.h */
    pto_kernel rearrange_vector, rearrange_accelerator;
    struct ptoi_devices *devices;

    struct {                  /* inline execution: orchestrator/inline.h */
        uint32_t types;       /* worker types that submit may run */
        uint32_t ahead;       /* this many unclaimed tasks keep the workers busy */
        uint64_t claimed;     /* inbox_claimed, as last read */
        uint64_t claimed_at;  /* the order at which to read it again */
        uint64_t catch_at;    /* the order from which a blocked short task may catch up */
        uint64_t patience;    /* tasks between two attempts to catch up */
        uint64_t most, least; /* bounds of `patience` */
        uint64_t checked;     /* ticks: when the clock was last checked */
        uint64_t created_ticks, created_ns; /* to calibrate the tick counter */
    } inlining;

    struct ptoi_trace *trace; /* NULL: the run is not traced (orchestrator/trace.h) */

    pto_watcher watcher;
    pto_failure damage; /* the first failure that the orchestrator has found itself; task 0: none */
    pto_task reported_failure; /* the failure last reported to the program; 0: none */
    bool reported_cancel;      /* the cancel was reported */
    ptoi_a64 helped;           /* tasks that the orchestrating thread ran */
    ptoi_guard_hidden hidden;

    ptoi_settings settings;
    int file;
    void *memory, *memory_s; /* both mappings of the window; equal unless config.map_twice */
    size_t bytes;
    size_t scope_bytes, buffer_bytes, edge_bytes, access_bytes, record_bytes, held_bytes;
    ptoi_record *records;
    ptoi_heap_run *runs; /* of the heaps, and the same again for trial copies */
    size_t run_bytes;
    uint64_t *held_until;
};

#define PTOI_MAX_SCOPES (UINT32_C(1) << 22)

/* Most parameters and edges of a task on the fast path: submit.c. */
#define PTOI_FAST_PARAMS 16
#define PTOI_FAST_EDGES 64

/* The error of a call that ptoi_runtime_enter refuses: PTO_NULL_ARGUMENT, PTO_WRONG_THREAD, or that
 * of a forked process. */
pto_status ptoi_runtime_refuse(const pto_runtime *rt, const char *who);

/* Checks that this thread may orchestrate now. */
static inline pto_status ptoi_runtime_enter(const pto_runtime *rt, const char *who)
{
    if (PTOI_LIKELY(rt && ptoi_get64(&rt->thread) == ptoi_os_self() && !rt->inside &&
                    rt->forks == ptoi_os_forks)) {
        return PTO_OK;
    }
    return ptoi_runtime_refuse(rt, who);
}

/* Makes the calling thread the orchestrating one. */
void ptoi_runtime_adopt(pto_runtime *rt);

static inline ptoi_record *ptoi_record_of(const ptoi_rings *rings, uint64_t seq)
{
    return &rings->records[(uint32_t)seq & rings->mask];
}

#endif /* PTOI_RUNTIME_H */
