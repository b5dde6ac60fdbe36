/* ptrace_read.h - a trace in memory: read from a file, or just recorded.
 *
 * After ptoi_ptrace_open everything in it is sound: every index leads to something that is there, or
 * is PTRACE_NONE where that may be; edges lead from earlier tasks to later ones; strings end. So
 * whoever works on it checks nothing.
 *
 * Needs nothing of the library but <pto/kernel.h> (pto_fail), so that tools can be built with it.
 */
#ifndef PTOI_PTRACE_READ_H
#define PTOI_PTRACE_READ_H

#include <stddef.h>

#include <pto/kernel.h>

#include "observe/ptrace.h"

typedef struct ptoi_ptrace {
    uint64_t origin_ns, lost;
#define PTRACE_FIELD(name, number, field, type, bytes)                                             \
    const type *field; /* NULL if there is none */                                                 \
    uint64_t n_##field;
    PTRACE_SECTION_MAP(PTRACE_FIELD)
#undef PTRACE_FIELD
    void *file;                    /* what they point into, */
    void *copies[PTRACE_SECTIONS]; /* or into these, where items in the file are larger */
} ptoi_ptrace;

/* Reads a file: PTO_BAD_FILE if it is none, is cut off, is of a newer version or does not hold
 * together, and the detail says where; PTO_SYSTEM if it cannot be read. */
pto_status ptoi_ptrace_open(const char *path, ptoi_ptrace *out);

/* The same for the bytes of a file; `name` is for the detail. They are copied. */
pto_status ptoi_ptrace_parse(const char *name, const void *bytes, size_t n_bytes, ptoi_ptrace *out);

void ptoi_ptrace_close(ptoi_ptrace *trace);

/* Kinds as texts: "done", "RAW". */
extern const char *const ptoi_ptrace_outcomes[PTRACE_OUTCOMES];
extern const char *const ptoi_ptrace_edges[PTRACE_EDGE_KINDS];

/* A string of it. */
static inline const char *ptoi_ptrace_string(const ptoi_ptrace *trace, uint32_t at)
{
    return trace->n_strings ? trace->strings + at : "";
}

/* Strings may be anything. Bytes of the sign of UTF-8 that begins here; 0 if none does. */
size_t ptoi_sign_bytes(const char *text);

static inline const char *ptoi_ptrace_kernel(const ptoi_ptrace *trace, const ptrace_task *task)
{
    return task->kernel == PTRACE_NONE
               ? "?"
               : ptoi_ptrace_string(trace, trace->kernels[task->kernel].name);
}

static inline const char *ptoi_ptrace_file(const ptoi_ptrace *trace, const ptrace_task *task)
{
    return task->site == PTRACE_NONE ? "?"
                                     : ptoi_ptrace_string(trace, trace->sites[task->site].file);
}

static inline int32_t ptoi_ptrace_line(const ptoi_ptrace *trace, const ptrace_task *task)
{
    return task->site == PTRACE_NONE ? 0 : trace->sites[task->site].line;
}

/* From one time to another; 0 if one is not known, or they are the other way round. */
static inline uint64_t ptoi_ptrace_span(uint64_t from, uint64_t to)
{
    return from == PTRACE_UNKNOWN || to == PTRACE_UNKNOWN || to < from ? 0 : to - from;
}

/* Nanoseconds that it ran. */
static inline uint64_t ptoi_ptrace_ran(const ptrace_task *task)
{
    return ptoi_ptrace_span(task->start, task->end);
}

#endif /* PTOI_PTRACE_READ_H */
