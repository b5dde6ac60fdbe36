/* test_rearrange_task.c - Rearrange as tasks: parts, their place among other tasks, managed memory,
 * and what is refused at submit. */
#include "../runtime/rig.h"

#include <pto/rearrange.h>

enum { ROWS = 2048, COLS = 1024, PARTS = ROWS * COLS * 4 / (1 << 20), TILE = 128 };

/* Two matrices of 8 MiB, dst turned: dst[j][i] = src[i][j]. */
typedef struct pair {
    int32_t *from, *to;
    pto_tensor src, dst, turned; /* turned: a view of src that has the shape of dst */
} pair;

/* Memory that begins with a cache line. It lives as long as the runtime. */
static void *lines(rig *r, size_t bytes)
{
    void *memory = rig_memory(r, bytes);
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 0x5a, bytes);
    return memory;
}

static pto_tensor matrix(rig *r, int32_t *memory, int64_t rows, int64_t cols)
{
    pto_tensor t;
    expect_ok(pto_external_tensor(r->rt, memory, PTO_INT32, 2, DIMS(rows, cols), &t));
    return t;
}

static pair pair_make(rig *r)
{
    pair p;
    p.from = lines(r, (size_t)ROWS * COLS * 4);
    p.to = lines(r, (size_t)ROWS * COLS * 4);
    p.src = matrix(r, p.from, ROWS, COLS);
    p.dst = matrix(r, p.to, COLS, ROWS);
    expect_ok(pto_tensor_transpose(&p.src, 0, 1, &p.turned));
    return p;
}

/* The tasks submitted last are numbered one after the other: number `i` of the last `n`. */
static pto_task part(rig *r, uint64_t n, uint64_t i)
{
    return pto_last_task(r->rt) - ((n - 1 - i) << 3);
}

static pto_tensor rows_of(const pto_tensor *t, int64_t low, int64_t high)
{
    pto_tensor view;
    expect_ok(pto_tensor_slice(t, 0, low, high, 1, &view));
    return view;
}

static pto_tensor tile_of(const pto_tensor *t, int64_t i, int64_t j)
{
    pto_tensor view;
    expect_ok(pto_tensor_view(t, DIMS(i, j), DIMS(TILE, TILE), &view));
    return view;
}

/* ---- Results -------------------------------------------------------------------------------- */

static int32_t value_at(int64_t i, int64_t j)
{
    return (int32_t)(i * 7919 + j * 104729);
}

/* Writes value_at to a tile that begins at (args[1], args[2]). */
static pto_status write_tile(const pto_call *call)
{
    const pto_arg *t = &call->args[0];
    for (int64_t i = 0; i < t->shape[0]; i++) {
        for (int64_t j = 0; j < t->shape[1]; j++) {
            ((int32_t *)t->data)[i * t->strides[0] + j * t->strides[1]] = value_at(
                call->args[1].i64 + i, call->args[2].i64 + j);
        }
    }
    return PTO_OK;
}

/* Adds args[1] to a tile. */
static pto_status add_to_tile(const pto_call *call)
{
    const pto_arg *t = &call->args[0];
    for (int64_t i = 0; i < t->shape[0]; i++) {
        for (int64_t j = 0; j < t->shape[1]; j++) {
            int32_t *at = &((int32_t *)t->data)[i * t->strides[0] + j * t->strides[1]];
            *at = (int32_t)((uint32_t)*at + (uint32_t)call->args[1].i64);
        }
    }
    return PTO_OK;
}

/* Tiles of the source are written, all is turned, tiles of both are changed; twice, so that the
 * second time everything has somebody to wait for. */
static void transposes_between_tiles(rig *r, const pto_tensor *src, const pto_tensor *dst,
                                     pto_worker_type type)
{
    pto_kernel write, add;
    pto_tensor turned;
    expect_ok(pto_kernel_register(r->rt, "write", PTO_VECTOR, write_tile, NULL, &write));
    expect_ok(pto_kernel_register(r->rt, "add", PTO_CUBE, add_to_tile, NULL, &add));
    expect_ok(pto_tensor_transpose(src, 0, 1, &turned));
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < ROWS; i += TILE) {
            for (int64_t j = 0; j < COLS; j += TILE) {
                pto_tensor t = tile_of(src, i, j);
                RIG_SUBMIT(r, write, pto_output(&t), pto_scalar(i + round), pto_scalar(j));
            }
        }
        expect_ok(pto_submit_rearrange(r->rt, dst, &turned, type));
        for (int64_t i = 0; i < COLS; i += TILE) {
            for (int64_t j = 0; j < ROWS; j += TILE) {
                pto_tensor t = tile_of(dst, i, j), u = tile_of(src, j, i);
                RIG_SUBMIT(r, add, pto_inout(&t), pto_scalar(i + j));
                RIG_SUBMIT(r, add, pto_inout(&u), pto_scalar(-1));
            }
        }
    }
}

