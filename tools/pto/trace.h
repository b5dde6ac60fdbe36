/* trace.h - what `pto trace` and `pto explain` share: a trace, and what can be counted in it. */
#ifndef TOOL_TRACE_H
#define TOOL_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "observe/ptrace_read.h"

/* Reads the file; says on stderr what is wrong with it. */
bool trace_open(const char *who, const char *path, ptoi_ptrace *trace);

/* ---- trace_stats.c ---- */

/* One kernel: times of the tasks that ran, in ns. */
typedef struct trace_kernel {
    const char *name;
    uint64_t count, total, p50, p99, max;
} trace_kernel;

typedef struct trace_stats {
    uint64_t outcomes[PTRACE_OUTCOMES];
    uint64_t inlined; /* tasks that submit ran */
    uint64_t edges[PTRACE_EDGE_KINDS];
    uint64_t begin, end;   /* from the first submit to the last end */
    uint64_t work;         /* all that kernels ran, added up */
    uint64_t blocked;      /* all that submits waited for room */
    trace_kernel *kernels; /* that ran, the one that took most first */
    size_t n_kernels;
    uint64_t critical; /* the longest chain of tasks that had to follow each other */
    uint32_t *path;    /* its tasks, the first one first */
    size_t n_path;
} trace_stats;

/* False if there is no memory. */
bool trace_count(const ptoi_ptrace *trace, trace_stats *stats);
void trace_stats_free(trace_stats *stats);

/* ---- trace_words.c ---- */

/* A name that stands in a file, and so may be anything, as one short word for a terminal. */
typedef struct trace_name {
    char s[64];
} trace_name;

trace_name trace_plain(const char *text);

/* "gemm@lu.c:41", as one would name it on the command line, without its number. */
void trace_print_task(FILE *out, const ptoi_ptrace *trace, uint32_t task);

/* "float32[4, 8] strides (8, 1) at 0x7f.." */
void trace_print_arg(FILE *out, const ptoi_ptrace *trace, uint32_t arg);

/* The task that a word names: its number, or kernel@file:line#n, of which all but the kernel may be
 * left out; PTRACE_NONE, and it is said why, if there is none. */
uint32_t trace_find_task(const char *who, const ptoi_ptrace *trace, const char *word);

#endif /* TOOL_TRACE_H */
