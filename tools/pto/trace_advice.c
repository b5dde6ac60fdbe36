/* trace_advice.c - what to change, at the end of `pto trace report`.
 *
 * Each line says what was measured and what follows from it. A line that would say nothing is not
 * printed. Sizes of rings and numbers of workers are tried on a replay of the run (replay.h), so
 * that nothing is advised that would not help.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "rings.h"
#include "trace.h"
#include "words.h"

enum {
    WAITED = 5,        /* percent of the makespan that submits wait for a ring, to look at it */
    GAIN = 5,          /* percent that a change must gain in the replay */
    SUBMITTING = 50,   /* percent of the makespan that is spent in submits */
    IDLE = 30,         /* percent of their time that threads have no task */
    DEPENDENCY = 10,   /* percent of all waits for dependencies that one pair of kernels causes */
    DOUBLINGS = 10,    /* of a ring */
    LEAST_TASKS = 100, /* a shorter run says little about what to change */
    MOST_TASKS = 2000000, /* of a trace that is replayed here */
};

typedef struct adviser {
    const ptoi_ptrace *trace;
    const trace_stats *stats;
    const char *path; /* of the trace */
    FILE *out;
    uint64_t makespan;
    uint32_t cores;                             /* of the machine; 0: not known */
    uint32_t threads;                           /* that run tasks */
    uint64_t waited[PTO_MAX_LEVELS][PTO_RINGS]; /* ns */
    bool said;
} adviser;

static words time_of(uint64_t ns)
{
    return words_time((double)ns * 1e-9);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* Begins a piece of advice. */
static FILE *say(adviser *a)
{
    fputs(a->said ? "  " : "\nadvice\n  ", a->out);
    a->said = true;
    return a->out;
}

/* ---- Rings ---- */

/* Multiplies the rings that submits waited for. */
static void enlarge(const adviser *a, const replay_rings *from, uint32_t doublings,
                    replay_rings *to)
{
    *to = *from;
    for (uint32_t i = 0; i < PTO_MAX_LEVELS * PTO_RINGS; i++) {
        const uint32_t l = i / PTO_RINGS, r = i % PTO_RINGS;
        if (percent(a->waited[l][r], a->makespan) >= WAITED) {
            const uint64_t most = replay_largest(r) >> doublings;
            to->size[l][r] = from->size[l][r] < most ? from->size[l][r] << doublings
                                                     : replay_largest(r);
        }
    }
}

/* The fewest doublings that gain nine tenths of what can be gained; 0 if that is too little. */
static uint32_t find_doublings(const adviser *a, const replay_plan *plan,
                               const replay_machine *recorded, uint64_t *before, uint64_t *after)
{
    replay_machine m = *recorded;
    uint64_t times[DOUBLINGS + 1], best = UINT64_MAX;
    for (uint32_t d = 0; d <= DOUBLINGS; d++) {
        replay_result result;
        enlarge(a, &recorded->rings, d, &m.rings);
        replay_run(plan, &m, NULL, &result);
        if (result.end != REPLAY_DONE) {
            return 0;
        }
        times[d] = result.makespan;
        best = times[d] < best ? times[d] : best;
    }
    uint32_t d = 0;
    while (times[d] > best + (times[0] - best) / 10) {
        d++;
    }
    *before = times[0];
    *after = times[d];
    return percent(times[0] - times[d], times[0]) >= GAIN ? d : 0;
}

/* The setting of a ring for all levels: "PTO_RING_TASKS=1k,4k". */
static void print_setting(const adviser *a, const replay_rings *rings, uint32_t ring)
{
    uint32_t levels = 0;
    for (uint64_t i = 0; i < a->trace->n_caps; i++) {
        const ptrace_cap *c = &a->trace->caps[i];
        levels = c->level >= levels && rings->size[c->level][ring] ? c->level + 1 : levels;
    }
    fprintf(a->out, "%s=", ring_words_of[ring].variable);
    for (uint32_t l = 0; l < levels; l++) {
        fprintf(a->out, "%s%s", l ? "," : "", words_option((int64_t)rings->size[l][ring]).s);
    }
}

static void advise_rings(adviser *a, const replay_plan *plan, const replay_machine *recorded)
{
    uint64_t before = 0, after = 0, all = 0;
    for (uint32_t i = 0; i < PTO_MAX_LEVELS * PTO_RINGS; i++) {
        all += percent(a->waited[i / PTO_RINGS][i % PTO_RINGS], a->makespan) >= WAITED;
    }
    const uint32_t doublings = all ? find_doublings(a, plan, recorded, &before, &after) : 0;
    if (!doublings) {
        return;
    }
    replay_rings rings;
    enlarge(a, &recorded->rings, doublings, &rings);
    for (uint32_t r = 0; r < PTO_RINGS; r++) {
        bool named = false;
        for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
            if (rings.size[l][r] != recorded->rings.size[l][r]) {
                fprintf(say(a),
                        "submits waited %s, %.0f %% of the makespan, for room in the %s of "
                        "level %" PRIu32 ", which has %s\n",
                        time_of(a->waited[l][r]).s, percent(a->waited[l][r], a->makespan),
                        pto_ring_name((pto_ring)r), l,
                        ring_amount(r, recorded->rings.size[l][r]).s);
                named = true;
            }
        }
        if (named) {
            fputs("    raise it: ", a->out);
            print_setting(a, &rings, r);
            fputc('\n', a->out);
        }
    }
    fprintf(a->out, "    a replay of the run takes %s with %s, and %s as recorded\n",
            time_of(after).s, all > 1 ? "all of these" : "that", time_of(before).s);
}

