/* json.c - writes a trace as Chrome trace events, which Perfetto reads too.
 *
 *     thread     a lane                    slices: tasks; submits, waits and sleep
 *                a row beside it           tasks that were pending
 *     slice      a range, in a thread of its own
 *     mark       a task that failed or was skipped
 *     flow       an edge, from the end of one task to the start of the other
 *     counter    a ring of a level
 *
 * Slices of one thread must nest, and flows connect only slices of threads. So tasks that do not
 * nest go to a row beside their lane (rows.h), which the viewer shows as another thread.
 */
#define _POSIX_C_SOURCE 200809L /* strtok_r */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#include "observe/export.h"
#include "observe/rows.h"

/* ---- Strings and numbers ---- */

static void put_letters(FILE *out, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    while (*c) {
        const size_t n = ptoi_utf8_bytes((const char *)c);
        if (n == 0) {
            fputs("\\ufffd", out);
        } else if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c < 0x20) {
            fprintf(out, "\\u%04x", *c);
        } else {
            (void)fwrite(c, 1, n, out);
        }
        c += n ? n : 1;
    }
}

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    put_letters(out, text);
    fputc('"', out);
}

/* Microseconds with all digits. A double would lose some. */
static void put_time(FILE *out, const char *name, uint64_t ns)
{
    fprintf(out, ",\"%s\":%" PRIu64 ".%03" PRIu64, name, ns / 1000, ns % 1000);
}

/* ---- Events ---- */

typedef struct chart {
    const ptoi_ptrace *trace;
    FILE *out;
    const char *comma;
    ptoi_rows rows;
} chart;

/* A lane is thread `lane + 1`. The rows beside lanes come after all lanes. */
static uint64_t thread_of(const chart *c, const ptoi_task_run *r)
{
    return r->row ? c->trace->n_lanes + c->rows.beside[r->lane] + r->row : r->lane + UINT64_C(1);
}

/* The thread that shows ranges comes last. */
static uint64_t ranges_thread(const chart *c)
{
    return c->trace->n_lanes + (uint64_t)c->rows.beside[c->trace->n_lanes] + 1;
}

/* Begins an event. The caller ends it with "}". */
static void begin(chart *c, const char *phase, const char *category, uint64_t thread, uint64_t at)
{
    fprintf(c->out, "%s{\"ph\":\"%s\",\"cat\":\"%s\",\"pid\":1,\"tid\":%" PRIu64, c->comma, phase,
            category, thread);
    put_time(c->out, "ts", at);
    c->comma = ",\n";
}

static void put_name(const chart *c, const char *name)
{
    fputs(",\"name\":", c->out);
    put_string(c->out, name);
}

/* The name of a thread, and its position among the threads. */
static void put_thread(const chart *c, uint32_t lane, uint32_t row)
{
    const char *name = ptoi_ptrace_string(c->trace, c->trace->lanes[lane].name);
    const uint64_t thread = thread_of(c, &(ptoi_task_run){.lane = lane, .row = row});
    const size_t room = strlen(name) + 32;
    char *text = malloc(room);
    if (text && row) {
        snprintf(text, room, "%s, pending %" PRIu32, name, row);
    }
    fprintf(c->out, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu64 ",\"name\":\"thread_name\"",
            thread);
    fputs(",\"args\":{\"name\":", c->out);
    put_string(c->out, text && row ? text : name);
    fprintf(c->out,
            "}},\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu64
            ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRIu64 "}}",
            thread, (uint64_t)lane + c->rows.beside[lane] + row);
    free(text);
}

static void put_threads(chart *c)
{
    fprintf(c->out, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"PTO "
                    "Runtime\"}}");
    c->comma = ",\n";
    for (uint32_t l = 0; l < c->trace->n_lanes; l++) {
        for (uint32_t row = 0; row <= c->rows.beside[l + 1] - c->rows.beside[l]; row++) {
            put_thread(c, l, row);
        }
    }
    if (c->trace->n_ranges) {
        const uint64_t thread = ranges_thread(c);
        fprintf(c->out,
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu64
                ",\"name\":\"thread_name\",\"args\":{\"name\":\"ranges\"}}"
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu64
                ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRIu64 "}}",
                thread, thread, thread);
    }
}

