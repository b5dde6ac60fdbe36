/* trace.c - `pto trace`: reports on a recorded run, converts it, compares two runs. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/config.h>
#include <pto/trace.h>

#include "commands.h"
#include "rings.h"
#include "trace.h"
#include "words.h"

static void print_help(FILE *out)
{
    fputs("usage: pto trace report FILE              summarize the run\n"
          "       pto trace html FILE [-o OUT]       write an HTML page\n"
          "       pto trace json FILE [-o OUT]       write JSON for Perfetto and chrome://tracing\n"
          "       pto trace dot FILE [-o OUT]        write the task graph for Graphviz\n"
          "       pto trace ptrace FILE [-o OUT]     check the trace and write a copy\n"
          "       pto trace diff FILE OTHER          compare two runs, kernel by kernel\n"
          "       pto trace merge FILE... -o OUT     one trace of all ranks of a program on MPI\n"
          "\n"
          "FILE is a .ptrace; PTO_TRACE=run.ptrace ./program records one. The default of OUT is\n"
          "FILE with the other extension.\n",
          out);
}

bool trace_open(const char *who, const char *path, ptoi_ptrace *trace)
{
    if (ptoi_ptrace_open(path, trace) == PTO_OK) {
        return true;
    }
    fprintf(stderr, "%s: %s\n", who, pto_error_detail());
    return false;
}

static int no_memory(const char *who)
{
    fprintf(stderr, "%s: out of memory\n", who);
    return 1;
}

static words time_of(uint64_t ns)
{
    return words_time((double)ns * 1e-9);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* A name in the first column of a table. A long name is not cut. */
static trace_cell column(const char *name)
{
    enum { COLUMN = 22 };
    const trace_name plain = trace_plain(name);
    trace_cell cell = trace_padded(plain.s, COLUMN);
    if (strlen(plain.s) > strlen(cell.s)) {
        snprintf(cell.s, sizeof cell.s, "%s", plain.s);
    }
    return cell;
}

/* ---- report ---- */

/* "edges          4: 3 RAW, 0 WAR, 1 WAW, 0 after" */
static void print_kinds(const char *what, uint64_t all, const uint64_t *counts,
                        const char *const *texts, uint32_t kinds)
{
    printf("%-14s %" PRIu64, what, all);
    for (uint32_t i = 0; i < kinds; i++) {
        printf("%s %" PRIu64 " %s", i ? "," : ":", counts[i], texts[i]);
    }
    putchar('\n');
}

/* Place gpu: the blocks of a device have another clock. */
static void print_device_clock(const ptoi_ptrace *trace)
{
    char error[64], step[64], compared[64];
    if (*trace_meta(trace, "device_clock_error_ns", error, sizeof error)) {
        printf("device clock   times of blocks are within %s of those of the host; it was compared "
               "%s times,\n               and advances in steps of %s\n",
               time_of(strtoull(error, NULL, 10)).s,
               trace_plain(trace_meta(trace, "device_clock_compared", compared, sizeof compared)).s,
               time_of(
                   strtoull(trace_meta(trace, "device_clock_step_ns", step, sizeof step), NULL, 10))
                   .s);
    }
}

/* Several ranks: each has a clock of its own. */
static void print_ranks(const ptoi_ptrace *trace, const trace_stats *s)
{
    char error[64];
    if (!trace_ranks(trace)) {
        return;
    }
    printf("messages       %" PRIu64 " between %" PRIu32 " ranks", s->edges[PTRACE_MESSAGE],
           trace_ranks(trace));
    if (*trace_meta(trace, "clock_error_ns", error, sizeof error)) {
        printf("; times of different ranks are within %s of each other\n",
               time_of(strtoull(error, NULL, 10)).s);
    } else {
        printf("; times of different ranks are by wall clocks\n");
    }
}

