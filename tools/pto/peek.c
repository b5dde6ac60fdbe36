/* peek.c - finds a window and maps it. See peek.h. */
#define _GNU_SOURCE /* O_CLOEXEC in old headers */
#include "peek.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t peek_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void peek_pause(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

int peek_refuse(const char *command)
{
    fprintf(stderr, "pto %s: %s\n", command, pto_error_detail());
    return 1;
}

/* ---- /proc ---- */

static bool is_number(const char *text)
{
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text)) {
            return false;
        }
    }
    return true;
}

/* Reads the start of a small file as a string; false if it cannot be read. */
static bool slurp(const char *path, char *text, size_t size)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    const ssize_t length = read(file, text, size - 1);
    close(file);
    if (length < 0) {
        return false;
    }
    text[length] = '\0';
    return true;
}

static void name_program(int pid, char *name, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    if (!slurp(path, name, size)) {
        snprintf(name, size, "?");
    }
    for (char *c = name; *c; c++) {
        if (*c == '\n') {
            *c = '\0';
            break;
        }
        *c = isprint((unsigned char)*c) ? *c : '?';
    }
}

int peek_process_of(const peek *p, uint32_t thread)
{
    char path[80], text[2048];
    snprintf(path, sizeof path, "/proc/%u/status", thread);
    const char *at = ptoi_get32(&p->view.header->place) == PTO_PLACE_PROCESS &&
                             slurp(path, text, sizeof text)
                         ? strstr(text, "Tgid:")
                         : NULL;
    const long process = at ? strtol(at + 5, NULL, 10) : 0;
    return process > 0 ? (int)process : p->pid;
}

peek_thread peek_thread_of(const peek *p, uint32_t thread)
{
    peek_thread t = {.known = false};
    char path[80], text[512];
    const int pid = peek_process_of(p, thread);
    snprintf(path, sizeof path, "/proc/%d/task/%u/stat", pid, thread);
    if (!thread || !slurp(path, text, sizeof text)) {
        return t;
    }
    /* The name in parentheses may contain anything; the last parenthesis ends it. */
    const char *rest = strrchr(text, ')');
    if (!rest || rest[1] != ' ' || !rest[2]) {
        return t;
    }
    t.state = rest[2];
    /* Fields 14 and 15 of the line. The state is field 3. */
    const char *field = rest + 2;
    for (int i = 3; i < 14; i++) {
        field += strcspn(field, " ");
        field += *field == ' ';
    }
    char *end;
    const uint64_t user = strtoull(field, &end, 10), system = strtoull(end, NULL, 10);
    t.known = true;
    t.ticks = user + system;
    snprintf(path, sizeof path, "/proc/%d/task/%u/wchan", pid, thread);
    if (!slurp(path, t.channel, sizeof t.channel) || !strcmp(t.channel, "0")) {
        t.channel[0] = '\0';
    }
    return t;
}

bool peek_is_alive(const peek *p)
{
    const peek_thread main_thread = peek_thread_of(p, (uint32_t)p->pid);
    return main_thread.known && main_thread.state != 'Z' && main_thread.state != 'X';
}

/* ---- Windows of a process ---- */

#define WINDOWS_MOST 64

/* The open files of one window; -1: not open. Each runtime of a process has one window. */
typedef struct window_files {
    unsigned number;           /* in order of creation */
    int file[PTOI_PART_HEAPS]; /* by ptoi_part: all but the heaps */
} window_files;

/* Adds a file of a process to the windows that were found before. Returns their number. */
static int add_file(window_files *found, int count, int file, unsigned number, int part)
{
    int i = count;
    while (i > 0 && found[i - 1].number >= number) {
        i--;
    }
    if (i == count || found[i].number != number) {
        if (count == WINDOWS_MOST) {
            return count;
        }
        memmove(&found[i + 1], &found[i], (size_t)(count - i) * sizeof *found);
        found[i] = (window_files){number, {-1, -1, -1}};
        count++;
    }
    found[i].file[part] = file;
    return count;
}

/* Finds the windows of a process, in order of creation. Returns their number, or -1 if the process
 * cannot be read. */
static int list_windows(int pid, window_files found[WINDOWS_MOST])
{
    char folder[64], entry[384], link[128], part[32];
    snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
    DIR *files = opendir(folder);
    if (!files) {
        return -1;
    }
    int count = 0;
    for (const struct dirent *d; (d = readdir(files));) { /* NOLINT(concurrency-mt-unsafe) */
        snprintf(entry, sizeof entry, "%s/%s", folder, d->d_name);
        const ssize_t length = readlink(entry, link, sizeof link - 1);
        link[length > 0 ? length : 0] = '\0';
        unsigned number;
        if (sscanf(link, "/memfd:" PTOI_WINDOW_NAME "%u.%31s", &number, part) != 2) {
            continue; /* " (deleted)" may follow */
        }
        for (int p = 0; p < PTOI_PART_HEAPS; p++) {
            if (strcmp(part, ptoi_part_names[p]) == 0) {
                count = add_file(found, count, (int)strtol(d->d_name, NULL, 10), number, p);
            }
        }
    }
    closedir(files);
    return count;
}

