/* shared_bytes.h - which bytes two arguments of a trace share, and how that was decided. */
#ifndef TOOL_SHARED_BYTES_H
#define TOOL_SHARED_BYTES_H

#include <stdbool.h>

#include <pto/tensor.h>

#include "observe/ptrace_read.h"

typedef struct shared_bytes {
    bool tensors;   /* both are tensors of one memory, and their sizes make sense */
    bool near;      /* their byte ranges meet */
    bool any;       /* they share a byte, or that could not be decided */
    bool undecided; /* the budget of the overlap test ran out: the runtime assumes a shared byte */
    bool counted;   /* the fields below are exact; otherwise first and last only bound the bytes */
    uint64_t first, last; /* places: addresses, or offsets in the heap of a level */
    uint64_t count;       /* bytes that both touch */
} shared_bytes;

/* Decides exactly, like the runtime does, and counts the bytes unless there are too many. */
shared_bytes shared_bytes_of(const ptoi_ptrace *trace, uint32_t a, uint32_t b);

#endif /* TOOL_SHARED_BYTES_H */
