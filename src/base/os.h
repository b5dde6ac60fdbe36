/* os.h - system calls: memory, files in memory, futexes, the barrier, clocks and threads. */
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

/* For the address sanitizer: from now on an access to this memory is an error (hide), or is allowed
 * again (show). */
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

/* Reserves zeroed memory, aligned to a page; NULL on failure. Its pages cost nothing until they are
 * touched. Release it with the same size. */
void *ptoi_os_reserve(size_t bytes);
void *ptoi_os_reserve_shared(size_t bytes); /* processes that are forked share it */
void ptoi_os_release(void *memory, size_t bytes);

/* Bytes of address space that the process may have; SIZE_MAX if they are not limited. */
size_t ptoi_os_address_space(void);

/* Asks for large pages, for memory that will be filled from its start on: fewer page faults. */
void ptoi_os_want_large_pages(void *memory, size_t bytes);

/* A file in memory, which other processes can map too. Its pages cost nothing until they are
 * touched. */
pto_status ptoi_os_file_create(const char *name, size_t bytes, int *file);
pto_status ptoi_os_file_map(int file, size_t bytes, void **memory);
void ptoi_os_file_close(int file);

/* From now on a store to this part of a mapping faults. */
pto_status ptoi_os_protect(void *memory, size_t bytes);

/* From now on every access to this part of a mapping faults. */
pto_status ptoi_os_forbid(void *memory, size_t bytes);

/* sleep: sleeps while *word is `value`; may return early. wake: wakes one thread that sleeps on the
 * word; safe in a signal handler. The threads may belong to different processes. */
void ptoi_os_sleep(ptoi_a32 *word, uint32_t value);
void ptoi_os_wake(ptoi_a32 *word);
void ptoi_os_wake_all(ptoi_a32 *word);

/* Like ptoi_os_sleep, for `us` microseconds at most, below a second. Returns early after a signal. */
void ptoi_os_nap(ptoi_a32 *word, uint32_t value, uint32_t us);

/* ptoi_os_barrier runs a fence on every core that runs a thread of this process, the calling one
 * included (store_asym in atomic.h); if it is `shared`, of every process that called
 * ptoi_os_has_barrier(true). It returns false if the system refused: a filter of system calls may
 * have been installed since. ptoi_os_has_barrier says whether the system has this barrier, and must
 * be called first. */
bool ptoi_os_has_barrier(bool shared);
bool ptoi_os_barrier(bool shared);

/* Number of cores that this thread may use. Containers and taskset can make it fewer than the
 * machine has. */
uint64_t ptoi_os_cores(void);

/* The cores that this thread may use, as a set of bits by number. False: the system does not say, or they
 * do not fit. */
bool ptoi_os_affinity(uint64_t *set, size_t bytes);

/* Keeps the calling thread on one core. `set` has room for it, and becomes the set of it. False: the system
 * refused. */
bool ptoi_os_pin(uint64_t *set, size_t bytes, uint32_t cpu);

/* The name of the program, without its folder. */
const char *ptoi_os_program(void);

/* Nanoseconds of the monotonic clock, which all processes of the machine share. */
uint64_t ptoi_os_clock(void);

/* The ids of this process and of the calling thread, as in /proc. */
uint32_t ptoi_os_process(void);
uint32_t ptoi_os_thread_number(void);

/* Gives the core to another thread that waits for one. */
void ptoi_os_yield(void);

/* Number of forks from the first process to this one. A runtime belongs to one process: a child has
 * its memory, but not its threads. */
extern uint32_t ptoi_os_forks;

/* PTO_WRONG_THREAD if this process is a child of the one whose count was `forks`. */
static inline pto_status ptoi_os_same_process(uint32_t forks, const char *who)
{
    return forks == ptoi_os_forks
               ? PTO_OK
               : ptoi_fail(PTO_WRONG_THREAD,
                           "%s: called in a child process: a runtime belongs to the process that "
                           "created it",
                           who);
}

/* Starts to count forks. Returns 0 or an error number. */
int ptoi_os_count_forks(void);

/* One byte per thread. Only its address is used. */
extern _Thread_local char ptoi_os_mark __attribute__((tls_model("initial-exec")));

/* A number for the calling thread. No other live thread has the same one. */
static inline uintptr_t ptoi_os_self(void)
{
    return (uintptr_t)&ptoi_os_mark;
}

#endif /* PTOI_OS_H */
