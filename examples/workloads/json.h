/* json.h - JSON tokens, for a parser that knows what must come next.
 *
 * Strict: UTF-8, no control characters, and only non-negative integers. There is no function for
 * "any value", so a file cannot cause deep recursion.
 */
#ifndef WORKLOAD_JSON_H
#define WORKLOAD_JSON_H

#include <pto/pto.h>

typedef struct json {
    const char *path; /* path of the file, for messages */
    char *text;
    size_t at, size;
} json;

/* Returns a failure that names the position. */
pto_status json_fail(const json *r, const char *what);

void json_skip(json *r); /* skips spaces */

/* Returns the next character that is not a space, without consuming it; 0 at the end. */
char json_peek(json *r);

/* The next character that is not a space must be this one. */
pto_status json_expect(json *r, char sign);

/* After an element: *more says whether another one follows or the list has ended. */
pto_status json_more(json *r, char closing, bool *more);

/* Reads a string. It is decoded in place and ends with a NUL. */
pto_status json_string(json *r, char **string);

/* Reads a list of integers from 0 to INT64_MAX. More than `most` are refused. */
pto_status json_numbers(json *r, int64_t *numbers, int32_t most, int32_t *count);

#endif /* WORKLOAD_JSON_H */
