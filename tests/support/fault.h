/* fault.h - makes calls to the system fail, at each place and each time in turn.
 *
 * Programs named test_fault*.c are linked so that every call that could be refused (allocations,
 * mappings, memory files, threads, thread keys: the list is in cmake/tests.cmake) goes through this
 * file. The library itself has no switch for it.
 *
 *     fault_everywhere(scenario);
 *
 * runs the scenario many times: for every n, the n-th call fails alone, then together with all
 * later ones, until a run needs fewer calls. The scenario must handle each failure: TRY(call)
 * checks that an affected call fails with a message or works without the resource, and succeeds
 * when it is repeated. After each run the numbers of blocks, mappings, files and threads must be as
 * before.
 *
 * Each run has a new thread, so that per-thread resources are created again.
 */
#ifndef PTO_TEST_FAULT_H
#define PTO_TEST_FAULT_H

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pto/pto.h>

#include "base/error.h"
#include "support.h"

/* ---- What there is ------------------------------------------------------------------------ */

/* X(what) */
#define FAULT_KINDS(X) X(blocks) X(mappings) X(files) X(threads)

typedef struct fault_counts {
#define FAULT_COUNT(what) int64_t what;
    FAULT_KINDS(FAULT_COUNT)
#undef FAULT_COUNT
} fault_counts;

typedef enum fault_mode { FAULT_NEVER, FAULT_ONCE, FAULT_FROM } fault_mode;

static struct {
    _Atomic(int) mode;
    _Atomic(int64_t) left;      /* calls until the one that fails */
    _Atomic(uint64_t) hits;     /* calls that failed */
    _Atomic(const char *) last; /* what the last of them was */
#define FAULT_LIVE(what) _Atomic(int64_t) what;
    FAULT_KINDS(FAULT_LIVE)
#undef FAULT_LIVE
    pid_t process;     /* that is armed */
    _Atomic(bool) bad; /* the run went wrong: */
    char words[512];
} fault;

static inline fault_counts fault_live(void)
{
    return (fault_counts){
#define FAULT_LOAD(what) .what = atomic_load(&fault.what),
        FAULT_KINDS(FAULT_LOAD)
#undef FAULT_LOAD
    };
}

/* Called for every call while faults are armed, with the place that it came from. */
static void (*fault_told)(const void *site);

/* Whether this call is to fail. */
static inline bool fault_strikes_at(const char *what, const void *site)
{
    int mode = atomic_load(&fault.mode);
    if (mode == FAULT_NEVER || fault.process != getpid()) {
        return false; /* worker processes are not armed */
    }
    if (fault_told) {
        fault_told(site);
    }
    int64_t left = atomic_fetch_sub(&fault.left, 1);
    if (left > 0 || (left < 0 && mode == FAULT_ONCE)) {
        return false;
    }
    atomic_fetch_add(&fault.hits, 1);
    atomic_store(&fault.last, what);
    return true;
}

#define fault_strikes(what) fault_strikes_at(what, __builtin_return_address(0))

static inline void fault_arm(fault_mode mode, uint64_t calls)
{
    fault.process = getpid();
    atomic_store(&fault.hits, 0);
    atomic_store(&fault.last, "nothing");
    atomic_store(&fault.left, (int64_t)calls);
    atomic_store(&fault.mode, mode);
}

static inline void fault_calm(void)
{
    atomic_store(&fault.mode, FAULT_NEVER);
}

/* ---- The calls ---------------------------------------------------------------------------- */

/* The wrapped functions, by the names that the linker gives them (--wrap). */
#define FAULT_WRAP(type, name, ...)                                                                \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

static inline void *fault_block(void *made)
{
    if (made) {
        atomic_fetch_add(&fault.blocks, 1);
    }
    return made;
}

static inline void *fault_no_block(void)
{
    errno = ENOMEM;
    return NULL;
}

FAULT_WRAP(void *, malloc, size_t bytes)
{
    return fault_strikes("malloc") ? fault_no_block() : fault_block(__real_malloc(bytes));
}

FAULT_WRAP(void *, calloc, size_t count, size_t bytes)
{
    return fault_strikes("calloc") ? fault_no_block() : fault_block(__real_calloc(count, bytes));
}

FAULT_WRAP(void *, realloc, void *old, size_t bytes)
{
    if (fault_strikes("realloc")) {
        return fault_no_block();
    }
    void *made = __real_realloc(old, bytes);
    return old ? made : fault_block(made);
}

FAULT_WRAP(void *, aligned_alloc, size_t alignment, size_t bytes)
{
    return fault_strikes("aligned_alloc") ? fault_no_block()
                                          : fault_block(__real_aligned_alloc(alignment, bytes));
}

FAULT_WRAP(int, posix_memalign, void **memory, size_t alignment, size_t bytes)
{
    if (fault_strikes("posix_memalign")) {
        return ENOMEM;
    }
    int why = __real_posix_memalign(memory, alignment, bytes);
    if (!why) {
        (void)fault_block(*memory);
    }
    return why;
}

