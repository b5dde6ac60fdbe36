#define _GNU_SOURCE /* sigabbrev_np */
#include "orchestrator/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pto/process.h>

#include "base/code.h"
#include "base/error.h"
#include "base/source.h"
#include "base/thread.h"
#include "orchestrator/attach.h"
#include "orchestrator/post.h"
#include "orchestrator/refill.h"
#include "orchestrator/trace.h"

#define LIFE_MOST_MS                                                                               \
    1000               /* killed processes are gone by then; a process that a kernel has forked may
                             live on */
#define RECOVER_MOST 4 /* helpers that die during one recovery */

/* The first process that was lost since the last recovery. */
typedef struct loss {
    uint32_t count; /* of processes */
    bool helper;    /* the helper itself, and all worker processes with it */
    bool overdue;   /* it was ended: its kernel ran on after a cancel */
    bool attached;  /* a process that had attached: nobody knows how it ended */
    int32_t pid;
    int how;       /* as waitpid says */
    pto_task task; /* that ran there; 0: none */
} loss;

struct ptoi_processes {
    ptoi_code code; /* loaded when the helper was forked */
    int channel;    /* our end */
    int helper;     /* pidfd */
    int life;       /* readable when the helper and all worker processes have ended */
    int32_t helper_pid;
    int wake; /* eventfd: a cancel, or the end of the monitor */
    ptoi_a32 ending;
    pthread_t monitor;
    bool monitored;

    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t changed;
    loss loss;
    bool answered; /* the helper has said that it is ready */
    pto_status answer;
    char text[sizeof((ptoi_message *)0)->text];
};

/* ---- The monitor ---- */

/* Which task the process ran: the first of its workers that is in a kernel. */
static pto_task running_task(const pto_runtime *rt, const ptoi_message *m)
{
    const uint32_t most = rt->settings.n_workers;
    for (uint32_t i = m->first; i < most && i - m->first < m->count; i++) {
        const ptoi_worker_line *line = &rt->view.workers[i];
        if (ptoi_get32(&line->activity) == PTOI_KERNEL) {
            return ptoi_get64(&line->task);
        }
    }
    return 0;
}

void ptoi_process_tell_helper(pto_runtime *rt, const ptoi_message *m)
{
    (void)ptoi_channel_send(rt->processes->channel, m, NULL, 0);
}

