/* memory.c - the memory of a world: restored before each schedule, and checked for races.
 *
 * All memory of a scenario lies in one fixed range of addresses, so that schedules can be repeated.
 * A page becomes writable with the first write to it; only these few pages have to be restored.
 *
 * Races are found with a cell for every four bytes: the last write, and each thread's last read.
 */
#define _GNU_SOURCE /* MAP_FIXED_NOREPLACE */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "world.h"

#define BASE ((char *)(uintptr_t)(UINT64_C(1) << 36))
#define WATCHED_BYTES (UINT64_C(64) << 20) /* the first part of the range */
#define BYTES (UINT64_C(64) << 30)         /* address space: maps reserve room to grow */
#define PAGE UINT64_C(4096)

enum { MAX_PAGES = 8192, MAX_BLOCKS = 256 };

typedef struct cell {
    uint32_t run;
    uint32_t write;               /* when; 0: never */
    uint32_t read[WORLD_THREADS]; /* when, by each thread */
    uint8_t writer;
    uint8_t write_mask; /* which of the four bytes */
    uint8_t read_mask[WORLD_THREADS];
} cell;

typedef struct block {
    char *begin;
    size_t bytes;
    bool gone;
} block;

static struct {
    char *next[2]; /* where blocks are placed: watched and others */
    char *next_kept[2];
    block blocks[MAX_BLOCKS];
    uint32_t n_blocks, n_blocks_kept, n_gone;
    char *page[MAX_PAGES]; /* pages that were ever written */
    char *kept;            /* their contents at the start of a schedule */
    uint32_t n_pages;
    cell *cells;
    uint32_t cell_pages[MAX_PAGES]; /* pages whose cells were used in this schedule */
    uint32_t n_cell_pages;
    uint32_t *cell_page_run; /* by page: the schedule that last used one */
} m;

/* ---- Pages ---- */

static _Noreturn void give_up(const char *text)
{
    fprintf(stderr, "explore: %s\n", text);
    abort();
}

static void at_fault(int signal, siginfo_t *info, void *context)
{
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    (void)context;
    if (signal == SIGSEGV && info->si_code == SEGV_ACCERR && memory_has(page)) {
        if (m.n_pages == MAX_PAGES) {
            give_up("a scenario writes too many pages");
        }
        m.page[m.n_pages++] = page; /* its saved contents are zero */
        mprotect(page, PAGE, PROT_READ | PROT_WRITE);
        return;
    }
    if (!here.active) {
        struct sigaction otherwise = {.sa_handler = SIG_DFL};
        sigaction(signal, &otherwise, NULL);
        return;
    }
    world_fail(FAIL_CRASH, "signal %d (%s) at address %p", signal, strsignal(signal),
               info->si_addr);
}

