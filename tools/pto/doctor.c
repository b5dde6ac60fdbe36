/* doctor.c - the search for the cause. See doctor.h. */
#include "doctor.h"

#include "arguments.h"
#include "commands.h"

enum { LOOKS = 4, TRIES = 5 };

/* ---- The chain ------------------------------------------------------------------------------- */

/* Appends a task. A long chain loses its middle. */
static void keep(doctor_report *r, const peek_task *t)
{
    if (r->n_chain == DOCTOR_CHAIN) {
        for (int i = DOCTOR_CHAIN / 2; i + 1 < DOCTOR_CHAIN; i++) {
            r->chain[i] = r->chain[i + 1];
        }
        r->n_chain--;
    }
    r->chain[r->n_chain++] = *t;
    r->length++;
}

/* Follows the chain from `task` to a task that waits for no other. Returns false if one of them
 * completed meanwhile. Tasks only wait for earlier tasks, so the loop ends; it also ends if a
 * corrupt window says otherwise. */
static bool follow(const peek *p, pto_task task, doctor_report *r)
{
    peek_task t;
    uint64_t order = UINT64_MAX;
    r->n_chain = r->length = 0;
    while (peek_task_of(p, task, &t) && t.order < order) {
        keep(r, &t);
        if (t.state != PEEK_WAITS) {
            return true;
        }
        order = t.order;
        task = t.waits_for;
    }
    return false;
}

/* ---- The root -------------------------------------------------------------------------------- */

/* The worker that runs the task, or -1. */
static int64_t find_runner(const peek_look *look, pto_task task)
{
    for (uint32_t i = 0; i < look->threads; i++) {
        if (look->worker[i].runs.task == task) {
            return i;
        }
    }
    return -1;
}

/* Why does a ready task not run? */
static doctor_cause why_not(const peek_look *look, const peek_task *t)
{
    bool threads = false, idle = false;
    for (uint32_t i = 0; i < look->threads; i++) {
        if (i != look->workers && look->worker[i].device == t->device &&
            look->worker[i].types >> t->type & 1) {
            threads = true;
            idle |= !look->worker[i].runs.task;
        }
    }
    const peek_worker *caller = &look->worker[look->workers];
    const bool helps = t->device == 0 && caller->types >> t->type & 1;
    if (idle || (helps && look->wait.on && !caller->runs.task)) {
        return DOCTOR_LOST;
    }
    return threads || (helps && caller->runs.task) ? DOCTOR_BUSY : DOCTOR_CALLER;
}

static doctor_cause name_cause(const peek *p, doctor_report *r)
{
    const peek_task *root = &r->chain[r->n_chain - 1];
    switch (root->state) {
    case PEEK_PENDING:
        return DOCTOR_PENDING;
    case PEEK_ENDS:
        return DOCTOR_ENDS;
    case PEEK_READY:
        return why_not(&r->look, root);
    case PEEK_RUNS:
    case PEEK_WAITS:
    case PEEK_STATES:
        break;
    }
    const int64_t runner = find_runner(&r->look, root->task);
    r->worker = runner < 0 ? UINT32_MAX : (uint32_t)runner;
    if (runner >= 0) {
        r->thread = peek_thread_of(p, r->look.worker[runner].thread);
        r->process = peek_process_of(p, r->look.worker[runner].thread);
    }
    return DOCTOR_RUNS;
}

/* ---- Snapshots ------------------------------------------------------------------------------ */

static bool is_stopped(const peek *p)
{
    const char state = peek_thread_of(p, (uint32_t)p->pid).state;
    return state == 'T' || state == 't';
}

static bool has_moved(const peek_look *a, const peek_look *b)
{
    return a->submitted != b->submitted || a->completed != b->completed;
}

static pto_status refill(const peek *p, doctor_report *r)
{
    peek_look_free(&r->look);
    return peek_look_at(p, &r->look);
}

/* Finds the cause after nothing moved between the snapshots. *found is false if something moved
 * after all. */
static pto_status find_cause(const peek *p, doctor_report *r, bool *found)
{
    peek_look after;
    const bool refused = r->look.stalls && r->look.stall_is_last;
    *found = true;
    r->n_chain = r->length = 0;
    if (is_stopped(p)) {
        r->cause = DOCTOR_STOPPED;
        return PTO_OK;
    }
    if (r->look.lost) {
        r->cause = DOCTOR_DIED;
    } else if (!r->look.oldest.task) {
        r->cause = refused ? DOCTOR_STALLED : DOCTOR_IDLE;
    } else {
        const pto_task awaited = r->look.wait.on ? r->look.wait.task : 0;
        if (!(awaited && follow(p, awaited, r)) && !follow(p, r->look.oldest.task, r)) {
            *found = false;
            return PTO_OK;
        }
        r->cause = name_cause(p, r);
        /* Waiting would run the ready tasks, but it would not make the room that was refused. */
        if (r->cause == DOCTOR_CALLER && refused && !r->look.wait.on) {
            r->cause = DOCTOR_STALLED;
        }
    }
    PTO_TRY(peek_look_at(p, &after));
    *found = !has_moved(&r->look, &after) && r->look.wait.serial == after.wait.serial;
    /* A ready task may have just been taken: then it is not lost. */
    if (*found && r->n_chain) {
        const peek_task *root = &r->chain[r->n_chain - 1];
        peek_task again;
        *found = peek_task_of(p, root->task, &again) && again.state == root->state;
    }
    peek_look_free(&after);
    return PTO_OK;
}

