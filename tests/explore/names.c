/* names.c - readable names of addresses. */
#include <stdio.h>
#include <string.h>

#include "world.h"

enum { MAX_NAMES = 256 };

typedef struct name {
    const char *base;
    size_t stride, bytes;
    uint32_t count;
    char format[WORLD_NAME];
} name;

static name names[MAX_NAMES];
static uint32_t n_names;

void name_open(void)
{
    n_names = 0;
}

void world_name(const void *base, size_t stride, uint32_t count, size_t bytes, const char *format)
{
    if (n_names == MAX_NAMES) {
        world_fail(FAIL_MODEL, "more than %d names", MAX_NAMES);
    }
    name *n = &names[n_names++];
    *n = (name){base, stride > bytes ? stride : bytes, bytes, count, ""};
    snprintf(n->format, sizeof n->format, "%s", format);
}

const char *name_at(const void *address)
{
    static char text[2][WORLD_NAME + 24];
    static uint32_t turn;
    char *out = text[turn++ % 2];
    const name *best = NULL;
    for (uint32_t i = 0; i < n_names; i++) { /* the smallest object that contains it */
        const name *n = &names[i];
        const size_t at = (size_t)((const char *)address - n->base);
        if ((const char *)address >= n->base && at / n->stride < n->count &&
            at % n->stride < n->bytes && (!best || n->bytes < best->bytes)) {
            best = n;
        }
    }
    if (!best) {
        snprintf(out, sizeof text[0], "%p", address);
        return out;
    }
    const size_t at = (size_t)((const char *)address - best->base);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int length = snprintf(out, sizeof text[0], best->format, (unsigned)(at / best->stride));
#pragma GCC diagnostic pop
    if (at % best->stride) {
        snprintf(out + length, sizeof text[0] - (size_t)length, "+%zu", at % best->stride);
    }
    return out;
}

/* Whether the text matches the one pattern that begins here. */
static bool matches(const char *text, const char *pattern)
{
    for (; *pattern && *pattern != '|'; pattern++) {
        if (*pattern == '*') {
            text += strspn(text, "0123456789");
        } else if (*pattern != *text++) {
            return false;
        }
    }
    return *text == 0;
}

bool name_is(const char *text, const char *patterns)
{
    while (patterns && !matches(text, patterns)) {
        patterns = strchr(patterns, '|');
        patterns = patterns ? patterns + 1 : NULL;
    }
    return patterns != NULL;
}
