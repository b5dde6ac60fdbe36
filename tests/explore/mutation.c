/* mutation.c - the mutants of the explorer, and the scenario that must detect each.
 *
 * Most mutants change the model and not the sources: a memory order is weakened, an operation is
 * left out or delayed. So every memory order in the sources can be tested without a switch there.
 * The others are switches of src/base/mutant.h.
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
     "slot[*].seq|slot[*].header", STORE, "idle"},
    {"publish-relaxed", "W1: release turned relaxed", "link", 0, MUTATE_RELAX, "inbox_head", STORE,
     NULL},
    {"publish-sc-relaxed", "the same on a system without barriers", "poll-no-barrier", 0,
     MUTATE_RELAX, "inbox_head", SWAP, NULL},
    {"claim-relaxed", "W1: acquire of the reader turned relaxed", "link", 0, MUTATE_RELAX,
     "inbox_head", LOAD, NULL},
    {"claim-twice", "two workers may claim one task: the claim is not stored", "link", 0,
     MUTATE_DROP, "inbox_claimed", CAS, NULL},

    /* ---- W2: completion ---- */
    {"complete-relaxed", "W2: release turned relaxed", "link", 0, MUTATE_RELAX, "state[*].waiters",
     SWAP, NULL},
    {"resolve-relaxed", "W2: acquire of consumers and recycling turned relaxed", "link", 0,
     MUTATE_RELAX, "state[*].waiters", LOAD, NULL},
    {"seq-relaxed", "slot.seq read without acquire", "window", 0, MUTATE_RELAX, "slot[*].seq", LOAD,
     NULL},
    {"seq-not-released", "slot.seq written without release", "window", 0, MUTATE_RELAX,
     "slot[*].seq", STORE, NULL},
    CODE(NO_LAP, "window",
         "the state of the previous task of a slot is taken for that of the next"),
    CODE(NO_CLOSE, "link", "joining and the check whether the list is closed are two steps"),
    CODE(NO_CHECK, "link", "a consumer joins the list of a producer that is complete"),
    CODE(NO_SWAP, "link",
         "the list is taken and closed in two steps: a consumer that joins in between is lost"),

    /* ---- W3: joining ---- */
    {"join-relaxed", "W3: release turned relaxed", "link", 0, MUTATE_RELAX, "state[*].waiters", CAS,
     NULL},

    /* ---- Q1, Q2: ready queues ---- */
    {"push-relaxed", "Q1: release turned relaxed", "queue", 0, MUTATE_RELAX,
     "queue.cell[*].sequence", SWAP, NULL},
    {"pop-relaxed", "Q1 and Q2: acquire turned relaxed", "queue", 0, MUTATE_RELAX,
     "queue.cell[*].sequence", LOAD, NULL},
    {"cell-relaxed", "Q2: release turned relaxed", "queue-round", 0, MUTATE_RELAX,
     "queue.cell[*].sequence", STORE, NULL},

    /* ---- Parking ---- */
    {"wake-dropped", "a thread that makes work does not check for sleepers", "wait", 0, MUTATE_DROP,
     "idle", LOAD, NULL},
    {"wake-lost", "a sleeper is marked awake but not woken", "park", 0, MUTATE_DROP,
     "parker[*].state", WAKE, NULL},
    {"announce-late", "a worker announces its sleep after its last check for work", "poll", 0,
     MUTATE_LATE, "idle|worker[*].state", ADD | SWAP, "worker[*].parks"},
    {"scheduler-announces-late", "the same for the scheduler's thread", "wait-thread", 0,
     MUTATE_LATE, "resting|scheduler.state", ADD | SWAP, "scheduler.parks"},
    CODE(NO_BARRIER, "poll", "a sleeper makes no barrier before its last check for work"),
    CODE(NO_NAP, "poll-refused", "a sleeper whose barrier was refused does not check again"),
    {"idle-weak", "not sequentially consistent: a worker announces its sleep", "poll", 0,
     MUTATE_WEAKEN, "idle", ADD, NULL},
    {"work-weak", "not sequentially consistent: the inbox", "poll", 0, MUTATE_WEAKEN, "inbox_head",
     SWAP, NULL},
    {"ready-weak", "not sequentially consistent: a ready queue", "types", 0, MUTATE_WEAKEN,
     "ready[*].sequence|cube[*].sequence", SWAP, NULL},
    {"done-weak", "not sequentially consistent: the queue of the scheduler's thread", "wait-thread",
     0, MUTATE_WEAKEN, "done[*].sequence", SWAP, NULL},
    {"resting-weak", "not sequentially consistent: the scheduler's thread announces its sleep",
     "wait-thread", 0, MUTATE_WEAKEN, "resting", ADD, NULL},
    {"awaited-weak", "not sequentially consistent: the task that the orchestrating thread awaits",
     "wait", 0, MUTATE_WEAKEN, "awaited", SWAP, NULL},
    {"complete-weak", "not sequentially consistent: completion of a task", "wait", 0, MUTATE_WEAKEN,
     "state[*].waiters", SWAP, NULL},
    {"stop-weak", "not sequentially consistent: the request to stop", "end", 0, MUTATE_WEAKEN,
     "stop", SWAP, NULL},

    /* ---- Pending tasks ---- */
    {"guests-not-counted", "destroy does not wait for threads inside pto_task_complete", "pending",
     0, MUTATE_DROP, "guests", ADD, NULL},
    {"guests-relaxed", "destroy waits for them but does not synchronize with them", "pending", 0,
     MUTATE_RELAX, "guests", ADD, NULL},
    {"phase-relaxed", "pto_task_complete and the kernel's return do not synchronize", "pending", 0,
     MUTATE_RELAX, "state[*].phase", CAS, NULL},
    {"phase-dropped", "pto_task_complete is lost", "pending", 0, MUTATE_DROP, "state[*].phase", CAS,
     NULL},

    /* ---- Statistics ---- */
    {"tally-relaxed", "completions are counted without release: more are seen than submissions",
     "stats", 0, MUTATE_RELAX, "worker[*].completed", STORE, NULL},

    /* ---- W14: failures ---- */
    CODE(MARK_EARLY, "attach-inline", "W5: the mark goes before the slot is the new task's"),
    CODE(NO_MARK, "records", "W14: a record is replaced without a mark that it is being written"),

    /* ---- Order and lifetime ---- */
    CODE(NO_RAW, "link", "a read does not wait for the writer"),
    CODE(NO_WAR, "order", "a write does not wait for readers"),
    CODE(NO_WAW, "order", "a write does not wait for the previous writer"),
    CODE(NO_SCOPE_REF, "held", "memory is recycled although its scope is open"),
    CODE(SCOPE_TWICE, "nested", "a scope releases a reference twice"),
    CODE(NO_LIFETIME, "lifetime", "memory is recycled although a task still uses it"),
    CODE(HEAP_EARLY, "blocks", "memory is recycled one task too far"),
    CODE(DEPS_EARLY, "edges", "edges are reused while the next task still needs them"),
    CODE(COVER_EARLY, "covered", "an access is dropped when a write only overlaps it"),
    {0},
};
