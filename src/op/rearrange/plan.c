/* plan.c - plans a strided copy: normalises it, then chooses a way. See plan.h. */
#include "op/rearrange/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

/* With fewer elements than this in i or j, a square costs more than moving elements one by one.
 * Indexed by the binary logarithm of the size. */
static const int64_t thin[5] = {8, 8, 8, 4, 2};

/* The range of bytes of one side, relative to element [0, 0, ...]. It fits, by E2. */
static void span(int32_t ndim, const int64_t *shape, const int64_t *strides, int64_t size,
                 int64_t *low, int64_t *end)
{
    *low = 0;
    *end = size;
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] > 1) {
            int64_t reach = (shape[d] - 1) * strides[d] * size;
            *(reach < 0 ? low : end) += reach;
        }
    }
}

/* ---- Choose -------------------------------------------------------------------------------- */

static void add_loop(ptoi_axis *axis, ptoi_loop loop)
{
    axis->loop[axis->n++] = loop;
    axis->count *= loop.count; /* fits, by E1 */
}

static bool is_wide(int64_t run)
{
    return run == 2 || run == 4 || run == 8 || run == 16;
}

/* Extends i by loops that continue it in the destination, and j by loops that continue it in the
 * source. */
static void lengthen(ptoi_plan *plan)
{
    int64_t size = plan->size;
    for (bool found = true; found && plan->i.count < plan->i.side;) {
        found = plan->nest.n > 0 && plan->nest.loop[plan->nest.n - 1].to == plan->i.count * size;
        if (found) {
            add_loop(&plan->i, ptoi_nest_take(&plan->nest, plan->nest.n - 1));
        }
    }
    for (bool found = true; found && plan->j.count < plan->j.side;) {
        found = false;
        for (int32_t d = 0; d < plan->nest.n && !found; d++) {
            found = plan->nest.loop[d].from == plan->j.count * size;
            if (found) {
                add_loop(&plan->j, ptoi_nest_take(&plan->nest, d));
            }
        }
    }
}

/* A square of this side keeps its lines of both sides in the L1 cache, even if they are far apart
 * on one side. A longer rectangle may have LONG_AREA elements. */
enum { SQUARE_SIDE = 32, LONG_AREA = 4096 };

/* Chooses how much of each axis a piece has. */
static void cut(ptoi_plan *plan)
{
    ptoi_axis *i = &plan->i, *j = &plan->j;
    int64_t area = LONG_AREA;
    plan->chunks = 1;
    if (plan->way == PTOI_WAY_RUNS) {
        plan->chunks = plan->run >= INT64_C(4) * PTOI_CHUNK
                           ? (plan->run + PTOI_CHUNK - 1) / PTOI_CHUNK
                           : 1;
        area = plan->run < PTOI_CHUNK ? PTOI_CHUNK / plan->run : 1;
    }
    /* Rows are as good as squares if both sides are densest along them. */
    bool rows = plan->run >= PTOI_LONG_RUN || j->n == 0 ||
                ptoi_reach(i->loop[0].from) <= ptoi_reach(j->loop[0].from);
    if (!rows) {
        i->side = ptoi_smaller(i->count, SQUARE_SIDE);
        j->side = ptoi_smaller(j->count, i->side < SQUARE_SIDE ? area / i->side : SQUARE_SIDE);
    }
    if (rows || j->side < SQUARE_SIDE) {
        j->side = rows ? 1 : j->side;
        i->side = ptoi_smaller(i->count, area / j->side);
        j->side = rows ? ptoi_smaller(j->count, area / i->side) : j->side;
    }
}

/* Long runs are copied in the order of the source: reads are fastest in sequence, while the order
 * of writes does not matter if each has several lines. */
static void sort_by_source(ptoi_plan *plan)
{
    for (int32_t i = 1; i < plan->nest.n; i++) {
        ptoi_loop loop = plan->nest.loop[i];
        int32_t at = i;
        for (; at > 0 && ptoi_reach(plan->nest.loop[at - 1].from) < ptoi_reach(loop.from); at--) {
            plan->nest.loop[at] = plan->nest.loop[at - 1];
        }
        plan->nest.loop[at] = loop;
    }
}

