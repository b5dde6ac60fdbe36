/* requests.h - shared by the tests of work requests: memory, a naive loop over a copy of it, the
 * runtime, and requests. */
#ifndef PTO_TEST_REQUESTS_H
#define PTO_TEST_REQUESTS_H

#include "../tensor/tensors.h"

#include <pto/work.h>

/* ---- Memory: that of the runtime, and a copy for the naive loop ----------------------------- */

enum { REGION = 8192, REGIONS = 3, ARENA = REGION * REGIONS, MOST = 300 };

static _Alignas(64) unsigned char arena[ARENA], naive[ARENA];

static inline void scramble(test_rng *rng)
{
    for (size_t i = 0; i < ARENA; i += sizeof(uint64_t)) {
        uint64_t word = test_next(rng);
        memcpy(arena + i, &word, sizeof word);
    }
    memcpy(naive, arena, ARENA);
}

static inline void expect_same(void)
{
    assert_memory_equal(arena, naive, ARENA);
}

/* Where element `index` lies in the arena, as a byte. */
static inline size_t byte_of(const pto_tensor *t, const int64_t *index)
{
    int64_t from = (unsigned char *)t->storage - arena;
    return (size_t)(from + place_of(t, index) * (int64_t)pto_dtype_size(t->dtype));
}

/* A tensor of that shape somewhere in a region, with strides of all kinds; false if it does not
 * fit. */
static inline bool place(test_rng *rng, int region, pto_dtype dtype, int32_t ndim,
                         const int64_t *shape, pto_tensor *t)
{
    pto_tensor made = {.storage = arena + (size_t)region * REGION, .dtype = dtype, .ndim = ndim};
    int64_t low = 0, high = 0, size = (int64_t)pto_dtype_size(dtype);
    memcpy(made.shape, shape, (size_t)ndim * sizeof *shape);
    random_strides(rng, ndim, shape, made.strides);
    for (int32_t d = 0; d < ndim; d++) {
        int64_t reach = shape[d] > 1 ? (shape[d] - 1) * made.strides[d] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    int64_t room = REGION / size - (high - low + 1);
    if (room < 0) {
        return false;
    }
    made.offset = -low + test_between(rng, 0, room);
    made.storage_bytes = REGION;
    expect_ok(pto_tensor_check(&made));
    *t = made;
    return true;
}

static inline pto_tensor dense(void *memory, pto_dtype dtype, int32_t ndim, const int64_t *shape)
{
    pto_tensor t;
    uint64_t bytes = (uint64_t)count_of(ndim, shape) * pto_dtype_size(dtype);
    expect_ok(pto_tensor_init(&t, memory, bytes, dtype, ndim, shape, NULL, 0));
    return t;
}

/* ---- The runtime --------------------------------------------------------------------------- */

static pto_runtime *runtime;
static const pto_config *config; /* of the next runtime; NULL: the default */

static inline int create(void **state)
{
    (void)state;
    refusal_of = &runtime;
    return pto_runtime_create(&runtime, config) != PTO_OK;
}

static inline int destroy(void **state)
{
    (void)state;
    return pto_runtime_destroy(&runtime, PTO_WAIT) != PTO_OK;
}

/* The thread sanitizer takes two mappings for different memory, and would report races. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAP_TWICE 0
#endif
#elif defined(__SANITIZE_THREAD__)
#define MAP_TWICE 0
#endif
#ifndef MAP_TWICE
#define MAP_TWICE 1
#endif

/* Runs a test on several kinds of runtimes. */
static inline void on_all_runtimes(int (*setup)(void **state), void (*test)(void **state),
                                   void **state)
{
    pto_config configs[5];
    for (int i = 0; i < 5; i++) {
        configs[i] = (pto_config)PTO_CONFIG_INIT;
    }
    configs[0].workers = PTO_NO_WORKERS; /* the program does all work while it waits */
    configs[1].workers = 3;
    configs[1].caller_types = PTO_NO_TYPES; /* the program does none */
    configs[2].place = PTO_PLACE_THREAD;
    configs[3].ring_tasks = 8; /* submits often wait for room */
    configs[4].map_twice = MAP_TWICE;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(destroy(state), 0);
        config = &configs[i];
        assert_int_equal(setup(state), 0);
        test(state);
    }
    assert_int_equal(destroy(state), 0);
    config = NULL;
    assert_int_equal(setup(state), 0);
}

/* The requests, of as many tensors as they take. */
static inline pto_work copy_work(uint32_t opcode, const pto_tensor *from, const pto_tensor *to)
{
    return (pto_work){
        .opcode = opcode, .inputs = from, .n_inputs = 1, .outputs = to, .n_outputs = 1};
}

static inline pto_work fill_work(const pto_tensor *to, uint64_t value)
{
    return (pto_work){.opcode = PTO_WORK_FILL, .outputs = to, .n_outputs = 1, .params = {value}};
}

