/* twins.h - a map that begins small and grows, beside one that never has to: both must give the same
 * answers through a random history of tasks on the same few tiles. */
#ifndef PTO_TEST_TWINS_H
#define PTO_TEST_TWINS_H

#include <stdlib.h>
#include <string.h>

#include "orchestrator/map/map.h"
#include "support.h"

enum { TWINS_TILES = 96, TWINS_TASKS = 600, TWINS_ENTRIES = 64, TWINS_PARAMS = 6 };

static inline pto_tensor twins_tile(int64_t i)
{
    static float memory[TWINS_TILES];
    pto_tensor t;
    PTO_IGNORE(
        pto_tensor_init(&t, &memory[i], sizeof memory[i], PTO_FLOAT32, 1, (int64_t[]){1}, NULL, 0));
    return t;
}

static inline int twins_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(pto_map_hit));
}

/* Runs one history. Returns what went wrong, or NULL. Counts how often the small map grew. */
static inline const char *twins_run(test_rng rng, uint64_t *grown_entries, uint64_t *grown_regions)
{
    enum { ROOM = 2 * TWINS_ENTRIES * TWINS_PARAMS };
    static pto_map_hit hits[2][ROOM];
    pto_tensormap *map[2] = {NULL, NULL};
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    const char *wrong = NULL;
    uint64_t oldest = 1;
    config.levels = 2;
    config.entries = TWINS_ENTRIES;
    config.first_entry = (uint32_t)0 - (uint32_t)test_between(&rng, 0, 200);
    const int64_t lag = test_between(&rng, 1, 8); /* tasks alive, but for one slow one at times */
    for (int i = 0; i < 2; i++) {
        config.start_entries = i ? TWINS_ENTRIES : 1;
        config.start_regions = i ? 2 * TWINS_ENTRIES : 1;
        if (pto_tensormap_init(&map[i], &config) != PTO_OK) {
            wrong = "no map";
        }
    }
    for (uint64_t id = 1; id <= TWINS_TASKS && !wrong; id++) {
        const pto_map_task task = {id, 0};
        const size_t n = (size_t)test_between(&rng, 1, TWINS_PARAMS);
        pto_tensor tiles[TWINS_PARAMS];
        pto_map_param params[TWINS_PARAMS];
        size_t count[2];
        pto_status status[2];
        for (size_t k = 0; k < n; k++) {
            /* The first tasks use few tiles, the later ones more of them. */
            const int64_t most = (int64_t)(TWINS_TILES * id / TWINS_TASKS);
            tiles[k] = twins_tile(test_between(&rng, 0, most < 8 ? 8 : most - 1));
            params[k].tensor = &tiles[k];
            params[k].access = test_between(&rng, 0, 2) ? PTO_MAP_READ : PTO_MAP_WRITE;
        }
        if (test_between(&rng, 0, 15) && id > (uint64_t)lag && oldest < id - (uint64_t)lag) {
            oldest = id - (uint64_t)lag;
        }
        for (int i = 0; i < 2; i++) {
            PTO_IGNORE(pto_tensormap_sync_validity(map[i], 0, oldest));
            memset(hits[i], 0, sizeof hits[i]);
            status[i] = pto_tensormap_submit(map[i], params, n, task, hits[i], ROOM, &count[i]);
            qsort(hits[i], status[i] == PTO_OK ? count[i] : 0, sizeof *hits[i], twins_order);
        }
        if (status[0] != status[1] || (status[0] != PTO_OK && status[0] != PTO_FULL)) {
            wrong = "another status";
        } else if (status[0] == PTO_OK &&
                   (count[0] != count[1] || memcmp(hits[0], hits[1], count[0] * sizeof **hits))) {
            wrong = "other answers";
        } else if (pto_tensormap_check(map[0]) != PTO_OK) {
            wrong = pto_error_detail();
        }
    }
    for (int i = 0; i < 2; i++) {
        if (map[i] && !wrong) {
            *grown_entries += map[i]->growths[PTOI_GROWN_ENTRIES];
            *grown_regions += map[i]->growths[PTOI_GROWN_REGIONS];
        }
        pto_tensormap_destroy(&map[i]);
    }
    return wrong;
}

#endif /* PTO_TEST_TWINS_H */
