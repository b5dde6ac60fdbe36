/* test_attention.c - the kernels of attention: each set of instructions against softmax in double
 * precision, in odd sizes, with any strides and masks; scores that are no numbers any more; and
 * what the kernels refuse. */
#include "attention_kernels.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "support.h"

/* Rounding of sums of at most 150 numbers of size 1, with a margin. */
#define ALLOWED 1e-5

static float *make(test_rng *rng, int64_t n, double largest)
{
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(largest * (double)test_between(rng, -10000, 10000) / 10000);
    }
    return x;
}

/* ---- Against softmax by the book ------------------------------------------------------------- */

static void reference(const attention_block *b, int64_t position, int64_t head, double *out)
{
    const float *q = b->q + position * b->q_position + head * b->q_head;
    const bool all = b->visible == ATTENTION_ALL || b->visible + position > b->keys;
    const int64_t seen = all ? b->keys : b->visible + position;
    double score[200], largest = -INFINITY, sum = 0;
    memset(out, 0, (size_t)b->dim * sizeof *out);
    for (int64_t j = 0; j < seen; j++) {
        score[j] = 0;
        for (int64_t d = 0; d < b->dim; d++) {
            score[j] += (double)q[d] * (double)b->k[j * b->k_key + d * b->k_dim];
        }
        score[j] *= (double)b->scale;
        largest = fmax(largest, score[j]);
    }
    for (int64_t j = 0; j < seen; j++) {
        const double weight = exp(score[j] - largest);
        sum += weight;
        for (int64_t d = 0; d < b->dim; d++) {
            out[d] += weight * (double)b->v[j * b->v_key + d];
        }
    }
    for (int64_t d = 0; d < b->dim && seen > 0; d++) {
        out[d] /= sum;
    }
}

static void compare(const attention_block *b, const float *state)
{
    const int64_t row = b->heads * b->dim;
    float *out = malloc((size_t)(b->positions * row) * sizeof *out);
    assert_non_null(out);
    attention_finish(b->positions, b->heads, b->dim, state, b->state_row, out, row, b->dim);
    for (int64_t i = 0; i < b->positions * b->heads; i++) {
        double want[ATTENTION_MAX_DIM];
        reference(b, i / b->heads, i % b->heads, want);
        for (int64_t d = 0; d < b->dim; d++) {
            const double error = fabs(want[d] - (double)out[i * b->dim + d]);
            if (!(error < ALLOWED)) {
                fail_msg("%lld positions, %lld heads, %lld keys, dim %lld: error %g",
                         (long long)b->positions, (long long)b->heads, (long long)b->keys,
                         (long long)b->dim, error);
            }
        }
    }
    free(out);
}

/* The block in two pieces, one after the other or each into a state of its own. */
static void attend_in_two(size_t isa, const attention_block *b, int64_t cut, float *other)
{
    const int64_t rows = b->positions * b->heads;
    attention_block left = *b, right = *b;
    left.keys = cut;
    right.keys -= cut;
    right.k += cut * b->k_key;
    right.v += cut * b->v_key;
    right.visible -= b->visible == ATTENTION_ALL ? 0 : cut;
    attention_begin(rows, b->dim, b->state, b->state_row);
    attention_attend_with(isa, &left);
    if (other) {
        right.state = other;
        attention_begin(rows, b->dim, other, b->state_row);
    }
    attention_attend_with(isa, &right);
    if (other) {
        attention_merge(rows, b->dim, b->state, b->state_row, other, b->state_row);
    }
}

static void any_block_is_softmax(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t round = test_effort(400); round > 0; round--) {
        attention_block b = {
            .positions = test_between(&rng, 1, 7),
            .heads = test_between(&rng, 1, 5),
            .keys = test_between(&rng, 0, 150),
            .dim = test_between(&rng, 1, 70),
            .scale = 0.25F,
            .visible = test_between(&rng, 0, 2) ? test_between(&rng, -8, 150) : ATTENTION_ALL,
        };
        const int64_t rows = b.positions * b.heads, gap = test_between(&rng, 0, 3);
        b.q_head = b.dim + gap;
        b.q_position = b.heads * b.q_head + gap;
        b.v_key = b.dim + gap;
        b.k_key = test_between(&rng, 0, 1) ? 1 : b.dim + gap; /* turned, or not */
        b.k_dim = b.k_key == 1 ? b.keys + gap : 1;
        b.state_row = attention_width(b.dim) + gap;
        float *q = make(&rng, b.positions * b.q_position, 4);
        float *k = make(&rng, (b.keys + gap) * (b.dim + gap), 1);
        float *v = make(&rng, b.keys * b.v_key, 1);
        b.q = q;
        b.k = k;
        b.v = v;
        float *other = make(&rng, rows * b.state_row, 1);
        b.state = make(&rng, rows * b.state_row, 1);
        for (size_t isa = 0; attention_isa_at(isa); isa++) {
            attention_begin(rows, b.dim, b.state, b.state_row);
            attention_attend_with(isa, &b);
            compare(&b, b.state);
            attend_in_two(isa, &b, test_between(&rng, 0, b.keys), NULL);
            compare(&b, b.state);
            attend_in_two(isa, &b, test_between(&rng, 0, b.keys), other);
            compare(&b, b.state);
        }
        free(q);
        free(k);
        free(v);
        free(other);
        free(b.state);
    }
}

