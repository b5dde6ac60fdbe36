/* replay.h - a recorded run again, without its kernels: a simulation by events.
 *
 *     trace ──replay_plan.c──> plan: what the orchestrating thread does, step by step; tasks
 *                               │
 *                               ├──replay_run.c────> one run on a machine: makespan, waits
 *                               │  replay_room.c     its rings
 *                               └──replay_rings.c──> the smallest rings
 *
 * What is modelled. The orchestrating thread takes its steps one after the other, each after as much
 * work of its own as was recorded. A task is submitted when there is room for it: a slot, a block of
 * the heap, arguments, entries of the map and edges, given out by the code of the runtime (ring.h,
 * heap.h) and taken back in order, as docs/design.md says: edges and entries when all before are
 * complete, the others when also no scope holds the task and nobody uses its memory. It can run when
 * all that it depends on is complete, runs as long as it did, and a worker takes next what its last
 * task made ready, else what has waited longest. The orchestrating thread runs tasks while it waits
 * for room or in pto_wait, if it did. Time between two tasks of a worker, until one that looks for
 * work has found it, until one gives up and sleeps, and until a sleeper is awake, are the medians of
 * what was recorded.
 *
 * What is not: caches and memory that workers share, so that kernels are neither slower nor faster
 * among more or fewer of them; what a program would submit if it decides by what it has read or by
 * the clock; failures (who failed fails, who was skipped is); that bad tasks stay until nobody can
 * ask about them; records that were lost. How much is recycled by when differs from run to run, and
 * with it where in a ring pieces lie: so sizes of rings are looked for in several ways (replay_way and
 * replay_rings.c).
 */
#ifndef TOOL_REPLAY_H
#define TOOL_REPLAY_H

#include <stdbool.h>

#include <pto/config.h>

#include "trace.h"

/* ---- The plan ---- */

/* A task; or a block of memory that is no task's own, which has a place among them. */
typedef struct replay_node {
    uint64_t ran;     /* ns from its start to its end, */
    uint64_t held;    /* and so many of them with its worker: less, if it was pending */
    uint64_t heap;    /* bytes of the block that it owns */
    uint32_t args;    /* units of its arguments */
    uint32_t entries; /* of the map */
    uint32_t number;  /* on its level, from 0 on */
    uint32_t order;   /* so many were submitted before, and with, it; the runtime's number */
    uint32_t user;    /* the last task that uses its memory, plus one */
    uint8_t level;
    uint8_t type;  /* of workers */
    bool runs;     /* else it is complete when it could run */
    bool is_block; /* complete from the start */
} replay_node;

typedef enum replay_what {
    REPLAY_SUBMIT,
    REPLAY_BLOCK,
    REPLAY_WAIT,
    REPLAY_RELEASE,
    REPLAY_SCOPED,
    REPLAY_UNSCOPED,
} replay_what;

/* What the orchestrating thread does next. */
typedef struct replay_op {
    uint64_t before; /* ns of other work */
    uint64_t cost;   /* ns of the call, without waits */
    uint32_t node; /* SUBMIT, BLOCK: it; WAIT: for it, or PTRACE_NONE for all; RELEASE: nodes of the
                        level with lower numbers */
    uint8_t what;  /* replay_what */
    uint8_t level;
} replay_op;

/* Lists of nodes for each node: list[at[n]] to before list[at[n + 1]]. */
typedef struct replay_lists {
    uint32_t *at, *list;
} replay_lists;

typedef struct replay_plan {
    const ptoi_ptrace *trace;
    replay_node *nodes; /* the tasks of the trace, then blocks */
    uint32_t n_nodes, n_tasks;
    replay_op *ops;
    uint32_t n_ops;
    replay_lists before, after; /* edges, by the task that waits, and by the one it waits for */
    replay_lists owners;        /* whose memory it uses */
    uint32_t *level[PTO_MAX_LEVELS]; /* nodes by number */
    uint32_t n_level[PTO_MAX_LEVELS];
    uint64_t recorded;       /* ns from the first submit to the last end */
    uint64_t work, critical; /* as trace_stats has them */
    uint64_t submitting;     /* ns that the orchestrating thread needs at least */
    uint64_t next_ns;        /* from the end of a task to the next one of a busy worker */
    uint64_t find_ns;        /* until a worker that looks for work begins it */
    uint64_t wake_ns;        /* until one that sleeps does */
    uint64_t patience_ns;    /* that it looks before it sleeps */
    uint32_t types;          /* that tasks need */
    uint32_t open;           /* tasks whose end is not known: they take no time here */
} replay_plan;

