/* run.h - one run of a workload, from its options to its report. */
#ifndef TOOL_RUN_H
#define TOOL_RUN_H

#include "options.h"
#include "profile.h"

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

/* Returns the exit status: 0, 1 for a wrong result or an error, 2 for bad input, 130 for Ctrl-C. */
int run_workload(const options *o);

/* Prints the summary, as text (report.c) or as JSON (json.c). */
void report_people(const options *o, const workload_job *job, const run_result *r);
void report_json(const options *o, const workload_job *job, const run_result *r);

#endif /* TOOL_RUN_H */
