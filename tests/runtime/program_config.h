/* program_config.h - a configuration from a seed, and in words. */
#ifndef PTO_TEST_PROGRAM_CONFIG_H
#define PTO_TEST_PROGRAM_CONFIG_H

#include "program_view.h"

static inline void config_workers(test_rng *rng, program *p, program_profile profile)
{
    pto_config *c = &p->config;
    if (program_one_in(rng, 10)) {
        for (int type = 0; type < PTO_WORKER_TYPES; type++) {
            c->type_workers[type] = (uint32_t)program_roll(rng, 1, 2);
        }
        return;
    }
    const bool any = profile == PROFILE_ALL || profile == PROFILE_SAME;
    c->workers = (uint32_t)program_roll(rng, any ? 0 : 2, PROGRAM_WORKERS);
    if (!c->workers) {
        c->workers = PTO_NO_WORKERS;
        return;
    }
    if (program_one_in(rng, 4)) {
        c->caller_types = PTO_NO_TYPES;
    }
    p->types_apart = program_one_in(rng, 3);
    for (uint32_t w = 0; w < c->workers; w++) {
        p->worker_types[w] = (uint32_t)program_roll(rng, 1, PTO_ALL_TYPES);
    }
    p->worker_types[program_roll(rng, 0, c->workers - 1)] =
        PTO_ALL_TYPES; /* each type has a worker */
}

/* Rings from large to hopeless: pools smaller than one task needs, task rings of two. */
static inline void config_rings(test_rng *rng, pto_config *c, program_profile profile)
{
    if (profile == PROFILE_RACE) {
        c->ring_tasks = UINT32_C(1) << program_roll(rng, 4, 7);
        c->heap_bytes = (uint64_t)program_roll(rng, 4, 12) * 64;
        return;
    }
    if (profile == PROFILE_FAIL) {
        c->ring_tasks = UINT32_C(1) << program_roll(rng, 2, 4);
        c->deps = UINT32_C(1) << program_roll(rng, 0, 3);
        return;
    }
    if (profile == PROFILE_SAME && !program_one_in(rng, 4)) { /* room, mostly */
        c->ring_tasks = UINT32_C(1) << program_roll(rng, 3, 8);
        c->heap_bytes = (uint64_t)program_roll(rng, 8, 96) * 64;
        if (program_one_in(rng, 3)) {
            c->deps = UINT32_C(1) << program_roll(rng, 6, 9);
        }
        if (program_one_in(rng, 3)) {
            c->map_entries = UINT32_C(1) << program_roll(rng, 3, 8);
        }
        return;
    }
    if (!program_one_in(rng, 4)) {
        c->ring_tasks = UINT32_C(1) << (program_one_in(rng, 4) ? program_roll(rng, 1, 3)
                                                               : program_roll(rng, 4, 6));
    }
    if (!program_one_in(rng, 4)) {
        c->heap_bytes = (uint64_t)program_roll(rng, 4, 48) * 64;
    }
    if (!program_one_in(rng, 3)) {
        c->deps = UINT32_C(1) << program_roll(rng, 0, 5);
    }
    if (!program_one_in(rng, 3)) {
        c->map_entries = UINT32_C(1) << program_roll(rng, 0, 5);
    }
    if (program_one_in(rng, 4)) {
        c->arg_bytes = (uint64_t)program_roll(rng, 8, 128) * 64;
    }
    if (program_one_in(rng, 12)) {
        c->buffers = (uint32_t)program_roll(rng, 1, 8);
    }
    if (program_one_in(rng, 4)) {
        for (uint32_t level = 0; level < c->levels; level++) {
            c->level_ring_tasks[level] = UINT32_C(1) << program_roll(rng, 2, 7);
            c->level_heap_bytes[level] = (uint64_t)program_roll(rng, 4, 64) * 64;
        }
    }
}

/* The thread sanitizer identifies memory by address, and does not see what another process orders:
 * it would report a race between two threads of this process that synchronize through a third
 * one. An emulator would take minutes: see cmake/cross_tests.cmake. */
#if defined(__SANITIZE_THREAD__)
#define PROGRAM_TSAN 1
#else
#define PROGRAM_TSAN 0
#endif

/* The same program with worker processes. What is drawn does not change. */
static inline void config_use_processes(program *p)
{
    pto_config *c = &p->config;
    if (PROGRAM_TSAN || getenv("PTO_TEST_EMULATED")) {
        return;
    }
    c->place = PTO_PLACE_PROCESS;
    if (c->workers == PTO_NO_WORKERS) {
        c->workers = 1;
    }
    c->process_threads = p->seed / 21 % 3 == 1 ? 2 : 1;
}

/* The same program on a device that schedules for itself. What is drawn does not change. */
static inline void config_use_grid(program *p)
{
    pto_config *c = &p->config;
    c->place = PTO_PLACE_GPU;
    c->device = program_device(1);
    c->guard = PTO_NO_GUARD;
    c->gpu_workers = 1 + (uint32_t)(p->seed / 4 % 3);
    c->gpu_cube_workers = c->gpu_workers > 1 && p->seed / 24 % 3 == 0; /* blocks for each type */
    c->gpu_idle_us = p->seed / 12 % 2 ? 1 : 200; /* it leaves again and again, or now and then */
    if (c->workers == PTO_NO_WORKERS) {
        c->workers = 1;
    }
}

