#include "base/mutant.h"

#ifdef PTO_MUTANTS
ptoi_mutant_name ptoi_mutant = PTOI_MUTANT_NONE;
#else
typedef int ptoi_nothing_here; /* C does not allow an empty file */
#endif
