/* hooks.c - connects the real sources with the world: functions that the compiler calls at each
 * memory access, and functions of the operating system. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/thread.h"
#include "world.h"

/* ---- Plain accesses ---- */

void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_init(void)
{
}
void __tsan_func_entry(void *caller)
{
    (void)caller;
}
void __tsan_func_exit(void)
{
}

#define PLAIN(name, bytes, write)                                                                  \
    void name(void *address);                                                                      \
    void name(void *address)                                                                       \
    {                                                                                              \
        if (here.active) {                                                                         \
            memory_access(address, bytes, write);                                                  \
        }                                                                                          \
    }
#define PLAIN_OF(bytes)                                                                            \
    PLAIN(__tsan_read##bytes, bytes, false)                                                        \
    PLAIN(__tsan_write##bytes, bytes, true)                                                        \
    PLAIN(__tsan_unaligned_read##bytes, bytes, false)                                              \
    PLAIN(__tsan_unaligned_write##bytes, bytes, true)                                              \
    PLAIN(__tsan_read_write##bytes, bytes, true)                                                   \
    PLAIN(__tsan_unaligned_read_write##bytes, bytes, true)
PLAIN_OF(1)
PLAIN_OF(2)
PLAIN_OF(4)
PLAIN_OF(8)
PLAIN_OF(16)

void __tsan_read_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes);
void __tsan_read_range(void *address, size_t bytes)
{
    if (here.active) {
        memory_access(address, bytes, false);
    }
}
void __tsan_write_range(void *address, size_t bytes)
{
    if (here.active) {
        memory_access(address, bytes, true);
    }
}

/* ---- Atomic ones ---- */

/* The compiler's numbers: relaxed, consume, acquire, release, acq_rel, seq_cst. */
static op_order order_of(int given)
{
    static const op_order orders[] = {ORDER_RELAXED, ORDER_ACQUIRE, ORDER_ACQUIRE,
                                      ORDER_RELEASE, ORDER_BOTH,    ORDER_SC};
    return orders[given & 7];
}

#define ATOMIC_OF(bits)                                                                            \
    typedef uint##bits##_t u##bits;                                                                \
    u##bits __tsan_atomic##bits##_load(const volatile u##bits *a, int order);                      \
    void __tsan_atomic##bits##_store(volatile u##bits *a, u##bits value, int order);               \
    u##bits __tsan_atomic##bits##_exchange(volatile u##bits *a, u##bits value, int order);         \
    u##bits __tsan_atomic##bits##_fetch_add(volatile u##bits *a, u##bits value, int order);        \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile u##bits *a, u##bits *expected,      \
                                                      u##bits desired, int order, int failure);    \
    u##bits __tsan_atomic##bits##_compare_exchange_val(volatile u##bits *a, u##bits expected,      \
                                                       u##bits desired, int order, int failure);   \
    u##bits __tsan_atomic##bits##_load(const volatile u##bits *a, int order)                       \
    {                                                                                              \
        return here.active                                                                         \
                   ? (u##bits)model_load((const void *)(uintptr_t)a, bits / 8, order_of(order))    \
                   : *a;                                                                           \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile u##bits *a, u##bits value, int order)                \
    {                                                                                              \
        if (here.active) {                                                                         \
            model_store((void *)(uintptr_t)a, bits / 8, value, order_of(order));                   \
        } else {                                                                                   \
            *a = value;                                                                            \
        }                                                                                          \
    }                                                                                              \
    u##bits __tsan_atomic##bits##_exchange(volatile u##bits *a, u##bits value, int order)          \
    {                                                                                              \
        if (here.active) {                                                                         \
            return (u##bits)model_change((void *)(uintptr_t)a, bits / 8, OP_SWAP, value,           \
                                         order_of(order));                                         \
        }                                                                                          \
        const u##bits old = *a;                                                                    \
        *a = value;                                                                                \
        return old;                                                                                \
    }                                                                                              \
    u##bits __tsan_atomic##bits##_fetch_add(volatile u##bits *a, u##bits value, int order)         \
    {                                                                                              \
        if (here.active) {                                                                         \
            return (u##bits)model_change((void *)(uintptr_t)a, bits / 8, OP_ADD, value,            \
                                         order_of(order));                                         \
        }                                                                                          \
        const u##bits old = *a;                                                                    \
        *a = old + value;                                                                          \
        return old;                                                                                \
    }                                                                                              \
    u##bits __tsan_atomic##bits##_compare_exchange_val(volatile u##bits *a, u##bits expected,      \
                                                       u##bits desired, int order, int failure)    \
    {                                                                                              \
        if (here.active) {                                                                         \
            uint64_t value = expected;                                                             \
            (void)model_cas((void *)(uintptr_t)a, bits / 8, &value, desired, order_of(order),      \
                            order_of(failure));                                                    \
            return (u##bits)value;                                                                 \
        }                                                                                          \
        const u##bits old = *a;                                                                    \
        *a = old == expected ? desired : old;                                                      \
        return old;                                                                                \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile u##bits *a, u##bits *expected,      \
                                                      u##bits desired, int order, int failure)     \
    {                                                                                              \
        const u##bits before = *expected;                                                          \
        *expected = __tsan_atomic##bits##_compare_exchange_val(a, before, desired, order,          \
                                                               failure);                           \
        return *expected == before;                                                                \
    }
ATOMIC_OF(32)
ATOMIC_OF(64)

bool explore_device_orders;

void explore_fence(void)
{
    if (here.active) {
        model_fence();
    }
}

void __tsan_atomic_signal_fence(int order);

/* Only for the compiler. */
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

/* ---- The operating system: src/base/os.c is not in this world ---- */

_Thread_local char ptoi_os_mark;
uint32_t ptoi_os_forks;

int ptoi_os_count_forks(void)
{
    return 0;
}

/* Large blocks belong to the orchestrating thread and are mostly empty. */
void *ptoi_os_reserve(size_t bytes)
{
    return memory_take(bytes, bytes <= (size_t)8 << 20);
}

void ptoi_os_release(void *memory, size_t bytes)
{
    (void)bytes;
    if (memory) {
        memory_give_back(memory);
    }
}

/* Little: the map of a world has no room to grow. */
size_t ptoi_os_address_space(void)
{
    return 0;
}

void ptoi_os_want_large_pages(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}

static void *file_memory[4]; /* of the files created last: a window has three */

pto_status ptoi_os_file_create(const char *name, size_t bytes, int *file)
{
    static int next;
    (void)name;
    next = (next + 1) % 4;
    file_memory[next] = ptoi_os_reserve(bytes);
    *file = next;
    return PTO_OK;
}

pto_status ptoi_os_file_map(int file, size_t bytes, void **memory)
{
    (void)bytes;
    *memory = file_memory[file];
    return PTO_OK;
}

pto_status ptoi_os_forbid(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    return PTO_OK;
}

pto_status ptoi_os_protect(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    return PTO_OK;
}

void ptoi_os_file_close(int file)
{
    (void)file;
}

void ptoi_os_sleep(ptoi_a32 *word, uint32_t value)
{
    model_sleep(word, value);
}

void ptoi_os_nap(ptoi_a32 *word, uint32_t value, uint32_t us)
{
    (void)us;
    model_nap(word, value);
}

void ptoi_os_wake(ptoi_a32 *word)
{
    model_wake(word);
}

void ptoi_os_wake_all(ptoi_a32 *word)
{
    for (uint32_t i = 0; i < WORLD_THREADS; i++) {
        model_wake(word);
    }
}

void *ptoi_os_reserve_shared(size_t bytes)
{
    return ptoi_os_reserve(bytes); /* all processes are threads of one here */
}

void ptoi_os_block_signals(void)
{
}

uint64_t ptoi_os_clock(void)
{
    return 1; /* time stands still, so that a schedule can be repeated */
}

uint32_t ptoi_os_process(void)
{
    return 1;
}

uint32_t ptoi_os_thread_number(void)
{
    return 1;
}

void ptoi_os_yield(void)
{
    model_yield();
}

bool world_has_barrier = true, world_makes_barrier = true;

bool ptoi_os_has_barrier(bool shared)
{
    (void)shared;
    return world_has_barrier;
}

bool ptoi_os_barrier(bool shared)
{
    (void)shared;
    if (world_makes_barrier) {
        model_barrier();
    }
    return world_makes_barrier;
}

const char *ptoi_os_program(void)
{
    return "explore";
}

/* No set of cores is known, so no worker is pinned. */
bool ptoi_os_affinity(uint64_t *set, size_t bytes)
{
    (void)set;
    (void)bytes;
    return false;
}

bool ptoi_os_pin(uint64_t *set, size_t bytes, uint32_t cpu)
{
    (void)set;
    (void)bytes;
    (void)cpu;
    return false;
}

uint64_t ptoi_os_cores(void)
{
    return 2;
}

typedef struct entry {
    void *(*run)(void *);
    void *context;
} entry;

static void enter_thread(void *context)
{
    const entry *e = context;
    (void)e->run(e->context);
}

int ptoi_os_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
    entry *e = world_memory(sizeof *e);
    *e = (entry){run, context};
    *thread = threads_add(enter_thread, e);
    return 0;
}

/* ---- Functions of the C library that the linker redirects to this file (--wrap) ---- */

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__real_memmove(void *to, const void *from, size_t bytes);
void *__real_memset(void *to, int value, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memset(void *to, int value, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_join(pthread_t thread, void **result);

void *world_memory(size_t bytes)
{
    return memory_take(bytes, true);
}

static void copies(void *to, const void *from, size_t bytes)
{
    if (here.active) {
        memory_access(from, bytes, false);
        memory_access(to, bytes, true);
    }
}

void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    copies(to, from, bytes);
    return __real_memcpy(to, from, bytes);
}

void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
    copies(to, from, bytes);
    return __real_memmove(to, from, bytes);
}

void *__wrap_memset(void *to, int value, size_t bytes)
{
    if (here.active) {
        memory_access(to, bytes, true);
    }
    return __real_memset(to, value, bytes);
}

/* Only while a scenario is prepared or run; between schedules the search itself allocates. */
static bool is_ours(void)
{
    return here.active || (here.inside && !here.n_first);
}

void *__wrap_malloc(size_t bytes)
{
    return is_ours() ? world_memory(bytes) : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_ours() ? world_memory(count * bytes) : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (!is_ours()) {
        return __real_realloc(memory, bytes);
    }
    if (memory) {
        world_fail(FAIL_MODEL, "realloc of something");
    }
    return world_memory(bytes);
}

void __wrap_free(void *memory)
{
    if (memory_has(memory)) {
        memory_give_back(memory);
    } else {
        __real_free(memory);
    }
}

/* A lock on the stack of a thread, and those of sources that are not instrumented: no other thread runs
 * while they are held. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (here.active && memory_has(lock)) {
        model_lock(lock);
    }
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (here.active && memory_has(lock)) {
        model_unlock(lock);
    }
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)result;
    model_join((uint32_t)thread);
    return 0;
}
