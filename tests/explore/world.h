/* world.h - a small world in which threads are coroutines and every atomic operation is a choice.
 *
 *   scenario ──> real sources, compiled with calls at every access to memory
 *                   │ atomic (hooks.c)                          │ plain
 *                   v                                           v
 *                model.c: which value is read            memory.c: is it a race?
 *                   │
 *                   v
 *                threads.c: who goes on ──asks──> search.c: which schedule is tried
 *
 * The sources are those of the library. The compiler's thread sanitizer pass puts a call before
 * each access, with the memory order that was spelled; its runtime is not linked, the functions are
 * ours. So there is no second version of the atomics that could differ from the first.
 *
 * What the memory model is
 *   - Each atomic object has a history of stores, in the order in which they were executed. A load
 *     may read the newest, or an older one, unless one that overwrites it happens before the load,
 *     or was read or written by a thread before something that happens before the load (coherence).
 *     Happens-before is kept as vector clocks.
 *   - acquire joins the clock of the release that it reads from; a read-modify-write reads the
 *     newest and continues the release sequence of what it replaces. (A later relaxed store of the
 *     same thread does not continue it: as in C++20, which is weaker than C11.)
 *   - A barrier (ptoi_os_barrier) shows the caller all stores that were executed, and all others those
 *     that the caller has executed or knows of; it orders nothing else.
 *   - Sequentially consistent operations take their order from the execution. Such a load does not
 *     read behind the last such store to the object.
 *   - Compare-and-swap may fail by an older value, too, and never for no reason (it is `strong`).
 *   - Plain accesses read the newest value; two of them (one a write) that no happens-before orders
 *     are a failure, and so is memory given back that is used, before or after, without such order.
 *     So wherever a plain access might read anything else the schedule fails already.
 *   - Thread creation, join and mutexes are edges. Sleeping compares with the newest value.
 *   - Whoever waits in a loop lets others go on: a thread that yields, or that has checked PATIENCE
 *     times in vain, is passed over until what it checked at last is changed, or all others wait.
 * What it is not
 *   - Stores to one object are not reordered, values do not come out of thin air, and a load does
 *     not read a store that is executed later (so no load buffering). Fences are not known; the
 *     sources have none.
 *   - A history reaches back HISTORY stores.
 *   - Accesses of src/map, src/tensor, src/op and src/base, which one thread at a time uses, are
 *     not seen, but for copies. Plain accesses to an atomic object are not compared with atomic
 *     ones.
 */
#ifndef EXPLORE_WORLD_H
#define EXPLORE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_THREADS = 6, WORLD_NAME = 40 };

/* ---- For scenarios ---- */

typedef struct scenario {
    const char *name;
    const char *text;      /* what goes on, and what is checked */
    void (*prepare)(void); /* once, before the first schedule: what it leaves is where all begin */
    void (*run)(void);     /* thread 0; a schedule ends when it has, and nobody else can go on */
    bool spurious;         /* sleepers may wake for no reason */
} scenario;

extern const scenario *const scenarios[]; /* NULL ends it */

/* Memory of the world: zeroed, named in traces, and put back before each schedule. */
void *world_memory(size_t bytes);

/* Whether the system has ptoi_os_barrier, and lets it be made; set by `prepare`. */
extern bool world_has_barrier, world_makes_barrier;

/* Threads to come; then `run` waits for them. */
uint32_t world_thread(const char *name, void (*run)(void *), void *context);
void world_join(uint32_t thread);

/* What thread number `thread` is called. */
void world_name_thread(uint32_t thread, const char *name);

/* Objects at base, base + stride ...: `format` takes the number of the object if count > 1. */
void world_name(const void *base, size_t stride, uint32_t count, size_t bytes, const char *format);

