/* replay_rings.c - the smallest rings.
 *
 * Free of waits. A run without bounds says, for each submit, how much of its level is recycled by
 * then (marks). While no submit has to wait a run with bounds is the same run; so whether a ring is
 * large enough is found by giving out and taking back its pieces alone, in that order, without
 * running anything. The smallest that passes is found by bisection: one grain less, and the first
 * submit that it turns away would have waited.
 *
 * The least. Waiting helps only until everything submitted is complete; what is left then is held by
 * scopes. The same search, with marks as if every submit waited for all before it, finds what a
 * program needs to get to its end at all.
 */
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "ring/heap.h"
#include "ring/ring.h"

/* As src/base/option.c has them. */
static const struct {
    uint64_t grain, smallest, largest;
} bounds[] = {
    [PTRACE_RING_SLOTS] = {0, 2, UINT64_C(1) << 22},
    [PTRACE_RING_HEAP] = {64, 64, UINT64_C(1) << 46},
    [PTRACE_RING_ARG_BYTES] = {64, 64, UINT64_C(1) << 36},
    [PTRACE_RING_EDGE_REFS] = {0, 1, UINT64_C(1) << 26},
    [PTRACE_RING_MAP_ENTRIES] = {0, 1, UINT64_C(1) << 26},
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

typedef struct search {
    const replay_plan *plan;
    replay_marks marks;
    uint32_t *ops[PTO_MAX_LEVELS]; /* of the plan, that take something on the level, by number */
    uint64_t *ends;                /* of a piece, by number: where it lies, or the head after it */
    ptoi_run *runs;
    uint32_t n_runs;
} search;

/* ---- Does it fit? ---- */

static bool heap_fits(const search *s, uint32_t level, uint64_t size)
{
    ptoi_heap heap;
    uint32_t taken_back = 0;
    ptoi_heap_init(&heap, size, PTOI_HEAP_WARM, s->runs, s->n_runs);
    for (uint32_t i = 0; i < s->plan->n_level[level]; i++) {
        const uint32_t *nodes = s->plan->level[level];
        uint32_t block = PTRACE_NONE;
        for (const uint32_t until = s->marks.retired[s->ops[level][i]]; taken_back < until;
             taken_back++) {
            block = s->plan->nodes[nodes[taken_back]].heap ? taken_back : block;
        }
        if (block != PTRACE_NONE) {
            ptoi_heap_give_back(&heap, s->ends[block], s->plan->nodes[nodes[block]].heap);
        }
        const uint64_t bytes = s->plan->nodes[nodes[i]].heap;
        if (!ptoi_heap_fits(&heap, bytes, &s->ends[i])) {
            return false;
        }
        ptoi_heap_take(&heap, s->ends[i], bytes);
    }
    return true;
}

/* Arguments and edges. */
static bool ring_fits(const search *s, uint32_t level, uint32_t which, uint64_t size)
{
    const bool args = which == PTRACE_RING_ARG_BYTES;
    const uint32_t *marks = args ? s->marks.retired : s->marks.completed;
    ptoi_ring ring;
    ptoi_piece piece;
    uint32_t taken_back = 0;
    ptoi_ring_init(&ring, args ? size / 16 : size);
    for (uint32_t i = 0; i < s->plan->n_level[level]; i++) {
        const uint32_t op = s->ops[level][i];
        const replay_node *node = &s->plan->nodes[s->plan->level[level][i]];
        if (marks[op] > taken_back) {
            taken_back = marks[op];
            ptoi_ring_give_back(&ring, s->ends[taken_back - 1]);
        }
        const uint64_t amount = args ? node->args : s->marks.edges[op];
        piece = (ptoi_piece){0, 0};
        if (amount && !ptoi_ring_fits(&ring, amount, &piece)) {
            return false;
        }
        s->ends[i] = ptoi_ring_take(&ring, piece, amount);
    }
    return true;
}

/* Slots, and entries of the map: only how many there are. */
static bool count_fits(const search *s, uint32_t level, uint32_t which, uint64_t size)
{
    uint64_t used = 0;
    uint32_t done = 0;
    for (uint32_t i = 0; i < s->plan->n_level[level]; i++) {
        const uint32_t op = s->ops[level][i], *nodes = s->plan->level[level];
        if (which == PTRACE_RING_SLOTS) {
            used = i - s->marks.retired[op] + 1;
        } else {
            for (; done < s->marks.completed[op]; done++) {
                used -= s->plan->nodes[nodes[done]].entries;
            }
            used += s->plan->nodes[nodes[i]].entries;
        }
        if (used > size) {
            return false;
        }
    }
    return true;
}

static bool fits(const search *s, uint32_t level, uint32_t ring, uint64_t size)
{
    switch ((ptrace_ring)ring) {
    case PTRACE_RING_HEAP:
        return heap_fits(s, level, size);
    case PTRACE_RING_ARG_BYTES:
    case PTRACE_RING_EDGE_REFS:
        return ring_fits(s, level, ring, size);
    default:
        return count_fits(s, level, ring, size);
    }
}

/* ---- The smallest that does ---- */

/* 0 if none is. */
static uint64_t bisect(const search *s, uint32_t level, uint32_t ring)
{
    const uint64_t grain = bounds[ring].grain, largest = bounds[ring].largest;
    uint64_t high = bounds[ring].smallest, low = 0; /* of grains: `low` does not fit */
    while (!fits(s, level, ring, high)) {
        if (high >= largest) {
            return 0;
        }
        low = high;
        high *= 2;
    }
    while (grain && high - low > grain) {
        const uint64_t middle = low + (high - low) / grain / 2 * grain;
        if (fits(s, level, ring, middle)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

/* As if every submit waited for all before it. */
static void wait_always(const search *s)
{
    const replay_plan *p = s->plan;
    uint32_t head[PTO_MAX_LEVELS] = {0}, released[PTO_MAX_LEVELS] = {0};
    bool scoped = false;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const replay_op *op = &p->ops[i];
        const uint32_t l = op->level;
        switch ((replay_what)op->what) {
        case REPLAY_SUBMIT:
        case REPLAY_BLOCK:
            s->marks.completed[i] = head[l];
            s->marks.retired[i] = released[l];
            s->marks.edges[i] = 0;
            head[l]++;
            released[l] = scoped ? released[l] : head[l];
            break;
        case REPLAY_RELEASE:
            released[l] = op->node > released[l] && op->node <= head[l] ? op->node : released[l];
            break;
        case REPLAY_WAIT:
            break;
        default:
            scoped = op->what == REPLAY_SCOPED;
        }
    }
}

/* Those in the set `which`; others stay as they are. */
static void find_all(const search *s, replay_rings *rings, uint32_t which)
{
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        for (uint32_t r = 0; s->plan->n_level[l] && r < PTRACE_RING_KINDS; r++) {
            if (which >> r & 1) {
                rings->size[l][r] = bisect(s, l, r);
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
    s->marks.retired = calloc(n, sizeof *s->marks.retired);
    s->marks.completed = calloc(n, sizeof *s->marks.completed);
    s->marks.edges = calloc(n, sizeof *s->marks.edges);
    s->ends = calloc((size_t)most + 1, sizeof *s->ends);
    s->runs = malloc(s->n_runs * sizeof *s->runs);
    good = good && s->marks.retired && s->marks.completed && s->marks.edges && s->ends && s->runs;
    for (uint32_t i = 0; good && i < plan->n_ops; i++) {
        const replay_op *op = &plan->ops[i];
        if (op->what == REPLAY_SUBMIT || op->what == REPLAY_BLOCK) {
            s->ops[op->level][plan->nodes[op->node].number] = i;
        }
    }
    return good;
}

static void free_search(search *s)
{
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        free(s->ops[l]);
    }
    free(s->marks.retired);
    free(s->marks.completed);
    free(s->marks.edges);
    free(s->ends);
    free(s->runs);
}

/* A ring that was too small at `low` and does now: the least between. */
static void shrink(const replay_plan *plan, replay_machine *m, replay_sizes *sizes, uint64_t *size,
                   uint64_t low, uint64_t grain)
{
    for (uint64_t high = *size; high - low > grain;) {
        const uint64_t middle = low + (high - low) / 2 / grain * grain;
        replay_result result;
        *size = middle;
        m->rings = sizes->least;
        replay_run(plan, m, NULL, &result);
        if (result.end == REPLAY_STALLED) {
            low = middle;
            *size = high;
        } else {
            high = middle;
            sizes->with_least = result;
        }
    }
}

/* With all of them at their least, blocks may lie otherwise than each search for itself saw them: a
 * ring that is too small then grows by an eighth, as often as it must, and then shrinks again. */
static void run_least(const replay_plan *plan, const replay_machine *machine, replay_sizes *sizes)
{
    replay_machine m = *machine;
    uint64_t low[PTO_MAX_LEVELS][PTRACE_RING_KINDS] = {{0}};
    for (;;) {
        m.rings = sizes->least;
        replay_run(plan, &m, NULL, &sizes->with_least);
        const replay_result *r = &sizes->with_least;
        if (r->end != REPLAY_STALLED) {
            break;
        }
        uint64_t *size = &sizes->least.size[r->level][r->ring];
        const uint64_t grain = bounds[r->ring].grain;
        if (!*size || *size >= bounds[r->ring].largest) {
            *size = 0;
            return;
        }
        low[r->level][r->ring] = *size;
        *size += grain ? (*size / 8 / grain + 1) * grain : *size;
    }
    for (uint32_t i = 0; i < PTO_MAX_LEVELS * PTRACE_RING_KINDS; i++) {
        const uint32_t l = i / PTRACE_RING_KINDS, ring = i % PTRACE_RING_KINDS;
        if (low[l][ring] && bounds[ring].grain) { /* others are powers of two */
            shrink(plan, &m, sizes, &sizes->least.size[l][ring], low[l][ring], bounds[ring].grain);
        }
    }
}

static uint64_t smallest_of(const replay_sizes *sizes, uint32_t level, uint32_t ring)
{
    return ring == PTRACE_RING_EDGE_REFS || ring == PTRACE_RING_MAP_ENTRIES
               ? bounds[ring].smallest
               : sizes->least.size[level][ring];
}

/* The ring halved so many times, but not below its least. */
static uint64_t halved(const replay_sizes *sizes, uint32_t level, uint32_t ring, uint32_t times)
{
    const uint64_t least = smallest_of(sizes, level, ring), grain = bounds[ring].grain;
    uint64_t size = sizes->free.size[level][ring] >> times;
    size = grain ? (size + grain - 1) / grain * grain : size;
    return size > least ? size : least;
}

/* One ring after the other, the others as they are by then: smaller ones, as long as the run is not
 * longer for it. */
static void find_good(const replay_plan *plan, const replay_machine *machine, replay_sizes *sizes)
{
    const uint64_t most = sizes->with_free.makespan + sizes->with_free.makespan / 100;
    replay_machine m = *machine;
    m.rings = sizes->free;
    sizes->with_good = sizes->with_free;
    for (uint32_t i = 0; i < PTO_MAX_LEVELS * PTRACE_RING_KINDS; i++) {
        const uint32_t l = i / PTRACE_RING_KINDS, r = i % PTRACE_RING_KINDS;
        uint32_t low = 0, high = 0; /* of times: `low` are well */
        while (sizes->free.size[l][r] >> high > smallest_of(sizes, l, r)) {
            high++;
        }
        while (low < high) {
            replay_result result;
            const uint32_t times = high - (high - low) / 2;
            m.rings.size[l][r] = halved(sizes, l, r, times);
            replay_run(plan, &m, NULL, &result);
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
}

bool replay_rings_find(const replay_plan *plan, const replay_machine *machine, replay_sizes *sizes)
{
    search s;
    replay_machine m = *machine;
    memset(sizes, 0, sizeof *sizes);
    memset(&m.rings, 0, sizeof m.rings);
    bool good = make_search(&s, plan);
    if (good) {
        replay_run(plan, &m, &s.marks, &sizes->with_free);
        good = sizes->with_free.end != REPLAY_NO_MEMORY;
    }
    if (good && sizes->with_free.end == REPLAY_DONE) {
        const uint32_t all = (1u << PTRACE_RING_KINDS) - 1;
        find_all(&s, &sizes->free, all);
        wait_always(&s);
        sizes->least = machine->rings;
        find_all(&s, &sizes->least,
                 all & ~(1u << PTRACE_RING_EDGE_REFS | 1u << PTRACE_RING_MAP_ENTRIES));
        m.rings = sizes->free;
        replay_run(plan, &m, NULL, &sizes->with_free);
        run_least(plan, machine, sizes);
        find_good(plan, machine, sizes);
    }
    free_search(&s);
    return good;
}
