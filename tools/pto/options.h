/* options.h - the command line of `pto run`, and the configuration of the runtime it asks for. */
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
    bool check, json, quiet;
    options_profile profile;

    /* Of the runtime; zero, or -1 for the workers: not said. */
    bool tight;
    pto_place place;
    int64_t workers, window, heap, levels;
} options;

typedef enum options_answer {
    OPTIONS_RUN,  /* go on */
    OPTIONS_DONE, /* help was asked for, and given */
    OPTIONS_BAD,  /* it was said on stderr what is wrong */
} options_answer;

/* argv[0] is the name of the workload. */
options_answer options_parse(options *o, const workload *what, int argc, char **argv);

/* What `pto run --help` says about the options that all workloads share. */
void options_print_common(FILE *out);

/* What the options, the environment and the wishes of the workload come to, in this order: whatever
 * stands in a PTO_ variable is left to the runtime, which reads it. */
pto_config options_config(const options *o, const workload_job *job);

/* How many workers the runtime has with this configuration, and who schedules. */
uint32_t options_workers(const pto_config *config);
const char *options_place(const pto_config *config);

#endif /* TOOL_OPTIONS_H */
