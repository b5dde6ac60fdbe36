/* profile.h - where the time of a run went, and how fast it could have been.
 *
 * A profile watches one run (pto_watch). It times each kernel call, and derives from the parameters
 * of every task the earlier tasks it depends on. The runtime knows only dependencies on unfinished
 * tasks. The profile keeps all of them. So its longest chain of kernel times is that of the
 * program, and does not depend on which tasks happened to be complete already.
 */
#ifndef TOOL_PROFILE_H
#define TOOL_PROFILE_H

#include <pto/pto.h>

typedef struct profile profile;

/* Creates a profile for a run of about `tasks` tasks. It grows if there are more, except for the
 * tracked accesses: eight per task. */
pto_status profile_create(profile **made, uint64_t tasks);
void profile_destroy(profile **made);

/* The watcher to pass to pto_watch. */
pto_watcher profile_watcher(profile *p);

/* Adds one kernel call; times in nanoseconds. The watcher does this at the end of a kernel, on the
 * thread of the worker. */
void profile_add(profile *p, uint32_t who, pto_task number, uint64_t begin, uint64_t end);

typedef struct profile_kernel {
    const char *name;
    uint64_t calls, time;    /* total */
    uint64_t on_path;        /* calls on the critical path */
    uint64_t least, longest; /* of single calls */
} profile_kernel;

typedef struct profile_report {
    uint64_t tasks, edges;
    const profile_kernel *kernels; /* sorted by total time, largest first */
    size_t n_kernels;
    const uint64_t *busy; /* time in kernels, by worker index */
    uint32_t n_workers;   /* one past the last worker that ran a task */
    uint64_t busy_total;
    uint64_t path, path_tasks; /* the critical path: its time and its number of tasks */
} profile_report;

/* Finishes the profile after all tasks have ended. The report points into the profile. Earlier
 * failures (out of memory, too many accesses) are returned here. */
pto_status profile_finish(profile *p, profile_report *report);

#endif /* TOOL_PROFILE_H */