/* ---- Workers ---- */

static uint64_t replay_with(const replay_plan *plan, const replay_machine *recorded, uint32_t kind,
                            uint32_t workers)
{
    replay_machine m = *recorded;
    replay_result result;
    m.workers[kind] = workers;
    replay_run(plan, &m, NULL, &result);
    return result.end == REPLAY_DONE ? result.makespan : UINT64_MAX;
}

/* Only where all workers are of one kind: else it is not known whom the machine could take more of. */
static void advise_workers(adviser *a, const replay_plan *plan, const replay_machine *recorded)
{
    const uint32_t cores = a->cores;
    uint32_t kind = 0, kinds = 0;
    for (uint32_t k = 1; k < REPLAY_KINDS; k++) {
        kind = recorded->workers[k] ? k : kind;
        kinds += recorded->workers[k] != 0;
    }
    kind = kind ? kind : PTO_ALL_TYPES;
    const uint32_t had = recorded->workers[kind];
    const double busy = percent(a->stats->work, a->makespan * a->threads);
    if (kinds > 1 || cores <= had + 1 || busy < 100 - IDLE) {
        return;
    }
    const uint64_t now = replay_with(plan, recorded, kind, had);
    const uint64_t best = replay_with(plan, recorded, kind, cores - 1);
    uint32_t more = had + 1;
    while (more < cores - 1 && replay_with(plan, recorded, kind, more) > best + best / 20) {
        more += more < 16 ? 1 : more / 8;
    }
    more = more < cores - 1 ? more : cores - 1;
    const uint64_t then = replay_with(plan, recorded, kind, more);
    if (now == UINT64_MAX || then >= now || percent(now - then, now) < GAIN) {
        return;
    }
    fprintf(say(a),
            "the %" PRIu32 " thread%s that run%s tasks %s in kernels %.0f %% of the time, and "
            "the machine has %" PRIu32 " cores\n",
            a->threads, a->threads == 1 ? "" : "s", a->threads == 1 ? "s" : "",
            a->threads == 1 ? "was" : "were", busy, cores);
    fprintf(a->out,
            "    more workers would help: PTO_WORKERS=%" PRIu32
            ". A replay of the run takes %s with "
            "them, and %s as recorded\n",
            more, time_of(then).s, time_of(now).s);
}

/* ---- Too many workers ---- */

