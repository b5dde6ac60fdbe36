/* window.h - the memory that the two sides of a runtime share.
 *
 *   orchestrator's side                                          scheduler's side
 *   submits: writes slot, arguments and edges,   ── inbox ─────> claims tasks in order of submission,
 *   then publishes inbox_head                                    resolves them, runs their kernels,
 *   recycles what is complete  <── state.waiters, tally ──────── completes them
 *
 * The window has four parts, and each is a file in memory. The first two are written by one side
 * only, and the other side may map them read-only. Both sides write the others: a thread that wakes
 * another one changes its wake word, kernels write outputs into the heaps, pto_write copies there.
 *
 *   [o] orchestrator's   header | inbox | slots | orders | edges | arguments | layout descriptors
 *                               | sites | kernels | strings | guards | posts
 *   [s] scheduler's      sched_header | worker lines | failures | states | waits | kernel times
 *                               | ready queues | guards reported
 *   [w] wakes            who sleeps, and for what
 *       heaps            level 0 | level 1 | ... | shared memory of the program
 *
 * It is plain data without pointers: places are offsets in their file, tasks are numbers, an
 * argument is (segment, offset). The sides may map it at different addresses. With config.map_twice
 * they do, each with the other's part read-only, so that a store by the wrong side faults.
 *
 * Every field that both sides touch belongs to one of these edges. The store is named first.
 *
 *   W1  inbox_head         released by submit after everything else of the task is written;
 *                          acquired by threads that claim. Asymmetric: store_asym (base/atomic.h).
 *   W2  state.waiters      exchanged to CLOSED by the completing thread after the kernel returned;
 *                          acquired by consumers that resolve, by retire, and by a waiting
 *                          orchestrator. They see the kernel's writes, and the slot is free.
 *   W3  state.waiters      compare-and-swap by a consumer that joins, after its `wait` is written;
 *                          read by the exchange of W2. The list is whole when it is walked.
 *                          (ptoi_scheduler_refresh renews very old words the same way.)
 *   W4  slot.seq           released by submit as the last field of a slot; acquired by consumers
 *                          with a reference to an earlier lap. They see that task complete (submit
 *                          read W2 before it reused the slot), and everything it wrote.
 *   W5  slot.header        released by submit before slot.seq; acquired by outside readers. If a
 *                          reader gets the word of a new task, it sees afterwards that the old
 *                          task is complete, and drops what it read.
 *       orders             released by submit after slot.seq and before progress.head, so that an
 *                          old task that was marked complete there stays complete; released again,
 *                          with the mark, when submit has completed the task itself. Acquired by
 *                          outside readers, by waits and by pto_task_complete.
 *   W6  progress.head,     released by submit after slot and order, and by the thread that calls
 *       worker line.task   the kernel (of a grid: by its writer, which that thread has told);
 *                          acquired by outside readers. Slots below the one, and the slot of the
 *                          other, have been written.
 *   W7  tally.completed,   released by the completing thread before W2; acquired by pto_stats and
 *       inlined            tools. A reader that sees a task as complete sees it as submitted.
 *   W8  state.phase        compare-and-swap by pto_task_complete (COMPLETED) and by the worker
 *                          whose kernel returned PTO_PENDING (RETURNED). The later of the two
 *                          completes the task, and sees what the other wrote.
 *   W9  awaited            stored by the orchestrating thread before its last check of W2; loaded
 *                          by the completing thread after W2. Both sequentially consistent: at
 *                          least one of the two sees the other.
 *   W10 idle, resting,     stored by a thread before its last check for work (W1, Q1, stop, W2);
 *       wake line.parked   loaded by others after they published work. See scheduler/park.h.
 *   W11 ready_epoch        raised after a push into a ready queue; acquired by workers. A worker
 *                          that found the queues empty need not check them before the next epoch.
 *   W12 stop               stored by the orchestrator; acquired by all threads.
 *   W13 cancel, era        released by the thread that cancels; read relaxed, since no other data
 *                          depends on the flag. `era` changes only while every task is complete,
 *                          and W1 publishes it.
 *   W14 failed.serial      odd while the record is written. Its words are released and acquired, so
 *                          a reader that finds the serial unchanged has read one whole record.
 *   W15 label.key          no task has this key while the text is written. The words are released
 *                          and acquired, so a reader that finds the key twice has read one text.
 *   W19 file.magic         released as the last store of a window's creation; acquired by whoever
 *                          attaches: the header is whole, and says how many threads there are.
 *
 * A device with streams has one more (worker/launcher.h). It stands between W1 and W2 of its tasks.
 *
 *   W18 state.waiters      exchanged to LAUNCHED by the thread that launched the task, after its work
 *                          was given to a stream; acquired by consumers that resolve. Consumers on the
 *                          same device see that the launcher knows its stream and its place there:
 *                          they run after it on the device. All others wait for W2, and so do waits
 *                          and recycling.
 *
 * In place gpu the scheduler's side is a device, which has copies of much of the window in its own
 * memory. Its edges, D1 to D9, are listed in scheduler/grid.h. W2 is then stored by the device.
 *
 * In place process there are two more. Elsewhere nobody uses their fields.
 *
 *   W16 posted_head        stored by pto_task_complete in the program's process, after the post is
 *                          written; acquired by workers. Asymmetric, like W1.
 *   W17 line.activity      stored by a worker: KERNEL after everything that it wrote before a call,
 *                          STEPS after the call and before it reads `stop`. Loaded by the helper
 *                          after `stop` is PAUSE. Asymmetric: at least one of the two sees the
 *                          other, so a worker that is in a kernel pauses when it returns.
 *       line.guests        the same for threads of a worker process in pto_task_complete
 *
 * W1 also publishes what a task refers to: arguments, edges, layout descriptors, kernels, sites,
 * strings and guards. W2 also publishes outcome, poisoned and guards reported.
 *
 * The queues of the scheduler's side have two more edges, Q1 and Q2 (scheduler/ready.h). Everything
 * else is written before a thread starts, or is a count, a hint or a report that is read relaxed
 * (inbox_claimed, kernel times, waiting, stalled, orchestrator_done).
 */
