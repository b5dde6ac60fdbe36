/* test_gpu.c - an NVIDIA GPU as a device: copies, Rearrange and fill against the CPU, errors. */
#include "../../op/rearranges.h"

#include <pthread.h>
#include <pto/dlpack.h>

#include "../../../bench/peers/gpu.h"
#include "device/copy.h"
#include "gpu.h"

/* ---- Copies ------------------------------------------------------------------------------------ */

static void fill_random(unsigned char *bytes, size_t n, uint64_t seed)
{
    test_rng rng = test_rng_make(seed);
    for (size_t k = 0; k < n; k++) {
        bytes[k] = (unsigned char)test_next(&rng);
    }
}

/* Sizes around every boundary: staged in one piece and in several, more than the ring holds. */
static void copies_there_and_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,       3,       4096,    65536,         65537,
                                   1 << 20, 1048577, 5 << 20, (20 << 20) + 3};
    NEED_GPU();
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        unsigned char *sent = malloc(sizes[k]), *got = malloc(sizes[k]);
        assert_true(sent && got);
        char *memory = gpu_alloc(sizes[k]);
        fill_random(sent, sizes[k], k + 1);
        memset(got, 0, sizes[k]);
        expect_ok(ops.copy_in(ops.self, memory, sent, sizes[k]));
        gpu_wait();
        expect_ok(ops.copy_out(ops.self, got, memory, sizes[k]));
        gpu_wait();
        assert_memory_equal(sent, got, sizes[k]);
        gpu_free(memory);
        free(sent);
        free(got);
    }
}

/* Many small copies in one go: more than a slot may hold, in number and in bytes. */
static void many_small_copies(void **state)
{
    (void)state;
    enum { COPIES = 3000, BYTES = 600 };
    NEED_GPU();
    unsigned char *sent = malloc(COPIES * BYTES), *got = calloc(COPIES, BYTES);
    assert_true(sent && got);
    fill_random(sent, COPIES * BYTES, 5);
    char *memory = gpu_alloc(COPIES * BYTES);
    for (size_t k = 0; k < COPIES; k++) {
        expect_ok(ops.copy_in(ops.self, memory + k * BYTES, sent + k * BYTES, BYTES));
    }
    gpu_wait();
    for (size_t k = 0; k < COPIES; k++) {
        expect_ok(ops.copy_out(ops.self, got + k * BYTES, memory + k * BYTES, BYTES));
    }
    gpu_wait();
    assert_memory_equal(sent, got, COPIES * BYTES);
    gpu_free(memory);
    free(sent);
    free(got);
}

/* An operator waits for copies before it, and a copy for operators before it, without a synchronize
 * in between. */
static void order_without_waiting(void **state)
{
    (void)state;
    enum { SIDE = 1024 };
    NEED_GPU();
    const size_t bytes = (size_t)SIDE * SIDE * 4;
    uint32_t *sent = malloc(bytes), *got = malloc(bytes);
    assert_true(sent && got);
    pto_tensor a, b, turned;
    expect_ok(
        pto_tensor_init(&a, gpu_alloc(bytes), bytes, PTO_INT32, 2, DIMS(SIDE, SIDE), NULL, 0));
    expect_ok(
        pto_tensor_init(&b, gpu_alloc(bytes), bytes, PTO_INT32, 2, DIMS(SIDE, SIDE), NULL, 0));
    a.device = b.device = gpu;
    expect_ok(pto_tensor_permute(&a, (const int32_t[]){1, 0}, &turned));
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t k = 0; k < SIDE * SIDE; k++) {
            sent[k] = k * 7 + round;
        }
        expect_ok(ops.copy_in(ops.self, a.storage, sent, bytes));
        expect_ok(pto_rearrange(&b, &turned));
        expect_ok(ops.copy_out(ops.self, got, b.storage, bytes));
        expect_ok(pto_fill(&a, -1)); /* after the rearrange that reads it */
        gpu_wait();
        for (uint32_t k = 0; k < SIDE * SIDE; k++) {
            assert_int_equal(got[k], sent[k % SIDE * SIDE + k / SIDE]);
        }
    }
    gpu_free(a.storage);
    gpu_free(b.storage);
    free(sent);
    free(got);
}

/* ---- Rearrange and fill against the CPU -------------------------------------------------------- */

/* The arena of rearranges.h once more, on the device. */
static char *there;

static pto_tensor on_gpu(pto_tensor t)
{
    t.storage = there + ((unsigned char *)t.storage - arena);
    t.device = gpu;
    return t;
}

