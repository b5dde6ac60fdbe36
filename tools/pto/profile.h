/* profile.h - where the time of a run went, and how fast it could have been.
 *
 * A profile watches one run (pto_watch): it times each kernel call, and finds out from the
 * parameters of every task which earlier tasks it depends on. The runtime itself knows only
 * dependencies on tasks that have not ended yet; here none is ever forgotten, so the longest chain
 * of kernel times is that of the program, whatever happened to be done already.
 */
#ifndef TOOL_PROFILE_H
#define TOOL_PROFILE_H

#include <pto/pto.h>

typedef struct profile profile;

/* For a run of about so many tasks. It grows if there are more, but for the accesses it can tell
 * apart: eight a task. */
pto_status profile_create(profile **made, uint64_t tasks);
void profile_destroy(profile **made);

/* The watcher to give to pto_watch. */
pto_watcher profile_watcher(profile *p);

/* What the watcher does at the end of a kernel; times in nanoseconds. On the thread of the
 * worker. */
void profile_add(profile *p, uint32_t who, pto_task number, uint64_t begin, uint64_t end);

typedef struct profile_kernel {
    const char *name;
    uint64_t calls, time;    /* all together */
    uint64_t on_path;        /* calls on the critical path */
    uint64_t least, longest; /* single calls */
} profile_kernel;

typedef struct profile_report {
    uint64_t tasks, edges;
    const profile_kernel *kernels; /* the one with the most time first */
    size_t n_kernels;
    const uint64_t *busy; /* time in kernels, by number of the worker */
    uint32_t n_workers;   /* that ran anything, up to the last such number */
    uint64_t busy_total;
    uint64_t path, path_tasks; /* the critical path: its time, and how many tasks it has */
} profile_report;

/* When all tasks have ended. The report points into the profile. A failure on the way (out of
 * memory, too many accesses) is told here. */
pto_status profile_finish(profile *p, profile_report *report);

#endif /* TOOL_PROFILE_H */
