/* arguments.c - see arguments.h. */
#include "arguments.h"

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "words.h"

static void print_help(const arguments *a)
{
    printf("usage: pto %s [OPTIONS]%s%s\n\n%s", a->command, *a->operands ? " " : "", a->operands,
           a->about);
    puts("");
    for (size_t i = 0; i < a->n_options; i++) {
        char left[64];
        const argument *o = &a->options[i];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-20s %s\n", left, o->help);
    }
    printf("  %-20s %s\n", "--help", "print this help");
}

/* Prints why getopt refused `word`. */
static int refuse(const arguments *a, int answer, const char *word)
{
    const char *names[ARGUMENTS_MOST + 1];
    for (size_t i = 0; i < a->n_options; i++) {
        names[i] = a->options[i].name;
    }
    names[a->n_options] = "help";
    fprintf(stderr, "pto %s: ", a->command);
    if (answer == ':') {
        fprintf(stderr, "%s needs a value", word);
    } else if (optopt && !strncmp(word, "--", 2)) {
        fprintf(stderr, "%.*s takes no value", (int)strcspn(word, "="), word);
    } else {
        char name[64];
        const char *letters = word + strspn(word, "-");
        snprintf(name, sizeof name, "%.*s", (int)strcspn(letters, "="), letters);
        const char *nearest = words_nearest(name, names, a->n_options + 1);
        fprintf(stderr, "unknown option '%s'%s%s%s", word, nearest ? "; did you mean --" : "",
                nearest ? nearest : "", nearest ? "?" : "");
    }
    fprintf(stderr, "\n(pto %s --help lists them)\n", a->command);
    return 2;
}

int arguments_read(const arguments *a, int argc, char **argv, const char **operands)
{
    enum { OWN = 1000, HELP = 2000 };
    struct option longs[ARGUMENTS_MOST + 2] = {{0}};
    for (size_t i = 0; i < a->n_options; i++) {
        longs[i] = (struct option){a->options[i].name,
                                   a->options[i].value ? required_argument : no_argument, NULL,
                                   OWN + (int)i};
    }
    longs[a->n_options] = (struct option){"help", no_argument, NULL, HELP};
    for (size_t i = 0; i < a->most_operands; i++) {
        operands[i] = NULL;
    }
    opterr = 0;
    optind = 0; /* start from the beginning, whatever was parsed before */
    for (int answer; (answer = getopt_long(argc, argv, ":h", longs, NULL)) != -1;) {
        if (answer == 'h' || answer == HELP) {
            print_help(a);
            return 0;
        }
        if (answer == '?' || answer == ':') {
            return refuse(a, answer, argv[optind - 1]);
        }
        const argument *o = &a->options[answer - OWN];
        if (o->flag) {
            *o->flag = true;
        } else {
            *o->text = optarg;
        }
    }
    for (size_t i = 0; optind < argc; optind++, i++) {
        if (i == a->most_operands) {
            fprintf(stderr, "pto %s: unexpected argument '%s'\n", a->command, argv[optind]);
            return 2;
        }
        operands[i] = argv[optind];
    }
    return ARGUMENTS_RUN;
}

bool arguments_process(const char *command, const char *text, int *pid, unsigned *number)
{
    char digits[16];
    int64_t value = 0, which = 0;
    const size_t length = strcspn(text, ":");
    snprintf(digits, sizeof digits, "%.*s", (int)(length < 15 ? length : 15), text);
    if (length < sizeof digits && length == strspn(text, "0123456789") &&
        words_number(digits, 1, INT32_MAX, &value) &&
        (!text[length] || (text[length + 1 + strspn(text + length + 1, "0123456789")] == '\0' &&
                           words_number(text + length + 1, 0, 1000, &which)))) {
        *pid = (int)value;
        *number = (unsigned)which;
        return true;
    }
    fprintf(stderr,
            "pto %s: '%s' is not a process: give PID, or PID:N for runtime N of that process\n",
            command, text);
    return false;
}

bool arguments_seconds(const char *command, const char *option, const char *text, double low,
                       double high, double *seconds)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end != text && !*end && value >= low && value <= high) {
        *seconds = value;
        return true;
    }
    fprintf(stderr, "pto %s: --%s takes seconds from %g to %g, not '%s'\n", command, option, low,
            high, text);
    return false;
}
