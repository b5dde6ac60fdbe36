/* launches.h - random programs whose kernels launch on the streams of a device, compared with a serial
 * run. The device is a simulated one or a GPU: the kernels are given.
 *
 * A program has memory on the device and on the host. Its tasks mix ranges of it, which overlap in any
 * way, on either side; copies go both ways; temporaries come from a heap that is too small for them
 * all. Some kernels are pending, and in one program of three some fail: before they launch anything, or
 * after it. Then ranges are equal or disjoint, and the model knows which of them are poisoned. */
#ifndef PTO_TEST_LAUNCHES_H
#define PTO_TEST_LAUNCHES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <string.h>

#include <pto/device.h>
#include <pto/pto.h>
#include <pto/work.h>

#include "support.h"

enum { LAUNCH_RANGE = 16, LAUNCH_CELLS = 12, LAUNCH_ALL = LAUNCH_RANGE * LAUNCH_CELLS };

/* How a kernel ends: its second argument. */
typedef enum launch_way {
    LAUNCH_GOOD,
    LAUNCH_PENDING, /* complete when its work is done; if the device can do that */
    LAUNCH_FAIL,    /* without a launch */
    LAUNCH_BREAK,   /* writes its output, and fails */
} launch_way;

/* What the kernel "mix" computes, everywhere: each element of the first tensor from those of all. Its
 * arguments are salt, way, whether it keeps the output, the output, and up to 3 inputs. */
static inline uint64_t launch_mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

typedef struct launch_work {
    uint64_t salt, keep, way;
    uint64_t *out;
    const uint64_t *in[3];
    uint32_t n_in, n;
    pto_runtime *rt; /* way LAUNCH_PENDING: which task to complete */
    pto_task task;
} launch_work;

static inline void launch_compute(const launch_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        uint64_t h = launch_mix(w->salt, w->keep ? w->out[i] : i);
        for (uint32_t k = 0; k < w->n_in; k++) {
            h = launch_mix(h, w->in[k][i]);
        }
        w->out[i] = h;
    }
}

static inline launch_work launch_work_of(const pto_call *call)
{
    launch_work w = {.salt = call->args[0].u64,
                     .way = call->args[1].u64,
                     .keep = call->args[2].u64,
                     .out = call->args[3].data,
                     .n_in = call->n_args - 4,
                     .n = (uint32_t)call->args[3].shape[0],
                     .rt = call->rt,
                     .task = call->task};
    for (uint32_t k = 0; k < w.n_in; k++) {
        w.in[k] = call->args[4 + k].data;
    }
    return w;
}

/* The variant for the CPU. */
static inline pto_status launch_on_host(const pto_call *call)
{
    const launch_work w = launch_work_of(call);
    if (w.way == LAUNCH_FAIL) {
        return pto_fail(PTO_KERNEL_FAILED, "was to fail");
    }
    launch_compute(&w);
    return w.way == LAUNCH_BREAK ? pto_fail(PTO_KERNEL_FAILED, "was to break") : PTO_OK;
}

/* ---- A program ---- */

typedef struct launch_side {
    pto_tensor all;             /* in the runtime */
    uint64_t model[LAUNCH_ALL]; /* as a serial run leaves it */
    bool bad[LAUNCH_CELLS];     /* poisoned; only where ranges are cells */
} launch_side;

typedef struct launch_program {
    pto_runtime *rt;
    pto_kernel mix;
    test_rng rng;
    pto_device device;
    bool fails; /* ranges are cells, and some tasks fail */
    bool pends;
    uint64_t failures;
    launch_side side[2]; /* host, device */
    uint64_t memory[LAUNCH_ALL];
} launch_program;

static inline bool launch_one_in(launch_program *p, int64_t n)
{
    return test_between(&p->rng, 1, n) == 1;
}

static inline uint32_t launch_place(launch_program *p)
{
    return p->fails ? (uint32_t)test_between(&p->rng, 0, LAUNCH_CELLS - 1) * LAUNCH_RANGE
                    : (uint32_t)test_between(&p->rng, 0, LAUNCH_ALL - LAUNCH_RANGE);
}

static inline pto_tensor launch_view(const launch_side *side, uint32_t at)
{
    pto_tensor t;
    assert_int_equal(pto_tensor_slice(&side->all, 0, at, at + LAUNCH_RANGE, 1, &t), PTO_OK);
    return t;
}

static uint64_t launch_seed; /* of the program that runs */

static inline void launch_must(pto_status s)
{
    if (s) {
        fail_msg("PTO_TEST_PROGRAM=%" PRIu64 ": %s: %s", launch_seed, pto_status_name(s),
                 pto_error_detail());
    }
}

static inline void launch_equal(const uint64_t *got, const uint64_t *want, const char *what,
                                uint32_t at)
{
    if (memcmp(got, want, LAUNCH_RANGE * sizeof *got) != 0) {
        fail_msg("PTO_TEST_PROGRAM=%" PRIu64 ": %s memory at element %u differs from a serial run",
                 launch_seed, what, at);
    }
}

