/* run.h - one run of a workload, from its options to its report. */
#ifndef TOOL_RUN_H
#define TOOL_RUN_H

#include "options.h"
#include "peek.h"
#include "profile.h"

/* Profiling repeats the whole run, more slowly. By default only short runs are profiled. */
#define RUN_PROFILE_TASKS 200000
#define RUN_PROFILE_SECONDS 15

typedef struct run_result {
    uint32_t workers;
    const char *place;
    double *seconds; /* time of each of the `runs` timed runs, sorted */
    int64_t runs;
    uint64_t tasks;                /* in one timed run */
    uint64_t raw, war, waw, after; /* edges in one timed run */
    pto_runtime_stats stats;       /* after the timed runs; the peaks are over all of them */
    bool checked, right;
    bool profiled;
    double profile_seconds;
    profile_report profile;
} run_result;

static inline double run_median(const run_result *r)
{
    const int64_t half = r->runs / 2;
    return r->runs % 2 ? r->seconds[half] : (r->seconds[half - 1] + r->seconds[half]) / 2;
}

/* The first thread of a device other than the host, as watchers number it; the others follow, in the
 * order of stats.device. */
static inline uint32_t run_device_thread(const run_result *r)
{
    return r->workers +
           PTOI_LINES_MORE; /* ptoi_line_of_device: with devices there are no processes */
}

/* How many threads run tasks: all workers, and the caller, but not in place gpu. */
static inline uint32_t run_threads(const run_result *r)
{
    uint32_t threads = r->workers + (r->place[0] != 'g');
    for (uint32_t d = 1; d < r->stats.devices; d++) {
        threads += r->stats.device[d].workers;
    }
    return threads;
}

/* Seconds in which a thread was in kernels. */
static inline double run_busy(const run_result *r, uint32_t thread)
{
    return thread < r->profile.n_workers ? (double)r->profile.busy[thread] * 1e-9 : 0;
}

/* Returns the exit status: 0, 1 for a wrong result or an error, 2 for bad input, 130 for Ctrl-C. */
int run_workload(const options *o);

/* Prints the summary, as text (report.c) or as JSON (json.c). */
void report_people(const options *o, const workload_job *job, const run_result *r);
void report_json(const options *o, const workload_job *job, const run_result *r);

#endif /* TOOL_RUN_H */
