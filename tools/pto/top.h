/* top.h - two successive snapshots of a program, and how to show them. */
#ifndef TOOL_TOP_H
#define TOOL_TOP_H

#include <stdio.h>

#include "peek.h"

/* The task that a worker runs, and when it was first seen. */
typedef struct top_seen {
    pto_task task;
    uint64_t since;
} top_seen;

typedef struct top_view {
    const peek *p;
    const peek_look *before, *now;
    const top_seen *seen; /* one for each worker, and one for the orchestrating thread */
    int columns;
    bool colour, utf8;
} top_view;

/* Draws the view as lines of text (top_draw.c). */
void top_draw(FILE *out, const top_view *v);

/* Prints the same as one JSON object on stdout. */
void top_json(const top_view *v);

#endif /* TOOL_TOP_H */