static void expect_turned(const int32_t *from, const int32_t *to)
{
    for (int64_t i = 0; i < COLS; i++) {
        for (int64_t j = 0; j < ROWS; j++) {
            int64_t tile = i / TILE * TILE + j / TILE * TILE;
            assert_true(to[i * ROWS + j] == (int32_t)(value_at(j + 1, i) + tile));
            assert_true(!from || from[j * COLS + i] == value_at(j + 1, i) - 1);
        }
    }
}

static void test_parts_between_tiles(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pair p = pair_make(&r);
    transposes_between_tiles(&r, &p.src, &p.dst, PTO_VECTOR);
    expect_ok(pto_wait(r.rt));
    expect_turned(p.from, p.to);
    rig_stop(&r);
}

static pto_config roomy(void)
{
    pto_config config = PTO_CONFIG_INIT;
    config.heap_bytes = 64 << 20;
    return config;
}

static void test_managed_parts_between_tiles(void **state)
{
    rig r;
    pto_config config = roomy();
    rig_start(&r, state, &config);
    PTO_SCOPE(r.rt) {
        pto_tensor src, dst;
        expect_ok(pto_alloc(r.rt, PTO_INT32, 2, DIMS(ROWS, COLS), &src));
        expect_ok(pto_temp(r.rt, PTO_INT32, 2, DIMS(COLS, ROWS), &dst)); /* no memory yet */
        transposes_between_tiles(&r, &src, &dst, PTO_ACCELERATOR);
        int32_t *from = lines(&r, (size_t)ROWS * COLS * 4),
                *to = lines(&r, (size_t)ROWS * COLS * 4);
        expect_ok(pto_read(r.rt, &src, from, (uint64_t)ROWS * COLS * 4));
        expect_ok(pto_read(r.rt, &dst, to, (uint64_t)ROWS * COLS * 4));
        expect_turned(from, to);
    }
    rig_stop(&r);
}

/* The memory belongs to the lifetime that the tensor was made in. */
static void test_memory_of_an_outer_lifetime(void **state)
{
    rig r;
    pto_config config = roomy();
    rig_start(&r, state, &config);
    pair p = pair_make(&r);
    for (int i = 0; i < ROWS * COLS; i++) {
        p.from[i] = i;
    }
    PTO_SCOPE(r.rt) {
        pto_tensor dst;
        expect_ok(pto_temp(r.rt, PTO_INT32, 2, DIMS(COLS, ROWS), &dst));
        PTO_BOUNDARY(r.rt) {
            expect_ok(pto_submit_rearrange(r.rt, &dst, &p.turned, PTO_VECTOR));
        }
        expect_ok(pto_read(r.rt, &dst, p.to, (uint64_t)ROWS * COLS * 4));
    }
    for (int i = 0; i < ROWS * COLS; i++) {
        assert_int_equal(p.to[i], i % ROWS * COLS + i / ROWS);
    }
    rig_stop(&r);
}

/* ---- Parts ---------------------------------------------------------------------------------- */

