/* merge.c - one trace of all ranks of a program, from a trace of each. Needs no runtime.
 *
 *     rank 0   tasks 0 1 2 3 ...   ─┐  clocks: questions of rank 0 and answers of the others (NOTES)
 *     rank 1   tasks 0 1 2 ...     ─┼─ order: by step, a send before its receive
 *     rank 2   tasks 0 1 ...       ─┘  edges: those of each rank, and one for each message
 *
 * Steps rise on every rank and are the same on all, so the order is that of the program. A part of a step
 * on one rank may wait for a message of the same step. There is always a task that may come next: ranks that
 * ran to their end have an order in which every message was sent before it was received.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/embed.h>
#include <pto/trace.h>

#include "base/error.h"
#include "observe/device_clock.h"
#include "observe/export.h"
#include "observe/log.h"

/* All times are moved up by this, so that none is below zero before the first one is known. */
#define FAR UINT64_C(1000000000000000000)

typedef struct part {
    ptoi_ptrace trace;
    const char *name;
    uint32_t rank, ranks;
    ptoi_device_clock *clock; /* its time by that of the first part; NULL: it is the first */
    uint64_t error;           /* of its times; PTRACE_UNKNOWN: wall clocks were all there was */
    int64_t apart;            /* then: what to add */
    uint64_t *step;           /* of each task */
    uint32_t *index;          /* of each task: in the merged trace; PTRACE_NONE: not placed yet */
    uint64_t *send;           /* of each task: 1 + the number of its message in `sends`; 0: none */
    uint32_t placed;          /* tasks, in order */
    uint32_t *kernel, *site;  /* of each one: in the merged trace */
    uint32_t strings, dims, lanes; /* where its items begin in the merged trace */
} part;

/* The sending end of a message. */
typedef struct sent {
    uint64_t number;
    uint32_t from, to; /* ranks */
    uint32_t part, task;
} sent;

typedef struct merger {
    part *parts;
    uint32_t n_parts;
    sent *sends;
    size_t n_sends;
    uint64_t n_messages;
    ptrace_task *tasks;
    ptrace_edge *edges;
    ptrace_arg *args;
    char *strings;
    uint64_t n_strings;
    uint64_t zero; /* time 0 of the merged trace */
    void *pieces[32];
    uint32_t n_pieces;
    ptoi_ptrace out;
} merger;

static void *take(merger *m, uint64_t count, size_t bytes)
{
    void *memory = m->n_pieces < sizeof m->pieces / sizeof *m->pieces ? calloc(count + 1, bytes)
                                                                      : NULL;
    if (memory) {
        m->pieces[m->n_pieces++] = memory;
    }
    return memory;
}

static pto_status no_memory(void)
{
    return ptoi_fail(PTO_OUT_OF_MEMORY, "trace: no memory to merge");
}

/* ---- The parts ---- */

static pto_status open_part(part *p, const pto_trace_part *given)
{
    const uint64_t none = 0;
    p->name = given->name ? given->name : "a trace";
    PTO_TRY(given->bytes ? ptoi_ptrace_parse(p->name, given->bytes, given->n_bytes, &p->trace)
                         : ptoi_ptrace_open(p->name, &p->trace));
    for (uint64_t i = 0; i < p->trace.n_notes; i++) {
        const ptrace_note *note = &p->trace.notes[i];
        if (note->kind == PTO_NOTE_RANK) {
            p->rank = note->peer;
            p->ranks = (uint32_t)note->number;
        }
    }
    if (!p->ranks) {
        return ptoi_fail(PTO_BAD_PARAM, "trace: %s is not the trace of a rank", p->name);
    }
    const uint64_t n = p->trace.n_tasks;
    p->step = calloc(n + 1, sizeof *p->step);
    p->index = malloc((n + 1) * sizeof *p->index);
    p->send = calloc(n + 1, sizeof *p->send);
    p->kernel = calloc(p->trace.n_kernels + 1, sizeof *p->kernel);
    p->site = calloc(p->trace.n_sites + 1, sizeof *p->site);
    if (!p->step || !p->index || !p->send || !p->kernel || !p->site) {
        return no_memory();
    }
    memset(p->index, 0xff, (n + 1) * sizeof *p->index);
    uint64_t task = 0, step = none;
    for (uint64_t i = 0; i < p->trace.n_notes; i++) {
        const ptrace_note *note = &p->trace.notes[i];
        if (note->kind == PTO_NOTE_STEP) {
            for (; task < note->task && task < n; task++) {
                p->step[task] = step;
            }
            step = note->number > step ? note->number : step;
        }
    }
    for (; task < n; task++) {
        p->step[task] = step;
    }
    return PTO_OK;
}

