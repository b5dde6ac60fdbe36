/* doctor.h - finds out what a hanging program waits for.
 *
 * It takes several snapshots, some time apart. If tasks were submitted or completed in between, the
 * program makes progress, and that is the answer. Otherwise it follows the chain of dependencies.
 * The chain starts at the task that the orchestrating thread waits for, or else at the oldest
 * unfinished task. It ends at a task that waits for no other task. Whatever that task lacks is the
 * cause. Then one more snapshot is taken: if something moved in the meantime, the chain is out of
 * date and the search is repeated.
 */
#ifndef TOOL_DOCTOR_H
#define TOOL_DOCTOR_H

#include <stdio.h>

#include "peek.h"

typedef enum doctor_cause {
    DOCTOR_MOVES,   /* not hanging: it makes progress */
    DOCTOR_ENDED,   /* the runtime is destroyed, or the process has ended */
    DOCTOR_STOPPED, /* stopped by a signal or a debugger */
    DOCTOR_IDLE,    /* all tasks are complete; the program is in user code */
    DOCTOR_STALLED, /* the program is in user code, and its last submit was refused with a proved
                       deadlock */
    DOCTOR_RUNS,    /* a kernel does not return */
    DOCTOR_PENDING, /* a kernel returned PTO_PENDING, but pto_task_complete was not called */
    DOCTOR_BUSY,    /* a task is ready, but all threads that serve its type are busy */
    DOCTOR_CALLER,  /* a task is ready, but only the orchestrating thread serves its type, and it
                      runs tasks only while it waits */
    DOCTOR_ENDS,    /* a kernel has returned, but the scheduler thread has not completed the task */
    DOCTOR_LOST,    /* a task is ready and a thread is idle, but nothing happens: a bug in the
                      runtime */
    DOCTOR_DIED,    /* a worker process was lost, and the program has not recovered */
    DOCTOR_CAUSES,
} doctor_cause;

enum { DOCTOR_CHAIN = 8 }; /* tasks kept of a long chain: half from its start, half from its end */

typedef struct doctor_report {
    doctor_cause cause;
    int pid;
    uint32_t number, windows; /* which runtime, and how many the process has */
    char program[32];
    double seconds;                /* between the first and the last snapshot */
    uint64_t submitted, completed; /* during that time */
    peek_look look;                /* the last snapshot */
    peek_words orchestrator;
    peek_task chain[DOCTOR_CHAIN]; /* from the start of the search to the root, which is the last */
    uint32_t n_chain, length;      /* tasks kept, and in total */
    uint32_t worker;               /* RUNS: the worker; look.workers is the orchestrating thread */
    peek_thread thread;            /* RUNS: the thread of that worker */
    int process;                   /* RUNS: the process of that thread */
    bool uses_cpu;                 /* RUNS: that thread used CPU time between the snapshots */
} doctor_report;

/* Examines a program for the given time. Call doctor_free in every case. */
pto_status doctor_examine(const peek *p, double seconds, doctor_report *r);
void doctor_free(doctor_report *r);

/* "moves", "pending" ... */
const char *doctor_cause_name(doctor_cause cause);

/* Whether the program hangs. */
bool doctor_hangs(const doctor_report *r);

/* Prints the diagnosis and the advice. */
void doctor_print(FILE *out, const doctor_report *r);

/* Prints one line about a runtime that does not hang. */
void doctor_print_line(FILE *out, const doctor_report *r);

#endif /* TOOL_DOCTOR_H */
