/* helper.c - the helper of a runtime whose scheduler's side runs in worker processes. See process.h.
 */
#define _GNU_SOURCE /* close_range, prctl, signalfd */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "scheduler/rebuild.h"
#include "worker/end.h"
#include "worker/pause.h"
#include "worker/process.h"

#define PAUSE_MOST_NS                                                                              \
    UINT64_C(10000000000) /* a worker that takes longer to end its step is stuck */
#define NAP_US 20         /* between two looks at a worker */
#define NOT_KNOWN (-1)    /* how a process ended that another helper had started */
#define OVERDUE (-2)      /* it was ended: its kernel ran on for too long after a cancel */

typedef struct helper {
    ptoi_helper_start start;
    ptoi_scheduler *s;
    uint32_t n;     /* worker processes */
    uint32_t n_own; /* of these, the first ones are started here. The others may attach */
    ptoi_process *processes;
    int *ended;  /* by process: how it ended last, as waitpid says */
    int signals; /* signalfd of SIGCHLD */
} helper;

/* ---- Worker processes ---- */

static pto_status start_process(helper *h, ptoi_process *p)
{
    const pid_t self = getpid(), pid = fork();
    if (pid < 0) {
        return ptoi_fail(PTO_SYSTEM, "a worker process: fork: %s", strerror(errno));
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) {
            _exit(1); /* the helper died before it was said what to do then */
        }
        close(h->signals);
        close(h->start.channel);
        prctl(PR_SET_NAME, "pto-worker");
        ptoi_process_run(&h->start, p);
    }
    p->pid = pid;
    h->ended[p->number - 1] = NOT_KNOWN;
    return PTO_OK;
}

/* Not waited for: a process that ends while it starts is a loss like any other. */
static pto_status start_missing(helper *h)
{
    for (uint32_t i = 0; i < h->n_own; i++) {
        if (!h->processes[i].pid) {
            PTO_TRY(start_process(h, &h->processes[i]));
        }
    }
    return PTO_OK;
}

/* Takes note of worker processes that have ended, and tells the program. Those that end because the
 * runtime does are no loss. */
static void reap(helper *h)
{
    int how;
    for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;) {
        for (uint32_t i = 0; i < h->n_own; i++) {
            ptoi_process *p = &h->processes[i];
            if (p->pid == pid) {
                const ptoi_message m = {.kind = PTOI_SAY_ENDED,
                                        .process = p->number,
                                        .first = p->first,
                                        .count = p->count,
                                        .pid = pid,
                                        .value = h->ended[i] == OVERDUE,
                                        .how = how};
                p->pid = 0;
                h->ended[i] = m.value ? OVERDUE : how;
                (void)ptoi_channel_send(h->start.channel, &m, NULL, 0);
            }
        }
    }
}

/* ---- Who is dead, and how a task ended ---- */

static bool is_dead(const void *context, uint32_t worker)
{
    const helper *h = context;
    for (uint32_t i = 0; i < h->n; i++) {
        const ptoi_process *p = &h->processes[i];
        if (worker - p->first < p->count) {
            return !p->pid;
        }
    }
    return true;
}

static void name_ending(const helper *h, uint32_t worker, char *text, size_t bytes)
{
    snprintf(text, bytes, "its worker process ended");
    for (uint32_t i = 0; i < h->n; i++) {
        if (worker - h->processes[i].first < h->processes[i].count) {
            const int how = h->ended[i];
            if (i >= h->n_own) {
                snprintf(text, bytes, "its worker process, which had attached, has ended");
            } else if (how == NOT_KNOWN) {
                snprintf(text, bytes, "its worker process ended with its helper");
            } else if (how == OVERDUE) {
                snprintf(text, bytes, "it ran on for %u ms after a cancel, and was ended",
                         h->start.settings->config.grace_ms);
            } else if (WIFSIGNALED(how)) {
                snprintf(text, bytes, "its worker process was killed by signal %d (SIG%s)",
                         WTERMSIG(how), sigabbrev_np(WTERMSIG(how)));
            } else {
                snprintf(text, bytes, "its worker process exited with status %d", WEXITSTATUS(how));
            }
        }
    }
}

static void failed(const void *context, uint32_t index, bool died, pto_status status)
{
    const helper *h = context;
    const ptoi_view *view = &h->s->view;
    const uint32_t line = h->s->n_workers + PTOI_LINE_OTHERS;
    char text[128] = "completed with this status";
    if (died) {
        name_ending(h, view->states[index].worker, text, sizeof text);
    }
    ptoi_count64(&view->workers[line].tally.failed, 1);
    ptoi_end_keep_failure(h->s, &view->failures[line], &view->slots[index], status, text);
    if (h->start.logs) {
        const uint64_t task = ptoi_task_of(&view->slots[index]);
        ptoi_log_failed(h->s->foreign_log, task, (uint32_t)status, text);
        ptoi_log_end(h->s->foreign_log, task, PTOI_FAILED);
    }
}

