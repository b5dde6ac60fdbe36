/* history.h - a map and the naive list side by side, through a random history: each answer is
 * compared, and the map must be sound after every step.
 *
 * PTO_TEST_TRACE=1    prints every step
 */
#ifndef PTO_TEST_HISTORY_H
#define PTO_TEST_HISTORY_H

#include "naive.h"
#include "orchestrator/map/map.h"
#include "support.h"
#include "targets.h"

#define HISTORY_PARAMS 6

typedef struct history {
    target_maker maker;
    pto_tensormap *map;
    naive_map naive;
    uint32_t levels;
    uint64_t capacity[PTO_MAP_MAX_LEVELS];
    uint64_t next_id;
    pto_map_task task; /* the newest, which may have more accesses; id 0 before the first */
    uint64_t last;     /* the newest that is in the map */
    bool exact;        /* false once the budget of the map ran out */
    bool trace;
    uint64_t number, step;
    uint64_t fulls;
    char what[512]; /* the step being taken */
} history;

/* What all histories saw together: a test that never gets somewhere proves nothing there. */
static struct {
    uint64_t steps, answers, superseded, fulls, truncated, recycled, too_small, inexact, wraps;
    uint64_t grown_entries, grown_regions;
} history_seen;

static inline void history_broken(const history *h, const char *why)
{
    fail_msg("history %d of seed %d, step %d, %s: %s", (int)h->number, (int)test_seed(),
             (int)h->step, h->what, why);
}

static inline void history_expect(const history *h, pto_status status, pto_status want)
{
    if (status != want) {
        char why[1024];
        snprintf(why, sizeof why, "%s (%s) instead of %s", pto_status_name(status),
                 pto_error_detail(), pto_status_name(want));
        history_broken(h, why);
    }
}

/* ---- Describing a step ------------------------------------------------------------------- */

static inline void history_describe_target(char *text, size_t size, const target *t)
{
    if (t->is_region) {
        snprintf(text, size, "region base %p tile %d offset %d size %d", t->region.base,
                 (int)t->region.tile, (int)t->region.offset, (int)t->region.size);
        return;
    }
    int used = snprintf(text, size, "space %d storage %p+%d type %d offset %d", (int)t->space,
                        t->tensor.storage, (int)t->tensor.storage_bytes, (int)t->tensor.dtype,
                        (int)t->tensor.offset);
    for (int32_t d = 0; d < t->tensor.ndim && used > 0 && (size_t)used < size; d++) {
        used += snprintf(text + used, size - (size_t)used, " %dx%d", (int)t->tensor.shape[d],
                         (int)t->tensor.strides[d]);
    }
}

static inline void history_describe(history *h, const char *what, const target *t)
{
    char about[256] = "";
    if (t) {
        history_describe_target(about, sizeof about, t);
    }
    snprintf(h->what, sizeof h->what, "%s %llu/%u %s", what, (unsigned long long)h->task.id,
             (unsigned)h->task.level, about);
    if (h->trace) {
        printf("%4d %s\n", (int)h->step, h->what);
    }
}

/* ---- Questions --------------------------------------------------------------------------- */

static inline void history_note_budget(history *h)
{
    pto_tensormap_stats stats;
    history_expect(h, pto_tensormap_get_stats(h->map, &stats), PTO_OK);
    if (stats.budget_hits) {
        h->exact = false;
    }
}

static inline void history_compare(history *h, naive_answers *want, const pto_map_hit *hits,
                                   size_t count, bool once)
{
    char why[256];
    history_note_budget(h);
    if (!naive_accepts(&h->naive, want, hits, count, once, h->exact, why, sizeof why)) {
        history_broken(h, why);
    }
    history_seen.answers += count;
}

static inline void history_ask(history *h, const target *t)
{
    static const char *const names[] = {"read_deps", "write_deps", "lookup_all", "lookup"};
    static answers_question *const asks[] = {pto_tensormap_read_deps, pto_tensormap_write_deps,
                                             pto_tensormap_lookup_all};
    static answers_region_question *const region_asks[] = {pto_tensormap_read_deps_region,
                                                           pto_tensormap_write_deps_region,
                                                           pto_tensormap_lookup_all_region};
    const int64_t which = target_roll(&h->maker, 0, 3);
    naive_answers want = {0};
    history_describe(h, names[which], t);
    naive_ask(&h->naive, t->space, &t->bytes, which == 1, 0, &want);
    if (which < 3) {
        answers got = {0};
        history_expect(h,
                       t->is_region ? region_asks[which](h->map, &t->region, answers_add, &got)
                                    : asks[which](h->map, &t->tensor, answers_add, &got),
                       PTO_OK);
        history_compare(h, &want, got.hit, got.count, true);
        answers_free(&got);
    } else {
        bool found = false;
        pto_map_task producer = {0};
        pto_map_task newest = {0};
        history_expect(h,
                       t->is_region
                           ? pto_tensormap_lookup_region(h->map, &t->region, &found, &producer)
                           : pto_tensormap_lookup(h->map, &t->tensor, &found, &producer),
                       PTO_OK);
        history_note_budget(h);
        for (size_t i = 0; i < want.count; i++) {
            if (want.answer[i].hit.task.id > newest.id) {
                newest = want.answer[i].hit.task;
            }
        }
        if (h->exact ? found != (want.count > 0) ||
                           (found && (producer.id != newest.id || producer.level != newest.level))
                     : want.count && (!found || producer.id < newest.id)) {
            char why[128];
            snprintf(why, sizeof why, "%s %llu, not %llu", found ? "names" : "finds nobody",
                     (unsigned long long)producer.id, (unsigned long long)newest.id);
            history_broken(h, why);
        }
    }
    naive_answers_free(&want);
}

