/* main.c - the `pto` command: what runs under it, each thing under a word of its own. */
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

/* Says that there is no such thing, and what may have been meant. */
static int refuse(const char *context, const char *kind, const char *word, const char *const *names,
                  size_t n_names)
{
    const char *nearest = words_nearest(word, names, n_names);
    fprintf(stderr, "%s: no %s '%s'", context, kind, word);
    if (nearest) {
        fprintf(stderr, "; did you mean '%s'?", nearest);
    }
    fprintf(stderr, "\nthere are:");
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
          "       pto run NAME --help      its own options\n"
          "       pto run --list           the workloads:\n\n",
          out);
    list_workloads(out);
    fputs("\nOptions of all workloads:\n\n", out);
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

/* ---- The others ----------------------------------------------------------------------------- */

static int command_options(int argc, char **argv)
{
    const arguments a = {
        .command = "options",
        .operands = "",
        .about =
            "Every option of the runtime, as a table: the variable of the environment, its value "
            "here, what it\ntakes, and what it means.\n",
    };
    const int over = arguments_read(&a, argc, argv, NULL);
    if (over != ARGUMENTS_RUN) {
        return over;
    }
    pto_options_print(stdout);
    return 0;
}

static const command commands[] = {
    {"run", "run a workload, time it and check its result", command_run},
    {"trace", "look at a recorded run, or make another file of it", command_trace},
    {"explain", "why two tasks of a recorded run are ordered, or not", command_explain},
    {"replay", "a recorded run on other workers and in smaller rings", command_replay},
    {"top", "a running program, live: rates, rings, workers", command_top},
    {"doctor", "what a program that hangs waits for", command_doctor},
    {"info", "this build, this machine and every option with its value", command_info},
    {"bench", "the benches, and how to run them", command_bench},
    {"options", "what can be set about the runtime through the environment", command_options},
};
static const size_t n_commands = sizeof commands / sizeof *commands;

static void print_help(FILE *out)
{
    fputs("usage: pto COMMAND [ARGUMENTS]\n\n", out);
    for (size_t i = 0; i < n_commands; i++) {
        fprintf(out, "  %-11s %s\n", commands[i].name, commands[i].help);
    }
    fputs("  --version   the version of the runtime\n"
          "  --help      this; pto run --help has more\n",
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