#define world_check(condition)                                                                     \
    ((condition) ? (void)0 : world_fail(FAIL_CHECK, "%s:%d: %s", __FILE__, __LINE__, #condition))

/* ---- How a schedule ends ---- */

typedef enum world_ending {
    WORLD_GOOD,
    WORLD_SEEN,   /* from here on it is as one that was tried */
    FAIL_CHECK,   /* the scenario says so */
    FAIL_RACE,    /* two plain accesses, not ordered */
    FAIL_HANG,    /* everybody waits */
    FAIL_ENDLESS, /* too many steps */
    FAIL_FREED,   /* memory that was given back is used */
    FAIL_CRASH,   /* a signal */
    FAIL_MODEL,   /* something that is not modelled */
} world_ending;

_Noreturn void world_fail(world_ending how, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- Operations, as they are written down ---- */

typedef enum op_kind {
    OP_LOAD,
    OP_STORE,
    OP_SWAP,
    OP_ADD,
    OP_CAS,
    OP_CAS_FAILED,
    OP_SLEEP,
    OP_WAKE,
    OP_LOCK,
    OP_UNLOCK,
    OP_YIELD,
    OP_JOIN,
} op_kind;

typedef enum op_order {
    ORDER_RELAXED,
    ORDER_ACQUIRE,
    ORDER_RELEASE,
    ORDER_BOTH, /* acquire and release */
    ORDER_SC,
} op_order;

typedef struct op {
    uint32_t step;
    uint32_t place; /* 0: none */
    uint8_t thread, kind, order;
    uint8_t age;          /* how many stores older than the newest what it read is */
    uint64_t read, wrote; /* */
} op;

/* ---- memory.c ---- */

typedef struct world_clock {
    uint32_t at[WORLD_THREADS];
} world_clock;

void memory_open(void);
void memory_close(void);
void memory_keep(void);  /* this is where schedules begin */
void memory_reset(void); /* back to there */
void *memory_take(size_t bytes, bool watched);
void memory_give_back(void *address);
bool memory_has(const void *address);                  /* it is memory of the world */
bool memory_offset(const void *address, uint64_t *at); /* and it is watched: where it lies */
void memory_check_alive(const void *address, size_t bytes);
void memory_access(const void *address, size_t bytes, bool write); /* a plain one */

/* ---- threads.c ---- */

typedef enum thread_state {
    THREAD_READY,
    THREAD_ASLEEP,
    THREAD_LOCK,
    THREAD_JOIN,
    THREAD_DONE
} thread_state;

typedef struct fiber {
    char name[WORLD_NAME];
    void (*run)(void *);
    void *context;
    thread_state state;
    bool yielded;             /* until what it checked at last has changed */
    bool naps;                /* it sleeps no longer than others have something to do */
    const void *waits_for;    /* address of the word or lock */
    uint32_t joins;           /* thread */
    uint32_t n_ops, n_shared; /* operations; of those, on places that others use */
    const void *looks_at;
    uint32_t looks; /* since it has changed something, or what it looks at was changed */
    world_clock clock;
    world_clock shown; /* stores up to here it cannot miss, by a barrier */
} fiber;

typedef struct world {
    bool inside;  /* a scenario is being prepared or run: memory comes from the world */
    bool active;  /* a schedule is under way: accesses are checked at */
    bool learned; /* a place turned out to be shared: see search.c */
    uint32_t run; /* number of the schedule: what is older is void */
    uint32_t n_threads, current;
    uint32_t n_first; /* threads that are there from the start */
    uint32_t steps;
    uint64_t trace; /* hash of the schedule */
    uint64_t order; /* hash of what happened, whichever way independent steps were ordered */
    world_ending ending;
    char why[512];
    fiber threads[WORLD_THREADS];
} world;

extern world here;

void threads_open(void);
uint32_t threads_add(void (*run)(void *), void *context);
world_ending threads_run(void (*run)(void *), void *context); /* one schedule */
void threads_point(bool point); /* before an operation: somebody else may go first */
void threads_block(thread_state state, const void *waits_for); /* until somebody makes it ready */
void threads_stir(const void *address); /* something has changed: who yielded may look again */
_Noreturn void threads_leave(world_ending how);
uint32_t threads_candidates(uint32_t *list); /* who can go on; the present one first if it can */

static inline fiber *threads_now(void)
{
    return &here.threads[here.current];
}

/* ---- model.c ---- */

void model_open(void);
uint64_t model_load(const void *address, uint32_t bytes, op_order order);
void model_store(void *address, uint32_t bytes, uint64_t value, op_order order);
uint64_t model_change(void *address, uint32_t bytes, op_kind kind, uint64_t value, op_order order);
bool model_cas(void *address, uint32_t bytes, uint64_t *expected, uint64_t desired, op_order order,
               op_order failure);
void model_lock(void *address);
void model_unlock(void *address);
void model_nap(const void *address, uint32_t value);
void model_barrier(void);
void model_sleep(const void *address, uint32_t value);
void model_wake(const void *address);
void model_yield(void);
void model_join(uint32_t other);
void model_check_last_uses(const char *begin, size_t bytes); /* before memory is given back */
const char *model_place_name(uint32_t id);

/* All that was done in the last schedule. */
const op *model_trace(uint32_t *count);

/* ---- names.c ---- */

void name_open(void);
const char *name_at(const void *address);             /* of whatever lies there */
bool name_is(const char *text, const char *patterns); /* separated by |, with * for a number */

/* ---- search.c ---- */

uint32_t search_thread(const uint32_t *candidates, uint32_t count); /* who goes on */
uint32_t search_age(uint32_t ages);                                 /* how old a load is */
bool search_is_point(bool shared); /* whether threads may be switched at such a place */

typedef struct search_bound {
    uint32_t preemptions; /* switches away from a thread that could go on */
    uint32_t surprises;   /* loads that read older values, sleepers that wake for no reason */
} search_bound;

typedef struct search_result {
    uint64_t schedules; /* run to the end */
    uint64_t distinct;  /* of those */
    uint64_t orders;    /* distinct if independent steps are not told apart */
    uint64_t cut;       /* given up half way: the rest had been tried */
    bool complete;      /* all there are within the bound */
    bool failed;
    world_ending ending;
    uint64_t at;       /* the schedule that failed, counted from 1 */
    uint64_t seed;     /* that found it, if any */
    char why[512];     /* in words */
    char replay[4096]; /* what to give to search_replay */
} search_result;

void search_open(const scenario *it);
void search_close(void);

/* Everything: some seeds, then bounds one after the other until half of the schedules are used up,
 * then seeds again. `bound` is the last one that was completed. */
void search_all(uint64_t schedules, uint64_t seed, search_result *result, search_bound *bound);

/* Whether the exhaustive search leaves out what it can prove to be nothing new; only the test of that
 * proof sets it. */
extern bool search_reduces;

/* These add to the result, and stop at the first failure. */
void search_exhaustive(search_bound bound, uint64_t limit, search_result *result);
void search_random(uint64_t seed, uint64_t n, search_result *result);

/* Runs one schedule again: a seed, or a list as in search_result.replay. */
void search_replay(const char *which, search_result *result);

/* Leaves out of a failing schedule what it fails without. */
void search_shorten(search_result *result);

/* The last schedule, in words. */
void search_print(void);

/* ---- mutation.c: what is broken on purpose, in the model ---- */

typedef enum mutation_action {
    MUTATE_NOTHING,
    MUTATE_RELAX,  /* the operation is relaxed */
    MUTATE_WEAKEN, /* sequentially consistent becomes acquire and release */
    MUTATE_DROP,   /* the operation does not happen */
    MUTATE_LATE,   /* it happens after the next operation of the thread on `until` */
} mutation_action;

typedef struct mutation {
    const char *name; /* NULL ends a table */
    const char *text;
    const char *caught_by; /* the scenario */
    uint32_t code;         /* a switch of src/base/mutant.h; 0: none, the rest counts */
    mutation_action action;
    const char *field; /* name of the place, with * for its number */
    uint32_t kinds;    /* 1 << op_kind */
    const char *until;
} mutation;

extern const mutation mutations[];
extern const mutation *mutation_now; /* NULL: none */

#endif /* EXPLORE_WORLD_H */