/* Parts wait for what they read alone, and never for each other. */
static void test_parts_are_independent(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pair p = pair_make(&r);
    uint64_t before = rig_stats(&r).submitted;
    /* Part 2 reads columns 2/8 .. 3/8 of src; so does this one write some of them. */
    pto_tensor some;
    expect_ok(pto_tensor_view(&p.src, DIMS(7, COLS * 2 / PARTS + 3), DIMS(1, 5), &some));
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&some));
    expect_ok(pto_submit_rearrange(r.rt, &p.dst, &p.turned, PTO_VECTOR));
    assert_int_equal(rig_stats(&r).submitted, before + 1 + PARTS);
    assert_int_equal(rig_stats(&r).waw + rig_stats(&r).war, 0);
    for (uint64_t i = 0; i < PARTS; i++) {
        if (i == 2) {
            RIG_WAITS_FOR(&r, part(&r, PARTS, i), 1);
            pto_task_report report = rig_info(&r, part(&r, PARTS, i));
            assert_int_equal(report.fanin_count, 1);
            assert_string_equal(report.kernel, "rearrange");
            assert_int_equal(report.type, PTO_VECTOR);
            assert_non_null(strstr(report.file, "test_rearrange_task.c"));
        } else {
            rig_until(&r, part(&r, PARTS, i), PTO_TASK_COMPLETED);
        }
    }
    /* Who needs a part waits for that part alone. */
    pto_task last = pto_last_task(r.rt);
    pto_tensor done = rows_of(&p.dst, 0, COLS * 2 / PARTS), not_done = rows_of(&p.dst, 0, COLS);
    rig_until(&r, RIG_SUBMIT(&r, r.quick, pto_input(&done)), PTO_TASK_COMPLETED);
    pto_task waits = RIG_SUBMIT(&r, r.quick, pto_input(&not_done));
    RIG_WAITS_FOR(&r, waits, 1);
    rig_finish(&r, held, PTO_OK);
    rig_until(&r, last, PTO_TASK_COMPLETED);
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

/* The parts of a dense destination, submitted while their source is held so that they stay: they
 * follow one another and cover all, and each begins where a line does. */
static void expect_line_borders(rig *r, const pto_tensor *dst, uint64_t parts)
{
    pto_tensor src, whole;
    void *from = lines(r, ((size_t)dst->storage_bytes + 63) & ~(size_t)63);
    expect_ok(pto_tensor_init(&src, from, dst->storage_bytes, dst->dtype, dst->ndim, dst->shape,
                              NULL, 0));
    expect_ok(pto_tensor_init(&whole, from, dst->storage_bytes, PTO_UINT8, 1,
                              DIMS((int64_t)dst->storage_bytes), NULL, 0));
    pto_task held = RIG_SUBMIT(r, r->hold, pto_output(&whole));
    uint64_t before = rig_stats(r).submitted;
    expect_ok(pto_submit_rearrange(r->rt, dst, &src, PTO_VECTOR));
    assert_int_equal(rig_stats(r).submitted, before + parts);
    uint64_t bytes = 0, most = 0;
    for (uint64_t i = 0; i < parts; i++) {
        pto_tensor out;
        uint64_t low, end;
        expect_ok(pto_task_get_output(r->rt, part(r, parts, i), 0, &out));
        expect_ok(pto_tensor_byte_range(&out, &low, &end));
        uintptr_t first = (uintptr_t)out.storage + low;
        assert_true(first % 64 == 0 || first == (uintptr_t)dst->storage);
        most = end - low > most ? end - low : most;
        bytes += end - low; /* without a gap, as there are all bytes in all */
    }
    assert_int_equal(bytes, dst->storage_bytes);
    assert_true(most <= 2 << 20 || parts == 64);
    rig_finish(r, held, PTO_OK);
    expect_ok(pto_wait(r->rt));
    assert_memory_equal(dst->strides[0] > 0 ? from : dst->storage, dst->storage,
                        dst->storage_bytes);
    expect_ok(pto_shared_free(r->rt, from));
}

static void test_parts_end_where_lines_do(void **state)
{
    static const struct {
        int64_t shape[2];
        pto_dtype dtype;
        int shift; /* of the memory, in bytes */
        uint64_t parts;
    } cases[] = {
        {{1031, 1021}, PTO_INT32, 0, 5}, {{1031, 1021}, PTO_INT32, 4, 5},
        {{3000, 1001}, PTO_INT8, 0, 3},  {{3000, 1001}, PTO_INT8, 17, 3},
        {{1024, 1024}, PTO_INT64, 0, 8}, {{70000, 150}, PTO_INT64, 16, 64},
        {{1, 3000001}, PTO_INT16, 2, 6},
    };
    rig r;
    rig_start(&r, state, NULL);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int64_t *shape = cases[c].shape;
        uint64_t bytes = (uint64_t)(shape[0] * shape[1]) * pto_dtype_size(cases[c].dtype);
        char *memory = lines(&r, ((size_t)bytes + 191) & ~(size_t)63);
        for (int backwards = 0; backwards < 2; backwards++) {
            pto_tensor dst;
            int64_t strides[] = {backwards ? -shape[1] : shape[1], 1};
            expect_ok(pto_tensor_init(&dst, memory + cases[c].shift, bytes, cases[c].dtype, 2,
                                      shape, strides, backwards ? (shape[0] - 1) * shape[1] : 0));
            expect_line_borders(&r, &dst, cases[c].parts);
        }
        expect_ok(pto_shared_free(r.rt, memory));
    }
    rig_stop(&r);
}

