/* stall_report.h - the last stall, for the program and outside readers. Orchestrator's side. */
#ifndef PTOI_STALL_REPORT_H
#define PTOI_STALL_REPORT_H

#include "orchestrator/runtime.h"

/* Stores a stall in the window. count, field, variable and texts of *report need not be set. */
void ptoi_stall_keep(pto_runtime *rt, pto_stall_report *report, uint32_t kernel, uint32_t site,
                     uint32_t scope);

/* Stores that `wanted` does not fit into this ring even if it is empty. Returns PTO_TOO_LARGE; the
 * caller sets the message. */
pto_status ptoi_stall_too_large(pto_runtime *rt, uint32_t level, uint32_t device,
                                ptoi_shortage what, uint64_t wanted, uint64_t enough);

#endif /* PTOI_STALL_REPORT_H */
