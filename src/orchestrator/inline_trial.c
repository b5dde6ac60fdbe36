/* inline_trial.c - decides by trial where tasks with medium kernels run. Orchestrator's side.
 *
 * Whether it pays to offload a task of 50 ns to 2 us depends on the program: how many tasks can run at a time,
 * how often a chain of them changes cores, how far apart the cores are, and how many there are. No count of
 * tasks says so: those that wait may all wait for one another. So the modes are tried in turn, and the one in
 * which tasks complete fastest stays for a while.
 *
 *     try each mode twice ──> keep the best ──> for 8,192 tasks, later 65,536 ──> try the others again
 *
 * A trial begins when all tasks that were submitted before it are complete, so that it measures its own tasks
 * only. It ends when TRIAL tasks are complete, or when it has taken longer than the best one by a tenth: then
 * the mode is worse, and trying it has cost little. The first trials of a mode count twice, the better one
 * wins: an interrupt or a pause of the program spoils a trial, but rarely two.
 */
#include "orchestrator/inline.h"

#include "observe/log.h"

#define TRIAL 256         /* tasks */
#define TRIES 2           /* of each mode, the first time */
#define LOOK_EVERY 32     /* tasks: as often as they are retired */
#define KEEP (32 * TRIAL) /* tasks between two rounds of trials, at first */
#define KEEP_DOUBLES 3
#define UNKNOWN UINT64_MAX

/* Costs are in ticks for TRIAL tasks. */
static uint64_t cost_of(uint64_t ticks, uint64_t tasks)
{
    return (uint64_t)((double)ticks * TRIAL / (double)tasks);
}

/* Starts to measure a mode. Tasks from here on are its own. */
static void begin(pto_runtime *rt, uint32_t mode)
{
    ptoi_trial *t = &rt->inlining.trial;
    t->mode = mode;
    t->level = rt->level;
    t->from = rt->ring->head;
    t->began = 0;
    if (mode == PTOI_MODE_ALL) { /* tasks of other modes are in the way */
        rt->inlining.catch_at = rt->order;
        rt->inlining.patience = rt->inlining.least;
    }
}

/* Ends a round: the best mode stays. A little better is not better: each change costs. */
static void settle(pto_runtime *rt)
{
    ptoi_trial *t = &rt->inlining.trial;
    uint32_t best = t->best;
    for (uint32_t mode = 0; mode < PTOI_MODES; mode++) {
        if (t->cost[mode] < t->cost[best] - t->cost[t->best] / 16) {
            best = mode;
        }
    }
    t->kept = best == t->best ? t->kept + (t->kept < KEEP_DOUBLES) : 0;
    t->best = t->mode = best;
    t->tries = 0;
    t->at = rt->order + ((uint64_t)KEEP << t->kept);
    if (best == PTOI_MODE_ALL) {
        rt->inlining.catch_at = rt->order;
    }
}

/* The mode of try number `n` of a round: first the one that was best. */
static uint32_t mode_of(const ptoi_trial *t, uint32_t n)
{
    return (t->best + n) % PTOI_MODES;
}

/* Begins the next try of this round, or ends the round. */
static void proceed(pto_runtime *rt)
{
    ptoi_trial *t = &rt->inlining.trial;
    const uint32_t all = t->known ? PTOI_MODES : TRIES * PTOI_MODES;
    t->at = rt->order + LOOK_EVERY;
    if (t->tries == all) {
        t->known = true;
        settle(rt);
        return;
    }
    if (t->tries < PTOI_MODES) {
        t->cost[mode_of(t, t->tries)] = UNKNOWN;
    }
    begin(rt, mode_of(t, t->tries++));
}

void ptoi_inline_look(pto_runtime *rt)
{
    ptoi_trial *t = &rt->inlining.trial;
    const ptoi_rings *rings = rt->ring;
    t->at = rt->order + LOOK_EVERY;
    if (t->tries == 0) {
        proceed(rt);
        return;
    }
    if (t->level != rt->level) {
        begin(rt, t->mode); /* numbers of another level mean nothing here */
        return;
    }
    const uint64_t now = ptoi_ticks();
    if (!t->began) {
        if (rings->completed >= t->from) {
            t->began = now;
            t->done = rings->completed;
        }
        return;
    }
    const uint64_t took = now - t->began, n = rings->completed - t->done;
    const uint64_t best = t->cost[t->best];
    if (n >= TRIAL) {
        const uint64_t cost = cost_of(took, n);
        t->cost[t->mode] = cost < t->cost[t->mode] ? cost : t->cost[t->mode];
        proceed(rt);
    } else if (t->mode != t->best && best != UNKNOWN && took > best + best / 10) {
        proceed(rt); /* worse, whatever it will be */
    }
}
