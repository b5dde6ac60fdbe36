/* test_provoke.c - every code can be provoked, and its detail names the numbers.
 *
 * One row of the table for each code of PTO_STATUS_MAP; a code without a row is a failure. So a new
 * code cannot be added without a way to see it happen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pto/dlpack.h>
#include <pto/pto.h>

#include "tensor/layout.h"

static float matrix[4][8];

/* The whole matrix: float32[4, 8]. */
static pto_tensor whole(void)
{
    pto_tensor t;
    const int64_t shape[] = {4, 8};
    assert_int_equal(pto_tensor_init(&t, matrix, sizeof matrix, PTO_FLOAT32, 2, shape, NULL, 0),
                     PTO_OK);
    return t;
}

/* A map of `levels` levels with room for at least `entries` accesses each. */
static pto_tensormap *small_map(uint32_t levels, uint32_t entries)
{
    pto_tensormap *map = NULL;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = levels;
    config.entries = entries;
    assert_int_equal(pto_tensormap_init(&map, &config), PTO_OK);
    return map;
}

/* ---- one provocation each ---------------------------------------------------------------- */

static pto_status ok(void)
{
    pto_tensor t = whole();
    return pto_tensor_check(&t);
}

static pto_status null_argument(void)
{
    const int64_t start[] = {0, 0};
    pto_tensor t = whole();
    return pto_tensor_view(&t, start, NULL, &t);
}

static pto_status bad_dtype(void)
{
    pto_tensor t;
    const int64_t shape[] = {4, 8};
    return pto_tensor_init(&t, matrix, sizeof matrix, (pto_dtype)77, 2, shape, NULL, 0);
}

static pto_status bad_ndim(void)
{
    pto_tensor t;
    const int64_t shape[9] = {0};
    return pto_tensor_init(&t, matrix, sizeof matrix, PTO_FLOAT32, 9, shape, NULL, 0);
}

static pto_status bad_shape(void)
{
    pto_tensor t;
    const int64_t shape[] = {4, -13};
    return pto_tensor_init(&t, matrix, sizeof matrix, PTO_FLOAT32, 2, shape, NULL, 0);
}

static pto_status out_of_bounds(void)
{
    pto_tensor t = whole();
    return pto_tensor_slice(&t, 1, 2, 4711, 1, &t);
}

static pto_status overflow(void)
{
    pto_tensor t;
    const int64_t shape[] = {INT64_MAX, 3};
    return pto_tensor_init(&t, matrix, sizeof matrix, PTO_FLOAT32, 2, shape, NULL, 0);
}

static pto_status bad_dim(void)
{
    pto_tensor t = whole();
    return pto_tensor_slice(&t, 5, 0, 1, 1, &t);
}

static pto_status bad_permutation(void)
{
    pto_tensor t = whole();
    const int32_t perm[] = {1, 1};
    return pto_tensor_permute(&t, perm, &t);
}

static pto_status bad_step(void)
{
    pto_tensor t = whole();
    return pto_tensor_slice(&t, 1, 0, 8, 0, &t);
}

static pto_status needs_copy(void)
{
    pto_tensor t = whole();
    const int64_t shape[] = {32};
    assert_int_equal(pto_tensor_transpose(&t, 0, 1, &t), PTO_OK);
    return pto_tensor_reshape(&t, 1, shape, &t);
}

static pto_status not_broadcastable(void)
{
    pto_tensor t = whole();
    const int64_t shape[] = {4, 17};
    return pto_tensor_broadcast(&t, 2, shape, &t);
}

static pto_status buffer_too_small(void)
{
    pto_tensor t = whole();
    static char storage[128];
    return pto_tensor_contiguous(&t, storage, 127, &t);
}

static pto_status overlap(void)
{
    pto_tensor t = whole();
    return pto_tensor_clone(&t, matrix, sizeof matrix, &t);
}