#ifndef PTOI_WINDOW_H
#define PTOI_WINDOW_H

#include <pto/pto.h>

#include "base/config.h"
#include "tensor/desc.h"
#include "window/arg_desc.h"
#include "window/line.h"
#include "window/mirror.h"
#include "window/task.h"

#define PTOI_WINDOW_MAGIC UINT64_C(0x3144574f54505f00) /* plus the ptoi_part */
#define PTOI_WINDOW_VERSION 12u
#define PTOI_WINDOW_STRETCH 3    /* heaps with guards are this many times larger: window/guard.h */
#define PTOI_PAGE UINT64_C(4096) /* parts of the window begin at a page */

_Static_assert(PTO_MAX_LEVELS == PTOI_MAX_LEVELS, "a reference can name every level");

typedef enum ptoi_part {
    PTOI_PART_ORCHESTRATOR,
    PTOI_PART_SCHEDULER,
    PTOI_PART_WAKES,
    PTOI_PART_HEAPS,
    PTOI_PARTS,
} ptoi_part;

/* Tools find the files in /proc/PID/fd: "pto-window-0.orchestrator" and so on. The number counts
 * the windows that the process has created. */
#define PTOI_WINDOW_NAME "pto-window-"
extern const char *const ptoi_part_names[PTOI_PARTS];

/* The status that was given to pto_task_complete. */
static inline pto_status ptoi_phase_status(uint32_t phase)
{
    return (pto_status)(phase >> PTOI_PHASE_STATUS_SHIFT & PTOI_PHASE_STATUS_MASK);
}

/* ---- Arguments ---- */

/* An argument as a kernel sees it. */
static inline void ptoi_arg_scalar(pto_arg *arg, pto_dtype dtype, uint64_t value)
{
    *arg = (pto_arg){.dtype = dtype};
    arg->u64 = value;
}

static inline void ptoi_arg_tensor(pto_arg *arg, const ptoi_desc *desc, char *data)
{
    arg->data = data;
    arg->shape = desc->dims;
    arg->strides = desc->dims + desc->ndim;
    memcpy(&arg->ndim, &desc->ndim, 16); /* and dtype and device */
    arg->u64 = 0;
}

/* ---- Names: [o] ---- */

typedef struct ptoi_site {
    uint32_t file; /* in the strings */
    int32_t line;
} ptoi_site;

typedef struct ptoi_kernel_entry {
    uint32_t name; /* in the strings */
    uint32_t type; /* pto_worker_type */
} ptoi_kernel_entry;

#define PTOI_MAX_KERNELS 65536 /* as many as a slot header can name */
#define PTOI_MAX_SITES 65536
#define PTOI_MAX_PARAMS (1u << 20) /* of one task */
#define PTOI_STRING_BYTES (UINT64_C(1) << 20)