static void expect_same_there(void)
{
    expect_ok(ops.copy_out(ops.self, arena, there, ARENA));
    gpu_wait();
    expect_same();
}

static void random_copies(void **state)
{
    (void)state;
    NEED_GPU();
    test_rng rng = test_rng_make(test_seed());
    there = gpu_alloc(ARENA);
    for (uint64_t k = 0; k < test_effort(1500); k++) {
        int64_t shape[PTO_MAX_DIMS];
        int32_t ndim = (int32_t)test_between(&rng, 0, 6);
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = test_between(&rng, 0, ndim > 3 ? 6 : ndim > 2 ? 14 : 60);
        }
        pto_tensor dst, src;
        pto_dtype dtype = random_dtype(&rng);
        if (count_of(ndim, shape) > 3000 || !place(&rng, 0, dtype, ndim, shape, &dst) ||
            !place(&rng, 1, dtype, ndim, shape, &src)) {
            continue;
        }
        scramble(&rng);
        expect_ok(ops.copy_in(ops.self, there, arena, ARENA));
        pto_tensor to = on_gpu(dst), from = on_gpu(src);
        if (meets_itself(&dst)) {
            expect_fail(pto_rearrange(&to, &from), PTO_SELF_OVERLAP, "dst");
        } else {
            expect_ok(pto_rearrange(&to, &from));
            naive_copy(&dst, &src);
        }
        expect_same_there();
        expect_ok(pto_fill(&from, 3));
        expect_ok(pto_fill(&src, 3));
        memcpy(naive + REGION, arena + REGION, REGION); /* by the CPU */
        expect_same_there();
    }
    gpu_free(there);
}

/* Copies that go on by themselves, between the host and the device with strides on both sides. */
static void copy_and_wait(const pto_tensor *to, const pto_tensor *from)
{
    ptoi_device_wait w = PTOI_DEVICE_WAIT;
    expect_ok(ops.copy(ops.self, to, from, ptoi_device_wake, &w));
    expect_ok(ptoi_device_wait_for(&w));
}

static void random_strided_copies(void **state)
{
    (void)state;
    static unsigned char before[ARENA], far[ARENA];
    NEED_GPU();
    test_rng rng = test_rng_make(test_seed());
    there = gpu_alloc(ARENA);
    for (uint64_t k = 0; k < test_effort(1500); k++) {
        int64_t shape[PTO_MAX_DIMS];
        int32_t ndim = (int32_t)test_between(&rng, 0, 6);
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = test_between(&rng, 1, ndim > 3 ? 6 : ndim > 2 ? 14 : 60);
        }
        pto_tensor dst, src;
        pto_dtype dtype = random_dtype(&rng);
        if (count_of(ndim, shape) > 3000 || !place(&rng, 0, dtype, ndim, shape, &dst) ||
            !place(&rng, 1, dtype, ndim, shape, &src) || meets_itself(&dst)) {
            continue;
        }
        const bool in = test_between(&rng, 0, 1);
        const pto_tensor to = in ? on_gpu(dst) : dst, from = in ? src : on_gpu(src);
        scramble(&rng);
        memcpy(before, arena, ARENA);
        expect_ok(ops.copy_in(ops.self, there, arena, ARENA)); /* the copy waits for this one */
        copy_and_wait(&to, &from);
        naive_copy(&dst, &src);
        gpu_wait();
        expect_ok(ops.copy_out(ops.self, far, there, ARENA));
        gpu_wait();
        assert_memory_equal(in ? arena : far, before, ARENA);
        assert_memory_equal(in ? far : arena, naive, ARENA);
    }
    gpu_free(there);
}

/* More than the slots and the stage hold: from pageable and from pinned memory, transposed on either
 * side or on both, there and back. */