static void print_totals(const ptoi_ptrace *trace, const trace_stats *s)
{
    char a[64], b[64], c[64], d[64];
    const uint64_t makespan = ptoi_ptrace_span(s->begin, s->end);
    const char *workers = trace_meta(trace, "workers", b, sizeof b);
    printf("%s, %s worker%s, scheduler %s, %s\n\n",
           trace_plain(trace_meta(trace, "program", a, sizeof a)).s, trace_plain(workers).s,
           strcmp(workers, "1") == 0 ? "" : "s",
           trace_plain(trace_meta(trace, "scheduler", c, sizeof c)).s,
           trace_plain(trace_meta(trace, "cpu", d, sizeof d)).s);
    print_kinds("tasks", trace->n_tasks, s->outcomes, ptoi_ptrace_outcomes, PTRACE_OUTCOMES);
    if (s->inlined) {
        printf("ran inline     %" PRIu64 " of them, in their submit\n", s->inlined);
    }
    print_kinds("edges", trace->n_edges, s->edges, ptoi_ptrace_edges,
                trace_ranks(trace) ? PTRACE_EDGE_KINDS : PTRACE_MESSAGE);
    printf("               one for each pair of tasks, with the strongest reason (pto_stats: the "
           "first "
           "found);\n               an access that a later write covers has no further edges\n");
    printf("makespan       %s, from the first submit to the end of the last task\n",
           time_of(makespan).s);
    printf("work           %s in kernels: average parallelism %.2f\n", time_of(s->work).s,
           makespan ? (double)s->work / (double)makespan : 0);
    printf("critical path  %s in %zu task%s: %.0f %% of the makespan\n", time_of(s->critical).s,
           s->n_path, s->n_path == 1 ? "" : "s", percent(s->critical, makespan));
    if (s->waits) {
        printf("               With the %" PRIu64
               " time%s that the program waited before it submitted "
               "more, the path is %s (%.0f %%)\n",
               s->waits, s->waits == 1 ? "" : "s", time_of(s->with_waits).s,
               percent(s->with_waits, makespan));
    }
    print_device_clock(trace);
    print_ranks(trace, s);
    printf("lost           %" PRIu64 " record%s%s\n", trace->lost, trace->lost == 1 ? "" : "s",
           trace->lost ? "; raise PTO_TRACE_LIMIT" : "");
}

/* Prints the kernels on the path, and the numbers of its first and last tasks. */
static bool print_path(const ptoi_ptrace *trace, const trace_stats *s)
{
    uint64_t *total = calloc(trace->n_kernels + 1, 2 * sizeof *total);
    if (!total) {
        return false;
    }
    uint64_t *count = total + trace->n_kernels + 1;
    for (size_t i = 0; i < s->n_path; i++) {
        const ptrace_task *t = &trace->tasks[s->path[i]];
        if (t->kernel != PTRACE_NONE) {
            total[t->kernel] += s->share[i];
            count[t->kernel]++;
        }
    }
    printf("\non the critical path        tasks      time   share\n");
    for (uint64_t k = 0; k < trace->n_kernels; k++) {
        if (count[k]) {
            printf("  %s %8" PRIu64 " %9s  %5.1f %%\n",
                   column(ptoi_ptrace_string(trace, trace->kernels[k].name)).s, count[k],
                   time_of(total[k]).s, percent(total[k], s->critical));
        }
    }
    free(total);
    printf("  tasks");
    for (size_t i = 0; i < s->n_path; i++) {
        if (s->n_path > 12 && i == 6) {
            printf(" ...");
            i = s->n_path - 6;
        }
        printf(" %" PRIu32, s->path[i]);
    }
    putchar('\n');
    return true;
}

