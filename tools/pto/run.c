/* run.c - runs a workload: prepare, timed runs, check, profile, report. See workload.h. */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"
#include "ranks.h"
#include "where.h"
#include "words.h"

enum { OK = 0, FAILED = 1, BAD_INPUT = 2, INTERRUPTED = 130 };

typedef struct runner {
    const options *o;
    progress *progress;
    bool repeats; /* a repetition: suppress messages of the workload */
    profile *profile;
    workload_job job;
    run_result result;
} runner;

/* ---- Called by the workload ---------------------------------------------------------------- */

void workload_progress(workload_job *job, uint64_t done)
{
    const runner *r = job->tool;
    progress_step(r->progress, done);
}

void workload_say(workload_job *job, const char *format, ...)
{
    const runner *r = job->tool;
    FILE *out = r->o->json ? stderr : stdout; /* stdout has only the JSON object */
    va_list args;
    if (r->o->quiet || r->repeats) {
        return;
    }
    progress_hide(r->progress);
    va_start(args, format);
    vfprintf(out, format, args);
    va_end(args);
    fputc('\n', out);
    fflush(out);
    progress_show(r->progress);
}

/* ---- Ctrl-C -------------------------------------------------------------------------------- */

static pto_runtime *interruptible; /* set before the handler is installed; outlives it */

static void cancel(int number)
{
    (void)number;
    pto_cancel(interruptible);
}

static void leave(int number)
{
    static const char said[] = "\npto: interrupted\n";
    (void)number;
    (void)!write(STDERR_FILENO, said, sizeof said - 1);
    _exit(INTERRUPTED);
}

/* While tasks run, Ctrl-C cancels them and the run ends in order. Before and after that there is
 * nothing to clean up, and a reference computation may take long, so the program just exits. Each
 * handler works once: if the program does not end, a second Ctrl-C kills it. */
static void on_interrupt(pto_runtime *rt)
{
    struct sigaction action = {.sa_handler = rt ? cancel : leave, .sa_flags = (int)SA_RESETHAND};
    if (rt) {
        interruptible = rt;
    }
    sigaction(SIGINT, &action, NULL);
}

/* ---- Phases -------------------------------------------------------------------------------- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* On several ranks the function that clears an error is that of pto/mpi.h. */
static void print_hint(const runner *r, pto_status status)
{
    static const char clear[] = "pto_clear_error";
    const char *hint = pto_status_hint(status), *at = r->o->mpi ? strstr(hint, clear) : NULL;
    const int before = at ? (int)(at - hint) : 0;
    fprintf(stderr, "  hint: %.*s%s%s\n", before, hint, at ? "pto_mpi_clear_error" : "",
            at ? at + strlen(clear) : hint);
}

static int tell_failure(const runner *r, pto_status status, int answer)
{
    const bool hopeless = status == PTO_TOO_LARGE || status == PTO_STALLED;
    pto_stall_report stall;
    fprintf(stderr, "pto run %s: ", r->o->what->name);
    if (hopeless && pto_last_stall(r->job.rt, &stall) == PTO_OK) {
        /* Omit the build path of this command. */
        stall.file = base_of(stall.file);
        stall.scope_file = base_of(stall.scope_file);
        pto_stall_print(&stall, stderr);
    } else {
        fprintf(stderr, "%s: %s\n", pto_status_text(status), pto_error_detail());
        print_hint(r, status);
    }
    /* Sizes and rings are user input. If they can never work, the input is bad. */
    return hopeless ? BAD_INPUT : answer;
}

/* What a workload says about the sizes and files it was given. The words of the status are about
 * calls of the library, which the user of this command did not make. */
static int tell_bad_input(const runner *r, pto_status status)
{
    const char *detail = pto_error_detail();
    fprintf(stderr, "pto run %s: %s\n", r->o->what->name,
            *detail ? detail : pto_status_text(status));
    return BAD_INPUT;
}

