/* pto/trace.h - a picture of a run.
 *
 * Any program that uses the library records itself if it is asked to; nothing has to be built anew:
 *
 *     PTO_TRACE=run.html ./program       a page to look at: lanes, rings, graph
 *     PTO_TRACE=run.json ./program       for Perfetto and chrome://tracing
 *     PTO_TRACE=run.dot ./program        the graph of tasks, for Graphviz
 *     PTO_TRACE=run.ptrace ./program     all that was recorded; `pto trace` makes the others of it
 *
 * or by pto_config.trace. "%p" in the name is the number of the process. With PTO_TRACE, a second
 * runtime of the process writes run.2.html, and so on; two runtimes must not be given the same name
 * in their configurations.
 *
 * The file is written by pto_runtime_destroy, which says so if it cannot be (PTO_SYSTEM; the runtime
 * is gone all the same). A program that ends without it, by exit() or a signal, leaves none. The
 * file appears whole or not at all.
 *
 * Recorded are the first PTO_TRACE_LIMIT tasks (pto_config.trace_limit): which kernel, submitted
 * where, with which tensors; when the submit was called and returned, when the task could run,
 * began, ended and was recycled, and on which thread; which tasks it had to come after, and why;
 * when threads slept or waited, and for what; how full the rings were. What found no room is counted
 * and reported as lost.
 */
#ifndef PTO_TRACE_H
#define PTO_TRACE_H

#include <pto/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a recorded .ptrace in another format, which the extension of `to` names: .html, .json, .dot
 * or .ptrace. Needs no runtime. PTO_BAD_FILE if `from` is no trace, is cut off, damaged, or of a
 * newer version: the detail says where. PTO_SYSTEM if one of them cannot be opened or written; `to`
 * is then as it was before. */
PTO_API pto_status pto_trace_convert(const char *from, const char *to);

#ifdef __cplusplus
}
#endif

#endif /* PTO_TRACE_H */
