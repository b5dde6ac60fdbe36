/* workloads_report.h - the bars and tables of bench_workloads. */
#ifndef PTO_WORKLOADS_REPORT_H
#define PTO_WORKLOADS_REPORT_H

#include <pto/pto.h>

#include "workloads_measure.h"

/* ---- Results -------------------------------------------------------------------------------- */

static double ratio(double a, double b)
{
    return a > 0 && b > 0 ? a / b : 0;
}

/* The row in which a contender is fastest; only among rows with the whole matrix, if asked.
 * NULL: the contender is missing. */
static const row *best_row(const problem *p, int who, bool whole)
{
    const row *best = NULL;
    for (size_t i = 0; i < p->n_rows; i++) {
        const row *r = &p->rows[i];
        const double most = best ? best->cells[who].rate : 0;
        if (r->cells[who].rate > most && (!whole || r->n == p->full)) {
            best = r;
        }
    }
    return best;
}

/* The speed that counts as full efficiency, for every contender: OpenBLAS's routine on the whole
 * matrix, or, if that is missing, the best of all. */
static double yardstick(const problem *p)
{
    double most = p->library.rate;
    for (int who = 0; who < TILED && !(p->library.rate > 0); who++) {
        const row *r = best_row(p, who, false);
        most = r && r->cells[who].rate > most ? r->cells[who].rate : most;
    }
    return most;
}

/* The tile size at which a contender falls below half of the full speed, from its best size towards
 * smaller ones. Between two measured sizes logarithms are interpolated. */
typedef struct half {
    double tile;  /* 0: it never reaches half */
    bool or_less; /* the smallest measured size still reaches it */
} half;

static half half_tile(const problem *p, int who)
{
    const row *best = best_row(p, who, false);
    const double want = yardstick(p) / 2;
    if (!best || best->cells[who].rate < want) {
        return (half){0, false};
    }
    const row *at = best;
    while (at > p->rows) {
        const row *below = at - 1;
        const double high = at->cells[who].rate, low = below->cells[who].rate;
        if (low < want) {
            const double part = low > 0 ? log(want / low) / log(high / low) : 1;
            const double from = log((double)below->tile), to = log((double)at->tile);
            return (half){exp(from + (to - from) * part), false};
        }
        at = below;
    }
    return (half){(double)at->tile, true};
}

enum { MAX_BARS = 20 };

typedef struct bar {
    char name[64];
    const char *unit;
    double figure, want;
} bar;

static bar bars[MAX_BARS];
static size_t n_bars;

static void add_bar(double figure, const char *unit, double want, const char *name,
                    const char *more)
{
    bar *b = &bars[n_bars++];
    *b = (bar){.unit = unit, .figure = figure, .want = want};
    snprintf(b->name, sizeof b->name, "%s %s", name, more);
}

/* The smallest ratio of ours to theirs. */
static double worst_ratio(const problem *p, int who, int64_t *tile)
{
    double worst = 0;
    for (size_t i = 0; i < p->n_rows; i++) {
        const double now = ratio(p->rows[i].cells[OURS].rate, p->rows[i].cells[who].rate);
        if (now > 0 && (worst <= 0 || now < worst)) {
            worst = now;
            *tile = p->rows[i].tile;
        }
    }
    return worst;
}

static void find_bars(const problem *p)
{
    const row *best = best_row(p, OURS, true);
    char more[40];
    if (best && p->library.rate > 0) {
        snprintf(more, sizeof more, "vs %s", p->routine);
        add_bar(best->cells[OURS].rate / p->library.rate, "of its speed", 0.95, p->name, more);
    }
    /* With small tiles most of what is not in kernels is ours. */
    for (size_t i = 0; i < p->n_rows; i++) {
        const row *r = &p->rows[i];
        const double part = ratio(r->cells[OURS].rate, r->cells[KERNELS].rate);
        if (part > 0 && (r->tile == 16 || r->tile == 32) && (i == 0 || r->tile != r[-1].tile)) {
            snprintf(more, sizeof more, "vs kernels alone, tile %lld", (long long)r->tile);
            add_bar(part, "of their speed", r->tile == 16 ? 0.7 : 0.9, p->name, more);
        }
    }
    for (int who = LIBGOMP; who <= STARPU; who++) {
        int64_t tile = 0;
        const double worst = worst_ratio(p, who, &tile);
        if (worst > 0) {
            snprintf(more, sizeof more, "vs %s, tile %lld", contenders[who].name, (long long)tile);
            add_bar(worst, "times its speed where least", 0.97, p->name, more);
        }
    }
    for (int who = LIBGOMP; who <= STARPU; who++) {
        const half ours = half_tile(p, OURS), theirs = half_tile(p, who);
        /* A contender that never reaches half the speed counts with the largest tile. If both
         * reach it everywhere, there is nothing to compare. */
        const bool here = best_row(p, who, false) != NULL;
        const double tile = theirs.tile > 0 ? theirs.tile : (double)p->rows[p->n_rows - 1].tile;
        if (here && ours.tile > 0 && !(ours.or_less && theirs.or_less)) {
            snprintf(more, sizeof more, "half-speed tile vs %s", contenders[who].name);
            add_bar(pow(tile / ours.tile, 3), "times the flops", 3, p->name, more);
        }
    }
}

static void find_decode_bar(void)
{
    const double beside = ratio(decoding.ours.rate, decoding.loop.rate);
    if (beside > 0) {
        add_bar(beside, "times its speed", 1, "decode", "vs a loop over OpenBLAS");
    }
}

static bool bar_holds(const bar *b)
{
    return b->figure >= b->want;
}

/* ---- Output --------------------------------------------------------------------------------- */