/* Why a task failed: status and words; or because of which task it was skipped. */
static void put_failure(const chart *c, uint32_t task)
{
    const ptrace_failure *f = ptoi_ptrace_failure(c->trace, task);
    if (!f) {
        return;
    }
    if (c->trace->tasks[task].outcome == PTRACE_SKIPPED) {
        if (f->cause != PTRACE_NONE) {
            fprintf(c->out, ",\"cause\":%" PRIu32, f->cause);
        }
        return;
    }
    fputs(",\"status\":", c->out);
    put_string(c->out, ptoi_ptrace_string(c->trace, f->name));
    fputs(",\"error\":", c->out);
    put_string(c->out, ptoi_ptrace_string(c->trace, f->words));
}

/* The devices of its tensors, in order, if one of them is not on the host: "sim:0 cpu:0". */
static void put_devices(const chart *c, const ptrace_task *t)
{
    const ptoi_ptrace *trace = c->trace;
    bool elsewhere = false;
    for (uint32_t i = t->first_arg; trace->n_devices && i < t->first_arg + t->args; i++) {
        elsewhere |= strcmp(ptoi_ptrace_device(trace, i), "cpu:0") != 0;
    }
    const char *before = ",\"devices\":\"";
    for (uint32_t i = t->first_arg; elsewhere && i < t->first_arg + t->args; i++) {
        if ((trace->args[i].access & ~PTRACE_NODEP) != PTO_PARAM_SCALAR) {
            fputs(before, c->out);
            put_letters(c->out, ptoi_ptrace_device(trace, i));
            before = " ";
        }
    }
    fputs(elsewhere ? "\"" : "", c->out);
}

static void put_about(const chart *c, const ptrace_task *t)
{
    fprintf(c->out, ",\"args\":{\"task\":%" PRIu64 ",\"handle\":%" PRIu64 ",\"site\":",
            (uint64_t)(t - c->trace->tasks), t->task);
    const size_t room = strlen(ptoi_ptrace_file(c->trace, t)) + 16;
    char *site = malloc(room);
    if (site) {
        snprintf(site, room, "%s:%" PRId32, ptoi_ptrace_file(c->trace, t),
                 ptoi_ptrace_line(c->trace, t));
    }
    put_string(c->out, site ? site : "");
    free(site);
    const char *label = ptoi_ptrace_label(c->trace, (uint32_t)(t - c->trace->tasks));
    if (*label) {
        fputs(",\"label\":", c->out);
        put_string(c->out, label);
    }
    put_devices(c, t);
    fprintf(c->out, ",\"level\":%u,\"outcome\":\"%s\",\"blocked_ns\":%" PRIu64, t->level,
            ptoi_ptrace_outcomes[t->outcome], t->blocked);
    put_failure(c, (uint32_t)(t - c->trace->tasks));
    const uint64_t waited = ptoi_ptrace_span(t->submitted, t->ready);
    fprintf(c->out, ",\"waited_ns\":%" PRIu64 ",\"queued_ns\":%" PRIu64 "%s}}", waited,
            ptoi_ptrace_span(t->ready, t->start),
            t->flags & PTRACE_INLINE ? ",\"inline\":true" : "");
}

/* ---- Tasks, lane by lane ---- */

static void put_tasks(chart *c)
{
    for (const ptoi_task_run *r = c->rows.runs; r < c->rows.runs + c->rows.n_runs; r++) {
        const ptrace_task *t = &c->trace->tasks[r->task];
        begin(c, "X", "task", thread_of(c, r), r->start);
        put_name(c, ptoi_ptrace_kernel(c->trace, t));
        put_time(c->out, "dur", r->end - r->start);
        if (t->outcome == PTRACE_FAILED) {
            fputs(",\"cname\":\"terrible\"", c->out); /* a red of the viewer */
        }
        put_about(c, t);
    }
}

