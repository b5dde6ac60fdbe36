/* replay_rings.c - finds the smallest rings.
 *
 * No waits. An unbounded run gives, for each submit, how much of its level can be recycled by then
 * (marks). As long as no submit has to wait, a bounded run is the same run. So a ring is tested by
 * allocating and freeing its pieces in that order, without running anything. The smallest size is
 * found by bisection.
 *
 * The minimum. Waiting helps only until everything submitted is complete. What is left then is
 * memory that lifetimes hold. The same search, with marks as if every submit waited for all earlier
 * tasks, finds the sizes with which a program can finish at all.
 *
 * Where a piece lies, and so whether the next one fits, depends on how much was freed before, and
 * so on when tasks completed. That differs in every run. So a size must be enough with every
 * recycling policy that is tried (replay_way). For the minimum, where a size that is too small ends
 * the program, more is done:
 *
 *     slots   position does not matter
 *     args    nor here: an empty ring starts over
 *     heap    more policies are tried: recycle as little as possible, as late as possible; and
 *             random amounts at random times (reproducible). From some size on every policy is
 *             enough (proven_heap); what is smaller stays a guess, and is called one where it is
 *             printed
 */
#include <stdlib.h>
#include <string.h>

#include "orchestrator/ring/heap.h"
#include "orchestrator/ring/ring.h"
#include "replay.h"

/* The same as in src/base/option.c. */
static const struct {
    uint64_t grain, smallest, largest;
} bounds[] = {
    [PTO_RING_TASKS] = {0, 2, UINT64_C(1) << 22},  [PTO_RING_HEAP] = {64, 64, UINT64_C(1) << 46},
    [PTO_RING_ARGS] = {64, 64, UINT64_C(1) << 36}, [PTO_RING_DEPS] = {0, 1, UINT64_C(1) << 26},
    [PTO_RING_MAP] = {0, 1, UINT64_C(1) << 26},
};

uint64_t replay_grain(uint32_t ring)
{
    return bounds[ring].grain;
}

uint64_t replay_smallest(uint32_t ring)
{
    return bounds[ring].smallest;
}

uint64_t replay_largest(uint32_t ring)
{
    return bounds[ring].largest;
}

/* More recycling policies, only for the minimum. */
enum { STINGILY = REPLAY_WAYS, BY_CHANCE, CHANCES = 12, ALL_WAYS = BY_CHANCE + CHANCES };

typedef struct search {
    const replay_plan *plan;
    replay_marks marks;
    uint32_t ways;                 /* number of policies to try */
    uint32_t *ops[PTO_MAX_LEVELS]; /* ops of the plan that allocate on the level, by index */
    uint64_t *ends;                /* by index: position of a piece, or the ring head after it */
    ptoi_heap_run *runs;
    uint32_t n_runs;
    uint64_t proven[PTO_MAX_LEVELS]; /* heaps that are enough with the marks, whatever the policy */
} search;

/* ---- Does it fit? ---- */

/* How much of the recyclable room was recycled. */
typedef struct taking {
    const uint32_t *could; /* by op */
    uint32_t way, done;
    uint64_t chance; /* random state, and how often to recycle: 1 in 2 to 1 in 64 */
    uint32_t seldom;
} taking;

static taking take_back(const uint32_t *could, uint32_t way)
{
    return (taking){could, way, 0, way * UINT64_C(0x9E3779B97F4A7C15) + 1, 1 + way % 6};
}

static uint32_t draw(taking *t, uint32_t below)
{
    t->chance = t->chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((t->chance >> 32) * below >> 32);
}

/* The index up to which to recycle before the i-th piece of the level is placed. If it does not
 * fit: more than so far, if possible. */
static uint32_t taken_until(const search *s, taking *t, uint32_t level, uint32_t i, bool is_short)
{
    const uint32_t most = t->could[s->ops[level][i]];
    if (most <= t->done) {
        return t->done;
    }
    switch (t->way) {
    case REPLAY_EAGERLY:
        return most;
    case REPLAY_AS_NEEDED: {
        /* Every 32 tasks on all levels; the last time may be between this piece and the previous
         * one. */
        const uint32_t *nodes = s->plan->level[level];
        const uint32_t last = i ? s->plan->nodes[nodes[i - 1]].order : 0;
        return is_short || (last && last % REPLAY_RECYCLE_EVERY == 0) ? most : t->done;
    }
    case STINGILY:
        return t->done + is_short;
    default:
        if (is_short || draw(t, 1u << t->seldom) == 0) {
            return t->done + 1 + draw(t, draw(t, 2) ? most - t->done : 1);
        }
        return t->done;
    }
}

