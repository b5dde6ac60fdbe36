/* trace_build.c - builds one trace from the logs of a runtime.
 *
 * The threads of the runtime have ended and were joined. Threads of the program that complete tasks
 * have left pto_task_complete (destroy waits for them). So all logs are complete, and nothing
 * writes to them.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/option.h"
#include "base/os.h"
#include "observe/export.h"
#include "orchestrator/device.h"
#include "orchestrator/rings.h"
#include "orchestrator/trace.h"

/* The strings of the trace: those of the window, and what is added. */
typedef struct texts {
    char *at;
    uint32_t used, room;
} texts;

typedef struct maker {
    pto_runtime *rt;
    ptoi_trace *log;
    ptoi_built_trace *built;
    ptrace_task *tasks;
    uint32_t n_tasks;
    uint64_t n_args;        /* at most */
    ptrace_device *devices; /* of arguments; `name` is a number at first */
    uint64_t n_devices;
    double ns_per_tick;
    ptoi_grid_times grid; /* of the blocks of a grid, whose clock is another */
    texts texts;
    struct {
        uint64_t parks, failures, labels, ranges, text;
    } count; /* of what the logs hold; text in bytes */
    ptrace_failure *failed;
    uint64_t n_failed;
    /* Per level: index[seq - first] is the index in tasks[] of task seq, plus one. */
    struct {
        uint64_t first, count;
        uint32_t *index;
    } level[PTO_MAX_LEVELS];
} maker;

void *ptoi_built_memory(ptoi_built_trace *built, size_t bytes)
{
    if (built->n_pieces == PTOI_BUILT_PIECES) {
        return NULL;
    }
    bytes = bytes ? bytes : 1;
    void *memory = ptoi_os_reserve(bytes);
    if (memory) {
        built->pieces[built->n_pieces].memory = memory;
        built->pieces[built->n_pieces++].bytes = bytes;
    }
    return memory;
}

void ptoi_built_free(ptoi_built_trace *built)
{
    for (uint32_t i = 0; i < built->n_pieces; i++) {
        ptoi_os_release(built->pieces[i].memory, built->pieces[i].bytes);
    }
    built->n_pieces = 0;
}

static pto_status no_memory(const char *what, uint64_t count)
{
    return ptoi_fail(PTO_OUT_OF_MEMORY, "trace: no memory for %" PRIu64 " %s", count, what);
}

/* ---- Time ---- */

static void calibrate(maker *m)
{
    const uint64_t ticks = ptoi_ticks() - m->log->begin_ticks;
    const uint64_t ns = ptoi_clock_ns(CLOCK_MONOTONIC) - m->log->begin_ns;
    m->ns_per_tick = ptoi_ticks_by_counter && ticks ? (double)ns / (double)ticks : 1.0;
}

static uint64_t span_ns(const maker *m, uint64_t ticks)
{
    return (uint64_t)((double)ticks * m->ns_per_tick);
}

static uint64_t time_ns(const maker *m, uint64_t ticks)
{
    return ticks > m->log->begin_ticks ? span_ns(m, ticks - m->log->begin_ticks) : 0;
}

/* ---- From task number to index ---- */

static uint32_t index_of(const maker *m, uint32_t level, uint64_t seq)
{
    if (level >= m->rt->levels || seq - m->level[level].first >= m->level[level].count) {
        return PTRACE_NONE;
    }
    return m->level[level].index[seq - m->level[level].first] - 1;
}

static uint32_t index_of_task(const maker *m, pto_task task)
{
    return index_of(m, (uint32_t)task & 7, task >> 3);
}

static const ptoi_traced *first_traced(const maker *m)
{
    return (const ptoi_traced *)(const void *)m->log->tasks.memory;
}

