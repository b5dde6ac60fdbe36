/* program_run.h - a program on the runtime, through pto.h: submitting, and memory.
 *
 * Each answer is compared with the model immediately. Results of kernels go into a journal, which
 * the oracle reads at the end of the program. So no time is lost between submits, and tasks pile up
 * and run at the same time.
 */
#ifndef PTO_TEST_PROGRAM_RUN_H
#define PTO_TEST_PROGRAM_RUN_H

#include "program_model.h"

typedef struct run_event {
    program_kind kind; /* SUBMIT, READ, WRITE, WAIT, WAIT_TASK, CLEAR, INFO */
    uint32_t op;
    pto_status status;
    program_task *task;               /* SUBMIT, WAIT_TASK, INFO */
    program_arg arg;                  /* READ, WRITE */
    uint8_t *data;                    /* read or written; CLEAR: all areas */
    pto_task failed;                  /* WAIT: the failure that is reported, 0 for none */
    char message[256];                /* its message */
    bool is_done, is_bad, is_skipped; /* INFO */
} run_event;

#define RUN_EVENTS (4 * PROGRAM_OPS)

typedef struct run {
    const program *p;
    pto_runtime *rt;
    program_arena arena; /* of worker processes; this struct lies there, too */
    model m;
    uint8_t *area[AREA_COUNT];           /* of devices: not to be touched; NULL: not used */
    pto_tensor there[PROGRAM_DEVICES];   /* the areas of devices */
    uint32_t home;                       /* device of pto_temp, pto_alloc and pto_create_buffer */
    bool armed;                          /* a device was told to fail */
    uint64_t faults_before, faults_seen; /* by devices before the run; by calls of the run */
    uint32_t learned;                    /* tasks whose end is known */
    uint8_t *unused;                     /* 8 bytes that no task uses */
    program_shared *shared;
    pto_kernel kernel[PTO_WORKER_TYPES];
    program_helper helper;
    run_event event[RUN_EVENTS];
    uint32_t n_events;
    uint32_t op;        /* the current operation */
    uint64_t value;     /* value read last */
    pto_task last;      /* submitted */
    uint64_t submitted; /* tasks with a kernel */
    uint64_t n_refused; /* refused calls that were not acknowledged yet */
    pto_status first_refused;
    program_sights *sights;
    program_diary *diary; /* NULL: none */
    bool is_wrong;
    char *why;
    size_t why_bytes;
} run;

/* ---- Complaints ----------------------------------------------------------------------------- */

/* Reports the first mistake; later ones may be consequences. */
static inline PTO_PRINTF(2, 3) void run_wrong(run *r, const char *format, ...)
{
    if (r->is_wrong) {
        return;
    }
    va_list args;
    int used = r->op < r->p->n_ops ? snprintf(r->why, r->why_bytes, "operation %u (%s): ", r->op,
                                              program_kind_text(r->p->op[r->op].kind))
                                   : snprintf(r->why, r->why_bytes, "at the end: ");
    va_start(args, format);
    vsnprintf(r->why + used, r->why_bytes - (size_t)used, format, args);
    va_end(args);
    r->is_wrong = true;
}

static inline void run_expect(run *r, pto_status status, pto_status want, const char *what)
{
    if (status != want) {
        run_wrong(r, "%s: %s (%s) instead of %s", what, pto_status_name(status),
                  status == PTO_OK ? "" : pto_error_detail(), pto_status_name(want));
    }
}

/* Takes the record of refused calls: it describes the first of those since the last time, and
 * counts them. Before that a read of memory that no task uses reports it, without waiting. */
static inline void run_acknowledge(run *r)
{
    uint8_t copy[8];
    pto_refusal kept = {.count = 0};
    pto_tensor t;
    program_must(pto_tensor_init(&t, r->unused, sizeof copy, PTO_UINT8, 1, (int64_t[]){8}, NULL,
                                 0) == PTO_OK,
                 "a tensor");
    if (r->n_refused) {
        run_expect(r, pto_read(r->rt, &t, copy, sizeof copy), PTO_REFUSED, "after a refusal");
    }
    if (pto_refused(r->rt, &kept) != (r->n_refused > 0) || kept.count != r->n_refused ||
        (r->n_refused && kept.status != r->first_refused)) {
        run_wrong(r,
                  "the runtime keeps %s, the first of %" PRIu64 " refused calls, instead of %s, "
                  "the first of %" PRIu64,
                  pto_status_name(kept.status), kept.count, pto_status_name(r->first_refused),
                  r->n_refused);
    }
    r->n_refused = 0;
}

