/* json_write.c - see json_write.h. */
#include "json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static bool first = true; /* no element written yet in the open object or list */

void json_start(void)
{
    first = true;
}

static void quote(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            putchar('\\');
        }
        if (c < 0x20) {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

void json_name(const char *key)
{
    if (!first) {
        putchar(',');
    }
    first = false;
    if (key) {
        quote(key);
        putchar(':');
    }
}

void json_begin(const char *key, char bracket)
{
    json_name(key);
    putchar(bracket);
    first = true;
}

void json_finish(char bracket)
{
    putchar(bracket);
    first = false;
}

void json_text(const char *key, const char *value)
{
    json_name(key);
    quote(value);
}

void json_count(const char *key, uint64_t value)
{
    json_name(key);
    printf("%" PRIu64, value);
}

void json_number(const char *key, double value)
{
    json_name(key);
    if (isfinite(value)) {
        printf("%.9g", value);
    } else {
        fputs("null", stdout);
    }
}

void json_truth(const char *key, bool value)
{
    json_name(key);
    fputs(value ? "true" : "false", stdout);
}
