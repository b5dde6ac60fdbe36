#include "orchestrator/inline_trial.h"

#define TRIES 2 /* of each mode, in the first round */

/* From here on time and tasks count. */
static void mark(ptoi_trial *t, const ptoi_trial_sight *now)
{
    t->since = now->ticks;
    t->done = now->completed;
}

static uint64_t cost_since(const ptoi_trial *t, const ptoi_trial_sight *now)
{
    return (uint64_t)((double)(now->ticks - t->since) * PTOI_TRIAL /
                      (double)(now->completed - t->done));
}

/* Sets the mode of a trial. Tasks from here on are its own. */
static void begin(ptoi_trial *t, const ptoi_trial_sight *now, uint32_t mode)
{
    t->mode = mode;
    t->from = now->order;
    t->began = false;
    mark(t, now);
}

/* Ends a round: the best mode stays. A little better is not better, since each change costs. */
static void settle(ptoi_trial *t, const ptoi_trial_sight *now)
{
    uint32_t best = t->best;
    const uint64_t margin = t->cost[best] / 16;
    for (uint32_t mode = 0; mode < PTOI_MODES; mode++) {
        if (mode != t->best && t->cost[mode] < t->cost[best] - (best == t->best ? margin : 0)) {
            best = mode;
        }
    }
    t->kept = !t->known || best != t->best ? 0 : t->kept + (t->kept < PTOI_TRIAL_DOUBLES);
    t->best = t->mode = best;
    t->known = true;
    t->tries = 0;
    t->settled = now->order;
    t->until = now->order + ((uint64_t)PTOI_TRIAL_KEEP << t->kept);
    t->usual = 0;
    t->odd = 0;
    t->at = now->order + PTOI_TRIAL_WATCH;
    mark(t, now);
}

/* Begins the next trial of this round, or ends the round. The mode that was best comes first: the others are
 * compared with what it costs now. */
static void proceed(ptoi_trial *t, const ptoi_trial_sight *now)
{
    const uint32_t mode = (t->best + t->tries) % PTOI_MODES;
    if (t->tries == (t->known ? 1 : TRIES) * PTOI_MODES) {
        settle(t, now);
        return;
    }
    if (t->tries < PTOI_MODES) {
        t->cost[mode] = UINT64_MAX;
    }
    t->tries++;
    begin(t, now, mode);
}

/* Whether the trial has taken more than `times` what so many tasks cost in the best mode. */
static bool is_worse(const ptoi_trial *t, const ptoi_trial_sight *now, double times, uint64_t tasks)
{
    const uint64_t best = t->cost[t->best];
    return t->mode != t->best && best != UINT64_MAX &&
           (double)(now->ticks - t->since) > times * (double)best * (double)tasks / PTOI_TRIAL;
}

/* A trial is under way. */
static void measure(ptoi_trial *t, const ptoi_trial_sight *now)
{
    if (!t->began) {
        const uint64_t first = t->from + PTOI_TRIAL;
        if (now->completed >= first) {
            t->began = true;
            mark(t, now);
        } else if (is_worse(t, now, 2, first - t->done)) {
            proceed(t, now);
        }
    } else if (now->completed - t->done >= PTOI_TRIAL) {
        const uint64_t cost = cost_since(t, now);
        t->cost[t->mode] = cost < t->cost[t->mode] ? cost : t->cost[t->mode];
        proceed(t, now);
    } else if (is_worse(t, now, 1.1, PTOI_TRIAL)) {
        proceed(t, now); /* however long it would take */
    }
}

/* The best mode is kept. */
static void watch(ptoi_trial *t, const ptoi_trial_sight *now)
{
    t->at = now->order + PTOI_TRIAL_WATCH;
    if (now->order >= t->until) {
        proceed(t, now);
        t->at = now->order + PTOI_TRIAL_LOOK;
        return;
    }
    if (now->completed - t->done < PTOI_TRIAL) {
        return; /* the next look has more to go by */
    }
    const uint64_t cost = cost_since(t, now);
    mark(t, now);
    if (!t->usual) {
        t->usual = cost;
        return;
    }
    const bool odd = cost > t->usual + t->usual / 2 || t->usual > cost + cost / 2;
    t->odd = odd ? t->odd + 1 : 0;
    if (t->odd >= PTOI_TRIAL_ODD && now->order - t->settled >= PTOI_TRIAL_KEEP) {
        t->until = now->order;
    }
}

void ptoi_trial_look(ptoi_trial *t, const ptoi_trial_sight *now)
{
    t->at = now->order + PTOI_TRIAL_LOOK;
    if (t->tries) {
        measure(t, now);
    } else if (t->known) {
        watch(t, now);
    } else {
        proceed(t, now);
    }
}
