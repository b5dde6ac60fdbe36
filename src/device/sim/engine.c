#include "device/sim/engine.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/os.h"
#include "base/thread.h"
#include "op/rearrange/plan.h"

static void move(const ptoi_sim_job *job)
{
    static const int64_t still[PTO_MAX_DIMS];
    const pto_tensor *to = &job->to, *from = &job->from;
    const uint32_t size = (uint32_t)pto_dtype_size(to->dtype);
    char *there = (char *)to->storage + to->offset * (int64_t)size;
    if (job->fills) {
        ptoi_copy(to->ndim, to->shape, there, to->strides, job->element, still, size);
    } else {
        ptoi_copy(to->ndim, to->shape, there, to->strides,
                  (char *)from->storage + from->offset * (int64_t)size, from->strides, size);
    }
}

/* Sleeps until a time of ptoi_os_clock. */
static void sleep_until(uint64_t when)
{
    const struct timespec at = {.tv_sec = (time_t)(when / 1000000000),
                                .tv_nsec = (long)(when % 1000000000)};
    while (ptoi_os_clock() < when) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
}

/* How long a copy takes at least. */
static uint64_t duration(uint64_t bandwidth, uint64_t latency_ns, uint64_t bytes)
{
    uint64_t ns = latency_ns == UINT64_MAX ? 0 : latency_ns;
    if (bandwidth != UINT64_MAX) {
        ns += (uint64_t)((double)bytes * 1e9 / (double)bandwidth);
    }
    return ns;
}

static void carry_out(ptoi_sim_engine *e, ptoi_sim_job *job, uint64_t least)
{
    const uint64_t begin = ptoi_os_clock();
    const pto_status s = e->verdict(e->self);
    if (!s) {
        move(job);
        sleep_until(begin + least);
    }
    pthread_mutex_lock(&e->lock);
    e->busy_ns += ptoi_os_clock() - begin;
    e->copies += !s;
    e->bytes += s ? 0 : job->bytes;
    pthread_mutex_unlock(&e->lock);
    job->done(job->context, s);
    free(job);
}

static void *run(void *context)
{
    ptoi_sim_engine *e = context;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        ptoi_sim_job *job = e->first;
        if (!job) {
            pthread_cond_wait(&e->more, &e->lock);
            continue;
        }
        e->first = job->next;
        e->last = e->first ? e->last : &e->first;
        const uint64_t least = duration(e->bandwidth, e->latency_ns, job->bytes);
        pthread_mutex_unlock(&e->lock);
        carry_out(e, job, least);
        pthread_mutex_lock(&e->lock);
    }
    return NULL;
}

/* With the lock. */
static pto_status start(ptoi_sim_engine *e)
{
    if (e->started && e->forks == ptoi_os_forks) {
        return PTO_OK;
    }
    if (e->started) { /* this is a child: what the parent waits for, and its queue, is not ours */
        pthread_cond_init(&e->more, NULL);
        e->first = NULL;
        e->started = false;
    }
    pthread_t thread;
    const int why = ptoi_os_thread(&thread, run, e);
    if (why) {
        return ptoi_fail(PTO_SYSTEM, "sim: the thread of the copy engine: %s", strerror(why));
    }
    pthread_detach(thread);
    e->started = true;
    e->forks = ptoi_os_forks;
    return PTO_OK;
}

pto_status ptoi_sim_engine_give(ptoi_sim_engine *e, ptoi_sim_job *job)
{
    pthread_mutex_lock(&e->lock);
    const pto_status s = start(e);
    if (!s) {
        job->next = NULL;
        e->last = e->first ? e->last : &e->first;
        *e->last = job;
        e->last = &job->next;
        pthread_cond_signal(&e->more);
    }
    pthread_mutex_unlock(&e->lock);
    return s;
}
