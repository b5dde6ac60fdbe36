/* test_submit.c - invalid input: the right status, a message with the numbers, and no change of
 * state. */
#include "../runtime/rig.h"

/* ---- Nothing has changed ------------------------------------------------------------------- */

/* All state that a submit could change. (Room in the rings may become free meanwhile, so the
 * states are compared when all tasks are complete and an open scope holds them.) */
static void same_state(const pto_runtime_stats *a, const pto_runtime_stats *b)
{
    assert_int_equal(a->submitted, b->submitted);
    assert_int_equal(a->completed, b->completed);
    assert_int_equal(a->failed, b->failed);
    assert_int_equal(a->skipped, b->skipped);
    assert_int_equal(a->raw, b->raw);
    assert_int_equal(a->war, b->war);
    assert_int_equal(a->waw, b->waw);
    assert_int_equal(a->after, b->after);
    assert_int_equal(a->buffers, b->buffers);
    assert_int_equal(a->scope_depth, b->scope_depth);
    for (uint32_t level = 0; level < a->levels; level++) {
        assert_int_equal(a->level[level].ring[PTO_RING_TASKS].used,
                         b->level[level].ring[PTO_RING_TASKS].used);
        assert_int_equal(a->level[level].ring[PTO_RING_HEAP].used,
                         b->level[level].ring[PTO_RING_HEAP].used);
        assert_int_equal(a->level[level].ring[PTO_RING_ARGS].used,
                         b->level[level].ring[PTO_RING_ARGS].used);
        assert_int_equal(a->level[level].ring[PTO_RING_MAP].used,
                         b->level[level].ring[PTO_RING_MAP].used);
    }
}

/* A runtime in the middle of its work: a scope, a written and an unwritten tensor, user memory. */
typedef struct bench {
    rig r;
    pto_tensor written, unwritten, user;
    pto_task writer;
    char *memory; /* 64 bytes */
} bench;

static void bench_start(bench *b, void **state, const pto_config *config)
{
    rig_start(&b->r, state, config);
    expect_ok(pto_scope_begin(b->r.rt));
    b->written = rig_temp(&b->r, 64);
    b->unwritten = rig_temp(&b->r, 64);
    b->memory = rig_memory(&b->r, 64);
    b->user = rig_bytes(&b->r, b->memory, 64);
    b->writer = RIG_SUBMIT(&b->r, b->r.fill, pto_output(&b->written), pto_scalar(1));
    expect_ok(pto_wait(b->r.rt));
}

static void bench_refuses(bench *b, pto_kernel kernel, pto_worker_type type,
                          const pto_param *params, size_t n, pto_status status,
                          const char *const *words, const char *file, int line)
{
    pto_task task = 4711;
    pto_runtime_stats before = rig_stats(&b->r);
    PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale"));
    expect_status(pto_submit_task_at(b->r.rt, kernel, type, params, n, &task, "here.c", 1), status,
                  words, "submit", file, line);
    pto_refusal kept;
    assert_true(pto_refused(b->r.rt, &kept));
    assert_int_equal(kept.status, status);
    assert_int_equal(kept.line, 1);
    assert_string_equal(kept.file, "here.c");
    assert_int_equal(task, 4711);
    pto_runtime_stats now = rig_stats(&b->r);
    same_state(&before, &now);
    expect_ok(pto_check(b->r.rt));
}

/* The parameter list is refused with this status and message. */
#define REFUSED(b, status, words, ...)                                                             \
    bench_refuses((b), (b)->r.quick, PTO_KERNEL_TYPE, (const pto_param[]){__VA_ARGS__},            \
                  sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param), (status), words,   \
                  __FILE__, __LINE__)
#define WORDS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* And the runtime still works. */
static void bench_stop(bench *b)
{
    rig *r = &b->r;
    unsigned char got[64];
    RIG_SUBMIT(r, r->copy, pto_input(&b->written), pto_output(&b->unwritten));
    pto_task last = RIG_SUBMIT(r, r->copy, pto_input(&b->unwritten), pto_output(&b->user));
    assert_int_equal(pto_last_task(r->rt), last);
    expect_ok(pto_read(r->rt, &b->user, got, sizeof got));
    for (size_t i = 0; i < sizeof got; i++) {
        assert_int_equal(got[i], 1);
    }
    expect_ok(pto_scope_end(r->rt));
    rig_stop(r);
}