static void note_loss(pto_runtime *rt, const loss *l)
{
    struct ptoi_processes *p = rt->processes;
    pthread_mutex_lock(&p->lock);
    const uint32_t before = p->loss.count;
    if (!before || l->helper) {
        p->loss = *l;
    }
    p->loss.count = before + 1;
    ptoi_set64(&rt->view.header->lost, p->loss.count);
    ptoi_scheduler_set_lost(rt->scheduler, true);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void take_message(pto_runtime *rt, const ptoi_message *m)
{
    struct ptoi_processes *p = rt->processes;
    if (m->kind == PTOI_SAY_ENDED && ptoi_load_sc32(&rt->view.header->stop) != PTOI_END) {
        note_loss(rt, &(loss){.pid = m->pid,
                              .how = m->how,
                              .overdue = m->value != 0,
                              .attached = ptoi_attach_has_ended(rt, m->process),
                              .task = running_task(rt, m)});
    } else if (m->kind == PTOI_SAY_READY) {
        if (m->how == PTO_OK) {
            ptoi_attach_recovered(rt);
        }
        pthread_mutex_lock(&p->lock);
        p->answered = true;
        p->answer = (pto_status)m->how;
        memcpy(p->text, m->text, sizeof p->text);
        if (p->answer == PTO_OK) { /* it knows of all processes whose end it has told before */
            p->loss.count = 0;
            ptoi_set64(&rt->view.header->lost, 0);
            ptoi_scheduler_set_lost(rt->scheduler, false);
        }
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
}

/* A kernel may have called pto_cancel, and tells nobody: the monitor looks now and then. */
#define LOOK_MS 50

/* Milliseconds until kernels that ignore a cancel are to be ended, or until the monitor has to look for
 * a cancel; -1: there is no such time. */
static int time_left(const pto_runtime *rt, uint64_t cancelled)
{
    const uint64_t grace = rt->settings.config.grace_ms * UINT64_C(1000000);
    const uint64_t now = ptoi_os_clock();
    if (!cancelled || !grace) {
        return grace ? LOOK_MS : -1;
    }
    return now - cancelled >= grace ? 0 : (int)((grace - (now - cancelled)) / 1000000 + 1);
}

static void *monitor(void *context)
{
    pto_runtime *rt = context;
    struct ptoi_processes *p = rt->processes;
    uint64_t cancelled = 0; /* when; 0: not, or the kernels were ended already */
    bool ended = false, gone = false;
    while (!ptoi_load_sc32(&p->ending)) {
        struct pollfd files[3 + PTOI_ATTACH_FILES] = {
            {.fd = p->wake, .events = POLLIN},
            {.fd = gone ? -1 : p->channel, .events = POLLIN},
            {.fd = gone ? -1 : p->helper, .events = POLLIN}};
        const size_t more = ptoi_attach_files(rt, files + 3);
        (void)poll(files, 3 + more, time_left(rt, cancelled));
        uint64_t count;
        const bool again = read(p->wake, &count, sizeof count) == (ssize_t)sizeof count;
        if (!ptoi_is_cancelled(&rt->view)) {
            cancelled = 0; /* pto_clear_error: all kernels have returned */
            ended = false;
        } else if (!cancelled && (again || !ended)) {
            cancelled = ptoi_os_clock();
        }
        if (time_left(rt, cancelled) == 0) {
            cancelled = 0;
            ended = true;
            (void)ptoi_channel_send(p->channel, &(ptoi_message){.kind = PTOI_SAY_KILL}, NULL, 0);
        }
        ptoi_message m = {.kind = 0};
        int none[PTOI_MESSAGE_FILES], got = gone ? 0 : 1;
        while (got > 0 && (got = ptoi_channel_receive(p->channel, &m, none, false)) > 0) {
            take_message(rt, &m);
        }
        ptoi_attach_serve(rt, files + 3);
        if (!gone && (got < 0 || files[2].revents)) {
            gone = true;
            note_loss(rt, &(loss){.helper = true, .pid = p->helper_pid});
        }
    }
    return NULL;
}

static void wake_monitor(const struct ptoi_processes *p)
{
    const uint64_t one = 1;
    const ssize_t written = write(p->wake, &one, sizeof one); /* it cannot be full */
    (void)written;
}

static pto_status start_monitor(pto_runtime *rt)
{
    struct ptoi_processes *p = rt->processes;
    ptoi_store_sc32(&p->ending, 0);
    const int why = ptoi_os_thread(&p->monitor, monitor, rt);
    p->monitored = why == 0;
    return why ? ptoi_fail(PTO_SYSTEM, "create: the monitor of worker processes: %s", strerror(why))
               : PTO_OK;
}

static void stop_monitor(struct ptoi_processes *p)
{
    if (p->monitored) {
        ptoi_store_sc32(&p->ending, 1);
        wake_monitor(p);
        pthread_join(p->monitor, NULL);
        p->monitored = false;
    }
}

void ptoi_process_cancelled(const pto_runtime *rt)
{
    if (rt->processes && rt->settings.config.grace_ms) {
        wake_monitor(rt->processes);
    }
}

/* ---- The helper ---- */

/* Forks twice, so that the helper is no child of the program, whose own waits do not see it end. (The
 * process in between ends at once. A handler of SIGCHLD sees that.) */
static pto_status fork_helper(const ptoi_helper_start *start, int ours)
{
    const pid_t between = fork();
    if (between < 0) {
        return ptoi_fail(PTO_SYSTEM, "create: fork of the helper: %s", strerror(errno));
    }
    if (between == 0) {
        if (fork() == 0) {
            close(ours);
            ptoi_helper_run(start);
        }
        _exit(0); /* if there is no helper, its end of the channel is closed now */
    }
    while (waitpid(between, NULL, 0) < 0 && errno == EINTR) {
    }
    return PTO_OK;
}

/* The first word of the helper is its process id. */
static pto_status meet_helper(struct ptoi_processes *p)
{
    ptoi_message m = {.kind = 0};
    int none[PTOI_MESSAGE_FILES];
    if (ptoi_channel_receive(p->channel, &m, none, true) <= 0) {
        return ptoi_fail(PTO_SYSTEM, "create: the helper of the worker processes died, or could "
                                     "not be forked");
    }
    p->helper_pid = m.pid;
    p->helper = pidfd_open(m.pid, 0);
    return p->helper < 0 ? ptoi_fail(PTO_SYSTEM, "create: pidfd_open: %s", strerror(errno))
                         : PTO_OK;
}

static pto_status await_answer(pto_runtime *rt)
{
    struct ptoi_processes *p = rt->processes;
    pthread_mutex_lock(&p->lock);
    while (!p->answered && !p->loss.helper) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    const pto_status status = p->answer;
    const bool answered = p->answered;
    p->answered = false;
    pthread_mutex_unlock(&p->lock);
    if (!answered) {
        return ptoi_process_lost(rt);
    }
    return status == PTO_OK ? PTO_OK : ptoi_fail(status, "%s", p->text);
}

static void close_file(int *file)
{
    ptoi_os_file_close(*file);
    *file = -1;
}

/* Starts the helper and the monitor. */
static pto_status start_helper(pto_runtime *rt)
{
    struct ptoi_processes *p = rt->processes;
    int ends[2], life[2];
    ptoi_code_free(&p->code);
    PTO_TRY(ptoi_code_list(&p->code));
    if (pipe2(life, O_CLOEXEC) != 0) {
        return ptoi_fail(PTO_SYSTEM, "create: pipe: %s", strerror(errno));
    }
    p->life = life[0];
    pto_status status = ptoi_channel_pair(ends);
    if (status != PTO_OK) {
        close(life[1]);
        return status;
    }
    ptoi_helper_start start = {.settings = &rt->settings,
                               .mapping = rt->mapping,
                               .channel = ends[1],
                               .program = pidfd_open(getpid(), 0),
                               .life = life[1],
                               .logs = rt->trace ? rt->trace->ran : NULL};
    memcpy(start.files, rt->files, sizeof start.files);
    p->channel = ends[0];
    p->answered = false;
    status = start.program < 0 ? ptoi_fail(PTO_SYSTEM, "create: pidfd_open: %s", strerror(errno))
                               : fork_helper(&start, ends[0]);
    close(ends[1]);
    close(life[1]);
    close_file(&start.program);
    if (status == PTO_OK) {
        status = meet_helper(p);
    }
    p->loss.helper &= status != PTO_OK;
    return status ? status : start_monitor(rt);
}

/* Has the helper rebuild the scheduler's part of the window, and start the worker processes that are
 * missing. */
static pto_status rebuild(pto_runtime *rt)
{
    /* If it cannot be sent, the helper has said why it ended, or the monitor knows that it did. */
    (void)ptoi_channel_send(rt->processes->channel, &(ptoi_message){.kind = PTOI_SAY_REBUILD}, NULL,
                            0);
    return await_answer(rt);
}

/* Ends the helper, and all worker processes with it. */
static void end_helper(pto_runtime *rt, bool kills)
{
    struct ptoi_processes *p = rt->processes;
    if (kills && p->helper >= 0) {
        (void)pidfd_send_signal(p->helper, SIGKILL, NULL, 0);
    }
    stop_monitor(p);
    close_file(&p->channel); /* the helper leaves when its channel is closed */
    if (p->helper >= 0) {
        struct pollfd file = {.fd = p->helper, .events = POLLIN};
        (void)pidfd_send_signal(p->helper, SIGCONT, NULL,
                                0); /* if it is stopped, it cannot leave */
        while (poll(&file, 1, -1) < 0 && errno == EINTR) {
        }
        /* Orphans become children of the first process of a container, or of a subreaper. */
        (void)waitid(P_PIDFD, (id_t)p->helper, &(siginfo_t){0}, WEXITED | WNOHANG);
        close_file(&p->helper);
    }
    if (p->life >= 0) { /* worker processes end with the helper, each in its own time */
        struct pollfd file = {.fd = p->life, .events = POLLIN};
        (void)poll(&file, 1, LIFE_MOST_MS);
        close_file(&p->life);
    }
}

pto_status ptoi_process_create(pto_runtime *rt)
{
    if (rt->settings.config.place != PTO_PLACE_PROCESS) {
        return PTO_OK;
    }
    struct ptoi_processes *p = calloc(1, sizeof *p);
    if (!p) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for worker processes", sizeof *p);
    }
    rt->processes = p;
    p->channel = p->helper = p->life = -1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->wake < 0) {
        return ptoi_fail(PTO_SYSTEM, "create: eventfd: %s", strerror(errno));
    }
    PTO_TRY(ptoi_posts_create(rt));
    PTO_TRY(ptoi_attach_create(rt));
    PTO_TRY(start_helper(rt));
    const pto_status status = rebuild(rt);
    return status != PTO_WORKER_LOST
               ? status
               : ptoi_fail(PTO_SYSTEM, "create: the helper of the worker processes died");
}