uint32_t peek_windows(int pid)
{
    window_files found[WINDOWS_MOST];
    const int windows = list_windows(pid, found);
    return windows > 0 ? (uint32_t)windows : 0;
}

/* Whether the window belongs to this process. A forked child has the file open, too. */
static bool is_own(int pid)
{
    peek p;
    if (peek_open(&p, pid, 0) != PTO_OK) {
        return true; /* peek_open will report the error */
    }
    const int owner = (int)ptoi_get32(&p.view.header->process);
    peek_close(&p);
    return owner == pid || peek_windows(owner) == 0; /* in a container pids differ */
}

static int by_pid(const void *a, const void *b)
{
    return ((const peek_program *)a)->pid - ((const peek_program *)b)->pid;
}

size_t peek_find(peek_program *found, size_t most)
{
    size_t count = 0;
    DIR *processes = opendir("/proc");
    if (!processes) {
        return 0;
    }
    for (const struct dirent *d; (d = readdir(processes));) { /* NOLINT(concurrency-mt-unsafe) */
        if (!is_number(d->d_name)) {
            continue;
        }
        const int pid = (int)strtol(d->d_name, NULL, 10);
        const uint32_t windows = peek_windows(pid);
        if (windows == 0 || !is_own(pid)) {
            continue;
        }
        if (count < most) {
            found[count] = (peek_program){.pid = pid, .windows = windows};
            name_program(pid, found[count].name, sizeof found[count].name);
        }
        count++;
    }
    closedir(processes);
    qsort(found, count < most ? count : most, sizeof *found, by_pid);
    return count;
}

/* ---- Opening ---- */

pto_status peek_attach(peek *p, const ptoi_mapping *mapping)
{
    memset(p, 0, sizeof *p);
    PTO_TRY(ptoi_window_attach(mapping, &p->view));
    p->mapping = *mapping;
    p->workers = ptoi_get32(&p->view.header->workers);
    return PTO_OK;
}

static pto_status explain_missing(int pid, int windows, uint32_t number)
{
    const int why = errno;
    char path[64];
    struct stat there;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (stat(path, &there) != 0) {
        return pto_fail(PTO_SYSTEM, "there is no process %d", pid);
    }
    if (windows < 0) {
        return pto_fail(PTO_SYSTEM,
                        "cannot read the files of process %d: %s (run as the same user or as root)",
                        pid, strerror(why));
    }
    if (windows == 0) {
        return pto_fail(PTO_SYSTEM, "process %d has no runtime", pid);
    }
    return pto_fail(PTO_SYSTEM,
                    "process %d has %d runtimes, numbered from 0: there is no number %u", pid,
                    windows, number);
}

/* Maps one file of a window. */
static pto_status map_file(int pid, const window_files *w, int part, ptoi_mapping *m)
{
    char path[80];
    struct stat size;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, w->file[part]);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &size) != 0) {
        const int why = errno;
        if (file >= 0) {
            close(file);
        }
        return pto_fail(PTO_SYSTEM, "the %s's file: %s", ptoi_part_names[part], strerror(why));
    }
    const size_t bytes = size.st_size > 0 ? (size_t)size.st_size : 0;
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file, 0);
    const int why = errno;
    close(file);
    if (memory == MAP_FAILED) {
        return pto_fail(PTO_SYSTEM, "mapping %zu bytes of the %s's file: %s", bytes,
                        ptoi_part_names[part], strerror(why));
    }
    m->memory[part] = memory;
    m->bytes[part] = bytes;
    return PTO_OK;
}

static void unmap(const ptoi_mapping *m)
{
    for (int p = 0; p < PTOI_PART_HEAPS; p++) {
        if (m->memory[p]) {
            munmap(m->memory[p], m->bytes[p]);
        }
    }
}

pto_status peek_open(peek *p, int pid, uint32_t number)
{
    window_files found[WINDOWS_MOST];
    ptoi_mapping m = {{NULL}, {0}};
    memset(p, 0, sizeof *p);
    const int windows = list_windows(pid, found);
    if (windows < 0 || number >= (uint32_t)windows) {
        return explain_missing(pid, windows, number);
    }
    pto_status s = PTO_OK;
    for (int part = 0; s == PTO_OK && part < PTOI_PART_HEAPS; part++) {
        s = map_file(pid, &found[number], part, &m);
    }
    if (s == PTO_OK) {
        s = peek_attach(p, &m);
    }
    if (s != PTO_OK) {
        char words[256];
        snprintf(words, sizeof words, "%s", pto_error_detail());
        unmap(&m);
        memset(p, 0, sizeof *p);
        return pto_fail(s, "the window of process %d: %s", pid, words);
    }
    p->pid = pid;
    p->number = number;
    p->windows = (uint32_t)windows;
    name_program(pid, p->program, sizeof p->program);
    return PTO_OK;
}

void peek_close(peek *p)
{
    unmap(&p->mapping);
    p->mapping = (ptoi_mapping){{NULL}, {0}};
}
