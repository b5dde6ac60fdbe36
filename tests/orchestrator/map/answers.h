/* answers.h - what a TensorMap said, in a form that tests can compare.
 *
 * The answers to a question become one line, in order of task: "W1 R2 R7/3" says that task 1 wrote
 * the memory and that tasks 2 and 7 (of level 3) read it. What the map says twice stands there
 * twice, so a line also proves that nothing was.
 */
#ifndef PTO_TEST_ANSWERS_H
#define PTO_TEST_ANSWERS_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pto/tensormap.h>

typedef struct answers {
    pto_map_hit *hit;
    size_t count;
    size_t room;
} answers;

/* A pto_map_visitor; the context is a struct answers. */
static inline void answers_add(void *context, const pto_map_hit *hit)
{
    answers *a = context;
    if (a->count == a->room) {
        a->room = a->room ? 2 * a->room : 64;
        a->hit = realloc(a->hit, a->room * sizeof *a->hit);
        if (!a->hit) {
            abort();
        }
    }
    a->hit[a->count++] = *hit;
}

static inline void answers_free(answers *a)
{
    free(a->hit);
    *a = (answers){0};
}

static inline int answers_order(const void *a, const void *b)
{
    const pto_map_hit *x = a, *y = b;
    if (x->task.id != y->task.id) {
        return x->task.id < y->task.id ? -1 : 1;
    }
    return (int)x->access - (int)y->access;
}

static inline void answers_sort(answers *a)
{
    if (a->count) {
        qsort(a->hit, a->count, sizeof *a->hit, answers_order);
    }
}

/* The line, good until the second next call. Long ones end in "...". */
static inline const char *answers_text(answers *a)
{
    static char lines[2][4096];
    static int turn;
    char *line = lines[turn ^= 1];
    size_t used = 0;
    line[0] = 0;
    answers_sort(a);
    for (size_t i = 0; i < a->count; i++) {
        const pto_map_hit *hit = &a->hit[i];
        if (used + 64 > sizeof lines[0]) {
            memcpy(line + used, " ...", 5);
            break;
        }
        used += (size_t)sprintf(line + used, "%s%c%" PRIu64, i ? " " : "",
                                hit->access == PTO_MAP_WRITE  ? 'W'
                                : hit->access == PTO_MAP_READ ? 'R'
                                                              : '?',
                                hit->task.id);
        if (hit->task.level) {
            used += (size_t)sprintf(line + used, "/%" PRIu32, hit->task.level);
        }
    }
    return line;
}

typedef pto_status answers_question(pto_tensormap *map, const pto_tensor *t, pto_map_visitor visit,
                                    void *context);
typedef pto_status answers_region_question(pto_tensormap *map, const pto_region *r,
                                           pto_map_visitor visit, void *context);

/* Asks and writes the line; the name of the status where the question failed. */
static inline const char *answers_ask(answers_question *question, pto_tensormap *map,
                                      const pto_tensor *t)
{
    answers a = {0};
    pto_status status = question(map, t, answers_add, &a);
    const char *line = status == PTO_OK ? answers_text(&a) : pto_status_name(status);
    answers_free(&a);
    return line;
}

static inline const char *answers_ask_region(answers_region_question *question, pto_tensormap *map,
                                             const pto_region *r)
{
    answers a = {0};
    pto_status status = question(map, r, answers_add, &a);
    const char *line = status == PTO_OK ? answers_text(&a) : pto_status_name(status);
    answers_free(&a);
    return line;
}

/* "12" for the newest producer, "none" if there is no producer. */
static inline const char *answers_newest(pto_tensormap *map, const pto_tensor *t)
{
    static char line[64];
    bool found = false;
    pto_map_task producer = {0};
    pto_status status = pto_tensormap_lookup(map, t, &found, &producer);
    if (status != PTO_OK) {
        return pto_status_name(status);
    }
    snprintf(line, sizeof line, found ? "%" PRIu64 : "none", producer.id);
    return line;
}