static void give_back_heap(const search *s, ptoi_heap *heap, taking *t, uint32_t level,
                           uint32_t until)
{
    const uint32_t *nodes = s->plan->level[level];
    uint32_t block = PTRACE_NONE;
    for (; t->done < until; t->done++) {
        block = s->plan->nodes[nodes[t->done]].heap ? t->done : block;
    }
    if (block != PTRACE_NONE) {
        ptoi_heap_give_back(heap, s->ends[block], s->plan->nodes[nodes[block]].heap);
    }
}

static bool heap_fits(const search *s, uint32_t level, uint64_t size, uint32_t way)
{
    ptoi_heap heap;
    taking t = take_back(s->marks.freed, way);
    ptoi_heap_init(&heap, size, PTOI_HEAP_WARM, s->runs, s->n_runs);
    for (uint32_t i = 0; i < s->plan->n_level[level]; i++) {
        const uint64_t bytes = s->plan->nodes[s->plan->level[level][i]].heap;
        give_back_heap(s, &heap, &t, level, taken_until(s, &t, level, i, false));
        while (!ptoi_heap_fits(&heap, bytes, &s->ends[i])) {
            const uint32_t until = taken_until(s, &t, level, i, true);
            if (until == t.done) {
                return false;
            }
            give_back_heap(s, &heap, &t, level, until);
        }
        ptoi_heap_take(&heap, s->ends[i], bytes);
    }
    return true;
}

/* A heap for which no policy matters. A block is refused only if all that can be recycled is, and no
 * gap is large enough. h held blocks leave at most h + 1 gaps, so if the free bytes are h + 1 times
 * the block, one of the gaps takes it, wherever the held blocks lie. 0 if it would be too large. */
static uint64_t proven_heap(const search *s, uint32_t level)
{
    const uint32_t *nodes = s->plan->level[level];
    uint64_t held = 0, blocks = 0, proven = bounds[PTO_RING_HEAP].smallest;
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < s->plan->n_level[level]; i++) {
        const uint64_t bytes = s->plan->nodes[nodes[i]].heap;
        for (const uint32_t until = s->marks.freed[s->ops[level][i]]; oldest < until; oldest++) {
            held -= s->plan->nodes[nodes[oldest]].heap;
            blocks -= s->plan->nodes[nodes[oldest]].heap != 0;
        }
        if (bytes > (bounds[PTO_RING_HEAP].largest - held) / (blocks + 1)) {
            return 0;
        }
        const uint64_t enough = bytes ? held + (blocks + 1) * bytes : 0;
        proven = enough > proven ? enough : proven;
        held += bytes;
        blocks += bytes != 0;
    }
    return proven;
}

/* Arguments and edges. */
static bool ring_fits(const search *s, uint32_t level, uint32_t which, uint64_t size, uint32_t way)
{
    const bool args = which == PTO_RING_ARGS;
    taking t = take_back(s->marks.completed, way);
    ptoi_ring ring;
    ptoi_ring_init(&ring, args ? size / 16 : size);
    for (uint32_t i = 0; i < s->plan->n_level[level]; i++) {
        const uint32_t op = s->ops[level][i];
        const replay_node *node = &s->plan->nodes[s->plan->level[level][i]];
        const uint64_t amount = args ? node->args : s->marks.edges[op];
        ptoi_piece piece = {0, 0};
        bool is_short = false;
        do {
            const uint32_t until = taken_until(s, &t, level, i, is_short);
            if (until > t.done) {
                t.done = until;
                ptoi_ring_give_back(&ring, s->ends[until - 1]);
            } else if (is_short) {
                return false;
            }
            is_short = amount && !ptoi_ring_fits(&ring, amount, &piece);
        } while (is_short);
        s->ends[i] = ptoi_ring_take(&ring, piece, amount);
    }
    return true;
}

/* Slots and map entries: only their number matters. */
static uint64_t count_of(const replay_node *node, uint32_t which)
{
    return which == PTO_RING_TASKS ? node->order != 0 : node->entries;
}

