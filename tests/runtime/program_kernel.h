/* program_kernel.h - the kernel of all programs, which makes every wrong order visible.
 *
 * It folds its number, its scalars and every byte of its inputs and inouts into one number, and
 * writes every byte of its outputs and inouts from that number (and what an inout held). So a byte
 * that comes too early, too late or not at all changes everything that follows from it. The oracle
 * runs the same function on its own memory.
 *
 * A kernel also checks that its arguments are those of the submit, and records that it ran. The
 * records are plain fields: the runtime promises that a thread that waits for a task sees its
 * writes, and the thread sanitizer checks this.
 *
 * In worker processes the records are those of the program: they lie in memory that both map at the
 * same addresses. The tensors do not.
 */
#ifndef PTO_TEST_PROGRAM_KERNEL_H
#define PTO_TEST_PROGRAM_KERNEL_H

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "program_diary.h"
#include "program_view.h"

typedef struct program_arg {
    pto_param_kind kind;
    bool nodep;
    uint32_t buffer; /* of managed memory; PROGRAM_NOBODY: memory of the user */
    uint32_t task;   /* AFTER: its number */
    uint64_t value;  /* of a scalar: its bits */
    pto_dtype dtype; /* of a scalar */
    pto_tensor t;
} program_arg;

/* A task that was submitted, or the memory of a pto_alloc, which counts as one. */
typedef struct program_task {
    /* set before it is submitted */
    uint32_t number; /* index of the task in the program */
    uint32_t op;     /* PROGRAM_OPS: by the end of the program */
    program_work work;
    bool no_kernel;   /* pto_alloc, pto_write */
    bool copies;      /* pto_copy: of argument 1 to argument 2 */
    uint32_t device;  /* that it runs on; of memory: that it is on */
    program_arg *arg; /* the first is its number, as a scalar */
    uint32_t n_args;
    struct program_helper *helper;
    pto_runtime *rt;

    /* set when it was submitted */
    pto_task handle;
    uint32_t level, lifetime;
    uint64_t seq;      /* its index on its level */
    uint64_t order;    /* number of tasks submitted before it */
    uint32_t buffers;  /* that it brought memory for, in one block; 0: it has no block */
    uint32_t given_up; /* of these, how many were given up */
    uint64_t block;    /* bytes of that block */
    uint32_t block_on; /* device of that block */
    uint64_t born;     /* index of the block on its level */
    uint32_t holders;  /* scopes at the birth of the block, and tasks that named it since */

    /* noted by the kernel */
    uint32_t runs;
    pto_task ran_as;
    pto_status status;
    char complaint[160];

    /* learned by a wait, of tasks that a device may fail at (program_device.h) */
    bool went_bad;

    /* for the helper */
    pto_call call;
    pto_arg *copy; /* of its arguments */
    struct program_task *next;
    bool is_complete;
} program_task;

/* What `user` points to: memory that kernels see. */
typedef struct program_shared {
    const struct program_shared *self; /* its address in the program */
    program_task *const *tasks;        /* by number */
    intptr_t shift[PROGRAM_DEVICES]; /* from addresses of a device to those that its kernels use */
} program_shared;

/* A thread that completes pending tasks. */
typedef struct program_helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    program_task *first;  /* the latest comes first: another order than that of submission */
    program_diary *diary; /* NULL, or everything runs on one thread */
    bool started, stop;
    bool once;      /* no second pto_task_complete: no thread would wait until it returns */
    bool processes; /* kernels run in worker processes, */
    bool elsewhere; /* where memory of the user lies at another address */
    bool grid;      /* sim:0 schedules for itself */
} program_helper;

static inline PTO_PRINTF(2, 3) void kernel_complain(program_task *task, const char *format, ...)
{
    if (!task->complaint[0]) {
        va_list args;
        va_start(args, format);
        vsnprintf(task->complaint, sizeof task->complaint, format, args);
        va_end(args);
    }
}

/* ---- The work ------------------------------------------------------------------------------ */

static inline uint64_t kernel_mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static inline uint64_t kernel_fold(uint64_t h, const pto_arg *arg)
{
    const size_t size = pto_dtype_size(arg->dtype);
    for (view_walk w = view_begin(arg->ndim, arg->shape, arg->strides); w.more; view_next(&w)) {
        uint64_t element = 0;
        memcpy(&element, (const char *)arg->data + w.at * (int64_t)size, size);
        h = kernel_mix(h, element);
    }
    return kernel_mix(h, (uint64_t)arg->ndim);
}

