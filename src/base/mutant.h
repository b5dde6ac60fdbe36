/* mutant.h - switches that each break one thing, to prove that the tests would notice.
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
    X(NO_WAW, "a write does not wait for the writer before it")                                    \
    X(NO_CLOSE, "a consumer joins the list of a producer without looking whether it is closed")    \
    X(NO_CHECK, "a consumer joins the list of a producer that is complete")                        \
    X(NO_SWAP, "a list is closed and taken in two steps")                                          \
    X(NO_LAP, "the list of the task that was in the slot before is taken for that of the next")    \
    X(NO_SCOPE_REF, "memory is recycled although its scope is open")                               \
    X(SCOPE_TWICE, "a scope inside of another gives back the reference of that one, too")          \
    X(NO_LIFETIME, "memory is recycled although a task still uses it")                             \
    X(HEAP_EARLY, "memory is recycled one task too far")                                           \
    X(DEPS_EARLY, "edges are used again while the next task still needs them")                     \
    X(COVER_EARLY, "an access is forgotten when a write only overlaps it")                         \
    X(INLINE, "submit runs a task itself although it has to wait for another one")                 \
    X(NO_BARRIER, "a sleeper does not make the barrier that those who only tell rely on")          \
    X(NO_NAP, "a sleeper whose barrier was refused sleeps as if it had been made")

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
