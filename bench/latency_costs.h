/* latency_costs.h - what calls cost by themselves: many in a row, divided; and what an idle runtime
 * takes. */
#ifndef PTO_LATENCY_COSTS_H
#define PTO_LATENCY_COSTS_H

#include "latency_cases.h"

/* ---- Calls ---------------------------------------------------------------------------------- */

enum { CALLS = 1000 };

typedef struct stand {
    pto_runtime *rt;
    pto_tensor matrix, row; /* external; `row` has a complete writer */
    uint64_t memory[64];
} stand;

static void call_scope(stand *s)
{
    for (int i = 0; i < CALLS; i++) {
        must(pto_scope_begin(s->rt));
        must(pto_scope_end(s->rt));
    }
}

static void call_boundary(stand *s)
{
    for (int i = 0; i < CALLS; i++) {
        must(pto_scope_begin_ex(s->rt, PTO_SCOPE_BOUNDARY));
        must(pto_scope_end(s->rt));
    }
}

static void call_read(stand *s)
{
    for (int i = 0; i < CALLS; i++) {
        uint64_t seen[8] = {0};
        must(pto_read(s->rt, &s->row, seen, sizeof seen));
        require(seen[7] == 7, "a read saw something else than what is there");
    }
}

static void call_write(stand *s)
{
    for (int i = 0; i < CALLS; i++) {
        const uint64_t from[8] = {[7] = 7};
        must(pto_write(s->rt, &s->row, from, sizeof from));
    }
    require(s->memory[7] == 7, "a write left something else");
}

static void call_wait(stand *s)
{
    for (int i = 0; i < CALLS; i++) {
        must(pto_wait(s->rt));
    }
}

/* In one boundary, whose cost they share. */
static void call_temp(stand *s)
{
    pto_runtime_stats stats;
    must(pto_scope_begin_ex(s->rt, PTO_SCOPE_BOUNDARY));
    for (int i = 0; i < CALLS; i++) {
        pto_tensor t;
        must(pto_temp(s->rt, PTO_FLOAT32, 2, (int64_t[]){16, 16}, &t));
        bench_keep(t.owner);
    }
    must(pto_stats(s->rt, &stats));
    require(stats.buffers == CALLS, "a tensor is missing");
    must(pto_scope_end(s->rt));
}

static void call_view(stand *s)
{
    for (int i = 0; i < CALLS; i++) {
        pto_tensor t;
        must(pto_tensor_view(&s->matrix, (int64_t[]){i % 4, 2}, (int64_t[]){4, 4}, &t));
        require(t.offset == i % 4 * 8 + 2, "a view begins elsewhere");
        bench_keep((uint64_t)t.strides[0]);
    }
}

static void call_external(stand *s)
{
    for (int i = 0; i < CALLS; i++) {
        pto_tensor t;
        must(pto_external_tensor(s->rt, s->memory, PTO_UINT64, 2, (int64_t[]){8, 8}, &t));
        bench_keep((uint64_t)(uintptr_t)t.storage);
    }
}

static void call_clock(stand *s)
{
    (void)s;
    for (int i = 0; i < CALLS; i++) {
        bench_keep(ptoi_ticks());
    }
}

static void call_pause(stand *s)
{
    (void)s;
    for (int i = 0; i < CALLS; i++) {
        ptoi_relax();
    }
}

typedef struct call_cost {
    const char *name;
    void (*run)(stand *s);
} call_cost;

static const call_cost calls[] = {
    {"a plain scope: begin and end", call_scope},
    {"a boundary scope: begin and end", call_boundary},
    {"pto_read of 64 bytes, written long ago", call_read},
    {"pto_write of 64 bytes, nobody uses them", call_write},
    {"pto_wait, nothing to wait for", call_wait},
    {"pto_temp", call_temp},
    {"pto_tensor_view", call_view},
    {"pto_external_tensor", call_external},
    {"(one look at the clock of this bench)", call_clock},
    {"(one pause, of which a look for work has up to 15)", call_pause},
};
enum { N_CALLS = sizeof calls / sizeof *calls };

static stand *stand_begin(int place)
{
    static stand s;
    static probe p;
    bench b = {0};
    pto_config config = PTO_CONFIG_INIT;
    config.place = places[place];
    memset(&s, 0, sizeof s);
    must(pto_runtime_create(&b.rt, &config));
    s.rt = b.rt;
    must(pto_tensor_init(&s.matrix, s.memory, sizeof s.memory, PTO_UINT64, 2, (int64_t[]){8, 8},
                         NULL, 0));
    must(pto_tensor_select(&s.matrix, 0, 0, &s.row));
    must(pto_kernel_register(s.rt, "vector", PTO_VECTOR, kernel_probe, NULL, &b.vector));
    probe_init(&p);
    p.tensor = s.row;
    probe_submit(&b, b.vector, &p, NULL);
    must(pto_wait(s.rt));
    s.memory[7] = 7; /* nobody else is there */
    return &s;
}

/* ---- Creating, destroying ------------------------------------------------------------------- */

/* Microseconds. `out`: create, destroy, and a whole life with one task in it. */
static void life(int place, size_t n, samples *out)
{
    for (size_t i = 0; i < n; i++) {
        pto_config config = PTO_CONFIG_INIT;
        bench b = {0};
        probe p;
        config.place = places[place];
        const double start = bench_now_ns();
        must(pto_runtime_create(&b.rt, &config));
        const double created = bench_now_ns();
        must(pto_runtime_destroy(&b.rt, PTO_WAIT));
        const double destroyed = bench_now_ns();
        probe_init(&p);
        const double again = bench_now_ns();
        must(pto_runtime_create(&b.rt, &config));
        must(pto_kernel_register(b.rt, "vector", PTO_VECTOR, kernel_probe, NULL, &b.vector));
        probe_submit(&b, b.vector, &p, NULL);
        must(pto_wait(b.rt));
        must(pto_runtime_destroy(&b.rt, PTO_WAIT));
        add(&out[0], (created - start) / 1e3);
        add(&out[1], (destroyed - created) / 1e3);
        add(&out[2], (bench_now_ns() - again) / 1e3);
        require(p.memory[0] == 1, "the one task did not run");
    }
}

/* ---- Doing nothing -------------------------------------------------------------------------- */

typedef struct idleness {
    double settle_us; /* time of processors from the last task until all sleep */
    double percent;   /* of one processor, over the second after that */
} idleness;

static idleness idle(int place, double seconds)
{
    idleness result;
    bench b = {0};
    probe p;
    pto_config config = PTO_CONFIG_INIT;
    config.place = places[place];
    must(pto_runtime_create(&b.rt, &config));
    must(pto_kernel_register(b.rt, "vector", PTO_VECTOR, kernel_probe, NULL, &b.vector));
    probe_init(&p);
    for (int i = 0; i < 1000; i++) {
        probe_submit(&b, b.vector, &p, NULL);
    }
    must(pto_wait(b.rt));
    const uint64_t done = ptoi_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    (void)usleep(100000);
    const uint64_t from = ptoi_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    const double start = bench_now_ns();
    (void)usleep((useconds_t)(seconds * 1e6));
    const double took = bench_now_ns() - start;
    const uint64_t to = ptoi_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    result.settle_us = (double)(from - done) / 1e3;
    result.percent = (double)(to - from) / took * 100;
    require(parks(&b) > 0, "no thread ever slept");
    require(p.memory[0] == 1000, "not every task was run");
    bench_end(&b);
    return result;
}

#endif /* PTO_LATENCY_COSTS_H */
