/* trace_build.c - builds one trace from the logs of a runtime.
 * trace_build.h names the other files that take part. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/option.h"
#include "base/os.h"
#include "orchestrator/device.h"
#include "orchestrator/rings.h"
#include "orchestrator/trace_build.h"

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

pto_status ptoi_trace_no_memory(const char *what, uint64_t count)
{
    return ptoi_fail(PTO_OUT_OF_MEMORY, "trace: no memory for %" PRIu64 " %s", count, what);
}

/* ---- Time ---- */

static void calibrate(ptoi_trace_maker *m)
{
    const uint64_t ticks = ptoi_ticks() - m->log->begin_ticks;
    const uint64_t ns = ptoi_clock_ns(CLOCK_MONOTONIC) - m->log->begin_ns;
    m->ns_per_tick = ptoi_ticks_by_counter && ticks ? (double)ns / (double)ticks : 1.0;
}

/* ---- Strings ---- */

static void count_records(ptoi_trace_maker *m)
{
    for (uint32_t l = 0; l < m->log->n_ran; l++) {
        const ptoi_log *log = &m->log->ran[l];
        for (const ptoi_ran *ran = ptoi_trace_first_ran(log); ran < ptoi_trace_end_ran(log);
             ran = ptoi_ran_next(ran)) {
            m->count.parks += ran->kind == PTOI_RAN_PARKED;
            m->count.failures += ran->kind == PTOI_RAN_FAILED;
            m->count.text += ran->kind == PTOI_RAN_FAILED ? ran->took + PTOI_STATUS_WORDS : 0;
        }
    }
}

static const ptoi_traced_text *first_text(const ptoi_trace_maker *m)
{
    return (const ptoi_traced_text *)(const void *)m->log->texts.memory;
}

static const ptoi_traced_text *end_text(const ptoi_trace_maker *m)
{
    return (const ptoi_traced_text *)(const void *)(m->log->texts.memory + m->log->texts.used);
}

static void count_texts(ptoi_trace_maker *m)
{
    for (const ptoi_traced_text *t = first_text(m); t < end_text(m); t = ptoi_traced_text_next(t)) {
        m->count.labels += t->kind == PTOI_TRACED_LABEL;
        m->count.ranges += t->kind == PTOI_TRACED_BEGIN;
        m->count.text += t->bytes;
    }
}

/* Takes the strings of the window, and reserves room for all that are added. */
static pto_status make_strings(ptoi_trace_maker *m)
{
    enum { LANE_NAME = 32 };
    const pto_runtime *rt = m->rt;
    const uint64_t room = rt->string_bytes + m->count.text +
                          (uint64_t)LANE_NAME * (m->log->n_ran + 1 + rt->n_devices);
    char *at = room < UINT32_MAX ? ptoi_built_memory(m->built, room) : NULL;
    if (!at) {
        return ptoi_trace_no_memory("bytes of names", room);
    }
    memcpy(at, rt->view.strings, rt->string_bytes);
    m->texts = (ptoi_trace_texts){at, rt->string_bytes, (uint32_t)room};
    return PTO_OK;
}

uint32_t ptoi_trace_add_text(ptoi_trace_texts *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const uint32_t at = t->used;
    const int n = vsnprintf(t->at + at, t->room - at, format, args);
    va_end(args);
    t->used += n > 0 && (uint32_t)n < t->room - at ? (uint32_t)n + 1 : 0;
    return t->used == at ? 0 : at;
}

/* ---- Rings ---- */

/* Takes the samples of the rings, where a value has changed. */
static pto_status make_rings(ptoi_trace_maker *m)
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
        return ptoi_trace_no_memory("samples of rings", room);
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
                rings[n++] = (ptrace_ring_sample){ptoi_trace_time_ns(m, s->at), s->used[r],
                                                  s->level, r};
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
static void make_lives(ptoi_trace_maker *m)
{
    ptrace_life *lives = (ptrace_life *)(void *)m->log->lives.memory;
    const uint64_t n = m->log->lives.used / sizeof *lives;
    for (uint64_t i = 0; i < n; i++) {
        lives[i].at = ptoi_trace_time_ns(m, lives[i].at);
    }
    m->built->trace.lives = lives;
    m->built->trace.n_lives = n;
}

/* ---- Notes about ranks ---- */