/* Too few of the outermost: another dim is cut, and all is there in the end. */
static void test_other_dims_are_cut(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    enum { INNER = 500009 };
    int32_t *from = lines(&r, ((size_t)3 * INNER * 4 + 63) & ~(size_t)63),
            *to = lines(&r, ((size_t)3 * INNER * 4 + 63) & ~(size_t)63);
    pto_tensor src = matrix(&r, from, INNER, 3), dst = matrix(&r, to, 3, INNER);
    for (int i = 0; i < 3 * INNER; i++) {
        from[i] = i;
    }
    expect_ok(pto_tensor_transpose(&src, 0, 1, &src));
    uint64_t before = rig_stats(&r).submitted;
    expect_ok(pto_submit_rearrange(r.rt, &dst, &src, PTO_VECTOR));
    assert_int_equal(rig_stats(&r).submitted, before + 6);
    expect_ok(pto_wait(r.rt));
    for (int i = 0; i < 3 * INNER; i++) {
        assert_int_equal(to[i], i % INNER * 3 + i / INNER);
    }
    rig_stop(&r);
}

static void test_small_ones_are_one_task(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    int32_t *from = lines(&r, 1 << 20), *to = lines(&r, 1 << 20);
    pto_tensor src = matrix(&r, from, 512, 512), dst = matrix(&r, to, 512, 512);
    for (int i = 0; i < 512 * 512; i++) {
        from[i] = i;
    }
    expect_ok(pto_tensor_transpose(&src, 0, 1, &src));
    uint64_t before = rig_stats(&r).submitted;
    expect_ok(pto_submit_rearrange(r.rt, &dst, &src, PTO_ACCELERATOR));
    assert_int_equal(rig_stats(&r).submitted, before + 1);
    expect_ok(pto_wait_task(r.rt, pto_last_task(r.rt)));
    for (int i = 0; i < 512 * 512; i++) {
        assert_int_equal(to[i], i % 512 * 512 + i / 512);
    }
    /* Onto itself, and nothing at all: still a task, so that one can wait for it. */
    pair p = pair_make(&r);
    expect_ok(pto_submit_rearrange(r.rt, &p.src, &p.src, PTO_VECTOR));
    expect_ok(pto_external_tensor(r.rt, NULL, PTO_INT8, 2, DIMS(0, 9), &src));
    expect_ok(pto_submit_rearrange(r.rt, &src, &src, PTO_VECTOR));
    assert_int_equal(rig_stats(&r).submitted, before + 3);
    rig_stop(&r);
}

/* ---- Managed memory ------------------------------------------------------------------------- */

/* From one half of a buffer to the other, and into the next version of it. */
static void test_within_one_buffer(void **state)
{
    rig r;
    pto_config config = roomy();
    rig_start(&r, state, &config);
    enum { HALF = 3 << 20 };
    unsigned char *bytes = lines(&r, 2 * HALF);
    PTO_SCOPE(r.rt) {
        pto_tensor t;
        expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(2 * HALF), &t));
        pto_tensor low = rig_slice(&t, 0, HALF), high = rig_slice(&t, HALF, 2 * HALF);
        RIG_SUBMIT(&r, r.fill, pto_output(&low), pto_scalar(3));
        uint64_t before = rig_stats(&r).submitted;
        expect_ok(pto_submit_rearrange(r.rt, &high, &low, PTO_VECTOR));
        assert_int_equal(rig_stats(&r).submitted, before + 3);
        RIG_SUBMIT(&r, r.fill, pto_output(&low), pto_scalar(4));
        /* The source is of the version that ends with it: that takes one task. */
        high.version = 1;
        expect_ok(pto_submit_rearrange(r.rt, &high, &low, PTO_VECTOR));
        assert_int_equal(rig_stats(&r).submitted, before + 5);
        expect_fail(pto_submit_rearrange(r.rt, &high, &low, PTO_VECTOR), PTO_BAD_VERSION, "0", "1");
        low.version = t.version = 1;
        pto_tensor other = rig_slice(&t, 1, HALF + 1);
        expect_fail(pto_submit_rearrange(r.rt, &other, &low, PTO_VECTOR), PTO_OVERLAP,
                    "bytes 1 to 3145729", "bytes 0 to 3145728");
        /* The next version, from elsewhere: the first part begins it, the others are in it. */
        pto_tensor outside = rig_bytes(&r, bytes, 2 * HALF);
        memset(bytes, 9, 2 * HALF);
        t.version = 2;
        expect_ok(pto_submit_rearrange(r.rt, &t, &outside, PTO_VECTOR));
        assert_int_equal(rig_stats(&r).submitted, before + 5 + 6);
        expect_ok(pto_wait(r.rt));
        memset(bytes, 0, 2 * HALF);
        expect_ok(pto_read(r.rt, &t, bytes, 2 * HALF));
        for (int i = 0; i < 2 * HALF; i++) {
            assert_int_equal(bytes[i], 9);
        }
    }
    rig_stop(&r);
}