/* False if there is no memory. The trace must stay. */
bool replay_plan_make(const ptoi_ptrace *trace, replay_plan *plan);
void replay_plan_free(replay_plan *plan);

/* ---- A run ---- */

#define REPLAY_KINDS (1 << PTO_WORKER_TYPES)

/* Sizes of all rings, in the units of a trace: heap and arguments in bytes. 0: no bound. */
typedef struct replay_rings {
    uint64_t size[PTO_MAX_LEVELS][PTO_RINGS];
} replay_rings;

/* When room that could be had again is taken back. */
typedef enum replay_way {
    REPLAY_AS_NEEDED, /* as the runtime does: when a ring is short, at waits, and every 32 tasks */
    REPLAY_EAGERLY,   /* before every submit: so that rings run empty, and start over, most often */
    REPLAY_WAYS
} replay_way;

#define REPLAY_RECYCLE_EVERY 32 /* tasks: RETIRE_EVERY of src/orchestrator/submit.c */

typedef struct replay_machine {
    uint32_t workers[REPLAY_KINDS]; /* by the set of types that they serve */
    uint32_t caller;                /* types that the orchestrating thread runs while it waits */
    replay_rings rings;
    replay_way way;
} replay_machine;

typedef enum replay_end {
    REPLAY_DONE,
    REPLAY_STALLED,   /* for ever: a scope holds what is in the way, or it is too large */
    REPLAY_NO_WORKER, /* nobody serves the type of a task */
    REPLAY_NO_MEMORY,
} replay_end;

typedef struct replay_result {
    replay_end end;
    uint32_t level, ring, node; /* STALLED: of what, and at which node; NO_WORKER: the node */
    uint64_t makespan;
    uint64_t waited;                           /* ns that submits waited for room */
    uint64_t waits[PTO_MAX_LEVELS][PTO_RINGS]; /* so many submits did */
    uint64_t most[PTO_MAX_LEVELS][PTO_RINGS];  /* that were in use */
} replay_result;

/* How far back each op of the plan finds its level: below these numbers all could be recycled, and all
 * are complete. And how many edges its task has to tasks that are not. */
typedef struct replay_marks {
    uint32_t *retired, *completed, *edges;
} replay_marks;

/* The machine that was recorded. */
void replay_machine_recorded(const replay_plan *plan, replay_machine *machine);

/* Runs the plan. If `marks` is there it is filled: for a machine without bounds, that recycles
 * eagerly. */
void replay_run(const replay_plan *plan, const replay_machine *machine, const replay_marks *marks,
                replay_result *result);

/* So many ops were taken, of a run of so many: may be asked from time to time to show it. */
extern void (*replay_progress)(uint64_t done, uint64_t all);

/* ---- Rings ---- */

/* Sizes a runtime takes are multiples of this, or powers of two if it is 0. */
uint64_t replay_grain(uint32_t ring);
uint64_t replay_smallest(uint32_t ring); /* that a runtime takes */
uint64_t replay_largest(uint32_t ring);

typedef struct replay_sizes {
    replay_rings free;  /* no submit waits, on the machine that was recorded, in any way */
    replay_rings least; /* nothing stalls for ever, whenever tasks complete and however long submits
                           wait; edges and entries of the map, for which that never happens, as the
                           machine has them */
    replay_rings good;  /* halved as often as it costs no more than one part in a hundred of the
                           makespan, one ring after the other, and not below the least */
    replay_result with_free, with_good, with_least; /* all at once, recycled as needed */
} replay_sizes;

/* Sizes of levels that nothing uses are 0, and so is what no size is enough for. False if there is no
 * memory. */
bool replay_rings_find(const replay_plan *plan, const replay_machine *machine, replay_sizes *sizes);

#endif /* TOOL_REPLAY_H */
