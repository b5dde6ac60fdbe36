/* streams.h - which stream of a device a task goes to, what that stream has to wait for, and how far
 * each stream has come. Only the thread of the launcher uses this (launcher.h). It knows streams and
 * events by the functions of the device (pto/device.h), so the same code runs on GPUs, on simulated
 * devices and in the explorer.
 *
 *     stream 0   [1][2][3]M[4][5]  ...        a task has a stream and a place there, from 1 on
 *     stream 1   [1]   [2]M                   M: a marker, an event that was recorded there
 *                  \____^ waits for stream 0 up to place 3
 *
 * Invariants
 *   S1  passed <= marked <= put, of each stream. The places of its markers rise, the last is `marked`
 *       if marked > passed.
 *   S2  seen[a][b] <= put of b: stream a waits, or has waited, for the first seen[a][b] of stream b.
 *   S3  A task that needs place p of stream b is put on b itself, or on an a with seen[a][b] >= p.
 *
 * So a task begins on the device after all that it needs are done there, and no thread waits for it.
 */
#ifndef PTOI_STREAMS_H
#define PTOI_STREAMS_H

#include <pto/device.h>

#define PTOI_STREAMS 16    /* most streams of a device */
#define PTOI_MARKERS 32    /* most markers of a stream that have not passed */
#define PTOI_MARK_EVERY 32 /* most tasks of a stream without a marker */

typedef struct ptoi_marker {
    void *event;
    uint64_t place; /* of the last task before it */
} ptoi_marker;

typedef struct ptoi_stream {
    void *handle;
    uint64_t put, marked, passed; /* S1: places */
    uint64_t seen[PTOI_STREAMS];  /* S2 */
    ptoi_marker markers[PTOI_MARKERS];
    uint32_t first, n; /* of the markers that are not known to have passed: a ring */
} ptoi_stream;

typedef struct ptoi_streams {
    pto_device_ops ops;
    ptoi_stream stream[PTOI_STREAMS];
    uint32_t n;    /* streams that exist */
    uint32_t next; /* for a task that needs nothing */
} ptoi_streams;

/* What a task needs: the place up to which each stream of a set must have come. */
typedef struct ptoi_needs {
    uint32_t set; /* a bit for each stream; the places of the others mean nothing */
    uint64_t place[PTOI_STREAMS];
} ptoi_needs;

static inline void ptoi_needs_add(ptoi_needs *needs, uint32_t stream, uint64_t place)
{
    if (!(needs->set >> stream & 1) || needs->place[stream] < place) {
        needs->place[stream] = place;
    }
    needs->set |= UINT32_C(1) << stream;
}

/* Makes and destroys the streams and their events. The device is current. */
pto_status ptoi_streams_open(ptoi_streams *s, const pto_device_ops *ops);
void ptoi_streams_close(ptoi_streams *s);

/* The stream for a task: one whose last task it needs, so that a chain stays on one stream; else the
 * next one. A stream that has gone on since is not taken: the task would wait for others there. */
uint32_t ptoi_streams_choose(ptoi_streams *s, const ptoi_needs *needs);

/* Makes stream `at` wait for all that a task needs (S3). */
pto_status ptoi_streams_order(ptoi_streams *s, uint32_t at, const ptoi_needs *needs);

/* A task was put on a stream. Returns its place, from 1 on. */
uint64_t ptoi_streams_put(ptoi_streams *s, uint32_t at);

/* Records a marker behind the last task of a stream, if there is none. */
pto_status ptoi_streams_mark(ptoi_streams *s, uint32_t at);

/* Asks the device which markers of a stream have passed. `passed` rises. */
pto_status ptoi_streams_poll(ptoi_streams *s, uint32_t at);

#endif /* PTOI_STREAMS_H */
