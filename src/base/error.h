/* error.h - reports a failure with a detail. */
#ifndef PTOI_ERROR_H
#define PTOI_ERROR_H

#include <stdint.h>

#include <pto/status.h>

/* Sets this thread's detail string and returns `status`, so that a check reads
 *     return ptoi_fail(PTO_BAD_DIM, "slice: dim %d of a tensor with %d dims", dim, t->ndim); */
pto_status ptoi_fail(pto_status status, const char *format, ...) PTO_PRINTF(2, 3);

/* The name of a status. A kernel may return any number: if it is no status of the library, the words
 * in `room` have the number, which says more than a name. */
enum { PTOI_STATUS_WORDS = 64 };
const char *ptoi_status_words(pto_status status, char room[PTOI_STATUS_WORDS]);

/* Number of failures with a detail on this thread. If it has changed, the detail is new. */
extern _Thread_local uint64_t ptoi_error_count __attribute__((tls_model("initial-exec")));

static inline uint64_t ptoi_error_serial(void)
{
    return ptoi_error_count;
}

#endif /* PTOI_ERROR_H */
