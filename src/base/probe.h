/* probe.h - static probes (USDT) for perf, bpftrace and gdb: provider "pto".
 *
 * A probe is a nop, and a note in the file that says where it is and where its arguments are. The
 * arguments have to be computed even if nobody listens, which costs 12 to 32 instructions a task. So
 * probes are in a build with PTO_PROBES only, if sys/sdt.h is there (PTO_SDT).
 *
 *     submit         task, name of the kernel, order     before the task can start
 *     kernel_start   task, name of the kernel, worker    on the thread that runs it
 *     kernel_end     task, name of the kernel, worker    after the kernel has returned
 */
#ifndef PTOI_PROBE_H
#define PTOI_PROBE_H

#ifdef PTO_SDT
#include <sys/sdt.h>
#define PTOI_PROBE(name, a, b, c) STAP_PROBE3(pto, name, a, b, c)
#else
#define PTOI_PROBE(name, a, b, c) ((void)sizeof(a), (void)sizeof(b), (void)sizeof(c))
#endif

#endif /* PTOI_PROBE_H */