/* A call returned this error: a refusal, unless it reports a failure or a cancel. Half of the
 * programs acknowledge each refusal, the others all of them before the next wait or read. */
static inline void run_is_refused(run *r, pto_status status)
{
    if (status == PTO_POISONED || status == PTO_CANCELLED) {
        return;
    }
    if (r->n_refused++ == 0) {
        r->first_refused = status;
    }
    if (r->p->seed % 2) {
        run_acknowledge(r);
    }
}

/* A call that the runtime must refuse. */
static inline void run_expect_refused(run *r, pto_status status, pto_status want, const char *what)
{
    run_expect(r, status, want, what);
    if (status != PTO_OK) {
        run_is_refused(r, status);
    }
}

static inline void run_saw(run *r, program_sight sight, uint64_t count)
{
    r->sights->count[sight] += count;
}

/* Whether the model agrees with an answer. A refused call must have changed nothing. */
static inline void run_judge(run *r, pto_status status, const model_verdict *v, const char *what)
{
    if (!model_accepts(v, status)) {
        char names[256] = "";
        size_t used = 0;
        for (unsigned code = 1; code < 64; code++) {
            if ((v->wrong | v->may) >> code & 1 && used < sizeof names) {
                used += (size_t)snprintf(names + used, sizeof names - used, " or %s",
                                         pto_status_name((pto_status)code));
            }
        }
        run_wrong(r, "%s: %s (%s) instead of %s%s", what, pto_status_name(status),
                  status == PTO_OK ? "" : pto_error_detail(),
                  v->wrong  ? "a refusal,"
                  : v->good ? "success"
                            : "no room,",
                  names);
        return;
    }
    if (status == PTO_OK) {
        return;
    }
    run_is_refused(r, status);
    run_saw(r, SEEN_REFUSED, 1);
    run_saw(r, SEEN_STALE, status == PTO_STALE);
    run_saw(r, SEEN_VERSION, status == PTO_BAD_VERSION);
    run_saw(r, SEEN_UNWRITTEN, status == PTO_NOT_WRITTEN || status == PTO_NOT_CONTIGUOUS);
    run_saw(r, SEEN_TOO_LARGE, status == PTO_TOO_LARGE);
    run_saw(r, SEEN_APART, status == PTO_DEVICES_DIFFER);
    run_saw(r, SEEN_NO_WORKER, status == PTO_BAD_WORKER && strstr(pto_error_detail(), "sim:"));
    if (status == PTO_STALLED) {
        const char *detail = pto_error_detail();
        run_saw(r, SEEN_DEVICE_STALLED, strstr(detail, "PTO_DEVICE_HEAP") != NULL);
        run_saw(r, strstr(detail, "PTO_BUFFERS") ? SEEN_STALLED_BUFFERS : SEEN_STALLED_HEAP, 1);
    }
    pto_runtime_stats stats;
    run_expect(r, pto_stats(r->rt, &stats), PTO_OK, "pto_stats");
    if (stats.submitted != r->submitted || stats.buffers != model_count_alive(&r->m) ||
        pto_last_task(r->rt) != r->last || pto_get_scope_depth(r->rt) != r->m.n_scopes) {
        run_wrong(r,
                  "%s is refused with %s, but has changed something: %" PRIu64 " tasks, %" PRIu64
                  " buffers",
                  what, pto_status_name(status), stats.submitted, stats.buffers);
    }
}

static inline run_event *run_note(run *r, program_kind kind, pto_status status)
{
    program_must(r->n_events < RUN_EVENTS, "the journal is full");
    run_event *event = &r->event[r->n_events++];
    event->kind = kind;
    event->op = r->op;
    event->status = status;
    return event;
}

/* ---- Devices that fail ----------------------------------------------------------------------- */

/* What a call may return because a device fails. */
static inline uint64_t run_device_may(const run *r, uint32_t device, pto_status failure)
{
    return r->armed && device ? model_bit(failure) | model_bit(PTO_DEVICE_LOST) : 0;
}

