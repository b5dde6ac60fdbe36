/* pto/config.h - the configuration of a runtime. All of it is optional.
 *
 * Every field has an environment variable, a default and a help text, in one table that
 * pto_options_print prints. A field that is set overrides the environment variable, which overrides
 * the default. Zero means not set.
 *
 *     pto_config config = PTO_CONFIG_INIT;
 *     config.heap_bytes = 1 << 20;
 *     PTO_TRY(pto_runtime_create(&rt, &config));
 */
#ifndef PTO_CONFIG_H
#define PTO_CONFIG_H

#include <stdio.h>
#include <string.h>

#include <pto/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_MAX_LEVELS 8
#define PTO_MAX_WORKERS 1024

/* Which thread does the scheduler's work. */
typedef enum pto_place {
    PTO_PLACE_DEFAULT = 0,
    PTO_PLACE_INLINE,  /* the threads that submit and complete tasks */
    PTO_PLACE_THREAD,  /* a dedicated thread */
    PTO_PLACE_PROCESS, /* worker processes: a kernel that crashes does not end the program. See
                          pto/process.h */
    PTO_PLACE_GPU,     /* the device config.device: it schedules for itself. See pto/gpu.h */
} pto_place;

/* Whether each worker thread stays on one core. The orchestrating thread never does: it is the program's.
 * What a kernel starts inherits the core of its worker: threads of a library that kernels call would all
 * share it. */
typedef enum pto_pin {
    PTO_PIN_DEFAULT = 0,
    PTO_PIN_OFF, /* the system moves workers as it likes */
    PTO_PIN_AUTO, /* pinned if the process has cores of its own, and enough of them: they are fewer than
                      the machine has, or isolated; no quota of a control group is below them; and there
                      are more than workers */
    PTO_PIN_CORES, /* pinned in any case; if there are more workers than cores, they share */
} pto_pin;

struct pto_gpu_module; /* pto/gpu.h */

/* The configuration of a runtime. In every field but `size`, zero means the default. */
typedef struct pto_config {
    size_t size; /* sizeof(pto_config) */

    /* Rings. Each level has its own. level_x[l] overrides x on level l. */
    uint32_t levels;      /* ring levels, 1 to 8; deeper boundary scopes share the last level */
    uint32_t ring_tasks;  /* live tasks per level; rounded up to a power of two */
    uint64_t heap_bytes;  /* memory for managed tensors, per level */
    uint32_t deps;        /* stored edges per level; rounded up to a power of two */
    uint64_t arg_bytes;   /* arguments of live tasks, per level */
    uint32_t map_entries; /* most tracked accesses per level; rounded up to a power of two */
    uint32_t level_ring_tasks[PTO_MAX_LEVELS];
    uint64_t level_heap_bytes[PTO_MAX_LEVELS];
    uint32_t level_deps[PTO_MAX_LEVELS];
    uint64_t level_arg_bytes[PTO_MAX_LEVELS];
    uint32_t level_map_entries[PTO_MAX_LEVELS];
    uint32_t buffers; /* managed tensors in open scopes, all levels together */

    /* Workers. There are three ways to configure them: a number of threads that serve all types
     * (workers), a number of threads for each type (type_workers), or a set of types for each
     * thread (workers and worker_types). With workers = PTO_NO_WORKERS there are none: the
     * orchestrating thread does all the work while it submits or waits. */
    uint32_t workers;
    uint32_t type_workers[PTO_WORKER_TYPES];
    const uint32_t *worker_types; /* one set of types for each of the `workers` threads */
    uint32_t caller_types;        /* types that the orchestrating thread runs; or PTO_NO_TYPES */

    pto_place place; /* where the scheduler runs */
    uint32_t spin;   /* polls for work before a thread sleeps; or PTO_NO_SPIN */
    /* A kernel that takes less than this is short. Submit runs a short kernel itself (inline
     * execution) if its dependencies are complete and caller_types includes its type. Kernels
     * of up to 40 times this length are run inline, or not, as trials show what is faster. From
     * 1000000 on, submit runs every kernel that it can, for tests. PTO_NO_INLINE switches inline
     * execution off. There is none with the scheduler on a thread of its own, with guards, for a
     * kernel that was not timed yet, and for the first task on a tensor. */
    uint32_t inline_ns;
    uint64_t overlap_budget; /* search steps for one overlap test (pto/tensor.h) */

    /* For tests and debugging. */
    uint64_t first_task; /* first value of the task and edge counters */
    uint32_t map_twice;  /* 1: the scheduler maps the window at a second address */
    uint32_t guard;      /* 1: guard bytes around managed tensors; a kernel that writes beyond one
                            fails and is named. PTO_GUARD_HOST: only around those on the host; or
                            PTO_NO_GUARD */

    /* Recording of the run: see pto/trace.h. */
    const char *trace;    /* output file: .html, .json, .dot or .ptrace; NULL: none */
    uint64_t trace_limit; /* number of recorded tasks; later ones are counted as lost */

    /* If SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT kills the process in a kernel, one line on
     * stderr names kernel, task and submit site before. A handler is installed only for signals
     * without one, and is removed when the last runtime is destroyed; exit status and core dump stay
     * the same. PTO_NO_CRASH_REPORT switches it off. The library prints nothing else by itself, except
     * that a worker process which has to end says why. (64 bits wide: no padding follows.) */
    uint64_t crash_report;

    /* Scheduler and workers in processes of their own: see pto/process.h. */
    uint32_t process_threads; /* worker threads in each worker process */
    uint32_t grace_ms;     /* a kernel that still runs this long after pto_cancel is ended, with its
                          worker process; 0: never */
    uint64_t shared_bytes; /* memory that pto_shared_alloc can give out */
    const char *attach;    /* workers may attach from outside under this name; NULL: none may */
    /* Where pto_temp, pto_alloc and pto_create_buffer give memory (pto/device.h). All zero: cpu:0. */
    pto_device device;
    uint64_t
        device_heap_bytes; /* memory for managed tensors on each device but the host, per level;
                                   allocated there when a task first needs it */
    /* Place gpu (pto/gpu.h). */
    const struct pto_gpu_module *gpu_module; /* kernels of the device; not for a simulated one */
    uint32_t gpu_idle_us; /* the grid leaves the device when it had nothing to do for so long */
    uint32_t gpu_workers; /* most blocks that run kernels */
    /* Of these, so many run CUBE tasks, and the others VECTOR tasks; 0: every block runs both. */
    uint32_t gpu_cube_workers;
    uint32_t pin; /* pto_pin: workers stay on cores, whole ones near the creating thread first */
} pto_config;

