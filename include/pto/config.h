/* pto/config.h - what can be set about a runtime. Nothing has to be.
 *
 * Every field has an environment variable, a default and a sentence of help, in one table
 * (pto_options_print shows it). A field that is set wins over the environment, which wins over the
 * default; zero means not set.
 *
 *     pto_config config = PTO_CONFIG_INIT;
 *     config.heap_bytes = 1 << 20;
 *     pto_runtime_create(&rt, &config);
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

/* Where the scheduler's step is taken. */
typedef enum pto_place {
    PTO_PLACE_DEFAULT = 0,
    PTO_PLACE_INLINE, /* by whoever submits or completes a task */
    PTO_PLACE_THREAD, /* on a thread of its own */
} pto_place;

/* What a runtime is to be like. Zero means default in every field but `size`. */
typedef struct pto_config {
    size_t size; /* sizeof(pto_config) */

    /* Rings. Each level has its own; level_...[l] is over the common one for level l. */
    uint32_t levels;      /* ring levels, 1 to 8: boundary scopes that nest deeper share the last */
    uint32_t window;      /* tasks alive at once, per level; rounded up to a power of two */
    uint64_t heap_bytes;  /* memory for managed tensors, per level */
    uint32_t deps;        /* edges kept at once, per level; rounded up to a power of two */
    uint64_t arg_bytes;   /* arguments of live tasks, per level */
    uint32_t map_entries; /* accesses remembered, per level; rounded up to a power of two */
    uint32_t level_window[PTO_MAX_LEVELS];
    uint64_t level_heap_bytes[PTO_MAX_LEVELS];
    uint32_t level_deps[PTO_MAX_LEVELS];
    uint64_t level_arg_bytes[PTO_MAX_LEVELS];
    uint32_t level_map_entries[PTO_MAX_LEVELS];
    uint32_t buffers; /* managed tensors in open scopes, all levels together */

    /* Workers. Three ways to say it: a number of threads that serve all types; so many threads for
     * each type; a set of types for each thread. PTO_NO_WORKERS: none, the orchestrating thread
     * does all the work, as it submits or waits. */
    uint32_t workers;
    uint32_t type_workers[PTO_WORKER_TYPES];
    const uint32_t *worker_types; /* `workers` sets of types */
    uint32_t caller_types;        /* what the orchestrating thread helps with; PTO_NO_TYPES */

    pto_place place; /* of the scheduler */
    uint32_t spin;   /* looks for work before a thread goes to sleep; PTO_NO_SPIN */
    /* A kernel that takes less is brief: submit runs it itself, if there is nobody to wait for and
     * caller_types says so; and what takes up to 40 times as long, while workers have enough to do.
     * From 1000000 on, whatever there is, for tests. PTO_NO_BRIEF. */
    uint32_t brief_ns;
    uint64_t overlap_budget; /* steps of search for one overlap (pto/tensor.h) */

    /* For tests. */
    uint64_t first_task; /* where the counters of tasks and edges begin */
    uint32_t map_twice;  /* the scheduler's side sees the window at another address */
    uint32_t guard;      /* 1: guard bytes around managed tensors, so that a kernel that writes
                            beyond one fails, with its name; PTO_NO_GUARD */

    /* Recording the run: see pto/trace.h. */
    const char *trace;    /* file to write: .html, .json, .dot or .ptrace; NULL: none */
    uint64_t trace_limit; /* tasks that are recorded; those that come later are counted as lost */
} pto_config;

#define PTO_NO_WORKERS UINT32_MAX
#define PTO_NO_TYPES UINT32_MAX
#define PTO_NO_SPIN UINT32_MAX
#define PTO_NO_BRIEF UINT32_MAX
#define PTO_NO_GUARD UINT32_MAX

/* A configuration in which nothing is set. */
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

/* Prints the table of options: variables, values now, what they take and mean, as a program would
 * for its --help. */
PTO_API void pto_options_print(FILE *out);

/* One of them. Values are as one would write them into the variable. */
typedef struct pto_option {
    const char *variable;  /* "PTO_WINDOW" */
    const char *field;     /* of pto_config: "window" */
    const char *help;      /* a sentence or two */
    bool from_environment; /* the variable is set, and has been read */
    char value[76];        /* what counts if no field is set */
    char otherwise[76];    /* what would, if the variable were not set either */
} pto_option;

/* All of them, for programs: the first `most` into *options, and how many there are into *count.
 * PTO_BAD_CONFIG if a variable holds nonsense, which the detail names: then all values are the
 * defaults. */
PTO_API pto_status pto_options_list(pto_option *options, size_t most, size_t *count);

#ifdef __cplusplus
}
#endif

#endif /* PTO_CONFIG_H */