/* Whether a call failed because its device did. */
static inline bool run_device_failed(run *r, pto_status status, uint32_t device,
                                     program_sight sight)
{
    const bool failed = device && r->armed &&
                        (status == PTO_SYSTEM || status == PTO_OUT_OF_MEMORY ||
                         status == PTO_DEVICE_LOST);
    r->faults_seen += failed;
    run_saw(r, sight, failed);
    run_saw(r, SEEN_DEVICE_LOST, failed && status == PTO_DEVICE_LOST);
    if (failed && !strstr(pto_error_detail(), "sim:")) {
        run_wrong(r, "the device is not named: %s", pto_error_detail());
    }
    return failed;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static inline pto_param run_scalar(const program_arg *arg)
{
    double number;
    memcpy(&number, &arg->value, sizeof number);
    return arg->dtype == PTO_FLOAT64 ? pto_scalar(number)
           : arg->dtype == PTO_INT64 ? pto_scalar((int64_t)arg->value)
                                     : pto_scalar(arg->value);
}

static inline pto_param run_param(const model *m, const program_arg *arg)
{
    pto_param param = run_scalar(arg);
    switch (arg->kind) {
    case PTO_PARAM_INPUT:
        param = pto_input(&arg->t);
        break;
    case PTO_PARAM_OUTPUT:
        param = pto_output(&arg->t);
        break;
    case PTO_PARAM_INOUT:
        param = pto_inout(&arg->t);
        break;
    case PTO_PARAM_AFTER:
        param = pto_after(m->task[arg->task]->handle);
        break;
    case PTO_PARAM_SCALAR:
    case PTO_PARAM_NONE:
        break;
    }
    return arg->nodep ? pto_nodep(param) : param;
}

/* A task that was never submitted, on the current level. */
static inline pto_task run_future(const run *r)
{
    return (r->p->config.first_task + 1000000) << 3 | model_level(&r->m);
}

/* Makes a submit wrong. False if that is impossible in the current state. */
static inline bool run_spoil(run *r, pto_device device, pto_kernel *kernel, pto_worker_type *type,
                             pto_param *param, pto_tensor *t)
{
    const program_op *op = &r->p->op[r->op];
    const model_slot *slot = &r->m.slot[op->of];
    void *address = NULL;
    *param = pto_scalar(0);
    switch (op->spoil) {
    case SPOIL_KERNEL:
        *kernel += 1000;
        break;
    case SPOIL_TYPE:
        *type = op->work.type == PTO_CUBE ? PTO_VECTOR : PTO_CUBE;
        break;
    case SPOIL_FORGOTTEN:
        param->kind = PTO_PARAM_NONE;
        break;
    case SPOIL_NULL_TENSOR:
        *param = pto_input(NULL);
        break;
    case SPOIL_UNSOUND:
        run_expect(r, pto_external_tensor(r->rt, r->area[0], PTO_UINT8, 1, (int64_t[]){8}, t),
                   PTO_OK, "pto_external_tensor");
        t->shape[0]++;
        t->device = device;
        *param = pto_input(t);
        break;
    case SPOIL_FUTURE:
        *param = pto_after(run_future(r));
        break;
    case SPOIL_HEAP:
        if (!slot->is_made || !model_is_alive(&r->m, slot->buffer) ||
            !r->m.buffer[slot->buffer].has_memory || !model_bytes(&slot->t)) {
            return false;
        }
        run_expect(r, pto_get_buffer_addr(r->rt, &slot->t, &address), PTO_OK,
                   "pto_get_buffer_addr");
        run_expect(r, pto_tensor_init(t, address, 1, PTO_UINT8, 1, (int64_t[]){1}, NULL, 0), PTO_OK,
                   "pto_tensor_init");
        t->device = device;
        *param = pto_input(t);
        break;
    case SPOIL_NOTHING:
    case SPOIL_COUNT:
        break;
    }
    return true;
}

static inline void run_see_task(run *r, const program_task *task)
{
    run_saw(r, SEEN_TASKS, 1);
    run_saw(r, SEEN_ON_DEVICE, task->device && !task->copies);
    run_saw(r, SEEN_LATER, task->work.ending != END_RETURN);
    run_saw(r, SEEN_POSTED,
            r->helper.processes && !kernel_has_thread(task) &&
                (task->work.ending == END_LATER || task->work.ending == END_MEANWHILE));
    run_saw(r, SEEN_MEDDLED, task->work.meddles);
    run_saw(r, SEEN_MANY, task->n_args > 17);
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        if (arg->kind == PTO_PARAM_SCALAR || arg->kind == PTO_PARAM_AFTER) {
            continue;
        }
        run_saw(r, SEEN_NODEP, arg->nodep);
        run_saw(r, SEEN_EMPTY, pto_tensor_numel(&arg->t) == 0);
        if (arg->buffer != PROGRAM_NOBODY) {
            const model_buffer *b = &r->m.buffer[arg->buffer];
            run_saw(r, SEEN_VERSIONS, arg->t.version > b->version);
            run_saw(r, SEEN_OWNED, !b->has_memory);
            run_saw(r, SEEN_OUTER, !b->has_memory && b->lifetime != model_lifetime_now(&r->m));
        }
    }
}

