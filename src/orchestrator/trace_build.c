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
#include "orchestrator/rings.h"
#include "orchestrator/trace.h"

typedef struct maker {
    pto_runtime *rt;
    ptoi_trace *log;
    ptoi_built_trace *built;
    ptrace_task *tasks;
    uint32_t n_tasks;
    uint64_t n_args; /* at most */
    double ns_per_tick;
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
        args[(*n_args)++].buffer = arg->buffer;
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
    if (!m->tasks || !args || !afters->n || !afters->from) {
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

/* The scheduler's thread records when it found a task ready. Without such a thread a task is ready
 * when its last producer ends, or when it is submitted. */
static void find_ready(maker *m)
{
    const ptrace_edge *edges = m->built->trace.edges;
    for (uint32_t i = 0; i < m->n_tasks; i++) {
        ptrace_task *task = &m->tasks[i];
        uint64_t ready = task->submitted;
        for (uint32_t e = task->first_edge; e < task->first_edge + task->edges; e++) {
            const ptrace_task *from = edges[e].from == PTRACE_NONE ? NULL
                                                                   : &m->tasks[edges[e].from];
            if (from && from->end != PTRACE_UNKNOWN && from->end > ready) {
                ready = from->end;
            }
        }
        if (task->start < ready && ready - task->start <= PTOI_TICKS_BLUR_NS) {
            task->start = ready; /* the difference is within the error of the clock */
            task->end = task->end < ready ? ready : task->end;
        }
        if (task->ready == PTRACE_UNKNOWN && task->outcome != PTRACE_OPEN) {
            task->ready = ready < task->start ? ready : task->start;
        }
    }
}

/* ---- Lanes and events ---- */

typedef struct texts {
    char *at;
    uint32_t used, room;
} texts;

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

static uint64_t lost_by_orchestrator(const ptoi_trace *log)
{
    return log->tasks.lost + log->descs.lost + log->dims.lost + log->events.lost +
           log->retires.lost + log->samples.lost + log->lives.lost;
}

/* The lane of a log. The orchestrating thread, whose log follows those of the workers, is lane
 * 0. */
static uint32_t lane_of(const maker *m, uint32_t log)
{
    const uint32_t workers = m->rt->settings.n_workers;
    const bool own = m->rt->settings.config.place == PTO_PLACE_THREAD;
    if (log <= workers) {
        return log == workers ? 0 : log + 1;
    }
    return log == workers + PTOI_LINE_SCHEDULER ? workers + 1 : workers + 1 + own;
}

static pto_status make_lanes(maker *m)
{
#define LANE_TEXT(name, text) text,
    static const char *const texts_of_lanes[] = {PTRACE_LANE_MAP(LANE_TEXT)};
#undef LANE_TEXT
    const pto_runtime *rt = m->rt;
    const uint32_t workers = rt->settings.n_workers;
    const bool own = rt->settings.config.place == PTO_PLACE_THREAD;
    const ptoi_log *logs = m->log->ran, *others = &logs[workers + PTOI_LINE_OTHERS];
    const uint32_t n = workers + 1 + own + (others->used || others->lost);
    texts names = {.room = rt->string_bytes + 32 * n + 32, .used = rt->string_bytes};
    ptrace_lane *lanes = ptoi_built_memory(m->built, (size_t)n * sizeof *lanes + names.room);
    if (!lanes) {
        return no_memory("lanes", n);
    }
    names.at = (char *)(lanes + n);
    memcpy(names.at, rt->view.strings, rt->string_bytes);
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
    if (others->used || others->lost) {
        lanes[n - 1] = (ptrace_lane){.kind = PTRACE_LANE_FOREIGN, .lost = others->lost};
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *text = texts_of_lanes[lanes[i].kind];
        lanes[i].name = lanes[i].kind == PTRACE_LANE_WORKER
                            ? add_text(&names, "%s %" PRIu32, text, i - 1)
                            : add_text(&names, "%s", text);
        m->built->trace.lost += lanes[i].lost;
    }
    m->built->trace.lanes = lanes;
    m->built->trace.n_lanes = n;
    m->built->trace.strings = names.at;
    m->built->trace.n_strings = names.used;
    return PTO_OK;
}

static int by_begin(const void *a, const void *b)
{
    const ptrace_event *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static uint64_t count_parks(const ptoi_log *log)
{
    const ptoi_ran *ran = (const ptoi_ran *)(const void *)log->memory;
    const ptoi_ran *end = ran + log->used / sizeof *ran;
    uint64_t count = 0;
    for (; ran < end; ran++) {
        count += ran->kind == PTOI_RAN_PARKED;
    }
    return count;
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
    uint64_t count = m->log->events.used / sizeof(ptrace_event);
    for (uint32_t l = 0; l < m->log->n_ran; l++) {
        count += count_parks(&m->log->ran[l]);
    }
    ptrace_event *events = ptoi_built_memory(m->built, count * sizeof *events);
    if (!events) {
        return no_memory("events", count);
    }
    uint64_t n = take_events(m, events);
    for (uint32_t l = 0; l < m->log->n_ran; l++) {
        const ptoi_ran *ran = (const ptoi_ran *)(const void *)m->log->ran[l].memory;
        const ptoi_ran *end = ran + m->log->ran[l].used / sizeof *ran;
        for (; ran < end; ran++) {
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

/* ---- Machine, names ---- */

/* The first line of a file that begins with `key`, without the part up to its colon. "" if there is
 * none. */
static void read_line(const char *path, const char *key, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    text[0] = '\0';
    while (file && fgets(text, (int)size, file)) {
        if (strncmp(text, key, strlen(key)) == 0) {
            const char *colon = *key ? strchr(text, ':') : NULL;
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
    read_line("/proc/self/comm", "", line, sizeof line);
    n += (size_t)snprintf(text + n, ROOM - n, "program=%s\npid=%ld\nversion=%s\n", line,
                          (long)getpid(), pto_version());
    read_line("/proc/cpuinfo", "model name", line, sizeof line);
    n += (size_t)snprintf(text + n, ROOM - n, "cpu=%s\ncores=%" PRIu64 "\nworkers=%" PRIu32 "\n",
                          line, ptoi_os_cores(), rt->settings.n_workers);
    n += (size_t)snprintf(text + n, ROOM - n, "scheduler=%s\nlevels=%" PRIu32 "\n",
                          ptoi_place_names[rt->settings.config.place], rt->levels);
    n += (size_t)snprintf(text + n, ROOM - n, "clock=%s\ntrace_limit=%" PRIu64 "\n",
                          ptoi_ticks_by_counter ? "tsc" : "monotonic", c->trace_limit);
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
    calibrate(m);
    make_names(m);
    PTO_TRY(make_meta(m));
    PTO_TRY(make_lanes(m));
    PTO_TRY(make_tasks(m, &afters));
    PTO_TRY(make_events(m));
    PTO_TRY(make_rings(m));
    take_retires(m);
    make_lives(m);
    PTO_TRY(ptoi_edges_find(m->built, m->tasks, &afters, m->rt->settings.config.overlap_budget));
    find_ready(m);
    return PTO_OK;
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