static pto_status index_tasks(maker *m)
{
    const ptoi_traced *traced = first_traced(m);
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->n_tasks; i++) { /* numbers of a level rise */
        const uint64_t seq = traced->task >> 3;
        const uint32_t l = traced->level;
        m->level[l].first = m->level[l].count ? m->level[l].first : seq;
        m->level[l].count = seq - m->level[l].first + 1;
        m->n_args += traced->args;
        traced = ptoi_traced_next(traced);
    }
    for (uint32_t l = 0; l < m->rt->levels; l++) {
        count += m->level[l].count;
    }
    uint32_t *index = ptoi_built_memory(m->built, count * sizeof *index);
    if (!index) {
        return no_memory("numbers of tasks", count);
    }
    for (uint32_t l = 0; l < m->rt->levels; l++) {
        m->level[l].index = index;
        index += m->level[l].count;
    }
    traced = first_traced(m);
    for (uint32_t i = 0; i < m->n_tasks; i++, traced = ptoi_traced_next(traced)) {
        const uint32_t l = traced->level;
        m->level[l].index[(traced->task >> 3) - m->level[l].first] = i + 1;
    }
    return PTO_OK;
}

/* ---- Strings ---- */

static const ptoi_ran *first_ran(const ptoi_log *log)
{
    return (const ptoi_ran *)(const void *)log->memory;
}

static const ptoi_ran *end_ran(const ptoi_log *log)
{
    return first_ran(log) + log->used / sizeof(ptoi_ran);
}

static void count_records(maker *m)
{
    for (uint32_t l = 0; l < m->log->n_ran; l++) {
        const ptoi_log *log = &m->log->ran[l];
        for (const ptoi_ran *ran = first_ran(log); ran < end_ran(log); ran = ptoi_ran_next(ran)) {
            m->count.parks += ran->kind == PTOI_RAN_PARKED;
            m->count.failures += ran->kind == PTOI_RAN_FAILED;
            m->count.text += ran->kind == PTOI_RAN_FAILED ? ran->took + PTOI_STATUS_WORDS : 0;
        }
    }
}

static const ptoi_traced_text *first_text(const maker *m)
{
    return (const ptoi_traced_text *)(const void *)m->log->texts.memory;
}

static const ptoi_traced_text *end_text(const maker *m)
{
    return (const ptoi_traced_text *)(const void *)(m->log->texts.memory + m->log->texts.used);
}

static void count_texts(maker *m)
{
    for (const ptoi_traced_text *t = first_text(m); t < end_text(m); t = ptoi_traced_text_next(t)) {
        m->count.labels += t->kind == PTOI_TRACED_LABEL;
        m->count.ranges += t->kind == PTOI_TRACED_BEGIN;
        m->count.text += t->bytes;
    }
}

/* Takes the strings of the window, and reserves room for all that are added. */
static pto_status make_strings(maker *m)
{
    enum { LANE_NAME = 32 };
    const pto_runtime *rt = m->rt;
    const uint64_t room = rt->string_bytes + m->count.text +
                          (uint64_t)LANE_NAME * (m->log->n_ran + 1 + rt->n_devices);
    char *at = room < UINT32_MAX ? ptoi_built_memory(m->built, room) : NULL;
    if (!at) {
        return no_memory("bytes of names", room);
    }
    memcpy(at, rt->view.strings, rt->string_bytes);
    m->texts = (texts){at, rt->string_bytes, (uint32_t)room};
    return PTO_OK;
}

static PTO_PRINTF(2, 3) uint32_t add_text(texts *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const uint32_t at = t->used;
    const int n = vsnprintf(t->at + at, t->room - at, format, args);
    va_end(args);
    t->used += n > 0 && (uint32_t)n < t->room - at ? (uint32_t)n + 1 : 0;
    return t->used == at ? 0 : at;
}

/* ---- Tasks and their arguments ---- */

