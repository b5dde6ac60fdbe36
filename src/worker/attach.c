/* attach.c - a process that attaches to a running program as a worker process. Scheduler's side. The
 * other end is orchestrator/attach.c.
 *
 * The calling thread talks to the program; the workers are threads of their own.
 */
#define _GNU_SOURCE /* dlsym, struct ucred */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <pto/process.h>

#include "base/error.h"
#include "window/builtin.h"
#include "window/guard.h"
#include "worker/process.h"

#define LEAVE_MOST_NS UINT64_C(50000000) /* for kernels that run when the program has died */

/* ---- Kernels ---- */

static const pto_kernel_export **libraries; /* the table of each, which ends with a NULL */
static size_t n_libraries;

static pto_kernel_fn find_kernel(const char *name)
{
    if (!strcmp(name, PTOI_KERNEL_WORK)) {
        return ptoi_kernel_work;
    }
    if (!strcmp(name, PTOI_KERNEL_REARRANGE)) {
        return ptoi_kernel_rearrange;
    }
    for (size_t l = 0; l < n_libraries; l++) {
        for (const pto_kernel_export *k = libraries[l]; k->name; k++) {
            if (!strcmp(k->name, name)) {
                return k->fn;
            }
        }
    }
    return NULL;
}

static pto_status load(const char *path, size_t at)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        return ptoi_fail(PTO_BAD_FILE, "attach: %s", why ? why : path);
    }
    libraries[at] = dlsym(library, "pto_exported_kernels");
    return libraries[at]
               ? PTO_OK
               : ptoi_fail(PTO_BAD_FILE, "attach: %s exports no kernels (PTO_KERNEL_EXPORT)", path);
}

/* They stay loaded: kernels may have left threads behind. */
static pto_status load_all(const pto_worker_options *options)
{
    libraries = calloc(options->n_libraries + 1, sizeof *libraries);
    if (!libraries) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "attach: no memory to list %zu shared objects",
                         options->n_libraries);
    }
    for (size_t i = 0; i < options->n_libraries; i++) {
        PTO_TRY(load(options->libraries[i], i));
        n_libraries = i + 1;
    }
    return PTO_OK;
}

/* ---- The connection ---- */

static ptoi_a32 wake_file; /* an eventfd, plus one; 0: no process has attached */
static ptoi_a32 detached;  /* by a signal that came before there was an eventfd, or later */

static void wake(uint32_t file)
{
    const uint64_t one = 1;
    const ssize_t written = write((int)file - 1, &one, sizeof one);
    (void)written;
}

void pto_worker_detach(void)
{
    ptoi_store_sc32(&detached, 1);
    const uint32_t file = ptoi_load_sc32(&wake_file);
    if (file) {
        wake(file);
    }
}

typedef struct attachment {
    const pto_worker_options *options;
    int channel, wake, program;
    int files[PTOI_PARTS];
    ptoi_mapping mapping;
    ptoi_settings settings;
    ptoi_message place; /* WELCOME: which process and workers it is */
    ptoi_scheduler *s;
} attachment;