static void print_kernels(const trace_stats *s)
{
    printf("\nkernel                      tasks     total      mean       p50       p99       "
           "max\n");
    for (size_t i = 0; i < s->n_kernels; i++) {
        const trace_kernel *k = &s->kernels[i];
        printf("  %s %8" PRIu64 " %9s %9s %9s %9s %9s\n", column(k->name).s, k->count,
               time_of(k->total).s, time_of(k->total / k->count).s, time_of(k->p50).s,
               time_of(k->p99).s, time_of(k->max).s);
    }
}

static bool print_lanes(const ptoi_ptrace *trace, const trace_stats *s)
{
    typedef struct lane {
        uint64_t tasks, busy, asleep, waited;
    } lane;
    lane *lanes = calloc(trace->n_lanes + 1, sizeof *lanes);
    if (!lanes) {
        return false;
    }
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        const ptrace_task *t = &trace->tasks[i];
        if (t->lane != PTRACE_NONE) {
            lanes[t->lane].tasks++;
            lanes[t->lane].busy += t->flags & PTRACE_TRANSFER ? 0 : ptoi_ptrace_ran(t);
        }
    }
    for (uint64_t i = 0; i < trace->n_events; i++) {
        const ptrace_event *e = &trace->events[i];
        lane *l = &lanes[e->lane];
        *(e->kind == PTRACE_PARKED ? &l->asleep : &l->waited) += ptoi_ptrace_span(e->begin, e->end);
    }
    printf("\nthread                      tasks   running    of all    asleep   waiting      "
           "lost\n");
    for (uint64_t i = 0; i < trace->n_lanes; i++) {
        const lane *l = &lanes[i];
        printf("  %s %8" PRIu64 " %9s  %6.1f %% %9s %9s %9" PRIu64 "\n",
               column(ptoi_ptrace_string(trace, trace->lanes[i].name)).s, l->tasks,
               time_of(l->busy).s, percent(l->busy, ptoi_ptrace_span(s->begin, s->end)),
               time_of(l->asleep).s, time_of(l->waited).s, trace->lanes[i].lost);
    }
    free(lanes);
    return true;
}

/* Waits for room, and how full the rings were. */
static void print_rings(const ptoi_ptrace *trace)
{
    struct {
        uint64_t waits, total, longest, most;
    } rings[PTO_MAX_LEVELS][PTO_RINGS];
    uint64_t all = 0;
    memset(rings, 0, sizeof rings);
    for (uint64_t i = 0; i < trace->n_events; i++) {
        const ptrace_event *e = &trace->events[i];
        const uint32_t ring = ptrace_room_ring(e->kind);
        if (ring < PTO_RINGS) {
            const uint64_t ns = ptoi_ptrace_span(e->begin, e->end);
            all++;
            rings[e->level][ring].waits++;
            rings[e->level][ring].total += ns;
            if (ns > rings[e->level][ring].longest) {
                rings[e->level][ring].longest = ns;
            }
        }
    }
    for (uint64_t i = 0; i < trace->n_rings; i++) {
        const ptrace_ring_sample *r = &trace->rings[i];
        if (r->used > rings[r->level][r->ring].most) {
            rings[r->level][r->ring].most = r->used;
        }
    }
    printf("\nring                        waits     total   longest           peak of capacity\n");
    for (uint64_t i = 0; i < trace->n_caps; i++) {
        const ptrace_cap *c = &trace->caps[i];
        if (rings[c->level][c->ring].waits || rings[c->level][c->ring].most) {
            printf("  %-5s of level %-2" PRIu32 "      %8" PRIu64 " %9s %9s %14" PRIu64
                   " of %" PRIu64 "\n",
                   ring_words_of[c->ring].trace, c->level, rings[c->level][c->ring].waits,
                   time_of(rings[c->level][c->ring].total).s,
                   time_of(rings[c->level][c->ring].longest).s, rings[c->level][c->ring].most,
                   c->capacity);
        }
    }
    if (!all) {
        printf("  no submit waited for room\n");
    }
}

