/* grid_log.h - what a grid records of a traced run (scheduler/grid.h). A part of grid.h: it compiles as
 * C11 and as CUDA C++.
 *
 *     worker ──marks──> its place ──> chunk of 64 records ──the grid has ended (D8)──> keeper
 *                                      ^ from a common pool
 *
 * The log is in memory of the device and has room for as many tasks as the trace. Workers take chunks of
 * it from a pool, so each writes to memory that no other touches, and one that runs all tasks can have all
 * of it. A full log drops further records, and workers count them. It is read when no grid is there.
 *
 * Without a trace there is no log, and a worker pays for the question only.
 *
 * A device has two clocks. One has the same time on all multiprocessors, but may advance in steps of a
 * microsecond. The other counts cycles of one multiprocessor. Each record has both: worker/grid_log.c finds
 * the time of day in the first one, and what lies between its steps in the second one. */
#ifndef PTOI_GRID_LOG_H
#define PTOI_GRID_LOG_H

#include "scheduler/step.h"

#define PTOI_GRID_CHUNK 64u /* records */

/* A moment on both clocks of a device. */
typedef struct ptoi_grid_mark {
    uint64_t ns;
    uint32_t cycles; /* the lower half of the count */
} ptoi_grid_mark;

typedef enum ptoi_grid_ran_kind {
    PTOI_GRID_RAN,
    PTOI_GRID_SKIPPED, /* the kernel was not called. The task ended when it `began` */
    PTOI_GRID_FAILED, /* a task failed with status `began`. PTOI_GRID_TEXT records of text follow */
} ptoi_grid_ran_kind;

typedef struct ptoi_grid_ran {
    uint64_t task;
    uint64_t began;   /* ns */
    uint32_t cycles;  /* the same moment */
    uint32_t took;    /* cycles; if they do not fit, took_us counts */
    uint32_t took_us; /* in steps of 1024 ns */
    uint16_t worker;
    uint8_t kind;    /* ptoi_grid_ran_kind */
    uint8_t outcome; /* ptoi_outcome */
} ptoi_grid_ran;

_Static_assert(sizeof(ptoi_grid_ran) == 32, "two stores of a device");
#define PTOI_GRID_TEXT 8u /* records that a text of 256 bytes fills */

/* Where a worker writes. It is kept from launch to launch. */
typedef struct ptoi_grid_place {
    uint32_t chunk; /* PTOI_NONE: it has none */
    uint32_t n;     /* records used in it */
    uint64_t lost;  /* records that found no room */
} ptoi_grid_place;

typedef struct ptoi_grid_log {
    _Alignas(PTOI_LINE) ptoi_a32 chunks; /* given out; may pass n_chunks. Relaxed */
    uint32_t n_chunks;
    ptoi_grid_ran *ran;
    uint32_t *used; /* of each chunk. Written by its worker when it leaves the chunk */
    ptoi_grid_place *place;
    /* written by the mover */
    uint64_t span_ns, span_cycles; /* how long the grid was there, on both clocks */
    uint64_t step_ns;              /* of the first clock; 0: not known */
} ptoi_grid_log;

/* ---- Clocks ---- */

