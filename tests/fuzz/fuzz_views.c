/* fuzz_views.c - views of views against a table of all positions (../tensor/chains.h).
 *
 * Also calls with arbitrary numbers.
 */
#include "hostile.h"

#include "../tensor/chains.h"

/* A call with any arguments is refused and leaves its output unchanged, or gives a valid tensor
 * whose bytes are among those of its source. */
static void call_anyhow(test_rng *rng, const pto_tensor *src)
{
    pto_tensor untouched, out;
    int64_t a[PTO_MAX_DIMS], b[PTO_MAX_DIMS];
    int32_t perm[PTO_MAX_DIMS];
    hostile_numbers(rng, a, PTO_MAX_DIMS);
    hostile_numbers(rng, b, PTO_MAX_DIMS);
    for (int d = 0; d < PTO_MAX_DIMS; d++) {
        perm[d] = (int32_t)b[d];
    }
    memset(&untouched, 0x5a, sizeof untouched);
    out = untouched;
    pto_status s = PTO_OK;
    switch (test_between(rng, 0, 6)) {
    case 0:
        s = pto_tensor_view(src, a, b, &out);
        break;
    case 1:
        s = pto_tensor_slice(src, (int32_t)a[0], a[1], a[2], a[3], &out);
        break;
    case 2:
        s = pto_tensor_select(src, (int32_t)a[0], a[1], &out);
        break;
    case 3:
        s = pto_tensor_permute(src, perm, &out);
        break;
    case 4:
        s = pto_tensor_transpose(src, (int32_t)a[0], (int32_t)a[1], &out);
        break;
    case 5:
        s = pto_tensor_reshape(src, (int32_t)a[0], b, &out);
        break;
    default:
        s = pto_tensor_broadcast(src, (int32_t)a[0], b, &out);
        break;
    }
    if (s != PTO_OK) {
        assert_memory_equal(&out, &untouched, sizeof out);
        return;
    }
    uint64_t low, end, out_low, out_end;
    expect_ok(pto_tensor_check(&out));
    expect_ok(pto_tensor_byte_range(src, &low, &end));
    expect_ok(pto_tensor_byte_range(&out, &out_low, &out_end));
    if (out_low < out_end) {
        assert_true(out_low >= low && out_end <= end);
    }
}

static float memory[4096];

static void try_chain(test_rng *rng)
{
    static chain_model m;
    pto_tensor t;
    if (!random_tensor(rng, 5, 300, memory, sizeof memory, &t)) {
        return;
    }
    chain_model_of(&t, &m);
    chain_expect(&t, &m);
    for (int64_t steps = test_between(rng, 1, 8); steps > 0; steps--) {
        call_anyhow(rng, &t);
        chain_step(rng, &t, &m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    test_rng rng = test_rng_from(data, size);
    while (!test_rng_is_spent(&rng)) {
        if (test_between(&rng, 0, 7) == 0) {
            const pto_tensor t = hostile_tensor(&rng, memory, sizeof memory);
            if (pto_tensor_check(&t) == PTO_OK) {
                call_anyhow(&rng, &t);
            }
        } else {
            try_chain(&rng);
        }
    }
    return 0;
}
