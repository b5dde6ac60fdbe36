/* doctor_words.c - the story that `pto doctor` tells. */
#include <inttypes.h>

#include "doctor.h"
#include "words.h"

const char *doctor_cause_name(doctor_cause cause)
{
    static const char *const names[] = {"moves",   "ended", "stopped", "idle", "stalled", "runs",
                                        "pending", "busy",  "caller",  "ends", "lost"};
    return cause < DOCTOR_CAUSES ? names[cause] : "unknown";
}

/* "worker 2 (thread 4711)", or the orchestrating thread. */
static words name_worker(const doctor_report *r, uint32_t worker)
{
    words w;
    if (worker == r->look.workers) {
        snprintf(w.s, sizeof w.s, "the orchestrating thread");
    } else {
        snprintf(w.s, sizeof w.s, "worker %u (thread %u)", worker,
                 worker < r->look.workers ? r->look.worker[worker].thread : 0);
    }
    return w;
}

/* "process 12", "process 12, runtime 1 of 2" */
typedef struct process_name {
    char s[64];
} process_name;

static process_name name_process(const doctor_report *r)
{
    process_name w;
    if (r->windows > 1) {
        snprintf(w.s, sizeof w.s, "process %d, runtime %u of %u", r->pid, r->number, r->windows);
    } else {
        snprintf(w.s, sizeof w.s, "process %d", r->pid);
    }
    return w;
}

