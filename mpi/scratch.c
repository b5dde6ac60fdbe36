/* scratch.c - memory for dense copies of views that cross tiles, or are written elsewhere. A ring like a
 * share, but only its own rank has to know it. */
#include "plan.h"

/* How the block of a task is written: sizes and cuts of its parts. */
static uint64_t what_of(const plan *p)
{
    uint64_t h = 1;
    for (uint32_t i = 0; i < p->n; i++) {
        if (way_of(p, i) != WAY_COPIED) {
            continue;
        }
        const bool device = p->views[i].o->twins;
        h = hash_mix(h, p->scratch_at[i]);
        h = hash_mix(h, p->views[i].bytes);
        if (reads(&p->params[i]) && writes(&p->params[i]) && p->views[i].n > 1) {
            /* A task that fails leaves all of it poisoned, and no piece that is received later covers
             * that: never the same. */
            h = hash_mix(h, p->w->history.step);
        }
        /* On a device also what is only written: pieces pass the host's memory on their way home. */
        for (uint32_t k = 0; (device || reads(&p->params[i])) && k < p->views[i].n; k++) {
            const piece *q = &p->views[i].pieces[k];
            for (int32_t d = 0; d < q->ndim; d++) {
                h = hash_mix(h, (uint64_t)q->from[d] << 32 ^ (uint64_t)q->shape[d]);
            }
        }
    }
    return h;
}

static scratch_block *block_at(const scratch *s, uint64_t number)
{
    return &s->blocks[number & (s->capacity - 1)];
}

static void leave(share_left *left, const scratch_block *b)
{
    left->low = left->low == left->high || b->at < left->low ? b->at : left->low;
    left->high = b->at + b->bytes > left->high ? b->at + b->bytes : left->high;
}

static pto_status take(plan *p, uint64_t bytes, uint64_t what, char **memory)
{
    scratch *s = &p->w->scratch;
    share_left here = {0}, behind = {0};
    if (!s->memory && !(s->memory = world_reserve(s->bytes))) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: %" PRIu64 " bytes of scratch memory", s->bytes);
    }
    if (s->head + bytes > s->bytes) {
        while (s->first != s->end && block_at(s, s->first)->at >= s->head) {
            leave(&behind, block_at(s, s->first++));
        }
        s->head = 0;
    }
    while (s->first != s->end) {
        const scratch_block *b = block_at(s, s->first);
        if (b->at >= s->head + bytes || b->at + b->bytes <= s->head) {
            break;
        }
        if (b->at != s->head || b->bytes != bytes || b->what != what) {
            leave(&here, b);
        }
        s->first++;
    }
    if (s->end - s->first == s->capacity) {
        scratch_block *more = malloc((size_t)s->capacity * 2 * sizeof *more);
        if (!more) {
            return pto_fail(PTO_OUT_OF_MEMORY, "mpi: list of scratch memory");
        }
        for (uint64_t i = s->first; i != s->end; i++) {
            more[i & (s->capacity * 2 - 1)] = *block_at(s, i);
        }
        free(s->blocks);
        s->blocks = more;
        s->capacity *= 2;
    }
    *block_at(s, s->end++) = (scratch_block){s->head, bytes, what};
    *memory = s->memory + s->head;
    s->head += bytes;
    s->peak = s->head > s->peak ? s->head : s->peak;
    PTO_TRY(stage_heal_scratch(p, &behind));
    return stage_heal_scratch(p, &here);
}

pto_status scratch_take(plan *p, char **memory)
{
    return take(p, p->scratch_bytes, what_of(p), memory);
}

pto_status scratch_take_bytes(plan *p, uint64_t bytes, char **memory)
{
    return take(p, padded(bytes), hash_mix(2, bytes), memory);
}
