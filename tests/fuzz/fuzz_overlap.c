/* fuzz_overlap.c - overlap and cover of views against bitmaps of their bytes (../tensor/views.h).
 *
 * Also with tensors whose fields are arbitrary.
 */
#include "hostile.h"

#include "../tensor/views.h"

#define MEMBERS 4

static void wrong(const char *what, const view *a, const view *b, pto_overlap_result r)
{
    char text[2][256];
    pto_tensor_format(&a->t, text[0], sizeof text[0]);
    pto_tensor_format(&b->t, text[1], sizeof text[1]);
    fuzz_wrong("%s: said %d by stage \"%s\" after %llu steps\n  a %s\n  b %s\n  arena at %p", what,
               (int)r.yes, pto_overlap_stage_name(r.stage), (unsigned long long)r.steps, text[0],
               text[1], (void *)view_arena);
}

static bool same_space(const pto_tensor *a, const pto_tensor *b)
{
    return a->owner == b->owner && (!a->owner || a->generation == b->generation);
}

/* Every answer is exact without a budget, and safe with one. */
static void ask(const view *a, const view *b, uint64_t budget)
{
    const bool meet = same_space(&a->t, &b->t) && view_meets(a, b);
    const bool cover = pto_tensor_numel(&b->t) == 0 ||
                       (same_space(&a->t, &b->t) && view_contains(a, b));
    pto_overlap_result r = {0}, back = {0};
    if (pto_tensor_overlaps_ex(&a->t, &b->t, budget, &r) != PTO_OK ||
        (r.stage == PTO_STAGE_BUDGET ? budget == UINT64_MAX || !r.yes : r.yes != meet)) {
        wrong("overlaps", a, b, r);
    }
    if (pto_tensor_overlaps_ex(&b->t, &a->t, budget, &back) != PTO_OK || back.yes != r.yes ||
        back.stage != r.stage || back.steps != r.steps) {
        wrong("overlaps, exchanged", b, a, back);
    }
    if (pto_tensor_covers_ex(&a->t, &b->t, budget, &r) != PTO_OK ||
        (r.stage == PTO_STAGE_BUDGET ? budget == UINT64_MAX || r.yes : r.yes != cover)) {
        wrong("covers", a, b, r);
    }
}

static void ask_hostile(test_rng *rng)
{
    const pto_tensor a = hostile_tensor(rng, view_arena, VIEW_ARENA);
    const pto_tensor b = hostile_tensor(rng, view_arena + test_between(rng, 0, 64), VIEW_ARENA);
    char text[64];
    (void)pto_tensor_format(&a, text, sizeof text);
    if (pto_tensor_overlaps(&a, &b) != pto_tensor_overlaps(&b, &a)) {
        fuzz_wrong("overlaps depends on who comes first");
    }
    if (pto_tensor_covers(&a, &b) && pto_tensor_numel(&b) > 0 && !pto_tensor_overlaps(&a, &b)) {
        fuzz_wrong("covers, but does not overlap");
    }
    if (pto_tensor_check(&a) == PTO_OK &&
        !(pto_tensor_numel(&a) ? pto_tensor_overlaps(&a, &a) : !pto_tensor_overlaps(&a, &a))) {
        fuzz_wrong("a sound tensor overlaps itself, unless it is empty");
    }
}

/* A few views that are likely to overlap, in all pairs. */
static void ask_family(test_rng *rng, view_kind kind)
{
    static view members[MEMBERS];
    const uint64_t budget = test_between(rng, 0, 3) ? UINT64_MAX
                                                    : (uint64_t)test_between(rng, 1, 64);
    const view_family family = view_family_make(rng, kind);
    int count = 0;
    while (count < MEMBERS && (count < 2 || !test_rng_is_spent(rng))) {
        view_random(rng, &family, &members[count++]);
    }
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            ask(&members[i], &members[j], budget);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    test_rng rng = test_rng_from(data, size);
    while (!test_rng_is_spent(&rng)) {
        const int64_t kind = test_between(&rng, 0, VIEW_KINDS);
        if (kind == VIEW_KINDS) {
            ask_hostile(&rng);
        } else {
            ask_family(&rng, (view_kind)kind);
        }
    }
    return 0;
}