void memory_open(void)
{
    memset(&m, 0, sizeof m);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (mmap(BASE, BYTES, PROT_READ, flags | MAP_FIXED_NOREPLACE, -1, 0) != BASE) {
        give_up("the range of addresses is taken");
    }
    m.cells = mmap(NULL, WATCHED_BYTES / 4 * sizeof *m.cells, PROT_READ | PROT_WRITE, flags, -1, 0);
    m.cell_page_run = calloc(WATCHED_BYTES / PAGE, sizeof *m.cell_page_run);
    m.kept = mmap(NULL, MAX_PAGES * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if ((void *)m.cells == MAP_FAILED || m.kept == MAP_FAILED || !m.cell_page_run) {
        give_up("no memory");
    }
    m.next[0] = BASE + WATCHED_BYTES;
    m.next[1] = BASE + PAGE;
    struct sigaction action = {.sa_sigaction = at_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
}

void memory_close(void)
{
    munmap(BASE, BYTES);
    munmap(m.cells, WATCHED_BYTES / 4 * sizeof *m.cells);
    munmap(m.kept, MAX_PAGES * PAGE);
    free(m.cell_page_run);
}

void memory_keep(void)
{
    for (uint32_t i = 0; i < m.n_pages; i++) {
        memcpy(m.kept + i * PAGE, m.page[i], PAGE);
    }
    memcpy(m.next_kept, m.next, sizeof m.next);
    m.n_blocks_kept = m.n_blocks;
}

void memory_reset(void)
{
    for (uint32_t i = 0; i < m.n_pages; i++) {
        memcpy(m.page[i], m.kept + i * PAGE, PAGE);
    }
    memcpy(m.next, m.next_kept, sizeof m.next);
    m.n_blocks = m.n_blocks_kept;
    for (uint32_t i = 0; i < m.n_blocks && m.n_gone; i++) {
        m.blocks[i].gone = false;
    }
    m.n_gone = 0;
    m.n_cell_pages = 0;
}

/* ---- Blocks ---- */

void *memory_take(size_t bytes, bool watched)
{
    char *at = m.next[watched], *end = watched ? BASE + WATCHED_BYTES : BASE + BYTES;
    const size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    if (m.n_blocks == MAX_BLOCKS || room > (size_t)(end - at)) {
        give_up("a scenario takes too much memory");
    }
    m.blocks[m.n_blocks++] = (block){at, bytes, false};
    m.next[watched] += room;
    return at;
}

/* All earlier uses of the block must happen before this. */
static void check_last_uses(const block *b)
{
    const world_clock *clock = &threads_now()->clock;
    for (uint32_t i = 0; i < m.n_cell_pages; i++) {
        const char *page = BASE + m.cell_pages[i] * PAGE;
        for (const char *at = page; at < page + PAGE && at >= b->begin && at < b->begin + b->bytes;
             at += 4) {
            const cell *c = &m.cells[(at - BASE) / 4];
            for (uint32_t t = 0; t < here.n_threads && c->run == here.run; t++) {
                if (t != here.current &&
                    (c->read[t] > clock->at[t] || (c->writer == t && c->write > clock->at[t]))) {
                    world_fail(FAIL_RACE,
                               "race: %s gives %s back, used by %s, and nothing orders "
                               "the two",
                               threads_now()->name, name_at(at), here.threads[t].name);
                }
            }
        }
    }
    model_check_last_uses(b->begin, b->bytes);
}

void memory_give_back(void *address)
{
    for (uint32_t i = 0; i < m.n_blocks; i++) {
        if (m.blocks[i].begin == address && !m.blocks[i].gone) {
            if (here.active) {
                check_last_uses(&m.blocks[i]);
            }
            m.blocks[i].gone = true;
            m.n_gone++;
            return;
        }
    }
    world_fail(FAIL_FREED, "%p is given back and is no block, or not any more", address);
}

bool memory_has(const void *address)
{
    return (uintptr_t)address - (uintptr_t)BASE < BYTES;
}

bool memory_offset(const void *address, uint64_t *at)
{
    *at = (uint64_t)((uintptr_t)address - (uintptr_t)BASE);
    return *at < WATCHED_BYTES;
}

void memory_check_alive(const void *address, size_t bytes)
{
    const char *at = address;
    for (uint32_t i = 0; i < m.n_blocks && m.n_gone; i++) {
        const block *b = &m.blocks[i];
        if (b->gone && at + bytes > b->begin && at < b->begin + b->bytes) {
            world_fail(FAIL_FREED, "%s uses %s, byte %zu of memory that was given back",
                       threads_now()->name, name_at(address), (size_t)(at - b->begin));
        }
    }
}

/* ---- Races ---- */

static _Noreturn void race(const char *address, bool write, uint32_t other, bool other_wrote)
{
    world_fail(FAIL_RACE, "race: %s %s %s, %s by %s, and nothing orders the two",
               threads_now()->name, write ? "writes" : "reads", name_at(address),
               other_wrote ? "written" : "read", here.threads[other].name);
}

static void access_cell(cell *c, const char *address, uint8_t mask, bool write)
{
    const uint32_t me = here.current;
    const world_clock *clock = &here.threads[me].clock;
    if (c->run != here.run) {
        const uint32_t page = (uint32_t)((uint64_t)(address - BASE) / PAGE);
        memset(c, 0, sizeof *c);
        c->run = here.run;
        if (m.cell_page_run[page] != here.run) {
            m.cell_page_run[page] = here.run;
            m.cell_pages[m.n_cell_pages++] = page;
        }
    }
    /* The same access as the last one needs no check: later accesses were compared with that
     * one. */
    if (write ? c->writer == me && c->write == clock->at[me] && c->write_mask == mask
              : c->read[me] == clock->at[me] && c->read_mask[me] == mask) {
        return;
    }
    if (c->write_mask & mask && c->write > clock->at[c->writer] && c->writer != me) {
        race(address, write, c->writer, true);
    }
    if (!write) {
        c->read_mask[me] = (uint8_t)(c->read[me] == clock->at[me] ? c->read_mask[me] | mask : mask);
        c->read[me] = clock->at[me];
        return;
    }
    for (uint32_t t = 0; t < here.n_threads; t++) {
        if (c->read_mask[t] & mask && c->read[t] > clock->at[t] && t != me) {
            race(address, true, t, false);
        }
    }
    c->write = clock->at[me];
    c->writer = (uint8_t)me;
    c->write_mask = mask;
}

void memory_access(const void *address, size_t bytes, bool write)
{
    uint64_t at;
    if (!memory_has(address)) {
        return;
    }
    if (m.n_gone) {
        memory_check_alive(address, bytes);
    }
    if (!memory_offset(address, &at)) {
        return;
    }
    if (bytes == 4 && (at & 3) == 0) { /* mostly */
        access_cell(&m.cells[at / 4], address, 15, write);
        return;
    }
    for (uint64_t end = at + bytes; at < end && at < WATCHED_BYTES;) {
        const uint64_t next = (at | 3) + 1 < end ? (at | 3) + 1 : end;
        const uint32_t first = at & 3, count = (uint32_t)(next - at);
        access_cell(&m.cells[at / 4], BASE + at, (uint8_t)(((1u << count) - 1) << first), write);
        at = next;
    }
}
