/* ptrace_read.h - a trace in memory: read from a file, or just recorded.
 *
 * ptoi_ptrace_open checks everything: every index is valid, or PTRACE_NONE where that is allowed;
 * edges lead from earlier tasks to later ones; strings end with a NUL. So code that uses the trace
 * need not check anything.
 *
 * It needs only public functions of the library, so that tools can be built with it.
 */
#ifndef PTOI_PTRACE_READ_H
#define PTOI_PTRACE_READ_H

#include <stdbool.h>
#include <stddef.h>

#include <pto/kernel.h>
#include <pto/tensor.h>

#include "observe/ptrace.h"

typedef struct ptoi_ptrace {
    uint64_t origin_ns, lost;
#define PTRACE_FIELD(name, number, field, type, bytes)                                             \
    const type *field; /* NULL if the section is missing */                                        \
    uint64_t n_##field;
    PTRACE_SECTION_MAP(PTRACE_FIELD)
#undef PTRACE_FIELD
    void *file;                    /* the bytes that the fields point into, */
    void *copies[PTRACE_SECTIONS]; /* or copies of a section, if its items in the file are larger */
} ptoi_ptrace;

/* Reads a file. PTO_BAD_FILE if it is not a trace, is cut off, has a newer version or is
 * inconsistent; the detail says where. PTO_SYSTEM if it cannot be read. */
pto_status ptoi_ptrace_open(const char *path, ptoi_ptrace *out);

/* Reads the bytes of a file, which are copied. `name` is for the error detail. */
pto_status ptoi_ptrace_parse(const char *name, const void *bytes, size_t n_bytes, ptoi_ptrace *out);

void ptoi_ptrace_close(ptoi_ptrace *trace);

/* Names of outcomes and edge kinds: "done", "RAW". */
extern const char *const ptoi_ptrace_outcomes[PTRACE_OUTCOMES];
extern const char *const ptoi_ptrace_edges[PTRACE_EDGE_KINDS];

/* The string at an offset in STRINGS. */
static inline const char *ptoi_ptrace_string(const ptoi_ptrace *trace, uint32_t at)
{
    return trace->n_strings ? trace->strings + at : "";
}

/* Length in bytes of the UTF-8 character that begins here; 0 if the bytes are not valid UTF-8.
 * Strings of a trace may contain anything. */
size_t ptoi_utf8_bytes(const char *text);

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

/* Why the task failed or was skipped; NULL if it did neither, or if the file does not say. */
const ptrace_failure *ptoi_ptrace_failure(const ptoi_ptrace *trace, uint32_t task);

/* The label of a task; "" if it has none. */
const char *ptoi_ptrace_label(const ptoi_ptrace *trace, uint32_t task);

/* The device of an argument; "cpu:0" if it is on the host. */
const char *ptoi_ptrace_device(const ptoi_ptrace *trace, uint32_t arg);

/* An argument as a tensor whose storage is exactly the bytes that it spans. All views of a managed
 * buffer count from the start of the same heap. Returns false, and an empty tensor, for a scalar and
 * for sizes that no tensor has. */
bool ptoi_ptrace_tensor(const ptoi_ptrace *trace, const ptrace_arg *arg, pto_tensor *t);

/* Time from `from` to `to`; 0 if one of them is not known, or if `to` is earlier. */
static inline uint64_t ptoi_ptrace_span(uint64_t from, uint64_t to)
{
    return from == PTRACE_UNKNOWN || to == PTRACE_UNKNOWN || to < from ? 0 : to - from;
}

/* Running time of a task, in nanoseconds. */
static inline uint64_t ptoi_ptrace_ran(const ptrace_task *task)
{
    return ptoi_ptrace_span(task->start, task->end);
}

#endif /* PTOI_PTRACE_READ_H */