static inline const char *ptoi_string(const ptoi_view *view, uint32_t at)
{
    return view->strings + at;
}

static inline const char *ptoi_kernel_name(const ptoi_view *view, uint32_t kernel)
{
    return ptoi_string(view, view->kernels[kernel].name);
}

/* ---- Labels and ranges: [o] ---- */

#define PTOI_RANGES 8 /* open ranges that outside readers see: the outermost */

static inline void ptoi_label_write(ptoi_label *label, uint64_t key, const char *text)
{
    char copy[PTO_LABEL_BYTES] = "";
    memcpy(copy, text, strnlen(text, sizeof copy - 1));
    ptoi_release64(&label->key, PTOI_LABEL_OPEN);
    for (size_t i = 0; i < sizeof copy / 8; i++) {
        uint64_t word;
        memcpy(&word, copy + 8 * i, sizeof word);
        ptoi_release64(&label->text[i], word);
    }
    ptoi_release64(&label->key, key); /* W15 */
}

/* Reads the text of `key`. "" if the label is that of another, or if it changes meanwhile. Pairs
 * W15. */
static inline void ptoi_label_read(const ptoi_label *label, uint64_t key,
                                   char text[PTO_LABEL_BYTES])
{
    if (ptoi_acquire64(&label->key) != key) {
        text[0] = '\0';
        return;
    }
    for (size_t i = 0; i < PTO_LABEL_BYTES / 8; i++) {
        const uint64_t word = ptoi_acquire64(&label->text[i]);
        memcpy(text + 8 * i, &word, sizeof word);
    }
    text[ptoi_acquire64(&label->key) == key ? PTO_LABEL_BYTES - 1 : 0] = '\0';
}

/* ---- The threads that run kernels: [s] ---- */

/* Lines after those of the workers. */
enum {
    PTOI_LINE_CALLER,    /* the orchestrating thread */
    PTOI_LINE_SCHEDULER, /* the scheduler's thread, if it has one */
    PTOI_LINE_OTHERS,    /* all other threads that call pto_task_complete; they share a lock. In
                            place process this line is the helper's, and those after it belong to
                            such threads of each worker process */
    PTOI_LINES_MORE,     /* then one for each worker process, see above, and then the workers of
                            devices other than the host, in the order in which they started */
};

#define PTOI_DEVICE_WORKERS                                                                        \
    1024 /* most threads, and blocks of a grid, of other devices in one runtime */
#define PTOI_LINES (2 * (uint32_t)PTO_MAX_WORKERS + PTOI_LINES_MORE)
_Static_assert(PTO_ACCELERATOR == PTOI_LANE_ENGINE, "a lane ends with the worker type");
_Static_assert(PTO_WORKER_TYPES == 4 && PTOI_LANES == PTOI_DEVICES * PTO_WORKER_TYPES,
               "a lane is two bits of type and four of device");

/* ---- Who sleeps: [w] ---- */

/* The parking of one thread. Its own thread stores ASLEEP, any thread stores AWAKE. */
typedef struct ptoi_wake_line {
    _Alignas(PTOI_LINE) ptoi_a32 parked; /* W10: PTOI_AWAKE or PTOI_ASLEEP */
    ptoi_a32 types;                      /* that it serves; 0: it does not run */
    ptoi_a64 parks;                      /* how often it slept */
    ptoi_a64 since;                      /* ptoi_os_clock when it last went to sleep; 0: never */
} ptoi_wake_line;

enum { PTOI_AWAKE, PTOI_ASLEEP };

typedef struct ptoi_wakes {
    _Alignas(PTOI_LINE) ptoi_a32 idle; /* W10: workers that sleep or are about to */
    ptoi_a64 awaited; /* W9: the task that the orchestrating thread sleeps for; PTOI_AWAIT_ANY; 0 */
    _Alignas(PTOI_LINE) ptoi_a32 resting; /* W10: 1, the scheduler's thread sleeps */
    ptoi_wake_line threads[PTOI_LINES];   /* one for each worker line */
} ptoi_wakes;

#define PTOI_AWAIT_ANY UINT64_MAX /* in `awaited` */

/* How long calls of a kernel take (worker/kernel_time.c). Only hints: relaxed, races do no harm. */
typedef struct ptoi_kernel_time {
    ptoi_a32 length; /* ptoi_length */
    ptoi_a32 owed, suspect, calm;
} ptoi_kernel_time;

