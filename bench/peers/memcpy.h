/* memcpy.h - the reference for every copy: memcpy between the same pages, on as many threads.
 *
 * The threads exist before anything is timed, and spin when the clock starts, so that only memory
 * is measured. Between runs they sleep.
 */
#ifndef PTO_PEERS_MEMCPY_H
#define PTO_PEERS_MEMCPY_H

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/os.h"
#include "base/thread.h"
#include "bench.h"

enum { MAX_CREW = 256 };

/* Memory in huge pages where the system gives them, aligned to such a page and touched. */
static void *huge_memory(size_t bytes)
{
    const uintptr_t huge = (uintptr_t)2 << 20;
    const size_t whole = (bytes + huge - 1) / huge * huge;
    char *memory = mmap(NULL, whole + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                        0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "bench: no memory: %zu bytes\n", whole);
        exit(2);
    }
    memory += -(uintptr_t)memory % huge;
    madvise(memory, whole, MADV_HUGEPAGE);
    memset(memory, 1, whole);
    return memory;
}

/* How much of this process is in huge pages, in MB. */
static double huge_mb(void)
{
    char line[256];
    double kb = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "AnonHugePages:", 14) == 0) {
            kb = strtod(line + 14, NULL);
        }
    }
    if (file) {
        fclose(file);
    }
    return kb * 1024 / 1e6;
}

typedef struct crew {
    uint32_t size; /* the calling thread included */
    bool over;
    char *to;
    const char *from;
    size_t bytes;
    pthread_barrier_t gate; /* they sleep here */
    ptoi_a32 awake, done;   /* how many of them */
    ptoi_a32 round;         /* the copy that may begin */
    pthread_t threads[MAX_CREW];
    ptoi_a32 joined; /* gives the threads their numbers */
} crew;

/* Another thread may need this core first, if there are fewer cores than expected. */
static void crew_wait_(const ptoi_a32 *word, uint32_t value)
{
    for (uint32_t n = 1; ptoi_acquire32(word) != value; n++) {
        if (n % 4096) {
            ptoi_relax();
        } else {
            ptoi_os_yield();
        }
    }
}

/* Parts begin at pages. */
static void crew_part_(const crew *c, uint32_t index)
{
    const size_t page = 4096, pages = (c->bytes + page - 1) / page;
    const size_t low = pages * index / c->size * page;
    const size_t high = index + 1 == c->size ? c->bytes : pages * (index + 1) / c->size * page;
    memcpy(c->to + low, c->from + low, high - low);
}

static void *crew_main_(void *context)
{
    crew *c = context;
    const uint32_t index = ptoi_fetch_add32(&c->joined, 1) + 1;
    for (uint32_t round = 1;; round++) {
        pthread_barrier_wait(&c->gate);
        if (c->over) {
            return NULL;
        }
        ptoi_fetch_add32(&c->awake, 1);
        crew_wait_(&c->round, round);
        crew_part_(c, index);
        ptoi_fetch_add32(&c->done, 1);
    }
}

static void crew_start(crew *c, uint32_t size)
{
    memset(c, 0, sizeof *c);
    c->size = size;
    pthread_barrier_init(&c->gate, NULL, size);
    for (uint32_t i = 1; i < size; i++) {
        if (ptoi_os_thread(&c->threads[i], crew_main_, c) != 0) {
            fprintf(stderr, "bench: no thread %u of %u\n", i + 1, size);
            exit(2);
        }
    }
}

static void crew_stop(crew *c)
{
    c->over = true;
    pthread_barrier_wait(&c->gate);
    for (uint32_t i = 1; i < c->size; i++) {
        pthread_join(c->threads[i], NULL);
    }
    pthread_barrier_destroy(&c->gate);
}

/* Nanoseconds of one copy by all of them. */
static double crew_copy(crew *c, void *to, const void *from, size_t bytes)
{
    c->to = to;
    c->from = from;
    c->bytes = bytes;
    ptoi_set32(&c->awake, 0);
    ptoi_set32(&c->done, 0);
    pthread_barrier_wait(&c->gate);
    crew_wait_(&c->awake, c->size - 1);
    const double start = bench_now_ns();
    ptoi_release32(&c->round, ptoi_get32(&c->round) + 1);
    crew_part_(c, 0);
    crew_wait_(&c->done, c->size - 1);
    return bench_now_ns() - start;
}

#endif /* PTO_PEERS_MEMCPY_H */
