/* peek.h - reads a running program through its window, which is mapped read-only.
 *
 *     peek_find     programs that have a window
 *     peek_open     the window of one program
 *     peek_look_at  a snapshot: each counter is correct, but they may be from different moments
 *     peek_task_of  one task. The copy is consistent: the task was unfinished before and after it,
 *                   and the slot of an unfinished task is never rewritten
 *
 * Nothing that is read is trusted. Numbers are checked against the mapped size. Texts are
 * truncated, and control characters are replaced.
 */
#ifndef TOOL_PEEK_H
#define TOOL_PEEK_H

#include <pto/pto.h>

#include "window/window.h"

typedef struct peek {
    int pid;
    ptoi_mapping mapping; /* without the heaps */
    ptoi_view view;
    uint32_t workers; /* without the orchestrating thread */
    uint32_t number;  /* which runtime of the process */
    uint32_t windows; /* how many runtimes it has */
    char program[32];
} peek;

typedef struct peek_program {
    int pid;
    uint32_t windows;
    char name[32];
} peek_program;

/* Finds the programs whose windows this user may read. Returns their number, and stores the first
 * `most` in *found. */
size_t peek_find(peek_program *found, size_t most);

/* The number of windows of a process; 0 also if it cannot be read. */
uint32_t peek_windows(int pid);

/* Maps window `number` of a process, counted from 0. On failure pto_error_detail() says why. */
pto_status peek_open(peek *p, int pid, uint32_t number);
void peek_close(peek *p);

/* Prints that error on stderr. Returns the exit status of the command. */
int peek_refuse(const char *command);

/* Whether the process exists and is not a zombie. */
bool peek_is_alive(const peek *p);

/* Uses a window that is already mapped. For tests. */
pto_status peek_attach(peek *p, const ptoi_mapping *mapping);

/* ---- Tasks ---- */

typedef enum peek_state {
    PEEK_WAITS,   /* waits for other tasks */
    PEEK_READY,   /* can run */
    PEEK_RUNS,    /* its kernel runs */
    PEEK_PENDING, /* its kernel returned PTO_PENDING; pto_task_complete was not called */
    PEEK_ENDS,    /* it has ended; the scheduler has not completed it yet */
    PEEK_STATES,
} peek_state;

typedef struct peek_task {
    pto_task task; /* 0: no task */
    uint64_t order;
    peek_state state;
    uint32_t level, type;
    uint32_t device;      /* number of the device that it runs on: peek_look.device */
    uint32_t fanin, left; /* number of producers, and of these not complete */
    pto_task waits_for;   /* the first unfinished producer */
    char kernel[48];
    char label[PTO_LABEL_BYTES];
    char file[64];
    int32_t line;
} peek_task;

/* Reads one task. False if it is complete, recycled or invalid. */
bool peek_task_of(const peek *p, pto_task task, peek_task *out);

/* "task 7 (kernel 'gemm', submitted at model.c:30)"; with its label, if it has one: "task 7 'tile 3'
 * (kernel ...". */
typedef struct peek_name {
    char s[320];
} peek_name;

peek_name peek_name_of(const peek_task *t);

/* The same, without the folders of the file. */
peek_name peek_brief_of(const peek_task *t);

/* "all", "cube+vector" */
typedef struct peek_types {
    char s[64];
} peek_types;

peek_types peek_types_of(uint32_t types);

/* ---- A snapshot ---- */

typedef struct peek_worker {
    char name[48];   /* "worker 2", "sim:0 worker 1", "sim:0 block 1", "the orchestrating thread" */
    uint32_t device; /* its number */
    bool block;      /* of a device that schedules for itself */
    uint32_t types;
    uint32_t thread; /* 0: no thread of its own */
    uint64_t completed;
    peek_task runs; /* .task == 0: runs nothing */
} peek_worker;

typedef struct peek_level {
    pto_level_stats rings;
    uint64_t since; /* tasks submitted since all rings but the task ring were published */
} peek_level;

typedef struct peek_wait {
    bool on;
    uint64_t serial;
    ptoi_why why;
    pto_task task;  /* 0: any task */
    uint64_t since; /* ns until `when`; 0: not asleep yet */
    pto_ring ring;
    uint32_t level;
    uint64_t wanted;
} peek_wait;

typedef struct peek_look {
    uint64_t when;    /* ns */
    uint64_t created; /* ns */
    uint64_t submitted, completed, failed, skipped;
    uint64_t edges, scope_depth, buffers, max_buffers;
    uint32_t n_ranges; /* open ranges, at most PTOI_RANGES: the outermost first */
    char range[PTOI_RANGES][PTO_LABEL_BYTES];
    bool cancelled, done;
    pto_place place;
    uint64_t lost; /* worker processes, since the last recovery */
    char runtime[24];
    uint32_t levels;
    peek_level level[PTO_MAX_LEVELS];
    peek_wait wait;
    uint64_t states[PEEK_STATES]; /* number of unfinished tasks by state */
    peek_task oldest;             /* oldest unfinished task */
    uint64_t stalls;              /* number of refusals: pto_last_stall */
    uint64_t stall_age;           /* ns since the last refusal */
    bool stall_is_last;           /* no task was submitted since */
    pto_stall_report stall;       /* its texts point to stall_text */
    char stall_text[3][64];
    uint32_t devices;
    pto_device_stats device[PTO_MAX_DEVICES];
    uint32_t workers;    /* of the host, without the orchestrating thread; some may serve nothing
                            (pto worker) */
    uint32_t threads;    /* the entries below */
    peek_worker *worker; /* the workers of the host, the orchestrating thread, and the workers of
                            other devices in the order in which they started */
} peek_look;

/* Whether worker `i` of device `d` is a block of a grid, and not a thread of the host. In place gpu it is
 * the first device that schedules for itself, and its first worker makes copies. */
static inline bool peek_is_block(pto_place place, uint32_t d, uint32_t i)
{
    return place == PTO_PLACE_GPU && d == 1 && i > 0;
}

/* "sim:0" */
typedef struct peek_device {
    char s[32];
} peek_device;

peek_device peek_device_name(pto_device device);

#define PEEK_THREADS(p) ((p)->workers + 1 + PTOI_DEVICE_WORKERS) /* at most, at any time */

/* Takes a snapshot. PTO_OUT_OF_MEMORY, or PTO_OK and the caller frees it. */
pto_status peek_look_at(const peek *p, peek_look *look);
void peek_look_free(peek_look *look);

typedef struct peek_words {
    char s[512];
} peek_words;

/* The open ranges, outermost first: "step 7 > panel 3". "" if none is open. */
peek_words peek_range_words(const peek_look *look);

/* What the orchestrating thread does, as a predicate: "waits for all tasks (pto_wait)". */
peek_words peek_wait_words(const peek *p, const peek_look *look, bool brief);

/* ---- Threads ---- */

typedef struct peek_thread {
    bool known;
    char state;       /* as in /proc: R, S, D, T ... */
    uint64_t ticks;   /* CPU time, usually in 1/100 s */
    char channel[48]; /* kernel function it sleeps in; "" if unknown */
} peek_thread;

/* A thread of the process, or of one of its worker processes. */
peek_thread peek_thread_of(const peek *p, uint32_t thread);

/* The process that a thread belongs to: `pid`, or a worker process. */
int peek_process_of(const peek *p, uint32_t thread);

uint64_t peek_clock(void);

/* Sleeps between two snapshots. */
void peek_pause(double seconds);

#endif /* TOOL_PEEK_H */