typedef enum ptoi_length {
    PTOI_LENGTH_UNKNOWN,
    PTOI_LENGTH_DOUBTED,
    PTOI_LENGTH_SHORT,
    PTOI_LENGTH_MEDIUM,
    PTOI_LENGTH_LONG,
    PTOI_LENGTH_NEVER, /* submit may not run it inline, however short it is */
} ptoi_length;

static inline bool ptoi_is_short(uint32_t length)
{
    return length - PTOI_LENGTH_DOUBTED <= PTOI_LENGTH_SHORT - PTOI_LENGTH_DOUBTED;
}

#define PTOI_MEDIUM 40 /* a kernel is medium below this many times config.inline_ns */

/* ---- What the orchestrator reports to outside readers: [o], relaxed ---- */

/* What the orchestrating thread waits for, while `serial` is odd. */
typedef enum ptoi_why {
    PTOI_WHY_OTHER,
    PTOI_WHY_ALL,     /* all tasks: pto_wait and similar calls */
    PTOI_WHY_TASK,    /* pto_wait_task */
    PTOI_WHY_READ,    /* pto_read: the writers of a tensor */
    PTOI_WHY_WRITE,   /* pto_write: also its readers */
    PTOI_WHY_ROOM,    /* submit: room in a ring */
    PTOI_WHY_DESTROY, /* pto_runtime_destroy */
} ptoi_why;

typedef struct ptoi_waiting {
    _Alignas(PTOI_LINE) ptoi_a64 serial; /* raised when a wait begins, and when it ends */
    ptoi_a64 task;                       /* pto_task; 0: any */
    ptoi_a64 wanted;                     /* PTOI_WHY_ROOM: how much room */
    ptoi_a32 why;                        /* ptoi_why */
    ptoi_a32 level, ring;                /* PTOI_WHY_ROOM: in which ring */
} ptoi_waiting;

/* The last submit that was refused because it would wait forever (pto_last_stall). `serial` is odd
 * while the record is written, and half of it is the number of such submits. */
typedef struct ptoi_stalled {
    _Alignas(PTOI_LINE) ptoi_a64 serial;
    ptoi_a64 size, used, wanted, enough;
    ptoi_a64 task, order; /* that brought the oldest block; task 0: pto_alloc */
    ptoi_a64 output;      /* the first living output in the block */
    ptoi_a64 output_bytes, given_up;
    ptoi_a64 submitted;         /* tasks, when it happened */
    ptoi_a64 when;              /* ptoi_os_clock */
    ptoi_a64 device;            /* of the heap: ptoi_device_word (window/builtin.h) */
    ptoi_a32 kind, ring, level; /* pto_stall_kind, pto_ring */
    ptoi_a32 kernel, site;      /* of that task */
    ptoi_a32 scope;             /* where the scope that holds was opened: a site */
} ptoi_stalled;

/* A ring level, for outside readers; relaxed, except for head. Words that are stored for every task
 * come first. */
typedef struct ptoi_progress {
    ptoi_a64 head, completed, retired; /* task numbers; head: W6 */
    ptoi_a64 published; /* the head when `completed`, `retired` and all below were stored */
    struct {
        ptoi_a64 used; /* not of the task ring: that is head - retired */
        ptoi_a64 peak;
        ptoi_a64 size; /* fixed at creation */
        ptoi_a64 waits;
    } ring[PTO_RINGS];
} ptoi_progress;

/* A device that the runtime uses, for outside readers. Number 0, the host, has only its name. */
typedef struct ptoi_device_line {
    ptoi_a64 device;                  /* its type and index: ptoi_device_word */
    ptoi_a32 first_worker, n_workers; /* its threads, among those of all devices but the host */
    struct {                          /* of each level; relaxed, published with the rings */
        ptoi_a64 used, peak;
        ptoi_a64 size; /* 0: it was not made yet */
    } heap[PTO_MAX_LEVELS];
} ptoi_device_line;

/* ---- The two headers ---- */

/* How either header begins: which file this is. Written at creation. */
typedef struct ptoi_file {
    ptoi_a64 magic; /* W19; 0: not yet */
    uint32_t version;
    uint32_t header_bytes;
    uint64_t bytes;  /* of the file */
    uint64_t window; /* the process that created it, and its number there: both files have the
                        same */
} ptoi_file;