/* A mark for each failed and each skipped task. A skipped task has no slice: its mark is in the
 * first lane, at the time of its end. */
static void put_marks(chart *c)
{
    for (uint64_t i = 0; i < c->trace->n_failures; i++) {
        const uint32_t task = c->trace->failures[i].task;
        const ptrace_task *t = &c->trace->tasks[task];
        const uint32_t run = c->rows.run_of[task];
        if (t->end == PTRACE_UNKNOWN) {
            continue;
        }
        begin(c, "i", "failure", run == PTRACE_NONE ? 1 : thread_of(c, &c->rows.runs[run]), t->end);
        put_name(c, t->outcome == PTRACE_SKIPPED  ? "skipped"
                    : t->outcome == PTRACE_FAILED ? "failed"
                                                  : "memory overwritten");
        fputs(",\"s\":\"t\"", c->out);
        put_about(c, t);
    }
}

/* The thread that submitted a task: of several ranks each has one. merge.c names lanes and numbers tasks by
 * rank. */
static uint64_t submitter_of(const chart *c, const ptrace_task *t, bool ranks)
{
    char name[32];
    snprintf(name, sizeof name, "rank %u ", (unsigned)(t->task >> 48));
    for (uint32_t l = 0; ranks && l < c->trace->n_lanes; l++) {
        const ptrace_lane *lane = &c->trace->lanes[l];
        if (lane->kind == PTRACE_LANE_ORCHESTRATOR &&
            !strncmp(ptoi_ptrace_string(c->trace, lane->name), name, strlen(name))) {
            return l + UINT64_C(1);
        }
    }
    return 1;
}

static void put_submits(chart *c)
{
    uint32_t orchestrators = 0;
    for (uint32_t l = 0; l < c->trace->n_lanes; l++) {
        orchestrators += c->trace->lanes[l].kind == PTRACE_LANE_ORCHESTRATOR;
    }
    for (uint64_t i = 0; i < c->trace->n_tasks; i++) {
        const ptrace_task *t = &c->trace->tasks[i];
        begin(c, "X", "submit", submitter_of(c, t, orchestrators > 1), t->called);
        put_name(c, "submit");
        put_time(c->out, "dur", ptoi_ptrace_span(t->called, t->submitted));
        put_about(c, t);
    }
}

/* Ranges nest, and have a thread of their own. One that is open ends with the last event. */
static void put_ranges(chart *c)
{
    const ptoi_ptrace *trace = c->trace;
    uint64_t last = 0;
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        const uint64_t end = trace->tasks[i].end;
        last = trace->tasks[i].submitted > last ? trace->tasks[i].submitted : last;
        last = end != PTRACE_UNKNOWN && end > last ? end : last;
    }
    for (uint64_t i = 0; i < trace->n_ranges; i++) {
        last = trace->ranges[i].begin > last ? trace->ranges[i].begin : last;
        const uint64_t end = trace->ranges[i].end;
        last = end != PTRACE_UNKNOWN && end > last ? end : last;
    }
    for (uint64_t i = 0; i < trace->n_ranges; i++) {
        const ptrace_range *r = &trace->ranges[i];
        begin(c, "X", "range", ranges_thread(c), r->begin);
        put_name(c, ptoi_ptrace_string(trace, r->name));
        put_time(c->out, "dur", (r->end == PTRACE_UNKNOWN ? last : r->end) - r->begin);
        fprintf(c->out, ",\"args\":{\"first_task\":%" PRIu32 ",\"tasks\":%" PRIu32 "}}",
                r->first_task, r->tasks);
    }
}

