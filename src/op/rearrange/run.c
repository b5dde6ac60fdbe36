/* run.c - runs a plan, piece by piece. See plan.h. */
#include <string.h>

#include "base/error.h"
#include "op/rearrange/plan.h"

/* ---- The position of a piece --------------------------------------------------------------- */

/* Pieces in order: chunks of a run inside i, i inside j, j inside the loops. */
typedef struct cursor {
    int64_t index[PTO_MAX_DIMS];
    int64_t j, i, chunk;        /* j and i: where the piece begins on the axes */
    int64_t to_loop, from_loop; /* bytes that the loops have advanced */
} cursor;

/* Elements of i in the piece that begins at `at`. */
static inline int64_t length_i(const ptoi_plan *plan, int64_t at)
{
    return ptoi_smaller(at == 0 && plan->head ? plan->head : plan->i.side, plan->i.count - at);
}

static inline int64_t length_j(const ptoi_plan *plan, int64_t at)
{
    return ptoi_smaller(plan->j.side, plan->j.count - at);
}

static cursor cursor_at(const ptoi_plan *plan, int64_t piece)
{
    cursor c = {.index = {0}};
    if (piece == 0) {
        return c;
    }
    int64_t pieces_i = ptoi_axis_pieces(&plan->i, plan->head);
    int64_t pieces_j = ptoi_axis_pieces(&plan->j, 0);
    c.chunk = piece % plan->chunks;
    piece /= plan->chunks;
    c.i = piece % pieces_i * plan->i.side;
    if (plan->head && c.i) {
        c.i += plan->head - plan->i.side;
    }
    piece /= pieces_i;
    c.j = piece % pieces_j * plan->j.side;
    piece /= pieces_j;
    for (int32_t d = plan->nest.n - 1; d >= 0; d--) {
        c.index[d] = piece % plan->nest.loop[d].count;
        piece /= plan->nest.loop[d].count;
        c.to_loop += c.index[d] * plan->nest.loop[d].to;
        c.from_loop += c.index[d] * plan->nest.loop[d].from;
    }
    return c;
}

static void cursor_next(const ptoi_plan *plan, cursor *c)
{
    if (++c->chunk < plan->chunks) {
        return;
    }
    c->chunk = 0;
    c->i += length_i(plan, c->i);
    if (c->i < plan->i.count) {
        return;
    }
    c->i = 0;
    c->j += plan->j.side;
    if (c->j < plan->j.count) {
        return;
    }
    c->j = 0;
    for (int32_t d = plan->nest.n - 1; d >= 0; d--) {
        c->to_loop += plan->nest.loop[d].to;
        c->from_loop += plan->nest.loop[d].from;
        if (++c->index[d] < plan->nest.loop[d].count) {
            return;
        }
        c->to_loop -= c->index[d] * plan->nest.loop[d].to;
        c->from_loop -= c->index[d] * plan->nest.loop[d].from;
        c->index[d] = 0;
    }
}

/* ---- Elements ------------------------------------------------------------------------------ */

/* Moves of a fixed size become one load and one store, aligned or not. If the step is known to be
 * the size, they can be vectorized. */
#define DEFINE_MOVE(size)                                                                          \
    static inline __attribute__((always_inline)) void steps_##size(                                \
        char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count)             \
    {                                                                                              \
        if (!from_step) {                                                                          \
            char element[size];                                                                    \
            memcpy(element, from, (size));                                                         \
            for (int64_t i = 0; i < count; i++) {                                                  \
                memcpy(to + i * to_step, element, (size));                                         \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            memcpy(to + i * to_step, from + i * from_step, (size));                                \
        }                                                                                          \
    }                                                                                              \
    static void move_##size(char *to, int64_t to_step, const char *from, int64_t from_step,        \
                            int64_t count)                                                         \
    {                                                                                              \
        if (to_step == (size) && from_step == -(size)) {                                           \
            steps_##size(to, (size), from, -(size), count);                                        \
        } else if (to_step == (size)) {                                                            \
            steps_##size(to, (size), from, from_step, count);                                      \
        } else {                                                                                   \
            steps_##size(to, to_step, from, from_step, count);                                     \
        }                                                                                          \
    }
