/* source.h - a line of the program, as messages name it: "app.c:12". */
#ifndef PTOI_SOURCE_H
#define PTOI_SOURCE_H

#include <stdio.h>
#include <string.h>

typedef struct ptoi_source {
    char text[160];
} ptoi_source;

/* A long path loses its start, because its end is more useful. Line 0 is no line: the file then says
 * why there is none, or is empty. */
static inline ptoi_source ptoi_source_of(const char *file, int line)
{
    enum { MOST = 140 };
    ptoi_source source;
    char number[16] = "";
    const size_t length = strlen(file);
    const char *from = length > MOST ? file + length - MOST : file;
    if (line) {
        snprintf(number, sizeof number, ":%d", line);
    }
    snprintf(source.text, sizeof source.text, "%s%s%s", length > MOST ? "..." : "",
             length ? from : "(unknown)", number);
    return source;
}

#endif /* PTOI_SOURCE_H */