static bool count_fits(const search *s, uint32_t level, uint32_t which, uint64_t size)
{
    uint64_t used = 0;
    uint32_t done = 0;
    for (uint32_t i = 0; i < s->plan->n_level[level]; i++) {
        const uint32_t *nodes = s->plan->level[level];
        for (; done < s->marks.completed[s->ops[level][i]]; done++) {
            used -= count_of(&s->plan->nodes[nodes[done]], which);
        }
        used += count_of(&s->plan->nodes[nodes[i]], which);
        if (used > size) {
            return false;
        }
    }
    return true;
}

/* How many policies have to be tried for a ring. */
static uint32_t ways_of(const search *s, uint32_t ring)
{
    const bool alone = ring == PTO_RING_ARGS && s->ways == ALL_WAYS;
    return ring == PTO_RING_TASKS || ring == PTO_RING_MAP || alone ? 1 : s->ways;
}

static bool fits_with(const search *s, uint32_t level, uint32_t ring, uint64_t size, uint32_t way)
{
    if (ring == PTO_RING_TASKS || ring == PTO_RING_MAP) {
        return count_fits(s, level, ring, size);
    }
    if (ring == PTO_RING_HEAP) {
        return (s->proven[level] && size >= s->proven[level]) || heap_fits(s, level, size, way);
    }
    return ring_fits(s, level, ring, size, way);
}

static bool fits(const search *s, uint32_t level, uint32_t ring, uint64_t size)
{
    bool all = true;
    for (uint32_t way = 0; all && way < ways_of(s, ring); way++) {
        all = fits_with(s, level, ring, size, way);
    }
    return all;
}

/* ---- The smallest size ---- */

/* The smallest size above `low` that is enough with one policy. `low` is not. 0: no size is. */
static uint64_t bisect(const search *s, uint32_t level, uint32_t ring, uint32_t way, uint64_t low)
{
    const uint64_t grain = bounds[ring].grain, largest = bounds[ring].largest;
    uint64_t high = low * 2;
    while (high < largest && !fits_with(s, level, ring, high, way)) {
        low = high;
        high *= 2;
    }
    if (high >= largest && !fits_with(s, level, ring, largest, way)) {
        return 0;
    }
    high = high < largest ? high : largest;
    while (grain && high - low > grain) {
        const uint64_t middle = low + (high - low) / grain / 2 * grain;
        if (fits_with(s, level, ring, middle, way)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

/* The smallest size that is enough with every policy; 0 if there is none. A policy that does not do
 * with the size raises it, until all do. Most raise nothing, and are tried once. */
static uint64_t smallest_that_fits(const search *s, uint32_t level, uint32_t ring)
{
    uint64_t size = bounds[ring].smallest;
    const uint32_t ways = ways_of(s, ring);
    for (uint32_t way = 0, good = 0; size && good < ways; way = (way + 1) % ways) {
        if (fits_with(s, level, ring, size, way)) {
            good++;
        } else {
            size = bisect(s, level, ring, way, size);
            good = 1;
        }
    }
    return size;
}

/* Sets the marks as if every submit waited for all earlier tasks. */
static void wait_always(const search *s)
{
    const replay_plan *p = s->plan;
    uint32_t head[PTO_MAX_LEVELS] = {0}, freed[PTO_MAX_LEVELS] = {0};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const uint32_t l = p->ops[i].level;
        if (p->ops[i].what == REPLAY_WAIT) {
            continue;
        }
        while (freed[l] < head[l] && p->nodes[p->level[l][freed[l]]].held_until <= i) {
            freed[l]++;
        }
        s->marks.freed[i] = freed[l];
        s->marks.completed[i] = head[l]++;
        s->marks.edges[i] = 0;
    }
}

/* Finds the sizes of the rings in the set `which`. The others stay unchanged. */
static void find_all(const search *s, replay_rings *rings, uint32_t which)
{
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        for (uint32_t r = 0; s->plan->n_level[l] && r < PTO_RINGS; r++) {
            if (which >> r & 1) {
                rings->size[l][r] = smallest_that_fits(s, l, r);
            }
        }
    }
}

static bool make_search(search *s, const replay_plan *plan)
{
    uint32_t most = 0;
    const size_t n = (size_t)plan->n_ops + 1;
    *s = (search){.plan = plan, .n_runs = 4};
    bool good = true;
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        most = plan->n_level[l] > most ? plan->n_level[l] : most;
        s->ops[l] = calloc((size_t)plan->n_level[l] + 1, sizeof *s->ops[l]);
        good = good && s->ops[l];
    }
    while (s->n_runs < (uint64_t)most + 2 && s->n_runs < UINT32_C(1) << 31) {
        s->n_runs *= 2;
    }
    s->marks.freed = calloc(n, sizeof *s->marks.freed);
    s->marks.completed = calloc(n, sizeof *s->marks.completed);
    s->marks.edges = calloc(n, sizeof *s->marks.edges);
    s->ends = calloc((size_t)most + 1, sizeof *s->ends);
    s->runs = malloc(s->n_runs * sizeof *s->runs);
    good = good && s->marks.freed && s->marks.completed && s->marks.edges && s->ends && s->runs;
    uint32_t head[PTO_MAX_LEVELS] = {0};
    for (uint32_t i = 0; good && i < plan->n_ops; i++) {
        const uint32_t l = plan->ops[i].level;
        if (plan->ops[i].what != REPLAY_WAIT) {
            s->ops[l][head[l]++] = i;
        }
    }
    return good;
}