/* ---- Accesses ---------------------------------------------------------------------------- */

/* The next task, or the newest one again: a task may come with several accesses. */
static inline void history_choose_task(history *h)
{
    if (h->task.id && naive_live(&h->naive, h->task) && target_one_in(&h->maker, 3)) {
        return;
    }
    h->task.id = h->next_id;
    h->task.level = (uint32_t)target_roll(&h->maker, 0, (int64_t)h->levels - 1);
    h->next_id += (uint64_t)(target_one_in(&h->maker, 8) ? target_roll(&h->maker, 1, 1000) : 1);
}

/* Full is right only when the accesses of live tasks fill the level. */
static inline void history_check_full(history *h, size_t needed)
{
    const size_t charged = naive_charged(&h->naive, h->task.level);
    h->fulls++;
    if (charged + needed <= h->capacity[h->task.level]) {
        char why[128];
        snprintf(why, sizeof why, "full with %d live accesses of %d, %d needed", (int)charged,
                 (int)h->capacity[h->task.level], (int)needed);
        history_broken(h, why);
    }
}

static inline void history_insert(history *h)
{
    history_choose_task(h);
    const target *t = target_make(&h->maker, false);
    const bool writes = target_one_in(&h->maker, 2);
    history_describe(h, writes ? "insert" : "insert_read", t);
    pto_status status;
    if (t->is_region) {
        status = writes ? pto_tensormap_insert_region(h->map, &t->region, h->task)
                        : pto_tensormap_insert_read_region(h->map, &t->region, h->task);
    } else {
        status = writes ? pto_tensormap_insert(h->map, &t->tensor, h->task)
                        : pto_tensormap_insert_read(h->map, &t->tensor, h->task);
    }
    if (status == PTO_FULL) {
        history_check_full(h, naive_empty(&t->bytes) ? 0 : 1);
        return;
    }
    history_expect(h, status, PTO_OK);
    naive_insert(&h->naive, t->space, &t->bytes, writes ? PTO_MAP_WRITE : PTO_MAP_READ, h->task, 0);
    h->last = naive_empty(&t->bytes) ? h->last : h->task.id;
}

static inline void history_submit(history *h)
{
    target targets[HISTORY_PARAMS];
    pto_map_param params[HISTORY_PARAMS];
    const size_t count = (size_t)target_roll(&h->maker, 0, HISTORY_PARAMS);
    naive_answers want = {0};
    size_t needed = 0, n_hits = SIZE_MAX;
    history_choose_task(h);
    history_describe(h, "submit", NULL);
    for (size_t i = 0; i < count; i++) {
        targets[i] = *target_make(&h->maker, true);
        params[i].tensor = &targets[i].tensor;
        params[i].access = target_one_in(&h->maker, 2) ? PTO_MAP_WRITE : PTO_MAP_READ;
        needed += !naive_empty(&targets[i].bytes);
        naive_ask(&h->naive, targets[i].space, &targets[i].bytes, params[i].access == PTO_MAP_WRITE,
                  h->task.id, &want);
        if (h->trace) {
            char about[256];
            history_describe_target(about, sizeof about, &targets[i]);
            printf("       %s %s\n", params[i].access == PTO_MAP_WRITE ? "write" : "read", about);
        }
    }
    /* Too little room at first, more often than not where there is anything to say. */
    size_t room = (size_t)target_roll(&h->maker, 0, 12);
    pto_map_hit *hits = room ? malloc(room * sizeof *hits) : NULL; /* not one too many */
    assert_true(hits || !room);
    pto_status status = pto_tensormap_submit(h->map, params, count, h->task, hits, room, &n_hits);
    if (status == PTO_BUFFER_TOO_SMALL) {
        if (n_hits <= room || n_hits == SIZE_MAX) {
            history_broken(h, "too small an array, it says, but asks for no more");
        }
        history_seen.too_small++;
        history_expect(h, pto_tensormap_check(h->map), PTO_OK);
        if (target_one_in(&h->maker, 4)) {
            goto done; /* not submitted after all: nothing must have changed */
        }
        room = n_hits;
        free(hits);
        hits = malloc(room * sizeof *hits);
        assert_non_null(hits);
        status = pto_tensormap_submit(h->map, params, count, h->task, hits, room, &n_hits);
        if (status == PTO_OK && n_hits != room) {
            history_broken(h, "another number of hits the second time");
        }
    }
    if (status == PTO_FULL) {
        history_check_full(h, needed);
        goto done;
    }
    history_expect(h, status, PTO_OK);
    if (n_hits > room) {
        history_broken(h, "more hits than room");
    }
    history_compare(h, &want, hits, hits ? n_hits : 0, false);
    for (size_t i = 0; i < count; i++) {
        naive_insert(&h->naive, targets[i].space, &targets[i].bytes, params[i].access, h->task, i);
    }
    h->last = needed ? h->task.id : h->last;
done:
    free(hits);
    naive_answers_free(&want);
}

