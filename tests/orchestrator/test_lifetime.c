/* test_lifetime.c - ordering is not lifetime: memory stays as long as a task names it, through
 * any view, version or pto_nodep argument, and is recycled as soon as none does. */
#include "../runtime/rig.h"

enum { HEAP = 16384, QUARTER = HEAP / 4 };

static pto_config small(void)
{
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 2;
    config.heap_bytes = HEAP;
    return config;
}

/* The arguments of the held reader. */
typedef struct witness {
    atomic_uintptr_t data; /* of argument 0 */
} witness;

static pto_status remember(const pto_call *call)
{
    witness *w = call->user;
    atomic_store(&w->data, (uintptr_t)call->args[0].data);
    return PTO_PENDING;
}

/* Fills the rest of the heap with tasks in their own scopes, and one more than fits. That one
 * has to wait for `reader`, which another thread completes after it has checked the memory. */
static void press(rig *r, pto_task reader, const unsigned char *bytes, size_t count, int blocks)
{
    rig_later later = {
        .status = PTO_OK, .look = bytes, .look_bytes = count, .expected = 0xa5, .until_wait = true};
    for (int i = 0; i < blocks; i++) {
        expect_ok(pto_scope_begin(r->rt));
        pto_tensor t = rig_temp(r, QUARTER);
        RIG_SUBMIT(r, r->fill, pto_output(&t), pto_scalar(0x11));
        expect_ok(pto_scope_end(r->rt));
    }
    expect_ok(pto_wait_task(r->rt, pto_last_task(r->rt)));
    rig_later_start(&later, r, reader, 10000);
    expect_ok(pto_scope_begin(r->rt));
    pto_tensor t = rig_temp(r, QUARTER);
    RIG_SUBMIT(r, r->fill, pto_output(&t), pto_scalar(0x22));
    assert_true(atomic_load(&later.ending)); /* it was submitted only after that */
    rig_later_join(&later);
    expect_ok(pto_scope_end(r->rt));
}

/* How C names the memory that A owns and B updated. */
typedef enum naming {
    PLAINLY,
    WITHOUT_ORDER,
    BY_A_VIEW,
    BY_A_VIEW_WITHOUT_ORDER,
    AS_THE_NEXT_VERSION,
    AS_OUTPUT_WITHOUT_ORDER,
    BACKWARDS,
    NAMINGS
} naming;

/* A owns X, B updates it in place, C reads it slowly; the scope ends. */
static void hold_one(rig *r, witness *w, pto_kernel watch, naming how)
{
    expect_ok(pto_scope_begin(r->rt));
    pto_tensor x = rig_temp(r, QUARTER);
    pto_task a = RIG_SUBMIT(r, r->fill, pto_output(&x), pto_scalar(0xff));
    pto_tensor named = x;
    if (how == AS_THE_NEXT_VERSION) {
        named.version = 1;
        RIG_SUBMIT(r, r->fill, pto_output(&named), pto_scalar(0xa5));
    } else {
        RIG_SUBMIT(r, r->fill, pto_inout(&x), pto_scalar(0xa5));
    }
    expect_ok(pto_wait(r->rt));
    size_t count = QUARTER, begin = 0;
    if (how == BY_A_VIEW || how == BY_A_VIEW_WITHOUT_ORDER) {
        begin = QUARTER - 64;
        count = 64;
        named = rig_slice(&x, QUARTER - 64, QUARTER);
    } else if (how == BACKWARDS) {
        expect_ok(pto_tensor_slice(&x, 0, QUARTER - 1, -1, -1, &named));
    }
    pto_param param = how == AS_OUTPUT_WITHOUT_ORDER ? pto_output(&named) : pto_input(&named);
    if (how == WITHOUT_ORDER || how == BY_A_VIEW_WITHOUT_ORDER || how == AS_OUTPUT_WITHOUT_ORDER) {
        param = pto_nodep(param);
    }
    const unsigned char *bytes = rig_address(r, &x);
    pto_task c = RIG_SUBMIT(r, watch, param);
    RIG_FANOUT(r, a, 3, 2); /* its scope, B (complete), C */
    expect_ok(pto_scope_end(r->rt));
    RIG_FANOUT(r, a, 3, 1);
    assert_int_equal(rig_info(r, a).state, PTO_TASK_COMPLETED);
    rig_until(r, c, PTO_TASK_RUNNING);
    press(r, c, bytes + begin, count, 3);
    rig_until(r, a, PTO_TASK_CONSUMED);
    rig_until(r, c, PTO_TASK_CONSUMED);
    assert_true(atomic_load(&w->data) != 0);
}