/* Applies a task to the model. `in` are places; the last may be a temporary of its own. */
static inline void launch_model(launch_program *p, launch_side *side, launch_work *w, uint32_t at,
                                const uint32_t *in)
{
    bool bad = w->keep && side->bad[at / LAUNCH_RANGE];
    for (uint32_t k = 0; k < w->n_in; k++) {
        bad |= side->bad[in[k] / LAUNCH_RANGE];
        w->in[k] = side->model + in[k];
    }
    w->out = side->model + at;
    w->n = LAUNCH_RANGE;
    const bool fails = !bad && (w->way == LAUNCH_FAIL || w->way == LAUNCH_BREAK);
    p->failures += fails;
    if (p->fails) {
        side->bad[at / LAUNCH_RANGE] = bad || fails;
    }
    if (!bad && !fails) {
        launch_compute(w);
    }
}

static inline void launch_task(launch_program *p)
{
    const int where = !launch_one_in(p, 4);
    launch_side *side = &p->side[where];
    launch_work w = {.salt = test_next(&p->rng),
                     .keep = launch_one_in(p, 2),
                     .way = p->fails && launch_one_in(p, 12)           ? LAUNCH_FAIL
                            : p->fails && launch_one_in(p, 12)         ? LAUNCH_BREAK
                            : p->pends && where && launch_one_in(p, 8) ? LAUNCH_PENDING
                                                                       : LAUNCH_GOOD};
    const uint32_t at = launch_place(p);
    uint32_t in[3], wanted = (uint32_t)test_between(&p->rng, 0, 3);
    pto_tensor out = launch_view(side, at), from[3];
    pto_param params[7] = {pto_scalar(w.salt), pto_scalar((uint64_t)w.way),
                           pto_scalar((uint64_t)w.keep),
                           w.keep ? pto_inout(&out) : pto_output(&out)};
    while (w.n_in < wanted) {
        const uint32_t place = launch_place(p);
        if (place + LAUNCH_RANGE <= at ||
            at + LAUNCH_RANGE <= place) { /* a GPU works in parallel */
            in[w.n_in] = place;
            from[w.n_in] = launch_view(side, place);
            params[4 + w.n_in] = pto_input(&from[w.n_in]);
            w.n_in++;
        } else {
            wanted--;
        }
    }
    launch_must(pto_submit_task(p->rt, p->mix, PTO_KERNEL_TYPE, params, 4 + w.n_in, NULL));
    launch_model(p, side, &w, at, in);
}

/* Through a temporary of the device. */
static inline void launch_temporary(launch_program *p)
{
    launch_side *side = &p->side[1];
    const uint32_t at = launch_place(p), to = launch_place(p);
    uint64_t middle[LAUNCH_RANGE];
    launch_work first = {.salt = test_next(&p->rng),
                         .out = middle,
                         .in = {side->model + at},
                         .n_in = 1,
                         .n = LAUNCH_RANGE};
    launch_work second = {.salt = test_next(&p->rng),
                          .out = side->model + to,
                          .in = {middle},
                          .n_in = 1,
                          .n = LAUNCH_RANGE};
    pto_tensor from = launch_view(side, at), out = launch_view(side, to), temporary;
    launch_must(pto_scope_begin(p->rt));
    launch_must(
        pto_temp_on(p->rt, p->device, PTO_UINT64, 1, (int64_t[]){LAUNCH_RANGE}, &temporary));
    launch_must(pto_submit(p->rt, p->mix, pto_scalar(first.salt), pto_scalar(UINT64_C(0)),
                           pto_scalar(UINT64_C(0)), pto_output(&temporary), pto_input(&from)));
    launch_must(pto_submit(p->rt, p->mix, pto_scalar(second.salt), pto_scalar(UINT64_C(0)),
                           pto_scalar(UINT64_C(0)), pto_output(&out), pto_input(&temporary)));
    launch_must(pto_scope_end(p->rt));
    const bool bad = side->bad[at / LAUNCH_RANGE];
    if (!bad) {
        launch_compute(&first);
        launch_compute(&second);
    }
    if (p->fails) {
        side->bad[to / LAUNCH_RANGE] = bad;
    }
}

static inline void launch_copy(launch_program *p)
{
    const int to = (int)test_between(&p->rng, 0, 1);
    launch_side *a = &p->side[to], *b = &p->side[1 - to];
    const uint32_t at = launch_place(p), from = launch_place(p);
    pto_tensor x = launch_view(a, at), y = launch_view(b, from);
    const bool turns = launch_one_in(p, 2); /* one side is a square, transposed */
    if (turns) {
        pto_tensor *side = launch_one_in(p, 2) ? &x : &y;
        launch_must(pto_tensor_reshape(&x, 2, (int64_t[]){4, 4}, &x));
        launch_must(pto_tensor_reshape(&y, 2, (int64_t[]){4, 4}, &y));
        launch_must(pto_tensor_permute(side, (const int32_t[]){1, 0}, side));
    }
    launch_must(pto_copy(p->rt, &x, &y));
    const bool bad = b->bad[from / LAUNCH_RANGE];
    for (uint32_t i = 0; i < LAUNCH_RANGE && !bad; i++) {
        a->model[at + i] = b->model[from + (turns ? i % 4 * 4 + i / 4 : i)];
    }
    if (p->fails) {
        a->bad[at / LAUNCH_RANGE] = bad;
    }
}