/* How keys lie in memory changes no bit. */
static void strides_do_not_matter(void **state)
{
    (void)state;
    enum { KEYS = 48, DIM = 40, WIDTH = 48 };
    test_rng rng = test_rng_make(test_seed());
    float *q = make(&rng, 3 * DIM, 4), *k = make(&rng, KEYS * DIM, 1),
          *v = make(&rng, KEYS * DIM, 1);
    float turned[DIM * KEYS], one[3 * WIDTH], two[3 * WIDTH];
    for (int i = 0; i < KEYS * DIM; i++) {
        turned[i % DIM * KEYS + i / DIM] = k[i];
    }
    attention_block b = {.positions = 1,
                         .heads = 3,
                         .keys = KEYS,
                         .dim = DIM,
                         .q = q,
                         .q_head = DIM,
                         .v = v,
                         .v_key = DIM,
                         .visible = ATTENTION_ALL,
                         .scale = 0.3F,
                         .state_row = WIDTH};
    for (size_t isa = 0; attention_isa_at(isa); isa++) {
        b.k = k, b.k_key = DIM, b.k_dim = 1, b.state = one;
        attention_begin(3, DIM, one, WIDTH);
        attention_attend_with(isa, &b);
        b.k = turned, b.k_key = 1, b.k_dim = KEYS, b.state = two;
        attention_begin(3, DIM, two, WIDTH);
        attention_attend_with(isa, &b);
        assert_memory_equal(one, two, sizeof one);
    }
    free(q);
    free(k);
    free(v);
}

/* ---- Large and lost -------------------------------------------------------------------------- */

/* One query 1e20 long looks at keys of one dim, whose values are their numbers. */
static float ask(size_t isa, const float *k, int64_t keys, int64_t visible, float scale)
{
    const float q = 1e20F;
    float v[100], states[2][16], out;
    for (int64_t j = 0; j < keys; j++) {
        v[j] = (float)j;
    }
    attention_block b = {.positions = 1,
                         .heads = 1,
                         .keys = keys,
                         .dim = 1,
                         .q = &q,
                         .k = k,
                         .k_key = 1,
                         .k_dim = 1,
                         .v = v,
                         .v_key = 1,
                         .visible = visible,
                         .scale = scale,
                         .state = states[0],
                         .state_row = 16};
    attend_in_two(isa, &b, keys / 2, states[1]);
    attention_finish(1, 1, 1, states[0], 16, &out, 1, 1);
    return out;
}

static void large_scores_give_numbers(void **state)
{
    (void)state;
    float k[100] = {0};
    for (size_t isa = 0; attention_isa_at(isa); isa++) {
        k[3] = 1e30F; /* its score overflows, and is far above all others */
        assert_true(ask(isa, k, 100, ATTENTION_ALL, 1) == 3.0F);
        k[80] = 1e30F; /* as large */
        assert_true(ask(isa, k, 100, ATTENTION_ALL, 1) == 41.5F);
        assert_true(ask(isa, k, 100, 80, 1) == 3.0F);
        k[80] = 0;
        k[3] = -1e30F; /* -inf: the others are alike */
        assert_true(fabsf(ask(isa, k, 5, ATTENTION_ALL, 1) - 1.75F) < 1e-6F);
        k[3] = 3e18F; /* finite, and as large as can be */
        assert_true(ask(isa, k, 100, ATTENTION_ALL, 1) == 3.0F);
        k[3] = 0;
        assert_true(fabsf(ask(isa, k, 100, 50, 0) - 24.5F) < 1e-4F); /* hidden stays hidden */
    }
}