static void large_strided_copies(void **state)
{
    (void)state;
    const int64_t side = test_percent() < 50 ? 900 : 3001;
    const uint64_t bytes = (uint64_t)(side * side) * 4;
    gpu_peer peer;
    NEED_GPU();
    gpu_peer_load(&peer);
    char *memory[2] = {malloc(2 * bytes), peer.pinned(2 * bytes)};
    char *far = gpu_alloc(bytes);
    assert_true(memory[0] && memory[1]);
    for (int k = 0; k < 16; k++) {
        char *sent = memory[k & 1], *got = sent + bytes;
        pto_tensor a, b, c;
        fill_random((unsigned char *)sent, bytes, (uint64_t)k + 1);
        memset(got, 0, bytes);
        expect_ok(pto_tensor_init(&a, sent, bytes, PTO_INT32, 2, DIMS(side, side), NULL, 0));
        expect_ok(pto_tensor_init(&b, far, bytes, PTO_INT32, 2, DIMS(side, side), NULL, 0));
        expect_ok(pto_tensor_init(&c, got, bytes, PTO_INT32, 2, DIMS(side, side), NULL, 0));
        b.device = gpu;
        pto_tensor *all[] = {&a, &b, &c};
        for (int i = 0; i < 3; i++) {
            if (k >> (i + 1) & 1) {
                expect_ok(pto_tensor_permute(all[i], (const int32_t[]){1, 0}, all[i]));
            }
        }
        copy_and_wait(&b, &a);
        copy_and_wait(&c, &b);
        const bool turned = (k >> 1 & 1) != (k >> 3 & 1);
        for (int64_t i = 0; i < side * side; i++) {
            const int64_t from = turned ? i % side * side + i / side : i;
            if (memcmp(got + i * 4, sent + from * 4, 4) != 0) {
                fail_msg("copy %d: element %" PRId64, k, i);
            }
        }
    }
    gpu_free(far);
    free(memory[0]); /* pinned memory stays until the end */
}

typedef struct permutation {
    int32_t ndim;
    int64_t shape[6];
    int32_t order[6];
} permutation;

/* Large enough for large tiles and for many blocks; every size of element. */
static void permutations(void **state)
{
    (void)state;
    static const permutation all[] = {
        {2, {2048, 4096}, {1, 0}},
        {2, {2051, 2049}, {1, 0}},
        {2, {2050, 2052}, {1, 0}},
        {3, {200, 100, 300}, {2, 1, 0}},
        {4, {8, 128, 56, 56}, {0, 2, 3, 1}},
        {4, {8, 56, 56, 128}, {0, 3, 1, 2}},
        {4, {8, 3, 224, 224}, {0, 2, 3, 1}},
        {4, {8, 224, 224, 3}, {0, 3, 1, 2}},
        {6, {16, 8, 24, 16, 12, 12}, {5, 2, 0, 4, 1, 3}},
        {4, {4, 512, 16, 64}, {0, 2, 1, 3}},
        {3, {700, 900, 2}, {1, 0, 2}},
        {3, {700, 900, 3}, {1, 0, 2}},
        {2, {128, 384}, {1, 0}},
        {2, {131, 201}, {1, 0}},
        {2, {130, 204}, {1, 0}},
        {4, {2, 64, 14, 14}, {0, 2, 3, 1}},
        {3, {40, 50, 2}, {1, 0, 2}},
        {3, {40, 50, 3}, {1, 0, 2}},
    };
    const int64_t largest = test_percent() < 50 ? 100000 : INT64_MAX; /* under a sanitizer */
    static const pto_dtype dtypes[] = {PTO_INT8, PTO_FLOAT16, PTO_FLOAT32, PTO_FLOAT64};
    const uint64_t most = UINT64_C(80) << 20;
    NEED_GPU();
    char *from = malloc(most), *right = malloc(most), *got = malloc(most);
    char *gpu_from = gpu_alloc(most), *gpu_to = gpu_alloc(most);
    assert_true(from && right && got);
    fill_random((unsigned char *)from, most, 9);
    expect_ok(ops.copy_in(ops.self, gpu_from, from, most));
    for (size_t k = 0; k < sizeof all / sizeof *all * 4; k++) {
        const permutation *p = &all[k / 4];
        pto_tensor dense, src, dst;
        uint64_t size = pto_dtype_size(dtypes[k % 4]);
        if (count_of(p->ndim, p->shape) > largest) {
            continue;
        }
        for (int64_t shift = 0; shift < 2; shift++) { /* at an address that is not aligned, too */
            expect_ok(
                pto_tensor_init(&dense, from, most, dtypes[k % 4], p->ndim, p->shape, NULL, shift));
            expect_ok(pto_tensor_permute(&dense, p->order, &src));
            expect_ok(
                pto_tensor_init(&dst, right, most, dtypes[k % 4], p->ndim, src.shape, NULL, 0));
            uint64_t bytes = (uint64_t)pto_tensor_numel(&dst) * size;
            expect_ok(pto_rearrange(&dst, &src));
            src.storage = gpu_from;
            dst.storage = gpu_to;
            src.device = dst.device = gpu;
            memset(got, 0x5a, bytes);
            expect_ok(ops.copy_in(ops.self, gpu_to, got, bytes));
            expect_ok(pto_rearrange(&dst, &src));
            expect_ok(ops.copy_out(ops.self, got, gpu_to, bytes));
            gpu_wait();
            assert_memory_equal(got, right, bytes);
        }
    }
    gpu_free(gpu_from);
    gpu_free(gpu_to);
    free(from);
    free(right);
    free(got);
}

