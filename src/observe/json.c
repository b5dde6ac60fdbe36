/* json.c - a trace as Chrome trace events, which Perfetto reads too.
 *
 *     thread     a lane                    slices: tasks; submits, stalls, waits and sleep
 *     flow       an edge, from the end of one task to the start of the other
 *     counter    a ring of a level
 *
 * Slices of one thread must nest. Everything that a thread does does, but for tasks whose kernel
 * returned PTO_PENDING: they go on while the thread runs others. Where a task overlaps one that began
 * before it on its lane, both ends are written as events of their own ("async").
 */
#define _POSIX_C_SOURCE 200809L /* strtok_r */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "observe/export.h"

/* ---- Signs ---- */

/* Bytes of the sign of UTF-8 that begins here; 0 if none does. */
static size_t sign_bytes(const unsigned char *c)
{
    size_t n = c[0] < 0x80 ? 1 : c[0] >> 5 == 6 ? 2 : c[0] >> 4 == 14 ? 3 : c[0] >> 3 == 30 ? 4 : 0;
    uint32_t code = n == 1 ? c[0] : c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (c[i] >> 6 != 2) { /* a NUL, too */
            return 0;
        }
        code = code << 6 | (c[i] & 63u);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    return code < least[n] || code > 0x10ffff || code >> 11 == 27 ? 0 : n;
}

static void put_string(FILE *out, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    fputc('"', out);
    while (*c) {
        const size_t n = sign_bytes(c);
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
    fputc('"', out);
}

/* Microseconds with all digits: a double would lose some. */
static void put_time(FILE *out, const char *name, uint64_t ns)
{
    fprintf(out, ",\"%s\":%" PRIu64 ".%03" PRIu64, name, ns / 1000, ns % 1000);
}

/* ---- Events ---- */

typedef struct chart {
    const ptoi_ptrace *trace;
    FILE *out;
    const char *comma;
} chart;

/* Opens an event; the caller ends it with "}". */
static void begin(chart *c, const char *phase, const char *category, uint64_t lane, uint64_t at)
{
    fprintf(c->out, "%s{\"ph\":\"%s\",\"cat\":\"%s\",\"pid\":1,\"tid\":%" PRIu64, c->comma, phase,
            category, lane + 1);
    put_time(c->out, "ts", at);
    c->comma = ",\n";
}

static void put_name(const chart *c, const char *name)
{
    fputs(",\"name\":", c->out);
    put_string(c->out, name);
}

static void put_threads(chart *c)
{
    fprintf(c->out, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"PTO "
                    "Runtime\"}}");
    c->comma = ",\n";
    for (uint64_t i = 0; i < c->trace->n_lanes; i++) {
        fprintf(c->out, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu64 ",\"name\":\"thread_name\"",
                i + 1);
        fputs(",\"args\":{\"name\":", c->out);
        put_string(c->out, ptoi_ptrace_string(c->trace, c->trace->lanes[i].name));
        fprintf(c->out,
                "}},\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu64
                ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRIu64 "}}",
                i + 1, i);
    }
}

static void put_about(const chart *c, const ptrace_task *t)
{
    static const char *const outcomes[] = {"done", "failed", "skipped", "not ended"};
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
    fprintf(c->out, ",\"level\":%u,\"outcome\":\"%s\",\"blocked_ns\":%" PRIu64, t->level,
            outcomes[t->outcome], t->blocked);
    const uint64_t waited = ptoi_ptrace_span(t->submitted, t->ready);
    fprintf(c->out, ",\"waited_ns\":%" PRIu64 ",\"queued_ns\":%" PRIu64 "}}", waited,
            ptoi_ptrace_span(t->ready, t->start));
}

/* ---- Tasks, lane by lane ---- */

typedef struct run {
    uint64_t start;
    uint32_t lane, task;
} run;

static int by_lane_and_start(const void *a, const void *b)
{
    const run *x = a, *y = b;
    if (x->lane != y->lane) {
        return x->lane < y->lane ? -1 : 1;
    }
    return x->start != y->start ? (x->start < y->start ? -1 : 1)
                                : (x->task > y->task) - (x->task < y->task);
}

static void put_task(chart *c, const ptrace_task *t, bool overlaps)
{
    const uint64_t length = ptoi_ptrace_ran(t);
    const char *kernel = ptoi_ptrace_kernel(c->trace, t);
    begin(c, overlaps ? "b" : "X", "task", t->lane, t->start);
    put_name(c, kernel);
    if (overlaps) {
        fprintf(c->out, ",\"id\":%" PRIu64, (uint64_t)(t - c->trace->tasks));
    } else {
        put_time(c->out, "dur", length);
    }
    put_about(c, t);
    if (overlaps) {
        begin(c, "e", "task", t->lane, t->start + length);
        put_name(c, kernel);
        fprintf(c->out, ",\"id\":%" PRIu64 "}", (uint64_t)(t - c->trace->tasks));
    }
}

static void put_tasks(chart *c)
{
    const ptoi_ptrace *trace = c->trace;
    run *runs = malloc((trace->n_tasks + 1) * sizeof *runs);
    uint64_t n = 0, until = 0;
    if (!runs) {
        return;
    }
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        const ptrace_task *t = &trace->tasks[i];
        if (t->lane != PTRACE_NONE && t->start != PTRACE_UNKNOWN) {
            runs[n++] = (run){t->start, t->lane, (uint32_t)i};
        }
    }
    qsort(runs, n, sizeof *runs, by_lane_and_start);
    for (uint64_t i = 0; i < n; i++) {
        const ptrace_task *t = &trace->tasks[runs[i].task];
        if (i == 0 || runs[i - 1].lane != runs[i].lane) {
            until = 0;
        }
        put_task(c, t, t->start < until);
        const uint64_t end = t->start + ptoi_ptrace_ran(t);
        until = end > until ? end : until;
    }
    free(runs);
}

