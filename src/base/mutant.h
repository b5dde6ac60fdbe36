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
    X(INLINE, "submit runs a task inline although it has to wait for another one")                 \
    X(NO_BARRIER, "a sleeper does not make the barrier that asymmetric stores rely on")            \
    X(MARK_EARLY, "a reused slot loses the mark of its old task before it is the new task's")      \
    X(NO_MARK, "a failure is replaced without a mark that it is being written")                    \
    X(NO_NAP, "a sleeper whose barrier was refused sleeps without checking again")

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
