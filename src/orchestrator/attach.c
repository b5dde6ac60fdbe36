#define _GNU_SOURCE /* accept4, struct ucred */
#include "orchestrator/attach.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "orchestrator/process.h"

#define ANSWER_SECONDS 5 /* an attached process that takes longer is taken to lack the kernel */

typedef enum stage {
    FREE,
    CONNECTED, /* HELLO is awaited */
    WELCOMED,  /* JOINED is awaited */
    JOINED,
    GONE,  /* its process has died, and the helper was told */
    ENDED, /* the helper knows: the lines are free after the next recovery */
} stage;

/* A process that has attached, or is about to. */
typedef struct guest {
    stage stage;
    int channel, pidfd;
    int32_t pid;
    uint32_t process, first, count, types;
    uint64_t *lacks; /* a bit for each kernel */
    bool asked;      /* about a kernel, and it has not answered */
} guest;

struct ptoi_attach {
    int listener;
    ptoi_a32 types; /* that joined guests serve. Relaxed: the check of a submit is not exact */
    pthread_mutex_t lock; /* protects the guests: the monitor changes them, the orchestrating thread
                             asks */
    pthread_cond_t answered;
    guest guests[PTOI_ATTACH_MOST];
    uint8_t taken[PTOI_ATTACH_MOST]; /* by line behind those of the runtime's own workers */
};

size_t ptoi_attach_address(const char *name, char at[108])
{
    at[0] = '\0'; /* abstract */
    return 1 + (size_t)snprintf(at + 1, 107, "pto-%u-%s", (unsigned)getuid(), name);
}

/* ---- Life ---- */

static pto_status listen_at(const char *name, int *listener)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = offsetof(struct sockaddr_un, sun_path) +
                          ptoi_attach_address(name, address.sun_path);
    *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0) {
        return ptoi_fail(PTO_SYSTEM, "create: attach as '%s': socket: %s", name, strerror(errno));
    }
    if (bind(*listener, (const struct sockaddr *)&address, (socklen_t)length) != 0) {
        return errno == EADDRINUSE
                   ? ptoi_fail(PTO_BAD_CONFIG,
                               "create: attach as '%s': another runtime of this user has this name",
                               name)
                   : ptoi_fail(PTO_SYSTEM, "create: attach as '%s': bind: %s", name,
                               strerror(errno));
    }
    if (listen(*listener, PTOI_ATTACH_MOST) != 0) {
        return ptoi_fail(PTO_SYSTEM, "create: attach as '%s': listen: %s", name, strerror(errno));
    }
    return PTO_OK;
}

pto_status ptoi_attach_create(pto_runtime *rt)
{
    const char *name = rt->settings.config.attach;
    if (!name) {
        return PTO_OK;
    }
    struct ptoi_attach *a = calloc(1, sizeof *a);
    if (!a) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for attached workers", sizeof *a);
    }
    rt->attach = a;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->answered, NULL);
    a->listener = -1;
    return listen_at(name, &a->listener);
}

static void drop(guest *g)
{
    ptoi_os_file_close(g->channel);
    ptoi_os_file_close(g->pidfd);
    free(g->lacks);
    *g = (guest){.stage = FREE, .channel = -1, .pidfd = -1};
}

void ptoi_attach_destroy(pto_runtime *rt)
{
    struct ptoi_attach *a = rt->attach;
    if (!a) {
        return;
    }
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        if (a->guests[i].stage != FREE) {
            drop(&a->guests[i]); /* the process leaves when its channel is closed */
        }
    }
    ptoi_os_file_close(a->listener);
    pthread_cond_destroy(&a->answered);
    pthread_mutex_destroy(&a->lock);
    free(a);
    rt->attach = NULL;
}

/* ---- Lines ---- */

/* Finds `count` free lines in a row. */
static bool find_lines(const pto_runtime *rt, uint32_t count, uint32_t *first)
{
    const struct ptoi_attach *a = rt->attach;
    const uint32_t lines = rt->settings.n_workers - rt->settings.n_started;
    for (uint32_t at = 0, run = 0; at < lines; at++) {
        run = a->taken[at] ? 0 : run + 1;
        if (run == count) {
            *first = at + 1 - count;
            return true;
        }
    }
    return false;
}

