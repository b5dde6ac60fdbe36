/* test_many_tiles.c - programs that outgrow what the map begins with leave what their serial run
 * leaves: more tiles than regions, more tensors than entries for a full window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pto/pto.h>

#include "support.h"

#define OK(call) assert_int_equal(call, PTO_OK)

enum { SIDE = 150, TILES = SIDE * SIDE, MANY = 6 };

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    return x ^ (x >> 27);
}

/* The last tensor becomes a mixture of all. */
static void mix(uint64_t *const *cells, uint32_t n)
{
    uint64_t sum = n;
    for (uint32_t i = 0; i < n; i++) {
        sum = mixed(sum * 31 + *cells[i]);
    }
    *cells[n - 1] = sum;
}

static pto_status kernel_mix(const pto_call *call)
{
    uint64_t *cells[MANY];
    for (uint32_t i = 0; i < call->n_args; i++) {
        cells[i] = call->args[i].data;
    }
    mix(cells, call->n_args);
    return PTO_OK;
}

typedef struct fixture {
    pto_runtime *rt;
    pto_kernel kernel;
    uint64_t *cells, *serial;
    pto_tensor *tiles;
} fixture;

static void begin(fixture *f, uint32_t workers, uint32_t inline_ns)
{
    pto_config config = PTO_CONFIG_INIT;
    config.workers = workers;
    config.inline_ns = inline_ns;
    OK(pto_runtime_create(&f->rt, &config));
    OK(pto_kernel_register(f->rt, "mix", PTO_AI_CPU, kernel_mix, NULL, &f->kernel));
    f->cells = malloc(TILES * sizeof *f->cells);
    f->serial = malloc(TILES * sizeof *f->serial);
    f->tiles = malloc(TILES * sizeof *f->tiles);
    assert_true(f->cells && f->serial && f->tiles);
    for (uint64_t i = 0; i < TILES; i++) {
        f->cells[i] = f->serial[i] = mixed(i + 1);
        OK(pto_tensor_init(&f->tiles[i], &f->cells[i], sizeof *f->cells, PTO_UINT64, 1,
                           (int64_t[]){1}, NULL, 0));
    }
}

/* A task that reads all tiles but the last, and updates that one. */
static void task(fixture *f, const size_t *tiles, size_t n)
{
    pto_param params[MANY];
    uint64_t *cells[MANY];
    for (size_t i = 0; i < n; i++) {
        const pto_tensor *t = &f->tiles[tiles[i]];
        params[i] = i + 1 < n ? pto_input(t) : pto_inout(t);
        cells[i] = &f->serial[tiles[i]];
    }
    OK(pto_submit_task(f->rt, f->kernel, PTO_AI_CPU, params, n, NULL));
    mix(cells, (uint32_t)n);
}

static pto_ring_stats entries_of(const fixture *f)
{
    pto_runtime_stats stats;
    OK(pto_stats(f->rt, &stats));
    return stats.level[0].ring[PTO_RING_MAP];
}

static void end(fixture *f)
{
    OK(pto_wait(f->rt));
    OK(pto_check(f->rt));
    assert_memory_equal(f->cells, f->serial, TILES * sizeof *f->cells);
    OK(pto_runtime_destroy(&f->rt, PTO_WAIT));
    free(f->cells);
    free(f->serial);
    free(f->tiles);
}

/* Sweeps over a matrix with more tiles than the map has regions at first: each tile depends on its
 * neighbours, and on a tile far away that may have been evicted. */
static void sweeps(uint32_t workers, uint32_t inline_ns)
{
    fixture f;
    test_rng rng = test_rng_make(test_seed());
    begin(&f, workers, inline_ns);
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < TILES; i++) {
            const size_t left = i % SIDE ? i - 1 : i + 1, up = i >= SIDE ? i - SIDE : i + SIDE;
            const size_t far = (size_t)test_between(&rng, 0, TILES - 1);
            if (far == i || test_between(&rng, 0, 7)) {
                task(&f, (size_t[]){left, up, i}, 3);
            } else {
                task(&f, (size_t[]){left, up, far, i}, 4);
            }
        }
    }
    end(&f);
}

static void test_a_matrix_with_many_tiles(void **state)
{
    (void)state;
    sweeps(PTO_NO_WORKERS, PTO_NO_INLINE);
    sweeps(2, PTO_NO_INLINE);
    sweeps(2, 0);
}

/* A full window of tasks with six tensors: they wait for slots, not for map entries. */
static void test_six_tensors_in_a_default_window(void **state)
{
    (void)state;
    fixture f;
    test_rng rng = test_rng_make(test_seed());
    begin(&f, PTO_NO_WORKERS, PTO_NO_INLINE);
    for (int n = 0; n < 20000; n++) {
        size_t tiles[MANY];
        for (int i = 0; i < MANY; i++) { /* different ones */
            tiles[i] = (size_t)(test_between(&rng, 0, 300) * MANY + i);
        }
        task(&f, tiles, MANY);
    }
    const pto_ring_stats entries = entries_of(&f);
    assert_int_equal(entries.waits, 0);
    assert_true(entries.peak > 4096); /* more than the map begins with */
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_matrix_with_many_tiles),
        cmocka_unit_test(test_six_tensors_in_a_default_window),
    };
    return cmocka_run_group_tests_name("many tiles", tests, NULL, NULL);
}