FAULT_WRAP(void, free, void *memory)
{
    atomic_fetch_sub(&fault.blocks, memory != NULL);
    __real_free(memory);
}

FAULT_WRAP(void *, mmap, void *at, size_t bytes, int protection, int flags, int file, off_t from)
{
    if (fault_strikes("mmap")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *made = __real_mmap(at, bytes, protection, flags, file, from);
    atomic_fetch_add(&fault.mappings, made != MAP_FAILED);
    return made;
}

FAULT_WRAP(int, munmap, void *memory, size_t bytes)
{
    atomic_fetch_sub(&fault.mappings, 1);
    return __real_munmap(memory, bytes);
}

FAULT_WRAP(int, mprotect, void *memory, size_t bytes, int protection)
{
    if (fault_strikes("mprotect")) {
        errno = ENOMEM;
        return -1;
    }
    return __real_mprotect(memory, bytes, protection);
}

FAULT_WRAP(int, memfd_create, const char *name, unsigned flags)
{
    if (fault_strikes("memfd_create")) {
        errno = EMFILE;
        return -1;
    }
    int made = __real_memfd_create(name, flags);
    atomic_fetch_add(&fault.files, made >= 0);
    return made;
}

FAULT_WRAP(int, ftruncate, int file, off_t bytes)
{
    if (fault_strikes("ftruncate")) {
        errno = ENOSPC;
        return -1;
    }
    return __real_ftruncate(file, bytes);
}

/* The library always passes a mode to open. */
FAULT_WRAP(int, open, const char *path, int flags, ...)
{
    if (fault_strikes("open")) {
        errno = EMFILE;
        return -1;
    }
    int made = __real_open(path, flags, 0666);
    atomic_fetch_add(&fault.files, made >= 0);
    return made;
}

FAULT_WRAP(FILE *, fopen, const char *path, const char *mode)
{
    if (fault_strikes("fopen")) {
        errno = EMFILE;
        return NULL;
    }
    FILE *made = __real_fopen(path, mode);
    atomic_fetch_add(&fault.files, made != NULL);
    return made;
}

FAULT_WRAP(FILE *, fdopen, int file, const char *mode)
{
    if (fault_strikes("fdopen")) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_fdopen(file, mode);
}

FAULT_WRAP(int, fclose, FILE *file)
{
    atomic_fetch_sub(&fault.files, 1);
    return __real_fclose(file);
}

FAULT_WRAP(int, close, int file)
{
    atomic_fetch_sub(&fault.files, 1);
    return __real_close(file);
}

FAULT_WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
           void *(*run)(void *), void *context)
{
    if (fault_strikes("pthread_create")) {
        return EAGAIN;
    }
    int why = __real_pthread_create(thread, attributes, run, context);
    atomic_fetch_add(&fault.threads, why == 0);
    return why;
}

FAULT_WRAP(int, pthread_join, pthread_t thread, void **result)
{
    atomic_fetch_sub(&fault.threads, 1);
    return __real_pthread_join(thread, result);
}

FAULT_WRAP(int, pthread_key_create, pthread_key_t *key, void (*end)(void *))
{
    return fault_strikes("pthread_key_create") ? EAGAIN : __real_pthread_key_create(key, end);
}

FAULT_WRAP(int, pthread_setspecific, pthread_key_t key, const void *value)
{
    /* Clearing a value needs no memory. */
    return value && fault_strikes("pthread_setspecific") ? ENOMEM
                                                         : __real_pthread_setspecific(key, value);
}

FAULT_WRAP(int, pthread_atfork, void (*before)(void), void (*parent)(void), void (*child)(void))
{
    return fault_strikes("pthread_atfork") ? ENOMEM : __real_pthread_atfork(before, parent, child);
}

FAULT_WRAP(int, atexit, void (*run)(void))
{
    return fault_strikes("atexit") ? -1 : __real_atexit(run);
}

FAULT_WRAP(void *, __sched_cpualloc, size_t count)
{
    return fault_strikes("CPU_ALLOC") ? fault_no_block() : __real___sched_cpualloc(count);
}

FAULT_WRAP(pid_t, fork, void)
{
    if (fault_strikes("fork")) {
        errno = EAGAIN;
        return -1;
    }
    return __real_fork();
}

/* A file, or -1. */
static inline int fault_file(int made)
{
    atomic_fetch_add(&fault.files, made >= 0);
    return made;
}

static inline int fault_no_file(void)
{
    errno = EMFILE;
    return -1;
}

FAULT_WRAP(int, eventfd, unsigned count, int flags)
{
    return fault_strikes("eventfd") ? fault_no_file() : fault_file(__real_eventfd(count, flags));
}

FAULT_WRAP(int, pidfd_open, pid_t pid, unsigned flags)
{
    return fault_strikes("pidfd_open") ? fault_no_file()
                                       : fault_file(__real_pidfd_open(pid, flags));
}

FAULT_WRAP(int, socket, int domain, int type, int protocol)
{
    return fault_strikes("socket") ? fault_no_file()
                                   : fault_file(__real_socket(domain, type, protocol));
}

