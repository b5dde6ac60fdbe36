/* engine.h - the copy engine of a simulated device: one thread that carries out copies and fills in
 * order, one at a time.
 *
 *     begins            copies             sleeps until the deadline, then calls `done`
 *       |-- real copy ----|.......................|
 *       |-- latency + bytes / bandwidth ----------|
 *
 * The thread starts with the first copy and sleeps while there is none. It belongs to the process:
 * nothing ends it.
 */
#ifndef PTOI_SIM_ENGINE_H
#define PTOI_SIM_ENGINE_H

#include <pthread.h>

#include <pto/device.h>

typedef struct ptoi_sim_job {
    struct ptoi_sim_job *next;
    pto_tensor to, from; /* at addresses that the engine can use */
    char element[8];     /* of a fill; then `from` means nothing */
    bool fills;
    uint64_t bytes;
    pto_device_done done;
    void *context;
} ptoi_sim_job;

typedef struct ptoi_sim_engine {
    pthread_mutex_t lock; /* protects all that follows */
    pthread_cond_t more;
    ptoi_sim_job *first, **last; /* the queue */
    bool started;
    uint32_t forks;      /* ptoi_os_forks when the thread was started: a child has none */
    uint64_t bandwidth;  /* bytes a second; UINT64_MAX: no limit */
    uint64_t latency_ns; /* UINT64_MAX: none */
    uint64_t copies, bytes, busy_ns;
    /* Asked when a job is carried out, without the lock. An error ends the job, unwritten. */
    pto_status (*verdict)(void *self);
    void *self;
} ptoi_sim_engine;

/* Takes a job, which malloc gave, and starts the thread if there is none. On failure the job is
 * still the caller's. */
pto_status ptoi_sim_engine_give(ptoi_sim_engine *e, ptoi_sim_job *job);

#endif /* PTOI_SIM_ENGINE_H */