static pto_status make_notes(ptoi_trace_maker *m)
{
    const ptoi_traced_note *from = (const void *)m->log->notes.memory;
    const uint64_t n = m->log->notes.used / sizeof *from;
    ptrace_note *notes = n ? ptoi_built_memory(m->built, n * sizeof *notes) : NULL;
    if (n && !notes) {
        return ptoi_trace_no_memory("notes", n);
    }
    for (uint64_t i = 0; i < n; i++, from++) {
        const pto_note *note = &from->note;
        const bool ends = note->kind == PTO_NOTE_SEND || note->kind == PTO_NOTE_RECEIVE;
        notes[i] = (ptrace_note){.number = note->number,
                                 .at = ptoi_trace_time_ns(m, note->ticks),
                                 .error = ptoi_trace_span_ns(m, note->error),
                                 .task = ends ? ptoi_trace_index_of_task(m, note->task)
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

static void take_text(ptoi_trace_maker *m, const ptoi_traced_text *t, namer *n)
{
    const char *text = (const char *)(t + 1);
    if (t->kind == PTOI_TRACED_LABEL) {
        const uint32_t task = ptoi_trace_index_of_task(m, t->at);
        if (task != PTRACE_NONE) { /* else the task was lost, and counted */
            n->labels[n->n_labels++] = (ptrace_label){task,
                                                      ptoi_trace_add_text(&m->texts, "%s", text)};
        }
    } else if (t->kind == PTOI_TRACED_BEGIN) {
        n->ranges[n->n_ranges] = (ptrace_range){ptoi_trace_time_ns(m, t->at),
                                                PTRACE_UNKNOWN,
                                                ptoi_trace_add_text(&m->texts, "%s", text),
                                                n->open,
                                                t->n_tasks,
                                                m->n_tasks - t->n_tasks};
        n->open = (uint32_t)n->n_ranges++;
    } else if (n->open != PTRACE_NONE) { /* else its begin was lost */
        ptrace_range *range = &n->ranges[n->open];
        range->end = ptoi_trace_time_ns(m, t->at);
        range->tasks = t->n_tasks - range->first_task;
        n->open = range->parent;
    }
}

/* The numbers of devices become their names. */
static void make_devices(ptoi_trace_maker *m)
{
    uint32_t names[PTOI_DEVICES] = {0};
    for (uint32_t d = 1; m->n_devices && d < m->rt->n_devices; d++) {
        names[d] = ptoi_trace_add_text(&m->texts, "%s",
                                       ptoi_device_words(ptoi_device_at(m->rt, d)).s);
    }
    for (uint64_t i = 0; i < m->n_devices; i++) {
        m->devices[i].name = names[m->devices[i].name % PTOI_DEVICES];
    }
    m->built->trace.devices = m->devices;
    m->built->trace.n_devices = m->n_devices;
}

static pto_status make_names_of_tasks(ptoi_trace_maker *m)
{
    namer n = {.open = PTRACE_NONE};
    if (m->count.labels + m->count.ranges == 0) {
        return PTO_OK;
    }
    n.labels = ptoi_built_memory(m->built, m->count.labels * sizeof *n.labels);
    n.ranges = ptoi_built_memory(m->built, m->count.ranges * sizeof *n.ranges);
    if (!n.labels || !n.ranges) {
        return ptoi_trace_no_memory("labels and ranges", m->count.labels + m->count.ranges);
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

static pto_status make_meta(ptoi_trace_maker *m)
{
    const pto_runtime *rt = m->rt;
    const pto_config *c = &rt->settings.config;
    enum { ROOM = 4096 };
    char *text = ptoi_built_memory(m->built, ROOM), line[256];
    if (!text) {
        return ptoi_trace_no_memory("bytes about the machine", ROOM);
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
static void make_names(ptoi_trace_maker *m)
{
    _Static_assert(sizeof(ptoi_kernel_entry) == sizeof(ptrace_kernel) &&
                       sizeof(ptoi_site) == sizeof(ptrace_site),
                   "window and file have the same layout");
    m->built->trace.kernels = (const ptrace_kernel *)(const void *)m->rt->view.kernels;
    m->built->trace.n_kernels = m->rt->n_kernels;
    m->built->trace.sites = (const ptrace_site *)(const void *)m->rt->view.sites;
    m->built->trace.n_sites = m->rt->n_sites;
}

static pto_status make(ptoi_trace_maker *m)
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
    PTO_TRY(ptoi_trace_make_lanes(m));
    PTO_TRY(ptoi_trace_make_tasks(m, &afters));
    PTO_TRY(ptoi_trace_make_events(m));
    PTO_TRY(make_rings(m));
    ptoi_trace_move_grid(m);
    ptoi_trace_take_retires(m);
    make_lives(m);
    PTO_TRY(ptoi_edges_find(m->built, m->tasks, &afters, m->rt->settings.config.overlap_budget));
    ptoi_trace_find_ready(m);
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
    ptoi_trace_maker m = {.rt = rt, .log = rt->trace, .built = built};
    const pto_status status = make(&m);
    if (status != PTO_OK) {
        ptoi_built_free(built);
    }
    return status;
}
