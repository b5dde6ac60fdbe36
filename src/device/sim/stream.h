/* stream.h - streams of a simulated device: each is a queue and a thread that carries it out in order.
 *
 *     launch    calls a function, and sleeps until its least time is over
 *     record    an event passes
 *     wait      until an event has passed
 *
 * An event counts its records. A wait is for the record that was the last one when the wait was put on
 * the stream, so an event can be recorded again while others wait for it. Nothing of an event is
 * accessed when it has passed and everything that waits for it has gone on.
 */
#ifndef PTOI_SIM_STREAM_H
#define PTOI_SIM_STREAM_H

#include <pthread.h>

#include <pto/device.h>

#include "base/atomic.h"

/* What the streams of a device share. */
typedef struct ptoi_sim_streams {
    ptoi_a64 launch_ns;   /* least time of a launch */
    pthread_mutex_t lock; /* protects all that follows */
    pthread_cond_t change;
    uint64_t life;    /* raised when the device is lost: launches of an earlier life are dropped */
    uint32_t running; /* functions that are being called */
} ptoi_sim_streams;

void ptoi_sim_streams_init(ptoi_sim_streams *all);

/* The device is lost: drops all launches, and waits for the functions that are being called. */
void ptoi_sim_streams_halt(ptoi_sim_streams *all);

/* Creates a stream and its thread, and destroys it when its queue is empty. */
pto_status ptoi_sim_stream_create(ptoi_sim_streams *all, void **stream);
void ptoi_sim_stream_destroy(void *stream);

pto_status ptoi_sim_event_create(void **event);
void ptoi_sim_event_destroy(void *event);
pto_status ptoi_sim_event_record(void *event, void *stream);
pto_status ptoi_sim_event_wait(void *event, void *stream);
bool ptoi_sim_event_has_passed(void *event);

#endif /* PTOI_SIM_STREAM_H */
