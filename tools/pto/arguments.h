/* arguments.h - command line parsing for small commands: a table of options, and operands. */
#ifndef TOOL_ARGUMENTS_H
#define TOOL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

enum { ARGUMENTS_MOST = 16 };

/* One option. It sets either *flag or *text; the other pointer is NULL. */
typedef struct argument {
    const char *name, *value, *help; /* value: its name in the help; NULL: takes no value */
    bool *flag;
    const char **text;
} argument;

typedef struct arguments {
    const char *command;  /* "top" for `pto top` */
    const char *operands; /* "[PID]", for the help */
    const char *about;    /* help text; every line ends with a newline */
    const argument *options;
    size_t n_options;
    size_t most_operands;
} arguments;

#define ARGUMENTS_RUN (-1)

/* Parses the command line. Returns ARGUMENTS_RUN if the command should run. Otherwise help was
 * printed, or an error on stderr, and the result is the exit status. argv[0] is the name of the
 * command. The operands are stored in order: `most_operands` pointers, NULL for missing ones. Every
 * command has --help. */
int arguments_read(const arguments *a, int argc, char **argv, const char **operands);

/* Parses "PID" or "PID:NUMBER". Prints an error if it is neither. */
bool arguments_process(const char *command, const char *text, int *pid, unsigned *number);

/* Parses a number of seconds from low to high. Prints an error otherwise. */
bool arguments_seconds(const char *command, const char *option, const char *text, double low,
                       double high, double *seconds);

#endif /* TOOL_ARGUMENTS_H */