/* ---- Kernels and workers ------------------------------------------------------------------- */

static void test_unknown_kernels(void **state)
{
    bench b;
    bench_start(&b, state, NULL);
    static const pto_kernel wrong[] = {0, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char number[16];
        snprintf(number, sizeof number, "%" PRIu64, wrong[i]);
        bench_refuses(&b, wrong[i], PTO_KERNEL_TYPE, NULL, 0, PTO_BAD_KERNEL, WORDS(number),
                      __FILE__, __LINE__);
    }
    /* One more than there are. */
    pto_kernel last = 0;
    expect_ok(pto_kernel_register(b.r.rt, "last", PTO_CUBE, rig_quick, NULL, &last));
    bench_refuses(&b, last + 1, PTO_KERNEL_TYPE, NULL, 0, PTO_BAD_KERNEL, WORDS("kernel"), __FILE__,
                  __LINE__);
    bench_stop(&b);
}

static void test_registering_nonsense(void **state)
{
    bench b;
    bench_start(&b, state, NULL);
    pto_runtime *rt = b.r.rt;
    pto_kernel kernel = 4711;
    expect_fail(pto_kernel_register(NULL, "k", PTO_CUBE, rig_quick, NULL, &kernel),
                PTO_NULL_ARGUMENT, "kernel", "runtime");
    expect_fail(pto_kernel_register(rt, NULL, PTO_CUBE, rig_quick, NULL, &kernel),
                PTO_NULL_ARGUMENT, "name");
    expect_fail(pto_kernel_register(rt, "k", PTO_CUBE, NULL, NULL, &kernel), PTO_NULL_ARGUMENT,
                "fn");
    expect_fail(pto_kernel_register(rt, "k", PTO_CUBE, rig_quick, NULL, NULL), PTO_NULL_ARGUMENT,
                "kernel");
    expect_fail(pto_kernel_register(rt, "k", PTO_WORKER_TYPES, rig_quick, NULL, &kernel),
                PTO_BAD_WORKER, "4");
    expect_fail(pto_kernel_register(rt, "k", PTO_KERNEL_TYPE, rig_quick, NULL, &kernel),
                PTO_BAD_WORKER, "-1");
    assert_int_equal(kernel, 4711);
    bench_stop(&b);
}

/* Names are copied and may be long, empty and equal; many kernels are possible. */
static void test_registering_many(void **state)
{
    enum { MANY = 1000 };
    bench b;
    char name[400];
    pto_kernel kernel[MANY];
    bench_start(&b, state, NULL);
    for (int i = 0; i < MANY; i++) {
        memset(name, 'x', sizeof name);
        name[i % 2 ? (size_t)i % sizeof name : 3] = 0;
        expect_ok(pto_kernel_register(b.r.rt, name, PTO_VECTOR, rig_quick, NULL, &kernel[i]));
    }
    memset(name, 0, sizeof name);
    pto_task gate = RIG_SUBMIT(&b.r, b.r.hold, pto_output(&b.user)); /* keeps it from completing */
    pto_task task = RIG_SUBMIT(&b.r, kernel[0], pto_input(&b.user));
    assert_string_equal(rig_info(&b.r, task).kernel, "xxx");
    rig_finish(&b.r, gate, PTO_OK);
    for (int i = 0; i < MANY; i++) {
        RIG_SUBMIT_BARE(&b.r, kernel[i]);
        assert_true(!i || kernel[i] != kernel[i - 1]);
    }
    bench_stop(&b);
}

