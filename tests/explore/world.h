/* world.h - a small world in which threads are coroutines and every atomic operation is a choice.
 *
 *   scenario ──> real sources, compiled with calls at every access to memory
 *                   │ atomic (hooks.c)                          │ plain
 *                   v                                           v
 *                model.c: which value is read            memory.c: is it a race?
 *                   │
 *                   v
 *                threads.c: who runs next ─asks─> search.c: which schedule is tried
 *
 * The sources are those of the library. The compiler's thread sanitizer pass puts a call before
 * each access, with the memory order of the source. Its runtime is not linked; hooks.c has these
 * functions. So there is no second version of the atomics that could differ from the first.
 *
 * The memory model
 *   - Each atomic object has a history of stores, in the order in which they were executed. A load
 *     may read the newest, or an older one, unless one that overwrites it happens before the load,
 *     or was read or written by a thread before something that happens before the load (coherence).
 *     Happens-before is kept as vector clocks.
 *   - acquire joins the clock of the release that it reads from; a read-modify-write reads the
 *     newest and continues the release sequence of what it replaces. (A later relaxed store of the
 *     same thread does not continue it: as in C++20, which is weaker than C11.)
 *   - A barrier (ptoi_os_barrier) shows the caller all executed stores, and shows all other threads
 *     those that the caller has executed or knows of; it orders nothing else.
 *   - Sequentially consistent operations take their order from the execution. Such a load does not
 *     read behind the last such store to the object.
 *   - Compare-and-swap may also fail with an older value, but never spuriously (it is `strong`).
 *   - Plain accesses read the newest value; two of them (one a write) that no happens-before orders
 *     are a failure. So is a use of memory that is not ordered with its release. So wherever a
 *     plain access might read another value, the schedule has already failed.
 *   - Thread creation, join and mutexes are edges. Sleeping compares with the newest value.
 *   - A thread that waits in a loop lets others run: after a yield, or PATIENCE checks without a
 *     change, it does not run until the object of its last check changes or all others wait.
 * Its limits
 *   - Stores to one object are not reordered, values do not come out of thin air, and a load does
 *     not read a store that is executed later (so no load buffering). Fences are those of
 *     ptoi_fence, acquire and release; nothing orders two of them but what threads load and store.
 *   - A history reaches back HISTORY stores.
 *   - Accesses in src/orchestrator/map, src/tensor, src/op and src/base, which one thread at a time
 *     uses, are not checked, except for copies. Plain accesses to an atomic object are not compared
 *     with atomic ones.
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
    const char *text;      /* what happens, and what is checked */
    void (*prepare)(void); /* once; all schedules start from the state that it leaves */
    void (*run)(void);     /* thread 0; the schedule ends when no thread can run */
    bool spurious;         /* sleepers may wake spuriously */
} scenario;

extern const scenario *const scenarios[]; /* NULL ends it */

/* Memory of the world: zeroed, named in traces, and restored before each schedule. */
void *world_memory(size_t bytes);

/* Whether code of a device has the memory orders that it has there (base/atomic.h). Set before a scenario is
 * opened. */
extern bool explore_device_orders;

/* Whether the system has ptoi_os_barrier, and permits it; set by `prepare`. */
extern bool world_has_barrier, world_makes_barrier;

/* Starts threads; then `run` waits for them. */
uint32_t world_thread(const char *name, void (*run)(void *), void *context);
void world_join(uint32_t thread);

/* Ends a thread where it stands, like a signal that kills its process: what it has executed is
 * visible to the caller, and nothing follows. The search chooses when the caller runs, so it also
 * chooses where the other one stands. */
void world_kill(uint32_t thread);

/* Names thread number `thread`. */
void world_name_thread(uint32_t thread, const char *name);

/* Objects at base, base + stride ...: `format` takes the number of the object if count > 1. */
void world_name(const void *base, size_t stride, uint32_t count, size_t bytes, const char *format);

