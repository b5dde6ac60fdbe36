/* log.h - the logs of a traced run, and the clock of their times.
 *
 * A log belongs to one thread. Only that thread appends, and other threads read it only after it
 * has ended or has no work (trace.c says what orders this). So there is no lock and nothing is
 * atomic. The memory of a log is reserved when the runtime is created, and costs nothing until it
 * is written. A full log drops further records and counts them.
 *
 * The exception is the log that all threads of the program share: sched->lock protects it.
 */
#ifndef PTOI_LOG_H
#define PTOI_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/likely.h"

/* ---- The clock ---- */

/* Whether the processor's time stamp counter has a constant rate and is the same on all cores.
 * Determined once, before the first log is made. */
extern bool ptoi_ticks_by_counter;
void ptoi_ticks_find_out(void);

static inline uint64_t ptoi_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* The current time, in ticks. The processor may read the counter a little before the instructions
 * ahead of it are done. trace_tasks.c allows for that (PTOI_TICKS_BLUR_NS). */
static inline uint64_t ptoi_ticks(void)
{
#if defined(__x86_64__)
    if (PTOI_LIKELY(ptoi_ticks_by_counter)) {
        return __builtin_ia32_rdtsc();
    }
#endif
    return ptoi_clock_ns(CLOCK_MONOTONIC);
}

#define PTOI_TICKS_BLUR_NS 100

/* ---- The log ---- */

typedef struct ptoi_log {
    _Alignas(64) char *memory;
    size_t used, room; /* bytes */
    uint64_t lost;     /* records that found no room */
    uint64_t began;    /* start of the task that this thread runs, in ticks; 0: none */
    uint16_t flags;    /* of that task: PTOI_RAN_INLINE, or 0 */
    char *base;        /* the reservation that `memory` lies in */
    size_t reserved;
} ptoi_log;

/* Room for `bytes`. If there is none, counts a lost record and returns NULL. */
static inline void *ptoi_log_add(ptoi_log *log, size_t bytes)
{
    if (PTOI_UNLIKELY(log->room - log->used < bytes)) {
        log->lost++;
        return NULL;
    }
    void *at = log->memory + log->used;
    log->used += bytes;
    return at;
}

/* ---- Records of threads that run tasks ---- */

typedef enum ptoi_ran_kind {
    PTOI_RAN_WHOLE,   /* the task started at `at` and was complete, with `outcome`, `took` later */
    PTOI_RAN_STARTED, /* it started at `at` */
    PTOI_RAN_ENDED,   /* it was complete at `at` */
    PTOI_RAN_READY,   /* the scheduler's thread found it ready at `at` */
    PTOI_RAN_PARKED,  /* no task: the thread slept from `at` to `task` */
    PTOI_RAN_FAILED, /* it failed with status `at`; `took` bytes of text follow, in whole records */
} ptoi_ran_kind;

/* Small, since there is one for each task. Most of its cost is the first touch of memory. */
typedef struct ptoi_ran {
    uint64_t task;
    uint64_t at;      /* ticks */
    uint32_t took;    /* ticks */
    uint16_t kind;    /* ptoi_ran_kind, and PTOI_RAN_INLINE */
    uint16_t outcome; /* ptoi_outcome, which ptrace_outcome continues */
} ptoi_ran;

#define PTOI_RAN_INLINE 0x8000u /* bit of a kind: submit ran the task itself (PTRACE_INLINE) */

static inline void ptoi_log_ran(ptoi_log *log, ptoi_ran ran)
{
    ptoi_ran *at = ptoi_log_add(log, sizeof *at);
    if (at) {
        *at = ran;
    }
}

static inline size_t ptoi_ran_text_records(uint32_t bytes)
{
    return (bytes + sizeof(ptoi_ran) - 1) / sizeof(ptoi_ran);
}

static inline const ptoi_ran *ptoi_ran_next(const ptoi_ran *ran)
{
    return ran + 1 + (ran->kind == PTOI_RAN_FAILED ? ptoi_ran_text_records(ran->took) : 0);
}

/* Logs why a task failed. `log` may be NULL. */
static inline void ptoi_log_failed(ptoi_log *log, uint64_t task, uint32_t status, const char *words)
{
    if (log) {
        const uint32_t bytes = (uint32_t)strlen(words) + 1;
        ptoi_ran *at = ptoi_log_add(log, (1 + ptoi_ran_text_records(bytes)) * sizeof *at);
        if (at) {
            *at = (ptoi_ran){task, status, bytes, PTOI_RAN_FAILED, 0};
            memcpy(at + 1, words, bytes);
        }
    }
}

/* Logs a task that started at log->began and is not complete yet. */
static inline void ptoi_log_started(ptoi_log *log, uint64_t task)
{
    const uint16_t kind = (uint16_t)(PTOI_RAN_STARTED | log->flags);
    ptoi_log_ran(log, (ptoi_ran){task, log->began, 0, kind, 0});
    log->began = 0;
}

/* Logs that the task is complete now. If it ran on this thread, it started at log->began. */
static inline void ptoi_log_end(ptoi_log *log, uint64_t task, uint32_t outcome)
{
    const uint64_t now = ptoi_ticks(), began = log->began, took = now - began;
    const uint16_t how = (uint16_t)outcome;
    if (began && took <= UINT32_MAX) {
        const uint16_t kind = (uint16_t)(PTOI_RAN_WHOLE | log->flags);
        ptoi_log_ran(log, (ptoi_ran){task, began, (uint32_t)took, kind, how});
        log->began = 0;
        return;
    }
    if (began) {
        ptoi_log_started(log, task);
    }
    ptoi_log_ran(log, (ptoi_ran){task, now, 0, PTOI_RAN_ENDED, how});
}

/* Called before and after a thread sleeps. `log` may be NULL. */
static inline uint64_t ptoi_log_now(const ptoi_log *log)
{
    return log ? ptoi_ticks() : 0;
}

static inline void ptoi_log_parked(ptoi_log *log, uint64_t since)
{
    if (log) {
        ptoi_log_ran(log, (ptoi_ran){ptoi_ticks(), since, 0, PTOI_RAN_PARKED, 0});
    }
}

#endif /* PTOI_LOG_H */
