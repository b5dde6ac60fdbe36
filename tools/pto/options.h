/* options.h - the command line of `pto run`, and the runtime configuration it selects. */
#ifndef TOOL_OPTIONS_H
#define TOOL_OPTIONS_H

#include <stdio.h>

#include "workload.h"

enum { OPTIONS_MOST = 32 }; /* options of one workload */

typedef enum options_profile {
    PROFILE_AUTO, /* if the run is short */
    PROFILE_YES,
    PROFILE_NO,
} options_profile;

typedef struct options {
    const workload *what;
    int64_t number[OPTIONS_MOST];
    const char *text[OPTIONS_MOST];
    uint64_t seed;
    int64_t repeat;
    bool check, json, quiet, mpi;
    options_profile profile;

    /* Options of the runtime. Zero means not given; for workers it is -1. */
    bool tight;
    bool gpu;     /* place gpu, by option or variable */
    bool process; /* place process, likewise */
    pto_place place;
    int64_t workers, ring_tasks, heap, levels;
} options;

typedef enum options_answer {
    OPTIONS_RUN,  /* run the workload */
    OPTIONS_DONE, /* help was printed */
    OPTIONS_BAD,  /* an error was printed on stderr */
} options_answer;

/* argv[0] is the name of the workload. */
options_answer options_parse(options *o, const workload *what, int argc, char **argv);

/* Prints the options that all workloads share. */
void options_print_common(FILE *out);

/* The configuration that follows from the options, then the environment, then the presets of the
 * workload. A field whose PTO_ variable is set is left to the runtime, which reads the variable. */
pto_config options_config(const options *o, const workload_job *job);

/* The number of workers with this configuration, and where the scheduler runs. */
uint32_t options_workers(const pto_config *config);
const char *options_place(const pto_config *config);

/* The place of this name; PTO_PLACE_DEFAULT if there is none. */
pto_place options_place_named(const char *name);

#endif /* TOOL_OPTIONS_H */