static void test_memory_stays_for_its_last_reader(void **state)
{
    for (int how = 0; how < NAMINGS; how++) {
        rig r;
        pto_kernel watch;
        pto_config config = small();
        rig_start(&r, state, &config);
        witness *w = rig_memory(&r, sizeof *w);
        atomic_init(&w->data, 0);
        expect_ok(pto_kernel_register(r.rt, "watch", PTO_VECTOR, remember, w, &watch));
        hold_one(&r, w, watch, (naming)how);
        assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).waits, 1);
        expect_ok(pto_wait(r.rt));
        assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
        rig_stop(&r);
    }
}

/* The same across levels: the reader is inside a boundary, its memory outside. The reader may bring a
 * block of its own, which has the same number on its level. */
static void test_memory_stays_for_a_reader_on_another_level(void **state)
{
    for (int brings = 0; brings < 2; brings++) {
        rig r;
        pto_config config = small();
        rig_start(&r, state, &config);
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor x = rig_temp(&r, QUARTER);
        pto_task a = RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(0xa5));
        expect_ok(pto_wait(r.rt));
        const unsigned char *bytes = rig_address(&r, &x);
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        pto_tensor y = rig_temp(&r, 64);
        pto_task c = brings ? RIG_SUBMIT(&r, r.hold, pto_nodep(pto_input(&x)), pto_output(&y))
                            : RIG_SUBMIT(&r, r.hold, pto_nodep(pto_input(&x)));
        expect_ok(pto_scope_end(r.rt));
        RIG_FANOUT(&r, a, 2, 2);
        expect_ok(pto_scope_end(r.rt));
        RIG_FANOUT(&r, a, 2, 1);
        rig_until(&r, c, PTO_TASK_RUNNING);
        press(&r, c, bytes, QUARTER, 3);
        rig_until(&r, a, PTO_TASK_CONSUMED);
        rig_stop(&r);
    }
}

/* Memory of pto_alloc, and of pto_write, has an owner too. */
static void test_memory_without_a_writer_stays(void **state)
{
    rig r;
    pto_config config = small();
    unsigned char *bytes = malloc(QUARTER);
    assert_non_null(bytes);
    memset(bytes, 0xa5, QUARTER);
    for (int by_write = 0; by_write < 2; by_write++) {
        rig_start(&r, state, &config);
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor x;
        if (by_write) {
            x = rig_temp(&r, QUARTER);
        } else {
            expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(QUARTER), &x));
        }
        expect_ok(pto_write(r.rt, &x, bytes, QUARTER));
        pto_task c = RIG_SUBMIT(&r, r.hold, pto_input(&x));
        const unsigned char *at = rig_address(&r, &x);
        expect_ok(pto_scope_end(r.rt));
        rig_until(&r, c, PTO_TASK_RUNNING);
        press(&r, c, at, QUARTER, 3);
        expect_ok(pto_wait(r.rt));
        assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
        rig_stop(&r);
    }
    free(bytes);
}

/* Several holders, completed in any order: the last one counts. A slow task that holds nothing does
 * not. */
static void test_the_last_of_many_holders(void **state)
{
    enum { HOLDERS = 12 };
    rig r;
    pto_config config = small();
    rig_start(&r, state, &config);
    for (int last = 0; last < HOLDERS; last += 5) {
        pto_task holder[HOLDERS];
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor x = rig_temp(&r, QUARTER);
        pto_task a = RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(0xa5));
        expect_ok(pto_wait(r.rt));
        for (int i = 0; i < HOLDERS; i++) {
            pto_tensor part = rig_slice(&x, i, i + 1);
            holder[i] = RIG_SUBMIT(&r, r.hold, pto_input(&part));
        }
        const unsigned char *bytes = rig_address(&r, &x);
        expect_ok(pto_scope_end(r.rt));
        RIG_FANOUT(&r, a, HOLDERS + 1, HOLDERS);
        uint32_t left = HOLDERS;
        for (int i = 0; i < HOLDERS; i++) {
            if (i != last) {
                rig_finish(&r, holder[i], PTO_OK);
                RIG_FANOUT(&r, a, HOLDERS + 1, --left);
            }
        }
        press(&r, holder[last], bytes, QUARTER, 3);
        rig_until(&r, a, PTO_TASK_CONSUMED);
    }
    rig_stop(&r);
}

