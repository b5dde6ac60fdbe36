/* program_model.h - the expected answers of the runtime: scopes, lifetimes, versions and room.
 *
 * The model knows what was submitted, but not what has run: no answer may depend on that. Failures
 * of kernels are left to the oracle.
 *
 *   lifetime   a boundary scope (or the first one) and the scopes in it up to the next boundary.
 *              Memory lives in one, on one level. Number 0 is outside all scopes.
 *   buffer     managed memory: the lifetime it was made in, its version, and whether it has memory.
 *   slot       the tensor that an operation has made.
 */
#ifndef PTO_TEST_PROGRAM_MODEL_H
#define PTO_TEST_PROGRAM_MODEL_H

#include "program_kernel.h"

#define MODEL_SCOPES 8

typedef struct model_lifetime {
    uint32_t level;
    uint32_t scopes; /* open; 0: the lifetime is over */
} model_lifetime;

typedef struct model_scope {
    uint32_t lifetime;
    bool boundary;
    uint32_t tasks; /* submitted before it began */
} model_scope;

typedef struct model_buffer {
    uint64_t bytes;
    uint32_t lifetime;
    bool has_memory;
    uint32_t version;
    bool given_up;
    uint32_t device;
    uint32_t owner; /* the task that brought the memory */
} model_buffer;

typedef struct model_slot {
    bool is_made;
    uint32_t buffer; /* PROGRAM_NOBODY: memory of the user */
    pto_tensor t;
} model_slot;

typedef struct model_room {
    uint64_t tasks, heap, args;
} model_room;

typedef struct model {
    program_arena *arena; /* of the tasks; NULL: the heap */
    uint32_t levels;
    model_room room[PTO_MAX_LEVELS];
    uint64_t device_heap; /* bytes of a heap on a device but the host, on each level */
    uint64_t max_buffers, max_blocks;
    model_scope scope[MODEL_SCOPES];
    uint32_t n_scopes, n_boundaries;
    model_lifetime lifetime[PROGRAM_OPS + 1];
    uint32_t n_lifetimes;
    model_buffer buffer[PROGRAM_OPS];
    uint32_t n_buffers;
    model_slot slot[PROGRAM_OPS];
    program_task *task[PROGRAM_TASKS];
    uint32_t n_tasks;
    uint64_t order;                /* of the next task */
    uint32_t task_of[PROGRAM_OPS]; /* by the operation that submitted it, or PROGRAM_NOBODY */
    uint64_t tasks_on[PTO_MAX_LEVELS], blocks_on[PTO_MAX_LEVELS];
} model;

static inline void model_init(model *m, uint32_t levels, program_arena *arena)
{
    memset(m, 0, sizeof *m);
    m->arena = arena;
    m->levels = levels;
    m->n_lifetimes = 1;
    memset(m->task_of, 0xff, sizeof m->task_of);
}

/* ---- Scopes -------------------------------------------------------------------------------- */

static inline uint32_t model_level(const model *m)
{
    return m->n_boundaries < m->levels ? m->n_boundaries : m->levels - 1;
}

static inline uint32_t model_lifetime_now(const model *m)
{
    return m->n_scopes ? m->scope[m->n_scopes - 1].lifetime : 0;
}

static inline void model_begin(model *m, bool boundary)
{
    model_scope *scope = &m->scope[m->n_scopes];
    m->n_boundaries += boundary;
    if (boundary || !m->n_scopes) {
        scope->lifetime = m->n_lifetimes++;
        m->lifetime[scope->lifetime].level = model_level(m);
    } else {
        scope->lifetime = model_lifetime_now(m);
    }
    scope->boundary = boundary;
    scope->tasks = m->n_tasks;
    m->lifetime[scope->lifetime].scopes++;
    m->n_scopes++;
}

static inline void model_end(model *m)
{
    const model_scope *scope = &m->scope[--m->n_scopes];
    m->n_boundaries -= scope->boundary;
    m->lifetime[scope->lifetime].scopes--;
}