static inline void launch_read(launch_program *p)
{
    const launch_side *side = &p->side[test_between(&p->rng, 0, 1)];
    const uint32_t at = launch_place(p);
    const pto_tensor t = launch_view(side, at);
    uint64_t got[LAUNCH_RANGE];
    const pto_status s = pto_read(p->rt, &t, got, sizeof got);
    if (side->bad[at / LAUNCH_RANGE]) {
        assert_int_not_equal(s, PTO_OK);
        return;
    }
    launch_must(s);
    launch_equal(got, side->model + at, "read early:", at);
}

/* ---- Running one ---- */

/* The thread sanitizer knows memory by its address: it does not see what the sides of a window that is
 * mapped twice order. */
#if defined(__SANITIZE_THREAD__)
#define LAUNCH_TSAN 1
#else
#define LAUNCH_TSAN 0
#endif

/* All memory, as the model has it. */
static inline void launch_compare(launch_program *p)
{
    const pto_status s = pto_wait(p->rt);
    if ((s != PTO_OK) != (p->failures != 0)) {
        fail_msg("%s with %llu failures: %s", pto_status_name(s), (unsigned long long)p->failures,
                 pto_error_detail());
    }
    for (int where = 0; where < 2; where++) {
        for (uint32_t cell = 0; cell < LAUNCH_CELLS; cell++) {
            uint64_t got[LAUNCH_RANGE];
            const pto_tensor t = launch_view(&p->side[where], cell * LAUNCH_RANGE);
            const pto_status read = pto_read(p->rt, &t, got, sizeof got);
            if (p->side[where].bad[cell]) {
                assert_int_not_equal(read, PTO_OK);
            } else {
                launch_must(read);
                launch_equal(got, p->side[where].model + cell * LAUNCH_RANGE,
                             where ? "device" : "host", cell * LAUNCH_RANGE);
            }
        }
    }
}

static inline void launch_create(launch_program *p, pto_kernel_fn on_device)
{
    pto_config c = PTO_CONFIG_INIT;
    c.levels = 2;
    c.workers = (uint32_t)test_between(&p->rng, 1, 2);
    c.ring_tasks = UINT32_C(1) << test_between(&p->rng, 2, 7);
    c.device_heap_bytes = (uint64_t)test_between(&p->rng, 4, 16) * 256;
    c.place = launch_one_in(p, 3) ? PTO_PLACE_THREAD : PTO_PLACE_INLINE;
    c.map_twice = launch_one_in(p, 3) && !LAUNCH_TSAN;
    c.spin = launch_one_in(p, 2) ? 0 : 20;
    c.guard = launch_seed % 3 == 0 ? 1 : PTO_NO_GUARD;
    launch_must(pto_runtime_create(&p->rt, &c));
    launch_must(pto_kernel_register(p->rt, "mix", PTO_VECTOR, launch_on_host, NULL, &p->mix));
    launch_must(pto_kernel_variant(p->rt, p->mix, p->device.type, on_device, NULL));
    for (uint32_t i = 0; i < LAUNCH_ALL; i++) {
        p->memory[i] = p->side[0].model[i] = p->side[1].model[i] = test_next(&p->rng);
    }
    const int64_t shape[] = {LAUNCH_ALL};
    launch_must(pto_external_tensor(p->rt, p->memory, PTO_UINT64, 1, shape, &p->side[0].all));
    launch_must(pto_tensor_empty(p->device, PTO_UINT64, 1, shape, &p->side[1].all));
    launch_must(pto_copy(p->rt, &p->side[1].all, &p->side[0].all));
}

/* Runs program `seed` on a device. `pends`: its kernels can be pending. */
static inline void launch_run(uint64_t seed, pto_device device, pto_kernel_fn on_device, bool pends)
{
    static launch_program program;
    launch_program *p = &program;
    memset(p, 0, sizeof *p);
    launch_seed = seed;
    p->rng = test_rng_make(seed);
    p->device = device;
    p->fails = seed % 3 == 2;
    p->pends = pends && seed % 2;
    launch_create(p, on_device);
    const int64_t steps = test_between(&p->rng, 20, 120);
    for (int64_t i = 0; i < steps; i++) {
        const int64_t what = test_between(&p->rng, 0, 19);
        if (what < 13) {
            launch_task(p);
        } else if (what < 16) {
            launch_temporary(p);
        } else if (what < 19) {
            launch_copy(p);
        } else if (!p->fails) {
            launch_read(p);
        }
    }
    launch_compare(p);
    launch_must(pto_check(p->rt));
    PTO_IGNORE(pto_clear_error(p->rt));
    launch_must(pto_runtime_destroy(&p->rt, PTO_WAIT));
    launch_must(pto_tensor_free(&p->side[1].all));
}

#endif /* PTO_TEST_LAUNCHES_H */