static void test_wrong_worker_types(void **state)
{
    bench b;
    pto_config config = PTO_CONFIG_INIT;
    config.type_workers[PTO_VECTOR] = 1;
    config.type_workers[PTO_CUBE] = 1;
    config.caller_types = PTO_TYPE_BIT(PTO_AI_CPU);
    bench_start(&b, state, &config);
    pto_task task = 0;
    pto_kernel kernel[PTO_WORKER_TYPES];
    for (int type = 0; type < PTO_WORKER_TYPES; type++) {
        expect_ok(pto_kernel_register(b.r.rt, "typed", (pto_worker_type)type, rig_quick, NULL,
                                      &kernel[type]));
    }
    bench_refuses(&b, kernel[PTO_CUBE], PTO_VECTOR, NULL, 0, PTO_BAD_WORKER,
                  WORDS("cube", "vector"), __FILE__, __LINE__);
    bench_refuses(&b, kernel[PTO_CUBE], PTO_WORKER_TYPES, NULL, 0, PTO_BAD_WORKER,
                  WORDS("type 4 is no worker type"), __FILE__, __LINE__);
    bench_refuses(&b, kernel[PTO_CUBE], (pto_worker_type)-7, NULL, 0, PTO_BAD_WORKER,
                  WORDS("type -7 is no worker type"), __FILE__, __LINE__);
    /* No thread can run it: refused instead of never run. */
    bench_refuses(&b, kernel[PTO_ACCELERATOR], PTO_KERNEL_TYPE, NULL, 0, PTO_BAD_WORKER,
                  WORDS("accelerator"), __FILE__, __LINE__);
    bench_refuses(&b, kernel[PTO_ACCELERATOR], PTO_ACCELERATOR, NULL, 0, PTO_BAD_WORKER,
                  WORDS("accelerator"), __FILE__, __LINE__);
    /* The right type by name, and a type that only the caller serves. */
    expect_ok(pto_submit_task(b.r.rt, kernel[PTO_CUBE], PTO_CUBE, NULL, 0, &task));
    const pto_task_report report = rig_info(&b.r, task);
    assert_true(report.type == PTO_CUBE || report.state == PTO_TASK_CONSUMED);
    expect_ok(pto_submit_task(b.r.rt, kernel[PTO_AI_CPU], PTO_AI_CPU, NULL, 0, NULL));
    bench_stop(&b);
}

/* ---- Parameters ---------------------------------------------------------------------------- */

static void test_parameters_that_cannot_be(void **state)
{
    bench b;
    bench_start(&b, state, NULL);
    pto_param none = {.kind = PTO_PARAM_NONE}, unknown = {.kind = (pto_param_kind)99};
    REFUSED(&b, PTO_BAD_PARAM, WORDS("0"), none);
    REFUSED(&b, PTO_BAD_PARAM, WORDS("1"), pto_input(&b.user), none);
    REFUSED(&b, PTO_BAD_PARAM, WORDS("99", "2"), pto_input(&b.user), pto_scalar(1), unknown);
    REFUSED(&b, PTO_NULL_ARGUMENT, WORDS("1"), pto_scalar(1), pto_input(NULL));
    for (uint32_t dtype = 0; dtype < 32; dtype++) { /* a scalar of no type that a scalar has */
        pto_param wrong = {.kind = PTO_PARAM_SCALAR,
                           .dtype = (uint16_t)(dtype < 16 ? dtype : dtype << 11)};
        if (wrong.dtype != PTO_INT64 && wrong.dtype != PTO_UINT64 && wrong.dtype != PTO_FLOAT64) {
            REFUSED(&b, PTO_BAD_DTYPE, WORDS("parameter 0", "float64"), wrong);
            REFUSED(&b, PTO_BAD_DTYPE, WORDS("parameter 1"), pto_input(&b.user), wrong);
        }
    }
    REFUSED(&b, PTO_NULL_ARGUMENT, WORDS("0"), pto_output(NULL));
    REFUSED(&b, PTO_NULL_ARGUMENT, WORDS("0"), pto_nodep(pto_inout(NULL)));
    bench_refuses(&b, b.r.quick, PTO_KERNEL_TYPE, NULL, 1, PTO_NULL_ARGUMENT, WORDS("1 param"),
                  __FILE__, __LINE__);
    expect_fail(pto_submit_task(NULL, b.r.quick, PTO_KERNEL_TYPE, NULL, 0, NULL), PTO_NULL_ARGUMENT,
                "submit");
    /* A task that never existed. */
    REFUSED(&b, PTO_BAD_TASK, WORDS("task"), pto_after(b.writer + 8000));
    REFUSED(&b, PTO_BAD_TASK, WORDS("task"), pto_after(UINT64_MAX));
    REFUSED(&b, PTO_BAD_TASK, WORDS("task"), pto_after(b.writer | UINT64_C(1) << 63));
    REFUSED(&b, PTO_BAD_TASK, WORDS("task"), pto_after(b.writer | 7)); /* no such level */
    bench_stop(&b);
}

