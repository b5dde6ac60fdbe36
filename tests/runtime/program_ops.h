/* program_ops.h - a program on the runtime, continued: reads, waits, queries, refused calls; and
 * the dispatch of all operations.
 */
#ifndef PTO_TEST_PROGRAM_OPS_H
#define PTO_TEST_PROGRAM_OPS_H

#include "program_device.h"

/* ---- Reading and writing -------------------------------------------------------------------- */

/* The value decides which operations come next, so the program depends on data of the runtime. */
static inline void run_read_arg(run *r, const program_arg *arg)
{
    const uint64_t bytes = model_bytes(&arg->t);
    uint8_t *data = program_room(bytes, 1);
    const model_verdict v = {
        .wrong = model_judge_arg(&r->m, arg, false),
        .may = model_bit(PTO_POISONED) |
               run_device_may(r, program_device_number(arg->t.device), PTO_SYSTEM),
        .good = true};
    run_acknowledge(r);
    const pto_status status = pto_read(r->rt, &arg->t, data, bytes);
    run_device_failed(r, status, program_device_number(arg->t.device), SEEN_DEVICE_READ);
    run_judge(r, status, &v, "pto_read");
    if (v.wrong) {
        free(data);
        return;
    }
    r->value = 0;
    for (uint64_t i = 0; status == PTO_OK && i < bytes; i++) {
        r->value = kernel_mix(r->value, data[i]);
    }
    run_event *event = run_note(r, OP_READ, status);
    event->arg = *arg;
    event->data = data;
    run_saw(r, SEEN_READS, 1);
    run_saw(r, SEEN_READ_POISON, status == PTO_POISONED);
}

static inline void run_read(run *r)
{
    program_arg arg;
    if (model_resolve_param(&r->m, &r->p->param[r->p->op[r->op].first_param], &arg)) {
        run_read_arg(r, &arg);
    }
}

static inline void run_write(run *r)
{
    const program_op *op = &r->p->op[r->op];
    program_arg arg;
    if (!model_resolve_param(&r->m, &r->p->param[op->first_param], &arg)) {
        return;
    }
    const uint64_t bytes = model_bytes(&arg.t);
    uint8_t *data = program_room(bytes, 1);
    test_rng rng = test_rng_make(op->seed);
    for (uint64_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)test_next(&rng);
    }
    const uint32_t device = program_device_number(arg.t.device);
    model_verdict v = {.wrong = model_judge_arg(&r->m, &arg, false), .good = true};
    model_buffer *b = arg.buffer == PROGRAM_NOBODY ? NULL : &r->m.buffer[arg.buffer];
    program_task *memory = NULL;
    if (!v.wrong && b && !b->has_memory) {
        memory = model_resolve_memory(&r->m, r->op, arg.buffer);
        model_judge_room(&r->m, memory, &v);
    }
    v.may |= run_device_may(r, device, PTO_OUT_OF_MEMORY) | run_device_may(r, device, PTO_SYSTEM);
    const pto_status status = pto_write_at(r->rt, &arg.t, data, bytes, "program", (int)r->op);
    /* A device that fails to copy leaves undefined contents, like pto_alloc. */
    const bool undone = run_device_failed(r, status, device, SEEN_DEVICE_WRITE) &&
                        !strstr(pto_error_detail(), "the heap of level");
    run_judge(r, status, &v, "pto_write");
    if ((status != PTO_OK && !undone) || r->is_wrong) {
        model_free_task(&r->m, memory);
        free(data);
        return;
    }
    if (memory) {
        run_has_memory(r, memory);
    } else if (b && !undone) {
        b->version = arg.t.version;
    }
    run_event *event = run_note(r, OP_WRITE, status);
    event->arg = arg;
    event->data = data;
}

/* ---- Waiting and failing -------------------------------------------------------------------- */

