/* fuzz_task.c - tasks of a damaged window (window/sound.h).
 *
 * A task is refused, or all that a worker reads for it lies in the window: edges, arguments, layouts
 * and every byte of every tensor. A list of waiters is walked to its end, or called broken. An input
 * is a list of cases: changes to a few valid tasks, then the use of one of them.
 */
#include "fuzz.h"

#include "../window/windows.h"
#include "scheduler/step.h"
#include "window/sound.h"

enum { TASKS = 6 };

static window w;

/* A task of level `level` with `n` arguments in a row, tensors of 2 x 3 floats. */
static void write_task(uint32_t level, uint64_t seq, uint32_t n)
{
    ptoi_view *v = &w.view;
    ptoi_slot *slot = ptoi_slot_of(v, level, seq);
    const pto_tensor t = {.ndim = 2, .shape = {2, 3}, .strides = {3, 1}, .dtype = PTO_FLOAT32};
    ptoi_arg_desc *args = v->level[level].args;
    ptoi_desc_write((ptoi_desc *)(void *)(v->descs + PTOI_DESC_UNIT), &t);
    for (uint32_t i = 0; i < n; i++) {
        args[i] = (ptoi_arg_desc){.value = 64 * i,
                                  .desc = 1,
                                  .segment = (uint8_t)(i % 2 ? PTOI_SEGMENT_SHARED : level),
                                  .access = PTO_PARAM_INOUT};
    }
    args[n] = (ptoi_arg_desc){.value = 7, .desc = PTO_INT64, .access = PTO_PARAM_SCALAR};
    args[n + 1] = (ptoi_arg_desc){.value = 128, .access = PTO_PARAM_INPUT}; /* its layout follows */
    ptoi_desc_write((ptoi_desc *)(void *)(args + n + 2), &t);
    v->level[level].deps[0] = ptoi_ref_make(1, level, true);
    slot->deps = 0;
    slot->fanin = 1;
    slot->args = 0;
    slot->n_args = n + 2;
    ptoi_set64(&slot->header, ptoi_slot_header_word(1, 0, level, PTO_VECTOR, false));
    ptoi_set64(&slot->seq, seq);
}

static void prepare(void)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        write_task(i % 3, 2 + i / 3, 2);
    }
    for (uint32_t i = 0; i < w.view.n_slots; i++) {
        w.view.waits[i] = (ptoi_wait){.next = i ? i - 1 : PTOI_LIST_EMPTY};
    }
}

/* Some word of one of the arrays that a task is made of. */
static void change(test_rng *rng)
{
    const uint32_t level = (uint32_t)test_between(rng, 0, 2);
    const ptoi_view *v = &w.view;
    const ptoi_view_level *l = &v->level[level];
    const struct {
        void *begin;
        uint64_t bytes;
    } arrays[] = {{l->slots, (l->mask + UINT64_C(1)) * sizeof *l->slots},
                  {l->deps, l->n_deps * sizeof *l->deps},
                  {l->args, 12 * sizeof *l->args},
                  {v->descs, 3 * PTOI_DESC_UNIT},
                  {v->waits, v->n_slots * sizeof *v->waits}};
    const int which = (int)test_between(rng, 0, 4);
    const uint64_t at = (uint64_t)test_between(rng, 0, (int64_t)arrays[which].bytes / 4 - 2) * 4;
    uint64_t value;
    char *place = (char *)arrays[which].begin + at;
    memcpy(&value, place, sizeof value);
    switch (test_between(rng, 0, 3)) {
    case 0:
        value = UINT64_C(1) << test_between(rng, 0, 63);
        break;
    case 1:
        value = UINT64_MAX >> test_between(rng, 0, 63);
        break;
    case 2:
        value += (uint64_t)test_between(rng, -70, 70);
        break;
    default:
        value = (uint64_t)test_between(rng, 0, UINT32_MAX);
        break;
    }
    memcpy(place, &value, test_between(rng, 0, 1) ? 8 : 4);
}

/* Every element of a tensor lies in its segment. */
static void expect_tensor_inside(const ptoi_arg_desc *arg)
{
    const ptoi_view *v = &w.view;
    const ptoi_desc *desc = ptoi_arg_layout(v, arg);
    const int64_t size = (int64_t)pto_dtype_size(desc->dtype);
    int64_t low = (int64_t)arg->value, high = (int64_t)arg->value + size;
    for (int32_t d = 0; d < desc->ndim; d++) {
        if (desc->dims[d] == 0) {
            return;
        }
        const int64_t reach = (desc->dims[d] - 1) * desc->dims[desc->ndim + d] * size;
        *(reach < 0 ? &low : &high) += reach;
    }
    assert_true(low >= 0 && (uint64_t)high <= v->segment_bytes[arg->segment]);
    assert_non_null(v->base[arg->segment]);
}

static void use(uint32_t index)
{
    const ptoi_view *v = &w.view;
    const ptoi_slot *slot = &v->slots[index];
    const uint32_t level = ptoi_slot_header_of(slot).level;
    assert_true(level < v->levels);
    const ptoi_view_level *l = &v->level[level];
    const ptoi_arg_desc *arg = l->args + slot->args;
    for (uint32_t i = 0; i < slot->n_args; i++, arg = ptoi_arg_next(arg)) {
        assert_true(arg >= l->args && arg < l->args + l->n_args);
        if (!ptoi_arg_is_scalar(arg)) {
            expect_tensor_inside(arg);
        }
    }
    assert_true(slot->deps + (uint64_t)slot->fanin <= l->n_deps);
    ptoi_step_begin(v, index);
    (void)ptoi_step_resolve(v, index, 0);
}

/* Waits are read before they are resolved, so every task of a whole list is in the window. */
static void walk(uint32_t first)
{
    const uint32_t list = ptoi_step_oldest_first(&w.view, first);
    uint32_t steps = 0;
    for (uint32_t i = list; i < w.view.n_slots; i = w.view.waits[i].next) {
        assert_true(++steps <= w.view.n_slots);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    test_rng rng = test_rng_from(data, size);
    if (!w.view.header) {
        window_make_shared(&w, 4096);
    }
    while (!test_rng_is_spent(&rng)) {
        memset(w.view.states, 0, w.view.n_slots * sizeof *w.view.states);
        prepare();
        for (int64_t changes = test_between(&rng, 0, 4); changes > 0; changes--) {
            change(&rng);
        }
        const uint32_t index = test_between(&rng, 0, 7)
                                   ? (uint32_t)test_between(&rng, 0, w.view.n_slots - 1)
                                   : (uint32_t)test_between(&rng, 0, UINT32_MAX);
        if (ptoi_task_is_sound(&w.view, index)) {
            use(index);
        }
        walk((uint32_t)test_between(&rng, 0, w.view.n_slots));
    }
    return 0;
}