static int by_time(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* How many tasks ran at the same time at most, and for how long there were more than cores. A thread
 * runs one task at a time. Returns false if memory runs out. */
static bool measure_crowd(const adviser *a, uint32_t *most, uint64_t *over)
{
    const size_t n = a->trace->n_tasks;
    uint64_t *starts = malloc(n * sizeof *starts), *ends = malloc(n * sizeof *ends), before = 0;
    size_t ran = 0, started = 0, ended = 0;
    *most = 0;
    *over = 0;
    for (size_t i = 0; starts && ends && i < n; i++) {
        const ptrace_task *t = &a->trace->tasks[i];
        if (t->start != PTRACE_UNKNOWN && t->end != PTRACE_UNKNOWN && t->end > t->start) {
            starts[ran] = t->start;
            ends[ran++] = t->end;
        }
    }
    if (ran) {
        qsort(starts, ran, sizeof *starts, by_time);
        qsort(ends, ran, sizeof *ends, by_time);
    }
    while (ended < ran) {
        const bool starts_next = started < ran && starts[started] < ends[ended];
        const uint64_t at = starts_next ? starts[started] : ends[ended];
        const uint32_t running = (uint32_t)(started - ended);
        *over += running > a->cores ? at - before : 0;
        *most = running > *most ? running : *most;
        before = at;
        *(starts_next ? &started : &ended) += 1;
    }
    const bool good = starts && ends;
    free(starts);
    free(ends);
    return good;
}

/* Kernels that share a core are measured longer than they are. The page warns of it, too. */
static bool advise_fewer_workers(adviser *a)
{
    enum { OFTEN = 5 }; /* percent of the makespan */
    uint32_t most;
    uint64_t over;
    if (!a->cores || a->threads <= a->cores) {
        return true;
    }
    if (!measure_crowd(a, &most, &over)) {
        return false;
    }
    most = most < a->threads ? most : a->threads; /* pending tasks have no thread */
    if (most > a->cores && percent(over, a->makespan) >= OFTEN) {
        fprintf(say(a),
                "up to %" PRIu32 " threads were in kernels, %.0f %% of the time more than the "
                "%" PRIu32
                " core%s of the machine: the times of kernels include waits for a core\n",
                most, percent(over, a->makespan), a->cores, a->cores == 1 ? "" : "s");
        fprintf(a->out, "    try PTO_WORKERS=%" PRIu32 "\n", a->cores > 1 ? a->cores - 1 : 1);
    }
    return true;
}

/* ---- Tiles ---- */

/* One thread submits. If it needs longer for a task than all threads together need to run one, they
 * run out of tasks. Returns whether that is so. */
static bool advise_tiles(adviser *a)
{
    uint64_t submitting = 0, ran = 0, tasks = 0;
    for (uint64_t i = 0; i < a->trace->n_tasks; i++) {
        const ptrace_task *t = &a->trace->tasks[i];
        const uint64_t took = ptoi_ptrace_span(t->called, t->submitted);
        const uint64_t inlined = t->flags & PTRACE_INLINE ? ptoi_ptrace_ran(t) : 0;
        if (t->start == PTRACE_UNKNOWN || t->end == PTRACE_UNKNOWN) {
            continue;
        }
        submitting += took > t->blocked + inlined ? took - t->blocked - inlined : 0;
        ran += ptoi_ptrace_ran(t);
        tasks++;
    }
    if (!tasks || percent(submitting, a->makespan) < SUBMITTING ||
        ran >= (uint64_t)a->threads * submitting) {
        return false;
    }
    fprintf(say(a),
            "tiles are too small: a task runs for %s on average, and its submit takes %s; "
            "submitting is %.0f %% of the makespan\n",
            time_of(ran / tasks).s, time_of(submitting / tasks).s,
            percent(submitting, a->makespan));
    fprintf(a->out,
            "    with %" PRIu32
            " thread%s a task should run for at least %s: give each more to do\n",
            a->threads, a->threads == 1 ? "" : "s", time_of(a->threads * submitting / tasks).s);
    return true;
}

/* ---- Dependencies ---- */

/* Tasks of kernel `to` that waited last for one of kernel `from`. */
typedef struct pair {
    uint32_t from, to;
    uint8_t kind;
    uint32_t longest; /* the task that waited longest */
    uint64_t tasks, waited, most;
} pair;

/* The edge from the producer that completed last; PTRACE_NONE if the task did not wait. */
static uint32_t last_edge(const ptoi_ptrace *trace, const ptrace_task *t)
{
    uint32_t last = PTRACE_NONE;
    for (uint32_t e = t->first_edge; e < t->first_edge + t->edges; e++) {
        const uint32_t from = trace->edges[e].from;
        if (from != PTRACE_NONE && trace->tasks[from].end != PTRACE_UNKNOWN &&
            (last == PTRACE_NONE ||
             trace->tasks[from].end > trace->tasks[trace->edges[last].from].end)) {
            last = e;
        }
    }
    return last;
}

static pair *pair_of(pair *pairs, size_t *n, uint32_t from, uint32_t to, uint8_t kind)
{
    enum { MOST = 4096 };
    for (size_t i = 0; i < *n; i++) {
        if (pairs[i].from == from && pairs[i].to == to && pairs[i].kind == kind) {
            return &pairs[i];
        }
    }
    if (*n == MOST) {
        return NULL;
    }
    pairs[*n] = (pair){.from = from, .to = to, .kind = kind};
    return &pairs[(*n)++];
}

/* The pair that waited longest in total. `all` is what all pairs waited. */
static bool find_pair(const adviser *a, pair *worst, uint64_t *all)
{
    const ptoi_ptrace *trace = a->trace;
    pair *pairs = calloc(4096, sizeof *pairs);
    size_t n = 0;
    *worst = (pair){.longest = PTRACE_NONE};
    *all = 0;
    if (!pairs) {
        return false;
    }
    for (uint32_t i = 0; i < trace->n_tasks; i++) {
        const ptrace_task *t = &trace->tasks[i];
        const uint64_t waited = ptoi_ptrace_span(t->submitted, t->ready);
        const uint32_t e = waited ? last_edge(trace, t) : PTRACE_NONE;
        if (e == PTRACE_NONE) {
            continue;
        }
        *all += waited;
        pair *p = pair_of(pairs, &n, trace->tasks[trace->edges[e].from].kernel, t->kernel,
                          trace->edges[e].kind);
        if (p) {
            p->tasks++;
            p->waited += waited;
            p->longest = waited > p->most ? i : p->longest;
            p->most = waited > p->most ? waited : p->most;
        }
    }
    for (size_t i = 0; i < n; i++) {
        *worst = pairs[i].waited > worst->waited ? pairs[i] : *worst;
    }
    free(pairs);
    return true;
}

static trace_name kernel_name(const ptoi_ptrace *trace, uint32_t kernel)
{
    return trace_plain(
        kernel == PTRACE_NONE ? "?" : ptoi_ptrace_string(trace, trace->kernels[kernel].name));
}

/* Prints a word as a shell takes it: in quotes if it has unusual characters. */
static void print_shell_word(FILE *out, const char *word)
{
    static const char usual[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    if (*word && strspn(word, usual) == strlen(word)) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++) {
        fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, out);
    }
    fputc('\'', out);
}

