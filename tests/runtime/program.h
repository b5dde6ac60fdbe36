/* program.h - serial equivalence, put to the test with random programs.
 *
 *     seed ── program_make.h ──> a program: operations in a list, and a configuration
 *                                    │
 *              ┌─────────────────────┴──────────────────────┐
 *              v program_run.h, program_ops.h               v program_oracle.h
 *     the runtime, through pto.h:                   the same kernels one after the other, on
 *     answers are compared with a model   ────────> memory of their own, by the rules of the
 *     (program_model.h) at once, the rest  journal  promise: what was read, what failed and
 *     is written down                               all memory must be the same, byte for byte
 *
 * program_try (program_try.h) does all of that for one program. A failure is made smaller and
 * printed with its seed. What a program is: program_data.h. What its tasks do: program_kernel.h.
 *
 * The programs have nested scopes, boundaries and loops of them; inputs, outputs and inouts that
 * are views of views, of different dtypes, over memory that aliases; managed tensors that tasks
 * bring to life, write in parts, update in place and in versions; pto_after and pto_nodep; scalars;
 * kernels that fail, that are pending, that meddle; reads that decide what comes next, writes and
 * waits in between; and calls that must be refused. They run in rings from large to hopeless, with
 * any number of workers, and counters just below their wraps.
 */
#ifndef PTO_TEST_PROGRAM_H
#define PTO_TEST_PROGRAM_H

#include "program_try.h"

#endif /* PTO_TEST_PROGRAM_H */