static void take_lines(const pto_runtime *rt, const guest *g, uint8_t taken)
{
    memset(rt->attach->taken + (g->first - rt->settings.n_started), taken, g->count);
}

static void count_types(struct ptoi_attach *a)
{
    uint32_t types = 0;
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        types |= a->guests[i].stage == JOINED ? a->guests[i].types : 0;
    }
    ptoi_set32(&a->types, types);
}

static ptoi_message about(const guest *g, uint32_t kind)
{
    return (ptoi_message){.kind = kind,
                          .process = g->process,
                          .first = g->first,
                          .count = g->count,
                          .types = g->types,
                          .pid = g->pid};
}

/* ---- The handshake ---- */

static void refuse(guest *g, const char *why)
{
    ptoi_message m = {.kind = PTOI_SAY_REFUSED};
    snprintf(m.text, sizeof m.text, "%s", why);
    (void)ptoi_channel_send(g->channel, &m, NULL, 0);
    drop(g);
}

static bool is_same_user(int channel, int32_t *pid)
{
    struct ucred who;
    socklen_t bytes = sizeof who;
    if (getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) {
        return false;
    }
    *pid = who.pid;
    return who.uid == geteuid();
}

static void accept_guests(pto_runtime *rt)
{
    struct ptoi_attach *a = rt->attach;
    for (int channel;
         (channel = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
        guest *g = NULL;
        for (uint32_t i = 0; !g && i < PTOI_ATTACH_MOST; i++) {
            g = a->guests[i].stage == FREE ? &a->guests[i] : NULL;
        }
        guest none;
        g = g ? g : &none;
        *g = (guest){.stage = CONNECTED, .channel = channel, .pidfd = -1};
        if (!is_same_user(channel, &g->pid)) {
            drop(g);
        } else if (g == &none) {
            refuse(g, "attach: as many processes have attached as can");
        }
    }
}

static void welcome(pto_runtime *rt, guest *g, const ptoi_message *m)
{
    char why[256];
    uint32_t first;
    if (m->value != PTOI_WINDOW_VERSION) {
        snprintf(why, sizeof why,
                 "attach: the program has version %u of the window (library %s), this process has "
                 "version %llu (library %.20s): use the same library",
                 PTOI_WINDOW_VERSION, pto_version(), (unsigned long long)m->value, m->text);
        refuse(g, why);
    } else if (rt->trace) {
        refuse(g, "attach: the program records a trace, which an attached process cannot write");
    } else if (!m->count || !m->types || m->types & ~PTO_ALL_TYPES) {
        refuse(g, "attach: no workers, or workers for no type");
    } else if (!find_lines(rt, m->count, &first)) {
        snprintf(why, sizeof why, "attach: no room for %u more workers: at most %u can attach",
                 m->count, PTOI_ATTACH_MOST);
        refuse(g, why);
    } else {
        g->lacks = calloc(PTOI_MAX_KERNELS / 64, sizeof *g->lacks);
        if (!g->lacks) {
            refuse(g, "attach: the program has no memory left");
            return;
        }
        g->pidfd = pidfd_open(g->pid, 0);
        g->first = rt->settings.n_started + first;
        g->count = m->count;
        g->types = m->types;
        const uint32_t each = rt->settings.config.process_threads;
        g->process = (rt->settings.n_started + each - 1) / each + first + 1;
        take_lines(rt, g, 1);
        g->stage = WELCOMED;
        ptoi_message answer = about(g, PTOI_SAY_WELCOME);
        answer.value = rt->settings.config.spin;
        int files[PTOI_PARTS + 1];
        memcpy(files, rt->files, sizeof rt->files);
        files[PTOI_PARTS] = pidfd_open(getpid(), 0);
        (void)ptoi_channel_send(g->channel, &answer, files,
                                files[PTOI_PARTS] < 0 ? PTOI_PARTS : PTOI_PARTS + 1);
        ptoi_os_file_close(files[PTOI_PARTS]);
    }
}

/* Whether the guest would have to run this kernel, and does not have it. */
static bool lacks(const pto_runtime *rt, const guest *g, uint32_t kernel)
{
    return g->types >> rt->view.kernels[kernel].type & 1 &&
           g->lacks[kernel / 64] >> kernel % 64 & 1;
}

/* Tasks may wait already that it would claim. So it must have all kernels that there are. A kernel that
 * is registered later is asked for then (ptoi_attach_ask). */
static void join(pto_runtime *rt, guest *g, const ptoi_message *m)
{
    const uint32_t kernels = ptoi_acquire32(&rt->view.header->kernels);
    if (m->value < kernels) {
        (void)ptoi_channel_send(g->channel, &(ptoi_message){.kind = PTOI_SAY_AGAIN}, NULL, 0);
        return;
    }
    for (uint32_t k = 1; k < kernels; k++) {
        if (lacks(rt, g, k)) {
            char why[256];
            snprintf(
                why, sizeof why,
                "attach: this process has no kernel '%.64s', which the program uses: export it "
                "(PTO_KERNEL_EXPORT), or serve other types than %s",
                ptoi_kernel_name(&rt->view, k),
                pto_worker_type_name((pto_worker_type)rt->view.kernels[k].type));
            take_lines(rt, g, 0);
            refuse(g, why);
            return;
        }
    }
    const ptoi_message attached = about(g, PTOI_SAY_ATTACHED);
    g->stage = JOINED;
    count_types(rt->attach);
    ptoi_process_tell_helper(rt, &attached); /* it knows of the guest before that runs */
    (void)ptoi_channel_send(g->channel, &(ptoi_message){.kind = PTOI_SAY_GO}, NULL, 0);
}

static void take_message(pto_runtime *rt, guest *g, const ptoi_message *m)
{
    struct ptoi_attach *a = rt->attach;
    if (g->stage == CONNECTED && m->kind == PTOI_SAY_HELLO) {
        welcome(rt, g, m);
    } else if (g->stage == WELCOMED && m->kind == PTOI_SAY_JOINED) {
        join(rt, g, m);
    } else if (m->kind == PTOI_SAY_LACKS && g->lacks && m->kernel < PTOI_MAX_KERNELS) {
        g->lacks[m->kernel / 64] |= UINT64_C(1) << m->kernel % 64;
        g->asked = false;
    } else if (m->kind == PTOI_SAY_HAS) {
        g->asked = false;
    } else if (m->kind == PTOI_SAY_BYE && g->stage == JOINED) {
        const ptoi_message left = about(g, PTOI_SAY_BYE);
        ptoi_process_tell_helper(rt, &left);
        take_lines(rt, g, 0);
        drop(g);
        count_types(a);
    }
}

/* The channel or the process of a guest has ended. If it ran, it is a loss only when the helper has
 * answered: a recovery that began before would not know of it. */
static void lose(pto_runtime *rt, guest *g)
{
    const guest gone = *g;
    const ptoi_message died = about(g, PTOI_SAY_ENDED);
    if (g->stage == WELCOMED) {
        take_lines(rt, g, 0);
    }
    drop(g);
    if (gone.stage == JOINED) {
        *g = (guest){.stage = GONE,
                     .channel = -1,
                     .pidfd = -1,
                     .pid = gone.pid,
                     .process = gone.process,
                     .first = gone.first,
                     .count = gone.count};
        count_types(rt->attach);
        ptoi_process_tell_helper(rt, &died);
    }
}

static bool is_dead(const guest *g)
{
    return g->stage == GONE || g->stage == ENDED;
}

/* ---- The monitor ---- */

size_t ptoi_attach_files(pto_runtime *rt, struct pollfd *files)
{
    struct ptoi_attach *a = rt->attach;
    if (!a) {
        return 0;
    }
    pthread_mutex_lock(&a->lock);
    files[0] = (struct pollfd){.fd = a->listener, .events = POLLIN};
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        const guest *g = &a->guests[i];
        const bool used = g->stage != FREE && !is_dead(g);
        files[1 + 2 * i] = (struct pollfd){.fd = used ? g->channel : -1, .events = POLLIN};
        files[2 + 2 * i] = (struct pollfd){.fd = used ? g->pidfd : -1, .events = POLLIN};
    }
    pthread_mutex_unlock(&a->lock);
    return PTOI_ATTACH_FILES;
}