FAULT_WRAP(int, socketpair, int domain, int type, int protocol, int ends[2])
{
    if (fault_strikes("socketpair")) {
        return fault_no_file();
    }
    const int failed = __real_socketpair(domain, type, protocol, ends);
    atomic_fetch_add(&fault.files, failed ? 0 : 2);
    return failed;
}

FAULT_WRAP(int, pipe2, int ends[2], int flags)
{
    if (fault_strikes("pipe2")) {
        return fault_no_file();
    }
    const int failed = __real_pipe2(ends, flags);
    atomic_fetch_add(&fault.files, failed ? 0 : 2);
    return failed;
}

FAULT_WRAP(void *, dlopen, const char *path, int flags)
{
    return fault_strikes("dlopen") ? NULL : __real_dlopen(path, flags);
}

/* ---- Runs --------------------------------------------------------------------------------- */

static inline void fault_complain(const char *file, int line, const char *text)
{
    if (!atomic_exchange(&fault.bad, true)) {
        snprintf(fault.words, sizeof fault.words,
                 "%s:%d: %s (the last that failed: %s; detail: %s)", file, line, text,
                 atomic_load(&fault.last), pto_error_detail());
    }
}

/* On any thread: a cmocka test can only be left from its own thread. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fault_complain(__FILE__, __LINE__, #condition);                                        \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* Whether a failure is a valid result of a call that was refused a resource. */
static inline bool fault_excuses(pto_status status, uint64_t words)
{
    return atomic_load(&fault.hits) > 0 && (status == PTO_OUT_OF_MEMORY || status == PTO_SYSTEM) &&
           ptoi_error_serial() != words && *pto_error_detail();
}

/* The runtime of the scenario: a call that it refuses is made again, so the refusal is handled. */
static pto_runtime *fault_runtime;

static inline void fault_acknowledge(void)
{
    (void)pto_refused(fault_runtime, NULL);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        uint64_t words_ = ptoi_error_serial();                                                     \
        pto_status status_ = (call);                                                               \
        if (status_ != PTO_OK) {                                                                   \
            if (!fault_excuses(status_, words_)) {                                                 \
                fault_complain(__FILE__, __LINE__, "not a clean failure: " #call);                 \
                return;                                                                            \
            }                                                                                      \
            fault_calm();                                                                          \
            fault_acknowledge();                                                                   \
            CHECK((call) == PTO_OK);                                                               \
        }                                                                                          \
    } while (0)

typedef void fault_scenario(void);

static inline void *fault_run_here(void *context)
{
    fault_scenario *const *run = context;
    (*run)();
    return NULL;
}

static inline bool fault_run(fault_scenario *run, fault_mode mode, uint64_t calls)
{
    pthread_t thread;
    fault_counts before = fault_live();
    fault_arm(mode, calls);
    int why = __real_pthread_create(&thread, NULL, fault_run_here, &run);
    if (why) {
        fault_complain(__FILE__, __LINE__, strerror(why));
        return false;
    }
    (void)__real_pthread_join(thread, NULL);
    fault_calm();
    fault_counts after = fault_live();
#define FAULT_COMPARE(what)                                                                        \
    if (after.what != before.what && mode != FAULT_NEVER) {                                        \
        fault_complain(__FILE__, __LINE__, #what " are not as many as before");                    \
    }
    FAULT_KINDS(FAULT_COMPARE)
#undef FAULT_COMPARE
    return atomic_load(&fault.hits) > 0;
}

/* With reduced effort only single calls fail, still for every n. */
static inline fault_mode fault_last_mode(void)
{
    return test_percent() < 50 ? FAULT_ONCE : FAULT_FROM;
}

/* Number of calls that can fail; or -1, with the reason in fault.words. */
static inline int64_t fault_search(fault_scenario *run)
{
    int64_t calls = 0;
    (void)fault_run(run, FAULT_NEVER, 0); /* what a process makes once is made */
    for (fault_mode mode = FAULT_ONCE; mode <= fault_last_mode(); mode++) {
        for (uint64_t n = 0; !atomic_load(&fault.bad); n++) {
            bool hit = fault_run(run, mode, n);
            if (atomic_load(&fault.bad)) {
                size_t used = strlen(fault.words);
                snprintf(fault.words + used, sizeof fault.words - used, " when call %" PRIu64 " %s",
                         n, mode == FAULT_ONCE ? "fails" : "and all that follow fail");
                return -1;
            }
            if (!hit) {
                calls = (int64_t)n;
                break;
            }
        }
    }
    return atomic_load(&fault.bad) ? -1 : calls;
}

#define fault_everywhere(scenario)                                                                 \
    do {                                                                                           \
        atomic_store(&fault.bad, false);                                                           \
        int64_t calls_ = fault_search(scenario);                                                   \
        if (calls_ < 0) {                                                                          \
            fail_msg("%s: %s", #scenario, fault.words);                                            \
        }                                                                                          \
        print_message("%-28s %3" PRId64 " calls\n", #scenario, calls_);                            \
        assert_true(calls_ > 0);                                                                   \
    } while (0)

#endif /* PTO_TEST_FAULT_H */
