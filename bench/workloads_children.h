/* workloads_children.h - the runs of bench_workloads, each in its own process.
 *
 *   PROGRAM WORKLOAD SIZE TILE CHECK      prints the seconds; if the result is wrong, also how
 *
 * So no thread pool spins during another run, and all start alike. For our own runs this program
 * calls itself (workloads_ours.h). The others are in the folder peers/ beside it, where
 * peers/workloads_build.sh puts those that can be built here.
 *
 * A contender has several settings, of which the fastest counts. OpenBLAS takes a processor that it
 * does not know for an old one, so it is tried with the names of several processors.
 */
#ifndef PTO_WORKLOADS_CHILDREN_H
#define PTO_WORKLOADS_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_SETTINGS = 10, MAX_VARIABLES = 4, CHILD_SECONDS = 120 };

typedef struct setting {
    const char *text;
    const char *variables[MAX_VARIABLES]; /* NAME=VALUE, up to NULL */
} setting;

enum { OURS, LIBGOMP, STARPU, KERNELS, TILED, OPENBLAS = TILED, LOOP, SERIAL, CONTENDERS };

typedef struct contender {
    const char *name, *program, *packages;
    setting settings[MAX_SETTINGS];
} contender;

/* StarPU's main thread only submits, so one worker less than cores can be better; without a limit a
 * long program is first submitted and then run. libgomp limits itself. */
#define STARPU_LWS                                                                                 \
    "STARPU_SCHED=lws", "STARPU_LIMIT_MAX_SUBMITTED_TASKS=2000",                                   \
        "STARPU_LIMIT_MIN_SUBMITTED_TASKS=1000"
#define CORE "OPENBLAS_CORETYPE="
static const contender contenders[CONTENDERS] = {
    [OURS] = {"ours", NULL, "", {{"defaults", {NULL}}}},
    [LIBGOMP] = {"libgomp",
                 "workloads_libgomp",
                 "gcc",
                 {{"passive", {"OMP_WAIT_POLICY=passive"}},
                  {"active", {"OMP_WAIT_POLICY=active"}}}},
    [STARPU] = {"StarPU",
                "workloads_starpu",
                "libstarpu-dev pkgconf",
                {{"lws", {STARPU_LWS}},
                 {"lws, a worker less", {STARPU_LWS, "STARPU_RESERVE_NCPU=1"}}}},
    [KERNELS] = {"kernels", "workloads_kernels", "gcc", {{"a copy on each core", {NULL}}}},
    [OPENBLAS] = {"OpenBLAS",
                  "workloads_openblas",
                  "libopenblas-dev",
                  {{"as it is", {NULL}},
                   {"as it is, turned", {"WORKLOADS_TURNED=1"}},
                   {"Haswell", {CORE "Haswell"}},
                   {"Haswell, turned", {CORE "Haswell", "WORKLOADS_TURNED=1"}},
                   {"Zen", {CORE "Zen"}},
                   {"Zen, turned", {CORE "Zen", "WORKLOADS_TURNED=1"}},
                   {"SkylakeX", {CORE "SkylakeX"}},
                   {"SkylakeX, turned", {CORE "SkylakeX", "WORKLOADS_TURNED=1"}},
                   {"Cooperlake", {CORE "Cooperlake"}},
                   {"Cooperlake, turned", {CORE "Cooperlake", "WORKLOADS_TURNED=1"}}}},
    [LOOP] = {"loop, OpenBLAS",
              "workloads_decode_openblas",
              "libopenblas-dev",
              {{"as it is", {NULL}},
               {"Haswell", {CORE "Haswell"}},
               {"Zen", {CORE "Zen"}},
               {"SkylakeX", {CORE "SkylakeX"}},
               {"Cooperlake", {CORE "Cooperlake"}}}},
    [SERIAL] = {"loop, one thread", "workloads_decode_kernels", "gcc", {{"defaults", {NULL}}}},
};
#undef STARPU_LWS
#undef CORE

/* The path of a peer's program, or of this one. */
static void child_path(char *path, size_t size, const char *program)
{
    char self[3072];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (!program || !slash) {
        snprintf(path, size, "%s", self);
        return;
    }
    *slash = '\0';
    snprintf(path, size, "%s/peers/%s", self, program);
}

static bool child_is_there(const contender *c)
{
    char path[4096];
    child_path(path, sizeof path, c->program);
    return access(path, X_OK) == 0;
}

static void child_become(const contender *c, const setting *s, uint32_t cores, char *const *argv)
{
    char path[4096], home[4096], threads[16];
    child_path(path, sizeof path, c->program);
    child_path(home, sizeof home, "");
    snprintf(threads, sizeof threads, "%u", cores);
    setenv("OMP_NUM_THREADS", threads, 1);
    setenv("STARPU_SILENT", "1", 1);
    setenv("STARPU_HOME", home, 1); /* not the user's home: StarPU writes its measurements there */
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("WORKLOADS_TURNED");
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

/* Seconds of one run; 0: it failed or its result is wrong, and `words` says why. */
static double child_time(const contender *c, const setting *s, uint32_t cores, const char *name,
                         int64_t size, int64_t tile, bool check, char *words, size_t n_words)
{
    char n[24], t[24], text[1024] = "";
    int ends[2], status = -1;
    snprintf(n, sizeof n, "%lld", (long long)size);
    snprintf(t, sizeof t, "%lld", (long long)tile);
    /* The name distinguishes our own runs from calls by the user. */
    char *const argv[] = {"workloads_child", (char *)name, n, t, check ? "1" : "0", NULL};
    if (pipe(ends) != 0) {
        return 0;
    }
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        child_become(c, s, cores, argv);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got = 1;
    while (child > 0 && got > 0 && length + 1 < sizeof text) {
        got = read(ends[0], text + length, sizeof text - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    close(ends[0]);
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == 0) {
        return strtod(text, NULL);
    }
    const char *wrong = strstr(text, "wrong: ");
    snprintf(words, n_words, "%s", wrong ? wrong : "ended badly");
    words[strcspn(words, "\n")] = '\0';
    return 0;
}

#endif /* PTO_WORKLOADS_CHILDREN_H */
