/* peek.h - looking into a running program through its window, which is mapped read-only.
 *
 *     peek_find     programs that have a window
 *     peek_open     the window of one
 *     peek_look     everything at once, as far as that goes: counts are each right, and need not
 *                   belong to one instant
 *     peek_task_of  one task, which is whole: it was not complete before nor after it was copied, and
 *                   what is not complete nobody rewrites
 *
 * Nothing that is read is trusted: numbers are checked against what was mapped, texts are cut and
 * rid of what a terminal would obey.
 */
#ifndef TOOL_PEEK_H
#define TOOL_PEEK_H

#include <pto/pto.h>

#include "window/window.h"

typedef struct peek {
    int pid;
    void *memory;
    size_t bytes;
    ptoi_view view;
    uint32_t workers; /* without the orchestrating thread */
    uint32_t number;  /* which runtime of the process */
    uint32_t windows; /* how many it has */
    char program[32];
} peek;

typedef struct peek_program {
    int pid;
    uint32_t windows;
    char name[32];
} peek_program;

/* Programs whose windows this user may see; how many there are, of which the first `most` are in
 * *found. */
size_t peek_find(peek_program *found, size_t most);

/* How many windows the process has; 0 also if that may not be asked. */
uint32_t peek_windows(int pid);

/* Window number `number`, from 0 on, of the process. What is wrong is in pto_error_detail(). */
pto_status peek_open(peek *p, int pid, uint32_t number);
void peek_close(peek *p);

/* Says that on stderr: the exit status of the command. */
int peek_refuse(const char *command);

/* Whether the process is there, and not a zombie. */
bool peek_is_alive(const peek *p);

/* A window that is mapped already, for tests. */
pto_status peek_attach(peek *p, void *memory, size_t bytes);

/* ---- Tasks ---- */

typedef enum peek_state {
    PEEK_WAITS,   /* for tasks before it */
    PEEK_READY,   /* could run */
    PEEK_RUNS,    /* its kernel does */
    PEEK_PENDING, /* its kernel returned PTO_PENDING; pto_task_complete was not called */
    PEEK_ENDS,    /* it is over; the scheduler's side has not seen to it */
    PEEK_STATES,
} peek_state;

typedef struct peek_task {
    pto_task task; /* 0: none */
    uint64_t order;
    peek_state state;
    uint32_t level, type;
    uint32_t fanin, left; /* tasks it had to wait for, and of those not complete */
    pto_task waits_for;   /* the first of them */
    char kernel[48];
    char file[64];
    int32_t line;
} peek_task;

/* False if it is complete (or gone, or nonsense). */
bool peek_task_of(const peek *p, pto_task task, peek_task *out);

/* "task 7 (kernel 'gemm', submitted at model.c:30)" */
typedef struct peek_name {
    char s[192];
} peek_name;

peek_name peek_name_of(const peek_task *t);

/* "task 7 'gemm' of model.c:30": without folders, where a line is short. */
peek_name peek_brief_of(const peek_task *t);

/* "all", "cube+vector" */
typedef struct peek_types {
    char s[64];
} peek_types;

peek_types peek_types_of(uint32_t types);

/* ---- All of it ---- */

typedef struct peek_worker {
    uint32_t types;
    uint32_t thread; /* 0: it has none */
    uint64_t completed;
    peek_task runs; /* .task == 0: nothing */
} peek_worker;

typedef struct peek_level {
    pto_level_stats rings;
    uint64_t since; /* tasks submitted since all rings but the task window were published */
} peek_level;

typedef struct peek_wait {
    bool on;
    uint64_t serial;
    ptoi_why why;
    pto_task task;  /* 0: any */
    uint64_t since; /* ns as of `when`; 0: it has not gone to sleep */
    pto_ring ring;
    uint32_t level;
    uint64_t wanted;
} peek_wait;

typedef struct peek_look {
    uint64_t when;    /* ns */
    uint64_t created; /* ns */
    uint64_t submitted, completed, failed, skipped;
    uint64_t edges, scope_depth, buffers, max_buffers;
    bool cancelled, done;
    pto_place place;
    char runtime[24];
    uint32_t levels;
    peek_level level[PTO_MAX_LEVELS];
    peek_wait wait;
    uint64_t states[PEEK_STATES]; /* tasks that are not complete */
    peek_task oldest;             /* of those */
    uint64_t stalls;              /* refusals: pto_last_stall */
    uint64_t stall_age;           /* ns since the last one */
    bool stall_is_last;           /* nothing was submitted since */
    pto_stall_report stall;       /* its texts are those below */
    char stall_text[3][64];
    uint32_t workers;    /* without the orchestrating thread */
    peek_worker *worker; /* workers + 1: the orchestrating thread is the last */
} peek_look;

/* PTO_OUT_OF_MEMORY, or PTO_OK and the caller frees it. */
pto_status peek_look_at(const peek *p, peek_look *look);
void peek_look_free(peek_look *look);

/* What the orchestrating thread does, as the end of a sentence about it: "waits in pto_wait ...". */
typedef struct peek_words {
    char s[400];
} peek_words;

peek_words peek_wait_words(const peek *p, const peek_look *look, bool brief);

/* ---- Threads ---- */

typedef struct peek_thread {
    bool known;
    char state;       /* as /proc says: R, S, D, T ... */
    uint64_t ticks;   /* of processor time, 1/100 s as a rule */
    char channel[48]; /* what it sleeps in, "" if not known */
} peek_thread;

peek_thread peek_thread_of(const peek *p, uint32_t thread);

uint64_t peek_clock(void);

/* Between two looks. */
void peek_pause(double seconds);

#endif /* TOOL_PEEK_H */
