/* runtime.h - the orchestrator's side: the state that only the orchestrating thread writes.
 *
 *   submit ──> map: which tasks must it wait for     (map/)
 *          ──> rings: slot, heap, arguments, edges   one of each per level
 *          ──> window: written, then published in the inbox
 *   retire ──> complete tasks are recycled in order, and blocks of memory that nothing holds
 *
 * The scheduler's side writes nothing here, so nothing is locked. The few atomic fields are read by
 * other threads of the program. What the two sides share is in the window.
 *
 * For each level
 *
 *      retired <= completed <= head,  head - retired <= ring_tasks
 *
 *   Tasks below `completed` are complete. Tasks below `retired` are recycled: slot and arguments
 *   are free. `retired` lags behind `completed` only where a failed task may still be asked about.
 *   Memory is recycled on its own: block.h.
 */
#ifndef PTOI_RUNTIME_H
#define PTOI_RUNTIME_H

#include <pto/device.h>
#include <pto/pto.h>

#include "base/os.h"
#include "orchestrator/block.h"
#include "orchestrator/guard.h"
#include "orchestrator/inline_trial.h"
#include "orchestrator/map/map.h"
#include "orchestrator/ring/heap.h"
#include "orchestrator/ring/ring.h"
#include "tensor/tensor.h"
#include "window/caller.h"

#include "base/likely.h"

/* Task record: what the orchestrator knows about a task beside its slot. Half a cache line. */
typedef struct ptoi_record {
    uint64_t args_end; /* heads of the two rings after this task took its pieces */
    uint64_t deps_end;
    uint64_t linked; /* the last attempt with an edge from it, at index `link` */
    uint32_t link;
    uint32_t unused;
} ptoi_record;

_Static_assert(2 * sizeof(ptoi_record) == PTOI_LINE, "two task records fill a cache line");

/* Why one task waits for another. The order is that of `edges` in the header of the window. */
typedef enum ptoi_reason {
    PTOI_REASON_RAW,
    PTOI_REASON_WAR,
    PTOI_REASON_WAW,
    PTOI_REASON_AFTER,
    PTOI_REASONS
} ptoi_reason;

typedef struct ptoi_rings {
    uint64_t fast_until;     /* tasks of lower order may take the fast path (fast.h): there is
                                room in all rings. Set as a submit ends; 0 after the slow path has
                                taken room, and after a failure */
    bool edges_short;        /* the edge ring is half full: drop edges to complete tasks */
    uint64_t head;           /* the number of the next task */
    ptoi_progress *progress; /* published state of the level, in the window */
    uint64_t completed;
    uint64_t retired;
    uint32_t mask;
    ptoi_slot *slots;
    ptoi_state *states;
    ptoi_a64 *orders;
    ptoi_record *records;
    ptoi_heap heap;
    ptoi_blocks blocks; /* what is taken from the heap */
    ptoi_ring args, deps;
    ptoi_arg_desc *arg_descs; /* memory of the argument ring, in the window */
    ptoi_ref *refs;           /* memory of the edge ring, in the window */
    uint32_t renewed_lap;     /* every word of state.waiters is of lap renewed_lap - 2 or later */
} ptoi_rings;

/* Which ring has no room for a submit. */
typedef enum ptoi_shortage {
#define PTOI_SHORT_ENUM(NAME, ...) PTOI_SHORT_##NAME = PTO_RING_##NAME,
    PTO_LEVEL_RING_MAP(PTOI_SHORT_ENUM)
#undef PTOI_SHORT_ENUM
        PTOI_SHORT_BUFFERS = PTO_RING_BUFFERS, /* records of blocks */
    PTOI_SHORT_NOTHING,
} ptoi_shortage;

/* An open scope. */
typedef struct ptoi_scope {
    uint64_t lives;   /* what was born before it: runtime.lives */
    uint32_t buffers; /* buffer records in use when it began */
    uint32_t site;
    uint32_t level;      /* of tasks submitted inside it */
    uint32_t base;       /* index in the stack of the scope that begins its lifetime */
    uint32_t boundaries; /* open boundary scopes, including this one */
    /* In the scope that begins a lifetime: its buffer records that were given up. */
    uint32_t first_free; /* the first one, plus one; 0: none. They form a list */
    uint32_t n_free;
} ptoi_scope;

/* A lifetime that has ended: what was born in it has numbers (runtime.lives) in before + 1 to
 * last. */
