/* explain.c - `pto explain FILE A B`: are two tasks ordered, and by which dependencies? */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#include "commands.h"
#include "trace.h"
#include "words.h"

static void print_help(FILE *out)
{
    fputs(
        "usage: pto explain FILE A B    explain whether two tasks of a trace are ordered, and why\n"
        "\n"
        "FILE is a .ptrace. A and B are tasks. A task is given by its number in submission order,\n"
        "starting at 0, as `pto trace report` and the HTML page show it; or by\n"
        "kernel[@file[:line]][#n], the n-th task that matches (by default the first).\n",
        out);
}

static words time_of(uint64_t ns)
{
    return words_time((double)ns * 1e-9);
}

/* ---- The path between two tasks ---- */

/* For each task the edge that leads toward `to` on a path with the fewest edges, or PTRACE_NONE.
 * The search runs backwards, because edges are stored with the task they lead to. NULL if memory
 * runs out. */
static uint32_t *find_ways(const ptoi_ptrace *trace, uint32_t from, uint32_t to)
{
    const size_t n = (size_t)to - from + 1;
    uint32_t *way = malloc(n * sizeof *way), *queue = malloc(n * sizeof *queue);
    size_t head = 0, tail = 0;
    if (!way || !queue) {
        free(way);
        free(queue);
        return NULL;
    }
    memset(way, 0xff, n * sizeof *way);
    queue[tail++] = to;
    while (head < tail && way[0] == PTRACE_NONE) {
        const ptrace_task *t = &trace->tasks[queue[head++]];
        for (uint32_t e = t->first_edge; e < t->first_edge + t->edges; e++) {
            const uint32_t other = trace->edges[e].from;
            if (other != PTRACE_NONE && other >= from && way[other - from] == PTRACE_NONE) {
                way[other - from] = e;
                queue[tail++] = other;
            }
        }
    }
    free(queue);
    return way;
}

/* ---- Output ---- */

static void print_name(const ptoi_ptrace *trace, uint32_t task)
{
    printf("task %" PRIu32 " (", task);
    trace_print_task(stdout, trace, task);
    putchar(')');
}

static const char *access_of(const ptrace_arg *arg)
{
    static const char *const verbs[] = {[PTO_PARAM_INPUT] = "reads",
                                        [PTO_PARAM_OUTPUT] = "writes",
                                        [PTO_PARAM_INOUT] = "updates",
                                        [PTO_PARAM_SCALAR] = "gets"};
    return verbs[arg->access & ~PTRACE_NODEP];
}

static void print_region(const ptoi_ptrace *trace, uint32_t arg, uint32_t task)
{
    const ptrace_task *t = &trace->tasks[task];
    printf("      %" PRIu32 " %s argument %" PRIu32 ": ", task, access_of(&trace->args[arg]),
           arg - t->first_arg);
    trace_print_arg(stdout, trace, arg);
    putchar('\n');
}

static void print_edge(const ptoi_ptrace *trace, const ptrace_edge *e)
{
    printf("  %" PRIu32 " -> ", e->from);
    print_name(trace, e->to);
    if (e->kind == PTRACE_AFTER) {
        printf(": after, as the program requested\n");
        return;
    }
    printf(": %s, %s\n", ptoi_ptrace_edges[e->kind],
           e->verdict == PTRACE_SAME_REGION
               ? "the same region"
               : pto_overlap_stage_name((pto_overlap_stage)e->verdict));
    if (e->arg_from != PTRACE_NONE && e->arg_to != PTRACE_NONE) {
        print_region(trace, e->arg_from, e->from);
        print_region(trace, e->arg_to, e->to);
    }
}

/* Prints when a task was submitted and when it ran. */
static void print_task_times(const ptoi_ptrace *trace, uint32_t task)
{
    const ptrace_task *t = &trace->tasks[task];
    printf("  %" PRIu32 ": submitted at %s", task, time_of(t->submitted).s);
    if (t->start != PTRACE_UNKNOWN && t->end != PTRACE_UNKNOWN) {
        printf(", ran from %s for %s", time_of(t->start).s, time_of(ptoi_ptrace_ran(t)).s);
    }
    if (t->lane != PTRACE_NONE) {
        printf(" on %s", trace_plain(ptoi_ptrace_string(trace, trace->lanes[t->lane].name)).s);
    }
    printf("%s, %s\n", t->flags & PTRACE_INLINE ? ", inline" : "",
           ptoi_ptrace_outcomes[t->outcome]);
}

/* Prints which dependency a task waited for last, and how long. */
static void print_wait(const ptoi_ptrace *trace, uint32_t task)
{
    const ptrace_task *t = &trace->tasks[task];
    const uint64_t waited = ptoi_ptrace_span(t->submitted, t->ready);
    uint32_t last = PTRACE_NONE;
    for (uint32_t e = t->first_edge; e < t->first_edge + t->edges; e++) {
        const uint32_t from = trace->edges[e].from;
        if (from != PTRACE_NONE && trace->tasks[from].end != PTRACE_UNKNOWN &&
            (last == PTRACE_NONE || trace->tasks[from].end > trace->tasks[last].end)) {
            last = from;
        }
    }
    printf("  %" PRIu32, task);
    if (!waited || last == PTRACE_NONE) {
        printf(" could run as soon as it was submitted");
    } else {
        printf(" waited %s for its dependencies, last for ", time_of(waited).s);
        print_name(trace, last);
    }
    if (t->ready != PTRACE_UNKNOWN && t->start != PTRACE_UNKNOWN) {
        printf(", then %s for a worker", time_of(ptoi_ptrace_span(t->ready, t->start)).s);
    }
    putchar('\n');
}