/* All sleeping workers see header.stop. */
static void wake_all(pto_runtime *rt)
{
    ptoi_scheduler_wake_all(rt->scheduler);
    ptoi_os_wake_all(&rt->view.header->stop);
}

void ptoi_process_destroy(pto_runtime *rt)
{
    struct ptoi_processes *p = rt->processes;
    if (!p) {
        return;
    }
    wake_all(rt);
    end_helper(rt, ptoi_process_is_lost(rt));
    ptoi_attach_destroy(rt);
    ptoi_posts_destroy(rt);
    close_file(&p->wake);
    ptoi_code_free(&p->code);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
    rt->processes = NULL;
}

bool ptoi_process_has_code(const pto_runtime *rt, pto_kernel_fn fn)
{
    return !rt->processes || ptoi_code_has(&rt->processes->code, (uintptr_t)fn);
}

/* ---- Losses ---- */

bool ptoi_process_is_lost(const pto_runtime *rt)
{
    struct ptoi_processes *p = rt->processes;
    if (!p) {
        return false;
    }
    pthread_mutex_lock(&p->lock);
    const bool lost = p->loss.count != 0;
    pthread_mutex_unlock(&p->lock);
    return lost;
}

/* " while it ran task 5 (kernel 'x', submitted at f.c:12)", or "". */
static void name_task(const pto_runtime *rt, pto_task task, char *text, size_t bytes)
{
    const ptoi_view *view = &rt->view;
    const ptoi_slot *slot = ptoi_slot_of(view, (uint32_t)task & 7, task >> 3);
    text[0] = '\0';
    if (task && ((uint32_t)task & 7) < rt->levels && ptoi_get64(&slot->seq) == task >> 3) {
        const ptoi_slot_header header = ptoi_slot_header_of(slot);
        const ptoi_site *site = &view->sites[header.site];
        snprintf(text, bytes, " while it ran task %llu (kernel '%s', submitted at %s)",
                 (unsigned long long)ptoi_order_of(view, slot),
                 ptoi_kernel_name(view, header.kernel),
                 ptoi_source_of(ptoi_string(view, site->file), site->line).text);
    }
}

