/* grid_interpreter.h - runs grid plans (op/rearrange/grid.h) on the CPU, thread after thread, with
 * the code of the GPU kernels. Accesses to global memory must be aligned and inside of the bounds
 * that the test sets; those to shared memory are counted by bank. */
#ifndef PTO_TEST_GRID_INTERPRETER_H
#define PTO_TEST_GRID_INTERPRETER_H

#include <stdint.h>
#include <string.h>

#include "support.h"

typedef struct ptoi_vec {
    uint32_t w[4];
} ptoi_vec;

/* ---- Memory ------------------------------------------------------------------------------------ */

static struct {
    const char *low, *end; /* all of the global memory */
} interpreter_bounds;

static inline const char *interpreter_access(const char *at, size_t bytes)
{
    assert_int_equal((uintptr_t)at % bytes, 0);
    assert_true(at >= interpreter_bounds.low && at + bytes <= interpreter_bounds.end);
    return at;
}

/* The accesses of each thread to shared memory, in order. */
enum { INTERPRETER_ACCESSES = 128, INTERPRETER_SHARED = 64 << 10 };
static _Alignas(16) char interpreter_shared[INTERPRETER_SHARED];
static struct {
    bool on;
    uint32_t count;
    uint32_t at[INTERPRETER_ACCESSES];
    uint32_t bytes[INTERPRETER_ACCESSES];
} interpreter_log[256], *interpreter_now;

static inline const char *interpreter_touch(const char *at, size_t bytes)
{
    uint32_t place = (uint32_t)(at - interpreter_shared);
    assert_int_equal(place % bytes, 0);
    assert_true(place + bytes <= INTERPRETER_SHARED);
    if (interpreter_now->on) {
        assert_true(interpreter_now->count < INTERPRETER_ACCESSES);
        interpreter_now->at[interpreter_now->count] = place;
        interpreter_now->bytes[interpreter_now->count++] = (uint32_t)bytes;
    }
    return at;
}

/* ---- The machine of grid_code.h ---------------------------------------------------------------- */

static inline uint32_t interpreter_perm(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (uint32_t k = 0; k < 4; k++) {
        result |= (uint32_t)(both >> ((selector >> (4 * k) & 7) * 8) & 0xff) << (8 * k);
    }
    return result;
}

#define DEFINE_ACCESS(type)                                                                        \
    static inline type get_##type(const char *from)                                                \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, interpreter_access(from, sizeof value), sizeof value);                      \
        return value;                                                                              \
    }                                                                                              \
    static inline void put_##type(char *to, type value)                                            \
    {                                                                                              \
        (void)interpreter_access(to, sizeof value);                                                \
        memcpy(to, &value, sizeof value);                                                          \
    }                                                                                              \
    static inline type fetch_##type(const char *from)                                              \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, interpreter_touch(from, sizeof value), sizeof value);                       \
        return value;                                                                              \
    }                                                                                              \
    static inline void stash_##type(char *to, type value)                                          \
    {                                                                                              \
        (void)interpreter_touch(to, sizeof value);                                                 \
        memcpy(to, &value, sizeof value);                                                          \
    }
DEFINE_ACCESS(uint32_t)
DEFINE_ACCESS(uint64_t)
DEFINE_ACCESS(ptoi_vec)
#undef DEFINE_ACCESS

#define DEFINE_NARROW(type)                                                                        \
    static inline type get_##type(const char *from)                                                \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, interpreter_access(from, sizeof value), sizeof value);                      \
        return value;                                                                              \
    }                                                                                              \
    static inline void put_##type(char *to, type value)                                            \
    {                                                                                              \
        (void)interpreter_access(to, sizeof value);                                                \
        memcpy(to, &value, sizeof value);                                                          \
    }
DEFINE_NARROW(uint8_t)
DEFINE_NARROW(uint16_t)
#undef DEFINE_NARROW

