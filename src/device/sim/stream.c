#include "device/sim/stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pto/pto.h>
#include <pto/sim.h>

#include "base/error.h"
#include "base/os.h"
#include "base/thread.h"

typedef struct event {
    pthread_mutex_t lock; /* protects all that follows */
    pthread_cond_t change;
    uint64_t recorded, passed; /* the last record; the last that has passed */
} event;

typedef struct item {
    struct item *next;
    void (*fn)(void *args); /* of a launch; NULL: record or wait */
    event *event;
    uint64_t record; /* of the event */
    uint64_t life;   /* of the device, when it was launched */
    bool waits;
    _Alignas(16) char args[]; /* of a launch */
} item;

typedef struct stream {
    ptoi_sim_streams *all;
    pthread_t thread;
    pthread_mutex_t lock; /* protects all that follows */
    pthread_cond_t change;
    item *first, **last;
    bool ends;
} stream;

/* ---- The thread of a stream ---- */

static void sleep_until(uint64_t when)
{
    const struct timespec at = {.tv_sec = (time_t)(when / 1000000000),
                                .tv_nsec = (long)(when % 1000000000)};
    while (ptoi_os_clock() < when) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
}

static void call(ptoi_sim_streams *all, item *it)
{
    pthread_mutex_lock(&all->lock);
    const bool lives = it->life == all->life;
    all->running += lives;
    pthread_mutex_unlock(&all->lock);
    if (!lives) {
        return;
    }
    const uint64_t least = ptoi_acquire64(&all->launch_ns);
    const uint64_t end = least ? ptoi_os_clock() + least : 0;
    it->fn(it->args);
    if (least) {
        sleep_until(end);
    }
    pthread_mutex_lock(&all->lock);
    all->running--;
    pthread_cond_broadcast(&all->change);
    pthread_mutex_unlock(&all->lock);
}

static void carry_out(const stream *s, item *it)
{
    event *e = it->event;
    if (it->fn) {
        call(s->all, it);
        return;
    }
    pthread_mutex_lock(&e->lock);
    if (it->waits) {
        while (e->passed < it->record) {
            pthread_cond_wait(&e->change, &e->lock);
        }
    } else {
        e->passed = it->record;
        pthread_cond_broadcast(&e->change);
    }
    pthread_mutex_unlock(&e->lock);
}

static void *run(void *context)
{
    stream *s = context;
    pthread_mutex_lock(&s->lock);
    while (s->first || !s->ends) {
        item *it = s->first;
        if (!it) {
            pthread_cond_wait(&s->change, &s->lock);
            continue;
        }
        s->first = it->next;
        s->last = s->first ? s->last : &s->first;
        pthread_mutex_unlock(&s->lock);
        carry_out(s, it);
        free(it);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static pto_status put(stream *s, const item *what, const void *args, size_t bytes)
{
    item *it = malloc(sizeof *it + bytes);
    if (!it) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "sim: no %zu bytes on the host for a stream",
                         sizeof *it + bytes);
    }
    *it = *what;
    it->next = NULL;
    pthread_mutex_lock(&s->all->lock);
    it->life = s->all->life;
    pthread_mutex_unlock(&s->all->lock);
    if (bytes) {
        memcpy(it->args, args, bytes);
    }
    pthread_mutex_lock(&s->lock);
    *s->last = it;
    s->last = &it->next;
    pthread_cond_signal(&s->change);
    pthread_mutex_unlock(&s->lock);
    return PTO_OK;
}

/* ---- Streams ---- */

void ptoi_sim_streams_init(ptoi_sim_streams *all)
{
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->change, NULL);
}

void ptoi_sim_streams_halt(ptoi_sim_streams *all)
{
    pthread_mutex_lock(&all->lock);
    all->life++;
    while (all->running) {
        pthread_cond_wait(&all->change, &all->lock);
    }
    pthread_mutex_unlock(&all->lock);
}

pto_status ptoi_sim_stream_create(ptoi_sim_streams *all, void **made)
{
    stream *s = calloc(1, sizeof *s);
    if (!s) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "sim: no %zu bytes on the host for a stream",
                         sizeof *s);
    }
    s->all = all;
    s->last = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->change, NULL);
    const int why = ptoi_os_thread(&s->thread, run, s);
    if (why) {
        free(s);
        return ptoi_fail(PTO_SYSTEM, "sim: the thread of a stream: %s", strerror(why));
    }
    *made = s;
    return PTO_OK;
}

void ptoi_sim_stream_destroy(void *it)
{
    stream *s = it;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_signal(&s->change);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->change);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

pto_status pto_sim_launch(void *on, void (*fn)(void *args), const void *args, size_t bytes)
{
    if (!on || !fn || (bytes && !args)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "sim launch: %s is NULL",
                         !on   ? "the stream"
                         : !fn ? "the function"
                               : "args");
    }
    if (bytes > PTO_SIM_LAUNCH_BYTES) {
        return ptoi_fail(PTO_TOO_LARGE, "sim launch: %zu bytes of arguments, at most %d", bytes,
                         PTO_SIM_LAUNCH_BYTES);
    }
    return put(on, &(item){.fn = fn}, args, bytes);
}

/* ---- Events ---- */

pto_status ptoi_sim_event_create(void **made)
{
    event *e = calloc(1, sizeof *e);
    if (!e) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "sim: no %zu bytes on the host for an event",
                         sizeof *e);
    }
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->change, NULL);
    *made = e;
    return PTO_OK;
}

void ptoi_sim_event_destroy(void *it)
{
    event *e = it;
    pthread_cond_destroy(&e->change);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

pto_status ptoi_sim_event_record(void *it, void *on)
{
    event *e = it;
    pthread_mutex_lock(&e->lock);
    const uint64_t record = e->recorded + 1;
    pthread_mutex_unlock(&e->lock);
    PTO_TRY(put(on, &(item){.event = e, .record = record}, NULL, 0));
    pthread_mutex_lock(&e->lock);
    e->recorded = record;
    pthread_mutex_unlock(&e->lock);
    return PTO_OK;
}

pto_status ptoi_sim_event_wait(void *it, void *on)
{
    event *e = it;
    pthread_mutex_lock(&e->lock);
    const uint64_t record = e->recorded;
    pthread_mutex_unlock(&e->lock);
    return put(on, &(item){.event = e, .record = record, .waits = true}, NULL, 0);
}

bool ptoi_sim_event_has_passed(void *it)
{
    event *e = it;
    pthread_mutex_lock(&e->lock);
    const bool passed = e->passed >= e->recorded;
    pthread_mutex_unlock(&e->lock);
    return passed;
}