/* Takes the arguments of task `i`, and separately its `after` parameters. */
static void take_args(maker *m, const ptoi_traced *traced, uint32_t i, ptrace_arg *args,
                      uint32_t *n_args, ptoi_afters *afters, uint32_t *n_afters)
{
    const ptrace_arg *descs = (const ptrace_arg *)(const void *)m->log->descs.memory;
    const ptoi_traced_arg *arg = ptoi_traced_args(traced);
    m->tasks[i].first_arg = *n_args;
    for (uint32_t a = 0; a < traced->args; a++, arg++) {
        if (arg->desc == PTRACE_NONE) {
            continue; /* its descriptor was lost, and counted */
        }
        if (descs[arg->desc].access == PTO_PARAM_AFTER) {
            afters->from[(*n_afters)++] = index_of_task(m, arg->where);
            afters->n[i]++;
            continue;
        }
        args[*n_args] = descs[arg->desc];
        args[*n_args].where = arg->where;
        args[*n_args].buffer = 0;
        if (descs[arg->desc].buffer) { /* its device */
            m->devices[m->n_devices++] = (ptrace_device){*n_args, descs[arg->desc].buffer};
        }
        if (descs[arg->desc].segment == PTRACE_USER) {
            args[*n_args].offset = arg->offset;
        } else {
            args[*n_args].buffer = arg->buffer;
        }
        (*n_args)++;
    }
    m->tasks[i].args = (uint16_t)(*n_args - m->tasks[i].first_arg);
}

static pto_status make_tasks(maker *m, ptoi_afters *afters)
{
    uint32_t n_args = 0, n_afters = 0;
    m->n_tasks = m->log->n_tasks;
    PTO_TRY(index_tasks(m));
    m->tasks = ptoi_built_memory(m->built, m->n_tasks * sizeof *m->tasks);
    ptrace_arg *args = ptoi_built_memory(m->built, m->n_args * sizeof *args);
    afters->n = ptoi_built_memory(m->built, m->n_tasks * sizeof *afters->n);
    afters->from = ptoi_built_memory(m->built, m->n_args * sizeof *afters->from);
    m->devices = ptoi_built_memory(m->built,
                                   (m->rt->n_devices > 1 ? m->n_args + 1 : 1) * sizeof *m->devices);
    if (!m->tasks || !args || !afters->n || !afters->from || !m->devices) {
        return no_memory("tasks", m->n_tasks);
    }
    const ptoi_traced *traced = first_traced(m);
    for (uint32_t i = 0; i < m->n_tasks; i++, traced = ptoi_traced_next(traced)) {
        m->tasks[i] = (ptrace_task){.task = traced->task,
                                    .called = time_ns(m, traced->called),
                                    .submitted = time_ns(m, traced->called + traced->took),
                                    .ready = PTRACE_UNKNOWN,
                                    .start = PTRACE_UNKNOWN,
                                    .end = PTRACE_UNKNOWN,
                                    .retired = PTRACE_UNKNOWN,
                                    .kernel = traced->kernel,
                                    .site = traced->site ? traced->site : PTRACE_NONE,
                                    .lane = PTRACE_NONE,
                                    .level = traced->level,
                                    .outcome = PTRACE_OPEN};
        take_args(m, traced, i, args, &n_args, afters, &n_afters);
    }
    m->built->trace.tasks = m->tasks;
    m->built->trace.n_tasks = m->n_tasks;
    m->built->trace.args = args;
    m->built->trace.n_args = n_args;
    m->built->trace.dims = (const int64_t *)(const void *)m->log->dims.memory;
    m->built->trace.n_dims = m->log->dims.used / sizeof(int64_t);
    return PTO_OK;
}

/* ---- How they ran ---- */

_Static_assert((int)PTOI_DONE == PTRACE_DONE && (int)PTOI_FAILED == PTRACE_FAILED &&
                   (int)PTOI_SKIPPED == PTRACE_SKIPPED,
               "outcomes have the same values in a trace");

static void take_failed(maker *m, const ptoi_ran *ran, uint32_t task)
{
    const uint32_t status = (uint32_t)ran->at;
    char room[PTOI_STATUS_WORDS];
    const ptrace_failure *last = m->n_failed ? &m->failed[m->n_failed - 1] : NULL;
    const uint32_t name = last && last->status == status
                              ? last->name
                              : add_text(&m->texts, "%s",
                                         ptoi_status_words((pto_status)status, room));
    const uint32_t words = add_text(&m->texts, "%s", (const char *)(ran + 1));
    m->failed[m->n_failed++] = (ptrace_failure){
        .task = task, .status = status, .name = name, .words = words};
}

