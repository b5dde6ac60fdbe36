/* worker.c - `pto worker`: a worker process for a program that runs. */
#define _GNU_SOURCE /* strsep */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/process.h>

#include "arguments.h"
#include "commands.h"

enum { LIBRARIES_MOST = 64 };

static void on_signal(int number)
{
    (void)number;
    pto_worker_detach();
}

/* "cube,vector" as a set of types; 0: unknown. */
static uint32_t read_types(const char *text)
{
    uint32_t types = 0;
    char copy[128];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest = copy, *word; (word = strsep(&rest, ",+"));) {
        uint32_t found = strcmp(word, "all") == 0 ? PTO_ALL_TYPES : 0;
        for (unsigned t = 0; t < PTO_WORKER_TYPES; t++) {
            found |= strcmp(word, pto_worker_type_name((pto_worker_type)t)) == 0 ? PTO_TYPE_BIT(t)
                                                                                 : 0;
        }
        if (!found) {
            return 0;
        }
        types |= found;
    }
    return types;
}

static int refuse(const char *option, const char *value, const char *takes)
{
    fprintf(stderr, "pto worker: --%s %s: it takes %s\n", option, value, takes);
    return 2;
}

int command_worker(int argc, char **argv)
{
    const char *name = NULL, *kernels = NULL, *workers = NULL, *types = NULL, *none;
    const argument options[] = {
        {"attach", "NAME", "the program's name: it runs with PTO_ATTACH=NAME", NULL, &name},
        {"kernels", "LIBS", "shared objects with its kernels, separated by commas", NULL, &kernels},
        {"workers", "N", "threads that run kernels, 1 to 64 (1)", NULL, &workers},
        {"types", "TYPES", "worker types that they serve, like cube,vector (all)", NULL, &types},
    };
    const arguments a = {
        .command = "worker",
        .operands = "",
        .about = "Runs tasks of a program in this process, until the program ends or Ctrl-C. The "
                 "program must\nrun with PTO_SCHEDULER=process and PTO_ATTACH=NAME, as the same "
                 "user.\n",
        .options = options,
        .n_options = sizeof options / sizeof *options,
    };
    const int over = arguments_read(&a, argc, argv, &none);
    if (over != ARGUMENTS_RUN) {
        return over;
    }
    pto_worker_options o = {.size = sizeof o, .name = name};
    const char *list[LIBRARIES_MOST];
    if (!name) {
        fputs("pto worker: --attach NAME says which program (pto worker --help)\n", stderr);
        return 2;
    }
    if (workers) {
        char *end;
        const unsigned long n = strtoul(workers, &end, 10);
        if (*end || n < 1 || n > 64) {
            return refuse("workers", workers, "1 to 64");
        }
        o.workers = (uint32_t)n;
    }
    if (types && (o.types = read_types(types)) == 0) {
        return refuse("types", types, "all, or some of cube, vector, ai_cpu, accelerator");
    }
    char *copy = strdup(kernels ? kernels : "");
    for (char *rest = copy, *word; rest && (word = strsep(&rest, ","));) {
        if (*word && o.n_libraries < LIBRARIES_MOST) {
            list[o.n_libraries++] = word;
        }
    }
    o.libraries = list;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL); /* its terminal was closed */
    const pto_status status = pto_worker_attach(&o);
    if (status != PTO_OK) {
        fprintf(stderr, "pto worker: %s\n", pto_error_detail());
    }
    free(copy);
    return status != PTO_OK;
}