static inline pto_work gather_work(const pto_tensor from_indices[2], const pto_tensor *to)
{
    return (pto_work){.opcode = PTO_WORK_GATHER,
                      .inputs = from_indices,
                      .n_inputs = 2,
                      .outputs = to,
                      .n_outputs = 1};
}

static inline pto_work scatter_work(const pto_tensor from_indices[2], const pto_tensor *to)
{
    return (pto_work){.opcode = PTO_WORK_SCATTER,
                      .inputs = from_indices,
                      .n_inputs = 2,
                      .inouts = to,
                      .n_inouts = 1};
}

static inline void expect_work(const pto_work *work)
{
    expect_ok(pto_submit_work(runtime, work, NULL));
    expect_ok(pto_wait(runtime));
}

/* The task fails with this status and message, and has written nothing. */
static inline void expect_failure(const pto_work *work, pto_status want, const char *const *words,
                                  const char *file, int line)
{
    bool failed = false;
    pto_failure failure = {0};
    pto_task task = 0;
    memcpy(naive, arena, ARENA);
    expect_ok(pto_submit_work_at(runtime, work, &task, file, line));
    expect_fail(pto_wait(runtime), PTO_TASK_FAILED, "'work'", pto_status_name(want));
    expect_ok(pto_get_failure(runtime, &failed, &failure));
    assert_true(failed);
    assert_true(task != 0 && failure.task == task);
    assert_string_equal(failure.kernel, "work");
    assert_non_null(strstr(file, failure.file));
    assert_int_equal(failure.line, line);
    if (failure.status != want) {
        print_error("%s: %s\n", pto_status_name(failure.status), failure.message);
        _fail(file, line);
    }
    for (; *words; words++) {
        if (!strstr(failure.message, *words)) {
            print_error("\"%s\" does not say \"%s\"\n", failure.message, *words);
            _fail(file, line);
        }
    }
    expect_same();
    expect_ok(pto_clear_error(runtime));
    expect_ok(pto_wait(runtime));
}

#define expect_work_fails(work, status, ...)                                                       \
    do {                                                                                           \
        pto_work work_ = (work);                                                                   \
        expect_failure(&work_, (status), (const char *const[]){__VA_ARGS__, NULL}, __FILE__,       \
                       __LINE__);                                                                  \
    } while (0)

/* ---- Naive --------------------------------------------------------------------------------- */

static inline void naive_copy(const pto_tensor *from, const pto_tensor *to)
{
    int64_t index[PTO_MAX_DIMS] = {0};
    if (count_of(to->ndim, to->shape)) {
        do {
            memcpy(naive + byte_of(to, index), naive + byte_of(from, index),
                   pto_dtype_size(to->dtype));
        } while (next_index(to->ndim, to->shape, index));
    }
}

static inline void naive_fill(const pto_tensor *to, uint64_t value)
{
    int64_t index[PTO_MAX_DIMS] = {0};
    if (count_of(to->ndim, to->shape)) {
        do {
            for (size_t b = 0; b < pto_dtype_size(to->dtype); b++) {
                naive[byte_of(to, index) + b] = (unsigned char)(value >> 8 * b);
            }
        } while (next_index(to->ndim, to->shape, index));
    }
}

static inline int64_t naive_index(const pto_tensor *indices, int64_t i)
{
    int64_t wide;
    int32_t narrow;
    const unsigned char *at = naive + byte_of(indices, &i);
    if (indices->dtype == PTO_INT64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

/* Gather, or scatter: which side has the index as its first coordinate. */
static inline void naive_rows(const pto_tensor *from, const pto_tensor *indices,
                              const pto_tensor *to, bool scatters)
{
    const pto_tensor *lined_up = scatters ? from : to;
    int64_t index[PTO_MAX_DIMS] = {0};
    if (!count_of(lined_up->ndim, lined_up->shape)) {
        return;
    }
    do {
        int64_t there[PTO_MAX_DIMS];
        memcpy(there, index, sizeof there);
        there[0] = naive_index(indices, index[0]);
        memcpy(naive + byte_of(to, scatters ? there : index),
               naive + byte_of(from, scatters ? index : there), pto_dtype_size(to->dtype));
    } while (next_index(lined_up->ndim, lined_up->shape, index));
}

/* Whether the two share a byte, by a list of bytes. */
static inline bool naive_share(const pto_tensor *a, const pto_tensor *b)
{
    static bool touched[ARENA];
    const pto_tensor *both[] = {a, b};
    memset(touched, 0, sizeof touched);
    for (int k = 0; k < 2; k++) {
        int64_t index[PTO_MAX_DIMS] = {0};
        if (!count_of(both[k]->ndim, both[k]->shape)) {
            return false;
        }
        do {
            for (size_t i = 0; i < pto_dtype_size(both[k]->dtype); i++) {
                bool *at = &touched[byte_of(both[k], index) + i];
                if (k && *at) {
                    return true;
                }
                *at = !k;
            }
        } while (next_index(both[k]->ndim, both[k]->shape, index));
    }
    return false;
}

#endif /* PTO_TEST_REQUESTS_H */
