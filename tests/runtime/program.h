/* program.h - tests serial equivalence with random programs.
 *
 *     seed ── program_make.h ──> a program: operations in a list, and a configuration
 *                                    │
 *              ┌─────────────────────┴──────────────────────┐
 *              v program_run.h, program_ops.h               v program_oracle.h
 *     the runtime, through pto.h:                   the same kernels one after the other, on
 *     answers are compared with a model   ────────> separate memory, by the rules of the API:
 *     (program_model.h) immediately; the   journal  values read, failures and all memory must
 *     rest is recorded                              be the same, byte for byte
 *
 * program_try (program_try.h) does all of this for one program. A failing program is reduced and
 * printed with its seed. program_data.h defines a program, program_kernel.h what its tasks do.
 *
 * The programs have nested scopes, boundaries and loops of them; inputs, outputs and inouts that
 * are views of views, of different dtypes, over memory that aliases; managed tensors that tasks
 * allocate, write in parts, update in place and in versions; pto_after and pto_nodep; scalars;
 * kernels that fail, are pending, or make forbidden calls; reads that decide what comes next,
 * writes and waits in between; and calls that must be refused. They run in rings from large to
 * hopeless, with any number of workers, and counters just below their wraps.
 */
#ifndef PTO_TEST_PROGRAM_H
#define PTO_TEST_PROGRAM_H

#include "program_try.h"

#endif /* PTO_TEST_PROGRAM_H */