void ptoi_attach_serve(pto_runtime *rt, const struct pollfd *files)
{
    struct ptoi_attach *a = rt->attach;
    if (!a) {
        return;
    }
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        guest *g = &a->guests[i];
        const bool dead = files[2 + 2 * i].revents != 0;
        int none[PTOI_MESSAGE_FILES], got = 0;
        ptoi_message m = {.kind = 0};
        if (is_dead(g)) {
            continue;
        }
        while ((dead || files[1 + 2 * i].revents) && g->stage != FREE &&
               (got = ptoi_channel_receive(g->channel, &m, none, false)) > 0) {
            take_message(rt, g, &m);
        }
        if (g->stage != FREE && (dead || got < 0)) {
            lose(rt, g);
        }
    }
    accept_guests(rt);
    pthread_cond_broadcast(&a->answered);
    pthread_mutex_unlock(&a->lock);
}

bool ptoi_attach_has_ended(pto_runtime *rt, uint32_t process)
{
    struct ptoi_attach *a = rt->attach;
    bool found = false;
    if (!a) {
        return false;
    }
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; !found && i < PTOI_ATTACH_MOST; i++) {
        guest *g = &a->guests[i];
        found = is_dead(g) && g->process == process;
        g->stage = found ? ENDED : g->stage;
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}