/* A slow task that names other memory only keeps its own memory. */
static void test_a_bystander_holds_nothing(void **state)
{
    rig r;
    pto_config config = small();
    config.heap_bytes = HEAP;
    rig_start(&r, state, &config);
    char *memory = rig_memory(&r, 8);
    pto_tensor user = rig_bytes(&r, memory, 8);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_temp(&r, HEAP);
    pto_task a = RIG_SUBMIT(&r, r.quick, pto_output(&x));
    pto_task bystander = RIG_SUBMIT(&r, r.hold, pto_inout(&user));
    pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&x));
    expect_ok(pto_wait_task(r.rt, reader));
    expect_ok(pto_scope_end(r.rt));
    rig_until(&r, bystander, PTO_TASK_RUNNING);
    /* The whole heap is free, although a task in between is not complete: this must not wait for
     * it. */
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor y = rig_temp(&r, HEAP);
    RIG_SUBMIT(&r, r.quick, pto_output(&y));
    expect_ok(pto_scope_end(r.rt));
    assert_int_equal(rig_info(&r, a).state, PTO_TASK_CONSUMED);
    assert_int_equal(rig_info(&r, bystander).state, PTO_TASK_RUNNING);
    rig_finish(&r, bystander, PTO_OK);
    rig_stop(&r);
}

/* Skipped and failed holders release memory like any other. */
static void test_failed_holders_let_go(void **state)
{
    rig r;
    pto_config config = small();
    rig_start(&r, state, &config);
    for (int round = 0; round < 50; round++) {
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor x = rig_temp(&r, HEAP / 2), y = rig_temp(&r, HEAP / 2);
        RIG_SUBMIT(&r, r.fails, pto_output(&x));
        RIG_SUBMIT(&r, r.quick, pto_input(&x), pto_output(&y)); /* skipped, and owns memory */
        RIG_SUBMIT(&r, r.quick, pto_input(&y));
        expect_ok(pto_scope_end(r.rt));
    }
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
    assert_int_equal(rig_stats(&r).failed, 50);
    assert_int_equal(rig_stats(&r).skipped, 100);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* ---- Made outside, written inside --------------------------------------------------------------- */

/* A buffer of an outer lifetime whose first writer is inside one or two boundaries: the memory
 * belongs to the outer lifetime and stays when the boundary ends. */
static void test_a_first_writer_inside_of_a_boundary(void **state)
{
    for (int by_write = 0; by_write < 2; by_write++) {
        for (uint32_t levels = 1; levels <= 3; levels++) {
            rig r;
            unsigned char ones[64], got[64];
            pto_config config = small();
            config.levels = levels;
            memset(ones, 0xa5, sizeof ones);
            rig_start(&r, state, &config);
            expect_ok(pto_scope_begin(r.rt));
            pto_tensor x = rig_temp(&r, 64), y;
            expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
            expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
            y = rig_temp(&r, QUARTER);
            if (by_write) {
                expect_ok(pto_write(r.rt, &x, ones, sizeof ones));
                RIG_SUBMIT(&r, r.quick, pto_output(&y));
            } else {
                RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(0xa5), pto_output(&y));
            }
            const unsigned char *at = rig_address(&r, &x);
            expect_ok(pto_scope_end(r.rt));
            expect_fail(pto_submit(r.rt, r.quick, pto_input(&y)), PTO_STALE, "submit");
            expect_ok(pto_scope_end(r.rt));
            /* Whatever streams through the rings meanwhile, it is not over this memory; on one
             * level it cannot, and that is said. */
            pto_status status = PTO_OK;
            for (int i = 0; i < 100 && status == PTO_OK; i++) {
                expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
                pto_tensor t = rig_temp(&r, QUARTER);
                status = pto_submit(r.rt, r.fill, pto_output(&t), pto_scalar(0x11));
                if (i % 2) {
                    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
                    t = rig_temp(&r, QUARTER);
                    if (status == PTO_OK) {
                        status = pto_submit(r.rt, r.fill, pto_output(&t), pto_scalar(0x22));
                    }
                    expect_ok(pto_scope_end(r.rt));
                }
                expect_ok(pto_scope_end(r.rt));
            }
            if (levels == 1) {
                expect_refusal(r.rt, status, PTO_STALLED);
            }
            assert_int_equal(status, levels == 1 ? PTO_STALLED : PTO_OK);
            assert_ptr_equal(rig_address(&r, &x), at);
            expect_ok(pto_read(r.rt, &x, got, sizeof got));
            assert_memory_equal(got, ones, sizeof got);
            pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&x));
            expect_ok(pto_wait_task(r.rt, reader));
            expect_ok(pto_check(r.rt));
            expect_ok(pto_scope_end(r.rt));
            expect_fail(pto_submit(r.rt, r.quick, pto_input(&x)), PTO_STALE, "submit");
            expect_ok(pto_wait(r.rt));
            for (uint32_t l = 0; l < levels; l++) {
                assert_int_equal(rig_ring(&r, l, PTO_RING_HEAP).used, 0);
                assert_int_equal(rig_ring(&r, l, PTO_RING_TASKS).used, 0);
            }
            rig_stop(&r);
        }
    }
}