/* Whether scopes may hold memory of a task: it has brought some, and not all of it was given up. */
static inline bool model_has_block(const program_task *task)
{
    return task->buffers > task->given_up;
}

/* Scopes that still hold the block of a task: those of its lifetime that were open at its submit
 * and still are. */
static inline uint32_t model_scopes_of(const model *m, const program_task *task)
{
    uint32_t count = 0;
    for (uint32_t i = 0; model_has_block(task) && i < m->n_scopes; i++) {
        const model_scope *scope = &m->scope[i];
        count += scope->lifetime == task->lifetime && scope->tasks <= task->number;
    }
    return count;
}

/* ---- Memory -------------------------------------------------------------------------------- */

static inline uint32_t model_add_buffer(model *m, uint64_t bytes, uint32_t device)
{
    m->buffer[m->n_buffers] = (model_buffer){.bytes = bytes,
                                             .lifetime = model_lifetime_now(m),
                                             .device = device,
                                             .owner = PROGRAM_NOBODY};
    return m->n_buffers++;
}

static inline void model_make(model *m, uint32_t op, const pto_tensor *t, uint32_t buffer)
{
    m->slot[op] = (model_slot){true, buffer, *t};
}

static inline bool model_is_alive(const model *m, uint32_t buffer)
{
    return m->lifetime[m->buffer[buffer].lifetime].scopes > 0 && !m->buffer[buffer].given_up;
}

static inline uint64_t model_count_alive(const model *m)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->n_buffers; i++) {
        count += model_is_alive(m, i);
    }
    return count;
}

/* The same, and those that were given up, whose records stay with their lifetime. */
static inline uint64_t model_count_records(const model *m)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->n_buffers; i++) {
        count += m->lifetime[m->buffer[i].lifetime].scopes > 0;
    }
    return count;
}

static inline void model_release(model *m, uint32_t buffer)
{
    model_buffer *b = &m->buffer[buffer];
    b->given_up = true;
    if (b->owner != PROGRAM_NOBODY) {
        m->task[b->owner]->given_up++;
    }
}

static inline uint64_t model_bytes(const pto_tensor *t)
{
    return (uint64_t)pto_tensor_numel(t) * pto_dtype_size(t->dtype);
}

/* Of the tensor that an operation makes. */
static inline uint64_t model_bytes_of(const program_op *op)
{
    uint64_t bytes = pto_dtype_size(op->dtype);
    for (int32_t d = 0; d < op->ndim; d++) {
        bytes *= (uint64_t)op->shape[d];
    }
    return bytes;
}

static inline bool model_is_whole(const model_buffer *b, const pto_tensor *t)
{
    return model_bytes(t) == b->bytes && t->offset == 0 && pto_tensor_is_contiguous(t);
}

/* ---- Arguments ------------------------------------------------------------------------------ */

/* The tensor of a parameter. */
static inline pto_tensor model_view(const model *m, const program_param *param)
{
    const model_slot *slot = &m->slot[param->of];
    pto_tensor t = slot->t;
    if (param->to > 0 && t.ndim) {
        program_must(pto_tensor_slice(&t, 0, param->from, param->to, 1, &t) == PTO_OK, "rows");
    } else if (param->view) {
        t = view_make(&t, param->view, kernel_writes(param->kind));
    }
    if (slot->buffer != PROGRAM_NOBODY) {
        t.version = m->buffer[slot->buffer].version + (uint32_t)param->version;
    }
    return t;
}

/* A number of one of the kinds there are. */
static inline void model_resolve_scalar(uint64_t value, program_arg *arg)
{
    static const pto_dtype dtypes[] = {PTO_UINT64, PTO_INT64, PTO_FLOAT64};
    arg->dtype = dtypes[value % 3];
    arg->value = value;
    if (arg->dtype == PTO_FLOAT64) {
        const double number = (double)(int64_t)value / 1024;
        memcpy(&arg->value, &number, sizeof number);
    }
}

