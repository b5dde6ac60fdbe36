/* tasks_children.h - the peers of bench_tasks, each a program (tasks_peer.h says how it is called).
 *
 * They are in the folder peers/ beside the bench, where tasks_build.sh puts those that can be built
 * here. A peer has several settings; for each pattern the fastest counts.
 */
#ifndef PTO_PEERS_TASKS_CHILDREN_H
#define PTO_PEERS_TASKS_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PEERS = 6, COUNTED = 4, MAX_SETTINGS = 6, MAX_VARIABLES = 5, CHILD_SECONDS = 60 };

typedef struct setting {
    const char *text;
    const char *program;
    const char *variables[MAX_VARIABLES]; /* NAME=VALUE, up to NULL */
} setting;

typedef struct peer {
    const char *name, *option, *packages;
    setting settings[MAX_SETTINGS];
} peer;

/* StarPU's main thread only submits, so one worker less than cores can be better, or not; without a
 * limit a long program is first submitted and then run. libgomp and libomp limit themselves.
 *
 * The last two are the fastest settings for empty bodies: libomp with one thread, which runs
 * each task immediately and skips the search for dependencies, and lightweight TBB nodes, which
 * run where they become ready, in the thread that builds the graph. We do so with short tasks,
 * too. But they do it with bodies of any length, and never use the other core. They are shown
 * and do not count. */
#define STARPU_LIMIT                                                                               \
    "STARPU_LIMIT_MAX_SUBMITTED_TASKS=2000", "STARPU_LIMIT_MIN_SUBMITTED_TASKS=1000"
static const peer peers[PEERS] = {
    {"libgomp",
     "libgomp",
     "gcc",
     {{"passive", "tasks_libgomp", {"OMP_WAIT_POLICY=passive"}},
      {"active", "tasks_libgomp", {"OMP_WAIT_POLICY=active"}},
      {"spin 10000", "tasks_libgomp", {"GOMP_SPINCOUNT=10000"}}}},
    {"libomp",
     "libomp",
     "clang libomp-dev",
     {{"active", "tasks_libomp", {"OMP_WAIT_POLICY=active"}},
      {"passive", "tasks_libomp", {"OMP_WAIT_POLICY=passive"}},
      {"active, no throttling",
       "tasks_libomp",
       {"OMP_WAIT_POLICY=active", "KMP_ENABLE_TASK_THROTTLING=0"}}}},
    {"StarPU",
     "starpu",
     "libstarpu-dev",
     {{"lws", "tasks_starpu", {"STARPU_SCHED=lws"}},
      {"lws, limit 2000", "tasks_starpu", {"STARPU_SCHED=lws", STARPU_LIMIT}},
      {"eager, limit 2000", "tasks_starpu", {"STARPU_SCHED=eager", STARPU_LIMIT}},
      {"lws, limit 2000, a worker less",
       "tasks_starpu",
       {"STARPU_SCHED=lws", "STARPU_RESERVE_NCPU=1", STARPU_LIMIT}}}},
    {"oneTBB",
     "tbb",
     "g++ libtbb-dev",
     {{"batch 256", "tasks_tbb", {"TASKS_TBB_BATCH=256"}},
      {"batch 1024", "tasks_tbb", {"TASKS_TBB_BATCH=1024"}},
      {"batch 4096", "tasks_tbb", {"TASKS_TBB_BATCH=4096"}}}},
    {"libomp-1",
     "libomp-1",
     "clang libomp-dev",
     {{"one thread", "tasks_libomp", {"OMP_NUM_THREADS=1"}}}},
    {"TBB-light",
     "tbb-light",
     "g++ libtbb-dev",
     {{"lightweight, batch 256", "tasks_tbb_light", {"TASKS_TBB_BATCH=256"}},
      {"lightweight, batch 1024", "tasks_tbb_light", {"TASKS_TBB_BATCH=1024"}}}},
};
#undef STARPU_LIMIT

/* The path of a peer's program. */
static void child_path(char *path, size_t size, const char *program)
{
    char self[3072];
    if (program[0] == '/') {
        snprintf(path, size, "%s", program);
        return;
    }
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) {
        *slash = '\0';
    }
    snprintf(path, size, "%s/peers/%s", self, program);
}

static bool child_is_there(const peer *p)
{
    char path[4096];
    child_path(path, sizeof path, p->settings[0].program);
    return access(path, X_OK) == 0;
}

static void child_become(const setting *s, uint32_t cores, char *const *argv)
{
    char path[4096], home[4096], threads[16];
    child_path(path, sizeof path, s->program);
    child_path(home, sizeof home, "");
    snprintf(threads, sizeof threads, "%u", cores);
    setenv("OMP_NUM_THREADS", threads, 1);
    setenv("STARPU_SILENT", "1", 1);
    setenv("STARPU_HOME", home, 1); /* not the user's home: StarPU writes its measurements there */
    unsetenv("OMP_WAIT_POLICY");
    for (int i = 0; i < MAX_VARIABLES && s->variables[i]; i++) {
        putenv((char *)s->variables[i]);
    }
    if (!freopen("/dev/null", "w", stderr)) {
        _exit(126);
    }
    alarm(CHILD_SECONDS); /* ends a run that hangs */
    execv(path, argv);
    _exit(127);
}

/* Output of the program with these arguments, up to NULL; false if it fails. */
static bool child_run(const setting *s, uint32_t cores, char *const *argv, char *text, size_t size)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0) {
        return false;
    }
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        child_become(s, cores, argv);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got = 1;
    while (child > 0 && got > 0 && length + 1 < size) {
        got = read(ends[0], text + length, size - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    text[length] = '\0';
    close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* Whether it leaves memory with this hash, with MIX bodies. */
static bool child_check(const setting *s, uint32_t cores, const char *pattern_name, uint64_t tasks,
                        uint64_t hash)
{
    char count[24], text[64];
    snprintf(count, sizeof count, "%llu", (unsigned long long)tasks);
    char *const argv[] = {(char *)s->program, "check", (char *)pattern_name, count, NULL};
    return child_run(s, cores, argv, text, sizeof text) && strtoull(text, NULL, 16) == hash;
}

/* Seconds of `times` runs, and of their bodies alone. Returns the number of tasks; 0: failed. */
static uint64_t child_time(const setting *s, uint32_t cores, const char *pattern_name,
                           uint64_t tasks, uint64_t steps, size_t times, double *seconds,
                           double *serial)
{
    char count[24], length[24], repeat[24], text[2048];
    snprintf(count, sizeof count, "%llu", (unsigned long long)tasks);
    snprintf(length, sizeof length, "%llu", (unsigned long long)steps);
    snprintf(repeat, sizeof repeat, "%zu", times);
    char *const argv[] = {
        (char *)s->program, "time", (char *)pattern_name, count, length, repeat, NULL};
    if (!child_run(s, cores, argv, text, sizeof text)) {
        return 0;
    }
    char *at = text;
    uint64_t really = 0;
    for (size_t i = 0; i < times; i++) {
        seconds[i] = strtod(at, &at);
        really = strtoull(at, &at, 10);
        serial[i] = strtod(at, &at);
        if (seconds[i] <= 0) {
            return 0;
        }
    }
    return really;
}

#endif /* PTO_PEERS_TASKS_CHILDREN_H */