/* Tensors filled by hand with garbage. */
static void test_unsound_tensors(void **state)
{
    bench b;
    bench_start(&b, state, NULL);
    for (int managed = 0; managed < 2; managed++) {
        pto_tensor good = managed ? b.written : b.user, t;
        t = good;
        t.dtype = (pto_dtype)77;
        REFUSED(&b, PTO_BAD_DTYPE, WORDS("77"), pto_input(&t));
        t = good;
        t.dtype = PTO_DTYPE_NONE;
        REFUSED(&b, PTO_BAD_DTYPE, WORDS("0"), pto_scalar(1), pto_output(&t));
        t = good;
        t.ndim = 9;
        REFUSED(&b, PTO_BAD_NDIM, WORDS("9"), pto_input(&t));
        t.ndim = -1;
        REFUSED(&b, PTO_BAD_NDIM, WORDS("-1"), pto_inout(&t));
        t = good;
        t.shape[0] = -5;
        REFUSED(&b, PTO_BAD_SHAPE, WORDS("-5"), pto_output(&t));
        t = good;
        t.shape[0] = 65;
        REFUSED(&b, PTO_OUT_OF_BOUNDS, WORDS("64"), pto_input(&t));
        t = good;
        t.offset = 1;
        REFUSED(&b, PTO_OUT_OF_BOUNDS, WORDS("64"), pto_input(&t));
        t = good;
        t.strides[0] = INT64_MAX;
        REFUSED(&b, PTO_OVERFLOW, WORDS("9223372036854775807"), pto_input(&t));
        t = good;
        t.strides[0] = -1;
        REFUSED(&b, PTO_OUT_OF_BOUNDS, WORDS("-"), pto_nodep(pto_input(&t)));
    }
    pto_tensor t = b.user;
    t.storage = NULL;
    REFUSED(&b, PTO_NULL_ARGUMENT, WORDS("storage"), pto_input(&t));
    /* The first parameter is valid, the last is not: the first must have no effect. */
    t = b.user;
    t.shape[0] = 99;
    REFUSED(&b, PTO_OUT_OF_BOUNDS, WORDS("99"), pto_output(&b.unwritten), pto_input(&b.written),
            pto_input(&t));
    bench_stop(&b);
}

/* User memory must not be in the runtime's heap: nothing would keep it alive. */
static void test_user_memory_inside_the_heap(void **state)
{
    bench b;
    bench_start(&b, state, NULL);
    unsigned char *heap = rig_address(&b.r, &b.written);
    pto_tensor inside, across;
    expect_ok(pto_tensor_init(&inside, heap, 64, PTO_UINT8, 1, DIMS(64), NULL, 0));
    REFUSED(&b, PTO_BAD_MEMORY, WORDS("heap"), pto_input(&inside));
    REFUSED(&b, PTO_BAD_MEMORY, WORDS("heap"), pto_scalar(1), pto_output(&inside));
    REFUSED(&b, PTO_BAD_MEMORY, WORDS("heap"), pto_nodep(pto_input(&inside)));
    /* The last byte of the heap of the last level, and a range that reaches in from before. */
    pto_runtime_stats stats = rig_stats(&b.r);
    expect_ok(pto_tensor_init(&across, heap - 4096, 8192, PTO_UINT8, 1, DIMS(8192), NULL, 0));
    REFUSED(&b, PTO_BAD_MEMORY, WORDS("heap"), pto_input(&across));
    expect_ok(pto_tensor_init(&inside, heap + stats.level[0].ring[PTO_RING_HEAP].size - 1, 1,
                              PTO_UINT8, 1, DIMS(1), NULL, 0));
    REFUSED(&b, PTO_BAD_MEMORY, WORDS("heap"), pto_input(&inside));
    expect_fail(pto_external_tensor(b.r.rt, heap, PTO_UINT8, 1, DIMS(8), &inside), PTO_BAD_MEMORY,
                "external");
    /* Other levels have heaps too. */
    expect_ok(pto_scope_begin_ex(b.r.rt, PTO_SCOPE_BOUNDARY));
    pto_tensor deeper = rig_temp(&b.r, 64);
    RIG_SUBMIT(&b.r, b.r.quick, pto_output(&deeper));
    expect_ok(
        pto_tensor_init(&inside, rig_address(&b.r, &deeper), 64, PTO_UINT8, 1, DIMS(64), NULL, 0));
    expect_ok(pto_scope_end(b.r.rt));
    expect_ok(pto_wait(b.r.rt));
    REFUSED(&b, PTO_BAD_MEMORY, WORDS("heap"), pto_input(&inside));
    bench_stop(&b);
}