/* ---- Retirement and mistakes ------------------------------------------------------------- */

static inline void history_retire(history *h)
{
    const uint32_t level = (uint32_t)target_roll(&h->maker, 0, (int64_t)h->levels - 1);
    const uint64_t from = h->naive.watermark[level];
    uint64_t to = h->next_id;
    history_describe(h, "sync_validity", NULL);
    if (target_one_in(&h->maker, 2)) {
        /* Past the oldest few that have accesses on this level. */
        int64_t few = target_roll(&h->maker, 0, 3);
        for (size_t i = 0; i < h->naive.n_charged; i++) {
            if (h->naive.charged[i].level == level && few-- <= 0) {
                to = h->naive.charged[i].id;
                break;
            }
        }
    } else if (to - from < 100000) {
        to = from + (uint64_t)target_roll(&h->maker, 0, (int64_t)(to - from));
    }
    to = to < from ? from : to;
    history_expect(h, pto_tensormap_sync_validity(h->map, level, to), PTO_OK);
    naive_retire(&h->naive, level, to);
}

static inline void history_mistake(history *h)
{
    const target *t = target_make(&h->maker, true);
    pto_map_task task = h->task;
    history_describe(h, "mistake", t);
    switch (target_roll(&h->maker, 0, 2)) {
    case 0:
        task.level = h->levels;
        history_expect(h, pto_tensormap_insert(h->map, &t->tensor, task), PTO_BAD_LEVEL);
        break;
    case 1:
        if (h->last > 1) {
            task.id = h->last - 1;
            history_expect(h, pto_tensormap_insert(h->map, &t->tensor, task), PTO_BAD_ORDER);
        }
        break;
    default:
        if (h->naive.watermark[0] > 1) {
            history_expect(h, pto_tensormap_sync_validity(h->map, 0, h->naive.watermark[0] - 1),
                           PTO_BAD_ORDER);
        }
        break;
    }
}

static inline void history_check_stats(history *h)
{
    pto_tensormap_stats stats;
    size_t charged = 0;
    uint64_t capacity = 0;
    history_expect(h, pto_tensormap_get_stats(h->map, &stats), PTO_OK);
    for (uint32_t l = 0; l < h->levels; l++) {
        charged += naive_charged(&h->naive, l);
        capacity += h->capacity[l];
    }
    /* Each task with an unshadowed access needs an entry at the least; tasks come in order. */
    size_t tasks = 0;
    uint64_t last = 0;
    for (size_t i = 0; i < h->naive.count; i++) {
        tasks += h->naive.access[i].task.id != last;
        last = h->naive.access[i].task.id;
    }
    if (stats.entries_capacity != capacity || stats.entries > stats.entries_peak ||
        stats.entries_peak > capacity || stats.entries < tasks || stats.full != h->fulls) {
        history_broken(h, "statistics that do not fit the history");
    }
    history_expect(h, pto_tensormap_cleanup_retired(h->map), PTO_OK);
    history_expect(h, pto_tensormap_get_stats(h->map, &stats), PTO_OK);
    if (stats.entries > charged) {
        history_broken(h, "entries of retired tasks after a clean-up");
    }
}

/* ---- Histories --------------------------------------------------------------------------- */