static int report(const char *path)
{
    ptoi_ptrace trace;
    trace_stats stats;
    if (!trace_open("pto trace report", path, &trace)) {
        return 1;
    }
    bool good = trace_count(&trace, &stats);
    if (good) {
        print_totals(&trace, &stats);
        good = trace_print_failures(&trace);
        print_kernels(&stats);
        good = good && print_path(&trace, &stats) && trace_print_ranges(&trace) &&
               print_lanes(&trace, &stats);
        print_rings(&trace);
        good = good && trace_print_advice(stdout, path, &trace, &stats);
        trace_stats_free(&stats);
    }
    ptoi_ptrace_close(&trace);
    return good ? 0 : no_memory("pto trace report");
}

/* ---- diff ---- */

static void print_pair(const char *name, uint64_t a, uint64_t b)
{
    printf("  %s %12s %12s", column(name).s, time_of(a).s, time_of(b).s);
    if (a && b / 10 >= a) { /* as a percentage it would be a number that nobody can read */
        printf(" %8.0f times\n", (double)b / (double)a);
    } else if (a) {
        printf(" %+8.1f %%\n", 100.0 * ((double)b / (double)a - 1));
    } else {
        printf("%s\n", b ? "        new" : "");
    }
}

static const trace_kernel *kernel_named(const trace_stats *s, const char *name)
{
    for (size_t i = 0; i < s->n_kernels; i++) {
        if (strcmp(s->kernels[i].name, name) == 0) {
            return &s->kernels[i];
        }
    }
    return NULL;
}

static void print_diff(const ptoi_ptrace t[2], const trace_stats s[2])
{
    printf("                              before        after     change\n");
    printf("  %-22s %12" PRIu64 " %12" PRIu64 "\n", "tasks", t[0].n_tasks, t[1].n_tasks);
    printf("  %-22s %12" PRIu64 " %12" PRIu64 "\n", "edges", t[0].n_edges, t[1].n_edges);
    print_pair("makespan", ptoi_ptrace_span(s[0].begin, s[0].end),
               ptoi_ptrace_span(s[1].begin, s[1].end));
    print_pair("work", s[0].work, s[1].work);
    print_pair("critical path", s[0].critical, s[1].critical);
    print_pair("waited for room", s[0].blocked, s[1].blocked);
    printf("\nkernel, mean time\n");
    for (size_t i = 0; i < s[0].n_kernels; i++) {
        const trace_kernel *a = &s[0].kernels[i], *b = kernel_named(&s[1], a->name);
        if (b) {
            print_pair(a->name, a->total / a->count, b->total / b->count);
        } else {
            printf("  %s %12s %12s       gone\n", column(a->name).s, time_of(a->total / a->count).s,
                   "-");
        }
    }
    for (size_t i = 0; i < s[1].n_kernels; i++) {
        const trace_kernel *b = &s[1].kernels[i];
        if (!kernel_named(&s[0], b->name)) {
            printf("  %s %12s %12s        new\n", column(b->name).s, "-",
                   time_of(b->total / b->count).s);
        }
    }
}

static int diff(const char *before, const char *after)
{
    ptoi_ptrace t[2];
    trace_stats s[2];
    if (!trace_open("pto trace diff", before, &t[0])) {
        return 1;
    }
    if (!trace_open("pto trace diff", after, &t[1])) {
        ptoi_ptrace_close(&t[0]);
        return 1;
    }
    const bool first = trace_count(&t[0], &s[0]), second = first && trace_count(&t[1], &s[1]);
    if (second) {
        print_diff(t, s);
        trace_stats_free(&s[1]);
    }
    if (first) {
        trace_stats_free(&s[0]);
    }
    ptoi_ptrace_close(&t[0]);
    ptoi_ptrace_close(&t[1]);
    return second ? 0 : no_memory("pto trace diff");
}

/* ---- Conversion ---- */

