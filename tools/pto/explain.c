/* explain.c - `pto explain FILE A B`: are two tasks ordered, and by which dependencies? */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#include "commands.h"
#include "shared_bytes.h"
#include "trace.h"
#include "words.h"

static void print_help(FILE *out)
{
    fputs(
        "usage: pto explain FILE A B    explain whether two tasks of a trace are ordered, and why\n"
        "\n"
        "FILE is a .ptrace. A and B are tasks. A task is given by its number in submission order,\n"
        "starting at 0, as `pto trace report` and the HTML page show it; by its label, or\n"
        "label#n if several tasks have it; or by kernel[@file[:line]][#n], the n-th task that "
        "matches\n"
        "(by default the first).\n",
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

/* ---- Waits of the program ---- */

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Finds a wait of the program (pto_wait, pto_wait_task, pto_read) between the submits of two tasks
 * that lasted until the first was complete: for all tasks, for this one, or for one that depends on
 * it. *wait is NULL if there is none. Returns false if memory runs out. */
static bool find_wait(const ptoi_ptrace *trace, uint32_t a, uint32_t b, const ptrace_event **wait)
{
    const size_t n = (size_t)b - a;
    bool *after = calloc(n, sizeof *after);                   /* depends on `a`, or is it */
    uint64_t *handles = calloc(n, sizeof *handles), kept = 0; /* of these tasks */
    const bool good = after && handles;
    *wait = NULL;
    for (uint32_t i = a; good && i < b; i++) {
        const ptrace_task *t = &trace->tasks[i];
        after[i - a] = i == a;
        for (uint32_t e = t->first_edge; e < t->first_edge + t->edges; e++) {
            const uint32_t from = trace->edges[e].from;
            after[i - a] |= from != PTRACE_NONE && from >= a && after[from - a];
        }
        if (after[i - a]) {
            handles[kept++] = t->task;
        }
    }
    if (good) {
        qsort(handles, kept, sizeof *handles, by_number);
    }
    for (uint64_t i = 0; good && i < trace->n_events && !*wait; i++) {
        const ptrace_event *e = &trace->events[i];
        if (e->kind == PTRACE_WAIT && e->begin >= trace->tasks[a].submitted &&
            e->end <= trace->tasks[b].called &&
            (!e->value || bsearch(&e->value, handles, kept, sizeof *handles, by_number))) {
            *wait = e;
        }
    }
    free(after);
    free(handles);
    return good;
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
    printf("      %" PRIu32 " %s ", task, access_of(&trace->args[arg]));
    trace_print_arg_name(stdout, trace, task, arg);
    fputs(": ", stdout);
    trace_print_arg(stdout, trace, arg);
    putchar('\n');
}

/* Prints which bytes two arguments share, after `before`. */
static void print_bytes(const char *before, const ptoi_ptrace *trace, uint32_t arg,
                        const shared_bytes *s)
{
    const bool user = trace->args[arg].segment == PTRACE_USER;
    const char *device = ptoi_ptrace_device(trace, arg);
    if (s->undecided) {
        printf("%scould not be decided within the budget whether they share bytes; the runtime "
               "assumes so\n",
               before);
        return;
    }
    if (s->counted) {
        printf("%sthey share %" PRIu64 " byte%s, ", before, s->count, s->count == 1 ? "" : "s");
    } else {
        printf("%sthey share bytes, ", before);
    }
    printf(user ? "from 0x%" PRIx64 " to 0x%" PRIx64 : "from byte %" PRIu64 " to %" PRIu64,
           s->first, s->last);
    if (!user) {
        printf(" of the heap of level %u", trace->args[arg].segment);
    }
    if (strcmp(device, "cpu:0") != 0) {
        fputs(" on ", stdout);
        trace_print_text(stdout, device);
    }
    putchar('\n');
}

/* Why the later of two accesses has to wait; PTRACE_EDGE_KINDS: it does not. */
static uint32_t conflict_of(const ptrace_arg *from, const ptrace_arg *to)
{
    const bool first_reads = from->access == PTO_PARAM_INPUT;
    if ((from->access | to->access) & PTRACE_NODEP || from->access == PTO_PARAM_SCALAR ||
        to->access == PTO_PARAM_SCALAR || (first_reads && to->access == PTO_PARAM_INPUT)) {
        return PTRACE_EDGE_KINDS;
    }
    return first_reads ? PTRACE_WAR : to->access == PTO_PARAM_OUTPUT ? PTRACE_WAW : PTRACE_RAW;
}

/* An edge has one reason. Prints all other pairs of arguments that would order the two tasks, too,
 * the strongest first. */
static void print_other_conflicts(const ptoi_ptrace *trace, const ptrace_edge *e)
{
    enum { MOST = 16 };
    static const uint32_t strongest[] = {PTRACE_RAW, PTRACE_WAW, PTRACE_WAR};
    const ptrace_task *x = &trace->tasks[e->from], *y = &trace->tasks[e->to];
    const uint32_t pairs = (uint32_t)x->args * y->args;
    uint32_t found = 0;
    for (uint64_t n = 0; n < UINT64_C(3) * pairs; n++) {
        const uint32_t pair = (uint32_t)(n % pairs), kind = strongest[n / pairs];
        const uint32_t i = x->first_arg + pair / y->args, j = y->first_arg + pair % y->args;
        if ((i == e->arg_from && j == e->arg_to) ||
            conflict_of(&trace->args[i], &trace->args[j]) != kind) {
            continue;
        }
        const shared_bytes s = shared_bytes_of(trace, i, j);
        if (!s.any || ++found > MOST) {
            continue;
        }
        printf("    also %s\n", ptoi_ptrace_edges[kind]);
        print_region(trace, i, e->from);
        print_region(trace, j, e->to);
        print_bytes("      ", trace, i, &s);
    }
    if (found > MOST) {
        printf("    ... and %" PRIu32 " more such pairs of arguments\n", found - MOST);
    }
}

static void print_edge(const ptoi_ptrace *trace, const ptrace_edge *e)
{
    printf("  %" PRIu32 " -> ", e->from);
    print_name(trace, e->to);
    if (e->kind == PTRACE_AFTER) {
        printf(": after, as the program requested\n");
        print_other_conflicts(trace, e);
        return;
    }
    if (e->kind == PTRACE_MESSAGE) {
        printf(": a message between ranks\n");
        return;
    }
    printf(": %s, %s\n", ptoi_ptrace_edges[e->kind],
           e->verdict == PTRACE_SAME_REGION
               ? "the same region"
               : pto_overlap_stage_name((pto_overlap_stage)e->verdict));
    if (e->arg_from != PTRACE_NONE && e->arg_to != PTRACE_NONE) {
        print_region(trace, e->arg_from, e->from);
        print_region(trace, e->arg_to, e->to);
        const shared_bytes s = shared_bytes_of(trace, e->arg_from, e->arg_to);
        if (s.any && e->verdict != PTRACE_SAME_REGION) {
            print_bytes("      ", trace, e->arg_from, &s);
        }
    }
    print_other_conflicts(trace, e);
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

/* ---- Memory that two tasks share ---- */

/* What orders two tasks that have no edge of their own. */
typedef enum order { BY_NOTHING, BY_A_WAIT, BY_OTHER_EDGES } order;

/* Why two accesses that share bytes have no edge. */
static void print_reason(const ptoi_ptrace *trace, uint32_t a, uint32_t b, uint32_t i, uint32_t j,
                         order by)
{
    const ptrace_arg *p = &trace->args[i], *q = &trace->args[j];
    const bool reads = (p->access & ~PTRACE_NODEP) == PTO_PARAM_INPUT &&
                       (q->access & ~PTRACE_NODEP) == PTO_PARAM_INPUT;
    if (reads) {
        printf("  both only read them: that orders nothing\n");
    } else if ((p->access | q->access) & PTRACE_NODEP) {
        const bool first = p->access & PTRACE_NODEP, second = q->access & PTRACE_NODEP;
        printf("  %s pto_nodep: the runtime does not order them by these bytes\n",
               first && second ? "both are"
               : first         ? "the first is"
                               : "the second is");
        if (by == BY_A_WAIT) {
            printf("  The program waited between them: this is no race\n");
        } else if (by == BY_NOTHING) {
            printf("  Nothing else orders these tasks: unless the program does, this is a race\n");
        }
    } else if (by == BY_OTHER_EDGES) {
        printf("  no edge of their own is needed: the edges above order them\n");
    } else if (trace->tasks[a].end <= trace->tasks[b].called) {
        printf("  %" PRIu32 " was complete long before %" PRIu32 " was submitted; the trace keeps "
               "no edge between tasks so far apart\n",
               a, b);
    } else {
        printf("  the trace has lost the records that order them\n");
    }
}

/* Prints the bytes that both tasks use, and why they do not order them directly. */
static void print_shared(const ptoi_ptrace *trace, uint32_t a, uint32_t b, order by)
{
    enum { MOST = 16 };
    const ptrace_task *x = &trace->tasks[a], *y = &trace->tasks[b];
    uint32_t shared = 0, interleaved = 0;
    for (uint32_t i = x->first_arg; i < x->first_arg + x->args; i++) {
        for (uint32_t j = y->first_arg; j < y->first_arg + y->args; j++) {
            const shared_bytes s = shared_bytes_of(trace, i, j);
            interleaved += s.near && !s.any;
            if (!s.any || ++shared > MOST) {
                continue;
            }
            print_region(trace, i, a);
            print_region(trace, j, b);
            print_bytes("  ", trace, i, &s);
            print_reason(trace, a, b, i, j, by);
        }
    }
    if (shared > MOST) {
        printf("  ... and %" PRIu32 " more pairs of arguments that share bytes\n", shared - MOST);
    }
    if (!shared) {
        printf("  no argument of one task shares a byte with an argument of the other\n");
    }
    if (interleaved) {
        printf("  %" PRIu32 " pair%s of arguments lie%s in the same range of addresses but share%s "
               "no byte\n",
               interleaved, interleaved == 1 ? "" : "s", interleaved == 1 ? "s" : "",
               interleaved == 1 ? "s" : "");
    }
}

/* `wait`: of the program, between the two; NULL if there is none. */
static void print_apart(const ptoi_ptrace *trace, uint32_t a, uint32_t b, const ptrace_event *wait)
{
    const ptrace_task *x = &trace->tasks[a], *y = &trace->tasks[b];
    print_name(trace, a);
    printf(" and ");
    print_name(trace, b);
    printf(" are independent%s.\n", wait ? ", but the program waited between them" : "");
    if (wait) {
        printf("  it waited for %s %" PRIu32 ", from %s for %s, and submitted %" PRIu32 " then\n",
               !wait->value                          ? "all tasks, also"
               : wait->value == trace->tasks[a].task ? "task"
                                                     : "a task that depends on",
               a, time_of(wait->begin).s, time_of(ptoi_ptrace_span(wait->begin, wait->end)).s, b);
    }
    print_shared(trace, a, b, wait ? BY_A_WAIT : BY_NOTHING);
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
    if (steps > 1) {
        printf("Memory that both use:\n");
        print_shared(trace, a, b, BY_OTHER_EDGES);
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
        const ptrace_event *wait = NULL;
        const bool good = way && find_wait(&trace, a, b, &wait);
        status = good ? 0 : 1;
        if (!good) {
            fprintf(stderr, "%s: out of memory\n", who);
        } else if (way[0] == PTRACE_NONE) {
            print_apart(&trace, a, b, wait);
        } else {
            print_way(&trace, way, a, b);
        }
        free(way);
    }
    ptoi_ptrace_close(&trace);
    return status;
}