/* ---- Allocated results, DLPack ----------------------------------------------------------------- */

static void new_results_and_dlpack(void **state)
{
    (void)state;
    NEED_GPU();
    int32_t sent[6] = {1, 2, 3, 4, 5, 6}, got[6];
    pto_tensor t, turned, made, back;
    expect_ok(pto_tensor_init(&t, gpu_alloc(sizeof sent), sizeof sent, PTO_INT32, 2, DIMS(2, 3),
                              NULL, 0));
    t.device = gpu;
    expect_ok(ops.copy_in(ops.self, t.storage, sent, sizeof sent));
    expect_ok(pto_tensor_permute(&t, (const int32_t[]){1, 0}, &turned));

    /* Out as another library would see it, and in again. */
    pto_dl_managed *managed = NULL;
    expect_ok(pto_dlpack_export(&turned, NULL, NULL, &managed));
    assert_int_equal(managed->tensor.device.device_type, 2);
    assert_int_equal(managed->tensor.device.device_id, 0);
    expect_ok(pto_dlpack_import(managed, &back));
    assert_int_equal(back.device.type, PTO_DEVICE_NVIDIA);

    expect_ok(pto_rearrange_new(&back, &made));
    assert_int_equal(made.device.type, PTO_DEVICE_NVIDIA);
    expect_ok(ops.copy_out(ops.self, got, made.storage, sizeof got));
    gpu_wait();
    assert_memory_equal(got, ((const int32_t[]){1, 4, 2, 5, 3, 6}), sizeof got);
    pto_dlpack_release(&managed);
    pto_rearrange_free(&made);
    gpu_free(t.storage);
}

/* ---- Threads ----------------------------------------------------------------------------------- */

/* With PTO_TEST_TURNS the threads take turns: racecheck does not end if several launch at once. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *one_thread(void *context)
{
    enum { SIDE = 257 };
    const uint64_t rounds = test_effort(40);
    const bool turns = getenv("PTO_TEST_TURNS") != NULL;
    const uint32_t seed = *(const uint32_t *)context;
    const size_t bytes = SIDE * SIDE * 4;
    uint32_t *sent = malloc(bytes), *got = malloc(bytes);
    void *a = NULL, *b = NULL;
    bool good = sent && got && !pto_device_set_current(gpu) && !ops.alloc(ops.self, bytes, &a) &&
                !ops.alloc(ops.self, bytes, &b);
    for (uint32_t round = 0; good && round < rounds; round++) {
        pto_tensor src, dst, turned;
        if (turns) {
            pthread_mutex_lock(&turn);
        }
        for (uint32_t k = 0; k < SIDE * SIDE; k++) {
            sent[k] = k * seed + round;
        }
        good = !pto_tensor_init(&src, a, bytes, PTO_INT32, 2, DIMS(SIDE, SIDE), NULL, 0) &&
               !pto_tensor_init(&dst, b, bytes, PTO_INT32, 2, DIMS(SIDE, SIDE), NULL, 0);
        src.device = dst.device = gpu;
        good = good && !pto_tensor_permute(&src, (const int32_t[]){1, 0}, &turned) &&
               !ops.copy_in(ops.self, a, sent, bytes) && !pto_rearrange(&dst, &turned) &&
               !ops.copy_out(ops.self, got, b, bytes) && !ops.synchronize(ops.self);
        if (turns) {
            pthread_mutex_unlock(&turn);
        }
        for (uint32_t k = 0; good && k < SIDE * SIDE; k++) {
            good = got[k] == sent[k % SIDE * SIDE + k / SIDE];
        }
    }
    ops.free(ops.self, a, bytes);
    ops.free(ops.self, b, bytes);
    free(sent);
    free(got);
    return good ? context : NULL;
}

static void several_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint32_t seeds[THREADS];
    NEED_GPU();
    for (uint32_t k = 0; k < THREADS; k++) {
        seeds[k] = 3 * k + 1;
        assert_int_equal(pthread_create(&threads[k], NULL, one_thread, &seeds[k]), 0);
    }
    for (uint32_t k = 0; k < THREADS; k++) {
        void *good = NULL;
        pthread_join(threads[k], &good);
        assert_non_null(good);
    }
}

/* ---- Errors ------------------------------------------------------------------------------------ */

