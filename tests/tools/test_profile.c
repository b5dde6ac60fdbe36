/* test_profile.c - the critical path of a profile, against one found by comparing all pairs of
 * tasks. */
#include "profile.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "support.h"

enum { TASKS = 60, PARAMS = 4, MEMORY = 48, WORKERS = 5, NODEP = 8 };

typedef struct access {
    int64_t begin, end, step;
    bool writes;
} access;

typedef struct model {
    access accesses[TASKS][PARAMS];
    int n_accesses[TASKS], after[TASKS]; /* -1: after none */
    uint64_t time[TASKS], path[TASKS];
} model;

static pto_task number_of(int i)
{
    return (pto_task)i * 8 + 3; /* gaps between them, as those of the runtime have */
}

static bool shares_a_byte(const access *a, const access *b)
{
    for (int64_t i = a->begin; i < a->end; i += a->step) {
        for (int64_t j = b->begin; j < b->end; j += b->step) {
            if (i == j) {
                return true;
            }
        }
    }
    return false;
}

static bool must_wait(const model *m, int later, int earlier)
{
    for (int i = 0; i < m->n_accesses[later]; i++) {
        for (int j = 0; j < m->n_accesses[earlier]; j++) {
            const access *a = &m->accesses[later][i], *b = &m->accesses[earlier][j];
            if ((a->writes || b->writes) && shares_a_byte(a, b)) {
                return true;
            }
        }
    }
    return m->after[later] == earlier;
}

static uint64_t longest(model *m, int tasks)
{
    uint64_t most = 0;
    for (int i = 0; i < tasks; i++) {
        m->path[i] = 0;
        for (int j = 0; j < i; j++) {
            if (m->path[j] > m->path[i] && must_wait(m, i, j)) {
                m->path[i] = m->path[j];
            }
        }
        m->path[i] += m->time[i];
        most = m->path[i] > most ? m->path[i] : most;
    }
    return most;
}

/* A task with views of the memory as parameters, passed to the watcher and added to the model. */
static void submit(const pto_watcher *w, model *m, test_rng *rng, unsigned char *memory, int i)
{
    static const pto_param_kind kinds[] = {PTO_PARAM_INPUT, PTO_PARAM_OUTPUT, PTO_PARAM_INOUT};
    pto_tensor whole, views[PARAMS];
    pto_param params[PARAMS + 2];
    size_t n = 0;
    assert_int_equal(
        pto_tensor_init(&whole, memory, MEMORY, PTO_UINT8, 1, (int64_t[]){MEMORY}, NULL, 0),
        PTO_OK);
    m->n_accesses[i] = 0;
    m->after[i] = -1;
    for (int64_t k = test_between(rng, 0, PARAMS) - 1; k >= 0; k--) {
        access a = {.begin = test_between(rng, 0, MEMORY - 1), .step = test_between(rng, 1, 4)};
        a.end = test_between(rng, a.begin + 1, a.begin + 8 < MEMORY ? a.begin + 8 : MEMORY);
        assert_int_equal(pto_tensor_slice(&whole, 0, a.begin, a.end, a.step, &views[k]), PTO_OK);
        const pto_param_kind kind = kinds[test_between(rng, 0, 2)];
        pto_param p = pto_input(&views[k]);
        p.kind = kind;
        a.writes = kind != PTO_PARAM_INPUT;
        if (test_between(rng, 1, NODEP) == 1) {
            p = pto_nodep(p);
        } else {
            m->accesses[i][m->n_accesses[i]++] = a;
        }
        params[n++] = p;
    }
    if (i && test_between(rng, 1, 5) == 1) {
        m->after[i] = (int)test_between(rng, 0, i - 1);
        params[n++] = pto_after(number_of(m->after[i]));
    }
    params[n++] = pto_scalar(1.5);
    w->submitted(w->user, number_of(i), i % 3 ? "often" : "seldom", params, n);
}