void ptoi_attach_recovered(pto_runtime *rt)
{
    struct ptoi_attach *a = rt->attach;
    if (!a) {
        return;
    }
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        if (a->guests[i].stage == ENDED) {
            take_lines(rt, &a->guests[i], 0);
            drop(&a->guests[i]);
        }
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- The orchestrating thread ---- */

void ptoi_attach_introduce(pto_runtime *rt)
{
    struct ptoi_attach *a = rt->attach;
    if (!a) {
        return;
    }
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        const guest *g = &a->guests[i];
        if (g->stage == JOINED || is_dead(g)) {
            const ptoi_message m = about(g, is_dead(g) ? PTOI_SAY_ENDED : PTOI_SAY_ATTACHED);
            ptoi_process_tell_helper(rt, &m);
        }
    }
    pthread_mutex_unlock(&a->lock);
}

static bool is_asked(const struct ptoi_attach *a)
{
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        if (a->guests[i].stage == JOINED && a->guests[i].asked) {
            return true;
        }
    }
    return false;
}

void ptoi_attach_ask(pto_runtime *rt, uint32_t kernel)
{
    struct ptoi_attach *a = rt->attach;
    if (!a) {
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ANSWER_SECONDS;
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        guest *g = &a->guests[i];
        if (g->stage == JOINED) {
            g->asked = ptoi_channel_send(
                g->channel, &(ptoi_message){.kind = PTOI_SAY_KERNEL, .kernel = kernel}, NULL, 0);
        }
    }
    while (is_asked(a) && pthread_cond_timedwait(&a->answered, &a->lock, &until) == 0) {
    }
    for (uint32_t i = 0; i < PTOI_ATTACH_MOST; i++) {
        guest *g = &a->guests[i];
        if (g->stage == JOINED && g->asked) {
            g->lacks[kernel / 64] |= UINT64_C(1) << kernel % 64;
        }
    }
    pthread_mutex_unlock(&a->lock);
}

uint32_t ptoi_attach_types(const pto_runtime *rt)
{
    return rt->attach ? ptoi_get32(&rt->attach->types) : 0;
}

pto_status ptoi_attach_check(const pto_runtime *rt, uint32_t kernel)
{
    struct ptoi_attach *a = rt->attach;
    int32_t pid = 0;
    if (!a) {
        return PTO_OK;
    }
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; !pid && i < PTOI_ATTACH_MOST; i++) {
        const guest *g = &a->guests[i];
        pid = g->stage == JOINED && lacks(rt, g, kernel) ? g->pid : 0;
    }
    pthread_mutex_unlock(&a->lock);
    return pid ? ptoi_fail(PTO_BAD_KERNEL,
                           "submit: worker process %d, which has attached, has no kernel '%s': "
                           "export it there (PTO_KERNEL_EXPORT), or end that process",
                           (int)pid, ptoi_kernel_name(&rt->view, kernel))
               : PTO_OK;
}
