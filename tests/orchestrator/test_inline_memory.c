/* test_inline_memory.c - inline tasks on managed memory; and whole programs with all kinds of
 * tasks, compared with their serial run. */
#include "inline.h"

/* ---- Managed memory ------------------------------------------------------------------------ */

static void test_a_temp_and_its_parts(void **state)
{
    bench b;
    tiles x;
    unsigned char got[BYTES];
    start_with(&b, &x, state, NULL);
    expect_ok(pto_scope_begin(b.r.rt));
    pto_tensor t = rig_temp(&b.r, BYTES), left = rig_slice(&t, 0, 32);
    const pto_task brings = INLINE(&b, b.fill, pto_output(&t), pto_scalar(7));
    if (b.can) {
        is_byte(rig_address(&b.r, &t), 7, BYTES);
        assert_int_equal(rig_info(&b.r, brings).state, PTO_TASK_COMPLETED);
        assert_int_equal(rig_info(&b.r, brings).heap_bytes, BYTES);
        INLINE(&b, b.is, pto_input(&t), pto_scalar(7));
        INLINE(&b, b.bump, pto_inout(&t));
        INLINE(&b, b.is, pto_input(&t), pto_scalar(8));
        INLINE(&b, b.bump, pto_output(&t));
        is_byte(rig_address(&b.r, &t), 9, BYTES);
    } else {
        expect_ok(pto_submit(b.r.rt, b.bump, pto_inout(&t)));
        expect_ok(pto_submit(b.r.rt, b.bump, pto_inout(&t)));
    }
    expect_ok(pto_check(b.r.rt));
    /* First a part of it, after a task that is held; then all of it. */
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[0]));
    pto_tensor x_left = rig_slice(&x.t[0], 0, 32);
    const pto_task part = OFFLOADED(&b, b.copy, pto_input(&x_left), pto_output(&left));
    must_wait(&b, part);
    const pto_task all = OFFLOADED(&b, b.bump, pto_inout(&t));
    must_wait(&b, all);
    const pto_task reads = OFFLOADED(&b, b.copy, pto_input(&t), pto_output(&x.t[1]));
    must_wait(&b, reads);
    memset(x.byte[0], 50, BYTES);
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    is_byte(x.byte[1], 51, 32);
    is_byte(x.byte[1] + 32, 10, 32);
    pto_task any;
    for (int i = 0; i < 100;
         i++) { /* inline or not, depending on what the map still knows about the part */
        (void)submit(&b, &any, b.bump, PARAMS(pto_inout(&t)), __LINE__);
    }
    expect_ok(pto_read(b.r.rt, &t, got, BYTES));
    is_byte(got, 151, 32);
    is_byte(got + 32, 110, 32);
    expect_ok(pto_scope_end(b.r.rt));
    finish(&b);
    rig_stop(&b.r);
}

/* A temporary used only by inline tasks, then read by an offloaded task: the next writer waits. */
static void test_a_temp_with_a_reader(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int i = 0; i < 10; i++) {
        expect_ok(pto_scope_begin(b.r.rt));
        pto_tensor t = rig_temp(&b.r, BYTES);
        INLINE(&b, b.fill, pto_output(&t), pto_scalar(1));
        const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_output(&x.t[0]));
        const pto_task reads = OFFLOADED(&b, b.copy, pto_input(&t), pto_output(&x.t[0]));
        must_wait(&b, reads);
        const pto_task writes = OFFLOADED(&b, b.bump, pto_inout(&t));
        must_wait(&b, writes);
        expect_ok(pto_check(b.r.rt));
        expect_ok(pto_scope_end(b.r.rt));
        rig_finish(&b.r, held, PTO_OK);
        finish(&b);
        is_byte(x.byte[0], 1, BYTES);
    }
    rig_stop(&b.r);
}

