/* search.c - which schedules are tried.
 *
 * By default the current thread continues while it can, then the next one in turn, and loads read
 * the newest value. A schedule is written as a short list of its differences from this,
 *
 *     12>2,40>0,41~1        before step 12 switch to thread 2, before step 40 to thread 0; the load
 *                           at step 41 reads the value before the newest
 *
 * and can be replayed from this list or, if it is random, from its seed.
 *
 * Exhaustive: depth first over all choices within a bound on preemptions and surprises. Two
 * reductions, both sound:
 *   - No thread is preempted before an operation on an object that only one thread uses, or that no
 *     thread writes: it commutes with all operations of other threads. The search learns which
 *     objects these are; if one turns out to be shared after all, the search starts again. (None is
 *     missed: up to the first use of an unknown shared object, a schedule is equivalent to one that
 *     was tried, and there the operation that shares it comes next in its thread.
 *     Schedules end when no thread can continue.)
 *   - The partial order of the operations so far (which load read from which store, in which order
 *     each object was written) determines the state. If the same order was reached before, in the
 *     same thread and with as much of the bound left, all continuations have been tried.
 *
 * Random: the seed gives each thread a priority, and the highest one that can run continues. At
 * some random steps the current thread gets the lowest priority. Or every step is random. Loads
 * read older values, and sleepers wake spuriously, with a random probability.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support.h"
#include "world.h"

enum {
    MAX_FRAMES = 8192,
    MAX_CHANGES = 512,
    MAX_DEMOTIONS = 8,
    FEW_SURPRISES = 12,
    MAX_LINES = 600
};

typedef enum mode { MODE_DEFAULT, MODE_EXHAUSTIVE, MODE_RANDOM, MODE_REPLAY } mode;

typedef struct change {
    uint32_t step;
    char kind; /* '>' or '~' */
    uint32_t to;
} change;

bool search_reduces = true;

/* A set of numbers that are not 0. */
typedef struct set {
    uint64_t *table;
    uint64_t mask, count;
} set;

static struct {
    const scenario *scenario;
    mode mode;
    uint32_t usual_steps; /* of the schedule without a change */

    /* exhaustive */
    struct {
        uint16_t n, at;
    } frames[MAX_FRAMES];
    uint32_t n_frames, depth;
    search_bound left;
    set visited;

    /* random */
    test_rng rng;
    bool walks;
    uint32_t switch_odds, surprise_odds; /* one in so many; 0: never */
    uint32_t surprises;
    uint32_t priority[WORLD_THREADS];
    uint32_t lowest;
    uint32_t demotions[MAX_DEMOTIONS], n_demotions;

    change changes[MAX_CHANGES]; /* of this schedule */
    uint32_t n_changes;
    change wanted[MAX_CHANGES]; /* to replay */
    uint32_t n_wanted;

    set traces, orders;
} s;

/* ---- Sets ---- */

static bool set_insert(uint64_t *table, uint64_t mask, uint64_t value)
{
    uint64_t at = value & mask;
    for (; table[at]; at = (at + 1) & mask) {
        if (table[at] == value) {
            return false;
        }
    }
    table[at] = value;
    return true;
}

static void set_free(set *it)
{
    if (it->table) {
        munmap(it->table, (it->mask + 1) * sizeof *it->table);
    }
    *it = (set){0};
}

/* Returns whether it is new. */
static bool set_add(set *it, uint64_t value)
{
    value = value ? value : 1;
    if (it->count * 2 >= it->mask) {
        const uint64_t room = it->table ? (it->mask + 1) * 2 : UINT64_C(1) << 12;
        /* Not from malloc, which belongs to the scenario during a schedule. */
        uint64_t *table = mmap(NULL, room * sizeof *table, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if ((void *)table == MAP_FAILED) {
            fprintf(stderr, "explore: no memory for %" PRIu64 " schedules\n", room);
            exit(2);
        }
        for (uint64_t i = 0; it->table && i <= it->mask; i++) {
            if (it->table[i]) {
                (void)set_insert(table, room - 1, it->table[i]);
            }
        }
        const uint64_t members = it->count;
        set_free(it);
        *it = (set){table, room - 1, members};
    }
    const bool is_new = set_insert(it->table, it->mask, value);
    it->count += is_new;
    return is_new;
}

/* ---- Choices ---- */

static void note_change(char kind, uint32_t to)
{
    if (s.n_changes < MAX_CHANGES) {
        s.changes[s.n_changes++] = (change){here.steps, kind, to};
    }
}

/* The position of this choice in the depth-first order. */
static uint32_t next_frame(uint32_t n, uint32_t kind)
{
    if (n == 1) {
        return 0;
    }
    if (s.depth < s.n_frames) {
        return s.frames[s.depth++].at;
    }
    uint64_t key = here.order + (uint64_t)here.current * UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t t = 0; t < here.n_threads; t++) {
        const fiber *it = &here.threads[t];
        key = (key ^ ((uint64_t)it->looks << 8 | it->state * 2u | it->yielded)) *
              UINT64_C(0xBF58476D1CE4E5B9);
        key ^= key >> 29;
    }
    key ^= ((uint64_t)s.left.preemptions << 8 | s.left.surprises << 4 | kind) *
           UINT64_C(0x94D049BB133111EB);
    if (search_reduces && !set_add(&s.visited, key)) {
        threads_leave(WORLD_SEEN);
    }
    if (s.n_frames == MAX_FRAMES) {
        world_fail(FAIL_MODEL, "more than %d choices in one schedule", MAX_FRAMES);
    }
    s.frames[s.n_frames].n = (uint16_t)n;
    s.frames[s.n_frames].at = 0;
    s.n_frames++;
    s.depth++;
    return 0;
}

