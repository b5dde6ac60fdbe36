/* test_boxtree.c - the box tree against a plain list of boxes: random boxes come and go, the
 * invariants hold after each step, and every walk names exactly the boxes that meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "orchestrator/map/boxtree.h"
#include "support.h"

#define ITEMS 96

typedef struct world {
    ptoi_forest forest;
    uint32_t root, digits;
    bool in[ITEMS];
    ptoi_range box[ITEMS][PTOI_MAX_DIGITS];
} world;

static void *must_have(void *memory)
{
    assert_non_null(memory);
    return memory;
}

static world *world_make(uint32_t digits)
{
    world *w = must_have(calloc(1, sizeof *w));
    ptoi_node_pool *pool = &w->forest.nodes[digits - 1];
    w->root = PTOI_NONE;
    w->digits = digits;
    pool->bytes = ptoi_node_bytes(digits);
    pool->digits = digits;
    pool->freed = PTOI_NONE;
    pool->nodes = must_have(
        calloc(ITEMS, pool->bytes)); /* as many as the header promises to need */
    w->forest.cells.freed = PTOI_NONE;
    w->forest.cells.cells = must_have(calloc(ITEMS, sizeof *w->forest.cells.cells));
    return w;
}

static void world_free(world *w)
{
    free(w->forest.nodes[w->digits - 1].nodes);
    free(w->forest.cells.cells);
    free(w);
}

/* Small numbers, so that boxes meet and are equal now and then; huge ones, and the ends of the
 * range. */
static void random_box(test_rng *rng, uint32_t digits, ptoi_range *box)
{
    uint64_t limit = test_between(rng, 0, 9) ? 16 : UINT64_MAX - 1;
    for (uint32_t d = 0; d < digits; d++) {
        uint64_t a = test_next(rng) % (limit + 1), b = test_next(rng) % (limit + 1);
        box[d] = a < b ? (ptoi_range){a, b} : (ptoi_range){b, a};
        if (test_between(rng, 0, 40) == 0) {
            box[d] = (ptoi_range){0, UINT64_MAX};
        }
    }
}

static void check_walk(world *w, const ptoi_range *box)
{
    bool named[ITEMS] = {false};
    ptoi_walk walk;
    memcpy(walk.box, box, w->digits * sizeof *box);
    ptoi_walk_begin(&walk, &w->forest, w->root, w->digits);
    for (uint32_t item; (item = ptoi_walk_next(&walk)) != PTOI_NONE;) {
        assert_true(item < ITEMS);
        assert_false(named[item]);
        named[item] = true;
    }
    for (uint32_t i = 0; i < ITEMS; i++) {
        bool meets = w->in[i];
        for (uint32_t d = 0; meets && d < w->digits; d++) {
            meets = w->box[i][d].lo <= box[d].hi && box[d].lo <= w->box[i][d].hi;
        }
        assert_int_equal(named[i], meets);
    }
}

static void run(uint32_t digits, uint64_t steps)
{
    test_rng rng = test_rng_make(test_seed() * 8 + digits);
    world *w = world_make(digits);
    uint32_t inside = 0;
    for (uint64_t step = 0; step < steps; step++) {
        uint32_t i = (uint32_t)test_between(&rng, 0, ITEMS - 1), items;
        /* Tides: mostly in, then mostly out, down to nothing. */
        bool rising = step / 400 % 2 == 0 || test_between(&rng, 0, 3) == 0;
        if (w->in[i] && !rising) {
            ptoi_boxtree_remove(&w->forest, &w->root, w->box[i], digits, i);
            w->in[i] = false;
            inside--;
        } else if (!w->in[i] && rising) {
            uint32_t twin = (uint32_t)test_between(&rng, 0, ITEMS - 1);
            if (test_between(&rng, 0, 5) == 0) {
                memcpy(w->box[i], w->box[twin], sizeof w->box[i]);
            } else {
                random_box(&rng, digits, w->box[i]);
            }
            ptoi_boxtree_insert(&w->forest, &w->root, w->box[i], digits, i);
            w->in[i] = true;
            inside++;
        }
        assert_int_equal(ptoi_boxtree_check(&w->forest, w->root, digits, &items), PTO_OK);
        assert_int_equal(items, inside);
        assert_int_equal(w->root == PTOI_NONE, inside == 0);
        assert_true(w->forest.nodes[digits - 1].untouched <= ITEMS);
        for (uint32_t j = 0; j < ITEMS; j += 7) {
            assert_int_equal(ptoi_boxtree_holds(&w->forest, w->root, w->box[j], digits, j),
                             w->in[j]);
        }
        ptoi_range question[PTOI_MAX_DIGITS];
        random_box(&rng, digits, question);
        check_walk(w, question);
    }
    for (uint32_t i = 0; i < ITEMS; i++) {
        if (w->in[i]) {
            ptoi_boxtree_remove(&w->forest, &w->root, w->box[i], digits, i);
        }
    }
    assert_int_equal(w->root, PTOI_NONE);
    world_free(w);
}

static void test_against_a_list(void **state)
{
    (void)state;
    for (uint32_t digits = 1; digits <= PTOI_MAX_DIGITS; digits++) {
        run(digits, test_effort(4000));
    }
}

/* The deepest way there can be: keys that part at every single bit. */
static void test_depth(void **state)
{
    (void)state;
    world *w = world_make(1);
    uint32_t items;
    for (uint32_t i = 0; i < 64; i++) {
        w->box[i][0] = (ptoi_range){UINT64_C(1) << i, UINT64_MAX};
        ptoi_boxtree_insert(&w->forest, &w->root, w->box[i], 1, i);
        w->in[i] = true;
    }
    assert_int_equal(ptoi_boxtree_check(&w->forest, w->root, 1, &items), PTO_OK);
    assert_int_equal(items, 64);
    check_walk(w, &(ptoi_range){0, UINT64_MAX});
    check_walk(w, &(ptoi_range){5, 9});
    check_walk(w, &(ptoi_range){0, 0});
    world_free(w);
}

/* The checker is no decoration: what is broken is noticed. */
static void test_the_checker_sees(void **state)
{
    (void)state;
    world *w = world_make(2);
    uint32_t items;
    test_rng rng = test_rng_make(test_seed());
    for (uint32_t i = 0; i < 40; i++) {
        random_box(&rng, 2, w->box[i]);
        ptoi_boxtree_insert(&w->forest, &w->root, w->box[i], 2, i);
    }
    ptoi_node *root = ptoi_node_at(&w->forest.nodes[1], w->root);
    ptoi_node copy[2]; /* the head of the node alone: boxes are broken and mended by hand */
    memcpy(copy, root, sizeof *root);
    root->rank[0] = 3;
    assert_int_equal(ptoi_boxtree_check(&w->forest, w->root, 2, &items), PTO_CORRUPT);
    memcpy(root, copy, sizeof *root);
    root->child[0] = PTOI_NONE;
    assert_int_equal(ptoi_boxtree_check(&w->forest, w->root, 2, &items), PTO_CORRUPT);
    memcpy(root, copy, sizeof *root);
    root->box[0].hi ^= 1;
    assert_int_equal(ptoi_boxtree_check(&w->forest, w->root, 2, &items), PTO_CORRUPT);
    root->box[0].hi ^= 1;
    assert_int_equal(ptoi_boxtree_check(&w->forest, w->root, 2, &items), PTO_OK);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_list),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_the_checker_sees),
    };
    return cmocka_run_group_tests_name("boxtree", tests, NULL, NULL);
}