/* One argument in the current state; false if what it needs was never made. */
static inline bool model_resolve_param(const model *m, const program_param *param, program_arg *arg)
{
    *arg = (program_arg){.kind = param->kind,
                         .nodep = param->nodep,
                         .buffer = PROGRAM_NOBODY,
                         .task = PROGRAM_NOBODY};
    if (param->kind == PTO_PARAM_SCALAR) {
        model_resolve_scalar(param->view, arg);
        return true;
    }
    if (param->kind == PTO_PARAM_AFTER) {
        arg->task = m->task_of[param->of];
        return arg->task != PROGRAM_NOBODY;
    }
    if (!m->slot[param->of].is_made) {
        return false;
    }
    arg->buffer = m->slot[param->of].buffer;
    arg->t = model_view(m, param);
    return true;
}

static inline void model_free_task(const model *m, program_task *task)
{
    if (task && !m->arena) {
        free(task->arg);
        free(task);
    }
}

/* Where a task runs: on the device of its tensors. Of a copy, the first that is not on the host
 * decides, outputs before inputs. */
static inline uint32_t model_device_of(const program_task *task)
{
    uint32_t device = 0, written = 0;
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        if (arg->kind == PTO_PARAM_SCALAR || arg->kind == PTO_PARAM_AFTER) {
            continue;
        }
        const uint32_t number = program_device_number(arg->t.device);
        device = device ? device : number;
        written = written || !kernel_writes(arg->kind) ? written : number;
    }
    return task->copies && written ? written : device;
}

/* Whether a task that is no copy has tensors on two devices. */
static inline bool model_is_apart(const program_task *task)
{
    bool apart = false;
    uint32_t seen = PROGRAM_NOBODY;
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        if (arg->kind != PTO_PARAM_SCALAR && arg->kind != PTO_PARAM_AFTER) {
            const uint32_t number = program_device_number(arg->t.device);
            apart = apart || (seen != PROGRAM_NOBODY && seen != number);
            seen = number;
        }
    }
    return apart && !task->copies;
}

/* A task as it would be submitted now; NULL if something it needs does not exist. */
static inline program_task *model_resolve(const model *m, const program *p, uint32_t op)
{
    const program_op *o = &p->op[op];
    program_task *task = arena_room(m->arena, 1, sizeof *task);
    task->number = m->n_tasks;
    task->op = op;
    task->work = o->work;
    task->n_args = o->n_params + 1;
    task->arg = arena_room(m->arena, task->n_args, sizeof *task->arg);
    task->arg[0] = (program_arg){.kind = PTO_PARAM_SCALAR,
                                 .buffer = PROGRAM_NOBODY,
                                 .task = PROGRAM_NOBODY,
                                 .value = task->number,
                                 .dtype = PTO_UINT64};
    for (uint32_t i = 0; i < o->n_params; i++) {
        if (!model_resolve_param(m, &p->param[o->first_param + i], &task->arg[i + 1])) {
            model_free_task(m, task);
            return NULL;
        }
    }
    task->copies = o->kind == OP_COPY;
    if (task->copies) {
        view_fit(&task->arg[1].t, &task->arg[2].t);
    }
    task->device = model_device_of(task);
    return task;
}

/* The memory of a buffer without a writer, as the task that pto_alloc makes for it. */
static inline program_task *model_resolve_memory(const model *m, uint32_t op, uint32_t buffer)
{
    program_task *task = arena_room(m->arena, 1, sizeof *task);
    task->number = m->n_tasks;
    task->op = op;
    task->no_kernel = true;
    task->n_args = 1;
    task->device = m->buffer[buffer].device;
    task->arg = arena_room(m->arena, 1, sizeof *task->arg);
    *task->arg = (program_arg){.kind = PTO_PARAM_OUTPUT, .buffer = buffer, .task = PROGRAM_NOBODY};
    return task;
}