static bool one_in(uint32_t odds)
{
    return odds && test_next(&s.rng) % odds == 0;
}

/* Sleepers that could wake spuriously come after the candidates. */
static uint32_t add_sleepers(uint32_t *list, uint32_t count)
{
    for (uint32_t t = 0; s.scenario->spurious && t < here.n_threads; t++) {
        if (here.threads[t].state == THREAD_ASLEEP) {
            list[count++] = t;
        }
    }
    return count;
}

static uint32_t draw_thread(const uint32_t *list, uint32_t count)
{
    if (s.walks) {
        return one_in(s.switch_odds) ? list[test_next(&s.rng) % count] : list[0];
    }
    for (uint32_t i = 0; i < s.n_demotions; i++) {
        if (s.demotions[i] == here.steps) {
            s.priority[here.current] = s.lowest--;
        }
    }
    if (threads_now()->yielded) {
        s.priority[here.current] = s.lowest--;
    }
    uint32_t best = list[0];
    for (uint32_t i = 1; i < count; i++) {
        best = s.priority[list[i]] > s.priority[best] ? list[i] : best;
    }
    return best;
}

static uint32_t wanted(char kind, uint32_t otherwise)
{
    for (uint32_t i = 0; i < s.n_wanted; i++) {
        if (s.wanted[i].step == here.steps && s.wanted[i].kind == kind) {
            return s.wanted[i].to;
        }
    }
    return otherwise;
}

uint32_t search_thread(const uint32_t *candidates, uint32_t count)
{
    uint32_t list[2 * WORLD_THREADS], all = count, chosen = candidates[0];
    memcpy(list, candidates, count * sizeof *list);
    if (s.mode == MODE_EXHAUSTIVE) {
        const bool preempts = candidates[0] == here.current;
        uint32_t n = preempts && s.left.preemptions == 0 ? 1 : count;
        n = s.left.surprises ? n + add_sleepers(list + n, 0) : n;
        const uint32_t at = next_frame(n, 0);
        chosen = list[at];
        if (here.threads[chosen].state == THREAD_ASLEEP) {
            s.left.surprises--;
        } else if (preempts && chosen != here.current) {
            s.left.preemptions--;
        }
    } else if (s.mode == MODE_RANDOM) {
        all = add_sleepers(list, count);
        if (all > count && s.surprises && one_in(s.surprise_odds ? s.surprise_odds * 8 : 0)) {
            s.surprises--;
            chosen = list[count + test_next(&s.rng) % (all - count)];
        } else {
            chosen = draw_thread(candidates, count);
        }
    } else if (s.mode == MODE_REPLAY) {
        const uint32_t to = wanted('>', chosen);
        all = add_sleepers(list, count);
        for (uint32_t i = 0; i < all; i++) {
            chosen = list[i] == to ? to : chosen;
        }
    }
    if (chosen != candidates[0]) {
        note_change('>', chosen);
    }
    return chosen;
}

uint32_t search_age(uint32_t ages)
{
    uint32_t age = 0;
    if (s.mode == MODE_EXHAUSTIVE && s.left.surprises) {
        age = next_frame(ages, 1);
        s.left.surprises -= age != 0;
    } else if (s.mode == MODE_RANDOM && s.surprises && one_in(s.surprise_odds)) {
        age = (uint32_t)(test_next(&s.rng) % ages);
        s.surprises -= age != 0;
    } else if (s.mode == MODE_REPLAY) {
        age = wanted('~', 0);
        age = age < ages ? age : 0;
    }
    if (age) {
        note_change('~', age);
    }
    return age;
}

/* Only the exhaustive search uses the set of shared objects. It depends on earlier schedules, and a
 * seed must always give the same schedule. */
bool search_is_point(bool shared)
{
    return shared || s.mode != MODE_EXHAUSTIVE || !search_reduces;
}

