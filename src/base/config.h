/* config.h - the options of a runtime, all decided.
 *
 * For each option the field of the program's pto_config comes first, then the environment
 * variable, then the default. Level by level: level_window[l], else window, else the value for
 * level l in PTO_WINDOW, else the default. The three ways to say workers are one option: if the
 * program uses any of them, PTO_WORKERS is not looked at.
 *
 * A variable that is empty counts as not set. One that is not looked at may hold anything.
 */
#ifndef PTOI_BASE_CONFIG_H
#define PTOI_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <pto/config.h>

/* Nothing in here means "default" any more: each number is the one to use. Hence config.spin == 0
 * says not to spin at all, and config.map_twice is 0 or 1. The one exception is
 * config.overlap_budget, where 0 goes on to the map and the overlap test, which know their default.
 *
 * Invariants, for l < config.levels:
 *   level_window[l], level_deps[l], level_map_entries[l]  are powers of two
 *   level_heap_bytes[l], level_arg_bytes[l]               are multiples of 64, and not 0
 *   worker_types[w] for w < n_workers                     is a set of known types, not empty
 *
 * Levels beyond are 0; window, heap_bytes and so on are those of level 0. How the program said
 * workers (config.workers, type_workers, worker_types) stays as it was, and is not to be used. */
typedef struct ptoi_settings {
    pto_config config;
    uint32_t n_workers;
    uint32_t worker_types[PTO_MAX_WORKERS];
    uint32_t caller_types; /* 0: the orchestrating thread runs no kernels */
    bool
        trace_is_shared; /* config.trace is the environment's: all runtimes of the process have it */
} ptoi_settings;

/* `given` may be NULL. PTO_BAD_CONFIG, with *out as it was: the detail names field, variable if the
 * value came from there, value and range. */
pto_status ptoi_config_resolve(const pto_config *given, ptoi_settings *out);

#endif /* PTOI_BASE_CONFIG_H */
