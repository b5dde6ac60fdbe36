/* mutant.h - switches that each break one thing, to prove that the tests detect it.
 *
 * Only the library for the mutant tests (built with PTO_MUTANTS) has them. Everywhere else
 * PTOI_MUTANT(...) is the constant 0 and compiles to nothing.
 */
#ifndef PTOI_MUTANT_H
#define PTOI_MUTANT_H

/* X(name, what is broken) */
#define PTOI_MUTANT_MAP(X)                                                                         \
    X(NO_RAW, "a read does not wait for the writer")                                               \
    X(NO_WAR, "a write does not wait for readers")                                                 \
    X(NO_WAW, "a write does not wait for the previous writer")                                     \
    X(NO_CLOSE, "a consumer joins the list of a producer without a check whether it is closed")    \
    X(NO_CHECK, "a consumer joins the list of a producer that is complete")                        \
    X(NO_SWAP, "a list is closed and taken in two steps")                                          \
    X(NO_LAP, "the list of the previous task of a slot is taken for that of the next")             \
    X(NO_SCOPE_REF, "memory is recycled although its scope is open")                               \
    X(SCOPE_TWICE, "a nested scope also releases the reference of the scope around it")            \
    X(NO_LIFETIME, "memory is recycled although a task still uses it")                             \
    X(HEAP_EARLY, "memory is recycled one task too far")                                           \
    X(DEPS_EARLY, "edges are reused while the next task still needs them")                         \
    X(COVER_EARLY, "an access is dropped when a write only overlaps it")                           \
    X(GROW_TABLES, "hash tables are not filled anew when they grow")                               \
    X(GROW_IN_PLACE, "entries stay where they are when their ring grows")                          \
    X(INLINE, "submit runs a task inline although it has to wait for another one")                 \
    X(INLINE_LINKS, "the same if the other task uses memory that only overlaps")                   \
    X(FIRST_USE, "the same if the task uses a view that the map does not know")                    \
    X(FAST_AFTER, "a task on the fast path does not wait for the tasks that it comes after")       \
    X(FAST_LINKS, "a task does not wait for the writer of memory that only overlaps")              \
    X(MANY_EDGES, "of the edges of a task with many parameters, one is lost")                      \
    X(NO_BARRIER, "a sleeper does not make the barrier that asymmetric stores rely on")            \
    X(MARK_EARLY, "a reused slot loses the mark of its old task before it is the new task's")      \
    X(NO_MARK, "a failure is replaced without a mark that it is being written")                    \
    X(TRUST_DEAD, "a thread that died is trusted to have woken whom it marked awake")              \
    X(NO_RUNNING, "a rebuild does not look whether the kernel of a task was called")               \
    X(NO_PAUSE, "a worker does not pause when its kernel returns")                                 \
    X(KERNEL_EARLY, "a worker says that it is in a kernel before its task is marked running")      \
    X(NO_GIVE_UP, "a push waits for a cell that a dead thread holds, although a rebuild is near")  \
    X(COPY_EARLY, "the task of a copy is complete once the copy has begun")                        \
    X(COPY_LOST, "the failure of a copy is lost")                                                  \
    X(POST_ONCE, "a post that a dead worker had taken is not posted again")                        \
    X(KEEP_NEXT, "a worker that detaches keeps its next task")                                     \
    X(NO_FORWARD, "a worker that detaches does not pass on the wake-up that it got")               \
    X(NO_NAP, "a sleeper whose barrier was refused sleeps without checking again")                 \
    X(FOLLOW_ANY, "a task of another device runs after the launch of its producer")                \
    X(LAUNCH_TWO_STEPS, "a list is marked launched and taken in two steps")                        \
    X(NO_STREAM_WAIT, "a stream does not wait for the producer on another stream")                 \
    X(MARKER_EARLY, "a marker stands for the launch after it, too")                                \
    X(SKIP_EARLY, "a skipped task is complete before the launched tasks that it waits for")        \
    X(PENDING_LAUNCHED, "a task whose kernel is pending counts as launched")                       \
    X(RELEASE_EARLY, "a device releases tasks whose layouts it may not have copied yet")           \
    X(NO_LATER_LAP, "a task waits for a producer whose slot has its next task already")            \
    X(WRITE_EARLY, "a device shows a task as complete before its list is closed")                  \
    X(PEEK_TRUSTED, "a worker goes on with the task that it saw in a list, whatever joined since") \
    X(FRESH_EARLY, "a device overwrites the number of a task that a slow lane has not read")       \
    X(LANE_EARLY, "a lane reads whether the grid ends after how many tasks there are")             \
    X(LEAVE_EARLY, "a grid compares the tickets of its workers with an older count of tasks")      \
    X(ONE_QUEUE, "a grid looks at the first ready ring only whether all workers wait")             \
    X(NO_FENCES, "code of a device has no fences where loads and stores rely on them")             \
    X(NO_FAR_FENCES, "the same for memory of the host")                                            \
    X(LOST_EARLY, "a device is lost, and tasks that the host still runs fail at once")             \
    X(HOST_POISON_LOST, "a grid does not tell the host that a task is poisoned")                   \
    X(POST_GOOD, "the keeper posts a task of the host that has failed as done")                    \
    X(CANCEL_STAYS, "a grid that was cancelled stays so")                                          \
    X(POST_LOST, "a grid is not launched for a task of the host that has run")                     \
    X(LETTER_LOST, "a grid is not launched for a letter")                                          \
    X(KEEPER_BLIND, "the keeper sleeps without a look at the inbox")

typedef enum ptoi_mutant_name {
    PTOI_MUTANT_NONE,
#define PTOI_MUTANT_ENUM(name, text) PTOI_MUTANT_##name,
    PTOI_MUTANT_MAP(PTOI_MUTANT_ENUM)
#undef PTOI_MUTANT_ENUM
        PTOI_MUTANT_COUNT
} ptoi_mutant_name;

#ifdef PTO_MUTANTS
extern ptoi_mutant_name ptoi_mutant; /* set before a runtime is created */
#define PTOI_MUTANT(name) (ptoi_mutant == PTOI_MUTANT_##name)
#else
#define PTOI_MUTANT(name) 0
#endif

#endif /* PTOI_MUTANT_H */