#define world_check(condition)                                                                     \
    ((condition) ? (void)0 : world_fail(FAIL_CHECK, "%s:%d: %s", __FILE__, __LINE__, #condition))

/* ---- How a schedule ends ---- */

typedef enum world_ending {
    WORLD_GOOD,
    WORLD_SEEN,   /* the rest is equivalent to a schedule that was tried */
    FAIL_CHECK,   /* a check of the scenario failed */
    FAIL_RACE,    /* two plain accesses, not ordered */
    FAIL_HANG,    /* all threads wait */
    FAIL_ENDLESS, /* too many steps */
    FAIL_FREED,   /* use of freed memory */
    FAIL_CRASH,   /* a signal */
    FAIL_MODEL,   /* something that is not modelled */
} world_ending;

_Noreturn void world_fail(world_ending how, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- Operations, as they are recorded ---- */

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
    OP_KILL,
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
    uint8_t age;          /* number of stores after the one that it read */
    uint64_t read, wrote; /* */
} op;

/* ---- memory.c ---- */

typedef struct world_clock {
    uint32_t at[WORLD_THREADS];
} world_clock;

void memory_open(void);
void memory_close(void);
void memory_keep(void);  /* saves the state in which schedules begin */
void memory_reset(void); /* restores it */
void *memory_take(size_t bytes, bool watched);
void memory_give_back(void *address);
bool memory_has(const void *address);                  /* whether it is memory of the world */
bool memory_offset(const void *address, uint64_t *at); /* whether it is also checked for races */
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
    bool yielded;             /* until the object of its last check has changed */
    bool naps;                /* it sleeps until no other thread can run */
    const void *waits_for;    /* address of the word or lock */
    uint32_t joins;           /* thread */
    uint32_t n_ops, n_shared; /* operations; of these, on shared objects */
    const void *looks_at;
    uint32_t looks; /* since it changed something, or what it checks was changed */
    world_clock clock;
    world_clock pending; /* of relaxed loads: a fence acquires it */
    world_clock fenced;  /* at its last fence: relaxed stores release it */
    world_clock shown;   /* after a barrier, stores up to here are visible to it */
} fiber;

typedef struct world {
    bool inside;  /* a scenario is prepared or run: allocations come from the world */
    bool active;  /* a schedule runs: accesses are checked */
    bool learned; /* an object turned out to be shared: see search.c */
    uint32_t run; /* number of the schedule: older data is void */
    uint32_t n_threads, current;
    uint32_t n_first; /* threads that exist from the start */
    uint32_t steps;
    uint64_t trace; /* hash of the schedule */
    uint64_t order; /* hash of the operations, regardless of the order of independent ones */
    world_ending ending;
    char why[512];
    fiber threads[WORLD_THREADS];
} world;

extern world here;

void threads_open(void);
uint32_t threads_add(void (*run)(void *), void *context);
world_ending threads_run(void (*run)(void *), void *context); /* one schedule */
void threads_point(bool point); /* before an operation: another thread may run first */
void threads_block(thread_state state, const void *waits_for); /* until made ready */
void threads_end(uint32_t thread);      /* it has ended: those that join it can go on */
void threads_stir(const void *address); /* wakes threads that yielded */
_Noreturn void threads_leave(world_ending how);
uint32_t threads_candidates(uint32_t *list); /* can run; the current one first */

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
void model_fence(void);
void model_sleep(const void *address, uint32_t value);
void model_wake(const void *address);
void model_yield(void);
void model_join(uint32_t other);
void model_kill(uint32_t other);
void model_check_last_uses(const char *begin, size_t bytes); /* before memory is freed */
const char *model_place_name(uint32_t id);

/* All operations of the last schedule. */
const op *model_trace(uint32_t *count);

/* ---- names.c ---- */

void name_open(void);
const char *name_at(const void *address);             /* of the object there */
bool name_is(const char *text, const char *patterns); /* separated by |, with * for a number */

/* ---- search.c ---- */

uint32_t search_thread(const uint32_t *candidates, uint32_t count); /* which thread runs next */
uint32_t search_age(uint32_t ages);                                 /* how old a load is */
bool search_is_point(bool shared); /* whether threads may be switched at such an object */

typedef struct search_bound {
    uint32_t preemptions; /* switches away from a thread that could continue */
    uint32_t surprises;   /* loads that read older values, sleepers that wake spuriously */
} search_bound;

typedef struct search_result {
    uint64_t schedules; /* run to the end */
    uint64_t distinct;  /* of those */
    uint64_t orders;    /* distinct, regardless of the order of independent steps */
    uint64_t cut;       /* abandoned halfway: the rest had been tried */
    bool complete;      /* all schedules within the bound were tried */
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

/* Whether the exhaustive search uses its reductions; only the test of the reductions sets it. */
extern bool search_reduces;

/* These add to the result, and stop at the first failure. */
void search_exhaustive(search_bound bound, uint64_t limit, search_result *result);
void search_random(uint64_t seed, uint64_t n, search_result *result);

/* Runs one schedule again: a seed, or a list as in search_result.replay. */
void search_replay(const char *which, search_result *result);

/* Removes changes from a failing schedule as long as it still fails. */
void search_shorten(search_result *result);

/* Prints the last schedule. */
void search_print(void);

/* ---- mutation.c: mutants in the model ---- */

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

/* Whether only explore_device_orders shows it. */
bool mutation_needs_orders(const mutation *m);
extern const mutation *mutation_now; /* NULL: none */

#endif /* EXPLORE_WORLD_H */