static void put_submits(chart *c)
{
    for (uint64_t i = 0; i < c->trace->n_tasks; i++) {
        const ptrace_task *t = &c->trace->tasks[i];
        begin(c, "X", "submit", 0, t->called);
        put_name(c, "submit");
        put_time(c->out, "dur", ptoi_ptrace_span(t->called, t->submitted));
        put_about(c, t);
    }
}

static void put_flows(chart *c)
{
    static const char *const kinds[] = {
#define KIND_TEXT(name, text) text,
        PTRACE_EDGE_MAP(KIND_TEXT)
#undef KIND_TEXT
    };
    const ptoi_ptrace *trace = c->trace;
    for (uint64_t i = 0; i < trace->n_edges; i++) {
        const ptrace_edge *e = &trace->edges[i];
        const ptrace_task *to = &trace->tasks[e->to], *from;
        if (e->from == PTRACE_NONE) {
            continue;
        }
        from = &trace->tasks[e->from];
        if (from->lane == PTRACE_NONE || to->lane == PTRACE_NONE || from->start == PTRACE_UNKNOWN ||
            to->start == PTRACE_UNKNOWN) {
            continue;
        }
        /* It binds to the slice that encloses it, whose end is outside. */
        const uint64_t length = ptoi_ptrace_ran(from);
        begin(c, "s", kinds[e->kind], from->lane, from->start + length - (length > 0));
        fprintf(c->out, ",\"name\":\"%s\",\"id\":%" PRIu64 "}", kinds[e->kind], i);
        begin(c, "f", kinds[e->kind], to->lane, to->start);
        fprintf(c->out, ",\"bp\":\"e\",\"name\":\"%s\",\"id\":%" PRIu64 "}", kinds[e->kind], i);
    }
}

static void put_events(chart *c)
{
    static const char *const names[] = {
#define STALL_TEXT(name, text) "stall: " text,
        PTRACE_RING_MAP(STALL_TEXT)
#undef STALL_TEXT
            [PTRACE_WAIT] = "wait",
        [PTRACE_PARKED] = "asleep"};
    for (uint64_t i = 0; i < c->trace->n_events; i++) {
        const ptrace_event *e = &c->trace->events[i];
        begin(c, "X", e->kind < PTRACE_WAIT ? "stall" : "wait", e->lane, e->begin);
        put_name(c, names[e->kind]);
        put_time(c->out, "dur", ptoi_ptrace_span(e->begin, e->end));
        fprintf(c->out, ",\"args\":{\"level\":%u,\"value\":%" PRIu64 "}}", e->level, e->value);
    }
}

static void put_counters(chart *c)
{
    static const char *const rings[] = {
#define RING_TEXT(name, text) text,
        PTRACE_RING_MAP(RING_TEXT)
#undef RING_TEXT
    };
    for (uint64_t i = 0; i < c->trace->n_rings; i++) {
        const ptrace_ring_sample *s = &c->trace->rings[i];
        begin(c, "C", "ring", 0, s->at);
        fprintf(c->out, ",\"name\":\"level %" PRIu32 " %s\",\"args\":{\"used\":%" PRIu64 "}}",
                s->level, rings[s->ring], s->used);
    }
}

/* The lines of META, and what was lost. */
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

void ptoi_export_json(const ptoi_ptrace *trace, FILE *out)
{
    chart c = {trace, out, ""};
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
    put_threads(&c);
    put_submits(&c);
    put_events(&c);
    put_tasks(&c);
    put_flows(&c);
    put_counters(&c);
    fputs("\n],\"otherData\":{", out);
    put_meta(&c);
    fputs("}}\n", out);
}
