/* chains.h - views of views, against a table of the places of all elements. */
#ifndef PTO_TEST_CHAINS_H
#define PTO_TEST_CHAINS_H

#include "tensors.h"

enum { CHAIN_MOST = 2048 };

/* Where each element is, in row-major order of the index: what the ops do, without strides. */
typedef struct chain_model {
    int32_t ndim;
    int64_t shape[PTO_MAX_DIMS];
    int64_t at[CHAIN_MOST];
} chain_model;

static inline int64_t chain_place(const chain_model *m, const int64_t *index)
{
    int64_t linear = 0;
    for (int32_t d = 0; d < m->ndim; d++) {
        linear = linear * m->shape[d] + index[d];
    }
    return m->at[linear];
}

static inline void chain_model_of(const pto_tensor *t, chain_model *m)
{
    int64_t index[PTO_MAX_DIMS] = {0}, k = 0;
    m->ndim = t->ndim;
    memcpy(m->shape, t->shape, sizeof m->shape);
    if (count_of(m->ndim, m->shape)) {
        do {
            m->at[k++] = place_of(t, index);
        } while (next_index(t->ndim, t->shape, index));
    }
}

static inline void chain_expect(const pto_tensor *t, const chain_model *m)
{
    int64_t index[PTO_MAX_DIMS] = {0}, k = 0;
    expect_ok(pto_tensor_check(t));
    assert_int_equal(t->ndim, m->ndim);
    for (int32_t d = 0; d < PTO_MAX_DIMS; d++) {
        assert_int_equal(t->shape[d], d < m->ndim ? m->shape[d] : 0);
        assert_true(d < m->ndim || t->strides[d] == 0);
    }
    int64_t count = count_of(m->ndim, m->shape);
    assert_int_equal(pto_tensor_numel(t), count);
    bool contiguous = true;
    if (count) {
        do {
            assert_int_equal(place_of(t, index), m->at[k]);
            contiguous = contiguous && m->at[k] == m->at[0] + k;
            k++;
        } while (next_index(m->ndim, m->shape, index));
    }
    assert_int_equal(pto_tensor_is_contiguous(t), contiguous);
}

static inline pto_status chain_view(test_rng *rng, pto_tensor *t, chain_model *m)
{
    chain_model old = *m;
    int64_t start[PTO_MAX_DIMS], index[PTO_MAX_DIMS] = {0}, from[PTO_MAX_DIMS] = {0}, k = 0;
    for (int32_t d = 0; d < m->ndim; d++) {
        start[d] = test_chance(rng, 50) ? 0 : test_between(rng, 0, m->shape[d]);
        m->shape[d] -= start[d];
        if (test_chance(rng, 30)) {
            m->shape[d] = test_between(rng, m->shape[d] > 1, m->shape[d]);
        }
    }
    if (count_of(m->ndim, m->shape)) {
        do {
            for (int32_t d = 0; d < m->ndim; d++) {
                from[d] = start[d] + index[d];
            }
            m->at[k++] = chain_place(&old, from);
        } while (next_index(m->ndim, m->shape, index));
    }
    return pto_tensor_view(t, start, m->shape, t);
}

static inline pto_status chain_slice(test_rng *rng, pto_tensor *t, chain_model *m)
{
    if (!m->ndim) {
        return PTO_OK;
    }
    chain_model old = *m;
    int32_t dim = (int32_t)test_between(rng, 0, m->ndim - 1);
    int64_t step = test_between(rng, 1, 3), size = m->shape[dim], picked = 0;
    int64_t start = test_between(rng, 0, size ? (size - 1) / 2 : 0);
    int64_t stop = test_between(rng, start, size), index[PTO_MAX_DIMS] = {0}, k = 0;
    if (test_chance(rng, 50)) {
        int64_t last = start - 1;
        start = stop - 1;
        stop = last;
        step = -step;
    }
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
        picked++;
    }
    m->shape[dim] = picked;
    if (count_of(m->ndim, m->shape)) {
        do {
            int64_t from[PTO_MAX_DIMS] = {0};
            memcpy(from, index, sizeof from);
            from[dim] = start + index[dim] * step;
            m->at[k++] = chain_place(&old, from);
        } while (next_index(m->ndim, m->shape, index));
    }
    return pto_tensor_slice(t, dim, start, stop, step, t);
}

