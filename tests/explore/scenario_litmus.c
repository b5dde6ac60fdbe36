/* scenario_litmus.c - small programs whose results are known: see test_model.c.
 *
 * Threads leave what they read, 0 or 1, in r0 to r3; the result is r0 + 2 r1 + 4 r2 + 8 r3.
 */
#include "base/atomic.h"
#include "base/os.h"
#include "litmus.h"

uint64_t litmus_seen[64];

static struct {
    ptoi_a32 x, y;
    ptoi_a32 lock;
    uint32_t plain;
    uint32_t r[4];
} * l;

static void prepare(void)
{
    l = world_memory(sizeof *l);
    world_name(&l->x, 4, 1, 4, "x");
    world_name(&l->y, 4, 1, 4, "y");
    world_name(&l->plain, 4, 1, 4, "plain");
}

/* Runs thread bodies concurrently and counts the result. */
static void together(void (*a)(void *), void (*b)(void *), void (*c)(void *), void (*e)(void *))
{
    void (*const run[])(void *) = {a, b, c, e};
    uint32_t t[4], n = 0;
    static const char *const names[] = {"A", "B", "C", "D"};
    for (; n < 4 && run[n]; n++) {
        t[n] = world_thread(names[n], run[n], NULL);
    }
    for (uint32_t i = 0; i < n; i++) {
        world_join(t[i]);
    }
    litmus_seen[(l->r[0] | l->r[1] << 1 | l->r[2] << 2 | l->r[3] << 3) & 63]++;
}

#define BODY(name, ...)                                                                            \
    static void name(void *context)                                                                \
    {                                                                                              \
        (void)context;                                                                             \
        __VA_ARGS__                                                                                \
    }
#define TEST(name, a, b, c, e)                                                                     \
    static void name(void)                                                                         \
    {                                                                                              \
        together(a, b, c, e);                                                                      \
    }
#define SET(...) (0 __VA_ARGS__)
#define ONLY(a, b) +(UINT64_C(1) << ((a) | (b) << 1))

/* Store buffering: each stores, then loads what the other stores. */
BODY(sb_relaxed_a, ptoi_set32(&l->x, 1); l->r[0] = ptoi_get32(&l->y);)
BODY(sb_relaxed_b, ptoi_set32(&l->y, 1); l->r[1] = ptoi_get32(&l->x);)
TEST(sb_relaxed, sb_relaxed_a, sb_relaxed_b, NULL, NULL)
BODY(sb_acquire_a, ptoi_release32(&l->x, 1); l->r[0] = ptoi_acquire32(&l->y);)
BODY(sb_acquire_b, ptoi_release32(&l->y, 1); l->r[1] = ptoi_acquire32(&l->x);)
TEST(sb_acquire, sb_acquire_a, sb_acquire_b, NULL, NULL)
BODY(sb_sc_a, ptoi_store_sc32(&l->x, 1); l->r[0] = ptoi_load_sc32(&l->y);)
BODY(sb_sc_b, ptoi_store_sc32(&l->y, 1); l->r[1] = ptoi_load_sc32(&l->x);)
TEST(sb_sc, sb_sc_a, sb_sc_b, NULL, NULL)

/* Message passing: r0 is the flag, r1 the message. */
BODY(mp_relaxed_a, ptoi_set32(&l->x, 1); ptoi_set32(&l->y, 1);)
BODY(mp_relaxed_b, l->r[0] = ptoi_get32(&l->y); l->r[1] = ptoi_get32(&l->x);)
TEST(mp_relaxed, mp_relaxed_a, mp_relaxed_b, NULL, NULL)
BODY(mp_a, ptoi_set32(&l->x, 1); ptoi_release32(&l->y, 1);)
BODY(mp_b, l->r[0] = ptoi_acquire32(&l->y); l->r[1] = ptoi_get32(&l->x);)
TEST(mp, mp_a, mp_b, NULL, NULL)
TEST(mp_no_acquire, mp_a, mp_relaxed_b, NULL, NULL)
TEST(mp_no_release, mp_relaxed_a, mp_b, NULL, NULL)

/* Message passing through a read-modify-write by a third thread: the release sequence goes on. */
BODY(rs_c, uint32_t one = 1; (void)ptoi_cas32(&l->y, &one, 2);)
BODY(rs_b, const uint32_t y = ptoi_acquire32(&l->y); l->r[0] = y == 2; l->r[1] = ptoi_get32(&l->x);)
TEST(rs, mp_a, rs_b, rs_c, NULL)

/* Coherence: two loads of one place do not go backwards. */
BODY(co_a, ptoi_set32(&l->x, 1);)
BODY(co_b, l->r[0] = ptoi_get32(&l->x); l->r[1] = ptoi_get32(&l->x);)
TEST(co, co_a, co_b, NULL, NULL)