static inline void kernel_fill(uint64_t h, const pto_arg *arg, bool keep)
{
    const size_t size = pto_dtype_size(arg->dtype);
    for (view_walk w = view_begin(arg->ndim, arg->shape, arg->strides); w.more; view_next(&w)) {
        char *at = (char *)arg->data + w.at * (int64_t)size;
        uint64_t element = 0;
        if (keep) {
            memcpy(&element, at, size);
        }
        h = kernel_mix(h, 1);
        element = kernel_mix(h, element);
        memcpy(at, &element, size);
    }
}

static inline uint64_t kernel_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Odd delays let others have the core. */
static inline void kernel_delay(uint32_t nanoseconds)
{
    if (nanoseconds) {
        const uint64_t end = kernel_now() + nanoseconds;
        do {
            if (nanoseconds & 1) {
                sched_yield();
            }
        } while (kernel_now() < end);
    }
}

static inline bool kernel_reads(pto_param_kind kind)
{
    return kind == PTO_PARAM_INPUT || kind == PTO_PARAM_INOUT;
}

static inline bool kernel_writes(pto_param_kind kind)
{
    return kind == PTO_PARAM_OUTPUT || kind == PTO_PARAM_INOUT;
}

/* The work of a copy, for the oracle. Both sides have the same shape. */
static inline void kernel_copy(const pto_arg *to, const pto_arg *from)
{
    const size_t size = pto_dtype_size(to->dtype);
    view_walk a = view_begin(to->ndim, to->shape, to->strides);
    for (view_walk b = view_begin(from->ndim, from->shape, from->strides); b.more; view_next(&b)) {
        memcpy((char *)to->data + a.at * (int64_t)size,
               (const char *)from->data + b.at * (int64_t)size, size);
        view_next(&a);
    }
}

/* The work of a task on its arguments, in the runtime or for the oracle. */
static inline pto_status kernel_work(const program_task *task, const pto_arg *args, bool delays)
{
    uint64_t h = 1;
    uint32_t n = 0;
    if (task->copies) {
        kernel_copy(&args[2], &args[1]);
        return PTO_OK;
    }
    if (delays) {
        kernel_delay(task->work.delay[0]);
    }
    for (uint32_t i = 0; i < task->n_args; i++) {
        const pto_param_kind kind = task->arg[i].kind;
        if (kind == PTO_PARAM_SCALAR) {
            h = kernel_mix(h, args[n].u64);
        } else if (kernel_reads(kind)) {
            h = kernel_fold(h, &args[n]);
        }
        n += kind != PTO_PARAM_AFTER;
    }
    if (task->work.failure == FAIL_BEFORE || (task->work.failure == FAIL_BY_DATA && h % 2)) {
        return PTO_KERNEL_FAILED;
    }
    if (delays) {
        kernel_delay(task->work.delay[1]);
    }
    n = 0;
    for (uint32_t i = 0; i < task->n_args; i++) {
        const pto_param_kind kind = task->arg[i].kind;
        if (kernel_writes(kind)) {
            kernel_fill(h + i, &args[n], kind == PTO_PARAM_INOUT);
        }
        n += kind != PTO_PARAM_AFTER;
    }
    return task->work.failure == FAIL_AFTER ? PTO_KERNEL_FAILED : PTO_OK;
}

/* ---- In the runtime ------------------------------------------------------------------------ */

/* Whether one argument arrived as it was submitted. */
static inline void kernel_check_arg(program_task *task, const program_arg *want, const pto_arg *got,
                                    ptrdiff_t shift)
{
    const pto_tensor *t = &want->t;
    if (want->kind != PTO_PARAM_SCALAR &&
        program_device_number(got->device) != program_device_number(t->device)) {
        kernel_complain(task, "a tensor arrives on another device");
    }
    if (want->kind == PTO_PARAM_SCALAR) {
        if (got->u64 != want->value || got->shape || got->data) {
            kernel_complain(task, "a scalar of %" PRIu64 " arrives as %" PRIu64, want->value,
                            got->u64);
        }
        return;
    }
    const size_t bytes = (size_t)t->ndim * sizeof *t->shape;
    if (got->dtype != t->dtype || got->ndim != t->ndim ||
        memcmp(got->shape, t->shape, bytes) != 0 || memcmp(got->strides, t->strides, bytes) != 0) {
        kernel_complain(task, "a tensor arrives with another dtype, shape or strides");
    }
    const char *place = t->storage;
    if (place) {
        place += t->offset * (int64_t)pto_dtype_size(t->dtype) + shift;
    }
    if (pto_tensor_numel(t) == 0) {
        if (got->data) {
            kernel_complain(task, "a tensor without elements arrives with an address");
        }
    } else if (!got->data || (want->buffer == PROGRAM_NOBODY && got->data != place)) {
        kernel_complain(task, "a tensor arrives at another address");
    }
}