static void close_part(part *p)
{
    free(p->clock);
    free(p->step);
    free(p->index);
    free(p->send);
    free(p->kernel);
    free(p->site);
    ptoi_ptrace_close(&p->trace);
}

static int by_rank(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static pto_status open_parts(merger *m, const pto_trace_part *given)
{
    for (uint32_t i = 0; i < m->n_parts; i++) {
        PTO_TRY(open_part(&m->parts[i], &given[i]));
    }
    qsort(m->parts, m->n_parts, sizeof *m->parts, by_rank);
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const part *p = &m->parts[i];
        if (i && p->rank == p[-1].rank) {
            return ptoi_fail(PTO_BAD_PARAM, "trace: %s and %s are both of rank %" PRIu32,
                             p[-1].name, p->name, p->rank);
        }
        if (p->ranks != m->parts[0].ranks) {
            return ptoi_fail(PTO_BAD_PARAM,
                             "trace: %s is of a program on %" PRIu32
                             " ranks, %s of one on %" PRIu32,
                             m->parts[0].name, m->parts[0].ranks, p->name, p->ranks);
        }
    }
    return PTO_OK;
}

/* ---- Clocks ---- */

/* The answer of a rank to a question of the first one. */
static const ptrace_note *answer_to(const part *p, const ptrace_note *asked, uint32_t first)
{
    for (uint64_t i = 0; i < p->trace.n_notes; i++) {
        const ptrace_note *note = &p->trace.notes[i];
        if (note->kind == PTO_NOTE_ANSWERED && note->peer == first &&
            note->number == asked->number) {
            return note;
        }
    }
    return NULL;
}

static pto_status compare_clocks(merger *m)
{
    const part *first = &m->parts[0];
    for (part *p = m->parts + 1; p < m->parts + m->n_parts; p++) {
        p->clock = calloc(1, sizeof *p->clock);
        if (!p->clock) {
            return no_memory();
        }
        for (uint64_t i = 0; i < first->trace.n_notes; i++) {
            const ptrace_note *asked = &first->trace.notes[i];
            const ptrace_note *answer = asked->kind == PTO_NOTE_ASKED && asked->peer == p->rank
                                            ? answer_to(p, asked, first->rank)
                                            : NULL;
            if (answer) {
                const uint64_t at = FAR + asked->at;
                ptoi_device_clock_add(p->clock, at - asked->error, answer->at, at + asked->error);
            }
        }
        if (p->clock->n) {
            ptoi_device_clock_settle(p->clock);
            p->error = p->clock->error + PTOI_TICKS_BLUR_NS;
        } else {
            p->error = PTRACE_UNKNOWN;
            p->apart = (int64_t)(p->trace.origin_ns - first->trace.origin_ns);
        }
    }
    return PTO_OK;
}

/* Time of a part as that of the first one, above FAR. */
static uint64_t common(const part *p, uint64_t at)
{
    return !p->clock                    ? FAR + at
           : p->error == PTRACE_UNKNOWN ? (uint64_t)((int64_t)(FAR + at) + p->apart)
                                        : ptoi_device_clock_host(p->clock, at);
}

static uint64_t moved(const merger *m, const part *p, uint64_t at)
{
    if (at == PTRACE_UNKNOWN) {
        return at;
    }
    const uint64_t t = common(p, at);
    return t > m->zero ? t - m->zero : 0;
}

/* ---- Messages ---- */

