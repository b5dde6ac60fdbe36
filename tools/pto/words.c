/* words.c - see words.h. */
#include "words.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Reading ------------------------------------------------------------------------------- */

bool words_number(const char *text, int64_t low, int64_t high, int64_t *value)
{
    static const char units[] = "kmgt";
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || errno || text[0] == ' ') {
        return false;
    }
    int64_t scale = 1;
    if (*end) {
        const char *unit = strchr(units, *end | 0x20);
        if (!unit || end[1]) {
            return false;
        }
        scale <<= 10 * (unit - units + 1);
    }
    if (number > INT64_MAX / scale || number < INT64_MIN / scale) {
        return false;
    }
    *value = number * scale;
    return *value >= low && *value <= high;
}

/* Edit distance: letters to insert, delete or change. Words here are short. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    size_t row[LONGEST + 1];
    const size_t n = strlen(b);
    if (n > LONGEST || strlen(a) > LONGEST) {
        return LONGEST;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            const size_t added = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = changed < added ? changed : added;
        }
    }
    return row[n];
}

const char *words_nearest(const char *word, const char *const *names, size_t n_names)
{
    const char *nearest = NULL;
    const size_t length = strlen(word);
    size_t least = length / 3 + 2; /* farther away it is a different word */
    for (size_t i = 0; i < n_names; i++) {
        const bool begins = length >= 2 && !strncmp(word, names[i], length);
        const size_t d = begins ? 0 : distance(word, names[i]);
        if (d < least && d < strlen(names[i])) {
            least = d;
            nearest = names[i];
        }
    }
    return nearest;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static words scaled(double value, double step, const char *const *units, size_t n_units)
{
    words w;
    size_t unit = 0;
    for (; value >= step && unit + 1 < n_units; unit++) {
        value /= step;
    }
    const int digits = value >= 99.95 || value == (double)(int64_t)value ? 0
                       : value >= 9.995                                  ? 1
                                                                         : 2;
    snprintf(w.s, sizeof w.s, "%.*f%s", digits, value, units[unit]);
    return w;
}

words words_bytes(uint64_t bytes)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    return scaled((double)bytes, 1024, units, sizeof units / sizeof *units);
}

words words_time(double seconds)
{
    static const char *const units[] = {" ns", " us", " ms", " s"};
    return scaled(seconds * 1e9, 1000, units, sizeof units / sizeof *units);
}

words words_rate(double per_second)
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    return scaled(per_second, 1000, units, sizeof units / sizeof *units);
}

words words_option(int64_t number)
{
    static const char *const units[] = {"", "k", "m", "g", "t"};
    words w;
    size_t unit = 0;
    for (; number && number % 1024 == 0 && unit + 1 < sizeof units / sizeof *units; unit++) {
        number /= 1024;
    }
    snprintf(w.s, sizeof w.s, "%" PRId64 "%s", number, units[unit]);
    return w;
}

const char *words_paint(FILE *out, words_colour colour)
{
    static const char *const sequences[] = {"\033[0m", "\033[2m", "\033[32m", "\033[1;31m"};
    const char *plain = getenv("NO_COLOR");
    return (plain && *plain) || !isatty(fileno(out)) ? "" : sequences[colour];
}
