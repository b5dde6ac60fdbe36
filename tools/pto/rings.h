/* rings.h - the rings of a level in words: columns of PTO_LEVEL_RING_MAP (pto/observe.h). */
#ifndef TOOL_RINGS_H
#define TOOL_RINGS_H

#include <pto/observe.h>

#include "words.h"

typedef struct ring_words {
    const char *key;      /* "tasks": in tables and JSON */
    const char *trace;    /* "slots": in what is about a trace */
    const char *unit;     /* "tasks" */
    const char *variable; /* "PTO_RING_TASKS" */
} ring_words;

extern const ring_words ring_words_of[PTO_RINGS];

bool ring_is_bytes(uint32_t ring);

/* "640 B" where the unit is bytes, else the number. */
words ring_amount(uint32_t ring, uint64_t value);

#endif /* TOOL_RINGS_H */