static void test_several_temps(void **state)
{
    bench b;
    tiles x;
    static const int64_t sizes[] = {64, 100, 8, 1, 200};
    enum { N = sizeof sizes / sizeof *sizes };
    start_with(&b, &x, state, NULL);
    pto_tensor t[N];
    expect_ok(pto_scope_begin(b.r.rt));
    for (int i = 0; i < N; i++) { /* from now on these sizes are known */
        t[i] = rig_temp(&b.r, sizes[i]);
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&t[i]), pto_scalar(0)));
    }
    expect_ok(pto_scope_end(b.r.rt));
    finish(&b);
    expect_ok(pto_scope_begin(b.r.rt));
    pto_param params[N + 1];
    for (int i = 0; i < N; i++) {
        t[i] = rig_temp(&b.r, sizes[i]);
        params[i] = pto_output(&t[i]);
    }
    params[N] = pto_scalar(20);
    const pto_task task = must(&b, b.can, b.fill, params, N + 1, __LINE__);
    is_done(&b, task);
    assert_int_equal(rig_info(&b.r, task).heap_bytes, 64 + 128 + 64 + 64 + 256);
    for (int i = 0; i < N; i++) {
        is_byte(rig_address(&b.r, &t[i]), (unsigned char)(20 + i), (size_t)sizes[i]);
        assert_int_equal((uintptr_t)rig_address(&b.r, &t[i]) % 64, 0);
    }
    if (!b.can) {
        finish(&b);
    }
    INLINE(&b, b.bump, pto_inout(&t[0]), pto_inout(&t[1]), pto_inout(&t[4]));
    finish(&b);
    is_byte(rig_address(&b.r, &t[1]), 22, 100);
    is_byte(rig_address(&b.r, &t[3]), 23, 1);
    expect_ok(pto_scope_end(b.r.rt));
    finish(&b);
    rig_stop(&b.r);
}

/* Nested scopes: memory and handles live as long as they should. */
static void test_scopes(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int round = 0; round < 3; round++) {
        expect_ok(pto_scope_begin(b.r.rt));
        pto_tensor a = rig_temp(&b.r, BYTES), late = rig_temp(&b.r, BYTES),
                   from_inside = rig_temp(&b.r, BYTES);
        INLINE(&b, b.fill, pto_output(&a), pto_scalar(1));
        pto_tensor inner, deep;
        expect_ok(pto_scope_begin(b.r.rt)); /* the same lifetime as outside */
        INLINE(&b, b.fill, pto_output(&late), pto_scalar(2));
        inner = rig_temp(&b.r, BYTES);
        INLINE(&b, b.fill, pto_output(&inner), pto_scalar(3));
        expect_ok(pto_scope_end(b.r.rt));
        expect_ok(pto_submit(b.r.rt, b.is, pto_input(&late), pto_scalar(2)));
        for (int i = 0; i < 200; i++) {
            expect_ok(pto_scope_begin_ex(b.r.rt, PTO_SCOPE_BOUNDARY));
            deep = rig_temp(&b.r, 100 + i);
            expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&deep), pto_scalar(i)));
            expect_ok(pto_submit(b.r.rt, b.bump, pto_inout(&deep)));
            expect_ok(pto_submit(b.r.rt, b.is, pto_input(&deep), pto_scalar(i + 1)));
            expect_ok(pto_submit(b.r.rt, b.is, pto_input(&a), pto_scalar(1)));
            if (i == 100) { /* the task does not own the memory, and is recycled before it */
                const pto_task brings = OFFLOADED(&b, b.fill, pto_output(&from_inside),
                                                  pto_scalar(4));
                assert_int_equal(rig_info(&b.r, brings).heap_bytes, 0);
            }
            if (i == 150) {
                finish(&b);
            }
            if (i > 100) {
                expect_ok(pto_submit(b.r.rt, b.is, pto_input(&from_inside), pto_scalar(4)));
            }
            expect_ok(pto_scope_end(b.r.rt));
        }
        RIG_SUBMIT_BARE(&b.r, b.is); /* back on this level, submit checks for room first */
        finish(&b);
        INLINE(&b, b.is, pto_input(&from_inside), pto_scalar(4));
        INLINE(&b, b.is, pto_input(&a), pto_scalar(1));
        pto_param stale = pto_input(&deep);
        expect_fail(pto_submit(b.r.rt, b.is, stale, pto_scalar(0)), PTO_STALE, "parameter 0");
        expect_ok(pto_scope_end(b.r.rt));
        const pto_tensor *gone[] = {&a, &late, &inner, &from_inside};
        for (int i = 0; i < 4; i++) {
            const unsigned ran = atomic_load(&b.here) + atomic_load(&b.there);
            expect_ok(pto_wait(b.r.rt));
            const unsigned before = atomic_load(&b.here) + atomic_load(&b.there);
            expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(gone[i])), PTO_STALE, "parameter 0");
            expect_fail(pto_submit(b.r.rt, b.fill, pto_output(gone[i]), pto_scalar(1)), PTO_STALE,
                        "parameter 0");
            expect_ok(pto_scope_begin(b.r.rt)); /* another buffer in its place */
            pto_tensor t = rig_temp(&b.r, BYTES);
            expect_fail(pto_submit(b.r.rt, b.is, pto_input(gone[i]), pto_scalar(1)), PTO_STALE,
                        "parameter 0");
            expect_fail(pto_submit(b.r.rt, b.is, pto_input(&t), pto_scalar(1)), PTO_NOT_WRITTEN,
                        "parameter 0");
            expect_ok(pto_scope_end(b.r.rt));
            assert_int_equal(atomic_load(&b.here) + atomic_load(&b.there), before);
            assert_true(before >= ran);
        }
        finish(&b);
    }
    rig_stop(&b.r);
}

