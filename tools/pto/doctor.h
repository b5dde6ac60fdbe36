/* doctor.h - what a program that seems to hang waits for.
 *
 * Several looks, a while apart. If a task was submitted or completed between them the program moves,
 * and that is the answer. If not, the chain is followed: from what the orchestrating thread waits
 * for, or else from the oldest task that is not complete, to the task before it that it waits for,
 * and on, until one waits for no task. What that one lacks is the cause. Then it is looked once
 * more: if something moved meanwhile, the chain was of yesterday, and all of it is done again.
 */
#ifndef TOOL_DOCTOR_H
#define TOOL_DOCTOR_H

#include <stdio.h>

#include "peek.h"

typedef enum doctor_cause {
    DOCTOR_MOVES,   /* nothing is wrong: it makes progress */
    DOCTOR_ENDED,   /* the runtime is destroyed, or the process gone */
    DOCTOR_STOPPED, /* by a signal or a debugger */
    DOCTOR_IDLE,    /* all tasks are complete; the program is in its own code */
    DOCTOR_STALLED, /* the program is in its own code, and the last submit was refused because it
                       would wait for ever */
    DOCTOR_RUNS,    /* a kernel does not return */
    DOCTOR_PENDING, /* a kernel returned PTO_PENDING, and nobody called pto_task_complete */
    DOCTOR_BUSY,    /* a task is ready; all who serve its type run something else */
    DOCTOR_CALLER, /* a task is ready; only the orchestrating thread serves its type, and it does not
                       wait, so it does not help */
    DOCTOR_ENDS,   /* a kernel has returned; the scheduler's thread has not seen to it */
    DOCTOR_LOST,   /* a task is ready, somebody could run it, and nobody does: our error */
    DOCTOR_CAUSES,
} doctor_cause;

enum { DOCTOR_CHAIN = 8 }; /* as many tasks are kept, of the beginning and of the end each half */

typedef struct doctor_report {
    doctor_cause cause;
    int pid;
    uint32_t number, windows; /* which runtime of how many the process has */
    char program[32];
    double seconds;                /* between the first look and the last */
    uint64_t submitted, completed; /* in that time */
    peek_look look;                /* the last */
    peek_words orchestrator;
    peek_task chain[DOCTOR_CHAIN]; /* from where the search began to the root, which is the last */
    uint32_t n_chain, length;      /* kept, and in all */
    uint32_t worker;               /* RUNS: who; look.workers is the orchestrating thread */
    peek_thread thread;            /* RUNS: its thread */
    bool uses_cpu;                 /* RUNS: it did, between the looks */
} doctor_report;

/* Takes so many seconds. The report is freed by doctor_free in any case. */
pto_status doctor_examine(const peek *p, double seconds, doctor_report *r);
void doctor_free(doctor_report *r);

/* "moves", "pending" ... */
const char *doctor_cause_name(doctor_cause cause);

/* Whether the program has to be helped. */
bool doctor_hangs(const doctor_report *r);

/* The story in plain words, and what to do. */
void doctor_print(FILE *out, const doctor_report *r);

/* One line, of a runtime that does not hang. */
void doctor_print_line(FILE *out, const doctor_report *r);

#endif /* TOOL_DOCTOR_H */
