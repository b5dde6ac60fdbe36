/* program_make.h - a program from a seed, or from the bytes of a fuzzer.
 *
 * The generator keeps a model of the program so far, so that most of it makes sense: tensors are
 * written before they are read, and used while they live. Sometimes they are not, on purpose. A run
 * may differ from this model (a branch skips an operation, a ring is too small). Then the runtime
 * refuses more calls than planned, and must do so with the right messages.
 */
#ifndef PTO_TEST_PROGRAM_MAKE_H
#define PTO_TEST_PROGRAM_MAKE_H

#include "program_config.h"
#include "program_model.h"

typedef struct maker {
    program *p;
    test_rng rng;
    model m;
    program_profile profile;
    bool fails, pends, meddles;     /* whether tasks do */
    bool same;                      /* few views: most parameters are whole tensors */
    uint32_t vouched;               /* bytes of AREA_VOUCHED in use */
    uint32_t device;                /* where tensors are picked and made */
    uint8_t area[AREA_COUNT][1024]; /* never read or written */
} maker;

static inline int64_t make_roll(maker *k, int64_t low, int64_t high)
{
    return program_roll(&k->rng, low, high);
}

static inline bool make_one_in(maker *k, int64_t n)
{
    return program_one_in(&k->rng, n);
}

/* All kinds of operations, also wrong ones. */
static inline bool make_is_wild(const maker *k)
{
    return k->profile == PROFILE_ALL || k->profile == PROFILE_SAME || k->profile == PROFILE_DEVICE;
}

/* From here on, tensors are picked and made on this device. Returns the one before. */
static inline uint32_t make_on(maker *k, uint32_t device)
{
    const uint32_t before = k->device;
    k->device = device;
    return before;
}

static inline uint32_t make_any_device(maker *k)
{
    return k->p->devices ? (uint32_t)make_roll(k, 0, PROGRAM_DEVICES - 1) : 0;
}

static inline uint64_t make_seed(maker *k)
{
    return test_next(&k->rng) | 1;
}

static inline program_op *make_op(maker *k, program_kind kind)
{
    program_op *op = &k->p->op[k->p->n_ops++];
    *op = (program_op){.kind = kind, .first_param = k->p->n_params};
    return op;
}

static inline uint32_t make_number(const maker *k, const program_op *op)
{
    return (uint32_t)(op - k->p->op);
}

/* Whether there is room for so many operations, with the ends of open scopes after them. */
static inline bool make_has_room(const maker *k, uint32_t ops)
{
    return k->p->n_ops + ops + MODEL_SCOPES <= PROGRAM_OPS &&
           k->p->n_params + ops * 8 + 64 <= PROGRAM_PARAMS;
}

/* ---- Tensors -------------------------------------------------------------------------------- */

static inline pto_dtype make_dtype(maker *k)
{
    static const pto_dtype dtypes[] = {PTO_UINT8,    PTO_FLOAT32, PTO_FLOAT16, PTO_INT64,
                                       PTO_BFLOAT16, PTO_BOOL,    PTO_FLOAT64, PTO_INT32};
    return dtypes[make_roll(k, 0, sizeof dtypes / sizeof *dtypes - 1)];
}

static inline void make_shape(maker *k, program_op *op, int64_t elements)
{
    op->ndim = make_one_in(k, 30) ? 0 : (int32_t)make_roll(k, 1, PROGRAM_DIMS);
    for (int32_t d = 0; d < op->ndim; d++) {
        op->shape[d] = make_roll(k, 1, elements < 16 ? elements : 16);
        elements /= op->shape[d];
    }
    if (op->ndim && elements > 1 && make_one_in(k, 2)) {
        op->shape[0] *= elements; /* the largest of its kind */
    }
    if (op->ndim && make_one_in(k, 40)) {
        op->shape[make_roll(k, 0, op->ndim - 1)] = 0;
    }
}