typedef struct ptoi_end {
    uint64_t before, last;
    uint32_t site; /* where its scope was ended */
    bool is_block; /* PTO_SCOPE ended it: `site` is where the block begins, its end is not known */
} ptoi_end;

/* A buffer that was given up. */
typedef struct ptoi_released {
    uint64_t life;
    uint32_t site;
} ptoi_released;

#define PTOI_ENDS 64 /* lifetimes that are remembered, to explain stale handles; a power of two */

/* A managed buffer. Records form a stack: a lifetime that ends pops all that were made in it. A
 * record that is given up before (pto_release) serves the next buffer of the same lifetime. */
typedef struct ptoi_buffer {
    uint64_t life;    /* identity of the buffer; never used twice; 0: the record is free */
    uint64_t order;   /* tasks submitted before it was created */
    uint64_t bytes;   /* size that the program asked for */
    uint64_t at;      /* offset of its memory in the heap of `level` */
    uint64_t block;   /* number of the block that holds its memory; 0: it has no memory yet */
    uint64_t attempt; /* the one that is about to give it memory */
    uint32_t version;
    uint32_t base; /* index in the stack of the scope that begins its lifetime */
    union {
        uint32_t output;    /* which output of the task that brought its block */
        uint32_t next_free; /* of a free record: the next one of its lifetime, plus one; 0: none */
    };
    uint16_t desc;       /* layout of the whole buffer, densely: its number, or 0 if it has none */
    uint8_t level;       /* of the block */
    uint8_t device : 4;  /* number of the device that its memory is on */
    bool maps_whole : 1; /* `attempt` records the whole buffer in the map, as fresh memory */
    bool unmapped : 1;   /* the map has no entry for it: all tasks that used it ran inline */
} ptoi_buffer;

_Static_assert(sizeof(ptoi_buffer) == PTOI_LINE, "a buffer record is one cache line");

/* Bad tasks and the memory they were to write: orchestrator/poison.c. */
typedef struct ptoi_bad_range {
    uint64_t first, last;
    bool skipped; /* all of them, or none */
} ptoi_bad_range;

typedef struct ptoi_poison {
    pto_tensormap *map; /* outputs of bad tasks, as if each was written by a task of its own; NULL:
                           there are none */
    uint64_t *orders;   /* by region of the map: the order of its bad task */
    uint64_t recorded;  /* outputs recorded, which number the writers in the map */
    uint64_t swept;     /* `recorded` at the last sweep */
    uint32_t count;     /* outputs in the map that are still bad */
    uint32_t managed;   /* of those recorded since the last sweep, in managed memory */
    uint32_t asked;     /* questions since the last sweep */
    bool all;           /* the map is full: all memory counts as bad */
    ptoi_bad_range *bad[PTO_MAX_LEVELS]; /* rings of numbers of bad tasks, rising */
    uint32_t oldest[PTO_MAX_LEVELS];     /* index of the first range in its ring */
    uint32_t n_bad[PTO_MAX_LEVELS];
    uint64_t *fences; /* a row for each slot of a bad task: ptoi_poison_is_asked_about */
    size_t order_bytes, bad_bytes, fence_bytes;
} ptoi_poison;

/* What the orchestrator knows about a kernel beside its entry in the window.
 *
 * `routes` of a runtime has a bit for each route that a submit may take without a further look: the
 * worker types that some thread of the host serves, as long as the host is the only device in use. A
 * kernel with a declaration has another route, of which there never is a bit. So one test finds
 * kernels without a worker, kernels whose parameters are to be checked, and tasks whose device is to
 * be found; where there is none of these, it costs nothing. */
typedef struct ptoi_registered {
    struct ptoi_declaration *declaration; /* orchestrator/declare.h; NULL: none */
    uint32_t route;                       /* its worker type, and PTOI_ROUTE_DECLARED */
    bool copies;                          /* its tensors may be on two devices */
    uint16_t variant[PTOI_DEVICE_TYPES];  /* its number for each type of device; 0: none */
} ptoi_registered;

#define PTOI_CACHED 64 /* blocks that pto_execute keeps on each device */