static int convert(const char *ending, const char *from, const char *to)
{
    char *made = NULL;
    if (!to) {
        const char *slash = strrchr(from, '/'), *dot = strrchr(from, '.');
        const size_t stem = dot && dot > (slash ? slash + 1 : from) ? (size_t)(dot - from)
                                                                    : strlen(from);
        const size_t room = stem + strlen(ending) + 2;
        made = malloc(room);
        if (!made) {
            return no_memory("pto trace");
        }
        snprintf(made, room, "%.*s.%s", (int)stem, from, ending);
        to = made;
    }
    const size_t length = strlen(to), n = strlen(ending);
    int status = 0;
    if (length <= n + 1 || to[length - n - 1] != '.' || strcmp(to + length - n, ending) != 0 ||
        to[length - n - 2] == '/') {
        fprintf(stderr, "pto trace %s: '%s' is not of the form NAME.%s\n", ending, to, ending);
        status = 2;
    } else if (pto_trace_convert(from, to) != PTO_OK) {
        fprintf(stderr, "pto trace %s: %s\n", ending, pto_error_detail());
        status = 1;
    } else {
        printf("%s\n", to);
    }
    free(made);
    return status;
}

static int merge(char **from, int n, const char *to)
{
    pto_trace_part *parts = calloc((size_t)n, sizeof *parts);
    if (!parts) {
        return no_memory("pto trace merge");
    }
    for (int i = 0; i < n; i++) {
        parts[i].name = from[i];
    }
    const pto_status status = pto_trace_merge(parts, (size_t)n, to);
    if (status == PTO_OK) {
        printf("%s\n", to);
    } else {
        fprintf(stderr, "pto trace merge: %s\n", pto_error_detail());
    }
    free(parts);
    return status == PTO_OK ? 0 : 1;
}

/* ---- The command ---- */

int command_trace(int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'}, {"output", required_argument, NULL, 'o'}, {0}};
    static const char *const names[] = {"report", "html", "json", "dot", "ptrace", "diff", "merge"};
    enum { REPORT, DIFF = 5, MERGE, NAMES };
    const char *to = NULL;
    opterr = 0;
    optind = 0; /* start from the beginning, whatever was parsed before */
    for (int c; (c = getopt_long(argc, argv, ":ho:", options, NULL)) != -1;) {
        if (c == 'h') {
            print_help(stdout);
            return 0;
        }
        if (c != 'o') {
            fprintf(stderr,
                    c == ':' ? "pto trace: %s needs a value\n" : "pto trace: unknown option '%s'\n",
                    argv[optind - 1]);
            fputs("(pto trace --help lists them)\n", stderr);
            return 2;
        }
        to = optarg;
    }
    const int left = argc - optind;
    char **word = argv + optind;
    int which = 0;
    while (left > 0 && which < NAMES && strcmp(word[0], names[which]) != 0) {
        which++;
    }
    if (left == 0) {
        print_help(stderr);
        return 2;
    }
    if (which == NAMES) {
        const char *nearest = words_nearest(word[0], names, NAMES);
        fprintf(stderr, "pto trace: no subcommand '%s'%s%s%s\n", word[0],
                nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
        if (!nearest) {
            fputs("available: report html json dot ptrace diff merge\n", stderr);
        }
        return 2;
    }
    if (which == MERGE) {
        if (left < 2 || !to) {
            fputs("pto trace merge: takes a file of each rank, and -o OUT\n", stderr);
            return 2;
        }
        return merge(word + 1, left - 1, to);
    }
    if (left != (which == DIFF ? 3 : 2) || (to && (which == REPORT || which == DIFF))) {
        fprintf(stderr, "pto trace %s: takes %s\n", names[which],
                which == DIFF     ? "two files"
                : which == REPORT ? "one file"
                                  : "one file, and optionally -o OUT");
        return 2;
    }
    if (which == REPORT) {
        return report(word[1]);
    }
    return which == DIFF ? diff(word[1], word[2]) : convert(names[which], word[1], to);
}
