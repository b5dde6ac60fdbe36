/* scenario_link.c - tasks that wait for tasks, and threads that wait for work. */
#include "rig.h"

static void prepare_inline(void)
{
    const pto_config c = rig_config(2, PTO_PLACE_INLINE);
    rig_create(&c);
}

static void prepare_thread(void)
{
    const pto_config c = rig_config(1, PTO_PLACE_THREAD);
    rig_create(&c);
}

/* One producer, two consumers that join its list or find it closed, and one that waits for both. */
static void link_run(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[2]));
    rig_submit(r->add, pto_input(&r->t[1]), pto_input(&r->t[2]), pto_output(&r->t[3]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[1] == 5 && r->cell[2] == 5 && r->cell[3] == 10);
}

const scenario scenario_link = {
    "link", "consumers link against a completing producer; inline scheduler, 2 workers",
    prepare_inline, link_run, false};

const scenario scenario_link_thread = {"link-thread",
                                       "the same with the scheduler on a thread, 1 worker",
                                       prepare_thread, link_run, false};

/* Readers, then a writer, then readers again: RAW, WAR and WAW on one cell. */
static void order_run(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(1));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(2));
    rig_submit(r->twice, pto_inout(&r->t[0]));
    rig_submit(r->set, pto_output(&r->t[1]), pto_scalar(9));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 4 && r->cell[1] == 9);
}

const scenario scenario_order = {"order", "RAW, WAR and WAW on one cell; inline, 2 workers",
                                 prepare_inline, order_run, false};

const scenario scenario_order_thread = {"order-thread",
                                        "the same with the scheduler on a thread, 1 worker",
                                        prepare_thread, order_run, false};

/* ---- A write that covers a part of an earlier one ---- */

static void covered_run(void)
{
    pto_tensor both;
    world_check(pto_external_tensor(r->rt, r->cell, PTO_INT64, 1, (int64_t[]){2}, &both) == PTO_OK);
    rig_submit(r->set, pto_output(&both), pto_scalar(5)); /* the first of them */
    rig_submit(r->set, pto_output(&r->t[1]), pto_scalar(6));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[2]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 5 && r->cell[1] == 6 && r->cell[2] == 5);
}

const scenario scenario_covered = {"covered", "a write over a part of another; 2 workers",
                                   prepare_inline, covered_run, false};

/* ---- The orchestrating thread does not help: it sleeps and must be woken ---- */

static void wait_prepare(void)
{
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.caller_types = PTO_NO_TYPES;
    rig_create(&c);
}

static void wait_prepare_thread(void)
{
    pto_config c = rig_config(1, PTO_PLACE_THREAD);
    c.caller_types = PTO_NO_TYPES;
    rig_create(&c);
}

static void wait_run(void)
{
    int64_t seen = 0;
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(3));
    world_check(pto_read(r->rt, &r->t[0], &seen, sizeof seen) == PTO_OK && seen == 3);
    rig_submit(r->twice, pto_inout(&r->t[0]));
    world_check(pto_wait_task(r->rt, pto_last_task(r->rt)) == PTO_OK);
    world_check(r->cell[0] == 6);
    rig_submit(r->twice, pto_inout(&r->t[0]));
    rig_submit(r->set, pto_output(&r->t[1]), pto_scalar(1));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 12 && r->cell[1] == 1);
}

const scenario scenario_wait = {
    "wait", "the orchestrating thread only waits, for a value, a task, all; 2 workers",
    wait_prepare, wait_run, true};

const scenario scenario_wait_thread = {"wait-thread",
                                       "the same with the scheduler on a thread, 1 worker",
                                       wait_prepare_thread, wait_run, true};

/* ---- The orchestrating thread does not help: the worker must notice new tasks itself ---- */

static void poll_prepare(void)
{
    const pto_config c = rig_config(1, PTO_PLACE_INLINE);
    rig_create(&c);
}

static void poll_run(void)
{
    for (uint32_t i = 1; i <= 2; i++) {
        rig_submit(r->signal, pto_inout(&r->t[0]));
        while (ptoi_acquire32(&r->signals) != i) {
            ptoi_os_yield();
        }
    }
}

static void poll_no_barrier_prepare(void)
{
    world_has_barrier = false;
    poll_prepare();
}

static void poll_refused_prepare(void)
{
    world_makes_barrier = false;
    poll_prepare();
}

const scenario scenario_poll_refused = {
    "poll-refused", "the same where barriers are forbidden after the start; 1 worker",
    poll_refused_prepare, poll_run, true};
const scenario scenario_poll_no_barrier = {
    "poll-no-barrier", "the same on a system without barriers: W1 is stored by exchange; 1 worker",
    poll_no_barrier_prepare, poll_run, true};
const scenario scenario_poll = {"poll", "the orchestrating thread does something else; 1 worker",
                                poll_prepare, poll_run, true};
const scenario scenario_poll_thread = {"poll-thread",
                                       "the same with the scheduler on a thread, 1 worker",
                                       prepare_thread, poll_run, true};

/* ---- Workers of different types: tasks go from one to the other ---- */

static void types_prepare(void)
{
    static const uint32_t types[] = {PTO_TYPE_BIT(PTO_VECTOR), PTO_TYPE_BIT(PTO_CUBE)};
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.worker_types = types;
    c.caller_types = PTO_NO_TYPES;
    rig_create(&c);
}

static void types_run(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(3));
    rig_submit(r->cube, pto_inout(&r->t[0]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->cube, pto_inout(&r->t[2]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 6 && r->cell[1] == 6);
}

const scenario scenario_types = {"types",
                                 "two workers of different types make tasks ready for each other",
                                 types_prepare, types_run, false};

/* ---- The end ---- */

static void end_run(void)
{
    pto_runtime *rt = r->rt;
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(3));
    rig_submit(r->set, pto_output(&r->t[1]), pto_scalar(4));
    world_check(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    world_check(r->cell[0] == 3 && r->cell[1] == 4);
}

const scenario scenario_end = {"end", "the runtime is destroyed while workers park; 2 workers",
                               prepare_inline, end_run, true};

const scenario scenario_end_thread = {"end-thread",
                                      "the same with the scheduler on a thread, 1 worker",
                                      prepare_thread, end_run, true};
