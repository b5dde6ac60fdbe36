/* trace_stats.c - statistics of a trace: kernels and the critical path. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

/* ---- Kernels ---- */

typedef struct ran {
    uint32_t kernel;
    uint64_t ns;
} ran;

static int by_kernel_and_time(const void *a, const void *b)
{
    const ran *x = a, *y = b;
    if (x->kernel != y->kernel) {
        return x->kernel < y->kernel ? -1 : 1;
    }
    return (x->ns > y->ns) - (x->ns < y->ns);
}

static int by_total(const void *a, const void *b)
{
    const trace_kernel *x = a, *y = b;
    if (x->total != y->total) {
        return x->total > y->total ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* The smallest value that is not exceeded by `percent` of the values. */
static uint64_t percentile(const ran *sorted, size_t n, size_t percent)
{
    const size_t at = (n * percent + 99) / 100;
    return sorted[at ? at - 1 : 0].ns;
}

static bool count_kernels(const ptoi_ptrace *trace, trace_stats *stats)
{
    ran *all = malloc((trace->n_tasks + 1) * sizeof *all);
    size_t n = 0;
    stats->kernels = calloc(trace->n_kernels + 1, sizeof *stats->kernels);
    if (!all || !stats->kernels) {
        free(all);
        return false;
    }
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        const ptrace_task *t = &trace->tasks[i];
        if (t->kernel != PTRACE_NONE && t->start != PTRACE_UNKNOWN && t->end != PTRACE_UNKNOWN) {
            all[n++] = (ran){t->kernel, ptoi_ptrace_ran(t)};
            stats->work += t->flags & PTRACE_TRANSFER ? 0 : ptoi_ptrace_ran(t);
        }
    }
    qsort(all, n, sizeof *all, by_kernel_and_time);
    for (size_t first = 0, next; first < n; first = next) {
        trace_kernel *k = &stats->kernels[stats->n_kernels++];
        k->name = ptoi_ptrace_string(trace, trace->kernels[all[first].kernel].name);
        for (next = first; next < n && all[next].kernel == all[first].kernel; next++) {
            k->total += all[next].ns;
        }
        k->count = next - first;
        k->p50 = percentile(all + first, next - first, 50);
        k->p99 = percentile(all + first, next - first, 99);
        k->max = all[next - 1].ns;
    }
    free(all);
    qsort(stats->kernels, stats->n_kernels, sizeof *stats->kernels, by_total);
    return true;
}

/* ---- The critical path ---- */

/* The longest path to the end of a task by one of its edges. A message takes from the begin of its send to the
 * end of its receive, once. A receive that was posted early waits for its send: that is no part of other
 * paths either. */
static uint64_t path_by(const ptoi_ptrace *trace, const ptrace_edge *edge, const uint64_t *longest)
{
    const ptrace_task *t = &trace->tasks[edge->to], *from = &trace->tasks[edge->from];
    if (edge->kind == PTRACE_MESSAGE) {
        return longest[edge->from] - ptoi_ptrace_ran(from) + ptoi_ptrace_span(from->start, t->end);
    }
    const ptrace_edge *last = &trace->edges[t->first_edge + t->edges - 1];
    const bool receives = last->kind == PTRACE_MESSAGE; /* messages come last */
    const uint64_t sent = receives ? trace->tasks[last->from].start : 0;
    return longest[edge->from] + (receives && sent != PTRACE_UNKNOWN && sent > t->start
                                      ? ptoi_ptrace_span(sent, t->end)
                                      : ptoi_ptrace_ran(t));
}

/* What each task adds to the path. The time of a message counts for its receive. */
static void find_shares(const ptoi_ptrace *trace, const uint64_t *longest, trace_stats *stats)
{
    uint64_t so_far = 0;
    for (size_t i = 0; i < stats->n_path; i++) {
        const uint32_t next = i + 1 < stats->n_path ? stats->path[i + 1] : PTRACE_NONE;
        const ptrace_task *t = &trace->tasks[stats->path[i]];
        uint64_t until = longest[stats->path[i]];
        if (next != PTRACE_NONE && trace->tasks[next].edges) {
            const ptrace_task *to = &trace->tasks[next];
            const ptrace_edge *last = &trace->edges[to->first_edge + to->edges - 1];
            until -= last->kind == PTRACE_MESSAGE && last->from == stats->path[i]
                         ? ptoi_ptrace_ran(t)
                         : 0;
        }
        stats->share[i] = ptoi_ptrace_span(so_far, until);
        so_far = until;
    }
}

/* Tasks are in order and edges lead forward, so one pass finds the longest path to each task. */
static bool find_path(const ptoi_ptrace *trace, trace_stats *stats)
{
    const size_t n = trace->n_tasks;
    uint64_t *longest = malloc((n + 1) * sizeof *longest);
    uint32_t *before = calloc(n + 1, sizeof *before);
    uint32_t last = PTRACE_NONE;
    stats->path = calloc(n + 1, sizeof *stats->path);
    stats->share = calloc(n + 1, sizeof *stats->share);
    const bool good = longest && before && stats->path && stats->share;
    for (uint32_t i = 0; good && i < n; i++) {
        const ptrace_task *t = &trace->tasks[i];
        longest[i] = ptoi_ptrace_ran(t);
        before[i] = PTRACE_NONE;
        for (uint32_t e = t->first_edge; e < t->first_edge + t->edges; e++) {
            const uint32_t from = trace->edges[e].from;
            const uint64_t path = from == PTRACE_NONE ? 0
                                                      : path_by(trace, &trace->edges[e], longest);
            if (from != PTRACE_NONE && (before[i] == PTRACE_NONE || path > longest[i])) {
                longest[i] = path;
                before[i] = from;
            }
        }
        if (last == PTRACE_NONE || longest[i] > longest[last]) {
            last = i;
        }
    }
    if (good && last != PTRACE_NONE) {
        stats->critical = longest[last];
        for (uint32_t i = last; i != PTRACE_NONE; i = before[i]) {
            stats->path[stats->n_path++] = i;
        }
        for (size_t i = 0; i < stats->n_path / 2; i++) { /* reverse it */
            const uint32_t task = stats->path[i];
            stats->path[i] = stats->path[stats->n_path - 1 - i];
            stats->path[stats->n_path - 1 - i] = task;
        }
        find_shares(trace, longest, stats);
    }
    free(longest);
    free(before);
    return good;
}

/* ---- The path with the waits of the program ---- */

typedef struct handle {
    uint64_t task;
    uint32_t index;
} handle;

static int by_handle(const void *a, const void *b)
{
    const handle *x = a, *y = b;
    return (x->task > y->task) - (x->task < y->task);
}

typedef struct waits {
    handle *handles;  /* of all tasks, sorted */
    uint64_t *path;   /* longest path to the end of each task */
    uint64_t longest; /* of all tasks so far */
    uint64_t before;  /* longest path to the end of a wait */
    uint64_t event;   /* next event to look at */
} waits;

/* Looks at all waits that ended before the next task was submitted. */
static void pass_waits(const ptoi_ptrace *trace, waits *w, uint64_t n, trace_stats *stats)
{
    const uint64_t called = trace->tasks[n].called;
    for (; w->event < trace->n_events && trace->events[w->event].begin <= called; w->event++) {
        const ptrace_event *e = &trace->events[w->event];
        if (e->kind != PTRACE_WAIT || e->end > called || !n) {
            continue;
        }
        const handle key = {.task = e->value}, *found = NULL;
        if (e->value) {
            found = bsearch(&key, w->handles, trace->n_tasks, sizeof key, by_handle);
        }
        const uint64_t path = !e->value                   ? w->longest
                              : found && found->index < n ? w->path[found->index]
                                                          : 0;
        w->before = path > w->before ? path : w->before;
        stats->waits++;
    }
}

/* A task that is submitted after a wait comes after the tasks that were waited for. */
static bool find_path_with_waits(const ptoi_ptrace *trace, trace_stats *stats)
{
    const size_t n = trace->n_tasks;
    waits w = {.handles = malloc((n + 1) * sizeof *w.handles),
               .path = malloc((n + 1) * sizeof *w.path)};
    const bool good = w.handles && w.path;
    for (uint32_t i = 0; good && i < n; i++) {
        w.handles[i] = (handle){trace->tasks[i].task, i};
    }
    if (good) {
        qsort(w.handles, n, sizeof *w.handles, by_handle);
    }
    for (uint32_t i = 0; good && i < n; i++) {
        const ptrace_task *t = &trace->tasks[i];
        pass_waits(trace, &w, i, stats);
        w.path[i] = w.before;
        for (uint32_t e = t->first_edge; e < t->first_edge + t->edges; e++) {
            const uint32_t from = trace->edges[e].from;
            if (from != PTRACE_NONE && w.path[from] > w.path[i]) {
                w.path[i] = w.path[from];
            }
        }
        w.path[i] += ptoi_ptrace_ran(t);
        w.longest = w.path[i] > w.longest ? w.path[i] : w.longest;
    }
    stats->with_waits = w.longest;
    free(w.handles);
    free(w.path);
    return good;
}

/* ---- All ---- */

bool trace_count(const ptoi_ptrace *trace, trace_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    stats->begin = trace->n_tasks ? UINT64_MAX : 0;
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        const ptrace_task *t = &trace->tasks[i];
        stats->outcomes[t->outcome]++;
        stats->inlined += (t->flags & PTRACE_INLINE) != 0;
        stats->blocked += t->blocked;
        stats->begin = t->called < stats->begin ? t->called : stats->begin;
        if (t->end != PTRACE_UNKNOWN && t->end > stats->end) {
            stats->end = t->end;
        }
    }
    for (uint64_t i = 0; i < trace->n_edges; i++) {
        stats->edges[trace->edges[i].kind]++;
    }
    /* Waits of one rank hold back only its own tasks, so they have no place in a path over all ranks. */
    if (count_kernels(trace, stats) && find_path(trace, stats) &&
        (trace_ranks(trace) || find_path_with_waits(trace, stats))) {
        return true;
    }
    trace_stats_free(stats);
    return false;
}

void trace_stats_free(trace_stats *stats)
{
    free(stats->kernels);
    free(stats->path);
    free(stats->share);
    stats->kernels = NULL;
    stats->path = NULL;
    stats->share = NULL;
}