static inline void kernel_check_call(program_task *task, const pto_call *call)
{
    const program_shared *shared = call->user;
    const program_helper *helper = task->helper;
    const ptrdiff_t shift = (ptrdiff_t)((uintptr_t)shared - (uintptr_t)shared->self) +
                            shared->shift[task->device];
    uint32_t n = 0;
    for (uint32_t i = 0; i < task->n_args; i++) {
        if (task->arg[i].kind == PTO_PARAM_AFTER) {
            continue;
        }
        if (n < call->n_args) {
            kernel_check_arg(task, &task->arg[i], &call->args[n], shift);
        }
        n++;
    }
    if (n != call->n_args) {
        kernel_complain(task, "%u arguments arrive, not %u", call->n_args, n);
    }
    const bool known = helper->processes ? call->rt && call->rt != task->rt : call->rt == task->rt;
    if (call->worker_type != task->work.type || !known) {
        kernel_complain(task, "called as type %d of another runtime", (int)call->worker_type);
    }
    if (program_device_number(call->device) != task->device) {
        kernel_complain(task, "called on device %u, not %u", program_device_number(call->device),
                        task->device);
    }
    if (helper->elsewhere && !shift) {
        kernel_complain(task, "memory of the user lies at the program's address");
    }
}

/* Kernels must not make these calls: all are refused, also on the orchestrating thread. */
static inline void kernel_meddle(program_task *task, const pto_call *call)
{
    uint64_t value;
    const pto_status answers[] = {
        pto_wait(call->rt),
        pto_wait_task(call->rt, call->task),
        pto_scope_begin(call->rt),
        pto_scope_end(call->rt),
        pto_submit_task(call->rt, 1, PTO_KERNEL_TYPE, NULL, 0, NULL),
        pto_read(call->rt, &task->arg[task->n_args - 1].t, &value, sizeof value),
        pto_clear_error(call->rt),
        pto_check(call->rt),
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (answers[i] != PTO_WRONG_THREAD) {
            kernel_complain(task, "a kernel made forbidden call %zu, which returned %s", i,
                            pto_status_name(answers[i]));
        }
    }
}

/* The work of a task, with its records. */
static inline pto_status kernel_do(program_task *task, const pto_call *call)
{
    kernel_check_call(task, call);
    if (task->work.meddles) {
        kernel_meddle(task, call);
    }
    task->runs++;
    task->ran_as = call->task;
    task->status = kernel_work(task, call->args, true);
    if (task->helper->diary) {
        diary_note(task->helper->diary, "a task ran", call->task);
        diary_note(task->helper->diary, "its status", task->status);
    }
    return task->status == PTO_OK ? PTO_OK
                                  : pto_fail(task->status, "task %u was to fail", task->number);
}

/* With the handle of the program or of a worker process. */
static inline void kernel_complete(pto_runtime *rt, const program_task *task, pto_status status,
                                   bool once)
{
    /* From here on the runtime may recycle the task; its record stays. */
    const pto_task handle = task->call.task;
    pto_status answer = pto_task_complete(rt, handle, status);
    if (answer == PTO_OK && !once) {
        answer = pto_task_complete(rt, handle, PTO_OK);
        answer = answer == PTO_BAD_TASK ? PTO_OK : PTO_CORRUPT;
    }
    if (answer != PTO_OK) {
        fprintf(stderr, "pto_task_complete: %s\n", pto_error_detail());
        abort(); /* otherwise the mistake would be lost */
    }
}

static inline void *helper_main(void *argument)
{
    program_helper *helper = argument;
    pthread_mutex_lock(&helper->lock);
    for (;;) {
        while (!helper->first && !helper->stop) {
            pthread_cond_wait(&helper->change, &helper->lock);
        }
        program_task *task = helper->first;
        if (!task) {
            break;
        }
        helper->first = task->next;
        pthread_mutex_unlock(&helper->lock);
        const bool meanwhile = task->work.ending == END_MEANWHILE;
        pto_arg *args = task->copy;
        kernel_complete(task->rt, task,
                        helper->processes ? task->status : kernel_do(task, &task->call),
                        helper->once);
        free(args);
        pthread_mutex_lock(&helper->lock);
        if (meanwhile) {
            task->is_complete = true;
            pthread_cond_broadcast(&helper->change);
        }
    }
    pthread_mutex_unlock(&helper->lock);
    return NULL;
}