/* Who waits for whom most, if threads were without work. */
static bool advise_dependencies(adviser *a)
{
    pair worst;
    uint64_t all = 0;
    const double idle = 100 - percent(a->stats->work, a->makespan * a->threads);
    if (idle < IDLE) {
        return true;
    }
    if (!find_pair(a, &worst, &all)) {
        return false;
    }
    if (worst.longest == PTRACE_NONE || percent(worst.waited, all) < DEPENDENCY ||
        percent(worst.waited, a->makespan) < WAITED) {
        return true;
    }
    const uint32_t from =
        a->trace->edges[last_edge(a->trace, &a->trace->tasks[worst.longest])].from;
    fprintf(say(a),
            "threads had no task %.0f %% of the time. %" PRIu64
            " task%s of %s waited for %s, %s each on average (%s)\n",
            idle, worst.tasks, worst.tasks == 1 ? "" : "s", kernel_name(a->trace, worst.to).s,
            kernel_name(a->trace, worst.from).s, time_of(worst.waited / worst.tasks).s,
            ptoi_ptrace_edges[worst.kind]);
    if (worst.kind == PTRACE_WAR || worst.kind == PTRACE_WAW) {
        fputs("    they wait to overwrite memory: write to memory of their own instead\n", a->out);
    }
    fprintf(a->out, "    task %" PRIu32 " waited longest: pto explain ", worst.longest);
    print_shell_word(a->out, a->path);
    fprintf(a->out, " %" PRIu32 " %" PRIu32 "\n", from, worst.longest);
    return true;
}

/* ---- All ---- */

static void count_waits(adviser *a)
{
    for (uint64_t i = 0; i < a->trace->n_events; i++) {
        const ptrace_event *e = &a->trace->events[i];
        const uint32_t ring = ptrace_room_ring(e->kind);
        if (ring < PTO_RINGS) {
            a->waited[e->level][ring] += ptoi_ptrace_span(e->begin, e->end);
        }
    }
}

/* Threads that run tasks: workers, and the orchestrating thread if it ran any. */
static uint32_t count_threads(const ptoi_ptrace *trace)
{
    uint32_t threads = 0;
    bool helped = false;
    for (uint64_t i = 0; i < trace->n_tasks && !helped; i++) {
        const uint32_t lane = trace->tasks[i].lane;
        helped = lane != PTRACE_NONE && trace->lanes[lane].kind == PTRACE_LANE_ORCHESTRATOR;
    }
    for (uint64_t i = 0; i < trace->n_lanes; i++) {
        threads += trace->lanes[i].kind == PTRACE_LANE_WORKER;
    }
    return threads + helped;
}

bool trace_print_advice(FILE *out, const char *path, const ptoi_ptrace *trace,
                        const trace_stats *stats)
{
    char text[32];
    adviser a = {
        .trace = trace,
        .stats = stats,
        .path = path,
        .out = out,
        .cores = (uint32_t)strtoul(trace_meta(trace, "cores", text, sizeof text), NULL, 10),
        .makespan = ptoi_ptrace_span(stats->begin, stats->end),
        .threads = count_threads(trace)};
    replay_plan plan;
    replay_machine recorded;
    /* Rings and workers are those of one rank each: its own trace has advice about them. */
    if (!a.makespan || !a.threads || trace->n_tasks < LEAST_TASKS || trace_ranks(trace)) {
        return true;
    }
    count_waits(&a);
    if (!advise_fewer_workers(&a)) {
        return false;
    }
    if (trace->n_tasks <= MOST_TASKS && !trace->lost && !replay_is_outdated(trace)) {
        if (!replay_plan_make(trace, &plan)) {
            replay_plan_free(&plan);
            return false;
        }
        replay_machine_recorded(&plan, &recorded);
        advise_rings(&a, &plan, &recorded);
        advise_workers(&a, &plan, &recorded);
        replay_plan_free(&plan);
    }
    /* Where submits are the limit, waits for producers only follow from that. */
    return advise_tiles(&a) || advise_dependencies(&a);
}