/* Load buffering: each loads, then stores what the other loads. Not modelled: see world.h. */
BODY(lb_a, l->r[0] = ptoi_get32(&l->x); ptoi_set32(&l->y, 1);)
BODY(lb_b, l->r[1] = ptoi_get32(&l->y); ptoi_set32(&l->x, 1);)
TEST(lb, lb_a, lb_b, NULL, NULL)

/* Two writers, and two readers that may see them in different orders. */
BODY(iriw_a, ptoi_release32(&l->x, 1);)
BODY(iriw_b, ptoi_release32(&l->y, 1);)
BODY(iriw_c, l->r[0] = ptoi_acquire32(&l->x); l->r[1] = ptoi_acquire32(&l->y);)
BODY(iriw_d, l->r[2] = ptoi_acquire32(&l->y); l->r[3] = ptoi_acquire32(&l->x);)
TEST(iriw, iriw_a, iriw_b, iriw_c, iriw_d)
BODY(iriw_sc_a, ptoi_store_sc32(&l->x, 1);)
BODY(iriw_sc_b, ptoi_store_sc32(&l->y, 1);)
BODY(iriw_sc_c, l->r[0] = ptoi_load_sc32(&l->x); l->r[1] = ptoi_load_sc32(&l->y);)
BODY(iriw_sc_d, l->r[2] = ptoi_load_sc32(&l->y); l->r[3] = ptoi_load_sc32(&l->x);)
TEST(iriw_sc, iriw_sc_a, iriw_sc_b, iriw_sc_c, iriw_sc_d)

/* Increments are not lost, compare-and-swap happens once. */
BODY(cas_a, uint32_t none = 0; l->r[0] = ptoi_cas32(&l->x, &none, 1);)
BODY(cas_b, uint32_t none = 0; l->r[1] = ptoi_cas32(&l->x, &none, 1);)
TEST(cas, cas_a, cas_b, NULL, NULL)

#define ALL2 UINT64_C(0xf)
#define LITMUS(text, run, allowed)                                                                 \
    {                                                                                              \
        {text, "", prepare, run, false}, allowed                                                   \
    }

const litmus litmus_tests[] = {
    LITMUS("store buffering, relaxed", sb_relaxed, ALL2),
    LITMUS("store buffering, release and acquire", sb_acquire, ALL2),
    LITMUS("store buffering, sequentially consistent", sb_sc,
           SET(ONLY(0, 1) ONLY(1, 0) ONLY(1, 1))),
    LITMUS("message passing, relaxed", mp_relaxed, ALL2),
    LITMUS("message passing, release and acquire", mp, SET(ONLY(0, 0) ONLY(0, 1) ONLY(1, 1))),
    LITMUS("message passing, no acquire", mp_no_acquire, ALL2),
    LITMUS("message passing, no release", mp_no_release, ALL2),
    LITMUS("message passing through a read-modify-write", rs,
           SET(ONLY(0, 0) ONLY(0, 1) ONLY(1, 1))),
    LITMUS("coherence of two loads", co, SET(ONLY(0, 0) ONLY(0, 1) ONLY(1, 1))),
    LITMUS("load buffering", lb, SET(ONLY(0, 0) ONLY(0, 1) ONLY(1, 0))),
    LITMUS("independent reads of independent writes", iriw, UINT64_C(0xffff)),
    LITMUS("the same, sequentially consistent", iriw_sc, UINT64_C(0xffff) & ~(UINT64_C(1) << 5)),
    LITMUS("compare and swap", cas, SET(ONLY(0, 1) ONLY(1, 0))),
    {{0}, 0},
};

/* ---- Scenarios that fail ---- */

BODY(race_a, l->plain = 1;)

static void race_run(void)
{
    const uint32_t t = world_thread("A", race_a, NULL);
    l->r[0] = l->plain;
    world_join(t);
}

const scenario litmus_race = {"race", "", prepare, race_run, false};

BODY(hang_a, ptoi_os_sleep(&l->x, 0);)

static void hang_run(void)
{
    const uint32_t t = world_thread("A", hang_a, NULL);
    world_join(t);
}

const scenario litmus_hang = {"hang", "", prepare, hang_run, false};

/* Fails in one schedule of many. */
BODY(
    rare_a, for (uint32_t i = 0; i < 3; i++) { ptoi_count32(&l->x, 1); })

static void rare_run(void)
{
    const uint32_t t = world_thread("A", rare_a, NULL);
    rare_a(NULL);
    world_join(t);
    world_check(ptoi_get32(&l->x) != 2);
}

const scenario litmus_rare = {"rare", "", prepare, rare_run, false};
