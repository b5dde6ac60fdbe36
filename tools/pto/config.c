/* config.c - derives the runtime configuration from options, environment and workload. */
#define _GNU_SOURCE /* CPU_COUNT */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

/* The fields that a workload may preset, with the variables that override them. */
typedef struct field {
    const char *variable;
    size_t at, bytes;               /* in pto_config */
    size_t levels_at, levels_bytes; /* of the per-level array, if there is one */
} field;

#define FIELD(variable, name)                                                                      \
    {                                                                                              \
        variable, offsetof(pto_config, name), sizeof(((pto_config *)0)->name), 0, 0                \
    }
#define LEVEL_FIELD(variable, name)                                                                \
    {                                                                                              \
        variable, offsetof(pto_config, name), sizeof(((pto_config *)0)->name),                     \
            offsetof(pto_config, level_##name), sizeof(((pto_config *)0)->level_##name)            \
    }

static const field fields[] = {
    FIELD("PTO_LEVELS", levels),
    LEVEL_FIELD("PTO_RING_TASKS", ring_tasks),
    LEVEL_FIELD("PTO_HEAP", heap_bytes),
    LEVEL_FIELD("PTO_DEPS", deps),
    LEVEL_FIELD("PTO_ARGS", arg_bytes),
    LEVEL_FIELD("PTO_MAP_ENTRIES", map_entries),
    FIELD("PTO_BUFFERS", buffers),
    FIELD("PTO_WORKERS", workers),
    FIELD("PTO_WORKERS", type_workers),
    FIELD("PTO_WORKERS", worker_types),
    FIELD("PTO_CALLER", caller_types),
    FIELD("PTO_SCHEDULER", place),
    FIELD("PTO_SPIN", spin),
    FIELD("PTO_OVERLAP_BUDGET", overlap_budget),
};

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void forget(pto_config *config, const field *f)
{
    memset((char *)config + f->at, 0, f->bytes);
    memset((char *)config + f->levels_at, 0, f->levels_bytes);
}

/* Removes the preset of a field, including its per-level values. */
static void forget_variable(pto_config *config, const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!strcmp(fields[i].variable, name)) {
            forget(config, &fields[i]);
        }
    }
}

pto_config options_config(const options *o, const workload_job *job)
{
    /* Tight rings come from the command line. The usual ones are only a preset. */
    pto_config config = o->tight ? job->tight : job->usual;
    for (size_t i = 0; !o->tight && i < sizeof fields / sizeof *fields; i++) {
        if (variable(fields[i].variable)) {
            forget(&config, &fields[i]);
        }
    }
    if (o->workers >= 0) {
        forget_variable(&config, "PTO_WORKERS");
        config.workers = o->workers ? (uint32_t)o->workers : PTO_NO_WORKERS;
    }
    if (o->ring_tasks) {
        forget_variable(&config, "PTO_RING_TASKS");
        config.ring_tasks = (uint32_t)o->ring_tasks;
    }
    if (o->heap) {
        forget_variable(&config, "PTO_HEAP");
        config.heap_bytes = (uint64_t)o->heap;
    }
    if (o->levels) {
        config.levels = (uint32_t)o->levels;
    }
    if (o->place) {
        config.place = o->place;
    }
    config.size = sizeof config;
    return config;
}

/* "cube:2,vector" is three workers. The runtime has already validated the list. */
static uint32_t count_list(const char *list)
{
    uint32_t n = 0;
    while (*list) {
        const size_t length = strcspn(list, ",");
        const char *colon = memchr(list, ':', length);
        n += colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 1;
        list += length + (list[length] == ',');
    }
    return n;
}

uint32_t options_workers(const pto_config *config)
{
    const char *said = variable("PTO_WORKERS");
    uint32_t n = 0;
    if (config->workers) {
        return config->workers == PTO_NO_WORKERS ? 0 : config->workers;
    }
    for (int type = 0; type < PTO_WORKER_TYPES; type++) {
        n += config->type_workers[type];
    }
    if (n) {
        return n;
    }
    if (said) {
        const size_t digits = strspn(said, "0123456789");
        return !strcasecmp(said, "none") ? 0
               : !said[digits]           ? (uint32_t)strtoul(said, NULL, 10)
                                         : count_list(said);
    }
    cpu_set_t cores;
    const int n_cores = sched_getaffinity(0, sizeof cores, &cores) ? 2 : CPU_COUNT(&cores);
    return n_cores > 2 ? (uint32_t)n_cores - 1 : 1;
}

static const char *const place_names[] = {[PTO_PLACE_INLINE] = "inline",
                                          [PTO_PLACE_THREAD] = "thread",
                                          [PTO_PLACE_PROCESS] = "process",
                                          [PTO_PLACE_GPU] = "gpu"};

pto_place options_place_named(const char *name)
{
    for (size_t i = PTO_PLACE_INLINE; i < sizeof place_names / sizeof *place_names; i++) {
        if (!strcasecmp(name, place_names[i])) {
            return (pto_place)i;
        }
    }
    return PTO_PLACE_DEFAULT;
}

const char *options_place(const pto_config *config)
{
    const char *said = variable("PTO_SCHEDULER");
    const pto_place place = config->place ? config->place
                            : said        ? options_place_named(said)
                                          : PTO_PLACE_DEFAULT;
    return place_names[place ? place : PTO_PLACE_INLINE];
}
