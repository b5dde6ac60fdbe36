/* config.h - the options of a runtime, with every value decided.
 *
 * For each option, the field of the program's pto_config comes first, then the environment
 * variable, then the default. For options by level: level_ring_tasks[l], else ring_tasks, else the
 * value for level l in PTO_RING_TASKS, else the default. The three ways to configure workers are
 * one option: if the program uses any of them, PTO_WORKERS is ignored.
 *
 * An empty variable counts as not set. A variable that is ignored may have any value.
 */
#ifndef PTOI_BASE_CONFIG_H
#define PTOI_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <pto/config.h>

#define PTOI_GRID_WORKERS 768u /* most blocks or threads of a grid that run kernels */
#define PTOI_ATTACH_MOST 64u   /* workers that can be attached to a runtime at one time */

/* No value in here means "default": each number is the one to use. So config.spin == 0 means not to
 * spin, and config.map_twice is 0 or 1. The exception is config.overlap_budget: the map and the
 * overlap test replace 0 by their default.
 *
 * Invariants, for l < config.levels:
 *   level_ring_tasks[l], level_deps[l], level_map_entries[l]  are powers of two
 *   level_heap_bytes[l], level_arg_bytes[l]                   are multiples of 64, and not 0
 *   worker_types[w] for w < n_started                         is a set of known types, not empty
 *
 * The arrays are 0 from config.levels on. ring_tasks, heap_bytes and so on have the values of level
 * 0. The fields by which the program configured workers (config.workers, type_workers,
 * worker_types) are unchanged and must not be used. */
typedef struct ptoi_settings {
    pto_config config;
    uint32_t n_workers;                     /* including those that may attach from outside */
    uint32_t n_started;                     /* of these, the runtime starts the first ones */
    uint32_t worker_types[PTO_MAX_WORKERS]; /* 0: it may attach */
    bool pinned;                            /* workers stay on worker_cpus: base/pin.h */
    uint32_t worker_cpus[PTO_MAX_WORKERS];  /* undefined unless `pinned`, and beyond n_started */
    uint32_t caller_types;                  /* 0: the orchestrating thread runs no kernels */
    uint32_t n_processes; /* worker processes, for config.process_threads workers each, and one for
                              each worker that may attach; 0: workers are threads of the program */
    struct { /* of simulated devices (pto/sim.h): the only options that are not of a runtime */
        uint64_t memory, bandwidth; /* bandwidth 0: no limit */
        uint64_t latency_ns;
        uint32_t workers;
    } sim;
    bool trace_is_shared; /* config.trace came from the environment: all runtimes of the process
                            share it */
} ptoi_settings;

/* `given` may be NULL. On PTO_BAD_CONFIG *out is unchanged, and the detail names the field, its
 * value and range, and the variable if the value came from there. */
pto_status ptoi_config_resolve(const pto_config *given, ptoi_settings *out);

#endif /* PTOI_BASE_CONFIG_H */
