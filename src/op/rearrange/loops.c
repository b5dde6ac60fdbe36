/* loops.c - the normal form of the loops of a strided copy. See loops.h. */
#include "op/rearrange/loops.h"

void ptoi_nest_make(ptoi_nest *nest, int32_t ndim, const int64_t *shape, const int64_t *to_strides,
                    const int64_t *from_strides, uint32_t size)
{
    *nest = (ptoi_nest){0};
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] > 1) { /* the steps fit, by E2 */
            nest->loop[nest->n++] = (ptoi_loop){shape[d], to_strides[d] * size,
                                                from_strides[d] * size};
        }
    }
}

void ptoi_nest_flip(ptoi_nest *nest, ptoi_loop *loop)
{
    nest->to_start += (loop->count - 1) * loop->to;
    nest->from_start += (loop->count - 1) * loop->from;
    loop->to = -loop->to;
    loop->from = -loop->from;
}

/* Whether `outer` continues where `inner` ends, so that one loop can replace both. */
static bool chains(int64_t outer, int64_t inner, int64_t count)
{
    int64_t end;
    return !__builtin_mul_overflow(inner, count, &end) && outer == end;
}

static bool sort_loops(ptoi_nest *nest, uint32_t size)
{
    ptoi_loop sorted[PTO_MAX_DIMS] = {{0, 0, 0}};
    for (int32_t i = 0; i < nest->n; i++) {
        int32_t at = i;
        for (; at > 0 && ptoi_reach(sorted[at - 1].to) < ptoi_reach(nest->loop[i].to); at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = nest->loop[i];
    }
    uint64_t covered = size; /* fits, by E2 */
    for (int32_t i = nest->n - 1; i >= 0; i--) {
        if (ptoi_reach(sorted[i].to) < covered) {
            return false;
        }
        covered += (uint64_t)(sorted[i].count - 1) * ptoi_reach(sorted[i].to);
    }
    for (int32_t i = 0; i < nest->n; i++) {
        nest->loop[i] = sorted[i];
        if (sorted[i].to < 0) {
            ptoi_nest_flip(nest, &nest->loop[i]);
        }
    }
    return true;
}

bool ptoi_nest_normalise(ptoi_nest *nest, uint32_t size)
{
    bool nested = sort_loops(nest, size);
    int32_t n = 0;
    for (int32_t i = 0; i < nest->n; i++) {
        ptoi_loop loop = nest->loop[i];
        if (n > 0 && chains(nest->loop[n - 1].to, loop.to, loop.count) &&
            chains(nest->loop[n - 1].from, loop.from, loop.count)) {
            loop.count *= nest->loop[n - 1].count; /* fits, by E1 */
            n--;
        }
        nest->loop[n++] = loop;
    }
    nest->n = n;
    return nested;
}

ptoi_loop ptoi_nest_take(ptoi_nest *nest, int32_t at)
{
    ptoi_loop loop = nest->loop[at];
    nest->n--;
    for (int32_t i = at; i < nest->n; i++) {
        nest->loop[i] = nest->loop[i + 1];
    }
    return loop;
}

int32_t ptoi_nest_least_from(const ptoi_nest *nest)
{
    int32_t least = -1;
    for (int32_t i = 0; i < nest->n; i++) {
        const ptoi_loop *loop = &nest->loop[i];
        if (loop->from &&
            (least < 0 || ptoi_reach(loop->from) < ptoi_reach(nest->loop[least].from) ||
             (loop->from == nest->loop[least].from && loop->count > nest->loop[least].count))) {
            least = i;
        }
    }
    return least;
}
