/* doctor_words.c - prints the diagnosis of `pto doctor`. */
#include <inttypes.h>

#include "doctor.h"
#include "words.h"

const char *doctor_cause_name(doctor_cause cause)
{
    static const char *const names[] = {"moves",   "ended", "stopped", "idle", "stalled", "runs",
                                        "pending", "busy",  "caller",  "ends", "lost",    "died"};
    return cause < DOCTOR_CAUSES ? names[cause] : "unknown";
}

/* "worker 2 (thread 4711)", "sim:0 worker 1 (thread 4712)", "nvidia:0 block 7", or the orchestrating
 * thread. */
static peek_words name_worker(const doctor_report *r, uint32_t worker)
{
    peek_words w;
    const peek_worker *it = &r->look.worker[worker];
    if (worker == r->look.workers || !it->thread) {
        snprintf(w.s, sizeof w.s, "%s", it->name);
    } else {
        snprintf(w.s, sizeof w.s, "%s (thread %u)", it->name, it->thread);
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

/* ", 1 running, 2 waiting.": the unfinished tasks, without zero counts. */
static void print_unfinished(FILE *out, const peek_look *l)
{
    const struct {
        const char *state;
        uint64_t count;
    } states[] = {
        {"running", l->states[PEEK_RUNS] + l->states[PEEK_ENDS]},
        {"pending", l->states[PEEK_PENDING]},
        {"ready", l->states[PEEK_READY]},
        {"waiting", l->states[PEEK_WAITS]},
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        if (states[i].count) {
            fprintf(out, ", %" PRIu64 " %s", states[i].count, states[i].state);
        }
    }
    fputs(".\n", out);
}

static void print_seen(FILE *out, const doctor_report *r)
{
    const peek_look *l = &r->look;
    fprintf(out, "%s (%s): %" PRIu64 " task%s submitted, %" PRIu64 " complete", r->program,
            name_process(r).s, l->submitted, plural(l->submitted, "", "s"), l->completed);
    print_unfinished(out, l);
    if (l->cancelled) {
        fputs("The run was cancelled: tasks that have not started are skipped.\n", out);
    }
    fprintf(out, "The orchestrating thread %s", r->orchestrator.s);
    if (l->wait.on && l->wait.since) {
        fprintf(out, ". It has been asleep for %s", words_time((double)l->wait.since * 1e-9).s);
    }
    fputs(".\n", out);
    if (l->n_ranges) {
        fprintf(out, "It is in range %s.\n", peek_range_words(l).s);
    }
}

static void print_chain(FILE *out, const doctor_report *r)
{
    static const char *const states[] = {
        [PEEK_WAITS] = "waits for",
        [PEEK_READY] = "is ready but does not run",
        [PEEK_RUNS] = "is running",
        [PEEK_PENDING] = "is pending",
        [PEEK_ENDS] = "has ended but is not complete",
    };
    fputc('\n', out);
    for (uint32_t i = 0; i < r->n_chain; i++) {
        const peek_task *t = &r->chain[i];
        if (r->length > r->n_chain && i == DOCTOR_CHAIN / 2) {
            fprintf(out, "  ... and %u more ...\n", r->length - r->n_chain);
        }
        fprintf(out, "  %s %s", peek_name_of(t).s, states[t->state]);
        if (t->state == PEEK_WAITS && t->left > 1) {
            fprintf(out, " %u tasks, first for", t->left);
        }
        fputc('\n', out);
    }
    fputc('\n', out);
}

/* What to do about a kernel that does not return. */
static void print_what_it_does(FILE *out, const doctor_report *r)
{
    const peek_worker *w = r->worker < r->look.threads ? &r->look.worker[r->worker] : NULL;
    if (w && w->block && !w->thread) {
        fprintf(
            out,
            "do     nothing if the kernel is expected to take this long. Otherwise see where its "
            "block is:\n"
            "         cuda-gdb -p %d -batch -ex 'info cuda kernels' -ex backtrace\n"
            "       All threads of the block have to reach each __syncthreads of the kernel.\n",
            r->process);
        return;
    }
    fprintf(
        out,
        "do     nothing if the kernel is expected to take this long. Otherwise get a backtrace:\n"
        "         gdb -p %d -batch -ex 'thread apply all backtrace'\n"
        "       A kernel must not wait for other tasks.%s",
        r->process,
        w && w->block ? "\n"
                      : " A kernel that waits for a device should return\n       PTO_PENDING.\n");
}

static void print_runs(FILE *out, const doctor_report *r)
{
    const peek_task *t = &r->chain[r->n_chain - 1];
    fprintf(out, "cause  the kernel '%s' has been running for at least %s", t->kernel,
            words_time(r->seconds).s);
    if (r->worker < r->look.threads) {
        fprintf(out, ", on %s", name_worker(r, r->worker).s);
    }
    fputs(".\n", out);
    if (r->uses_cpu) {
        fputs("       Its thread uses CPU time: it computes or spins.\n", out);
    } else if (r->thread.known) {
        fprintf(out, "       Its thread sleeps%s%s: it waits for something outside the runtime.\n",
                *r->thread.channel ? " in " : "", r->thread.channel);
    }
    print_what_it_does(out, r);
    if (r->look.place == PTO_PLACE_PROCESS) {
        fputs("       pto_cancel ends a kernel that does not return, with its process, after "
              "PTO_GRACE_MS milliseconds.\n",
              out);
    }
    if (r->worker == r->look.workers && !r->uses_cpu) {
        fputs("       It runs on the thread that submits and waits. Does that thread hold a lock "
              "that "
              "the kernel takes?\n",
              out);
    }
}

static void print_busy(FILE *out, const doctor_report *r)
{
    const peek_task *t = &r->chain[r->n_chain - 1];
    const char *type = pto_worker_type_name((pto_worker_type)t->type);
    const bool blocks = r->look.place == PTO_PLACE_GPU && t->device == 1 &&
                        t->type != PTO_ACCELERATOR;
    fprintf(out, "cause  all %s that serve %s tasks are busy:\n", blocks ? "blocks" : "threads",
            type);
    for (uint32_t i = 0, told = 0; i < r->look.threads && told < 8; i++) {
        const peek_worker *w = &r->look.worker[i];
        if (w->device == t->device && w->types >> t->type & 1 && w->runs.task) {
            fprintf(out, "         %s: %s\n", name_worker(r, i).s, peek_name_of(&w->runs).s);
            told++;
        }
    }
    fprintf(
        out,
        "do     nothing if these kernels will end. They must not wait for the ready task: submit "
        "the code that\n"
        "       waits as a task that depends on it. If they are slow, configure more workers "
        "for %s (%s).\n",
        type, blocks ? "PTO_GPU_WORKERS" : "PTO_WORKERS");
}

static void print_caller(FILE *out, const doctor_report *r)
{
    const peek_task *t = &r->chain[r->n_chain - 1];
    const char *type = pto_worker_type_name((pto_worker_type)t->type);
    const bool helps = r->look.worker[r->look.workers].types >> t->type & 1;
    if (!helps) {
        fprintf(out, "cause  no thread serves %s tasks.\n", type);
        if (r->look.place == PTO_PLACE_PROCESS) {
            fprintf(out,
                    "do     attach a process that does: pto worker --attach NAME --kernels LIBS "
                    "--types %s\n",
                    type);
            return;
        }
    } else {
        fprintf(out,
                "cause  only the orchestrating thread serves %s tasks. It runs tasks only while it "
                "waits in a call of\n"
                "       the runtime, and now it is in user code.\n",
                type);
    }
    fprintf(out,
            "do     call pto_wait, pto_wait_task or pto_read there, or configure a worker for %s "
            "tasks\n"
            "       (PTO_WORKERS, or workers and worker_types of pto_config).\n",
            type);
}

static void print_pending(FILE *out, const doctor_report *r)
{
    const peek_task *t = &r->chain[r->n_chain - 1];
    fprintf(
        out,
        "cause  the kernel '%s' returned PTO_PENDING, but pto_task_complete has not been called "
        "for the task.\n"
        "do     find out why the program did not call\n"
        "         pto_task_complete(rt, %" PRIu64 ", status)\n"
        "       where %" PRIu64 " is the handle of the task (call->task in its kernel).\n"
        "       It must be called on every path, also after a failure.\n",
        t->kernel, t->task, t->task);
}

static void print_stall(FILE *out, const doctor_report *r)
{
    fprintf(out, "\n%s was refused, %s ago",
            r->look.wait.on ? "An earlier call to the runtime" : "The last call to the runtime",
            words_time((double)r->look.stall_age * 1e-9).s);
    if (r->look.stalls > 1) {
        fprintf(out, "; there were %" PRIu64 " refusals in total", r->look.stalls);
    }
    fputs(":\n\n", out);
    pto_stall_print(&r->look.stall, out);
    fputs("\nThe call returned this as an error, and the program must handle it.\n", out);
    if (r->cause == DOCTOR_STALLED && r->n_chain) {
        fputs(
            "Ready tasks run as soon as the program waits in a call of the runtime, but that makes "
            "no room.\n",
            out);
    }
}

static void print_moves(FILE *out, const doctor_report *r)
{
    fprintf(out,
            "%s (%s) makes progress: in %s it submitted %" PRIu64 " task%s and completed %" PRIu64
            ".\n",
            r->program, name_process(r).s, words_time(r->seconds).s, r->submitted,
            plural(r->submitted, "", "s"), r->completed);
    fprintf(out, "The orchestrating thread %s.\n", r->orchestrator.s);
    if (r->look.oldest.task) {
        fprintf(out, "The oldest unfinished task is %s.\n", peek_name_of(&r->look.oldest).s);
    }
}

void doctor_print_line(FILE *out, const doctor_report *r)
{
    if (r->cause == DOCTOR_IDLE) {
        fprintf(out, "%s (%s) is idle: all tasks are complete.\n", r->program, name_process(r).s);
    } else if (r->cause == DOCTOR_MOVES) {
        fprintf(out, "%s (%s) makes progress.\n", r->program, name_process(r).s);
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
        fprintf(out, "%s (%s) has %s.\n", r->program, name_process(r).s,
                r->look.done ? "destroyed its runtime" : "ended");
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
              "do     resume it: kill -CONT, or continue in the debugger.\n",
              out);
        break;
    case DOCTOR_IDLE:
        fputs("The runtime has nothing to do: the program is in user code.\n", out);
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
        fputs("cause  the task has ended, but the scheduler has not completed it. Either the "
              "scheduler thread gets no\n       CPU time, or the kernel called pto_task_complete "
              "and did not return.\n"
              "do     run pto doctor again; look at the threads with a debugger.\n",
              out);
        break;
    case DOCTOR_DIED:
        fprintf(out,
                "cause  %" PRIu64
                " worker process%s ended, and the program has not recovered. Calls "
                "that would wait return\n       PTO_WORKER_LOST.\n"
                "do     call pto_recover there, or destroy the runtime with PTO_CANCEL.\n",
                r->look.lost, r->look.lost == 1 ? " has" : "es have");
        break;
    case DOCTOR_LOST:
        fputs("cause  a thread that serves this task is idle. This should last only moments; "
              "otherwise the runtime\n       has a bug.\n"
              "do     run pto doctor again. If nothing changes, please report it with this "
              "output.\n",
              out);
        break;
    }
    if (was_refused(r) && r->cause != DOCTOR_STALLED) {
        print_stall(out, r);
    }
}
