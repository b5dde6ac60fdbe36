/* export.h - builds a trace from the logs, and writes a trace to a file. */
#ifndef PTOI_EXPORT_H
#define PTOI_EXPORT_H

#include <stdio.h>

#include "observe/ptrace_read.h"

/* ---- orchestrator/trace_build.c ---- */

#define PTOI_BUILT_PIECES 24

/* A trace built from logs. Some of its arrays are the logs of the runtime. */
typedef struct ptoi_built_trace {
    ptoi_ptrace trace;
    struct {
        void *memory;
        size_t bytes;
    } pieces[PTOI_BUILT_PIECES]; /* memory of its own */
    uint32_t n_pieces;
} ptoi_built_trace;

/* Builds a trace from the logs of a runtime. It uses up the log of arguments: call it once. */
pto_status ptoi_trace_build(pto_runtime *rt, ptoi_built_trace *built);
void ptoi_built_free(ptoi_built_trace *built);

/* Zeroed memory that ptoi_built_free frees; NULL if there is no memory. */
void *ptoi_built_memory(ptoi_built_trace *built, size_t bytes);

/* ---- edges.c ---- */

typedef struct ptoi_afters {
    uint32_t *from; /* pto_after of all tasks, in order: index of the producer, or PTRACE_NONE */
    uint32_t *n;    /* number of them, by task */
} ptoi_afters;

/* Computes the edges of all tasks from their arguments. */
pto_status ptoi_edges_find(ptoi_built_trace *built, ptrace_task *tasks, const ptoi_afters *afters,
                           uint64_t budget);

/* ---- failures.c ---- */

/* Builds FAILURES: the `n` tasks that failed (task, status and words are given, in any order), and
 * every task that was skipped, with its cause. */
pto_status ptoi_failures_find(ptoi_built_trace *built, ptrace_failure *failed, uint64_t n);

/* ---- export.c ---- */

/* Writes the trace in the format of the extension. On failure an existing file is unchanged. */
pto_status ptoi_export(const ptoi_ptrace *trace, const char *path);

/* The bytes of the .ptrace, which the caller frees; NULL: no memory. */
char *ptoi_export_bytes(const ptoi_ptrace *trace, size_t *n);

/* PTO_BAD_PARAM if the extension is that of no format. */
pto_status ptoi_export_format(const char *path);

/* Checks before a run whether the file could be written now. */
pto_status ptoi_export_check(const char *path);

/* Each writes one format to a stream. The caller checks the stream for write errors. Returns 0, or
 * an error number for any other failure: then nothing was written. */
int ptoi_export_ptrace(const ptoi_ptrace *trace, FILE *out);
int ptoi_export_html(const ptoi_ptrace *trace, FILE *out);
int ptoi_export_json(const ptoi_ptrace *trace, FILE *out);
int ptoi_export_dot(const ptoi_ptrace *trace, FILE *out);

#endif /* PTOI_EXPORT_H */
