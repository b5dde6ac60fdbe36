/* ptrace.h - the .ptrace file: the recording of a run. Version 1.
 *
 *     +--------+---------------+------+---------+---------+-------+--  --+-------+-------+------+
 *     | header | section table | META | STRINGS | KERNELS | SITES |  ..  | TASKS | EDGES | ...  |
 *     +--------+---------------+------+---------+---------+-------+--  --+-------+-------+------+
 *          |            ^ kind, item_bytes, at, count        each section begins at a multiple of 8
 *          └ sections_at
 *
 * This is the only definition of the format in C. Everything is little-endian and naturally
 * aligned, so on such a machine the structs below are the file. A section is an array of items of
 * one size. Later versions of the library may add kinds of sections, and fields at the end of an
 * item. Readers skip the sections, and skip the fields by item_bytes. They refuse items that are
 * too short. Any other change needs a new version number.
 *
 * Items refer to each other by their index in the section:
 *
 *     EDGES.from, to ──> TASKS ──kernel──> KERNELS ──name──> STRINGS (an offset)
 *                          │  ──site────> SITES ──file─────> STRINGS
 *                          │  ──lane────> LANES
 *                          └──first_edge, edges──> EDGES (its incoming edges, contiguous)
 *                          └──first_arg, args────> ARGS ──dims──> DIMS (ndim sizes, ndim strides)
 *     FAILURES.task, cause ──> TASKS; .words ──> STRINGS; .edge ──> EDGES
 *     LABELS.task ──> TASKS; .text ──> STRINGS
 *     RANGES.first_task, tasks ──> TASKS; .name ──> STRINGS; .parent ──> RANGES
 *     DEVICES.arg ──> ARGS; .name ──> STRINGS
 *     NOTES.task ──> TASKS
 *
 * Tasks are in order of submission, and an edge leads from an earlier task to a later one. So a
 * pass over TASKS reaches every producer before its consumers.
 *
 * Every list of kinds is a table here, or in a public header: PTO_LEVEL_RING_MAP, PTO_DTYPE_MAP,
 * PTO_PARAM_MAP, PTO_WORKER_MAP, PTO_OVERLAP_STAGE_MAP. cmake/page.cmake reads the tables for the
 * page, which has no lists of its own. Numbers never change: new rows go to the end.
 */
#ifndef PTOI_PTRACE_H
#define PTOI_PTRACE_H

#include <stdint.h>

#include <pto/observe.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "trace files are little-endian, and are read and written without conversion"
#endif

#define PTRACE_MAGIC_LETTERS 'P', 'T', 'O', 'T', 'R', 'A', 'C', 'E'
#define PTRACE_VERSION 1u
#define PTRACE_NONE UINT32_MAX    /* as an index: none */
#define PTRACE_UNKNOWN UINT64_MAX /* as a time: not known. Other times are ns since time 0 */

typedef struct ptrace_header {
    char magic[8];
    uint32_t version;
    uint32_t sections;
    uint64_t sections_at; /* offset of the section table */
    uint64_t bytes;       /* size of the whole file: a shorter file was cut off */
    uint64_t origin_ns;   /* CLOCK_REALTIME at time 0 */
    uint64_t lost;        /* records of all threads that found no room */
    uint64_t zero[2];
} ptrace_header;

typedef struct ptrace_section {
    uint32_t kind;
    uint32_t item_bytes;
    uint64_t at;    /* from the start of the file */
    uint64_t count; /* of items */
} ptrace_section;

/* X(NAME, number, field, type, bytes): the field of ptoi_ptrace, and the type and size of an
 * item. */
#define PTRACE_SECTION_MAP(X)                                                                      \
    X(META, 1, meta, char, 1)       /* text: lines "key=value\n" */                                \
    X(STRINGS, 2, strings, char, 1) /* each ends with a NUL; the one at offset 0 is "" */          \
    X(KERNELS, 3, kernels, ptrace_kernel, 8)                                                       \
    X(SITES, 4, sites, ptrace_site, 8)                                                             \
    X(LANES, 5, lanes, ptrace_lane, 24)                                                            \
    X(TASKS, 6, tasks, ptrace_task, 96)                                                            \
    X(EDGES, 7, edges, ptrace_edge, 20)                                                            \
    X(ARGS, 8, args, ptrace_arg, 32)                                                               \
    X(DIMS, 9, dims, int64_t, 8)                                                                   \
    X(EVENTS, 10, events, ptrace_event, 32)                                                        \
    X(RINGS, 11, rings, ptrace_ring_sample, 24)                                                    \
    X(CAPS, 12, caps, ptrace_cap, 16)                                                              \
    X(LIVES, 13, lives, ptrace_life, 32)                                                           \
    X(FAILURES, 14, failures, ptrace_failure, 24)                                                  \
    X(LABELS, 15, labels, ptrace_label, 8)                                                         \
    X(RANGES, 16, ranges, ptrace_range, 32)                                                        \
    X(DEVICES, 17, devices, ptrace_device, 8)                                                      \
    X(NOTES, 18, notes, ptrace_note, 40)