/* Prints the memory that both tasks use, and why it does not order them. */
static void print_shared(const ptoi_ptrace *trace, uint32_t a, uint32_t b)
{
    const ptrace_task *x = &trace->tasks[a], *y = &trace->tasks[b];
    uint32_t shared = 0;
    for (uint32_t i = x->first_arg; i < x->first_arg + x->args; i++) {
        for (uint32_t j = y->first_arg; j < y->first_arg + y->args; j++) {
            const ptrace_arg *p = &trace->args[i], *q = &trace->args[j];
            const bool tensors = (p->access & ~PTRACE_NODEP) <= PTO_PARAM_INOUT &&
                                 (q->access & ~PTRACE_NODEP) <= PTO_PARAM_INOUT;
            if (tensors && p->segment == q->segment && p->buffer == q->buffer &&
                p->where == q->where) {
                const bool nodep = (p->access | q->access) & PTRACE_NODEP;
                printf("  two arguments start at the same address, but %s\n",
                       nodep ? "one of them is marked nodep"
                       : p->access == PTO_PARAM_INPUT && q->access == PTO_PARAM_INPUT
                           ? "both are only read"
                           : "the tasks are too far apart for the trace to keep an edge");
                print_region(trace, i, a);
                print_region(trace, j, b);
                shared++;
            }
        }
    }
    if (!shared) {
        printf(
            "  no argument of one task starts at the same address as an argument of the other\n");
    }
}

static void print_apart(const ptoi_ptrace *trace, uint32_t a, uint32_t b)
{
    const ptrace_task *x = &trace->tasks[a], *y = &trace->tasks[b];
    print_name(trace, a);
    printf(" and ");
    print_name(trace, b);
    printf(" are independent.\n");
    print_shared(trace, a, b);
    print_task_times(trace, a);
    print_task_times(trace, b);
    if (x->start != PTRACE_UNKNOWN && y->start != PTRACE_UNKNOWN && x->end != PTRACE_UNKNOWN &&
        y->end != PTRACE_UNKNOWN) {
        const uint64_t begin = x->start > y->start ? x->start : y->start;
        const uint64_t end = x->end < y->end ? x->end : y->end;
        printf(begin < end ? "  They ran at the same time for %s.\n"
                           : "  They did not run at the same time.%s\n",
               begin < end ? time_of(end - begin).s : "");
    }
}

static void print_way(const ptoi_ptrace *trace, const uint32_t *way, uint32_t a, uint32_t b)
{
    uint32_t steps = 0;
    for (uint32_t at = a; at != b; at = trace->edges[way[at - a]].to) {
        steps++;
    }
    print_name(trace, b);
    printf(" depends on ");
    print_name(trace, a);
    printf(steps == 1 ? " through one edge:\n" : " through %" PRIu32 " edges:\n", steps);
    for (uint32_t at = a; at != b; at = trace->edges[way[at - a]].to) {
        print_edge(trace, &trace->edges[way[at - a]]);
    }
    printf("Timing:\n");
    print_task_times(trace, a);
    print_task_times(trace, b);
    print_wait(trace, b);
    if (trace->tasks[a].end != PTRACE_UNKNOWN && trace->tasks[a].end <= trace->tasks[b].called) {
        printf("  %" PRIu32 " was complete before %" PRIu32
               " was submitted, so it caused no wait\n",
               a, b);
    }
}

/* ---- The command ---- */

int command_explain(int argc, char **argv)
{
    static const char who[] = "pto explain";
    ptoi_ptrace trace;
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        print_help(stdout);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') {
            fprintf(stderr, "%s: unknown option '%s'\n(see %s --help)\n", who, argv[i], who);
            return 2;
        }
    }
    if (argc != 4) {
        print_help(stderr);
        return 2;
    }
    if (!trace_open(who, argv[1], &trace)) {
        return 1;
    }
    int status = 2;
    uint32_t a = trace_find_task(who, &trace, argv[2]);
    uint32_t b = a == PTRACE_NONE ? a : trace_find_task(who, &trace, argv[3]);
    if (b != PTRACE_NONE && a == b) {
        fprintf(stderr, "%s: '%s' and '%s' are the same task, %" PRIu32 "\n", who, argv[2], argv[3],
                a);
    } else if (b != PTRACE_NONE) {
        if (a > b) { /* the earlier task first */
            const uint32_t other = a;
            a = b;
            b = other;
        }
        uint32_t *way = find_ways(&trace, a, b);
        status = way ? 0 : 1;
        if (!way) {
            fprintf(stderr, "%s: out of memory\n", who);
        } else if (way[0] == PTRACE_NONE) {
            print_apart(&trace, a, b);
        } else {
            print_way(&trace, way, a, b);
        }
        free(way);
    }
    ptoi_ptrace_close(&trace);
    return status;
}