static bool is_gone(const peek *p, const doctor_report *r)
{
    return r->look.done || !peek_is_alive(p);
}

pto_status doctor_examine(const peek *p, double seconds, doctor_report *r)
{
    peek_look first;
    memset(r, 0, sizeof *r);
    r->pid = r->process = p->pid;
    r->number = p->number;
    r->windows = p->windows;
    memcpy(r->program, p->program, sizeof r->program);
    PTO_TRY(peek_look_at(p, &first));
    pto_status s = PTO_OK;
    bool moved = false, found = false;
    for (int i = 1; i < LOOKS && s == PTO_OK && !moved; i++) {
        peek_pause(seconds / (LOOKS - 1));
        s = refill(p, r);
        moved = s == PTO_OK && has_moved(&first, &r->look);
    }
    for (int i = 0; i < TRIES && s == PTO_OK && !moved && !found && !is_gone(p, r); i++) {
        s = find_cause(p, r, &found);
        if (s == PTO_OK && !found) {
            s = refill(p, r);
            moved = s == PTO_OK && has_moved(&first, &r->look);
        }
    }
    if (s == PTO_OK) {
        r->seconds = (double)(r->look.when - first.when) * 1e-9;
        r->submitted = r->look.submitted - first.submitted;
        r->completed = r->look.completed - first.completed;
        r->orchestrator = peek_wait_words(p, &r->look, false);
        if (!found) {
            r->n_chain = 0;
            r->cause = is_gone(p, r) ? DOCTOR_ENDED : DOCTOR_MOVES;
        } else if (r->cause == DOCTOR_RUNS && r->thread.known) {
            const peek_thread then = r->thread;
            peek_pause(0.05); /* more than one tick of the CPU clock */
            r->thread = peek_thread_of(p, r->look.worker[r->worker].thread);
            r->uses_cpu = r->thread.known && r->thread.ticks > then.ticks;
        }
    }
    peek_look_free(&first);
    return s;
}

void doctor_free(doctor_report *r)
{
    peek_look_free(&r->look);
}

bool doctor_hangs(const doctor_report *r)
{
    return r->cause > DOCTOR_IDLE || r->cause == DOCTOR_STOPPED;
}

/* ---- The command ----------------------------------------------------------------------------- */

enum { WELL = 0, HANGS = 1, NO_ANSWER = 2 };

static int no_answer(void)
{
    peek_refuse("doctor");
    return NO_ANSWER;
}

static int examine_one(int pid, uint32_t number, double seconds)
{
    peek p;
    if (peek_open(&p, pid, number) != PTO_OK) {
        return no_answer();
    }
    doctor_report r;
    int status = NO_ANSWER;
    if (doctor_examine(&p, seconds, &r) != PTO_OK) {
        no_answer();
    } else {
        doctor_print(stdout, &r);
        status = doctor_hangs(&r) ? HANGS : WELL;
    }
    doctor_free(&r);
    peek_close(&p);
    return status;
}

/* Examines all runtimes: the full diagnosis of those that hang, one line about the others. */
static int examine_all(int pid, uint32_t windows, double seconds)
{
    int status = WELL;
    for (uint32_t i = 0; i < windows; i++) {
        peek p;
        if (peek_open(&p, pid, i) != PTO_OK) {
            if (i == 0) {
                return no_answer();
            }
            break; /* runtimes were destroyed meanwhile */
        }
        doctor_report r;
        const pto_status s = doctor_examine(&p, seconds, &r);
        bool stopped = false;
        if (s == PTO_OK) {
            const bool hangs = doctor_hangs(&r);
            if (i) {
                putchar('\n');
            }
            (hangs ? doctor_print : doctor_print_line)(stdout, &r);
            status = hangs ? HANGS : status;
            stopped = r.cause == DOCTOR_STOPPED; /* the whole process is stopped */
        }
        doctor_free(&r);
        peek_close(&p);
        if (s != PTO_OK) {
            return no_answer();
        }
        if (stopped) {
            break;
        }
    }
    return status;
}

int command_doctor(int argc, char **argv)
{
    const char *operand, *wait = NULL;
    const argument options[] = {
        {"wait", "SECONDS", "how long to watch for progress, 0.03 to 3600 (0.6)", NULL, &wait},
    };
    const arguments a = {
        .command = "doctor",
        .operands = "PID",
        .about =
            "Finds out what a hanging program waits for, and what to do about it. If a process has "
            "several runtimes,\nall are examined, one after the other; PID:N examines only runtime "
            "N. Exit status 0: it makes progress\nor is idle; 1: it hangs; 2: there is no such "
            "process or runtime, or it cannot be read.\n",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .most_operands = 1,
    };
    const int over = arguments_read(&a, argc, argv, &operand);
    if (over != ARGUMENTS_RUN) {
        return over;
    }
    int pid;
    unsigned number;
    double seconds = 0.6;
    if (!operand) {
        fprintf(stderr,
                "pto doctor: which process? (pto top lists the processes with a runtime)\n");
        return 2;
    }
    if (!arguments_process("doctor", operand, &pid, &number) ||
        (wait && !arguments_seconds("doctor", "wait", wait, 0.03, 3600, &seconds))) {
        return 2;
    }
    const uint32_t windows = strchr(operand, ':') ? 1 : peek_windows(pid);
    return windows > 1 ? examine_all(pid, windows, seconds) : examine_one(pid, number, seconds);
}