/* A small heap, many times over. */
static void test_recycling(void **state)
{
    bench b;
    tiles x;
    unsigned char got[BYTES];
    pto_config config = PTO_CONFIG_INIT;
    config.heap_bytes = 4096;
    config.ring_tasks = 64;
    config.levels = 2;
    start_with(&b, &x, state, &config);
    const uint64_t rounds = test_effort(b.can ? 100000 : 2000);
    const unsigned here = atomic_load(&b.here);
    expect_ok(pto_scope_begin(b.r.rt));
    pto_tensor stays = rig_temp(&b.r, 1000);
    ANYHOW(&b, b.fill, pto_output(&stays), pto_scalar(99));
    for (uint64_t i = 0; i < rounds; i++) {
        pto_tensor s, t, u;
        const unsigned char value = (unsigned char)(i * 7);
        expect_ok(pto_scope_begin_ex(b.r.rt, PTO_SCOPE_BOUNDARY));
        expect_ok(pto_temp(b.r.rt, PTO_UINT8, 1, DIMS(1 + (int64_t)(i % 900)), &s));
        t = s;
        expect_ok(pto_temp(b.r.rt, PTO_UINT8, 1, DIMS(1 + (int64_t)(i % 900)), &t));
        ANYHOW(&b, b.fill, pto_output(&s), pto_scalar(value));
        ANYHOW(&b, b.copy, pto_input(&s), pto_output(&t));
        if (i % 64 == 0) { /* an offloaded task */
            u = rig_slice(&t, 0, 1);
            ANYHOW(&b, b.is, pto_input(&u), pto_scalar(value));
        }
        ANYHOW(&b, b.bump, pto_inout(&s));
        ANYHOW(&b, b.is, pto_input(&t), pto_scalar(value));
        ANYHOW(&b, b.is, pto_input(&s), pto_scalar(value + 1));
        expect_ok(pto_scope_end(b.r.rt));
        if (i % 4096 == 0) {
            finish(&b);
        }
    }
    ANYHOW(&b, b.is, pto_input(&stays), pto_scalar(99));
    pto_tensor some = rig_slice(&stays, 900, 900 + BYTES);
    expect_ok(pto_read(b.r.rt, &some, got, BYTES));
    is_byte(got, 99, BYTES);
    expect_ok(pto_scope_end(b.r.rt));
    finish(&b);
    assert_true(!b.can ||
                atomic_load(&b.here) - here > rounds); /* most of the tasks, on a normal machine */
    assert_int_equal(rig_ring(&b.r, 0, PTO_RING_HEAP).used, 0);
    rig_stop(&b.r);
}