/* A task was submitted. Its handle contains level and number, and numbers rise by one. */
static inline void run_submitted(run *r, program_task *task, pto_task handle)
{
    run_see_task(r, task);
    task->handle = handle;
    model_submitted(&r->m, task);
    if ((handle & 7) != task->level) {
        run_wrong(r, "the task is on level %d, not %u", (int)(handle & 7), task->level);
    }
    for (uint32_t i = r->m.n_tasks - 1; i-- > 0;) {
        const program_task *before = r->m.task[i];
        if (before->level == task->level && before->handle) {
            if ((handle >> 3) - (before->handle >> 3) != task->seq - before->seq) {
                run_wrong(r, "task %" PRIu64 " of its level follows %" PRIu64, handle >> 3,
                          before->handle >> 3);
            }
            break;
        }
    }
    if (task->op < r->p->n_ops) {
        r->m.task_of[task->op] = task->number;
    }
    r->last = handle;
    r->submitted++;
    run_note(r, OP_SUBMIT, PTO_OK)->task = task;
}

/* Submits a prepared task and records it. */
static inline void run_submit_task(run *r, program_task *task)
{
    const program_op *op = r->op < r->p->n_ops ? &r->p->op[r->op] : NULL;
    pto_param *params = program_room(task->n_args + 1, sizeof *params);
    pto_kernel kernel = r->kernel[task->work.type];
    pto_worker_type type = task->number % 2 ? task->work.type : PTO_KERNEL_TYPE;
    const pto_task untouched = UINT64_MAX;
    pto_task handle = untouched;
    pto_tensor extra;
    uint32_t n = 0;
    model_verdict v = model_judge(&r->m, task);
    v.may |= run_device_may(r, task->device, PTO_OUT_OF_MEMORY);
    task->helper = &r->helper;
    task->rt = r->rt;
    for (; n < task->n_args; n++) {
        params[n] = run_param(&r->m, &task->arg[n]);
    }
    bool possible = true;
    if (op && op->spoil != SPOIL_NOTHING) {
        possible = run_spoil(r, program_device(task->device), &kernel, &type, &params[n++], &extra);
        v.wrong |= model_bit(program_spoil_status(op->spoil));
    }
    if (possible) {
        model_expect(&r->m, task);
        pto_status status = pto_submit_task_at(r->rt, kernel, type, params, n, &handle, "program",
                                               (int)r->op);
        run_device_failed(r, status, task->device, SEEN_DEVICE_ALLOC);
        run_judge(r, status, &v, "submit");
        if (r->diary) {
            diary_note(r->diary, "the answer to a submit", status);
        }
        if (status == PTO_OK && !r->is_wrong) {
            run_submitted(r, task, handle);
            task = NULL;
        } else if (status == PTO_OK) {
            r->m.n_tasks++; /* it runs, even if the model disagrees */
            task = NULL;
        } else if (handle != untouched) {
            run_wrong(r, "a submit that is refused sets the task");
        }
    }
    model_free_task(&r->m, task);
    free(params);
}

static inline void run_submit(run *r)
{
    program_task *task = model_resolve(&r->m, r->p, r->op);
    if (task) {
        run_submit_task(r, task);
    }
}

/* ---- Memory --------------------------------------------------------------------------------- */

static inline void run_external(run *r)
{
    const program_op *op = &r->p->op[r->op];
    const pto_tensor t = view_external(op, r->area[op->area]);
    if (!op->seed && !program_area_device(op->area)) {
        pto_tensor same;
        run_expect(r,
                   pto_external_tensor(r->rt, r->area[op->area] + op->at, op->dtype, op->ndim,
                                       op->shape, &same),
                   PTO_OK, "pto_external_tensor");
        model_make(&r->m, r->op, &same, PROGRAM_NOBODY);
        return;
    }
    model_make(&r->m, r->op, &t, PROGRAM_NOBODY);
}