static int compare_sends(const void *a, const void *b)
{
    const sent *x = a, *y = b;
    if (x->number != y->number) {
        return x->number < y->number ? -1 : 1;
    }
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Finds the send of each receive, by ranks and number. */
static pto_status match_messages(merger *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        n += m->parts[i].trace.n_notes;
    }
    m->sends = take(m, n, sizeof *m->sends);
    if (!m->sends) {
        return no_memory();
    }
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const part *p = &m->parts[i];
        for (uint64_t k = 0; k < p->trace.n_notes; k++) {
            const ptrace_note *note = &p->trace.notes[k];
            if (note->kind == PTO_NOTE_SEND && note->task != PTRACE_NONE) {
                m->sends[m->n_sends++] = (sent){note->number, p->rank, note->peer, i, note->task};
            }
        }
    }
    qsort(m->sends, m->n_sends, sizeof *m->sends, compare_sends);
    for (uint32_t i = 0; i < m->n_parts; i++) {
        part *p = &m->parts[i];
        for (uint64_t k = 0; k < p->trace.n_notes; k++) {
            const ptrace_note *note = &p->trace.notes[k];
            if (note->kind != PTO_NOTE_RECEIVE || note->task == PTRACE_NONE) {
                continue;
            }
            const sent key = {.number = note->number, .from = note->peer, .to = p->rank};
            const sent *s = bsearch(&key, m->sends, m->n_sends, sizeof key, compare_sends);
            p->send[note->task] = s ? (uint64_t)(s - m->sends) + 1 : 0;
        }
    }
    return PTO_OK;
}

static const sent *send_of(const merger *m, const part *p, uint32_t task)
{
    return p->send[task] ? &m->sends[p->send[task] - 1] : NULL;
}

/* ---- Order ---- */

/* The part whose next task comes next. If none may, which only damaged files can cause, that of the lowest
 * step: its message is left out. */
static part *next_part(const merger *m)
{
    part *best = NULL;
    bool best_waits = false;
    for (part *p = m->parts; p < m->parts + m->n_parts; p++) {
        if (p->placed == p->trace.n_tasks) {
            continue;
        }
        const sent *s = send_of(m, p, p->placed);
        const bool waits = s && s->task >= m->parts[s->part].placed;
        if (!best || waits < best_waits ||
            (waits == best_waits && p->step[p->placed] < best->step[best->placed])) {
            best = p;
            best_waits = waits;
        }
    }
    return best;
}

/* ---- Tasks, edges, arguments ---- */

static uint32_t arg_moved(const merger *m, const part *p, uint32_t task, uint32_t arg)
{
    return arg == PTRACE_NONE
               ? PTRACE_NONE
               : arg - p->trace.tasks[task].first_arg + m->tasks[p->index[task]].first_arg;
}

static void add_edges(merger *m, const part *p, uint32_t task)
{
    const ptrace_task *old = &p->trace.tasks[task];
    ptrace_task *t = &m->tasks[p->index[task]];
    t->first_edge = (uint32_t)m->out.n_edges;
    for (uint32_t e = old->first_edge; e < old->first_edge + old->edges; e++) {
        const ptrace_edge *edge = &p->trace.edges[e];
        ptrace_edge copy = *edge;
        copy.to = p->index[task];
        copy.arg_to = arg_moved(m, p, task, edge->arg_to);
        if (edge->from != PTRACE_NONE) {
            copy.from = p->index[edge->from];
            copy.arg_from = arg_moved(m, p, edge->from, edge->arg_from);
        }
        m->edges[m->out.n_edges++] = copy;
    }
    const sent *s = send_of(m, p, task);
    const part *other = s ? &m->parts[s->part] : NULL;
    if (s && other->index[s->task] != PTRACE_NONE) {
        const uint32_t from = other->index[s->task];
        const bool args = old->args && other->trace.tasks[s->task].args;
        m->edges[m->out.n_edges++] = (ptrace_edge){.from = from,
                                                   .to = p->index[task],
                                                   .kind = PTRACE_MESSAGE,
                                                   .verdict = PTRACE_SAME_REGION,
                                                   .arg_from = args ? m->tasks[from].first_arg
                                                                    : PTRACE_NONE,
                                                   .arg_to = args ? t->first_arg : PTRACE_NONE};
        m->n_messages++;
    }
    t->edges = (uint32_t)m->out.n_edges - t->first_edge;
}

