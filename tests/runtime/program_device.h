/* program_device.h - a program on the runtime, continued: copies, memory of devices, and devices that
 * fail.
 *
 * A device is told to fail at its n-th allocation, copy or kernel, or to be lost. Which task that
 * hits depends on timing, so it is learned: a wait for each task says whether it went bad. What
 * follows from it (which tasks are skipped, and every byte of memory) is the oracle's to decide, and
 * every fault that a device counts must have been seen by someone.
 */
#ifndef PTO_TEST_PROGRAM_DEVICE_H
#define PTO_TEST_PROGRAM_DEVICE_H

#include "program_run.h"

/* ---- Memory of devices ---------------------------------------------------------------------- */

static inline pto_device_ops device_ops(uint32_t number)
{
    pto_device_ops ops = {0};
    program_must(pto_device_get(program_device(number), &ops) == PTO_OK, "a simulated device");
    return ops;
}

/* An area on a device, with these contents. */
static inline void device_make_area(run *r, program_area area, const uint8_t *contents)
{
    const uint32_t number = program_area_device(area);
    const uint64_t bytes = program_area_bytes[area];
    const pto_device_ops ops = device_ops(number);
    pto_tensor *t = &r->there[number];
    program_must(pto_tensor_empty(program_device(number), PTO_UINT8, 1, (int64_t[]){(int64_t)bytes},
                                  t) == PTO_OK &&
                     ops.copy_in(ops.self, t->storage, contents, bytes) == PTO_OK,
                 "memory of a device");
    r->area[area] = t->storage;
    r->shared->shift[number] = ops.shift;
}

/* The contents of an area: the device copies them to the host. */
static inline void device_fetch_area(const run *r, program_area area, uint8_t *to)
{
    const uint32_t number = program_area_device(area);
    if (!number) {
        memcpy(to, r->area[area], program_area_bytes[area]);
    } else if (r->area[area]) {
        const pto_device_ops ops = device_ops(number);
        program_must(ops.copy_out(ops.self, to, r->area[area], program_area_bytes[area]) == PTO_OK,
                     "memory of a device");
    }
}

static inline void device_free_areas(run *r)
{
    for (uint32_t number = 1; number < PROGRAM_DEVICES; number++) {
        program_must(pto_tensor_free(&r->there[number]) == PTO_OK, "memory of a device");
    }
}

/* ---- Faults --------------------------------------------------------------------------------- */

static inline uint64_t device_count_faults(const run *r)
{
    uint64_t faults = 0;
    for (int32_t i = 0; r->p->devices && i < PROGRAM_DEVICES - 1; i++) {
        pto_sim_stats stats;
        program_must(pto_sim_stats_get(i, &stats) == PTO_OK, "statistics of a device");
        faults += stats.faults;
    }
    return faults;
}

static inline void device_repair(run *r)
{
    for (int32_t i = 0; r->p->devices && i < PROGRAM_DEVICES - 1; i++) {
        program_must(pto_sim_repair(i) == PTO_OK, "a repair");
    }
    r->armed = false;
}

/* Asks about all tasks since the last time that a device may have failed at. They are complete
 * afterwards. */
static inline void device_learn(run *r)
{
    if (r->p->devices) {
        run_acknowledge(r);
    }
    for (; r->learned < r->m.n_tasks; r->learned++) {
        program_task *task = r->m.task[r->learned];
        if (task->handle && (task->device || task->copies)) {
            const pto_status status = pto_wait_task(r->rt, task->handle);
            task->went_bad = status == PTO_TASK_FAILED;
            if (status != PTO_OK && status != PTO_TASK_FAILED) {
                run_wrong(r, "pto_wait_task of task %u: %s (%s)", task->number,
                          pto_status_name(status), pto_error_detail());
            }
        }
    }
}

static inline void run_fault(run *r)
{
    const program_op *op = &r->p->op[r->op];
    r->armed = true;
    run_expect(r, pto_sim_fail((int32_t)op->device - 1, (pto_sim_fault)op->at, op->seed), PTO_OK,
               "pto_sim_fail");
}

/* ---- Copies --------------------------------------------------------------------------------- */

static inline void run_copy(run *r)
{
    program_task *task = model_resolve(&r->m, r->p, r->op);
    if (!task) {
        return;
    }
    const pto_tensor *from = &task->arg[1].t, *to = &task->arg[2].t;
    const uint32_t a = program_device_number(from->device), b = program_device_number(to->device);
    const bool is_op = r->p->op[r->op].at && a == b; /* Rearrange, as a task */
    task->work.type = is_op ? PTO_VECTOR : PTO_ACCELERATOR;
    model_verdict v = model_judge(&r->m, task);
    v.may |= run_device_may(r, b, PTO_OUT_OF_MEMORY);
    task->rt = r->rt;
    task->helper = &r->helper;
    model_expect(&r->m, task);
    const pto_status status = is_op ? pto_submit_op_at(r->rt, pto_rearrange_op(), to, 1, from, 1,
                                                       NULL, 0, NULL, "program", (int)r->op)
                                    : pto_copy_at(r->rt, to, from, "program", (int)r->op);
    run_device_failed(r, status, b, SEEN_DEVICE_ALLOC);
    run_judge(r, status, &v, "pto_copy");
    if (status == PTO_OK && !r->is_wrong) {
        run_saw(r, SEEN_COPIES, 1);
        run_saw(r, SEEN_OPERATORS, is_op && a);
        run_saw(r, SEEN_COPIES_IN, !a && b);
        run_saw(r, SEEN_COPIES_OUT, a && !b);
        run_saw(r, SEEN_COPIES_ACROSS, a && b && a != b);
        run_submitted(r, task, pto_last_task(r->rt));
        task = NULL;
    } else if (status == PTO_OK) {
        r->m.n_tasks++;
        task = NULL;
    }
    model_free_task(&r->m, task);
}

#endif /* PTO_TEST_PROGRAM_DEVICE_H */