/* A buffer has memory that no task has brought. */
static inline void run_has_memory(run *r, program_task *memory)
{
    model_expect(&r->m, memory);
    model_has_memory(&r->m, memory);
    if (pto_last_task(r->rt) != r->last) {
        run_wrong(r, "memory counts as a task");
    }
}

static inline void run_managed(run *r)
{
    const program_op *op = &r->p->op[r->op];
    pto_tensor t;
    pto_buffer buffer;
    pto_status status;
    const uint64_t bytes = model_bytes_of(op);
    const uint32_t device = op->kind == OP_BUFFER ? r->home : op->device;
    const pto_device on = program_device(device);
    const bool home = device == r->home && r->op % 2;
    if (op->kind == OP_ALLOC) {
        status = home ? pto_alloc_at(r->rt, op->dtype, op->ndim, op->shape, &t, "program",
                                     (int)r->op)
                      : pto_alloc_on_at(r->rt, on, op->dtype, op->ndim, op->shape, &t, "program",
                                        (int)r->op);
    } else if (op->kind == OP_TEMP) {
        status = home ? pto_temp(r->rt, op->dtype, op->ndim, op->shape, &t)
                      : pto_temp_on(r->rt, on, op->dtype, op->ndim, op->shape, &t);
    } else {
        status = pto_create_buffer(r->rt, bytes, &buffer);
        if (status == PTO_OK) {
            status = pto_managed_tensor(r->rt, &buffer, 0, op->dtype, op->ndim, op->shape, &t);
        }
    }
    if (!r->m.n_scopes) {
        run_expect_refused(r, status, PTO_NO_SCOPE, "managed memory");
        return;
    }
    model_verdict v = {.good = true};
    if (bytes > (device ? r->m.device_heap : r->m.room[model_level(&r->m)].heap)) {
        v.wrong |= model_bit(PTO_TOO_LARGE);
    }
    if (model_count_alive(&r->m) >= r->m.max_buffers) {
        v.wrong |= model_bit(PTO_STALLED);
    } else if (model_count_records(&r->m) >= r->m.max_buffers) {
        v.may |= model_bit(PTO_STALLED); /* records that were given up serve their own lifetime */
    }
    program_task *memory = NULL;
    const uint32_t made = model_add_buffer(&r->m, bytes, device);
    if (op->kind == OP_ALLOC) {
        memory = model_resolve_memory(&r->m, r->op, made);
        model_judge_room(&r->m, memory, &v);
        v.may |= run_device_may(r, device, PTO_OUT_OF_MEMORY);
        run_device_failed(r, status, device, SEEN_DEVICE_ALLOC);
    }
    r->m.n_buffers--; /* not yet */
    run_judge(r, status, &v, "managed memory");
    if (status != PTO_OK || r->is_wrong) {
        model_free_task(&r->m, memory);
        return;
    }
    r->m.n_buffers++;
    model_make(&r->m, r->op, &t, made);
    if (memory) {
        run_has_memory(r, memory);
    }
}

static inline void run_release(run *r)
{
    const model_slot *slot = &r->m.slot[r->p->op[r->op].of];
    if (!slot->is_made || slot->buffer == PROGRAM_NOBODY) {
        return;
    }
    const bool alive = model_is_alive(&r->m, slot->buffer);
    const pto_status status = pto_release_at(r->rt, &slot->t, "program", (int)r->op);
    run_expect(r, status, alive ? PTO_OK : PTO_STALE, "pto_release");
    if (status != PTO_OK) {
        run_is_refused(r, status);
    } else {
        model_release(&r->m, slot->buffer);
        run_saw(r, SEEN_GIVEN_UP, 1);
    }
}

static inline void run_recast(run *r)
{
    const program_op *op = &r->p->op[r->op];
    const model_slot *from = &r->m.slot[op->of];
    if (!from->is_made) {
        return;
    }
    const pto_buffer buffer = {from->t.owner, r->m.buffer[from->buffer].bytes, from->t.generation};
    pto_tensor t;
    const pto_status status = pto_managed_tensor(r->rt, &buffer, r->m.buffer[from->buffer].version,
                                                 op->dtype, op->ndim, op->shape, &t);
    run_expect(r, status, model_is_alive(&r->m, from->buffer) ? PTO_OK : PTO_STALE,
               "pto_managed_tensor");
    if (status == PTO_OK) {
        model_make(&r->m, r->op, &t, from->buffer);
    }
}

#endif /* PTO_TEST_PROGRAM_RUN_H */