static void choose(ptoi_plan *plan)
{
    int64_t size = plan->size;
    plan->way = PTOI_WAY_ELEMENTS;
    if (plan->nest.n > 0 && plan->nest.loop[plan->nest.n - 1].to == size &&
        plan->nest.loop[plan->nest.n - 1].from == size) {
        int64_t run = ptoi_nest_take(&plan->nest, plan->nest.n - 1).count * size;
        if (is_wide(run)) {
            plan->size = (uint32_t)run;
        } else {
            plan->way = PTOI_WAY_RUNS;
            plan->run = run;
            if (run >= PTOI_LONG_RUN) {
                sort_by_source(plan);
            }
        }
    }
    if (plan->nest.n > 0) {
        add_loop(&plan->i, ptoi_nest_take(&plan->nest, plan->nest.n - 1));
    }
    int32_t least = ptoi_nest_least_from(&plan->nest);
    if (least >= 0) {
        add_loop(&plan->j, ptoi_nest_take(&plan->nest, least));
        if (plan->j.loop[0].from < 0) {
            ptoi_nest_flip(&plan->nest, &plan->j.loop[0]);
        }
    }
    size = plan->size;
    if (plan->way == PTOI_WAY_ELEMENTS && plan->i.n && plan->i.loop[0].to == size && plan->j.n &&
        plan->j.loop[0].from == size) {
        int64_t few = thin[__builtin_ctz(plan->size)];
        plan->i.side = plan->stream ? ptoi_block_lines(plan->size) * PTOI_LINE / size
                                    : PTOI_BLOCK_ROWS;
        plan->j.side = PTOI_BLOCK_COLUMNS;
        ptoi_plan longer = *plan;
        lengthen(&longer);
        if (longer.i.count >= few && longer.j.count >= few) {
            *plan = longer;
            plan->way = PTOI_WAY_TILES;
            plan->chunks = 1;
            return;
        }
    }
    cut(plan);
}

/* Whether all rows are aligned alike relative to cache lines, and where the first line begins. */
static void align(ptoi_plan *plan, uintptr_t to_address)
{
    uintptr_t address = to_address + (uintptr_t)plan->nest.to_start;
    uintptr_t steps = 0;
    for (int32_t i = 0; i < plan->j.n; i++) {
        steps |= (uintptr_t)plan->j.loop[i].to;
    }
    for (int32_t i = 0; i < plan->nest.n; i++) {
        steps |= (uintptr_t)plan->nest.loop[i].to;
    }
    plan->line = (uint8_t)(address % PTOI_LINE);
    plan->aligned = steps % PTOI_LINE == 0 && address % plan->size == 0;
    if (plan->aligned) {
        int64_t head = (int64_t)((-address % PTOI_LINE) / plan->size);
        plan->head = (uint8_t)ptoi_smaller(head, plan->i.count);
    }
}

void ptoi_plan_make(ptoi_plan *plan, int32_t ndim, const int64_t *shape, const int64_t *to_strides,
                    const int64_t *from_strides, uint32_t size, uintptr_t to_address)
{
    ptoi_plan_make_with(plan, ndim, shape, to_strides, from_strides, size, to_address, NULL,
                        PTOI_STREAM_FROM);
}

void ptoi_plan_make_with(ptoi_plan *plan, int32_t ndim, const int64_t *shape,
                         const int64_t *to_strides, const int64_t *from_strides, uint32_t size,
                         uintptr_t to_address, const ptoi_isa *isa, int64_t stream_from)
{
    *plan = (ptoi_plan){.way = PTOI_WAY_NOTHING};
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] == 0) {
            return;
        }
    }
    plan->size = size;
    plan->isa = isa ? isa : ptoi_isa_at(0);
    plan->bytes = size;
    span(ndim, shape, to_strides, size, &plan->to_low, &plan->to_end);
    span(ndim, shape, from_strides, size, &plan->from_low, &plan->from_end);
    ptoi_nest_make(&plan->nest, ndim, shape, to_strides, from_strides, size);
    for (int32_t i = 0; i < plan->nest.n; i++) {
        /* The total need not fit if the destination does not move either. */
        if (__builtin_mul_overflow(plan->bytes, plan->nest.loop[i].count, &plan->bytes)) {
            plan->bytes = INT64_MAX;
        }
    }
    plan->i = plan->j = (ptoi_axis){.count = 1, .side = 1};
    bool free_order = ptoi_nest_normalise(&plan->nest, size);
    if (free_order) {
        plan->stream = plan->bytes >= stream_from;
        choose(plan);
        if (plan->way == PTOI_WAY_TILES) {
            align(plan, to_address);
        }
    } else {
        plan->way = PTOI_WAY_ORDERED;
        plan->chunks = 1;
        if (plan->nest.n > 0) {
            add_loop(&plan->i, ptoi_nest_take(&plan->nest, plan->nest.n - 1));
            plan->i.side = plan->i.count;
        }
    }
    plan->pieces = ptoi_axis_pieces(&plan->i, plan->head) * ptoi_axis_pieces(&plan->j, 0) *
                   plan->chunks;
    for (int32_t i = 0; i < plan->nest.n; i++) {
        plan->pieces *= plan->nest.loop[i].count;
    }