static void add_task(merger *m, part *p)
{
    const uint32_t task = p->placed++;
    const ptrace_task *old = &p->trace.tasks[task];
    const uint32_t i = (uint32_t)m->out.n_tasks++;
    ptrace_task *t = &m->tasks[i];
    p->index[task] = i;
    *t = *old;
    t->task |= (uint64_t)p->rank << 48; /* numbers of different ranks differ */
    t->called = moved(m, p, old->called);
    t->submitted = moved(m, p, old->submitted);
    t->ready = moved(m, p, old->ready);
    t->start = moved(m, p, old->start);
    t->end = moved(m, p, old->end);
    t->retired = moved(m, p, old->retired);
    t->kernel = old->kernel == PTRACE_NONE ? PTRACE_NONE : p->kernel[old->kernel];
    t->site = old->site == PTRACE_NONE ? PTRACE_NONE : p->site[old->site];
    t->lane = old->lane == PTRACE_NONE ? PTRACE_NONE : p->lanes + old->lane;
    t->first_arg = (uint32_t)m->out.n_args;
    for (uint32_t a = old->first_arg; a < old->first_arg + old->args; a++) {
        ptrace_arg *arg = &m->args[m->out.n_args++];
        *arg = p->trace.args[a];
        arg->dims = arg->dims == PTRACE_NONE ? PTRACE_NONE : arg->dims + p->dims;
    }
    add_edges(m, p, task);
}

static pto_status merge_tasks(merger *m)
{
    uint64_t tasks = 0, edges = 0, args = 0;
    for (const part *p = m->parts; p < m->parts + m->n_parts; p++) {
        tasks += p->trace.n_tasks;
        edges += p->trace.n_edges;
        args += p->trace.n_args;
    }
    if (tasks >= PTRACE_NONE || edges + m->n_sends >= PTRACE_NONE || args >= PTRACE_NONE) {
        return ptoi_fail(PTO_TOO_LARGE, "trace: %" PRIu64 " tasks are more than can be numbered",
                         tasks);
    }
    m->tasks = take(m, tasks, sizeof *m->tasks);
    m->edges = take(m, edges + tasks, sizeof *m->edges);
    m->args = take(m, args, sizeof *m->args);
    if (!m->tasks || !m->edges || !m->args) {
        return no_memory();
    }
    for (part *p; (p = next_part(m));) {
        add_task(m, p);
    }
    m->out.tasks = m->tasks;
    m->out.edges = m->edges;
    m->out.args = m->args;
    return PTO_OK;
}

/* ---- Names, sizes, lanes ---- */

static uint32_t add_string(merger *m, const char *text)
{
    const uint32_t at = (uint32_t)m->n_strings;
    const size_t n = strlen(text) + 1;
    memcpy(m->strings + at, text, n);
    m->n_strings += n;
    return at;
}

static pto_status merge_strings(merger *m)
{
    enum { LANE_PREFIX = 32 };
    uint64_t room = 1;
    for (const part *p = m->parts; p < m->parts + m->n_parts; p++) {
        room += p->trace.n_strings;
        for (uint64_t i = 0; i < p->trace.n_lanes; i++) {
            room += LANE_PREFIX + strlen(ptoi_ptrace_string(&p->trace, p->trace.lanes[i].name));
        }
    }
    m->strings = room < UINT32_MAX ? take(m, room, 1) : NULL;
    if (!m->strings) {
        return no_memory();
    }
    m->n_strings = 1; /* "" */
    for (part *p = m->parts; p < m->parts + m->n_parts; p++) {
        p->strings = (uint32_t)m->n_strings;
        if (p->trace.n_strings) {
            memcpy(m->strings + m->n_strings, p->trace.strings, p->trace.n_strings);
        }
        m->n_strings += p->trace.n_strings;
    }
    return PTO_OK;
}

/* The same text of a part, in the merged trace. */
static uint32_t string_moved(const part *p, uint32_t at)
{
    return p->trace.n_strings ? p->strings + at : 0;
}