static pto_status bad_device(void)
{
    static char storage[128];
    pto_tensor t = whole();
    t.device = (pto_device){PTO_DEVICE_NVIDIA, 3};
    return pto_tensor_clone(&t, storage, sizeof storage, &t);
}

static pto_status bad_dlpack(void)
{
    pto_tensor t = whole();
    int64_t shape[] = {4, 2};
    pto_dl_managed managed = {
        .tensor = {.data = matrix,
                   .device = {1, 0},
                   .ndim = 2,
                   .dtype = {2, 32, 19}, /* vectors of 19 floats */
                   .shape = shape},
    };
    return pto_dlpack_import(&managed, &t);
}

static pto_status bad_config(void)
{
    pto_tensormap *map = NULL;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 99;
    pto_status status = pto_tensormap_init(&map, &config);
    assert_null(map);
    return status;
}

/* Far more than there is address space left for: the limit is set just above what is in use. */
static pto_status out_of_memory(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    char line[128] = "";
    assert_non_null(fgets(line, sizeof line, statm));
    fclose(statm);
    unsigned long long pages = strtoull(line, NULL, 10);
    assert_true(pages > 0);

    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit tight = before;
    tight.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)256 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);

    pto_tensormap *map = NULL;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = PTO_MAP_MAX_LEVELS;
    config.entries = UINT32_C(1) << 26;
    pto_status status = pto_tensormap_init(&map, &config);

    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_null(map);
    return status;
}

static pto_status full(void)
{
    pto_tensormap *map = small_map(2, 16);
    pto_tensormap_stats stats;
    assert_int_equal(pto_tensormap_get_stats(map, &stats), PTO_OK);
    pto_tensor t = whole();
    pto_status status = PTO_OK;
    /* Readers are never superseded by one another, so they pile up. */
    for (uint64_t id = 1; status == PTO_OK && id <= stats.entries_capacity + 1; id++) {
        status = pto_tensormap_insert_read(map, &t, (pto_map_task){.id = id, .level = 1});
    }
    pto_tensormap_destroy(&map);
    return status;
}

static pto_status bad_order(void)
{
    pto_tensormap *map = small_map(1, 16);
    pto_tensor t = whole();
    assert_int_equal(pto_tensormap_insert(map, &t, (pto_map_task){.id = 1234}), PTO_OK);
    pto_status status = pto_tensormap_insert(map, &t, (pto_map_task){.id = 567});
    pto_tensormap_destroy(&map);
    return status;
}

static pto_status bad_level(void)
{
    pto_tensormap *map = small_map(2, 16);
    pto_tensor t = whole();
    pto_status status = pto_tensormap_insert(map, &t, (pto_map_task){.id = 1, .level = 6});
    pto_tensormap_destroy(&map);
    return status;
}

static pto_status bad_access(void)
{
    pto_tensormap *map = small_map(1, 16);
    pto_tensor t = whole();
    size_t n_hits = 0;
    pto_map_param params[] = {{&t, PTO_MAP_READ}, {&t, (pto_map_access)7}};
    pto_status status = pto_tensormap_submit(map, params, 2, (pto_map_task){.id = 1}, NULL, 0,
                                             &n_hits);
    pto_tensormap_destroy(&map);
    return status;
}

static pto_status corrupt(void)
{
    ptoi_layout layout;
    bool empty = true;
    pto_tensor t = whole();
    assert_int_equal(pto_tensor_slice(&t, 1, 2, 4, 1, &t), PTO_OK);
    assert_int_equal(ptoi_layout_of(&t, &layout, &empty), PTO_OK);
    assert_false(empty);
    assert_int_equal(ptoi_layout_check(&layout), PTO_OK);
    layout.len = 8191;
    return ptoi_layout_check(&layout);
}

/* ---- the table --------------------------------------------------------------------------- */

typedef struct provocation {
    pto_status (*run)(void);
    const char *says[3]; /* numbers, or names of arguments, that the detail must have */
} provocation;

