/* trace_lanes.c - a lane of the trace for each thread, and what the threads have recorded. */
#include "orchestrator/trace_build.h"

#include <inttypes.h>
#include <stdlib.h>

#include "orchestrator/device.h"

/* ---- Lanes ---- */

bool ptoi_trace_has_scheduler(const ptoi_trace_maker *m)
{
    const pto_place place = m->rt->settings.config.place;
    return place == PTO_PLACE_THREAD || place == PTO_PLACE_GPU;
}

static uint64_t lost_by_orchestrator(const ptoi_trace *log)
{
    return log->tasks.lost + log->descs.lost + log->dims.lost + log->events.lost +
           log->retires.lost + log->samples.lost + log->lives.lost + log->texts.lost +
           log->notes.lost;
}

/* The lane of a log. The orchestrating thread, whose log follows those of the workers, is lane
 * 0. */
static uint32_t lane_of(const ptoi_trace_maker *m, uint32_t log)
{
    const uint32_t workers = m->rt->settings.n_workers;
    const bool own = ptoi_trace_has_scheduler(m);
    if (log <= workers) {
        return log == workers ? 0 : log + 1;
    }
    const uint32_t first = ptoi_line_of_device(&m->rt->view, 0);
    if (log >= first) { /* of a device: before all other threads */
        return workers + 1 + own + (log - first);
    }
    return log == workers + PTOI_LINE_SCHEDULER
               ? workers + 1
               : workers + 1 + own + ptoi_get32(&m->rt->view.header->device_workers);
}

/* "sim:0 worker 1": thread `i` of those of all devices but the host; or "sim:0 block 1" of a grid. */
static uint32_t name_device_lane(ptoi_trace_maker *m, const char *text, uint32_t i)
{
    const pto_runtime *rt = m->rt;
    if (i - rt->grid_first < rt->grid_workers) {
        return ptoi_trace_add_text(&m->texts, "%s block %" PRIu32,
                                   ptoi_device_words(ptoi_device_at(rt, rt->home)).s,
                                   i - rt->grid_first);
    }
    uint32_t d = rt->n_devices - 1;
    while (d > 1 && rt->devices[d].first_worker > i) {
        d--;
    }
    return ptoi_trace_add_text(&m->texts, "%s %s %" PRIu32,
                               ptoi_device_words(ptoi_device_at(rt, d)).s, text,
                               i - rt->devices[d].first_worker);
}

pto_status ptoi_trace_make_lanes(ptoi_trace_maker *m)
{
#define LANE_TEXT(name, text) text,
    static const char *const texts_of_lanes[] = {PTRACE_LANE_MAP(LANE_TEXT)};
#undef LANE_TEXT
    const pto_runtime *rt = m->rt;
    const uint32_t workers = rt->settings.n_workers;
    const bool own = ptoi_trace_has_scheduler(m);
    const ptoi_log *logs = m->log->ran;
    const uint32_t elsewhere = ptoi_get32(&rt->view.header->device_workers);
    uint64_t others = 0, others_lost = 0; /* in place process each process has such a log */
    for (uint32_t i = workers + PTOI_LINE_OTHERS; i < m->log->n_ran - elsewhere; i++) {
        others += logs[i].used + logs[i].lost;
        others_lost += logs[i].lost;
    }
    const uint32_t n = workers + 1 + own + elsewhere + (others != 0);
    ptrace_lane *lanes = ptoi_built_memory(m->built, n * sizeof *lanes);
    if (!lanes) {
        return ptoi_trace_no_memory("lanes", n);
    }
    lanes[0] = (ptrace_lane){.kind = PTRACE_LANE_ORCHESTRATOR,
                             .types = rt->settings.caller_types,
                             .lost = lost_by_orchestrator(m->log) + logs[workers].lost};
    for (uint32_t i = 0; i < workers; i++) {
        lanes[i + 1] = (ptrace_lane){.kind = PTRACE_LANE_WORKER,
                                     .types = rt->settings.worker_types[i],
                                     .lost = logs[i].lost};
    }
    if (own) {
        lanes[workers + 1] = (ptrace_lane){.kind = PTRACE_LANE_SCHEDULER,
                                           .lost = logs[workers + PTOI_LINE_SCHEDULER].lost};
    }
    for (uint32_t i = 0; i < elsewhere; i++) {
        const uint32_t line = ptoi_line_of_device(&rt->view, i);
        lanes[workers + 1 + own + i] = (ptrace_lane){
            .kind = PTRACE_LANE_WORKER,
            .types = ptoi_get32(&rt->view.wakes->threads[line].types),
            .lost = logs[line].lost};
    }
    if (others) {
        lanes[n - 1] = (ptrace_lane){.kind = PTRACE_LANE_FOREIGN, .lost = others_lost};
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *text = texts_of_lanes[lanes[i].kind];
        lanes[i].name = lanes[i].kind != PTRACE_LANE_WORKER
                            ? ptoi_trace_add_text(&m->texts, "%s", text)
                        : i <= workers ? ptoi_trace_add_text(&m->texts, "%s %" PRIu32, text, i - 1)
                                       : name_device_lane(m, text, i - (workers + 1 + own));
        m->built->trace.lost += lanes[i].lost;
    }
    m->built->trace.lanes = lanes;
    m->built->trace.n_lanes = n;
    return PTO_OK;
}