/* ---- Failures ------------------------------------------------------------------------------- */

/* Room for the arguments of two parts: the first has failed, and is recycled, before the last is
 * submitted. All of the destination was bad before, too, and no part alone covers that. */
static void test_parts_that_fail_early_stay_bad(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    enum { BYTES = 4 << 20, PART = BYTES / 4 };
    config.arg_bytes = 192;
    rig_start(&r, state, &config);
    unsigned char *from = lines(&r, BYTES), *to = lines(&r, BYTES);
    pto_tensor src = rig_bytes(&r, from, BYTES), dst = rig_bytes(&r, to, BYTES),
               some = rig_slice(&src, 3, 5);
    RIG_SUBMIT(&r, r.fails, pto_output(&dst));
    RIG_SUBMIT(&r, r.fails, pto_output(&some));
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    uint64_t before = rig_stats(&r).submitted;
    expect_ok(pto_submit_rearrange(r.rt, &dst, &src, PTO_VECTOR));
    assert_int_equal(rig_stats(&r).submitted, before + 4);
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    assert_int_equal(rig_stats(&r).skipped, 1);
    unsigned char got;
    for (int64_t i = 0; i < 4; i++) {
        pto_tensor byte = rig_slice(&dst, i * PART + 9, i * PART + 10);
        pto_status status = pto_read(r.rt, &byte, &got, 1);
        assert_int_equal(status, i == 0 ? PTO_POISONED : PTO_OK);
    }
    /* Nothing bad is left once they are all written again. */
    RIG_SUBMIT(&r, r.fill, pto_output(&some), pto_scalar(7));
    expect_ok(pto_submit_rearrange(r.rt, &dst, &src, PTO_VECTOR));
    pto_tensor first = rig_slice(&dst, 3, 4);
    expect_ok(pto_read(r.rt, &first, &got, 1));
    assert_int_equal(got, 7);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

static void test_failed_sources_poison(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pair p = pair_make(&r);
    pto_tensor some;
    expect_ok(pto_tensor_view(&p.src, DIMS(7, COLS * 5 / PARTS), DIMS(1, 5), &some));
    RIG_SUBMIT(&r, r.fails, pto_output(&some));
    expect_ok(pto_submit_rearrange(r.rt, &p.dst, &p.turned, PTO_VECTOR));
    static int32_t row[ROWS];
    pto_tensor bad = rows_of(&p.dst, COLS * 5 / PARTS, COLS * 5 / PARTS + 1),
               good = rows_of(&p.dst, 0, 1);
    expect_fail(pto_read(r.rt, &bad, row, sizeof row), PTO_POISONED, "fails");
    expect_ok(pto_read(r.rt, &good, row, sizeof row));
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "no luck");
    assert_int_equal(rig_stats(&r).failed, 1);
    assert_int_equal(rig_stats(&r).skipped, 1);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* A copy in parts is one write to whoever asks what went bad: it does not matter that none of them
 * covers alone what a failed task was to write, nor whether that had failed by then. */
static void test_parts_heal(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pair p = pair_make(&r);
    static int32_t row[ROWS];
    for (int late = 0; late < 2; late++) {
        pto_tensor most = rows_of(&p.dst, 1, COLS), first = rows_of(&p.dst, 0, 1);
        pto_task failed = RIG_SUBMIT(&r, r.fails, pto_output(late ? &most : &p.dst));
        if (late) {
            rig_until(&r, failed, PTO_TASK_COMPLETED);
            expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "no luck");
        }
        expect_ok(pto_submit_rearrange(r.rt, &p.dst, &p.turned, PTO_VECTOR));
        expect_ok(pto_read(r.rt, &first, row, sizeof row));
        RIG_SUBMIT(&r, r.quick, pto_input(&p.dst));
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "no luck");
        assert_int_equal(rig_stats(&r).skipped, 0);
        pto_tensor last = rows_of(&p.dst, COLS - 1, COLS);
        expect_ok(pto_read(r.rt, &last, row, sizeof row));
        expect_ok(pto_check(r.rt));
        expect_ok(pto_clear_error(r.rt));
    }
    rig_stop(&r);
}