/* Kernels and lines that several ranks have are there once. */
static pto_status merge_names(merger *m)
{
    uint64_t kernels = 0, sites = 0;
    for (const part *p = m->parts; p < m->parts + m->n_parts; p++) {
        kernels += p->trace.n_kernels;
        sites += p->trace.n_sites;
    }
    ptrace_kernel *k = take(m, kernels, sizeof *k);
    ptrace_site *s = take(m, sites, sizeof *s);
    if (!k || !s) {
        return no_memory();
    }
    for (part *p = m->parts; p < m->parts + m->n_parts; p++) {
        for (uint64_t i = 0; i < p->trace.n_kernels; i++) {
            const ptrace_kernel *old = &p->trace.kernels[i];
            const ptrace_kernel want = {string_moved(p, old->name), old->type};
            uint32_t at = 0;
            while (at < m->out.n_kernels &&
                   (k[at].type != want.type ||
                    strcmp(m->strings + k[at].name, m->strings + want.name) != 0)) {
                at++;
            }
            m->out.n_kernels += at == m->out.n_kernels;
            k[at] = want;
            p->kernel[i] = at;
        }
        for (uint64_t i = 0; i < p->trace.n_sites; i++) {
            const ptrace_site *old = &p->trace.sites[i];
            const ptrace_site want = {string_moved(p, old->file), old->line};
            uint32_t at = 0;
            while (at < m->out.n_sites &&
                   (s[at].line != want.line ||
                    strcmp(m->strings + s[at].file, m->strings + want.file) != 0)) {
                at++;
            }
            m->out.n_sites += at == m->out.n_sites;
            s[at] = want;
            p->site[i] = at;
        }
    }
    m->out.kernels = k;
    m->out.sites = s;
    return PTO_OK;
}

static pto_status merge_dims_and_lanes(merger *m)
{
    uint64_t n_dims = 0, n_lanes = 0;
    for (part *p = m->parts; p < m->parts + m->n_parts; p++) {
        p->dims = (uint32_t)n_dims;
        p->lanes = (uint32_t)n_lanes;
        n_dims += p->trace.n_dims;
        n_lanes += p->trace.n_lanes;
    }
    int64_t *dims = take(m, n_dims, sizeof *dims);
    ptrace_lane *lanes = take(m, n_lanes, sizeof *lanes);
    if (!dims || !lanes || n_dims >= PTRACE_NONE) {
        return no_memory();
    }
    for (const part *p = m->parts; p < m->parts + m->n_parts; p++) {
        if (p->trace.n_dims) {
            memcpy(dims + p->dims, p->trace.dims, p->trace.n_dims * sizeof *dims);
        }
        for (uint64_t i = 0; i < p->trace.n_lanes; i++) {
            const ptrace_lane *old = &p->trace.lanes[i];
            char prefix[24];
            snprintf(prefix, sizeof prefix, "rank %" PRIu32 " ", p->rank);
            lanes[p->lanes + i] = *old;
            lanes[p->lanes + i].name = add_string(m, prefix);
            m->n_strings--; /* the name follows without a gap */
            add_string(m, ptoi_ptrace_string(&p->trace, old->name));
        }
        m->out.lost += p->trace.lost;
    }
    m->out.dims = dims;
    m->out.n_dims = n_dims;
    m->out.lanes = lanes;
    m->out.n_lanes = n_lanes;
    return PTO_OK;
}

/* ---- What happened besides ---- */