static const char *plural(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

static void print_seen(FILE *out, const doctor_report *r)
{
    const peek_look *l = &r->look;
    const uint64_t run = l->states[PEEK_RUNS] + l->states[PEEK_ENDS];
    const uint64_t pending = l->states[PEEK_PENDING], waits = l->states[PEEK_WAITS];
    fprintf(out,
            "%s (%s): %" PRIu64 " task%s submitted, %" PRIu64 " complete; of the others %" PRIu64
            " %s, %" PRIu64 " %s\npending, %" PRIu64 " ready and %" PRIu64 " %s for others.\n",
            r->program, name_process(r).s, l->submitted, plural(l->submitted, "", "s"),
            l->completed, run, plural(run, "runs", "run"), pending, plural(pending, "is", "are"),
            l->states[PEEK_READY], waits, plural(waits, "waits", "wait"));
    if (l->cancelled) {
        fputs("It was cancelled: tasks that have not begun are skipped.\n", out);
    }
    fprintf(out, "The orchestrating thread %s", r->orchestrator.s);
    if (l->wait.on && l->wait.since) {
        fprintf(out, ". It has slept for %s", words_time((double)l->wait.since * 1e-9).s);
    }
    fputs(".\n", out);
}

static void print_chain(FILE *out, const doctor_report *r)
{
    static const char *const states[] = {
        [PEEK_WAITS] = "waits for",
        [PEEK_READY] = "is ready to run, and does not",
        [PEEK_RUNS] = "runs",
        [PEEK_PENDING] = "is pending",
        [PEEK_ENDS] = "has ended, and is not closed",
    };
    fputc('\n', out);
    for (uint32_t i = 0; i < r->n_chain; i++) {
        const peek_task *t = &r->chain[i];
        if (r->length > r->n_chain && i == DOCTOR_CHAIN / 2) {
            fprintf(out, "  ... and %u more ...\n", r->length - r->n_chain);
        }
        fprintf(out, "  %s %s", peek_name_of(t).s, states[t->state]);
        if (t->state == PEEK_WAITS && t->left > 1) {
            fprintf(out, " %u tasks, first of all", t->left);
        }
        fputc('\n', out);
    }
    fputc('\n', out);
}

static void print_runs(FILE *out, const doctor_report *r)
{
    const peek_task *t = &r->chain[r->n_chain - 1];
    fprintf(out, "cause  the kernel '%s' has been running for %s at least", t->kernel,
            words_time(r->seconds).s);
    if (r->worker <= r->look.workers) {
        fprintf(out, ", on %s", name_worker(r, r->worker).s);
    }
    fputs(".\n", out);
    if (r->uses_cpu) {
        fputs("       Its thread uses the processor: it computes, or spins.\n", out);
    } else if (r->thread.known) {
        fprintf(out,
                "       Its thread sleeps%s%s: it waits for something outside of the runtime.\n",
                *r->thread.channel ? " in " : "", r->thread.channel);
    }
    fprintf(out,
            "do     nothing, if it may take so long. Otherwise see where it is:\n"
            "         gdb -p %d -batch -ex 'thread apply all backtrace'\n"
            "       A kernel must not wait for other tasks; one that waits for a device returns "
            "PTO_PENDING.\n",
            r->pid);
    if (r->worker == r->look.workers && !r->uses_cpu) {
        fputs("       It runs where the program submits or waits: is a lock held there that it "
              "takes?\n",
              out);
    }
}

static void print_busy(FILE *out, const doctor_report *r)
{
    const peek_task *t = &r->chain[r->n_chain - 1];
    const char *type = pto_worker_type_name((pto_worker_type)t->type);
    fprintf(out, "cause  all who serve %s tasks run something else:\n", type);
    for (uint32_t i = 0, told = 0; i <= r->look.workers && told < 8; i++) {
        const peek_worker *w = &r->look.worker[i];
        if (w->types >> t->type & 1 && w->runs.task) {
            fprintf(out, "         %s: %s\n", name_worker(r, i).s, peek_name_of(&w->runs).s);
            told++;
        }
    }
    fprintf(out,
            "do     nothing, if those kernels end. If they wait for this task, they must not: make "
            "them tasks\n"
            "       that depend on it. If they are slow, more workers for %s help (PTO_WORKERS).\n",
            type);
}

static void print_caller(FILE *out, const doctor_report *r)
{
    const peek_task *t = &r->chain[r->n_chain - 1];
    const char *type = pto_worker_type_name((pto_worker_type)t->type);
    const bool helps = r->look.worker[r->look.workers].types >> t->type & 1;
    if (!helps) {
        fprintf(out, "cause  nobody serves %s tasks.\n", type);
    } else {
        fprintf(out,
                "cause  only the orchestrating thread serves %s tasks, and it helps only while it "
                "waits in a call\n"
                "       of the runtime. Now it is in the program's own code.\n",
                type);
    }
    fprintf(out,
            "do     call pto_wait, pto_wait_task or pto_read there, or give %s tasks a worker of "
            "their own\n"
            "       (PTO_WORKERS, or workers and worker_types of pto_config).\n",
            type);
}

static void print_pending(FILE *out, const doctor_report *r)
{
    const peek_task *t = &r->chain[r->n_chain - 1];
    fprintf(out,
            "cause  the kernel '%s' returned PTO_PENDING, and nobody has called pto_task_complete "
            "for it.\n"
            "do     find out what became of the one who was to call\n"
            "         pto_task_complete(rt, %" PRIu64 ", status)\n"
            "       where %" PRIu64 " is the pto_task: call->task in its kernel.\n"
            "       It must be called on every way out, with a failure as well.\n",
            t->kernel, t->task, t->task);
}

static void print_stall(FILE *out, const doctor_report *r)
{
    fprintf(out, "\n%s was refused, %s ago",
            r->look.wait.on ? "What it asked of the runtime before"
                            : "The last thing it asked of the runtime",
            words_time((double)r->look.stall_age * 1e-9).s);
    if (r->look.stalls > 1) {
        fprintf(out, "; that happened %" PRIu64 " times in all", r->look.stalls);
    }
    fputs(":\n\n", out);
    pto_stall_print(&r->look.stall, out);
    fputs("\nThe call has returned this as an error: the program has to act on it.\n", out);
    if (r->cause == DOCTOR_STALLED && r->n_chain) {
        fputs("Tasks that are ready run as soon as it waits in a call of the runtime, but that "
              "would make no room.\n",
              out);
    }
}

static void print_moves(FILE *out, const doctor_report *r)
{
    fprintf(out,
            "%s (%s) moves: in %s it submitted %" PRIu64 " task%s and completed %" PRIu64 ".\n",
            r->program, name_process(r).s, words_time(r->seconds).s, r->submitted,
            plural(r->submitted, "", "s"), r->completed);
    fprintf(out, "The orchestrating thread %s.\n", r->orchestrator.s);
    if (r->look.oldest.task) {
        fprintf(out, "The oldest task that is not complete is %s.\n",
                peek_name_of(&r->look.oldest).s);
    }
}

void doctor_print_line(FILE *out, const doctor_report *r)
{
    if (r->cause == DOCTOR_IDLE) {
        fprintf(out, "%s (%s) has nothing to do: every task is complete.\n", r->program,
                name_process(r).s);
    } else if (r->cause == DOCTOR_MOVES) {
        fprintf(out, "%s (%s) moves.\n", r->program, name_process(r).s);
    } else {
        doctor_print(out, r);
    }
}

static bool was_refused(const doctor_report *r)
{
    return r->look.stalls && r->look.stall_is_last;
}

void doctor_print(FILE *out, const doctor_report *r)
{
    if (r->cause == DOCTOR_MOVES) {
        print_moves(out, r);
        return;
    }
    if (r->cause == DOCTOR_ENDED) {
        fprintf(out, "%s (%s) has ended%s.\n", r->program, name_process(r).s,
                r->look.done ? " its runtime" : "");
        return;
    }
    print_seen(out, r);
    if (r->n_chain) {
        print_chain(out, r);
    }
    switch (r->cause) {
    case DOCTOR_MOVES:
    case DOCTOR_ENDED:
    case DOCTOR_CAUSES:
        break;
    case DOCTOR_STOPPED:
        fputs("cause  the process is stopped, by a signal or a debugger.\n"
              "do     let it go on: kill -CONT, or continue in the debugger.\n",
              out);
        break;
    case DOCTOR_IDLE:
        fputs("Nothing waits for the runtime: whatever the program does now is its own.\n", out);
        break;
    case DOCTOR_STALLED:
        print_stall(out, r);
        break;
    case DOCTOR_RUNS:
        print_runs(out, r);
        break;
    case DOCTOR_PENDING:
        print_pending(out, r);
        break;
    case DOCTOR_BUSY:
        print_busy(out, r);
        break;
    case DOCTOR_CALLER:
        print_caller(out, r);
        break;
    case DOCTOR_ENDS:
        fputs(
            "cause  its kernel has returned, and the scheduler has not closed it: its thread gets "
            "no processor,\n       or the kernel called pto_task_complete and then did not "
            "return.\n"
            "do     look again; see where the threads are with a debugger.\n",
            out);
        break;
    case DOCTOR_LOST:
        fputs("cause  somebody who serves it is free. That lasts only moments, unless the runtime "
              "has an error.\n"
              "do     look again. If it stays so, please report it, with these lines.\n",
              out);
        break;
    }
    if (was_refused(r) && r->cause != DOCTOR_STALLED) {
        print_stall(out, r);
    }
}
