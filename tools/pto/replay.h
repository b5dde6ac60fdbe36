/* replay.h - simulates a recorded run, without its kernels, event by event.
 *
 *     trace ──replay_plan.c──> plan: the steps of the orchestrating thread, and the tasks
 *                               │
 *                               ├──replay_run.c────> one run on a machine: makespan, waits
 *                               │  replay_room.c     its rings
 *                               └──replay_rings.c──> the smallest rings
 *
 * What is modelled. The orchestrating thread takes its steps one after the other, with the recorded
 * amount of its own work before each. A task is submitted when there is room for it: a slot, a
 * block of the heap, arguments, map entries and edges. The code of the runtime itself (ring.h,
 * heap.h) allocates and frees them in order, as docs/design.md says. A task gives back its slot,
 * arguments, edges and map entries when it and all before it on its level are complete. Blocks of a
 * heap have an order of their own: the oldest is freed when its task and all before that are
 * complete, no unfinished task uses it, and its lifetime has ended or all its buffers were given
 * up. A task can run when its dependencies are complete, and it takes as long as it did in the
 * recording. A worker first takes a task that its last task made ready, then the task that has
 * waited longest. The orchestrating thread runs tasks while it waits for room or in pto_wait, if it
 * did so in the recording. Four delays are medians of the recording: between two tasks of a worker,
 * until a polling worker finds a task, until a worker goes to sleep, and until a sleeping worker
 * wakes up.
 *
 * What is not modelled. Kernels do not get slower or faster with the number of workers, although
 * they share caches and memory. The program submits the same tasks, even if it decides by data it
 * reads or by the clock. The same tasks fail and are skipped. Failed tasks are not kept for later
 * queries. The number of blocks has no limit. Lost records are missing. When memory is recycled
 * differs from run to run, and with it where blocks lie in a ring. So ring sizes are searched with
 * several recycling policies (replay_way and replay_rings.c).
 */
#ifndef TOOL_REPLAY_H
#define TOOL_REPLAY_H

#include <stdbool.h>

#include <pto/config.h>

#include "trace.h"

/* ---- The plan ---- */

/* A task with the block that it brings, if any; or a block that no task brings, which takes no slot
 * and is complete from the start. */
typedef struct replay_node {
    uint64_t ran;        /* ns from its start to its end */
    uint64_t held;       /* ns that it occupied its worker: less if it was pending */
    uint64_t heap;       /* bytes of its block; may be 0 */
    uint32_t args;       /* units of its arguments */
    uint32_t entries;    /* map entries */
    uint32_t order;      /* its position in submission order, from 1; 0: not a task */
    uint32_t user;       /* the last task that uses its memory, plus one */
    uint32_t lifetime;   /* of its block, numbered from 1 in order of begin; 0: no lifetime */
    uint32_t buffers;    /* in its block, not given up */
    uint32_t held_until; /* a lifetime holds its block until this op of the plan; PTRACE_NONE: until
                          the end */
    uint8_t level;
    uint8_t type; /* worker type */
    bool runs;    /* false: complete as soon as it is ready */
    bool has_block;
} replay_node;

typedef enum replay_what {
    REPLAY_SUBMIT,
    REPLAY_BLOCK,
    REPLAY_WAIT,
} replay_what;

/* One step of the orchestrating thread. */
typedef struct replay_op {
    uint64_t before; /* ns of other work before it */
    uint64_t cost;   /* ns of the call, without waits */
    uint32_t node;   /* SUBMIT, BLOCK: the node; WAIT: the node, or PTRACE_NONE for all */
    uint8_t what;    /* replay_what */
    uint8_t level;
} replay_op;

/* A list of nodes for each node n: list[at[n]] up to but excluding list[at[n + 1]]. */
typedef struct replay_lists {
    uint32_t *at, *list;
} replay_lists;

typedef struct replay_plan {
    const ptoi_ptrace *trace;
    replay_node *nodes; /* the tasks of the trace, then the blocks */
    uint32_t n_nodes, n_tasks;
    replay_op *ops;
    uint32_t n_ops;
    replay_lists before, after;      /* edges, by consumer and by producer */
    replay_lists owners;             /* the nodes whose memory a task uses */
    uint32_t *level[PTO_MAX_LEVELS]; /* nodes by index */
    uint32_t n_level[PTO_MAX_LEVELS];
    uint64_t recorded;       /* ns from the first submit to the end of the last task */
    uint64_t work, critical; /* as in trace_stats */
    uint64_t submitting;     /* ns of work of the orchestrating thread: a lower bound */
    uint64_t next_ns;        /* from the end of a task to the next task of a busy worker */
    uint64_t find_ns;        /* until a polling worker starts a new task */
    uint64_t wake_ns;        /* until a sleeping worker starts a new task */
    uint64_t patience_ns;    /* time that a worker polls before it sleeps */
    uint32_t types;          /* worker types that the tasks need */
    uint32_t open;           /* tasks without a recorded end: they take no time here */
} replay_plan;