DEFINE_MOVE(1)
DEFINE_MOVE(2)
DEFINE_MOVE(4)
DEFINE_MOVE(8)
DEFINE_MOVE(16)
#undef DEFINE_MOVE

typedef void move_fn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count);
static move_fn *const moves[5] = {move_1, move_2, move_4, move_8, move_16};

/* Moves a rectangle of ni x nj, along its longer side. */
static void move_elements(const ptoi_plan *plan, char *to, const char *from, int64_t ni, int64_t nj)
{
    const ptoi_loop *i = &plan->i.loop[0], *j = &plan->j.loop[0]; /* zero if there is none */
    move_fn *move = moves[__builtin_ctz(plan->size)];
    if (ni < nj) {
        const ptoi_loop *swap = i;
        int64_t n = ni;
        i = j;
        j = swap;
        ni = nj;
        nj = n;
    }
    for (int64_t k = 0; k < nj; k++) {
        move(to + k * j->to, i->to, from + k * j->from, i->from, ni);
    }
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static void move_runs(const ptoi_plan *plan, char *to, const char *from, int64_t ni, int64_t nj,
                      int64_t chunk)
{
    const ptoi_loop *i = &plan->i.loop[0], *j = &plan->j.loop[0];
    int64_t bytes = plan->run, skip = chunk * PTOI_CHUNK;
    if (plan->chunks > 1) {
        bytes = ptoi_smaller(bytes - skip, PTOI_CHUNK);
    }
    for (int64_t k = 0; k < nj; k++) {
        plan->isa->rows(to + k * j->to + skip, i->to, from + k * j->from + skip, i->from, ni, bytes,
                        plan->stream && plan->run >= PTOI_LONG_RUN);
    }
}

/* ---- Tiles --------------------------------------------------------------------------------- */

/* Offsets of elements `start` to `start + n - 1` of an axis, on the side where they are not
 * adjacent. */
static void offsets(const ptoi_axis *axis, bool to, int64_t start, int64_t n, int64_t *out)
{
    int64_t index[PTO_MAX_DIMS] = {0}, step[PTO_MAX_DIMS] = {0}, base = 0;
    for (int32_t d = 0; d < axis->n; d++) {
        step[d] = to ? axis->loop[d].to : axis->loop[d].from;
        if (start) {
            index[d] = start % axis->loop[d].count;
            start /= axis->loop[d].count;
            base += index[d] * step[d];
        }
    }
    while (n > 0) {
        int64_t row = ptoi_smaller(n, axis->loop[0].count - index[0]), first = step[0];
        int64_t at = base, k = 0;
        for (; k + 4 <= row; k += 4) { /* four at a time: each sum alone would depend on the one
                                          before */
            out[k] = at;
            out[k + 1] = at + first;
            out[k + 2] = at + 2 * first;
            out[k + 3] = at + 3 * first;
            at += 4 * first;
        }
        for (; k < row; k++) {
            out[k] = at;
            at += first;
        }
        out += row;
        n -= row;
        base -= index[0] * first;
        index[0] = 0;
        for (int32_t d = 1; d < axis->n; d++) {
            base += step[d];
            if (++index[d] < axis->loop[d].count) {
                break;
            }
            base -= index[d] * step[d];
            index[d] = 0;
        }
    }
}

/* Moves blocks `first` to `end - 1`. Each call also gets the next block, to prefetch it. */
static void move_tiles(const ptoi_plan *plan, char *to, const char *from, int64_t first,
                       int64_t end)
{
    int64_t size = plan->size, to_rows[PTOI_BLOCK_COLUMNS], from_rows[2][PTOI_BLOCK_ROWS];
    bool aligned = plan->aligned && (uintptr_t)to % PTOI_LINE == plan->line;
    ptoi_block_fn *const *kernels = plan->stream ? plan->isa->stream : plan->isa->block;
    cursor c = cursor_at(plan, first), filled = {.i = -1, .j = -1};
    for (int64_t piece = first; piece < end; piece++) {
        int64_t *rows = from_rows[piece % 2], *next_rows = from_rows[(piece + 1) % 2];
        ptoi_block block = {.ni = length_i(plan, c.i), .nj = length_j(plan, c.j)};
        if (piece == first || !plan->stream) {
            offsets(&plan->i, false, c.i, block.ni, rows);
        }
        if (c.j != filled.j) {
            offsets(&plan->j, true, c.j, block.nj, to_rows);
        }
        filled = c;
        block.to = to + c.to_loop + c.i * size;
        block.to_rows = to_rows;
        block.from = from + c.from_loop + c.j * size;
        block.from_rows = rows;
        block.lines = aligned && (plan->head == 0 || c.i > 0);
        if (piece + 1 < end) {
            cursor_next(plan, &c);
        }
        if (piece + 1 < end && plan->stream) {
            block.next_ni = length_i(plan, c.i);
            block.next = from + c.from_loop + c.j * size;
            block.next_rows = next_rows;
            offsets(&plan->i, false, c.i, block.next_ni, next_rows);
        }
        kernels[__builtin_ctz(plan->size)](&block);
    }
}

/* ---- The whole copy, or a part ------------------------------------------------------------- */

static void run_pieces(const ptoi_plan *plan, void *to, const void *from, int64_t first,
                       int64_t end)
{
    char *t = (char *)to + plan->nest.to_start;
    const char *f = (const char *)from + plan->nest.from_start;
    if (first >= end) {
        return;
    }
    if (plan->way == PTOI_WAY_TILES) {
        move_tiles(plan, t, f, first, end);
    } else {
        const ptoi_loop *i = &plan->i.loop[0], *j = &plan->j.loop[0];
        cursor c = cursor_at(plan, first);
        for (int64_t piece = first; piece < end; piece++) {
            char *t_piece = t + c.to_loop + c.i * i->to + c.j * j->to;
            const char *f_piece = f + c.from_loop + c.i * i->from + c.j * j->from;
            int64_t ni = length_i(plan, c.i), nj = length_j(plan, c.j);
            if (plan->way == PTOI_WAY_RUNS) {
                move_runs(plan, t_piece, f_piece, ni, nj, c.chunk);
            } else {
                move_elements(plan, t_piece, f_piece, ni, nj);
            }
            cursor_next(plan, &c);
        }
    }
    if (plan->stream) {
        plan->isa->fence();
    }
}

void ptoi_plan_run(const ptoi_plan *plan, void *to, const void *from)
{
    run_pieces(plan, to, from, 0, plan->pieces);
}

void ptoi_plan_run_part(const ptoi_plan *plan, void *to, const void *from, uint32_t part,
                        uint32_t parts)
{
    if (plan->way == PTOI_WAY_ORDERED) {
        run_pieces(plan, to, from, 0, part == 0 ? plan->pieces : 0);
        return;
    }
    /* No product of the two: the number of pieces may be very large. */
    int64_t each = plan->pieces / parts, rest = plan->pieces % parts;
    int64_t first = each * part + ptoi_smaller(part, rest);
    run_pieces(plan, to, from, first, first + each + (part < rest));
}

void ptoi_copy(int32_t ndim, const int64_t *shape, void *to, const int64_t *to_strides,
               const void *from, const int64_t *from_strides, uint32_t size)
{
    ptoi_plan plan;
    ptoi_plan_make(&plan, ndim, shape, to_strides, from_strides, size, (uintptr_t)to);
    ptoi_plan_run(&plan, to, from);
}