/* ---- What is refused ------------------------------------------------------------------------ */

static void test_refusals_submit_nothing(void **state)
{
    rig r;
    pto_config config = roomy();
    rig_start(&r, state, &config);
    pair p = pair_make(&r);
    pto_runtime *rt = r.rt;
    const uint64_t before = rig_stats(&r).submitted;
    const pto_task last = pto_last_task(rt);
    pto_tensor t = p.turned, gone;
#define REFUSED(dst, src, type, status, ...)                                                       \
    do {                                                                                           \
        expect_fail(pto_submit_rearrange(rt, dst, src, type), status, __VA_ARGS__);                \
        assert_int_equal(rig_stats(&r).submitted, before);                                         \
        assert_int_equal(pto_last_task(rt), last);                                                 \
    } while (0)
    expect_fail(pto_submit_rearrange(NULL, &p.dst, &t, PTO_VECTOR), PTO_NULL_ARGUMENT, "runtime");
    REFUSED(NULL, &t, PTO_VECTOR, PTO_NULL_ARGUMENT, "dst");
    REFUSED(&p.dst, NULL, PTO_VECTOR, PTO_NULL_ARGUMENT, "src");
    REFUSED(&p.dst, &t, PTO_CUBE, PTO_BAD_WORKER, "cube", "0", "vector", "accelerator");
    REFUSED(&p.dst, &t, PTO_KERNEL_TYPE, PTO_BAD_WORKER, "-1");
    REFUSED(&p.dst, &p.src, PTO_VECTOR, PTO_BAD_SHAPE, "[2048, 1024]", "[1024, 2048]");
    t.dtype = PTO_FLOAT32;
    REFUSED(&p.dst, &t, PTO_VECTOR, PTO_BAD_DTYPE, "float32", "int32");
    t = p.turned;
    t.device = (pto_device){PTO_DEVICE_NVIDIA, 4};
    REFUSED(&p.dst, &t, PTO_VECTOR, PTO_DEVICES_DIFFER, "nvidia:4", "cpu:0");
    pto_tensor far = p.dst;
    far.device = t.device;
    REFUSED(&far, &t, PTO_VECTOR, PTO_NOT_IMPLEMENTED, "nvidia");
    t = p.dst;
    t.strides[1] = 0;
    REFUSED(&t, &p.turned, PTO_VECTOR, PTO_SELF_OVERLAP, "[2048, 0]");
    t = p.turned;
    t.storage = p.dst.storage;
    REFUSED(&p.dst, &t, PTO_VECTOR, PTO_OVERLAP, "bytes 0 to 8388608", "share memory");
    t.offset = 1;
    REFUSED(&p.dst, &t, PTO_VECTOR, PTO_OUT_OF_BOUNDS, "8388608");
    PTO_SCOPE(rt) {
        expect_ok(pto_temp(rt, PTO_INT32, 2, DIMS(COLS, ROWS), &t));
        REFUSED(&p.dst, &t, PTO_VECTOR, PTO_NOT_WRITTEN, "8388608");
        /* Not whole and dense, or of another version: it stays without memory. */
        void *address;
        pto_tensor view = rows_of(&t, 0, COLS - 1), from = rows_of(&p.turned, 0, COLS - 1);
        REFUSED(&view, &from, PTO_VECTOR, PTO_NOT_CONTIGUOUS, "8388608");
        view = t;
        view.version = 3;
        REFUSED(&view, &p.turned, PTO_VECTOR, PTO_BAD_VERSION, "3", "0");
        expect_ok(pto_temp(rt, PTO_INT32, 2, DIMS(COLS, ROWS), &gone));
        REFUSED(&t, &gone, PTO_VECTOR, PTO_NOT_WRITTEN, "8388608");
        expect_fail(pto_get_buffer_addr(rt, &t, &address), PTO_NOT_WRITTEN, "8388608");
    }
    REFUSED(&gone, &p.turned, PTO_VECTOR, PTO_STALE, "not alive");
    REFUSED(&p.dst, &gone, PTO_VECTOR, PTO_STALE, "not alive");
#undef REFUSED
    rig_stop(&r);
}