typedef struct ptoi_window_level {
    uint64_t deps_at, args_at; /* offsets in this file */
    uint64_t heap_at;          /* offset in the file of the heaps */
    uint64_t heap_bytes;
    uint64_t guards_at, begins_at; /* window/guard.h; 0: there are none */
    uint32_t first_slot;           /* index of slot 0 of the level among all slots */
    uint32_t slots;                /* a power of two */
    uint32_t deps;                 /* references */
    uint32_t arg_units;
} ptoi_window_level;

/* A call of pto_task_complete in the program's process, for a worker of another one. */
typedef struct ptoi_post {
    ptoi_a64 task; /* relaxed: it is read before it is claimed, and again if the claim fails */
    ptoi_a64 status;
} ptoi_post;

/* What the orchestrator asks of all threads of the scheduler's side. */
typedef enum ptoi_stop {
    PTOI_GO,
    PTOI_END,   /* leave */
    PTOI_PAUSE, /* stay outside of the step: the scheduler's part is being rebuilt */
} ptoi_stop;

/* [o], at the start of its file. */
typedef struct ptoi_header {
    /* fixed at creation */
    ptoi_file file;
    uint64_t heaps_bytes;  /* of all heaps: the start of their file, which has no header */
    uint64_t shared_bytes; /* of the shared memory of the program: the rest of that file */
    uint32_t levels;
    uint32_t slots; /* of all levels */
    uint64_t inbox_at, slots_at, orders_at, descs_at, sites_at, kernels_at, codes_at, strings_at,
        labels_at, posts_at;
    uint64_t log_at;     /* place gpu: PTOI_LOG_ENTRIES entries; 0: there are none */
    uint64_t first_task; /* number of the first task, on every level */
    uint32_t inbox_mask;
    uint32_t max_buffers;
    uint32_t max_params; /* of one task */
    ptoi_window_level level[PTO_MAX_LEVELS];

    /* fixed before a thread starts; for outside readers */
    ptoi_a64 created;        /* ptoi_os_clock */
    ptoi_a32 process;        /* process id */
    ptoi_a32 place;          /* pto_place */
    ptoi_a32 workers;        /* without the orchestrating thread */
    ptoi_a32 processes;      /* that workers can run in; 0: only this one */
    ptoi_a32 device_workers; /* threads of other devices, started so far */
    char runtime[20];        /* version of the library */
    ptoi_a32 kernels; /* registered, including number 0, which is none. Released after its entry */

    _Alignas(PTOI_LINE) ptoi_a64 inbox_head;            /* W1: tasks published */
    ptoi_a64 log_head;                                  /* D1, place gpu: entries of the log */
    _Alignas(PTOI_LINE) ptoi_a64 heads[PTO_MAX_LEVELS]; /* D1, place gpu: ptoi_head_word */

    ptoi_mail mail; /* D9, place gpu */

    /* seldom written, read for every task */
    _Alignas(PTOI_LINE) ptoi_a32 stop; /* W12: ptoi_stop */
    ptoi_a32 cancel;                   /* W13: the era that was cancelled from this side; 0: none */
    ptoi_a32 era;                      /* W13: counts from 1, raised by pto_clear_error */
    ptoi_a32 inline_ticks;      /* a kernel that takes fewer is short; 0: not known yet. Relaxed */
    ptoi_a32 orchestrator_done; /* no more tasks will be submitted */
    ptoi_a64 posted_head;       /* W16: posts written */
    uint32_t asymmetric;        /* W1 and Q1 are plain releases, and sleepers make the barrier.
                                   Fixed at creation */

    /* for outside readers */
    _Alignas(PTOI_LINE) ptoi_a64 inlined; /* W7: tasks that submit ran inline and completed */
    ptoi_a64 inlined_kept; /* tasks that submit ran inline and recorded: failed or pending */
    ptoi_a64 edges[4];     /* raw, war, waw, after */
    ptoi_a64 scope_depth, buffers, buffers_peak, budget_hits;
    ptoi_a64 poison_lost; /* bad tasks and outputs that found no room: orchestrator/poison.c */
    ptoi_a64 sites_lost;  /* calls whose file and line found no room in the table of sites */
    ptoi_a64 lost;        /* worker processes that were lost since the last recovery */
    ptoi_progress progress[PTO_MAX_LEVELS];
    ptoi_waiting waiting;
    ptoi_stalled stalled;
    ptoi_a64 range_depth; /* open ranges */
    ptoi_label ranges[PTOI_RANGES];
    ptoi_a32 devices; /* in use, with the host. Released after its line */
    ptoi_device_line device[PTOI_DEVICES];
} ptoi_header;