static inline void make_external(maker *k, program_area area)
{
    program_op *op = make_op(k, OP_EXTERNAL);
    const uint32_t bytes = program_area_bytes[area];
    op->area = area;
    op->dtype = make_dtype(k);
    /* Any byte may be a base: kernels handle unaligned data, and overlap is decided by bytes. */
    op->at = make_one_in(k, 2) ? 0 : (uint32_t)make_roll(k, 0, bytes / 2);
    make_shape(k, op, (bytes - op->at) / (int64_t)pto_dtype_size(op->dtype));
    op->seed = make_one_in(k, 5) ? make_seed(k) : 0;
    const pto_tensor t = view_external(op, k->area[area]);
    model_make(&k->m, make_number(k, op), &t, PROGRAM_NOBODY);
}

/* Tensors that have no byte in common. */
static inline void make_tiles(maker *k, program_area area)
{
    enum { TILE = 96 };
    const int64_t count = make_roll(k, 2, program_area_bytes[area] / TILE);
    for (uint32_t i = 0; i < count; i++) {
        program_op *op = make_op(k, OP_EXTERNAL);
        op->area = area;
        op->dtype = make_dtype(k);
        op->at = i * TILE;
        make_shape(k, op, TILE / (int64_t)pto_dtype_size(op->dtype));
        const pto_tensor t = view_external(op, k->area[area]);
        model_make(&k->m, make_number(k, op), &t, PROGRAM_NOBODY);
    }
}

/* A managed tensor as the model knows it; the runtime will set the rest. */
static inline pto_tensor make_managed_tensor(const program_op *op, uint32_t buffer)
{
    uint8_t somewhere;
    pto_tensor t;
    program_must(pto_tensor_init(&t, &somewhere, model_bytes_of(op), op->dtype, op->ndim, op->shape,
                                 NULL, 0) == PTO_OK,
                 "a managed tensor");
    t.storage = NULL;
    t.owner = buffer + 1;
    t.device = program_device(op->device);
    return t;
}

static inline void make_memory_task(maker *k, uint32_t op, uint32_t buffer)
{
    program_task *task = model_resolve_memory(&k->m, op, buffer);
    model_expect(&k->m, task);
    model_has_memory(&k->m, task);
}

static inline uint32_t make_managed(maker *k, program_kind kind, pto_dtype dtype, int64_t elements)
{
    program_op *op = make_op(k, kind);
    const uint32_t number = make_number(k, op);
    op->dtype = dtype;
    op->device = kind == OP_BUFFER ? program_device_number(k->p->config.device) : k->device;
    make_shape(k, op, elements);
    const pto_tensor t = make_managed_tensor(op, k->m.n_buffers);
    const uint32_t buffer = model_add_buffer(&k->m, model_bytes(&t), op->device);
    model_make(&k->m, number, &t, buffer);
    if (kind == OP_ALLOC) {
        make_memory_task(k, number, buffer);
    }
    return number;
}

/* ---- Choosing among tensors ----------------------------------------------------------------- */

typedef enum make_class {
    CLASS_USER,
    CLASS_FIXED,
    CLASS_WRITTEN,   /* managed, with memory */
    CLASS_UNWRITTEN, /* managed, without */
    CLASS_DEAD,      /* managed, of a lifetime that is over */
    CLASS_VOUCHED,   /* not for all tasks */
} make_class;

static inline make_class make_classify(const maker *k, uint32_t op)
{
    const model_slot *slot = &k->m.slot[op];
    if (k->p->op[op].vouched) {
        return CLASS_VOUCHED;
    }
    if (slot->buffer == PROGRAM_NOBODY) {
        return k->p->op[op].area == AREA_FIXED ? CLASS_FIXED : CLASS_USER;
    }
    if (!model_is_alive(&k->m, slot->buffer)) {
        return CLASS_DEAD;
    }
    return k->m.buffer[slot->buffer].has_memory ? CLASS_WRITTEN : CLASS_UNWRITTEN;
}