static void test_random_graphs(void **state)
{
    test_rng rng = test_rng_make(test_seed());
    unsigned char memory[MEMORY];
    (void)state;
    for (uint64_t round = 0; round < test_effort(200); round++) {
        static model m;
        profile *p;
        profile_report r;
        uint64_t busy[WORKERS] = {0}, seldom = 0, on_path = 0;
        assert_int_equal(profile_create(&p, TASKS), PTO_OK);
        const pto_watcher w = profile_watcher(p);
        for (int i = 0; i < TASKS; i++) {
            const int64_t worker = test_between(&rng, 0, WORKERS - 1);
            const uint64_t begin = test_next(&rng) >> 8;
            m.time[i] = (uint64_t)test_between(&rng, 0, 1000);
            busy[worker] += m.time[i];
            seldom += i % 3 ? 0 : m.time[i];
            submit(&w, &m, &rng, memory, i);
            profile_add(p, (uint32_t)worker, number_of(i), begin, begin + m.time[i]);
        }
        assert_int_equal(profile_finish(p, &r), PTO_OK);
        assert_int_equal(r.tasks, TASKS);
        assert_int_equal(r.path, longest(&m, TASKS));
        assert_true(r.n_workers <= WORKERS);
        for (uint32_t i = 0; i < WORKERS; i++) {
            assert_int_equal(r.busy[i], busy[i]);
        }
        assert_int_equal(r.n_kernels, 2);
        assert_true(r.kernels[0].time >= r.kernels[1].time);
        for (size_t i = 0; i < r.n_kernels; i++) {
            const bool is_seldom = !strcmp(r.kernels[i].name, "seldom");
            assert_int_equal(r.kernels[i].calls, is_seldom ? TASKS / 3 : TASKS - TASKS / 3);
            assert_int_equal(r.kernels[i].time, is_seldom ? seldom : r.busy_total - seldom);
            on_path += r.kernels[i].on_path;
        }
        assert_int_equal(on_path, r.path_tasks);
        profile_destroy(&p);
        assert_null(p);
    }
}

/* A task that a later write covers is done with: the map forgets it, the path does not. */
static void test_chain(void **state)
{
    enum { LONG = 5000 };
    unsigned char memory[8];
    const int64_t shape[] = {8};
    pto_tensor t;
    profile *p;
    profile_report r;
    (void)state;
    assert_int_equal(pto_tensor_init(&t, memory, 8, PTO_UINT8, 1, shape, NULL, 0), PTO_OK);
    assert_int_equal(profile_create(&p, LONG), PTO_OK);
    const pto_watcher w = profile_watcher(p);
    for (int i = 0; i < LONG; i++) {
        const pto_param param = pto_inout(&t);
        w.submitted(w.user, number_of(i), "step", &param, 1);
        profile_add(p, 0, number_of(i), 10, 12);
    }
    assert_int_equal(profile_finish(p, &r), PTO_OK);
    assert_int_equal(r.path, 2 * LONG);
    assert_int_equal(r.path_tasks, LONG);
    profile_destroy(&p);
}

/* More accesses than expected: this is reported, and no wrong value is. */
static void test_too_many(void **state)
{
    static unsigned char memory[8192];
    const int64_t shape[] = {1};
    profile *p;
    profile_report r;
    (void)state;
    assert_int_equal(profile_create(&p, 1), PTO_OK);
    const pto_watcher w = profile_watcher(p);
    for (int i = 0; i < (int)sizeof memory; i++) {
        pto_tensor t;
        assert_int_equal(pto_tensor_init(&t, memory + i, 1, PTO_UINT8, 1, shape, NULL, 0), PTO_OK);
        const pto_param param = pto_output(&t);
        w.submitted(w.user, number_of(i), "write", &param, 1);
    }
    assert_int_equal(profile_finish(p, &r), PTO_FULL);
    assert_true(strlen(pto_error_detail()) > 0);
    profile_destroy(&p);

    /* Nothing at all is fine. */
    assert_int_equal(profile_create(&p, 0), PTO_OK);
    assert_int_equal(profile_finish(p, &r), PTO_OK);
    assert_int_equal(r.tasks + r.path + r.path_tasks + r.n_workers, 0);
    profile_destroy(&p);
}

/* A call of a task that was never submitted cannot be. */
static void test_stranger(void **state)
{
    profile *p;
    profile_report r;
    (void)state;
    assert_int_equal(profile_create(&p, 1), PTO_OK);
    profile_add(p, 1, 77, 0, 1);
    assert_int_equal(profile_finish(p, &r), PTO_CORRUPT);
    profile_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_stranger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