/* All settings in all combinations. `fails`: the program has tasks that may fail. */
static inline void config_make(test_rng *rng, program *p, program_profile profile, bool fails)
{
    pto_config *c = &p->config;
    *c = (pto_config)PTO_CONFIG_INIT;
    c->levels = (uint32_t)program_roll(rng, 1, 4);
    config_workers(rng, p, profile);
    c->place = program_one_in(rng, 3) ? PTO_PLACE_THREAD : PTO_PLACE_INLINE;
    c->map_twice = program_one_in(rng, 2);
    c->spin = program_one_in(rng, 3) ? 0 : (uint32_t)program_roll(rng, 1, 200);
    /* A small budget changes no result, and poisons nothing more: it only adds edges. */
    const bool small = fails ? c->spin % 3 == 1 : program_one_in(rng, 4); /* as old seeds draw */
    c->overlap_budget = small ? 1 : UINT64_MAX;
    if (program_one_in(rng, 3)) {
        static const int bits[] = {8, 16, 31, 32, 33, 48};
        c->first_task = (UINT64_C(1) << bits[program_roll(rng, 0, 5)]) -
                        (uint64_t)program_roll(rng, 1, 60);
    }
    const bool roomy = profile == PROFILE_DEVICE && program_one_in(rng, 2);
    config_rings(rng, c, roomy ? PROFILE_SAME : profile);
    /* Not drawn, so that the programs of old seeds do not change. */
    c->guard = c->spin % 4 == 1 ? 1 : PTO_NO_GUARD;
    const bool inlined = profile == PROFILE_SAME ? c->spin % 4 != 1 : c->spin % 4 == 2;
    c->inline_ns = inlined            ? 1000000000 /* every kernel that can run inline */
                   : c->spin % 4 == 3 ? 100 /* short ones, and medium ones while workers are busy */
                                      : PTO_NO_INLINE;
    if (inlined) { /* and few reasons not to run inline */
        c->place = PTO_PLACE_INLINE;
        c->caller_types = 0;
        c->deps = c->map_entries = 0;
        memset(c->level_deps, 0, sizeof c->level_deps);
        memset(c->level_map_entries, 0, sizeof c->level_map_entries);
    }
    if (profile == PROFILE_DEVICE) {
        p->devices = true;
        c->device_heap_bytes = (uint64_t)program_roll(rng, 3, program_one_in(rng, 2) ? 8 : 80) * 64;
        c->device = program_device(program_one_in(rng, 4) ? 1 : 0);
        c->heap_bytes = c->heap_bytes ? c->heap_bytes : 4096;
        if (p->seed % 4 == 3) {
            config_use_grid(p);
        }
    } else if (p->seed % 21 ==
               20) { /* starting processes takes longer than the rest of a program */
        config_use_processes(p);
    }
}

/* ---- In words ------------------------------------------------------------------------------- */

static inline void config_number(FILE *out, const char *name, uint64_t value)
{
    if (value) {
        fprintf(out, ", %s %" PRIu64, name, value);
    }
}

/* One line, and one for each level with its own sizes. Defaults are not printed. */
static inline void config_print(FILE *out, const program *p)
{
    const pto_config *c = &p->config;
    fprintf(out, "  levels %u", c->levels);
    if (c->inline_ns != PTO_NO_INLINE) {
        fprintf(out, ", inline");
    }
    if (c->type_workers[0]) {
        fprintf(out, ", workers of one type");
    } else if (c->workers == PTO_NO_WORKERS) {
        fprintf(out, ", no workers");
    } else {
        fprintf(out, ", workers %u%s", c->workers, p->types_apart ? " of different types" : "");
    }
    fprintf(out, "%s%s%s", c->caller_types ? ", the caller does not help" : "",
            c->place == PTO_PLACE_THREAD    ? ", a thread schedules"
            : c->place == PTO_PLACE_PROCESS ? ", worker processes"
            : c->place == PTO_PLACE_GPU     ? ", the device schedules"
                                            : "",
            c->map_twice ? ", mapped twice" : "");
    fprintf(out, "%s",
            c->guard == 1                ? ", guarded"
            : c->guard == PTO_GUARD_HOST ? ", guarded on the host"
                                         : "");
    config_number(out, "threads in each process",
                  c->place == PTO_PLACE_PROCESS ? c->process_threads : 0);
    config_number(out, "ring tasks", c->ring_tasks);
    config_number(out, "heap", c->heap_bytes);
    config_number(out, "heaps of devices", c->device_heap_bytes);
    fprintf(out, "%s", c->device.type == PTO_DEVICE_SIM ? ", at home on sim:0" : "");
    config_number(out, "deps", c->deps);
    config_number(out, "map entries", c->map_entries);
    config_number(out, "args", c->arg_bytes);
    config_number(out, "buffers", c->buffers);
    config_number(out, "spin", c->spin);
    config_number(out, "budget", c->overlap_budget == UINT64_MAX ? 0 : c->overlap_budget);
    config_number(out, "first task", c->first_task);
    fprintf(out, "%s\n", p->ending == PTO_CANCEL ? ", cancelled at the end" : "");
    for (uint32_t level = 0; level < c->levels; level++) {
        if (c->level_ring_tasks[level]) {
            fprintf(out, "  level %u: ring tasks %u, heap %" PRIu64 "\n", level,
                    c->level_ring_tasks[level], c->level_heap_bytes[level]);
        }
    }
}

#endif /* PTO_TEST_PROGRAM_CONFIG_H */