/* ---- Events ---- */

static int by_begin(const void *a, const void *b)
{
    const ptrace_event *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Takes the events of the orchestrating thread. A wait for room belongs to the submit it happened
 * in, which is the next one recorded. */
static uint64_t take_events(ptoi_trace_maker *m, ptrace_event *events)
{
    const ptrace_event *given = (const ptrace_event *)(const void *)m->log->events.memory;
    const ptrace_event *end = given + m->log->events.used / sizeof *given;
    uint64_t n = 0;
    uint32_t task = 0;
    for (; given < end; given++) {
        ptrace_event event = *given;
        event.begin = ptoi_trace_time_ns(m, given->begin);
        event.end = ptoi_trace_time_ns(m, given->end);
        if (event.kind == PTOI_TRACED_LONG) {
            m->tasks[event.value].submitted = event.end;
            continue;
        }
        while (task < m->n_tasks && m->tasks[task].submitted < event.begin) {
            task++;
        }
        if (ptrace_room_ring(event.kind) < PTO_RINGS && task < m->n_tasks &&
            m->tasks[task].called <= event.begin) {
            m->tasks[task].blocked += event.end - event.begin;
        }
        events[n++] = event;
    }
    return n;
}

pto_status ptoi_trace_make_events(ptoi_trace_maker *m)
{
    const uint64_t count = m->log->events.used / sizeof(ptrace_event) + m->count.parks;
    ptrace_event *events = ptoi_built_memory(m->built, count * sizeof *events);
    m->failed = ptoi_built_memory(m->built, m->count.failures * sizeof *m->failed);
    if (!events || !m->failed) {
        return ptoi_trace_no_memory("events and failures", count + m->count.failures);
    }
    uint64_t n = take_events(m, events);
    for (uint32_t l = 0; l < m->log->n_ran; l++) {
        const ptoi_log *log = &m->log->ran[l];
        for (const ptoi_ran *ran = ptoi_trace_first_ran(log); ran < ptoi_trace_end_ran(log);
             ran = ptoi_ran_next(ran)) {
            if (ran->kind == PTOI_RAN_PARKED) {
                events[n++] = (ptrace_event){ptoi_trace_time_ns(m, ran->at),
                                             ptoi_trace_time_ns(m, ran->task),
                                             lane_of(m, l),
                                             PTRACE_PARKED,
                                             0,
                                             0};
            } else {
                ptoi_trace_take_ran(m, ran, lane_of(m, l));
            }
        }
    }
    qsort(events, n, sizeof *events, by_begin);
    m->built->trace.events = events;
    m->built->trace.n_events = n;
    return PTO_OK;
}
