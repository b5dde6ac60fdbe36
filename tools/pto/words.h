/* words.h - what people write and read: numbers with units, near misses, colours. */
#ifndef TOOL_WORDS_H
#define TOOL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A whole number from low to high; k, m, g or t after it multiply by 1024 once to four times. */
bool words_number(const char *text, int64_t low, int64_t high, int64_t *value);

/* Of the names the one that was meant, if one is near enough; NULL if none is. */
const char *words_nearest(const char *word, const char *const *names, size_t n_names);

/* A short piece of text by value, so that several fit into one printf. */
typedef struct words {
    char s[32];
} words;

words words_bytes(uint64_t bytes);   /* "640 B", "1.2 MiB" */
words words_time(double seconds);    /* "980 ns", "23.7 ms", "1.20 s" */
words words_rate(double per_second); /* "54.0 k", "1.20 M" */
words words_option(int64_t number);  /* as one would type it: "16k", "4m", "1000" */

typedef enum words_colour {
    WORDS_PLAIN,
    WORDS_DIM,
    WORDS_GOOD,
    WORDS_BAD,
} words_colour;

/* The sequence that switches to a colour, or "" where `out` is no terminal or NO_COLOR is set. */
const char *words_paint(FILE *out, words_colour colour);

#endif /* TOOL_WORDS_H */