#ifdef __CUDA_ARCH__
PTOI_INLINE uint64_t ptoi_grid_clock(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

PTOI_INLINE uint64_t ptoi_grid_cycles(void)
{
    uint64_t cycles;
    asm volatile("mov.u64 %0, %clock64;" : "=l"(cycles));
    return cycles;
}
#else
#include "base/os.h"

/* The clocks of device and host differ. So do those of a simulated device: tests notice who confuses them. */
#define PTOI_GRID_CLOCK_AHEAD UINT64_C(3600000000000)

static inline uint64_t ptoi_grid_clock(void)
{
    return ptoi_os_clock() + PTOI_GRID_CLOCK_AHEAD;
}

static inline uint64_t ptoi_grid_cycles(void)
{
    return ptoi_grid_clock();
}
#endif

PTOI_INLINE ptoi_grid_mark ptoi_grid_now(void)
{
    ptoi_grid_mark mark;
    mark.ns = ptoi_grid_clock();
    mark.cycles = (uint32_t)ptoi_grid_cycles();
    return mark;
}

/* The mover calls it when the grid begins, and passes the result on when it ends. */
typedef struct ptoi_grid_span {
    uint64_t ns, cycles;
} ptoi_grid_span;

PTOI_INLINE ptoi_grid_span ptoi_grid_span_begin(ptoi_grid_log *log)
{
    enum { STEPS = 8 };
    ptoi_grid_span span;
    uint64_t last = ptoi_grid_clock(), least = UINT64_MAX;
    for (uint32_t i = 0; i < STEPS;) {
        const uint64_t now = ptoi_grid_clock();
        if (now != last) {
            least = now - last < least ? now - last : least;
            last = now;
            i++;
        }
    }
    log->step_ns = log->step_ns && log->step_ns < least ? log->step_ns : least;
    span.cycles = ptoi_grid_cycles(); /* the first clock has just made a step */
    span.ns = last;
    return span;
}

PTOI_INLINE void ptoi_grid_span_end(ptoi_grid_log *log, ptoi_grid_span span)
{
    log->span_cycles += ptoi_grid_cycles() - span.cycles;
    log->span_ns += ptoi_grid_clock() - span.ns;
}

/* ---- Workers ---- */

/* Room for so many records, which lie side by side; NULL: there is none. */
PTOI_INLINE ptoi_grid_ran *ptoi_grid_log_room(ptoi_grid_log *log, ptoi_grid_place *p,
                                              uint32_t records)
{
    if (p->chunk == PTOI_NONE || p->n + records > PTOI_GRID_CHUNK) {
        if (p->chunk != PTOI_NONE) {
            log->used[p->chunk] = p->n;
        }
        p->n = 0;
        p->chunk = ptoi_get32(&log->chunks) < log->n_chunks ? ptoi_draw32(&log->chunks, 1)
                                                            : PTOI_NONE;
        if (p->chunk >= log->n_chunks) {
            p->chunk = PTOI_NONE;
            p->lost++;
            return NULL;
        }
    }
    ptoi_grid_ran *at = &log->ran[(uint64_t)p->chunk * PTOI_GRID_CHUNK + p->n];
    p->n += records;
    return at;
}

PTOI_OUTLINE void ptoi_grid_log_ran(ptoi_grid_log *log, ptoi_grid_place *p, uint32_t worker,
                                    uint64_t task, bool ran, ptoi_grid_mark began,
                                    ptoi_grid_mark ended, ptoi_outcome outcome)
{
    ptoi_grid_ran *at = ptoi_grid_log_room(log, p, 1);
    if (at) {
        at->task = task;
        at->began = began.ns;
        at->cycles = began.cycles;
        at->took = ended.cycles - began.cycles;
        at->took_us = (uint32_t)((ended.ns - began.ns) >> 10);
        at->worker = (uint16_t)worker;
        at->kind = ran ? PTOI_GRID_RAN : PTOI_GRID_SKIPPED;
        at->outcome = (uint8_t)outcome;
    }
}

/* Why a task failed: a text of 256 bytes that ends with zeros, at a multiple of 8. */
PTOI_OUTLINE void ptoi_grid_log_failed(ptoi_grid_log *log, ptoi_grid_place *p, uint32_t worker,
                                       uint64_t task, uint32_t status, const char *text)
{
    ptoi_grid_ran *at = ptoi_grid_log_room(log, p, 1 + PTOI_GRID_TEXT);
    if (at) {
        uint64_t *words = (uint64_t *)(void *)(at + 1);
        at->task = task;
        at->began = status;
        at->worker = (uint16_t)worker;
        at->kind = PTOI_GRID_FAILED;
        for (uint32_t i = 0; i < PTOI_GRID_TEXT * sizeof *at / sizeof *words; i++) {
            words[i] = ((const uint64_t *)(const void *)text)[i];
        }
    }
}

/* A worker ends. */
PTOI_OUTLINE void ptoi_grid_log_leave(ptoi_grid_log *log, const ptoi_grid_place *p, uint32_t worker)
{
    if (p->chunk != PTOI_NONE) {
        log->used[p->chunk] = p->n;
    }
    log->place[worker] = *p;
}

#endif /* PTOI_GRID_LOG_H */
