/* report.c - the summary of a run as text. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "rings.h"
#include "run.h"
#include "words.h"

/* ---- Layout: a label, then text ------------------------------------------------------------ */

static void label(const char *text)
{
    printf("%s%-10s%s", words_paint(stdout, WORDS_DIM), text, words_paint(stdout, WORDS_PLAIN));
}

static void row(const char *name, const char *format, ...) PTO_PRINTF(2, 3);

static void row(const char *name, const char *format, ...)
{
    va_list args;
    label(name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    puts("");
}

/* ---- What was run --------------------------------------------------------------------------- */

/* All sizes, wrapped to the line length. */
static void print_sizes(const options *o)
{
    enum { LABEL = 10, COLUMNS = 100 };
    int column = LABEL;
    label("sizes");
    for (size_t i = 0; i <= o->what->n_options; i++) {
        char piece[COLUMNS];
        if (i == o->what->n_options) {
            snprintf(piece, sizeof piece, "seed %" PRIu64, o->seed);
        } else if (!o->what->options[i].text) {
            snprintf(piece, sizeof piece, "%s %" PRId64, o->what->options[i].name, o->number[i]);
        } else if (*o->text[i]) {
            snprintf(piece, sizeof piece, "%s %s", o->what->options[i].name, o->text[i]);
        } else {
            continue;
        }
        const int length = (int)strlen(piece) + 2;
        if (column + length > COLUMNS) {
            puts(",");
            label("");
            column = LABEL;
        } else if (column > LABEL) {
            fputs(", ", stdout);
        }
        fputs(piece, stdout);
        column += length;
    }
    puts("");
}

static void print_threads(const run_result *r)
{
    const bool processes = r->place[0] == 'p', grid = r->place[0] == 'g';
    label("threads");
    if (r->workers) {
        printf("%" PRIu32 " worker%s%s", r->workers, r->workers > 1 ? "s" : "",
               processes ? " in other processes"
               : grid    ? "" /* the caller runs no kernel there */
                         : " and the caller");
    } else {
        printf("the caller alone");
    }
    for (uint32_t d = 1; d < r->stats.devices; d++) {
        const uint32_t n = r->stats.device[d].workers, blocks = grid && d == 1 ? n - 1 : 0;
        printf(", %" PRIu32, n - blocks);
        if (blocks) {
            printf(" thread and %" PRIu32 " block%s", blocks, blocks > 1 ? "s" : "");
        }
        printf(" of %s", peek_device_name(r->stats.device[d].device).s);
    }
    printf(", scheduler %s\n", r->place[0] == 't'   ? "on its own thread"
                               : r->place[0] == 'g' ? "on the device"
                               : processes          ? "in them"
                                                    : "inline");
}

static void print_speed(const workload_job *job, const run_result *r)
{
    const double median = run_median(r);
    if (r->runs > 1) {
        row("time", "%s, the median of %" PRId64 " runs (%s to %s)", words_time(median).s, r->runs,
            words_time(r->seconds[0]).s, words_time(r->seconds[r->runs - 1]).s);
    } else {
        row("time", "%s", words_time(median).s);
    }
    row("tasks", "%" PRIu64 ", %s tasks/s", r->tasks, words_rate((double)r->tasks / median).s);
    if (job->flops > 0 || job->bytes > 0) {
        label("rate");
        if (job->flops > 0) {
            printf("%.2f GFLOP/s%s", job->flops / median / 1e9, job->bytes > 0 ? ", " : "");
        }
        if (job->bytes > 0) {
            printf("%.2f GB/s", job->bytes / median / 1e9);
        }
        puts("");
    }
    row("edges",
        "%" PRIu64 " read after write, %" PRIu64 " write after read, %" PRIu64
        " write after write, %" PRIu64 " explicit",
        r->raw, r->war, r->waw, r->after);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* A table by level: the peak of each ring, its capacity, and how often a submit waited for room. */

enum { LEVEL_WIDTH = 5, BYTES_WIDTH = 20, COUNT_WIDTH = 15 };

/* Which ring stands in a column: the heap comes first. */
static uint32_t ring_in(uint32_t column)
{
    return column == 0 ? PTO_RING_HEAP : column <= PTO_RING_HEAP ? column - 1 : column;
}

static int width_of(uint32_t ring)
{
    return ring_is_bytes(ring) ? BYTES_WIDTH : COUNT_WIDTH;
}

/* "1.25 of 8 MiB": the unit once, if both have the same. */
static void print_ring(uint32_t ring, const pto_ring_stats *stats)
{
    const words peak = ring_amount(ring, stats->peak), size = ring_amount(ring, stats->size);
    const char *unit = strchr(peak.s, ' '), *other = strchr(size.s, ' ');
    const bool same = stats->peak == 0 || (unit && other && !strcmp(unit, other));
    char cell[80];
    snprintf(cell, sizeof cell, "%.*s of %s", (int)(same ? strcspn(peak.s, " ") : strlen(peak.s)),
             peak.s, size.s);
    printf(" %*s", width_of(ring), cell);
}

static void print_waits(const pto_level_stats *level)
{
    uint64_t all = 0;
    for (uint32_t r = 0; r < PTO_RINGS; r++) {
        all += level->ring[r].waits;
    }
    if (all) {
        label("");
        printf("%-*s", LEVEL_WIDTH, "waits");
        for (uint32_t i = 0; i < PTO_RINGS; i++) {
            printf(" %*" PRIu64, width_of(ring_in(i)), level->ring[ring_in(i)].waits);
        }
        puts("");
    }
}

/* The heaps of a level on devices. */
static void print_heaps(const pto_runtime_stats *s, uint32_t level)
{
    for (uint32_t d = 1; d < s->devices; d++) {
        const pto_device_stats *device = &s->device[d];
        if (device->heap[level].size) {
            label("");
            printf("%-*s", LEVEL_WIDTH, "");
            print_ring(PTO_RING_HEAP, &(pto_ring_stats){.peak = device->heap[level].peak,
                                                        .size = device->heap[level].size});
            printf(" on %s\n", peek_device_name(device->device).s);
        }
    }
}

static void print_memory(const pto_runtime_stats *s)
{
    label("memory");
    printf("%-*s", LEVEL_WIDTH, "level");
    for (uint32_t i = 0; i < PTO_RINGS; i++) {
        printf(" %*s", width_of(ring_in(i)), ring_words_of[ring_in(i)].key);
    }
    puts("");
    for (uint32_t l = 0; l < s->levels; l++) {
        if (!s->level[l].ring[PTO_RING_TASKS].peak) {
            continue;
        }
        label("");
        printf("%-*" PRIu32, LEVEL_WIDTH, l);
        for (uint32_t i = 0; i < PTO_RINGS; i++) {
            print_ring(ring_in(i), &s->level[l].ring[ring_in(i)]);
        }
        puts("");
        print_heaps(s, l);
        print_waits(&s->level[l]);
    }
    if (s->overlap_budget_hits) {
        row("overlap", "%" PRIu64 " overlap tests ran out of budget", s->overlap_budget_hits);
    }
    if (s->poison_lost) {
        row("poison", "%" PRIu64 " failed tasks or outputs found no room in the lists of poison",
            s->poison_lost);
    }
    if (s->sites_lost) {
        row("sites", "%" PRIu64 " calls have no file and line: there is room for 65534 sites",
            s->sites_lost);
    }
}

/* ---- Profile -------------------------------------------------------------------------------- */

static void print_kernels(const profile_report *p)
{
    int width = 8;
    for (size_t i = 0; i < p->n_kernels; i++) {
        const int length = snprintf(NULL, 0, "%s", p->kernels[i].name);
        width = length > width ? length : width;
    }
    label("profile");
    printf("%-*s %10s %11s %11s %9s\n", width, "kernel", "calls", "each", "all", "on path");
    for (size_t i = 0; i < p->n_kernels; i++) {
        const profile_kernel *k = &p->kernels[i];
        label("");
        printf("%-*s %10" PRIu64 " %11s %11s %9" PRIu64 "\n", width, k->name, k->calls,
               words_time(k->calls ? (double)k->time / (double)k->calls * 1e-9 : 0).s,
               words_time((double)k->time * 1e-9).s, k->on_path);
    }
}

static void print_profile(const run_result *r)
{
    const profile_report *p = &r->profile;
    const double wall = r->profile_seconds;
    const double busy = (double)p->busy_total * 1e-9, path = (double)p->path * 1e-9;
    if (!r->profiled) {
        return;
    }
    print_kernels(p);
    label("busy");
    for (uint32_t i = 0; i < r->workers; i++) {
        printf("%sworker %" PRIu32 " %.0f %%", i ? ", " : "", i, 100 * run_busy(r, i) / wall);
    }
    if (r->place[0] != 'g') {
        printf("%scaller %.0f %%", r->workers ? ", " : "", 100 * run_busy(r, r->workers) / wall);
    }
    for (uint32_t d = 1, first = run_device_thread(r); d < r->stats.devices; d++) {
        printf(", %s", peek_device_name(r->stats.device[d].device).s);
        for (uint32_t i = 0; i < r->stats.device[d].workers; i++) {
            printf(" %.0f %%", 100 * run_busy(r, first++) / wall);
        }
    }
    printf("; efficiency %.2f\n", busy / wall / run_threads(r));
    row("path",
        "%s in %" PRIu64 " tasks: lower bound for any number of workers; this run took %.2f x that",
        words_time(path).s, p->path_tasks, path > 0 ? wall / path : 0);
}

/* --------------------------------------------------------------------------------------------- */

void report_people(const options *o, const workload_job *job, const run_result *r)
{
    row(o->what->name, "%s", o->what->summary);
    print_sizes(o);
    print_threads(r);
    print_speed(job, r);
    print_memory(&r->stats);
    print_profile(r);
    label("result");
    if (!r->checked) {
        puts("not checked");
        return;
    }
    printf("%s%s%s: %s\n", words_paint(stdout, r->right ? WORDS_GOOD : WORDS_BAD),
           r->right ? "right" : "WRONG", words_paint(stdout, WORDS_PLAIN), job->verdict);
}