/* The two ends of a queue of tasks (scheduler/ready.h). */
typedef struct ptoi_queue_ends {
    _Alignas(PTOI_LINE) ptoi_a32 head; /* next to pop */
    _Alignas(PTOI_LINE) ptoi_a32 tail; /* next to push */
} ptoi_queue_ends;

typedef struct ptoi_queue_cell {
    ptoi_a32 sequence;
    uint32_t index; /* of a slot */
} ptoi_queue_cell;

enum {
    PTOI_QUEUE_DONE = PTO_WORKER_TYPES, /* place thread: tasks whose kernel has returned */
    PTOI_QUEUES,                        /* and one of ready tasks for each worker type */
};

/* [s], at the start of its file. */
typedef struct ptoi_sched_header {
    /* fixed at creation */
    ptoi_file file;
    uint64_t workers_at, failures_at, states_at, waits_at, times_at;
    uint64_t cells_at;                    /* of all queues; each has as many as the inbox */
    uint64_t reported_at[PTO_MAX_LEVELS]; /* window/guard.h; 0: there are none */
    uint64_t grid_at;                     /* place gpu: window/mirror.h; 0: there are none */
    uint64_t host_ready_at, host_posts_at;

    _Alignas(PTOI_LINE) ptoi_a64 inbox_claimed; /* tasks taken out of the inbox */
    _Alignas(PTOI_LINE) ptoi_a64 posts_taken;
    _Alignas(PTOI_LINE) ptoi_a32 ready_epoch; /* W11 */
    _Alignas(
        PTOI_LINE) ptoi_a32 cancel; /* W13: the era that was cancelled from this side; 0: none */
    ptoi_queue_ends queues[PTOI_QUEUES]; /* Q1, Q2: the ready tasks of each worker type, and DONE */
} ptoi_sched_header;

/* The line of thread `i` of the devices other than the host. */
static inline uint32_t ptoi_line_of_device(const ptoi_view *view, uint32_t i)
{
    return ptoi_get32(&view->header->workers) + PTOI_LINES_MORE +
           ptoi_get32(&view->header->processes) + i;
}

/* Worker lines in use. */
static inline uint32_t ptoi_lines(const ptoi_view *view)
{
    return ptoi_line_of_device(view, ptoi_acquire32(&view->header->device_workers));
}

/* Whether the runtime was cancelled, from either side, since the last pto_clear_error. */
static inline bool ptoi_is_cancelled(const ptoi_view *view)
{
    const uint32_t era = ptoi_get32(&view->header->era);
    return ptoi_get32(&view->header->cancel) == era || ptoi_get32(&view->sched->cancel) == era;
}

/* Where the files of a window are mapped. The parts may lie anywhere. */
typedef struct ptoi_mapping {
    void *memory[PTOI_PARTS]; /* NULL: not mapped */
    size_t bytes[PTOI_PARTS];
} ptoi_mapping;

/* Creates a window as configured (every per-level field is set): its files and one mapping of them,
 * zeroed except for the headers. On failure nothing is left behind. */
pto_status ptoi_window_create(const ptoi_settings *settings, int files[PTOI_PARTS],
                              ptoi_mapping *made);

/* Maps the files of a window once more, `like` an earlier mapping. */
pto_status ptoi_window_map(const int files[PTOI_PARTS], const ptoi_mapping *like,
                           ptoi_mapping *made);
void ptoi_window_unmap(ptoi_mapping *mapping);
void ptoi_window_close(const int files[PTOI_PARTS]);

/* The view of a mapping, which may be read-only, or without the heaps. PTO_CORRUPT if its files are
 * not those of one window of this version, or if what they describe does not fit into them. */
pto_status ptoi_window_attach(const ptoi_mapping *mapping, ptoi_view *view);

/* The rings of a level, as the orchestrator published them last. Any thread, any process. */
void ptoi_window_read_rings(const ptoi_view *view, uint32_t level, pto_level_stats *out);

/* The devices in use. Returns their number. Nothing that is read is trusted. */
uint32_t ptoi_window_read_devices(const ptoi_view *view, pto_device_stats out[PTO_MAX_DEVICES]);

_Static_assert(PTO_MAX_DEVICES == PTOI_DEVICES, "what the header promises");

#endif /* PTOI_WINDOW_H */