#define PTO_NO_WORKERS UINT32_MAX
#define PTO_NO_TYPES UINT32_MAX
#define PTO_NO_SPIN UINT32_MAX
#define PTO_NO_INLINE UINT32_MAX
#define PTO_NO_GUARD UINT32_MAX
#define PTO_GUARD_HOST 2
#define PTO_NO_CRASH_REPORT UINT32_MAX

/* A configuration with nothing set. */
static inline pto_config pto_config_init_(void)
{
    pto_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    return config;
}

#ifdef __cplusplus
#define PTO_CONFIG_INIT pto_config_init_()
#else
#define PTO_CONFIG_INIT                                                                            \
    {                                                                                              \
        .size = sizeof(pto_config)                                                                 \
    }
#endif

/* Prints the table of options, for the --help of a program: variables, current values, ranges and
 * meanings; and variables that begin with PTO_ but are no options, with the one that may be meant. */
PTO_API void pto_options_print(FILE *out);

/* One option. Values have the syntax of the environment variable. */
typedef struct pto_option {
    const char *variable;  /* "PTO_RING_TASKS" */
    const char *field;     /* field of pto_config: "ring_tasks"; or "pto_sim_config.memory" */
    const char *help;      /* one or two sentences */
    bool from_environment; /* the variable is set and was read */
    char value[76];        /* value in effect if the field is not set */
    char otherwise[76];    /* value if the variable is not set either */
} pto_option;

/* Lists all options. Stores the first `most` in *options, and their total number in *count.
 * PTO_BAD_CONFIG if a variable cannot be read. The detail names that variable, and all values are
 * then the defaults. PTO_UNKNOWN_OPTION if there is a variable PTO_... that is no option, such as a
 * misspelt one. The detail suggests the nearest right name, and the list is complete.
 * (pto_runtime_create ignores such variables: a library does not print.) */
PTO_API PTO_MUST_CHECK pto_status pto_options_list(pto_option *options, size_t most, size_t *count);

#ifdef __cplusplus
}
#endif

#endif /* PTO_CONFIG_H */
