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

#include <pto/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Converts a recorded .ptrace to another format, given by the extension of `to`: .html, .json, .dot
 * or .ptrace. Needs no runtime. PTO_BAD_FILE if `from` is not a trace, is truncated, damaged, or of
 * a newer version; the detail says where. PTO_SYSTEM if a file cannot be opened or written; `to` is
 * then unchanged. */
PTO_API PTO_MUST_CHECK pto_status pto_trace_convert(const char *from, const char *to);

#ifdef __cplusplus
}
#endif

#endif /* PTO_TRACE_H */