/* ---- What arrives -------------------------------------------------------------------------- */

typedef struct arrival {
    uint32_t n_args;
    pto_dtype dtype[8];
    void *data[8];
    uint64_t value[8];
    pto_task task;
    bool sound;
} arrival;

static pto_status note_arrival(const pto_call *call)
{
    arrival *a = call->user;
    a->n_args = call->n_args;
    a->task = call->task;
    a->sound = call->rt != NULL;
    for (uint32_t i = 0; i < call->n_args && i < 8; i++) {
        a->dtype[i] = call->args[i].dtype;
        a->data[i] = call->args[i].data;
        a->value[i] = call->args[i].u64;
    }
    return PTO_OK;
}

static double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Numbers of all kinds, each as the kernel is to read it. */
static void test_scalars_arrive(void **state)
{
    bench b;
    pto_kernel kernel;
    bench_start(&b, state, NULL);
    arrival *a = rig_memory(&b.r, sizeof *a);
    expect_ok(pto_kernel_register(b.r.rt, "note", PTO_VECTOR, note_arrival, a, &kernel));
    const short negative = -5;
    const unsigned char small = 200;
    const float third = 0.25F;
    RIG_SUBMIT(&b.r, kernel, pto_scalar(-1), pto_scalar(negative), pto_scalar(small),
               pto_scalar(UINT64_MAX), pto_scalar(third), pto_scalar(-1e300), pto_scalar(INT64_MIN),
               pto_scalar(true));
    expect_ok(pto_wait(b.r.rt));
    assert_int_equal(a->n_args, 8);
    assert_int_equal(a->value[0], -1);
    assert_int_equal(a->value[1], -5);
    assert_int_equal(a->value[2], 200);
    assert_int_equal(a->value[3], UINT64_MAX);
    assert_true(as_double(a->value[4]) == 0.25);
    assert_true(as_double(a->value[5]) == -1e300);
    assert_int_equal(a->value[6], INT64_MIN);
    assert_int_equal(a->value[7], 1);
    static const pto_dtype dtypes[] = {PTO_INT64,   PTO_INT64,   PTO_INT64, PTO_UINT64,
                                       PTO_FLOAT64, PTO_FLOAT64, PTO_INT64, PTO_INT64};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(a->dtype[i], dtypes[i]);
        assert_null(a->data[i]);
    }
    bench_stop(&b);
}

/* Read as the other kind of number a scalar is converted. */
static void test_scalars_convert(void **state)
{
    (void)state;
    const pto_arg whole = {.dtype = PTO_INT64, .i64 = -3}, large = {.dtype = PTO_UINT64, .u64 = 7};
    const pto_arg real = {.dtype = PTO_FLOAT64, .f64 = 2.75};
    assert_true(pto_arg_f64(&whole) == -3.0 && pto_arg_f64(&large) == 7.0);
    assert_true(pto_arg_f64(&real) == 2.75);
    assert_int_equal(pto_arg_i64(&whole), -3);
    assert_int_equal(pto_arg_i64(&large), 7);
    assert_int_equal(pto_arg_i64(&real), 2);
}

/* In the order of the parameters, without pto_after; an empty tensor has no address. */
static void test_arguments_arrive(void **state)
{
    bench b;
    pto_kernel kernel;
    bench_start(&b, state, NULL);
    arrival *a = rig_memory(&b.r, sizeof *a);
    expect_ok(pto_kernel_register(b.r.rt, "note", PTO_VECTOR, note_arrival, a, &kernel));
    pto_tensor part = rig_slice(&b.user, 16, 32), none = rig_slice(&b.user, 16, 16);
    pto_tensor inner = rig_slice(&b.written, 8, 64), empty = rig_slice(&b.written, 64, 64);
    pto_task task = RIG_SUBMIT(&b.r, kernel, pto_after(b.writer), pto_input(&part),
                               pto_after(b.writer), pto_scalar(7), pto_nodep(pto_input(&inner)),
                               pto_input(&none), pto_inout(&empty), pto_after(b.writer));
    expect_ok(pto_wait(b.r.rt));
    assert_int_equal(a->n_args, 5);
    assert_int_equal(a->task, task);
    assert_true(a->sound);
    assert_int_equal(a->dtype[0], PTO_UINT8);
    assert_int_equal(a->value[1], 7);
    assert_int_equal(a->dtype[1], PTO_INT64);
    if (((const rig_setup *)*state)->map_twice == 0) {
        assert_ptr_equal(a->data[0], b.memory + 16);
        assert_ptr_equal(a->data[2], rig_address(&b.r, &inner));
    } else {
        assert_true(a->data[2] != NULL && a->data[2] != (void *)rig_address(&b.r, &inner));
    }
    assert_int_equal(a->dtype[3], PTO_UINT8);
    assert_null(a->data[3]);
    assert_null(a->data[4]);
    bench_stop(&b);
}