pto_status ptoi_process_lost(const pto_runtime *rt)
{
    struct ptoi_processes *p = rt->processes;
    char task[320], how[64];
    pthread_mutex_lock(&p->lock);
    const loss l = p->loss;
    pthread_mutex_unlock(&p->lock);
    name_task(rt, l.task, task, sizeof task);
    if (l.helper || l.attached) {
        snprintf(how, sizeof how, "has ended");
    } else if (l.overdue) {
        snprintf(how, sizeof how, "was ended %u ms after a cancel", rt->settings.config.grace_ms);
    } else if (WIFSIGNALED(l.how)) {
        snprintf(how, sizeof how, "was killed by signal %d (SIG%s)", WTERMSIG(l.how),
                 sigabbrev_np(WTERMSIG(l.how)));
    } else {
        snprintf(how, sizeof how, "exited with status %d", WEXITSTATUS(l.how));
    }
    char others[64] = "";
    if (l.count > 1) {
        snprintf(others, sizeof others, "; %u more process%s ended", l.count - 1,
                 l.count > 2 ? "es have" : " has");
    }
    return ptoi_fail(PTO_WORKER_LOST, "%s process %d %s%s%s: call pto_recover to go on",
                     l.helper ? "helper" : "worker", (int)l.pid, how, task, others);
}

/* ---- Recovery ---- */

static bool has_helper(struct ptoi_processes *p)
{
    pthread_mutex_lock(&p->lock);
    const bool has = !p->loss.helper;
    p->answered = false;
    pthread_mutex_unlock(&p->lock);
    return has;
}

static pto_status recover(pto_runtime *rt)
{
    struct ptoi_processes *p = rt->processes;
    pto_status status;
    ptoi_store_sc32(&rt->view.header->stop, PTOI_PAUSE); /* W12 */
    wake_all(rt);
    uint32_t tries = RECOVER_MOST;
    do {
        if (!has_helper(p)) {
            end_helper(rt, true);
            PTO_TRY(start_helper(rt));
            ptoi_attach_introduce(rt);
        }
        status = rebuild(rt);
    } while (status == PTO_WORKER_LOST && !has_helper(p) && --tries);
    PTO_TRY(status);
    ptoi_refill(rt);
    return PTO_OK;
}

pto_status pto_recover(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "recover"));
    if (!ptoi_process_is_lost(rt)) {
        return PTO_OK;
    }
    ptoi_posts_hold(rt);
    const pto_status status = recover(rt);
    ptoi_store_sc32(&rt->view.header->stop, PTOI_GO);
    wake_all(rt);
    ptoi_posts_let_go(rt);
    return status;
}
