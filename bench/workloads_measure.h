/* workloads_measure.h - what bench_workloads measures, and how: contenders are checked and tried
 * first, then they take turns. */
#ifndef PTO_WORKLOADS_MEASURE_H
#define PTO_WORKLOADS_MEASURE_H

#include <math.h>

#include "workloads_children.h"
#include "workloads_shared.h"

enum { CHOLESKY, BGEMM, PROBLEMS, DECODE = PROBLEMS, WORKLOADS };
enum { MAX_TILES = 16, MAX_ROUNDS = 5 };
enum { TRY_TOKENS = 8 };

/* What one contender does at one size. */
typedef struct cell {
    double seconds[MAX_ROUNDS * MAX_TILES];
    size_t n;
    double rate;        /* of the median: GFLOP/s, for decode tokens/s; 0: not available */
    const setting *set; /* the best; NULL: none works */
} cell;

typedef struct row {
    int64_t tile, n;
    double flops, tasks;
    cell cells[TILED];
} row;

typedef struct problem {
    const char *name, *routine;
    int64_t full, quick; /* size: rows of the matrix, or of each of the batch */
    int64_t most;        /* the most rows of tiles */
    row rows[MAX_TILES];
    size_t n_rows;
    cell library;
} problem;

static problem problems[PROBLEMS] = {
    [CHOLESKY] =
        {.name = "cholesky", .routine = "dpotrf", .full = 6000, .quick = 2400, .most = 125},
    [BGEMM] = {.name = "bgemm", .routine = "dgemm", .full = 2000, .quick = 800, .most = 35},
};
static struct {
    int64_t tokens;
    cell ours, loop, serial;
} decoding;
static uint32_t cores;

static double flops_of(int which, int64_t size)
{
    const double n = (double)size;
    return which == CHOLESKY ? n * n * n / 3 + n * n / 2 + n / 6 : 2.0 * BGEMM_BATCH * n * n * n;
}

static double tasks_of(int which, int64_t size, int64_t tile)
{
    const int64_t across = (size + tile - 1) / tile;
    const double t = (double)across;
    return which == CHOLESKY ? t * (t + 1) * (t + 2) / 6 : 2.0 * BGEMM_BATCH * t * t * t;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

/* A line on the terminal that the next one replaces. */
static void progress(const char *name, int64_t tile, const char *who, const char *more)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s %lld %s %s", name, (long long)tile, who, more);
    }
}

/* Finds the best setting, with sizes that may be smaller than those to be measured. Returns
 * false if ours is wrong; others that are wrong just do not count. */
static bool choose(cell *c, int who, const char *name, int64_t size, int64_t tile, bool check)
{
    const contender *them = &contenders[who];
    double best = INFINITY;
    char words[512];
    if (!child_is_there(them)) {
        return true;
    }
    for (int i = 0; i < MAX_SETTINGS && them->settings[i].text; i++) {
        const setting *set = &them->settings[i];
        progress(name, tile, them->name, set->text);
        const double seconds = child_time(them, set, cores, name, size, tile, check, words,
                                          sizeof words);
        if (seconds > 0 && seconds < best) {
            best = seconds;
            c->set = set;
        } else if (seconds <= 0) {
            fprintf(stderr, "%sbench_workloads: %s, size %lld, tile %lld, %s (%s): %s\n",
                    isatty(STDERR_FILENO) ? "\r\033[K" : "", name, (long long)size, (long long)tile,
                    them->name, set->text, words);
        }
    }
    return who != OURS || c->set;
}

static void measure(cell *c, int who, const char *name, int64_t size, int64_t tile)
{
    char words[512];
    if (!c->set) {
        return;
    }
    progress(name, tile, contenders[who].name, "");
    const double seconds = child_time(&contenders[who], c->set, cores, name, size, tile, false,
                                      words, sizeof words);
    if (seconds > 0) {
        c->seconds[c->n++] = seconds;
    }
}

static bool choose_problem(problem *p)
{
    bool right = true;
    for (size_t i = 0; i < p->n_rows && right; i++) {
        row *r = &p->rows[i];
        for (int who = 0; who < TILED && right; who++) {
            right = choose(&r->cells[who], who, p->name, r->n, r->tile, true);
        }
    }
    if (right) {
        choose(&p->library, OPENBLAS, p->name, p->full / 3, 1, true);
    }
    return right;
}

/* OpenBLAS's routine is shown with each tile size that runs on the whole matrix. */
static void measure_problem(problem *p)
{
    for (size_t i = 0; i < p->n_rows; i++) {
        row *r = &p->rows[i];
        for (int who = 0; who < TILED; who++) {
            measure(&r->cells[who], who, p->name, r->n, r->tile);
        }
        if (r->n == p->full) {
            measure(&p->library, OPENBLAS, p->name, p->full, 1);
        }
    }
    if (p->n_rows && p->rows[p->n_rows - 1].n < p->full) {
        measure(&p->library, OPENBLAS, p->name, p->full, 1);
    }
}

static void compute_median(cell *c, double work)
{
    c->rate = c->n ? work / bench_median(c->seconds, c->n) : 0;
}

/* Measures everything that is wanted. Returns false if our result is wrong. */
static bool measure_all(const bool *wanted, size_t rounds)
{
    bool right = true;
    for (int w = 0; w < PROBLEMS && right; w++) {
        right = !wanted[w] || choose_problem(&problems[w]);
    }
    if (right && wanted[DECODE]) {
        right = choose(&decoding.ours, OURS, "decode", decoding.tokens, 0, true);
        choose(&decoding.loop, LOOP, "decode", TRY_TOKENS, 0, true);
        choose(&decoding.serial, SERIAL, "decode", TRY_TOKENS, 0, true);
    }
    for (size_t i = 0; i < rounds && right; i++) {
        for (int w = 0; w < PROBLEMS; w++) {
            measure_problem(&problems[w]);
        }
        measure(&decoding.ours, OURS, "decode", decoding.tokens, 0);
        measure(&decoding.loop, LOOP, "decode", decoding.tokens, 0);
        measure(&decoding.serial, SERIAL, "decode", decoding.tokens, 0);
    }
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K");
    }
    for (int w = 0; w < PROBLEMS; w++) {
        problem *p = &problems[w];
        compute_median(&p->library, flops_of(w, p->full) * 1e-9);
        for (size_t i = 0; i < p->n_rows * TILED; i++) {
            row *r = &p->rows[i / TILED];
            const int who = (int)(i % TILED);
            compute_median(&r->cells[who], r->flops * 1e-9 * (who == KERNELS ? cores : 1));
        }
    }
    const double tokens = (double)decoding.tokens * DECODE_SEQUENCES;
    compute_median(&decoding.ours, tokens);
    compute_median(&decoding.loop, tokens);
    compute_median(&decoding.serial, tokens);
    return right;
}

#endif /* PTO_WORKLOADS_MEASURE_H */