/* ---- Messages ---- */

static void kill_busy(helper *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        const ptoi_process *p = &h->processes[i];
        for (uint32_t w = p->first; w < p->first + p->count; w++) {
            if (p->pid > 0 && ptoi_load_sc32(&h->s->view.workers[w].activity) == PTOI_KERNEL) {
                h->ended[i] = OVERDUE;
                kill(p->pid, SIGKILL);
            }
        }
    }
}

/* A process has attached, left or died. Its lines may have new users as soon as it has left: it is
 * forgotten then. */
static void take_note(helper *h, const ptoi_message *m)
{
    const bool left = m->kind == PTOI_SAY_BYE, died = m->kind == PTOI_SAY_ENDED;
    if (m->process <= h->n_own || m->process > h->n) {
        return;
    }
    h->processes[m->process - 1] = (ptoi_process){.number = 0};
    if (!left) {
        h->processes[m->process - 1] = (ptoi_process){
            .number = m->process, .first = m->first, .count = m->count, .pid = died ? 0 : m->pid};
    }
    if (died) {
        (void)ptoi_channel_send(h->start.channel, m, NULL, 0);
    }
}

/* All children end with this process (PR_SET_PDEATHSIG). Those that end well are waited for, so
 * that what they print is out. */
static _Noreturn void leave(helper *h)
{
    if (ptoi_load_sc32(&h->s->view.header->stop) == PTOI_END) {
        int how = 0;
        for (pid_t pid; (pid = waitpid(-1, &how, WUNTRACED)) > 0 || errno == EINTR;) {
            if (pid > 0 && WIFSTOPPED(how)) {
                kill(pid, SIGCONT); /* or it would never leave */
            }
        }
    }
    _exit(0);
}

/* Takes a message, if one is there. Returns whether it asks for a rebuild. */
static bool take_message(helper *h)
{
    ptoi_message m = {.kind = 0};
    int none[PTOI_MESSAGE_FILES];
    const int got = ptoi_channel_receive(h->start.channel, &m, none, false);
    if (got < 0) {
        leave(h);
    }
    if (got > 0 && m.kind == PTOI_SAY_KILL) {
        kill_busy(h);
    } else if (got > 0 && m.kind != PTOI_SAY_REBUILD) {
        take_note(h, &m);
    }
    return got > 0 && m.kind == PTOI_SAY_REBUILD;
}

/* ---- Rebuild ---- */

/* A process may die meanwhile, or, if it has attached, leave: then it is not waited for. */
static pto_status await_pause(helper *h)
{
    const uint64_t since = ptoi_os_clock();
    for (uint32_t i = 0; i < h->n; i++) {
        const ptoi_process *p = &h->processes[i];
        while (p->pid && !ptoi_pause_is_reached(h->s, p->number, p->first, p->count)) {
            if (ptoi_os_clock() - since > PAUSE_MOST_NS) {
                return ptoi_fail(PTO_WORKER_LOST,
                                 "recover: worker process %d neither runs a kernel nor pauses: is "
                                 "it stopped? kill it, and recover again",
                                 p->pid);
            }
            usleep(NAP_US);
            reap(h);
            (void)take_message(h); /* no rebuild: the program waits for this one */
        }
    }
    return PTO_OK;
}

static pto_status rebuild(helper *h)
{
    if (h->s->view.header->asymmetric && !ptoi_os_barrier(true)) {
        return ptoi_fail(PTO_SYSTEM, "recover: membarrier: %s", strerror(errno)); /* W17 */
    }
    PTO_TRY(await_pause(h));
    reap(h);
    for (uint32_t i = 0; i < h->n; i++) { /* nobody else writes the lines of the dead */
        const ptoi_process *p = &h->processes[i];
        if (!p->pid && p->count) {
            ptoi_rebuild_lines(h->s, p->number, p->first, p->count);
        }
    }
    ptoi_rebuild_window(
        &(ptoi_rebuild){.s = h->s, .is_dead = is_dead, .failed = failed, .context = h});
    for (uint32_t i = h->n_own; i < h->n; i++) { /* the lines of the dead may have new users now */
        if (!h->processes[i].pid) {
            h->processes[i] = (ptoi_process){.number = 0};
        }
    }
    return start_missing(h);
}

/* ---- The loop ---- */

