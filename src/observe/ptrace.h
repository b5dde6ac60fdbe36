/* ptrace.h - the .ptrace file: a run, as it was recorded. Version 1.
 *
 *     +--------+---------------+------+---------+---------+-------+--  --+-------+-------+------+
 *     | header | section table | META | STRINGS | KERNELS | SITES |  ..  | TASKS | EDGES | ...  |
 *     +--------+---------------+------+---------+---------+-------+--  --+-------+-------+------+
 *          |            ^ kind, item_bytes, at, count        each section begins at a multiple of 8
 *          └ sections_at
 *
 * This is the only place in C that says how it lies. Everything is little-endian and naturally
 * aligned, so that on such a machine the structs below are the file. A section is an array of items
 * of one size. Later versions of the library may add kinds of sections, which readers skip, and
 * fields at the end of an item, which readers pass over by item_bytes; items shorter than they
 * should be are refused. Anything else takes a new version number.
 *
 * Things refer to each other by index in their section:
 *
 *     EDGES.from, to ──> TASKS ──kernel──> KERNELS ──name──> STRINGS (an offset)
 *                          │  ──site────> SITES ──file─────> STRINGS
 *                          │  ──lane────> LANES
 *                          └──first_edge, edges──> EDGES (those that lead to it, in one piece)
 *                          └──first_arg, args────> ARGS ──dims──> DIMS (ndim sizes, ndim strides)
 *
 * Tasks stand in the order of submission, and an edge leads from an earlier task to a later one. So
 * one pass over TASKS meets every producer before its consumers.
 */
#ifndef PTOI_PTRACE_H
#define PTOI_PTRACE_H

#include <stdint.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "trace files are little-endian, and read and written as they lie in memory"
#endif

#define PTRACE_MAGIC_LETTERS 'P', 'T', 'O', 'T', 'R', 'A', 'C', 'E'
#define PTRACE_VERSION 1u
#define PTRACE_NONE UINT32_MAX    /* of an index: none */
#define PTRACE_UNKNOWN UINT64_MAX /* of a time: not known. Others: ns since time 0 */

typedef struct ptrace_header {
    char magic[8];
    uint32_t version;
    uint32_t sections;
    uint64_t sections_at; /* where the table lies */
    uint64_t bytes;       /* of the whole file: a shorter one was cut off */
    uint64_t origin_ns;   /* CLOCK_REALTIME at time 0 */
    uint64_t lost;        /* records that found no room, of all threads */
    uint64_t zero[2];
} ptrace_header;

typedef struct ptrace_section {
    uint32_t kind;
    uint32_t item_bytes;
    uint64_t at;    /* from the start of the file */
    uint64_t count; /* of items */
} ptrace_section;

/* X(NAME, number, field, type): what one item of it is, and its name in a ptoi_ptrace. */
#define PTRACE_SECTION_MAP(X)                                                                      \
    X(META, 1, meta, char)       /* text: lines "key=value\n" */                                   \
    X(STRINGS, 2, strings, char) /* each ends with a NUL; the one at offset 0 is "" */             \
    X(KERNELS, 3, kernels, ptrace_kernel)                                                          \
    X(SITES, 4, sites, ptrace_site)                                                                \
    X(LANES, 5, lanes, ptrace_lane)                                                                \
    X(TASKS, 6, tasks, ptrace_task)                                                                \
    X(EDGES, 7, edges, ptrace_edge)                                                                \
    X(ARGS, 8, args, ptrace_arg)                                                                   \
    X(DIMS, 9, dims, int64_t)                                                                      \
    X(EVENTS, 10, events, ptrace_event)                                                            \
    X(RINGS, 11, rings, ptrace_ring_sample)                                                        \
    X(CAPS, 12, caps, ptrace_cap)                                                                  \
    X(LIVES, 13, lives, ptrace_life)

enum {
#define PTRACE_SECTION_ENUM(name, number, field, type) PTRACE_##name = (number),
    PTRACE_SECTION_MAP(PTRACE_SECTION_ENUM)
#undef PTRACE_SECTION_ENUM
        PTRACE_SECTIONS = 13,
    PTRACE_FIRST_SECTIONS =
        12 /* that every file has; the others only if there is something in them */
};