static int tell_interrupt(const runner *r, double seconds)
{
    pto_runtime_stats s;
    PTO_IGNORE(pto_clear_error(r->job.rt)); /* waits for running tasks */
    if (pto_stats(r->job.rt, &s) == PTO_OK) {
        fprintf(stderr,
                "pto run %s: interrupted after %s: %" PRIu64 " tasks done, %" PRIu64 " skipped\n",
                r->o->what->name, words_time(seconds).s, s.completed - s.failed - s.skipped,
                s.skipped + s.failed);
    }
    return INTERRUPTED;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Runs and times one orchestration. `number` counts from 1; 0 is the profiled run. */
static int orchestrate(runner *r, int64_t number, double *seconds)
{
    workload_job *job = &r->job;
    if (number != 1 && job->what->restore) {
        const pto_status status = job->what->restore(job);
        if (status != PTO_OK) {
            return tell_failure(r, status, FAILED);
        }
    }
    r->repeats = number != 1;
    on_interrupt(job->rt);
    progress_begin(r->progress, number, number ? r->o->repeat : 1);
    const double start = now();
    const pto_status status = job->what->orchestrate(job);
    *seconds = now() - start;
    progress_end(r->progress);
    r->repeats = false;
    const bool interrupted = pto_is_cancelled(job->rt);
    on_interrupt(NULL);
    if (interrupted) {
        return tell_interrupt(r, *seconds);
    }
    return status == PTO_OK ? OK : tell_failure(r, status, FAILED);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int run_timed(runner *r)
{
    run_result *result = &r->result;
    int answer = OK;
    for (int64_t i = 0; i < r->o->repeat && answer == OK; i++) {
        answer = orchestrate(r, i + 1, &result->seconds[i]);
    }
    if (answer != OK) {
        return answer;
    }
    qsort(result->seconds, (size_t)r->o->repeat, sizeof *result->seconds, compare_doubles);
    const pto_status status = pto_stats(r->job.rt, &result->stats);
    if (status != PTO_OK) {
        return tell_failure(r, status, FAILED);
    }
    const pto_runtime_stats *s = &result->stats;
    const uint64_t n = (uint64_t)r->o->repeat;
    result->runs = r->o->repeat;
    result->tasks = s->completed / n;
    result->raw = s->raw / n;
    result->war = s->war / n;
    result->waw = s->waw / n;
    result->after = s->after / n;
    return OK;
}

/* A wrong result is not an error of the run: the summary reports it. */
static int run_check(runner *r)
{
    if (!r->o->check) {
        return OK;
    }
    const pto_status status = r->job.what->check(&r->job);
    if (status == PTO_OUT_OF_MEMORY) {
        return tell_failure(r, status, FAILED);
    }
    r->result.checked = true;
    r->result.right = status == PTO_OK;
    if (!r->result.right) {
        snprintf(r->job.verdict, sizeof r->job.verdict, "%s", pto_error_detail());
    }
    return OK;
}

static bool wants_profile(const runner *r)
{
    return r->o->profile == PROFILE_YES ||
           (r->o->profile == PROFILE_AUTO && !r->o->quiet && r->result.tasks <= RUN_PROFILE_TASKS &&
            run_median(&r->result) <= RUN_PROFILE_SECONDS);
}

static int run_profile(runner *r)
{
    run_result *result = &r->result;
    if (!wants_profile(r)) {
        if (r->o->profile == PROFILE_AUTO && !r->o->quiet) {
            workload_say(&r->job,
                         "no profile: %" PRIu64 " tasks in %s, and only runs of at most %d tasks "
                         "and %d seconds are profiled (--profile forces it)",
                         r->result.tasks, words_time(run_median(&r->result)).s, RUN_PROFILE_TASKS,
                         RUN_PROFILE_SECONDS);
        }
        return OK;
    }
    if (r->o->process && r->o->profile == PROFILE_AUTO) {
        workload_say(&r->job, "no profile: the kernels run in other processes "
                              "(PTO_TRACE=run.ptrace records them)");
        return OK;
    }
    pto_status status = profile_create(&r->profile, result->tasks);
    if (status == PTO_OK) {
        const pto_watcher watcher = profile_watcher(r->profile);
        status = pto_watch(r->job.rt, &watcher);
    }
    if (status == PTO_OK) {
        const int answer = orchestrate(r, 0, &result->profile_seconds);
        if (answer != OK) {
            return answer;
        }
        status = pto_watch(r->job.rt, NULL);
    }
    if (status == PTO_OK) {
        status = profile_finish(r->profile, &result->profile);
    }
    if (status != PTO_OK) {
        /* The run itself succeeded. */
        workload_say(&r->job, "no profile: %s", pto_error_detail());
        return r->o->profile == PROFILE_YES ? FAILED : OK;
    }
    result->profiled = true;
    return OK;
}

static int run_all(runner *r)
{
    int answer = run_timed(r);
    if (answer == OK) {
        answer = run_check(r);
    }
    if (answer == OK) {
        answer = run_profile(r);
    }
    if (answer == OK) {
        if (r->o->json) {
            report_json(r->o, &r->job, &r->result);
        } else if (!r->o->quiet) {
            report_people(r->o, &r->job, &r->result);
        }
        if (r->result.checked && !r->result.right) {
            if (r->o->quiet) {
                fprintf(stderr, "pto run %s: WRONG: %s\n", r->o->what->name, r->job.verdict);
            }
            answer = FAILED;
        }
    }
    return answer;
}

/* ---- The whole run ------------------------------------------------------------------------- */

static int with_runtime(runner *r)
{
    pto_config config = options_config(r->o, &r->job);
    pto_status status = r->o->gpu       ? workload_place_gpu(&r->job, &config)
                        : r->o->process ? workload_place_process(&r->job)
                                        : PTO_OK;
    status = status ? status : pto_runtime_create(&r->job.rt, &config);
    if (status != PTO_OK) {
        return tell_failure(r, status, status == PTO_BAD_CONFIG ? BAD_INPUT : FAILED);
    }
    r->result.workers = options_workers(&config);
    r->result.place = options_place(&config);
    r->progress = r->o->quiet ? NULL : progress_create(&r->job);
    status = r->o->mpi ? mpi_join(&r->job) : PTO_OK;
    if (status == PTO_OK && r->o->mpi) {
        workload_say(&r->job, "MPI       %d ranks", r->job.mpi->ranks);
    }
    if (status == PTO_OK) {
        status = r->job.what->start(&r->job);
    }
    int answer = status == PTO_OK ? run_all(r) : tell_failure(r, status, FAILED);
    progress_destroy(r->progress);
    r->progress = NULL;
    status = mpi_leave(&r->job);
    if (status != PTO_OK && answer == OK) {
        answer = tell_failure(r, status, FAILED);
    }
    status = pto_runtime_destroy(&r->job.rt, PTO_CANCEL);
    profile_destroy(&r->profile);
    return status == PTO_OK || answer != OK ? answer : tell_failure(r, status, FAILED);
}

/* Traces of the run have the name of the workload. */
static void name_program(const char *what)
{
    static char name[64];
    snprintf(name, sizeof name, "pto run %s", what);
    program_invocation_short_name = name;
}

/* A misspelt variable would change nothing, in silence. */
static void warn_of_unknown_options(const options *o)
{
    size_t count;
    if (pto_options_list(NULL, 0, &count) == PTO_UNKNOWN_OPTION) {
        fprintf(stderr, "pto run %s: warning: %s\n", o->what->name, pto_error_detail());
    }
}

/* On several ranks only the first one prints, and none repeats a run on its own. Nor does it know where its output goes:
 * Open MPI gives each rank a terminal, and sends what comes from there to wherever its own output goes. */
static options options_of_rank(const options *given)
{
    options o = *given;
    if (o.mpi) {
        setenv("NO_COLOR", "1", true);
        o.profile = PROFILE_NO;
        o.quiet = o.quiet || mpi_rank_of_launcher() != 0;
        o.json = o.json && mpi_rank_of_launcher() == 0;
    }
    return o;
}

int run_workload(const options *given)
{
    const options of_rank = options_of_rank(given), *o = &of_rank;
    runner r = {.o = o};
    warn_of_unknown_options(o);
    name_program(o->what->name);
    r.job = (workload_job){.what = o->what,
                           .number = o->number,
                           .text = o->text,
                           .seed = o->seed,
                           .gpu = o->gpu,
                           .tight = PTO_CONFIG_INIT,
                           .usual = PTO_CONFIG_INIT};
    r.job.tool = &r;
    r.result.seconds = calloc((size_t)o->repeat, sizeof(double));
    if (!r.result.seconds) {
        fprintf(stderr, "pto: no memory for %" PRId64 " runs\n", o->repeat);
        return FAILED;
    }
    on_interrupt(NULL);
    const pto_status status = o->what->prepare(&r.job);
    const int answer = status == PTO_OK ? with_runtime(&r) : tell_bad_input(&r, status);
    o->what->discard(&r.job);
    free(r.result.seconds);
    return answer;
}