/* ---- One schedule ---- */

static void run_scenario(void *context)
{
    (void)context;
    s.scenario->run();
}

static world_ending run_once(mode how)
{
    s.mode = how;
    s.depth = 0;
    s.n_changes = 0;
    memory_reset();
    return threads_run(run_scenario, NULL);
}

static void print_changes(char *out, size_t bytes)
{
    size_t used = 0;
    snprintf(out, bytes, "default");
    for (uint32_t i = 0; i < s.n_changes && used < bytes; i++) {
        used += (size_t)snprintf(out + used, bytes - used, "%s%u%c%u", i ? "," : "",
                                 s.changes[i].step, s.changes[i].kind, s.changes[i].to);
    }
}

/* Counts a schedule. Returns whether to continue. */
static bool count(world_ending how, search_result *r)
{
    if (how == WORLD_SEEN) {
        r->cut++;
        return true;
    }
    r->schedules++;
    r->distinct += set_add(&s.traces, here.trace);
    r->orders += set_add(&s.orders, here.order);
    if (how == WORLD_GOOD) {
        return true;
    }
    r->failed = true;
    r->ending = how;
    r->at = r->schedules;
    snprintf(r->why, sizeof r->why, "%s", here.why);
    print_changes(r->replay, sizeof r->replay);
    return false;
}

/* ---- Strategies ---- */

void search_close(void)
{
    here.inside = false;
    set_free(&s.visited);
    set_free(&s.traces);
    set_free(&s.orders);
    memory_close();
}

void search_open(const scenario *it)
{
    if (here.inside) {
        search_close(); /* a test that failed */
    }
    memset(&s, 0, sizeof s);
    s.scenario = it;
    memory_open();
    threads_open();
    model_open();
    here.inside = true;
    /* Without barriers, sequential consistency matters. */
    world_has_barrier = !mutation_now || mutation_now->action != MUTATE_WEAKEN;
    world_makes_barrier = true;
    it->prepare();
    here.n_first = here.n_threads;
    memory_keep();
    (void)run_once(MODE_DEFAULT);
    s.usual_steps = here.steps;
}

static bool to_next_branch(void)
{
    while (s.n_frames && s.frames[s.n_frames - 1].at + 1 == s.frames[s.n_frames - 1].n) {
        s.n_frames--;
    }
    if (s.n_frames == 0) {
        return false;
    }
    s.frames[s.n_frames - 1].at++;
    return true;
}

void search_exhaustive(search_bound bound, uint64_t limit, search_result *result)
{
    uint64_t tried = 0;
    result->complete = false;
    s.n_frames = 0;
    set_free(&s.visited);
    here.learned = false;
    while (tried++ < limit) {
        s.left = bound;
        if (!count(run_once(MODE_EXHAUSTIVE), result)) {
            return;
        }
        if (here.learned) { /* new objects turned out to be shared */
            here.learned = false;
            s.n_frames = 0;
            set_free(&s.visited);
        } else if (!to_next_branch()) {
            result->complete = true;
            return;
        }
    }
}

static void draw(uint64_t seed)
{
    s.rng = test_rng_make(seed);
    s.walks = one_in(3);
    s.switch_odds = (uint32_t)test_between(&s.rng, 2, 24);
    s.surprise_odds = one_in(3) ? 0 : (uint32_t)test_between(&s.rng, 2, 40);
    s.surprises = FEW_SURPRISES;
    s.lowest = 1000;
    for (uint32_t t = 0; t < WORLD_THREADS; t++) {
        s.priority[t] = (uint32_t)test_between(&s.rng, 1001, 1000000000);
    }
    s.n_demotions = (uint32_t)test_between(&s.rng, 0, MAX_DEMOTIONS);
    for (uint32_t i = 0; i < s.n_demotions; i++) {
        s.demotions[i] = (uint32_t)test_between(&s.rng, 1, s.usual_steps);
    }
}

static world_ending run_seed(uint64_t seed)
{
    draw(seed);
    return run_once(MODE_RANDOM);
}

void search_random(uint64_t seed, uint64_t n, search_result *result)
{
    for (uint64_t i = 0; i < n; i++) {
        result->seed = seed + i;
        if (!count(run_seed(seed + i), result)) {
            return;
        }
    }
}