static void who_sees_nothing_gets_zero(void **state)
{
    (void)state;
    float k[100] = {0}, lost[3] = {-1e30F, -1e30F, -1e30F};
    for (size_t isa = 0; attention_isa_at(isa); isa++) {
        assert_true(ask(isa, k, 100, 0, 1) == 0);
        assert_true(ask(isa, k, 100, INT64_MIN / 2, 1) == 0);
        assert_true(ask(isa, k, 0, ATTENTION_ALL, 1) == 0);
        assert_true(ask(isa, lost, 3, ATTENTION_ALL, 1) == 0); /* all scores are -inf */
        k[7] = NAN; /* but what is no number is not lost */
        assert_true(isnan(ask(isa, k, 100, ATTENTION_ALL, 1)));
        k[7] = 0;
    }
}

/* ---- As kernels ------------------------------------------------------------------------------ */

static void kernels_refuse_what_does_not_fit(void **state)
{
    (void)state;
    float memory[400] = {0};
    pto_runtime *rt;
    attention_kernels kernels;
    pto_tensor q, k, v, odd, good, bad, out;
    assert_int_equal(pto_runtime_create(&rt, NULL), PTO_OK);
    assert_int_equal(attention_register(rt, &kernels), PTO_OK);
    assert_int_equal(pto_external_tensor(rt, memory, PTO_FLOAT32, 3, (int64_t[]){1, 2, 8}, &q), 0);
    assert_int_equal(pto_external_tensor(rt, memory + 16, PTO_FLOAT32, 2, (int64_t[]){4, 8}, &k),
                     0);
    assert_int_equal(pto_external_tensor(rt, memory + 48, PTO_FLOAT32, 2, (int64_t[]){4, 8}, &v),
                     0);
    assert_int_equal(pto_external_tensor(rt, memory + 80, PTO_FLOAT32, 2, (int64_t[]){3, 8}, &odd),
                     0);
    assert_int_equal(
        pto_external_tensor(rt, memory + 110, PTO_FLOAT32, 2, (int64_t[]){2, 16}, &good), 0);
    assert_int_equal(
        pto_external_tensor(rt, memory + 150, PTO_FLOAT32, 2, (int64_t[]){3, 16}, &bad), 0);
    assert_int_equal(
        pto_external_tensor(rt, memory + 200, PTO_FLOAT32, 3, (int64_t[]){1, 2, 8}, &out), 0);
    const struct {
        pto_kernel kernel;
        size_t n;
        pto_param params[6];
        const char *words; /* NULL: all is well */
    } cases[] = {
#define ATTEND(n, state, q, k, v, words)                                                           \
    {kernels.first,                                                                                \
     n,                                                                                            \
     {pto_output(&(state)), pto_input(&(q)), pto_scalar(1.0), pto_scalar(4), pto_input(&(k)),      \
      pto_input(&(v))},                                                                            \
     words}
        ATTEND(6, good, q, k, v, NULL),
        ATTEND(5, good, q, k, v, "5 arguments"),
        ATTEND(6, good, k, k, v, "q must be"),
        ATTEND(6, bad, q, k, v, "float32 [2, 16]"),
        ATTEND(6, good, q, k, odd, "arguments 4 and 5"),
        ATTEND(6, good, q, q, v, "arguments 4 and 5"),
        {kernels.merge, 2, {pto_inout(&good), pto_input(&bad)}, "two states"},
        {kernels.merge, 2, {pto_inout(&k), pto_input(&v)}, "two states"},
        {kernels.finish, 2, {pto_input(&bad), pto_output(&out)}, "as many rows"},
        {kernels.finish, 2, {pto_input(&good), pto_output(&out)}, NULL},
#undef ATTEND
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pto_submit_task(rt, cases[i].kernel, PTO_KERNEL_TYPE, cases[i].params,
                                         cases[i].n, NULL),
                         PTO_OK);
        assert_int_equal(pto_wait(rt), cases[i].words ? PTO_TASK_FAILED : PTO_OK);
        if (cases[i].words && !strstr(pto_error_detail(), cases[i].words)) {
            fail_msg("case %zu: '%s' is not in: %s", i, cases[i].words, pto_error_detail());
        }
        assert_int_equal(pto_clear_error(rt), PTO_OK);
    }
    assert_int_equal(pto_runtime_destroy(&rt, PTO_WAIT), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_block_is_softmax),
        cmocka_unit_test(strides_do_not_matter),
        cmocka_unit_test(large_scores_give_numbers),
        cmocka_unit_test(who_sees_nothing_gets_zero),
        cmocka_unit_test(kernels_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