/* Such memory has a block of its own, in the heap of its lifetime, and its writer is a holder. */
static void test_owner_of_memory_written_inside(void **state)
{
    rig r;
    pto_config config = small();
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_temp(&r, HEAP);
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_task before = pto_last_task(r.rt);
    assert_int_equal(before, 0);
    pto_task writer = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    pto_runtime_stats stats = rig_stats(&r);
    assert_int_equal(stats.level[0].ring[PTO_RING_HEAP].used, HEAP);
    assert_int_equal(stats.level[1].ring[PTO_RING_HEAP].used, 0);
    assert_int_equal(stats.submitted, 1);
    assert_int_equal(rig_info(&r, writer).level, 1);
    assert_int_equal(rig_info(&r, writer).heap_bytes, 0);
    RIG_FANOUT(&r, writer, 0, 0); /* it brings no block */
    pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&x));
    RIG_WAITS_FOR(&r, reader, 1);
    RIG_FANOUT(&r, writer, 0, 0);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    /* All scopes have ended, and the writer holds the memory. */
    rig_later later = {.status = PTO_OK};
    rig_later_start(&later, &r, writer, 10000);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor y = rig_temp(&r, HEAP);
    RIG_SUBMIT(&r, r.quick, pto_output(&y));
    assert_true(atomic_load(&later.ending));
    rig_later_join(&later);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* A submit that gives memory to buffers of several lifetimes either gives all of it or none. */
static void test_memory_for_several_lifetimes_at_once(void **state)
{
    rig r;
    pto_config config = small();
    config.levels = 3;
    config.level_heap_bytes[1] = QUARTER;
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor outer = rig_temp(&r, HEAP);
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_tensor middle = rig_temp(&r, QUARTER), full = rig_temp(&r, QUARTER);
    RIG_SUBMIT(&r, r.quick, pto_output(&full));
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_tensor inner = rig_temp(&r, HEAP), unwritten = rig_temp(&r, 1);
    /* The heap between is full for as long as its scope is open: nothing of the others is taken. */
    expect_fail(
        pto_submit(r.rt, r.quick, pto_output(&outer), pto_output(&middle), pto_output(&inner)),
        PTO_STALLED, "heap", "level 1");
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&outer), pto_input(&unwritten)),
                PTO_NOT_WRITTEN, "1");
    void *address = NULL;
    expect_fail(pto_get_buffer_addr(r.rt, &outer, &address), PTO_NOT_WRITTEN, "addr");
    expect_fail(pto_get_buffer_addr(r.rt, &inner, &address), PTO_NOT_WRITTEN, "addr");
    pto_runtime_stats stats = rig_stats(&r);
    assert_int_equal(stats.level[0].ring[PTO_RING_HEAP].used, 0);
    assert_int_equal(stats.level[2].ring[PTO_RING_HEAP].used, 0);
    assert_int_equal(stats.submitted, 1);
    expect_ok(pto_check(r.rt));
    RIG_SUBMIT(&r, r.quick, pto_output(&outer), pto_output(&inner));
    stats = rig_stats(&r);
    assert_int_equal(stats.level[0].ring[PTO_RING_HEAP].used, HEAP);
    assert_int_equal(stats.level[2].ring[PTO_RING_HEAP].used, HEAP);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    RIG_SUBMIT(&r, r.quick, pto_input(&outer));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Under load ------------------------------------------------------------------------------ */