typedef struct ptrace_kernel {
    uint32_t name; /* in STRINGS */
    uint32_t type; /* pto_worker_type */
} ptrace_kernel;

/* A line of the program that submits. */
typedef struct ptrace_site {
    uint32_t file; /* in STRINGS */
    int32_t line;
} ptrace_site;

typedef enum ptrace_lane_kind {
    PTRACE_LANE_ORCHESTRATOR,
    PTRACE_LANE_WORKER,
    PTRACE_LANE_SCHEDULER,
    PTRACE_LANE_FOREIGN, /* threads of the program that complete tasks */
} ptrace_lane_kind;

/* A thread. */
typedef struct ptrace_lane {
    uint32_t name;  /* in STRINGS */
    uint32_t kind;  /* ptrace_lane_kind */
    uint32_t types; /* set of pto_worker_type that it serves */
    uint32_t zero;
    uint64_t lost; /* its records that found no room */
} ptrace_lane;

typedef enum ptrace_outcome {
    PTRACE_DONE,
    PTRACE_FAILED,
    PTRACE_SKIPPED, /* a task it depends on failed, or pto_cancel */
    PTRACE_OPEN,    /* not complete when the trace ended, or its end was lost */
} ptrace_outcome;

/*      called    submitted      ready                 start                end         retired
 *        |──submit──|──waits for──|──waits for a worker──|──────runs──────────|──kept──────|
 *         (blocked)     producers                                                          slot and
 *                                                                                  memory go to others
 */
typedef struct ptrace_task {
    uint64_t task; /* the program's handle, pto_task */
    uint64_t called;
    uint64_t submitted;
    uint64_t ready;
    uint64_t start;
    uint64_t end; /* complete: after a kernel that returned PTO_PENDING, the pto_task_complete */
    uint64_t retired;
    uint64_t blocked; /* ns of the submit spent waiting for room in rings */
    uint32_t kernel;
    uint32_t site;
    uint32_t lane; /* it ran on; none if it did not */
    uint32_t first_edge, edges;
    uint32_t first_arg;
    uint16_t args;
    uint8_t level;   /* ring level */
    uint8_t outcome; /* ptrace_outcome */
} ptrace_task;

/* X(NAME, text) */
#define PTRACE_EDGE_MAP(X)                                                                         \
    X(RAW, "RAW")     /* reads what the other wrote */                                             \
    X(WAR, "WAR")     /* overwrites what the other read */                                         \
    X(WAW, "WAW")     /* overwrites what the other wrote */                                        \
    X(AFTER, "after") /* the program said so: pto_after */

typedef enum ptrace_edge_kind {
#define PTRACE_EDGE_ENUM(name, text) PTRACE_##name,
    PTRACE_EDGE_MAP(PTRACE_EDGE_ENUM)
#undef PTRACE_EDGE_ENUM
        PTRACE_EDGE_KINDS
} ptrace_edge_kind;

#define PTRACE_SAME_REGION 255u /* as a verdict: nothing had to be compared */

/* `to` had to come after `from`. One for each pair of tasks, with the strongest reason there is (RAW,
 * then WAW, WAR, after), and the first two arguments that share a byte for that reason. It is there
 * whether or not `from` was complete when `to` came. What one later write covers leads to nobody any
 * more: that write does. */
typedef struct ptrace_edge {
    uint32_t from; /* in TASKS; none: a task that is not in the file */
    uint32_t to;
    uint8_t kind;    /* ptrace_edge_kind */
    uint8_t verdict; /* pto_overlap_stage that proved it, or PTRACE_SAME_REGION */
    uint16_t zero;
    uint32_t arg_from, arg_to; /* in ARGS; none for `after` */
} ptrace_edge;

#define PTRACE_USER 255u  /* as a segment: an address of the program's */
#define PTRACE_NODEP 128u /* bit of `access`: pto_nodep */