static void print_figure(double value, int width, const char *format)
{
    if (value > 0) {
        printf(format, value);
    } else {
        printf(" %*s", width, "-");
    }
}

static void print_half(const problem *p, int who)
{
    const half h = half_tile(p, who);
    if (!best_row(p, who, false)) {
        return;
    }
    if (h.tile > 0) {
        printf("%s %s%.0f", who ? "," : "", h.or_less ? "<= " : "", h.tile);
    } else {
        printf("%s never", who ? "," : "");
    }
    printf(" (%s)", contenders[who].name);
}

static void print_problem(int which)
{
    const problem *p = &problems[which];
    printf("%s: GFLOP/s by tile size%s\n\n", p->name,
           which == BGEMM ? " (a batch of 4 products n x n)" : "");
    printf("%5s %6s %8s", "tile", "n", "tasks");
    for (int who = 0; who < TILED; who++) {
        printf(" %8s", contenders[who].name);
    }
    printf("   ours / %-8s %-8s %-8s  settings\n", "libgomp", "StarPU", "kernels");
    for (size_t i = 0; i < p->n_rows; i++) {
        const row *r = &p->rows[i];
        printf("%5lld %6lld %8.0f", (long long)r->tile, (long long)r->n, r->tasks);
        for (int who = 0; who < TILED; who++) {
            print_figure(r->cells[who].rate, 8, " %8.1f");
        }
        printf("         ");
        for (int who = LIBGOMP; who < TILED; who++) {
            print_figure(ratio(r->cells[OURS].rate, r->cells[who].rate), 8, " %8.2f");
        }
        printf("  %s; %s\n", r->cells[LIBGOMP].set ? r->cells[LIBGOMP].set->text : "-",
               r->cells[STARPU].set ? r->cells[STARPU].set->text : "-");
    }
    printf("OpenBLAS's own %s, n = %lld, %u threads:", p->routine, (long long)p->full, cores);
    print_figure(p->library.rate, 8, " %.1f GFLOP/s");
    printf(" (%s)\nbest tile:", p->library.set ? p->library.set->text : "not here");
    for (int who = 0; who < KERNELS; who++) {
        const row *r = best_row(p, who, false);
        if (r) {
            printf("%s %lld (%s)", who ? "," : "", (long long)r->tile, contenders[who].name);
        }
    }
    printf("\nsmallest tile with half of %s's speed:",
           p->library.rate > 0 ? "OpenBLAS" : "the fastest");
    for (int who = 0; who < TILED; who++) {
        print_half(p, who);
    }
    printf("\n\n");
}

static void print_decode(void)
{
    printf("decode: %lld new tokens of %d sequences, tokens/s\n\n", (long long)decoding.tokens,
           DECODE_SEQUENCES);
    printf("ours                                 ");
    print_figure(decoding.ours.rate, 8, " %8.0f");
    printf("\nplain loop, OpenBLAS on %u threads    ", cores);
    print_figure(decoding.loop.rate, 8, " %8.0f");
    printf("  %s", decoding.loop.set ? decoding.loop.set->text : "");
    printf("\nplain loop, our kernels on one thread");
    print_figure(decoding.serial.rate, 8, " %8.0f");
    printf("\n\n");
}

static void print_missing(void)
{
    for (int who = 0; who < CONTENDERS; who++) {
        if (!child_is_there(&contenders[who])) {
            printf("%s is not here (Debian: %s)\n", contenders[who].name, contenders[who].packages);
        }
    }
}

static void json_cell(const char **comma, const char *name, int who, int64_t tile, int64_t n,
                      const cell *c, const char *unit)
{
    if (c->rate > 0) {
        printf(
            "%s\n    {\"workload\": \"%s\", \"by\": \"%s\", \"setting\": \"%s\", \"tile\": %lld, "
            "\"size\": %lld, \"%s\": %.4f, \"runs\": %zu}",
            *comma, name, contenders[who].name, c->set->text, (long long)tile, (long long)n, unit,
            c->rate, c->n);
        *comma = ",";
    }
}

static void print_json(void)
{
    const char *comma = "";
    printf("{\n  \"bench\": \"workloads\",\n  \"version\": \"%s\",\n  \"cores\": %u,\n"
           "  \"results\": [",
           pto_version(), cores);
    for (int w = 0; w < PROBLEMS; w++) {
        const problem *p = &problems[w];
        for (size_t i = 0; i < p->n_rows * TILED; i++) {
            const row *r = &p->rows[i / TILED];
            json_cell(&comma, p->name, (int)(i % TILED), r->tile, r->n, &r->cells[i % TILED],
                      "gflop_per_s");
        }
        json_cell(&comma, p->name, OPENBLAS, 0, p->full, &p->library, "gflop_per_s");
    }
    json_cell(&comma, "decode", OURS, 0, decoding.tokens, &decoding.ours, "tokens_per_s");
    json_cell(&comma, "decode", LOOP, 0, decoding.tokens, &decoding.loop, "tokens_per_s");
    json_cell(&comma, "decode", SERIAL, 0, decoding.tokens, &decoding.serial, "tokens_per_s");
    printf("\n  ],\n  \"bars\": [");
    for (size_t i = 0; i < n_bars; i++) {
        printf("%s\n    {\"name\": \"%s\", \"figure\": %.4f, \"unit\": \"%s\", "
               "\"want_at_least\": %g, \"ok\": %s}",
               i ? "," : "", bars[i].name, bars[i].figure, bars[i].unit, bars[i].want,
               bar_holds(&bars[i]) ? "true" : "false");
    }
    printf("\n  ]\n}\n");
}

#endif /* PTO_WORKLOADS_REPORT_H */
