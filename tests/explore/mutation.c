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

bool mutation_needs_orders(const mutation *m)
{
    return m->code == PTOI_MUTANT_NO_FENCES || m->code == PTOI_MUTANT_NO_FAR_FENCES;
}

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

    /* ---- L1: one looks for all ---- */
    {"look-relaxed", "L1: release turned relaxed", "look", 0, MUTATE_RELAX, "look.seen", STORE,
     NULL},
    {"seen-relaxed", "L1: acquire turned relaxed", "look", 0, MUTATE_RELAX, "look.seen", LOAD,
     NULL},
    {"look-head-relaxed", "W1: acquire of the worker that looks turned relaxed", "look", 0,
     MUTATE_RELAX, "inbox_head", LOAD, NULL},

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

    /* ---- Pending copies ---- */
    CODE(COPY_EARLY, "copy", "the task of a copy is complete once the copy has begun"),
    CODE(COPY_LOST, "copy-bad", "the failure of a copy is lost"),
    {"copy-relaxed", "the end of a copy and the return of its kernel do not synchronize", "copy", 0,
     MUTATE_RELAX, "state[*].phase", CAS, NULL},
    {"copy-guests", "destroy does not wait for the thread that ends a copy", "copy", 0, MUTATE_DROP,
     "guests", ADD, NULL},

    /* ---- Statistics ---- */
    {"tally-relaxed", "completions are counted without release: more are seen than submissions",
     "stats", 0, MUTATE_RELAX, "worker[*].completed", STORE, NULL},

    /* ---- W14: failures ---- */
    CODE(MARK_EARLY, "attach-inline", "W5: the mark goes before the slot is the new task's"),
    CODE(NO_MARK, "records", "W14: a record is replaced without a mark that it is being written"),

    /* ---- Deaths, W16, W17 ---- */
    CODE(NO_RUNNING, "death", "tasks whose kernel ran in a dead process run again"),
    CODE(TRUST_DEAD, "death-wake", "whom a dead thread had marked awake is not woken"),
    CODE(NO_PAUSE, "death-pause", "W17: a worker whose kernel returns goes on during a rebuild"),
    CODE(KERNEL_EARLY, "death-pause", "W17: KERNEL is stored before the task is marked running"),
    {"activity-weak", "W17: not sequentially consistent: a kernel has returned", "death-pause", 0,
     MUTATE_WEAKEN, "worker[*].activity", SWAP, NULL},
    {"guests-not-seen", "W17: threads in pto_task_complete are not counted", "death-guest", 0,
     MUTATE_DROP, "process[*].guests", ADD, NULL},
    CODE(NO_GIVE_UP, "death-queue", "a push waits for ever for a cell that a dead thread holds"),
    CODE(POST_ONCE, "death-post", "a post that a dead worker had taken is lost"),
    {"post-relaxed", "W16: a post is published without release", "death-post", 0, MUTATE_RELAX,
     "posted_head", STORE, NULL},
    CODE(KEEP_NEXT, "detach", "a worker detaches with a task that only it knows"),
    CODE(NO_FORWARD, "detach-wake", "a worker is woken for a task, and detaches; others sleep on"),

    /* ---- W18: launches ---- */
    CODE(FOLLOW_ANY, "streams", "a copy to the host runs after the launch of its producer"),
    CODE(LAUNCH_TWO_STEPS, "streams",
         "a list is marked launched in two steps: a consumer that joins in between is lost"),
    CODE(NO_STREAM_WAIT, "streams", "a stream does not wait for another one"),
    CODE(MARKER_EARLY, "streams-overwrite", "a task behind the marker is closed with it"),
    CODE(SKIP_EARLY, "streams-skip", "a skipped task is closed before the launches behind it"),
    CODE(PENDING_LAUNCHED, "streams-pend", "a pending task counts as launched"),

    /* ---- D1 to D9: a device that schedules for itself ---- */
    {"heads-relaxed", "D1: release turned relaxed", "grid", 0, MUTATE_RELAX, "heads[*]|log_head",
     STORE, NULL},
    {"moved-relaxed", "D2: release turned relaxed", "grid", 0, MUTATE_RELAX, "moved", STORE, NULL},
    {"resolved-relaxed", "D2: release of a lane turned relaxed", "grid-lanes", 0, MUTATE_RELAX,
     "resolved[*]", STORE, NULL},
    {"mirror-slot-late", "D2: a task is released before its slot is in the mirror", "grid-window",
     0, MUTATE_LATE, "mirror.slot[*].header", STORE, "moved"},
    {"ring-relaxed", "D3: release turned relaxed", "grid", 0, MUTATE_RELAX, "cell_of_ring[*]",
     STORE, NULL},
    {"ring-take-relaxed", "D3: acquire turned relaxed", "grid", 0, MUTATE_RELAX, "cell_of_ring[*]",
     LOAD, NULL},
    {"done-relaxed", "D4: release turned relaxed", "grid", 0, MUTATE_RELAX, "done_cell[*]", STORE,
     NULL},
    {"mirror-complete-relaxed", "W2 in the mirror: release turned relaxed", "grid-workers", 0,
     MUTATE_RELAX, "mirror.state[*].waiters", SWAP, NULL},
    {"mirror-join-relaxed", "W3 in the mirror: release turned relaxed", "grid-workers", 0,
     MUTATE_RELAX, "mirror.state[*].waiters", CAS, NULL},
    {"mirror-peek-relaxed", "W3 in the mirror: acquire turned relaxed", "grid-workers", 0,
     MUTATE_RELAX, "mirror.state[*].waiters", LOAD, NULL},
    {"host-ready-relaxed", "D5: release turned relaxed", "grid-host", 0, MUTATE_RELAX,
     "host_ready[*]", STORE, NULL},
    {"posted-relaxed", "D6: release turned relaxed", "grid-host", 0, MUTATE_RELAX, "posted", STORE,
     NULL},
    {"left-relaxed", "D7: lanes and workers leave without release", "grid-again", 0, MUTATE_RELAX,
     "left", ADD, NULL},
    {"asked-relaxed", "D9: release of a letter turned relaxed", "grid-letter", 0, MUTATE_RELAX,
     "asked", SWAP, NULL},
    {"answered-relaxed", "D9: release of an answer turned relaxed", "grid-letter", 0, MUTATE_RELAX,
     "answered", STORE, NULL},
    CODE(RELEASE_EARLY, "grid-layout", "D2: tasks are released whose layouts may be missing"),
    CODE(FRESH_EARLY, "grid-lanes", "D2: the entry of a slow lane is overwritten"),
    CODE(NO_LATER_LAP, "grid-late", "W2: the word of the next task of a slot counts as open"),
    CODE(WRITE_EARLY, "grid-reuse", "D4: a task is shown as complete before its list is closed"),
    CODE(PEEK_TRUSTED, "grid", "W3: a task that joined after the look at a list is lost"),
    CODE(LANE_EARLY, "grid", "D7: a lane leaves although a task was released"),
    CODE(NO_FENCES, "grid", "a device has no fences: D2, D3"),
    CODE(NO_FAR_FENCES, "grid", "a device has no fences to memory of the host: D1, D4"),
    CODE(LEAVE_EARLY, "grid-leave", "D7: workers leave although a task is ready"),
    CODE(ONE_QUEUE, "grid-types", "D7: workers of the other ring may still run"),
    CODE(HOST_POISON_LOST, "grid-host-fails",
         "D5: the host does not learn that a task is poisoned"),
    CODE(POST_GOOD, "grid-host-fails", "D6: a task of the host that has failed is posted as done"),
    CODE(CANCEL_STAYS, "grid-cancel", "W13: a grid that was cancelled stays so"),
    CODE(LOST_EARLY, "grid-lost", "tasks that the host still runs fail with the device"),
    CODE(POST_LOST, "grid-host", "D8: a post is not compared when the grid has ended"),
    CODE(LETTER_LOST, "grid-letter", "D8: a letter is not compared when the grid has ended"),
    CODE(KEEPER_BLIND, "grid-again", "W10: the keeper sleeps without a look at the inbox"),

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
