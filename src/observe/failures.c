/* failures.c - finds out why the tasks of a trace failed or were skipped.
 *
 * A kernel that fails says why, and its thread logs that. Why a task was skipped is not logged. It
 * follows from the edges: poison comes through RAW and `after` edges from tasks that failed or were
 * skipped. One pass in order of submission finds the failed task where it began.
 */
#include <inttypes.h>
#include <stdlib.h>

#include <pto/pto.h>

#include "base/error.h"
#include "observe/export.h"

static int by_task(const void *a, const void *b)
{
    const ptrace_failure *x = a, *y = b;
    return (x->task > y->task) - (x->task < y->task);
}

/* Sorts by task, and keeps one record for each. */
static uint64_t sort_failures(ptrace_failure *failed, uint64_t n)
{
    uint64_t kept = 0;
    qsort(failed, n, sizeof *failed, by_task);
    for (uint64_t i = 0; i < n; i++) {
        if (!kept || failed[kept - 1].task != failed[i].task) {
            failed[kept++] = failed[i];
        }
    }
    return kept;
}

static bool is_bad(const ptrace_task *task)
{
    return task->outcome == PTRACE_FAILED || task->outcome == PTRACE_SKIPPED;
}

/* A skipped task: the edge that poisoned it, and where that poison began. Of several, the one that
 * began first. `all` has the items of all tasks before it. */
static ptrace_failure skipped(const ptoi_ptrace *trace, uint32_t task, const ptrace_failure *all,
                              const uint32_t *item)
{
    const ptrace_task *t = &trace->tasks[task];
    ptrace_failure f = {.task = task, .cause = PTRACE_NONE, .edge = PTRACE_NONE};
    for (uint32_t e = t->first_edge; e < t->first_edge + t->edges; e++) {
        const ptrace_edge *edge = &trace->edges[e];
        if (edge->from == PTRACE_NONE || !is_bad(&trace->tasks[edge->from]) ||
            (edge->kind != PTRACE_RAW && edge->kind != PTRACE_AFTER)) {
            continue;
        }
        const uint32_t cause = all[item[edge->from]].cause;
        if (f.edge == PTRACE_NONE || cause < f.cause) { /* PTRACE_NONE is above all indices */
            f.cause = cause;
            f.edge = e;
        }
    }
    return f;
}

pto_status ptoi_failures_find(ptoi_built_trace *built, ptrace_failure *failed, uint64_t n)
{
    ptoi_ptrace *trace = &built->trace;
    uint64_t bad = 0, count = 0, next = 0;
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        bad += is_bad(&trace->tasks[i]);
    }
    if (!bad && !n) {
        return PTO_OK;
    }
    n = sort_failures(failed, n);
    uint32_t *item = malloc((trace->n_tasks + 1) * sizeof *item); /* of a bad task, in `all` */
    ptrace_failure *all = ptoi_built_memory(built, (bad + n) * sizeof *all);
    if (!item || !all) {
        free(item);
        return ptoi_fail(PTO_OUT_OF_MEMORY, "trace: no memory for %" PRIu64 " failures", bad + n);
    }
    for (uint32_t i = 0; i < trace->n_tasks; i++) {
        const bool told = next < n && failed[next].task == i;
        if (!told && !is_bad(&trace->tasks[i])) {
            continue;
        }
        item[i] = (uint32_t)count;
        all[count] = (ptrace_failure){.task = i, .cause = i, .edge = PTRACE_NONE};
        if (trace->tasks[i].outcome == PTRACE_SKIPPED) {
            all[count] = skipped(trace, i, all, item);
        } else if (told) {
            all[count].status = failed[next].status;
            all[count].name = failed[next].name;
            all[count].words = failed[next].words;
        }
        count++;
        next += told;
    }
    free(item);
    trace->failures = all;
    trace->n_failures = count;
    return PTO_OK;
}
