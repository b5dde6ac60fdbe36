/* trace_ranges.c - the ranges of a run, as a part of `pto trace report`. */
#include <inttypes.h>
#include <stdlib.h>

#include "trace.h"
#include "words.h"

enum { MOST = 16 }; /* ranges that are shown */

static words time_of(uint64_t ns)
{
    return words_time((double)ns * 1e-9);
}

typedef struct span {
    uint32_t range;
    uint64_t total; /* from its begin until it was ended and its last task was complete */
    uint64_t work;  /* time in kernels of its tasks */
} span;

static span measure(const ptoi_ptrace *trace, uint32_t range)
{
    const ptrace_range *r = &trace->ranges[range];
    span s = {.range = range, .total = ptoi_ptrace_span(r->begin, r->end)};
    for (uint64_t i = r->first_task; i < (uint64_t)r->first_task + r->tasks; i++) {
        const ptrace_task *t = &trace->tasks[i];
        const uint64_t until = ptoi_ptrace_span(r->begin, t->end);
        s.work += ptoi_ptrace_ran(t);
        s.total = until > s.total ? until : s.total;
    }
    return s;
}

static int by_total(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return x->total != y->total ? (x->total < y->total ? 1 : -1)
                                : (x->range > y->range) - (x->range < y->range);
}

static int by_range(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return (x->range > y->range) - (x->range < y->range);
}

static void print_span(const ptoi_ptrace *trace, const span *s)
{
    const ptrace_range *r = &trace->ranges[s->range];
    char name[80];
    int depth = 0;
    for (uint32_t at = r->parent; at != PTRACE_NONE && depth < 6; at = trace->ranges[at].parent) {
        depth++;
    }
    snprintf(name, sizeof name, "%*s%s", depth * 2, "",
             trace_plain(ptoi_ptrace_string(trace, r->name)).s);
    printf("  %s %8" PRIu32 " %9s %9s %9s\n", trace_padded(name, 22).s, r->tasks,
           time_of(s->total).s, r->end == PTRACE_UNKNOWN ? "open" : time_of(r->end - r->begin).s,
           time_of(s->work).s);
}

bool trace_print_ranges(const ptoi_ptrace *trace)
{
    const size_t n = trace->n_ranges;
    if (!n) {
        return true;
    }
    span *spans = calloc(n, sizeof *spans);
    if (!spans) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        spans[i] = measure(trace, i);
    }
    qsort(spans, n, sizeof *spans, by_total);
    const size_t shown = n < MOST ? n : MOST;
    qsort(spans, shown, sizeof *spans, by_range);
    printf("\nrange                       tasks      time      open   running\n");
    for (size_t i = 0; i < shown; i++) {
        print_span(trace, &spans[i]);
    }
    if (shown < n) {
        printf("  the longest %zu of %zu\n", shown, n);
    }
    printf("  time: from its begin until it was ended and its last task was complete. open: from "
           "begin "
           "to end.\n  running: total time of its tasks in kernels\n");
    free(spans);
    return true;
}
