/* workloads_ours.h - a workload of examples/workloads with our runtime, once: the program that
 * bench_workloads calls for ours. See workloads_children.h for its arguments. */
#ifndef PTO_WORKLOADS_OURS_H
#define PTO_WORKLOADS_OURS_H

#include <string.h>

#include "workload.h"
#include "workloads_shared.h"

enum { MAX_OPTIONS = 32 };

/* Nobody watches. */
void workload_progress(workload_job *job, uint64_t done)
{
    (void)job;
    (void)done;
}

void workload_say(workload_job *job, const char *format, ...)
{
    (void)job;
    (void)format;
}

/* Of decode, SIZE is tokens, and 0 as TILE its own default. */
static int64_t ours_number(const workload_option *o, int64_t size, int64_t tile)
{
    const bool is_size = !strcmp(o->name, "n") || !strcmp(o->name, "m") || !strcmp(o->name, "k") ||
                         !strcmp(o->name, "tokens");
    if (is_size) {
        return size;
    }
    if (!strcmp(o->name, "batch")) {
        return tile ? BGEMM_BATCH : DECODE_SEQUENCES;
    }
    return tile && !strcmp(o->name, "tile") ? tile : o->number;
}

static pto_status ours_time(workload_job *job, bool check)
{
    timing t = {.n = 0};
    while (timing_goes_on(&t)) {
        if (t.n && job->what->restore) {
            PTO_TRY(job->what->restore(job));
        }
        const double start = bench_now_ns();
        PTO_TRY(job->what->orchestrate(job));
        timing_add(&t, start);
    }
    printf("%.9f\n", timing_result(&t));
    return check ? job->what->check(job) : PTO_OK;
}

static pto_status ours_run(workload_job *job, bool check)
{
    PTO_TRY(job->what->prepare(job));
    PTO_TRY(pto_runtime_create(&job->rt, &job->usual));
    pto_status status = job->what->start(job);
    if (status == PTO_OK) {
        status = ours_time(job, check);
    }
    if (status != PTO_OK) {
        printf("wrong: %s\n", pto_error_detail());
    }
    const pto_status ended = pto_runtime_destroy(&job->rt, PTO_CANCEL);
    return status == PTO_OK ? ended : status;
}

static int ours_main(char **argv)
{
    const workload *what = NULL;
    int64_t number[MAX_OPTIONS];
    const char *text[MAX_OPTIONS];
    for (size_t i = 0; workloads[i]; i++) {
        what = !strcmp(workloads[i]->name, argv[1]) ? workloads[i] : what;
    }
    if (!what || what->n_options > MAX_OPTIONS) {
        return 2;
    }
    for (size_t i = 0; i < what->n_options; i++) {
        number[i] = ours_number(&what->options[i], strtoll(argv[2], NULL, 10),
                                strtoll(argv[3], NULL, 10));
        text[i] = what->options[i].text;
    }
    workload_job job = {.what = what,
                        .number = number,
                        .text = text,
                        .seed = 1,
                        .tight = PTO_CONFIG_INIT,
                        .usual = PTO_CONFIG_INIT};
    const pto_status status = ours_run(&job, argv[4][0] == '1');
    what->discard(&job);
    return status == PTO_OK ? 0 : 1;
}

#endif /* PTO_WORKLOADS_OURS_H */