static pto_status connect_to(attachment *a)
{
    const char *name = a->options->name;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = offsetof(struct sockaddr_un, sun_path) +
                          ptoi_attach_address(name, address.sun_path);
    struct ucred who;
    socklen_t bytes = sizeof who;
    a->channel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (a->channel < 0) {
        return ptoi_fail(PTO_SYSTEM, "attach to '%s': socket: %s", name, strerror(errno));
    }
    if (connect(a->channel, (const struct sockaddr *)&address, (socklen_t)length) != 0) {
        return ptoi_fail(PTO_SYSTEM,
                         "attach to '%s': %s: no program of this user runs with PTO_ATTACH=%s and "
                         "PTO_SCHEDULER=process",
                         name, strerror(errno), name);
    }
    if (getsockopt(a->channel, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 ||
        who.uid != geteuid()) {
        return ptoi_fail(PTO_SYSTEM, "attach to '%s': the program belongs to another user", name);
    }
    return PTO_OK;
}

static pto_status say_hello(attachment *a)
{
    ptoi_message m = {.kind = PTOI_SAY_HELLO,
                      .count = a->options->workers ? a->options->workers : 1,
                      .types = a->options->types ? a->options->types : PTO_ALL_TYPES,
                      .value = PTOI_WINDOW_VERSION};
    int files[PTOI_MESSAGE_FILES];
    snprintf(m.text, sizeof m.text, "%s", pto_version());
    if (!ptoi_channel_send(a->channel, &m, NULL, 0) ||
        ptoi_channel_receive(a->channel, &a->place, files, true) <= 0) {
        return ptoi_fail(PTO_WORKER_LOST, "attach to '%s': the program has closed the connection",
                         a->options->name);
    }
    if (a->place.kind != PTOI_SAY_WELCOME) {
        return ptoi_fail(PTO_BAD_CONFIG, "%s", a->place.text);
    }
    memcpy(a->files, files, sizeof a->files);
    a->program = files[PTOI_PARTS];
    return PTO_OK;
}

static pto_status map_window(attachment *a)
{
    for (int p = 0; p < PTOI_PARTS; p++) {
        struct stat file;
        if (a->files[p] < 0 || fstat(a->files[p], &file) != 0) {
            return ptoi_fail(PTO_CORRUPT, "attach: the file of the %s did not come",
                             ptoi_part_names[p]);
        }
        a->mapping.bytes[p] = (size_t)file.st_size;
    }
    ptoi_mapping sizes = a->mapping;
    PTO_TRY(ptoi_window_map(a->files, &sizes, &a->mapping));
    return ptoi_os_protect(a->mapping.memory[PTOI_PART_ORCHESTRATOR],
                           a->mapping.bytes[PTOI_PART_ORCHESTRATOR]);
}

/* Settings as the program has them, as far as a worker needs them. */
static pto_status make_settings(attachment *a)
{
    ptoi_view view;
    ptoi_settings *s = &a->settings;
    PTO_TRY(ptoi_window_attach(&a->mapping, &view));
    s->config = (pto_config)PTO_CONFIG_INIT;
    s->config.place = PTO_PLACE_PROCESS;
    s->config.levels = view.levels;
    s->config.spin = (uint32_t)a->place.value;
    s->config.guard = ptoi_is_guarded(&view) ? PTO_GUARD_HOST : 0;
    s->config.crash_report = 1;
    s->n_workers = ptoi_get32(&view.header->workers);
    s->n_processes = ptoi_get32(&view.header->processes);
    if (a->place.first > s->n_workers || a->place.count > s->n_workers - a->place.first ||
        !a->place.count || a->place.process > s->n_processes) {
        return ptoi_fail(PTO_CORRUPT, "attach: %u workers from %u on, of %u", a->place.count,
                         a->place.first, s->n_workers);
    }
    return PTO_OK;
}

static pto_status create(attachment *a)
{
    pto_runtime *rt = ptoi_runtime_for_worker(&a->settings);
    if (!rt) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "attach: no memory for a handle");
    }
    PTO_TRY(ptoi_scheduler_create_as(PTOI_ROLE_WORKER, &a->settings, &a->mapping, rt, &a->s));
    ptoi_runtime_serves(rt, a->s, &a->s->view);
    if (a->s->view.header->asymmetric && !ptoi_os_has_barrier(true)) {
        return ptoi_fail(PTO_SYSTEM, "attach: membarrier: the system refuses it to this process");
    }
    a->s->process = a->place.process;
    a->s->own_first = a->place.first;
    a->s->own_count = a->place.count;
    return PTO_OK;
}

/* ---- Kernels that the program has ---- */

static void answer(const attachment *a, uint32_t kernel, bool says_has)
{
    const bool has = kernel && kernel < PTOI_MAX_KERNELS && ptoi_process_has_kernel(a->s, kernel);
    if (!has || says_has) {
        const ptoi_message m = {.kind = has ? PTOI_SAY_HAS : PTOI_SAY_LACKS, .kernel = kernel};
        (void)ptoi_channel_send(a->channel, &m, NULL, 0);
    }
}

static pto_status join(attachment *a)
{
    ptoi_message m;
    uint32_t k = 1;
    do {
        const uint32_t kernels = ptoi_acquire32(&a->s->view.header->kernels);
        int none[PTOI_MESSAGE_FILES];
        for (; k < kernels && k < PTOI_MAX_KERNELS; k++) {
            answer(a, k, false);
        }
        m = (ptoi_message){.kind = PTOI_SAY_JOINED, .value = k};
        if (!ptoi_channel_send(a->channel, &m, NULL, 0) ||
            ptoi_channel_receive(a->channel, &m, none, true) <= 0) {
            return ptoi_fail(PTO_WORKER_LOST,
                             "attach to '%s': the program has closed the connection",
                             a->options->name);
        }
    } while (m.kind == PTOI_SAY_AGAIN);
    if (m.kind != PTOI_SAY_GO) {
        return ptoi_fail(PTO_BAD_KERNEL, "%s", m.text);
    }
    for (uint32_t i = 0; i < a->s->own_count; i++) {
        ptoi_set32(&a->s->workers[a->s->own_first + i].parker.line->types, a->place.types);
    }
    return ptoi_scheduler_start_all(a->s);
}