static inline void helper_start(program_helper *helper, const pto_config *config, bool once)
{
    pthread_mutexattr_t lock;
    pthread_condattr_t change;
    memset(helper, 0, sizeof *helper);
    helper->once = once;
    helper->processes = config->place == PTO_PLACE_PROCESS;
    helper->elsewhere = helper->processes && config->map_twice;
    helper->grid = config->place == PTO_PLACE_GPU;
    pthread_mutexattr_init(&lock);
    pthread_mutexattr_setpshared(&lock, helper->processes);
    pthread_condattr_init(&change);
    pthread_condattr_setpshared(&change, helper->processes);
    helper->started = pthread_mutex_init(&helper->lock, &lock) == 0 &&
                      pthread_cond_init(&helper->change, &change) == 0 &&
                      pthread_create(&helper->thread, NULL, helper_main, helper) == 0;
    pthread_condattr_destroy(&change);
    pthread_mutexattr_destroy(&lock);
    program_must(helper->started, "no thread");
}

/* The helper has completed all its tasks. Workers may still be about to leave their kernels. */
static inline void helper_stop(program_helper *helper)
{
    if (helper->started && !helper->stop) {
        pthread_mutex_lock(&helper->lock);
        helper->stop = true;
        pthread_cond_broadcast(&helper->change);
        pthread_mutex_unlock(&helper->lock);
        pthread_join(helper->thread, NULL);
    }
}

/* After the runtime and all its workers are gone. */
static inline void helper_free(program_helper *helper)
{
    helper_stop(helper);
    if (helper->started) {
        pthread_cond_destroy(&helper->change);
        pthread_mutex_destroy(&helper->lock);
        helper->started = false;
    }
}

/* The worker's arguments are gone when the kernel returns. */
static inline void kernel_keep_call(program_task *task, const pto_call *call)
{
    task->copy = program_room(call->n_args, sizeof *task->copy);
    memcpy(task->copy, call->args, call->n_args * sizeof *task->copy);
    task->call = *call;
    task->call.args = task->copy;
}

/* Of the tasks that others complete, every second one in a worker process has a thread there. */
static inline bool kernel_has_thread(const program_task *task)
{
    return task->helper->processes && task->number % 2 &&
           (task->work.ending == END_LATER || task->work.ending == END_MEANWHILE);
}

static inline void *kernel_thread(void *argument)
{
    program_task *task = argument;
    pto_arg *args = task->copy;
    kernel_complete(task->call.rt, task, kernel_do(task, &task->call), task->helper->once);
    free(args);
    return NULL;
}

static inline pto_status kernel_start_thread(program_task *task, const pto_call *call)
{
    pthread_t thread;
    const bool meanwhile = task->work.ending == END_MEANWHILE;
    kernel_keep_call(task, call);
    program_must(pthread_create(&thread, NULL, kernel_thread, task) == 0, "no thread");
    if (meanwhile) {
        pthread_join(thread, NULL);
    } else {
        pthread_detach(thread);
    }
    return PTO_PENDING;
}

/* The thread of the program completes the task. In another process than the kernel's it has neither
 * the arguments nor the memory, so there it only completes what the kernel has done. */
static inline pto_status kernel_hand_over(program_task *task, const pto_call *call)
{
    program_helper *helper = task->helper;
    if (helper->processes) {
        task->call = *call;
        PTO_IGNORE(kernel_do(task, call));
    } else {
        kernel_keep_call(task, call);
    }
    pthread_mutex_lock(&helper->lock);
    task->next = helper->first;
    helper->first = task;
    pthread_cond_broadcast(&helper->change);
    while (task->work.ending == END_MEANWHILE && !task->is_complete) {
        pthread_cond_wait(&helper->change, &helper->lock);
    }
    pthread_mutex_unlock(&helper->lock);
    return PTO_PENDING;
}

/* The kernel itself. */
static inline pto_status kernel_main(const pto_call *call)
{
    const program_shared *shared = call->user;
    program_task *task = shared->tasks[call->args[0].u64];
    if (task->helper->grid && call->device.type == PTO_DEVICE_SIM && call->device.index == 0 &&
        call->worker_type != PTO_ACCELERATOR) {
        return kernel_do(task, call); /* a grid has no pending kernels */
    }
    switch (task->work.ending) {
    case END_RETURN:
        break;
    case END_INSIDE:
        task->call = *call;
        kernel_complete(call->rt, task, kernel_do(task, call), true);
        return PTO_PENDING;
    case END_LATER:
    case END_MEANWHILE:
        return kernel_has_thread(task) ? kernel_start_thread(task, call)
                                       : kernel_hand_over(task, call);
    }
    return kernel_do(task, call);
}

#endif /* PTO_TEST_PROGRAM_KERNEL_H */