void search_all(uint64_t schedules, uint64_t seed, search_result *result, search_bound *bound)
{
    static const search_bound bounds[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1},
                                          {3, 0}, {2, 2}, {3, 1}, {4, 0}, {3, 2}, {4, 1},
                                          {4, 2}, {5, 2}, {6, 3}, {8, 4}};
    *bound = bounds[0];
    search_random(seed, schedules / 20, result); /* learns most of the shared objects */
    seed += schedules / 20;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds && !result->failed; i++) {
        const uint64_t done = result->distinct;
        if (done >= schedules / 2) {
            break;
        }
        search_exhaustive(bounds[i], 2 * (schedules / 2 - done), result);
        if (!result->complete) {
            break;
        }
        *bound = bounds[i];
    }
    while (!result->failed && result->distinct < schedules) {
        const uint64_t before = result->distinct, more = schedules - before;
        search_random(seed, more, result);
        seed += more;
        if (result->distinct - before < more / 8) {
            break; /* hardly any schedule is new */
        }
    }
}

void search_replay(const char *which, search_result *result)
{
    memset(result, 0, sizeof *result);
    if (!strpbrk(which, ">~") && strcmp(which, "default") != 0) {
        result->seed = strtoull(which, NULL, 10);
        (void)count(run_seed(result->seed), result);
        return;
    }
    s.n_wanted = 0;
    for (char *p = (char *)(uintptr_t)which; *p >= '0' && *p <= '9' && s.n_wanted < MAX_CHANGES;) {
        change *c = &s.wanted[s.n_wanted++];
        c->step = (uint32_t)strtoul(p, &p, 10);
        c->kind = *p;
        c->to = *p ? (uint32_t)strtoul(p + 1, &p, 10) : 0;
        p += *p == ',';
    }
    (void)count(run_once(MODE_REPLAY), result);
}

void search_shorten(search_result *result)
{
    search_result again;
    char best[sizeof result->replay];
    snprintf(best, sizeof best, "%s", result->replay);
    for (bool shorter = true; shorter && strcmp(best, "default") != 0;) {
        shorter = false;
        for (uint32_t leave_out = 0;; leave_out++) {
            char shorter_list[sizeof best] = "";
            size_t used = 0;
            uint32_t n = 0;
            char copy[sizeof best];
            snprintf(copy, sizeof copy, "%s", best);
            for (char *p = strtok(copy, ","); p; p = strtok(NULL, ","), n++) {
                if (n != leave_out) {
                    used += (size_t)snprintf(shorter_list + used, sizeof shorter_list - used,
                                             "%s%s", used ? "," : "", p);
                }
            }
            if (leave_out >= n) {
                break;
            }
            search_replay(used ? shorter_list : "default", &again);
            if (again.failed && again.ending == result->ending) {
                snprintf(best, sizeof best, "%s", again.replay);
                shorter = true;
                break;
            }
        }
    }
    search_replay(best, &again);
    snprintf(result->why, sizeof result->why, "%s", again.why);
    snprintf(result->replay, sizeof result->replay, "%s", best);
}

/* ---- Output ---- */

static void print_value(uint64_t value)
{
    if (value >> 16) {
        printf("0x%" PRIx64, value);
    } else {
        printf("%" PRIu64, value);
    }
}

void search_print(void)
{
    static const char *const kinds[] = {"load",      "store", "swap", "add",  "cas",
                                        "cas fails", "sleep", "wake", "lock", "unlock",
                                        "yield",     "join",  "kill"};
    static const char *const orders[] = {"relaxed", "acquire", "release", "acq_rel", "seq_cst"};
    uint32_t n, before = WORLD_THREADS;
    const op *trace = model_trace(&n);
    printf("  step  thread        operation            place                       value\n");
    for (uint32_t i = n > MAX_LINES ? n - MAX_LINES : 0; i < n; i++) {
        const op *o = &trace[i];
        printf("%6u  %-12s  %-9s %-9s  %-26s  ", o->step,
               o->thread == before ? "" : here.threads[o->thread].name, kinds[o->kind],
               o->kind <= OP_CAS_FAILED ? orders[o->order] : "",
               o->place ? model_place_name(o->place) : "");
        before = o->thread;
        switch ((op_kind)o->kind) {
        case OP_LOAD:
        case OP_CAS_FAILED:
            print_value(o->read);
            if (o->age) {
                printf("  (%u older than the newest)", o->age);
            }
            break;
        case OP_STORE:
        case OP_SWAP:
        case OP_ADD:
        case OP_CAS:
            print_value(o->read);
            printf(" -> ");
            print_value(o->wrote);
            break;
        case OP_SLEEP:
            printf("%s", o->wrote ? "falls asleep" : "is not what it sleeps for");
            break;
        case OP_WAKE:
            printf("%s", o->wrote < WORLD_THREADS ? here.threads[o->wrote].name : "nobody");
            break;
        case OP_JOIN:
        case OP_KILL:
            printf("%s", here.threads[o->read].name);
            break;
        case OP_LOCK:
        case OP_UNLOCK:
        case OP_YIELD:
            break;
        }
        printf("\n");
    }
    if (here.why[0]) {
        printf("        %s\n", here.why);
    }
}