/* A device that the runtime uses: orchestrator/device.h. */
typedef struct ptoi_rt_device {
    pto_device device;
    pto_device_ops ops;
    uint32_t served;                  /* worker types that some thread of the device serves */
    bool failed;                      /* it could not be opened */
    uint32_t first_worker, n_workers; /* its threads, among those of all devices but the host */
    ptoi_heap heap[PTO_MAX_LEVELS];   /* not of the host: ptoi_heap_of */
    char *memory[PTO_MAX_LEVELS];     /* of the heap, by its address on the host; NULL: not made */
    size_t run_bytes;                 /* of the records of each heap */
    void *guards[PTO_MAX_LEVELS];     /* arrays of its guards (window/guard.h); NULL: none */
    struct {                          /* orchestrator/cache.h */
        void *memory;                 /* NULL: no block */
        uint64_t bytes;
        bool used;
    } cached[PTOI_CACHED];
} ptoi_rt_device;

#define PTOI_ROUTE_DECLARED 16u
_Static_assert(PTO_WORKER_TYPES <= PTOI_ROUTE_DECLARED && PTOI_ROUTE_DECLARED * 2 <= 32,
               "a route is a type, or has no bit");

/* Called around waits: pto_set_wait_hooks. NULL: none. */
typedef struct ptoi_wait_hooks {
    void (*begin)(void *user);
    void (*end)(void *user);
    void *user;
} ptoi_wait_hooks;

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
    uint64_t first_kernel; /* xored with the number of a kernel to make its handle */
    ptoi_registered *kernels;
    uintptr_t
        heap_low[2]; /* start of all heaps, in the orchestrator's and the scheduler's mapping */
    uintptr_t heap_bytes;
    uintptr_t user_base;   /* where the segment of user memory begins: 0, or the shared memory */
    uint32_t user_segment; /* PTOI_SEGMENT_USER; in place process PTOI_SEGMENT_SHARED */
    uintptr_t heap_begin, heap_end; /* a range that contains both mappings, the heaps of devices and
                                       `refused_memory`, and possibly much more */
    struct {
        uintptr_t low, bytes;
        const char *why;
    } refused_memory; /* addresses that no task may use: pto_refuse_memory */
    pto_tensormap *map;
    ptoi_buffer *buffers;
    uint32_t n_buffers, max_buffers; /* records in the stack, and how many there can be */
    uint32_t n_free;                 /* of these, given up */
    uint64_t sweep_at;               /* the order from which layouts may be swept again: slow.c */
    uint32_t temp_desc;              /* number of the layout of `temp`, or 0 */
    pto_tensor temp;                 /* the last temporary, without its memory */
    uint32_t routes;                 /* that need no further look: see ptoi_registered */
    ptoi_scheduler *scheduler;
    ptoi_calls *calls; /* for tasks that submit runs itself */
    const ptoi_a32
        *sleepers;  /* `idle` or `resting` in the window: threads that may sleep while tasks come */
    uint32_t forks; /* ptoi_os_forks when the runtime was created */
    bool inside;    /* the orchestrating thread is in code of the program: in a call of
                    window/caller.h, which runs kernels, or in a watcher */
    bool watched;   /* there is a watcher, the run is traced, or the next task has a label */
    uint32_t guarded; /* a bit for each device by number: managed memory there has guards */
    bool mirrored;    /* a device schedules for itself: orchestrator/mirror.h */
    uint32_t grid_first, grid_workers; /* then: its blocks, among the workers of other devices */
    bool is_handle;                    /* of a worker process: ptoi_runtime_for_worker */
    pto_task last;
    pto_task unmapped; /* the task that runs alone because the map cannot hold it; 0: none */
    ptoi_poison poison;
    ptoi_rings rings[PTO_MAX_LEVELS];

    ptoi_scope *scopes;
    ptoi_end ends[PTOI_ENDS]; /* the last lifetimes that ended, number n at n % PTOI_ENDS */
    uint64_t n_ends;
    ptoi_released released[PTOI_ENDS]; /* the last buffers that were given up, likewise */
    uint64_t n_released;
    uint64_t forgotten;   /* up to this one, what was born may be of an end that was overwritten */
    uint64_t lives;       /* the number of the last buffer or block. Orders their births with the
                             beginnings of scopes */
    uint64_t numbers_end; /* of the range of numbers that it gives back: runtime.c. 0: of none */
    ptoi_ref *edges;      /* room for one to every task there is */
    pto_map_param *accesses;

    struct { /* sites, by pointer of the file name and line */
        const char *file;
        int line;
        uint32_t site;
    } site_cache[256];
    uint32_t n_sites;
    uint32_t *site_table; /* numbers of sites, hashed by file and line; 0: free */
    size_t site_bytes, kernel_bytes;
    uint32_t string_bytes;

    pto_kernel work_kernel; /* work requests: window/builtin.h */
    pto_kernel rearrange_vector, rearrange_accelerator;
    pto_kernel op_kernel;    /* operators as tasks */
    ptoi_rt_device *devices; /* PTOI_DEVICES; the first is the host */
    uint32_t n_devices;
    uint32_t home;      /* number of the default device: config.device */
    uint32_t executing; /* calls of pto_execute that have not returned */

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
        ptoi_trial trial;                   /* of where tasks with medium kernels run */
    } inlining;

    struct {            /* orchestrator/label.c */
        uint32_t state; /* of the label of the next task: ptoi_label_state */
        char text[PTO_LABEL_BYTES];
        uint64_t ranges; /* ever begun */
    } label;

    struct ptoi_processes *processes; /* orchestrator/process.c; NULL: there is one process */
    struct ptoi_posts *posts;         /* orchestrator/post.c */
    struct ptoi_attach *attach;       /* orchestrator/attach.c; NULL: no worker may attach */
    struct ptoi_shared *shared;       /* orchestrator/shared.c; NULL: none was asked for */

    struct ptoi_trace *trace; /* NULL: the run is not traced (orchestrator/trace.h) */

    pto_watcher watcher;
    ptoi_interrupt interrupt; /* called during waits: pto_set_interrupt, pto_set_poll */
    ptoi_wait_hooks wait_hooks;
    const char *kept_why; /* why it must not be destroyed: pto_refuse_destroy; NULL: it may */
    bool heaps_detached;  /* pto_detach_heaps: the caller unmaps mapping_s of the heaps */
    pto_failure damage; /* the first failure that the orchestrator has found itself; status PTO_OK:
                           none */
    uint64_t reported_failure; /* order of the failure last reported, plus one; 0: none */
    bool reported_cancel;      /* the cancel was reported */
    pto_refusal refusal;       /* the first one since the last pto_refused; count 0: none */
    bool submits_for;          /* in ptoi_submit_for: the outer call notes a refusal */
    ptoi_a64 helped;           /* tasks that the orchestrating thread ran */
    ptoi_guard_hidden hidden;

    ptoi_settings settings;
    int files[PTOI_PARTS];           /* of the window */
    ptoi_mapping mapping, mapping_s; /* of each side; equal unless config.map_twice */
    size_t scope_bytes, buffer_bytes, edge_bytes, access_bytes, record_bytes, held_bytes;
    ptoi_record *records;
    ptoi_heap_block *blocks;
    uint64_t *held_until;
    ptoi_heap_run *runs; /* of the heaps, and the same again for trial copies */
    size_t run_bytes, block_bytes;
    uint32_t n_runs; /* of all heaps, without the copies */
};

