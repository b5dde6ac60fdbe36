#include "worker/grid_log.h"

#include <inttypes.h>
#include <string.h>

#include <pto/pto.h>

#include "base/error.h"
#include "observe/log.h"

#define ASK_EVERY_NS UINT64_C(20000000) /* clocks drift by a microsecond in that time, at most */
#define QUESTIONS 8                     /* at a time: the best answer counts */
#define PATIENCE_NS UINT64_C(100000)    /* for an answer. A later one counts for what it is worth */

/* ---- Life ---- */

static uint64_t ran_bytes(const ptoi_keeper_log *t)
{
    return t->n_chunks * (uint64_t)PTOI_GRID_CHUNK * sizeof(ptoi_grid_ran);
}

pto_status ptoi_keeper_log_create(ptoi_scheduler *s, ptoi_keeper *k, uint64_t limit)
{
    if (!s->logs) {
        return PTO_OK;
    }
    ptoi_keeper_log *t = k->trace = ptoi_os_reserve(sizeof *t);
    if (!t) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for a trace of the grid", sizeof *t);
    }
    t->n_chunks = (uint32_t)(limit / PTOI_GRID_CHUNK) + k->grid.n_workers + 1;
    t->begin_ns = ptoi_clock_ns(CLOCK_MONOTONIC);
    t->begin_ticks = ptoi_ticks();
    void *memory = NULL;
    if (!k->module) {
        memory = ptoi_os_reserve(ran_bytes(t));
    } else if (k->ops.alloc(k->ops.self, ran_bytes(t), &memory)) {
        memory = NULL;
    }
    t->ran = memory;
    return memory ? PTO_OK
                  : ptoi_fail(PTO_OUT_OF_MEMORY,
                              "create: %" PRIu64 " bytes of the device for a trace of %" PRIu64
                              " tasks: lower trace_limit (PTO_TRACE_LIMIT)",
                              ran_bytes(t), limit);
}

void ptoi_keeper_log_destroy(ptoi_keeper *k)
{
    ptoi_keeper_log *t = k->trace;
    if (!t) {
        return;
    }
    if (t->ran && k->module) {
        k->ops.free(k->ops.self, t->ran, ran_bytes(t));
    } else {
        ptoi_os_release(t->ran, ran_bytes(t));
    }
    ptoi_os_release(t, sizeof *t);
    k->trace = NULL;
}

/* ---- Time ---- */

/* Whether there is an answer; if so, takes it. */
static bool hear(const ptoi_keeper *k, ptoi_keeper_log *t)
{
    const uint64_t told = ptoi_get64(&k->shared->time);
    if (told == t->told) {
        return false;
    }
    ptoi_device_clock_add(&t->clock, t->asked_at, told, ptoi_clock_ns(CLOCK_MONOTONIC));
    t->told = told;
    t->asking = false;
    return true;
}

static void ask(const ptoi_keeper *k, ptoi_keeper_log *t)
{
    t->asked_at = ptoi_clock_ns(CLOCK_MONOTONIC);
    t->asking = true;
    ptoi_set32(&k->shared->asked_time, ptoi_get32(&k->shared->asked_time) + 1);
}

/* The question waits for the grid, which answers it even if it leaves at once. */
void ptoi_keeper_log_launch(const ptoi_keeper *k)
{
    if (k->trace && !k->trace->asking) {
        ask(k, k->trace);
    }
}

void ptoi_keeper_log_ended(const ptoi_keeper *k)
{
    if (k->trace && k->trace->asking) {
        (void)hear(k, k->trace);
    }
}

void ptoi_keeper_log_time(const ptoi_keeper *k, bool now)
{
    ptoi_keeper_log *t = k->trace;
    if (!t || (t->asking && !hear(k, t) && !now)) {
        return;
    }
    const uint64_t clock = ptoi_clock_ns(CLOCK_MONOTONIC);
    if (!now && t->round_at && clock - t->round_at < ASK_EVERY_NS) {
        return;
    }
    t->round_at = clock;
    for (uint32_t i = 0; i < QUESTIONS && !t->asking; i++) {
        ask(k, t);
        while (!hear(k, t) && ptoi_clock_ns(CLOCK_MONOTONIC) - clock < QUESTIONS * PATIENCE_NS) {
            if (!k->module) { /* the thread that answers may wait for this core */
                ptoi_os_yield();
            }
        }
    }
}

/* ---- Records ---- */

/* What is needed to tell the time of a record. */
typedef struct teller {
    const ptoi_keeper_log *t;
    double ns_per_cycle, ticks_per_ns;
    uint64_t step; /* of the clock of the device, in ns */
} teller;

/* A time of the device, in ticks. */
static uint64_t ticks_at(const teller *m, uint64_t device)
{
    const uint64_t host = ptoi_device_clock_host(&m->t->clock, device), begin = m->t->begin_ns;
    return host > begin ? m->t->begin_ticks + (uint64_t)((double)(host - begin) * m->ticks_per_ns)
                        : m->t->begin_ticks;
}

/* When the task of record `i` of a chunk began. The clock of the device shows a time up to a step before
 * that. Cycles say how far neighbours are from it, and so each of them narrows it down. */