/* Takes one record of a thread about a task. */
static void take_ran(maker *m, const ptoi_ran *ran, uint32_t lane)
{
    const uint32_t i = index_of_task(m, ran->task);
    if (i == PTRACE_NONE) {
        return; /* a task that was lost, and counted */
    }
    ptrace_task *task = &m->tasks[i];
    task->flags |= ran->kind & PTOI_RAN_INLINE ? PTRACE_INLINE : 0;
    switch ((ptoi_ran_kind)(ran->kind & ~PTOI_RAN_INLINE)) {
    case PTOI_RAN_READY:
        task->ready = time_ns(m, ran->at);
        break;
    case PTOI_RAN_WHOLE:
        task->end = time_ns(m, ran->at + ran->took);
        task->outcome = (uint8_t)ran->outcome;
        task->start = time_ns(m, ran->at);
        task->lane = lane;
        break;
    case PTOI_RAN_STARTED:
        task->start = time_ns(m, ran->at);
        task->lane = lane;
        break;
    case PTOI_RAN_ENDED:
        task->end = time_ns(m, ran->at);
        task->outcome = (uint8_t)ran->outcome;
        break;
    case PTOI_RAN_FAILED:
        take_failed(m, ran, i);
        break;
    case PTOI_RAN_PARKED:
        break;
    }
}

static void take_retires(maker *m)
{
    const ptoi_traced_retire *r = (const void *)m->log->retires.memory;
    const ptoi_traced_retire *end = r + m->log->retires.used / sizeof *r;
    for (; r < end; r++) {
        for (uint64_t seq = r->begin; seq != r->end; seq++) {
            const uint32_t i = index_of(m, r->level, seq);
            if (i != PTRACE_NONE) {
                m->tasks[i].retired = time_ns(m, r->at);
            }
        }
    }
}

/* Whether there is a lane for a scheduler's thread. In place gpu that is the keeper. */
static bool has_scheduler(const maker *m)
{
    const pto_place place = m->rt->settings.config.place;
    return place == PTO_PLACE_THREAD || place == PTO_PLACE_GPU;
}

/* Whether a task ran on a block of a grid. */
static bool is_on_grid(const maker *m, const ptrace_task *task)
{
    const uint32_t first = m->rt->settings.n_workers + 1 + has_scheduler(m) + m->rt->grid_first;
    return task->lane != PTRACE_NONE && task->lane - first < m->rt->grid_workers;
}

/* No task starts before it was submitted. If some seem to, the clock of the device is behind that of the
 * host, by no more than their error: all times of the grid are moved. */
static void move_grid(maker *m)
{
    uint64_t behind = 0;
    for (uint32_t i = 0; i < m->n_tasks; i++) {
        const ptrace_task *task = &m->tasks[i];
        if (is_on_grid(m, task) && task->submitted > task->start &&
            task->submitted - task->start > behind) {
            behind = task->submitted - task->start;
        }
    }
    behind = behind < m->grid.error_ns ? behind : m->grid.error_ns;
    for (uint32_t i = 0; behind && i < m->n_tasks; i++) {
        if (is_on_grid(m, &m->tasks[i])) {
            m->tasks[i].start += behind;
            m->tasks[i].end += behind;
        }
    }
}

/* Times of one task from both clocks: those that are wrong by no more than the error are put in order. */
static void mend(const maker *m, ptrace_task *task, uint64_t ready)
{
    const uint64_t error = m->grid.error_ns + PTOI_TICKS_BLUR_NS;
    ready = ready < task->start ? ready : task->start;
    if (task->ready < ready && ready - task->ready <= error) {
        task->ready = ready; /* the keeper's time */
    }
    if (task->start == PTRACE_UNKNOWN && task->end < ready && ready - task->end <= error) {
        task->end = ready; /* skipped on the device */
    }
    if (task->retired < task->end && task->end - task->retired <= error) {
        task->retired = task->end;
    }
}

/* The scheduler's thread records when it found a task ready. Without such a thread a task is ready
 * when its last producer ends, or when it is submitted. */