static inline pto_status run_wait(run *r)
{
    run_acknowledge(r);
    const pto_status status = pto_wait(r->rt);
    pto_failure failure;
    bool failed = false;
    run_event *event = run_note(r, OP_WAIT, status);
    if (status == PTO_TASK_FAILED && !strstr(pto_error_detail(), "submitted at program:")) {
        run_wrong(r, "pto_wait does not say where the task was submitted: %s", pto_error_detail());
    }
    run_expect(r, pto_get_failure(r->rt, &failed, &failure), PTO_OK, "pto_get_failure");
    if (failed) {
        event->failed = failure.task;
        snprintf(event->message, sizeof event->message, "%s", failure.message);
    }
    run_saw(r, SEEN_WAIT_FAILED, status == PTO_TASK_FAILED);
    return status;
}

static inline void run_wait_task(run *r)
{
    const uint32_t number = r->m.task_of[r->p->op[r->op].of];
    if (number != PROGRAM_NOBODY) {
        program_task *task = r->m.task[number];
        run_acknowledge(r);
        run_note(r, OP_WAIT_TASK, pto_wait_task(r->rt, task->handle))->task = task;
    }
}

/* Memory that a failure left undefined counts as defined from here on, with its current
 * contents. */
static inline void run_clear(run *r)
{
    device_learn(r);
    device_repair(r);
    run_expect(r, pto_clear_error(r->rt), PTO_OK, "pto_clear_error");
    run_event *event = run_note(r, OP_CLEAR, PTO_OK);
    size_t bytes = 0, at = 0;
    for (int i = 0; i < AREA_COUNT; i++) {
        bytes += program_area_bytes[i];
    }
    event->data = program_room(bytes, 1);
    for (int i = 0; i < AREA_COUNT; i++) {
        device_fetch_area(r, (program_area)i, event->data + at);
        at += program_area_bytes[i];
    }
}

static inline void run_cancel(run *r)
{
    const pto_status before = run_wait(r);
    pto_cancel(r->rt);
    const pto_param number = pto_scalar_u64(0);
    const model_verdict v = {.wrong = model_bit(PTO_CANCELLED)};
    run_judge(r,
              pto_submit_task_at(r->rt, r->kernel[0], PTO_KERNEL_TYPE, &number, 1, NULL, "program",
                                 (int)r->op),
              &v, "submit after pto_cancel");
    run_expect(r, pto_wait(r->rt), before == PTO_OK ? PTO_CANCELLED : PTO_TASK_FAILED,
               "pto_wait after pto_cancel");
    run_saw(r, SEEN_CANCELLED, 1);
    run_clear(r);
}

/* ---- Queries -------------------------------------------------------------------------------- */

/* Whether argument n is the one by which the task brought the memory of a living buffer. */
static inline bool run_brought(const run *r, const program_task *task, uint32_t n)
{
    const uint32_t buffer = task->arg[n].buffer;
    if (buffer == PROGRAM_NOBODY || r->m.buffer[buffer].owner != task->number ||
        !model_is_alive(&r->m, buffer)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (task->arg[i].buffer == buffer) {
            return false;
        }
    }
    return true;
}

static inline void run_outputs(run *r, const program_task *task)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        if (kernel_writes(arg->kind)) {
            pto_tensor t;
            const pto_status status = pto_task_get_output(r->rt, task->handle, index, &t);
            const bool gone = arg->buffer != PROGRAM_NOBODY && !model_is_alive(&r->m, arg->buffer);
            if (!run_brought(r, task, i) &&
                (status == PTO_BAD_TASK || (gone && status == PTO_STALE))) {
                run_is_refused(r, status);
                index++; /* only what the task brought is known once it is recycled */
                continue;
            }
            run_expect(r, status, PTO_OK, "pto_task_get_output");
            const size_t bytes = (size_t)t.ndim * sizeof *t.shape;
            if (r->is_wrong || t.owner != arg->t.owner || t.generation != arg->t.generation ||
                program_device_number(t.device) != program_device_number(arg->t.device) ||
                t.dtype != arg->t.dtype || t.ndim != arg->t.ndim ||
                memcmp(t.shape, arg->t.shape, bytes) != 0 ||
                memcmp(t.strides, arg->t.strides, bytes) != 0) {
                run_wrong(r, "output %u of task %u is not the tensor that was given", index,
                          task->number);
            }
            index++;
        }
    }
}