/* Whether managed memory on a device has guards. */
static inline bool ptoi_guard_is_on(const pto_runtime *rt, uint32_t device)
{
    return rt->guarded >> device & 1;
}

#define PTOI_MAX_SCOPES (UINT32_C(1) << 22)

/* Most parameters and edges of a task on the fast path: fast.h. */
#define PTOI_FAST_PARAMS 16
#define PTOI_FAST_EDGES 64

/* The error of a call that ptoi_runtime_enter refuses: PTO_NULL_ARGUMENT, PTO_WRONG_THREAD, or that
 * of a forked process. */
pto_status ptoi_runtime_refuse(const pto_runtime *rt, const char *who);

/* Whether this thread may orchestrate now. */
static inline bool ptoi_runtime_is_ours(const pto_runtime *rt)
{
    return rt && ptoi_get64(&rt->thread) == ptoi_os_self() && !rt->inside &&
           rt->forks == ptoi_os_forks;
}

/* Checks that it may. */
static inline pto_status ptoi_runtime_enter(const pto_runtime *rt, const char *who)
{
    return PTOI_LIKELY(ptoi_runtime_is_ours(rt)) ? PTO_OK : ptoi_runtime_refuse(rt, who);
}

/* Makes the calling thread the orchestrating one. */
void ptoi_runtime_adopt(pto_runtime *rt);

static inline ptoi_record *ptoi_record_of(const ptoi_rings *rings, uint64_t seq)
{
    return &rings->records[(uint32_t)seq & rings->mask];
}

#endif /* PTOI_RUNTIME_H */