typedef struct ptrace_arg {
    uint64_t where; /* of the first element: an address, or an offset in the heap of a level; or the
                        value of a scalar */
    uint64_t bytes; /* of the storage it is a view of */
    uint32_t buffer; /* which managed buffer, a number that no other has; 0: memory of the user */
    uint8_t segment; /* PTRACE_USER, or the level whose heap `where` counts in */
    uint8_t dtype;   /* pto_dtype */
    uint8_t ndim;
    uint8_t access; /* pto_param_kind, and PTRACE_NODEP */
    uint32_t dims;  /* first of ndim sizes, then ndim strides in elements; none if ndim is 0 */
    uint32_t zero;
} ptrace_arg;

/* Rings, in the order of the numbers below and of event kinds 0 to 4. X(NAME, text) */
#define PTRACE_RING_MAP(X)                                                                         \
    X(SLOTS, "slots")                                                                              \
    X(HEAP, "heap")                                                                                \
    X(ARG_BYTES, "args")                                                                           \
    X(EDGE_REFS, "edges")                                                                          \
    X(MAP_ENTRIES, "map")

typedef enum ptrace_ring {
#define PTRACE_RING_ENUM(name, text) PTRACE_RING_##name,
    PTRACE_RING_MAP(PTRACE_RING_ENUM)
#undef PTRACE_RING_ENUM
        PTRACE_RING_KINDS
} ptrace_ring;

typedef enum ptrace_event_kind {
    PTRACE_STALL_SLOTS, /* submit waited for room in a ring: value says how much it wanted */
    PTRACE_STALL_HEAP,
    PTRACE_STALL_ARGS,
    PTRACE_STALL_EDGES,
    PTRACE_STALL_MAP,
    PTRACE_WAIT,   /* pto_wait and the like: value is the task, or 0 for all */
    PTRACE_PARKED, /* asleep */
    PTRACE_EVENT_KINDS
} ptrace_event_kind;

typedef struct ptrace_event {
    uint64_t begin;
    uint64_t end;
    uint32_t lane;
    uint16_t kind;
    uint16_t level;
    uint64_t value;
} ptrace_event;

/* How full a ring was, by time. */
typedef struct ptrace_ring_sample {
    uint64_t at;
    uint64_t used;
    uint32_t level;
    uint32_t ring; /* ptrace_ring; heap and args in bytes */
} ptrace_ring_sample;

/* How much fits into a ring. */
typedef struct ptrace_cap {
    uint64_t capacity;
    uint32_t level;
    uint32_t ring;
} ptrace_cap;

typedef enum ptrace_life_kind {
    PTRACE_SCOPED,   /* a scope is opened where none was: tasks are held from here on */
    PTRACE_UNSCOPED, /* the last one is ended: tasks that follow are held by none */
    PTRACE_RELEASED, /* no scope holds a task of this level any more whose handle is below `task` */
    PTRACE_MEMORY,   /* a block of `bytes` for `buffer`, in the place of a task that runs nothing:
                        its handle would be `task` */
    PTRACE_LIFE_KINDS
} ptrace_life_kind;

/* How long memory lives, as the orchestrating thread says it, by time. Handles of a level rise. */
typedef struct ptrace_life {
    uint64_t at;
    uint64_t task;
    uint64_t bytes;
    uint32_t buffer;
    uint16_t level;
    uint16_t kind; /* ptrace_life_kind */
} ptrace_life;

_Static_assert(sizeof(ptrace_header) == 64 && sizeof(ptrace_section) == 24 &&
                   sizeof(ptrace_lane) == 24 && sizeof(ptrace_task) == 96 &&
                   sizeof(ptrace_edge) == 20 && sizeof(ptrace_arg) == 32 &&
                   sizeof(ptrace_event) == 32 && sizeof(ptrace_ring_sample) == 24 &&
                   sizeof(ptrace_cap) == 16 && sizeof(ptrace_life) == 32,
               "the file is what the compiler makes of these structs");

#endif /* PTOI_PTRACE_H */