#define READ_DEPS(map, t) answers_ask(pto_tensormap_read_deps, (map), (t))
#define WRITE_DEPS(map, t) answers_ask(pto_tensormap_write_deps, (map), (t))
#define LOOKUP_ALL(map, t) answers_ask(pto_tensormap_lookup_all, (map), (t))
#define READ_DEPS_REGION(map, r) answers_ask_region(pto_tensormap_read_deps_region, (map), (r))
#define WRITE_DEPS_REGION(map, r) answers_ask_region(pto_tensormap_write_deps_region, (map), (r))
#define LOOKUP_ALL_REGION(map, r) answers_ask_region(pto_tensormap_lookup_all_region, (map), (r))

/* A task of level 0, and of another. */
#define TASK(number) ((pto_map_task){.id = (number)})
#define TASK_AT(number, ring) ((pto_map_task){.id = (number), .level = (ring)})

/* ---- Maps --------------------------------------------------------------------------------- */

#define OK(call) assert_int_equal((call), PTO_OK)

/* The call fails with this status, and the detail has the number in it. */
#define FAILS(call, code, number)                                                                  \
    do {                                                                                           \
        assert_string_equal(pto_status_name(call), pto_status_name(code));                         \
        if (!strstr(pto_error_detail(), (number))) {                                               \
            fail_msg("%s: no %s in \"%s\"", #call, (number), pto_error_detail());                  \
        }                                                                                          \
    } while (0)

static inline pto_tensormap *new_map(uint32_t levels, uint32_t entries)
{
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    pto_tensormap *map = NULL;
    config.levels = levels;
    config.entries = entries;
    OK(pto_tensormap_init(&map, &config));
    assert_non_null(map);
    return map;
}

static inline void drop_map(pto_tensormap **map)
{
    OK(pto_tensormap_check(*map));
    pto_tensormap_destroy(map);
    assert_null(*map);
}

/* ---- Tensors made by hand: these tests trust nothing of the library but the map ------------ */

/* Bytes of one element. */
static inline uint64_t answers_element(pto_dtype dtype)
{
#define ANSWERS_SIZE(name, value, text, bytes)                                                     \
    if (dtype == PTO_##name) {                                                                     \
        return (bytes);                                                                            \
    }
    PTO_DTYPE_MAP(ANSWERS_SIZE)
#undef ANSWERS_SIZE
    return 0;
}

/* `count` dense bytes from `first` on. */
static inline pto_tensor tensor_bytes(const void *first, uint64_t count)
{
    pto_tensor t = {.storage = (void *)(uintptr_t)first, .storage_bytes = count};
    t.dtype = PTO_UINT8;
    t.ndim = 1;
    t.shape[0] = (int64_t)count;
    t.strides[0] = 1;
    return t;
}

/* A dense float matrix. */
static inline pto_tensor tensor_matrix(const void *first, int64_t rows, int64_t cols)
{
    pto_tensor t = {.storage = (void *)(uintptr_t)first};
    t.storage_bytes = (uint64_t)(rows * cols) * 4;
    t.dtype = PTO_FLOAT32;
    t.ndim = 2;
    t.shape[0] = rows;
    t.shape[1] = cols;
    t.strides[0] = cols;
    t.strides[1] = 1;
    return t;
}

/* Rows r .. r + rows and columns c .. c + cols of a matrix. */
static inline pto_tensor tensor_box(const pto_tensor *m, int64_t r, int64_t c, int64_t rows,
                                    int64_t cols)
{
    pto_tensor t = *m;
    t.offset += r * m->strides[0] + c * m->strides[1];
    t.shape[0] = rows;
    t.shape[1] = cols;
    t.kind = PTO_SHALLOW_VIEW;
    return t;
}

/* `count` of one dim, from `start` on, each `step` from the last. */
static inline pto_tensor tensor_slice(const pto_tensor *m, int32_t dim, int64_t start,
                                      int64_t count, int64_t step)
{
    pto_tensor t = *m;
    t.offset += start * m->strides[dim];
    t.shape[dim] = count;
    t.strides[dim] *= step;
    t.kind = PTO_SHALLOW_VIEW;
    return t;
}

static inline pto_tensor tensor_transpose(const pto_tensor *m)
{
    pto_tensor t = *m;
    t.shape[0] = m->shape[1];
    t.shape[1] = m->shape[0];
    t.strides[0] = m->strides[1];
    t.strides[1] = m->strides[0];
    t.kind = PTO_SHALLOW_TRANSPOSE;
    return t;
}

#endif /* PTO_TEST_ANSWERS_H */
