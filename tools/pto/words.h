/* words.h - text for users: numbers with units, suggestions for typos, colours. */
#ifndef TOOL_WORDS_H
#define TOOL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Parses an integer from low to high. A suffix k, m, g or t multiplies it by 1024 one to four
 * times. */
bool words_number(const char *text, int64_t low, int64_t high, int64_t *value);

/* The name closest to `word`, or NULL if none is close. */
const char *words_nearest(const char *word, const char *const *names, size_t n_names);

/* A short text by value, so that one printf can use several. */
typedef struct words {
    char s[32];
} words;

words words_bytes(uint64_t bytes);   /* "640 B", "1.2 MiB" */
words words_time(double seconds);    /* "980 ns", "23.7 ms", "1.20 s" */
words words_rate(double per_second); /* "54.0 k", "1.20 M" */
words words_option(int64_t number);  /* in the syntax of an option: "16k", "4m", "1000" */

typedef enum words_colour {
    WORDS_PLAIN,
    WORDS_DIM,
    WORDS_GOOD,
    WORDS_BAD,
} words_colour;

/* The escape sequence of a colour; "" if `out` is not a terminal or NO_COLOR is set. */
const char *words_paint(FILE *out, words_colour colour);

#endif /* TOOL_WORDS_H */