enum {
#define PTRACE_SECTION_ENUM(name, number, field, type, bytes) PTRACE_##name = (number),
    PTRACE_SECTION_MAP(PTRACE_SECTION_ENUM)
#undef PTRACE_SECTION_ENUM
        PTRACE_SECTIONS = PTRACE_NOTES,
    PTRACE_FIRST_SECTIONS = PTRACE_CAPS, /* every file has these; later ones only if not empty */
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

/* X(NAME, text) */
#define PTRACE_LANE_MAP(X)                                                                         \
    X(ORCHESTRATOR, "orchestrator")                                                                \
    X(WORKER, "worker")                                                                            \
    X(SCHEDULER, "scheduler")                                                                      \
    X(FOREIGN, "other threads") /* threads of the program that complete tasks */

typedef enum ptrace_lane_kind {
#define PTRACE_LANE_ENUM(name, text) PTRACE_LANE_##name,
    PTRACE_LANE_MAP(PTRACE_LANE_ENUM)
#undef PTRACE_LANE_ENUM
        PTRACE_LANE_KINDS
} ptrace_lane_kind;

/* A thread of the run. */
typedef struct ptrace_lane {
    uint32_t name;  /* in STRINGS */
    uint32_t kind;  /* ptrace_lane_kind */
    uint32_t types; /* set of pto_worker_type that it serves */
    uint32_t zero;
    uint64_t lost; /* its records that found no room */
} ptrace_lane;

/* X(NAME, text, words for the page) */
#define PTRACE_OUTCOME_MAP(X)                                                                      \
    X(DONE, "done", "")                                                                            \
    X(FAILED, "failed", "failed")                                                                  \
    X(SKIPPED, "skipped", "skipped: a task it depends on failed, or the run was cancelled")        \
    X(OPEN, "unfinished", "had not ended when the trace did") /* or its end was lost */

typedef enum ptrace_outcome {
#define PTRACE_OUTCOME_ENUM(name, text, words) PTRACE_##name,
    PTRACE_OUTCOME_MAP(PTRACE_OUTCOME_ENUM)
#undef PTRACE_OUTCOME_ENUM
        PTRACE_OUTCOMES
} ptrace_outcome;

/* Bit of ptrace_task.flags: submit ran the task inline, on the orchestrating thread. So it started
 * before it was `submitted`. Older files have flags 0, and readers ignore bits that they do not
 * know. */
#define PTRACE_INLINE 1u

/* Another one: one end of a message between ranks. It is pending until the message has passed, which is no
 * work. */
#define PTRACE_TRANSFER 2u

/*      called    submitted      ready                 start                end         retired
 *        |──submit──|──waits for──|──waits for a worker──|──────runs──────────|──kept──────|
 *         (blocked)     producers                                                          slot and
 *                                                                                   memory recycled
 */
typedef struct ptrace_task {
    uint64_t task; /* the program's handle, pto_task */
    uint64_t called;
    uint64_t submitted;
    uint64_t ready;
    uint64_t start;
    uint64_t end; /* complete; for a pending task, the time of its pto_task_complete */
    uint64_t retired;
    uint64_t blocked; /* ns of the submit spent waiting for room in rings */
    uint32_t kernel;
    uint32_t site;
    uint32_t lane; /* on which it ran; PTRACE_NONE if it did not run */
    uint32_t first_edge, edges;
    uint32_t first_arg;
    uint16_t args;
    uint8_t level;   /* ring level */
    uint8_t outcome; /* ptrace_outcome */
    uint32_t flags;  /* PTRACE_INLINE, PTRACE_TRANSFER */
} ptrace_task;

/* X(NAME, text, words for the page: the later task ...) */
#define PTRACE_EDGE_MAP(X)                                                                         \
    X(RAW, "RAW", "reads what the other wrote")                                                    \
    X(WAR, "WAR", "overwrites what the other still had to read")                                   \
    X(WAW, "WAW", "overwrites what the other wrote")                                               \
    X(AFTER, "after", "was ordered after it")             /* pto_after */                          \
    X(MESSAGE, "message", "receives what the other sent") /* merged traces: see merge.c */

typedef enum ptrace_edge_kind {
#define PTRACE_EDGE_ENUM(name, text, words) PTRACE_##name,
    PTRACE_EDGE_MAP(PTRACE_EDGE_ENUM)
#undef PTRACE_EDGE_ENUM
        PTRACE_EDGE_KINDS
} ptrace_edge_kind;

#define PTRACE_SAME_REGION 255u /* as a verdict: the regions are the same, nothing was compared */

/* `to` had to come after `from`. There is one edge for each pair of tasks, with the strongest
 * reason (RAW, then WAW, WAR, after) and the first two arguments that share a byte for that reason.
 * The edge exists even if `from` was complete when `to` was submitted. An access that a later write
 * covers completely has no further edges: that write has them. And a read has no WAR edge to a
 * second write of the same region: the first one has it. A message leads from the begin of `from` to the
 * end of `to`: a receive may begin before its send. */
typedef struct ptrace_edge {
    uint32_t from; /* in TASKS; PTRACE_NONE: a task that is not in the file */
    uint32_t to;
    uint8_t kind;    /* ptrace_edge_kind */
    uint8_t verdict; /* pto_overlap_stage that proved it, or PTRACE_SAME_REGION */
    uint16_t zero;
    uint32_t arg_from, arg_to; /* in ARGS; PTRACE_NONE for `after` */
} ptrace_edge;

#define PTRACE_USER 255u  /* as a segment: an address of the program */
#define PTRACE_NODEP 128u /* bit of `access`: pto_nodep */

typedef struct ptrace_arg {
    uint64_t where; /* of the first element: an address, or an offset in the heap of a level; or the
                        value of a scalar */
    uint64_t bytes; /* size of the storage that it is a view of */
    uint32_t buffer; /* unique number of the managed buffer; 0: memory of the user */
    uint8_t segment; /* PTRACE_USER, or the level whose heap `where` is in */
    uint8_t dtype;   /* pto_dtype */
    uint8_t ndim;
    uint8_t access;  /* pto_param_kind, and PTRACE_NODEP */
    uint32_t dims;   /* ndim sizes, then ndim strides in elements; PTRACE_NONE if ndim is 0 */
    uint32_t offset; /* memory of the user: 1 + elements from the start of its storage to `where`;
                        0: not known */
} ptrace_arg;

/* X(NAME, number, text, words for the page). The numbers have no gaps. The numbers below and above
 * them are waits for room: ptrace_room. */
#define PTRACE_EVENT_MAP(X)                                                                        \
    X(WAIT, 5, "wait", "waits for tasks") /* pto_wait and similar: value is the task; 0: all */    \
    X(PARKED, 6, "asleep", "asleep")

enum {
#define PTRACE_EVENT_ENUM(name, number, text, words) PTRACE_##name = (number),
    PTRACE_EVENT_MAP(PTRACE_EVENT_ENUM)
#undef PTRACE_EVENT_ENUM
        PTRACE_EVENTS_END,
    PTRACE_EVENTS_NAMED = PTRACE_EVENTS_END - PTRACE_WAIT,
    PTRACE_EVENT_KINDS = PTRACE_EVENTS_NAMED + PTO_RINGS
};

/* The event of a submit that waits for room in a ring. The rings, in order, have the numbers that
 * the table leaves free. `value` is how much room was needed. */
static inline uint32_t ptrace_room(uint32_t ring)
{
    return ring < PTRACE_WAIT ? ring : ring + PTRACE_EVENTS_NAMED;
}

/* The ring of such an event; PTO_RINGS if the event is not a wait for room. */
static inline uint32_t ptrace_room_ring(uint32_t kind)
{
    return kind < PTRACE_WAIT          ? kind
           : kind >= PTRACE_EVENTS_END ? kind - PTRACE_EVENTS_NAMED
                                       : PTO_RINGS;
}

typedef struct ptrace_event {
    uint64_t begin;
    uint64_t end;
    uint32_t lane;
    uint16_t kind; /* of PTRACE_EVENT_MAP, or ptrace_room */
    uint16_t level;
    uint64_t value;
} ptrace_event;

/* Usage of a ring at a time. */
typedef struct ptrace_ring_sample {
    uint64_t at;
    uint64_t used;
    uint32_t level;
    uint32_t ring; /* pto_ring */
} ptrace_ring_sample;

/* Capacity of a ring. */
typedef struct ptrace_cap {
    uint64_t capacity;
    uint32_t level;
    uint32_t ring;
} ptrace_cap;

/* X(NAME, text) */
#define PTRACE_LIFE_MAP(X)                                                                         \
    X(SCOPED, "only in files of older versions")                                                   \
    X(UNSCOPED, "only in files of older versions")                                                 \
    X(RELEASED, "only in files of older versions, where scopes held tasks")                        \
    X(MEMORY, "`bytes` for `buffer`, which no task brings, in the lifetime number `task`")         \
    X(BEGUN, "a lifetime begins inside of those that are open, which are numbered from 1")         \
    X(ENDED, "the innermost lifetime ends: it no longer holds memory")                             \
    X(GIVEN_UP, "the program gives up `buffer` before its lifetime ends")

typedef enum ptrace_life_kind {
#define PTRACE_LIFE_ENUM(name, text) PTRACE_##name,
    PTRACE_LIFE_MAP(PTRACE_LIFE_ENUM)
#undef PTRACE_LIFE_ENUM
        PTRACE_LIFE_KINDS
} ptrace_life_kind;

/* An event in the lifetime of memory, recorded by the orchestrating thread. In order of time; the
 * handles of a level rise. */
typedef struct ptrace_life {
    uint64_t at;
    uint64_t task;
    uint64_t bytes;
    uint32_t buffer;
    uint16_t level;
    uint16_t kind; /* ptrace_life_kind */
} ptrace_life;

/* Why a task failed or was skipped. One item for each such task, in order of tasks. A task that was
 * done has one too if a guard found its memory overwritten afterwards. */
typedef struct ptrace_failure {
    uint32_t task;   /* in TASKS */
    uint32_t status; /* pto_status that its kernel or pto_task_complete gave; 0: skipped */
    uint32_t name;  /* in STRINGS: name of the status, or words with its number if it is none of the
                        library; of a skipped task "" */
    uint32_t words; /* in STRINGS: the words of the kernel; of a skipped task "" */
    uint32_t cause; /* in TASKS: the failed task because of which it was skipped, the first of
                        several; its own index if it failed itself; PTRACE_NONE: cancelled */
    uint32_t edge;  /* in EDGES: the edge that poisoned a skipped task; else PTRACE_NONE */
} ptrace_failure;

/* The label of a task (pto_label). In order of tasks. */
typedef struct ptrace_label {
    uint32_t task; /* in TASKS */
    uint32_t text; /* in STRINGS */
} ptrace_label;

/* The device of an argument that is not on the host. In order of arguments. */
typedef struct ptrace_device {
    uint32_t arg;  /* in ARGS */
    uint32_t name; /* in STRINGS: "sim:0" */
} ptrace_device;

/* A note about a rank, in the order in which they were made (pto_trace_note). A merged trace has none. */
typedef struct ptrace_note {
    uint64_t number;
    uint64_t at, error; /* of PTO_NOTE_ASKED and PTO_NOTE_ANSWERED */
    uint32_t task; /* in TASKS: of PTO_NOTE_SEND and PTO_NOTE_RECEIVE; of PTO_NOTE_STEP the first
                            task, or the number of tasks if none followed; else PTRACE_NONE */
    uint32_t peer;
    uint32_t kind; /* pto_note_kind */
    uint32_t zero;
} ptrace_note;

/* A range of the program (pto_range_begin). In order of begin, so parents come before the ranges
 * inside them. Tasks first_task to first_task + tasks - 1 were submitted in it. */
typedef struct ptrace_range {
    uint64_t begin;
    uint64_t end;        /* PTRACE_UNKNOWN: it was still open when the trace ended */
    uint32_t name;       /* in STRINGS */
    uint32_t parent;     /* in RANGES: the range around it; PTRACE_NONE if it is outermost */
    uint32_t first_task; /* in TASKS; the number of tasks if none was submitted after its begin */
    uint32_t tasks;
} ptrace_range;

/* The file is what the compiler makes of these structs. */
_Static_assert(sizeof(ptrace_header) == 64 && sizeof(ptrace_section) == 24, "header and table");
#define PTRACE_SECTION_SIZE(name, number, field, type, bytes)                                      \
    _Static_assert(sizeof(type) == (bytes), "an item of " #name);
PTRACE_SECTION_MAP(PTRACE_SECTION_SIZE)
#undef PTRACE_SECTION_SIZE

#endif /* PTOI_PTRACE_H */