static const provocation provocations[] = {
    [PTO_OK] = {ok, {NULL}},
    [PTO_NULL_ARGUMENT] = {null_argument, {"view", "shape"}},
    [PTO_BAD_DTYPE] = {bad_dtype, {"77"}},
    [PTO_BAD_NDIM] = {bad_ndim, {"9", "8"}},
    [PTO_BAD_SHAPE] = {bad_shape, {"-13"}},
    [PTO_OUT_OF_BOUNDS] = {out_of_bounds, {"4711", "1", "8"}},
    [PTO_OVERFLOW] = {overflow, {"9223372036854775807", "3"}},
    [PTO_BAD_DIM] = {bad_dim, {"5", "2"}},
    [PTO_BAD_PERMUTATION] = {bad_permutation, {"1"}},
    [PTO_BAD_STEP] = {bad_step, {"0", "1"}},
    [PTO_NEEDS_COPY] = {needs_copy, {"32", "8", "1"}},
    [PTO_NOT_BROADCASTABLE] = {not_broadcastable, {"17", "8"}},
    [PTO_BUFFER_TOO_SMALL] = {buffer_too_small, {"127", "128"}},
    [PTO_OVERLAP] = {overlap, {"128"}},
    [PTO_BAD_DEVICE] = {bad_device, {"nvidia", "3"}},
    [PTO_BAD_DLPACK] = {bad_dlpack, {"19"}},
    [PTO_BAD_CONFIG] = {bad_config, {"levels", "99", "8"}},
    [PTO_OUT_OF_MEMORY] = {out_of_memory, {"bytes", "536870912", "8"}},
    [PTO_FULL] = {full, {"1", "16"}},
    [PTO_BAD_ORDER] = {bad_order, {"567", "1234"}},
    [PTO_BAD_LEVEL] = {bad_level, {"6", "2"}},
    [PTO_CORRUPT] = {corrupt, {"8191"}},
    [PTO_BAD_ACCESS] = {bad_access, {"7", "1"}},
};

/* Whether `word` stands in `text` by itself: the 8 of "18" or of "82" does not count. */
static bool says(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && !isalnum((unsigned char)at[length])) {
            return true;
        }
    }
    return false;
}

static void every_code_can_be_provoked(void **state)
{
    (void)state;
    static const struct {
        pto_status status;
        const char *name;
    } codes[] = {
#define CODE(name, value, text, hint) {PTO_##name, #name},
        PTO_STATUS_MAP(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        size_t code = (size_t)codes[i].status;
        if (code >= sizeof provocations / sizeof *provocations || !provocations[code].run) {
            fail_msg("PTO_%s: no provocation in this table", codes[i].name);
        }
        const provocation *p = &provocations[code];

        /* A mark that is no detail of any function, to see that a new one is set. */
        char before[512];
        snprintf(before, sizeof before, "%s", pto_error_detail());
        pto_status status = p->run();
        const char *detail = pto_error_detail();
        print_message("  PTO_%s: \"%s\"\n", codes[i].name, status ? detail : "");
        if (status != codes[i].status) {
            fail_msg("PTO_%s: got %s \"%s\"", codes[i].name, pto_status_name(status), detail);
        }
        if (status == PTO_OK) {
            assert_string_equal(detail, before);
            continue;
        }
        assert_true(*detail);
        assert_string_not_equal(detail, before);
        for (size_t w = 0; w < sizeof p->says / sizeof *p->says && p->says[w]; w++) {
            if (!says(detail, p->says[w])) {
                fail_msg("PTO_%s: \"%s\" does not say %s", codes[i].name, detail, p->says[w]);
            }
        }
        /* All but the codes about pointers are about numbers. */
        if (status != PTO_NULL_ARGUMENT) {
            assert_non_null(strpbrk(detail, "0123456789"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_can_be_provoked),
    };
    return cmocka_run_group_tests_name("provoke", tests, NULL, NULL);
}