/* One of the tensors of a class on the current device, by chance; false if there is none. */
static inline bool make_pick(maker *k, make_class class, uint32_t *picked)
{
    uint32_t found[PROGRAM_OPS], count = 0;
    for (uint32_t op = 0; op < k->p->n_ops; op++) {
        if (k->m.slot[op].is_made && make_classify(k, op) == class &&
            program_device_number(k->m.slot[op].t.device) == k->device) {
            found[count++] = op;
        }
    }
    if (count) {
        *picked = found[make_roll(k, 0, count - 1)];
    }
    return count > 0;
}

static inline uint32_t make_pick_for(maker *k, pto_param_kind kind)
{
    const int64_t roll = make_roll(k, 0, 99);
    uint32_t op = 0;
    if (make_is_wild(k) && roll == 0 &&
        make_pick(k, make_one_in(k, 2) ? CLASS_DEAD : CLASS_UNWRITTEN, &op)) {
        return op;
    }
    if (k->p->devices && make_one_in(k, 150)) { /* of another device than the rest of the task */
        k->device = make_any_device(k);
    }
    if (kind == PTO_PARAM_INPUT && roll < 10 && make_pick(k, CLASS_FIXED, &op)) {
        return op;
    }
    if (kind == PTO_PARAM_OUTPUT && roll < 60 && make_pick(k, CLASS_UNWRITTEN, &op)) {
        return op;
    }
    if (roll < 70 && make_pick(k, CLASS_WRITTEN, &op)) {
        return op;
    }
    program_must(make_pick(k, CLASS_USER, &op), "no tensor of the user");
    return op;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static inline program_param *make_param(maker *k, program_op *op, pto_param_kind kind)
{
    program_param *param = &k->p->param[k->p->n_params++];
    *param = (program_param){.kind = kind};
    op->n_params++;
    return param;
}

static inline void make_tensor_param(maker *k, program_op *op, pto_param_kind kind)
{
    const uint32_t of = make_pick_for(k, kind);
    const make_class class = make_classify(k, of);
    program_param *param = make_param(k, op, kind);
    param->of = (uint16_t)of;
    if (class == CLASS_UNWRITTEN ? make_one_in(k, 40)
        : k->same                ? make_one_in(k, 24)
                                 : !make_one_in(k, 4)) {
        param->view = make_seed(k);
    }
    param->nodep = class == CLASS_FIXED && make_one_in(k, 2);
    if (class == CLASS_WRITTEN && kind == PTO_PARAM_OUTPUT && make_one_in(k, 3)) {
        param->version = 1;
    }
    if (make_is_wild(k) && make_one_in(k, 120)) {
        param->version = make_one_in(k, 2) ? -1 : 2;
    }
}

/* A task submitted earlier, more often a late one; false if there is none. */
static inline bool make_pick_task(maker *k, uint32_t *op)
{
    for (int tries = 0; tries < 8 && k->m.n_tasks; tries++) {
        const int64_t back = make_roll(k, 1, make_one_in(k, 2) ? 4 : 100);
        const program_task *task =
            k->m.task[back < k->m.n_tasks ? k->m.n_tasks - (uint32_t)back : 0];
        if (!task->no_kernel) {
            *op = task->op;
            return true;
        }
    }
    return false;
}

static inline void make_work(maker *k, program_work *work)
{
    work->type = (pto_worker_type)make_roll(k, 0, PTO_WORKER_TYPES - 1);
    if (k->device && work->type == PTO_AI_CPU && !make_one_in(k, 20)) {
        work->type = PTO_VECTOR;
    }
    if (k->fails && make_one_in(k, k->profile == PROFILE_FAIL ? 5 : 10)) {
        work->failure = (program_failure)make_roll(k, FAIL_BEFORE, FAIL_BY_DATA);
    }
    if (k->pends && make_one_in(k, 5)) {
        work->ending = (program_ending)make_roll(k, END_LATER, END_MEANWHILE);
    }
    work->meddles = k->meddles && make_one_in(k, 20);
    for (int i = 0; i < 2; i++) {
        const bool race = k->profile == PROFILE_RACE;
        if (make_one_in(k, race ? 2 : 8)) {
            work->delay[i] = (uint32_t)make_roll(k, 1,
                                                 make_one_in(k, race ? 8 : 16) ? 60000 : 6000);
        }
    }
}

/* The model continues as if the task was submitted, if that is right. */
static inline void make_submitted(maker *k, const program_op *op)
{
    program_task *task = model_resolve(&k->m, k->p, make_number(k, op));
    model_verdict v = {.good = true};
    if (task) {
        v = model_judge(&k->m, task);
    }
    if (!task || v.wrong || op->spoil != SPOIL_NOTHING) {
        model_free_task(&k->m, task);
        return;
    }
    k->m.task_of[task->op] = task->number;
    model_expect(&k->m, task);
    model_submitted(&k->m, task);
}

static inline void make_spoil(maker *k, program_op *op)
{
    uint32_t of = 0;
    op->spoil = (program_spoil)make_roll(k, SPOIL_KERNEL, SPOIL_COUNT - 1);
    if (op->spoil == SPOIL_HEAP) {
        if (!make_pick(k, CLASS_WRITTEN, &of)) {
            op->spoil = SPOIL_FORGOTTEN;
        }
        op->of = (uint16_t)of;
    }
}

static inline program_op *make_submit(maker *k, program_guard guard)
{
    program_op *op = make_op(k, OP_SUBMIT);
    const uint32_t before = make_on(k, make_any_device(k));
    const bool many = make_one_in(k, 25);
    const int64_t count = many ? make_roll(k, 10, 30) : make_roll(k, 1, 4);
    op->guard = guard;
    make_work(k, &op->work);
    for (int64_t i = 0; i < count; i++) {
        const int64_t roll = make_roll(k, 0, 99);
        uint32_t task;
        if (roll < 8) {
            make_param(k, op, PTO_PARAM_SCALAR)->view = test_next(&k->rng);
        } else if (roll < 14 && make_pick_task(k, &task)) {
            make_param(k, op, PTO_PARAM_AFTER)->of = (uint16_t)task;
        } else if (roll < 50 || many) {
            make_tensor_param(k, op, PTO_PARAM_INPUT);
        } else if (roll < 80) {
            make_tensor_param(k, op, PTO_PARAM_OUTPUT);
        } else {
            make_tensor_param(k, op, PTO_PARAM_INOUT);
        }
    }
    make_tensor_param(k, op, make_one_in(k, 3) ? PTO_PARAM_INOUT : PTO_PARAM_OUTPUT);
    if (make_is_wild(k) && make_one_in(k, 60)) {
        make_spoil(k, op);
    }
    make_submitted(k, op);
    k->device = before;
    return op;
}

/* ---- Groups of operations ------------------------------------------------------------------- */

/* A read, and one task for each of its two answers. */
static inline void make_branch(maker *k)
{
    program_op *op = make_op(k, OP_READ);
    const uint32_t before = make_on(k, make_any_device(k));
    make_tensor_param(k, op, PTO_PARAM_INPUT);
    k->device = before;
    make_submit(k, GUARD_EVEN);
    make_submit(k, GUARD_ODD);
}

/* Several tasks write parts of one memory without dependencies, a last one reads it after all of
 * them. No other task uses that memory: the program guarantees the order, without dependencies. */
static inline void make_vouched(maker *k)
{
    const int64_t parts = make_roll(k, 1, 4);
    const int64_t rows = make_roll(k, 1, 3), columns = make_roll(k, 1, 8);
    const int64_t bytes = parts * rows * columns;
    const bool managed = k->m.n_scopes && make_one_in(k, 2);
    if (!managed && k->vouched + (uint64_t)bytes > program_area_bytes[AREA_VOUCHED]) {
        return;
    }
    const uint32_t before = make_on(k, managed ? make_any_device(k) : 0);
    /* A single writer may allocate the memory itself. */
    const program_kind kind = !managed ? OP_EXTERNAL : parts == 1 ? OP_TEMP : OP_ALLOC;
    program_op *op = make_op(k, kind);
    const uint32_t memory = make_number(k, op);
    op->vouched = true;
    op->dtype = PTO_UINT8;
    op->ndim = 2;
    op->shape[0] = parts * rows;
    op->shape[1] = columns;
    op->device = k->device;
    if (managed) {
        const pto_tensor t = make_managed_tensor(op, k->m.n_buffers);
        const uint32_t buffer = model_add_buffer(&k->m, model_bytes(&t), k->device);
        model_make(&k->m, memory, &t, buffer);
        if (kind == OP_ALLOC) {
            make_memory_task(k, memory, buffer);
        }
    } else {
        op->area = AREA_VOUCHED;
        op->at = k->vouched;
        k->vouched += (uint32_t)bytes;
        const pto_tensor t = view_external(op, k->area[AREA_VOUCHED]);
        model_make(&k->m, memory, &t, PROGRAM_NOBODY);
    }
    uint32_t writer[4];
    for (int64_t i = 0; i < parts; i++) {
        op = make_op(k, OP_SUBMIT);
        writer[i] = make_number(k, op);
        make_work(k, &op->work);
        make_tensor_param(k, op, PTO_PARAM_INPUT);
        program_param *part = make_param(k, op, PTO_PARAM_OUTPUT);
        part->of = (uint16_t)memory;
        part->nodep = true;
        part->from = (int32_t)(i * rows);
        part->to = (int32_t)((i + 1) * rows);
        make_submitted(k, op);
        if (make_one_in(k, 3)) {
            make_submit(k, GUARD_NONE);
        }
    }
    op = make_op(k, OP_SUBMIT);
    make_work(k, &op->work);
    program_param *whole = make_param(k, op, PTO_PARAM_INPUT);
    whole->of = (uint16_t)memory;
    whole->nodep = make_one_in(k, 2);
    for (int64_t i = 0; i < parts; i++) {
        make_param(k, op, PTO_PARAM_AFTER)->of = (uint16_t)writer[i];
    }
    make_tensor_param(k, op, PTO_PARAM_OUTPUT);
    make_submitted(k, op);
    k->device = before;
}

static inline void make_scope(maker *k, bool boundary)
{
    make_op(k, OP_SCOPE)->boundary = boundary;
    model_begin(&k->m, boundary);
}

static inline void make_end(maker *k)
{
    make_op(k, OP_END);
    model_end(&k->m);
}

/* A loop of boundary scopes: what is written in each is used and gone. */
static inline void make_stream(maker *k)
{
    const pto_dtype dtype = make_dtype(k);
    for (int64_t turns = make_roll(k, 3, 7); turns > 0 && make_has_room(k, 8); turns--) {
        make_scope(k, true);
        const uint32_t before = make_on(k, make_any_device(k));
        const uint32_t temp = make_managed(k, OP_TEMP, dtype, 24);
        program_op *op = make_op(k, OP_SUBMIT);
        make_work(k, &op->work);
        make_tensor_param(k, op, PTO_PARAM_INPUT);
        make_param(k, op, PTO_PARAM_OUTPUT)->of = (uint16_t)temp;
        make_submitted(k, op);
        if (make_one_in(k, 2)) {
            make_submit(k, GUARD_NONE);
        }
        op = make_op(k, OP_SUBMIT);
        make_work(k, &op->work);
        make_param(k, op, PTO_PARAM_INPUT)->of = (uint16_t)temp;
        make_tensor_param(k, op, PTO_PARAM_INOUT);
        make_submitted(k, op);
        k->device = before;
        make_end(k);
    }
}

/* ---- Devices -------------------------------------------------------------------------------- */

/* A tensor on the current device that can be the destination of a copy of this dtype. */
static inline bool make_pick_like(maker *k, pto_dtype dtype, uint32_t *picked)
{
    uint32_t found[PROGRAM_OPS], count = 0;
    for (uint32_t op = 0; op < k->p->n_ops; op++) {
        const model_slot *slot = &k->m.slot[op];
        const make_class class = slot->is_made ? make_classify(k, op) : CLASS_DEAD;
        if ((class == CLASS_USER || class == CLASS_WRITTEN || class == CLASS_UNWRITTEN) &&
            slot->t.dtype == dtype && program_device_number(slot->t.device) == k->device &&
            !k->p->op[op].seed) { /* two elements at one address: which one remains is undefined */
            found[count++] = op;
        }
    }
    if (count) {
        *picked = found[make_roll(k, 0, count - 1)];
    }
    return count > 0;
}

/* A copy between two devices, or on one; to a new tensor of the same shape, or to another one. */
static inline void make_copy(maker *k)
{
    const uint32_t before = make_on(k, make_any_device(k));
    program_param from = {.kind = PTO_PARAM_INPUT,
                          .of = (uint16_t)make_pick_for(k, PTO_PARAM_INPUT)};
    from.view = make_one_in(k, 2) ? 0 : make_seed(k);
    const pto_tensor view = model_view(&k->m, &from);
    uint32_t to = 0;
    k->device = make_any_device(k);
    const bool fresh = k->m.n_scopes && make_one_in(k, 2);
    if (!fresh && !make_pick_like(k, view.dtype, &to)) {
        k->device = before;
        return;
    }
    if (fresh) {
        program_op *op = make_op(k, make_one_in(k, 4) ? OP_ALLOC : OP_TEMP);
        to = make_number(k, op);
        op->dtype = view.dtype;
        op->ndim = view.ndim;
        op->device = k->device;
        memcpy(op->shape, view.shape, (size_t)view.ndim * sizeof *op->shape);
        const pto_tensor t = make_managed_tensor(op, k->m.n_buffers);
        const uint32_t buffer = model_add_buffer(&k->m, model_bytes(&t), op->device);
        model_make(&k->m, to, &t, buffer);
        if (op->kind == OP_ALLOC) {
            make_memory_task(k, to, buffer);
        }
    }
    const bool written = make_classify(k, to) == CLASS_WRITTEN;
    program_op *op = make_op(k, OP_COPY);
    op->at = make_one_in(k, 2);
    *make_param(k, op, PTO_PARAM_INPUT) = from;
    program_param *param = make_param(k, op, PTO_PARAM_OUTPUT);
    param->of = (uint16_t)to;
    param->view = fresh || make_classify(k, to) == CLASS_UNWRITTEN || make_one_in(k, 2)
                      ? 0
                      : make_seed(k);
    param->version = written && make_one_in(k, 4);
    make_submitted(k, op);
    k->device = before;
}

/* ---- Single operations ---------------------------------------------------------------------- */

static inline void make_release(maker *k)
{
    uint32_t of;
    const uint32_t before = make_on(k, make_any_device(k));
    const int64_t roll = make_roll(k, 0, 9);
    if (make_pick(k, roll < 6 ? CLASS_WRITTEN : roll < 9 ? CLASS_UNWRITTEN : CLASS_DEAD, &of)) {
        make_op(k, OP_RELEASE)->of = (uint16_t)of;
        k->m.buffer[k->m.slot[of].buffer].given_up = true;
    }
    k->device = before;
}

static inline void make_memory(maker *k)
{
    static const program_kind kinds[] = {OP_TEMP, OP_TEMP, OP_BUFFER, OP_ALLOC};
    uint32_t of = 0;
    if (make_one_in(k, 5) &&
        make_pick(k, make_one_in(k, 2) ? CLASS_WRITTEN : CLASS_UNWRITTEN, &of)) {
        const pto_tensor *from = &k->m.slot[of].t;
        program_op *op = make_op(k, OP_RECAST);
        op->of = (uint16_t)of;
        op->dtype = make_dtype(k);
        op->ndim = 1;
        op->shape[0] = (int64_t)(model_bytes(from) / pto_dtype_size(op->dtype));
        op->device = program_device_number(from->device);
        const pto_tensor t = make_managed_tensor(op, k->m.slot[of].buffer);
        model_make(&k->m, make_number(k, op), &t, k->m.slot[of].buffer);
        return;
    }
    make_managed(k, kinds[make_roll(k, 0, 3)], make_dtype(k), make_one_in(k, 12) ? 256 : 32);
}

static inline void make_write(maker *k)
{
    program_op *op = make_op(k, OP_WRITE);
    const uint32_t before = make_on(k, make_any_device(k));
    op->seed = make_seed(k);
    make_tensor_param(k, op, PTO_PARAM_OUTPUT);
    k->device = before;
    const program_param *param = &k->p->param[op->first_param];
    if (k->p->op[param->of].seed) {
        /* Two elements at one address: which one remains is undefined. */
        k->p->n_params--;
        k->p->n_ops--;
        return;
    }
    const model_slot *slot = &k->m.slot[param->of];
    if (slot->buffer != PROGRAM_NOBODY) {
        program_arg arg;
        program_must(model_resolve_param(&k->m, param, &arg), "a tensor to write");
        model_buffer *b = &k->m.buffer[slot->buffer];
        if (!model_judge_arg(&k->m, &arg, false)) {
            b->version = arg.t.version;
            b->has_memory = true;
        }
    }
}

static inline void make_about_task(maker *k, program_kind kind)
{
    uint32_t task;
    if (make_pick_task(k, &task)) {
        make_op(k, kind)->of = (uint16_t)task;
    }
}

static inline void make_device_step(maker *k)
{
    const int64_t roll = make_roll(k, 0, 9);
    if (roll < 6 || (!k->fails && roll < 8)) {
        make_copy(k);
    } else if (roll == 6) {
        program_op *op = make_op(k, OP_FAULT);
        if (k->p->config.guard == 1) { /* a fault may hit the copy of a guard: no task would know */
            k->p->config.guard = PTO_GUARD_HOST;
        }
        op->device = (uint32_t)make_roll(k, 1, PROGRAM_DEVICES - 1);
        op->at = (uint32_t)make_roll(k, 0, PTO_SIM_FAULTS - 1);
        op->seed = (uint64_t)make_roll(k, 1, 6);
        if (make_one_in(k, 2)) { /* the next operation of the device is a read or a write */
            const uint32_t before = make_on(k, op->device);
            op->seed = 1;
            program_op *next = make_op(k, OP_READ);
            make_tensor_param(k, next, PTO_PARAM_INPUT);
            k->device = before;
        }
    } else if (roll == 7) {
        make_op(k, OP_REPAIR);
    } else if (roll == 8) {
        make_branch(k);
    } else {
        make_write(k);
    }
}

static inline void make_step(maker *k)
{
    if (k->p->devices && make_one_in(k, 3)) {
        make_device_step(k);
        return;
    }
    const int64_t roll = make_roll(k, 0, 199);
    if (roll < 100) {
        make_submit(k, GUARD_NONE);
    } else if (k->profile == PROFILE_FAIL && roll < 112) {
        make_op(k, OP_CLEAR);
    } else if (roll < 112) {
        if (k->m.n_scopes < 5) {
            make_scope(k, make_one_in(k, 2));
        }
    } else if (roll < 123) {
        if (k->m.n_scopes) {
            make_end(k);
        }
    } else if (roll < 126) {
        make_release(k);
    } else if (roll < 152) {
        if (k->m.n_scopes) {
            const uint32_t before = make_on(k, make_any_device(k));
            make_memory(k);
            k->device = before;
        } else {
            make_scope(k, make_one_in(k, 2));
        }
    } else if (roll < 156) {
        make_vouched(k);
    } else if (roll < 160) {
        make_stream(k);
    } else if (roll < 165) {
        make_branch(k);
    } else if (k->profile == PROFILE_RACE) {
        make_submit(k, GUARD_NONE);
    } else if (roll < 172) {
        make_write(k);
    } else if (roll < 176) {
        make_op(k, OP_WAIT);
    } else if (roll < 180) {
        make_about_task(k, OP_WAIT_TASK);
    } else if (roll < 186) {
        make_about_task(k, OP_INFO);
    } else if (roll < 191) {
        make_op(k, k->fails || make_one_in(k, 8) ? OP_CLEAR : OP_CHECK);
    } else if (roll < 192) {
        make_op(k, OP_CANCEL);
    } else {
        make_op(k, OP_REFUSED)->at = (uint32_t)make_roll(k, 0, 63);
    }
}

/* ---- All of it ------------------------------------------------------------------------------ */

/* The program for these random numbers; the seed decides the initial contents of memory. A program
 * made from bytes ends with them. */
static inline void program_make_from(program *p, test_rng rng, uint64_t seed,
                                     program_profile profile)
{
    maker *k = program_room(1, sizeof *k);
    memset(p, 0, sizeof *p);
    p->seed = seed;
    k->p = p;
    k->rng = rng;
    k->profile = profile;
    k->fails = profile == PROFILE_FAIL ||
               (make_is_wild(k) && make_one_in(k, profile == PROFILE_ALL ? 2 : 4));
    k->pends = make_one_in(k, 2);
    k->meddles = make_is_wild(k) && make_one_in(k, 4);
    config_make(&k->rng, p, profile, k->fails);
    k->same = profile == PROFILE_SAME || (p->devices && make_one_in(k, 2));
    model_init(&k->m, p->config.levels, NULL);
    for (uint32_t level = 0; level < PTO_MAX_LEVELS; level++) {
        k->m.room[level] = (model_room){UINT64_MAX, UINT64_MAX, UINT64_MAX};
    }
    if (k->same) {
        make_tiles(k, AREA_MAIN);
    } else {
        make_external(k, AREA_MAIN);
    }
    for (int64_t n = !k->same ? make_roll(k, 2, 6) : make_one_in(k, 4); n > 0; n--) {
        make_external(k, make_one_in(k, 3) ? AREA_SIDE : AREA_MAIN);
    }
    make_external(k, AREA_FIXED);
    if (p->devices && k->same) {
        make_tiles(k, AREA_SIM0);
        make_tiles(k, AREA_SIM1);
    }
    for (int64_t n = p->devices && !k->same ? make_roll(k, 2, 5) : 0; n > 0; n--) {
        make_external(k, n % 2 ? AREA_SIM0 : AREA_SIM1);
    }
    const int64_t length = make_one_in(k, 4) ? PROGRAM_OPS : make_roll(k, 10, 90);
    while (p->n_ops < length && make_has_room(k, 12) && !test_rng_is_spent(&k->rng)) {
        make_step(k);
    }
    if (!make_one_in(k, 6)) {
        while (k->m.n_scopes) {
            make_end(k);
        }
    }
    p->ending = make_is_wild(k) && make_one_in(k, 8) ? PTO_CANCEL : PTO_WAIT;
    for (uint32_t i = 0; i < k->m.n_tasks; i++) {
        model_free_task(&k->m, k->m.task[i]);
    }
    free(k);
}

/* The program of a seed. */
static inline void program_make(program *p, uint64_t seed, program_profile profile)
{
    /* Seeds in a row would be one stream of numbers, each a step ahead of the one before. */
    test_rng scatter = test_rng_make(seed);
    program_make_from(p, test_rng_make(test_next(&scatter)), seed, profile);
}

#endif /* PTO_TEST_PROGRAM_MAKE_H */