static inline void history_begin(history *h, test_rng rng, uint64_t number, bool grid)
{
    static const uint64_t first_ids[] = {1, UINT32_MAX - 20, (UINT64_C(1) << 63) - 9,
                                         UINT64_MAX - (UINT64_C(1) << 40)};
    static const uint64_t budgets[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, 1, 20};
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    *h = (history){.number = number, .exact = true, .trace = test_env("PTO_TEST_TRACE", 0) != 0};
    target_maker_init(&h->maker, rng, grid);
    target_maker *m = &h->maker;
    history_describe(h, "init", NULL);
    config.levels = (uint32_t)(target_one_in(m, 2) ? target_roll(m, 1, 3) : target_roll(m, 1, 8));
    config.entries = (uint32_t)(grid ? target_roll(m, 500, 2000) : target_roll(m, 8, 64));
    if (target_one_in(m, 4) && !grid) {
        config.level_entries[0] = (uint32_t)target_roll(m, 1, 16);
    }
    config.cleanup_every = (uint32_t)(target_one_in(m, 2) ? target_roll(m, 1, 8) : 0);
    config.overlap_budget = budgets[target_roll(m, 0, 6)];
    if (m->tiles) { /* more tiles than regions to begin with, and few tasks alive */
        config.levels = (uint32_t)target_roll(m, 1, 2);
        config.entries = (uint32_t)target_roll(m, 64, 512);
        config.start_entries = UINT32_C(1) << target_roll(m, 0, 4);
        config.start_regions = (uint32_t)target_roll(m, 8, 64);
    } else if (!target_one_in(m, 4)) { /* begins small, and grows on the way */
        config.start_entries = UINT32_C(1) << target_roll(m, 0, 4);
        config.start_regions = (uint32_t)target_roll(m, 1, 32);
    }
    if (!target_one_in(m, 3)) {
        config.first_entry = UINT32_MAX - (uint32_t)target_roll(m, 0, 200);
        history_seen.wraps++;
    }
    h->levels = config.levels;
    for (uint32_t l = 0; l < h->levels; l++) {
        const uint32_t asked = config.level_entries[l] ? config.level_entries[l] : config.entries;
        for (h->capacity[l] = 1; h->capacity[l] < asked;) {
            h->capacity[l] *= 2;
        }
    }
    h->next_id = first_ids[target_roll(m, 0, 3)];
    history_expect(h, pto_tensormap_init(&h->map, &config), PTO_OK);
    if (target_roll(m, 0, 1)) { /* as the map of a runtime, which has the same answers */
        h->map->order = &h->step;
    }
    history_expect(h, pto_tensormap_check(h->map), PTO_OK);
}

static inline void history_end(history *h)
{
    pto_tensormap_stats stats;
    history_check_stats(h);
    history_expect(h, pto_tensormap_get_stats(h->map, &stats), PTO_OK);
    history_seen.steps += h->step;
    history_seen.superseded += stats.superseded;
    history_seen.fulls += stats.full;
    history_seen.truncated += stats.truncated;
    history_seen.recycled += stats.recycled;
    history_seen.inexact += !h->exact;
    history_seen.grown_entries += h->map->growths[PTOI_GROWN_ENTRIES];
    history_seen.grown_regions += h->map->growths[PTOI_GROWN_REGIONS];
    pto_tensormap_destroy(&h->map);
    naive_free(&h->naive);
}

/* So many steps, decided by `rng`; where bytes decide it ends with them. `number` is for messages. */
static inline void history_run(test_rng rng, uint64_t number, uint64_t steps, uint64_t check_every,
                               bool grid)
{
    history h;
    history_begin(&h, rng, number, grid);
    /* How eagerly tasks retire; the lazy ones run into full levels. */
    const int64_t eager = grid && !h.maker.tiles ? 0 : target_roll(&h.maker, 2, 14);
    for (h.step = 1; h.step <= steps && !test_rng_is_spent(&h.maker.rng); h.step++) {
        const int64_t dice = target_roll(&h.maker, 1, 100);
        if (dice <= 35) {
            history_insert(&h);
        } else if (dice <= 50) {
            history_submit(&h);
        } else if (dice <= 50 + eager) {
            history_retire(&h);
        } else if (grid && dice == 51 && target_one_in(&h.maker, 10)) {
            history_retire(&h);
        } else if (dice <= 66) {
            history_describe(&h, "cleanup", NULL);
            history_expect(&h, dice == 66 ? pto_tensormap_cleanup_retired(h.map) : PTO_OK, PTO_OK);
        } else if (dice == 67) {
            history_mistake(&h);
        } else if (dice == 68) {
            history_check_stats(&h);
        } else {
            history_ask(&h, target_make(&h.maker, false));
        }
        if (h.maker.tiles && target_one_in(&h.maker, 2)) {
            history_retire(&h);
        }
        if (h.step % check_every == 0) {
            history_expect(&h, pto_tensormap_check(h.map), PTO_OK);
        }
    }
    history_end(&h);
}

#endif /* PTO_TEST_HISTORY_H */