static void find_ready(maker *m)
{
    const ptrace_edge *edges = m->built->trace.edges;
    for (uint32_t i = 0; i < m->n_tasks; i++) {
        ptrace_task *task = &m->tasks[i];
        const bool on_grid = is_on_grid(m, task);
        uint64_t ready = task->submitted, blur = PTOI_TICKS_BLUR_NS;
        for (uint32_t e = task->first_edge; e < task->first_edge + task->edges; e++) {
            const ptrace_task *from = edges[e].from == PTRACE_NONE ? NULL
                                                                   : &m->tasks[edges[e].from];
            if (from && from->end != PTRACE_UNKNOWN && from->end > ready) {
                ready = from->end;
                blur = PTOI_TICKS_BLUR_NS + (on_grid != is_on_grid(m, from) ? m->grid.error_ns
                                             : on_grid                      ? m->grid.step_ns
                                                                            : 0);
            }
        }
        if (task->start < ready && ready - task->start <= blur) {
            task->start = ready; /* the difference is within the error of the clock */
            task->end = task->end < ready ? ready : task->end;
        }
        if (task->ready == PTRACE_UNKNOWN && task->outcome != PTRACE_OPEN) {
            task->ready = ready < task->start ? ready : task->start;
        }
        if (m->grid.compared) {
            mend(m, task, ready);
        }
    }
}

/* ---- Lanes and events ---- */

static uint64_t lost_by_orchestrator(const ptoi_trace *log)
{
    return log->tasks.lost + log->descs.lost + log->dims.lost + log->events.lost +
           log->retires.lost + log->samples.lost + log->lives.lost + log->texts.lost +
           log->notes.lost;
}

/* The lane of a log. The orchestrating thread, whose log follows those of the workers, is lane
 * 0. */
static uint32_t lane_of(const maker *m, uint32_t log)
{
    const uint32_t workers = m->rt->settings.n_workers;
    const bool own = has_scheduler(m);
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
static uint32_t name_device_lane(maker *m, const char *text, uint32_t i)
{
    const pto_runtime *rt = m->rt;
    if (i - rt->grid_first < rt->grid_workers) {
        return add_text(&m->texts, "%s block %" PRIu32,
                        ptoi_device_words(ptoi_device_at(rt, rt->home)).s, i - rt->grid_first);
    }
    uint32_t d = rt->n_devices - 1;
    while (d > 1 && rt->devices[d].first_worker > i) {
        d--;
    }
    return add_text(&m->texts, "%s %s %" PRIu32, ptoi_device_words(ptoi_device_at(rt, d)).s, text,
                    i - rt->devices[d].first_worker);
}

static pto_status make_lanes(maker *m)
{
#define LANE_TEXT(name, text) text,
    static const char *const texts_of_lanes[] = {PTRACE_LANE_MAP(LANE_TEXT)};
#undef LANE_TEXT
    const pto_runtime *rt = m->rt;
    const uint32_t workers = rt->settings.n_workers;
    const bool own = has_scheduler(m);
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
        return no_memory("lanes", n);
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
        lanes[i].name = lanes[i].kind != PTRACE_LANE_WORKER ? add_text(&m->texts, "%s", text)
                        : i <= workers ? add_text(&m->texts, "%s %" PRIu32, text, i - 1)
                                       : name_device_lane(m, text, i - (workers + 1 + own));
        m->built->trace.lost += lanes[i].lost;
    }
    m->built->trace.lanes = lanes;
    m->built->trace.n_lanes = n;
    return PTO_OK;
}

