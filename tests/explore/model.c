/* model.c - the effect of atomic operations; world.h describes the memory model. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "world.h"

enum {
    HISTORY = 8,
    MAX_PLACES = 4096,

    MAX_TRACE = 32768,
    MAX_LATE = 8,
    PATIENCE = 64
};
#define INDEX_BYTES ((UINT64_C(64) << 20) / 4 * sizeof(uint32_t))

typedef struct store {
    uint64_t value;
    uint32_t seen[WORLD_THREADS]; /* when each thread first read it, or wrote it; 0: never */
    world_clock released;         /* the clock that an acquire of it joins */
    bool known;                   /* stored before the threads started: all threads have seen it */
} store;

typedef struct place {
    char *address;
    uint32_t bytes;
    uint32_t readers, writers; /* threads, in any schedule so far */
    bool shared;               /* two threads, one of them a writer */
    bool identity;             /* says which thread orchestrates */
    bool mutated, until;       /* see mutation */
    char name[WORLD_NAME];

    uint32_t run; /* what follows is of this schedule */
    uint32_t n;   /* stores; number i is history[i % HISTORY] */
    uint32_t last_sc;
    uint32_t calls; /* of sleep and wake: their order among each other */
    store history[HISTORY];
    world_clock last; /* when each thread used it last */
    world_clock lock; /* of the last holder */
    bool locked;
} place;

typedef struct late {
    place *p;
    op_kind kind;
    op_order order;
    uint64_t value;
} late;

static struct {
    place places[MAX_PLACES]; /* 0 is none */
    uint32_t n_places;
    uint32_t *index; /* by address */
    op trace[MAX_TRACE];
    uint32_t n_trace;
    late late[WORLD_THREADS][MAX_LATE];
    uint32_t n_late[WORLD_THREADS];
    uint32_t run;
} d;