typedef struct elsewhere {
    pto_runtime *rt;
    const pair *p;
    pto_status status;
} elsewhere;

static void *submit_elsewhere(void *argument)
{
    elsewhere *e = argument;
    e->status = pto_submit_rearrange(e->rt, &e->p->dst, &e->p->turned, PTO_VECTOR);
    return NULL;
}

static void test_only_the_orchestrator_submits(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pair p = pair_make(&r);
    pthread_t thread;
    elsewhere e = {r.rt, &p, PTO_OK};
    uint64_t before = rig_stats(&r).submitted;
    assert_int_equal(pthread_create(&thread, NULL, submit_elsewhere, &e), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(e.status, PTO_WRONG_THREAD);
    assert_int_equal(rig_stats(&r).submitted, before);
    rig_stop(&r);
}

/* A matrix whose last rows reach into the runtime's heap is refused whole. */
static void test_part_of_the_heap(void **state)
{
    rig r;
    pto_config config = roomy();
    rig_start(&r, state, &config);
    pair p = pair_make(&r);
    PTO_SCOPE(r.rt) {
        pto_tensor t, reaches;
        expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(64), &t));
        unsigned char *heap = rig_address(&r, &t);
        uint64_t before = rig_stats(&r).submitted;
        /* From 7 MiB before it: only the last part would meet it. */
        uint64_t bytes = (uint64_t)ROWS * COLS * 4;
        expect_ok(pto_tensor_init(&reaches, heap - (bytes - 4096), bytes, PTO_INT32, 2,
                                  DIMS(COLS, ROWS), NULL, 0));
        expect_fail(pto_submit_rearrange(r.rt, &p.dst, &reaches, PTO_VECTOR), PTO_BAD_MEMORY,
                    "8388608");
        assert_int_equal(rig_stats(&r).submitted, before);
    }
    rig_stop(&r);
}

/* Fewer slots than parts: the submit waits for the first parts, whatever scopes are open. */
static void test_fewer_slots_than_parts(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 32;
    config.levels = 1;
    rig_start(&r, state, &config);
    pair p = pair_make(&r);
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < 31; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    expect_ok(pto_submit_rearrange(r.rt, &p.dst, &p.turned, PTO_VECTOR));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static void test_cancelled(void **state)
{
    rig r;
    pto_config config = roomy();
    rig_start(&r, state, &config);
    pair p = pair_make(&r);
    PTO_SCOPE(r.rt) {
        pto_tensor dst;
        void *address;
        expect_ok(pto_temp(r.rt, PTO_INT32, 2, DIMS(COLS, ROWS), &dst));
        pto_cancel(r.rt);
        expect_fail(pto_submit_rearrange(r.rt, &dst, &p.turned, PTO_VECTOR), PTO_CANCELLED,
                    "cancelled");
        expect_fail(pto_get_buffer_addr(r.rt, &dst, &address), PTO_NOT_WRITTEN, "8388608");
    }
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

int main(void)
{
    static const rig_case cases[] = {
        RIG_CASE(test_parts_between_tiles),
        RIG_CASE(test_managed_parts_between_tiles),
        RIG_CASE(test_memory_of_an_outer_lifetime),
        RIG_CASE(test_parts_are_independent),
        RIG_CASE_SLOW(test_parts_end_where_lines_do),
        RIG_CASE_SLOW(test_other_dims_are_cut),
        RIG_CASE(test_small_ones_are_one_task),
        RIG_CASE(test_within_one_buffer),
        RIG_CASE(test_failed_sources_poison),
        RIG_CASE(test_parts_that_fail_early_stay_bad),
        RIG_CASE(test_parts_heal),
        RIG_CASE(test_refusals_submit_nothing),
        RIG_CASE_SLOW(test_only_the_orchestrator_submits),
        RIG_CASE(test_part_of_the_heap),
        RIG_CASE(test_fewer_slots_than_parts),
        RIG_CASE(test_cancelled),
    };
    return rig_run("rearrange tasks", cases, sizeof cases / sizeof *cases);
}