static inline void run_info(run *r)
{
    const uint32_t number = r->m.task_of[r->p->op[r->op].of];
    if (number == PROGRAM_NOBODY) {
        return;
    }
    program_task *task = r->m.task[number];
    const uint32_t scopes = model_scopes_of(&r->m, task);
    pto_task_report report;
    run_expect(r, pto_task_info(r->rt, task->handle, &report), PTO_OK, "pto_task_info");
    if (r->is_wrong) {
        return;
    }
    run_saw(r, SEEN_CONSUMED, report.state == PTO_TASK_CONSUMED);
    if (report.state == PTO_TASK_CONSUMED) {
        if (scopes && model_has_block(task)) {
            run_wrong(r, "task %u is consumed although a scope holds it", number);
        }
        return;
    }
    if (report.task != task->handle || report.level != task->level || report.order != task->order ||
        report.type != task->work.type || program_device_number(report.device) != task->device ||
        report.line != (int)task->op || strcmp(report.file, "program") != 0) {
        run_wrong(r,
                  "pto_task_info of task %u: order %" PRIu64 ", level %u, type %d, device %u not "
                  "%u, %s:%d",
                  number, report.order, report.level, (int)report.type,
                  program_device_number(report.device), task->device, report.file, report.line);
    }
    const uint32_t holders = scopes || report.fanout_count ? task->holders : 0;
    if (report.fanout_count != holders || report.fanout_left < scopes ||
        report.fanout_left > report.fanout_count || report.fanin_left > report.fanin_count) {
        run_wrong(r, "task %u: fanout %u, %u left; it should be %u, and %u for scopes alone",
                  number, report.fanout_count, report.fanout_left, holders, scopes);
    }
    if (scopes) {
        run_outputs(r, task);
    }
    run_event *event = run_note(r, OP_INFO, PTO_OK);
    event->task = task;
    event->is_done = report.state == PTO_TASK_COMPLETED;
    event->is_bad = report.failed;
    event->is_skipped = report.skipped;
    run_saw(r, SEEN_HELD, event->is_done && scopes);
}

static inline void *run_stranger(void *argument)
{
    run *r = argument;
    const pto_status answers[] = {pto_wait(r->rt), pto_scope_begin(r->rt), pto_check(r->rt)};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        run_expect(r, answers[i], PTO_WRONG_THREAD, "a call on another thread");
    }
    return NULL;
}