static void out_of_memory(void **state)
{
    (void)state;
    void *memory = NULL, *blocks[64];
    size_t n = 0;
    NEED_GPU();
    expect_fail(ops.alloc(ops.self, UINT64_C(1) << 50, &memory), PTO_OUT_OF_MEMORY,
                "1125899906842624 bytes", "nvidia:0", "free");
    pto_status s = PTO_OK;
    while (n < 64 && !(s = ops.alloc(ops.self, UINT64_C(16) << 30, &blocks[n]))) {
        n++;
    }
    assert_int_equal(s, PTO_OUT_OF_MEMORY); /* really full now */
    pto_tensor big = {.storage = n ? blocks[0] : NULL,
                      .storage_bytes = UINT64_C(16) << 30,
                      .ndim = 1,
                      .shape = {INT64_C(16) << 30},
                      .strides = {1},
                      .dtype = PTO_INT8,
                      .device = gpu},
               made;
    if (n) {
        expect_fail(pto_rearrange_new(&big, &made), PTO_OUT_OF_MEMORY, "17179869184", "nvidia:0");
    }
    for (size_t k = 0; k < n; k++) {
        gpu_free(blocks[k]);
    }
    gpu_free(gpu_alloc(UINT64_C(1) << 30)); /* nothing is lost */
}

/* The program captures the stream of the device and spoils the capture: nothing can be launched
 * there until the capture ends. */
static void launch_that_fails(void **state)
{
    (void)state;
    gpu_peer peer;
    NEED_GPU();
    gpu_peer_load(&peer);
    int32_t got[4];
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, gpu_alloc(16), 16, PTO_INT32, 1, DIMS(4), NULL, 0));
    t.device = gpu;
    gpu_wait();
    peer.spoil_capture(ops.stream);
    expect_fail(pto_fill(&t, 4), PTO_KERNEL_FAILED, "nvidia:0", "fill", "capture");
    peer.end_capture(ops.stream);
    expect_ok(pto_fill(&t, 5)); /* the device goes on */
    expect_ok(ops.copy_out(ops.self, got, t.storage, sizeof got));
    gpu_wait();
    assert_int_equal(got[3], 5);
    gpu_free(t.storage);
}

static void devices_that_are_not_there(void **state)
{
    (void)state;
    pto_device_ops other;
    NEED_GPU();
    expect_fail(pto_device_get((pto_device){PTO_DEVICE_NVIDIA, 63}, &other), PTO_BAD_DEVICE,
                "nvidia:63", "the driver shows");
    int32_t number = 0;
    pto_tensor here, far;
    expect_ok(pto_tensor_init(&here, &number, 4, PTO_INT32, 0, NULL, NULL, 0));
    expect_ok(pto_tensor_init(&far, gpu_alloc(4), 4, PTO_INT32, 0, NULL, NULL, 0));
    far.device = gpu;
    expect_fail(pto_rearrange(&here, &far), PTO_DEVICES_DIFFER, "cpu:0", "nvidia:0");
    /* A device of the program's own has its own memory, which our kernels must not touch. */
    pto_device mine = {PTO_DEVICE_NVIDIA, 50};
    expect_ok(pto_device_add(mine, &(pto_device_ops){.size = sizeof(pto_device_ops)}));
    here.device = mine;
    expect_fail(pto_fill(&here, 1), PTO_BAD_DEVICE, "nvidia:50", "the driver shows");
    gpu_free(far.storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_there_and_back), cmocka_unit_test(many_small_copies),
        cmocka_unit_test(order_without_waiting), cmocka_unit_test(random_copies),
        cmocka_unit_test(random_strided_copies), cmocka_unit_test(large_strided_copies),
        cmocka_unit_test(permutations),          cmocka_unit_test(new_results_and_dlpack),
        cmocka_unit_test(several_threads),       cmocka_unit_test(out_of_memory),
        cmocka_unit_test(launch_that_fails),     cmocka_unit_test(devices_that_are_not_there),
    };
    cmocka_set_test_filter(getenv("PTO_TEST_ONLY")); /* one of them; NULL: all */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
