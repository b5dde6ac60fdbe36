/* mutation.c - what is broken on purpose, and the scenario that notices.
 *
 * Most of it is broken in the model rather than in the sources: an order is taken for a weaker one,
 * an operation is left out, or comes late. So every order that the sources spell can be tried
 * without a switch in them. The rest are switches of src/base/mutant.h.
 */
#include "base/mutant.h"
#include "world.h"

#define LOAD (1u << OP_LOAD)
#define STORE (1u << OP_STORE)
#define SWAP (1u << OP_SWAP)
#define ADD (1u << OP_ADD)
#define CAS (1u << OP_CAS)
#define CAS_FAILED (1u << OP_CAS_FAILED)
#define WAKE (1u << OP_WAKE)

#define CODE(switch, scenario, text)                                                               \
    {                                                                                              \
#switch, text, scenario, PTOI_MUTANT_##switch, MUTATE_NOTHING, NULL, 0, NULL               \
    }

const mutation *mutation_now;

const mutation mutations[] = {
    /* ---- W1: publishing ---- */
    {"publish-early", "the inbox shows a task before its slot is written", "link", 0, MUTATE_LATE,
     "slot[*].seq|slot[*].what", STORE, "idle"},
    {"publish-relaxed", "W1: release turned relaxed", "link", 0, MUTATE_RELAX, "inbox_head", STORE,
     NULL},
    {"put-relaxed", "the same on a system without barriers", "poll-put", 0, MUTATE_RELAX,
     "inbox_head", SWAP, NULL},
    {"claim-relaxed", "W1: acquire of the reader turned relaxed", "link", 0, MUTATE_RELAX,
     "inbox_head", LOAD, NULL},
    {"claim-twice", "two workers may claim one task: the claim is not counted", "link", 0,
     MUTATE_DROP, "inbox_claimed", CAS, NULL},

    /* ---- W2: closing ---- */
    {"close-relaxed", "W2: release turned relaxed", "link", 0, MUTATE_RELAX, "state[*].waiters",
     SWAP, NULL},
    {"look-relaxed", "W2: acquire of consumers and recycling turned relaxed", "link", 0,
     MUTATE_RELAX, "state[*].waiters", LOAD, NULL},
    {"seq-relaxed", "slot.seq read without acquire", "window", 0, MUTATE_RELAX, "slot[*].seq", LOAD,
     NULL},
    {"seq-not-released", "slot.seq written without release", "window", 0, MUTATE_RELAX,
     "slot[*].seq", STORE, NULL},
    CODE(NO_LAP, "window", "the state of the task before in the slot is taken for its own"),
    CODE(NO_CLOSE, "link", "joining and the look whether the list is closed are two steps"),
    CODE(NO_CHECK, "link", "completed-check skipped when linking"),
    CODE(NO_SWAP, "link", "the list is taken and closed in two steps: who joins between is lost"),

    /* ---- W3: joining ---- */
    {"join-relaxed", "W3: release turned relaxed", "link", 0, MUTATE_RELAX, "state[*].waiters", CAS,
     NULL},

    /* ---- Q1, Q2: ready queues ---- */
    {"push-relaxed", "Q1: release turned relaxed", "queue", 0, MUTATE_RELAX,
     "queue.cell[*].sequence", SWAP, NULL},
    {"pop-relaxed", "Q1 and Q2: acquire turned relaxed", "queue", 0, MUTATE_RELAX,
     "queue.cell[*].sequence", LOAD, NULL},
    {"seat-relaxed", "Q2: release turned relaxed", "queue-round", 0, MUTATE_RELAX,
     "queue.cell[*].sequence", STORE, NULL},

    /* ---- Parking ---- */
    {"wake-dropped", "whoever makes work does not look for sleepers", "wait", 0, MUTATE_DROP,
     "idle", LOAD, NULL},
    {"wake-lost", "a sleeper is marked awake and not woken", "park", 0, MUTATE_DROP,
     "parker[*].state", WAKE, NULL},
    {"announce-late", "a worker announces its sleep after its last look", "poll", 0, MUTATE_LATE,
     "idle|worker[*].state", ADD | SWAP, "worker[*].parks"},
    {"scheduler-announces-late", "so does the scheduler's thread", "wait-thread", 0, MUTATE_LATE,
     "resting|scheduler.state", ADD | SWAP, "scheduler.parks"},
    CODE(NO_BARRIER, "poll", "the sleeper makes no barrier before its last look"),
    CODE(NO_NAP, "poll-refused", "the sleeper whose barrier was refused sleeps for good"),
    {"idle-weak", "the sleeper's announcement is no longer sequentially consistent", "poll", 0,
     MUTATE_WEAKEN, "idle", ADD, NULL},
    {"work-weak", "nor is what it looks at last: the inbox", "poll", 0, MUTATE_WEAKEN, "inbox_head",
     SWAP, NULL},
    {"ready-weak", "or the ready queue", "types", 0, MUTATE_WEAKEN,
     "ready[*].sequence|cube[*].sequence", SWAP, NULL},
    {"done-weak", "or the queue of the scheduler's thread", "wait-thread", 0, MUTATE_WEAKEN,
     "done[*].sequence", SWAP, NULL},
    {"resting-weak", "or that the scheduler's thread rests", "wait-thread", 0, MUTATE_WEAKEN,
     "resting", ADD, NULL},
    {"awaited-weak", "or what the orchestrating thread waits for", "wait", 0, MUTATE_WEAKEN,
     "awaited", SWAP, NULL},
    {"close-weak", "or that a task is complete", "wait", 0, MUTATE_WEAKEN, "state[*].waiters", SWAP,
     NULL},
    {"stop-weak", "or that the threads shall end", "end", 0, MUTATE_WEAKEN, "stop", SWAP, NULL},

    /* ---- Pending tasks ---- */
    {"guests-not-counted", "destroy does not wait for threads inside of pto_task_complete",
     "pending", 0, MUTATE_DROP, "guests", ADD, NULL},
    {"guests-relaxed", "it waits, and does not synchronise with them", "pending", 0, MUTATE_RELAX,
     "guests", ADD, NULL},
    {"phase-relaxed", "pto_task_complete and the kernel's return do not synchronise", "pending", 0,
     MUTATE_RELAX, "state[*].phase", CAS, NULL},
    {"phase-dropped", "pto_task_complete is not remembered", "pending", 0, MUTATE_DROP,
     "state[*].phase", CAS, NULL},

    /* ---- Statistics ---- */
    {"tally-relaxed", "completions are counted without release: more than were submitted", "stats",
     0, MUTATE_RELAX, "worker[*].completed", STORE, NULL},

    /* ---- Order and lifetime ---- */
    CODE(NO_RAW, "link", "a read does not wait for the writer"),
    CODE(NO_WAR, "order", "a write does not wait for readers"),
    CODE(NO_WAW, "order", "a write does not wait for the writer before it"),
    CODE(NO_SCOPE_REF, "held", "memory is recycled although its scope is open"),
    CODE(SCOPE_TWICE, "nested", "a scope reference given back twice"),
    CODE(NO_LIFETIME, "lifetime", "memory is recycled although a task still uses it"),
    CODE(HEAP_EARLY, "blocks", "the tail of the heap one task too far"),
    CODE(DEPS_EARLY, "edges", "edges used again one task too early"),
    CODE(COVER_EARLY, "covered", "an access dropped that a write does not cover"),
    {0},
};