static void put_flows(chart *c)
{
    const ptoi_ptrace *trace = c->trace;
    for (uint64_t i = 0; i < trace->n_edges; i++) {
        const ptrace_edge *e = &trace->edges[i];
        const uint32_t from = e->from == PTRACE_NONE ? PTRACE_NONE : c->rows.run_of[e->from];
        if (from == PTRACE_NONE || c->rows.run_of[e->to] == PTRACE_NONE) {
            continue;
        }
        /* A flow binds to the slice that encloses its time. The end of a slice is outside of it. */
        const ptoi_task_run *a = &c->rows.runs[from], *b = &c->rows.runs[c->rows.run_of[e->to]];
        const char *kind = ptoi_ptrace_edges[e->kind];
        const uint64_t before_a = a->end - (a->end > a->start),
                       before_b = b->end - (b->end > b->start);
        const bool message = e->kind == PTRACE_MESSAGE;
        begin(c, "s", kind, thread_of(c, a), message ? a->start : before_a);
        fprintf(c->out, ",\"name\":\"%s\",\"id\":%" PRIu64 "}", kind, i);
        begin(c, "f", kind, thread_of(c, b), message ? before_b : b->start);
        fprintf(c->out, ",\"bp\":\"e\",\"name\":\"%s\",\"id\":%" PRIu64 "}", kind, i);
    }
}

#define RING_TEXT(NAME, name, key, trace, ...) trace,
static const char *const rings[] = {PTO_LEVEL_RING_MAP(RING_TEXT)};
#undef RING_TEXT

static void put_events(chart *c)
{
#define EVENT_TEXT(name, number, text, words) [PTRACE_##name] = text,
    static const char *const texts[] = {PTRACE_EVENT_MAP(EVENT_TEXT)};
#undef EVENT_TEXT
    for (uint64_t i = 0; i < c->trace->n_events; i++) {
        const ptrace_event *e = &c->trace->events[i];
        const uint32_t ring = ptrace_room_ring(e->kind);
        char room[32] = "";
        if (ring < PTO_RINGS) {
            snprintf(room, sizeof room, "wait for room: %s", rings[ring]);
        }
        begin(c, "X", *room ? "room" : "wait", e->lane + UINT64_C(1), e->begin);
        put_name(c, *room ? room : texts[e->kind]);
        put_time(c->out, "dur", ptoi_ptrace_span(e->begin, e->end));
        fprintf(c->out, ",\"args\":{\"level\":%u,\"value\":%" PRIu64 "}}", e->level, e->value);
    }
}

static void put_counters(chart *c)
{
    for (uint64_t i = 0; i < c->trace->n_rings; i++) {
        const ptrace_ring_sample *s = &c->trace->rings[i];
        begin(c, "C", "ring", 1, s->at);
        fprintf(c->out, ",\"name\":\"level %" PRIu32 " %s\",\"args\":{\"used\":%" PRIu64 "}}",
                s->level, rings[s->ring], s->used);
    }
}

/* The lines of META, and the number of lost records. */
static void put_meta(const chart *c)
{
    const ptoi_ptrace *trace = c->trace;
    char *meta = malloc(trace->n_meta + 1), *rest;
    if (meta && trace->n_meta) {
        memcpy(meta, trace->meta, trace->n_meta);
    }
    if (meta) {
        meta[trace->n_meta] = '\0';
        for (char *line = strtok_r(meta, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            char *equals = strchr(line, '=');
            if (equals) {
                *equals = '\0';
                put_string(c->out, line);
                fputc(':', c->out);
                put_string(c->out, equals + 1);
                fputs(",\n", c->out);
            }
        }
    }
    free(meta);
    fprintf(c->out, "\"origin_ns\":\"%" PRIu64 "\",\"lost\":\"%" PRIu64 "\"", trace->origin_ns,
            trace->lost);
}

int ptoi_export_json(const ptoi_ptrace *trace, FILE *out)
{
    chart c = {.trace = trace, .out = out, .comma = ""};
    const bool good = ptoi_rows_find(trace, &c.rows);
    if (good) {
        fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
        put_threads(&c);
        put_submits(&c);
        put_events(&c);
        put_tasks(&c);
        put_marks(&c);
        put_ranges(&c);
        put_flows(&c);
        put_counters(&c);
        fputs("\n],\"otherData\":{", out);
        put_meta(&c);
        fputs("}}\n", out);
    }
    ptoi_rows_free(&c.rows);
    return good ? 0 : ENOMEM;
}