static int by_begin(const void *a, const void *b)
{
    const ptrace_event *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Takes the events of the orchestrating thread. A wait for room belongs to the submit it happened
 * in, which is the next one recorded. */
static uint64_t take_events(maker *m, ptrace_event *events)
{
    const ptrace_event *given = (const ptrace_event *)(const void *)m->log->events.memory;
    const ptrace_event *end = given + m->log->events.used / sizeof *given;
    uint64_t n = 0;
    uint32_t task = 0;
    for (; given < end; given++) {
        ptrace_event event = *given;
        event.begin = time_ns(m, given->begin);
        event.end = time_ns(m, given->end);
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

/* Takes all events, and the records of the threads about tasks. */
static pto_status make_events(maker *m)
{
    const uint64_t count = m->log->events.used / sizeof(ptrace_event) + m->count.parks;
    ptrace_event *events = ptoi_built_memory(m->built, count * sizeof *events);
    m->failed = ptoi_built_memory(m->built, m->count.failures * sizeof *m->failed);
    if (!events || !m->failed) {
        return no_memory("events and failures", count + m->count.failures);
    }
    uint64_t n = take_events(m, events);
    for (uint32_t l = 0; l < m->log->n_ran; l++) {
        const ptoi_log *log = &m->log->ran[l];
        for (const ptoi_ran *ran = first_ran(log); ran < end_ran(log); ran = ptoi_ran_next(ran)) {
            if (ran->kind == PTOI_RAN_PARKED) {
                events[n++] = (ptrace_event){
                    time_ns(m, ran->at), time_ns(m, ran->task), lane_of(m, l), PTRACE_PARKED, 0, 0};
            } else {
                take_ran(m, ran, lane_of(m, l));
            }
        }
    }
    qsort(events, n, sizeof *events, by_begin);
    m->built->trace.events = events;
    m->built->trace.n_events = n;
    return PTO_OK;
}

/* ---- Rings ---- */

/* Takes the samples of the rings, where a value has changed. */
static pto_status make_rings(maker *m)
{
    const ptoi_traced_sample *s = (const void *)m->log->samples.memory;
    const uint64_t n_samples = m->log->samples.used / sizeof *s;
    const pto_runtime *rt = m->rt;
    uint64_t last[PTO_MAX_LEVELS][PTO_RINGS], n = 0;
    memset(last, 0xff, sizeof last);
    const size_t n_caps = (size_t)rt->levels * PTO_RINGS;
    const uint64_t room = n_samples * PTO_RINGS;
    ptrace_cap *caps = ptoi_built_memory(m->built,
                                         n_caps * sizeof *caps + room * sizeof(ptrace_ring_sample));
    if (!caps) {
        return no_memory("samples of rings", room);
    }
    ptrace_ring_sample *rings = (void *)(caps + n_caps);
    for (uint32_t l = 0; l < rt->levels; l++) {
        for (uint32_t r = 0; r < PTO_RINGS; r++) {
            const uint64_t size = ptoi_rings_read(rt, l, (pto_ring)r).size;
            caps[(size_t)l * PTO_RINGS + r] = (ptrace_cap){size, l, r};
        }
    }
    for (uint64_t i = 0; i < n_samples; i++, s++) {
        for (uint32_t r = 0; r < PTO_RINGS; r++) {
            if (s->used[r] != last[s->level][r]) {
                last[s->level][r] = s->used[r];
                rings[n++] = (ptrace_ring_sample){time_ns(m, s->at), s->used[r], s->level, r};
            }
        }
    }
    m->built->trace.caps = caps;
    m->built->trace.n_caps = n_caps;
    m->built->trace.rings = rings;
    m->built->trace.n_rings = n;
    return PTO_OK;
}

/* ---- Lifetimes ---- */

/* Converts the log in place: it is not used after this. */
static void make_lives(maker *m)
{
    ptrace_life *lives = (ptrace_life *)(void *)m->log->lives.memory;
    const uint64_t n = m->log->lives.used / sizeof *lives;
    for (uint64_t i = 0; i < n; i++) {
        lives[i].at = time_ns(m, lives[i].at);
    }
    m->built->trace.lives = lives;
    m->built->trace.n_lives = n;
}

/* ---- Notes about ranks ---- */

static pto_status make_notes(maker *m)
{
    const ptoi_traced_note *from = (const void *)m->log->notes.memory;
    const uint64_t n = m->log->notes.used / sizeof *from;
    ptrace_note *notes = n ? ptoi_built_memory(m->built, n * sizeof *notes) : NULL;
    if (n && !notes) {
        return no_memory("notes", n);
    }
    for (uint64_t i = 0; i < n; i++, from++) {
        const pto_note *note = &from->note;
        const bool ends = note->kind == PTO_NOTE_SEND || note->kind == PTO_NOTE_RECEIVE;
        notes[i] = (ptrace_note){.number = note->number,
                                 .at = time_ns(m, note->ticks),
                                 .error = span_ns(m, note->error),
                                 .task = ends ? index_of_task(m, note->task)
                                         : note->kind == PTO_NOTE_STEP ? from->n_tasks
                                                                       : PTRACE_NONE,
                                 .peer = note->peer,
                                 .kind = note->kind};
        if (ends && notes[i].task != PTRACE_NONE) { /* else it was lost, and counted */
            m->tasks[notes[i].task].flags |= PTRACE_TRANSFER;
        }
    }
    m->built->trace.notes = notes;
    m->built->trace.n_notes = n;
    return PTO_OK;
}

/* ---- Labels and ranges ---- */

typedef struct namer {
    ptrace_label *labels;
    ptrace_range *ranges;
    uint64_t n_labels, n_ranges;
    uint32_t open; /* innermost open range */
} namer;

static void take_text(maker *m, const ptoi_traced_text *t, namer *n)
{
    const char *text = (const char *)(t + 1);
    if (t->kind == PTOI_TRACED_LABEL) {
        const uint32_t task = index_of_task(m, t->at);
        if (task != PTRACE_NONE) { /* else the task was lost, and counted */
            n->labels[n->n_labels++] = (ptrace_label){task, add_text(&m->texts, "%s", text)};
        }
    } else if (t->kind == PTOI_TRACED_BEGIN) {
        n->ranges[n->n_ranges] = (ptrace_range){
            time_ns(m, t->at), PTRACE_UNKNOWN, add_text(&m->texts, "%s", text),
            n->open,           t->n_tasks,     m->n_tasks - t->n_tasks};
        n->open = (uint32_t)n->n_ranges++;
    } else if (n->open != PTRACE_NONE) { /* else its begin was lost */
        ptrace_range *range = &n->ranges[n->open];
        range->end = time_ns(m, t->at);
        range->tasks = t->n_tasks - range->first_task;
        n->open = range->parent;
    }
}

/* The numbers of devices become their names. */
static void make_devices(maker *m)
{
    uint32_t names[PTOI_DEVICES] = {0};
    for (uint32_t d = 1; m->n_devices && d < m->rt->n_devices; d++) {
        names[d] = add_text(&m->texts, "%s", ptoi_device_words(ptoi_device_at(m->rt, d)).s);
    }
    for (uint64_t i = 0; i < m->n_devices; i++) {
        m->devices[i].name = names[m->devices[i].name % PTOI_DEVICES];
    }
    m->built->trace.devices = m->devices;
    m->built->trace.n_devices = m->n_devices;
}

static pto_status make_names_of_tasks(maker *m)
{
    namer n = {.open = PTRACE_NONE};
    if (m->count.labels + m->count.ranges == 0) {
        return PTO_OK;
    }
    n.labels = ptoi_built_memory(m->built, m->count.labels * sizeof *n.labels);
    n.ranges = ptoi_built_memory(m->built, m->count.ranges * sizeof *n.ranges);
    if (!n.labels || !n.ranges) {
        return no_memory("labels and ranges", m->count.labels + m->count.ranges);
    }
    for (const ptoi_traced_text *t = first_text(m); t < end_text(m); t = ptoi_traced_text_next(t)) {
        take_text(m, t, &n);
    }
    m->built->trace.labels = n.labels;
    m->built->trace.n_labels = n.n_labels;
    m->built->trace.ranges = n.ranges;
    m->built->trace.n_ranges = n.n_ranges;
    return PTO_OK;
}

/* ---- Machine, names ---- */

/* The first line of a file that begins with `key`, without the part up to its colon. "" if there is
 * none. */
static void read_line(const char *path, const char *key, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    text[0] = '\0';
    while (file && fgets(text, (int)size, file)) {
        if (strncmp(text, key, strlen(key)) == 0) {
            const char *colon = strchr(text, ':');
            const char *from = colon ? colon + 1 + strspn(colon + 1, " \t") : text;
            memmove(text, from, strlen(from) + 1);
            text[strcspn(text, "\n")] = '\0';
            break;
        }
        text[0] = '\0';
    }
    if (file) {
        fclose(file);
    }
}

static pto_status make_meta(maker *m)
{
    const pto_runtime *rt = m->rt;
    const pto_config *c = &rt->settings.config;
    enum { ROOM = 4096 };
    char *text = ptoi_built_memory(m->built, ROOM), line[256];
    if (!text) {
        return no_memory("bytes about the machine", ROOM);
    }
    size_t n = 0;
    snprintf(line, sizeof line, "%s", ptoi_os_program());
    line[strcspn(line, "\n")] = '\0';
    n += (size_t)snprintf(text + n, ROOM - n, "program=%s\npid=%ld\nversion=%s\n", line,
                          (long)getpid(), pto_version());
    read_line("/proc/cpuinfo", "model name", line, sizeof line);
    n += (size_t)snprintf(text + n, ROOM - n, "cpu=%s\ncores=%" PRIu64 "\nworkers=%" PRIu32 "\n",
                          line, ptoi_os_cores(), rt->settings.n_workers);
    n += (size_t)snprintf(text + n, ROOM - n, "scheduler=%s\nlevels=%" PRIu32 "\n",
                          ptoi_place_names[rt->settings.config.place], rt->levels);
    n += (size_t)snprintf(text + n, ROOM - n, "clock=%s\ntrace_limit=%" PRIu64 "\n",
                          ptoi_ticks_by_counter ? "tsc" : "monotonic", c->trace_limit);
    if (m->grid.compared) {
        n += (size_t)snprintf(text + n, ROOM - n,
                              "device_clock_error_ns=%" PRIu64 "\ndevice_clock_step_ns=%" PRIu64
                              "\ndevice_clock_compared=%" PRIu64 "\n",
                              m->grid.error_ns, m->grid.step_ns, m->grid.compared);
    }
    m->built->trace.meta = text;
    m->built->trace.n_meta = n;
    return PTO_OK;
}

/* Kernels and sites are used as they lie in the window. */
static void make_names(maker *m)
{
    _Static_assert(sizeof(ptoi_kernel_entry) == sizeof(ptrace_kernel) &&
                       sizeof(ptoi_site) == sizeof(ptrace_site),
                   "window and file have the same layout");
    m->built->trace.kernels = (const ptrace_kernel *)(const void *)m->rt->view.kernels;
    m->built->trace.n_kernels = m->rt->n_kernels;
    m->built->trace.sites = (const ptrace_site *)(const void *)m->rt->view.sites;
    m->built->trace.n_sites = m->rt->n_sites;
}

static pto_status make(maker *m)
{
    ptoi_afters afters = {NULL, NULL};
    m->built->trace.origin_ns = m->log->origin_ns;
    m->grid = ptoi_scheduler_grid_times(m->rt->scheduler);
    calibrate(m);
    make_names(m);
    PTO_TRY(make_meta(m));
    count_records(m);
    count_texts(m);
    PTO_TRY(make_strings(m));
    PTO_TRY(make_lanes(m));
    PTO_TRY(make_tasks(m, &afters));
    PTO_TRY(make_events(m));
    PTO_TRY(make_rings(m));
    move_grid(m);
    take_retires(m);
    make_lives(m);
    PTO_TRY(ptoi_edges_find(m->built, m->tasks, &afters, m->rt->settings.config.overlap_budget));
    find_ready(m);
    PTO_TRY(make_names_of_tasks(m));
    PTO_TRY(make_notes(m));
    make_devices(m);
    m->built->trace.strings = m->texts.at;
    m->built->trace.n_strings = m->texts.used;
    return ptoi_failures_find(m->built, m->failed, m->n_failed);
}

pto_status ptoi_trace_build(pto_runtime *rt, ptoi_built_trace *built)
{
    memset(built, 0, sizeof *built);
    maker m = {.rt = rt, .log = rt->trace, .built = built};
    const pto_status status = make(&m);
    if (status != PTO_OK) {
        ptoi_built_free(built);
    }
    return status;
}