typedef struct checker {
    atomic_uint wrong;
} checker;

/* Every byte of argument 0 is argument 1, before and after a while. */
static pto_status check_bytes(const pto_call *call)
{
    checker *c = call->user;
    const pto_arg *x = &call->args[0];
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0, n = rig_numel(x); i < n; i += 7) {
            if (*rig_element(x, i) != (unsigned char)call->args[1].u64) {
                atomic_fetch_add(&c->wrong, 1);
                return PTO_OK;
            }
        }
        if (pass == 0 && call->args[1].u64 % 5 == 0) {
            rig_sleep_us(50);
        }
    }
    return PTO_OK;
}

/* Thousands of buffers through a heap of a few, each with readers that stay behind their scope. */
static void test_a_busy_heap(void **state)
{
    rig r;
    pto_kernel check;
    pto_config config = small();
    config.ring_tasks = 32;
    config.workers = 3;
    rig_start(&r, state, &config);
    checker *c = rig_memory(&r, sizeof *c);
    atomic_init(&c->wrong, 0);
    expect_ok(pto_kernel_register(r.rt, "check", PTO_VECTOR, check_bytes, c, &check));
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t round = 0, rounds = test_effort(800); round < rounds; round++) {
        uint32_t flags = test_between(&rng, 0, 1) ? PTO_SCOPE_BOUNDARY : 0;
        int64_t mark = test_between(&rng, 0, 255), size = test_between(&rng, 1, HEAP / 5);
        expect_ok(pto_scope_begin_ex(r.rt, flags));
        pto_tensor x = rig_temp(&r, size), next;
        RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(mark ^ 1));
        next = x;
        next.version = 1;
        RIG_SUBMIT(&r, r.fill, pto_output(&next), pto_scalar(mark));
        for (int64_t i = test_between(&rng, 0, 3); i >= 0; i--) {
            int64_t low = test_between(&rng, 0, size - 1);
            pto_tensor part = rig_slice(&next, low, test_between(&rng, low + 1, size));
            RIG_SUBMIT(&r, check, pto_input(&part), pto_scalar(mark));
        }
        expect_ok(pto_scope_end(r.rt));
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(atomic_load(&c->wrong), 0);
    pto_runtime_stats stats = rig_stats(&r);
    for (uint32_t level = 0; level < 2; level++) {
        assert_int_equal(stats.level[level].ring[PTO_RING_HEAP].used, 0);
        assert_int_equal(stats.level[level].ring[PTO_RING_TASKS].used, 0);
        assert_true(stats.level[level].ring[PTO_RING_HEAP].peak <= HEAP);
    }
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_memory_stays_for_its_last_reader),
        RIG_CASE(test_memory_stays_for_a_reader_on_another_level),
        RIG_CASE(test_memory_without_a_writer_stays),
        RIG_CASE(test_the_last_of_many_holders),
        RIG_CASE(test_a_bystander_holds_nothing),
        RIG_CASE(test_failed_holders_let_go),
        RIG_CASE(test_a_first_writer_inside_of_a_boundary),
        RIG_CASE(test_owner_of_memory_written_inside),
        RIG_CASE(test_memory_for_several_lifetimes_at_once),
        RIG_CASE(test_a_busy_heap),
    };
    return rig_run("lifetime", cases, sizeof cases / sizeof *cases);
}