/* More parameters and more producers than the fast path takes. */
static void test_many_parameters(void **state)
{
    enum { MANY = 500 };
    bench b;
    pto_tensor cell[MANY];
    pto_param params[MANY];
    pto_config config = PTO_CONFIG_INIT;
    config.deps = 4096;
    bench_start(&b, state, &config);
    rig *r = &b.r;
    char *cells = rig_memory(r, MANY * 4);
    pto_task first = RIG_SUBMIT_BARE(r, r->hold);
    for (int i = 0; i < MANY; i++) {
        cell[i] = rig_bytes(r, cells + i * 4, 4);
        params[i] = i % 2 ? pto_input(&cell[i]) : pto_inout(&cell[i]);
        RIG_SUBMIT(r, r->fill, pto_output(&cell[i]), pto_scalar(3), pto_after(first));
    }
    pto_task all = 0;
    expect_ok(pto_submit_task(r->rt, r->quick, PTO_KERNEL_TYPE, params, MANY, &all));
    assert_int_equal(rig_info(r, all).fanin_count, MANY);
    pto_task last = RIG_SUBMIT(r, r->quick, pto_output(&cell[MANY - 1]));
    assert_in_range(rig_info(r, last).fanin_left, 1, 2);
    rig_finish(r, first, PTO_OK);
    expect_ok(pto_wait_task(r->rt, last));
    bench_stop(&b);
}

/* ---- The other functions --------------------------------------------------------------------- */

