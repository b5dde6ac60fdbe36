/* grid_log.h - the host's part of the log of a grid (scheduler/grid_log.h): its memory, the time of the
 * device, and its records as those of threads (observe/log.h). On the keeper's thread, or when there is
 * none any more. */
#ifndef PTOI_WORKER_GRID_LOG_H
#define PTOI_WORKER_GRID_LOG_H

#include "observe/device_clock.h"
#include "worker/keeper.h"

typedef struct ptoi_keeper_log {
    ptoi_device_clock clock;
    ptoi_grid_log *log;             /* on the device */
    ptoi_grid_ran *ran;             /* the same: n_chunks chunks */
    uint32_t n_chunks;              /* room for all tasks of the trace, wherever they run */
    uint64_t begin_ns, begin_ticks; /* one moment on both clocks of the host */
    uint64_t round_at;              /* ns: when several questions were asked */
    uint64_t asked_at;              /* ns: the last question */
    uint64_t told;                  /* the last answer */
    bool asking;                    /* there is no answer yet */
} ptoi_keeper_log;

/* Before the mirror is made. Nothing happens if the run is not traced. */
pto_status ptoi_keeper_log_create(ptoi_scheduler *s, ptoi_keeper *k, uint64_t limit);

/* Before a launch, while the grid is there, and when it has ended: asks for the time now and then; or
 * `now`, if the end is near. */
void ptoi_keeper_log_launch(const ptoi_keeper *k);
void ptoi_keeper_log_time(const ptoi_keeper *k, bool now);
void ptoi_keeper_log_ended(const ptoi_keeper *k);

/* The grid has left for good: its records become those of its workers. */
void ptoi_keeper_log_finish(ptoi_scheduler *s, ptoi_keeper *k);

void ptoi_keeper_log_destroy(ptoi_keeper *k);

#endif /* PTOI_WORKER_GRID_LOG_H */
