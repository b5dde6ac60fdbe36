/* crash.h - says what a thread was doing before a signal kills the process.
 *
 * Whoever knows what threads do is a *witness*. While there is one, the process has a handler for
 * SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, but only for those whose disposition was the default.
 * The handler asks the witnesses about the thread that it runs on, writes one line to stderr, and
 * lets the signal kill the process as it would have done without it: same status, same core. A
 * handler of the program, of a sanitizer or of a debugging library is left alone.
 *
 * The witnesses are state of the process, since signals are. Everything else is per runtime.
 */
#ifndef PTOI_CRASH_H
#define PTOI_CRASH_H

#include <stddef.h>

#include "base/atomic.h"

typedef struct ptoi_crash_text {
    char s[512];
    size_t length;
} ptoi_crash_text;

typedef struct ptoi_witness {
    /* Appends what the calling thread is doing; appends nothing if it does not know the thread.
     * Called in a signal handler: it may only read memory and append. */
    void (*tell)(const struct ptoi_witness *witness, ptoi_crash_text *text);
    ptoi_a64 next; /* its address. Written under a lock, acquired by the handler */
} ptoi_witness;

/* Adds a witness, or removes it. The last one to go restores the dispositions. */
void ptoi_crash_watch(ptoi_witness *witness);
void ptoi_crash_forget(ptoi_witness *witness);

/* Gives the calling thread a stack for the handler, so that an overflow of its own is reported too;
 * and takes it back. Does nothing if the thread has such a stack already. */
#define PTOI_CRASH_STACK (UINT64_C(1) << 16)
void ptoi_crash_stack(void *memory);
void ptoi_crash_no_stack(void *memory);

/* For witnesses. What does not fit is cut. */
void ptoi_crash_add(ptoi_crash_text *text, const char *words);
void ptoi_crash_add_number(ptoi_crash_text *text, uint64_t number, unsigned base);

#endif /* PTOI_CRASH_H */
