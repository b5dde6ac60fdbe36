/* trace.h - a recorded trace and its statistics, shared by `pto trace`, `pto explain` and `pto
 * replay`. */
#ifndef TOOL_TRACE_H
#define TOOL_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "observe/ptrace_read.h"

/* Reads a trace file. Prints an error on stderr if it cannot. */
bool trace_open(const char *who, const char *path, ptoi_ptrace *trace);

/* ---- trace_stats.c ---- */

/* Statistics of one kernel: times of the tasks that ran, in ns. */
typedef struct trace_kernel {
    const char *name;
    uint64_t count, total, p50, p99, max;
} trace_kernel;

typedef struct trace_stats {
    uint64_t outcomes[PTRACE_OUTCOMES];
    uint64_t inlined; /* tasks that submit ran */
    uint64_t edges[PTRACE_EDGE_KINDS];
    uint64_t begin, end;   /* from the first submit to the end of the last task */
    uint64_t work;         /* total time in kernels */
    uint64_t blocked;      /* total time that submits waited for room */
    trace_kernel *kernels; /* kernels that ran, sorted by total time, largest first */
    size_t n_kernels;
    uint64_t critical; /* length of the critical path */
    uint64_t waits;    /* waits of the program (pto_wait, pto_read) after which it submitted more */
    uint64_t
        with_waits;  /* length of the path if tasks submitted after a wait depend on its tasks */
    uint32_t *path;  /* its tasks, in order */
    uint64_t *share; /* of each: what it adds to the path */
    size_t n_path;
} trace_stats;

/* Returns false if memory runs out. */
bool trace_count(const ptoi_ptrace *trace, trace_stats *stats);
void trace_stats_free(trace_stats *stats);

/* ---- trace_words.c ---- */

/* A name from a file, which may contain anything, as a short printable word. */
typedef struct trace_name {
    char s[64];
} trace_name;

trace_name trace_plain(const char *text);

/* The value of a key in META; "" if it is missing. */
const char *trace_meta(const ptoi_ptrace *trace, const char *key, char *text, size_t size);

/* Of how many ranks the trace was merged; 0: it is of one process. */
uint32_t trace_ranks(const ptoi_ptrace *trace);

/* A text in a column of `width` characters, which may be UTF-8: filled up with spaces, or cut. */
typedef struct trace_cell {
    char s[256];
} trace_cell;

trace_cell trace_padded(const char *text, size_t width);

/* Prints a text from a file in full; bytes that are not printable as trace_plain shows them. */
void trace_print_text(FILE *out, const char *text);

/* Prints a task as "gemm@lu.c:41": its name on the command line, without #n. A work request says its
 * operation: "work@lu.c:50, strided copy". If a task has a label, that follows: "gemm@lu.c:41 'tile 3'". */
void trace_print_task(FILE *out, const ptoi_ptrace *trace, uint32_t task);

/* Prints the name of an argument: "argument 2"; of a work request "outputs[0]". */
void trace_print_arg_name(FILE *out, const ptoi_ptrace *trace, uint32_t task, uint32_t arg);

/* Prints an argument as "float32[4, 8] strides (8, 1) at 0x7f..". */
void trace_print_arg(FILE *out, const ptoi_ptrace *trace, uint32_t arg);

/* Finds the task that a word names: its number, its label, label#n, or kernel[@file[:line]][#n]. Prints an
 * error and returns PTRACE_NONE if there is none. */
uint32_t trace_find_task(const char *who, const ptoi_ptrace *trace, const char *word);

/* ---- trace_failures.c ---- */

/* Prints which tasks failed, with the words of their kernels, and which were skipped because of
 * them. Prints nothing if all went well. Returns false if memory runs out. */
bool trace_print_failures(const ptoi_ptrace *trace);

/* ---- trace_ranges.c ---- */

/* Prints the ranges of the program and what ran in them. Prints nothing if there are none. Returns
 * false if memory runs out. */
bool trace_print_ranges(const ptoi_ptrace *trace);

/* ---- trace_advice.c ---- */

/* Prints what to change: rings to raise, tiles that are too small, more workers or fewer, who waits
 * for whom most. Each with the numbers it follows from; nothing if there is nothing to say, or if the
 * run has few tasks. `path` is the file of the trace. Returns false if memory runs out. */
bool trace_print_advice(FILE *out, const char *path, const ptoi_ptrace *trace,
                        const trace_stats *stats);

#endif /* TOOL_TRACE_H */