static void free_search(search *s)
{
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        free(s->ops[l]);
    }
    free(s->marks.freed);
    free(s->marks.completed);
    free(s->marks.edges);
    free(s->ends);
    free(s->runs);
}

/* ---- All sizes together ---- */

static uint64_t larger(uint32_t ring, uint64_t size)
{
    const uint64_t grain = bounds[ring].grain;
    const uint64_t grown = grain ? size + (size / 8 / grain + 1) * grain : 2 * size;
    return grown < bounds[ring].largest ? grown : bounds[ring].largest;
}

/* Whether the sizes are enough with each policy. If not, returns which ring is too small. The
 * result is that of the policy of the runtime. */
static bool is_enough(const replay_plan *plan, replay_machine *m, bool may_wait,
                      replay_result *result, uint32_t *level, uint32_t *ring)
{
    for (uint32_t way = REPLAY_WAYS; way-- > 0;) {
        m->way = (replay_way)way;
        replay_run(plan, m, NULL, result);
        if (result->end == REPLAY_STALLED) {
            *level = result->level;
            *ring = result->ring;
            return false;
        }
        for (uint32_t i = 0; !may_wait && i < PTO_MAX_LEVELS * PTO_RINGS; i++) {
            *level = i / PTO_RINGS;
            *ring = i % PTO_RINGS;
            if (result->waits[*level][*ring]) {
                return false;
            }
        }
    }
    return true;
}

/* With all sizes together, pieces may lie differently than in each separate search. A ring that is
 * then too small grows by an eighth until it is enough, and shrinks again as far as possible. */
static void settle(const replay_plan *plan, const replay_machine *machine, bool may_wait,
                   replay_rings *rings, replay_result *result)
{
    replay_machine m = *machine;
    uint64_t low[PTO_MAX_LEVELS][PTO_RINGS] = {{0}};
    uint32_t l, r;
    m.rings = *rings;
    while (!is_enough(plan, &m, may_wait, result, &l, &r)) {
        uint64_t *size = &m.rings.size[l][r];
        if (!*size || *size >= bounds[r].largest) {
            rings->size[l][r] = 0;
            return;
        }
        low[l][r] = *size;
        *size = larger(r, *size);
    }
    for (uint32_t i = 0; i < PTO_MAX_LEVELS * PTO_RINGS; i++) {
        const uint32_t level = i / PTO_RINGS, ring = i % PTO_RINGS;
        const uint64_t grain = bounds[ring].grain;
        uint64_t *size = &m.rings.size[level][ring], high = *size, bad = low[level][ring];
        while (bad && grain && high - bad > grain) { /* others are powers of two */
            replay_result smaller;
            *size = bad + (high - bad) / 2 / grain * grain;
            if (is_enough(plan, &m, may_wait, &smaller, &l, &r)) {
                high = *size;
                *result = smaller;
            } else {
                bad = *size;
            }
        }
        *size = high;
    }
    *rings = m.rings;
}

/* Enlarges rings until the program cannot deadlock. A larger heap does not guarantee that the same
 * blocks fit, because they lie elsewhere. The marks are those of the minimum. */