/* Lack of room has the same effects as for offloaded tasks. */
static void test_too_little_room(void **state)
{
    for (int inlined = 0; inlined < 2; inlined++) {
        bench b;
        tiles x;
        pto_config config = PTO_CONFIG_INIT;
        config.heap_bytes = 4096;
        config.ring_tasks = 64;
        config.inline_ns = inlined ? EVERYTHING : PTO_NO_INLINE;
        if (inlined) {
            start_with(&b, &x, state, &config);
        } else {
            start(&b, state, &config);
            b.can = false;
            memset(&x, 0, sizeof x);
            x.t[0] = rig_bytes(&b.r, x.byte[0], BYTES);
        }
        pto_tensor t[5], large;
        expect_ok(pto_scope_begin(b.r.rt));
        t[0] = rig_temp(&b.r, 1024); /* from now on this size is known */
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&t[0]), pto_scalar(0)));
        expect_ok(pto_scope_end(b.r.rt));
        finish(&b);
        expect_ok(pto_scope_begin(b.r.rt));
        for (int i = 0; i < 5; i++) {
            t[i] = rig_temp(&b.r, 1024);
        }
        expect_fail(pto_temp(b.r.rt, PTO_UINT8, 1, DIMS(4097), &large), PTO_TOO_LARGE, "4097");
        for (int i = 0; i < 4; i++) {
            INLINE(&b, b.fill, pto_output(&t[i]), pto_scalar(i));
        }
        const unsigned ran = atomic_load(&b.here);
        pto_stall_report stall;
        for (int i = 0; i < 3; i++) {
            expect_fail(pto_submit(b.r.rt, b.fill, pto_output(&t[4]), pto_scalar(4)), PTO_STALLED,
                        "heap");
        }
        expect_fail(pto_submit(b.r.rt, b.fill, pto_output(&t[4]), pto_output(&t[4]), pto_scalar(4)),
                    PTO_STALLED, "heap");
        assert_int_equal(atomic_load(&b.here), ran);
        expect_ok(pto_last_stall(b.r.rt, &stall));
        assert_int_equal(stall.kind, PTO_STALL_SCOPE);
        assert_int_equal(stall.ring, PTO_RING_HEAP);
        assert_int_equal(stall.wanted, 1024);
        assert_string_equal(stall.kernel, "fill");
        for (int i = 0; i < 4; i++) {
            expect_ok(pto_submit(b.r.rt, b.is, pto_input(&t[i]), pto_scalar(i)));
        }
        expect_ok(pto_scope_end(b.r.rt));
        finish(&b);
        /* A scope holds no task without managed memory: many times the ring pass through it. */
        expect_ok(pto_scope_begin(b.r.rt));
        for (int i = 0; i < 1000; i++) {
            expect_ok(pto_submit(b.r.rt, b.act, pto_scalar(NOTHING)));
        }
        expect_ok(pto_scope_end(b.r.rt));
        finish(&b);
        /* A task still uses the memory: submit waits for it. */
        expect_ok(pto_scope_begin(b.r.rt));
        pto_tensor used = rig_temp(&b.r, 3000), next = {0};
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&used), pto_scalar(9)));
        const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_input(&used));
        const unsigned char *at = rig_address(&b.r, &used);
        expect_ok(pto_scope_end(b.r.rt));
        rig_until(&b.r, held, PTO_TASK_RUNNING);
        expect_ok(pto_scope_begin(b.r.rt));
        next = rig_temp(&b.r, 3000);
        rig_later later = {
            .look = at, .look_bytes = 3000, .expected = 9, .until_wait = true, .status = PTO_OK};
        rig_later_start(&later, &b.r, held, 100);
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&next), pto_scalar(1)));
        assert_true(atomic_load(&later.ending));
        rig_later_join(&later);
        expect_ok(pto_scope_end(b.r.rt));
        finish(&b);
        rig_stop(&b.r);
    }
}