/* Calls that are always wrong. */
static inline void run_refused(run *r)
{
    uint8_t memory[8];
    pto_tensor t, made;
    pthread_t thread;
    pto_task_report report;
    const int64_t shape[] = {8};
    pto_runtime *rt = r->rt;
    program_must(pto_tensor_init(&t, r->unused, sizeof memory, PTO_UINT8, 1, shape, NULL, 0) ==
                     PTO_OK,
                 "a tensor");
    switch (r->p->op[r->op].at % 6) {
    case 0:
        if (r->m.n_scopes) {
            run_expect(r, pto_runtime_destroy(&rt, PTO_WAIT), PTO_OPEN_SCOPE, "destroy");
            if (!rt) {
                run_wrong(r, "a destroy that is refused takes the runtime away");
            }
            break;
        }
        run_expect_refused(r, pto_scope_end(rt), PTO_BAD_SCOPE, "pto_scope_end");
        run_expect_refused(r, pto_temp(rt, PTO_UINT8, 1, shape, &made), PTO_NO_SCOPE, "pto_temp");
        run_expect_refused(r, pto_alloc(rt, PTO_UINT8, 1, shape, &made), PTO_NO_SCOPE, "pto_alloc");
        break;
    case 1:
        run_expect_refused(r, pto_read(rt, &t, memory, 7), PTO_BUFFER_TOO_SMALL, "pto_read");
        run_expect_refused(r, pto_write(rt, &t, r->unused, 7), PTO_BUFFER_TOO_SMALL, "pto_write");
        break;
    case 2:
        run_expect_refused(r, pto_wait_task(rt, run_future(r)), PTO_BAD_TASK, "pto_wait_task");
        run_expect(r, pto_task_info(rt, run_future(r), &report), PTO_BAD_TASK, "pto_task_info");
        break;
    case 3:
        run_expect(r, pto_task_complete(rt, run_future(r), PTO_OK), PTO_BAD_TASK,
                   "pto_task_complete");
        break;
    case 4:
        run_expect_refused(r, pto_read(rt, NULL, memory, 8), PTO_NULL_ARGUMENT, "pto_read");
        run_expect(r, pto_kernel_register(rt, "none", PTO_CUBE, NULL, NULL, &r->kernel[0]),
                   PTO_NULL_ARGUMENT, "pto_kernel_register");
        break;
    default:
        program_must(pthread_create(&thread, NULL, run_stranger, r) == 0, "no thread");
        pthread_join(thread, NULL);
        break;
    }
    run_saw(r, SEEN_REFUSED, 1);
}

/* ---- All of it ------------------------------------------------------------------------------ */

static inline void run_scope(run *r)
{
    const program_op *op = &r->p->op[r->op];
    if (r->m.n_scopes < MODEL_SCOPES) {
        run_expect(
            r,
            pto_scope_begin_at(r->rt, op->boundary ? PTO_SCOPE_BOUNDARY : 0, "program", (int)r->op),
            PTO_OK, "pto_scope_begin");
        model_begin(&r->m, op->boundary);
    }
}

static inline void run_end(run *r)
{
    if (r->m.n_scopes) {
        run_expect(r, pto_scope_end(r->rt), PTO_OK, "pto_scope_end");
        model_end(&r->m);
    }
}

static inline void run_op(run *r)
{
    const program_op *op = &r->p->op[r->op];
    if (r->p->dropped[r->op]) {
        return;
    }
    if (op->guard != GUARD_NONE && op->guard != (r->value % 2 ? GUARD_ODD : GUARD_EVEN)) {
        run_saw(r, SEEN_BRANCHES, 1);
        return;
    }
    switch (op->kind) {
    case OP_EXTERNAL:
        run_external(r);
        break;
    case OP_SCOPE:
        run_scope(r);
        break;
    case OP_END:
        run_end(r);
        break;
    case OP_TEMP:
    case OP_BUFFER:
    case OP_ALLOC:
        run_managed(r);
        break;
    case OP_RECAST:
        run_recast(r);
        break;
    case OP_RELEASE:
        run_release(r);
        break;
    case OP_SUBMIT:
        run_submit(r);
        break;
    case OP_READ:
        run_read(r);
        break;
    case OP_WRITE:
        run_write(r);
        break;
    case OP_WAIT:
        run_wait(r);
        break;
    case OP_WAIT_TASK:
        run_wait_task(r);
        break;
    case OP_CLEAR:
        run_clear(r);
        break;
    case OP_CANCEL:
        run_cancel(r);
        break;
    case OP_INFO:
        run_info(r);
        break;
    case OP_CHECK:
        run_expect(r, pto_check(r->rt), PTO_OK, "pto_check");
        break;
    case OP_REFUSED:
        run_refused(r);
        break;
    case OP_COPY:
        run_copy(r);
        break;
    case OP_FAULT:
        run_fault(r);
        break;
    case OP_REPAIR:
        device_repair(r);
        break;
    case OP_COUNT:
        break;
    }
}

#endif /* PTO_TEST_PROGRAM_OPS_H */