static void test_null_everywhere(void **state)
{
    bench b;
    bench_start(&b, state, NULL);
    pto_runtime *rt = b.r.rt;
    pto_buffer buffer;
    pto_tensor t;
    pto_failure failure;
    pto_task_report report;
    pto_runtime_stats stats;
    bool failed = false;
    void *address = NULL;
    char byte = 0;
    const pto_status null = PTO_NULL_ARGUMENT;
    expect_ok(pto_create_buffer(rt, 8, &buffer));
    expect_fail(pto_runtime_create(NULL, NULL), null, "create");
    expect_fail(pto_create_buffer(NULL, 8, &buffer), null, "buffer", "runtime");
    expect_fail(pto_create_buffer(rt, 8, NULL), null, "buffer");
    expect_fail(pto_managed_tensor(NULL, &buffer, 0, PTO_INT8, 0, NULL, &t), null, "managed");
    expect_fail(pto_managed_tensor(rt, NULL, 0, PTO_INT8, 0, NULL, &t), null, "buffer");
    expect_fail(pto_managed_tensor(rt, &buffer, 0, PTO_INT8, 1, NULL, &t), null, "shape");
    expect_fail(pto_managed_tensor(rt, &buffer, 0, PTO_INT8, 0, NULL, NULL), null, "tensor");
    expect_fail(pto_temp(NULL, PTO_INT8, 0, NULL, &t), null, "temp");
    expect_fail(pto_temp(rt, PTO_INT8, 1, NULL, &t), null, "shape");
    expect_fail(pto_temp(rt, PTO_INT8, 0, NULL, NULL), null, "temp");
    expect_fail(pto_alloc(NULL, PTO_INT8, 0, NULL, &t), null, "alloc");
    expect_fail(pto_alloc(rt, PTO_INT8, 1, NULL, &t), null, "shape");
    expect_fail(pto_alloc(rt, PTO_INT8, 0, NULL, NULL), null, "alloc");
    expect_fail(pto_external_tensor(NULL, &byte, PTO_INT8, 0, NULL, &t), null, "external");
    expect_fail(pto_external_tensor(rt, NULL, PTO_INT8, 0, NULL, &t), null,
                "external tensor: data is NULL, with 1 byte");
    expect_fail(pto_external_tensor(rt, &t, PTO_INT8, 9, DIMS(1), &t), PTO_BAD_NDIM,
                "external tensor: ndim 9 is not in 0 .. 8");
    expect_fail(pto_temp(rt, (pto_dtype)99, 0, NULL, &t), PTO_BAD_DTYPE, "temp: dtype 99");
    expect_fail(pto_alloc(rt, PTO_INT8, 1, DIMS(-1), &t), PTO_BAD_SHAPE, "alloc: shape[0] is -1");
    expect_fail(pto_alloc_on(rt, ((pto_device){PTO_DEVICE_CPU, 0}), PTO_INT8, 1, NULL, &t), null,
                "alloc: shape is NULL");
    expect_fail(pto_external_tensor(rt, &byte, PTO_INT8, 1, NULL, &t), null, "shape");
    expect_fail(pto_external_tensor(rt, &byte, PTO_INT8, 0, NULL, NULL), null, "external");
    expect_fail(pto_get_buffer_addr(NULL, &b.written, &address), null, "addr");
    expect_fail(pto_get_buffer_addr(rt, NULL, &address), null, "addr");
    expect_fail(pto_get_buffer_addr(rt, &b.written, NULL), null, "addr");
    expect_fail(pto_task_get_output(NULL, b.writer, 0, &t), null, "output");
    expect_fail(pto_task_get_output(rt, b.writer, 0, NULL), null, "output");
    expect_fail(pto_wait(NULL), null, "wait");
    expect_fail(pto_wait_task(NULL, b.writer), null, "wait");
    expect_fail(pto_read(NULL, &b.written, &byte, 1), null, "read");
    expect_fail(pto_read(rt, NULL, &byte, 1), null, "read");
    expect_fail(pto_read(rt, &b.written, NULL, 64), null, "read");
    expect_fail(pto_write(NULL, &b.written, &byte, 1), null, "write");
    expect_fail(pto_write(rt, NULL, &byte, 1), null, "write");
    expect_fail(pto_write(rt, &b.written, NULL, 64), null, "write");
    expect_fail(pto_get_failure(NULL, &failed, &failure), null, "failure");
    expect_fail(pto_get_failure(rt, NULL, &failure), null, "failed");
    expect_fail(pto_get_failure(rt, &failed, NULL), null, "failure");
    expect_fail(pto_clear_error(NULL), null, "clear");
    expect_fail(pto_task_complete(NULL, b.writer, PTO_OK), null, "complete");
    expect_fail(pto_task_info(NULL, b.writer, &report), null, "info");
    expect_fail(pto_task_info(rt, b.writer, NULL), null, "info");
    expect_fail(pto_stats(NULL, &stats), null, "stats");
    expect_fail(pto_stats(rt, NULL), null, "stats");
    expect_fail(pto_check(NULL), null, "check");
    pto_cancel(NULL);
    assert_false(pto_is_cancelled(NULL));
    assert_int_equal(pto_last_task(NULL), 0);
    expect_ok(pto_runtime_destroy(NULL, PTO_WAIT));
    pto_runtime *nobody = NULL;
    expect_ok(pto_runtime_destroy(&nobody, PTO_CANCEL));
    bench_stop(&b);
}