static uint64_t began_at(const teller *m, const ptoi_grid_ran *chunk, uint32_t n, uint32_t i)
{
    enum { COARSE = 200, AROUND = 16 };
    const uint64_t far = 500000; /* ns: the rate of the cycles may change */
    const ptoi_grid_ran *at = &chunk[i];
    double low = 0, high = (double)m->step;
    if (m->step < COARSE) {
        return at->began;
    }
    for (uint32_t k = 0; k < n && k <= i + AROUND; k++) {
        const ptoi_grid_ran *other = &chunk[k];
        if (other->kind == PTOI_GRID_FAILED) {
            k += PTOI_GRID_TEXT;
        } else if (k + AROUND >= i && other->began + far > at->began &&
                   other->began < at->began + far) {
            const double apart = (double)(int32_t)(other->cycles - at->cycles) * m->ns_per_cycle;
            const double shown = (double)(int64_t)(other->began - at->began) - apart;
            low = shown > low ? shown : low;
            high = shown + (double)m->step < high ? shown + (double)m->step : high;
        }
    }
    return at->began + (uint64_t)(low <= high ? (low + high) / 2 : (double)(m->step / 2));
}

static uint64_t took_ns(const teller *m, const ptoi_grid_ran *at)
{
    const uint64_t ns = (uint64_t)at->took_us << 10;
    return ns > UINT64_C(1000000000) ? ns : (uint64_t)((double)at->took * m->ns_per_cycle);
}

static void add_ran(const teller *m, ptoi_log *log, const ptoi_grid_ran *at, uint64_t began)
{
    const uint64_t from = ticks_at(m, began), to = ticks_at(m, began + took_ns(m, at));
    if (at->kind == PTOI_GRID_SKIPPED) {
        ptoi_log_ran(log, (ptoi_ran){at->task, from, 0, PTOI_RAN_ENDED, at->outcome});
    } else if (to - from <= UINT32_MAX) {
        ptoi_log_ran(
            log, (ptoi_ran){at->task, from, (uint32_t)(to - from), PTOI_RAN_WHOLE, at->outcome});
    } else {
        ptoi_log_ran(log, (ptoi_ran){at->task, from, 0, PTOI_RAN_STARTED, 0});
        ptoi_log_ran(log, (ptoi_ran){at->task, to, 0, PTOI_RAN_ENDED, at->outcome});
    }
}

static void add_chunk(const teller *m, ptoi_log *logs, const ptoi_grid_ran *chunk, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ptoi_log *log = &logs[chunk[i].worker];
        if (chunk[i].kind == PTOI_GRID_FAILED) {
            ptoi_log_failed(log, chunk[i].task, (uint32_t)chunk[i].began,
                            (const char *)(const void *)&chunk[i + 1]);
            i += PTOI_GRID_TEXT;
        } else {
            add_ran(m, log, &chunk[i], began_at(m, chunk, n, i));
        }
    }
}

/* Copies memory of the device, or of the grid of threads. */
static bool copy(const ptoi_keeper *k, void *to, const void *from, uint64_t bytes)
{
    if (!k->module) {
        memcpy(to, from, bytes);
        return true;
    }
    return !k->ops.copy_out(k->ops.self, to, from, bytes) &&
           !(k->ops.synchronize && k->ops.synchronize(k->ops.self));
}

/* The numbers of the log: how much of each chunk is used, and what each worker has lost. */
typedef struct counts {
    ptoi_grid_log log;
    uint32_t *used;
    ptoi_grid_place *place;
} counts;

static bool read_log(ptoi_scheduler *s, const ptoi_keeper *k, const counts *c, teller *m)
{
    const uint32_t given = ptoi_get32(&c->log.chunks);
    const uint32_t n = given < c->log.n_chunks ? given : c->log.n_chunks;
    ptoi_log *logs = &s->logs[k->grid.first_line];
    ptoi_grid_ran chunk[PTOI_GRID_CHUNK];
    m->step = c->log.step_ns;
    m->ns_per_cycle = c->log.span_cycles ? (double)c->log.span_ns / (double)c->log.span_cycles : 1;
    if (!copy(k, c->used, c->log.used, n * sizeof *c->used) ||
        !copy(k, c->place, c->log.place, k->grid.n_workers * sizeof *c->place)) {
        return false;
    }
    for (uint32_t i = 0; i < k->grid.n_workers; i++) {
        logs[i].lost += c->place[i].lost;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!copy(k, chunk, c->log.ran + (uint64_t)i * PTOI_GRID_CHUNK,
                  c->used[i] * sizeof *chunk)) {
            return false;
        }
        add_chunk(m, logs, chunk, c->used[i]);
    }
    return true;
}

void ptoi_keeper_log_finish(ptoi_scheduler *s, ptoi_keeper *k)
{
    ptoi_keeper_log *t = k->trace;
    if (!t || !t->log || !t->ran || k->lost[0] || !k->launches) {
        return;
    }
    counts c;
    const size_t used = t->n_chunks * sizeof *c.used;
    const size_t places = k->grid.n_workers * sizeof *c.place;
    teller m = {.t = t, .ticks_per_ns = 1};
    c.used = ptoi_os_reserve(used);
    c.place = ptoi_os_reserve(places);
    if (ptoi_ticks_by_counter) {
        const uint64_t ticks = ptoi_ticks() - t->begin_ticks;
        const uint64_t ns = ptoi_clock_ns(CLOCK_MONOTONIC) - t->begin_ns;
        m.ticks_per_ns = ns ? (double)ticks / (double)ns : 1;
    }
    ptoi_device_clock_settle(&t->clock);
    if (!c.used || !c.place || !t->clock.n || !copy(k, &c.log, t->log, sizeof c.log) ||
        !read_log(s, k, &c, &m)) {
        s->logs[k->grid.first_line].lost++; /* no words for it: a trace without its tasks says so */
    }
    s->grid_times = (ptoi_grid_times){t->clock.error + m.step, m.step, t->clock.asked};
    ptoi_os_release(c.used, used);
    ptoi_os_release(c.place, places);
}