static void say_ready(const helper *h, pto_status status)
{
    ptoi_message m = {.kind = PTOI_SAY_READY, .how = (int32_t)status};
    snprintf(m.text, sizeof m.text, "%s", status == PTO_OK ? "" : pto_error_detail());
    (void)ptoi_channel_send(h->start.channel, &m, NULL, 0);
}

static _Noreturn void serve(helper *h)
{
    struct pollfd files[] = {{.fd = h->start.channel, .events = POLLIN},
                             {.fd = h->signals, .events = POLLIN},
                             {.fd = h->start.program, .events = POLLIN}};
    for (;;) {
        if (poll(files, 3, -1) < 0 && errno != EINTR) {
            leave(h);
        }
        if (files[2].revents) {
            _exit(0); /* the program is gone */
        }
        if (files[1].revents) {
            struct signalfd_siginfo ignored;
            const ssize_t got = read(h->signals, &ignored, sizeof ignored);
            (void)got;
            reap(h);
        }
        if (take_message(h)) {
            say_ready(h, rebuild(h));
        }
    }
}

/* ---- Life ---- */

/* Keeps no file of the program open but the standard ones and our own. */
static void close_files(ptoi_helper_start *start)
{
    int keep[PTOI_PARTS + 3], n = 0;
    for (int p = 0; p < PTOI_PARTS; p++) {
        keep[n++] = start->files[p];
    }
    keep[n++] = start->channel;
    keep[n++] = start->life;
    if (start->program >= 0) {
        keep[n++] = start->program;
    }
    for (int i = 0; i < n; i++) { /* sorted, by insertion */
        for (int k = i; k > 0 && keep[k] < keep[k - 1]; k--) {
            const int file = keep[k];
            keep[k] = keep[k - 1];
            keep[k - 1] = file;
        }
    }
    unsigned from = STDERR_FILENO + 1;
    for (int i = 0; i < n; i++) {
        if ((unsigned)keep[i] > from) {
            syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0);
        }
        from = (unsigned)keep[i] + 1 > from ? (unsigned)keep[i] + 1 : from;
    }
    syscall(SYS_close_range, from, ~0u, 0);
}

/* Maps the window anew and forgets the program's mapping of it. */
static pto_status map_window(ptoi_helper_start *start)
{
    ptoi_mapping old = start->mapping, made;
    const bool elsewhere = start->settings->config.map_twice;
    if (!elsewhere) {
        ptoi_window_unmap(&old);
    }
    PTO_TRY(ptoi_window_map(start->files, &start->mapping, &made));
    if (elsewhere) {
        ptoi_window_unmap(&old);
    }
    start->mapping = made;
    return ptoi_os_protect(made.memory[PTOI_PART_ORCHESTRATOR], made.bytes[PTOI_PART_ORCHESTRATOR]);
}

static pto_status begin(helper *h)
{
    const ptoi_settings *settings = h->start.settings;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    h->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    const uint32_t each = settings->config.process_threads;
    h->n = settings->n_processes;
    h->n_own = (settings->n_started + each - 1) / each;
    h->processes = calloc(h->n + (size_t)1, sizeof *h->processes);
    h->ended = calloc(h->n + (size_t)1, sizeof *h->ended);
    if (h->signals < 0 || !h->processes || !h->ended) {
        return ptoi_fail(PTO_SYSTEM, "the helper: %s", strerror(errno));
    }
    for (uint32_t i = 0; i < h->n_own; i++) {
        h->processes[i] = ptoi_process_plan(settings, i + 1);
        h->ended[i] = NOT_KNOWN;
    }
    PTO_TRY(map_window(&h->start));
    PTO_TRY(ptoi_scheduler_create_as(PTOI_ROLE_HELPER, settings, &h->start.mapping, NULL, &h->s));
    if (h->start.logs) {
        ptoi_scheduler_log(h->s, h->start.logs);
    }
    return PTO_OK;
}

void ptoi_helper_run(const ptoi_helper_start *start)
{
    helper h = {.start = *start};
    ptoi_os_block_signals();
    signal(SIGCHLD, SIG_DFL); /* if it is ignored, nobody can be waited for */
    prctl(PR_SET_NAME, "pto-helper");
    close_files(&h.start);
    __fpurge(stdout); /* text of the program that the program prints itself */
    __fpurge(stderr);
    (void)ptoi_channel_send(h.start.channel,
                            &(ptoi_message){.kind = PTOI_SAY_READY, .pid = getpid()}, NULL, 0);
    const pto_status status = begin(&h);
    if (status != PTO_OK) {
        say_ready(&h, status);
        _exit(1);
    }
    serve(&h); /* the first request is to rebuild: it starts all worker processes */
}
