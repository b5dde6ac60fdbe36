/* top.h - two looks at a program, one after the other, and what there is to show of them. */
#ifndef TOOL_TOP_H
#define TOOL_TOP_H

#include <stdio.h>

#include "peek.h"

/* What a worker was first seen to run, and when. */
typedef struct top_seen {
    pto_task task;
    uint64_t since;
} top_seen;

typedef struct top_view {
    const peek *p;
    const peek_look *before, *now;
    const top_seen *seen; /* for each worker, and the orchestrating thread */
    int columns;
    bool colour, utf8;
} top_view;

/* The whole of it, a line each (top_draw.c). */
void top_draw(FILE *out, const top_view *v);

/* The same as one JSON object to stdout. */
void top_json(const top_view *v);

#endif /* TOOL_TOP_H */
