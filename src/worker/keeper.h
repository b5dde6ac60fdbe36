/* keeper.h - the host's part of the scheduler's side in place gpu. It runs on the scheduler's own thread.
 *
 *     grid ──host_ready (D5)──> keeper ──ready queues──> workers of the host, copy engines
 *     grid <──posts (D6)─────── keeper <──PTOI_QUEUE_DONE──┘
 *
 * The keeper makes the mirror of the window (scheduler/grid.h), launches the grid when there is work for
 * it, and passes tasks of the host on in both directions. It takes no step: it resolves and completes
 * nothing.
 *
 * The grid ends by itself when it is idle. Then the keeper compares what the grid has consumed with what
 * was published: it launches the grid again, or sleeps by the protocol of scheduler/park.h. So submit
 * wakes it as it wakes any scheduler's thread. While the grid is there, the keeper naps instead: a grid
 * wakes nobody.
 */
#ifndef PTOI_KEEPER_H
#define PTOI_KEEPER_H

#include "scheduler/grid.h"
#include "scheduler/scheduler.h"

#define PTOI_KEEPER_NAP_US 50

struct ptoi_grid_threads;
struct ptoi_keeper_log;

typedef struct ptoi_keeper {
    ptoi_grid grid; /* on a device with threads it is the grid; else the device has a copy */
    ptoi_grid_shared *shared; /* in the window */
    const ptoi_a64 *host_ready;
    uint64_t *posts;
    uint32_t device; /* number */
    pto_device_ops ops;
    const struct pto_gpu_module *module; /* NULL: the grid is made of threads (worker/grid.c) */
    bool prepared;                       /* the device has prepared the module for this runtime */
    struct ptoi_grid_threads *threads;
    uint32_t blocks; /* of a launch */
    void *there;     /* the copy of `grid` on the device */
    char *image;     /* the memory of the mirror, as the host writes it */
    size_t image_bytes;
    void *memory;       /* the same on the device; with threads it is the image */
    void *shared_at[2]; /* memory that was shared with the device, to be given back; NULL: none */
    uint64_t shared_bytes[2];
    struct ptoi_keeper_log *trace; /* of a traced run (worker/grid_log.h); NULL: there is none */
    bool resident;                 /* the grid was launched, and its end was not seen */
    uint32_t launches;
    uint32_t ready_taken;  /* D5 */
    uint32_t posted;       /* D6 */
    uint64_t *posted_laps; /* of each slot: the lap of its last task that was posted, plus one */
    uint32_t polls;        /* since the device was asked whether it is well */
    char lost[512];        /* why the device is lost; "": it is not */
    uint64_t failed;       /* then: tasks of the inbox that were failed or found complete */
} ptoi_keeper;

/* One step: passes tasks on, and launches the grid if it has work. Returns whether it did anything. */
bool ptoi_keeper_step(ptoi_scheduler *s);

/* Whether there is something to do. The last check before sleeping (W10). */
bool ptoi_keeper_sees_work(const ptoi_scheduler *s);

/* Whether the keeper must not sleep. */
static inline bool ptoi_keeper_is_resident(const ptoi_scheduler *s)
{
    return s->keeper && s->keeper->resident;
}

/* The device that schedules for itself; NULL: none does. */
static inline const ptoi_sched_device *ptoi_keeper_device(const ptoi_scheduler *s)
{
    return s->keeper ? &s->devices[s->keeper->device] : NULL;
}

/* On the keeper's thread, as it ends: waits until the grid has left. */
void ptoi_keeper_close(ptoi_scheduler *s);

/* Frees the mirror. No thread runs any more. */
void ptoi_keeper_destroy(ptoi_scheduler *s);

/* ---- A grid of threads (worker/grid.c) ---- */

pto_status ptoi_grid_threads_create(ptoi_scheduler *s, ptoi_keeper *k, uint32_t first);
pto_status ptoi_grid_threads_launch(ptoi_keeper *k);
void ptoi_grid_threads_join(ptoi_keeper *k);
void ptoi_grid_threads_destroy(ptoi_scheduler *s, ptoi_keeper *k);

/* The threads that are blocks of the grid; *n = 0: it is none of threads. */
const ptoi_worker *ptoi_keeper_blocks(const ptoi_scheduler *s, uint32_t *n);

#endif /* PTOI_KEEPER_H */