static bool make_hold(const search *s, replay_rings *rings)
{
    bool grown = false;
    for (uint32_t i = 0; i < PTO_MAX_LEVELS * PTO_RING_DEPS; i++) {
        const uint32_t l = i / PTO_RING_DEPS, r = i % PTO_RING_DEPS;
        uint64_t *size = &rings->size[l][r];
        while (*size && s->plan->n_level[l] && *size < bounds[r].largest && !fits(s, l, r, *size)) {
            *size = larger(r, *size);
            grown = true;
        }
    }
    return grown;
}

static void finish(const search *s, const replay_machine *machine, bool may_wait,
                   replay_rings *rings, replay_result *result)
{
    settle(s->plan, machine, may_wait, rings, result);
    if (result->end == REPLAY_DONE && make_hold(s, rings)) {
        replay_machine m = *machine;
        m.rings = *rings;
        replay_run(s->plan, &m, NULL, result);
    }
}

static uint64_t smallest_of(const replay_sizes *sizes, uint32_t level, uint32_t ring)
{
    return ring == PTO_RING_DEPS || ring == PTO_RING_MAP ? bounds[ring].smallest
                                                         : sizes->least.size[level][ring];
}

/* The ring halved `times` times, but not below its minimum. */
static uint64_t halved(const replay_sizes *sizes, uint32_t level, uint32_t ring, uint32_t times)
{
    const uint64_t least = smallest_of(sizes, level, ring), grain = bounds[ring].grain;
    uint64_t size = sizes->free.size[level][ring] >> times;
    size = grain ? (size + grain - 1) / grain * grain : size;
    return size > least ? size : least;
}

/* Shrinks one ring after the other, as long as the run does not get longer. */
static void find_good(const search *s, const replay_machine *machine, replay_sizes *sizes)
{
    const uint64_t most = sizes->with_free.makespan + sizes->with_free.makespan / 100;
    replay_machine m = *machine;
    m.rings = sizes->free;
    sizes->with_good = sizes->with_free;
    for (uint32_t i = 0; i < PTO_MAX_LEVELS * PTO_RINGS; i++) {
        const uint32_t l = i / PTO_RINGS, r = i % PTO_RINGS;
        uint32_t low = 0, high = 0; /* number of halvings: `low` is good */
        while (sizes->free.size[l][r] >> high > smallest_of(sizes, l, r)) {
            high++;
        }
        while (low < high) {
            replay_result result;
            const uint32_t times = high - (high - low) / 2;
            m.rings.size[l][r] = halved(sizes, l, r, times);
            replay_run(s->plan, &m, NULL, &result);
            if (result.end == REPLAY_DONE && result.makespan <= most) {
                low = times;
                sizes->with_good = result;
            } else {
                high = times - 1;
            }
        }
        m.rings.size[l][r] = halved(sizes, l, r, low);
    }
    sizes->good = m.rings;
    if (make_hold(s, &sizes->good)) {
        m.rings = sizes->good;
        replay_run(s->plan, &m, NULL, &sizes->with_good);
    }
}

bool replay_rings_find(const replay_plan *plan, const replay_machine *machine, replay_sizes *sizes)
{
    search s;
    replay_machine m = *machine;
    memset(sizes, 0, sizeof *sizes);
    memset(&m.rings, 0, sizeof m.rings);
    m.way = REPLAY_EAGERLY;
    bool good = make_search(&s, plan);
    if (good) {
        replay_run(plan, &m, &s.marks, &sizes->with_free);
        good = sizes->with_free.end != REPLAY_NO_MEMORY;
    }
    if (good && sizes->with_free.end == REPLAY_DONE) {
        const uint32_t all = (1u << PTO_RINGS) - 1;
        s.ways = REPLAY_WAYS;
        find_all(&s, &sizes->free, all);
        wait_always(&s);
        s.ways = ALL_WAYS;
        for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
            sizes->proven_heap[l] = s.proven[l] = plan->n_level[l] ? proven_heap(&s, l) : 0;
        }
        sizes->least = machine->rings;
        find_all(&s, &sizes->least, all & ~(1u << PTO_RING_DEPS | 1u << PTO_RING_MAP));
        m.way = REPLAY_AS_NEEDED;
        finish(&s, &m, false, &sizes->free, &sizes->with_free);
        finish(&s, &m, true, &sizes->least, &sizes->with_least);
        find_good(&s, &m, sizes);
    }
    free_search(&s);
    return good;
}