/* ---- Verdicts ------------------------------------------------------------------------------ */

/* What the runtime may answer. `wrong` and `may` are sets of statuses. */
typedef struct model_verdict {
    uint64_t wrong; /* if any: it must be refused with one of these or of `may` (with several
                       mistakes, any of them may be named) */
    uint64_t may;   /* else: this or PTO_OK, if `good` */
    bool good;
} model_verdict;

static inline uint64_t model_bit(pto_status status)
{
    return UINT64_C(1) << (unsigned)status;
}

static inline bool model_accepts(const model_verdict *v, pto_status status)
{
    if (v->wrong) {
        return (v->wrong | v->may) & model_bit(status);
    }
    return status == PTO_OK ? v->good : (v->may & model_bit(status)) != 0;
}

/* What is wrong with one argument, by the state before the task. `brought`: an earlier argument
 * allocates the memory. */
static inline uint64_t model_judge_arg(const model *m, const program_arg *arg, bool brought)
{
    if (arg->kind == PTO_PARAM_SCALAR || arg->kind == PTO_PARAM_AFTER ||
        arg->buffer == PROGRAM_NOBODY) {
        return 0;
    }
    const model_buffer *b = &m->buffer[arg->buffer];
    const uint32_t ahead = arg->t.version - b->version;
    uint64_t wrong = 0;
    if (!model_is_alive(m, arg->buffer)) {
        return model_bit(PTO_STALE);
    }
    if (ahead != 0 && !(arg->kind == PTO_PARAM_OUTPUT && ahead == 1 && b->has_memory)) {
        wrong |= model_bit(PTO_BAD_VERSION);
    }
    if (!b->has_memory && arg->kind != PTO_PARAM_OUTPUT) {
        wrong |= model_bit(PTO_NOT_WRITTEN);
    }
    if (!b->has_memory && arg->kind == PTO_PARAM_OUTPUT && !brought &&
        !model_is_whole(b, &arg->t)) {
        wrong |= model_bit(PTO_NOT_CONTIGUOUS);
    }
    return wrong;
}

/* ---- Room ----------------------------------------------------------------------------------- */

/* Whether an argument is the first in its task to allocate its buffer. */
static inline bool model_brings(const model *m, const program_task *task, uint32_t n)
{
    const program_arg *arg = &task->arg[n];
    if (arg->kind != PTO_PARAM_OUTPUT || arg->buffer == PROGRAM_NOBODY ||
        m->buffer[arg->buffer].has_memory) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (task->arg[i].kind == PTO_PARAM_OUTPUT && task->arg[i].buffer == arg->buffer) {
            return false;
        }
    }
    return true;
}

static inline uint64_t model_block(const model_buffer *b)
{
    return (b->bytes + 63) / 64 * 64;
}

/* What a submit needs from a level. All of it is on one device. */
typedef struct model_need {
    uint32_t device;
    uint64_t blocks;
    uint64_t bytes;   /* of the heap, in so many blocks */
    uint64_t largest; /* of the blocks */
} model_need;

static inline void model_add_need(model_need *need, uint64_t bytes, uint32_t device)
{
    need->device = device;
    need->blocks++;
    need->bytes += bytes;
    need->largest = bytes > need->largest ? bytes : need->largest;
}

/* Memory lives where its buffer does. A task packs that of its own lifetime into one block; a
 * buffer of an outer lifetime has a block of its own, as after pto_alloc, on that level. */
