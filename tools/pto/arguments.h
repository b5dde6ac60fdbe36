/* arguments.h - the command line of a small command: a table of options, and operands. */
#ifndef TOOL_ARGUMENTS_H
#define TOOL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

enum { ARGUMENTS_MOST = 16 };

/* One option; it sets what it points to, and exactly one of the two is there. */
typedef struct argument {
    const char *name, *value, *help; /* value: what to call it in the help; NULL: it takes none */
    bool *flag;
    const char **text;
} argument;

typedef struct arguments {
    const char *command;  /* "top": as in `pto top` */
    const char *operands; /* "[PID]", for the help */
    const char *about;    /* lines of help, each with its newline */
    const argument *options;
    size_t n_options;
    size_t most_operands;
} arguments;

#define ARGUMENTS_RUN (-1)

/* ARGUMENTS_RUN to go on; else the exit status: help was asked for and given, or it was said on stderr
 * what is wrong. argv[0] is the name of the command. Operands come back in order, `most_operands` of
 * them with NULL for those that are not there. --help is known to all. */
int arguments_read(const arguments *a, int argc, char **argv, const char **operands);

/* "PID" or "PID:NUMBER". Says what is wrong, if so. */
bool arguments_process(const char *command, const char *text, int *pid, unsigned *number);

/* A number of seconds, from low to high. */
bool arguments_seconds(const char *command, const char *option, const char *text, double low,
                       double high, double *seconds);

#endif /* TOOL_ARGUMENTS_H */