static int by_begin(const void *a, const void *b)
{
    const ptrace_event *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int by_first_word(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static pto_status merge_events(merger *m)
{
    uint64_t events = 0, failures = 0, labels = 0, devices = 0;
    for (const part *p = m->parts; p < m->parts + m->n_parts; p++) {
        events += p->trace.n_events;
        failures += p->trace.n_failures;
        labels += p->trace.n_labels;
        devices += p->trace.n_devices;
    }
    ptrace_event *e = take(m, events, sizeof *e);
    ptrace_failure *f = take(m, failures, sizeof *f);
    ptrace_label *l = take(m, labels, sizeof *l);
    ptrace_device *d = take(m, devices, sizeof *d);
    if (!e || !f || !l || !d) {
        return no_memory();
    }
    for (const part *p = m->parts; p < m->parts + m->n_parts; p++) {
        for (uint64_t i = 0; i < p->trace.n_events; i++) {
            ptrace_event *event = &e[m->out.n_events++];
            *event = p->trace.events[i];
            event->begin = moved(m, p, event->begin);
            event->end = moved(m, p, event->end);
            event->lane += p->lanes;
            event->value |= event->kind == PTRACE_WAIT && event->value ? (uint64_t)p->rank << 48
                                                                       : 0;
        }
        for (uint64_t i = 0; i < p->trace.n_failures; i++) {
            const ptrace_failure *old = &p->trace.failures[i];
            ptrace_failure *copy = &f[m->out.n_failures++];
            *copy = *old;
            copy->task = p->index[old->task];
            copy->name = string_moved(p, old->name);
            copy->words = string_moved(p, old->words);
            copy->cause = old->cause == PTRACE_NONE ? PTRACE_NONE : p->index[old->cause];
            if (old->edge != PTRACE_NONE) {
                const uint32_t to = p->trace.edges[old->edge].to;
                copy->edge = old->edge - p->trace.tasks[to].first_edge +
                             m->tasks[p->index[to]].first_edge;
            }
        }
        for (uint64_t i = 0; i < p->trace.n_labels; i++) {
            const ptrace_label *old = &p->trace.labels[i];
            l[m->out.n_labels++] = (ptrace_label){p->index[old->task], string_moved(p, old->text)};
        }
        for (uint32_t task = 0, i = 0; i < p->trace.n_devices; i++) {
            const ptrace_device *old = &p->trace.devices[i];
            while (task < p->trace.n_tasks &&
                   old->arg >= p->trace.tasks[task].first_arg + p->trace.tasks[task].args) {
                task++;
            }
            if (task < p->trace.n_tasks && old->arg >= p->trace.tasks[task].first_arg) {
                d[m->out.n_devices++] = (ptrace_device){arg_moved(m, p, task, old->arg),
                                                        string_moved(p, old->name)};
            }
        }
    }
    qsort(e, m->out.n_events, sizeof *e, by_begin);
    qsort(f, m->out.n_failures, sizeof *f, by_first_word);
    qsort(l, m->out.n_labels, sizeof *l, by_first_word);
    qsort(d, m->out.n_devices, sizeof *d, by_first_word);
    m->out.events = e;
    m->out.failures = f;
    m->out.labels = l;
    m->out.devices = d;
    return PTO_OK;
}

/* All ranks have the same ranges, since they run the same program. If they do not, those of the first one
 * are shown. */
static pto_status merge_ranges(merger *m)
{
    const ptoi_ptrace *first = &m->parts[0].trace;
    ptrace_range *ranges = take(m, first->n_ranges, sizeof *ranges);
    if (!ranges) {
        return no_memory();
    }
    bool same = true;
    for (const part *p = m->parts; p < m->parts + m->n_parts; p++) {
        same = same && p->trace.n_ranges == first->n_ranges;
        for (uint64_t i = 0; same && i < first->n_ranges; i++) {
            same = p->trace.ranges[i].parent == first->ranges[i].parent;
        }
    }
    for (uint64_t i = 0; i < first->n_ranges; i++) {
        ptrace_range *r = &ranges[i];
        uint64_t low = m->out.n_tasks, high = 0;
        *r = first->ranges[i];
        r->name = string_moved(&m->parts[0], r->name);
        r->begin = UINT64_MAX;
        r->end = 0;
        for (const part *p = m->parts; p < m->parts + (same ? m->n_parts : 1); p++) {
            const ptrace_range *old = &p->trace.ranges[i];
            const uint64_t begin = moved(m, p, old->begin), end = moved(m, p, old->end);
            r->begin = begin < r->begin ? begin : r->begin;
            r->end = end > r->end ? end : r->end; /* unknown is the greatest */
            if (old->tasks) {
                const uint32_t from = p->index[old->first_task];
                const uint32_t to = p->index[old->first_task + old->tasks - 1];
                low = from < low ? from : low;
                high = to + UINT64_C(1) > high ? to + UINT64_C(1) : high;
            }
        }
        r->first_task = (uint32_t)low;
        r->tasks = high > low ? (uint32_t)(high - low) : 0;
    }
    m->out.ranges = ranges;
    m->out.n_ranges = first->n_ranges;
    return PTO_OK;
}

/* ---- About the run ---- */

static pto_status merge_meta(merger *m)
{
    const ptoi_ptrace *first = &m->parts[0].trace;
    const size_t room = first->n_meta + 256 + (size_t)m->n_parts * 128;
    char *text = take(m, room, 1);
    uint64_t workers = 0, error = 0;
    size_t n = 0;
    if (!text) {
        return no_memory();
    }
    for (size_t i = 0, end; i < first->n_meta; i = end) { /* lines that hold for all */
        const char *line = first->meta + i;
        for (end = i; end < first->n_meta && first->meta[end++] != '\n';) {
        }
        if (strncmp(line, "pid=", 4) != 0 && strncmp(line, "workers=", 8) != 0) {
            memcpy(text + n, line, end - i);
            n += end - i;
        }
    }
    for (const part *p = m->parts; p < m->parts + m->n_parts; p++) {
        for (uint64_t i = 0; i < p->trace.n_lanes; i++) {
            workers += p->trace.lanes[i].kind == PTRACE_LANE_WORKER;
        }
        error = p->error > error ? p->error : error;
    }
    n += (size_t)snprintf(text + n, room - n,
                          "workers=%" PRIu64 "\nranks=%" PRIu32 "\nmessages=%" PRIu64 "\n", workers,
                          m->parts[0].ranks, m->n_messages);
    if (error == PTRACE_UNKNOWN) {
        n += (size_t)snprintf(text + n, room - n, "clock_error=unknown, by wall clocks\n");
    } else {
        n += (size_t)snprintf(text + n, room - n, "clock_error_ns=%" PRIu64 "\n", error);
    }
    m->out.meta = text;
    m->out.n_meta = n;
    return PTO_OK;
}

static pto_status merge(merger *m, const pto_trace_part *given)
{
    PTO_TRY(open_parts(m, given));
    PTO_TRY(compare_clocks(m));
    m->zero = common(&m->parts[0], 0);
    for (uint32_t i = 1; i < m->n_parts; i++) {
        const uint64_t begin = common(&m->parts[i], 0);
        m->zero = begin < m->zero ? begin : m->zero;
    }
    m->out.origin_ns = m->parts[0].trace.origin_ns - (FAR - m->zero);
    PTO_TRY(match_messages(m));
    PTO_TRY(merge_strings(m));
    PTO_TRY(merge_names(m));
    PTO_TRY(merge_dims_and_lanes(m));
    PTO_TRY(merge_tasks(m));
    PTO_TRY(merge_events(m));
    PTO_TRY(merge_ranges(m));
    m->out.strings = m->strings;
    m->out.n_strings = m->n_strings;
    return merge_meta(m);
}

pto_status pto_trace_merge(const pto_trace_part *parts, size_t n_parts, const char *to)
{
    merger m = {.n_parts = (uint32_t)n_parts};
    if (!parts || !to) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "trace: %s is NULL", parts ? "to" : "parts");
    }
    if (!n_parts || n_parts > UINT32_MAX / 2) {
        return ptoi_fail(PTO_BAD_PARAM, "trace: %zu parts to merge", n_parts);
    }
    PTO_TRY(ptoi_export_format(to));
    m.parts = calloc(n_parts, sizeof *m.parts);
    pto_status status = m.parts ? merge(&m, parts) : no_memory();
    if (status == PTO_OK) {
        status = ptoi_export(&m.out, to);
    }
    for (uint32_t i = 0; m.parts && i < m.n_parts; i++) {
        close_part(&m.parts[i]);
    }
    free(m.parts);
    for (uint32_t i = 0; i < m.n_pieces; i++) {
        free(m.pieces[i]);
    }
    return status;
}
