/* test_stall_report.c - the exact report of each kind of stall: as error detail, as text of
 * several lines and as a struct. Source lines are made up, so that the texts do not change with
 * this file. */
#include "../runtime/rig.h"

static pto_config tiny(void)
{
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 2;
    config.ring_tasks = 4;
    config.heap_bytes = 4096;
    config.arg_bytes = 1024;
    config.buffers = 8;
    return config;
}

static void open_scope(rig *r, uint32_t flags, int line)
{
    expect_ok(pto_scope_begin_at(r->rt, flags, "model.c", line));
}

static pto_status submit(rig *r, pto_kernel kernel, const pto_param *params, size_t n, int line)
{
    return pto_submit_task_at(r->rt, kernel, PTO_KERNEL_TYPE, params, n, NULL, "model.c", line);
}

static pto_status submit_output(rig *r, const pto_tensor *t, int line)
{
    const pto_param param = pto_output(t);
    return submit(r, r->quick, &param, 1, line);
}

static pto_stall_report last(rig *r)
{
    pto_stall_report report;
    memset(&report, 0xff, sizeof report);
    expect_ok(pto_last_stall(r->rt, &report));
    return report;
}

/* The detail and the text, to the letter. */
static void expect_words(rig *r, const char *detail, const char *text)
{
    char *printed = NULL;
    size_t length = 0;
    assert_string_equal(pto_error_detail(), detail);
    const pto_stall_report report = last(r);
    FILE *out = open_memstream(&printed, &length);
    assert_non_null(out);
    pto_stall_print(&report, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(printed, text);
    free(printed);
}

/* The common part of all reports. */
static void expect_report(const pto_stall_report *report, pto_stall_kind kind, pto_ring ring,
                          uint32_t level, uint64_t used, uint64_t size, uint64_t wanted)
{
    assert_string_equal(pto_stall_kind_name(report->kind), pto_stall_kind_name(kind));
    assert_string_equal(pto_ring_name(report->ring), pto_ring_name(ring));
    assert_int_equal(report->level, level);
    assert_int_equal(report->used, used);
    assert_int_equal(report->size, size);
    assert_int_equal(report->wanted, wanted);
    const bool held = kind == PTO_STALL_SCOPE || kind == PTO_STALL_LEVELS;
    assert_int_equal(report->oldest != 0, held);
    assert_string_equal(report->kernel, held ? report->kernel : "");
    assert_string_equal(report->file, held ? "model.c" : "");
    assert_string_equal(report->scope_file, held ? "model.c" : "");
}

/* ---- A scope holds the ring ---------------------------------------------------------------- */

static void test_heap(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    open_scope(&r, 0, 9);
    pto_tensor most = rig_temp(&r, 4000), more = rig_temp(&r, 100);
    expect_ok(submit_output(&r, &most, 21));
    expect_refusal(r.rt, submit_output(&r, &more, 22), PTO_STALLED);
    expect_words(&r,
                 "submit: the heap of level 0 is full (4096 bytes, 128 wanted), and no task that "
                 "ends can make room: its "
                 "oldest block, 4032 bytes of task 0 (kernel 'quick', submitted at model.c:21), is "
                 "held by the scope opened at model.c:9. End that scope, put repeated work into "
                 "PTO_BOUNDARY scopes, give up what is in that block (pto_release), or raise "
                 "heap_bytes (PTO_HEAP)",
                 "stalled: no task that ends can make room\n"
                 "  short of  heap of level 0: 128 wanted, 4032 of 4096 bytes in use\n"
                 "  oldest    output 0, 4000 bytes, of task 0 (kernel 'quick', submitted at "
                 "model.c:21)\n"
                 "  held by   the scope opened at model.c:9, which only this program can end\n"
                 "  do        end that scope earlier\n"
                 "  or        put repeated work into boundary scopes: PTO_BOUNDARY(rt) { ... }\n"
                 "  or        give up memory that is no longer needed: pto_release\n"
                 "  or        raise heap_bytes (PTO_HEAP)\n");
    const pto_stall_report report = last(&r);
    expect_report(&report, PTO_STALL_SCOPE, PTO_RING_HEAP, 0, 4032, 4096, 128);
    assert_int_equal(report.count, 1);
    assert_int_equal(report.order, 0);
    assert_int_equal(report.line, 21);
    assert_int_equal(report.scope_line, 9);
    assert_string_equal(report.kernel, "quick");
    assert_string_equal(report.field, "heap_bytes");
    assert_string_equal(report.variable, "PTO_HEAP");
    assert_int_equal(report.enough, 0);
    expect_refusal(r.rt, submit_output(&r, &more, 23), PTO_STALLED);
    assert_int_equal(last(&r).count, 2);
    assert_string_equal(rig_info(&r, report.oldest).kernel, "quick");
    expect_ok(pto_scope_end(r.rt));
    /* It can still be queried. */
    assert_int_equal(last(&r).kind, PTO_STALL_SCOPE);
    rig_stop(&r);
}

/* Memory of a pto_alloc is in the way, and memory that was given up waits behind it. */
static void test_given_up(void **state)
{
    rig r;
    pto_config config = tiny();
    pto_tensor kept;
    rig_start(&r, state, &config);
    open_scope(&r, 0, 11);
    expect_ok(pto_alloc_at(r.rt, PTO_UINT8, 1, DIMS(100), &kept, "model.c", 23));
    pto_tensor most = rig_temp(&r, 3900), more = rig_temp(&r, 3000);
    expect_ok(submit_output(&r, &most, 24));
    expect_ok(pto_release(r.rt, &most));
    expect_refusal(r.rt, submit_output(&r, &more, 25), PTO_STALLED);
    expect_words(
        &r,
        "submit: the heap of level 0 is full (4096 bytes, 3008 wanted), and no task that "
        "ends can make room: its oldest block, 128 bytes asked for at model.c:23, is held "
        "by the scope opened at model.c:11. End that scope, give up what is in that block, "
        "too (pto_release), or raise heap_bytes (PTO_HEAP)",
        "stalled: no task that ends can make room\n"
        "  short of  heap of level 0: 3008 wanted, 4032 of 4096 bytes in use\n"
        "  oldest    100 bytes asked for at model.c:23\n"
        "  held by   the scope opened at model.c:11, which only this program can end\n"
        "  behind it 3904 bytes that were given up (pto_release)\n"
        "  do        give up the oldest one, too: memory comes back in the order of birth\n"
        "  or        end that scope earlier\n"
        "  or        put repeated work into boundary scopes: PTO_BOUNDARY(rt) { ... }\n"
        "  or        raise heap_bytes (PTO_HEAP)\n");
    const pto_stall_report report = last(&r);
    assert_int_equal(report.oldest, 0);
    assert_string_equal(report.kernel, "alloc");
    assert_int_equal(report.given_up, 3904);
    expect_ok(pto_release(r.rt, &kept));
    expect_ok(submit_output(&r, &more, 26));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Boundaries nest deeper than there are levels: the outer memory is in their way. */
static void test_too_few_levels(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    open_scope(&r, PTO_SCOPE_BOUNDARY, 13);
    pto_tensor outer = rig_temp(&r, 1000), inner;
    expect_ok(submit_output(&r, &outer, 25));
    open_scope(&r, PTO_SCOPE_BOUNDARY, 14);
    inner = rig_temp(&r, 3000);
    expect_ok(submit_output(&r, &inner, 26));
    inner = rig_temp(&r, 100);
    expect_refusal(r.rt, submit_output(&r, &inner, 27), PTO_STALLED);
    expect_words(&r,
                 "submit: the heap of level 1 is full (4096 bytes, 128 wanted), and no task that "
                 "ends can make room: its oldest block, 1024 bytes of task 0 "
                 "(kernel 'quick', submitted at model.c:25), is held by the scope opened at "
                 "model.c:13. End that scope, raise levels (PTO_LEVELS): boundary scopes share the "
                 "last ring here, or raise heap_bytes (PTO_HEAP)",
                 "stalled: no task that ends can make room\n"
                 "  short of  heap of level 1: 128 wanted, 4032 of 4096 bytes in use\n"
                 "  oldest    output 0, 1000 bytes, of task 0 (kernel 'quick', submitted at "
                 "model.c:25)\n"
                 "  held by   the scope opened at model.c:13, which only this program can end\n"
                 "  do        raise levels (PTO_LEVELS): boundary scopes that nest this deep share "
                 "the ring of the scope\n"
                 "  or        end that scope earlier\n"
                 "  or        raise heap_bytes (PTO_HEAP)\n");
    const pto_stall_report report = last(&r);
    expect_report(&report, PTO_STALL_LEVELS, PTO_RING_HEAP, 1, 4032, 4096, 128);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Records ------------------------------------------------------------------------------- */

static void test_buffers(void **state)
{
    rig r;
    pto_config config = tiny();
    pto_tensor t;
    rig_start(&r, state, &config);
    open_scope(&r, 0, 15);
    for (int i = 0; i < 8; i++) {
        t = rig_temp(&r, 64);
    }
    expect_refusal(r.rt, pto_temp(r.rt, PTO_UINT8, 1, DIMS(64), &t), PTO_STALLED);
    expect_words(&r,
                 "create a buffer: 8 records of tensors are held by open scopes: end them, give "
                 "tensors up (pto_release), use boundary scopes, or raise buffers (PTO_BUFFERS)",
                 "stalled: no task that ends can make room\n"
                 "  short of  records of tensors: 1 wanted, 8 of 8 tensors in use\n"
                 "  do        end scopes, which frees records; a boundary scope frees its own\n"
                 "  or        give up tensors that are no longer needed: pto_release\n"
                 "  or        raise buffers (PTO_BUFFERS)\n");
    const pto_stall_report report = last(&r);
    expect_report(&report, PTO_STALL_BUFFERS, PTO_RING_BUFFERS, 0, 8, 8, 1);
    assert_string_equal(report.variable, "PTO_BUFFERS");
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Never ---------------------------------------------------------------------------------- */

static void test_never_a_tensor(void **state)
{
    rig r;
    pto_config config = tiny();
    pto_tensor t;
    rig_start(&r, state, &config);
    open_scope(&r, 0, 16);
    expect_refusal(r.rt, pto_temp(r.rt, PTO_UINT8, 1, DIMS(5000), &t), PTO_TOO_LARGE);
    expect_words(&r,
                 "create a buffer: 5000 bytes, but the heap of level 0 has 4096: raise "
                 "heap_bytes (PTO_HEAP) to at least 5056",
                 "too large: it would not fit into an empty ring\n"
                 "  short of  heap of level 0: 5000 wanted, 0 of 4096 bytes in use\n"
                 "  do        split it into smaller tasks\n"
                 "  or        raise heap_bytes (PTO_HEAP) to at least 5056\n");
    const pto_stall_report report = last(&r);
    expect_report(&report, PTO_STALL_TOO_LARGE, PTO_RING_HEAP, 0, 0, 4096, 5000);
    assert_int_equal(report.enough, 5056);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static void test_never_the_outputs(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    open_scope(&r, 0, 17);
    pto_tensor a = rig_temp(&r, 4096), b = rig_temp(&r, 1);
    const pto_param both[] = {pto_output(&a), pto_output(&b)};
    expect_refusal(r.rt, submit(&r, r.quick, both, 2, 27), PTO_TOO_LARGE);
    expect_words(
        &r,
        "submit: outputs of 4160 bytes do not fit into the heap of level 0, which has 4096: raise "
        "heap_bytes (PTO_HEAP) to at least 4160",
        "too large: it would not fit into an empty ring\n"
        "  short of  heap of level 0: 4160 wanted, 0 of 4096 bytes in use\n"
        "  do        split it into smaller tasks\n"
        "  or        raise heap_bytes (PTO_HEAP) to at least 4160\n");
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Memory of an outer lifetime: each of the two fits, the second beside the first does not. */
static void test_never_outside(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    open_scope(&r, 0, 18);
    pto_tensor a = rig_temp(&r, 4096), b = rig_temp(&r, 64);
    const pto_param both[] = {pto_output(&a), pto_output(&b)};
    open_scope(&r, PTO_SCOPE_BOUNDARY, 19);
    expect_refusal(r.rt, submit(&r, r.quick, both, 2, 28), PTO_TOO_LARGE);
    expect_words(&r,
                 "submit: the heap of level 0 is empty, and still too small: raise heap_bytes "
                 "(PTO_HEAP)",
                 "too large: it would not fit into an empty ring\n"
                 "  short of  heap of level 0: 4160 wanted, 0 of 4096 bytes in use\n"
                 "  do        split it into smaller tasks\n"
                 "  or        raise heap_bytes (PTO_HEAP)\n");
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static void test_never_the_arguments(void **state)
{
    enum { MANY = 65 };
    rig r;
    pto_config config = tiny();
    pto_param scalars[MANY];
    for (int i = 0; i < MANY; i++) {
        scalars[i] = pto_scalar(i);
    }
    config.level_arg_bytes[1] = 4096;
    rig_start(&r, state, &config);
    expect_refusal(r.rt, submit(&r, r.quick, scalars, MANY, 29), PTO_TOO_LARGE);
    expect_words(&r,
                 "submit: 65 arguments take 1040 bytes of the 1024 that level 0 has for them: "
                 "raise arg_bytes (PTO_ARGS) to at least 1040",
                 "too large: it would not fit into an empty ring\n"
                 "  short of  argument ring of level 0: 1040 wanted, 0 of 1024 bytes in use\n"
                 "  do        split it into smaller tasks\n"
                 "  or        raise arg_bytes (PTO_ARGS) to at least 1040\n");
    rig_stop(&r);
}

/* More than any ring could hold: no size is suggested. */
static void test_never_so_many(void **state)
{
    rig r;
    const pto_param one = pto_scalar(1);
    rig_start(&r, state, NULL);
    const size_t many[] = {1048577, SIZE_MAX};
    for (size_t i = 0; i < 2; i++) {
        expect_fail(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, &one, many[i], NULL),
                    PTO_TOO_LARGE, "a task has at most a million parameters (1048576)");
        assert_null(strstr(pto_error_detail(), "raise"));
    }
    rig_stop(&r);
}

/* ---- None ----------------------------------------------------------------------------------- */

static void test_none(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    const pto_stall_report report = last(&r);
    assert_int_equal(report.count, 0);
    assert_int_equal(report.kind, PTO_STALL_NONE);
    assert_string_equal(report.kernel, "");
    assert_string_equal(report.field, "");
    pto_stall_print(&report, NULL);
    pto_stall_print(NULL, stdout);
    PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale"));
    expect_words(&r, "stale", "");
    expect_fail(pto_last_stall(r.rt, NULL), PTO_NULL_ARGUMENT, "report");
    pto_stall_report unused;
    expect_fail(pto_last_stall(NULL, &unused), PTO_NULL_ARGUMENT, "runtime");
    assert_string_equal(pto_ring_name((pto_ring)99), "unknown ring");
    assert_string_equal(pto_stall_kind_name((pto_stall_kind)99), "PTO_STALL_UNKNOWN");
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_heap),           RIG_CASE(test_given_up),
        RIG_CASE(test_too_few_levels), RIG_CASE(test_buffers),
        RIG_CASE(test_never_a_tensor), RIG_CASE(test_never_the_outputs),
        RIG_CASE(test_never_outside),  RIG_CASE(test_never_the_arguments),
        RIG_CASE(test_never_so_many),  RIG_CASE(test_none),
    };
    return rig_run("stall report", cases, sizeof cases / sizeof *cases);
}
