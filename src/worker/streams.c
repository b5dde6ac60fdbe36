#include "worker/streams.h"

#include <pto/pto.h>

#include "base/error.h"
#include "base/mutant.h"

static ptoi_marker *marker_at(ptoi_stream *t, uint32_t i)
{
    return &t->markers[(t->first + i) % PTOI_MARKERS];
}

/* ---- Life ---- */

pto_status ptoi_streams_open(ptoi_streams *s, const pto_device_ops *ops)
{
    const uint32_t n = ops->streams < PTOI_STREAMS ? ops->streams : PTOI_STREAMS;
    *s = (ptoi_streams){.ops = *ops};
    for (uint32_t i = 0; i < n; i++) {
        ptoi_stream *t = &s->stream[i];
        PTO_TRY(ops->stream_create(ops->self, &t->handle));
        s->n = i + 1;
        for (uint32_t k = 0; k < PTOI_MARKERS; k++) {
            PTO_TRY(ops->event_create(ops->self, &t->markers[k].event));
        }
    }
    return PTO_OK;
}

void ptoi_streams_close(ptoi_streams *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        s->ops.stream_destroy(s->ops.self, s->stream[i].handle);
    }
    for (uint32_t i = 0; i < s->n; i++) { /* streams may wait for events of others */
        for (uint32_t k = 0; k < PTOI_MARKERS && s->stream[i].markers[k].event; k++) {
            s->ops.event_destroy(s->ops.self, s->stream[i].markers[k].event);
        }
    }
    s->n = 0;
}

/* ---- Order ---- */

uint32_t ptoi_streams_choose(ptoi_streams *s, const ptoi_needs *needs)
{
    for (uint32_t left = needs->set; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(left);
        if (needs->place[i] == s->stream[i].put) {
            return i;
        }
    }
    const uint32_t next = s->next;
    s->next = next + 1 < s->n ? next + 1 : 0;
    return next;
}

/* The first marker at or behind a place that has not passed. */
static const ptoi_marker *marker_behind(ptoi_stream *t, uint64_t place)
{
    uint32_t i = 0;
    while (marker_at(t, i)->place < place) {
        i++;
    }
    return marker_at(t, i);
}

pto_status ptoi_streams_order(ptoi_streams *s, uint32_t at, const ptoi_needs *needs)
{
    ptoi_stream *to = &s->stream[at];
    for (uint32_t left = needs->set & ~(UINT32_C(1) << at); left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(left);
        ptoi_stream *from = &s->stream[i];
        const uint64_t place = needs->place[i];
        if (place <= to->seen[i] || place <= from->passed || PTOI_MUTANT(NO_STREAM_WAIT)) {
            continue;
        }
        if (from->marked < place) {
            PTO_TRY(ptoi_streams_mark(s, i));
        }
        const ptoi_marker *marker = marker_behind(from, place);
        PTO_TRY(s->ops.event_wait(s->ops.self, to->handle, marker->event));
        to->seen[i] = marker->place;
    }
    return PTO_OK;
}

uint64_t ptoi_streams_put(ptoi_streams *s, uint32_t at)
{
    return ++s->stream[at].put;
}

/* ---- Progress ---- */

pto_status ptoi_streams_mark(ptoi_streams *s, uint32_t at)
{
    ptoi_stream *t = &s->stream[at];
    if (t->marked == t->put) {
        return PTO_OK;
    }
    /* If all markers are in use the last one moves on: it is known a little later that the tasks
     * before it are done. Streams that wait for it wait for its old place. */
    ptoi_marker *m = marker_at(t, t->n < PTOI_MARKERS ? t->n : t->n - 1);
    PTO_TRY(s->ops.event_record(s->ops.self, m->event, t->handle));
    m->place = t->marked = t->put + (PTOI_MUTANT(MARKER_EARLY) ? 1 : 0);
    t->n += t->n < PTOI_MARKERS;
    return PTO_OK;
}

pto_status ptoi_streams_poll(ptoi_streams *s, uint32_t at)
{
    ptoi_stream *t = &s->stream[at];
    while (t->n) {
        const ptoi_marker *m = marker_at(t, 0);
        bool passed = false;
        PTO_TRY(s->ops.event_query(s->ops.self, m->event, &passed));
        if (!passed) {
            break;
        }
        t->passed = m->place;
        t->first = (t->first + 1) % PTOI_MARKERS;
        t->n--;
    }
    return PTO_OK;
}
