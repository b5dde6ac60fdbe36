/* export.h - from the logs to a trace, and from a trace to a file. */
#ifndef PTOI_EXPORT_H
#define PTOI_EXPORT_H

#include <stdio.h>

#include "observe/ptrace_read.h"

/* ---- image.c ---- */

#define PTOI_BUILT_PIECES 10

/* A trace just recorded. What it points to lies partly in the logs of the runtime. */
typedef struct ptoi_built_trace {
    ptoi_ptrace trace;
    struct {
        void *memory;
        size_t bytes;
    } pieces[PTOI_BUILT_PIECES]; /* its own */
    uint32_t n_pieces;
} ptoi_built_trace;

/* The logs as a trace. Takes the log of arguments apart, so once. */
pto_status ptoi_trace_build(pto_runtime *rt, ptoi_built_trace *image);
void ptoi_built_free(ptoi_built_trace *image);

/* Zeroed memory that goes with the image; NULL if there is none. */
void *ptoi_built_memory(ptoi_built_trace *image, size_t bytes);

/* ---- edges.c ---- */

typedef struct ptoi_afters {
    uint32_t *from; /* `after` of all tasks, in their order: index of the other, or PTRACE_NONE */
    uint32_t *n;    /* how many each task has */
} ptoi_afters;

/* Works out the edges of all tasks from their arguments. */
pto_status ptoi_edges_find(ptoi_built_trace *image, ptrace_task *tasks, const ptoi_afters *afters,
                           uint64_t budget);

/* ---- export.c ---- */

/* Writes the trace, in the format that the extension says; whole, or what was there stays. */
pto_status ptoi_export(const ptoi_ptrace *trace, const char *path);

/* Whether that could be, as things are: better known before a run than after it. */
pto_status ptoi_export_check(const char *path);

/* One format each, to a stream whose errors the caller sees in it. 0, or an error number where they
 * went wrong by themselves: then nothing is written. */
int ptoi_export_ptrace(const ptoi_ptrace *trace, FILE *out);
int ptoi_export_html(const ptoi_ptrace *trace, FILE *out);
int ptoi_export_json(const ptoi_ptrace *trace, FILE *out);
int ptoi_export_dot(const ptoi_ptrace *trace, FILE *out);

#endif /* PTOI_EXPORT_H */
