/* json.h - the words of JSON, for a parser that knows what must come next.
 *
 * Strict: UTF-8, no control characters, no numbers but whole ones that are not negative. There is
 * no function for "any value", so no file can drive a recursion deep.
 */
#ifndef WORKLOAD_JSON_H
#define WORKLOAD_JSON_H

#include <pto/pto.h>

typedef struct json {
    const char *path; /* of the file, for messages */
    char *text;
    size_t at, size;
} json;

/* A failure that says where. */
pto_status json_fail(const json *r, const char *what);

void json_skip(json *r); /* spaces */

/* The next sign that is no space, which stays; '\0', which cannot be one, at the end. */
char json_peek(json *r);

/* The next sign that is no space must be this one. */
pto_status json_expect(json *r, char sign);

/* After an element: `*more` says whether another one follows, or the list has ended. */
pto_status json_more(json *r, char closing, bool *more);

/* A string, decoded where it stands, with a NUL at its end. */
pto_status json_string(json *r, char **string);

/* Whole numbers from 0 to INT64_MAX, in brackets; more than `most` are refused. */
pto_status json_numbers(json *r, int64_t *numbers, int32_t most, int32_t *count);

#endif /* WORKLOAD_JSON_H */
