/* thread.h - starting a thread. */
#ifndef PTOI_THREADS_H
#define PTOI_THREADS_H

#include <pthread.h>

/* Starts a thread that no signal is delivered to, except for its own faults: all other handlers run
 * on the program's own threads. Returns 0 or an error number. */
int ptoi_os_thread(pthread_t *thread, void *(*run)(void *), void *context);

/* The same for the calling thread. */
void ptoi_os_block_signals(void);

#endif /* PTOI_THREADS_H */