void model_open(void)
{
    if (d.index) {
        munmap(d.index, INDEX_BYTES);
    }
    memset(&d, 0, sizeof d);
    d.n_places = 1;
    name_open();
    d.index = mmap(NULL, INDEX_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* ---- Places ---- */

const char *model_place_name(uint32_t id)
{
    return d.places[id].name;
}

static uint64_t memory_read(const place *p)
{
    return p->bytes == 4 ? *(const uint32_t *)(const void *)p->address
                         : *(const uint64_t *)(const void *)p->address;
}

static void memory_write(const place *p, uint64_t value)
{
    if (p->bytes == 4) {
        *(uint32_t *)(void *)p->address = (uint32_t)value;
    } else {
        *(uint64_t *)(void *)p->address = value;
    }
}

static store *newest(place *p)
{
    return &p->history[(p->n - 1) % HISTORY];
}

static place *make_place(const void *address, uint32_t bytes)
{
    if (d.n_places == MAX_PLACES) {
        world_fail(FAIL_MODEL, "more than %d atomic objects", MAX_PLACES - 1);
    }
    place *p = &d.places[d.n_places++];
    p->address = (char *)(uintptr_t)address;
    p->bytes = bytes;
    snprintf(p->name, sizeof p->name, "%s", name_at(address));
    p->identity = strcmp(p->name, "rt.thread") == 0;
    if (mutation_now && mutation_now->field) {
        p->mutated = name_is(p->name, mutation_now->field);
        p->until = mutation_now->until && name_is(p->name, mutation_now->until);
    }
    return p;
}

/* The object at an address; NULL outside the world. */
static place *find(const void *address, uint32_t bytes)
{
    uint64_t at;
    if (!memory_offset(address, &at)) {
        if (memory_has(address)) {
            world_fail(FAIL_MODEL, "an atomic object in a block that is too large to be watched");
        }
        return NULL;
    }
    memory_check_alive(address, bytes);
    if (!d.index[at / 4]) {
        const place *made = make_place(address, bytes);
        d.index[at / 4] = (uint32_t)(made - d.places);
    }
    place *p = &d.places[d.index[at / 4]];
    if (p->bytes != bytes) {
        world_fail(FAIL_MODEL, "%s is used with %u bytes and with %u", p->name, p->bytes, bytes);
    }
    if (p->run != here.run) {
        p->run = here.run;
        p->n = 1;
        p->last_sc = p->calls = 0;
        p->locked = false;
        memset(&p->lock, 0, sizeof p->lock);
        memset(&p->last, 0, sizeof p->last);
        memset(&p->history[0], 0, sizeof p->history[0]);
        p->history[0].value = memory_read(p);
        p->history[0].known = true;
    }
    return p;
}

/* Records which threads use it. At an object that becomes shared, threads may be switched. */
static void use(place *p, bool write)
{
    const uint32_t me = UINT32_C(1) << here.current;
    *(write ? &p->writers : &p->readers) |= me;
    const uint32_t all = p->writers | p->readers;
    if (!p->shared && p->writers && all & (all - 1)) {
        p->shared = true;
        here.learned = true;
    }
}

/* ---- Clocks ---- */

static void join(world_clock *clock, const world_clock *other)
{
    for (uint32_t t = 0; t < WORLD_THREADS; t++) {
        clock->at[t] = clock->at[t] > other->at[t] ? clock->at[t] : other->at[t];
    }
}

static bool acquires(op_order order)
{
    return order == ORDER_ACQUIRE || order >= ORDER_BOTH;
}

static bool releases(op_order order)
{
    return order >= ORDER_RELEASE;
}

/* ---- Recording ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

const op *model_trace(uint32_t *count)
{
    *count = d.n_trace;
    return d.trace;
}

/* `from` is the number of the store that was read or waited for, `to` of the one that was made. */
static void record(const place *p, op_kind kind, op_order order, uint64_t from, uint64_t to,
                   uint64_t read, uint64_t wrote)
{
    fiber *me = threads_now();
    const uint32_t id = (uint32_t)(p - d.places);
    if (d.run != here.run) {
        d.run = here.run;
        d.n_trace = 0;
    }
    me->n_shared += p->shared;
    const uint64_t what = (uint64_t)here.current << 60 | (uint64_t)kind << 56 | (uint64_t)id << 32 |
                          (from & 0xffff) << 16 | (to & 0xffff);
    here.trace = mix(here.trace + what * UINT64_C(0x9E3779B97F4A7C15));
    here.order += mix(what ^ mix(me->n_ops++ + UINT64_C(0x9E3779B97F4A7C15)));
    if (d.n_trace < MAX_TRACE) {
        d.trace[d.n_trace++] = (op){.step = here.steps,
                                    .place = id,
                                    .thread = (uint8_t)here.current,
                                    .kind = (uint8_t)kind,
                                    .order = (uint8_t)order,
                                    .age = (uint8_t)(p->n - 1 - from),
                                    .read = read,
                                    .wrote = wrote};
    }
}

/* ---- Mutations ---- */

static void flush_late(const place *before);

static bool is_mutated(const place *p, op_kind kind)
{
    return p->mutated && mutation_now->kinds >> kind & 1;
}

static op_order mutate_order(const place *p, op_kind kind, op_order order)
{
    if (is_mutated(p, kind)) {
        if (mutation_now->action == MUTATE_RELAX) {
            return ORDER_RELAXED;
        }
        if (mutation_now->action == MUTATE_WEAKEN && order == ORDER_SC) {
            return kind == OP_LOAD ? ORDER_ACQUIRE : kind == OP_STORE ? ORDER_RELEASE : ORDER_BOTH;
        }
    }
    return order;
}

/* Whether the operation is dropped or delayed. */
static bool mutate_away(place *p, op_kind kind, uint64_t value, op_order order)
{
    if (!is_mutated(p, kind)) {
        return false;
    }
    if (mutation_now->action == MUTATE_LATE) {
        uint32_t *n = &d.n_late[here.current];
        if (*n == MAX_LATE) {
            world_fail(FAIL_MODEL, "too many operations are late");
        }
        d.late[here.current][(*n)++] = (late){p, kind, order, value};
        return true;
    }
    return mutation_now->action == MUTATE_DROP;
}

/* ---- Loads and stores ---- */

static place *enter(const void *address, uint32_t bytes, bool write)
{
    place *p = find(address, bytes);
    if (!p) {
        return NULL;
    }
    if (mutation_now && mutation_now->action == MUTATE_LATE) {
        if (d.run != here.run) {
            memset(d.n_late, 0, sizeof d.n_late);
        }
        flush_late(p);
    }
    use(p, write);
    threads_point(search_is_point(p->shared));
    memory_check_alive(address, bytes);
    p->last.at[here.current] = ++threads_now()->clock.at[here.current];
    return p;
}

/* Words that all runtimes of a process share are static, and not of the world. A scenario has one
 * runtime, and one thread runs at a time: such a word is changed as it is. */
static bool is_static(const void *address)
{
    extern const char __data_start[], _end[];
    return (const char *)address >= __data_start && (const char *)address < _end;
}

static void outside(const void *address)
{
    world_fail(FAIL_MODEL, "a read-modify-write outside of the world, at %p", address);
}

void model_check_last_uses(const char *begin, size_t bytes)
{
    const world_clock *clock = &threads_now()->clock;
    for (uint32_t i = 1; i < d.n_places; i++) {
        const place *p = &d.places[i];
        if (p->run != here.run || p->address < begin || p->address >= begin + bytes) {
            continue;
        }
        for (uint32_t t = 0; t < here.n_threads; t++) {
            if (t != here.current && p->last.at[t] > clock->at[t]) {
                world_fail(FAIL_RACE,
                           "race: %s gives %s back, used by %s, and nothing orders the two",
                           threads_now()->name, p->name, here.threads[t].name);
            }
        }
    }
}

static void leave(const place *p, bool changed)
{
    fiber *me = threads_now();
    me->clock.at[here.current]++;
    if (changed) {
        me->looks = 0;
        threads_stir(p->address);
    } else {
        me->looks_at = p->address;
        me->yielded = ++me->looks > PATIENCE;
    }
    if (p->until) {
        flush_late(NULL);
    }
}

/* The oldest store that a load may read. */
static uint32_t oldest(const place *p, op_order order)
{
    const world_clock *clock = &threads_now()->clock, *shown = &threads_now()->shown;
    const uint32_t last = p->n - 1, end = p->n > HISTORY ? p->n - HISTORY : 0;
    for (uint32_t i = last; i > end; i--) {
        const store *s = &p->history[i % HISTORY];
        if (order == ORDER_SC && i == p->last_sc) {
            return i;
        }
        for (uint32_t t = 0; t < here.n_threads; t++) {
            if (s->seen[t] && (s->seen[t] <= clock->at[t] || s->seen[t] <= shown->at[t])) {
                return i;
            }
        }
    }
    return end;
}

static void read_store(place *p, uint32_t i, op_order order)
{
    store *s = &p->history[i % HISTORY];
    world_clock *clock = &threads_now()->clock;
    if (!s->known && !s->seen[here.current]) {
        s->seen[here.current] = clock->at[here.current];
    }
    join(acquires(order) ? clock : &threads_now()->pending, &s->released);
}

/* It is no choice: what matters is which loads and stores it lies between. */
void model_fence(void)
{
    fiber *me = threads_now();
    join(&me->clock, &me->pending);
    me->fenced = me->clock;
    me->clock.at[here.current]++;
}

static void write_store(place *p, uint64_t value, op_order order, const world_clock *sequence)
{
    store *s = &p->history[p->n % HISTORY];
    const world_clock *clock = &threads_now()->clock;
    world_clock released = {{0}};
    if (sequence) {
        released = *sequence;
    }
    join(&released, releases(order) ? clock : &threads_now()->fenced);
    memset(s, 0, sizeof *s);
    s->value = value;
    s->released = released;
    s->seen[here.current] = clock->at[here.current];
    if (order == ORDER_SC) {
        p->last_sc = p->n;
    }
    p->n++;
    memory_write(p, value);
}

uint64_t model_load(const void *address, uint32_t bytes, op_order order)
{
    place *p = enter(address, bytes, false);
    if (!p) {
        return bytes == 4 ? *(const uint32_t *)address : *(const uint64_t *)address;
    }
    order = mutate_order(p, OP_LOAD, order);
    const uint32_t first = oldest(p, order), last = p->n - 1;
    const uint32_t i = last - (first == last ? 0 : search_age(last - first + 1));
    read_store(p, i, order);
    uint64_t value = p->history[i % HISTORY].value;
    if ((p->identity && here.current != 0) || mutate_away(p, OP_LOAD, 0, order)) {
        value = 0;
    }
    record(p, OP_LOAD, order, i, 0, value, 0);
    leave(p, false);
    return value;
}

static void store_now(place *p, uint64_t value, op_order order)
{
    order = mutate_order(p, OP_STORE, order);
    const uint64_t old = newest(p)->value;
    write_store(p, value, order, NULL);
    record(p, OP_STORE, order, p->n - 1, p->n - 1, old, value);
}

void model_store(void *address, uint32_t bytes, uint64_t value, op_order order)
{
    place *p = enter(address, bytes, true);
    if (!p) {
        memcpy(address, &value, bytes);
        return;
    }
    if (!mutate_away(p, OP_STORE, value, order)) {
        store_now(p, value, order);
    }
    leave(p, true);
}

static uint64_t change_now(place *p, op_kind kind, uint64_t value, op_order order)
{
    order = mutate_order(p, kind, order);
    const uint32_t i = p->n - 1;
    const uint64_t old = newest(p)->value;
    const uint64_t after = kind == OP_ADD ? old + value : value;
    read_store(p, i, order);
    const world_clock sequence = newest(p)->released;
    write_store(p, p->bytes == 4 ? (uint32_t)after : after, order, &sequence);
    record(p, kind, order, i + 1, i + 1, old, newest(p)->value);
    return old;
}

uint64_t model_change(void *address, uint32_t bytes, op_kind kind, uint64_t value, op_order order)
{
    place *p = enter(address, bytes, true);
    if (!p) {
        outside(address);
        return 0;
    }
    uint64_t old = newest(p)->value;
    if (!mutate_away(p, kind, value, order)) {
        old = change_now(p, kind, value, order);
    }
    leave(p, true);
    return old;
}

bool model_cas(void *address, uint32_t bytes, uint64_t *expected, uint64_t desired, op_order order,
               op_order failure)
{
    place *p = enter(address, bytes, true);
    if (!p) {
        if (!is_static(address)) {
            outside(address);
            return false;
        }
        const bool same = memcmp(address, expected, bytes) == 0;
        if (same) {
            memcpy(address, &desired, bytes);
        } else {
            memcpy(expected, address, bytes);
        }
        return same;
    }
    order = mutate_order(p, OP_CAS, order);
    failure = mutate_order(p, OP_CAS_FAILED, failure);
    /* It may fail with a different older value; it succeeds only with the newest. */
    const uint32_t last = p->n - 1, first = oldest(p, failure);
    uint32_t list[HISTORY], n = 0;
    list[n++] = last;
    for (uint32_t i = last; i > first; i--) {
        if (p->history[(i - 1) % HISTORY].value != *expected) {
            list[n++] = i - 1;
        }
    }
    const uint32_t i = list[n == 1 ? 0 : search_age(n)];
    const uint64_t value = p->history[i % HISTORY].value;
    const bool good = i == last && value == *expected;
    if (good) {
        if (!mutate_away(p, OP_CAS, desired, order)) {
            (void)change_now(p, OP_CAS, desired, order);
        }
    } else {
        read_store(p, i, failure);
        record(p, OP_CAS_FAILED, failure, i, 0, value, 0);
        *expected = value;
    }
    leave(p, good);
    return good;
}

/* Executes delayed operations: those on one object that is about to be used, or all. */
static void flush_late(const place *before)
{
    uint32_t *n = &d.n_late[here.current], left = 0;
    late *list = d.late[here.current];
    for (uint32_t i = 0; i < *n; i++) {
        place *p = list[i].p;
        if (before && p != before) {
            list[left++] = list[i];
            continue;
        }
        threads_point(search_is_point(p->shared));
        threads_now()->clock.at[here.current]++;
        if (list[i].kind == OP_STORE) {
            store_now(p, list[i].value, list[i].order);
        } else {
            (void)change_now(p, list[i].kind, list[i].value, list[i].order);
        }
        threads_now()->clock.at[here.current]++;
        threads_stir(p->address);
    }
    *n = left;
}

/* ---- Locks, sleep, yield, join ---- */

void model_lock(void *address)
{
    place *p = enter(address, 4, true);
    while (p->locked) {
        threads_block(THREAD_LOCK, address);
    }
    p->locked = true;
    join(&threads_now()->clock, &p->lock);
    record(p, OP_LOCK, ORDER_ACQUIRE, p->n, p->n, 0, 0);
    p->n++; /* its place in the order of all lock operations */
    leave(p, true);
}

void model_unlock(void *address)
{
    place *p = enter(address, 4, true);
    if (!p->locked) {
        world_fail(FAIL_CHECK, "%s unlocks what is not locked", threads_now()->name);
    }
    p->locked = false;
    p->lock = threads_now()->clock;
    record(p, OP_UNLOCK, ORDER_RELEASE, p->n, p->n, 0, 0);
    p->n++;
    for (uint32_t t = 0; t < here.n_threads; t++) {
        fiber *it = &here.threads[t];
        if (it->state == THREAD_LOCK && it->waits_for == address) {
            it->state = THREAD_READY;
        }
    }
    leave(p, true);
}

void model_sleep(const void *address, uint32_t value)
{
    place *p = enter(address, 4, false);
    const bool sleeps = newest(p)->value == value;
    record(p, OP_SLEEP, ORDER_RELAXED, p->n - 1, p->calls++, newest(p)->value, sleeps);
    leave(p, false);
    if (sleeps) {
        threads_block(THREAD_ASLEEP, address);
    }
}

void model_wake(const void *address)
{
    place *p = enter(address, 4, true);
    uint32_t woken = WORLD_THREADS;
    for (uint32_t t = 0; t < here.n_threads && woken == WORLD_THREADS; t++) {
        fiber *it = &here.threads[t];
        if (it->state == THREAD_ASLEEP && it->waits_for == address &&
            !mutate_away(p, OP_WAKE, 0, ORDER_RELAXED)) {
            it->state = THREAD_READY;
            woken = t;
        }
    }
    record(p, OP_WAKE, ORDER_RELAXED, p->n - 1, p->calls++, 0, woken);
    leave(p, true);
}

void model_yield(void)
{
    threads_now()->yielded = true;
    threads_point(true);
    /* After the choice, so that the next one is distinct. */
    record(&d.places[0], OP_YIELD, ORDER_RELAXED, 0, 0, 0, 0);
}

/* A sleep that ends when no other thread can run. By then all stores are visible. */
void model_nap(const void *address, uint32_t value)
{
    threads_now()->naps = true;
    model_sleep(address, value);
    threads_now()->naps = false;
    for (uint32_t t = 0; t < here.n_threads; t++) {
        join(&threads_now()->shown, &here.threads[t].clock);
    }
}

/* All other threads make a fence now: the caller sees their stores, and they see those of the
 * caller. */
void model_barrier(void)
{
    fiber *me = threads_now();
    threads_point(true);
    uint64_t when = 0; /* a barrier commutes with no visible operation */
    for (uint32_t t = 0; t < here.n_threads; t++) {
        when = mix(when + here.threads[t].n_shared + 1);
    }
    for (uint32_t t = 0; t < here.n_threads; t++) {
        fiber *other = &here.threads[t];
        join(&me->shown, &other->clock);
        join(&other->shown, &me->clock);
    }
    me->clock.at[here.current]++;
    record(&d.places[0], OP_YIELD, ORDER_SC, when, when >> 16, 0, 0);
}

void model_join(uint32_t other)
{
    fiber *me = threads_now();
    threads_point(false);
    me->joins = other;
    while (here.threads[other].state != THREAD_DONE) {
        threads_block(THREAD_JOIN, NULL);
    }
    join(&me->clock, &here.threads[other].clock);
    record(&d.places[0], OP_JOIN, ORDER_ACQUIRE, other, 0, other, 0);
    me->clock.at[here.current]++;
}

void model_kill(uint32_t other)
{
    fiber *me = threads_now(), *it = &here.threads[other];
    threads_point(true);
    threads_end(other);
    join(&me->clock, &it->clock);
    record(&d.places[0], OP_KILL, ORDER_ACQUIRE, other, it->n_ops, other, 0);
    me->clock.at[here.current]++;
}
