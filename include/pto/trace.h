/* pto/trace.h - record a run.
 *
 * Any program that uses the library can record itself, without a change or a rebuild:
 *
 *     PTO_TRACE=run.html ./program       an HTML page: threads, rings, task graph
 *     PTO_TRACE=run.json ./program       for Perfetto and chrome://tracing
 *     PTO_TRACE=run.dot ./program        the task graph, for Graphviz
 *     PTO_TRACE=run.ptrace ./program     everything recorded; `pto trace` converts it to the others
 *
 * pto_config.trace does the same from inside a program. "%p" in the name becomes the process id.
 * With PTO_TRACE, the second runtime of a process writes run.2.html, and so on. Two runtimes must
 * not have the same name in their configurations.
 *
 * pto_runtime_destroy writes the file. If it cannot, it returns PTO_SYSTEM, and the runtime is
 * destroyed all the same. A program that ends without it, by exit() or a signal, leaves no file.
 * The file appears complete or not at all.
 *
 * The first PTO_TRACE_LIMIT tasks (pto_config.trace_limit) are recorded. The record of a task has
 * its kernel, its submit site and its tensors; when submit was called and returned; when the task
 * became ready, started, ended and was recycled, and on which thread; and its dependencies with
 * their reasons. The trace also has the times when threads slept or waited, with the cause, and the
 * usage of the rings. Records for which there is no room are counted and reported as lost.
 */
#ifndef PTO_TRACE_H
#define PTO_TRACE_H

#include <stddef.h>

#include <pto/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Converts a recorded .ptrace to another format, given by the extension of `to`: .html, .json, .dot
 * or .ptrace. Needs no runtime. PTO_BAD_FILE if `from` is not a trace, is truncated, damaged, or of
 * a newer version; the detail says where. PTO_SYSTEM if a file cannot be opened or written; `to` is
 * then unchanged. */
PTO_API PTO_MUST_CHECK pto_status pto_trace_convert(const char *from, const char *to);

/* The trace of one rank of a program on several: the bytes of a .ptrace, or, if `bytes` is NULL, the file
 * `name`. */
typedef struct pto_trace_part {
    const char *name; /* of the file, and for error details */
    const void *bytes;
    size_t n_bytes;
} pto_trace_part;

/* Merges the traces of ranks into one, in the format of the extension of `to`. The threads of all ranks are
 * beside each other, tasks are in the order of the program, and messages are edges between them. Times
 * are those of the clock of the lowest rank: the ranks compared their clocks at begin and end, and
 * "clock_error_ns" of the trace bounds the error, if clocks drift evenly in between. Ring usage and
 * lifetimes of memory are left out: they are in the traces of the ranks. Errors as for
 * pto_trace_convert; PTO_BAD_PARAM if a part is not the trace of a rank, or a rank is there twice.
 *
 * A program on MPI (pto/mpi.h) does this by itself: with PTO_TRACE=run.html, rank 0 writes the trace of
 * all ranks to run.html when MPI is finalized. */
PTO_API PTO_MUST_CHECK pto_status pto_trace_merge(const pto_trace_part *parts, size_t n_parts,
                                                  const char *to);

#ifdef __cplusplus
}
#endif

#endif /* PTO_TRACE_H */