/* ---- Serial equivalence ---------------------------------------------------------------------- */

enum { AREA = 256, VIEWS = 12 };

/* Pending tasks, for a thread that does their work. */
typedef struct post {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct {
        pto_arg args[3];
        pto_task task;
    } item[64];
    unsigned head, tail;
    bool stop;
    bench *b;
} post;

static void compute(const pto_arg *args)
{
    const int64_t from = rig_numel(&args[0]), to = rig_numel(&args[1]);
    for (int64_t i = 0; i < to; i++) {
        unsigned char *at = rig_element(&args[1], i);
        *at = (unsigned char)(*at * 3u + *rig_element(&args[0], i % from) + args[2].u64);
    }
}

static void *work_off(void *argument)
{
    post *p = argument;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->head == p->tail && !p->stop) {
            pthread_cond_wait(&p->change, &p->lock);
        }
        if (p->head == p->tail) {
            break;
        }
        const unsigned at = p->tail % 64;
        const pto_task task = p->item[at].task;
        pto_arg args[3];
        memcpy(args, p->item[at].args, sizeof args);
        p->tail++;
        pthread_cond_broadcast(&p->change);
        pthread_mutex_unlock(&p->lock);
        compute(args);
        if (pto_task_complete(p->b->r.rt, task, PTO_OK) != PTO_OK) {
            abort();
        }
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* 0: short; 1: two microseconds; 2: pending, done by the other thread. */
static pto_status mix(const pto_call *call)
{
    post *p = call->user;
    if (call->n_args == 0) {
        return PTO_OK;
    }
    const int64_t how = call->args[3].i64;
    if (how == 1) {
        spin_ns(2000);
    }
    if (how != 2) {
        compute(call->args);
        return PTO_OK;
    }
    pthread_mutex_lock(&p->lock);
    while (p->head - p->tail == 64) {
        pthread_cond_wait(&p->change, &p->lock);
    }
    memcpy(p->item[p->head % 64].args, call->args, sizeof p->item[0].args);
    p->item[p->head++ % 64].task = call->task;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    return PTO_PENDING;
}

/* The same views on the memory of the runtime and on that of the model. */
static void make_views(pto_tensor *views, unsigned char *memory)
{
    for (int i = 0; i < VIEWS; i++) { /* tiles; the last views cross them, or have gaps */
        const int64_t step = i < 8 ? 1 : 2, size = i < 8 ? 32 : i == 11 ? 100 : 24;
        const int64_t offset = i < 8 ? i * 32 : (i - 8) * 50;
        expect_ok(pto_tensor_init(&views[i], memory, AREA, PTO_UINT8, 1, DIMS(size), &step,
                                  offset + (size - 1) * step < AREA ? offset : 3));
    }
}

static pto_arg arg_of(const pto_tensor *t)
{
    return (pto_arg){.data = (char *)t->storage + t->offset,
                     .shape = t->shape,
                     .strides = t->strides,
                     .ndim = t->ndim,
                     .dtype = t->dtype};
}

