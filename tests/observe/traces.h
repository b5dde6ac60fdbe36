/* traces.h - for the tests of traces: a folder for files, and reading a trace back. */
#ifndef PTO_TEST_TRACES_H
#define PTO_TEST_TRACES_H

#include "../runtime/rig.h"
#include "observe/ptrace_read.h"

/* A name in a folder of this process, which is removed at its end. */
static char traces_folder[64];

static inline void traces_remove(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", traces_folder);
    if (*traces_folder && system(command) != 0) { /* NOLINT(cert-env33-c): a name of our own */
        perror(command);
    }
}

static inline const char *traces_path(const char *name, char path[128])
{
    if (!*traces_folder) {
        snprintf(traces_folder, sizeof traces_folder, "/tmp/pto_traces.XXXXXX");
        assert_non_null(mkdtemp(traces_folder));
        atexit(traces_remove);
    }
    snprintf(path, 128, "%s/%s", traces_folder, name);
    return path;
}

/* All bytes of a file. */
static inline char *traces_bytes(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    bytes[*n] = '\0';
    fclose(file);
    return bytes;
}

/* Checks the times of every complete task: in order, and after its producers. */
static inline void traces_check_times(const ptoi_ptrace *t)
{
    for (uint64_t i = 0; i < t->n_tasks; i++) {
        const ptrace_task *task = &t->tasks[i];
        assert_true(task->called <= task->submitted);
        assert_true(!i || t->tasks[i - 1].submitted <= task->called);
        assert_true(task->blocked <= task->submitted - task->called + 1);
        if (task->outcome == PTRACE_OPEN) {
            continue;
        }
        assert_true(task->submitted <= task->ready);
        assert_true(task->end != PTRACE_UNKNOWN);
        assert_true(task->ready <= task->end);
        if (task->start != PTRACE_UNKNOWN) {
            assert_true(task->lane < t->n_lanes);
            assert_true(task->ready <= task->start);
            assert_true(task->start <= task->end);
        }
        assert_true(task->retired != PTRACE_UNKNOWN);
        assert_true(task->end <= task->retired);
        for (uint32_t e = task->first_edge; e < task->first_edge + task->edges; e++) {
            if (t->edges[e].from != PTRACE_NONE) {
                assert_true(t->tasks[t->edges[e].from].end <= task->ready);
            }
        }
    }
    for (uint64_t i = 0; i < t->n_events; i++) {
        assert_true(t->events[i].begin <= t->events[i].end);
        assert_true(!i || t->events[i - 1].begin <= t->events[i].begin);
    }
    for (uint64_t i = 1; i < t->n_rings; i++) {
        assert_true(t->rings[i - 1].at <= t->rings[i].at);
    }
}

#endif /* PTO_TEST_TRACES_H */
