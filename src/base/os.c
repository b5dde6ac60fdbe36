#define _GNU_SOURCE /* memfd_create, MAP_ANONYMOUS, MAP_NORESERVE, syscall, CPU_ALLOC,
                     * program_invocation_short_name */
#include "base/os.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"

_Thread_local char ptoi_os_mark;

uint32_t ptoi_os_forks;

static void count_fork(void)
{
    ptoi_os_forks++; /* the child has one thread */
}

int ptoi_os_count_forks(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool counted; /* protected by the lock; not pthread_once, so that a failure can be
                            retried */
    pthread_mutex_lock(&lock);
    int why = counted ? 0 : pthread_atfork(NULL, NULL, count_fork);
    counted = why == 0;
    pthread_mutex_unlock(&lock);
    return why;
}

void *ptoi_os_reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void *ptoi_os_reserve_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void ptoi_os_release(void *memory, size_t bytes)
{
    if (memory) {
        munmap(memory, bytes);
    }
}

size_t ptoi_os_address_space(void)
{
    struct rlimit limit;
    const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < SIZE_MAX;
    return limited ? (size_t)limit.rlim_cur : SIZE_MAX;
}

void ptoi_os_want_large_pages(void *memory, size_t bytes)
{
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* only a hint */
}

pto_status ptoi_os_file_create(const char *name, size_t bytes, int *file)
{
    struct rlimit limit; /* a write beyond this limit would raise a signal */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
        return ptoi_fail(PTO_SYSTEM,
                         "a memory file of %zu bytes, but files may have %llu (ulimit -f)", bytes,
                         (unsigned long long)limit.rlim_cur);
    }
    int made = memfd_create(name, MFD_CLOEXEC);
    if (made < 0) {
        return ptoi_fail(PTO_SYSTEM, "memfd_create for %zu bytes: %s", bytes, strerror(errno));
    }
    if (ftruncate(made, (off_t)bytes) != 0) {
        int why = errno;
        close(made);
        return ptoi_fail(PTO_OUT_OF_MEMORY, "a memory file of %zu bytes: %s", bytes, strerror(why));
    }
    *file = made;
    return PTO_OK;
}

pto_status ptoi_os_file_map(int file, size_t bytes, void **memory)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (mapped == MAP_FAILED) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "mapping %zu bytes: %s", bytes, strerror(errno));
    }
    *memory = mapped;
    return PTO_OK;
}

pto_status ptoi_os_protect(void *memory, size_t bytes)
{
    if (mprotect(memory, bytes, PROT_READ) != 0) {
        return ptoi_fail(PTO_SYSTEM, "protecting %zu bytes: %s", bytes, strerror(errno));
    }
    return PTO_OK;
}

pto_status ptoi_os_forbid(void *memory, size_t bytes)
{
    if (mprotect(memory, bytes, PROT_NONE) != 0) {
        return ptoi_fail(PTO_SYSTEM, "protecting %zu bytes: %s", bytes, strerror(errno));
    }
    return PTO_OK;
}

void ptoi_os_file_close(int file)
{
    if (file >= 0) {
        close(file);
    }
}

void ptoi_os_sleep(ptoi_a32 *word, uint32_t value)
{
    syscall(SYS_futex, &word->value, FUTEX_WAIT, value, NULL, NULL, 0);
}

void ptoi_os_nap(ptoi_a32 *word, uint32_t value, uint32_t us)
{
    const struct timespec most = {.tv_nsec = 1000L * us};
    syscall(SYS_futex, &word->value, FUTEX_WAIT, value, &most, NULL, 0);
}

void ptoi_os_wake(ptoi_a32 *word)
{
    syscall(SYS_futex, &word->value, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void ptoi_os_wake_all(ptoi_a32 *word)
{
    syscall(SYS_futex, &word->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint64_t ptoi_os_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t ptoi_os_process(void)
{
    return (uint32_t)getpid();
}

uint32_t ptoi_os_thread_number(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

void ptoi_os_yield(void)
{
    sched_yield();
}

/* All signals but faults: a fault kills without a handler where it is blocked. */
static void block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t most;
    sigfillset(&most);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigdelset(&most, faults[i]);
    }
    pthread_sigmask(SIG_SETMASK, &most, before);
}

void ptoi_os_block_signals(void)
{
    block_signals(NULL);
}

int ptoi_os_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t before;
    block_signals(&before);
    int why = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why;
}

bool ptoi_os_has_barrier(bool shared)
{
    return syscall(SYS_membarrier,
                   shared ? MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
                          : MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
                   0, 0) == 0;
}

bool ptoi_os_barrier(bool shared)
{
    return syscall(SYS_membarrier,
                   shared ? MEMBARRIER_CMD_GLOBAL_EXPEDITED : MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0,
                   0) == 0;
}

const char *ptoi_os_program(void)
{
    return program_invocation_short_name; /* /proc/self/comm is cut off after 15 letters */
}

uint64_t ptoi_os_cores(void)
{
    /* The call fails if the set is too small for the machine, and does not say which size is
     * needed. */
    for (size_t cores = 1024; cores <= (size_t)1 << 20; cores *= 2) {
        cpu_set_t *set = CPU_ALLOC(cores);
        if (!set) {
            break;
        }
        const size_t bytes = CPU_ALLOC_SIZE(cores);
        const int refused = sched_getaffinity(0, bytes, set) == 0 ? 0 : errno;
        const int count = refused ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (count > 0) {
            return (uint64_t)count;
        }
        if (refused != EINVAL) {
            break;
        }
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint64_t)online : 1;
}

/* Sets of cores are words of bits here, as the system calls have them. */
bool ptoi_os_affinity(uint64_t *set, size_t bytes)
{
    memset(set, 0, bytes);
    return syscall(SYS_sched_getaffinity, 0, bytes, set) > 0;
}

bool ptoi_os_pin(uint64_t *set, size_t bytes, uint32_t cpu)
{
    memset(set, 0, bytes);
    set[cpu / 64] = UINT64_C(1) << cpu % 64;
    return syscall(SYS_sched_setaffinity, 0, bytes, set) == 0;
}
