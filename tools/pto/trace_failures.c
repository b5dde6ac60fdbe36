/* trace_failures.c - the failures of a run, as a part of `pto trace report`. */
#include <inttypes.h>
#include <stdlib.h>

#include "trace.h"

enum { MOST = 10, MOST_SKIPPED = 6 }; /* failures, and skipped tasks of each, that are shown */

static void print_task(const ptoi_ptrace *trace, uint32_t task)
{
    printf("task %" PRIu32 " (", task);
    trace_print_task(stdout, trace, task);
    putchar(')');
}

/* Prints the tasks that were skipped because of `cause`: how many, and the first ones. */
static void print_skipped(const ptoi_ptrace *trace, uint32_t cause, uint64_t count)
{
    uint64_t shown = 0;
    printf("    skipped because of it: %" PRIu64 " task%s:", count, count == 1 ? "" : "s");
    for (uint64_t i = 0; i < trace->n_failures && shown < MOST_SKIPPED; i++) {
        const ptrace_failure *f = &trace->failures[i];
        if (f->cause == cause && trace->tasks[f->task].outcome == PTRACE_SKIPPED) {
            printf("%s ", shown++ ? "," : "");
            print_task(trace, f->task);
        }
    }
    printf("%s\n", shown < count ? ", ..." : "");
}

static void print_failure(const ptoi_ptrace *trace, const ptrace_failure *f, uint64_t skipped)
{
    printf("  ");
    print_task(trace, f->task);
    printf(trace->tasks[f->task].outcome == PTRACE_FAILED ? " failed" : ", its memory");
    if (f->status) {
        printf(": %s: ", trace_plain(ptoi_ptrace_string(trace, f->name)).s);
        trace_print_text(stdout, ptoi_ptrace_string(trace, f->words));
    }
    putchar('\n');
    if (skipped) {
        print_skipped(trace, f->task, skipped);
    }
}

bool trace_print_failures(const ptoi_ptrace *trace)
{
    uint64_t *skipped = calloc(trace->n_tasks + 1, sizeof *skipped), failed = 0, cancelled = 0;
    if (!skipped) {
        return false;
    }
    for (uint64_t i = 0; i < trace->n_failures; i++) {
        const ptrace_failure *f = &trace->failures[i];
        if (trace->tasks[f->task].outcome != PTRACE_SKIPPED) {
            failed++;
        } else if (f->cause != PTRACE_NONE) {
            skipped[f->cause]++;
        } else {
            cancelled++;
        }
    }
    if (trace->n_failures) {
        printf("\nfailures\n");
    }
    uint64_t shown = 0;
    for (uint64_t i = 0; i < trace->n_failures && shown < MOST; i++) {
        const ptrace_failure *f = &trace->failures[i];
        if (trace->tasks[f->task].outcome != PTRACE_SKIPPED) {
            print_failure(trace, f, skipped[f->task]);
            shown++;
        }
    }
    if (shown < failed) {
        printf("  ... and %" PRIu64 " more\n", failed - shown);
    }
    if (cancelled) {
        printf("  %" PRIu64 " task%s skipped because the run was cancelled\n", cancelled,
               cancelled == 1 ? " was" : "s were");
    }
    free(skipped);
    return true;
}
