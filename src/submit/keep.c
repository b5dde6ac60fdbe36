/* keep.c - tasks that are shorter than handing them to another thread.
 *
 * A task that another thread runs costs a few lines of cache which go there and come back: as long as
 * it takes to run a kernel of some 50 ns, or of 200 if the two cores are far apart. So kernels are
 * timed now and then, by whoever runs them (exec/worker.c), and as long as all that comes is brief,
 * the orchestrating thread keeps it: whenever submit looks what has become of tasks (submit.c), it
 * runs those that have come together since.
 *
 * Workers would take them before. `kept` asks them not to, and it is no more than that:
 *
 *   - A worker looks every PTOI_KEPT_NS. If there are tasks, and none has come and none was claimed
 *     since its last look, it takes them, and takes `kept` back. So the orchestrating thread may
 *     be doing anything: no task waits for longer than two looks.
 *   - What is not known to be brief is not run here but offered, and `kept` ends.
 *   - Tasks that come slowly are not kept: nobody gains by it, and they would wait.
 *
 * Each time that it turns out not to have been worth it, it is not tried for twice as many tasks as
 * the time before.
 */
#include "submit/keep.h"

#include "submit/runtime.h"

#define BRIEF_NS 50        /* a kernel, with the time that it takes to read the clock */
#define PACE_NS 500        /* a submit: tasks that come more slowly are not kept */
#define BATCH 64           /* tasks to run at a time */
#define SLOW_NS 20000      /* for all of them together: some are not what they were */
#define PATIENCE 1024      /* tasks until it is tried again, at first */
#define MOST (1u << 20)    /* and at most */
#define CALIBRATE_NS 20000 /* to learn what a tick is */

void ptoi_keep_create(pto_runtime *rt)
{
    ptoi_keep *k = &rt->keep;
    ptoi_ticks_find_out();
    k->possible = rt->sched.place == PTO_PLACE_INLINE && !(rt->served & ~rt->caller->types);
    k->patience = PATIENCE;
    k->created_ns = ptoi_os_clock();
    k->created = k->left = ptoi_ticks();
}

/* Whether it is known by now how long a tick is. */
static bool calibrated(pto_runtime *rt, uint64_t now)
{
    ptoi_keep *k = &rt->keep;
    if (k->ticks_a_us) {
        return true;
    }
    const uint64_t ns = ptoi_os_clock() - k->created_ns;
    if (ns < CALIBRATE_NS || now <= k->created) {
        return false;
    }
    k->ticks_a_us = (now - k->created) * 1000 / ns + 1;
    ptoi_set32(&rt->sched.brief_ticks, (uint32_t)(BRIEF_NS * k->ticks_a_us / 1000 + 1));
    ptoi_set32(&rt->sched.kept_ticks, (uint32_t)(PTOI_KEPT_NS * k->ticks_a_us / 1000));
    return true;
}

/* Ends it; in vain, if it is not to be tried again soon. */
static void end(pto_runtime *rt, bool in_vain)
{
    ptoi_keep *k = &rt->keep;
    k->on = false;
    ptoi_set32(&rt->sched.kept, 0);
    if (in_vain) {
        k->not_before = rt->order + k->patience;
        k->patience = k->patience < MOST ? 2 * k->patience : MOST;
    }
}

static bool is_brief(const pto_runtime *rt, pto_task task)
{
    const ptoi_ref ref = (ptoi_ref)task << 1;
    const ptoi_slot *slot = ptoi_slot_of(&rt->view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
    return ptoi_kernel_is_brief(&rt->sched.kernels[ptoi_what_of(slot).kernel]);
}

void ptoi_keep_look(pto_runtime *rt, uint64_t tasks)
{
    ptoi_keep *k = &rt->keep;
    if (!k->possible) {
        return;
    }
    const uint64_t now = ptoi_ticks();
    const bool dense = calibrated(rt, now) &&
                       (now - k->left) * 1000 < tasks * PACE_NS * k->ticks_a_us;
    k->left = now;
    const bool taken_back = k->on && !ptoi_get32(&rt->sched.kept);
    if (taken_back || !dense || rt->order < k->not_before || !is_brief(rt, rt->last)) {
        if (k->on) { /* in vain if a worker had to help, or if they never came fast enough */
            end(rt, taken_back || (!dense && k->looks == 0));
        }
        return;
    }
    if (!k->on) {
        k->on = true;
        k->looks = 0;
        ptoi_set32(&rt->sched.kept, 1);
    } else {
        k->looks++;
    }
    const bool all_brief = ptoi_help_brief(rt, BATCH);
    k->left = ptoi_ticks();
    if (!all_brief || (k->left - now) * 1000 > SLOW_NS * k->ticks_a_us) {
        end(rt, true);
    } else if (k->patience > PATIENCE) {
        k->patience -= k->patience / 64;
    }
}