static inline pto_status chain_permute(test_rng *rng, pto_tensor *t, chain_model *m)
{
    chain_model old = *m;
    int32_t perm[PTO_MAX_DIMS];
    int64_t index[PTO_MAX_DIMS] = {0}, from[PTO_MAX_DIMS] = {0}, k = 0;
    for (int32_t d = 0; d < m->ndim; d++) {
        perm[d] = d;
    }
    int32_t swaps = test_chance(rng, 50) && m->ndim ? 1 : m->ndim;
    int32_t d0 = 0, d1 = 0;
    for (int32_t i = 0; i < swaps; i++) {
        d0 = (int32_t)test_between(rng, 0, m->ndim - 1);
        d1 = (int32_t)test_between(rng, 0, m->ndim - 1);
        int32_t kept = perm[d0];
        perm[d0] = perm[d1];
        perm[d1] = kept;
    }
    for (int32_t d = 0; d < m->ndim; d++) {
        m->shape[d] = old.shape[perm[d]];
    }
    if (count_of(m->ndim, m->shape)) {
        do {
            for (int32_t d = 0; d < m->ndim; d++) {
                from[perm[d]] = index[d];
            }
            m->at[k++] = chain_place(&old, from);
        } while (next_index(m->ndim, m->shape, index));
    }
    return swaps == 1 ? pto_tensor_transpose(t, d0, d1, t) : pto_tensor_permute(t, perm, t);
}

static inline pto_status chain_broadcast(test_rng *rng, pto_tensor *t, chain_model *m)
{
    chain_model old = *m;
    int32_t added = (int32_t)test_between(rng, 0, m->ndim < 3 ? 2 : PTO_MAX_DIMS - m->ndim);
    int64_t count = count_of(m->ndim, m->shape), index[PTO_MAX_DIMS] = {0}, k = 0;
    m->ndim += added;
    for (int32_t d = 0; d < m->ndim; d++) {
        int64_t times = test_between(rng, 1, 3);
        m->shape[d] = d < added ? 1 : old.shape[d - added];
        if (m->shape[d] == 1 && count * times <= CHAIN_MOST / 4) {
            m->shape[d] = times;
            count *= times;
        }
    }
    if (count) {
        do {
            int64_t from[PTO_MAX_DIMS] = {0};
            for (int32_t d = added; d < m->ndim; d++) {
                from[d - added] = old.shape[d - added] == 1 ? 0 : index[d];
            }
            m->at[k++] = chain_place(&old, from);
        } while (next_index(m->ndim, m->shape, index));
    }
    return pto_tensor_broadcast(t, m->ndim, m->shape, t);
}

/* Two neighbours become one, or a size of 2n becomes n and 2, or a 1 comes in somewhere. Where this
 * would need a copy (test_reshape.c knows exactly when) the chain goes on as it was. */
static inline pto_status chain_reshape(test_rng *rng, pto_tensor *t, chain_model *m)
{
    chain_model old = *m;
    int64_t shape[PTO_MAX_DIMS + 2] = {0};
    int32_t n = 0, where = (int32_t)test_between(rng, 0, m->ndim);
    for (int32_t d = 0; d < m->ndim; d++) {
        if (d == where && test_chance(rng, 30)) {
            shape[n++] = 1;
        }
        if (d == where && d + 1 < m->ndim && test_chance(rng, 40)) {
            shape[n++] = m->shape[d] * m->shape[d + 1];
            d++;
        } else if (d == where && m->shape[d] && m->shape[d] % 2 == 0) {
            shape[n++] = m->shape[d] / 2;
            shape[n++] = 2;
        } else {
            shape[n++] = m->shape[d];
        }
    }
    if (n > PTO_MAX_DIMS) {
        return PTO_OK;
    }
    m->ndim = n;
    memcpy(m->shape, shape, (size_t)n * sizeof shape[0]);
    pto_status s = pto_tensor_reshape(t, n, shape, t);
    if (s == PTO_NEEDS_COPY) {
        *m = old;
        return PTO_OK;
    }
    return s;
}

/* One more view of the view, the same to the table, and a comparison. */
static inline void chain_step(test_rng *rng, pto_tensor *t, chain_model *m)
{
    static pto_status (*const ops[])(test_rng *, pto_tensor *, chain_model *) = {
        chain_view, chain_slice, chain_permute, chain_broadcast, chain_reshape};
    expect_ok(ops[test_between(rng, 0, 4)](rng, t, m));
    chain_expect(t, m);
}

#endif /* PTO_TEST_CHAINS_H */
