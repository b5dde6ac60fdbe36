/* json_write.h - writes JSON to stdout, piece by piece. */
#ifndef TOOL_JSON_WRITE_H
#define TOOL_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

/* Starts a new text. */
void json_start(void);

/* Starts a value: writes the comma if one is due, the key and the colon. NULL in a list. The
 * functions below call it. */
void json_name(const char *key);

void json_begin(const char *key, char bracket); /* '{' or '[' */
void json_finish(char bracket);                 /* '}' or ']' */
void json_text(const char *key, const char *value);
void json_count(const char *key, uint64_t value);
void json_number(const char *key, double value); /* null if it is not finite */
void json_truth(const char *key, bool value);

#endif /* TOOL_JSON_WRITE_H */