/* Whether the trace is of an older version, where scopes held tasks. There is no plan for it. */
bool replay_is_outdated(const ptoi_ptrace *trace);

/* Makes a plan. Returns false if memory runs out. The trace must outlive the plan. */
bool replay_plan_make(const ptoi_ptrace *trace, replay_plan *plan);
void replay_plan_free(replay_plan *plan);

/* ---- A run ---- */

#define REPLAY_KINDS (1 << PTO_WORKER_TYPES)

/* Sizes of all rings in the units of a trace: heap and arguments in bytes. 0: unbounded. */
typedef struct replay_rings {
    uint64_t size[PTO_MAX_LEVELS][PTO_RINGS];
} replay_rings;

/* When free room is recycled. */
typedef enum replay_way {
    REPLAY_AS_NEEDED, /* like the runtime: when a ring is full, at waits, and every 32 tasks */
    REPLAY_EAGERLY,   /* before every submit, so that rings become empty, and restart, as often as
                         possible */
    REPLAY_WAYS
} replay_way;

#define REPLAY_RECYCLE_EVERY 32 /* tasks: RETIRE_EVERY of src/orchestrator/submit.c */

typedef struct replay_machine {
    uint32_t workers[REPLAY_KINDS]; /* number of workers by the set of types they serve */
    uint32_t caller;                /* types that the orchestrating thread runs while it waits */
    replay_rings rings;
    replay_way way;
} replay_machine;

typedef enum replay_end {
    REPLAY_DONE,
    REPLAY_STALLED,   /* deadlock: a lifetime holds the oldest block, or the request is too large */
    REPLAY_NO_WORKER, /* no worker serves the type of a task */
    REPLAY_NO_MEMORY,
} replay_end;

typedef struct replay_result {
    replay_end end;
    uint32_t level, ring, node; /* STALLED: the ring and the node; NO_WORKER: the node */
    uint64_t makespan;
    uint64_t waited;                           /* ns that submits waited for room */
    uint64_t waits[PTO_MAX_LEVELS][PTO_RINGS]; /* number of submits that waited */
    uint64_t most[PTO_MAX_LEVELS][PTO_RINGS];  /* peak usage */
} replay_result;

/* For each op of the plan: on its level the blocks of all nodes below `freed` can be freed, and all
 * nodes below `completed` are complete. And the number of edges from its task to unfinished tasks.
 */
typedef struct replay_marks {
    uint32_t *freed, *completed, *edges;
} replay_marks;

/* Gets the recorded machine. */
void replay_machine_recorded(const replay_plan *plan, replay_machine *machine);

/* Runs the plan. Fills `marks` if it is not NULL; the machine must then be unbounded and recycle
 * eagerly. */
void replay_run(const replay_plan *plan, const replay_machine *machine, const replay_marks *marks,
                replay_result *result);

/* Called now and then with the number of ops done and in total, to show progress. May be NULL. */
extern void (*replay_progress)(uint64_t done, uint64_t all);

/* ---- Rings ---- */

/* Ring sizes of the runtime are multiples of this, or powers of two if it is 0. */
uint64_t replay_grain(uint32_t ring);
uint64_t replay_smallest(uint32_t ring); /* smallest size of the runtime */
uint64_t replay_largest(uint32_t ring);

typedef struct replay_sizes {
    replay_rings free;  /* no submit waits on the recorded machine, with any recycling policy */
    replay_rings least; /* no deadlock, whenever tasks complete and however long submits wait. Edges
                           and map entries cannot deadlock: they are as on the machine */
    replay_rings good;  /* each ring in turn halved as long as the makespan grows by at most one
                           percent, and not below `least` */
    uint64_t proven_heap[PTO_MAX_LEVELS]; /* with this heap there is no deadlock, whatever the order
                                             in which tasks complete; 0: none was found */
    replay_result with_free, with_good, with_least; /* results with all of these sizes together,
                                                       recycled as needed */
} replay_sizes;

/* Finds the sizes. They are 0 for unused levels, and where no size is enough. Returns false if
 * memory runs out. */
bool replay_rings_find(const replay_plan *plan, const replay_machine *machine, replay_sizes *sizes);

#endif /* TOOL_REPLAY_H */