static inline void model_needs(const model *m, const program_task *task, model_need *need)
{
    uint64_t own = 0;
    uint32_t device = 0;
    bool brings = false;
    memset(need, 0, PTO_MAX_LEVELS * sizeof *need);
    for (uint32_t i = 0; i < task->n_args; i++) {
        if (model_brings(m, task, i)) {
            const model_buffer *b = &m->buffer[task->arg[i].buffer];
            if (task->no_kernel || b->lifetime != model_lifetime_now(m)) {
                model_add_need(&need[m->lifetime[b->lifetime].level], model_block(b), b->device);
            } else {
                own += model_block(b);
                device = b->device;
                brings = true;
            }
        }
    }
    if (brings) {
        model_add_need(&need[model_level(m)], own, device);
    }
}

/* The oldest block of a level that an open scope holds; false if there is none. */
static inline bool model_oldest_held(const model *m, uint32_t level, uint64_t *oldest)
{
    bool found = false;
    for (uint32_t i = 0; i < m->n_tasks; i++) {
        const program_task *t = m->task[i];
        if (model_has_block(t) && t->level == level && m->lifetime[t->lifetime].scopes &&
            (!found || t->born < *oldest)) {
            *oldest = t->born;
            found = true;
        }
    }
    return found;
}

/* No argument needs more than this in the ring of arguments. */
#define MODEL_ARG_BYTES 256
#define MODEL_COPY_ARGS 8 /* a work request has scalars beside its tensors */

/* A stall is right exactly if open scopes hold so much that there is no room, whatever completes:
 * they hold blocks, and all blocks behind the oldest of these wait for it. For the records of
 * blocks this is a count. In a heap it also depends on where it wraps: a block is never split, so
 * up to one block may be lost there. Slots and arguments come back as tasks complete. */
static inline void model_judge_level(const model *m, uint32_t level, const model_need *need,
                                     uint64_t args, model_verdict *v)
{
    const model_room *room = &m->room[level];
    const uint64_t heap = need->device ? m->device_heap : room->heap;
    uint64_t oldest = 0, blocks = 0, held = 0, largest = need->largest;
    const bool holds = model_oldest_held(m, level, &oldest);
    for (uint32_t i = 0; holds && i < m->n_tasks; i++) {
        const program_task *t = m->task[i];
        if (t->buffers && t->level == level && t->born >= oldest) {
            blocks++;
            if (t->block_on == need->device) {
                held += t->block;
                largest = t->block > largest ? t->block : largest;
            }
        }
    }
    if (need->largest > heap) {
        v->may |= model_bit(PTO_TOO_LARGE);
        v->good = false;
    }
    if (blocks + need->blocks > m->max_blocks || (need->bytes && held + need->bytes > heap)) {
        v->may |= model_bit(holds ? PTO_STALLED : PTO_TOO_LARGE);
        v->good = false;
    }
    if (args * MODEL_ARG_BYTES > room->args) {
        v->may |= model_bit(PTO_TOO_LARGE);
    }
    if (holds && need->bytes && held + need->bytes + largest > heap) {
        v->may |= model_bit(PTO_STALLED);
    }
}

static inline void model_judge_room(const model *m, const program_task *task, model_verdict *v)
{
    model_need need[PTO_MAX_LEVELS];
    model_needs(m, task, need);
    v->good = true;
    for (uint32_t level = 0; level < m->levels; level++) {
        const bool runs_here = level == model_level(m) && !task->no_kernel;
        if (need[level].blocks || runs_here) {
            model_judge_level(m, level, &need[level],
                              !runs_here     ? 0
                              : task->copies ? MODEL_COPY_ARGS
                                             : task->n_args,
                              v);
        }
    }
}

static inline model_verdict model_judge(const model *m, const program_task *task)
{
    model_verdict v = {0};
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        bool brought = false;
        for (uint32_t j = 0; j < i && arg->buffer != PROGRAM_NOBODY; j++) {
            brought = brought ||
                      (task->arg[j].buffer == arg->buffer && task->arg[j].kind == PTO_PARAM_OUTPUT);
        }
        v.wrong |= model_judge_arg(m, arg, brought);
        if (brought && !m->buffer[arg->buffer].has_memory) {
            v.may |= model_bit(PTO_NOT_CONTIGUOUS); /* or not: both are right */
        }
    }
    if (model_is_apart(task)) {
        v.wrong |= model_bit(PTO_DEVICES_DIFFER);
    }
    if (task->device && task->work.type == PTO_AI_CPU) {
        v.wrong |= model_bit(PTO_BAD_WORKER); /* simulated devices have no such workers */
    }
    model_judge_room(m, task, &v);
    return v;
}

