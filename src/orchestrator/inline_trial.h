/* inline_trial.h - decides by trial where tasks with medium kernels run. Orchestrator's side.
 *
 * Whether it pays to offload a task of 50 ns to 2 us depends on the program: how many tasks can run at a
 * time, how often a chain of them changes cores, how far apart the cores are, and how many there are. No
 * count of tasks says so: those that wait may all wait for one another. So the modes are tried in turn, and
 * the one in which tasks complete fastest stays for a while.
 *
 *     try each mode twice ──> keep the best ──> for 8,192 tasks, later 262,144 ──> try the others again
 *                                 │                                                       ^
 *                                 └── the tasks take longer than before, or less long ────┘
 *
 * A trial measures PTOI_TRIAL tasks of all levels, since a program may change levels every few tasks. It begins
 * when as many tasks are complete as were submitted before it, and PTOI_TRIAL more: workers may have to wake up
 * first. If it, or what comes before it, takes far longer than in the best mode, it ends there: the mode is
 * worse, and trying it has cost little. In the first round the better of two trials counts: an interrupt or a
 * pause of the program spoils one, but rarely both.
 */
#ifndef PTOI_INLINE_TRIAL_H
#define PTOI_INLINE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define PTOI_TRIAL 256             /* tasks */
#define PTOI_TRIAL_LOOK 32         /* tasks between two looks: as often as they are retired */
#define PTOI_TRIAL_KEEP (1u << 13) /* tasks between two rounds of trials, at first */
#define PTOI_TRIAL_DOUBLES 5       /* how often that number is doubled */
#define PTOI_TRIAL_WATCH 1024      /* tasks between two looks while a mode is kept */
#define PTOI_TRIAL_ODD 4           /* looks in a row that must find a change */

/* How submit treats tasks with medium kernels. */
enum {
    PTOI_MODE_MIXED, /* runs one itself while workers have many to claim */
    PTOI_MODE_ALL,   /* runs them itself, like short ones */
    PTOI_MODE_NONE,  /* offloads all */
    PTOI_MODES
};

typedef struct ptoi_trial {
    uint32_t mode;  /* in effect */
    uint32_t best;  /* the winner of the last round */
    uint32_t tries; /* begun in this round; 0: between two rounds */
    uint32_t kept;  /* rounds that the winner has won in a row, up to PTOI_TRIAL_DOUBLES */
    bool known;     /* there was a round */
    uint64_t at;    /* the order at which to look; UINT64_MAX: never */

    /* a trial */
    bool began;
    uint64_t from;             /* the first task that was submitted in this mode */
    uint64_t since;            /* ticks: when the mode was set; when it began; the last look */
    uint64_t done;             /* complete tasks at that time */
    uint64_t cost[PTOI_MODES]; /* ticks for PTOI_TRIAL tasks; UINT64_MAX: more than the best */

    /* between two rounds */
    uint64_t settled, until; /* the order at which it began; at which it ends */
    uint64_t usual;          /* cost, as first seen; 0: not yet */
    uint32_t odd;            /* looks in a row that found another cost */
} ptoi_trial;

/* What a look sees. */
typedef struct ptoi_trial_sight {
    uint64_t ticks;
    uint64_t order; /* tasks submitted, on all levels */
    uint64_t
        completed; /* of these; on each level, those that an unfinished one is before do not count */
} ptoi_trial_sight;

/* Ends a trial, or begins one, if it is time. Call it when order >= t->at. t->mode is what submit does from
 * here on. */
void ptoi_trial_look(ptoi_trial *t, const ptoi_trial_sight *now);

#endif /* PTOI_INLINE_TRIAL_H */