/* Shapes and dtypes of the functions that make tensors. */
static void test_making_nonsense(void **state)
{
    bench b;
    bench_start(&b, state, NULL);
    pto_runtime *rt = b.r.rt;
    pto_buffer buffer;
    pto_tensor t;
    const int64_t big[] = {INT64_MAX, 3}, nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    expect_ok(pto_create_buffer(rt, 64, &buffer));
    pto_runtime_stats before = rig_stats(&b.r);
    expect_fail(pto_temp(rt, (pto_dtype)99, 1, DIMS(4), &t), PTO_BAD_DTYPE, "99");
    expect_fail(pto_temp(rt, PTO_INT8, 9, nine, &t), PTO_BAD_NDIM, "9");
    expect_fail(pto_temp(rt, PTO_INT8, -1, nine, &t), PTO_BAD_NDIM, "-1");
    expect_fail(pto_temp(rt, PTO_INT8, 1, DIMS(-4), &t), PTO_BAD_SHAPE, "-4");
    expect_fail(pto_temp(rt, PTO_INT8, 2, big, &t), PTO_OVERFLOW, "3");
    expect_fail(pto_alloc(rt, (pto_dtype)99, 1, DIMS(4), &t), PTO_BAD_DTYPE, "99");
    expect_fail(pto_alloc(rt, PTO_INT8, 9, nine, &t), PTO_BAD_NDIM, "9");
    expect_fail(pto_alloc(rt, PTO_INT8, 1, DIMS(-4), &t), PTO_BAD_SHAPE, "-4");
    expect_fail(pto_managed_tensor(rt, &buffer, 0, (pto_dtype)99, 1, DIMS(4), &t), PTO_BAD_DTYPE,
                "99");
    expect_fail(pto_managed_tensor(rt, &buffer, 0, PTO_INT32, 1, DIMS(17), &t), PTO_OUT_OF_BOUNDS,
                "64");
    expect_fail(pto_external_tensor(rt, b.memory, (pto_dtype)99, 1, DIMS(4), &t), PTO_BAD_DTYPE,
                "99");
    expect_fail(pto_external_tensor(rt, b.memory, PTO_INT8, 1, DIMS(-4), &t), PTO_BAD_SHAPE, "-4");
    pto_runtime_stats now = rig_stats(&b.r);
    same_state(&before, &now);
    bench_stop(&b);
}

/* pto_task_get_output counts outputs and inouts. */
static void test_outputs_of_a_task(void **state)
{
    bench b;
    bench_start(&b, state, NULL);
    rig *r = &b.r;
    pto_tensor next = b.written, part = rig_slice(&b.user, 8, 16), got;
    next.version = 1;
    pto_task task = RIG_SUBMIT(r, r->hold, pto_input(&b.written), pto_output(&next), pto_scalar(1),
                               pto_inout(&part), pto_after(b.writer), pto_output(&b.unwritten));
    expect_ok(pto_task_get_output(r->rt, task, 0, &got));
    assert_int_equal(got.version, 1);
    assert_int_equal(got.owner, b.written.owner);
    expect_ok(pto_task_get_output(r->rt, task, 1, &got));
    assert_ptr_equal(rig_address(r, &got), b.memory + 8);
    assert_int_equal(got.shape[0], 8);
    assert_int_equal(got.dtype, PTO_UINT8);
    expect_ok(pto_task_get_output(r->rt, task, 2, &got));
    assert_ptr_equal(rig_address(r, &got), rig_address(r, &b.unwritten));
    /* It can be used like the tensor that was passed in. */
    pto_task reader = RIG_SUBMIT(r, r->quick, pto_input(&got));
    RIG_WAITS_FOR(r, reader, 1);
    expect_fail(pto_task_get_output(r->rt, task, 3, &got), PTO_BAD_INDEX, "3");
    expect_fail(pto_task_get_output(r->rt, task, UINT32_MAX, &got), PTO_BAD_INDEX, "4294967295");
    expect_fail(pto_task_get_output(r->rt, 0, 0, &got), PTO_BAD_TASK, "output");
    expect_fail(pto_task_get_output(r->rt, task + 8000, 0, &got), PTO_BAD_TASK, "output");
    rig_finish(r, task, PTO_OK);
    expect_ok(pto_scope_end(r->rt));
    rig_until(r, task, PTO_TASK_CONSUMED);
    rig_stop(r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_unknown_kernels),
        RIG_CASE(test_registering_nonsense),
        RIG_CASE(test_registering_many),
        RIG_CASE_ONE_PROCESS(test_wrong_worker_types, "the orchestrating thread runs the tasks"),
        RIG_CASE(test_parameters_that_cannot_be),
        RIG_CASE(test_unsound_tensors),
        RIG_CASE(test_user_memory_inside_the_heap),
        RIG_CASE(test_scalars_arrive),
        RIG_CASE(test_scalars_convert),
        RIG_CASE(test_arguments_arrive),
        RIG_CASE(test_many_parameters),
        RIG_CASE(test_null_everywhere),
        RIG_CASE(test_making_nonsense),
        RIG_CASE(test_outputs_of_a_task),
    };
    return rig_run("submit", cases, sizeof cases / sizeof *cases);
}
