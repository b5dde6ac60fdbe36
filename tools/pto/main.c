/* main.c - the `pto` command: dispatches to its subcommands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "commands.h"
#include "run.h"
#include "words.h"

enum { NAMES_MOST = 64 };

typedef struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv); /* argv[0] is the name */
} command;

/* Reports an unknown name, and suggests the closest one. */
static int refuse(const char *context, const char *kind, const char *word, const char *const *names,
                  size_t n_names)
{
    const char *nearest = words_nearest(word, names, n_names);
    fprintf(stderr, "%s: no %s '%s'", context, kind, word);
    if (nearest) {
        fprintf(stderr, "; did you mean '%s'?", nearest);
    }
    fprintf(stderr, "\navailable:");
    for (size_t i = 0; i < n_names; i++) {
        fprintf(stderr, " %s", names[i]);
    }
    fputc('\n', stderr);
    return 2;
}

/* ---- pto run -------------------------------------------------------------------------------- */

static void list_workloads(FILE *out)
{
    for (const workload *const *w = workloads; *w; w++) {
        fprintf(out, "  %-11s %s\n", (*w)->name, (*w)->summary);
    }
}

static void print_run_help(FILE *out)
{
    fputs("usage: pto run NAME [OPTIONS]   run a workload, time it and check its result\n"
          "       pto run NAME --help      list the options of a workload\n"
          "       pto run --list           list the workloads:\n\n",
          out);
    list_workloads(out);
    fputs("\nCommon options:\n\n", out);
    options_print_common(out);
}

static int run_named(int argc, char **argv)
{
    const char *names[NAMES_MOST];
    size_t n = 0;
    for (const workload *const *w = workloads; *w && n < NAMES_MOST; w++) {
        if (!strcmp((*w)->name, argv[0])) {
            options o;
            switch (options_parse(&o, *w, argc, argv)) {
            case OPTIONS_DONE:
                return 0;
            case OPTIONS_BAD:
                return 2;
            case OPTIONS_RUN:
                break;
            }
            return run_workload(&o);
        }
        names[n++] = (*w)->name;
    }
    return refuse("pto run", "workload", argv[0], names, n);
}

static int command_run(int argc, char **argv)
{
    if (argc < 2) {
        print_run_help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--list")) {
        list_workloads(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_run_help(stdout);
        return 0;
    }
    if (argv[1][0] == '-') {
        fprintf(stderr, "pto run: the workload comes first, then '%s' (pto run --list)\n", argv[1]);
        return 2;
    }
    return run_named(argc - 1, argv + 1);
}

/* ---- Other commands ------------------------------------------------------------------------ */

static int command_options(int argc, char **argv)
{
    const arguments a = {
        .command = "options",
        .operands = "",
        .about =
            "Lists every option of the runtime: its environment variable, current value, range and "
            "meaning.\n",
    };
    const int over = arguments_read(&a, argc, argv, NULL);
    if (over != ARGUMENTS_RUN) {
        return over;
    }
    size_t count;
    pto_options_print(stdout);
    return pto_options_list(NULL, 0, &count) != PTO_OK; /* the list has said why */
}

static const command commands[] = {
    {"run", "run a workload, time it and check its result", command_run},
    {"trace", "report on a recorded run, or convert it", command_trace},
    {"explain", "explain why two tasks of a recorded run are ordered or not", command_explain},
    {"replay", "simulate a recorded run with other workers and rings", command_replay},
    {"top", "live view of a running program: rates, rings, workers", command_top},
    {"worker", "run tasks of a running program in another process", command_worker},
    {"doctor", "find out what a hanging program waits for", command_doctor},
    {"info", "show this build, this machine and all option values", command_info},
    {"bench", "list and run the benchmarks", command_bench},
    {"options", "list the environment variables of the runtime", command_options},
};
static const size_t n_commands = sizeof commands / sizeof *commands;

static void print_help(FILE *out)
{
    fputs("usage: pto COMMAND [ARGUMENTS]\n\n", out);
    for (size_t i = 0; i < n_commands; i++) {
        fprintf(out, "  %-11s %s\n", commands[i].name, commands[i].help);
    }
    fputs("  --version   print the version of the runtime\n"
          "  --help      print this help; pto COMMAND --help has more\n",
          out);
}

static int dispatch(int argc, char **argv)
{
    const char *names[sizeof commands / sizeof *commands];
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("pto %s\n", pto_version());
        return 0;
    }
    for (size_t i = 0; i < n_commands; i++) {
        if (!strcmp(commands[i].name, argv[1])) {
            return commands[i].run(argc - 1, argv + 1);
        }
        names[i] = commands[i].name;
    }
    return refuse("pto", "command", argv[1], names, n_commands);
}

int main(int argc, char **argv)
{
    const int status = dispatch(argc, argv);
    errno = 0;
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "pto: cannot write to stdout%s%s\n", errno ? ": " : "",
                errno ? strerror(errno) : "");
        return status ? status : 1;
    }
    return status;
}