/* ---- Life ---- */

static void leave(attachment *a)
{
    ptoi_release32(&a->s->leaving, 1);
    ptoi_scheduler_join(a->s);
    (void)ptoi_channel_send(a->channel, &(ptoi_message){.kind = PTOI_SAY_BYE}, NULL, 0);
}

/* The program is gone. A kernel may run for ever, so it is not waited for. */
static pto_status give_up(attachment *a)
{
    const uint64_t since = ptoi_os_clock();
    ptoi_release32(&a->s->leaving, 1);
    for (uint32_t i = 0; i < a->s->own_count; i++) {
        const ptoi_worker_line *line = &a->s->view.workers[a->s->own_first + i];
        while (ptoi_load_sc32(&line->activity) == PTOI_KERNEL) {
            if (ptoi_os_clock() - since > LEAVE_MOST_NS) {
                fprintf(stderr, "pto: worker process %d: the program '%s' has died\n",
                        (int)getpid(), a->options->name);
                _exit(1);
            }
            ptoi_os_yield();
        }
    }
    ptoi_scheduler_join(a->s);
    return ptoi_fail(PTO_WORKER_LOST, "attach: the program '%s' has died", a->options->name);
}

static pto_status serve(attachment *a)
{
    struct pollfd files[] = {{.fd = a->channel, .events = POLLIN},
                             {.fd = a->wake, .events = POLLIN},
                             {.fd = a->program, .events = POLLIN}};
    for (;;) {
        ptoi_message m = {.kind = 0};
        int none[PTOI_MESSAGE_FILES];
        (void)poll(files, 3, -1);
        if (files[1].revents) {
            leave(a);
            return PTO_OK;
        }
        const int got = ptoi_channel_receive(a->channel, &m, none, false);
        if (got > 0 && m.kind == PTOI_SAY_KERNEL) {
            answer(a, m.kernel, true);
        }
        if (got < 0 || files[2].revents) {
            if (ptoi_load_sc32(&a->s->view.header->stop) == PTOI_END) {
                ptoi_scheduler_join(a->s);
                return PTO_OK;
            }
            return give_up(a);
        }
    }
}

static pto_status attach(attachment *a)
{
    PTO_TRY(load_all(a->options));
    PTO_TRY(connect_to(a));
    PTO_TRY(say_hello(a));
    PTO_TRY(map_window(a));
    PTO_TRY(make_settings(a));
    PTO_TRY(create(a));
    PTO_TRY(join(a));
    return serve(a);
}

static pto_status check(const pto_worker_options *options)
{
    if (!options) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "attach: options is NULL");
    }
    if (options->size != sizeof *options) { /* before any other field is read */
        return ptoi_fail(PTO_BAD_CONFIG, "attach: size of options is %zu, it should be %zu",
                         options->size, sizeof *options);
    }
    if (!options->name) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "attach: the name is NULL");
    }
    if (options->n_libraries && !options->libraries) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "attach: the list of libraries is NULL");
    }
    if (strlen(options->name) > 63 || options->workers > PTOI_ATTACH_MOST ||
        options->types & ~PTO_ALL_TYPES) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "attach: a name of %zu letters (at most 63), %u workers (at most %u), "
                         "types 0x%x",
                         strlen(options->name), options->workers, PTOI_ATTACH_MOST, options->types);
    }
    return PTO_OK;
}

pto_status pto_worker_attach(const pto_worker_options *options)
{
    PTO_TRY(check(options));
    attachment a = {.options = options, .channel = -1, .program = -1};
    memset(a.files, -1, sizeof a.files);
    a.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint32_t none = 0;
    if (a.wake < 0 || !ptoi_cas32(&wake_file, &none, (uint32_t)a.wake + 1)) {
        ptoi_os_file_close(a.wake);
        return ptoi_fail(PTO_BAD_CONFIG, "attach: this process has attached already");
    }
    if (ptoi_load_sc32(&detached)) {
        wake((uint32_t)a.wake + 1);
    }
    ptoi_process_find_kernel = find_kernel;
    const pto_status status = attach(&a);
    ptoi_store_sc32(&wake_file, 0);
    ptoi_store_sc32(&detached, 0);
    ptoi_scheduler_destroy(a.s);
    ptoi_window_unmap(&a.mapping);
    ptoi_window_close(a.files);
    ptoi_os_file_close(a.channel);
    ptoi_os_file_close(a.program);
    ptoi_os_file_close(a.wake);
    free(libraries);
    libraries = NULL;
    n_libraries = 0;
    return status;
}