static void test_serial_equivalence(void **state)
{
    test_rng rng = test_rng_make(test_seed());
    for (uint32_t run = 0; run < 6; run++) {
        bench b;
        post p = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER, .b = &b};
        unsigned char memory[AREA], model[AREA], temp[40];
        pto_tensor views[VIEWS], same[VIEWS];
        pto_kernel kernels[3];
        pthread_t thread;
        pto_config config = PTO_CONFIG_INIT;
        config.workers = 1 + run % 3;
        config.inline_ns = run < 3 ? EVERYTHING : 1000;
        config.ring_tasks = run % 2 ? 0 : 32;
        start(&b, state, &config);
        for (int i = 0; i < 3; i++) {
            expect_ok(pto_kernel_register(b.r.rt, "mix", PTO_VECTOR, mix, &p, &kernels[i]));
        }
        assert_int_equal(pthread_create(&thread, NULL, work_off, &p), 0);
        for (int i = 0; i < AREA; i++) {
            memory[i] = model[i] = (unsigned char)test_next(&rng);
        }
        make_views(views, memory);
        make_views(same, model);
        const uint64_t tasks = test_effort(3000);
        const uint64_t before = rig_stats(&b.r).submitted;
        uint64_t submitted_here = 0;
        while (submitted_here < tasks) {
            const bool scoped = test_next(&rng) % 3 == 0;
            pto_tensor t = {0}, shadow;
            expect_ok(pto_tensor_init(&shadow, temp, sizeof temp, PTO_UINT8, 1, DIMS(40), NULL, 0));
            if (scoped) {
                const uint64_t value = test_next(&rng) & 255;
                expect_ok(pto_scope_begin_ex(b.r.rt, test_next(&rng) & 1 ? PTO_SCOPE_BOUNDARY : 0));
                t = rig_temp(&b.r, sizeof temp);
                expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&t), pto_scalar(value)));
                memset(temp, (int)value, sizeof temp);
                submitted_here++;
            }
            const int64_t most = scoped ? 6 : 20, some = test_between(&rng, 1, most);
            const bool wide = test_next(&rng) % 4 == 0; /* also views that overlap */
            for (int64_t i = 0; i < some; i++, submitted_here++) {
                const int64_t dice = test_between(&rng, 0, 15);
                const int64_t how = dice < 13 ? 0 : dice < 15 ? 1 : 2;
                const int64_t from = test_between(&rng, scoped ? -1 : 0, wide ? VIEWS - 1 : 7);
                int64_t to = test_between(&rng, scoped ? -1 : 0, wide ? VIEWS - 1 : 7);
                to = to == from ? (to + 1) % VIEWS : to;
                if (from >= 0 && to >= 0 && pto_tensor_overlaps(&views[from], &views[to])) {
                    continue; /* inputs and outputs of one task must not overlap here */
                }
                const pto_tensor *read = from < 0 ? &t : &views[from];
                const pto_tensor *written = to < 0 ? &t : &views[to];
                const uint64_t value = test_next(&rng) & 255;
                expect_ok(pto_submit(b.r.rt, kernels[test_between(&rng, 0, 2)], pto_input(read),
                                     pto_inout(written), pto_scalar(value), pto_scalar(how)));
                const pto_arg args[3] = {arg_of(from < 0 ? &shadow : &same[from]),
                                         arg_of(to < 0 ? &shadow : &same[to]),
                                         {.u64 = value}};
                compute(args);
            }
            if (scoped) {
                unsigned char got[sizeof temp];
                if (test_next(&rng) % 4 == 0) {
                    expect_ok(pto_read(b.r.rt, &t, got, sizeof got));
                    assert_memory_equal(got, temp, sizeof got);
                }
                expect_ok(pto_scope_end(b.r.rt));
            }
            if (test_next(&rng) % 16 == 0) {
                finish(&b);
                assert_memory_equal(memory, model, AREA);
            }
        }
        finish(&b);
        assert_memory_equal(memory, model, AREA);
        const pto_runtime_stats stats = rig_stats(&b.r);
        assert_int_equal(stats.completed, stats.submitted);
        assert_true(stats.submitted - before <= submitted_here);
        pthread_mutex_lock(&p.lock);
        p.stop = true;
        pthread_cond_broadcast(&p.change);
        pthread_mutex_unlock(&p.lock);
        assert_int_equal(pthread_join(thread, NULL), 0);
        rig_stop(&b.r);
    }
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_a_temp_and_its_parts, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_a_temp_with_a_reader, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_several_temps, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_scopes, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_recycling, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_too_little_room, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_serial_equivalence, "inline execution"),
    };
    return rig_run("inline_memory", cases, sizeof cases / sizeof *cases);
}
