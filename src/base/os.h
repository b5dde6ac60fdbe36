/* os.h - what we ask of the operating system. */
#ifndef PTOI_OS_H
#define PTOI_OS_H

#include <stddef.h>

#include <pto/status.h>

#include "base/atomic.h"
#include "base/error.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define PTOI_OS_SEES_HIDDEN __attribute__((no_sanitize("address")))
#else
#define PTOI_OS_SEES_HIDDEN
#endif

/* For the address sanitizer: from now on an access to this memory is an error, or is none. */
static inline void ptoi_os_hide(void *memory, size_t bytes)
{
#ifdef ASAN_POISON_MEMORY_REGION
    ASAN_POISON_MEMORY_REGION(memory, bytes);
#endif
    (void)memory, (void)bytes;
}

static inline void ptoi_os_show(void *memory, size_t bytes)
{
#ifdef ASAN_UNPOISON_MEMORY_REGION
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#endif
    (void)memory, (void)bytes;
}

/* Zeroed memory that costs nothing until it is touched, aligned to a page; NULL if there is none.
 * Freed with the same size. */
void *ptoi_os_reserve(size_t bytes);
void ptoi_os_release(void *memory, size_t bytes);

/* Such memory will be filled from its start on: may its pages be large, so that fewer are met. */
void ptoi_os_want_large_pages(void *memory, size_t bytes);

/* A file in memory that others can map too. Its pages cost nothing until they are touched. */
pto_status ptoi_os_file_create(const char *name, size_t bytes, int *file);
pto_status ptoi_os_file_map(int file, size_t bytes, void **memory);
void ptoi_os_file_close(int file);

/* From now on a store to this part of a mapping faults. */
pto_status ptoi_os_protect(void *memory, size_t bytes);

/* Sleeps while *word is `value`; may return early. Wakes one such sleeper. Safe in a handler. */
void ptoi_os_sleep(ptoi_a32 *word, uint32_t value);
void ptoi_os_wake(ptoi_a32 *word);

/* The same sleep, for a millisecond at most. */
void ptoi_os_nap(ptoi_a32 *word, uint32_t value);

/* A fence on every core that runs a thread of this process, and on this one: see `tell` in atomic.h.
 * The first says whether there is such a thing, and must be asked before; the second whether it was
 * made, for a filter of system calls may come later. */
bool ptoi_os_has_barrier(void);
bool ptoi_os_barrier(void);

/* How many cores this thread may run on: containers and taskset make it less than the machine has. */
uint64_t ptoi_os_cores(void);

/* Nanoseconds of a clock that all processes of the machine share and nobody sets. */
uint64_t ptoi_os_clock(void);

/* The number of this process, and of the calling thread, as /proc names them. */
uint32_t ptoi_os_process(void);
uint32_t ptoi_os_thread_number(void);

/* Lets other threads run that wait for a core. */
void ptoi_os_yield(void);

/* How many forks lie between the first process and this one. A runtime belongs to one process: a child
 * has its memory, but not its threads. */
extern uint32_t ptoi_os_forks;

/* PTO_WRONG_THREAD if this process was forked off the one whose count was `forks`. */
static inline pto_status ptoi_os_same_process(uint32_t forks, const char *who)
{
    return forks == ptoi_os_forks
               ? PTO_OK
               : ptoi_fail(PTO_WRONG_THREAD,
                           "%s: called in a child process: a runtime belongs to the process that "
                           "created it",
                           who);
}

/* Has them counted from now on; 0 or an error number. */
int ptoi_os_count_forks(void);

/* A byte of each thread; only its address is used. */
extern _Thread_local char ptoi_os_mark __attribute__((tls_model("initial-exec")));

/* A number for the calling thread that no other thread has at the same time. */
static inline uintptr_t ptoi_os_self(void)
{
    return (uintptr_t)&ptoi_os_mark;
}

#endif /* PTOI_OS_H */