#ifdef PTO_DEBUG_CHECKS
    if (ptoi_plan_check(plan) != PTO_OK) {
        fprintf(stderr, "pto: %s\n", pto_error_detail());
        abort();
    }
#endif
}

/* ---- Checking and printing ----------------------------------------------------------------- */

static bool is_row(const ptoi_axis *axis, bool to, int64_t size)
{
    for (int32_t i = 0; i < axis->n; i++) {
        if ((to ? axis->loop[i].to : axis->loop[i].from) != size) {
            return false;
        }
        size *= axis->loop[i].count;
    }
    return true;
}

static const char *check_something(const ptoi_plan *plan)
{
    int64_t all = plan->way == PTOI_WAY_RUNS ? plan->run : plan->size;
    int64_t pieces = ptoi_axis_pieces(&plan->i, plan->head) * ptoi_axis_pieces(&plan->j, 0) *
                     plan->chunks;
    uint64_t steps = 0;
    all *= plan->i.count * plan->j.count;
    for (int32_t i = 0; i < plan->nest.n; i++) {
        all *= plan->nest.loop[i].count;
        pieces *= plan->nest.loop[i].count;
        steps |= (uint64_t)plan->nest.loop[i].to;
    }
    for (int32_t i = 0; i < plan->j.n; i++) {
        steps |= (uint64_t)plan->j.loop[i].to;
    }
    bool tiles = plan->way == PTOI_WAY_TILES, ordered = plan->way == PTOI_WAY_ORDERED;
    if ((!ordered && all != plan->bytes) || plan->size > 16 || (plan->size & (plan->size - 1))) {
        return "PL1: the loops do not cover all bytes";
    }
    if (plan->way == PTOI_WAY_RUNS && plan->run < plan->size) {
        return "PL2: a run shorter than an element";
    }
    if (tiles && (!is_row(&plan->i, true, plan->size) || !is_row(&plan->j, false, plan->size) ||
                  plan->i.side > PTOI_BLOCK_ROWS || plan->j.side > PTOI_BLOCK_COLUMNS)) {
        return "PL3: an axis that is no row, or a block that is too large";
    }
    if (ordered && (plan->j.count != 1 || plan->i.n > 1 || plan->i.side != plan->i.count)) {
        return "PL4: ordered, but in pieces";
    }
    if (plan->aligned && steps % PTOI_LINE) {
        return "PL5: rows that are not aligned alike";
    }
    if (plan->head * plan->size >= PTOI_LINE || plan->head > plan->i.count) {
        return "PL6: a head of more than a line, or than there is";
    }
    return pieces == plan->pieces ? NULL : "PL7: the number of pieces is wrong";
}

pto_status ptoi_plan_check(const ptoi_plan *plan)
{
    const char *broken = NULL;
    if (plan->way == PTOI_WAY_NOTHING) {
        broken = plan->nest.n || plan->bytes || plan->isa
                     ? "PL1: fields are set in a plan for nothing"
                     : NULL;
    } else {
        broken = check_something(plan);
    }
    return broken ? ptoi_fail(PTO_CORRUPT, "rearrange plan: %s", broken) : PTO_OK;
}

/* Whether stores go past the caches, except for partial lines. */
static bool is_past_caches(const ptoi_plan *plan)
{
    return plan->stream && plan->isa->streams &&
           (plan->way == PTOI_WAY_TILES ? plan->aligned : plan->run >= PTOI_LONG_RUN);
}

size_t ptoi_plan_format(const ptoi_plan *plan, char *text, size_t size)
{
    int length;
    const char *past = is_past_caches(plan) ? ", past the caches" : "";
    switch (plan->way) {
    case PTOI_WAY_NOTHING:
        length = snprintf(text, size, "nothing to move");
        break;
    case PTOI_WAY_RUNS:
        length = snprintf(text, size, "runs of bytes: %" PRId64 " x %" PRId64 "; %s%s",
                          plan->bytes / plan->run, plan->run, plan->isa->name, past);
        break;
    case PTOI_WAY_TILES:
        length = snprintf(text, size,
                          "tiles of %" PRIu32 "-byte elements: %" PRIu32 " x %" PRIu32
                          ", in planes of %" PRId64 " x %" PRId64 "; %s%s",
                          plan->size, PTOI_LINE / plan->size, PTOI_LINE / plan->size, plan->i.count,
                          plan->j.count, plan->isa->name, past);
        break;
    default:
        length = snprintf(text, size, "%" PRIu32 "-byte elements one by one: %" PRId64 "; %s",
                          plan->size, plan->bytes / plan->size,
                          plan->way == PTOI_WAY_ORDERED ? "in order" : "in squares");
        break;
    }
    return length < 0 ? 0 : (size_t)length;
}