/* ---- Tasks that were submitted ------------------------------------------------------------- */

/* Whether an argument before number `n` names memory of the same owner. */
static inline bool model_named_before(const model *m, const program_task *task, uint32_t n,
                                      uint32_t owner)
{
    for (uint32_t i = 0; i < n; i++) {
        const program_arg *arg = &task->arg[i];
        if (arg->buffer != PROGRAM_NOBODY && m->buffer[arg->buffer].owner == owner) {
            return true;
        }
    }
    return false;
}

/* Before the submit: its kernel may need the record at any time from then on. */
static inline void model_expect(model *m, program_task *task)
{
    m->task[task->number] = task;
}

/* A task, or memory that no task brings, joins a lifetime. */
static inline void model_enter(model *m, program_task *task, uint32_t lifetime)
{
    task->lifetime = lifetime;
    task->level = m->lifetime[lifetime].level;
    task->order = m->order;
    if (!task->no_kernel) {
        task->seq = m->tasks_on[task->level]++;
    }
}

/* This task brings the memory of the buffer, in its block. The open scopes of the lifetime hold the
 * block. */
static inline void model_own(model *m, program_task *task, model_buffer *b)
{
    if (!task->buffers++) {
        task->born = m->blocks_on[task->level]++;
        task->holders = m->lifetime[task->lifetime].scopes;
    }
    task->block += model_block(b);
    task->block_on = b->device;
    b->owner = task->number;
    b->has_memory = true;
}

/* Memory is allocated by pto_alloc or pto_write, which are no tasks for the runtime, ... */
static inline void model_has_memory(model *m, program_task *memory)
{
    model_buffer *b = &m->buffer[memory->arg->buffer];
    m->n_tasks++;
    model_enter(m, memory, b->lifetime);
    model_own(m, memory, b);
}

/* ... or by the first task that writes it. */
static inline void model_submitted(model *m, program_task *task)
{
    const uint32_t now = model_lifetime_now(m);
    uint32_t own[PROGRAM_PARAMS], n_own = 0;
    m->n_tasks++;
    for (uint32_t i = 0; i < task->n_args; i++) {
        if (model_brings(m, task, i)) {
            model_buffer *b = &m->buffer[task->arg[i].buffer];
            if (b->lifetime == now) {
                own[n_own++] = task->arg[i].buffer;
                continue;
            }
            program_task *memory = model_resolve_memory(m, task->op, task->arg[i].buffer);
            model_expect(m, memory);
            m->n_tasks++;
            model_enter(m, memory, b->lifetime);
            model_own(m, memory, b);
        }
    }
    model_enter(m, task, now);
    m->order++;
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        const uint32_t owner = arg->buffer == PROGRAM_NOBODY ? PROGRAM_NOBODY
                                                             : m->buffer[arg->buffer].owner;
        if (owner != PROGRAM_NOBODY && !model_named_before(m, task, i, owner)) {
            m->task[owner]->holders++;
        }
    }
    for (uint32_t i = 0; i < n_own; i++) {
        model_own(m, task, &m->buffer[own[i]]);
    }
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        if (arg->buffer != PROGRAM_NOBODY && arg->kind == PTO_PARAM_OUTPUT) {
            model_buffer *b = &m->buffer[arg->buffer];
            b->version = arg->t.version > b->version ? arg->t.version : b->version;
        }
    }
}

#endif /* PTO_TEST_PROGRAM_MODEL_H */
