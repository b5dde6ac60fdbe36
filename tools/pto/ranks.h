/* ranks.h - several ranks: `pto run --mpi` loads the library for the MPI that has started it. */
#ifndef TOOL_RANKS_H
#define TOOL_RANKS_H

#include "workload.h"

/* Makes the runtime of a job one rank of a world, and sets job->mpi. */
pto_status mpi_join(workload_job *job);

/* Leaves it; collective. */
pto_status mpi_leave(workload_job *job);

/* The number of this rank, as the launcher says it, before MPI has started; 0 if unknown. */
int mpi_rank_of_launcher(void);

#endif /* TOOL_RANKS_H */