#define PTOI_GPU static inline
#define PTOI_UNROLL
#define PTOI_PERM(a, b, selector) interpreter_perm((a), (b), (selector))
#define PTOI_GET(type, from) get_##type(from)
#define PTOI_PUT(type, to, value) put_##type((to), (value))
#define PTOI_FETCH(type, from) fetch_##type(from)
#define PTOI_STASH(type, to, value) stash_##type((to), (value))

#include "op/rearrange/grid_code.h"

/* ---- Running ----------------------------------------------------------------------------------- */

typedef struct interpreter {
    char *to;
    const char *from;
    uint64_t element; /* of a fill, repeated to 8 bytes */
    uint64_t launches;
} interpreter;

static inline void interpreter_item(const interpreter *in, const ptoi_grid *grid, uint32_t item,
                                    int64_t to_more, int64_t from_more)
{
    int64_t to, from;
    if (!ptoi_item_at(grid, item, &to, &from)) {
        return;
    }
    char *at = in->to + to + to_more;
    (void)interpreter_access(at, grid->size);
    if (grid->way == PTOI_GRID_FILL) {
        uint64_t both[2] = {in->element, in->element};
        memcpy(at, (const char *)both + (uint32_t)(to - grid->to_start) % 8, grid->size);
    } else {
        memcpy(at, interpreter_access(in->from + from + from_more, grid->size), grid->size);
    }
}

static inline void interpreter_tile(const interpreter *in, const ptoi_grid *grid, uint32_t item,
                                    int64_t to, int64_t from)
{
    const uint32_t side = (uint32_t)PTOI_TILE_SIDE(grid->size, grid->form);
    const ptoi_tile tile = ptoi_tile_at(grid, item, side);
    memset(interpreter_shared, 0xee, sizeof interpreter_shared);
    for (uint32_t thread = 0; thread < PTOI_GRID_THREADS; thread++) {
        interpreter_now = &interpreter_log[thread];
        interpreter_now->count = 0;
        ptoi_tile_load(grid, &tile, in->from + from, thread, interpreter_shared, grid->size, side,
                       grid->vec_in, grid->vec_out);
    }
    for (uint32_t thread = 0; thread < PTOI_GRID_THREADS; thread++) {
        interpreter_now = &interpreter_log[thread];
        ptoi_tile_store(grid, &tile, in->to + to, thread, interpreter_shared, grid->size, side,
                        grid->vec_out);
    }
}

static inline pto_status interpreter_launch(void *context, const ptoi_grid *grid, int64_t to,
                                            int64_t from)
{
    interpreter *in = context;
    in->launches++;
    for (uint32_t item = 0; item < grid->items; item++) {
        if (grid->way == PTOI_GRID_TILES) {
            interpreter_tile(in, grid, item, to, from);
        } else {
            interpreter_item(in, grid, item, to, from);
        }
    }
    return PTO_OK;
}

/* How many turns the worst access of the last tile needed beyond those that its bytes need. Lanes
 * that access together: 32 for 4 bytes each, 16 for 8, 8 for 16. */
static inline uint32_t interpreter_conflicts(void)
{
    uint32_t worst = 0;
    for (uint32_t first = 0; first < PTOI_GRID_THREADS; first += PTOI_LANES) {
        for (uint32_t k = 0; k < interpreter_log[first].count; k++) {
            uint32_t bytes = interpreter_log[first].bytes[k], lanes = 128 / bytes;
            lanes = lanes > PTOI_LANES ? PTOI_LANES : lanes;
            for (uint32_t phase = 0; phase < PTOI_LANES; phase += lanes) {
                uint32_t turns[32] = {0}, most = 0;
                for (uint32_t lane = 0; lane < lanes; lane++) {
                    for (uint32_t b = 0; b < bytes; b += 4) {
                        uint32_t at = interpreter_log[first + phase + lane].at[k] + b;
                        uint32_t now = ++turns[at / 4 % 32];
                        most = now > most ? now : most;
                    }
                }
                worst = most - 1 > worst ? most - 1 : worst;
            }
        }
    }
    return worst;
}

#endif /* PTO_TEST_GRID_INTERPRETER_H */
